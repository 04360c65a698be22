//! `system.*`: the engine and the session as tables.
//!
//! Their rows are computed when a statement names them: of the engine's from its [`Status`], of the session's from a
//! [`SessionView`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::time::SystemTime;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::temporal_conversions::timestamp_us_to_datetime;
use diligence_base::Result;
use diligence_catalog::distribution::Distribution;
use diligence_catalog::{
    ComputedTable, HistoryState, IndexState, NativeTable, Piece, PieceRows, Relation, RelationName, SessionSnapshot,
    StoredRows,
};
use diligence_engine::tuning::Decision;
use diligence_native::{CheckpointInfo, LogInfo};
use diligence_remote::Server;
use diligence_sql::PreparedInfo;
use diligence_storage::foreign_error::from_arrow;

use crate::cursors::CursorInfo;
use crate::settings::Shown;
use crate::status::{
    BufferInfo, BuildInfo, DirectoryInfo, HolderInfo, LatchInfo, PoolNumbers, ProcessInfo, QueryInfo, ShardInfo,
    StageInfo, Status, WorkerInfo,
};

mod folder;

/// A query that whoever serves the database does not let in yet, for `system.queries`.
#[derive(Clone, Debug)]
pub struct WaitingQuery {
    /// Its number, which is below zero: those above are the engine's, which has not seen it yet.
    pub id: i64,
    /// The statement.
    pub statement: String,
    /// How long it has waited.
    pub waited: Duration,
    /// Its place in the line, from 1 on.
    pub position: usize,
    /// What it waits for, for people.
    pub reason: String,
}

/// What the tables show of the session that looks at them.
pub(crate) trait SessionView: Send + Sync {
    /// Its settings.
    fn settings(&self) -> Vec<Shown>;

    /// The settings of its client, with their values.
    fn client_settings(&self) -> Vec<(String, String)>;

    /// Queries that its database's server does not let in yet.
    fn waiting(&self) -> Vec<WaitingQuery>;

    /// How much there is of its database's past.
    fn history(&self) -> HistoryState;

    /// Its open cursors.
    fn cursors(&self) -> Vec<(String, CursorInfo)>;

    /// The statements that it has prepared, by name, and whether PREPARE did so or the client's protocol.
    fn prepared(&self) -> Vec<(String, PreparedInfo, bool)>;

    /// The servers that are attached to its database.
    fn attached(&self) -> Vec<Arc<Server>>;

    /// The files of its database's log, oldest first. Fails with kind `File` if the folder cannot be read.
    fn logs(&self) -> Result<Vec<LogInfo>>;

    /// The last checkpoints of its database, oldest first.
    fn checkpoints(&self) -> Vec<CheckpointInfo>;
}

/// The system tables, as a session sees them.
pub(crate) fn tables(status: &Status, session: &Weak<dyn SessionView>) -> BTreeMap<String, Arc<dyn ComputedTable>> {
    let table = |name: &str, columns: &[Column], source: RowsOf| {
        let fields = columns.iter().map(|(name, kind)| {
            let data_type = match kind {
                Kind::Text => DataType::Utf8View,
                Kind::Number => DataType::Int64,
            };
            Field::new(*name, data_type, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let table = SystemTable { status: status.clone(), session: session.clone(), schema, source };
        (name.to_owned(), Arc::new(table) as Arc<dyn ComputedTable>)
    };
    BTreeMap::from([
        table("attached", &ATTACHED, RowsOf::Running(attached)),
        table("buffer", &BUFFER, RowsOf::Running(buffer)),
        table("checkpoints", &folder::CHECKPOINTS, RowsOf::Folder(folder::checkpoints)),
        table("client_settings", &CLIENT_SETTINGS, RowsOf::Running(client_settings)),
        table("cursors", &CURSORS, RowsOf::Running(cursors)),
        table("fragments", &FRAGMENTS, RowsOf::Kept(fragments)),
        table("history", &HISTORY, RowsOf::Running(history)),
        table("indexes", &INDEXES, RowsOf::Kept(indexes)),
        // The same rows under the name that they had first.
        table("latches", &LOCKS, RowsOf::Running(locks)),
        table("locks", &LOCKS, RowsOf::Running(locks)),
        table("log", &folder::LOG, RowsOf::Folder(folder::log)),
        table("memory", &MEMORY, RowsOf::Running(memory)),
        table("pool", &POOL, RowsOf::Running(pool)),
        table("pool_numbers", &POOL_NUMBERS, RowsOf::Running(pool_numbers)),
        table("prepared_statements", &PREPARED, RowsOf::Running(prepared)),
        table("queries", &QUERIES, RowsOf::Running(queries)),
        table("segments", &SEGMENTS, RowsOf::Kept(segments)),
        table("settings", &SETTINGS, RowsOf::Running(settings)),
        table("sharing", &SHARING, RowsOf::Running(sharing)),
        table("stages", &STAGES, RowsOf::Running(stages)),
        table("tables", &TABLES, RowsOf::Kept(kept_tables)),
        table("temp", &TEMP, RowsOf::Running(temp)),
        table("tuning", &TUNING, RowsOf::Running(tuning)),
        table("workers", &WORKERS, RowsOf::Running(workers)),
    ])
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
}

type Column = (&'static str, Kind);

/// A value in a row.
enum Value {
    Text(Option<String>),
    Number(Option<i64>),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(Some(text))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(Some(text.to_owned()))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Value::from(number as u64)
    }
}

/// Computes the rows of a table.
#[derive(Clone, Copy)]
enum RowsOf {
    /// Of the engine and the session.
    Running(fn(&Status, Option<&dyn SessionView>) -> Vec<Vec<Value>>),
    /// Of what the session may read in the catalog.
    Kept(fn(&SessionSnapshot) -> Vec<Vec<Value>>),
    /// Of the folder of the session's database.
    Folder(fn(&dyn SessionView) -> Result<Vec<Vec<Value>>>),
}

struct SystemTable {
    status: Status,
    session: Weak<dyn SessionView>,
    schema: SchemaRef,
    source: RowsOf,
}

impl std::fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SystemTable")
    }
}

impl ComputedTable for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self, snapshot: &SessionSnapshot) -> Result<RecordBatch> {
        let rows = match self.source {
            RowsOf::Running(rows) => rows(&self.status, self.session.upgrade().as_deref()),
            RowsOf::Kept(rows) => rows(snapshot),
            RowsOf::Folder(rows) => self.session.upgrade().map_or_else(|| Ok(vec![]), |session| rows(&*session))?,
        };
        let columns = self.schema.fields().iter().enumerate().map(|(index, field)| {
            let values = rows.iter().map(|row| &row[index]);
            match field.data_type() {
                DataType::Int64 => Arc::new(Int64Array::from_iter(values.map(|value| match value {
                    Value::Number(number) => *number,
                    Value::Text(_) => None,
                }))) as ArrayRef,
                _ => Arc::new(StringViewArray::from_iter(values.map(|value| match value {
                    Value::Text(text) => text.as_deref(),
                    Value::Number(_) => None,
                }))) as ArrayRef,
            }
        });
        RecordBatch::try_new(self.schema.clone(), columns.collect()).map_err(from_arrow)
    }
}

const TABLES: [Column; 8] = [
    ("schema", Kind::Text),
    ("name", Kind::Text),
    ("rows", Kind::Number),
    ("rows_in_memory", Kind::Number),
    ("bytes_in_memory", Kind::Number),
    ("segments", Kind::Number),
    ("clusters", Kind::Number),
    ("rows_gone", Kind::Number),
];

/// The tables whose rows statements change.
fn readable_tables(snapshot: &SessionSnapshot) -> impl Iterator<Item = (&RelationName, &Arc<NativeTable>)> {
    let readable = snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name));
    readable.filter_map(|object| match &object.relation {
        Relation::Native(table) if snapshot.sees(&object.name) => Some((&object.name, table)),
        _ => None,
    })
}

/// The clusters of a table.
fn clusters(table: &NativeTable) -> impl Iterator<Item = (&StoredRows, &Piece)> {
    table.pieces().iter().filter_map(|piece| match piece.rows() {
        PieceRows::Stored(stored) => Some((stored, piece)),
        PieceRows::Memory(_) => None,
    })
}

const INDEXES: [Column; 10] = [
    ("schema", Kind::Text),
    ("table", Kind::Text),
    ("name", Kind::Text),
    ("columns", Kind::Text),
    ("entries", Kind::Number),
    ("runs", Kind::Number),
    ("bytes", Kind::Number),
    ("scans", Kind::Number),
    ("rows_found", Kind::Number),
    ("file_bytes", Kind::Number),
];

fn indexes(snapshot: &SessionSnapshot) -> Vec<Vec<Value>> {
    let row = |name: &RelationName, index: IndexState<'_>| {
        vec![
            name.schema.as_str().into(),
            name.name.as_str().into(),
            index.key.name.as_str().into(),
            index.key.columns.join(", ").into(),
            index.entries.into(),
            index.runs.into(),
            index.bytes.into(),
            index.scans.into(),
            index.rows_found.into(),
            index.file_bytes.into(),
        ]
    };
    readable_tables(snapshot)
        .flat_map(|(name, table)| table.indexes().into_iter().map(move |index| row(name, index)).collect::<Vec<_>>())
        .collect()
}

fn kept_tables(snapshot: &SessionSnapshot) -> Vec<Vec<Value>> {
    let row = |(name, table): (&RelationName, &Arc<NativeTable>)| {
        let stored = clusters(table).map(|(_, piece)| piece.len()).sum::<usize>();
        let gone = clusters(table).map(|(_, piece)| piece.total() - piece.len()).sum::<usize>();
        let segments = clusters(table).map(|(stored, _)| stored.view.segment().number()).collect::<BTreeSet<_>>();
        vec![
            name.schema.as_str().into(),
            name.name.as_str().into(),
            table.rows().into(),
            (table.rows() - stored).into(),
            table.pieces().iter().map(Piece::bytes_in_memory).sum::<usize>().into(),
            segments.len().into(),
            clusters(table).count().into(),
            gone.into(),
        ]
    };
    readable_tables(snapshot).map(row).collect()
}

const SEGMENTS: [Column; 7] = [
    ("schema", Kind::Text),
    ("table", Kind::Text),
    ("segment", Kind::Number),
    ("segment_bytes", Kind::Number),
    ("cluster", Kind::Number),
    ("rows", Kind::Number),
    ("rows_gone", Kind::Number),
];

/// One row for each cluster.
fn segments(snapshot: &SessionSnapshot) -> Vec<Vec<Value>> {
    let rows = readable_tables(snapshot).flat_map(|(name, table)| {
        clusters(table).map(move |(stored, piece)| {
            let segment = stored.view.segment();
            vec![
                name.schema.as_str().into(),
                name.name.as_str().into(),
                segment.number().into(),
                segment.bytes().into(),
                stored.cluster.into(),
                piece.len().into(),
                (piece.total() - piece.len()).into(),
            ]
        })
    });
    rows.collect()
}

const FRAGMENTS: [Column; 10] = [
    ("schema", Kind::Text),
    ("table", Kind::Text),
    ("fragment", Kind::Number),
    ("strategy", Kind::Text),
    ("columns", Kind::Text),
    ("bounds", Kind::Text),
    ("clustered_by", Kind::Text),
    ("rows", Kind::Number),
    ("segments", Kind::Number),
    ("bytes", Kind::Number),
];

/// One row for each fragment of each table.
fn fragments(snapshot: &SessionSnapshot) -> Vec<Vec<Value>> {
    let rows = readable_tables(snapshot).flat_map(|(name, table)| {
        let Distribution { strategy, clustered } = &table.rules().distribution;
        let listed = |columns: &[String]| Value::Text((!columns.is_empty()).then(|| columns.join(", ")));
        (0..strategy.fragments()).map(move |fragment| {
            let pieces = table.pieces().iter().filter(|piece| piece.fragment() == fragment);
            let segments = pieces.clone().filter_map(|piece| match piece.rows() {
                PieceRows::Stored(stored) => Some((stored.view.segment().number(), stored.view.segment().bytes())),
                PieceRows::Memory(_) => None,
            });
            let segments = segments.collect::<BTreeMap<_, _>>();
            let in_memory = pieces.clone().map(Piece::bytes_in_memory).sum::<usize>() as u64;
            vec![
                name.schema.as_str().into(),
                name.name.as_str().into(),
                usize::from(fragment).into(),
                strategy.name().into(),
                listed(strategy.columns()),
                Value::Text(strategy.bounds_of(fragment)),
                listed(clustered),
                pieces.map(Piece::len).sum::<usize>().into(),
                segments.len().into(),
                (segments.values().sum::<u64>() + in_memory).into(),
            ]
        })
    });
    rows.collect()
}

const QUERIES: [Column; 15] = [
    ("id", Kind::Number),
    ("state", Kind::Text),
    ("statement", Kind::Text),
    ("elapsed_us", Kind::Number),
    ("queued_us", Kind::Number),
    ("worked_us", Kind::Number),
    ("packets", Kind::Number),
    ("clusters_done", Kind::Number),
    ("clusters_total", Kind::Number),
    ("memory_bytes", Kind::Number),
    ("memory_peak_bytes", Kind::Number),
    ("sharing", Kind::Text),
    ("error", Kind::Text),
    ("position", Kind::Number),
    ("reason", Kind::Text),
];

/// Queries of the engine, then those that are not let in yet: these have a number below zero, a position and a reason.
fn queries(status: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |query: QueryInfo| {
        vec![
            query.id.0.into(),
            query.state.name().into(),
            query.label.into(),
            (query.elapsed_ns / 1000).into(),
            (query.waits.queued_ns / 1000).into(),
            (query.waits.worked_ns / 1000).into(),
            query.packets.into(),
            query.clusters_done.into(),
            query.clusters_total.into(),
            query.memory_bytes.into(),
            query.memory_peak_bytes.into(),
            Value::Text(query.sharing),
            Value::Text(query.error.map(|error| error.message().to_owned())),
            Value::Number(None),
            Value::Text(None),
        ]
    };
    let waiting = |query: WaitingQuery| {
        let mut row = vec![Value::Number(Some(query.id)), "waiting".into(), query.statement.into()];
        row.push((query.waited.as_micros() as u64).into());
        row.extend((0..7).map(|_| Value::Number(Some(0))));
        row.extend([Value::Text(None), Value::Text(None), query.position.into(), query.reason.into()]);
        row
    };
    let at_the_door = session.map(SessionView::waiting).unwrap_or_default();
    status.queries().into_iter().map(row).chain(at_the_door.into_iter().map(waiting)).collect()
}

const MEMORY: [Column; 6] = [
    ("query", Kind::Number),
    ("operator", Kind::Text),
    ("bytes", Kind::Number),
    ("revocable", Kind::Text),
    ("asked_bytes", Kind::Number),
    ("budget_bytes", Kind::Number),
];

fn memory(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let budget = status.memory_budget_bytes();
    let row = |holder: HolderInfo| {
        vec![
            Value::Number(holder.query.and_then(|query| i64::try_from(query.0).ok())),
            holder.operator.into(),
            holder.bytes.into(),
            if holder.is_revocable { "yes" } else { "no" }.into(),
            holder.asked_bytes.into(),
            budget.into(),
        ]
    };
    status.memory_holders().into_iter().map(row).collect()
}

const TEMP: [Column; 9] = [
    ("directory", Kind::Text),
    ("used_bytes", Kind::Number),
    ("free_bytes", Kind::Number),
    ("direct", Kind::Text),
    ("io", Kind::Text),
    ("files", Kind::Number),
    ("read_bytes_total", Kind::Number),
    ("written_bytes_total", Kind::Number),
    ("waits_total", Kind::Number),
];

/// A row for each directory; the totals are those of all of them.
fn temp(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let info = status.temp();
    let row = |directory: &DirectoryInfo| {
        vec![
            directory.path.display().to_string().into(),
            (directory.clusters_used * info.cluster_bytes).into(),
            (directory.clusters_free * info.cluster_bytes).into(),
            if directory.is_direct { "yes" } else { "no" }.into(),
            info.io.to_string().into(),
            info.files.into(),
            info.read_bytes_total.into(),
            info.written_bytes_total.into(),
            info.waits_total.into(),
        ]
    };
    info.directories.iter().map(row).collect()
}

const BUFFER: [Column; 15] = [
    ("shard", Kind::Number),
    ("ranges", Kind::Number),
    ("bytes", Kind::Number),
    ("pinned_bytes", Kind::Number),
    ("limit_bytes", Kind::Number),
    ("reading", Kind::Number),
    ("hits_total", Kind::Number),
    ("joins_total", Kind::Number),
    ("misses_total", Kind::Number),
    ("evictions_total", Kind::Number),
    ("tosses_total", Kind::Number),
    ("acquisitions_total", Kind::Number),
    ("wait_us_total", Kind::Number),
    ("longest_wait_us", Kind::Number),
    ("hold_us_total", Kind::Number),
];

/// A row for each shard of the buffer of clusters; the limit is that of all of them.
fn buffer(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let BufferInfo { shards, bytes_max, .. } = status.buffer();
    let row = |(number, shard): (usize, ShardInfo)| {
        vec![
            number.into(),
            shard.ranges.into(),
            shard.bytes.into(),
            shard.pinned_bytes.into(),
            bytes_max.into(),
            shard.reading.into(),
            shard.hits_total.into(),
            shard.joins_total.into(),
            shard.misses_total.into(),
            shard.evictions_total.into(),
            shard.tosses_total.into(),
            shard.latch.acquisitions_total.into(),
            (shard.latch.wait_ns_total / 1000).into(),
            (shard.latch.wait_ns_max / 1000).into(),
            (shard.latch.hold_ns_total / 1000).into(),
        ]
    };
    shards.into_iter().enumerate().map(row).collect()
}

const SHARING: [Column; 8] = [
    ("state", Kind::Text),
    ("queries", Kind::Number),
    ("readers", Kind::Number),
    ("elapsed_us", Kind::Number),
    ("bytes", Kind::Number),
    ("uses", Kind::Number),
    ("saved_us_per_mb", Kind::Number),
    ("statement", Kind::Text),
];

/// What is being built for several queries, or waits to be, and what is kept for later ones.
fn sharing(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |build: BuildInfo| {
        vec![
            build.state.into(),
            build.queries.into(),
            build.readers.into(),
            (build.elapsed_ns / 1000).into(),
            build.bytes.into(),
            build.uses.into(),
            // Nanoseconds for a byte are milliseconds for a megabyte.
            ((build.value * 1e3) as u64).into(),
            build.label.into(),
        ]
    };
    status.sharing().builds.into_iter().map(row).collect()
}

const STAGES: [Column; 10] = [
    ("name", Kind::Text),
    ("queued", Kind::Number),
    ("running", Kind::Number),
    ("packets_total", Kind::Number),
    ("turns_total", Kind::Number),
    ("waits_total", Kind::Number),
    ("wait_us_total", Kind::Number),
    ("service_us_total", Kind::Number),
    ("policy", Kind::Text),
    ("workers", Kind::Number),
];

fn stages(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |stage: StageInfo| {
        vec![
            stage.name.into(),
            stage.queued.into(),
            stage.running.into(),
            stage.packets_total.into(),
            stage.turns_total.into(),
            stage.waits_total.into(),
            (stage.wait_ns_total / 1000).into(),
            (stage.service_ns_total / 1000).into(),
            Value::Text(status.policy_of(stage.name)),
            Value::Number(status.workers_of(stage.name).map(|workers| i64::try_from(workers).unwrap_or(i64::MAX))),
        ]
    };
    status.stages().into_iter().map(row).collect()
}

const LOCKS: [Column; 7] = [
    ("name", Kind::Text),
    ("acquisitions_total", Kind::Number),
    ("contended_total", Kind::Number),
    ("wait_us_total", Kind::Number),
    ("longest_wait_us", Kind::Number),
    ("hold_us_total", Kind::Number),
    ("timed_total", Kind::Number),
];

/// Locks of the engine by name, not those of transactions; what they were held is an estimate from the acquisitions
/// that were timed.
fn locks(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |latch: LatchInfo| {
        vec![
            latch.name.into(),
            latch.acquisitions_total.into(),
            latch.contended_total.into(),
            (latch.wait_ns_total / 1000).into(),
            (latch.wait_ns_max / 1000).into(),
            (latch.hold_ns_total / 1000).into(),
            latch.timed_total.into(),
        ]
    };
    status.latches().into_iter().map(row).collect()
}

const TUNING: [Column; 8] = [
    ("at_us", Kind::Number),
    ("knob", Kind::Text),
    ("old_value", Kind::Text),
    ("new_value", Kind::Text),
    ("reason", Kind::Text),
    ("before_us", Kind::Number),
    ("after_us", Kind::Number),
    ("outcome", Kind::Text),
];

/// What the tuner has decided, when on the engine's clock, why, and what queries took without it and with it.
fn tuning(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |decision: Decision| {
        let micros = |ns: f64| Value::Number(Some((ns / 1000.0) as i64));
        let (before, after) = decision
            .took_ns
            .map_or((Value::Number(None), Value::Number(None)), |(old, new)| (micros(old), micros(new)));
        vec![
            (decision.at_ns / 1000).into(),
            decision.knob.name().into(),
            decision.knob.shown(decision.from).into(),
            decision.knob.shown(decision.to).into(),
            decision.reason.into(),
            before,
            after,
            decision.outcome.name().into(),
        ]
    };
    status.tuning().into_iter().map(row).collect()
}

const WORKERS: [Column; 7] = [
    ("id", Kind::Number),
    ("serves", Kind::Text),
    ("stage", Kind::Text),
    ("query", Kind::Number),
    ("turns_total", Kind::Number),
    ("busy_us_total", Kind::Number),
    ("longest_turn_us", Kind::Number),
];

fn workers(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |worker: WorkerInfo| {
        vec![
            u64::from(worker.id.0).into(),
            if worker.is_express { "short queries" } else { "all" }.into(),
            Value::Text(worker.stage.map(str::to_owned)),
            Value::Number(worker.query.and_then(|query| i64::try_from(query).ok())),
            worker.turns_total.into(),
            (worker.busy_ns_total / 1000).into(),
            (worker.turn_ns_max / 1000).into(),
        ]
    };
    status.workers().into_iter().map(row).collect()
}

const POOL: [Column; 9] = [
    ("id", Kind::Number),
    ("language", Kind::Text),
    ("pid", Kind::Number),
    ("state", Kind::Text),
    ("functions", Kind::Text),
    ("calls", Kind::Number),
    ("rows", Kind::Number),
    ("memory_bytes", Kind::Number),
    ("kept_from", Kind::Text),
];

/// Processes that compute functions in other languages.
fn pool(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |process: ProcessInfo| {
        vec![
            process.number.into(),
            process.runtime.name().into(),
            u64::from(process.pid).into(),
            process.state.name().into(),
            process.functions.join(", ").into(),
            process.calls.into(),
            process.rows.into(),
            process.memory_bytes.into(),
            process.kept_from.name().into(),
        ]
    };
    status.pool().into_iter().map(row).collect()
}

const POOL_NUMBERS: [Column; 12] = [
    ("language", Kind::Text),
    ("total", Kind::Number),
    ("active", Kind::Number),
    ("threshold", Kind::Number),
    ("minimum", Kind::Number),
    ("maximum", Kind::Number),
    ("requested_total", Kind::Number),
    ("started_total", Kind::Number),
    ("ended_total", Kind::Number),
    ("killed_total", Kind::Number),
    ("died_total", Kind::Number),
    ("refused_total", Kind::Number),
];

/// How many such processes there are, their bounds, and how they came and went: a row for each language.
fn pool_numbers(status: &Status, _: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |numbers: PoolNumbers| {
        vec![
            numbers.runtime.name().into(),
            numbers.counts.total.into(),
            numbers.counts.active.into(),
            numbers.growth.threshold.into(),
            numbers.growth.minimum.into(),
            numbers.growth.maximum.into(),
            numbers.requested_total.into(),
            numbers.started_total.into(),
            numbers.ended_total.into(),
            numbers.killed_total.into(),
            numbers.died_total.into(),
            numbers.refused_total.into(),
        ]
    };
    status.pool_numbers().into_iter().map(row).collect()
}

const ATTACHED: [Column; 4] =
    [("name", Kind::Text), ("type", Kind::Text), ("address", Kind::Text), ("schema", Kind::Text)];

/// Servers that are attached. Their addresses have no passwords.
fn attached(_: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |server: Arc<Server>| {
        vec![server.name().into(), "postgres".into(), server.address().into(), server.schema().into()]
    };
    session.map_or_else(Vec::new, |session| session.attached().into_iter().map(row).collect())
}

const CURSORS: [Column; 6] = [
    ("name", Kind::Text),
    ("statement", Kind::Text),
    ("is_holdable", Kind::Text),
    ("is_binary", Kind::Text),
    ("is_scrollable", Kind::Text),
    ("creation_time", Kind::Text),
];

/// The cursors that are open.
fn cursors(_: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let flag = |is: bool| Value::from(if is { "t" } else { "f" });
    let row = |(name, info): (String, CursorInfo)| {
        let flags = [flag(info.is_holdable), flag(info.is_binary), flag(info.is_scrollable)];
        [name.into(), info.statement.into()].into_iter().chain(flags).chain([instant(info.opened)]).collect()
    };
    session.map_or_else(Vec::new, |session| session.cursors().into_iter().map(row).collect())
}

/// An instant's text in UTC.
fn instant(at: SystemTime) -> Value {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Value::Text(timestamp_us_to_datetime(since.as_micros() as i64).map(|at| format!("{at}+00")))
}

const PREPARED: [Column; 5] = [
    ("name", Kind::Text),
    ("statement", Kind::Text),
    ("prepare_time", Kind::Text),
    ("parameter_types", Kind::Text),
    ("from_sql", Kind::Text),
];

/// The statements that the session has prepared.
fn prepared(_: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let row = |(name, info, is_of_sql): (String, PreparedInfo, bool)| {
        let (since, of_sql) = (instant(info.since), if is_of_sql { "t" } else { "f" });
        vec![name.into(), info.statement.into(), since, info.types.join(", ").into(), of_sql.into()]
    };
    session.map_or_else(Vec::new, |session| session.prepared().into_iter().map(row).collect())
}

const SETTINGS: [Column; 4] =
    [("name", Kind::Text), ("value", Kind::Text), ("default", Kind::Text), ("description", Kind::Text)];

const CLIENT_SETTINGS: [Column; 2] = [("name", Kind::Text), ("value", Kind::Text)];

fn client_settings(_: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let settings = session.map(SessionView::client_settings).unwrap_or_default();
    settings.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect()
}

const HISTORY: [Column; 3] =
    [("retention_ms", Kind::Number), ("states", Kind::Number), ("reaches_back_ms", Kind::Number)];

/// How far one can look back: one row.
fn history(_: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let Some(session) = session else { return vec![] };
    let HistoryState { retention, moments, oldest, now } = session.history();
    let back = oldest.map(|oldest| (now - oldest) / 1000);
    vec![vec![Value::Number(Some(retention / 1000)), moments.into(), Value::Number(back)]]
}

fn settings(_: &Status, session: Option<&dyn SessionView>) -> Vec<Vec<Value>> {
    let Some(session) = session else { return vec![] };
    let rows = session.settings().into_iter();
    rows.map(|shown| vec![shown.name.into(), shown.value.into(), shown.default.into(), shown.description.into()])
        .collect()
}
