//! The options of CREATE EXTERNAL TABLE.

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_storage::external::{Compression, CsvOptions, Format, OpenOptions};

use crate::errors::suggest;

/// The options of one kind of file from the words of a statement: the format after STORED AS, the pairs of OPTIONS with
/// names in lower case (`format.delimiter` and `delimiter` are the same), and the listed columns.
pub fn open_options(format: &str, pairs: &HashMap<String, String>, schema: Option<SchemaRef>) -> Result<OpenOptions> {
    let mut options = OpenOptions { format: Some(Format::from_name(format)?), schema, ..OpenOptions::default() };
    if format.eq_ignore_ascii_case("tsv") {
        options.csv.delimiter = Some(b'\t');
    }
    for (name, value) in pairs {
        let short = name.strip_prefix("format.").unwrap_or(name);
        set(&mut options, short, value).map_err(|error| error.context(format!("the option '{name}'")))?;
    }
    Ok(options)
}

/// Names that options have, for hints.
const NAMES: [&str; 9] = [
    "delimiter",
    "has_header",
    "quote",
    "escape",
    "comment",
    "null_value",
    "compression",
    "schema_infer_max_rec",
    "header",
];

fn set(options: &mut OpenOptions, name: &str, value: &str) -> Result<()> {
    let CsvOptions { delimiter, has_header, quote, escape, comment, null } = &mut options.csv;
    match name {
        "delimiter" | "delim" | "sep" => *delimiter = Some(byte(value)?),
        "has_header" | "header" => *has_header = Some(truth(value)?),
        "quote" => *quote = Some(byte(value)?),
        "escape" => *escape = Some(byte(value)?),
        "comment" => *comment = Some(byte(value)?),
        "null" | "null_value" | "nullstr" | "null_regex" => *null = Some(value.to_owned()),
        "compression" | "compression_type" => options.compression = Some(Compression::from_name(value)?),
        "schema_infer_max_rec" | "inference_rows" | "sample_size" => {
            options.inference_rows =
                value.parse().map_err(|_| Error::input(format!("expected a number of records, found '{value}'")))?;
        }
        _ => {
            let names = NAMES.map(String::from);
            return Err(suggest(Error::input("there is no such option"), name, &names));
        }
    }
    Ok(())
}

fn byte(value: &str) -> Result<u8> {
    match value {
        "\\t" => return Ok(b'\t'),
        "\\0" => return Ok(0),
        _ => {}
    }
    match value.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(Error::input(format!("expected one character of one byte, found '{value}'"))),
    }
}

fn truth(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "off" | "0" => Ok(false),
        _ => Err(Error::input(format!("expected true or false, found '{value}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_long_and_short_names_and_wrong_ones_a_hint() {
        let pairs = |name: &str, value: &str| HashMap::from([(name.to_owned(), value.to_owned())]);
        let options = open_options("csv", &pairs("format.delimiter", "\\t"), None).unwrap();
        assert_eq!(options.csv.delimiter, Some(b'\t'));
        assert_eq!(open_options("CSV", &pairs("header", "off"), None).unwrap().csv.has_header, Some(false));
        let error = open_options("csv", &pairs("delimitr", ";"), None).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean 'delimiter'?"));
        assert!(open_options("csv", &pairs("delimiter", "ab"), None).is_err());
        assert!(open_options("xml", &HashMap::new(), None).unwrap_err().hint().is_some());
    }
}
