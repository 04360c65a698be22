//! Repair: of a folder that does not open, or of which queries cannot read a part, what can be saved is saved.
//!
//! ```text
//!   image ── records that can be read ──┐
//!   logs ─── up to the first record that cannot be read ──┤ in memory ── written ──▶ another folder
//!   segments ── clusters whose checksums are right ──┘
//! ```
//!
//! The folder itself stays as it is, so nothing is lost by trying. Each row has the number that it had, so that what
//! the log says of rows is about the same ones.

use std::path::Path;

use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::{Catalog, Piece, Relation, RowChange};

use crate::backup::fill;
use crate::files::{Purpose, RecordFile, failed, parent_of};
use crate::replay::{Replay, Surroundings};
use crate::segments::Segments;
use crate::store::StoreOptions;

/// What a repair has done.
#[derive(Debug, Default)]
pub struct Repaired {
    /// What was found, a sentence each; none if nothing was wrong.
    pub findings: Vec<String>,
    /// Rows that are lost, as far as their number is known.
    pub rows_lost: u64,
    /// Tables that there are, and their rows.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
}

impl Repaired {
    fn found(&mut self, finding: impl Into<String>) {
        self.findings.push(finding.into());
    }

    fn lost(&mut self, table: &str, rows: Option<usize>, why: &Error) {
        self.rows_lost += rows.unwrap_or(0) as u64;
        let count = match rows {
            Some(1) => "1 row is".to_owned(),
            Some(rows) => format!("{rows} rows are"),
            None => "an unknown number of rows is".to_owned(),
        };
        self.found(format!("{table}: {count} lost: {why}"));
    }
}

/// Saves what can be saved of the options' folder into one that is made, by way of an empty catalog. Nobody may have
/// the folder open. Blocks the calling thread. Fails with code 58P02 if there is something at the path, with kind
/// `File` if nothing can be read at all or the other folder cannot be written, `Resource` if the rows do not fit into
/// memory.
pub fn repair(
    options: &StoreOptions,
    to: &Path,
    catalog: &Catalog,
    surroundings: &dyn Surroundings,
) -> Result<Repaired> {
    let StoreOptions { folder, disk, sizes, format, buffer, .. } = options;
    if disk.meta(to).is_ok() {
        let error = Error::file(format!("{}: there is something already", to.display())).with_code("58P02");
        return Err(error.with_hint("a repair makes its folder: name one that is not there"));
    }
    let segments = Segments::there(folder, disk.clone(), *sizes, format.clone(), buffer.clone())?;
    let mut repaired = Repaired::default();
    let mut replay = Replay::new(catalog, surroundings, &segments).saving();
    let first_log = read_image(options, &mut replay, &mut repaired)?;
    read_logs(options, first_log, &mut replay, &mut repaired)?;
    for lost in replay.settle_indexes()? {
        repaired.found(format!("{}: the index {} is lost: {}", lost.table, lost.name, lost.error));
    }
    for lost in replay.into_lost() {
        if let Some((table, rows)) = &lost.table {
            repaired.lost(&table.to_string(), *rows, &lost.error);
        }
    }
    check_rows(catalog, surroundings, &mut repaired)?;
    let snapshot = catalog.snapshot();
    for object in snapshot.all_objects() {
        if let Relation::Native(table) = &object.relation {
            repaired.tables += 1;
            repaired.rows += table.rows() as u64;
        }
    }
    let written = fill(disk, &segments, to, (&snapshot, catalog.next_object()), None).and_then(|_| {
        let parent = parent_of(to);
        disk.sync_folder(parent).map_err(|error| failed(parent, &error))
    });
    written.inspect_err(|_| {
        let _ = disk.remove_tree(to);
    })?;
    Ok(repaired)
}

/// Does what the newest image says that has a beginning; gives the number of the log behind it.
fn read_image(options: &StoreOptions, replay: &mut Replay<'_>, repaired: &mut Repaired) -> Result<u64> {
    let StoreOptions { folder, disk, .. } = options;
    for number in Purpose::Image.numbers(&**disk, folder)?.into_iter().rev() {
        let path = Purpose::Image.path(folder, number);
        let mut file = match RecordFile::open(&**disk, &path, Purpose::Image) {
            Ok(Some(file)) => file,
            Ok(None) => {
                repaired.found(format!("{}: the file has no beginning that can be read", path.display()));
                continue;
            }
            Err(error) => {
                repaired.found(error.to_string());
                continue;
            }
        };
        let mut is_complete = false;
        loop {
            let place = file.next;
            let done = match file.read()? {
                Some(record) => replay.record(&record),
                None if is_complete => break,
                None => match file.skip()? {
                    true => Err(Error::file("its checksum is wrong")),
                    false => {
                        repaired.found(format!("{}: the file ends early, at record {place}", path.display()));
                        break;
                    }
                },
            };
            match done {
                Ok(is_end) => is_complete |= is_end,
                Err(error) if error.kind() == ErrorKind::Resource => return Err(error),
                Err(error) => repaired.found(format!("{}: record {place} is left out: {error}", path.display())),
            }
        }
        replay.end_file();
        return Ok(number);
    }
    Ok(1)
}

/// Does what the logs from this number on say, up to the first record that cannot be read or applied.
fn read_logs(options: &StoreOptions, first: u64, replay: &mut Replay<'_>, repaired: &mut Repaired) -> Result<()> {
    let StoreOptions { folder, disk, .. } = options;
    let numbers = Purpose::Log.numbers(&**disk, folder)?.into_iter().filter(|number| *number >= first);
    let numbers = numbers.collect::<Vec<_>>();
    let mut next = None::<u64>;
    for (index, number) in numbers.iter().enumerate() {
        let path = Purpose::Log.path(folder, *number);
        let is_last = index + 1 == numbers.len();
        let others = numbers.len() - index - 1;
        let rest = match others {
            0 => String::new(),
            1 => " and those of the log behind it".to_owned(),
            others => format!(" and those of the {others} logs behind it"),
        };
        if *number != first + index as u64 {
            repaired.found(format!("{}: logs before it are missing; its records{rest} are left out", path.display()));
            return Ok(());
        }
        let file = match RecordFile::open(&**disk, &path, Purpose::Log) {
            // One that was not begun to its end has no records.
            Ok(None) if is_last => return Ok(()),
            Ok(file) => file.filter(|file| next.is_none_or(|next| next == file.next)),
            Err(error) => {
                repaired.found(error.to_string());
                None
            }
        };
        let Some(mut file) = file else {
            let what = "does not go on where the one before it ends";
            repaired.found(format!("{}: the log {what}; its records{rest} are left out", path.display()));
            return Ok(());
        };
        loop {
            let place = file.next;
            let Some(record) = file.read()? else {
                if file.check_end().is_err() || file.skip()? {
                    let what = format!("the checksum of record {place} is wrong");
                    repaired.found(format!("{}: {what}; the records from it on{rest} are left out", path.display()));
                    return Ok(());
                }
                break;
            };
            if let Err(error) = replay.record(&record) {
                if error.kind() == ErrorKind::Resource {
                    return Err(error);
                }
                let what = format!("record {place} cannot be applied: {error}");
                repaired.found(format!("{}: {what}; the records from it on{rest} are left out", path.display()));
                return Ok(());
            }
        }
        replay.end_file();
        next = Some(file.next);
    }
    Ok(())
}

/// Reads all rows, and takes those away that cannot be read.
fn check_rows(catalog: &Catalog, surroundings: &dyn Surroundings, repaired: &mut Repaired) -> Result<()> {
    let snapshot = catalog.snapshot();
    for object in snapshot.all_objects() {
        let Relation::Native(table) = &object.relation else { continue };
        let mut deleted = Vec::new();
        for piece in table.pieces() {
            if let Err(error) = piece.read() {
                if error.kind() == ErrorKind::Resource {
                    return Err(error);
                }
                let gone = Piece::live_numbers(piece).collect::<Vec<_>>();
                repaired.lost(&object.name.to_string(), Some(gone.len()), &error);
                deleted.extend(gone);
            }
        }
        if !deleted.is_empty() {
            deleted.sort_unstable();
            let change = RowChange { deleted, inserted: vec![], memory: surroundings.memory(), pairs: 0 };
            catalog.restore_rows(&object.reference(), change, false)?;
        }
    }
    Ok(())
}
