//! What is in the catalog, as Flight SQL's clients ask for it. The answers come from `pg_catalog` by queries of the
//! session, so they show what its statements would find, in its transaction.

use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, StringViewArray, UInt8Array};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTableTypes, CommandGetTables,
};
use diligence_base::{Error, Result};
use diligence_db::SqlType;

use super::cancellation::Cancellation;
use super::session::FlightSession;

/// Kinds of tables.
const TABLE_TYPES: [&str; 5] = ["MATERIALIZED VIEW", "SYSTEM TABLE", "TABLE", "TEMPORARY TABLE", "VIEW"];

const SCHEMAS: &str = "SELECT nspname::text FROM pg_catalog.pg_namespace";

const TABLES: &str = "SELECT n.nspname::text, c.relname::text, \
     CASE WHEN n.nspname IN ('pg_catalog', 'information_schema', 'system') THEN 'SYSTEM TABLE' \
     WHEN c.relkind = 'v' THEN 'VIEW' WHEN c.relkind = 'm' THEN 'MATERIALIZED VIEW' \
     WHEN n.nspname LIKE 'pg\\_temp\\_%' THEN 'TEMPORARY TABLE' ELSE 'TABLE' END \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'v', 'm') AND ($1::text IS NULL OR n.nspname LIKE $1::text) \
     AND ($2::text IS NULL OR c.relname LIKE $2::text)";

const PRIMARY_KEYS: &str = "SELECT n.nspname::text, c.relname::text, a.attname::text, k.conname::text, \
     u.place::integer FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS u(number, place) \
     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.number \
     WHERE k.contype = 'p' AND c.relname = $1::text AND ($2::text IS NULL OR n.nspname = $2::text) \
     ORDER BY 1, 2, 4, 5";

/// References, with the columns on both sides; what follows is their order.
const REFERENCES: &str = "SELECT pn.nspname::text, pc.relname::text, pa.attname::text, \
     fn.nspname::text, fc.relname::text, fa.attname::text, u.place::integer, k.conname::text, \
     (SELECT i.conname::text FROM pg_catalog.pg_constraint i WHERE i.conrelid = k.confrelid \
     AND i.contype IN ('p', 'u') AND i.conkey = k.confkey LIMIT 1), k.confupdtype::text, k.confdeltype::text \
     FROM pg_catalog.pg_constraint k \
     JOIN pg_catalog.pg_class fc ON fc.oid = k.conrelid JOIN pg_catalog.pg_namespace fn ON fn.oid = fc.relnamespace \
     JOIN pg_catalog.pg_class pc ON pc.oid = k.confrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace \
     CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u(own, other, place) \
     JOIN pg_catalog.pg_attribute fa ON fa.attrelid = fc.oid AND fa.attnum = u.own \
     JOIN pg_catalog.pg_attribute pa ON pa.attrelid = pc.oid AND pa.attnum = u.other \
     WHERE k.contype = 'f' AND ($1::text IS NULL OR pn.nspname = $1::text) \
     AND ($2::text IS NULL OR pc.relname = $2::text) AND ($3::text IS NULL OR fn.nspname = $3::text) \
     AND ($4::text IS NULL OR fc.relname = $4::text) ORDER BY ";

/// A question about the catalog.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Catalogs(CommandGetCatalogs),
    Schemas(CommandGetDbSchemas),
    Tables(CommandGetTables),
    TableTypes(CommandGetTableTypes),
    PrimaryKeys(CommandGetPrimaryKeys),
    ExportedKeys(CommandGetExportedKeys),
    ImportedKeys(CommandGetImportedKeys),
    CrossReference(CommandGetCrossReference),
}

/// One side of references: its catalog, schema and table, as far as they are asked for.
#[derive(Clone, Copy, Default)]
struct Side<'a> {
    catalog: Option<&'a str>,
    schema: Option<&'a str>,
    table: Option<&'a str>,
}

impl Question {
    /// The columns of the answer.
    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Catalogs(question) => question.into_builder().schema(),
            Self::Schemas(question) => question.clone().into_builder().schema(),
            Self::Tables(question) => question.clone().into_builder().schema(),
            Self::TableTypes(question) => question.into_builder().schema(),
            Self::PrimaryKeys(_) => {
                let names = ["catalog_name", "db_schema_name", "table_name", "column_name", "key_name", "key_sequence"];
                fields(&names, &["key_sequence"], &[], &["table_name", "column_name", "key_sequence"])
            }
            Self::ExportedKeys(_) | Self::ImportedKeys(_) | Self::CrossReference(_) => {
                let names = [
                    "pk_catalog_name",
                    "pk_db_schema_name",
                    "pk_table_name",
                    "pk_column_name",
                    "fk_catalog_name",
                    "fk_db_schema_name",
                    "fk_table_name",
                    "fk_column_name",
                    "key_sequence",
                    "fk_key_name",
                    "pk_key_name",
                    "update_rule",
                    "delete_rule",
                ];
                let (pk, fk) = (["pk_table_name", "pk_column_name"], ["fk_table_name", "fk_column_name"]);
                let present = [pk, fk, ["key_sequence", "update_rule"], ["delete_rule", ""]].concat();
                fields(&names, &["key_sequence"], &["update_rule", "delete_rule"], &present)
            }
        }
    }
}

/// Columns of texts, but for those that are numbers; those that are `present` have no NULLs.
fn fields(names: &[&str], numbers: &[&str], rules: &[&str], present: &[&str]) -> SchemaRef {
    let field = |name: &&str| {
        let kind = match name {
            name if numbers.contains(name) => DataType::Int32,
            name if rules.contains(name) => DataType::UInt8,
            _ => DataType::Utf8,
        };
        Field::new(*name, kind, !present.contains(name))
    };
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

/// A text as a value; NULL if there is none.
fn optional(text: Option<&str>) -> ArrayRef {
    match text {
        Some(text) => Arc::new(StringViewArray::from_iter_values([text])),
        None => new_null_array(&DataType::Utf8View, 1),
    }
}

fn not_built(error: FlightError) -> Error {
    Error::bug(format!("an answer about the catalog: {error}"))
}

fn not_made(error: arrow::error::ArrowError) -> Error {
    Error::bug(format!("an answer about the catalog: {error}"))
}

impl FlightSession {
    /// The name of the catalog: there is one.
    pub(super) fn catalog(&self) -> &'static str {
        diligence_db::CATALOG_NAME
    }

    /// Fails with code 3D000 if a client names another catalog than there is.
    pub(super) fn check_catalog(&self, named: Option<&str>) -> Result<()> {
        match named {
            Some(named) if !named.is_empty() && named != self.catalog() => {
                let error = Error::input(format!("no catalog is named '{named}'")).with_code("3D000");
                Err(error.with_hint(format!("there is one: '{}'", self.catalog())))
            }
            _ => Ok(()),
        }
    }

    /// Answers a question.
    pub(super) async fn answer(&self, question: &Question, cancellation: &Cancellation) -> Result<RecordBatch> {
        let catalog = self.catalog();
        match question {
            Question::Catalogs(question) => {
                let mut builder = question.into_builder();
                builder.append(catalog);
                builder.build().map_err(not_built)
            }
            Question::TableTypes(question) => {
                let mut builder = question.into_builder();
                TABLE_TYPES.iter().for_each(|name| builder.append(name));
                builder.build().map_err(not_built)
            }
            Question::Schemas(question) => {
                let mut builder = question.clone().into_builder();
                for row in self.texts(SCHEMAS, vec![], 1, cancellation).await? {
                    builder.append(catalog, &row[0]);
                }
                builder.build().map_err(not_built)
            }
            Question::Tables(question) => self.tables(question, cancellation).await,
            Question::PrimaryKeys(asked) => {
                let values = vec![optional(Some(&asked.table)), optional(asked.db_schema.as_deref())];
                let rows = self.all(PRIMARY_KEYS, values, cancellation).await?;
                let rows = rows.filter(|_| is_catalog(asked.catalog.as_deref(), catalog));
                let Some(rows) = rows else { return Ok(RecordBatch::new_empty(question.schema())) };
                let texts = |place| text_column(&rows, place);
                let own: ArrayRef = Arc::new(StringArray::from(vec![catalog; rows.num_rows()]));
                let columns = vec![own, texts(0)?, texts(1)?, texts(2)?, texts(3)?, rows.column(4).clone()];
                RecordBatch::try_new(question.schema(), columns).map_err(not_made)
            }
            Question::ExportedKeys(asked) => {
                let (catalog, schema) = (asked.catalog.as_deref(), asked.db_schema.as_deref());
                let referenced = Side { catalog, schema, table: Some(&asked.table) };
                self.references(question, referenced, Side::default(), "4, 5, 8, 7", cancellation).await
            }
            Question::ImportedKeys(asked) => {
                let (catalog, schema) = (asked.catalog.as_deref(), asked.db_schema.as_deref());
                let referring = Side { catalog, schema, table: Some(&asked.table) };
                self.references(question, Side::default(), referring, "1, 2, 9, 7", cancellation).await
            }
            Question::CrossReference(asked) => {
                let side = |catalog, schema, table| Side { catalog, schema, table: Some(table) };
                let referenced = side(asked.pk_catalog.as_deref(), asked.pk_db_schema.as_deref(), &asked.pk_table);
                let referring = side(asked.fk_catalog.as_deref(), asked.fk_db_schema.as_deref(), &asked.fk_table);
                self.references(question, referenced, referring, "1, 2, 9, 7", cancellation).await
            }
        }
    }

    async fn tables(&self, asked: &CommandGetTables, cancellation: &Cancellation) -> Result<RecordBatch> {
        let patterns = [&asked.db_schema_filter_pattern, &asked.table_name_filter_pattern];
        let values = patterns.map(|pattern| optional(pattern.as_deref())).to_vec();
        let rows = self.texts(TABLES, values, 3, cancellation).await?;
        let mut builder = asked.clone().into_builder();
        for row in rows {
            let [schema, table, kind] = row.as_slice() else { continue };
            if !asked.table_types.is_empty() && !asked.table_types.contains(kind) {
                continue;
            }
            let columns = match asked.include_schema {
                true => self.columns(schema, table, cancellation).await,
                false => Schema::empty(),
            };
            builder.append(self.catalog(), schema, table, kind, &columns).map_err(not_built)?;
        }
        builder.build().map_err(not_built)
    }

    /// The columns of a table, with their SQL types noted. None of a table that cannot be read: one file that is broken
    /// does not hide the others.
    async fn columns(&self, schema: &str, table: &str, cancellation: &Cancellation) -> Schema {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let query = format!("SELECT * FROM {}.{}", quoted(schema), quoted(table));
        let described = async {
            let kind = self.parse(query, cancellation).await?;
            self.describe(&kind, vec![], cancellation).await
        };
        let Ok(Some(columns)) = described.await.map(|description| description.schema) else { return Schema::empty() };
        let noted = |field: &Field| {
            let mut metadata = field.metadata().clone();
            let sql_type = SqlType::of_field(field).map(|known| known.to_string()).unwrap_or_default();
            for (key, value) in [
                ("ARROW:FLIGHT:SQL:CATALOG_NAME", self.catalog()),
                ("ARROW:FLIGHT:SQL:SCHEMA_NAME", schema),
                ("ARROW:FLIGHT:SQL:TABLE_NAME", table),
                ("ARROW:FLIGHT:SQL:TYPE_NAME", &sql_type),
            ] {
                metadata.insert(key.to_owned(), value.to_owned());
            }
            field.clone().with_metadata(metadata)
        };
        Schema::new(columns.fields().iter().map(|field| noted(field)).collect::<Vec<_>>())
    }

    async fn references(
        &self,
        question: &Question,
        referenced: Side<'_>,
        referring: Side<'_>,
        order: &str,
        cancellation: &Cancellation,
    ) -> Result<RecordBatch> {
        let catalog = self.catalog();
        let names = [referenced.schema, referenced.table, referring.schema, referring.table];
        let values = names.map(optional).to_vec();
        let rows = self.all(&format!("{REFERENCES}{order}"), values, cancellation).await?;
        let is_here = is_catalog(referenced.catalog, catalog) && is_catalog(referring.catalog, catalog);
        let Some(rows) = rows.filter(|_| is_here) else { return Ok(RecordBatch::new_empty(question.schema())) };
        let own: ArrayRef = Arc::new(StringArray::from(vec![catalog; rows.num_rows()]));
        let mut columns = vec![own.clone()];
        (0..3).try_for_each(|place| text_column(&rows, place).map(|column| columns.push(column)))?;
        columns.push(own);
        (3..6).try_for_each(|place| text_column(&rows, place).map(|column| columns.push(column)))?;
        columns.push(rows.column(6).clone());
        (7..9).try_for_each(|place| text_column(&rows, place).map(|column| columns.push(column)))?;
        for place in 9..11 {
            let rules = text_column(&rows, place)?;
            let rules = rules.as_string::<i32>().iter().map(|rule| rule_of(rule.unwrap_or_default()));
            columns.push(Arc::new(UInt8Array::from_iter_values(rules)));
        }
        RecordBatch::try_new(question.schema(), columns).map_err(not_made)
    }

    /// All rows of a query as one batch; `None` if there are none.
    async fn all(&self, sql: &str, values: Vec<ArrayRef>, cancellation: &Cancellation) -> Result<Option<RecordBatch>> {
        let batches = self.rows_of(sql, values, cancellation).await?;
        let Some(first) = batches.first() else { return Ok(None) };
        let rows = concat_batches(&first.schema(), &batches).map_err(not_made)?;
        Ok((rows.num_rows() > 0).then_some(rows))
    }

    /// The rows of a query as texts.
    async fn texts(
        &self,
        sql: &str,
        values: Vec<ArrayRef>,
        columns: usize,
        cancellation: &Cancellation,
    ) -> Result<Vec<Vec<String>>> {
        let Some(rows) = self.all(sql, values, cancellation).await? else { return Ok(vec![]) };
        let columns = (0..columns).map(|place| text_column(&rows, place)).collect::<Result<Vec<_>>>()?;
        let row = |row: usize| columns.iter().map(|column| column.as_string::<i32>().value(row).to_owned()).collect();
        Ok((0..rows.num_rows()).map(row).collect())
    }
}

/// Whether a client that asks for a catalog means the one that there is; an empty name stands for tables without one.
fn is_catalog(named: Option<&str>, catalog: &str) -> bool {
    named.is_none_or(|named| named == catalog)
}

fn text_column(rows: &RecordBatch, place: usize) -> Result<ArrayRef> {
    cast_with_options(rows.column(place), &DataType::Utf8, &CastOptions::default()).map_err(not_made)
}

/// What becomes of rows that refer to others, by PostgreSQL's letter, as Flight SQL counts it.
fn rule_of(letter: &str) -> u8 {
    match letter {
        "c" => 0,
        "r" => 1,
        "n" => 2,
        "d" => 4,
        _ => 3,
    }
}
