//! Hash tables that a query has from others, or builds where others may ask for them ([`crate::reuse::tables`]).

use std::sync::Arc;
use std::task::Waker;

use super::QueryRun;
use super::work::{TableWork, catch};
use crate::operators::hash_join::Begin;
use crate::pipeline::Graph;
use crate::query::info::QueryState;
use crate::stages::{Arrival, StageId};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

impl QueryRun {
    /// Asks for all tables that can be asked for.
    pub(super) fn ask_for_tables(self: &Arc<Self>, graph: &Arc<Graph>) {
        loop {
            let next = {
                let mut status = self.status.lock();
                if status.state != QueryState::Running {
                    return;
                }
                status.progress.next_table(graph)
            };
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
        let is_there = matches!(begin, Begin::Filled(_));
        self.status.lock().progress.table_settled(graph, table, is_there);
        if let Begin::Filled(saved_ns) = begin {
            self.tables_read.tables.fetch_add(1, Ordering::Relaxed);
            self.tables_read.saved_ns.fetch_add(saved_ns, Ordering::Relaxed);
        }
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
