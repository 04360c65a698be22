//! Windows against the slow judge, whatever the frames, the types, and however rows are cut into batches; and what they
//! hold.

mod large_partition;
mod moments;
mod spilled;

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::bit_and_or_xor::bit_xor_udaf;
use datafusion_functions_aggregate::bool_and_or::bool_or_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::Column;
use diligence_base::ErrorKind;
use diligence_base::Result;
use diligence_disk::{TempOptions, TempSpace, block_on};
use diligence_memory::QueryMemory;
use proptest::prelude::*;
use proptest::sample::select;

use super::source::{Functions, WindowSource, Work};

use crate::batch::{Batch, Column as BatchColumn, compacted};
use crate::exchange::port::port;
use crate::expressions::Expr;
use crate::flow::{Pull, QueryContext, Source};
use crate::plan::{Exclusion, Node, Plan, SortKey, Window, WindowCall, WindowFunction};
use crate::reference::sort::{Key, Row, rows_of, sort};
use crate::reference::window::{Call, evaluate};

const PARTITION: usize = 0;
const ORDER: usize = 1;
const NUMBER: usize = 2;
const FLOAT: usize = 3;
const DECIMAL: usize = 4;
const TEXT: usize = 5;
const CONDITION: usize = 6;

fn schema(order: &DataType) -> SchemaRef {
    let fields = [
        ("partition", DataType::Int64),
        ("order", order.clone()),
        ("number", DataType::Int64),
        ("float", DataType::Float64),
        ("decimal", DataType::Decimal128(12, 2)),
        ("text", DataType::Utf8View),
        ("condition", DataType::Boolean),
    ];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

/// One row by small numbers, NULL where there is none.
type Seed = (u8, Option<i8>, Option<i8>, Option<i8>);

/// Rows of all types out of small numbers, in the order of partitions and keys.
fn rows(seeds: &[Seed], schema: &SchemaRef, keys: &[Key]) -> Vec<Row> {
    let numbers = |of: fn(&Seed) -> Option<i64>| Int64Array::from_iter(seeds.iter().map(of));
    let as_type = |array: &dyn arrow::array::Array, data_type: &DataType| cast(array, data_type).unwrap();
    let small = numbers(|seed| seed.2.map(i64::from));
    let order: ArrayRef = Arc::new(numbers(|seed| seed.1.map(i64::from)));
    let order = match schema.field(ORDER).data_type() {
        // Casting wraps nothing around: what is negative has to be lifted.
        DataType::UInt8 => as_type(&numbers(|seed| seed.1.map(|key| i64::from(key) + 8)), &DataType::UInt8),
        DataType::Date32 => as_type(&as_type(&order, &DataType::Int32), &DataType::Date32),
        other => as_type(&order, other),
    };
    let texts = seeds.iter().map(|seed| seed.3.map(|text| format!("text of some length {text}")));
    let floats = seeds.iter().map(|seed| seed.3.map(|float| f64::from(float) / 4.0));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(numbers(|seed| Some(i64::from(seed.0)))),
        order,
        Arc::new(small.clone()),
        Arc::new(Float64Array::from_iter(floats)),
        as_type(&small, &DataType::Decimal128(12, 2)),
        Arc::new(StringViewArray::from_iter(texts)),
        Arc::new(BooleanArray::from_iter(seeds.iter().map(|seed| seed.3.map(|number| number % 2 == 0)))),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let mut all = vec![(PARTITION, SortOptions::default())];
    all.extend(keys);
    sort(&rows_of(&[batch]).unwrap(), &all, 0, None)
}

fn batches(rows: &[Row], schema: &SchemaRef, sizes: &[usize]) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    let mut from = 0;
    for size in sizes.iter().cycle() {
        if from == rows.len() {
            break;
        }
        let part = &rows[from..rows.len().min(from + size)];
        from += part.len();
        let column = |column: usize| ScalarValue::iter_to_array(part.iter().map(|row| row[column].clone())).unwrap();
        let columns = (0..schema.fields().len()).map(column).collect();
        batches.push(RecordBatch::try_new(schema.clone(), columns).unwrap());
    }
    batches
}

fn column(index: usize, schema: &SchemaRef) -> Expr {
    Expr::column(index, schema).unwrap()
}

fn aggregate(function: Arc<AggregateUDF>, arguments: &[usize], distinct: bool, schema: &SchemaRef) -> WindowFunction {
    let columns = arguments
        .iter()
        .map(|&index| Arc::new(Column::new(schema.field(index).name(), index)) as Arc<dyn PhysicalExpr>);
    let builder = AggregateExprBuilder::new(function, columns.collect()).schema(schema.clone()).alias("aggregate");
    WindowFunction::Aggregate(Arc::new(builder.with_distinct(distinct).build().unwrap()))
}

fn result_type(call: &WindowCall) -> DataType {
    match &call.function {
        WindowFunction::PercentRank | WindowFunction::CumeDist => DataType::Float64,
        WindowFunction::Shift { .. }
        | WindowFunction::Nth { .. }
        | WindowFunction::ShiftOf { .. }
        | WindowFunction::NthOf { .. } => call.arguments[0].data_type().clone(),
        WindowFunction::Aggregate(function) => function.field().data_type().clone(),
        _ => DataType::UInt64,
    }
}

fn window(calls: Vec<WindowCall>, keys: &[Key], schema: &SchemaRef) -> (Window, SchemaRef) {
    let mut fields = schema.fields().to_vec();
    for (number, call) in calls.iter().enumerate() {
        fields.push(Arc::new(Field::new(format!("call {number}"), result_type(call), true)));
    }
    let key = |&(index, options): &Key| SortKey { expression: column(index, schema), options };
    let window = Window {
        input: Box::new(Plan::new(Node::Values { batches: vec![] }, schema.clone())),
        partition_by: vec![column(PARTITION, schema)],
        order_by: keys.iter().map(key).collect(),
        calls,
    };
    (window, Arc::new(Schema::new(fields)))
}

/// Runs a window over batches.
fn run(window: &Window, output: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let memory = QueryMemory::unbounded();
    let out = run_within(window, output, batches, &memory, None)?;
    assert_eq!(memory.reserved_bytes(), 0);
    Ok(out)
}

fn run_within(
    window: &Window,
    output: &SchemaRef,
    batches: &[RecordBatch],
    memory: &QueryMemory,
    temp: Option<TempSpace>,
) -> Result<Vec<RecordBatch>> {
    let mut work = Work::new(Functions::new(window, output)?, memory, temp);
    let mut out = Vec::new();
    for batch in batches {
        push(&mut work, &Batch::from_record_batch(batch))?;
        while let Some(batch) = next(&mut work)? {
            out.push(on_its_own(&batch, output)?);
        }
    }
    work.close();
    while let Some(batch) = next(&mut work)? {
        out.push(on_its_own(&batch, output)?);
    }
    Ok(out)
}

/// A batch that keeps nothing alive: no cluster of temp space, either.
fn on_its_own(batch: &Batch, schema: &SchemaRef) -> Result<RecordBatch> {
    let batch = batch.to_record_batch(schema)?;
    let columns = batch.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns).unwrap())
}

fn push(work: &mut Work, batch: &Batch) -> Result<()> {
    block_on(|waker| work.poll_push(batch, waker))
}

fn next(work: &mut Work) -> Result<Option<Batch>> {
    block_on(|waker| work.poll_next(waker))
}

/// Compares every call with the judge.
fn check(window: &Window, output: &SchemaRef, rows: &[Row], keys: &[Key], sizes: &[usize]) {
    let seen = run(window, output, &batches(rows, &window.input.schema, sizes)).unwrap();
    compare(window, &rows_of(&seen).unwrap(), rows, keys);
}

fn compare(window: &Window, seen: &[Row], rows: &[Row], keys: &[Key]) {
    let inputs = window.input.schema.fields().len();
    assert_eq!(seen.len(), rows.len());
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
        let expected = partitions.flat_map(|partition| evaluate(partition, keys, &judged).unwrap());
        for (row, (expected, seen)) in expected.zip(seen).enumerate() {
            assert_eq!(seen[..inputs], rows[row][..], "row {row} itself");
            assert_eq!(seen[inputs + number], expected, "{call}, row {row}, {:?}", rows[row]);
        }
    }
}

fn offset(order: &DataType, distance: u8) -> ScalarValue {
    match order {
        DataType::Date32 | DataType::Timestamp(..) => ScalarValue::new_interval_mdn(0, i32::from(distance), 0),
        other => ScalarValue::Int64(Some(i64::from(distance))).cast_to(other).unwrap(),
    }
}

fn frames(order: DataType) -> impl Strategy<Value = WindowFrame> {
    let units =
        prop_oneof![Just(WindowFrameUnits::Rows), Just(WindowFrameUnits::Range), Just(WindowFrameUnits::Groups)];
    (units, 0..5_u8, 0..5_u8, 0..5_u8, 0..5_u8).prop_map(move |(units, start, end, from, to)| {
        let offset = |distance| match units {
            WindowFrameUnits::Range => offset(&order, distance),
            _ => ScalarValue::UInt64(Some(u64::from(distance))),
        };
        let unbounded = ScalarValue::UInt64(None);
        let start = match start {
            0 | 1 => WindowFrameBound::Preceding(unbounded.clone()),
            2 => WindowFrameBound::Preceding(offset(from)),
            3 => WindowFrameBound::CurrentRow,
            _ => WindowFrameBound::Following(offset(from)),
        };
        let end = match end {
            0 | 1 => WindowFrameBound::Following(unbounded),
            2 => WindowFrameBound::Following(offset(to)),
            3 => WindowFrameBound::CurrentRow,
            _ => WindowFrameBound::Preceding(offset(to)),
        };
        WindowFrame::new_bounds(units, start, end)
    })
}

fn functions(schema: &SchemaRef) -> Vec<(WindowFunction, Vec<usize>)> {
    let mut all = vec![
        (WindowFunction::RowNumber, vec![]),
        (WindowFunction::Rank, vec![]),
        (WindowFunction::DenseRank, vec![]),
        (WindowFunction::PercentRank, vec![]),
        (WindowFunction::CumeDist, vec![]),
        (WindowFunction::Ntile(3), vec![]),
    ];
    for offset in [-3, -1, 0, 1, 2] {
        for (argument, default) in [(NUMBER, ScalarValue::Int64(Some(-99))), (TEXT, ScalarValue::Utf8View(None))] {
            let ignore_nulls = offset % 2 != 0 || argument == TEXT;
            let shift = WindowFunction::Shift { offset, default, ignore_nulls };
            all.push((shift.clone(), vec![argument]));
            if let WindowFunction::Shift { offset, default, .. } = shift {
                all.push((WindowFunction::Shift { offset, default, ignore_nulls: false }, vec![argument]));
            }
        }
    }
    for nth in [-2, -1, 0, 1, 2, 3] {
        for ignore_nulls in [false, true] {
            all.push((WindowFunction::Nth { nth, ignore_nulls }, vec![TEXT]));
        }
    }
    for is_ahead in [false, true] {
        for ignore_nulls in [false, true] {
            let shift = WindowFunction::ShiftOf { is_ahead, ignore_nulls };
            all.push((shift.clone(), vec![TEXT, NUMBER]));
            all.push((shift, vec![TEXT, NUMBER, TEXT]));
        }
    }
    let mut add = |function: Arc<AggregateUDF>, arguments: &[usize], distinct| {
        all.push((aggregate(function, arguments, distinct, schema), arguments.to_vec()));
    };
    for argument in [NUMBER, FLOAT, DECIMAL] {
        add(sum_udaf(), &[argument], false);
        add(min_udaf(), &[argument], false);
        add(max_udaf(), &[argument], false);
        add(count_udaf(), &[argument], false);
        if argument != NUMBER {
            add(avg_udaf(), &[argument], false);
        }
    }
    add(max_udaf(), &[TEXT], false);
    add(count_udaf(), &[NUMBER], true);
    add(array_agg_udaf(), &[NUMBER], false);
    add(bit_xor_udaf(), &[NUMBER], false);
    add(bool_or_udaf(), &[CONDITION], false);
    all
}

fn order_types() -> impl Strategy<Value = DataType> {
    select(vec![
        DataType::Int64,
        DataType::Int8,
        DataType::UInt8,
        DataType::Float64,
        DataType::Decimal128(12, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ])
}

fn small() -> impl Strategy<Value = Option<i8>> {
    prop::option::weighted(0.8, -8..8_i8)
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    prop::collection::vec((0..4_u8, small(), small(), small()), 0..40)
}

fn exclusions() -> impl Strategy<Value = Exclusion> {
    select(vec![Exclusion::NoOthers, Exclusion::NoOthers, Exclusion::CurrentRow, Exclusion::Group, Exclusion::Ties])
}

fn options() -> impl Strategy<Value = SortOptions> {
    (any::<bool>(), any::<bool>()).prop_map(|(descending, nulls_first)| SortOptions { descending, nulls_first })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_function_over_any_frame_is_what_the_judge_says(
        (order, frames) in order_types().prop_flat_map(|order| {
            (Just(order.clone()), prop::collection::vec(frames(order), 1..4))
        }),
        seeds in seeds(), options in options(), filtered in any::<bool>(), whole in any::<bool>(),
        sizes in prop::collection::vec(1..12_usize, 1..4), excludes in prop::collection::vec(exclusions(), 1..4),
    ) {
        let schema = schema(&order);
        let keys = [(ORDER, options)];
        let mut calls = Vec::new();
        for (number, (function, arguments)) in functions(&schema).into_iter().enumerate() {
            let is_aggregate = matches!(function, WindowFunction::Aggregate(_));
            calls.push(WindowCall {
                function,
                arguments: arguments.into_iter().map(|index| column(index, &schema)).collect(),
                filter: (filtered && is_aggregate).then(|| column(CONDITION, &schema)),
                frame: Arc::new(frames[number % frames.len()].clone()),
                excludes: excludes[number % excludes.len()],
            });
        }
        let rows = rows(&seeds, &schema, &keys);
        let (window, output) = window(calls, &keys, &schema);
        let sizes = if whole { vec![usize::MAX / 2] } else { sizes };
        check(&window, &output, &rows, &keys, &sizes);
    }

    /// Without an order all rows of a partition are peers.
    #[test]
    fn without_an_order_frames_are_whole_partitions(
        seeds in seeds(), sizes in prop::collection::vec(1..12_usize, 1..4), filtered in any::<bool>(),
    ) {
        let schema = schema(&DataType::Int64);
        let frame = Arc::new(WindowFrame::new_bounds(
            WindowFrameUnits::Range,
            WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        ));
        let calls = functions(&schema).into_iter().map(|(function, arguments)| WindowCall {
            filter: (filtered && matches!(function, WindowFunction::Aggregate(_))).then(|| column(CONDITION, &schema)),
            function,
            arguments: arguments.into_iter().map(|index| column(index, &schema)).collect(),
            frame: frame.clone(),
            excludes: Exclusion::NoOthers,
        });
        let (window, output) = window(calls.collect(), &[], &schema);
        check(&window, &output, &rows(&seeds, &schema, &[]), &[], &sizes);
    }
}

fn rows_frame(start: WindowFrameBound, end: WindowFrameBound) -> Arc<WindowFrame> {
    Arc::new(WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end))
}

fn preceding(rows: Option<u64>) -> WindowFrameBound {
    WindowFrameBound::Preceding(ScalarValue::UInt64(rows))
}

fn following(rows: Option<u64>) -> WindowFrameBound {
    WindowFrameBound::Following(ScalarValue::UInt64(rows))
}

/// A batch of one partition, with as many rows.
fn many(schema: &SchemaRef, first: i64, count: usize) -> Batch {
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let numbers: ArrayRef = Arc::new(match index {
            PARTITION => Int64Array::from(vec![1; count]),
            _ => Int64Array::from_iter_values(first..first + count as i64),
        });
        BatchColumn::flat_array(cast(&numbers, field.data_type()).unwrap())
    });
    Batch::new(columns.collect(), count)
}

/// The most bytes held, and the most rows, while 50 batches of one partition come.
fn held(calls: Vec<WindowCall>, schema: &SchemaRef) -> (usize, usize) {
    let (window, output) = window(calls, &[(ORDER, SortOptions::default())], schema);
    let memory = QueryMemory::unbounded();
    let mut work = Work::new(Functions::new(&window, &output).unwrap(), &memory, None);
    let (mut waiting, mut rows) = (0, 0);
    for batch in 0..50 {
        push(&mut work, &many(schema, batch * 1000, 1000)).unwrap();
        waiting += 1000;
        while let Some(batch) = next(&mut work).unwrap() {
            waiting -= batch.rows();
        }
        rows = rows.max(waiting);
    }
    (memory.peak_bytes(), rows)
}

#[test]
fn functions_with_a_bounded_frame_hold_bounded_memory() {
    let schema = schema(&DataType::Int64);
    let batch = many(&schema, 0, 1000).bytes();
    let frames = [
        (rows_frame(preceding(None), WindowFrameBound::CurrentRow), 0),
        (rows_frame(preceding(Some(100)), WindowFrameBound::CurrentRow), 0),
        (rows_frame(preceding(Some(100)), following(Some(10))), 1000),
        (rows_frame(following(Some(1)), following(Some(1500))), 2000),
    ];
    for (function, arguments) in functions(&schema) {
        let name = |function: &WindowFunction| match function {
            WindowFunction::Aggregate(function) => function.fun().name().to_owned(),
            other => format!("{other:?}"),
        };
        // What these hold is their value.
        let grows = matches!(name(&function).as_str(), "array_agg")
            || matches!(&function, WindowFunction::Aggregate(function) if function.is_distinct());
        let needs_all = match &function {
            WindowFunction::PercentRank | WindowFunction::CumeDist | WindowFunction::Ntile(_) => true,
            // Each row says how far it looks, so it may look anywhere in the partition.
            WindowFunction::ShiftOf { .. } => true,
            WindowFunction::Shift { offset, ignore_nulls, .. } => *offset < 0 && *ignore_nulls,
            _ => false,
        };
        if grows || needs_all {
            continue;
        }
        for (frame, ahead) in &frames {
            let call = WindowCall {
                function: function.clone(),
                arguments: arguments.iter().map(|&index| column(index, &schema)).collect(),
                filter: None,
                frame: frame.clone(),
                excludes: Exclusion::NoOthers,
            };
            let (bytes, rows) = held(vec![call], &schema);
            let looks_ahead = match &function {
                WindowFunction::Shift { offset, .. } if *offset < 0 => 1000,
                WindowFunction::Nth { .. } | WindowFunction::Aggregate(_) => *ahead,
                _ => 0,
            };
            assert!(rows <= looks_ahead, "{} over {frame} holds {rows} rows", name(&function));
            assert!(bytes <= 12 * batch, "{} over {frame} holds {bytes} bytes", name(&function));
        }
    }
}

#[test]
fn what_one_function_wants_to_know_is_not_kept_for_another() {
    let schema = schema(&DataType::Int64);
    let call = |function: WindowFunction, arguments: &[usize]| WindowCall {
        function,
        arguments: arguments.iter().map(|&index| column(index, &schema)).collect(),
        filter: None,
        frame: rows_frame(preceding(Some(3)), WindowFrameBound::CurrentRow),
        excludes: Exclusion::NoOthers,
    };
    let sum = aggregate(sum_udaf(), &[NUMBER], false, &schema);
    let calls = vec![call(WindowFunction::Rank, &[]), call(WindowFunction::RowNumber, &[]), call(sum, &[NUMBER])];
    let (bytes, rows) = held(calls, &schema);
    assert!(rows == 0 && bytes < 6 * many(&schema, 0, 1000).bytes(), "{bytes} bytes, {rows} rows");
}

#[test]
fn a_partition_that_must_wait_is_reserved_and_ends_with_a_refusal() {
    let schema = schema(&DataType::Int64);
    let call = WindowCall {
        function: aggregate(sum_udaf(), &[NUMBER], false, &schema),
        arguments: vec![column(NUMBER, &schema)],
        filter: None,
        frame: rows_frame(preceding(None), following(None)),
        excludes: Exclusion::NoOthers,
    };
    let (bytes, rows) = held(vec![call.clone()], &schema);
    let payload = many(&schema, 0, 1000).bytes();
    assert_eq!(rows, 50_000);
    // The rows themselves, and hardly anything else.
    assert!((50 * payload..55 * payload).contains(&bytes), "{bytes} bytes");
    let (window, output) = window(vec![call], &[(ORDER, SortOptions::default())], &schema);
    let broker = diligence_memory::Broker::new(10 * payload);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let mut work = Work::new(Functions::new(&window, &output).unwrap(), &memory, None);
    let refusal = (0..50).find_map(|batch| push(&mut work, &many(&schema, batch * 1000, 1000)).err()).unwrap();
    assert_eq!(refusal.kind(), ErrorKind::Resource);
    drop(work);
    assert_eq!(broker.reserved_bytes(), 0);
}

/// Whoever the rows come from may have all of the memory for a while.
#[test]
fn a_batch_that_is_refused_memory_waits_and_is_not_lost() {
    let schema = schema(&DataType::Int64);
    let call = WindowCall {
        function: WindowFunction::RowNumber,
        arguments: vec![],
        filter: None,
        frame: rows_frame(preceding(None), WindowFrameBound::CurrentRow),
        excludes: Exclusion::NoOthers,
    };
    let (window, output) = window(vec![call], &[(ORDER, SortOptions::default())], &schema);
    let broker = diligence_memory::Broker::new(1 << 20);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let (sender, receiver) = port(4);
    let source = WindowSource::new(&window, &output, receiver).unwrap();
    let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: 1000, packets: 1 };
    let mut state = source.open(&context).unwrap();
    sender.send(many(&schema, 0, 1000), Waker::noop());
    assert!(matches!(state.pull(Waker::noop()).unwrap(), Pull::Again));
    let mut sort = memory.reservation("Sort");
    sort.overdraw(2 << 20);
    for _ in 0..3 {
        let pull = state.pull(Waker::noop()).unwrap();
        assert!(matches!(&pull, Pull::NoMemory(error) if error.to_string().contains("a window needs")), "{pull:?}");
    }
    drop((sort, sender));
    let mut rows = 0;
    loop {
        match state.pull(Waker::noop()).unwrap() {
            Pull::Batch(batch) => rows += batch.rows(),
            Pull::Again => {}
            Pull::Done => break,
            other => panic!("{other:?}"),
        }
    }
    drop(state);
    assert_eq!((rows, broker.reserved_bytes()), (1000, 0));
}

#[test]
fn a_sum_that_does_not_fit_is_an_error_and_one_that_does_is_not() {
    let fields = vec![Field::new("partition", DataType::Int64, true), Field::new("n", DataType::Int64, true)];
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let sums = |values: Vec<i64>, frame: Arc<WindowFrame>| {
        let call = WindowCall {
            function: aggregate(sum_udaf(), &[1], false, &schema),
            arguments: vec![column(1, &schema)],
            filter: None,
            frame,
            excludes: Exclusion::NoOthers,
        };
        let (window, output) = window(vec![call], &[], &schema);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![1; values.len()])), Arc::new(Int64Array::from(values))];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let rows = rows_of(&run(&window, &output, &[batch])?).unwrap();
        Ok(rows.into_iter().map(|row| row[2].clone()).collect::<Vec<_>>())
    };
    let pairs = rows_frame(preceding(Some(1)), WindowFrameBound::CurrentRow);
    let number = |number: i64| ScalarValue::Int64(Some(number));
    let turns = vec![i64::MAX, -1, i64::MIN + 2, -1];
    let expected = vec![number(i64::MAX), number(i64::MAX - 1), number(i64::MIN + 1), number(i64::MIN + 1)];
    assert_eq!(sums(turns, pairs.clone()).unwrap(), expected);
    let error: diligence_base::Error = sums(vec![i64::MAX, 1], pairs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.message().contains("arithmetic overflow: a sum does not fit Int64"), "{error}");
}

#[test]
fn decimals_of_all_digits_are_summed_up_exactly() {
    let decimal = DataType::Decimal128(38, 0);
    let fields = vec![Field::new("partition", DataType::Int64, true), Field::new("d", decimal.clone(), true)];
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let most = 10_i128.pow(38) - 1;
    let call = WindowCall {
        function: aggregate(sum_udaf(), &[1], false, &schema),
        arguments: vec![column(1, &schema)],
        filter: None,
        frame: rows_frame(preceding(Some(1)), WindowFrameBound::CurrentRow),
        excludes: Exclusion::NoOthers,
    };
    let (window, output) = window(vec![call], &[], &schema);
    let rows = |values: &[i128]| {
        let decimals = Decimal128Array::from(values.to_vec()).with_data_type(decimal.clone());
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1; values.len()])), Arc::new(decimals)];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    // The first ones are small: sums change their width on the way.
    let batches = [rows(&[7]), rows(&[most - 10, -most, most]), rows(&[-5, 5 - most])];
    let seen = rows_of(&run(&window, &output, &batches).unwrap()).unwrap();
    let expected = [7, most - 3, -10, 0, most - 5, -most];
    for (row, expected) in seen.iter().zip(expected) {
        assert_eq!(row[2], ScalarValue::Decimal128(Some(expected), 38, 0));
    }
    assert_eq!(seen.len(), expected.len());
    let error = run(&window, &output, &[rows(&[most, 1])]).unwrap_err();
    assert!(error.message().contains("does not fit Decimal128(38, 0)"), "{error}");
}
