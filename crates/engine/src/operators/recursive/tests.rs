//! Recursive queries against a loop, in memory and in temp space.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal};
use diligence_disk::{Fault, MemoryTempFiles, TempOptions, TempSpace};

use crate::plan::{Node, Plan, Recursive, WorkTable, WorkTableId};
use crate::query::tests::{below, column, expr, filter, numbers, options, read, schema, self_join};
use crate::{Engine, EngineOptions};

const BUDGET: usize = 2 << 20;

fn table(id: u32) -> Plan {
    let table = WorkTable { table: WorkTableId(id), name: "r".to_owned(), columns: vec![0] };
    Plan::new(Node::WorkTable(table), schema())
}

fn plus(input: Plan, number: i64) -> Plan {
    let number = Arc::new(Literal::new(ScalarValue::Int64(Some(number))));
    let sum = expr(Arc::new(BinaryExpr::new(column(), Operator::Plus, number)));
    Plan::new(Node::Project { input: Box::new(input), expressions: vec![sum] }, schema())
}

fn recursive(id: u32, base: Plan, step: Plan, is_distinct: bool) -> Plan {
    let (base, step) = (Box::new(base), Box::new(step));
    let query = Recursive { name: "r".to_owned(), base, step, table: WorkTableId(id), is_distinct };
    Plan::new(Node::Recursive(query), schema())
}

fn union(inputs: Vec<Plan>) -> Plan {
    Plan::new(Node::Union { inputs }, schema())
}

/// Engines with little memory and with enough, on workers and inline, with their temp space.
fn engines(files: &MemoryTempFiles) -> Vec<(Arc<Engine>, TempSpace)> {
    let threads = [1, 3].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    let inline = (0..3).map(EngineOptions::inline);
    let engine = |options: EngineOptions, memory_bytes| {
        let threads = if options.workers == 3 { 2 } else { 0 };
        let temp = TempOptions {
            directories: vec!["/temp".into()],
            cluster_bytes: 16 << 10,
            threads,
            files: Arc::new(files.clone()),
            ..TempOptions::default()
        };
        let engine = Engine::start(EngineOptions { memory_bytes, temp, ..options }).unwrap();
        let temp = engine.temp().clone();
        (engine, temp)
    };
    let all = threads.into_iter().chain(inline);
    all.flat_map(|options| [engine(options.clone(), BUDGET), engine(options, 1 << 30)]).collect()
}

fn is_free(engine: &Engine, temp: &TempSpace) {
    let end = Instant::now() + Duration::from_secs(10);
    let used = || temp.info().directories.iter().map(|directory| directory.clusters_used).sum::<usize>();
    while engine.broker().reserved_bytes() > 0 || temp.info().files > 0 || used() > 0 {
        assert!(Instant::now() < end, "{} bytes, {:?}", engine.broker().reserved_bytes(), temp.info());
        std::thread::yield_now();
    }
}

/// Sorted rows of a plan on every engine; each is the same. Whether any of them wrote to temp space.
fn answers(plan: &Plan) -> (Vec<i64>, bool) {
    let mut answer: Option<Vec<i64>> = None;
    let mut has_spilled = false;
    for (engine, temp) in engines(&MemoryTempFiles::default()) {
        let mut rows = read(engine.run(plan, options(1000)).unwrap()).unwrap();
        rows.sort_unstable();
        is_free(&engine, &temp);
        has_spilled |= temp.info().written_bytes_total > 0;
        match &answer {
            Some(answer) => assert!(rows == *answer, "{engine:?}"),
            None => answer = Some(rows),
        }
    }
    (answer.unwrap(), has_spilled)
}

#[test]
fn a_step_runs_until_it_gives_nothing() {
    let counting = recursive(0, numbers(1), plus(filter(table(0), below(300)), 1), false);
    assert_eq!(answers(&counting), ((0..301).collect(), false));
    let nothing = recursive(0, numbers(0), plus(table(0), 1), false);
    assert_eq!(answers(&nothing), (vec![], false));
}

#[test]
fn a_reader_that_has_enough_ends_an_endless_recursion() {
    let endless = recursive(0, numbers(1), plus(table(0), 1), false);
    let first = Plan::new(Node::Limit { input: Box::new(endless), skip: 0, fetch: Some(50) }, schema());
    assert_eq!(answers(&first).0, (0..50).collect::<Vec<_>>());
}

#[test]
fn rounds_that_do_not_fit_go_on_in_temp_space() {
    let (rows, rounds) = (60_000, 4);
    let step = plus(filter(table(0), below(rows * (rounds - 1))), rows);
    let (answer, has_spilled) = answers(&recursive(0, numbers(rows), step, false));
    assert!(answer.into_iter().eq(0..rows * rounds));
    assert!(has_spilled);
}

#[test]
fn a_step_with_a_join_spills_as_any_join() {
    let step = plus(filter(self_join(table(0), numbers(150_000)), below(100_000)), 50_000);
    let (answer, has_spilled) = answers(&recursive(0, numbers(50_000), step, false));
    assert!(answer.into_iter().eq(0..150_000));
    assert!(has_spilled);
}

#[test]
fn union_leaves_out_what_was_given_before() {
    // Each number comes again and again: by itself, and from those before it.
    for (rows, top, spills) in [(10, 100, false), (30_000, 60_000, true)] {
        let lower = filter(table(0), below(top));
        let step = union(vec![table(0), plus(lower.clone(), rows / 2), plus(lower, rows / 2 + 1)]);
        let mut expected: BTreeSet<i64> = (0..rows).collect();
        loop {
            let from = expected.iter().filter(|number| **number < top);
            let more: Vec<i64> = from.flat_map(|number| [number + rows / 2, number + rows / 2 + 1]).collect();
            let before = expected.len();
            expected.extend(more);
            if expected.len() == before {
                break;
            }
        }
        let (answer, has_spilled) = answers(&recursive(0, numbers(rows), step, true));
        assert!(answer.into_iter().eq(expected), "{rows} rows");
        assert_eq!(has_spilled, spills);
    }
}

#[test]
fn a_step_may_be_recursive_and_read_the_rows_around_it() {
    // Inside: from each row of the outer query up to the next hundred.
    let inner = recursive(1, table(0), plus(filter(table(1), below(100)), 1), true);
    let outer = recursive(0, numbers(3), filter(plus(inner, 40), below(180)), true);
    let mut expected: BTreeSet<i64> = (0..3).collect();
    for _ in 0..300 {
        let inner: BTreeSet<i64> = expected.iter().flat_map(|number| *number..=(*number).max(100)).collect();
        expected.extend(inner.into_iter().map(|number| number + 40).filter(|number| *number < 180));
    }
    assert_eq!(answers(&outer).0, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_recursion_that_is_cancelled_or_fails_leaves_nothing() {
    let step = union(vec![table(0), plus(filter(table(0), below(100_000)), 30_000)]);
    let plan = recursive(0, numbers(60_000), step, true);
    for (engine, temp) in engines(&MemoryTempFiles::default()) {
        for batches in [0, 3, 70] {
            let mut stream = engine.run(&plan, options(1000)).unwrap();
            for _ in 0..batches {
                stream.next_blocking().unwrap().unwrap();
            }
            stream.cancel_token().cancel();
            drop(stream);
            is_free(&engine, &temp);
        }
    }
    for at in (10..400).step_by(23) {
        for fault in [Fault::Broken, Fault::Full] {
            let files = MemoryTempFiles::failing(fault, at);
            for (engine, temp) in engines(&files).into_iter().take(1) {
                // Where it is not needed, it does not matter.
                let _ = read(engine.run(&plan, options(1000)).unwrap());
                is_free(&engine, &temp);
                files.heal();
                assert_eq!(read(engine.run(&plan, options(1000)).unwrap()).unwrap().len(), 130_000);
                is_free(&engine, &temp);
            }
        }
    }
}
