//! Plan: a syntax tree becomes a plan, for the values of its parameters or for all values.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use diligence_base::Result;
use diligence_sql::{Description, parameter_value};

use crate::plans::{GenericPlan, ParsedStatement, PlannedStatement, Source};
use crate::session::Session;

impl Session {
    /// What a statement takes and gives; `given` are parameters' types as its sender declares them. Opens files. Fails
    /// with kind `Input` if the statement makes no sense or names what is not there, with kind `Unsupported` if it asks
    /// for what we do not have, and with kind `File` if a file cannot be read.
    pub fn describe(&self, parsed: &ParsedStatement, given: &[Option<DataType>]) -> Result<Description> {
        self.in_runtime(|| self.planner().describe(&self.snapshot(), parsed.tree(), given))
    }

    /// Plans a statement. `values` are arrays of one row, one for each of `$1`, `$2`, …. Opens files. Fails with kind
    /// `Input` if the statement makes no sense, names what is not there or has more parameters, with kind `Value` if a
    /// constant cannot be computed, with kind `Unsupported` if it asks for what we do not have, and with kind `File` if
    /// a file cannot be read.
    pub fn plan(&self, parsed: &ParsedStatement, values: &[ArrayRef]) -> Result<PlannedStatement> {
        let values = values.iter().map(parameter_value).collect::<Result<Vec<_>>>()?;
        let planned = self.in_runtime(|| self.planner().plan(&self.snapshot(), parsed.tree(), &values))?;
        Ok(PlannedStatement::new(parsed.text(), planned).of(Source { parsed: parsed.clone(), values, generic: None }))
    }

    /// One plan for all values of these types of `$1`, `$2`, …; `None` if the statement has no such plan, whoever asks.
    /// Opens files. Fails as [`plan`](Self::plan) does; a statement that fails without values need not fail with them.
    pub fn plan_generic(&self, parsed: &ParsedStatement, types: &[DataType]) -> Result<Option<Arc<GenericPlan>>> {
        let plan = self.in_runtime(|| self.planner().plan_generic(&self.snapshot(), parsed.tree(), types))?;
        Ok(plan.map(|plan| Arc::new(GenericPlan::new(parsed, plan))))
    }
}

impl PlannedStatement {
    /// Whether planning the text again, in this session, would give the same plan. May look at files.
    pub fn is_current(&self, session: &Session) -> bool {
        self.is_current_for(session.planner())
    }

    /// The same statement over the rows that a session sees now; `None` if it has to be planned anew for it. Looks at
    /// the times of files, so it may block for a moment.
    pub fn renewed(&self, session: &Session) -> Option<Self> {
        self.renewed_for(session.planner())
    }

    /// A text that is another one whenever the tables behind the query are in another state, for a session now. Told
    /// without blocking: `None` if the statement reads files, or has to be planned anew.
    pub fn states_now(&self, session: &Session) -> Option<String> {
        self.states_now_for(session.planner())
    }
}

impl GenericPlan {
    /// The statement with values, over the rows that a session sees now: arrays of one row, one for each of `$1`, `$2`,
    /// …. `None` if it has to be planned anew. Looks at the times of files, so it may block for a moment. Fails with
    /// code 08P01 if there are fewer values than parameters, and if a value does not fit the type that the plan has for
    /// it. The statement can still be planned with its values.
    pub fn with(self: &Arc<Self>, values: &[ArrayRef], session: &Session) -> Result<Option<PlannedStatement>> {
        self.with_values(values, session.planner())
    }
}
