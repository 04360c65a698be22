//! `POST /v1/sql`: one statement, or a script that is one transaction.
//!
//! The body is JSON, `{"sql": "…", "parameters": [1, "a", null], "timeout_ms": 5000, "transaction": true}`, or the
//! statement alone as `application/sql`. Other types are refused: those are what a page of somebody else could send.
//! The header `Diligence-Transaction` stands for `transaction`; instead of `true` both may name an isolation.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use diligence_base::{Error, Result};
use diligence_db::{Isolation, Session, SqlType};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::placeholders::numbered;
use super::rows::response;
use super::script::{answer_of, command_json};
use super::{Caller, QUEUE_HEADER, failure, notices, queue_header, unless_stopped, wanted_types, within};
use crate::encoding::formats::Format;
use crate::encoding::parameters::{decimal, list_of, without_zero};
use crate::execution::{Allowed, Attempts, RunningStatement, ScriptStatement, StatementExecution};
use crate::service::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the member 'sql'")]
struct SqlRequest {
    sql: String,
    /// As they are written: numbers have more digits than `Value` keeps.
    #[serde(default)]
    parameters: Vec<Box<RawValue>>,
    timeout_ms: Option<u64>,
    transaction: Option<Value>,
}

/// The header that makes a script one transaction.
const TRANSACTION_HEADER: &str = "diligence-transaction";

/// Runs the statement.
pub(super) async fn run(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let named = match named_format(uri.query().unwrap_or_default()) {
        Ok(named) => named,
        Err(error) => return failure(&error),
    };
    let Some(format) = named.or_else(|| Format::accepted(wanted_types(&headers), false)) else {
        let error = Error::input(
            "rows come as application/json, application/x-ndjson, text/csv or \
                                  application/vnd.apache.arrow.stream",
        );
        return (StatusCode::NOT_ACCEPTABLE, axum::Json(super::error_json(&error))).into_response();
    };
    answer(&service, &caller, &headers, &body, format).await.unwrap_or_else(|error| failure(&error))
}

/// The format that the address names, as in `?format=csv`, instead of the header `Accept`. Fails with code 22023 for
/// another one, and for what else it says.
fn named_format(query: &str) -> Result<Option<Format>> {
    let mut named = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "format" {
            let error = Error::input(format!("the parameter '{name}' is not known")).with_code("22023");
            return Err(error.with_hint("there is 'format'; the statement and its values are in the body"));
        }
        let format = Format::named(&value).filter(|format| *format != Format::Html).ok_or_else(|| {
            let error = Error::input(format!("no format of rows is named '{value}'")).with_code("22023");
            error.with_hint("the formats are json, jsonl, csv and arrow")
        })?;
        named = Some(format);
    }
    Ok(named)
}

async fn answer(
    service: &Arc<Service>,
    caller: &Caller,
    headers: &HeaderMap,
    body: &[u8],
    format: Format,
) -> Result<Response> {
    let request = read(headers, body)?;
    let (session, entry) = caller.session(service)?;
    entry.does(Some(&request.sql));
    let execution = service.execution();
    let values = request.parameters.iter().map(|written| value(written)).collect::<Result<Vec<_>>>()?;
    let limit = request.timeout_ms.map_or(service.options().limits.statement_time_max, Duration::from_millis);
    let (limit, asker) = (caller.role.time(limit), caller.asker());
    if let Some(isolation) = isolation_of(headers, request.transaction.as_ref())? {
        let script = Script { service, caller, session: &session, isolation, format };
        let statements = statements_of(execution, request.sql, &values).await?;
        return unless_stopped(entry.told(), within(limit, script.run(&statements))).await;
    }
    let told = entry.told();
    let started = async {
        let parsed = execution.parse(&session, request.sql).await?;
        let running = execution.start(&session, &asker, &parsed, values, Allowed::Anything).await?;
        let printed = running.printed();
        let answered = match running.is_command() {
            true => command(&session, running).await,
            false => response(service, running, format, entry).await,
        };
        // What was said before an error may tell how it came about.
        Ok(answered.unwrap_or_else(|error| {
            let mut answer = failure(&error);
            notices::add_header(&mut answer, &notices::taken(&printed));
            answer
        }))
    };
    unless_stopped(told, within(limit, started)).await
}

/// Does a command's work. What the end of its transaction has said is said as well.
async fn command(session: &Session, running: RunningStatement) -> Result<Response> {
    let (queue, printed) = (queue_header(running.passed()), running.printed());
    let done = running.finish().await?;
    let mut said = [notices::taken(&printed), notices::taken(session.printed())].concat();
    said.extend(notices::of_short_session(&done.tag));
    let mut answer = axum::Json(command_json(&done, &said)).into_response();
    answer.headers_mut().insert(QUEUE_HEADER, queue);
    Ok(answer)
}

/// A script that is one transaction.
struct Script<'a> {
    service: &'a Arc<Service>,
    caller: &'a Caller,
    session: &'a Session,
    isolation: Isolation,
    format: Format,
}

impl Script<'_> {
    /// Runs it; once more where others were in the way. Fails with the error of a statement or of the commit.
    async fn run(&self, statements: &[ScriptStatement]) -> Result<Response> {
        let mut attempts = Attempts::default();
        loop {
            match self.attempt(statements).await {
                Err(error) if attempts.again(&error).await => {}
                ended => return ended,
            }
        }
    }

    async fn attempt(&self, statements: &[ScriptStatement]) -> Result<Response> {
        let execution = self.service.execution();
        let block = execution.begin(self.session, self.isolation)?;
        let done = block.run(&self.caller.asker(), statements).await?;
        let answer = answer_of(execution, done, self.format).await?;
        block.commit().await?;
        Ok(answer)
    }
}

/// The statements of a script. Each has those of the values that it names.
async fn statements_of(
    execution: &StatementExecution,
    script: String,
    values: &[ArrayRef],
) -> Result<Vec<ScriptStatement>> {
    let statements = execution.statements_of(script).await?.into_iter().map(|statement| {
        let (sql, names) = numbered(&statement);
        let value = |name: &str| {
            let place = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            place.and_then(|place| values.get(place)).cloned().ok_or_else(|| {
                let error = Error::input(format!("there is no value for ${name}: there are {}", values.len()));
                error.with_code("08P01")
            })
        };
        let values = names.into_iter().map(value).collect::<Result<_>>()?;
        Ok(ScriptStatement { sql, values })
    });
    statements.collect()
}

/// What the request's transaction sees of others; `None` if it is none. Fails with code 22023 if that is not told in a
/// known way, or in two.
fn isolation_of(headers: &HeaderMap, member: Option<&Value>) -> Result<Option<Isolation>> {
    let header = headers.get(TRANSACTION_HEADER).map(|value| Value::from(value.to_str().unwrap_or_default()));
    let told = match (&header, member) {
        (Some(_), Some(_)) => {
            let error = Error::input("the transaction is asked for in a header and in the body");
            return Err(error.with_code("22023").with_hint("leave out one of them"));
        }
        (header, member) => header.as_ref().or(member),
    };
    match told {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(Isolation::default())),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(Isolation::default())),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(None),
        Some(other) => {
            let known = other.as_str().and_then(super::isolation);
            let error = || {
                let error = Error::input(format!("{other} is no transaction")).with_code("22023");
                error.with_hint("it is true, or one of: read committed, repeatable read, serializable")
            };
            known.map(Some).ok_or_else(error)
        }
    }
}

fn read(headers: &HeaderMap, body: &[u8]) -> Result<SqlRequest> {
    super::refuse_encoded(headers)?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => serde_json::from_slice(body).map_err(|error| {
            let error = Error::input(format!("the request is not as expected: {error}")).with_code("22023");
            error.with_hint(r#"write it like {"sql": "SELECT $1", "parameters": [1], "timeout_ms": 5000}"#)
        }),
        "application/sql" => {
            let sql = std::str::from_utf8(body).map_err(|_| Error::input("the statement is not valid UTF-8"))?;
            Ok(SqlRequest { sql: sql.to_owned(), parameters: vec![], timeout_ms: None, transaction: None })
        }
        other => Err(Error::input(format!("a request of type '{other}' is not taken"))
            .with_hint("send Content-Type: application/json or application/sql")),
    }
}

/// A parameter from JSON.
fn value(written: &RawValue) -> Result<ArrayRef> {
    let wrong = |error: serde_json::Error| Error::input(format!("a parameter is no JSON: {error}")).with_code("22023");
    let text = written.get();
    match text.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => number(text),
        Some(b'[') => list(&serde_json::from_str::<Vec<Box<RawValue>>>(text).map_err(wrong)?),
        // As text, which is read as json where that is wanted.
        Some(b'{') => Ok(Arc::new(StringViewArray::from_iter_values([text]))),
        _ => Ok(match serde_json::from_str(text).map_err(wrong)? {
            Value::Bool(flag) => Arc::new(BooleanArray::from(vec![flag])),
            Value::String(text) => Arc::new(StringViewArray::from_iter_values([without_zero(&text)?])),
            _ => new_null_array(&DataType::Utf8View, 1),
        }),
    }
}

/// A number with all of its digits: a decimal if neither an integer nor a float has them.
fn number(text: &str) -> Result<ArrayRef> {
    if let Ok(whole) = text.parse::<i64>() {
        return Ok(Arc::new(Int64Array::from(vec![whole])));
    }
    let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
    match double {
        Some(double) if text.contains(['e', 'E']) || digits(text) == digits(&format!("{double:e}")) => {
            Ok(Arc::new(Float64Array::from(vec![double])))
        }
        _ => decimal(text),
    }
}

/// The digits of a number without its sign, its point and what stands behind an `e`, from the first to the last that is
/// not zero.
fn digits(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.chars().filter(char::is_ascii_digit).collect::<String>();
    digits.trim_matches('0').to_owned()
}

/// An array parameter: numbers, texts or flags, and NULLs among them. An empty one is of texts.
fn list(values: &[Box<RawValue>]) -> Result<ArrayRef> {
    if values.iter().any(|value| value.get().starts_with(['[', '{'])) {
        let error = Error::unsupported("the elements of an array are numbers, texts, true, false and null");
        return Err(error.with_hint("give it as a text, and say its type in the statement: $1::jsonb, $1::int[][]"));
    }
    let parts = values.iter().map(|written| value(written)).collect::<Result<Vec<_>>>()?;
    let is_null = |value: &RawValue| value.get() == "null";
    let mut types = parts.iter().zip(values).filter(|(_, value)| !is_null(value)).map(|(part, _)| part.data_type());
    let first = types.next().cloned().unwrap_or(DataType::Utf8View);
    let element = types.try_fold(first, |known, other| match (known, other) {
        (known, other) if known == *other => Ok(known),
        // Decimals keep their digits.
        (known, other) if is_exact(&known) && is_exact(other) => Ok(SqlType::NUMERIC.arrow()),
        (known, other) if known.is_numeric() && other.is_numeric() => Ok(DataType::Float64),
        _ => Err(Error::input("the elements of an array are of different kinds").with_code("22023")),
    })?;
    let parts = parts.iter().zip(values).map(|(part, value)| match is_null(value) {
        true => Ok(new_null_array(&element, 1)),
        false => cast(part, &element).map_err(|error| Error::value(error.to_string())),
    });
    list_of(parts.collect::<Result<Vec<_>>>()?, &element)
}

/// Whether numbers of a type are no floats.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn parameters_may_be_arrays() {
        let typed = |text: &str| {
            let written = RawValue::from_string(text.to_owned()).unwrap();
            super::value(&written).map(|array| format!("{:?} {}", array.data_type(), array.len()))
        };
        assert!(typed("[1, null, 2]").unwrap().contains("Int64"));
        assert!(typed("[1, 2.5]").unwrap().contains("Float64"));
        assert!(typed("[1, 18446744073709551615]").unwrap().contains("Decimal256"));
        assert_eq!(typed("18446744073709551615").unwrap(), "Decimal128(20, 0) 1");
        assert!(typed(r#"["a", null]"#).unwrap().contains("Utf8View"));
        assert!(typed("[null, true]").unwrap().contains("Boolean"));
        assert!(typed("[]").unwrap().contains("Utf8View"));
        assert_eq!(typed(r#"{"a": 1}"#).unwrap(), "Utf8View 1");
        for wrong in [r#"[1, "a"]"#, "[[1]]", "[true, 1]", r#""a\u0000b""#] {
            assert!(typed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let shown = |text: &str| {
            let array = super::value(&RawValue::from_string(text.to_owned()).unwrap()).unwrap();
            let text = arrow::util::display::array_value_to_string(&array, 0).unwrap();
            format!("{} {text}", if is_exact(array.data_type()) { "exact" } else { "float" })
        };
        for (text, expected) in [
            ("7", "exact 7"),
            ("-9223372036854775808", "exact -9223372036854775808"),
            ("9223372036854775808", "exact 9223372036854775808"),
            ("123456789012345678901234567890", "exact 123456789012345678901234567890"),
            ("0.12345678901234567890", "exact 0.12345678901234567890"),
            ("0.30000000000000004", "float 0.30000000000000004"),
            ("1.50", "float 1.5"),
            ("-0.0", "float -0.0"),
            ("1e3", "float 1000.0"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        let too_long = RawValue::from_string("1".repeat(90)).unwrap();
        assert_eq!(super::value(&too_long).unwrap_err().code(), Some("22003"));
    }

    #[test]
    fn requests_that_a_foreign_page_could_send_are_refused() {
        let read = |kind: &'static str, body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            super::read(&headers, body.as_bytes())
        };
        assert!(read("text/plain", "SELECT 1").is_err());
        assert!(read("application/x-www-form-urlencoded", "sql=SELECT 1").is_err());
        assert_eq!(read("application/sql", "SELECT 1").unwrap().sql, "SELECT 1");
        let request = read("application/json; charset=utf-8", r#"{"sql":"SELECT $1","parameters":[1]}"#).unwrap();
        assert_eq!(request.parameters.len(), 1);
        for wrong in [r#"{"sql":"SELECT 1","unknown":1}"#, "null", "[1]", r#"{"sql":"SELECT 1","timeout_ms":-1}"#] {
            let error = read("application/json", wrong).map(|request| request.sql).unwrap_err();
            assert_eq!(error.code(), Some("22023"), "{wrong}");
            assert!(error.hint().is_some() && !error.to_string().contains("struct"), "{error}");
        }
    }

    #[test]
    fn bodies_that_are_compressed_are_refused_by_name() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/sql"));
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let error = super::read(&headers, b"\x1f\x8b").map(|request| request.sql).unwrap_err();
        assert_eq!((error.code(), error.hint().is_some()), (Some("0A000"), true));
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("identity"));
        assert_eq!(super::read(&headers, b"SELECT 1").unwrap().sql, "SELECT 1");
    }
}
