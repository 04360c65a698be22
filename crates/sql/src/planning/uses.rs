//! What a plan was made from, and whether that is still so.

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use diligence_base::ids::TableVersion;
use diligence_storage::Table;

use super::Planner;
use super::names::Names;
use crate::catalog::{Catalog, FileRelation, Relation, RelationName, SessionCatalogs, View};

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
    pub(super) fn table(&mut self, name: &RelationName, table: &Arc<dyn Table>) {
        self.0.push((name.clone(), State::Table(TableState::new(table))));
    }

    pub(super) fn view(&mut self, name: &RelationName, view: &Arc<View>) {
        self.0.push((name.clone(), State::View(view.clone())));
    }

    pub(super) fn path(&mut self, name: &RelationName, table: &Arc<dyn Table>) {
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

/// What the plan uses, if nothing else decides what it is: no function that depends on when or by whom it is called.
pub(super) fn reusable(plan: &LogicalPlan, names: &Names<'_>) -> DataFusionResult<Option<Uses>> {
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
