//! The files that the generator writes, read back.

use std::fs::File;

use arrow::compute::concat_batches;
use diligence_base::ErrorKind;
use diligence_tpch::{Options, Outcome, TpchTable, generate};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn options(scale_factor: f64) -> Options {
    Options { tables: vec![TpchTable::Region, TpchTable::Supplier, TpchTable::Orders], ..Options::new(scale_factor) }
}

#[test]
fn files_hold_the_rows_in_order_and_are_the_same_for_any_number_of_threads() {
    let (one, three) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut tables = options(0.2);
    tables.threads = 1;
    let files = generate(&tables, one.path(), |_| {}).unwrap();
    tables.threads = 3;
    let mut last = 0;
    generate(&tables, three.path(), |progress| last = progress.rows_done).unwrap();
    assert_eq!(last, 300_000);
    for file in &files {
        let other = three.path().join(file.path.file_name().unwrap());
        assert!(std::fs::read(&file.path).unwrap() == std::fs::read(other).unwrap(), "{:?}", file.path);
    }
    assert_eq!(std::fs::read_dir(one.path()).unwrap().count(), 3, "no unfinished file is left");

    let orders = File::open(&files[2].path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(orders).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 3);
    assert!(reader.metadata().row_group(0).column(4).statistics().is_some());
    let read = reader.build().unwrap().map(|batch| batch.unwrap()).collect::<Vec<_>>();
    let wanted = TpchTable::Orders.batches(0.2, 1, 1).map(|batch| batch.unwrap()).collect::<Vec<_>>();
    let schema = wanted[0].schema();
    let read = concat_batches(&schema, &read).unwrap();
    assert_eq!(read, concat_batches(&schema, &wanted).unwrap());
}

#[test]
fn a_file_that_exists_is_kept_only_if_it_is_the_same_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables = options(0.01);
    generate(&tables, folder.path(), |_| {}).unwrap();
    let again = generate(&tables, folder.path(), |_| {}).unwrap();
    assert!(again.iter().all(|file| file.outcome == Outcome::Kept));

    let error = generate(&options(0.02), folder.path(), |_| {}).unwrap_err();
    assert!(error.message().contains("holds TPC-H data of scale factor 0.01"), "{error}");
    tables.force = true;
    let forced = generate(&tables, folder.path(), |_| {}).unwrap();
    assert!(matches!(forced[0].outcome, Outcome::Written { rows: 5, .. }));

    std::fs::write(folder.path().join("region.parquet"), "not parquet").unwrap();
    let error = generate(&options(0.01), folder.path(), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn senseless_scale_factors_and_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for scale_factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = generate(&options(scale_factor), folder.path(), |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{scale_factor}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = generate(&options(0.01), &file.join("folder"), |_| {}).unwrap_err();
    assert!(error.message().contains("file/folder"), "{error}");
}

#[test]
fn the_estimate_is_the_number_of_rows() {
    for table in TpchTable::ALL {
        let rows: usize = table.batches(0.01, 1, 1).map(|batch| batch.unwrap().num_rows()).sum();
        let estimate = table.rows_estimate(0.01);
        assert!(rows.abs_diff(estimate) * 200 <= estimate, "{}: {rows} rows, {estimate} expected", table.name());
    }
}

#[test]
fn parts_put_together_are_the_table() {
    for table in [TpchTable::Supplier, TpchTable::PartSupp, TpchTable::LineItem] {
        let all = |parts: i32| {
            let readers = (1..=parts).flat_map(|part| table.batches(0.01, part, parts));
            let batches = readers.map(|batch| batch.unwrap()).collect::<Vec<_>>();
            concat_batches(&batches[0].schema(), &batches).unwrap()
        };
        assert_eq!(all(1), all(7), "{}", table.name());
    }
}
