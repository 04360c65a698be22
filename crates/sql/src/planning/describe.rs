//! What a statement takes and gives, told before its parameters have values.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::logical_expr::{LogicalPlan, Statement as LogicalStatement};
use datafusion::sql::sqlparser::ast;
use diligence_base::{Error, Result};
use diligence_catalog::SessionSnapshot;

use super::optimize::optimize_types;
use super::parameters::{cast_types, count as parameter_count, inner, prepare, syntax_of};
use super::{Planned, Planner, Planning, guarded, kinds, own};
use crate::errors;
use crate::parse::{self, Parsed};
use diligence_types::SqlType;

/// What a statement takes and gives.
#[derive(Clone, Debug)]
pub struct Description {
    /// The types of `$1`, `$2`, …; text where the statement does not say.
    pub parameters: Vec<DataType>,
    /// The columns that come out; `None` for a statement without rows.
    pub schema: Option<SchemaRef>,
}

impl Planner {
    /// What a statement takes and gives, and for one without parameters the plan that told. `given` are types that its
    /// sender declared for parameters.
    pub fn describe(
        &self,
        snapshot: &SessionSnapshot,
        parsed: &Parsed,
        given: &[Option<DataType>],
    ) -> Result<(Description, Option<Planned>)> {
        if kinds::acts_when_planned(parsed) {
            return Ok((Description { parameters: vec![], schema: None }, None));
        }
        if self.session().is_own {
            return self.describe_own(snapshot, parsed, given);
        }
        let count = parameter_count(parsed)?.max(given.len());
        if count == 0 {
            let planned = self.plan(snapshot, parsed, &[])?;
            return Ok((Description { parameters: vec![], schema: planned.schema() }, Some(planned)));
        }
        let at = self.planning(snapshot);
        let described = || self.described(&at, parsed, given, count);
        Ok((guarded(|| parse::with_stack(parsed.depth, described))?, None))
    }

    /// The same by the front of our own.
    fn describe_own(
        &self,
        snapshot: &SessionSnapshot,
        parsed: &Parsed,
        given: &[Option<DataType>],
    ) -> Result<(Description, Option<Planned>)> {
        let at = self.planning(snapshot);
        let types = given.iter().map(|given| match given {
            Some(known) => SqlType::of_arrow(known).unwrap_or(SqlType::Text),
            None => SqlType::Unknown,
        });
        let types = types.collect();
        let described = || self.described_own(&at, parsed, types);
        let own::Described { parameters, schema } = guarded(|| parse::with_stack(parsed.depth, described))?;
        Ok((Description { parameters: parameters.iter().map(SqlType::arrow).collect(), schema }, None))
    }

    fn described(
        &self,
        at: &Planning<'_>,
        parsed: &Parsed,
        given: &[Option<DataType>],
        count: usize,
    ) -> Result<Description> {
        let given = |index: usize| given.get(index).cloned().flatten();
        let casts = cast_types(parsed);
        let mut types = (0..count)
            .map(|index| match given(index) {
                Some(known) => syntax_of(&known).map(Some),
                None => Ok(casts.get(&(index + 1)).cloned()),
            })
            .collect::<Result<Vec<_>>>()?;
        if types.iter().any(Option::is_none) {
            let inferred = self.logical(at, prepare(parsed, vec![])?, |plan, names| {
                for (index, slot) in types.iter_mut().enumerate().filter(|(_, slot)| slot.is_none()) {
                    *slot = names.is_argument(&format!("${}", index + 1)).then_some(ast::DataType::BigInt(None));
                }
                inner(plan)?.get_parameter_fields().map_err(|error| errors::planning(error, at))
            });
            // Without the types that are known the statement may make no sense.
            match inferred {
                Ok(fields) => {
                    for (index, slot) in types.iter_mut().enumerate().filter(|(_, slot)| slot.is_none()) {
                        let field = fields.get(&format!("${}", index + 1)).cloned().flatten();
                        let known =
                            field.map(|field| field.data_type().clone()).filter(|known| *known != DataType::Null);
                        *slot = known.map(|known| syntax_of(&known)).transpose()?;
                    }
                }
                Err(error) if types.iter().all(Option::is_none) => return Err(error),
                Err(_) => {}
            }
        }
        let types = types.into_iter().map(|known| known.unwrap_or(ast::DataType::Text)).collect();
        self.logical(at, prepare(parsed, types)?, |plan, _| {
            let LogicalPlan::Statement(LogicalStatement::Prepare(prepare)) = plan else {
                return Err(Error::bug("a prepared statement planned to something else"));
            };
            let planned = prepare.fields.iter().map(|field| field.data_type().clone()).enumerate();
            let parameters = planned.map(|(index, planned)| given(index).unwrap_or(planned)).collect();
            let schema = match Arc::unwrap_or_clone(prepare.input) {
                LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) | LogicalPlan::Copy(_) => None,
                plan => {
                    let typed = optimize_types(&at.session.state, plan).map_err(|error| errors::planning(error, at))?;
                    Some(typed.schema().inner().clone())
                }
            };
            Ok(Description { parameters, schema })
        })
    }
}
