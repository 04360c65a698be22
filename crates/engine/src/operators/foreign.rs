//! DataFusion operators that we do not have natively, fed by our pipelines.

/// Stands in a foreign operator's tree for one of our plans.
#[derive(Debug)]
pub struct InputExec;
