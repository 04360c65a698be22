//! Window functions of which only DataFusion's evaluator is known: each partition is evaluated as a whole, once it has come.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::concat;
use datafusion_common::ScalarValue;
use datafusion_expr::WindowFrame;
use datafusion_expr::window_state::WindowFrameContext;
use datafusion_physical_expr::window::StandardWindowFunctionExpr;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::columns::bytes_of;
use super::pieces::Pieces;
use super::rows::Rows;
use crate::batch::{Batch, bytes_needed, to_logical};
use crate::expressions::Expr;
use crate::plan::SortKey;

/// A function over partitions.
pub(super) struct Evaluated {
    function: Arc<dyn StandardWindowFunctionExpr>,
    frame: Arc<WindowFrame>,
    order_by: Vec<SortKey>,
    /// The arguments, then the order keys.
    expressions: Vec<Expr>,
    arguments: usize,
    pieces: Pieces,
    next: u64,
    partition: u64,
    group: u64,
    /// The start of the partition evaluated last, and its values.
    values: Option<(u64, ArrayRef)>,
}

impl Evaluated {
    pub fn new(
        function: Arc<dyn StandardWindowFunctionExpr>,
        arguments: &[Expr],
        order_by: &[SortKey],
        frame: Arc<WindowFrame>,
    ) -> Self {
        let expressions = arguments.iter().chain(order_by.iter().map(|key| &key.expression)).cloned().collect();
        Self {
            function,
            frame,
            order_by: order_by.to_vec(),
            expressions,
            arguments: arguments.len(),
            pieces: Pieces::default(),
            next: 0,
            partition: 0,
            group: 0,
            values: None,
        }
    }

    /// Bytes that a batch adds, about.
    pub fn bytes_of(&self, batch: &Batch) -> usize {
        self.expressions.iter().map(|expression| bytes_of(expression, batch)).sum()
    }

    /// Takes a batch whose first row is at `first`.
    pub fn push(&mut self, batch: &Batch, first: u64) -> Result<()> {
        let values = self
            .expressions
            .iter()
            .map(|expression| to_logical(&expression.evaluate(batch)?.flat()?, expression.data_type()));
        self.pieces.push(first, batch.rows(), &values.collect::<Result<Vec<_>>>()?)
    }

    /// Whether the partitions of the rows before `until`, which have come, are complete.
    pub fn is_ready(&self, rows: &Rows, until: u64) -> bool {
        let last = rows.partitions.number_at(self.partition, until - 1);
        rows.partitions.get(last + 1).is_some()
    }

    /// The values of the rows before `until` that were not taken yet.
    pub fn take(&mut self, rows: &Rows, until: u64) -> Result<ArrayRef> {
        let mut parts = Vec::new();
        while self.next < until {
            self.partition = rows.partitions.number_at(self.partition, self.next);
            let (Some(begin), Some(end)) =
                (rows.partitions.get(self.partition), rows.partitions.get(self.partition + 1))
            else {
                return Err(Error::bug("a partition was evaluated before its end"));
            };
            let values = match &self.values {
                Some((start, values)) if *start == begin => values.clone(),
                _ => {
                    let values = self.evaluate(rows, begin, end)?;
                    self.values = Some((begin, values.clone()));
                    values
                }
            };
            let stop = end.min(until);
            parts.push(values.slice((self.next - begin) as usize, (stop - self.next) as usize));
            self.next = stop;
            self.pieces.forget_before(if stop == end { end } else { begin });
        }
        let parts = parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>();
        concat(&parts).map_err(from_arrow)
    }

    fn evaluate(&mut self, rows: &Rows, begin: u64, end: u64) -> Result<ArrayRef> {
        let count = (end - begin) as usize;
        let columns = self.pieces.together(begin..end)?;
        let (arguments, order_by) = columns.split_at(self.arguments);
        let mut evaluator = self.function.create_evaluator().map_err(from_datafusion)?;
        let values = if evaluator.uses_window_frame() {
            let options = self.order_by.iter().map(|key| key.options).collect();
            let mut context = WindowFrameContext::new(self.frame.clone(), options);
            let mut frame = 0..0;
            let mut values = Vec::with_capacity(count);
            for row in 0..count {
                frame = context.calculate_range(order_by, &frame, count, row).map_err(from_datafusion)?;
                values.push(evaluator.evaluate(&columns, &frame).map_err(from_datafusion)?);
            }
            ScalarValue::iter_to_array(values)
        } else if evaluator.include_rank() {
            self.group = rows.peers.number_at(self.group, begin);
            let mut peers = Vec::new();
            let mut start = begin;
            for group in self.group + 1.. {
                let Some(behind) = rows.peers.get(group).filter(|&behind| behind <= end) else { break };
                peers.push((start - begin) as usize..(behind - begin) as usize);
                start = behind;
            }
            evaluator.evaluate_all_with_rank(count, &peers)
        } else {
            evaluator.evaluate_all(arguments, count)
        };
        let values = values.map_err(from_datafusion)?;
        match values.len() == count {
            true => Ok(values),
            false => Err(Error::bug(format!("{} gave {} values for {count} rows", self.function.name(), values.len()))),
        }
    }

    /// The numbers of the first partition and the first peers that are still looked at.
    pub fn needed(&self) -> (u64, u64) {
        (self.partition, self.group)
    }

    pub fn bytes(&self) -> usize {
        self.pieces.bytes() + self.values.as_ref().map_or(0, |(_, values)| bytes_needed(values.as_ref()))
    }
}
