//! `diligence repair`: saves what can be saved of a database, and says what is lost.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use diligence_base::Error;
use diligence_base::seams::{Disk, LocalDisk};
use diligence_db::{Database, Repaired};

use crate::arguments::RepairArguments;
use crate::failure::{Done, Failure};
use crate::progress::count_text;

/// Runs the subcommand. Fails if the folder is no database or open elsewhere, and if the other one cannot be written.
pub fn run(arguments: &RepairArguments) -> Done {
    let folder = &arguments.db;
    if !folder.join("LOCK").is_file() && !folder.join("segments").is_dir() {
        return Err(Failure::Usage(format!("{} is no directory of a database", folder.display())));
    }
    let to = arguments.to.clone().map_or_else(|| beside(folder, "repaired"), Ok)?;
    let aside = beside(folder, "damaged")?;
    if arguments.in_place && aside.exists() {
        return Err(Failure::Usage(format!("{}: there is something already; move it away", aside.display())));
    }
    let other = |error: Error| Failure::Statement(error, None);
    let Repaired { findings, rows_lost, tables, rows } =
        Database::repair(folder, &to, arguments.memory).map_err(other)?;
    let mut output = io::stdout().lock();
    let mut line = |text: String| writeln!(output, "{text}").map_err(|error| Failure::output(&error));
    for finding in &findings {
        line(finding.clone())?;
    }
    let mut place = to.clone();
    if arguments.in_place {
        // What could not be put in its place leaves it to what was there.
        let put = || fs::rename(&to, folder).inspect_err(|_| drop(fs::rename(&aside, folder)));
        let parent = aside.parent().unwrap_or(Path::new("."));
        let moved = fs::rename(folder, &aside).and_then(|()| put()).and_then(|()| LocalDisk.sync_folder(parent));
        moved.map_err(|error| Failure::Other(format!("{}: {error}; see {}", folder.display(), to.display())))?;
        place.clone_from(folder);
        line(format!("what was there before is in {}", aside.display()))?;
    }
    let saved =
        format!("{} with {} saved in {}", count_text(tables, "table"), count_text(rows, "row"), place.display());
    match findings.len() {
        0 => line(format!("{saved}; nothing was wrong")),
        _ => line(format!("{saved}; {} lost, as far as known", count_text(rows_lost, "row"))),
    }
}

/// A path beside a folder's.
fn beside(folder: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(folder).map_err(|error| Failure::Other(error.to_string()))?;
    let mut name = absolute.file_name().map(OsString::from).unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::Usage(format!("{} has no name: say where to with --to", folder.display())));
    }
    name.push(format!(".{ending}"));
    Ok(absolute.with_file_name(name))
}
