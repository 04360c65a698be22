//! A server as the place where statements run.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::Error;
use diligence_client::Url;
use diligence_client::blocking::{Answer, Connection};
use diligence_db::Session;
use diligence_engine::query::Progress;

use crate::failure::{Failure, complain};
use crate::interrupt::Guard;
use crate::output::printable;
use crate::progress::StatementProgress;
use crate::target::{Kind, LOOK_EVERY, Running, Target};

/// What the server is told who asks.
const APPLICATION: &str = "diligence";

const RELATIONS: &str = "SELECT table_schema, table_name FROM information_schema.tables \
    WHERE table_schema <> 'information_schema' AND table_schema <> 'pg_catalog' ORDER BY 1, 2";
const COLUMNS: &str = "SELECT DISTINCT column_name FROM information_schema.columns \
    WHERE table_schema <> 'information_schema' AND table_schema <> 'pg_catalog' ORDER BY 1";

/// A session on a server.
pub struct Remote {
    address: Url,
    connection: RefCell<Connection>,
    /// Whether tables may have come or gone since the words were asked for.
    changed: Cell<bool>,
    words: RefCell<(Vec<String>, Vec<String>)>,
}

/// Reads an address and connects; asks for a password on the terminal if one is needed and not there.
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

/// Asks for a password. `None` where nobody can be asked.
fn asked(address: &Url) -> Option<String> {
    let terminal = console::Term::stderr();
    if !console::user_attended() || !terminal.is_term() {
        return None;
    }
    terminal.write_str(&format!("password of {} on {}: ", address.user, address.host)).ok()?;
    terminal.read_secure_line().ok()
}

impl Remote {
    /// Connects, and makes the settings.
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

    /// Where it is.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Makes the connection ready for a statement: one that was lost is made anew, one that still ends something is
    /// waited for.
    fn ready(&self, interrupt: &Guard<'_>) -> Result<RefMut<'_, Connection>, Error> {
        let mut connection = self.connection.borrow_mut();
        if connection.is_broken() {
            *connection = Connection::open(&self.address, APPLICATION, || asked(&self.address))?;
            complain("connected anew; settings have their defaults again");
        }
        while !connection.is_ready() {
            // What is left of the statement before concerns nobody.
            let _ = connection.next_within(LOOK_EVERY);
            if connection.is_broken() {
                return Err(Error::resource("the connection to the server was lost")
                    .with_hint("the next statement makes a new one"));
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
        // Completion without names is better than a shell that complains about itself.
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
        interrupt: &Guard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn Running + 'a>, Error> {
        let mut connection = self.ready(interrupt)?;
        let canceller = connection.canceller();
        interrupt.cancels(move || {
            if let Err(error) = canceller.cancel() {
                complain(format!("the server cannot be told to cancel: {error}"));
            }
        });
        connection.start(sql)?;
        let schema = Arc::new(Schema::empty());
        let mut running =
            RemoteRunning { changed: &self.changed, connection, schema, tag: None, first: None, over: false };
        // The columns, or that there are none, come with the first rows or with the end.
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

    fn words(&self) -> (Vec<String>, Vec<String>) {
        if self.changed.replace(false) {
            let relations = self.texts(RELATIONS).into_iter().filter_map(|row| match &row[..] {
                [schema, name] if schema == "public" => Some(name.clone()),
                [schema, name] => Some(format!("{schema}.{name}")),
                _ => None,
            });
            let relations = relations.collect::<Vec<_>>();
            let mut words = Session::keywords().iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            words.extend(relations.iter().cloned());
            words.extend(self.texts(COLUMNS).into_iter().flatten());
            words.sort();
            words.dedup();
            self.words.replace((words, relations));
        }
        self.words.borrow().clone()
    }

    fn left_out(&self) -> Vec<(String, String)> {
        vec![]
    }
}

/// A statement that a server runs.
struct RemoteRunning<'a> {
    connection: RefMut<'a, Connection>,
    changed: &'a Cell<bool>,
    schema: SchemaRef,
    /// What was done, of a command.
    tag: Option<String>,
    /// Rows that were there before they were asked for.
    first: Option<RecordBatch>,
    over: bool,
}

impl Running for RemoteRunning<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn kind(&self) -> Kind {
        match &self.tag {
            Some(tag) if self.schema.fields().is_empty() => command(tag),
            _ => Kind::Rows,
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
            Ok(Answer::Notice(text)) => complain(format!("notice: {}", printable(&text))),
            Ok(Answer::Ready) => {
                self.over = true;
                return Poll::Ready(None);
            }
            Err(error) => {
                // What follows is only that the server is ready again.
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
            // Nobody wants the rest. If the server does not hear it, its rows are read and thrown away.
            let _ = self.connection.canceller().cancel();
        }
    }
}

/// `INSERT 0 3` is three rows of INSERT.
fn command(tag: &str) -> Kind {
    let words = tag.split(' ').collect::<Vec<_>>();
    match words[..] {
        ["INSERT", _, rows] => Kind::Command { tag: "INSERT".to_owned(), rows: rows.parse().ok() },
        [tag, rows] if rows.bytes().all(|byte| byte.is_ascii_digit()) && !rows.is_empty() => {
            Kind::Command { tag: tag.to_owned(), rows: rows.parse().ok() }
        }
        _ => Kind::Command { tag: tag.to_owned(), rows: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_counts() {
        let is = |tag: &str, name: &str, rows| {
            assert_eq!(command(tag), Kind::Command { tag: name.to_owned(), rows }, "{tag}");
        };
        is("INSERT 0 3", "INSERT", Some(3));
        is("COPY 7", "COPY", Some(7));
        is("CREATE TABLE", "CREATE TABLE", None);
        is("SET", "SET", None);
    }
}
