//! Pipelines: a source, operators that run without materializing, a sink.
//!
//! ```text
//!   Source --batch--> Operator --batch--> ... --batch--> Sink ==state==> later pipelines
//! ```
//!
//! A plan is cut into pipelines wherever rows must be kept before they can go on: a join's build side, groups, a sort.
//! A pipeline may end in several [branches], where several parts of a plan need the same rows: each batch goes to all.
//!
//! Up to N *packets* work on one pipeline; each opens its own states of the source, the operators and the sink and
//! carries batches through them. What the packets of one pipeline share lives in the [`Source`](crate::flow::Source),
//! [`Operator`](crate::flow::Operator) or [`Sink`](crate::flow::Sink) itself.
//!
//! Invariants:
//! * Operators see batches and their reservation: no thread, no clock, no other query.
//! * A state may be dropped between any two calls: that is how a query is cancelled.
//! * One call works on one batch, or as much, so that a packet can stop at the end of its quantum.

mod branches;
mod compile;
mod context;
mod graph;
mod nested;
mod progress;
mod run;

pub use compile::compile;
pub use context::CompileContext;
pub use graph::{Branch, Graph, Part, PipelineSpec, SinkSpec, TableSpec};
pub(crate) use progress::{GraphProgress, room_bytes};
pub use run::PipelinePacket;
