//! Every bound of the engine: its name ends in its unit, its comment gives the reason.

use std::time::Duration;

/// Savepoints of a transaction at most: each keeps what the tables were. Drivers set one before each statement.
pub const SAVEPOINTS_MAX: usize = 10_000;

/// Rows in a batch at most. 8192 rows of a few 8-byte columns fit the L2 cache of one core, and
/// Arrow's kernels have amortized their per-call cost by then.
pub const BATCH_ROWS_MAX: usize = 8192;

/// Bytes of a batch, at least and at most: what the rows of a batch come to on the average, where they are so wide that
/// 8192 of them would be more. A batch has a part of what its query may have of memory, as several are on their way at
/// once.
pub const BATCH_BYTES: std::ops::RangeInclusive<usize> = 512 << 10..=4 << 20;

/// That part, as a divisor.
pub const BATCH_BUDGET_DIVISOR: usize = 32;

/// Rows that a batch of wide rows has at least: with fewer, what is done once per batch would be done for each row.
pub const BATCH_ROWS_MIN: usize = 16;

/// How long a packet runs before it goes back to its stage's queue. Long enough that a queue
/// operation (about 1 us) is noise, short enough that a short query is never behind a long one
/// for more than a few milliseconds per worker.
pub const QUANTUM: Duration = Duration::from_millis(2);

/// How long it runs at least if a packet of a short query comes meanwhile: some batches, so that
/// many short queries do not cut long ones into turns that cost more than they do.
pub const QUANTUM_CUT: Duration = Duration::from_micros(200);

/// What the quantum can be set to. Below, queues cost more than what they order; above, whoever waits for one turn
/// notices.
pub const QUANTUM_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_micros(200)..=Duration::from_millis(100);

/// Batches a producer may be ahead of its consumer at one port (Volcano's flow-control slack).
/// Four hides the hand-over between two workers; more only holds memory.
pub const PORT_CREDITS: usize = 4;

/// What they can be set to: with one, the two ends take turns; 64 batches of 4 MiB are memory that others want.
pub const PORT_CREDITS_RANGE: std::ops::RangeInclusive<usize> = 1..=64;

/// Clusters that a scan may have in flight or waiting for a packet, per packet of its pipeline.
/// Two: one being decoded, one being read.
pub const READ_AHEAD_CLUSTERS: usize = 2;

/// What they can be set to: one is needed to read at all; 16 for each packet are more than a disk has in its queue.
pub const READ_AHEAD_RANGE: std::ops::RangeInclusive<usize> = 1..=16;

/// Rows in a morsel at most, where a cluster is larger. Large enough to amortize opening column
/// readers, small enough that the last morsel of a scan does not leave other workers idle long.
pub const MORSEL_ROWS_MAX: usize = 128 * 1024;

/// Rows of a row group that is written to a Parquet file, unless a setting says otherwise.
pub const PARQUET_ROW_GROUP_ROWS: usize = 128 * 1024;

/// Threads that wait for local files on behalf of scans. They sleep in the kernel; the number
/// bounds the queue depth at the disk.
pub const IO_THREADS: usize = 4;

/// What they can be set to: each is a thread with a stack, and none ends before the engine does.
pub const IO_THREADS_RANGE: std::ops::RangeInclusive<usize> = 1..=64;

/// Worker threads at most: each has a stack of 8 MiB, and more than a few per core only get in each other's way.
pub const WORKERS_MAX: usize = 1024;

/// Bytes that a query is sure of before it starts: some batches for every packet of a pipeline, and what its operators
/// need to go on when everything else is in temp space. Less where the budget is less.
pub const QUERY_GRANT_BYTES: usize = 16 << 20;

/// Time on workers that a cheap query takes at most, where it is known from an earlier run: a server admits cheap
/// queries beside heavy ones, and fifty milliseconds of one worker are not noticed there. A query that ended early and
/// had used less says nothing about what it would have used.
pub const CHEAP_WORK_MAX: Duration = Duration::from_millis(50);

/// How long a source is refused memory, while nobody else gets on either, before its query fails: longer than what
/// others may wait for a disk that is at work.
pub const MEMORY_PATIENCE: Duration = Duration::from_secs(1);

/// How long a reader takes nothing before its query gives up what it is sure of, if others wait for that: longer than
/// anybody who reads takes for a batch.
pub const READER_RESTS: Duration = Duration::from_millis(50);

/// The least memory budget, of the process or of one query: a hash table, a sort or a window that goes to temp space
/// needs a few clusters there to be written and read, some batches of each packet, and one of these below another. With
/// less, queries would fail for want of memory that more disk cannot give.
pub const MEMORY_BYTES_MIN: usize = 16 << 20;

/// Bytes of a cluster of temp space: large enough that a disk spends its time moving bytes and not seeking or
/// answering, small enough that a hundred partitions have one each.
pub const TEMP_CLUSTER_BYTES: usize = 1 << 20;

/// The least that a cluster of temp space is made for small budgets: smaller ones would cost more to ask for than to
/// move.
pub const TEMP_CLUSTER_BYTES_MIN: usize = 64 << 10;

/// Clusters that a memory budget is to hold at least: an operator with two packets is sure of ten, and there may be
/// several.
pub const TEMP_CLUSTERS_PER_BUDGET: usize = 256;

/// By how much a temp file grows, at least and at most: rarely, and in few extents.
pub const TEMP_GROWTH_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=256 << 20;

/// Clusters of one operator that may be on their way to the disk: one being written by each of a few threads, and one
/// or two being filled meanwhile.
pub const TEMP_WRITES_MAX: usize = 4;

/// Reads and writes of temp space that are under way in an io_uring: a few for each of some operators. More wait in a
/// queue, which costs nothing: no disk does more at once.
pub const TEMP_RING_DEPTH: usize = 64;

/// Clusters that a reader of temp space asks for before they are wanted.
pub const TEMP_READ_AHEAD_CLUSTERS: usize = 2;

/// Bytes that one call of a function may give for a batch of rows. Functions make their results before anybody can
/// refuse the memory, and the process must not be killed for `repeat('x', 2000000000)`.
pub const FUNCTION_BYTES_MAX: usize = 1 << 30;

/// Bytes that a constant part of a statement may have to be computed while planning. Larger ones are computed by the
/// query, which can be cancelled. A constant may be copied for each row of a batch, and 8192 times this is still
/// bearable.
pub const CONSTANT_BYTES_MAX: usize = 64 << 10;

/// The share of the machine's (or the container's) memory that a process may use by default.
pub const MEMORY_SHARE_PERCENT: u64 = 70;

/// The bytes a statement's text may have: above this, parsing alone would hold a worker.
pub const STATEMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Files whose times are looked at before every statement; of a table with more, the first so many. A look takes about
/// a microsecond.
pub const FILES_LOOKED_AT_MAX: usize = 64;

/// Folders of a table that are looked at for files that came or went: about a millisecond of looks.
pub const FOLDERS_LOOKED_AT_MAX: usize = 1000;

/// Rows that a plan must be expected to touch before it is looked at for sharing. Fewer are worked on in about a
/// millisecond, and finding out who shares takes some ten microseconds.
pub const SHARING_ROWS_MIN: usize = 50_000;

/// Bytes that a shared state may have at most, and at most this share of the budget. What is larger is not worth
/// keeping beside the work of others: then each query runs for itself.
pub const SHARED_STATE_BYTES_MAX: usize = 64 << 20;

/// By what the budget is divided for the same.
pub const SHARED_STATE_BUDGET_PART: usize = 8;

/// How long scans leave no decoded columns for others after a query was short of memory. One that writes to temp space
/// is short again as soon as it has filled what it freed.
pub const COLUMNS_REST: Duration = Duration::from_secs(2);

/// How long a shared run keeps queries of other templates from starting. Most runs end sooner; behind a longer one
/// nobody waits on and on.
pub const SHARING_PATIENCE: Duration = Duration::from_secs(1);

/// Those of its own template it keeps from starting until it has worked for so long, or for so many times the work of a
/// lone one, if that is longer: on their own they would not be answered sooner while the workers are busy, and together
/// they are less work.
pub const SHARING_PATIENCE_RUNS: u64 = 4;

/// Runs for queries of templates that are at work at most, however long they take: as many as a server lets in of what
/// shares nothing. More would take longer each, and batches grow while they wait.
pub const SHARED_RUNS_MAX: usize = 16;

/// The part of the budget, in percent, that finished states may have for later queries. What is kept for nobody in
/// particular should never be what a machine's memory mostly holds.
pub const RETAINED_PERCENT: usize = 10;

/// The most that it can be set to.
pub const RETAINED_PERCENT_MAX: usize = 50;

/// The part of the budget, in percent, that columns which scans have decoded may have for other scans. It takes the
/// place of decoding what is asked for again and again; what is asked for rarely stays in the system's page cache, in
/// fewer bytes.
pub const COLUMNS_PERCENT: usize = 30;

/// The most that it can be set to.
pub const COLUMNS_PERCENT_MAX: usize = 80;

/// States that are kept at most: each has a signature and a plan's structure beside its rows, some kilobytes.
pub const RETAINED_STATES_MAX: usize = 1000;

/// Queries that one run serves at most: one bit of a mask each.
pub const MERGED_QUERIES_MAX: usize = 64;

/// Finished queries that `system.queries` remembers.
pub const QUERY_HISTORY_MAX: usize = 200;

/// Primed processes that are to be free at any time. One: while it works, others start behind it.
pub const POOL_THRESHOLD: usize = 1;

/// Primed processes that are started at once, at least: the one that is asked for and the next.
pub const POOL_MINIMUM: usize = 2;

/// Primed processes at most, unless a setting says otherwise: each is an interpreter of 10 MB or more, and more than a
/// few per core only get in each other's way.
pub const POOL_MAXIMUM: usize = 32;

/// The most that it can be set to: each takes four file descriptors and, while a call waits for it, a thread.
pub const POOL_MAXIMUM_MAX: usize = 1000;

/// How long a primed process may be idle before it is ended, if others are free.
pub const POOL_IDLE: Duration = Duration::from_secs(60);

/// Functions that a primed process keeps: most are some kilobytes, but what a function imports stays as well.
pub const POOL_FUNCTIONS_MAX: usize = 64;

/// Functions that the pool remembers by their texts, beside those that plans have.
pub const POOL_CODES_MAX: usize = 1000;

/// Rows that a function gets at once as long as nobody knows what one takes.
pub const POOL_FIRST_ROWS: usize = 256;

/// How long a function is to work on the rows that it gets at once: long beside the way there and back,
/// and short enough that a statement that is cancelled hardly ever has to kill a process.
pub const POOL_FRAME_TIME: Duration = Duration::from_millis(20);

/// How long a function may work on the rows that it gets at once, unless a setting says otherwise. They are few where
/// rows take long, so this is the time of about one call.
pub const FUNCTION_TIME: Duration = Duration::from_secs(60);

/// Virtual memory of a primed process, unless a setting says otherwise: an interpreter takes 30 MB, one with large
/// libraries half a gigabyte.
pub const FUNCTION_MEMORY_BYTES: u64 = 1 << 30;

/// The least that it can be set to: with less, the interpreter does not start.
pub const FUNCTION_MEMORY_BYTES_MIN: u64 = 64 << 20;

/// How long an interpreter may take to start: a cold disk takes seconds.
pub const POOL_START_TIME: Duration = Duration::from_secs(30);

/// Bytes that a primed process may answer at once: more are held by no batch.
pub const POOL_REPLY_BYTES_MAX: usize = 256 << 20;

/// Bytes of what a function prints that one call keeps.
pub const POOL_PRINTED_BYTES_MAX: usize = 64 << 10;

/// Bytes of what functions print that a query holds until its reader takes it.
pub const PRINTED_BYTES_MAX: usize = 256 << 10;

/// Threads that take the places of workers which wait for a primed process. As many calls as that wait without being in
/// the way of other queries.
pub const STAND_INS_MAX: usize = 64;

/// Decisions of the tuner that `system.tuning` remembers.
pub const TUNING_HISTORY_MAX: usize = 500;

const _: () = assert!(BATCH_ROWS_MAX <= MORSEL_ROWS_MAX);
const _: () = assert!(POOL_FIRST_ROWS <= BATCH_ROWS_MAX);
const _: () = assert!(POOL_THRESHOLD <= POOL_MINIMUM && POOL_MINIMUM <= POOL_MAXIMUM);
const _: () = assert!(POOL_MAXIMUM <= POOL_MAXIMUM_MAX);
const _: () = assert!(QUERY_GRANT_BYTES <= MEMORY_BYTES_MIN);
const _: () = assert!(8 * TEMP_CLUSTER_BYTES <= MEMORY_BYTES_MIN);
