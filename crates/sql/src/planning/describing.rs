//! DESCRIBE and SHOW TABLES, in DuckDB's form: PostgreSQL has no such statements.

use diligence_base::{Error, Result};
use diligence_catalog::{Relation as CatalogRelation, Resolved};
use diligence_types::SqlType;
use sqlparser::ast::{self, ObjectName};

use super::around::Around;
use super::statements::BoundStatement;
use crate::algebra::{Constant, Relation, Scalar};
use crate::binder::{self, Bound};
use crate::parse::CopySource;

/// What SHOW TABLES shows: what users made.
const TABLES: &str = "SELECT table_name AS name FROM information_schema.tables \
     WHERE table_schema NOT IN ('information_schema', 'pg_catalog', 'system') ORDER BY table_schema, table_name";
/// What SHOW SCHEMAS shows.
const SCHEMAS: &str = "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name";

/// A column, as DESCRIBE shows it.
struct Described {
    name: String,
    sql_type: SqlType,
    nullable: bool,
    default: Option<String>,
}

impl Around<'_> {
    /// DESCRIBE of a table. Fails as selecting from it does.
    pub(super) fn describe_table(&self, name: &ObjectName) -> Result<BoundStatement> {
        let bound = binder::bind_query(&CopySource::Relation(name.clone(), Vec::new()).query()?, self)?;
        let found = self.relation_name(name).ok().and_then(|name| self.at.snapshot.get(&name));
        let defaults = match &found {
            Some(Resolved::Object(object)) => match &object.relation {
                CatalogRelation::Native(memory) => memory.rules().defaults.clone(),
                CatalogRelation::Files(files) => files.column_defaults.clone(),
                CatalogRelation::Table(_)
                | CatalogRelation::View(_)
                | CatalogRelation::Sequence(_)
                | CatalogRelation::Routine(_)
                | CatalogRelation::Enum(_)
                | CatalogRelation::Composite(_)
                | CatalogRelation::Domain(_)
                | CatalogRelation::Collation(_) => Default::default(),
            },
            Some(Resolved::Computed(_)) | None => Default::default(),
        };
        let columns = bound.columns.into_iter().map(|column| Described {
            default: defaults.get(&column.name).map(ToString::to_string),
            name: column.name,
            sql_type: column.sql_type,
            nullable: column.nullable,
        });
        Ok(self.description(columns.collect()))
    }

    /// DESCRIBE of a query.
    pub(super) fn describe_query(&self, statement: &ast::Statement) -> Result<BoundStatement> {
        let ast::Statement::Query(query) = statement else {
            return Err(Error::input("DESCRIBE takes a table or a query").with_code("42601"));
        };
        let columns = binder::bind_query(query, self)?.columns.into_iter().map(|column| Described {
            name: column.name,
            sql_type: column.sql_type,
            nullable: true,
            default: None,
        });
        Ok(self.description(columns.collect()))
    }

    /// SHOW TABLES.
    pub(super) fn show_tables(&self) -> Result<BoundStatement> {
        binder::bind_query(&crate::parse::query(TABLES)?, self).map(BoundStatement::Query)
    }

    /// SHOW SCHEMAS.
    pub(super) fn show_schemas(&self) -> Result<BoundStatement> {
        binder::bind_query(&crate::parse::query(SCHEMAS)?, self).map(BoundStatement::Query)
    }

    fn description(&self, columns: Vec<Described>) -> BoundStatement {
        let text =
            |text: Option<String>| Scalar::Constant(text.map_or_else(|| Constant::null(SqlType::Text), Constant::text));
        let row = |column: Described| {
            let null = if column.nullable { "YES" } else { "NO" };
            vec![
                text(Some(column.name)),
                text(Some(column.sql_type.to_string())),
                text(Some(null.to_owned())),
                text(None),
                text(column.default),
                text(None),
            ]
        };
        let rows = columns.into_iter().map(row).collect();
        let names = ["column_name", "column_type", "null", "key", "default", "extra"];
        let columns = names.map(|name| self.numbers.named(name, SqlType::Text, true)).to_vec();
        let relation = Relation::Values { columns: columns.clone(), rows };
        BoundStatement::Query(Bound { relation, columns, parameters: vec![], is_transient: true })
    }
}
