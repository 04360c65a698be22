//! What COPY says about the files it writes: in its options, in STORED AS, and by the target's name.

use diligence_base::{Error, Result};
use diligence_storage::external::{Compression, Format};
use sqlparser::ast::Value;

use super::Existing;
use crate::external::truth;
use crate::parse::CopyTo;

/// An option that names the format, as PostgreSQL has it, is as good as STORED AS.
pub(super) fn take_format(copy: &mut CopyTo) {
    if let Some(index) = copy.options.iter().position(|(key, _)| key.eq_ignore_ascii_case("format")) {
        let (_, value) = copy.options.remove(index);
        copy.format.get_or_insert(text_of(&value));
    }
}

/// The options that say what happens to files that are there already. Fails with kind `Input` if they contradict.
pub(super) fn take_existing(copy: &mut CopyTo) -> Result<Option<Existing>> {
    let mut found = None;
    for (name, meaning) in [
        ("append", Existing::Append),
        ("overwrite", Existing::Overwrite),
        ("overwrite_or_ignore", Existing::OverwriteOrIgnore),
    ] {
        let Some(index) = copy.options.iter().position(|(key, _)| plain(key) == name) else { continue };
        let (_, value) = copy.options.remove(index);
        match text_of(&value).to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "" => {}
            "false" | "0" | "off" => continue,
            other => return Err(Error::input(format!("the option '{name}': expected true or false, found '{other}'"))),
        }
        if found.replace(meaning).is_some() {
            return Err(Error::input("APPEND, OVERWRITE and OVERWRITE_OR_IGNORE exclude each other").with_code("42601"));
        }
    }
    Ok(found)
}

/// The format and compression that a statement says, or else its target's name shows.
pub(super) fn format_of(copy: &CopyTo) -> Result<(Format, Compression)> {
    let shown = Format::of_name(&copy.target);
    let format = match (&copy.format, shown) {
        (Some(name), _) => Format::from_name(name)?,
        (None, Some((format, _))) => format,
        (None, None) => {
            return Err(Error::input(format!("{}: its name does not show what to write", copy.target)).with_hint(
                "names should end in .parquet, .csv, .tsv, .json, .jsonl or .arrow, text also in .csv.gz or .json.zst; or say it: \
                 COPY … TO '…' STORED AS PARQUET",
            ));
        }
    };
    if let Format::Delta | Format::Iceberg | Format::Sqlite = format {
        let error = Error::unsupported(format!("tables of {} are not written", format.name()));
        return Err(error.with_code("0A000").with_hint("COPY … TO '…' STORED AS PARQUET writes Parquet files"));
    }
    let said = copy.options.iter().find(|(key, _)| plain(key) == "compression").map(|(_, value)| text_of(value));
    let compression = match (format, said) {
        (Format::Parquet | Format::Arrow, _) => Compression::Plain,
        (_, Some(said)) => Compression::from_name(&said)?,
        (_, None) => shown.map_or(Compression::Plain, |(_, compression)| compression),
    };
    Ok((format, compression))
}

/// An option's name as it is written here: in lower case, without what may stand before it.
pub(super) fn plain(key: &str) -> String {
    // Keys of metadata are as they are written.
    if key.starts_with("metadata::") {
        return key.to_owned();
    }
    let lower = key.to_ascii_lowercase();
    let short = lower.strip_prefix("format.").unwrap_or(&lower);
    match short {
        "header" => "has_header",
        "delim" | "sep" => "delimiter",
        "null" | "nullstr" => "null_value",
        "compression_type" | "codec" => "compression",
        "dateformat" => "date_format",
        "timestampformat" => "timestamp_format",
        "row_group_size" | "chunk_size" => "max_row_group_size",
        "write_bloom_filter" => "bloom_filter_on_write",
        "bloom_filter_false_positive_ratio" => "bloom_filter_fpp",
        "string_dictionary_page_size_limit" => "dictionary_page_size_limit",
        other => other,
    }
    .to_owned()
}

pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) | Value::EscapedStringLiteral(text) => {
            text.clone()
        }
        Value::Number(digits, _) => digits.replace('_', ""),
        other => other.to_string(),
    }
}

/// Names that options of text have, for hints.
const NAMES: [&str; 10] = [
    "has_header",
    "delimiter",
    "quote",
    "escape",
    "double_quote",
    "null_value",
    "compression",
    "date_format",
    "timestamp_format",
    "time_format",
];

/// Names that DataFusion has besides.
const OTHER_NAMES: [&str; 10] = [
    "terminator",
    "newlines_in_values",
    "compression_level",
    "schema_infer_max_rec",
    "datetime_format",
    "timestamp_tz_format",
    "null_regex",
    "comment",
    "truncated_rows",
    "quote_style",
];

/// A quote within quotes has what is said in front of it. By itself, an escape would mean nothing: quotes are doubled.
fn set_escape(options: &mut Vec<(String, Value)>) {
    let said = |name: &str| options.iter().find(|(key, _)| key == name).map(|(_, value)| text_of(value));
    let (escape, doubles) = (said("escape"), said("double_quote"));
    let is_quote = escape == Some(said("quote").unwrap_or_else(|| "\"".to_owned()));
    match escape {
        Some(_) if is_quote => options.retain(|(key, _)| key != "escape"),
        Some(_) if doubles.is_none() => {
            options.push(("double_quote".to_owned(), Value::SingleQuotedString("false".to_owned())));
        }
        _ => {}
    }
}

/// Writes the statement's options as DataFusion knows them, with what the target's name shows.
pub(super) fn set_options(copy: &mut CopyTo, format: Format, compression: Compression) -> Result<()> {
    let mut options = Vec::with_capacity(copy.options.len() + 2);
    for (key, value) in std::mem::take(&mut copy.options) {
        let name = plain(&key);
        if matches!(format, Format::Csv | Format::Json) && !name.contains('.') {
            if !NAMES.contains(&name.as_str()) && !OTHER_NAMES.contains(&name.as_str()) {
                let error = Error::input(format!("COPY has no option '{key}'"));
                return Err(crate::errors::suggest(error, &name, &NAMES.map(String::from)));
            }
            if name == "compression" {
                continue;
            }
        }
        let value = match text_of(&value).as_str() {
            "\\t" if name == "delimiter" => Value::SingleQuotedString("\t".to_owned()),
            said if matches!(name.as_str(), "has_header" | "double_quote") => {
                let named = |error: Error| Error::input(format!("the option '{key}': {}", error.message()));
                Value::SingleQuotedString(truth(said).map_err(named)?.to_string())
            }
            _ => value,
        };
        options.push((name, value));
    }
    if format == Format::Csv {
        set_escape(&mut options);
    }
    let mut set = |name: &str, value: &str| {
        if !options.iter().any(|(key, _)| key == name) {
            options.push((name.to_owned(), Value::SingleQuotedString(value.to_owned())));
        }
    };
    if matches!(format, Format::Csv | Format::Json) {
        let name = match compression {
            Compression::Plain => "uncompressed",
            other => other.name(),
        };
        set("compression", name);
    }
    let lower = copy.target.to_ascii_lowercase();
    let is_tsv = copy.format.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("tsv"));
    if format == Format::Csv {
        if is_tsv || lower.contains(".tsv") || lower.contains(".tab") {
            set("delimiter", "\t");
        } else if lower.contains(".psv") {
            set("delimiter", "|");
        }
    }
    copy.options = options;
    Ok(())
}
