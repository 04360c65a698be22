//! The rows of a table at a server: each cluster is a COPY of some of its pages, read while it is decoded.
//!
//! A connection is opened only when a packet begins to decode its cluster: as many are open as packets decode, and none
//! waits with rows that nobody wants yet. The server is held back by its socket: between two pieces nothing is read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, NullArray};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::ids::{TableId, TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_storage::memory::filtered;
use diligence_storage::{Cluster, Decode, DecodeRequest, Decoded, Fetch, Fetched, ScanRequest, Table, TableScan};
use tokio::sync::Notify;

use crate::conditions::condition;
use crate::describe::Described;
use crate::link::{Link, Place};
use crate::moment::Moment;
use crate::values::{Values, Wrong};

/// Bytes of a piece: more than a socket holds, less than matters to a budget.
const PIECE_BYTES: usize = 512 * 1024;

/// Pages of a cluster: 32 MiB, which take a server longer than to begin a scan.
const CLUSTER_PAGES: u64 = 4096;

/// What a COPY in the binary form begins with.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// A table, a view or a query at a server, for one statement.
pub(crate) struct RemoteTable {
    inner: Arc<Inner>,
    /// Rows that are wanted at most.
    limit: Option<usize>,
}

struct Inner {
    place: Arc<Place>,
    moment: Arc<Moment>,
    described: Described,
    schema: SchemaRef,
    id: TableId,
}

impl RemoteTable {
    pub fn new(place: Arc<Place>, moment: Arc<Moment>, described: Described) -> Self {
        let fields = described.columns.iter().map(|column| column.sql_type.field(&column.name, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let inner = Arc::new(Inner { place, moment, described, schema, id: TableId::next() });
        Self { inner, limit: None }
    }
}

impl fmt::Debug for RemoteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteTable({})", self.describe())
    }
}

impl Table for RemoteTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema.clone()
    }

    fn identity(&self) -> TableIdentity {
        TableIdentity::of(self.inner.id, TableVersion(0))
    }

    fn is_watched(&self) -> bool {
        false
    }

    fn statistics(&self) -> Statistics {
        let Described { rows, bytes, columns, .. } = &self.inner.described;
        Statistics {
            num_rows: match rows {
                Some(rows) => Precision::Inexact(*rows),
                // It was never counted; a row has a head and values of a common width.
                None if *bytes > 0 => Precision::Inexact(*bytes / (28 + 12 * columns.len())),
                None => Precision::Absent,
            },
            total_byte_size: if *bytes > 0 { Precision::Inexact(*bytes) } else { Precision::Absent },
            column_statistics: columns.iter().map(|_| ColumnStatistics::new_unknown()).collect(),
        }
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        let table = &self.inner;
        let asked = request.predicate.as_ref().and_then(|asked| condition(asked, &table.described.columns));
        let parts = table.described.pages.map_or(1, |pages| pages.div_ceil(CLUSTER_PAGES).max(1));
        // The name of the table counted as one.
        table.moment.reads(usize::try_from(parts).unwrap_or(usize::MAX) - 1);
        let clusters = (0..parts).map(|part| {
            let first = (part > 0).then(|| format!("ctid >= '({},0)'::pg_catalog.tid", part * CLUSTER_PAGES));
            // The table may have grown: the last part has no end.
            let end =
                (part + 1 < parts).then(|| format!("ctid < '({},0)'::pg_catalog.tid", (part + 1) * CLUSTER_PAGES));
            let conditions = first.into_iter().chain(end).chain(asked.clone()).collect::<Vec<_>>();
            let (condition, limit) = (conditions.join(" AND "), self.limit);
            let cluster = RemoteCluster { table: table.clone(), condition, limit };
            Arc::new(cluster) as Arc<dyn Cluster>
        });
        Ok(TableScan { clusters: clusters.collect(), clusters_pruned: 0 })
    }

    fn describe(&self) -> String {
        format!("PostgreSQL {} of {}", self.inner.described.from.replace('\n', " "), self.inner.place.name)
    }

    fn at_most(&self, rows: usize) -> Option<Arc<dyn Table>> {
        Some(Arc::new(Self { inner: self.inner.clone(), limit: Some(rows) }))
    }

    fn access(&self, asked: &Arc<dyn PhysicalExpr>) -> Option<String> {
        condition(asked, &self.inner.described.columns).map(|asked| format!("asked there: {asked}"))
    }
}

/// Some pages of a table, or all of it.
struct RemoteCluster {
    table: Arc<Inner>,
    /// Which rows; all, if empty.
    condition: String,
    /// How many of them at most.
    limit: Option<usize>,
}

impl fmt::Debug for RemoteCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Cluster for RemoteCluster {
    fn rows(&self) -> Option<usize> {
        None
    }

    fn bytes(&self, _columns: &[usize]) -> usize {
        0
    }

    fn fetch(&self, _columns: &[usize]) -> Fetch {
        Fetch::Ready(Fetched { bytes: 0, content: Box::new(()) })
    }

    fn decode(&self, _fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let mut columns = request.columns.clone();
        columns.extend(request.filters.iter().flat_map(|filter| filter.columns()));
        columns.sort_unstable();
        columns.dedup();
        let known = &self.table.described.columns;
        let missing = || Error::bug("a column is wanted that a server's table does not have");
        let names = columns.iter().map(|&column| Ok(known.get(column).ok_or_else(missing)?.selected()));
        let names = names.collect::<Result<Vec<_>>>()?.join(", ");
        let (from, condition) = (&self.table.described.from, &self.condition);
        let keyword = if condition.is_empty() { "" } else { " WHERE " };
        let limit = self.limit.map_or(String::new(), |rows| format!(" LIMIT {rows}"));
        Ok(Box::new(RemoteRows {
            table: self.table.clone(),
            sql: format!("COPY (SELECT {names} FROM {from}{keyword}{condition}{limit}) TO STDOUT (FORMAT binary)"),
            columns,
            request: request.clone(),
            copy: Copied::New,
            buffer: Vec::new(),
            at: 0,
            is_begun: false,
            gone: Arc::default(),
        }))
    }

    fn describe(&self) -> String {
        let condition = if self.condition.is_empty() { "" } else { " with " };
        format!("{} of {}{condition}{}", self.table.described.from, self.table.place.name, self.condition)
    }
}

/// Whether somebody still wants the rows of a cluster.
#[derive(Default)]
struct Gone {
    is_set: AtomicBool,
    told: Notify,
}

impl Gone {
    async fn wait(&self) {
        let told = self.told.notified();
        tokio::pin!(told);
        told.as_mut().enable();
        if !self.is_set.load(Ordering::Acquire) {
            told.await;
        }
    }
}

/// How far a COPY is.
enum Copied {
    New,
    /// A piece is on its way.
    Reading,
    /// In the middle; whether it is in a transaction.
    Open(Link, bool),
    Ended,
}

/// What came: the next bytes, and how far the COPY is.
struct Piece {
    bytes: Vec<u8>,
    copy: Copied,
}

/// Rows of a cluster.
struct RemoteRows {
    table: Arc<Inner>,
    sql: String,
    /// The columns that come, by position in the table's schema.
    columns: Vec<usize>,
    request: DecodeRequest,
    copy: Copied,
    /// What has come; the rows from `at` on are not decoded yet.
    buffer: Vec<u8>,
    at: usize,
    /// Whether what stands before the first row is behind.
    is_begun: bool,
    gone: Arc<Gone>,
}

impl Drop for RemoteRows {
    fn drop(&mut self) {
        self.gone.is_set.store(true, Ordering::Release);
        self.gone.told.notify_waiters();
    }
}

/// Opens the COPY, if it is not, and reads on.
async fn read(table: Arc<Inner>, sql: String, copy: Copied) -> Result<Piece> {
    let (mut link, is_within) = match copy {
        Copied::Open(link, is_within) => (link, is_within),
        Copied::New => {
            let (mut link, is_within) = table.moment.link().await?;
            link.copy(&sql).await?;
            (link, is_within)
        }
        Copied::Reading | Copied::Ended => return Err(Error::bug("a COPY is read after its end")),
    };
    let (bytes, is_last) = link.piece(PIECE_BYTES).await?;
    if !is_last {
        return Ok(Piece { bytes, copy: Copied::Open(link, is_within) });
    }
    if is_within {
        link.run("COMMIT").await?;
    }
    link.keep();
    Ok(Piece { bytes, copy: Copied::Ended })
}

impl RemoteRows {
    fn malformed(&self) -> Error {
        let what = format!("rows of {} of {} are malformed", self.table.described.from, self.table.place.name);
        Error::resource(what).with_code("08P01").with_hint("does the server speak PostgreSQL's protocol?")
    }

    /// The next bytes; `None` if not all of them are there.
    fn take(&self, at: &mut usize, bytes: usize) -> Option<std::ops::Range<usize>> {
        let end = at.checked_add(bytes).filter(|end| *end <= self.buffer.len())?;
        let range = *at..end;
        *at = end;
        Some(range)
    }

    fn i16_at(&self, at: &mut usize) -> Option<i16> {
        let range = self.take(at, 2)?;
        Some(i16::from_be_bytes(self.buffer[range].try_into().ok()?))
    }

    fn i32_at(&self, at: &mut usize) -> Option<i32> {
        let range = self.take(at, 4)?;
        Some(i32::from_be_bytes(self.buffer[range].try_into().ok()?))
    }

    /// What stands before the first row. False if not all of it is there.
    fn pass_header(&mut self) -> Result<bool> {
        let mut at = 0;
        let Some(signature) = self.take(&mut at, SIGNATURE.len()) else { return Ok(false) };
        if self.buffer[signature] != *SIGNATURE {
            return Err(self.malformed());
        }
        let (Some(_flags), Some(more)) = (self.i32_at(&mut at), self.i32_at(&mut at)) else { return Ok(false) };
        let more = usize::try_from(more).map_err(|_| self.malformed())?;
        self.is_begun = self.take(&mut at, more).is_some();
        if self.is_begun {
            self.at = at;
        }
        Ok(self.is_begun)
    }

    /// The places of the values of the next row, `None` for NULLs, in `values`. False if not all of it is there, or it
    /// is the last.
    fn next_row(&mut self, values: &mut Vec<Option<std::ops::Range<usize>>>) -> Result<bool> {
        let mut at = self.at;
        let Some(count) = self.i16_at(&mut at) else { return Ok(false) };
        if count == -1 {
            return Ok(false);
        }
        if usize::try_from(count) != Ok(self.columns.len()) {
            return Err(self.malformed());
        }
        let before = values.len();
        for _ in 0..count {
            let value = match self.i32_at(&mut at) {
                Some(-1) => Some(None),
                Some(length) => {
                    let length = usize::try_from(length).map_err(|_| self.malformed())?;
                    self.take(&mut at, length).map(Some)
                }
                None => None,
            };
            let Some(value) = value else {
                values.truncate(before);
                return Ok(false);
            };
            values.push(value);
        }
        self.at = at;
        Ok(true)
    }

    /// The column as an array.
    fn array(&self, place: usize, values: &[Option<std::ops::Range<usize>>]) -> Result<ArrayRef> {
        let column = self.columns[place];
        let known = &self.table.described.columns[column];
        let mut array = Values::new(&known.form, self.table.schema.field(column).data_type())?;
        for value in values.iter().skip(place).step_by(self.columns.len()) {
            let bytes = value.clone().map(|range| &self.buffer[range]);
            array.push(bytes).map_err(|wrong| match wrong {
                Wrong::Malformed => self.malformed(),
                Wrong::Missing(why) => {
                    let (name, from) = (&known.name, &self.table.described.from);
                    let message = format!("column \"{name}\" of {from} of {}: {why}", self.table.place.name);
                    let hint = "postgres_query('…', 'SELECT …::text …') reads it as a text";
                    Error::value(message).with_code("22003").with_hint(hint)
                }
            })?;
        }
        array.finish()
    }
}

impl Decode for RemoteRows {
    fn step(&mut self) -> Result<Decoded> {
        let mut values = Vec::new();
        let mut rows = 0;
        if self.is_begun || self.pass_header()? {
            while rows < self.request.batch_rows.max(1) && self.next_row(&mut values)? {
                rows += 1;
            }
        }
        if rows == 0 {
            return match std::mem::replace(&mut self.copy, Copied::Reading) {
                // Behind the last row stands a mark.
                Copied::Ended if self.buffer.get(self.at..) == Some([0xff, 0xff].as_slice()) => Ok(Decoded::Done),
                Copied::Ended => Err(self.malformed()),
                copy => {
                    let (gone, table, sql) = (self.gone.clone(), self.table.clone(), self.sql.clone());
                    Ok(Decoded::Read(Fetch::Waiting(Box::pin(async move {
                        let piece = tokio::select! {
                            piece = read(table, sql, copy) => piece?,
                            // Dropped in the middle, the connection cancels there what it was for.
                            () = gone.wait() => return Err(Error::cancelled()),
                        };
                        Ok(Fetched { bytes: piece.bytes.len(), content: Box::new(piece) })
                    }))))
                }
            };
        }
        let mut arrays =
            self.table.schema.fields().iter().map(|_| Arc::new(NullArray::new(rows)) as ArrayRef).collect::<Vec<_>>();
        for (place, &column) in self.columns.iter().enumerate() {
            arrays[column] = self.array(place, &values)?;
        }
        let chunk = filtered(arrays, rows, &self.request.columns, &self.request.filters)?;
        Ok(chunk.map_or(Decoded::Again, Decoded::Chunk))
    }

    fn bytes(&self) -> usize {
        // The piece that is decoded, as far as it is long, and the one that comes.
        self.buffer.len().max(PIECE_BYTES) + PIECE_BYTES
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        let piece = read.content.downcast::<Piece>();
        let piece = piece.map_err(|_| Error::bug("what was read for another cluster came to one of a server"))?;
        let Piece { bytes, copy } = *piece;
        self.copy = copy;
        self.buffer.drain(..self.at);
        self.at = 0;
        match self.buffer.is_empty() {
            true => self.buffer = bytes,
            false => self.buffer.extend_from_slice(&bytes),
        }
        Ok(())
    }
}
