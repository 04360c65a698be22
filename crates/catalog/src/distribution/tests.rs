//! Rows divided by each strategy, and the fragments that conditions want.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::cast::as_boolean_array;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, Column as ColumnExpr, InListExpr, IsNullExpr, Literal, NotExpr,
};
use diligence_base::seams::Random;

use super::*;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("f", DataType::Float64, true),
    ]))
}

fn batch(rows: usize, random: &mut Random) -> RecordBatch {
    let mut some = |value: &mut dyn FnMut(&mut Random) -> i64| {
        (0..rows).map(|_| (random.below(8) > 0).then(|| value(random))).collect::<Vec<_>>()
    };
    let numbers = some(&mut |random| random.below(30) as i64 - 10);
    let texts = some(&mut |random| random.below(30) as i64);
    let floats = some(&mut |random| random.below(12) as i64);
    let float = |number: i64| match number {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => f64::NEG_INFINITY,
        other => other as f64 - 6.5,
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers)),
        Arc::new(StringViewArray::from_iter(texts.iter().map(|text| text.map(|text| format!("t{text}"))))),
        Arc::new(Float64Array::from_iter(floats.into_iter().map(|number| number.map(float)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn strategies() -> Vec<Strategy> {
    let column = |name: &str| name.to_owned();
    let bounds = |bounds: &[&str]| bounds.iter().map(|bound| (*bound).to_owned()).collect();
    vec![
        Strategy::RoundRobin { fragments: 3 },
        Strategy::Hash { columns: vec![column("k")], fragments: 8 },
        Strategy::Hash { columns: vec![column("s"), column("k")], fragments: 64 },
        Strategy::Hash { columns: vec![column("f")], fragments: 5 },
        Strategy::Range { column: column("k"), bounds: bounds(&["-3", "5", "19"]) },
        Strategy::Range { column: column("s"), bounds: bounds(&["t1", "t25", "t3"]) },
        Strategy::Range { column: column("f"), bounds: bounds(&["-1", "0", "NaN"]) },
        Strategy::Uniform { column: column("k"), fragments: 4, bounds: None },
        Strategy::Uniform { column: column("s"), fragments: 4, bounds: Some(bounds(&["t'4", "t2"])) },
    ]
}

fn placement(strategy: Strategy) -> Placement {
    let distribution = Distribution { strategy, clustered: vec!["k".to_owned()] };
    Placement::new(&distribution, &schema()).unwrap()
}

/// Tables on disk depend on it.
#[test]
fn hashes_are_what_they_were() {
    let hash = |column: &str| placement(Strategy::Hash { columns: vec![column.to_owned()], fragments: 8 });
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..16));
    assert_eq!(hash("k").hashed(&[numbers], 16).unwrap(), [6, 6, 6, 3, 6, 6, 6, 2, 6, 4, 5, 5, 0, 4, 3, 4]);
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["", "a", "b", "abc", "the value"]));
    assert_eq!(hash("s").hashed(&[texts], 5).unwrap(), [4, 0, 1, 0, 5]);
}

#[test]
fn each_row_is_in_one_fragment_and_equal_keys_in_the_same() {
    let mut random = Random::new(3);
    for strategy in strategies() {
        let placement = placement(strategy.clone());
        let rows = batch(500, &mut random);
        let parts = placement.split(&rows, 7).unwrap();
        let count = parts.iter().map(|part| part.rows.num_rows()).sum::<usize>();
        assert_eq!(count, 500);
        for FragmentRows { fragment, rows: own, places } in &parts {
            assert!(*fragment < strategy.fragments().max(1));
            let places = places.clone().unwrap_or_else(|| (0..500).collect());
            let same = take_record_batch(&rows, &UInt32Array::from(places)).unwrap();
            assert_eq!(same, own.clone(), "{strategy:?}");
            if let Strategy::RoundRobin { .. } = strategy {
                assert!(own.num_rows().abs_diff(500 / 3) <= 1);
                continue;
            }
            // One row by itself goes where it goes with others, and NULL to the first.
            for row in 0..own.num_rows() {
                let alone = placement.split(&own.slice(row, 1), 999).unwrap();
                assert_eq!(alone[0].fragment, *fragment, "{strategy:?}");
                let is_null = |column: &String| own.column_by_name(column).unwrap().is_null(row);
                assert!(*fragment == 0 || !strategy.columns().iter().any(is_null), "{strategy:?}");
            }
        }
    }
}

/// A condition over one column, or several.
fn condition(random: &mut Random, depth: usize) -> Arc<dyn PhysicalExpr> {
    let place = random.below(3);
    let schema = schema();
    let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(place).name(), place));
    let value = |random: &mut Random| -> Arc<dyn PhysicalExpr> {
        let value = ScalarValue::try_from_array(batch(1, random).column(place), 0).unwrap();
        Arc::new(Literal::new(value))
    };
    if depth > 0 && random.below(2) == 0 {
        let operator = if random.below(2) == 0 { Operator::And } else { Operator::Or };
        let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
        return Arc::new(BinaryExpr::new(left, operator, right));
    }
    match random.below(8) {
        0 => {
            let list = (0..1 + random.below(3)).map(|_| value(random)).collect();
            Arc::new(InListExpr::try_new(column, list, random.below(4) == 0, &schema).unwrap())
        }
        1 => Arc::new(IsNullExpr::new(column)),
        2 => Arc::new(NotExpr::new(condition(random, 0))),
        kind => {
            let operators = [Operator::Eq, Operator::Eq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
            let value = value(random);
            Arc::new(BinaryExpr::new(column, operators[(kind - 3 + random.below(2)) % 6], value))
        }
    }
}

#[test]
fn no_fragment_is_left_out_that_has_a_wanted_row() {
    let mut random = Random::new(11);
    let mut left_out = 0;
    for strategy in strategies() {
        let placement = placement(strategy.clone());
        let parts = placement.split(&batch(300, &mut random), 0).unwrap();
        for _ in 0..400 {
            let condition = condition(&mut random, 2);
            let Some(wanted) = placement.wanted(&condition) else { continue };
            assert_eq!(wanted.len(), usize::from(placement.fragments()));
            left_out += wanted.iter().filter(|wanted| !**wanted).count();
            for part in &parts {
                let found = condition.evaluate(&part.rows).unwrap().into_array(part.rows.num_rows()).unwrap();
                let found = as_boolean_array(&found).unwrap().true_count();
                assert!(found == 0 || wanted[usize::from(part.fragment)], "{condition} of {strategy:?}");
            }
        }
    }
    assert!(left_out > 500, "{left_out}");
}

#[test]
fn conditions_on_keys_want_the_fragments_of_their_values() {
    let compared = |operator, value: i64| -> Arc<dyn PhysicalExpr> {
        let value = Arc::new(Literal::new(ScalarValue::Int64(Some(value))));
        Arc::new(BinaryExpr::new(Arc::new(ColumnExpr::new("k", 0)), operator, value))
    };
    let wanted = |placement: &Placement, condition: &Arc<dyn PhysicalExpr>| {
        placement
            .wanted(condition)
            .map(|wanted| (0..).zip(wanted).filter(|(_, is)| *is).map(|(f, _)| f).collect::<Vec<usize>>())
    };
    let range = Strategy::Range { column: "k".to_owned(), bounds: vec!["10".to_owned(), "20".to_owned()] };
    let range = placement(range);
    assert_eq!(wanted(&range, &compared(Operator::Eq, 10)), Some(vec![1]));
    assert_eq!(wanted(&range, &compared(Operator::Lt, 10)), Some(vec![0]));
    assert_eq!(wanted(&range, &compared(Operator::LtEq, 10)), Some(vec![0, 1]));
    assert_eq!(wanted(&range, &compared(Operator::GtEq, 20)), Some(vec![2]));
    assert_eq!(wanted(&range, &compared(Operator::Gt, 9)), Some(vec![1, 2]));
    let hash = placement(Strategy::Hash { columns: vec!["k".to_owned()], fragments: 8 });
    assert_eq!(wanted(&hash, &compared(Operator::Eq, 3)), Some(vec![3]));
    assert_eq!(wanted(&hash, &compared(Operator::Gt, 3)), None);
}

#[test]
fn a_distribution_that_is_written_down_is_the_same_again() {
    for strategy in strategies() {
        for clustered in [vec![], vec!["s".to_owned(), "k".to_owned()]] {
            let mut distribution = Distribution { strategy: strategy.clone(), clustered };
            assert_eq!(Distribution::decoded(&distribution.encoded()).unwrap(), distribution);
            distribution.rename("k", "other");
            assert!(!distribution.uses("k"));
            assert!(Distribution::decoded(&distribution.encoded()).unwrap() == distribution);
        }
    }
    assert!(Distribution::decoded("by luck").is_err());
}

#[test]
fn bounds_make_fragments_of_equal_size() {
    let uniform = |fragments| Distribution {
        strategy: Strategy::Uniform { column: "k".to_owned(), fragments, bounds: None },
        ..Distribution::default()
    };
    let bounds = |fragments, values: Vec<Option<i64>>| {
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        let halves =
            [values.slice(0, values.len() / 2), values.slice(values.len() / 2, values.len() - values.len() / 2)];
        uniform(fragments).with_bounds_of(&halves).unwrap().strategy.bounds().to_vec()
    };
    let all = (0..100).map(|value| Some(value * 37 % 100)).chain([None, None]).collect();
    assert_eq!(bounds(4, all), ["25", "50", "75"]);
    assert_eq!(bounds(4, vec![Some(7); 50]), [""; 0]);
    assert_eq!(bounds(3, vec![Some(1), Some(1), Some(1), Some(2)]), ["2"]);
    assert_eq!(bounds(8, vec![None, None]), [""; 0]);
    assert_eq!(bounds(8, vec![]), [""; 0]);
}

#[test]
fn rows_in_order_keep_their_places() {
    let mut random = Random::new(5);
    let rows = batch(200, &mut random);
    let placement = placement(Strategy::default());
    let (ordered, places) = placement.ordered(&[rows.slice(0, 90), rows.slice(90, 110)]).unwrap();
    let keys = ordered.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert!(keys.is_sorted());
    let same = take_record_batch(&rows, &UInt32Array::from(places)).unwrap();
    assert_eq!(same, ordered);
}
