//! `diligence-bench blocks-measured`: the experiments of Wang & Cherniack 2006 with real files, beside what
//! [`study`](super::study) simulates and the paper measured.
//!
//! Temp space gets a page cache of a given size ([`page_cache`]), or the process a control group ([`group`]). What is
//! asked for is what temp space counts; what is read and written is what the system counts for this process
//! ([`counters`]). Inputs are read into memory beforehand, so that bytes from the disk are those of temp space. Request
//! sizes are the disk's, whoever else uses it.

pub mod counters;
mod extents;
mod group;
mod joins;
pub mod page_cache;
pub mod run;
mod sorts;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diligence_base::limits::IO_THREADS;
use diligence_base::{Error, Result};
use diligence_db::{TempIo, TempOptions};
use serde_json::{Value, json};

use self::counters::Counters;
use self::group::Group;
use self::page_cache::Limit;
use self::run::QueryContext;

/// What all measured studies take.
#[derive(Args)]
pub struct Common {
    /// Where temp space is: on the disk that is measured.
    #[arg(long)]
    temp: PathBuf,
    /// The memory budget of a query, in MiB. A row group of the records takes 12 of them.
    #[arg(long, default_value_t = 32)]
    memory_mib: usize,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Rounds, of which the median counts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Draw the curves into files in this folder.
    #[arg(long)]
    svg: Option<PathBuf>,
}

impl Common {
    /// How a query over the tables of a folder is run: past the page cache, all else as by default.
    pub fn context(&self, data: &Path) -> QueryContext {
        QueryContext {
            data: data.to_owned(),
            temp: self.temp.clone(),
            workers: self.workers,
            memory_bytes: self.memory_mib << 20,
            cluster_bytes: TempOptions::within(self.memory_mib << 20).cluster_bytes,
            io_threads: IO_THREADS,
            io: TempIo::default(),
            cache: None,
            request_log: None,
            settings: Vec::new(),
            pinned: false,
        }
    }

    /// The median's rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Makes the folders that are written to.
    pub fn make_folders(&self) -> Result<()> {
        for folder in std::iter::once(&self.temp).chain(&self.svg) {
            std::fs::create_dir_all(folder)
                .map_err(|error| Error::file(format!("cannot make {}: {error}", folder.display())))?;
        }
        Ok(())
    }

    /// Where curves are drawn.
    pub fn svg(&self) -> Option<&Path> {
        self.svg.as_deref()
    }
}

/// What to measure.
#[derive(Args)]
pub struct MeasuredArguments {
    #[command(flatten)]
    common: Common,
    /// Which experiments.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sorts,joins")]
    parts: Vec<MeasuredPart>,
    /// Only the tables with these names, such as Small-1.
    #[arg(long, value_delimiter = ',')]
    tables: Vec<String>,
    /// The sizes of the tables that are sorted, as a multiple of the paper's.
    #[arg(long, default_value_t = 0.25)]
    scale: f64,
    /// The same for the tables that are joined.
    #[arg(long, default_value_t = 1.0)]
    join_scale: f64,
    /// Clusters of sorts, in KiB.
    #[arg(long, default_value_t = 1024)]
    sort_cluster_kib: usize,
    /// Clusters of joins, in KiB: the paper's pages.
    #[arg(long, default_value_t = 8)]
    join_cluster_kib: usize,
    /// The page cache of temp space, in MiB; 0 to go past it.
    #[arg(long, default_value_t = 200)]
    cache_mib: u64,
    /// How much of it may be dirty, in MiB.
    #[arg(long, default_value_t = 75)]
    dirty_mib: u64,
    /// Have the system limit the page cache, by a control group with so much memory beside what a query may have: it
    /// takes rights on the machine. How much may be dirty is then the system's rule.
    #[arg(long)]
    cgroup: bool,
    /// How much is written or dropped together, in MiB.
    #[arg(long, default_value_t = 4)]
    batch_mib: u64,
    /// Clusters of one file from which on the engine groups writes.
    #[arg(long, default_value_t = 2)]
    group_min: u32,
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MeasuredPart {
    /// Tables 5 to 7, Figure 6
    Sorts,
    /// Tables 8 to 10, Figure 7
    Joins,
}

impl MeasuredArguments {
    fn takes(&self, table: &str) -> bool {
        self.tables.is_empty() || self.tables.iter().any(|name| name.eq_ignore_ascii_case(table))
    }

    /// The page cache of temp space with such clusters.
    fn limit(&self, cluster_bytes: usize) -> Option<Limit> {
        let bytes = |mib: u64| if self.cgroup { u64::MAX } else { mib << 20 };
        (self.cache_mib > 0).then_some(Limit {
            cache_bytes: bytes(self.cache_mib),
            dirty_bytes: bytes(self.dirty_mib),
            batch_bytes: self.batch_mib << 20,
            page_bytes: cluster_bytes as u64,
        })
    }

    /// The control group of a run, if the system is to limit the page cache.
    fn group(&self) -> Result<Option<Group>> {
        let mib = self.cache_mib + self.common.memory_mib as u64;
        (self.cgroup && self.cache_mib > 0).then(|| Group::enter(mib << 20)).transpose()
    }

    fn cache_text(&self) -> String {
        match self.cache_mib {
            mib if self.cgroup && mib > 0 => format!("a control group with {mib} MiB beside the query's memory"),
            0 => "past the page cache".to_owned(),
            mib => format!("a page cache of {mib} MiB with at most {} MiB dirty", self.dirty_mib),
        }
    }
}

/// Runs the experiments and prints their tables.
pub fn run(arguments: &MeasuredArguments, root: &Path) -> Result<Value> {
    arguments.common.make_folders()?;
    let mut report = json!({
        "benchmark": "blocks-measured", "scale": arguments.scale, "join_scale": arguments.join_scale,
        "memory_mib": arguments.common.memory_mib, "workers": arguments.common.workers,
        "cache_mib": arguments.cache_mib, "cgroup": arguments.cgroup, "dirty_mib": arguments.dirty_mib,
    });
    for part in &arguments.parts {
        let (name, value) = match part {
            MeasuredPart::Sorts => ("sorts", sorts::run_all(arguments, root)?),
            MeasuredPart::Joins => ("joins", joins::run_all(arguments)?),
        };
        report[name] = value;
        println!();
    }
    Ok(report)
}

/// Says on standard error what has been measured: the tables come when all has.
pub fn progress(what: &str, seconds: f64, counters: &Counters) {
    let (read, written) = (counters.read_bytes / 1_000_000, counters.written_bytes / 1_000_000);
    eprintln!("{what}: {seconds:.2} s, {read} MB from the disk, {written} MB to it");
}

/// Writes a drawing into a folder.
pub fn save(folder: &Path, name: &str, drawing: &str) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, drawing).map_err(|error| Error::file(format!("cannot write {}: {error}", path.display())))
}
