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
//! Sinks that can spill have buffers that they do not give back ([`Sink::bytes_min`](crate::flow::Sink::bytes_min)).
//! Twenty aggregates side by side would fill a small budget with these alone. So a scan does not begin another such
//! sink as long as those that are begun may come to need the query's part of the memory; it waits until one of them was
//! read, or nobody is at work on any. A sink that waits for its reader may have given its buffers back
//! ([`Sink::bytes_at_rest`](crate::flow::Sink::bytes_at_rest)). Then its reader needs them again, and waits for room in
//! the same way.
//!
//! At work is who fills such a sink from a scan, and who reads one into a sink that others wait for. Both come to their
//! end whatever else waits. Whoever sends rows to a reader that takes them meanwhile is not counted: that one may wait
//! for something that has not begun.
//!
//! Invariants:
//! * A pipeline starts once, after all that it waits for.
//! * A table that is a part of another one's part is asked for when that one is settled: where that is there, nobody
//!   needs this.

use diligence_memory::QueryMemory;

use super::graph::{Graph, PipelineSpec};
use crate::flow::QueryContext;
use crate::stages::StageId;

/// Packets of scans that feed one sink at once, for each that a pipeline may have: one reads while another decodes.
const UNION_PACKETS: usize = 2;

/// The part of what a query can count on, as its divisor, that sinks side by side may have for themselves: the rest is
/// for rows, and for what their scans read.
const MINIMA_PART: usize = 4;

/// Bytes that the sinks of a query that are begun and not read may have for themselves, if there are several.
pub(crate) fn room_bytes(memory: &QueryMemory) -> usize {
    memory.share_bytes() / MINIMA_PART
}

/// What sinks have for themselves.
struct Minima {
    /// Of each sink, while it is filled or read.
    bytes: Vec<usize>,
    /// Of each sink, what it will need beyond what it has now when it is begun, or read.
    missing: Vec<usize>,
    is_begun: Vec<bool>,
    /// Of those that are begun and not read to the end, together.
    held_bytes: usize,
    /// Whether somebody is at work on one that has something.
    are_at_work: bool,
}

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
        let feeders = |sink| graph.pipelines.iter().filter(|pipeline| pipeline.fills(sink)).count();
        Self {
            pipelines: vec![PipelineState::Waiting; graph.pipelines.len()],
            sinks: (0..graph.sinks.len()).map(|sink| Filled::Filling { pipelines_left: feeders(sink) }).collect(),
            tables: vec![TableState::Unasked; graph.tables.len()],
        }
    }

    /// A pipeline that may start, which counts as opening from now on. Its packets have this context, and sinks side by
    /// side have [so much](room_bytes) for themselves.
    pub fn next_pipeline(&mut self, graph: &Graph, context: &QueryContext, room_bytes: usize) -> Option<usize> {
        let crowded = self.crowded_sinks(graph, context.packets);
        let minima = self.minima(graph, context);
        let index = (0..graph.pipelines.len()).find(|&index| {
            let pipeline = &graph.pipelines[index];
            self.pipelines[index] == PipelineState::Waiting
                && !(pipeline.stage == StageId::Scan && pipeline.sinks().any(|sink| crowded[sink]))
                && !minima.are_too_much_with(pipeline, room_bytes)
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
                let own = match state {
                    PipelineState::Opening => packets_max,
                    PipelineState::Running { packets_left } => *packets_left,
                    PipelineState::Waiting | PipelineState::Finished => 0,
                };
                pipeline.sinks().for_each(|sink| packets[sink] += own);
            }
            let awaited = pipeline.after_started.iter().flat_map(|&other| graph.pipelines[other].sinks());
            awaited.for_each(|sink| is_awaited[sink] = true);
        }
        let most = UNION_PACKETS * packets_max;
        packets.into_iter().zip(is_awaited).map(|(packets, is_awaited)| packets >= most && !is_awaited).collect()
    }

    fn minima(&self, graph: &Graph, context: &QueryContext) -> Minima {
        let bytes = graph.sinks.iter().map(|sink| sink.sink.part.bytes_min(context)).collect::<Vec<_>>();
        let mut is_begun = vec![false; bytes.len()];
        let mut is_awaited = vec![false; bytes.len()];
        let mut is_being_read = vec![false; bytes.len()];
        let mut is_read = vec![true; bytes.len()];
        for (pipeline, state) in graph.pipelines.iter().zip(&self.pipelines) {
            pipeline.sinks().for_each(|sink| is_begun[sink] |= *state != PipelineState::Waiting);
            for &sink in &pipeline.after_sinks {
                is_awaited[sink] = true;
                is_being_read[sink] |= is_at_work(state);
                is_read[sink] &= *state == PipelineState::Finished;
            }
        }
        let mut held_bytes = 0usize;
        let mut missing = vec![0; bytes.len()];
        // What fills a sink has ended, and its parts may not have begun.
        let mut are_at_work = false;
        for (sink, &bytes) in bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let is_complete = self.sinks[sink] == Filled::Complete;
            let at_rest = || graph.sinks[sink].sink.part.bytes_at_rest(context).min(bytes);
            let held = match (is_begun[sink], is_complete) {
                (false, _) => 0,
                (true, true) if is_read[sink] => 0,
                (true, true) if !is_being_read[sink] => at_rest(),
                (true, _) => bytes,
            };
            missing[sink] = if is_complete && is_read[sink] { 0 } else { bytes - held };
            held_bytes = held_bytes.saturating_add(held);
            let is_filled = matches!(self.sinks[sink], Filled::Parts { .. } | Filled::Filling { pipelines_left: 0 });
            are_at_work |= is_begun[sink] && is_filled;
        }
        are_at_work |= graph.pipelines.iter().zip(&self.pipelines).any(|(pipeline, state)| {
            let fills = pipeline.stage == StageId::Scan && pipeline.sinks().any(|sink| bytes[sink] > 0);
            let feeds_awaited = || pipeline.sinks().any(|sink| is_awaited[sink]);
            let reads = || pipeline.after_sinks.iter().any(|&sink| bytes[sink] > 0) && feeds_awaited();
            is_at_work(state) && (fills || ends_by_itself(pipeline.stage) && reads())
        });
        Minima { bytes, missing, is_begun, held_bytes, are_at_work }
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

    /// All packets of a pipeline are done. Those of its sinks that have all of their rows now.
    pub fn pipeline_finished(&mut self, graph: &Graph, pipeline: usize) -> Vec<usize> {
        self.pipelines[pipeline] = PipelineState::Finished;
        let is_full = |sink: &usize| {
            let Filled::Filling { pipelines_left } = &mut self.sinks[*sink] else { return false };
            *pipelines_left -= 1;
            *pipelines_left == 0
        };
        graph.pipelines[pipeline].sinks().filter(is_full).collect()
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
            graph.pipelines[pipeline].sinks().for_each(|sink| self.sinks[sink] = Filled::Complete);
        }
        for (other, state) in graph.tables.iter().zip(&mut self.tables) {
            if spec.encloses(other) {
                *state = TableState::Settled;
            }
        }
    }
}

/// Whether a pipeline of a stage comes to its end without rows that others have yet to send it: what a window reads,
/// for example, may come from a pipeline that waits for room.
fn ends_by_itself(stage: StageId) -> bool {
    matches!(stage, StageId::Scan | StageId::Aggregate | StageId::Sort | StageId::Join | StageId::Values)
}

/// Whether packets of a pipeline are at work, or will be in a moment.
fn is_at_work(state: &PipelineState) -> bool {
    matches!(state, PipelineState::Opening | PipelineState::Running { .. })
}

impl Minima {
    /// Whether a pipeline has to wait that would begin a sink, if it is a scan, or read one. Only where somebody is at
    /// work: that ends whatever waits here, and then this one is asked again.
    fn are_too_much_with(&self, pipeline: &PipelineSpec, room_bytes: usize) -> bool {
        let mut sinks = pipeline.after_sinks.clone();
        sinks.sort_unstable();
        sinks.dedup();
        let read = sinks.into_iter().map(|sink| self.missing[sink]).fold(0, usize::saturating_add);
        let begun = pipeline.sinks().filter(|&sink| !self.is_begun[sink]).map(|sink| self.bytes[sink]);
        let begins = pipeline.stage == StageId::Scan || read > 0;
        let more = if begins { begun.fold(read, usize::saturating_add) } else { read };
        more > 0 && self.are_at_work && self.held_bytes.saturating_add(more) > room_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diligence_base::limits::BATCH_ROWS_MAX;
    use diligence_base::{Error, Result};

    use super::*;
    use crate::flow::{Sink, SinkState, Source, SourceState};
    use crate::pipeline::graph::{Branch, Part, SinkSpec};

    struct Nothing;

    impl Source for Nothing {
        fn name(&self) -> &'static str {
            "Nothing"
        }

        fn packets_max(&self) -> usize {
            1
        }

        fn open(&self, _context: &QueryContext) -> Result<Box<dyn SourceState>> {
            Err(Error::bug("nothing is read"))
        }
    }

    /// Has so many bytes for itself, and so many while it waits for its reader.
    struct Greedy(usize, usize);

    impl Sink for Greedy {
        fn name(&self) -> &'static str {
            "Greedy"
        }

        fn open(&self, _context: &QueryContext) -> Result<Box<dyn SinkState>> {
            Err(Error::bug("nothing is filled"))
        }

        fn bytes_min(&self, _context: &QueryContext) -> usize {
            self.0
        }

        fn bytes_at_rest(&self, _context: &QueryContext) -> usize {
            self.1
        }
    }

    fn pipeline(stage: StageId, sink: usize, after_sinks: Vec<usize>) -> PipelineSpec {
        let source: Part<dyn Source> = Part { part: Arc::new(Nothing), name: String::new(), totals: Arc::default() };
        PipelineSpec {
            stage,
            source,
            operators: Vec::new(),
            branches: vec![Branch::to(sink)],
            branching: Arc::default(),
            serial: false,
            in_order: false,
            exact_packets: false,
            after_sinks,
            after_pipelines: Vec::new(),
            after_started: Vec::new(),
        }
    }

    /// Scans that each fill a sink of so many bytes, from which another pipeline reads into the last sink.
    fn side_by_side(sinks: &[usize]) -> Graph {
        let reads =
            |sink| [pipeline(StageId::Scan, sink, Vec::new()), pipeline(StageId::Aggregate, sinks.len(), vec![sink])];
        let sink = |&bytes| {
            let sink = Part { part: Arc::new(Greedy(bytes, bytes)) as _, name: String::new(), totals: Arc::default() };
            SinkSpec { sink, stage: StageId::Aggregate }
        };
        Graph {
            pipelines: (0..sinks.len()).flat_map(reads).collect(),
            sinks: sinks.iter().chain([&0]).map(sink).collect(),
            tables: Vec::new(),
            scans: Vec::new(),
            groups: None,
            held: None,
        }
    }

    fn context() -> QueryContext {
        QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: BATCH_ROWS_MAX, packets: 2 }
    }

    /// All pipelines that may start, each with one packet.
    fn start(progress: &mut GraphProgress, graph: &Graph, room_bytes: usize) -> Vec<usize> {
        let mut started = Vec::new();
        while let Some(index) = progress.next_pipeline(graph, &context(), room_bytes) {
            progress.started(index, 1);
            started.push(index);
        }
        started
    }

    /// The only packet of a pipeline ends, and with it the sink, if it has all of its rows.
    fn end(progress: &mut GraphProgress, graph: &Graph, pipeline: usize) {
        assert!(progress.packet_finished(pipeline));
        for sink in progress.pipeline_finished(graph, pipeline) {
            progress.completed(sink);
        }
    }

    #[test]
    fn scans_begin_as_many_sinks_as_there_is_room_for() {
        let graph = side_by_side(&[10, 10, 10, 0, 10]);
        let mut progress = GraphProgress::new(&graph);
        assert_eq!(start(&mut progress, &graph, 25), [0, 2, 6], "two that are greedy, and one that is not");
        end(&mut progress, &graph, 0);
        assert_eq!(start(&mut progress, &graph, 25), [1], "it is read first");
        end(&mut progress, &graph, 1);
        assert_eq!(start(&mut progress, &graph, 25), [4], "what has been read has given back");
        end(&mut progress, &graph, 2);
        end(&mut progress, &graph, 4);
        assert_eq!(start(&mut progress, &graph, 25), [3, 5, 8], "no scan is at work that another could wait for");
        for pipeline in [6, 3, 5, 8] {
            end(&mut progress, &graph, pipeline);
        }
        assert_eq!(start(&mut progress, &graph, 25), [7, 9]);
        end(&mut progress, &graph, 7);
        end(&mut progress, &graph, 9);
        assert!(progress.is_complete());
    }

    /// Such scans, whose sinks give all back while they wait, and are read into sinks that a last pipeline waits for.
    fn resting(sinks: &[usize]) -> Graph {
        let mut graph = side_by_side(sinks);
        let result = sinks.len();
        for (sink, &bytes) in sinks.iter().enumerate() {
            graph.sinks[sink].sink.part = Arc::new(Greedy(bytes, 0));
            graph.pipelines[2 * sink + 1].branches = vec![Branch::to(result + 1 + sink)];
            let name = String::new();
            let read = Part { part: Arc::new(Greedy(0, 0)) as _, name, totals: Arc::default() };
            graph.sinks.push(SinkSpec { sink: read, stage: StageId::Aggregate });
        }
        let last = (0..sinks.len()).map(|sink| result + 1 + sink).collect();
        graph.pipelines.push(pipeline(StageId::Values, result, last));
        graph
    }

    #[test]
    fn who_reads_a_sink_that_has_given_back_has_its_room_again() {
        let graph = resting(&[10, 10, 10]);
        let mut progress = GraphProgress::new(&graph);
        assert_eq!(start(&mut progress, &graph, 15), [0]);
        end(&mut progress, &graph, 0);
        assert_eq!(start(&mut progress, &graph, 15), [1], "no scan begins a sink while another is read");
        end(&mut progress, &graph, 1);
        assert_eq!(start(&mut progress, &graph, 15), [2]);
        // Its rows are in, but not brought together: who reads it is not there yet.
        assert!(progress.packet_finished(2));
        assert_eq!(progress.pipeline_finished(&graph, 2), [1]);
        progress.parts_started(1, 1);
        assert!(start(&mut progress, &graph, 15).is_empty());
        assert!(progress.parts_finished(1));
        progress.completed(1);
        assert_eq!(start(&mut progress, &graph, 15), [3]);
        end(&mut progress, &graph, 3);
        assert_eq!(start(&mut progress, &graph, 15), [4]);
        end(&mut progress, &graph, 4);
        assert_eq!(start(&mut progress, &graph, 15), [5]);
        end(&mut progress, &graph, 5);
        assert_eq!(start(&mut progress, &graph, 15), [6]);
        end(&mut progress, &graph, 6);
        assert!(progress.is_complete());
    }

    #[test]
    fn readers_wait_for_room_one_after_another() {
        let graph = resting(&[10, 10]);
        let mut progress = GraphProgress::new(&graph);
        // Room for both to be filled, and then for one.
        assert_eq!(start(&mut progress, &graph, 20), [0, 2]);
        end(&mut progress, &graph, 0);
        assert!(start(&mut progress, &graph, 15).is_empty(), "the other one is being filled");
        end(&mut progress, &graph, 2);
        assert_eq!(start(&mut progress, &graph, 15), [1]);
        end(&mut progress, &graph, 1);
        assert_eq!(start(&mut progress, &graph, 15), [3]);
    }

    #[test]
    fn who_sends_rows_to_a_reader_at_work_keeps_nobody_waiting() {
        // What the first sink gives goes to a sink that nobody waits for: its rows are taken meanwhile, and whoever
        // takes them may wait for the second one.
        let mut graph = side_by_side(&[10, 10]);
        graph.sinks[0].sink.part = Arc::new(Greedy(10, 0));
        let mut progress = GraphProgress::new(&graph);
        assert_eq!(start(&mut progress, &graph, 15), [0]);
        end(&mut progress, &graph, 0);
        assert_eq!(start(&mut progress, &graph, 15), [1, 2]);
    }

    #[test]
    fn what_needs_more_than_there_is_runs_alone() {
        let graph = side_by_side(&[10, 10]);
        let mut progress = GraphProgress::new(&graph);
        assert_eq!(start(&mut progress, &graph, 5), [0]);
        end(&mut progress, &graph, 0);
        assert_eq!(start(&mut progress, &graph, 5), [1, 2]);
        let mut progress = GraphProgress::new(&graph);
        assert_eq!(start(&mut progress, &graph, usize::MAX), [0, 2]);
    }
}
