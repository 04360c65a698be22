//! Every fault at every operation: the right rows or an error, and nothing is left.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use diligence_base::ids::QueryId;
use diligence_base::{ErrorKind, Result};
use diligence_disk::{Fault, Grouping, MemoryTempFiles, SpillMemory, TempIo, TempOptions, TempSpace, block_on};
use diligence_memory::{Broker, QueryMemory};

use super::*;
use crate::batch::Batch;

const CLUSTER: usize = 4096;
const BATCHES: usize = 6;

/// Threads, and who reads and writes.
const BY: [(usize, TempIo); 3] = [(0, TempIo::Threads), (2, TempIo::Threads), (2, TempIo::Ring)];

fn batch(partition: usize, step: usize) -> Batch {
    let first = (1000 * partition + 100 * step) as i64;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 60));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (first..first + 60).map(|row| format!("a text that is not short: {row}")),
    ));
    Batch::from_arrays(vec![numbers, texts], 60)
}

/// What an operator does that spills: partitions written in turn and in groups, one dropped, the rest read, one twice.
fn spill(space: &TempSpace, memory: &QueryMemory) -> Result<()> {
    let bounds = SpillMemory { clusters_min: 6, writes_max: 2, ..SpillMemory::default() };
    let buffers = SpillBuffers::new(space, memory.reservation("HashJoin"), bounds)?;
    let mut writers: Vec<_> = (0..3)
        .map(|index| BatchWriter::new(&buffers, if index == 1 { Grouping::ByFile } else { Grouping::None }))
        .collect();
    for step in 0..BATCHES {
        for (partition, writer) in writers.iter_mut().enumerate() {
            block_on(|waker| writer.poll_write(&batch(partition, step), waker))?;
            if writer.waiting_clusters() > 1 {
                writer.submit();
            }
        }
    }
    let mut files: Vec<_> = writers.into_iter().map(BatchWriter::finish).collect();
    drop(files.pop());
    check(files[1].reader(&buffers, ReadOptions::default()), 1)?;
    for (partition, file) in files.into_iter().enumerate() {
        check(file.into_reader(&buffers), partition)?;
    }
    Ok(())
}

fn check(mut reader: BatchReader, partition: usize) -> Result<()> {
    let mut rows = 0;
    while let Some(batch_read) = block_on(|waker| reader.poll_next(waker)) {
        let read = batch_read?;
        let whole = batch(partition, rows / 60);
        for (index, column) in read.columns().iter().enumerate() {
            let expected = whole.column(index).slice(rows % 60, read.rows());
            assert_eq!(&column.flat()?, &expected.flat()?);
        }
        rows += read.rows();
    }
    assert_eq!(rows, 60 * BATCHES, "no row is lost without an error");
    Ok(())
}

/// Runs it with a fault. Whether the fault came so late that nothing was left to go wrong, and the error.
fn run(fault: Fault, at: u64, (threads, io): (usize, TempIo)) -> (bool, Result<()>) {
    let files = MemoryTempFiles::failing(fault, at);
    let options = TempOptions {
        directories: vec![PathBuf::from("/one"), PathBuf::from("/two")],
        cluster_bytes: CLUSTER,
        threads,
        io,
        files: Arc::new(files.clone()),
        ..TempOptions::default()
    };
    let broker = Broker::new(40 * CLUSTER);
    let memory = broker.account(QueryId(1), None);
    let space = match TempSpace::open(&options) {
        Ok(space) => space,
        Err(error) => {
            assert_eq!(files.files(), 0);
            return (false, Err(error));
        }
    };
    let outcome = spill(&space, &memory);
    let is_over = files.operations() <= at;
    // What is under way may take a moment; then nothing is left, and the next query runs.
    while memory.reserved_bytes() > 0 || space.info().files > 0 || space.pool().running + space.pool().queued > 0 {
        std::thread::yield_now();
    }
    assert!(
        space.info().directories.iter().all(|directory| directory.clusters_used == 0),
        "{fault:?} at {at}: {space:?}"
    );
    files.heal();
    spill(&space, &broker.account(QueryId(2), None))
        .unwrap_or_else(|error| panic!("{fault:?} at {at}, the next: {error}"));
    space.close();
    drop(space);
    assert_eq!((files.files(), files.bytes()), (0, 0), "{fault:?} at {at}");
    (is_over, outcome)
}

fn sweep(fault: Fault, by: (usize, TempIo), judge: impl Fn(u64, Result<()>)) {
    for at in 0.. {
        let (is_over, outcome) = run(fault, at, by);
        if is_over {
            assert!(at > 30 && outcome.is_ok(), "the sweep has seen all operations");
            return;
        }
        judge(at, outcome);
    }
}

#[test]
fn a_full_disk_at_any_operation_ends_one_query_with_an_error() {
    for by in BY {
        sweep(Fault::Full, by, |at, outcome| {
            // Once all is written, a full disk does no harm; and what no write needs any more is not missed.
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::Resource, "at {at}: {error}");
                assert!(error.message().contains("is full") && error.hint().is_some(), "at {at}: {error}");
            }
        });
    }
}

#[test]
fn a_failed_operation_ends_one_query_with_an_error_that_names_the_directory() {
    for by in BY {
        for fault in [Fault::Broken, Fault::Empty] {
            sweep(fault, by, |at, outcome| {
                if let Err(error) = outcome {
                    assert!(matches!(error.kind(), ErrorKind::File | ErrorKind::Input), "{fault:?} at {at}: {error}");
                    assert!(
                        error.message().contains("/one") || error.message().contains("/two"),
                        "{fault:?} at {at}: {error}"
                    );
                    assert!(error.hint().is_some());
                }
            });
        }
    }
}

#[test]
fn short_and_slow_operations_are_carried_on() {
    for by in BY {
        for fault in [Fault::Short, Fault::Slow(Duration::from_micros(300))] {
            sweep(fault, by, |at, outcome| outcome.unwrap_or_else(|error| panic!("{fault:?} at {at}: {error}")));
        }
    }
}

#[test]
fn a_flipped_bit_is_found() {
    for by in BY {
        let found = std::cell::Cell::new(0);
        sweep(Fault::Flip, by, |at, outcome| {
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::File, "at {at}: {error}");
                assert!(error.message().contains("checksum"), "at {at}: {error}");
                found.set(found.get() + 1);
            }
        });
        // All reads and writes but those of the partition that nobody reads.
        assert!(found.get() > 20, "{} flips were found", found.get());
    }
}
