//! The power fails at every operation of the disk: what was acknowledged is there, what was not is not.
//!
//! A statement writes on a disk that is gone after some of its operations. Then the machine starts again with what a
//! crash leaves: of what was not synced anything, in any order. A statement that had said that it is done has left all
//! its rows. One that had not has left none before it came to its commit; within the commit, each file is there with
//! all its rows or not at all, and rows of others stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use diligence_base::seams::{CrashDisk, DiskFault, FaultyDisk, Random};

use super::tests::{done, formats, prepared, read, rows, run, texts, writer};
use super::*;

/// A folder of files as a table.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Folder {
    fn files(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = self.disk.list(folder).unwrap_or_default().into_iter();
        let seen =
            entries.filter(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"_")));
        seen.flat_map(|path| if self.disk.is_folder(&path) { self.files(&path) } else { vec![path] }).collect()
    }
}

impl FileSet for Folder {
    fn add(&self, staging: Staging, replace: bool) -> Result<()> {
        let replaced = if replace { self.files(&self.path) } else { Vec::new() };
        staging.commit(&replaced)
    }
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Copy,
    CopyToFolder,
    Insert,
    InsertByKind,
    Overwrite,
}

const ACTS: [Act; 5] = [Act::Copy, Act::CopyToFolder, Act::Insert, Act::InsertByKind, Act::Overwrite];

/// A statement, the rows that are there before, and the rows that it writes.
struct Case {
    act: Act,
    ending: &'static str,
    format: WriteFormat,
    batches: Vec<Vec<RecordBatch>>,
}

impl Case {
    fn new(act: Act, (ending, format): (&'static str, WriteFormat), random: &mut Random) -> Self {
        let packets = 1 + random.below(2) as i64;
        let batches = (0..packets).map(|packet| vec![with_kind(rows(1000 + 500 * packet, 40))]).collect();
        Self { act, ending, format, batches }
    }

    fn location(&self) -> String {
        match self.act {
            Act::Copy => format!("/f/out.{}", self.ending),
            Act::CopyToFolder | Act::Insert | Act::InsertByKind | Act::Overwrite => "/t/".to_owned(),
        }
    }

    fn writer(&self, act: Act, disk: Arc<dyn Disk>) -> FileWriter {
        let folder = PathBuf::from("/t");
        let ending = format!(".{}", self.ending);
        let files = Arc::new(Folder { path: folder.clone(), disk: disk.clone() });
        let destination = match act {
            Act::Copy => Destination::File(self.location().into()),
            Act::CopyToFolder => Destination::Folder(folder, ending),
            Act::Insert | Act::InsertByKind | Act::Overwrite => {
                Destination::Table { folder, ending, files, replace: act == Act::Overwrite }
            }
        };
        let is_divided = self.act == Act::InsertByKind;
        let partition_columns = if is_divided { vec!["kind".to_owned()] } else { Vec::new() };
        FileWriter { partition_columns, ..writer(destination, self.format.clone(), disk) }
    }

    /// A disk with the rows that are there before.
    fn start(&self) -> CrashDisk {
        let disk = CrashDisk::default();
        let act = if self.act == Act::Overwrite { Act::Insert } else { self.act };
        let before = self.writer(act, Arc::new(disk.clone()));
        run(&before, &[vec![with_kind(rows(0, 20))]], 1 << 30, false).unwrap();
        disk
    }
}

fn with_kind(batch: RecordBatch) -> RecordBatch {
    let values = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().iter();
    let kinds = values.map(|value| format!("k{}", value.unwrap_or(0) % 3));
    let kinds: ArrayRef = Arc::new(StringViewArray::from_iter_values(kinds));
    let columns = [("a", batch.column(0).clone(), true), ("b", batch.column(1).clone(), true), ("kind", kinds, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn crash(seed: u64) {
    let mut random = Random::new(seed);
    let act = random.pick(&ACTS);
    let case = Case::new(act, random.pick(&formats()), &mut random);
    let counting = FaultyDisk::counting(Arc::new(case.start()));
    let operation = prepared(&case.writer(act, Arc::new(counting.clone())), &case.batches, 1 << 30, false).unwrap();
    let commit_at = counting.operations();
    done(operation.commit()).unwrap();
    let at = random.below(counting.operations() as usize + 1) as u64;
    let disk = case.start();
    let going = FaultyDisk::failing(Arc::new(disk.clone()), DiskFault::Gone, at);
    let acknowledged = run(&case.writer(act, Arc::new(going.clone())), &case.batches, 1 << 30, false).is_ok();
    let fault = going.first_fault().unwrap_or_default();
    let what = format!("seed {seed}: {act:?} of {}, gone at {at}: {fault}", case.ending);
    let found = read(&case.location(), Arc::new(disk.crash(random.bits())));
    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    let old = texts(&[with_kind(rows(0, 20))]);
    let new = texts(&case.batches.concat());
    let keeps_old = !matches!(act, Act::Copy | Act::Overwrite);
    let all = || old.union(&new).cloned().collect::<BTreeSet<_>>();
    if acknowledged {
        let wanted = if keeps_old { all() } else { new };
        let differs = found.symmetric_difference(&wanted).take(3).collect::<Vec<_>>();
        assert!(differs.is_empty(), "{what}: it was acknowledged, but {differs:?}");
    } else if at < commit_at {
        let differs = found.symmetric_difference(&old).take(3).collect::<Vec<_>>();
        assert!(differs.is_empty(), "{what}: it was not acknowledged, but {differs:?}");
    } else {
        match act {
            Act::Copy => assert!(found == old || found == new, "{what}: one file or the other"),
            // Old files go when the new ones are there.
            Act::Overwrite => assert!(found == old || found.is_superset(&new) && found.is_subset(&all()), "{what}"),
            Act::CopyToFolder | Act::Insert => assert!(found == old || found == all(), "{what}: all or nothing"),
            Act::InsertByKind => {
                assert!(found.is_superset(&old) && found.is_subset(&all()), "{what}: nothing else is touched");
                for kind in ["k0", "k1", "k2"] {
                    let of_kind = |rows: &BTreeSet<String>| rows.iter().filter(|row| row.ends_with(kind)).count();
                    let count = of_kind(&found);
                    assert!(count == of_kind(&old) || count == of_kind(&all()), "{what}: {kind} is whole");
                }
            }
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash_and_what_was_not_is_not() {
    (0..2000).for_each(crash);
}
