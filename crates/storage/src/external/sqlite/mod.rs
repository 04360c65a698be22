//! Tables of SQLite databases, read from the file as it is: no library, no lock, no change.
//!
//! `pages` gives the pages of a database, those in a write-ahead log before those in the file. `tree` walks the pages
//! of a table and takes records apart, `declared` finds the columns in the text of CREATE TABLE, and `values` makes
//! arrays of what records have, which may be of any type whatever a column was declared as.
//!
//! Invariants: what is read is a state that a transaction has left; a file that changes while it is read is an error;
//! nothing in a page is believed before it is compared with the page's length.

mod declared;
mod pages;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};

use self::declared::DeclaredColumn;
use self::pages::Pages;
use self::tree::Leaf;
use self::values::Cell;
use super::batches::{BatchSource, BatchWindows, missing_columns_of};
use super::file_scan::FileScan;
use super::options::OpenOptions;
use super::sieve::Sieve;
use super::source::Source;
use crate::{Cluster, Decode, DecodeRequest, Fetch, Fetched};

/// Bytes of pages that are a cluster.
const CLUSTER_BYTES: usize = 1024 * 1024;

/// A table of a database.
pub(crate) struct SqliteTable {
    pub schema: SchemaRef,
    pages: Arc<Pages>,
    columns: Vec<DeclaredColumn>,
    /// The pages with rows, in the order of their numbers.
    leaves: Vec<u32>,
}

/// A table that a database has.
struct Entry {
    kind: String,
    name: String,
    root: u32,
    sql: String,
}

/// The database at a path, and the table of it.
fn entries(pages: &Arc<Pages>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for page in tree::leaves(pages, 1)? {
        let leaf = pages.page(page)?;
        let overflow = Leaf::new(pages, page, &leaf)?.overflow()?;
        for Cell { values, .. } in Leaf::new(pages, page, &leaf)?.cells(&overflow)? {
            let text = |place: usize| values.get(place).and_then(|value| value.text(pages.encoding));
            let (Some(kind), Some(name)) = (text(0), text(1)) else { continue };
            let root = values.get(3).and_then(|value| value.whole()).and_then(|root| u32::try_from(root).ok());
            entries.push(Entry { kind, name, root: root.unwrap_or(0), sql: text(4).unwrap_or_default() });
        }
    }
    Ok(entries)
}

/// The names of the tables of a database, in order. Fails with kind `File` if it is none.
pub fn sqlite_tables(path: &str, disk: &Arc<dyn Disk>) -> Result<Vec<String>> {
    let pages = Arc::new(Pages::open(&PathBuf::from(path), disk)?);
    let names = entries(&pages)?.into_iter().filter(|entry| entry.kind == "table" && !is_internal(&entry.name));
    let mut names = names.map(|entry| entry.name).collect::<Vec<_>>();
    names.sort();
    Ok(names)
}

fn is_internal(name: &str) -> bool {
    name.starts_with("sqlite_")
}

impl SqliteTable {
    /// Opens a table of a database. Fails with kind `File` if the database is damaged, `Input` if it has no such table,
    /// `Unsupported` if it is of a kind that is not read.
    pub fn open(path: &str, options: &OpenOptions, disk: &Arc<dyn Disk>) -> Result<Self> {
        let pages = Arc::new(Pages::open(&PathBuf::from(path), disk)?);
        let entries = entries(&pages)?;
        let is_table = |entry: &&Entry| entry.kind == "table" && !is_internal(&entry.name);
        let mut names = entries.iter().filter(is_table).map(|entry| format!("'{}'", entry.name)).collect::<Vec<_>>();
        names.sort();
        let tables = format!("its tables are {}", names.join(", "));
        let Some(table) = options.table.as_deref() else {
            return Err(Error::input(format!("{path}: which table of the database is not said")).with_hint(tables));
        };
        let found = entries.iter().filter(|entry| entry.kind == "table" || entry.kind == "view");
        let found = found.clone().find(|entry| entry.name == table).or_else(|| {
            let mut alike = found.filter(|entry| entry.name.eq_ignore_ascii_case(table));
            alike.next()
        });
        let Some(entry) = found else {
            return Err(Error::input(format!("{path}: the database has no table '{table}'")).with_hint(tables));
        };
        let refused = |what: &str| Error::unsupported(format!("{path}: {what} is not supported")).with_code("0A000");
        if entry.kind == "view" {
            return Err(refused(&format!("'{table}' is a view, which")));
        }
        if entry.root == 0 {
            return Err(refused(&format!("the virtual table '{table}'")));
        }
        let told = declared::columns(&entry.sql);
        let told = told.ok_or_else(|| refused(&format!("what declares the table '{table}' ({})", entry.sql)))?;
        if told.is_without_rowid {
            return Err(refused(&format!("'{table}' is a table WITHOUT ROWID, which")));
        }
        if let Some(column) = told.columns.iter().find(|column| column.is_generated) {
            return Err(refused(&format!("the generated column '{}'", column.name)));
        }
        if options.schema.is_some() || !options.types.is_empty() || options.filename.is_some() {
            return Err(Error::input(format!("{path}: the columns of a database's table cannot be declared"))
                .with_hint("all_varchar = true reads all columns as texts"));
        }
        let mut told = told;
        if options.csv.all_text {
            told.columns.iter_mut().for_each(|column| column.ty = DataType::Utf8View);
        }
        let fields = told.columns.iter().map(DeclaredColumn::field).collect::<Vec<_>>();
        let leaves = tree::leaves(&pages, entry.root)?;
        Ok(Self { schema: Arc::new(Schema::new(fields)), pages, columns: told.columns, leaves })
    }

    /// The file and its log, which change when the table does.
    pub fn sources(&self) -> Vec<Arc<Source>> {
        self.pages.sources()
    }

    /// The paths that are looked at whether the database has changed.
    pub fn watched(&self) -> Vec<PathBuf> {
        self.pages.watched()
    }

    /// What the file says without being read.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            num_rows: Precision::Absent,
            total_byte_size: Precision::Inexact(self.leaves.len() * self.pages.page_bytes),
            column_statistics: self.columns.iter().map(|_| ColumnStatistics::new_unknown()).collect(),
        }
    }

    /// All clusters.
    pub fn scan(self: &Arc<Self>) -> FileScan {
        let pages = (CLUSTER_BYTES / self.pages.page_bytes).max(1);
        let mut scan = FileScan::default();
        for start in (0..self.leaves.len()).step_by(pages) {
            let end = (start + pages).min(self.leaves.len());
            scan.clusters.push((0, Arc::new(SqliteCluster { table: self.clone(), start, end })));
        }
        scan
    }
}

/// Some pages of a table.
struct SqliteCluster {
    table: Arc<SqliteTable>,
    start: usize,
    end: usize,
}

impl fmt::Debug for SqliteCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Pages with rows, and what of long rows lies elsewhere, by the page that it begins at.
struct PageBytes {
    leaves: Vec<(u32, Bytes)>,
    overflow: HashMap<u32, Vec<u8>>,
}

impl Cluster for SqliteCluster {
    fn rows(&self) -> Option<usize> {
        None
    }

    fn bytes(&self, _: &[usize]) -> usize {
        (self.end - self.start) * self.table.pages.page_bytes
    }

    fn fetch(&self, _: &[usize]) -> Fetch {
        let (table, start, end) = (self.table.clone(), self.start, self.end);
        Fetch::Blocking(Box::new(move || {
            let pages = &table.pages;
            let leaves = pages.pages(&table.leaves[start..end])?;
            let mut overflow = HashMap::new();
            for (page, bytes) in &leaves {
                overflow.extend(Leaf::new(pages, *page, bytes)?.overflow()?);
            }
            let bytes = leaves.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            let bytes = bytes + overflow.values().map(Vec::len).sum::<usize>();
            Ok(Fetched { bytes, content: Box::new(PageBytes { leaves, overflow }) })
        }))
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let bytes = fetched.content.downcast::<PageBytes>();
        let bytes = bytes.map_err(|_| Error::bug("what was fetched from another cluster came to one of SQLite"))?;
        let columns = missing_columns_of(request);
        let source = PageBatches { table: self.table.clone(), bytes: *bytes, next: 0, columns: columns.clone() };
        Ok(Box::new(Sieve::new(BatchWindows::new(source, columns), request.clone(), self.table.schema.clone())))
    }

    fn describe(&self) -> String {
        format!("{}, pages {} to {} of the table", self.table.pages.name(), self.start, self.end - 1)
    }
}

/// Decodes pages.
struct PageBatches {
    table: Arc<SqliteTable>,
    bytes: PageBytes,
    next: usize,
    columns: Vec<usize>,
}

/// Pages that are decoded at once: a few thousand rows.
const PAGES_AT_ONCE: usize = 32;

impl BatchSource for PageBatches {
    fn next_batch(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>> {
        let pages = &self.table.pages;
        while self.next < self.bytes.leaves.len() {
            let end = (self.next + PAGES_AT_ONCE).min(self.bytes.leaves.len());
            let mut cells = Vec::new();
            for (page, bytes) in &self.bytes.leaves[self.next..end] {
                cells.extend(Leaf::new(pages, *page, bytes)?.cells(&self.bytes.overflow)?);
            }
            self.next = end;
            if cells.is_empty() {
                continue;
            }
            let arrays = self.columns.iter().map(|&column| {
                values::array(&self.table.columns[column], column, &cells, pages.encoding)
                    .map_err(|what| pages.error(what))
            });
            return Ok(Some((arrays.collect::<Result<Vec<_>>>()?, cells.len())));
        }
        Ok(None)
    }
}
