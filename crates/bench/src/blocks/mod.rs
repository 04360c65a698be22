//! The I/O laboratory. `diligence-bench blocks`: what sequences of block requests cost, simulated. `blocks-measured`:
//! the same experiments with real files ([`measured`]). `sort-study`: what a parallel sort's time depends on
//! ([`sort_study`]).
//!
//! A [`sequence`] of requests gets places on [`disk`] and is replayed by a page [`cache`]. Sequences come from the
//! paper's sorts ([`sort`]) and joins ([`join`]), or from a log. The paper is Wang & Cherniack, "Improving Query I/O
//! Performance by Permuting and Refining Block Request Sequences", VLDB 2006. What is found is in
//! `docs/experiments/block-requests.md`.

mod cache;
mod disk;
mod examples;
mod join;
pub mod measured;
mod sequence;
mod sort;
pub mod sort_study;
mod study;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diligence_base::{Error, Result};
use serde_json::{Value, json};

use crate::blocks::cache::{Cache, Counts, Replacement, Replay, ratio};
use crate::blocks::disk::{Allocation, Placed};
use crate::blocks::join::Method;
use crate::blocks::sequence::Sequence;
use crate::report::print_table;

/// The largest cache that can be asked for, in MiB: 16 TiB.
const MIB_MAX: u64 = 1 << 24;

/// What to simulate.
#[derive(Args)]
pub struct BlocksArguments {
    /// Which parts to run.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "examples,sorts,joins", conflicts_with = "replay")]
    parts: Vec<BlocksPart>,
    /// Replay a log of block requests instead, under both policies. The format is in
    /// docs/experiments/block-requests.md.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// With --replay: a file's blocks lie where their numbers say, not in the groups of --group-blocks.
    #[arg(long, requires = "replay")]
    preallocated: bool,
    /// The page cache, in MiB.
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u64).range(1..=MIB_MAX))]
    cache_mib: u64,
    /// Dirty pages beyond this many MiB are written back, those first that are dirty the longest.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=MIB_MAX))]
    dirty_mib: u64,
    /// Pages that are written back together, by ascending address.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    flush_pages: u32,
    /// The largest transfer, in KiB.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=MIB_MAX))]
    transfer_kib: u64,
    /// Adjacent blocks that the file system gives a file at a time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    group_blocks: u32,
    /// Sorts tell the cache that a block of their input is of no more use once it is read.
    #[arg(long)]
    drop_input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BlocksPart {
    /// The paper's Figure 2 and Tables 1 to 3.
    Examples,
    /// Tables 6 and 7: six sorts.
    Sorts,
    /// Tables 9 and 10: two joins.
    Joins,
}

/// Runs the simulation and prints its tables.
pub fn run(arguments: &BlocksArguments) -> Result<Value> {
    if let Some(path) = &arguments.replay {
        return replay(arguments, path);
    }
    let mut report = json!({"benchmark": "blocks"});
    for part in &arguments.parts {
        match part {
            BlocksPart::Examples => report["examples"] = examples()?,
            BlocksPart::Sorts => report["sorts"] = sorts(arguments)?,
            BlocksPart::Joins => report["joins"] = joins(arguments)?,
        }
        println!();
    }
    Ok(report)
}

impl BlocksArguments {
    /// The cache for blocks of this size. An input error if a block is larger than the cache.
    fn cache(&self, block_bytes: u64, replacement: Replacement) -> Result<Cache> {
        let blocks = |bytes: u64| u32::try_from(bytes / block_bytes).unwrap_or(u32::MAX);
        let pages = blocks(self.cache_mib << 20);
        if pages == 0 {
            return Err(Error::input(format!(
                "a cache of {} MiB cannot hold a block of {block_bytes} bytes",
                self.cache_mib
            )));
        }
        Ok(Cache {
            pages,
            replacement,
            dirty_max: blocks(self.dirty_mib << 20),
            flush_pages: self.flush_pages,
            transfer_blocks_max: blocks(self.transfer_kib << 10).max(1),
        })
    }
}

fn examples() -> Result<Value> {
    for (table, replacement) in [(1, Replacement::Lru), (2, Replacement::Optimal)] {
        println!("Table {table} ({}): EMS and MMS with 3 pages", replacement.name());
        let header = ["EMS", "buffer", "I/Os", "MMS", "buffer", "I/Os"].map(str::to_owned);
        print_table(&header, &examples::buffer_table(replacement)?);
        println!();
    }
    let comparisons = examples::comparisons()?;
    println!("The paper's examples");
    let header = ["", "EMS/HHJ", "MMS/SHJ", "paper", "paper"].map(str::to_owned);
    let rows: Vec<Vec<String>> = comparisons
        .iter()
        .map(|row| {
            let counts = [row.plain, row.refined, row.paper.0, row.paper.1];
            std::iter::once(row.what.to_owned()).chain(counts.map(|count| count.to_string())).collect()
        })
        .collect();
    print_table(&header, &rows);
    let values = comparisons
        .iter()
        .map(|row| json!({"what": row.what, "plain": row.plain, "refined": row.refined, "paper": [row.paper.0, row.paper.1]}));
    Ok(values.collect())
}

fn sorts(arguments: &BlocksArguments) -> Result<Value> {
    let cache = arguments.cache(u64::from(study::BLOCK_KIB) << 10, Replacement::Lru)?;
    println!(
        "Sorts: runs of {} KiB merged {} at a time, a cache of {} MiB with at most {} MiB dirty",
        study::RUN_KIB,
        study::FAN_IN,
        arguments.cache_mib,
        arguments.dirty_mib
    );
    let header = [
        "table",
        "sort",
        "read MB",
        "read %",
        "paper",
        "written MB",
        "written %",
        "paper",
        "blocks/region",
        "blocks/seek",
    ]
    .map(str::to_owned);
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for table in &study::SORT_TABLES {
        for (variant, paper_written) in sort::VARIANTS.into_iter().zip(table.write_percent) {
            let outcome = study::sort(table.megabytes, variant, arguments.drop_input, cache, arguments.group_blocks)?;
            let counts = &outcome.counts;
            let paper_read = table.paper_read_percent(&variant);
            let megabytes = |blocks: u64| blocks as f64 / f64::from(study::MIB_BLOCKS);
            let (read, written) = (
                100.0 * ratio(counts.blocks_in, counts.read_requests),
                100.0 * ratio(counts.blocks_out, counts.write_requests),
            );
            rows.push(vec![
                table.name.to_owned(),
                variant.name.to_owned(),
                format!("{:.0}", megabytes(counts.read_requests)),
                format!("{read:.1}"),
                paper_read.map_or_else(String::new, |percent| format!("{percent:.1}")),
                format!("{:.0}", megabytes(counts.write_requests)),
                format!("{written:.1}"),
                format!("{paper_written:.1}"),
                format!("{:.1}", outcome.region_blocks),
                format!("{:.1}", counts.mean_run_blocks()),
            ]);
            values.push(json!({
                "table": table.name, "sort": variant.name, "counts": counts_json(counts),
                "read_percent": read, "paper_read_percent": paper_read,
                "written_percent": written, "paper_written_percent": paper_written,
                "region_blocks": outcome.region_blocks,
            }));
        }
    }
    print_table(&header, &rows);
    Ok(Value::Array(values))
}

fn joins(arguments: &BlocksArguments) -> Result<Value> {
    let cache = arguments.cache(u64::from(study::BLOCK_KIB) << 10, Replacement::Lru)?;
    println!(
        "Joins: {} blocks of memory, groups of {} blocks, a cache of {} MiB with at most {} MiB dirty",
        study::MEMORY_BLOCKS,
        arguments.group_blocks,
        arguments.cache_mib,
        arguments.dirty_mib
    );
    let header = [
        "tables",
        "partitions",
        "formula (2)",
        "pays",
        "join",
        "I/Os",
        "paper",
        "KiB/I/O",
        "paper",
        "seeks",
        "blocks/region",
        "paper",
    ]
    .map(str::to_owned);
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for tables in &study::JOIN_TABLES {
        let partitions = study::partitions(tables)?;
        let together = join::blocks_together(study::MEMORY_BLOCKS, partitions);
        let pays = join::grouping_pays(study::MEMORY_BLOCKS, partitions, arguments.group_blocks);
        for (index, method) in Method::ALL.into_iter().enumerate() {
            let outcome = study::join(tables, method, cache, arguments.group_blocks)?;
            let counts = &outcome.counts;
            let paper = tables.transfers.map(|both| both[index]);
            let paper_region = tables.region_blocks.map(|both| both[index]);
            let transfer_kib = counts.mean_transfer_blocks() * f64::from(study::BLOCK_KIB);
            rows.push(vec![
                tables.name.to_owned(),
                partitions.to_string(),
                format!("{together:.1}"),
                if pays { "yes" } else { "no" }.to_owned(),
                method.name().to_owned(),
                counts.transfers.to_string(),
                paper.map_or_else(String::new, |paper| paper.0.to_string()),
                format!("{transfer_kib:.1}"),
                paper.map_or_else(String::new, |paper| format!("{:.1}", paper.1)),
                counts.seeks.to_string(),
                format!("{:.1}", outcome.region_blocks),
                paper_region.map_or_else(String::new, |blocks| blocks.to_string()),
            ]);
            values.push(json!({
                "tables": tables.name, "join": method.name(), "partitions": partitions, "formula_2": together, "pays": pays,
                "counts": counts_json(counts), "transfer_kib": transfer_kib, "region_blocks": outcome.region_blocks,
                "paper_transfers": paper.map(|paper| paper.0), "paper_transfer_kib": paper.map(|paper| paper.1),
                "paper_region_blocks": paper_region,
            }));
        }
    }
    print_table(&header, &rows);
    Ok(Value::Array(values))
}

fn replay(arguments: &BlocksArguments, path: &Path) -> Result<Value> {
    let file = File::open(path).map_err(|error| Error::file(format!("cannot read {}: {error}", path.display())))?;
    let sequence = Sequence::parse(BufReader::new(file)).map_err(|error| error.context(path.display()))?;
    let mut report = replay_sequence(arguments, &sequence)?;
    report["log"] = json!(path.display().to_string());
    Ok(report)
}

fn replay_sequence(arguments: &BlocksArguments, sequence: &Sequence) -> Result<Value> {
    let allocation =
        if arguments.preallocated { Allocation::Preallocated } else { Allocation::Groups(arguments.group_blocks) };
    let placed = Placed::new(sequence, allocation)?;
    println!(
        "{} requests for {} files, blocks of {} bytes, a cache of {} MiB with at most {} MiB dirty",
        sequence.requests().len(),
        sequence.file_count(),
        sequence.block_bytes(),
        arguments.cache_mib,
        arguments.dirty_mib
    );
    let header = [
        "policy",
        "reads",
        "writes",
        "blocks in",
        "blocks out",
        "never written",
        "left dirty",
        "I/Os",
        "KiB/I/O",
        "seeks",
        "blocks/seek",
    ]
    .map(str::to_owned);
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for replacement in Replacement::ALL {
        let counts = Replay::new(&placed, arguments.cache(sequence.block_bytes(), replacement)?).run();
        let transfer_kib = counts.mean_transfer_blocks() * sequence.block_bytes() as f64 / 1024.0;
        let mut row = vec![replacement.name().to_owned()];
        row.extend(
            [
                counts.read_requests,
                counts.write_requests,
                counts.blocks_in,
                counts.blocks_out,
                counts.blocks_dropped,
                counts.blocks_left,
                counts.transfers,
            ]
            .map(|count| count.to_string()),
        );
        row.extend([
            format!("{transfer_kib:.1}"),
            counts.seeks.to_string(),
            format!("{:.1}", counts.mean_run_blocks()),
        ]);
        rows.push(row);
        values
            .push(json!({"policy": replacement.name(), "counts": counts_json(&counts), "transfer_kib": transfer_kib}));
    }
    print_table(&header, &rows);
    Ok(json!({"benchmark": "blocks", "block_bytes": sequence.block_bytes(), "replays": values}))
}

fn counts_json(counts: &Counts) -> Value {
    json!({
        "read_requests": counts.read_requests, "write_requests": counts.write_requests,
        "blocks_in": counts.blocks_in, "blocks_out": counts.blocks_out,
        "blocks_dropped": counts.blocks_dropped, "blocks_left": counts.blocks_left,
        "transfers": counts.transfers, "seeks": counts.seeks,
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn arguments(words: &[&str]) -> Result<BlocksArguments, clap::Error> {
        let command = BlocksArguments::augment_args(Command::new("blocks").no_binary_name(true));
        BlocksArguments::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(arguments(&[]).unwrap().parts, [BlocksPart::Examples, BlocksPart::Sorts, BlocksPart::Joins]);
        assert_eq!(arguments(&["--parts", "joins,sorts"]).unwrap().parts, [BlocksPart::Joins, BlocksPart::Sorts]);
        assert!(arguments(&["--replay", "log", "--preallocated"]).is_ok());
        for wrong in [["--preallocated", "--cache-mib=1"], ["--parts=joins", "--replay=log"], ["--flush-pages", "0"]] {
            assert!(arguments(&wrong).is_err(), "{wrong:?}");
        }
    }

    /// Two pages of a MiB: reading `in` evicts a block of `a`, which LRU writes and the optimal policy knows to be
    /// freed.
    #[test]
    fn a_log_is_replayed_under_both_policies() -> Result<()> {
        let log = "block 1048576\nw a 0\nw a 1\nr in 0\nf a 0\nr a 1";
        let sequence = Sequence::parse(log.as_bytes())?;
        let words = ["--replay", "log", "--cache-mib", "2", "--flush-pages", "1"];
        let arguments = arguments(&words).map_err(|error| Error::bug(error.to_string()))?;
        let report = replay_sequence(&arguments, &sequence)?;
        let counts = |policy: usize| {
            let counts = &report["replays"][policy]["counts"];
            ["blocks_in", "blocks_out", "blocks_dropped", "blocks_left"].map(|name| counts[name].as_u64())
        };
        assert_eq!(counts(0), [1, 1, 0, 1].map(Some));
        assert_eq!(counts(1), [1, 0, 1, 1].map(Some));
        Ok(())
    }

    #[test]
    fn a_block_larger_than_the_cache_is_an_input_error() -> Result<()> {
        let sequence = Sequence::parse("block 4194304\nw a 0".as_bytes())?;
        let arguments =
            arguments(&["--replay", "log", "--cache-mib", "2"]).map_err(|error| Error::bug(error.to_string()))?;
        let error = replay_sequence(&arguments, &sequence).err();
        let message = error.as_ref().map(Error::message);
        assert_eq!(message, Some("a cache of 2 MiB cannot hold a block of 4194304 bytes"));
        Ok(())
    }
}
