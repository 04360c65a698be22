//! Where a batch is born.
//!
//! The life of a cluster, from a file to the engine:
//! 1. [`external`] opens a file or a folder of files and makes a [`Table`] of it: a schema, statistics, a version.
//! 2. The planner asks the table for a [`TableScan`]: the [`Cluster`]s that may hold rows of interest, after pruning by
//!    statistics.
//! 3. For every cluster the engine runs [`Cluster::fetch`]: the I/O, as a closure that may block, as a future, or
//!    through the [buffer of clusters](BufferPool). Nothing is decoded here, so a slow disk holds no worker.
//! 4. The fetched bytes go to [`Cluster::decode`], which gives a [`Decode`]: step by step, chunks of at
//!    most [`BATCH_ROWS_MAX`](diligence_base::limits::BATCH_ROWS_MAX) rows, with the scan's [`RowFilter`]s applied as
//!    early as the format allows. It says first how much memory that needs.
//!
//! Rows go the other way by a [`Writer`]: begun once for a run, a [`WritePart`] for each packet, prepared and committed
//! when all have ended. [`external`] has those of files.
//!
//! Invariant: this crate knows no query, no packet and no thread; the engine decides who calls what when.

pub mod external;
pub mod foreign_error;
pub mod key_file;
pub mod memory;
mod ranges;
pub mod segment;
pub mod series;
mod table;
mod writer;
pub mod zones;

pub use diligence_disk::{BufferPool, Gone, Hint};
pub use ranges::WholeRanges;
pub use table::{
    AnswerId, BufferedFetch, Chunk, Cluster, Declustering, Decode, DecodeRequest, Decoded, DeletedRows, Fetch,
    FetchDone, Fetched, FirstRows, FirstStep, OrderColumn, RowFilter, ScanRequest, SharedColumns, SharedItem, Table,
    TableScan, Zone,
};
pub use writer::{PartIo, WriteIo, WriteOperation, WritePart, WriteRequest, Writer};
