//! A database: an engine, a catalog, and what its sessions share.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::runtime_env::RuntimeEnv;
use diligence_base::seams::{Files, LocalFiles};
use diligence_base::{Error, Result};
use diligence_engine::{Engine, EngineOptions};
use diligence_sql::catalog::{Catalog, Relation, RelationName, StoredRelation};
use diligence_storage::external;

use crate::session::Session;

/// How a database is opened.
#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// A folder: every Parquet, CSV, JSON or Arrow file in it, and every folder of such files, becomes a table named by its
    /// stem.
    pub data: Option<PathBuf>,
    /// Worker threads; one per core if `None`.
    pub workers: Option<usize>,
    /// The memory budget in bytes; 70 % of the machine's or the container's memory if `None`.
    pub memory_bytes: Option<usize>,
    /// Runs packets on the thread that reads results, in an order given by this seed.
    pub inline_seed: Option<u64>,
    /// Settings of every session, as by SET.
    pub settings: Vec<(String, String)>,
}

/// A table and where it is.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The schema that the table is in.
    pub schema_name: String,
    /// Its name.
    pub name: String,
    /// Its kind: external table, table or view.
    pub kind: &'static str,
    /// Its columns.
    pub schema: SchemaRef,
}

/// An open database. Clones are the same database; the engine ends with the last clone, session and result.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) settings: Vec<(String, String)>,
}

impl Database {
    /// Opens a database. Fails if the folder or a file in it cannot be read, or a setting does not exist.
    pub fn open(options: DatabaseOptions) -> Result<Self> {
        let runtime = Arc::new(RuntimeEnv::default());
        let mut engine = match options.inline_seed {
            Some(seed) => EngineOptions::inline(seed),
            None => EngineOptions::default(),
        };
        engine.runtime_env = runtime.clone();
        if let Some(workers) = options.workers {
            engine.workers = workers;
        }
        if let Some(bytes) = options.memory_bytes {
            engine.memory_bytes = bytes;
        }
        let shared = Shared {
            engine: Engine::start(engine)?,
            catalog: Arc::default(),
            runtime,
            files: Arc::new(LocalFiles),
            settings: options.settings,
        };
        let database = Self { shared: Arc::new(shared) };
        if let Some(folder) = options.data {
            database.register_folder(&folder)?;
        }
        // Wrong settings are told now, not by the first session.
        Session::open(database.shared.clone())?;
        Ok(database)
    }

    /// A database without files.
    pub fn in_memory() -> Result<Self> {
        Self::open(DatabaseOptions::default())
    }

    /// A new session with the database's settings.
    pub fn session(&self) -> Session {
        // `open` has applied the same settings once without an error.
        Session::open(self.shared.clone()).unwrap_or_else(|error| panic!("settings that were accepted before: {error}"))
    }

    /// The engine that runs the queries.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// All tables and views, by name.
    pub fn tables(&self) -> Vec<TableInfo> {
        let relations = self.shared.catalog.relations().into_iter();
        relations
            .map(|(name, relation)| TableInfo {
                schema_name: name.schema,
                name: name.name,
                kind: relation.kind(),
                schema: relation.schema(),
            })
            .collect()
    }

    /// Makes a table of every file and every folder of files in a folder.
    fn register_folder(&self, folder: &std::path::Path) -> Result<()> {
        let files = &self.shared.files;
        if !files.is_dir(folder) {
            return Err(Error::file(format!("{} is not a folder", folder.display()))
                .with_hint("name a folder of Parquet, CSV, JSON or Arrow files"));
        }
        for (name, location) in external::discover(folder, files)? {
            let table = external::open(&location, &external::OpenOptions::default(), files.clone())?;
            let relation = Relation::Table(StoredRelation::from(table as Arc<dyn diligence_storage::Table>));
            let name = RelationName::new(diligence_sql::catalog::DEFAULT_SCHEMA, name);
            self.shared.catalog.create(&name, relation, true)?;
        }
        Ok(())
    }
}
