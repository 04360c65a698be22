//! Records: what a log and an image consist of, and how they are written as bytes: a tag, and what it says behind it.

mod decode;
mod encode;
mod marks;
mod tags;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_catalog::distribution::Distribution;
use diligence_catalog::rules::{Identity, Key, Materialized, Reference};
use diligence_catalog::sequence::{SequenceOptions, SequenceState};
use diligence_catalog::{ColumnIds, ExtendedStatistics, RelationName, Trigger};
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::Seal;

use crate::bytes::Decoder;
pub use decode::decode;
pub use encode::{
    encode_authority, encode_end, encode_entry, encode_group, encode_keys, encode_moment, encode_relation, encode_rows,
    encode_schema, encode_stored,
};

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
    pub statistics: Vec<ExtendedStatistics>,
}

/// The moment in a record, in microseconds since 1970; `None` if it is another kind of record.
pub fn moment_in(bytes: &[u8]) -> Option<i64> {
    match bytes.split_first() {
        Some((&tags::MOMENT, rest)) => Decoder(rest).signed().ok(),
        _ => None,
    }
}

/// Whether an image ends with a record.
pub fn is_end(bytes: &[u8]) -> bool {
    bytes.first() == Some(&tags::END)
}

/// The segments and key files to which a record refers, by their numbers. Fails as [`decode`] does.
pub fn files_of(bytes: &[u8]) -> Result<Vec<u64>> {
    // Others are not decoded: they may have very many rows.
    if !matches!(bytes.first(), Some(&(tags::STORED | tags::STORED_IN_FRAGMENT | tags::KEYS))) {
        return Ok(Vec::new());
    }
    Ok(match decode(bytes)? {
        Record::Stored { segment, .. } => vec![segment],
        Record::Keys { files, .. } => files.into_iter().map(|(number, _)| number).collect(),
        _ => Vec::new(),
    })
}
