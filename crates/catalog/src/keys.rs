//! Keys of rows: how they are compared, and what they are in an index.
//!
//! A key becomes bytes whose order is that of the values, NULL behind all others. An index has them as they are, but
//! for the end of a very long one: a hash stands for that. So rows of equal bytes have equal keys, unless these are
//! long.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::{SortOptions, unary};
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow_row::{RowConverter, Rows, SortField};
use diligence_base::{About, Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_types::text::messages::shown_value;
use diligence_types::{SqlType, functions};

use crate::key_block::{KEY_BYTES_MAX, common};
use crate::rules::Key;
use crate::run::{Run, RunEnds};
use crate::run_writer::RunWriter;

/// Of a key that is too long for an index, so many bytes are as they are; the others become a hash.
pub(crate) const LONG_KEY_BYTES: usize = KEY_BYTES_MAX - size_of::<u64>();

/// The keys of some rows.
pub(crate) struct KeyValues {
    rows: Rows,
    /// Rows that have a key; all if `None`.
    wanted: Option<BooleanArray>,
    /// Which keys have no NULL; none has one, if `None`.
    nulls: Option<NullBuffer>,
    nulls_are_equal: bool,
}

/// How the columns of a key become something that is compared.
pub(crate) struct KeyReader<'a> {
    key: &'a Key,
    places: Vec<usize>,
    /// By column of the key.
    sql_types: Vec<Option<SqlType>>,
    /// Those of the values that are compared.
    types: Vec<DataType>,
    converter: RowConverter,
}

/// How columns of these types become bytes: in the order of the values, NULL last. Fails with kind `Bug` for types
/// that have no order.
pub(crate) fn converter(types: &[DataType]) -> Result<RowConverter> {
    RowConverter::new(types.iter().map(field).collect()).map_err(from_arrow)
}

fn field(data_type: &DataType) -> SortField {
    SortField::new_with_options(data_type.clone(), SortOptions { descending: false, nulls_first: false })
}

/// The types of the values by which a key is compared, which stand for its own where their bytes do not show what is
/// equal, and the types of its own; `None` for one that SQL does not have. Fails with code 42703 if a column is not
/// there.
pub(crate) fn key_types(key: &Key, schema: &SchemaRef) -> Result<(Vec<DataType>, Vec<Option<SqlType>>)> {
    let own = match &key.computed {
        Some(computed) => {
            let (types, sql_types) = (computed.function.types(), computed.function.sql_types());
            types.iter().cloned().zip(sql_types.iter().cloned().map(Some)).collect::<Vec<_>>()
        }
        None => {
            let own = key.columns.iter().map(|name| {
                let error =
                    || Error::input(format!("column \"{name}\" named in key does not exist")).with_code("42703");
                let field = schema.field_with_name(name).map_err(|_| error())?;
                Ok((field.data_type().clone(), SqlType::of_field(field)))
            });
            own.collect::<Result<Vec<_>>>()?
        }
    };
    let compared = |(own, sql_type): (DataType, Option<SqlType>)| {
        (sql_type.as_ref().and_then(functions::distinct_type).unwrap_or(own), sql_type)
    };
    Ok(own.into_iter().map(compared).unzip())
}

/// What an index has of these bytes of a key.
pub(crate) fn indexed_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.len() <= KEY_BYTES_MAX {
        return Cow::Borrowed(bytes);
    }
    let (first, rest) = bytes.split_at(LONG_KEY_BYTES);
    let mut hasher = DefaultHasher::new();
    rest.hash(&mut hasher);
    Cow::Owned([first, &hasher.finish().to_be_bytes()].concat())
}

impl<'a> KeyReader<'a> {
    /// Fails with code 0A000 if a column's values cannot be compared as a whole, and 42703 if there is no such column.
    pub(crate) fn new(key: &'a Key, schema: &SchemaRef) -> Result<Self> {
        let computed = key.computed.as_ref().map(|computed| &computed.function);
        let columns = computed.map_or(key.columns.as_slice(), |function| function.columns());
        let places = columns.iter().map(|name| {
            let error = || Error::input(format!("column \"{name}\" named in key does not exist")).with_code("42703");
            schema.index_of(name).map_err(|_| error())
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        let (types, sql_types) = key_types(key, schema)?;
        let fields = types.iter().map(field).collect::<Vec<_>>();
        let unfit = |field: &SortField| !RowConverter::supports_fields(std::slice::from_ref(field));
        if let Some(place) = fields.iter().position(unfit) {
            let message = format!("the column '{}' cannot be part of a key", key.columns[place]);
            return Err(Error::unsupported(message).with_code("0A000"));
        }
        let converter = RowConverter::new(fields).map_err(from_arrow)?;
        Ok(Self { key, places, sql_types, types, converter })
    }

    /// Where its columns are in the table.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// Whether the bytes of a key say that it has a NULL; `None` if they do not say it.
    pub(crate) fn has_null(&self, bytes: &[u8]) -> Option<bool> {
        const NULL: u8 = 0xff;
        match self.types.as_slice() {
            [one] if !one.is_nested() => Some(bytes.first() == Some(&NULL)),
            _ => None,
        }
    }

    /// The keys of some rows of the table.
    pub(crate) fn values(&self, batch: &RecordBatch) -> Result<KeyValues> {
        self.values_of(&self.columns(batch), batch.num_rows())
    }

    /// The keys of rows with these columns, which are those of [`places`](Self::places).
    pub(crate) fn values_of(&self, columns: &[ArrayRef], rows: usize) -> Result<KeyValues> {
        let (columns, wanted) = self.computed(columns, rows)?;
        let columns = columns.iter().zip(&self.sql_types).map(|(column, sql_type)| match sql_type {
            Some(sql_type) => functions::distinct_values(sql_type, column).map(|column| comparable(&column)),
            None => Ok(comparable(column)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let encoded = self.converter.convert_columns(&columns).map_err(from_arrow)?;
        let nulls =
            columns.iter().fold(None, |all, column| NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(KeyValues { rows: encoded, wanted, nulls, nulls_are_equal: self.key.nulls_are_equal })
    }

    /// The key's values of rows with these columns, and, by row, the bytes that an index begins with for the first
    /// `count` of them; `None` for rows that it does not have and for those with a NULL among the values.
    pub(crate) fn begun(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        count: usize,
    ) -> Result<(Vec<ArrayRef>, Vec<Option<Vec<u8>>>)> {
        let (values, wanted) = self.computed(columns, rows)?;
        let compared = values.iter().zip(&self.sql_types).take(count).map(|(column, sql_type)| match sql_type {
            Some(sql_type) => functions::distinct_values(sql_type, column).map(|column| comparable(&column)),
            None => Ok(comparable(column)),
        });
        let compared = compared.collect::<Result<Vec<_>>>()?;
        let encoded = match count {
            0 => None,
            _ => Some(converter(&self.types[..count])?.convert_columns(&compared).map_err(from_arrow)?),
        };
        let nulls =
            values.iter().fold(None, |all, column| NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref()));
        let begin = |row: usize| {
            let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            if !is_wanted || nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return None;
            }
            let mut bytes = encoded.as_ref().map_or_else(Vec::new, |encoded| encoded.row(row).data().to_vec());
            bytes.truncate(LONG_KEY_BYTES);
            Some(bytes)
        };
        let begins = (0..rows).map(begin).collect();
        Ok((values, begins))
    }

    /// The values that are compared, and which rows have one; all if `None`.
    fn computed(&self, columns: &[ArrayRef], rows: usize) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        match &self.key.computed {
            Some(computed) => computed.function.compute(columns, rows),
            None => Ok((columns.to_vec(), None)),
        }
    }

    /// The error for a row whose key another row has.
    pub(crate) fn duplicate(&self, table: &crate::RelationName, batch: &RecordBatch, row: usize) -> Error {
        self.duplicate_of(table, &self.columns(batch), row)
    }

    fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.places.iter().map(|place| batch.column(*place).clone()).collect()
    }

    /// The same for the key's own columns.
    pub(crate) fn duplicate_of(&self, table: &crate::RelationName, columns: &[ArrayRef], row: usize) -> Error {
        let message = format!("duplicate key value violates unique constraint \"{}\"", self.key.name);
        let detail = format!("Key {} already exists.", self.shown_of(columns, row));
        let about = About {
            schema: Some(table.schema.clone()),
            table: Some(table.name.clone()),
            constraint: Some(self.key.name.clone()),
            ..About::default()
        };
        Error::value(message).with_code("23505").with_detail(detail).with_about(about)
    }

    /// A row's key as messages have it: `(a, b)=(1, x)`.
    pub(crate) fn shown(&self, batch: &RecordBatch, row: usize) -> String {
        self.shown_of(&self.columns(batch), row)
    }

    /// The same for the key's own columns.
    pub(crate) fn shown_of(&self, columns: &[ArrayRef], row: usize) -> String {
        let rows = columns.first().map_or(0, |column| column.len());
        // What has been computed once can be computed again.
        let columns = self.computed(columns, rows).map_or_else(|_| vec![], |(columns, _)| columns);
        let values = columns.iter().map(|column| shown_value(column, row)).collect::<Vec<_>>();
        format!("({})=({})", self.key.columns.join(", "), values.join(", "))
    }
}

impl KeyValues {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.size()
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// What an index has of a row; `None` if the row is not in it.
    pub(crate) fn indexed(&self, row: usize) -> Option<Cow<'_, [u8]>> {
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
        is_wanted.then(|| indexed_bytes(self.rows.row(row).data()))
    }

    /// Whether no other row may have the row's key, if the key is unique: none of its columns is NULL, or NULLs are
    /// equal.
    pub(crate) fn is_comparable(&self, row: usize) -> bool {
        self.nulls_are_equal || self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// The same bytes for equal keys, if no other row may have the row's key; `None` otherwise.
    pub(crate) fn compared(&self, row: usize) -> Option<Cow<'_, [u8]>> {
        self.indexed(row).filter(|_| self.is_comparable(row))
    }

    /// A hash of the row's key, if no other row may have it; `None` otherwise.
    pub(crate) fn hash(&self, row: usize) -> Option<u64> {
        let bytes = self.compared(row)?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Whether an index has all of the row's key.
    pub(crate) fn is_whole(&self, row: usize) -> bool {
        self.rows.row(row).data().len() <= KEY_BYTES_MAX
    }

    pub(crate) fn is_equal(&self, row: usize, other: &Self, other_row: usize) -> bool {
        self.rows.row(row) == other.rows.row(other_row)
    }
}

/// The keys of rows that an index gets, in order.
pub(crate) struct SortedKeys<'a> {
    values: &'a [KeyValues],
    order: Vec<SortedKey>,
}

/// A key among those of others.
struct SortedKey {
    /// The first bytes in which the keys differ.
    word: u64,
    number: i64,
    batch: u32,
    row: u32,
}

impl<'a> SortedKeys<'a> {
    /// The keys of all rows; `number` says the number of a row of a batch.
    pub(crate) fn new(values: &'a [KeyValues], number: impl Fn(usize, usize) -> i64) -> Self {
        let mut order = Vec::with_capacity(values.iter().map(KeyValues::len).sum());
        let mut first = None::<Cow<'a, [u8]>>;
        let (mut shared, mut length, mut is_one_length) = (usize::MAX, 0, true);
        for (batch, values) in values.iter().enumerate() {
            for row in 0..values.len() {
                let Some(key) = values.indexed(row) else { continue };
                let first = first.get_or_insert_with(|| {
                    length = key.len();
                    key.clone()
                });
                let within = shared.min(key.len()).min(length);
                shared = if first[..within] == key[..within] { within } else { common(first, &key) };
                is_one_length &= key.len() == length;
                order.push(SortedKey { word: 0, number: number(batch, row), batch: batch as u32, row: row as u32 });
            }
        }
        let mut sorted = Self { values, order: Vec::new() };
        for key in &mut order {
            let mut word = [0; 8];
            let bytes = sorted.bytes(key);
            let rest = &bytes[shared.min(bytes.len())..];
            let count = rest.len().min(8);
            word[..count].copy_from_slice(&rest[..count]);
            key.word = u64::from_be_bytes(word);
        }
        if is_one_length && length <= shared.saturating_add(8) {
            order.sort_unstable_by_key(|key| (key.word, key.number));
        } else {
            order.sort_unstable_by(|left, right| {
                let bytes = || sorted.bytes(left).cmp(&sorted.bytes(right));
                left.word.cmp(&right.word).then_with(bytes).then_with(|| left.number.cmp(&right.number))
            });
        }
        sorted.order = order;
        sorted
    }

    fn bytes(&self, key: &SortedKey) -> Cow<'a, [u8]> {
        self.values[key.batch as usize].indexed(key.row as usize).unwrap_or_default()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The batch and the row of a key, by its place in the order.
    pub(crate) fn row(&self, place: usize) -> (usize, usize) {
        let key = &self.order[place];
        (key.batch as usize, key.row as usize)
    }

    /// The number of the row of a key.
    pub(crate) fn number(&self, place: usize) -> i64 {
        self.order[place].number
    }

    /// The keys, with their places in the order; those that no other row may have, if they are unique.
    pub(crate) fn compared(&self) -> impl Iterator<Item = (usize, Cow<'a, [u8]>)> + '_ {
        let is_comparable = |key: &SortedKey| self.values[key.batch as usize].is_comparable(key.row as usize);
        let keys = self.order.iter().enumerate().filter(move |(_, key)| is_comparable(key));
        keys.map(|(place, key)| (place, self.bytes(key)))
    }

    /// The place of a key that another row before it has; `None` if all differ that may not be equal.
    pub(crate) fn duplicate(&self) -> Option<usize> {
        let mut from = 0;
        for place in 1..self.order.len() {
            let (key, before) = (&self.order[place], &self.order[place - 1]);
            if key.word != before.word || self.bytes(key) != self.bytes(before) {
                from = place;
                continue;
            }
            let (batch, row) = self.row(place);
            let values = &self.values[batch];
            let is_same = |other: usize| {
                let (other, other_row) = self.row(other);
                values.is_equal(row, &self.values[other], other_row)
            };
            if values.is_comparable(row) && (from..place).any(is_same) {
                return Some(place);
            }
        }
        None
    }

    /// As a run; `None` if there are none. Fails with kind `Resource` if there is no memory for it.
    pub(crate) fn run(&self, memory: &Reservation) -> Result<Option<Run>> {
        let Some((least, greatest)) = self.order.first().zip(self.order.last()) else { return Ok(None) };
        let ends = RunEnds { least: self.bytes(least).into_owned(), greatest: self.bytes(greatest).into_owned() };
        let mut writer = RunWriter::in_memory(memory, ends);
        self.order.iter().try_for_each(|key| writer.push(&self.bytes(key), key.number))?;
        writer.finish()
    }
}

/// Values that are equal are the same: there are two zeros and many NaNs.
pub(crate) fn comparable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let same = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(unary::<_, _, Float64Type>(column.as_primitive::<Float64Type>(), same))
        }
        DataType::Float32 => {
            let same = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(unary::<_, _, Float32Type>(column.as_primitive::<Float32Type>(), same))
        }
        _ => column.clone(),
    }
}

/// Finds equal keys among rows that come together.
#[derive(Default)]
pub(crate) struct Together {
    met: HashMap<u64, Vec<(usize, usize)>>,
}

impl Together {
    /// Whether a row's key was met. `values` are those of all batches.
    pub(crate) fn is_met(&self, values: &[KeyValues], batch: usize, row: usize) -> bool {
        let same = values[batch].hash(row).and_then(|hash| self.met.get(&hash));
        let is_same = |(other, other_row): &(usize, usize)| values[batch].is_equal(row, &values[*other], *other_row);
        same.is_some_and(|same| same.iter().any(is_same))
    }

    /// Remembers a row's key.
    pub(crate) fn meet(&mut self, values: &[KeyValues], batch: usize, row: usize) {
        if let Some(hash) = values[batch].hash(row) {
            self.met.entry(hash).or_default().push((batch, row));
        }
    }
}
