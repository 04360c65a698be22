//! Whole queries over rows that are known: pipelines, exchanges, cancellation, errors and panics, on workers and inline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::{JoinType, NullEquality, Result as DataFusionResult, ScalarValue};
use datafusion_expr::{ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::ErrorKind;

use crate::exchange::Pact;
use crate::expressions::Expr;
use crate::plan::{HashJoin, Node, Plan, SortKey};
use crate::query::{QueryOptions, QueryState, QueryStream};
use crate::stages::PolicyKind;
use crate::{Engine, EngineOptions};

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

pub(crate) fn numbers(count: i64) -> Plan {
    let batches = (0..count)
        .step_by(1000)
        .map(|start| {
            let array: ArrayRef = Arc::new(Int64Array::from_iter_values(start..count.min(start + 1000)));
            RecordBatch::try_new(schema(), vec![array]).unwrap()
        })
        .collect();
    Plan::new(Node::Values { batches }, schema())
}

pub(crate) fn column() -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new("n", 0))
}

pub(crate) fn expr(physical: Arc<dyn PhysicalExpr>) -> Expr {
    Expr::new(physical, &schema()).unwrap()
}

pub(crate) fn below(bound: i64) -> Expr {
    let bound = Arc::new(Literal::new(ScalarValue::Int64(Some(bound))));
    expr(Arc::new(BinaryExpr::new(column(), Operator::Lt, bound)))
}

pub(crate) fn filter(input: Plan, predicate: Expr) -> Plan {
    Plan::new(Node::Filter { input: Box::new(input), predicate }, schema())
}

pub(crate) fn sort(input: Plan, fetch: Option<usize>) -> Plan {
    Plan::new(Node::Sort { input: Box::new(input), keys: keys(), fetch }, schema())
}

pub(crate) fn keys() -> Vec<SortKey> {
    vec![SortKey { expression: expr(column()), options: SortOptions::default() }]
}

pub(crate) fn exchange(input: Plan, pact: Pact, consumers: usize) -> Plan {
    Plan::new(Node::Exchange { input: Box::new(input), pact, consumers }, schema())
}

/// Joins a plan with itself on its column; the output has the right side's column only.
pub(crate) fn self_join(left: Plan, right: Plan) -> Plan {
    let join = HashJoin {
        left: Box::new(left),
        right: Box::new(right),
        on: vec![(expr(column()), expr(column()))],
        filter: None,
        join_type: JoinType::Inner,
        null_equality: NullEquality::NullEqualsNothing,
        null_aware: false,
        projection: Some(vec![1]),
        runtime_filters: Vec::new(),
    };
    Plan::new(Node::HashJoin(join), schema())
}

pub(crate) fn read(mut stream: QueryStream) -> diligence_base::Result<Vec<i64>> {
    let mut rows = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        rows.extend(batch?.column(0).as_primitive::<Int64Type>().values().iter().copied());
    }
    Ok(rows)
}

fn engines() -> Vec<Arc<Engine>> {
    let threads = [1, 2, 4].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    let inline = (0..10).map(EngineOptions::inline);
    threads.into_iter().chain(inline).map(|options| Engine::start(options).unwrap()).collect()
}

pub(crate) fn options(batch_rows: usize) -> QueryOptions {
    QueryOptions { batch_rows, ..QueryOptions::default() }
}

/// Waits until a condition holds; fails after ten seconds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "still not true after ten seconds: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_sorted_filter_answers_the_same_everywhere() {
    let plan = sort(filter(numbers(20_000), below(15_000)), None);
    for engine in engines() {
        for batch_rows in [7, 8192] {
            let rows = read(engine.run(&plan, options(batch_rows)).unwrap()).unwrap();
            assert_eq!(rows, (0..15_000).collect::<Vec<_>>(), "{engine:?}");
        }
    }
}

#[test]
fn every_pact_keeps_all_rows() {
    let pacts = [
        Pact::Pipeline,
        Pact::RoundRobin,
        Pact::Hash(vec![expr(column())]),
        Pact::Range(keys()),
        Pact::Gather,
        Pact::Broadcast,
    ];
    for engine in engines() {
        for pact in &pacts {
            let name = pact.to_string();
            let copies = if matches!(pact, Pact::Broadcast) { 3 } else { 1 };
            let plan = sort(exchange(numbers(10_000), pact.clone(), 3), None);
            let rows = read(engine.run(&plan, options(100)).unwrap()).unwrap();
            let expected: Vec<i64> = (0..10_000).flat_map(|n| std::iter::repeat_n(n, copies)).collect();
            assert!(rows == expected, "{name} on {engine:?}: {} rows", rows.len());
        }
    }
}

#[test]
fn a_merge_exchange_keeps_the_order_of_sorted_producers() {
    let mut plan = exchange(sort(numbers(10_000), None), Pact::Merge(keys()), 1);
    plan.ordered = true;
    for engine in engines() {
        let rows = read(engine.run(&plan, options(64)).unwrap()).unwrap();
        assert_eq!(rows, (0..10_000).collect::<Vec<_>>(), "{engine:?}");
    }
}

#[test]
fn a_join_waits_for_its_build_side_and_a_limit_ends_early() {
    let join = self_join(filter(numbers(20_000), below(5_000)), numbers(20_000));
    let limited =
        Plan::new(Node::Limit { input: Box::new(sort(join.clone(), None)), skip: 10, fetch: Some(5) }, schema());
    let any = Plan::new(Node::Limit { input: Box::new(join.clone()), skip: 0, fetch: Some(17) }, schema());
    for engine in engines() {
        assert_eq!(read(engine.run(&sort(join.clone(), None), options(512)).unwrap()).unwrap().len(), 5_000);
        assert_eq!(read(engine.run(&limited, options(512)).unwrap()).unwrap(), vec![10, 11, 12, 13, 14]);
        assert_eq!(read(engine.run(&any, options(512)).unwrap()).unwrap().len(), 17);
        eventually("all memory is given back", || engine.broker().reserved_bytes() == 0);
    }
}

#[test]
fn a_union_of_nothing_and_something_is_something() {
    let union = Plan::new(Node::Union { inputs: vec![numbers(0), numbers(3), numbers(2)] }, schema());
    for engine in engines() {
        let rows = read(engine.run(&sort(union.clone(), None), options(8192)).unwrap()).unwrap();
        assert_eq!(rows, vec![0, 0, 1, 1, 2]);
    }
}

#[test]
fn a_dropped_stream_cancels_its_query_and_leaves_nothing() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let plan = self_join(numbers(50_000), exchange(numbers(50_000), Pact::Hash(vec![expr(column())]), 2));
    for batches in 0..30 {
        let mut stream = engine.run(&plan, options(50)).unwrap();
        for _ in 0..batches {
            stream.next_blocking();
        }
        drop(stream);
    }
    eventually("no query runs", || engine.queries().iter().all(|query| query.state != QueryState::Running));
    eventually("no packet is left", || engine.queries().iter().all(|query| query.packets == 0));
    eventually("all memory is given back", || engine.broker().reserved_bytes() == 0);
    eventually("the stages are empty", || engine.stages().iter().all(|stage| stage.queued + stage.running == 0));
}

/// A function that panics on the value 777.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Panics(Signature);

impl ScalarUDFImpl for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        assert!(!array.as_primitive::<Int64Type>().values().contains(&777), "the value 777 has come");
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}

#[test]
fn a_panic_ends_one_query_and_twenty_others_go_on() {
    let function = Arc::new(ScalarUDF::from(Panics(Signature::any(1, Volatility::Volatile))));
    let call = ScalarFunctionExpr::new(
        "panics",
        function,
        vec![column()],
        Arc::new(Field::new("panics", DataType::Boolean, true)),
        Arc::default(),
    );
    let panicking = filter(numbers(5_000), expr(Arc::new(call)));
    let healthy = sort(self_join(numbers(5_000), numbers(5_000)), None);
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let others: Vec<_> = (0..20).map(|_| engine.run(&healthy, options(100)).unwrap()).collect();
    let error = read(engine.run(&panicking, options(100)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert!(error.message().contains("777"), "{error}");
    for other in others {
        assert_eq!(read(other).unwrap().len(), 5_000);
    }
    eventually("all memory is given back", || engine.broker().reserved_bytes() == 0);
}

#[test]
fn a_query_over_its_memory_fails_with_advice_and_others_do_not() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let plan = sort(numbers(100_000), None);
    let limited = QueryOptions { memory_limit_bytes: Some(50_000), ..QueryOptions::default() };
    let error = read(engine.run(&plan, limited).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    assert!(error.hint().unwrap().contains("memory"));
    assert_eq!(read(engine.run(&plan, options(8192)).unwrap()).unwrap().len(), 100_000);
}

#[test]
fn policies_change_while_queries_run() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let plan = sort(self_join(numbers(20_000), numbers(20_000)), None);
    let streams: Vec<_> = (0..10).map(|_| engine.run(&plan, options(100)).unwrap()).collect();
    for policy in PolicyKind::ALL {
        engine.set_policy(policy);
        assert_eq!(engine.policy(), policy);
    }
    for stream in streams {
        assert_eq!(read(stream).unwrap().len(), 20_000);
    }
}

#[test]
fn a_profile_counts_rows_per_operator() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let mut stream = engine.run(&filter(numbers(10_000), below(100)), options(8192)).unwrap();
    while stream.next_blocking().is_some() {}
    let profile = stream.profile();
    let rows: Vec<u64> = profile.pipelines[0].operators.iter().map(|operator| operator.counts.rows).collect();
    assert_eq!(rows, vec![10_000, 100, 100]);
    assert!(profile.to_string().contains("Filter n@0 < 100: 100 rows"), "{profile}");
}
