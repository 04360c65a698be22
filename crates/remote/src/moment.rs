//! What the tables of one statement are read in: one snapshot of their server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diligence_base::{Error, Result};
use tokio::sync::OnceCell;

use crate::link::{Link, Place};

/// Begins a transaction that sees one snapshot.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A snapshot of a server, for one statement. As long as only one part of a table is read, that part's own is it.
pub struct Moment {
    place: Arc<Place>,
    /// The parts of tables that are read.
    parts: AtomicUsize,
    leader: OnceCell<Option<Leader>>,
}

/// The transaction whose snapshot the others see.
struct Leader {
    _link: Link,
    snapshot: String,
}

impl Moment {
    pub(crate) fn new(place: Arc<Place>) -> Arc<Self> {
        Arc::new(Self { place, parts: AtomicUsize::new(0), leader: OnceCell::new() })
    }

    /// So many parts more are read.
    pub fn reads(&self, parts: usize) {
        self.parts.fetch_add(parts, Ordering::Relaxed);
    }

    /// A connection that sees the snapshot, and whether it is in a transaction. Fails if the server cannot be reached.
    pub(crate) async fn link(&self) -> Result<(Link, bool)> {
        if self.parts.load(Ordering::Relaxed) < 2 {
            return Ok((Link::open(&self.place).await?, false));
        }
        let Some(leader) = self.leader.get_or_try_init(|| self.lead()).await? else {
            return Ok((Link::open(&self.place).await?, false));
        };
        let mut link = Link::open(&self.place).await?;
        link.run(&format!("{BEGIN}; SET TRANSACTION SNAPSHOT '{}'", leader.snapshot.replace('\'', "''"))).await?;
        Ok((link, true))
    }

    /// The transaction that has the snapshot; `None` if the server gives none to others.
    async fn lead(&self) -> Result<Option<Leader>> {
        let mut link = Link::open(&self.place).await?;
        let answers = match link.run(&format!("{BEGIN}; SELECT pg_catalog.pg_export_snapshot()")).await {
            Ok(answers) => answers,
            // Not all that speaks the protocol has this.
            Err(error) if matches!(error.code(), Some("42883" | "0A000")) => return Ok(None),
            Err(error) => return Err(error),
        };
        let snapshot = answers.last().and_then(|answer| answer.rows.first()?.first()?.clone());
        let snapshot = snapshot.and_then(|bytes| String::from_utf8(bytes).ok());
        let snapshot = snapshot.ok_or_else(|| Error::resource("a server gives a snapshot without a name"))?;
        // The transaction goes on until the statement has ended, and its connection with it.
        Ok(Some(Leader { _link: link, snapshot }))
    }
}
