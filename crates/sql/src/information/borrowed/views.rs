//! What clients find in `information_schema` beside DataFusion's tables: views about what tables do not have here
//! (constraints, grants and the like), which never have rows but are joined, and the PostgreSQL types of columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};

/// Names and columns; all columns are text but those with an `i`, which are numbers.
#[rustfmt::skip]
const VIEWS: [(&str, &str); 10] = [
    ("check_constraints", "constraint_catalog constraint_schema constraint_name check_clause"),
    ("column_privileges", "grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable"),
    ("constraint_column_usage", "table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name"),
    ("constraint_table_usage", "table_catalog table_schema table_name constraint_catalog constraint_schema constraint_name"),
    ("key_column_usage", "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name \
      ordinal_position:i position_in_unique_constraint:i"),
    ("referential_constraints", "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema \
      unique_constraint_name match_option update_rule delete_rule"),
    ("sequences", "sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value increment cycle_option"),
    ("table_constraints", "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type \
      is_deferrable initially_deferred enforced nulls_distinct"),
    ("table_privileges", "grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy"),
    ("triggers", "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog event_object_schema event_object_table \
      action_order:i action_condition action_statement action_orientation action_timing"),
];

/// DataFusion's `information_schema.columns`, under another name.
pub(crate) const COLUMNS_ALONE: &str = "columns alone";

/// The statement that makes `information_schema.columns` of it.
pub(crate) const COLUMNS: &str = "CREATE VIEW columns AS SELECT c.*, 'diligence' AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name \
     FROM information_schema.\"columns alone\" c \
     LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = c.table_schema \
     LEFT JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = c.table_name \
     LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = c.column_name \
     LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid";

/// The view of this name, if it is one of these.
pub(crate) fn view(name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some((_, columns)) = VIEWS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let fields = columns.split_whitespace().map(|column| match column.strip_suffix(":i") {
        Some(number) => Field::new(number, DataType::Int64, true),
        None => Field::new(column, DataType::Utf8View, true),
    });
    let schema = DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>()))?;
    let nothing = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::new(schema) });
    Ok(Some(Arc::new(ViewTable::new(nothing, None))))
}
