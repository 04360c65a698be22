//! What lives where a plan of bytes is to run: the tables of a snapshot, the functions of a session.

use std::sync::Arc;

use datafusion_expr::ScalarUDF;
use diligence_base::ids::TableIdentity;
use diligence_base::{Error, Result};
use diligence_catalog::{NativeTable, Relation, Resolved, SessionSnapshot};
use diligence_engine::plan::bytes::{FunctionName, Live};
use diligence_engine::plan::{Node, Plan, PlanTables};
use diligence_storage::{Table, Writer};

use super::Planner;
use crate::binder::LISTENING;
use crate::{privileges, row_locks, sequences, session_functions, sleeping, type_names};

/// The tables that a snapshot has and its session may read, and the session's functions.
///
/// Rows that have changed since a plan was written are another version: they are not found. So are views of few rows
/// that were chosen for one run.
pub struct SessionLive<'p> {
    planner: &'p Planner,
    snapshot: &'p SessionSnapshot,
}

impl Planner {
    /// What the session has alive as a snapshot sees it, for [reading](diligence_engine::plan::bytes::read) a plan.
    pub fn live<'p>(&'p self, snapshot: &'p SessionSnapshot) -> SessionLive<'p> {
        SessionLive { planner: self, snapshot }
    }
}

impl SessionLive<'_> {
    /// The tables that a plan names. Fails with 42P01 if one is not here any more, and with 42501 if the session may
    /// not read it.
    pub fn tables(&self, plan: &Plan) -> Result<PlanTables> {
        let mut tables = PlanTables::default();
        self.add_tables(plan, &mut tables)?;
        Ok(tables)
    }

    fn add_tables(&self, plan: &Plan, tables: &mut PlanTables) -> Result<()> {
        if let Node::Scan(scan) = &plan.node {
            let table = self.table(scan.table)?;
            if table.schema() != scan.table_schema {
                let message = format!("the table {} has other columns than the plan reads", scan.table);
                return Err(Error::input(message).with_code("42P01"));
            }
            tables.add(table);
        }
        plan.inputs().into_iter().try_for_each(|input| self.add_tables(input, tables))
    }

    fn table(&self, identity: TableIdentity) -> Result<Arc<dyn Table>> {
        let missing = || {
            let error = Error::input(format!("the plan reads the table {identity}, which is not here"));
            error.with_code("42P01").with_hint("its rows may have changed since the plan was made")
        };
        for object in self.snapshot.catalog.all_objects() {
            let found = match &object.relation {
                Relation::Native(table) => view(table, identity),
                Relation::Files(files) => files.table().ok().map(|table| table as Arc<dyn Table>),
                _ => None,
            };
            let Some(found) = found.filter(|found| found.identity() == identity) else { continue };
            return match self.snapshot.readable(&object.name)? {
                Some(Resolved::Object(now)) if now.id == object.id => Ok(found),
                _ => Err(missing()),
            };
        }
        Err(missing())
    }
}

impl Live for SessionLive<'_> {
    fn writer(&self, _place: usize) -> Result<Arc<dyn Writer>> {
        Err(Error::unsupported("a plan that changes a table runs only where it was made"))
    }

    fn function(&self, name: &FunctionName) -> Option<Arc<ScalarUDF>> {
        let FunctionName { name, texts, numbers, .. } = name;
        let (planner, catalogs) = (self.planner, self.planner.catalogs());
        match name.as_str() {
            "set_config" => planner.settings_sink.get().map(session_functions::set_config),
            LISTENING => planner.settings_sink.get().map(session_functions::listening_channels),
            "pg_notify" => planner.settings_sink.get().map(session_functions::pg_notify),
            session_functions::CANCEL | session_functions::TERMINATE => {
                let is_end = name == session_functions::TERMINATE;
                planner.settings_sink.get().map(|sink| session_functions::stop_session(sink, is_end))
            }
            session_functions::DEPTH => planner.settings_sink.get().map(session_functions::trigger_depth),
            type_names::NAME => type_names::function(name, self.snapshot, texts),
            _ => {
                let user = planner.current_user();
                let path = texts.get(1..).unwrap_or_default().to_vec();
                let is_own = texts.first().is_some_and(|asker| *asker == user);
                let asking = || privileges::function(name, self.snapshot, &user, path).filter(|_| is_own);
                let locking = || row_locks::named(name, numbers, self.snapshot, catalogs);
                let counting = || sequences::function(name, catalogs, texts);
                asking().or_else(counting).or_else(locking).or_else(|| sleeping::function(name))
            }
        }
    }
}

/// The view of a table that an identity stands for; `None` if it is of another table.
fn view(table: &NativeTable, identity: TableIdentity) -> Option<Arc<dyn Table>> {
    let all = table.table();
    if all.identity().table != identity.table {
        return None;
    }
    let mut view = if identity.view.is_numbered { table.numbered() } else { all };
    if identity.view.is_without_index {
        view = view.without_index()?;
    }
    match identity.view.fragment {
        Some(fragment) => view.fragment(usize::from(fragment)),
        None => Some(view),
    }
}
