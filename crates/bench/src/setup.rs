//! The data and the databases that benchmarks run on.

use std::path::{Path, PathBuf};

use diligence_base::Result;
use diligence_db::{Database, DatabaseOptions, Session};

/// Generates the TPC-H data of a scale factor if it is missing, and returns its directory. Fails if it cannot be
/// written.
pub fn data(root: &Path, sf: f64) -> Result<PathBuf> {
    let directory = root.join(format!("tpch-sf{sf}"));
    let bar = indicatif::ProgressBar::no_length();
    diligence_tpch::generate(&diligence_tpch::Options::new(sf), &directory, |progress| {
        bar.set_message(format!("{} {} of {}", progress.table.name(), progress.rows_done, progress.rows_total));
    })?;
    bar.finish_and_clear();
    Ok(directory)
}

/// The settings of every measured database: no answer is retained for later queries.
pub fn settings() -> Vec<(String, String)> {
    vec![("sharing_retained".to_owned(), "0".to_owned())]
}

/// A session over the files of a directory. Fails if the database cannot be opened.
pub fn session(directory: &Path, workers: usize) -> Result<Session> {
    let (data, workers) = (Some(directory.to_owned()), Some(workers));
    let options = DatabaseOptions {
        data: data.into_iter().collect(),
        workers,
        settings: settings(),
        ..DatabaseOptions::default()
    };
    Ok(Database::open(options)?.session())
}
