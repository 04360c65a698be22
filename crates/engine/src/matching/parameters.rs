//! The constants that a scan compares columns with: what queries of one template differ in.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, InListExpr, Literal};

use super::signature::terms_of;
use crate::plan::mask_lookup::{Comparison, Key};

/// A condition of a scan on one of its table's columns, with its constants.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// Which of the plan's scans, in the order in which a plan is written.
    pub scan: usize,
    /// A position in the table's schema.
    pub column: usize,
    /// How the column is compared.
    pub comparison: Comparison,
    /// What it is compared with: one constant, or a list of those it may be equal to.
    pub constants: Vec<ScalarValue>,
}

/// A condition over a table's columns as a parameter, if it compares one column with constants of its type: `<`, `<=`,
/// `>`, `>=`, `=`, IN, or several `=` joined by OR. The scan is to be filled in.
pub(super) fn parameter(condition: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<Parameter> {
    let (column, comparison, constants) = if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let constants = list.list().iter().map(|member| literal(member).cloned()).collect::<Option<Vec<_>>>()?;
        (column(list.expr()).filter(|_| !list.negated())?, Comparison::Among, constants)
    } else {
        let mut terms = terms_of(condition, Operator::Or).into_iter().map(compared);
        let (index, comparison, constant) = terms.next()??;
        let mut constants = vec![constant];
        for term in terms {
            let (other, also, constant) = term?;
            if other != index || comparison != Comparison::Among || also != Comparison::Among {
                return None;
            }
            constants.push(constant);
        }
        (index, comparison, constants)
    };
    let data_type = table.field(column).data_type();
    let fits = |constant: &ScalarValue| constant.data_type() == *data_type && Key::of(constant).is_some();
    constants.iter().all(fits).then_some(Parameter { scan: 0, column, comparison, constants })
}

/// `column operator constant`, whichever side the constant is on.
fn compared(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, Comparison, ScalarValue)> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (column, operator, constant) = match (column(binary.left()), literal(binary.right())) {
        (Some(column), Some(constant)) => (column, *binary.op(), constant),
        _ => (column(binary.right())?, binary.op().swap()?, literal(binary.left())?),
    };
    Some((column, Comparison::of(operator)?, constant.clone()))
}

fn column(physical: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    physical.downcast_ref::<ColumnExpr>().map(ColumnExpr::index)
}

fn literal(physical: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    physical.downcast_ref::<Literal>().map(Literal::value)
}
