//! Types of the parts of an expression, each found once.
//!
//! DataFusion finds the type of an operation, and whether it may be NULL, by asking its operands each time, a cast even
//! twice: that is quadratic in the depth of an expression, and exponential where there are casts in it. Generated
//! expressions are thousands of operations deep.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column as ColumnExpr, IsNotNullExpr, IsNullExpr, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

/// What is known of the parts of one expression over one schema.
pub(super) struct Facts<'a> {
    input: &'a Schema,
    /// By the address of the part, which lives as long as the expression.
    known: RefCell<HashMap<*const (), Fact>>,
}

/// What is known of a part.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    /// The logical type of its values.
    pub(super) data_type: DataType,
    /// Whether a value may be NULL.
    pub(super) nullable: bool,
}

impl<'a> Facts<'a> {
    /// What is to be known over batches of a schema.
    pub(super) fn new(input: &'a Schema) -> Self {
        Self { input, known: RefCell::default() }
    }

    /// What is known of a part. Fails if it does not type-check.
    pub(super) fn of(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Fact> {
        let address = Arc::as_ptr(physical).cast::<()>();
        if let Some(known) = self.known.borrow().get(&address) {
            return Ok(known.clone());
        }
        let fact = self.find(physical)?;
        self.known.borrow_mut().insert(address, fact.clone());
        Ok(fact)
    }

    fn find(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Fact> {
        if let Some(binary) = physical.downcast_ref::<BinaryExpr>() {
            let (left, right) = (self.of(binary.left())?, self.of(binary.right())?);
            let coercer = BinaryTypeCoercer::new(&left.data_type, binary.op(), &right.data_type);
            let data_type = coercer.get_result_type().map_err(from_datafusion)?;
            return Ok(Fact { data_type, nullable: left.nullable || right.nullable });
        }
        if let Some(cast) = physical.downcast_ref::<CastExpr>() {
            let nullable = self.of(cast.expr())?.nullable || cast.target_nullable() == Some(true);
            return Ok(Fact { data_type: cast.cast_type().clone(), nullable });
        }
        if let Some(cast) = physical.downcast_ref::<TryCastExpr>() {
            return Ok(Fact { data_type: cast.cast_type().clone(), nullable: true });
        }
        if let Some(negative) = physical.downcast_ref::<NegativeExpr>() {
            return self.of(negative.arg());
        }
        if let Some(not) = physical.downcast_ref::<NotExpr>() {
            return Ok(Fact { data_type: DataType::Boolean, nullable: self.of(not.arg())?.nullable });
        }
        if physical.is::<IsNullExpr>() || physical.is::<IsNotNullExpr>() {
            return Ok(Fact { data_type: DataType::Boolean, nullable: false });
        }
        let data_type = physical.data_type(self.input).map_err(from_datafusion)?;
        Ok(Fact { data_type, nullable: physical.nullable(self.input).map_err(from_datafusion)? })
    }

    /// What the field of a part's values says beside their type.
    pub(super) fn metadata(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<HashMap<String, String>> {
        if physical.is::<ColumnExpr>() || physical.is::<ScalarFunctionExpr>() {
            let field = physical.return_field(self.input).map_err(from_datafusion)?;
            return Ok(field.metadata().clone());
        }
        Ok(HashMap::new())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, RecordBatch};
    use arrow::datatypes::Field;
    use datafusion_expr::Operator;

    use super::*;
    use crate::batch::Batch;
    use crate::expressions::Expr;

    /// A sum of so many terms, each of which is brought to a wider type.
    fn sum(terms: usize, data_type: &DataType) -> Arc<dyn PhysicalExpr> {
        let column = || Arc::new(ColumnExpr::new("n", 0)) as Arc<dyn PhysicalExpr>;
        let cast = |part| Arc::new(CastExpr::new(part, data_type.clone(), None)) as Arc<dyn PhysicalExpr>;
        (1..terms).fold(cast(column()), |sum, _| cast(Arc::new(BinaryExpr::new(sum, Operator::Plus, cast(column())))))
    }

    #[test]
    fn what_is_deep_is_compiled_in_one_pass() {
        let field = Field::new("n", DataType::Decimal128(12, 2), false);
        let schema = Arc::new(Schema::new(vec![field]));
        for data_type in [DataType::Decimal128(38, 2), DataType::Decimal256(76, 2), DataType::Float64] {
            // Twice the work for each term would never end.
            let expression = Expr::new(sum(100, &data_type), &schema).unwrap();
            assert_eq!((expression.data_type(), expression.nullable()), (&data_type, false));
            let ones = Decimal128Array::from(vec![100, 250]).with_precision_and_scale(12, 2).unwrap();
            let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(ones)]).unwrap();
            let sums = expression.evaluate(&Batch::from_record_batch(&rows)).unwrap().flat().unwrap();
            let texts = arrow::compute::cast(&sums, &DataType::Float64).unwrap();
            assert_eq!(format!("{texts:?}"), "PrimitiveArray<Float64>\n[\n  100.0,\n  250.0,\n]");
        }
    }

    #[test]
    fn types_are_datafusions() {
        let field = Field::new("n", DataType::Decimal128(12, 2), true);
        let schema = Schema::new(vec![field]);
        for data_type in [DataType::Decimal128(20, 4), DataType::Decimal256(50, 2), DataType::Int64] {
            let physical = sum(4, &data_type);
            let fact = Facts::new(&schema).of(&physical).unwrap();
            assert_eq!(fact.data_type, physical.data_type(&schema).unwrap());
            assert_eq!(fact.nullable, physical.nullable(&schema).unwrap());
        }
    }
}
