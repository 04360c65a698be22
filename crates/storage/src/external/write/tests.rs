//! What is written is what was given, in every format, by any number of packets, with any memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::csv::WriterBuilder;
use arrow::datatypes::Field;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use datafusion_common::config::TableParquetOptions;
use diligence_base::limits::PARQUET_ROW_GROUP_ROWS;
use diligence_base::seams::{CrashDisk, DiskFault, FaultyDisk};
use diligence_types::SqlType;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use crate::external::testing::{all, try_read_all};
use crate::external::{Compression, ExternalTable, Format, OpenOptions, open};
use crate::{ScanRequest, Table};

/// Runs I/O as the engine would.
pub(super) fn done<T>(io: WriteIo<T>) -> Result<T> {
    match io {
        WriteIo::Ready(done) => done,
        WriteIo::Blocking(write) => write(),
        WriteIo::Waiting(write) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(write)
        }
    }
}

/// Runs an operation to its end: these rows by a packet each, all at the same time. With `revokes`, memory is short.
pub(super) fn run(
    writer: &FileWriter,
    packets: &[Vec<RecordBatch>],
    memory_bytes: usize,
    revokes: bool,
) -> Result<u64> {
    let operation = prepared(writer, packets, memory_bytes, revokes)?;
    done(operation.commit())
}

/// The same up to the commit.
pub(super) fn prepared(
    writer: &FileWriter,
    packets: &[Vec<RecordBatch>],
    memory_bytes: usize,
    revokes: bool,
) -> Result<Arc<dyn WriteOperation>> {
    let schema = packets[0][0].schema();
    let operation = writer.begin(&WriteRequest { schema, memory_bytes })?;
    let mut parts = packets.iter().map(|_| operation.clone().part()).collect::<Result<Vec<_>>>()?;
    let longest = packets.iter().map(Vec::len).max().unwrap_or(0);
    for index in 0..longest {
        for (part, batches) in parts.iter_mut().zip(packets) {
            let Some(batch) = batches.get(index) else { continue };
            part.write(batch)?;
            if revokes && index % 2 == 1 {
                part.revoke()?;
            }
            std::iter::from_fn(|| part.next_io()).try_for_each(|due| done(due.io))?;
        }
    }
    for part in &mut parts {
        part.finish()?;
        std::iter::from_fn(|| part.next_io()).try_for_each(|due| done(due.io))?;
        assert_eq!(part.held_bytes(), 0);
    }
    drop(parts);
    done(operation.clone().prepare())?;
    let is_local = !matches!(writer.destination, Destination::Object(..) | Destination::Objects(..));
    assert!(!is_local || operation.held_bytes() == 0, "a store's buffers stay until the commit");
    Ok(operation)
}

pub(super) fn packing(compression: Compression) -> Packing {
    Packing { compression, level: None }
}

/// Every format, with the ending that shows it.
pub(super) fn formats() -> Vec<(&'static str, WriteFormat)> {
    let csv = |compression| WriteFormat::Csv(WriterBuilder::new().with_header(true), packing(compression));
    let mut chunked = TableParquetOptions::default();
    chunked.global.content_defined_chunking.enabled = true;
    vec![
        ("parquet", WriteFormat::Parquet(Box::default())),
        ("pq", WriteFormat::Parquet(Box::new(chunked))),
        ("arrow", WriteFormat::Arrow),
        ("csv", csv(Compression::Plain)),
        ("csv.gz", csv(Compression::Gzip)),
        ("csv.zst", csv(Compression::Zstandard)),
        ("csv.bz2", csv(Compression::Bzip2)),
        ("csv.xz", csv(Compression::Xz)),
        ("json", WriteFormat::Json(packing(Compression::Plain))),
        ("json.gz", WriteFormat::Json(packing(Compression::Gzip))),
    ]
}

/// Rows of numbers from one on, with a text for each.
pub(super) fn rows(first: i64, count: i64) -> RecordBatch {
    let numbers = first..first + count;
    let texts = numbers.clone().map(|number| (number % 5 != 0).then(|| format!("text, {number}")));
    RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef, true),
        ("b", Arc::new(StringViewArray::from_iter(texts)) as ArrayRef, true),
    ])
    .unwrap()
}

pub(super) fn writer(destination: Destination, format: WriteFormat, disk: Arc<dyn Disk>) -> FileWriter {
    FileWriter {
        name: "out".to_owned(),
        format,
        extras: WriteExtras::default(),
        destination,
        partition_columns: Vec::new(),
        keeps_partition_columns: false,
        required_columns: Vec::new(),
        file_rows_max: u64::MAX,
        disk,
    }
}

/// All rows of what is at a location, as text.
pub(super) fn read(location: &str, disk: Arc<dyn Disk>) -> Result<BTreeSet<String>> {
    let table = open(location, &OpenOptions::default(), disk)?;
    read_table(&table)
}

fn read_table(table: &ExternalTable) -> Result<BTreeSet<String>> {
    // In JSON, a column's place is where it is met first.
    let mut columns = all(table);
    columns.sort_by_key(|&column| table.schema().field(column).name().clone());
    let batch = try_read_all(table, &ScanRequest { columns, predicate: None }, &[], 1000, false)?;
    let text = |row| {
        let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        values.collect::<Vec<_>>().join("|")
    };
    let read = (0..batch.num_rows()).map(text).collect::<BTreeSet<_>>();
    assert_eq!(read.len(), batch.num_rows(), "no row is there twice");
    Ok(read)
}

pub(super) fn texts(batches: &[RecordBatch]) -> BTreeSet<String> {
    let text = |batch: &RecordBatch, row| {
        let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        values.collect::<Vec<_>>().join("|")
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| text(batch, row))).collect()
}

#[test]
fn what_is_written_is_read_back_in_every_format() {
    let packets =
        [vec![rows(0, 700), rows(700, 1)], vec![rows(1000, 0), rows(1000, 500), rows(2000, 300)], vec![rows(5000, 9)]];
    for (ending, format) in formats() {
        for revokes in [false, true] {
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
            let path = format!("/f/out.{ending}");
            let to_file = writer(Destination::File(path.clone().into()), format.clone(), disk.clone());
            assert_eq!(run(&to_file, &packets, 1 << 30, revokes).unwrap(), 1510, "{ending}");
            assert_eq!(read(&path, disk.clone()).unwrap(), texts(&packets.concat()), "{ending}");
            // A statement of no rows leaves a file with its columns.
            assert_eq!(run(&to_file, &[vec![rows(0, 0)]], 1 << 30, false).unwrap(), 0);
            if !ending.starts_with("json") {
                assert_eq!(read(&path, disk.clone()).unwrap().len(), 0, "{ending}");
            }
            assert_eq!(disk.list(Path::new("/f")).unwrap().len(), 1, "{ending}: nothing else is left");
        }
    }
}

#[test]
fn what_stands_around_rows_is_in_a_file_once() {
    let packets = [vec![rows(0, 700), rows(700, 1)], vec![rows(1000, 500)], vec![rows(5000, 9)]];
    let array = WriteExtras { frame: Some(Frame::of_array()), ..WriteExtras::default() };
    for (ending, compression) in [("json", Compression::Plain), ("json.gz", Compression::Gzip)] {
        for revokes in [false, true] {
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
            let path = format!("/f/out.{ending}");
            let to_file =
                writer(Destination::File(path.clone().into()), WriteFormat::Json(packing(compression)), disk.clone());
            let to_file = FileWriter { extras: array.clone(), ..to_file };
            assert_eq!(run(&to_file, &packets, 1 << 30, revokes).unwrap(), 1210, "{ending}");
            assert_eq!(read(&path, disk).unwrap(), texts(&packets.concat()), "{ending}");
        }
    }
}

#[test]
fn rare_values_are_read_back_in_every_format() {
    let day = 86_400_000_000;
    let columns: Vec<(Field, ArrayRef)> = vec![
        (
            SqlType::Uuid.field("u", true),
            Arc::new(StringViewArray::from(vec![Some("00000000-0000-0000-0000-0000000000ff"), None])),
        ),
        (SqlType::Date.field("d", true), Arc::new(Date32Array::from(vec![i32::MAX, -735_526]))),
        (SqlType::Time.field("t", true), Arc::new(Time64MicrosecondArray::from(vec![Some(day), None]))),
        (
            SqlType::Timestamp.field("m", true),
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, 4_000_000 * day])),
        ),
        (SqlType::Bytea.field("b", true), Arc::new(BinaryViewArray::from(vec![&b"\x00\xff"[..], b""]))),
        (SqlType::Double.field("x", true), Arc::new(Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY]))),
        (SqlType::Text.field("s", true), Arc::new(StringViewArray::from(vec![Some(""), None]))),
        (SqlType::Json.field("j", true), Arc::new(StringViewArray::from(vec![Some("{\"a\": [1, null]}"), None]))),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let rows = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    for (ending, format) in formats() {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
        let path = format!("/f/out.{ending}");
        let to_file = writer(Destination::File(path.clone().into()), format, disk.clone());
        assert_eq!(run(&to_file, &[vec![rows.clone()]], 1 << 30, false).unwrap(), 2, "{ending}");
        let declared = OpenOptions { schema: Some(schema.clone()), ..OpenOptions::default() };
        let table = open(&path, &declared, disk.clone()).unwrap();
        let request = ScanRequest { columns: all(&table), predicate: None };
        let read = try_read_all(&table, &request, &[], 1000, false).unwrap();
        for (column, field) in schema.fields().iter().enumerate() {
            assert_eq!(read.column(column), rows.column(column), "{ending}: {}", field.name());
        }
        let own = open(&path, &OpenOptions::default(), disk).unwrap();
        if matches!(own.format(), Format::Parquet | Format::Arrow) {
            assert_eq!(own.schema(), schema, "{ending}");
        }
    }
}

#[test]
fn folders_have_a_file_for_each_value_and_none_for_no_rows() {
    let numbers = |batch: RecordBatch| {
        let values = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().iter();
        let kinds = values.map(|value| value.filter(|value| value % 3 > 0).map(|value| format!("k/{}", value % 3)));
        RecordBatch::try_from_iter_with_nullable([
            ("a", batch.column(0).clone(), true),
            ("kind", Arc::new(StringViewArray::from_iter(kinds)) as ArrayRef, true),
        ])
        .unwrap()
    };
    for (ending, format) in formats() {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
        let folder = Destination::Folder("/t".into(), format!(".{ending}"));
        let by_kind = FileWriter { partition_columns: vec!["kind".to_owned()], ..writer(folder, format, disk.clone()) };
        assert_eq!(run(&by_kind, &[vec![numbers(rows(0, 0))]], 1 << 30, false).unwrap(), 0);
        assert!(!disk.is_folder(Path::new("/t")), "no rows, no file");
        let packets = [vec![numbers(rows(0, 100))], vec![numbers(rows(100, 100)), numbers(rows(200, 100))]];
        assert_eq!(run(&by_kind, &packets, 1 << 30, false).unwrap(), 300);
        let names = disk.list(Path::new("/t")).unwrap();
        let names = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(names, [format!("kind={NULL_NAME}").as_str(), "kind=k%2F1", "kind=k%2F2"]);
        assert!(names.iter().all(|name| disk.list(&Path::new("/t").join(name)).unwrap().len() == 1));
        assert_eq!(read("/t", disk).unwrap(), texts(&packets.concat()), "{ending}");
    }
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
    let folder = Destination::Folder("/t".into(), ".arrow".to_owned());
    let many = FileWriter { file_rows_max: 150, ..writer(folder, WriteFormat::Arrow, disk.clone()) };
    let packets = [vec![rows(0, 100), rows(100, 100), rows(200, 100), rows(300, 100)]];
    run(&many, &packets, 1 << 30, false).unwrap();
    assert_eq!(disk.list(Path::new("/t")).unwrap().len(), 2);
    assert_eq!(read("/t", disk).unwrap(), texts(&packets.concat()));
}

#[test]
fn objects_appear_when_they_are_complete() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for (ending, format) in formats() {
        let store = Arc::new(InMemory::new());
        let path = StorePath::from(format!("below/out.{ending}"));
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
        let to_object = writer(Destination::Object(store.clone(), path.clone()), format, disk.clone());
        let packets = [vec![rows(0, 5000)], vec![rows(5000, 5000)]];
        let operation =
            to_object.begin(&WriteRequest { schema: packets[0][0].schema(), memory_bytes: 1 << 30 }).unwrap();
        let mut part = operation.clone().part().unwrap();
        part.write(&packets[0][0]).unwrap();
        part.revoke().unwrap();
        std::iter::from_fn(|| part.next_io()).for_each(|due| done(due.io).unwrap());
        assert!(runtime.block_on(store.get(&path)).is_err(), "{ending}");
        drop((part, operation));
        assert_eq!(run(&to_object, &packets, 1 << 30, true).unwrap(), 10_000);
        let bytes = runtime.block_on(async { store.get(&path).await.unwrap().bytes().await.unwrap() });
        let name = format!("/out.{ending}");
        let read = read(&name, Arc::new(CrashDisk::holding([(&name, bytes)])));
        assert_eq!(read.unwrap(), texts(&packets.concat()), "{ending}");
    }
}

const ROWS: usize = 40_000;

/// Numbers, which repeat, beside texts, which do not, written with so much memory: rows of each row group, and whether
/// its columns have dictionaries.
fn row_groups(memory_bytes: usize, packets: usize, revokes: bool) -> Vec<(usize, Vec<bool>)> {
    let texts = (0..ROWS).map(|row| format!("{row:0>200}"));
    let numbers = (0..ROWS as i64).map(|row| row % 10);
    let batch = RecordBatch::try_from_iter([
        ("a number", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef),
        ("a.text", Arc::new(StringViewArray::from_iter_values(texts)) as ArrayRef),
    ])
    .unwrap();
    let mut options = TableParquetOptions::default();
    options.global.max_row_group_size = ROWS / 4;
    options.global.compression = Some("snappy".to_owned());
    let disk = CrashDisk::default();
    let to_file = writer(
        Destination::File("/out.parquet".into()),
        WriteFormat::Parquet(Box::new(options)),
        Arc::new(disk.clone()),
    );
    let batches = (0..ROWS).step_by(1000).map(|from| batch.slice(from, 1000)).collect::<Vec<_>>();
    let dealt = (0..packets).map(|packet| batches.iter().skip(packet).step_by(packets).cloned().collect::<Vec<_>>());
    assert_eq!(run(&to_file, &dealt.collect::<Vec<_>>(), memory_bytes, revokes).unwrap(), ROWS as u64);
    let bytes = Bytes::from(disk.files().remove(Path::new("/out.parquet")).unwrap());
    let metadata = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().metadata().clone();
    let row_group = |group: &parquet::file::metadata::RowGroupMetaData| {
        let has_dictionary = group.columns().iter().map(|column| column.dictionary_page_offset().is_some());
        (group.num_rows() as usize, has_dictionary.collect())
    };
    metadata.row_groups().iter().map(row_group).collect()
}

#[test]
fn a_dictionary_that_was_of_no_use_is_not_tried_for_ever() {
    let groups = row_groups(1 << 30, 1, false);
    assert_eq!(groups.iter().map(|group| group.0).collect::<Vec<_>>(), [ROWS / 4; 4]);
    assert_eq!(groups.first().unwrap().1, [true, true]);
    assert_eq!(groups.last().unwrap().1, [true, false]);
}

#[test]
fn with_little_memory_row_groups_are_small() {
    for (memory_bytes, packets, revokes, rows_max) in [(24 << 20, 1, false, 8000), (2 << 20, 3, true, 8000)] {
        let groups = row_groups(memory_bytes, packets, revokes);
        let most = groups.iter().map(|group| group.0).max().unwrap();
        assert!(most <= rows_max, "{memory_bytes}: {most}");
    }
}

#[test]
fn few_rows_of_many_packets_are_one_row_group() {
    let disk = CrashDisk::default();
    let path = Destination::File("/out.parquet".into());
    let to_file = writer(path, WriteFormat::Parquet(Box::default()), Arc::new(disk.clone()));
    let packets = (0..8).map(|packet| vec![rows(packet * 1000, 900)]).collect::<Vec<_>>();
    run(&to_file, &packets, 1 << 30, false).unwrap();
    let bytes = Bytes::from(disk.files().remove(Path::new("/out.parquet")).unwrap());
    let metadata = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().metadata().clone();
    assert_eq!(metadata.num_row_groups(), 1);
}

/// Writes places of so many rows, in which three packets take turns, and gives the rows of the row groups, if it is
/// Parquet.
fn write_places(format: WriteFormat, ending: &str, sizes: &[i64], revokes: bool) -> Vec<i64> {
    let crash_disk = CrashDisk::default();
    let disk: Arc<dyn Disk> = Arc::new(crash_disk.clone());
    let path = format!("/f/out.{ending}");
    let to_file = writer(Destination::File(path.clone().into()), format, disk.clone());
    assert!(to_file.keeps_order());
    let operation = to_file.begin(&WriteRequest { schema: rows(0, 1).schema(), memory_bytes: 1 << 30 }).unwrap();
    let mut parts = (0..3).map(|_| operation.clone().part().unwrap()).collect::<Vec<_>>();
    let first_of = |place: usize| sizes[..place].iter().sum::<i64>();
    // Of each packet its place, and how many of its rows are written.
    let mut at: Vec<Option<(usize, i64)>> = vec![None; 3];
    let (mut next, mut turn) = (0, 0_usize);
    while next < sizes.len() || at.iter().any(Option::is_some) {
        turn += 1;
        let packet = turn * turn % 7 % 3;
        let part = &mut parts[packet];
        at[packet] = match at[packet] {
            Some((place, written)) if written < sizes[place] => {
                let count = (sizes[place] - written).min(900);
                part.write(&rows(first_of(place) + written, count)).unwrap();
                if revokes && turn.is_multiple_of(3) {
                    part.revoke().unwrap();
                }
                Some((place, written + count))
            }
            Some(_) => {
                part.at(None).unwrap();
                None
            }
            None if next < sizes.len() => {
                part.at(Some(next)).unwrap();
                next += 1;
                Some((next - 1, 0))
            }
            None => None,
        };
        std::iter::from_fn(|| part.next_io()).try_for_each(|due| done(due.io)).unwrap();
    }
    for part in &mut parts {
        part.finish().unwrap();
        std::iter::from_fn(|| part.next_io()).try_for_each(|due| done(due.io)).unwrap();
        assert_eq!(part.held_bytes(), 0);
    }
    drop(parts);
    done(operation.clone().prepare()).unwrap();
    assert_eq!(operation.held_bytes(), 0);
    let total = sizes.iter().sum::<i64>();
    assert_eq!(done(operation.commit()).unwrap(), total as u64);
    let bytes = Bytes::from(crash_disk.files().remove(Path::new(&path)).unwrap());
    if total > 0 {
        let table = open(&path, &OpenOptions::default(), disk).unwrap();
        let request = ScanRequest { columns: all(&table), predicate: None };
        let read = try_read_all(&table, &request, &[], 1000, false).unwrap();
        let column = table.schema().index_of("a").unwrap();
        let numbers = (0..read.num_rows()).map(|row| array_value_to_string(read.column(column), row).unwrap());
        assert!(numbers.eq((0..total).map(|number| number.to_string())), "{ending}: {sizes:?}, {revokes}");
    }
    if ending != "parquet" {
        return Vec::new();
    }
    let metadata = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().metadata().clone();
    metadata.row_groups().iter().map(parquet::file::metadata::RowGroupMetaData::num_rows).collect()
}

#[test]
fn rows_of_places_come_in_the_order_of_these() {
    let mut options = TableParquetOptions::default();
    options.global.max_row_group_size = PARQUET_ROW_GROUP_ROWS;
    let parquet = || WriteFormat::Parquet(Box::new(options.clone()));
    let csv = |compression| WriteFormat::Csv(WriterBuilder::new().with_header(true), packing(compression));
    let formats = [
        ("parquet", parquet()),
        ("csv", csv(Compression::Plain)),
        ("csv.gz", csv(Compression::Gzip)),
        ("json", WriteFormat::Json(packing(Compression::Plain))),
    ];
    let small = vec![50; 40];
    for (ending, format) in formats {
        for sizes in [&[3000, 0, 5, 40_000, 1, 2000, 0, 7][..], &small, &[0, 0], &[25_000, 25_000, 25_000, 25_000]] {
            for revokes in [false, true] {
                write_places(format.clone(), ending, sizes, revokes);
            }
        }
    }
    let of = |sizes: &[i64]| write_places(parquet(), "parquet", sizes, false);
    assert_eq!(of(&small), [2000], "few rows of many places are one row group");
    assert_eq!(of(&[30_000, 20, 40_000]), [30_000, 20, 40_000]);
    assert_eq!(of(&[PARQUET_ROW_GROUP_ROWS as i64 + 10]), [PARQUET_ROW_GROUP_ROWS as i64 + 10]);
}

#[test]
fn wide_rows_in_little_memory_are_in_few_row_groups() {
    let columns = |first: i64| {
        let numbers = move |column: i64| (first..first + 200).map(move |row| row * column);
        let number = move |column: i64| Arc::new(Int64Array::from_iter_values(numbers(column))) as ArrayRef;
        let text = Arc::new(StringViewArray::from(vec!["text"; 200])) as ArrayRef;
        let all = (1..300).map(move |column| (format!("n{column}"), number(column)));
        RecordBatch::try_from_iter(all.chain([("text".to_owned(), text)])).unwrap()
    };
    let disk = CrashDisk::holding([("/f/out.parquet", "old")]);
    let place = Destination::File("/f/out.parquet".into());
    let writer = writer(place, WriteFormat::Parquet(Box::default()), Arc::new(disk.clone()));
    let packet = (0..10).map(|batch| columns(batch * 200)).collect::<Vec<_>>();
    assert_eq!(run(&writer, &[packet], 16 << 20, false).unwrap(), 2000);
    let bytes = Bytes::from(disk.files().remove(Path::new("/f/out.parquet")).unwrap());
    let metadata = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().metadata().clone();
    // Empty dictionaries of all columns would take 22 MB, so each batch would be a row group.
    assert!(metadata.num_row_groups() <= 4, "{}", metadata.num_row_groups());
    let has_dictionary = |column: usize| metadata.row_group(0).column(column).dictionary_page_offset().is_some();
    assert!(has_dictionary(299) && has_dictionary(0) && !has_dictionary(298), "texts come first");
}

#[test]
fn whatever_fails_the_old_file_stays_and_nothing_else_is_left() {
    let packets = [vec![rows(0, 400)], vec![rows(400, 400)]];
    for (ending, format) in formats() {
        let path = format!("/f/out.{ending}");
        let start = || CrashDisk::holding([(&path, "old")]);
        let attempt = |disk: &FaultyDisk| {
            let place = Destination::File(path.clone().into());
            run(&writer(place, format.clone(), Arc::new(disk.clone())), &packets, 1 << 30, true)
        };
        let counting = FaultyDisk::counting(Arc::new(start()));
        attempt(&counting).unwrap();
        for (at, fault) in (0..counting.operations()).flat_map(|at| [(at, DiskFault::Broken), (at, DiskFault::Full)]) {
            let disk = start();
            let faulty = FaultyDisk::failing(Arc::new(disk.clone()), fault, at);
            let attempted = attempt(&faulty);
            let what = format!("{ending}: {fault:?} at {at}: {:?}", faulty.first_fault());
            let files = disk.files();
            let is_old = files[Path::new(&path)] == b"old";
            match attempted {
                // Looking at what is there, and taking away what is left, may fail without harm.
                Ok(_) => assert!(!is_old, "{what}"),
                Err(error) => {
                    assert!(error.message().starts_with("out: it cannot be written: "), "{error}, {what}");
                    let was_late = faulty.first_fault().is_some_and(|fault| fault.starts_with("sync folder"));
                    assert!(is_old || was_late, "{what}");
                }
            }
            let cannot_clear = fault == DiskFault::Broken && at + 10 > counting.operations();
            assert!(files.len() == 1 || cannot_clear, "{what}: {:?}", files.keys());
        }
    }
}
