//! One partition that is many times as large as memory, in 16 MiB, by every kind of frame: what windows reserve, and
//! that they end.

use diligence_base::ids::QueryId;
use diligence_memory::Broker;

use super::*;
use crate::query::tests::eventually;

const BUDGET: usize = 16 << 20;
const ROWS: usize = 2_000_000;
const BATCH_ROWS: usize = 8192;

/// Rows of 110 bytes: a key, the same key with some peers, two numbers, and a text.
fn large_schema() -> SchemaRef {
    let fields = [
        ("partition", DataType::Int64),
        ("order", DataType::Int64),
        ("number", DataType::Int64),
        ("float", DataType::Float64),
        ("text", DataType::Utf8View),
    ];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

fn large_batch(first: usize, rows: usize, peers: usize) -> Batch {
    let numbers =
        |of: fn(usize) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((first..first + rows).map(of))) };
    let columns = vec![
        numbers(|_| 1),
        Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| (row / peers) as i64))),
        numbers(|row| (row * 7919 % 1000) as i64),
        Arc::new(Float64Array::from_iter_values((first..first + rows).map(|row| (row % 1000) as f64))),
        Arc::new(StringViewArray::from_iter_values((first..first + rows).map(|row| format!("{row:078}")))),
    ];
    Batch::from_arrays(columns, rows)
}

/// Sends the partition through a window in the budget. The most that was reserved, and the last column of the first row
/// and of the last one.
fn large(calls: Vec<WindowCall>, peers: usize) -> Result<(usize, Row, Row)> {
    let schema = large_schema();
    let (window, output) = window(calls, &[(ORDER, SortOptions::default())], &schema);
    let space = TempSpace::open(&TempOptions { threads: 2, ..TempOptions::within(BUDGET) })?;
    let broker = Broker::new(BUDGET);
    let memory = broker.account(QueryId(1), None);
    let mut work = Work::new(Functions::new(&window, &output)?, &memory, Some(space.clone()));
    let (mut rows, mut first, mut last) = (0, None, None);
    let mut take = |batch: Batch| -> Result<()> {
        rows += batch.rows();
        let at = |row: usize| {
            Ok::<_, diligence_base::Error>(rows_of(&[batch.slice(row, 1).to_record_batch(&output)?])?.remove(0))
        };
        if first.is_none() {
            first = Some(at(0)?);
        }
        if rows == ROWS {
            last = Some(at(batch.rows() - 1)?);
        }
        Ok(())
    };
    let mut from = 0;
    loop {
        // As a packet does it.
        block_on(|waker| work.poll_give_back(waker))?;
        if let Some(batch) = next(&mut work)? {
            take(batch)?;
        } else if from < ROWS {
            let batch = large_batch(from, BATCH_ROWS.min(ROWS - from), peers);
            from += batch.rows();
            push(&mut work, &batch)?;
            if from == ROWS {
                work.close();
            }
        } else {
            break;
        }
    }
    assert_eq!(rows, ROWS);
    drop(work);
    // A cluster that is being read goes when it has been read.
    eventually("all is given back", || (broker.reserved_bytes(), space.info().files) == (0, 0));
    Ok((memory.peak_bytes(), first.unwrap(), last.unwrap()))
}

fn framed(units: WindowFrameUnits, start: WindowFrameBound, end: WindowFrameBound) -> Arc<WindowFrame> {
    Arc::new(WindowFrame::new_bounds(units, start, end))
}

fn call(function: WindowFunction, arguments: &[usize], frame: &Arc<WindowFrame>) -> WindowCall {
    let schema = large_schema();
    let arguments = arguments.iter().map(|&index| column(index, &schema)).collect();
    WindowCall { function, arguments, filter: None, frame: frame.clone(), excludes: Exclusion::NoOthers }
}

fn of(function: Arc<AggregateUDF>, argument: usize, frame: &Arc<WindowFrame>) -> WindowCall {
    call(aggregate(function, &[argument], false, &large_schema()), &[argument], frame)
}

fn nth(nth: i64, frame: &Arc<WindowFrame>) -> WindowCall {
    call(WindowFunction::Nth { nth, ignore_nulls: false }, &[TEXT], frame)
}

const ORDER: usize = 1;
const NUMBER: usize = 2;
const FLOAT: usize = 3;
const TEXT: usize = 4;
/// Of all rows: every number below 1000 comes as often as any other.
const SUM: usize = 999 * 500 * (ROWS / 1000);

fn number(number: usize) -> ScalarValue {
    ScalarValue::Int64(Some(number as i64))
}

fn text(row: usize) -> ScalarValue {
    ScalarValue::Utf8View(Some(format!("{row:078}")))
}

/// The number of a row.
fn at(row: usize) -> usize {
    row * 7919 % 1000
}

/// Runs the calls, and compares what they say of the first row and of the last one.
fn ends_within(calls: Vec<(WindowCall, ScalarValue, ScalarValue)>, peers: usize) {
    let what = calls.iter().map(|(call, ..)| call.to_string()).collect::<Vec<_>>().join(", ");
    let inputs = large_schema().fields().len();
    let (only, values): (Vec<_>, Vec<_>) = calls.into_iter().map(|(call, first, last)| (call, (first, last))).unzip();
    let (peak, first, last) = large(only, peers).unwrap_or_else(|error| panic!("{what}: {error}"));
    for (place, (expected_first, expected_last)) in values.into_iter().enumerate() {
        assert_eq!(first[inputs + place], expected_first, "call {place} of {what}");
        assert_eq!(last[inputs + place], expected_last, "call {place} of {what}");
    }
    // What is asked for is given back before the next batch: there is never more than the budget and a part of the
    // slack above it.
    assert!(peak <= BUDGET + BUDGET / 2, "{peak} bytes for {what}");
}

#[test]
fn a_whole_partition_and_what_looks_back_beside_it() {
    let whole = framed(WindowFrameUnits::Rows, preceding(None), following(None));
    let growing = framed(WindowFrameUnits::Rows, preceding(None), WindowFrameBound::CurrentRow);
    let some = framed(WindowFrameUnits::Rows, preceding(Some(10)), preceding(Some(1)));
    let lag = WindowFunction::Shift { offset: 1, default: ScalarValue::Utf8View(None), ignore_nulls: false };
    let last = ROWS - 1;
    ends_within(
        vec![
            (of(sum_udaf(), NUMBER, &whole), number(SUM), number(SUM)),
            (of(count_udaf(), NUMBER, &whole), number(ROWS), number(ROWS)),
            (of(max_udaf(), TEXT, &whole), text(last), text(last)),
            (nth(1, &whole), text(0), text(0)),
            (nth(-1, &whole), text(last), text(last)),
            (of(sum_udaf(), NUMBER, &growing), number(0), number(SUM)),
            (of(max_udaf(), NUMBER, &growing), number(0), number(999)),
            (of(sum_udaf(), NUMBER, &some), ScalarValue::Int64(None), number((last - 10..last).map(at).sum())),
            (call(lag, &[TEXT], &growing), ScalarValue::Utf8View(None), text(last - 1)),
        ],
        1,
    );
    let share = |share: f64| ScalarValue::Float64(Some(share));
    ends_within(
        vec![
            (call(WindowFunction::Ntile(7), &[], &whole), ScalarValue::UInt64(Some(1)), ScalarValue::UInt64(Some(7))),
            (call(WindowFunction::PercentRank, &[], &whole), share(0.0), share(1.0)),
            (call(WindowFunction::CumeDist, &[], &whole), share(1.0 / ROWS as f64), share(1.0)),
        ],
        1,
    );
}

#[test]
fn frames_that_end_with_the_partition() {
    let last = ROWS - 1;
    let sum = |rows: std::ops::RangeInclusive<usize>| number(rows.map(at).sum());
    let max = |rows: std::ops::RangeInclusive<usize>| number(rows.map(at).max().unwrap());
    let rest = framed(WindowFrameUnits::Rows, WindowFrameBound::CurrentRow, following(None));
    let before = framed(WindowFrameUnits::Rows, preceding(Some(3)), following(None));
    let ahead = framed(WindowFrameUnits::Rows, following(Some(3)), following(None));
    ends_within(
        vec![
            (of(sum_udaf(), NUMBER, &rest), number(SUM), number(at(last))),
            (of(count_udaf(), NUMBER, &rest), number(ROWS), number(1)),
            (of(max_udaf(), NUMBER, &rest), number(999), number(at(last))),
            (nth(1, &rest), text(0), text(last)),
            (nth(-1, &rest), text(last), text(last)),
            (of(sum_udaf(), NUMBER, &before), number(SUM), sum(last - 3..=last)),
            (of(max_udaf(), NUMBER, &ahead), number(999), ScalarValue::Int64(None)),
            (nth(-1, &ahead), text(last), ScalarValue::Utf8View(None)),
        ],
        1,
    );
    let peers = framed(WindowFrameUnits::Range, WindowFrameBound::CurrentRow, following(None));
    // The last group has two rows.
    ends_within(
        vec![
            (of(sum_udaf(), NUMBER, &peers), number(SUM), sum(last - 1..=last)),
            (of(max_udaf(), NUMBER, &peers), number(999), max(last - 1..=last)),
            (nth(1, &peers), text(0), text(last - 1)),
            (nth(-1, &peers), text(last), text(last)),
        ],
        3,
    );
}

#[test]
fn frames_with_bounds() {
    let distance = |rows: i64| ScalarValue::Int64(Some(rows));
    let by_value = |before: i64, behind: i64| {
        let (before, behind) = (distance(before), distance(behind));
        framed(WindowFrameUnits::Range, WindowFrameBound::Preceding(before), WindowFrameBound::Following(behind))
    };
    let rows = framed(WindowFrameUnits::Rows, preceding(Some(1000)), following(Some(1000)));
    let groups = framed(WindowFrameUnits::Groups, preceding(Some(5)), following(Some(5)));
    let values = by_value(100, 100);
    let running = framed(WindowFrameUnits::Range, preceding(None), WindowFrameBound::CurrentRow);
    let average = |sum: f64| ScalarValue::Float64(Some(sum / 1001.0));
    ends_within(
        vec![
            (of(count_udaf(), NUMBER, &rows), number(1001), number(1001)),
            // 0 to 999, and 0 or 999 once more.
            (of(avg_udaf(), FLOAT, &rows), average(499_500.0), average(500_499.0)),
            (of(max_udaf(), TEXT, &groups), text(17), text(ROWS - 1)),
            (of(count_udaf(), NUMBER, &groups), number(18), number(17)),
            (of(count_udaf(), NUMBER, &values), number(303), number(302)),
            (nth(1, &values), text(0), text(ROWS - 302)),
            (of(sum_udaf(), NUMBER, &running), number((0..3).map(at).sum()), number(SUM)),
        ],
        3,
    );
}

#[test]
fn frames_of_more_rows_than_memory_has() {
    const LONG: usize = 1_500_000;
    let long = framed(WindowFrameUnits::Rows, preceding(Some(LONG as u64)), WindowFrameBound::CurrentRow);
    let last = ROWS - 1;
    let from = last - LONG;
    let sum = |from: usize| number((from..ROWS).map(at).sum());
    let floats = |from: usize, to: usize| (from..=to).map(|row| (row % 1000) as f64).sum::<f64>();
    let float = |sum: f64| ScalarValue::Float64(Some(sum));
    ends_within(
        vec![
            (of(sum_udaf(), NUMBER, &long), number(at(0)), sum(from)),
            (of(sum_udaf(), FLOAT, &long), float(0.0), float(floats(from, last))),
            (of(count_udaf(), TEXT, &long), number(1), number(LONG + 1)),
            // Every value is the greatest so far, and the least from then on: all may be the frame's least one.
            (of(min_udaf(), ORDER, &long), number(0), number(from)),
            (of(min_udaf(), TEXT, &long), text(0), text(from)),
            (of(max_udaf(), TEXT, &long), text(0), text(last)),
            (nth(1, &long), text(0), text(from)),
            (nth(-1, &long), text(0), text(last)),
        ],
        1,
    );
    let ahead = framed(WindowFrameUnits::Rows, following(Some(1)), following(Some(LONG as u64)));
    let rest = framed(WindowFrameUnits::Rows, WindowFrameBound::CurrentRow, following(None));
    let lag = |offset: i64| WindowFrameBound::Preceding(ScalarValue::UInt64(Some(offset as u64)));
    let far = framed(WindowFrameUnits::Rows, lag(LONG as i64), lag(LONG as i64));
    ends_within(
        vec![
            (of(sum_udaf(), FLOAT, &ahead), float(floats(1, LONG)), ScalarValue::Float64(None)),
            (of(min_udaf(), TEXT, &ahead), text(1), ScalarValue::Utf8View(None)),
            (of(avg_udaf(), FLOAT, &rest), float(499.5), float(999.0)),
            (of(min_udaf(), TEXT, &rest), text(0), text(last)),
            (of(max_udaf(), TEXT, &rest), text(last), text(last)),
            (nth(1, &far), ScalarValue::Utf8View(None), text(last - LONG)),
        ],
        1,
    );
}

/// Rows wait for the end of the partition because of one function, and the others look at what is around each row.
#[test]
fn functions_wait_for_one_that_wants_the_partitions_end() {
    let distance = |rows: i64| ScalarValue::Int64(Some(rows));
    let whole = framed(WindowFrameUnits::Rows, preceding(None), following(None));
    let running = framed(WindowFrameUnits::Range, preceding(None), WindowFrameBound::CurrentRow);
    let groups = framed(WindowFrameUnits::Groups, preceding(Some(5)), following(Some(5)));
    let values = framed(
        WindowFrameUnits::Range,
        WindowFrameBound::Preceding(distance(400_000)),
        WindowFrameBound::Following(distance(10)),
    );
    let lead = WindowFunction::Shift { offset: -1, default: ScalarValue::Utf8View(None), ignore_nulls: false };
    let last = ROWS - 1;
    let float = |sum: f64| ScalarValue::Float64(Some(sum));
    ends_within(
        vec![
            (of(count_udaf(), NUMBER, &whole), number(ROWS), number(ROWS)),
            (of(sum_udaf(), NUMBER, &running), number((0..3).map(at).sum()), number(SUM)),
            (of(sum_udaf(), FLOAT, &running), float(3.0), float(SUM as f64)),
            (of(max_udaf(), TEXT, &groups), text(17), text(last)),
            (of(count_udaf(), NUMBER, &values), number(33), number(1_200_002)),
            (nth(1, &values), text(0), text(last - 1_200_001)),
            (call(lead, &[TEXT], &whole), text(1), ScalarValue::Utf8View(None)),
        ],
        3,
    );
}
