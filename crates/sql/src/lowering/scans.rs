//! Scans, with the conditions right above them, which become the scan's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column as ColumnExpr};
use diligence_base::Result;
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{self, Node, Plan};
use diligence_types::SqlType;
use diligence_types::functions::resolve_scalar;

use super::expressions::{Expressions, Positions, SubqueryValues, is_alike};
use super::{Lowered, Lowering, schema_of};
use crate::algebra::{Column, ColumnId, Comparison, Constant, Relation, Scalar, Scan};
use crate::ordering::estimates;

/// TABLESAMPLE: each row stays with this probability, of clusters too.
fn sampled(share: f64) -> Result<Scalar> {
    let random = Scalar::Call { call: resolve_scalar("random", &[])?, arguments: vec![] };
    let share = Constant { value: ScalarValue::Float64(Some(share)), sql_type: SqlType::Double };
    Ok(Scalar::compare(Comparison::Less, random, Scalar::Constant(share)))
}

impl Lowering<'_> {
    pub(super) fn scan(
        &mut self,
        scan: &Scan,
        conditions: &[Scalar],
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let table_schema = scan.table.schema();
        let own = |scalar: &Scalar| !scalar.is_volatile() && !scalar.columns().is_empty();
        let (absorbed, mut left): (Vec<_>, Vec<_>) = conditions.iter().cloned().partition(own);
        if let Some((share, _)) = scan.sample {
            left.insert(0, sampled(share)?);
        }
        let positions: Positions = scan.columns.iter().map(|(index, column)| (column.id, *index)).collect();
        let expressions = Expressions { keeps_parameters: self.keeps_parameters, ..self.expressions };
        let filters = absorbed.iter().map(|condition| {
            let physical = expressions.lower(condition, &positions, &table_schema, values)?;
            Expr::new(physical, &table_schema)
        });
        let filters = filters.collect::<Result<Vec<_>>>()?;
        let mut below = needed.clone();
        left.iter().for_each(|condition| condition.add_columns(&mut below));
        let wanted = scan.columns.iter().filter(|(_, column)| below.contains(&column.id)).collect::<Vec<_>>();
        let fields = wanted.iter().map(|(index, column)| {
            let field = table_schema.field(*index);
            super::field(column).with_data_type(field.data_type().clone()).with_nullable(field.is_nullable())
        });
        let schema = Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
        let node = Node::Scan(plan::Scan {
            filters,
            ..plan::Scan::new(scan.table.as_ref(), &scan.name, wanted.iter().map(|(index, _)| *index).collect())
        });
        self.tables.add(scan.table.clone());
        let base = estimates::of(&Relation::Scan(scan.clone()), &[]);
        let filter = Relation::Filter { input: Box::new(Relation::one_row()), condition: Scalar::all(absorbed) };
        let size = estimates::of(&filter, &[base]);
        let columns = wanted.iter().map(|(_, column)| column.id).collect();
        let mut plan = Plan::new(node, schema);
        plan.rows_estimate = Some(size.whole_rows());
        let lowered = self.normalized(Lowered { plan, columns, size }, wanted.iter().map(|(_, column)| column))?;
        if left.is_empty() {
            return Ok(lowered);
        }
        let condition = Scalar::all(left);
        let predicate = self.expression(&condition, &lowered, values)?;
        let size = lowered.size.clone();
        Ok(lowered.under(size, |input| Node::Filter { input, predicate }))
    }

    /// Columns that a file holds in other Arrow types than their SQL types' own are cast.
    fn normalized<'c>(&self, lowered: Lowered, columns: impl Iterator<Item = &'c Column> + Clone) -> Result<Lowered> {
        let schema = lowered.schema().clone();
        let fields = schema.fields().iter().zip(columns.clone());
        if fields.clone().all(|(field, column)| is_alike(field.data_type(), &column.sql_type.arrow())) {
            let mut lowered = lowered;
            let nullable = columns.cloned().collect::<Vec<_>>();
            lowered.plan.schema = schema_of(&nullable);
            return Ok(lowered);
        }
        let cast = fields.enumerate().map(|(position, (field, column))| {
            let input: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(field.name(), position));
            let own = column.sql_type.arrow();
            let physical = match is_alike(field.data_type(), &own) {
                true => input,
                false => Arc::new(CastExpr::new(input, own, None)),
            };
            (column.clone(), physical)
        });
        let cast = cast.collect();
        self.computed(lowered, cast)
    }
}
