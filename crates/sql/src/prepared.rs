//! Parsing, describing and planning a statement as three steps, with values for its parameters, for whoever does them
//! at different times: servers.
//!
//! A planned query says what it [`Uses`]: as long as that is current, the same text with the same values would be
//! planned to the same, so the plan can run again. For other values there are generic plans
//! ([`generic`](crate::generic)).

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use arrow::datatypes::{DataType, IntervalUnit, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, plan_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, Statement as LogicalStatement, Volatility};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{self, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use diligence_base::ids::TableVersion;
use diligence_base::{Error, Result};
use diligence_storage::Table;
use diligence_storage::foreign_error::from_datafusion;

use crate::catalog::{Catalog, FileRelation, Relation, RelationName, SessionCatalogs, View};
use crate::errors;
use crate::names::Names;
use crate::parse::{self, Parsed};
use crate::planner::{Planner, SessionParts, guarded, optimize_types};
use crate::statement::{Query, Statement};

/// Parameters of a statement at most; the wire protocol counts them in 16 bits.
pub const PARAMETERS_MAX: usize = u16::MAX as usize;

/// What a statement takes and gives.
#[derive(Clone, Debug)]
pub struct Description {
    /// The types of `$1`, `$2`, …; text where the statement does not say.
    pub parameters: Vec<DataType>,
    /// The columns that come out; `None` for a statement without rows.
    pub schema: Option<SchemaRef>,
}

/// A planned statement.
#[derive(Debug)]
pub enum Planned {
    /// A query, and what must be as it was for the plan to be used again; `None` if it may not be.
    Query(Arc<Query>, Option<Uses>),
    /// Anything else; done once.
    Other(Box<Statement>),
}

impl Planned {
    /// The columns that come out; `None` for a statement without rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        match self {
            Planned::Query(query, _) => Some(query.schema().clone()),
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Explain { .. } => Some(Statement::plan_schema()),
                _ => None,
            },
        }
    }
}

/// What a plan was made from: states of tables, and views.
#[derive(Clone, Debug, Default)]
pub struct Uses(Vec<(RelationName, State)>);

#[derive(Clone, Debug)]
enum State {
    Table(TableState),
    View(Arc<View>),
    /// A name that stands for a path as long as no relation takes it.
    Path(TableState),
}

#[derive(Clone)]
struct TableState {
    version: TableVersion,
    table: Weak<dyn Table>,
}

impl TableState {
    fn new(table: &Arc<dyn Table>) -> Self {
        Self { version: table.version(), table: Arc::downgrade(table) }
    }

    /// Whether these files are still what was opened. Equal files that were opened once more are not: what scans share
    /// goes by the opened table, and files that were just written are opened twice.
    fn is_of(&self, files: &FileRelation) -> bool {
        files.table().is_ok_and(|table| std::ptr::addr_eq(Arc::as_ptr(&table), self.table.as_ptr()))
    }
}

impl fmt::Debug for TableState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.version)
    }
}

impl Uses {
    pub(crate) fn table(&mut self, name: &RelationName, table: &Arc<dyn Table>) {
        self.0.push((name.clone(), State::Table(TableState::new(table))));
    }

    pub(crate) fn view(&mut self, name: &RelationName, view: &Arc<View>) {
        self.0.push((name.clone(), State::View(view.clone())));
    }

    pub(crate) fn path(&mut self, name: &RelationName, table: &Arc<dyn Table>) {
        self.0.push((name.clone(), State::Path(TableState::new(table))));
    }

    /// Whether everything is in the same state still, and the planner's session may read it: another one may have made
    /// the plan. Looks at the times of files, so it may block for a moment.
    pub fn are_current(&self, planner: &Planner) -> bool {
        self.0.iter().all(|(name, state)| is_current(planner.catalogs(), planner, name, state))
    }

    /// Whether a table or a view has been dropped, or become another one. What files hold is not looked at, so this
    /// never blocks.
    pub fn are_gone(&self, catalog: &Catalog) -> bool {
        self.0.iter().any(|(name, state)| match (state, catalog.get(name)) {
            (State::Path(_), _) | (State::Table(_), Some(Relation::Files(_))) => false,
            (State::Table(before), Some(Relation::Table(table))) => table.version() != before.version,
            (State::Table(before), Some(Relation::Memory(memory))) => memory.state().version() != before.version,
            (State::View(before), Some(Relation::View(view))) => !Arc::ptr_eq(before, &view),
            _ => true,
        })
    }

    /// Whether there is nothing: then the plan gives the same rows every time.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text that is another one whenever the plan's tables are in another state.
    pub fn fingerprint(&self) -> String {
        let mut parts = Vec::with_capacity(self.0.len());
        for (name, state) in &self.0 {
            parts.push(match state {
                State::Table(state) | State::Path(state) => format!("{name}@{}", state.version.0),
                State::View(view) => format!("{name}@{}", view.definition()),
            });
        }
        parts.sort();
        parts.dedup();
        parts.join(" ")
    }
}

fn is_current(catalogs: &SessionCatalogs, planner: &Planner, name: &RelationName, state: &State) -> bool {
    let Ok(relation) = catalogs.readable(name) else { return false };
    match (state, relation) {
        (State::Table(before), Some(Relation::Files(files))) => before.is_of(&files),
        (State::Table(before), Some(Relation::Table(table))) => table.version() == before.version,
        (State::Table(before), Some(Relation::Memory(memory))) => memory.state().version() == before.version,
        (State::View(before), Some(Relation::View(view))) => Arc::ptr_eq(before, &view),
        (State::Path(before), None) => before.is_of(&catalogs.catalog.path(&name.name, &planner.options().files)),
        _ => false,
    }
}

impl Planner {
    /// The syntax tree of exactly one statement.
    pub fn parse(&self, sql: &str) -> Result<Parsed> {
        let session = self.session();
        let dialect = session.state.config_options().sql_parser.dialect;
        guarded(|| parse::parse_one(sql, dialect.as_ref()))
    }

    /// What a statement takes and gives, and for one without parameters the plan that told. `given` are types that its
    /// sender declared for parameters.
    pub fn describe(&self, parsed: &Parsed, given: &[Option<DataType>]) -> Result<(Description, Option<Planned>)> {
        let count = parameter_count(parsed)?.max(given.len());
        if count == 0 {
            if acts_when_planned(parsed) {
                return Ok((Description { parameters: vec![], schema: None }, None));
            }
            let planned = self.plan_with(parsed, &[])?;
            return Ok((Description { parameters: vec![], schema: planned.schema() }, Some(planned)));
        }
        let session = self.session();
        let described = || self.described(&session, parsed, given, count);
        Ok((guarded(|| parse::with_stack(parsed.depth, described))?, None))
    }

    fn described(
        &self,
        session: &SessionParts,
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
            let inferred = self.logical(session, prepare(parsed, vec![])?, |plan, names| {
                for (index, slot) in types.iter_mut().enumerate().filter(|(_, slot)| slot.is_none()) {
                    *slot = names.is_argument(&format!("${}", index + 1)).then_some(ast::DataType::BigInt(None));
                }
                inner(plan)?.get_parameter_fields().map_err(|error| errors::planning(error, self))
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
        self.logical(session, prepare(parsed, types)?, |plan, _| {
            let LogicalPlan::Statement(LogicalStatement::Prepare(prepare)) = plan else {
                return Err(Error::bug("a prepared statement planned to something else"));
            };
            let planned = prepare.fields.iter().map(|field| field.data_type().clone()).enumerate();
            let parameters = planned.map(|(index, planned)| given(index).unwrap_or(planned)).collect();
            let schema = match Arc::unwrap_or_clone(prepare.input) {
                LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) | LogicalPlan::Copy(_) => None,
                plan => {
                    let typed = optimize_types(&session.state, plan).map_err(|error| errors::planning(error, self))?;
                    Some(typed.schema().inner().clone())
                }
            };
            Ok(Description { parameters, schema })
        })
    }

    /// Plans a statement with values for `$1`, `$2`, ….
    pub fn plan_with(&self, parsed: &Parsed, values: &[ScalarValue]) -> Result<Planned> {
        let session = self.session();
        guarded(|| {
            parse::with_stack(parsed.depth, || {
                let count = parameter_count(parsed)?;
                if count > values.len() {
                    let error =
                        Error::input(format!("the statement has {count} parameters; found {} values", values.len()));
                    return Err(error.with_code("08P01"));
                }
                if count == 0 && !is_query(parsed) {
                    return match self.statement(&session, parsed.clone())? {
                        // EXECUTE: its plan has the values of this time.
                        Statement::Query(query) => Ok(Planned::Query(Arc::new(query), None)),
                        other => Ok(Planned::Other(Box::new(other))),
                    };
                }
                let statement = if count == 0 {
                    parsed.statement.clone()
                } else {
                    let types = values.iter().map(|value| syntax_of(&value.data_type())).collect::<Result<Vec<_>>>()?;
                    prepare(parsed, types)?
                };
                self.logical_with(&session, statement, values, |plan, names| {
                    let plan = if count == 0 { plan } else { self.with_values(plan, values)? };
                    let uses = reusable(&plan, names).map_err(from_datafusion)?;
                    match self.planned(&session, plan, None)? {
                        Statement::Query(query) => Ok(Planned::Query(Arc::new(query), uses)),
                        other => Ok(Planned::Other(Box::new(other))),
                    }
                })
            })
        })
    }

    fn with_values(&self, plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
        let plan = inner(plan)?;
        if matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateView(_))) {
            return Err(Error::input("a view cannot have parameters"));
        }
        plan.replace_params_with_values(&ParamValues::from(values.to_vec()))
            .map_err(|error| errors::planning(error, self))
    }
}

/// The statement inside of a PREPARE.
pub(crate) fn inner(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(LogicalStatement::Prepare(prepare)) => Ok(Arc::unwrap_or_clone(prepare.input)),
        other => Err(Error::bug(format!("a prepared statement planned to {}", other.display()))),
    }
}

/// The statement as a PREPARE with these types: the only way to tell DataFusion's planner the types of parameters.
pub(crate) fn prepare(parsed: &Parsed, types: Vec<ast::DataType>) -> Result<ParsedStatement> {
    let ParsedStatement::Statement(statement) = &parsed.statement else {
        return Err(Error::unsupported("this statement cannot have parameters"));
    };
    let prepare =
        ast::Statement::Prepare { name: ast::Ident::new("statement"), data_types: types, statement: statement.clone() };
    Ok(ParsedStatement::Statement(Box::new(prepare)))
}

/// A type as a statement would write it.
pub(crate) fn syntax_of(data_type: &DataType) -> Result<ast::DataType> {
    let text = type_text(data_type)?;
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_data_type());
    parsed.map_err(|error| Error::bug(format!("the type {text} did not parse: {error}")))
}

fn type_text(data_type: &DataType) -> Result<String> {
    Ok(match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "TEXT".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA".into(),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        DataType::Interval(IntervalUnit::MonthDayNano | IntervalUnit::DayTime | IntervalUnit::YearMonth) => {
            "INTERVAL".into()
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::List(field) | DataType::LargeList(field) => format!("{}[]", type_text(field.data_type())?),
        other => return Err(Error::unsupported(format!("parameters of type {other} are not supported"))),
    })
}

pub(crate) fn is_query(parsed: &Parsed) -> bool {
    match &parsed.statement {
        ParsedStatement::Statement(statement) => matches!(**statement, ast::Statement::Query(_)),
        _ => false,
    }
}

/// Statements that change the session while they are planned.
fn acts_when_planned(parsed: &Parsed) -> bool {
    match &parsed.statement {
        ParsedStatement::Statement(statement) => {
            matches!(**statement, ast::Statement::Prepare { .. } | ast::Statement::Deallocate { .. })
        }
        _ => false,
    }
}

/// The largest number behind a dollar sign. A PREPARE's parameters are its own.
pub(crate) fn parameter_count(parsed: &Parsed) -> Result<usize> {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
            if let ast::Value::Placeholder(name) = &value.value
                && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
            {
                self.0 = self.0.max(number);
            }
            ControlFlow::Continue(())
        }
    }
    let ParsedStatement::Statement(statement) = &parsed.statement else { return Ok(0) };
    if matches!(**statement, ast::Statement::Prepare { .. }) {
        return Ok(0);
    }
    let mut count = Count(0);
    let _ = statement.visit(&mut count);
    if count.0 > PARAMETERS_MAX {
        return Err(Error::input(format!("a statement has at most {PARAMETERS_MAX} parameters")).with_code("54000"));
    }
    Ok(count.0)
}

/// The types that parameters are cast to at once: `$1::BIGINT`.
fn cast_types(parsed: &Parsed) -> HashMap<usize, ast::DataType> {
    struct Casts(HashMap<usize, ast::DataType>);
    impl Visitor for Casts {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Cast { expr, data_type, .. } = expr
                && let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) = expr.as_ref()
                && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
            {
                self.0.entry(number).or_insert_with(|| data_type.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut casts = Casts(HashMap::new());
    if let ParsedStatement::Statement(statement) = &parsed.statement {
        let _ = statement.visit(&mut casts);
    }
    casts.0
}

/// What the plan uses, if nothing else decides what it is: no function that depends on when or by whom it is called.
pub(crate) fn reusable(plan: &LogicalPlan, names: &Names<'_>) -> DataFusionResult<Option<Uses>> {
    let Some(uses) = names.uses() else { return Ok(None) };
    let mut fixed = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            fixed &= !expr.exists(|expr| Ok(depends(expr)))?;
            Ok(if fixed { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(fixed.then_some(uses))
}

fn depends(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility,
        Expr::ScalarVariable(..) => Volatility::Volatile,
        _ => Volatility::Immutable,
    };
    volatility != Volatility::Immutable
}

/// The value of a parameter as DataFusion's planner takes it.
pub fn value_of(array: &arrow::array::ArrayRef) -> Result<ScalarValue> {
    if array.is_empty() {
        return Err(from_datafusion(plan_datafusion_err!("a parameter without a value")));
    }
    ScalarValue::try_from_array(array, 0).map_err(from_datafusion)
}
