//! Spill files of bytes: what comes back, where it lies, what it holds.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::ids::QueryId;
use diligence_base::seams::Random;
use diligence_base::{ErrorKind, Result};
use diligence_memory::{Broker, QueryMemory};

use super::*;

const CLUSTER: usize = 4096;

/// Temp space in memory, without threads.
fn options(files: &MemoryTempFiles) -> TempOptions {
    TempOptions {
        directories: vec![PathBuf::from("/a")],
        cluster_bytes: CLUSTER,
        threads: 0,
        files: Arc::new(files.clone()),
        ..TempOptions::default()
    }
}

fn open(options: &TempOptions) -> TempSpace {
    TempSpace::open(options).unwrap()
}

fn buffers(space: &TempSpace, memory: &QueryMemory) -> SpillBuffers {
    SpillBuffers::new(space, memory.reservation("Sort"), SpillMemory::default()).unwrap()
}

/// Bytes that differ from cluster to cluster and from file to file.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..bytes).map(|_| random.below(256) as u8).collect()
}

fn append(writer: &mut SpillWriter, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += block_on(|waker| writer.poll_append(&bytes[done..], waker))?;
    }
    Ok(())
}

fn write(buffers: &SpillBuffers, bytes: &[u8]) -> Result<SpillFile> {
    let mut writer = SpillWriter::new(buffers, Grouping::None);
    append(&mut writer, bytes)?;
    Ok(writer.finish())
}

fn read(reader: &mut SpillReader) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(cluster) = block_on(|waker| reader.poll_next(waker)) {
        bytes.extend_from_slice(&cluster?);
    }
    Ok(bytes)
}

fn used(space: &TempSpace) -> Vec<usize> {
    space.info().directories.iter().map(|directory| directory.clusters_used).collect()
}

#[test]
fn bytes_come_back_from_real_files() {
    let directories: Vec<_> = (0..2)
        .map(|index| std::env::temp_dir().join(format!("diligence-temp-test-{}-{index}", std::process::id())))
        .collect();
    for direct in [false, true] {
        let space = open(&TempOptions {
            directories: directories.clone(),
            cluster_bytes: 16 * CLUSTER,
            direct,
            threads: 3,
            ..TempOptions::default()
        });
        let memory = QueryMemory::unbounded();
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let buffers = buffers(&space, &memory);
                scope.spawn(move || {
                    let bytes = content(seed, 1_000_000 + 777 * seed as usize);
                    let file = write(&buffers, &bytes).unwrap();
                    assert_eq!(file.clusters(), bytes.len().div_ceil(16 * CLUSTER));
                    for _ in 0..2 {
                        let mut reader = file.reader(&buffers, 0..file.clusters(), ReadOptions::default());
                        assert!(read(&mut reader).unwrap() == bytes);
                    }
                    assert!(read(&mut file.into_reader(&buffers)).unwrap() == bytes);
                });
            }
        });
        space.close();
        let info = space.info();
        assert!(info.directories.iter().all(|directory| directory.clusters_used == 0 && directory.clusters_free > 0));
        assert!(info.read_bytes_total >= 3 * info.written_bytes_total && info.written_bytes_total > 4_000_000);
        assert_eq!((info.files, memory.reserved_bytes()), (0, 0));
        for directory in &directories {
            assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0, "files have no names");
        }
    }
    directories.iter().for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let fail = |options: TempOptions| TempSpace::open(&options).map(drop).unwrap_err();
    let files = MemoryTempFiles::default();
    for cluster_bytes in [0, 1000, 1 << 31] {
        let error = fail(TempOptions { cluster_bytes, ..options(&files) });
        assert!(error.kind() == ErrorKind::Input && error.message().contains("4096"), "{error}");
    }
    let error = fail(TempOptions { directories: vec![], ..options(&files) });
    assert_eq!(error.kind(), ErrorKind::Input);
    let nowhere = TempOptions { directories: vec![PathBuf::from("/dev/null/x")], threads: 0, ..TempOptions::default() };
    let error = fail(nowhere);
    assert!(error.message().contains("/dev/null/x") && error.hint().is_some_and(|hint| hint.contains("--temp-dir")));
}

#[test]
fn freed_clusters_are_taken_again_the_lowest_first() {
    let files = MemoryTempFiles::default();
    let space = open(&options(&files));
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let first = write(&buffers, &content(1, 4 * CLUSTER)).unwrap();
    let second = write(&buffers, &content(2, 4 * CLUSTER)).unwrap();
    let grown = files.bytes();
    drop(first);
    assert_eq!((used(&space), space.info().recycled_total), (vec![4], 0));
    let third = write(&buffers, &content(3, 3 * CLUSTER)).unwrap();
    assert_eq!((used(&space), space.info().recycled_total, files.bytes()), (vec![7], 3, grown));
    for (seed, file, clusters) in [(2, second, 4), (3, third, 3)] {
        assert!(read(&mut file.into_reader(&buffers)).unwrap() == content(seed, clusters * CLUSTER));
    }
    assert_eq!(used(&space), [0]);
    drop(buffers);
    drop(space);
    assert_eq!(files.files(), 0);
}

#[test]
fn a_reader_frees_each_cluster_that_it_has_read() {
    let files = MemoryTempFiles::default();
    let space = open(&options(&files));
    let memory = QueryMemory::unbounded();
    let buffers = buffers(&space, &memory);
    let file = write(&buffers, &content(1, 6 * CLUSTER)).unwrap();
    let mut reader = file.reader(&buffers, 0..6, ReadOptions { ahead: 1, recycle: true });
    assert_eq!(used(&space), [6], "nothing is read before it is asked for");
    let cluster = block_on(|waker| reader.poll_next(waker)).unwrap().unwrap();
    assert_eq!(used(&space), [4], "the first one and the one read ahead");
    assert!(*cluster == content(1, 6 * CLUSTER)[..CLUSTER]);
    assert_eq!(space.info().consumed_total, 2);
    let error = block_on(|waker| file.reader(&buffers, 0..6, ReadOptions::default()).poll_next(waker)).unwrap();
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Bug);
    drop((reader, file));
    assert_eq!(used(&space), [0]);
    assert!(memory.reserved_bytes() >= CLUSTER, "the cluster in memory");
    drop((cluster, buffers));
    assert_eq!(memory.reserved_bytes(), 0);
}

/// What was read ahead and freed behind a cluster that could not be read is still there.
#[test]
fn a_reader_goes_on_after_an_error() {
    let bytes = content(1, 8 * CLUSTER);
    let mut errors = 0;
    for at in 0..40 {
        let files = MemoryTempFiles::failing(Fault::Flip, at);
        let Ok(space) = TempSpace::open(&options(&files)) else { continue };
        let memory = QueryMemory::unbounded();
        let buffers = buffers(&space, &memory);
        let Ok(file) = write(&buffers, &bytes) else { continue };
        let mut reader = file.reader(&buffers, 0..8, ReadOptions { ahead: 3, recycle: true });
        let (mut read, mut failed) = (Vec::new(), 0);
        while let Some(cluster) = block_on(|waker| reader.poll_next(waker)) {
            match cluster {
                Ok(cluster) => read.extend_from_slice(&cluster),
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::Bug, "operation {at}: {error}");
                    failed += 1;
                    // What was written wrongly stays so.
                    if failed == 3 {
                        break;
                    }
                }
            }
        }
        assert!(failed == 3 || read == bytes, "operation {at}");
        errors += failed;
        drop((reader, file));
        assert_eq!(used(&space), [0]);
    }
    assert!(errors > 0, "no operation was a read");
}

#[test]
fn any_cluster_can_be_read() {
    let files = MemoryTempFiles::default();
    let space = open(&options(&files));
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let bytes = content(1, 10 * CLUSTER);
    let file = write(&buffers, &bytes).unwrap();
    let mut reader = file.reader(&buffers, 0..10, ReadOptions { ahead: 3, recycle: false });
    let mut random = Random::new(7);
    for _ in 0..50 {
        let at = random.below(10);
        reader.seek(at);
        for cluster in at..(at + 2).min(10) {
            assert_eq!(reader.position(), cluster);
            let read = block_on(|waker| reader.poll_next(waker)).unwrap().unwrap();
            assert!(*read == bytes[cluster * CLUSTER..(cluster + 1) * CLUSTER]);
        }
    }
    let mut part = file.reader(&buffers, 3..5, ReadOptions::default());
    assert!(read(&mut part).unwrap() == bytes[3 * CLUSTER..5 * CLUSTER]);
}

#[test]
fn clusters_that_were_closed_early_come_back_as_they_are() {
    let space = open(&TempOptions { direct: true, ..options(&MemoryTempFiles::default()) });
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let mut writer = SpillWriter::new(&buffers, Grouping::None);
    let parts = [&b"one"[..], b"two and more", b"", b"three"];
    for part in parts {
        append(&mut writer, part).unwrap();
        writer.close_cluster();
    }
    assert_eq!(writer.next_cluster(), 3);
    let room = block_on(|waker| writer.poll_room(10, waker).map(|room| room.map(|room| room.len()))).unwrap();
    assert_eq!(room, CLUSTER);
    let error = block_on(|waker| writer.poll_room(CLUSTER + 1, waker).map(|room| room.map(|_| ()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    let file = writer.finish();
    assert_eq!((file.clusters(), file.bytes()), (3, 20));
    let mut reader = file.into_reader(&buffers);
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        assert_eq!(&*block_on(|waker| reader.poll_next(waker)).unwrap().unwrap(), part);
    }
    assert!(block_on(|waker| reader.poll_next(waker)).is_none());
}

#[test]
fn a_group_is_written_side_by_side_with_one_call() {
    let space = open(&options(&MemoryTempFiles::default()));
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let mut writers: Vec<_> = (0..3).map(|_| SpillWriter::new(&buffers, Grouping::ByFile)).collect();
    for step in 0..8 {
        for (index, writer) in writers.iter_mut().enumerate() {
            append(writer, &content(100 * index as u64 + step, CLUSTER)).unwrap();
        }
    }
    assert_eq!((space.info().writes_total, writers[1].waiting_clusters(), buffers.clusters()), (0, 8, 24));
    writers.iter_mut().for_each(SpillWriter::submit);
    assert_eq!((space.info().writes_total, space.info().written_bytes_total), (3, 24 * CLUSTER as u64));
    assert_eq!(buffers.clusters(), 0);
    for (index, writer) in writers.into_iter().enumerate() {
        let expected: Vec<u8> = (0..8).flat_map(|step| content(100 * index as u64 + step, CLUSTER)).collect();
        assert!(read(&mut writer.finish().into_reader(&buffers)).unwrap() == expected);
    }
}

#[test]
fn files_are_striped() {
    let directories = vec![PathBuf::from("/a"), PathBuf::from("/b"), PathBuf::from("/c")];
    let space = open(&TempOptions { directories, ..options(&MemoryTempFiles::default()) });
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let capacity = 64 << 20 >> 12;
    let files: Vec<_> = (0..3).map(|seed| write(&buffers, &content(seed, 3 * CLUSTER)).unwrap()).collect();
    assert_eq!(used(&space), [3, 3, 3]);
    let mut large = SpillWriter::new(&buffers, Grouping::None);
    for _ in 0..2 * capacity {
        append(&mut large, &[1; CLUSTER]).unwrap();
    }
    assert!(used(&space).iter().all(|used| *used >= 2 * capacity / 3), "{:?}", used(&space));
    for (seed, file) in files.into_iter().enumerate() {
        assert!(read(&mut file.into_reader(&buffers)).unwrap() == content(seed as u64, 3 * CLUSTER));
    }
}

#[test]
fn a_quota_ends_one_writer_and_frees_its_space() {
    let space =
        open(&TempOptions { quota_bytes: Some(10 * CLUSTER as u64 + 1), ..options(&MemoryTempFiles::default()) });
    let memory = QueryMemory::unbounded();
    let own = buffers(&space, &memory);
    let kept = write(&own, &content(1, 4 * CLUSTER)).unwrap();
    let mut writer = SpillWriter::new(&own, Grouping::None);
    let error = append(&mut writer, &content(2, 8 * CLUSTER)).unwrap_err();
    assert_eq!((error.kind(), used(&space)), (ErrorKind::Resource, vec![10]));
    assert!(error.message().contains("40.0 KiB") && error.hint().is_some_and(|hint| hint.contains("quota")), "{error}");
    assert!(append(&mut writer, b"more").is_err(), "it stays failed");
    let failed = writer.finish();
    assert!(read(&mut failed.reader(&own, 0..8, ReadOptions::default())).is_err());
    drop(failed);
    assert_eq!(used(&space), [4]);
    let other = write(&own, &content(3, 6 * CLUSTER)).unwrap();
    assert!(read(&mut other.into_reader(&own)).unwrap() == content(3, 6 * CLUSTER));
    assert!(read(&mut kept.into_reader(&own)).unwrap() == content(1, 4 * CLUSTER));
    drop(own);
    assert_eq!((used(&space), memory.reserved_bytes()), (vec![0], 0));
}

#[test]
fn what_is_left_of_a_nearly_full_disk_is_used() {
    // Smaller and smaller steps are tried, down to what is needed.
    let files = MemoryTempFiles::failing(Fault::Full, 2);
    let space = open(&options(&files));
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let error =
        write(&buffers, &content(1, CLUSTER)).and_then(|file| read(&mut file.into_reader(&buffers))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    assert!(error.message().contains("/a is full"), "{error}");
    // From 64 MiB down to one cluster of 4 KiB.
    assert_eq!(files.operations(), 2 + 15);
    files.heal();
    let file = write(&buffers, &content(1, CLUSTER)).unwrap();
    assert!(read(&mut file.into_reader(&buffers)).unwrap() == content(1, CLUSTER));
}

#[test]
fn a_file_gives_back_what_it_does_not_need() {
    let cluster_bytes = 16 << 20;
    let files = MemoryTempFiles::default();
    let space = open(&TempOptions { cluster_bytes, ..options(&files) });
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let mut written: Vec<_> = (0..50)
        .map(|_| {
            let mut writer = SpillWriter::new(&buffers, Grouping::None);
            append(&mut writer, b"little, in a cluster of its own").unwrap();
            writer.finish()
        })
        .collect();
    assert!(files.bytes() >= 50 * cluster_bytes as u64);
    let last = written.split_off(1);
    drop(last);
    let after = files.bytes();
    assert!(after <= (2 + 16 + 16) * cluster_bytes as u64, "{} clusters are left", after / cluster_bytes as u64);
    assert_eq!(used(&space), [1]);
    assert_eq!(&read(&mut written.remove(0).into_reader(&buffers)).unwrap(), b"little, in a cluster of its own");
}

#[test]
fn buffers_stay_within_their_bounds() {
    let files = MemoryTempFiles::default();
    let space = open(&TempOptions { threads: 2, ..options(&files) });
    let broker = Broker::new(5 * CLUSTER);
    let memory = broker.account(QueryId(1), None);
    let bounds = SpillMemory { clusters_min: 3, clusters_max: 4, writes_max: 2 };
    let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), bounds).unwrap();
    assert_eq!((memory.reserved_bytes(), buffers.at_hand()), (3 * CLUSTER, 3));
    let mut writers: Vec<_> = (0..2).map(|_| SpillWriter::new(&buffers, Grouping::None)).collect();
    for step in 0..100 {
        for writer in &mut writers {
            append(writer, &content(step, CLUSTER / 3)).unwrap();
            assert!(buffers.clusters() <= 4);
        }
    }
    assert!(memory.peak_bytes() <= 4 * CLUSTER);
    let files: Vec<_> = writers.into_iter().map(SpillWriter::finish).collect();
    for file in &files {
        block_on(|waker| file.poll_written(waker)).unwrap();
        assert_eq!(file.bytes(), 100 * (CLUSTER as u64 / 3));
    }
    buffers.release_spare();
    assert_eq!(memory.reserved_bytes(), 3 * CLUSTER, "the minimum stays");
    // Another query has the rest: there is no memory to read ahead, but enough to read.
    let mut other = broker.account(QueryId(2), None).reservation("HashJoin");
    other.grow(2 * CLUSTER).unwrap();
    let expected: Vec<u8> = (0..100).flat_map(|step| content(step, CLUSTER / 3)).collect();
    let mut readers: Vec<_> = files.into_iter().map(|file| file.into_reader(&buffers)).collect();
    for reader in &mut readers {
        assert!(read(reader).unwrap() == expected);
    }
    assert_eq!(memory.peak_bytes().max(3 * CLUSTER), memory.peak_bytes());
    drop((readers, buffers));
    assert_eq!(memory.reserved_bytes(), 0);
}

#[test]
fn buffers_that_nobody_needs_for_a_while_are_not_kept() {
    let files = MemoryTempFiles::default();
    let space = open(&options(&files));
    let broker = Broker::new(4 * CLUSTER);
    let memory = broker.account(QueryId(1), None);
    let bounds = SpillMemory { clusters_min: 3, ..SpillMemory::default() };
    let buffers = SpillBuffers::new(&space, memory.reservation("Aggregate"), bounds).unwrap();
    let mut writers: Vec<_> = (0..3).map(|_| SpillWriter::new(&buffers, Grouping::None)).collect();
    for writer in &mut writers {
        append(writer, &content(1, 100)).unwrap();
    }
    buffers.keep(0);
    assert_eq!(memory.reserved_bytes(), 3 * CLUSTER, "they are being filled");
    writers.iter_mut().for_each(SpillWriter::close_cluster);
    assert_eq!((memory.reserved_bytes(), buffers.at_hand()), (0, 0));
    let mut other = broker.account(QueryId(2), None).reservation("HashJoin");
    other.grow(2 * CLUSTER).unwrap();
    buffers.keep(3);
    assert_eq!((memory.reserved_bytes(), buffers.at_hand()), (3 * CLUSTER, 3), "beyond the budget");
    buffers.keep(0);
    assert_eq!(memory.reserved_bytes(), 0, "it keeps what it kept");
    drop(other);
    append(&mut writers[0], &content(1, 100)).unwrap();
    let mut reader = writers.remove(0).finish().into_reader(&buffers);
    assert!(read(&mut reader).unwrap() == [content(1, 100), content(1, 100)].concat());
    drop((reader, writers));
    buffers.keep(0);
    assert_eq!(memory.reserved_bytes(), 0);
}

#[test]
fn without_memory_and_without_a_write_to_wait_for_there_is_an_error() {
    let space = open(&options(&MemoryTempFiles::default()));
    let broker = Broker::new(2 * CLUSTER);
    let memory = broker.account(QueryId(1), None);
    let buffers = buffers(&space, &memory);
    let mut writers: Vec<_> = (0..3).map(|_| SpillWriter::new(&buffers, Grouping::None)).collect();
    append(&mut writers[0], b"a").unwrap();
    append(&mut writers[1], b"b").unwrap();
    assert_eq!(append(&mut writers[2], b"c").unwrap_err().kind(), ErrorKind::Resource);
    drop(writers.remove(0));
    append(&mut writers[1], b"c").unwrap();
    assert_eq!(read(&mut writers.remove(1).finish().into_reader(&buffers)).unwrap(), b"c");
    let too_much = SpillMemory { clusters_min: 3, ..SpillMemory::default() };
    let error = SpillBuffers::new(&space, memory.reservation("Sort"), too_much).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
}

#[test]
fn read_ahead_never_takes_what_was_reserved_for_need() {
    let space = open(&options(&MemoryTempFiles::default()));
    let broker = Broker::new(4 * CLUSTER);
    let bounds = SpillMemory { clusters_min: 3, ..SpillMemory::default() };
    let buffers = SpillBuffers::new(&space, broker.account(QueryId(1), None).reservation("Sort"), bounds).unwrap();
    let file = write(&buffers, &content(1, 9 * CLUSTER)).unwrap();
    buffers.release_spare();
    let mut reader = file.reader(&buffers, 0..9, ReadOptions { ahead: 8, recycle: false });
    let first = block_on(|waker| reader.poll_next(waker)).unwrap().unwrap();
    assert_eq!(buffers.clusters(), 2, "one wanted, one ahead");
    // The two others of the minimum are there for whoever needs them.
    let mut writers: Vec<_> = (0..2).map(|_| SpillWriter::new(&buffers, Grouping::None)).collect();
    writers.iter_mut().for_each(|writer| append(writer, b"needed").unwrap());
    assert_eq!((buffers.clusters(), buffers.at_hand()), (4, 0));
    drop((first, writers));
}

#[test]
fn a_packet_is_woken_when_a_cluster_arrives() {
    struct Flag(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }
    // Every operation on the files waits until it is let go: here, until the first read was asked for.
    let slow = MemoryTempFiles::failing(Fault::Slow(std::time::Duration::from_millis(20)), 4);
    let space = open(&TempOptions { threads: 1, ..options(&slow) });
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let file = write(&buffers, &content(1, CLUSTER)).unwrap();
    block_on(|waker| file.poll_written(waker)).unwrap();
    let flag = Arc::new(Flag(false.into()));
    let waker = Waker::from(flag.clone());
    let mut reader = file.into_reader(&buffers);
    assert!(reader.poll_next(&waker).is_pending());
    while !flag.0.load(std::sync::atomic::Ordering::SeqCst) {
        std::thread::yield_now();
    }
    assert!(matches!(reader.poll_next(&waker), Poll::Ready(Some(Ok(_)))));
    assert!(space.info().waits_total >= 1);
}

#[test]
fn requests_are_logged_in_their_order() {
    let path = std::env::temp_dir().join(format!("diligence-request-log-{}", std::process::id()));
    let space = open(&TempOptions { request_log: Some(path.clone()), ..options(&MemoryTempFiles::default()) });
    let buffers = buffers(&space, &QueryMemory::unbounded());
    let kept = write(&buffers, &content(1, CLUSTER)).unwrap();
    let file = write(&buffers, &content(2, 2 * CLUSTER)).unwrap();
    read(&mut file.reader(&buffers, 0..2, ReadOptions { ahead: 0, recycle: true })).unwrap();
    drop(file);
    drop(write(&buffers, &content(3, CLUSTER)).unwrap());
    drop(kept);
    space.info();
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let expected = "block 4096\n# 1 0 is at 0 0\nw 1 0\n# 2 0 is at 0 1\nw 2 0\n# 2 1 is at 0 2\nw 2 1\nr 2 0\nf 2 0\nr 2 1\nf 2 1\n\
                    # 3 0 is at 0 1\nw 3 0 over 2 0\nf 3 0\nf 1 0\n";
    assert_eq!(log, expected);
}

#[test]
fn many_lives_at_once_keep_their_bytes_apart_and_leave_nothing() {
    for seed in 0..20u64 {
        let files = MemoryTempFiles::default();
        let directories = vec![PathBuf::from("/a"), PathBuf::from("/b")];
        let io = if seed.is_multiple_of(3) { TempIo::Ring } else { TempIo::Threads };
        let space =
            open(&TempOptions { directories, threads: 2, io, direct: seed.is_multiple_of(2), ..options(&files) });
        let broker = Broker::new(64 * CLUSTER);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let memory = broker.account(QueryId(thread), None);
                let space = &space;
                scope.spawn(move || live(space, &memory, 100 * seed + thread));
            }
        });
        space.close();
        assert!(used(&space).iter().all(|used| *used == 0), "seed {seed}");
        assert_eq!((space.info().files, broker.reserved_bytes()), (0, 0), "seed {seed}");
    }
}

/// An operator that writes, reads and drops files in any order.
fn live(space: &TempSpace, memory: &QueryMemory, seed: u64) {
    let mut random = Random::new(seed);
    let bounds = SpillMemory { clusters_min: 8, clusters_max: 16, writes_max: 1 + random.below(4) };
    let buffers = SpillBuffers::new(space, memory.reservation("HashJoin"), bounds).unwrap();
    let mut files: Vec<(SpillFile, Vec<u8>)> = Vec::new();
    for step in 0..60 {
        let chosen = random.below(files.len().max(1));
        match random.below(4) {
            0 | 1 => {
                let bytes = content(1000 * seed + step, 1 + random.below(6 * CLUSTER));
                let grouping = if random.below(2) == 0 { Grouping::None } else { Grouping::ByFile };
                let mut writer = SpillWriter::new(&buffers, grouping);
                for part in bytes.chunks(1 + random.below(2 * CLUSTER)) {
                    append(&mut writer, part).unwrap();
                    if writer.waiting_clusters() > random.below(3) {
                        writer.submit();
                    }
                }
                if random.below(5) > 0 {
                    files.push((writer.finish(), bytes));
                }
            }
            2 if !files.is_empty() => {
                let (file, bytes) = &files[chosen];
                let from = random.below(file.clusters() + 1);
                let ahead = random.below(4);
                let mut reader = file.reader(&buffers, from..file.clusters(), ReadOptions { ahead, recycle: false });
                assert!(read(&mut reader).unwrap() == bytes[(from * CLUSTER).min(bytes.len())..], "seed {seed}");
            }
            3 if !files.is_empty() => {
                let (file, bytes) = files.swap_remove(chosen);
                let mut reader = file.into_reader(&buffers);
                if random.below(2) == 0 {
                    assert!(read(&mut reader).unwrap() == bytes, "seed {seed}");
                }
            }
            _ => buffers.release_spare(),
        }
    }
}

/// Where the process that is killed in the next test spills to; set in that process only.
const KILLED_VARIABLE: &str = "DILIGENCE_TEST_SPILL_TO";

#[test]
fn a_killed_process_leaves_nothing() {
    if let Some(directory) = std::env::var_os(KILLED_VARIABLE) {
        let options = TempOptions { directories: vec![directory.into()], ..TempOptions::default() };
        let space = open(&options);
        let file = write(&buffers(&space, &QueryMemory::unbounded()), &content(1, 3 << 20)).unwrap();
        block_on(|waker| file.poll_written(waker)).unwrap();
        println!("spilled");
        std::thread::park();
        return;
    }
    let directory = std::env::temp_dir().join(format!("diligence-killed-{}", std::process::id()));
    let mut process = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            concat!(module_path!(), "::a_killed_process_leaves_nothing").split_once("::").unwrap().1,
            "--exact",
            "--nocapture",
        ])
        .env(KILLED_VARIABLE, &directory)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(process.stdout.take().unwrap()));
    assert!(lines.map_while(std::result::Result::ok).any(|line| line.contains("spilled")));
    process.kill().unwrap();
    process.wait().unwrap();
    let space = open(&TempOptions { directories: vec![directory.clone()], threads: 0, ..TempOptions::default() });
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    let buffers = buffers(&space, &QueryMemory::unbounded());
    assert!(read(&mut write(&buffers, b"the next one").unwrap().into_reader(&buffers)).unwrap() == b"the next one");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn small_budgets_have_smaller_clusters() {
    let bytes = |budget: usize| TempOptions::within(budget).cluster_bytes;
    assert_eq!(
        [1, 16 << 20, 100 << 20, 128 << 20, 256 << 20, 8 << 30].map(bytes),
        [64 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 1 << 20]
    );
}
