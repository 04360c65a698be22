//! Columns of one name: `SELECT 1, 1`, `SELECT name, name`, `SELECT *, upper(name) AS name`.
//!
//! DataFusion wants different names in every SELECT. A statement that it refuses for that reason is planned again with
//! inner names for what comes twice, and [`shown`] has the names to show for them. So statements that plan anyhow are
//! not touched.
//!
//! A cast has the name of what is cast, so `sum(x)` and `sum(x::int)` are two aggregates of one name. Where nothing
//! else helps, a cast becomes `CASE n WHEN n THEN … END`, with a number for each type, which has a name of its own and
//! is folded away.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, DataFusionError, SchemaError};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Distinct, Expr as LogicalExpr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Query, Select, SelectItem, SetExpr, VisitorMut};
use diligence_base::{Error, Result};

use super::walk;
use crate::inner_names::{COMPLAINT, inner, is_inner, is_unnamed, wanted};

/// Plans a statement, with inner names for columns of one name if it does not plan without.
pub(crate) fn planned(
    statement: Statement,
    plan: impl Fn(Statement) -> DataFusionResult<LogicalPlan>,
) -> DataFusionResult<LogicalPlan> {
    let spare = has_select(&statement).then(|| statement.clone());
    let (error, spare) = match (plan(statement), spare) {
        (Err(error), Some(spare)) if is_complaint(&error) => (error, spare),
        (planned, _) => return planned,
    };
    for thorough in [false, true] {
        let mut named = spare.clone();
        let mut names = Names { thorough, ..Names::default() };
        match walk(&mut named, &mut names) {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(never) => match never {},
        }
        if names.given > 0
            && let Ok(planned) = plan(named)
        {
            return Ok(planned);
        }
    }
    Err(error)
}

/// False for what can be large: an INSERT of VALUES is not kept twice.
fn has_select(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => match statement.as_ref() {
            ast::Statement::Insert(insert) => {
                !insert.source.as_ref().is_some_and(|query| matches!(*query.body, SetExpr::Values(_)))
            }
            _ => true,
        },
        // A file's columns need names that differ.
        Statement::CopyTo(_) | Statement::CreateExternalTable(_) | Statement::Reset(_) => false,
        Statement::Explain(explain) => has_select(&explain.statement),
    }
}

fn is_complaint(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::Context(_, error) | DataFusionError::Diagnostic(_, error) => is_complaint(error),
        DataFusionError::Collection(errors) => errors.iter().any(is_complaint),
        DataFusionError::SchemaError(error, _) => {
            matches!(**error, SchemaError::AmbiguousReference { .. } | SchemaError::DuplicateUnqualifiedField { .. })
        }
        DataFusionError::Plan(message) => message.contains(COMPLAINT),
        _ => false,
    }
}

/// Gives inner names.
#[derive(Default)]
struct Names {
    /// Whether every expression without a name gets one: different texts can have the same name.
    thorough: bool,
    /// Names given so far.
    given: usize,
    /// How many queries are around.
    depth: usize,
    /// The types of casts so far.
    types: Vec<String>,
}

impl VisitorMut for Names {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        if self.thorough
            && let Expr::Cast { kind: _, data_type, .. } = expression
        {
            let name = data_type.to_string();
            let number = self.types.iter().position(|other| *other == name).unwrap_or(self.types.len());
            if number == self.types.len() {
                self.types.push(name);
            }
            self.given += 1;
            let number = || Expr::Value(ast::Value::Number(number.to_string(), false).into());
            let when = ast::CaseWhen { condition: number(), result: expression.clone() };
            *expression = Expr::Case {
                case_token: ast::helpers::attached_token::AttachedToken::empty(),
                end_token: ast::helpers::attached_token::AttachedToken::empty(),
                operand: Some(Box::new(number())),
                conditions: vec![when],
                else_result: None,
            };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let star = select.projection.iter().any(star);
        let mut seen = Seen::default();
        for item in &mut select.projection {
            match item {
                SelectItem::UnnamedExpr(expression) => {
                    let name = match expression {
                        Expr::Identifier(name) => Some(normalized(name)),
                        Expr::CompoundIdentifier(names) => names.last().map(normalized),
                        _ => None,
                    };
                    let again = match (&*expression, &name) {
                        (Expr::Identifier(_), Some(name)) => seen.bare(name) || star,
                        (Expr::CompoundIdentifier(_), Some(name)) => {
                            seen.qualified(name, &expression.to_string()) || star
                        }
                        _ => !seen.texts.insert(expression.to_string()) || self.thorough,
                    };
                    if again {
                        let alias = self.inner(name.as_deref(), &expression.to_string());
                        *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
                    }
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    let name = normalized(alias);
                    // Names below the outermost SELECT are names that others use.
                    if seen.bare(&name) || star && self.depth == 1 {
                        *alias = self.inner(Some(&name), &name);
                    }
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

impl Names {
    fn inner(&mut self, name: Option<&str>, text: &str) -> Ident {
        self.given += 1;
        Ident::with_quote('"', inner(name, self.given, text))
    }
}

/// The names in a SELECT list so far.
#[derive(Default)]
struct Seen {
    /// Names without their tables, and those of expressions with AS.
    bare: HashSet<String>,
    /// The same of columns with their tables: `a.x` and `b.x` differ, `x` and `a.x` may not.
    last: HashSet<String>,
    /// Expressions without a name.
    texts: HashSet<String>,
}

impl Seen {
    fn bare(&mut self, name: &str) -> bool {
        !self.bare.insert(name.to_owned()) || self.last.contains(name)
    }

    fn qualified(&mut self, name: &str, text: &str) -> bool {
        self.last.insert(name.to_owned());
        !self.texts.insert(text.to_lowercase()) || self.bare.contains(name)
    }
}

fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The names to show for a plan's columns, if some of them have inner names.
pub(crate) fn shown(plan: &LogicalPlan) -> Option<Vec<String>> {
    let fields = plan.schema().fields();
    if !fields.iter().any(|field| is_inner(field.name())) {
        return None;
    }
    let names = fields.iter().map(|field| {
        let planners = if is_unnamed(field.name()) { unnamed(plan, field.name()) } else { None };
        planners.unwrap_or_else(|| wanted(field.name()).to_owned())
    });
    Some(names.collect())
}

/// The schema with other names for its columns.
pub(crate) fn renamed(schema: &Schema, names: Vec<String>) -> SchemaRef {
    let fields = schema.fields().iter().zip(names).map(|(field, name)| Field::clone(field).with_name(name));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The error for a table or a view with columns of one name.
pub(crate) fn refused(schema: &DFSchema) -> Result<()> {
    let mut names = schema.fields().iter().map(|field| wanted(field.name())).collect::<Vec<_>>();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::input(format!("the column '{}' appears twice", pair[0]))
            .with_hint("give one of them another name with AS")),
        None => Ok(()),
    }
}

/// The name that the planner would have given to the expression behind an inner name.
fn unnamed(plan: &LogicalPlan, name: &str) -> Option<String> {
    let expressions = match plan {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Distinct(Distinct::On(distinct)) => &distinct.select_expr,
        LogicalPlan::Distinct(Distinct::All(input)) => return unnamed(input, name),
        LogicalPlan::Sort(sort) => return unnamed(&sort.input, name),
        LogicalPlan::Limit(limit) => return unnamed(&limit.input, name),
        LogicalPlan::SubqueryAlias(alias) => return unnamed(&alias.input, name),
        LogicalPlan::Union(union) => return unnamed(union.inputs.first()?, name),
        LogicalPlan::Join(join) => return unnamed(&join.left, name),
        _ => return None,
    };
    let found = expressions.iter().find(|expression| expression.qualified_name().1 == name)?;
    match found {
        LogicalExpr::Alias(alias) => Some(alias.expr.qualified_name().1),
        LogicalExpr::Column(column) => plan.inputs().first().and_then(|input| unnamed(input, &column.name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::runtime_env::RuntimeEnv;
    use diligence_base::seams::LocalDisk;
    use diligence_catalog::{Catalog, Rights, SessionCatalogs};
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::planning::golden::statement;
    use crate::{Planner, PlannerOptions, Statement as Planned};

    /// The names that a query's columns are shown with.
    fn names(sql: &str) -> String {
        let (catalog, rights) = (Arc::new(Catalog::default()), Arc::new(Rights::all()));
        let catalogs = SessionCatalogs::new(catalog, Arc::default(), Arc::default(), rights);
        let tables = QueryMemory::unbounded();
        let options = PlannerOptions { paths_are_tables: false, files: Arc::new(LocalDisk), tables };
        match statement(&Planner::new(catalogs, Arc::new(RuntimeEnv::default()), options), sql) {
            Ok(Planned::Query(query)) => {
                let names = query.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
                names.join(", ")
            }
            Ok(other) => panic!("no query: {other:?}"),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn columns_of_one_name_are_shown_with_it() {
        let from = "FROM (VALUES (1, 'x')) AS t(a, b)";
        assert_eq!(names("SELECT 1, 1"), "Int64(1), Int64(1)");
        assert_eq!(names(&format!("SELECT a, a, t.a {from}")), "a, a, a");
        assert_eq!(names(&format!("SELECT *, upper(b) AS b {from} ORDER BY a")), "a, b, b");
        assert_eq!(names(&format!("SELECT count(*), count(*) {from} LIMIT 1")), "count(*), count(*)");
        assert_eq!(names(&format!("SELECT 1 AS \"One\", 2 AS \"One\", b {from}")), "One, One, b");
        assert_eq!(names(&format!("SELECT * FROM (SELECT a, a {from}) AS s")), "a, a");
        assert_eq!(names("SELECT 1, 1 UNION ALL SELECT 2, 2"), "Int64(1), Int64(1)");
    }
}
