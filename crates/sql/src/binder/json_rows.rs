//! Rows that are made of JSON: `json_to_recordset(…) AS t(a integer, b text)`, `json_populate_record(NULL::t, …)` and
//! their kin. They become other queries.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{DataType, Expr, FunctionArg, FunctionArgExpr, Query, TableAlias, Value};

use super::scope::{Level, Withs};
use super::{Binder, Rows, normalized, unsupported};
use crate::quoting::{literal, quoted};

/// A function that makes rows of JSON.
#[derive(Clone, Copy)]
struct Maker<'n> {
    name: &'n str,
    /// `json` or `jsonb`.
    kind: &'static str,
    /// Whether it takes an array, of which each object is a row.
    is_set: bool,
    /// Whether its first argument is a row, whose columns the rows have.
    has_base: bool,
}

impl<'n> Maker<'n> {
    fn of(name: &'n str) -> Option<Self> {
        let (kind, rest) = match name.strip_prefix("jsonb_") {
            Some(rest) => ("jsonb", rest),
            None => ("json", name.strip_prefix("json_")?),
        };
        let (is_set, has_base) = match rest {
            "to_record" => (false, false),
            "to_recordset" => (true, false),
            "populate_record" => (false, true),
            "populate_recordset" => (true, true),
            _ => return None,
        };
        Some(Self { name, kind, is_set, has_base })
    }

    /// The value of a column of a row, which is called `json`.
    fn column(&self, name: &str, written: &str, sql_type: &SqlType) -> Result<String> {
        let (kind, key) = (self.kind, literal(name));
        let sign = match sql_type {
            SqlType::Json | SqlType::Jsonb => "->",
            SqlType::Array(element) if !matches!(**element, SqlType::Array(_) | SqlType::Record(_)) => {
                let value = format!("(\"json\" -> {key})");
                let text = if matches!(**element, SqlType::Json | SqlType::Jsonb) { "" } else { "_text" };
                // A subquery in CASE is computed for every row.
                return Ok(format!(
                    "CASE {kind}_typeof({value}) WHEN 'array' THEN \
                     ARRAY(SELECT \"element\" FROM {kind}_array_elements{text}(\
                     CASE WHEN {kind}_typeof({value}) = 'array' THEN {value} END) AS \"in\"(\"element\"))::{written} \
                     WHEN 'null' THEN NULL ELSE ({value} #>> '{{}}')::{written} END"
                ));
            }
            SqlType::Array(_) | SqlType::Record(_) => {
                return self.nested(&format!("(\"json\" -> {key})"), written, sql_type);
            }
            _ => "->>",
        };
        Ok(format!("(\"json\" {sign} {key})::{written}"))
    }

    /// A value of a type that is made of the JSON that an expression gives: of an object a row, of an array a list.
    /// Fails with 0A000 for arrays of arrays and structs.
    fn nested(&self, json: &str, written: &str, sql_type: &SqlType) -> Result<String> {
        let kind = self.kind;
        match sql_type {
            SqlType::Json | SqlType::Jsonb => Ok(format!("({json})::{written}")),
            SqlType::Record(fields) if fields.composite_name().is_some() => {
                let field = |field: &RecordField| {
                    let value = format!("({json} -> {})", literal(&field.name));
                    self.nested(&value, &field.sql_type.to_string(), &field.sql_type)
                };
                let fields = fields.iter().map(field).collect::<Result<Vec<_>>>()?.join(", ");
                Ok(format!(
                    "CASE {kind}_typeof({json}) WHEN 'object' THEN ROW({fields})::{written} \
                     WHEN 'null' THEN NULL ELSE ({json} #>> '{{}}')::{written} END"
                ))
            }
            SqlType::Array(element) if !matches!(**element, SqlType::Array(_)) => {
                let value = self.nested("\"element\"", &element.to_string(), element)?;
                Ok(format!(
                    "CASE WHEN {kind}_typeof({json}) = 'array' THEN ARRAY(SELECT {value} FROM \
                     {kind}_array_elements(CASE WHEN {kind}_typeof({json}) = 'array' THEN {json} END) AS \"in\"(\"element\"))::{written} END"
                ))
            }
            SqlType::Array(_) | SqlType::Record(_) => {
                Err(unsupported(format!("the type {written} of a column of {}", self.name)))
            }
            _ => Ok(format!("({json} #>> '{{}}')::{written}")),
        }
    }

    /// The query of its rows with these columns.
    fn query(&self, columns: &[String], base: Option<&Expr>, argument: &Expr) -> Result<Query> {
        let kind = self.kind;
        let elements = match self.is_set {
            true => argument.to_string(),
            false => format!("{kind}_build_array(({argument})::{kind})"),
        };
        let from = format!("{kind}_array_elements({elements}) AS \"set\"(\"json\")");
        let base = base.map(|base| format!("(SELECT {base} AS \"base\") AS \"given\" CROSS JOIN ")).unwrap_or_default();
        crate::parse::query(&format!("SELECT {} FROM {base}{from}", columns.join(", ")))
    }
}

impl Binder<'_> {
    /// The rows of such a function in FROM: a column for each name of the alias, or of the row that it is given. `None`
    /// if it is another function. Fails with 42601 without types, 42804 if what it is given is no row.
    pub(super) fn record_set(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        around: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<Option<Rows>> {
        let Some(maker) = Maker::of(name) else { return Ok(None) };
        if maker.has_base {
            let query = self.populated(maker, arguments, around)?;
            return self.query(&query, Some(around), withs).map(Some);
        }
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = arguments else {
            return Err(Error::input(format!("{name} takes one argument")).with_code("42883"));
        };
        let mut columns = Vec::new();
        for column in alias.map(|alias| alias.columns.as_slice()).unwrap_or_default() {
            let Some(data_type) = &column.data_type else { continue };
            let column = normalized(&column.name);
            let value = maker.column(&column, &data_type.to_string(), &self.sql_type(data_type)?)?;
            columns.push(format!("{value} AS {}", quoted(&column)));
        }
        if columns.is_empty() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(Error::input(message)
                .with_code("42601")
                .with_hint(format!("{name}(…) AS t(a integer, b text)")));
        }
        let query = maker.query(&columns, None, argument)?;
        self.query(&query, Some(around), withs).map(Some)
    }

    /// The row that such a function makes of an object, as an expression; `None` if it is another function.
    pub(super) fn populated_row(
        &self,
        name: &str,
        arguments: &[FunctionArg],
        level: &Level<'_>,
    ) -> Result<Option<Expr>> {
        let Some(maker) = Maker::of(name).filter(|maker| maker.has_base && !maker.is_set) else { return Ok(None) };
        let query = self.populated(maker, arguments, level)?;
        let row = crate::parse::query(&format!("SELECT \"row\" FROM ({query}) AS \"row\""))?;
        Ok(Some(Expr::Subquery(Box::new(row))))
    }

    /// The query of rows with the columns of a row that is given: its values are those that an object leaves out.
    fn populated(&self, maker: Maker<'_>, arguments: &[FunctionArg], level: &Level<'_>) -> Result<Query> {
        let name = maker.name;
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(base)), FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] =
            arguments
        else {
            return Err(
                Error::input(format!("{name} takes a row and a value of type {}", maker.kind)).with_code("42883")
            );
        };
        if let Some(fields) = self.no_row(base)? {
            let column = |(name, sql_type): &(String, SqlType)| {
                let value = maker.column(name, &sql_type.to_string(), sql_type)?;
                Ok(format!("{value} AS {}", quoted(name)))
            };
            return maker.query(&fields.iter().map(column).collect::<Result<Vec<_>>>()?, None, argument);
        }
        let SqlType::Record(fields) = self.scalar(base, level)?.sql_type() else {
            let error = Error::input(format!("first argument of {name} must be a row type")).with_code("42804");
            return Err(error.with_hint(format!("{name}(NULL::t, …) has the columns of the table t")));
        };
        let column = |field: &RecordField| {
            let value = maker.column(&field.name, &field.sql_type.to_string(), &field.sql_type)?;
            let (key, column) = (literal(&field.name), quoted(&field.name));
            Ok(format!(
                "CASE WHEN (\"json\" -> {key}) IS NULL THEN (\"given\".\"base\").{column} ELSE {value} END AS {column}"
            ))
        };
        let columns = fields.iter().map(column).collect::<Result<Vec<_>>>()?;
        maker.query(&columns, Some(base), argument)
    }

    /// The columns of a table, if an expression is no row of it: `NULL::t`.
    fn no_row(&self, base: &Expr) -> Result<Option<Vec<(String, SqlType)>>> {
        match base {
            Expr::Nested(inner) => self.no_row(inner),
            Expr::Cast { expr, data_type: DataType::Custom(name, _), .. } if matches!(expr.as_ref(), Expr::Value(value) if value.value == Value::Null) => {
                self.context.row_columns(name)
            }
            _ => Ok(None),
        }
    }
}
