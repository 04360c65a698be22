//! Ingestion: rows that a client sends become rows of a table, which may be made for them.
//!
//! They go the way of COPY FROM STDIN, batch by batch: no more of them wait than fit into a short queue, so a client
//! sends as fast as the table takes them. The table has all of them or none; one that is made for them is there with
//! them, or not at all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringViewArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use diligence_base::{Error, Result};
use diligence_db::SqlType;

use super::cancellation::Cancellation;
use super::incoming::Incoming;
use super::session::FlightSession;
use crate::execution::Allowed;
use crate::sqlstate;

/// Rows that go into the table's queue at once, so that a large batch does not wait there as a whole.
const ROWS_AT_ONCE: usize = 65_536;

/// The schema of the table with this name: the one that is asked for, that of temporary tables, or the first on the
/// search path that has one.
const FIND: &str = "SELECT n.nspname::text FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'v', 'm') AND c.relname = $1::text \
     AND CASE WHEN $2::text <> '' THEN n.nspname = $2::text \
     WHEN $3::text <> '' THEN n.nspname LIKE 'pg\\_temp\\_%' ELSE n.nspname = ANY(current_schemas(true)) END \
     ORDER BY array_position(current_schemas(true), n.nspname::text) LIMIT 1";

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values([value]))
}

/// What becomes of a table that is there, or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ways {
    creates: bool,
    exists: TableExistsOption,
}

impl Ways {
    /// Fails with code 22023 if the client says nothing of it, or nothing that is known.
    fn of(command: &CommandStatementIngest) -> Result<Self> {
        let unknown = || Error::input("the ingestion does not say what becomes of the table").with_code("22023");
        let options = command.table_definition_options.as_ref().ok_or_else(unknown)?;
        let absent = TableNotExistOption::try_from(options.if_not_exist).map_err(|_| unknown())?;
        let exists = TableExistsOption::try_from(options.if_exists).map_err(|_| unknown())?;
        Ok(Self { creates: absent == TableNotExistOption::Create, exists })
    }
}

impl FlightSession {
    /// Ingests rows; how many there were. Fails with the error of the statements that it stands for.
    pub(super) async fn ingest(
        &self,
        command: &CommandStatementIngest,
        incoming: &mut Incoming,
        cancellation: &Cancellation,
    ) -> Result<u64> {
        if self.allowed()? == Allowed::Reading {
            let error = Error::unsupported("rows cannot be ingested in a read-only transaction");
            return Err(error.with_code(sqlstate::READ_ONLY));
        }
        self.check_catalog(command.catalog.as_deref())?;
        let ways = Ways::of(command)?;
        let schema = incoming.schema(self, cancellation).await?;
        let schema = schema.ok_or_else(|| super::status::malformed("no columns were sent"))?;
        let wanted = command.schema.as_deref().filter(|schema| !schema.is_empty());
        if command.temporary && wanted.is_some_and(|schema| !schema.starts_with("pg_temp")) {
            let error = Error::input("a temporary table is in no schema that has a name").with_code("42P16");
            return Err(error.with_hint("leave out the schema, or make a table that stays"));
        }
        let found = self.place_of(command, wanted, cancellation).await?;
        let name = quoted(&command.table);
        let replaces = found.is_some() && ways.exists == TableExistsOption::Replace;
        match (&found, ways.exists) {
            (Some(_), TableExistsOption::Append | TableExistsOption::Replace) => {}
            (Some(_), _) => {
                let error = Error::input(format!("a table named {name} exists already")).with_code("42P07");
                return Err(error.with_hint("append to it, or replace it"));
            }
            (None, _) if ways.creates => {}
            (None, _) => {
                let error = Error::input(format!("no table is named {name}")).with_code("42P01");
                return Err(error.with_hint("have the ingestion create it"));
            }
        }
        // Adding rows is one statement. With the table's making, it is to be one as well.
        let own = if found.is_none() || replaces { self.begin_own()? } else { None };
        if let Some(schema) = found.as_ref().filter(|_| replaces) {
            self.say(format!("DROP TABLE {}.{name}", quoted(schema)), cancellation).await?;
        }
        let place = if found.is_none() || replaces {
            // A table that is replaced stays where it was.
            let inside = wanted.or(found.as_deref().filter(|_| !command.temporary)).filter(|_| !command.temporary);
            let target = inside.map_or_else(|| name.clone(), |schema| format!("{}.{name}", quoted(schema)));
            self.say(create(&target, &schema, command.temporary)?, cancellation).await?;
            self.place_of(command, wanted, cancellation).await?
        } else {
            found
        };
        let place = place.ok_or_else(|| Error::bug("a table that was made is not found"))?;
        let rows = self.add(&place, &command.table, &schema, incoming, cancellation).await?;
        if let Some(own) = own {
            own.commit().await?;
        }
        Ok(rows)
    }

    /// Runs a statement that gives nothing.
    async fn say(&self, sql: String, cancellation: &Cancellation) -> Result<()> {
        let kind = self.parse(sql, cancellation).await?;
        self.run(&kind, vec![], cancellation).await.map(drop)
    }

    /// The schema of the table that a command names, if there is one.
    async fn place_of(
        &self,
        command: &CommandStatementIngest,
        schema: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<Option<String>> {
        let schema = schema.filter(|_| !command.temporary).unwrap_or_default();
        let temporary = if command.temporary { "yes" } else { "" };
        let values = [&command.table, schema, temporary].map(text).to_vec();
        let rows = self.rows_of(FIND, values, cancellation).await?;
        let found = rows.iter().find(|batch| batch.num_rows() > 0);
        found.map(|batch| first_text(batch.column(0))).transpose()
    }

    /// Adds the rows to a table that is there.
    async fn add(
        &self,
        place: &str,
        table: &str,
        sent: &SchemaRef,
        incoming: &mut Incoming,
        cancellation: &Cancellation,
    ) -> Result<u64> {
        let columns = sent.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let known = self.session.appendable(Some(place), table)?;
        let wanted = columns.iter().map(|name| match known.field_with_name(name) {
            Ok(field) => Ok(field.data_type().clone()),
            Err(_) => {
                let error = Error::input(format!("the table '{table}' has no column '{name}'")).with_code("42703");
                let names = known.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
                Err(error.with_hint(format!("it has the columns {}", names.join(", "))))
            }
        });
        let wanted = Arc::new(wanted.collect::<Result<Vec<_>>>()?);
        let (session, place, table) = (self.session.clone(), place.to_owned(), table.to_owned());
        let begun = move || session.begin_append(Some(&place), &table, &columns);
        let mut append = cancellation.within(&self.service, self.execution().compute(begun)).await?;
        while let Some(batch) = incoming.next(self, cancellation).await? {
            let mut start = 0;
            while start < batch.num_rows() {
                let part = batch.slice(start, ROWS_AT_ONCE.min(batch.num_rows() - start));
                start += part.num_rows();
                let wanted = wanted.clone();
                let part = self.execution().compute(move || as_wanted(&part, &wanted));
                let part = cancellation.within(&self.service, part).await?;
                cancellation.within(&self.service, append.send(&part)).await?;
            }
        }
        cancellation.within(&self.service, append.finish()).await
    }
}

fn first_text(column: &ArrayRef) -> Result<String> {
    let text = cast_with_options(column, &DataType::Utf8, &CastOptions::default());
    let text = text.map_err(|error| Error::bug(format!("a name is no text: {error}")))?;
    Ok(text.as_string::<i32>().value(0).to_owned())
}

/// The statement that makes a table for rows with these columns. Fails with code 0A000 if SQL has no type for one.
fn create(target: &str, schema: &Schema, temporary: bool) -> Result<String> {
    let columns = schema.fields().iter().map(|field| {
        let sql_type = SqlType::of_field(&plain(field)).ok_or_else(|| {
            let text =
                format!("the column '{}' has the type {}, for which SQL has none", field.name(), field.data_type());
            Error::unsupported(text).with_code(sqlstate::UNSUPPORTED)
        })?;
        Ok(format!("{} {sql_type}", quoted(field.name())))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?.join(", ");
    let kind = if temporary { "TEMPORARY TABLE" } else { "TABLE" };
    Ok(format!("CREATE {kind} {target} ({columns})"))
}

/// A column with the type of its values: how they are packed is no matter of the table's.
fn plain(field: &Field) -> Field {
    match field.data_type() {
        DataType::Dictionary(_, values) => Field::clone(field).with_data_type(values.as_ref().clone()),
        DataType::RunEndEncoded(_, values) => Field::clone(field).with_data_type(values.data_type().clone()),
        _ => field.clone(),
    }
}

/// Rows in the table's types. Fails with code 22P02 or 22003 if a value has none.
fn as_wanted(batch: &RecordBatch, wanted: &[DataType]) -> Result<RecordBatch> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let sent = batch.schema();
    let columns = batch.columns().iter().zip(wanted).zip(sent.fields()).map(|((column, wanted), field)| {
        if column.data_type() == wanted {
            return Ok(column.clone());
        }
        cast_with_options(column, wanted, &options).map_err(|error| {
            let code = if wanted.is_numeric() && column.data_type().is_numeric() { "22003" } else { "22P02" };
            Error::value(format!("a value of the column '{}' is no {wanted}: {error}", field.name())).with_code(code)
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = batch
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
        .collect::<Vec<_>>();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::bug(format!("rows that are ingested: {error}")))
}
