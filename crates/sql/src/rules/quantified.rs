//! `x = ANY (SELECT …)` and its kin over a table that the outer query reads, too.
//!
//! DataFusion compares the outer expression with the subquery's column inside of the subquery, and tells columns by
//! their qualified names. Without an alias both are `book.price`, and each is compared with itself. Here the subquery's
//! column gets a name that no statement uses.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub struct QuantifiedNames;

/// What the subquery's column is called.
const NAME: &str = "quantified value";

impl AnalyzerRule for QuantifiedNames {
    fn name(&self) -> &str {
        "quantified_names"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let named = plan.transform_up_with_subqueries(|node| {
            let outer = node.inputs().iter().flat_map(|input| input.schema().columns()).collect::<Vec<_>>();
            node.map_expressions(|expression| {
                expression.transform_up(|expression| {
                    let Expr::SetComparison(mut comparison) = expression else {
                        return Ok(Transformed::no(expression));
                    };
                    let subquery = &mut comparison.subquery;
                    let columns = subquery.subquery.schema().columns();
                    let renamed = match columns.as_slice() {
                        [column] if outer.contains(column) => {
                            let value = Expr::Column(column.clone()).alias(NAME);
                            let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
                            subquery.subquery = Arc::new(plan.project([value])?.build()?);
                            true
                        }
                        _ => false,
                    };
                    Ok(Transformed::new_transformed(Expr::SetComparison(comparison), renamed))
                })
            })
        })?;
        Ok(named.data)
    }
}

#[cfg(test)]
mod tests {
    use crate::Statement;
    use crate::planning::golden::{planner, statement};

    #[test]
    fn the_subquerys_column_is_not_taken_for_the_outer_one() {
        let planner = planner();
        let Ok(Statement::Query(query)) =
            statement(&planner, "SELECT id FROM people WHERE id = ANY (SELECT id FROM people)")
        else {
            panic!("a query")
        };
        let plan = query.plan.to_string();
        assert!(plan.contains("quantified value"), "{plan}");
    }
}
