//! What comes out of a join: the shape of its rows, and what becomes of pairs of rows for each join type.
//!
//! Output columns are picks of the probe batch and of the held arrays; values do not move here.
//!
//! Invariant: for each probe batch, rows come out in the order of the probe rows (DataFusion's plans rely on it for
//! inner and right joins).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType};
use diligence_base::{Error, Result};

use super::table::held::{Bits, Held};
use super::table::ranges::RangeSpec;
use super::table::spec::{StoredSource, Wanted};
use crate::batch::{Batch, Column, Picks, Selection};
use crate::expressions::Expr;
use crate::flow::Output;
use crate::plan::PairFilter;

/// Whether nothing can come out when the held side has no row that can find a partner. Those of the held side that come
/// out nevertheless are not the probe's business.
pub(super) fn needs_held_rows(join_type: JoinType) -> bool {
    use JoinType::*;
    !matches!(join_type, Right | Full | RightAnti | RightMark)
}

/// Where the columns of a join's output come from.
pub(super) struct Shape {
    columns: Vec<OutputColumn>,
    /// Columns of the probe batch that come out.
    probe: Vec<usize>,
    schema: SchemaRef,
}

enum OutputColumn {
    /// A kept column, by position.
    Held(usize),
    /// A column of the probe batch, by position in [`Shape::probe`].
    Probe(usize),
    /// Whether there was a partner.
    Mark,
}

/// Rows of the probe batch that come out.
pub(super) enum ProbeRows<'a> {
    All(&'a Batch),
    Picked(&'a Batch, &'a UInt32Array),
    Nulls,
}

/// Rows of the held side that come out beside them.
pub(super) enum HeldRows<'a> {
    Picked(Picks, &'a Held),
    Nulls,
}

impl Shape {
    /// The shape of a join's output.
    pub fn new(
        join_type: JoinType,
        left: &Schema,
        right: &Schema,
        projection: Option<&[usize]>,
        schema: &SchemaRef,
        wanted: &mut Wanted,
    ) -> Result<Self> {
        use JoinType::*;
        let (lefts, rights) = (left.fields().len(), right.fields().len());
        let (lefts, rights, mark) = match join_type {
            Inner | Left | Right | Full => (lefts, rights, false),
            LeftSemi | LeftAnti => (lefts, 0, false),
            LeftMark => (lefts, 0, true),
            RightSemi | RightAnti => (0, rights, false),
            RightMark => (0, rights, true),
        };
        let all: Vec<usize> = (0..lefts + rights + mark as usize).collect();
        let mut probe = Vec::new();
        let mut columns = Vec::new();
        for &position in projection.unwrap_or(&all) {
            columns.push(if position < lefts {
                OutputColumn::Held(wanted.keep(StoredSource::Input(position), left.field(position).data_type()))
            } else if position < lefts + rights {
                probe.push(position - lefts);
                OutputColumn::Probe(probe.len() - 1)
            } else if position < all.len() {
                OutputColumn::Mark
            } else {
                return Err(Error::bug(format!("a join of {} columns has no column {position}", all.len())));
            });
        }
        if schema.fields().len() != columns.len() {
            return Err(Error::bug(format!(
                "a join of {} columns has a schema of {}",
                columns.len(),
                schema.fields().len()
            )));
        }
        Ok(Self { columns, probe, schema: schema.clone() })
    }

    /// The columns of a probe batch that come out.
    pub fn probe_part(&self, batch: &Batch) -> Batch {
        batch.project(&self.probe)
    }

    pub(super) fn batch(
        &self,
        rows: usize,
        probe: ProbeRows<'_>,
        held: HeldRows<'_>,
        mark: Option<BooleanArray>,
    ) -> Result<Batch> {
        let picked;
        let probe = match probe {
            ProbeRows::All(batch) => Some(batch),
            ProbeRows::Picked(batch, picks) => {
                picked = batch.pick(picks)?;
                Some(&picked)
            }
            ProbeRows::Nulls => None,
        };
        let mark: Option<ArrayRef> = mark.map(|mark| Arc::new(mark) as ArrayRef);
        let nulls = |position: usize| Column::flat_array(new_null_array(self.schema.field(position).data_type(), rows));
        let columns = self.columns.iter().enumerate().map(|(position, column)| match (column, probe, &held) {
            (OutputColumn::Probe(index), Some(probe), _) => Ok(probe.column(*index).clone()),
            (OutputColumn::Held(index), _, HeldRows::Picked(picks, held)) => {
                Ok(Column::picked(held.columns[*index].clone(), picks.clone()))
            }
            (OutputColumn::Mark, ..) => match &mark {
                Some(mark) => Ok(Column::flat_array(mark.clone())),
                None => Err(Error::bug("a join without a mark was asked for it")),
            },
            (OutputColumn::Probe(_), None, _) | (OutputColumn::Held(_), _, HeldRows::Nulls) => Ok(nulls(position)),
        });
        Ok(Batch::new(columns.collect::<Result<_>>()?, rows))
    }
}

/// A condition on pairs of rows.
struct Residual {
    expression: Expr,
    /// A kept column, or one of the probe batch.
    columns: Vec<(JoinSide, usize)>,
}

/// What becomes of pairs.
pub(super) struct PairJoin {
    pub join_type: JoinType,
    pub shape: Shape,
    residual: Option<Residual>,
}

/// A probe batch being worked on.
pub(super) struct InWork {
    /// All columns: the residual condition may read any.
    pub batch: Batch,
    /// The columns that come out.
    pub probe: Batch,
    /// Which rows have found a partner, where the join type asks.
    pub matched: Vec<bool>,
    /// Rows up to here have come out, for right and full joins.
    emitted: usize,
    /// Rows in an output batch at most.
    batch_rows: usize,
}

impl PairJoin {
    pub fn new(
        join_type: JoinType,
        left: &Schema,
        right: &Schema,
        filter: Option<&PairFilter>,
        projection: Option<&[usize]>,
        schema: &SchemaRef,
        wanted: &mut Wanted,
    ) -> Result<Self> {
        let shape = Shape::new(join_type, left, right, projection, schema, wanted)?;
        let residual = filter
            .map(|filter| {
                let columns = filter.columns.iter().map(|&(side, index)| match side {
                    JoinSide::Left => {
                        let kept = wanted.keep(StoredSource::Input(index), left.field(index).data_type());
                        Ok((side, kept))
                    }
                    JoinSide::Right => Ok((side, index)),
                    JoinSide::None => Err(Error::bug("a join's condition reads the mark")),
                });
                Ok(Residual { expression: filter.expression.clone(), columns: columns.collect::<Result<_>>()? })
            })
            .transpose()?;
        Ok(Self { join_type, shape, residual })
    }

    /// Whether pairs must pass a condition.
    pub fn has_residual(&self) -> bool {
        self.residual.is_some()
    }

    /// What the condition, over this schema, says of the held side by itself, if there are no keys.
    pub fn ranges(&self, schema: &Schema) -> Option<RangeSpec> {
        let residual = self.residual.as_ref()?;
        RangeSpec::new(&residual.expression, &residual.columns, schema)
    }

    /// Whether, of a probe row, it only matters that it has a partner.
    pub fn is_right_existence(&self) -> bool {
        matches!(self.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
    }

    /// Whether what comes of a probe row depends on all held rows.
    pub fn asks_all_held(&self) -> bool {
        self.is_right_existence() || matches!(self.join_type, JoinType::Right | JoinType::Full)
    }

    /// Begins with a batch. Those that come out have at most `batch_rows` rows.
    pub fn begin(&self, batch: Batch, batch_rows: usize) -> InWork {
        use JoinType::*;
        let asks = matches!(self.join_type, Right | Full | RightSemi | RightAnti | RightMark);
        let matched = vec![false; if asks { batch.rows() } else { 0 }];
        InWork { probe: self.shape.probe_part(&batch), batch, matched, emitted: 0, batch_rows }
    }

    /// Takes pairs in the order of the probe rows. All pairs of the probe rows before `complete` have been given with
    /// these.
    pub fn consume(
        &self,
        held: &Held,
        work: &mut InWork,
        mut probe: Vec<u32>,
        mut build: Vec<u32>,
        complete: usize,
        out: &mut Output,
    ) -> Result<()> {
        use JoinType::*;
        if let Some(residual) = &self.residual
            && !probe.is_empty()
        {
            let probe_picks: UInt32Array = probe.into();
            let build_picks: Picks = Arc::new(build.into());
            match residual.select(held, &work.batch, &probe_picks, &build_picks)? {
                Selection::All => (probe, build) = (probe_picks.values().to_vec(), build_picks.values().to_vec()),
                Selection::None => (probe, build) = (vec![], vec![]),
                Selection::Rows(rows) => {
                    let of = |picks: &UInt32Array| rows.values().iter().map(|&row| picks.value(row as usize)).collect();
                    (probe, build) = (of(&probe_picks), of(&build_picks));
                }
            }
        }
        if let Some(matched) = &held.matched {
            matched.set(&build);
        }
        if let Some(later) = &held.later {
            later.set(&probe);
            return match self.join_type {
                Inner | Left | Right | Full => self.emit_pairs(held, work, probe, build, out),
                _ => Ok(()),
            };
        }
        match self.join_type {
            Inner | Left => self.emit_pairs(held, work, probe, build, out),
            Right | Full => self.emit_padded(held, work, probe, build, complete, out),
            RightSemi | RightAnti | RightMark => {
                probe.iter().for_each(|&row| work.matched[row as usize] = true);
                if complete < work.batch.rows() {
                    return Ok(());
                }
                let rows = work.matched.iter().enumerate();
                let found: Vec<u32> = rows.filter(|(_, matched)| **matched).map(|(row, _)| row as u32).collect();
                self.emit_existing(&work.probe, &found, out)
            }
            LeftSemi | LeftAnti | LeftMark => Ok(()),
        }
    }

    fn emit_pairs(&self, held: &Held, work: &InWork, probe: Vec<u32>, build: Vec<u32>, out: &mut Output) -> Result<()> {
        if probe.is_empty() {
            return Ok(());
        }
        let rows = probe.len();
        let held = HeldRows::Picked(Arc::new(build.into()), held);
        let picks;
        let probe = if is_every_row(&probe, work.probe.rows()) {
            ProbeRows::All(&work.probe)
        } else {
            picks = probe.into();
            ProbeRows::Picked(&work.probe, &picks)
        };
        out.emit(self.shape.batch(rows, probe, held, None)?);
        Ok(())
    }

    /// Puts rows without a partner between the pairs, in order.
    fn emit_padded(
        &self,
        held: &Held,
        work: &mut InWork,
        probe: Vec<u32>,
        build: Vec<u32>,
        complete: usize,
        out: &mut Output,
    ) -> Result<()> {
        probe.iter().for_each(|&row| work.matched[row as usize] = true);
        let newly_complete = std::mem::replace(&mut work.emitted, complete)..complete;
        let mut unmatched = newly_complete.filter(|&row| !work.matched[row]).map(|row| row as u32).peekable();
        let mut all_probe = Vec::with_capacity(probe.len());
        let mut all_build = Vec::with_capacity(probe.len());
        for (&row, &partner) in probe.iter().zip(&build) {
            while let Some(lonely) = unmatched.next_if(|&lonely| lonely < row) {
                all_probe.push(lonely);
                all_build.push(None);
            }
            all_probe.push(row);
            all_build.push(Some(partner));
        }
        for lonely in unmatched {
            all_probe.push(lonely);
            all_build.push(None);
        }
        if all_probe.is_empty() {
            return Ok(());
        }
        // As many pairs as a batch has rows, and the rows between them: more than one batch, perhaps.
        let rows = all_probe.len();
        let probe_picks: UInt32Array = all_probe.into();
        let held_picks: UInt32Array = all_build.into();
        for start in (0..rows).step_by(work.batch_rows) {
            let rows = work.batch_rows.min(rows - start);
            let picks = probe_picks.slice(start, rows);
            let held_picks = held_picks.slice(start, rows);
            let held = match held_picks.null_count() == rows {
                true => HeldRows::Nulls,
                false => HeldRows::Picked(Arc::new(held_picks), held),
            };
            out.emit(self.shape.batch(rows, ProbeRows::Picked(&work.probe, &picks), held, None)?);
        }
        Ok(())
    }

    /// For joins that only ask which probe rows have a partner: `found` does among these held rows, in order.
    pub fn exist(&self, held: &Held, probe: &Batch, found: &[u32], out: &mut Output) -> Result<()> {
        match &held.later {
            Some(later) => {
                later.set(found);
                Ok(())
            }
            None => self.emit_existing(probe, found, out),
        }
    }

    /// The same among all held rows.
    pub fn emit_existing(&self, probe: &Batch, found: &[u32], out: &mut Output) -> Result<()> {
        let rows = probe.rows();
        if self.join_type == JoinType::RightMark {
            let mut mark = arrow::array::BooleanBufferBuilder::new(rows);
            mark.append_n(rows, false);
            found.iter().for_each(|&row| mark.set_bit(row as usize, true));
            let mark = BooleanArray::new(mark.finish(), None);
            out.emit(self.shape.batch(rows, ProbeRows::All(probe), HeldRows::Nulls, Some(mark))?);
            return Ok(());
        }
        if self.join_type == JoinType::RightSemi {
            return self.emit_probe(probe, found, out);
        }
        let mut next = found.iter().copied().peekable();
        let rest: Vec<u32> = (0..rows as u32).filter(|&row| next.next_if_eq(&row).is_none()).collect();
        self.emit_probe(probe, &rest, out)
    }

    fn emit_probe(&self, probe: &Batch, rows: &[u32], out: &mut Output) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let picks;
        let from = if rows.len() == probe.rows() {
            ProbeRows::All(probe)
        } else {
            picks = UInt32Array::from(rows.to_vec());
            ProbeRows::Picked(probe, &picks)
        };
        out.emit(self.shape.batch(rows.len(), from, HeldRows::Nulls, None)?);
        Ok(())
    }

    /// For joins in which each probe row has at most one partner and no condition is left: `found` rows and their
    /// partners.
    pub fn emit_unique(
        &self,
        held: &Held,
        probe: &Batch,
        found: &[u32],
        partners: &[u32],
        out: &mut Output,
    ) -> Result<()> {
        use JoinType::*;
        if let Some(matched) = &held.matched {
            matched.set(partners);
        }
        let rows = probe.rows();
        let join_type = match (self.join_type, &held.later) {
            (join_type @ (Right | Full), Some(later)) => {
                later.set(found);
                if join_type == Right { Inner } else { Left }
            }
            (join_type, _) => join_type,
        };
        match join_type {
            LeftSemi | LeftAnti | LeftMark => Ok(()),
            RightSemi | RightAnti | RightMark => self.exist(held, probe, found, out),
            Inner | Left if found.is_empty() => Ok(()),
            Right | Full if found.is_empty() => self.emit_alone(probe, out),
            Inner | Left | Right | Full if found.len() == rows => {
                let held = HeldRows::Picked(Arc::new(partners.to_vec().into()), held);
                out.emit(self.shape.batch(rows, ProbeRows::All(probe), held, None)?);
                Ok(())
            }
            Inner | Left => {
                let held = HeldRows::Picked(Arc::new(partners.to_vec().into()), held);
                let picks = UInt32Array::from(found.to_vec());
                out.emit(self.shape.batch(found.len(), ProbeRows::Picked(probe, &picks), held, None)?);
                Ok(())
            }
            Right | Full => {
                let mut picks = vec![0; rows];
                let mut valid = vec![false; rows];
                for (&row, &partner) in found.iter().zip(partners) {
                    (picks[row as usize], valid[row as usize]) = (partner, true);
                }
                let picks = UInt32Array::new(picks.into(), Some(NullBuffer::from(valid)));
                let held = HeldRows::Picked(Arc::new(picks), held);
                out.emit(self.shape.batch(rows, ProbeRows::All(probe), held, None)?);
                Ok(())
            }
        }
    }

    /// For probe rows that have met all held rows block by block: those of a batch whose first row has a number.
    pub fn emit_later(&self, probe: &Batch, matched: &Bits, first_row: usize, out: &mut Output) -> Result<()> {
        let has = |row: &u32| matched.get(first_row + *row as usize);
        if self.is_right_existence() {
            let found: Vec<u32> = (0..probe.rows() as u32).filter(has).collect();
            return self.emit_existing(probe, &found, out);
        }
        let lonely: Vec<u32> = (0..probe.rows() as u32).filter(|row| !has(row)).collect();
        if lonely.is_empty() {
            return Ok(());
        }
        self.emit_alone(&probe.pick(&lonely.into())?, out)
    }

    /// For probe rows of which none has a partner.
    pub fn emit_alone(&self, probe: &Batch, out: &mut Output) -> Result<()> {
        match self.join_type {
            JoinType::Right | JoinType::Full => {
                out.emit(self.shape.batch(probe.rows(), ProbeRows::All(probe), HeldRows::Nulls, None)?);
                Ok(())
            }
            _ if self.is_right_existence() => self.emit_existing(probe, &[], out),
            _ => Ok(()),
        }
    }

    /// A batch of held rows, after the probe: with NULLs in the place of the probe's columns, or with their marks.
    pub fn held_batch(&self, held: &Held, rows: Vec<u32>) -> Result<Batch> {
        let count = rows.len();
        let mark = match (&held.matched, self.join_type) {
            (Some(matched), JoinType::LeftMark) => {
                let marks = BooleanBuffer::collect_bool(count, |index| matched.get(rows[index] as usize));
                Some(BooleanArray::new(marks, None))
            }
            _ => None,
        };
        self.shape.batch(count, ProbeRows::Nulls, HeldRows::Picked(Arc::new(rows.into()), held), mark)
    }
}

/// Whether the picks are all of so many rows, once each and in order.
fn is_every_row(picks: &[u32], rows: usize) -> bool {
    picks.len() == rows && (0..).zip(picks).all(|(row, &pick): (u32, _)| row == pick)
}

impl Residual {
    fn select(&self, held: &Held, batch: &Batch, probe: &UInt32Array, build: &Picks) -> Result<Selection> {
        let probe_columns = self.columns.iter().filter(|(side, _)| *side == JoinSide::Right);
        let probe_columns: Vec<usize> = probe_columns.map(|&(_, index)| index).collect();
        let mut picked = batch.project(&probe_columns);
        if !is_every_row(probe.values(), batch.rows()) {
            picked = picked.pick(probe)?;
        }
        let mut picked = picked.columns().iter();
        let columns = self.columns.iter().map(|(side, index)| match side {
            JoinSide::Right => picked.next().cloned().ok_or_else(|| Error::bug("a column of the probe side was lost")),
            _ => Ok(Column::picked(held.columns[*index].clone(), build.clone())),
        });
        let pairs = Batch::new(columns.collect::<Result<_>>()?, build.len());
        self.expression.select(&pairs)
    }
}
