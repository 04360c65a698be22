//! Foreign files under a name: opened when a statement first needs them, and again when they have changed.
//!
//! A folder with one corrupt file must not keep anybody from the other tables, so nothing is opened before it is used. Between
//! statements files may be replaced: every statement looks at the times and lengths of the files before it uses what is
//! known of them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::common::Constraints;
use diligence_base::Result;
use diligence_base::seams::Files;
use diligence_storage::Table;
use diligence_storage::external::{ExternalTable, OpenOptions};
use parking_lot::Mutex;

/// Files whose times are looked at before every statement; of a table with more, the first so many and its folder. A look
/// takes about a microsecond.
const FILES_LOOKED_AT_MAX: usize = 64;

/// Files at a location, as a table.
pub struct FileRelation {
    /// A path, a folder, a pattern or a URL.
    pub location: String,
    /// How the files are read.
    pub options: OpenOptions,
    /// The statement that made it, where there was one.
    pub definition: Option<String>,
    /// As declared; not enforced.
    pub constraints: Constraints,
    files: Arc<dyn Files>,
    opened: Mutex<Option<Opened>>,
}

struct Opened {
    table: Arc<ExternalTable>,
    seen: Vec<Seen>,
}

/// What tells one state of a file from another: its length and time; `None` where there is nothing to look at.
type Seen = Option<(u64, SystemTime)>;

impl FileRelation {
    /// Files at a location; nothing is opened yet.
    pub fn new(location: impl Into<String>, options: OpenOptions, files: Arc<dyn Files>) -> Self {
        Self {
            location: location.into(),
            options,
            definition: None,
            constraints: Constraints::default(),
            files,
            opened: Mutex::new(None),
        }
    }

    /// The table in its present state. Blocks while files are opened.
    pub fn table(&self) -> Result<Arc<dyn Table>> {
        // Others who want the same table wait for the one who opens it.
        let mut opened = self.opened.lock();
        if let Some(opened) = opened.as_ref()
            && self.look(&opened.table) == opened.seen
        {
            return Ok(opened.table.clone());
        }
        *opened = None;
        let table = diligence_storage::external::open(&self.location, &self.options, self.files.clone())?;
        let seen = self.look(&table);
        *opened = Some(Opened { table: table.clone(), seen });
        Ok(table)
    }

    fn look(&self, table: &ExternalTable) -> Vec<Seen> {
        if self.location.contains("://") {
            return Vec::new();
        }
        // The folder's own time changes when files come and go.
        let paths = std::iter::once(self.location.as_str()).chain(table.file_names().take(FILES_LOOKED_AT_MAX));
        paths.map(|path| self.files.meta(Path::new(path)).ok().map(|meta| (meta.bytes, meta.modified))).collect()
    }
}

impl fmt::Debug for FileRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileRelation({})", self.location)
    }
}
