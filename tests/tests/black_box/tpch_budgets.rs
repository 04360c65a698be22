//! The 22 TPC-H queries in little memory have the answers that they have in plenty.
//!
//! `DILIGENCE_TPCH_BUDGETS` says at which scales and in how many megabytes: `0.3:17`, in the least that there is;
//! `1:64,10:256` for a night.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use diligence_db::{Database, DatabaseOptions};
use diligence_tests::data::tpch;
use diligence_tpch::QUERIES;

fn database(folder: &Path, memory_bytes: Option<usize>) -> Database {
    let data = Some(folder.to_owned());
    // An answer that is kept for the next time would not be computed.
    let settings = vec![("sharing_retained".to_owned(), "0".to_owned())];
    let options = DatabaseOptions {
        data: data.into_iter().collect(),
        memory_bytes,
        settings,
        workers: Some(2),
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap()
}

/// Rows as text, in an order of their own: some queries leave it open.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> =
        pretty_format_batches(batches).unwrap().to_string().lines().map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn answers_do_not_depend_on_the_budget() {
    let wanted = std::env::var("DILIGENCE_TPCH_BUDGETS").unwrap_or_else(|_| "0.3:17".to_owned());
    for pair in wanted.split(',') {
        let (scale, megabytes) = pair.split_once(':').unwrap();
        let (scale, megabytes): (f64, usize) = (scale.parse().unwrap(), megabytes.parse().unwrap());
        let folder = tpch(Path::new(env!("CARGO_TARGET_TMPDIR")), scale).unwrap();
        let (plenty, little) = (database(&folder, None), database(&folder, Some(megabytes * 1_000_000)));
        let (plenty_session, session) = (plenty.session(), little.session());
        let mut spilled = Vec::new();
        for (number, sql) in (1..).zip(QUERIES) {
            let name = format!("query {number} at {pair}");
            let expected = plenty_session.execute(sql).unwrap().collect().unwrap();
            let mut result = session.execute(sql).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut batches = Vec::new();
            while let Some(batch) = result.next_blocking() {
                batches.push(batch.unwrap_or_else(|error| panic!("{name}: {error}")));
            }
            assert_eq!(rows(&batches), rows(&expected), "{name}");
            if result.profile().unwrap().to_string().contains(", spilled ") {
                spilled.push(number);
            }
        }
        println!("at {pair}: queries {spilled:?} went through temp space");
        assert!(!spilled.is_empty(), "all fits at {pair}: nothing was tested");
    }
}
