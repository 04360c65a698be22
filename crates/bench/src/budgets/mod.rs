//! `diligence-bench sort`, `join` and `aggregate`: one query at several memory budgets, beside rivals with the same.
//!
//! Every contestant, ourselves included, is a process of its own per budget: so what it holds can be asked of the
//! operating system. Contestants take turns; medians of the rounds count, after one that does not. In that one answers
//! are compared and files that were written are read again: rows in order, none missing, none too many.

mod disk;
mod queries;
pub mod records;

use std::path::{Path, PathBuf};

use clap::Args;
use diligence_base::{Error, Result};
use serde_json::{Value, json};

use crate::answers::agree;
use crate::budget::{Budget, resident_allowed_bytes};
use crate::curve;
use crate::report::{median, print_table};
use crate::rivals::{Answer, Limits, Rival};
pub use queries::{QueryArguments, aggregate, join};
pub use records::{SortArguments, run as sort};

/// More than this between two neighbouring budgets is no smooth curve (Gamma, figure 14).
const STEP_MAX: f64 = 1.6;

/// What all of these benchmarks take.
#[derive(Args)]
pub struct Common {
    /// The memory that the query may use, such as 256MB; several make a sweep.
    #[arg(long = "budget", value_delimiter = ',', required = true)]
    budgets: Vec<Budget>,
    /// Rivals to compare with: duckdb, datafusion, polars. The last one cannot be limited.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Rounds that count, after one that does not.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where contestants put what does not fit [default: the folder temp beside that of the data]
    #[arg(long)]
    temp: Option<PathBuf>,
    /// Our temp space goes through the page cache, as it does by default. Otherwise it goes past it (`--temp-direct`):
    /// memory beyond the budget neither helps nor hinders then.
    #[arg(long)]
    temp_cached: bool,
    /// Draw the times over the budgets into this file.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// What is measured.
struct Task<'a> {
    name: &'static str,
    /// Where the tables are.
    data: &'a Path,
    query: &'a str,
    /// Where the rows are to be written as Parquet; none if they are fetched.
    copy_to: Option<PathBuf>,
    /// Rivals by the names that the driver knows.
    rivals: Vec<String>,
    /// Looks at the file that was written; an error says what is wrong with it.
    verify: &'a dyn Fn(&Path) -> Result<()>,
}

/// What was measured of one contestant at one budget.
struct Measured {
    ms: Vec<f64>,
    /// The largest that the process has been, in bytes.
    resident_bytes: u64,
    /// Bytes that the system has read for it and written, in a round.
    read_bytes: u64,
    written_bytes: u64,
    /// What went wrong, if something did.
    failed: Option<String>,
}

/// Measures a task at every budget, prints the table, draws the curve.
fn measure(task: &Task, common: &Common) -> Result<Value> {
    let temp = common.temp.clone().unwrap_or_else(|| task.data.with_file_name("temp"));
    std::fs::create_dir_all(&temp).map_err(|error| Error::file(format!("cannot make {}: {error}", temp.display())))?;
    let mut names = vec!["diligence".to_owned()];
    names.extend(task.rivals.iter().cloned());
    let mut points = Vec::new();
    for budget in &common.budgets {
        points.push(at_budget(task, common, &names, budget, &temp)?);
    }
    let report = print(task, common, &names, &points);
    if let Some(path) = &common.svg {
        let budgets: Vec<(String, u64)> =
            common.budgets.iter().map(|budget| (budget.name.clone(), budget.bytes)).collect();
        let lines: Vec<(String, Vec<Option<f64>>)> = names
            .iter()
            .enumerate()
            .map(|(index, name)| (name.clone(), points.iter().map(|point| point[index].seconds()).collect()))
            .collect();
        let drawing = curve::draw(&format!("{}: time over memory", task.name), "s", &budgets, &lines);
        std::fs::write(path, drawing)
            .map_err(|error| Error::file(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(report)
}

impl Measured {
    /// The median time, unless it failed.
    fn seconds(&self) -> Option<f64> {
        self.failed.is_none().then(|| median(&self.ms) / 1e3)
    }
}

/// All rounds at one budget: a result for each contestant.
fn at_budget(task: &Task, common: &Common, names: &[String], budget: &Budget, temp: &Path) -> Result<Vec<Measured>> {
    let limits = Limits { memory_bytes: budget.bytes, temp: temp.to_owned() };
    let start = |name: &String| match name.as_str() {
        "diligence" => Rival::start_own(task.data, common.workers, &limits, !common.temp_cached),
        name => Rival::start_limited(name, task.data, common.workers, &limits),
    };
    let mut contestants = names.iter().map(start).collect::<Result<Vec<_>>>()?;
    let mut results: Vec<Measured> = names
        .iter()
        .map(|_| Measured { ms: Vec::new(), resident_bytes: 0, read_bytes: 0, written_bytes: 0, failed: None })
        .collect();
    let mut expected: Option<Vec<Vec<Value>>> = None;
    for round in 0..=common.rounds {
        for (contestant, result) in
            contestants.iter_mut().zip(&mut results).filter(|(_, result)| result.failed.is_none())
        {
            let before = contestant.io_bytes();
            let answer = match run(task, contestant) {
                Ok(answer) => answer,
                Err(error) => {
                    result.failed = Some(error.to_string());
                    continue;
                }
            };
            // Such a run takes minutes: whoever waits sees that it goes on.
            eprintln!("{} at {}, round {round}: {:.2} s", contestant.name(), budget.name, answer.ms / 1e3);
            let after = contestant.io_bytes();
            (result.read_bytes, result.written_bytes) = (after.0 - before.0, after.1 - before.1);
            if round > 0 {
                result.ms.push(answer.ms);
                continue;
            }
            let wrong = match (&task.copy_to, &expected) {
                (Some(path), _) => (task.verify)(path).err().map(|error| error.to_string()),
                (None, None) => {
                    expected = Some(answer.rows);
                    None
                }
                (None, Some(expected)) => {
                    (!agree(expected, &answer.rows)).then(|| "it disagrees with the first contestant".to_owned())
                }
            };
            result.failed = wrong.map(|wrong| format!("WRONG: {wrong}"));
        }
    }
    for (contestant, result) in contestants.iter().zip(&mut results) {
        result.resident_bytes = contestant.peak_resident_bytes();
    }
    Ok(results)
}

/// One run, into a file that was not there before.
fn run(task: &Task, contestant: &mut Rival) -> Result<Answer> {
    let Some(path) = &task.copy_to else { return contestant.run(task.query, true) };
    // What was written last time must neither help nor have to be thrown away.
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(Error::file(format!("cannot remove {}: {error}", path.display())));
    }
    // What somebody has left to be written must not be written beside whoever comes next.
    // SAFETY: it waits until the system has written what is to be written, and touches no memory.
    unsafe { libc::sync() };
    contestant.copy(task.query, path)
}

fn print(task: &Task, common: &Common, names: &[String], points: &[Vec<Measured>]) -> Value {
    let mut header = vec!["budget".to_owned()];
    header.extend(names.iter().map(|name| format!("{name} s")));
    header.extend(names[1..].iter().map(|name| format!("/ {name}")));
    header.extend(["read MB", "written MB", "resident MB", "allowed MB"].map(str::to_owned));
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let mut rows = Vec::new();
    let mut report = Vec::new();
    for (budget, point) in common.budgets.iter().zip(points) {
        let seconds: Vec<Option<f64>> = point.iter().map(Measured::seconds).collect();
        let ratios: Vec<Option<f64>> = seconds[1..].iter().map(|rival| Some(seconds[0]? / (*rival)?)).collect();
        let ours = &point[0];
        let allowed = resident_allowed_bytes(budget.bytes);
        let mut row = vec![budget.name.clone()];
        row.extend(seconds.iter().map(|value| number(*value, 2)));
        row.extend(ratios.iter().map(|value| number(*value, 2)));
        let megabytes = [ours.read_bytes, ours.written_bytes, ours.resident_bytes, allowed];
        row.extend(megabytes.map(|bytes| (bytes / 1_000_000).to_string()));
        rows.push(row);
        report.push(json!({
            "budget_bytes": budget.bytes, "median_s": seconds, "ratios": ratios,
            "resident_bytes": point.iter().map(|measured| measured.resident_bytes).collect::<Vec<_>>(),
            "resident_allowed_bytes": allowed, "resident_is_allowed": ours.resident_bytes <= allowed,
            "read_bytes": point.iter().map(|measured| measured.read_bytes).collect::<Vec<_>>(),
            "written_bytes": point.iter().map(|measured| measured.written_bytes).collect::<Vec<_>>(),
            "failed": point.iter().map(|measured| measured.failed.clone()).collect::<Vec<_>>(),
        }));
    }
    println!(
        "{}: {} workers, medians of {} rounds; bytes are ours, of the last round",
        task.name, common.workers, common.rounds
    );
    print_table(&header, &rows);
    for (budget, point) in common.budgets.iter().zip(points) {
        for (name, measured) in names.iter().zip(point) {
            if let Some(failed) = &measured.failed {
                println!("{name} at {}: {failed}", budget.name);
            }
        }
        if point[0].resident_bytes > resident_allowed_bytes(budget.bytes) {
            println!("OVER: we held more at {} than we may", budget.name);
        }
    }
    let step = largest_step(&points.iter().map(|point| point[0].seconds()).collect::<Vec<_>>());
    if let Some(step) = step {
        let verdict = if step <= STEP_MAX { "smooth" } else { "NOT smooth" };
        println!("our largest step between neighbouring budgets is {step:.2} x: {verdict}");
    }
    json!({
        "benchmark": task.name, "workers": common.workers, "rounds": common.rounds, "contestants": names,
        "temp_direct": !common.temp_cached,
        "budgets": report, "largest_step": step,
    })
}

/// The largest factor between times that are neighbours; none with less than two.
fn largest_step(seconds: &[Option<f64>]) -> Option<f64> {
    let steps = seconds.windows(2).filter_map(|pair| Some((pair[0]?, pair[1]?)));
    steps.map(|(a, b)| (a / b).max(b / a)).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_step_counts_in_both_directions() {
        assert_eq!(largest_step(&[Some(1.0), Some(2.0), Some(0.5), None, Some(9.0)]), Some(4.0));
        assert_eq!(largest_step(&[Some(1.0)]), None);
    }
}
