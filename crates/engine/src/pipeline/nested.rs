//! A plan that one packet runs by itself, inside of its own turn: the step of a recursive query, again and again.
//!
//! The plan's pipelines get one packet each. They take turns on the thread that pulls, and whoever wakes one of them
//! wakes the packet that pulls. So there is nothing to start, to cancel or to wait for: dropping a nested run drops all
//! that it holds, and it stops and goes on with its owner.
//!
//! Invariant: it answers `Wait` only if each of its packets waits for somebody outside.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::seams::ManualClock;
use diligence_base::{Error, Result};

use super::context::CompileContext;
use super::graph::Graph;
use super::progress::{GraphProgress, room_bytes};
use super::run::PipelinePacket;
use crate::exchange::Exchange;
use crate::exchange::port::Receiver;
use crate::flow::{Pull, QueryContext, Sink, SourceState};
use crate::operators::recursive::{NestedPlans, WorkTable};
use crate::plan::{Pact, Plan, WorkTableId};
use crate::stages::{Quantum, Step};

/// How often a packet may look at the time before the next one has its turn: some batches.
const TURN_LOOKS: u64 = 32;

/// Cuts a plan into pipelines that end in a sink, as `compile` does, which stands above this module.
type Compile = fn(&Plan, Arc<dyn Sink>, &CompileContext) -> Result<Graph>;

/// Starts nested runs, with what is around the plan that they are in.
pub(super) struct NestedRuns {
    context: CompileContext,
    compile: Compile,
}

impl NestedRuns {
    pub fn new(context: &CompileContext, compile: Compile) -> Self {
        // A round is run inside of a packet, which waits for nobody.
        Self { context: CompileContext { tables: None, ..context.clone() }, compile }
    }
}

impl NestedPlans for NestedRuns {
    fn start(
        &self,
        plan: &Plan,
        tables: Vec<(WorkTableId, Arc<WorkTable>)>,
        context: &QueryContext,
    ) -> Result<Box<dyn SourceState>> {
        let mut own = self.context.clone();
        own.query = QueryContext { packets: 1, ..context.clone() };
        own.work_tables.extend(tables);
        Ok(Box::new(NestedRun::new(plan, own, self.compile)?))
    }
}

/// One run of a plan on the packet that pulls from it.
struct NestedRun {
    graph: Graph,
    context: QueryContext,
    progress: GraphProgress,
    packets: Vec<(usize, PipelinePacket)>,
    /// Finishing work: the sink, the next part, and how many there are.
    parts: Vec<(usize, usize, usize)>,
    output: Receiver,
    turns: ManualClock,
}

impl NestedRun {
    /// Makes a plan ready to be pulled from.
    fn new(plan: &Plan, context: CompileContext, compile: Compile) -> Result<Self> {
        let end = Exchange::ahead(Pact::Gather, 1, context.port_credits);
        let output = end.take_receiver().ok_or_else(|| Error::bug("an exchange without an end"))?;
        let graph = compile(plan, end, &context)?;
        Ok(Self {
            context: context.query,
            progress: GraphProgress::new(&graph),
            packets: Vec::new(),
            parts: Vec::new(),
            output,
            turns: ManualClock::stepping(1),
            graph,
        })
    }

    /// Opens the packets of each pipeline that may start. False if there is none.
    fn start_pipelines(&mut self) -> Result<bool> {
        let mut any = false;
        let room_bytes = room_bytes(&self.context.memory);
        while let Some(index) = self.progress.next_pipeline(&self.graph, &self.context, room_bytes) {
            any = true;
            let packets = self.graph.open(index, &self.context)?;
            self.progress.started(index, packets.len());
            if packets.is_empty() {
                self.pipeline_finished(index)?;
            }
            self.packets.extend(packets.into_iter().map(|packet| (index, packet)));
        }
        Ok(any)
    }

    fn pipeline_finished(&mut self, index: usize) -> Result<()> {
        for sink in self.progress.pipeline_finished(&self.graph, index) {
            let parts = self.graph.sinks[sink].sink.part.parts()?;
            self.parts.push((sink, 0, parts));
        }
        Ok(())
    }

    /// Does the next part of each sink that has all of its rows. False if there is none.
    fn finish_parts(&mut self) -> Result<bool> {
        let any = !self.parts.is_empty();
        for (sink, next, parts) in std::mem::take(&mut self.parts) {
            let part = &self.graph.sinks[sink].sink.part;
            if next < parts {
                part.part(next, &self.context)?;
                self.parts.push((sink, next + 1, parts));
            } else {
                part.complete()?;
                self.progress.completed(sink);
            }
        }
        Ok(any)
    }
}

impl SourceState for NestedRun {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        match self.output.receive(waker) {
            Poll::Ready(Some(batch)) => return Ok(Pull::Batch(batch?)),
            Poll::Ready(None) => return Ok(Pull::Done),
            Poll::Pending => {}
        }
        let mut waits = !self.start_pipelines()? && !self.finish_parts()?;
        for (pipeline, mut packet) in std::mem::take(&mut self.packets) {
            match packet.run(&Quantum::new(waker, &self.turns, TURN_LOOKS))? {
                Step::Done => {
                    // Its states go first: what waits for this pipeline must find its memory free.
                    drop(packet);
                    if self.progress.packet_finished(pipeline) {
                        self.pipeline_finished(pipeline)?;
                    }
                    waits = false;
                }
                step => {
                    waits &= step == Step::Wait;
                    self.packets.push((pipeline, packet));
                }
            }
        }
        if waits && self.packets.is_empty() {
            return Err(Error::bug("a nested run has no packet left but is not complete"));
        }
        Ok(if waits { Pull::Wait } else { Pull::Again })
    }
}
