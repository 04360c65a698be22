//! What a script has given, as an answer.

use std::sync::Arc;

use arrow::array::RecordBatch;
use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use diligence_base::{Error, Result};
use serde_json::{Value, json};

use super::{QUEUE_HEADER, notices, queue_header};
use crate::encoding::formats::{BodyWriter, Format};
use crate::execution::{CommandDone, ScriptDone, ScriptRows, StatementExecution, check_bytes};

/// The rows of a script as a whole body, or what its last statement has done. Fails with kind `Value` if the format has
/// no form for a value, and with code 54000 if the body is too large.
pub(super) async fn answer_of(execution: &StatementExecution, done: ScriptDone, format: Format) -> Result<Response> {
    let queue = queue_header(&done.passed);
    let said = notices::taken(&done.printed);
    let mut answer = match done.rows {
        None => Json(command_json(&done.last, &said)).into_response(),
        Some(ScriptRows { schema, batches, query }) => {
            let in_header = if format == Format::Json { vec![] } else { said.clone() };
            let body = execution.compute(move || {
                let mut writer = BodyWriter::new(format, schema)?;
                let mut body = writer.begin(query);
                for batch in &batches {
                    body.extend(writer.batch(batch)?);
                    // Values that are alike take room once in memory, and each time in the answer.
                    check_bytes(body.len())?;
                }
                body.extend(writer.end(&said)?);
                Ok(body)
            });
            let mut answer = body.await?.into_response();
            notices::add_header(&mut answer, &in_header);
            let headers = answer.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            if let Some(query) = query {
                headers.insert("x-query-id", HeaderValue::from(query));
            }
            answer
        }
    };
    answer.headers_mut().insert(QUEUE_HEADER, queue);
    Ok(answer)
}

/// What a command has done, and what was said meanwhile.
pub(super) fn command_json(done: &CommandDone, said: &[Value]) -> Value {
    let mut answer = json!({ "command": done.tag, "rows": done.rows });
    if !said.is_empty() {
        answer["notices"] = json!(said);
    }
    answer
}

/// The columns and rows of a script as a template sees them; none of a script without. Fails beyond `rows_max`.
pub(super) async fn objects_of(
    execution: &StatementExecution,
    rows: Option<ScriptRows>,
    rows_max: usize,
) -> Result<(Vec<String>, Vec<Value>)> {
    let Some(ScriptRows { schema, batches, .. }) = rows else { return Ok((vec![], vec![])) };
    if batches.iter().map(RecordBatch::num_rows).sum::<usize>() > rows_max {
        let error = Error::resource(format!("a page has at most {rows_max} rows"));
        return Err(error.with_hint("end the query with LIMIT"));
    }
    let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
    let objects = execution.compute(move || {
        let mut writer = BodyWriter::new(Format::JsonLines, Arc::clone(&schema))?;
        let mut objects = Vec::new();
        for batch in &batches {
            let lines = writer.batch(batch)?;
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                objects.push(serde_json::from_slice(line).map_err(|error| Error::bug(error.to_string()))?);
            }
        }
        Ok(objects)
    });
    Ok((columns, objects.await?))
}
