//! The six sorts of Wang & Cherniack 2006 (section 4.1, Tables 5 to 7 and Figure 6), run by the engine.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use diligence_base::{Error, Result};
use serde_json::{Value, json};

use super::counters::Counters;
use super::run::{QueryContext, run, warm};
use super::{Common, MeasuredArguments};
use crate::blocks::cache::{Cache, Replacement, Replay, ratio};
use crate::blocks::disk::{Allocation, Placed};
use crate::blocks::sequence::Sequence;
use crate::blocks::sort;
use crate::blocks::study::{SORT_TABLES, SortTable};
use crate::budgets::records;
use crate::curve;
use crate::report::print_table;

/// The engine's names of [`sort::VARIANTS`], and its default, which the paper does not have.
const SORT_PLANS: [&str; 7] = ["ems", "ems-nr", "mms-nr", "mms(1)", "mms(2)", "mms", "cost"];
const QUERY: &str = "SELECT * FROM records ORDER BY key";

/// Runs every plan over every table.
pub fn run_all(arguments: &MeasuredArguments, root: &Path) -> Result<Value> {
    let common = &arguments.common;
    println!(
        "Sorts by the engine: tables of {} x the paper's size, {} MiB of memory, clusters of {} KiB, {}",
        arguments.scale,
        common.memory_mib,
        arguments.sort_cluster_kib,
        arguments.cache_text()
    );
    let header = [
        "table",
        "MB",
        "sort",
        "s",
        "asked to read MB",
        "read %",
        "simulated",
        "paper",
        "asked to write MB",
        "written %",
        "simulated",
        "paper",
        "KiB/I/O",
    ]
    .map(str::to_owned);
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    let tables: Vec<&SortTable> = SORT_TABLES.iter().filter(|table| arguments.takes(table.name)).collect();
    let mut seconds = vec![Vec::new(); SORT_PLANS.len()];
    for table in &tables {
        let records = (table.megabytes * 1e6 * arguments.scale) as u64 / records::RECORD_BYTES;
        let folder = records::folder(root, records)?;
        warm(&folder)?;
        for (index, plan) in SORT_PLANS.into_iter().enumerate() {
            let one = measure(arguments, common, &folder, plan, records)?;
            super::progress(&format!("{}, {plan}", table.name), one.seconds, &one.counters);
            seconds[index].push(Some(one.seconds));
            let paper_read = sort::VARIANTS.get(index).and_then(|variant| table.paper_read_percent(variant));
            let paper_written = table.write_percent.get(index);
            rows.push(vec![
                table.name.to_owned(),
                (records * records::RECORD_BYTES / 1_000_000).to_string(),
                plan.to_owned(),
                format!("{:.1}", one.seconds),
                one.asked_read_mb.to_string(),
                format!("{:.0}", one.read_percent),
                one.simulated.map_or_else(String::new, |(read, _)| format!("{read:.0}")),
                paper_read.map_or_else(String::new, |percent| format!("{percent:.0}")),
                one.asked_written_mb.to_string(),
                format!("{:.0}", one.written_percent),
                one.simulated.map_or_else(String::new, |(_, written)| format!("{written:.0}")),
                paper_written.map_or_else(String::new, |percent| format!("{percent:.0}")),
                format!("{:.0}", one.counters.disk_request_kib()),
            ]);
            values.push(json!({
                "table": table.name, "records": records, "sort": plan, "seconds": one.seconds,
                "asked_read_mb": one.asked_read_mb, "asked_written_mb": one.asked_written_mb,
                "read_percent": one.read_percent, "written_percent": one.written_percent,
                "simulated_percent": one.simulated, "disk_request_kib": one.counters.disk_request_kib(),
                "paper_read_percent": paper_read, "paper_written_percent": paper_written,
            }));
        }
    }
    print_table(&header, &rows);
    if let Some(folder) = &common.svg {
        let axis: Vec<(String, u64)> =
            tables.iter().map(|table| (table.name.to_owned(), (table.megabytes * 10.0) as u64)).collect();
        let lines: Vec<_> = SORT_PLANS.iter().map(|plan| (*plan).to_owned()).zip(seconds).collect();
        let title = "Sorts, time over size (Figure 6)";
        super::save(folder, "sorts.svg", &curve::draw(title, "s", &axis, &lines))?;
    }
    Ok(Value::Array(values))
}

struct One {
    seconds: f64,
    asked_read_mb: u64,
    asked_written_mb: u64,
    read_percent: f64,
    written_percent: f64,
    /// What the simulated cache makes of the requests that the engine logged, read and written, in percent.
    simulated: Option<(f64, f64)>,
    counters: Counters,
}

fn measure(arguments: &MeasuredArguments, common: &Common, data: &Path, plan: &str, records: u64) -> Result<One> {
    let log = common.temp.join(format!("requests-{}.log", std::process::id()));
    let cluster_bytes = arguments.sort_cluster_kib << 10;
    let context = QueryContext {
        cache: arguments.limit(cluster_bytes),
        cluster_bytes,
        request_log: Some(log.clone()),
        settings: vec![("sort_plan", plan.to_owned())],
        ..common.context(data)
    };
    let group = arguments.group()?;
    let ran = run(&context, QUERY, true);
    drop(group);
    let simulated = arguments.limit(cluster_bytes).map(|_| simulate(arguments, &log)).transpose();
    let _ = std::fs::remove_file(&log);
    let (ran, simulated) = (ran?, simulated?);
    if ran.rows != records {
        return Err(Error::value(format!("{plan}: {} of {records} records came back", ran.rows)));
    }
    Ok(One {
        seconds: ran.seconds,
        asked_read_mb: ran.temp.read_bytes_total / 1_000_000,
        asked_written_mb: ran.temp.written_bytes_total / 1_000_000,
        read_percent: 100.0 * ratio(ran.counters.read_bytes, ran.temp.read_bytes_total),
        written_percent: 100.0 * ratio(ran.counters.written_bytes, ran.temp.written_bytes_total),
        simulated,
        counters: ran.counters,
    })
}

/// Replays a log under LRU with the limits of the measured cache.
fn simulate(arguments: &MeasuredArguments, log: &Path) -> Result<(f64, f64)> {
    let file = File::open(log).map_err(|error| Error::file(format!("cannot read {}: {error}", log.display())))?;
    let sequence = Sequence::parse(BufReader::new(file)).map_err(|error| error.context(log.display()))?;
    let blocks = |mib: u64| u32::try_from((mib << 20) / sequence.block_bytes()).unwrap_or(u32::MAX).max(1);
    let cache = Cache {
        dirty_max: blocks(arguments.dirty_mib),
        flush_pages: blocks(arguments.batch_mib),
        ..Cache::flushing_on_eviction(blocks(arguments.cache_mib), Replacement::Lru)
    };
    let counts = Replay::new(&Placed::new(&sequence, Allocation::Preallocated)?, cache).run();
    let percent = |moved: u64, asked: u64| 100.0 * ratio(moved, asked);
    Ok((percent(counts.blocks_in, counts.read_requests), percent(counts.blocks_out, counts.write_requests)))
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    /// What the engine logs is what the simulator reads: requests that a cache without limits makes no request of the
    /// disk for, and one of a few clusters many.
    #[test]
    fn the_engines_log_is_replayed() {
        let root = std::env::temp_dir().join(format!("diligence-bench-sorts-{}", std::process::id()));
        let temp = root.join("temp");
        std::fs::create_dir_all(&temp).unwrap();
        let log = root.join("log");
        let records = 400_000;
        let words = |cache_mib: &str| {
            let command = MeasuredArguments::augment_args(Command::new("blocks-measured").no_binary_name(true));
            let temp = temp.to_str().unwrap();
            let words = ["--temp", temp, "--cache-mib", cache_mib, "--dirty-mib", cache_mib, "--batch-mib", "1"];
            MeasuredArguments::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
        };
        let arguments = words("8");
        let data = records::folder(&root, records).unwrap();
        for plan in SORT_PLANS {
            let context = QueryContext {
                cluster_bytes: 256 << 10,
                request_log: Some(log.clone()),
                settings: vec![("sort_plan", plan.to_owned())],
                cache: None,
                ..arguments.common.context(&data)
            };
            let ran = run(&context, QUERY, true).unwrap();
            assert_eq!(ran.rows, records);
            assert!(ran.temp.written_bytes_total >= records * records::RECORD_BYTES, "{plan}: {ran:?}");
            let (read, written) = simulate(&arguments, &log).unwrap();
            assert!(read > 10.0 && written > 10.0, "{plan}: {read} % read, {written} % written");
            assert_eq!(simulate(&words("4096"), &log).unwrap(), (0.0, 0.0), "{plan}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
