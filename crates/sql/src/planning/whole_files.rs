//! `read_text` and `read_blob`: files as rows, with what is in each as one value. `read_xlsx`: a sheet's cells as rows.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use diligence_base::seams::OpenMode;
use diligence_base::{Error, Result};
use diligence_storage::external::{SheetOptions, matching_files, sheet_rows};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;

use super::around::Around;
use crate::external::{OptionValue, truth};

/// Bytes of all files of one call at most: they are in memory at once.
const BYTES_MAX: u64 = 256 << 20;

/// Whether a function reads files as a whole.
pub(super) fn is_one(name: &str) -> bool {
    matches!(name, "read_text" | "read_blob")
}

/// The function that reads a sheet.
pub(super) const SHEET: &str = "read_xlsx";

/// Whether a file's name is that of a spreadsheet.
pub(super) fn is_sheet(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.ends_with(".xlsx") || lower.ends_with(".xlsm")
}

/// How a sheet is read, as the options of `read_xlsx` say. Fails with 42601 for others.
fn sheet_options(pairs: &[(String, OptionValue)]) -> Result<SheetOptions> {
    let mut options = SheetOptions::default();
    for (name, value) in pairs {
        let text = value.texts()?.concat();
        let is_true = || truth(&text).map_err(|error| error.context(format!("the option '{name}'")));
        match name.as_str() {
            "sheet" => options.sheet = Some(text),
            "range" => options.range = Some(text),
            "header" => options.header = Some(is_true()?),
            "all_varchar" => options.all_text = is_true()?,
            "stop_at_empty" => options.stops_at_empty = Some(is_true()?),
            "ignore_errors" => options.ignore_errors = is_true()?,
            // Empty columns are texts anyway.
            "empty_as_varchar" => drop(is_true()?),
            _ => {
                let error = Error::input(format!("{SHEET} has no option '{name}'")).with_code("42601");
                return Err(error
                    .with_hint("the options are sheet, range, header, all_varchar, stop_at_empty and ignore_errors"));
            }
        }
    }
    Ok(options)
}

impl Around<'_> {
    /// A local file as a whole, of so many bytes at most, and when it changed, in microseconds since 1970. Fails with
    /// 0A000 for a file that is not here, 58030 for one that cannot be read, 54000 for one that is too large.
    fn whole_file(&self, name: &str, left: u64) -> Result<(Vec<u8>, Option<i64>)> {
        if name.contains("://") && !name.starts_with("file://") {
            let error = Error::unsupported(format!("'{name}' is not read as a whole: it is no local file"));
            return Err(error.with_code("0A000").with_hint("copy the file here first"));
        }
        let disk = &self.at.options.files;
        let path = Path::new(name.strip_prefix("file://").unwrap_or(name));
        let failed =
            |error: std::io::Error| Error::file(format!("could not read file \"{name}\": {error}")).with_code("58030");
        let file = disk.open(path, OpenMode::READ).map_err(failed)?;
        let bytes = file.bytes().map_err(failed)?;
        if bytes > left {
            let message =
                format!("the files have more than {BYTES_MAX} bytes, which are too many to be read as a whole");
            return Err(Error::resource(message).with_code("54000").with_hint("read_csv reads lines"));
        }
        let mut content = vec![0; bytes as usize];
        file.read_exact_at(&mut content, 0).map_err(failed)?;
        let modified = disk.meta(path).map_err(failed)?.modified.duration_since(UNIX_EPOCH);
        Ok((content, modified.ok().and_then(|since| i64::try_from(since.as_micros()).ok())))
    }

    /// The rows of a spreadsheet's sheet. Fails with 42601 for several files and for options that there are not, and as
    /// reading the sheet does.
    pub(super) fn sheet(&self, location: &str, pairs: &[(String, OptionValue)]) -> Result<RecordBatch> {
        let options = sheet_options(pairs)?;
        let files = matching_files(location, &self.at.options.files)?;
        let [name] = files.as_slice() else {
            let message = format!("{SHEET} reads one file, and '{location}' are {}", files.len());
            return Err(Error::input(message).with_code("42601").with_hint("UNION ALL BY NAME puts sheets together"));
        };
        let (content, _) = self.whole_file(name, BYTES_MAX)?;
        sheet_rows(content, &options).map_err(|error| error.context(name))
    }

    /// A row for each file: its name, what is in it, its size and when it changed. Fails with 22021 for bytes that are
    /// no text, 54000 for files that are too large.
    pub(super) fn whole_files(&self, is_text: bool, locations: &[String]) -> Result<RecordBatch> {
        let disk = &self.at.options.files;
        let (mut names, mut contents, mut changed) = (Vec::new(), Vec::<Vec<u8>>::new(), Vec::new());
        let mut left = BYTES_MAX;
        for location in locations {
            for name in matching_files(location, disk)? {
                let (content, modified) = self.whole_file(&name, left)?;
                left -= content.len() as u64;
                if is_text && std::str::from_utf8(&content).is_err() {
                    let error = Error::input(format!("file \"{name}\" is not text in UTF-8")).with_code("22021");
                    return Err(error.with_hint("read_blob reads bytes"));
                }
                changed.push(modified);
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
