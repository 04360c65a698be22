//! The tables that plans name.
//!
//! A plan says which rows it reads by their [identity](TableIdentity), which is a value. What is alive stands beside
//! it: whoever starts the plan says which tables they are, and they are looked up where the plan is compiled. So a plan
//! that is kept keeps no rows, and the same plan reads other rows with other tables beside it.

use std::collections::HashMap;
use std::sync::Arc;

use diligence_base::ids::{TableIdentity, TableView};
use diligence_base::{Error, Result};
use diligence_storage::Table;

/// Tables, by what plans call them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PlanTables(Arc<HashMap<TableIdentity, Arc<dyn Table>>>);

impl PlanTables {
    /// Adds a table; says what plans call it.
    pub fn add(&mut self, table: Arc<dyn Table>) -> TableIdentity {
        let identity = table.identity();
        Arc::make_mut(&mut self.0).insert(identity, table);
        identity
    }

    /// The table that a plan calls so; a fragment of one that is here is here, too. `None` if it is not.
    pub fn find(&self, identity: TableIdentity) -> Option<Arc<dyn Table>> {
        if let Some(table) = self.0.get(&identity) {
            return Some(table.clone());
        }
        let fragment = identity.view.fragment?;
        let whole = TableIdentity { view: TableView { fragment: None, ..identity.view }, ..identity };
        self.0.get(&whole)?.clone().fragment(usize::from(fragment))
    }

    /// The same. Fails with kind `Bug` if it is not here.
    pub fn get(&self, identity: TableIdentity) -> Result<Arc<dyn Table>> {
        self.find(identity).ok_or_else(|| Error::bug(format!("a plan reads the table {identity}, which is not here")))
    }

    /// What the tables are called.
    pub fn identities(&self) -> impl Iterator<Item = TableIdentity> {
        self.0.keys().copied()
    }
}

impl Extend<Arc<dyn Table>> for PlanTables {
    fn extend<T: IntoIterator<Item = Arc<dyn Table>>>(&mut self, tables: T) {
        for table in tables {
            self.add(table);
        }
    }
}

impl FromIterator<Arc<dyn Table>> for PlanTables {
    fn from_iter<T: IntoIterator<Item = Arc<dyn Table>>>(tables: T) -> Self {
        let mut all = Self::default();
        all.extend(tables);
        all
    }
}
