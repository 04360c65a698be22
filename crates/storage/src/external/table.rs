//! A table made of foreign files, whatever their format.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::Statistics;
use datafusion_common::stats::Precision;
use diligence_base::ids::{TableId, TableIdentity, TableVersion};
use diligence_base::limits::{FILES_LOOKED_AT_MAX, FOLDERS_LOOKED_AT_MAX};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use object_store::ObjectStore;

use super::file_scan::FileScan;
use super::ipc::ArrowTable;
use super::lake::{LakeTable, no_moments, open_lake};
use super::location::{Located, locate, locate_in_store};
use super::options::{Compression, Format, OpenOptions, ROW_NUMBER_COLUMN};
use super::parquet::ParquetTable;
use super::partitions::{self, Partitions};
use super::required::Required;
use super::schema::with_types;
use super::source::Source;
use super::sqlite::SqliteTable;
use super::text::csv::CsvTable;
use super::text::json::JsonTable;
use crate::{ScanRequest, Table, TableScan};

/// Foreign files as a table: one state of them, as found when it was opened.
///
/// Footers and inferred schemas are kept; data is read when it is scanned. A file that changed meanwhile is an error
/// when it is read; opening the location again gives a table of another version.
pub struct ExternalTable {
    location: String,
    format: Format,
    sources: Vec<Arc<Source>>,
    /// Files that are opened once more are another table, whatever their times and sizes say: they may have been
    /// written twice in a moment.
    id: TableId,
    version: TableVersion,
    content: Content,
    /// Columns whose values are in folder names, if there are any.
    partitions: Option<Arc<Partitions>>,
    /// Columns that are declared NOT NULL, if there are any.
    required: Option<Arc<Required>>,
    schema: SchemaRef,
    /// The local folder that its files are in, if that is its location.
    folder: Option<PathBuf>,
    folders: Vec<PathBuf>,
}

/// The parts that differ by format.
enum Content {
    Parquet(Arc<ParquetTable>),
    Arrow(Arc<ArrowTable>),
    Csv(Arc<CsvTable>),
    Json(Arc<JsonTable>),
    Lake(Arc<LakeTable>),
    Sqlite(Arc<SqliteTable>),
}

/// Opens a file, a folder of files of one format, a pattern, or a URL as a table.
///
/// Reads Parquet and Arrow footers, and the first records of text files whose schema is not given. Blocks the calling
/// thread while it does.
///
/// Errors: `File` if a file is missing, truncated, corrupt, or not of the format; `Input` if the location or an option
/// makes no sense. Every message names the file.
pub fn open(location: &str, options: &OpenOptions, files: Arc<dyn Disk>) -> Result<Arc<ExternalTable>> {
    if let Some(lake) = open_lake(location, options, &files)? {
        return Ok(Arc::new(ExternalTable::of_lake(location, lake)));
    }
    if options.moment.is_some() {
        return Err(no_moments(location));
    }
    if options.format == Some(Format::Sqlite) {
        let table = SqliteTable::open(location, options, &files)?;
        return Ok(Arc::new(ExternalTable::of_database(location, options, Arc::new(table))));
    }
    let mut located = locate(location, options, &files)?;
    for more in &options.also {
        // All files have the format of the first.
        let options = OpenOptions { format: Some(located.format), ..options.clone() };
        located = located.with(locate(more, &options, &files)?);
    }
    ExternalTable::open(location, located, options).map(Arc::new)
}

/// Opens an object, the objects below a folder (`location` ends in `/`), or a pattern, in a store that is already open.
/// `location` is what messages call it; `path` is where it is in the store. Fails if nothing is there, if a file cannot
/// be read or is not what its format says, or if the options do not fit.
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
        let Located { sources, format, base, folder, folders } = located;
        let mut hasher = DefaultHasher::new();
        sources.iter().for_each(|source| source.version.hash(&mut hasher));
        options.fingerprint().hash(&mut hasher);
        let version = TableVersion(hasher.finish());
        let mut names = partitions::names(&base, &sources, options);
        names.extend(options.filename.clone());
        let declared = options.schema.clone();
        let mut options = options.clone();
        // Declared columns that are in folder names are not in the files; if those are all, the files say the rest.
        options.schema = declared.as_ref().and_then(|schema| {
            let fields = schema.fields().iter().filter(|field| !names.contains(field.name())).cloned();
            let fields = fields.collect::<Vec<_>>();
            (!fields.is_empty()).then(|| Arc::new(Schema::new(fields)))
        });
        if sources.is_empty() && options.schema.is_none() {
            return Err(Error::input(format!(
                "{location}: there is no file here, so the table's columns are not known"
            ))
            .with_hint("declare a column that is in the files"));
        }
        let in_folders = options.clone();
        options.types.retain(|(name, _)| !names.iter().any(|folder| folder.eq_ignore_ascii_case(name)));
        let is_told = |name: &str| options.types.iter().any(|(told, _)| told.eq_ignore_ascii_case(name));
        let content = match format {
            Format::Parquet => {
                let mut table = ParquetTable::open(&sources, options.schema.as_deref(), is_told)?;
                if let Some(told) = told_columns(&table.schema, &options)? {
                    table = ParquetTable::open(&sources, Some(&told), is_told)?;
                }
                if options.row_numbers {
                    table = table.with_row_numbers(ROW_NUMBER_COLUMN)?;
                }
                Content::Parquet(Arc::new(table))
            }
            Format::Arrow => {
                let mut table = ArrowTable::open(&sources, options.schema.as_deref(), is_told)?;
                if let Some(told) = told_columns(&table.schema, &options)? {
                    table = ArrowTable::open(&sources, Some(&told), is_told)?;
                }
                Content::Arrow(Arc::new(table))
            }
            Format::Csv => Content::Csv(Arc::new(CsvTable::open(&sources, &options)?)),
            Format::Json => Content::Json(Arc::new(JsonTable::open(&sources, &options)?)),
            Format::Delta | Format::Iceberg | Format::Sqlite => {
                return Err(Error::bug("a table of a lake or a database is opened as files"));
            }
        };
        // Records that are left out are told to each scan anew.
        let version = match &content {
            Content::Csv(table) if table.scan_number().is_some() => {
                table.scan_number().hash(&mut hasher);
                TableVersion(hasher.finish())
            }
            Content::Json(table) if table.scan_number().is_some() => {
                table.scan_number().hash(&mut hasher);
                TableVersion(hasher.finish())
            }
            _ => version,
        };
        let partitions = if names.is_empty() {
            None
        } else {
            let declared = declared.as_deref();
            Some(Arc::new(Partitions::new(names, &base, &sources, &content.schema(), declared, &in_folders)?))
        };
        let schema = partitions.as_ref().map_or_else(|| content.schema(), |partitions| partitions.schema.clone());
        let required = declared.and_then(|declared| Required::new(&schema, &declared)).map(Arc::new);
        let schema = required.as_ref().map_or(schema, |required| required.schema.clone());
        let table = Self {
            location: location.to_owned(),
            format,
            sources,
            id: TableId::next(),
            version,
            content,
            partitions,
            required,
            schema,
            folder,
            folders,
        };
        table.check_null_counts()?;
        Ok(table)
    }

    fn of_lake(location: &str, lake: Arc<LakeTable>) -> Self {
        Self {
            location: location.to_owned(),
            format: lake.format,
            sources: Vec::new(),
            id: TableId::next(),
            version: lake.version,
            schema: lake.schema.clone(),
            folders: lake.watched(),
            content: Content::Lake(lake),
            partitions: None,
            required: None,
            folder: None,
        }
    }

    fn of_database(location: &str, options: &OpenOptions, table: Arc<SqliteTable>) -> Self {
        let mut hasher = DefaultHasher::new();
        table.sources().iter().for_each(|source| source.version.hash(&mut hasher));
        options.fingerprint().hash(&mut hasher);
        Self {
            location: location.to_owned(),
            format: Format::Sqlite,
            sources: table.sources(),
            id: TableId::next(),
            version: TableVersion(hasher.finish()),
            schema: table.schema.clone(),
            folders: table.watched(),
            content: Content::Sqlite(table),
            partitions: None,
            required: None,
            folder: None,
        }
    }

    /// An error if the files themselves say that a column that is declared NOT NULL has NULLs.
    fn check_null_counts(&self) -> Result<()> {
        let Some(required) = &self.required else { return Ok(()) };
        let statistics = self.statistics();
        let count = |column: usize| statistics.column_statistics.get(column).map(|column| column.null_count);
        let wrong = required.columns().find_map(|column| match count(column) {
            Some(Precision::Exact(nulls)) if nulls > 0 => Some((self.schema.field(column).name(), nulls)),
            _ => None,
        });
        match wrong {
            Some((name, nulls)) => Err(Error::file(format!(
                "{}: column '{name}' is declared NOT NULL, but {nulls} of its values are NULL",
                self.location
            ))),
            None => Ok(()),
        }
    }

    /// Whether it is as it is now where nobody can be asked when it was changed: a lake's table in an object store,
    /// whose log is listed. Blocks while that is done. True for all others.
    pub fn is_current(&self) -> bool {
        match &self.content {
            Content::Lake(lake) => lake.is_current(),
            _ => true,
        }
    }

    /// The format of its files.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The names of its files, in order.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.name.as_str())
    }

    /// The local folders in which its files were looked for.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The columns whose values are in folder names, outermost first.
    pub fn partition_columns(&self) -> &[String] {
        self.partitions.as_ref().map_or(&[], |partitions| partitions.folder_names())
    }

    /// The folder that new files of this table go into, and how their names end.
    ///
    /// Fails with kind `Unsupported` if the table is not a local folder.
    pub fn folder_for_new(&self, compression: Compression) -> Result<(PathBuf, String)> {
        if let Content::Lake(_) | Content::Sqlite(_) = self.content {
            let what = format!("writing to a table of {}", self.format.name());
            return Err(Error::unsupported(format!("{}: {what} is not supported", self.location)).with_code("0A000"));
        }
        let Some(folder) = &self.folder else {
            let what = format!("{} is no local folder, and only a folder takes new files", self.location);
            return Err(Error::unsupported(format!("rows cannot be added here: {what}"))
                .with_hint("COPY (SELECT …) TO '…' writes a file; a table over its folder takes INSERT"));
        };
        // A file whose name shows no format is only seen where no file's name does.
        let unnamed = |source: &Arc<Source>| Format::of_name(&source.name).is_none();
        let ending = match self.sources.first().is_some_and(unnamed) {
            true => String::new(),
            false => self.format.ending(compression),
        };
        Ok((folder.clone(), ending))
    }

    /// The bytes of its files.
    pub fn file_bytes(&self) -> u64 {
        match &self.content {
            Content::Lake(lake) => lake.bytes(),
            _ => self.sources.iter().map(|source| source.bytes).sum(),
        }
    }
}

/// The columns of files that know their types, with the types that the options give to some; `None` if they give none.
/// Fails with kind `Input` if a type is given for a column that there is not.
fn told_columns(schema: &SchemaRef, options: &OpenOptions) -> Result<Option<Schema>> {
    if options.schema.is_some() || (options.types.is_empty() && !options.bytes_as_texts) {
        return Ok(None);
    }
    let told = with_types(schema.as_ref().clone(), &options.types)?;
    let fields = told.fields().iter().map(|field| match field.data_type() {
        DataType::BinaryView if options.bytes_as_texts => {
            let text = field.as_ref().clone().with_data_type(DataType::Utf8View);
            Arc::new(text.with_metadata(HashMap::new()))
        }
        _ => field.clone(),
    });
    Ok(Some(Schema::new(fields.collect::<Vec<_>>())))
}

impl fmt::Debug for ExternalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalTable({})", self.describe())
    }
}

impl Table for ExternalTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn is_watched(&self) -> bool {
        if let Content::Lake(_) = self.content {
            return !self.folders.is_empty();
        }
        self.sources.len() <= FILES_LOOKED_AT_MAX
            && self.folders.len() <= FOLDERS_LOOKED_AT_MAX
            && self.sources.iter().all(|source| source.is_local())
    }

    fn identity(&self) -> TableIdentity {
        TableIdentity::of(self.id, self.version)
    }

    fn statistics(&self) -> Statistics {
        match &self.partitions {
            Some(partitions) => partitions.statistics(self.content.statistics()),
            None => self.content.statistics(),
        }
    }

    fn rows_of_one_file(&self) -> Option<usize> {
        let is_one = self.sources.len() == 1;
        is_one.then(|| self.content.statistics().num_rows.get_value().copied())?
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        let mut scan = self.scan_files(request)?;
        if let Some(required) = &self.required {
            scan.clusters = scan.clusters.into_iter().map(|cluster| required.wrap(cluster)).collect();
        }
        Ok(scan)
    }

    fn describe(&self) -> String {
        if let Content::Lake(lake) = &self.content {
            return lake.describe();
        }
        match self.sources.len() {
            1 => format!("{} {}", self.format.name(), self.location),
            files => format!("{} {} ({files} files)", self.format.name(), self.location),
        }
    }
}

impl ExternalTable {
    fn scan_files(&self, request: &ScanRequest) -> Result<TableScan> {
        if let Content::Lake(lake) = &self.content {
            return lake.scan(request);
        }
        let Some(partitions) = &self.partitions else {
            let FileScan { clusters, clusters_pruned } = self.content.scan(request, &[])?;
            let clusters = clusters.into_iter().map(|(_, cluster)| cluster).collect();
            return Ok(TableScan { clusters, clusters_pruned });
        };
        let wanted = partitions.files(request);
        let FileScan { clusters, clusters_pruned } = self.content.scan(&partitions.inner_request(request), &wanted)?;
        let clusters = clusters.into_iter().map(|(file, cluster)| partitions.wrap(file, cluster)).collect();
        Ok(TableScan { clusters, clusters_pruned })
    }
}

impl Content {
    fn schema(&self) -> SchemaRef {
        match self {
            Content::Parquet(table) => table.all_columns(),
            Content::Arrow(table) => table.schema.clone(),
            Content::Csv(table) => table.schema.clone(),
            Content::Json(table) => table.schema.clone(),
            Content::Lake(table) => table.schema.clone(),
            Content::Sqlite(table) => table.schema.clone(),
        }
    }

    fn statistics(&self) -> Statistics {
        match self {
            Content::Parquet(table) => table.statistics(),
            Content::Arrow(table) => table.statistics(),
            Content::Csv(table) => table.statistics(),
            Content::Json(table) => table.statistics(),
            Content::Lake(table) => table.statistics(),
            Content::Sqlite(table) => table.statistics(),
        }
    }

    /// The clusters of the files that are `wanted`; of all if that is empty.
    fn scan(&self, request: &ScanRequest, wanted: &[bool]) -> Result<FileScan> {
        let is_wanted = |file: usize| wanted.get(file).copied().unwrap_or(true);
        match self {
            Content::Parquet(table) => table.scan(request, is_wanted),
            Content::Arrow(table) => Ok(table.scan(is_wanted)),
            Content::Csv(table) => table.scan(is_wanted),
            Content::Json(table) => table.scan(is_wanted),
            Content::Lake(_) => Err(Error::bug("a lake's table is scanned as files")),
            Content::Sqlite(table) => Ok(table.scan()),
        }
    }
}
