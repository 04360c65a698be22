//! What the engine knows of a place that takes rows: the mirror of [`Table`](crate::Table).
//!
//! A [`Writer`] stands in a plan, as a table does. Each run of the plan begins one [`WriteOperation`]; each packet of
//! the run has one [`WritePart`] of it. Encoding and I/O are apart, as they are when a table is read: a part encodes
//! and says which I/O is due ([`WritePart::next_io`]), whoever calls it has that done elsewhere.
//!
//! ```text
//!   Pending ── prepare: all bytes are synced, where no statement reads them ──▶ Prepared ── commit ──▶ Committed
//!      │                                                                           │
//!      └──────────────── dropped: nothing is left of it ────────▶ Aborted ◀────────┘
//! ```
//!
//! Invariants: what is committed was synced, the bytes as well as the names. Before the commit no statement sees any of
//! it. Whoever drops an operation that is not committed aborts it; I/O that is still under way ends first.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use futures::future::BoxFuture;

/// A place that takes rows: files, or a table.
pub trait Writer: Send + Sync + fmt::Debug {
    /// Begins to write. May make folders. Fails with kind `File` if the place cannot be written to.
    fn begin(&self, request: &WriteRequest) -> Result<Arc<dyn WriteOperation>>;
    /// What EXPLAIN shows: the format and where it is.
    fn describe(&self) -> String;
    /// Whether parts that are written side by side come in one order, if it is said [where](WritePart::at) in it they
    /// are, at about the cost of parts that come in any.
    fn keeps_order(&self) -> bool {
        false
    }
    /// Whether what it commits goes with a transaction's rollback.
    fn is_undoable(&self) -> bool {
        false
    }
    /// Whether only one session sees what it changes.
    fn is_temporary(&self) -> bool {
        false
    }
}

/// What is going to be written.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// The columns of the rows.
    pub schema: SchemaRef,
    /// What the query may have of memory.
    pub memory_bytes: usize,
}

/// One run of a writer. Used by all packets of the run at the same time.
pub trait WriteOperation: Send + Sync {
    /// A packet's own part. Fails with kind `Bug` after [`prepare`](Self::prepare).
    fn part(self: Arc<Self>) -> Result<Box<dyn WritePart>>;
    /// Bytes in memory that belong to no part.
    fn held_bytes(&self) -> usize;
    /// Has all bytes where a crash leaves them. Called once, when all parts are finished and their I/O is done.
    fn prepare(self: Arc<Self>) -> WriteIo<()>;
    /// Shows what is prepared to all statements that begin later, and says how many rows there are. Called once.
    fn commit(self: Arc<Self>) -> WriteIo<u64>;
}

/// What one packet writes. Its own work is encoding: it does no I/O and waits for nobody.
pub trait WritePart: Send {
    /// Takes rows, all of them. Fails with kind `Unsupported` or `Value` if the format has no form for a value.
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;
    /// Rows that are written from now on belong to this place in the order of all rows, which no other part has; those
    /// before are all that there is of the place before. Places are counted from 0 on. They are said to all parts of an
    /// operation or to none, and only where the [writer keeps order](Writer::keeps_order). Fails as
    /// [`write`](Self::write).
    fn at(&mut self, _place: Option<usize>) -> Result<()> {
        Ok(())
    }
    /// Bytes in memory for rows that were taken, without those of I/O that [`next_io`](Self::next_io) has given out.
    fn held_bytes(&self) -> usize;
    /// Memory is short: turns what is held into I/O that is due, as far as possible. Fails as [`write`](Self::write).
    fn revoke(&mut self) -> Result<()>;
    /// The next I/O that is due. Several may be under way at once, in any order.
    fn next_io(&mut self) -> Option<PartIo>;
    /// The rows have ended: what is held becomes I/O that is due, or belongs to the operation. Fails as
    /// [`write`](Self::write).
    fn finish(&mut self) -> Result<()>;
}

/// I/O of a part.
pub struct PartIo {
    /// Bytes in memory until it is done.
    pub bytes: usize,
    /// What is to be done.
    pub io: WriteIo<()>,
}

/// I/O as it is to be done. Fails with kind `File` if the place refuses it.
pub enum WriteIo<T> {
    /// It is done already.
    Ready(Result<T>),
    /// Writes that block a thread (local files). Run on an I/O thread.
    Blocking(Box<dyn FnOnce() -> Result<T> + Send>),
    /// Writes that wait without a thread (object stores). Driven by the I/O runtime.
    Waiting(BoxFuture<'static, Result<T>>),
}

impl<T> fmt::Debug for WriteIo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteIo::Ready(_) => "WriteIo::Ready",
            WriteIo::Blocking(_) => "WriteIo::Blocking",
            WriteIo::Waiting(_) => "WriteIo::Waiting",
        })
    }
}
