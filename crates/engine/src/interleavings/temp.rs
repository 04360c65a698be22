//! Temp space: writers, readers, I/O threads and owners who leave: nobody waits for ever, and nothing is left.

use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::Result;
use diligence_base::ids::QueryId;
use diligence_base::seams::ManualClock;
use diligence_disk::{
    Fault, Grouping, MemoryTempFiles, ReadOptions, SpillBuffers, SpillFile, SpillMemory, SpillReader, SpillWriter,
    TempIo, TempOptions, TempSpace, block_on,
};
use diligence_memory::{Broker, QueryMemory};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::{DrivenSpawn, interleave};

const CLUSTER: usize = 4096;

fn open(files: &MemoryTempFiles) -> TempSpace {
    TempSpace::open(&TempOptions {
        directories: vec![PathBuf::from("/a"), PathBuf::from("/b")],
        cluster_bytes: CLUSTER,
        threads: 2,
        io: if thread_rng().gen_bool(0.5) { TempIo::Ring } else { TempIo::Threads },
        files: Arc::new(files.clone()),
        clock: Arc::new(ManualClock::stepping(1)),
        spawn: Arc::new(DrivenSpawn),
        ..TempOptions::default()
    })
    .unwrap()
}

fn buffers(space: &TempSpace, memory: &QueryMemory, clusters: usize) -> SpillBuffers {
    let bounds = SpillMemory { clusters_min: clusters, clusters_max: clusters, writes_max: 1 };
    SpillBuffers::new(space, memory.reservation("Sort"), bounds).unwrap()
}

fn write(buffers: &SpillBuffers, clusters: usize) -> Result<SpillFile> {
    let mut writer = SpillWriter::new(buffers, Grouping::None);
    for cluster in 0..clusters {
        let room = block_on(|waker| match writer.poll_room(CLUSTER, waker) {
            std::task::Poll::Ready(room) => std::task::Poll::Ready(room.map(|room| room.fill(cluster as u8 + 1))),
            std::task::Poll::Pending => std::task::Poll::Pending,
        });
        room?;
        writer.advance(CLUSTER);
    }
    Ok(writer.finish())
}

fn read(reader: &mut SpillReader) -> Result<usize> {
    let mut clusters = 0;
    while let Some(cluster) = block_on(|waker| reader.poll_next(waker)) {
        clusters += 1;
        assert!(cluster?.iter().all(|byte| usize::from(*byte) == clusters), "each cluster in its place");
    }
    Ok(clusters)
}

/// Ends everything; nothing is left.
fn end(space: TempSpace, files: &MemoryTempFiles, broker: &Broker) {
    space.close();
    assert!(space.info().directories.iter().all(|directory| directory.clusters_used == 0));
    assert_eq!((space.info().files, broker.reserved_bytes()), (0, 0));
    drop(space);
    assert_eq!(files.files(), 0);
}

#[test]
fn writers_that_share_buffers_take_turns() {
    interleave(1_000, || {
        let files = MemoryTempFiles::default();
        let (space, broker) = (open(&files), Broker::new(4 * CLUSTER));
        let buffers = buffers(&space, &broker.account(QueryId(1), None), 4);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let buffers = buffers.clone();
                thread::spawn(move || {
                    let file = write(&buffers, 3).unwrap();
                    assert_eq!(read(&mut file.into_reader(&buffers)).unwrap(), 3);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(buffers);
        end(space, &files, &broker);
    });
}

#[test]
fn who_leaves_in_the_middle_leaves_nothing() {
    interleave(1_000, || {
        let files = MemoryTempFiles::default();
        let (space, broker) = (open(&files), Broker::new(20 * CLUSTER));
        let buffers = buffers(&space, &broker.account(QueryId(1), None), 6);
        let kept = write(&buffers, 2).unwrap();
        let (own, file) = (buffers.clone(), kept.clone());
        let leaver = thread::spawn(move || {
            // Reads and writes are under way when their owners go.
            let mut reader = file.reader(&own, 0..2, ReadOptions { ahead: 1, recycle: false });
            drop(block_on(|waker| reader.poll_next(waker)));
            drop((reader, file));
            drop(write(&own, 2));
        });
        assert_eq!(read(&mut kept.into_reader(&buffers)).unwrap(), 2);
        leaver.join().unwrap();
        drop(buffers);
        end(space, &files, &broker);
    });
}

#[test]
fn a_failed_operation_wakes_whoever_waits() {
    interleave(1_000, || {
        // The two first operations of each directory open it.
        let files = MemoryTempFiles::failing(Fault::Broken, 4 + thread_rng().gen_range(0..8));
        let (space, broker) = (open(&files), Broker::new(20 * CLUSTER));
        let buffers = buffers(&space, &broker.account(QueryId(1), None), 3);
        let outcome = write(&buffers, 3).and_then(|file| read(&mut file.into_reader(&buffers)));
        if let Ok(clusters) = outcome {
            assert_eq!(clusters, 3);
        }
        drop(buffers);
        end(space, &files, &broker);
    });
}

#[test]
fn closing_ends_everybody_who_waits() {
    interleave(1_000, || {
        let files = MemoryTempFiles::default();
        let (space, broker) = (open(&files), Broker::new(20 * CLUSTER));
        let buffers = buffers(&space, &broker.account(QueryId(1), None), 3);
        let thread = thread::spawn(move || {
            let outcome = write(&buffers, 3).and_then(|file| read(&mut file.into_reader(&buffers)));
            assert!(outcome.is_err() || outcome.is_ok_and(|clusters| clusters == 3));
        });
        space.close();
        thread.join().unwrap();
        end(space, &files, &broker);
    });
}
