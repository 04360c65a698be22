//! What a join is, as all its packets see it; and the same join in a mirror.
//!
//! Role reversal (Graefe, *Query Evaluation Techniques for Large Databases*, 1993, section 5.2): of a spilled pair, the
//! table is made of the probe side's rows if they are fewer bytes. Then the same join runs in a mirror: its left side
//! are the probe rows as they came in, its right side are the build rows as they are in temp space.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::{JoinSide, JoinType};
use diligence_base::{Error, Result};

use super::output::PairJoin;
use super::table::held::ProbeSeen;
use super::table::ranges::RangeSpec;
use super::table::rows::BuildRows;
use super::table::spec::{StoredSource, TableSpec, Wanted};
use crate::batch::Batch;
use crate::expressions::Expr;
use crate::operators::key_words::{KeyColumn, KeyKind};
use crate::plan;
use crate::sync::atomic::Ordering;

/// A join.
pub(super) struct Config {
    pub table: Arc<TableSpec>,
    /// One for each key of the table.
    probe_keys: Vec<Expr>,
    pub pairs: Arc<PairJoin>,
    /// What bounds the held side, if there are no keys.
    pub ranges: Option<Arc<RangeSpec>>,
    /// The join with its sides exchanged, for pairs in temp space.
    pub mirrored: Option<Arc<Config>>,
    /// Of such a join: the columns of spilled build rows that have its keys.
    probes_spilled: Option<Vec<usize>>,
}

impl Config {
    /// A join with these keys of its build side and its probe side. Fails if a key's type has no equality.
    pub fn new(
        name: &'static str,
        keys: Vec<(Expr, Expr)>,
        pairs: PairJoin,
        wanted: Wanted,
        null_equal: bool,
        null_aware: bool,
    ) -> Result<Self> {
        fn values(logical: &DataType) -> &DataType {
            match logical {
                DataType::Dictionary(_, values) => values,
                other => other,
            }
        }
        let differ = |(build, probe): &&(Expr, Expr)| values(build.data_type()) != values(probe.data_type());
        if let Some((build, probe)) = keys.iter().find(differ) {
            let types = format!("{} and {}", build.data_type(), probe.data_type());
            return Err(Error::bug(format!("a join's keys have different types: {types}")));
        }
        let (build_keys, probe_keys) = keys.into_iter().unzip();
        let table = TableSpec::new(name, pairs.join_type, build_keys, wanted, null_equal, null_aware)?;
        let (table, pairs) = (Arc::new(table), Arc::new(pairs));
        Ok(Self { table, probe_keys, pairs, ranges: None, mirrored: None, probes_spilled: None })
    }

    /// The same join, whose condition bounds the held side.
    pub fn with_ranges(self, ranges: Option<RangeSpec>) -> Self {
        Self { ranges: ranges.map(Arc::new), ..self }
    }

    /// The same join with its mirror, for pairs in temp space.
    pub fn with_mirror(self, join: &plan::HashJoin, output_schema: &SchemaRef) -> Result<Self> {
        let mirrored = self.mirrored(join, output_schema)?.map(Arc::new);
        Ok(Self { mirrored, ..self })
    }

    /// Whether rows can be told apart by their keys. Not without keys, nor in a null-aware join with a condition: there
    /// a NULL meets all rows.
    pub fn can_partition(&self) -> bool {
        !(self.table.keys.is_empty() || self.table.null_aware && self.pairs.has_residual())
    }

    /// Whether nothing can come out any more because a key of the probe side of `NOT IN` was NULL.
    pub fn is_void(&self, seen: &ProbeSeen) -> bool {
        self.table.null_aware && !self.pairs.has_residual() && seen.null.load(Ordering::Relaxed)
    }

    /// The join in a mirror; `None` if it is not the same there, as with `NOT IN`.
    fn mirrored(&self, join: &plan::HashJoin, output_schema: &SchemaRef) -> Result<Option<Self>> {
        if self.table.null_aware {
            return Ok(None);
        }
        let kept = |input: usize| {
            let position = self.table.stored.iter().position(|(source, _)| *source == StoredSource::Input(input));
            position.ok_or_else(|| Error::bug("a join reads a column that it does not keep"))
        };
        let spilled = self.table.spilled_schema();
        let (lefts, rights) = (join.left.schema.fields().len(), join.right.schema.fields().len());
        let both = matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
        let is_left = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        let (columns, marks) = match (both, is_left) {
            (true, _) => (lefts + rights, 0),
            (false, true) => (lefts, usize::from(join.join_type == JoinType::LeftMark)),
            (false, false) => (rights, usize::from(join.join_type == JoinType::RightMark)),
        };
        let all: Vec<usize> = (0..columns + marks).collect();
        let projection = join.projection.as_deref().unwrap_or(&all).iter().map(|&position| match position {
            left if both && left < lefts => Ok(rights + kept(left)?),
            right if both => Ok(right - lefts),
            left if is_left && left < lefts => kept(left),
            _ if is_left => Ok(spilled.fields().len()),
            right => Ok(right),
        });
        let projection = projection.collect::<Result<Vec<_>>>()?;
        let filter = join.filter.as_ref().map(|filter| {
            let columns = filter.columns.iter().map(|&(side, index)| match side {
                JoinSide::Left => Ok((JoinSide::Right, kept(index)?)),
                _ => Ok((JoinSide::Left, index)),
            });
            Ok::<_, Error>(plan::PairFilter { columns: columns.collect::<Result<_>>()?, ..filter.clone() })
        });
        let mut wanted = Wanted::default();
        let pairs = PairJoin::new(
            join.join_type.swap(),
            &join.right.schema,
            &spilled,
            filter.transpose()?.as_ref(),
            Some(&projection),
            output_schema,
            &mut wanted,
        )?;
        let keys = join.on.iter().map(|(build, probe)| (probe.clone(), build.clone())).collect();
        let mut word_columns = self.table.stored.len()..;
        let key_columns = self.table.key_columns.iter().map(|kept| kept.or_else(|| word_columns.next()).unwrap_or(0));
        let key_columns = key_columns.collect();
        let mirrored = Self::new(self.table.name, keys, pairs, wanted, self.table.null_equal, false)?;
        Ok(Some(Self { probes_spilled: Some(key_columns), ..mirrored }))
    }

    /// The keys of a batch of the probe side.
    pub fn probe_keys(&self, batch: &Batch) -> Result<Vec<KeyColumn>> {
        (0..self.probe_keys.len()).map(|key| self.probe_key(key, batch, vec![])).collect()
    }

    /// The hashes of a batch of the probe side, with its keys.
    pub fn probe_hashes(&self, batch: &Batch) -> Result<(Vec<KeyColumn>, Vec<u64>)> {
        let keys = self.probe_keys(batch)?;
        let hashes = self.table.hashes(&keys, batch.rows());
        Ok((keys, hashes))
    }

    /// The values of the only key of a null-aware join.
    pub fn only_probe_key(&self, batch: &Batch) -> Result<ArrayRef> {
        self.probe_keys[0].evaluate(batch)?.flat()
    }

    /// One key of a batch of the probe side. The vector's memory is used again.
    pub fn probe_key(&self, index: usize, batch: &Batch, words: Vec<u64>) -> Result<KeyColumn> {
        let kind = &self.table.keys[index].kind;
        match &self.probes_spilled {
            None => kind.column_into(&self.probe_keys[index].evaluate(batch)?.flat()?, words),
            Some(columns) if kind.is_word() => kind.column_into(&batch.flat(columns[index])?, words),
            Some(columns) => KeyKind::Bytes.column(&batch.flat(columns[index])?),
        }
    }

    /// The rows of a batch in temp space that the table is made of; `None` if none may come out.
    pub fn table_rows(&self, batch: &Batch) -> Result<Option<BuildRows>> {
        match &self.probes_spilled {
            None => self.table.unspilled(batch).map(Some),
            Some(_) => self.table.build_rows(batch.clone()),
        }
    }
}
