//! Records: what a log and an image consist of.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_catalog::distribution::Distribution;
use diligence_catalog::journal::Entry;
use diligence_catalog::rules::{
    Check, Deferral, Identity, IndexForm, Key, KeyKind, Materialized, Reference, ReferenceAction, TableRules,
};
use diligence_catalog::sequence::{SequenceOptions, SequenceState};
use diligence_catalog::{
    Authority, ColumnIds, KeyFiles, NativeTable, Object, Piece, Relation, RelationName, Trigger, kept_order,
};
use diligence_storage::DeletedRows;
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::{Seal, Segment};
use sqlparser::ast::Expr;

use crate::bytes::{Decoder, Encoder};

/// Where, in the byte of an action, it says when its reference is looked at.
const DEFERRAL_SHIFT: u32 = 4;
/// What is set in the byte of ON UPDATE of a reference that matches in full.
const MATCH_FULL: u8 = 8;

/// One record. Rows come before the record that uses them, under the number of their statement.
#[derive(Debug)]
pub enum Record {
    Rows {
        statement: u64,
        rows: RecordBatch,
    },
    /// Rows in a segment, as `Rows`.
    Stored {
        statement: u64,
        segment: u64,
        seal: Seal,
        cluster: u64,
        /// The places of rows that are gone.
        deleted: Vec<i64>,
        /// What they belong to.
        fragment: u16,
    },
    /// The files of an index, before the table that has it.
    Keys {
        statement: u64,
        /// Which of the table's keys.
        key: usize,
        /// They have the rows with smaller numbers.
        covered: i64,
        /// In the order in which they were written.
        files: Vec<(u64, Seal)>,
    },
    CreateSchema {
        id: u64,
        name: String,
    },
    DropSchema {
        name: String,
    },
    CreateTable(TableRecord),
    CreateView {
        id: u64,
        name: RelationName,
        definition: String,
        columns: SchemaRef,
    },
    CreateRoutine {
        id: u64,
        name: RelationName,
        definition: String,
    },
    CreateEnum {
        id: u64,
        name: RelationName,
        array: u64,
        labels: Vec<String>,
    },
    CreateComposite {
        id: u64,
        name: RelationName,
        array: u64,
        columns: SchemaRef,
    },
    CreateDomain {
        id: u64,
        name: RelationName,
        array: u64,
        /// One column of the base type, NULL where the domain takes it.
        base: SchemaRef,
        default: Option<String>,
        /// Names and conditions.
        checks: Vec<(String, String)>,
    },
    CreateCollation {
        id: u64,
        name: RelationName,
        /// The locale and whether it is deterministic; nothing where texts are compared by bytes.
        order: Vec<String>,
    },
    CreateFiles {
        id: u64,
        name: RelationName,
        definition: String,
    },
    CreateSequence {
        id: u64,
        name: RelationName,
        options: SequenceOptions,
        state: SequenceState,
    },
    Drop {
        name: RelationName,
    },
    Alter {
        table: u64,
        name: RelationName,
        renamed: RelationName,
        columns: SchemaRef,
        /// For each column the one that it was.
        places: Vec<Option<usize>>,
        rules: RulesRecord,
    },
    Count {
        sequence: u64,
        name: RelationName,
        state: SequenceState,
    },
    Change {
        table: u64,
        name: RelationName,
        deleted: Vec<i64>,
        replace: bool,
        statement: u64,
    },
    /// Who may do what, all of it, as the catalog writes it.
    Authority {
        text: String,
    },
    /// Several at once: a transaction's.
    Group(Vec<Record>),
    /// When what follows has happened: an entry of a log, or all that an image has. In microseconds since 1970.
    Moment {
        micros: i64,
    },
    /// The last record of an image.
    End {
        next_object: u64,
    },
}

/// A table, and the numbers of its rows.
#[derive(Debug)]
pub struct TableRecord {
    pub id: u64,
    pub name: RelationName,
    pub columns: SchemaRef,
    pub rules: RulesRecord,
    /// The ids of its columns; if they are not said, those of a new table.
    pub ids: Option<ColumnIds>,
    /// Of each piece.
    pub numbers: Vec<RowNumbers>,
    /// That each piece belongs to; all to the first one, if they are not said.
    pub fragments: Option<Vec<u16>>,
    pub next_number: i64,
    pub statement: u64,
}

const ROWS: u8 = 1;
const CREATE_SCHEMA: u8 = 2;
const DROP_SCHEMA: u8 = 3;
const CREATE_TABLE: u8 = 4;
const CREATE_VIEW: u8 = 5;
const CREATE_FILES: u8 = 6;
const DROP: u8 = 7;
const CHANGE: u8 = 8;
const END: u8 = 9;
const GROUP: u8 = 10;
const CREATE_SEQUENCE: u8 = 11;
const ALTER: u8 = 12;
const COUNT: u8 = 13;
const CREATE_ROUTINE: u8 = 14;
const STORED: u8 = 15;
const CREATE_TABLE_WITH_IDS: u8 = 16;
const CREATE_ENUM: u8 = 17;
const CREATE_TABLE_IN_FRAGMENTS: u8 = 18;
const STORED_IN_FRAGMENT: u8 = 19;
const CREATE_COMPOSITE: u8 = 20;
const CREATE_DOMAIN: u8 = 21;
const AUTHORITY: u8 = 22;
const CREATE_COLLATION: u8 = 23;
const KEYS: u8 = 24;
const MOMENT: u8 = 25;

/// What records had no place for before are comments under names that no column has: of a constraint that older rows
/// may break, with its name behind; of a materialized view with and without an answer, with its query as the comment;
/// and of a table's distribution.
const UNPROVEN: &str = "\u{1}unproven ";
const MATERIALIZED: &str = "\u{1}materialized";
const UNPOPULATED: &str = "\u{1}unpopulated";
const DISTRIBUTION: &str = "\u{1}distribution";
/// Of a table that is held against no reference.
const REFERENCES_OFF: &str = "\u{1}references off";
/// Of a trigger, with its name behind.
const TRIGGER: &str = "\u{1}trigger ";
/// Of the columns that ON DELETE changes, with the constraint's name behind.
const SET_COLUMNS: &str = "\u{1}set ";
/// Of what an index was declared with, with its name behind.
const INDEX: &str = "\u{1}index ";

/// Between names in a comment.
const BETWEEN: &str = "\u{12}";

/// A table's rules, whose expressions are texts.
#[derive(Debug, Default)]
pub struct RulesRecord {
    pub defaults: Vec<(String, String)>,
    pub generated: Vec<(String, String)>,
    pub identities: Vec<(String, Identity)>,
    pub checks: Vec<(String, String)>,
    /// With the expressions and the condition of those that have some; an empty text is none.
    pub keys: Vec<(Key, Option<(Vec<String>, String)>)>,
    pub references: Vec<Reference>,
    pub comments: Vec<(String, String)>,
    pub unproven: Vec<String>,
    pub references_off: bool,
    pub materialized: Option<Materialized>,
    pub distribution: Distribution,
    pub triggers: Vec<Trigger>,
}

/// Rows as a record.
pub fn encode_rows(statement: u64, rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    encoder.byte(ROWS);
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
        0 => encoder.byte(STORED),
        _ => {
            encoder.byte(STORED_IN_FRAGMENT);
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
    encoder.byte(KEYS);
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
            encoder.byte(DROP_SCHEMA);
            encoder.text(name);
        }
        Entry::Create(object) => return encode_object(object, statement),
        Entry::Authority(authority) => return Ok(encode_authority(authority)),
        Entry::Drop { name } => {
            encoder.byte(DROP);
            encode_name(&mut encoder, name);
        }
        Entry::Alter { table, name, alteration } => {
            encoder.byte(ALTER);
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
            encoder.byte(COUNT);
            encoder.number(sequence.0);
            encode_name(&mut encoder, name);
            encode_state(&mut encoder, *state);
        }
        Entry::Change { table, name, deleted, replace } => {
            encoder.byte(CHANGE);
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
    encoder.byte(GROUP);
    for record in records {
        encoder.bytes(&record);
    }
    encoder.0
}

/// A schema as a record.
pub fn encode_schema(id: u64, name: &str) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(CREATE_SCHEMA);
    encoder.number(id);
    encoder.text(name);
    encoder.0
}

/// Who may do what as a record.
pub fn encode_authority(authority: &Authority) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(AUTHORITY);
    encoder.text(&authority.text());
    encoder.0
}

/// The moment of what follows as a record.
pub fn encode_moment(micros: i64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(MOMENT);
    encoder.signed(micros);
    encoder.0
}

/// The moment in a record, in microseconds since 1970; `None` if it is another kind of record.
pub fn moment_in(bytes: &[u8]) -> Option<i64> {
    match bytes.split_first() {
        Some((&MOMENT, rest)) => Decoder(rest).signed().ok(),
        _ => None,
    }
}

/// Whether an image ends with a record.
pub fn is_end(bytes: &[u8]) -> bool {
    bytes.first() == Some(&END)
}

/// The segments and key files to which a record refers, by their numbers. Fails as [`decode`] does.
pub fn files_of(bytes: &[u8]) -> Result<Vec<u64>> {
    // Others are not decoded: they may have very many rows.
    if !matches!(bytes.first(), Some(&(STORED | STORED_IN_FRAGMENT | KEYS))) {
        return Ok(Vec::new());
    }
    Ok(match decode(bytes)? {
        Record::Stored { segment, .. } => vec![segment],
        Record::Keys { files, .. } => files.into_iter().map(|(number, _)| number).collect(),
        _ => Vec::new(),
    })
}

/// The last record of an image.
pub fn encode_end(next_object: u64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(END);
    encoder.number(next_object);
    encoder.0
}

/// A relation as a record; a table's rows are those of `statement`.
pub fn encode_object(object: &Object, statement: u64) -> Result<Vec<u8>> {
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
            head(&mut encoder, if is_divided { CREATE_TABLE_IN_FRAGMENTS } else { CREATE_TABLE_WITH_IDS });
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
            head(&mut encoder, CREATE_VIEW);
            encoder.text(&view.kept());
            encoder.schema(&view.schema)?;
        }
        Relation::Files(files) => {
            head(&mut encoder, CREATE_FILES);
            encoder.text(files.definition.as_deref().unwrap_or_default());
        }
        Relation::Routine(routine) => {
            head(&mut encoder, CREATE_ROUTINE);
            encoder.text(&routine.definition());
        }
        Relation::Enum(definition) => {
            head(&mut encoder, CREATE_ENUM);
            encoder.number(definition.array.0);
            encode_texts(&mut encoder, &definition.labels);
        }
        Relation::Composite(definition) => {
            head(&mut encoder, CREATE_COMPOSITE);
            encoder.number(definition.array.0);
            encoder.schema(&definition.columns)?;
        }
        Relation::Domain(definition) => {
            head(&mut encoder, CREATE_DOMAIN);
            encoder.number(definition.array.0);
            encoder.schema(&Arc::new(Schema::new(vec![definition.column()])))?;
            let default = definition.default.iter().map(ToString::to_string).collect::<Vec<_>>();
            encode_texts(&mut encoder, &default);
            let of_check = |check: &Check| [check.name.clone(), check.condition.to_string()];
            encode_texts(&mut encoder, &definition.checks.iter().flat_map(of_check).collect::<Vec<_>>());
        }
        Relation::Collation(order) => {
            head(&mut encoder, CREATE_COLLATION);
            encode_texts(&mut encoder, &kept_order(order));
        }
        Relation::Sequence(sequence) => {
            head(&mut encoder, CREATE_SEQUENCE);
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
                encoder.byte(1);
                encoder.numbers(numbers);
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
    let formed = keys.iter().filter_map(|key| Some((format!("{INDEX}{}", key.name), key.form.as_ref()?.encoded())));
    let partly = references.iter().filter(|reference| !reference.set_columns.is_empty());
    let set = partly.map(|reference| (format!("{SET_COLUMNS}{}", reference.name), reference.set_columns.join(BETWEEN)));
    let marks = marks.chain(view).chain(off).chain(divided).chain(called).chain(formed).chain(set).collect::<Vec<_>>();
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

/// What the upper bits of a byte say, and the lower ones.
fn decoded_deferral(byte: u8) -> Option<(u8, Deferral)> {
    let deferral = match byte >> DEFERRAL_SHIFT {
        0 => Deferral::Never,
        1 => Deferral::Immediate,
        2 => Deferral::Deferred,
        _ => return None,
    };
    Some((byte & ((1 << DEFERRAL_SHIFT) - 1), deferral))
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

/// The record in some bytes. Fails with kind `File` if there is none.
pub fn decode(bytes: &[u8]) -> Result<Record> {
    let mut decoder = Decoder(bytes);
    let record = match decoder.byte()? {
        ROWS => Record::Rows { statement: decoder.number()?, rows: decoder.rows()? },
        KEYS => {
            let (statement, key, covered) = (decoder.number()?, decoder.count()?, decoder.signed()?);
            let file = |decoder: &mut Decoder<'_>| {
                let number = decoder.number()?;
                Ok::<_, Error>((number, Seal { start: decoder.number()?, checksum: decoder.number()? as u32 }))
            };
            let files = (0..decoder.number()?).map(|_| file(&mut decoder)).collect::<Result<_>>()?;
            Record::Keys { statement, key, covered, files }
        }
        MOMENT => Record::Moment { micros: decoder.signed()? },
        CREATE_SCHEMA => Record::CreateSchema { id: decoder.number()?, name: decoder.text()? },
        DROP_SCHEMA => Record::DropSchema { name: decoder.text()? },
        AUTHORITY => Record::Authority { text: decoder.text()? },
        tag @ (STORED | STORED_IN_FRAGMENT) => {
            let fragment = if tag == STORED { 0 } else { fragment_of(decoder.number()?)? };
            Record::Stored {
                fragment,
                statement: decoder.number()?,
                segment: decoder.number()?,
                seal: Seal { start: decoder.number()?, checksum: decoder.number()? as u32 },
                cluster: decoder.number()?,
                deleted: decoder.numbers()?,
            }
        }
        CREATE_TABLE => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateTable(decode_table(&mut decoder, id, name, None)?)
        }
        tag @ (CREATE_TABLE_WITH_IDS | CREATE_TABLE_IN_FRAGMENTS) => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            let fragments = match tag {
                CREATE_TABLE_IN_FRAGMENTS => {
                    let fragments = decoder.numbers()?.into_iter();
                    Some(fragments.map(|fragment| fragment_of(fragment as u64)).collect::<Result<Vec<_>>>()?)
                }
                _ => None,
            };
            let known = |id: i64| u32::try_from(id).map_err(|_| Error::file("a column has no such id"));
            let ids = decoder.numbers()?.into_iter().map(known).collect::<Result<Vec<_>>>()?;
            let ids = ColumnIds { ids, next: decoder.number()? as u32 };
            let table = decode_table(&mut decoder, id, name, Some(ids))?;
            Record::CreateTable(TableRecord { fragments, ..table })
        }
        CREATE_VIEW => Record::CreateView {
            id: decoder.number()?,
            name: decode_name(&mut decoder)?,
            definition: decoder.text()?,
            columns: decoder.schema()?,
        },
        CREATE_FILES => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateFiles { id, name, definition: decoder.text()? }
        }
        CREATE_ROUTINE => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateRoutine { id, name, definition: decoder.text()? }
        }
        CREATE_ENUM => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateEnum { id, name, array: decoder.number()?, labels: decode_texts(&mut decoder)? }
        }
        CREATE_COMPOSITE => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateComposite { id, name, array: decoder.number()?, columns: decoder.schema()? }
        }
        CREATE_DOMAIN => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            let (array, base) = (decoder.number()?, decoder.schema()?);
            let default = decode_texts(&mut decoder)?.pop();
            let checks = decode_texts(&mut decoder)?;
            let checks = checks.chunks_exact(2).map(|check| (check[0].clone(), check[1].clone())).collect();
            Record::CreateDomain { id, name, array, base, default, checks }
        }
        CREATE_COLLATION => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateCollation { id, name, order: decode_texts(&mut decoder)? }
        }
        CREATE_SEQUENCE => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            let [start, increment, min, max] = [(); 4].map(|()| decoder.signed());
            let (cycles, bits) = (decoder.byte()? != 0, decoder.byte()?);
            let owner = match decoder.byte()? {
                0 => None,
                _ => Some((ObjectId(decoder.number()?), decoder.text()?)),
            };
            let options =
                SequenceOptions { start: start?, increment: increment?, min: min?, max: max?, cycles, bits, owner };
            Record::CreateSequence { id, name, options, state: decode_state(&mut decoder)? }
        }
        ALTER => {
            let (table, name, renamed) = (decoder.number()?, decode_name(&mut decoder)?, decode_name(&mut decoder)?);
            let columns = decoder.schema()?;
            let mut places = Vec::new();
            for _ in 0..decoder.count()? {
                places.push((decoder.number()? as usize).checked_sub(1));
            }
            Record::Alter { table, name, renamed, columns, places, rules: decode_rules(&mut decoder)? }
        }
        COUNT => Record::Count {
            sequence: decoder.number()?,
            name: decode_name(&mut decoder)?,
            state: decode_state(&mut decoder)?,
        },
        DROP => Record::Drop { name: decode_name(&mut decoder)? },
        CHANGE => Record::Change {
            table: decoder.number()?,
            name: decode_name(&mut decoder)?,
            deleted: decoder.numbers()?,
            replace: decoder.byte()? != 0,
            statement: decoder.number()?,
        },
        GROUP => {
            let mut records = Vec::new();
            while !decoder.0.is_empty() {
                records.push(decode(decoder.bytes()?)?);
            }
            Record::Group(records)
        }
        END => Record::End { next_object: decoder.number()? },
        other => return Err(Error::file(format!("a record of kind {other} is not known to this version"))),
    };
    decoder.end()?;
    Ok(record)
}

fn decode_table(decoder: &mut Decoder<'_>, id: u64, name: RelationName, ids: Option<ColumnIds>) -> Result<TableRecord> {
    let columns = decoder.schema()?;
    let rules = decode_rules(decoder)?;
    let mut numbers = Vec::new();
    for _ in 0..decoder.count()? {
        numbers.push(match decoder.byte()? {
            0 => RowNumbers::From(decoder.signed()?),
            _ => RowNumbers::of(decoder.numbers()?),
        });
    }
    let (next_number, statement) = (decoder.signed()?, decoder.number()?);
    Ok(TableRecord { id, name, columns, rules, ids, numbers, fragments: None, next_number, statement })
}

fn fragment_of(number: u64) -> Result<u16> {
    u16::try_from(number).map_err(|_| Error::file(format!("there is no fragment {number}")))
}

fn decode_rules(decoder: &mut Decoder<'_>) -> Result<RulesRecord> {
    let mut pairs = || {
        let count = decoder.count()?;
        (0..count).map(|_| Ok((decoder.text()?, decoder.text()?))).collect::<Result<Vec<_>>>()
    };
    let (defaults, generated, checks, comments) = (pairs()?, pairs()?, pairs()?, pairs()?);
    let mut rules = RulesRecord { defaults, generated, checks, ..RulesRecord::default() };
    let (mut forms, mut set) = (HashMap::new(), HashMap::new());
    for (name, text) in comments {
        match name.as_str() {
            MATERIALIZED => rules.materialized = Some(Materialized { query: text, is_populated: true }),
            UNPOPULATED => rules.materialized = Some(Materialized { query: text, is_populated: false }),
            REFERENCES_OFF => rules.references_off = true,
            DISTRIBUTION => rules.distribution = Distribution::decoded(&text)?,
            other if other.starts_with(TRIGGER) => rules.triggers.push(Trigger::decoded(&text)?),
            other if other.starts_with(SET_COLUMNS) => {
                let columns = text.split(BETWEEN).map(str::to_owned).collect::<Vec<_>>();
                set.insert(other[SET_COLUMNS.len()..].to_owned(), columns);
            }
            other => match (other.strip_prefix(UNPROVEN), other.strip_prefix(INDEX)) {
                (Some(constraint), _) => rules.unproven.push(constraint.to_owned()),
                (_, Some(index)) => drop(forms.insert(index.to_owned(), IndexForm::decoded(&text)?)),
                _ => rules.comments.push((name, text)),
            },
        }
    }
    for _ in 0..decoder.count()? {
        let column = decoder.text()?;
        rules.identities.push((column, if decoder.byte()? == 0 { Identity::ByDefault } else { Identity::Always }));
    }
    for _ in 0..decoder.count()? {
        let (name, columns) = (decoder.text()?, decode_texts(decoder)?);
        let byte = decoder.byte()?;
        let unknown = || Error::file(format!("a key of kind {byte} is not known to this version"));
        let (byte, deferral) = decoded_deferral(byte).ok_or_else(unknown)?;
        let kind = match byte {
            0 => KeyKind::Primary,
            1 => KeyKind::Unique,
            2 | 4 => KeyKind::UniqueIndex,
            3 | 5 => KeyKind::Index,
            6 => KeyKind::Exclusion,
            _ => return Err(unknown()),
        };
        let nulls_are_equal = decoder.byte()? != 0;
        let computed = match byte {
            4..=6 => Some((decode_texts(decoder)?, decoder.text()?)),
            _ => None,
        };
        let form = forms.remove(&name);
        let key = Key { deferral, form, ..Key::of_columns(name, columns, kind, nulls_are_equal) };
        rules.keys.push((key, computed));
    }
    for _ in 0..decoder.count()? {
        let (name, columns, table) = (decoder.text()?, decode_texts(decoder)?, ObjectId(decoder.number()?));
        let referred = decode_texts(decoder)?;
        let ((on_delete, deferral, _), (on_update, _, is_full)) = (decode_action(decoder)?, decode_action(decoder)?);
        let set_columns = set.remove(&name).unwrap_or_default();
        let reference =
            Reference { name, columns, table, referred, on_delete, on_update, deferral, set_columns, is_full };
        rules.references.push(reference);
    }
    Ok(rules)
}

/// An action, when its reference is held against the rows, and whether that matches in full.
fn decode_action(decoder: &mut Decoder<'_>) -> Result<(ReferenceAction, Deferral, bool)> {
    let byte = decoder.byte()?;
    let unknown = || Error::file(format!("an action of kind {byte} is not known to this version"));
    let (action, deferral) = decoded_deferral(byte).ok_or_else(unknown)?;
    let is_full = action & MATCH_FULL != 0;
    let action = match action & !MATCH_FULL {
        0 => ReferenceAction::Refuse,
        1 => ReferenceAction::Cascade,
        2 => ReferenceAction::SetNull,
        3 => ReferenceAction::Restrict,
        4 => ReferenceAction::SetDefault,
        _ => return Err(unknown()),
    };
    Ok((action, deferral, is_full))
}

fn decode_texts(decoder: &mut Decoder<'_>) -> Result<Vec<String>> {
    let count = decoder.count()?;
    (0..count).map(|_| decoder.text()).collect()
}

fn decode_state(decoder: &mut Decoder<'_>) -> Result<SequenceState> {
    Ok(SequenceState { last: decoder.signed()?, is_called: decoder.byte()? != 0 })
}

fn decode_name(decoder: &mut Decoder<'_>) -> Result<RelationName> {
    let (schema, name) = (decoder.text()?, decoder.text()?);
    Ok(RelationName::new(schema, name))
}
