//! Values where Arrow writes them as JSON or as text: SQL's texts where Arrow has none, or another.
//!
//! Arrow has no text for `24:00:00`, for the infinities and for years far away, where it writes an error's text into
//! the cell; it has none for NaN in JSON, and quotes what is JSON already.

use std::fmt::Write;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal256Array, IntervalMonthDayNanoArray, MapArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal256Type, Field, FieldRef, Float32Type, Float64Type, IntervalMonthDayNanoType,
    IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult};

use super::calendar::DAY;
use super::decimals::{self, Zeros};
use super::interval::write_interval;
use super::json::write_text;
use super::{Styles, Zone, datetime, print::Printer};
use crate::SqlType;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};

/// Has Arrow write values in SQL's texts, also in lists, structs and maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// As ISO 8601 and JSON have them, as far as they do: dates and times that these have no text for have SQL's.
    Iso,
    /// As files have them, which are read back: SQL's texts for dates, times, intervals and bytes, `NaN` and
    /// `Infinity`, and JSON as it is.
    Files,
}

/// Days from 1970-01-01 to 0001-01-01, and to 9999-12-31: what all programs know.
const USUAL_DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// Dates, times and intervals.
enum Times {
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
}

impl Times {
    fn of(array: &dyn Array) -> Option<Self> {
        let micros = |wanted: DataType| cast(array, &wanted).ok();
        Some(match array.data_type() {
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>().clone()),
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::Time(array.as_primitive::<Time64MicrosecondType>().clone())
            }
            DataType::Timestamp(_, zone) => {
                let array = micros(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
                Self::Timestamp(array.as_primitive::<TimestampMicrosecondType>().clone())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Self::Interval(array.as_primitive::<IntervalMonthDayNanoType>().clone())
            }
            _ => return None,
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Date(array) => array,
            Self::Time(array) => array,
            Self::Timestamp(array) => array,
            Self::Interval(array) => array,
        }
    }

    /// Whether Arrow has a text for the value of a row, which says what SQL's does.
    fn is_usual(&self, row: usize) -> bool {
        match self {
            Self::Date(array) => USUAL_DAYS.contains(&i64::from(array.value(row))),
            Self::Time(array) => (0..DAY).contains(&array.value(row)),
            Self::Timestamp(array) => USUAL_DAYS.contains(&array.value(row).div_euclid(DAY)),
            Self::Interval(_) => true,
        }
    }

    fn write(&self, row: usize, out: &mut String) {
        let styles = Styles::default();
        match self {
            Self::Date(array) => datetime::write_date(out, array.value(row), &styles),
            Self::Time(array) => datetime::write_time(out, array.value(row)),
            Self::Timestamp(array) if array.timezone().is_some() => {
                datetime::write_timestamptz(out, array.value(row), &Zone::UTC);
            }
            Self::Timestamp(array) => datetime::write_timestamp(out, array.value(row), &styles),
            Self::Interval(array) => write_interval(out, array.value(row), styles.interval),
        }
    }
}

/// Dates and times, some of which Arrow writes.
struct MixedTimes<'a> {
    times: Times,
    /// What writes the usual ones, if they are not written here.
    usual: Option<ArrayFormatter<'a>>,
    null: &'a str,
}

impl<'a> MixedTimes<'a> {
    /// `None` if Arrow writes all of them.
    fn of(array: &'a dyn Array, forms: Forms, options: &FormatOptions<'a>) -> Result<Option<Self>, ArrowError> {
        let Some(times) = Times::of(array) else { return Ok(None) };
        let usual = match forms {
            Forms::Files => None,
            Forms::Iso if (0..array.len()).all(|row| array.is_null(row) || times.is_usual(row)) => return Ok(None),
            Forms::Iso => Some(ArrayFormatter::try_new(array, &options.clone().with_formatter_factory(None))?),
        };
        Ok(Some(Self { times, usual, null: options.null() }))
    }

    fn text(&self, row: usize, out: &mut String) {
        match &self.usual {
            Some(usual) if self.times.is_usual(row) => {
                let _ = write!(out, "{}", usual.value(row));
            }
            _ => self.times.write(row, out),
        }
    }
}

impl DisplayIndex for MixedTimes<'_> {
    fn write(&self, row: usize, out: &mut dyn Write) -> FormatResult {
        let mut text = String::new();
        match self.times.array().is_null(row) {
            true => text.push_str(self.null),
            false => self.text(row, &mut text),
        }
        out.write_str(&text)?;
        Ok(())
    }
}

impl Encoder for MixedTimes<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let mut text = String::from("\"");
        self.text(row, &mut text);
        text.push('"');
        out.extend_from_slice(text.as_bytes());
    }
}

impl ArrayFormatterFactory for Forms {
    fn create_array_formatter<'formatter>(
        &self,
        array: &'formatter dyn Array,
        options: &FormatOptions<'formatter>,
        _field: Option<&'formatter Field>,
    ) -> Result<Option<ArrayFormatter<'formatter>>, ArrowError> {
        let mixed = MixedTimes::of(array, *self, options)?;
        Ok(mixed.map(|mixed| ArrayFormatter::new(Box::new(mixed), options.safe())))
    }
}

/// JsonTexts that stand in JSON as they are, or between quotes.
struct JsonTexts {
    texts: StringViewArray,
    is_json: bool,
}

impl Encoder for JsonTexts {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = self.texts.value(row);
        if self.is_json {
            // A line feed in JSON is no more than a blank, and would end a line here.
            out.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
            return;
        }
        let mut quoted = String::with_capacity(text.len() + 2);
        write_text(&mut quoted, text);
        out.extend_from_slice(quoted.as_bytes());
    }
}

/// Floats of which some are no numbers.
struct Floats(arrow::array::Float64Array);

impl Encoder for Floats {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match self.0.value(row) {
            f64::INFINITY => "Infinity".to_owned(),
            f64::NEG_INFINITY => "-Infinity".to_owned(),
            value => format!("{value:?}"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

struct Reals(arrow::array::Float32Array);

impl Encoder for Reals {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match self.0.value(row) {
            f32::INFINITY => "Infinity".to_owned(),
            f32::NEG_INFINITY => "-Infinity".to_owned(),
            value => format!("{value:?}"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// A `numeric` without parentheses: no zeros at its end.
struct Numbers(Decimal256Array);

impl Encoder for Numbers {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let mut text = String::new();
        decimals::write_wide_decimal(&mut text, self.0.value(row), NUMERIC_SCALE, Zeros::Dropped);
        out.extend_from_slice(text.as_bytes());
    }
}

/// A map whose keys are no texts: objects with the keys' texts.
struct Entries<'a> {
    map: MapArray,
    keys: StringViewArray,
    values: NullableEncoder<'a>,
}

impl Encoder for Entries<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let ends = self.map.value_offsets();
        let (from, to) = (ends[row] as usize, ends[row + 1] as usize);
        out.push(b'{');
        for place in from..to {
            if place > from {
                out.push(b',');
            }
            let mut key = String::new();
            write_text(&mut key, self.keys.value(place));
            out.extend_from_slice(key.as_bytes());
            out.push(b':');
            match self.values.is_null(place) {
                true => out.extend_from_slice(b"null"),
                false => self.values.encode(place, out),
            }
        }
        out.push(b'}');
    }
}

impl EncoderFactory for Forms {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let failed = |error: diligence_base::Error| ArrowError::CastError(error.message().to_owned());
        let texts = |array: &dyn Array, sql_type: &SqlType| -> Result<StringViewArray, ArrowError> {
            let held: ArrayRef = cast(array, &sql_type.arrow())?;
            Ok(Printer::new(&held, sql_type, Zone::UTC).map_err(failed)?.texts())
        };
        let nulls = array.logical_nulls();
        if let DataType::Interval(IntervalUnit::MonthDayNano) = array.data_type() {
            let mixed = MixedTimes::of(array, Forms::Files, &FormatOptions::default())?;
            return Ok(mixed.map(|mixed| NullableEncoder::new(Box::new(mixed), nulls)));
        }
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Map(entries, _) => {
                let DataType::Struct(pair) = entries.data_type() else { return Ok(None) };
                let Some(key_type) = pair.first().and_then(|key| SqlType::of_field(key)) else { return Ok(None) };
                if matches!(pair[0].data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                    return Ok(None);
                }
                let map = array.as_map();
                let keys = texts(map.keys(), &key_type)?;
                let values = make_encoder(&pair[1], map.values(), options)?;
                Box::new(Entries { map: map.clone(), keys, values })
            }
            _ if *self == Forms::Iso => match MixedTimes::of(array, *self, &FormatOptions::default())? {
                Some(mixed) => Box::new(mixed),
                None => return Ok(None),
            },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match SqlType::of_field(field) {
                Some(SqlType::Json | SqlType::Jsonb) => {
                    let texts = cast(array, &DataType::Utf8View)?.as_string_view().clone();
                    Box::new(JsonTexts { texts, is_json: true })
                }
                _ => return Ok(None),
            },
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Box::new(JsonTexts { texts: texts(array, &SqlType::Bytea)?, is_json: false })
            }
            DataType::Float64 => {
                let floats = array.as_primitive::<Float64Type>();
                if floats.iter().flatten().all(f64::is_finite) {
                    return Ok(None);
                }
                Box::new(Floats(floats.clone()))
            }
            DataType::Float32 => {
                let floats = array.as_primitive::<Float32Type>();
                if floats.iter().flatten().all(f32::is_finite) {
                    return Ok(None);
                }
                Box::new(Reals(floats.clone()))
            }
            DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE) => {
                Box::new(Numbers(array.as_primitive::<Decimal256Type>().clone()))
            }
            _ => match MixedTimes::of(array, *self, &FormatOptions::default())? {
                Some(mixed) => Box::new(mixed),
                None => return Ok(None),
            },
        };
        Ok(Some(NullableEncoder::new(encoder, nulls)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryViewArray, Float64Array, RecordBatch};
    use arrow::json::writer::{LineDelimited, WriterBuilder};

    use super::*;

    fn written(forms: Forms, columns: Vec<(Field, ArrayRef)>) -> String {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let batch = RecordBatch::try_new(schema, arrays).unwrap();
        let mut out = Vec::new();
        let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(forms));
        builder.build::<_, LineDelimited>(&mut out).write(&batch).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_value_is_without_a_text() {
        let columns = || -> Vec<(Field, ArrayRef)> {
            vec![
                (SqlType::Date.field("d", true), Arc::new(Date32Array::from(vec![Some(i32::MAX), None, Some(0)]))),
                (SqlType::Time.field("t", true), Arc::new(Time64MicrosecondArray::from(vec![DAY, 0, 1_500_000]))),
                (
                    SqlType::Timestamp.field("ts", true),
                    Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, 0, -63_517_824_000_000_000])),
                ),
            ]
        };
        assert_eq!(
            written(Forms::Files, columns()),
            "{\"d\":\"infinity\",\"t\":\"24:00:00\",\"ts\":\"-infinity\"}\n\
             {\"d\":null,\"t\":\"00:00:00\",\"ts\":\"1970-01-01 00:00:00\"}\n\
             {\"d\":\"1970-01-01\",\"t\":\"00:00:01.5\",\"ts\":\"0044-03-15 00:00:00 BC\"}\n"
        );
        let iso = written(Forms::Iso, columns());
        assert!(
            iso.contains("\"infinity\"") && iso.contains("\"24:00:00\"") && iso.contains("\"1970-01-01T00:00:00\"")
        );
        assert!(iso.contains("0044-03-15 00:00:00 BC") && !iso.contains("rror"), "{iso}");
    }

    #[test]
    fn files_have_json_bytes_and_no_numbers() {
        let columns: Vec<(Field, ArrayRef)> = vec![
            (SqlType::Json.field("j", true), Arc::new(StringViewArray::from(vec![Some("{\"a\":\n1}"), None]))),
            (SqlType::Bytea.field("b", true), Arc::new(BinaryViewArray::from(vec![Some(&b"\x01\xff"[..]), None]))),
            (SqlType::Double.field("n", true), Arc::new(Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY]))),
        ];
        assert_eq!(
            written(Forms::Files, columns),
            "{\"j\":{\"a\": 1},\"b\":\"\\\\x01ff\",\"n\":NaN}\n{\"j\":null,\"b\":null,\"n\":-Infinity}\n"
        );
    }
}
