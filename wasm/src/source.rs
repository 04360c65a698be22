//! Modules as they stand in `CREATE FUNCTION`: text, hexadecimal digits, or base64.

/// What every module begins with.
const MAGIC: &[u8] = b"\0asm";

/// The bytes of a module, or its text, which the compiler reads as well. Fails with what is wrong.
pub(crate) fn module(source: &str) -> Result<Vec<u8>, String> {
    let source = source.trim();
    if source.starts_with('(') || source.starts_with(";;") {
        return Ok(source.as_bytes().to_vec());
    }
    let digits = source.strip_prefix("\\x").or_else(|| source.strip_prefix("0x")).unwrap_or(source);
    let bytes = match digits.starts_with("0061736d") || digits.starts_with("0061736D") {
        true => hexadecimal(digits),
        false => base64(source),
    };
    let bytes = bytes.ok_or("it is no text of a module, no hexadecimal digits and no base64")?;
    if !bytes.starts_with(MAGIC) {
        return Err("it does not begin as a module does".to_owned());
    }
    Ok(bytes)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let digits = digits.map(|byte| (byte as char).to_digit(16)).collect::<Option<Vec<_>>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| (high * 16 + low) as u8).collect())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    for digit in digits.clone().take_while(|byte| *byte != b'=') {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = (held << 6 | u32::from(value)) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    digits.skip_while(|byte| *byte != b'=').all(|byte| byte == b'=').then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read_as_they_are_written() {
        let bytes = b"\0asm\x01\0\0\0".to_vec();
        for source in
            ["0061736d01000000", "\\x0061736D01000000", "AGFzbQEAAAA=", "AGFz\n bQEAAAA", " 0x0061736d 01000000 "]
        {
            assert_eq!(module(source), Ok(bytes.clone()), "{source}");
        }
        assert_eq!(module(" (module) "), Ok(b"(module)".to_vec()));
        for source in ["", "AGFzbQ==x", "0061736d0", "/no/such/file", "AAAA", "0061736dxy"] {
            assert!(module(source).is_err(), "{source}");
        }
    }
}
