//! The same judge, where memory is so short that groups go to temp space all the time.

use std::path::PathBuf;

use diligence_base::ErrorKind;
use diligence_base::ids::QueryId;
use diligence_disk::{Compression, Fault, MemoryTempFiles, TempOptions, TempSpace};
use diligence_memory::Broker;

use super::*;

const CLUSTER: usize = 4096;

fn temp_space(files: &MemoryTempFiles, threads: usize) -> TempSpace {
    TempSpace::open(&temp_options(files, threads)).unwrap()
}

fn temp_options(files: &MemoryTempFiles, threads: usize) -> TempOptions {
    TempOptions {
        directories: vec![PathBuf::from("/temp")],
        cluster_bytes: CLUSTER,
        threads,
        files: Arc::new(files.clone()),
        compression: Compression::None,
        ..TempOptions::default()
    }
}

/// A query with little memory and a temp space of its own.
pub(super) struct Tight {
    pub(super) broker: Arc<Broker>,
    temp: TempSpace,
    pub(super) context: QueryContext,
}

impl Tight {
    pub(super) fn new(budget_bytes: usize, packets: usize, files: &MemoryTempFiles) -> Self {
        Self::with_threads(budget_bytes, packets, files, 0)
    }

    fn with_threads(budget_bytes: usize, packets: usize, files: &MemoryTempFiles, threads: usize) -> Self {
        let broker = Broker::new(budget_bytes);
        let temp = temp_space(files, threads);
        let memory = broker.account(QueryId(1), None);
        let context = QueryContext { memory, temp: Some(temp.clone()), batch_rows: 64, packets };
        Self { broker, temp, context }
    }

    pub(super) fn assert_nothing_is_left(&self) {
        // What is under way to the disk is let go of there.
        self.temp.close();
        assert_eq!(self.broker.reserved_bytes(), 0, "every reservation is given back");
        let info = self.temp.info();
        assert_eq!(info.files, 0, "every file is dropped");
        assert_eq!(info.directories.iter().map(|directory| directory.clusters_used).sum::<usize>(), 0);
    }
}

/// What DataFusion's ordered `array_agg` needs for a value and its key, beside the same in the state that is merged.
const ARRAY_VALUE_BYTES: usize = 640;

fn has_arrays(plan: &plan::Aggregate) -> bool {
    plan.aggregates.iter().any(|call| call.function.fun().name() == "array_agg")
}

/// Values of the longest array of any group.
fn longest_array(groups: &Result<Vec<judge::Row>>) -> usize {
    let values = groups.iter().flatten().flatten();
    let lengths = values.map(|value| match value {
        ScalarValue::List(list) => list.values().len(),
        _ => 0,
    });
    lengths.max().unwrap_or(0)
}

/// Runs with a small budget, a random one without another, and compares. Returns what was spilled.
fn check_spilled(
    budget: Option<usize>,
    seed: u64,
    shape: Shape,
    packets: usize,
    groups: &[&str],
    sets: Option<Vec<Vec<bool>>>,
    calls: Vec<AggregateCall>,
) -> crate::flow::profile::SpillCounts {
    let mut random = Random::new(seed);
    let batches = batches(&mut random, shape);
    let (plan, output) = plan_of(groups, sets, calls);
    let expected = judge::aggregate(&plan, &batches, &input_schema(), &output);
    let tuning = if random.chance(70) { small_tuning(&mut random) } else { Tuning::default() };
    let parts = build(&plan, &input_schema(), &output, tuning.clone()).unwrap();
    // What every packet needs for a row, and some more: one group's array of values must fit, twice.
    let arrays = (longest_array(&expected) * ARRAY_VALUE_BYTES).max(if has_arrays(&plan) { 300 * 1024 } else { 0 });
    let least = (96 + 64 * packets) * 1024 + arrays;
    let budget = budget.unwrap_or(least + random.below(300 * 1024));
    let threads = if random.chance(30) { 2 } else { 0 };
    let tight = Tight::with_threads(budget, packets, &MemoryTempFiles::default(), threads);
    let found = run(&mut random, &parts, &batches, &output, &tight.context);
    let spilled = parts.sink.spills().unwrap().counts();
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            let mut expected = expected.iter().map(|row| judge::text(row)).collect::<Vec<_>>();
            expected.sort();
            let found = rows_of(&found);
            assert_eq!(found.len(), expected.len(), "as many groups, with {tuning:?}, {budget} bytes and {spilled:?}");
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "with {tuning:?}, {budget} bytes and {spilled:?}");
            }
        }
        (Err(_), Err(error)) => assert!(error.message().contains("overflow"), "{error}"),
        (Ok(_), Err(error)) => panic!("{error}, with {tuning:?}, {budget} bytes and {spilled:?}"),
        (Err(error), Ok(_)) => panic!("nothing instead of: {error}, with {tuning:?}"),
    }
    drop(parts);
    tight.assert_nothing_is_left();
    spilled
}

fn large_shapes() -> impl Strategy<Value = Shape> {
    (300usize..2500, 1usize..500, 100usize..2500, prop_oneof![Just(0usize), Just(10), Just(60)], huge()).prop_map(
        |(rows, batch_rows, domain, nulls_percent, huge)| Shape { rows, batch_rows, domain, nulls_percent, huge },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 16))]

    #[test]
    fn native_aggregates_are_as_judged(seed: u64, shape in large_shapes(), packets in 1usize..5) {
        let keys = key_names(&mut Random::new(seed ^ 1));
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        check_spilled(None, seed, shape, packets, &keys, None, native_calls());
    }

    #[test]
    fn without_group_by_there_is_one_row(seed: u64, shape in large_shapes(), packets in 1usize..5) {
        let calls = native_calls().into_iter().chain(distinct_calls()).collect();
        check_spilled(None, seed, shape, packets, &[], None, calls);
    }

    #[test]
    fn distinct_aggregates_are_as_judged(seed: u64, shape in large_shapes(), packets in 1usize..5) {
        let keys = key_names(&mut Random::new(seed ^ 2));
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        check_spilled(None, seed, shape, packets, &keys, None, distinct_calls());
    }

    #[test]
    fn foreign_aggregates_are_as_judged(seed: u64, shape in large_shapes(), packets in 1usize..5) {
        let keys = key_names(&mut Random::new(seed ^ 3));
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        check_spilled(None, seed, shape, packets, &keys, None, foreign_calls());
    }

    #[test]
    fn grouping_sets_are_as_judged(seed: u64, shape in large_shapes(), packets in 1usize..5) {
        let mut random = Random::new(seed ^ 4);
        let keys = key_names(&mut random);
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        let sets = (0..1 + random.below(3)).map(|_| keys.iter().map(|_| random.chance(50)).collect()).collect();
        let calls = native_calls().into_iter().chain(distinct_calls()).chain(foreign_calls()).collect();
        check_spilled(None, seed, Shape { rows: shape.rows / 3, ..shape }, packets, &keys, Some(sets), calls);
    }
}

fn wide_shape(rows: usize) -> Shape {
    Shape { rows, batch_rows: 700, domain: rows, nulls_percent: 5, huge: false }
}

/// Far more groups, and far more distinct values of one group, than memory holds: partitions are split again.
#[test]
fn partitions_that_do_not_fit_are_split_again() {
    use functions::count::count_udaf;
    let counts = || vec![count_star().build(), call(count_udaf(), &["text"]).distinct().build()];
    let split = |keys: &[&str], calls| {
        let spilled = check_spilled(Some(100 * 1024), 5, wide_shape(40_000), 1, keys, None, calls);
        assert!(spilled.bytes > 0 && spilled.files > 4 && spilled.levels >= 2, "{spilled:?} by {keys:?}");
    };
    split(&["text", "big"], vec![count_star().build()]);
    split(&[], counts());
    split(&["bool"], counts());
}

/// Whenever a query ends, nothing is left of it.
#[test]
fn an_aggregate_that_is_cancelled_leaves_nothing() {
    let calls = || native_calls().into_iter().chain(distinct_calls()).chain(foreign_calls()).collect::<Vec<_>>();
    let (plan, output) = plan_of(&["text", "int"], None, calls());
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let batches = batches(&mut random, wide_shape(3000));
        let tight = Tight::new(200 * 1024, 2, &MemoryTempFiles::default());
        let parts = build(&plan, &input_schema(), &output, small_tuning(&mut random)).unwrap();
        if random.chance(50) {
            let mut states = [parts.sink.open(&tight.context).unwrap(), parts.sink.open(&tight.context).unwrap()];
            for batch in &batches[..random.below(batches.len())] {
                if states[random.below(2)].push(batch.clone(), Waker::noop()).unwrap() == Accept::Wait {
                    break;
                }
            }
        } else {
            fill(&mut random, &parts, &batches, &tight.context).unwrap();
            let count = parts.sink.parts().unwrap();
            (0..count).for_each(|part| parts.sink.part(part, &tight.context).unwrap());
            parts.sink.complete().unwrap();
            let mut readers = [parts.source.open(&tight.context).unwrap(), parts.source.open(&tight.context).unwrap()];
            for _ in 0..random.below(300) {
                readers[random.below(2)].pull(Waker::noop()).unwrap();
            }
        }
        drop(parts);
        tight.assert_nothing_is_left();
    }
}

/// Every fault at many operations: the right groups or an error, and nothing is left.
#[test]
fn a_fault_of_temp_space_ends_the_query_or_nothing() {
    let calls = native_calls().into_iter().chain(distinct_calls()).collect();
    let (plan, output) = plan_of(&["text", "int"], None, calls);
    let mut random = Random::new(3);
    let batches = batches(&mut random, wide_shape(1200));
    let expected = judge::aggregate(&plan, &batches, &input_schema(), &output).unwrap();
    let mut expected = expected.iter().map(|row| judge::text(row)).collect::<Vec<_>>();
    expected.sort();
    let attempt = |files: &MemoryTempFiles| {
        let tight = Tight::new(150 * 1024, 2, files);
        let parts = build(&plan, &input_schema(), &output, Tuning::default()).unwrap();
        let found = run(&mut Random::new(4), &parts, &batches, &output, &tight.context);
        drop(parts);
        match &found {
            Ok(found) => assert_eq!(rows_of(found), expected),
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Resource | ErrorKind::File), "{error}"),
        }
        tight.assert_nothing_is_left();
        found.is_ok()
    };
    let files = MemoryTempFiles::default();
    assert!(attempt(&files));
    let operations = files.operations();
    assert!(operations > 100, "{operations}");
    for fault in [Fault::Full, Fault::Broken, Fault::Short, Fault::Empty, Fault::Flip] {
        // Opening is not meant here.
        for at in (4..operations).step_by(operations as usize / 6) {
            let ended_well = attempt(&MemoryTempFiles::failing(fault, at));
            assert!(ended_well || fault != Fault::Short, "{fault:?} at {at}");
        }
    }
}

/// On workers, with I/O threads and wake-ups: the same rows as in memory, and nothing is left.
#[test]
fn a_query_that_spills_says_so_in_its_profile() {
    use crate::options::QueryOptions;
    use crate::{Engine, EngineOptions};
    let mut random = Random::new(21);
    let shape = Shape { rows: 20_000, batch_rows: 1000, domain: 20_000, nulls_percent: 5, huge: false };
    let rows = batches(&mut random, shape);
    let rows = rows.iter().map(|batch| batch.to_record_batch(&input_schema()).unwrap()).collect::<Vec<_>>();
    let calls = || native_calls().into_iter().chain(distinct_calls()).collect::<Vec<_>>();
    let run = |memory_bytes: usize, fetch: usize| {
        let temp = temp_options(&MemoryTempFiles::default(), 2);
        let engine =
            Engine::start(EngineOptions { workers: 2, memory_bytes, temp, ..EngineOptions::default() }).unwrap();
        let (plan, output) = plan_of(&["text", "date"], None, calls());
        let input = plan::Plan::new(plan::Node::Values { batches: rows.clone() }, input_schema());
        let plan = plan::Aggregate { input: Box::new(input), ..plan };
        let mut plan = plan::Plan::new(plan::Node::Aggregate(plan), output.clone());
        if fetch < usize::MAX {
            plan = plan::Plan::new(plan::Node::Limit { input: Box::new(plan), skip: 0, fetch: Some(fetch) }, output);
        }
        let mut stream = engine.run(&plan, QueryOptions::default()).unwrap();
        let mut found = Vec::new();
        while let Some(batch) = stream.next_blocking() {
            found.push(batch.unwrap());
        }
        assert_eq!((engine.broker().reserved_bytes(), engine.temp().info().files), (0, 0));
        (rows_of(&found), stream.profile().to_string())
    };
    let (expected, profile) = run(1 << 30, usize::MAX);
    assert!(!profile.contains("spilled"), "{profile}");
    let (found, profile) = run(4 << 20, usize::MAX);
    assert!(profile.contains(", spilled "), "{profile}");
    assert!(found == expected, "{} rows and {}", found.len(), expected.len());
    // Some packets are in the middle of something when there is enough.
    for fetch in [1, 100, 5000] {
        let (found, _) = run(4 << 20, fetch);
        assert!(found.len() == fetch && found.iter().all(|row| expected.binary_search(row).is_ok()));
    }
}

#[test]
fn a_limit_of_groups_holds_when_they_are_spilled() {
    let mut random = Random::new(7);
    let batches = batches(&mut random, wide_shape(8000));
    for limit in [1, 700, 100_000] {
        let (mut plan, output) = plan_of(&["big", "text"], None, vec![count_star().build()]);
        plan.limit = Some(limit);
        let tight = Tight::new(100 * 1024, 2, &MemoryTempFiles::default());
        let parts = aggregate(&plan, &input_schema(), &output).unwrap();
        let mut rows = rows_of(&run(&mut random, &parts, &batches, &output, &tight.context).unwrap());
        assert!(parts.sink.spills().unwrap().counts().bytes > 0);
        assert!(if limit < 1000 { rows.len() == limit } else { rows.len() > 1000 }, "{} rows", rows.len());
        let count = rows.len();
        rows.dedup();
        assert_eq!(rows.len(), count, "groups come once");
        drop(parts);
        tight.assert_nothing_is_left();
    }
}

/// One row that memory cannot hold is an error that says so; one that needs little more than memory is made.
#[test]
fn one_group_larger_than_memory() {
    use functions::array_agg::array_agg_udaf;
    let calls = || vec![call(array_agg_udaf(), &["big"]).ordered_by(&["big"]).build()];
    for (rows, fits) in [(400, true), (50_000, false)] {
        let mut random = Random::new(8);
        let shape = Shape { rows, batch_rows: 700, domain: 100, nulls_percent: 0, huge: false };
        let mut batches = batches(&mut random, shape);
        let constant: ArrayRef = Arc::new(Int32Array::from_iter_values((0..700).map(|_| 1)));
        for batch in &mut batches {
            let mut columns = batch.columns().to_vec();
            columns[0] = Column::flat_array(constant.slice(0, batch.rows()));
            *batch = Batch::new(columns, batch.rows());
        }
        let (plan, output) = plan_of(&["int"], None, calls());
        let tight = Tight::new(256 * 1024, 2, &MemoryTempFiles::default());
        let parts = aggregate(&plan, &input_schema(), &output).unwrap();
        let found = run(&mut random, &parts, &batches, &output, &tight.context);
        match found {
            Ok(found) => assert_eq!((found.len(), found[0].num_rows(), fits), (1, 1, true)),
            Err(error) => {
                assert_eq!((error.kind(), fits), (ErrorKind::Resource, false), "{error}");
                assert!(error.to_string().contains("one row needs more memory than there is"), "{error}");
            }
        }
        drop(parts);
        tight.assert_nothing_is_left();
    }
}
