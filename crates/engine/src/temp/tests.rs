//! Rows come back as they were, in every type, cut anywhere.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Builder};
use arrow::array::{
    ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float64Array, Int8Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, LargeBinaryArray,
    LargeStringArray, ListArray, MapBuilder, NullArray, RunArray, StringArray, StringBuilder, StringViewArray,
    StructArray, TimestampMicrosecondArray, UInt16Array, UInt32Array, UnionArray,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::{
    DataType, Decimal64Type, Field, Fields, Int32Type, IntervalMonthDayNano, UInt16Type, UnionFields,
};
use diligence_base::Result;
use diligence_base::ids::QueryId;
use diligence_base::seams::Random;
use diligence_disk::{Compression, Grouping, MemoryTempFiles, SpillMemory, TempOptions, TempSpace, block_on};
use diligence_memory::{Broker, QueryMemory};

use super::block::{Header, Plan, columns_of};
use super::sizes::Sizes;
use super::*;
use crate::batch::{Batch, Column};

const ROWS: usize = 300;

fn nulls(random: &mut Random, rows: usize) -> Option<NullBuffer> {
    (random.below(3) > 0).then(|| NullBuffer::from_iter((0..rows).map(|_| random.below(4) > 0)))
}

fn text(random: &mut Random) -> String {
    let length = [0, 3, 12, 13, 40][random.below(5)];
    (0..length).map(|_| ['a', 'b', 'ß', '漢'][random.below(4)]).collect()
}

/// Columns of all kinds.
fn columns(random: &mut Random) -> Vec<ArrayRef> {
    let rows = ROWS;
    let texts: Vec<Option<String>> = (0..rows).map(|_| (random.below(5) > 0).then(|| text(random))).collect();
    let numbers: Vec<Option<i64>> =
        (0..rows).map(|_| (random.below(7) > 0).then(|| random.below(1 << 40) as i64 - (1 << 39))).collect();
    let small: Vec<i32> = (0..rows).map(|_| random.below(20) as i32).collect();
    let words: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..20).map(|word| format!("word number {word}"))));
    let int64: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
    let decimals = int64.as_primitive::<arrow::datatypes::Int64Type>().reinterpret_cast::<Decimal64Type>();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        small.iter().map(|&n| (n != 7).then(|| (0..n % 4).map(Some).collect::<Vec<_>>())),
    );
    let strings: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let fields = Fields::from(vec![
        Field::new("list", list.data_type().clone(), true).with_metadata([("key".into(), "value".into())].into()),
        Field::new("text", DataType::Utf8View, true),
    ]);
    let views: ArrayRef = Arc::new(StringViewArray::from(texts.clone()));
    let structs =
        StructArray::new(fields, vec![Arc::new(list.clone()) as ArrayRef, views.clone()], nulls(random, rows));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for &n in &small {
        for key in 0..n % 3 {
            map.keys().append_value(format!("{key}"));
            map.values().append_option((key > 0).then_some(i64::from(n)));
        }
        map.append(n != 5).unwrap();
    }
    let keyed = |values: &ArrayRef| -> ArrayRef {
        let keys = UInt16Array::new(small.iter().map(|n| *n as u16).collect(), nulls(&mut Random::new(5), rows));
        Arc::new(DictionaryArray::<UInt16Type>::new(keys, values.clone()))
    };
    let nested_dictionary =
        StructArray::from(vec![(Arc::new(Field::new("d", keyed(&words).data_type().clone(), true)), keyed(&words))]);
    let child = Arc::new(Field::new("item", DataType::Int32, true));
    let triples = Int32Array::from_iter((0..3 * rows).map(|n| (n % 5 > 0).then_some(n as i32)));
    let union_fields = UnionFields::try_new(
        [0, 1],
        [Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8View, true)],
    )
    .unwrap();
    let type_ids: ScalarBuffer<i8> = small.iter().map(|n| (n % 2) as i8).collect();
    let children = vec![Arc::new(Int32Array::from(small.clone())) as ArrayRef, views.clone()];
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![100, rows as i32]), &words.slice(0, 2)).unwrap();
    let bytes: Vec<Option<&[u8]>> = texts.iter().map(|text| text.as_ref().map(|text| text.as_bytes())).collect();
    vec![
        int64.clone(),
        Arc::new(decimals.with_precision_and_scale(18, 4).unwrap()),
        Arc::new(Decimal128Array::from(numbers.iter().map(|n| n.map(|n| i128::from(n) << 60)).collect::<Vec<_>>())),
        Arc::new(Int8Array::new(small.iter().map(|n| *n as i8).collect(), nulls(random, rows))),
        Arc::new(Float64Array::from_iter(numbers.iter().map(|n| n.map(|n| if n % 9 == 0 { f64::NAN } else { -0.0 })))),
        Arc::new(TimestampMicrosecondArray::from(numbers.clone()).with_timezone("Europe/Berlin")),
        Arc::new(IntervalMonthDayNanoArray::from_iter_values(
            small.iter().map(|n| IntervalMonthDayNano::new(*n, 1, -7)),
        )),
        Arc::new(BooleanArray::new(small.iter().map(|n| n % 3 == 0).collect(), nulls(random, rows))),
        strings,
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(BinaryArray::from(bytes.clone())),
        Arc::new(LargeBinaryArray::from(bytes.clone())),
        Arc::new(BinaryViewArray::from(bytes)),
        views,
        Arc::new(FixedSizeBinaryArray::try_from_iter(small.iter().map(|n| [*n as u8, 1, 2])).unwrap()),
        Arc::new(NullArray::new(rows)),
        keyed(&words),
        keyed(&int64),
        cast(&keyed(&words), &DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into())).unwrap(),
        Arc::new(list),
        Arc::new(structs),
        Arc::new(map.finish()),
        Arc::new(nested_dictionary),
        Arc::new(FixedSizeListArray::new(child, 3, Arc::new(triples), nulls(random, rows))),
        Arc::new(UnionArray::try_new(union_fields, type_ids, None, children).unwrap()),
        Arc::new(runs),
    ]
}

fn space(cluster_bytes: usize, compression: Compression, threads: usize) -> TempSpace {
    TempSpace::open(&TempOptions {
        directories: vec![PathBuf::from("/a")],
        cluster_bytes,
        compression,
        threads,
        files: Arc::new(MemoryTempFiles::default()),
        ..TempOptions::default()
    })
    .unwrap()
}

fn write(writer: &mut BatchWriter, batch: &Batch) -> Result<()> {
    block_on(|waker| writer.poll_write(batch, waker))
}

fn read(reader: &mut BatchReader) -> Vec<Batch> {
    std::iter::from_fn(|| block_on(|waker| reader.poll_next(waker))).map(Result::unwrap).collect()
}

/// One column of several batches; a dictionary as its values, because it keeps only those that it needs.
fn joined(batches: &[Batch], column: usize) -> ArrayRef {
    let arrays: Vec<_> = batches
        .iter()
        .map(|batch| {
            let array = batch.flat(column).unwrap();
            match array.data_type() {
                DataType::Dictionary(_, values) => cast(&array, values).unwrap(),
                _ => array,
            }
        })
        .collect();
    concat(&arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>()).unwrap()
}

#[test]
fn every_type_comes_back_from_clusters_of_any_size() {
    for (cluster, compression) in
        [(4096, Compression::None), (4096, Compression::Lz4), (65536, Compression::None), (1 << 20, Compression::Lz4)]
    {
        let space = space(cluster, compression, 0);
        let memory = QueryMemory::unbounded();
        let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), SpillMemory::default()).unwrap();
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let whole = Batch::from_arrays(columns(&mut random), ROWS);
            let make = if seed % 4 < 2 { BatchWriter::new } else { BatchWriter::packed };
            let mut writer = make(&buffers, Grouping::None);
            let mut written = Vec::new();
            for _ in 0..5 {
                let from = random.below(ROWS);
                let slice = whole.slice(from, 1 + random.below(ROWS - from));
                let picks = UInt32Array::from_iter_values((0..1 + random.below(50)).map(|_| random.below(ROWS) as u32));
                let picked = whole.project(&(0..25).collect::<Vec<_>>()).pick(&picks).unwrap();
                let batch = if random.below(2) == 0 { slice } else { picked };
                written.push(batch);
            }
            // One file has batches of the same columns.
            written.retain(|batch| batch.columns().len() == written_columns(seed));
            for batch in &written {
                write(&mut writer, batch).unwrap();
            }
            let file = writer.finish();
            let rows: usize = written.iter().map(Batch::rows).sum();
            assert_eq!(file.rows(), rows as u64);
            let back = read(&mut file.into_reader(&buffers));
            assert_eq!(back.iter().map(Batch::rows).sum::<usize>(), rows, "seed {seed}");
            if rows == 0 {
                continue;
            }
            for column in 0..written[0].columns().len() {
                let data_type = whole.column(column).data_type();
                assert!(back.iter().all(|batch| batch.column(column).data_type() == data_type), "{data_type}");
                assert_eq!(&joined(&back, column), &joined(&written, column), "seed {seed}, {data_type}");
            }
        }
        drop(buffers);
        assert_eq!((memory.reserved_bytes(), space.info().directories[0].clusters_used), (0, 0));
    }
}

/// Runs cannot be picked: with an odd seed a file has batches without them, which may be picked.
fn written_columns(seed: u64) -> usize {
    if seed.is_multiple_of(2) { 26 } else { 25 }
}

#[test]
fn a_block_needs_no_more_than_was_measured() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        // Nested columns are measured about.
        let columns = columns(&mut random)[..19].to_vec();
        let is_packed = seed % 2 == 0;
        let sizes = Sizes::new(&columns, ROWS, is_packed);
        for _ in 0..10 {
            let from = random.below(ROWS);
            let rows = 1 + random.below(ROWS - from);
            let slices = columns.iter().map(|column| column.slice(from, rows)).collect::<Vec<_>>();
            let plan = Plan::new(&slices, is_packed).unwrap();
            let header = Header { bytes: plan.bytes(), raw_bytes: 0, rows, form: 0 };
            assert!(header.block_bytes() <= sizes.bytes(from, rows).next_multiple_of(16), "seed {seed}");
            let fitting = sizes.fitting(from, header.block_bytes());
            assert!(fitting <= rows && sizes.bytes(from, fitting + 1) > header.block_bytes(), "seed {seed}");
        }
    }
}

#[test]
fn a_block_that_was_cut_off_is_an_error() {
    let columns = columns(&mut Random::new(1));
    let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
    let space = space(4096, Compression::None, 0);
    let memory = QueryMemory::unbounded();
    let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), SpillMemory::default()).unwrap();
    for is_packed in [false, true] {
        let plan = Plan::new(&columns, is_packed).unwrap();
        let mut room = vec![0; plan.bytes()];
        plan.write(&mut room);
        let block = arrow::buffer::Buffer::from(room);
        let read = |bytes| columns_of(&block.slice_with_length(0, bytes), ROWS, &types, is_packed, &buffers);
        assert_eq!(read(block.len()).unwrap(), columns);
        for bytes in [0, 3, 100, block.len() / 2, block.len() - 4096] {
            assert!(read(bytes).is_err());
        }
    }
    assert_eq!(memory.reserved_bytes(), 0);
}

#[test]
fn what_is_packed_has_few_bytes_and_comes_back() {
    let space = space(1 << 16, Compression::None, 0);
    let memory = QueryMemory::unbounded();
    let buffers = SpillBuffers::new(&space, memory.reservation("HashJoin"), SpillMemory::default()).unwrap();
    let spans = [0, 1, 0xFF, 0x100, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000, u64::MAX];
    let numbers = |span: u64| -> ArrayRef {
        let least = if span > i64::MAX as u64 { i64::MIN } else { -7 };
        Arc::new(Int64Array::from_iter_values(
            (0..9).map(|row| least.wrapping_add((span / 8 * row).max(span * (row / 8)) as i64)),
        ))
    };
    let small = |least: i32, greatest: i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values((0..9).map(|row| if row % 2 == 0 { least } else { greatest })))
    };
    let texts = |length: usize| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..9).map(|row| "abcdefghi"[..row].repeat(length / 8))))
    };
    let columns = spans.map(numbers).into_iter();
    let columns = columns.chain([small(3, 3), small(-9, 100), small(i32::MIN, i32::MAX), small(0, 70_000)]);
    let columns = columns.chain([0, 8, 16, 248, 256, 65_528, 65_536].map(texts)).collect::<Vec<_>>();
    for column in columns {
        let plan = Plan::new(std::slice::from_ref(&column), true).unwrap();
        let mut room = vec![0; plan.bytes()];
        plan.write(&mut room);
        let types = [column.data_type().clone()];
        let back = columns_of(&arrow::buffer::Buffer::from(room), 9, &types, true, &buffers).unwrap();
        let unpacked = Plan::new(std::slice::from_ref(&column), false).unwrap().bytes();
        assert!(plan.bytes() <= unpacked + 16 && (unpacked..2 * unpacked + 64).contains(&(plan.unpacked_bytes() + 16)));
        assert_eq!(back, [column]);
    }
    let bytes = |column: ArrayRef| Plan::new(&[column], true).unwrap().bytes();
    assert_eq!(spans.map(|span| bytes(numbers(span))), [16, 32, 32, 48, 48, 64, 64, 96, 96]);
    // Lengths of 1 byte, and 36 characters in all for each 8 of the longest.
    assert_eq!(
        [0, 8, 16, 256].map(|length| bytes(texts(length))),
        [16, 64, 112, 16 + (18 + 36 * 32_usize).next_multiple_of(16)]
    );
}

#[test]
fn arrays_lie_in_the_clusters_that_were_read() {
    let space = space(1 << 16, Compression::None, 0);
    let memory = QueryMemory::unbounded();
    let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), SpillMemory::default()).unwrap();
    let mut writer = BatchWriter::new(&buffers, Grouping::None);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    write(&mut writer, &Batch::from_arrays(vec![numbers.clone()], 1000)).unwrap();
    let mut reader = writer.finish().into_reader(&buffers);
    let batch = block_on(|waker| reader.poll_next(waker)).unwrap().unwrap();
    assert_eq!(&batch.flat(0).unwrap(), &numbers);
    drop(reader);
    buffers.release_spare();
    assert_eq!((buffers.clusters(), memory.reserved_bytes()), (1, 1 << 16), "the array holds its cluster");
    drop(batch);
    buffers.release_spare();
    assert_eq!((buffers.clusters(), memory.reserved_bytes()), (0, 0));
}

#[test]
fn rows_and_dictionaries_longer_than_a_cluster_are_put_together_again() {
    for compression in [Compression::None, Compression::Lz4] {
        let space = space(4096, compression, 0);
        let memory = QueryMemory::unbounded();
        let buffers = SpillBuffers::new(&space, memory.reservation("Sort"), SpillMemory::default()).unwrap();
        let long = |row: usize| format!("{row:0width$}", width = [10, 3000, 5000, 30_000][row % 4]);
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..40).map(long)));
        let keys = Int32Array::from_iter_values((0..40).map(|row| row / 2));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, texts.clone()));
        let batch = Batch::from_arrays(vec![texts, dictionary], 40);
        let mut writer = BatchWriter::new(&buffers, Grouping::None);
        (0..3).for_each(|_| write(&mut writer, &batch).unwrap());
        assert_eq!((writer.rows(), writer.bytes() > 3 * 380_000), (120, true));
        let file = writer.finish();
        let back = read(&mut file.reader(&buffers, ReadOptions::default()));
        for column in 0..2 {
            let written = [batch.clone(), batch.clone(), batch.clone()];
            assert_eq!(&joined(&back, column), &joined(&written, column));
        }
        let mut reader = file.reader(&buffers, ReadOptions::default());
        for row in [119, 0, 41, 80, 79] {
            reader.seek(row);
            let batch_read = block_on(|waker| reader.poll_next(waker)).unwrap().unwrap();
            assert_eq!(batch_read.flat(0).unwrap().as_string_view().value(0), long(row as usize % 40));
        }
    }
}

#[test]
fn a_reader_goes_to_any_row() {
    let space = space(4096, Compression::None, 0);
    let buffers =
        SpillBuffers::new(&space, QueryMemory::unbounded().reservation("Window"), SpillMemory::default()).unwrap();
    let mut writer = BatchWriter::new(&buffers, Grouping::None);
    for first in (0..5000).step_by(500) {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 500));
        write(&mut writer, &Batch::from_arrays(vec![numbers], 500)).unwrap();
    }
    let file = writer.finish();
    assert_eq!((file.rows(), file.starts()[0]), (5000, (0, 0)));
    assert!(file.starts().len() == file.file().clusters() && file.starts().is_sorted());
    let mut reader = file.reader(&buffers, ReadOptions::default());
    let mut random = Random::new(3);
    for _ in 0..100 {
        let row = random.below(5001);
        reader.seek(row as u64);
        match block_on(|waker| reader.poll_next(waker)) {
            None => assert_eq!(row, 5000),
            Some(batch) => {
                let batch = batch.unwrap();
                let first = batch.flat(0).unwrap().as_primitive::<arrow::datatypes::Int64Type>().value(0);
                assert_eq!(first, row as i64);
            }
        }
    }
}

#[test]
fn writers_wait_for_memory_that_they_get_back() {
    const CLUSTER: usize = 8192;
    let space = space(CLUSTER, Compression::Lz4, 2);
    let broker = Broker::new(8 * CLUSTER);
    let memory = broker.account(QueryId(1), None);
    // One per writer, one for compressing, one on its way.
    let bounds = SpillMemory { clusters_min: 5, clusters_max: 5, writes_max: 1 };
    let buffers = SpillBuffers::new(&space, memory.reservation("HashJoin"), bounds).unwrap();
    let mut random = Random::new(9);
    let batch = |random: &mut Random, partition: i64| {
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..200).map(|_| text(random))));
        let own: ArrayRef = Arc::new(Int64Array::from(vec![partition; 200]));
        Batch::new(vec![Column::flat_array(own), Column::flat_array(texts)], 200)
    };
    let mut writers: Vec<_> = (0..3).map(|_| BatchWriter::new(&buffers, Grouping::None)).collect();
    let mut written = vec![Vec::new(); 3];
    for _ in 0..30 {
        for (partition, writer) in writers.iter_mut().enumerate() {
            let batch = batch(&mut random, partition as i64);
            write(writer, &batch).unwrap();
            written[partition].push(batch);
        }
    }
    assert!(memory.peak_bytes() <= 5 * CLUSTER);
    let files: Vec<_> = writers.into_iter().map(BatchWriter::finish).collect();
    for (file, written) in files.into_iter().zip(&written) {
        let mut reader = file.into_reader(&buffers);
        let (mut rows, expected) = (0, [joined(written, 0), joined(written, 1)]);
        while let Some(batch) = block_on(|waker| reader.poll_next(waker)) {
            let batch = batch.unwrap();
            for (column, expected) in expected.iter().enumerate() {
                assert_eq!(&batch.flat(column).unwrap(), &expected.slice(rows, batch.rows()));
            }
            rows += batch.rows();
        }
        assert_eq!(rows, 30 * 200);
    }
}

#[test]
fn small_blocks_are_read_as_larger_batches() {
    for (compression, seed) in [(Compression::None, 11), (Compression::Lz4, 12)] {
        let random = &mut Random::new(seed);
        let space = space(16 * 1024, compression, 0);
        let memory = QueryMemory::unbounded();
        let buffers = SpillBuffers::new(&space, memory.reservation("HashJoin"), SpillMemory::default()).unwrap();
        let mut writer = BatchWriter::packed(&buffers, Grouping::None);
        let mut written = vec![];
        // Pieces of a few rows, and now and then a whole batch.
        let columns = columns(random).into_iter().take(9).collect::<Vec<_>>();
        for piece in 0..400 {
            let rows = if piece % 100 == 99 { ROWS } else { 1 + random.below(7) };
            let first = random.below(ROWS - rows + 1);
            let columns = columns.iter().map(|column| column.slice(first, rows)).collect();
            written.push(Batch::from_arrays(columns, rows));
            write(&mut writer, written.last().unwrap()).unwrap();
            if piece == 150 {
                writer.close_cluster();
            }
        }
        let file = writer.finish();
        let blocks = read(&mut file.reader(&buffers, ReadOptions::default())).len();
        let mut reader = GatheringReader::new(file.reader(&buffers, ReadOptions::default()));
        let back: Vec<Batch> =
            std::iter::from_fn(|| block_on(|waker| reader.poll_next(waker))).map(Result::unwrap).collect();
        assert!(blocks >= 400 && back.len() < 40, "{} batches of {blocks} blocks", back.len());
        for column in 0..columns.len() {
            assert_eq!(&joined(&back, column), &joined(&written, column));
        }
        // What was put together keeps no cluster.
        let bytes = back.iter().map(Batch::bytes).sum::<usize>();
        drop(reader);
        buffers.release_spare();
        let large = back.iter().filter(|batch| batch.rows() == ROWS).count();
        assert!(buffers.clusters() <= large + 1, "{} clusters for {bytes} bytes", buffers.clusters());
    }
}

#[test]
fn columns_of_all_kinds_are_put_together() {
    let random = &mut Random::new(7);
    let space = space(1 << 20, Compression::None, 0);
    let memory = QueryMemory::unbounded();
    let buffers = SpillBuffers::new(&space, memory.reservation("HashJoin"), SpillMemory::default()).unwrap();
    let mut writer = BatchWriter::new(&buffers, Grouping::None);
    let columns = columns(random);
    let mut written = vec![];
    for first in (0..ROWS).step_by(10) {
        let columns = columns.iter().map(|column| column.slice(first, 10)).collect();
        written.push(Batch::from_arrays(columns, 10));
        write(&mut writer, written.last().unwrap()).unwrap();
    }
    let mut reader = GatheringReader::new(writer.finish().into_reader(&buffers));
    let back: Vec<Batch> =
        std::iter::from_fn(|| block_on(|waker| reader.poll_next(waker))).map(Result::unwrap).collect();
    assert!(back.len() < 20, "{} batches of {} blocks", back.len(), written.len());
    for column in 0..columns.len() {
        assert_eq!(&joined(&back, column), &joined(&written, column));
    }
}
