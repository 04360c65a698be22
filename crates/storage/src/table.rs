//! What the engine knows of a table: its clusters, and how one is fetched and decoded.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use datafusion_common::{ScalarValue, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_disk::{Gone, Hint};
use futures::future::BoxFuture;

use crate::ranges::WholeRanges;

/// A table that can be scanned: one state of its content.
pub trait Table: Send + Sync + fmt::Debug {
    /// The logical columns. Strings are `Utf8View`, binaries `BinaryView`, decimals `Decimal128` or `Decimal256`.
    fn schema(&self) -> SchemaRef;
    /// Which rows they are, as a value: tables with equal ones have the same rows in the same columns. Plans are
    /// compared by this, never by an address, and what is kept is found by it.
    fn identity(&self) -> TableIdentity;
    /// The state of the content that this value stands for.
    fn version(&self) -> TableVersion {
        self.identity().version
    }
    /// Rows, bytes and per-column minima, maxima, NULLs and distinct values, as far as known without reading data.
    fn statistics(&self) -> Statistics;
    /// What lives as long as any version of it may be scanned, so that what was decoded of one is of use for others.
    /// `None` if this is the only one.
    fn lineage(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
    /// The table that this is a view of. What was computed of the view is of use as long as that stands. `None` if this
    /// is no view.
    fn origin(&self) -> Option<Arc<dyn Table>> {
        None
    }
    /// Whether other content is another value of this trait as soon as a statement names the table: whoever hands it
    /// out looks. Not so for files that are too far away, or too many, to be looked at for each statement: reading
    /// finds out that they have changed, so what was computed of them is not to be kept.
    fn is_watched(&self) -> bool {
        true
    }
    /// The clusters that may hold rows for which the request's predicate is true. Fails if what says which ones there
    /// are, a footer for example, cannot be read any more, or if the files have changed since the table was opened.
    fn scan(&self, request: &ScanRequest) -> Result<TableScan>;
    /// How many of its fragments may have rows for which a condition over its schema is true, and how many it has;
    /// `None` if it is not divided.
    fn fragments(&self, _predicate: Option<&Arc<dyn PhysicalExpr>>) -> Option<(usize, usize)> {
        None
    }
    /// By which rule its rows are divided into [fragments](Self::fragment); `None` if values do not decide it.
    fn declustering(&self) -> Option<Declustering> {
        None
    }
    /// The rows of one of its fragments as a table with the same columns; `None` if it is not divided.
    fn fragment(self: Arc<Self>, _fragment: usize) -> Option<Arc<dyn Table>> {
        None
    }
    /// What EXPLAIN shows: the format and where it is.
    fn describe(&self) -> String;
    /// How [`scan`](Self::scan) finds the rows of which a condition over the table's schema is true, for EXPLAIN;
    /// `None` if it looks at all rows that may fulfill it by what is known of clusters.
    fn access(&self, _condition: &Arc<dyn PhysicalExpr>) -> Option<String> {
        None
    }
    /// The same rows as a table that finds none by an index; `None` if this one does not either.
    fn without_index(self: Arc<Self>) -> Option<Arc<dyn Table>> {
        None
    }
    /// A table with some of the rows of which a condition over the table's schema is true, all if there is none: all
    /// that are the first ones in each of these orders. `None` if no index has such an order.
    fn first_rows(
        self: Arc<Self>,
        _condition: Option<&Arc<dyn PhysicalExpr>>,
        _wanted: &[FirstRows],
    ) -> Option<Arc<dyn Table>> {
        None
    }
    /// The same table for whoever wants so many of its rows at most, whichever; `None` if that saves nothing.
    fn at_most(&self, _rows: usize) -> Option<Arc<dyn Table>> {
        None
    }
    /// About how many rows it has, if they are those of one file or one series, whose order may have a meaning to its
    /// user. `None` for all others.
    fn rows_of_one_file(&self) -> Option<usize> {
        None
    }
    /// Whether it finds rows by an index, if it has a fitting one.
    fn uses_index(&self) -> bool {
        true
    }
}

/// How values decide which fragment of its table a row belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declustering {
    /// The columns whose values decide, by position in the table's schema, in the order in which the rule takes them.
    pub columns: Vec<usize>,
    /// How many fragments there are, more than one.
    pub fragments: usize,
    /// The rule, with types and bounds: tables of one rule have rows with equal values in fragments of one number.
    pub rule: String,
}

/// The first rows in an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRows {
    /// The columns, the most significant first; by position in the table's schema.
    pub order: Vec<OrderColumn>,
    /// How many rows.
    pub rows: usize,
}

/// A column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderColumn {
    /// Its position in the table's schema.
    pub column: usize,
    /// Whether large values come first.
    pub descending: bool,
    /// Whether NULLs do; if `None`, rows with NULL do not count.
    pub nulls_first: Option<bool>,
}

/// What a query wants of a table.
#[derive(Clone, Debug, Default)]
pub struct ScanRequest {
    /// Columns by position in the table's schema, in the order wanted. May be empty: only rows are counted.
    pub columns: Vec<usize>,
    /// A condition over the *table's* schema, used only to leave out clusters that cannot hold a row for which it is
    /// true.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
}

/// The outcome of planning a scan.
#[derive(Debug, Default)]
pub struct TableScan {
    /// What is to be read, in file order.
    pub clusters: Vec<Arc<dyn Cluster>>,
    /// Clusters left out because statistics, a Bloom filter or a page index prove that no row qualifies.
    pub clusters_pruned: usize,
}

/// The unit of I/O, buffering and scan scheduling: a row group, or a range of a text file.
///
/// `fetch` and `decode` may be called several times, from several threads, for different queries.
pub trait Cluster: Send + Sync + fmt::Debug {
    /// Rows in it, where known before reading.
    fn rows(&self) -> Option<usize>;
    /// Bytes that [`fetch`](Self::fetch) reads for these columns (positions in the table's schema).
    fn bytes(&self, columns: &[usize]) -> usize;
    /// The I/O that brings these columns into memory. Does nothing before it is run or polled.
    fn fetch(&self, columns: &[usize]) -> Fetch;
    /// The same, with a hint for the buffer of clusters, if it is [read through that](Self::is_buffered).
    fn fetch_hinted(&self, columns: &[usize], _hint: Hint) -> Fetch {
        self.fetch(columns)
    }
    /// Whether its bytes stay in the buffer of clusters when they have been read.
    fn is_buffered(&self) -> bool {
        false
    }
    /// The same in steps, for when memory is short: only the beginning of each column, of about `step_bytes`, is
    /// fetched at first, and the decoder [asks](Decoded::Read) for what comes next. `None` if these columns can be
    /// fetched as a whole only.
    fn fetch_in_steps(&self, _columns: &[usize], _step_bytes: usize) -> Option<FirstStep> {
        None
    }
    /// Turns what was fetched into chunks. CPU work only: no I/O, no waiting. A cluster with a [place](Self::place)
    /// also takes
    /// [`Fetched::nothing`], where all columns that it [holds](Self::holds) of those that the request looks at are
    /// shared, at least one. Fails if what was fetched shows at once that it is damaged; otherwise the
    /// [steps](Decode::step) do.
    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>>;
    /// The file and the place in it, for errors and traces.
    fn describe(&self) -> String;
    /// A number that no other cluster of its table has, and that it has whenever the table is scanned; if it takes its
    /// decoder more than a copy to get at a column, so that it pays to keep what was decoded ([`SharedColumns`]).
    fn place(&self) -> Option<u64> {
        None
    }
    /// Where the values of this column lie; `None` if that is not known without reading.
    fn zone(&self, _column: usize) -> Option<Zone> {
        None
    }
    /// Whether it decodes the values of this column; otherwise they are known without (a folder's name says them).
    fn holds(&self, _column: usize) -> bool {
        true
    }
}

/// Where a column's values lie in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// No value is less than the first or greater than the second; `None` if there is none but NULL. In the type that
    /// the column has in the table.
    pub bounds: Option<(ScalarValue, ScalarValue)>,
    /// Whether a value may be NULL.
    pub may_have_nulls: bool,
}

/// How a cluster's bytes come into memory.
pub enum Fetch {
    /// Nothing to read: everything is in memory already.
    Ready(Fetched),
    /// Reads that block a thread (local files). Run on an I/O thread.
    Blocking(Box<dyn FnOnce() -> Result<Fetched> + Send>),
    /// Reads that wait without a thread (object stores). Driven by the I/O runtime.
    Waiting(BoxFuture<'static, Result<Fetched>>),
    /// Reads through the buffer of clusters, which has threads of its own for them, and may have been asked for some of
    /// them by others.
    Buffered(Box<dyn BufferedFetch>),
}

/// What is told to whoever has begun a [buffered fetch](BufferedFetch): what it brought, and how many bytes of that the
/// buffer counts, so that nobody else needs to.
pub type FetchDone = Box<dyn FnOnce(Result<Fetched>, usize) + Send>;

/// A fetch through the buffer of clusters.
pub trait BufferedFetch: Send {
    /// Has it be done; `done` is told when it is, perhaps at once, on whatever thread, also if it fails. What nobody
    /// has begun to read is left where `gone` is set by then.
    fn begin(self: Box<Self>, gone: Arc<Gone>, done: FetchDone);
    /// Does it now, on this thread, as far as no other is at it. Fails as reading the file does.
    fn wait(self: Box<Self>) -> Result<Fetched>;
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fetch::Ready(_) => "Fetch::Ready",
            Fetch::Blocking(_) => "Fetch::Blocking",
            Fetch::Waiting(_) => "Fetch::Waiting",
            Fetch::Buffered(_) => "Fetch::Buffered",
        })
    }
}

/// The beginning of what is fetched [in steps](Cluster::fetch_in_steps).
#[derive(Debug)]
pub struct FirstStep {
    /// Bytes that it brings.
    pub bytes: usize,
    /// The I/O.
    pub fetch: Fetch,
}

/// What a fetch brought: only the cluster that made it knows its form.
pub struct Fetched {
    /// The bytes held, for accounting.
    pub bytes: usize,
    /// The content, in the cluster's own type.
    pub content: Box<dyn Any + Send>,
}

/// What was fetched where all is decoded already.
struct Nothing;

impl Fetched {
    /// What is there to decode when all columns are [shared](DecodeRequest::shared).
    pub fn nothing() -> Self {
        Self { bytes: 0, content: Box::new(Nothing) }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.content.is::<Nothing>()
    }
}

/// What is wanted of a decoder.
#[derive(Clone, Default)]
pub struct DecodeRequest {
    /// Columns by position in the table's schema; the chunks have them in this order.
    pub columns: Vec<usize>,
    /// Conditions that may drop rows while decoding. A decoder must apply all of them.
    pub filters: Vec<Arc<dyn RowFilter>>,
    /// Rows in a chunk at most.
    pub batch_rows: usize,
    /// Whether narrow physical forms are welcome: `Decimal64` for `Decimal128` of precision at most 18, and
    /// `Dictionary(Int32, Utf8)` for `Utf8View`, where the file has them and they cost less.
    pub narrow: bool,
    /// Columns that are decoded already, or that others want as well. Only clusters with a [place](Cluster::place) look
    /// at it.
    pub shared: Option<Arc<dyn SharedColumns>>,
    /// Rows, by their place in the cluster, that are not there any more; none of the filters sees them.
    pub deleted: Option<Arc<DeletedRows>>,
}

/// Which rows of a cluster are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedRows {
    /// A bit for each row; set, if it is there.
    live: BooleanBuffer,
    count: usize,
}

impl DeletedRows {
    /// None of so many rows.
    pub fn none(rows: usize) -> Self {
        Self { live: BooleanBuffer::new_set(rows), count: 0 }
    }

    /// Those of `live` that are not set.
    pub fn of(live: BooleanBuffer) -> Self {
        Self { count: live.len() - live.count_set_bits(), live }
    }

    /// All of so many rows but those at these places.
    pub fn all_but(rows: usize, places: &[usize]) -> Self {
        let mut live = BooleanBufferBuilder::new(rows);
        live.append_n(rows, false);
        places.iter().filter(|place| **place < rows).for_each(|place| live.set_bit(*place, true));
        Self::of(live.finish())
    }

    /// These as well. Those that are gone already are not counted again.
    #[must_use]
    pub fn with(&self, places: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = BooleanBufferBuilder::new(self.live.len());
        bits.append_buffer(&self.live);
        places.into_iter().filter(|place| *place < self.live.len()).for_each(|place| bits.set_bit(place, false));
        Self::of(bits.finish())
    }

    /// All others than these as well: a bit for each row.
    #[must_use]
    pub fn without_others(&self, rows: &BooleanBuffer) -> Self {
        Self::of(&self.live & rows)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.live.len().div_ceil(8)
    }

    /// How many are gone.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the row at a place is gone.
    pub fn has(&self, place: usize) -> bool {
        place < self.live.len() && !self.live.value(place)
    }

    /// A bit for each row; set, if it is there.
    pub fn live(&self) -> &BooleanBuffer {
        &self.live
    }
}

/// A condition whose answers for each row scans of one table share. Equal conditions have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnswerId(pub usize);

/// What scans share of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SharedItem {
    /// The values of a column, by its position in the table's schema.
    Column(usize),
    /// What a condition [answers](RowFilter::answer) for each row: a column of bits.
    Answer(AnswerId),
}

impl SharedItem {
    /// The column's position; `None` if it is a condition's answer.
    pub fn column(self) -> Option<usize> {
        match self {
            Self::Column(column) => Some(column),
            Self::Answer(_) => None,
        }
    }
}

/// Columns of one cluster that are decoded once for several scans: arrays in the form in which a decoder gives them,
/// one for each window of
/// [`DecodeRequest::batch_rows`] rows, whatever filters drop. (Windows of text may have fewer; those of all columns
/// have the same.)
pub trait SharedColumns: Send + Sync {
    /// The windows of an item that is there already: a column was decoded and need not be fetched. `None` if it is not.
    fn windows(&self, item: SharedItem) -> Option<&[ArrayRef]>;
    /// Columns that are to be decoded as a whole and [put](Self::put) here, though filters drop rows; and answers that
    /// are to be put, if the filter is asked of all rows.
    fn wanted(&self) -> Vec<SharedItem>;
    /// The next window of a wanted item, from the first on. False if no more of it is wanted.
    fn put(&self, item: SharedItem, window: &ArrayRef) -> bool;
    /// The cluster has so many rows; all windows of the columns that are still wanted, and could be decoded, have been
    /// put.
    fn complete(&self, rows: usize);
}

/// A condition on single rows that decoding applies: a predicate of the query, or a Bloom filter of a join.
///
/// Called from one thread at a time per decoder, from several threads for several decoders.
pub trait RowFilter: Send + Sync {
    /// The columns it looks at, by position in the table's schema.
    fn columns(&self) -> &[usize];
    /// For each row true to keep it; NULL counts as false. `columns` are in the order of
    /// [`columns`](Self::columns), equally long, in logical or narrow physical form. Fails as the condition does for a
    /// row: a division by zero, a cast that is not possible.
    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray>;
    /// Whether it may also be asked of rows that other filters drop: it never fails, it says of a row what it says
    /// whatever rows are beside it, and it costs less than to choose the rows.
    fn may_see_dropped(&self) -> bool {
        false
    }
    /// Among [shared items](SharedItem) the number under which equal conditions of other scans find what it says of
    /// each row; `None` if there are no others.
    fn answer(&self) -> Option<AnswerId> {
        None
    }
    /// The ranges in which a value of its one column must be for its row to be kept, if that is all that the filter
    /// asks. A decoder that has the numbers packed may compare them as they are instead of asking [`keep`](Self::keep).
    fn ranges(&self) -> Option<&WholeRanges> {
        None
    }
    /// Whether what it says of a row follows from the value of its one column, whenever it is asked. A decoder that has
    /// a value once for several rows may then [ask](Self::keep) once for these, also of values that no row has that is
    /// left; where that fails, the rows are asked.
    fn is_of_values(&self) -> bool {
        false
    }
    /// False while the filter would keep nearly everything and is not worth its time.
    fn is_worthwhile(&self) -> bool {
        true
    }
}

/// Rows on their way into the engine.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The wanted columns, each with `rows` values, in logical or narrow physical form.
    pub columns: Vec<ArrayRef>,
    /// The number of rows; what counts when no column was wanted.
    pub rows: usize,
}

/// The rows of one cluster, chunk by chunk.
pub trait Decode: Send {
    /// Decodes some rows, about a batch, whether or not filters leave any of them: so the caller decides how long it
    /// goes on. Not called after [`Decoded::Done`]. Errors name the file.
    fn step(&mut self) -> Result<Decoded>;

    /// Bytes that the steps need beyond what was fetched at first: decompressed pages and dictionaries. Known before
    /// the first step, so that they can be reserved before they are held. Of a cluster fetched
    /// [in steps](Cluster::fetch_in_steps) they may be others whenever it has asked for a read, which they count
    /// already, and whenever that was brought.
    fn bytes(&self) -> usize {
        0
    }

    /// Takes what a [read](Decoded::Read) brought. Errors name the file.
    fn bring(&mut self, _read: Fetched) -> Result<()> {
        Err(Error::bug("a decoder was brought what it had not asked for"))
    }

    /// The next chunk, however many steps it takes; `None` at the end, where it is not called again. Fails as
    /// [`step`](Self::step), the reads that it asks for and [`bring`](Self::bring) do, and if such a read is one that
    /// waits without a thread.
    fn next(&mut self) -> Result<Option<Chunk>> {
        loop {
            match self.step()? {
                Decoded::Chunk(chunk) => return Ok(Some(chunk)),
                Decoded::Again => {}
                Decoded::Read(Fetch::Ready(read)) => self.bring(read)?,
                Decoded::Read(Fetch::Blocking(read)) => self.bring(read()?)?,
                Decoded::Read(Fetch::Buffered(read)) => self.bring(read.wait()?)?,
                Decoded::Read(Fetch::Waiting(_)) => {
                    return Err(Error::bug("a read that waits needs somebody to drive it"));
                }
                Decoded::Done => return Ok(None),
            }
        }
    }
}

/// What a step of decoding came to.
#[derive(Debug)]
pub enum Decoded {
    /// Rows; never none.
    Chunk(Chunk),
    /// No chunk yet.
    Again,
    /// The next step needs what this reads: it is to be [brought](Decode::bring) first.
    Read(Fetch),
    /// There are no more rows.
    Done,
}
