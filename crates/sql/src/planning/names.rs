//! What names mean inside one statement.
//!
//! Invariants:
//! * A statement sees one snapshot of the catalog, and files in one state, however often it names them.
//! * What the session may not read is not found, by whatever way a statement comes to its name: its own text, a view's,
//!   a prepared statement's.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{SchemaProvider, TableFunctionArgs, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference, plan_datafusion_err};
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use diligence_base::Error;
use diligence_catalog::{
    CATALOG_NAME, DEFAULT_SCHEMA, INFORMATION_SCHEMA, Object, Relation, RelationName, Resolved, Uses, View,
    looks_like_path,
};
use diligence_storage::Table;
use diligence_storage::foreign_error::to_datafusion;
use diligence_storage::memory::MemoryTable;

use super::optimize::block_on;
use super::{Planner, Planning};
use crate::errors::UnknownRelation;
use crate::information::borrowed::{SnapshotProvider, views};
use crate::parse::{NESTING_MAX, Parsed, with_stack};
use crate::privileges;
use crate::tables::StoredTable;

/// Levels of nesting that a view adds to those of its statement: the statement's clauses become nested plans.
const VIEW_LEVELS: usize = 32;

/// The names that one statement can use.
pub(super) struct Names<'a> {
    planner: &'a Planner,
    at: &'a Planning<'a>,
    resolved: RefCell<HashMap<RelationName, Arc<dyn TableSource>>>,
    /// What was found so far, if a plan of it may be used again.
    uses: RefCell<Option<Uses>>,
    /// Levels of the views around what is being resolved.
    view_levels: Cell<usize>,
    /// The most that they have been.
    view_levels_max: Cell<usize>,
    /// The values of `$1`, `$2`, … where they are known.
    values: &'a [ScalarValue],
    /// The parameters of unknown type that a table function was given.
    untyped: RefCell<BTreeSet<String>>,
    /// Whether a table function was given a parameter whose value is not known.
    guessed: Cell<bool>,
}

impl<'a> Names<'a> {
    pub(super) fn new(planner: &'a Planner, at: &'a Planning<'a>) -> Self {
        Self {
            planner,
            at,
            resolved: RefCell::default(),
            uses: RefCell::new(Some(Uses::new(at.identity()))),
            view_levels: Cell::new(0),
            view_levels_max: Cell::new(0),
            values: &[],
            untyped: RefCell::default(),
            guessed: Cell::new(false),
        }
    }

    /// With the values of `$1`, `$2`, …: table functions need them, since they are asked for their table while a
    /// statement is planned.
    pub(super) fn with_values(mut self, values: &'a [ScalarValue]) -> Self {
        self.values = values;
        self
    }

    /// Whether a table function was given a parameter without a value: then the plan tells types, but must not be run.
    pub(super) fn has_guessed(&self) -> bool {
        self.guessed.get()
    }

    /// Whether a parameter (`$1`) of unknown type was given to a table function.
    pub(super) fn is_argument(&self, parameter: &str) -> bool {
        self.untyped.borrow().contains(parameter)
    }

    /// An argument of a table function with values for its parameters: their own, or NULL where they are not known yet.
    fn with_parameters(&self, argument: Expr) -> Result<Expr> {
        let filled = argument.transform(|expr| {
            let Expr::Placeholder(Placeholder { id, field }) = &expr else { return Ok(Transformed::no(expr)) };
            let index = id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
            let value = match index.and_then(|index| self.values.get(index)) {
                Some(value) => integer(value.clone()),
                None => {
                    self.guessed.set(true);
                    match field {
                        Some(field) => integer(ScalarValue::try_new_null(field.data_type())?),
                        None => {
                            self.untyped.borrow_mut().insert(id.clone());
                            ScalarValue::Null
                        }
                    }
                }
            };
            Ok(Transformed::yes(Expr::Literal(value, None)))
        });
        Ok(filled?.data)
    }

    /// How deep the views met so far nest, in levels of a statement ([`NESTING_MAX`]).
    pub(super) fn view_levels_max(&self) -> usize {
        self.view_levels_max.get()
    }

    /// Whether a relation was named so far, in the statement or in its views.
    pub(super) fn has_resolved(&self, name: &TableReference) -> bool {
        relation_name(name.clone()).is_ok_and(|name| self.resolved.borrow().contains_key(&name))
    }

    /// What the names so far stand for; `None` if some of it is made anew for each statement.
    pub(super) fn uses(&self) -> Option<Uses> {
        self.uses.borrow().clone()
    }

    fn used(&self, use_it: impl FnOnce(&mut Uses)) {
        if let Some(uses) = self.uses.borrow_mut().as_mut() {
            use_it(uses);
        }
    }

    /// A plan of the statement is for this one time.
    pub(super) fn not_reusable(&self) {
        *self.uses.borrow_mut() = None;
    }

    /// The name stands for an object that is read as it is defined.
    pub(super) fn uses_object(&self, name: &RelationName, object: &Object) {
        self.used(|uses| uses.object(name, object, None));
    }

    /// The name stands for an object whose rows are in this table.
    pub(super) fn uses_table(&self, name: &RelationName, object: &Object, table: &Arc<dyn Table>) {
        let files = matches!(object.relation, Relation::Files(_)).then_some(table);
        self.used(|uses| uses.object(name, object, files));
    }

    /// The name stands for the path of these files.
    pub(super) fn uses_path(&self, name: &RelationName, table: &Arc<dyn Table>) {
        self.used(|uses| uses.path(name, table));
    }

    /// The name stands for nothing.
    pub(super) fn uses_nothing(&self, name: &RelationName) {
        self.used(|uses| uses.nothing(name));
    }

    pub(super) fn provider(&self, name: &RelationName, bare: bool) -> Result<Arc<dyn TableProvider>> {
        if name.schema == INFORMATION_SCHEMA {
            self.not_reusable();
            let provider = Arc::new(SnapshotProvider(self.at.snapshot.clone()));
            let schema = InformationSchemaProvider::new(provider)
                .with_table_functions(self.at.session.state.table_functions().clone());
            let known = match name.name.as_str() {
                "columns" if self.at.snapshot.has_postgres_tables() => {
                    let Parsed { statement, depth, .. } = self.planner.parse(views::COLUMNS).map_err(to_datafusion)?;
                    let Statement::Statement(statement) = statement else {
                        return Err(to_datafusion(Error::bug("a view of information_schema is no CREATE VIEW")));
                    };
                    let source = Arc::new(*statement);
                    return self.of_view(name, &View { source, depth, schema: Arc::new(Schema::empty()) });
                }
                views::COLUMNS_ALONE => "columns",
                other => other,
            };
            let table = match block_on(schema.table(known))? {
                None => views::view(&name.name)?,
                table => table,
            };
            return table.ok_or_else(|| unknown(name, None));
        }
        match self.at.snapshot.readable(name).map_err(to_datafusion)? {
            Some(Resolved::Object(object)) => self.of_object(name, &object),
            Some(Resolved::Computed(computed)) => {
                self.not_reusable();
                let rows = computed.rows(self.at.snapshot).map_err(to_datafusion)?;
                let version = self.planner.catalogs().catalog.next_table_version();
                let table = MemoryTable::new(name.to_string(), rows.schema(), vec![rows], version);
                let table: Arc<dyn Table> = Arc::new(table.map_err(to_datafusion)?);
                Ok(Arc::new(StoredTable::new(name.to_string(), table)))
            }
            None if bare && self.at.options.paths_are_tables && looks_like_path(&name.name) => {
                let files = self.planner.catalogs().catalog.path(&name.name, &self.at.options.files);
                let table: Arc<dyn Table> = files.table().map_err(to_datafusion)?;
                self.used(|uses| uses.path(name, &table));
                Ok(Arc::new(StoredTable::new(&name.name, table).temporary()))
            }
            None => {
                // A statement may do without it: a common table expression has the name.
                self.used(|uses| uses.nothing(name));
                let known = self.at.snapshot.schema_oid(&name.schema).is_some();
                Err(unknown(name, (!known).then(|| name.schema.clone())))
            }
        }
    }

    fn of_object(&self, name: &RelationName, object: &Object) -> Result<Arc<dyn TableProvider>> {
        let used = |files: Option<&Arc<dyn Table>>| self.used(|uses| uses.object(name, object, files));
        Ok(match &object.relation {
            Relation::Files(files) => {
                let stored = StoredTable::of_files(name.to_string(), files.clone()).map_err(to_datafusion)?;
                used(Some(stored.table()));
                Arc::new(stored.with_defaults(self.defaults(&files.column_defaults)?))
            }
            Relation::Table(table) => {
                used(None);
                Arc::new(StoredTable::new(name.to_string(), table.clone()))
            }
            Relation::Memory(memory) => {
                used(None);
                {
                    let stored = StoredTable::of_memory(name.to_string(), object.reference(), memory.clone());
                    Arc::new(stored.with_defaults(self.defaults(memory.column_defaults())?))
                }
            }
            Relation::View(view) => {
                used(None);
                return self.of_view(name, view);
            }
        })
    }

    /// Defaults as DataFusion has them.
    fn defaults(&self, defaults: &HashMap<String, Arc<ast::Expr>>) -> Result<HashMap<String, Expr>> {
        if defaults.is_empty() {
            return Ok(HashMap::new());
        }
        let planner = SqlToRel::new(self);
        let empty = DFSchema::empty();
        let default = |(name, default): (&String, &Arc<ast::Expr>)| {
            let mut context = PlannerContext::new();
            Ok((name.clone(), planner.sql_to_expr(default.as_ref().clone(), &empty, &mut context)?))
        };
        defaults.iter().map(default).collect()
    }

    fn of_view(&self, name: &RelationName, view: &View) -> Result<Arc<dyn TableProvider>> {
        let around = self.view_levels.get();
        let levels = around + view.depth + VIEW_LEVELS;
        if levels > NESTING_MAX {
            let error = Error::input(format!("the views in the view '{name}' nest too deep"));
            return Err(to_datafusion(error.with_hint("make a table of one of them: CREATE TABLE … AS SELECT …")));
        }
        self.view_levels.set(levels);
        self.view_levels_max.set(self.view_levels_max.get().max(levels));
        let plan = with_stack(view.depth + VIEW_LEVELS, || self.planner.view_plan(self.at, self, view));
        self.view_levels.set(around);
        let plan = plan.map_err(|error| error.context(format!("in the view '{name}'")))?;
        Ok(Arc::new(ViewTable::new(plan, Some(view.definition()))))
    }
}

/// A statement's reference to a relation, with the catalog and schema that it leaves out.
pub(super) fn relation_name(name: TableReference) -> Result<RelationName> {
    let resolved = name.resolve(CATALOG_NAME, DEFAULT_SCHEMA);
    if resolved.catalog.as_ref() != CATALOG_NAME {
        let name = RelationName::new(resolved.schema.as_ref(), resolved.table.as_ref());
        return Err(DataFusionError::External(Box::new(UnknownRelation {
            name: format!("{}.{name}", resolved.catalog),
            schema: Some(format!("{}.{}", resolved.catalog, resolved.schema)),
        })));
    }
    Ok(RelationName::new(resolved.schema.as_ref(), resolved.table.as_ref()))
}

fn unknown(name: &RelationName, schema: Option<String>) -> DataFusionError {
    DataFusionError::External(Box::new(UnknownRelation { name: name.to_string(), schema }))
}

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let bare = matches!(name, TableReference::Bare { .. });
        let name = relation_name(name)?;
        if let Some(source) = self.resolved.borrow().get(&name) {
            return Ok(source.clone());
        }
        let source = provider_as_source(self.provider(&name, bare)?);
        self.resolved.borrow_mut().insert(name, source.clone());
        Ok(source)
    }

    fn get_file_type(&self, extension: &str) -> Result<Arc<dyn FileType>> {
        let format = self.at.session.state.get_file_format_factory(extension).ok_or_else(|| {
            let error = Error::input(format!("no file format is named '{extension}'"));
            to_datafusion(error.with_hint("the formats are PARQUET, CSV, JSON and ARROW"))
        })?;
        Ok(format_as_file_type(format))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let Some(function) = self.at.session.state.table_functions().get(name) else {
            // In FROM a function of one value is a table of one row.
            let function = self.get_function_meta(name);
            let function = function.ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
            self.not_reusable();
            let args = args.into_iter().map(|arg| self.with_parameters(arg)).collect::<Result<Vec<_>>>()?;
            let one = LogicalPlanBuilder::empty(true).project([function.call(args).alias(name)])?.build()?;
            return Ok(provider_as_source(Arc::new(ViewTable::new(one, None))));
        };
        let context =
            SimplifyContext::builder().with_config_options(self.at.session.state.config_options().clone()).build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args.into_iter().map(|arg| {
            let arg = self.with_parameters(arg)?;
            match simplifier.simplify(simplifier.coerce(arg, &schema)?)? {
                Expr::Literal(value, metadata) => Ok(Expr::Literal(integer(value), metadata)),
                other => Ok(other),
            }
        });
        let args = args.collect::<Result<Vec<_>>>()?;
        self.not_reusable();
        let provider =
            function.create_table_provider_with_args(TableFunctionArgs::new(&args, &self.at.session.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.at.session.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.at.session.state.relation_planners()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if let Some(function) = privileges::function(name, self.at.snapshot, &self.at.facts.user) {
            return Some(function);
        }
        self.at.session.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.at.session.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.at.session.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.at.session.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.at.session.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        let known = self.at.session.state.scalar_functions().keys().cloned();
        known.chain(privileges::NAMES.iter().map(|(name, _)| (*name).to_owned())).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.at.session.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.at.session.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.at.session.state.window_functions().keys().cloned().collect()
    }
}

/// Integers of all widths, and unknown ones, as table functions take them; everything else as it is.
fn integer(value: ScalarValue) -> ScalarValue {
    match value.data_type() {
        known if known.is_integer() && value.is_null() => ScalarValue::Null,
        known if known.is_integer() => value.cast_to(&DataType::Int64).unwrap_or(value),
        _ => value,
    }
}
