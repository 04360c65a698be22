//! Random joins against the plain one: every join type, key type, physical form, with NULLs, duplicates, skew and empty
//! inputs, driven through the states by hand with several packets.

mod cases;
mod spilled;

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal64Array, Decimal128Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, StringArray, StringViewArray, UInt32Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr};
use diligence_base::seams::Random;
use diligence_memory::{Broker, QueryMemory, Reclaim};
use proptest::prelude::*;

use super::*;
use crate::batch::{Batch, Column};
use crate::expressions::Expr;
use crate::flow::{Flow, OperatorState, Output, Pull, QueryContext};
use crate::plan::{HashJoin, NestedLoopJoin, Node, PairFilter, Plan};
use crate::reference::join::{Join, Row};

/// How a column's values are spread.
#[derive(Clone, Copy, Debug)]
struct Spread {
    values: usize,
    step: i64,
    null_percent: usize,
    ascending: bool,
}

/// The `number`-th value of a type.
fn value_of(logical: &DataType, number: i64) -> ScalarValue {
    match logical {
        DataType::Boolean => ScalarValue::Boolean(Some(number % 2 == 0)),
        DataType::Int32 => ScalarValue::Int32(Some((number % 1_000_003) as i32 - 7)),
        DataType::Int64 => ScalarValue::Int64(Some(number - 3)),
        DataType::UInt64 => ScalarValue::UInt64(Some(u64::MAX - number as u64)),
        // Both zeros come.
        DataType::Float64 => ScalarValue::Float64(Some(if number == 1 { -0.0 } else { number as f64 / 4.0 })),
        DataType::Date32 => ScalarValue::Date32(Some((number % 40_000) as i32)),
        DataType::Decimal128(p, s) => {
            ScalarValue::Decimal128(Some((number as i128 * 10 - 5) % 10i128.pow(*p as u32)), *p, *s)
        }
        DataType::Utf8View | DataType::Utf8 => {
            let text = match number % 3 {
                0 => format!("{number}"),
                1 => format!("twelve bytes{number}"),
                _ => format!("the same long beginning of every string, then {number}"),
            };
            if *logical == DataType::Utf8 { ScalarValue::Utf8(Some(text)) } else { ScalarValue::Utf8View(Some(text)) }
        }
        DataType::List(field) if field.data_type().is_floating() => {
            let float = if number == 1 { -0.0 } else { (number - number % 2) as f64 };
            let list = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([None, Some(float)])]);
            ScalarValue::List(Arc::new(list))
        }
        DataType::List(_) => {
            let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(number as i32), None])]);
            ScalarValue::List(Arc::new(list))
        }
        other => panic!("no test values of {other}"),
    }
}

fn key_types() -> Vec<DataType> {
    vec![
        DataType::Int64,
        DataType::Int32,
        DataType::Utf8View,
        DataType::Decimal128(12, 2),
        DataType::Decimal128(30, 2),
        DataType::Date32,
        DataType::Boolean,
        DataType::UInt64,
        DataType::Float64,
        DataType::Utf8,
        DataType::new_list(DataType::Int32, true),
        DataType::new_list(DataType::Float64, true),
    ]
}

fn random_rows(random: &mut Random, types: &[DataType], spreads: &[Spread], count: usize) -> Vec<Row> {
    (0..count)
        .map(|row| {
            let value = |(logical, spread): (&DataType, &Spread)| {
                if random.chance(spread.null_percent) {
                    return ScalarValue::try_new_null(logical).unwrap();
                }
                let number = match spread.ascending {
                    true => row as i64 * spread.values as i64 / count as i64,
                    // Some keys come often.
                    false => random.below(spread.values).min(random.below(spread.values)) as i64,
                };
                value_of(logical, number.wrapping_mul(spread.step))
            };
            types.iter().zip(spreads).map(value).collect()
        })
        .collect()
}

/// A column of values in one of the physical forms that its logical type may have.
fn column(random: &mut Random, logical: &DataType, values: Vec<ScalarValue>) -> Column {
    let rows = values.len();
    let array: ArrayRef = if values.is_empty() {
        arrow::array::new_empty_array(logical)
    } else {
        ScalarValue::iter_to_array(values).unwrap()
    };
    let form = random.below(4);
    let array = match logical {
        DataType::Decimal128(p, s) if *p <= 18 && form < 2 => cast(&array, &DataType::Decimal64(*p, *s)).unwrap(),
        DataType::Utf8View if form == 0 => {
            cast(&array, &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))).unwrap()
        }
        DataType::Utf8View if form == 1 => {
            // A dictionary larger than the batch.
            let own = cast(&array, &DataType::Utf8).unwrap();
            let texts = arrow::array::AsArray::as_string::<i32>(&own).iter();
            let mut dictionary = vec!["never used", "nor this"];
            dictionary.extend(texts.map(|text| text.unwrap_or("under a NULL")));
            let keys: Int32Array = (0..rows).map(|row| array.is_valid(row).then_some(row as i32 + 2)).collect();
            Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(dictionary))))
        }
        _ => array,
    };
    if !random.chance(50) {
        return Column::flat_array(array);
    }
    // The same rows, picked out of more.
    let mut all: Vec<u32> = (0..rows as u32).collect();
    all.extend((0..rows / 2).map(|_| random.below(rows) as u32));
    for end in (1..all.len()).rev() {
        all.swap(end, random.below(end + 1));
    }
    let places = (0..rows as u32).map(|row| all.iter().position(|&other| other == row).unwrap() as u32);
    let picks = UInt32Array::from_iter_values(places);
    let array = arrow::compute::take(&array, &UInt32Array::from(all), None).unwrap();
    Column::picked(array, Arc::new(picks))
}

fn batches(random: &mut Random, types: &[DataType], rows: &[Row], batch_rows: usize) -> Vec<Batch> {
    let chunks = rows.chunks(batch_rows.max(1));
    chunks
        .map(|chunk| {
            let values = |index: usize| chunk.iter().map(|row| row[index].clone()).collect();
            let columns = types.iter().enumerate().map(|(index, logical)| column(random, logical, values(index)));
            Batch::new(columns.collect(), chunk.len())
        })
        .collect()
}

fn schema_of(types: &[DataType]) -> SchemaRef {
    let fields = types.iter().enumerate();
    Arc::new(Schema::new(
        fields.map(|(i, logical)| Field::new(format!("c{i}"), logical.clone(), true)).collect::<Vec<_>>(),
    ))
}

fn input_of(types: &[DataType]) -> Box<Plan> {
    Box::new(Plan::new(Node::Values { batches: vec![] }, schema_of(types)))
}

/// Sleeps until somebody wakes it, or for a while.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[track_caller]
fn wait() {
    let start = std::time::Instant::now();
    std::thread::park_timeout(std::time::Duration::from_secs(10));
    assert!(start.elapsed().as_secs() < 10, "nobody woke the packet");
}

/// A packet of the probe side, until it ends.
struct ProbePacket(Option<Box<dyn OperatorState>>);

impl ProbePacket {
    /// One call; true if it is to be called again with [`Self::go_on`].
    fn heed(&mut self, flow: Flow, out: &mut Output) -> bool {
        match flow {
            Flow::MoreOutput => true,
            Flow::Wait => {
                wait();
                true
            }
            Flow::NeedInput => false,
            Flow::Done => {
                let Some(mut state) = self.0.take() else { return false };
                assert_eq!(state.finish(out).unwrap(), Flow::Done);
                false
            }
        }
    }

    fn push(&mut self, batch: Batch, out: &mut Output) -> bool {
        let Some(state) = &mut self.0 else { return false };
        let flow = state.push(batch, out).unwrap();
        self.heed(flow, out)
    }

    fn go_on(&mut self, out: &mut Output) -> bool {
        let Some(state) = &mut self.0 else { return false };
        let flow = state.more(out).unwrap();
        self.heed(flow, out)
    }
}

/// Runs a join with several packets in turn, as the stages would.
fn run(
    random: &mut Random,
    parts: &JoinParts,
    context: &QueryContext,
    left: Vec<Batch>,
    right: Vec<Batch>,
    schema: &SchemaRef,
    threads: bool,
) -> Vec<Row> {
    run_giving_back(random, parts, context, left, right, schema, threads, None)
}

/// The same, with a join that is asked for the memory of its table from when `after` batches of both sides have been
/// pushed.
#[allow(clippy::too_many_arguments, reason = "a test's helper")]
fn run_giving_back(
    random: &mut Random,
    parts: &JoinParts,
    context: &QueryContext,
    left: Vec<Batch>,
    right: Vec<Batch>,
    schema: &SchemaRef,
    threads: bool,
    after: Option<usize>,
) -> Vec<Row> {
    use crate::flow::Accept;
    let waker = &Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut pushed = 0;
    let mut count = || {
        if after.is_some_and(|after| pushed >= after) && parts.at_rest.reclaimable_bytes() > 0 {
            // Pending until no packet looks rows up any more.
            if let Poll::Ready(reclaimed) = parts.at_rest.poll_reclaim(1, waker) {
                reclaimed.unwrap();
            }
        }
        pushed += 1;
    };
    let mut builders: Vec<_> = (0..context.packets).map(|_| parts.build.open(context).unwrap()).collect();
    for batch in left {
        let packet = random.below(context.packets);
        count();
        let mut accept = builders[packet].push(batch, waker).unwrap();
        while accept == Accept::Wait {
            wait();
            accept = builders[packet].ready(waker).unwrap();
        }
    }
    for builder in &mut builders {
        while builder.finish(waker).unwrap() == Accept::Wait {
            wait();
        }
    }
    drop(builders);
    let parts_count = parts.build.parts().unwrap();
    if threads {
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        let part = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if part >= parts_count {
                            break;
                        }
                        parts.build.part(part, context).unwrap();
                    }
                });
            }
        });
    } else {
        let mut order: Vec<usize> = (0..parts_count).collect();
        for end in (1..parts_count).rev() {
            order.swap(end, random.below(end + 1));
        }
        order.into_iter().for_each(|part| parts.build.part(part, context).unwrap());
    }
    parts.build.complete().unwrap();

    let mut out = Output::default();
    out.set_waker(waker);
    let mut rows = Vec::new();
    // Rows out of temp space come as they were written; and a pair with its roles reversed is probed with rows of the
    // build side.
    let rows_max = diligence_base::limits::BATCH_ROWS_MAX.max(context.batch_rows);
    let mut take = |out: &mut Output| {
        while let Some(batch) = out.take() {
            assert!(batch.rows() > 0 && batch.rows() <= rows_max, "a batch of {} rows", batch.rows());
            rows.extend(rows_of(&batch, schema));
        }
    };
    let mut probes: Vec<_> =
        (0..context.packets).map(|_| ProbePacket(Some(parts.probe.open(context).unwrap()))).collect();
    for batch in right {
        let packet = random.below(context.packets);
        count();
        let mut more = probes[packet].push(batch, &mut out);
        while more {
            take(&mut out);
            more = probes[packet].go_on(&mut out);
        }
        take(&mut out);
    }
    for mut probe in probes.into_iter().filter_map(|probe| probe.0) {
        assert_eq!(probe.finish(&mut out).unwrap(), Flow::Done);
    }
    for (source, _) in &parts.after_probe {
        let packets = source.packets_max();
        let mut states: Vec<_> = (0..packets.min(context.packets)).map(|_| source.open(context).unwrap()).collect();
        while !states.is_empty() {
            let packet = random.below(states.len());
            match states[packet].pull(waker).unwrap() {
                Pull::Batch(batch) => {
                    assert!(batch.rows() <= rows_max);
                    out.emit(batch);
                }
                Pull::Again => {}
                // Perhaps for another packet.
                Pull::Wait if states.len() > 1 => std::thread::yield_now(),
                Pull::Wait => wait(),
                Pull::Done => drop(states.remove(packet)),
                Pull::NoMemory(error) => panic!("{error}"),
            }
            take(&mut out);
        }
    }
    rows
}

fn rows_of(batch: &Batch, schema: &SchemaRef) -> Vec<Row> {
    let batch = batch.to_record_batch(schema).unwrap();
    let value =
        |row: usize| batch.columns().iter().map(move |column| ScalarValue::try_from_array(column, row).unwrap());
    (0..batch.num_rows()).map(|row| value(row).collect()).collect()
}

fn sorted(rows: Vec<Row>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

fn joined_types(join_type: JoinType, left: &[DataType], right: &[DataType]) -> Vec<DataType> {
    use JoinType::*;
    match join_type {
        Inner | Left | Right | Full => [left, right].concat(),
        LeftSemi | LeftAnti => left.to_vec(),
        RightSemi | RightAnti => right.to_vec(),
        LeftMark => [left, &[DataType::Boolean]].concat(),
        RightMark => [right, &[DataType::Boolean]].concat(),
    }
}

const ALL_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// A condition `left.column <= right.column` on two 64-bit columns.
fn at_most(left: usize, right: usize) -> PairFilter {
    let schema = schema_of(&[DataType::Int64, DataType::Int64]);
    let column = |index: usize| Arc::new(ColumnExpr::new(&format!("c{index}"), index)) as _;
    let condition = Arc::new(BinaryExpr::new(column(0), BinaryOperator::LtEq, column(1)));
    PairFilter {
        expression: Expr::new(condition, &schema).unwrap(),
        columns: vec![(JoinSide::Left, left), (JoinSide::Right, right)],
        schema,
    }
}

fn at_most_judged(column: usize) -> impl Fn(&[ScalarValue], &[ScalarValue]) -> Option<bool> {
    move |left, right| {
        let number = |value: &ScalarValue| if let ScalarValue::Int64(number) = value { *number } else { None };
        Some(number(&left[column])? <= number(&right[column])?)
    }
}

/// How much memory a random join has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Enough,
    /// Too little for most, and temp space.
    Short,
}

/// One random join, the same in both engines.
fn judge(seed: u64, join_type: JoinType, hash: bool, memory: Memory) -> Spilled {
    let mut random = Random::new(seed);
    let random = &mut random;
    let keys = if hash { random.pick(&[1, 1, 1, 2, 3]) } else { 0 };
    let mut types: Vec<DataType> = (0..keys).map(|_| random.pick(&key_types())).collect();
    types.push(DataType::Int64);
    types.push(DataType::Utf8View);
    let null_percent = random.pick(&[0, 0, 15, 100]);
    let ascending = random.chance(30);
    let spreads: Vec<Spread> = types
        .iter()
        .map(|_| Spread {
            values: random.pick(&[2, 20, 400]),
            step: random.pick(&[1, 1, 5, 1_000_000_007, 40_000_000_000_000_001]),
            null_percent: if null_percent == 100 && random.chance(80) { 0 } else { null_percent },
            ascending,
        })
        .collect();
    let sizes: &[usize] = match (hash, memory) {
        (true, Memory::Enough) => &[0, 1, 30, 300],
        (true, Memory::Short) => &[0, 1, 100, 400, 700],
        (false, Memory::Enough) => &[0, 1, 12, 40],
        (false, Memory::Short) => &[0, 1, 60, 200],
    };
    let (left_count, right_count) = (random.pick(sizes), random.pick(sizes));
    let left = random_rows(random, &types, &spreads, left_count);
    let right = random_rows(random, &types, &spreads, right_count);

    let null_equal = hash && random.chance(30);
    let with_condition = random.chance(40);
    let null_aware = hash && join_type == JoinType::LeftAnti && keys == 1 && !null_equal && random.chance(70);
    let judged = at_most_judged(keys);
    let on: Vec<(usize, usize)> = (0..keys).map(|key| (key, key)).collect();
    let judge = Join {
        join_type,
        on: &on,
        null_equal,
        null_aware,
        condition: with_condition.then_some(&judged),
        types: (&types, &types),
    };
    let mut expected = judge.run(&left, &right);

    let all_types = joined_types(join_type, &types, &types);
    let projection = random.chance(50).then(|| {
        let columns = random.below(all_types.len() + 2);
        (0..columns).map(|_| random.below(all_types.len())).collect::<Vec<_>>()
    });
    let out_types = match &projection {
        Some(projection) => projection.iter().map(|&column| all_types[column].clone()).collect(),
        None => all_types,
    };
    if let Some(projection) = &projection {
        for row in &mut expected {
            *row = projection.iter().map(|&column| row[column].clone()).collect();
        }
    }
    let schema = schema_of(&out_types);
    let filter = with_condition.then(|| at_most(keys, keys));
    let runtime_filter = RuntimeFilter::new();
    let filter_key = random.below(keys);
    let parts = if hash {
        let key = |index: usize| Expr::column(index, &schema_of(&types)).unwrap();
        let join = HashJoin {
            left: input_of(&types),
            right: input_of(&types),
            on: (0..keys).map(|index| (key(index), key(index))).collect(),
            filter,
            join_type,
            null_equality: if null_equal { NullEquality::NullEqualsNull } else { NullEquality::NullEqualsNothing },
            null_aware,
            projection,
            runtime_filters: vec![],
        };
        hash_join(&join, &schema, &[(runtime_filter.clone(), filter_key)]).unwrap()
    } else {
        let join = NestedLoopJoin { left: input_of(&types), right: input_of(&types), filter, join_type, projection };
        nested_loop_join(&join, &schema).unwrap()
    };
    let budget = match memory {
        Memory::Enough => 1 << 30,
        Memory::Short if hash => 64_000 + random.below(100_000),
        Memory::Short => 48_000 + random.below(20_000),
    };
    let broker = Broker::new(budget);
    let temp = (memory == Memory::Short).then(|| spilled::temp_space(random));
    let context = QueryContext {
        memory: broker.account(diligence_base::ids::QueryId(7), None),
        temp: temp.clone(),
        batch_rows: random.pick(&[1, 3, 64, 8192]),
        packets: 1 + random.below(4),
    };
    let batch_rows = random.pick(&[1, 7, 100]);
    let left_batches = batches(random, &types, &left, batch_rows);
    let right_batches = batches(random, &types, &right, batch_rows);
    let threads = random.chance(20);
    let batch_count = left_batches.len() + right_batches.len();
    let give_back = (memory == Memory::Short && random.chance(30)).then(|| random.below(batch_count + 1));
    let rows =
        run_giving_back(random, &parts, &context, left_batches, right_batches.clone(), &schema, threads, give_back);
    let spilled = parts.spilled();
    let context = format!(
        "seed {seed}, {join_type}, hash {hash}, condition {with_condition}, null-aware {null_aware}, null-equal {null_equal}, \
         {left_count} x {right_count} rows, budget {budget}, {give_back:?}, {spilled:?}"
    );
    let (rows, expected) = (sorted(rows), sorted(expected));
    let differs = rows.iter().zip(&expected).find(|(row, expected)| row != expected);
    assert_eq!(differs, None, "{context}");
    assert_eq!(rows.len(), expected.len(), "{context}");

    // A probe row that the runtime filter drops has no partner.
    if hash && !null_aware {
        let row_filter = runtime_filter.row_filter(filter_key);
        let has_partner = Join { join_type: JoinType::RightMark, condition: None, ..judge }.run(&left, &right);
        let mut has_partner = has_partner.iter();
        for batch in &right_batches {
            let kept = row_filter.keep(&[batch.flat(filter_key).unwrap()]).unwrap();
            for (kept, row) in kept.values().iter().zip(&mut has_partner) {
                assert!(
                    kept || row.last() == Some(&ScalarValue::Boolean(Some(false))),
                    "{context}: {row:?} was dropped"
                );
            }
        }
        if spilled.partitions == 0 {
            assert_eq!(runtime_filter.is_empty_build(), left.iter().all(|row| !can_match(&row[..keys], null_equal)));
        }
    }
    drop(parts);
    if let Some(temp) = &temp {
        spilled::is_left_empty(temp, &broker, &context);
    }
    assert_eq!(broker.reserved_bytes(), 0, "{context}: memory was kept");
    spilled
}

fn can_match(keys: &[ScalarValue], null_equal: bool) -> bool {
    null_equal || keys.iter().all(|key| !key.is_null())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hash_joins_agree_with_the_judge(seed: u64) {
        for join_type in ALL_TYPES {
            judge(seed, join_type, true, Memory::Enough);
        }
    }

    #[test]
    fn nested_loop_joins_agree_with_the_judge(seed: u64) {
        for join_type in ALL_TYPES {
            judge(seed, join_type, false, Memory::Enough);
        }
    }
}
