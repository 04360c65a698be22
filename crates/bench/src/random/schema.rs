//! What random statements are made of: tables, what their columns hold, and the keys by which they refer to each other.

use std::path::Path;
use std::str::FromStr;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use diligence_base::{Error, Result};
use diligence_db::Session;

use crate::answers::values;

/// The foreign keys of TPC-H.
const TPCH_KEYS: &str = "
    lineitem(l_orderkey) -> orders(o_orderkey)
    lineitem(l_partkey, l_suppkey) -> partsupp(ps_partkey, ps_suppkey)
    lineitem(l_partkey) -> part(p_partkey)
    lineitem(l_suppkey) -> supplier(s_suppkey)
    orders(o_custkey) -> customer(c_custkey)
    partsupp(ps_partkey) -> part(p_partkey)
    partsupp(ps_suppkey) -> supplier(s_suppkey)
    customer(c_nationkey) -> nation(n_nationkey)
    supplier(s_nationkey) -> nation(n_nationkey)
    nation(n_regionkey) -> region(r_regionkey)";

/// Different values of a text column that are kept as constants, at most; one with more is searched for words.
const WORDS_MAX: usize = 200;

/// Tables with their keys.
pub struct Tables {
    /// All of them, the largest first.
    pub tables: Vec<Relation>,
    /// How they refer to each other.
    pub keys: Vec<ForeignKey>,
}

/// A table.
pub struct Relation {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Those of its columns that statements can be made of.
    pub columns: Vec<Field>,
}

/// A column.
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub domain: Domain,
    /// Different values, about.
    pub distinct: u64,
    /// Whether it is part of a key, so that tables are joined by it.
    pub is_key: bool,
}

/// What constants a column can be compared with.
#[derive(Clone, Debug)]
pub enum Domain {
    /// Numbers of so many digits behind the point.
    Numbers {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
        /// Digits behind the point.
        scale: usize,
    },
    /// Days, counted from 1970.
    Days {
        /// The first.
        low: i32,
        /// The last.
        high: i32,
    },
    /// Each value is one of these.
    Words(Vec<String>),
    /// Texts that have such words.
    Texts(Vec<String>),
}

/// A reference from one table to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The table that refers.
    pub from: String,
    /// By these columns.
    pub columns: Vec<String>,
    /// The table whose rows are unique by the columns that are referred to.
    pub to: String,
    /// Those columns.
    pub to_columns: Vec<String>,
}

impl FromStr for ForeignKey {
    type Err = Error;

    /// As `lineitem(l_orderkey) -> orders(o_orderkey)`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::input(format!("expected table(column, ...) -> table(column, ...), found '{text}'"));
        let side = |text: &str| {
            let (table, columns) = text.trim().strip_suffix(')')?.split_once('(')?;
            let columns = columns.split(',').map(|column| column.trim().to_owned()).collect::<Vec<_>>();
            Some((table.trim().to_owned(), columns))
        };
        let (from, to) = text.split_once("->").ok_or_else(wrong)?;
        let ((from, columns), (to, to_columns)) = side(from).zip(side(to)).ok_or_else(wrong)?;
        let key = Self { from, columns, to, to_columns };
        if key.columns.len() == key.to_columns.len() { Ok(key) } else { Err(wrong()) }
    }
}

/// Foreign keys, one on a line; those of TPC-H without a text.
pub fn keys(text: Option<&str>) -> Result<Vec<ForeignKey>> {
    let lines = text.unwrap_or(TPCH_KEYS).lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::parse).collect()
}

impl Tables {
    /// The tables of a folder of Parquet files, as a session over it sees them. Fails if they cannot be read, or if a
    /// key names what is not there.
    pub fn of(session: &Session, folder: &Path, keys: Vec<ForeignKey>) -> Result<Self> {
        let files = std::fs::read_dir(folder).map_err(|error| Error::file(format!("{}: {error}", folder.display())))?;
        let mut names: Vec<String> = files
            .filter_map(|file| {
                let path = file.ok()?.path();
                let is_table = path.extension().is_some_and(|ending| ending == "parquet");
                path.file_stem().filter(|_| is_table)?.to_str().map(str::to_owned)
            })
            .collect();
        names.sort();
        let tables = names.iter().map(|name| Relation::of(session, name, &keys)).collect::<Result<Vec<_>>>()?;
        let mut tables: Vec<_> = tables.into_iter().filter(|table| table.rows > 0).collect();
        tables.sort_by_key(|table| std::cmp::Reverse(table.rows));
        for key in &keys {
            for name in [&key.from, &key.to] {
                if !tables.iter().any(|table| table.name == *name) {
                    return Err(Error::input(format!("there are no rows of {name}, which a key names")));
                }
            }
        }
        Ok(Self { tables, keys })
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<&Relation> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl Relation {
    fn of(session: &Session, name: &str, keys: &[ForeignKey]) -> Result<Self> {
        let schema = session.execute(&format!("SELECT * FROM {name} LIMIT 0"))?.schema();
        let is_known = |data_type: &DataType| {
            data_type.is_integer()
                || matches!(data_type, DataType::Decimal128(..) | DataType::Date32)
                || matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        };
        let fields: Vec<_> = schema.fields().iter().filter(|field| is_known(field.data_type())).collect();
        let facts = fields.iter().map(|field| {
            let column = field.name();
            format!(", min({column}), max({column}), approx_distinct({column})")
        });
        let sql = format!("SELECT count(*){} FROM {name}", facts.collect::<String>());
        let facts = session.execute(&sql)?.collect()?;
        let facts = facts.first().ok_or_else(|| Error::bug("an aggregate without a row"))?;
        let number = |array: &ArrayRef| -> Result<f64> {
            let array = cast(array, &DataType::Float64).map_err(|error| Error::bug(error.to_string()))?;
            Ok(array.as_primitive::<Float64Type>().value(0))
        };
        let rows = facts.column(0).as_primitive::<Int64Type>().value(0) as u64;
        let mut columns = Vec::new();
        for (place, field) in fields.into_iter().enumerate() {
            let [least, most, distinct] = [1, 2, 3].map(|fact| facts.column(place * 3 + fact));
            if least.is_null(0) {
                continue;
            }
            let distinct = number(distinct)? as u64;
            let name_of = field.name().clone();
            let domain = match field.data_type() {
                DataType::Date32 => {
                    let day = |array: &ArrayRef| -> Result<i32> {
                        let array = cast(array, &DataType::Int32).map_err(|error| Error::bug(error.to_string()))?;
                        Ok(array.as_primitive::<Int32Type>().value(0))
                    };
                    Domain::Days { low: day(least)?, high: day(most)? }
                }
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                    texts(session, name, &name_of, distinct <= WORDS_MAX as u64)?
                }
                data_type => {
                    let scale = if let DataType::Decimal128(_, scale) = data_type { (*scale).max(0) } else { 0 };
                    Domain::Numbers { low: number(least)?, high: number(most)?, scale: scale as usize }
                }
            };
            let refers = |key: &ForeignKey| {
                key.from == name && key.columns.contains(&name_of)
                    || key.to == name && key.to_columns.contains(&name_of)
            };
            let is_key = keys.iter().any(refers);
            columns.push(Field { name: name_of, domain, distinct, is_key });
        }
        Ok(Self { name: name.to_owned(), rows, columns })
    }
}

/// The values of a text column, if they are `few`; otherwise words that are in some of them.
fn texts(session: &Session, table: &str, column: &str, few: bool) -> Result<Domain> {
    let distinct = if few { "DISTINCT " } else { "" };
    let sql = format!("SELECT {distinct}{column} FROM {table} WHERE {column} IS NOT NULL LIMIT {WORDS_MAX}");
    let rows = values(&session.execute(&sql)?.collect()?)?;
    let mut texts: Vec<String> =
        rows.into_iter().filter_map(|row| Some(row.into_iter().next()?.as_str()?.to_owned())).collect();
    texts.sort();
    if few {
        return Ok(Domain::Words(texts));
    }
    let words = texts.iter().flat_map(|text| text.split(|character: char| !character.is_ascii_alphanumeric()));
    let mut words: Vec<String> = words.filter(|word| word.len() >= 4).map(str::to_owned).collect();
    words.sort();
    words.dedup();
    if words.is_empty() {
        words.push("none".to_owned());
    }
    Ok(Domain::Texts(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key: ForeignKey = "a(x, y) -> b( z,w )".parse().unwrap();
        assert_eq!((key.from.as_str(), key.to.as_str()), ("a", "b"));
        assert_eq!((key.columns.join("+"), key.to_columns.join("+")), ("x+y".to_owned(), "z+w".to_owned()));
        for wrong in ["a(x) b(y)", "a(x) -> b(y, z)", "a -> b", "a(x) -> b(y"] {
            assert!(wrong.parse::<ForeignKey>().is_err(), "{wrong}");
        }
        assert_eq!(keys(None).unwrap().len(), 10);
        assert_eq!(keys(Some("# none\n\n")).unwrap(), []);
    }
}
