//! Joins with USING and NATURAL, as SQL means them: a key is one column, at the left key's place, with the value of the
//! side that is kept.
//!
//! DataFusion keeps both keys in the join and hides one of them from stars: all but that of the table whose name sorts
//! first, whatever side is kept. An unqualified key is the left one to it, and ambiguous after two joins. So where a
//! SELECT has such a join, its stars and unqualified keys are written out here. The columns of its tables are asked of
//! DataFusion: each table is planned by itself. What cannot be planned alone, as LATERAL, leaves the SELECT as it is.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::common::{DFSchema, TableReference};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{ContextProvider, IdentNormalizer, ParserOptions, SqlToRel};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, Cte, Ident, JoinConstraint, JoinOperator, OrderBy, Query, Select, SetExpr, TableFactor, TableWithJoins,
    VisitMut, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::columns::{Column, joined};
use super::{finish, references, walk};

/// Writes out the stars and keys of a statement's USING and NATURAL joins, over tables of these names.
pub(crate) fn mend<N: ContextProvider>(names: &N, options: ParserOptions, statement: &mut Statement) {
    let mut search = Search { found: false };
    finish(walk(statement, &mut search));
    if !search.found {
        return;
    }
    let Some(template) = template() else { return };
    let normalizer = IdentNormalizer::new(options.enable_ident_normalization);
    let mut mending = Mending { names, options, normalizer, template, scope: Vec::new() };
    finish(walk(statement, &mut Queries { mending: &mut mending, depth: 0 }));
}

/// Whether there is such a join at all.
struct Search {
    found: bool,
}

impl VisitorMut for Search {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        self.found |= select.from.iter().any(merges_keys);
        ControlFlow::Continue(())
    }
}

fn merges_keys(tables: &TableWithJoins) -> bool {
    fn nested(table: &TableFactor) -> bool {
        matches!(table, TableFactor::NestedJoin { table_with_joins, .. } if merges_keys(table_with_joins))
    }
    let merges = |operator: &JoinOperator| {
        matches!(constraint(operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    nested(&tables.relation) || tables.joins.iter().any(|join| merges(&join.join_operator) || nested(&join.relation))
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

/// The query that a table is planned in.
fn template() -> Option<Query> {
    let parsed =
        Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM t").and_then(|mut parser| parser.parse_query());
    parsed.ok().map(|query| *query)
}

struct Mending<'a, N> {
    names: &'a N,
    options: ParserOptions,
    normalizer: IdentNormalizer,
    template: Query,
    /// The common table expressions that can be named at the place, outermost first.
    scope: Vec<With>,
}

/// Finds the outermost queries of a part of a statement, and mends each.
struct Queries<'m, 'a, N> {
    mending: &'m mut Mending<'a, N>,
    depth: usize,
}

impl<N: ContextProvider> VisitorMut for Queries<'_, '_, N> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if self.depth == 0 {
            self.mending.query(query);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl<N: ContextProvider> Mending<'_, N> {
    fn query(&mut self, query: &mut Query) {
        let levels = self.scope.len();
        if let Some(with) = &mut query.with {
            let level = With { with_token: AttachedToken::empty(), recursive: with.recursive, cte_tables: Vec::new() };
            self.scope.push(level);
            for table in &mut with.cte_tables {
                if with.recursive {
                    // It can name itself.
                    self.tables_of(levels).push(table.clone());
                }
                self.query(&mut table.query);
                if with.recursive {
                    self.tables_of(levels).pop();
                }
                self.tables_of(levels).push(table.clone());
            }
        }
        self.body(&mut query.body, query.order_by.as_mut());
        self.scope.truncate(levels);
    }

    fn tables_of(&mut self, level: usize) -> &mut Vec<Cte> {
        &mut self.scope[level].cte_tables
    }

    fn body(&mut self, body: &mut SetExpr, order_by: Option<&mut OrderBy>) {
        match body {
            SetExpr::Select(select) => self.select(select, order_by),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, None);
                self.body(right, None);
            }
            other => self.queries_in(other),
        }
    }

    /// Mends the queries inside of expressions.
    fn queries_in(&mut self, part: &mut impl VisitMut) {
        finish(part.visit(&mut Queries { mending: self, depth: 0 }));
    }

    fn select(&mut self, select: &mut Select, mut order_by: Option<&mut OrderBy>) {
        // Every query in it, those in FROM too: they are mended before their columns are asked for.
        self.queries_in(select);
        if let Some(order_by) = &mut order_by {
            self.queries_in(*order_by);
        }
        if !select.from.iter().any(merges_keys) {
            return;
        }
        let mut from = select.from.clone();
        let columns = from.iter_mut().map(|tables| self.tables(tables)).collect::<Option<Vec<_>>>();
        let Some(columns) = columns.map(|columns| columns.concat()) else { return };
        select.from = from;
        let normalizer = &self.normalizer;
        references::replace(select, order_by, &columns, &|ident: &Ident| normalizer.normalize(ident.clone()));
    }

    fn tables(&self, tables: &mut TableWithJoins) -> Option<Vec<Column>> {
        let mut columns = self.table(&mut tables.relation)?;
        for join in &mut tables.joins {
            let right = self.table(&mut join.relation)?;
            columns = joined(columns, right, join, |ident: &Ident| self.normalizer.normalize(ident.clone()))?;
        }
        Some(columns)
    }

    fn table(&self, table: &mut TableFactor) -> Option<Vec<Column>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = table {
            return self.tables(table_with_joins);
        }
        let column = |(qualifier, name): (Option<TableReference>, String)| {
            let mut source = qualifier.map(|qualifier| qualifier.to_vec()).unwrap_or_default();
            source.push(name.clone());
            Column { name, sources: vec![source], merged: false }
        };
        let schema = self.schema(table)?;
        Some(schema.iter().map(|(qualifier, field)| column((qualifier.cloned(), field.name().clone()))).collect())
    }

    /// The columns of a table by itself. An error is left to be met again, where it has its place.
    fn schema(&self, table: &TableFactor) -> Option<DFSchema> {
        let mut query = self.template.clone();
        let SetExpr::Select(select) = &mut *query.body else { return None };
        select.from = vec![TableWithJoins { relation: table.clone(), joins: Vec::new() }];
        for with in self.scope.iter().rev().filter(|with| !with.cte_tables.is_empty()) {
            let body = SetExpr::Query(Box::new(query));
            query = Query { with: Some(with.clone()), body: Box::new(body), ..self.template.clone() };
        }
        let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let plan = SqlToRel::new_with_options(self.names, self.options).statement_to_plan(statement).ok()?;
        Some(plan.schema().as_ref().clone())
    }
}

#[cfg(test)]
mod tests {
    use diligence_base::Span;

    use crate::Statement;
    use crate::planning::golden::{planner, statement};

    fn columns(sql: &str) -> Vec<String> {
        let Ok(Statement::Query(query)) = statement(&planner(), sql) else { panic!("a query") };
        query.plan.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    const VISITS: &str = "(SELECT day, person AS id FROM visits) AS a";

    #[test]
    fn the_key_stands_where_the_left_one_stands() {
        for kind in ["", "LEFT", "RIGHT", "FULL"] {
            let sql = format!("SELECT * FROM people {kind} JOIN {VISITS} USING (id)");
            assert_eq!(columns(&sql), ["id", "name", "city", "born", "day"], "{sql}");
            let sql = format!("SELECT * FROM {VISITS} {kind} JOIN people USING (id)");
            assert_eq!(columns(&sql), ["day", "id", "name", "city", "born"], "{sql}");
        }
        let sql = format!("SELECT *, 1 AS one FROM people NATURAL JOIN {VISITS} NATURAL JOIN (SELECT 1 AS id) AS z");
        assert_eq!(columns(&sql), ["id", "name", "city", "born", "day", "one"]);
        let sql =
            format!("SELECT * EXCLUDE (name, born) REPLACE (id + 1 AS id) FROM people FULL JOIN {VISITS} USING (id)");
        assert_eq!(columns(&sql), ["id", "city", "day"]);
    }

    #[test]
    fn an_error_is_where_the_statement_has_it() {
        let place = |sql: &str| statement(&planner(), sql).unwrap_err().span();
        let sql = format!("SELECT day,\n  id FROM {VISITS} LEFT JOIN people USING (id) GROUP BY day");
        assert_eq!(place(&sql), Some(Span { line: 2, column: 3 }));
        let sql = format!("SELECT *\nFROM people FULL JOIN {VISITS} USING (id) WHERE nosuch > 1");
        assert_eq!(
            place(&sql),
            Some(Span { line: 2, column: sql.lines().nth(1).unwrap().find("nosuch").unwrap() as u64 + 1 })
        );
    }
}
