//! Records: what a log and an image consist of.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_catalog::journal::Entry;
use diligence_catalog::{MemoryRelation, Object, Relation, RelationName};
use diligence_storage::memory::RowNumbers;

use crate::bytes::{Decoder, Encoder};

/// One record. Rows come before the record that uses them, under the number of their statement.
#[derive(Debug)]
pub enum Record {
    Rows {
        statement: u64,
        rows: RecordBatch,
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
    CreateFiles {
        id: u64,
        name: RelationName,
        definition: String,
    },
    Drop {
        name: RelationName,
    },
    Change {
        table: u64,
        name: RelationName,
        deleted: Vec<i64>,
        replace: bool,
        statement: u64,
    },
    /// Several at once: a transaction's.
    Group(Vec<Record>),
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
    /// Expressions for columns that an INSERT leaves out, by the columns' names.
    pub defaults: Vec<(String, String)>,
    /// Of each batch.
    pub numbers: Vec<RowNumbers>,
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

/// Rows as a record.
pub fn encode_rows(statement: u64, rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    encoder.byte(ROWS);
    encoder.number(statement);
    encoder.rows(rows)?;
    Ok(encoder.0)
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
        Entry::Drop { name } => {
            encoder.byte(DROP);
            encode_name(&mut encoder, name);
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

/// The last record of an image.
pub fn encode_end(next_object: u64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(END);
    encoder.number(next_object);
    encoder.0
}

/// A relation as a record; a table's rows are those of `statement`.
pub fn encode_object(object: &Object, statement: u64) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    let head = |encoder: &mut Encoder, tag| {
        encoder.byte(tag);
        encoder.number(object.id.0);
        encode_name(encoder, &object.name);
    };
    match &object.relation {
        Relation::Memory(table) => {
            head(&mut encoder, CREATE_TABLE);
            encode_table(&mut encoder, table)?;
            encoder.number(statement);
        }
        Relation::View(view) => {
            head(&mut encoder, CREATE_VIEW);
            encoder.text(&view.definition());
            encoder.schema(&view.schema)?;
        }
        Relation::Files(files) => {
            head(&mut encoder, CREATE_FILES);
            encoder.text(files.definition.as_deref().unwrap_or_default());
        }
        Relation::Table(_) => return Err(Error::bug("a program's table cannot be written down")),
    }
    Ok(encoder.0)
}

fn encode_table(encoder: &mut Encoder, table: &Arc<MemoryRelation>) -> Result<()> {
    encoder.schema(table.schema())?;
    let mut defaults = table.column_defaults().iter().collect::<Vec<_>>();
    defaults.sort_by_key(|(column, _)| *column);
    encoder.number(defaults.len() as u64);
    for (column, default) in defaults {
        encoder.text(column);
        encoder.text(&default.to_string());
    }
    encoder.number(table.numbers().len() as u64);
    for numbers in table.numbers() {
        match numbers {
            RowNumbers::From(first) => {
                encoder.byte(0);
                encoder.signed(*first);
            }
            RowNumbers::Listed(listed) => {
                encoder.byte(1);
                encoder.numbers(listed);
            }
        }
    }
    encoder.signed(table.next_number());
    Ok(())
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
        CREATE_SCHEMA => Record::CreateSchema { id: decoder.number()?, name: decoder.text()? },
        DROP_SCHEMA => Record::DropSchema { name: decoder.text()? },
        CREATE_TABLE => Record::CreateTable(decode_table(&mut decoder)?),
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

fn decode_table(decoder: &mut Decoder<'_>) -> Result<TableRecord> {
    let (id, name, columns) = (decoder.number()?, decode_name(decoder)?, decoder.schema()?);
    let mut defaults = Vec::new();
    for _ in 0..decoder.count()? {
        defaults.push((decoder.text()?, decoder.text()?));
    }
    let mut numbers = Vec::new();
    for _ in 0..decoder.count()? {
        numbers.push(match decoder.byte()? {
            0 => RowNumbers::From(decoder.signed()?),
            _ => RowNumbers::Listed(decoder.numbers()?.into()),
        });
    }
    let (next_number, statement) = (decoder.signed()?, decoder.number()?);
    Ok(TableRecord { id, name, columns, defaults, numbers, next_number, statement })
}

fn decode_name(decoder: &mut Decoder<'_>) -> Result<RelationName> {
    let (schema, name) = (decoder.text()?, decoder.text()?);
    Ok(RelationName::new(schema, name))
}
