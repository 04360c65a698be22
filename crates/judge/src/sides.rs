//! PostgreSQL and our server side by side, both with the same tables.

use std::path::PathBuf;

use diligence_base::Result;

use crate::child::ServerProcess;
use crate::order::RowOrder;
use crate::session::{Reply, Session};
use crate::verdict::{Verdict, compare, is_for_values};

/// Our server.
#[derive(Clone, Debug)]
pub enum OurServer {
    /// One that runs.
    Running(String),
    /// The program, to be started.
    Program(PathBuf),
}

/// Which of PostgreSQL's refusals must be ours as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedErrors {
    /// All of them: the statements are meant to be PostgreSQL's SQL.
    All,
    /// Only those for values that a statement meets: the statements may be of another dialect.
    OfValues,
}

/// A session on each of both servers.
pub struct Sides {
    postgres: Session,
    ours: Session,
    server: OurServer,
    child: Option<ServerProcess>,
    /// What was run on both sides to make tables: run again where a server is started again.
    setup: Vec<String>,
}

impl Sides {
    /// Connects to both, and starts our server if it does not run.
    ///
    /// Fails with kind `Input` if a URL is not one, and with kind `Resource` if a server cannot be reached or started.
    pub fn open(postgres: &str, server: OurServer) -> Result<Self> {
        let child = match &server {
            OurServer::Running(_) => None,
            OurServer::Program(program) => Some(ServerProcess::start(program)?),
        };
        let url = match (&server, &child) {
            (OurServer::Running(url), _) => url.as_str(),
            (_, Some(child)) => child.url(),
            (OurServer::Program(_), None) => "",
        };
        let (postgres, ours) = (Session::open(postgres)?, Session::open(url)?);
        Ok(Self { postgres, ours, child, server, setup: Vec::new() })
    }

    /// Runs a statement that makes something on both sides, and judges it. If PostgreSQL refuses it, it does not run on
    /// our side, so that both stay alike.
    ///
    /// Fails with kind `Resource` if a server is lost and does not come back.
    pub fn prepare(&mut self, statement: &str) -> Result<Verdict> {
        let postgres = self.ask_postgres(statement)?;
        match &postgres {
            Reply::Rows { .. } => {}
            Reply::Refused(failure) if is_for_values(failure) => {}
            _ => return Ok(Verdict::NotJudged),
        }
        let ours = self.ask_ours(statement)?;
        if matches!((&postgres, &ours), (Reply::Rows { .. }, Reply::Rows { .. })) {
            self.setup.push(statement.to_owned());
        }
        Ok(compare(&postgres, &ours, &RowOrder::Free))
    }

    /// Judges a query.
    ///
    /// Fails with kind `Resource` if a server is lost and does not come back.
    pub fn judge(&mut self, query: &str, order: &RowOrder, errors: JudgedErrors) -> Result<Verdict> {
        let postgres = self.ask_postgres(query)?;
        match &postgres {
            Reply::Refused(failure) if errors == JudgedErrors::OfValues && !is_for_values(failure) => {
                return Ok(Verdict::NotJudged);
            }
            Reply::Late | Reply::Lost(_) => return Ok(Verdict::NotJudged),
            Reply::Rows { .. } | Reply::Refused(_) => {}
        }
        let ours = self.ask_ours(query)?;
        Ok(compare(&postgres, &ours, order))
    }

    /// Drops what the statements have made, and begins new sessions.
    ///
    /// Fails with kind `Resource` if a server is lost and does not come back.
    pub fn clean(&mut self, statements: &[String]) -> Result<()> {
        self.postgres.connect()?;
        self.setup.clear();
        self.reconnect_ours()?;
        for statement in statements.iter().rev() {
            let Some((kind, name)) = made(statement) else { continue };
            for tail in [" CASCADE", ""] {
                let drop = format!("DROP {kind} IF EXISTS {name}{tail}");
                self.postgres.ask(&drop);
                self.ask_ours(&drop)?;
            }
        }
        Ok(())
    }

    fn ask_postgres(&mut self, statement: &str) -> Result<Reply> {
        let reply = self.postgres.ask(statement);
        if !self.postgres.is_connected() {
            self.postgres.connect()?;
        }
        Ok(reply)
    }

    fn ask_ours(&mut self, statement: &str) -> Result<Reply> {
        let mut reply = self.ours.ask(statement);
        if !self.ours.is_connected() {
            if let (Reply::Lost(what), Some(child)) = (&mut reply, &self.child) {
                what.push_str(&format!("; the server's last words: {}", child.last_words()));
            }
            self.reconnect_ours()?;
        }
        Ok(reply)
    }

    /// Connects to our server anew; starts it again if it is gone, with its tables.
    fn reconnect_ours(&mut self) -> Result<()> {
        if self.ours.connect().is_ok() {
            return Ok(());
        }
        if let OurServer::Program(program) = &self.server {
            let child = ServerProcess::start(program)?;
            self.ours = Session::open(child.url())?;
            self.child = Some(child);
            for statement in &self.setup {
                self.ours.ask(statement);
            }
            return Ok(());
        }
        self.ours.connect()
    }
}

/// The kind and the name of what a statement makes.
fn made(statement: &str) -> Option<(String, String)> {
    let mut words =
        statement.split(|letter: char| letter.is_whitespace() || letter == '(').filter(|word| !word.is_empty());
    if !words.next()?.eq_ignore_ascii_case("CREATE") {
        return None;
    }
    let is_noise = |word: &&str| {
        ["OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "RECURSIVE"]
            .iter()
            .any(|noise| word.eq_ignore_ascii_case(noise))
    };
    let kind = words.find(|word| !is_noise(word))?.to_ascii_uppercase();
    if !["TABLE", "VIEW", "SCHEMA", "SEQUENCE", "TYPE"].contains(&kind.as_str()) {
        return None;
    }
    let is_condition = |word: &&str| ["IF", "NOT", "EXISTS"].iter().any(|part| word.eq_ignore_ascii_case(part));
    words.find(|word| !is_condition(word)).map(|name| (kind, name.trim_end_matches(';').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_makes_is_found() {
        let made = |statement| made(statement).map(|(kind, name)| format!("{kind} {name}"));
        assert_eq!(made("CREATE TABLE IF NOT EXISTS a.b(x int)").as_deref(), Some("TABLE a.b"));
        assert_eq!(made("create or replace temp view v AS SELECT 1").as_deref(), Some("VIEW v"));
        assert_eq!(made("CREATE SCHEMA s;").as_deref(), Some("SCHEMA s"));
        assert!(made("CREATE INDEX i ON t (a)").is_none() && made("SELECT 1").is_none());
    }
}
