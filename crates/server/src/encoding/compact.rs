//! Batches whose columns hold no more than their rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ByteView, GenericByteViewArray, ListArray, RecordBatch, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ByteViewType, DataType};

/// The batch with texts and bytes in buffers of their own, where they lie in much larger ones: whoever writes such
/// buffers out writes them whole, with each batch.
pub fn compact(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(compacted).collect();
    // The types and lengths are those of the batch.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}

fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(views(array.as_string_view())),
        DataType::BinaryView => Arc::new(views(array.as_binary_view())),
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(compacted).collect();
            match StructArray::try_new(fields.clone(), columns, array.nulls().cloned()) {
                Ok(compact) => Arc::new(compact),
                Err(_) => Arc::new(array.clone()),
            }
        }
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            // Of a slice the values are those of the whole.
            let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            let values = compacted(&list.values().slice(first as usize, (last - first) as usize));
            let ends = match first {
                0 => list.offsets().clone(),
                _ => OffsetBuffer::new(list.value_offsets().iter().map(|end| end - first).collect()),
            };
            let compact = ListArray::try_new(item.clone(), ends, values, list.nulls().cloned());
            compact.map_or_else(|_| array.clone(), |compact| Arc::new(compact))
        }
        _ => array.clone(),
    }
}

fn views<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> GenericByteViewArray<T> {
    let held = array.data_buffers().iter().map(|buffer| buffer.len()).sum::<usize>();
    let long = |view: &u128| ByteView::from(*view).length as usize;
    let needed = array.views().iter().map(long).filter(|length| *length > 12).sum::<usize>();
    if held > needed + needed / 4 + 1024 { array.gc() } else { array.clone() }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn only_the_bytes_of_the_rows_are_left() {
        let texts = (0..1000).map(|number| format!("a text that is longer than a view: {number}"));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap().slice(10, 2);
        let small = compact(&batch);
        assert_eq!(small, batch);
        let held = small.column(0).as_string_view().data_buffers().iter().map(|buffer| buffer.len()).sum::<usize>();
        assert!(held < 100, "{held}");
    }

    #[test]
    fn lists_have_no_more_than_their_own_values() {
        let texts = (0..1000).map(|number| format!("a text that is longer than a view: {number}"));
        let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let ends = OffsetBuffer::from_lengths(std::iter::repeat_n(2, 500));
        let lists: ArrayRef = Arc::new(ListArray::new(item, ends, values, None));
        let batch = RecordBatch::try_from_iter([("l", lists)]).unwrap().slice(10, 3);
        let small = compact(&batch);
        assert_eq!(small, batch);
        let values = small.column(0).as_list::<i32>().values();
        let held = values.as_string_view().data_buffers().iter().map(|buffer| buffer.len()).sum::<usize>();
        assert!(values.len() == 6 && held < 300, "{} {held}", values.len());
    }
}
