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
use super::columns::kernel;
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
    catalog.add("gen_random_bytes(integer) -> bytea", Body::Kernel(random_bytes)).volatile();
    catalog.add("uuid() -> uuid", Body::Kernel(random_uuid)).volatile();
    let count_nulls: Kernel = |arguments, call| counted(arguments, call, |array, row| array.is_null(row));
    let count_others: Kernel = |arguments, call| counted(arguments, call, |array, row| array.is_valid(row));
    catalog.add("num_nulls(variadic any) -> integer", Body::Kernel(count_nulls)).lenient();
    catalog.add("num_nonnulls(variadic any) -> integer", Body::Kernel(count_others)).lenient();
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

/// UUIDs of version 4.
fn random_uuid(_arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let uuid = |random: &mut StdRng| {
        let mut bytes = [0; 16];
        random.fill_bytes(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
    };
    // From the operating system's numbers, not from those that a seed repeats.
    let mut random = StdRng::from_rng(&mut rand::rng());
    let values: StringViewArray = (0..call.rows).map(|_| Some(uuid(&mut random))).collect();
    Ok(ColumnarValue::Array(Arc::new(values)))
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
