//! A database behind its server, asked over PostgreSQL's protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use diligence_base::Error;
use diligence_client::{self as client, Address, Answer, Connection};
use diligence_db::Database;
use diligence_server::{Server, ServerOptions};
use sqllogictest::DBOutput;
use tokio::runtime::Runtime;

use super::display::{self, ColumnLetter};

/// A server around a database, with one client.
pub struct Wire {
    runtime: Runtime,
    server: Arc<Server>,
    /// Only `None` while it is closed.
    connection: Option<Connection>,
}

impl Wire {
    /// Starts the server and connects.
    pub fn open(database: &Database) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::resource(format!("no runtime: {error}")))?;
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions { postgres: Some(loopback), files: true, ..ServerOptions::default() };
        let server = runtime.block_on(Server::start(database.clone(), options))?;
        let address = server.addresses().postgres.ok_or_else(|| Error::bug("a server without an address"))?;
        let opened = runtime.block_on(Connection::open(&Address::Tcp(address), "ann", "diligence", &[]));
        let connection = Some(opened.map_err(failed)?);
        Ok(Self { runtime, server, connection })
    }

    /// Runs a statement.
    pub fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnLetter>, Error> {
        let connection = self.connection.as_mut().ok_or_else(|| Error::bug("the connection was closed"))?;
        let answers = self.runtime.block_on(connection.simple(sql)).map_err(failed)?;
        let Some(answer) = answers.into_iter().next_back() else { return Ok(DBOutput::StatementComplete(0)) };
        if !answer.columns.is_empty() {
            let types = answer.columns.iter().map(|column| display::letter(column.oid)).collect();
            return Ok(DBOutput::Rows { types, rows: rows(&answer)? });
        }
        // The scripts see the number of rows that were written as an answer of one row.
        Ok(match (answer.tag.split(' ').next(), answer.tag.rsplit(' ').next()) {
            (Some("INSERT" | "COPY"), Some(rows)) => {
                DBOutput::Rows { types: vec![display::INTEGER], rows: vec![vec![rows.to_owned()]] }
            }
            _ => DBOutput::StatementComplete(0),
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // A connection that is broken is closed as well.
            let _ = self.runtime.block_on(connection.close());
        }
        self.runtime.block_on(self.server.stop());
    }
}

/// An error as the library would show it.
fn failed(error: client::Error) -> Error {
    match error {
        client::Error::Server(failure) if failure.hint.is_empty() => Error::input(failure.message),
        client::Error::Server(failure) => Error::input(failure.message).with_hint(failure.hint),
        other => Error::resource(other.to_string()),
    }
}

/// The rows in the form of the scripts.
fn rows(answer: &Answer) -> Result<Vec<Vec<String>>, Error> {
    let text = |value: &Option<Vec<u8>>| {
        let text = value.as_deref().map(std::str::from_utf8).transpose();
        Ok(display::shown(text.map_err(|_| Error::bug("a value that is no UTF-8"))?))
    };
    answer.rows.iter().map(|row| row.iter().map(text).collect()).collect()
}
