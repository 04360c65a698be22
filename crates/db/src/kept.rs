//! What a database on disk needs of the rest: definitions become relations again when it is opened, and somebody makes
//! checkpoints while it is open.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use diligence_base::seams::{Spawn, Thread, ThreadSpawn};
use diligence_base::{Error, Result};
use diligence_catalog::rules::{Key, RowFunction};
use diligence_catalog::{Catalog, FileRelation, RelationName, Routine, View};
use diligence_engine::batch::compacted;
use diligence_memory::{QueryMemory, Reservation};
use diligence_native::{
    FolderLock, FolderReader, ReadersLock, Repaired, Store, StoreOptions, Surroundings, make_folder,
};
use diligence_sql::parse::SyntaxTree;
use diligence_sql::{Command, Planned, Planner, Statement, parse};
use diligence_storage::foreign_error::from_arrow;
use parking_lot::Mutex;
use sqlparser::ast::Expr;

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

/// The folder of a database that is open.
pub(crate) struct KeptFolder {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    checkpoints: Mutex<Option<Box<dyn Thread>>>,
    lock: FolderLock,
}

impl KeptFolder {
    /// Opens the options' folder into a catalog. `planner` is one that may name files, `of_past` makes such a one of a
    /// catalog of the past. Fails with kind `File` if the
    /// folder cannot be used, is damaged or is open in another process, `Resource` if its rows do not fit into
    /// `memory`.
    pub(crate) fn open(
        options: StoreOptions,
        catalog: &Arc<Catalog>,
        planner: &Planner,
        memory: &QueryMemory,
        of_past: impl Fn(&Arc<Catalog>) -> Planner + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = &options.folder;
        make_folder(&*options.disk, folder)?;
        let lock = FolderLock::take(folder)?;
        let options = StoreOptions { readers: Some(Arc::new(ReadersLock::of(folder)?)), ..options };
        let definitions = Definitions { planner, memory: memory.clone() };
        let opened = Store::open(options, catalog.clone(), &definitions);
        let opened = opened.map_err(|error| match error.kind() {
            diligence_base::ErrorKind::Resource => {
                error.with_hint("raise --memory: the keys of the tables and the newest rows must fit")
            }
            _ => error,
        });
        let store = Arc::new(opened?);
        let memory = memory.clone();
        store.read_past_with(move |past| Box::new(Definitions { planner: of_past(past), memory: memory.clone() }));
        let checkpoints = {
            let store = store.clone();
            ThreadSpawn.spawn("checkpoints".into(), Box::new(move || store.make_checkpoints()))
        };
        let checkpoints = checkpoints.map_err(|error| Error::resource(format!("a thread cannot start: {error}")))?;
        Ok(Self { store, catalog: catalog.clone(), checkpoints: Mutex::new(Some(checkpoints)), lock })
    }

    /// Reads the options' folder into a catalog, as it was at its last checkpoint. Fails as
    /// [`open`](Self::open) does, whoever has the folder open.
    pub(crate) fn read(
        options: &StoreOptions,
        catalog: &Catalog,
        planner: &Planner,
        memory: &QueryMemory,
    ) -> Result<FolderReader> {
        FolderReader::open(options, catalog, &Definitions { planner, memory: memory.clone() })
    }

    /// Saves what can be saved of the options' folder into another one, by way of an empty catalog. Fails as
    /// [`repair`](diligence_native::repair) does, and with code 55006 if a process has the folder open.
    pub(crate) fn repair(
        options: &StoreOptions,
        to: &Path,
        catalog: &Catalog,
        planner: &Planner,
        memory: &QueryMemory,
    ) -> Result<Repaired> {
        let _lock = FolderLock::take(&options.folder)?;
        diligence_native::repair(options, to, catalog, &Definitions { planner, memory: memory.clone() })
    }

    /// Says where other processes can speak to this one: a URL. Fails with kind `File`.
    pub(crate) fn has_door(&self, url: &str) -> Result<()> {
        self.lock.has_door(url)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Writes down where sequences are, and does what the next opening would do again. Fails as a log fails.
    pub(crate) fn rest(&self) -> Result<()> {
        self.catalog.rest_sequences()?;
        if self.store.is_checkpoint_due() { self.store.checkpoint() } else { Ok(()) }
    }
}

impl Drop for KeptFolder {
    fn drop(&mut self) {
        // Without it, numbers are left out when the folder is opened again, and nothing else is lost.
        let _ = self.rest();
        self.store.stop();
        if let Some(thread) = self.checkpoints.get_mut().take() {
            thread.join();
        }
    }
}

/// Reads definitions back, as statements are read.
struct Definitions<P> {
    planner: P,
    memory: QueryMemory,
}

impl<P: Borrow<Planner>> Definitions<P> {
    fn planner(&self) -> &Planner {
        self.planner.borrow()
    }
}

impl<P: Borrow<Planner>> Surroundings for Definitions<P> {
    fn expression(&self, text: &str) -> Result<Expr> {
        parse::expression(text)
    }

    fn row_function(
        &self,
        table: &RelationName,
        columns: &SchemaRef,
        key: &Key,
        expressions: &[Option<Arc<Expr>>],
        condition: Option<&Expr>,
    ) -> Result<Arc<dyn RowFunction>> {
        self.planner().row_function(table, columns, key, expressions, condition)
    }

    fn view(&self, definition: &str, columns: SchemaRef) -> Result<View> {
        let (definition, triggers) = View::parts_of(definition)?;
        let parsed = self.planner().parse(definition)?;
        match parsed.statement {
            SyntaxTree::Statement(source) => {
                Ok(View { source: source.into(), depth: parsed.depth, schema: columns, triggers })
            }
            _ => Err(Error::file(format!("no view is made by: {definition}"))),
        }
    }

    fn routine(&self, definition: &str) -> Result<Routine> {
        let parsed = self.planner().parse(definition)?;
        match parsed.statement {
            SyntaxTree::Statement(source) => Ok(Routine { source: source.into(), depth: parsed.depth }),
            _ => Err(Error::file(format!("no function is made by: {definition}"))),
        }
    }

    fn files(&self, definition: &str) -> Result<FileRelation> {
        let parsed = self.planner().parse(definition)?;
        let planned = self.planner().plan(&self.planner().catalogs().snapshot(), &parsed, &[])?;
        if let Planned::Other(statement) = planned
            && let Statement::Command(Command::CreateExternalTable { relation, .. }) = *statement
            && let Some(files) = Arc::into_inner(relation)
        {
            return Ok(files);
        }
        Err(Error::file(format!("no files are named by: {definition}")))
    }

    fn compacted(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns().iter().map(compacted).collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(rows.schema(), columns, &options).map_err(from_arrow)
    }

    fn memory(&self) -> Reservation {
        self.memory.reservation(HOLDER)
    }
}

#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod tests;
