//! Sorts that go to the disk: packets that merge, the packet that reads, I/O threads, and readers who leave.

use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::ErrorKind;
use diligence_base::seams::ManualClock;
use diligence_disk::{MemoryTempFiles, TempOptions, TempSpace};
use shuttle::thread;

use super::{DrivenSpawn, eventually, interleave};
use crate::options::QueryOptions;
use crate::query::QueryStream;
use crate::query::tests::{numbers, read, sort};
use crate::{Engine, EngineOptions};

const ROWS: i64 = 1500;

fn temp() -> TempOptions {
    TempOptions {
        directories: vec![PathBuf::from("/a")],
        cluster_bytes: 4096,
        threads: 1,
        files: Arc::new(MemoryTempFiles::default()),
        clock: Arc::new(ManualClock::stepping(1)),
        spawn: Arc::new(DrivenSpawn),
        ..TempOptions::default()
    }
}

fn engine() -> Arc<Engine> {
    let options = EngineOptions {
        workers: 2,
        memory_bytes: 1 << 30,
        clock: Arc::new(ManualClock::stepping(300_000)),
        spawn: Arc::new(DrivenSpawn),
        temp: temp(),
        ..EngineOptions::default()
    };
    Engine::start(options).unwrap()
}

/// A sort that has memory for a part of its rows.
fn start(engine: &Arc<Engine>) -> QueryStream {
    let limited = QueryOptions { memory_limit_bytes: Some(60_000), batch_rows: 250, ..QueryOptions::default() };
    engine.run(&sort(numbers(ROWS), None), limited).unwrap()
}

/// Waits until nothing is left of any query.
fn nothing_is_left(engine: &Engine, space: &TempSpace) {
    // A write that was under way gives its memory back when it is done.
    eventually(|| engine.broker().reserved_bytes() == 0);
    eventually(|| space.info().directories.iter().all(|directory| directory.clusters_used == 0));
    assert_eq!(space.info().files, 0);
    assert!(space.info().written_bytes_total > 0, "something was spilled");
}

#[test]
fn rows_come_in_order_whoever_merges_what() {
    interleave(60, || {
        let engine = engine();
        let space = engine.temp().clone();
        let streams = [start(&engine), start(&engine)];
        for stream in streams {
            assert!(read(stream).unwrap().into_iter().eq(0..ROWS));
        }
        nothing_is_left(&engine, &space);
    });
}

#[test]
fn a_sort_may_be_cancelled_at_any_moment() {
    interleave(60, || {
        let engine = engine();
        let space = engine.temp().clone();
        let cancelled = start(&engine);
        let token = cancelled.cancel_token();
        let cancelling = thread::spawn(move || token.cancel());
        match read(cancelled) {
            Ok(rows) => assert!(rows.into_iter().eq(0..ROWS)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
        cancelling.join().unwrap();
        assert!(read(start(&engine)).unwrap().into_iter().eq(0..ROWS), "the next query runs");
        nothing_is_left(&engine, &space);
    });
}

#[test]
fn a_reader_of_a_sort_may_leave_at_any_moment() {
    interleave(60, || {
        let engine = engine();
        let space = engine.temp().clone();
        for batches in 0..3 {
            let mut stream = start(&engine);
            for _ in 0..batches {
                stream.next_blocking().unwrap().unwrap();
            }
        }
        assert!(read(start(&engine)).unwrap().into_iter().eq(0..ROWS), "the next query runs");
        nothing_is_left(&engine, &space);
    });
}
