//! HHJ against SHJ (Wang & Cherniack 2006, section 4.2, Tables 8 to 10 and Figure 7): the partitions of a join's two
//! sides, written and read through the engine's temp space, each cluster at once or in groups of one file.
//!
//! The engine groups writes where formula (2) says that it pays, so both ways over the same partitions cannot be had
//! from its join. Here the partitioning phase and the joining phase ask temp space for what the engine's join asks it
//! for: rows are appended to a writer for each partition; then each pair of files is read, build side first, and
//! recycled. Nothing is joined.

use std::sync::Arc;
use std::time::Instant;

use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use diligence_disk::{Grouping, SpillBuffers, SpillFile, SpillMemory, SpillWriter, TempOptions, TempSpace, block_on};
use diligence_memory::QueryMemory;
use serde_json::{Value, json};

use super::MeasuredArguments;
use super::counters::Counters;
use super::extents::Layout;
use super::page_cache::LimitedFiles;
use crate::blocks::cache::ratio;
use crate::blocks::join::{self, Method};
use crate::blocks::study::{self, JOIN_TABLES, JoinTables};
use crate::curve;
use crate::report::{median, print_table};

/// Bytes of a row of Supplier or Partsupp.
const RECORD_BYTES: usize = 200;

/// Runs both methods over every pair of tables.
pub fn run_all(arguments: &MeasuredArguments) -> Result<Value> {
    println!(
        "Partitions in temp space: {} x the paper's records, {} clusters of {} KiB, {}",
        arguments.join_scale,
        study::MEMORY_BLOCKS,
        arguments.join_cluster_kib,
        arguments.cache_text()
    );
    let header = [
        "tables",
        "N",
        "G",
        "pays",
        "join",
        "s",
        "asked MB",
        "read %",
        "written %",
        "KiB/I/O",
        "paper",
        "clusters/region",
        "paper",
        "extents/file",
    ]
    .map(str::to_owned);
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    let tables: Vec<&JoinTables> = JOIN_TABLES.iter().filter(|tables| arguments.takes(tables.name)).collect();
    let mut curves = [Vec::new(), Vec::new()];
    for tables in &tables {
        let count = study::partitions(tables)?;
        let together = join::blocks_together(study::MEMORY_BLOCKS, count);
        // The methods take turns.
        let mut outcomes = [Vec::new(), Vec::new()];
        for _ in 0..arguments.common.rounds {
            for (method, outcomes) in Method::ALL.into_iter().zip(&mut outcomes) {
                let outcome = measure(arguments, tables, method, count)?;
                super::progress(&format!("{}, {}", tables.name, method.name()), outcome.seconds, &outcome.counters);
                outcomes.push(outcome);
            }
        }
        for (index, (method, outcomes)) in Method::ALL.into_iter().zip(&outcomes).enumerate() {
            let seconds = median(&outcomes.iter().map(|outcome| outcome.seconds).collect::<Vec<_>>());
            curves[index].push(Some(seconds));
            let Some(one) = outcomes.last() else { continue };
            let paper_kib = tables.transfers.map(|both| both[index].1);
            let paper_region = tables.region_blocks.map(|both| both[index]);
            rows.push(vec![
                tables.name.to_owned(),
                count.to_string(),
                format!("{together:.1}"),
                if together > f64::from(arguments.group_min) { "yes" } else { "no" }.to_owned(),
                method.name().to_owned(),
                format!("{seconds:.2}"),
                (one.asked_written / 1_000_000).to_string(),
                format!("{:.0}", 100.0 * ratio(one.counters.read_bytes, one.asked_read)),
                format!("{:.0}", 100.0 * ratio(one.counters.written_bytes, one.asked_written)),
                format!("{:.1}", one.counters.disk_request_kib()),
                paper_kib.map_or_else(String::new, |kib| format!("{kib:.1}")),
                format!("{:.1}", one.layout.region_clusters()),
                paper_region.map_or_else(String::new, |blocks| blocks.to_string()),
                format!("{:.1}", one.layout.extents_per_file()),
            ]);
            values.push(json!({
                "tables": tables.name, "partitions": count, "formula_2": together, "join": method.name(), "seconds": seconds,
                "asked_read_bytes": one.asked_read, "asked_written_bytes": one.asked_written,
                "read_bytes": one.counters.read_bytes, "written_bytes": one.counters.written_bytes,
                "disk_request_kib": one.counters.disk_request_kib(), "paper_disk_request_kib": paper_kib,
                "region_clusters": one.layout.region_clusters(), "paper_region_blocks": paper_region,
                "extents_per_file": one.layout.extents_per_file(),
            }));
        }
    }
    print_table(&header, &rows);
    if let Some(folder) = &arguments.common.svg {
        let axis: Vec<(String, u64)> =
            tables.iter().map(|tables| (tables.name.to_owned(), u64::from(tables.megabytes.1))).collect();
        let lines: Vec<_> = Method::ALL.iter().map(|method| method.name().to_owned()).zip(curves).collect();
        let title = "Partitions of HHJ and SHJ, time over size (Figure 7)";
        super::save(folder, "partitions.svg", &curve::draw(title, "s", &axis, &lines))?;
    }
    Ok(Value::Array(values))
}

struct PartitioningOutcome {
    seconds: f64,
    asked_read: u64,
    asked_written: u64,
    counters: Counters,
    layout: Layout,
}

fn measure(
    arguments: &MeasuredArguments,
    tables: &JoinTables,
    method: Method,
    count: u32,
) -> Result<PartitioningOutcome> {
    let folder = &arguments.common.temp;
    let log = folder.join(format!("requests-{}.log", std::process::id()));
    let cluster_bytes = arguments.join_cluster_kib << 10;
    let limited = arguments.limit(cluster_bytes).map(|limit| Arc::new(LimitedFiles::new(limit)));
    let defaults = TempOptions::default();
    let options = TempOptions {
        directories: vec![folder.clone()],
        cluster_bytes,
        direct: limited.is_none(),
        request_log: Some(log.clone()),
        files: match &limited {
            Some(files) => files.clone(),
            None => defaults.files.clone(),
        },
        ..defaults
    };
    let _group = arguments.group()?;
    let before = Counters::now(folder)?;
    let space = TempSpace::open(&options)?;
    let memory = QueryMemory::unbounded();
    let start = Instant::now();
    let records = |megabytes: u32| {
        let clusters = f64::from(megabytes * study::MIB_BLOCKS) * arguments.join_scale;
        clusters as usize * (cluster_bytes / RECORD_BYTES)
    };
    let partitioning = Partitioning { space: &space, memory: &memory, method, count: count as usize };
    // Each side has records of its own, the same for both methods.
    let (build, probe) =
        (partitioning.write(records(tables.megabytes.0), 1)?, partitioning.write(records(tables.megabytes.1), 2)?);
    for (build, probe) in build.into_iter().zip(probe) {
        partitioning.read(build)?;
        partitioning.read(probe)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let info = space.info();
    space.close();
    drop(space);
    let counters = Counters::now(folder)?.since(&before);
    let text = std::fs::read_to_string(&log)
        .map_err(|error| Error::file(format!("cannot read {}: {error}", log.display())))?;
    let _ = std::fs::remove_file(&log);
    let extents = limited.map(|files| files.extents()).unwrap_or_default();
    Ok(PartitioningOutcome {
        seconds,
        asked_read: info.read_bytes_total,
        asked_written: info.written_bytes_total,
        counters,
        layout: Layout::of_log(&text, cluster_bytes as u64, &extents),
    })
}

struct Partitioning<'a> {
    space: &'a TempSpace,
    memory: &'a QueryMemory,
    method: Method,
    count: usize,
}

impl Partitioning<'_> {
    /// So many clusters in memory.
    fn buffers(&self) -> Result<SpillBuffers> {
        let clusters = study::MEMORY_BLOCKS as usize;
        let memory = SpillMemory { clusters_min: clusters, clusters_max: clusters, ..SpillMemory::default() };
        SpillBuffers::new(self.space, self.memory.reservation("Partitions"), memory)
    }

    /// Writes records into their partitions. HHJ keeps those of partition 0.
    fn write(&self, records: usize, seed: u64) -> Result<Vec<Option<SpillFile>>> {
        let buffers = self.buffers()?;
        let (grouping, group) = match self.method {
            Method::Hybrid => (Grouping::None, 1),
            Method::Sorted => {
                (Grouping::ByFile, join::blocks_together(study::MEMORY_BLOCKS, self.count as u32).max(1.0) as usize)
            }
        };
        let mut writers: Vec<SpillWriter> = (0..self.count).map(|_| SpillWriter::new(&buffers, grouping)).collect();
        let mut random = Random::new(seed);
        let record: [u8; RECORD_BYTES] = std::array::from_fn(|_| random.below(256) as u8);
        for _ in 0..records {
            let partition = random.below(self.count);
            if self.method == Method::Hybrid && partition == 0 {
                continue;
            }
            if writers[partition].room() < record.len() && buffers.at_hand() == 0 {
                // All memory waits to be written in groups: the longest one has waited long enough.
                if let Some(longest) = writers.iter_mut().max_by_key(|writer| writer.waiting_clusters()) {
                    longest.submit();
                }
            }
            let writer = &mut writers[partition];
            let mut done = 0;
            while done < record.len() {
                done += block_on(|waker| writer.poll_append(&record[done..], waker))?;
            }
            if writer.waiting_clusters() >= group {
                writer.submit();
            }
        }
        let is_kept = |partition: usize| self.method == Method::Hybrid && partition == 0;
        let files = writers.into_iter().enumerate();
        Ok(files.map(|(partition, writer)| (!is_kept(partition)).then(|| writer.finish())).collect())
    }

    fn read(&self, file: Option<SpillFile>) -> Result<()> {
        let Some(file) = file else { return Ok(()) };
        let mut reader = file.into_reader(&self.buffers()?);
        while let Some(cluster) = block_on(|waker| reader.poll_next(waker)) {
            cluster?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use diligence_disk::MemoryTempFiles;

    use super::*;

    /// Regions of HHJ are single clusters, those of SHJ as long as the formula says, nothing is lost, and no memory is
    /// kept.
    #[test]
    fn grouped_writes_lie_side_by_side() {
        for (method, least, most) in [(Method::Hybrid, 1.0, 1.5), (Method::Sorted, 8.0, 40.0)] {
            let log =
                std::env::temp_dir().join(format!("diligence-partitions-{}-{}", method.name(), std::process::id()));
            let options = TempOptions {
                cluster_bytes: 4096,
                request_log: Some(log.clone()),
                files: Arc::new(MemoryTempFiles::default()),
                ..TempOptions::default()
            };
            let space = TempSpace::open(&options).unwrap();
            let memory = QueryMemory::unbounded();
            let partitioning = Partitioning { space: &space, memory: &memory, method, count: 8 };
            let files = partitioning.write(20_000, 1).unwrap();
            let kept = files.iter().filter(|file| file.is_none()).count();
            assert_eq!(kept, usize::from(method == Method::Hybrid));
            files.into_iter().for_each(|file| partitioning.read(file).unwrap());
            let info = space.info();
            let written = 20_000 * RECORD_BYTES as u64 * (8 - kept as u64) / 8;
            assert!(info.written_bytes_total.abs_diff(written) < written / 10, "{info:?}");
            assert_eq!(info.read_bytes_total, info.written_bytes_total);
            space.close();
            drop(space);
            let text = std::fs::read_to_string(&log).unwrap();
            std::fs::remove_file(&log).unwrap();
            let layout = Layout::of_log(&text, 4096, &Default::default());
            let region = layout.region_clusters();
            assert!((least..most).contains(&region), "{}: {region}", method.name());
            assert_eq!(memory.reserved_bytes(), 0);
        }
    }
}
