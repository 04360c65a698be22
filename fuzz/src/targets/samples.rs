//! Files of every type and encoding that matters, small; nearly all of them sound.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int8Array,
    Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};

fn flat(rows: i64) -> RecordBatch {
    let sometimes = |row: i64| (row % 5 != 3).then_some(row);
    let numbers: ArrayRef = Arc::new((0..rows).map(sometimes).collect::<Int64Array>());
    let small: ArrayRef = Arc::new((0..rows).map(|row| Some((row % 100) as i8)).collect::<Int8Array>());
    let floats: ArrayRef =
        Arc::new((0..rows).map(|row| sometimes(row).map(|row| row as f64 / 7.0)).collect::<Float64Array>());
    let flags: ArrayRef =
        Arc::new((0..rows).map(|row| sometimes(row).map(|row| row % 2 == 0)).collect::<BooleanArray>());
    let texts: ArrayRef = Arc::new(
        (0..rows).map(|row| sometimes(row).map(|row| format!("text number {}", row % 9))).collect::<StringArray>(),
    );
    let views: ArrayRef = Arc::new((0..rows).map(|row| Some(format!("é{row}"))).collect::<StringViewArray>());
    let words = ["red", "green", "blue"];
    let coded: ArrayRef =
        Arc::new((0..rows).map(|row| Some(words[(row % 3) as usize])).collect::<DictionaryArray<Int32Type>>());
    let days: ArrayRef =
        Arc::new((0..rows).map(|row| sometimes(row).map(|row| row as i32 * 100)).collect::<Date32Array>());
    let times: ArrayRef =
        Arc::new((0..rows).map(|row| Some(row * 1_000_000_007)).collect::<TimestampMicrosecondArray>());
    let bytes: ArrayRef = Arc::new((0..rows).map(|row| Some(row.to_be_bytes())).collect::<BinaryArray>());
    let money = (0..rows).map(|row| sometimes(row).map(i128::from)).collect::<Decimal128Array>();
    // 15 digits hold every value that is made here.
    let money: ArrayRef = Arc::new(money.with_precision_and_scale(15, 2).unwrap_or_else(|_| unreachable!()));
    batch(vec![
        ("numbers", numbers),
        ("small", small),
        ("floats", floats),
        ("flags", flags),
        ("texts", texts),
        ("views", views),
        ("coded", coded),
        ("days", days),
        ("times", times),
        ("bytes", bytes),
        ("money", money),
    ])
}

fn nested(rows: i32) -> RecordBatch {
    let lists = (0..rows).map(|row| (row % 4 != 1).then(|| (0..row % 3).map(Some).collect::<Vec<_>>()));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    let inner: ArrayRef = Arc::new((0..rows).map(|row| Some(i64::from(row))).collect::<Int64Array>());
    let structs: ArrayRef =
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("inner", DataType::Int64, true)), inner)]));
    batch(vec![("lists", lists), ("structs", structs)])
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    // The columns are made above with equal lengths.
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap_or_else(|error| panic!("a sample is wrong: {error}"))
}

fn must<T, E: std::fmt::Display>(made: Result<T, E>) -> T {
    made.unwrap_or_else(|error| panic!("a sample cannot be made: {error}"))
}

/// Parquet files of all encodings, with and without statistics, in several row groups and pages.
pub fn parquet() -> Vec<Vec<u8>> {
    let write = |batch: &RecordBatch, builder: WriterPropertiesBuilder| -> Result<Vec<u8>, ParquetError> {
        let properties =
            builder.set_max_row_group_row_count(Some(40)).set_data_page_row_count_limit(16).set_write_batch_size(8);
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build()))?;
        writer.write(batch)?;
        writer.close()?;
        Ok(bytes)
    };
    let plain = || WriterProperties::builder().set_dictionary_enabled(false).set_compression(Compression::UNCOMPRESSED);
    let properties = [
        WriterProperties::builder(),
        WriterProperties::builder().set_compression(Compression::SNAPPY).set_bloom_filter_enabled(true),
        WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::LZ4_RAW),
        plain().set_statistics_enabled(EnabledStatistics::None),
        plain().set_statistics_enabled(EnabledStatistics::Page),
        plain().set_column_encoding("numbers".into(), Encoding::DELTA_BINARY_PACKED),
        plain().set_column_encoding("texts".into(), Encoding::DELTA_BYTE_ARRAY),
        plain().set_column_encoding("texts".into(), Encoding::DELTA_LENGTH_BYTE_ARRAY),
        plain().set_column_encoding("floats".into(), Encoding::BYTE_STREAM_SPLIT),
    ];
    let mut files: Vec<_> = properties.into_iter().map(|properties| must(write(&flat(100), properties))).collect();
    files.push(must(write(&nested(60), WriterProperties::builder())));
    files.push(must(write(&flat(0), WriterProperties::builder())));
    files.extend([plain(), WriterProperties::builder()].map(|last| must(two_dictionaries(last))));
    files
}

/// A damaged file, which changes of bytes would hardly ever come to: one chunk with the pages of two, so that a
/// dictionary comes after other pages. Those are written with these properties.
fn two_dictionaries(before: WriterPropertiesBuilder) -> Result<Vec<u8>, ParquetError> {
    let write = |rows: std::ops::Range<i64>, properties: WriterPropertiesBuilder| {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("text number {row}"))));
        let batch = batch(vec![("texts", texts)]);
        let properties = properties.set_compression(Compression::UNCOMPRESSED).set_offset_index_disabled(true);
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build()))?;
        writer.write(&batch)?;
        let metadata = writer.close()?;
        Ok::<_, ParquetError>((bytes, metadata))
    };
    let files = [write(0..30, before)?, write(50..60, WriterProperties::builder())?];
    let (mut bytes, mut rows) = (b"PAR1".to_vec(), 0);
    for (file, metadata) in &files {
        let (start, length) = metadata.row_group(0).column(0).byte_range();
        bytes.extend_from_slice(&file[start as usize..(start + length) as usize]);
        rows += metadata.row_group(0).num_rows();
    }
    let [(_, metadata), _] = files;
    let length = bytes.len() as i64 - 4;
    let chunk = metadata.row_group(0).column(0).clone().into_builder();
    let chunk = chunk
        .set_num_values(rows)
        .set_total_compressed_size(length)
        .set_total_uncompressed_size(length)
        .clear_statistics()
        .build()?;
    let group = metadata.row_group(0).clone().into_builder();
    let group = group.set_num_rows(rows).set_column_metadata(vec![chunk]).build()?;
    let metadata =
        metadata.into_builder().set_row_groups(vec![group]).set_column_index(None).set_offset_index(None).build();
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish()?;
    Ok(bytes)
}

/// Arrow files and streams, compressed and not.
pub fn arrow() -> Vec<Vec<u8>> {
    fn batches(schema: &SchemaRef, batch: &RecordBatch) -> Vec<RecordBatch> {
        debug_assert_eq!(schema, &batch.schema());
        vec![batch.slice(0, batch.num_rows() / 2), batch.slice(batch.num_rows() / 2, batch.num_rows().div_ceil(2))]
    }
    let file = |batch: &RecordBatch, options: IpcWriteOptions| -> Result<Vec<u8>, ArrowError> {
        let schema = batch.schema();
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options)?;
        for batch in batches(&schema, batch) {
            writer.write(&batch)?;
        }
        writer.into_inner()
    };
    let stream = |batch: &RecordBatch| -> Result<Vec<u8>, ArrowError> {
        let schema = batch.schema();
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        for batch in batches(&schema, batch) {
            writer.write(&batch)?;
        }
        writer.into_inner()
    };
    let mut files = Vec::new();
    for sample in [flat(60), nested(40), flat(0)] {
        files.push(must(file(&sample, IpcWriteOptions::default())));
        files.push(must(stream(&sample)));
        for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
            // Builds without these codecs have one sample less.
            let options = IpcWriteOptions::default().try_with_compression(Some(compression));
            files.extend(options.and_then(|options| file(&sample, options)).ok());
        }
    }
    files
}

/// Comma-separated values and their relatives.
pub fn csv() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 8] = [
        b"id,name,price,day,at,flag\n1,red,1.50,2024-01-02,2024-01-02T03:04:05,true\n2,,,,,\n3,\"a,\"\"b\"\"\",-0.5,1999-12-31,2000-01-01 00:00:00,false\n",
        b"a;b;c\r\n1;2;3\r\n4;5;6\r\n",
        b"a\tb\n1\t2\n\n3\t4",
        b"\xef\xbb\xbfa,b\n\"line\nbreak\",\"\"\n",
        b"x\n9223372036854775807\n-9223372036854775808\n1e308\nNaN\n",
        b"1,2,3\n4,5,6\n",
        b"a,a,b\n1,2,3\n",
        b"a|b\n1|x\n2|y\n",
    ];
    let mut files: Vec<_> = texts.iter().map(|text| text.to_vec()).collect();
    let many: Vec<String> = (0..500).map(|row| format!("{row},{},\"text {row}\"", row as f64 / 3.0)).collect();
    files.push(format!("id,ratio,text\n{}\n", many.join("\n")).into_bytes());
    files
}

/// JSON lines and arrays.
pub fn json() -> Vec<Vec<u8>> {
    let texts: [&str; 7] = [
        "{\"id\": 1, \"name\": \"red\", \"tags\": [1, 2, null], \"inner\": {\"x\": 1.5}}\n{\"id\": null, \"name\": \"\\u00e9\\n\"}\n",
        "[{\"a\": 1}, {\"a\": 2.5, \"b\": true}, {\"b\": false}]",
        "{\"a\": [[1], [], [2, 3]]}\n{\"a\": null}\n",
        "{\"a\": 9223372036854775807}\n{\"a\": -1e300}\n{\"a\": 18446744073709551616}\n",
        "{}\n{}\n",
        "  [ ]  ",
        "{\"a\": \"2024-01-02\", \"b\": \"2024-01-02T03:04:05Z\"}\n",
    ];
    let mut files: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let many: Vec<String> =
        (0..300).map(|row| format!("{{\"id\": {row}, \"list\": [{row}, {{\"deep\": \"text {row}\"}}]}}")).collect();
    files.push(many.join("\n").into_bytes());
    files
}

#[cfg(test)]
mod tests {
    use super::super::files::FileTarget;
    use super::super::{Target, TargetKind};
    use super::*;

    /// Sound files must be read: otherwise the fuzzer would only ever see refusals.
    #[test]
    fn every_sample_is_read() {
        for kind in [TargetKind::Parquet, TargetKind::Csv, TargetKind::Json, TargetKind::Arrow] {
            let mut target = kind.start().unwrap();
            for sample in kind.corpus() {
                target.run(sample).unwrap();
            }
            println!("{}: {}", kind.name(), target.summary());
        }
        assert!(parquet().len() > 9 && arrow().len() > 5 && csv().len() > 7 && json().len() > 6);
    }
    #[test]
    fn only_two_dictionaries_are_refused() {
        let mut target = FileTarget::new("fuzz.parquet");
        for sample in parquet() {
            target.run(&sample).unwrap();
        }
        assert_eq!(target.summary(), "11 read to the end, 2 refused");
    }
}
