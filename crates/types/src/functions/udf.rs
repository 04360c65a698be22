//! Kernels as DataFusion's functions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{Body, Call, Kernel, Overload, ScalarCall, Stability, arithmetic};
use crate::SqlType;
use crate::values::value_at;

/// The call as a function of DataFusion's. Of an operator that becomes another expression only if the engine's kernel
/// does not give the result's type: then as a kernel.
pub(super) fn of(call: &ScalarCall) -> Option<Arc<ScalarUDF>> {
    let doing = match &call.overload.body {
        Body::Kernel(kernel) => Doing::Kernel(*kernel),
        Body::DataFusion(function) => Doing::Foreign(function()),
        Body::Special(special) => Doing::Kernel(arithmetic::decimals_kernel(*special, call)?),
    };
    let volatility = match call.overload.stability {
        Stability::Immutable => Volatility::Immutable,
        Stability::Stable => Volatility::Stable,
        Stability::Volatile => Volatility::Volatile,
    };
    let function = Function {
        overload: call.overload,
        arguments: call.arguments.clone(),
        returns: call.returns.clone(),
        signature: match call.arguments.is_empty() {
            true => Signature::nullary(volatility),
            false => Signature::exact(call.arguments.iter().map(SqlType::arrow).collect(), volatility),
        },
        doing,
    };
    Some(Arc::new(ScalarUDF::from(function)))
}

/// The call that a function was made of; `None` if it was made of none.
pub(super) fn call_of(function: &ScalarUDF) -> Option<ScalarCall> {
    let Function { overload, arguments, returns, .. } = function.inner().downcast_ref()?;
    Some(ScalarCall { overload, arguments: arguments.clone(), returns: returns.clone() })
}

/// A function of the catalog with the types of one call.
#[derive(Debug)]
struct Function {
    overload: &'static Overload,
    arguments: Vec<SqlType>,
    returns: SqlType,
    signature: Signature,
    doing: Doing,
}

enum Doing {
    Kernel(Kernel),
    Foreign(Arc<ScalarUDF>),
}

impl std::fmt::Debug for Doing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel(_) => f.write_str("Kernel"),
            Self::Foreign(function) => write!(f, "Foreign({})", function.name()),
        }
    }
}

impl PartialEq for Function {
    /// A name and types name one overload.
    fn eq(&self, other: &Self) -> bool {
        self.overload.name == other.overload.name && self.arguments == other.arguments && self.returns == other.returns
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.overload.name.hash(state);
        self.arguments.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.overload.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.returns.arrow())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(self.returns.field(self.overload.name, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let is_null = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(value) if value.is_null());
        if self.overload.is_strict && arguments.args.iter().any(is_null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(&self.returns.arrow())?));
        }
        match &self.doing {
            Doing::Kernel(kernel) => {
                let call = Call { rows, arguments: &self.arguments, returns: &self.returns };
                kernel(&arguments.args, &call).map_err(|error| DataFusionError::External(Box::new(error)))
            }
            Doing::Foreign(function) => self.foreign(function, arguments),
        }
    }
}

impl Function {
    /// The value of a function of DataFusion's, which is told the types it knows and whose result is cast.
    fn foreign(&self, function: &ScalarUDF, mut arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let given: Vec<FieldRef> = arguments.arg_fields.clone();
        let nulls = arguments.args.iter().fold(None, |nulls: Option<NullBuffer>, value| match value {
            ColumnarValue::Array(array) => NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref()),
            ColumnarValue::Scalar(_) => nulls,
        });
        let fields = datafusion_expr::type_coercion::functions::fields_with_udf(&given, function)?;
        for (value, field) in arguments.args.iter_mut().zip(&fields) {
            if value.data_type() != *field.data_type() {
                *value = value.cast_to(field.data_type(), None)?;
            }
        }
        let scalars: Vec<Option<ScalarValue>> = arguments
            .args
            .iter()
            .map(|value| match value {
                ColumnarValue::Scalar(value) => Some(value.clone()),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let scalars: Vec<Option<&ScalarValue>> = scalars.iter().map(Option::as_ref).collect();
        let asked = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars };
        arguments.return_field = function.return_field_from_args(asked)?;
        arguments.arg_fields = fields;
        let result = function.invoke_with_args(arguments)?;
        let wanted = self.returns.arrow();
        match result {
            ColumnarValue::Array(array) => {
                let array = held_as(&array, &wanted)?;
                Ok(ColumnarValue::Array(if self.overload.is_strict { with_nulls(&array, nulls)? } else { array }))
            }
            ColumnarValue::Scalar(value) => {
                let array = held_as(&value.to_array_of_size(1)?, &wanted)?;
                Ok(ColumnarValue::Scalar(value_at(&array, 0)?))
            }
        }
    }
}

/// The array with NULL where an argument is.
fn with_nulls(array: &ArrayRef, nulls: Option<NullBuffer>) -> DataFusionResult<ArrayRef> {
    let nulls = NullBuffer::union(array.nulls(), nulls.as_ref());
    Ok(make_array(array.to_data().into_builder().nulls(nulls).build()?))
}

/// The array as the type that holds a SQL type's values.
pub(super) fn held_as(array: &ArrayRef, wanted: &DataType) -> DataFusionResult<ArrayRef> {
    if array.data_type() == wanted {
        return Ok(array.clone());
    }
    if let (DataType::List(_), DataType::List(item)) = (array.data_type(), wanted) {
        // Only the name or the nullability of the elements' field may differ.
        let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
        let item: FieldRef = item.clone();
        let values = held_as(&values, item.data_type())?;
        return Ok(Arc::new(arrow::array::ListArray::try_new(item, offsets, values, nulls)?));
    }
    Ok(cast(array, wanted)?)
}
