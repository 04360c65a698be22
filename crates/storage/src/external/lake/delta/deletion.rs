//! Deletion vectors: the rows of a file that are gone, in the log itself or in a file of many.

use arrow::buffer::BooleanBuffer;
use diligence_base::{Error, Result};

use super::actions::DeletionVector;
use crate::external::lake::place::Place;
use crate::external::lake::{bitmap, unsupported};

/// The characters of 85 that a number of four bytes is written in.
const DIGITS: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Characters of the number that is a file's name.
const NAME_LENGTH: usize = 20;

/// What stands before and behind a vector in a file: its length and its checksum.
const FRAME_BYTES: u64 = 4;

/// Bytes of a vector at most.
const VECTOR_BYTES_MAX: i64 = 1024 * 1024 * 1024;

/// The rows of a file that are there: a bit for each. Fails with kind `File` if the vector is damaged.
pub(super) fn live_rows(table: &str, place: &Place, vector: &DeletionVector, rows: u64) -> Result<BooleanBuffer> {
    let damaged = |what: &str| Error::file(format!("{table}: a deletion vector cannot be read: {what}"));
    if !(0..=VECTOR_BYTES_MAX).contains(&vector.size_in_bytes) {
        return Err(damaged("its length makes no sense"));
    }
    let length = vector.size_in_bytes as u64;
    let text = &vector.path_or_inline_dv;
    let bytes = match vector.storage_type.as_str() {
        "i" => {
            let mut bytes = decode(text).ok_or_else(|| damaged("its text is none of base 85"))?;
            bytes.truncate(length as usize);
            bytes
        }
        "u" | "p" => {
            let path = match vector.storage_type.as_str() {
                "u" => file_name(text).ok_or_else(|| damaged("its file has no name"))?,
                _ => text.clone(),
            };
            let source = place.source(&path, None)?;
            let start = u64::try_from(vector.offset.unwrap_or(0)).map_err(|_| damaged("it begins nowhere"))?;
            let end = start.saturating_add(length + 2 * FRAME_BYTES);
            let framed = source.read_one_now(start..end)?;
            let (told, rest) = framed.split_at(FRAME_BYTES as usize);
            let (bytes, checksum) = rest.split_at(length as usize);
            let number = |bytes: &[u8]| bytes.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            if u64::from(number(told)) != length {
                return Err(source.error("a deletion vector has another length than the log says"));
            }
            if crc32fast::hash(bytes) != number(checksum) {
                return Err(source.error("the checksum of a deletion vector is wrong"));
            }
            bytes.to_vec()
        }
        other => return Err(unsupported(table, format!("a deletion vector stored as '{other}'"))),
    };
    let (live, gone) = bitmap::live_rows(&bytes, rows).ok_or_else(|| damaged("it is no bitmap of the file's rows"))?;
    if i64::try_from(gone) != Ok(vector.cardinality) {
        return Err(damaged("it has another number of rows than the log says"));
    }
    Ok(live)
}

/// The path of the file with a vector: a prefix, and a number in base 85.
fn file_name(text: &str) -> Option<String> {
    let (prefix, number) = text.split_at_checked(text.len().checked_sub(NAME_LENGTH)?)?;
    let number = decode(number)?;
    let digits = number.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Some(format!("{folder}deletion_vector_{}.bin", parts.join("-")))
}

/// The bytes that a text of base 85 stands for; `None` if it is none.
fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(5) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    for digits in text.as_bytes().chunks(5) {
        let mut number = 0u64;
        for digit in digits {
            number = number * 85 + DIGITS.iter().position(|known| known == digit)? as u64;
        }
        bytes.extend(u32::try_from(number).ok()?.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_85_digits() {
        assert_eq!(decode("HelloWorld").unwrap(), [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b]);
        assert_eq!(decode("Hello"), Some(vec![0x86, 0x4f, 0xd2, 0x6f]));
        assert_eq!(decode("Hell"), None);
        assert_eq!(decode("~~~~~"), None);
        assert_eq!(decode("#####"), None);
        let name = file_name("ab^-aqEH.-t@S}K{vb[*k^").unwrap();
        assert_eq!(name, "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin");
    }
}
