//! `to_char`, `to_date`, `to_timestamp` and `to_number` (manual, section 9.8).
//!
//! * [`keywords`]: the patterns of dates and times, taken apart.
//! * [`dates`]: dates, times and intervals written with them, and read.
//! * [`numbers`]: numbers written with patterns of digits, and read.

mod dates;
mod keywords;
mod numbers;

pub(super) use self::dates::{ReadMoment, read_moment};
use super::catalog::Catalog;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    dates::declare(catalog);
    numbers::declare(catalog);
}

/// The English ending of an ordinal number.
fn ordinal_ending(digits: &str) -> &'static str {
    let bytes = digits.as_bytes();
    let teens = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match bytes.last() {
        Some(b'1') if !teens => "st",
        Some(b'2') if !teens => "nd",
        Some(b'3') if !teens => "rd",
        _ => "th",
    }
}
