//! Zone maps beside the rows that they are of.

use std::sync::Arc;

use arrow::array::{Float64Array, Int32Array, Int64Array, RecordBatch};
use arrow::compute::{max, max_string_view, min, min_string_view};
use arrow::datatypes::{Field, Int64Type, Schema};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::{binary, cast, in_list, is_not_null, is_null, like, lit, not};
use diligence_base::seams::Random;

use super::*;

const ZONES: usize = 24;
const ROWS: usize = 6;

/// Numbers, texts and truths in zones of [`ROWS`] rows, whose bounds are known in most zones.
struct Table {
    rows: RecordBatch,
    hidden: Vec<bool>,
}

impl Table {
    fn random(random: &mut Random) -> Self {
        let (mut numbers, mut texts, mut truths) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ZONES {
            let (base, spread) = (random.below(12) as i64 - 6, 1 + random.below(4));
            let (nulls, only_nulls) = (random.below(50), random.chance(10));
            for _ in 0..ROWS {
                let number = base + random.below(spread) as i64;
                let is_null = only_nulls || random.chance(nulls);
                numbers.push((!is_null).then_some(number));
                texts.push(
                    (!is_null).then(|| format!("{}{}", ["a", "ab", "b", "zz", ""][random.below(spread)], number)),
                );
                truths.push((!is_null).then(|| random.below(spread) == 0));
            }
        }
        let schema = Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
            Field::new("truth", DataType::Boolean, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(numbers)),
            Arc::new(arrow::array::StringViewArray::from_iter(texts)),
            Arc::new(BooleanArray::from(truths)),
        ];
        let hidden = (0..ZONES).map(|_| random.chance(10)).collect();
        Self { rows: RecordBatch::try_new(Arc::new(schema), columns).unwrap(), hidden }
    }

    fn zone(&self, column: usize, zone: usize) -> ArrayRef {
        self.rows.column(column).slice(zone * ROWS, ROWS)
    }

    fn side(&self, column: usize, is_least: bool) -> Option<ArrayRef> {
        let zones = (0..ZONES).map(|zone| (self.zone(column, zone), self.hidden[zone]));
        Some(match column {
            0 => Arc::new(
                zones
                    .map(|(values, hidden)| {
                        let values = values.as_primitive::<Int64Type>();
                        if hidden {
                            None
                        } else if is_least {
                            min(values)
                        } else {
                            max(values)
                        }
                    })
                    .collect::<Int64Array>(),
            ),
            1 => Arc::new(
                zones
                    .map(|(values, hidden)| {
                        let values = values.as_string_view();
                        let bound = if is_least { min_string_view(values) } else { max_string_view(values) };
                        bound.filter(|_| !hidden).map(str::to_owned)
                    })
                    .collect::<arrow::array::StringViewArray>(),
            ),
            _ => Arc::new(
                zones
                    .map(|(values, hidden)| {
                        let mut values = values.as_boolean().iter().flatten();
                        let first = values.next()?;
                        let bound = values.fold(first, |one, other| if is_least { one & other } else { one | other });
                        (!hidden).then_some(bound)
                    })
                    .collect::<BooleanArray>(),
            ),
        })
    }
}

impl ZoneMap for Table {
    fn zones(&self) -> usize {
        ZONES
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.side(column, true)
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        self.side(column, false)
    }

    fn nulls(&self, column: usize) -> Option<UInt64Array> {
        let nulls = (0..ZONES).map(|zone| (!self.hidden[zone]).then(|| self.zone(column, zone).null_count() as u64));
        Some(nulls.collect())
    }

    fn rows(&self) -> Option<UInt64Array> {
        Some(UInt64Array::from(vec![ROWS as u64; ZONES]))
    }
}

fn column(table: &Table, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(table.rows.schema().field(index).name(), index))
}

fn condition(random: &mut Random, table: &Table, depth: usize) -> Arc<dyn PhysicalExpr> {
    let schema = table.rows.schema();
    let join = |one, operator, other| binary(one, operator, other, &schema).unwrap();
    let comparison = |random: &mut Random| {
        [
            Operator::Lt,
            Operator::LtEq,
            Operator::Gt,
            Operator::GtEq,
            Operator::Eq,
            Operator::NotEq,
            Operator::IsDistinctFrom,
            Operator::IsNotDistinctFrom,
        ][random.below(8)]
    };
    let number = |random: &mut Random| match random.below(8) {
        0 => lit(ScalarValue::Int64(None)),
        _ => lit(random.below(14) as i64 - 7),
    };
    let text = |random: &mut Random| match random.below(8) {
        0 => lit(ScalarValue::Utf8View(None)),
        _ => lit(ScalarValue::Utf8View(Some(format!("{}{}", ["a", "ab", "b", ""][random.below(4)], random.below(9))))),
    };
    match random.below(if depth > 3 { 8 } else { 12 }) {
        0 => {
            let value = number(random);
            join(column(table, 0), comparison(random), value)
        }
        1 => {
            let value = text(random);
            join(value, comparison(random), column(table, 1))
        }
        2 => join(column(table, 0), comparison(random), column(table, 0)),
        3 => column(table, 2),
        4 => {
            let pattern = ["a%", "ab%", "%a", "b1%", "a_", "", "zz-%", "zz%"][random.below(8)];
            let pattern = lit(ScalarValue::Utf8View(Some(pattern.to_owned())));
            like(random.chance(50), false, column(table, 1), pattern, &schema).unwrap()
        }
        5 => {
            let values = (0..random.below(4)).map(|_| number(random)).collect();
            in_list(column(table, 0), values, &random.chance(50), &schema).unwrap()
        }
        6 => is_null(column(table, random.below(3))).unwrap(),
        7 => {
            let decimal = cast(column(table, 0), &schema, DataType::Decimal128(20, 2)).unwrap();
            join(
                decimal,
                comparison(random),
                lit(ScalarValue::Decimal128(Some(random.below(900) as i128 - 400), 20, 2)),
            )
        }
        8 => not(condition(random, table, depth + 1)).unwrap(),
        9 => is_not_null(condition(random, table, depth + 1)).unwrap(),
        10 => join(condition(random, table, depth + 1), Operator::And, condition(random, table, depth + 1)),
        _ => join(condition(random, table, depth + 1), Operator::Or, condition(random, table, depth + 1)),
    }
}

#[test]
fn no_zone_with_a_wanted_row_is_left_out() {
    let (mut left_out, mut without_rows) = (0, 0);
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let table = Table::random(&mut random);
        let wanted = condition(&mut random, &table, 0);
        let Ok(truth) = wanted.evaluate(&table.rows).and_then(|value: ColumnarValue| value.into_array(ZONES * ROWS))
        else {
            continue;
        };
        let kept = may_be_true(&wanted, &table.rows.schema(), &table).unwrap_or_else(|| vec![true; ZONES]);
        for (zone, is_kept) in kept.iter().enumerate() {
            let rows = truth.slice(zone * ROWS, ROWS);
            let has_rows = rows.as_boolean().true_count() > 0;
            assert!(*is_kept || !has_rows, "seed {seed}: zone {zone} has rows with {wanted}");
            left_out += usize::from(!is_kept);
            without_rows += usize::from(!has_rows);
        }
    }
    // Most of what could be left out is.
    assert!(left_out * 10 > without_rows * 6, "{left_out} of {without_rows}");
}

/// One column with bounds that are given.
struct Bounds(ArrayRef, ArrayRef);

impl ZoneMap for Bounds {
    fn zones(&self) -> usize {
        self.0.len()
    }

    fn least(&self, _: usize) -> Option<ArrayRef> {
        Some(self.0.clone())
    }

    fn greatest(&self, _: usize) -> Option<ArrayRef> {
        Some(self.1.clone())
    }

    fn nulls(&self, _: usize) -> Option<UInt64Array> {
        None
    }

    fn rows(&self) -> Option<UInt64Array> {
        None
    }
}

#[test]
fn zones_are_left_out_by_bounds() {
    let kept = |bounds: (ArrayRef, ArrayRef),
                wanted: &dyn Fn(Arc<dyn PhysicalExpr>, &Schema) -> Arc<dyn PhysicalExpr>| {
        let schema = Arc::new(Schema::new(vec![Field::new("x", bounds.0.data_type().clone(), true)]));
        may_be_true(&wanted(Arc::new(Column::new("x", 0)), &schema), &schema, &Bounds(bounds.0, bounds.1))
    };
    let numbers = || -> (ArrayRef, ArrayRef) {
        (Arc::new(Int32Array::from(vec![0, 10, 20])), Arc::new(Int32Array::from(vec![9, 19, 29])))
    };
    let compared = |operator: Operator, value: ScalarValue| {
        move |x: Arc<dyn PhysicalExpr>, schema: &Schema| binary(x, operator, lit(value.clone()), schema).unwrap()
    };
    let at_least = compared(Operator::GtEq, ScalarValue::Int32(Some(19)));
    assert_eq!(kept(numbers(), &at_least), Some(vec![false, true, true]));
    // Other types of numbers compare, too.
    let decimal = compared(Operator::Eq, ScalarValue::Decimal128(Some(195), 5, 1));
    assert_eq!(kept(numbers(), &decimal), Some(vec![false; 3]));
    assert_eq!(kept(numbers(), &compared(Operator::Lt, ScalarValue::Int32(Some(100)))), None);
    // A long list is as good as a short one.
    let listed = |x: Arc<dyn PhysicalExpr>, schema: &Schema| {
        let values = (0..500).map(|value| lit(if value == 250 { 15 } else { 1000 + value })).collect();
        in_list(x, values, &false, schema).unwrap()
    };
    assert_eq!(kept(numbers(), &listed), Some(vec![false, true, false]));
    // Both zeros are one number.
    let zeros: (ArrayRef, ArrayRef) =
        (Arc::new(Float64Array::from(vec![-0.0])), Arc::new(Float64Array::from(vec![-0.0])));
    assert_eq!(kept(zeros, &compared(Operator::Eq, ScalarValue::Float64(Some(0.0)))), None);
}
