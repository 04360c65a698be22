//! Where a batch travels.

pub mod batch;
pub mod exchange;
pub mod expressions;
pub mod memory;
pub mod operators;
pub mod pipeline;
pub mod plan;
pub mod reference;
