//! Explained: a plan as rows of text, as EXPLAIN and EXPLAIN ANALYZE show it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use diligence_base::Result;
use diligence_engine::query::QueryStream;
use diligence_sql::{Query, Statement};
use diligence_storage::foreign_error::from_arrow;

use crate::plan_json;

/// A plan as EXPLAIN ANALYZE will show it.
pub(crate) enum Explained {
    /// For people.
    Text(String),
    /// For programs.
    Json(Query),
}

impl Explained {
    /// Of a query that is about to run.
    pub(crate) fn of(query: &Query, is_json: bool) -> Self {
        match is_json {
            true => Self::Json(query.clone()),
            false => Self::Text(query.plan.shown(&query.tables).to_string()),
        }
    }

    /// The plan with what was measured of a run that has ended.
    pub(crate) fn ran(self, stream: &QueryStream) -> Result<RecordBatch> {
        line_batch(&match self {
            Self::Text(plan) => format!("{}\n\n{}", plan.trim_end(), stream.profile()),
            Self::Json(plan) => plan_json::ran(&plan, &stream.profile()),
        })
    }
}

/// A column of lines, as the plan of a query is given.
pub(super) fn line_batch(text: &str) -> Result<RecordBatch> {
    let lines: ArrayRef = Arc::new(StringViewArray::from_iter_values(text.trim_end().lines()));
    RecordBatch::try_new(Statement::plan_schema(), vec![lines]).map_err(from_arrow)
}
