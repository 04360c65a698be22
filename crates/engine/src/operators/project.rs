//! Computes columns. A column that is passed on is not touched, picks included.

use std::sync::Arc;

use diligence_base::Result;

use crate::batch::Batch;
use crate::expressions::Expr;
use crate::pipeline::{Flow, Operator, OperatorState, Output, Setup};

/// The projection as planned.
pub struct Project {
    expressions: Vec<Expr>,
}

impl Project {
    /// One expression over the input per output column.
    pub fn new(expressions: Vec<Expr>) -> Arc<Self> {
        Arc::new(Self { expressions })
    }
}

impl Operator for Project {
    fn name(&self) -> &'static str {
        "Project"
    }

    fn open(&self, _setup: &Setup) -> Result<Box<dyn OperatorState>> {
        Ok(Box::new(State { expressions: self.expressions.clone() }))
    }
}

struct State {
    expressions: Vec<Expr>,
}

impl OperatorState for State {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let columns =
            self.expressions.iter().map(|expression| expression.evaluate(&input)).collect::<Result<Vec<_>>>()?;
        out.emit(Batch::new(columns, input.rows()));
        Ok(Flow::NeedInput)
    }
}
