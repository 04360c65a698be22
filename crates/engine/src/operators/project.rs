//! Computes columns. A column that is passed on is not touched, picks included.

use std::sync::Arc;

use diligence_base::Result;

use super::widening::Widening;
use crate::batch::Batch;
use crate::expressions::Expr;
use crate::flow::{Flow, Operator, OperatorState, Output, QueryContext};

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

    fn open(&self, context: &QueryContext) -> Result<Box<dyn OperatorState>> {
        let expressions = self.expressions.clone();
        let made = expressions.iter().filter(|expression| expression.as_column().is_none());
        let widening = Widening::of(made.map(Expr::data_type), context.batch_bytes());
        Ok(Box::new(ProjectState { expressions, widening }))
    }
}

struct ProjectState {
    expressions: Vec<Expr>,
    widening: Option<Widening>,
}

impl OperatorState for ProjectState {
    fn rows_max(&self) -> usize {
        self.widening.as_ref().map_or(usize::MAX, Widening::rows)
    }

    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let columns =
            self.expressions.iter().map(|expression| expression.evaluate(&input)).collect::<Result<Vec<_>>>()?;
        if let Some(widening) = &mut self.widening {
            let made = self.expressions.iter().zip(&columns).filter(|(expression, _)| expression.as_column().is_none());
            widening.note(input.rows(), made.map(|(_, column)| column.bytes()).sum());
        }
        out.emit(Batch::new(columns, input.rows()));
        Ok(Flow::NeedInput)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion_common::ScalarValue;
    use datafusion_expr::Operator as ExprOperator;
    use datafusion_physical_expr::PhysicalExpr;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
    use diligence_base::limits::BATCH_ROWS_MAX;
    use diligence_memory::QueryMemory;

    use super::*;

    #[test]
    fn few_rows_are_taken_at_once_where_they_become_wide() {
        let context =
            QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: BATCH_ROWS_MAX, packets: 1 };
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, false)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("s", 0));
        let taken = |suffix: &str| {
            let suffix = Arc::new(Literal::new(ScalarValue::Utf8(Some(suffix.to_owned()))));
            let made = Arc::new(BinaryExpr::new(column.clone(), ExprOperator::StringConcat, suffix));
            let expressions = [column.clone(), made as _].map(|physical| Expr::new(physical, &schema).unwrap());
            let mut state = Project::new(expressions.to_vec()).open(&context).unwrap();
            let mut out = Output::default();
            let mut taken = Vec::new();
            for _ in 0..5 {
                taken.push(state.rows_max());
                let texts: ArrayRef = Arc::new(StringArray::from(vec!["text"; state.rows_max()]));
                state.push(Batch::from_arrays(vec![texts], state.rows_max()), &mut out).unwrap();
                assert_eq!(out.take().unwrap().rows(), *taken.last().unwrap());
            }
            taken
        };
        assert_eq!(taken("narrow"), [16, 128, 1024, 8192, 8192]);
        assert_eq!(taken(&"wide".repeat(5000)), [16, 128, 209, 209, 209]);
        let passed = Project::new(vec![Expr::column(0, &schema).unwrap()]).open(&context).unwrap();
        assert_eq!(passed.rows_max(), usize::MAX);
    }
}
