//! Where the rows of a table are by a key: what finds them, and what keeps keys unique.
//!
//! An index is a list of runs, each with the hashes of some rows' keys in order, and the rows' numbers. A change adds a
//! run and merges it with those that are not much longer, so a version has few, and shares most with the version
//! before. An entry counts only if its row is in the version and has the key; so nothing is taken out when a row goes,
//! and a run is good for every version that comes after it.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::unary;
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow_row::{RowConverter, Rows, SortField};
use diligence_base::{About, Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;

use crate::rules::Key;

/// Bytes of an entry.
const ENTRY_BYTES: usize = size_of::<Entry>();
/// A run is merged with the one before it unless that is longer by this factor.
const RUN_GROWTH: usize = 4;
/// A lookup of many keys goes along a run instead of searching in it, if there are more than one for so many entries.
const ENTRIES_PER_SEARCH: usize = 32;

/// The hash of a key, and the number of the row that has it.
type Entry = (u64, i64);

/// A table's rows by one key, in one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyIndex {
    runs: Vec<Arc<Run>>,
    /// Why it lacks rows: a file was damaged when the database was opened. Then it finds none.
    broken: Option<Error>,
}

#[derive(Debug)]
struct Run {
    entries: Vec<Entry>,
    _memory: Option<Reservation>,
}

/// The keys of some rows; those that are not to be found have none.
pub(crate) struct KeyValues {
    rows: Rows,
    /// By row; `None` where a column is NULL and NULLs are equal to nothing.
    hashes: Vec<Option<u64>>,
}

/// How the columns of a key become something that is compared.
pub(crate) struct KeyReader<'a> {
    key: &'a Key,
    places: Vec<usize>,
    converter: RowConverter,
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
        let types = match computed {
            Some(function) => function.types().to_vec(),
            None => places.iter().map(|place| schema.field(*place).data_type().clone()).collect(),
        };
        let fields = types.into_iter().map(SortField::new).collect::<Vec<_>>();
        let unfit = |field: &SortField| !RowConverter::supports_fields(std::slice::from_ref(field));
        if let Some(place) = fields.iter().position(unfit) {
            let message = format!("the column '{}' cannot be part of a key", key.columns[place]);
            return Err(Error::unsupported(message).with_code("0A000"));
        }
        let converter = RowConverter::new(fields).map_err(from_arrow)?;
        Ok(Self { key, places, converter })
    }

    /// Where its columns are in the table.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The keys of some rows of the table.
    pub(crate) fn values(&self, batch: &RecordBatch) -> Result<KeyValues> {
        self.values_of(&self.columns(batch), batch.num_rows())
    }

    /// The keys of rows with these columns, which are those of [`places`](Self::places).
    pub(crate) fn values_of(&self, columns: &[ArrayRef], rows: usize) -> Result<KeyValues> {
        let (columns, wanted) = self.computed(columns, rows)?;
        let columns = columns.iter().map(comparable).collect::<Vec<_>>();
        let encoded = self.converter.convert_columns(&columns).map_err(from_arrow)?;
        let is_unwanted = |row| wanted.as_ref().is_some_and(|wanted| wanted.is_null(row) || !wanted.value(row));
        let has_null = |row| columns.iter().any(|column| column.is_null(row));
        let is_left_out = |row: usize| is_unwanted(row) || !self.key.nulls_are_equal && has_null(row);
        let hash = |row: usize| {
            let mut hasher = DefaultHasher::new();
            encoded.row(row).as_ref().hash(&mut hasher);
            hasher.finish()
        };
        let hashes = (0..rows).map(|row| (!is_left_out(row)).then(|| hash(row))).collect();
        Ok(KeyValues { rows: encoded, hashes })
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
    pub(crate) fn hash(&self, row: usize) -> Option<u64> {
        self.hashes[row]
    }

    pub(crate) fn is_equal(&self, row: usize, other: &Self, other_row: usize) -> bool {
        self.rows.row(row) == other.rows.row(other_row)
    }
}

/// A value in a message.
pub(crate) fn shown_value(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    arrow::util::display::array_value_to_string(column, row).unwrap_or_else(|_| "?".to_owned())
}

/// Values that are equal are the same: there are two zeros and many NaNs.
fn comparable(column: &ArrayRef) -> ArrayRef {
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

impl KeyIndex {
    /// One of rows that could not be read.
    pub(crate) fn broken(error: Error) -> Self {
        Self { runs: Vec::new(), broken: Some(error) }
    }

    /// Whether it lacks rows.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Fails with kind `File`, and code XX001, if it lacks rows.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(error) => {
                let hint = "restore the file from a backup; until then no rows are added to the table";
                Err(error.clone().with_hint(hint))
            }
        }
    }

    /// The numbers of rows that may have a key of this hash.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = i64> + '_ {
        self.runs.iter().flat_map(move |run| {
            let first = run.entries.partition_point(|entry| entry.0 < hash);
            run.entries[first..].iter().take_while(move |entry| entry.0 == hash).map(|entry| entry.1)
        })
    }

    /// Calls `meet` with every row number that may have the key of an entry, with the entry's own number; entries
    /// ascend. Fails as `meet` does.
    pub(crate) fn meet(&self, entries: &[Entry], mut meet: impl FnMut(i64, i64) -> Result<()>) -> Result<()> {
        for run in &self.runs {
            if entries.len() * ENTRIES_PER_SEARCH < run.entries.len() {
                for (hash, own) in entries {
                    let first = run.entries.partition_point(|entry| entry.0 < *hash);
                    let same = run.entries[first..].iter().take_while(|entry| entry.0 == *hash);
                    same.into_iter().try_for_each(|entry| meet(entry.1, *own))?;
                }
                continue;
            }
            let mut start = 0;
            for (hash, own) in entries {
                while run.entries.get(start).is_some_and(|entry| entry.0 < *hash) {
                    start += 1;
                }
                let same = run.entries[start..].iter().take_while(|entry| entry.0 == *hash);
                same.into_iter().try_for_each(|entry| meet(entry.1, *own))?;
            }
        }
        Ok(())
    }

    /// The index with more entries, which ascend. Fails with kind `Resource` if there is no memory for them.
    pub(crate) fn with(&self, mut entries: Vec<Entry>, memory: &Reservation) -> Result<Self> {
        let mut runs = self.runs.clone();
        if entries.is_empty() || self.is_broken() {
            return Ok(self.clone());
        }
        while let Some(last) = runs.pop_if(|last| last.entries.len() < entries.len() * RUN_GROWTH) {
            entries = merged(&last.entries, &entries);
        }
        let mut counted = memory.sibling();
        counted.grow(entries.len() * ENTRY_BYTES)?;
        runs.push(Arc::new(Run { entries, _memory: Some(counted) }));
        Ok(Self { runs, broken: None })
    }

    /// How many entries it has, those of rows that are gone included.
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.entries.len()).sum()
    }
}

fn merged(left: &[Entry], right: &[Entry]) -> Vec<Entry> {
    let mut both = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if first <= second { left.next() } else { right.next() };
        both.extend(next);
    }
    both.extend(left);
    both.extend(right);
    both
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
