//! An endpoint for POST, PUT, PATCH or DELETE: a script in one transaction.
//!
//! ```text
//!   begin ──▶ statements, one after the other ──▶ the answer is made ──▶ commit ──▶ the answer goes out
//!     ▲            ╰─────────── an error: nothing of it is left ──────────╯
//!     ╰── others were in the way: once more, a bounded number of times
//! ```
//! The answer is made before the commit, so that one that cannot be made leaves nothing either.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use diligence_base::Result;
use diligence_db::Session;
use serde_json::Value;

use super::super::script::{answer_of, objects_of};
use super::super::{QUEUE_HEADER, queue_header, unless_stopped, within};
use super::Asked;
use super::reading::TEMPLATE_ROWS_MAX;
use super::redirect::Redirect;
use crate::encoding::formats::Format;
use crate::execution::{Attempts, ScriptDone, ScriptRows, ScriptStatement};

impl Asked<'_> {
    /// Runs it. Fails with the error of a statement or of the commit, and of what makes a page.
    pub(super) async fn change(&self, format: Format) -> Result<Response> {
        let (service, caller, endpoint) = (self.service, self.caller, self.endpoint);
        let all_values = endpoint.values(&self.given)?;
        let statements = endpoint.statements.iter().map(|statement| {
            let values = statement.parameters.iter().map(|place| all_values[*place].clone());
            ScriptStatement { sql: statement.sql.clone(), values: values.collect() }
        });
        let statements = statements.collect::<Vec<_>>();
        let (session, entry) = caller.session_with(service, caller.role.endpoint_options(true))?;
        entry.does(Some(&endpoint.text()));
        let run = async {
            let mut attempts = Attempts::default();
            loop {
                match self.attempt(&session, &statements, format).await {
                    Err(error) if attempts.again(&error).await => {}
                    ended => return ended,
                }
            }
        };
        let limit = caller.role.time(service.options().limits.statement_time_max);
        let mut answer = unless_stopped(entry.told(), within(limit, run)).await?;
        match endpoint.status {
            _ if answer.status() == StatusCode::SEE_OTHER => {}
            Some(StatusCode::NO_CONTENT) => return Ok(StatusCode::NO_CONTENT.into_response()),
            Some(status) => *answer.status_mut() = status,
            None => {}
        }
        Ok(answer)
    }

    async fn attempt(&self, session: &Session, statements: &[ScriptStatement], format: Format) -> Result<Response> {
        let execution = self.service.execution();
        let block = execution.begin(session, self.endpoint.isolation)?;
        let done = block.run(&self.caller.asker(), statements).await?;
        let answer = match format {
            Format::Html => match &self.endpoint.redirect {
                Some(redirect) => self.elsewhere(redirect, done).await?,
                None => self.changed_page(done).await?,
            },
            _ => answer_of(execution, done, format).await?,
        };
        block.commit().await?;
        Ok(answer)
    }

    /// Sends a browser on.
    async fn elsewhere(&self, redirect: &Redirect, done: ScriptDone) -> Result<Response> {
        let first = done.rows.map(ScriptRows::first);
        let (_, rows) = objects_of(self.service.execution(), first, 1).await?;
        let value = |name: &str| match rows.first().and_then(|row| row.get(name)) {
            Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
            None => self.given.text(name),
        };
        Ok((StatusCode::SEE_OTHER, [(header::LOCATION, redirect.with(value)?)]).into_response())
    }

    async fn changed_page(&self, done: ScriptDone) -> Result<Response> {
        let queue = queue_header(&done.passed);
        let (columns, rows) = objects_of(self.service.execution(), done.rows, TEMPLATE_ROWS_MAX).await?;
        let text = self.page(&columns, &rows)?;
        let mut page = ([(header::CONTENT_TYPE, Format::Html.content_type())], text).into_response();
        page.headers_mut().insert(QUEUE_HEADER, queue);
        Ok(page)
    }
}
