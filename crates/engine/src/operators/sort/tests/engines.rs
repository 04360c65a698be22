//! Sorts on the disk as queries: with workers, I/O threads, and others at the same time.

use super::spilled::spill_options;
use super::*;
use crate::options::QueryOptions;
use crate::query::tests::{expr, numbers, read};
use crate::{Engine, EngineOptions};

use crate::plan::{Node, Plan};

const ROWS: i64 = 150_000;

/// The numbers below `ROWS`, descending.
fn descending() -> Plan {
    let input = numbers(ROWS);
    let schema = input.schema.clone();
    let options = SortOptions { descending: true, nulls_first: false };
    let keys = vec![SortKey { expression: expr(crate::query::tests::column()), options }];
    Plan::new(Node::Sort { input: Box::new(input), keys, fetch: None }, schema)
}

fn engines() -> Vec<Arc<Engine>> {
    let threads = [(1, 0), (2, 1), (4, 3)].map(|(workers, io_threads)| EngineOptions {
        workers,
        temp: spill_options(io_threads),
        ..EngineOptions::default()
    });
    let inline = (0..3).map(|seed| EngineOptions { temp: spill_options(0), ..EngineOptions::inline(seed) });
    threads.into_iter().chain(inline).map(|options| Engine::start(options).unwrap()).collect()
}

fn limited(plan: &str) -> QueryOptions {
    QueryOptions {
        memory_limit_bytes: Some(600_000),
        batch_rows: 1000,
        sort_plan: plan.parse().unwrap(),
        ..QueryOptions::default()
    }
}

#[test]
fn queries_that_do_not_fit_answer_and_say_what_they_wrote() {
    for engine in engines() {
        let plans = ["cost", "mms(1)", "ems-nr"];
        let mut streams: Vec<_> = plans.iter().map(|plan| engine.run(&descending(), limited(plan)).unwrap()).collect();
        let mut last = streams.pop().unwrap();
        let mut rows = 0;
        while let Some(batch) = last.next_blocking() {
            rows += batch.unwrap().num_rows() as i64;
        }
        assert_eq!(rows, ROWS);
        let profile = last.profile();
        let sink = profile.pipelines[0].operators.last().unwrap();
        assert!(sink.spilled.files > 1 && sink.spilled.bytes > 8 * ROWS as u64, "{profile}");
        assert!(profile.to_string().contains(", spilled "), "{profile}");
        for stream in streams {
            assert!(read(stream).unwrap().into_iter().eq((0..ROWS).rev()), "{engine:?}");
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_the_sort() {
    for engine in engines() {
        for batches in [0, 1, 5] {
            let mut stream = engine.run(&descending(), limited("cost")).unwrap();
            for _ in 0..batches {
                stream.next_blocking().unwrap().unwrap();
            }
            drop(stream);
        }
        let whole = read(engine.run(&descending(), limited("cost")).unwrap()).unwrap();
        assert_eq!(whole.len() as i64, ROWS);
    }
}
