//! What is asked of a chunk's values where they lie packed: of numbers whether they are in ranges, and of what is
//! stored once for several rows, the values of a dictionary or of runs, anything.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;

use crate::chunk::{Body, Chunk, read_integers};
use crate::damage::{Damaged, Result};

impl Chunk {
    /// For each of some rows, which are all there, whether its value is in one of the ranges, NULL being in none;
    /// `None` if the chunk is not one of whole numbers with a sign. The ranges have a least and a greatest number each,
    /// ascend and do not touch.
    pub fn are_within(&self, rows: Range<usize>, ranges: &[(i64, i64)]) -> Option<BooleanBuffer> {
        let Body::Integers(integers) = &self.body else { return None };
        if rows.start > rows.end || rows.end > self.rows() || self.data_type.is_unsigned_integer() {
            return None;
        }
        let bits = integers.are_within(rows.clone(), ranges);
        Some(match &self.validity {
            None => bits,
            Some(validity) => &bits & &validity.slice(rows.start, rows.len()),
        })
    }

    /// How many [values](Self::values) there are, but for NULL; `None` if each row has a value of its own.
    pub fn values_count(&self) -> Option<usize> {
        match &self.body {
            Body::Nothing if self.rows() > 0 => Some(0),
            Body::Integers(integers) => integers.runs(),
            Body::Texts { texts, .. } => texts.values(),
            _ => None,
        }
    }

    /// What is stored once for several rows: the values of a dictionary, which are all different, or those of runs.
    /// Behind them there is a NULL, if a row is NULL. `None` if each row has a value of its own. In the chunk's type,
    /// or in a narrow one, as by [`read`](Self::read). Fails if what is stored is damaged.
    pub fn values(&self, is_narrow: bool) -> Result<Option<ArrayRef>> {
        let wrong = |error: arrow::error::ArrowError| Damaged(error.to_string());
        let has_null = self.validity.is_some();
        let values = match &self.body {
            Body::Nothing if self.rows() > 0 => return Ok(Some(new_null_array(&self.data_type, 1))),
            Body::Integers(integers) => {
                let Some(firsts) = integers.first_rows() else { return Ok(None) };
                read_integers(integers, &self.data_type, 0..self.rows(), Some(&firsts), None, is_narrow)?
            }
            Body::Texts { is_text, texts } => {
                let Some((_, decoded)) = texts.dictionary(*is_text)? else { return Ok(None) };
                let count = decoded.views.len();
                if is_narrow
                    && self.data_type == DataType::Utf8View
                    && let Some(values) = &decoded.values
                {
                    let codes = (0..count as i32).map(Some).chain(has_null.then_some(None));
                    let codes = DictionaryArray::try_new(codes.collect::<Int32Array>(), values.clone());
                    return Ok(Some(Arc::new(codes.map_err(wrong)?)));
                }
                cast(&decoded.array(*is_text, None), &self.data_type).map_err(wrong)?
            }
            _ => return Ok(None),
        };
        if !has_null {
            return Ok(Some(values));
        }
        let null = new_null_array(values.data_type(), 1);
        concat(&[&*values as &dyn Array, &*null]).map(Some).map_err(wrong)
    }

    /// For each of some rows, which are all there, whether its value is wanted: `wanted` has a bit for each of the
    /// [`values`](Self::values). `None` if there are no such values.
    pub fn are_among(&self, rows: Range<usize>, wanted: &BooleanBuffer) -> Option<BooleanBuffer> {
        let count = self.values_count()?;
        if rows.start > rows.end || rows.end > self.rows() {
            return None;
        }
        let is_null_wanted = count < wanted.len() && wanted.value(count);
        let of_values = wanted.slice(0, count.min(wanted.len()));
        let bits = match &self.body {
            Body::Nothing if is_null_wanted => return Some(BooleanBuffer::new_set(rows.len())),
            Body::Nothing => return Some(BooleanBuffer::new_unset(rows.len())),
            Body::Integers(integers) => integers.by_run(rows.clone(), &of_values)?,
            Body::Texts { texts, .. } => texts.codes()?.are_among(rows.clone(), &of_values),
            _ => return None,
        };
        let Some(validity) = &self.validity else { return Some(bits) };
        let validity = validity.slice(rows.start, rows.len());
        Some(if is_null_wanted { &bits | &!&validity } else { &bits & &validity })
    }
}
