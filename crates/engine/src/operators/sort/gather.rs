//! Rows of several blocks, picked one by one into a new batch.
//!
//! Blocks of one column may have different physical forms. Text views are copied into buffers of their own where they
//! would keep much more alive than they use, or refer to many buffers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, GenericByteViewArray, StringViewArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::{interleave, take};
use arrow::datatypes::{ByteViewType, DataType, SchemaRef};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use crate::batch::prefetch::{AHEAD, prefetch, prefetch_text};
use crate::batch::{Batch, Column, concat_arrays, to_logical, views};

/// One row of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    /// The block's number.
    pub block: u32,
    /// The row in it.
    pub row: u32,
}

/// Buffers that a text column may refer to before its bytes are copied together.
const VIEW_BUFFERS_MAX: usize = 16;
/// Bytes that a text column may keep alive without need.
const VIEW_WASTE_BYTES: usize = 4096;

/// What becomes of the bytes of text views, and of the values of dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// They stay where they are, unless that wastes memory.
    Keep,
    /// They are copied in the order of the rows: whoever reads the rows in order later reads memory in order.
    Copy,
}

/// The picked rows as a batch. The blocks must be flat.
pub(super) fn gather(blocks: &[Batch], picks: &[Pick], text: Text, schema: &SchemaRef) -> Result<Batch> {
    let Some(&first) = picks.first() else { return Ok(Batch::from_arrays(empty_arrays(schema), 0)) };
    if picks.iter().all(|pick| pick.block == first.block) {
        return pick_rows(&blocks[first.block as usize], picks, text);
    }
    // Blocks numbered anew, in the order in which they are met: few of many may be needed.
    const UNMET: usize = usize::MAX;
    let mut numbers = vec![UNMET; blocks.len()];
    let mut met = Vec::new();
    let rows = picks
        .iter()
        .map(|pick| {
            let number = &mut numbers[pick.block as usize];
            if *number == UNMET {
                *number = met.len();
                met.push(&blocks[pick.block as usize]);
            }
            (*number, pick.row as usize)
        })
        .collect::<Vec<_>>();
    // Of so many blocks it would be copied afterwards.
    let copies = text == Text::Copy || met.len() > VIEW_BUFFERS_MAX;
    let arrays = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let arrays = met.iter().map(|block| block.flat(index)).collect::<Result<Vec<_>>>()?;
            let copied = if copies { gather_text(&arrays, &rows) } else { None };
            match copied {
                Some(array) => Ok(array),
                None => gather_column(&arrays, &rows, field.data_type()).and_then(|array| compact(array, text)),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Batch::from_arrays(arrays, picks.len()))
}

/// All rows of flat batches, one after another. There must be at least one batch.
pub(super) fn concat_batches(batches: &[Batch], schema: &SchemaRef) -> Result<Batch> {
    let arrays = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let arrays = batches.iter().map(|batch| batch.flat(index)).collect::<Result<Vec<_>>>()?;
            concat_arrays(&arrays, field.data_type()).and_then(|array| compact(array, Text::Keep))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Batch::from_arrays(arrays, batches.iter().map(Batch::rows).sum()))
}

/// The batch with flat columns that keep little alive beyond their own rows. A dictionary that is not the column's
/// logical type is decoded, because the blocks of a sort do not share one.
pub(super) fn settle(batch: &Batch, schema: &SchemaRef) -> Result<Batch> {
    let arrays = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let array = batch.flat(index)?;
            let array = match array.data_type() {
                DataType::Dictionary(..) => to_logical(&array, field.data_type())?,
                _ => array,
            };
            compact(array, Text::Keep)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Batch::from_arrays(arrays, batch.rows()))
}

/// Bytes that a flat batch holds.
pub(super) fn held_bytes(batch: &Batch) -> Result<usize> {
    let column_bytes = |column: &Column| {
        let array = column.flat()?;
        let buffers = match array.data_type() {
            DataType::Utf8View => array.as_string_view().data_buffers(),
            DataType::BinaryView => array.as_binary_view().data_buffers(),
            _ => return Ok(column.bytes()),
        };
        let buffers: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        Ok(array.len() * size_of::<u128>() + array.len() / 8 + buffers)
    };
    batch.columns().iter().map(column_bytes).sum()
}

fn pick_rows(block: &Batch, picks: &[Pick], text: Text) -> Result<Batch> {
    let first = picks[0].row;
    // A slice would keep rows alive that may not belong to the sort.
    if text == Text::Keep && picks.iter().zip(first..).all(|(pick, row)| pick.row == row) {
        return Ok(block.slice(first as usize, picks.len()));
    }
    let rows = UInt32Array::from_iter_values(picks.iter().map(|pick| pick.row));
    let arrays = block
        .columns()
        .iter()
        .map(|column| compact(take(column.flat()?.as_ref(), &rows, None).map_err(from_arrow)?, text))
        .collect::<Result<Vec<_>>>()?;
    Ok(Batch::from_arrays(arrays, picks.len()))
}

/// The picked rows of columns of views, their text copied on the way: first views and then text, so that each is read
/// in the order of the blocks. `None` if not all of them are views of one type, or if their text does not fit into one
/// buffer.
fn gather_text(arrays: &[ArrayRef], rows: &[(usize, usize)]) -> Option<ArrayRef> {
    let data_type = arrays[0].data_type();
    if arrays.iter().any(|array| array.data_type() != data_type) {
        return None;
    }
    let blocks = arrays.iter().map(|array| views::parts(array.as_ref())).collect::<Option<Vec<_>>>()?;
    let nulls = arrays.iter().any(|array| array.null_count() > 0).then(|| {
        let is_valid = |index: usize| arrays[rows[index].0].is_valid(rows[index].1);
        NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_valid))
    });
    let view = |place: usize| {
        if let Some(&(block, row)) = rows.get(place + AHEAD) {
            prefetch(blocks[block].0, row);
        }
        let (block, row) = rows[place];
        blocks[block].0[row]
    };
    let mut gathered: Vec<u128> = match &nulls {
        None => (0..rows.len()).map(view).collect(),
        // What stands under a NULL may say anything.
        Some(nulls) => nulls.iter().enumerate().map(|(place, valid)| if valid { view(place) } else { 0 }).collect(),
    };
    let own = |view: &u128| if views::is_long(*view) { views::length(*view) } else { 0 };
    let text_bytes: usize = gathered.iter().map(own).sum();
    // Views count with 32 bits.
    i32::try_from(text_bytes).ok()?;
    let mut text = Vec::with_capacity(text_bytes);
    for place in 0..gathered.len() {
        if let Some(&ahead) = gathered.get(place + AHEAD) {
            prefetch_text(ahead, blocks[rows[place + AHEAD].0].1);
        }
        let view = gathered[place];
        if views::is_long(view) {
            gathered[place] = views::placed(view, 0, text.len());
            text.extend_from_slice(views::bytes(&view, blocks[rows[place].0].1));
        }
    }
    let buffers = if text.is_empty() { Vec::new() } else { vec![Buffer::from_vec(text)] };
    let gathered = ScalarBuffer::from(gathered);
    // SAFETY: these are views of valid arrays of this type, those of long strings moved to where the same bytes were
    // copied to; those under NULLs are empty.
    Some(unsafe {
        match data_type {
            DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(gathered, buffers, nulls)) as ArrayRef,
            _ => Arc::new(BinaryViewArray::new_unchecked(gathered, buffers, nulls)),
        }
    })
}

fn gather_column(arrays: &[ArrayRef], rows: &[(usize, usize)], logical: &DataType) -> Result<ArrayRef> {
    let interleave_all = |arrays: &[ArrayRef], rows: &[(usize, usize)]| {
        let views = arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>();
        interleave(&views, rows).map_err(from_arrow)
    };
    if arrays.iter().all(|array| array.data_type() == arrays[0].data_type()) {
        return interleave_all(arrays, rows);
    }
    // Only the rows that are wanted are made logical, not whole blocks: the work stays bounded by the batch.
    let mut wanted = vec![Vec::new(); arrays.len()];
    let rows = rows
        .iter()
        .map(|&(number, row)| {
            wanted[number].push(row as u32);
            (number, wanted[number].len() - 1)
        })
        .collect::<Vec<_>>();
    let arrays = arrays
        .iter()
        .zip(wanted)
        .map(|(array, wanted)| {
            let taken = take(array.as_ref(), &UInt32Array::from(wanted), None).map_err(from_arrow)?;
            to_logical(&taken, logical)
        })
        .collect::<Result<Vec<_>>>()?;
    interleave_all(&arrays, &rows)
}

/// The array with bytes of its own, if it is made of views that waste others' buffers, or if text is to be copied.
fn compact(array: ArrayRef, text: Text) -> Result<ArrayRef> {
    fn compacted<T: ByteViewType>(array: &GenericByteViewArray<T>, text: Text) -> Option<ArrayRef> {
        let buffers = array.data_buffers();
        if buffers.is_empty() {
            return None;
        }
        let held: usize = buffers.iter().map(|buffer| buffer.capacity()).sum();
        let wasteful = held > VIEW_WASTE_BYTES && held > 2 * array.total_buffer_bytes_used();
        (wasteful || text == Text::Copy || buffers.len() > VIEW_BUFFERS_MAX).then(|| Arc::new(array.gc()) as ArrayRef)
    }
    let compacted = match array.data_type() {
        DataType::Utf8View => compacted(array.as_string_view(), text),
        DataType::BinaryView => compacted(array.as_binary_view(), text),
        DataType::Dictionary(..) if text == Text::Copy => {
            // The values may lie in a cluster that was read.
            let dictionary = array.as_any_dictionary();
            let all = UInt32Array::from_iter_values(0..dictionary.values().len() as u32);
            let values = take(dictionary.values(), &all, None).map_err(from_arrow)?;
            Some(dictionary.with_values(compact(values, text)?))
        }
        _ => None,
    };
    Ok(compacted.unwrap_or(array))
}

fn empty_arrays(schema: &SchemaRef) -> Vec<ArrayRef> {
    schema.fields().iter().map(|field| arrow::array::new_empty_array(field.data_type())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::weighted(0.8, prop_oneof!["[a-z]{0,12}", "[a-zä]{13,40}"])
    }

    proptest! {
        #[test]
        fn text_that_is_copied_on_the_way_is_what_interleaving_gives(
            blocks in prop::collection::vec(prop::collection::vec(text(), 1..30), 2..5),
            picks in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..60),
            is_binary in any::<bool>(),
            cut in 0_usize..3,
        ) {
            let arrays: Vec<ArrayRef> = blocks
                .iter()
                .map(|block| {
                    let array: ArrayRef = match is_binary {
                        false => Arc::new(StringViewArray::from_iter(block.iter())),
                        true => Arc::new(BinaryViewArray::from_iter(block.iter().map(|text| text.as_ref()))),
                    };
                    array.slice(cut.min(array.len() - 1), array.len() - cut.min(array.len() - 1))
                })
                .collect();
            let rows: Vec<(usize, usize)> = picks
                .iter()
                .map(|(block, row)| {
                    let block = block.index(arrays.len());
                    (block, row.index(arrays[block].len()))
                })
                .collect();
            let gathered = gather_text(&arrays, &rows).unwrap();
            gathered.to_data().validate_full().unwrap();
            prop_assert_eq!(&gathered, &gather_column(&arrays, &rows, arrays[0].data_type()).unwrap());
            let (views, buffers) = views::parts(gathered.as_ref()).unwrap();
            let long: usize = views.iter().filter(|view| views::is_long(**view)).map(|view| views::length(*view)).sum();
            prop_assert_eq!(buffers.iter().map(|buffer| buffer.capacity()).sum::<usize>(), long);
        }
    }

    #[test]
    fn other_columns_are_left_to_interleaving() {
        let arrays: [ArrayRef; 2] =
            [Arc::new(StringViewArray::from(vec!["a"])), Arc::new(arrow::array::StringArray::from(vec!["b"]))];
        assert!(gather_text(&arrays, &[(0, 0), (1, 0)]).is_none());
        assert!(gather_text(&arrays[1..], &[(0, 0)]).is_none());
    }
}
