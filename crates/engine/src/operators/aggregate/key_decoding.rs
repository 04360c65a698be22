//! Key words turned back into columns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, FixedSizeBinaryBuilder, NullArray,
    StringViewArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::key_encoding::into_type;
use super::key_layout::{KeyColumn, KeyKind, KeyLayout};
use super::key_table::Keys;
use crate::batch::views;

/// Finished keys that can be read in slices. String output shares the arena's blocks.
pub(super) struct KeyReader {
    keys: Keys,
    blocks: Arc<[Buffer]>,
}

impl KeyReader {
    pub fn new(mut keys: Keys) -> Self {
        keys.freeze();
        let blocks = keys.blocks().into();
        Self { keys, blocks }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }

    /// The key columns of groups `first..first + rows`, in the layout's order and logical types.
    pub fn columns(&self, layout: &KeyLayout, first: usize, rows: usize) -> Result<Vec<ArrayRef>> {
        layout.columns.iter().map(|column| self.column(column, first, rows)).collect()
    }

    fn column(&self, column: &KeyColumn, first: usize, rows: usize) -> Result<ArrayRef> {
        let nulls = self.nulls(column, first, rows);
        let array = match &column.kind {
            KeyKind::Null => Arc::new(NullArray::new(rows)),
            KeyKind::Bits(1) => {
                let bits = BooleanBuffer::collect_bool(rows, |row| self.bits(column, first + row) & 1 == 1);
                Arc::new(BooleanArray::new(bits, nulls)) as ArrayRef
            }
            KeyKind::Bits(bits) => {
                let each = (first..first + rows).map(|group| self.bits(column, group));
                let buffer = match bits {
                    8 => Buffer::from_vec(each.map(|bits| bits as u8).collect::<Vec<_>>()),
                    16 => Buffer::from_vec(each.map(|bits| bits as u16).collect::<Vec<_>>()),
                    32 => Buffer::from_vec(each.map(|bits| bits as u32).collect::<Vec<_>>()),
                    _ => Buffer::from_vec(each.collect::<Vec<_>>()),
                };
                let data = ArrayData::builder(column.value_type().clone()).len(rows).add_buffer(buffer).nulls(nulls);
                make_array(data.build().map_err(from_arrow)?)
            }
            KeyKind::NarrowDecimal => {
                let values = (first..first + rows).map(|group| self.bits(column, group) as i64 as i128);
                decimals(values.collect(), nulls, column.value_type())
            }
            KeyKind::WideDecimal => {
                let values = (first..first + rows).map(|group| {
                    let key = self.keys.key(group);
                    (key[column.word + 1] as i64 as i128) << 64 | key[column.word] as i128
                });
                decimals(values.collect(), nulls, column.value_type())
            }
            KeyKind::Bytes => self.byte_column(column, nulls, first, rows)?,
            KeyKind::Rows(converter) => {
                let parser = converter.parser();
                let words = (0..rows).map(|row| self.view(column, first + row)).collect::<Vec<_>>();
                // A NULL has no bytes of its own; the row format has one for it that sorts first.
                let null_row = null_row(converter, column.value_type())?;
                let slot = column.bytes_slot.unwrap_or_default();
                let parsed = words.iter().enumerate().map(|(row, word)| {
                    parser.parse(if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                        &null_row
                    } else if views::is_long(*word) {
                        self.keys.long_bytes(slot, first + row, views::length(*word))
                    } else {
                        views::bytes(word, &[])
                    })
                });
                converter.convert_rows(parsed).map_err(from_arrow)?.swap_remove(0)
            }
        };
        into_type(array, &column.logical)
    }

    #[inline]
    fn bits(&self, column: &KeyColumn, group: usize) -> u64 {
        self.keys.words[group * self.keys.stride + column.word] >> column.shift
    }

    fn view(&self, column: &KeyColumn, group: usize) -> u128 {
        let key = self.keys.key(group);
        (key[column.word + 1] as u128) << 64 | key[column.word] as u128
    }

    fn nulls(&self, column: &KeyColumn, first: usize, rows: usize) -> Option<NullBuffer> {
        let (word, bit) = column.null_bit?;
        if word >= self.keys.stride {
            return None;
        }
        let valid = BooleanBuffer::collect_bool(rows, |row| self.keys.key(first + row)[word] >> bit & 1 == 0);
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }

    fn byte_column(
        &self,
        column: &KeyColumn,
        nulls: Option<NullBuffer>,
        first: usize,
        rows: usize,
    ) -> Result<ArrayRef> {
        let slot = column.bytes_slot.unwrap_or_default();
        let views = (first..first + rows)
            .map(|group| {
                let view = self.view(column, group);
                if !views::is_long(view) {
                    return view;
                }
                let (block, offset) = self.keys.place(slot, group);
                views::placed(view, block, offset)
            })
            .collect::<ScalarBuffer<u128>>();
        let blocks = self.blocks.clone();
        Ok(match column.value_type() {
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
                // SAFETY: the views were made from valid strings and name bytes in these blocks.
                Arc::new(unsafe { StringViewArray::new_unchecked(views, blocks, nulls) })
            }
            DataType::FixedSizeBinary(width) => {
                // SAFETY: as above, for bytes.
                let array = unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) };
                let mut builder = FixedSizeBinaryBuilder::with_capacity(rows, *width);
                for row in 0..rows {
                    match array.is_valid(row) {
                        true => builder.append_value(array.value(row)).map_err(from_arrow)?,
                        false => builder.append_null(),
                    }
                }
                Arc::new(builder.finish())
            }
            DataType::BinaryView | DataType::Binary | DataType::LargeBinary => {
                // SAFETY: as above, for bytes.
                Arc::new(unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) })
            }
            other => return Err(Error::bug(format!("a group column of bytes has type {other}"))),
        })
    }
}

fn decimals(values: Vec<i128>, nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone()))
}

fn null_row(converter: &arrow_row::RowConverter, data_type: &DataType) -> Result<Vec<u8>> {
    let rows = converter.convert_columns(&[arrow::array::new_null_array(data_type, 1)]).map_err(from_arrow)?;
    Ok(rows.row(0).data().to_vec())
}
