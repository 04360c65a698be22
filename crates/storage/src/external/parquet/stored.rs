//! One Parquet file whose columns are chosen by name, for tables that know which of its rows they have.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::Statistics;
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};

use super::cluster::ParquetCluster;
use super::footer::{self, Footer};
use super::{ParquetFile, ParquetTable, cut, pruning};
use crate::Cluster;
use crate::external::schema::{conform, conform_column, logical_schema};
use crate::external::source::Source;
use crate::memory::RowNumbers;

/// Where the checksums are among the metadata: eight digits for each column's part, row group by row group.
pub(crate) const CHECKSUMS_KEY: &str = "diligence.checksums";

/// What tells whether the end of a file is what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Where the row groups end.
    pub start: u64,
    /// The checksum of all that comes then.
    pub checksum: u32,
}

/// A file, opened, as columns of a table.
#[derive(Clone)]
pub(crate) struct ColumnFile {
    source: Arc<Source>,
    footer: Arc<Footer>,
    checksums: Arc<[u32]>,
    table: Arc<ParquetTable>,
}

impl std::fmt::Debug for ColumnFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.source.fmt(f)
    }
}

impl ColumnFile {
    /// Reads the footer. Its columns are all of the file's. Fails with kind `File` if it cannot be read, with code
    /// XX001 if it is not what was written.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, seal: Seal) -> Result<Self> {
        let meta = disk.meta(path).map_err(|error| Error::file(format!("{}: {error}", path.display())))?;
        let source = Arc::new(Source::local(meta, disk));
        let damaged = |what: &str| source.error(format!("{what}; the file is corrupt")).with_code("XX001");
        if seal.start > source.bytes
            || crc32fast::hash(&source.read_one_now(seal.start..source.bytes)?) != seal.checksum
        {
            return Err(damaged("the checksum of its end is wrong"));
        }
        let footer = footer::read_all(std::slice::from_ref(&source))?.pop();
        let footer = Arc::new(footer.ok_or_else(|| Error::bug("a file has no footer"))?);
        let schema = Arc::new(logical_schema(&footer.schema));
        let roots = (0..schema.fields().len()).map(Some).collect();
        let said = footer.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let checksums = said.into_iter().find(|pair| pair.key == CHECKSUMS_KEY).and_then(|pair| pair.value.as_deref());
        let checksums = checksums.ok_or_else(|| damaged("it has no checksums"))?.as_bytes().chunks(8);
        let checksum = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let checksums = checksums.map(checksum).collect::<Option<Arc<[u32]>>>();
        let checksums = checksums.ok_or_else(|| damaged("its checksums cannot be read"))?;
        let table = table_of(&source, &footer, &checksums, schema, roots);
        Ok(Self { source, footer, checksums, table })
    }

    /// The file's length.
    pub fn bytes(&self) -> u64 {
        self.source.bytes
    }

    /// The same file with these columns, which have these names in it; those that it does not have are NULL.
    pub fn with_columns(&self, columns: &SchemaRef, names: &[String]) -> Self {
        let roots = names.iter().map(|name| self.footer.schema.index_of(name).ok()).collect();
        let fields = columns.fields().iter().map(|field| Field::clone(field).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { table: table_of(&self.source, &self.footer, &self.checksums, schema, roots), ..self.clone() }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    /// The rows of a cluster.
    pub fn rows(&self, cluster: usize) -> Option<usize> {
        self.table.files[0].pieces.get(cluster).map(|piece| piece.rows.len())
    }

    /// What the footer knows.
    pub fn statistics(&self) -> Statistics {
        self.table.statistics()
    }

    /// For each cluster whether it may hold a row for which the predicate, over these columns, is true; empty, if all
    /// may.
    pub fn candidates(&self, predicate: &Arc<dyn PhysicalExpr>) -> Vec<bool> {
        let file = &self.table.files[0];
        let keep = pruning::Pruner::new(&self.table, Some(predicate)).row_groups(file);
        if keep.is_empty() {
            return keep;
        }
        file.pieces.iter().map(|piece| keep.get(piece.row_group).copied().unwrap_or(true)).collect()
    }

    /// A cluster; with numbers, they are one more column.
    pub fn cluster(&self, cluster: usize, numbers: Option<RowNumbers>) -> Result<Arc<dyn Cluster>> {
        if self.rows(cluster).is_none() {
            return Err(self.source.error(format!("it has no row group {cluster}")));
        }
        Ok(Arc::new(ParquetCluster::new(self.table.clone(), 0, cluster).with_numbers(numbers)))
    }

    /// A decoded column in the column's own type.
    pub fn as_declared(&self, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let array = conform_column(array, field, false).map_err(|error| self.source.blame(error))?;
        if array.data_type() == field.data_type() { Ok(array) } else { conform(array, field.data_type(), false) }
    }
}

fn table_of(
    source: &Arc<Source>,
    footer: &Arc<Footer>,
    checksums: &Arc<[u32]>,
    schema: SchemaRef,
    roots: Vec<Option<usize>>,
) -> Arc<ParquetTable> {
    let file = ParquetFile {
        source: source.clone(),
        metadata: footer.metadata.clone(),
        schema: footer.schema.clone(),
        leaves: footer.leaves.clone(),
        roots,
        renamed: Vec::new(),
        pieces: cut(&footer.metadata),
        checksums: Some(checksums.clone()),
        encrypted: footer.encrypted.clone(),
    };
    Arc::new(ParquetTable { schema, files: vec![file], statistics: OnceLock::new(), with_row_numbers: None })
}
