//! A plan, and how it ran, as JSON: `EXPLAIN (FORMAT JSON)` and `EXPLAIN (ANALYZE, FORMAT JSON)`, for programs that draw it.
//!
//! ```json
//! { "plan": { "operator": "Limit 1", "rows_estimate": 1, "inputs": [ … ] },
//!   "query": { "elapsed_us": 1200, "memory_peak_bytes": 4096, … },
//!   "pipelines": [ { "stage": "scan", "packets": 2, "operators": [ { "name": "Scan t", "rows": 3, … } ] } ] }
//! ```
//!
//! The last two are there when it ran. An operator of a pipeline has the name of the plan's node that it does the work of; a name
//! that begins with `=> ` is where the pipeline ends.

use diligence_engine::plan::Plan;
use diligence_engine::query::profile::{OperatorProfile, PipelineProfile, Profile};
use serde_json::{Value, json};

/// All of it, on one line.
pub(crate) fn document(plan: &Plan, profile: Option<&Profile>) -> String {
    let mut document = json!({ "plan": node(plan) });
    if let Some(profile) = profile {
        document["query"] = json!({
            "elapsed_us": profile.elapsed_ns / 1000,
            "memory_peak_bytes": profile.memory_peak_bytes,
            "clusters_read": profile.clusters_read,
            "clusters_pruned": profile.clusters_pruned,
            "bytes_fetched": profile.bytes_fetched,
            "sharing": profile.sharing,
        });
        document["pipelines"] = profile.pipelines.iter().map(pipeline).collect();
    }
    document.to_string()
}

fn node(plan: &Plan) -> Value {
    json!({
        "operator": plan.node.to_string(),
        "rows_estimate": plan.rows_estimate,
        "inputs": plan.inputs().into_iter().map(node).collect::<Vec<_>>(),
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
