//! Intervals through Parquet's own reader. It gives their months or their days and milliseconds, so it reads them
//! twice, and this puts both together; within lists and structs as well.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray, make_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, IntervalUnit};
use diligence_base::{Error, Result};

use super::column_rows::ColumnRows;
use crate::foreign_error::from_arrow;

const MILLISECOND_NANOS: i64 = 1_000_000;

/// Whether a type is that of intervals, or has them within.
pub(super) fn has_intervals(ty: &DataType) -> bool {
    match ty {
        DataType::Interval(_) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_intervals(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        _ => false,
    }
}

/// The type with this unit of its intervals.
pub(super) fn with_unit(ty: &DataType, unit: IntervalUnit) -> DataType {
    let inner = |field: &FieldRef| Arc::new(Field::clone(field).with_data_type(with_unit(field.data_type(), unit)));
    match ty {
        DataType::Interval(_) => DataType::Interval(unit),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    }
}

/// A column with intervals, read twice.
pub(super) struct IntervalRows {
    /// What errors are about.
    pub what: String,
    /// With the months of intervals.
    pub months: Box<dyn ColumnRows>,
    /// With their days and milliseconds.
    pub days: Box<dyn ColumnRows>,
}

impl IntervalRows {
    fn together(&self, months: &ArrayRef, days: &ArrayRef) -> Result<ArrayRef> {
        Ok(make_array(self.merged(&months.to_data(), &days.to_data())?))
    }

    fn merged(&self, months: &ArrayData, days: &ArrayData) -> Result<ArrayData> {
        let ty = days.data_type();
        match (months.data_type(), ty) {
            (DataType::Interval(IntervalUnit::YearMonth), DataType::Interval(IntervalUnit::DayTime)) => {
                let months = IntervalYearMonthArray::from(months.clone());
                let days = IntervalDayTimeArray::from(days.clone());
                let merged = (0..days.len()).map(|row| {
                    if days.is_null(row) {
                        return Ok(None);
                    }
                    let (month, rest) = (months.value(row), days.value(row));
                    if month < 0 || rest.days < 0 {
                        let what = "an interval has more months or days than there can be";
                        return Err(Error::file(format!("{}: {what}", self.what)));
                    }
                    // No part has a sign.
                    let nanos = i64::from(rest.milliseconds as u32) * MILLISECOND_NANOS;
                    Ok(Some(IntervalMonthDayNano::new(month, rest.days, nanos)))
                });
                Ok(merged.collect::<Result<IntervalMonthDayNanoArray>>()?.to_data())
            }
            (_, DataType::Interval(_)) => Err(Error::bug(format!("{}: intervals came as {ty}", self.what))),
            _ if has_intervals(ty) => {
                let children = months.child_data().iter().zip(days.child_data());
                let children = children.map(|(months, days)| self.merged(months, days)).collect::<Result<Vec<_>>>()?;
                let ty = with_unit(ty, IntervalUnit::MonthDayNano);
                days.clone().into_builder().data_type(ty).child_data(children).build().map_err(from_arrow)
            }
            _ => Ok(days.clone()),
        }
    }
}

impl ColumnRows for IntervalRows {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.months.skip(rows)?;
        self.days.skip(rows)
    }

    fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        let (months, days) = (self.months.read(rows)?, self.days.read(rows)?);
        self.together(&months, &days)
    }

    fn read_selected(&mut self, selected: &BooleanBuffer) -> Result<ArrayRef> {
        let (months, days) = (self.months.read_selected(selected)?, self.days.read_selected(selected)?);
        self.together(&months, &days)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::IntervalMonthDayNanoType;
    use parquet::basic::Compression;
    use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::ScanRequest;
    use crate::external::testing::{all, table_of, try_read_all};

    fn stored(months: u32, days: u32, milliseconds: u32) -> FixedLenByteArray {
        let parts = [months.to_le_bytes(), days.to_le_bytes(), milliseconds.to_le_bytes()];
        FixedLenByteArray::from(parts.concat())
    }

    #[test]
    fn intervals_keep_their_months() {
        let schema = "message m {
            required fixed_len_byte_array(12) plain (INTERVAL);
            optional group listed (LIST) {
                repeated group list { optional fixed_len_byte_array(12) element (INTERVAL); }
            }
            optional group within { optional fixed_len_byte_array(12) x (INTERVAL); }
        }";
        for compression in [Compression::SNAPPY, Compression::GZIP(Default::default()), Compression::LZ4_RAW] {
            let schema = Arc::new(parse_message_type(schema).unwrap());
            let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
            let mut bytes = Vec::new();
            let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
            let mut group = writer.next_row_group().unwrap();
            let values = [stored(1, 2, 3), stored(0, 0, u32::MAX), stored(14, 0, 0)];
            let levels: [(Option<&[i16]>, Option<&[i16]>, usize); 3] =
                [(None, None, 3), (Some(&[3, 2, 3, 0, 1]), Some(&[0, 1, 1, 0, 0]), 2), (Some(&[2, 0, 1]), None, 1)];
            for (definition, repetition, count) in levels {
                let mut column = group.next_column().unwrap().unwrap();
                let typed = column.typed::<FixedLenByteArrayType>();
                typed.write_batch(&values[..count], definition, repetition).unwrap();
                column.close().unwrap();
            }
            group.close().unwrap();
            writer.close().unwrap();
            let table = table_of("intervals.parquet", bytes);
            let request = ScanRequest { columns: all(&table), predicate: None };
            let read = try_read_all(&table, &request, &[], 2, false).unwrap();
            let first = IntervalMonthDayNano::new(1, 2, 3 * MILLISECOND_NANOS);
            let second = IntervalMonthDayNano::new(0, 0, i64::from(u32::MAX) * MILLISECOND_NANOS);
            let third = IntervalMonthDayNano::new(14, 0, 0);
            let plain = read.column(0).as_primitive::<IntervalMonthDayNanoType>();
            assert_eq!(plain.values().to_vec(), [first, second, third], "{compression}");
            let listed = read.column(1).as_list::<i32>();
            let items = listed.values().as_primitive::<IntervalMonthDayNanoType>();
            assert_eq!(items.iter().collect::<Vec<_>>(), [Some(first), None, Some(second)], "{compression}");
            assert!(listed.is_null(1) && listed.is_valid(2) && listed.value(2).is_empty(), "{compression}");
            let within = read.column(2).as_struct();
            let items = within.column(0).as_primitive::<IntervalMonthDayNanoType>();
            assert!(items.value(0) == first && items.is_null(1) && within.is_null(1) && items.is_null(2));
        }
    }
}
