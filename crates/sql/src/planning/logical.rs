//! From a syntax tree to DataFusion's logical plan.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use diligence_base::{Error, Result};
use diligence_catalog::View;
use diligence_storage::foreign_error::to_datafusion;

use super::known::InStatement;
use super::names::Names;
use super::{Planner, Planning};
use crate::rewrite::{duplicates, facts, using};
use crate::{errors, parse, rules};

impl Planner {
    /// Plans a statement with the names as they are now, and goes on with that plan on a stack to fit its views.
    pub(super) fn logical<T>(
        &self,
        at: &Planning<'_>,
        statement: ParsedStatement,
        then: impl FnOnce(LogicalPlan, &Names<'_>) -> Result<T>,
    ) -> Result<T> {
        self.logical_with(at, statement, &[], then)
    }

    /// The same with the values of `$1`, `$2`, …, for what must know them while it is planned.
    pub(super) fn logical_with<T>(
        &self,
        at: &Planning<'_>,
        mut statement: ParsedStatement,
        values: &[ScalarValue],
        then: impl FnOnce(LogicalPlan, &Names<'_>) -> Result<T>,
    ) -> Result<T> {
        let names = Names::new(self, at).with_values(values);
        if facts::put(&mut statement, &at.facts) {
            names.not_reusable();
        }
        using::mend(&names, parser_options(&at.session.state), &mut statement);
        let known = InStatement { names: &names, at, relations: parse::relations(&statement) };
        let sql = SqlToRel::new_with_options(&names, parser_options(&at.session.state));
        let plan = duplicates::planned(statement, |statement| sql.statement_to_plan(statement))
            .and_then(rules::before_analysis)
            .map_err(|error| errors::planning(error, &known))?;
        if let LogicalPlan::Ddl(DdlStatement::CreateView(create)) = &plan
            && names.has_resolved(&create.name)
        {
            let error = Error::input(format!("the view '{}' would select from itself", create.name));
            return Err(error.with_hint("give the view another name, or select from the tables behind it"));
        }
        parse::with_stack(names.view_levels_max(), || then(plan, &names))
    }

    /// The plan of a view's query, as its tables are now.
    pub(super) fn view_plan(&self, at: &Planning<'_>, names: &Names<'_>, view: &View) -> DataFusionResult<LogicalPlan> {
        let options = parser_options(&at.session.state);
        let mut statement = ParsedStatement::Statement(Box::new(view.source.as_ref().clone()));
        using::mend(names, options, &mut statement);
        let sql = SqlToRel::new_with_options(names, options);
        let plan = duplicates::planned(statement, |statement| sql.statement_to_plan(statement))?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateView(create)) => Ok(Arc::unwrap_or_clone(create.input)),
            other => Err(to_datafusion(Error::bug(format!("a view's statement planned to {}", other.display())))),
        }
    }
}

fn parser_options(state: &SessionState) -> ParserOptions {
    let options = &state.config_options().sql_parser;
    ParserOptions {
        parse_float_as_decimal: options.parse_float_as_decimal,
        enable_ident_normalization: options.enable_ident_normalization,
        enable_options_value_normalization: options.enable_options_value_normalization,
        support_varchar_with_length: options.support_varchar_with_length,
        map_string_types_to_utf8view: options.map_string_types_to_utf8view,
        collect_spans: options.collect_spans,
        default_null_ordering: options.default_null_ordering.as_str().into(),
    }
}
