//! `diligence-fuzz TARGET --seconds N --seed S`: throws damaged inputs at SQL planning, at the readers of foreign
//! files and of segments, and at a server's doors.
//!
//! An input is a few random changes to a sound one, and is made from a seed alone: input i of a run has the seed S + i.
//! A finding is a panic that leaves the library, a crash, a hang, memory that grows beyond bounds, or a broken promise
//! (an error that does not name its file, an array that is not valid). The input is then saved under `fuzz/failures`,
//! its seed is printed, and the exit code is 1. To see it again: the same target with `--seed S --once`, or `--input
//! FILE`.
//!
//! There are two processes, because a stack overflow or an abort ends the one that it happens in: the child makes and
//! tries inputs and notes each seed in a file; the parent watches, and rebuilds the input of the seed at which the
//! child died or hung. No coverage feedback and no nightly compiler: this is for a minute in every build, not for
//! weeks.

mod child;
mod mutate;
mod panics;
mod parent;
mod report;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Fuzzes one target for some seconds.
#[derive(Parser, Debug)]
#[command(name = "diligence-fuzz")]
struct Arguments {
    /// What is fuzzed
    #[arg(value_enum)]
    target: targets::TargetKind,
    /// How long
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The seed of the first input
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try only the input of the seed, in this process
    #[arg(long)]
    once: bool,
    /// Try only this file, in this process
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Be the child: note seeds in this file
    #[arg(long, hide = true)]
    child: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = if let Some(path) = &arguments.input {
        std::fs::read(path)
            .map_err(|error| format!("{}: {error}", path.display()))
            .and_then(|input| child::once(arguments.target, &input))
    } else if arguments.once {
        child::once(arguments.target, &mutate::input(arguments.target, arguments.seed))
    } else if let Some(notes) = &arguments.child {
        return child::run(arguments.target, arguments.seed, arguments.seconds, notes);
    } else {
        parent::run(arguments.target, arguments.seed, arguments.seconds)
    };
    match done {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
