//! The join and the aggregation of TPC-H tables that do not fit.

use std::path::Path;

use clap::Args;
use diligence_base::Result;
use serde_json::Value;

use super::{Common, Task, measure};
use crate::setup;

/// Every line against its order, with a condition that only the joined row can answer: both comments go through the
/// join.
const JOIN: &str = "SELECT max(l_comment), max(o_comment) FROM lineitem JOIN orders ON l_orderkey = o_orderkey \
                    WHERE l_comment > o_comment";
/// Almost as many groups as rows, with text in their state. What is around it keeps the answer to one row.
const AGGREGATE: &str = "SELECT count(*) AS groups, sum(lines) AS lines, max(comment) AS comment FROM \
                         (SELECT l_orderkey, l_suppkey, count(*) AS lines, max(l_comment) AS comment FROM lineitem \
                         GROUP BY l_orderkey, l_suppkey) AS grouped";

/// What to run.
#[derive(Args)]
pub struct QueryArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 10.0)]
    sf: f64,
    #[command(flatten)]
    common: Common,
}

/// `diligence-bench join`.
pub fn join(arguments: &QueryArguments, root: &Path) -> Result<Value> {
    run("join", JOIN, arguments, root)
}

/// `diligence-bench aggregate`.
pub fn aggregate(arguments: &QueryArguments, root: &Path) -> Result<Value> {
    run("aggregate", AGGREGATE, arguments, root)
}

/// DuckDB has its native file, the others the Parquet files.
fn run(name: &'static str, query: &str, arguments: &QueryArguments, root: &Path) -> Result<Value> {
    let data = setup::data(root, arguments.sf)?;
    let rivals = arguments.common.rivals.clone();
    measure(&Task { name, data: &data, query, copy_to: None, rivals, verify: &|_| Ok(()) }, &arguments.common)
}
