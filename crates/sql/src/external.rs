//! The options of CREATE EXTERNAL TABLE.

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_storage::external::{Compression, CsvOptions, Format, OpenOptions};

use crate::errors::suggest;

/// The options of one kind of file from the words of a statement: the format after STORED AS, the pairs of OPTIONS with
/// names in lower case (`format.delimiter` and `delimiter` are the same), and the listed columns. Columns of
/// PARTITIONED BY are set by [`partitioned_by`].
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

/// The columns of PARTITIONED BY, as the parser gives them: with their quotes, and in any case without.
pub fn partitioned_by(options: &mut OpenOptions, columns: &[String]) -> Result<()> {
    if columns.is_empty() {
        return Ok(());
    }
    let names = columns.iter().map(|name| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    });
    let names = names.collect::<Vec<_>>();
    if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(Error::input(format!("the column '{}' appears twice in PARTITIONED BY", twice.1)));
    }
    if let Some(schema) = &options.schema
        && let Some(unknown) = names.iter().find(|name| schema.field_with_name(name).is_err())
    {
        let known = schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let error = Error::input(format!("PARTITIONED BY names the column '{unknown}', which is not declared"));
        return Err(suggest(error, unknown, &known));
    }
    options.partition_columns = Some(names);
    Ok(())
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
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn partition_columns_are_declared_ones() {
        let schema =
            Schema::new(vec![Field::new("year", DataType::Int32, true), Field::new("A b", DataType::Utf8, true)]);
        let schema = Arc::new(schema);
        let listed = |names: &[&str], schema| {
            let mut options = OpenOptions { schema, ..OpenOptions::default() };
            let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            partitioned_by(&mut options, &names).map(|()| options.partition_columns)
        };
        let names = listed(&["YEAR", "\"A b\""], Some(schema.clone())).unwrap();
        assert_eq!(names, Some(vec!["year".to_owned(), "A b".to_owned()]));
        assert_eq!(listed(&["\"Any\""], None).unwrap(), Some(vec!["Any".to_owned()]));
        assert_eq!(listed(&[], None).unwrap(), None);
        let unknown = listed(&["yaer"], Some(schema)).unwrap_err();
        assert_eq!(unknown.hint(), Some("did you mean 'year'?"));
        assert!(listed(&["a", "A"], None).is_err());
    }

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
