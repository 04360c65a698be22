//! Waits for the client: until it has taken what is made for it, or has sent more. A client may do neither for as long
//! as it likes, so each of them ends as well when somebody ends the session or its statement.

use diligence_base::{Error, Result};
use diligence_db::CancelToken;

use super::deadlines::Deadline;
use super::session::{PgSession, over};
use super::trouble::{Outcome, Trouble};
use super::wire::{Broken, Received};
use crate::registry::Registered;
use crate::service::Service;
use crate::sqlstate;

/// Comes back when the statement that runs is cancelled, or the session has to end.
async fn stopped(entry: &Registered, service: &Service) -> Trouble {
    let asked = entry.cancel.notified();
    tokio::pin!(asked);
    asked.as_mut().enable();
    if !entry.is_cancelled() {
        tokio::select! {
            biased;
            broken = over(entry, service) => return Trouble::Broken(broken),
            () = asked => {}
        }
    }
    cancelled()
}

fn cancelled() -> Trouble {
    Trouble::Failed(Error::cancelled().with_code(sqlstate::CANCELLED))
}

impl PgSession {
    /// Commits a block: it waits for the disk, and perhaps for other transactions before, unless the statement is
    /// cancelled or the session has to end.
    pub(super) async fn commit_in_time(&mut self) -> Result<()> {
        let Self { session, entry, service, .. } = self;
        let (session, token) = (session.clone(), CancelToken::default());
        let io = session.database().engine().io_handle().clone();
        let own = token.clone();
        let mut committed = io.spawn_blocking(move || session.commit_unless(&own));
        let committed = tokio::select! {
            biased;
            committed = &mut committed => committed,
            _ = stopped(entry, service) => {
                token.cancel();
                committed.await
            }
        };
        committed.unwrap_or_else(|error| Err(Error::bug(format!("a commit ended early: {error}"))))
    }

    /// Sends what is made of the running statement's answer; `stalled` is called now and then while the client does not
    /// take it. A statement that is cancelled meanwhile fails: what it has sent is whole messages, with the error next.
    pub(super) async fn send(&mut self, stalled: impl FnMut()) -> Outcome {
        let Self { outbox, entry, service, .. } = self;
        tokio::select! {
            biased;
            sent = outbox.flush(stalled) => sent?,
            trouble = stopped(entry, service) => return Err(trouble),
        }
        if entry.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Sends what is there, while no statement runs or it does not matter that one does.
    pub(super) async fn send_at_rest(&mut self) -> Result<(), Broken> {
        let Self { outbox, entry, service, .. } = self;
        tokio::select! {
            biased;
            sent = outbox.flush(|| {}) => sent,
            broken = over(entry, service) => Err(broken),
        }
    }

    /// The client's next message, which the running statement waits for. Those that are there already are taken first.
    pub(super) async fn next_of_statement(&mut self, deadline: Option<Deadline>) -> Outcome<Received> {
        let Self { inbox, entry, service, .. } = self;
        if inbox.has_message() {
            return Ok(inbox.next().await?);
        }
        tokio::select! {
            biased;
            trouble = stopped(entry, service) => Err(trouble),
            trouble = Deadline::over(deadline) => Err(trouble),
            received = inbox.next() => Ok(received?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diligence_client::{Address, Connection, message};

    use super::super::tests::{connect, said, serve, told};

    /// Waits until a session has left, or with `is_there` until it runs nothing any more.
    async fn settles(admin: &mut Connection, process: &str, is_there: bool) {
        let state = format!(
            "SELECT count(*), count(*) FILTER (WHERE state = 'active') FROM pg_stat_activity WHERE pid = {process}"
        );
        let wanted = if is_there { "D 1,0" } else { "D 0,0" };
        for _ in 0..1000 {
            if said(admin, &state).await[1] == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the session {process} goes on");
    }

    /// Has a session run something, ends that without reading a byte, and gives the last of what its client is told.
    async fn ended(address: &Address, admin: &mut Connection, statements: &[&str], by: &str) -> Vec<String> {
        let mut ann = connect(address).await;
        let process = said(&mut ann, "SELECT pg_backend_pid()").await[1].replace("D ", "");
        let mut messages = Vec::new();
        for statement in statements {
            messages.clear();
            message::query(&mut messages, statement);
            if statement != statements.last().unwrap() {
                told(&mut ann, &messages).await;
            }
        }
        ann.send(&messages).await.unwrap();
        // It runs, and soon waits for its client.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(said(admin, &format!("SELECT {by}({process})")).await[1], "D t");
        settles(admin, &process, by == "pg_cancel_backend").await;
        let mut last = told(&mut ann, &[]).await;
        last.split_off(last.len() - 2)
    }

    #[tokio::test]
    async fn what_waits_for_a_client_can_be_ended() {
        let (_server, address) = serve().await;
        let mut admin = connect(&address).await;
        said(&mut admin, "CREATE TABLE pt (a INTEGER)").await;
        let many = "SELECT repeat('x', 1000) AS a FROM generate_series(1, 50000)";
        let (copy, declared) = (format!("COPY ({many}) TO STDOUT"), format!("DECLARE c SCROLL CURSOR FOR {many}"));
        let fetch = ["BEGIN", declared.as_str(), "FETCH ALL FROM c"];
        let cases: [(&[&str], &str); 4] =
            [(&[many], "Z I"), (&[copy.as_str()], "Z I"), (&fetch, "Z E"), (&["COPY pt FROM STDIN"], "Z I")];
        for (statements, ready) in cases {
            let told = ended(&address, &mut admin, statements, "pg_cancel_backend").await;
            assert_eq!(told, ["E ERROR 57014", ready], "{statements:?}");
            // One that takes nothing is told nothing: the connection breaks off.
            let told = ended(&address, &mut admin, statements, "pg_terminate_backend").await;
            let is_last = if statements[0].ends_with("STDIN") { "E FATAL 57P01" } else { told[0].as_str() };
            assert_eq!(told, [is_last, "closed"], "{statements:?}");
            assert!(!told[0].starts_with("C "), "{statements:?}");
        }
    }

    #[tokio::test]
    async fn a_copy_whose_client_sends_nothing_ends_in_time() {
        let (_server, address) = serve().await;
        let mut ann = connect(&address).await;
        said(&mut ann, "CREATE TABLE pt (a INTEGER); SET statement_timeout = '200ms'").await;
        assert_eq!(said(&mut ann, "COPY pt FROM STDIN").await, ["G", "E ERROR 57014", "Z I"]);
        // What its client sends for it until it is told is passed over.
        let mut late = Vec::new();
        message::put(&mut late, b'd', |body| body.extend(b"7\n"));
        message::put(&mut late, b'c', |_| {});
        message::query(&mut late, "SELECT count(*) AS n FROM pt");
        assert_eq!(told(&mut ann, &late).await, ["T n:20", "D 0", "C SELECT 1", "Z I"]);
    }
}
