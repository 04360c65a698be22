//! The options of files: of CREATE EXTERNAL TABLE, of COPY … FROM, and of functions such as `read_csv`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use chrono::format::{Item, StrftimeItems};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::external::{
    Candidate, Compression, DELIMITER_BYTES_MAX, Encoding, Format, LakeMoment, OpenOptions, PLACE,
};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, Ident, UnaryOperator, Value};

use crate::errors::suggest;
use crate::parse::lower;

/// The column with the name of a row's file that tables of files have where a statement asks for it without the option.
pub(crate) const FILE_NAMES: &str = "file name of row";

/// The same column where the one in front of it has the number of the row in its file.
pub(crate) const FILE_NAMES_BEHIND_NUMBERS: &str = "file name of row, behind its number";

/// The value of an option, as a statement has it.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A text, a number or a word.
    One(String),
    /// `['a', 'b']`.
    List(Vec<OptionValue>),
    /// `{'a': 'b'}`.
    Pairs(Vec<(String, OptionValue)>),
}

impl OptionValue {
    /// The value that an expression of literals is; `None` for any other.
    pub fn of(expression: &Expr) -> Option<Self> {
        let one = |text: &str| Some(Self::One(text.to_owned()));
        let pair = |key: &Expr, value: &Expr| match Self::of(key)? {
            Self::One(key) => Some((key, Self::of(value)?)),
            _ => None,
        };
        match expression {
            Expr::Value(value) => match &value.value {
                Value::Null => None,
                Value::Boolean(truth) => Some(Self::One(truth.to_string())),
                Value::Number(digits, _) => one(&digits.to_string()),
                other => one(&other.clone().into_string()?),
            },
            Expr::Identifier(name) => one(&name.value),
            Expr::Nested(inner) => Self::of(inner),
            Expr::TypedString(typed) => one(&typed.value.value.clone().into_string()?),
            Expr::Cast { expr, .. } => Self::of(expr),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match Self::of(expr)? {
                Self::One(digits) => Some(Self::One(format!("-{digits}"))),
                _ => None,
            },
            Expr::Array(array) => Some(Self::List(array.elem.iter().map(Self::of).collect::<Option<_>>()?)),
            Expr::Dictionary(fields) => {
                let pairs = fields.iter().map(|field| Some((field.key.value.clone(), Self::of(&field.value)?)));
                Some(Self::Pairs(pairs.collect::<Option<_>>()?))
            }
            Expr::Map(map) => {
                let pairs = map.entries.iter().map(|entry| pair(&entry.key, &entry.value));
                Some(Self::Pairs(pairs.collect::<Option<_>>()?))
            }
            Expr::Struct { values, .. } => {
                let pairs = values.iter().map(|value| match value {
                    Expr::Named { expr, name } => Some((name.value.clone(), Self::of(expr)?)),
                    _ => None,
                });
                Some(Self::Pairs(pairs.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    fn one(&self) -> Result<&str> {
        match self {
            Self::One(text) => Ok(text),
            _ => Err(Error::input("expected one value")),
        }
    }

    /// A list, or one value as a list.
    pub fn texts(&self) -> Result<Vec<String>> {
        match self {
            Self::List(values) => values.iter().map(|value| value.one().map(str::to_owned)).collect(),
            other => Ok(vec![other.one()?.to_owned()]),
        }
    }

    fn pairs(&self) -> Result<&[(String, OptionValue)]> {
        match self {
            Self::Pairs(pairs) => Ok(pairs),
            _ => Err(Error::input("expected names with values: {'a': 'BIGINT', …}")),
        }
    }
}

/// What an option's text says about types.
pub type NamedTypes<'a> = &'a dyn Fn(&str) -> Result<SqlType>;

/// The functions that read files, with the format that they read.
pub const READERS: [(&str, Format); 18] = [
    ("read_csv", Format::Csv),
    ("read_csv_auto", Format::Csv),
    ("read_json", Format::Json),
    ("read_json_auto", Format::Json),
    ("read_ndjson", Format::Json),
    ("read_ndjson_auto", Format::Json),
    ("read_json_objects", Format::Json),
    ("read_json_objects_auto", Format::Json),
    ("read_ndjson_objects", Format::Json),
    ("read_parquet", Format::Parquet),
    ("parquet_scan", Format::Parquet),
    ("read_arrow", Format::Arrow),
    ("sniff_csv", Format::Csv),
    ("delta_scan", Format::Delta),
    ("read_delta", Format::Delta),
    ("iceberg_scan", Format::Iceberg),
    ("read_iceberg", Format::Iceberg),
    ("sqlite_scan", Format::Sqlite),
];

/// The options of one kind of file from the words of a statement: the format after STORED AS, the pairs of OPTIONS with
/// names in lower case (`format.delimiter` and `delimiter` are the same), and the listed columns. Columns of
/// PARTITIONED BY are set by [`partitioned_by`]. Fails with kind `Input` for options that there are not, or whose
/// values make no sense.
pub fn open_options(
    format: &str,
    pairs: &[(String, OptionValue)],
    schema: Option<SchemaRef>,
    types: NamedTypes<'_>,
) -> Result<OpenOptions> {
    let mut options = OpenOptions { format: Some(Format::from_name(format)?), schema, ..OpenOptions::default() };
    if format.eq_ignore_ascii_case("tsv") {
        options.csv.delimiter = Some(b'\t');
    }
    set_all(&mut options, pairs, types)?;
    Ok(options)
}

/// Sets options of files by their names. Fails as [`open_options`] does.
pub fn set_all(options: &mut OpenOptions, pairs: &[(String, OptionValue)], types: NamedTypes<'_>) -> Result<()> {
    for (name, value) in pairs {
        let short = name.strip_prefix("format.").unwrap_or(name);
        set(options, short, value, types).map_err(|error| error.context(format!("the option '{name}'")))?;
    }
    Ok(())
}

/// Names of columns as statements write them: in small letters unless they are quoted.
pub fn column_names(columns: &[Ident]) -> Vec<String> {
    columns.iter().map(lower).collect()
}

/// The columns of PARTITIONED BY, in any case if they are not quoted.
pub fn partitioned_by(options: &mut OpenOptions, columns: &[Ident]) -> Result<()> {
    if columns.is_empty() {
        return Ok(());
    }
    let names = column_names(columns);
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

fn set(options: &mut OpenOptions, name: &str, value: &OptionValue, types: NamedTypes<'_>) -> Result<()> {
    let format = options.format;
    let is_text = matches!(format, Some(Format::Csv | Format::Json) | None);
    let is_csv = matches!(format, Some(Format::Csv) | None);
    let one = || value.one();
    let csv = &mut options.csv;
    match name {
        "version" if format == Some(Format::Delta) => options.moment = Some(LakeMoment::Version(number(one()?)?)),
        "snapshot_from_id" | "snapshot_id" if format == Some(Format::Iceberg) => {
            options.moment = Some(LakeMoment::Version(number(one()?)?));
        }
        "timestamp" if format == Some(Format::Delta) => options.moment = Some(moment_of(one()?, "UTC")?),
        "timestamp" | "snapshot_from_timestamp" if format == Some(Format::Iceberg) => {
            options.moment = Some(moment_of(one()?, "UTC")?);
        }
        "table" if format == Some(Format::Sqlite) => options.table = Some(one()?.to_owned()),
        "all_varchar" if format == Some(Format::Sqlite) => csv.all_text = truth(one()?)?,
        "endpoint" if format == Some(Format::Iceberg) => {
            options.catalog.get_or_insert_default().endpoint = one()?.to_owned();
        }
        "warehouse" if format == Some(Format::Iceberg) => {
            options.catalog.get_or_insert_default().warehouse = Some(one()?.to_owned());
        }
        "token" if format == Some(Format::Iceberg) => {
            options.catalog.get_or_insert_default().token = Some(one()?.to_owned());
        }
        // Moved tables are found anyway.
        "allow_moved_paths" if format == Some(Format::Iceberg) => drop(truth(one()?)?),
        "version" if format == Some(Format::Iceberg) => {
            let error = Error::unsupported("versions of the metadata of Iceberg tables cannot be chosen");
            return Err(error.with_code("0A000").with_hint("snapshot_from_id => … chooses a snapshot"));
        }
        "delimiter" | "delim" | "sep" if is_csv => {
            let (first, tail) = delimiter(one()?)?;
            (csv.delimiter, csv.delimiter_tail) = (Some(first), tail);
        }
        "has_header" | "header" if is_csv => csv.has_header = Some(truth(one()?)?),
        "quote" if is_csv => csv.quote = Some(byte_or_none(one()?)?),
        "escape" if is_csv => csv.escape = Some(byte(one()?)?).filter(|escape| csv.quote.unwrap_or(b'"') != *escape),
        "comment" if is_csv => csv.comment = Some(byte(one()?)?),
        "null" | "null_value" | "nullstr" | "null_regex" if is_csv => csv.nulls = value.texts()?,
        "force_not_null" if is_csv => csv.without_nulls = value.texts()?,
        "skip" if is_csv => csv.skip = count(one()?)?,
        "decimal_separator" | "decimal" if is_csv => csv.decimal = Some(byte(one()?)?),
        "thousands" if is_csv => csv.thousands = Some(byte(one()?)?),
        "dateformat" | "date_format" if is_text => {
            csv.date_format = time_format(one()?)?;
            options.json.date_format.clone_from(&csv.date_format);
        }
        "timestampformat" | "timestamp_format" if is_text => {
            csv.timestamp_format = time_format(one()?)?;
            options.json.timestamp_format.clone_from(&csv.timestamp_format);
        }
        "all_varchar" if is_csv => csv.all_text = truth(one()?)?,
        "names" | "column_names" if is_csv => csv.names = value.texts()?,
        "null_padding" if is_csv => csv.null_padding = truth(one()?)?,
        // What DuckDB takes and is so here anyway.
        "strict_mode" | "auto_detect" | "parallel" if is_text => drop(truth(one()?)?),
        "normalize_names" if is_csv => csv.plain_names = truth(one()?)?,
        "allow_quoted_nulls" if is_csv => csv.quoted_nulls = truth(one()?)?,
        // All line ends are read.
        "new_line" if is_csv => match one()? {
            "\\n" | "\\r" | "\\r\\n" | "\n" | "\r" | "\r\n" => {}
            other => {
                return Err(
                    Error::input(format!("no line ends in '{other}'")).with_hint("lines end in \\n, \\r or \\r\\n")
                );
            }
        },
        "compression" | "compression_type" if is_text => {
            let name = one()?;
            options.compression = if name.eq_ignore_ascii_case("auto") || name.eq_ignore_ascii_case("auto_detect") {
                None
            } else {
                Some(Compression::from_name(name)?)
            };
        }
        "encoding" if is_text => options.encoding = Some(Encoding::from_name(one()?)?),
        "ignore_errors" if is_text => options.ignore_errors = truth(one()?)?,
        // Without it, whoever reads the files has taken the option out.
        "store_rejects" if is_text && !truth(one()?)? => {}
        "store_rejects" if is_text => {
            let error = Error::unsupported("records that are left out are kept for read_csv and read_json only");
            return Err(error.with_code("0A000").with_hint("SELECT … FROM read_csv('…', store_rejects = true)"));
        }
        "rejects_limit" if is_text => options.rejects_max = count(one()?)?,
        "rejects_table" | "rejects_scan" if is_text => {
            let error = Error::unsupported("tables of records that are left out have the names of DuckDB");
            return Err(error.with_code("0A000").with_hint("they are reject_errors and reject_scans"));
        }
        "schema_infer_max_rec" | "inference_rows" | "sample_size" if is_text => {
            options.inference_rows = if one()? == "-1" { usize::MAX } else { count(one()?)?.max(1) };
        }
        // Records may have 256 MiB anyway.
        "maximum_object_size" | "max_line_size" | "buffer_size" if is_text => drop(count(one()?)?),
        "columns" => {
            let fields = value.pairs()?.iter().map(|(name, told)| Ok(types(told.one()?)?.field(name, true)));
            options.schema = Some(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)));
        }
        "types" | "dtypes" | "column_types" | "hive_types" => match value {
            OptionValue::List(told) => {
                // By position: the first columns, which have names or numbers.
                for (place, told) in told.iter().enumerate() {
                    let name = format!("{PLACE}{place}");
                    options.types.push((name.clone(), Arc::new(types(told.one()?)?.field(&name, true))));
                }
            }
            _ => {
                for (name, told) in value.pairs()? {
                    options.types.push((name.clone(), Arc::new(types(told.one()?)?.field(name, true))));
                }
            }
        },
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
        "binary_as_string" if format == Some(Format::Parquet) => options.bytes_as_texts = truth(one()?)?,
        "file_row_number" if format == Some(Format::Parquet) => options.row_numbers = truth(one()?)?,
        "encryption_config" => {
            return Err(Error::unsupported("files are read without decryption").with_code("0A000"));
        }
        "format" if format == Some(Format::Json) => match one()?.to_ascii_lowercase().as_str() {
            "auto" => options.json.array = None,
            "newline_delimited" | "nd" | "unstructured" => options.json.array = Some(false),
            "array" => options.json.array = Some(true),
            other => return Err(Error::input(format!("no form of JSON files is named '{other}'"))),
        },
        "records" if format == Some(Format::Json) => {
            (options.json.whole, options.json.objects_only) = match one()?.to_ascii_lowercase().as_str() {
                "auto" => (false, false),
                value => (!truth(value)?, truth(value)?),
            };
        }
        "map_inference_threshold" if format == Some(Format::Json) => {
            options.json.map_keys_max = Some(usize::try_from(number(one()?)?).unwrap_or(usize::MAX));
        }
        "field_appearance_threshold" if format == Some(Format::Json) => {
            let text = one()?;
            let part = text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
            let wrong = || Error::input(format!("expected a part between 0 and 1, found '{text}'"));
            options.json.appearance_percent = Some((part.ok_or_else(wrong)? * 100.0).round() as u8);
        }
        // Records are looked at in all files.
        "maximum_sample_files" if format == Some(Format::Json) => drop(number(one()?)?),
        "files_to_sniff" if is_csv => drop(number(one()?)?),
        "explicit_cardinality" if format == Some(Format::Parquet) => drop(number(one()?)?),
        "auto_type_candidates" if is_csv => {
            csv.candidates = value.texts()?.iter().map(|name| candidate(name)).collect::<Result<_>>()?
        }
        "maximum_depth" if format == Some(Format::Json) => {
            options.json.depth_max = usize::try_from(number(one()?)?).ok();
        }
        _ => {
            let mut names = match format {
                Some(Format::Delta) => DELTA_NAMES.to_vec(),
                Some(Format::Iceberg) => ICEBERG_NAMES.to_vec(),
                Some(Format::Sqlite) => vec!["table", "all_varchar"],
                _ => NAMES.to_vec(),
            };
            if is_text {
                names.extend(TEXT_NAMES);
            }
            if is_csv {
                names.extend(CSV_NAMES);
            }
            if format == Some(Format::Json) {
                names.extend(JSON_NAMES);
            }
            if format == Some(Format::Parquet) {
                names.extend(["binary_as_string", "file_row_number"]);
            }
            let names = names.into_iter().map(String::from).collect::<Vec<_>>();
            return Err(suggest(Error::input("there is no such option"), name, &names));
        }
    }
    Ok(())
}

/// What a type's name says of `auto_type_candidates`.
fn candidate(name: &str) -> Result<Candidate> {
    match name.to_ascii_lowercase().as_str() {
        "boolean" | "bool" => Ok(Candidate::Boolean),
        "tinyint" | "smallint" | "integer" | "int" | "bigint" => Ok(Candidate::Integer),
        "hugeint" | "decimal" | "numeric" => Ok(Candidate::Long),
        "float" | "real" | "double" | "double precision" => Ok(Candidate::Double),
        "date" => Ok(Candidate::Date),
        "time" => Ok(Candidate::Time),
        "timestamp" | "timestamptz" | "timestamp with time zone" => Ok(Candidate::Timestamp),
        "varchar" | "text" => Ok(Candidate::Text),
        other => Err(Error::input(format!("'{other}' is no type that files are looked at for"))
            .with_hint("there are BOOLEAN, BIGINT, HUGEINT, DOUBLE, DATE, TIME, TIMESTAMP and VARCHAR")),
    }
}

fn number(value: &str) -> Result<i64> {
    value.parse().map_err(|_| Error::input(format!("expected a whole number, found '{value}'")))
}

/// The state of a lake's table that was there at a time, which is in a time zone if it says none. Fails with code 22007
/// if it is none.
pub(crate) fn moment_of(text: &str, zone: &str) -> Result<LakeMoment> {
    match diligence_types::text::parse(text, &SqlType::TimestampTz, zone)? {
        ScalarValue::TimestampMicrosecond(Some(time), _) => Ok(LakeMoment::Time(time)),
        _ => Err(Error::input(format!("'{text}' is no time")).with_code("22007")),
    }
}

fn count(value: &str) -> Result<usize> {
    value.parse().map_err(|_| Error::input(format!("expected a number, found '{value}'")))
}

/// A format of dates as `strptime` has them. Fails if it has a letter that means nothing.
fn time_format(value: &str) -> Result<Option<String>> {
    if matches!(value.to_ascii_lowercase().as_str(), "auto" | "") {
        return Ok(None);
    }
    // `%g` and `%f` are milliseconds and microseconds with DuckDB.
    let format = value.replace(".%f", "%.f").replace(".%g", "%.f");
    if StrftimeItems::new(&format).any(|item| matches!(item, Item::Error)) {
        return Err(Error::input(format!("'{value}' is no format of dates"))
            .with_hint("it is as in strptime: %d.%m.%Y %H:%M:%S"));
    }
    Ok(Some(format))
}

/// A quote, or none: a byte that is in no text.
fn byte_or_none(value: &str) -> Result<u8> {
    if value.is_empty() { Ok(0xff) } else { byte(value) }
}

/// The first byte of a delimiter, and those behind it.
fn delimiter(value: &str) -> Result<(u8, Vec<u8>)> {
    let plain = value.replace("\\t", "\t");
    if plain.len() <= 1 || plain == "\\0" {
        return Ok((byte(&plain)?, Vec::new()));
    }
    if plain.len() > DELIMITER_BYTES_MAX || plain.contains(['\n', '\r']) {
        let wanted = format!("expected at most {DELIMITER_BYTES_MAX} bytes without an end of line");
        return Err(Error::input(format!("{wanted}, found '{value}'")).with_code("22023"));
    }
    Ok((plain.as_bytes()[0], plain.as_bytes()[1..].to_vec()))
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

pub(crate) fn truth(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "off" | "0" => Ok(false),
        _ => Err(Error::input(format!("expected true or false, found '{value}'"))),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn partition_columns_are_declared_ones() {
        let schema =
            Schema::new(vec![Field::new("year", DataType::Int32, true), Field::new("A b", DataType::Utf8, true)]);
        let schema = Arc::new(schema);
        let listed = |names: &[&str], schema| {
            let mut options = OpenOptions { schema, ..OpenOptions::default() };
            let name = |name: &&str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                Some(quoted) => Ident::with_quote('"', quoted),
                None => Ident::new(*name),
            };
            let names = names.iter().map(name).collect::<Vec<_>>();
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
        let pairs = |name: &str, value: &str| vec![(name.to_owned(), OptionValue::One(value.to_owned()))];
        let types: NamedTypes<'_> = &|_| Ok(SqlType::Text);
        let open_options = |format, pairs: &[_], schema| open_options(format, pairs, schema, types);
        let options = open_options("csv", &pairs("format.delimiter", "\\t"), None).unwrap();
        assert_eq!(options.csv.delimiter, Some(b'\t'));
        assert_eq!(open_options("CSV", &pairs("header", "off"), None).unwrap().csv.has_header, Some(false));
        let error = open_options("csv", &pairs("delimitr", ";"), None).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean 'delimiter'?"));
        let options = open_options("csv", &pairs("delimiter", "||"), None).unwrap();
        assert_eq!((options.csv.delimiter, options.csv.delimiter_tail.as_slice()), (Some(b'|'), &b"|"[..]));
        for wrong in ["", "a\nb", "abcde"] {
            assert!(open_options("csv", &pairs("delimiter", wrong), None).is_err(), "{wrong}");
        }
        assert!(open_options("xml", &[], None).unwrap_err().hint().is_some());
    }
}
