//! Foreign keys: rows of one table that refer to rows of another.
//!
//! They are looked at after all rows of a change are where they will be, under the catalog's lock, so that neither side
//! moves meanwhile. What refers to a row that went is found by scanning the columns that refer, once for a change.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{Field, Schema};
use diligence_base::ids::ObjectId;
use diligence_base::{About, Error, Result};
use diligence_storage::foreign_error::from_arrow;

use crate::carried::Carried;
use crate::keys::KeyReader;
use crate::memory::conflict;
use crate::rules::{Key, KeyKind, Reference, ReferenceAction};
use crate::snapshot::Root;
use crate::{MemoryRelation, Object, Relation, RowChange};

/// A table before a change and after it.
pub(crate) struct ChangedTable {
    pub(crate) before: Arc<Object>,
    pub(crate) after: Arc<Object>,
    /// The numbers of the rows that went.
    pub(crate) deleted: Vec<i64>,
    /// The rows that came.
    pub(crate) inserted: Vec<RecordBatch>,
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

fn rows_of(object: &Object) -> Option<&Arc<MemoryRelation>> {
    match &object.relation {
        Relation::Memory(rows) => Some(rows),
        _ => None,
    }
}

/// Has every reference find its row after a change: `carry` makes the changes of other tables that follow from it. One
/// row may refer by several columns, so each change is made before the next reference is looked at. Fails with code
/// 23503 if a reference finds no row and nothing is to be done about it.
pub(crate) fn follow(
    root: &mut Arc<Root>,
    changed: &ChangedTable,
    mut carry: impl FnMut(&mut Arc<Root>, Carried) -> Result<()>,
) -> Result<()> {
    let Some(after) = rows_of(&changed.after) else { return Ok(()) };
    for reference in &after.rules().references {
        refers_well(root, &changed.after, after, reference, &changed.inserted)?;
    }
    let all = referring(root, changed.after.id).map(|(object, reference)| (object.name.clone(), reference.clone()));
    for (name, reference) in all.collect::<Vec<_>>() {
        let Some(object) = root.get(&name).cloned() else { continue };
        if let Some(change) = left_behind(changed, &object, &reference)? {
            carry(root, change)?;
        }
    }
    Ok(())
}

/// The columns of a reference as a key of the table that refers.
fn key_of(name: &str, columns: &[String]) -> Key {
    Key { name: name.to_owned(), columns: columns.to_vec(), kind: KeyKind::Index, nulls_are_equal: false }
}

fn columns_of(batch: &RecordBatch, names: &[String]) -> Result<Vec<ArrayRef>> {
    let column = |name: &String| {
        batch.column_by_name(name).cloned().ok_or_else(|| Error::bug(format!("a table has no column '{name}'")))
    };
    names.iter().map(column).collect()
}

/// Fails if one of the rows refers to nothing.
pub(crate) fn refers_well(
    root: &Root,
    object: &Object,
    rows: &MemoryRelation,
    reference: &Reference,
    inserted: &[RecordBatch],
) -> Result<()> {
    let referred = root.schemas.values().flat_map(|schema| schema.objects.values());
    let Some(referred) = referred.into_iter().find(|other| other.id == reference.table) else { return Ok(()) };
    let Some(there) = rows_of(referred) else { return Ok(()) };
    let same = |key: &&Key| key.kind.is_unique() && key.columns == reference.referred;
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
            if own.iter().any(|column| column.is_null(row)) || lookup.finds(&values, row)? {
                continue;
            }
            let shown = key_of(&reference.name, &reference.columns);
            let shown = KeyReader::new(&shown, rows.schema())?.shown(&batch, row);
            let message = format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                object.name.name, reference.name
            );
            let detail = format!("Key {shown} is not present in table \"{}\".", referred.name.name);
            return Err(violation(message, detail, object, reference));
        }
    }
    Ok(())
}

fn violation(message: String, detail: String, object: &Object, reference: &Reference) -> Error {
    let about = About {
        schema: Some(object.name.schema.clone()),
        table: Some(object.name.name.clone()),
        constraint: Some(reference.name.clone()),
        ..About::default()
    };
    Error::value(message).with_code("23503").with_detail(detail).with_about(about)
}

/// A key that went: the row that had it, and the row that came in its place, if one did.
struct GoneKey {
    old: RecordBatch,
    new: Option<RecordBatch>,
}

/// What becomes of the rows that refer to rows that went.
fn left_behind(changed: &ChangedTable, object: &Arc<Object>, reference: &Reference) -> Result<Option<Carried>> {
    let (Some(before), Some(after)) = (rows_of(&changed.before), rows_of(&changed.after)) else { return Ok(None) };
    let Some(referring) = rows_of(object) else { return Ok(None) };
    let same = |key: &&Key| key.kind.is_unique() && key.columns == reference.referred;
    let Some(key) = before.rules().keys.iter().find(same) else { return Ok(None) };
    let reader = KeyReader::new(key, before.schema())?;
    let gone = gone_keys(changed, before, after, key, &reader)?;
    if gone.is_empty() {
        return Ok(None);
    }
    let types = reference.referred.iter().map(|name| before.schema().field_with_name(name).map_err(from_arrow));
    let types = types.collect::<Result<Vec<_>>>()?;
    let (mut deleted, mut inserted, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
    for (batch, numbers) in referring.batches().iter().zip(referring.numbers()) {
        let columns = columns_of(batch, &reference.columns)?;
        let columns = columns.iter().zip(&types).map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        let values = reader.values_of(&columns, batch.num_rows())?;
        for row in 0..batch.num_rows() {
            let Some(rows) = values.hash(row).and_then(|hash| gone.get(&hash)) else { continue };
            let mut hit = None;
            for key in rows {
                if values.is_equal(row, &reader.values(&key.old)?, 0) {
                    hit = Some(key);
                }
            }
            let Some(GoneKey { old, new }) = hit else { continue };
            if changed.is_carried {
                // A transaction has dealt with all rows that it saw: somebody else has added this one.
                return Err(conflict());
            }
            match (if new.is_some() { reference.on_update } else { reference.on_delete }, new) {
                (ReferenceAction::Refuse, _) => {
                    let message = format!(
                        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                        changed.after.name.name, reference.name, object.name.name
                    );
                    let shown = reader.shown(old, 0);
                    let detail = format!("Key {shown} is still referenced from table \"{}\".", object.name.name);
                    return Err(violation(message, detail, object, reference));
                }
                (ReferenceAction::Cascade, None) => deleted.push(numbers.at(row)),
                (ReferenceAction::Cascade, Some(new)) => {
                    let new = columns_of(new, &reference.referred)?;
                    replaced.push(numbers.at(row));
                    inserted.push(with_columns(&batch.slice(row, 1), &reference.columns, |place, column| {
                        cast(&new[place], column.data_type()).map_err(from_arrow)
                    })?);
                }
                (ReferenceAction::SetNull, _) => {
                    let null = |_, column: &ArrayRef| Ok(new_null_array(column.data_type(), column.len()));
                    replaced.push(numbers.at(row));
                    inserted.push(with_columns(&batch.slice(row, 1), &reference.columns, null)?);
                }
            }
        }
    }
    if deleted.is_empty() && replaced.is_empty() {
        return Ok(None);
    }
    let memory = referring.counted().ok_or_else(|| Error::bug("rows are counted nowhere"))?;
    let mut memory = memory.sibling();
    memory.grow(inserted.iter().map(RecordBatch::get_array_memory_size).sum())?;
    let inserted = match inserted.first().map(RecordBatch::schema) {
        Some(schema) => vec![concat_batches(&schema, &inserted).map_err(from_arrow)?],
        None => vec![],
    };
    let pairs = replaced.len();
    replaced.extend(deleted);
    Ok(Some(Carried::Rows(object.clone(), RowChange { deleted: replaced, inserted, memory, pairs })))
}

/// The keys that went and did not come back, by their hash.
fn gone_keys(
    changed: &ChangedTable,
    before: &MemoryRelation,
    after: &MemoryRelation,
    key: &Key,
    reader: &KeyReader<'_>,
) -> Result<HashMap<u64, Vec<GoneKey>>> {
    let came = changed.inserted.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)));
    let mut came = came.take(changed.pairs).map(|row| row.clone().with_schema(before.schema().clone()).unwrap_or(row));
    let lookup = after.lookup(key)?.ok_or_else(|| Error::bug("a key is gone"))?;
    let mut gone = HashMap::<u64, Vec<GoneKey>>::new();
    for number in &changed.deleted {
        let new = came.next();
        let Some(old) = before.row(*number) else { continue };
        let values = reader.values(&old)?;
        if !lookup.finds(&values, 0)?
            && let Some(hash) = values.hash(0)
        {
            gone.entry(hash).or_default().push(GoneKey { old, new });
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
