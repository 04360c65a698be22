//! A server as the target of statements.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::Error;
use diligence_client::Url;
use diligence_client::blocking::{Answer, Connection};
use diligence_db::Progress;
use diligence_db::Session;

use crate::failure::{Failure, complain};
use crate::interrupt::InterruptGuard;
use crate::output::printable_lines;
use crate::progress::StatementProgress;
use crate::target::{CopyStream, KnownWords, LOOK_EVERY, RunningStatement, StatementResult, Target};

/// The `application_name` of this client.
const APPLICATION: &str = "diligence";

/// The bytes of a COPY that are sent at a time.
const SENT_BYTES: usize = 64 << 10;

const RELATIONS: &str = "SELECT table_schema, table_name FROM information_schema.tables \
    WHERE table_schema <> 'information_schema' AND table_schema <> 'pg_catalog' ORDER BY 1, 2";
const COLUMNS: &str = "SELECT table_schema, table_name, column_name FROM information_schema.columns \
    WHERE table_schema <> 'information_schema' AND table_schema <> 'pg_catalog' ORDER BY 1, 2, ordinal_position";

/// A session on a server.
pub struct Remote {
    address: Url,
    connection: RefCell<Connection>,
    /// Whether tables may have changed since `words` was filled.
    changed: Cell<bool>,
    words: RefCell<KnownWords>,
}

/// Connects to the server that the URL names, and asks for a password on the terminal if the server requires one that
/// neither the URL nor PGPASSWORD has. Fails if the URL is invalid, the server cannot be reached, or it rejects the
/// login.
pub fn connect(url: &str) -> Result<Connection, Failure> {
    open(&address(url)?)
}

fn address(url: &str) -> Result<Url, Failure> {
    let mut address = Url::parse(url).map_err(|error| Failure::Usage(error.to_string()))?;
    if address.password.is_none() {
        address.password = std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty());
    }
    Ok(address)
}

fn open(address: &Url) -> Result<Connection, Failure> {
    Connection::open(address, APPLICATION, || asked(address)).map_err(|error| Failure::Other(error.to_string()))
}

/// Asks for a password; `None` without a terminal.
fn asked(address: &Url) -> Option<String> {
    let terminal = console::Term::stderr();
    if !console::user_attended() || !terminal.is_term() {
        return None;
    }
    terminal.write_str(&format!("Password for user {} on {}: ", address.user, address.host)).ok()?;
    terminal.read_secure_line().ok()
}

impl Remote {
    /// Connects and applies the settings. Fails as [`connect`] does, and if the server rejects a setting.
    pub fn open(url: &str, settings: &[(String, String)]) -> Result<Self, Failure> {
        let address = address(url)?;
        let mut connection = open(&address)?;
        for (name, value) in settings {
            let set = format!("SET {name} = '{}'", value.replace('\'', "''"));
            connection.rows(&set).map_err(|error| Failure::Usage(error.to_string()))?;
        }
        let words = RefCell::default();
        Ok(Self { address, connection: RefCell::new(connection), changed: Cell::new(true), words })
    }

    /// The URL of the server.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Makes the connection ready for a statement: reconnects if it was lost, and waits if the previous statement has
    /// not ended.
    fn ready(&self, interrupt: &InterruptGuard<'_>) -> Result<RefMut<'_, Connection>, Error> {
        let mut connection = self.connection.borrow_mut();
        if connection.is_broken() {
            *connection = Connection::open(&self.address, APPLICATION, || asked(&self.address))?;
            complain("reconnected; settings were reset to their defaults");
        }
        while !connection.is_ready() {
            // The rest of the previous statement is of no interest.
            let _ = connection.next_within(LOOK_EVERY);
            if connection.is_broken() {
                return Err(
                    Error::resource("the connection to the server was lost").with_hint("the next statement reconnects")
                );
            }
            if interrupt.interrupted() {
                return Err(Error::cancelled());
            }
        }
        Ok(connection)
    }

    fn texts(&self, query: &str) -> Vec<Vec<String>> {
        let Ok(mut connection) = self.connection.try_borrow_mut() else { return vec![] };
        if !connection.is_ready() || connection.is_broken() {
            return vec![];
        }
        // Completion without names is better than an error that the user did not cause.
        let batches = connection.rows(query).unwrap_or_default();
        let rows = batches.iter().flat_map(|batch: &RecordBatch| {
            let columns = batch.columns().iter().filter_map(|column| column.as_string_opt::<i32>()).collect::<Vec<_>>();
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_owned()).collect())
                .collect::<Vec<_>>()
        });
        rows.collect()
    }
}

impl Target for Remote {
    fn begin<'a>(
        &'a self,
        sql: &str,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn RunningStatement + 'a>, Error> {
        let mut connection = self.ready(interrupt)?;
        let canceller = connection.canceller();
        interrupt.cancels(move || {
            if let Err(error) = canceller.cancel() {
                complain(format!("the statement could not be cancelled: {error}"));
            }
        });
        connection.start(sql)?;
        let schema = Arc::new(Schema::empty());
        let mut running =
            RemoteRunning { changed: &self.changed, connection, schema, tag: None, first: None, over: false };
        // Columns arrive before the first rows; a command has none and ends.
        while running.tag.is_none() && running.schema.fields().is_empty() && !running.over {
            match running.next_within(LOOK_EVERY) {
                Poll::Pending => progress.show_running(),
                Poll::Ready(Some(Ok(batch))) => {
                    running.first = Some(batch);
                    break;
                }
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(None) => break,
            }
        }
        Ok(Box::new(running))
    }

    fn copies(&self) -> bool {
        true
    }

    fn copy(
        &self,
        sql: &str,
        mut stream: CopyStream<'_>,
        interrupt: &InterruptGuard<'_>,
    ) -> Result<StatementResult, Error> {
        let mut connection = self.ready(interrupt)?;
        let canceller = connection.canceller();
        let cancel = canceller.clone();
        interrupt.cancels(move || {
            if let Err(error) = cancel.cancel() {
                complain(format!("the statement could not be cancelled: {error}"));
            }
        });
        connection.start_copy(sql)?;
        let (mut tag, mut failed) = (String::new(), None);
        // To the end even after a failure, so that the next statement finds the server ready.
        loop {
            match connection.next_within(LOOK_EVERY) {
                Poll::Pending | Poll::Ready(Ok(Answer::Columns(_) | Answer::Rows(_))) => {}
                Poll::Ready(Ok(Answer::WantsData)) => {
                    if let Err(error) = give(&mut connection, &mut stream, interrupt) {
                        failed.get_or_insert(error);
                    }
                }
                Poll::Ready(Ok(Answer::Data(bytes))) => {
                    if failed.is_none()
                        && let CopyStream::To(output) = &mut stream
                        && let Err(error) = output.write_all(&bytes)
                    {
                        failed = Some(Error::resource(format!("cannot write the rows: {error}")));
                        // If the server misses this, its rows are read and discarded.
                        let _ = canceller.cancel();
                    }
                }
                Poll::Ready(Ok(Answer::Done(done))) => tag = done,
                Poll::Ready(Ok(Answer::Notice(text))) => complain(format!("notice: {}", printable_lines(&text))),
                Poll::Ready(Ok(Answer::Ready)) => return failed.map_or_else(|| Ok(command(&tag)), Err),
                Poll::Ready(Err(error)) if connection.is_broken() => return Err(error),
                Poll::Ready(Err(error)) => {
                    failed.get_or_insert(error);
                }
            }
        }
    }

    fn words(&self) -> KnownWords {
        if self.changed.replace(false) {
            let named = |schema: &str, name: &str| match schema {
                "public" => name.to_owned(),
                schema => format!("{schema}.{name}"),
            };
            let relations = self.texts(RELATIONS).into_iter().filter_map(|row| match &row[..] {
                [schema, name] => Some(named(schema, name)),
                _ => None,
            });
            let relations = relations.collect::<Vec<_>>();
            let mut columns = BTreeMap::<String, Vec<String>>::new();
            for row in self.texts(COLUMNS) {
                if let [schema, table, column] = &row[..] {
                    columns.entry(named(schema, table)).or_default().push(column.clone());
                }
            }
            let mut words = Session::keywords().iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            words.extend(relations.iter().cloned());
            words.extend(columns.values().flatten().cloned());
            words.sort();
            words.dedup();
            self.words.replace(KnownWords { words, relations, columns });
        }
        self.words.borrow().clone()
    }

    /// Dates, times and the like come as texts.
    fn knows_types(&self) -> bool {
        false
    }

    fn left_out(&self) -> Vec<(String, String)> {
        vec![]
    }
}

/// A statement that is running on a server.
struct RemoteRunning<'a> {
    connection: RefMut<'a, Connection>,
    changed: &'a Cell<bool>,
    schema: SchemaRef,
    /// The command tag.
    tag: Option<String>,
    /// Rows that arrived while the columns were awaited.
    first: Option<RecordBatch>,
    over: bool,
}

impl RunningStatement for RemoteRunning<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn kind(&self) -> StatementResult {
        match &self.tag {
            Some(tag) if self.schema.fields().is_empty() => command(tag),
            _ => StatementResult::Rows,
        }
    }

    fn next_within(&mut self, time: Duration) -> Poll<Option<Result<RecordBatch, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(answer) = self.connection.next_within(time) else { return Poll::Pending };
        match answer {
            Ok(Answer::Columns(schema)) => self.schema = schema,
            Ok(Answer::Rows(batch)) => return Poll::Ready(Some(Ok(batch))),
            Ok(Answer::Done(tag)) => {
                let changes = self.schema.fields().is_empty() && tag != "SET";
                self.changed.set(self.changed.get() || changes);
                self.tag = Some(tag);
            }
            Ok(Answer::Notice(text)) => complain(format!("notice: {}", printable_lines(&text))),
            // Only a COPY that was started as one has data.
            Ok(Answer::Data(_) | Answer::WantsData) => {}
            Ok(Answer::Ready) => {
                self.over = true;
                return Poll::Ready(None);
            }
            Err(error) => {
                // Only the message that the server is ready follows.
                self.over = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Pending
    }

    fn progress(&self) -> Progress {
        Progress { clusters_done: 0, clusters_total: 0, rows_out: 0 }
    }
}

impl Drop for RemoteRunning<'_> {
    fn drop(&mut self) {
        if !self.over && !self.connection.is_ready() && !self.connection.is_broken() {
            // The rest is not needed. If the server misses this, its rows are read and discarded.
            let _ = self.connection.canceller().cancel();
        }
    }
}

/// Sends the rows of a stream to a server that awaits them. Fails if the stream cannot be read or is none to be read,
/// after the server was told so, and as the server refuses the rows or the connection is lost.
fn give(connection: &mut Connection, stream: &mut CopyStream<'_>, interrupt: &InterruptGuard<'_>) -> Result<(), Error> {
    let CopyStream::From(input) = stream else {
        return connection.refuse_data("the statement reads rows, and there are none to send");
    };
    let mut buffer = vec![0; SENT_BYTES];
    loop {
        if interrupt.interrupted() {
            connection.refuse_data("cancelled")?;
            return Err(Error::cancelled());
        }
        match input.read(&mut buffer) {
            Ok(0) => return connection.end_data(),
            Ok(read) => connection.send_data(&buffer[..read])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let error = format!("cannot read the rows: {error}");
                connection.refuse_data(&error)?;
                return Err(Error::resource(error));
            }
        }
        // The server may have refused a row by now.
        match connection.next_within(Duration::ZERO) {
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Ready(Ok(Answer::Notice(text))) => complain(format!("notice: {}", printable_lines(&text))),
            Poll::Ready(Ok(_)) | Poll::Pending => {}
        }
    }
}

/// Parses a command tag: `INSERT 0 3` is INSERT with three rows.
fn command(tag: &str) -> StatementResult {
    let words = tag.split(' ').collect::<Vec<_>>();
    match words[..] {
        ["INSERT", _, rows] => StatementResult::Command { tag: "INSERT".to_owned(), rows: rows.parse().ok() },
        [tag, rows] if rows.bytes().all(|byte| byte.is_ascii_digit()) && !rows.is_empty() => {
            StatementResult::Command { tag: tag.to_owned(), rows: rows.parse().ok() }
        }
        _ => StatementResult::Command { tag: tag.to_owned(), rows: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_counts() {
        let is = |tag: &str, name: &str, rows| {
            assert_eq!(command(tag), StatementResult::Command { tag: name.to_owned(), rows }, "{tag}");
        };
        is("INSERT 0 3", "INSERT", Some(3));
        is("COPY 7", "COPY", Some(7));
        is("CREATE TABLE", "CREATE TABLE", None);
        is("SET", "SET", None);
    }
}
