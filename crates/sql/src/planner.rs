//! A session's planner: from a statement's text to what is to be done.

mod define;
mod execute;
mod known;
mod optimize;
mod settings;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::ScalarValue;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use datafusion::physical_plan::displayable;
use datafusion::sql::parser::{ResetStatement, Statement as ParsedStatement};
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use datafusion::sql::sqlparser::ast;
use diligence_base::seams::Files;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::to_datafusion;
use parking_lot::{Mutex, RwLock};

use self::known::InStatement;
use self::optimize::{asks_for_order, optimize, physical};
pub(crate) use self::optimize::{block_on, optimize_types};
pub use self::settings::PlannerOption;
use self::settings::{set_statement, setting_name};
use crate::bounded::while_planning;
use crate::catalog::{SessionCatalogs, View};
use crate::errors;
use crate::facts::{self, Facts};
use crate::lower::lower;
use crate::names::Names;
use crate::parse::{self, Parsed};
use crate::rewrite::{duplicates, using};
use crate::rules;
use crate::state::session_state;
use crate::statement::{Command, FileWrite, Query, Statement};
use crate::write::FileTarget;
use crate::write::plan::copy_plan;

/// How a session plans.
#[derive(Clone, Debug)]
pub struct PlannerOptions {
    /// Whether a name in FROM that looks like a path is one, and statements may name files to read or write. Off for
    /// strangers: they must not touch the server's files.
    pub paths_are_tables: bool,
    /// Where local files are.
    pub files: Arc<dyn Files>,
}

/// Plans the statements of one session. Used from any thread; statements do not wait for each other.
pub struct Planner {
    options: PlannerOptions,
    catalogs: SessionCatalogs,
    session: RwLock<Arc<SessionParts>>,
    facts: RwLock<Arc<Facts>>,
    prepared: Mutex<HashMap<String, Parsed>>,
}

/// What planning reads; replaced as a whole when a setting changes. Sessions that have changed none share it.
pub(crate) struct SessionParts {
    pub(crate) state: SessionState,
    /// What foreign operators run with.
    task: Arc<TaskContext>,
    /// No other has had this number.
    id: u64,
}

impl SessionParts {
    fn new(state: SessionState) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let task = state.task_ctx();
        Arc::new(Self { state, task, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }
}

impl Planner {
    /// A planner over the relations that a session sees.
    pub fn new(catalogs: SessionCatalogs, runtime: Arc<RuntimeEnv>, options: PlannerOptions) -> Self {
        let state = session_state(catalogs.clone(), runtime);
        Self::with_parts(catalogs, SessionParts::new(state), options)
    }

    fn with_parts(catalogs: SessionCatalogs, parts: Arc<SessionParts>, options: PlannerOptions) -> Self {
        let session = RwLock::new(parts);
        Self { options, catalogs, session, facts: RwLock::default(), prepared: Mutex::default() }
    }

    /// A planner for another session, with this one's settings. Cheap: what no SET has changed is shared.
    pub fn for_session(&self, catalogs: SessionCatalogs, options: PlannerOptions) -> Self {
        Self::with_parts(catalogs, self.session(), options)
    }

    pub(crate) fn session(&self) -> Arc<SessionParts> {
        self.session.read().clone()
    }

    /// A number that two planners share as long as the same settings hold for both.
    pub fn settings_identity(&self) -> u64 {
        self.session.read().id
    }

    /// What functions about the session answer, such as `current_user`.
    pub fn facts(&self) -> Arc<Facts> {
        self.facts.read().clone()
    }

    /// Changes what functions about the session answer, for statements planned from now on.
    pub fn set_facts(&self, facts: Facts) {
        *self.facts.write() = Arc::new(facts);
    }

    /// The relations that the session sees.
    pub fn catalogs(&self) -> &SessionCatalogs {
        &self.catalogs
    }

    /// How the session plans.
    pub fn options(&self) -> &PlannerOptions {
        &self.options
    }

    /// Plans exactly one statement. A panic of the planner is an error of this statement.
    pub fn plan(&self, sql: &str) -> Result<Statement> {
        let session = self.session();
        let dialect = session.state.config_options().sql_parser.dialect;
        guarded(|| {
            let parsed = parse::parse_one(sql, dialect.as_ref())?;
            parse::with_stack(parsed.depth, || self.statement(&session, parsed))
        })
    }

    /// Every function's name, in order.
    pub fn function_names(&self) -> Vec<String> {
        let session = self.session();
        let state = &session.state;
        let mut names = state.scalar_functions().keys().cloned().collect::<Vec<_>>();
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.extend(state.higher_order_functions().keys().cloned());
        names.extend(state.table_functions().keys().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// The plan of a view's query, as its tables are now.
    pub(crate) fn view_plan(&self, names: &Names<'_>, view: &View) -> DataFusionResult<LogicalPlan> {
        let session = self.session();
        let options = parser_options(&session.state);
        let mut statement = view.statement.clone();
        using::mend(names, options, &mut statement);
        let sql = SqlToRel::new_with_options(names, options);
        let plan = duplicates::planned(statement, |statement| sql.statement_to_plan(statement))?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateView(create)) => Ok(Arc::unwrap_or_clone(create.input)),
            other => Err(to_datafusion(Error::bug(format!("a view's statement planned to {}", other.display())))),
        }
    }

    pub(crate) fn statement(&self, session: &SessionParts, parsed: Parsed) -> Result<Statement> {
        let Parsed { statement, depth } = parsed;
        match statement {
            ParsedStatement::Explain(explain) => {
                self.explain(session, Parsed { statement: *explain.statement, depth }, &explain.options)
            }
            ParsedStatement::Reset(ResetStatement::Variable(name)) => {
                let name = setting_name(&name);
                Ok(Statement::Reset { name: (name != "all").then_some(name) })
            }
            ParsedStatement::Statement(statement) => match *statement {
                ast::Statement::Set(set) => set_statement(set),
                ast::Statement::ShowVariable { variable } => {
                    let words = variable.iter().map(|word| word.value.to_lowercase()).collect::<Vec<_>>();
                    let name = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                        ["all"] => None,
                        ["time", "zone"] | ["timezone"] => Some("datafusion.execution.time_zone".to_owned()),
                        _ => Some(words.join(".")),
                    };
                    Ok(Statement::Show { name })
                }
                ast::Statement::StartTransaction { .. }
                | ast::Statement::Commit { .. }
                | ast::Statement::Rollback { .. }
                | ast::Statement::Savepoint { .. } => {
                    Err(Error::unsupported("there are no transactions: every statement stands by itself"))
                }
                ast::Statement::Deallocate { name, .. } => {
                    let name = name.value.to_lowercase();
                    let mut prepared = self.prepared.lock();
                    if name == "all" {
                        prepared.clear();
                    } else if prepared.remove(&name).is_none() {
                        return Err(execute::no_prepared(&name, &prepared));
                    }
                    Ok(Statement::Command(Command::Nothing("DEALLOCATE")))
                }
                prepare @ ast::Statement::Prepare { .. } => self.prepare(session, prepare, depth),
                statement => {
                    let view = matches!(statement, ast::Statement::CreateView(_)).then(|| Box::new(statement.clone()));
                    let view = view.map(|statement| Parsed { statement: ParsedStatement::Statement(statement), depth });
                    let statement = ParsedStatement::Statement(Box::new(statement));
                    self.logical(session, statement, |plan, _| self.planned(session, plan, view))
                }
            },
            ParsedStatement::CopyTo(mut copy) => {
                self.may_use_files("COPY … TO a file")?;
                let target = FileTarget::of_copy(&mut copy, session.state.runtime_env().clone())?;
                self.logical(session, ParsedStatement::CopyTo(copy), |plan, _| {
                    let LogicalPlan::Copy(plan) = plan else {
                        return Err(Error::bug("COPY planned to something else"));
                    };
                    let plan =
                        copy_plan(&session.state, plan, &target).map_err(|error| errors::planning(error, self))?;
                    let query = self.query(session, plan, None)?;
                    Ok(Statement::WriteFiles(FileWrite { query, target }))
                })
            }
            statement => {
                if matches!(statement, ParsedStatement::CreateExternalTable(_)) {
                    self.may_use_files("CREATE EXTERNAL TABLE")?;
                }
                let definition =
                    matches!(statement, ParsedStatement::CreateExternalTable(_)).then(|| statement.to_string());
                self.logical(session, statement, |plan, _| match (plan, definition) {
                    (LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)), Some(definition)) => {
                        self.create_external_table(*create, definition)
                    }
                    (plan, _) => self.planned(session, plan, None),
                })
            }
        }
    }

    /// Plans a statement with the names as they are now, and goes on with that plan on a stack to fit its views.
    pub(crate) fn logical<T>(
        &self,
        session: &SessionParts,
        statement: ParsedStatement,
        then: impl FnOnce(LogicalPlan, &Names<'_>) -> Result<T>,
    ) -> Result<T> {
        self.logical_with(session, statement, &[], then)
    }

    /// The same with the values of `$1`, `$2`, …, for what must know them while it is planned.
    pub(crate) fn logical_with<T>(
        &self,
        session: &SessionParts,
        mut statement: ParsedStatement,
        values: &[ScalarValue],
        then: impl FnOnce(LogicalPlan, &Names<'_>) -> Result<T>,
    ) -> Result<T> {
        let names = Names::new(self, &session.state).with_values(values);
        if facts::put(&mut statement, &self.facts()) {
            names.not_reusable();
        }
        using::mend(&names, parser_options(&session.state), &mut statement);
        let known = InStatement { names: &names, planner: self, relations: parse::relations(&statement) };
        let sql = SqlToRel::new_with_options(&names, parser_options(&session.state));
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

    /// What a logical plan asks for. `view` is the statement, if it is CREATE VIEW.
    pub(crate) fn planned(&self, session: &SessionParts, plan: LogicalPlan, view: Option<Parsed>) -> Result<Statement> {
        match plan {
            LogicalPlan::Ddl(ddl) => self.ddl(session, ddl, view),
            LogicalPlan::Dml(dml) => self.dml(session, dml),
            LogicalPlan::Statement(LogicalStatement::Execute(execute)) => self.execute(session, execute),
            LogicalPlan::Statement(other) => Err(Error::unsupported(format!("{} is not supported", other.name()))),
            plan => Ok(Statement::Query(self.query(session, plan, None)?)),
        }
    }

    fn explain(&self, session: &SessionParts, parsed: Parsed, options: &ExplainStatementOptions) -> Result<Statement> {
        let analyze = options.analyze;
        let json = match options.format {
            None | Some(ExplainFormat::Indent) => false,
            Some(ExplainFormat::PostgresJSON) => true,
            Some(ExplainFormat::Tree | ExplainFormat::Graphviz) => {
                return Err(Error::unsupported("plans are shown as TEXT or JSON"));
            }
        };
        let mut details = options.verbose.then(String::new);
        let query = match parsed.statement {
            ParsedStatement::Statement(statement) if matches!(*statement, ast::Statement::Query(_)) => {
                let statement = ParsedStatement::Statement(statement);
                self.logical(session, statement, |plan, _| self.query(session, plan, details.as_mut()))?
            }
            statement => match self.statement(session, Parsed { statement, depth: parsed.depth })? {
                Statement::Query(query) => query,
                Statement::WriteFiles(copy) if !analyze => copy.query,
                Statement::Write(write) if !analyze => write.query,
                Statement::Write(_) | Statement::WriteFiles(_) => {
                    let error = Error::unsupported("EXPLAIN ANALYZE does not run statements that write");
                    return Err(error.with_hint("explain the query alone"));
                }
                _ => return Err(Error::input("only queries have plans to explain")),
            },
        };
        Ok(Statement::Explain { query, analyze, json, details })
    }

    /// Optimizes a logical plan and lowers it. `details` gets DataFusion's plans as text.
    fn query(&self, session: &SessionParts, plan: LogicalPlan, details: Option<&mut String>) -> Result<Query> {
        self.query_of(session, plan, details, Ok)
    }

    /// The same with something done to the optimized plan.
    pub(crate) fn query_of(
        &self,
        session: &SessionParts,
        plan: LogicalPlan,
        details: Option<&mut String>,
        last: impl FnOnce(LogicalPlan) -> DataFusionResult<LogicalPlan>,
    ) -> Result<Query> {
        let shown = duplicates::shown(&plan);
        let optimized = optimize(&session.state, plan).and_then(last);
        let optimized = optimized.map_err(|error| errors::planning(error, self))?;
        let physical = physical(&session.state, &optimized).map_err(|error| errors::planning(error, self))?;
        if let Some(details) = details {
            *details = format!(
                "Logical plan:\n{}\n\nDataFusion's physical plan:\n{}",
                optimized.display_indent(),
                displayable(physical.as_ref()).indent(false)
            );
        }
        let mut plan = lower(&physical, asks_for_order(&optimized), session.task.clone())?;
        if let Some(names) = shown {
            plan.schema = duplicates::renamed(&plan.schema, names);
        }
        Ok(Query { plan })
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

pub(crate) fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing outlives a failed planning but the catalog, whose locks are not held while planning.
    catch_unwind(AssertUnwindSafe(|| while_planning(body))).unwrap_or_else(|payload| Err(errors::panicked(payload)))
}
