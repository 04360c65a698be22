//! `JSON_VALUE`, `JSON_QUERY` and `JSON_EXISTS`, as PostgreSQL 17 has them. They become other expressions.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, Value};

use super::Binder;
use super::scope::Level;
use super::syntax::written;
use crate::algebra::Scalar;
use crate::quoting::literal;

/// What is done where nothing is found, or on errors.
struct Behavior<'c> {
    /// `null`, `error`, `default`, `empty`, `object`, `true`, `false`, `unknown`; nothing if it is not said.
    kind: &'c str,
    value: &'c Expr,
}

/// A call with its clauses ([`JSON_CALL`](crate::parse::JSON_CALL)).
struct JsonCall<'c> {
    /// The JSON, as an expression of type jsonb.
    json: String,
    path: &'c Expr,
    variables: String,
    /// The type that is returned, as it is written.
    returns: String,
    is_json: bool,
    wrapper: &'c str,
    omits_quotes: bool,
    on_empty: Behavior<'c>,
    on_error: Behavior<'c>,
}

impl Binder<'_> {
    /// The value of such a call: `value`, `query` or `exists`. Fails with 42601 for what a clause cannot say there.
    pub(super) fn json_call(&self, kind: &str, call: &Function, level: &Level<'_>) -> Result<Scalar> {
        let arguments = written(call).iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Ok(value),
            _ => Err(Error::input("the arguments of functions of JSON have no names").with_code("42601")),
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let [json, path, variables, returns, wrapper, quotes, empty, empty_value, error, error_value] =
            arguments.as_slice()
        else {
            return Err(Error::bug("a function of JSON has ten arguments"));
        };
        let usual = if kind == "query" { "jsonb" } else { "text" };
        let (returns, is_json) = match returns {
            Expr::Cast { data_type, .. } => {
                let is_json = matches!(self.sql_type(data_type)?.base(), SqlType::Json | SqlType::Jsonb);
                (data_type.to_string(), is_json)
            }
            _ => (usual.to_owned(), kind == "query"),
        };
        let call = JsonCall {
            json: format!("CAST(({json}) AS jsonb)"),
            path,
            variables: if is_null(variables) { "'{}'".to_owned() } else { variables.to_string() },
            returns,
            is_json,
            wrapper: said(wrapper).unwrap_or("without"),
            omits_quotes: said(quotes) == Some("omit"),
            on_empty: Behavior { kind: said(empty).unwrap_or_default(), value: empty_value },
            on_error: Behavior { kind: said(error).unwrap_or_default(), value: error_value },
        };
        if call.omits_quotes && call.wrapper != "without" {
            let message = "SQL/JSON QUOTES behavior must not be specified when WITH WRAPPER is used";
            return Err(Error::input(message).with_code("42601"));
        }
        let text = match kind {
            "exists" => call.exists()?,
            "value" => call.value()?,
            _ => call.query()?,
        };
        self.scalar(&crate::parse::expression(&text)?, level)
    }
}

/// The text of a literal.
fn said(value: &Expr) -> Option<&str> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn is_null(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if value.value == Value::Null)
}

impl JsonCall<'_> {
    /// A function of the path, which is NULL after an error that is not to be raised.
    fn followed(&self, function: &str) -> String {
        let is_silent = self.on_error.kind != "error";
        format!("{function}({}, ({}), {}, {is_silent})", self.json, self.path, self.variables)
    }

    fn exists(&self) -> Result<String> {
        let found = self.followed("jsonb_path_exists");
        let otherwise = match self.on_error.kind {
            "" | "false" => "false",
            "true" => "true",
            "unknown" | "error" => return Ok(found),
            other => return Err(invalid(other, "ON ERROR", "JSON_EXISTS()")),
        };
        Ok(format!("CASE WHEN {} IS NULL THEN NULL ELSE COALESCE({found}, {otherwise}) END", self.json))
    }

    fn value(&self) -> Result<String> {
        const FUNCTION: &str = "JSON_VALUE()";
        let found = self.followed("jsonb_path_query_array");
        let text = format!("({found} ->> 0)");
        let is_empty = format!("jsonb_array_length({found}) = 0");
        let are_many = format!("({found} IS NULL OR jsonb_array_length({found}) > 1)");
        let is_nested = format!("jsonb_typeof({found} -> 0) IN ('object', 'array')");
        let on_empty = self.otherwise(&self.on_empty, &is_empty, "nothing", FUNCTION)?;
        let on_many = self.otherwise(&self.on_error, &are_many, "many values", FUNCTION)?;
        let on_nested = self.otherwise(&self.on_error, &is_nested, "no scalar", FUNCTION)?;
        let value = self.cast(&text, &on_nested);
        Ok(format!(
            "CASE WHEN {} IS NULL THEN CAST(NULL AS {}) WHEN {is_empty} THEN {on_empty} WHEN {are_many} THEN {on_many} \
             WHEN {is_nested} THEN {on_nested} ELSE {value} END",
            self.json, self.returns
        ))
    }

    fn query(&self) -> Result<String> {
        const FUNCTION: &str = "JSON_QUERY()";
        let found = self.followed("jsonb_path_query_array");
        let is_empty = format!("jsonb_array_length({found}) = 0");
        let are_many = match self.wrapper {
            "without" => format!("({found} IS NULL OR jsonb_array_length({found}) > 1)"),
            _ => format!("{found} IS NULL"),
        };
        let on_empty = self.otherwise(&self.on_empty, &is_empty, "nothing", FUNCTION)?;
        let on_many = self.otherwise(&self.on_error, &are_many, "many items", FUNCTION)?;
        let item = match self.wrapper {
            "with" => found.clone(),
            "conditional" => format!("CASE WHEN jsonb_array_length({found}) = 1 THEN {found} -> 0 ELSE {found} END"),
            _ => format!("({found} -> 0)"),
        };
        let value = match (self.omits_quotes, self.is_json) {
            (true, _) => self.cast(&format!("({item} #>> '{{}}')"), &on_many),
            (false, true) => format!("CAST({item} AS {})", self.returns),
            (false, false) => self.cast(&format!("CAST({item} AS text)"), &on_many),
        };
        Ok(format!(
            "CASE WHEN {} IS NULL THEN CAST(NULL AS {}) WHEN {is_empty} THEN {on_empty} WHEN {are_many} THEN {on_many} \
             ELSE {value} END",
            self.json, self.returns
        ))
    }

    /// A text in the type that is returned, or what is there instead if it is none of it.
    fn cast(&self, text: &str, otherwise: &str) -> String {
        let returns = &self.returns;
        match self.on_error.kind {
            "error" => format!("CAST({text} AS {returns})"),
            "" | "null" => format!("TRY_CAST({text} AS {returns})"),
            _ => format!(
                "CASE WHEN {text} IS NULL THEN NULL ELSE COALESCE(TRY_CAST({text} AS {returns}), {otherwise}) END"
            ),
        }
    }

    /// What is there instead of a value under a condition. Fails with 42601 if the function does not know it.
    fn otherwise(&self, behavior: &Behavior<'_>, condition: &str, failure: &str, function: &str) -> Result<String> {
        let returns = &self.returns;
        Ok(match behavior.kind {
            "" | "null" => format!("CAST(NULL AS {returns})"),
            "default" => format!("CAST(({}) AS {returns})", behavior.value),
            "error" => format!("CAST(json_failure({condition}, {}) AS {returns})", literal(failure)),
            "empty" if function == "JSON_QUERY()" => format!("CAST('[]' AS {returns})"),
            "object" if function == "JSON_QUERY()" => format!("CAST('{{}}' AS {returns})"),
            other => return Err(invalid(other, "ON ERROR", function)),
        })
    }
}

fn invalid(kind: &str, clause: &str, function: &str) -> Error {
    let message = format!("invalid {clause} behavior");
    let detail = format!("{} is not allowed in {clause} for {function}.", kind.to_uppercase());
    Error::input(message).with_code("42601").with_detail(detail)
}
