//! Other people's files: Parquet, CSV, JSON, Arrow and spreadsheets, as tables.
//!
//! [`open`] finds the files of a location, tells their format, reads what it takes to know their schema, and gives a
//! [`Table`](crate::Table). [`discover`] lists what in a folder can be opened. Every format divides its files into
//! clusters, fetches a cluster's bytes, and decodes them to windows of rows; dropping rows and gathering what is left
//! is done once for all formats, in `sieve`.
//!
//! Invariants: a file is untrusted; whatever is in it gives rows or an error that names it, never a panic, and no
//! length in it is believed before it is compared with the file's own length. No file is ever changed: INSERT adds
//! files, and COPY puts a whole file in the place of another (`write`).

mod about;
mod batches;
mod file_scan;
mod ipc;
mod lake;
mod location;
mod nested;
mod options;
mod parquet;
mod partitions;
mod rejects;
mod required;
mod schema;
mod selection;
mod sieve;
mod source;
mod spreadsheet;
mod sqlite;
mod stores;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod write;

pub use parquet::Seal;
pub(crate) use parquet::{ColumnFile, NumberedWindows, SeenValues, distinct_values, extreme, numbered_schema};
pub(crate) use schema::{conform, conform_column, is_wider, nulls};
pub(crate) use selection::true_rows;
pub(crate) use sieve::{SharedWindows, Sieve, Windows};
pub(crate) use source::Source;

pub use about::{ParquetAbout, about_parquet, sniffed};
pub use location::{Discovered, discover, matching_files};
pub use options::{
    Candidate, Compression, CsvOptions, DELIMITER_BYTES_MAX, Encoding, Format, LakeMoment, OpenOptions, PLACE,
    ROW_NUMBER_COLUMN, RestCatalog,
};
pub use partitions::NULL_NAME as PARTITION_NULL_NAME;
pub use rejects::Rejects;
pub use spreadsheet::{SheetOptions, sheet_rows};
pub use sqlite::sqlite_tables;
pub use stores::{open_store, store_error};
pub use table::{ExternalTable, open, open_in_store};
pub use write::{
    Destination, FileNames, FileSet, FileWriter, FolderFiles, Frame, Packing, Staging, WriteExtras, WriteFormat,
};
pub(crate) use write::{EncodedFile, unwritable_file};
