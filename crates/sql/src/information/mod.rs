//! `information_schema`: the catalog as the SQL standard describes it, with PostgreSQL's views and columns.
//!
//! A view's rows are made from the snapshot that a statement sees. Views about what a catalog does not have
//! (transforms and the like) are there without rows, since clients join them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int32Array, RecordBatch, RecordBatchOptions, StringViewArray, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use diligence_base::Result;
use diligence_catalog::authority::Subject;
use diligence_catalog::privileges::OWNER;
use diligence_catalog::shown_default;
use diligence_catalog::types::is_computed;
use diligence_catalog::{
    CATALOG_NAME, DEFAULT_SCHEMA, INFORMATION_SCHEMA, POSTGRES_SCHEMA, Relation, RelationName, Resolved, SYSTEM_SCHEMA,
    SessionSnapshot,
};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::timed_type::TimedType;
use sqlparser::ast::Expr;

use crate::{type_names, view_shape};

/// PostgreSQL's views: the name, a tab, and the columns with their types; a column without one is a `name`.
static VIEWS: LazyLock<HashMap<&'static str, SchemaRef>> = LazyLock::new(|| {
    let views = include_str!("views.tsv").lines().filter_map(|line| line.split_once('\t'));
    let field = |column: &str| {
        let (name, sql_type) = column.split_once(':').unwrap_or((column, "name"));
        SqlType::parse(sql_type).unwrap_or(SqlType::Text).field(name, true)
    };
    let schema = |columns: &str| Arc::new(Schema::new(columns.split(' ').map(field).collect::<Vec<_>>()));
    views.map(|(name, columns)| (name, schema(columns))).collect()
});

/// A value of a row.
enum Cell {
    Text(String),
    Number(i32),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i32> for Cell {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// The values of a row that are not NULL, by their columns.
type Row = HashMap<&'static str, Cell>;

/// A row of these values.
macro_rules! row {
    ($($column:literal: $value:expr),* $(,)?) => {
        Row::from([$(($column, Cell::from($value))),*])
    };
}

mod constraints;
mod domains;
mod grants;
mod routines;
mod triggers;

/// The rows of a view; `None` if there is no such view. `user` is who asks. Fails with kind `Bug` if rows do not fit.
pub(crate) fn rows(view: &str, snapshot: &SessionSnapshot, user: &str) -> Result<Option<RecordBatch>> {
    let Some(schema) = VIEWS.get(view) else { return Ok(None) };
    let rows = match view {
        "information_schema_catalog_name" => vec![row! { "catalog_name": CATALOG_NAME }],
        "enabled_roles" => grants::enabled_roles(snapshot, user),
        "applicable_roles" | "administrable_role_authorizations" => grants::memberships(snapshot, user, view),
        "triggers" => triggers::triggers(snapshot),
        "triggered_update_columns" => triggers::columns(snapshot),
        "table_privileges" => grants::of_tables(snapshot, user, true),
        "role_table_grants" => grants::of_tables(snapshot, user, false),
        "column_privileges" => grants::of_columns(snapshot, user, true),
        "role_column_grants" => grants::of_columns(snapshot, user, false),
        "routine_privileges" => grants::of_routines(snapshot, user, true),
        "role_routine_grants" => grants::of_routines(snapshot, user, false),
        "usage_privileges" => grants::of_usage(snapshot, user, true),
        "role_usage_grants" => grants::of_usage(snapshot, user, false),
        "schemata" => schemata(snapshot, user),
        "tables" => {
            let is_table = |relation: &Resolved| match relation {
                Resolved::Object(object) => {
                    !matches!(object.relation, Relation::Sequence(_)) && object.relation.materialized().is_none()
                }
                Resolved::Computed(_) => true,
            };
            let tables = relations(snapshot).into_iter().filter(|(_, relation)| is_table(relation));
            tables.map(|(name, relation)| table(snapshot, &name, &relation)).collect()
        }
        "table_constraints" => constraints::table_constraints(snapshot),
        "key_column_usage" => constraints::key_columns(snapshot),
        "referential_constraints" => constraints::references(snapshot),
        "check_constraints" => {
            let mut rows = constraints::checks(snapshot);
            rows.extend(domains::checks(snapshot));
            rows
        }
        "domains" => domains::domains(snapshot),
        "domain_constraints" => domains::constraints(snapshot),
        "domain_udt_usage" => domains::base_types(snapshot),
        "column_domain_usage" => {
            relations(snapshot).iter().flat_map(|(name, found)| domains::columns(name, found)).collect()
        }
        "constraint_column_usage" => constraints::constrained_columns(snapshot),
        "sequences" => constraints::sequences(snapshot),
        "views" => {
            relations(snapshot).iter().filter_map(|(name, relation)| view_row(snapshot, name, relation)).collect()
        }
        "columns" => {
            let of = |(name, relation): &(RelationName, Resolved)| columns(snapshot, name, relation);
            relations(snapshot).iter().flat_map(of).collect()
        }
        "routines" => routines::routines(snapshot),
        "parameters" => routines::parameters(snapshot),
        _ => vec![],
    };
    batch(schema, &rows).map(Some)
}

fn batch(schema: &SchemaRef, rows: &[Row]) -> Result<RecordBatch> {
    let column = |field: &Arc<Field>| -> ArrayRef {
        let cells = rows.iter().map(|row| row.get(field.name().as_str()));
        let text = |cell: Option<&Cell>| match cell? {
            Cell::Text(text) => Some(text.clone()),
            Cell::Number(number) => Some(number.to_string()),
        };
        let number = |cell: Option<&Cell>| match cell? {
            Cell::Number(number) => Some(*number),
            Cell::Text(_) => None,
        };
        match SqlType::of_field(field) {
            Some(SqlType::Integer) => Arc::new(cells.map(number).collect::<Int32Array>()),
            Some(SqlType::TimestampTz) => new_null_array(field.data_type(), rows.len()),
            _ => Arc::new(cells.map(text).collect::<StringViewArray>()),
        }
    };
    let columns = schema.fields().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(from_arrow)
}

/// What the session may read, in order; tables that describe the engine included.
fn relations(snapshot: &SessionSnapshot) -> Vec<(RelationName, Resolved)> {
    let mut names = snapshot.names();
    names.sort();
    names.into_iter().filter_map(|name| snapshot.readable(&name).ok()?.map(|found| (name, found))).collect()
}

fn schemata(snapshot: &SessionSnapshot, user: &str) -> Vec<Row> {
    let mut names = snapshot.catalog.schema_names().map(str::to_owned).collect::<Vec<_>>();
    names.extend([INFORMATION_SCHEMA, POSTGRES_SCHEMA, SYSTEM_SCHEMA].map(str::to_owned));
    names.retain(|name| snapshot.rights.may_use_schema(name));
    names.sort();
    names.dedup();
    let authority = snapshot.catalog.authority();
    let owner = |name: &str| {
        let found = snapshot.catalog.schemas().find(|(known, _)| *known == name);
        let owner = found.map(|(_, id)| authority.owner_of(Subject::Schema(id)));
        owner.filter(|owner| *owner != OWNER).unwrap_or(user).to_owned()
    };
    let schema = |name: String| {
        let owner = owner(&name);
        row! { "catalog_name": CATALOG_NAME, "schema_name": name, "schema_owner": owner }
    };
    names.into_iter().map(schema).collect()
}

fn table(snapshot: &SessionSnapshot, name: &RelationName, relation: &Resolved) -> Row {
    let takes_rows = matches!(relation, Resolved::Object(object) if view_shape::is_updatable(snapshot, object));
    let kind = match (relation.is_view(), name.is_temporary()) {
        (true, _) => "VIEW",
        (_, true) => "LOCAL TEMPORARY",
        _ => "BASE TABLE",
    };
    row! {
        "table_catalog": CATALOG_NAME,
        "table_schema": name.schema.as_str(),
        "table_name": name.name.as_str(),
        "table_type": kind,
        "is_insertable_into": if takes_rows { "YES" } else { "NO" },
        "is_typed": "NO",
    }
}

fn view_row(snapshot: &SessionSnapshot, name: &RelationName, relation: &Resolved) -> Option<Row> {
    if !relation.is_view() {
        return None;
    }
    let mut row = row! {
        "table_catalog": CATALOG_NAME,
        "table_schema": name.schema.as_str(),
        "table_name": name.name.as_str(),
        "check_option": "NONE",
        "is_updatable": "NO",
        "is_insertable_into": "NO",
        "is_trigger_updatable": "NO",
        "is_trigger_deletable": "NO",
        "is_trigger_insertable_into": "NO",
    };
    if let Resolved::Object(object) = relation
        && let Relation::View(view) = &object.relation
    {
        row.insert("view_definition", view.shown_query().into());
        if let Some(option) = view_shape::check_option(view) {
            row.insert("check_option", option.to_uppercase().into());
        }
        if view_shape::is_updatable(snapshot, object) {
            row.insert("is_updatable", "YES".into());
            row.insert("is_insertable_into", "YES".into());
        }
    }
    Some(row)
}

/// The columns of a relation. Of files that cannot be opened there are none: whoever selects from them learns why.
fn columns(snapshot: &SessionSnapshot, name: &RelationName, relation: &Resolved) -> Vec<Row> {
    // Those of a sequence are none for the standard.
    if matches!(relation, Resolved::Object(object) if matches!(object.relation, Relation::Sequence(_))) {
        return vec![];
    }
    let Ok(schema) = relation.schema() else { return vec![] };
    let defaults = match relation {
        Resolved::Object(object) => match &object.relation {
            Relation::Native(memory) => memory.rules().defaults.clone(),
            Relation::Files(files) => files.column_defaults.clone(),
            _ => HashMap::new(),
        },
        Resolved::Computed(_) => HashMap::new(),
    };
    let is_memory = matches!(relation, Resolved::Object(object) if matches!(object.relation, Relation::Native(_)));
    let updatable = updatable_columns(snapshot, relation);
    let column = |(index, field): (usize, &Arc<Field>)| {
        let place = i32::try_from(index + 1).unwrap_or(i32::MAX);
        let sql_type = SqlType::of_field(field).unwrap_or(SqlType::Text);
        let sql_type = if is_computed(field) { sql_type.without_modifier() } else { sql_type };
        let mut row = row! {
            "table_catalog": CATALOG_NAME,
            "table_schema": name.schema.as_str(),
            "table_name": name.name.as_str(),
            "column_name": field.name().as_str(),
            "ordinal_position": place,
            "is_nullable": if field.is_nullable() { "YES" } else { "NO" },
            "udt_catalog": CATALOG_NAME,
            "udt_schema": POSTGRES_SCHEMA,
            "dtd_identifier": place,
            "is_self_referencing": "NO",
            "is_identity": "NO",
            "identity_cycle": "NO",
            "is_generated": "NEVER",
            "is_updatable": if is_memory || updatable.get(index) == Some(&true) { "YES" } else { "NO" },
        };
        if let Some(default) = defaults.get(field.name()) {
            let sql_type = SqlType::of_field(field).unwrap_or(SqlType::Text);
            row.insert("column_default", shown_default(&default.to_string(), &sql_type).into());
        }
        if let Resolved::Object(object) = relation
            && let Relation::Native(table) = &object.relation
        {
            constraints::describe_column(table.rules(), field.name(), &mut row);
            if table.rules().identities.contains_key(field.name()) {
                constraints::describe_counting(snapshot, object.id, field.name(), &mut row);
            }
        }
        if let SqlType::Domain(domain) = &sql_type {
            row.extend(domains::named(domain));
        }
        if let Some(collation) = sql_type.base().collation() {
            row.insert("collation_catalog", CATALOG_NAME.into());
            let bare = if collation.is_predefined() { POSTGRES_SCHEMA } else { DEFAULT_SCHEMA };
            row.insert("collation_schema", collation.schema.as_deref().unwrap_or(bare).into());
            row.insert("collation_name", collation.name.as_str().into());
        }
        describe(&sql_type.below_domains().uncollated(), &mut row);
        row
    };
    schema.fields().iter().enumerate().map(column).collect()
}

/// By column of a view, whether statements may change it: none if they may not change the view.
fn updatable_columns(snapshot: &SessionSnapshot, relation: &Resolved) -> Vec<bool> {
    let Resolved::Object(object) = relation else { return vec![] };
    let Relation::View(view) = &object.relation else { return vec![] };
    match view_shape::SimpleView::of(view) {
        Ok(simple) if view_shape::is_updatable(snapshot, object) => {
            let is_column = |item: &Option<Expr>| item.as_ref().is_none_or(|item| simple.column_of(item).is_some());
            simple.items.iter().map(is_column).collect()
        }
        _ => vec![],
    }
}

/// The bytes that the longest text may have, as PostgreSQL says.
const OCTETS_MAX: i32 = 1 << 30;

/// What a type says about its values.
fn describe(sql_type: &SqlType, row: &mut Row) {
    let mut numeric = |precision: Option<i32>, radix: i32, scale: Option<i32>| {
        row.insert("numeric_precision_radix", radix.into());
        precision.map(|precision| row.insert("numeric_precision", precision.into()));
        scale.map(|scale| row.insert("numeric_scale", scale.into()));
    };
    match sql_type {
        SqlType::SmallInt => numeric(Some(16), 2, Some(0)),
        SqlType::Integer => numeric(Some(32), 2, Some(0)),
        SqlType::BigInt => numeric(Some(64), 2, Some(0)),
        SqlType::Real => numeric(Some(24), 2, None),
        SqlType::Double => numeric(Some(53), 2, None),
        SqlType::Numeric(None) => numeric(None, 10, None),
        SqlType::Numeric(Some((precision, scale))) => numeric(Some((*precision).into()), 10, Some((*scale).into())),
        SqlType::Varchar(Some(length)) | SqlType::Char(Some(length)) => {
            let length = i32::try_from(*length).unwrap_or(i32::MAX);
            row.insert("character_maximum_length", length.into());
            row.insert("character_octet_length", length.saturating_mul(4).into());
        }
        SqlType::Bit(Some(length)) | SqlType::VarBit(Some(length)) => {
            let length = i32::try_from(*length).unwrap_or(i32::MAX);
            row.insert("character_maximum_length", length.into());
        }
        SqlType::Varchar(None) | SqlType::Char(None) | SqlType::Text => {
            row.insert("character_octet_length", OCTETS_MAX.into());
        }
        SqlType::Date => {
            row.insert("datetime_precision", 0.into());
        }
        SqlType::Time | SqlType::TimeTz | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval => {
            row.insert("datetime_precision", 6.into());
        }
        SqlType::Timed(timed) => {
            describe(&timed.base, row);
            // Of arrays, nothing is said of the elements.
            if timed.base.element().is_none() {
                describe_times(timed, row);
            }
            return;
        }
        _ => {}
    }
    let (data_type, name) = named(sql_type);
    row.insert("data_type", data_type.into());
    row.insert("udt_name", name.into());
    if let Some((schema, _)) = type_names::made(sql_type) {
        row.insert("udt_schema", schema.into());
    }
}

/// What a modifier says about times.
fn describe_times(timed: &TimedType, row: &mut Row) {
    if let Some(digits) = timed.digits() {
        row.insert("datetime_precision", digits.into());
    }
    if let Some(fields) = timed.fields() {
        let digits = timed.digits().map(|digits| format!("({digits})")).unwrap_or_default();
        row.insert("interval_type", format!("{}{digits}", fields.to_uppercase()).into());
    }
}

/// What kind of type one is, and its name.
fn named(sql_type: &SqlType) -> (String, String) {
    match sql_type {
        SqlType::Array(_) => ("ARRAY".to_owned(), format!("_{}", sql_type.column_name())),
        SqlType::Enum(one) => ("USER-DEFINED".to_owned(), one.name.clone()),
        SqlType::Record(fields) if fields.composite_name().is_some() => {
            let name = fields.composite_name().map(|own| own.name.clone());
            ("USER-DEFINED".to_owned(), name.unwrap_or_default())
        }
        SqlType::Char(_) => ("character".to_owned(), "bpchar".to_owned()),
        other => (other.without_modifier().to_string(), other.internal_name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diligence_catalog::{Catalog, Rights, SessionCatalogs};

    use super::*;

    #[test]
    fn every_view_has_postgresqls_columns() {
        let catalogs =
            SessionCatalogs::new(Arc::new(Catalog::default()), Arc::default(), Arc::default(), Arc::new(Rights::all()));
        let snapshot = catalogs.snapshot();
        for view in VIEWS.keys() {
            let rows = rows(view, &snapshot, "me").unwrap().unwrap();
            assert!(rows.num_columns() > 0, "{view}");
        }
        assert!(rows("no_view", &snapshot, "me").unwrap().is_none());
        let tables = rows("tables", &snapshot, "me").unwrap().unwrap();
        assert_eq!(tables.schema().field(2).name(), "table_name");
        assert_eq!(rows("enabled_roles", &snapshot, "me").unwrap().unwrap().num_rows(), 1);
    }

    #[test]
    fn types_are_described_as_postgresql_does() {
        let described = |sql_type: &SqlType, column: &str| {
            let mut row = Row::new();
            describe(sql_type, &mut row);
            match row.remove(column)? {
                Cell::Text(text) => Some(text),
                Cell::Number(number) => Some(number.to_string()),
            }
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(described(&SqlType::array_of(SqlType::Integer), "udt_name"), text("_int4"));
        assert_eq!(described(&SqlType::array_of(SqlType::Integer), "data_type"), text("ARRAY"));
        assert_eq!(described(&SqlType::decimal(5, 2), "data_type"), text("numeric"));
        assert_eq!(described(&SqlType::decimal(5, 2), "numeric_precision"), text("5"));
        assert_eq!(described(&SqlType::NUMERIC, "numeric_precision"), None);
        assert_eq!(described(&SqlType::Varchar(Some(7)), "character_octet_length"), text("28"));
        assert_eq!(described(&SqlType::Timestamp, "data_type"), text("timestamp without time zone"));
        assert_eq!(described(&SqlType::Double, "numeric_precision_radix"), text("2"));
    }
}
