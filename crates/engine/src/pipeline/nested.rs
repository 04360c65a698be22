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

use super::{CompileContext, Graph, Part, PipelinePacket, compile};
use crate::exchange::Exchange;
use crate::exchange::port::Receiver;
use crate::flow::profile::Meter;
use crate::flow::{Pull, QueryContext, SourceState};
use crate::operators::recursive::{NestedPlans, WorkTable};
use crate::plan::{Pact, Plan, WorkTableId};
use crate::stages::{Quantum, Step};

/// How often a packet may look at the time before the next one has its turn: some batches.
const TURN_LOOKS: u64 = 32;

/// Starts nested runs, with what is around the plan that they are in.
pub(super) struct NestedRuns(CompileContext);

impl NestedRuns {
    pub fn new(context: &CompileContext) -> Self {
        // A round is run inside of a packet, which waits for nobody.
        Self(CompileContext { tables: None, ..context.clone() })
    }
}

impl NestedPlans for NestedRuns {
    fn start(
        &self,
        plan: &Plan,
        tables: Vec<(WorkTableId, Arc<WorkTable>)>,
        context: &QueryContext,
    ) -> Result<Box<dyn SourceState>> {
        let mut context = self.0.clone();
        context.work_tables.extend(tables);
        Ok(Box::new(NestedRun::new(plan, &context, context)?))
    }
}

/// One run of a plan on the packet that pulls from it.
struct NestedRun {
    graph: Graph,
    context: QueryContext,
    /// Of each pipeline.
    pipelines: Vec<PipelineState>,
    /// Of each sink: how many of its pipelines are not finished.
    feeding: Vec<usize>,
    complete: Vec<bool>,
    packets: Vec<(usize, PipelinePacket)>,
    /// Finishing work: the sink, the next part, and how many there are.
    parts: Vec<(usize, usize, usize)>,
    output: Receiver,
    turns: ManualClock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipelineState {
    Waiting,
    Running { packets_left: usize },
    Finished,
}

impl NestedRun {
    /// Makes a plan ready to be pulled from.
    fn new(plan: &Plan, context: &CompileContext, context: &QueryContext) -> Result<Self> {
        let end = Exchange::ahead(Pact::Gather, 1, context.port_credits);
        let output = end.take_receiver().ok_or_else(|| Error::bug("an exchange without an end"))?;
        let graph = compile(plan, end, context)?;
        let mut feeding = vec![0; graph.sinks.len()];
        graph.pipelines.iter().for_each(|pipeline| feeding[pipeline.sink] += 1);
        Ok(Self {
            context: QueryContext { packets: 1, ..context.clone() },
            pipelines: vec![PipelineState::Waiting; graph.pipelines.len()],
            feeding,
            complete: vec![false; graph.sinks.len()],
            packets: Vec::new(),
            parts: Vec::new(),
            output,
            turns: ManualClock::stepping(1),
            graph,
        })
    }

    /// Opens the packets of each pipeline whose conditions hold. False if there is none.
    fn start_pipelines(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(index) = (0..self.pipelines.len()).find(|&index| self.may_start(index)) {
            any = true;
            let pipeline = &self.graph.pipelines[index];
            let sink = &self.graph.sinks[pipeline.sink].sink;
            let useful = pipeline.source.part.packets_max();
            let packets = if pipeline.exact_packets { useful } else { useful.min(1) };
            for _ in 0..packets {
                let meter = |totals: &Arc<_>| Meter::new(Arc::clone(totals));
                let source = (pipeline.source.part.open(&self.context)?, meter(&pipeline.source.totals));
                let operators = pipeline
                    .operators
                    .iter()
                    .map(|Part { part, totals, .. }| Ok((part.open(&self.context)?, meter(totals))))
                    .collect::<Result<_>>()?;
                let sink = (sink.part.open(&self.context)?, meter(&sink.totals));
                self.packets.push((index, PipelinePacket::new(self.context.memory.clone(), source, operators, sink)));
            }
            self.pipelines[index] = PipelineState::Running { packets_left: packets };
            if packets == 0 {
                self.pipeline_finished(index)?;
            }
        }
        Ok(any)
    }

    fn may_start(&self, index: usize) -> bool {
        let pipeline = &self.graph.pipelines[index];
        self.pipelines[index] == PipelineState::Waiting
            && pipeline.after_sinks.iter().all(|&sink| self.complete[sink])
            && pipeline.after_pipelines.iter().all(|&other| self.pipelines[other] == PipelineState::Finished)
            && pipeline.after_started.iter().all(|&other| self.pipelines[other] != PipelineState::Waiting)
    }

    fn packet_finished(&mut self, index: usize) -> Result<()> {
        let PipelineState::Running { packets_left } = &mut self.pipelines[index] else { return Ok(()) };
        *packets_left -= 1;
        if *packets_left > 0 { Ok(()) } else { self.pipeline_finished(index) }
    }

    fn pipeline_finished(&mut self, index: usize) -> Result<()> {
        self.pipelines[index] = PipelineState::Finished;
        let sink = self.graph.pipelines[index].sink;
        self.feeding[sink] -= 1;
        if self.feeding[sink] > 0 {
            return Ok(());
        }
        let parts = self.graph.sinks[sink].sink.part.parts()?;
        self.parts.push((sink, 0, parts));
        Ok(())
    }

    /// Does the next part of each sink that has everything. False if there is none.
    fn finish_parts(&mut self) -> Result<bool> {
        let any = !self.parts.is_empty();
        for (sink, next, parts) in std::mem::take(&mut self.parts) {
            let part = &self.graph.sinks[sink].sink.part;
            if next < parts {
                part.part(next, &self.context)?;
                self.parts.push((sink, next + 1, parts));
            } else {
                part.complete()?;
                self.complete[sink] = true;
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
                    self.packet_finished(pipeline)?;
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
