//! `GET /metrics`: counters in Prometheus's text format.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use diligence_db::status::{LatchInfo, PoolNumbers, ProcessState, StageInfo, Status};

use crate::admission::lanes::LaneInfo;
use crate::measures::{BUCKETS_US, Measures};
use crate::service::Service;
use crate::stages::StageCounters;

/// The counters.
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text(&service)).into_response()
}

/// Something that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    /// Its name, without the program's.
    pub name: &'static str,
    /// `gauge`, `counter` or `histogram`; the last has its values in [`Measures`].
    pub kind: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Its values by label, as Prometheus writes them.
    pub values: Vec<(String, u64)>,
}

/// Collects metrics.
struct Text(Vec<Metric>);

impl Text {
    /// A metric with its values by label.
    fn metric(&mut self, name: &'static str, kind: &'static str, help: &'static str, values: &[(String, u64)]) {
        self.0.push(Metric { name, kind, help, values: values.to_vec() });
    }

    fn one(&mut self, name: &'static str, kind: &'static str, help: &'static str, value: u64) {
        self.metric(name, kind, help, &[(String::new(), value)]);
    }
}

fn text(service: &Service) -> String {
    let mut text = String::new();
    for Metric { name, kind, help, values } in metrics_of(service) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP diligence_{name} {help}\n# TYPE diligence_{name} {kind}");
        for (label, value) in values {
            let _ = writeln!(text, "diligence_{name}{label} {value}");
        }
        if kind == "histogram" {
            times(&mut text, name, service.execution().measures());
        }
    }
    text
}

/// All that is measured.
pub(crate) fn metrics_of(service: &Service) -> Vec<Metric> {
    let mut text = Text(Vec::new());
    sessions(&mut text, service);
    admission(&mut text, service);
    stages(&mut text, service);
    let status = service.database().status();
    engine(&mut text, status);
    latches(&mut text, status);
    processes(&mut text, status);
    sharing(&mut text, status);
    storage(&mut text, status);
    checkpoints(&mut text, service);
    statements(&mut text, service.execution().measures());
    let version = env!("CARGO_PKG_VERSION");
    text.metric("build_info", "gauge", "The program.", &[(format!("{{version=\"{version}\"}}"), 1)]);
    text.0
}

/// Sessions and connections.
fn sessions(text: &mut Text, service: &Service) {
    let registry = service.registry();
    text.one("sessions", "gauge", "Sessions at this moment.", registry.count() as u64);
    text.one("connecting", "gauge", "Clients that are connecting.", registry.connecting.load(Ordering::Relaxed) as u64);
    text.one("sessions_total", "counter", "Sessions since the start.", registry.sessions_total.load(Ordering::Relaxed));
    text.one(
        "connections_refused_total",
        "counter",
        "Connections turned away.",
        registry.refused_total.load(Ordering::Relaxed),
    );
}

/// Queries that were let in or wait, by class, and plans that are kept.
fn admission(text: &mut Text, service: &Service) {
    let admission = service.execution().admission().info();
    let by = |value: fn(&LaneInfo) -> u64| {
        [("cheap", &admission.cheap), ("heavy", &admission.heavy)]
            .map(|(class, lane)| (format!("{{class=\"{class}\"}}"), value(lane)))
    };
    text.metric("queries_running", "gauge", "Queries that were let in and run.", &by(|lane| lane.running as u64));
    text.metric("queries_waiting", "gauge", "Queries that wait to be let in.", &by(|lane| lane.waiting as u64));
    text.metric("queries_admitted_total", "counter", "Queries let in.", &by(|lane| lane.admitted_total));
    text.metric(
        "queries_refused_total",
        "counter",
        "Queries refused because too many waited.",
        &by(|lane| lane.refused_total),
    );
    text.metric(
        "queries_wait_us_total",
        "counter",
        "Time in line, in microseconds.",
        &by(|lane| lane.waited_total.as_micros() as u64),
    );
    text.one(
        "heavy_memory_expected_bytes",
        "gauge",
        "What heavy queries that run are expected to reserve.",
        admission.memory_taken_bytes as u64,
    );
    let cache = service.execution().plan_cache().info();
    text.one("plans_remembered", "gauge", "Plans in the cache.", cache.plans as u64);
    text.one("plan_hits_total", "counter", "Statements that went straight to execute.", cache.hits_total);
    text.one("plan_misses_total", "counter", "Statements that were planned.", cache.misses_total);
}

/// The stages in front of the engine.
fn stages(text: &mut Text, service: &Service) {
    let stages = service.execution().stages();
    let by = |value: fn(&StageCounters) -> u64| {
        stages.iter().map(|stage| (format!("{{stage=\"{}\"}}", stage.name), value(stage))).collect::<Vec<_>>()
    };
    text.metric("stage_queued", "gauge", "Work in a stage's queue.", &by(|stage| stage.queued as u64));
    text.metric(
        "stage_waiting",
        "gauge",
        "Askers that wait for a place in the queue.",
        &by(|stage| stage.waiting as u64),
    );
    text.metric("stage_running", "gauge", "Work on a stage's threads.", &by(|stage| stage.running as u64));
    text.metric("stage_done_total", "counter", "Work done.", &by(|stage| stage.done_total));
    text.metric(
        "stage_wait_us_total",
        "counter",
        "Time in the queue, in microseconds.",
        &by(|stage| stage.wait_ns_total / 1000),
    );
    text.metric(
        "stage_service_us_total",
        "counter",
        "Time on a thread, in microseconds.",
        &by(|stage| stage.service_ns_total / 1000),
    );
}

/// The engine's stages, its budget, and what its tuner does.
fn engine(text: &mut Text, status: &Status) {
    let engine_stages = status.stages();
    let by = |value: fn(&StageInfo) -> u64| {
        engine_stages.iter().map(|stage| (format!("{{stage=\"{}\"}}", stage.name), value(stage))).collect::<Vec<_>>()
    };
    text.metric("engine_stage_queued", "gauge", "Packets in a stage's queue.", &by(|stage| stage.queued as u64));
    text.metric("engine_stage_running", "gauge", "Packets on workers.", &by(|stage| stage.running as u64));
    text.metric("engine_stage_packets_total", "counter", "Packets so far.", &by(|stage| stage.packets_total));
    text.one(
        "memory_budget_bytes",
        "gauge",
        "What all queries together may reserve.",
        status.memory_budget_bytes() as u64,
    );
    let by: Vec<_> = status
        .tuning_totals()
        .into_iter()
        .map(|(outcome, total)| (format!("{{outcome=\"{}\"}}", outcome.name()), total))
        .collect();
    text.metric("tuning_decisions_total", "counter", "Changes of settings that the tuner has tried or would try.", &by);
}

/// Locks by name.
fn latches(text: &mut Text, status: &Status) {
    let latches = status.latches();
    let by = |value: fn(&LatchInfo) -> u64| {
        latches.iter().map(|latch| (format!("{{latch=\"{}\"}}", latch.name), value(latch))).collect::<Vec<_>>()
    };
    text.metric(
        "latch_acquisitions_total",
        "counter",
        "How often a lock was taken.",
        &by(|one| one.acquisitions_total),
    );
    text.metric("latch_contended_total", "counter", "How often another thread had it.", &by(|one| one.contended_total));
    text.metric(
        "latch_wait_us_total",
        "counter",
        "Time that threads waited for a lock, in microseconds.",
        &by(|one| one.wait_ns_total / 1000),
    );
    text.metric(
        "latch_hold_us_total",
        "counter",
        "Time that threads held a lock, in microseconds, estimated from one in 64.",
        &by(|one| one.hold_ns_total / 1000),
    );
}

/// Processes that compute functions.
fn processes(text: &mut Text, status: &Status) {
    let pool = status.pool();
    let by = [ProcessState::Starting, ProcessState::Idle, ProcessState::Active].map(|state| {
        let processes = pool.iter().filter(|process| process.state == state).count();
        (format!("{{state=\"{}\"}}", state.name()), processes as u64)
    });
    text.metric("pool_processes", "gauge", "Processes that run functions in Python and WebAssembly.", &by);
    text.one("pool_memory_bytes", "gauge", "Memory that they have.", pool.iter().map(|one| one.memory_bytes).sum());
    text.one("pool_calls_total", "counter", "Answers of such processes.", status.pool_calls() as u64);
    let numbers = status.pool_numbers();
    let by = |value: fn(&PoolNumbers) -> u64| {
        numbers.map(|one| (format!("{{language=\"{}\"}}", one.runtime.name()), value(&one))).to_vec()
    };
    text.metric("pool_total", "gauge", "Processes that there are or will be.", &by(|one| one.counts.total as u64));
    text.metric("pool_active", "gauge", "Those at work or waited for.", &by(|one| one.counts.active as u64));
    text.metric("pool_threshold", "gauge", "Those that are to be free.", &by(|one| one.growth.threshold as u64));
    text.metric("pool_minimum", "gauge", "Those started at once.", &by(|one| one.growth.minimum as u64));
    text.metric("pool_maximum", "gauge", "Processes at most.", &by(|one| one.growth.maximum as u64));
    text.metric("pool_requested_total", "counter", "Processes asked for.", &by(|one| one.requested_total));
    text.metric("pool_started_total", "counter", "Processes started.", &by(|one| one.started_total));
    text.metric("pool_ended_total", "counter", "Idle processes ended.", &by(|one| one.ended_total));
    text.metric("pool_killed_total", "counter", "Processes killed for what they did.", &by(|one| one.killed_total));
    text.metric("pool_died_total", "counter", "Processes that ended by themselves.", &by(|one| one.died_total));
    text.metric("pool_refused_total", "counter", "Starts that the system refused.", &by(|one| one.refused_total));
}

/// What queries had of others.
fn sharing(text: &mut Text, status: &Status) {
    let sharing = status.sharing();
    text.one("sharing_queries_total", "counter", "Queries that asked to share.", sharing.queries_total);
    text.one("sharing_builds_total", "counter", "Runs that built a state for whoever reads it.", sharing.builds_total);
    text.one("sharing_satellites_total", "counter", "Queries that read what ran or waited.", sharing.satellites_total);
    text.one("sharing_merged_builds_total", "counter", "Runs for different queries.", sharing.merged_builds_total);
    text.one("sharing_merged_queries_total", "counter", "Queries answered by such.", sharing.merged_queries_total);
    text.one(
        "sharing_saved_microseconds_total",
        "counter",
        "Work that queries did not do because others had, in states and hash tables.",
        sharing.saved_ns_total / 1000,
    );
    text.one("sharing_retries_total", "counter", "Queries that ran alone in the end.", sharing.retries_total);
    text.one("sharing_retained_states", "gauge", "States kept for later queries.", sharing.retained_states as u64);
    text.one("sharing_retained_bytes", "gauge", "Memory that they have.", sharing.retained_bytes as u64);
    text.one("sharing_retained_hits_total", "counter", "Queries that found one.", sharing.retained_hits_total);
    text.one("sharing_subsumed_total", "counter", "Of those, queries that wanted less.", sharing.subsumed_total);
    text.one("sharing_retained_drops_total", "counter", "Retained states dropped.", sharing.retained_drops_total);
    text.one(
        "sharing_tables_built_total",
        "counter",
        "Joins' hash tables others may have.",
        sharing.tables_built_total,
    );
    text.one("sharing_tables_read_total", "counter", "Hash tables had from other joins.", sharing.tables_read_total);
    text.one("sharing_columns_bytes", "gauge", "Memory of decoded columns.", sharing.columns_bytes as u64);
    text.one(
        "sharing_columns_left_total",
        "counter",
        "Columns of clusters decoded for others.",
        sharing.columns_left_total,
    );
    text.one(
        "sharing_columns_read_total",
        "counter",
        "Columns of clusters read of others.",
        sharing.columns_read_total,
    );
    text.one(
        "sharing_cohort_reads_total",
        "counter",
        "Clusters read when another scan had just read them.",
        sharing.cohort_reads_total,
    );
    text.one("sharing_columns_drops_total", "counter", "Decoded columns dropped.", sharing.columns_drops_total);
}

/// The buffer, what is reserved, and temp space.
fn storage(text: &mut Text, status: &Status) {
    let buffer = status.buffer();
    text.one("buffer_bytes", "gauge", "Memory of the buffer of clusters.", buffer.sum(|shard| shard.bytes as u64));
    text.one("buffer_hits_total", "counter", "Ranges found in the buffer.", buffer.sum(|shard| shard.hits_total));
    text.one(
        "buffer_joins_total",
        "counter",
        "Ranges that another query was reading already.",
        buffer.sum(|shard| shard.joins_total),
    );
    text.one("buffer_misses_total", "counter", "Ranges read into it.", buffer.sum(|shard| shard.misses_total));
    text.one("buffer_evictions_total", "counter", "Ranges dropped of it.", buffer.sum(|shard| shard.evictions_total));
    text.one("buffer_reads_total", "counter", "Reads of files for it.", buffer.reads_total);
    text.one("buffer_read_bytes_total", "counter", "Bytes that they brought.", buffer.read_bytes_total);
    text.one("memory_reserved_bytes", "gauge", "What is reserved.", status.memory_reserved_bytes() as u64);
    let temp = status.temp();
    text.one("temp_files", "gauge", "Files of what does not fit in memory.", temp.files);
    text.one("temp_written_bytes_total", "counter", "Bytes written to them.", temp.written_bytes_total);
    text.one("temp_read_bytes_total", "counter", "Bytes read of them.", temp.read_bytes_total);
}

/// The log and the checkpoints of a database on disk.
fn checkpoints(text: &mut Text, service: &Service) {
    let Some(checkpoints) = service.database().checkpoints() else { return };
    text.one("checkpoints_total", "counter", "Checkpoints since the start.", checkpoints.total);
    text.one("checkpoints_failed_total", "counter", "Checkpoints that failed.", checkpoints.failed_total);
    text.one(
        "checkpoint_last_us",
        "gauge",
        "Time that the last one took, in microseconds.",
        u64::try_from(checkpoints.took.as_micros()).unwrap_or(u64::MAX),
    );
    text.one("checkpoint_image_bytes", "gauge", "Bytes of its image.", checkpoints.image_bytes);
    text.one("checkpoint_log_bytes", "gauge", "Bytes of the logs before it.", checkpoints.log_bytes);
    let log_bytes = service.database().log_bytes().unwrap_or_default();
    text.one("log_bytes", "gauge", "Bytes of records in the present log.", log_bytes);
}

/// Times of statements by door, and their errors by SQLSTATE.
fn statements(text: &mut Text, measures: &Measures) {
    text.metric("statement_seconds", "histogram", "From a statement's start to its end.", &[]);
    let histograms = measures.histograms();
    let by_door = histograms.iter().map(|one| (format!("{{door=\"{}\"}}", one.door), one.given_up));
    let help = "Statements that were cancelled, out of time, or whose clients wanted no more rows.";
    text.metric("statements_given_up_total", "counter", help, &by_door.collect::<Vec<_>>());
    let by_code = measures.errors().into_iter().map(|(code, count)| (format!("{{sqlstate=\"{code}\"}}"), count));
    text.metric("errors_total", "counter", "Errors of statements, by SQLSTATE.", &by_code.collect::<Vec<_>>());
    text.one("spans_lost_total", "counter", "Statements left out of traces.", measures.spans().lost());
}

/// Times of statements, door by door, as a histogram.
fn times(text: &mut String, name: &str, measures: &Measures) {
    let name = format!("diligence_{name}");
    for histogram in measures.histograms() {
        let door = histogram.door;
        // Writing to a string does not fail.
        for (most, count) in BUCKETS_US.iter().zip(&histogram.cumulated) {
            let most = *most as f64 / 1e6;
            let _ = writeln!(text, "{name}_bucket{{door=\"{door}\",le=\"{most}\"}} {count}");
        }
        let (count, sum) = (histogram.count, histogram.sum_us as f64 / 1e6);
        let _ = writeln!(text, "{name}_bucket{{door=\"{door}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{door=\"{door}\"}} {sum}\n{name}_count{{door=\"{door}\"}} {count}");
    }
}
