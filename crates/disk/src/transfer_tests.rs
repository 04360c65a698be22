//! Who reads and writes, with real files: what is asked for is what is done, and whoever leaves early harms nobody.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use diligence_base::ErrorKind;
use diligence_base::ids::QueryId;
use diligence_base::seams::Random;
use diligence_memory::Broker;

use super::*;

const CLUSTER: usize = 64 * 1024;

/// Files of a system that refuses an io_uring.
#[derive(Debug)]
struct Refusing(MemoryTempFiles);

impl TempFiles for Refusing {
    fn remove_leftovers(&self, directory: &Path) -> io::Result<usize> {
        self.0.remove_leftovers(directory)
    }

    fn create(&self, directory: &Path, direct: bool) -> io::Result<Arc<dyn TempFile>> {
        self.0.create(directory, direct)
    }

    fn queue(&self, _depth: usize) -> io::Result<Box<dyn TempQueue>> {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

#[test]
fn a_refused_ring_is_replaced_by_threads_unless_it_is_demanded() {
    let options = |io| TempOptions {
        directories: vec![PathBuf::from("/a")],
        io,
        files: Arc::new(Refusing(MemoryTempFiles::default())),
        ..TempOptions::default()
    };
    let shown = |io| TempSpace::open(&options(io)).map(|space| space.info().io.to_string());
    assert_eq!(shown(TempIo::Threads).unwrap(), "threads");
    assert!(shown(TempIo::Auto).unwrap().starts_with("threads (io_uring: Operation not permitted"));
    let error = shown(TempIo::Ring).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.hint().unwrap().contains("--temp-io threads"), "{error}");
    let allowed = TempOptions { files: Arc::new(MemoryTempFiles::default()), ..options(TempIo::Auto) };
    assert_eq!(TempSpace::open(&allowed).unwrap().info().io, TempIoInfo::Ring);
}

/// A space with real files; `None` if it is to have a ring and the system refuses one.
fn local(io: TempIo, direct: bool) -> Option<TempSpace> {
    let options = TempOptions { io, direct, cluster_bytes: CLUSTER, ..TempOptions::default() };
    if io == TempIo::Ring && LocalTempFiles.queue(1).is_err() {
        return None;
    }
    Some(TempSpace::open(&options).unwrap())
}

/// A file of so many clusters, each full of its number and the seed.
fn write(buffers: &SpillBuffers, clusters: usize, seed: usize, grouping: Grouping) -> SpillFile {
    let mut writer = SpillWriter::new(buffers, grouping);
    for cluster in 0..clusters {
        let bytes = if cluster + 1 == clusters { CLUSTER - 100 } else { CLUSTER };
        let room = block_on(|waker| match writer.poll_room(bytes, waker) {
            std::task::Poll::Ready(room) => {
                std::task::Poll::Ready(room.map(|room| room[..bytes].fill((seed + cluster) as u8)))
            }
            std::task::Poll::Pending => std::task::Poll::Pending,
        });
        room.unwrap();
        writer.advance(bytes);
        if writer.waiting_clusters() == 3 {
            writer.submit();
        }
    }
    writer.finish()
}

fn check(reader: &mut SpillReader, clusters: usize, seed: usize) {
    for cluster in 0..clusters {
        let read = block_on(|waker| reader.poll_next(waker)).unwrap().unwrap();
        assert_eq!(read.len(), if cluster + 1 == clusters { CLUSTER - 100 } else { CLUSTER });
        assert!(read.iter().all(|byte| *byte == (seed + cluster) as u8), "cluster {cluster} of {seed}");
    }
    assert!(block_on(|waker| reader.poll_next(waker)).is_none());
}

#[test]
fn real_files_give_back_what_was_written() {
    for io in [TempIo::Threads, TempIo::Ring] {
        for direct in [false, true] {
            let Some(space) = local(io, direct) else { return };
            let broker = Broker::new(64 * CLUSTER);
            let memory = broker.account(QueryId(1), None);
            let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), SpillMemory::default()).unwrap();
            let files: Vec<SpillFile> = (0..6)
                .map(|seed| write(&buffers, 40, seed, if seed % 2 == 0 { Grouping::None } else { Grouping::ByFile }))
                .collect();
            for (seed, file) in files.iter().enumerate() {
                check(&mut file.reader(&buffers, 0..40, ReadOptions { ahead: 3, recycle: false }), 40, seed);
            }
            for (seed, file) in files.into_iter().enumerate() {
                check(&mut file.into_reader(&buffers), 40, seed);
            }
            // What was read last may be on its way out of the reader's hands.
            let end = Instant::now() + Duration::from_secs(10);
            let left = || {
                let info = space.info();
                (info.files, info.directories[0].clusters_used)
            };
            while left() != (0, 0) {
                assert!(Instant::now() < end, "{:?}", left());
                std::thread::yield_now();
            }
            let info = space.info();
            assert!(info.reads_total >= 480 && info.written_bytes_total >= (6 * 40 - 6) * CLUSTER as u64, "{info:?}");
            assert!(space.pool().jobs_total >= 480, "{:?}", space.pool());
        }
    }
}

#[test]
fn whoever_leaves_while_clusters_are_under_way_leaves_nothing() {
    for io in [TempIo::Threads, TempIo::Ring] {
        for seed in 0..10 {
            let Some(space) = local(io, seed % 2 == 0) else { return };
            let broker = Broker::new(256 * CLUSTER);
            let mut random = Random::new(seed);
            let mut clusters = Vec::new();
            for query in 0..6 {
                let memory = broker.account(QueryId(query), None);
                let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), SpillMemory::default()).unwrap();
                let file = write(&buffers, 12, query as usize, Grouping::None);
                if random.below(3) == 0 {
                    continue;
                }
                let mut reader = file.into_reader(&buffers);
                for _ in 0..random.below(4) {
                    clusters.extend(block_on(|waker| reader.poll_next(waker)).map(|read| read.unwrap()));
                }
                // Asked for, and never taken.
                let _ = reader.poll_next(Waker::noop());
            }
            if random.below(2) == 0 {
                space.close();
            }
            drop(clusters);
            while broker.reserved_bytes() > 0 || space.info().files > 0 {
                std::thread::yield_now();
            }
            assert_eq!(space.info().directories[0].clusters_used, 0);
        }
    }
}
