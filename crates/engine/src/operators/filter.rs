//! Keeps the rows for which a predicate is true (NULL counts as false).
//!
//! Invariant: row order within a batch is kept; no value moves.

use std::sync::Arc;

use diligence_base::Result;

use crate::batch::Batch;
use crate::expressions::Expr;
use crate::flow::{Flow, Operator, OperatorState, Output, QueryContext};

/// The filter as planned.
pub struct Filter {
    predicate: Expr,
}

impl Filter {
    /// A filter on a condition over the input.
    pub fn new(predicate: Expr) -> Arc<Self> {
        Arc::new(Self { predicate })
    }
}

impl Operator for Filter {
    fn name(&self) -> &'static str {
        "Filter"
    }

    fn open(&self, _setup: &QueryContext) -> Result<Box<dyn OperatorState>> {
        Ok(Box::new(FilterState { predicate: self.predicate.clone() }))
    }
}

struct FilterState {
    predicate: Expr,
}

impl OperatorState for FilterState {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let selection = self.predicate.select(&input)?;
        if let Some(kept) = input.select(&selection)? {
            out.emit(kept);
        }
        Ok(Flow::NeedInput)
    }
}
