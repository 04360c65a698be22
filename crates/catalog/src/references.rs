//! Foreign keys: rows of one table that refer to rows of another.
//!
//! They are looked at after all rows of a change are where they will be, under the catalog's lock, so that neither side
//! moves meanwhile. What refers to a row that went is found by scanning the columns that refer, once for a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options, concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use diligence_base::ids::{ObjectId, ObjectVersion};
use diligence_base::{About, Error, Result};
use diligence_storage::foreign_error::from_arrow;

use crate::carried::Carried;
use crate::deferred::DeferredConstraints;
use crate::keys::{KeyReader, KeyValues};
use crate::pieces::conflict;
use crate::pieces::{RowFinder, piece_of};
use crate::rules::{Key, KeyKind, Reference, ReferenceAction};
use crate::snapshot::Root;
use crate::{CatalogSnapshot, NativeTable, NewRows, Object, Relation, RowChange};

/// A table before a change and after it.
pub(crate) struct ChangedTable {
    pub(crate) before: Arc<Object>,
    pub(crate) after: Arc<Object>,
    /// The numbers of the rows that went.
    pub(crate) deleted: Vec<i64>,
    /// The rows that came.
    pub(crate) inserted: Vec<NewRows>,
    /// So many of the first of both are the same row.
    pub(crate) pairs: usize,
    /// Whether a transaction has made the change before, and dealt with what follows from it.
    pub(crate) is_carried: bool,
}

/// The tables that refer to a table, each with how it does.
pub(crate) fn referring(root: &Root, table: ObjectId) -> impl Iterator<Item = (&Arc<Object>, &Reference)> {
    let objects = root.schemas.values().flat_map(|schema| schema.objects.values());
    objects.flat_map(move |object| {
        let references = rows_of(object).map_or(&[][..], |rows| &rows.rules().references);
        references.iter().filter(move |reference| reference.table == table).map(move |reference| (object, reference))
    })
}

impl CatalogSnapshot {
    /// The references to a table, with the tables that have them.
    pub fn referring(&self, table: ObjectId) -> impl Iterator<Item = (&Arc<Object>, &Reference)> {
        referring(&self.0, table)
    }

    /// Whether a table that has triggers has rows that follow those of a table, or follow those that do.
    pub fn has_followers_with_triggers(&self, table: ObjectId) -> bool {
        let (mut met, mut left) = (BTreeSet::from([table]), vec![table]);
        while let Some(next) = left.pop() {
            for (object, _) in self.referring(next).filter(|(_, reference)| reference.changes_rows()) {
                let Relation::Native(rows) = &object.relation else { continue };
                if !rows.rules().triggers.is_empty() {
                    return true;
                }
                if met.insert(object.id) {
                    left.push(object.id);
                }
            }
        }
        false
    }
}

fn rows_of(object: &Object) -> Option<&Arc<NativeTable>> {
    match &object.relation {
        Relation::Native(rows) => Some(rows),
        _ => None,
    }
}

/// Rows of a table in which the columns of a reference have got other values, or are to have their defaults.
pub(crate) struct Followed<'a> {
    pub(crate) rows: RecordBatch,
    pub(crate) columns: &'a [String],
    pub(crate) to_defaults: bool,
}

/// Has rows of other tables follow a change of those that they refer to: `settle` gives the rows as they are to be
/// written, `carry` makes the changes. One row may refer by several columns, so each change is made before the next
/// reference is looked at. Fails with code 23503 if a row that is referred to has gone and nothing is to be done about
/// it; not for references that are `deferred`.
pub(crate) fn follow(
    root: &mut Arc<Root>,
    changed: &ChangedTable,
    deferred: Option<&DeferredConstraints>,
    settle: impl Fn(&Arc<Root>, &NativeTable, Followed<'_>) -> Result<RecordBatch>,
    mut carry: impl FnMut(&mut Arc<Root>, Carried) -> Result<()>,
) -> Result<()> {
    if rows_of(&changed.after).is_some_and(|rows| rows.rules().references_off) {
        return Ok(());
    }
    let all = referring(root, changed.after.id).map(|(object, reference)| (object.name.clone(), reference.clone()));
    for (name, reference) in all.collect::<Vec<_>>() {
        let Some(object) = root.get(&name).cloned() else { continue };
        let is_deferred = deferred.is_some_and(|deferred| deferred.has(&reference));
        let own = |table: &NativeTable, followed: Followed<'_>| settle(root, table, followed);
        let change = left_behind(changed, &object, &reference, is_deferred, own)?;
        if let Some(change) = change {
            carry(root, change)?;
        }
    }
    Ok(())
}

/// Fails with code 23503 if a row that came with a change refers to nothing, when all that follows has been done. Rows
/// that have gone again with what follows refer to nothing that matters, and references that are `deferred` are not
/// looked at.
pub(crate) fn came_well(root: &Root, changed: &ChangedTable, deferred: Option<&DeferredConstraints>) -> Result<()> {
    let (Some(before), Some(after)) = (rows_of(&changed.before), rows_of(&changed.after)) else { return Ok(()) };
    if after.rules().references.is_empty() || after.rules().references_off {
        return Ok(());
    }
    let now = root.get(&changed.after.name).filter(|now| now.id == changed.after.id);
    let Some(now) = now.and_then(|now| rows_of(now)) else { return Ok(()) };
    let mut first = before.next_number();
    for rows in &changed.inserted {
        let batch = after.read_new(rows)?;
        let numbers = first..first + batch.num_rows() as i64;
        first = numbers.end;
        let is_there = numbers.map(|number| now.has_row(number)).collect::<BooleanArray>();
        let batch = match is_there.true_count() == batch.num_rows() {
            true => batch,
            false => filter_record_batch(&batch, &is_there).map_err(from_arrow)?,
        };
        let is_now = |reference: &&Reference| deferred.is_none_or(|deferred| !deferred.has(reference));
        for reference in after.rules().references.iter().filter(is_now) {
            let is_unproven = after.rules().unproven.contains(&reference.name);
            let anew = is_unproven.then(|| referring_anew(changed, before, reference, &batch)).transpose()?;
            let rows = anew.as_ref().unwrap_or(&batch);
            refers_well(root, &changed.after, after, reference, std::slice::from_ref(rows))?;
        }
    }
    Ok(())
}

/// Of rows that came with a change, those that refer to something else than all rows that went with it: older rows may
/// refer to nothing by a reference that is NOT VALID, as long as they go on referring to the same.
fn referring_anew(
    changed: &ChangedTable,
    before: &NativeTable,
    reference: &Reference,
    came: &RecordBatch,
) -> Result<RecordBatch> {
    let key = key_of(&reference.name, &reference.columns);
    let reader = KeyReader::new(&key, before.schema())?;
    let mut went = BTreeMap::<usize, Vec<usize>>::new();
    for number in &changed.deleted {
        let piece = piece_of(before.pieces(), *number);
        if let Some((piece, row)) = piece.and_then(|piece| Some((piece, before.pieces()[piece].position(*number)?))) {
            went.entry(piece).or_default().push(row);
        }
    }
    let mut known = HashMap::<u64, Vec<(Rc<KeyValues>, usize)>>::new();
    for (piece, rows) in went {
        let columns = before.pieces()[piece].read_all(reader.places())?;
        let values = Rc::new(reader.values_of(columns.columns(), columns.num_rows())?);
        for row in rows {
            if let Some(hash) = values.hash(row) {
                known.entry(hash).or_default().push((values.clone(), row));
            }
        }
    }
    let came = came.clone().with_schema(before.schema().clone()).unwrap_or_else(|_| came.clone());
    let own = reader.values_of(&columns_of(&came, &reference.columns)?, came.num_rows())?;
    let is_known = |row: usize| {
        let known = own.hash(row).and_then(|hash| known.get(&hash));
        known.is_some_and(|known| known.iter().any(|(values, old)| own.is_equal(row, values, *old)))
    };
    let is_new = (0..came.num_rows()).map(|row| !is_known(row)).collect::<BooleanArray>();
    filter_record_batch(&came, &is_new).map_err(from_arrow)
}

/// Fails with code 23505 or 23503 if two rows have one deferrable key, or a row refers to nothing by a deferrable
/// reference, of a table that a transaction has made or altered, or to one: its changes are no rows that come and go.
/// References that are `deferred` are not looked at.
pub(crate) fn put_well(root: &Root, put: &Object, deferred: Option<&DeferredConstraints>) -> Result<()> {
    let Relation::Native(rows) = &put.relation else { return Ok(()) };
    let is_now =
        |reference: &Reference| reference.is_deferrable() && deferred.is_none_or(|deferred| !deferred.has(reference));
    for key in rows.rules().keys.iter().filter(|key| key.is_deferrable()) {
        if deferred.is_none_or(|deferred| !deferred.has_key(key)) {
            rows.check_unique(key)?;
        }
    }
    if rows.rules().references_off {
        return Ok(());
    }
    let mut own = rows.rules().references.iter().filter(|reference| is_now(reference));
    own.try_for_each(|reference| all_refer_well(root, put, rows, reference))?;
    for (object, reference) in referring(root, put.id).filter(|(_, reference)| is_now(reference)) {
        if let Some(rows) = rows_of(object) {
            all_refer_well(root, object, rows, reference)?;
        }
    }
    Ok(())
}

/// The versions of tables that others refer to; `None` for one that is not there.
pub(crate) type ReferredVersions = HashMap<ObjectId, Option<ObjectVersion>>;

/// Notes the versions of what a table refers to, if they are not known yet.
pub(crate) fn note_referred(root: &Root, put: &Object, known: &mut ReferredVersions) {
    for reference in rows_of(put).map_or(&[][..], |rows| &rows.rules().references) {
        known.entry(reference.table).or_insert_with(|| object_of(root, reference.table).map(|found| found.version));
    }
}

/// Looks at what a table refers to that a transaction has made or altered, where others have changed that since: it is
/// of another version than `known` in the names `before` the transaction's changes. Fails with code 23503 if a row
/// refers to nothing now, and 40001 if there is no such key any more.
pub(crate) fn refers_still(root: &Root, before: &Root, known: &ReferredVersions, put: &Object) -> Result<()> {
    let Relation::Native(rows) = &put.relation else { return Ok(()) };
    for reference in &rows.rules().references {
        let version = object_of(before, reference.table).map(|found| found.version);
        if reference.table == put.id || known.get(&reference.table) == Some(&version) {
            continue;
        }
        let referred = object_of(root, reference.table).ok_or_else(conflict)?;
        let keys = rows_of(referred).map_or(&[][..], |referred| &referred.rules().keys);
        if !keys.iter().any(|key| key.refers_to(&reference.referred)) {
            return Err(conflict());
        }
        if !rows.rules().references_off && !rows.rules().unproven.contains(&reference.name) {
            all_refer_well(root, put, rows, reference)?;
        }
    }
    Ok(())
}

fn object_of(root: &Root, id: ObjectId) -> Option<&Arc<Object>> {
    root.schemas.values().flat_map(|schema| schema.objects.values()).find(|object| object.id == id)
}

/// The columns of a reference as a key of the table that refers.
fn key_of(name: &str, columns: &[String]) -> Key {
    Key::of_columns(name, columns.to_vec(), KeyKind::Index, false)
}

fn columns_of(batch: &RecordBatch, names: &[String]) -> Result<Vec<ArrayRef>> {
    let column = |name: &String| {
        batch.column_by_name(name).cloned().ok_or_else(|| Error::bug(format!("a table has no column '{name}'")))
    };
    names.iter().map(column).collect()
}

/// Fails if one of a table's rows refers to nothing.
pub(crate) fn all_refer_well(root: &Root, object: &Object, rows: &NativeTable, reference: &Reference) -> Result<()> {
    rows.pieces().iter().try_for_each(|piece| refers_well(root, object, rows, reference, &[piece.read()?]))
}

/// Fails if one of the rows refers to nothing.
pub(crate) fn refers_well(
    root: &Root,
    object: &Object,
    rows: &NativeTable,
    reference: &Reference,
    inserted: &[RecordBatch],
) -> Result<()> {
    let Some(referred) = object_of(root, reference.table) else { return Ok(()) };
    let Some(there) = rows_of(referred) else { return Ok(()) };
    let same = |key: &&Key| key.refers_to(&reference.referred);
    let key = there.rules().keys.iter().find(same);
    let lookup = key.map(|key| there.lookup(key)).transpose()?.flatten();
    let lookup = lookup.ok_or_else(|| Error::bug("a reference to columns that are no key"))?;
    for batch in inserted {
        // What comes from elsewhere has the columns' order, not always their names.
        let batch = batch.clone().with_schema(rows.schema().clone()).unwrap_or_else(|_| batch.clone());
        let own = columns_of(&batch, &reference.columns)?;
        let types = reference.referred.iter().map(|name| {
            let field = there.schema().field_with_name(name).map_err(from_arrow)?;
            Ok(field.data_type().clone())
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        let columns = own.iter().zip(&types).map(|(column, kind)| cast(column, kind).map_err(from_arrow));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let values = lookup.reader.values_of(&columns, batch.num_rows())?;
        for row in 0..batch.num_rows() {
            let nulls = own.iter().filter(|column| column.is_null(row)).count();
            let is_mixed = reference.is_full && (1..own.len()).contains(&nulls);
            if !is_mixed && (nulls > 0 || lookup.finds(&values, row)?) {
                continue;
            }
            let shown = key_of(&reference.name, &reference.columns);
            let shown = KeyReader::new(&shown, rows.schema())?.shown(&batch, row);
            let message = format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                object.name.name, reference.name
            );
            let detail = match is_mixed {
                true => "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned(),
                false => format!("Key {shown} is not present in table \"{}\".", referred.name.name),
            };
            return Err(violation(message, detail, object, reference));
        }
    }
    Ok(())
}

pub(crate) fn violation(message: String, detail: String, object: &Object, reference: &Reference) -> Error {
    let about = About {
        schema: Some(object.name.schema.clone()),
        table: Some(object.name.name.clone()),
        constraint: Some(reference.name.clone()),
        ..About::default()
    };
    Error::value(message).with_code("23503").with_detail(detail).with_about(about)
}

/// A key that went: the values of which it was one, and the row that came in its place, if one did.
struct GoneKey {
    values: Rc<KeyValues>,
    row: usize,
    /// The number of the row that had it.
    number: i64,
    new: Option<RecordBatch>,
    /// Whether another row has it now.
    is_back: bool,
}

/// Whether a change has taken away a key that a reference is to, or changed one.
pub(crate) fn has_gone_keys(changed: &ChangedTable, reference: &Reference) -> Result<bool> {
    let (Some(before), Some(after)) = (rows_of(&changed.before), rows_of(&changed.after)) else { return Ok(false) };
    if after.rules().references_off {
        return Ok(false);
    }
    let Some(key) = before.rules().keys.iter().find(|key| key.refers_to(&reference.referred)) else { return Ok(false) };
    let reader = KeyReader::new(key, before.schema())?;
    Ok(!gone_keys(changed, before, after, key, &reader)?.is_empty())
}

/// What becomes of the rows that refer to rows that went.
pub(crate) fn left_behind(
    changed: &ChangedTable,
    object: &Arc<Object>,
    reference: &Reference,
    is_deferred: bool,
    settle: impl Fn(&NativeTable, Followed<'_>) -> Result<RecordBatch>,
) -> Result<Option<Carried>> {
    let (Some(before), Some(after)) = (rows_of(&changed.before), rows_of(&changed.after)) else { return Ok(None) };
    let Some(referring) = rows_of(object) else { return Ok(None) };
    let same = |key: &&Key| key.refers_to(&reference.referred);
    let Some(key) = before.rules().keys.iter().find(same) else { return Ok(None) };
    let reader = KeyReader::new(key, before.schema())?;
    let gone = gone_keys(changed, before, after, key, &reader)?;
    if gone.is_empty() {
        return Ok(None);
    }
    let types = reference.referred.iter().map(|name| before.schema().field_with_name(name).map_err(from_arrow));
    let types = types.collect::<Result<_>>()?;
    let broken = BrokenReference { changed, before, referring, object, reference, reader, types, gone };
    let Followers { mut replaced, deleted, given, defaults } = broken.followers(is_deferred)?;
    let settled = |rows: &[RecordBatch], columns: &[String], to_defaults: bool| -> Result<Option<RecordBatch>> {
        let Some(schema) = rows.first().map(RecordBatch::schema) else { return Ok(None) };
        let rows = concat_batches(&schema, rows).map_err(from_arrow)?;
        settle(referring, Followed { rows, columns, to_defaults }).map(Some)
    };
    let mut inserted = settled(&given, &reference.columns, false)?.into_iter().collect::<Vec<_>>();
    for (place, to_default) in defaults.into_iter().enumerate() {
        let Some(rows) = settled(&to_default.rows, reference.columns_set(place == 0), true)? else { continue };
        broken.check_defaults(&rows, &to_default.gone)?;
        replaced.extend(to_default.replaced);
        inserted.push(rows);
    }
    if deleted.is_empty() && replaced.is_empty() {
        return Ok(None);
    }
    let memory = referring.counted().ok_or_else(|| Error::bug("rows are counted nowhere"))?;
    let mut memory = memory.sibling();
    memory.grow(inserted.iter().map(RecordBatch::get_array_memory_size).sum())?;
    let inserted = inserted.into_iter().map(NewRows::Memory).collect();
    let pairs = replaced.len();
    replaced.extend(deleted);
    Ok(Some(Carried::Rows(object.clone(), RowChange { deleted: replaced, inserted, memory, pairs })))
}

/// The rows of one table that refer to rows that went, by what becomes of them.
#[derive(Default)]
struct Followers {
    /// The numbers of those that go as well.
    deleted: Vec<i64>,
    /// The numbers of those that get other values, and the rows with these.
    replaced: Vec<i64>,
    given: Vec<RecordBatch>,
    /// Those that get defaults: for rows that went, and for rows with other keys.
    defaults: [ToDefault; 2],
}

/// Rows that get defaults.
#[derive(Default)]
struct ToDefault {
    /// They are as they were.
    rows: Vec<RecordBatch>,
    /// Their numbers.
    replaced: Vec<i64>,
    /// For each, the number of the row that it referred to.
    gone: Vec<i64>,
}

/// A reference to keys that went.
struct BrokenReference<'a> {
    changed: &'a ChangedTable,
    before: &'a NativeTable,
    /// The table that refers.
    referring: &'a NativeTable,
    object: &'a Object,
    reference: &'a Reference,
    reader: KeyReader<'a>,
    /// The columns that it refers to.
    types: Vec<&'a Field>,
    /// By their hash.
    gone: HashMap<u64, Vec<GoneKey>>,
}

impl BrokenReference<'_> {
    /// The rows that refer to keys that went. Fails with code 23503 if one may not, with code 40001 if another
    /// transaction has added it.
    fn followers(&self, is_deferred: bool) -> Result<Followers> {
        let mut followers = Followers::default();
        let own = self.reference.columns.iter();
        let own = own.map(|name| self.referring.schema().index_of(name).map_err(from_arrow));
        let own = own.collect::<Result<Vec<_>>>()?;
        let all = (0..self.referring.schema().fields().len()).collect();
        let rows = RowFinder::new(self.referring.pieces(), all);
        for piece in self.referring.pieces() {
            let batch = piece.read_columns(&own)?;
            let numbers = piece.live_numbers().collect::<Vec<_>>();
            let values = self.values(batch.columns(), batch.num_rows())?;
            for row in 0..batch.num_rows() {
                let Some(keys) = values.hash(row).and_then(|hash| self.gone.get(&hash)) else { continue };
                let hit = keys.iter().find(|key| values.is_equal(row, &key.values, key.row));
                if let Some(key) = hit {
                    self.follow(key, numbers[row], is_deferred, &rows, &mut followers)?;
                }
            }
        }
        Ok(followers)
    }

    /// What becomes of the row with a number, which refers to a key that went.
    fn follow(
        &self,
        key: &GoneKey,
        own: i64,
        is_deferred: bool,
        rows: &RowFinder<'_>,
        followers: &mut Followers,
    ) -> Result<()> {
        let (reference, new) = (self.reference, &key.new);
        let action = if new.is_some() { reference.on_update } else { reference.on_delete };
        if action == ReferenceAction::Refuse && (key.is_back || is_deferred) {
            return Ok(());
        }
        // Of what a transaction has put off, it is not known which row came in the place of which.
        let refuses = [reference.on_update, reference.on_delete].contains(&ReferenceAction::Refuse);
        let action = match self.changed.is_carried {
            true if reference.is_deferrable() && refuses => ReferenceAction::Refuse,
            // A transaction has dealt with all rows that it saw: somebody else has added this one.
            true => return Err(conflict()),
            false => action,
        };
        let old = || {
            let columns = rows.find(own)?.ok_or_else(|| Error::bug("a row that refers is not there"))?;
            // Of a cluster, columns without NULLs do not say that they have none.
            RecordBatch::try_new(self.referring.schema().clone(), columns.columns().to_vec()).map_err(from_arrow)
        };
        match (action, new) {
            (ReferenceAction::Refuse | ReferenceAction::Restrict, _) => return Err(self.violation(key.number)),
            (ReferenceAction::Cascade, None) => followers.deleted.push(own),
            (ReferenceAction::Cascade, Some(new)) => {
                let new = columns_of(new, &reference.referred)?;
                let value = |place: usize, column: &ArrayRef| as_type(&new[place], column.data_type());
                followers.replaced.push(own);
                followers.given.push(with_columns(&old()?, &reference.columns, value)?);
            }
            (ReferenceAction::SetNull, _) => {
                let null = |_, column: &ArrayRef| Ok(new_null_array(column.data_type(), column.len()));
                let columns = reference.columns_set(new.is_none());
                followers.replaced.push(own);
                followers.given.push(with_columns(&old()?, columns, null)?);
            }
            (ReferenceAction::SetDefault, _) => {
                let to_default = &mut followers.defaults[usize::from(new.is_some())];
                to_default.replaced.push(own);
                to_default.gone.push(key.number);
                to_default.rows.push(with_columns(&old()?, &[], |_, column| Ok(column.clone()))?);
            }
        }
        Ok(())
    }

    /// Rows that got defaults do not refer to a key that went. Fails with code 23503 if one does.
    fn check_defaults(&self, rows: &RecordBatch, gone: &[i64]) -> Result<()> {
        let columns = columns_of(rows, &self.reference.columns)?;
        let values = self.values(&columns, rows.num_rows())?;
        for (row, number) in gone.iter().enumerate() {
            let keys = values.hash(row).and_then(|hash| self.gone.get(&hash));
            let is_gone = |key: &GoneKey| !key.is_back && values.is_equal(row, &key.values, key.row);
            if keys.is_some_and(|keys| keys.iter().any(is_gone)) {
                return Err(self.violation(*number));
            }
        }
        Ok(())
    }

    /// The keys that the columns of a reference name.
    fn values(&self, columns: &[ArrayRef], rows: usize) -> Result<KeyValues> {
        let columns = columns.iter().zip(&self.types).map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        self.reader.values_of(&columns, rows)
    }

    /// The error for a row that went, or has another key, although it is referred to.
    fn violation(&self, number: i64) -> Error {
        let table = &self.object.name.name;
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{table}\"",
            self.changed.after.name.name, self.reference.name
        );
        match self.before.row(number) {
            Ok(Some(old)) => {
                let shown = self.reader.shown(&old, 0);
                let detail = format!("Key {shown} is still referenced from table \"{table}\".");
                violation(message, detail, self.object, self.reference)
            }
            Ok(None) => Error::bug("a row that went was not there"),
            Err(error) => error,
        }
    }
}

/// A value that follows another one. Fails with code 22003 if it does not fit.
fn as_type(value: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(value, data_type, &options).map_err(|error| {
        let message = format!("a key that others refer to does not fit their column: {error}");
        Error::value(message).with_code("22003").with_hint("give the columns that refer the type of the key")
    })
}

/// The keys that rows had which went or have other keys now, by their hash. Each piece is read once.
fn gone_keys(
    changed: &ChangedTable,
    before: &NativeTable,
    after: &NativeTable,
    key: &Key,
    reader: &KeyReader<'_>,
) -> Result<HashMap<u64, Vec<GoneKey>>> {
    // Rows that take the places of others come in memory.
    let mut came = Vec::new();
    for batch in changed.inserted.iter().filter_map(NewRows::batch) {
        if came.len() == changed.pairs {
            break;
        }
        let batch = batch.clone().with_schema(before.schema().clone()).unwrap_or_else(|_| batch.clone());
        let values = Rc::new(reader.values(&batch)?);
        let rows = batch.num_rows().min(changed.pairs - came.len());
        came.extend((0..rows).map(|row| (batch.clone(), values.clone(), row)));
    }
    let mut went = BTreeMap::<usize, Vec<(usize, usize)>>::new();
    for (place, number) in changed.deleted.iter().enumerate() {
        let piece = piece_of(before.pieces(), *number);
        let found = piece.and_then(|piece| Some((piece, before.pieces()[piece].position(*number)?)));
        if let Some((piece, row)) = found {
            went.entry(piece).or_default().push((row, place));
        }
    }
    let lookup = after.lookup(key)?.ok_or_else(|| Error::bug("a key is gone"))?;
    let mut gone = HashMap::<u64, Vec<GoneKey>>::new();
    for (piece, rows) in went {
        let columns = before.pieces()[piece].read_all(reader.places())?;
        let values = Rc::new(reader.values_of(columns.columns(), columns.num_rows())?);
        for (row, place) in rows {
            let Some(hash) = values.hash(row) else { continue };
            let new = came.get(place);
            if new.is_some_and(|(_, new, at)| values.is_equal(row, new, *at)) {
                continue;
            }
            let is_back = lookup.finds(&values, row)?;
            // A transaction has dealt with the rows that it saw, pair by pair.
            if is_back && changed.is_carried {
                continue;
            }
            let (number, values) = (changed.deleted[place], values.clone());
            let new = new.map(|(batch, _, at)| batch.slice(*at, 1));
            gone.entry(hash).or_default().push(GoneKey { values, row, number, new, is_back });
        }
    }
    Ok(gone)
}

/// Rows with other values in some columns.
fn with_columns(
    rows: &RecordBatch,
    names: &[String],
    value: impl Fn(usize, &ArrayRef) -> Result<ArrayRef>,
) -> Result<RecordBatch> {
    let schema = rows.schema();
    let columns = rows.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match names.iter().position(|name| name == field.name()) {
            Some(place) => value(place, column),
            None => Ok(column.clone()),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    // A NULL where none may be is found when the rows come.
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).map_err(from_arrow)
}
