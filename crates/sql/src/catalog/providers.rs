//! The catalog as DataFusion's `information_schema` sees it.
//!
//! Statements themselves are planned without this: see `planning`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::rights::Rights;

use super::{
    CATALOG_NAME, Catalog, ComputedTable, DEFAULT_SCHEMA, POSTGRES_SCHEMA, Relation, RelationName, SYSTEM_SCHEMA,
};

/// A database's catalog with the system tables of one session.
#[derive(Clone)]
pub struct SessionCatalogs {
    /// What all sessions share.
    pub catalog: Arc<Catalog>,
    /// `system.*` for this session.
    pub system: Arc<BTreeMap<String, Arc<dyn ComputedTable>>>,
    /// `pg_catalog.*`: the catalog as PostgreSQL's clients look at it. Found without the schema's name, too.
    pub postgres: Arc<BTreeMap<String, Arc<dyn ComputedTable>>>,
    /// What the session may do with them.
    pub rights: Arc<Rights>,
}

impl SessionCatalogs {
    /// What a name stands for now, system tables included. A name without capitals finds one with capitals, if only one
    /// differs by nothing else: files are often named `Sales.csv`, and `FROM Sales` is read as `sales`.
    pub fn get(&self, name: &RelationName) -> Option<Relation> {
        if name.schema == SYSTEM_SCHEMA {
            return self.system.get(&name.name).cloned().map(Relation::Computed);
        }
        if name.schema == POSTGRES_SCHEMA {
            return self.postgres.get(&name.name).cloned().map(Relation::Computed);
        }
        if let Some(relation) = self.catalog.get(name) {
            return Some(relation);
        }
        let mut alike =
            self.catalog.names_in(&name.schema).into_iter().filter(|known| known.to_lowercase() == name.name);
        match (alike.next(), alike.next()) {
            (Some(only), None) => self.catalog.get(&RelationName::new(&name.schema, only)),
            _ if name.schema == DEFAULT_SCHEMA => self.postgres.get(&name.name).cloned().map(Relation::Computed),
            _ => None,
        }
    }

    /// As [`get`](Self::get), for whoever reads the relation. Fails with `42501` if the session may not.
    pub fn readable(&self, name: &RelationName) -> diligence_base::Result<Option<Relation>> {
        let relation = self.get(name);
        // What describes the catalog is found under the default schema, too.
        let describes = matches!(relation, Some(Relation::Computed(_))) && name.schema != SYSTEM_SCHEMA;
        if relation.is_some() && !describes {
            self.rights.check_read(name)?;
        }
        Ok(relation)
    }

    /// The name of every relation that the session may read, system tables included.
    pub fn names(&self) -> Vec<RelationName> {
        let mut names = self.catalog.relations().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        names.extend(self.system.keys().map(|name| RelationName::new(SYSTEM_SCHEMA, name)));
        names.retain(|name| self.rights.may_read(name));
        names
    }
}

impl fmt::Debug for SessionCatalogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionCatalogs({} relations)", self.names().len())
    }
}

impl CatalogProviderList for SessionCatalogs {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG_NAME.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG_NAME).then(|| Arc::new(self.clone()) as _)
    }
}

impl CatalogProvider for SessionCatalogs {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.catalog.schema_names();
        names.push(SYSTEM_SCHEMA.into());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let known = name == SYSTEM_SCHEMA || self.catalog.has_schema(name);
        known.then(|| Arc::new(OneSchema { catalogs: self.clone(), schema: name.to_owned() }) as _)
    }
}

#[derive(Debug)]
struct OneSchema {
    catalogs: SessionCatalogs,
    schema: String,
}

#[async_trait]
impl SchemaProvider for OneSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = match self.schema == SYSTEM_SCHEMA {
            true => self.catalogs.system.keys().cloned().collect(),
            false => self.catalogs.catalog.names_in(&self.schema),
        };
        names.retain(|name| self.catalogs.rights.may_read(&RelationName::new(&self.schema, name)));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Ok(Some(relation)) = self.catalogs.readable(&RelationName::new(&self.schema, name)) else {
            return Ok(None);
        };
        // Files that cannot be opened are there, without columns to describe; whoever selects from them learns why.
        let schema = relation.schema().unwrap_or_else(|_| Arc::new(Schema::empty()));
        Ok(Some(Arc::new(Description::new(relation, schema))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalogs.readable(&RelationName::new(&self.schema, name)).is_ok_and(|relation| relation.is_some())
    }
}

/// A relation that can be described but not scanned.
#[derive(Debug)]
struct Description {
    relation: Relation,
    schema: SchemaRef,
    definition: Option<String>,
}

impl Description {
    fn new(relation: Relation, schema: SchemaRef) -> Self {
        let definition = match &relation {
            Relation::View(view) => Some(view.definition()),
            Relation::Files(files) => files.definition.clone(),
            Relation::Table(_) | Relation::Memory(_) | Relation::Computed(_) => None,
        };
        Self { relation, schema, definition }
    }
}

#[async_trait]
impl TableProvider for Description {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        match self.relation {
            Relation::View(_) | Relation::Computed(_) => TableType::View,
            Relation::Files(_) | Relation::Table(_) | Relation::Memory(_) => TableType::Base,
        }
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("a relation that information_schema describes was scanned")
    }
}
