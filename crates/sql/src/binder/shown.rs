//! What DuckDB's functions and pragmas tell of a database: queries over the tables of PostgreSQL's catalog.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Query, Value};

use super::scope::Withs;
use super::{Binder, Output, Rows};
use crate::algebra::{Constant, Relation, Scalar};
use crate::external::OptionValue;

/// What users made, not a session's own: a condition on the schema of a relation.
const OF_USERS: &str = "NOT IN ('information_schema', 'pg_catalog', 'system')";

/// A table's columns with their defaults and whether they are in its primary key, for a table's oid.
const COLUMNS: &str = "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     LEFT JOIN pg_constraint p ON p.conrelid = a.attrelid AND p.contype = 'p' WHERE a.attnum > 0 \
     AND NOT a.attisdropped AND a.attrelid = ";

/// The query that `query('SELECT …')`, `query_table('t')` and `query_table(['t', 'u'])` stand for; `None` for other
/// functions. Fails with 42601 if it is no literal.
pub(super) fn written_query(name: &str, arguments: &[FunctionArg]) -> Result<Option<String>> {
    if !matches!(name, "query" | "query_table") {
        return Ok(None);
    }
    let texts = match arguments {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(given)), ..] => {
            OptionValue::of(given).and_then(|value| value.texts().ok())
        }
        _ => None,
    };
    let texts = texts.filter(|texts| !texts.is_empty() && (name == "query_table" || texts.len() == 1));
    let texts =
        texts.ok_or_else(|| Error::input(format!("{name}() takes a text that is a literal")).with_code("42601"))?;
    let is_by_name = match arguments.get(1) {
        Some(
            FunctionArg::Unnamed(FunctionArgExpr::Expr(by_name))
            | FunctionArg::Named { arg: FunctionArgExpr::Expr(by_name), .. },
        ) => {
            matches!(OptionValue::of(by_name), Some(OptionValue::One(text)) if text == "true")
        }
        _ => false,
    };
    Ok(Some(match name {
        "query" => texts.concat(),
        _ => {
            let all = texts.iter().map(|table| format!("SELECT * FROM {table}")).collect::<Vec<_>>();
            all.join(if is_by_name { " UNION ALL BY NAME " } else { " UNION ALL " })
        }
    }))
}

/// The query that a function without arguments stands for.
fn without_arguments(name: &str) -> Option<String> {
    Some(match name {
        "duckdb_tables" => format!(
            "SELECT current_database() AS database_name, n.nspname::text AS schema_name, c.relname::text AS table_name, \
             c.oid::bigint AS table_oid, obj_description(c.oid, 'pg_class') AS comment, false AS internal, \
             n.nspname::text LIKE 'pg_temp%' AS temporary, EXISTS (SELECT 1 FROM pg_constraint k \
             WHERE k.conrelid = c.oid AND k.contype = 'p') AS has_primary_key, \
             greatest(c.reltuples, 0)::bigint AS estimated_size, (SELECT count(*) FROM pg_attribute a \
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS column_count, \
             (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid) AS index_count, \
             (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c') \
             AS check_constraint_count FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind = 'r' AND n.nspname::text {OF_USERS} ORDER BY 2, 3"
        ),
        "duckdb_views" => format!(
            "SELECT current_database() AS database_name, n.nspname::text AS schema_name, c.relname::text AS view_name, \
             c.oid::bigint AS view_oid, obj_description(c.oid, 'pg_class') AS comment, \
             false AS internal, n.nspname::text LIKE 'pg_temp%' AS temporary, \
             (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) AS column_count, \
             pg_get_viewdef(c.oid) AS sql FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind = 'v' AND n.nspname::text {OF_USERS} ORDER BY 2, 3"
        ),
        "duckdb_columns" => format!(
            "SELECT table_catalog::text AS database_name, table_schema::text AS schema_name, \
             table_name::text AS table_name, column_name::text AS column_name, ordinal_position::integer AS column_index, \
             false AS internal, column_default::text AS column_default, is_nullable::text = 'YES' AS is_nullable, \
             data_type::text AS data_type, character_maximum_length::integer AS character_maximum_length, \
             numeric_precision::integer AS numeric_precision, numeric_scale::integer AS numeric_scale \
             FROM information_schema.columns WHERE table_schema {OF_USERS} ORDER BY 2, 3, 5"
        ),
        "duckdb_schemas" => "SELECT current_database() AS database_name, nspname::text AS schema_name, \
             nspname::text IN ('information_schema', 'pg_catalog', 'system') AS internal \
             FROM pg_namespace ORDER BY 2"
            .to_owned(),
        "duckdb_databases" => "SELECT datname::text AS database_name, oid::bigint AS database_oid, false AS internal, \
             false AS readonly FROM pg_database ORDER BY 1"
            .to_owned(),
        "duckdb_settings" => {
            "SELECT name, value, description, 'VARCHAR' AS input_type FROM system.settings ORDER BY 1".to_owned()
        }
        "duckdb_types" => "SELECT n.nspname::text AS schema_name, format_type(t.oid, NULL) AS type_name, \
             t.oid::bigint AS type_oid, t.typlen::integer AS type_size, t.typcategory::text AS type_category \
             FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace ORDER BY 2"
            .to_owned(),
        "duckdb_indexes" => format!(
            "SELECT current_database() AS database_name, x.schemaname::text AS schema_name, \
             x.indexname::text AS index_name, x.tablename::text AS table_name, i.indisunique AS is_unique, \
             i.indisprimary AS is_primary, x.indexdef::text AS sql FROM pg_indexes x JOIN pg_class c \
             ON c.relname = x.indexname JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = x.schemaname \
             JOIN pg_index i ON i.indexrelid = c.oid WHERE x.schemaname::text {OF_USERS} \
             AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u')) \
             ORDER BY 2, 3"
        ),
        "duckdb_sequences" => "SELECT current_database() AS database_name, schemaname::text AS schema_name, \
             sequencename::text AS sequence_name, false AS temporary, start_value, min_value, max_value, increment_by, \
             cycle, last_value FROM pg_sequences ORDER BY 2, 3"
            .to_owned(),
        "duckdb_constraints" => format!(
            "SELECT current_database() AS database_name, n.nspname::text AS schema_name, c.relname::text AS table_name, \
             CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' WHEN 'f' THEN 'FOREIGN KEY' \
             ELSE 'CHECK' END AS constraint_type, pg_get_constraintdef(k.oid) AS constraint_text, \
             k.conname::text AS constraint_name FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace UNION ALL SELECT current_database(), n.nspname::text, \
             c.relname::text, 'NOT NULL', 'NOT NULL', c.relname::text || '_' || a.attname::text || '_not_null' \
             FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE a.attnotnull AND a.attnum > 0 AND c.relkind = 'r' AND n.nspname::text {OF_USERS} ORDER BY 2, 3, 4, 6"
        ),
        "pragma_show_tables" | "pragma_show" => format!(
            "SELECT table_name::text AS name FROM information_schema.tables WHERE table_schema {OF_USERS} \
             ORDER BY table_schema, table_name"
        ),
        "pragma_show_tables_expanded" => format!(
            "SELECT current_database() AS database, n.nspname::text AS schema, c.relname::text AS name, \
             array_agg(a.attname::text ORDER BY a.attnum) AS column_names, \
             array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) AS column_types, \
             n.nspname::text LIKE 'pg_temp%' AS temporary FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE c.relkind IN ('r', 'v', 'm') AND n.nspname::text {OF_USERS} GROUP BY 2, 3, 6 ORDER BY 2, 3"
        ),
        "pragma_database_list" => {
            "SELECT oid::bigint AS seq, datname::text AS name, NULL::text AS file FROM pg_database ORDER BY 1"
                .to_owned()
        }
        "pragma_database_size" => "SELECT current_database() AS database_name, \
             pg_size_pretty(coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint) AS database_size \
             FROM pg_class c WHERE c.relkind = 'r'"
            .to_owned(),
        "pragma_version" => "SELECT version() AS library_version".to_owned(),
        _ => return None,
    })
}

/// The query that a function of this name stands for; `None` if it is none of these. Fails with 42601 for arguments
/// that make no sense.
pub(super) fn query_of(name: &str, arguments: &[FunctionArg]) -> Result<Option<String>> {
    if let Some(query) = without_arguments(name) {
        return match arguments {
            [] => Ok(Some(query)),
            _ => Err(Error::input(format!("{name}() takes no arguments")).with_code("42601")),
        };
    }
    if !matches!(name, "pragma_table_info" | "describe table") {
        return Ok(None);
    }
    let table = match arguments {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::SingleQuotedString(table) => Some(table.replace('\'', "''")),
            _ => None,
        },
        _ => None,
    };
    let wrong = || Error::input(format!("{name}() takes the name of a table in quotes")).with_code("42601");
    let table = table.ok_or_else(wrong)?;
    Ok(Some(match name {
        "pragma_table_info" => format!(
            "SELECT (a.attnum - 1)::integer AS cid, a.attname::text AS name, \
             format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS \"notnull\", \
             pg_get_expr(d.adbin, d.adrelid) AS dflt_value, coalesce(p.conkey @> ARRAY[a.attnum], false) AS pk \
             {COLUMNS}'{table}'::regclass::oid ORDER BY a.attnum"
        ),
        _ => format!(
            "SELECT a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS column_type, \
             CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS \"null\", \
             CASE WHEN p.conkey @> ARRAY[a.attnum] THEN 'PRI' END AS key, \
             pg_get_expr(d.adbin, d.adrelid) AS \"default\", NULL::text AS extra \
             {COLUMNS}'{table}'::regclass::oid ORDER BY a.attnum"
        ),
    }))
}

impl Binder<'_> {
    /// What DESCRIBE says of a query.
    pub(super) fn description(&self, query: &Query, withs: &Withs<'_>) -> Result<Rows> {
        let described = self.settled(self.query(query, None, withs)?)?.columns();
        let null = || Scalar::Constant(Constant::null(SqlType::Text));
        let text = |text: String| Scalar::Constant(Constant::text(text));
        let row = |column: crate::algebra::Column| {
            let sql_type = text(column.sql_type.to_string());
            vec![text(column.name), sql_type, text("YES".to_owned()), null(), null(), null()]
        };
        let names = ["column_name", "column_type", "null", "key", "default", "extra"];
        let columns = names.map(|name| self.numbers.named(name, SqlType::Text, true)).to_vec();
        let outputs = columns.iter().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
        let outputs = outputs.collect();
        let relation = Relation::Values { columns, rows: described.into_iter().map(row).collect() };
        Ok(Rows { relation, outputs })
    }
}
