//! What people are shown of a query while it runs and after it.

use std::sync::Arc;

use super::QueryRun;
use super::shared::Shared;
use crate::flow::Operator;
use crate::flow::profile::{OperatorProfile, PipelineProfile, Profile, Spills, Totals};
use crate::operators::scan::ScanProgress;
use crate::pipeline::{Graph, Part, PipelineSpec};
use crate::query::info::{QueryInfo, QueryState, Waits};
use crate::stages::Packet;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// A source, an operator or a sink, with its counters.
pub(super) struct TracedOperator {
    pub(super) name: String,
    pub(super) totals: Arc<Totals>,
    pub(super) spills: Option<Arc<Spills>>,
}

impl TracedOperator {
    fn new<T: ?Sized>(part: &Part<T>) -> Self {
        Self { name: part.name.clone(), totals: part.totals.clone(), spills: None }
    }
}

/// What an ended or running query keeps for its profile.
pub(super) struct Traced {
    pub(super) stage: &'static str,
    pub(super) operators: Vec<TracedOperator>,
    pub(super) packets: Vec<Arc<Packet>>,
    /// Of packets that are gone.
    pub(super) waits: Waits,
    pub(super) packets_total: usize,
}

impl QueryRun {
    /// Nanoseconds since it was started.
    pub(crate) fn age_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    /// Nanoseconds that workers have spent on its own packets, if it has come to its end.
    pub(crate) fn worked_ns(&self) -> Option<u64> {
        let status = self.status.lock();
        let worked = || status.traced.iter().map(|traced| traced.waits().worked_ns).sum();
        (status.state == QueryState::Finished).then(worked)
    }

    /// The query at this moment. What is built for it counts as its own where it was the first to want it.
    pub fn info(&self) -> QueryInfo {
        let built = self.shared.get().and_then(Shared::own_build).map(|build| build.info());
        let sharing = self.shared.get().and_then(Shared::describe);
        let status = self.status.lock();
        let mut waits = built.as_ref().map(|built| built.waits).unwrap_or_default();
        for traced in &status.traced {
            let own = traced.waits();
            waits.queued_ns += own.queued_ns;
            waits.worked_ns += own.worked_ns;
        }
        let (clusters_done, clusters_total) = self.clusters();
        let is_queued = match &built {
            _ if status.state != QueryState::Running => false,
            Some(built) if !status.launched => built.state == QueryState::Queued,
            _ => !status.launched || status.admission.is_some(),
        };
        QueryInfo {
            id: self.id,
            label: self.label.clone(),
            state: if is_queued { QueryState::Queued } else { status.state },
            started_ns: self.started_ns,
            elapsed_ns: status.ended_ns.unwrap_or_else(|| self.clock.now_ns()) - self.started_ns,
            memory_bytes: self.context.memory.reserved_bytes() + built.as_ref().map_or(0, |built| built.memory_bytes),
            memory_peak_bytes: built
                .as_ref()
                .map_or(0, |built| built.memory_peak_bytes)
                .max(self.context.memory.peak_bytes()),
            packets: status.live + built.as_ref().map_or(0, |built| built.packets),
            clusters_done,
            clusters_total,
            waits,
            sharing,
            error: status.error.clone(),
        }
    }

    /// Clusters read and to be read, those of what is built for it included.
    pub(in crate::query) fn clusters(&self) -> (usize, usize) {
        let built = self.shared.get().and_then(Shared::build).map_or((0, 0), |build| build.clusters());
        self.scans.get().into_iter().flatten().fold(built, |(done, total), scan| {
            (done + scan.clusters_done.load(Ordering::Relaxed), total + scan.clusters_total.load(Ordering::Relaxed))
        })
    }

    /// What it has done so far; what was built for it comes first, whoever shares it.
    pub fn profile(&self) -> Profile {
        let mut profile = self.own_profile();
        if let Some(shared) = self.shared.get() {
            if let Some(build) = shared.build() {
                profile.put_behind(build.own_profile());
            }
            profile.sharing = shared.describe();
        }
        profile
    }

    fn own_profile(&self) -> Profile {
        let status = self.status.lock();
        let sum = |field: fn(&ScanProgress) -> &AtomicUsize| {
            self.scans.get().into_iter().flatten().map(|scan| field(scan).load(Ordering::Relaxed)).sum()
        };
        let most = |field: fn(&ScanProgress) -> &AtomicUsize| {
            let scans = self.scans.get().into_iter().flatten();
            scans.map(|scan| field(scan).load(Ordering::Relaxed)).max().unwrap_or(0)
        };
        Profile {
            elapsed_ns: status.ended_ns.unwrap_or_else(|| self.clock.now_ns()) - self.started_ns,
            memory_peak_bytes: self.context.memory.peak_bytes(),
            clusters_read: sum(|scan| &scan.clusters_done),
            clusters_pruned: sum(|scan| &scan.clusters_pruned),
            columns_shared: sum(|scan| &scan.columns_shared),
            answers_shared: sum(|scan| &scan.answers_shared),
            bytes_shared: sum(|scan| &scan.bytes_shared),
            scans_most: most(|scan| &scan.scans_most),
            cohort_reads: sum(|scan| &scan.cohort_reads),
            cohort_scans_most: most(|scan| &scan.cohort_scans_most),
            bytes_fetched: sum(|scan| &scan.bytes),
            tables_shared: self.tables_read.get(),
            sharing: None,
            pipelines: status.traced.iter().enumerate().map(|(index, traced)| traced.profile(index)).collect(),
        }
    }
}

impl Traced {
    pub(super) fn new(pipeline: &PipelineSpec, graph: &Graph) -> Self {
        let mut operators = vec![TracedOperator::new(&pipeline.source)];
        let of = |operators: &[Part<dyn Operator>]| {
            let traced = |operator: &Part<dyn Operator>| TracedOperator {
                spills: operator.part.spills(),
                ..TracedOperator::new(operator)
            };
            operators.iter().map(traced).collect::<Vec<_>>()
        };
        operators.extend(of(&pipeline.operators));
        if pipeline.branches.len() > 1 {
            let name = format!("=> {} branches", pipeline.branches.len());
            operators.push(TracedOperator { name, totals: pipeline.branching.clone(), spills: None });
        }
        for branch in &pipeline.branches {
            operators.extend(of(&branch.operators));
            let sink = &graph.sinks[branch.sink].sink;
            let (name, totals) = (format!("=> {}", sink.name), sink.totals.clone());
            operators.push(TracedOperator { name, totals, spills: sink.part.spills() });
        }
        Self { stage: pipeline.stage.name(), operators, packets: Vec::new(), waits: Waits::default(), packets_total: 0 }
    }

    pub(super) fn waits(&self) -> Waits {
        Waits {
            queued_ns: self.waits.queued_ns + self.packets.iter().map(|packet| packet.waited_ns()).sum::<u64>(),
            worked_ns: self.waits.worked_ns + self.packets.iter().map(|packet| packet.worked_ns()).sum::<u64>(),
        }
    }

    fn profile(&self, index: usize) -> PipelineProfile {
        let waits = self.waits();
        PipelineProfile {
            index,
            stage: self.stage,
            packets: self.packets_total,
            queued_ns: waits.queued_ns,
            worked_ns: waits.worked_ns,
            operators: self
                .operators
                .iter()
                .map(|TracedOperator { name, totals, spills }| OperatorProfile {
                    name: name.clone(),
                    counts: totals.counts(),
                    worked_ns: totals.worked_ns(),
                    spilled: spills.as_ref().map(|spills| spills.counts()).unwrap_or_default(),
                })
                .collect(),
        }
    }
}
