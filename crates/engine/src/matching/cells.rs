//! What is computed for each cell of a run for several queries, and the expressions over cells.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column as ColumnExpr, Literal};
use diligence_base::Result;

use crate::expressions::Expr;
use crate::plan::{Aggregate, AggregateCall, Node, Plan};

/// What is computed for each cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    Count,
    Least,
    Greatest,
}

impl Kind {
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        match self {
            Kind::Sum => sum_udaf(),
            Kind::Count => count_udaf(),
            Kind::Least => min_udaf(),
            Kind::Greatest => max_udaf(),
        }
    }

    /// What puts the values of cells together.
    pub(super) fn together(self) -> Arc<AggregateUDF> {
        match self {
            Kind::Sum | Kind::Count => sum_udaf(),
            Kind::Least => min_udaf(),
            Kind::Greatest => max_udaf(),
        }
    }
}

/// What is computed for each cell, from which arguments, of which rows; of each value once, if `distinct`.
#[derive(PartialEq, Eq)]
pub(super) struct Cell {
    pub kind: Kind,
    pub arguments: Vec<Expr>,
    pub filter: Option<Expr>,
    pub distinct: bool,
}

pub(super) fn column(index: usize, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    Arc::new(ColumnExpr::new(schema.field(index).name(), index))
}

pub(super) fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}

/// The input by groups, each column of which has a field, with the results of calls.
pub(super) fn grouped(
    input: Plan,
    groups: Vec<Expr>,
    fields: impl IntoIterator<Item = impl Into<FieldRef>>,
    calls: Vec<AggregateCall>,
) -> Plan {
    let results = calls.iter().map(|call| call.function.field());
    let fields = fields.into_iter().map(Into::into).chain(results).collect::<Vec<FieldRef>>();
    let grouping_sets = vec![vec![false; groups.len()]];
    let input = Box::new(input);
    let node = Aggregate { input, groups, grouping_sets, has_grouping_id: false, aggregates: calls, limit: None };
    Plan::new(Node::Aggregate(node), Arc::new(Schema::new(fields)))
}

pub(super) fn call(
    function: Arc<AggregateUDF>,
    arguments: Vec<Expr>,
    filter: Option<Expr>,
    input: &SchemaRef,
) -> Result<AggregateCall> {
    let name = function.name().to_owned();
    AggregateCall::new(function, name, arguments, filter, input)
}
