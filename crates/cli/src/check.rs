//! `diligence check`: reads a database from end to end and says what is wrong with it.

use std::io::{self, Write};

use arrow::array::{Array, AsArray};
use diligence_base::Error;
use diligence_db::{Database, DatabaseOptions};

use crate::arguments::CheckArguments;
use crate::failure::{Done, Failure};
use crate::progress::count_text;

/// Runs the subcommand. Fails if the folder is no database, if it cannot be opened, and if a check finds a problem.
pub fn run(arguments: &CheckArguments) -> Done {
    let folder = &arguments.db;
    // Opening one that is not there would make it.
    if !folder.join("LOCK").is_file() && !folder.join("segments").is_dir() {
        return Err(Failure::Usage(format!("{} is no directory of a database", folder.display())));
    }
    let other = |error: Error| Failure::Statement(error, None);
    let options =
        DatabaseOptions { folder: Some(folder.clone()), memory_bytes: arguments.memory, ..DatabaseOptions::default() };
    let database = Database::open(options).map_err(other)?;
    let mut result = database.session().execute("CHECK DATABASE").map_err(other)?;
    let (mut checks, mut problems) = (0, 0);
    let mut output = io::stdout().lock();
    for lost in database.lost_indexes() {
        problems += 1;
        writeln!(output, "{lost}").map_err(|error| Failure::output(&error))?;
    }
    while let Some(batch) = result.next_blocking() {
        let batch = batch.map_err(other)?;
        let column = |at: usize| batch.column(at).as_string_view();
        let (tables, names, found) = (column(0), column(1), column(2));
        checks += batch.num_rows() as u64;
        for row in (0..batch.num_rows()).filter(|row| found.is_valid(*row)) {
            problems += 1;
            let line = writeln!(output, "{}: {}: {}", tables.value(row), names.value(row), found.value(row));
            line.map_err(|error| Failure::output(&error))?;
        }
    }
    match problems {
        0 => {
            let line = writeln!(output, "{}, no problem", count_text(checks, "check"));
            line.map_err(|error| Failure::output(&error))
        }
        problems => Err(Failure::Other(format!(
            "{} found in {}: restore what is wrong from a backup",
            count_text(problems, "problem"),
            folder.display()
        ))),
    }
}
