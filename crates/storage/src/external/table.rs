//! A table made of foreign files, whatever their format.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Statistics;
use diligence_base::Result;
use diligence_base::ids::TableVersion;
use diligence_base::seams::Files;
use object_store::ObjectStore;

use super::ipc::ArrowTable;
use super::location::{Located, locate, locate_in_store};
use super::options::{Format, OpenOptions};
use super::parquet::ParquetTable;
use super::source::Source;
use super::text::csv::CsvTable;
use super::text::json::JsonTable;
use crate::{ScanRequest, Table, TableScan};

/// Foreign files as a table: one state of them, as found when it was opened.
///
/// Footers and inferred schemas are kept; data is read when it is scanned. A file that changed meanwhile is an error when
/// it is read; opening the location again gives a table of another version.
pub struct ExternalTable {
    location: String,
    format: Format,
    sources: Vec<Arc<Source>>,
    version: TableVersion,
    content: Content,
}

/// The parts that differ by format.
enum Content {
    Parquet(Arc<ParquetTable>),
    Arrow(Arc<ArrowTable>),
    Csv(Arc<CsvTable>),
    Json(Arc<JsonTable>),
}

/// Opens a file, a folder of files of one format, a pattern, or a URL as a table.
///
/// Reads Parquet and Arrow footers, and the first records of text files whose schema is not given. Blocks the calling
/// thread while it does.
///
/// Errors: `File` if a file is missing, truncated, corrupt, or not of the format; `Input` if the location or an option makes
/// no sense. Every message names the file.
pub fn open(location: &str, options: &OpenOptions, files: Arc<dyn Files>) -> Result<Arc<ExternalTable>> {
    let located = locate(location, options, &files)?;
    ExternalTable::open(location, located, options).map(Arc::new)
}

/// Opens an object, the objects below a folder (`location` ends in `/`), or a pattern, in a store that is already open.
/// `location` is what messages call it; `path` is where it is in the store.
pub fn open_in_store(
    location: &str,
    store: Arc<dyn ObjectStore>,
    path: &str,
    options: &OpenOptions,
) -> Result<Arc<ExternalTable>> {
    let path = object_store::path::Path::from(path);
    let located = locate_in_store(location, options, store, path)?;
    ExternalTable::open(location, located, options).map(Arc::new)
}

impl ExternalTable {
    fn open(location: &str, located: Located, options: &OpenOptions) -> Result<Self> {
        let Located { sources, format, base: _ } = located;
        let mut hasher = DefaultHasher::new();
        sources.iter().for_each(|source| source.version.hash(&mut hasher));
        options.fingerprint().hash(&mut hasher);
        let version = TableVersion(hasher.finish());
        let content = match format {
            Format::Parquet => Content::Parquet(Arc::new(ParquetTable::open(&sources)?)),
            Format::Arrow => Content::Arrow(Arc::new(ArrowTable::open(&sources)?)),
            Format::Csv => Content::Csv(Arc::new(CsvTable::open(&sources, options)?)),
            Format::Json => Content::Json(Arc::new(JsonTable::open(&sources, options)?)),
        };
        Ok(Self { location: location.to_owned(), format, sources, version, content })
    }

    /// The format of its files.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The names of its files, in order.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.name.as_str())
    }

    /// The bytes of its files.
    pub fn file_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }
}

impl fmt::Debug for ExternalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalTable({})", self.describe())
    }
}

impl Table for ExternalTable {
    fn schema(&self) -> SchemaRef {
        match &self.content {
            Content::Parquet(table) => table.schema.clone(),
            Content::Arrow(table) => table.schema.clone(),
            Content::Csv(table) => table.schema.clone(),
            Content::Json(table) => table.schema.clone(),
        }
    }

    fn version(&self) -> TableVersion {
        self.version
    }

    fn statistics(&self) -> Statistics {
        match &self.content {
            Content::Parquet(table) => table.statistics(),
            Content::Arrow(table) => table.statistics(),
            Content::Csv(table) => table.statistics(),
            Content::Json(table) => table.statistics(),
        }
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        match &self.content {
            Content::Parquet(table) => table.scan(request),
            Content::Arrow(table) => table.scan(request),
            Content::Csv(table) => table.scan(request),
            Content::Json(table) => table.scan(request),
        }
    }

    fn describe(&self) -> String {
        match self.sources.len() {
            1 => format!("{} {}", self.format.name(), self.location),
            files => format!("{} {} ({files} files)", self.format.name(), self.location),
        }
    }
}
