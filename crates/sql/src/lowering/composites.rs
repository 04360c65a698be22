//! Functions that no statement names: casts, and what makes and takes apart records and arrays.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;
use datafusion_common::error::DataFusionError;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use diligence_base::Error;
use diligence_engine::plan::bytes::FunctionName;
use diligence_storage::foreign_error::to_datafusion;
use diligence_types::SqlType;
use diligence_types::coercion::{CastOptions, cast_array};

use crate::algebra::first_value;

/// What a plan's bytes call these functions together.
pub(super) const FAMILY: &str = "value";

/// A cast that Arrow does not do as PostgreSQL does.
#[derive(Debug)]
pub(super) struct CastTo {
    from: SqlType,
    to: SqlType,
    options: CastOptions,
    signature: Signature,
}

/// A record of its arguments.
#[derive(Debug)]
pub(super) struct RecordOf {
    sql_type: SqlType,
    signature: Signature,
}

/// A field of a record.
#[derive(Debug)]
pub(super) struct FieldOf {
    record: SqlType,
    index: usize,
    sql_type: SqlType,
    signature: Signature,
}

/// An array of its arguments.
#[derive(Debug)]
pub(super) struct ArrayOf {
    sql_type: SqlType,
    signature: Signature,
}

fn any() -> Signature {
    Signature::variadic_any(Volatility::Immutable)
}

impl CastTo {
    pub(super) fn new(from: SqlType, to: SqlType, options: CastOptions) -> Self {
        Self { from, to, options, signature: any() }
    }
}

impl RecordOf {
    pub(super) fn new(sql_type: SqlType) -> Self {
        Self { sql_type, signature: any() }
    }
}

impl FieldOf {
    pub(super) fn new(record: SqlType, index: usize, sql_type: SqlType) -> Self {
        Self { record, index, sql_type, signature: any() }
    }
}

impl ArrayOf {
    pub(super) fn new(sql_type: SqlType) -> Self {
        Self { sql_type, signature: any() }
    }
}

/// What a plan's bytes call a function, if it is one of these, with the types that it is made for.
pub(super) fn name_of(function: &ScalarUDF) -> Option<(FunctionName, Vec<SqlType>)> {
    let name = |numbers: Vec<i64>, texts: Vec<String>| {
        let family = FAMILY.to_owned();
        FunctionName { family, name: function.name().to_owned(), numbers, texts, ..FunctionName::default() }
    };
    let inner = function.inner();
    if let Some(CastTo { from, to, options, .. }) = inner.downcast_ref() {
        let numbers = vec![i64::from(options.is_explicit), i64::from(options.is_try)];
        return Some((name(numbers, vec![options.zone.clone()]), vec![from.clone(), to.clone()]));
    }
    if let Some(RecordOf { sql_type, .. }) = inner.downcast_ref() {
        return Some((name(vec![], vec![]), vec![sql_type.clone()]));
    }
    if let Some(ArrayOf { sql_type, .. }) = inner.downcast_ref() {
        return Some((name(vec![], vec![]), vec![sql_type.clone()]));
    }
    let FieldOf { record, index, sql_type, .. } = inner.downcast_ref()?;
    Some((name(vec![*index as i64], vec![]), vec![record.clone(), sql_type.clone()]))
}

/// The function of a name; `None` if it is none of these.
pub(super) fn named(name: &FunctionName, types: &[SqlType]) -> Option<ScalarUDF> {
    match (name.name.as_str(), types, name.numbers.as_slice(), name.texts.as_slice()) {
        ("cast", [from, to], [is_explicit, is_try], [zone]) => {
            let options = CastOptions { zone: zone.clone(), is_explicit: *is_explicit != 0, is_try: *is_try != 0 };
            Some(ScalarUDF::from(CastTo::new(from.clone(), to.clone(), options)))
        }
        ("row", [sql_type], [], []) => Some(ScalarUDF::from(RecordOf::new(sql_type.clone()))),
        ("array", [sql_type], [], []) => Some(ScalarUDF::from(ArrayOf::new(sql_type.clone()))),
        ("field", [record, sql_type], [index], []) => {
            let index = usize::try_from(*index).ok()?;
            Some(ScalarUDF::from(FieldOf::new(record.clone(), index, sql_type.clone())))
        }
        _ => None,
    }
}

macro_rules! told_by {
    ($name:ident, $($part:ident).+ $(, $more:ident)*) => {
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.$($part).+ == other.$($part).+ $(&& self.$more == other.$more)*
            }
        }
        impl Eq for $name {}
        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.$($part).+.hash(state);
                $(self.$more.hash(state);)*
            }
        }
    };
}

told_by!(RecordOf, sql_type);
told_by!(FieldOf, record, index);
told_by!(ArrayOf, sql_type);

impl PartialEq for CastTo {
    fn eq(&self, other: &Self) -> bool {
        let options = |cast: &Self| (cast.options.zone.clone(), cast.options.is_explicit, cast.options.is_try);
        self.from == other.from && self.to == other.to && options(self) == options(other)
    }
}

impl Eq for CastTo {}

impl Hash for CastTo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.from.hash(state);
        self.to.hash(state);
    }
}

impl ScalarUDFImpl for CastTo {
    fn name(&self) -> &str {
        "cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.arrow())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = arguments.args.first() else { return Err(missing()) };
        let convert = |array: &ArrayRef| {
            // Narrow decimals and dictionaries are the engine's; what is cast has the type's own form.
            let own = self.from.arrow();
            let array = if *array.data_type() == own { array.clone() } else { cast(array, &own)? };
            cast_array(&array, &self.from, &self.to, &self.options).map_err(to_datafusion)
        };
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(convert(array)?),
            ColumnarValue::Scalar(value) => {
                let array = convert(&value.to_array()?)?;
                ColumnarValue::Scalar(first_value(&array)?)
            }
        })
    }
}

impl ScalarUDFImpl for RecordOf {
    fn name(&self) -> &str {
        "row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.sql_type.arrow())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let DataType::Struct(fields) = self.sql_type.arrow() else { return Err(missing()) };
        let columns = arguments.args.iter().zip(&fields).map(|(value, field)| in_type(value, field.data_type(), rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let record = StructArray::try_new_with_length(fields, columns, None, rows)?;
        Ok(ColumnarValue::Array(Arc::new(record)))
    }
}

impl ScalarUDFImpl for FieldOf {
    fn name(&self) -> &str {
        "field"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.sql_type.arrow())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = arguments.args.first() else { return Err(missing()) };
        let array = value.to_array(arguments.number_rows)?;
        let Some(record) = array.as_struct_opt() else { return Err(missing()) };
        let column = record.columns().get(self.index).ok_or_else(missing)?;
        // A field of a NULL record is NULL, whatever is held there.
        let Some(valid) = record.nulls() else { return Ok(ColumnarValue::Array(column.clone())) };
        let nulls = arrow::buffer::NullBuffer::union(Some(valid), column.nulls());
        let data = column.to_data().into_builder().nulls(nulls).build()?;
        Ok(ColumnarValue::Array(arrow::array::make_array(data)))
    }
}

impl ScalarUDFImpl for ArrayOf {
    fn name(&self) -> &str {
        "array"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.sql_type.arrow())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let DataType::List(item) = self.sql_type.arrow() else { return Err(missing()) };
        let elements = arguments.args.iter().map(|value| in_type(value, item.data_type(), rows));
        let elements = elements.collect::<Result<Vec<_>>>()?;
        let width = elements.len();
        let values = match width {
            0 => new_null_array(item.data_type(), 0),
            _ => {
                let arrays = elements.iter().map(|array| array.as_ref()).collect::<Vec<_>>();
                let places = (0..rows).flat_map(|row| (0..width).map(move |array| (array, row))).collect::<Vec<_>>();
                interleave(&arrays, &places)?
            }
        };
        let offsets = OffsetBuffer::from_repeated_length(width, rows);
        let item = Arc::new(Field::clone(&item));
        Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(item, offsets, values, None)?)))
    }
}

fn in_type(value: &ColumnarValue, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    let array = value.to_array(rows)?;
    Ok(if array.data_type() == data_type { array } else { cast(&array, data_type)? })
}

fn missing() -> DataFusionError {
    to_datafusion(Error::bug("a function of ours was called with other arguments than it was made for"))
}
