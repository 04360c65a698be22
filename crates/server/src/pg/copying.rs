//! COPY: rows to the client and from it, or into a file of the server and from one.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use diligence_base::{Error, Result};
use pgwire::messages::copy::{CopyData, CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};

use super::copied_file::{FileSource, FileTarget};
use super::copy::CopyDecoder;
use super::deadlines::Deadline;
use super::run::ROWS_BYTES;
use super::session::PgSession;
use super::trouble::{Outcome, Trouble};
use super::wire::{Broken, Received, notice};
use crate::encoding::columns::{Columns, Form};
use crate::encoding::copy::{CopyEncoder, CopyFormat, Framing, Verbosity};
use crate::execution::Allowed;
use crate::session::copy::{CopyIn, CopyOut, check_forced, copied_into};
use crate::sqlstate;

/// Bytes of a COPY that are taken in before they are read.
const COPY_BYTES: usize = 256 * 1024;

impl PgSession {
    /// COPY … TO STDOUT, or to a file of the server.
    pub(super) async fn copy_out(&mut self, copy: &CopyOut) -> Outcome {
        if copy.file.is_some() {
            self.session.may_use_files("COPY … TO a file")?;
        }
        let (execution, deadline) = (self.service.execution().clone(), self.deadline());
        let query = match (&copy.query, &copy.table) {
            (Some(query), _) => query.clone(),
            (None, (schema, table, columns)) => {
                copy.query_of(&self.session.copied_columns(schema.as_deref(), table, columns)?)
            }
        };
        let parse = execution.parse(&self.session, query);
        let parsed = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, parse).await?;
        let allowed = if copy.writes { self.allowed() } else { Allowed::Reading };
        let mut running = self.started(deadline, &parsed, vec![], allowed).await?;
        if running.is_command() {
            return Err(Error::input("COPY needs a query or a table").with_code("42601").into());
        }
        let schema = running.schema().clone();
        let form = if copy.options.format == CopyFormat::Binary { Form::Binary } else { Form::Text };
        let code = i16::from(form == Form::Binary);
        let columns = Columns::all(&schema, form).in_zone(self.session.time_zone());
        let count = schema.fields().len();
        let mut target = match copy.file.clone() {
            Some(path) => Some(execution.compute(move || FileTarget::create(&path)).await?),
            None => {
                let formats = vec![code; count];
                self.outbox.put(Out::CopyOutResponse(CopyOutResponse::new(code as i8, count as i16, formats)));
                None
            }
        };
        check_forced("FORCE_QUOTE", &copy.options.force_quote, &schema)?;
        let encoder = Arc::new(CopyEncoder::new(copy.options.clone()).of_columns(&schema));
        // In binary form it goes out with the first row, as drivers expect.
        let mut header = encoder.header(&schema);
        if target.is_none() && !header.is_empty() && form == Form::Text {
            self.outbox.put(Out::CopyData(CopyData::new(header.split().freeze())));
        }
        let mut sent = 0;
        loop {
            let next = async { running.next().await.transpose() };
            let batch = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, next).await?;
            let Some(batch) = batch else { break };
            sent += batch.num_rows();
            let columns = columns.clone();
            let rows = execution.compute(move || columns.rows(&batch).map(Arc::new)).await?;
            let mut row = 0;
            while row < rows.count() {
                let (shared, encoder) = (rows.clone(), encoder.clone());
                let mut head = header.split();
                if let Some(mut file) = target.take() {
                    let made = execution.compute(move || {
                        let mut out = BytesMut::with_capacity(ROWS_BYTES + ROWS_BYTES / 8);
                        let next = encoder.rows(&shared, row, ROWS_BYTES, Framing::None, &mut head, &mut out);
                        file.write(&out)?;
                        Ok((next, file))
                    });
                    let (next, file) = made.await?;
                    (row, target) = (next, Some(file));
                    continue;
                }
                let mut out = std::mem::take(&mut self.outbox.buffer);
                let made = execution.compute(move || {
                    out.reserve(ROWS_BYTES + ROWS_BYTES / 8);
                    let next = encoder.rows(&shared, row, ROWS_BYTES, Framing::Messages, &mut head, &mut out);
                    Ok((next, out))
                });
                (row, self.outbox.buffer) = made.await?;
                self.send(|| running.stall()).await?;
            }
        }
        let trailer = encoder.trailer();
        header.extend_from_slice(trailer.as_ref().map_or(&[][..], |trailer| &trailer[..]));
        if let Some(mut file) = target {
            let ended = execution.compute(move || {
                file.write(&header)?;
                file.finish()
            });
            ended.await?;
        } else {
            if trailer.is_some() {
                self.outbox.put(Out::CopyData(CopyData::new(header.freeze())));
            }
            self.outbox.put(Out::CopyDone(CopyDone::new()));
        }
        self.complete(format!("COPY {sent}"));
        Ok(())
    }

    /// What the client's next message brings of a COPY: bytes of rows, whether they are the last, and why it gave up.
    async fn copied(&mut self, deadline: Option<Deadline>) -> Outcome<(Bytes, bool, Option<Error>)> {
        Ok(match self.next_of_statement(deadline).await? {
            Received::Message(In::CopyData(data)) => (data.data, false, None),
            Received::Message(In::CopyDone(_)) => (Bytes::new(), true, None),
            Received::Message(In::CopyFail(fail)) => {
                let error = Error::cancelled().context(format!("COPY was given up by the client: {}", fail.message));
                (Bytes::new(), true, Some(error.with_code(sqlstate::CANCELLED)))
            }
            Received::Message(In::Flush(_) | In::Sync(_)) => (Bytes::new(), false, None),
            _ => {
                let error = Error::input("a message that does not belong into a COPY").with_code(sqlstate::PROTOCOL);
                return Err(Trouble::Broken(Broken::Malformed(error)));
            }
        })
    }

    /// Waits until rows have gone to their table. Gives why they have not; fails if the session ends.
    async fn failure_of(
        &mut self,
        deadline: Option<Deadline>,
        sent: impl Future<Output = Result<()>>,
    ) -> Outcome<Option<Error>> {
        match Self::until(&self.entry, &mut self.inbox, &self.service, deadline, sent).await {
            Ok(()) => Ok(None),
            Err(Trouble::Failed(error)) => Ok(Some(error)),
            Err(broken) => Err(broken),
        }
    }

    /// COPY … FROM STDIN, or from a file of the server.
    pub(super) async fn copy_in(&mut self, copy: &CopyIn) -> Outcome {
        let only_reads = self.allowed() == Allowed::Reading;
        self.session.set_only_reads(only_reads);
        if only_reads && !self.session.is_temporary(copy.schema.as_deref(), &copy.table) {
            let error = Error::unsupported("COPY FROM cannot run in a read-only transaction");
            return Err(error.with_code(sqlstate::READ_ONLY).into());
        }
        let execution = self.service.execution().clone();
        if copy.file.is_some() {
            self.session.may_use_files("COPY … FROM a file")?;
        }
        self.has_seen = true;
        let (columns, schema) = copied_into(&self.session, copy)?;
        let (code, count) = (i16::from(copy.options.format == CopyFormat::Binary), columns.len());
        let (session, deadline) = (self.session.clone(), self.deadline());
        let (table, target, condition) = (copy.table.clone(), copy.schema.clone(), copy.condition.clone());
        let leaves_out = copy.options.ignores_errors;
        let begun =
            move || session.begin_append_where(target.as_deref(), &table, &columns, condition.as_deref(), leaves_out);
        let mut append = execution.compute(begun).await?;
        let mut source = match copy.file.clone() {
            Some(path) => Some(execution.compute(move || FileSource::open(&path)).await?),
            None => {
                self.outbox.put(Out::CopyInResponse(CopyInResponse::new(code as i8, count as i16, vec![code; count])));
                self.send(|| {}).await?;
                None
            }
        };
        let decoder = CopyDecoder::new(copy.options.clone(), &copy.table, schema);
        let mut decoder = decoder.in_zone(self.session.time_zone());
        let nothing =
            || CopyDecoder::new(copy.options.clone(), &copy.table, Arc::new(arrow::datatypes::Schema::empty()));
        let mut taken = BytesMut::new();
        let (mut failure, mut sent_rows) = (None, 0);
        loop {
            let (data, done, ended) = match source.take() {
                None => self.copied(deadline).await?,
                Some(file) => {
                    let next = execution.compute(move || file.next(COPY_BYTES));
                    let next = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, next).await;
                    let (file, data, done) = next?;
                    source = Some(file);
                    (data, done, None)
                }
            };
            if failure.is_none() {
                taken.extend_from_slice(&data);
            }
            failure = failure.or(ended);
            if failure.is_none() && (taken.len() >= COPY_BYTES || done) {
                let bytes = taken.split();
                let fed = execution.compute(move || {
                    let rows = decoder.feed(&bytes, done);
                    Ok((decoder, rows))
                });
                match fed.await {
                    Ok((fed, Ok(rows))) => {
                        decoder = fed;
                        sent_rows += rows.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
                        for note in decoder.take_notes() {
                            self.outbox.put(notice("NOTICE", &Error::input(note).with_code(sqlstate::SUCCESS)));
                        }
                        let sent = async {
                            for batch in &rows {
                                append.send(batch).await?;
                            }
                            Ok(())
                        };
                        failure = self.failure_of(deadline, sent).await?;
                    }
                    // A decoder that failed reads no more: what still comes is thrown away.
                    Ok((mut failed, Err(error))) => {
                        self.context = failed.place();
                        failure = Some(error);
                        decoder = nothing();
                    }
                    Err(error) => {
                        failure = Some(error);
                        decoder = nothing();
                    }
                }
            }
            // Of a client, all that it sends is read before it is told what was wrong.
            if done || source.is_some() && failure.is_some() {
                break;
            }
        }
        if let Some(error) = failure {
            return Err(error.into());
        }
        let (printed, is_calling) = (append.printed(), append.is_calling());
        let rows = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, append.finish()).await;
        self.show_printed(&printed);
        let rows = rows?;
        // Values of some types are looked at where they are stored.
        let later = if copy.condition.is_none() && !is_calling { sent_rows.saturating_sub(rows) } else { 0 };
        match decoder.skipped() + later {
            skipped if copy.options.ignores_errors && skipped > 0 && copy.options.verbosity != Verbosity::Silent => {
                let were = if skipped == 1 { "row was" } else { "rows were" };
                let text = format!("{skipped} {were} skipped due to data type incompatibility");
                self.outbox.put(notice("NOTICE", &Error::input(text).with_code(sqlstate::SUCCESS)));
            }
            _ => {}
        }
        self.complete(format!("COPY {rows}"));
        Ok(())
    }
}
