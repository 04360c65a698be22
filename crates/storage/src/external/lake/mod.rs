//! Tables of lakes: a folder of Parquet files with a log that says which of them are the table now.
//!
//! `delta` reads the log of Delta Lake tables, `iceberg` the metadata of Iceberg tables. Both give the same: fields
//! with the names and numbers by which files have them (`fields`), files with what is known of them, and which of their
//! rows are gone. `table` makes clusters of that, over the scans of Parquet files. `place` is where a table lies, and
//! `catalog` asks where an Iceberg table of a catalog does.
//!
//! Invariants: a lake's table is read right or refused by the name of what is not supported, never as plain Parquet;
//! what its log says is not believed before it is looked at, and a damaged log is an error that names its file, never a
//! panic; a state that was opened stays that state.

mod bitmap;
mod catalog;
mod cluster;
mod delta;
mod fields;
mod iceberg;
mod place;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use diligence_base::seams::Disk;
use diligence_base::{Error, Result};

use super::options::{Format, OpenOptions};
use place::Place;
pub(super) use table::LakeTable;

/// Bytes of one file of a log, or of metadata, at most.
const LOG_FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Files that a table may have: what is known of them is held in memory.
const LAKE_FILES_MAX: usize = 4_000_000;

/// Folders above one that are looked at whether they are tables.
const FOLDERS_ABOVE_MAX: usize = 8;

/// What a table cannot be read with.
fn unsupported(table: &str, what: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("{table}: {what} is not supported")).with_code("0A000")
}

/// The table of a lake at a location: if one is asked for, or if the folder is one. `None` if it is none.
///
/// Fails with kind `File` if its log cannot be read or its catalog cannot be asked, `Unsupported` if it has a feature
/// that cannot be, `Input` if the format that is asked for reads no such folder.
pub(super) fn open_lake(location: &str, options: &OpenOptions, disk: &Arc<dyn Disk>) -> Result<Option<Arc<LakeTable>>> {
    let wanted = options.format;
    let told = match &options.catalog {
        Some(catalog) => Some(catalog::metadata_location(catalog, location)?),
        None => None,
    };
    let location = told.as_deref().unwrap_or(location);
    let is_asked = matches!(wanted, Some(Format::Delta | Format::Iceberg));
    if !is_asked && (location.contains(['*', '?', '[']) || !options.also.is_empty()) {
        return Ok(None);
    }
    let one_state = if wanted == Some(Format::Iceberg) { metadata_file(location) } else { None };
    let folder = one_state.map_or(location, |(folder, _)| folder);
    let Some(place) = Place::open(folder, disk, is_asked)? else { return Ok(None) };
    let found = match wanted {
        Some(Format::Delta | Format::Iceberg) => wanted,
        _ => format_of(&place)?,
    };
    let Some(found) = found else {
        if options.moment.is_some() {
            return Err(no_moments(location));
        }
        return Ok(None);
    };
    match wanted {
        Some(other) if other != found => {
            let (is, function) = (found.name(), reader_of(found));
            return Err(Error::input(format!(
                "{location} is a table of {is}, and not a folder of {} files",
                other.name()
            ))
            .with_hint(format!("{function}('{location}') reads it, or its files are named one by one")));
        }
        _ => {}
    }
    if options.schema.is_some() || options.partition_columns.is_some() || !options.types.is_empty() {
        let what = format!("the columns of a table of {} are in its log, and cannot be declared", found.name());
        return Err(Error::input(format!("{location}: {what}")));
    }
    if options.filename.is_some() || !options.also.is_empty() {
        let what = if options.filename.is_some() { "the option filename" } else { "a list of several tables" };
        return Err(unsupported(location, format!("{what} with a table of {}", found.name())));
    }
    // What comes while the log is read is not in the table.
    let log = if found == Format::Iceberg { ICEBERG_METADATA } else { DELTA_LOG };
    let seen = if place.folder().is_some() { None } else { Some((log, place.names_in(log)?)) };
    let table = match found {
        Format::Iceberg => iceberg::open(place, one_state.map(|(_, file)| file), options.moment)?,
        _ => delta::open(place, options.moment)?,
    };
    Ok(Some(Arc::new(table.seen(seen))))
}

/// The error for a past state of files that have none.
pub(super) fn no_moments(location: &str) -> Error {
    Error::input(format!("{location} has no past states")).with_hint("tables of Delta Lake and Iceberg have them")
}

/// The function that reads tables of a format.
fn reader_of(format: Format) -> &'static str {
    if format == Format::Iceberg { "iceberg_scan" } else { "delta_scan" }
}

/// What tells that a folder is a lake's table.
const DELTA_LOG: &str = "_delta_log";
const ICEBERG_METADATA: &str = "metadata";
const ICEBERG_METADATA_END: &str = ".metadata.json";

/// The format of a table of a lake; `None` if it is none.
fn format_of(place: &Place) -> Result<Option<Format>> {
    if place.list(DELTA_LOG)?.iter().any(|entry| is_log_file(&entry.name)) {
        return Ok(Some(Format::Delta));
    }
    let is_metadata = place.list(ICEBERG_METADATA)?.iter().any(|entry| is_iceberg_metadata(&entry.name));
    Ok(is_metadata.then_some(Format::Iceberg))
}

fn is_log_file(name: &str) -> bool {
    name.len() > 20 && name.as_bytes()[..20].iter().all(u8::is_ascii_digit)
}

fn is_iceberg_metadata(name: &str) -> bool {
    name.ends_with(ICEBERG_METADATA_END) || name.ends_with(".gz.metadata.json") || name.ends_with(".metadata.json.gz")
}

/// The folder of an Iceberg table and the name of one file of its metadata, which a location may name, as catalogs do;
/// `None` if it names no such file.
fn metadata_file(location: &str) -> Option<(&str, &str)> {
    let (folder, file) = location.rsplit_once('/')?;
    if !is_iceberg_metadata(file) {
        return None;
    }
    let table = folder.strip_suffix(ICEBERG_METADATA)?;
    match table.strip_suffix('/') {
        Some(table) if !table.is_empty() => Some((table, file)),
        None if table.is_empty() => Some((".", file)),
        _ => None,
    }
}

/// Whether an entry of a folder tells that the folder may be a lake's table.
pub(super) fn may_tell_a_lake(entry: &std::path::Path) -> bool {
    entry.ends_with(DELTA_LOG) || entry.ends_with(ICEBERG_METADATA)
}

/// The lake's table that a local folder is in, however deep.
pub(super) fn lake_above(folder: &std::path::Path, disk: &Arc<dyn Disk>) -> Option<(std::path::PathBuf, Format)> {
    let above = folder.ancestors().skip(1).take(FOLDERS_ABOVE_MAX);
    let mut named = above.filter(|folder| !folder.as_os_str().is_empty());
    named.find_map(|folder| Some((folder.to_owned(), lake_at(folder, disk)?)))
}

/// The format of the lake's table that a local folder is; `None` if it is none.
pub(super) fn lake_at(folder: &std::path::Path, disk: &Arc<dyn Disk>) -> Option<Format> {
    if !disk.is_folder(&folder.join(DELTA_LOG)) && !disk.is_folder(&folder.join(ICEBERG_METADATA)) {
        return None;
    }
    format_of(&Place::local(folder.to_owned(), disk.clone())).ok().flatten()
}
