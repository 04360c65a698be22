//! Opens the database that the command line describes.

use diligence_base::ErrorKind;
use diligence_db::{Database, DatabaseOptions};

use crate::arguments::DatabaseArguments;
use crate::failure::Failure;

/// Opens it. A folder that is not there or a setting that does not exist is a mistake of the command line.
pub fn open(arguments: &DatabaseArguments) -> Result<Database, Failure> {
    if let Some(data) = &arguments.data
        && !data.is_dir()
    {
        let what = if data.exists() { "is not a folder" } else { "does not exist" };
        return Err(Failure::Usage(format!("--data {}: it {what}", data.display())));
    }
    let options = DatabaseOptions {
        data: arguments.data.clone(),
        workers: arguments.workers.map(|workers| workers.get()),
        memory_bytes: arguments.memory,
        settings: arguments.settings.clone(),
        ..DatabaseOptions::default()
    };
    Database::open(options).map_err(|error| match error.kind() {
        ErrorKind::Input => Failure::Usage(error.to_string()),
        _ => Failure::Other(error.to_string()),
    })
}
