//! Whole queries that do not fit in memory: on workers and inline, with temp space on a disk that answers later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diligence_base::ErrorKind;
use diligence_disk::{Fault, MemoryTempFiles, TempOptions, TempSpace};

use crate::plan::{Common, CommonPart, Node, Plan, WorkTable, WorkTableId};
use crate::query::tests::{numbers, options, read, self_join};
use crate::{Engine, EngineOptions};

const BUDGET: usize = 2 << 20;

fn temp(files: MemoryTempFiles, threads: usize) -> TempOptions {
    TempOptions {
        directories: vec!["/temp".into()],
        cluster_bytes: 16 << 10,
        threads,
        files: Arc::new(files),
        ..TempOptions::default()
    }
}

/// Engines that are short of memory, with their temp space. Without threads of temp space nothing waits.
fn engines() -> Vec<(Arc<Engine>, TempSpace)> {
    let threads = [1, 2, 4].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    let threads = threads.into_iter().map(|options| (options, temp(MemoryTempFiles::default(), 2)));
    let inline = (0..4).map(|seed| (EngineOptions::inline(seed), temp(MemoryTempFiles::default(), 0)));
    let started = threads.chain(inline).map(|(options, temp)| {
        let engine = Engine::start(EngineOptions { memory_bytes: BUDGET, temp, ..options }).unwrap();
        let temp = engine.temp().clone();
        (engine, temp)
    });
    started.collect()
}

/// Memory and temp space are free once the I/O threads are done.
fn is_free(engine: &Engine, temp: &TempSpace) {
    let end = Instant::now() + Duration::from_secs(10);
    let used = || temp.info().directories.iter().map(|directory| directory.clusters_used).sum::<usize>();
    while engine.broker().reserved_bytes() > 0 || temp.info().files > 0 || used() > 0 {
        assert!(Instant::now() < end, "{} bytes, {:?}", engine.broker().reserved_bytes(), temp.info());
        std::thread::yield_now();
    }
}

#[test]
fn a_join_that_does_not_fit_answers_the_same() {
    let plan = self_join(numbers(60_000), self_join(numbers(80_000), numbers(100_000)));
    for (engine, temp) in engines() {
        for batch_rows in [500, 8192] {
            let mut stream = engine.run(&plan, options(batch_rows)).unwrap();
            let mut rows = Vec::new();
            while let Some(batch) = stream.next_blocking() {
                let batch = batch.unwrap();
                let column = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0));
                rows.extend(column.values().iter().copied());
            }
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..60_000), "{engine:?}, {batch_rows}");
            let profile = stream.profile().to_string();
            assert!(profile.contains("spilled") && profile.contains("files"), "{profile}");
            drop(stream);
            is_free(&engine, &temp);
        }
    }
}

/// The numbers below some bound, twice, as a common part of two places.
fn twice(bound: i64) -> Plan {
    let part = numbers(bound);
    let schema = part.schema.clone();
    let table = WorkTableId(3);
    let place = || {
        let node = Node::WorkTable(WorkTable { table, name: "part 3".to_owned(), columns: vec![0] });
        Plan::new(node, schema.clone())
    };
    let both = Plan::new(Node::Union { inputs: vec![place(), place()] }, schema.clone());
    let parts = vec![CommonPart { plan: part, table, places: 2 }];
    Plan::new(Node::Common(Common { parts, input: Box::new(both) }), schema.clone())
}

#[test]
fn a_common_part_that_does_not_fit_is_read_by_all_its_places() {
    for (engine, temp) in engines() {
        for bound in [0, 3, 100_000] {
            let mut stream = engine.run(&twice(bound), options(1000)).unwrap();
            let mut rows = Vec::new();
            while let Some(batch) = stream.next_blocking() {
                let batch = batch.unwrap();
                let column = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0));
                rows.extend(column.values().iter().copied());
            }
            rows.sort_unstable();
            assert!(rows.into_iter().eq((0..bound).flat_map(|number| [number, number])), "{engine:?}, {bound}");
            let profile = stream.profile().to_string();
            assert_eq!(profile.contains("spilled"), bound > 3, "{profile}");
            drop(stream);
            is_free(&engine, &temp);
        }
        // Whoever leaves early leaves nothing, nor does what it would have read.
        let mut stream = engine.run(&twice(100_000), options(1000)).unwrap();
        stream.next_blocking().unwrap().unwrap();
        drop(stream);
        is_free(&engine, &temp);
    }
}

#[test]
fn a_spilled_join_that_is_cancelled_leaves_nothing() {
    let plan = self_join(numbers(100_000), numbers(100_000));
    for (engine, temp) in engines() {
        for batches in [0, 1, 5] {
            let mut stream = engine.run(&plan, options(700)).unwrap();
            for _ in 0..batches {
                stream.next_blocking().unwrap().unwrap();
            }
            stream.cancel_token().cancel();
            drop(stream);
            is_free(&engine, &temp);
        }
    }
}

#[test]
fn a_disk_that_fails_ends_one_query() {
    let plan = self_join(numbers(100_000), numbers(100_000));
    for at in [5, 10, 30] {
        for fault in [Fault::Full, Fault::Broken] {
            let files = MemoryTempFiles::failing(fault, at);
            let options_of = EngineOptions { workers: 2, memory_bytes: BUDGET, ..EngineOptions::default() };
            let engine = Engine::start(EngineOptions { temp: temp(files.clone(), 2), ..options_of }).unwrap();
            let temp = engine.temp().clone();
            let error = read(engine.run(&plan, options(1000)).unwrap()).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::Bug, "{error}");
            is_free(&engine, &temp);
            files.heal();
            assert_eq!(read(engine.run(&plan, options(1000)).unwrap()).unwrap().len(), 100_000);
            is_free(&engine, &temp);
        }
    }
}
