//! ORDER BY … LIMIT over many clusters: the same rows as all rows in order have at their beginning, and of clusters
//! that cannot have one of them nothing is read.

use arrow::array::{AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_db::{Database, DatabaseOptions, Session};

/// Rows that arrive in the order of time, some of whose values are NULL.
const ROWS: &str = "SELECT n AS at, CASE WHEN n % 50 < 3 THEN NULL ELSE (n * 7919) % 100003 END AS mixed,
    n % 5 AS few, 'text ' || (n * 31) % 997 AS name, (n / 4.0)::numeric(12, 2) AS price, n % 3 AS k
    FROM generate_series(1, 60000) AS g(n)";

fn run(session: &Session, sql: &str) -> Vec<RecordBatch> {
    session.execute(sql).unwrap().collect().unwrap()
}

/// Rows as texts, the columns beside each other.
fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows
}

/// How many clusters a query has left out.
fn pruned(session: &Session, sql: &str) -> u64 {
    let batches = run(session, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}"));
    let text = batches.iter().flat_map(|batch| batch.column(0).as_string_view().iter().flatten()).collect::<String>();
    let at = text.find("\"clusters_pruned\"").expect("it tells clusters") + "\"clusters_pruned\":".len();
    let digits = text[at..].trim_start().chars().take_while(char::is_ascii_digit).collect::<String>();
    digits.parse().unwrap()
}

#[test]
fn first_rows_are_those_of_the_order_and_leave_clusters_out() {
    let folder = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
    let session = Database::open(options).unwrap().session();
    run(&session, "SET parquet_row_group_rows = 4000");
    let file = folder.path().join("events.parquet");
    run(&session, &format!("COPY ({ROWS} ORDER BY n) TO '{}'", file.display()));
    let events = format!("'{}'", file.display());
    run(&session, &format!("CREATE TABLE dimension AS SELECT DISTINCT k, 'k' || k AS label FROM {events}"));

    let orders = [
        "at",
        "at DESC",
        "mixed, at",
        "mixed DESC, at",
        "mixed NULLS FIRST, at",
        "mixed DESC NULLS LAST, at DESC",
        "few, at",
        "few DESC, name, at",
        "name, at",
        "name DESC, at DESC",
        "price, at",
        "price DESC, at",
        "at + 1",
        "-at",
    ];
    let sources = [
        events.clone(),
        format!("{events} WHERE few = 2 AND name LIKE '%3%'"),
        format!("(SELECT at, mixed, few, name, price FROM {events} WHERE at % 2 = 0) AS part"),
        format!("(SELECT e.* FROM {events} AS e JOIN dimension USING (k)) AS joined"),
        format!("(SELECT e.* FROM dimension LEFT JOIN {events} AS e USING (k)) AS joined"),
        format!(
            "(SELECT at, mixed, few, name, price FROM {events} WHERE few = 1 UNION ALL
                  SELECT at, mixed, few, name, price FROM {events} WHERE few = 4) AS both"
        ),
    ];
    for source in &sources {
        for order in orders {
            let select = "SELECT at, mixed, few, name, price FROM";
            let all = texts(&run(&session, &format!("{select} {source} ORDER BY {order}")));
            for (skip, rows) in [(0, 1), (0, 10), (17, 300)] {
                let first =
                    texts(&run(&session, &format!("{select} {source} ORDER BY {order} LIMIT {rows} OFFSET {skip}")));
                let expected = all.iter().skip(skip).take(rows).cloned().collect::<Vec<_>>();
                assert_eq!(first, expected, "{source} ORDER BY {order} LIMIT {rows} OFFSET {skip}");
            }
        }
    }

    // The file has 15 row groups in the order of time. Two packets may have begun some before there is a bound.
    for order in ["at", "at DESC", "price DESC, name"] {
        let left_out = pruned(&session, &format!("SELECT * FROM {events} ORDER BY {order} LIMIT 10"));
        assert!((5..15).contains(&left_out), "{left_out} clusters are left out in the order of {order}");
    }
    assert_eq!(pruned(&session, &format!("SELECT * FROM {events} ORDER BY few, at LIMIT 10")), 0);
}
