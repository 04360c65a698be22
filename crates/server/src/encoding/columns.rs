//! A batch as rows: of text, or of PostgreSQL's binary form, as each column is wanted.

use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};
use diligence_base::{Error, Result};
use diligence_db::Zone;
use diligence_db::postgres::{ColumnType, field_type};

use super::fields::put_length;
use super::values::Values;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As people read it.
    Text,
    /// As machines do.
    Binary,
}

/// A result's columns as they are sent.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<(ColumnType, Form)>,
    /// Where timestamps with a time zone are shown.
    zone: Zone,
}

impl Columns {
    /// The columns of a schema. `forms` has one form for each, one for all, or none: text.
    pub fn new(schema: &Schema, forms: &[i16]) -> Result<Self> {
        let form = |index: usize| match forms {
            [] => Ok(Form::Text),
            [one] => form_of(*one),
            many => many.get(index).map_or(Err(wrong_count()), |code| form_of(*code)),
        };
        let fields = schema.fields().iter().enumerate();
        let columns = fields.map(|(index, field)| Ok((field_type(field), form(index)?))).collect::<Result<_>>()?;
        Ok(Self { columns, zone: Zone::UTC })
    }

    /// All columns in one form.
    pub fn all(schema: &Schema, form: Form) -> Self {
        let columns = schema.fields().iter().map(|field| (field_type(field), form)).collect();
        Self { columns, zone: Zone::UTC }
    }

    /// With timestamps with a time zone shown in this one, not in UTC.
    pub fn in_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// With columns in binary form of the types that the client was told of before, by which it reads them. Texts are
    /// read without them.
    pub fn with_told(mut self, told: &Schema) -> Self {
        for ((column, form), field) in self.columns.iter_mut().zip(told.fields()) {
            let told = field_type(field);
            if *form == Form::Binary && told.oid != column.oid {
                *column = told;
            }
        }
        self
    }

    /// The types and forms, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(ColumnType, Form)> {
        self.columns.iter()
    }

    /// The batch made ready to be written row by row.
    pub fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        if batch.num_columns() != self.columns.len() {
            return Err(Error::bug("a batch has other columns than its result"));
        }
        let columns = batch.columns().iter().zip(&self.columns).map(|(array, (column, form))| {
            let values = Values::new(array, column, self.zone)?;
            Ok(Column { nulls: values.nulls().cloned(), values, column: *column, form: *form })
        });
        Ok(Rows { columns: columns.collect::<Result<_>>()?, count: batch.num_rows() })
    }
}

/// The form of a format code.
pub fn form_of(code: i16) -> Result<Form> {
    match code {
        0 => Ok(Form::Text),
        1 => Ok(Form::Binary),
        other => Err(Error::input(format!("{other} is no format code: 0 is text, 1 is binary")).with_code("22023")),
    }
}

fn wrong_count() -> Error {
    Error::input("there are fewer format codes than columns").with_code("08P01")
}

/// What texts of numbers, flags, dates and times are made of.
pub const PLAIN: &[u8] = b"0123456789+-.: eNaInfinityBCtf";

/// A batch that is written row by row.
pub struct Rows {
    columns: Vec<Column>,
    count: usize,
}

struct Column {
    values: Values,
    nulls: Option<NullBuffer>,
    column: ColumnType,
    form: Form,
}

impl Rows {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Writes rows as DataRow messages until `out` has so many bytes; gives the first row that is left.
    pub fn write_messages(&self, from: usize, to: usize, bytes: usize, out: &mut BytesMut) -> usize {
        let mut row = from;
        while row < to && out.len() < bytes {
            out.put_u8(b'D');
            let start = out.len();
            out.put_i32(0);
            self.write_fields(row, out);
            put_length(start, 0, out);
            row += 1;
        }
        row
    }

    /// Writes one row as its count of fields and the fields with their lengths: the body of a DataRow, and a row of a
    /// binary COPY.
    pub fn write_fields(&self, row: usize, out: &mut BytesMut) {
        out.put_i16(self.columns.len() as i16);
        for column in &self.columns {
            match column.form {
                _ if column.is_null(row) => out.put_i32(-1),
                Form::Text => column.values.text_field(row, &column.column, out),
                Form::Binary => column.values.binary_field(row, &column.column, out),
            }
        }
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Whether a field is NULL.
    pub fn is_null(&self, row: usize, column: usize) -> bool {
        self.columns[column].is_null(row)
    }

    /// Whether a column's texts have only characters of [`PLAIN`].
    pub fn is_plain(&self, column: usize) -> bool {
        let values = &self.columns[column].values;
        !matches!(
            values,
            Values::Text(_)
                | Values::Held(..)
                | Values::Bytes(_)
                | Values::Interval(_)
                | Values::List(..)
                | Values::Row(..)
                | Values::Range(..)
                | Values::Multirange(..)
                | Values::Network(..)
                | Values::Search(..)
        )
    }

    /// A field that is text as it is.
    pub fn as_text(&self, row: usize, column: usize) -> Option<&[u8]> {
        match &self.columns[column].values {
            Values::Text(array) => Some(array.value(row).as_bytes()),
            _ => None,
        }
    }

    /// Writes a field as text; false if it is NULL.
    pub fn write_text(&self, row: usize, column: usize, out: &mut BytesMut) -> bool {
        let column = &self.columns[column];
        if column.is_null(row) {
            return false;
        }
        column.values.text(row, &column.column, out);
        true
    }
}

impl Column {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
        ListArray, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Int32Type};

    use super::super::fields::{EPOCH_DAYS, EPOCH_MICROSECONDS};
    use super::*;

    fn texts(array: ArrayRef) -> Vec<String> {
        let schema = Schema::new(vec![Field::new("value", array.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
        let rows = Columns::all(&schema, Form::Text).rows(&batch).unwrap();
        let one = |row| {
            let mut out = BytesMut::new();
            if rows.write_text(row, 0, &mut out) { String::from_utf8(out.to_vec()).unwrap() } else { "NULL".into() }
        };
        (0..rows.count()).map(one).collect()
    }

    #[test]
    fn arrays_quote_what_would_be_misread() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
        assert_eq!(texts(Arc::new(list)), ["{1,NULL}", "NULL", "{}"]);
        let mut words = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
        words.append_value(["a b", "", "null", "q\"", "plain"].map(Some));
        assert_eq!(texts(Arc::new(words.finish())), [r#"{"a b","","null","q\"",plain}"#]);
    }

    #[test]
    fn both_forms_have_their_lengths_and_nulls() {
        let columns: Vec<(ArrayRef, &str, &[u8])> = vec![
            (Arc::new(BooleanArray::from(vec![Some(true), None])), "t", &[1]),
            (Arc::new(Int16Array::from(vec![Some(-2), None])), "-2", &[255, 254]),
            (Arc::new(Int32Array::from(vec![Some(3), None])), "3", &[0, 0, 0, 3]),
            (Arc::new(Int64Array::from(vec![Some(4), None])), "4", &[0, 0, 0, 0, 0, 0, 0, 4]),
            (Arc::new(Float32Array::from(vec![Some(1.5), None])), "1.5", &[0x3f, 0xc0, 0, 0]),
            (Arc::new(Float64Array::from(vec![Some(1.5), None])), "1.5", &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
            (Arc::new(StringViewArray::from(vec![Some("é"), None])), "é", "é".as_bytes()),
            (Arc::new(arrow::array::BinaryArray::from(vec![Some(&[7u8][..]), None])), "\\x07", &[7]),
            (Arc::new(arrow::array::Date32Array::from(vec![Some(EPOCH_DAYS + 1), None])), "2000-01-02", &[0, 0, 0, 1]),
            (Arc::new(Time64MicrosecondArray::from(vec![Some(1), None])), "00:00:00.000001", &[0, 0, 0, 0, 0, 0, 0, 1]),
            (
                Arc::new(TimestampMicrosecondArray::from(vec![Some(EPOCH_MICROSECONDS + 2), None])),
                "2000-01-01 00:00:00.000002",
                &[0, 0, 0, 0, 0, 0, 0, 2],
            ),
            (
                Arc::new(Decimal128Array::from(vec![Some(12_345), None]).with_precision_and_scale(9, 2).unwrap()),
                "123.45",
                &[0, 2, 0, 0, 0, 0, 0, 2, 0, 123, 0x11, 0x94],
            ),
            (
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None])),
                "{1,NULL}",
                &[
                    0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 255, 255, 255,
                    255,
                ],
            ),
        ];
        for (array, text, binary) in columns {
            let schema = Schema::new(vec![Field::new("value", array.data_type().clone(), true)]);
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
            for (form, wanted) in [(Form::Text, text.as_bytes()), (Form::Binary, binary)] {
                let rows = Columns::all(&schema, form).rows(&batch).unwrap();
                let mut out = BytesMut::new();
                assert_eq!(rows.write_messages(0, 2, usize::MAX, &mut out), 2);
                let mut expected = BytesMut::new();
                expected.put_u8(b'D');
                expected.put_i32(10 + wanted.len() as i32);
                expected.put_i16(1);
                expected.put_i32(wanted.len() as i32);
                expected.put_slice(wanted);
                expected.put_slice(b"D\0\0\0\x0a\0\x01\xff\xff\xff\xff");
                assert_eq!(out, expected, "{form:?} {text}");
            }
        }
    }
}
