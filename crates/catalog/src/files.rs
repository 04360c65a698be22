//! Foreign files under a name: opened when a statement first needs them, and again when they have changed.
//!
//! A folder with one corrupt file must not keep anybody from the other tables, so nothing is opened before it is used.
//! Between statements files may be replaced: every statement looks at the times and lengths of the files before it uses
//! what is known of them.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diligence_base::Result;
use diligence_base::limits::{FILES_LOOKED_AT_MAX, FOLDERS_LOOKED_AT_MAX};
use diligence_base::seams::Disk;
use diligence_storage::external::{ExternalTable, FileSet, OpenOptions, Staging};
use parking_lot::Mutex;
use sqlparser::ast::Expr;

/// A file that changed less than this before it was looked at may change once more without another time: file systems
/// count time in steps of up to 10 ms.
const TIME_STEP: Duration = Duration::from_millis(20);

/// Files at a location, as a table.
pub struct FileRelation {
    /// A path, a folder, a pattern or a URL.
    pub location: String,
    /// How the files are read.
    pub options: OpenOptions,
    /// The statement that made it, where there was one.
    pub definition: Option<String>,
    /// Expressions for columns that an INSERT leaves out, by the columns' names.
    pub column_defaults: HashMap<String, Arc<Expr>>,
    files: Arc<dyn Disk>,
    opened: Mutex<Option<Opened>>,
    writer: Mutex<()>,
}

struct Opened {
    table: Arc<ExternalTable>,
    /// What is looked at, and how it was then.
    places: Vec<PathBuf>,
    seen: Vec<Seen>,
}

/// What tells one state of a file from another: its length and time; `None` where there is nothing to look at.
type Seen = Option<(u64, SystemTime)>;

impl FileRelation {
    /// Files at a location; nothing is opened yet.
    pub fn new(location: impl Into<String>, options: OpenOptions, files: Arc<dyn Disk>) -> Self {
        Self {
            location: location.into(),
            options,
            definition: None,
            column_defaults: HashMap::new(),
            files,
            opened: Mutex::new(None),
            writer: Mutex::new(()),
        }
    }

    /// The table in its present state. Blocks while files are opened. Fails with kind `File` if they cannot be read,
    /// `Input` if they are no table.
    pub fn table(&self) -> Result<Arc<ExternalTable>> {
        // Others who want the same table wait for the one who opens it.
        let mut opened = self.opened.lock();
        if let Some(opened) = opened.as_ref()
            && self.look(&opened.places) == opened.seen
            && opened.table.is_current()
        {
            return Ok(opened.table.clone());
        }
        *opened = None;
        let began = SystemTime::now();
        let table = diligence_storage::external::open(&self.location, &self.options, self.files.clone())?;
        let places = self.places(&table);
        let seen = self.look(&places);
        // What changed while it was opened may have been opened before it changed.
        let young = |seen: &Seen| seen.is_some_and(|(_, time)| time + TIME_STEP > began && time <= SystemTime::now());
        if !seen.iter().any(young) {
            *opened = Some(Opened { table: table.clone(), places, seen });
        }
        Ok(table)
    }

    /// What is looked at: the location, and folders and files of the table.
    fn places(&self, table: &ExternalTable) -> Vec<PathBuf> {
        if self.location.contains("://") && !self.location.starts_with("file:") {
            return Vec::new();
        }
        // A folder's own time changes when files come and go.
        let folders = table.folders().iter().take(FOLDERS_LOOKED_AT_MAX).cloned();
        let files = table.file_names().take(FILES_LOOKED_AT_MAX).map(PathBuf::from);
        std::iter::once(PathBuf::from(&self.location)).chain(folders).chain(files).collect()
    }

    fn look(&self, places: &[PathBuf]) -> Vec<Seen> {
        places.iter().map(|path| self.files.meta(path).ok().map(|meta| (meta.bytes, meta.modified))).collect()
    }
}

impl FileSet for FileRelation {
    fn add(&self, staging: Staging, replace: bool) -> Result<()> {
        // Two that replace the same files: one after the other.
        let _writer = self.writer.lock();
        let replaced = if replace { self.table()?.file_names().map(PathBuf::from).collect() } else { Vec::new() };
        // Nobody opens the table while files come and go.
        let mut opened = self.opened.lock();
        *opened = None;
        staging.commit(&replaced)
    }
}

impl fmt::Debug for FileRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileRelation({})", self.location)
    }
}
