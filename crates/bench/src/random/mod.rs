//! A workload that nobody tuned for: templates that a [grammar](templates) draws from a seed, over any set of tables
//! with foreign keys, with other constants each time.
//!
//! Each seed is a dashboard of its own. Its clients ask a server over PostgreSQL's protocol, with the constants in the
//! text, and, if wanted, the engine in process. Answers are compared with those of lone runs that share nothing, and
//! with DuckDB's where that is a rival. A wrong answer or an error fails the benchmark; speed is printed as ratios.

pub mod schema;
pub mod templates;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, Session};
use serde_json::{Value, json};

use self::schema::Tables;
use self::templates::Templates;
use crate::answers::{agree, is_same, values};
use crate::clients::contestants::WireServer;
use crate::clients::load::{Asks, Clients, Load, Maker, Protocol, failed, open};
use crate::clients::runtime;
use crate::report::{geometric_mean, median, print_table, quantile};
use crate::rivals::{Outcome, Pool, Rival};
use crate::setup;

/// What to run.
#[derive(Args)]
pub struct RandomArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// A folder of Parquet files, each a table, rather than TPC-H.
    #[arg(long, requires = "keys")]
    folder: Option<PathBuf>,
    /// A file with their foreign keys, one on a line: table(column, ...) -> table(column, ...).
    #[arg(long, requires = "folder")]
    keys: Option<PathBuf>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many seeds, one after the other.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Templates of a seed.
    #[arg(long, default_value_t = 8)]
    templates: usize,
    /// Clients at once.
    #[arg(long, value_delimiter = ',', default_value = "16,64")]
    clients: Vec<usize>,
    /// Worker threads, ours and theirs.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Seconds per seed, number of clients and contestant.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// The programs to serve with, which take turns [default: the one beside this program].
    #[arg(long, value_delimiter = ',')]
    program: Vec<PathBuf>,
    /// More arguments for `diligence serve`, such as --server=--memory=2GiB.
    #[arg(long = "server", allow_hyphen_values = true)]
    server: Vec<String>,
    /// Also ask the engine in this process.
    #[arg(long)]
    in_process: bool,
    /// Rivals: duckdb (its own file), duckdb-parquet, hyper.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Print the statements of each seed, one of each template.
    #[arg(long)]
    show: bool,
}

/// Statements that a rival's client gets; it begins again if it needs more.
const RIVAL_STATEMENTS: usize = 300;

/// Statements of each template that are compared with DuckDB's answers.
const COMPARED: usize = 2;

/// Answers of each client in process that are compared with those of lone runs.
const CHECKED_PER_CLIENT: usize = 2;

enum RandomContestant {
    Wire(String, WireServer),
    Own(Database),
    Rival(Rival),
}

/// What its clients saw.
struct Observed {
    /// Answers a second.
    rate: f64,
    /// Half of the answers, and all but a hundredth, take so many milliseconds at most.
    latency_ms: [f64; 2],
    checked: usize,
    failed: usize,
}

impl RandomContestant {
    fn name(&self) -> &str {
        match self {
            RandomContestant::Wire(name, _) => name,
            RandomContestant::Own(_) => "in process",
            RandomContestant::Rival(rival) => rival.name(),
        }
    }

    fn ask(
        &mut self,
        templates: &Arc<Templates>,
        clients: usize,
        arguments: &RandomArguments,
        seed: u64,
    ) -> Result<Observed> {
        match self {
            RandomContestant::Wire(_, server) => over_the_wire(server, templates, clients, arguments, seed),
            RandomContestant::Own(database) => in_process(database, templates, clients, arguments.seconds, seed),
            RandomContestant::Rival(rival) => {
                let of = |client| Templates::statements(templates.clone(), seed, client).take(RIVAL_STATEMENTS);
                let statements = (0..clients).map(|client| of(client).map(|statement| statement.text).collect());
                let pool = Pool { clients: statements.collect(), starts: None };
                let (records, seconds) = rival.run_clients(&[pool], arguments.seconds)?;
                let answered = records.iter().filter(|record| record.outcome == Outcome::Answered);
                let latencies: Vec<_> = answered.map(|record| record.latency_ms).collect();
                let failed = records.len() - latencies.len();
                Ok(Observed { failed, ..Observed::of(&latencies, seconds) })
            }
        }
    }
}

impl Observed {
    fn of(latencies: &[f64], seconds: f64) -> Self {
        let latency_ms = [0.5, 0.99].map(|share| quantile(latencies, share));
        Self { rate: latencies.len() as f64 / seconds, latency_ms, checked: 0, failed: 0 }
    }
}

/// Runs the benchmark and prints its table. Fails with the first wrong answer or error of ours.
pub fn run(arguments: &RandomArguments, data: &Path) -> Result<Value> {
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => setup::data(data, arguments.sf)?,
    };
    let keys = arguments
        .keys
        .as_ref()
        .map(|path| std::fs::read_to_string(path).map_err(|error| Error::file(format!("{}: {error}", path.display()))));
    let options = DatabaseOptions {
        data: vec![folder.clone()],
        workers: Some(arguments.workers),
        settings: setup::settings(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let tables = Tables::of(&database.session(), &folder, schema::keys(keys.transpose()?.as_deref())?)?;
    let mut contestants = contestants(arguments, &folder, &database)?;
    let mut table = RandomTable::default();
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let templates = Arc::new(Templates::new(&tables, seed, arguments.templates));
        if arguments.show {
            let mut random = Random::new(seed);
            templates.all().for_each(|template| println!("{seed}: {}", template.statement(&mut random).text));
        }
        table.compared += compare(&mut contestants, &templates, &database, seed)?;
        for &clients in &arguments.clients {
            // Nobody always goes first.
            let first = (seed as usize + clients) % contestants.len();
            let mut seen: Vec<Option<Observed>> = contestants.iter().map(|_| None).collect();
            for turn in 0..contestants.len() {
                let place = (first + turn) % contestants.len();
                seen[place] = Some(contestants[place].ask(&templates, clients, arguments, seed)?);
            }
            table.add(seed, clients, &contestants, &seen.into_iter().flatten().collect::<Vec<_>>());
        }
    }
    Ok(table.print(arguments))
}

fn contestants(arguments: &RandomArguments, folder: &Path, database: &Database) -> Result<Vec<RandomContestant>> {
    let mut contestants = Vec::new();
    let programs = arguments.program.iter().map(|program| Some(program.as_path()));
    let programs: Vec<_> = if arguments.program.is_empty() { vec![None] } else { programs.collect() };
    for (number, program) in programs.iter().enumerate() {
        let server = WireServer::diligence(*program, folder, arguments.workers, &arguments.server)?;
        runtime()?.block_on(async {
            let mut connection = open(&server, false).await?;
            // No answer is read twice.
            connection.simple("SET sharing_retained = 0").await.map_err(|error| failed(&server, &error))
        })?;
        let name = if programs.len() == 1 { "diligence".to_owned() } else { format!("diligence {}", number + 1) };
        contestants.push(RandomContestant::Wire(name, server));
    }
    if arguments.in_process {
        contestants.push(RandomContestant::Own(database.clone()));
    }
    for name in &arguments.rivals {
        contestants.push(RandomContestant::Rival(Rival::start(name, folder, arguments.workers)?));
    }
    Ok(contestants)
}

/// A session whose queries share nothing.
fn lone(database: &Database) -> Result<Session> {
    let session = database.session();
    session.set("sharing", "off")?;
    Ok(session)
}

/// Compares some answers with DuckDB's, if it is a rival. Returns how many.
fn compare(
    contestants: &mut [RandomContestant],
    templates: &Templates,
    database: &Database,
    seed: u64,
) -> Result<usize> {
    let duckdb = contestants.iter_mut().find_map(|contestant| match contestant {
        RandomContestant::Rival(rival) if rival.name().starts_with("duckdb") => Some(rival),
        _ => None,
    });
    let (mut random, session) = (Random::new(seed), lone(database)?);
    let mut compared = 0;
    let Some(duckdb) = duckdb else { return Ok(0) };
    for template in templates.all() {
        for _ in 0..COMPARED {
            let sql = template.statement(&mut random).text;
            let run = || values(&session.execute(&sql)?.collect()?);
            let ours = run().map_err(|error| Error::value(format!("{error}\n{sql}")))?;
            let theirs = duckdb.run(&sql, true).map_err(|error| Error::value(format!("{error}\n{sql}")))?.rows;
            if !agree(&ours, &theirs) {
                let first = |rows: &[Vec<Value>]| format!("{:?}", &rows[..rows.len().min(3)]);
                let rows = format!("{} rows: {}\n{} rows: {}", ours.len(), first(&ours), theirs.len(), first(&theirs));
                return Err(Error::value(format!("seed {seed}: DuckDB answers otherwise:\n{sql}\n{rows}")));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

fn over_the_wire(
    server: &WireServer,
    templates: &Arc<Templates>,
    count: usize,
    arguments: &RandomArguments,
    seed: u64,
) -> Result<Observed> {
    let templates = templates.clone();
    let make: Maker = Arc::new(move |seed, client| Box::new(Templates::statements(templates.clone(), seed, client)));
    let load = Load {
        server,
        local: false,
        pools: &[Clients { asks: Asks::Made("random", make), count, starts: None }],
        seconds: arguments.seconds,
        protocol: Protocol::Extended,
        binary: false,
        scale_factor: arguments.sf,
        seed,
    };
    let seen = load.run()?;
    if let Some(failure) = &seen.failure {
        return Err(Error::value(format!("seed {seed}, {count} clients: {failure}")));
    }
    let answered = seen.records.iter().filter(|record| record.outcome == Outcome::Answered);
    let latencies: Vec<_> = answered.map(|record| record.latency_ms).collect();
    let (checked, failed) = (load.check(&seen)?, seen.records.len() - latencies.len());
    Ok(Observed { checked, failed, ..Observed::of(&latencies, seen.seconds) })
}

/// Clients on threads of this process.
fn in_process(
    database: &Database,
    templates: &Arc<Templates>,
    count: usize,
    seconds: f64,
    seed: u64,
) -> Result<Observed> {
    let start = Instant::now();
    let client = |number: usize| -> Result<(Vec<f64>, Vec<_>)> {
        let session = database.session();
        let (mut latencies, mut answers) = (Vec::new(), Vec::new());
        for statement in Templates::statements(templates.clone(), seed, number) {
            let began = start.elapsed().as_secs_f64();
            if began >= seconds {
                break;
            }
            let run = || session.execute(&statement.text)?.collect();
            let rows = run().map_err(|error| Error::value(format!("seed {seed}: {error}\n{}", statement.text)))?;
            latencies.push((start.elapsed().as_secs_f64() - began) * 1e3);
            if answers.len() < CHECKED_PER_CLIENT {
                answers.push((statement.text, values(&rows)?));
            }
        }
        Ok((latencies, answers))
    };
    let (mut latencies, mut answers) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let client = &client;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || client(number))).collect();
        for thread in threads {
            let (some, checked) = thread.join().map_err(|_| Error::bug("a client panicked"))??;
            latencies.extend(some);
            answers.extend(checked);
        }
        Ok(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let session = lone(database)?;
    for (sql, rows) in &answers {
        if !is_same(&values(&session.execute(sql)?.collect()?)?, rows) {
            return Err(Error::bug(format!("seed {seed}: another answer than alone:\n{sql}")));
        }
    }
    Ok(Observed { checked: answers.len(), ..Observed::of(&latencies, seconds) })
}

/// What is printed.
#[derive(Default)]
struct RandomTable {
    rows: Vec<Vec<String>>,
    results: Vec<Value>,
    /// By number of clients and contestant of ours, its answers for one of the best rival, or of the first contestant.
    ratios: Vec<(usize, String, &'static str, f64)>,
    compared: usize,
    checked: usize,
}

impl RandomTable {
    fn add(&mut self, seed: u64, clients: usize, contestants: &[RandomContestant], seen: &[Observed]) {
        let is_rival = |contestant: &RandomContestant| matches!(contestant, RandomContestant::Rival(_));
        let rivals = contestants.iter().zip(seen).filter(|(contestant, _)| is_rival(contestant));
        let best = rivals.map(|(_, seen)| seen.rate).reduce(f64::max);
        let first = seen.first().map_or(f64::NAN, |seen| seen.rate);
        for (place, (contestant, seen)) in contestants.iter().zip(seen).enumerate() {
            self.checked += seen.checked;
            let own = !is_rival(contestant);
            let to_best = best.filter(|_| own).map(|best| seen.rate / best);
            let to_first = (own && place > 0).then_some(seen.rate / first);
            let shown = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            let mut row = vec![seed.to_string(), clients.to_string(), contestant.name().to_owned()];
            row.push(format!("{:.1}", seen.rate));
            row.extend(seen.latency_ms.map(|ms| format!("{ms:.0}")));
            row.extend([seen.failed.to_string(), shown(to_best), shown(to_first)]);
            self.rows.push(row);
            let name = contestant.name().to_owned();
            self.ratios.extend(to_best.map(|ratio| (clients, name.clone(), "the best rival", ratio)));
            self.ratios.extend(to_first.map(|ratio| (clients, name.clone(), "the first", ratio)));
            self.results.push(json!({
                "seed": seed, "clients": clients, "contestant": name, "per_s": seen.rate, "latency_ms": seen.latency_ms,
                "failed": seen.failed, "to_best_rival": to_best, "to_first": to_first,
            }));
        }
    }

    fn print(self, arguments: &RandomArguments) -> Value {
        println!(
            "{} templates a seed, {} workers, {} s each; {} answers compared with DuckDB's, {} with lone runs",
            arguments.templates, arguments.workers, arguments.seconds, self.compared, self.checked
        );
        let header =
            ["seed", "clients", "contestant", "per s", "p50 ms", "p99 ms", "failed", "/ best rival", "/ first"];
        print_table(&header.map(str::to_owned), &self.rows);
        let mut kinds: Vec<_> =
            self.ratios.iter().map(|(clients, name, to, _)| (*clients, name.clone(), *to)).collect();
        kinds.sort();
        kinds.dedup();
        for (clients, name, to) in kinds {
            let of_kind = self.ratios.iter().filter(|(c, n, t, _)| (*c, n, *t) == (clients, &name, to));
            let ratios: Vec<_> = of_kind.map(|(.., ratio)| *ratio).collect();
            let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            println!(
                "{clients} clients, {name}: {:.2} times {to} (median of {} seeds; geometric mean {:.2}, worst {worst:.2})",
                median(&ratios),
                ratios.len(),
                geometric_mean(&ratios)
            );
        }
        json!({
            "benchmark": "random", "sf": arguments.sf, "workers": arguments.workers, "seconds": arguments.seconds,
            "templates": arguments.templates, "compared": self.compared, "checked": self.checked, "results": self.results,
        })
    }
}
