//! Chunks of segments: what says below their checksums where values lie.
//!
//! An input is the number of a type, the rows (32 bits), and a chunk.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, StringViewArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Int32Type};
use diligence_segment::{Chunk, encode};

use super::Target;

/// Rows of a chunk at most: a damaged count may promise more.
const ROWS_MAX: usize = 1 << 17;

fn types() -> Vec<DataType> {
    vec![
        DataType::Int64,
        DataType::Int32,
        DataType::Float64,
        DataType::Boolean,
        DataType::Utf8View,
        DataType::Decimal128(15, 2),
        DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
    ]
}

/// Reads chunks.
#[derive(Default)]
pub struct ChunkTarget {
    read: usize,
    refused: usize,
}

impl Target for ChunkTarget {
    fn run(&mut self, input: &[u8]) -> Result<(), String> {
        let Some((head, bytes)) = input.split_first_chunk::<5>() else { return Ok(()) };
        let types = types();
        let data_type = &types[usize::from(head[0]) % types.len()];
        let rows = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if rows > ROWS_MAX {
            return Ok(());
        }
        let Ok(mut chunk) = Chunk::open(bytes.to_vec().into(), data_type, rows) else {
            self.refused += 1;
            return Ok(());
        };
        let some = BooleanBuffer::collect_bool(rows, |row| row % 7 == 2);
        for (selected, is_narrow) in [(None, true), (Some(&some), false)] {
            match chunk.read(0..rows, selected, is_narrow) {
                Err(_) => self.refused += 1,
                Ok(array) => {
                    self.read += 1;
                    if array.len() != selected.map_or(rows, BooleanBuffer::count_set_bits) {
                        return Err(format!("{} rows came of {rows}", array.len()));
                    }
                    array.to_data().validate_full().map_err(|error| format!("an array is not valid: {error}"))?;
                }
            }
        }
        chunk.are_within(0..rows, &[(-3, 1000), (5000, 5000)]);
        if let Ok(Some(values)) = chunk.values(true) {
            let wanted = BooleanBuffer::collect_bool(values.len(), |place| place % 2 == 0);
            chunk.are_among(0..rows, &wanted);
        }
        Ok(())
    }

    fn summary(&self) -> String {
        format!("{} read, {} refused", self.read, self.refused)
    }
}

/// A chunk of each codec and more.
pub fn corpus() -> Vec<Vec<u8>> {
    let some = |row: i64| (row % 5 != 3).then_some(row);
    let texts = |text: fn(i64) -> String| Arc::new((0..1500).map(|row| Some(text(row))).collect::<StringViewArray>());
    let lists = (0..50).map(|row| Some((0..row % 4).map(Some)));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new((0..3000).map(some).collect::<Int64Array>()),
        Arc::new((0..3000).map(|row| row / 400).collect::<Int64Array>()),
        Arc::new((0..1100).map(|row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)).collect::<Int64Array>()),
        Arc::new((0..200).map(|row| row % 17).collect::<Int32Array>()),
        Arc::new((0..500).map(|row| if row == 7 { f64::NAN } else { f64::from(row) / 4.0 }).collect::<Float64Array>()),
        Arc::new((0..100).map(|row| f64::from(row).sqrt()).collect::<Float64Array>()),
        Arc::new((0..100).map(|row| some(row).map(|row| row % 3 == 0)).collect::<BooleanArray>()),
        texts(|row| format!("word {}", row % 12)),
        texts(|row| format!("the text of the row number {row}")),
        texts(|row| format!("{:x}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64))),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
    ];
    let money = (0..300).map(|row| some(row).map(|row| i128::from(row) * 25)).collect::<Decimal128Array>();
    let money = money.with_precision_and_scale(15, 2).map(|money| Arc::new(money) as ArrayRef);
    let types = types();
    let input = |array: &ArrayRef| {
        let place = types.iter().position(|data_type| data_type == array.data_type())?;
        let mut input = vec![place as u8];
        input.extend_from_slice(&(array.len() as u32).to_le_bytes());
        input.extend_from_slice(&encode(array).ok()?);
        Some(input)
    };
    arrays.iter().chain(&money).filter_map(input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_chunks_are_read() {
        let (mut target, corpus) = (ChunkTarget::default(), corpus());
        assert_eq!(corpus.len(), 12);
        corpus.iter().for_each(|input| target.run(input).unwrap());
        assert_eq!((target.read, target.refused), (24, 0));
    }
}
