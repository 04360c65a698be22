//! `GET /v1/status`: what `system.server`, `system.stages`, `system.workers` and `system.memory` show, at one moment
//! and without a query, so that looking does not change what is seen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::admission::lanes::LaneInfo;
use crate::service::Service;

/// The counters. Times are in microseconds since the start.
pub(super) async fn status(State(service): State<Arc<Service>>) -> Response {
    axum::Json(value(&service)).into_response()
}

fn value(service: &Service) -> Value {
    let status = service.database().status();
    let registry = service.registry();
    let (admission, cache) = (service.execution().admission().info(), service.execution().plan_cache().info());
    let front = service.execution().stages().into_iter().map(|stage| {
        json!({
            "name": stage.name, "queued": stage.queued, "queue_max": stage.limit, "waiting": stage.waiting,
            "running": stage.running, "running_max": stage.threads, "done_total": stage.done_total,
            "wait_us_total": stage.wait_ns_total / 1000, "service_us_total": stage.service_ns_total / 1000,
        })
    });
    let stages = status.stages().into_iter().map(|stage| {
        json!({
            "name": stage.name, "queued": stage.queued, "running": stage.running, "turns_total": stage.turns_total,
            "wait_us_total": stage.wait_ns_total / 1000, "service_us_total": stage.service_ns_total / 1000,
        })
    });
    let workers = status.workers().into_iter().map(|worker| {
        json!({
            "id": worker.id.0, "is_express": worker.is_express, "stage": worker.stage, "query": worker.query, "turns_total": worker.turns_total,
            "busy_us_total": worker.busy_ns_total / 1000, "longest_turn_us": worker.turn_ns_max / 1000,
        })
    });
    let latches = status.latches();
    let longest = latches.iter().max_by_key(|latch| latch.wait_ns_total);
    let decisions = status.tuning();
    let last = decisions.last().map(|one| {
        let (knob, from, to) = (one.knob, one.knob.shown(one.from), one.knob.shown(one.to));
        json!({ "knob": knob.name(), "from": from, "to": to, "reason": one.reason, "outcome": one.outcome.name() })
    });
    let totals: serde_json::Map<_, _> =
        status.tuning_totals().into_iter().map(|(outcome, total)| (outcome.name().to_owned(), total.into())).collect();
    let pool = status.pool_numbers().into_iter().map(|one| {
        json!({
            "language": one.runtime.name(), "total": one.counts.total, "active": one.counts.active,
            "threshold": one.growth.threshold, "minimum": one.growth.minimum, "maximum": one.growth.maximum,
            "requested_total": one.requested_total, "started_total": one.started_total, "ended_total": one.ended_total,
            "killed_total": one.killed_total, "died_total": one.died_total, "refused_total": one.refused_total,
        })
    });
    let temp = status.temp();
    let temp_used: usize = temp.directories.iter().map(|directory| directory.clusters_used).sum();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sessions": {
            "open": registry.count(), "open_max": service.options().limits.sessions_max,
            "connecting": registry.connecting.load(Ordering::Relaxed),
            "opened_total": registry.sessions_total.load(Ordering::Relaxed),
            "refused_total": registry.refused_total.load(Ordering::Relaxed),
        },
        "front": front.collect::<Vec<_>>(),
        "admission": {
            "cheap": lane(admission.cheap), "heavy": lane(admission.heavy),
            "memory_taken_bytes": admission.memory_taken_bytes, "memory_max_bytes": admission.memory_max_bytes,
        },
        "plan_cache": { "plans": cache.plans, "hits_total": cache.hits_total, "misses_total": cache.misses_total },
        "stages": stages.collect::<Vec<_>>(),
        "workers": workers.collect::<Vec<_>>(),
        "memory": {
            "reserved_bytes": status.memory_reserved_bytes(),
            "budget_bytes": status.memory_budget_bytes(),
        },
        "latches": {
            "acquisitions_total": latches.iter().map(|latch| latch.acquisitions_total).sum::<u64>(),
            "contended_total": latches.iter().map(|latch| latch.contended_total).sum::<u64>(),
            "wait_us_total": latches.iter().map(|latch| latch.wait_ns_total).sum::<u64>() / 1000,
            "waited_for_longest": longest.map(|latch| latch.name),
        },
        "tuning": { "mode": status.tuning_mode(), "decisions_total": totals, "last": last },
        "pool": pool.collect::<Vec<_>>(),
        "temp": {
            "used_bytes": temp_used * temp.cluster_bytes,
            "read_bytes_total": temp.read_bytes_total, "written_bytes_total": temp.written_bytes_total,
        },
    })
}

fn lane(lane: LaneInfo) -> Value {
    json!({
        "running": lane.running, "running_max": lane.running_max, "waiting": lane.waiting, "queue_max": lane.queue_max,
        "admitted_total": lane.admitted_total, "refused_total": lane.refused_total,
        "wait_us_total": lane.waited_total.as_micros() as u64,
    })
}
