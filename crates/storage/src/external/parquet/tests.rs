//! Parquet files written here and read back: all types, pruning, filters, narrow forms, broken files.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::*;
use datafusion_common::ScalarValue;
use datafusion_common::stats::Precision;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, col, lit};
use diligence_base::ErrorKind;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use proptest::prelude::*;

use crate::external::OpenOptions;
use crate::external::testing::*;
use crate::{Cluster, DecodeRequest, Decoded, ScanRequest, Table};

fn write(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// One column of every kind, with NULLs, `rows` rows.
fn every_type(rows: usize) -> RecordBatch {
    let null = |i: usize| i % 7 == 3;
    macro_rules! column {
        ($array:ty, $value:expr) => {{
            let value = $value;
            Arc::new((0..rows).map(|i| (!null(i)).then(|| value(i))).collect::<$array>()) as ArrayRef
        }};
    }
    let decimal = |precision, scale| {
        let values = (0..rows).map(|i| (!null(i)).then_some((i as i128 * 37 - 500) % 90_000));
        Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(precision, scale).unwrap()) as ArrayRef
    };
    let words = ["apple", "", "a word of more than twelve bytes", "übergröße", "z"];
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..rows).map(|i| (!null(i)).then(|| (0..i % 4).map(|j| Some((i + j) as i32)).collect::<Vec<_>>())),
    );
    let inner: ArrayRef = Arc::new((0..rows).map(|i| (i % 3 > 0).then_some(i as i64)).collect::<Int64Array>());
    let structs = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, true)), inner)]);
    let dictionary = (0..rows).map(|i| (!null(i)).then(|| words[i % 5])).collect::<DictionaryArray<Int16Type>>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("boolean", column!(BooleanArray, |i: usize| i.is_multiple_of(2))),
        ("tiny", column!(Int8Array, |i: usize| i as i8)),
        ("small", column!(Int16Array, |i: usize| i as i16)),
        ("int", column!(Int32Array, |i: usize| i as i32 - 50)),
        ("big", column!(Int64Array, |i: usize| (i as i64) << 40)),
        ("utiny", column!(UInt8Array, |i: usize| i as u8)),
        ("usmall", column!(UInt16Array, |i: usize| i as u16)),
        ("uint", column!(UInt32Array, |i: usize| u32::MAX - i as u32)),
        ("ubig", column!(UInt64Array, |i: usize| u64::MAX - i as u64)),
        ("float", column!(Float32Array, |i: usize| i as f32 / 3.0)),
        ("double", column!(Float64Array, |i: usize| i as f64 / 7.0)),
        ("date", column!(Date32Array, |i: usize| i as i32 * 3)),
        ("time", column!(Time64MicrosecondArray, |i: usize| i as i64 * 1_000)),
        ("seconds", column!(TimestampMillisecondArray, |i: usize| i as i64 * 1_000_000)),
        ("zoned", {
            let values = (0..rows).map(|i| (!null(i)).then_some(i as i64 * 77));
            Arc::new(values.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
        }),
        ("nanos", column!(TimestampNanosecondArray, |i: usize| i as i64 * 1_000_007)),
        ("money", decimal(9, 2)),
        ("amount", decimal(15, 2)),
        ("wide", decimal(30, 4)),
        ("text", column!(StringArray, |i: usize| format!("{} {}", words[i % 5], i))),
        ("word", column!(StringArray, |i: usize| words[i % 5])),
        ("large", column!(LargeStringArray, |i: usize| words[i % 5])),
        ("view", column!(StringViewArray, |i: usize| words[(i + 1) % 5])),
        ("blob", column!(BinaryArray, |i: usize| vec![i as u8; i % 20])),
        ("fixed", {
            let values = (0..rows).map(|i| (!null(i)).then_some([i as u8, 1, 2]));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap())
        }),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(structs)),
        ("dictionary", Arc::new(dictionary)),
        ("required", Arc::new((0..rows).map(|i| i as i64 % 10).collect::<Int64Array>())),
    ];
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), *name != "required"));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::SNAPPY)
}

#[test]
fn infinities_of_duckdb_are_those_here() {
    let moments = vec![Some(-i64::MAX), Some(0), None, Some(i64::MAX)];
    let days = vec![Some(-i32::MAX), Some(0), None, Some(i32::MAX)];
    let zoned = TimestampMicrosecondArray::from(moments.clone()).with_timezone("UTC");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from(moments))),
        ("zoned", Arc::new(zoned)),
        ("day", Arc::new(Date32Array::from(days))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let least = |writer: &str| {
        let table = table_of("infinite.parquet", write(&batch, properties().set_created_by(writer.to_owned())));
        let request = ScanRequest { columns: all(&table), predicate: None };
        let read = try_read_all(&table, &request, &[], 1024, false).unwrap();
        let at = read.column(0).as_primitive::<TimestampMicrosecondType>().value(0);
        let zoned = read.column(1).as_primitive::<TimestampMicrosecondType>().value(0);
        assert_eq!(read.column(1).data_type(), table.schema().field(1).data_type());
        (at, zoned, read.column(2).as_primitive::<Date32Type>().value(0))
    };
    assert_eq!(least("DuckDB version v1.5.5 (build x)"), (i64::MIN, i64::MIN, i32::MIN));
    assert_eq!(least("parquet-cpp-arrow"), (-i64::MAX, -i64::MAX, -i32::MAX));
}

#[test]
fn every_type_comes_back_in_every_encoding() {
    let batch = every_type(3000);
    let expected = logical(&batch);
    let variants = [
        properties(),
        properties().set_dictionary_enabled(false),
        properties().set_writer_version(WriterVersion::PARQUET_2_0),
        properties().set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(false),
        properties()
            .set_compression(Compression::UNCOMPRESSED)
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50),
        properties().set_compression(Compression::ZSTD(Default::default())).set_dictionary_page_size_limit(64),
        properties().set_max_row_group_row_count(Some(1000)).set_compression(Compression::LZ4_RAW),
        properties().set_dictionary_enabled(false).set_column_encoding("big".into(), Encoding::DELTA_BINARY_PACKED),
        properties().set_dictionary_enabled(false).set_column_encoding("double".into(), Encoding::BYTE_STREAM_SPLIT),
    ];
    for (number, variant) in variants.into_iter().enumerate() {
        let table = table_of("every.parquet", write(&batch, variant));
        assert_eq!(table.schema().as_ref(), expected.schema().as_ref());
        for (batch_rows, narrow) in [(8192, false), (8192, true), (333, true), (1, true)] {
            let rows = if batch_rows == 1 { 40 } else { 3000 };
            let read =
                read_all(&table, &ScanRequest { columns: all(&table), predicate: None }, &[], batch_rows, narrow);
            assert_eq!(read.slice(0, rows), expected.slice(0, rows), "variant {number}, {batch_rows} rows, {narrow}");
        }
    }
}

/// Every read is compared with one in steps, in which pages of more than a kilobyte are taken apart.
#[test]
fn long_pages_come_back_part_by_part() {
    let batch = every_type(3000);
    let flat = |field: &Field| !field.data_type().is_nested();
    let columns = (0..batch.num_columns()).filter(|column| flat(batch.schema().field(*column)));
    let mut batch = batch.project(&columns.collect::<Vec<_>>()).unwrap();
    // Half of the rows are NULL in a stretch, and one text is longer than what is decompressed at once.
    let texts = (0..3000).map(|i| match i {
        1000..2000 => None,
        2222 => Some("long ".repeat(5_000)),
        _ => Some(format!("{i} {}", "x".repeat(i % 90))),
    });
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let mut fields = batch.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("stretch", DataType::Utf8, true)));
    let arrays = batch.columns().iter().cloned().chain([texts]).collect();
    batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let expected = logical(&batch);
    let one_page = || properties().set_dictionary_enabled(false).set_data_page_size_limit(1 << 30);
    let variants = [
        one_page(),
        one_page().set_compression(Compression::ZSTD(Default::default())),
        one_page().set_compression(Compression::UNCOMPRESSED),
        one_page().set_writer_version(WriterVersion::PARQUET_2_0),
        one_page()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::ZSTD(Default::default())),
        // Long pages between short ones, and several after each other.
        one_page().set_data_page_size_limit(1_500).set_write_batch_size(10),
        properties().set_dictionary_page_size_limit(2_000).set_data_page_size_limit(1 << 30),
    ];
    for (number, variant) in variants.into_iter().enumerate() {
        // The encodings of version 2 are not plain ones unless they are asked for.
        let variant = ["big", "int", "text", "stretch", "blob", "required"]
            .into_iter()
            .fold(variant, |variant, column| variant.set_column_encoding(column.into(), Encoding::PLAIN));
        let table = table_of("long.parquet", write(&batch, variant));
        let column = |name: &str| table.schema().index_of(name).unwrap();
        for names in [&["text", "big", "money"][..], &["stretch", "required", "blob"], &["boolean", "wide", "int"]] {
            let columns = names.iter().map(|name| column(name)).collect::<Vec<_>>();
            let wanted = expected.project(&columns).unwrap();
            for batch_rows in [8192, 333, 64] {
                let request = ScanRequest { columns: columns.clone(), predicate: None };
                let read = read_all(&table, &request, &[], batch_rows, false);
                assert_eq!(read, wanted, "variant {number}, {batch_rows} rows of {names:?}");
                // Most rows are passed, in stretches.
                let few = [AtMost::filter(column("required"), 0), AtMost::filter(column("big"), 1_000 << 40)];
                read_all(&table, &request, &few, batch_rows, true);
                let none = [AtMost::filter(column("big"), 1 << 40)];
                read_all(&table, &request, &none, batch_rows, true);
            }
        }
    }
}

/// A scan of many such columns in little memory reserves what it keeps.
#[test]
fn dictionaries_of_numbers_are_counted_by_their_width() {
    const COLUMNS: usize = 8;
    const VALUES: i64 = 60_000;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..4 * VALUES).map(|row| row * 7919 % VALUES)));
    let columns = (0..COLUMNS).map(|column| (format!("c{column}"), numbers.clone()));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = table_of("numbers.parquet", write(&batch, properties().set_dictionary_page_size_limit(1 << 20)));
    let columns = (0..COLUMNS).collect::<Vec<_>>();
    let request = ScanRequest { columns: columns.clone(), predicate: None };
    let cluster = table.scan(&request).unwrap().clusters[0].clone();
    let first = cluster.fetch_in_steps(&columns, 64 << 10).unwrap();
    let decode =
        DecodeRequest { columns, filters: vec![], batch_rows: 1024, narrow: true, shared: None, deleted: None };
    let fetched_bytes = first.bytes;
    let bytes = fetched_bytes + cluster.decode(run(first.fetch).unwrap(), &decode).unwrap().bytes();
    let dictionary_bytes = 8 * VALUES as usize;
    assert!(bytes > COLUMNS * dictionary_bytes, "{bytes} bytes");
    assert!(bytes < (COLUMNS + 1) * dictionary_bytes * 3 / 2, "{bytes} bytes");
}

/// What filters drop is read of the filters' columns only, but for the beginnings of pages.
#[test]
fn pages_of_rows_that_are_dropped_are_passed_unread() {
    const ROWS: usize = 60_000;
    let noise =
        |row: usize| (0..9).map(|word| format!("{:x}", (row * 31 + word + 1) * 0x9E37_79B9)).collect::<String>();
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(noise)));
    let is_one: fn(usize) -> bool = |row| row == 41_234;
    // Stretches of all lengths, near to each other and far apart.
    let is_in_stretch: fn(usize) -> bool = |row| (row as f64).sqrt() as usize % 7 == 3;
    for (is_kept, read_part) in [(is_one, 0.8), (is_in_stretch, 1.0)] {
        let dropped: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| i64::from(!is_kept(row)))));
        let columns = [("dropped", dropped), ("text", text.clone()), ("more", text.clone())];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let kept = (0..ROWS).map(is_kept).collect::<BooleanArray>();
        let expected = filter_record_batch(&logical(&batch), &kept).unwrap().project(&[2, 1]).unwrap();
        for page_bytes in [2_000, 40_000, 1 << 20, 1 << 30] {
            let pages = properties().set_dictionary_enabled(false).set_data_page_size_limit(page_bytes);
            let pages = pages.set_write_batch_size(100).set_offset_index_disabled(true);
            let table = table_of("noise.parquet", write(&batch, pages));
            let request = ScanRequest { columns: vec![2, 1], predicate: None };
            let filters = [AtMost::filter(0, 0)];
            for batch_rows in [100, 1000, 8192] {
                assert_eq!(read_all(&table, &request, &filters, batch_rows, true), expected, "pages of {page_bytes}");
            }
            let [cluster] = &table.scan(&request).unwrap().clusters[..] else { panic!("several clusters") };
            let decode = DecodeRequest {
                columns: request.columns.clone(),
                filters: filters.to_vec(),
                batch_rows: 1000,
                ..DecodeRequest::default()
            };
            let (read_bytes, whole_bytes) = (step_bytes_read(cluster, &decode), cluster.bytes(&[0, 1, 2]));
            let most_bytes = whole_bytes as f64 * read_part;
            // Nothing is left out of pages that are shorter than a step.
            assert!(page_bytes < 4096 || read_bytes as f64 <= most_bytes, "{read_bytes} of {whole_bytes} bytes");
        }
    }
}

/// Bytes that are read of a cluster in steps of four kilobytes.
fn step_bytes_read(cluster: &Arc<dyn Cluster>, request: &DecodeRequest) -> usize {
    let first = cluster.fetch_in_steps(&[0, 1, 2], 4096).unwrap();
    let mut read_bytes = first.bytes;
    let mut decode = cluster.decode(run(first.fetch).unwrap(), request).unwrap();
    loop {
        match decode.step().unwrap() {
            Decoded::Chunk(_) | Decoded::Again => {}
            Decoded::Read(fetch) => {
                let read = run(fetch).unwrap();
                read_bytes += read.bytes;
                decode.bring(read).unwrap();
            }
            Decoded::Done => return read_bytes,
        }
    }
}

#[test]
fn narrow_forms_are_used_where_the_file_has_them() {
    let batch = every_type(500);
    let table = table_of("narrow.parquet", write(&batch, properties()));
    let forms = forms(&table, true);
    assert_eq!(forms["money"], DataType::Decimal64(9, 2));
    assert_eq!(forms["amount"], DataType::Decimal64(15, 2));
    assert_eq!(forms["wide"], DataType::Decimal128(30, 4));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    assert_eq!(forms["word"], dictionary);
    assert_eq!(forms["view"], dictionary);
    let table = table_of("plain.parquet", write(&batch, properties().set_dictionary_enabled(false)));
    assert_eq!(self::forms(&table, true)["word"], DataType::Utf8View);
    assert!(self::forms(&table, false).values().all(|form| !matches!(form, DataType::Decimal64(..))));
}

#[test]
fn no_columns_means_rows_are_counted() {
    let table = table_of("count.parquet", write(&every_type(10_000), properties()));
    let scan = table.scan(&ScanRequest::default()).unwrap();
    let mut rows = 0;
    for cluster in &scan.clusters {
        assert_eq!(cluster.bytes(&[]), 0);
        let mut decode =
            cluster.decode(fetch(cluster, &[]), &DecodeRequest { batch_rows: 4096, ..Default::default() }).unwrap();
        while let Some(chunk) = decode.next().unwrap() {
            assert!(chunk.columns.is_empty() && chunk.rows <= 4096);
            rows += chunk.rows;
        }
    }
    assert_eq!(rows, 10_000);
}

/// 400,000 rows in one row group: `key` ascending, `text` without a dictionary.
fn large() -> RecordBatch {
    let rows = 400_000;
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let group: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| ["a", "b", "c"][i as usize % 3])));
    let text: ArrayRef = Arc::new((0..rows).map(|i| (i % 5 > 0).then(|| format!("row {i}"))).collect::<StringArray>());
    RecordBatch::try_from_iter([("key", key), ("group", group), ("text", text)]).unwrap()
}

#[test]
fn a_large_row_group_is_cut_where_pages_of_all_columns_begin() {
    let batch = large();
    let table = table_of("large.parquet", write(&batch, properties()));
    let scan = table.scan(&ScanRequest { columns: all(&table), predicate: None }).unwrap();
    assert!(scan.clusters.len() >= 3, "{:?}", scan.clusters);
    let bytes = scan.clusters.iter().map(|cluster| cluster.bytes(&[0])).sum::<usize>();
    assert!(bytes > 0);
    let read = read_all(&table, &ScanRequest { columns: all(&table), predicate: None }, &[], 8192, true);
    assert_eq!(read, logical(&batch));
    // Pages of different lengths have no common beginnings.
    let uneven = properties().set_data_page_size_limit(7777).set_write_batch_size(100);
    let table = table_of("uneven.parquet", write(&batch, uneven));
    let read = read_all(&table, &ScanRequest { columns: all(&table), predicate: None }, &[], 8192, true);
    assert_eq!(read, logical(&batch));
}

/// Rows with a list of structs, whose leaves have values of different lengths.
fn nested(rows: usize) -> RecordBatch {
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let text =
        |row: usize| (!row.is_multiple_of(5)).then(|| format!("{:x} {}", row * 0x9E37_79B9, "x".repeat(row % 97)));
    let text: ArrayRef = Arc::new((0..rows).map(text).collect::<StringArray>());
    let fields: Fields =
        vec![Field::new("number", DataType::Int64, false), Field::new("text", DataType::Utf8, true)].into();
    let parts = StructArray::new(fields.clone(), vec![number.clone(), text], None);
    // Lists of 0, 1, 2 and 1 of them.
    let lengths = (0..rows).map(|row| [0, 1, 2, 1][row % 4]);
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let item = Arc::new(Field::new("item", DataType::Struct(fields), false));
    let lists = ListArray::new(item, offsets, Arc::new(parts.clone()), None);
    let columns: [(&str, ArrayRef); 3] = [("number", number), ("parts", Arc::new(parts)), ("lists", Arc::new(lists))];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn lists_and_structs_of_parts_of_a_row_group_come_back() {
    let batch = nested(400_000);
    let uneven =
        || properties().set_dictionary_enabled(false).set_data_page_size_limit(30_000).set_write_batch_size(100);
    let version_2 = uneven().set_writer_version(WriterVersion::PARQUET_2_0);
    let variants = [uneven(), uneven().set_compression(Compression::UNCOMPRESSED), version_2, properties()];
    for variant in variants {
        let table = table_of("nested.parquet", write(&batch, variant));
        let request = ScanRequest { columns: all(&table), predicate: None };
        let parts = table.scan(&request).unwrap().clusters;
        assert!(parts.len() >= 3, "{parts:?}");
        assert_eq!(read_all(&table, &request, &[], 8192, true), logical(&batch));
        read_all(&table, &request, &[AtMost::filter(0, 50)], 1000, true);
    }
}

#[test]
fn lists_are_decoded_page_by_page_where_memory_is_short() {
    let batch = nested(100_000);
    for compression in [Compression::SNAPPY, Compression::GZIP(Default::default())] {
        let pages =
            properties().set_dictionary_enabled(false).set_data_page_size_limit(20_000).set_write_batch_size(100);
        let pages = pages.set_offset_index_disabled(true).set_compression(compression);
        let table = table_of("lists.parquet", write(&batch, pages));
        let columns = all(&table);
        let request = ScanRequest { columns: columns.clone(), predicate: None };
        let [cluster] = &table.scan(&request).unwrap().clusters[..] else { panic!("several clusters") };
        let decode = DecodeRequest { columns: columns.clone(), batch_rows: 100, ..DecodeRequest::default() };
        let first = cluster.fetch_in_steps(&columns, 4096).unwrap();
        let fetched_bytes = first.bytes;
        let mut steps = cluster.decode(run(first.fetch).unwrap(), &decode).unwrap();
        let (mut most_bytes, mut rows) = (0, 0);
        loop {
            most_bytes = most_bytes.max(fetched_bytes + steps.bytes());
            match steps.step().unwrap() {
                Decoded::Chunk(chunk) => rows += chunk.rows,
                Decoded::Again => {}
                Decoded::Read(fetch) => steps.bring(run(fetch).unwrap()).unwrap(),
                Decoded::Done => break,
            }
        }
        assert_eq!(rows, batch.num_rows());
        let whole_bytes = cluster.bytes(&columns);
        assert!(most_bytes < whole_bytes / 5, "{most_bytes} of {whole_bytes} bytes");
    }
}

fn compare(column: &str, op: Operator, value: ScalarValue, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(col(column, schema).unwrap(), op, lit(value)))
}

#[test]
fn row_groups_are_pruned_by_their_statistics() {
    let batch = every_type(10_000);
    let table = table_of("pruned.parquet", write(&batch, properties().set_max_row_group_row_count(Some(1000))));
    let pruned = |column, op, value| {
        let predicate = Some(compare(column, op, value, &table.schema()));
        table.scan(&ScanRequest { columns: vec![3], predicate }).unwrap().clusters_pruned
    };
    assert_eq!(pruned("int", Operator::Gt, ScalarValue::Int32(Some(7_999))), 8);
    assert_eq!(pruned("int", Operator::Eq, ScalarValue::Int32(Some(-51))), 10);
    assert_eq!(pruned("date", Operator::LtEq, ScalarValue::Date32(Some(10))), 9);
    assert_eq!(pruned("text", Operator::Eq, ScalarValue::Utf8View(Some(String::new()))), 10);
    // NaN is beyond every bound, so bounds of floats say nothing.
    assert_eq!(pruned("double", Operator::Gt, ScalarValue::Float64(Some(1e9))), 0);
}

#[test]
fn row_groups_are_pruned_by_bloom_filters() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..4000).map(|i| i * 7919 % 100_003)));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..4000).map(|i| format!("n{}", i * 31 % 4001))));
    let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    let properties = properties().set_max_row_group_row_count(Some(1000)).set_bloom_filter_enabled(true);
    let table = table_of("bloom.parquet", write(&batch, properties));
    let predicate = compare("id", Operator::Eq, ScalarValue::Int64(Some(7919)), &table.schema());
    let scan = table.scan(&ScanRequest { columns: vec![0], predicate: Some(predicate) }).unwrap();
    assert_eq!((scan.clusters.len(), scan.clusters_pruned), (1, 3));
    let predicate = compare("name", Operator::Eq, ScalarValue::Utf8View(Some("n31".into())), &table.schema());
    let scan = table.scan(&ScanRequest { columns: vec![0], predicate: Some(predicate) }).unwrap();
    assert_eq!((scan.clusters.len(), scan.clusters_pruned), (1, 3));
}

#[test]
fn statistics_come_from_the_footer() {
    let batch = every_type(7000);
    let table = table_of("statistics.parquet", write(&batch, properties().set_max_row_group_row_count(Some(1000))));
    let statistics = table.statistics();
    assert_eq!(statistics.num_rows, Precision::Exact(7000));
    let column = |name: &str| &statistics.column_statistics[table.schema().index_of(name).unwrap()];
    assert_eq!(column("int").min_value, Precision::Exact(ScalarValue::Int32(Some(-50))));
    assert_eq!(column("int").max_value, Precision::Exact(ScalarValue::Int32(Some(6949))));
    assert_eq!(column("int").null_count, Precision::Exact(1000));
    assert_eq!(column("required").null_count, Precision::Exact(0));
    // From the dictionary's compressed size: the order of magnitude.
    let digits = column("required").distinct_count.get_value().copied().unwrap();
    assert!((4..=10).contains(&digits), "{digits}");
    assert_eq!(column("double").max_value, Precision::Absent);
    assert_eq!(column("list").null_count, Precision::Absent);
    let words = column("word").distinct_count.get_value().copied().unwrap();
    assert!((3..=9).contains(&words), "{words}");
    let ints = column("int").distinct_count.get_value().copied().unwrap();
    assert!((5000..=7000).contains(&ints), "{ints}");
    assert!(matches!(column("word").max_value, Precision::Exact(ScalarValue::Utf8View(Some(_)))));
}

#[test]
fn files_of_different_schemas_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let one = RecordBatch::try_from_iter([
        ("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef),
    ])
    .unwrap();
    let two = RecordBatch::try_from_iter([
        ("c", Arc::new(BooleanArray::from(vec![true])) as ArrayRef),
        ("a", Arc::new(Int64Array::from(vec![1i64 << 40])) as ArrayRef),
    ])
    .unwrap();
    std::fs::write(folder.path().join("1.parquet"), write(&one, properties())).unwrap();
    std::fs::create_dir(folder.path().join("more")).unwrap();
    std::fs::write(folder.path().join("more/2.parquet"), write(&two, properties())).unwrap();
    std::fs::write(folder.path().join("_SUCCESS"), b"").unwrap();
    let table = open_path(folder.path()).unwrap();
    let expected = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from(vec![1, 2, 1i64 << 40])) as ArrayRef, false),
        ("b", Arc::new(StringViewArray::from(vec![Some("x"), Some("y"), None])) as ArrayRef, true),
        ("c", Arc::new(BooleanArray::from(vec![None, None, Some(true)])) as ArrayRef, true),
    ])
    .unwrap();
    let read = read_all(&table, &ScanRequest { columns: all(&table), predicate: None }, &[], 8192, true);
    assert_eq!(concat_batches(&expected.schema(), [&read]).unwrap(), expected);
    let b = &table.statistics().column_statistics[1];
    assert_eq!(b.null_count, Precision::Exact(1));
    let predicate = compare("c", Operator::Eq, ScalarValue::Boolean(Some(true)), &table.schema());
    let scan = table.scan(&ScanRequest { columns: vec![0], predicate: Some(predicate) }).unwrap();
    assert_eq!((scan.clusters.len(), scan.clusters_pruned), (1, 1));
}

#[test]
fn declared_columns_are_found_by_name_and_converted() {
    let batch = every_type(100);
    let declare =
        |fields: Vec<Field>| OpenOptions { schema: Some(Arc::new(Schema::new(fields))), ..Default::default() };
    let options = declare(vec![
        Field::new("word", DataType::Utf8, true),
        Field::new("int", DataType::Int64, true),
        Field::new("big", DataType::Utf8, true),
    ]);
    let table = open_bytes("declared.parquet", write(&batch, properties()), &options).unwrap();
    let read = read_all(&table, &ScanRequest { columns: all(&table), predicate: None }, &[], 64, true);
    assert_eq!(read.schema().field(1), &Field::new("int", DataType::Int64, true));
    assert_eq!(read.column(1).as_primitive::<Int64Type>().value(0), -50);
    assert_eq!(read.column(2).as_string_view().value(1), (1i64 << 40).to_string());
    // As text, the order of numbers is another one.
    assert_eq!(table.statistics().column_statistics[2].min_value, Precision::Absent);
    let options = declare(vec![Field::new("nothing", DataType::Utf8, true)]);
    let error = open_bytes("declared.parquet", write(&batch, properties()), &options).unwrap_err();
    assert!(error.message().contains("declared columns 'nothing'"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn filters_keep_the_rows_that_a_filter_after_the_scan_keeps(
        values in prop::collection::vec((prop::option::of(0i64..40), 0usize..6, prop::option::of(0u32..9)), 0..3000),
        bounds in prop::collection::vec((0usize..3, 0i64..40), 0..4),
        columns in prop::sample::subsequence(vec![0usize, 1, 2], 0..=3),
        batch_rows in 1usize..2000,
        page_rows in 10usize..500,
        dictionary in any::<bool>(),
        narrow in any::<bool>(),
        version in any::<bool>(),
    ) {
        let words = ["", "one", "two words", "a word of more than twelve bytes", "x", "yy"];
        let a: ArrayRef = Arc::new(values.iter().map(|v| v.0).collect::<Int64Array>());
        let b: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|v| words[v.1])));
        let c = values.iter().map(|v| v.2.map(i128::from)).collect::<Decimal128Array>();
        let c: ArrayRef = Arc::new(c.with_precision_and_scale(12, 2).unwrap());
        let batch = RecordBatch::try_from_iter([("a", a), ("b", b), ("c", c)]).unwrap();
        let version = if version { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 };
        let properties = properties()
            .set_writer_version(version)
            .set_dictionary_enabled(dictionary)
            .set_data_page_row_count_limit(page_rows)
            .set_write_batch_size(page_rows.min(64))
            .set_max_row_group_row_count(Some(1000));
        let table = table_of("filtered.parquet", write(&batch, properties));
        let filters = bounds.iter().map(|&(column, bound)| AtMost::filter(column, bound)).collect::<Vec<_>>();
        let request = ScanRequest { columns: columns.clone(), predicate: None };
        let read = read_all(&table, &request, &filters, batch_rows, narrow);
        let keep = (0..values.len())
            .map(|row| bounds.iter().all(|&(column, bound)| {
                AtMost::measure(logical(&batch).column(column), row).is_some_and(|m| m <= bound)
            }))
            .collect::<BooleanArray>();
        let expected = arrow::compute::filter_record_batch(&logical(&batch).project(&columns).unwrap(), &keep).unwrap();
        prop_assert_eq!(read.num_rows(), expected.num_rows());
        prop_assert_eq!(read.columns(), expected.columns());
    }
}

#[test]
fn every_shortened_file_is_an_error() {
    let batch = every_type(30);
    let whole = write(&batch, properties());
    let step = (whole.len() / 400).max(1);
    for length in (0..whole.len()).step_by(step) {
        let error = try_read("short.parquet", whole[..length].to_vec()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::File, "{error}");
        assert!(error.message().contains("short.parquet"), "{error}");
    }
}

#[test]
fn a_damaged_file_gives_rows_or_an_error() {
    let batch = every_type(40).project(&[3, 17, 19, 20, 25]).unwrap();
    for variant in [properties(), properties().set_compression(Compression::UNCOMPRESSED)] {
        let whole = write(&batch, variant);
        let complaints = quietly(|| {
            let mut complaints = Vec::new();
            for position in 0..whole.len() {
                for flip in [0x01, 0x80, 0xff] {
                    let mut damaged = whole.clone();
                    damaged[position] ^= flip;
                    if let Err(error) = try_read("damaged.parquet", damaged)
                        && (!error.message().contains("damaged.parquet") || error.kind() == ErrorKind::Bug)
                    {
                        complaints.push(format!("byte {position} ^ {flip}: {error:?}"));
                    }
                }
            }
            complaints
        });
        assert!(complaints.is_empty(), "{:#?}", &complaints[..3]);
    }
}

#[test]
fn a_file_that_changed_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.parquet");
    std::fs::write(&path, write(&every_type(10), properties())).unwrap();
    let table = open_path(&path).unwrap();
    std::fs::write(&path, write(&every_type(11), properties())).unwrap();
    let again = open_path(&path).unwrap();
    assert_ne!(table.version(), again.version());
    let request = ScanRequest { columns: vec![0], predicate: None };
    let error = try_read_all(&table, &request, &[], 100, false).unwrap_err();
    assert!(error.message().contains("changed since it was opened"), "{error}");
}
