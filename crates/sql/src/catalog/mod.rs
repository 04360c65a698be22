//! The relations of a database by name: tables, views, and tables computed on demand.
//!
//! A [`Catalog`] is shared by all sessions of a database. Not here: what a name means inside one statement (common
//! table expressions, aliases), and how text becomes a name.
//!
//! Invariants:
//! * A statement resolves every name once; what it found stays as it was until the statement ends, whatever others
//!   change.
//! * Two states of a table never have the same version.

mod files;
pub(crate) mod information;
mod memory;
pub mod paths;
mod providers;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::ids::TableVersion;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_storage::Table;
use diligence_storage::external::OpenOptions;
use parking_lot::{Mutex, RwLock};

pub use files::FileRelation;
pub use memory::MemoryRelation;
pub use providers::SessionCatalogs;
pub use view::View;

/// The name of the only database in a catalog.
pub const CATALOG_NAME: &str = "diligence";
/// Where names without a schema are looked up.
pub const DEFAULT_SCHEMA: &str = "public";
/// Where the engine shows itself.
pub const SYSTEM_SCHEMA: &str = "system";
/// The catalog as PostgreSQL describes it.
pub const POSTGRES_SCHEMA: &str = "pg_catalog";
/// DataFusion's description of the catalog.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// The schemas in which the engine shows itself.
const SHOWN_SCHEMAS: [&str; 3] = [SYSTEM_SCHEMA, POSTGRES_SCHEMA, INFORMATION_SCHEMA];

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    /// Foreign files.
    Files(Arc<FileRelation>),
    /// A table in one state.
    Table(Arc<dyn Table>),
    /// A table in memory that statements change.
    Memory(Arc<MemoryRelation>),
    /// A query with a name.
    View(Arc<View>),
    /// Rows that are computed when a statement asks for them.
    Computed(Arc<dyn ComputedTable>),
}

/// A table whose rows are computed when a statement asks for them.
pub trait ComputedTable: Send + Sync + fmt::Debug {
    /// Its columns.
    fn schema(&self) -> SchemaRef;
    /// Its rows now. Called once per statement that names the table.
    fn rows(&self) -> Result<RecordBatch>;
}

impl Relation {
    /// What it is, in messages and listings.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Files(_) => "external table",
            Relation::Table(_) => "table",
            Relation::Memory(_) => "table",
            Relation::View(_) => "view",
            Relation::Computed(_) => "system table",
        }
    }

    /// What it is, with its article.
    pub fn a_kind(&self) -> String {
        let kind = self.kind();
        let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{article} {kind}")
    }

    /// Its columns. Files may have to be opened to know.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(match self {
            Relation::Files(files) => files.table()?.schema(),
            Relation::Table(table) => table.schema(),
            Relation::Memory(memory) => memory.schema().clone(),
            Relation::View(view) => view.schema.clone(),
            Relation::Computed(computed) => computed.schema(),
        })
    }
}

/// A relation's full name within its catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationName {
    /// The schema.
    pub schema: String,
    /// The name in the schema.
    pub name: String,
}

impl RelationName {
    /// A name in a schema.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }
}

impl fmt::Display for RelationName {
    /// Without the default schema, as a user would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema != DEFAULT_SCHEMA {
            write!(f, "{}.", self.schema)?;
        }
        f.write_str(&self.name)
    }
}

/// The relations of a database. Cheap to ask from many threads.
#[derive(Debug)]
pub struct Catalog {
    schemas: RwLock<BTreeMap<String, BTreeMap<String, Relation>>>,
    /// Files that statements named by their path, so that the next one need not open them again.
    paths: Mutex<HashMap<String, Arc<FileRelation>>>,
    versions: AtomicU64,
    changes: AtomicU64,
    /// Folders that look like tables and are none, with the reason.
    left_out: RwLock<BTreeMap<String, String>>,
}

/// Paths remembered at most; then all are forgotten, which costs opening them again.
const PATHS_MAX: usize = 1000;

impl Default for Catalog {
    fn default() -> Self {
        let schemas = BTreeMap::from([(DEFAULT_SCHEMA.to_owned(), BTreeMap::new())]);
        Self {
            schemas: RwLock::new(schemas),
            paths: Mutex::default(),
            versions: AtomicU64::new(1),
            changes: AtomicU64::new(0),
            left_out: RwLock::default(),
        }
    }
}

impl Catalog {
    /// A version that no table has had yet.
    pub fn next_version(&self) -> TableVersion {
        TableVersion(self.versions.fetch_add(1, Ordering::Relaxed))
    }

    /// How often a name was given or taken away, or a table in memory became another: whoever keeps what he found here
    /// looks whether that is still the same.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Something has changed.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The files at a path that a statement names.
    pub fn path(&self, path: &str, files: &Arc<dyn Disk>) -> Arc<FileRelation> {
        let mut paths = self.paths.lock();
        if paths.len() >= PATHS_MAX {
            paths.clear();
        }
        let relation = || Arc::new(FileRelation::new(path, OpenOptions::default(), files.clone()));
        paths.entry(path.to_owned()).or_insert_with(relation).clone()
    }

    /// Remembers what somebody may look for in vain, and why.
    pub fn leave_out(&self, names: impl IntoIterator<Item = (String, String)>) {
        self.left_out.write().extend(names);
    }

    /// What was left out, and why.
    pub fn left_out(&self) -> Vec<(String, String)> {
        self.left_out.read().iter().map(|(name, why)| (name.clone(), why.clone())).collect()
    }

    /// What the name stands for now.
    pub fn get(&self, name: &RelationName) -> Option<Relation> {
        self.schemas.read().get(&name.schema)?.get(&name.name).cloned()
    }

    /// Gives a relation a name. Fails if the schema is unknown, or the name is taken and may not be replaced.
    pub fn create(&self, name: &RelationName, relation: Relation, or_replace: bool) -> Result<()> {
        may_change(&name.schema, &format!("'{name}' cannot be made"))?;
        let mut schemas = self.schemas.write();
        let Some(schema) = schemas.get_mut(&name.schema) else { return Err(no_schema(&name.schema)) };
        if let Some(existing) = schema.get(&name.name) {
            if !or_replace {
                return Err(Error::input(format!("{} named '{name}' exists already", existing.a_kind()))
                    .with_hint("drop it first, or write CREATE OR REPLACE"));
            }
            // Replacing a view by a table is more often a slip than a wish.
            if matches!(existing, Relation::View(_)) != matches!(relation, Relation::View(_)) {
                let (is, is_not) = (existing.a_kind(), relation.a_kind());
                return Err(Error::input(format!("'{name}' is {is}, not {is_not}"))
                    .with_code("42809")
                    .with_hint(format!("drop the {} first", existing.kind())));
            }
        }
        schema.insert(name.name.clone(), relation);
        self.note_change();
        Ok(())
    }

    /// Takes a name away if `wanted` agrees to what it stands for; false if there is no such name.
    pub fn drop(&self, name: &RelationName, wanted: impl FnOnce(&Relation) -> Result<()>) -> Result<bool> {
        let mut schemas = self.schemas.write();
        let Some(schema) = schemas.get_mut(&name.schema) else { return Ok(false) };
        let Some(relation) = schema.get(&name.name) else { return Ok(false) };
        wanted(relation)?;
        schema.remove(&name.name);
        self.note_change();
        Ok(true)
    }

    /// Makes a schema; false if there is one already.
    pub fn create_schema(&self, name: &str) -> bool {
        let mut schemas = self.schemas.write();
        if schemas.contains_key(name) || SHOWN_SCHEMAS.contains(&name) {
            return false;
        }
        schemas.insert(name.to_owned(), BTreeMap::new());
        true
    }

    /// Takes a schema away; false if there is none. Fails on one with relations unless `cascade`.
    pub fn drop_schema(&self, name: &str, cascade: bool) -> Result<bool> {
        may_change(name, "it cannot be dropped")?;
        if name == DEFAULT_SCHEMA {
            return Err(Error::input(format!("the schema '{name}' cannot be dropped")));
        }
        let mut schemas = self.schemas.write();
        let Some(schema) = schemas.get(name) else { return Ok(false) };
        if !schema.is_empty() && !cascade {
            return Err(Error::input(format!(
                "the schema '{name}' is not empty: it has {}",
                schema.keys().cloned().collect::<Vec<_>>().join(", ")
            ))
            .with_code("2BP01")
            .with_hint("write DROP SCHEMA … CASCADE to drop them too"));
        }
        schemas.remove(name);
        self.note_change();
        Ok(true)
    }

    /// The schemas, in order.
    pub fn schema_names(&self) -> Vec<String> {
        self.schemas.read().keys().cloned().collect()
    }

    /// The relations with their names, in order.
    pub fn relations(&self) -> Vec<(RelationName, Relation)> {
        let schemas = self.schemas.read();
        let all = schemas.iter().flat_map(|(schema, relations)| {
            relations.iter().map(move |(name, relation)| (RelationName::new(schema, name), relation.clone()))
        });
        all.collect()
    }

    /// The names in one schema, in order; none if there is no such schema.
    pub fn names_in(&self, schema: &str) -> Vec<String> {
        self.schemas.read().get(schema).map(|relations| relations.keys().cloned().collect()).unwrap_or_default()
    }

    /// True if there is such a schema.
    pub fn has_schema(&self, schema: &str) -> bool {
        self.schemas.read().contains_key(schema)
    }
}

/// Fails on the names of what the engine shows of itself.
pub(crate) fn may_change(schema: &str, what: &str) -> Result<()> {
    if !SHOWN_SCHEMAS.contains(&schema) {
        return Ok(());
    }
    Err(Error::input(format!("{what}: what is in the schema '{schema}' shows the engine, and cannot be changed")))
}

pub(crate) fn no_schema(name: &str) -> Error {
    let error = Error::input(format!("no schema is named '{name}'")).with_code("3F000");
    error.with_hint(format!("CREATE SCHEMA {name} makes one"))
}
