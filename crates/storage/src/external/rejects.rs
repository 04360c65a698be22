//! Records of separated values and of JSON that were left out, for whoever asks afterwards: which, where, and why.
//!
//! They belong to a session. Each table that is opened with them is a scan of its own; what of its records is wrong is
//! known when they are read, so a query that stops early leaves only what it has met.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use diligence_base::Result;
use parking_lot::Mutex;

use crate::foreign_error::from_arrow;

/// Records that a session keeps at most, whatever it asks for.
const REJECTS_MAX: usize = 100_000;

/// Bytes of a record that are kept at most.
const RECORD_BYTES_KEPT: usize = 4096;

/// What a session has left out.
#[derive(Default)]
pub struct Rejects(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    scans: Vec<RejectScan>,
    errors: Vec<Reject>,
    last_scan: i64,
}

impl fmt::Debug for Rejects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rejects")
    }
}

/// A file with records.
pub(in crate::external) trait RecordFile: Send + Sync {
    /// What messages call it.
    fn name(&self) -> &str;
    /// The numbers of the lines that begin at or hold these bytes, which are in order; none where that cannot be found
    /// out. Reads the file once.
    fn lines_of(&self, offsets: &[u64]) -> Vec<u64>;
}

/// How a file was read.
pub(in crate::external) struct RejectScan {
    /// The number of its scan; given when it begins.
    pub scan: i64,
    pub file: Arc<dyn RecordFile>,
    /// How separated values are written; `None` of JSON.
    pub written: Option<Written>,
    pub columns: String,
    pub date_format: Option<String>,
    pub timestamp_format: Option<String>,
}

/// How separated values are written.
pub(in crate::external) struct Written {
    pub delimiter: String,
    pub quote: u8,
    pub escape: Option<u8>,
    pub skip: usize,
    pub has_header: bool,
}

/// A record that was left out.
pub(in crate::external) struct Reject {
    /// Its file, among those of its scan.
    pub file: usize,
    /// Where it begins in the file.
    pub offset: u64,
    /// The line that it begins in, if that is known.
    pub line: Option<u64>,
    /// Where in the record what is wrong begins.
    pub within: usize,
    /// The field that is wrong, and its column's name.
    pub column: Option<(usize, String)>,
    pub kind: RejectKind,
    pub record: Vec<u8>,
    pub message: String,
}

/// Why a record was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::external) enum RejectKind {
    Cast,
    MissingColumns,
    TooManyColumns,
    UnquotedValue,
    InvalidEncoding,
    Malformed,
}

impl RejectKind {
    fn name(self) -> &'static str {
        match self {
            Self::Cast => "CAST",
            Self::MissingColumns => "MISSING COLUMNS",
            Self::TooManyColumns => "TOO MANY COLUMNS",
            Self::UnquotedValue => "UNQUOTED VALUE",
            Self::InvalidEncoding => "INVALID ENCODING",
            Self::Malformed => "MALFORMED",
        }
    }
}

/// A scan's place among what a session has left out.
#[derive(Clone, Debug)]
pub(in crate::external) struct ScanRejects {
    rejects: Arc<Rejects>,
    scan: i64,
    /// The number of its first file.
    first_file: usize,
    /// Records that it keeps at most.
    limit: usize,
}

impl ScanRejects {
    /// Keeps a record, unless there are too many already.
    pub fn add(&self, reject: Reject) {
        let mut kept = self.rejects.0.lock();
        let file = self.first_file + reject.file;
        let is_of_scan = |known: &&Reject| known.file >= self.first_file;
        if kept.errors.len() >= REJECTS_MAX || kept.errors.iter().filter(is_of_scan).count() >= self.limit {
            return;
        }
        let mut record = reject.record;
        record.truncate(RECORD_BYTES_KEPT);
        kept.errors.push(Reject { file, record, ..reject });
    }

    /// The number of the scan.
    pub fn scan(&self) -> i64 {
        self.scan
    }
}

impl Rejects {
    /// Whether there was a scan that keeps them.
    pub fn is_used(&self) -> bool {
        !self.0.lock().scans.is_empty()
    }

    /// Begins a scan of these files that keeps so many records at most; 0 for as many as a session may.
    pub(in crate::external) fn begin(self: &Arc<Self>, files: Vec<RejectScan>, limit: usize) -> ScanRejects {
        let mut kept = self.0.lock();
        kept.last_scan += 1;
        let (scan, first_file) = (kept.last_scan, kept.scans.len());
        kept.scans.extend(files.into_iter().map(|file| RejectScan { scan, ..file }));
        let limit = if limit == 0 { REJECTS_MAX } else { limit };
        ScanRejects { rejects: self.clone(), scan, first_file, limit }
    }

    /// The records that were left out, as DuckDB's `reject_errors`. Blocks while the lines of files are counted that
    /// are not known yet. Fails as Arrow does, which is a bug.
    pub fn errors(&self) -> Result<RecordBatch> {
        self.find_lines();
        let kept = self.0.lock();
        let errors = &kept.errors;
        let count = |of: &dyn Fn(&Reject) -> Option<i64>| -> ArrayRef {
            Arc::new(errors.iter().map(of).collect::<Int64Array>())
        };
        let text = |of: &dyn Fn(&Reject) -> Option<String>| -> ArrayRef {
            Arc::new(StringViewArray::from_iter(errors.iter().map(of)))
        };
        batch(vec![
            ("scan_id", count(&|error| Some(kept.scan_of(error.file)))),
            ("file_id", count(&|error| Some(error.file as i64))),
            ("line", count(&|error| error.line.map(|line| line as i64))),
            ("line_byte_position", count(&|error| Some(error.offset as i64 + 1))),
            ("byte_position", count(&|error| Some(error.offset as i64 + error.within as i64 + 1))),
            ("column_idx", count(&|error| error.column.as_ref().map(|(place, _)| *place as i64 + 1))),
            ("column_name", text(&|error| error.column.as_ref().map(|(_, name)| name.clone()))),
            ("error_type", text(&|error| Some(error.kind.name().to_owned()))),
            ("csv_line", text(&|error| Some(String::from_utf8_lossy(&error.record).into_owned()))),
            ("error_message", text(&|error| Some(error.message.clone()))),
        ])
    }

    /// The files that were read, as DuckDB's `reject_scans`. Fails as Arrow does, which is a bug.
    pub fn scans(&self) -> Result<RecordBatch> {
        let kept = self.0.lock();
        let scans = &kept.scans;
        let count = |of: &dyn Fn(usize) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..scans.len()).map(of)))
        };
        let text = |of: &dyn Fn(&RejectScan) -> Option<String>| -> ArrayRef {
            Arc::new(StringViewArray::from_iter(scans.iter().map(of)))
        };
        let byte = |of: &dyn Fn(&Written) -> u8| {
            text(&|scan| scan.written.as_ref().map(|written| char::from(of(written)).to_string()))
        };
        let has_header = scans.iter().map(|scan| scan.written.as_ref().map(|written| written.has_header));
        let skipped = scans.iter().map(|scan| scan.written.as_ref().map(|written| written.skip as i64));
        batch(vec![
            ("scan_id", count(&|file| kept.scan_of(file))),
            ("file_id", count(&|file| file as i64)),
            ("file_path", text(&|scan| Some(scan.file.name().trim_start_matches("./").to_owned()))),
            ("delimiter", text(&|scan| scan.written.as_ref().map(|written| written.delimiter.clone()))),
            ("quote", byte(&|written| written.quote)),
            ("escape", byte(&|written| written.escape.unwrap_or(written.quote))),
            ("newline_delimiter", text(&|_| Some("\\n".to_owned()))),
            ("skip_rows", Arc::new(Int64Array::from_iter(skipped))),
            ("has_header", Arc::new(BooleanArray::from_iter(has_header))),
            ("columns", text(&|scan| Some(scan.columns.clone()))),
            ("date_format", text(&|scan| scan.date_format.clone())),
            ("timestamp_format", text(&|scan| scan.timestamp_format.clone())),
            ("user_arguments", text(&|_| Some("store_rejects=true".to_owned()))),
        ])
    }

    /// Counts the lines before records of which only the place is known.
    fn find_lines(&self) {
        let mut wanted: BTreeMap<usize, (Arc<dyn RecordFile>, Vec<u64>)> = BTreeMap::new();
        {
            let kept = self.0.lock();
            for error in kept.errors.iter().filter(|error| error.line.is_none()) {
                let file = || (kept.scans[error.file].file.clone(), Vec::new());
                wanted.entry(error.file).or_insert_with(file).1.push(error.offset);
            }
        }
        for (number, (file, mut offsets)) in wanted {
            offsets.sort_unstable();
            let lines = file.lines_of(&offsets);
            let mut kept = self.0.lock();
            for error in kept.errors.iter_mut().filter(|error| error.file == number && error.line.is_none()) {
                let place = offsets.binary_search(&error.offset).ok();
                error.line = place.and_then(|place| lines.get(place).copied());
            }
        }
    }
}

impl Kept {
    /// The scan of a file. Scans have their files one behind the other.
    fn scan_of(&self, file: usize) -> i64 {
        self.scans.get(file).map_or(0, |scan| scan.scan)
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .map(|(name, array)| {
            let ty: &DataType = array.data_type();
            (Field::new(name, ty.clone(), true), array.clone())
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(from_arrow)
}
