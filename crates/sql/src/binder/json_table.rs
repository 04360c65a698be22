//! `JSON_TABLE(…)` in FROM: rows that paths find in JSON, as PostgreSQL 17 has them. It becomes another query.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{
    Expr, JsonTableColumn, JsonTableColumnErrorHandling, JsonTableNamedColumn, JsonTableNestedColumn, Value,
    ValueWithSpan,
};

use super::scope::{Level, Withs};
use super::syntax::{bare_name, written};
use super::{Binder, Rows, normalized, unsupported};
use crate::parse::JSON_PASSING;
use crate::quoting::{literal, quoted};

/// The rows of one path.
struct PathPart<'c> {
    /// The JSON that the path is followed in, as an expression.
    json: String,
    /// The variables of all paths, as an expression: an object.
    variables: &'c str,
    path: String,
    columns: &'c [JsonTableColumn],
}

/// A column of the result: its name, its value where its path's rows are, and its type.
struct Column {
    name: String,
    value: String,
    written: String,
}

impl Binder<'_> {
    /// The rows of JSON_TABLE. Fails with 42601 without columns, 0A000 for columns of types that have parts.
    pub(super) fn json_table(
        &self,
        json: &Expr,
        path: &ValueWithSpan,
        columns: &[JsonTableColumn],
        around: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        let (json, variables) = match json {
            Expr::Function(call) if bare_name(call) == JSON_PASSING => match written(call) {
                [json, variables] => (json.to_string(), variables.to_string()),
                _ => return Err(Error::bug("a JSON_TABLE with variables has two arguments")),
            },
            json => (json.to_string(), "'{}'".to_owned()),
        };
        let part =
            PathPart { json: format!("CAST(({json}) AS jsonb)"), variables: &variables, path: path_of(path)?, columns };
        let mut count = 0;
        let (text, _) = self.rows_of_path(&part, &mut count)?;
        self.query(&crate::parse::query(&text)?, Some(around), withs)
    }

    /// The query of a path's rows, with those of the paths within it, and its columns.
    fn rows_of_path(&self, part: &PathPart<'_>, count: &mut usize) -> Result<(String, Vec<Column>)> {
        *count += 1;
        let (rows, json) = (format!("rows {count}"), format!("json {count}"));
        let (number, own) = (format!("number {count}"), quoted(&json));
        let mut columns = Vec::new();
        let mut nested = Vec::new();
        for column in part.columns {
            match column {
                JsonTableColumn::ForOrdinality(name) => columns.push(Column {
                    name: normalized(name),
                    value: format!("CAST({} AS integer)", quoted(&number)),
                    written: "integer".to_owned(),
                }),
                JsonTableColumn::Named(named) => columns.push(Column {
                    name: normalized(&named.name),
                    value: self.json_column(named, &own, part.variables)?,
                    written: named.r#type.to_string(),
                }),
                JsonTableColumn::Nested(JsonTableNestedColumn { path, columns: within }) => {
                    let (json, path) = (own.clone(), path_of(path)?);
                    let part = PathPart { json, path, columns: within, variables: part.variables };
                    nested.push(self.rows_of_path(&part, count)?);
                }
            }
        }
        let from = format!(
            "jsonb_path_query({}, {}, {}, true) WITH ORDINALITY AS {}({own}, {})",
            part.json,
            part.path,
            part.variables,
            quoted(&rows),
            quoted(&number)
        );
        let mut shown = columns.iter().map(|one| format!("{} AS {}", one.value, quoted(&one.name))).collect::<Vec<_>>();
        let mut text = format!(" FROM {from}");
        if !nested.is_empty() {
            let below = format!("nested {rows}");
            text.push_str(&format!(" LEFT JOIN LATERAL ({}) AS {} ON true", side_by_side(&nested), quoted(&below)));
            for (_, within) in nested {
                for Column { name, written, .. } in within {
                    let value = format!("{}.{}", quoted(&below), quoted(&name));
                    shown.push(format!("{value} AS {}", quoted(&name)));
                    columns.push(Column { value, name, written });
                }
            }
        }
        if shown.is_empty() {
            return Err(Error::input("JSON_TABLE has no columns").with_code("42601"));
        }
        Ok((format!("SELECT {}{text}", shown.join(", ")), columns))
    }

    /// The value of a column in a row's JSON.
    fn json_column(&self, column: &JsonTableNamedColumn, json: &str, variables: &str) -> Result<String> {
        let (written, path) = (column.r#type.to_string(), path_of(&column.path)?);
        if column.exists {
            return Ok(format!("CAST(jsonb_path_exists({json}, {path}, {variables}, true) AS {written})"));
        }
        let sql_type = self.sql_type(&column.r#type)?;
        if matches!(sql_type, SqlType::Array(_) | SqlType::Record(_) | SqlType::Map(_)) {
            let error = unsupported(format!("the type {written} of a column of JSON_TABLE"));
            return Err(error.with_code("0A000").with_hint("take jsonb, and cast what is in it"));
        }
        let found = format!("jsonb_path_query_array({json}, {path}, {variables}, true)");
        let on_empty = match &column.on_empty {
            Some(JsonTableColumnErrorHandling::Error) => {
                format!("CAST(json_failure(jsonb_array_length({found}) = 0, 'nothing') AS {written})")
            }
            other => default_of(other.as_ref(), &written),
        };
        let is_json = matches!(sql_type, SqlType::Json | SqlType::Jsonb);
        let (value, fits) = match is_json {
            true => (format!("({found} -> 0)"), "true".to_owned()),
            false => (format!("({found} ->> 0)"), format!("jsonb_typeof({found} -> 0) NOT IN ('object', 'array')")),
        };
        let fails = matches!(column.on_error, Some(JsonTableColumnErrorHandling::Error));
        let value = match (&column.on_error, fails) {
            (_, true) => format!("CAST({value} AS {written})"),
            (Some(JsonTableColumnErrorHandling::Default(_)), _) if !is_json => format!(
                "CASE WHEN {value} IS NULL THEN NULL ELSE COALESCE(TRY_CAST({value} AS {written}), {}) END",
                default_of(column.on_error.as_ref(), &written)
            ),
            _ => format!("TRY_CAST({value} AS {written})"),
        };
        let otherwise = default_of(column.on_error.as_ref(), &written);
        Ok(format!(
            "CASE WHEN jsonb_array_length({found}) = 0 THEN {on_empty} \
             WHEN jsonb_array_length({found}) = 1 AND {fits} THEN {value} ELSE {otherwise} END"
        ))
    }
}

/// Rows of several paths, one after another, each with NULLs in the columns of the others.
fn side_by_side(nested: &[(String, Vec<Column>)]) -> String {
    if let [(only, _)] = nested {
        return only.clone();
    }
    let queries = nested.iter().enumerate().map(|(own, (text, _))| {
        let columns = nested.iter().enumerate().flat_map(|(place, (_, columns))| {
            columns.iter().map(move |column| match place == own {
                true => quoted(&column.name),
                false => format!("CAST(NULL AS {}) AS {}", column.written, quoted(&column.name)),
            })
        });
        format!("SELECT {} FROM ({text}) AS \"path {own}\"", columns.collect::<Vec<_>>().join(", "))
    });
    queries.collect::<Vec<_>>().join(" UNION ALL ")
}

/// What stands for a value that is not there.
fn default_of(handling: Option<&JsonTableColumnErrorHandling>, written: &str) -> String {
    match handling {
        Some(JsonTableColumnErrorHandling::Default(value)) => format!("CAST({value} AS {written})"),
        _ => format!("CAST(NULL AS {written})"),
    }
}

/// A path, as a literal. Fails with 42601 for anything else.
fn path_of(path: &ValueWithSpan) -> Result<String> {
    match &path.value {
        Value::SingleQuotedString(text) => Ok(literal(text)),
        _ => Err(Error::input("a path of JSON_TABLE is a literal in quotes").with_code("42601")),
    }
}
