//! Functions whose results can be far larger than their arguments, bounded before they make them.
//!
//! Such a function asks for its result's memory at once, without asking the engine's budget, and a process that cannot
//! have the memory is killed. So what it would make is computed from its arguments first: more than
//! [`FUNCTION_BYTES_MAX`] is an error. While a statement is planned the bound is [`CONSTANT_BYTES_MAX`]: the optimizer
//! computes constant parts, nobody can cancel it, and huge constants make it slow. It leaves a part that fails as it
//! is, for the query to compute.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use diligence_base::Error;
use diligence_base::limits::{CONSTANT_BYTES_MAX, FUNCTION_BYTES_MAX};
use diligence_storage::foreign_error::to_datafusion;

/// How the bytes of a function's result are computed from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument as often as the second says.
    Times,
    /// As many characters as the second argument says.
    Length,
    /// The numbers from one argument to another.
    Series,
    /// As many elements as the second argument says.
    Elements,
    /// All arguments together.
    Sum,
    /// The first argument with the third for every occurrence of the second.
    Replacement,
}

/// The functions, by any of their names.
const BOUNDED: [(&str, Growth); 11] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("lpad", Growth::Length),
    ("rpad", Growth::Length),
    ("space", Growth::Series),
    ("range", Growth::Series),
    ("generate_series", Growth::Series),
    ("array_resize", Growth::Elements),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::Sum),
    ("replace", Growth::Replacement),
];

thread_local! {
    static PLANNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the planner: what functions make meanwhile is thrown away or becomes a constant.
pub(crate) fn while_planning<T>(body: impl FnOnce() -> T) -> T {
    /// Restores what was, after a panic too.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLANNING.set(self.0);
        }
    }
    let _restore = Restore(PLANNING.replace(true));
    body()
}

/// Puts the bounded functions in the place of the others.
pub(crate) fn install(state: &mut SessionState) -> Result<()> {
    for (name, growth) in BOUNDED {
        if let Some(function) = state.scalar_functions().get(name).cloned() {
            state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner: function, growth })))?;
        }
    }
    Ok(())
}

/// A function with a bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    fn check(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let Some(bytes) = bytes_wanted(self.growth, args) else { return Ok(()) };
        let most = if PLANNING.get() { CONSTANT_BYTES_MAX } else { FUNCTION_BYTES_MAX };
        if bytes <= most as u128 {
            return Ok(());
        }
        let error = Error::resource(format!(
            "{}() would make {} at once; at most {} are allowed",
            self.name(),
            binary_size(bytes),
            binary_size(most as u128)
        ));
        Err(to_datafusion(match self.growth {
            Growth::Series => error.with_hint(format!("in FROM, {}(…) gives its numbers as rows", self.name())),
            _ => error,
        }))
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Bounded { inner, growth: self.growth }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args)?;
        self.inner.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The bytes that the result has about, for all rows of the call: for one if no argument differs from row to row.
/// `None` if the arguments are of types for which it is not known.
fn bytes_wanted(growth: Growth, args: &ScalarFunctionArgs) -> Option<u128> {
    let all_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if all_constant { 1 } else { args.number_rows };
    let argument = |index: usize| args.args.get(index);
    let total = |of_row: &dyn Fn(usize) -> u128| Some((0..rows).map(of_row).sum());
    match growth {
        Growth::Times => {
            let (sizes, counts) = (Sizes::of(argument(0)?), Numbers::of(argument(1)?)?);
            total(&|row| sizes.at(row) * counts.at(row).max(0) as u128)
        }
        Growth::Length => {
            let counts = Numbers::of(argument(1)?)?;
            total(&|row| counts.at(row).max(0) as u128)
        }
        Growth::Elements => {
            let counts = Numbers::of(argument(1)?)?;
            total(&|row| counts.at(row).max(0) as u128 * 8)
        }
        Growth::Series => {
            let first = Numbers::of(argument(0)?)?;
            let last = argument(1).map(|last| Numbers::of(last).ok_or(())).transpose().ok()?;
            let step = argument(2).map(|step| Numbers::of(step).ok_or(())).transpose().ok()?;
            total(&|row| {
                let (from, to) = match &last {
                    Some(last) => (first.at(row), last.at(row)),
                    None => (0, first.at(row)),
                };
                let step = step.as_ref().map_or(1, |step| step.at(row));
                // A wrong direction gives no rows.
                let ahead =
                    if step < 0 { i128::from(from) - i128::from(to) } else { i128::from(to) - i128::from(from) };
                ahead.max(0) as u128 / u128::from(step.unsigned_abs().max(1)) * 8
            })
        }
        Growth::Sum => {
            let sizes = args.args.iter().map(Sizes::of).collect::<Vec<_>>();
            total(&|row| sizes.iter().map(|sizes| sizes.at(row)).sum())
        }
        Growth::Replacement => {
            let (texts, new) = (Sizes::of(argument(0)?), Sizes::of(argument(2)?));
            // Every byte may be replaced. Only where that would be too much, occurrences are counted.
            let bound = total(&|row| texts.at(row) * new.at(row).max(1))?;
            if bound <= CONSTANT_BYTES_MAX as u128 {
                return Some(bound);
            }
            let (texts, old) = (Texts::of(argument(0)?)?, Texts::of(argument(1)?)?);
            total(&|row| {
                let (text, old) = (texts.at(row), old.at(row));
                let count = if old.is_empty() { 0 } else { text.matches(old).count() };
                text.len() as u128 + count as u128 * new.at(row)
            })
        }
    }
}

/// A number per row.
enum Numbers {
    One(i64),
    Each(ArrayRef),
}

impl Numbers {
    fn of(value: &ColumnarValue) -> Option<Self> {
        if !value.data_type().is_integer() {
            return None;
        }
        match value {
            ColumnarValue::Scalar(scalar) => {
                let number = scalar.cast_to(&DataType::Int64).ok()?;
                Some(Numbers::One(if let ScalarValue::Int64(Some(number)) = number { number } else { 0 }))
            }
            ColumnarValue::Array(array) => cast(array, &DataType::Int64).ok().map(Numbers::Each),
        }
    }

    fn at(&self, row: usize) -> i64 {
        match self {
            Numbers::One(number) => *number,
            Numbers::Each(array) if array.is_null(row) => 0,
            Numbers::Each(array) => array.as_primitive::<Int64Type>().value(row),
        }
    }
}

/// The bytes of a value per row: exactly for text, about for anything else.
enum Sizes {
    One(u128),
    Texts(Texts),
}

impl Sizes {
    fn of(value: &ColumnarValue) -> Self {
        if let Some(texts) = Texts::of(value) {
            return Sizes::Texts(texts);
        }
        match value {
            ColumnarValue::Scalar(scalar) => {
                // A nested value's size is that of its one row.
                let bytes = scalar.to_array().map_or(0, |array| array.get_buffer_memory_size());
                Sizes::One(bytes as u128)
            }
            ColumnarValue::Array(array) => Sizes::One((array.get_buffer_memory_size() / array.len().max(1)) as u128),
        }
    }

    fn at(&self, row: usize) -> u128 {
        match self {
            Sizes::One(bytes) => *bytes,
            Sizes::Texts(texts) => texts.at(row).len() as u128,
        }
    }
}

/// A text per row.
enum Texts {
    One(String),
    Each(ArrayRef),
}

impl Texts {
    fn of(value: &ColumnarValue) -> Option<Self> {
        match value {
            ColumnarValue::Scalar(scalar) => {
                let text = scalar.try_as_str()?;
                Some(Texts::One(text.unwrap_or_default().to_owned()))
            }
            ColumnarValue::Array(array) => {
                let text = matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
                text.then(|| Texts::Each(array.clone()))
            }
        }
    }

    fn at(&self, row: usize) -> &str {
        match self {
            Texts::One(text) => text,
            Texts::Each(array) if array.is_null(row) => "",
            Texts::Each(array) => match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value(row),
                DataType::LargeUtf8 => array.as_string::<i64>().value(row),
                _ => array.as_string_view().value(row),
            },
        }
    }
}

/// A number of bytes for people.
fn binary_size(bytes: u128) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::Field;

    use super::*;

    fn wanted(growth: Growth, args: Vec<ColumnarValue>, rows: usize) -> Option<u128> {
        let args = ScalarFunctionArgs {
            args,
            arg_fields: Vec::new(),
            number_rows: rows,
            return_field: Arc::new(Field::new("f", DataType::Null, true)),
            config_options: Arc::default(),
        };
        bytes_wanted(growth, &args)
    }

    fn number(value: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(value)))
    }

    fn text(value: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(value))
    }

    #[test]
    fn what_would_be_made_is_known_before() {
        let texts = ColumnarValue::Array(Arc::new(StringViewArray::from(vec![Some("ab"), None, Some("a")])));
        let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(10), Some(10), Some(-1)])));
        assert_eq!(wanted(Growth::Times, vec![texts.clone(), number(5)], 3), Some(15));
        assert_eq!(wanted(Growth::Times, vec![texts.clone(), counts.clone()], 3), Some(20));
        assert_eq!(wanted(Growth::Times, vec![text("x"), number(i64::MAX)], 3), Some(i64::MAX as u128));
        assert_eq!(wanted(Growth::Length, vec![texts.clone(), counts], 3), Some(20));
        assert_eq!(wanted(Growth::Series, vec![number(10)], 1), Some(80));
        assert_eq!(wanted(Growth::Series, vec![number(10), number(0), number(-2)], 1), Some(40));
        assert_eq!(wanted(Growth::Series, vec![number(i64::MIN), number(i64::MAX)], 1), Some(u128::from(u64::MAX) * 8));
        assert_eq!(wanted(Growth::Series, vec![text("2024-01-01"), text("2025-01-01")], 1), None);
        assert_eq!(wanted(Growth::Sum, vec![texts, text("xyz")], 3), Some(12));
        assert_eq!(wanted(Growth::Replacement, vec![text("abab"), text("a"), text("1234")], 1), Some(16));
        let long = "ab".repeat(CONSTANT_BYTES_MAX);
        let counted = wanted(Growth::Replacement, vec![text(&long), text("ab"), text("1234")], 1);
        assert_eq!(counted, Some(6 * CONSTANT_BYTES_MAX as u128), "the text, and the new one for each occurrence");
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(binary_size(100), "100 bytes");
        assert_eq!(binary_size(1 << 20), "1 MiB");
        assert_eq!(binary_size(2_000_000_000), "1.9 GiB");
    }
}
