//! The options of files by their names, which each kind of file has its own of.

use std::sync::Arc;

use arrow::datatypes::Schema;
use diligence_base::{Error, Result};
use diligence_storage::external::{Compression, Encoding, Format, LakeMoment, OpenOptions, PLACE};

use super::values::{byte, byte_or_none, candidate, count, delimiter, moment_of, number, time_format, truth};
use super::{NamedTypes, OptionValue};
use crate::errors::suggest;

/// Names that options have, for hints: of separated values, of text, and of all files.
const CSV_NAMES: [&str; 25] = [
    "auto_type_candidates",
    "files_to_sniff",
    "delimiter",
    "delim",
    "sep",
    "has_header",
    "header",
    "quote",
    "escape",
    "comment",
    "null_value",
    "nullstr",
    "skip",
    "decimal_separator",
    "thousands",
    "dateformat",
    "timestampformat",
    "all_varchar",
    "names",
    "null_padding",
    "force_not_null",
    "strict_mode",
    "normalize_names",
    "allow_quoted_nulls",
    "new_line",
];
const JSON_NAMES: [&str; 8] = [
    "format",
    "records",
    "maximum_depth",
    "dateformat",
    "timestampformat",
    "map_inference_threshold",
    "field_appearance_threshold",
    "maximum_sample_files",
];
const TEXT_NAMES: [&str; 9] = [
    "compression",
    "encoding",
    "ignore_errors",
    "store_rejects",
    "rejects_limit",
    "sample_size",
    "schema_infer_max_rec",
    "maximum_object_size",
    "max_line_size",
];
const NAMES: [&str; 7] =
    ["columns", "types", "filename", "union_by_name", "hive_partitioning", "hive_types", "hive_types_autocast"];

const DELTA_NAMES: [&str; 2] = ["version", "timestamp"];
const ICEBERG_NAMES: [&str; 6] =
    ["snapshot_from_id", "snapshot_from_timestamp", "allow_moved_paths", "endpoint", "warehouse", "token"];

/// Sets an option. Fails with kind `Input` if files of the format have none of the name, or if its value makes no
/// sense.
pub(super) fn set(options: &mut OpenOptions, name: &str, value: &OptionValue, types: NamedTypes<'_>) -> Result<()> {
    let (is_csv, is_text) = (has_separators(options.format), is_text(options.format));
    let is_set = set_of_format(options, name, value)?
        || is_csv && set_of_separated(options, name, value)?
        || is_text && set_of_text(options, name, value)?
        || set_of_any(options, name, value, types)?;
    match is_set {
        true => Ok(()),
        false => {
            let names = names_of(options.format).into_iter().map(String::from).collect::<Vec<_>>();
            Err(suggest(Error::input("there is no such option"), name, &names))
        }
    }
}

fn has_separators(format: Option<Format>) -> bool {
    matches!(format, Some(Format::Csv) | None)
}

fn is_text(format: Option<Format>) -> bool {
    matches!(format, Some(Format::Csv | Format::Json) | None)
}

/// The names that options of a format have.
fn names_of(format: Option<Format>) -> Vec<&'static str> {
    let mut names = match format {
        Some(Format::Delta) => DELTA_NAMES.to_vec(),
        Some(Format::Iceberg) => ICEBERG_NAMES.to_vec(),
        Some(Format::Sqlite) => vec!["table", "all_varchar"],
        _ => NAMES.to_vec(),
    };
    if is_text(format) {
        names.extend(TEXT_NAMES);
    }
    if has_separators(format) {
        names.extend(CSV_NAMES);
    }
    if format == Some(Format::Json) {
        names.extend(JSON_NAMES);
    }
    if format == Some(Format::Parquet) {
        names.extend(["binary_as_string", "file_row_number"]);
    }
    names
}

/// An option that files of one format alone have. `false` if it is none, as with the functions below.
fn set_of_format(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    match options.format {
        Some(Format::Delta) => set_of_delta(options, name, value),
        Some(Format::Iceberg) => set_of_iceberg(options, name, value),
        Some(Format::Sqlite) => set_of_sqlite(options, name, value),
        Some(Format::Parquet) => set_of_parquet(options, name, value),
        Some(Format::Json) => set_of_json(options, name, value),
        _ => Ok(false),
    }
}

fn set_of_delta(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    options.moment = Some(match name {
        "version" => LakeMoment::Version(number(value.one()?)?),
        "timestamp" => moment_of(value.one()?, "UTC")?,
        _ => return Ok(false),
    });
    Ok(true)
}

fn set_of_iceberg(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    let one = || value.one();
    match name {
        "snapshot_from_id" | "snapshot_id" => options.moment = Some(LakeMoment::Version(number(one()?)?)),
        "timestamp" | "snapshot_from_timestamp" => options.moment = Some(moment_of(one()?, "UTC")?),
        "endpoint" => options.catalog.get_or_insert_default().endpoint = one()?.to_owned(),
        "warehouse" => options.catalog.get_or_insert_default().warehouse = Some(one()?.to_owned()),
        "token" => options.catalog.get_or_insert_default().token = Some(one()?.to_owned()),
        // Moved tables are found anyway.
        "allow_moved_paths" => drop(truth(one()?)?),
        "version" => {
            let error = Error::unsupported("versions of the metadata of Iceberg tables cannot be chosen");
            return Err(error.with_code("0A000").with_hint("snapshot_from_id => … chooses a snapshot"));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_of_sqlite(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    match name {
        "table" => options.table = Some(value.one()?.to_owned()),
        "all_varchar" => options.csv.all_text = truth(value.one()?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_of_parquet(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    match name {
        "binary_as_string" => options.bytes_as_texts = truth(value.one()?)?,
        "file_row_number" => options.row_numbers = truth(value.one()?)?,
        "explicit_cardinality" => drop(number(value.one()?)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_of_json(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    let one = || value.one();
    let json = &mut options.json;
    match name {
        "format" => match one()?.to_ascii_lowercase().as_str() {
            "auto" => json.array = None,
            "newline_delimited" | "nd" | "unstructured" => json.array = Some(false),
            "array" => json.array = Some(true),
            other => return Err(Error::input(format!("no form of JSON files is named '{other}'"))),
        },
        "records" => {
            (json.whole, json.objects_only) = match one()?.to_ascii_lowercase().as_str() {
                "auto" => (false, false),
                value => (!truth(value)?, truth(value)?),
            };
        }
        "map_inference_threshold" => {
            json.map_keys_max = Some(usize::try_from(number(one()?)?).unwrap_or(usize::MAX));
        }
        "field_appearance_threshold" => {
            let text = one()?;
            let part = text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
            let wrong = || Error::input(format!("expected a part between 0 and 1, found '{text}'"));
            json.appearance_percent = Some((part.ok_or_else(wrong)? * 100.0).round() as u8);
        }
        // Records are looked at in all files.
        "maximum_sample_files" => drop(number(one()?)?),
        "maximum_depth" => json.depth_max = usize::try_from(number(one()?)?).ok(),
        _ => return Ok(false),
    }
    Ok(true)
}

/// An option of separated values.
fn set_of_separated(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    let one = || value.one();
    let csv = &mut options.csv;
    match name {
        "delimiter" | "delim" | "sep" => {
            let (first, tail) = delimiter(one()?)?;
            (csv.delimiter, csv.delimiter_tail) = (Some(first), tail);
        }
        "has_header" | "header" => csv.has_header = Some(truth(one()?)?),
        "quote" => csv.quote = Some(byte_or_none(one()?)?),
        "escape" if one()?.is_empty() => csv.escape = None,
        "escape" => csv.escape = Some(byte(one()?)?).filter(|escape| csv.quote.unwrap_or(b'"') != *escape),
        "comment" if one()?.is_empty() => csv.comment = None,
        "comment" => csv.comment = Some(byte(one()?)?),
        "null" | "null_value" | "nullstr" | "null_regex" => csv.nulls = value.texts()?,
        "force_not_null" => csv.without_nulls = value.texts()?,
        "skip" => csv.skip = count(one()?)?,
        "decimal_separator" | "decimal" => csv.decimal = Some(byte(one()?)?),
        "thousands" => csv.thousands = Some(byte(one()?)?),
        "all_varchar" => csv.all_text = truth(one()?)?,
        "names" | "column_names" => csv.names = value.texts()?,
        "null_padding" => csv.null_padding = truth(one()?)?,
        "normalize_names" => csv.plain_names = truth(one()?)?,
        "allow_quoted_nulls" => csv.quoted_nulls = truth(one()?)?,
        // All line ends are read.
        "new_line" => match one()? {
            "\\n" | "\\r" | "\\r\\n" | "\n" | "\r" | "\r\n" => {}
            other => {
                return Err(
                    Error::input(format!("no line ends in '{other}'")).with_hint("lines end in \\n, \\r or \\r\\n")
                );
            }
        },
        "files_to_sniff" => drop(number(one()?)?),
        "auto_type_candidates" => {
            csv.candidates = value.texts()?.iter().map(|name| candidate(name)).collect::<Result<_>>()?
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// An option of separated values and of JSON.
fn set_of_text(options: &mut OpenOptions, name: &str, value: &OptionValue) -> Result<bool> {
    let one = || value.one();
    match name {
        "dateformat" | "date_format" => {
            options.csv.date_format = time_format(one()?)?;
            options.json.date_format.clone_from(&options.csv.date_format);
        }
        "timestampformat" | "timestamp_format" => {
            options.csv.timestamp_format = time_format(one()?)?;
            options.json.timestamp_format.clone_from(&options.csv.timestamp_format);
        }
        // What DuckDB takes and is so here anyway.
        "strict_mode" | "rfc_4180" | "auto_detect" | "parallel" => drop(truth(one()?)?),
        "compression" | "compression_type" => {
            let name = one()?;
            options.compression = if name.eq_ignore_ascii_case("auto") || name.eq_ignore_ascii_case("auto_detect") {
                None
            } else {
                Some(Compression::from_name(name)?)
            };
        }
        "encoding" => options.encoding = Some(Encoding::from_name(one()?)?),
        "ignore_errors" => options.ignore_errors = truth(one()?)?,
        // Without it, whoever reads the files has taken the option out.
        "store_rejects" if !truth(one()?)? => {}
        "store_rejects" => {
            let error = Error::unsupported("records that are left out are kept for read_csv and read_json only");
            return Err(error.with_code("0A000").with_hint("SELECT … FROM read_csv('…', store_rejects = true)"));
        }
        "rejects_limit" => options.rejects_max = count(one()?)?,
        "rejects_table" | "rejects_scan" => {
            let error = Error::unsupported("tables of records that are left out have the names of DuckDB");
            return Err(error.with_code("0A000").with_hint("they are reject_errors and reject_scans"));
        }
        "schema_infer_max_rec" | "inference_rows" | "sample_size" => {
            options.inference_rows = if one()? == "-1" { usize::MAX } else { count(one()?)?.max(1) };
        }
        // Records may have 256 MiB anyway.
        "maximum_object_size" | "max_line_size" | "maximum_line_size" | "buffer_size" => drop(count(one()?)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// An option of all files.
fn set_of_any(options: &mut OpenOptions, name: &str, value: &OptionValue, types: NamedTypes<'_>) -> Result<bool> {
    let one = || value.one();
    match name {
        "columns" => {
            let fields = value.pairs()?.iter().map(|(name, told)| Ok(types(told.one()?)?.field(name, true)));
            options.schema = Some(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)));
        }
        "types" | "dtypes" | "column_types" | "hive_types" => set_types(options, value, types)?,
        // Names may be short: `f` is one.
        "filename" => match one()?.to_ascii_lowercase().as_str() {
            "true" | "1" => options.filename = Some("filename".to_owned()),
            "false" | "0" => options.filename = None,
            _ => options.filename = Some(one()?.to_owned()),
        },
        // Columns of several files are always found by their names.
        "union_by_name" => drop(truth(one()?)?),
        "hive_partitioning" => options.partition_columns = if truth(one()?)? { None } else { Some(vec![]) },
        "hive_types_autocast" => options.folder_texts = !truth(one()?)?,
        "encryption_config" => {
            return Err(Error::unsupported("files are read without decryption").with_code("0A000"));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The types of some columns, by their names or, in a list, by their places.
fn set_types(options: &mut OpenOptions, value: &OptionValue, types: NamedTypes<'_>) -> Result<()> {
    let mut add = |name: &str, told: &OptionValue| -> Result<()> {
        options.types.push((name.to_owned(), Arc::new(types(told.one()?)?.field(name, true))));
        Ok(())
    };
    match value {
        // By position: the first columns, which have names or numbers.
        OptionValue::List(told) => {
            told.iter().enumerate().try_for_each(|(place, told)| add(&format!("{PLACE}{place}"), told))
        }
        _ => value.pairs()?.iter().try_for_each(|(name, told)| add(name, told)),
    }
}
