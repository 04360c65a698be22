//! Role reversal (Graefe, *Query Evaluation Techniques for Large Databases*, 1993, section 5.2): of a spilled pair, the
//! table is made of the probe side's rows if they are fewer bytes. Then the same join runs in a mirror: its left side
//! are the probe rows as they came in, its right side are the build rows as they are in temp space.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType};
use diligence_base::{Error, Result};

use super::emit::{PairJoin, StoredSource, Wanted, marks_held};
use super::keys::KeyColumn;
use super::rows::BuildRows;
use super::{Config, Key, KeyKind};
use crate::batch::Batch;
use crate::plan;

impl Config {
    /// The join in a mirror; `None` if it is not the same there, as with `NOT IN`.
    pub fn mirrored(&self, join: &plan::HashJoin, output_schema: &SchemaRef) -> Result<Option<Self>> {
        if self.null_aware {
            return Ok(None);
        }
        let kept = |input: usize| {
            let position = self.stored.iter().position(|(source, _)| *source == StoredSource::Input(input));
            position.ok_or_else(|| Error::bug("a join reads a column that it does not keep"))
        };
        let spilled = self.spilled_schema();
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
        let keys = join.on.iter().map(|(build, probe)| Key::new(probe, build)).collect::<Result<Vec<_>>>()?;
        let mut word_columns = self.stored.len()..;
        let key_columns = self.key_columns.iter().map(|kept| kept.or_else(|| word_columns.next()).unwrap_or(0));
        let key_columns = key_columns.collect();
        let mirrored = Self::new(self.name, keys, pairs, wanted, self.null_equal, false);
        Ok(Some(Self { probes_spilled: Some(key_columns), ..mirrored }))
    }

    /// The columns of a [spilled batch](super::rows).
    fn spilled_schema(&self) -> Schema {
        let stored = self.stored.iter().map(|(_, logical)| logical.clone());
        let words = self.keys.iter().filter(|key| key.kind.is_word()).map(|_| DataType::UInt64);
        let marks = marks_held(self.pairs.join_type).then_some(DataType::Boolean);
        let types = stored.chain(words).chain(marks);
        Schema::new(
            types.enumerate().map(|(i, logical)| Field::new(format!("c{i}"), logical, true)).collect::<Vec<_>>(),
        )
    }

    /// One key of a batch of the probe side. The vector's memory is used again.
    pub fn probe_key(&self, index: usize, batch: &Batch, words: Vec<u64>) -> Result<KeyColumn> {
        let key = &self.keys[index];
        match &self.probes_spilled {
            None => key.kind.column_into(&key.probe.evaluate(batch)?.flat()?, words),
            Some(columns) if key.kind.is_word() => key.kind.column_into(&batch.flat(columns[index])?, words),
            Some(columns) => KeyKind::Bytes.column(&batch.flat(columns[index])?),
        }
    }

    /// The rows of a batch in temp space that the table is made of; `None` if none may come out.
    pub fn table_rows(&self, batch: &Batch) -> Result<Option<BuildRows>> {
        match &self.probes_spilled {
            None => self.unspilled(batch).map(Some),
            Some(_) => self.build_rows(batch.clone()),
        }
    }
}
