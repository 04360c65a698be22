//! Generic plans (PostgreSQL's word): one plan of a statement for all values of its parameters.
//!
//! Only for statements whose parameters stand in conditions on rows (`WHERE key = $1`) and in computed columns
//! (`SET a = a + $1`, `VALUES ($1)`), and nowhere else once the plan is optimized. There a value decides nothing about
//! the plan's form, so the values are put in when it starts. A plan made for values may be better, where it pays to
//! know how many rows they leave: that is for whoever chooses between the two to think of.
//!
//! A plan that is kept only names the tables in memory that it reads, so it is good while they change ([`Rebinding`]).

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::{Rebinding, SessionSnapshot, Uses};
use diligence_engine::plan::{Needs, Node, Plan, PlanTables};
use diligence_engine::short::may_be_short;

use super::formula::Formula;
use super::kinds::has_rows;
use super::statements::Unvalued;
use super::{Planned, Planner, guarded, parameters};
use crate::binder::instant;
use crate::lowering::parameters::put;
use crate::parse::{self, Parsed};
use crate::statement::{AnyWrite, Query, Statement};

/// The SQLSTATE of a plan that needs to know a value.
const WITHOUT_VALUE: &str = "08P01";

/// A plan for all values of a statement's parameters.
#[derive(Debug)]
pub struct GenericPlan {
    /// The plan of the rows.
    plan: Plan,
    /// The tables that it names, but for those in memory.
    tables: PlanTables,
    /// What running it is expected to need, whatever the values.
    needs: Needs,
    /// What is done with them.
    write: Option<AnyWrite>,
    /// How many parameters it has.
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
        if types.is_empty() {
            return Ok(None);
        }
        Ok(self.unvalued(snapshot, parsed, types)?.map(|Unvalued { plan, tables, write, uses }| {
            let (needs, tables) = (plan.needs(&tables), kept_tables(&tables, &uses));
            GenericPlan { plan, tables, needs, write, parameters: types.len(), uses }
        }))
    }

    /// What a query of one row computes for values of these types of its parameters; `None` if it reads a table, waits
    /// for something outside of the engine, or has no plan for all values. Fails as
    /// [`plan_generic`](Self::plan_generic) does.
    pub fn formula(&self, snapshot: &SessionSnapshot, parsed: &Parsed, types: &[DataType]) -> Result<Option<Formula>> {
        match self.unvalued(snapshot, parsed, types)? {
            Some(Unvalued { plan, write: None, uses, .. }) => Formula::new(&plan, types, uses),
            _ => Ok(None),
        }
    }

    fn unvalued(&self, snapshot: &SessionSnapshot, parsed: &Parsed, types: &[DataType]) -> Result<Option<Unvalued>> {
        let at = self.planning(snapshot);
        guarded(|| {
            parse::with_stack(parsed.depth, || {
                if parameters::count(parsed)? != types.len() || !has_rows(parsed) {
                    return Ok(None);
                }
                match self.plan_without_values(&at, parsed, types) {
                    Err(error) if error.kind() == ErrorKind::Input && error.code() == Some(WITHOUT_VALUE) => Ok(None),
                    planned => planned,
                }
            })
        })
    }

    /// A plan of these tables over the rows that a snapshot has, the tables that it names then, and what it uses;
    /// `None` if it is not good for them. Looks at the times of files, so it may block for a moment.
    pub fn renewed(
        &self,
        (plan, tables): (&Plan, &PlanTables),
        uses: &Uses,
        snapshot: &SessionSnapshot,
    ) -> Option<(Plan, PlanTables, Uses)> {
        let (uses, rebinding) = self.renewed_uses(uses, snapshot)?;
        let (mut plan, mut tables) = (plan.clone(), tables.clone());
        if !rebinding.is_empty() {
            rebind(&mut plan, &mut tables, &rebinding);
        }
        Some((plan, tables, uses))
    }

    /// What a plan was made from, as it is in a snapshot of the planner's session, and which rows it reads then; `None`
    /// if it has to be planned anew. May block as [`is_current`](Self::is_current) does.
    pub fn renewed_uses(&self, uses: &Uses, snapshot: &SessionSnapshot) -> Option<(Uses, Rebinding)> {
        let path = |path: &str| self.catalogs.catalog().path(path, &self.options.files);
        uses.renewed(snapshot, self.identity(), path)
    }
}

impl GenericPlan {
    /// What running it is expected to need, whatever the values.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether it may take the short path, as far as that can be told without values, and with none of it reads files.
    pub fn may_be_short(&self) -> bool {
        self.uses.is_in_memory() && may_be_short(&self.plan)
    }

    /// What it was made from.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// The statement for these values, one for each parameter, over the rows that a snapshot of the planner's session
    /// has; `None` if it has to be planned anew for them. Fails if a value does not fit the type that the plan has for
    /// it.
    pub fn with(&self, values: &[ScalarValue], planner: &Planner, at: &SessionSnapshot) -> Result<Option<Planned>> {
        if values.len() != self.parameters {
            return Err(Error::bug("a generic plan has other parameters"));
        }
        if self.write.as_ref().is_some_and(|write| !write.is_allowed(at) || write.misses_triggers(at)) {
            return Ok(None);
        }
        let renewed = planner.renewed((&self.plan, &self.tables), &self.uses, at);
        let Some((mut plan, tables, uses)) = renewed else { return Ok(None) };
        let mut values = values.to_vec();
        values.push(instant(planner.catalogs().now()));
        put(&mut plan, &values)?;
        Ok(Some(match &self.write {
            None => Planned::Query(Arc::new(Query::new(plan, tables)), Some(uses)),
            Some(write) => {
                let rows = Query::new(plan, tables);
                Planned::Other(Box::new(Statement::Write(write.of(rows, planner.catalogs()))))
            }
        }))
    }
}

/// Has a plan read other tables.
fn rebind(plan: &mut Plan, tables: &mut PlanTables, rebinding: &Rebinding) {
    if let Node::Scan(scan) = &mut plan.node
        && let Some(table) = rebinding.instead_of(scan.table)
    {
        scan.table = tables.add(table);
    }
    plan.inputs_mut().into_iter().for_each(|input| rebind(input, tables, rebinding));
}

/// The tables that a plan is kept with: those that another run does not find by their names.
pub fn kept_tables(tables: &PlanTables, uses: &Uses) -> PlanTables {
    let stay = tables.identities().filter(|identity| !uses.finds(*identity));
    stay.filter_map(|identity| tables.find(identity)).collect()
}
