//! The SQL scripts of `tests/slt`, every one against a fresh database, in many weathers.
//!
//! ```text
//! scripts/test --slt joins --weather inline:7
//! ```
//! or, without the script, `DILIGENCE_SLT=joins DILIGENCE_WEATHER=inline:7 cargo test --release --workspace --test
//! slt`. `DILIGENCE_SLT` keeps the scripts whose path contains it, `DILIGENCE_WEATHER` the weather of that name or of
//! that kind, with `list` to list them and `none` to run nothing; `memory:30000KiB` is a weather for any budget.
//! `DILIGENCE_SEED` is that of the budgets drawn at random, which are others each time without it.
//!
//! With `DILIGENCE_SLT_UPDATE=1` the answers of the weather `threads` take the place of those in the scripts, for
//! somebody to read the difference.
//!
//! A record that fails does not end its script. After each script the engine must be idle and hold no memory. The last
//! line of the output is `N passed, N failed`, records over all weathers; the process fails if any failed.

mod adapter;
mod display;
mod run;
mod scripts;
mod watchdog;
mod weathers;
mod wire;
mod written;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use run::Outcome;
use scripts::Script;
use watchdog::Watchdog;
use weathers::Weather;

/// Scripts that run at once. They are independent, and mostly planning, which is one thread each.
const THREADS: usize = 2;

/// Failed records that are shown of one script in one weather; the first ones tell the story.
const FAILURES_SHOWN_MAX: usize = 10;

/// A script in a weather.
struct Job<'a> {
    script: &'a Script,
    weather: &'a Weather,
}

/// Runs what the environment asks for. `temporary` is for generated data and scratch folders.
pub fn main(temporary: &Path) -> ExitCode {
    let wanted = |name| std::env::var(name).unwrap_or_default();
    let (path_part, weather_name) = (wanted("DILIGENCE_SLT"), wanted("DILIGENCE_WEATHER"));
    let seed = match wanted("DILIGENCE_SEED") {
        none if none.is_empty() => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        seed => match seed.parse() {
            Ok(seed) => seed,
            Err(_) => return refuse(&format!("DILIGENCE_SEED is a number, not '{seed}'")),
        },
    };
    let mut weathers = weathers::all(seed);
    if !weathers.iter().any(|weather| weather.is_called(&weather_name)) {
        weathers.extend(weathers::named(&weather_name));
    }
    println!("budgets are drawn with DILIGENCE_SEED={seed}");
    match weather_name.as_str() {
        "none" => {
            println!("slt: left out, as DILIGENCE_WEATHER=none says");
            return ExitCode::SUCCESS;
        }
        "list" => {
            for weather in &weathers {
                println!("{:<28} {}", weather.name, weather.about);
            }
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let weathers: Vec<_> = weathers.into_iter().filter(|weather| weather.is_called(&weather_name)).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt");
    let scripts = match scripts::load(&root, &path_part) {
        Ok(scripts) => scripts,
        Err(message) => return refuse(&message),
    };
    if weathers.is_empty() || scripts.is_empty() {
        return refuse(&format!("no script is like '{path_part}' or no weather is called '{weather_name}'"));
    }
    // Asked for weathers by name or kind: then every script runs in them, whatever share it usually has.
    let everything = !weather_name.is_empty();
    run_all(&scripts, &weathers, everything, temporary)
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("slt: {message}");
    ExitCode::from(2)
}

fn run_all(scripts: &[Script], weathers: &[Weather], everything: bool, temporary: &Path) -> ExitCode {
    let mut jobs = Vec::new();
    let mut skips = Vec::new();
    for weather in weathers {
        for (position, script) in scripts.iter().enumerate() {
            match weather.skips(script, position) {
                Some(reason) if !everything => skips.push((weather, script, reason)),
                _ => jobs.push(Job { script, weather }),
            }
        }
    }
    // The long ones first, so that no thread ends alone with one.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.script.records.len()));

    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let totals = Mutex::new(Totals::new(weathers));
    let watchdog = Watchdog::start();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let outcome = run::run(job.script, job.weather, temporary, &watchdog);
                    totals.lock().add(job, &outcome, started.elapsed());
                }
            });
        }
    });

    let totals = totals.into_inner();
    totals.print(&skips, scripts.len(), begun.elapsed());
    let closing = format!("{} passed, {} failed", totals.passed(), totals.failed());
    if let Some(path) = std::env::var_os("DILIGENCE_SLT_TOTALS").map(PathBuf::from)
        && let Err(error) = std::fs::write(&path, format!("{closing}\n"))
    {
        return refuse(&format!("cannot write {}: {error}", path.display()));
    }
    println!("{closing}");
    if totals.failed() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What came out, per weather.
struct Totals {
    rows: Vec<Row>,
}

struct Row {
    weather: String,
    scripts: usize,
    passed: usize,
    failed: usize,
    busy: Duration,
}

impl Totals {
    fn new(weathers: &[Weather]) -> Self {
        let row = |weather: &Weather| Row {
            weather: weather.name.clone(),
            scripts: 0,
            passed: 0,
            failed: 0,
            busy: Duration::ZERO,
        };
        Self { rows: weathers.iter().map(row).collect() }
    }

    fn add(&mut self, job: &Job<'_>, outcome: &Outcome, took: Duration) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.weather == job.weather.name) {
            row.scripts += 1;
            row.passed += outcome.passed;
            row.failed += outcome.failures.len();
            row.busy += took;
        }
        for failure in outcome.failures.iter().take(FAILURES_SHOWN_MAX) {
            println!("FAILED in weather {}: {failure}\n", job.weather.name);
        }
        if let Some(hidden) = outcome.failures.len().checked_sub(FAILURES_SHOWN_MAX + 1) {
            println!("... and {} more in {}, weather {}\n", hidden + 1, job.script.name, job.weather.name);
        }
    }

    fn passed(&self) -> usize {
        self.rows.iter().map(|row| row.passed).sum()
    }

    fn failed(&self) -> usize {
        self.rows.iter().map(|row| row.failed).sum()
    }

    fn print(&self, skips: &[(&Weather, &Script, &'static str)], scripts: usize, took: Duration) {
        println!("{:<28} {:>7} {:>8} {:>7} {:>9}", "weather", "scripts", "passed", "failed", "seconds");
        for row in &self.rows {
            let seconds = row.busy.as_secs_f64();
            println!("{:<28} {:>7} {:>8} {:>7} {:>9.1}", row.weather, row.scripts, row.passed, row.failed, seconds);
        }
        let mut reasons: Vec<_> = skips.iter().map(|(weather, _, reason)| (weather.kind(), *reason)).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for (kind, reason) in reasons {
            println!("left out in {kind}: {reason}");
        }
        println!("{scripts} scripts in {:.1} s", took.as_secs_f64());
    }
}
