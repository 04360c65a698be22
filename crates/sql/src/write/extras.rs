//! Options of COPY that are DuckDB's and PostgreSQL's, not those of the libraries that write: names that they have for
//! others, and what is said besides ([`WriteExtras`]).

use diligence_base::{Error, Result};
use diligence_storage::external::{DELIMITER_BYTES_MAX, Encoding, FileNames, Format, Frame, WriteExtras};
use sqlparser::ast::Value;

use super::options::{plain, text_of};
use crate::parse::CopyTo;

/// What stands for all columns in [`WriteExtras::field_ids`] until they are known.
pub(super) const ALL_COLUMNS: &str = "*";

/// The level of a Parquet compression that says none, as most writers have it.
const LEVELS: [(&str, &str); 3] = [("zstd", "3"), ("gzip", "6"), ("brotli", "4")];

/// What the options say besides the format's own.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// What the writer is told.
    pub writer: WriteExtras,
    /// Whether there is a folder of files, whatever its name ends in.
    pub is_folder: bool,
    /// What the names of files in a folder end in, without the point.
    pub extension: Option<String>,
}

/// Takes the options out that this module knows, and gives others the names that they have in `options`. Fails with
/// kind `Input` for values that make no sense, `Unsupported` for what is not done.
pub(super) fn take_extras(copy: &mut CopyTo, format: Format) -> Result<Extras> {
    let mut extras = Extras::default();
    let (mut prefix, mut suffix, mut level) = (None, None, None);
    let mut rest = Vec::with_capacity(copy.options.len());
    for (key, value) in std::mem::take(&mut copy.options) {
        let (name, text) = (plain(&key), text_of(&value));
        let wrong = |wanted: &str| {
            Error::input(format!("the option '{name}': expected {wanted}, found '{text}'")).with_code("22023")
        };
        let is_true = || truth(&text).ok_or_else(|| wrong("true or false"));
        let bytes = || size(&text).ok_or_else(|| wrong("a size such as 100MB"));
        let number = || text.parse::<u32>().map_err(|_| wrong("a number"));
        let part = || text.parse::<f64>().ok().filter(|part| *part > 0.0).ok_or_else(|| wrong("a number above 0"));
        let writer = &mut extras.writer;
        match (name.as_str(), format) {
            ("force_quote", Format::Csv) => match truth(&text) {
                Some(true) => writer.quoted_columns.push(ALL_COLUMNS.to_owned()),
                _ => writer.quoted_columns.push(text),
            },
            ("delimiter", Format::Csv) if text.len() > 1 && text != "\\t" => {
                if text.len() > DELIMITER_BYTES_MAX || text.contains(['\n', '\r', '"']) {
                    return Err(wrong("at most 4 bytes without quotes and ends of lines"));
                }
                writer.delimiter = Some(text);
            }
            ("quote" | "escape", Format::Csv) if text.len() != 1 => return Err(wrong("one character of one byte")),
            ("prefix", Format::Csv) => prefix = Some(text),
            ("suffix", Format::Csv) => suffix = Some(text),
            ("encoding", Format::Csv | Format::Json) => {
                let told = Encoding::from_name(&text).map_err(|error| error.with_code("22023"))?;
                writer.encoding = Some(told).filter(|told| *told != Encoding::Utf8);
            }
            ("array", Format::Json) => writer.frame = is_true()?.then(Frame::of_array),
            ("field_ids", Format::Parquet) if text.eq_ignore_ascii_case("auto") => {
                writer.field_ids.insert(ALL_COLUMNS.to_owned(), 0);
            }
            (other, Format::Parquet) if other.starts_with("field_ids::") => {
                let id = text.parse().map_err(|_| wrong("a number"))?;
                writer.field_ids.insert(behind(&key), id);
            }
            (other, Format::Parquet) if other.starts_with("kv_metadata::") => {
                rest.push((format!("metadata::{}", behind(&key)), Value::SingleQuotedString(text)));
            }
            ("file_size_bytes", _) => (writer.file_bytes_max, extras.is_folder) = (Some(bytes()?), true),
            ("row_group_size_bytes", Format::Parquet) => {
                writer.row_group_bytes_max = Some(usize::try_from(bytes()?).unwrap_or(usize::MAX));
            }
            ("per_thread_output", _) => extras.is_folder = is_true()?,
            ("write_partition_columns", _) => {
                let value = Value::SingleQuotedString(is_true()?.to_string());
                rest.push(("execution.keep_partition_by_columns".to_owned(), value));
            }
            // Files always come into their places when they are complete.
            ("use_tmp_file", _) => drop(is_true()?),
            ("dictionary_size_limit", Format::Parquet) => drop(number()?),
            ("dictionary_compression_ratio_threshold", Format::Parquet) => drop(part()?),
            ("hive_file_pattern" | "write_empty_file", _) if is_true()? => {}
            ("file_extension", _) => {
                extras.extension = Some(extension(&text).ok_or_else(|| wrong("an ending of names"))?)
            }
            ("compression_level", Format::Parquet) => level = Some(number()?.to_string()),
            ("parquet_version", Format::Parquet) => {
                let version = match text.to_ascii_lowercase().as_str() {
                    "v1" => "1.0",
                    "v2" => "2.0",
                    _ => return Err(wrong("v1 or v2")),
                };
                rest.push(("writer_version".to_owned(), Value::SingleQuotedString(version.to_owned())));
            }
            // Without it, nothing is promised, and order kept where it costs nothing.
            ("return_files" | "return_stats" | "preserve_order", _) if !is_true()? => {}
            ("filename_pattern", _) => writer.file_names = Some(FileNames::parse(&text)?),
            (
                "return_files" | "return_stats" | "preserve_order" | "encryption_config" | "hive_file_pattern"
                | "write_empty_file",
                _,
            ) => return Err(undone(&name)),
            (other, _) if other.starts_with("encryption_config::") => return Err(undone("encryption_config")),
            _ => rest.push((key, value)),
        }
    }
    if prefix.is_some() || suffix.is_some() {
        let (begin, end) = (prefix.unwrap_or_default(), suffix.unwrap_or_default());
        extras.writer.frame = Some(Frame { begin, between: "\n".to_owned(), end });
        without_header(&mut rest)?;
    }
    if format == Format::Parquet {
        with_level(&mut rest, level)?;
    }
    copy.options = rest;
    Ok(extras)
}

fn undone(name: &str) -> Error {
    let error = Error::unsupported(format!("COPY's option {} is not supported", name.to_uppercase()));
    error.with_code("0A000").with_hint(match name {
        "encryption_config" => "Parquet files are written and read without encryption",
        "write_empty_file" => "a file is written without rows, too, so that its columns are known",
        "preserve_order" => "SET preserve_order = on keeps the order of rows, also of those of folders",
        "hive_file_pattern" => "values of columns are in names of folders: 'year=2024'",
        _ => "glob('…') lists the files of a folder, parquet_metadata('…') tells about them",
    })
}

/// The ending of names that an option says, without its point; `None` if names cannot end so.
fn extension(text: &str) -> Option<String> {
    let ending = text.strip_prefix('.').unwrap_or(text);
    (!ending.is_empty() && !ending.contains(['/', '\\', '\0'])).then(|| ending.to_owned())
}

/// Text around the rows leaves no place for names of columns.
fn without_header(options: &mut Vec<(String, Value)>) -> Result<()> {
    match options.iter().find(|(key, _)| plain(key) == "has_header").map(|(_, value)| truth(&text_of(value))) {
        Some(Some(true)) => {
            Err(Error::input("COPY's HEADER cannot be combined with PREFIX and SUFFIX").with_code("42601"))
        }
        Some(_) => Ok(()),
        None => {
            options.push(("header".to_owned(), Value::SingleQuotedString("false".to_owned())));
            Ok(())
        }
    }
}

/// The compression of Parquet with its level: `zstd(3)`.
fn with_level(options: &mut [(String, Value)], level: Option<String>) -> Result<()> {
    let said = options.iter_mut().find(|(key, _)| plain(key) == "compression");
    let no_level = || Error::input("COMPRESSION_LEVEL goes with COMPRESSION zstd, gzip or brotli").with_code("42601");
    let Some((_, value)) = said else { return level.map_or(Ok(()), |_| Err(no_level())) };
    let name = text_of(value).to_ascii_lowercase();
    let known = LEVELS.iter().find(|(known, _)| *known == name);
    let full = match (known, level) {
        (Some((_, default)), level) => format!("{name}({})", level.as_deref().unwrap_or(default)),
        (None, Some(_)) => return Err(no_level()),
        (None, None) if matches!(name.as_str(), "none" | "") => "uncompressed".to_owned(),
        (None, None) => return Ok(()),
    };
    *value = Value::SingleQuotedString(full);
    Ok(())
}

/// What stands behind `::`, as it is written.
fn behind(key: &str) -> String {
    key.split_once("::").map_or(key, |(_, behind)| behind).to_owned()
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "" => Some(true),
        "false" | "0" | "off" => Some(false),
        _ => None,
    }
}

/// A number of bytes, with a unit or without.
fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "b" | "byte" | "bytes" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number = number.parse::<f64>().ok()?;
    (number > 0.0).then_some((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{SyntaxTree, parse_one};

    fn taken(options: &str, format: Format) -> Result<(Extras, Vec<(String, String)>)> {
        let SyntaxTree::CopyTo(mut copy) = parse_one(&format!("COPY t TO 'x' ({options})"))?.statement else {
            panic!("{options}")
        };
        let extras = take_extras(&mut copy, format)?;
        Ok((extras, copy.options.iter().map(|(key, value)| (key.clone(), text_of(value))).collect()))
    }

    #[test]
    fn what_is_said_besides_is_taken_out() {
        let (extras, rest) = taken("FORCE_QUOTE (a, \"B\"), HEADER", Format::Csv).unwrap();
        assert_eq!(extras.writer.quoted_columns, ["a", "B"]);
        assert_eq!(rest, [("HEADER".to_owned(), "true".to_owned())]);
        let (extras, rest) = taken("ENCODING 'latin1'", Format::Csv).unwrap();
        assert_eq!((extras.writer.encoding, rest.len()), (Some(Encoding::Latin1), 0));
        assert_eq!(taken("ENCODING 'UTF-8'", Format::Csv).unwrap().0.writer.encoding, None);
        assert!(taken("ENCODING 'klingon'", Format::Csv).is_err());
        let (extras, _) = taken("FORCE_QUOTE *", Format::Csv).unwrap();
        assert_eq!(extras.writer.quoted_columns, ["*"]);
        let (extras, rest) = taken("PREFIX '[', SUFFIX ']'", Format::Csv).unwrap();
        let frame = Frame { begin: "[".to_owned(), between: "\n".to_owned(), end: "]".to_owned() };
        assert_eq!(extras.writer.frame, Some(frame));
        assert_eq!(rest, [("header".to_owned(), "false".to_owned())]);
        assert!(taken("PREFIX '[', HEADER", Format::Csv).is_err());
        assert_eq!(taken("ARRAY", Format::Json).unwrap().0.writer.frame, Some(Frame::of_array()));
        assert_eq!(taken("ARRAY false", Format::Json).unwrap().0.writer.frame, None);
        let (extras, rest) = taken("FIELD_IDS {a: 42}, KV_METADATA {Who: 'me'}", Format::Parquet).unwrap();
        assert_eq!(extras.writer.field_ids["a"], 42);
        assert_eq!(rest, [("metadata::Who".to_owned(), "me".to_owned())]);
        let (extras, _) = taken("FILE_SIZE_BYTES '2kB', ROW_GROUP_SIZE_BYTES 4096", Format::Parquet).unwrap();
        assert_eq!((extras.writer.file_bytes_max, extras.writer.row_group_bytes_max), (Some(2000), Some(4096)));
        assert!(extras.is_folder);
        let (extras, rest) = taken("FILENAME_PATTERN 'a_{i}'", Format::Csv).unwrap();
        assert_eq!((extras.writer.file_names, rest.len()), (FileNames::parse("a_{i}").ok(), 0));
        assert!(taken("FILENAME_PATTERN 'a/b'", Format::Csv).is_err());
        let (extras, rest) = taken("FILE_EXTENSION '.txt', HIVE_FILE_PATTERN", Format::Csv).unwrap();
        assert_eq!((extras.extension.as_deref(), rest.len()), (Some("txt"), 0));
        assert!(taken("FILE_EXTENSION 'a/b'", Format::Csv).is_err());
        let (extras, rest) = taken("DELIMITER '||', WRITE_EMPTY_FILE", Format::Csv).unwrap();
        assert_eq!((extras.writer.delimiter.as_deref(), rest.len()), (Some("||"), 0));
        let (extras, rest) = taken("DELIM ';', QUOTE ''''", Format::Csv).unwrap();
        assert_eq!((extras.writer.delimiter, rest.len()), (None, 2));
        for wrong in ["DELIMITER 'abcde'", "DELIMITER '\"|'", "QUOTE 'ab'", "ESCAPE ''"] {
            assert!(taken(wrong, Format::Csv).is_err(), "{wrong}");
        }
    }

    #[test]
    fn compressions_have_levels() {
        for (options, expected) in [
            ("COMPRESSION zstd", "zstd(3)"),
            ("CODEC 'zstd'", "zstd(3)"),
            ("COMPRESSION zstd, COMPRESSION_LEVEL 7", "zstd(7)"),
            ("COMPRESSION 'zstd(9)'", "zstd(9)"),
            ("COMPRESSION snappy", "snappy"),
            ("COMPRESSION none", "uncompressed"),
        ] {
            assert_eq!(taken(options, Format::Parquet).unwrap().1[0].1, expected, "{options}");
        }
        assert!(taken("COMPRESSION snappy, COMPRESSION_LEVEL 7", Format::Parquet).is_err());
        assert!(taken("COMPRESSION_LEVEL 7", Format::Parquet).is_err());
    }

    #[test]
    fn what_is_not_done_is_an_error() {
        for options in
            ["RETURN_FILES", "ENCRYPTION_CONFIG {footer_key: 'k'}", "HIVE_FILE_PATTERN false", "WRITE_EMPTY_FILE false"]
        {
            let error = taken(options, Format::Parquet).unwrap_err();
            assert_eq!(error.code(), Some("0A000"), "{options}");
        }
        assert!(taken("RETURN_FILES false", Format::Parquet).unwrap().1.is_empty());
    }
}
