//! A computed table from a line of column names with types, and rows of cells.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, ListBuilder, RecordBatch, RecordBatchOptions, StringBuilder, StringViewArray, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, Schema, SchemaRef, TimeUnit};
use diligence_base::Result;
use diligence_catalog::types::shown_as;
use diligence_catalog::{ComputedTable, SessionSnapshot};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::sql_type::INSTANT_ZONE;
use diligence_types::vector_type::VectorKind;

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Text(String),
    Number(i64),
    Flag(bool),
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Cell::Flag(flag)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Cell::Number(i64::from(number))
    }
}

impl From<i32> for Cell {
    fn from(number: i32) -> Self {
        Cell::Number(i64::from(number))
    }
}

impl From<i16> for Cell {
    fn from(number: i16) -> Self {
        Cell::Number(i64::from(number))
    }
}

/// Columns from text such as `"oid:p relname:n relhasindex:b"`, with the types that drivers expect. The letters: `o` a
/// number of 64 bits, `p` an oid, `x` a number of a transaction, `t` text, `n` a name, `c` a `"char"`, `b` boolean, `i`
/// and `s` numbers of 32 and 16 bits, `f` a double, `r` a real, as a number or as a text, `z` an instant, in
/// microseconds or as a text, `v` an interval in seconds, `T`, `S`, `P` arrays of `t`, `s` and `p`, `V` and `O` vectors
/// of `s` and `p`.
pub(super) fn columns(line: &str) -> SchemaRef {
    let list = |inner| DataType::List(Arc::new(Field::new("item", inner, true)));
    let fields = line.split_whitespace().map(|column| {
        let (name, letter) = column.split_once(':').unwrap_or((column, "t"));
        let data_type = match letter {
            "p" => return SqlType::OID.field(name, true),
            "V" => return SqlType::Vector(VectorKind::SmallInt).field(name, true),
            "O" => return SqlType::Vector(VectorKind::Oid).field(name, true),
            "P" => return SqlType::array_of(SqlType::OID).field(name, true),
            "n" => return SqlType::Name.field(name, true),
            // No expression has these types.
            "c" => return shown_as(SqlType::Varchar(None).field(name, true), "char"),
            "x" => return shown_as(Field::new(name, DataType::Int64, true), "xid"),
            "o" => DataType::Int64,
            "b" => DataType::Boolean,
            "i" => DataType::Int32,
            "s" => DataType::Int16,
            "f" => DataType::Float64,
            "r" => DataType::Float32,
            "z" => DataType::Timestamp(TimeUnit::Microsecond, Some(INSTANT_ZONE.into())),
            "v" => DataType::Interval(IntervalUnit::MonthDayNano),
            "T" => list(DataType::Utf8),
            "S" => list(DataType::Int16),
            _ => DataType::Utf8View,
        };
        Field::new(name, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Computes the rows that a statement sees.
pub(super) type Source = fn(&SessionSnapshot) -> Vec<Vec<Cell>>;

/// The same, of more than the snapshot.
pub(super) type Computation = Arc<dyn Fn(&SessionSnapshot) -> Vec<Vec<Cell>> + Send + Sync>;

/// A table of the catalog. Rows may leave out columns at their end: those are NULL.
pub(super) struct CatalogTable {
    schema: SchemaRef,
    source: Computation,
}

impl CatalogTable {
    pub(super) fn table(line: &str, source: Source) -> Arc<dyn ComputedTable> {
        Self::computed(line, Arc::new(source))
    }

    pub(super) fn computed(line: &str, source: Computation) -> Arc<dyn ComputedTable> {
        Arc::new(Self { schema: columns(line), source })
    }

    /// One that never has rows, because there are no such things here.
    pub(super) fn empty(line: &str) -> Arc<dyn ComputedTable> {
        Self::table(line, |_| Vec::new())
    }
}

impl fmt::Debug for CatalogTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogTable({:?})", self.schema.fields().first().map(|field| field.name()))
    }
}

impl ComputedTable for CatalogTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self, snapshot: &SessionSnapshot) -> Result<RecordBatch> {
        let rows = (self.source)(snapshot);
        let columns = self.schema.fields().iter().enumerate().map(|(index, field)| {
            column(field.data_type(), rows.iter().map(|row| row.get(index).unwrap_or(&Cell::Null)))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &options).map_err(from_arrow)
    }
}

fn column<'a>(data_type: &DataType, cells: impl ExactSizeIterator<Item = &'a Cell>) -> ArrayRef {
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    };
    match data_type {
        DataType::Int64 => Arc::new(Int64Array::from_iter(cells.map(number))),
        DataType::Int32 => Arc::new(Int32Array::from_iter(cells.map(|cell| number(cell).map(|value| value as i32)))),
        DataType::Int16 => Arc::new(Int16Array::from_iter(cells.map(|cell| number(cell).map(|value| value as i16)))),
        DataType::Float64 => {
            Arc::new(Float64Array::from_iter(cells.map(|cell| number(cell).map(|value| value as f64))))
        }
        DataType::Float32 => {
            let real = |cell: &Cell| match cell {
                Cell::Text(text) => text.parse().ok(),
                cell => number(cell).map(|value| value as f32),
            };
            Arc::new(Float32Array::from_iter(cells.map(real)))
        }
        DataType::Timestamp(_, zone) => {
            let instant = |cell: &Cell| match cell {
                Cell::Text(text) => string_to_timestamp_nanos(text).ok().map(|nanoseconds| nanoseconds / 1000),
                cell => number(cell),
            };
            let instants = TimestampMicrosecondArray::from_iter(cells.map(instant));
            Arc::new(instants.with_timezone_opt(zone.clone()))
        }
        DataType::Interval(_) => Arc::new(IntervalMonthDayNanoArray::from_iter(
            cells.map(|cell| number(cell).map(|seconds| IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000))),
        )),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(cells.map(|cell| match cell {
            Cell::Flag(flag) => Some(*flag),
            _ => None,
        }))),
        DataType::List(item) => {
            let cells = cells.collect::<Vec<_>>();
            if *item.data_type() == DataType::Utf8 {
                let mut texts = ListBuilder::new(StringBuilder::new()).with_field(item.clone());
                for cell in &cells {
                    match cell {
                        Cell::Texts(all) => texts.append_value(all.iter().map(Some)),
                        _ => texts.append_null(),
                    }
                }
                return Arc::new(texts.finish());
            }
            let lengths = cells.iter().map(|cell| match cell {
                Cell::Numbers(numbers) => numbers.len(),
                _ => 0,
            });
            let offsets = OffsetBuffer::from_lengths(lengths);
            let there = NullBuffer::from_iter(cells.iter().map(|cell| matches!(cell, Cell::Numbers(_))));
            let all = cells.iter().flat_map(|cell| match cell {
                Cell::Numbers(numbers) => numbers.as_slice(),
                _ => &[],
            });
            let all = Int64Array::from_iter_values(all.copied());
            match cast(&all, item.data_type()) {
                Ok(values) => Arc::new(ListArray::new(item.clone(), offsets, values, Some(there))),
                // There is no other kind of list.
                Err(_) => new_null_array(data_type, cells.len()),
            }
        }
        _ => Arc::new(StringViewArray::from_iter(cells.map(|cell| match cell {
            Cell::Text(text) => Some(text.clone()),
            Cell::Numbers(numbers) => Some(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")),
            _ => None,
        }))),
    }
}
