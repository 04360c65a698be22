//! Questions about a table like a web log, with row groups of half a million rows, have in little memory the answers
//! that they have in plenty. No scan can hold such row groups there.
//!
//! `DILIGENCE_WEB_LOG_BUDGETS` says for how many million rows and in how many megabytes: `1:32`; `5:32,5:64` for a
//! night. Below 64 MB, questions for whole rows are left out: a page of a megabyte for each of 23 columns is too much.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use diligence_db::{Database, DatabaseOptions};
use diligence_weblog::{Layout, QUERIES, TABLE, WebLog, write};

/// The file, made once.
fn log(rows: u64) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("web-log-{rows}"));
    let file = folder.join(format!("{TABLE}.parquet"));
    if !file.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        write(&WebLog::new(1), Layout::new(rows), &file).unwrap();
    }
    folder
}

fn database(folder: &Path, memory_bytes: Option<usize>) -> Database {
    // An answer that is kept for the next time would not be computed.
    let settings = vec![("sharing_retained".to_owned(), "0".to_owned())];
    let data = Some(folder.to_owned());
    let options = DatabaseOptions {
        data: data.into_iter().collect(),
        memory_bytes,
        settings,
        workers: Some(2),
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap()
}

/// The least memory in which whole rows are asked for.
const WHOLE_ROWS_BYTES: usize = 64_000_000;

fn rows(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

#[test]
fn a_web_log_is_read_in_little_memory() {
    let wanted = std::env::var("DILIGENCE_WEB_LOG_BUDGETS").unwrap_or_else(|_| "1:32".to_owned());
    for pair in wanted.split(',') {
        let (millions, megabytes) = pair.split_once(':').unwrap();
        let folder = log(millions.parse::<u64>().unwrap() * 1_000_000);
        let memory_bytes = megabytes.parse::<usize>().unwrap() * 1_000_000;
        let (plenty, little) = (database(&folder, None), database(&folder, Some(memory_bytes)));
        let (plenty, little) = (plenty.session(), little.session());
        let has_room = |sql: &str| memory_bytes >= WHOLE_ROWS_BYTES || !sql.starts_with("SELECT *");
        for (number, sql) in (1..).zip(QUERIES).filter(|(_, sql)| has_room(sql)) {
            let answer = |session: &diligence_db::Session| session.execute(sql).and_then(|answer| answer.collect());
            let expected = answer(&plenty).unwrap();
            let got = answer(&little).unwrap_or_else(|error| panic!("question {number} at {pair}: {error}\n{sql}"));
            assert_eq!(rows(&got), rows(&expected), "question {number} at {pair}: {sql}");
        }
    }
}
