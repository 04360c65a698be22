//! Tables in fragments and in packed segments: queries answer as they do over the same rows elsewhere.

use std::path::Path;

use arrow::util::pretty::pretty_format_batches;
use diligence_native::SegmentSizes;

use crate::test_sessions::run;
use crate::{Database, DatabaseOptions, Session};

fn kept(folder: &Path, memory_bytes: Option<usize>) -> Database {
    let settings = vec![("segment_format".to_owned(), "diligence".to_owned())];
    let (segments, folder) = (SegmentSizes { rows_min: 1, cluster_rows: 10_000, keys_min: 1 }, Some(folder.to_owned()));
    let options = DatabaseOptions { folder, segments, settings, memory_bytes, ..DatabaseOptions::default() };
    Database::open(DatabaseOptions { workers: Some(2), ..options }).unwrap()
}

/// What a statement gives, or says.
fn outcome(session: &Session, sql: &str) -> String {
    match session.execute(sql).and_then(|result| result.collect()) {
        Ok(rows) => pretty_format_batches(&rows).unwrap().to_string(),
        Err(error) => error.message().to_owned(),
    }
}

/// Orders and their lines, some without the other, with NULLs among the keys.
const ROWS: [(&str, &str); 2] = [
    (
        "o",
        "SELECT CASE WHEN g % 1000 = 0 THEN NULL ELSE g END AS k, g % 7 AS kind, 'customer ' || g % 500 AS name \
         FROM generate_series(1, 60000) u(g)",
    ),
    (
        "l",
        "SELECT CASE WHEN g % 999 = 0 THEN NULL ELSE g / 3 * 2 END AS k, g AS line, g / 4.0 AS price, \
         CASE WHEN g % 50 = 0 THEN NULL ELSE 'mode ' || g % 9 END AS mode FROM generate_series(1, 150000) u(g)",
    ),
];

/// Questions about both, and whether they are answered fragment by fragment.
const QUESTIONS: [(&str, bool); 14] = [
    ("SELECT count(*), sum(line), sum(o.kind), min(name) FROM o JOIN l ON o.k = l.k", true),
    ("SELECT count(*), count(line), sum(o.kind) FROM o LEFT JOIN l ON o.k = l.k", true),
    ("SELECT count(*), count(o.kind), sum(line) FROM o RIGHT JOIN l ON o.k = l.k", true),
    ("SELECT count(*), count(line), count(o.kind), sum(line) FROM o FULL JOIN l ON o.k = l.k", true),
    ("SELECT count(*), sum(kind) FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.k = o.k AND line % 3 = 1)", true),
    ("SELECT count(*), sum(kind) FROM o WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.k = o.k)", true),
    ("SELECT l.k, count(*), sum(price), max(mode) FROM l GROUP BY l.k ORDER BY 2 DESC, 1 NULLS FIRST LIMIT 20", true),
    (
        "SELECT o.k, name, sum(price) FROM o JOIN l ON o.k = l.k WHERE mode IN ('mode 3', 'mode 4') \
         GROUP BY o.k, name ORDER BY 3 DESC, 1 LIMIT 10",
        true,
    ),
    ("SELECT kind, count(*), sum(price) FROM o JOIN l ON o.k = l.k GROUP BY kind ORDER BY kind", true),
    ("SELECT count(*), sum(a.line) FROM l a JOIN o ON o.k = a.k JOIN l b ON b.k = o.k WHERE a.line < b.line", true),
    (
        "SELECT count(*), sum(n) FROM (SELECT k, count(*) AS n FROM l GROUP BY k) AS s JOIN o USING (k) \
         JOIN (VALUES (1), (2)) v(kind) ON v.kind = o.kind",
        true,
    ),
    // Keys that the fragments are not of, and NULLs that are asked for everywhere.
    ("SELECT count(*), sum(line) FROM o JOIN l ON o.kind = l.line", false),
    ("SELECT mode, count(*), sum(price) FROM l GROUP BY mode ORDER BY mode", false),
    ("SELECT count(*) FROM o WHERE k = 77", false),
];

#[test]
fn fragments_are_joined_and_grouped_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let database = kept(folder.path(), None);
    let session = database.session();
    for (name, rows) in ROWS {
        run(&session, &format!("CREATE TABLE plain_{name} AS {rows}"));
        run(&session, &format!("CREATE TABLE hashed_{name} DISTRIBUTED BY HASH (k) FRAGMENTS 5 AS {rows}"));
        let ranges = "DISTRIBUTED BY RANGE (k) VALUES (5000, 20000, 90000)";
        run(&session, &format!("CREATE TABLE ranged_{name} {ranges} AS {rows}"));
        // Some of the rows are in memory, others were there once.
        for kind in ["plain", "hashed", "ranged"] {
            run(&session, &format!("INSERT INTO {kind}_{name} SELECT * FROM ({rows}) AS r WHERE k % 100 = 2"));
            run(&session, &format!("DELETE FROM {kind}_{name} WHERE k % 77 = 5"));
        }
    }
    let of = |kind: &str, question: &str| {
        let tables =
            question.replace("FROM o", &format!("FROM {kind}_o o")).replace("FROM l a", &format!("FROM {kind}_l a"));
        let tables =
            tables.replace("FROM l ", &format!("FROM {kind}_l l ")).replace("JOIN o ", &format!("JOIN {kind}_o o "));
        tables.replace("JOIN l b", &format!("JOIN {kind}_l b")).replace("JOIN l ON", &format!("JOIN {kind}_l l ON"))
    };
    for (question, is_divided) in QUESTIONS {
        let expected = outcome(&session, &of("plain", question));
        for kind in ["hashed", "ranged"] {
            let sql = of(kind, question);
            run(&session, "SET fragment_wise = on");
            let plan = outcome(&session, &format!("EXPLAIN {sql}"));
            assert_eq!(plan.contains("FragmentWise"), is_divided, "{sql}\n{plan}");
            assert_eq!(outcome(&session, &sql), expected, "{sql}");
            for setting in ["sharing = off", "packets = 1", "batch_rows = 100"] {
                run(&session, &format!("SET {setting}"));
                assert_eq!(outcome(&session, &sql), expected, "{setting}: {sql}");
            }
            for setting in ["sharing", "packets", "batch_rows"] {
                run(&session, &format!("RESET {setting}"));
            }
            run(&session, "SET fragment_wise = off");
            let plan = outcome(&session, &format!("EXPLAIN {sql}"));
            assert!(!plan.contains("FragmentWise"), "{sql}\n{plan}");
            assert_eq!(outcome(&session, &sql), expected, "{sql}");
        }
        // Of two tables that are divided in other ways there are no pairs.
        let mixed = of("hashed", question).replace("hashed_l", "ranged_l");
        run(&session, "RESET fragment_wise");
        let plan = outcome(&session, &format!("EXPLAIN {mixed}"));
        let joins = plan.lines().position(|line| line.contains("HashJoin") && line.contains("k = "));
        let above = plan.lines().position(|line| line.contains("FragmentWise"));
        assert!(joins.is_none() || above.is_none_or(|above| above > joins.unwrap()), "{mixed}\n{plan}");
        assert_eq!(outcome(&session, &mixed), expected, "{mixed}");
    }
    assert!(outcome(&session, "SET fragment_wise = perhaps").contains("expected on or off"));
}

#[test]
fn a_fragment_needs_less_memory_than_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let database = kept(folder.path(), None);
    let session = database.session();
    let rows = "SELECT g AS k, 'a text of some length ' || g AS t FROM generate_series(1, 400000) u(g)";
    run(&session, &format!("CREATE TABLE a DISTRIBUTED BY HASH (k) FRAGMENTS 16 AS {rows}"));
    run(&session, "CREATE TABLE b DISTRIBUTED BY HASH (k) FRAGMENTS 16 AS SELECT * FROM a");
    for question in [
        "SELECT count(*), sum(length(a.t) + length(b.t)) FROM a JOIN b ON a.k = b.k",
        "SELECT count(*), sum(n) FROM (SELECT k, max(t) AS t, count(*) AS n FROM a GROUP BY k) AS g",
    ] {
        // Nothing is left by one for the other.
        run(&session, "SET sharing = off");
        let mut peaks = Vec::new();
        for setting in ["off", "on"] {
            run(&session, &format!("SET fragment_wise = {setting}"));
            assert!(outcome(&session, question).contains("400000"), "{question}");
            let peak = "SELECT memory_peak_bytes FROM system.queries WHERE statement LIKE 'SELECT count(*), sum%' \
                        ORDER BY id DESC LIMIT 1";
            let shown = outcome(&session, peak);
            let number = shown.lines().nth(3).unwrap().trim_matches(['|', ' ']).parse::<u64>();
            peaks.push(number.unwrap_or_else(|_| panic!("{shown}")));
        }
        // A fragment for each packet, not all.
        assert!(peaks[1] * 2 < peaks[0], "{peaks:?} for {question}");
        run(&session, "SET query_memory = '16MB'");
        assert!(outcome(&session, question).contains("400000"), "{question}");
        run(&session, "RESET query_memory");
    }
}

#[test]
fn fragments_are_written_to_directories_that_a_setting_names() {
    let (folder, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directories = ["two", "three"].map(|name| others.path().join(name));
    let named = directories.each_ref().map(|path| path.display().to_string()).join(", ");
    let question = "SELECT count(*), sum(k), count(DISTINCT t) FROM a";
    let expected = {
        let database = kept(folder.path(), None);
        let session = database.session();
        let set = format!("SET fragment_directories = '{named}'");
        assert!(outcome(&session, &set).contains("there is no such directory"));
        directories.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        run(&session, &set);
        run(
            &session,
            "CREATE TABLE a DISTRIBUTED BY HASH (k) FRAGMENTS 6 AS \
             SELECT g AS k, 'text ' || g % 100 AS t FROM generate_series(1, 100000) u(g)",
        );
        run(&session, "RESET ALL");
        assert!(outcome(&session, "SHOW fragment_directories").contains(&named));
        outcome(&session, question)
    };
    let segments = |part: &Path| {
        let entries = std::fs::read_dir(part).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.filter(|name| name.ends_with(".seg")).count()
    };
    let parts =
        [folder.path().join("segments"), directories[0].join("diligence-1"), directories[1].join("diligence-1")];
    assert!(parts.iter().all(|part| segments(part) >= 2), "{parts:?}");
    {
        let database = kept(folder.path(), None);
        assert_eq!(outcome(&database.session(), question), expected);
        // What moves comes to the directories of now.
        run(&database.session(), &format!("SET fragment_directories = '{}'", directories[0].display()));
        run(&database.session(), "ALTER TABLE a SET DISTRIBUTED BY HASH (k) FRAGMENTS 4");
        assert_eq!(outcome(&database.session(), question), expected);
        database.checkpoint().unwrap();
        database.checkpoint().unwrap();
        assert!(!parts[2].exists() && segments(&parts[1]) == 2, "{parts:?}");
    }
    let away = others.path().join("away");
    std::fs::rename(&directories[0], &away).unwrap();
    let options = DatabaseOptions { folder: Some(folder.path().to_owned()), ..DatabaseOptions::default() };
    let error = Database::open(options).unwrap_err();
    assert_eq!(error.code(), Some("58P01"), "{error}");
    assert!(error.message().contains("two/diligence-1"), "{error}");
    std::fs::rename(&away, &directories[0]).unwrap();
    assert_eq!(outcome(&kept(folder.path(), None).session(), question), expected);
    let memory = Database::open(DatabaseOptions::default()).unwrap().session();
    assert!(outcome(&memory, &format!("SET fragment_directories = '{named}'")).contains("in memory"));
}

#[test]
fn packed_rows_answer_as_rows_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let database = kept(folder.path(), None);
    let (packed, memory) = (database.session(), Database::open(DatabaseOptions::default()).unwrap().session());
    let rows = "SELECT g AS id, g / 1000 AS run, g % 37 AS small, (g * 7919 % 100003) * 1000 AS wide, \
                CASE WHEN g % 11 = 0 THEN NULL ELSE 'Text ' || g / 20 % 900 END AS t, \
                CASE WHEN g % 3 = 0 THEN NULL ELSE 7 END AS same, (g % 500) / 4.0::NUMERIC(9, 2) AS money, \
                DATE '2020-01-01' + (g / 300)::INT AS day, lpad('', (g % 4)::INT, 'x') AS short \
                FROM generate_series(1, 40000) u(g)";
    for session in [&packed, &memory] {
        run(session, &format!("CREATE TABLE t AS {rows}"));
        run(session, "DELETE FROM t WHERE short = '' AND id % 2 = 0");
    }
    let conditions = [
        "small IN (1, 5, 9, 36, 40)",
        "small NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 30)",
        "small IN (3, NULL)",
        "small NOT IN (3, NULL)",
        "small <> 5",
        "small < 3 OR small > 30 OR small = 17",
        "wide IN (1000, 7919000, 15838000, 5, 23757000, 31676000, 39595000, 47514000, 55433000, 63352000)",
        "run IN (3, 4, 17) AND id % 2 = 1",
        "run * 2 = 14",
        "same IS NULL",
        "coalesce(same, 8) = 8",
        "same = 7 AND small = 1",
        "money IN (0.25, 3.75, 100)",
        "day IN ('2020-01-05', '2020-02-01')",
        "extract(day FROM day) = 3",
        "t LIKE '%7'",
        "t NOT LIKE 'Text 1%'",
        "t ILIKE 'tEXT 2_'",
        "t ~ '[13]5$'",
        "t !~ '^Text [0-5]'",
        "upper(t) = 'TEXT 77'",
        "t IN ('Text 1', 'Text 500', 'nothing')",
        "t IS NULL",
        "coalesce(t, 'none') LIKE 'n%'",
        "t > 'Text 5' AND t < 'Text 6'",
        "length(t) = 6",
        "short = 'xx'",
        // It fails for a value that no row has that is left.
        "12 / length(short) = 4 AND id % 2 = 0",
        "12 / length(short) = 4",
        "id IN (5, 77, 39999)",
    ];
    for condition in conditions {
        for columns in ["count(*), sum(id)", "count(*), min(t), max(t), sum(small), sum(money)", "count(DISTINCT t)"] {
            let sql = format!("SELECT {columns} FROM t WHERE {condition}");
            let expected = outcome(&memory, &sql);
            for sharing in ["all", "off"] {
                run(&packed, &format!("SET sharing = {sharing}"));
                assert_eq!(outcome(&packed, &sql), expected, "{sharing}: {sql}");
            }
        }
        let groups = format!("SELECT t, count(*), sum(small) FROM t WHERE {condition} GROUP BY t ORDER BY t LIMIT 5");
        assert_eq!(outcome(&packed, &groups), outcome(&memory, &groups), "{groups}");
    }
}
