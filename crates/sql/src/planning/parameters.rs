//! Parameters of statements, `$1`, `$2`, …: how many there are, and their values.

use std::ops::ControlFlow;

use arrow::array::ArrayRef;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;
use sqlparser::ast::{self, Visitor};

use crate::algebra::first_value;
use crate::parse::{Parsed, SyntaxTree};
use crate::procedural;
use crate::walking::walk;

/// Parameters of a statement at most; the wire protocol counts them in 16 bits.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// The largest number behind a dollar sign. A PREPARE's parameters are its own.
pub(super) fn count(parsed: &Parsed) -> Result<usize> {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
            if let ast::Value::Placeholder(name) = &value.value
                && let Some(number) = procedural::number_of(name)
            {
                self.0 = self.0.max(number);
            }
            ControlFlow::Continue(())
        }
    }
    let SyntaxTree::Statement(statement) = &parsed.statement else { return Ok(0) };
    if matches!(**statement, ast::Statement::Prepare { .. }) {
        return Ok(0);
    }
    let mut count = Count(0);
    let _ = walk(&**statement, &mut count);
    if count.0 > PARAMETERS_MAX {
        return Err(Error::input(format!("a statement has at most {PARAMETERS_MAX} parameters")).with_code("54000"));
    }
    Ok(count.0)
}

/// The value of a parameter, an array of one row, as [`Planner::plan`](super::Planner::plan) takes it. Fails if the
/// array is empty.
pub fn parameter_value(array: &ArrayRef) -> Result<ScalarValue> {
    if array.is_empty() {
        return Err(Error::bug("a parameter without a value"));
    }
    first_value(array).map_err(from_datafusion)
}
