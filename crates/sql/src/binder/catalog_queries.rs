//! The queries that DuckDB's functions of the catalog stand for: `duckdb_functions()`, `duckdb_tables()` and their kin.
//! They read PostgreSQL's catalog.

use super::keywords;

/// A condition on the schema of a relation: that of users, not a session's own.
const OF_USERS: &str = "NOT IN ('information_schema', 'pg_catalog', 'system')";

/// The statement that makes a table with the number `c.oid` in the schema `n.nspname` again, with its keys and checks.
const CREATE_TABLE: &str = "concat('CREATE TABLE ', CASE WHEN n.nspname::text <> 'public' \
     THEN quote_ident(n.nspname::text) || '.' END, quote_ident(c.relname::text), '(', \
     (SELECT string_agg(concat(quote_ident(a.attname::text), ' ', format_type(a.atttypid, a.atttypmod), \
     ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' \
     ORDER BY a.attnum) FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), \
     (SELECT string_agg(', ' || pg_get_constraintdef(k.oid), '' ORDER BY k.conname) FROM pg_constraint k \
     WHERE k.conrelid = c.oid), ');')";

/// The query that a function without arguments stands for; `None` if it is none of these.
pub(super) fn of(name: &str) -> Option<String> {
    relations(name).or_else(|| declared(name)).or_else(|| others(name)).or_else(|| keywords::of(name))
}

/// Tables, views and what they have.
fn relations(name: &str) -> Option<String> {
    Some(match name {
        "duckdb_tables" => format!(
            "SELECT current_database() AS database_name, n.oid::bigint AS schema_oid, n.nspname::text AS schema_name, \
             c.relname::text AS table_name, \
             c.oid::bigint AS table_oid, obj_description(c.oid, 'pg_class') AS comment, false AS internal, \
             n.nspname::text LIKE 'pg_temp%' AS temporary, EXISTS (SELECT 1 FROM pg_constraint k \
             WHERE k.conrelid = c.oid AND k.contype = 'p') AS has_primary_key, \
             greatest(c.reltuples, 0)::bigint AS estimated_size, (SELECT count(*) FROM pg_attribute a \
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS column_count, \
             (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid) AS index_count, \
             (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c') \
             AS check_constraint_count, {CREATE_TABLE} AS sql FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind = 'r' AND n.nspname::text {OF_USERS} ORDER BY 3 ASC, 4 ASC"
        ),
        "duckdb_views" => format!(
            "SELECT current_database() AS database_name, n.oid::bigint AS schema_oid, n.nspname::text AS schema_name, \
             c.relname::text AS view_name, \
             c.oid::bigint AS view_oid, obj_description(c.oid, 'pg_class') AS comment, \
             false AS internal, n.nspname::text LIKE 'pg_temp%' AS temporary, \
             (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) AS column_count, \
             pg_get_viewdef(c.oid) AS sql FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind = 'v' AND n.nspname::text {OF_USERS} ORDER BY 3 ASC, 4 ASC"
        ),
        "duckdb_columns" => format!(
            "SELECT i.table_catalog::text AS database_name, i.table_schema::text AS schema_name, \
             i.table_name::text AS table_name, c.oid::bigint AS table_oid, i.column_name::text AS column_name, \
             i.ordinal_position::integer AS column_index, \
             col_description(c.oid, i.ordinal_position::integer) AS comment, \
             false AS internal, i.column_default::text AS column_default, i.is_nullable::text = 'YES' AS is_nullable, \
             i.data_type::text AS data_type, i.character_maximum_length::integer AS character_maximum_length, \
             i.numeric_precision::integer AS numeric_precision, \
             i.numeric_precision_radix::integer AS numeric_precision_radix, i.numeric_scale::integer AS numeric_scale \
             FROM information_schema.columns i JOIN pg_namespace n ON n.nspname::text = i.table_schema::text \
             JOIN pg_class c ON c.relnamespace = n.oid AND c.relname::text = i.table_name::text \
             WHERE i.table_schema {OF_USERS} ORDER BY 2 ASC, 3 ASC, 6 ASC"
        ),
        "duckdb_indexes" => format!(
            "SELECT current_database() AS database_name, x.schemaname::text AS schema_name, \
             x.indexname::text AS index_name, c.oid::bigint AS index_oid, x.tablename::text AS table_name, \
             i.indrelid::bigint AS table_oid, obj_description(c.oid, 'pg_class') AS comment, \
             i.indisunique AS is_unique, \
             i.indisprimary AS is_primary, i.indexprs AS expressions, x.indexdef::text AS sql \
             FROM pg_indexes x JOIN pg_class c \
             ON c.relname = x.indexname JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = x.schemaname \
             JOIN pg_index i ON i.indexrelid = c.oid WHERE x.schemaname::text {OF_USERS} \
             AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u')) \
             ORDER BY 2 ASC, 3 ASC"
        ),
        "duckdb_constraints" => format!(
            "SELECT current_database() AS database_name, n.nspname::text AS schema_name, \
             c.relname::text AS table_name, c.oid::bigint AS table_oid, \
             CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' WHEN 'f' THEN 'FOREIGN KEY' \
             ELSE 'CHECK' END AS constraint_type, pg_get_constraintdef(k.oid) AS constraint_text, \
             ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = k.conrelid \
             AND a.attnum = ANY (k.conkey) ORDER BY a.attnum) AS constraint_column_names, \
             k.conname::text AS constraint_name, \
             (SELECT r.relname::text FROM pg_class r WHERE r.oid = k.confrelid) AS referenced_table, \
             ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = k.confrelid \
             AND a.attnum = ANY (k.confkey) ORDER BY a.attnum) AS referenced_column_names \
             FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace UNION ALL SELECT current_database(), n.nspname::text, \
             c.relname::text, c.oid::bigint, 'NOT NULL', 'NOT NULL', ARRAY[a.attname::text], \
             c.relname::text || '_' || a.attname::text || '_not_null', NULL, ARRAY[]::text[] \
             FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE a.attnotnull AND a.attnum > 0 AND c.relkind = 'r' AND n.nspname::text {OF_USERS} \
             ORDER BY 2 ASC, 3 ASC, 5 ASC, 8 ASC"
        ),
        "pragma_show_tables" | "pragma_show" => format!(
            "SELECT table_name::text AS name FROM information_schema.tables WHERE table_schema {OF_USERS} \
             ORDER BY table_schema ASC, table_name ASC"
        ),
        "pragma_show_tables_expanded" => format!(
            "SELECT current_database() AS database, n.nspname::text AS schema, c.relname::text AS name, \
             array_agg(a.attname::text ORDER BY a.attnum) AS column_names, \
             array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) AS column_types, \
             n.nspname::text LIKE 'pg_temp%' AS temporary FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE c.relkind IN ('r', 'v', 'm') AND n.nspname::text {OF_USERS} GROUP BY 2, 3, 6 ORDER BY 2 ASC, 3 ASC"
        ),
        _ => return None,
    })
}

/// Schemas, types, sequences and functions.
fn declared(name: &str) -> Option<String> {
    Some(match name {
        "duckdb_schemas" => "SELECT current_database() AS database_name, oid::bigint AS oid, \
             nspname::text AS schema_name, obj_description(oid, 'pg_namespace') AS comment, \
             nspname::text IN ('information_schema', 'pg_catalog', 'system') AS internal \
             FROM pg_namespace ORDER BY 3 ASC"
            .to_owned(),
        "duckdb_types" => "SELECT current_database() AS database_name, n.nspname::text AS schema_name, \
             CASE WHEN n.nspname::text = 'pg_catalog' OR t.typcategory::text = 'A' THEN format_type(t.oid, NULL) \
             ELSE t.typname::text END AS type_name, \
             t.oid::bigint AS type_oid, t.typlen::integer AS type_size, CASE t.typtype::text WHEN 'e' THEN 'ENUM' \
             WHEN 'c' THEN 'STRUCT' ELSE upper(format_type(CASE t.typtype::text WHEN 'd' THEN t.typbasetype \
             ELSE t.oid END, NULL)) END AS logical_type, t.typcategory::text AS type_category, \
             n.nspname::text = 'pg_catalog' AS internal, \
             (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid) \
             AS labels FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace ORDER BY 3 ASC"
            .to_owned(),
        "duckdb_sequences" => "SELECT current_database() AS database_name, schemaname::text AS schema_name, \
             sequencename::text AS sequence_name, false AS temporary, start_value, min_value, max_value, increment_by, \
             cycle, last_value FROM pg_sequences ORDER BY 2 ASC, 3 ASC"
            .to_owned(),
        "duckdb_functions" => "SELECT current_database() AS database_name, 'pg_catalog' AS schema_name, \
             function_name, function_type, NULL::text AS description, return_type, \
             ARRAY(SELECT 'col' || i FROM generate_series(0, cardinality(parameter_types) - 1) g(i) ORDER BY i) \
             AS parameters, parameter_types, varargs, NULL::text AS macro_definition, \
             stability = 'VOLATILE' AS has_side_effects, true AS internal, NULL::bigint AS function_oid, stability \
             FROM pg_built_in_functions UNION ALL SELECT current_database(), n.nspname::text, p.proname::text, \
             CASE WHEN pg_get_functiondef(p.oid) NOT LIKE 'CREATE%MACRO%' THEN CASE WHEN p.proretset THEN 'table' \
             ELSE 'scalar' END WHEN p.proretset THEN 'table_macro' ELSE 'macro' END, \
             obj_description(p.oid, 'pg_proc'), pg_get_function_result(p.oid), \
             coalesce(p.proargnames::text[], ARRAY[]::text[]), NULL::text[], NULL, p.prosrc::text, \
             p.provolatile = 'v', false, p.oid::bigint, CASE p.provolatile WHEN 'i' THEN 'CONSISTENT' \
             WHEN 's' THEN 'CONSISTENT_WITHIN_QUERY' ELSE 'VOLATILE' END FROM pg_proc p \
             JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.prosrc IS NOT NULL ORDER BY 3 ASC, 2 ASC"
            .to_owned(),
        "duckdb_extensions" => "SELECT extname::text AS extension_name, true AS loaded, true AS installed, \
             NULL::text AS install_path, obj_description(oid, 'pg_extension') AS description, \
             extversion::text AS extension_version FROM pg_extension ORDER BY 1 ASC"
            .to_owned(),
        "duckdb_dependencies" => "SELECT classid::bigint AS classid, objid::bigint AS objid, \
             objsubid::integer AS objsubid, refclassid::bigint AS refclassid, refobjid::bigint AS refobjid, \
             refobjsubid::integer AS refobjsubid, deptype::text AS deptype FROM pg_depend"
            .to_owned(),
        "pragma_collations" => "SELECT collname::text AS collname FROM pg_collation ORDER BY 1 ASC".to_owned(),
        "pragma_functions" => {
            "SELECT function_name AS name, upper(function_type) AS type, parameter_types AS parameters, \
             varargs, return_type, has_side_effects AS side_effects FROM duckdb_functions()"
                .to_owned()
        }
        _ => return None,
    })
}

/// The database itself.
fn others(name: &str) -> Option<String> {
    Some(match name {
        "duckdb_databases" => {
            "SELECT datname::text AS database_name, oid::bigint AS database_oid, NULL::text AS path, \
             shobj_description(oid, 'pg_database') AS comment, false AS internal, 'diligence' AS type, \
             false AS readonly FROM pg_database ORDER BY 1 ASC"
                .to_owned()
        }
        "duckdb_settings" => {
            "SELECT name, value, description, 'VARCHAR' AS input_type FROM system.settings ORDER BY 1 ASC".to_owned()
        }
        "duckdb_memory" => "SELECT operator AS tag, sum(bytes)::bigint AS memory_usage_bytes, \
             0::bigint AS temporary_storage_bytes FROM system.memory GROUP BY 1 ORDER BY 1 ASC"
            .to_owned(),
        "pragma_database_list" => {
            "SELECT oid::bigint AS seq, datname::text AS name, NULL::text AS file FROM pg_database ORDER BY 1 ASC"
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
