//! The catalog as DataFusion's `information_schema` sees it.
//!
//! Statements themselves are planned without this: see `planning`.

pub(crate) mod views;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use diligence_catalog::{CATALOG_NAME, Relation, RelationName, Resolved, SYSTEM_SCHEMA, SessionSnapshot};

/// What a session sees, as a list of one catalog.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotProvider(pub SessionSnapshot);

impl CatalogProviderList for SnapshotProvider {
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

impl CatalogProvider for SnapshotProvider {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.0.catalog.schema_names().map(str::to_owned).collect::<Vec<_>>();
        names.push(SYSTEM_SCHEMA.into());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let known = name == SYSTEM_SCHEMA || self.0.catalog.has_schema(name);
        known.then(|| Arc::new(OneSchema { snapshot: self.0.clone(), schema: name.to_owned() }) as _)
    }
}

#[derive(Debug)]
struct OneSchema {
    snapshot: SessionSnapshot,
    schema: String,
}

#[async_trait]
impl SchemaProvider for OneSchema {
    fn table_names(&self) -> Vec<String> {
        self.snapshot.names_in(&self.schema)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Ok(Some(relation)) = self.snapshot.readable(&RelationName::new(&self.schema, name)) else {
            return Ok(None);
        };
        // Files that cannot be opened are there, without columns to describe; whoever selects from them learns why.
        let schema = relation.schema().unwrap_or_else(|_| Arc::new(Schema::empty()));
        Ok(Some(Arc::new(Description::new(&relation, schema))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.snapshot.readable(&RelationName::new(&self.schema, name)).is_ok_and(|relation| relation.is_some())
    }
}

/// A relation that can be described but not scanned.
#[derive(Debug)]
struct Description {
    is_view: bool,
    schema: SchemaRef,
    definition: Option<String>,
}

impl Description {
    fn new(relation: &Resolved, schema: SchemaRef) -> Self {
        let definition = match relation {
            Resolved::Object(object) => match &object.relation {
                Relation::View(view) => Some(view.definition()),
                Relation::Files(files) => files.definition.clone(),
                Relation::Table(_) | Relation::Memory(_) => None,
            },
            Resolved::Computed(_) => None,
        };
        Self { is_view: relation.is_view(), schema, definition }
    }
}

#[async_trait]
impl TableProvider for Description {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        if self.is_view { TableType::View } else { TableType::Base }
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
