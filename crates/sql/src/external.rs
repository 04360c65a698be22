//! The options of files: of CREATE EXTERNAL TABLE, of COPY … FROM, and of functions such as `read_csv`.

mod named;
mod values;

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_storage::external::{Format, OpenOptions};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, Ident, UnaryOperator, Value};

use self::named::set;
pub(crate) use self::values::{moment_of, truth};
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
    fn characters_of_separated_values_may_be_none() {
        let types: NamedTypes<'_> = &|_| Ok(SqlType::Text);
        let none = |name: &str| {
            let pairs = [(name.to_owned(), OptionValue::One(String::new()))];
            open_options("csv", &pairs, None, types).map(|options| (options.csv.escape, options.csv.comment))
        };
        assert_eq!((none("escape").unwrap(), none("comment").unwrap()), ((None, None), (None, None)));
        assert!(none("decimal_separator").is_err());
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
