//! Variances and their like against the judge: the same but for rounding.

use std::ops::RangeInclusive;

use datafusion_functions_aggregate::correlation::corr_udaf;
use datafusion_functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion_functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_count_udaf, regr_intercept_udaf, regr_r2_udaf, regr_slope_udaf, regr_sxx_udaf,
    regr_sxy_udaf, regr_syy_udaf,
};
use datafusion_functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion_functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};

use super::*;

/// One call for each function, over the float, or over the float and the order key.
fn moments(schema: &SchemaRef, frame: impl Fn(usize) -> Arc<WindowFrame>, filtered: bool) -> Vec<WindowCall> {
    let of_one = [var_samp_udaf(), var_pop_udaf(), stddev_udaf(), stddev_pop_udaf()];
    let of_two = [
        covar_samp_udaf(),
        covar_pop_udaf(),
        corr_udaf(),
        regr_slope_udaf(),
        regr_intercept_udaf(),
        regr_count_udaf(),
        regr_r2_udaf(),
        regr_avgx_udaf(),
        regr_avgy_udaf(),
        regr_sxx_udaf(),
        regr_syy_udaf(),
        regr_sxy_udaf(),
    ];
    let of_one = of_one.into_iter().map(|function| (function, vec![FLOAT], false));
    // DataFusion's accumulators do not look for duplicates among pairs.
    let distinct = [(var_pop_udaf(), vec![FLOAT], true), (covar_pop_udaf(), vec![FLOAT, ORDER], true)];
    let of_two = of_two.into_iter().map(|function| (function, vec![FLOAT, ORDER], false));
    let calls = of_one.chain(of_two).chain(distinct).enumerate();
    let calls = calls.map(|(number, (function, arguments, distinct))| WindowCall {
        function: aggregate(function, &arguments, distinct, schema),
        arguments: arguments.iter().map(|&index| column(index, schema)).collect(),
        filter: filtered.then(|| column(CONDITION, schema)),
        frame: frame(number),
        excludes: Exclusion::NoOthers,
    });
    calls.collect()
}

fn name(call: &WindowCall) -> &str {
    match &call.function {
        WindowFunction::Aggregate(function) => function.fun().name(),
        _ => "",
    }
}

fn is_close(seen: &ScalarValue, expected: &ScalarValue, tolerance: f64) -> bool {
    match (seen, expected) {
        (ScalarValue::Float64(Some(seen)), ScalarValue::Float64(Some(expected))) if expected.is_finite() => {
            (seen - expected).abs() <= tolerance * expected.abs().max(1.0)
        }
        // What an infinite value makes of the others depends on where it stands among them.
        (ScalarValue::Float64(Some(seen)), ScalarValue::Float64(Some(_))) => !seen.is_finite(),
        _ => seen == expected,
    }
}

/// Compares every call with the judge, but for some rows.
fn check_moments(
    calls: Vec<WindowCall>,
    schema: &SchemaRef,
    rows: &[Row],
    options: SortOptions,
    sizes: &[usize],
    tolerance: f64,
    skipped: RangeInclusive<usize>,
) {
    let keys = [(ORDER, options)];
    let (window, output) = window(calls, &keys, schema);
    let seen = rows_of(&run(&window, &output, &batches(rows, schema, sizes)).unwrap()).unwrap();
    assert_eq!(seen.len(), rows.len());
    let inputs = schema.fields().len();
    for (number, call) in window.calls.iter().enumerate() {
        let arguments = call.arguments.iter().map(|argument| argument.as_column().unwrap()).collect::<Vec<_>>();
        let filter = call.filter.as_ref().map(|filter| filter.as_column().unwrap());
        let judged = Call {
            function: &call.function,
            arguments: &arguments,
            filter,
            frame: &call.frame,
            excludes: call.excludes,
        };
        let partitions = rows.chunk_by(|a, b| a[PARTITION] == b[PARTITION]);
        let expected = partitions.flat_map(|partition| evaluate(partition, &keys, &judged).unwrap());
        for (row, (expected, seen)) in expected.zip(&seen).enumerate() {
            let seen = &seen[inputs + number];
            if let (
                "var" | "var_pop" | "stddev" | "stddev_pop" | "regr_sxx" | "regr_syy",
                ScalarValue::Float64(Some(value)),
            ) = (name(call), seen)
            {
                assert!(value.is_nan() || *value >= 0.0, "{call}, row {row}: {value}");
            }
            if !skipped.contains(&row) {
                assert!(is_close(seen, &expected, tolerance), "{call}, row {row}: {seen}, but {expected} is expected");
            }
        }
    }
}

/// No row.
#[allow(clippy::reversed_empty_ranges, reason = "an empty range is meant")]
const NONE: RangeInclusive<usize> = 1..=0;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn moments_over_any_frame_are_what_the_judge_says(
        frames in prop::collection::vec(frames(DataType::Float64), 1..4), seeds in seeds(), options in options(),
        filtered in any::<bool>(), sizes in prop::collection::vec(1..12_usize, 1..4),
        special in select(vec![None, Some(f64::NAN), Some(f64::INFINITY), Some(4096.0)]),
    ) {
        let schema = schema(&DataType::Float64);
        let mut rows = rows(&seeds, &schema, &[(ORDER, options)]);
        for row in &mut rows {
            if let Some(special) = special
                && row[FLOAT] == ScalarValue::Float64(Some(1.75))
            {
                row[FLOAT] = ScalarValue::Float64(Some(special));
            }
        }
        let calls = moments(&schema, |number| Arc::new(frames[number % frames.len()].clone()), filtered);
        check_moments(calls, &schema, &rows, options, &sizes, 1e-6, NONE);
    }
}

/// 700 rows of one partition, with a key for every 10.
fn long(schema: &SchemaRef) -> Vec<Row> {
    let seed = |row: i64| {
        let small = |factor: i64| Some((row * factor % 15 - 7) as i8);
        (0, Some((row / 10 - 35) as i8), small(7919), small(4099).filter(|_| row % 11 != 0))
    };
    rows(&(0..700).map(seed).collect::<Vec<Seed>>(), schema, &[(ORDER, SortOptions::default())])
}

#[test]
fn values_that_have_left_leave_nothing_behind() {
    let schema = schema(&DataType::Float64);
    for filtered in [false, true] {
        for special in [1e15, -1e300, f64::NAN, f64::INFINITY] {
            let mut rows = long(&schema);
            for row in [100, 101, 105] {
                rows[row][FLOAT] = ScalarValue::Float64(Some(special));
                rows[row][CONDITION] = ScalarValue::Boolean(Some(true));
            }
            for (frame, skipped) in [
                (rows_frame(preceding(Some(1)), WindowFrameBound::CurrentRow), 100..=106),
                (rows_frame(preceding(Some(40)), WindowFrameBound::CurrentRow), 100..=145),
                (rows_frame(preceding(Some(90)), following(Some(90))), 10..=195),
                (rows_frame(WindowFrameBound::CurrentRow, following(None)), 0..=105),
            ] {
                let calls = moments(&schema, |_| frame.clone(), filtered);
                check_moments(calls, &schema, &rows, SortOptions::default(), &[64], 1e-9, skipped);
            }
        }
    }
}

#[test]
fn constant_values_do_not_vary() {
    let schema = schema(&DataType::Float64);
    let mut rows = long(&schema);
    for row in &mut rows {
        row[FLOAT] = ScalarValue::Float64(Some(0.1));
    }
    let frame = rows_frame(preceding(Some(100)), following(Some(3)));
    let calls = moments(&schema, |_| frame.clone(), false);
    let (window, output) = window(calls, &[(ORDER, SortOptions::default())], &schema);
    let seen = rows_of(&run(&window, &output, &batches(&rows, &schema, &[64])).unwrap()).unwrap();
    for (number, call) in window.calls.iter().enumerate() {
        let expected = match name(call) {
            "var" | "var_pop" | "stddev" | "stddev_pop" | "covar_samp" | "covar_pop" | "regr_syy" | "regr_sxy" => {
                Some(0.0)
            }
            "corr" | "regr_r2" => None,
            "regr_avgy" => Some(0.1),
            _ => continue,
        };
        let is_expected = |row: &Row| row[schema.fields().len() + number] == ScalarValue::Float64(expected);
        assert!(seen.iter().all(is_expected), "{call}");
    }
}

#[test]
fn moments_hold_bounded_memory() {
    let schema = schema(&DataType::Float64);
    let batch = many(&schema, 0, 1000).bytes();
    for frame in [
        rows_frame(preceding(None), WindowFrameBound::CurrentRow),
        rows_frame(preceding(Some(100)), following(Some(10))),
        rows_frame(preceding(Some(20_000)), WindowFrameBound::CurrentRow),
    ] {
        for call in moments(&schema, |_| frame.clone(), false) {
            if matches!(&call.function, WindowFunction::Aggregate(function) if function.is_distinct()) {
                continue;
            }
            let name = call.to_string();
            let (bytes, _) = held(vec![call], &schema);
            // Without those rows that the frame begins with.
            let reach = if frame.start_bound == preceding(Some(20_000)) { 20 } else { 0 };
            assert!(bytes <= (20 + reach) * batch, "{name} holds {bytes} bytes");
        }
    }
}
