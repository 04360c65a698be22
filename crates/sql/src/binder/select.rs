//! Queries: what stands around a SELECT or a set operation. A SELECT itself is bound in `bound_select`, its list in
//! `select_list`, the order and the LIMIT in `order`.

use diligence_base::Result;
use sqlparser::ast::{self, OrderBy, Query, SetExpr};

use super::locking::Locking;
use super::scope::{Level, Withs};
use super::sides::JoinedSide;
use super::{Binder, Output, Rows, STACK_GROWTH, STACK_RED_ZONE, unsupported};
use crate::algebra::SortKey;

impl Binder<'_> {
    /// A query: what it has around a SELECT or a set operation. Fails with kind `Input` and PostgreSQL's SQLSTATE.
    pub(super) fn query(&self, query: &Query, outer: Option<&Level<'_>>, withs: &Withs<'_>) -> Result<Rows> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || match &query.with {
            None => self.query_body(query, outer, withs, false),
            Some(with) => {
                let inner = Withs { outer: Some(withs), written: Some(with), ..Withs::default() };
                let definitions = self.definitions(with, outer, &inner)?;
                let rows = self.query_body(query, outer, &inner, false)?;
                Ok(self.defined(definitions, rows))
            }
        })
    }

    /// A query below a set operation, whose literals have no type yet.
    pub(super) fn query_part(&self, query: &Query, outer: Option<&Level<'_>>, withs: &Withs<'_>) -> Result<Rows> {
        match &query.with {
            Some(_) => self.query(query, outer, withs),
            None => stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || self.query_body(query, outer, withs, true)),
        }
    }

    fn query_body(
        &self,
        query: &Query,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        keeps_unknown: bool,
    ) -> Result<Rows> {
        if query.for_clause.is_some() || query.format_clause.is_some() {
            return Err(unsupported("FOR and FORMAT behind a query"));
        }
        if !query.pipe_operators.is_empty() {
            return Err(unsupported("|> behind a query"));
        }
        let order = query.order_by.as_ref();
        let around = self.locking.replace(Locking::of(query)?);
        let bound = self.ordered_body(query, order, outer, withs, keeps_unknown);
        let locking = self.locking.replace(around);
        let (rows, keys) = bound?;
        self.limited(rows, keys, query, locking, outer, withs)
    }

    /// The rows in order, and what orders them.
    fn ordered_body(
        &self,
        query: &Query,
        order: Option<&OrderBy>,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        keeps_unknown: bool,
    ) -> Result<(Rows, Vec<SortKey>)> {
        Ok(match query.body.as_ref() {
            SetExpr::Select(select) => self.select(select, order, outer, withs, keeps_unknown)?,
            body => {
                let keeps_unknown = keeps_unknown && order.is_none();
                let rows = self.set_expression(body, outer, withs, keeps_unknown)?;
                match order {
                    None => (rows, vec![]),
                    Some(order) => {
                        let rows = self.settled(rows)?;
                        self.ordered(rows, order)?
                    }
                }
            }
        })
    }

    /// What a query selects from: a SELECT, another query, a set operation, VALUES or a table.
    pub(super) fn set_expression(
        &self,
        body: &SetExpr,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
        keeps_unknown: bool,
    ) -> Result<Rows> {
        match body {
            SetExpr::Select(select) => Ok(self.select(select, None, outer, withs, keeps_unknown)?.0),
            SetExpr::Query(query) if keeps_unknown => self.query_part(query, outer, withs),
            SetExpr::Query(query) => self.query(query, outer, withs),
            SetExpr::SetOperation { .. } => self.set_operation(body, outer, withs),
            SetExpr::Values(values) => self.values(values, outer, withs, None),
            SetExpr::Table(table) => {
                let side = self.whole_table(table, withs)?;
                Ok(rows_of(side))
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(unsupported("a statement that changes rows within a query"))
            }
        }
    }

    /// The rows of VALUES alone, as a query's source.
    pub(super) fn plain_values(query: &ast::Query) -> Option<&ast::Values> {
        let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        match query.body.as_ref() {
            SetExpr::Values(values) if is_plain && query.fetch.is_none() => Some(values),
            _ => None,
        }
    }
}

/// All columns of a side.
fn rows_of(side: JoinedSide) -> Rows {
    let outputs = side.names.columns().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
    let outputs = outputs.collect();
    Rows { relation: side.relation, outputs }
}
