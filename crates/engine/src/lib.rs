//! Where a batch travels.
//!
//! The life of a query, from a plan to its rows:
//! 1. [`Engine::run`] gets a [`Plan`](plan::Plan): a tree without any parallelism in it.
//! 2. [`pipeline::compile`] cuts it into pipelines wherever rows must be kept: a join's build side, groups, a sort.
//! 3. [`QueryRun`](query::QueryRun) starts every pipeline that waits for nothing: up to N packets each, queued in the
//!    [stage](stages) of the pipeline's source.
//! 4. A worker takes the packet that the [policy](stages::Policy) chooses and runs it for a quantum:
//!    [`PipelinePacket::run`](pipeline::PipelinePacket) carries batches from the source through the
//!    [operators] into the sink.
//! 5. When all packets of a pipeline are done, its sink's finishing parts run, and the pipelines that wait for it
//!    start.
//! 6. The last pipeline ends in a port, from which [`QueryStream`](query::QueryStream) hands rows to whoever asked.
//! 7. At the end, on an error or when the stream is dropped, every packet drops its states and their reservations.
//!
//! The rooms, of which each imports only those before it:
//! - `sync`, [`knobs`]: what packets lock; the numbers that may change while the engine runs;
//! - [`stages`]: packets on workers;
//! - [`batch`], [`temp`], [`expressions`], [`plan`]: what is computed, rows of it on the disk, and the closed list of
//!   what can be run;
//! - [`tuning`], `options`, `matching`: what turns knobs; what a query may do; what plans have in common;
//! - [`flow`]: the roles in a pipeline, and what is counted of them;
//! - [`reuse`], [`exchange`]: what queries leave for others; where rows change hands;
//! - [`operators`], [`pipeline`], [`query`]: what happens to a batch, to all batches of a pipeline, to all pipelines;
//! - [`short`]: small plans that run at once, without any of these;
//! - `launcher`, `tuned`, `sharing`: what starts queries, alone or together, and the engine as the tuner sees it;
//! - `engine`: what holds all of it.
//!
//! Beside them are, for tests only, `reference`, the slow judges of operators, and `interleavings`, the engine under
//! random schedules.
//!
//! Invariants: no packet blocks a worker, except while it waits outside of the engine, when another thread stands in;
//! operators know no thread, clock or other query; every byte that an operator keeps is reserved; a panic in a packet
//! ends its query and nothing else.

pub mod batch;
mod engine;
pub mod exchange;
pub mod expressions;
pub mod flow;
#[cfg(test)]
mod interleavings;
pub mod knobs;
mod launcher;
mod matching;
pub mod operators;
mod options;
pub mod pipeline;
pub mod plan;
pub mod query;
#[cfg(test)]
mod reference;
pub mod reuse;
mod sharing;
pub mod short;
pub mod stages;
mod sync;
pub mod temp;
mod tuned;
pub mod tuning;

pub use engine::Engine;
pub use options::{EngineOptions, Mode, QueryOptions, SharingMode};
pub use sharing::{SharingKey, SharingOffer};
