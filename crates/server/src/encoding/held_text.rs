//! Types whose values are held as texts and have a binary form of their own: uuid, jsonb, bit strings, times with a
//! zone, `"char"`, vectors of the catalog.

use bytes::{BufMut, BytesMut};
use diligence_base::{Error, Result};
use diligence_db::ZonedTime;

use super::cursor::malformed;

/// The version of jsonb's binary form, which stands before the text.
const JSONB_VERSION: u8 = 1;
/// Zones are less than so many seconds away from Greenwich.
const ZONE_SECONDS_MAX: i32 = 16 * 3600;
const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// Which of the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldText {
    /// `"char"`: a byte, which is zero in the place of the empty text.
    Char,
    /// `int2vector`, `oidvector`: numbers with blanks between them, counted from 0.
    Vector {
        element: u32,
        bytes: usize,
    },
    /// `time with time zone`.
    TimeTz,
    /// `bit`, `bit varying`.
    Bits,
    Uuid,
    Jsonb,
}

impl HeldText {
    /// The type with PostgreSQL's number; `None` if it is none of these.
    pub(super) fn of(oid: u32) -> Option<Self> {
        Some(match oid {
            18 => Self::Char,
            22 => Self::Vector { element: 21, bytes: 2 },
            30 => Self::Vector { element: 26, bytes: 4 },
            1266 => Self::TimeTz,
            1560 | 1562 => Self::Bits,
            2950 => Self::Uuid,
            3802 => Self::Jsonb,
            _ => return None,
        })
    }

    /// Writes a value's binary form, as PostgreSQL's `…send` function does.
    pub(super) fn write(self, text: &str, out: &mut BytesMut) {
        match self {
            Self::Char => out.put_u8(text.bytes().next().unwrap_or(0)),
            Self::Vector { element, bytes } => vector(text, element, bytes, out),
            Self::TimeTz => {
                let held = ZonedTime::held(text).unwrap_or(ZonedTime { time: 0, offset: 0 });
                out.put_i64(held.time);
                // Seconds west of Greenwich.
                out.put_i32(-held.offset);
            }
            Self::Bits => {
                out.put_i32(text.len() as i32);
                for eight in text.as_bytes().chunks(8) {
                    let byte = eight.iter().fold(0, |byte, bit| byte << 1 | (bit & 1));
                    out.put_u8(byte << (8 - eight.len()));
                }
            }
            Self::Uuid => {
                let mut bytes = [0; 16];
                let digits = text.chars().filter_map(|digit| digit.to_digit(16));
                for (place, digit) in digits.take(32).enumerate() {
                    bytes[place / 2] |= (digit as u8) << (if place % 2 == 0 { 4 } else { 0 });
                }
                out.put_slice(&bytes);
            }
            Self::Jsonb => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(text.as_bytes());
            }
        }
    }

    /// The text of a value in binary form, as PostgreSQL's `…recv` function reads it. Fails with code 22P03 if the
    /// bytes are none, 22021 if they are no text.
    pub(super) fn read(self, bytes: &[u8]) -> Result<String> {
        let text = |bytes: &[u8]| super::cursor::text(bytes).map(str::to_owned);
        match (self, bytes) {
            (Self::Char, [0]) => Ok(String::new()),
            (Self::Char, [byte]) if byte.is_ascii() => text(&[*byte]),
            (Self::Char, [byte]) => Ok(format!("\\{byte:03o}")),
            (Self::Jsonb, [JSONB_VERSION, json @ ..]) => text(json),
            (Self::Jsonb, [version, ..]) => {
                Err(Error::input(format!("unsupported jsonb version number {version}")).with_code("22P03"))
            }
            (Self::Uuid, bytes) if bytes.len() == 16 => {
                let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
            }
            (Self::TimeTz, bytes) => {
                let (time, zone) = bytes.split_first_chunk().ok_or_else(|| malformed("it is too short"))?;
                let zone = zone.try_into().map_err(|_| malformed("it has another length"))?;
                let (time, zone) = (i64::from_be_bytes(*time), i32::from_be_bytes(zone));
                let is_near = (-ZONE_SECONDS_MAX + 1..ZONE_SECONDS_MAX).contains(&zone);
                if !(0..=DAY_MICROSECONDS).contains(&time) || !is_near {
                    return Err(Error::value("time zone displacement out of range").with_code("22008"));
                }
                Ok(ZonedTime { time, offset: -zone }.text())
            }
            (Self::Bits, bytes) => {
                let (count, bits) = bytes.split_first_chunk().ok_or_else(|| malformed("it is too short"))?;
                let count = usize::try_from(i32::from_be_bytes(*count)).map_err(|_| malformed("a length"))?;
                if bits.len() != count.div_ceil(8) {
                    return Err(malformed("it has another length than it says"));
                }
                let bit = |place: usize| if bits[place / 8] >> (7 - place % 8) & 1 == 1 { '1' } else { '0' };
                Ok((0..count).map(bit).collect())
            }
            (Self::Vector { bytes: width, .. }, bytes) => {
                // Dimensions, a flag, the type of the elements, how many there are and from which number.
                const HEAD: usize = 20;
                let elements = bytes.get(HEAD..).ok_or_else(|| malformed("it is too short"))?.chunks(4 + width);
                let number = |element: &[u8]| {
                    let digits = element.get(4..4 + width).ok_or_else(|| malformed("it is too short"))?;
                    Ok(digits.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)).to_string())
                };
                Ok(elements.map(number).collect::<Result<Vec<_>>>()?.join(" "))
            }
            _ => Err(malformed("it has another length")),
        }
    }
}

/// An array of one dimension whose first element has the number 0.
fn vector(text: &str, element: u32, width: usize, out: &mut BytesMut) {
    let numbers = text.split_ascii_whitespace().filter_map(|number| number.parse::<i64>().ok());
    let numbers = numbers.collect::<Vec<_>>();
    for word in [1, 0, element as i32, numbers.len() as i32, 0] {
        out.put_i32(word);
    }
    for number in numbers {
        out.put_i32(width as i32);
        out.put_slice(&number.to_be_bytes()[8 - width..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 sends for these values, and reads.
    #[test]
    fn values_go_in_postgresqls_binary_form_and_come_back() {
        let uuid = b"\xa0\xee\xbc\x99\x9c\x0b\x4e\xf8\xbb\x6d\x6b\xb9\xbd\x38\x0a\x11";
        let vector = b"\0\0\0\x01\0\0\0\0\0\0\0\x15\0\0\0\x02\0\0\0\0\0\0\0\x02\0\x01\0\0\0\x02\0\x02";
        let oids = b"\0\0\0\x01\0\0\0\0\0\0\0\x1a\0\0\0\x01\0\0\0\0\0\0\0\x04\0\0\x07\xbb";
        for (oid, text, binary) in [
            (2950, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", &uuid[..]),
            (3802, "{\"a\": 1}", b"\x01{\"a\": 1}"),
            (1560, "101", b"\0\0\0\x03\xa0"),
            (1562, "1011", b"\0\0\0\x04\xb0"),
            (1562, "", b"\0\0\0\0"),
            (1562, "111111110", b"\0\0\0\x09\xff\0"),
            (1266, "12:00:00+01", b"\0\0\0\x0a\x0e\xeb\xb0\0\xff\xff\xf1\xf0"),
            (1266, "00:00:00.000001-03:30", b"\0\0\0\0\0\0\0\x01\0\0\x31\x38"),
            (18, "b", b"b"),
            (18, "", b"\0"),
            (22, "1 2", vector),
            (30, "1979", oids),
        ] {
            let held = HeldText::of(oid).unwrap();
            let mut out = BytesMut::new();
            held.write(text, &mut out);
            assert_eq!(out, binary, "{oid} {text}");
            assert_eq!(held.read(binary).unwrap(), text, "{oid}");
        }
        assert!(HeldText::of(25).is_none());
    }

    #[test]
    fn bytes_that_are_no_value_are_an_error() {
        for (oid, bytes) in [
            (2950, &b"\xa0\xee"[..]),
            (2950, b""),
            (3802, b"\x02{}"),
            (3802, b""),
            (3802, b"\x01\xff"),
            (1560, b"\0\0\0\x09\xff"),
            (1560, b"\0\0"),
            (1562, b"\xff\xff\xff\xff"),
            (1266, b"\0\0\0\0"),
            (1266, b"\0\0\0\0\0\0\0\x01\x7f\0\0\0"),
            (18, b""),
            (18, b"ab"),
            (22, b"\0\0"),
        ] {
            assert!(HeldText::of(oid).unwrap().read(bytes).is_err(), "{oid} {bytes:?}");
        }
    }
}
