//! JSON values into columns.
//!
//! Invariant: after a value was taken, every column of it has one more row, whether the value fitted or not. So a
//! record can be left out afterwards.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder,
    Int64Builder, ListArray, MapArray, StringArray, StringViewArray, StringViewBuilder, StructArray,
    TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, IntervalUnit, TimeUnit};
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::text::{ReadOptions, parse_array};

use super::csv_values::{
    Forms, checked_type, parse_boolean, parse_date, parse_decimal, parse_integer, parse_text, rare_date,
    rare_timestamp, rounded_micros,
};
use super::json_text::{Flaw, Kind, each_item, each_member, kind, string, value_end};
use crate::external::schema::{JSON_TYPE, TYPE_KEY, field_type_name, type_name};
use crate::foreign_error::from_arrow;

/// The values of one key.
pub(super) struct Column {
    field: FieldRef,
    /// Whether the type was inferred, so that values which it would not have been inferred from are errors.
    is_strict: bool,
    /// How dates and timestamps are written.
    forms: Arc<Forms>,
    values: Values,
}

enum Values {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Double(Float64Builder),
    Decimal {
        values: Decimal128Builder,
        scale: u32,
        limit: i128,
    },
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder, Option<arrow::array::timezone::Tz>),
    Text(StringViewBuilder),
    /// Values as they are written.
    Json(StringViewBuilder),
    /// Texts that are cast in the end.
    Cast(StringViewBuilder),
    List {
        offsets: Vec<i32>,
        nulls: NullBufferBuilder,
        items: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        nulls: NullBufferBuilder,
        keys: StringViewBuilder,
        key_count: usize,
        values: Box<Column>,
    },
    Record {
        nulls: NullBufferBuilder,
        members: Record,
    },
}

/// The columns of objects, by their keys.
pub(super) struct Record {
    columns: Vec<Column>,
    /// The columns by key; `None` for keys that are known but not wanted.
    places: HashMap<String, Option<usize>>,
    /// Keys in the order in which they are expected.
    names: Vec<String>,
    /// Where the values of the object at hand begin.
    starts: Vec<usize>,
    /// Whether a key that is not known is an error.
    is_strict: bool,
}

impl Column {
    /// An empty column.
    pub fn new(field: &FieldRef, is_strict: bool, forms: &Arc<Forms>) -> Result<Self> {
        let values = match field.data_type() {
            _ if field.metadata().get(TYPE_KEY).is_some_and(|name| name.starts_with(JSON_TYPE)) => {
                Values::Json(StringViewBuilder::new())
            }
            DataType::Boolean => Values::Boolean(BooleanBuilder::new()),
            ty if ty.is_signed_integer() => Values::Integer(Int64Builder::new()),
            DataType::Float64 | DataType::Float32 => Values::Double(Float64Builder::new()),
            DataType::Decimal128(precision, scale) if *scale >= 0 => Values::Decimal {
                values: Decimal128Builder::new().with_data_type(field.data_type().clone()),
                scale: *scale as u32,
                limit: 10i128.pow(u32::from(*precision)),
            },
            DataType::Date32 => Values::Date(Date32Builder::new()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let builder = TimestampMicrosecondBuilder::new().with_data_type(field.data_type().clone());
                let zone = zone.as_deref().map(|zone| zone.parse::<arrow::array::timezone::Tz>()).transpose();
                Values::Timestamp(builder, zone.map_err(from_arrow)?)
            }
            _ if checked_type(field).is_some() => Values::Cast(StringViewBuilder::new()),
            DataType::Utf8View | DataType::Utf8 => Values::Text(StringViewBuilder::new()),
            DataType::List(item) => Values::List {
                offsets: vec![0],
                nulls: NullBufferBuilder::new(0),
                items: Box::new(Column::new(item, is_strict, forms)?),
            },
            DataType::Map(entries, _) => {
                let DataType::Struct(pair) = entries.data_type() else {
                    return Err(Error::unsupported(format!("a JSON column cannot be {}", field.data_type())));
                };
                Values::Map {
                    offsets: vec![0],
                    nulls: NullBufferBuilder::new(0),
                    keys: StringViewBuilder::new(),
                    key_count: 0,
                    values: Box::new(Column::new(&pair[1], is_strict, forms)?),
                }
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(Some).collect::<Vec<_>>();
                let members = Record::new(fields, &columns, is_strict, forms)?;
                Values::Record { nulls: NullBufferBuilder::new(0), members }
            }
            _ => Values::Cast(StringViewBuilder::new()),
        };
        Ok(Self { field: field.clone(), is_strict, forms: forms.clone(), values })
    }

    /// One more row without a value.
    fn take_null(&mut self) {
        match &mut self.values {
            Values::Boolean(values) => values.append_null(),
            Values::Integer(values) => values.append_null(),
            Values::Double(values) => values.append_null(),
            Values::Decimal { values, .. } => values.append_null(),
            Values::Date(values) => values.append_null(),
            Values::Timestamp(values, _) => values.append_null(),
            Values::Text(values) | Values::Json(values) | Values::Cast(values) => values.append_null(),
            Values::List { offsets, nulls, items } => {
                offsets.push(items.len() as i32);
                nulls.append_null();
            }
            Values::Map { offsets, nulls, key_count, .. } => {
                offsets.push(*key_count as i32);
                nulls.append_null();
            }
            Values::Record { nulls, members } => {
                nulls.append_null();
                members.take_null();
            }
        }
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::Boolean(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Double(values) => values.len(),
            Values::Decimal { values, .. } => values.len(),
            Values::Date(values) => values.len(),
            Values::Timestamp(values, _) => values.len(),
            Values::Text(values) | Values::Json(values) | Values::Cast(values) => values.len(),
            Values::List { offsets, .. } | Values::Map { offsets, .. } => offsets.len() - 1,
            Values::Record { nulls, .. } => nulls.len(),
        }
    }

    /// Takes the value at a position, and gives its end.
    pub fn take(&mut self, text: &[u8], at: usize, depth: usize) -> Result<usize, Flaw> {
        let kind = match kind(text, at) {
            Ok(kind) => kind,
            Err(flaw) => {
                self.take_null();
                return Err(flaw);
            }
        };
        if kind == Kind::Null {
            self.take_null();
            return value_end(text, at, depth);
        }
        match (&mut self.values, kind) {
            (Values::List { offsets, nulls, items }, Kind::List) => {
                let end = each_item(text, at, depth, |at| items.take(text, at, depth + 1));
                offsets.push(items.len() as i32);
                nulls.append(end.is_ok());
                end.map_err(|flaw| below(flaw, "[]"))
            }
            (Values::Map { offsets, nulls, keys, key_count, values }, Kind::Object) => {
                let end = each_member(text, at, depth, |key, at| {
                    let key = string(key, at)?;
                    keys.append_value(&key);
                    *key_count += 1;
                    values.take(text, at, depth + 1)
                });
                offsets.push(*key_count as i32);
                nulls.append(end.is_ok());
                end
            }
            (Values::Record { nulls, members }, Kind::Object) => {
                let end = members.take(text, at, depth);
                nulls.append(end.is_ok());
                end
            }
            _ => {
                let outcome = value_end(text, at, depth).and_then(|end| self.scalar(text, at, end, kind).map(|()| end));
                if outcome.is_err() {
                    self.take_null();
                }
                outcome
            }
        }
    }

    /// Takes a value that is no part of a list or an object; takes nothing if it does not fit.
    fn scalar(&mut self, text: &[u8], at: usize, end: usize, kind: Kind) -> Result<(), Flaw> {
        let raw = &text[at..end];
        let unescaped;
        let plain = match kind {
            Kind::Text => {
                unescaped = string(raw, at)?;
                unescaped.as_bytes()
            }
            _ => raw,
        };
        let is_number = kind == Kind::Number;
        // Texts may be numbers where the statement says so, and never where the values say the types.
        let may_convert = !self.is_strict && matches!(kind, Kind::Text | Kind::Boolean | Kind::Number);
        let is_number = is_number || may_convert && kind == Kind::Text;
        let taken = match &mut self.values {
            Values::Boolean(values) if kind == Kind::Boolean || may_convert => {
                parse_boolean(plain).map(|value| values.append_value(value))
            }
            Values::Integer(values) if is_number => {
                // A number with a fraction is rounded where the statement says the type; a text is none.
                let value = whole(plain.trim_ascii()).or_else(|| match may_convert && kind == Kind::Number {
                    true => parse_decimal(plain, 0, i128::MAX).and_then(|value| i64::try_from(value).ok()),
                    false => None,
                });
                value.map(|value| values.append_value(value))
            }
            Values::Double(values) if is_number => {
                let value = parse_text::<f64>(plain.trim_ascii());
                let is_said = kind == Kind::Text || plain.ends_with(b"N") || plain.ends_with(b"y");
                value.filter(|value| value.is_finite() || is_said).map(|value| values.append_value(value))
            }
            Values::Decimal { values, scale, limit } if is_number => {
                parse_decimal(plain.trim_ascii(), *scale, *limit).map(|value| values.append_value(value))
            }
            Values::Date(values) if kind == Kind::Text => {
                let plain = plain.trim_ascii();
                let value = match self.forms.date {
                    Some(_) => self.forms.date(plain),
                    None => parse_date(plain).or_else(|| rare_date(plain)),
                };
                value.map(|value| values.append_value(value))
            }
            Values::Timestamp(values, zone) if kind == Kind::Text => {
                let plain = plain.trim_ascii();
                let time = self.forms.timestamp(plain, zone.as_ref()).map(rounded_micros);
                let is_free = self.forms.timestamp.is_none();
                let time = time.or_else(|| rare_timestamp(plain, zone.is_some()).filter(|_| is_free));
                time.map(|time| values.append_value(time))
            }
            Values::Text(values) if matches!(kind, Kind::Text | Kind::Number | Kind::Boolean) || !self.is_strict => {
                utf8(plain, at)?.map(|text| values.append_value(text))
            }
            // No JSON has these words.
            Values::Json(_) if kind != Kind::Text && memchr::memchr2(b'N', b'I', raw).is_some() && !is_json(raw) => {
                None
            }
            Values::Json(values) => utf8(raw, at)?.map(|text| values.append_value(text)),
            Values::Cast(values) => utf8(plain, at)?.map(|text| values.append_value(text)),
            _ => None,
        };
        taken.ok_or_else(|| {
            let value = String::from_utf8_lossy(&raw[..raw.len().min(60)]);
            Flaw::Misfit { key: String::new(), what: format!("{value} is no {}", type_name(self.field.data_type())) }
        })
    }

    /// The rows so far as an array of the field's type. Fails if a text is no value of it.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        let ty = self.field.data_type().clone();
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(values) => Arc::new(values.finish()),
            Values::Integer(values) => Arc::new(values.finish()),
            Values::Double(values) => Arc::new(values.finish()),
            Values::Decimal { values, .. } => Arc::new(values.finish()),
            Values::Date(values) => Arc::new(values.finish()),
            Values::Timestamp(values, _) => Arc::new(values.finish()),
            Values::Text(values) | Values::Json(values) | Values::Cast(values) => Arc::new(values.finish()),
            Values::List { offsets, nulls, items } => {
                let DataType::List(item) = &ty else { return Err(Error::bug("a list is no list")) };
                let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])));
                let item = Arc::new(item.as_ref().clone().with_nullable(true));
                Arc::new(ListArray::try_new(item, offsets, items.finish()?, nulls.finish()).map_err(from_arrow)?)
            }
            Values::Map { offsets, nulls, keys, key_count, values } => {
                let DataType::Map(entries, is_sorted) = &ty else { return Err(Error::bug("a map is no map")) };
                let DataType::Struct(pair) = entries.data_type() else { return Err(Error::bug("a map is no map")) };
                let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])));
                let options = CastOptions { safe: false, ..CastOptions::default() };
                let keys = cast_with_options(&keys.finish(), pair[0].data_type(), &options).map_err(from_arrow)?;
                *key_count = 0;
                let pairs =
                    StructArray::try_new(pair.clone(), vec![keys, values.finish()?], None).map_err(from_arrow)?;
                let map = MapArray::try_new(entries.clone(), offsets, pairs, nulls.finish(), *is_sorted);
                Arc::new(map.map_err(from_arrow)?)
            }
            Values::Record { nulls, members } => {
                let nulls = nulls.finish();
                let arrays = members.finish()?;
                let fields = members.columns.iter().zip(&arrays).map(|(column, array)| {
                    let field = column.field.as_ref().clone().with_nullable(true);
                    Arc::new(field.with_data_type(array.data_type().clone()))
                });
                let fields = fields.collect::<Fields>();
                Arc::new(StructArray::try_new(fields, arrays, nulls).map_err(from_arrow)?)
            }
        };
        // Arrow's own reading of intervals does not know SQL's texts.
        let is_interval = matches!(ty, DataType::Interval(IntervalUnit::MonthDayNano));
        let of_interval = || is_interval.then(|| SqlType::of_field(&self.field)).flatten();
        let sql_type = checked_type(&self.field).or_else(of_interval);
        let sql_type = sql_type.filter(|_| matches!(self.values, Values::Cast(_)));
        if *array.data_type() == ty && sql_type.is_none() {
            return Ok(array);
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let convert = |array: &ArrayRef| match (&sql_type, array.as_string_view_opt()) {
            (Some(sql_type), Some(texts)) => {
                let read = parse_array(texts, sql_type, &ReadOptions { is_explicit: false, ..ReadOptions::default() });
                read.and_then(|array| cast_with_options(&array, &ty, &options).map_err(from_arrow))
            }
            _ => cast_with_options(array, &ty, &options).map_err(from_arrow),
        };
        convert(&array).map_err(|error| {
            let wrong = (0..array.len()).find(|&row| convert(&array.slice(row, 1)).is_err());
            let (name, ty) = (self.field.name(), field_type_name(&self.field));
            match wrong.and_then(|row| shown(&array, row)) {
                Some(value) => Error::file(format!("key '{name}': '{value}' is no {ty}")).with_code("22P02"),
                None => error,
            }
        })
    }
}

/// A value of a text array, or of numbers, for a message.
fn shown(array: &ArrayRef, row: usize) -> Option<String> {
    let text = cast_with_options(&array.slice(row, 1), &DataType::Utf8, &CastOptions::default()).ok()?;
    let text = text.as_any().downcast_ref::<StringArray>()?;
    Some(text.value(0).chars().take(60).collect())
}

/// A whole number, also one that is written with a point or an exponent.
fn whole(raw: &[u8]) -> Option<i64> {
    parse_integer::<i64>(raw).or_else(|| {
        let value = parse_text::<f64>(raw)?;
        (value.fract() == 0.0 && value.abs() <= (1u64 << 53) as f64).then_some(value as i64)
    })
}

/// Whether a value that may have `NaN` or `Infinity` in it has none.
fn is_json(raw: &[u8]) -> bool {
    let text = String::from_utf8_lossy(raw);
    let text = StringViewArray::from(vec![text.as_ref()]);
    parse_array(&text, &SqlType::Json, &ReadOptions::default()).is_ok()
}

fn utf8(raw: &[u8], at: usize) -> Result<Option<&str>, Flaw> {
    let text = std::str::from_utf8(raw);
    text.map(Some).map_err(|_| Flaw::Malformed { at, what: "a text is not UTF-8" })
}

/// The flaw with a key in front of its path.
fn below(flaw: Flaw, name: &str) -> Flaw {
    match flaw {
        Flaw::Misfit { key, what } if key.is_empty() || key.starts_with('[') => {
            Flaw::Misfit { key: format!("{name}{key}"), what }
        }
        Flaw::Misfit { key, what } => Flaw::Misfit { key: format!("{name}.{key}"), what },
        other => other,
    }
}

impl Record {
    /// The columns of objects with these keys; those that are `None` are not wanted.
    pub fn new(fields: &Fields, wanted: &[Option<&FieldRef>], is_strict: bool, forms: &Arc<Forms>) -> Result<Self> {
        let mut columns = Vec::new();
        let mut places = HashMap::new();
        for (field, wanted) in fields.iter().zip(wanted) {
            let place = match wanted {
                None => None,
                Some(field) => {
                    columns.push(Column::new(field, is_strict, forms)?);
                    Some(columns.len() - 1)
                }
            };
            places.insert(field.name().clone(), place);
        }
        let names = fields.iter().map(|field| field.name().clone()).collect();
        let starts = vec![usize::MAX; columns.len()];
        Ok(Self { columns, places, names, starts, is_strict })
    }

    /// Takes the object at a position, and gives its end. A key that comes twice is a flaw: programs disagree about
    /// which of its values counts.
    pub fn take(&mut self, text: &[u8], at: usize, depth: usize) -> Result<usize, Flaw> {
        let Self { columns, places, names, starts, is_strict } = self;
        starts.fill(usize::MAX);
        let mut next = 0;
        let found = each_member(text, at, depth, |key, at| {
            let inner = &key[1..key.len() - 1];
            let unescaped;
            let name = match names.get(next) {
                Some(name) if name.as_bytes() == inner => name.as_str(),
                _ => {
                    unescaped = string(key, at)?;
                    &unescaped
                }
            };
            next += 1;
            match places.get(name) {
                Some(Some(place)) if starts[*place] != usize::MAX => {
                    return Err(Flaw::Misfit { key: name.to_owned(), what: TWICE.to_owned() });
                }
                Some(Some(place)) => starts[*place] = at,
                Some(None) => {}
                None if *is_strict => {
                    return Err(Flaw::Misfit { key: name.to_owned(), what: NEW_KEY.to_owned() });
                }
                None => {}
            }
            value_end(text, at, depth + 1)
        });
        let mut flaw = found.as_ref().err().cloned();
        for (column, start) in columns.iter_mut().zip(starts.iter()) {
            if flaw.is_some() || *start == usize::MAX {
                column.take_null();
            } else if let Err(found) = column.take(text, *start, depth + 1) {
                flaw = Some(below(found, column.field.name()));
            }
        }
        match flaw {
            Some(flaw) => Err(flaw),
            None => found,
        }
    }

    /// One more row without any value.
    pub fn take_null(&mut self) {
        self.columns.iter_mut().for_each(Column::take_null);
    }

    /// The rows so far.
    pub fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        self.columns.iter_mut().map(Column::finish).collect()
    }
}

/// What is wrong with a key that the table does not have.
const NEW_KEY: &str = "the records that were looked at do not have this key";

/// What is wrong with a key that an object has twice.
pub(super) const TWICE: &str = "the object has this key twice";
