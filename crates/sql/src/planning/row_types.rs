//! Tables that procedures name: their rows as types, for variables, and which ones cursors stand on.

use std::sync::Arc;

use diligence_base::Result;
use diligence_catalog::{Object, Resolved};
use diligence_types::SqlType;
use sqlparser::ast::{Ident, ObjectName, SetExpr, TableFactor};

use super::Planner;
use super::around::Around;
use super::names::Names;
use crate::binder::Context;
use crate::parse;

impl Planner {
    /// The columns of the table or view of a name, as it is written; `None` if there is none. Whoever declares a
    /// variable reads no rows, so that no right is asked for. Fails with 42601 for what is no name.
    pub fn row_columns(&self, name: &str) -> Result<Option<Vec<(String, SqlType)>>> {
        let query = parse::query(&format!("SELECT 1 FROM {name}"))?;
        let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
        let [from] = select.from.as_slice() else { return Ok(None) };
        let TableFactor::Table { name, .. } = &from.relation else { return Ok(None) };
        let snapshot = self.catalogs().snapshot();
        let at = self.planning(&snapshot);
        let names = Names::new(&at);
        Around::new(self, &at, &names, vec![]).row_columns(name)
    }

    /// The table or view of a name, with what stands in front of it; `None` if it is nothing of the database. It is not
    /// asked who may do what with it.
    pub fn object_named(&self, parts: &[String]) -> Option<Arc<Object>> {
        let parts = parts.iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
        let snapshot = self.catalogs().snapshot();
        let at = self.planning(&snapshot);
        let names = Names::new(&at);
        let (relation, _) = Around::new(self, &at, &names, vec![]).relation_named(&ObjectName::from(parts))?;
        match snapshot.get(&relation) {
            Some(Resolved::Object(object)) => Some(object),
            _ => None,
        }
    }
}
