//! Queries whose readers rest: what they were sure of is for others meanwhile.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use diligence_base::ErrorKind;

use crate::query::QueryStream;
use crate::query::tests::{in_order, numbers, options, read};
use crate::{Engine, EngineOptions, QueryOptions};

/// Enough for one grant and not for two.
const BUDGET: usize = 24 << 20;

fn engines() -> Vec<Arc<Engine>> {
    let threads = [1, 2].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    let inline = (0..4).map(EngineOptions::inline);
    let options = threads.into_iter().chain(inline);
    options.map(|options| Engine::start(EngineOptions { memory_bytes: BUDGET, ..options }).unwrap()).collect()
}

/// A query that has given one batch and has many more.
fn begun(engine: &Arc<Engine>) -> QueryStream {
    let mut stream = engine.run(&numbers(100_000), options(50)).unwrap();
    assert_eq!(stream.next_blocking().unwrap().unwrap().num_rows(), 50);
    stream
}

/// Pauses one query until the other gives a batch.
fn gives_way(resting: &mut QueryStream, other: &mut QueryStream) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        assert!(Instant::now() < end, "nothing was given up");
        resting.pause();
        if let Poll::Ready(batch) = other.next_within(Duration::from_millis(5)) {
            return drop(batch.unwrap().unwrap());
        }
    }
}

#[test]
fn a_reader_that_rests_lets_others_start_and_goes_on_later() {
    for engine in engines() {
        let mut resting = begun(&engine);
        let mut other = engine.run(&numbers(100_000), options(50)).unwrap();
        assert!(other.next_within(Duration::from_millis(30)).is_pending(), "there was memory for two");
        gives_way(&mut resting, &mut other);
        // Now the other has what the first was sure of.
        assert!(resting.next_within(Duration::from_millis(30)).is_pending());
        gives_way(&mut other, &mut resting);
        drop(other);
        assert_eq!(read(resting).unwrap().len(), 100_000 - 100);
        assert_eq!((engine.broker().taken_bytes(), engine.broker().queue().len()), (0, 0));
    }
}

#[test]
fn a_reader_of_rows_in_order_lets_others_start() {
    let (plan, tables) = in_order(100_000);
    for engine in engines() {
        let mut resting = engine.run(&plan, QueryOptions { tables: tables.clone(), ..options(50) }).unwrap();
        assert_eq!(resting.next_blocking().unwrap().unwrap().num_rows(), 50);
        let mut other = engine.run(&numbers(100_000), options(50)).unwrap();
        gives_way(&mut resting, &mut other);
        drop(other);
        assert_eq!(read(resting).unwrap(), (50..100_000).collect::<Vec<_>>());
        assert_eq!((engine.broker().taken_bytes(), engine.broker().queue().len()), (0, 0));
    }
}

#[test]
fn one_thread_may_read_several_queries_in_turn() {
    for engine in engines() {
        let mut streams = (0..3).map(|_| engine.run(&numbers(20_000), options(50)).unwrap()).collect::<Vec<_>>();
        let mut rows = [0; 3];
        for turn in 0..9 {
            for _ in 0..8 {
                rows[turn % 3] += streams[turn % 3].next_blocking().unwrap().unwrap().num_rows();
            }
        }
        for (stream, rows) in streams.into_iter().zip(rows) {
            assert_eq!(rows + read(stream).unwrap().len(), 20_000);
        }
        assert_eq!((engine.broker().taken_bytes(), engine.broker().queue().len()), (0, 0));
    }
}

#[test]
fn a_resting_query_can_be_cancelled_and_dropped() {
    for engine in engines() {
        for is_dropped in [false, true] {
            let mut resting = begun(&engine);
            let mut other = engine.run(&numbers(100_000), options(50)).unwrap();
            gives_way(&mut resting, &mut other);
            assert!(resting.next_within(Duration::from_millis(5)).is_pending());
            if is_dropped {
                drop(resting);
            } else {
                resting.cancel_token().cancel();
                let error = loop {
                    match resting.next_blocking().unwrap() {
                        Ok(_) => {}
                        Err(error) => break error,
                    }
                };
                assert_eq!(error.kind(), ErrorKind::Cancelled);
            }
            assert_eq!(engine.broker().queue(), []);
            assert_eq!(read(other).unwrap().len(), 100_000 - 50);
        }
        let end = Instant::now() + Duration::from_secs(10);
        while engine.broker().taken_bytes() > 0 {
            assert!(Instant::now() < end, "{} bytes are taken", engine.broker().taken_bytes());
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_query_that_has_ended_or_works_is_not_paused() {
    for engine in engines() {
        let mut stream = engine.run(&numbers(40), options(50)).unwrap();
        while stream.next_blocking().is_some() {}
        stream.pause();
        assert!(stream.next_blocking().is_none());
        let mut stream = engine.run(&numbers(1_000), options(50)).unwrap();
        stream.pause();
        assert_eq!(read(stream).unwrap().len(), 1_000);
    }
}

#[test]
fn a_paused_query_that_read_for_a_moment_keeps_nobody_waiting() {
    for engine in engines() {
        for is_cancelled in [false, true] {
            let mut resting = begun(&engine);
            let mut other = engine.run(&numbers(100_000), options(50)).unwrap();
            gives_way(&mut resting, &mut other);
            // It stands in the queue now, and goes away again; or somebody ends it.
            assert!(resting.next_within(Duration::from_millis(5)).is_pending());
            assert_eq!(engine.broker().queue().len(), 1);
            if is_cancelled {
                resting.cancel_token().cancel();
            } else {
                resting.pause();
            }
            let end = Instant::now() + Duration::from_secs(10);
            while !engine.broker().queue().is_empty() {
                assert!(Instant::now() < end, "it still stands in the queue");
                engine.scheduler().run_one();
            }
            assert_eq!(read(other).unwrap().len(), 100_000 - 50);
            drop(resting);
        }
    }
}
