//! `read_text` and `read_blob`: files as rows, with what is in each as one value.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use diligence_base::seams::OpenMode;
use diligence_base::{Error, Result};
use diligence_storage::external::matching_files;
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;

use super::around::Around;

/// Bytes of all files of one call at most: they are in memory at once.
const BYTES_MAX: u64 = 256 << 20;

/// Whether a function reads files as a whole.
pub(super) fn is_one(name: &str) -> bool {
    matches!(name, "read_text" | "read_blob")
}

impl Around<'_> {
    /// A row for each file: its name, what is in it, its size and when it changed. Fails with 22021 for bytes that are
    /// no text, 54000 for files that are too large.
    pub(super) fn whole_files(&self, is_text: bool, locations: &[String]) -> Result<RecordBatch> {
        let disk = &self.at.options.files;
        let (mut names, mut contents, mut changed) = (Vec::new(), Vec::<Vec<u8>>::new(), Vec::new());
        let mut left = BYTES_MAX;
        for location in locations {
            for name in matching_files(location, disk)? {
                if name.contains("://") && !name.starts_with("file://") {
                    let error = Error::unsupported(format!("'{name}' is not read as a whole: it is no local file"));
                    return Err(error.with_code("0A000").with_hint("copy the file here first"));
                }
                let path = Path::new(name.strip_prefix("file://").unwrap_or(&name));
                let failed = |error: std::io::Error| {
                    Error::file(format!("could not read file \"{name}\": {error}")).with_code("58030")
                };
                let file = disk.open(path, OpenMode::READ).map_err(failed)?;
                let bytes = file.bytes().map_err(failed)?;
                left = left.checked_sub(bytes).ok_or_else(|| {
                    let message =
                        format!("the files have more than {BYTES_MAX} bytes, which are too many to be values");
                    Error::resource(message).with_code("54000").with_hint("read_csv reads lines")
                })?;
                let mut content = vec![0; bytes as usize];
                file.read_exact_at(&mut content, 0).map_err(failed)?;
                if is_text && std::str::from_utf8(&content).is_err() {
                    let error = Error::input(format!("file \"{name}\" is not text in UTF-8")).with_code("22021");
                    return Err(error.with_hint("read_blob reads bytes"));
                }
                let modified = disk.meta(path).map_err(failed)?.modified.duration_since(UNIX_EPOCH);
                changed.push(modified.ok().and_then(|since| i64::try_from(since.as_micros()).ok()));
                names.push(name);
                contents.push(content);
            }
        }
        let sizes = contents.iter().map(|content| content.len() as i64).collect::<Vec<_>>();
        let instant = SqlType::TimestampTz.arrow();
        let zone = match &instant {
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => zone.clone(),
            _ => return Err(Error::bug("an instant is none")),
        };
        let content: ArrayRef = match is_text {
            true => {
                let texts = contents.iter().map(|content| String::from_utf8_lossy(content)).collect::<Vec<_>>();
                Arc::new(StringViewArray::from_iter_values(texts))
            }
            false => Arc::new(BinaryViewArray::from_iter_values(contents)),
        };
        let changed: ArrayRef = Arc::new(TimestampMicrosecondArray::from(changed).with_timezone(zone));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from_iter_values(names)),
            content,
            Arc::new(Int64Array::from(sizes)),
            changed,
        ];
        let fields = ["filename", "content", "size", "last_modified"].into_iter().zip(&columns);
        let fields = fields.map(|(name, column)| Field::new(name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns).map_err(from_arrow)
    }
}
