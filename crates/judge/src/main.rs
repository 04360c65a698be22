//! `diligence-judge`: asks PostgreSQL and Diligence the same statements and reports where the answers differ.
//!
//! ```text
//! scripts/postgres run target/release/diligence-judge grammar --seed 7 --statements 1000
//! ```
//!
//! 1. A source gives statements: the scripts of `tests/slt` ([`scripts`]), a file of cases ([`cases`]), SQLite's corpus
//!    ([`scripts`] again), or a [`grammar`] and a seed.
//! 2. Both [`sides`] get each statement, over PostgreSQL's protocol ([`session`]). Diligence is a process of its own
//!    ([`child`]), because a statement may end it.
//! 3. The answers are compared ([`verdict`]): rows, types and names of columns, errors.
//! 4. A difference that is not in the list of those that are meant ([`differences`]) is made small ([`shrink`]) and put
//!    with its likes ([`findings`]).
//!
//! The exit code is 0 if nothing differs but what is meant (or no more than `--differ-max-per-thousand`), 1 if
//! something does, and 2 if the judge could not work.

mod cases;
mod child;
mod decimal;
mod differences;
mod findings;
mod grammar;
mod order;
mod scripts;
mod session;
mod shrink;
mod sides;
mod tokens;
mod verdict;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use diligence_base::{Error, Result};

use findings::Findings;
use scripts::ScriptDialect;
use sides::{JudgedErrors, OurServer, Sides};

/// The environment variable with the URL of PostgreSQL, as `scripts/postgres` sets it.
const POSTGRES_VARIABLE: &str = "DILIGENCE_POSTGRES";

/// The list of differences that are meant, in the repository.
const DIFFERENCES: &str = "tests/differences.txt";

/// Asks PostgreSQL and Diligence the same statements and reports where the answers differ.
#[derive(Debug, Parser)]
#[command(name = "diligence-judge")]
struct Arguments {
    #[command(subcommand)]
    source: Source,
    #[command(flatten)]
    servers: ServerArguments,
}

/// Where the statements come from.
#[derive(Debug, Subcommand)]
enum Source {
    /// The SQL scripts of tests/slt
    Slt {
        /// Only scripts whose path contains this
        #[arg(default_value = "")]
        filter: String,
    },
    /// A file of cases, one JSON object a line
    Cases {
        /// The file
        file: PathBuf,
    },
    /// Statements from a grammar
    Grammar {
        /// The seed of the first statement; statement i has the seed S + i
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many
        #[arg(long, default_value_t = 1000)]
        statements: u64,
        /// Print the statements instead of asking them
        #[arg(long)]
        print: bool,
    },
    /// SQLite's corpus of sqllogictest
    Sqlite {
        /// The folder of its scripts
        folder: PathBuf,
        /// Only scripts whose path contains this
        #[arg(default_value = "")]
        filter: String,
    },
}

/// The servers, and what is shown.
#[derive(Args, Debug)]
struct ServerArguments {
    /// PostgreSQL [default: $DILIGENCE_POSTGRES, which scripts/postgres sets]
    #[arg(long, value_name = "URL", global = true)]
    postgres: Option<String>,
    /// A running Diligence [default: one is started]
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    /// The program that is started as a server [default: diligence, beside this program]
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "server")]
    program: Option<PathBuf>,
    /// The list of differences that are meant [default: tests/differences.txt]
    #[arg(long, value_name = "FILE", global = true)]
    differences: Option<PathBuf>,
    /// How many groups of differences of a kind are shown
    #[arg(long, value_name = "N", default_value_t = 20, global = true)]
    groups: usize,
    /// How many statements of a thousand may differ in a way that is not in the list
    #[arg(long, value_name = "N", default_value_t = 0, global = true)]
    differ_max_per_thousand: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("judge: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether no more differs than what is meant and what may.
fn run(arguments: &Arguments) -> Result<bool> {
    if let Source::Grammar { seed, statements, print: true } = arguments.source {
        let mut output = std::io::stdout().lock();
        for seed in seed..seed.saturating_add(statements) {
            // A reader that has enough is no error.
            if writeln!(output, "{};", grammar::statement(seed, &grammar::every_table())).is_err() {
                break;
            }
        }
        return Ok(true);
    }
    let servers = &arguments.servers;
    let postgres = servers.postgres.clone().or_else(|| std::env::var(POSTGRES_VARIABLE).ok());
    let postgres = postgres.ok_or_else(|| Error::input("no PostgreSQL").with_hint("scripts/postgres run COMMAND"))?;
    let mut sides = Sides::open(&postgres, our_server(servers)?)?;
    let errors = match arguments.source {
        Source::Grammar { .. } | Source::Cases { .. } => JudgedErrors::All,
        Source::Slt { .. } | Source::Sqlite { .. } => JudgedErrors::OfValues,
    };
    let list = servers.differences.clone().unwrap_or_else(|| root().join(DIFFERENCES));
    let mut findings = Findings::new(differences::load(&list)?, errors);
    let mut progress = Progress::default();
    let mut show = |place: &str| progress.show(place);
    let title = match &arguments.source {
        Source::Slt { filter } => {
            let folder = root().join("tests/slt");
            scripts::run(&mut sides, &mut findings, &folder, filter, ScriptDialect::Ours, &mut show)?;
            "slt".to_owned()
        }
        Source::Cases { file } => {
            cases::run(&mut sides, &mut findings, file, &mut show)?;
            "cases".to_owned()
        }
        Source::Grammar { seed, statements, .. } => {
            grammar::run(&mut sides, &mut findings, *seed, *statements, &mut show)?;
            format!("grammar from seed {seed}")
        }
        Source::Sqlite { folder, filter } => {
            scripts::run(&mut sides, &mut findings, folder, filter, ScriptDialect::Sqlite, &mut show)?;
            "sqlite".to_owned()
        }
    };
    progress.clear();
    print!("{}", findings.report(&title, servers.groups));
    Ok(findings.are_within(servers.differ_max_per_thousand))
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn our_server(servers: &ServerArguments) -> Result<OurServer> {
    if let Some(url) = &servers.server {
        return Ok(OurServer::Running(url.clone()));
    }
    let beside = || std::env::current_exe().map(|own| own.with_file_name("diligence"));
    let program = servers.program.clone().map_or_else(beside, Ok);
    program.map(OurServer::Program).map_err(|error| Error::resource(format!("no own program: {error}")))
}

/// What is being judged, as one line that changes, if somebody looks.
#[derive(Default)]
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn show(&mut self, place: &str) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{place}");
            self.is_shown = true;
        }
    }

    fn clear(&mut self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}
