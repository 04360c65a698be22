//! Opens the database that the command line describes, or finds who has it open.

use diligence_base::ErrorKind;
use diligence_db::{Compression, Database, DatabaseOptions, Holder, TempIo, TempOptions};

use crate::arguments::{DatabaseArguments, TempCompression, TempIoChoice};
use crate::failure::{Failure, complain};
use crate::remote::Remote;
use crate::target::Target;

/// Opens the database, with workers of this niceness. Fails with [`Failure::Usage`] if the data directory or a setting
/// does not exist or a value is invalid, and with [`Failure::Other`] if the system refuses a resource.
pub fn open(arguments: &DatabaseArguments, worker_nice: u8) -> Result<Database, Failure> {
    open_as(arguments, worker_nice, false)
}

/// What statements go to, and what a prompt says of it: the server of a URL, or the database that the command line
/// describes. If another process has that open, it is spoken to where it says; if it has no door, the database is read
/// as it was at its last checkpoint. Fails as [`open`] and [`Remote::open`] do.
pub fn target(connect: Option<&str>, arguments: &DatabaseArguments) -> Result<(Box<dyn Target>, String), Failure> {
    let remote = |url: &str| {
        let remote = Remote::open(url, &arguments.settings)?;
        let place = format!(" on {}", remote.address());
        Ok((Box::new(remote) as Box<dyn Target>, place))
    };
    if let Some(url) = connect {
        return remote(url);
    }
    let holder = arguments.db.as_deref().map(Holder::of_folder).transpose();
    let holder = holder.map_err(|error| Failure::Other(error.to_string()))?.flatten();
    let Some(Holder { process, door }) = holder else {
        return Ok((Box::new(open(arguments, 0)?.session()), String::new()));
    };
    match door {
        Some(url) => {
            complain(format!("the database is open in {process}: connecting to {url}"));
            remote(&url)
        }
        None => {
            complain(format!("the database is open in {process}, which serves nobody: reading its last checkpoint"));
            Ok((Box::new(open_as(arguments, 0, true)?.session()), " (read only)".to_owned()))
        }
    }
}

fn open_as(arguments: &DatabaseArguments, worker_nice: u8, read_only: bool) -> Result<Database, Failure> {
    if let Some(missing) = arguments.data.iter().find(|data| !data.exists()) {
        return Err(Failure::Usage(format!("the data {} does not exist", missing.display())));
    }
    if let Some(file) = arguments.db.as_ref().filter(|db| db.is_file()) {
        let file = file.display();
        return Err(Failure::Usage(format!(
            "--db {file}: a database is a directory, and this is a file; --data {file} makes a table of a file"
        )));
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
    let python = arguments.python.iter().map(|path| ("python".to_owned(), path.clone()));
    let tuning = arguments.tuning.iter().map(|mode| ("tuning".to_owned(), mode.clone()));
    let options = DatabaseOptions {
        folder: arguments.db.clone(),
        read_only,
        data: arguments.data.clone(),
        workers: arguments.workers.map(|workers| workers.get()),
        worker_nice,
        pin_workers: arguments.pin_workers,
        memory_bytes: arguments.memory,
        temp: Some(temp),
        settings: tuning.chain(python).chain(arguments.settings.iter().cloned()).collect(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options).map_err(|error| match error.kind() {
        ErrorKind::Input => Failure::Usage(error.to_string()),
        _ => Failure::Other(error.to_string()),
    })?;
    for lost in database.lost_indexes() {
        complain(format!("warning: {lost}"));
    }
    let (budget, charge) = database.engine().process_budget();
    diligence_allocator::keep_within(diligence_allocator::QUIET, budget, charge);
    database.engine().between_turns(diligence_allocator::tidy);
    Ok(database)
}
