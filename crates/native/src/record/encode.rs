//! Records as bytes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_catalog::distribution::Distribution;
use diligence_catalog::journal::Entry;
use diligence_catalog::rules::{Check, Deferral, Identity, KeyKind, ReferenceAction, TableRules};
use diligence_catalog::sequence::{SequenceOptions, SequenceState};
use diligence_catalog::{
    Authority, ColumnIds, KeyFiles, NativeTable, Object, Piece, Relation, RelationName, kept_order,
};
use diligence_storage::DeletedRows;
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::{Seal, Segment};
use sqlparser::ast::Expr;

use super::marks::{
    BETWEEN, DISTRIBUTION, INDEX, MATERIALIZED, REFERENCES_OFF, SET_COLUMNS, STATISTICS, TRIGGER, UNPOPULATED, UNPROVEN,
};
use super::{DEFERRAL_SHIFT, MATCH_FULL, tags};
use crate::bytes::Encoder;

/// Rows as a record.
pub fn encode_rows(statement: u64, rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::ROWS);
    encoder.number(statement);
    encoder.rows(rows)?;
    Ok(encoder.0)
}

/// Rows in a segment as a record; `deleted` says which of the cluster's are gone.
pub fn encode_stored(
    statement: u64,
    segment: &Segment,
    cluster: usize,
    deleted: Option<&DeletedRows>,
    fragment: u16,
) -> Vec<u8> {
    let rows = 0..segment.rows(cluster).unwrap_or(0);
    let gone = rows.filter(|at| deleted.is_some_and(|deleted| deleted.has(*at))).map(|at| at as i64);
    let mut encoder = Encoder::default();
    match fragment {
        0 => encoder.byte(tags::STORED),
        _ => {
            encoder.byte(tags::STORED_IN_FRAGMENT);
            encoder.number(u64::from(fragment));
        }
    }
    encoder.number(statement);
    let Seal { start, checksum } = segment.seal();
    encoder.number(segment.number());
    encoder.number(start);
    encoder.number(u64::from(checksum));
    encoder.number(cluster as u64);
    encoder.numbers(&gone.collect::<Vec<_>>());
    encoder.0
}

/// The files of an index as a record; `key` says which of the table's keys it is of.
pub fn encode_keys(statement: u64, key: usize, keys: &KeyFiles) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::KEYS);
    encoder.number(statement);
    encoder.number(key as u64);
    encoder.signed(keys.covered);
    encoder.number(keys.files.len() as u64);
    for file in &keys.files {
        let Seal { start, checksum } = file.seal();
        encoder.number(file.number());
        encoder.number(start);
        encoder.number(u64::from(checksum));
    }
    encoder.0
}

/// An entry as a record; its rows are those of `statement`.
pub fn encode_entry(entry: &Entry, statement: u64) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    match entry {
        Entry::CreateSchema { id, name } => return Ok(encode_schema(id.0, name)),
        Entry::DropSchema { name } => {
            encoder.byte(tags::DROP_SCHEMA);
            encoder.text(name);
        }
        Entry::Create(object) => return encode_object(object, statement),
        Entry::Authority(authority) => return Ok(encode_authority(authority)),
        Entry::Drop { name } => {
            encoder.byte(tags::DROP);
            encode_name(&mut encoder, name);
        }
        Entry::Alter { table, name, alteration } => {
            encoder.byte(tags::ALTER);
            encoder.number(table.0);
            encode_name(&mut encoder, name);
            encode_name(&mut encoder, &alteration.name);
            encoder.schema(&alteration.columns)?;
            encoder.number(alteration.places.len() as u64);
            for place in &alteration.places {
                encoder.number(place.map_or(0, |place| place as u64 + 1));
            }
            encode_rules(&mut encoder, &alteration.rules);
        }
        Entry::Count { sequence, name, state } => {
            encoder.byte(tags::COUNT);
            encoder.number(sequence.0);
            encode_name(&mut encoder, name);
            encode_state(&mut encoder, *state);
        }
        Entry::Change { table, name, deleted, replace } => {
            encoder.byte(tags::CHANGE);
            encoder.number(table.0);
            encode_name(&mut encoder, name);
            encoder.numbers(deleted);
            encoder.byte(u8::from(*replace));
            encoder.number(statement);
        }
    }
    Ok(encoder.0)
}

/// Several records as one.
pub fn encode_group(records: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::GROUP);
    for record in records {
        encoder.bytes(&record);
    }
    encoder.0
}

/// A schema as a record.
pub fn encode_schema(id: u64, name: &str) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::CREATE_SCHEMA);
    encoder.number(id);
    encoder.text(name);
    encoder.0
}

/// Who may do what as a record.
pub fn encode_authority(authority: &Authority) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::AUTHORITY);
    encoder.text(&authority.text());
    encoder.0
}

/// The moment of what follows as a record.
pub fn encode_moment(micros: i64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::MOMENT);
    encoder.signed(micros);
    encoder.0
}

/// The last record of an image.
pub fn encode_end(next_object: u64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(tags::END);
    encoder.number(next_object);
    encoder.0
}

/// A relation as a record; a table's rows are those of `statement`.
fn encode_object(object: &Object, statement: u64) -> Result<Vec<u8>> {
    encode_relation(object.id, &object.name, &object.relation, statement)
}

/// As [`encode_object`], for a relation that is not the object's own.
pub fn encode_relation(id: ObjectId, name: &RelationName, relation: &Relation, statement: u64) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    let head = |encoder: &mut Encoder, tag| {
        encoder.byte(tag);
        encoder.number(id.0);
        encode_name(encoder, name);
    };
    match relation {
        Relation::Native(table) => {
            let is_divided = table.pieces().iter().any(is_divided);
            head(&mut encoder, if is_divided { tags::CREATE_TABLE_IN_FRAGMENTS } else { tags::CREATE_TABLE_WITH_IDS });
            if is_divided {
                let fragments = table.pieces().iter().map(|piece| i64::from(piece.fragment()));
                encoder.numbers(&fragments.collect::<Vec<_>>());
            }
            let ColumnIds { ids, next } = table.columns();
            encoder.numbers(&ids.iter().map(|id| i64::from(*id)).collect::<Vec<_>>());
            encoder.number(u64::from(*next));
            encode_table(&mut encoder, table)?;
            encoder.number(statement);
        }
        Relation::View(view) => {
            head(&mut encoder, tags::CREATE_VIEW);
            encoder.text(&view.kept());
            encoder.schema(&view.schema)?;
        }
        Relation::Files(files) => {
            head(&mut encoder, tags::CREATE_FILES);
            encoder.text(files.definition.as_deref().unwrap_or_default());
        }
        Relation::Routine(routine) => {
            head(&mut encoder, tags::CREATE_ROUTINE);
            encoder.text(&routine.definition());
        }
        Relation::Enum(definition) => {
            head(&mut encoder, tags::CREATE_ENUM);
            encoder.number(definition.array.0);
            encode_texts(&mut encoder, &definition.labels);
        }
        Relation::Composite(definition) => {
            head(&mut encoder, tags::CREATE_COMPOSITE);
            encoder.number(definition.array.0);
            encoder.schema(&definition.columns)?;
        }
        Relation::Domain(definition) => {
            head(&mut encoder, tags::CREATE_DOMAIN);
            encoder.number(definition.array.0);
            encoder.schema(&Arc::new(Schema::new(vec![definition.column()])))?;
            let default = definition.default.iter().map(ToString::to_string).collect::<Vec<_>>();
            encode_texts(&mut encoder, &default);
            let of_check = |check: &Check| [check.name.clone(), check.condition.to_string()];
            encode_texts(&mut encoder, &definition.checks.iter().flat_map(of_check).collect::<Vec<_>>());
        }
        Relation::Collation(order) => {
            head(&mut encoder, tags::CREATE_COLLATION);
            encode_texts(&mut encoder, &kept_order(order));
        }
        Relation::Sequence(sequence) => {
            head(&mut encoder, tags::CREATE_SEQUENCE);
            let SequenceOptions { start, increment, min, max, cycles, bits, owner } = &sequence.options;
            [start, increment, min, max].into_iter().for_each(|number| encoder.signed(*number));
            encoder.byte(u8::from(*cycles));
            encoder.byte(*bits);
            encoder.byte(u8::from(owner.is_some()));
            if let Some((table, column)) = owner {
                encoder.number(table.0);
                encoder.text(column);
            }
            encode_state(&mut encoder, sequence.kept());
        }
        Relation::Table(_) => return Err(Error::bug("a program's table cannot be written down")),
    }
    Ok(encoder.0)
}

/// Whether a version that knows of no fragments and no clustering key would take a piece for something else.
fn is_divided(piece: &Piece) -> bool {
    piece.fragment() > 0 || matches!(piece.numbers(), RowNumbers::Moved { .. })
}

fn encode_table(encoder: &mut Encoder, table: &Arc<NativeTable>) -> Result<()> {
    encoder.schema(table.schema())?;
    encode_rules(encoder, table.rules());
    encoder.number(table.pieces().len() as u64);
    for piece in table.pieces() {
        match piece.numbers() {
            RowNumbers::From(first) => {
                encoder.byte(0);
                encoder.signed(*first);
            }
            RowNumbers::Listed(numbers) | RowNumbers::Moved { numbers, .. } => {
                encoder.byte(2);
                encoder.differences(numbers);
            }
        }
    }
    encoder.signed(table.next_number());
    Ok(())
}

fn encode_rules(encoder: &mut Encoder, rules: &TableRules) {
    let TableRules {
        defaults,
        generated,
        identities,
        checks,
        keys,
        references,
        comments,
        unproven,
        references_off,
        materialized,
        distribution,
        triggers,
        statistics,
    } = rules;
    let mut pairs = |pairs: Vec<(&String, String)>| {
        encoder.number(pairs.len() as u64);
        for (name, text) in pairs {
            encoder.text(name);
            encoder.text(&text);
        }
    };
    let mut sorted = defaults.iter().map(|(column, default)| (column, default.to_string())).collect::<Vec<_>>();
    sorted.sort();
    pairs(sorted);
    pairs(generated.iter().map(|(column, expression)| (column, expression.to_string())).collect());
    pairs(checks.iter().map(|check| (&check.name, check.condition.to_string())).collect());
    let marks = unproven.iter().map(|name| (format!("{UNPROVEN}{name}"), String::new()));
    let view = materialized.iter().map(|view| {
        let mark = if view.is_populated { MATERIALIZED } else { UNPOPULATED };
        (mark.to_owned(), view.query.clone())
    });
    let off = references_off.then(|| (REFERENCES_OFF.to_owned(), String::new()));
    let divided = (*distribution != Distribution::default()).then(|| (DISTRIBUTION.to_owned(), distribution.encoded()));
    let called = triggers.iter().map(|trigger| (format!("{TRIGGER}{}", trigger.name), trigger.encoded()));
    let studied = statistics.iter().map(|own| (format!("{STATISTICS}{}", own.name), own.encoded()));
    let formed = keys.iter().filter_map(|key| Some((format!("{INDEX}{}", key.name), key.form.as_ref()?.encoded())));
    let partly = references.iter().filter(|reference| !reference.set_columns.is_empty());
    let set = partly.map(|reference| (format!("{SET_COLUMNS}{}", reference.name), reference.set_columns.join(BETWEEN)));
    let marks = marks
        .chain(view)
        .chain(off)
        .chain(divided)
        .chain(called)
        .chain(studied)
        .chain(formed)
        .chain(set)
        .collect::<Vec<_>>();
    let comments = comments.iter().chain(marks.iter().map(|(name, text)| (name, text)));
    pairs(comments.map(|(name, text)| (name, text.clone())).collect());
    encoder.number(identities.len() as u64);
    for (column, identity) in identities {
        encoder.text(column);
        encoder.byte(u8::from(*identity == Identity::Always));
    }
    encoder.number(keys.len() as u64);
    for key in keys {
        encoder.text(&key.name);
        encode_texts(encoder, &key.columns);
        let kind = match (key.kind, &key.computed) {
            (KeyKind::Primary, _) => 0,
            (KeyKind::Unique, _) => 1,
            (KeyKind::UniqueIndex, None) => 2,
            (KeyKind::Index, None) => 3,
            (KeyKind::UniqueIndex, Some(_)) => 4,
            (KeyKind::Index, Some(_)) => 5,
            (KeyKind::Exclusion, _) => 6,
        };
        encoder.byte(kind | encoded_deferral(key.deferral));
        encoder.byte(u8::from(key.nulls_are_equal));
        if let Some(computed) = &key.computed {
            let text =
                |expression: &Option<Arc<Expr>>| expression.as_ref().map(ToString::to_string).unwrap_or_default();
            encode_texts(encoder, &computed.expressions.iter().map(text).collect::<Vec<_>>());
            encoder.text(&text(&computed.condition));
        }
    }
    encoder.number(references.len() as u64);
    for reference in references {
        encoder.text(&reference.name);
        encode_texts(encoder, &reference.columns);
        encoder.number(reference.table.0);
        encode_texts(encoder, &reference.referred);
        let deferral = encoded_deferral(reference.deferral);
        let full = if reference.is_full { MATCH_FULL } else { 0 };
        for (action, full) in [(reference.on_delete, 0), (reference.on_update, full)] {
            let action = match action {
                ReferenceAction::Refuse => 0,
                ReferenceAction::Cascade => 1,
                ReferenceAction::SetNull => 2,
                ReferenceAction::Restrict => 3,
                ReferenceAction::SetDefault => 4,
            };
            encoder.byte(action | full | deferral);
        }
    }
}

/// When a constraint is held against the rows, in the upper bits of a byte.
fn encoded_deferral(deferral: Deferral) -> u8 {
    let deferral = match deferral {
        Deferral::Never => 0,
        Deferral::Immediate => 1,
        Deferral::Deferred => 2,
    };
    deferral << DEFERRAL_SHIFT
}

fn encode_texts(encoder: &mut Encoder, texts: &[String]) {
    encoder.number(texts.len() as u64);
    texts.iter().for_each(|text| encoder.text(text));
}

fn encode_state(encoder: &mut Encoder, state: SequenceState) {
    encoder.signed(state.last);
    encoder.byte(u8::from(state.is_called));
}

fn encode_name(encoder: &mut Encoder, name: &RelationName) {
    encoder.text(&name.schema);
    encoder.text(&name.name);
}
