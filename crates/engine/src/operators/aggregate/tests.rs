//! Proves the aggregate against the slow judge: random rows in random physical forms, dealt to several packets, with
//! tables so small that they are flushed all the time.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::*;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::*;
use datafusion_common::ScalarValue;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate as functions;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{Column as ColumnExpr, Literal};
use datafusion_physical_expr::{PhysicalExpr, PhysicalSortExpr};
use diligence_base::Result;
use diligence_base::seams::Random;
use diligence_memory::QueryMemory;
use proptest::prelude::*;

use super::groups::Tuning;
use super::{AggregateParts, aggregate, build};
use crate::batch::{Batch, Column};
use crate::expressions::Expr;
use crate::flow::{Accept, Pull, QueryContext};
use crate::plan::{self, AggregateCall};
use crate::reference::aggregate as judge;

mod budgets;
mod inputs;
mod spilled;

use inputs::*;

fn column_expr(name: &str) -> Arc<dyn PhysicalExpr> {
    Arc::new(ColumnExpr::new_with_schema(name, &input_schema()).unwrap())
}

fn expr(name: &str) -> Expr {
    Expr::new(column_expr(name), &input_schema()).unwrap()
}

struct CallBuilder {
    function: Arc<AggregateUDF>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    distinct: bool,
    filter: Option<Expr>,
    order: Vec<PhysicalSortExpr>,
}

fn call(function: Arc<AggregateUDF>, arguments: &[&str]) -> CallBuilder {
    let arguments = arguments.iter().map(|name| column_expr(name)).collect();
    CallBuilder { function, arguments, distinct: false, filter: None, order: Vec::new() }
}

fn count_star() -> CallBuilder {
    let one: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int64(Some(1))));
    CallBuilder { arguments: vec![one], ..call(functions::count::count_udaf(), &[]) }
}

impl CallBuilder {
    fn distinct(mut self) -> Self {
        self.distinct = true;
        self
    }

    fn filtered(mut self) -> Self {
        self.filter = Some(expr("flag"));
        self
    }

    fn ordered_by(mut self, names: &[&str]) -> Self {
        let options = SortOptions::default();
        self.order = names.iter().map(|name| PhysicalSortExpr { expr: column_expr(name), options }).collect();
        self
    }

    fn build(self) -> AggregateCall {
        let schema = input_schema();
        let arguments = self.arguments.iter().map(|a| Expr::new(a.clone(), &schema).unwrap()).collect();
        let function = AggregateExprBuilder::new(self.function, self.arguments)
            .schema(schema)
            .alias("result")
            .with_distinct(self.distinct)
            .order_by(self.order)
            .build()
            .unwrap();
        AggregateCall { function: Arc::new(function), arguments, filter: self.filter }
    }
}

/// Everything that has a state of its own.
fn native_calls() -> Vec<AggregateCall> {
    use functions::{average::avg_udaf, count::count_udaf, min_max::*, sum::sum_udaf};
    vec![
        count_star(),
        count_star().filtered(),
        call(count_udaf(), &["amount"]),
        call(count_udaf(), &["text"]).filtered(),
        call(sum_udaf(), &["amount"]),
        call(avg_udaf(), &["amount"]),
        call(sum_udaf(), &["amount"]).filtered(),
        call(avg_udaf(), &["amount"]).filtered(),
        call(sum_udaf(), &["number"]),
        call(sum_udaf(), &["unsigned"]),
        call(sum_udaf(), &["float"]),
        call(avg_udaf(), &["float"]),
        call(sum_udaf(), &["wide"]),
        call(min_udaf(), &["amount"]),
        call(max_udaf(), &["number"]),
        call(min_udaf(), &["float"]),
        call(max_udaf(), &["float_key"]),
        call(min_udaf(), &["date"]).filtered(),
        call(max_udaf(), &["wide"]),
        call(min_udaf(), &["text"]),
        call(max_udaf(), &["text"]),
        call(max_udaf(), &["utf8"]).filtered(),
        call(functions::bit_and_or_xor::bit_or_udaf(), &["unsigned"]),
        call(functions::bit_and_or_xor::bit_or_udaf(), &["unsigned"]).filtered(),
    ]
    .into_iter()
    .map(CallBuilder::build)
    .collect()
}

fn distinct_calls() -> Vec<AggregateCall> {
    use functions::{average::avg_udaf, count::count_udaf, sum::sum_udaf};
    vec![
        call(count_udaf(), &["text"]).distinct(),
        call(count_udaf(), &["utf8"]).distinct().filtered(),
        call(count_udaf(), &["int"]).distinct(),
        call(count_udaf(), &["float_key"]).distinct(),
        call(count_udaf(), &["wide"]).distinct(),
        call(count_udaf(), &["list"]).distinct(),
        call(count_udaf(), &["amount"]).distinct(),
        call(sum_udaf(), &["amount"]).distinct(),
        call(avg_udaf(), &["amount"]).distinct().filtered(),
        call(sum_udaf(), &["number"]).distinct(),
        call(sum_udaf(), &["float"]).distinct(),
        call(sum_udaf(), &["wide"]).distinct(),
    ]
    .into_iter()
    .map(CallBuilder::build)
    .collect()
}

/// DataFusion's accumulators. All give the same for every order of rows.
fn foreign_calls() -> Vec<AggregateCall> {
    use functions::{array_agg::array_agg_udaf, average::avg_udaf, bit_and_or_xor::*, bool_and_or::*, first_last::*};
    use functions::{count::count_udaf, median::median_udaf, min_max::*};
    vec![
        call(bool_and_udaf(), &["flag"]),
        call(bit_xor_udaf(), &["number"]),
        call(median_udaf(), &["number"]),
        call(avg_udaf(), &["wide"]),
        call(min_udaf(), &["bool"]),
        call(array_agg_udaf(), &["int"]).ordered_by(&["int"]),
        call(first_value_udaf(), &["number"]).ordered_by(&["number"]),
        call(last_value_udaf(), &["text"]).ordered_by(&["text"]).filtered(),
        call(count_udaf(), &["int", "text"]),
    ]
    .into_iter()
    .map(CallBuilder::build)
    .collect()
}

fn plan_of(
    groups: &[&str],
    sets: Option<Vec<Vec<bool>>>,
    aggregates: Vec<AggregateCall>,
) -> (plan::Aggregate, SchemaRef) {
    let groups = groups.iter().map(|name| expr(name)).collect::<Vec<_>>();
    let mut fields = groups
        .iter()
        .enumerate()
        .map(|(index, group)| Field::new(format!("g{index}"), group.data_type().clone(), true))
        .collect::<Vec<_>>();
    if sets.is_some() {
        fields.push(Field::new("__grouping_id", DataType::UInt8, false));
    }
    for (index, call) in aggregates.iter().enumerate() {
        fields.push(call.function.field().as_ref().clone().with_name(format!("a{index}")));
    }
    let dummy = plan::Plan::new(plan::Node::Values { batches: vec![] }, input_schema());
    let plan = plan::Aggregate {
        input: Box::new(dummy),
        has_grouping_id: sets.is_some(),
        grouping_sets: sets.unwrap_or_else(|| vec![vec![false; groups.len()]]),
        groups,
        aggregates,
        limit: None,
    };
    (plan, Arc::new(Schema::new(fields)))
}

/// Runs both ends by hand with so many packets, which get batches in a random order.
fn run(
    random: &mut Random,
    parts: &AggregateParts,
    batches: &[Batch],
    output: &SchemaRef,
    context: &QueryContext,
) -> Result<Vec<RecordBatch>> {
    fill(random, parts, batches, context)?;
    complete(parts, context)?;
    read(random, parts, output, context)
}

/// Merges what the packets have left behind.
fn complete(parts: &AggregateParts, context: &QueryContext) -> Result<()> {
    for part in 0..parts.sink.parts()? {
        parts.sink.part(part, context)?;
    }
    parts.sink.complete()
}

/// Reads all groups, by packets in a random order.
fn read(
    random: &mut Random,
    parts: &AggregateParts,
    output: &SchemaRef,
    context: &QueryContext,
) -> Result<Vec<RecordBatch>> {
    let mut readers = (0..context.packets).map(|_| parts.source.open(context)).collect::<Result<Vec<_>>>()?;
    let mut results = Vec::new();
    while !readers.is_empty() {
        let packet = random.below(readers.len());
        match readers[packet].pull(Waker::noop())? {
            Pull::Batch(batch) => {
                assert!(batch.rows() > 0 && batch.rows() <= context.batch_rows);
                results.push(batch.to_record_batch(output)?);
            }
            Pull::Done => drop(readers.swap_remove(packet)),
            Pull::NoMemory(error) => return Err(error),
            // Nothing is lost by asking too early.
            Pull::Again | Pull::Wait => {
                assert!(context.temp.is_some(), "groups are there at once");
                std::thread::yield_now();
            }
        }
    }
    Ok(results)
}

/// Deals batches to packets until all are in.
fn fill(random: &mut Random, parts: &AggregateParts, batches: &[Batch], context: &QueryContext) -> Result<()> {
    let mut states = (0..context.packets).map(|_| parts.sink.open(context)).collect::<Result<Vec<_>>>()?;
    let mut answers = vec![Accept::More; context.packets];
    for batch in batches {
        let packet = random.below(context.packets);
        while answers[packet] == Accept::Wait {
            // It may wait for others that wait.
            for (state, answer) in states.iter_mut().zip(&mut answers).filter(|(_, answer)| **answer == Accept::Wait) {
                *answer = state.ready(Waker::noop())?;
            }
        }
        if answers[packet] == Accept::More {
            answers[packet] = states[packet].push(batch.clone(), Waker::noop())?;
        }
    }
    while !states.is_empty() {
        let packet = random.below(states.len());
        if states[packet].finish(Waker::noop())? != Accept::Wait {
            drop(states.swap_remove(packet));
        }
    }
    Ok(())
}

fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row).unwrap());
            rows.push(judge::text(&values.collect::<Vec<_>>()));
        }
    }
    rows.sort();
    rows
}

fn context(packets: usize, batch_rows: usize) -> QueryContext {
    QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows, packets }
}

fn small_tuning(random: &mut Random) -> Tuning {
    let local_groups = 1 + random.below(60);
    Tuning {
        local_groups,
        handed_groups: random.below(40),
        part_groups: 1 + random.below(40),
        spread_flushes: 1 + random.below(3),
        consolidated_bytes: 1 << (8 + random.below(10)),
    }
}

fn check(
    seed: u64,
    shape: Shape,
    packets: usize,
    groups: &[&str],
    sets: Option<Vec<Vec<bool>>>,
    calls: Vec<AggregateCall>,
) {
    let mut random = Random::new(seed);
    let mut batches = batches(&mut random, shape);
    if random.chance(30) {
        batches = joined(&mut random, batches);
    }
    let (plan, output) = plan_of(groups, sets, calls);
    let expected = judge::aggregate(&plan, &batches, &input_schema(), &output);
    let tuning = if random.chance(70) { small_tuning(&mut random) } else { Tuning::default() };
    let parts = build(&plan, &input_schema(), &output, tuning.clone()).unwrap();
    let context = context(packets, 1 + random.below(50));
    let found = run(&mut random, &parts, &batches, &output, &context);
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            let mut expected = expected.iter().map(|row| judge::text(row)).collect::<Vec<_>>();
            expected.sort();
            let found = rows_of(&found);
            assert_eq!(found.len(), expected.len(), "as many groups, with {tuning:?}");
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "with {tuning:?}");
            }
        }
        (Err(_), Err(error)) => assert!(error.message().contains("overflow"), "{error}"),
        (Ok(_), Err(error)) => panic!("{error}, with {tuning:?}"),
        (Err(error), Ok(_)) => panic!("nothing instead of: {error}, with {tuning:?}"),
    }
    drop(parts);
    assert_eq!(context.memory.reserved_bytes(), 0, "every reservation is given back");
}

fn key_names(random: &mut Random) -> Vec<String> {
    let schema = input_schema();
    let count = 1 + random.below(4);
    let mut keys = (0..count).map(|_| schema.field(random.below(KEYS)).name().clone()).collect::<Vec<_>>();
    keys.dedup();
    keys
}

/// Sums of huge values overflow as a rule, and then there is nothing to compare.
fn huge() -> prop::bool::Weighted {
    prop::bool::weighted(0.2)
}

fn shapes() -> impl Strategy<Value = Shape> {
    (0usize..600, 1usize..120, 1usize..200, prop_oneof![Just(0usize), Just(10), Just(60)], huge()).prop_map(
        |(rows, batch_rows, domain, nulls_percent, huge)| Shape { rows, batch_rows, domain, nulls_percent, huge },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    #[test]
    fn native_aggregates_are_as_judged(seed: u64, shape in shapes(), packets in 1usize..5) {
        let keys = key_names(&mut Random::new(seed ^ 1));
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        check(seed, shape, packets, &keys, None, native_calls());
    }

    #[test]
    fn without_group_by_there_is_one_row(seed: u64, shape in shapes(), packets in 1usize..5) {
        let calls = native_calls().into_iter().chain(distinct_calls()).chain(foreign_calls()).collect();
        check(seed, shape, packets, &[], None, calls);
    }

    #[test]
    fn distinct_aggregates_are_as_judged(seed: u64, shape in shapes(), packets in 1usize..5) {
        let keys = key_names(&mut Random::new(seed ^ 2));
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        check(seed, shape, packets, &keys, None, distinct_calls());
    }

    #[test]
    fn foreign_aggregates_are_as_judged(seed: u64, shape in shapes(), packets in 1usize..5) {
        let keys = key_names(&mut Random::new(seed ^ 3));
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        check(seed, shape, packets, &keys, None, foreign_calls());
    }

    #[test]
    fn grouping_sets_are_as_judged(seed: u64, shape in shapes(), packets in 1usize..5, few in any::<bool>()) {
        let mut random = Random::new(seed ^ 4);
        let keys = key_names(&mut random);
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        let sets = (0..1 + random.below(4)).map(|_| keys.iter().map(|_| random.chance(50)).collect()).collect();
        let shape = if few { Shape { rows: 0, ..shape } } else { shape };
        let calls = native_calls().into_iter().chain(distinct_calls()).chain(foreign_calls()).collect();
        check(seed, shape, packets, &keys, Some(sets), calls);
    }
}

#[test]
fn a_limit_of_distinct_groups_ends_early() {
    let mut random = Random::new(7);
    let batches =
        batches(&mut random, Shape { rows: 2000, batch_rows: 50, domain: 500, nulls_percent: 0, huge: false });
    let (mut plan, output) = plan_of(&["big"], None, vec![]);
    plan.limit = Some(13);
    for packets in 1..4 {
        let parts = aggregate(&plan, &input_schema(), &output).unwrap();
        let context = context(packets, 5);
        let mut rows = rows_of(&run(&mut random, &parts, &batches, &output, &context).unwrap());
        assert_eq!(rows.len(), 13);
        rows.dedup();
        assert_eq!(rows.len(), 13, "groups come once");
        let mut state = parts.sink.open(&context).unwrap();
        let enough = batches.iter().any(|batch| state.push(batch.clone(), Waker::noop()).unwrap() == Accept::Enough);
        assert!(enough, "a packet with enough groups wants no more");
    }
}

/// Long strings are held once per group, however often they come: as keys, and as distinct values.
#[test]
fn long_strings_are_held_by_group_and_not_by_row() {
    use functions::count::count_udaf;
    const ROWS: usize = 200_000;
    const STRINGS: usize = 2_000;
    for (groups, calls) in
        [(vec!["text"], vec![count_star()]), (vec!["int"], vec![call(count_udaf(), &["text"]).distinct()])]
    {
        let mut random = Random::new(11);
        let batches = (0..ROWS / 500)
            .map(|_| {
                let numbers = (0..500).map(|_| random.below(STRINGS)).collect::<Vec<_>>();
                // A group by number has three strings.
                let salt = if groups[0] == "int" { random.below(3) } else { 0 };
                let column = |name: &str, data_type: &DataType| -> ArrayRef {
                    match name {
                        "int" => Arc::new(Int32Array::from_iter_values(numbers.iter().map(|&number| number as i32))),
                        "text" => {
                            let texts = numbers.iter().map(|number| format!("{number:0200}{salt}"));
                            Arc::new(StringViewArray::from_iter_values(texts))
                        }
                        _ => new_null_array(data_type, 500),
                    }
                };
                let schema = input_schema();
                let columns = schema.fields().iter().map(|field| column(field.name(), field.data_type()));
                Batch::from_arrays(columns.collect(), 500)
            })
            .collect::<Vec<_>>();
        let (plan, output) = plan_of(&groups, None, calls.into_iter().map(CallBuilder::build).collect());
        let broker = diligence_memory::Broker::new(1 << 30);
        let memory = broker.account(diligence_base::ids::QueryId(1), None);
        let context = QueryContext { memory, temp: None, batch_rows: 100, packets: 2 };
        let tuning = Tuning {
            local_groups: 200,
            handed_groups: 0,
            // A piece of merging is worth several batches, as it is by default.
            part_groups: 4_000,
            spread_flushes: 4,
            consolidated_bytes: 256 * 1024,
        };
        let parts = build(&plan, &input_schema(), &output, tuning).unwrap();
        let results = run(&mut random, &parts, &batches, &output, &context).unwrap();
        assert_eq!(results.iter().map(RecordBatch::num_rows).sum::<usize>(), STRINGS);
        // All rows have 40 MB of text, all groups 400 kB.
        let peak = context.memory.peak_bytes();
        assert!(peak < 20_000_000, "{peak} bytes at most for {groups:?}");
        // What is read in the end has no chunk's strings, and no distinct value at all.
        let end = context.memory.reserved_bytes();
        assert!(end < 2_000_000, "{end} bytes in the end for {groups:?}");
        drop(parts);
        assert_eq!(broker.reserved_bytes(), 0);
    }
}

#[test]
fn minus_zero_in_nested_keys_is_zero() {
    use crate::batch::floats::canonical_floats;
    let lists = |zero: f64| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some([Some(zero), None]),
            Some([Some(1.0), None]),
        ]))
    };
    let layout = super::key_layout::KeyLayout::new(&[(lists(0.0).data_type().clone(), true)]).unwrap();
    let words = |array: ArrayRef| {
        let mut keys = super::key_encoding::EncodedKeys::default();
        keys.encode(&layout, &[Column::flat_array(array)], &[], 2, 0).unwrap();
        keys.words
    };
    assert_eq!(words(lists(-0.0)), words(lists(0.0)));
    assert_eq!(words(canonical_floats(&lists(-0.0)).unwrap()), words(lists(0.0)));
}

#[test]
fn no_memory_is_an_error_that_says_so() {
    let mut random = Random::new(9);
    let batches =
        batches(&mut random, Shape { rows: 5000, batch_rows: 500, domain: 5000, nulls_percent: 0, huge: false });
    let (plan, output) = plan_of(&["text", "big"], None, native_calls());
    let broker = diligence_memory::Broker::new(100_000);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let context = QueryContext { memory, temp: None, batch_rows: 100, packets: 2 };
    let parts = aggregate(&plan, &input_schema(), &output).unwrap();
    let error = run(&mut random, &parts, &batches, &output, &context).unwrap_err();
    assert_eq!(error.kind(), diligence_base::ErrorKind::Resource);
    drop(parts);
    assert_eq!(broker.reserved_bytes(), 0);
}
