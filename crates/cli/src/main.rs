//! The `diligence` command: SQL over files, a shell, a server, a board that watches one, and data generation.
//!
//! The life of `diligence sql "…"`:
//! 1. [`arguments`] parses the command line; [`sources`] collects the SQL from it, from files, or from standard input.
//! 2. [`open`] opens a database over the data folder, or [`remote`] connects to a server: a [`target`] either way. Each
//!    source is split into statements.
//! 3. [`statements`] runs them one by one, drawing progress, obeying Ctrl-C ([`interrupt`]), and handing batches to
//!    [`output`].
//! 4. [`failure`] shows an error with its place in the source, and says which exit code it is.
//!
//! Exit codes: 0 everything ran, 1 a statement failed, 2 the command line makes no sense. A closed output (`| head`) is
//! not an error.

mod arguments;
mod failure;
mod generate;
mod interrupt;
mod open;
mod output;
mod progress;
mod remote;
mod serve;
mod shell;
mod sources;
mod sql;
mod statements;
mod target;
mod top;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use failure::Failure;

fn main() -> ExitCode {
    let done = match Arguments::parse_from(std::env::args_os().map(not_a_flag)).command {
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// SQL that begins with a comment must not be taken for a flag: it gets a space in front.
fn not_a_flag(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_whitespace)) => {
            format!(" {text}").into()
        }
        _ => argument,
    }
}

/// What every subcommand answers.
type Done = Result<(), Failure>;
