//! Bit strings (manual, section 9.6): `bit(n)` and `bit varying`, which are held as texts of zeros and ones.
//!
//! So they compare as texts do: bit by bit, a shorter one before those that it begins.

use arrow::array::{ArrayRef, AsArray};
use diligence_base::{Error, Result};

use super::bytes::as_integer;
use super::catalog::Catalog;
use super::columns::{VALUE_BYTES_MAX, kernel};
use crate::SqlType;

/// Declares the operators and functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("||(varbit, varbit) -> varbit", kernel!(|a: &str, b: &str| [a, b].concat()));
    catalog.add("&(bit, bit) -> bit", kernel!(try |a: &str, b: &str| merged(a, b, "AND", |a, b| a & b)));
    catalog.add("|(bit, bit) -> bit", kernel!(try |a: &str, b: &str| merged(a, b, "OR", |a, b| a | b)));
    catalog.add("#(bit, bit) -> bit", kernel!(try |a: &str, b: &str| merged(a, b, "XOR", |a, b| a ^ b)));
    catalog.add("xor(bit, bit) -> bit", kernel!(try |a: &str, b: &str| merged(a, b, "XOR", |a, b| a ^ b)));
    catalog.add("~(bit) -> bit", kernel!(|a: &str| a.bytes().map(|bit| letter(bit == b'0')).collect::<String>()));
    catalog.add("<<(bit, integer) -> bit", kernel!(|a: &str, places: i32| shifted(a, i64::from(places))));
    catalog.add(">>(bit, integer) -> bit", kernel!(|a: &str, places: i32| shifted(a, -i64::from(places))));
    catalog
        .add_all(&["length(bit) -> integer", "bit_length(bit) -> integer"], kernel!(try |a: &str| as_integer(a.len())));
    catalog.add("octet_length(bit) -> integer", kernel!(try |a: &str| as_integer(a.len().div_ceil(8))));
    catalog.add("bit_count(bit) -> bigint", kernel!(|a: &str| a.bytes().filter(|bit| *bit == b'1').count() as i64));
    catalog.add(
        "substring(bit, integer) -> bit",
        kernel!(try |a: &str, start: i32| part(a, start.into(), None).map(str::to_owned)),
    );
    catalog.add(
        "substring(bit, integer, integer) -> bit",
        kernel!(try |a: &str, start: i32, length: i32| part(a, start.into(), Some(length.into())).map(str::to_owned)),
    );
    catalog.add(
        "overlay(bit, bit, integer) -> bit",
        kernel!(try |a: &str, by: &str, start: i32| overlaid(a, by, start.into(), by.len() as i64)),
    );
    catalog.add(
        "overlay(bit, bit, integer, integer) -> bit",
        kernel!(try |a: &str, by: &str, start: i32, length: i32| overlaid(a, by, start.into(), length.into())),
    );
    catalog.add(
        "position(bit, bit) -> integer",
        kernel!(try |a: &str, part: &str| as_integer(a.find(part).map_or(0, |at| at + 1))),
    );
    catalog.add(
        "get_bit(bit, integer) -> integer",
        kernel!(try |a: &str, at: i32| Ok(i32::from(a.as_bytes()[place(a, at)?] == b'1'))),
    );
    catalog.add(
        "bit_position(varbit, varbit) -> integer",
        kernel!(try |part: &str, a: &str| as_integer(a.find(part).map_or(0, |at| at + 1))),
    );
    catalog.add("bitstring(varbit, integer) -> varbit", kernel!(try |a: &str, length: i32| padded(a, length)));
    // What aggregates make of the array of a group's values.
    for (signature, bits) in [
        ("bit_and_of_values(anyarray) -> bit", kernel!(try |values: ArrayRef| folded(&values, "AND", |a, b| a & b))),
        ("bit_or_of_values(anyarray) -> bit", kernel!(try |values: ArrayRef| folded(&values, "OR", |a, b| a | b))),
        ("bit_xor_of_values(anyarray) -> bit", kernel!(try |values: ArrayRef| folded(&values, "XOR", |a, b| a ^ b))),
    ] {
        catalog.add(signature, bits).gives(|types, _| Ok(types[0].element().cloned().unwrap_or(SqlType::VarBit(None))));
    }
    catalog.add("set_bit(bit, integer, integer) -> bit", kernel!(try |a: &str, at: i32, new: i32| set(a, at, new)));
}

/// The bits of a group's values, NULL if there is none. Fails with 22026 if they are not equally many.
fn folded(values: &ArrayRef, sign: &str, one: fn(bool, bool) -> bool) -> Result<Option<String>> {
    let values = values.as_string_view_opt().ok_or_else(|| Error::bug("bits are held as texts"))?;
    let mut all: Option<String> = None;
    for value in values.iter().flatten() {
        all = Some(match all {
            Some(all) => merged(&all, value, sign, one)?,
            None => value.to_owned(),
        });
    }
    Ok(all)
}

/// The bits with zeros in front of them. Fails with 22023 if they are more than wanted, or as many are none.
fn padded(bits: &str, length: i32) -> Result<String> {
    let wanted = usize::try_from(length).ok().filter(|wanted| *wanted >= bits.len() && *wanted <= VALUE_BYTES_MAX / 4);
    let wanted = wanted.ok_or_else(|| {
        let error = Error::value(format!("{} bits do not become {length}", bits.len())).with_code("22023");
        error.with_hint("bitstring() takes a length that is not smaller")
    })?;
    Ok(["0".repeat(wanted - bits.len()).as_str(), bits].concat())
}

fn letter(is_one: bool) -> char {
    if is_one { '1' } else { '0' }
}

/// Two bit strings, bit by bit. Fails with 22026 if they are of different sizes.
fn merged(a: &str, b: &str, name: &str, merge: fn(bool, bool) -> bool) -> Result<String> {
    if a.len() != b.len() {
        let error = Error::value(format!("cannot {name} bit strings of different sizes"));
        return Err(error.with_code("22026"));
    }
    Ok(a.bytes().zip(b.bytes()).map(|(a, b)| letter(merge(a == b'1', b == b'1'))).collect())
}

/// The bits some places to the left, with zeros where they come from.
fn shifted(bits: &str, left: i64) -> String {
    let count = usize::try_from(left.unsigned_abs()).unwrap_or(usize::MAX).min(bits.len());
    let zeros = "0".repeat(count);
    match left >= 0 {
        true => [&bits[count..], &zeros].concat(),
        false => [&zeros, &bits[..bits.len() - count]].concat(),
    }
}

/// A part from a place on, counted from 1. Fails with 22011 for a negative length.
fn part(bits: &str, start: i64, length: Option<i64>) -> Result<&str> {
    let end = match length {
        Some(length) if length < 0 => {
            return Err(Error::value("negative substring length not allowed").with_code("22011"));
        }
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let at = |place: i64| usize::try_from(place.saturating_sub(1).max(0)).unwrap_or(usize::MAX).min(bits.len());
    let (start, end) = (at(start), at(end));
    Ok(&bits[start..end.max(start)])
}

fn overlaid(bits: &str, by: &str, start: i64, length: i64) -> Result<String> {
    if start <= 0 {
        return Err(Error::value("negative substring length not allowed").with_code("22011"));
    }
    let before = part(bits, 1, Some(start - 1))?;
    Ok([before, by, part(bits, start.saturating_add(length), None)?].concat())
}

/// A place counted from 0. Fails with 2202E outside of the bits.
fn place(bits: &str, at: i32) -> Result<usize> {
    usize::try_from(at).ok().filter(|at| *at < bits.len()).ok_or_else(|| {
        let last = bits.len() as i64 - 1;
        Error::value(format!("bit index {at} out of valid range (0..{last})")).with_code("2202E")
    })
}

fn set(bits: &str, at: i32, new: i32) -> Result<String> {
    let at = place(bits, at)?;
    if !(0..=1).contains(&new) {
        return Err(Error::value("new bit must be 0 or 1").with_code("22023"));
    }
    Ok([&bits[..at], if new == 1 { "1" } else { "0" }, &bits[at + 1..]].concat())
}
