//! The staged model simulated: which policy answers soonest on a production line of modules whose common data must be
//! fetched again after every change of module (Harizopoulos, "Staged Database Systems", thesis proposal, section 3.3,
//! Figures 4 and 5).
//!
//! Queries of a Poisson process come to the first module of a [`mod@line`] and pass all of them; [`policies`] say who
//! is served next; [`theory`] knows the means of some of them without simulating. Times are those of the model, in
//! milliseconds; no clock is read, and a seed gives the same numbers on every machine. Beside the model, [`probes`]
//! measures the case study of section 4.1.2. What is found is in `docs/experiments/staged.md`.

mod estimate;
#[cfg(test)]
mod golden;
mod line;
mod map;
mod policies;
mod probes;
mod theory;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diligence_base::{Error, Result};
use serde_json::{Value, json};

use self::estimate::{Estimate, NORMAL_95, mean_of_late};
use self::line::{Line, Queries, Sizes};
use self::policies::Policy;
use crate::curve;
use crate::report::print_table;

/// What to simulate, and what to measure.
#[derive(Args)]
pub struct StagedArguments {
    /// Which parts to run.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "model,probes")]
    parts: Vec<StagedPart>,
    /// Modules of the line.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    modules: u32,
    /// What a query demands in the mean if every module is cold, in milliseconds.
    #[arg(long, default_value_t = 100.0, value_parser = positive)]
    demand_ms: f64,
    /// How the own demand of a query is drawn.
    #[arg(long, value_enum, default_value = "whole")]
    sizes: SizesArgument,
    /// Shares of the time of a query for which it fetches common data, in percent.
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,20,30,40,50,60,70",
          value_parser = clap::value_parser!(u32).range(0..=99))]
    shares: Vec<u32>,
    /// Loads of the processor if every query finds every module cold, in percent.
    #[arg(long, value_delimiter = ',', default_value = "1,10,20,30,40,50,60,70,80,90,95,98",
          value_parser = clap::value_parser!(u32).range(1..=99))]
    loads: Vec<u32>,
    /// The load of the first table, in percent.
    #[arg(long, default_value_t = 95, value_parser = clap::value_parser!(u32).range(1..=99))]
    load: u32,
    /// Queries that pass the gate of T-gated together; with several numbers there is a column for each. Figure 5 has
    /// the first.
    #[arg(long, value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    t_gated: Vec<u32>,
    /// Milliseconds in a module after which C-gated leaves a query behind; with several numbers there is a column for
    /// each.
    #[arg(long, value_delimiter = ',', default_value = "20,40", value_parser = positive)]
    c_gated: Vec<f64>,
    /// Queries of each run, of which the first tenth does not count.
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(100..))]
    queries: u32,
    /// Runs, each with arrivals and sizes of its own, which are the same for all policies.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    runs: u32,
    /// Arrivals and sizes are drawn from this seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds of the index probes.
    #[arg(long, default_value_t = 61, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Draw Figure 5, the map of T-gated over PS, into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the mean response times of the first table into this file.
    #[arg(long, value_name = "FILE")]
    curve_svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StagedPart {
    /// The simulated line: mean response times and Figure 5.
    Model,
    /// Section 4.1.2: index probes of ten tables, measured.
    Probes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SizesArgument {
    /// One exponential size for each query, divided equally among the modules.
    Whole,
    /// An exponential size for each module.
    Each,
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().map_err(|error| error.to_string())?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("must be above zero".to_owned()) }
}

/// The largest lead of PS over T-gated(2) in the paper, "in a small area on the left of the graph".
const PAPER_PS_LEAD_MAX: f64 = 1.1;

/// What each policy took, in the mean, of one share and one load.
struct Cell {
    /// In the order of the policies.
    responses: Vec<Estimate>,
    /// The paired ratio of PS to the T-gated of Figure 5.
    speedup: Estimate,
    /// PS, FCFS and the T-gated of Figure 5 in theory.
    theory_ms: [Option<f64>; 3],
}

impl StagedArguments {
    fn policies(&self) -> Vec<Policy> {
        let t_gated = self.t_gated.iter().map(|&queries| Policy::TGated(queries as usize));
        [Policy::ProcessorSharing, Policy::Fcfs, Policy::NonGated, Policy::DGated]
            .into_iter()
            .chain(t_gated)
            .chain(self.c_gated.iter().map(|&cutoff_ms| Policy::CGated(cutoff_ms)))
            .collect()
    }

    /// The T-gated of Figure 5: its place among the policies, and how many queries pass its gate together.
    fn figure(&self) -> (usize, usize) {
        (4, self.t_gated[0] as usize)
    }

    fn line(&self, share_percent: u32) -> Line {
        let sizes = match self.sizes {
            SizesArgument::Whole => Sizes::Whole,
            SizesArgument::Each => Sizes::Each,
        };
        Line::with_share(self.modules as usize, self.demand_ms, f64::from(share_percent) / 100.0, sizes)
    }

    fn cell(&self, share_percent: u32, load_percent: u32) -> Cell {
        let line = self.line(share_percent);
        let rate = line.rate(f64::from(load_percent) / 100.0);
        let policies = self.policies();
        let mut means = vec![Vec::new(); policies.len()];
        for run in 0..u64::from(self.runs) {
            let queries = Queries::draw(&line, rate, self.queries as usize, self.seed.wrapping_add(run));
            for (policy, means) in policies.iter().zip(&mut means) {
                means.push(mean_of_late(&policy.responses_ms(&line, &queries)));
            }
        }
        let (place, together) = self.figure();
        let ratios: Vec<_> = means[0].iter().zip(&means[place]).map(|(shared, gated)| shared / gated).collect();
        Cell {
            responses: means.iter().map(|means| Estimate::of(means)).collect(),
            speedup: Estimate::of(&ratios),
            theory_ms: [
                Some(theory::processor_sharing_ms(&line, rate)),
                Some(theory::fcfs_ms(&line, rate)),
                theory::gated_ms(&line, rate, Some(together)),
            ],
        }
    }
}

/// Runs the parts, prints their tables and draws their pictures.
pub fn run(arguments: &StagedArguments) -> Result<Value> {
    let mut report = json!({"benchmark": "staged"});
    if arguments.parts.contains(&StagedPart::Model) {
        report["model"] = model(arguments)?;
    }
    if arguments.parts.contains(&StagedPart::Probes) {
        report["probes"] = probes::run(arguments.rounds, arguments.seed)?;
        report["disagreements"] = report["probes"]["disagreements"].take();
    }
    Ok(report)
}

fn model(arguments: &StagedArguments) -> Result<Value> {
    if arguments.shares.is_empty() || arguments.loads.is_empty() || arguments.t_gated.is_empty() {
        return Err(Error::input("name at least one share, one load and one number of queries for T-gated"));
    }
    let sizes = match arguments.sizes {
        SizesArgument::Whole => "one exponential size for each query",
        SizesArgument::Each => "an exponential size for each module",
    };
    println!(
        "{} modules, {} ms a query with every module cold, {sizes}, {} runs of {} queries, seed {}",
        arguments.modules, arguments.demand_ms, arguments.runs, arguments.queries, arguments.seed
    );
    let at_one_load = one_load(arguments)?;
    let figure_5 = figure(arguments)?;
    Ok(json!({
        "modules": arguments.modules, "demand_ms": arguments.demand_ms, "seed": arguments.seed,
        "at_one_load": at_one_load, "figure_5": figure_5,
    }))
}

/// Mean response times over the share of common data at one load.
fn one_load(arguments: &StagedArguments) -> Result<Value> {
    let policies = arguments.policies();
    let cells: Vec<_> = arguments.shares.iter().map(|&share| arguments.cell(share, arguments.load)).collect();
    println!();
    println!("Mean response time in ms at a load of {} %, by the share of fetching common data", arguments.load);
    let mut header = vec!["share".to_owned()];
    header.extend(policies.iter().map(Policy::to_string));
    let known = [policies[0], policies[1], policies[arguments.figure().0]];
    header.extend(known.map(|policy| format!("{policy}, theory")));
    let rows: Vec<Vec<String>> = arguments
        .shares
        .iter()
        .zip(&cells)
        .map(|(share, cell)| {
            let mut row = vec![format!("{share} %")];
            row.extend(cell.responses.iter().map(|response| format!("{:.0}", response.mean)));
            row.extend(cell.theory_ms.map(|known| known.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"))));
            row
        })
        .collect();
    print_table(&header, &rows);
    let widths = cells.iter().flat_map(|cell| &cell.responses).map(relative_width);
    println!("95 % confidence: the means are within {:.1} %", widths.fold(0.0, f64::max) * 100.0);
    if let Some(path) = &arguments.curve_svg {
        let names: Vec<_> = arguments.shares.iter().map(|share| format!("{share} %")).collect();
        let line = |place: usize| cells.iter().map(|cell| Some(cell.responses[place].mean)).collect();
        let lines: Vec<_> =
            policies.iter().enumerate().map(|(place, policy)| (policy.to_string(), line(place))).collect();
        let title = format!("mean response time at a load of {} %, by the share of common data", arguments.load);
        save(path, &curve::draw_even(&title, "ms", &names, &lines))?;
    }
    let all = arguments.shares.iter().zip(&cells).map(|(share, cell)| {
        let means: Vec<_> = cell.responses.iter().map(|response| response.mean).collect();
        json!({"share_percent": share, "mean_ms": means, "theory_ms": cell.theory_ms})
    });
    let names: Vec<_> = policies.iter().map(Policy::to_string).collect();
    Ok(json!({"load_percent": arguments.load, "policies": names, "rows": all.collect::<Vec<_>>()}))
}

fn relative_width(estimate: &Estimate) -> f64 {
    estimate.half_width(NORMAL_95) / estimate.mean
}

/// Figure 5: how many times as soon T-gated answers as PS, and which policy answers soonest.
fn figure(arguments: &StagedArguments) -> Result<Value> {
    let cells: Vec<Vec<Cell>> = arguments
        .loads
        .iter()
        .map(|&load| arguments.shares.iter().map(|&share| arguments.cell(share, load)).collect())
        .collect();
    let policies = arguments.policies();
    let gated = policies[arguments.figure().0];
    let table = |title: &str, show: &dyn Fn(&Cell) -> String| {
        println!();
        println!("{title}");
        let mut header = vec!["load".to_owned()];
        header.extend(arguments.shares.iter().map(|share| format!("{share} %")));
        let rows = arguments.loads.iter().zip(&cells).rev().map(|(load, cells)| {
            std::iter::once(format!("{load} %")).chain(cells.iter().map(show)).collect::<Vec<_>>()
        });
        print_table(&header, &rows.collect::<Vec<_>>());
    };
    table(&format!("Figure 5: mean response time of PS over that of {gated}, by load and share"), &|cell| {
        format!("{:.2}", cell.speedup.mean)
    });
    let all: Vec<_> = cells.iter().flatten().collect();
    let widths = all.iter().map(|cell| relative_width(&cell.speedup)).fold(0.0, f64::max);
    println!("95 % confidence: the ratios are within {:.1} %", widths * 100.0);
    let off = all
        .iter()
        .filter_map(|cell| Some((cell.responses[arguments.figure().0].mean / cell.theory_ms[2]? - 1.0).abs()));
    let (known, most) = off.fold((0, 0.0_f64), |(known, most), off| (known + 1, most.max(off)));
    println!(
        "{gated} is within {:.1} % of its Markov chain in the {known} cells that it has been solved for",
        most * 100.0
    );
    claims(arguments, &cells);
    table("The policy with the least mean response time, by load and share", &|cell| {
        let places = 0..policies.len();
        let best = places.min_by(|&a, &b| cell.responses[a].mean.total_cmp(&cell.responses[b].mean));
        best.map_or_else(String::new, |place| policies[place].to_string())
    });
    let speedups: Vec<Vec<f64>> = cells.iter().map(|row| row.iter().map(|cell| cell.speedup.mean).collect()).collect();
    if let Some(path) = &arguments.svg {
        let title = format!("PS over {gated}: mean response times");
        save(path, &map::draw(&title, &arguments.shares, &arguments.loads, &speedups))?;
    }
    Ok(json!({"shares_percent": arguments.shares, "loads_percent": arguments.loads, "ps_over_t_gated": speedups}))
}

/// What the paper says of Figure 5, beside what is found.
fn claims(arguments: &StagedArguments, cells: &[Vec<Cell>]) {
    let all = || {
        let loads = arguments.loads.iter().zip(cells);
        loads.flat_map(|(load, row)| arguments.shares.iter().zip(row).map(move |(share, cell)| (*share, *load, cell)))
    };
    let ahead: Vec<_> = all().filter(|(.., cell)| cell.speedup.mean < 1.0).collect();
    let share_max = ahead.iter().map(|(share, ..)| *share).max();
    let lead = ahead.iter().map(|(.., cell)| 1.0 / cell.speedup.mean).fold(1.0, f64::max);
    println!("paper: PS is ahead only in a small area on the left, by {PAPER_PS_LEAD_MAX} at most");
    match share_max {
        Some(share) => println!(
            "found: PS is ahead in {} of {} cells, at shares up to {share} %, by {lead:.3} at most",
            ahead.len(),
            all().count()
        ),
        None => println!("found: PS is ahead in none of {} cells", all().count()),
    }
    if let Some((share, load, cell)) = all().max_by(|a, b| a.2.speedup.mean.total_cmp(&b.2.speedup.mean)) {
        println!(
            "found: the largest ratio is {:.1}, at a share of {share} % and a load of {load} %",
            cell.speedup.mean
        );
    }
}

fn save(path: &Path, drawing: &str) -> Result<()> {
    std::fs::write(path, drawing).map_err(|error| Error::file(format!("cannot write {}: {error}", path.display())))
}
