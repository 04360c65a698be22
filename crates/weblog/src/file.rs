//! The file: one, in the layout of writers other than ours.

use std::fs::File;
use std::path::Path;

use diligence_base::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::WebLog;

/// How the rows lie in the file.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Rows of the whole log.
    pub rows: u64,
    /// Rows of a row group.
    pub row_group_rows: usize,
    /// Whether there is a page index. Many writers leave it out.
    pub page_index: bool,
}

impl Layout {
    /// So many rows, in row groups of half a million without a page index.
    pub fn new(rows: u64) -> Self {
        Self { rows, row_group_rows: 500_000, page_index: false }
    }
}

/// Rows that are made and encoded at once.
const BATCH_ROWS: usize = 16_384;

/// Writes the log, with Snappy, dictionaries of up to a megabyte, and pages of about a megabyte. The file has its name
/// when it is complete. An error is of kind `File`.
pub fn write(log: &WebLog, layout: Layout, path: &Path) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| Error::file(format!("cannot write {}: {error}", path.display()));
    let unfinished = path.with_extension("unfinished");
    let file = File::create(&unfinished).map_err(|error| failed(&error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(if layout.page_index { EnabledStatistics::Page } else { EnabledStatistics::Chunk })
        .set_offset_index_disabled(!layout.page_index)
        // As most writers had it for long: pages end where they are full.
        .set_data_page_row_count_limit(usize::MAX)
        .set_max_row_group_row_count(Some(layout.row_group_rows.max(1)))
        .build();
    let mut writer = ArrowWriter::try_new(file, WebLog::schema(), Some(properties)).map_err(|error| failed(&error))?;
    let mut first = 0;
    while first < layout.rows {
        let rows = (layout.rows - first).min(BATCH_ROWS as u64);
        let batch = log.batch(first, rows as usize).map_err(|error| failed(&error))?;
        writer.write(&batch).map_err(|error| failed(&error))?;
        first += rows;
    }
    writer.close().map_err(|error| failed(&error))?;
    std::fs::rename(&unfinished, path).map_err(|error| failed(&error))
}
