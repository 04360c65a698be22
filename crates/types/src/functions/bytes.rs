//! Functions of byte strings (manual, section 9.5), and of texts as bytes.

use std::sync::Arc;

use datafusion_expr::ScalarUDF;
use datafusion_functions::crypto;
use diligence_base::Result;

use super::Body;
use super::catalog::Catalog;
use super::columns::{VALUE_BYTES_MAX, kernel, too_large};
use super::errors::{invalid_argument, value_error};

/// Characters of a line of base64, as MIME has them.
const BASE64_LINE: usize = 76;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    lengths(catalog);
    parts(catalog);
    bits(catalog);
    encodings(catalog);
    in_digits(catalog);
    digests(catalog);
}

pub(super) fn as_integer(number: usize) -> Result<i32> {
    i32::try_from(number).map_err(|_| too_large())
}

fn lengths(catalog: &mut Catalog) {
    catalog.add_all(
        &["length(bytea) -> integer", "octet_length(bytea) -> integer"],
        kernel!(try |a: &[u8]| as_integer(a.len())),
    );
    catalog.add("bit_length(bytea) -> integer", kernel!(try |a: &[u8]| as_integer(a.len().saturating_mul(8))));
    catalog.add(
        "bit_count(bytea) -> bigint",
        kernel!(|a: &[u8]| a.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>()),
    );
    catalog.add("||(bytea, bytea) -> bytea", kernel!(|a: &[u8], b: &[u8]| [a, b].concat()));
}

/// The bytes from a place, counted from 1, on.
fn substring(bytes: &[u8], start: i64, length: Option<i64>) -> Result<&[u8]> {
    let end = match length {
        Some(length) if length < 0 => return Err(value_error("negative substring length not allowed", "22011")),
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let clamp = |place: i64| usize::try_from((place - 1).max(0)).unwrap_or(usize::MAX).min(bytes.len());
    let (from, to) = (clamp(start), clamp(end));
    Ok(&bytes[from..to.max(from)])
}

fn overlay(bytes: &[u8], by: &[u8], start: i64, length: i64) -> Result<Vec<u8>> {
    if start <= 0 {
        return Err(value_error("negative substring length not allowed", "22011"));
    }
    let before = substring(bytes, 1, Some(start - 1))?;
    Ok([before, by, substring(bytes, start.saturating_add(length), None)?].concat())
}

fn trimmed<'a>(bytes: &'a [u8], set: &[u8], at_start: bool, at_end: bool) -> &'a [u8] {
    let is_kept = |byte: &u8| !set.contains(byte);
    let from = if at_start { bytes.iter().position(is_kept).unwrap_or(bytes.len()) } else { 0 };
    let to = if at_end { bytes.iter().rposition(is_kept).map_or(0, |last| last + 1) } else { bytes.len() };
    &bytes[from.min(to)..to]
}

fn position(bytes: &[u8], part: &[u8]) -> Result<i32> {
    if part.is_empty() {
        return Ok(1);
    }
    bytes.windows(part.len()).position(|window| window == part).map_or(Ok(0), |place| as_integer(place + 1))
}

fn parts(catalog: &mut Catalog) {
    catalog.add_all(
        &["substring(bytea, integer) -> bytea", "substr(bytea, integer) -> bytea"],
        kernel!(try |a: &[u8], start: i32| substring(a, start.into(), None)),
    );
    catalog.add_all(
        &["substring(bytea, integer, integer) -> bytea", "substr(bytea, integer, integer) -> bytea"],
        kernel!(try |a: &[u8], start: i32, length: i32| substring(a, start.into(), Some(length.into()))),
    );
    catalog.add(
        "overlay(bytea, bytea, integer) -> bytea",
        kernel!(try |a: &[u8], by: &[u8], start: i32| overlay(a, by, start.into(), by.len() as i64)),
    );
    catalog.add(
        "overlay(bytea, bytea, integer, integer) -> bytea",
        kernel!(try |a: &[u8], by: &[u8], start: i32, length: i32| overlay(a, by, start.into(), length.into())),
    );
    catalog.add("position(bytea, bytea) -> integer", kernel!(try |a: &[u8], part: &[u8]| position(a, part)));
    catalog.add_all(
        &["btrim(bytea, bytea) -> bytea", "trim(bytea, bytea) -> bytea"],
        kernel!(|a: &[u8], set: &[u8]| trimmed(a, set, true, true)),
    );
    catalog.add("ltrim(bytea, bytea) -> bytea", kernel!(|a: &[u8], set: &[u8]| trimmed(a, set, true, false)));
    catalog.add("rtrim(bytea, bytea) -> bytea", kernel!(|a: &[u8], set: &[u8]| trimmed(a, set, false, true)));
}

fn index(bytes: &[u8], place: i64, per_byte: i64) -> Result<usize> {
    let count = bytes.len() as i64 * per_byte;
    match (0..count).contains(&place) {
        true => Ok((place / per_byte) as usize),
        false => Err(value_error(format!("index {place} out of valid range, 0..{}", count - 1), "2202E")),
    }
}

fn bits(catalog: &mut Catalog) {
    catalog.add(
        "get_byte(bytea, integer) -> integer",
        kernel!(try |a: &[u8], place: i32| Ok(i32::from(a[index(a, place.into(), 1)?]))),
    );
    catalog.add(
        "set_byte(bytea, integer, integer) -> bytea",
        kernel!(try |a: &[u8], place: i32, value: i32| {
            let at = index(a, place.into(), 1)?;
            let mut bytes = a.to_vec();
            bytes[at] = value as u8;
            Ok(bytes)
        }),
    );
    catalog.add(
        "get_bit(bytea, bigint) -> integer",
        kernel!(try |a: &[u8], place: i64| Ok(i32::from(a[index(a, place, 8)?] >> (place % 8) & 1))),
    );
    catalog.add(
        "set_bit(bytea, bigint, integer) -> bytea",
        kernel!(try |a: &[u8], place: i64, value: i32| {
            let at = index(a, place, 8)?;
            let mut bytes = a.to_vec();
            match value {
                0 => bytes[at] &= !(1 << (place % 8)),
                1 => bytes[at] |= 1 << (place % 8),
                _ => return Err(invalid_argument("new bit must be 0 or 1")),
            }
            Ok(bytes)
        }),
    );
}

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
        .collect()
}

fn of_hex(text: &str) -> Result<Vec<u8>> {
    let digit = |character: char| match character.to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => Err(invalid_argument(format!("invalid hexadecimal digit: \"{character}\""))),
    };
    let digits: Vec<u8> =
        text.chars().filter(|c| !matches!(c, ' ' | '\n' | '\t' | '\r')).map(digit).collect::<Result<_>>()?;
    match digits.len() % 2 {
        0 => Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()),
        _ => Err(invalid_argument("invalid hexadecimal data: odd number of digits")),
    }
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + 8);
    let mut line = 0;
    for group in bytes.chunks(3) {
        if line == BASE64_LINE {
            text.push('\n');
            line = 0;
        }
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(letter) });
        }
        line += 4;
    }
    text
}

fn of_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0_u32, 0, 0);
    for byte in text.bytes().filter(|byte| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r')) {
        let value = match byte {
            b'=' => {
                padding += 1;
                0
            }
            _ if padding > 0 => return Err(invalid_argument("unexpected \"=\" while decoding base64 sequence")),
            byte => match BASE64.iter().position(|letter| *letter == byte) {
                Some(value) => value as u32,
                None => {
                    let message =
                        format!("invalid symbol \"{}\" found while decoding base64 sequence", char::from(byte));
                    return Err(invalid_argument(message));
                }
            },
        };
        (bits, count) = (bits << 6 | value, count + 1);
        if count == 4 {
            let group = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
            bytes.extend_from_slice(&group[..3_usize.saturating_sub(padding)]);
            (bits, count) = (0, 0);
        }
    }
    match count {
        0 => Ok(bytes),
        _ => Err(invalid_argument("invalid base64 end sequence")),
    }
}

fn to_escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0 | 0x80.. => text.push_str(&format!("\\{byte:03o}")),
            b'\\' => text.push_str("\\\\"),
            byte => text.push(char::from(*byte)),
        }
    }
    text
}

fn of_escape(text: &str) -> Result<Vec<u8>> {
    let wrong = || value_error("invalid input syntax for type bytea", "22P02");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match after {
            [b'\\', more @ ..] => {
                bytes.push(b'\\');
                rest = more;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', more @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = more;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(bytes)
}

fn unknown_encoding(name: &str) -> diligence_base::Error {
    invalid_argument(format!("unrecognized encoding: \"{name}\""))
}

/// The text of bytes in an encoding of characters.
fn decoded(bytes: &[u8], encoding: &str) -> Result<String> {
    let name = encoding.to_ascii_lowercase().replace(['-', '_'], "");
    match name.as_str() {
        "utf8" | "unicode" | "sqlascii" => String::from_utf8(bytes.to_vec())
            .map_err(|_| value_error("invalid byte sequence for encoding \"UTF8\"", "22021")),
        "latin1" | "iso88591" => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        _ => Err(invalid_argument(format!("invalid source encoding name \"{encoding}\""))),
    }
}

fn encoded(text: &str, encoding: &str) -> Result<Vec<u8>> {
    let name = encoding.to_ascii_lowercase().replace(['-', '_'], "");
    let latin = |character: char| {
        u8::try_from(u32::from(character)).map_err(|_| {
            value_error(format!("character \"{character}\" has no equivalent in encoding \"LATIN1\""), "22P05")
        })
    };
    match name.as_str() {
        "utf8" | "unicode" | "sqlascii" => Ok(text.as_bytes().to_vec()),
        "latin1" | "iso88591" => text.chars().map(latin).collect(),
        _ => Err(invalid_argument(format!("invalid destination encoding name \"{encoding}\""))),
    }
}

fn encodings(catalog: &mut Catalog) {
    catalog.add(
        "encode(bytea, text) -> text",
        kernel!(try |a: &[u8], name: &str| match name.to_ascii_lowercase().as_str() {
            _ if a.len() > VALUE_BYTES_MAX / 4 => Err(too_large()),
            "hex" => Ok(to_hex(a)),
            "base64" => Ok(to_base64(a)),
            "escape" => Ok(to_escape(a)),
            _ => Err(unknown_encoding(name)),
        }),
    );
    catalog.add(
        "decode(text, text) -> bytea",
        kernel!(try |a: &str, name: &str| match name.to_ascii_lowercase().as_str() {
            "hex" => of_hex(a),
            "base64" => of_base64(a),
            "escape" => of_escape(a),
            _ => Err(unknown_encoding(name)),
        }),
    );
    catalog.add("convert_from(bytea, name) -> text", kernel!(try |a: &[u8], name: &str| decoded(a, name)));
    catalog.add("convert_to(text, name) -> bytea", kernel!(try |a: &str, name: &str| encoded(a, name)));
    catalog.add(
        "convert(bytea, name, name) -> bytea",
        kernel!(try |a: &[u8], from: &str, to: &str| encoded(&decoded(a, from)?, to)),
    );
}

/// DuckDB's names and forms of them: digits in capitals, base64 in one line.
fn in_digits(catalog: &mut Catalog) {
    fn in_capitals(bytes: &[u8]) -> String {
        to_hex(bytes).to_uppercase()
    }
    fn in_bits(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:08b}")).collect()
    }
    catalog.add_all(&["hex(text) -> text", "to_hex(text) -> text"], kernel!(|a: &str| in_capitals(a.as_bytes())));
    catalog.add_all(&["hex(bytea) -> text", "to_hex(bytea) -> text"], kernel!(|a: &[u8]| in_capitals(a)));
    catalog.add_all(&["bin(text) -> text", "to_binary(text) -> text"], kernel!(|a: &str| in_bits(a.as_bytes())));
    catalog.add_all(&["bin(bytea) -> text", "to_binary(bytea) -> text"], kernel!(|a: &[u8]| in_bits(a)));
    catalog.add("to_binary(bigint) -> text", kernel!(|value: i64| format!("{value:b}")));
    catalog.add_all(
        &["unbin(text) -> bytea", "from_binary(text) -> bytea"],
        kernel!(try |a: &str| {
            let padded = format!("{}{a}", "0".repeat(a.len().next_multiple_of(8) - a.len()));
            let bytes = padded.as_bytes().chunks(8).map(|bits| {
                let bits = std::str::from_utf8(bits).ok()?;
                u8::from_str_radix(bits, 2).ok()
            });
            let bytes = bytes.collect::<Option<Vec<u8>>>();
            bytes.ok_or_else(|| invalid_argument(format!("\"{a}\" has other digits than 0 and 1")))
        }),
    );
    catalog.add_all(
        &["to_base64(bytea) -> text", "base64(bytea) -> text"],
        kernel!(try |a: &[u8]| match a.len() > VALUE_BYTES_MAX / 4 {
            true => Err(too_large()),
            false => Ok(to_base64(a).replace('\n', "")),
        }),
    );
    catalog.add("from_base64(text) -> bytea", kernel!(try |a: &str| of_base64(a)));
    catalog.add("encode(text) -> bytea", kernel!(|a: &str| a.as_bytes().to_vec()));
    catalog.add("decode(bytea) -> text", kernel!(try |a: &[u8]| decoded(a, "utf8")));
}

/// The digest of FIPS 180-4, which is safe against nobody any more.
pub(super) fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len() + (120 - padded.len() % 64) % 64, 0);
    padded.extend_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte));
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999_u32),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (part, change) in state.iter_mut().zip([a, b, c, d, e]) {
            *part = part.wrapping_add(change);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn digests(catalog: &mut Catalog) {
    let md5: fn() -> Arc<ScalarUDF> = crypto::md5;
    catalog.add_all(&["md5(text) -> text", "md5(bytea) -> text"], Body::DataFusion(md5));
    catalog.add("sha1(text) -> text", kernel!(|a: &str| to_hex(&sha1(a.as_bytes()))));
    catalog.add("sha1(bytea) -> text", kernel!(|a: &[u8]| to_hex(&sha1(a))));
    catalog.add("sha224(bytea) -> bytea", Body::DataFusion(crypto::sha224));
    catalog.add("sha256(bytea) -> bytea", Body::DataFusion(crypto::sha256));
    catalog.add("sha384(bytea) -> bytea", Body::DataFusion(crypto::sha384));
    catalog.add("sha512(bytea) -> bytea", Body::DataFusion(crypto::sha512));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_is_that_of_the_standard() {
        for (text, digest) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
        ] {
            assert_eq!(to_hex(&sha1(text.as_bytes())), digest);
        }
        for length in [55, 63, 64, 119, 120] {
            assert_eq!(sha1(&vec![b'a'; length]).len(), 20);
        }
    }
}
