//! Rows turned into columns and back, and what describes a query's columns: PIVOT, UNPIVOT, SUMMARIZE.
//! They become other queries.

use std::collections::HashSet;
use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::aggregates;
use diligence_types::sql_type::Category;
use sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, FunctionArg, FunctionArgExpr, Ident, PivotValueSource, Query, SelectItem,
    SetExpr, TableFactor, TableWithJoins, Value,
};

use super::aggregates::is_other_form;
use super::scope::{Level, Withs};
use super::syntax::{bare_name, unnested, written};
use super::{Binder, Rows, normalized, place, placed, unsupported};
use crate::parse::{PIVOT_GROUPS, PIVOT_PRODUCT, PIVOT_VALUE};
use crate::quoting::{literal, quoted};
use crate::walking::{each_expression, each_expression_mut};

/// Columns that an UNPIVOT makes values of: what they are called together, and each with the text of its value.
type Turned = (String, Vec<(String, String)>);

/// Values that a PIVOT makes columns of at most.
const PIVOT_VALUES_MAX: usize = 10_000;

/// A call of `COLUMNS` whose columns are arguments of what is around it.
pub(super) const UNPACKED: &str = "unpacked columns";

pub(super) fn is_columns(name: &str) -> bool {
    name == "columns" || name == UNPACKED || name.starts_with("columns ")
}

/// A query whose innermost FROM is a table factor.
fn over(sql: &str, table: &TableFactor) -> Result<Query> {
    let mut query = crate::parse::query(sql)?;
    read_from(&mut query.body, table);
    Ok(query)
}

/// The column of which UNPIVOT takes the value, and that value; `None` for an expression of several columns or of none.
fn turned_column(expression: &Expr) -> Option<(String, String)> {
    let mut names = Vec::new();
    let done = each_expression(expression, |part| {
        match part {
            Expr::Identifier(name) => names.push(normalized(name)),
            Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(normalized)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue());
    names.sort();
    names.dedup();
    let [name] = <[String; 1]>::try_from(names).ok()?;
    let value = match unnested(expression) {
        Expr::Identifier(_) => quoted(&name),
        other => other.to_string(),
    };
    Some((name, value))
}

/// A column of UNPIVOT by the name that the table has for it, if it has it in other capitals only.
fn in_capitals((column, value): (String, String), names: &[String]) -> (String, String) {
    if names.contains(&column) {
        return (column, value);
    }
    match names.iter().find(|name| name.eq_ignore_ascii_case(&column)) {
        Some(name) if value == quoted(&column) => (name.clone(), quoted(name)),
        Some(name) => (name.clone(), value),
        None => (column, value),
    }
}

/// The expressions of a row, or the only one.
fn parts_of(expression: &Expr) -> Vec<Expr> {
    match unnested(expression) {
        Expr::Tuple(parts) => parts.clone(),
        other => vec![other.clone()],
    }
}

/// What PIVOT computes, which may be more than an aggregate.
fn pivot_value(expression: &Expr) -> &Expr {
    match expression {
        Expr::Function(function) if bare_name(function) == PIVOT_VALUE => match written(function) {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => value,
            _ => expression,
        },
        other => other,
    }
}

/// Lets the aggregates of an expression count the rows for which a condition is true, beside their own FILTER; false if
/// there are none.
fn filter_aggregates(expression: &mut Expr, condition: &Expr) -> bool {
    let mut has_aggregates = false;
    let done = each_expression_mut(expression, |part| {
        if let Expr::Function(function) = part {
            let name = bare_name(function);
            if !aggregates(&name).is_empty() || is_other_form(&name) {
                has_aggregates = true;
                let own = function.filter.take().map(Expr::Nested);
                let condition = condition.clone();
                function.filter = Some(Box::new(match own {
                    None => condition,
                    Some(own) => Expr::BinaryOp {
                        left: Box::new(own),
                        op: BinaryOperator::And,
                        right: Box::new(Expr::Nested(Box::new(condition))),
                    },
                }));
            }
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue());
    // It may be an aggregate that a statement has made.
    if let (false, Expr::Function(function)) = (has_aggregates, expression) {
        function.filter = Some(Box::new(condition.clone()));
        return true;
    }
    has_aggregates
}

fn read_from(body: &mut SetExpr, table: &TableFactor) {
    let SetExpr::Select(select) = body else { return };
    match select.from.first_mut() {
        Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) => {
            read_from(&mut subquery.body, table);
        }
        Some(part) => part.relation = table.clone(),
        None => {}
    }
}

/// The text of a value that names a column.
pub(super) fn value_name(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.clone(),
            Value::Number(number, _) => number.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

impl Binder<'_> {
    /// `t PIVOT (sum(v) FOR k IN ('a', 'b'))`: the aggregates of the rows of each value, by all other columns. Fails
    /// with 0A000 if the values are not known.
    pub(super) fn pivot(
        &self,
        table: &TableFactor,
        aggregates: &[ExprWithAlias],
        by: &[Expr],
        values: &PivotValueSource,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        let (product, found);
        let (by, values) = match self.pivot_product(table, by, withs)? {
            Some((parts, combined)) => {
                product = (parts, PivotValueSource::List(combined));
                (product.0.as_slice(), &product.1)
            }
            None => (by, values),
        };
        let values = match values {
            PivotValueSource::List(values) => values,
            PivotValueSource::Any(_) => {
                found = self.pivot_values(table, by, withs)?;
                &found
            }
            PivotValueSource::Subquery(query) => {
                found = self.pivot_values_of(query, withs)?;
                &found
            }
        };
        let (groups, aggregates) = match aggregates {
            [ExprWithAlias { expr: Expr::Function(first), .. }, others @ ..] if bare_name(first) == PIVOT_GROUPS => {
                let columns = written(first).iter().map(ToString::to_string).collect::<Vec<_>>();
                (Some(columns.join(", ")), others)
            }
            _ => (None, aggregates),
        };
        let mut used = Vec::new();
        let mut note = |expression: &Expr| {
            let found = each_expression(expression, |part| {
                match part {
                    Expr::Identifier(name) => used.push(normalized(name)),
                    Expr::CompoundIdentifier(names) => used.extend(names.last().map(normalized)),
                    _ => {}
                }
                ControlFlow::Continue(())
            });
            debug_assert!(found.is_continue());
        };
        by.iter().for_each(&mut note);
        aggregates.iter().for_each(|aggregate| note(&aggregate.expr));
        used.sort();
        used.dedup();
        let excluded = used.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let rows = groups.unwrap_or_else(|| format!("* EXCLUDE ({excluded})"));
        let mut query = over(&format!("SELECT {rows} FROM t GROUP BY ALL"), table)?;
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(Error::bug("a SELECT is one")) };
        for value in values {
            let parts = match (by.len(), unnested(&value.expr)) {
                (1, one) => vec![one],
                (_, Expr::Tuple(parts)) => parts.iter().collect(),
                (_, one) => vec![one],
            };
            if parts.len() != by.len() {
                let error = Error::input("a value of PIVOT has as many parts as there are columns").with_code("42601");
                return Err(placed(error, || place(&value.expr)));
            }
            let named = parts.iter().map(|part| value_name(part)).collect::<Vec<_>>().join("_");
            let named = value.alias.as_ref().map_or(named, normalized);
            let conditions = by.iter().zip(&parts).map(|(by, part)| match part {
                Expr::Value(value) if value.value == Value::Null => format!("({by}) IS NULL"),
                part => format!("({by}) = ({part})"),
            });
            let conditions = conditions.collect::<Vec<_>>();
            let condition = self.parsed(&conditions.join(" AND "))?;
            for aggregate in aggregates {
                let mut value = pivot_value(&aggregate.expr).clone();
                if !filter_aggregates(&mut value, &condition) {
                    let error = Error::input("PIVOT takes aggregates").with_code("42803");
                    return Err(placed(error, || place(&aggregate.expr)));
                }
                let name = match (&aggregate.alias, aggregates.len()) {
                    (Some(alias), _) => format!("{named}_{}", normalized(alias)),
                    (None, 1) => named.clone(),
                    (None, _) => format!("{named}_{}", self.column_name(pivot_value(&aggregate.expr))),
                };
                let alias = Ident::with_quote('"', name);
                select.projection.push(SelectItem::ExprWithAlias { expr: value, alias });
            }
        }
        self.query(&query, outer, withs)
    }

    /// What PIVOT is by and its values, where it is by several things: all combinations of the values of each.
    fn pivot_product(
        &self,
        table: &TableFactor,
        by: &[Expr],
        withs: &Withs<'_>,
    ) -> Result<Option<(Vec<Expr>, Vec<ExprWithAlias>)>> {
        let [Expr::Function(product)] = by else { return Ok(None) };
        if bare_name(product) != PIVOT_PRODUCT {
            return Ok(None);
        }
        let (mut parts, mut combined) = (Vec::new(), vec![Vec::<Expr>::new()]);
        for argument in written(product) {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else {
                return Err(Error::bug("PIVOT is by what is no expression"));
            };
            let (by, values) = match argument {
                Expr::Tuple(all) => (&all[0], all[1..].to_vec()),
                one => {
                    let by = unnested(one);
                    let values = self.pivot_values(table, std::slice::from_ref(by), withs)?;
                    (by, values.into_iter().map(|value| value.expr).collect())
                }
            };
            parts.push(by.clone());
            let more = combined
                .iter()
                .flat_map(|row| values.iter().map(move |value| row.iter().chain([value]).cloned().collect::<Vec<_>>()));
            combined = more.collect();
            if combined.len() > PIVOT_VALUES_MAX {
                let message = format!("PIVOT gives more than {PIVOT_VALUES_MAX} columns");
                return Err(Error::input(message).with_code("54000").with_hint("list the values with IN (…)"));
            }
        }
        let row = |row| ExprWithAlias { expr: Expr::Tuple(row), alias: None };
        Ok(Some((parts, combined.into_iter().map(row).collect())))
    }

    /// The values that there are of what PIVOT is by, in order; those with NULL become no columns. Fails with 54000 if
    /// they are very many.
    fn pivot_values(&self, table: &TableFactor, by: &[Expr], withs: &Withs<'_>) -> Result<Vec<ExprWithAlias>> {
        let join = |parts: Vec<String>, between: &str| parts.join(between);
        let shown = join(by.iter().map(|by| format!("({by})::text")).collect(), ", ");
        let keys = join(by.iter().map(|by| format!("({by})")).collect(), ", ");
        let order = join(by.iter().map(|by| format!("({by}) ASC")).collect(), ", ");
        let there = join(by.iter().map(|by| format!("({by}) IS NOT NULL")).collect(), " AND ");
        let text = format!(
            "SELECT {shown} FROM t WHERE {there} GROUP BY {keys} ORDER BY {order} LIMIT {}",
            PIVOT_VALUES_MAX + 1
        );
        let rows = self.context.texts_of(&withs.around(over(&text, table)?))?;
        self.is_transient.set(true);
        if rows.len() > PIVOT_VALUES_MAX {
            let error = Error::resource(format!("PIVOT makes at most {PIVOT_VALUES_MAX} columns")).with_code("54000");
            return Err(error.with_hint("list the values that are wanted: PIVOT t ON k IN ('a', 'b') USING sum(v)"));
        }
        let value = |row: &Vec<Option<String>>| {
            let parts = row.iter().map(|part| literal(part.as_deref().unwrap_or_default()));
            let parts = parts.collect::<Vec<_>>();
            let expression = match parts.as_slice() {
                [one] => one.clone(),
                parts => format!("({})", parts.join(", ")),
            };
            Ok(ExprWithAlias { expr: self.parsed(&expression)?, alias: None })
        };
        rows.iter().map(value).collect()
    }

    /// The values that a query gives, each once, in the order in which they come; NULL becomes no column. Fails with
    /// 54000 if they are very many.
    fn pivot_values_of(&self, query: &Query, withs: &Withs<'_>) -> Result<Vec<ExprWithAlias>> {
        let table = format!("({query}) AS \"values\"(\"value\")");
        let text = format!("SELECT \"value\"::text FROM {table} LIMIT {}", PIVOT_VALUES_MAX + 1);
        let rows = self.context.texts_of(&withs.around(crate::parse::query(&text)?))?;
        self.is_transient.set(true);
        if rows.len() > PIVOT_VALUES_MAX {
            let message = format!("PIVOT makes at most {PIVOT_VALUES_MAX} columns");
            return Err(Error::resource(message).with_code("54000"));
        }
        let mut met = HashSet::new();
        let texts = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        let texts = texts.filter(|text| met.insert(text.clone())).collect::<Vec<_>>();
        texts.iter().map(|text| Ok(ExprWithAlias { expr: self.parsed(&literal(text))?, alias: None })).collect()
    }

    fn parsed(&self, expression: &str) -> Result<Expr> {
        let query = crate::parse::query(&format!("SELECT {expression}"))?;
        match *query.body {
            SetExpr::Select(select) => match select.projection.into_iter().next() {
                Some(SelectItem::UnnamedExpr(expression)) => Ok(expression),
                _ => Err(Error::bug("an expression is one")),
            },
            _ => Err(Error::bug("a SELECT is one")),
        }
    }

    /// Which columns each group of columns of an UNPIVOT takes, what it is called, and what its values are. `names` are
    /// all of the table.
    fn turned_columns(&self, columns: &[ExprWithAlias], names: &[String]) -> Result<Vec<Turned>> {
        let mut shown = Vec::new();
        for column in columns {
            match &column.expr {
                Expr::Function(function) if is_columns(&bare_name(function)) => {
                    let chosen = self.chosen_columns(&column.expr, names)?.into_iter();
                    shown.extend(chosen.map(|(name, _)| (name.clone(), vec![(name.clone(), quoted(&name))])));
                }
                other => {
                    let parts = parts_of(other);
                    let found = parts.iter().map(turned_column).collect::<Option<Vec<_>>>();
                    let found =
                        found.ok_or_else(|| placed(unsupported("UNPIVOT of an expression"), || place(other)))?;
                    let found = found.into_iter().map(|column| in_capitals(column, names)).collect::<Vec<_>>();
                    let own = || found.iter().map(|(column, _)| column.as_str()).collect::<Vec<_>>().join("_");
                    shown.push((column.alias.as_ref().map_or_else(own, normalized), found));
                }
            }
        }
        Ok(shown)
    }

    /// `t UNPIVOT (v FOR n IN (a, b))`: a row for each of the columns that is not NULL.
    pub(super) fn unpivot(
        &self,
        table: &TableFactor,
        (name, value): (&Ident, &Expr),
        columns: &[ExprWithAlias],
        keeps_nulls: bool,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        let into = parts_of(value);
        let values = into.iter().map(|value| match value {
            Expr::Identifier(value) => Ok(quoted(&normalized(value))),
            other => Err(placed(unsupported("UNPIVOT into what is no name"), || place(other))),
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let name = quoted(&normalized(name));
        let rows = self.settled(self.query(&over("SELECT * FROM t", table)?, outer, withs)?)?;
        let names = rows.outputs.iter().map(|output| output.name.clone()).collect::<Vec<_>>();
        let shown = self.turned_columns(columns, &names)?;
        if let Some((label, found)) = shown.iter().find(|(_, found)| found.len() != values.len()) {
            let message = format!("UNPIVOT has {} values, but {} columns for {label}", values.len(), found.len());
            return Err(Error::input(message).with_code("42601"));
        }
        let join = |parts: Vec<String>| parts.join(", ");
        let mut taken = shown.iter().flat_map(|(_, found)| found).map(|(column, _)| quoted(column)).collect::<Vec<_>>();
        taken.sort();
        taken.dedup();
        let taken = join(taken);
        let names = join(shown.iter().map(|(label, _)| literal(label)).collect());
        let rows = values.iter().enumerate().map(|(place, value)| {
            let parts = join(shown.iter().map(|(_, found)| found[place].1.clone()).collect());
            format!("unnest(ARRAY[{parts}]) AS {value}")
        });
        let rows = join(rows.collect());
        let are_there = values.iter().map(|value| format!("{value} IS NOT NULL")).collect::<Vec<_>>().join(" AND ");
        let kept = if keeps_nulls { String::new() } else { format!(" WHERE {are_there}") };
        let inner = format!("SELECT * EXCLUDE ({taken}), unnest(ARRAY[{names}]) AS {name}, {rows} FROM t");
        self.query(&over(&format!("SELECT * FROM ({inner}) AS \"unpivoted\"{kept}"), table)?, outer, withs)
    }

    /// SUMMARIZE: a row for each column of a query, with its type, extremes, number of values, mean and quartiles.
    pub(super) fn summary(&self, query: &Query, outer: Option<&Level<'_>>, withs: &Withs<'_>) -> Result<Rows> {
        let rows = self.settled(self.query(query, outer, withs)?)?;
        let mut parts = Vec::new();
        for (index, column) in rows.columns().iter().enumerate() {
            let name = format!("c{index}");
            let is_comparable = !matches!(
                &column.sql_type,
                SqlType::Json
                    | SqlType::Jsonb
                    | SqlType::Record(_)
                    | SqlType::Map(_)
                    | SqlType::Bytea
                    | SqlType::Range(_)
                    | SqlType::Multirange(_)
                    | SqlType::Search(_)
                    | SqlType::Void
            ) && !matches!(&column.sql_type, SqlType::Network(kind) if !kind.is_internet())
                && column.sql_type.element().is_none_or(is_plain);
            let compared = match &column.sql_type {
                SqlType::Uuid => format!("{name}::text"),
                _ => name.clone(),
            };
            let is_number = column.sql_type.category() == Category::Numeric;
            let has_quartiles = is_number || column.sql_type.category() == Category::DateTime;
            let when = |is_there: bool, value: String| if is_there { value } else { "NULL::text".to_owned() };
            let quartile = |share: &str| {
                let quantile = if is_number { "quantile_cont" } else { "quantile_disc" };
                when(has_quartiles, format!("{quantile}({name}, {share})::text"))
            };
            parts.push(format!(
                "SELECT {index} AS \"index\", {} AS column_name, {} AS column_type, {} AS min, {} AS max, \
                 {} AS approx_unique, {} AS avg, {} AS std, {} AS q25, {} AS q50, {} AS q75, count(*) AS count, \
                 CASE WHEN count(*) > 0 THEN round(100.0 * (count(*) - count({name})) / count(*), 2) END \
                 AS null_percentage FROM \"summarized\"",
                literal(&column.name),
                literal(&column.sql_type.to_string()),
                when(is_comparable, format!("min({compared})::text")),
                when(is_comparable, format!("max({compared})::text")),
                if is_comparable { format!("approx_count_distinct({name})") } else { "NULL::bigint".to_owned() },
                when(is_number, format!("avg({name}::double precision)::text")),
                when(is_number, format!("stddev({name}::double precision)::text")),
                quartile("0.25"),
                quartile("0.5"),
                quartile("0.75"),
            ));
        }
        if parts.is_empty() {
            return Err(Error::input("a query without columns has no summary").with_code("42601"));
        }
        let names = (0..parts.len()).map(|index| format!("c{index}")).collect::<Vec<_>>().join(", ");
        let mut summary = crate::parse::query(&format!(
            "WITH \"summarized\"({names}) AS (SELECT 1) SELECT * EXCLUDE (\"index\") FROM ({}) AS \"summary\" \
             ORDER BY \"summary\".\"index\" ASC",
            parts.join(" UNION ALL ")
        ))?;
        if let Some(table) = summary.with.as_mut().and_then(|with| with.cte_tables.first_mut()) {
            *table.query = query.clone();
        }
        self.query(&summary, outer, withs)
    }
}

/// Whether lists of a type have extremes.
fn is_plain(element: &SqlType) -> bool {
    matches!(
        element.category(),
        Category::Numeric | Category::String | Category::DateTime | Category::Boolean | Category::Timespan
    )
}
