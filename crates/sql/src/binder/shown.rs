//! What DuckDB's functions and pragmas tell of a database, queries over the tables of PostgreSQL's catalog; and
//! functions whose arguments are queries.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Query, Value};

use super::scope::Withs;
use super::{Binder, Output, Rows, catalog_queries};
use crate::algebra::{Constant, Relation, Scalar};
use crate::external::OptionValue;
use crate::quoting::literal;

/// A default as DuckDB shows it: literals without types.
const DEFAULT: &str = "regexp_replace(regexp_replace(pg_get_expr(d.adbin, d.adrelid), \
                       '^''(-[0-9.]+)''::[^'']*$', '\\1'), '^(''.*'')::[^'']*$', '\\1')";

/// A table's columns with their defaults and whether they are in its primary key, for a table's oid.
const COLUMNS: &str = "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     LEFT JOIN pg_constraint p ON p.conrelid = a.attrelid AND p.contype = 'p' WHERE a.attnum > 0 \
     AND NOT a.attisdropped AND a.attrelid = ";

/// The query that `query('SELECT …')`, `query_table('t')`, `query_table(['t', 'u'])` and `ts_stat('SELECT …')` stand
/// for; `None` for other functions. Fails with 42601 if it is no literal.
pub(super) fn written_query(name: &str, arguments: &[FunctionArg]) -> Result<Option<String>> {
    if name == "ts_stat" {
        return word_counts(arguments).map(Some);
    }
    if !matches!(name, "query" | "query_table") {
        return Ok(None);
    }
    let texts = match arguments {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(given)), ..] => {
            OptionValue::of(given).and_then(|value| value.texts().ok())
        }
        _ => None,
    };
    let texts = texts.filter(|texts| !texts.is_empty() && (name == "query_table" || texts.len() == 1));
    let texts =
        texts.ok_or_else(|| Error::input(format!("{name}() takes a text that is a literal")).with_code("42601"))?;
    let is_by_name = match arguments.get(1) {
        Some(
            FunctionArg::Unnamed(FunctionArgExpr::Expr(by_name))
            | FunctionArg::Named { arg: FunctionArgExpr::Expr(by_name), .. },
        ) => {
            matches!(OptionValue::of(by_name), Some(OptionValue::One(text)) if text == "true")
        }
        _ => false,
    };
    Ok(Some(match name {
        "query" => texts.concat(),
        _ => {
            let all = texts.iter().map(|table| format!("SELECT * FROM {table}")).collect::<Vec<_>>();
            all.join(if is_by_name { " UNION ALL BY NAME " } else { " UNION ALL " })
        }
    }))
}

/// The query that `ts_stat('SELECT document …', 'weights')` stands for: the words of a query's documents, in how many
/// of these each is and how often, with some weights if they are given. Fails with 42601 for what is no literal.
fn word_counts(arguments: &[FunctionArg]) -> Result<String> {
    let texts = arguments.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(given)) => match OptionValue::of(given) {
            Some(OptionValue::One(text)) => Some(text),
            _ => None,
        },
        _ => None,
    });
    let texts = texts.collect::<Option<Vec<_>>>().filter(|texts| matches!(texts.len(), 1 | 2));
    let wrong = || Error::input("ts_stat() takes a query and weights as literals").with_code("42601");
    let texts = texts.ok_or_else(wrong)?;
    let entries = match texts.get(1) {
        None => "greatest(coalesce(cardinality(u.positions), 1), 1)".to_owned(),
        Some(weights) => format!(
            "(SELECT count(*) FROM unnest(u.weights) AS g(weight) WHERE strpos({}, g.weight) > 0)",
            literal(&weights.to_uppercase())
        ),
    };
    Ok(format!(
        "SELECT word, count(*)::integer AS ndoc, sum(entries)::integer AS nentry FROM (SELECT u.word, {entries} AS \
         entries FROM ({}) AS s(v), unnest(s.v) AS u(word, positions, weights)) AS w WHERE entries > 0 \
         GROUP BY word ORDER BY word ASC",
        texts[0]
    ))
}

/// The query that a function of this name stands for; `None` if it is none of these. Fails with 42601 for arguments
/// that make no sense.
pub(super) fn query_of(name: &str, arguments: &[FunctionArg]) -> Result<Option<String>> {
    if let Some(query) = catalog_queries::of(name) {
        return match arguments {
            [] => Ok(Some(query)),
            _ => Err(Error::input(format!("{name}() takes no arguments")).with_code("42601")),
        };
    }
    if !matches!(name, "pragma_table_info" | "describe table") {
        return Ok(None);
    }
    let table = match arguments {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::SingleQuotedString(table) => Some(table.replace('\'', "''")),
            _ => None,
        },
        _ => None,
    };
    let wrong = || Error::input(format!("{name}() takes the name of a table in quotes")).with_code("42601");
    let table = table.ok_or_else(wrong)?;
    Ok(Some(match name {
        "pragma_table_info" => format!(
            "SELECT (a.attnum - 1)::integer AS cid, a.attname::text AS name, \
             format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS \"notnull\", \
             {DEFAULT} AS dflt_value, coalesce(p.conkey @> ARRAY[a.attnum], false) AS pk \
             {COLUMNS}'{table}'::regclass::oid ORDER BY a.attnum ASC"
        ),
        _ => format!(
            "SELECT a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS column_type, \
             CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS \"null\", \
             CASE WHEN p.conkey @> ARRAY[a.attnum] THEN 'PRI' END AS key, \
             {DEFAULT} AS \"default\", NULL::text AS extra \
             {COLUMNS}'{table}'::regclass::oid ORDER BY a.attnum ASC"
        ),
    }))
}

impl Binder<'_> {
    /// What DESCRIBE says of a query.
    pub(super) fn description(&self, query: &Query, withs: &Withs<'_>) -> Result<Rows> {
        let described = self.settled(self.query(query, None, withs)?)?.columns();
        let null = || Scalar::Constant(Constant::null(SqlType::Text));
        let text = |text: String| Scalar::Constant(Constant::text(text));
        let row = |column: crate::algebra::Column| {
            let sql_type = text(column.sql_type.to_string());
            vec![text(column.name), sql_type, text("YES".to_owned()), null(), null(), null()]
        };
        let names = ["column_name", "column_type", "null", "key", "default", "extra"];
        Ok(self.rows_of_texts(&names, described.into_iter().map(row).collect()))
    }

    /// `duckdb_variables()`: what SET VARIABLE has set, with the values as texts.
    pub(super) fn known_variables(&self) -> Result<Rows> {
        self.is_transient.set(true);
        let text = |text: String| Scalar::Constant(Constant::text(text));
        let row = |(name, value): (String, Constant)| {
            let sql_type = text(value.sql_type.to_string());
            let value = self.explicit(Scalar::Constant(value), &SqlType::Text, false)?;
            Ok(vec![text(name), value, sql_type])
        };
        let rows = self.context.variables().into_iter().map(row).collect::<Result<_>>()?;
        Ok(self.rows_of_texts(&["name", "value", "type"], rows))
    }

    fn rows_of_texts(&self, names: &[&str], rows: Vec<Vec<Scalar>>) -> Rows {
        let columns = names.iter().map(|name| self.numbers.named(*name, SqlType::Text, true)).collect::<Vec<_>>();
        let outputs = columns.iter().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
        let outputs = outputs.collect();
        Rows { relation: Relation::Values { columns, rows }, outputs }
    }
}
