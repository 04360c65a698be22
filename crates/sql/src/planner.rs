//! A session's planner: from a statement's text to what is to be done.

mod execute;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use chrono::{DateTime, Utc};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::dml::{InsertOp, WriteOp};
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::logical_expr::{
    CreateMemoryTable, DdlStatement, DmlStatement, LogicalPlan, Statement as LogicalStatement,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerContext};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::sql::parser::{ResetStatement, Statement as ParsedStatement};
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use datafusion::sql::sqlparser::ast;
use diligence_base::seams::Files;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_datafusion, to_datafusion};
use parking_lot::{Mutex, RwLock};

use crate::bounded::while_planning;
use crate::catalog::{FileRelation, RelationName, SessionCatalogs, View};
use crate::errors::{self, KnownNames};
use crate::external;
use crate::facts::{self, Facts};
use crate::lower::lower;
use crate::names::{Names, relation_name};
use crate::parse::{self, NamedRelation, Parsed};
use crate::rewrite::{duplicates, using};
use crate::rules;
use crate::state::{fix_options, session_state, set_defaults};
use crate::statement::{Command, FileWrite, Query, Statement, Target, Write, nullable};
use crate::tables::StoredTable;
use crate::write::FileTarget;
use crate::write::plan::{copy_plan, insert_plan};

/// How a session plans.
#[derive(Clone, Debug)]
pub struct PlannerOptions {
    /// Whether a name in FROM that looks like a path is one, and statements may name files to read or write. Off for strangers:
    /// they must not touch the server's files.
    pub paths_are_tables: bool,
    /// Where local files are.
    pub files: Arc<dyn Files>,
}

/// One of DataFusion's options.
#[derive(Clone, Debug)]
pub struct PlannerOption {
    /// Its name, `datafusion.…`.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// The value that RESET gives it.
    pub default: Option<String>,
    /// What it does.
    pub description: &'static str,
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

    /// DataFusion's options with their values.
    pub fn datafusion_options(&self) -> Vec<PlannerOption> {
        let session = self.session();
        let mut built_in = ConfigOptions::default();
        set_defaults(&mut built_in);
        fix_options(&mut built_in);
        let defaults = built_in.entries().into_iter().map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>();
        let entries = session.state.config_options().entries().into_iter();
        let options = entries.map(|entry| PlannerOption {
            default: defaults.get(&entry.key).cloned().flatten(),
            name: entry.key,
            value: entry.value,
            description: entry.description,
        });
        options.collect()
    }

    /// Changes one of DataFusion's options, for statements planned from now on. Fails on one that the engine relies on.
    pub fn set_datafusion_option(&self, name: &str, value: &str) -> Result<()> {
        self.change(|options| {
            options.set(name, value)?;
            let wanted = value_of(options, name);
            fix_options(options);
            if value_of(options, name) != wanted {
                let error = Error::input(format!("the setting '{name}' is fixed: the engine relies on it"));
                return Err(to_datafusion(error));
            }
            Ok(())
        })
    }

    /// Gives one of DataFusion's options its default back.
    pub fn reset_datafusion_option(&self, name: &str) -> Result<()> {
        let default = self.datafusion_options().into_iter().find(|option| option.name == name);
        let default = default.and_then(|option| option.default).unwrap_or_default();
        self.change(|options| options.set(name, &default))
    }

    fn change(&self, change: impl FnOnce(&mut ConfigOptions) -> DataFusionResult<()>) -> Result<()> {
        let mut session = self.session.write();
        let mut state = session.state.clone();
        change(state.config_mut().options_mut()).map_err(|error| errors::planning(error, self))?;
        fix_options(state.config_mut().options_mut());
        state.mark_start_execution();
        // Some functions hold settings (the time zone of now()).
        let options = state.config_options().clone();
        let changed = state
            .scalar_functions()
            .values()
            .filter_map(|function| function.inner().with_updated_config(&options).map(Arc::new));
        for function in changed.collect::<Vec<_>>() {
            state.register_udf(function).map_err(from_datafusion)?;
        }
        *session = SessionParts::new(state);
        Ok(())
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

    fn ddl(&self, session: &SessionParts, ddl: DdlStatement, view: Option<Parsed>) -> Result<Statement> {
        let name = |name: TableReference| {
            let name = relation_name(name).map_err(|error| errors::planning(error, self))?;
            self.catalogs.rights.check_write(&name)?;
            Ok(name)
        };
        let command = match ddl {
            DdlStatement::CreateMemoryTable(create) => return self.create_table(session, create),
            DdlStatement::CreateExternalTable(create) => {
                let definition = format!("CREATE EXTERNAL TABLE {}", create.name);
                return self.create_external_table(*create, definition);
            }
            DdlStatement::CreateView(create) => {
                let Some(Parsed { statement, depth }) = view else {
                    return Err(Error::bug("a view without its statement"));
                };
                if create.temporary {
                    return Err(Error::unsupported("temporary views are not supported"));
                }
                duplicates::refused(create.input.schema())?;
                let schema = create.input.schema().inner().clone();
                let view = Arc::new(View { statement, depth, schema });
                Command::CreateView { name: name(create.name)?, view, or_replace: create.or_replace }
            }
            DdlStatement::DropTable(drop) => {
                Command::Drop { name: name(drop.name)?, view: false, if_exists: drop.if_exists }
            }
            DdlStatement::DropView(drop) => {
                Command::Drop { name: name(drop.name)?, view: true, if_exists: drop.if_exists }
            }
            DdlStatement::CreateCatalogSchema(create) => {
                self.catalogs.rights.check_write_schema(&create.schema_name)?;
                Command::CreateSchema { name: create.schema_name, if_not_exists: create.if_not_exists }
            }
            DdlStatement::DropCatalogSchema(drop) => {
                let name = drop.name.schema_name().to_owned();
                self.catalogs.rights.check_write_schema(&name)?;
                Command::DropSchema { name, if_exists: drop.if_exists, cascade: drop.cascade }
            }
            other => return Err(Error::unsupported(format!("{} is not supported", other.name()))),
        };
        Ok(Statement::Command(command))
    }

    fn create_table(&self, session: &SessionParts, create: CreateMemoryTable) -> Result<Statement> {
        let name = relation_name(create.name).map_err(|error| errors::planning(error, self))?;
        self.catalogs.rights.check_write(&name)?;
        if create.temporary {
            return Err(Error::unsupported("temporary tables are not supported"));
        }
        if let Some(existing) = self.catalogs.catalog.get(&name)
            && !create.or_replace
        {
            if create.if_not_exists {
                return Ok(Statement::Command(Command::Nothing("CREATE TABLE")));
            }
            let error = Error::input(format!("{} named '{name}' exists already", existing.a_kind()));
            return Err(error.with_hint("drop it first, or write CREATE OR REPLACE TABLE or IF NOT EXISTS"));
        }
        if !create.constraints.is_empty() {
            let error = Error::unsupported("PRIMARY KEY and UNIQUE are not supported: nothing would enforce them");
            return Err(error.with_hint("leave them out; NOT NULL is enforced"));
        }
        let input = Arc::unwrap_or_clone(create.input);
        duplicates::refused(input.schema())?;
        let schema = match &input {
            LogicalPlan::EmptyRelation(_) => input.schema().inner().clone(),
            _ => nullable(input.schema().as_arrow()),
        };
        let query = self.query(session, input, None)?;
        let target = Target::Create {
            name,
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
            schema,
            constraints: create.constraints,
            column_defaults: create.column_defaults.into_iter().collect(),
        };
        Ok(Statement::Write(Write { query, target }))
    }

    fn create_external_table(
        &self,
        create: datafusion::logical_expr::CreateExternalTable,
        definition: String,
    ) -> Result<Statement> {
        let name = relation_name(create.name).map_err(|error| errors::planning(error, self))?;
        self.catalogs.rights.check_write(&name)?;
        for (given, what) in [
            (create.temporary, "TEMPORARY"),
            (create.unbounded, "UNBOUNDED"),
            (!create.order_exprs.is_empty(), "WITH ORDER"),
        ] {
            if given {
                return Err(Error::unsupported(format!("{what} is not supported for external tables")));
            }
        }
        let [location] = create.locations.as_slice() else {
            let error = Error::unsupported("an external table has one LOCATION");
            return Err(error.with_hint("a folder or a pattern (dir/*.parquet) names many files"));
        };
        let pairs = create.options.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect();
        let schema = create.schema.inner();
        let schema = (!schema.fields().is_empty()).then(|| schema.clone());
        let mut options = external::open_options(&create.file_type, &pairs, schema)?;
        external::partitioned_by(&mut options, &create.table_partition_cols)?;
        let mut relation = FileRelation::new(location, options, self.options.files.clone());
        relation.definition = Some(definition);
        relation.constraints = create.constraints;
        relation.column_defaults = create.column_defaults.into_iter().collect();
        Ok(Statement::Command(Command::CreateExternalTable {
            name,
            relation: Arc::new(relation),
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
        }))
    }

    fn dml(&self, session: &SessionParts, dml: DmlStatement) -> Result<Statement> {
        let name = relation_name(dml.table_name).map_err(|error| errors::planning(error, self))?;
        self.catalogs.rights.check_write(&name)?;
        let provider = source_as_provider(&dml.target).map_err(from_datafusion)?;
        let stored = provider.downcast_ref::<StoredTable>();
        let memory = stored.and_then(StoredTable::memory).cloned();
        let files = stored.and_then(StoredTable::files).cloned();
        match (dml.op, memory, files) {
            (WriteOp::Insert(op), Some(relation), _) => {
                let replace = replaces(&op)?;
                let query = self.query(session, Arc::unwrap_or_clone(dml.input), None)?;
                Ok(Statement::Write(Write { query, target: Target::Insert { relation, replace } }))
            }
            (WriteOp::Insert(op), None, Some(relation)) => {
                self.may_use_files("INSERT into files")?;
                let replace = replaces(&op)?;
                let table = relation.table()?;
                let options = &relation.options;
                let runtime = session.state.runtime_env().clone();
                let target = FileTarget::of_insert(&table, relation.clone(), replace, runtime)?;
                let input = Arc::unwrap_or_clone(dml.input);
                let plan = insert_plan(&session.state, input, &table, options, &target)?;
                let query = self.query(session, plan, None)?;
                Ok(Statement::WriteFiles(FileWrite { query, target }))
            }
            (WriteOp::Truncate, Some(relation), _) => Ok(Statement::Command(Command::Truncate(relation))),
            (_, None, None) => {
                let error = Error::unsupported(format!("the table '{name}' cannot be written to"));
                Err(error.with_hint("COPY … TO writes files; CREATE TABLE … AS makes a table that can be changed"))
            }
            (op, ..) => Err(Error::unsupported(format!("{} is not supported", op.name().to_uppercase()))),
        }
    }

    fn may_use_files(&self, what: &str) -> Result<()> {
        if self.options.paths_are_tables {
            return Ok(());
        }
        let error = Error::input(format!("{what} is not allowed: this session may not use files of the server"));
        Err(error.with_code("42501").with_hint("the server's user file grants it: files = true"))
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

impl KnownNames for Planner {
    fn relations(&self) -> Vec<String> {
        self.catalogs.names().iter().map(RelationName::to_string).collect()
    }

    fn functions(&self) -> Vec<String> {
        self.function_names()
    }

    fn instead_of(&self, name: &str) -> Option<(String, String)> {
        if let Some((_, why)) = self.catalogs.catalog.left_out().into_iter().find(|(left_out, _)| left_out == name) {
            let hint = format!("name files of one format by a pattern: '…/{name}/*.parquet'");
            return Some((format!("the folder '{name}' is no table: {why}"), hint));
        }
        if !self.options.paths_are_tables {
            return None;
        }
        let path = Path::new(name);
        if self.options.files.is_dir(path) {
            let hint = format!("to read the files of a folder, write its name with a slash: '{name}/'");
            return Some((format!("no table is named '{name}'; there is a folder of this name"), hint));
        }
        self.options.files.meta(path).ok()?;
        let hint = format!("if it holds a table, say how: CREATE EXTERNAL TABLE … STORED AS CSV LOCATION '{name}'");
        Some((format!("no table is named '{name}'; there is a file of this name, which does not show a format"), hint))
    }
}

/// What a statement that is being planned knows besides: the aliases in it.
struct InStatement<'a> {
    names: &'a Names<'a>,
    planner: &'a Planner,
    relations: Vec<NamedRelation>,
}

impl KnownNames for InStatement<'_> {
    fn relations(&self) -> Vec<String> {
        self.planner.relations()
    }

    fn functions(&self) -> Vec<String> {
        self.planner.functions()
    }

    fn instead_of(&self, name: &str) -> Option<(String, String)> {
        self.planner.instead_of(name)
    }

    fn columns(&self, alias: &str) -> Option<Vec<String>> {
        let mut columns = None;
        for relation in self.relations.iter().filter(|relation| relation.alias == alias) {
            let columns = columns.get_or_insert_with(Vec::new);
            if let Some(Ok(source)) = relation.table.clone().map(|table| self.names.get_table_source(table)) {
                columns.extend(source.schema().fields().iter().map(|field| field.name().clone()));
            }
        }
        columns
    }
}

fn optimize(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let options = state.config_options();
    let analyzed = state.analyzer().execute_and_check(plan, options, |_, _| {})?;
    let config = StatementConfig { inner: OptimizerContext::new_with_config_options(options.clone()), state };
    state.optimizer().optimize(analyzed, &config, |_, _| {})
}

/// The plan with the types that running it gives.
pub(crate) fn optimize_types(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
}

fn physical(state: &SessionState, plan: &LogicalPlan) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    block_on(DefaultPhysicalPlanner::default().create_physical_plan(plan, state))
}

/// True if the statement itself orders its rows: an order that only happens to be there need not be kept.
fn asks_for_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => asks_for_order(&projection.input),
        LogicalPlan::Filter(filter) => asks_for_order(&filter.input),
        LogicalPlan::Limit(limit) => asks_for_order(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => asks_for_order(&alias.input),
        _ => false,
    }
}

/// The optimizer's view of one statement: `now()` is when it began.
struct StatementConfig<'a> {
    inner: OptimizerContext,
    state: &'a SessionState,
}

impl OptimizerConfig for StatementConfig<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        self.inner.query_execution_start_time()
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.inner.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        self.inner.options()
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.state)
    }
}

fn value_of(options: &ConfigOptions, name: &str) -> Option<String> {
    options.entries().into_iter().find(|entry| entry.key == name).and_then(|entry| entry.value)
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

/// Whether an INSERT puts its rows in the place of all others.
fn replaces(op: &InsertOp) -> Result<bool> {
    match op {
        InsertOp::Append => Ok(false),
        InsertOp::Overwrite => Ok(true),
        InsertOp::Replace => Err(Error::unsupported("REPLACE INTO is not supported: tables have no keys")),
    }
}

fn setting_name(name: &ast::ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

fn set_statement(set: ast::Set) -> Result<Statement> {
    let (name, values) = match set {
        ast::Set::SingleAssignment { variable, values, .. } => (setting_name(&variable), values),
        ast::Set::SetTimeZone { value, .. } => ("datafusion.execution.time_zone".to_owned(), vec![value]),
        other => {
            return Err(Error::unsupported(format!("{other} is not supported")).with_hint("write SET name = value"));
        }
    };
    let name = if name == "timezone" || name == "time.zone" { "datafusion.execution.time_zone".into() } else { name };
    let [value] = values.as_slice() else {
        return Err(Error::input(format!("expected one value for '{name}', found {}", values.len())));
    };
    let value = match value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(word) => word.value.clone(),
        other => other.to_string(),
    };
    if value.eq_ignore_ascii_case("default") {
        return Ok(Statement::Reset { name: Some(name) });
    }
    Ok(Statement::Set { name, value })
}

pub(crate) fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing outlives a failed planning but the catalog, whose locks are not held while planning.
    catch_unwind(AssertUnwindSafe(|| while_planning(body))).unwrap_or_else(|payload| Err(errors::panicked(payload)))
}

/// Waits for a future of the planner. They never wait for anything but each other, so this works on any thread, inside
/// another executor too.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
