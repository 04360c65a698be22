//! Records from their bytes.

use std::collections::HashMap;

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_catalog::distribution::Distribution;
use diligence_catalog::rules::{Deferral, Identity, IndexForm, Key, KeyKind, Materialized, Reference, ReferenceAction};
use diligence_catalog::sequence::{SequenceOptions, SequenceState};
use diligence_catalog::{ColumnIds, ExtendedStatistics, RelationName, Trigger};
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::Seal;

use super::marks::{
    BETWEEN, DISTRIBUTION, INDEX, MATERIALIZED, REFERENCES_OFF, SET_COLUMNS, STATISTICS, TRIGGER, UNPOPULATED, UNPROVEN,
};
use super::{DEFERRAL_SHIFT, MATCH_FULL, Record, RulesRecord, TableRecord, tags};
use crate::bytes::Decoder;

/// The record in some bytes. Fails with kind `File` if there is none.
pub fn decode(bytes: &[u8]) -> Result<Record> {
    let mut decoder = Decoder(bytes);
    let record = match decoder.byte()? {
        tags::ROWS => Record::Rows { statement: decoder.number()?, rows: decoder.rows()? },
        tags::KEYS => {
            let (statement, key, covered) = (decoder.number()?, decoder.count()?, decoder.signed()?);
            let file = |decoder: &mut Decoder<'_>| {
                let number = decoder.number()?;
                Ok::<_, Error>((number, Seal { start: decoder.number()?, checksum: decoder.number()? as u32 }))
            };
            let files = (0..decoder.number()?).map(|_| file(&mut decoder)).collect::<Result<_>>()?;
            Record::Keys { statement, key, covered, files }
        }
        tags::MOMENT => Record::Moment { micros: decoder.signed()? },
        tags::CREATE_SCHEMA => Record::CreateSchema { id: decoder.number()?, name: decoder.text()? },
        tags::DROP_SCHEMA => Record::DropSchema { name: decoder.text()? },
        tags::AUTHORITY => Record::Authority { text: decoder.text()? },
        tag @ (tags::STORED | tags::STORED_IN_FRAGMENT) => {
            let fragment = if tag == tags::STORED { 0 } else { fragment_of(decoder.number()?)? };
            Record::Stored {
                fragment,
                statement: decoder.number()?,
                segment: decoder.number()?,
                seal: Seal { start: decoder.number()?, checksum: decoder.number()? as u32 },
                cluster: decoder.number()?,
                deleted: decoder.numbers()?,
            }
        }
        tags::CREATE_TABLE => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            Record::CreateTable(decode_table(&mut decoder, id, name, None)?)
        }
        tag @ (tags::CREATE_TABLE_WITH_IDS | tags::CREATE_TABLE_IN_FRAGMENTS) => {
            let (id, name) = (decoder.number()?, decode_name(&mut decoder)?);
            let fragments = match tag {
                tags::CREATE_TABLE_IN_FRAGMENTS => {
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
        tag @ (tags::CREATE_VIEW
        | tags::CREATE_FILES
        | tags::CREATE_ROUTINE
        | tags::CREATE_ENUM
        | tags::CREATE_COMPOSITE
        | tags::CREATE_DOMAIN
        | tags::CREATE_COLLATION
        | tags::CREATE_SEQUENCE) => decode_object(&mut decoder, tag)?,
        tags::ALTER => {
            let (table, name, renamed) = (decoder.number()?, decode_name(&mut decoder)?, decode_name(&mut decoder)?);
            let columns = decoder.schema()?;
            let mut places = Vec::new();
            for _ in 0..decoder.count()? {
                places.push((decoder.number()? as usize).checked_sub(1));
            }
            Record::Alter { table, name, renamed, columns, places, rules: decode_rules(&mut decoder)? }
        }
        tags::COUNT => Record::Count {
            sequence: decoder.number()?,
            name: decode_name(&mut decoder)?,
            state: decode_state(&mut decoder)?,
        },
        tags::DROP => Record::Drop { name: decode_name(&mut decoder)? },
        tags::CHANGE => Record::Change {
            table: decoder.number()?,
            name: decode_name(&mut decoder)?,
            deleted: decoder.numbers()?,
            replace: decoder.byte()? != 0,
            statement: decoder.number()?,
        },
        tags::GROUP => {
            let mut records = Vec::new();
            while !decoder.0.is_empty() {
                records.push(decode(decoder.bytes()?)?);
            }
            Record::Group(records)
        }
        tags::END => Record::End { next_object: decoder.number()? },
        other => return Err(Error::file(format!("a record of kind {other} is not known to this version"))),
    };
    decoder.end()?;
    Ok(record)
}

/// A record that makes an object other than a table.
fn decode_object(decoder: &mut Decoder<'_>, tag: u8) -> Result<Record> {
    let (id, name) = (decoder.number()?, decode_name(decoder)?);
    Ok(match tag {
        tags::CREATE_VIEW => Record::CreateView { id, name, definition: decoder.text()?, columns: decoder.schema()? },
        tags::CREATE_FILES => Record::CreateFiles { id, name, definition: decoder.text()? },
        tags::CREATE_ROUTINE => Record::CreateRoutine { id, name, definition: decoder.text()? },
        tags::CREATE_ENUM => Record::CreateEnum { id, name, array: decoder.number()?, labels: decode_texts(decoder)? },
        tags::CREATE_COMPOSITE => {
            Record::CreateComposite { id, name, array: decoder.number()?, columns: decoder.schema()? }
        }
        tags::CREATE_DOMAIN => {
            let (array, base) = (decoder.number()?, decoder.schema()?);
            let default = decode_texts(decoder)?.pop();
            let checks = decode_texts(decoder)?;
            let checks = checks.chunks_exact(2).map(|check| (check[0].clone(), check[1].clone())).collect();
            Record::CreateDomain { id, name, array, base, default, checks }
        }
        tags::CREATE_COLLATION => Record::CreateCollation { id, name, order: decode_texts(decoder)? },
        tags::CREATE_SEQUENCE => {
            let [start, increment, min, max] = [(); 4].map(|()| decoder.signed());
            let (cycles, bits) = (decoder.byte()? != 0, decoder.byte()?);
            let owner = match decoder.byte()? {
                0 => None,
                _ => Some((ObjectId(decoder.number()?), decoder.text()?)),
            };
            let options =
                SequenceOptions { start: start?, increment: increment?, min: min?, max: max?, cycles, bits, owner };
            Record::CreateSequence { id, name, options, state: decode_state(decoder)? }
        }
        other => return Err(Error::bug(format!("a record of kind {other} makes no object"))),
    })
}

fn decode_table(decoder: &mut Decoder<'_>, id: u64, name: RelationName, ids: Option<ColumnIds>) -> Result<TableRecord> {
    let columns = decoder.schema()?;
    let rules = decode_rules(decoder)?;
    let mut numbers = Vec::new();
    for _ in 0..decoder.count()? {
        numbers.push(match decoder.byte()? {
            0 => RowNumbers::From(decoder.signed()?),
            // Before they were packed.
            1 => RowNumbers::of(decoder.numbers()?),
            _ => RowNumbers::of(decoder.differences()?),
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
            other if other.starts_with(STATISTICS) => rules.statistics.push(ExtendedStatistics::decoded(&text)?),
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
