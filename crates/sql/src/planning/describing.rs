//! DESCRIBE and SHOW TABLES, in DuckDB's form: PostgreSQL has no such statements.

use diligence_base::{Error, Result};
use diligence_catalog::rules::{Key, KeyKind};
use diligence_catalog::{Relation as CatalogRelation, Resolved, no_schema};
use diligence_types::SqlType;
use sqlparser::ast::ShowStatementFilter::Like;
use sqlparser::ast::ShowStatementFilterPosition::{Infix, Suffix};
use sqlparser::ast::{self, ObjectName};

use super::around::Around;
use super::bound::BoundStatement;
use crate::algebra::{Constant, Relation, Scalar};
use crate::binder::{self, Bound};
use crate::parse::{CopySource, parts_of};
use crate::quoting::{literal, quoted};

/// What SHOW TABLES shows without a schema: what users made.
const OF_USERS: &str = "table_schema NOT IN ('information_schema', 'pg_catalog', 'system')";
/// What SHOW SCHEMAS shows.
const SCHEMAS: &str = "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name ASC";

fn unknown_clause() -> Error {
    Error::unsupported("SHOW TABLES takes FROM with a schema or a server, and LIKE").with_code("0A000")
}

/// A column, as DESCRIBE shows it.
struct Described {
    name: String,
    sql_type: SqlType,
    nullable: bool,
    /// `PRI` of a primary key's columns, `UNI` of other keys'.
    key: Option<&'static str>,
    default: Option<String>,
}

impl Around<'_> {
    /// The table that SHOW of a name means, which is no setting.
    pub(super) fn shown_table(&self, words: &[ast::Ident]) -> Option<ObjectName> {
        let [word] = words else { return None };
        let is_setting = self.planner.settings().iter().any(|setting| word.value.eq_ignore_ascii_case(setting.name));
        let name = ObjectName::from(vec![word.clone()]);
        let found = self.relation_name(&name).ok().and_then(|name| self.at.snapshot.get(&name));
        let is_table = matches!(found, Some(Resolved::Object(_)));
        (is_table && !is_setting).then_some(name)
    }

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
        let (keys, is_view) = match &found {
            Some(Resolved::Object(object)) => match &object.relation {
                CatalogRelation::Native(memory) => (memory.rules().keys.clone(), false),
                other => (vec![], matches!(other, CatalogRelation::View(_))),
            },
            _ => (vec![], false),
        };
        let is_unique = |key: &&Key| key.kind.is_constraint() && key.kind.is_unique();
        let key_of = |name: &String| {
            let mut own = keys.iter().filter(|key| is_unique(key) && key.columns.contains(name));
            let is_primary = own.clone().any(|key| key.kind == KeyKind::Primary);
            if is_primary { Some("PRI") } else { own.next().map(|_| "UNI") }
        };
        let columns = bound.columns.into_iter().map(|column| Described {
            default: defaults.get(&column.name).map(ToString::to_string),
            key: key_of(&column.name),
            name: column.name,
            sql_type: column.sql_type,
            nullable: column.nullable || is_view,
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
            key: None,
            default: None,
        });
        Ok(self.description(columns.collect()))
    }

    /// SHOW TABLES, also FROM a schema, an attached server or a schema of one, with LIKE. Fails with 3F000 if there is
    /// no such schema, with 0A000 for other clauses.
    pub(super) fn show_tables(&self, options: &ast::ShowStatementOptions) -> Result<BoundStatement> {
        let ast::ShowStatementOptions { show_in, starts_with, limit, limit_from, filter_position } = options;
        let (tables, mut condition) = match show_in.as_ref().and_then(|place| place.parent_name.as_ref()) {
            None => ("information_schema.tables".to_owned(), OF_USERS.to_owned()),
            Some(name) => self.tables_in(name)?,
        };
        match filter_position {
            None => {}
            Some(Infix(Like(pattern)) | Suffix(Like(pattern))) => {
                condition += &format!(" AND table_name LIKE {}", literal(pattern));
            }
            Some(_) => return Err(unknown_clause()),
        }
        if starts_with.is_some() || limit.is_some() || limit_from.is_some() {
            return Err(unknown_clause());
        }
        let query = format!(
            "SELECT table_name::text AS name FROM {tables} WHERE {condition} ORDER BY table_schema ASC, table_name ASC"
        );
        binder::bind_query(&crate::parse::query(&query)?, self).map(BoundStatement::Query)
    }

    /// Where the tables of a schema are listed, and the condition for them.
    fn tables_in(&self, name: &ObjectName) -> Result<(String, String)> {
        let parts = parts_of(name).unwrap_or_default();
        let of_schema = |schema: &str| format!("table_schema = {}", literal(schema));
        let there = |server: &str| format!("{}.information_schema.tables", quoted(server));
        match parts.as_slice() {
            [own] if self.at.snapshot.schema_oid(own).is_some() => {
                Ok(("information_schema.tables".to_owned(), of_schema(own)))
            }
            [server] if let Some((known, _)) = self.server(server) => Ok((there(server), of_schema(known.schema()))),
            [server, schema] if self.server(server).is_some() => Ok((there(server), of_schema(schema))),
            _ => Err(no_schema(&parts.join("."))),
        }
    }

    /// CALL of a function that gives rows: all of them. Fails as selecting from it does.
    pub(super) fn rows_of_call(&self, call: &ast::Function) -> Result<BoundStatement> {
        let query = crate::parse::query(&format!("SELECT * FROM {call}"))?;
        binder::bind_query(&query, self).map(BoundStatement::Query)
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
                text(column.key.map(str::to_owned)),
                text(column.default),
                text(None),
            ]
        };
        let rows = columns.into_iter().map(row).collect();
        let names = ["column_name", "column_type", "null", "key", "default", "extra"];
        let columns = names.map(|name| self.numbers.named(name, SqlType::Text, true)).to_vec();
        let relation = Relation::Values { columns: columns.clone(), rows };
        let (parameters, computed, objects) = (vec![], vec![], vec![]);
        BoundStatement::Query(Bound { computed, objects, ..Bound::new(relation, columns, parameters, true) })
    }
}
