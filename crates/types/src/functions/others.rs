//! Functions of no family: random numbers, UUIDs, counts of NULLs.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewBuilder, Float64Array, Int32Array, StringViewArray, new_null_array};
use arrow::datatypes::DataType;
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::catalog::Catalog;
use super::columns::Columns;
use super::columns::{Timestamp, kernel};
use super::errors::invalid_argument;
use super::{Body, Call, Kernel};

thread_local! {
    /// Random numbers of the thread; `setseed` begins them anew. What a statement computes on several threads is not
    /// repeated by a seed.
    static RANDOM: RefCell<StdRng> = RefCell::new(StdRng::from_rng(&mut rand::rng()));
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    // How long ago a transaction was; there are none that last.
    catalog.add("age(bigint) -> integer", kernel!(|_transaction: i64| 0_i32));
    catalog.add("random() -> double precision", Body::Kernel(random)).volatile();
    catalog.add("uuid_generate_v4() -> uuid", Body::Kernel(random_uuid)).volatile();
    catalog.add("timeofday() -> text", Body::Kernel(time_of_day)).volatile();
    catalog.add("setseed(double precision) -> void", Body::Kernel(setseed)).volatile();
    catalog.add("gen_random_uuid() -> uuid", Body::Kernel(random_uuid)).volatile();
    catalog.add("uuidv4() -> uuid", Body::Kernel(random_uuid)).volatile();
    catalog.add("uuidv7() -> uuid", Body::Kernel(timed_uuid)).volatile();
    catalog.add("uuid_extract_version(uuid) -> smallint", kernel!(|uuid: &str| uuid_version(uuid)));
    catalog.add("uuid_extract_timestamp(uuid) -> timestamptz", kernel!(|uuid: &str| uuid_moment(uuid).map(Timestamp)));
    catalog.add("gen_random_bytes(integer) -> bytea", Body::Kernel(random_bytes)).volatile();
    catalog.add("uuid() -> uuid", Body::Kernel(random_uuid)).volatile();
    let number = kernel!(try |name: Option<&str>, number: Option<i64>, what: Option<&str>| {
        number_of_object(name, number, what.unwrap_or_default())
    });
    catalog.add("number of object(text, bigint, text) -> bigint", number).lenient();
    let count_nulls: Kernel = |arguments, call| counted(arguments, call, |array, row| array.is_null(row));
    let count_others: Kernel = |arguments, call| counted(arguments, call, |array, row| array.is_valid(row));
    catalog.add("num_nulls(variadic any) -> integer", Body::Kernel(count_nulls)).lenient();
    catalog.add("num_nonnulls(variadic any) -> integer", Body::Kernel(count_others)).lenient();
}

/// The number that was found for the name of an object of a kind; the name may be a number itself. Fails with the code
/// that the kind has if there is no such object.
fn number_of_object(name: Option<&str>, number: Option<i64>, what: &str) -> Result<Option<i64>> {
    let Some(name) = name else { return Ok(None) };
    if let Some(number) = number.or_else(|| name.trim().parse::<u32>().ok().map(i64::from)) {
        return Ok(Some(number));
    }
    let code = match what {
        "relation" => "42P01",
        "schema" => "3F000",
        "function" => "42883",
        _ => "42704",
    };
    Err(Error::input(format!("{what} \"{name}\" does not exist")).with_code(code))
}

/// The time as PostgreSQL words it: `Fri Nov 27 10:00:00.123456 2026 UTC`.
fn time_of_day(_arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let text = chrono::Utc::now().format("%a %b %d %H:%M:%S%.6f %Y UTC").to_string();
    let texts = std::iter::repeat_n(text.as_str(), call.rows).map(Some);
    Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringViewArray>())))
}

fn random(_arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let values: Float64Array =
        RANDOM.with_borrow_mut(|random| (0..call.rows).map(|_| Some(random.random::<f64>())).collect());
    Ok(ColumnarValue::Array(Arc::new(values)))
}

fn setseed(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let seeds = columns.arrays()[0].as_any().downcast_ref::<Float64Array>().cloned();
    for seed in seeds.iter().flatten().flatten() {
        if !(-1.0..=1.0).contains(&seed) {
            return Err(invalid_argument(format!("setseed parameter {seed} is out of allowed range [-1,1]")));
        }
        RANDOM.with_borrow_mut(|random| *random = StdRng::seed_from_u64(seed.to_bits()));
    }
    Ok(ColumnarValue::Array(new_null_array(&DataType::Null, call.rows)))
}

/// Bytes that nobody can guess: so many of them as pgcrypto gives at most, 1 to 1024.
fn random_bytes(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let counts = columns.arrays()[0].as_any().downcast_ref::<Int32Array>().cloned();
    let counts = counts.ok_or_else(|| Error::bug("a number of bytes is no integer"))?;
    let mut random = StdRng::from_rng(&mut rand::rng());
    let mut bytes = BinaryViewBuilder::new();
    for row in 0..call.rows {
        let place = if counts.len() == 1 { 0 } else { row };
        if counts.is_null(place) {
            bytes.append_null();
            continue;
        }
        let count = counts.value(place);
        if !(1..=1024).contains(&count) {
            return Err(invalid_argument("length of random bytes is not in range [1,1024]"));
        }
        let mut made = vec![0; count as usize];
        random.fill_bytes(&mut made);
        bytes.append_value(made);
    }
    Ok(ColumnarValue::Array(Arc::new(bytes.finish())))
}

/// A UUID of a version with these bytes in its other places.
fn uuid_of(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | (version << 4);
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// UUIDs of version 4.
fn random_uuid(_arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    // From the operating system's numbers, not from those that a seed repeats.
    let mut random = StdRng::from_rng(&mut rand::rng());
    let mut uuid = || {
        let mut bytes = [0; 16];
        random.fill_bytes(&mut bytes);
        uuid_of(bytes, 4)
    };
    let values: StringViewArray = (0..call.rows).map(|_| Some(uuid())).collect();
    Ok(ColumnarValue::Array(Arc::new(values)))
}

/// UUIDs of version 7: the time in milliseconds, its rest in 4096ths, and random bits.
fn timed_uuid(_arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let mut random = StdRng::from_rng(&mut rand::rng());
    let mut last = 0_u64;
    let mut uuid = || {
        // Those of one call are in the order of their rows.
        let now = chrono::Utc::now().timestamp_micros().max(0) as u64;
        let ticks = (now / 1000 * 4096 + now % 1000 * 4096 / 1000).max(last + 1);
        last = ticks;
        let mut bytes = [0; 16];
        random.fill_bytes(&mut bytes);
        bytes[..6].copy_from_slice(&(ticks / 4096).to_be_bytes()[2..]);
        bytes[6..8].copy_from_slice(&((ticks % 4096) as u16).to_be_bytes());
        uuid_of(bytes, 7)
    };
    let values: StringViewArray = (0..call.rows).map(|_| Some(uuid())).collect();
    Ok(ColumnarValue::Array(Arc::new(values)))
}

/// The digits of a UUID, if it is one of the variant that has versions.
fn versioned(uuid: &str) -> Option<String> {
    let digits = uuid.replace('-', "");
    let variant = digits.get(16..17)?.chars().next()?.to_digit(16)?;
    (digits.len() == 32 && variant & 0b1100 == 0b1000).then_some(digits)
}

fn uuid_version(uuid: &str) -> Option<i16> {
    i16::from_str_radix(versioned(uuid)?.get(12..13)?, 16).ok()
}

/// Microseconds since 1970 that a UUID of version 1 or 7 has in it; `None` for others.
fn uuid_moment(uuid: &str) -> Option<i64> {
    let digits = versioned(uuid)?;
    let number = |range: std::ops::Range<usize>| i64::from_str_radix(digits.get(range)?, 16).ok();
    match uuid_version(uuid)? {
        // Since the 15th of October 1582, in tenths of microseconds.
        1 => {
            let tenths = (number(13..16)? << 48) + (number(8..12)? << 32) + number(0..8)?;
            Some((tenths - 122_192_928_000_000_000) / 10)
        }
        7 => Some(number(0..12)? * 1000),
        _ => None,
    }
}

fn counted(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    counts: fn(&ArrayRef, usize) -> bool,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let count = |row: usize| {
        let is_counted = |array: &&ArrayRef| counts(array, if array.len() == 1 { 0 } else { row });
        columns.arrays().iter().filter(is_counted).count() as i32
    };
    columns.result(Arc::new((0..columns.rows()).map(|row| Some(count(row))).collect::<Int32Array>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_tells_its_version_and_its_time() {
        let uuid = uuid_of([0xff; 16], 7);
        assert_eq!((uuid.as_str(), uuid_version(&uuid)), ("ffffffff-ffff-7fff-bfff-ffffffffffff", Some(7)));
        let timed = "019006b1-bd9a-7000-8000-000000000000";
        assert_eq!(uuid_moment(timed), Some(0x0190_06b1_bd9a * 1000));
        assert_eq!(uuid_moment("c232ab00-9414-11ec-b3c8-9f6bdeced846"), Some(1_645_557_742_000_000));
        assert_eq!(uuid_moment("d2b3c1a0-1111-4222-8333-444455556666"), None);
        assert_eq!(uuid_version("d2b3c1a0-1111-4222-c333-444455556666"), None);
    }
}
