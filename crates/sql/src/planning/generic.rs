//! Generic plans (PostgreSQL's word): one plan of a statement for all values of its parameters.
//!
//! Only for statements whose parameters stand in conditions on the rows of single tables, as `WHERE key = $1`, and
//! nowhere else once the plan is optimized. There a value decides which rows a scan gives and nothing about the plan's
//! form, so the values are put into the scans' conditions when it starts. A plan made for values may be better, where
//! it pays to know how many rows they leave: that is for whoever chooses between the two to think of.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::{SessionSnapshot, Uses};
use diligence_engine::plan::Needs;

use super::kinds::is_query;
use super::{Planned, Planner, guarded, parameters};
use crate::lowering::parameters::put;
use crate::parse::{self, Parsed};
use crate::statement::Query;

/// The SQLSTATE of a plan that needs to know a value.
const WITHOUT_VALUE: &str = "08P01";

/// A plan for all values of a statement's parameters.
#[derive(Debug)]
pub struct GenericPlan {
    query: Query,
    /// How many it has.
    parameters: usize,
    uses: Uses,
}

impl Planner {
    /// A plan for all values of these types of `$1`, `$2`, …; `None` if there is none. Fails where the statement cannot
    /// be planned without values, or not by this session.
    pub fn plan_generic(
        &self,
        snapshot: &SessionSnapshot,
        parsed: &Parsed,
        types: &[DataType],
    ) -> Result<Option<GenericPlan>> {
        let at = self.planning(snapshot);
        guarded(|| {
            parse::with_stack(parsed.depth, || {
                if types.is_empty() || parameters::count(parsed)? != types.len() || !is_query(parsed) {
                    return Ok(None);
                }
                let planned = match self.plan_without_values(&at, parsed, types) {
                    Err(error) if error.kind() == ErrorKind::Input && error.code() == Some(WITHOUT_VALUE) => None,
                    planned => planned?,
                };
                Ok(planned.map(|(query, uses)| GenericPlan { query, parameters: types.len(), uses }))
            })
        })
    }
}

impl GenericPlan {
    /// What running it is expected to need, whatever the values.
    pub fn needs(&self) -> Needs {
        self.query.plan.needs()
    }

    /// What it was made from.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// The plan for these values, one for each parameter.
    pub fn with(&self, values: &[ScalarValue]) -> Result<Planned> {
        if values.len() != self.parameters {
            return Err(Error::bug("a generic plan has other parameters"));
        }
        let mut plan = self.query.plan.clone();
        put(&mut plan, values)?;
        Ok(Planned::Query(Arc::new(Query { plan }), Some(self.uses.clone())))
    }
}
