//! `diligence-bench`: what the engine costs, beside its rivals and beside itself.
//!
//! Every number is a median of interleaved rounds in one run; claims are ratios. Rivals run from their own Python packages
//! (`bench/rivals/setup`).

mod blocks;
mod concurrent;
mod policies;
mod report;
mod rivals;
mod startup;
mod tpch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use diligence_base::Result;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks of Diligence.
#[derive(Parser)]
#[command(name = "diligence-bench", version)]
struct Command {
    /// Where generated data is kept.
    #[arg(long, global = true, default_value = "data")]
    data: PathBuf,
    /// Also write the results as JSON to this file.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// The 22 TPC-H queries on Parquet files, hot, beside rivals.
    Tpch(tpch::Arguments),
    /// What it costs to start a query: primed packets, threads, processes; `SELECT 1`.
    Startup(startup::Arguments),
    /// Short and long queries together under each policy.
    Policies(policies::Arguments),
    /// Many clients at once, with and without sharing, beside rivals.
    Concurrent(concurrent::Arguments),
    /// Sequences of block requests: what sorts, joins and logs cost a page cache and a disk, simulated.
    Blocks(blocks::Arguments),
}

fn main() -> ExitCode {
    let command = Command::parse();
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    let report = match &command.benchmark {
        Benchmark::Tpch(arguments) => tpch::run(arguments, &command.data)?,
        Benchmark::Startup(arguments) => startup::run(arguments)?,
        Benchmark::Policies(arguments) => policies::run(arguments, &command.data)?,
        Benchmark::Concurrent(arguments) => concurrent::run(arguments, &command.data)?,
        Benchmark::Blocks(arguments) => blocks::run(arguments)?,
    };
    if let Some(path) = &command.json {
        std::fs::write(path, format!("{report:#}\n"))
            .map_err(|error| diligence_base::Error::file(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}
