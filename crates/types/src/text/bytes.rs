//! The text form of `bytea` and `uuid`.

use diligence_base::{Error, Result};

use super::datetime::is_space;
use super::errors;
use super::styles::BytesStyle;

/// Reads bytes: pairs of hexadecimal digits after `\x`, else characters with `\\`, `\ooo` and, as DuckDB writes them,
/// `\xff` as escapes.
pub(crate) fn parse_bytes(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) if !digits.contains('\\') => parse_hexadecimal(digits),
        _ => parse_escaped(text),
    }
}

fn parse_hexadecimal(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut first = None;
    for letter in text.chars() {
        let Some(digit) = letter.to_digit(16) else {
            if first.is_none() && u8::try_from(letter).is_ok_and(is_space) {
                continue;
            }
            return Err(Error::input(format!("invalid hexadecimal digit: \"{letter}\"")).with_code("22023"));
        };
        match first.take() {
            None => first = Some(digit),
            Some(high) => bytes.push((high * 16 + digit) as u8),
        }
    }
    match first {
        None => Ok(bytes),
        Some(_) => Err(Error::input("invalid hexadecimal data: odd number of digits").with_code("22023")),
    }
}

fn parse_escaped(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest
            }
            [b'\\', b'x', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                bytes.push(digit(high) << 4 | digit(low));
                rest
            }
            [b'\\', ..] => return Err(Error::input("invalid input syntax for type bytea").with_code("22P02")),
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

/// Writes bytes as hexadecimal digits, or as characters with `\\` and `\ooo` as escapes.
pub(crate) fn write_bytes(out: &mut String, bytes: &[u8], style: BytesStyle) {
    if style == BytesStyle::Escape {
        return write_escaped(out, bytes);
    }
    out.reserve(2 + bytes.len() * 2);
    out.push_str("\\x");
    write_hexadecimal(out, bytes);
}

fn write_escaped(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            other => {
                out.push('\\');
                out.extend([other >> 6, other >> 3 & 7, other & 7].map(|digit| char::from(b'0' + digit)));
            }
        }
    }
}

fn write_hexadecimal(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Reads a uuid in any of PostgreSQL's spellings and writes it in the usual one.
pub(crate) fn parse_uuid(text: &str, out: &mut String) -> Result<()> {
    let fail = || errors::syntax("uuid", text);
    let inside = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(fail)?,
        None => text,
    };
    let mut bytes = [0_u8; 16];
    let mut digits = 0;
    let mut may_have_hyphen = false;
    for byte in inside.bytes() {
        if byte == b'-' && may_have_hyphen {
            may_have_hyphen = false;
            continue;
        }
        let digit = char::from(byte).to_digit(16).filter(|_| digits < 32).ok_or_else(fail)?;
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit as u8;
        digits += 1;
        may_have_hyphen = digits % 4 == 0 && digits < 32;
    }
    if digits != 32 || inside.ends_with('-') {
        return Err(fail());
    }
    write_uuid(out, &bytes);
    Ok(())
}

/// Writes the sixteen bytes of a uuid.
pub(crate) fn write_uuid(out: &mut String, bytes: &[u8; 16]) {
    for (index, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if index > 0 {
            out.push('-');
        }
        write_hexadecimal(out, &bytes[part]);
    }
}
