//! What comes before a writer of files: the columns that are folders' names become text as it is read back, and a NULL
//! in a column that allows none is an error of INSERT.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::config::ConfigOptions;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::FileRelation;
use diligence_storage::Table;
use diligence_storage::external::{
    Compression, Destination, Encoding, FileWriter, Format, OpenOptions, PARTITION_NULL_NAME, WriteExtras,
};
use diligence_storage::foreign_error::from_datafusion;

use super::CopyTarget;
use super::extras::ALL_COLUMNS;
use super::formats::{file_rows_max, write_format};
use crate::algebra::Numbers;
use crate::binder::{self, Bound, Held};
use crate::errors::suggest;

/// Digits of a `numeric` without parentheses in Parquet and Arrow files, and those behind the point: readers know 38 at
/// most, and some of Arrow's refuse files that have more. Values are rounded to them, as by an assignment to such a
/// column.
const NUMERIC: (u8, i8) = (38, 18);

/// The option of COPY that leaves partition columns in the files, too.
const KEEP_PARTITION_COLUMNS: &str = "execution.keep_partition_by_columns";

/// What writes the rows of an INSERT into a folder, and the rows as they are written. `rows` have the table's columns.
/// Fails with kind `Unsupported` if the table takes no rows.
pub(crate) fn insert_plan(
    settings: &ConfigOptions,
    rows: Bound,
    relation: &Arc<FileRelation>,
    replace: bool,
    disk: Arc<dyn Disk>,
    numbers: &Numbers,
) -> Result<(Bound, FileWriter)> {
    let table = relation.table()?;
    let (folder, ending) = table.folder_for_new(relation.options.compression.unwrap_or(Compression::Plain))?;
    let partitions = table.partition_columns();
    let schema = table.schema();
    let in_files = schema.fields().iter().filter(|field| !partitions.contains(field.name())).collect::<Vec<_>>();
    if in_files.is_empty() {
        return Err(nothing_to_write());
    }
    let format = write_format(settings, table.format(), &writing_options(table.format(), &relation.options, &in_files));
    let nested_as_text = table.format() == Format::Csv;
    let held = Held { folders: (partitions, PARTITION_NULL_NAME), nested_as_text, numeric: None };
    let required = schema.fields().iter().filter(|field| !field.is_nullable()).map(|field| field.name().clone());
    let writer = FileWriter {
        name: relation.location.clone(),
        format: format.map_err(from_datafusion)?,
        extras: WriteExtras {
            delimiter: wide_delimiter(&relation.options),
            encoding: relation.options.encoding.filter(|encoding| *encoding != Encoding::Utf8),
            ..WriteExtras::default()
        },
        destination: Destination::Table { folder, ending, files: relation.clone(), replace },
        partition_columns: partitions.to_vec(),
        keeps_partition_columns: false,
        required_columns: required.collect(),
        file_rows_max: file_rows_max(settings),
        disk,
    };
    Ok((binder::held(rows, &held, numbers), writer))
}

/// What writes the rows of a COPY, and the rows as they are written: with PARTITIONED BY, values become the names of
/// folders as they are read back; nested values become text in CSV. Fails with kind `Input` if the columns' names or
/// an option make no sense, `Unsupported` if the format has no form for a column.
pub(crate) fn copy_plan(
    settings: &ConfigOptions,
    rows: Bound,
    target: CopyTarget,
    partition_by: Vec<String>,
    options: &HashMap<String, String>,
    disk: Arc<dyn Disk>,
    numbers: &Numbers,
) -> Result<(Bound, FileWriter)> {
    let format = target.format;
    let names = rows.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let extras = extras_of(&target.extras, &names)?;
    if format != Format::Csv {
        refuse_twice(&names)?;
    }
    if let Some(unknown) = partition_by.iter().find(|column| !names.contains(column)) {
        let error = Error::input(format!("PARTITIONED BY names the column '{unknown}', which the rows do not have"));
        return Err(suggest(error, unknown, &names));
    }
    let keeps = match options.get(KEEP_PARTITION_COLUMNS).map(|value| value.trim()) {
        None => settings.execution.keep_partition_by_columns,
        Some("true") => true,
        Some("false") => false,
        Some(other) => {
            return Err(Error::input(format!("{KEEP_PARTITION_COLUMNS}: expected true or false, found '{other}'")));
        }
    };
    if !keeps && !partition_by.is_empty() && names.iter().all(|name| partition_by.contains(name)) {
        return Err(nothing_to_write());
    }
    let held = Held {
        folders: (if keeps { &[] } else { &partition_by }, PARTITION_NULL_NAME),
        nested_as_text: format == Format::Csv,
        numeric: matches!(format, Format::Parquet | Format::Arrow).then_some(NUMERIC),
    };
    let rows = binder::held(rows, &held, numbers);
    let written = write_format(settings, format, options).map_err(from_datafusion);
    let writer = FileWriter {
        destination: target.place(!partition_by.is_empty(), &disk)?,
        name: target.name,
        format: written.map_err(|error| wrong_option(error, settings, format, options))?,
        extras,
        partition_columns: partition_by,
        keeps_partition_columns: keeps,
        required_columns: vec![],
        file_rows_max: file_rows_max(settings),
        disk,
    };
    Ok((rows, writer))
}

/// The error for an option that a format does not have, or not with this value, in words of SQL.
fn wrong_option(error: Error, settings: &ConfigOptions, format: Format, options: &HashMap<String, String>) -> Error {
    let name = error.message().strip_prefix("Config value \"").and_then(|rest| rest.split_once("\" not found on"));
    let Some((name, _)) = name else {
        let alone = |name: &str, value: &str| HashMap::from([(name.to_owned(), value.to_owned())]);
        let wrong = options.iter().find(|(name, value)| write_format(settings, format, &alone(name, value)).is_err());
        let Some((name, value)) = wrong else { return error };
        let name = name.strip_prefix("format.").unwrap_or(name);
        let told = format!("the option '{name}' cannot be '{value}': {}", error.message());
        return Error::input(told).with_code("22023");
    };
    Error::input(format!("COPY has no option '{name}' for files of {}", format.name())).with_code("42601")
}

/// What is said besides, of columns that there are. Fails with 42703 for others.
fn extras_of(said: &WriteExtras, names: &[String]) -> Result<WriteExtras> {
    let mut extras = said.clone();
    let told = extras.quoted_columns.iter().chain(extras.field_ids.keys()).filter(|name| *name != ALL_COLUMNS);
    if let Some(unknown) = told.clone().find(|name| !names.contains(name)) {
        let error = Error::input(format!("column \"{unknown}\" does not exist")).with_code("42703");
        return Err(suggest(error, unknown, names));
    }
    if extras.field_ids.remove(ALL_COLUMNS).is_some() {
        for (id, name) in (0..).zip(names) {
            extras.field_ids.entry(name.clone()).or_insert(id);
        }
    }
    Ok(extras)
}

fn nothing_to_write() -> Error {
    Error::unsupported("all columns of the table are in the names of folders: there is nothing to write")
}

/// Fails with 42701 if a name comes twice: files have each column once.
fn refuse_twice(names: &[String]) -> Result<()> {
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    twice.map_or(Ok(()), |(_, name)| {
        let error = Error::input(format!("column \"{name}\" specified more than once")).with_code("42701");
        Err(error.with_hint("give one of them another name with AS"))
    })
}

/// What is between the fields of a table's files, if it has several bytes.
fn wide_delimiter(options: &OpenOptions) -> Option<String> {
    let tail = &options.csv.delimiter_tail;
    let first = options.csv.delimiter.filter(|_| !tail.is_empty())?;
    String::from_utf8([&[first][..], tail].concat()).ok()
}

/// How to write files so that the table reads them as it reads the others.
fn writing_options(format: Format, options: &OpenOptions, columns: &[&FieldRef]) -> HashMap<String, String> {
    let mut writing = HashMap::new();
    let mut set = |name: &str, value: String| {
        writing.insert(format!("format.{name}"), value);
    };
    let compression = match options.compression {
        Some(Compression::Gzip) => "gzip",
        Some(Compression::Zstandard) => "zstd",
        Some(Compression::Bzip2) => "bzip2",
        Some(Compression::Xz) => "xz",
        Some(Compression::Plain) | None => "uncompressed",
    };
    match format {
        Format::Parquet | Format::Arrow | Format::Delta | Format::Iceberg | Format::Sqlite => {}
        Format::Json => set("compression", compression.to_owned()),
        Format::Csv => {
            set("compression", compression.to_owned());
            let csv = &options.csv;
            // Columns without names are numbered.
            let numbered = |(index, field): (usize, &&FieldRef)| *field.name() == format!("column_{}", index + 1);
            let has_header = csv.has_header.unwrap_or(!columns.iter().enumerate().all(numbered));
            set("has_header", has_header.to_string());
            let text = |byte: u8| char::from(byte).to_string();
            if let Some(delimiter) = csv.delimiter.filter(|_| csv.delimiter_tail.is_empty()) {
                set("delimiter", text(delimiter));
            }
            if let Some(quote) = csv.quote {
                set("quote", text(quote));
            }
            if let Some(escape) = csv.escape {
                set("escape", text(escape));
                set("double_quote", "false".to_owned());
            }
            if let Some(null) = csv.nulls.first() {
                set("null_value", null.clone());
            }
        }
    }
    writing
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn files_are_written_as_the_table_reads_them() {
        let fields = ["a", "b"].map(|name| Arc::new(Field::new(name, DataType::Int64, true)));
        let columns = fields.iter().collect::<Vec<_>>();
        let mut options = OpenOptions::default();
        let written = writing_options(Format::Csv, &options, &columns);
        assert_eq!(written["format.has_header"], "true");
        assert!(!written.contains_key("format.delimiter"));
        options.csv.delimiter = Some(b'|');
        options.csv.has_header = Some(false);
        options.csv.nulls = vec!["-".to_owned()];
        options.compression = Some(Compression::Gzip);
        let written = writing_options(Format::Csv, &options, &columns);
        assert_eq!(written["format.delimiter"], "|");
        assert_eq!(written["format.has_header"], "false");
        assert_eq!(written["format.null_value"], "-");
        assert_eq!(written["format.compression"], "gzip");
        assert!(writing_options(Format::Parquet, &options, &columns).is_empty());
        let numbered = ["column_1", "column_2"].map(|name| Arc::new(Field::new(name, DataType::Int64, true)));
        let written = writing_options(Format::Csv, &OpenOptions::default(), &numbered.iter().collect::<Vec<_>>());
        assert_eq!(written["format.has_header"], "false");
    }
}
