//! The system tables: `system.queries`, `system.stages`, `system.workers`, `system.settings`. Their rows are read from the
//! engine when a statement names them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::Result;
use diligence_engine::Engine;
use diligence_sql::catalog::ComputedTable;
use diligence_storage::foreign_error::from_arrow;

use crate::settings::{SettingInfo, Settings};

/// A table whose rows are computed: a function from nothing to columns.
struct Computed {
    name: &'static str,
    schema: SchemaRef,
    rows: Box<dyn Fn() -> Vec<ArrayRef> + Send + Sync>,
}

impl std::fmt::Debug for Computed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "system.{}", self.name)
    }
}

impl ComputedTable for Computed {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Result<RecordBatch> {
        RecordBatch::try_new(self.schema.clone(), (self.rows)()).map_err(from_arrow)
    }
}

/// The system tables of a session.
pub(crate) fn tables(engine: &Arc<Engine>, settings: &Settings) -> BTreeMap<String, Arc<dyn ComputedTable>> {
    let tables = [queries(engine.clone()), stages(engine.clone()), workers(engine.clone()), all(settings.clone())];
    tables.into_iter().map(|table| (table.name.to_owned(), Arc::new(table) as Arc<dyn ComputedTable>)).collect()
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn text<T>(items: &[T], get: impl Fn(&T) -> Option<String>) -> ArrayRef {
    Arc::new(items.iter().map(get).collect::<StringArray>())
}

fn count<T>(items: &[T], get: impl Fn(&T) -> Option<u64>) -> ArrayRef {
    Arc::new(items.iter().map(get).collect::<UInt64Array>())
}

fn milliseconds<T>(items: &[T], get: impl Fn(&T) -> u64) -> ArrayRef {
    Arc::new(items.iter().map(|item| Some(get(item) as f64 / 1e6)).collect::<Float64Array>())
}

fn queries(engine: Arc<Engine>) -> Computed {
    use DataType::{Float64, UInt64, Utf8};
    let schema = schema(&[
        ("id", UInt64),
        ("state", Utf8),
        ("statement", Utf8),
        ("elapsed_ms", Float64),
        ("queued_ms", Float64),
        ("worked_ms", Float64),
        ("memory_bytes", UInt64),
        ("memory_peak_bytes", UInt64),
        ("packets", UInt64),
        ("clusters_done", UInt64),
        ("clusters_total", UInt64),
        ("error", Utf8),
    ]);
    let rows = move || {
        let queries = engine.queries();
        vec![
            count(&queries, |query| Some(query.id.0)),
            text(&queries, |query| Some(query.state.name().to_owned())),
            text(&queries, |query| Some(query.label.clone())),
            milliseconds(&queries, |query| query.elapsed_ns),
            milliseconds(&queries, |query| query.waits.queued_ns),
            milliseconds(&queries, |query| query.waits.worked_ns),
            count(&queries, |query| Some(query.memory_bytes as u64)),
            count(&queries, |query| Some(query.memory_peak_bytes as u64)),
            count(&queries, |query| Some(query.packets as u64)),
            count(&queries, |query| Some(query.clusters_done as u64)),
            count(&queries, |query| Some(query.clusters_total as u64)),
            text(&queries, |query| query.error.as_ref().map(|error| error.message().to_owned())),
        ]
    };
    Computed { name: "queries", schema, rows: Box::new(rows) }
}

fn stages(engine: Arc<Engine>) -> Computed {
    use DataType::{Float64, UInt64, Utf8};
    let schema = schema(&[
        ("name", Utf8),
        ("queued", UInt64),
        ("running", UInt64),
        ("packets_total", UInt64),
        ("turns_total", UInt64),
        ("waits_total", UInt64),
        ("wait_ms_total", Float64),
        ("service_ms_total", Float64),
    ]);
    let rows = move || {
        let stages = engine.stages();
        vec![
            text(&stages, |stage| Some(stage.name.to_owned())),
            count(&stages, |stage| Some(stage.queued as u64)),
            count(&stages, |stage| Some(stage.running as u64)),
            count(&stages, |stage| Some(stage.packets_total)),
            count(&stages, |stage| Some(stage.turns_total)),
            count(&stages, |stage| Some(stage.waits_total)),
            milliseconds(&stages, |stage| stage.wait_ns_total),
            milliseconds(&stages, |stage| stage.service_ns_total),
        ]
    };
    Computed { name: "stages", schema, rows: Box::new(rows) }
}

fn workers(engine: Arc<Engine>) -> Computed {
    use DataType::{Float64, UInt64, Utf8};
    let schema = schema(&[
        ("id", UInt64),
        ("stage", Utf8),
        ("query", UInt64),
        ("turns_total", UInt64),
        ("busy_ms_total", Float64),
    ]);
    let rows = move || {
        let workers = engine.workers();
        vec![
            count(&workers, |worker| Some(u64::from(worker.id.0))),
            text(&workers, |worker| worker.stage.map(str::to_owned)),
            count(&workers, |worker| worker.query),
            count(&workers, |worker| Some(worker.turns_total)),
            milliseconds(&workers, |worker| worker.busy_ns_total),
        ]
    };
    Computed { name: "workers", schema, rows: Box::new(rows) }
}

fn all(settings: Settings) -> Computed {
    let schema = schema(&[("name", DataType::Utf8), ("value", DataType::Utf8), ("description", DataType::Utf8)]);
    let rows = move || columns(&settings.own());
    Computed { name: "settings", schema, rows: Box::new(rows) }
}

/// Settings as the columns name, value, description.
pub(crate) fn columns(settings: &[SettingInfo]) -> Vec<ArrayRef> {
    vec![
        text(settings, |setting| Some(setting.name.clone())),
        text(settings, |setting| setting.value.clone()),
        text(settings, |setting| Some(setting.description.clone())),
    ]
}
