//! Separated values and JSON, written here and read back.

use std::io::Write;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion_common::stats::Precision;
use diligence_base::ErrorKind;
use proptest::prelude::*;

use super::{CLUSTER_BYTES, WINDOW_BYTES_MAX};
use crate::external::testing::*;
use crate::external::{CsvOptions, OpenOptions};
use crate::{DecodeRequest, ScanRequest, SharedItem, Table};

fn everything(table: &crate::external::ExternalTable, batch_rows: usize) -> RecordBatch {
    read_all(table, &ScanRequest { columns: all(table), predicate: None }, &[], batch_rows, true)
}

fn fields(batch: &RecordBatch) -> Vec<(String, DataType)> {
    batch.schema().fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
}

const PEOPLE: &str = "id,name,height,born,seen,member\n\
    1,Ann,1.72,1990-05-01,2024-01-01 10:00:00,true\n\
    2,\"Bob, \"\"the\"\" builder\",,1985-12-31,2024-01-02T11:30:00.5,false\n\
    3,\"\",1.8,,,\n";

fn people() -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef, true),
        ("name", Arc::new(StringViewArray::from(vec!["Ann", "Bob, \"the\" builder", ""])), true),
        ("height", Arc::new(Float64Array::from(vec![Some(1.72), None, Some(1.8)])), true),
        ("born", Arc::new(Date32Array::from(vec![Some(7425), Some(5843), None])), true),
        (
            "seen",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1704103200000000), Some(1704195000500000), None])),
            true,
        ),
        ("member", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), true),
    ])
    .unwrap()
}

#[test]
fn types_and_nulls_are_understood() {
    for text in
        [PEOPLE.to_owned(), PEOPLE.replace('\n', "\r\n"), format!("\u{feff}{PEOPLE}"), PEOPLE.trim_end().to_owned()]
    {
        let table = table_of("people.csv", text.into_bytes());
        assert_eq!(everything(&table, 2), people());
        assert_eq!(table.statistics().num_rows, Precision::Inexact(3));
    }
    let tabs = "a\tb\n1\tx y\n";
    assert_eq!(fields(&everything(&table_of("t.tsv", tabs.into()), 10))[1].0, "b");
}

fn packed(name: &str, text: &[u8]) -> (String, Vec<u8>) {
    let bytes = match name {
        "gz" => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            writer.write_all(text).unwrap();
            writer.finish().unwrap()
        }
        "zst" => zstd::encode_all(text, 0).unwrap(),
        "bz2" => {
            let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
            writer.write_all(text).unwrap();
            writer.finish().unwrap()
        }
        _ => {
            let mut writer = liblzma::write::XzEncoder::new(Vec::new(), 1);
            writer.write_all(text).unwrap();
            writer.finish().unwrap()
        }
    };
    (name.to_owned(), bytes)
}

#[test]
fn packed_files_are_unpacked() {
    let mut text = b"n,word\n".to_vec();
    for i in 0..200_000 {
        writeln!(text, "{i},word number {}", i * 7919 % 100_003).unwrap();
    }
    let plain = everything(&table_of("n.csv", text.clone()), 8192);
    assert_eq!(plain.num_rows(), 200_000);
    for name in ["gz", "zst", "bz2", "xz"] {
        let (name, bytes) = packed(name, &text);
        let table = table_of(&format!("n.csv.{name}"), bytes.clone());
        assert_eq!(everything(&table, 8192), plain, "{name}");
        // The first bytes count, not the name.
        assert_eq!(everything(&table_of("n.csv", bytes.clone()), 8192), plain, "{name}");
        let error = try_read(&format!("n.csv.{name}"), bytes[..bytes.len() / 2].to_vec()).unwrap_err();
        assert!(error.message().contains("cannot be unpacked"), "{error}");
    }
    let (_, gz) = packed("gz", b"{\"a\":1}\n{\"a\":2}\n");
    assert_eq!(everything(&table_of("a.jsonl.gz", gz), 10).num_rows(), 2);
}

#[test]
fn options_are_followed() {
    let options = OpenOptions {
        csv: CsvOptions {
            delimiter: Some(b'|'),
            has_header: Some(false),
            quote: Some(b'\''),
            escape: Some(b'\\'),
            comment: Some(b'#'),
            nulls: vec!["NA".to_owned()],
            ..CsvOptions::default()
        },
        ..OpenOptions::default()
    };
    let text = "# a comment\n1|'it\\'s'|NA\nNA||2.5\n";
    let table = open_bytes("odd.csv", text.into(), &options).unwrap();
    let read = everything(&table, 10);
    assert_eq!(fields(&read)[0], ("column_1".to_owned(), DataType::Int64));
    assert_eq!(read.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), vec![Some(1), None]);
    assert_eq!(read.column(1).as_string_view().iter().collect::<Vec<_>>(), vec![Some("it's"), Some("")]);
    assert_eq!(read.column(2).null_count(), 1);
}

#[test]
fn declared_columns_rule() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int32, false),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("word", DataType::Utf8, true),
    ]));
    let options = OpenOptions { schema: Some(schema), ..OpenOptions::default() };
    // As TPC-H's own generator writes it: no header, and a delimiter at the end of each line.
    let mut options_tbl = options.clone();
    options_tbl.csv.delimiter = Some(b'|');
    options_tbl.format = Some(crate::external::Format::Csv);
    let text = "1|12.345|1996-03-13|1996-03-13 00:00:01|007|\n2|-0.005|||x|\n";
    let table = open_bytes("a.tbl", text.into(), &options_tbl).unwrap();
    let read = everything(&table, 10);
    assert_eq!(read.column(1).as_primitive::<arrow::datatypes::Decimal128Type>().values().to_vec(), vec![1235, -1]);
    assert_eq!(read.column(4).as_string_view().value(0), "007");
    assert_eq!(read.column(3).data_type(), &DataType::Timestamp(TimeUnit::Nanosecond, None));
    // A header with the same names gives the order.
    let text = "word,at,day,price,key\na,,1996-03-13,1,2\n";
    let table = open_bytes("a.csv", text.into(), &options).unwrap();
    assert_eq!(everything(&table, 10).column(4).as_string_view().value(0), "a");
    let error = open_bytes("a.csv", b"1,2\n3,4\n".to_vec(), &options).unwrap_err();
    assert!(error.message().contains("2 fields, but 5 columns"), "{error}");
}

#[test]
fn errors_name_line_and_column() {
    let cases = [
        ("a,b\n1,2\n3\n", "bad.csv, line 3: the record has 1 field instead of 2"),
        ("a,b\n1,2\n3,4,5\n", "bad.csv, line 3: the record has 3 fields instead of 2"),
    ];
    for (text, message) in cases {
        let error = try_read("bad.csv", text.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::File);
        assert!(error.message().contains(message), "{error}");
    }
    // Where it is said what quotes are, they are nothing else.
    let csv = CsvOptions { quote: Some(b'"'), ..CsvOptions::default() };
    let quoting = OpenOptions { csv, ..OpenOptions::default() };
    for (text, message) in [
        ("a,b\n1,\"x\n", "bad.csv, line 2: the quote that begins here is never closed"),
        ("a,b\n1,\"x\"y\n", "bad.csv, line 2: there is text after the quote"),
    ] {
        let read = open_bytes("bad.csv", text.into(), &quoting).and_then(|table| {
            let request = ScanRequest { columns: all(&table), predicate: None };
            try_read_all(&table, &request, &[], 10, true)
        });
        let error = read.unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
    let error = try_read("bad.csv", b"a,b\n1,2\nx\xff,3\n".to_vec()).unwrap_err();
    assert!(error.message().contains("line 3: byte 0xff is not UTF-8"), "{error}");
    let options = OpenOptions { inference_rows: 2, ..OpenOptions::default() };
    let table = open_bytes("bad.csv", b"a,b\n1,2\n3,4\n5,x\n".to_vec(), &options).unwrap();
    let request = ScanRequest { columns: all(&table), predicate: None };
    let error = try_read_all(&table, &request, &[], 10, true).unwrap_err();
    assert!(error.message().contains("bad.csv, line 4: column 'b': 'x' is no BIGINT"), "{error}");
    for (name, text, message) in [
        ("wide.csv", "\u{0}\u{0}", "it is no text file"),
        ("bad.json", "{\"a\":1}\n{\"a\":}\n", "bad.json: line 2"),
        ("bad.json", "7\n8x\n", "bad.json: line 2"),
    ] {
        let error = try_read(name, text.into()).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
    let table = open_bytes("bad.json", b"{\"a\":1}\n{\"a\":2}\n{\"a\":\"x\"}\n{\"a\":4}\n".to_vec(), &options).unwrap();
    let request = ScanRequest { columns: all(&table), predicate: None };
    let error = try_read_all(&table, &request, &[], 10, true).unwrap_err();
    assert!(error.message().contains("bad.json, line 3"), "{error}");
}

#[test]
fn records_that_are_numbers_are_cut_nowhere() {
    let count = 1_500_000_i64;
    let numbers = (0..count).map(|number| (if number % 3 == 0 { -number } else { number }).to_string());
    let numbers = numbers.collect::<Vec<_>>();
    for (text, is_cut) in [(numbers.join("\n"), true), (format!("[{}]", numbers.join(",")), false)] {
        let table = table_of("numbers.json", text.into_bytes());
        assert_eq!(*table.schema().field(0).data_type(), DataType::Int64);
        let clusters = table.scan(&ScanRequest::default()).unwrap().clusters.len();
        assert_eq!(clusters > 1, is_cut, "{clusters}");
        let read = read_all(&table, &ScanRequest { columns: vec![0], predicate: None }, &[], 8192, true);
        let values = read.column(0).as_primitive::<Int64Type>().values();
        assert_eq!(values.len() as i64, count);
        assert!(values.iter().zip(0..).all(|(&value, row)| value == if row % 3 == 0 { -row } else { row }));
        assert_eq!(read_all(&table, &ScanRequest::default(), &[], 8192, true).num_rows() as i64, count);
    }
}

/// Records with every kind of field, more than a cluster of them.
fn many(newlines: bool) -> (Vec<u8>, usize) {
    let mut text = b"id,note,value\n".to_vec();
    let mut id = 0;
    while (text.len() as u64) < CLUSTER_BYTES * 5 / 2 {
        match id % 4 {
            0 => writeln!(text, "{id},plain {id},{}", id * 3).unwrap(),
            1 => writeln!(text, "{id},\"quoted, with \"\"quotes\"\"\",").unwrap(),
            2 if newlines => writeln!(text, "{id},\"two\n{id},lines\n\",{id}").unwrap(),
            _ => writeln!(text, "{id},5\" pipe,{id}").unwrap(),
        }
        id += 1;
    }
    (text, id)
}

#[test]
fn large_files_are_cut_between_records() {
    for newlines in [false, true] {
        let (text, records) = many(newlines);
        let table = table_of("many.csv", text.clone());
        let clusters = table.scan(&ScanRequest::default()).unwrap().clusters.len();
        assert!(clusters >= 3, "{clusters}");
        let read = read_all(&table, &ScanRequest { columns: vec![0, 1], predicate: None }, &[], 8192, true);
        assert_eq!(read.num_rows(), records);
        let ids = read.column(0).as_primitive::<Int64Type>();
        assert!(ids.values().iter().enumerate().all(|(row, &id)| row as i64 == id));
        assert_eq!(read.column(1).as_string_view().value(1), "quoted, with \"quotes\"");
        let count = read_all(&table, &ScanRequest::default(), &[], 8192, true);
        assert_eq!(count.num_rows(), records);
    }
}

#[test]
fn a_line_end_in_quotes_that_nobody_expected_is_never_a_wrong_answer() {
    let (mut text, records) = many(false);
    // A field that looks like records lies over the cut between two clusters.
    let cut = (text.len() as u64 / text.len().div_ceil(CLUSTER_BYTES as usize) as u64) as usize;
    let line = text[..cut].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    let evil = format!("-1,\"{}\",7\n", "1,2,3\n".repeat(200));
    text.splice(line..line, evil.bytes());
    let table = table_of("evil.csv", text);
    let request = ScanRequest { columns: vec![0, 2], predicate: None };
    match try_read_all(&table, &request, &[], 8192, true) {
        Err(error) => assert!(error.is_retryable() || error.kind() == ErrorKind::File, "{error}"),
        Ok(read) => assert_eq!(read.num_rows(), records + 1),
    }
    if let Ok(read) = try_read_all(&table, &request, &[], 8192, true) {
        assert_eq!(read.num_rows(), records + 1);
    }
}

#[test]
fn json_of_every_form() {
    let lines = "{\"a\":1,\"b\":\"x\",\"c\":[1,2],\"d\":{\"e\":true}}\n\n{\"b\":null,\"a\":2.5,\"z\":\"new\"}\n";
    let array = "[ {\"a\":1,\"b\":\"x\",\"c\":[1,2],\"d\":{\"e\":true}} ,\n {\"b\":null,\"a\":2.5,\"z\":\"new\"} ]";
    let values = "{\"a\":1,\"b\":\"x\",\n \"c\":[1,2],\"d\":{\"e\":true}}\n{\"b\":null,\n\"a\":2.5,\"z\":\"new\"}";
    let expected = everything(&table_of("a.jsonl", lines.into()), 10);
    let names = fields(&expected);
    assert_eq!(names[0], ("a".to_owned(), DataType::Float64));
    assert_eq!(names[1], ("b".to_owned(), DataType::Utf8View));
    assert!(matches!(names[2].1, DataType::List(_)) && matches!(names[3].1, DataType::Struct(_)));
    assert_eq!(expected.num_rows(), 2);
    assert_eq!(expected.column(4).as_string_view().iter().collect::<Vec<_>>(), vec![None, Some("new")]);
    for text in [array, values] {
        let table = table_of("a.json", text.into());
        assert_eq!(everything(&table, 10), expected);
        assert_eq!(everything(&table, 1), expected);
        assert_eq!(read_all(&table, &ScanRequest::default(), &[], 10, true).num_rows(), 2);
        let one = read_all(&table, &ScanRequest { columns: vec![4, 0], predicate: None }, &[], 10, true);
        assert_eq!(one.column(1), expected.column(0));
    }
    for text in [&lines[..lines.len() - 10], &array[..array.len() - 10], &values[..values.len() - 10]] {
        assert_eq!(try_read("cut.json", text.into()).unwrap_err().kind(), ErrorKind::File);
    }
}

#[test]
fn large_json_files_are_cut_between_lines() {
    let mut text = Vec::new();
    let mut id = 0;
    while (text.len() as u64) < CLUSTER_BYTES * 5 / 2 {
        writeln!(text, "{{\"id\":{id},\"text\":\"line\\nfeed {}\"}}", "x".repeat(id % 50)).unwrap();
        id += 1;
    }
    let table = table_of("many.jsonl", text);
    assert!(table.scan(&ScanRequest::default()).unwrap().clusters.len() >= 3);
    let read = everything(&table, 8192);
    assert_eq!(read.num_rows(), id);
    assert!(read.column(0).as_primitive::<Int64Type>().values().iter().enumerate().all(|(row, &id)| row as i64 == id));
}

#[test]
fn all_records_of_a_json_file_decide_its_columns() {
    let of = |index: usize, last: &str| match index {
        130_000 => last.to_owned(),
        _ => format!("{{\"id\":{index},\n\"text\":\"{}\"}}", "x".repeat(index % 40)),
    };
    let records = |last: &str| (0..130_001).map(|index| of(index, last)).collect::<Vec<_>>();
    let late = records("{\"id\":0.5,\"late\":true}");
    let lines = late.iter().map(|record| record.replace('\n', "")).collect::<Vec<_>>().join("\n");
    let texts = [lines.clone(), late.join("\n"), format!("[{}]", late.join(",\n"))];
    for (form, text) in texts.iter().enumerate() {
        let (_, gz) = packed("gz", text.as_bytes());
        for (name, text) in [("late.json", text.clone().into_bytes()), ("late.json.gz", gz)] {
            let read = everything(&table_of(name, text), 8192);
            let names = fields(&read).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            assert_eq!((read.num_rows(), names), (130_001, vec!["id".into(), "text".into(), "late".into()]), "{form}");
            assert_eq!(fields(&read)[0].1, DataType::Float64, "{form}, {name}");
        }
    }
    let wrong = records("{\"id\":}");
    for (text, line) in [(wrong.join("\n"), 260_001), (format!("[{}]", wrong.join(",\n")), 260_001)] {
        let error = try_read("wrong.json", text.into()).unwrap_err();
        assert!(error.message().contains(&format!("line {line}:")), "{error}");
    }
    let wrong = lines.replace("\"late\":true", "\"late\":");
    let error = try_read("wrong.jsonl", wrong.into()).unwrap_err();
    assert!(error.message().contains("line 130001:"), "{error}");
}

#[test]
fn what_one_scan_leaves_others_read_without_the_text() {
    let (mut csv, mut json) = (String::from("id,text,number\n"), String::new());
    let mut rows = 0;
    while (json.len() as u64) < CLUSTER_BYTES * 3 / 2 {
        let (text, number) = ("x".repeat(rows % 30), rows % 100);
        csv += &format!("{rows},\"{text}\",{number}\n");
        json += &format!("{{\"id\":{rows},\"text\":\"{text}\",\"number\":{number}}}\n");
        rows += 1;
    }
    let (extension, packed_csv) = packed("gz", csv.as_bytes());
    let tables = [
        table_of("left.csv", csv.into()),
        table_of(&format!("left.csv.{extension}"), packed_csv),
        table_of("left.jsonl", json.into()),
    ];
    for table in tables {
        let clusters = table.scan(&ScanRequest::default()).unwrap().clusters.len();
        let places = table.scan(&ScanRequest::default()).unwrap().clusters;
        let places = places.iter().map(|cluster| cluster.place().unwrap()).collect::<std::collections::HashSet<_>>();
        assert_eq!(places.len(), clusters);
        let left = Arc::<Left>::default();
        let filters = [AtMost::filter(2, 20)];
        for columns in [vec![0], vec![1, 0], vec![], vec![0, 1, 2], vec![2, 0]] {
            let request = ScanRequest { columns, predicate: None };
            for filters in [&filters[..], &[]] {
                let alone = read_all(&table, &request, filters, 1000, true);
                let shared = try_read_shared(&table, &request, filters, 1000, true, Some(&left)).unwrap();
                assert_eq!(shared, alone);
            }
        }
        // After three rounds all is there, but nobody says how many rows there are without a column.
        assert_eq!(left.not_fetched.load(std::sync::atomic::Ordering::Relaxed), clusters * (1 + 1 + 1 + 2 + 2));
        let others = left.clusters.lock();
        assert!(others.values().all(|columns| columns.len() == 3));
    }
}

#[test]
fn wide_records_come_in_chunks_of_some_bytes() {
    let (mut csv, mut array) = (String::from("id,text\n"), String::from("["));
    let ids = 0..1500;
    for id in ids.clone() {
        // What the first records show says nothing of the others.
        let text = "}".repeat(if id < 500 { 1 } else { 20_000 });
        csv += &format!("{id},{text}\n");
        array += &format!("{}{{\"id\":{id},\"text\":\"{text}\"}}", if id == 0 { "" } else { ",\n" });
    }
    array.push(']');
    let lines = array[1..array.len() - 1].replace(",\n", "\n");
    let packed = |name: &str, text: &str| {
        let (extension, bytes) = packed("zst", text.as_bytes());
        table_of(&format!("{name}.{extension}"), bytes)
    };
    for table in [packed("w.csv", &csv), packed("w.jsonl", &lines), table_of("w.json", array.into())] {
        let left = Arc::<Left>::default();
        let filters = [AtMost::filter(0, 1490)];
        for (columns, is_filtered) in [(vec![0], false), (vec![1, 0], false), (vec![0, 1], true), (vec![1], false)] {
            let filters = if is_filtered { &filters[..] } else { &[] };
            let request = ScanRequest { columns, predicate: None };
            let alone = read_all(&table, &request, filters, 8192, true);
            assert_eq!(alone.num_rows(), if filters.is_empty() { ids.len() } else { 1491 });
            assert_eq!(try_read_shared(&table, &request, filters, 8192, true, Some(&left)).unwrap(), alone);
        }
        let columns = vec![1];
        for cluster in table.scan(&ScanRequest { columns: columns.clone(), predicate: None }).unwrap().clusters {
            let request = DecodeRequest { columns: columns.clone(), batch_rows: 8192, ..DecodeRequest::default() };
            let mut decode = cluster.decode(fetch(&cluster, &columns), &request).unwrap();
            let (mut chunks, mut most) = (0, 0);
            while let Some(chunk) = decode.next().unwrap() {
                (chunks, most) = (chunks + 1, most.max(chunk.columns[0].as_string_view().total_buffer_bytes_used()));
            }
            assert!(chunks >= 5 && most <= WINDOW_BYTES_MAX + 20_000, "{chunks} chunks of up to {most} bytes");
        }
    }
}

#[test]
fn a_value_that_is_wrong_is_nothing_to_who_does_not_want_its_row() {
    let text = format!("n,v\n1,1\n{}50,wrong\n2,2\n", "3,3\n".repeat(2000));
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("v", DataType::Int64, true)]);
    let options = OpenOptions { schema: Some(Arc::new(schema)), ..OpenOptions::default() };
    let table = open_bytes("wrong.csv", text.into(), &options).unwrap();
    let left = Arc::<Left>::default();
    let request = ScanRequest { columns: vec![1], predicate: None };
    let read =
        |filters: &[Arc<dyn crate::RowFilter>]| try_read_shared(&table, &request, filters, 100, true, Some(&left));
    for _ in 0..2 {
        assert_eq!(read(&[AtMost::filter(0, 10)]).unwrap().num_rows(), 2002);
        // One column is left, the other not.
        let has = |column| {
            let item = SharedItem::Column(column);
            left.clusters.lock().values().map(|items| items.contains_key(&item)).collect::<Vec<_>>()
        };
        assert_eq!((has(0), has(1)), (vec![true], vec![false]));
        let error = read(&[]).unwrap_err().to_string();
        assert!(error.contains("'wrong' is no") && error.contains("line 2003"), "{error}");
    }
}

#[test]
fn several_files_share_one_schema() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("1.csv"), "a,b\n1,x\n").unwrap();
    std::fs::write(folder.path().join("2.csv"), "b,a,c\ny,2.5,2024-01-01\n").unwrap();
    let read = everything(&open_path(folder.path()).unwrap(), 10);
    assert_eq!(fields(&read)[0].1, DataType::Float64);
    assert_eq!(read.column(1).as_string_view().iter().collect::<Vec<_>>(), vec![Some("x"), Some("y")]);
    assert_eq!(read.column(2).null_count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec((prop::option::of("[a-z\",\n;'é ]{0,6}"), prop::option::of(0i64..1000)), 1..60),
        bound in 0i64..1000,
        batch_rows in 1usize..50,
    ) {
        let mut text = String::from("s,n\n");
        for (s, n) in &rows {
            if let Some(s) = s {
                text += &format!("\"{}\"", s.replace('"', "\"\""));
            }
            text += &format!(",{}\n", n.map_or(String::new(), |n| n.to_string()));
        }
        let schema = Schema::new(vec![
            Field::new("s", DataType::Utf8, true),
            Field::new("n", DataType::Int64, true),
        ]);
        let mut options = OpenOptions { schema: Some(Arc::new(schema)), ..OpenOptions::default() };
        options.csv.has_header = Some(true);
        options.csv.delimiter = Some(b',');
        let table = open_bytes("p.csv", text.into_bytes(), &options).unwrap();
        let filters = [AtMost::filter(1, bound)];
        let request = ScanRequest { columns: vec![0, 1], predicate: None };
        let read = read_all(&table, &request, &filters, batch_rows, true);
        let expected = rows.iter().filter(|(_, n)| n.is_some_and(|n| n <= bound)).collect::<Vec<_>>();
        prop_assert_eq!(read.num_rows(), expected.len());
        for (row, (s, n)) in expected.iter().enumerate() {
            let strings = read.column(0).as_string_view();
            prop_assert_eq!((!strings.is_null(row)).then(|| strings.value(row)), s.as_deref());
            prop_assert_eq!(Some(read.column(1).as_primitive::<Int64Type>().value(row)), *n);
        }
    }
}
