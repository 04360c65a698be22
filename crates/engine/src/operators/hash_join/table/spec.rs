//! What a join's table is made of.

use arrow::datatypes::DataType;
use datafusion_common::JoinType;
use diligence_base::Result;

use crate::expressions::Expr;
use crate::operators::key_words::{KeyColumn, KeyKind, hash_rows};

/// What the rows of a build side become.
pub(in super::super) struct TableSpec {
    /// As what it reserves memory.
    pub name: &'static str,
    /// None in a nested-loop join.
    pub keys: Vec<TableKey>,
    /// Where the byte strings of each key are kept, for those that have no words.
    pub key_columns: Vec<Option<usize>>,
    pub null_equal: bool,
    pub null_aware: bool,
    /// Whether the join type asks which rows have found a partner.
    pub marks_rows: bool,
    /// Whether rows that cannot match may come out.
    pub keeps_unmatchable: bool,
    pub stored: Vec<(StoredSource, DataType)>,
}

/// A key of a build side.
pub(in super::super) struct TableKey {
    pub kind: KeyKind,
    pub expression: Expr,
}

/// Which columns of the held side are kept, each once.
#[derive(Default)]
pub(in super::super) struct Wanted {
    pub columns: Vec<(StoredSource, DataType)>,
}

/// Where a kept column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum StoredSource {
    /// A column of the input.
    Input(usize),
    /// A key, as byte strings.
    Key(usize),
}

impl Wanted {
    /// The position at which a column is kept.
    pub fn keep(&mut self, source: StoredSource, logical: &DataType) -> usize {
        match self.columns.iter().position(|(other, _)| *other == source) {
            Some(position) => position,
            None => {
                self.columns.push((source, logical.clone()));
                self.columns.len() - 1
            }
        }
    }
}

impl TableSpec {
    /// A table for rows of a join; `wanted` are the columns that it asks for.
    pub fn new(
        name: &'static str,
        join_type: JoinType,
        keys: Vec<Expr>,
        mut wanted: Wanted,
        null_equal: bool,
        null_aware: bool,
    ) -> Result<Self> {
        let key = |expression: Expr| Ok(TableKey { kind: KeyKind::of(expression.data_type())?, expression });
        let keys = keys.into_iter().map(key).collect::<Result<Vec<_>>>()?;
        // Where hashes are compared, byte strings must be at hand to compare them in turn.
        let key_columns = keys.iter().enumerate().map(|(index, key)| match key.kind {
            KeyKind::Word => None,
            KeyKind::Bytes => Some(match (key.expression.as_column(), key.expression.data_type()) {
                (Some(column), logical @ (DataType::Utf8View | DataType::BinaryView)) => {
                    wanted.keep(StoredSource::Input(column), logical)
                }
                _ => wanted.keep(StoredSource::Key(index), &DataType::BinaryView),
            }),
            KeyKind::Rows(..) => Some(wanted.keep(StoredSource::Key(index), &DataType::BinaryView)),
        });
        let key_columns = key_columns.collect();
        let marks_rows = marks_held(join_type);
        let keeps_unmatchable = marks_rows && join_type != JoinType::LeftSemi;
        let stored = wanted.columns;
        Ok(Self { name, keys, key_columns, null_equal, null_aware, marks_rows, keeps_unmatchable, stored })
    }

    /// The hashes of so many rows with these keys. Without keys all rows are alike.
    pub fn hashes(&self, keys: &[KeyColumn], rows: usize) -> Vec<u64> {
        let mut hashes = Vec::with_capacity(rows);
        hash_rows(keys, &mut hashes);
        hashes.resize(rows, 0);
        hashes
    }
}

/// Whether a join type asks which held rows have found a partner.
pub(in super::super) fn marks_held(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Left | Full | LeftSemi | LeftAnti | LeftMark)
}
