//! Values of keys: which types decide on a fragment, their order, and the texts that bounds are.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type};
use arrow_row::{RowConverter, SortField};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

pub(super) const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// Values as the texts that bounds are. Fails with kind `Value` for a NULL or a type that has no such texts.
pub fn texts_of(values: &ArrayRef) -> Result<Vec<String>> {
    let texts = cast_with_options(values, &DataType::Utf8, &STRICT).map_err(from_arrow)?;
    let text = |text: Option<&str>| {
        text.map(str::to_owned).ok_or_else(|| {
            let error = Error::value("a bound between fragments is NULL").with_code("22004");
            error.with_hint("rows without a value are in the first fragment anyway: leave it out")
        })
    };
    texts.as_string::<i32>().iter().map(text).collect()
}

/// Whether values of one type are those of the other without any change.
pub(super) fn is_like(one: &DataType, other: &DataType) -> bool {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    one == other || is_text(one) && is_text(other)
}

/// Fails with code 0A000 if values of a type do not decide on a fragment.
pub(super) fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    let is_known = data_type.is_integer()
        || data_type.is_floating()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Decimal128(..)
                | DataType::Decimal256(..)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        );
    if is_known {
        return Ok(());
    }
    let error = Error::unsupported(format!("rows cannot be distributed by the column \"{name}\"")).with_code("0A000");
    Err(error.with_hint("choose a column of numbers, texts, dates or times, or ROUND ROBIN"))
}

/// What puts values of a type in order. Fails with code 0A000 if they have none.
pub(super) fn order_of(data_type: &DataType) -> Result<RowConverter> {
    let field = SortField::new(data_type.clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        let error = Error::unsupported("rows cannot be put in the order of such a column").with_code("0A000");
        return Err(error.with_hint("choose a column of numbers, texts, dates or times"));
    }
    RowConverter::new(vec![field]).map_err(from_arrow)
}

/// Values of which equal ones have equal bits: there is one zero, and one NaN.
pub(super) fn comparable(column: &ArrayRef) -> Result<ArrayRef> {
    if !column.data_type().is_floating() {
        return Ok(column.clone());
    }
    let wide = cast_with_options(column, &DataType::Float64, &STRICT).map_err(from_arrow)?;
    let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
    let wide = wide.as_primitive::<Float64Type>().unary::<_, Float64Type>(one);
    cast_with_options(&wide, column.data_type(), &STRICT).map_err(from_arrow)
}
