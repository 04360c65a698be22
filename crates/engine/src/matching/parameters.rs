//! The constants in the conditions of scans and filters: what queries of one template differ in.
//!
//! A *comparison* of a column with constants puts the column's values in classes, so that one look at a value tells
//! which of all queries want it. Any other condition, as `name LIKE '%green%'` or `a < 5 OR b = 3`, is *open*: queries
//! of one template have it in the same [form](form_of), and a run for several evaluates each one's.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, InListExpr, Literal, in_list};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::canonical::{Canonical, canonical, terms_of};
use crate::expressions::Expr;
use crate::plan::mask_lookup::{ClassKey, Comparison};

/// What a query differs in from others of its template.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    /// Its comparisons with constants.
    pub comparisons: Vec<Parameter>,
    /// Its other conditions with constants.
    pub conditions: Vec<OpenCondition>,
}

impl Parameters {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.comparisons.len() + self.conditions.len()
    }
}

/// A condition with constants that is no comparison of a column with them.
#[derive(Clone, Debug)]
pub(crate) struct OpenCondition {
    /// Which of the plan's scans and filters has it, in the order in which a plan is written.
    pub place: usize,
    /// Over the columns of the scan's table, or of the filter's input.
    pub condition: Arc<dyn PhysicalExpr>,
}

/// A condition of a scan on one of its table's columns, with its constants.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// Which of the plan's scans and filters, in the order in which a plan is written: a scan.
    pub scan: usize,
    /// A position in the table's schema.
    pub column: usize,
    /// How the column is compared.
    pub comparison: Comparison,
    /// What it is compared with: one constant, or a list of those it may be equal to.
    pub constants: Vec<ScalarValue>,
}

impl Parameter {
    /// Whether two say the same of a column.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.scan, self.column, self.comparison) == (other.scan, other.column, other.comparison)
            && self.constants == other.constants
    }
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
    let fits = |constant: &ScalarValue| constant.data_type() == *data_type && ClassKey::of(constant).is_some();
    constants.iter().all(fits).then_some(Parameter { scan: 0, column, comparison, constants })
}

/// A condition without its constants: with NULL in the place of each, and once in the place of all of a list. Those
/// that are arguments of functions stay. `None` if it has none, if a row may make it fail, or if its value may differ
/// from one evaluation to the next.
pub(super) fn form_of(condition: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Canonical> {
    // It is evaluated for rows that a lone query's other conditions would have kept from it.
    if Expr::new(condition.clone(), input).ok()?.may_fail() {
        return None;
    }
    let mut has_constants = false;
    let null = |value: &ScalarValue| -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
        Ok(Arc::new(Literal::new(ScalarValue::try_from(value.data_type())?)))
    };
    let open = condition.clone().transform_down(|node| {
        if node.downcast_ref::<ScalarFunctionExpr>().is_some() {
            // Its constants may decide what type its values have.
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        if let Some(list) = node.downcast_ref::<InListExpr>() {
            let Some(first) = list.list().first().and_then(literal) else { return Ok(Transformed::no(node)) };
            if list.list().iter().all(|member| literal(member).is_some()) {
                has_constants = true;
                let open = in_list(list.expr().clone(), vec![null(first)?], &list.negated(), input)?;
                return Ok(Transformed::yes(open));
            }
        } else if let Some(value) = literal(&node).filter(|value| !value.is_null()) {
            has_constants = true;
            return Ok(Transformed::yes(null(value)?));
        }
        Ok(Transformed::no(node))
    });
    canonical(&open.ok()?.data).filter(|_| has_constants)
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
