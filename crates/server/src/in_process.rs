//! What a server does with its clients, where the database is in this process: the rows of COPY … FROM STDIN and TO
//! STDOUT come from a reader and go to a writer, files have the forms that clients get, and settings of clients are
//! taken that mean nothing.

use std::io::{self, Read, Write};
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use diligence_base::{Error, Result};
use diligence_db::{ResultKind, Session};
use futures::executor::block_on;

use crate::encoding::columns::{Columns, Form};
use crate::encoding::copy::{CopyEncoder, CopyFormat, Framing, Verbosity};
use crate::pg::CopyDecoder;
use crate::pg::copied_file::{FileSource, FileTarget};
use crate::session::commands::{Command, command};
use crate::session::copy::{CopyIn, CopyOut, CopyStatement, check_forced, copied_into, with_client, with_file};
use crate::session::settings::ClientSettings;

/// Bytes that are read, and written, at once.
const PIECE_BYTES: usize = 256 * 1024;

/// How often a statement that takes its time is asked whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A COPY … FROM STDIN or TO STDOUT.
pub struct ProcessCopy(CopyStatement);

/// A COPY between a table and a file in the formats `text` and `binary`, or from one in CSV with options that only
/// PostgreSQL has.
pub struct ProcessFileCopy {
    copy: ProcessCopy,
    file: String,
}

impl ProcessFileCopy {
    /// The COPY that a statement is; `None` of other statements. Fails with kind `Input` if it cannot be read.
    pub fn of(sql: &str) -> Result<Option<Self>> {
        // The engine writes CSV in all its forms itself.
        let is_own = |copy: &CopyStatement| match copy {
            CopyStatement::In(_) => true,
            CopyStatement::Out(copy) => copy.options.format != CopyFormat::Csv,
        };
        let found = with_file(sql)?.filter(|(copy, _)| is_own(copy));
        Ok(found.map(|(copy, file)| Self { copy: ProcessCopy(copy), file }))
    }

    /// Runs it, and gives the number of rows. A file that is written is complete before it gets its name. Fails as
    /// [`ProcessCopy::read`] and [`ProcessCopy::write`] do, and with 58P01 or 42501 if the file cannot be opened.
    pub fn run(&self, session: &Session, is_stopped: &dyn Fn() -> bool, tell: &mut dyn FnMut(&str)) -> Result<u64> {
        session.may_use_files("COPY with a file")?;
        if self.copy.reads() {
            let mut source = SourceReader(Some(FileSource::open(&self.file)?));
            return self.copy.read(session, &mut source, is_stopped, tell);
        }
        let mut target = TargetWriter(FileTarget::create(&self.file)?);
        let rows = self.copy.write(session, &mut target, is_stopped)?;
        target.0.finish()?;
        Ok(rows)
    }
}

/// A file as a reader; without it once it has failed.
struct SourceReader(Option<FileSource>);

impl Read for SourceReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(source) = self.0.take() else { return Ok(0) };
        let (source, bytes, _) =
            source.next(out.len()).map_err(|error| io::Error::other(error.message().to_owned()))?;
        self.0 = Some(source);
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

struct TargetWriter(FileTarget);

impl Write for TargetWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes);
        written.map(|()| bytes.len()).map_err(|error| io::Error::other(error.message().to_owned()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ProcessCopy {
    /// The COPY that a statement is; `None` of other statements. Fails with kind `Input` if it cannot be read.
    pub fn of(sql: &str) -> Result<Option<Self>> {
        Ok(with_client(sql)?.map(Self))
    }

    /// Whether it reads rows rather than writes them.
    pub fn reads(&self) -> bool {
        matches!(self.0, CopyStatement::In(_))
    }

    /// Adds the rows of a reader to the table: all of them or none. Gives their number. Between pieces, `is_stopped` is
    /// asked whether to go on, and `tell` gets what a server would send as notices. Not for async code. Fails with kind
    /// `Value` on what is no row, `Cancelled` when stopped, `File` if the reader fails, and as INSERT does.
    pub fn read(
        &self,
        session: &Session,
        input: &mut dyn Read,
        is_stopped: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<u64> {
        let CopyStatement::In(copy) = &self.0 else { return Err(Error::bug("a COPY that writes was to read")) };
        let CopyIn { schema: name, table, condition, options, .. } = copy;
        let (columns, schema) = copied_into(session, copy)?;
        let (name, condition) = (name.as_deref(), condition.as_deref());
        let mut append = session.begin_append_where(name, table, &columns, condition, options.ignores_errors)?;
        let mut decoder = CopyDecoder::new(options.clone(), table, schema).in_zone(session.time_zone());
        let (mut piece, mut sent) = (Vec::new(), 0);
        loop {
            if is_stopped() {
                return Err(Error::cancelled());
            }
            piece.clear();
            let read = (&mut *input).take(PIECE_BYTES as u64).read_to_end(&mut piece);
            let read = read.map_err(|error| Error::file(format!("the rows of a COPY cannot be read: {error}")))?;
            let rows = decoder.feed(&piece, read < PIECE_BYTES)?;
            decoder.take_notes().iter().for_each(|note| tell(note));
            for batch in &rows {
                sent += batch.num_rows() as u64;
                block_on(append.send(batch))?;
            }
            if read < PIECE_BYTES {
                break;
            }
        }
        let (printed, is_calling) = (append.printed(), append.is_calling());
        let rows = block_on(append.finish());
        printed.take().iter().for_each(|message| tell(message.text().trim_end()));
        let rows = rows?;
        // Values of some types are looked at where they are stored.
        let later = if condition.is_none() && !is_calling { sent.saturating_sub(rows) } else { 0 };
        let skipped = decoder.skipped() + later;
        if options.ignores_errors && skipped > 0 && options.verbosity != Verbosity::Silent {
            let were = if skipped == 1 { "row was" } else { "rows were" };
            tell(&format!("{skipped} {were} skipped due to data type incompatibility"));
        }
        Ok(rows)
    }

    /// Writes the rows of the table or query, and gives their number. `is_stopped` is asked as in [`read`](Self::read).
    /// Fails as the query does, with kind `Cancelled` when stopped, and with kind `File` if the writer fails.
    pub fn write(&self, session: &Session, output: &mut dyn Write, is_stopped: &dyn Fn() -> bool) -> Result<u64> {
        let CopyStatement::Out(copy) = &self.0 else { return Err(Error::bug("a COPY that reads was to write")) };
        let CopyOut { query, table: (schema, table, columns), options, .. } = copy;
        let query = match query {
            Some(query) => query.clone(),
            None => copy.query_of(&session.copied_columns(schema.as_deref(), table, columns)?),
        };
        let mut result = session.execute(&query)?;
        if !matches!(result.kind(), ResultKind::Rows) {
            return Err(Error::input("COPY needs a query or a table").with_code("42601"));
        }
        let schema = result.schema();
        check_forced("FORCE_QUOTE", &options.force_quote, &schema)?;
        let form = if options.format == CopyFormat::Binary { Form::Binary } else { Form::Text };
        let columns = Columns::all(&schema, form).in_zone(session.time_zone());
        let encoder = CopyEncoder::new(options.clone()).of_columns(&schema);
        let failed = |error: io::Error| Error::file(format!("the rows of a COPY cannot be written: {error}"));
        let (mut head, mut out, mut sent) = (encoder.header(&schema), BytesMut::new(), 0);
        loop {
            if is_stopped() {
                return Err(Error::cancelled());
            }
            let Poll::Ready(next) = result.next_within(LOOK_EVERY) else { continue };
            let Some(batch) = next.transpose()? else { break };
            sent += batch.num_rows() as u64;
            let rows = columns.rows(&batch)?;
            let mut row = 0;
            while row < rows.count() {
                out.clear();
                row = encoder.rows(&rows, row, PIECE_BYTES, Framing::None, &mut head, &mut out);
                head.clear();
                output.write_all(&out).map_err(failed)?;
            }
        }
        // Without rows, nothing has been in front of them.
        if let Some(trailer) = encoder.trailer() {
            head.extend_from_slice(&trailer);
        }
        output.write_all(&head).and_then(|()| output.flush()).map_err(failed)?;
        Ok(sent)
    }
}

/// Whether a statement sets what PostgreSQL has and a database in this process does not need to know, as scripts do:
/// `SET client_min_messages = warning`, `SET statement_timeout = 0`. False if it would promise what is not done.
pub fn is_idle_setting(sql: &str) -> bool {
    let Ok(Some(Command::Set(name, value, _))) = command(sql) else { return false };
    let mut settings = ClientSettings::new("", Duration::ZERO, None);
    let Some(before) = settings.get(&name) else { return false };
    // Times after which something ends, and what transactions may do.
    let is_promise =
        name.to_ascii_lowercase().contains("transaction_") || name.to_ascii_lowercase().ends_with("_timeout");
    let is_set = settings.set(&name, &value).is_ok();
    let after = settings.get(&name).unwrap_or_default();
    is_set && (!is_promise || after.trim_end_matches("ms") == before)
}

#[cfg(test)]
mod tests {
    use diligence_db::{Database, DatabaseOptions};

    use super::*;

    fn of(sql: &str) -> ProcessCopy {
        ProcessCopy::of(sql).unwrap().unwrap()
    }

    #[test]
    fn rows_come_in_and_go_out_in_the_forms_of_clients() {
        let database = Database::open(DatabaseOptions::default()).unwrap();
        let session = database.session();
        session.execute("CREATE TABLE t (a INT, b TEXT, c TIMESTAMP)").unwrap();
        let rows = "1\tx\\ty\t2024-02-29 10:00:00\n2\t\\N\t\\N\n";
        let mut told = Vec::new();
        let mut tell = |note: &str| told.push(note.to_owned());
        let copied = of("COPY t FROM STDIN").read(&session, &mut rows.as_bytes(), &|| false, &mut tell).unwrap();
        assert_eq!(copied, 2);
        let written = |sql: &str| {
            let mut out = Vec::new();
            let count = of(sql).write(&session, &mut out, &|| false).unwrap();
            (count, String::from_utf8_lossy(&out).into_owned())
        };
        assert_eq!(written("COPY (SELECT * FROM t ORDER BY a) TO STDOUT"), (2, rows.to_owned()));
        let csv = "a,b\n1,x\ty\n";
        assert_eq!(
            written("COPY (SELECT a, b FROM t WHERE a = 1) TO STDOUT (FORMAT csv, HEADER)"),
            (1, csv.to_owned())
        );
        assert_eq!(written("COPY (SELECT a FROM t WHERE a = 3) TO STDOUT WITH CSV HEADER"), (0, "a\n".to_owned()));
        let (count, binary) = written("COPY (SELECT a FROM t WHERE a = 3) TO STDOUT (FORMAT binary)");
        assert!(count == 0 && binary.starts_with("PGCOPY\n"), "{binary:?}");
        let wrong = "3\tx\t\\N\nfour\ty\t\\N\n";
        let mut copy = |sql: &str| of(sql).read(&session, &mut wrong.as_bytes(), &|| false, &mut tell);
        assert_eq!(copy("COPY t FROM STDIN").unwrap_err().code(), Some("22P02"));
        assert_eq!(copy("COPY t FROM STDIN (ON_ERROR ignore)").unwrap(), 1);
        assert_eq!(told, ["1 row was skipped due to data type incompatibility"]);
        assert_eq!(written("COPY (SELECT count(*) FROM t) TO STDOUT").1, "3\n");
        let stopped = of("COPY t TO STDOUT").write(&session, &mut Vec::new(), &|| true);
        assert_eq!(stopped.unwrap_err().kind(), diligence_base::ErrorKind::Cancelled);
    }

    #[test]
    fn settings_that_promise_nothing_are_taken() {
        for idle in [
            "SET statement_timeout = 0",
            "SET idle_in_transaction_session_timeout = 0",
            "SET transaction_timeout TO '0'",
            "SET client_encoding = 'UTF8'",
            "SET standard_conforming_strings = on",
            "SET client_min_messages = warning",
            "SET default_table_access_method = heap",
            "SET row_security = off",
            "SET default_transaction_read_only = off",
        ] {
            assert!(is_idle_setting(idle), "{idle}");
        }
        for other in [
            "SET statement_timeout = 5",
            "SET idle_session_timeout = '1min'",
            "SET client_encoding = 'latin1'",
            "SET default_transaction_read_only = on",
            "SET nothing = 1",
            "SELECT 1",
        ] {
            assert!(!is_idle_setting(other), "{other}");
        }
    }

    #[test]
    fn other_statements_are_none() {
        for sql in ["SELECT 1", "COPY t TO 'a.csv'", "COPY t FROM 'a.csv' (FORMAT text)", "", "-- COPY t FROM STDIN"] {
            assert!(ProcessCopy::of(sql).unwrap().is_none(), "{sql}");
        }
        assert!(of("-- rows\nCOPY t (a) FROM stdin;").reads() && !of("copy t to stdout").reads());
        assert_eq!(ProcessCopy::of("COPY t FROM STDIN (NOTHING 1)").err().unwrap().code(), Some("42601"));
    }
}
