//! `cargo run -p diligence-tidy`: what is not in order, or a report.

use std::process::ExitCode;

use diligence_tidy::{CHECKS, failures, findings_of, house_of_this_crate, names, rooms};

const HELP: &str = "usage: cargo run -p diligence-tidy [-- REPORT]

Without a report: everything that is not in order. Reports:
  rooms [ROOM]   which rooms of each crate import which; of one room (engine, engine/operators) more
  names          names that stand on more than two types of a crate
  fails          public functions that do not say how they fail
  allowed        lines for crates/tidy/allowed.txt, for all that is not in order";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let house = match house_of_this_crate() {
        Ok(house) => house,
        Err(error) => {
            eprintln!("cannot read the repository: {error}");
            return ExitCode::FAILURE;
        }
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let findings: Vec<_> = CHECKS.iter().flat_map(|check| findings_of(&house, check)).collect();
            findings.iter().for_each(|finding| println!("{finding}"));
            return if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        ["rooms"] => print!("{}", rooms::report(&house, None)),
        ["rooms", room] => print!("{}", rooms::report(&house, Some(room))),
        ["names"] => print!("{}", names::report(&house)),
        ["fails"] => print!("{}", failures::report(&house)),
        ["allowed"] => {
            for check in CHECKS {
                for finding in (check.find)(&house) {
                    println!("{} | {} | ", check.name, finding.key);
                }
            }
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
