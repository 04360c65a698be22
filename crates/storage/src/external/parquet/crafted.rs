//! Chunks as no writer here writes them: pages made by hand, in files whose footers fit them.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use bytes::Bytes;
use diligence_base::seams::{FileKind, FileMeta, LocalDisk};
use diligence_base::{ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType};
use parquet::file::metadata::ParquetMetaDataWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::bytes::ChunkBytes;
use super::column_rows::ColumnRows;
use super::flat::FlatRows;
use super::header::{Kind, encoding};
use super::page::Pages;
use super::strings::Views;
use crate::external::source::Source;
use crate::external::testing::*;
use crate::{DecodeRequest, ScanRequest, Table};

const BIT_PACKED: i32 = 4;

/// A page's header and bytes. `text_bytes` is what the header says about the length of the text.
struct Page {
    kind: Kind,
    values: usize,
    encoding: i32,
    level_encoding: i32,
    text_bytes: usize,
    bytes: Vec<u8>,
}

impl Page {
    fn new(kind: Kind, values: usize, encoding: i32, bytes: Vec<u8>) -> Self {
        Self { kind, values, encoding, level_encoding: encoding::RLE, text_bytes: bytes.len(), bytes }
    }

    /// A dictionary of strings.
    fn dictionary(values: &[&str]) -> Self {
        Self::new(Kind::Dictionary, values.len(), encoding::PLAIN, plain(values))
    }

    /// Codes of a dictionary of up to 256 values, none NULL, in a column that may be NULL.
    fn codes(codes: &[u8]) -> Self {
        let mut bytes = levels(codes.len(), true);
        bytes.push(8);
        codes.iter().for_each(|&code| bytes.extend([2, code]));
        Self::new(Kind::Data, codes.len(), encoding::RLE_DICTIONARY, bytes)
    }

    /// Only NULLs, said to be codes.
    fn nulls(rows: usize) -> Self {
        Self::new(Kind::Data, rows, encoding::RLE_DICTIONARY, levels(rows, false))
    }

    /// Plain strings.
    fn plain(values: &[&str]) -> Self {
        let bytes = [levels(values.len(), true), plain(values)].concat();
        Self::new(Kind::Data, values.len(), encoding::PLAIN, bytes)
    }

    fn write(&self) -> Vec<u8> {
        // Thrift's compact protocol: each field is the distance to its number and its type, 5 for integers, 12 for
        // structures.
        let integer = |out: &mut Vec<u8>, distance: u8, value: usize| {
            out.push(distance << 4 | 5);
            let mut value = value << 1;
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
        };
        let (number, distance) = match self.kind {
            Kind::Data => (0, 2),
            Kind::Dictionary => (2, 4),
            _ => panic!("no such pages are made here"),
        };
        let mut out = Vec::new();
        integer(&mut out, 1, number);
        integer(&mut out, 1, self.text_bytes);
        integer(&mut out, 1, self.bytes.len());
        out.push(distance << 4 | 12);
        integer(&mut out, 1, self.values);
        integer(&mut out, 1, self.encoding as usize);
        if self.kind == Kind::Data {
            integer(&mut out, 1, self.level_encoding as usize);
            integer(&mut out, 1, encoding::RLE as usize);
        }
        out.extend([0, 0]);
        out.extend_from_slice(&self.bytes);
        out
    }
}

fn plain(values: &[&str]) -> Vec<u8> {
    values.iter().flat_map(|value| [&(value.len() as u32).to_le_bytes(), value.as_bytes()].concat()).collect()
}

/// Definition levels of rows that all have a value, or that have none.
fn levels(rows: usize, present: bool) -> Vec<u8> {
    assert!(rows < 64);
    vec![2, 0, 0, 0, (rows as u8) << 1, u8::from(present)]
}

#[allow(deprecated, reason = "old files have it")]
const BIT_PACKED_LEVELS: Encoding = Encoding::BIT_PACKED;

/// A file whose only column, `v`, has these pages.
fn file(ty: DataType, compression: Compression, pages: &[Page]) -> Vec<u8> {
    let rows = pages.iter().filter(|page| page.kind == Kind::Data).map(|page| page.values).sum::<usize>();
    let nulls = new_null_array(&ty, 1);
    let schema = Arc::new(Schema::new(vec![Field::new("v", ty, true)]));
    let batch = RecordBatch::try_new(schema, vec![nulls]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let metadata = writer.close().unwrap();
    let mut out = b"PAR1".to_vec();
    out.extend(pages.iter().flat_map(Page::write));
    let bytes = out.len() as i64 - 4;
    let chunk = metadata.row_group(0).column(0).clone().into_builder();
    let is_old = pages.iter().any(|page| page.level_encoding == BIT_PACKED);
    let old = is_old.then_some(BIT_PACKED_LEVELS);
    let chunk = chunk
        .set_encodings([Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY].into_iter().chain(old).collect())
        .clear_page_encoding_stats()
        .set_compression(compression)
        .set_num_values(rows as i64)
        .set_dictionary_page_offset(None)
        .set_data_page_offset(4)
        .set_total_compressed_size(bytes)
        .set_total_uncompressed_size(bytes)
        .clear_statistics()
        .build()
        .unwrap();
    let group = metadata.row_group(0).clone().into_builder();
    let group = group.set_num_rows(rows as i64).set_column_metadata(vec![chunk]).build().unwrap();
    let metadata =
        metadata.into_builder().set_row_groups(vec![group]).set_column_index(None).set_offset_index(None).build();
    ParquetMetaDataWriter::new(&mut out, &metadata).finish().unwrap();
    out
}

/// The strings of a file of one column, read in all ways.
fn strings(bytes: &[u8]) -> Result<Vec<Option<String>>> {
    let table = open_bytes("crafted.parquet", bytes.to_vec(), &Default::default())?;
    let request = ScanRequest { columns: vec![0], predicate: None };
    let read = |batch_rows, narrow| {
        let batch = try_read_all(&table, &request, &[], batch_rows, narrow)?;
        Ok(batch.column(0).as_string_view().iter().map(|value| value.map(str::to_owned)).collect::<Vec<_>>())
    };
    let first = read(1000, true)?;
    assert_eq!(first, read(1000, false)?);
    assert_eq!(first, read(3, true)?);
    Ok(first)
}

fn refusal(bytes: &[u8]) -> String {
    let error = strings(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::File, "{error}");
    assert!(error.message().contains("column 'v'"), "{error}");
    error.message().to_owned()
}

const LONG: &str = "a text of more than twelve bytes";

#[test]
fn hand_made_pages_are_read() {
    let pages = [Page::dictionary(&["a", LONG]), Page::codes(&[1, 0, 1]), Page::plain(&["plain"]), Page::nulls(2)];
    let read = strings(&file(DataType::Utf8, Compression::UNCOMPRESSED, &pages)).unwrap();
    let expected = [Some(LONG), Some("a"), Some(LONG), Some("plain"), None, None];
    assert_eq!(read, expected.map(|value| value.map(str::to_owned)));
}

/// Chunks with a dictionary where none may be: the rows before it and after it would meet in one array.
fn misplaced_dictionaries() -> [Vec<Page>; 3] {
    [
        vec![Page::dictionary(&["a", LONG]), Page::codes(&[1, 0]), Page::dictionary(&["b"]), Page::codes(&[0, 0])],
        vec![
            Page::plain(&[LONG, "b"]),
            Page::dictionary(&["another text of more than twelve bytes"]),
            Page::codes(&[0]),
        ],
        vec![Page::dictionary(&["a", LONG]), Page::dictionary(&["b"]), Page::codes(&[0])],
    ]
}

#[test]
fn a_dictionary_after_other_pages_is_refused() {
    for pages in misplaced_dictionaries() {
        let refusal = refusal(&file(DataType::Utf8, Compression::UNCOMPRESSED, &pages));
        assert!(refusal.contains("a dictionary comes after other pages"), "{refusal}");
    }
}

#[test]
fn a_reader_without_a_survey_refuses_it_too() {
    for pages in misplaced_dictionaries() {
        let rows = pages.iter().filter(|page| page.kind == Kind::Data).map(|page| page.values).sum();
        let bytes = Bytes::from(pages.iter().flat_map(Page::write).collect::<Vec<_>>());
        let chunk = ChunkBytes { dictionary: None, pages: bytes, ..ChunkBytes::default() };
        let meta = FileMeta { path: "crafted".into(), kind: FileKind::File, bytes: 0, modified: std::time::UNIX_EPOCH };
        let source = Arc::new(Source::local(meta, Arc::new(LocalDisk)));
        let pages = Pages::new(&chunk, Compression::UNCOMPRESSED, 0);
        let mut column = FlatRows::new(source, "it cannot be decoded".into(), pages, Views::new(true), true, 0);
        let error = column.read(rows).unwrap_err();
        assert!(error.message().contains("a dictionary comes after other pages"), "{error}");
    }
}

#[test]
fn rows_that_are_all_null_need_no_dictionary() {
    let read = strings(&file(DataType::Utf8, Compression::UNCOMPRESSED, &[Page::nulls(4), Page::nulls(3)])).unwrap();
    assert_eq!(read, vec![None; 7]);
    let refusal = refusal(&file(DataType::Utf8, Compression::UNCOMPRESSED, &[Page::nulls(4), Page::codes(&[0])]));
    assert!(refusal.contains("the dictionary has 0 values"), "{refusal}");
}

#[test]
fn levels_of_old_are_left_to_the_other_reader() {
    // Rows 0, 3, 4 and 7 have values; the same from either end, because writers disagreed about the order of bits.
    let bytes = [vec![0b1001_1001], plain(&["a", "b", "c", "d"])].concat();
    let page = Page { level_encoding: BIT_PACKED, ..Page::new(Kind::Data, 8, encoding::PLAIN, bytes) };
    let read = strings(&file(DataType::Utf8, Compression::UNCOMPRESSED, &[page])).unwrap();
    let expected = [Some("a"), None, None, Some("b"), Some("c"), None, None, Some("d")];
    assert_eq!(read, expected.map(|value| value.map(str::to_owned)));
}

#[test]
fn a_page_that_claims_to_be_too_long_is_refused_before_memory_is_taken() {
    let claim = |compression, text_bytes| {
        let page = Page { text_bytes, ..Page::plain(&[LONG; 60]) };
        let refusal = refusal(&file(DataType::Utf8, compression, &[page]));
        assert!(refusal.contains("claims to expand to"), "{refusal}");
    };
    // More than the compression can reach.
    claim(Compression::SNAPPY, 100_000);
    claim(Compression::LZ4_RAW, 1_000_000);
    // More than the footer says.
    claim(Compression::ZSTD(Default::default()), 70_000_000);
    claim(Compression::BROTLI(Default::default()), i32::MAX as usize);
}

#[test]
fn what_decoding_needs_is_known_before_it_begins() {
    let rows = 40_000;
    let text = StringArray::from_iter_values((0..rows).map(|row| format!("a text that is repeated {}", row % 1000)));
    let number = Int64Array::from_iter_values((0..rows).map(|row| row % 7));
    let columns: [(&str, ArrayRef); 2] = [("text", Arc::new(text)), ("number", Arc::new(number))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(usize::MAX)
        .set_compression(Compression::SNAPPY);
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let table = table_of("needs.parquet", bytes);
    let cluster = &table.scan(&ScanRequest::default()).unwrap().clusters[0];
    let needs = |columns: Vec<usize>| {
        let request = DecodeRequest { columns: columns.clone(), batch_rows: 100, ..Default::default() };
        cluster.decode(fetch(cluster, &columns), &request).unwrap().bytes()
    };
    assert_eq!(needs(vec![]), 0);
    // Pages have about a megabyte, or all of a smaller column.
    assert!((900_000..3_000_000).contains(&needs(vec![0])), "{}", needs(vec![0]));
    assert!((8 * rows as usize..400_000).contains(&needs(vec![1])), "{}", needs(vec![1]));
    assert_eq!(needs(vec![0, 1]), needs(vec![0]) + needs(vec![1]));
}

#[test]
fn a_decimal_with_more_digits_than_its_type_is_an_error() {
    // Sixteen bytes for each value, where eight would do.
    let read = |values: &[i128]| {
        let schema = "message m { required fixed_len_byte_array(16) v (DECIMAL(10, 2)); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values = values.iter().map(|value| FixedLenByteArray::from(value.to_be_bytes().to_vec()));
        let values = values.collect::<Vec<_>>();
        column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        try_read("decimals.parquet", bytes)
    };
    let sound = [1, -1, 9_999_999_999, -9_999_999_999];
    assert_eq!(read(&sound).unwrap().column(0).as_primitive::<Decimal128Type>().values(), &sound);
    for value in [1 << 64, i128::from(i64::MAX) + 1, -(1 << 70)] {
        let error = read(&[5, value]).unwrap_err();
        assert!(error.message().contains("more digits than its type"), "{error}");
    }
}
