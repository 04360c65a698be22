//! Keys that rows of other tables refer to, as a statement locks them before it changes rows.
//!
//! Who brings rows that refer to a key keeps it; who takes a key away, or gives its row another one, has it gone. Both
//! look at what others have committed since their statement began. That a row refers to nothing is found later, when
//! all rows are where they will be ([`references`](crate::references)).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use crate::deferred::DeferredConstraints;
use crate::keyed::KeyLookup;
use crate::keys::{KeyReader, KeyValues};
use crate::pieces::{NewRows, piece_of};
use crate::references::{referring, violation};
use crate::rules::{Key, Reference, ReferenceAction};
use crate::snapshot::Root;
use crate::{NativeTable, Object, Relation};

/// Keys that a load refers to and keeps, at most. Of more, its end finds out whether somebody has taken one away.
const LOADED_KEYS: usize = 1 << 16;

/// Rows of a table that go and come.
pub(crate) struct ChangingRows<'a> {
    pub(crate) object: &'a Object,
    pub(crate) table: &'a NativeTable,
    /// The numbers of those that go.
    pub(crate) deleted: &'a [i64],
    /// Those that come, with the columns of the table.
    pub(crate) inserted: &'a [RecordBatch],
    /// More that come, in segments.
    pub(crate) loaded: &'a [NewRows],
    /// References that are not looked at yet.
    pub(crate) deferred: Option<&'a DeferredConstraints>,
}

/// Keys of another table that rows which come refer to.
#[derive(Default)]
pub(crate) struct KeptKeys {
    /// Their hashes, ascending.
    pub(crate) hashes: Vec<u64>,
    /// The numbers of the rows that have them, ascending.
    pub(crate) rows: Vec<i64>,
}

/// A key of a table that others refer to, and what of it goes.
pub(crate) struct GoneKeys {
    key: Key,
    hashes: HashSet<u64>,
}

/// Rows that refer to keys which go.
pub(crate) struct ReferringRows {
    pub(crate) object: Arc<Object>,
    pub(crate) reference: Reference,
    /// Their numbers, ascending.
    pub(crate) rows: Vec<i64>,
}

impl ReferringRows {
    /// The keys that go with them, of all that rows of theirs would take along: if these only get other values, those
    /// of which the columns are that refer.
    pub(crate) fn gone(&self, mut all: Vec<GoneKeys>) -> Vec<GoneKeys> {
        let refers = |key: &Key| key.columns.iter().any(|column| self.reference.columns.contains(column));
        all.retain(|gone| self.reference.on_delete == ReferenceAction::Cascade || refers(&gone.key));
        all
    }
}

impl GoneKeys {
    /// The hashes of all such keys of a table, ascending.
    pub(crate) fn hashes(all: &[Self]) -> Vec<u64> {
        let hashes = all.iter().flat_map(|gone| gone.hashes.iter().map(|hash| hash ^ gone.key.number()));
        let mut hashes = hashes.collect::<Vec<_>>();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
}

fn object_of(root: &Root, table: ObjectId) -> Option<&Arc<Object>> {
    root.schemas.values().flat_map(|schema| schema.objects.values()).find(|object| object.id == table)
}

fn rows_of(object: &Object) -> Option<&NativeTable> {
    match &object.relation {
        Relation::Native(rows) => Some(rows),
        _ => None,
    }
}

/// The key that a reference is to, with what finds rows by it.
fn key_of<'a>(there: &'a NativeTable, reference: &Reference) -> Result<Option<(&'a Key, KeyLookup<'a>)>> {
    let Some(key) = there.rules().keys.iter().find(|key| key.refers_to(&reference.referred)) else { return Ok(None) };
    Ok(there.lookup(key)?.map(|lookup| (key, lookup)))
}

/// The columns of a reference as the key that it is to has them.
struct ReferringColumns {
    places: Vec<usize>,
    types: Vec<DataType>,
}

impl ReferringColumns {
    fn new(reference: &Reference, own: &NativeTable, there: &NativeTable) -> Result<Self> {
        let places = reference.columns.iter().map(|name| own.schema().index_of(name).map_err(from_arrow));
        let types = reference.referred.iter().map(|name| {
            let field = there.schema().field_with_name(name).map_err(from_arrow)?;
            Ok(field.data_type().clone())
        });
        Ok(Self { places: places.collect::<Result<_>>()?, types: types.collect::<Result<_>>()? })
    }

    fn values(&self, columns: &[ArrayRef], rows: usize, reader: &KeyReader<'_>) -> Result<KeyValues> {
        let columns = columns.iter().zip(&self.types).map(|(column, kind)| cast(column, kind).map_err(from_arrow));
        reader.values_of(&columns.collect::<Result<Vec<_>>>()?, rows)
    }
}

/// Calls `each` with some columns of a piece and the places of rows in it, for all of these rows.
fn each_piece(
    table: &NativeTable,
    numbers: &[i64],
    columns: &[usize],
    mut each: impl FnMut(&RecordBatch, &[usize]) -> Result<()>,
) -> Result<()> {
    let mut places = BTreeMap::<usize, Vec<usize>>::new();
    for number in numbers {
        let piece = piece_of(table.pieces(), *number);
        let found = piece.and_then(|piece| Some((piece, table.pieces()[piece].position(*number)?)));
        if let Some((piece, place)) = found {
            places.entry(piece).or_default().push(place);
        }
    }
    for (piece, rows) in places {
        each(&table.pieces()[piece].read_all(columns)?, &rows)?;
    }
    Ok(())
}

impl ChangingRows<'_> {
    fn looks_at(&self, reference: &Reference) -> bool {
        self.deferred.is_none_or(|deferred| !deferred.has(reference))
    }

    /// The rows that come, as the table has them.
    fn come(&self) -> Result<Vec<RecordBatch>> {
        let (name, schema) = (self.table.name(), self.table.schema());
        self.inserted.iter().map(|batch| NativeTable::conformed(name, schema, batch)).collect()
    }

    /// Calls `each` with every key that rows which come refer to, once: its hash, and where it is. Those are left out
    /// to which rows referred that go: others have not taken them away.
    fn each_new(
        &self,
        reference: &Reference,
        there: &NativeTable,
        reader: &KeyReader<'_>,
        mut each: impl FnMut(u64, &KeyValues, usize) -> Result<()>,
    ) -> Result<()> {
        let own = ReferringColumns::new(reference, self.table, there)?;
        let mut met = HashSet::new();
        each_piece(self.table, self.deleted, &own.places, |columns, rows| {
            let values = own.values(columns.columns(), columns.num_rows(), reader)?;
            met.extend(rows.iter().filter_map(|row| values.hash(*row)));
            Ok(())
        })?;
        for batch in self.come()? {
            let columns = own.places.iter().map(|place| batch.column(*place).clone()).collect::<Vec<_>>();
            let values = own.values(&columns, batch.num_rows(), reader)?;
            for row in 0..batch.num_rows() {
                if columns.iter().any(|column| column.is_null(row)) {
                    continue;
                }
                if let Some(hash) = values.hash(row)
                    && met.insert(hash)
                {
                    each(hash, &values, row)?;
                }
            }
        }
        Ok(())
    }

    /// The same of rows that come in segments; of so many keys only that a lock of each is worth it.
    fn each_loaded(
        &self,
        reference: &Reference,
        there: &NativeTable,
        reader: &KeyReader<'_>,
        mut each: impl FnMut(u64, &KeyValues, usize) -> Result<()>,
    ) -> Result<()> {
        if self.loaded.is_empty() {
            return Ok(());
        }
        let own = ReferringColumns::new(reference, self.table, there)?;
        let mut met = HashSet::new();
        for rows in self.loaded {
            let read = self.table.new_columns(rows, &own.places)?;
            let values = own.values(read.columns(), read.num_rows(), reader)?;
            for row in 0..read.num_rows() {
                if read.columns().iter().any(|column| column.is_null(row)) {
                    continue;
                }
                if let Some(hash) = values.hash(row)
                    && met.insert(hash)
                {
                    if met.len() > LOADED_KEYS {
                        return Ok(());
                    }
                    each(hash, &values, row)?;
                }
            }
        }
        Ok(())
    }

    /// What rows that come refer to among the rows of some names, by table. Fails as rows are read.
    pub(crate) fn kept(&self, root: &Root) -> Result<BTreeMap<ObjectId, KeptKeys>> {
        let mut all = BTreeMap::<ObjectId, KeptKeys>::new();
        if self.inserted.is_empty() && self.loaded.is_empty() {
            return Ok(all);
        }
        // Those that are looked at later, too: nobody is to take away meanwhile what is there.
        for reference in &self.table.rules().references {
            let Some(there) = object_of(root, reference.table).and_then(|object| rows_of(object)) else { continue };
            let Some((key, lookup)) = key_of(there, reference)? else { continue };
            let kept = all.entry(reference.table).or_default();
            let mut keep = |hash: u64, values: &KeyValues, row: usize| -> Result<()> {
                if let Some(number) = lookup.found(values, row)? {
                    kept.hashes.push(hash ^ key.number());
                    kept.rows.push(number);
                }
                Ok(())
            };
            self.each_new(reference, there, &lookup.reader, &mut keep)?;
            self.each_loaded(reference, there, &lookup.reader, &mut keep)?;
        }
        all.retain(|_, kept| !kept.rows.is_empty());
        for kept in all.values_mut() {
            kept.hashes.sort_unstable();
            kept.hashes.dedup();
            kept.rows.sort_unstable();
            kept.rows.dedup();
        }
        Ok(all)
    }

    /// Which keys go that others may refer to, among the rows of some names. Fails as rows are read.
    pub(crate) fn gone(&self, root: &Root) -> Result<Vec<GoneKeys>> {
        let mut all = Vec::new();
        if self.deleted.is_empty() {
            return Ok(all);
        }
        let references = referring(root, self.object.id).map(|(_, reference)| reference).collect::<Vec<_>>();
        let is_referred = |key: &&Key| references.iter().any(|reference| key.refers_to(&reference.referred));
        for key in self.table.rules().keys.iter().filter(is_referred) {
            let reader = KeyReader::new(key, self.table.schema())?;
            let mut hashes = HashSet::new();
            each_piece(self.table, self.deleted, reader.places(), |columns, rows| {
                let values = reader.values_of(columns.columns(), columns.num_rows())?;
                hashes.extend(rows.iter().filter_map(|row| values.hash(*row)));
                Ok(())
            })?;
            for batch in self.come()? {
                let values = reader.values(&batch)?;
                for hash in (0..batch.num_rows()).filter_map(|row| values.hash(row)) {
                    hashes.remove(&hash);
                }
            }
            if !hashes.is_empty() {
                all.push(GoneKeys { key: key.clone(), hashes });
            }
        }
        Ok(all)
    }

    /// Whether what rows that come refer to is there in the names of now as it is in those that the transaction sees:
    /// `start` are the names on which its changes build, `own` those with them. Of one that `sees_start` for good, what
    /// others have brought is not there. Fails as rows are read.
    pub(crate) fn refers_as_now(&self, start: &Root, own: &Root, now: &Root, sees_start: bool) -> Result<bool> {
        let mut is_same = true;
        for reference in self.table.rules().references.iter().filter(|reference| self.looks_at(reference)) {
            let object = |root| object_of(root, reference.table);
            let (Some(start), Some(own), Some(now)) = (object(start), object(own), object(now)) else { continue };
            if start.version == now.version {
                continue;
            }
            let (Some(start), Some(own), Some(now)) = (rows_of(start), rows_of(own), rows_of(now)) else { continue };
            // Where the table is another one, by this transaction or another, its commit finds out.
            if start.origin() != own.origin() || start.origin() != now.origin() {
                continue;
            }
            let first_new = start.next_number();
            let (Some((_, own_lookup)), Some((_, lookup))) = (key_of(own, reference)?, key_of(now, reference)?) else {
                continue;
            };
            self.each_new(reference, own, &own_lookup.reader, |_, values, row| {
                is_same &= match (own_lookup.found(values, row)?, lookup.found(values, row)?) {
                    // The transaction has brought it itself, or somebody has taken it away.
                    (Some(number), None) => number >= first_new,
                    // The transaction has taken it away itself, or somebody has brought it.
                    (None, Some(number)) => sees_start || number < first_new,
                    _ => true,
                };
                Ok(())
            })?;
        }
        Ok(is_same)
    }

    /// Whether others have committed rows since `start` that refer to keys which go. Fails with code 23503 for a
    /// transaction that `sees_start` for good, if nothing is to become of these rows, and as rows are read.
    pub(crate) fn has_new_referring(
        &self,
        gone: &[GoneKeys],
        start: &Root,
        now: &Root,
        sees_start: bool,
    ) -> Result<bool> {
        if gone.is_empty() {
            return Ok(false);
        }
        for (object, reference) in referring(now, self.object.id).filter(|(_, reference)| self.looks_at(reference)) {
            let Some(gone) = gone.iter().find(|gone| gone.key.refers_to(&reference.referred)) else { continue };
            let before = start.get(&object.name).filter(|before| before.id == object.id);
            if before.is_some_and(|before| before.version == object.version) {
                continue;
            }
            let Some(rows) = rows_of(object) else { continue };
            let before = before.and_then(|before| rows_of(before)).filter(|before| before.origin() == rows.origin());
            let first_new = before.map_or(i64::MIN, NativeTable::next_number);
            let found = self.rows_referring(gone, rows, reference, first_new)?;
            let Some(first) = found.first() else { continue };
            let action = if self.inserted.is_empty() { reference.on_delete } else { reference.on_update };
            if sees_start && matches!(action, ReferenceAction::Refuse | ReferenceAction::Restrict) {
                return Err(self.still_referenced(gone, (object, rows), reference, *first)?);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// What is wrong if a row of a number refers to a key that goes. Fails as rows are read.
    fn still_referenced(
        &self,
        gone: &GoneKeys,
        (object, rows): (&Object, &NativeTable),
        reference: &Reference,
        number: i64,
    ) -> Result<Error> {
        let own = ReferringColumns::new(reference, rows, self.table)?;
        let row = rows.row(number)?.ok_or_else(|| Error::bug("a row that refers is not there"))?;
        let columns = own.places.iter().zip(&own.types).map(|(place, kind)| cast(row.column(*place), kind));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        let shown = KeyReader::new(&gone.key, self.table.schema())?.shown_of(&columns, 0);
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            self.object.name.name, reference.name, object.name.name
        );
        let detail = format!("Key {shown} is still referenced from table \"{}\".", object.name.name);
        Ok(violation(message, detail, object, reference))
    }

    /// The rows of a table, from a number on, that refer to keys which go; ascending.
    fn rows_referring(
        &self,
        gone: &GoneKeys,
        rows: &NativeTable,
        reference: &Reference,
        first: i64,
    ) -> Result<Vec<i64>> {
        let reader = KeyReader::new(&gone.key, self.table.schema())?;
        let own = ReferringColumns::new(reference, rows, self.table)?;
        let mut found = Vec::new();
        for piece in rows.pieces().iter().filter(|piece| piece.last() >= first) {
            let columns = piece.read_columns(&own.places)?;
            let values = own.values(columns.columns(), columns.num_rows(), &reader)?;
            let has_it = |row| values.hash(row).is_some_and(|hash| gone.hashes.contains(&hash));
            let numbers = piece.live_numbers().enumerate();
            found.extend(numbers.filter(|(row, number)| *number >= first && has_it(*row)).map(|(_, number)| number));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The rows of some names that refer to keys which go, by reference: those that follow, and those of tables that
    /// are `wanted`. Fails as rows are read.
    pub(crate) fn referring(
        &self,
        gone: &[GoneKeys],
        root: &Root,
        wanted: impl Fn(ObjectId) -> bool,
    ) -> Result<Vec<ReferringRows>> {
        let mut all = Vec::new();
        for (object, reference) in referring(root, self.object.id).filter(|(_, reference)| self.looks_at(reference)) {
            let Some(gone) = gone.iter().find(|gone| gone.key.refers_to(&reference.referred)) else { continue };
            let (Some(rows), true) = (rows_of(object), reference.changes_rows() || wanted(object.id)) else { continue };
            let rows = self.rows_referring(gone, rows, reference, i64::MIN)?;
            if !rows.is_empty() {
                all.push(ReferringRows { object: object.clone(), reference: reference.clone(), rows });
            }
        }
        Ok(all)
    }
}
