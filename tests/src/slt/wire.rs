//! A database behind its server, asked over PostgreSQL's protocol: values come as psql would show them, and are brought
//! into the form that scripts have.

use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use diligence_base::Error;
use diligence_client::{self as client, Address, Answer, Column, Connection};
use diligence_db::Database;
use diligence_server::{Server, ServerOptions};
use sqllogictest::DBOutput;
use tokio::runtime::Runtime;

use super::display::{self, ColumnLetter};
use super::nested;

/// PostgreSQL's numbers of types.
mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const NUMERIC: u32 = 1700;
    pub const JSON: u32 = 114;
    pub const INTERVAL: u32 = 1186;

    /// Arrays, and what is in them.
    pub const ARRAYS: [(u32, u32); 13] = [
        (1000, BOOL),
        (1001, BYTEA),
        (1005, INT2),
        (1007, INT4),
        (1009, TEXT),
        (1016, INT8),
        (1021, FLOAT4),
        (1022, FLOAT8),
        (1115, TIMESTAMP),
        (1182, DATE),
        (1183, TIME),
        (1185, TIMESTAMPTZ),
        (1231, NUMERIC),
    ];
}

/// A server around a database, with one client.
pub struct Wire {
    runtime: Runtime,
    server: Arc<Server>,
    /// Only `None` while it is closed.
    connection: Option<Connection>,
}

impl Wire {
    /// Starts the server and connects.
    pub fn open(database: &Database) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::resource(format!("no runtime: {error}")))?;
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions { postgres: Some(loopback), files: true, ..ServerOptions::default() };
        let server = runtime.block_on(Server::start(database.clone(), options))?;
        let address = server.addresses().postgres.ok_or_else(|| Error::bug("a server without an address"))?;
        let opened = runtime.block_on(Connection::open(&Address::Tcp(address), "ann", "diligence", &[]));
        let connection = Some(opened.map_err(failed)?);
        Ok(Self { runtime, server, connection })
    }

    /// Runs a statement.
    pub fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnLetter>, Error> {
        let connection = self.connection.as_mut().ok_or_else(|| Error::bug("the connection was closed"))?;
        let answers = self.runtime.block_on(connection.simple(sql)).map_err(failed)?;
        let Some(answer) = answers.into_iter().next_back() else { return Ok(DBOutput::StatementComplete(0)) };
        if !answer.columns.is_empty() {
            let types = answer.columns.iter().map(letter).collect();
            return Ok(DBOutput::Rows { types, rows: rows(&answer)? });
        }
        // The scripts see the number of rows that were written as an answer of one row.
        Ok(match (answer.tag.split(' ').next(), answer.tag.rsplit(' ').next()) {
            (Some("INSERT" | "COPY"), Some(rows)) => {
                DBOutput::Rows { types: vec![display::INTEGER], rows: vec![vec![rows.to_owned()]] }
            }
            _ => DBOutput::StatementComplete(0),
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // A connection that is broken is closed as well.
            let _ = self.runtime.block_on(connection.close());
        }
        self.runtime.block_on(self.server.stop());
    }
}

/// An error as the library would show it.
fn failed(error: client::Error) -> Error {
    match error {
        client::Error::Server(failure) if failure.hint.is_empty() => Error::input(failure.message),
        client::Error::Server(failure) => Error::input(failure.message).with_hint(failure.hint),
        other => Error::resource(other.to_string()),
    }
}

fn letter(column: &Column) -> ColumnLetter {
    match column.oid {
        oid::BOOL => display::BOOLEAN,
        oid::INT2 | oid::INT4 | oid::INT8 => display::INTEGER,
        oid::FLOAT4 | oid::FLOAT8 => display::REAL,
        // UInt64, too.
        oid::NUMERIC => display::NUMERIC,
        oid::TEXT => display::TEXT,
        oid::DATE | oid::TIME => display::DATE,
        oid::TIMESTAMP | oid::TIMESTAMPTZ => display::TIMESTAMP,
        _ => display::OTHER,
    }
}

/// Whether the letters of a script are those of an answer: whole numbers may have come as numeric, and columns of
/// nothing but NULL come as text.
#[expect(clippy::ptr_arg, reason = "the runner wants it so")]
pub fn letters_agree(actual: &Vec<ColumnLetter>, expected: &Vec<ColumnLetter>) -> bool {
    let agrees = |(actual, expected): (&ColumnLetter, &ColumnLetter)| {
        let others: &[ColumnLetter] = match *actual {
            display::NUMERIC => &[display::INTEGER, display::REAL],
            display::TEXT => &[display::OTHER],
            _ => &[],
        };
        actual == expected || others.contains(expected)
    };
    actual.len() == expected.len() && actual.iter().zip(expected).all(agrees)
}

/// The rows in the form of the scripts.
fn rows(answer: &Answer) -> Result<Vec<Vec<String>>, Error> {
    if answer.rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (position, column) in answer.columns.iter().enumerate() {
        let texts = answer.rows.iter().map(|row| {
            let value = row.get(position).ok_or_else(|| Error::bug("a row is too short"))?;
            value.as_ref().map(|value| text(column.oid, value)).transpose()
        });
        let texts: StringArray = texts.collect::<Result<Vec<_>, Error>>()?.into_iter().collect();
        let array = typed(column.oid, Arc::new(texts))?;
        fields.push(Field::new(format!("{position}"), array.data_type().clone(), true));
        columns.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    let batch = batch.map_err(|error| Error::bug(error.to_string()))?;
    display::rows(&[batch]).map_err(|error| Error::value(error.to_string()))
}

/// A value's text, where PostgreSQL's differs from what Arrow reads or shows.
fn text(oid: u32, value: &[u8]) -> Result<String, Error> {
    let value = std::str::from_utf8(value).map_err(|_| Error::bug("a value that is no UTF-8"))?;
    let odd = || Error::bug(format!("a value of type {oid} is not in PostgreSQL's form: {value}"));
    if let Some((_, element)) = oid::ARRAYS.iter().find(|(array, _)| *array == oid) {
        return array(*element, nested::elements(value).ok_or_else(odd)?);
    }
    Ok(match oid {
        oid::JSON => {
            let float = |number: &str| shown(oid::FLOAT8, Some(number)).unwrap_or_else(|_| number.to_owned());
            nested::json(value, float).ok_or_else(odd)?
        }
        oid::BYTEA => value.trim_start_matches("\\x").to_owned(),
        oid::TIMESTAMPTZ => value.replace("+00", "Z"),
        oid::INTERVAL => interval(value).ok_or_else(odd)?,
        _ => value.to_owned(),
    })
}

/// An array as the scripts show it.
fn array(element: u32, elements: Vec<Option<String>>) -> Result<String, Error> {
    let shown = elements.iter().map(|value| {
        let value = value.as_ref().map(|value| text(element, value.as_bytes())).transpose()?;
        shown(element, value.as_deref())
    });
    Ok(format!("[{}]", shown.collect::<Result<Vec<_>, _>>()?.join(", ")))
}

/// One value as the scripts show it within another.
fn shown(oid: u32, value: Option<&str>) -> Result<String, Error> {
    let column = typed(oid, Arc::new(StringArray::from(vec![value])))?;
    let batch = RecordBatch::try_from_iter([("value", column)]).map_err(|error| Error::bug(error.to_string()))?;
    let rows = display::rows(&[batch]).map_err(|error| Error::value(error.to_string()))?;
    Ok(if value == Some("") { String::new() } else { rows[0][0].clone() })
}

/// An interval's text with units for its time of day, which Arrow does not read without: `1 day -02:30:00` is `1 day -2
/// hours -30 mins -0 secs`.
fn interval(text: &str) -> Option<String> {
    let Some((at, time)) =
        text.rsplit(' ').next().filter(|last| last.contains(':')).map(|last| (text.len() - last.len(), last))
    else {
        return Some(text.to_owned());
    };
    let sign = if time.starts_with('-') { "-" } else { "" };
    let mut parts = time.trim_start_matches(['-', '+']).split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{}{sign}{hours} hours {sign}{minutes} mins {sign}{seconds} secs", &text[..at]))
}

/// The values of a type whose display is not simply their text.
fn typed(oid: u32, texts: ArrayRef) -> Result<ArrayRef, Error> {
    let micros = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    let to = match oid {
        oid::BOOL => DataType::Boolean,
        oid::FLOAT4 => DataType::Float32,
        oid::FLOAT8 => DataType::Float64,
        oid::TIME => DataType::Time64(TimeUnit::Microsecond),
        oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        oid::TIMESTAMP => micros(None),
        oid::TIMESTAMPTZ => micros(Some("UTC")),
        _ => return Ok(texts),
    };
    let array = cast(&texts, &to).map_err(|error| Error::bug(error.to_string()))?;
    match array.null_count() == texts.null_count() {
        true => Ok(array),
        false => Err(Error::bug(format!("a value of type {oid} is not in PostgreSQL's form: {texts:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_and_intervals_come_so_too() {
        let shown = |oid, value: &str| text(oid, value.as_bytes()).unwrap();
        assert_eq!(shown(1022, "{1,NULL,-1e+30}"), "[1.0, NULL, -1e30]");
        assert_eq!(shown(1009, "{a,\"\",\"b c\"}"), "[a, , b c]");
        assert_eq!(shown(oid::JSON, r#"{"a":[1,-1.0e30],"b":null}"#), "{a: [1, -1e30], b: NULL}");
        assert_eq!(shown(oid::INTERVAL, "1 day -02:30:00.5"), "1 day -02 hours -30 mins -00.5 secs");
        assert_eq!(shown(oid::INTERVAL, "3 mons"), "3 mons");
    }

    #[test]
    fn values_come_into_the_form_of_the_scripts() {
        let column = |oid| Column { name: String::new(), oid, modifier: -1 };
        let columns: Vec<_> =
            [oid::BOOL, oid::FLOAT8, oid::TEXT, oid::TIMESTAMP, oid::NUMERIC, oid::TIME].map(column).into();
        let row = |values: [&str; 6]| values.map(|value| (value != "-").then(|| value.as_bytes().to_vec())).to_vec();
        let answer = Answer {
            rows: vec![
                row(["t", "1", "", "1970-01-01 00:01:01.5", "1.50", "12:30:01"]),
                row(["f", "-Infinity", "-", "2024-02-29 00:00:00", "7", "-"]),
            ],
            columns,
            tag: String::new(),
        };
        let expected = [
            ["true", "1.0", "(empty)", "1970-01-01T00:01:01.500", "1.50", "12:30:01"],
            ["false", "-inf", "NULL", "2024-02-29T00:00:00", "7", "NULL"],
        ];
        assert_eq!(rows(&answer).unwrap(), expected);
        let letters: Vec<_> = answer.columns.iter().map(letter).collect();
        let script = |text: &str| text.chars().filter_map(sqllogictest::ColumnType::from_char).collect::<Vec<_>>();
        assert!(letters_agree(&letters, &script("BRTPRD")) && letters_agree(&letters, &script("BRTPID")));
        assert!(letters_agree(&letters, &script("BR?PRD")));
        assert!(!letters_agree(&letters, &script("BRTPTD")) && !letters_agree(&letters, &script("BRTPR")));
    }
}
