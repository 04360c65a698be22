//! A model beside the store: random changes, checkpoints, disks that fail and power that goes at any moment.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Int64Type, SchemaRef};
use diligence_base::seams::{CrashDisk, Disk, DiskFault, FaultyDisk, LocalDisk, OpenMode, Random};
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::distribution::{Distribution, Strategy};
use diligence_catalog::rules::{Key, RowFunction, TableRules};
use diligence_catalog::transaction::Transaction;
use diligence_catalog::{
    Catalog, DEFAULT_SCHEMA, FileRelation, NativeTable, NewRows, ObjectRef, Relation, RelationName, Routine, RowChange,
    StoredCluster, View,
};
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::segment::{FormatChoice, SegmentFormat};
use parking_lot::Mutex;
use sqlparser::ast::Expr;

use super::*;

mod past;

/// Tables by name, with the values of their rows by row number, and the next number.
type Model = BTreeMap<String, (BTreeMap<i64, i64>, i64)>;

struct Tester;

impl Surroundings for Tester {
    fn row_function(
        &self,
        _table: &RelationName,
        _columns: &SchemaRef,
        _key: &Key,
        _expressions: &[Option<Arc<Expr>>],
        _condition: Option<&Expr>,
    ) -> Result<Arc<dyn RowFunction>> {
        Err(Error::bug("no table has a key here"))
    }

    fn expression(&self, _text: &str) -> Result<Expr> {
        Err(Error::bug("no table has a default here"))
    }

    fn view(&self, _definition: &str, _columns: SchemaRef) -> Result<View> {
        Err(Error::bug("there are no views here"))
    }

    fn routine(&self, _definition: &str) -> Result<Routine> {
        Err(Error::bug("there are no functions here"))
    }

    fn files(&self, _definition: &str) -> Result<FileRelation> {
        Err(Error::bug("there are no files here"))
    }

    fn compacted(&self, rows: RecordBatch) -> Result<RecordBatch> {
        Ok(rows)
    }

    fn memory(&self) -> Reservation {
        QueryMemory::unbounded().reservation("a table in memory")
    }
}

fn name(table: &str) -> RelationName {
    RelationName::new(DEFAULT_SCHEMA, table)
}

fn rows(values: &[i64]) -> RecordBatch {
    let texts = values.iter().map(|value| format!("the value {value} as a text"));
    let columns: [(_, ArrayRef); 2] =
        [("a", Arc::new(Int64Array::from(values.to_vec()))), ("b", Arc::new(StringViewArray::from_iter_values(texts)))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// What a catalog has.
fn content(catalog: &Catalog) -> Model {
    readable(catalog).unwrap()
}

/// The same, where the disk may fail.
fn readable(catalog: &Catalog) -> Result<Model> {
    let mut model = Model::new();
    for object in catalog.snapshot().objects() {
        let Relation::Native(table) = &object.relation else { panic!("{object:?}") };
        let mut all = BTreeMap::new();
        for piece in table.pieces() {
            let batch = piece.read()?;
            assert!(is_in_its_fragment(table, &batch, piece.fragment()), "{object:?}");
            let (values, texts) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string_view());
            for (row, number) in piece.live_numbers().enumerate() {
                let value = values.value(row);
                assert_eq!(texts.value(row), format!("the value {value} as a text"));
                all.insert(number, value);
            }
        }
        model.insert(object.name.name.clone(), (all, table.next_number()));
    }
    Ok(model)
}

/// Whether all of these rows belong to a fragment.
fn is_in_its_fragment(table: &NativeTable, rows: &RecordBatch, fragment: u16) -> bool {
    let is_free = matches!(table.rules().distribution.strategy, Strategy::RoundRobin { .. });
    let own = table.placement().split(rows, 0).unwrap();
    fragment < table.placement().fragments() && (is_free || own.iter().all(|part| part.fragment == fragment))
}

/// How a table is divided, by its name and the number of its first rows.
fn distribution(table: &str, rows: usize) -> Distribution {
    let column = || "a".to_owned();
    let strategy = match (table, rows % 3) {
        ("u", 0) => Strategy::Hash { columns: vec![column()], fragments: 3 },
        ("u", _) => Strategy::RoundRobin { fragments: 2 },
        ("v", 0) => Strategy::Range { column: column(), bounds: vec!["300".to_owned(), "600".to_owned()] },
        ("v", _) => Strategy::Uniform { column: column(), fragments: 3, bounds: None },
        _ => Strategy::default(),
    };
    let clustered = if table == "t" || rows == 1 { vec![] } else { vec![column()] };
    Distribution { strategy, clustered }
}

#[derive(Clone, Debug)]
enum Operation {
    Create {
        table: String,
        values: Vec<i64>,
    },
    Drop {
        table: String,
    },
    Change {
        table: String,
        deleted: Vec<i64>,
        inserted: Vec<i64>,
    },
    Replace {
        table: String,
        inserted: Vec<i64>,
    },
    /// Rows that come in segments of their own, in clusters of two rows.
    Load {
        table: String,
        values: Vec<i64>,
        replace: bool,
    },
    /// Changes of several tables, and perhaps a table that goes, at once.
    Transaction {
        changes: Vec<(String, Vec<i64>, Vec<i64>)>,
        loaded: Option<(String, Vec<i64>)>,
        dropped: Option<String>,
    },
    Checkpoint,
}

impl Operation {
    fn random(random: &mut Random, model: &Model) -> Self {
        let values = |random: &mut Random| (0..random.below(5)).map(|_| random.below(1000) as i64).collect::<Vec<_>>();
        let table = ["t", "u", "v"][random.below(3)].to_owned();
        let Some((present, _)) = model.get(&table) else {
            return Self::Create { table, values: values(random) };
        };
        match random.below(14) {
            0 => Self::Create { table, values: values(random) },
            1 => Self::Drop { table },
            2 => Self::Replace { table, inserted: values(random) },
            3 => Self::Checkpoint,
            12 | 13 => Self::Load { table, values: values(random), replace: random.below(4) == 0 },
            4 | 5 => {
                let mut changes = Vec::new();
                for (table, (present, _)) in model {
                    let deleted = present.keys().copied().filter(|_| random.below(4) == 0).collect::<Vec<_>>();
                    changes.push((table.clone(), deleted, values(random)));
                    // Once more: what was there before the transaction is not deleted twice.
                    changes.push((table.clone(), vec![], values(random)));
                }
                let loaded = (random.below(3) == 0).then(|| (table.clone(), values(random)));
                Self::Transaction { changes, loaded, dropped: (random.below(3) == 0).then_some(table) }
            }
            _ => {
                let deleted = present.keys().copied().filter(|_| random.below(4) == 0).collect();
                Self::Change { table, deleted, inserted: values(random) }
            }
        }
    }

    fn model(&self, model: &mut Model) {
        match self {
            Self::Create { table, values } => {
                let all = (0..).zip(values.iter().copied()).collect();
                model.insert(table.clone(), (all, values.len() as i64));
            }
            Self::Drop { table } => drop(model.remove(table)),
            Self::Change { table, deleted, inserted } => {
                let (all, next) = model.get_mut(table).unwrap();
                all.retain(|number, _| !deleted.contains(number));
                for value in inserted {
                    all.insert(*next, *value);
                    *next += 1;
                }
            }
            Self::Load { table, values, replace: false } => {
                Self::Change { table: table.clone(), deleted: vec![], inserted: values.clone() }.model(model);
            }
            Self::Load { table, values: inserted, replace: true } | Self::Replace { table, inserted } => {
                let (all, next) = model.get_mut(table).unwrap();
                all.clear();
                for value in inserted {
                    all.insert(*next, *value);
                    *next += 1;
                }
            }
            Self::Transaction { changes, loaded, dropped } => {
                for (table, deleted, inserted) in changes {
                    let (table, deleted, inserted) = (table.clone(), deleted.clone(), inserted.clone());
                    Self::Change { table, deleted, inserted }.model(model);
                }
                if let Some((table, values)) = loaded {
                    Self::Load { table: table.clone(), values: values.clone(), replace: false }.model(model);
                }
                if let Some(dropped) = dropped {
                    model.remove(dropped);
                }
            }
            Self::Checkpoint => {}
        }
    }

    fn run(&self, catalog: &Arc<Catalog>, store: &Store) -> Result<()> {
        let memory = Tester.memory();
        let table = |table: &str| catalog.snapshot().get(&name(table)).unwrap().reference();
        match self {
            Self::Create { table, values } => {
                let batch = rows(values);
                let version = catalog.next_table_version();
                let rules = TableRules { distribution: distribution(table, values.len()), ..TableRules::default() };
                let (schema, rows) = (batch.schema(), vec![batch.into()]);
                let made = NativeTable::of_rows_under(&name(table), &schema, rows, rules, memory, None, version)?;
                catalog.create(&name(table), Relation::Native(Arc::new(made)), true)
            }
            Self::Drop { table } => catalog.as_ref().drop(&name(table), |_| Ok(())).map(|_| ()),
            Self::Change { table: changed, deleted, inserted } => {
                let change =
                    RowChange { deleted: deleted.clone(), inserted: vec![rows(inserted).into()], memory, pairs: 0 };
                catalog.change(&table(changed), change)
            }
            Self::Replace { table: replaced, inserted } => {
                catalog.insert(&table(replaced), &[rows(inserted).into()], memory, true)
            }
            Self::Load { table: loaded, values, replace } => {
                let table = table(loaded);
                let new = loaded_rows(catalog, &table, values)?;
                catalog.insert(&table, &new, memory, *replace)
            }
            Self::Transaction { changes, loaded, dropped } => {
                let transaction = Transaction::begin(catalog.clone());
                for (table, deleted, inserted) in changes {
                    let (table, deleted, inserted) = (table.clone(), deleted.clone(), inserted.clone());
                    Self::Change { table, deleted, inserted }.run(transaction.catalog(), store)?;
                }
                if let Some((table, values)) = loaded {
                    let (table, values) = (table.clone(), values.clone());
                    Self::Load { table, values, replace: false }.run(transaction.catalog(), store)?;
                }
                if let Some(dropped) = dropped {
                    transaction.catalog().as_ref().drop(&name(dropped), |_| Ok(()))?;
                }
                transaction.commit(false)
            }
            Self::Checkpoint => store.checkpoint(),
        }
    }
}

/// Rows in a segment of their own.
fn loaded_rows(catalog: &Catalog, table: &ObjectRef, values: &[i64]) -> Result<Vec<NewRows>> {
    let object = catalog.snapshot().get(&table.name).cloned().unwrap();
    let Relation::Native(present) = &object.relation else { panic!("{object:?}") };
    let Some(row_store) = catalog.row_store().filter(|_| !values.is_empty()) else { return Ok(vec![]) };
    let fragment = |value: &i64| present.placement().split(&rows(&[*value]), 0).unwrap()[0].fragment;
    let mut writer = row_store.begin(present.schema(), &present.columns().ids, fragment(&values[0]))?;
    let runs = values.chunk_by(|left, right| fragment(left) == fragment(right));
    let clusters = runs.flat_map(|run| run.chunks(2)).map(|values| {
        writer.write_cluster(&[rows(values)])?;
        Ok(fragment(&values[0]))
    });
    let fragments = clusters.collect::<Result<Vec<_>>>()?;
    let segment = row_store.finish(writer)?;
    let cluster = |(index, fragment)| {
        present.as_own(NewRows::Stored(StoredCluster::new(segment.clone(), index).in_fragment(fragment)))
    };
    Ok(fragments.into_iter().enumerate().map(cluster).collect())
}

fn open(disk: Arc<dyn Disk>) -> Result<(Arc<Catalog>, Store)> {
    open_at("/db", disk)
}

fn open_at(folder: &str, disk: Arc<dyn Disk>) -> Result<(Arc<Catalog>, Store)> {
    let catalog = Arc::<Catalog>::default();
    let options = StoreOptions {
        sizes: SegmentSizes { rows_min: 3, cluster_rows: 8, keys_min: 3 },
        ..StoreOptions::new(folder, disk)
    };
    let store = Store::open(options, catalog.clone(), &Tester)?;
    Ok((catalog, store))
}

/// Several lives of one database, each of which ends with a crash, after a fault of the disk or without one.
fn lives(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = CrashDisk::default();
    let directories = with_directories(&disk);
    // Some databases have segments in other directories as well.
    let is_spread = seed.is_multiple_of(3);
    let mut model = Model::new();
    // Backups by their folders, with what each has. No later life of the database may touch them.
    let mut backups = Vec::<(String, Model)>::new();
    for life in 0..4 {
        let inner: Arc<dyn Disk> = Arc::new(disk.clone());
        let fault = match random.below(5) {
            0 => None,
            1 => Some(DiskFault::Full),
            2 => Some(DiskFault::Broken),
            3 => Some(DiskFault::Short),
            _ => Some(DiskFault::Gone),
        };
        let faulty = match fault {
            None => FaultyDisk::counting(inner),
            Some(fault) => FaultyDisk::failing(inner, fault, random.below(160) as u64),
        };
        // What there may be after the crash, beside the model.
        let mut may_be = Vec::new();
        if let Ok((catalog, store)) = open(Arc::new(faulty.clone())) {
            // Segments of both formats, side by side.
            store.options.format.set(SegmentFormat::ALL[(seed as usize + life) % 2]);
            let is_as = |model: &Model, at: String| match readable(&catalog) {
                Ok(found) => assert_eq!(found, *model, "{at}"),
                // Rows in segments cannot be read while the disk fails.
                Err(error) => assert!(error.kind() == ErrorKind::File && faulty.first_fault().is_some(), "{error}"),
            };
            is_as(&model, format!("seed {seed}, life {life}"));
            for step in 0..random.below(30) {
                let operation = Operation::random(&mut random, &model);
                let outcome = operation.run(&catalog, &store);
                let mut after = model.clone();
                operation.model(&mut after);
                match outcome {
                    Ok(()) => {
                        model = after;
                        may_be.clear();
                    }
                    // One that fails may be there after a crash, but nobody sees it before.
                    Err(error) => {
                        let is_disk = faulty.first_fault().is_some() && error.kind() != ErrorKind::Bug;
                        assert!(is_disk, "seed {seed}, life {life}, step {step}, {operation:?}: {error}");
                        may_be.push(after);
                    }
                }
                let at = || format!("seed {seed}, life {life}, step {step}, {operation:?}, {:?}", faulty.first_fault());
                is_as(&model, at());
                if random.below(12) == 0 {
                    let to = format!("/backup-{life}-{step}");
                    let earlier = backups.last().filter(|_| random.below(2) == 0);
                    let earlier = earlier.map(|(earlier, _)| Path::new(earlier.as_str()));
                    match store.back_up(Path::new(&to), earlier) {
                        Ok(_) => backups.push((to, model.clone())),
                        Err(error) => assert!(faulty.first_fault().is_some(), "{}: {error}", at()),
                    }
                    is_as(&model, at());
                }
                if is_spread && random.below(8) == 0 {
                    let some = directories.iter().filter(|_| random.below(3) > 0).cloned().collect::<Vec<_>>();
                    match store.set_directories(&some) {
                        Ok(()) => assert_eq!(store.directories(), some),
                        Err(error) => assert!(faulty.first_fault().is_some(), "{}: {error}", at()),
                    }
                    is_as(&model, at());
                }
                if random.below(8) == 0 {
                    faulty.heal();
                }
            }
        }
        // Or the process ends alone, and the power fails while another one opens the database.
        if random.below(3) == 0 {
            let inner = Arc::new(disk.clone());
            drop(open(Arc::new(FaultyDisk::failing(inner, DiskFault::Gone, random.below(60) as u64))));
        }
        disk = disk.crash(random.below(1 << 30) as u64);
        let (catalog, _store) = open(Arc::new(disk.clone())).unwrap_or_else(|error| {
            panic!("{error}, seed {seed}, life {life}, {:?}", faulty.first_fault());
        });
        let found = content(&catalog);
        assert!(
            found == model || may_be.contains(&found),
            "seed {seed}, life {life}, {:?}: found {found:?} instead of {model:?} or {may_be:?}",
            faulty.first_fault()
        );
        model = found;
        for (folder, model) in &backups {
            // A database that is opened begins a log.
            let copy = disk.crash(0);
            let (catalog, _store) = open_at(folder, Arc::new(copy)).unwrap_or_else(|error| {
                panic!("{error}, seed {seed}, life {life}, {folder}");
            });
            assert_eq!(content(&catalog), *model, "seed {seed}, life {life}, {folder}");
        }
    }
}

/// Directories of other disks, which are there whatever happens.
fn with_directories(disk: &CrashDisk) -> [PathBuf; 2] {
    let directories = ["/two", "/three"].map(PathBuf::from);
    directories.iter().for_each(|directory| disk.create_folder(directory).unwrap());
    disk.sync_folder(Path::new("/")).unwrap();
    directories
}

#[test]
fn fragments_lie_in_directories_of_several_disks() {
    let disk = CrashDisk::default();
    let directories = with_directories(&disk);
    let segments = |folder: &str| {
        let files = disk.files();
        files.keys().filter(|path| path.starts_with(folder) && !path.ends_with("OWNER")).count()
    };
    let values = (0..60).collect::<Vec<i64>>();
    let mut model = Model::new();
    let run = |operation: Operation, catalog: &Arc<Catalog>, store: &Store, model: &mut Model| {
        operation.run(catalog, store).unwrap();
        operation.model(model);
        assert_eq!(content(catalog), *model);
    };
    {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        let code = |paths: &[&str]| {
            let paths = paths.iter().map(PathBuf::from).collect::<Vec<_>>();
            store.set_directories(&paths).unwrap_err().code().map(str::to_owned)
        };
        assert_eq!(code(&["two"]).as_deref(), Some("42P17"));
        assert_eq!(code(&["/two", "/four"]).as_deref(), Some("58P01"));
        assert_eq!(code(&["/two", "/two"]).as_deref(), Some("42710"));
        assert!(store.directories().is_empty());
        store.set_directories(&directories).unwrap();
        // Three fragments, by a hash.
        run(Operation::Create { table: "u".into(), values: values.clone() }, &catalog, &store, &mut model);
        run(Operation::Checkpoint, &catalog, &store, &mut model);
        assert!([segments("/db/segments"), segments("/two/diligence-1"), segments("/three/diligence-1")] == [1; 3]);
        store.back_up(Path::new("/backup"), None).unwrap();
    }
    // Another database has a part of its own there.
    {
        let (_, store) = open_at("/other", Arc::new(disk.clone())).unwrap();
        store.set_directories(&directories[..1]).unwrap();
        assert!(disk.files().contains_key(Path::new("/two/diligence-2/OWNER")));
    }
    let refused = |change: &dyn Fn(&mut BTreeMap<PathBuf, Vec<u8>>)| {
        let mut files = disk.files();
        change(&mut files);
        open(Arc::new(CrashDisk::holding(files))).unwrap_err()
    };
    let error = refused(&|files| files.retain(|path, _| !path.starts_with("/two")));
    assert_eq!((error.kind(), error.code()), (ErrorKind::File, Some("58P01")), "{error}");
    assert!(error.message().contains("/two/diligence-1") && error.hint().is_some(), "{error}");
    let error = refused(&|files| drop(files.insert("/two/diligence-1/OWNER".into(), b"/elsewhere".to_vec())));
    assert_eq!(error.code(), Some("55000"), "{error}");
    let error = refused(&|files| drop(files.insert("/db/directories".into(), b"perhaps /two".to_vec())));
    assert_eq!(error.code(), Some("XX001"), "{error}");
    let error =
        refused(&|files| files.retain(|path, _| !path.starts_with("/two/diligence-1") || path.ends_with("OWNER")));
    assert!(error.message().contains(".parquet"), "{error}");
    // A backup has all segments in one folder.
    assert_eq!(content(&open_at("/backup", Arc::new(disk.crash(0))).unwrap().0), model);
    {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        assert_eq!((content(&catalog), store.directories()), (model.clone(), directories.to_vec()));
        // One that is given up stays until nothing is in it any more.
        store.set_directories(&directories[..1]).unwrap();
        run(Operation::Checkpoint, &catalog, &store, &mut model);
        assert_eq!(segments("/three/diligence-1"), 1);
        let error = refused(&|files| files.retain(|path, _| !path.starts_with("/three")));
        assert_eq!(error.code(), Some("58P01"), "{error}");
        run(Operation::Replace { table: "u".into(), inserted: values }, &catalog, &store, &mut model);
        run(Operation::Checkpoint, &catalog, &store, &mut model);
        run(Operation::Checkpoint, &catalog, &store, &mut model);
        assert!(!disk.is_folder(Path::new("/three/diligence-1")));
        assert!(segments("/two/diligence-1") > 0 && segments("/db/segments") > 0);
        run(Operation::Drop { table: "u".into() }, &catalog, &store, &mut model);
        run(Operation::Checkpoint, &catalog, &store, &mut model);
        run(Operation::Checkpoint, &catalog, &store, &mut model);
        assert_eq!(segments("/two/diligence-1") + segments("/db/segments"), 0);
    }
    assert_eq!(content(&open(Arc::new(disk.crash(3))).unwrap().0), model);
}

/// Seeds of a test: as many as `DILIGENCE_CRASH_SEEDS` says, or from one to another, as in `2250..2251`.
fn seeds(by_default: u64) -> Range<u64> {
    let Ok(given) = std::env::var("DILIGENCE_CRASH_SEEDS") else { return 0..by_default };
    let number = |text: &str| text.parse().expect("DILIGENCE_CRASH_SEEDS: a number, or a range of numbers");
    match given.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&given),
    }
}

#[test]
fn what_is_acknowledged_is_there_after_any_crash() {
    seeds(300).for_each(lives);
}

/// A byte that changes is an error that names the file, or a log that ends there; never other rows.
#[test]
fn damage_is_found() {
    let disk = CrashDisk::default();
    let mut random = Random::new(5);
    let mut states = vec![Model::new()];
    {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        for step in 0..40 {
            store.options.format.set(SegmentFormat::ALL[step / 3 % 2]);
            let operation = if step == 20 { Operation::Checkpoint } else { Operation::random(&mut random, &states[0]) };
            let mut next = states[0].clone();
            operation.run(&catalog, &store).unwrap();
            operation.model(&mut next);
            states.insert(0, next);
        }
    }
    let files = disk.files();
    let has = |text: &str| files.keys().any(|path| path.starts_with("/db/") && path.to_string_lossy().contains(text));
    assert!(has("image"), "{:?}", files.keys());
    let mut refused = 0;
    for (path, bytes) in &files {
        for _ in 0..200 {
            let mut damaged = files.clone();
            let place = random.below(bytes.len());
            damaged.get_mut(path).unwrap()[place] ^= 1 << random.below(8);
            match open(Arc::new(CrashDisk::holding(damaged))) {
                Ok((catalog, _)) => match readable(&catalog) {
                    Ok(found) => assert!(states.contains(&found), "{} at {place}", path.display()),
                    Err(error) => {
                        refused += 1;
                        assert!(error.message().contains("/db/segments/"), "{error}");
                    }
                },
                Err(error) => {
                    refused += 1;
                    assert!(error.message().contains("/db/"), "{error}");
                }
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

/// A bit of a log that changes is an error as long as anything says that what it belongs to was acknowledged.
#[test]
fn no_bit_of_a_log_changes_unseen() {
    let disk = CrashDisk::default();
    let log = Path::new("/db/log-000001");
    let change = |inserted: Vec<i64>| Operation::Change { table: "t".into(), deleted: vec![], inserted };
    let mut states = Vec::new();
    let mut ends = Vec::new();
    // Behind the mark, whose last number is small.
    let end_of = |files: &BTreeMap<PathBuf, Vec<u8>>| files[log].iter().rposition(|byte| *byte != 0).unwrap() + 8;
    {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
        for value in 0..4 {
            change(vec![value, value + 7]).run(&catalog, &store).unwrap();
            states.push(content(&catalog));
            ends.push(end_of(&disk.files()));
        }
    }
    let (last, before) = (states.pop().unwrap(), states.pop().unwrap());
    let (end, last_begins) = (ends.pop().unwrap(), ends.pop().unwrap());
    let flipped = |files: &BTreeMap<PathBuf, Vec<u8>>, byte: usize, bit: usize| {
        let mut files = files.clone();
        files.get_mut(log).unwrap()[byte] ^= 1 << bit;
        open(Arc::new(CrashDisk::holding(files))).map(|(catalog, _)| content(&catalog))
    };
    let is_refused = |found: &Error, byte: usize| {
        let (message, hint) = (found.message(), found.hint().unwrap_or_default());
        assert_eq!(found.code(), Some("XX001"), "{byte}: {found}");
        assert!(message.contains("/db/log-000001, byte ") && hint.contains("diligence repair"), "{byte}: {found}");
    };
    let whole = disk.files();
    // With only the head of a log behind it, which a crash before the first record leaves.
    let mut followed = whole.clone();
    followed.extend({
        let disk = CrashDisk::holding(whole.clone());
        open(Arc::new(disk.clone())).unwrap();
        disk.files().into_iter().filter(|(path, _)| path.ends_with("log-000002"))
    });
    // As a power failure leaves it that comes before the mark is on the disk.
    let mut unmarked = whole.clone();
    unmarked.get_mut(log).unwrap()[end - 16..].fill(0);
    let mut refused = 0;
    for byte in 0..end + 40 {
        for bit in [byte % 8, (byte / 8 + 3) % 8] {
            let is_of_records = byte < end - 16;
            for files in [&whole, &followed] {
                match flipped(files, byte, bit) {
                    // It was of a mark, or of nothing.
                    Ok(found) => assert_eq!(found, last, "{byte}"),
                    Err(error) => {
                        refused += 1;
                        is_refused(&error, byte);
                    }
                }
            }
            // Here the last group may never have been acknowledged, though a record of it is whole behind the byte.
            match flipped(&unmarked, byte, bit) {
                Ok(found) if byte >= last_begins && is_of_records => assert_eq!(found, before, "{byte}"),
                Ok(found) => assert_eq!(found, last, "{byte}"),
                Err(error) => is_refused(&error, byte),
            }
        }
    }
    assert!(refused > 3 * (end - 16 * 6), "{refused} of {end}");
    // A log that has records, and whose head is damaged.
    {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        change(vec![9]).run(&catalog, &store).unwrap();
    }
    let mut files = disk.files();
    files.get_mut(Path::new("/db/log-000002")).unwrap()[17] ^= 4;
    let error = open(Arc::new(CrashDisk::holding(files))).unwrap_err();
    assert!(error.message().contains("/db/log-000002, byte 0"), "{error}");
}

/// Rows that came before an entry that never came are not synced by anybody, and the next log counts them.
#[test]
fn a_log_follows_rows_whose_statement_has_failed() {
    for seed in 0..20 {
        let disk = CrashDisk::default();
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
        let log = store.log_for_tests();
        let values = (0..200_000).collect::<Vec<i64>>();
        drop(diligence_catalog::journal::Journal::stage(&*log, &[rows(&values).into()]).unwrap());
        store.checkpoint().unwrap();
        Operation::Change { table: "t".into(), deleted: vec![], inserted: vec![2] }.run(&catalog, &store).unwrap();
        let (found, _store) = open(Arc::new(disk.crash(seed))).unwrap_or_else(|error| panic!("{error}, seed {seed}"));
        assert_eq!(content(&found), content(&catalog), "seed {seed}");
    }
}

/// The folder's name is on the disk before anything is acknowledged, whoever has made it.
#[test]
fn a_database_is_found_in_a_folder_that_was_there() {
    for seed in 0..20 {
        let disk = CrashDisk::default();
        disk.create_folders(Path::new("/above/db")).unwrap();
        let (catalog, store) = open_at("/above/db", Arc::new(disk.clone())).unwrap();
        Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
        let (found, _store) = open_at("/above/db", Arc::new(disk.crash(seed))).unwrap();
        assert_eq!(content(&found), content(&catalog), "seed {seed}");
    }
}

/// A process ends in the middle of a checkpoint, and the power fails while another one opens the database: what only
/// the earlier image refers to goes no sooner than the disk has the name of the new one.
#[test]
fn what_a_process_found_is_on_the_disk_before_it_removes_anything() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let disk = CrashDisk::default();
        let before = {
            let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
            Operation::Create { table: "t".into(), values: (0..8).collect() }.run(&catalog, &store).unwrap();
            store.checkpoint().unwrap();
            let deleted = Operation::Change { table: "t".into(), deleted: (0..6).collect(), inserted: vec![8, 9, 10] };
            deleted.run(&catalog, &store).unwrap();
            content(&catalog)
        };
        let mut broken = FaultyDisk::failing(Arc::new(disk.clone()), DiskFault::Gone, random.below(120) as u64);
        if let Ok((_catalog, store)) = open(Arc::new(broken)) {
            let _ = store.checkpoint();
        }
        broken = FaultyDisk::failing(Arc::new(disk.clone()), DiskFault::Gone, random.below(60) as u64);
        drop(open(Arc::new(broken)));
        let (found, _store) = open(Arc::new(disk.crash(seed))).unwrap_or_else(|error| panic!("{error}, seed {seed}"));
        assert_eq!(content(&found), before, "seed {seed}");
    }
}

#[test]
fn many_writers_are_synced_together_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let reopened = |folder: &Path| {
        let catalog = Arc::<Catalog>::default();
        let options = StoreOptions {
            checkpoint_bytes: 20_000,
            sizes: SegmentSizes { rows_min: 40, cluster_rows: 64, keys_min: 20 },
            format: Arc::new(FormatChoice::new(SegmentFormat::Diligence)),
            ..StoreOptions::new(folder, Arc::new(LocalDisk))
        };
        let store = Store::open(options, catalog.clone(), &Tester).unwrap();
        (catalog, Arc::new(store))
    };
    let (catalog, store) = reopened(folder.path());
    Operation::Create { table: "t".into(), values: vec![] }.run(&catalog, &store).unwrap();
    let checkpoints = {
        let store = store.clone();
        std::thread::spawn(move || store.make_checkpoints())
    };
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (catalog, store) = (&catalog, &store);
            scope.spawn(move || {
                for step in 0..40 {
                    let inserted = vec![writer * 1000 + step];
                    let operation = Operation::Change { table: "t".into(), deleted: vec![], inserted };
                    operation.run(catalog, store).unwrap();
                }
            });
        }
    });
    store.checkpoint().unwrap();
    let before = content(&catalog);
    assert_eq!(before["t"].0.len(), 320);
    store.stop();
    checkpoints.join().unwrap();
    drop((catalog, store));
    assert_eq!(content(&reopened(folder.path()).0), before);
}

/// What a disk refuses is nowhere, also where others have built on it meanwhile.
#[test]
fn writers_that_a_disk_refuses_leave_nothing() {
    let (mut refused, mut open_again) = (0, 0);
    for seed in 0..60 {
        let disk = CrashDisk::default();
        let at = 25 + Random::new(seed).below(60) as u64;
        let broken = FaultyDisk::failing(Arc::new(disk.clone()), DiskFault::Broken, at);
        let (catalog, store) = open(Arc::new(broken)).unwrap();
        Operation::Create { table: "t".into(), values: vec![] }.run(&catalog, &store).unwrap();
        let (kept, is_closed) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (catalog, store, kept, is_closed) = (&catalog, &store, &kept, &is_closed);
                scope.spawn(move || {
                    for step in 0..40 {
                        let value = writer * 1000 + step;
                        let operation = Operation::Change { table: "t".into(), deleted: vec![], inserted: vec![value] };
                        match operation.run(catalog, store) {
                            Ok(()) => kept.lock().push(value),
                            Err(error) => {
                                is_closed.fetch_or(error.code() == Some("25006"), Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let mut kept = kept.into_inner();
        kept.sort_unstable();
        refused += 160 - kept.len();
        let values = |catalog: &Catalog| {
            let mut values = content(catalog)["t"].0.values().copied().collect::<Vec<_>>();
            values.sort_unstable();
            values
        };
        assert_eq!(values(&catalog), kept, "seed {seed}");
        let (reopened, _) = open(Arc::new(disk.crash(seed))).unwrap();
        // Where a sync has failed nobody knows what it left, and nothing came after it.
        if is_closed.into_inner() {
            let found = content(&reopened).remove("t").unwrap().0;
            assert!(content(&catalog)["t"].0.iter().all(|(number, value)| found.get(number) == Some(value)), "{seed}");
        } else {
            open_again += 1;
            assert_eq!(content(&reopened), content(&catalog), "seed {seed}");
        }
    }
    assert!(refused > 0 && open_again > 0, "{refused} {open_again}");
}

#[test]
fn many_rows_of_one_statement_are_there_or_not() {
    let disk = CrashDisk::default();
    let values = (0..400_000).collect::<Vec<i64>>();
    {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
        let batches = values.chunks(8192).map(|values| rows(values).into()).collect::<Vec<_>>();
        let table = catalog.snapshot().get(&name("t")).unwrap().reference();
        catalog.insert(&table, &batches, Tester.memory(), false).unwrap();
    }
    let (catalog, _) = open(Arc::new(disk.crash(1))).unwrap();
    assert_eq!(content(&catalog)["t"].0.len(), 400_001);
    // Rows whose entry is missing are nobody's: the file ends in front of it.
    let mut files = disk.files();
    let log = files.get_mut(Path::new("/db/log-000001")).unwrap();
    // The mark behind the entry ends with its place in the order.
    let end = log.iter().rposition(|byte| *byte != 0).unwrap() - 8;
    log.truncate(end - 8);
    let (catalog, _) = open(Arc::new(CrashDisk::holding(files))).unwrap();
    assert_eq!(content(&catalog)["t"].0.len(), 1);
}

#[test]
fn rows_that_fill_a_cluster_move_before_the_log_is_long() {
    let catalog = Arc::<Catalog>::default();
    let sizes = SegmentSizes { rows_min: 3, cluster_rows: 8, keys_min: 3 };
    let disk = Arc::new(CrashDisk::default());
    let options = StoreOptions { sizes, checkpoint_bytes: 1 << 20, ..StoreOptions::new("/db", disk.clone()) };
    let store = Store::open(options, catalog.clone(), &Tester).unwrap();
    Operation::Create { table: "t".into(), values: vec![0] }.run(&catalog, &store).unwrap();
    // The log grows, and there is one row.
    for step in 0..200 {
        Operation::Change { table: "t".into(), deleted: vec![step], inserted: vec![step] }
            .run(&catalog, &store)
            .unwrap();
    }
    assert!(!store.is_checkpoint_due());
    let inserted = (0..8).collect();
    Operation::Change { table: "t".into(), deleted: vec![], inserted }.run(&catalog, &store).unwrap();
    assert!(store.is_checkpoint_due());
    store.checkpoint().unwrap();
    assert!(!store.is_checkpoint_due());
    assert!(disk.files().keys().any(|path| path.starts_with("/db/segments")));
}

#[test]
fn the_log_says_what_is_synced() {
    let disk = Arc::new(CrashDisk::default());
    let (catalog, store) = open(disk.clone()).unwrap();
    let log = store.log_for_tests();
    let present = || store.logs().unwrap().pop().unwrap();
    assert_eq!((present().number, present().records, present().synced_records), (1, Some(0), Some(0)));
    Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
    let before = present();
    assert!(before.records > Some(0) && before.synced_records == before.records, "{before:?}");
    assert!(before.bytes > Some(0) && before.bytes < Some(before.file_bytes), "{before:?}");
    // Rows of a statement that goes on are written, and not synced.
    let values = (0..200_000).collect::<Vec<_>>();
    let staged = diligence_catalog::journal::Journal::stage(&*log, &[rows(&values).into()]).unwrap();
    let during = present();
    assert!(during.records > before.records && during.synced_records == before.records, "{during:?}");
    drop(staged);
    store.checkpoint().unwrap();
    let [after] = store.logs().unwrap().try_into().unwrap();
    assert_eq!((after.number, after.first_record), (2, during.first_record.zip(during.records).map(|(a, b)| a + b)));
    // An earlier one is told from the beginning of the one behind it.
    Operation::Change { table: "t".into(), deleted: vec![], inserted: vec![2] }.run(&catalog, &store).unwrap();
    let records = present().records;
    drop((catalog, store, log));
    let (_catalog, store) = open(disk).unwrap();
    let [earlier, present] = store.logs().unwrap().try_into().unwrap();
    assert_eq!((earlier.number, earlier.bytes, earlier.records, earlier.synced_records), (2, None, records, records));
    assert_eq!((present.number, present.records, present.is_covered), (3, Some(0), false));
}

#[test]
fn one_process_has_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let lock = FolderLock::take(folder.path()).unwrap();
    let error = FolderLock::take(folder.path()).unwrap_err();
    assert_eq!(error.code(), Some("55006"));
    assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
    drop(lock);
    FolderLock::take(folder.path()).unwrap();
}

#[test]
fn a_missing_log_is_an_error() {
    let disk = CrashDisk::default();
    for _ in 0..3 {
        let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
        Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
    }
    disk.remove_file(Path::new("/db/log-000002")).unwrap();
    let error = open(Arc::new(disk.clone())).unwrap_err();
    assert!(error.message().contains("log-000002"), "{error}");
    disk.open(Path::new("/db/log-000002"), OpenMode::CREATE_NEW).unwrap();
    assert!(open(Arc::new(disk)).is_err(), "an empty file in its place is none");
}
