//! Hashes of values, which decide on a row's fragment.
//!
//! Invariant: they are the same in every version and on every machine. Tables on disk depend on it.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::values::{STRICT, comparable};

/// Adds the values of a column to the hashes of rows. A row with a NULL has none.
pub(super) fn add_hashes(column: &ArrayRef, hashes: &mut [Option<u64>]) -> Result<()> {
    let mut add = |row: usize, bytes: &[u8]| hashes[row] = hashes[row].map(|hash| with_bytes(hash, bytes));
    let all = 0..column.len();
    let valid = all.clone().filter(|row| column.is_valid(*row));
    let as_type = |data_type: &DataType| cast_with_options(column, data_type, &STRICT).map_err(from_arrow);
    match column.data_type() {
        DataType::UInt64 => {
            let values = column.as_primitive::<UInt64Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
        DataType::Float32 | DataType::Float64 => {
            let values = cast_with_options(&comparable(column)?, &DataType::Float64, &STRICT).map_err(from_arrow)?;
            let values = values.as_primitive::<Float64Type>();
            valid.for_each(|row| add(row, &values.value(row).to_bits().to_le_bytes()));
        }
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
        DataType::Decimal256(..) => {
            let values = column.as_primitive::<Decimal256Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let values = as_type(&DataType::Utf8View)?;
            let values = values.as_string_view();
            valid.for_each(|row| add(row, values.value(row).as_bytes()));
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let values = as_type(&DataType::BinaryView)?;
            let values = values.as_binary_view();
            valid.for_each(|row| add(row, values.value(row)));
        }
        _ => {
            let values = as_type(&DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            valid.for_each(|row| add(row, &values.value(row).to_le_bytes()));
        }
    }
    all.filter(|row| column.is_null(*row)).for_each(|row| hashes[row] = None);
    Ok(())
}

/// FNV-1a, with the length, so that neighboring columns do not run together. Tables on disk depend on it.
fn with_bytes(hash: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let begin = hash ^ 0xcbf2_9ce4_8422_2325 ^ (bytes.len() as u64).rotate_left(32);
    bytes.iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Has all bits depend on all bits (the end of SplitMix64).
pub(super) fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
