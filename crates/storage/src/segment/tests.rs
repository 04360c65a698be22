//! Segments in both formats: what is read is what was written, and damage is an error.

use std::fs;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, IntervalMonthDayNano, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::stats::Precision;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use diligence_base::ErrorKind;
use diligence_base::seams::{Disk, LocalDisk, ManualClock, ThreadSpawn};
use diligence_disk::IoPool;
use diligence_memory::Broker;
use tempfile::TempDir;

use super::*;

fn disk() -> Arc<dyn Disk> {
    Arc::new(LocalDisk)
}

/// Columns of many types, of rows from `first` on.
fn rows(first: i64, count: i64) -> RecordBatch {
    let range = || first..first + count;
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in range() {
        lists.append_option((row % 5 > 0).then(|| (0..row % 3).map(|item| Some(item as i32))));
    }
    let money = range().map(|row| (row % 7 > 0).then_some(i128::from(row % 9000) * 25));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(range().collect::<Int64Array>())),
        ("day", Arc::new(range().map(|row| Some(row as i32 / 100)).collect::<Date32Array>())),
        (
            "mode",
            Arc::new(range().map(|row| Some(["AIR", "RAIL", "TRUCK"][row as usize % 3])).collect::<StringViewArray>()),
        ),
        (
            "note",
            Arc::new(
                range()
                    .map(|row| (row % 4 > 0).then(|| format!("the note of row {row}, which is long")))
                    .collect::<StringViewArray>(),
            ),
        ),
        ("money", Arc::new(money.collect::<Decimal128Array>().with_precision_and_scale(15, 2).unwrap())),
        ("rate", Arc::new(range().map(|row| row as f64 / 8.0).collect::<Float64Array>())),
        ("flag", Arc::new(range().map(|row| (row % 6 > 0).then_some(row % 2 == 0)).collect::<BooleanArray>())),
        ("items", Arc::new(lists.finish())),
        ("nothing", new_null_array(&DataType::Int32, count as usize)),
    ];
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn ids(schema: &Schema) -> Vec<u32> {
    (1..=schema.fields().len() as u32).collect()
}

/// A segment of clusters of these rows.
fn written(folder: &TempDir, format: SegmentFormat, clusters: &[Vec<RecordBatch>]) -> Arc<Segment> {
    let path = folder.path().join(format!("1.{}", format.ending()));
    let schema = clusters[0][0].schema();
    let mut writer = SegmentWriter::create(&disk(), &path, 1, &schema, &ids(&schema)).unwrap();
    clusters.iter().for_each(|rows| writer.write_cluster(rows).unwrap());
    assert_eq!(writer.clusters(), clusters.len());
    let segment = writer.finish().unwrap();
    assert_eq!(segment.format(), format);
    assert_eq!(segment.bytes(), fs::metadata(&path).unwrap().len());
    Segment::open(&disk(), &path, 1, segment.seal()).unwrap()
}

fn nullable(batch: &RecordBatch) -> RecordBatch {
    let fields =
        batch.schema().fields().iter().map(|field| Field::clone(field).with_nullable(true)).collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), batch.columns().to_vec()).unwrap()
}

fn whole(rows: &[RecordBatch]) -> RecordBatch {
    nullable(&concat_batches(&rows[0].schema(), rows).unwrap())
}

/// The same rows with a column of intervals, which Parquet has no form for.
fn with_spans(rows: &RecordBatch) -> RecordBatch {
    let spans = (0..rows.num_rows() as i32)
        .map(|row| (row % 5 > 0).then(|| IntervalMonthDayNano::new(row - 9, row % 31, i64::from(row) * 1000)));
    let spans: ArrayRef = Arc::new(spans.collect::<IntervalMonthDayNanoArray>());
    let fields = rows.schema().fields().iter().cloned().collect::<Vec<_>>();
    let field = Arc::new(Field::new("span", spans.data_type().clone(), true));
    let columns = rows.columns().iter().cloned().chain([spans]).collect();
    RecordBatch::try_new(Arc::new(Schema::new([fields, vec![field]].concat())), columns).unwrap()
}

#[test]
fn intervals_are_stored_in_our_own_format() {
    let schema = with_spans(&rows(0, 1)).schema();
    assert!(schema.fields().iter().all(|field| is_storable(field.data_type())));
    for format in SegmentFormat::ALL {
        assert_eq!(format.for_columns(&schema), SegmentFormat::Diligence);
        assert_eq!(format.for_columns(&rows(0, 1).schema()), format);
    }
}

#[test]
fn rows_come_back_from_both_formats() {
    for format in SegmentFormat::ALL {
        let folder = tempfile::tempdir().unwrap();
        let rows = |first, count| match format {
            SegmentFormat::Parquet => rows(first, count),
            SegmentFormat::Diligence => with_spans(&rows(first, count)),
        };
        let clusters = [vec![rows(0, 20_000), rows(20_000, 1)], vec![rows(30_000, 1)], vec![rows(40_000, 9000)]];
        let segment = written(&folder, format, &clusters);
        let schema = clusters[0][0].schema();
        let view = segment.view(&schema, &ids(&schema));
        let all = (0..schema.fields().len()).collect::<Vec<_>>();
        for (cluster, rows) in clusters.iter().enumerate() {
            let expected = whole(rows);
            assert_eq!(view.rows(cluster), Some(expected.num_rows()));
            assert_eq!(view.read(cluster, &all, None).unwrap(), expected);
            for part in [2, 100] {
                let some = BooleanBuffer::collect_bool(expected.num_rows(), |row| row % part == 0);
                let kept = filter_record_batch(&expected, &BooleanArray::new(some.clone(), None)).unwrap();
                assert_eq!(view.read(cluster, &all, Some(&some)).unwrap(), kept);
            }
            for column in 0..schema.fields().len() {
                let nulls = expected.column(column).logical_null_count();
                assert_eq!(view.verify(cluster, column, None).unwrap(), (expected.num_rows(), nulls));
            }
        }
        assert!(view.rows(3).is_none() && view.cluster(3, None, None).is_err());
    }
}

#[test]
fn a_table_with_other_columns_reads_what_is_there() {
    for format in SegmentFormat::ALL {
        let folder = tempfile::tempdir().unwrap();
        let segment = written(&folder, format, &[vec![rows(0, 300)]]);
        // The second column went, one came, and the first is of a wider type.
        let fields = [("amount", DataType::Decimal128(15, 2)), ("new", DataType::Utf8View), ("key", DataType::Int64)];
        let schema: SchemaRef =
            Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()));
        let view = segment.view(&schema, &[5, 77, 1]);
        let read = view.read(0, &[0, 1, 2], None).unwrap();
        assert_eq!(read.column(0), rows(0, 300).column(4));
        assert_eq!(read.column(1).null_count(), 300);
        assert_eq!(read.column(2).as_primitive::<Int64Type>().value(299), 299);
        let known = view.statistics().column_statistics;
        assert_eq!(known[1].null_count, Precision::Exact(300));
        assert_eq!(known[2].max_value, Precision::Exact(ScalarValue::Int64(Some(299))));
    }
}

#[test]
fn a_numbered_cluster_has_the_numbers_of_rows_that_are_left() {
    for format in SegmentFormat::ALL {
        let folder = tempfile::tempdir().unwrap();
        let segment = written(&folder, format, &[vec![rows(0, 10_000)]]);
        let schema = rows(0, 1).schema();
        let view = segment.view(&schema, &ids(&schema));
        let deleted = Arc::new(DeletedRows::none(10_000).with((0..10_000).filter(|row| row % 10 > 0)));
        let cluster = view.cluster(0, Some(deleted), Some(RowNumbers::From(500))).unwrap();
        assert_eq!(cluster.rows(), Some(1000));
        let columns = vec![2, schema.fields().len()];
        let Fetch::Blocking(fetch) = cluster.fetch(&columns) else { panic!("a local file is read by a thread") };
        let request = DecodeRequest { columns, batch_rows: 300, narrow: true, ..DecodeRequest::default() };
        let mut decode = cluster.decode(fetch().unwrap(), &request).unwrap();
        let (mut numbers, mut modes) = (Vec::new(), Vec::new());
        while let Some(chunk) = decode.next().unwrap() {
            // The engine's narrow form: codes of a dictionary.
            let texts = chunk.columns[0].as_dictionary::<Int32Type>();
            modes
                .extend(texts.downcast_dict::<StringArray>().unwrap().into_iter().map(|text| text.unwrap().to_owned()));
            numbers.extend_from_slice(chunk.columns[1].as_primitive::<Int64Type>().values());
        }
        assert_eq!(numbers, (0..1000).map(|row| 500 + row * 10).collect::<Vec<i64>>());
        assert!(modes.iter().enumerate().all(|(row, mode)| mode == ["AIR", "RAIL", "TRUCK"][row * 10 % 3]));
    }
}

#[test]
fn clusters_that_cannot_have_a_row_are_left_out() {
    for format in SegmentFormat::ALL {
        let folder = tempfile::tempdir().unwrap();
        let segment = written(&folder, format, &[vec![rows(0, 100)], vec![rows(1000, 100)], vec![rows(5000, 100)]]);
        let schema = rows(0, 1).schema();
        let view = segment.view(&schema, &ids(&schema));
        let compare = |column: usize, operator, value: ScalarValue| -> Arc<dyn PhysicalExpr> {
            let name = schema.field(column).name();
            Arc::new(BinaryExpr::new(Arc::new(Column::new(name, column)), operator, Arc::new(Literal::new(value))))
        };
        let int = |value| ScalarValue::Int64(Some(value));
        let text = |value: &str| ScalarValue::Utf8View(Some(value.into()));
        let candidates = |predicate: &Arc<dyn PhysicalExpr>| {
            let found = view.candidates(predicate);
            (0..3).map(|cluster| found.has(cluster)).collect::<Vec<_>>()
        };
        assert_eq!(candidates(&compare(0, Operator::Eq, int(1050))), [false, true, false]);
        assert_eq!(candidates(&compare(0, Operator::Gt, int(1050))), [false, true, true]);
        assert_eq!(candidates(&compare(2, Operator::Eq, text("SHIP"))), [true, true, true]);
        assert_eq!(candidates(&compare(2, Operator::Eq, text("ZEPPELIN"))), [false, false, false]);
        assert_eq!(candidates(&compare(3, Operator::Lt, text("the"))), [false, false, false]);
        let money = ScalarValue::Decimal128(Some(25 * 1099), 15, 2);
        assert_eq!(candidates(&compare(4, Operator::Lt, money)), [true, true, false]);
        // What is asked of the numbers of rows says nothing about the file.
        let number = Arc::new(Column::new("\u{1}row", schema.fields().len()));
        let of_number = Arc::new(BinaryExpr::new(number, Operator::Eq, Arc::new(Literal::new(int(3)))));
        assert_eq!(candidates(&(of_number as Arc<dyn PhysicalExpr>)), [true, true, true]);
    }
}

#[test]
fn windows_that_cannot_have_a_row_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let segment = written(&folder, SegmentFormat::Diligence, &[vec![rows(0, 20_000)], vec![rows(50_000, 100)]]);
    let schema = rows(0, 1).schema();
    let view = segment.view(&schema, &ids(&schema));
    let literal = Arc::new(Literal::new(ScalarValue::Int64(Some(8200))));
    let equal = Arc::new(BinaryExpr::new(Arc::new(Column::new("id", 0)), Operator::Lt, literal));
    let found = view.candidates(&(equal as Arc<dyn PhysicalExpr>));
    assert!(found.has(0) && !found.has(1));
    let some = found.rows(0).unwrap();
    assert_eq!((some.len(), some.count_set_bits()), (20_000, 2 * layout::WINDOW_ROWS));
    assert!(some.value(0) && some.value(16_383) && !some.value(16_384));
    // Of a range between two windows there is no row.
    let between = |value: i64| Arc::new(Literal::new(ScalarValue::Int64(Some(value))));
    let column = || Arc::new(Column::new("id", 0));
    let low = Arc::new(BinaryExpr::new(column(), Operator::Gt, between(19_999)));
    assert!(!view.candidates(&(low as Arc<dyn PhysicalExpr>)).has(0));
}

#[test]
fn statistics_tell_what_the_rows_are() {
    let folder = tempfile::tempdir().unwrap();
    let segment = written(&folder, SegmentFormat::Diligence, &[vec![rows(0, 60_000)], vec![rows(60_000, 60_000)]]);
    let schema = rows(0, 1).schema();
    let statistics = segment.view(&schema, &ids(&schema)).statistics();
    assert_eq!(statistics.num_rows, Precision::Exact(120_000));
    let known = &statistics.column_statistics;
    assert_eq!(known[0].min_value, Precision::Exact(ScalarValue::Int64(Some(0))));
    assert_eq!(known[0].max_value, Precision::Exact(ScalarValue::Int64(Some(119_999))));
    assert_eq!(known[2].max_value, Precision::Exact(ScalarValue::Utf8View(Some("TRUCK".into()))));
    assert_eq!(known[2].distinct_count, Precision::Inexact(3));
    assert_eq!(known[4].null_count, Precision::Exact(120_000_usize.div_ceil(7)));
    assert_eq!(known[8].null_count, Precision::Exact(120_000));
    let within = |column: usize, values: usize| {
        let found = *known[column].distinct_count.get_value().unwrap();
        assert!(found.abs_diff(values) * 20 <= values, "column {column}: {found} of {values}");
    };
    within(0, 120_000);
    within(1, 1200);
    within(4, 9000);
}

/// Keeps texts that end so, and NULLs if they are wanted; notes of how many values it was asked. Fails for one text.
struct EndsIn {
    ending: &'static str,
    keeps_null: bool,
    fails_for: &'static str,
    asked: std::sync::atomic::AtomicUsize,
}

impl crate::RowFilter for EndsIn {
    fn columns(&self) -> &[usize] {
        &[2]
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let asked = match columns[0].as_any_dictionary_opt() {
            // The same values again and again.
            Some(codes) => codes.values().len(),
            None => columns[0].len(),
        };
        self.asked.fetch_add(asked, std::sync::atomic::Ordering::Relaxed);
        let texts = arrow::compute::cast(&columns[0], &DataType::Utf8).map_err(from_arrow)?;
        let texts = texts.as_string::<i32>();
        if texts.iter().flatten().any(|text| text == self.fails_for) {
            return Err(diligence_base::Error::value("there is a text for which it fails"));
        }
        Ok(texts
            .iter()
            .map(|text| text.map_or(Some(self.keeps_null), |text| Some(text.ends_with(self.ending))))
            .collect())
    }

    fn is_of_values(&self) -> bool {
        true
    }
}

#[test]
fn what_a_value_decides_is_asked_once_for_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let count = 50_000;
    let names = (0..count).map(|row| (row % 10 > 0).then(|| format!("name {}", row / 3 % 300)));
    let names: ArrayRef = Arc::new(names.collect::<StringViewArray>());
    let ids: ArrayRef = Arc::new((0..count).collect::<Int64Array>());
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("other", DataType::Int64, true),
        Field::new("name", DataType::Utf8View, true),
    ]));
    let batch = RecordBatch::try_new(schema.clone(), vec![ids.clone(), ids, names.clone()]).unwrap();
    let segment = written(&folder, SegmentFormat::Diligence, &[vec![batch]]);
    let view = segment.view(&schema, &[1, 2, 3]);
    let names = names.as_string_view();
    for (keeps_null, fails_for) in [(false, "none"), (true, "none"), (false, "name 7"), (true, "name 7")] {
        let filter = Arc::new(EndsIn { ending: "9", keeps_null, fails_for, asked: Default::default() });
        // Where it fails, the rows are not there of which it does.
        let gone = (0..count as usize).filter(|row| names.is_valid(*row) && names.value(*row) == fails_for);
        let deleted = Arc::new(DeletedRows::none(count as usize).with(gone));
        let cluster = view.cluster(0, Some(deleted), None).unwrap();
        let request = DecodeRequest {
            columns: vec![0, 2],
            filters: vec![filter.clone()],
            batch_rows: 8192,
            narrow: true,
            ..DecodeRequest::default()
        };
        let Fetch::Blocking(fetch) = cluster.fetch(&[0, 2]) else { panic!("a local file is read by a thread") };
        let mut decode = cluster.decode(fetch().unwrap(), &request).unwrap();
        let (mut found, mut dictionaries) = (Vec::new(), Vec::<ArrayRef>::new());
        while let Some(chunk) = decode.next().unwrap() {
            found.extend_from_slice(chunk.columns[0].as_primitive::<Int64Type>().values());
            dictionaries.push(chunk.columns[1].as_dictionary::<Int32Type>().values().clone());
        }
        let is_kept = |row: &i64| match names.is_valid(*row as usize) {
            true => names.value(*row as usize).ends_with('9'),
            false => keeps_null,
        };
        assert_eq!(found, (0..count).filter(is_kept).collect::<Vec<_>>());
        // All batches have one dictionary, so that groups and joins look at its values once.
        assert!(dictionaries.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1])));
        let asked = filter.asked.load(std::sync::atomic::Ordering::Relaxed);
        assert!(fails_for == "name 7" || asked <= 302, "{asked} values were asked");
    }
}

/// A buffer whose reads happen on the thread that asks for them.
fn buffer() -> Arc<BufferPool> {
    let clock = Arc::new(ManualClock::stepping(1));
    let threads = IoPool::start(0, clock.clone(), Arc::new(ThreadSpawn)).unwrap();
    BufferPool::new(&Broker::new(64 << 20), clock, threads, 50)
}

#[test]
fn what_was_read_through_a_buffer_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(0, 20_000);
    let segment = written(&folder, SegmentFormat::Diligence, &[vec![rows.clone()]]);
    let buffer = buffer();
    segment.read_through(&buffer);
    let schema = rows.schema();
    let view = segment.view(&schema, &ids(&schema));
    let cluster = view.cluster(0, None, None).unwrap();
    assert!(cluster.is_buffered());
    let decoded = |fetched: Fetched| {
        let request = DecodeRequest { columns: vec![0], batch_rows: 8192, ..DecodeRequest::default() };
        let mut decode = cluster.decode(fetched, &request).unwrap();
        let mut ids = Vec::new();
        while let Some(chunk) = decode.next().unwrap() {
            ids.extend_from_slice(chunk.columns[0].as_primitive::<Int64Type>().values());
        }
        assert_eq!(ids, (0..20_000).collect::<Vec<i64>>());
    };
    let Fetch::Buffered(fetch) = cluster.fetch(&[0]) else { panic!("nothing is there") };
    let (told, tells) = std::sync::mpsc::channel();
    fetch.begin(Arc::default(), Box::new(move |fetched, counted| told.send((fetched.unwrap(), counted)).unwrap()));
    let (fetched, counted) = tells.recv().unwrap();
    assert_eq!((fetched.bytes, counted), (cluster.bytes(&[0]), cluster.bytes(&[0])));
    decoded(fetched);
    let Fetch::Ready(fetched) = cluster.fetch_hinted(&[0], Hint::Scan { bytes: 1 << 30 }) else {
        panic!("it is there")
    };
    assert_eq!(fetched.bytes, 0, "the buffer counts it");
    decoded(fetched);
    // Where one column is missing, that one alone is read.
    let Fetch::Buffered(fetch) = cluster.fetch(&[0, 2]) else { panic!("one is missing") };
    decoded(fetch.wait().unwrap());
    assert_eq!(buffer.info().read_bytes_total, cluster.bytes(&[0, 2]) as u64);
    assert_eq!(view.read(0, &[0, 2], None).unwrap(), nullable(&rows.project(&[0, 2]).unwrap()));
    assert_eq!(buffer.info().read_bytes_total, cluster.bytes(&[0, 2]) as u64);
    // A check of the file is one of the file, whatever is in memory.
    let path = folder.path().join("1.seg");
    let mut damaged = fs::read(&path).unwrap();
    damaged[layout::HEAD_BYTES as usize + 100] ^= 4;
    fs::write(&path, damaged).unwrap();
    assert!(view.read(0, &[0, 2], None).is_ok());
    assert_eq!(view.verify(0, 0, None).unwrap_err().code(), Some("XX001"));
    drop((cluster, view, segment));
    assert_eq!(buffer.info().sum(|shard| shard.bytes as u64), 0);
}

/// A segment of few rows, its seal and its bytes.
fn small() -> (TempDir, PathBuf, Seal, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let segment = written(&folder, SegmentFormat::Diligence, &[vec![rows(0, 40)], vec![rows(100, 3)]]);
    let path = folder.path().join("1.seg");
    let bytes = fs::read(&path).unwrap();
    (folder, path, segment.seal(), bytes)
}

/// Opens and reads everything.
fn read_all(path: &Path, seal: Seal, buffer: Option<&Arc<BufferPool>>) -> Result<Vec<RecordBatch>> {
    let segment = Segment::open(&disk(), path, 1, seal)?;
    if let Some(buffer) = buffer {
        segment.read_through(buffer);
    }
    let schema = rows(0, 1).schema();
    let view = segment.view(&schema, &ids(&schema));
    let all = (0..schema.fields().len()).collect::<Vec<_>>();
    (0..2).map(|cluster| view.read(cluster, &all, None)).collect()
}

#[test]
fn a_bit_that_is_flipped_anywhere_is_an_error() {
    let (_folder, path, seal, bytes) = small();
    let read = read_all(&path, seal, None).unwrap();
    assert_eq!(read, [nullable(&rows(0, 40)), nullable(&rows(100, 3))]);
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, &damaged).unwrap();
        let error = read_all(&path, seal, None).expect_err(&format!("byte {place} is damaged"));
        assert_eq!((error.kind(), error.code()), (ErrorKind::File, Some("XX001")), "byte {place}: {error}");
        let buffered = read_all(&path, seal, Some(&buffer())).unwrap_err();
        assert_eq!((buffered.message(), buffered.code()), (error.message(), error.code()));
        assert!(error.message().contains("1.seg"), "{error}");
    }
}

#[test]
fn a_file_that_ends_early_is_an_error() {
    let (_folder, path, seal, bytes) = small();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = read_all(&path, seal, None).expect_err(&format!("{length} bytes are left"));
        assert_eq!(error.kind(), ErrorKind::File, "{length} bytes: {error}");
    }
}

/// Damage below the checksums, as a broken program could make it: an error or other values, but no panic.
#[test]
fn damage_under_a_sound_checksum_never_makes_a_panic() {
    let (_folder, path, seal, bytes) = small();
    let start = seal.start as usize;
    for place in start..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            // The checksum within the end, and the seal.
            let checked = bytes.len() - 12;
            let checksum = crc32fast::hash(&damaged[start..checked]);
            damaged[checked..checked + 4].copy_from_slice(&checksum.to_le_bytes());
            fs::write(&path, &damaged).unwrap();
            let seal = Seal { start: seal.start, checksum: crc32fast::hash(&damaged[start..]) };
            if let Ok(batches) = read_all(&path, seal, None) {
                batches.iter().for_each(|batch| {
                    batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
                });
            }
        }
    }
}

/// The file of version 1 that lies in the repository, and must be readable for ever.
#[test]
fn the_first_version_stays_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/segments/version-1.seg");
    let bytes = fs::read(&path).unwrap();
    let start = u64::from_le_bytes(*bytes[bytes.len() - 24..].first_chunk().unwrap());
    let start = bytes.len() as u64 - 24 - start;
    let seal = Seal { start, checksum: crc32fast::hash(&bytes[start as usize..]) };
    let segment = Segment::open(&disk(), &path, 1, seal).unwrap();
    let schema = rows(0, 1).schema();
    let view = segment.view(&schema, &ids(&schema));
    let all = (0..schema.fields().len()).collect::<Vec<_>>();
    assert_eq!(view.read(0, &all, None).unwrap(), nullable(&rows(0, 9000)));
    assert_eq!(view.read(1, &all, None).unwrap(), nullable(&rows(10_000, 17)));
    assert_eq!(segment.rows(2), None);
}

/// Writes that file: for whoever makes another version.
#[test]
#[ignore = "it makes the file that the test above reads"]
fn write_the_file_of_this_version() {
    let folder = tempfile::tempdir().unwrap();
    written(&folder, SegmentFormat::Diligence, &[vec![rows(0, 9000)], vec![rows(10_000, 17)]]);
    let name = format!("tests/segments/version-{}.seg", layout::VERSION);
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(folder.path().join("1.seg"), to).unwrap();
}
