//! The `diligence` command: SQL over files, an interactive shell, a server, a dashboard for a server, checks of a
//! database, and data generation.
//!
//! `diligence sql "…"` runs in these steps:
//! 1. [`shortcuts`] adds the subcommand where files or `-c` come first, and [`arguments`] parses the command line.
//!    [`sources`] collects the SQL from it, from files, or from standard input.
//! 2. [`open`] opens a database over the data directory, or [`remote`] connects to a server; both are a [`target`].
//!    Each source is split into statements with their [`location`]s.
//! 3. [`statements`] runs them one by one, draws progress, reacts to Ctrl-C ([`interrupt`]), and passes batches to
//!    [`output`].
//! 4. [`failure`] prints an error with its location in the source and chooses the exit code.
//!
//! [`processor`] checks the processor before any of this runs.
//!
//! Exit codes: 0 success, 1 a statement failed, 2 invalid command line. A closed output (`| head`) is not an error.

mod arguments;
mod check;
mod completions;
mod configuration;
mod copied_lines;
mod display;
mod environment;
mod failure;
mod generate;
mod interrupt;
mod location;
mod open;
mod output;
mod processor;
mod progress;
mod remote;
mod repair;
mod serve;
mod shell;
mod shortcuts;
mod sink;
mod sources;
mod sql;
mod statements;
mod target;
mod top;
mod transactions;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let done =
        match Arguments::parse_from(shortcuts::spelled_out(std::env::args_os().map(not_a_flag).collect())).command {
            Command::Sql(arguments) => sql::run(&arguments),
            Command::Shell(arguments) => shell::run(&arguments),
            Command::Serve(arguments) => serve::run(arguments),
            Command::Top(arguments) => top::run(&arguments),
            Command::Check(arguments) => check::run(&arguments),
            Command::Repair(arguments) => repair::run(&arguments),
            Command::Generate(arguments) => generate::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments),
        };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Puts a space in front of SQL that begins with a comment, so that it is not parsed as a flag.
fn not_a_flag(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_whitespace)) => {
            format!(" {text}").into()
        }
        _ => argument,
    }
}
