//! Indexes over expressions and of some rows only: what computes their values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::{Error, Result};
use diligence_catalog::RelationName;
use diligence_catalog::rules::{ComputedKey, Key, RowFunction, TableRules};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::SqlType;
use diligence_types::collation::undecided;
use sqlparser::ast::{self, Expr, Ident};

use super::around::Around;
use super::called::{called, unnested};
use super::definitions::lower;
use super::names::Names;
use super::tables::{Declaration, targets};
use super::{Planner, guarded};
use crate::binder::{self, BoundIndex};
use crate::lowering::{self, LoweringOptions};

/// What the columns of the two rows are called that an exclusion constraint compares.
pub(super) const SIDES: [&str; 2] = ["one", "other"];

/// What an index of expressions or of some rows is made of.
pub(super) struct IndexParts {
    /// The names of columns, and the texts of expressions.
    pub columns: Vec<String>,
    /// By column: the expression, if it is one.
    pub expressions: Vec<Option<Arc<Expr>>>,
    /// What the index is called after.
    pub called: Vec<String>,
}

impl IndexParts {
    pub(super) fn of(columns: &[ast::IndexColumn]) -> Self {
        let mut parts = Self { columns: vec![], expressions: vec![], called: vec![] };
        for column in columns {
            let expression = unnested(&column.column.expr);
            match expression {
                Expr::Identifier(name) => {
                    parts.columns.push(lower(name));
                    parts.called.push(lower(name));
                    parts.expressions.push(None);
                }
                other => {
                    parts.columns.push(shown(other));
                    parts.called.push(called(other));
                    parts.expressions.push(Some(Arc::new(other.clone())));
                }
            }
        }
        parts
    }
}

/// An expression as messages show it: in parentheses, unless it is a call.
pub(super) fn shown(expression: &Expr) -> String {
    match expression {
        Expr::Function(_) => expression.to_string(),
        Expr::Collate { expr, .. } if matches!(**expr, Expr::Identifier(_)) => expression.to_string(),
        other => format!("({other})"),
    }
}

impl Planner {
    /// What computes an index of a table with these columns. Fails with kind `Input` if its expressions mean nothing.
    pub fn row_function(
        &self,
        table: &RelationName,
        columns: &SchemaRef,
        key: &Key,
        expressions: &[Option<Arc<Expr>>],
        condition: Option<&Expr>,
    ) -> Result<Arc<dyn RowFunction>> {
        let snapshot = self.catalogs().snapshot();
        let at = self.planning(&snapshot);
        let names = Names::new(&at);
        let around = Around::new(self, &at, &names, vec![]);
        let operators = key.operators();
        // Names mean what they mean where the table is.
        around.around_views.borrow_mut().push(table.schema.clone());
        guarded(|| around.index_function(&table.name, columns, &key.columns, expressions, condition, &operators))
    }
}

impl Around<'_> {
    /// What an index is made of, whose expressions mean the same wherever names are looked up later.
    pub(super) fn index_parts(&self, columns: &[ast::IndexColumn], table: &RelationName) -> IndexParts {
        let mut parts = IndexParts::of(columns);
        for (text, expression) in parts.columns.iter_mut().zip(&mut parts.expressions) {
            if let Some(expression) = expression {
                *expression = self.kept_rule(expression, table);
                *text = shown(expression);
            }
        }
        parts
    }

    /// What computes an index of a table with these columns; `operators` compare the values of two rows, if it is an
    /// exclusion constraint.
    pub(super) fn index_function(
        &self,
        table: &str,
        schema: &SchemaRef,
        names: &[String],
        expressions: &[Option<Arc<Expr>>],
        condition: Option<&Expr>,
        operators: &[String],
    ) -> Result<Arc<dyn RowFunction>> {
        let values = names.iter().zip(expressions).map(|(name, expression)| match expression {
            Some(expression) => expression.as_ref().clone(),
            None => Expr::Identifier(Ident::with_quote('"', name)),
        });
        let values = values.collect::<Vec<_>>();
        let targets = targets(schema, &TableRules::default())?;
        let BoundIndex { columns, values, condition } = binder::bind_index(&values, condition, table, &targets, self)?;
        let mut scalars = values;
        for scalar in &scalars {
            if scalar.sql_type().collation().is_some_and(|collation| collation.other().is_some()) {
                return Err(undecided("index expression"));
            }
        }
        let count = scalars.len();
        let sql_types = scalars.iter().map(crate::algebra::Scalar::sql_type).collect::<Vec<_>>();
        scalars.extend(condition);
        let used = scalars.iter().flat_map(|scalar| scalar.columns()).collect::<Vec<_>>();
        let places = (0..columns.len()).filter(|place| used.contains(&columns[*place].id)).collect::<Vec<_>>();
        let columns = places.iter().map(|place| columns[*place].clone()).collect::<Vec<_>>();
        let fields = places.iter().map(|place| Field::clone(schema.field(*place)).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = LoweringOptions {
            zone: binder::Context::zone(self).to_owned(),
            options: self.at.session.options.clone(),
            keeps_parameters: false,
        };
        let mut values = lowering::over_columns(&scalars, &columns, &schema, &options)?;
        let condition = values.split_off(count).pop();
        let types = values.iter().map(|value| value.data_type(&schema).map_err(from_datafusion));
        let types = types.collect::<Result<Vec<_>>>()?;
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let comparison = match operators {
            [] => None,
            operators => Some(self.comparison(operators, &sql_types, &types)?),
        };
        Ok(Arc::new(IndexFunction { columns, schema, types, sql_types, values, condition, comparison }))
    }

    /// Has the indexes of a table that is altered computed from its columns as they are now.
    pub(super) fn settle_indexes(&self, declaration: &mut Declaration) -> Result<()> {
        let (table, schema) = (declaration.name.name.clone(), declaration.schema());
        for key in &mut declaration.rules.keys {
            let operators = key.operators();
            let Key { columns, computed: Some(computed), .. } = key else { continue };
            let ComputedKey { expressions, condition, function } = computed;
            *function = self.index_function(&table, &schema, columns, expressions, condition.as_deref(), &operators)?;
        }
        Ok(())
    }
}

/// Computes the values of an index.
#[derive(Debug)]
struct IndexFunction {
    columns: Vec<String>,
    /// Of these columns.
    schema: SchemaRef,
    types: Vec<DataType>,
    sql_types: Vec<SqlType>,
    values: Vec<Arc<dyn PhysicalExpr>>,
    condition: Option<Arc<dyn PhysicalExpr>>,
    /// Of an exclusion constraint: says of two rows whether they exclude each other.
    comparison: Option<Arc<dyn RowFunction>>,
}

impl RowFunction for IndexFunction {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn types(&self) -> &[DataType] {
        &self.types
    }

    fn sql_types(&self) -> &[SqlType] {
        &self.sql_types
    }

    fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.values
    }

    fn condition(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.condition.as_ref()
    }

    fn compute(&self, columns: &[ArrayRef], rows: usize) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns.to_vec(), &options);
        let batch = batch.map_err(from_arrow)?;
        let value = |value: &Arc<dyn PhysicalExpr>| {
            value.evaluate(&batch).and_then(|value| value.into_array(rows)).map_err(from_datafusion)
        };
        let values = self.values.iter().map(value).collect::<Result<Vec<_>>>()?;
        let wanted = self.condition.as_ref().map(|condition| {
            let wanted = value(condition)?;
            let wanted = wanted.as_boolean_opt().cloned();
            wanted.ok_or_else(|| Error::bug("an index has a condition that is none"))
        });
        Ok((values, wanted.transpose()?))
    }

    fn excludes(&self, one: &[ArrayRef], other: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let bug = || Error::bug("a key compares what it does not have");
        let comparison = self.comparison.as_ref().ok_or_else(bug)?;
        let sides = SIDES.into_iter().zip([one, other]);
        let named = sides.flat_map(|(side, values)| {
            values.iter().enumerate().map(move |(place, values)| (format!("{side}{place}"), values.clone()))
        });
        let named = named.collect::<HashMap<_, _>>();
        let columns = comparison.columns().iter().map(|name| named.get(name).cloned().ok_or_else(bug));
        let (excludes, _) = comparison.compute(&columns.collect::<Result<Vec<_>>>()?, rows)?;
        excludes.first().and_then(|excludes| excludes.as_boolean_opt().cloned()).ok_or_else(bug)
    }
}
