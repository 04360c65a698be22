//! A plan, and how it ran, as JSON: `EXPLAIN (FORMAT JSON)` and `EXPLAIN (ANALYZE, FORMAT JSON)`, for programs that
//! draw it.
//!
//! ```json
//! { "plan": { "operator": "Limit 1", "rows_estimate": 1, "inputs": [ … ] },
//!   "could_share": "no, because …",
//!   "query": { "elapsed_us": 1200, "memory_peak_bytes": 4096, … },
//!   "pipelines": [ { "stage": "scan", "packets": 2, "operators": [ { "name": "Scan t", "rows": 3, … } ] } ] }
//! ```
//!
//! What it could share is there when it did not run, the last two when it did. An operator of a pipeline has the name
//! of the plan's node that it does the work of; a name that begins with `=> ` is where the pipeline ends.

use diligence_engine::flow::profile::{OperatorProfile, PipelineProfile, Profile};
use diligence_engine::plan::{Plan, PlanTables};
use diligence_sql::Query;
use serde_json::{Value, json};

/// A plan, and what it could share, on one line.
pub(crate) fn planned(query: &Query, could_share: &str) -> String {
    json!({ "plan": node(&query.plan, &query.tables), "could_share": could_share }).to_string()
}

/// A plan, and how it ran, on one line.
pub(crate) fn ran(query: &Query, profile: &Profile) -> String {
    let plan = node(&query.plan, &query.tables);
    let query = json!({
        "elapsed_us": profile.elapsed_ns / 1000,
        "memory_peak_bytes": profile.memory_peak_bytes,
        "clusters_read": profile.clusters_read,
        "clusters_pruned": profile.clusters_pruned,
        "bytes_fetched": profile.bytes_fetched,
        "sharing": profile.shared(),
    });
    let pipelines = profile.pipelines.iter().map(pipeline).collect::<Vec<_>>();
    json!({ "plan": plan, "query": query, "pipelines": pipelines }).to_string()
}

fn node(plan: &Plan, tables: &PlanTables) -> Value {
    json!({
        "operator": plan.node.shown(tables).to_string(),
        "rows_estimate": plan.rows_estimate,
        "inputs": plan.inputs().into_iter().map(|input| node(input, tables)).collect::<Vec<_>>(),
    })
}

fn pipeline(pipeline: &PipelineProfile) -> Value {
    json!({
        "index": pipeline.index,
        "stage": pipeline.stage,
        "packets": pipeline.packets,
        "worked_us": pipeline.worked_ns / 1000,
        "queued_us": pipeline.queued_ns / 1000,
        "operators": pipeline.operators.iter().map(operator).collect::<Vec<_>>(),
    })
}

fn operator(operator: &OperatorProfile) -> Value {
    json!({
        "name": operator.name,
        "rows": operator.counts.rows,
        "batches": operator.counts.batches,
        "bytes": operator.counts.bytes,
        "worked_us": operator.worked_ns / 1000,
        "spilled_bytes": operator.spilled.bytes,
        "spilled_files": operator.spilled.files,
    })
}
