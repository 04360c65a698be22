//! The packets of a query: what a worker runs for it.
//!
//! Invariant: a packet drops what it holds before its query counts it as ended, and a panic in it is an error of its
//! query alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Poll;

use diligence_base::{Error, Result};
use diligence_memory::Giving;

use super::QueryRun;
use crate::pipeline::{PipelinePacket, SinkSpec};
use crate::stages::{Quantum, Step, Work, on_behalf_of};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Runs a piece of a query so that a panic in it is an error of that query and nothing else.
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::bug(format!("a packet of this query panicked: {message}"))
        .with_hint("this is a bug in the engine or in a function; other queries are not affected")
}

/// A packet that waits until its query has its grant, then starts it.
pub(super) struct AdmissionWork {
    pub(super) run: Arc<QueryRun>,
}

impl Work for AdmissionWork {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        if self.run.stopped.load(Ordering::Acquire) {
            self.run.context.memory.leave_queue();
        } else if self.run.poll_admit(quantum.waker).is_pending() {
            return Step::Wait;
        } else {
            self.run.status.lock().admission = None;
            self.run.start_pipelines();
        }
        self.run.packets_ended(1);
        Step::Done
    }
}

/// A packet that waits for another query's hash table, or for having to build its own.
pub(super) struct TableWork {
    pub(super) run: Arc<QueryRun>,
    pub(super) table: usize,
}

impl Work for TableWork {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        if !self.run.stopped.load(Ordering::Acquire) {
            let is_settled = match self.run.graph() {
                Some(graph) => self.run.poll_table(&graph, self.table, quantum.waker),
                None => true,
            };
            if !is_settled {
                return Step::Wait;
            }
            self.run.start_pipelines();
        }
        self.run.packets_ended(1);
        Step::Done
    }
}

/// Has a query give memory back when it is asked, as long as it is there.
pub(super) struct GivingBack(pub(super) Weak<QueryRun>);

impl Giving for GivingBack {
    fn wake_packets(&self) {
        if let Some(run) = self.0.upgrade() {
            run.wake_packets();
        }
    }

    fn start_reclaiming(&self) {
        if let Some(run) = self.0.upgrade() {
            run.start_reclaiming();
        }
    }

    fn rest(&self) {
        if let Some(run) = self.0.upgrade() {
            run.rest();
        }
    }
}

/// A packet that has states at rest give memory back.
pub(super) struct ReclaimWork {
    pub(super) run: Arc<QueryRun>,
}

impl Work for ReclaimWork {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        let memory = &self.run.context.memory;
        while !self.run.stopped.load(Ordering::Acquire) {
            match catch(|| match memory.poll_reclaim(quantum.waker) {
                Poll::Pending => Ok(Some(Step::Wait)),
                Poll::Ready(Ok(true)) => Ok(None),
                Poll::Ready(Ok(false)) => Ok(Some(Step::Yield)),
                Poll::Ready(Err(error)) => Err(error),
            }) {
                Ok(Some(Step::Yield)) if !quantum.is_over(quantum.now_ns()) => {}
                Ok(Some(step)) => return step,
                Ok(None) => break,
                Err(error) => self.run.fail(error),
            }
        }
        self.run.status.lock().reclaiming = None;
        // Asked after the last look: then nobody started another.
        if memory.is_reclaiming() {
            self.run.start_reclaiming();
        }
        self.run.packets_ended(1);
        Step::Done
    }
}

/// A packet that carries batches along a pipeline.
pub(super) struct PipelineWork {
    pub(super) run: Arc<QueryRun>,
    pub(super) pipeline: usize,
    pub(super) packet: Option<PipelinePacket>,
}

impl Work for PipelineWork {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        let Some(packet) = &mut self.packet else { return Step::Done };
        if !self.run.stopped.load(Ordering::Acquire) {
            match catch(|| on_behalf_of(self.run.as_caller(), || packet.run(quantum))) {
                Ok(Step::Done) => {
                    // The states go first: what waits for this pipeline must find its memory free.
                    self.packet = None;
                    self.run.packet_finished(self.pipeline);
                    self.run.packets_ended(1);
                    return Step::Done;
                }
                Ok(step) => return step,
                Err(error) => self.run.fail(error),
            }
        }
        drop_quietly(self.packet.take());
        self.run.packets_ended(1);
        Step::Done
    }
}

/// A packet that does finishing parts of a sink, one after another.
pub(super) struct PartsWork {
    pub(super) run: Arc<QueryRun>,
    pub(super) sink: usize,
    pub(super) spec: Option<SinkSpec>,
    pub(super) next: Arc<AtomicUsize>,
    pub(super) parts: usize,
}

impl Work for PartsWork {
    fn run(&mut self, quantum: &Quantum<'_>) -> Step {
        while let Some(spec) = &self.spec {
            if self.run.stopped.load(Ordering::Acquire) {
                break;
            }
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                self.spec = None;
                self.run.parts_finished(self.sink);
                self.run.packets_ended(1);
                return Step::Done;
            }
            let start_ns = quantum.now_ns();
            if let Err(error) =
                catch(|| on_behalf_of(self.run.as_caller(), || spec.sink.part.part(part, &self.run.context)))
            {
                self.run.fail(error);
                break;
            }
            let now_ns = quantum.now_ns();
            spec.sink.totals.add_worked_ns(now_ns.saturating_sub(start_ns));
            if quantum.is_over(now_ns) {
                return Step::Yield;
            }
        }
        self.spec = None;
        self.run.packets_ended(1);
        Step::Done
    }
}

/// Drops what a query held; a panic in a destructor must not keep the query from ending.
pub(super) fn drop_quietly<T>(held: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(held)));
}
