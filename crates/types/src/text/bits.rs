//! Bit strings as texts: `101`, `b101`, `x1F`; lengths as a cast or an assignment makes them.

use diligence_base::{Error, Result};

/// The bits of a text. Fails with 22P02 for other digits.
pub(crate) fn parse_bits(text: &str) -> Result<String> {
    let wrong =
        |digit: char, kind: &str| Error::input(format!("\"{digit}\" is not a valid {kind} digit")).with_code("22P02");
    if let Some(digits) = text.strip_prefix(['x', 'X']) {
        let bits = digits.chars().map(|digit| match digit.to_digit(16) {
            Some(value) => Ok(format!("{value:04b}")),
            None => Err(wrong(digit, "hexadecimal")),
        });
        return bits.collect();
    }
    let digits = text.strip_prefix(['b', 'B']).unwrap_or(text);
    match digits.chars().find(|digit| !matches!(digit, '0' | '1')) {
        Some(digit) => Err(wrong(digit, "binary")),
        None => Ok(digits.to_owned()),
    }
}

/// Bits as `bit(length)`. Fails with 22026 for another length, unless the statement says the cast: then they are cut or
/// get zeros behind.
pub(crate) fn fit_bit(bits: String, length: Option<u32>, is_explicit: bool) -> Result<String> {
    let Some(length) = length.map(|length| length as usize).filter(|length| *length != bits.len()) else {
        return Ok(bits);
    };
    if !is_explicit {
        let message = format!("bit string length {} does not match type bit({length})", bits.len());
        return Err(Error::value(message).with_code("22026"));
    }
    let mut bits = bits;
    bits.truncate(length);
    let missing = length - bits.len();
    bits.extend(std::iter::repeat_n('0', missing));
    Ok(bits)
}

/// Bits as `bit varying(length)`. Fails with 22001 for more, unless the statement says the cast.
pub(crate) fn fit_varbit(mut bits: String, length: Option<u32>, is_explicit: bool) -> Result<String> {
    let Some(length) = length.map(|length| length as usize).filter(|length| *length < bits.len()) else {
        return Ok(bits);
    };
    if !is_explicit {
        let message = format!("bit string too long for type bit varying({length})");
        return Err(Error::value(message).with_code("22001"));
    }
    bits.truncate(length);
    Ok(bits)
}

/// The last bits of a number in two's complement.
pub(crate) fn of_integer(number: i64, length: u32) -> String {
    (0..length).rev().map(|place| if number >> place.min(63) & 1 == 1 { '1' } else { '0' }).collect()
}

/// The number that bits are, in two's complement of so many bits. Fails with 22003 if they are more.
pub(crate) fn to_integer(bits: &str, width: u32, name: &str) -> Result<i64> {
    if bits.len() > width as usize {
        return Err(Error::value(format!("{name} out of range")).with_code("22003"));
    }
    let number = bits.bytes().fold(0_u64, |number, bit| number << 1 | u64::from(bit == b'1'));
    Ok(match width {
        32 => i64::from((number as u32).cast_signed()),
        _ => number.cast_signed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_cut_and_counted() {
        assert_eq!(parse_bits("x1F").unwrap(), "00011111");
        assert_eq!(parse_bits("b10").unwrap(), "10");
        assert_eq!(parse_bits("12").unwrap_err().code(), Some("22P02"));
        assert_eq!(fit_bit("101".into(), Some(5), true).unwrap(), "10100");
        assert_eq!(fit_bit("101".into(), Some(2), false).unwrap_err().code(), Some("22026"));
        assert_eq!(fit_varbit("101".into(), Some(2), true).unwrap(), "10");
        assert_eq!(fit_varbit("101".into(), Some(2), false).unwrap_err().code(), Some("22001"));
        assert_eq!(of_integer(44, 10), "0000101100");
        assert_eq!(of_integer(-44, 12), "111111010100");
        assert_eq!(of_integer(-1, 70), "1".repeat(70));
        assert_eq!(to_integer("1110", 32, "integer").unwrap(), 14);
        assert_eq!(to_integer(&"1".repeat(32), 32, "integer").unwrap(), -1);
        assert_eq!(to_integer(&"1".repeat(65), 64, "bigint").unwrap_err().code(), Some("22003"));
    }
}
