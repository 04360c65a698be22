//! One query of ours in a database of its own, with what it did to temp space and to the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, TempIo, TempOptions};
use diligence_disk::{LocalTempFiles, TempFiles, TempInfo};

use super::counters::Counters;
use super::page_cache::{Limit, LimitedFiles};

/// How the engine's workers are named, and how much of a name the system keeps.
const WORKER_NAME: &str = "diligence-worker-";
const NAME_BYTES_MAX: usize = 15;

/// How a query is run.
#[derive(Clone, Debug)]
pub struct QueryContext {
    /// The folder whose files are the tables.
    pub data: PathBuf,
    /// Where temp space is.
    pub temp: PathBuf,
    pub workers: usize,
    pub memory_bytes: usize,
    pub cluster_bytes: usize,
    /// Threads of temp space; without any, reads and writes happen on the worker that asks for them.
    pub io_threads: usize,
    /// Who reads and writes.
    pub io: TempIo,
    /// The page cache of temp space; past it if `None`.
    pub cache: Option<Limit>,
    pub request_log: Option<PathBuf>,
    /// As in SET.
    pub settings: Vec<(&'static str, String)>,
    /// Each worker stays on a processor of its own, as far as there are as many.
    pub pinned: bool,
}

/// What it did.
#[derive(Clone, Debug)]
pub struct Ran {
    pub seconds: f64,
    pub rows: u64,
    /// What temp space asked the system for.
    pub temp: TempInfo,
    /// What came of it, until temp space was gone.
    pub counters: Counters,
}

/// Runs a query and drops its rows; with `ordered`, an error if the first column is not in ascending order (looked at
/// where batches begin and end, which is where a merge of ranges could go wrong).
pub fn run(context: &QueryContext, sql: &str, ordered: bool) -> Result<Ran> {
    let files: Arc<dyn TempFiles> = match context.cache {
        Some(limit) => Arc::new(LimitedFiles::new(limit)),
        None => Arc::new(LocalTempFiles),
    };
    let temp = TempOptions {
        directories: vec![context.temp.clone()],
        cluster_bytes: context.cluster_bytes,
        direct: context.cache.is_none(),
        threads: context.io_threads,
        io: context.io,
        request_log: context.request_log.clone(),
        files,
        ..TempOptions::default()
    };
    let options = DatabaseOptions {
        data: vec![context.data.clone()],
        workers: Some(context.workers),
        memory_bytes: Some(context.memory_bytes),
        temp: Some(temp),
        settings: context.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        ..DatabaseOptions::default()
    };
    let before = Counters::now(&context.temp)?;
    let database = Database::open(options)?;
    if context.pinned {
        pin_workers()?;
    }
    let start = Instant::now();
    let mut result = database.session().execute(sql)?;
    let (mut rows, mut last) = (0, Vec::new());
    while let Some(batch) = result.next_blocking() {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        if ordered && batch.num_rows() > 0 {
            let keys = batch.column(0);
            let ends = [keys.slice(0, 1), keys.slice(keys.len() - 1, 1)];
            for end in ends {
                let end = cast(&end, &DataType::Binary).map_err(|error| Error::bug(error.to_string()))?;
                let key = end.as_binary::<i32>().value(0);
                if key < last.as_slice() {
                    return Err(Error::value(format!("rows are not in order before row {rows}")));
                }
                last = key.to_vec();
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(result);
    let temp = database.engine().temp().info();
    drop(database);
    Ok(Ran { seconds, rows, temp, counters: Counters::now(&context.temp)?.since(&before) })
}

/// Reads the files of a folder, so that they come from memory afterwards.
pub fn warm(folder: &Path) -> Result<()> {
    let unread = |error: std::io::Error| Error::file(format!("cannot read {}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let mut file = std::fs::File::open(entry.map_err(unread)?.path()).map_err(unread)?;
        std::io::copy(&mut file, &mut std::io::sink()).map_err(unread)?;
    }
    Ok(())
}

/// Binds the workers of this process to a processor each, in turn.
fn pin_workers() -> Result<()> {
    let failed = |error: std::io::Error| Error::resource(format!("cannot bind workers to processors: {error}"));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut workers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if WORKER_NAME.starts_with(name.trim()) && name.trim().len() == NAME_BYTES_MAX {
            workers.extend(entry.file_name().to_str().and_then(|id| id.parse::<libc::pid_t>().ok()));
        }
    }
    workers.sort_unstable();
    for (index, worker) in workers.into_iter().enumerate() {
        // SAFETY: the set is plain bits, which zeros are valid for, and is borrowed for the call.
        let bound = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(index % processors, &mut set);
            libc::sched_setaffinity(worker, size_of::<libc::cpu_set_t>(), &raw const set)
        };
        if bound != 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
    }
    Ok(())
}
