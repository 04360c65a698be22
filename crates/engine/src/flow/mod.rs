//! What flows through a pipeline, and the words for it: the three [roles], their answers, and [what was
//! counted](profile).
//!
//! Operators are written against this room and know nothing of what runs them.

pub mod profile;
mod roles;

pub(crate) use roles::rows_within;
pub use roles::{
    Accept, Flow, Operator, OperatorState, Output, Pull, QueryContext, Sink, SinkState, Source, SourceState,
};
