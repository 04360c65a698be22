//! Which columns a condition says the values of.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};

/// The columns that equal one value wherever a condition is true, with an array of that value; by name.
pub(crate) fn equal_columns(condition: &dyn PhysicalExpr, schema: &SchemaRef) -> HashMap<String, ArrayRef> {
    let mut found = HashMap::new();
    add(condition, schema, &mut found);
    found
}

fn add(condition: &dyn PhysicalExpr, schema: &SchemaRef, found: &mut HashMap<String, ArrayRef>) {
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return };
    match binary.op() {
        Operator::And => {
            add(binary.left().as_ref(), schema, found);
            add(binary.right().as_ref(), schema, found);
        }
        Operator::Eq => {
            for (column, value) in [(binary.left(), binary.right()), (binary.right(), binary.left())] {
                let (Some(column), Some(literal)) = (column.downcast_ref::<Column>(), value.downcast_ref::<Literal>())
                else {
                    continue;
                };
                let Some(field) = schema.fields().get(column.index()) else { continue };
                if let Ok(value) = literal.value().cast_to(field.data_type())
                    && literal.value().data_type() == *field.data_type()
                    && let Ok(array) = value.to_array()
                {
                    found.insert(field.name().clone(), array);
                }
            }
        }
        _ => {}
    }
}
