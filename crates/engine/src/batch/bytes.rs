//! How many bytes rows need, and arrays copied so that they hold no more.
//!
//! This is not what `get_array_memory_size` says: that counts every buffer that an array refers to, and views picked
//! from an array refer to all of its buffers. A few rows out of a join would be counted with the whole build side.
//!
//! Invariant: whoever reserves memory for rows, or reports their size, asks here; whoever keeps rows beyond their
//! pipeline keeps them [`compacted`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::nested::with_children;
use super::prefetch::{AHEAD, prefetch};
use super::views;

/// Strings of a column that an estimate looks at. Each may be a cache miss.
const ESTIMATE_LOOKS: usize = 8;

/// Bytes that an array may hold without need before it is copied.
const WASTE_BYTES: usize = 4096;

/// Whether each value of a type takes as much as any other.
pub(crate) fn has_known_width(data_type: &DataType) -> bool {
    let is_flag = matches!(data_type, DataType::Null | DataType::Boolean | DataType::FixedSizeBinary(_));
    is_flag || data_type.primitive_width().is_some()
}

/// Bytes of an array's rows when they are stored on their own.
pub fn bytes_needed(array: &dyn Array) -> usize {
    measured(array, None, usize::MAX)
}

/// The same of the rows `picks` of an array.
pub(super) fn picked_bytes(array: &dyn Array, picks: Option<&UInt32Array>) -> usize {
    measured(array, picks, usize::MAX)
}

/// About the same, at a cost that does not grow with the rows: of strings it looks at a few.
pub(crate) fn estimated_bytes(array: &dyn Array, picks: Option<&UInt32Array>) -> usize {
    measured(array, picks, ESTIMATE_LOOKS)
}

fn measured(array: &dyn Array, picks: Option<&UInt32Array>, looks: usize) -> usize {
    let rows = picks.map_or(array.len(), |picks| picks.len());
    if rows == 0 || array.is_empty() {
        return 0;
    }
    let fixed = |width: usize| rows * width + rows / 8;
    let data_type = array.data_type();
    if let Some(width) = data_type.primitive_width() {
        return fixed(width);
    }
    if let Some((views, _)) = views::parts(array) {
        return fixed(16) + long_bytes(views, array, picks, looks);
    }
    match data_type {
        DataType::Null => return 0,
        DataType::Boolean => return fixed(0) + rows / 8,
        DataType::FixedSizeBinary(width) => return fixed(*width as usize),
        _ => {}
    }
    if picks.is_some() {
        // In proportion. Looking at every string would cost as much as copying it.
        let whole = measured(array, None, looks.min(ESTIMATE_LOOKS));
        return (whole as u128 * rows as u128 / array.len() as u128) as usize;
    }
    match data_type {
        DataType::Utf8 => offset_bytes::<Utf8Type>(array),
        DataType::LargeUtf8 => offset_bytes::<LargeUtf8Type>(array),
        DataType::Binary => offset_bytes::<BinaryType>(array),
        DataType::LargeBinary => offset_bytes::<LargeBinaryType>(array),
        DataType::List(_) => list_bytes::<i32>(array, looks),
        DataType::LargeList(_) => list_bytes::<i64>(array, looks),
        DataType::FixedSizeList(..) => fixed(0) + measured(array.as_fixed_size_list().values(), None, looks),
        DataType::Map(..) => {
            let (offsets, entries) = (array.as_map().offsets(), array.as_map().entries());
            let (first, last) = (offsets[0] as usize, offsets[rows] as usize);
            fixed(4) + measured(&entries.slice(first, last - first), None, looks)
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            fixed(0) + columns.map(|column| measured(column, None, looks)).sum::<usize>()
        }
        DataType::Dictionary(..) => {
            // Rows stored on their own would not keep values that they do not have.
            let dictionary = array.as_any_dictionary();
            let values = measured(dictionary.values(), None, looks);
            let share = rows.min(dictionary.values().len()) as u128;
            let values = values as u128 * share / dictionary.values().len().max(1) as u128;
            measured(dictionary.keys(), None, looks) + values as usize
        }
        _ => array.get_array_memory_size(),
    }
}

/// Bytes of the strings that do not lie in their views. What stands under a NULL may say anything.
fn long_bytes(views: &[u128], array: &dyn Array, picks: Option<&UInt32Array>, looks: usize) -> usize {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let pick_nulls = picks.and_then(|picks| picks.nulls()).filter(|nulls| nulls.null_count() > 0);
    let own = |view: u128| if views::is_long(view) { views::length(view) } else { 0 };
    let rows = picks.map_or(views.len(), |picks| picks.len());
    if looks >= rows && picks.is_none() && nulls.is_none() {
        return views.iter().map(|&view| own(view)).sum();
    }
    if looks >= rows
        && let Some(picks) = picks.filter(|_| nulls.is_none() && pick_nulls.is_none())
    {
        let places = picks.values();
        let own_ahead = |(row, &place): (usize, &u32)| {
            if let Some(&ahead) = places.get(row + AHEAD) {
                prefetch(views, ahead as usize);
            }
            own(views[place as usize])
        };
        return places.iter().enumerate().map(own_ahead).sum();
    }
    let of_row = |row: usize| {
        if pick_nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return 0;
        }
        let place = picks.map_or(row, |picks| picks.value(row) as usize);
        if nulls.is_some_and(|nulls| nulls.is_null(place)) { 0 } else { own(views[place]) }
    };
    if looks >= rows {
        return (0..rows).map(of_row).sum();
    }
    let step = rows.div_ceil(looks.max(1));
    let looked = rows.div_ceil(step);
    (0..rows).step_by(step).map(of_row).sum::<usize>() * rows / looked
}

fn offset_bytes<T: ByteArrayType>(array: &dyn Array) -> usize {
    let offsets = array.as_bytes::<T>().offsets();
    let text = offsets[offsets.len() - 1].as_usize() - offsets[0].as_usize();
    size_of_val(&offsets[..]) + array.len() / 8 + text
}

fn list_bytes<O: OffsetSizeTrait>(array: &dyn Array, looks: usize) -> usize {
    let list = array.as_list::<O>();
    let offsets = list.offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    let values = list.values().slice(first, last - first);
    size_of_val(&offsets[..]) + array.len() / 8 + measured(&values, None, looks)
}

/// The array, or a copy that holds about what its rows need, if it holds more than twice that.
pub fn compacted(array: &ArrayRef) -> Result<ArrayRef> {
    if array.get_array_memory_size() <= 2 * bytes_needed(array) + WASTE_BYTES {
        return Ok(array.clone());
    }
    if matches!(array.data_type(), DataType::Struct(_)) {
        return with_children(array, compacted);
    }
    let all = UInt32Array::from_iter_values(0..array.len() as u32);
    let copy = take(array, &all, None).map_err(from_arrow)?;
    match copy.data_type() {
        // Views of their own, but still with all buffers.
        DataType::Utf8View => Ok(Arc::new(copy.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(copy.as_binary_view().gc())),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..) => {
            with_children(&copy, compacted)
        }
        _ => Ok(copy),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, DictionaryArray, Int32Array, Int64Array, ListArray, StringArray, StringViewArray, StructArray,
    };
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    /// So many strings of 100 bytes.
    fn texts(rows: usize) -> StringViewArray {
        StringViewArray::from_iter_values((0..rows).map(|row| format!("{row:0100}")))
    }

    #[test]
    fn views_are_counted_by_their_own_strings() {
        let all = texts(10_000);
        assert!(all.get_array_memory_size() > 1_000_000);
        let few = all.slice(7, 3);
        assert_eq!(bytes_needed(&few), 3 * 116);
        let picks = UInt32Array::from(vec![Some(9_999), None, Some(4), Some(4)]);
        assert_eq!(picked_bytes(&all, Some(&picks)), 4 * 16 + 3 * 100);
        assert_eq!(estimated_bytes(&all, Some(&picks)), 4 * 16 + 3 * 100);
        assert_eq!(estimated_bytes(&all, None), bytes_needed(&all), "strings of one length");
        let short = StringViewArray::from(vec![Some("short"), None, Some("and"), Some("a string that is long")]);
        assert_eq!(bytes_needed(&short), 4 * 16 + 21);
    }

    #[test]
    fn other_rows_are_counted_by_their_own_values() {
        let numbers = Int64Array::from_iter_values(0..10_000);
        assert_eq!(bytes_needed(&numbers.slice(5, 8)), 8 * 8 + 1);
        assert_eq!(bytes_needed(&BooleanArray::from(vec![true; 80]).slice(0, 16)), 4);
        let texts = StringArray::from_iter_values((0..1000).map(|row| format!("{row:0100}")));
        assert_eq!(bytes_needed(&texts.slice(10, 8)), 9 * 4 + 1 + 800);
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..1000).map(|row| Some(vec![Some(row); 8])));
        assert_eq!(bytes_needed(&lists.slice(10, 8)), 9 * 4 + 1 + 64 * 4 + 8);
        let keys = Int32Array::from_iter_values((0..8).map(|row| row * 100));
        let dictionary = DictionaryArray::new(keys, Arc::new(texts));
        assert_eq!(bytes_needed(&dictionary), 8 * 4 + 1 + (1001 * 4 + 125 + 100_000) * 8 / 1000);
        let picks = UInt32Array::from(vec![1; 50]);
        assert_eq!(picked_bytes(&dictionary, Some(&picks)), bytes_needed(&dictionary) * 50 / 8);
    }

    #[test]
    fn a_compacted_array_holds_what_its_rows_need() {
        let texts: ArrayRef = Arc::new(texts(10_000));
        let field = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([3; 3_333].into_iter().chain([1]));
        let lists: ArrayRef = Arc::new(ListArray::new(field, offsets, texts.clone(), None));
        let fields =
            vec![Field::new("text", DataType::Utf8View, true), Field::new("list", lists.data_type().clone(), true)];
        let nulls = Some(NullBuffer::from_iter((0..3_000).map(|row| row % 5 > 0)));
        let columns = vec![texts.slice(0, 3_000), lists.slice(0, 3_000)];
        let structs: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, nulls));
        let dictionary: ArrayRef =
            Arc::new(DictionaryArray::new(Int32Array::from_iter_values(0..10_000), texts.clone()));
        for array in [texts, lists, structs, Arc::new(Int64Array::from_iter_values(0..10_000)) as ArrayRef] {
            let slice = array.slice(100, 10);
            let copy = compacted(&slice).unwrap();
            assert_eq!(&copy, &slice);
            assert!(copy.get_array_memory_size() < 10_000, "{} bytes", copy.get_array_memory_size());
            assert!(Arc::ptr_eq(&array, &compacted(&array).unwrap()), "{} is compact", array.data_type());
        }
        assert_eq!(&compacted(&dictionary.slice(5, 5)).unwrap(), &dictionary.slice(5, 5));
    }
}
