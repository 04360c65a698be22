//! How far a graph is: which pipelines have started, which sinks are complete, which shared tables are there.
//!
//! ```text
//!   pipeline:  Waiting -- what it waits for is done --> Opening -- states are open --> Running
//!              Running -- last packet ends --> Finished
//!   sink:      Filling ---- last feeding pipeline ----> Parts ---- last part ----> Complete
//!   table:     Unasked -- what its part of the plan waits for is there --> Asked --> Settled: its pipelines may start,
//!                                                                                    or are not needed
//! ```
//!
//! What feeds a hash table that another query has built does not run: its pipelines go from Waiting to Finished, its
//! sink from Filling to Complete.
//!
//! Who carries the graph on is elsewhere: the packets of a query on all workers ([`crate::query`]), or one packet that
//! runs a whole plan by itself (`nested`). Both ask here what comes next and say here what has happened.
//!
//! Invariants:
//! * A pipeline starts once, after all that it waits for.
//! * A table that is a part of another one's part is asked for when that one is settled: where that is there, nobody
//!   needs this.

use super::compile::Graph;
use crate::stages::StageId;

/// Packets of scans that feed one sink at once, for each that a pipeline may have: one reads while another decodes.
const UNION_PACKETS: usize = 2;

/// How far a pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipelineState {
    Waiting,
    /// A thread opens its packets' states. It has not started for those that wait for its start.
    Opening,
    Running {
        packets_left: usize,
    },
    Finished,
}

/// How far a sink is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    Filling { pipelines_left: usize },
    Parts { packets_left: usize },
    Complete,
}

/// How far a hash table is that other queries may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableState {
    Unasked,
    Asked,
    Settled,
}

/// How far a [`Graph`] is.
#[derive(Debug, Default)]
pub(crate) struct GraphProgress {
    pipelines: Vec<PipelineState>,
    sinks: Vec<Filled>,
    tables: Vec<TableState>,
}

impl GraphProgress {
    /// Nothing has started. Each call below is to be made with the same graph.
    pub fn new(graph: &Graph) -> Self {
        let feeders = |sink| graph.pipelines.iter().filter(|pipeline| pipeline.sink == sink).count();
        Self {
            pipelines: vec![PipelineState::Waiting; graph.pipelines.len()],
            sinks: (0..graph.sinks.len()).map(|sink| Filled::Filling { pipelines_left: feeders(sink) }).collect(),
            tables: vec![TableState::Unasked; graph.tables.len()],
        }
    }

    /// A pipeline that may start, which counts as opening from now on; `packets` may work on one at most.
    pub fn next_pipeline(&mut self, graph: &Graph, packets: usize) -> Option<usize> {
        let crowded = self.crowded_sinks(graph, packets);
        let index = (0..graph.pipelines.len()).find(|&index| {
            let pipeline = &graph.pipelines[index];
            self.pipelines[index] == PipelineState::Waiting
                && !(pipeline.stage == StageId::Scan && crowded[pipeline.sink])
                && self.tables_are_settled(graph, index)
                && pipeline.after_sinks.iter().all(|&sink| self.sinks[sink] == Filled::Complete)
                && pipeline.after_pipelines.iter().all(|&other| self.pipelines[other] == PipelineState::Finished)
                && pipeline.after_started.iter().all(|&other| self.has_started(other))
        })?;
        self.pipelines[index] = PipelineState::Opening;
        Some(index)
    }

    fn has_started(&self, pipeline: usize) -> bool {
        !matches!(self.pipelines[pipeline], PipelineState::Waiting | PipelineState::Opening)
    }

    /// For each sink, whether as many scans feed it as keep all packets busy: of the inputs of a union, which have
    /// nothing to wait for, others start when these end. Each holds what it reads, so many at once would need memory
    /// that none gives back. Not so where a pipeline waits for one to start.
    fn crowded_sinks(&self, graph: &Graph, packets_max: usize) -> Vec<bool> {
        let mut packets = vec![0; graph.sinks.len()];
        let mut is_awaited = vec![false; graph.sinks.len()];
        for (pipeline, state) in graph.pipelines.iter().zip(&self.pipelines) {
            if pipeline.stage == StageId::Scan {
                packets[pipeline.sink] += match state {
                    PipelineState::Opening => packets_max,
                    PipelineState::Running { packets_left } => *packets_left,
                    PipelineState::Waiting | PipelineState::Finished => 0,
                };
            }
            pipeline.after_started.iter().for_each(|&other| is_awaited[graph.pipelines[other].sink] = true);
        }
        let most = UNION_PACKETS * packets_max;
        packets.into_iter().zip(is_awaited).map(|(packets, is_awaited)| packets >= most && !is_awaited).collect()
    }

    /// A pipeline that was opening has so many packets.
    pub fn started(&mut self, pipeline: usize, packets: usize) {
        self.pipelines[pipeline] = PipelineState::Running { packets_left: packets };
    }

    /// A packet of a pipeline is done. True if it was the last one.
    pub fn packet_finished(&mut self, pipeline: usize) -> bool {
        let PipelineState::Running { packets_left } = &mut self.pipelines[pipeline] else { return false };
        *packets_left -= 1;
        *packets_left == 0
    }

    /// All packets of a pipeline are done. The sink, if it has all of its rows now.
    pub fn pipeline_finished(&mut self, graph: &Graph, pipeline: usize) -> Option<usize> {
        self.pipelines[pipeline] = PipelineState::Finished;
        let sink = graph.pipelines[pipeline].sink;
        let Filled::Filling { pipelines_left } = &mut self.sinks[sink] else { return None };
        *pipelines_left -= 1;
        (*pipelines_left == 0).then_some(sink)
    }

    /// So many packets do the finishing parts of a sink that has all of its rows.
    pub fn parts_started(&mut self, sink: usize, packets: usize) {
        self.sinks[sink] = Filled::Parts { packets_left: packets };
    }

    /// A packet finds no part of a sink left. True if it was the last one.
    pub fn parts_finished(&mut self, sink: usize) -> bool {
        let Filled::Parts { packets_left } = &mut self.sinks[sink] else { return false };
        *packets_left -= 1;
        *packets_left == 0
    }

    /// A sink has what it is for: what waits for it may start.
    pub fn completed(&mut self, sink: usize) {
        self.sinks[sink] = Filled::Complete;
    }

    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.sinks.iter().all(|sink| *sink == Filled::Complete)
    }

    /// Whether a pipeline may start as far as shared tables are concerned.
    fn tables_are_settled(&self, graph: &Graph, pipeline: usize) -> bool {
        let mut tables = graph.tables.iter().zip(&self.tables);
        tables.all(|(table, state)| !table.pipelines.contains(&pipeline) || *state == TableState::Settled)
    }

    /// A table that can be asked for, which counts as asked for from now on.
    pub fn next_table(&mut self, graph: &Graph) -> Option<usize> {
        let index = (0..graph.tables.len()).find(|&index| {
            let table = &graph.tables[index];
            let mut around = graph.tables.iter().zip(&self.tables).filter(|(other, _)| other.encloses(table));
            self.tables[index] == TableState::Unasked
                && table.gates.iter().all(|&sink| self.sinks[sink] == Filled::Complete)
                && around.all(|(_, state)| *state == TableState::Settled)
        })?;
        self.tables[index] = TableState::Asked;
        Some(index)
    }

    /// A table that was asked for is to be built here, or is `there`: then what would have built it is not needed.
    pub fn table_settled(&mut self, graph: &Graph, table: usize, there: bool) {
        self.tables[table] = TableState::Settled;
        if !there {
            return;
        }
        let spec = &graph.tables[table];
        for pipeline in spec.pipelines.clone() {
            self.pipelines[pipeline] = PipelineState::Finished;
            self.sinks[graph.pipelines[pipeline].sink] = Filled::Complete;
        }
        for (other, state) in graph.tables.iter().zip(&mut self.tables) {
            if spec.encloses(other) {
                *state = TableState::Settled;
            }
        }
    }
}
