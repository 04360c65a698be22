//! Hash tables that a query has from others, or builds where others may ask for them ([`crate::reuse::tables`]).
//!
//! ```text
//!   Unasked -- what its part of the plan waits for is there --> Asked --> Settled: its pipelines may start,
//!                                                                         or are not needed
//! ```
//!
//! Invariant: a table that is a part of another one's part is asked for when that one is settled: where that is there,
//! nobody needs this.

use std::sync::Arc;
use std::task::Waker;

use super::run::{PipelineState, QueryRun, SinkState, Status};
use super::work::{TableWork, catch};
use crate::operators::hash_join::Begin;
use crate::pipeline::Graph;
use crate::query::info::QueryState;
use crate::stages::{Arrival, StageId};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableState {
    Unasked,
    Asked,
    Settled,
}

/// Tables that a query did not have to build, and nanoseconds of work that this saved.
#[derive(Default)]
pub(super) struct TablesRead {
    tables: AtomicUsize,
    saved_ns: AtomicU64,
}

impl TablesRead {
    pub fn get(&self) -> (usize, u64) {
        (self.tables.load(Ordering::Relaxed), self.saved_ns.load(Ordering::Relaxed))
    }
}

impl Status {
    /// Whether a pipeline may start as far as shared tables are concerned.
    pub(super) fn tables_are_settled(&self, graph: &Graph, pipeline: usize) -> bool {
        let mut tables = graph.tables.iter().zip(&self.tables);
        tables.all(|(table, state)| !table.pipelines.contains(&pipeline) || *state == TableState::Settled)
    }

    /// Notes that a table is asked for, and says which.
    fn next_table(&mut self, graph: &Graph) -> Option<usize> {
        if self.state != QueryState::Running {
            return None;
        }
        let index = (0..graph.tables.len()).find(|&index| {
            let table = &graph.tables[index];
            let mut around = graph.tables.iter().zip(&self.tables).filter(|(other, _)| other.encloses(table));
            self.tables[index] == TableState::Unasked
                && table.gates.iter().all(|&sink| self.sinks[sink] == SinkState::Complete)
                && around.all(|(_, state)| *state == TableState::Settled)
        })?;
        self.tables[index] = TableState::Asked;
        Some(index)
    }

    /// A table is there: what would have built it is not needed.
    fn skip(&mut self, graph: &Graph, table: usize) {
        let spec = &graph.tables[table];
        for pipeline in spec.pipelines.clone() {
            self.pipelines[pipeline] = PipelineState::Finished;
            self.sinks[graph.pipelines[pipeline].sink] = SinkState::Complete;
        }
        for (other, state) in graph.tables.iter().zip(&mut self.tables) {
            if spec.encloses(other) {
                *state = TableState::Settled;
            }
        }
    }
}

impl QueryRun {
    /// Asks for all tables that can be asked for.
    pub(super) fn ask_for_tables(self: &Arc<Self>, graph: &Arc<Graph>) {
        loop {
            let next = self.status.lock().next_table(graph);
            let Some(table) = next else { return };
            if self.poll_table(graph, table, Waker::noop()) {
                continue;
            }
            let work = TableWork { run: self.clone(), table };
            let packet = self.packet(StageId::Join, Box::new(work));
            {
                let mut status = self.status.lock();
                status.live += 1;
                status.table_packets.push(packet.clone());
            }
            packet.submit(Arrival::New);
        }
    }

    /// True once it is known who builds a table, or that nobody has to. Otherwise the waker is woken when it is worth
    /// asking again.
    pub(super) fn poll_table(self: &Arc<Self>, graph: &Graph, table: usize, waker: &Waker) -> bool {
        let begin = match catch(|| graph.tables[table].share.begin(&self.context, waker)) {
            Ok(Begin::Wait) => return false,
            Ok(begin) => begin,
            Err(error) => {
                self.fail(error);
                return true;
            }
        };
        let mut status = self.status.lock();
        if let Begin::Filled(saved_ns) = begin {
            status.skip(graph, table);
            self.tables_read.tables.fetch_add(1, Ordering::Relaxed);
            self.tables_read.saved_ns.fetch_add(saved_ns, Ordering::Relaxed);
        }
        status.tables[table] = TableState::Settled;
        true
    }

    /// A sink is complete: if it is a table that others may have, they may have it now.
    pub(super) fn offer_table(&self, graph: &Graph, sink: usize) {
        let Some(table) = graph.tables.iter().find(|table| table.sink == sink) else { return };
        let cost_ns = {
            let status = self.status.lock();
            table.pipelines.clone().map(|pipeline| status.traced[pipeline].waits().worked_ns).sum()
        };
        table.share.built(cost_ns);
    }
}
