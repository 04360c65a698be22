//! `diligence-bench sort-study`: the study of Graefe & Thakkar, *Tuning a Parallel Database Algorithm on a
//! Shared-memory Multiprocessor* (1992), on today's machine and with this engine: what the time of a parallel sort of
//! 100-byte records depends on.
//!
//! Each experiment changes one thing and leaves the rest as it is by default. Values of an experiment take turns, round
//! after round, and medians count. Temp space goes past the page cache, as the paper's raw disks did; the input comes
//! from memory, and the rows are dropped as they come, so that what moves on the disk is runs.

use std::path::Path;

use clap::{Args, ValueEnum};
use diligence_base::{Error, Result};
use diligence_db::{TempIo, TempOptions};
use serde_json::{Value, json};

use super::measured::run::{QueryContext, Ran, run as run_query, warm};
use super::measured::{Common, progress, save};
use crate::budgets::records;
use crate::curve;
use crate::report::{median, print_table};

/// Records of the largest input file; more are this file several times.
const FILE_RECORDS_MAX: u64 = 10_000_000;

/// What to measure.
#[derive(Args)]
pub struct SortStudyArguments {
    #[command(flatten)]
    common: Common,
    /// Which experiments.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "clusters,memory,batches,threads,io,affinity,workers"
    )]
    parts: Vec<StudyPart>,
    /// Records of 100 bytes that are sorted.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// The sizes that `sizes` and `workers` sort, in records.
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    sizes: Vec<u64>,
    /// Workers at most.
    #[arg(long, default_value_t = 4)]
    workers_max: usize,
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StudyPart {
    /// The unit of I/O (Figure 2)
    Clusters,
    /// The memory of the sort (Table I)
    Memory,
    /// Rows per batch, which are what is pinned and passed on at once: one row is the paper's simple scheme (Table II)
    Batches,
    /// Threads that read ahead and write behind; none is neither (section 7)
    Threads,
    /// Those threads, or an io_uring
    Io,
    /// Workers bound to processors or not (Table IV)
    Affinity,
    /// 1 to N workers (Figures 1 and 7)
    Workers,
    /// The size of the input
    Sizes,
}

/// One value of an experiment.
struct Case {
    /// The value in tables, and on the axis of a drawing.
    name: String,
    axis: u64,
    /// Cases of one series are a line of the drawing.
    series: String,
    records: u64,
    context: QueryContext,
}

/// Runs the experiments and prints their tables.
pub fn run(arguments: &SortStudyArguments, root: &Path) -> Result<Value> {
    arguments.common.make_folders()?;
    let mut report = json!({
        "benchmark": "sort-study", "rows": arguments.rows, "rounds": arguments.common.rounds(),
    });
    for part in &arguments.parts {
        let (title, cases) = cases(*part, arguments, root)?;
        report[part_name(*part)] = measure(*part, title, &cases, arguments)?;
        println!();
    }
    Ok(report)
}

fn part_name(part: StudyPart) -> String {
    part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The title of an experiment and its values.
fn cases(part: StudyPart, arguments: &SortStudyArguments, root: &Path) -> Result<(&'static str, Vec<Case>)> {
    let default = |records: u64| -> Result<QueryContext> {
        Ok(arguments.common.context(&records::folder(root, records.min(FILE_RECORDS_MAX))?))
    };
    let context = default(arguments.rows)?;
    let case = |name: String, axis: u64, context: QueryContext| Case {
        name,
        axis,
        series: "sort".to_owned(),
        records: arguments.rows,
        context,
    };
    Ok(match part {
        StudyPart::Clusters => {
            let sizes = [32, 64, 128, 256, 512, 1024, 2048, 4096];
            let of = |kib: usize| {
                case(format!("{kib} KiB"), kib as u64, QueryContext { cluster_bytes: kib << 10, ..context.clone() })
            };
            ("time over the size of a cluster", sizes.into_iter().map(of).collect())
        }
        StudyPart::Memory => {
            let sizes = [32, 64, 128, 256, 512, 1024, 2048];
            let of = |mib: usize| {
                let (memory_bytes, clusters) = (mib << 20, TempOptions::within(mib << 20));
                let context = QueryContext { memory_bytes, cluster_bytes: clusters.cluster_bytes, ..context.clone() };
                case(format!("{mib} MiB"), mib as u64, context)
            };
            ("time over memory", sizes.into_iter().map(of).collect())
        }
        StudyPart::Batches => {
            let of = |rows: u64| {
                let settings = vec![("batch_rows", rows.to_string())];
                case(format!("{rows} rows"), rows, QueryContext { settings, ..context.clone() })
            };
            ("time over rows per batch", [1, 16, 256, 1024, 8192].into_iter().map(of).collect())
        }
        StudyPart::Threads => {
            let of = |threads: usize| {
                case(
                    format!("{threads} threads"),
                    threads.max(1) as u64,
                    QueryContext { io_threads: threads, ..context.clone() },
                )
            };
            ("time over threads of temp space", [0, 1, 2, 4, 8].into_iter().map(of).collect())
        }
        StudyPart::Io => {
            let of = |(axis, name, io): (u64, &str, TempIo)| {
                case(name.to_owned(), axis, QueryContext { io, ..context.clone() })
            };
            let ways = [(1, "threads", TempIo::Threads), (2, "io_uring", TempIo::Ring)];
            ("threads of temp space or io_uring", ways.into_iter().map(of).collect())
        }
        StudyPart::Affinity => {
            let of = |pinned: bool| {
                let name = if pinned { "bound" } else { "free" };
                case(name.to_owned(), 1 + u64::from(pinned), QueryContext { pinned, ..context.clone() })
            };
            ("workers bound to processors or free", [false, true].into_iter().map(of).collect())
        }
        StudyPart::Workers => {
            let mut cases = Vec::new();
            for &records in &arguments.sizes {
                let context = default(records)?;
                for workers in 1..=arguments.workers_max {
                    let name = format!("{}, {workers}", megabytes(records));
                    let context = QueryContext { workers, ..context.clone() };
                    cases.push(Case { name, axis: workers as u64, series: megabytes(records), records, context });
                }
            }
            ("speed-up over workers", cases)
        }
        StudyPart::Sizes => {
            let mut cases = Vec::new();
            for &records in &arguments.sizes {
                cases.push(Case {
                    name: megabytes(records),
                    axis: records,
                    series: "sort".to_owned(),
                    records,
                    context: default(records)?,
                });
            }
            ("time over size", cases)
        }
    })
}

/// The size of so many records.
fn megabytes(records: u64) -> String {
    format!("{} MB", records * records::RECORD_BYTES / 1_000_000)
}

/// The query that sorts so many records.
fn query(records: u64) -> String {
    let copies = records.div_ceil(FILE_RECORDS_MAX).max(1);
    let union = vec!["SELECT * FROM records"; copies as usize].join(" UNION ALL ");
    format!("SELECT * FROM ({union}) ORDER BY key")
}

fn measure(part: StudyPart, title: &str, cases: &[Case], arguments: &SortStudyArguments) -> Result<Value> {
    let mut ran: Vec<Vec<Ran>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..arguments.common.rounds() {
        for (case, ran) in cases.iter().zip(&mut ran) {
            warm(&case.context.data)?;
            let one = run_query(&case.context, &query(case.records), true)?;
            let expected = case.records.min(FILE_RECORDS_MAX) * case.records.div_ceil(FILE_RECORDS_MAX).max(1);
            if one.rows != expected {
                return Err(Error::value(format!("{}: {} of {expected} records came back", case.name, one.rows)));
            }
            progress(&case.name, one.seconds, &one.counters);
            ran.push(one);
        }
    }
    let seconds_of: Vec<f64> =
        ran.iter().map(|ran| median(&ran.iter().map(|one| one.seconds).collect::<Vec<_>>())).collect();
    println!("Sorts of {}-byte records: {title}", records::RECORD_BYTES);
    let header = ["", "s", "MB/s", "x first", "written MB", "read MB", "reads and writes", "waits"].map(str::to_owned);
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for ((case, ran), seconds) in cases.iter().zip(&ran).zip(&seconds_of) {
        let Some(last) = ran.last() else { continue };
        let temp = &last.temp;
        let rate = (last.rows * records::RECORD_BYTES) as f64 / 1e6 / seconds;
        let gain = first(cases, &seconds_of, case) / seconds;
        rows.push(vec![
            case.name.clone(),
            format!("{seconds:.2}"),
            format!("{rate:.0}"),
            format!("{gain:.2}"),
            (temp.written_bytes_total / 1_000_000).to_string(),
            (temp.read_bytes_total / 1_000_000).to_string(),
            (temp.reads_total + temp.writes_total).to_string(),
            temp.waits_total.to_string(),
        ]);
        values.push(json!({
            "name": case.name, "value": case.axis, "records": last.rows, "seconds": seconds,
            "rounds_s": ran.iter().map(|one| one.seconds).collect::<Vec<_>>(), "gain": gain,
            "written_bytes": temp.written_bytes_total, "read_bytes": temp.read_bytes_total,
            "requests": temp.reads_total + temp.writes_total, "waits": temp.waits_total,
        }));
    }
    print_table(&header, &rows);
    if let Some(folder) = arguments.common.svg().filter(|_| part != StudyPart::Affinity) {
        let drawing = draw(part, title, cases, &seconds_of);
        save(folder, &format!("sort-{}.svg", part_name(part)), &drawing)?;
    }
    Ok(Value::Array(values))
}

/// The seconds of the first case of the same series.
fn first(cases: &[Case], seconds: &[f64], case: &Case) -> f64 {
    cases.iter().zip(seconds).find(|(other, _)| other.series == case.series).map_or(0.0, |(_, seconds)| *seconds)
}

/// A line for each series: seconds, or for workers how many times faster than one, beside what would be ideal.
fn draw(part: StudyPart, title: &str, cases: &[Case], seconds: &[f64]) -> String {
    let mut axis: Vec<(u64, String)> = Vec::new();
    for case in cases {
        if !axis.iter().any(|(value, _)| *value == case.axis) {
            let name = if part == StudyPart::Workers { case.axis.to_string() } else { case.name.clone() };
            axis.push((case.axis, name));
        }
    }
    let mut names: Vec<&str> = cases.iter().map(|case| case.series.as_str()).collect();
    names.dedup();
    let number = |series: &str, value: u64| {
        let at = cases.iter().position(|case| case.series == series && case.axis == value)?;
        Some(if part == StudyPart::Workers { first(cases, seconds, &cases[at]) / seconds[at] } else { seconds[at] })
    };
    let mut lines: Vec<(String, Vec<Option<f64>>)> = names
        .into_iter()
        .map(|name| (name.to_owned(), axis.iter().map(|(value, _)| number(name, *value)).collect()))
        .collect();
    if part == StudyPart::Workers {
        lines.push(("ideal".to_owned(), axis.iter().map(|(value, _)| Some(*value as f64)).collect()));
    }
    let axis: Vec<(String, u64)> = axis.into_iter().map(|(value, name)| (name, value)).collect();
    curve::draw(title, if part == StudyPart::Workers { "x" } else { "s" }, &axis, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(series: &str, workers: u64) -> Case {
        let common = QueryContext {
            data: "data".into(),
            temp: "temp".into(),
            workers: workers as usize,
            memory_bytes: 0,
            cluster_bytes: 0,
            io_threads: 0,
            io: TempIo::Threads,
            cache: None,
            request_log: None,
            settings: Vec::new(),
            pinned: false,
        };
        Case { name: workers.to_string(), axis: workers, series: series.to_owned(), records: 1, context: common }
    }

    #[test]
    fn speed_up_is_drawn_beside_the_ideal_for_each_size() {
        let cases = [case("100 MB", 1), case("100 MB", 2), case("1000 MB", 1), case("1000 MB", 2)];
        let seconds = [4.0, 2.0, 50.0, 30.0];
        assert_eq!(first(&cases, &seconds, &cases[3]), 50.0);
        let svg = draw(StudyPart::Workers, "speed-up", &cases, &seconds);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.contains(">ideal<") && svg.contains(">2 x<"), "{svg}");
    }

    #[test]
    fn more_records_than_a_file_has_are_the_file_several_times() {
        assert_eq!(query(1000).matches("UNION ALL").count(), 0);
        assert_eq!(query(3 * FILE_RECORDS_MAX).matches("UNION ALL").count(), 2);
    }
}
