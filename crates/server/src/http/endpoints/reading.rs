//! An endpoint for GET: a query, whose answer a client keeps as long as nothing behind it changes.
//!
//! An answer's `ETag` is made of the query, its parameters and the states of the tables behind it. A client that shows
//! it gets 304 while they are the same, and no query runs; if the plan is remembered and no files are behind it, the
//! states are all that is looked at.

use arrow::array::ArrayRef;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diligence_base::Result;
use ring::digest;

use super::super::rows::{objects, response};
use super::super::{QUEUE_HEADER, queue_header, shows, unless_stopped, within};
use super::Asked;
use crate::encoding::formats::Format;
use crate::execution::RunningStatement;

/// Rows that a template gets at most.
pub(super) const TEMPLATE_ROWS_MAX: usize = 10_000;

impl Asked<'_> {
    /// Answers it. Fails with the error of the query.
    pub(super) async fn read(&self, format: Format) -> Result<Response> {
        let (service, caller, endpoint) = (self.service, self.caller, self.endpoint);
        let all_values = endpoint.values(&self.given)?;
        let Some(statement) = endpoint.statements.first() else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        let values = statement.parameters.iter().map(|place| all_values[*place].clone()).collect::<Vec<ArrayRef>>();
        let (session, entry) = caller.session_with(service, caller.role.endpoint_options(false))?;
        entry.does(Some(&statement.sql));
        let execution = service.execution();
        let parsed = execution.parse(&session, statement.sql.clone()).await?;
        if let Some(states) = execution.states_behind(&session, &parsed, &values) {
            let tag = self.tag(format, &states);
            if shows(self.headers, &tag) {
                return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), &tag));
            }
        }
        let ready = execution.plan(&session, &parsed, values).await?;
        let tag = ready.planned.fingerprint().map(|states| self.tag(format, &states));
        let answer = if tag.as_ref().is_some_and(|tag| shows(self.headers, tag)) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if self.is_head {
            [(header::CONTENT_TYPE, format.content_type())].into_response()
        } else {
            let told = entry.told();
            let begin = async {
                let running = execution.start_ready(&session, &caller.asker(), &statement.sql, ready).await?;
                match format {
                    Format::Html => self.rendered(running).await,
                    _ => response(service, running, format, entry).await,
                }
            };
            let limit = caller.role.time(service.options().limits.statement_time_max);
            unless_stopped(told, within(limit, begin)).await?
        };
        let mut answer = match tag {
            Some(tag) => tagged(answer, &tag),
            None => answer,
        };
        if let Some(status) = endpoint.status.filter(|_| answer.status() == StatusCode::OK) {
            *answer.status_mut() = status;
        }
        Ok(answer)
    }

    async fn rendered(&self, running: RunningStatement) -> Result<Response> {
        let columns = running.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let queue = queue_header(running.passed());
        let rows = objects(self.service, running, TEMPLATE_ROWS_MAX).await?;
        let text = self.page(&columns, &rows)?;
        let mut page = ([(header::CONTENT_TYPE, Format::Html.content_type())], text).into_response();
        page.headers_mut().insert(QUEUE_HEADER, queue);
        Ok(page)
    }

    /// A tag for an answer. Numbers of tables' states begin anew with each process, so the tag has the process's secret
    /// in it. It is weak: compressed or not, the answer is the same.
    fn tag(&self, format: Format, states: &str) -> String {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(self.service.secret());
        for part in [self.endpoint.path.as_str(), format.content_type(), states] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        for (name, value) in self.given.iter() {
            let value = value.unwrap_or_default();
            hash.update(format!("{}:{name}={}:{value};", name.len(), value.len()).as_bytes());
        }
        let hex = hash.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("W/\"{hex}\"")
    }
}

fn tagged(mut answer: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(header::ETAG, tag);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    answer
}
