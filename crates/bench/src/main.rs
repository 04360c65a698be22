//! `diligence-bench`: what the engine costs, beside its rivals and beside itself.
//!
//! Every number is a median of interleaved rounds in one run; claims are ratios. Rivals run from their own Python
//! packages (`bench/rivals/setup`).

mod answers;
mod blocks;
mod budget;
mod budgets;
mod clients;
mod codecs;
mod concurrent;
mod contention;
mod cpu;
mod curve;
mod due;
mod index_costs;
mod mixes;
mod page;
mod planning;
mod policies;
mod pool;
mod promises;
mod random;
mod report;
mod rivals;
mod serve;
mod setup;
mod staged;
mod startup;
mod tpch;
mod tuning;
mod weblog;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use diligence_base::Result;

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
    Tpch(tpch::TpchArguments),
    /// What it costs to start a query: primed packets, threads, processes; `SELECT 1`.
    Startup(startup::StartupArguments),
    /// How long planning takes: TPC-H, the smallest statement, and statements that programs write.
    Planning(planning::PlanningArguments),
    /// Short and long queries together under each policy.
    Policies(policies::PoliciesArguments),
    /// Policies on a production line of modules with common data, simulated: Figure 5 of the staged database.
    Staged(staged::StagedArguments),
    /// Many clients at once, with and without sharing, beside rivals.
    Concurrent(concurrent::ConcurrentArguments),
    /// Two joins that differ in one range, the second so much after the first: Figure 8 of the QPipe paper.
    Overlap(concurrent::overlap::OverlapArguments),
    /// What each query more costs that comes together with others: identical ones, of one template, of a dashboard.
    Satellites(concurrent::satellites::SatellitesArguments),
    /// Many clients of a server over PostgreSQL's protocol, in closed and open loops, beside rivals; `--door`: what the
    /// door costs.
    Clients(clients::ClientsArguments),
    /// Clients of a server whose questions a grammar has drawn from a seed, other ones for each seed, beside rivals.
    Random(random::RandomArguments),
    /// Pages of ten charts over one filter: all at once, and each alone.
    Page(page::PageArguments),
    /// Records of 100 bytes from Parquet to Parquet, in order, at several memory budgets, beside rivals.
    Sort(budgets::SortArguments),
    /// TPC-H lines joined with their orders at several memory budgets, beside rivals.
    Join(budgets::QueryArguments),
    /// TPC-H lines in almost as many groups at several memory budgets, beside rivals.
    Aggregate(budgets::QueryArguments),
    /// 43 questions about a web log at several memory budgets, alone and by many clients, beside rivals.
    WebLog(weblog::WebLogArguments),
    /// The engine's latches with 1 to 64 workers: handoffs, waits, what Amdahl allows.
    Contention(contention::ContentionArguments),
    /// Primed threads, primed processes, forks and fresh processes: what exchanges cost, and what is paid beside them.
    Pool(pool::PoolArguments),
    /// A load that changes, with fixed settings and with the tuner.
    Tuning(tuning::TuningArguments),
    /// Bytes and time of every column of TPC-H and of the web log, as Parquet and as segments of our own.
    Codecs(codecs::CodecsArguments),
    /// What rows cost that are found by an index, beside a scan of all.
    IndexCosts(index_costs::IndexCostsArguments),
    /// Runs statements for the benchmarks above, in a process of its own.
    #[command(hide = true)]
    Serve(serve::ServeArguments),
    /// Sequences of block requests: what sorts, joins and logs cost a page cache and a disk, simulated.
    Blocks(blocks::BlocksArguments),
    /// The same experiments with real files, under a page cache of a given size: six sorts by the engine, partitions of
    /// joins.
    BlocksMeasured(blocks::measured::MeasuredArguments),
    /// What a parallel sort's time depends on: clusters, memory, batches, I/O threads, affinity, workers, size.
    SortStudy(blocks::sort_study::SortStudyArguments),
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
        Benchmark::Planning(arguments) => planning::run(arguments, &command.data)?,
        Benchmark::Policies(arguments) => policies::run(arguments, &command.data)?,
        Benchmark::Staged(arguments) => staged::run(arguments)?,
        Benchmark::Concurrent(arguments) => concurrent::run(arguments, &command.data)?,
        Benchmark::Overlap(arguments) => concurrent::overlap::run(arguments, &command.data)?,
        Benchmark::Satellites(arguments) => concurrent::satellites::run(arguments, &command.data)?,
        Benchmark::Clients(arguments) => clients::run(arguments, &command.data)?,
        Benchmark::Random(arguments) => random::run(arguments, &command.data)?,
        Benchmark::Page(arguments) => page::run(arguments, &command.data)?,
        Benchmark::Sort(arguments) => budgets::sort(arguments, &command.data)?,
        Benchmark::Join(arguments) => budgets::join(arguments, &command.data)?,
        Benchmark::Aggregate(arguments) => budgets::aggregate(arguments, &command.data)?,
        Benchmark::WebLog(arguments) => weblog::run(arguments, &command.data)?,
        Benchmark::Contention(arguments) => contention::run(arguments)?,
        Benchmark::Pool(arguments) => pool::run(arguments)?,
        Benchmark::Tuning(arguments) => tuning::run(arguments, &command.data)?,
        Benchmark::Codecs(arguments) => codecs::run(arguments)?,
        Benchmark::IndexCosts(arguments) => index_costs::run(arguments, &command.data)?,
        Benchmark::Serve(arguments) => serve::run(arguments)?,
        Benchmark::Blocks(arguments) => blocks::run(arguments)?,
        Benchmark::BlocksMeasured(arguments) => blocks::measured::run(arguments, &command.data)?,
        Benchmark::SortStudy(arguments) => blocks::sort_study::run(arguments, &command.data)?,
    };
    if let Some(path) = &command.json {
        std::fs::write(path, format!("{report:#}\n"))
            .map_err(|error| diligence_base::Error::file(format!("cannot write {}: {error}", path.display())))?;
    }
    let broken = promises::broken(&report);
    if broken.is_empty() { Ok(()) } else { Err(diligence_base::Error::value(broken.join("; "))) }
}
