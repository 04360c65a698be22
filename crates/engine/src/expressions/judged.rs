//! Random expressions over random batches, judged by DataFusion: the same values whatever form the columns come in, and
//! the same errors, except where AND, OR and CASE spare us some.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast as arrow_cast;
use arrow::datatypes::*;
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr,
};
use diligence_base::{Error, Result};
use diligence_storage::RowFilter;
use diligence_storage::foreign_error::from_datafusion;
use proptest::prelude::*;

use super::{Expr, PredicateFilter};
use crate::batch::{Batch, Column, Selection, to_logical};

type Physical = Arc<dyn PhysicalExpr>;

/// Decisions made beforehand, so that a failing case shrinks to fewer and smaller ones.
struct Choices {
    made: Vec<u16>,
    next: usize,
}

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        let choice = self.made.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        choice as usize % end
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

const COLUMNS: [(&str, DataType); 13] = [
    ("i", DataType::Int32),
    ("j", DataType::Int32),
    ("k", DataType::Int64),
    ("l", DataType::Int64),
    ("f", DataType::Float64),
    ("g", DataType::Float64),
    ("d", DataType::Date32),
    ("e", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ("p", DataType::Decimal128(15, 2)),
    ("q", DataType::Decimal128(12, 4)),
    ("w", DataType::Decimal128(38, 6)),
    ("s", DataType::Utf8View),
    ("b", DataType::Boolean),
];

const INTEGERS: [i64; 12] = [0, 1, 2, 3, -1, -7, 100, 1000, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
const FLOATS: [f64; 9] = [0.0, -0.0, 1.5, -2.25, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 100.0];
const DECIMALS: [i128; 14] = [
    0,
    1,
    -1,
    5,
    10,
    100,
    -12_345,
    9_999_999,
    1_000_000_000,
    -4_000_000_000_000,
    999_999_999_999_999_999,
    i64::MAX as i128,
    i64::MIN as i128 - 1,
    12_345_678_901_234_567_890_123_456_789,
];
const TEXTS: [&str; 9] =
    ["", "a", "ab", "MAIL", "SHIP", "PROMO BURNISHED COPPER", "PROMO PLATED TIN", "12", "żółw and the rest"];
const PATTERNS: [&str; 8] = ["PROMO%", "%COPPER", "%R%I%", "a", "_b", "%", "%ó%the%", "PR%N"];

fn schema() -> SchemaRef {
    Arc::new(Schema::new(COLUMNS.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

fn value(data_type: &DataType, tame: bool, choices: &mut Choices) -> ScalarValue {
    // Tame values are small: most results then stay in range, and the fast ways are taken.
    let integers = if tame { &INTEGERS[..8] } else { &INTEGERS[..] };
    match data_type {
        DataType::Int32 => ScalarValue::Int32(i32::try_from(choices.of(integers)).ok().or(Some(4))),
        DataType::Int64 => ScalarValue::Int64(Some(choices.of(integers))),
        DataType::Float64 => ScalarValue::Float64(Some(choices.of(&FLOATS))),
        DataType::Date32 => ScalarValue::Date32(Some(choices.below(9) as i32 * 500 + 8000)),
        DataType::Timestamp(_, zone) => ScalarValue::TimestampMicrosecond(Some(choices.of(integers)), zone.clone()),
        DataType::Decimal128(precision, scale) => {
            let decimals = if tame { &DECIMALS[..9] } else { &DECIMALS[..] };
            let largest = 10_i128.pow(u32::from(*precision)) - 1;
            ScalarValue::Decimal128(Some(choices.of(decimals).clamp(-largest, largest)), *precision, *scale)
        }
        DataType::Utf8View => ScalarValue::Utf8View(Some(choices.of(&TEXTS).to_owned())),
        DataType::Boolean => ScalarValue::Boolean(Some(choices.below(2) == 1)),
        other => panic!("no values of type {other}"),
    }
}

fn column_values(data_type: &DataType, rows: usize, choices: &mut Choices) -> ArrayRef {
    let tame = choices.below(3) > 0;
    let nulls = choices.below(3);
    let values = (0..rows).map(|_| match choices.below(8) < nulls {
        true => ScalarValue::try_new_null(data_type).unwrap(),
        false => value(data_type, tame, choices),
    });
    let values = values.collect::<Vec<_>>();
    ScalarValue::iter_to_array(values).unwrap()
}

fn column(index: usize) -> Physical {
    Arc::new(ColumnExpr::new(COLUMNS[index].0, index))
}

fn literal(value: ScalarValue) -> Physical {
    Arc::new(Literal::new(value))
}

fn binary(left: Physical, operator: Operator, right: Physical) -> Physical {
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn cast(physical: Physical, to: DataType) -> Physical {
    Arc::new(CastExpr::new(physical, to, None))
}

/// An expression of a type: a column of it, a literal, or something computed.
fn expression(data_type: &DataType, depth: usize, choices: &mut Choices) -> Physical {
    let columns = (0..COLUMNS.len()).filter(|&index| COLUMNS[index].1 == *data_type).collect::<Vec<_>>();
    let leaf = |choices: &mut Choices| match columns.is_empty() || choices.below(4) == 3 {
        true if choices.below(12) == 11 => literal(ScalarValue::try_new_null(data_type).unwrap()),
        true => literal(value(data_type, choices.below(2) == 0, choices)),
        false => column(choices.of(&columns)),
    };
    if depth == 0 {
        return leaf(choices);
    }
    let depth = depth - 1;
    match (data_type, choices.below(7)) {
        (_, 0 | 1) => leaf(choices),
        (DataType::Boolean, _) => condition(depth, choices),
        (_, 2) => case(data_type, depth, choices),
        (DataType::Int32 | DataType::Int64 | DataType::Float64, 3 | 4) => {
            let operator = choices.of(&[Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide]);
            let (left, right) = (expression(data_type, depth, choices), expression(data_type, depth, choices));
            Arc::new(BinaryExpr::new(left, operator, right).with_fail_on_overflow(choices.below(2) == 0))
        }
        (DataType::Int64, 5) => cast(expression(&DataType::Int32, depth, choices), DataType::Int64),
        (DataType::Int64, 6) => cast(expression(&DataType::Utf8View, depth, choices), DataType::Int64),
        (DataType::Float64, 5) => cast(decimal(depth, choices), DataType::Float64),
        (DataType::Float64, 6) => cast(expression(&DataType::Int64, depth, choices), DataType::Float64),
        (DataType::Int32 | DataType::Int64, _) => Arc::new(NegativeExpr::new(expression(data_type, depth, choices))),
        (DataType::Decimal128(..), 3..=5) => cast(decimal(depth, choices), data_type.clone()),
        (DataType::Decimal128(..), 6) => cast(expression(&DataType::Int32, depth, choices), data_type.clone()),
        _ => leaf(choices),
    }
}

/// A decimal of any precision and scale.
fn decimal(depth: usize, choices: &mut Choices) -> Physical {
    let leaf = choices.of(&[
        DataType::Decimal128(15, 2),
        DataType::Decimal128(12, 4),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(38, 6),
    ]);
    if depth == 0 {
        return expression(&leaf, 0, choices);
    }
    let operator = choices.of(&[Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide]);
    match choices.below(5) {
        0 => expression(&leaf, depth - 1, choices),
        1 => cast(expression(&leaf, depth - 1, choices), DataType::Decimal128(22, 2)),
        _ => binary(decimal(depth - 1, choices), operator, decimal(depth - 1, choices)),
    }
}

fn case(data_type: &DataType, depth: usize, choices: &mut Choices) -> Physical {
    let arms = 1 + choices.below(2);
    let base = (choices.below(4) == 0).then(|| choices.below(COLUMNS.len()));
    let when_then = (0..arms).map(|_| {
        let when = match base {
            Some(index) => literal(value(&COLUMNS[index].1, true, choices)),
            None => condition(depth, choices),
        };
        (when, expression(data_type, depth, choices))
    });
    let when_then = when_then.collect();
    let otherwise = (choices.below(3) > 0).then(|| expression(data_type, depth, choices));
    Arc::new(CaseExpr::try_new(base.map(column), when_then, otherwise).unwrap())
}

const COMPARISONS: [Operator; 8] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
];

fn condition(depth: usize, choices: &mut Choices) -> Physical {
    let (_, data_type) = choices.of(&COLUMNS);
    let lower = depth.saturating_sub(1);
    match choices.below(if depth == 0 { 6 } else { 10 }) {
        0 | 1 => {
            let index = choices.below(COLUMNS.len());
            let constant = literal(value(&COLUMNS[index].1, choices.below(2) == 0, choices));
            let operator = choices.of(&COMPARISONS);
            match choices.below(4) {
                0 => binary(constant, operator, column(index)),
                _ => binary(column(index), operator, constant),
            }
        }
        2 => {
            let operator = choices.of(&COMPARISONS);
            binary(expression(&data_type, lower, choices), operator, expression(&data_type, lower, choices))
        }
        3 => {
            let size = choices.of(&[1, 3, 12]);
            let members = (0..size).map(|_| match choices.below(20) {
                19 => literal(ScalarValue::try_new_null(&data_type).unwrap()),
                _ => literal(value(&data_type, choices.below(2) == 0, choices)),
            });
            let members = members.collect();
            let input = expression(&data_type, lower, choices);
            Arc::new(InListExpr::try_new(input, members, choices.below(2) == 1, &schema()).unwrap())
        }
        4 => {
            let pattern = literal(ScalarValue::Utf8View(Some(choices.of(&PATTERNS).to_owned())));
            let input = expression(&DataType::Utf8View, lower, choices);
            Arc::new(LikeExpr::new(choices.below(2) == 1, choices.below(4) == 3, input, pattern))
        }
        5 => {
            let input = expression(&data_type, lower, choices);
            if choices.below(2) == 1 { Arc::new(IsNullExpr::new(input)) } else { Arc::new(IsNotNullExpr::new(input)) }
        }
        6 => Arc::new(NotExpr::new(condition(lower, choices))),
        _ => {
            let operator = choices.of(&[Operator::And, Operator::And, Operator::Or]);
            (0..2 + choices.below(3))
                .fold(condition(lower, choices), |left, _| binary(left, operator, condition(lower, choices)))
        }
    }
}

/// Whether an expression spares rows to some of its parts, so that errors may stay away.
fn is_guarded(physical: &Physical) -> bool {
    let guard = physical.is::<CaseExpr>()
        || physical
            .downcast_ref::<BinaryExpr>()
            .is_some_and(|binary| matches!(binary.op(), Operator::And | Operator::Or));
    guard || physical.children().into_iter().any(is_guarded)
}

/// A column in its narrow form, where its values have one.
fn narrowed(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => {
            let codes = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            arrow_cast(&arrow_cast(array, &DataType::Utf8).unwrap(), &codes).unwrap()
        }
        DataType::Decimal128(precision, scale) => {
            let wide = array.as_primitive::<Decimal128Type>();
            let narrow = wide.iter().map(|value| value.map(|value| i64::try_from(value).ok()));
            match narrow.map(|value| value.map_or(Some(None), |value| value.map(Some))).collect::<Option<Vec<_>>>() {
                Some(values) => {
                    let narrow = Decimal64Array::from(values).with_precision_and_scale((*precision).min(18), *scale);
                    Arc::new(narrow.unwrap())
                }
                None => array.clone(),
            }
        }
        _ => array.clone(),
    }
}

/// The batch with its columns under picks: `more` other values around, or few values picked often.
fn picked(arrays: &[ArrayRef], rows: usize, choices: &mut Choices) -> (Batch, Vec<ArrayRef>) {
    let picks = (0..rows * 2).map(|_| match choices.below(30) {
        29 => None,
        pick => Some((pick * 7 % rows) as u32),
    });
    let picks = Arc::new(picks.collect::<UInt32Array>());
    let columns = arrays.iter().map(|array| Column::picked(array.clone(), picks.clone())).collect::<Vec<_>>();
    let flat = columns.iter().map(|column| column.flat().unwrap()).collect();
    (Batch::new(columns, rows * 2), flat)
}

fn record_batch(arrays: &[ArrayRef]) -> RecordBatch {
    let schema = schema();
    let arrays = arrays.iter().zip(schema.fields()).map(|(array, field)| to_logical(array, field.data_type()).unwrap());
    RecordBatch::try_new(schema.clone(), arrays.collect()).unwrap()
}

/// Whether some part of an expression gives a NaN with a sign, which DataFusion takes for another value than one
/// without.
fn has_signed_nan(physical: &Physical, batch: &RecordBatch) -> bool {
    let values = physical.evaluate(batch).and_then(|value| value.into_array(batch.num_rows())).ok();
    let floats = values.as_ref().and_then(|values| values.as_primitive_opt::<Float64Type>());
    floats.is_some_and(|floats| floats.iter().flatten().any(|value| value.is_nan() && value.is_sign_negative()))
        || physical.children().into_iter().any(|part| has_signed_nan(part, batch))
}

/// The expression with one zero only wherever floats are looked for in a list: DataFusion finds 0.0 there and not -0.0.
fn with_one_zero(physical: &Physical) -> Physical {
    let zero = ScalarValue::Float64(Some(0.0));
    let rewritten = physical.clone().transform_up(|part| match part.downcast_ref::<InListExpr>() {
        Some(list) if list.expr().data_type(&schema())? == DataType::Float64 => {
            let members = list.list().iter().map(|member| {
                let value = member.downcast_ref::<Literal>().expect("lists are of literals").value();
                let is_zero = *value == ScalarValue::Float64(Some(-0.0));
                literal(if is_zero { zero.clone() } else { value.clone() })
            });
            let input = binary(list.expr().clone(), Operator::Plus, literal(zero.clone()));
            let list = InListExpr::try_new(input, members.collect(), list.negated(), &schema())?;
            Ok(Transformed::yes(Arc::new(list) as Physical))
        }
        _ => Ok(Transformed::no(part)),
    });
    rewritten.data().unwrap()
}

fn by_datafusion(physical: &Physical, arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let batch = record_batch(arrays);
    has_digits(physical, &batch)?;
    with_one_zero(physical).evaluate(&batch).and_then(|value| value.into_array(rows)).map_err(from_datafusion)
}

/// Fails if some part of an expression has more than 38 digits, which DataFusion lets pass.
fn has_digits(physical: &Physical, batch: &RecordBatch) -> Result<()> {
    for part in physical.children() {
        has_digits(part, batch)?;
    }
    let Some(binary) = physical.downcast_ref::<BinaryExpr>() else { return Ok(()) };
    if !matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply) {
        return Ok(());
    }
    let Ok(values) = physical.evaluate(batch).and_then(|value| value.into_array(batch.num_rows())) else {
        return Ok(());
    };
    let limit = 10u128.pow(38);
    let over = |value: i128| value.unsigned_abs() >= limit;
    match values.as_primitive_opt::<Decimal128Type>() {
        Some(values) if values.iter().flatten().any(over) => Err(Error::value("more than 38 digits")),
        _ => Ok(()),
    }
}

fn judge(physical: &Physical, batch: &Batch, arrays: &[ArrayRef]) -> std::result::Result<(), TestCaseError> {
    if has_signed_nan(physical, &record_batch(arrays)) {
        return Ok(());
    }
    let expected = by_datafusion(physical, arrays, batch.rows());
    let expr = Expr::new(physical.clone(), &schema()).unwrap();
    let found = expr.evaluate(batch).map(|column| to_logical(&column.flat().unwrap(), expr.data_type()).unwrap());
    let expected = match expected {
        Ok(expected) => expected,
        Err(error) => {
            // Division by zero on some rows, overflow on others: which of several errors comes is not ours to keep.
            let same = |other: &Error| other.kind() == error.kind();
            prop_assert!(found.as_ref().map_or_else(same, |_| is_guarded(physical)), "{expr}: {found:?}, not {error}");
            return Ok(());
        }
    };
    prop_assert!(found.is_ok(), "{}: {:?}", expr, found);
    prop_assert_eq!(&found.unwrap(), &expected, "{}", expr);
    if *expr.data_type() == DataType::Boolean {
        let truth = expected.as_boolean().iter().map(|answer| answer == Some(true)).collect::<Vec<_>>();
        let selected = match expr.select(batch).unwrap() {
            Selection::All => vec![true; batch.rows()],
            Selection::None => vec![false; batch.rows()],
            Selection::Rows(rows) => {
                (0..batch.rows()).map(|row| rows.values().binary_search(&(row as u32)).is_ok()).collect()
            }
        };
        prop_assert_eq!(&selected, &truth, "selection by {}", expr);
        if let Some(filter) = PredicateFilter::new(&expr, &schema()).unwrap() {
            let inputs = filter.columns().iter().map(|&index| arrays[index].clone()).collect::<Vec<_>>();
            let kept = filter.keep(&inputs).unwrap();
            prop_assert_eq!(kept.values().iter().collect::<Vec<_>>(), truth, "row filter of {}", expr);
        }
    }
    Ok(())
}

fn judge_in_every_form(
    made: Vec<u16>,
    make: impl Fn(&mut Choices) -> Physical,
) -> std::result::Result<(), TestCaseError> {
    let mut choices = Choices { made, next: 0 };
    let physical = make(&mut choices);
    let rows = choices.of(&[1, 3, 65, 130]);
    let logical = COLUMNS.map(|(_, data_type)| column_values(&data_type, rows, &mut choices)).to_vec();
    let narrow = logical.iter().map(narrowed).collect::<Vec<_>>();
    judge(&physical, &Batch::from_arrays(logical.clone(), rows), &logical)?;
    judge(&physical, &Batch::from_arrays(narrow.clone(), rows), &narrow)?;
    let (batch, flat) = picked(&narrow, rows, &mut choices);
    judge(&physical, &batch, &flat)?;
    let (batch, flat) = picked(&logical, rows, &mut choices);
    judge(
        &physical,
        &batch.slice(rows / 2, rows),
        &flat.iter().map(|array| array.slice(rows / 2, rows)).collect::<Vec<_>>(),
    )
}

fn decisions() -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(any::<u16>(), 400..3000)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn conditions_are_as_datafusion_says(made in decisions()) {
        judge_in_every_form(made, |choices| condition(3, choices))?;
    }

    #[test]
    fn decimals_are_as_datafusion_says(made in decisions()) {
        judge_in_every_form(made, |choices| decimal(3, choices))?;
    }

    #[test]
    fn values_of_every_type_are_as_datafusion_says(made in decisions()) {
        judge_in_every_form(made, |choices| {
            let (_, data_type) = choices.of(&COLUMNS);
            expression(&data_type, 3, choices)
        })?;
    }
}

fn numbers(values: &[(i64, i64)]) -> Batch {
    let mut arrays = COLUMNS.map(|(_, data_type)| new_null_array(&data_type, values.len())).to_vec();
    arrays[2] = Arc::new(values.iter().map(|(left, _)| *left).collect::<Int64Array>());
    arrays[3] = Arc::new(values.iter().map(|(_, right)| *right).collect::<Int64Array>());
    Batch::from_arrays(arrays, values.len())
}

fn division_is_large() -> Physical {
    binary(binary(column(3), Operator::Divide, column(2)), Operator::Gt, literal(ScalarValue::Int64(Some(1))))
}

#[test]
fn a_guard_before_a_division_spares_it_the_zeros() {
    let is_not_zero = binary(column(2), Operator::NotEq, literal(ScalarValue::Int64(Some(0))));
    // Whether most rows divide or few: DataFusion itself fails on the first batch, because it guards only where few do.
    let most = numbers(&[(1, 5), (2, 1), (0, 7), (3, 9), (1, 1), (1, 3)]);
    let few = numbers(&[(0, 5), (0, 1), (0, 7), (3, 9), (0, 1), (0, 3)]);
    let guarded = Expr::new(binary(is_not_zero.clone(), Operator::And, division_is_large()), &schema()).unwrap();
    assert_eq!(guarded.select(&most).unwrap().rows(6), 3);
    assert_eq!(guarded.select(&few).unwrap().rows(6), 1);
    assert_eq!(guarded.evaluate(&most).unwrap().flat().unwrap().as_boolean().true_count(), 3);
    let either = binary(Arc::new(NotExpr::new(is_not_zero.clone())), Operator::Or, division_is_large());
    assert_eq!(Expr::new(either, &schema()).unwrap().select(&most).unwrap().rows(6), 4);
    let case = CaseExpr::try_new(
        None,
        vec![(is_not_zero, binary(column(3), Operator::Divide, column(2)))],
        Some(literal(ScalarValue::Int64(Some(-1)))),
    );
    let case = Expr::new(Arc::new(case.unwrap()), &schema()).unwrap();
    let values = case.evaluate(&most).unwrap().flat().unwrap();
    assert_eq!(values.as_primitive::<Int64Type>().values().to_vec(), vec![5, 0, -1, 3, 1, 3]);
}

#[test]
fn an_error_before_the_guard_stays_an_error() {
    let is_not_zero = binary(column(2), Operator::NotEq, literal(ScalarValue::Int64(Some(0))));
    let late = Expr::new(binary(division_is_large(), Operator::And, is_not_zero), &schema()).unwrap();
    let error = late.select(&numbers(&[(0, 5), (1, 1)])).unwrap_err();
    assert_eq!(error.message(), "division by zero");
}

#[test]
fn tpch_revenue_is_computed_in_64_bits_and_falls_back_when_it_must() {
    let price = column(8);
    let one = literal(ScalarValue::Decimal128(Some(1), 20, 0));
    let revenue = binary(price, Operator::Multiply, binary(one, Operator::Minus, column(8)));
    let expr = Expr::new(revenue.clone(), &schema()).unwrap();
    let evaluate = |values: Vec<i64>| {
        let mut arrays = COLUMNS.map(|(_, data_type)| new_null_array(&data_type, values.len())).to_vec();
        let rows = values.len();
        arrays[8] = Arc::new(Decimal64Array::from(values).with_precision_and_scale(15, 2).unwrap());
        let expected = by_datafusion(&revenue, &arrays, rows).unwrap();
        let found = expr.evaluate(&Batch::from_arrays(arrays, rows)).unwrap().flat().unwrap();
        assert_eq!(to_logical(&found, expr.data_type()).unwrap().as_ref(), expected.as_ref());
        found.data_type().clone()
    };
    assert_eq!(evaluate(vec![1234, -55, 999_999_999]), DataType::Decimal64(18, 4));
    assert_eq!(evaluate(vec![1234, -55, 999_999_999_999_999]), *expr.data_type());
}

#[test]
fn expressions_are_equal_by_structure_and_types() {
    use std::hash::{BuildHasher, RandomState};
    let make = |bound: i64| binary(column(2), Operator::Lt, literal(ScalarValue::Int64(Some(bound))));
    let expr = |physical| Expr::new(physical, &schema()).unwrap();
    let hasher = RandomState::new();
    assert_eq!(expr(make(3)), expr(make(3)));
    assert_eq!(hasher.hash_one(expr(make(3))), hasher.hash_one(expr(make(3))));
    assert_ne!(expr(make(3)), expr(make(4)));
    let renamed = Schema::new(vec![Field::new("i", DataType::Int64, true)]);
    assert_ne!(Expr::column(0, &renamed).unwrap(), Expr::column(0, &schema()).unwrap());
}
