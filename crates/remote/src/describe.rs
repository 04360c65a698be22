//! What a server says of a table or a query before it is read: columns, types, size.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_client::Answer;
use diligence_client::message::Column;

use crate::columns::RemoteColumn;
use crate::link::{Link, Place};

/// The first version whose scans of some pages of a table read only these.
const SCANS_PAGES: i64 = 140_000;

/// What is read.
pub(crate) struct Described {
    /// What stands behind FROM.
    pub from: String,
    pub columns: Vec<RemoteColumn>,
    /// Rows, as far as the server knows.
    pub rows: Option<usize>,
    /// Bytes on its disk.
    pub bytes: usize,
    /// Pages of a table that is read by pages.
    pub pages: Option<u64>,
}

/// A name in SQL of the server.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A table or a view. `None` if there is none of the name. Fails as the server does.
pub(crate) async fn table(place: Arc<Place>, schema: String, table: String) -> Result<Option<Described>> {
    let from = format!("{}.{}", identifier(&schema), identifier(&table));
    let mut link = Link::open(&place).await?;
    let columns = match link.describe(&format!("SELECT * FROM {from}")).await {
        Err(error) if matches!(error.code(), Some("42P01" | "3F000")) => return Ok(None),
        columns => columns?,
    };
    let about = format!(
        "SELECT c.relkind::text, c.reltuples::int8, pg_catalog.pg_relation_size(c.oid), \
         pg_catalog.current_setting('server_version_num'), pg_catalog.current_setting('block_size') \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = {} AND c.relname = {}",
        literal(&schema),
        literal(&table)
    );
    let types = types(&mut link, &columns).await?;
    // Not all that speaks the protocol says how large its tables are.
    let about = link.run(&about).await.unwrap_or_default();
    link.keep();
    let value = |place: usize| text_at(about.first(), 0, place);
    let number = |place: usize| value(place).and_then(|text| text.parse::<i64>().ok()).filter(|number| *number >= 0);
    let bytes = number(2).unwrap_or(0);
    let has_pages = matches!(value(0), Some("r" | "m" | "t")) && number(3).is_some_and(|known| known >= SCANS_PAGES);
    let pages = number(4).filter(|size| has_pages && *size > 0).map(|size| bytes.unsigned_abs() / size.unsigned_abs());
    let columns = columns.iter().zip(types).map(|(column, told)| {
        let quoted = identifier(&column.name);
        RemoteColumn::new(&column.name, quoted, &told.name, told.is_own, told.is_array)
    });
    // A view has no rows of its own, and a table that was never looked at says so.
    let rows =
        number(1).filter(|_| matches!(value(0), Some("r" | "m" | "p"))).and_then(|rows| usize::try_from(rows).ok());
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Ok(Some(Described { from, columns: columns.collect(), rows, bytes, pages }))
}

/// A query in the server's SQL. Fails as the server does.
pub(crate) async fn query(place: Arc<Place>, sql: String) -> Result<Described> {
    let sql = sql.trim().trim_end_matches(';').trim_end().to_owned();
    let mut link = Link::open(&place).await?;
    let columns = link.describe(&sql).await?;
    if columns.is_empty() {
        let error = Error::input("the statement for the server gives no columns").with_code("42601");
        return Err(error.with_hint("postgres_query takes a SELECT"));
    }
    let types = types(&mut link, &columns).await?;
    link.keep();
    // Columns of a query may have equal names; behind FROM they have others.
    let names = (0..columns.len()).map(|place| format!("c{place}")).collect::<Vec<_>>();
    let from = format!("({sql}\n) AS q({})", names.join(", "));
    let columns =
        columns.iter().zip(names).zip(types).map(|((column, name), told)| {
            RemoteColumn::new(&column.name, name, &told.name, told.is_own, told.is_array)
        });
    Ok(Described { from, columns: columns.collect(), rows: None, bytes: 0, pages: None })
}

/// What a server says of a column's type.
struct Told {
    name: String,
    /// Whether it is one of PostgreSQL's own.
    is_own: bool,
    is_array: bool,
}

async fn types(link: &mut Link, columns: &[Column]) -> Result<Vec<Told>> {
    if columns.is_empty() {
        return Ok(vec![]);
    }
    let rows = columns.iter().enumerate();
    let rows = rows.map(|(place, column)| format!("({place}, {}::oid, {})", column.oid, column.modifier));
    let sql = format!(
        "SELECT pg_catalog.format_type(v.o, v.m), (n.nspname = 'pg_catalog')::text, (t.typcategory = 'A')::text \
         FROM (VALUES {}) v(i, o, m) JOIN pg_catalog.pg_type t ON t.oid = v.o \
         JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace ORDER BY v.i",
        rows.collect::<Vec<_>>().join(", ")
    );
    let answers = link.run(&sql).await?;
    let told = (0..columns.len()).map(|row| {
        let value = |place: usize| text_at(answers.first(), row, place);
        let name = value(0)?.to_owned();
        // An array of a user's type is in that one's schema.
        Some(Told { name, is_own: value(1)? == "true", is_array: value(2)? == "true" })
    });
    let told = told.collect::<Option<Vec<_>>>();
    told.ok_or_else(|| Error::resource("a server does not say of which types its columns are").with_code("08P01"))
}

fn text_at(answer: Option<&Answer>, row: usize, place: usize) -> Option<&str> {
    std::str::from_utf8(answer?.rows.get(row)?.get(place)?.as_deref()?).ok()
}
