//! Opens the database that the command line describes.

use diligence_base::ErrorKind;
use diligence_db::{Compression, Database, DatabaseOptions, TempIo, TempOptions};

use crate::arguments::{DatabaseArguments, TempCompression, TempIoChoice};
use crate::failure::Failure;

/// Opens the database, with workers of this niceness. Fails with [`Failure::Usage`] if the data directory or a setting
/// does not exist or a value is invalid, and with [`Failure::Other`] if the system refuses a resource.
pub fn open(arguments: &DatabaseArguments, worker_nice: u8) -> Result<Database, Failure> {
    if let Some(data) = &arguments.data
        && !data.is_dir()
    {
        let what = if data.exists() { "is not a directory" } else { "does not exist" };
        return Err(Failure::Usage(format!("the data directory {} {what}", data.display())));
    }
    let defaults = arguments.memory.map_or_else(TempOptions::default, TempOptions::within);
    let temp = TempOptions {
        directories: match &arguments.temp_dir[..] {
            [] => defaults.directories,
            directories => directories.to_vec(),
        },
        quota_bytes: arguments.temp_limit.map(|bytes| bytes as u64),
        cluster_bytes: arguments.temp_cluster.unwrap_or(defaults.cluster_bytes),
        direct: arguments.temp_direct,
        io: match arguments.temp_io {
            TempIoChoice::Auto => TempIo::Auto,
            TempIoChoice::IoUring => TempIo::Ring,
            TempIoChoice::Threads => TempIo::Threads,
        },
        compression: match arguments.temp_compression {
            TempCompression::None => Compression::None,
            TempCompression::Lz4 => Compression::Lz4,
        },
        request_log: arguments.temp_log.clone(),
        ..defaults
    };
    let tuning = arguments.tuning.iter().map(|mode| ("tuning".to_owned(), mode.clone()));
    let options = DatabaseOptions {
        folder: arguments.db.clone(),
        data: arguments.data.clone(),
        workers: arguments.workers.map(|workers| workers.get()),
        worker_nice,
        pin_workers: arguments.pin_workers,
        memory_bytes: arguments.memory,
        temp: Some(temp),
        settings: tuning.chain(arguments.settings.iter().cloned()).collect(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options).map_err(|error| match error.kind() {
        ErrorKind::Input => Failure::Usage(error.to_string()),
        _ => Failure::Other(error.to_string()),
    })?;
    let (budget, charge) = database.engine().process_budget();
    diligence_allocator::keep_within(diligence_allocator::QUIET, budget, charge);
    database.engine().between_turns(diligence_allocator::tidy);
    Ok(database)
}
