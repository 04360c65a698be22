//! Rows that follow those which they refer to (ON DELETE SET NULL, ON UPDATE CASCADE, …): what their table's rules say
//! of them. They are few, and no statement was planned for them, so the rules are bound when such rows come.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use diligence_base::{Error, Result};
use diligence_catalog::{Catalog, CatalogSnapshot, NativeTable, Rights, RowRules, SessionCatalogs};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::SqlType;

use super::around::Around;
use super::names::Names;
use super::tables::targets;
use super::{Planner, PlannerOptions, guarded};
use crate::algebra::{Column, Scalar};
use crate::binder::{self, Settling};
use crate::lowering::{self, LoweringOptions};
use crate::write;

/// Knows what the expressions in tables' rules say of rows that follow others.
pub struct FollowedRows(Planner);

impl std::fmt::Debug for FollowedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FollowedRows")
    }
}

impl FollowedRows {
    /// As sessions plan that have set nothing.
    pub fn new(planner: &Planner) -> Self {
        Self(planner.for_session(catalogs_of(Arc::default()), planner.options().clone()))
    }
}

fn catalogs_of(names: Arc<Catalog>) -> SessionCatalogs {
    SessionCatalogs::new(names, Arc::default(), Arc::new(BTreeMap::new()), Arc::new(Rights::all()))
}

impl RowRules for FollowedRows {
    fn followed(
        &self,
        names: &CatalogSnapshot,
        table: &NativeTable,
        rows: RecordBatch,
        columns: &[String],
        to_defaults: bool,
    ) -> Result<RecordBatch> {
        let rules = table.rules();
        let has_length = columns.iter().any(|column| {
            let field = table.schema().field_with_name(column).ok();
            field.and_then(SqlType::of_field).is_some_and(|sql_type| without_length(&sql_type).is_some())
        });
        if rules.checks.is_empty() && rules.generated.is_empty() && !to_defaults && !has_length {
            return Ok(rows);
        }
        let options = PlannerOptions { may_program: false, ..self.0.options().clone() };
        let planner = self.0.for_session(catalogs_of(Arc::new(Catalog::of_names(names))), options);
        let snapshot = planner.catalogs().snapshot();
        let at = planner.planning(&snapshot);
        let names = Names::new(&at);
        let around = Around::new(&planner, &at, &names, vec![]);
        guarded(|| around.followed(table, rows, columns, to_defaults))
    }
}

/// A type whose texts may be of any length, in the place of one with a length.
fn without_length(sql_type: &SqlType) -> Option<SqlType> {
    match sql_type {
        SqlType::Varchar(Some(_)) | SqlType::Char(_) => Some(SqlType::Text),
        _ => None,
    }
}

impl Around<'_> {
    fn followed(
        &self,
        table: &NativeTable,
        mut rows: RecordBatch,
        changed: &[String],
        to_defaults: bool,
    ) -> Result<RecordBatch> {
        let rules = table.rules();
        let targets = targets(table.schema(), rules)?;
        let is_changed = |name: &String| changed.contains(name);
        for settling in [Settling::Changed { to_defaults }, Settling::Generated] {
            // What has just come is not of its column's length yet.
            let columns = targets.iter().map(|target| {
                let is_new = settling != Settling::Generated && is_changed(&target.name);
                let sql_type = without_length(&target.sql_type).filter(|_| is_new);
                let sql_type = sql_type.unwrap_or_else(|| target.sql_type.clone());
                binder::Context::numbers(self).named(&target.name, sql_type, true)
            });
            let columns = columns.collect::<Vec<_>>();
            let name = &table.name().name;
            let bound = binder::bind_settled(settling, &targets, &is_changed, &columns, name, self)?;
            if !bound.is_empty() {
                let (places, scalars): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
                let values = self.values_of(&scalars, &columns, &rows)?;
                let mut all = rows.columns().to_vec();
                places.into_iter().zip(values).for_each(|(place, value)| all[place] = value);
                rows = batch_of(all, table.schema(), rows.num_rows())?;
            }
        }
        if !rules.checks.is_empty() {
            let columns = targets.iter();
            let columns =
                columns.map(|target| binder::Context::numbers(self).named(&target.name, target.sql_type.clone(), true));
            let columns = columns.collect::<Vec<_>>();
            let checks = rules.checks.iter().map(|check| &check.condition);
            let checks = binder::bind_checks(checks, &columns, &table.name().name, self)?;
            let holds = self.values_of(&checks, &columns, &rows)?;
            for (check, holds) in rules.checks.iter().zip(&holds) {
                let holds = holds.as_boolean_opt().ok_or_else(|| Error::bug("a condition is no truth value"))?;
                write::native::check_holds(holds, &check.name, table.name(), || Ok(rows.clone()))?;
            }
        }
        Ok(rows)
    }

    fn values_of(&self, scalars: &[Scalar], columns: &[Column], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let options = LoweringOptions {
            zone: binder::Context::zone(self).to_owned(),
            options: self.at.session.options.clone(),
            keeps_parameters: false,
        };
        let rows = batch_of(rows.columns().to_vec(), &rows.schema(), rows.num_rows())?;
        let values = lowering::over_columns(scalars, columns, &rows.schema(), &options)?;
        let value = |value: &Arc<dyn datafusion_physical_expr::PhysicalExpr>| {
            value.evaluate(&rows).and_then(|value| value.into_array(rows.num_rows())).map_err(from_datafusion)
        };
        values.iter().map(value).collect()
    }
}

/// Rows of which every column may be NULL; what the table says of that is looked at when they come.
fn batch_of(columns: Vec<ArrayRef>, schema: &Schema, rows: usize) -> Result<RecordBatch> {
    let fields = schema
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::clone(field).with_nullable(true).with_data_type(column.data_type().clone()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(from_arrow)
}
