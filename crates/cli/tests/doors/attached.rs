//! Servers of PostgreSQL that are attached: one is started for these tests, if it is installed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use arrow::array::AsArray;
use diligence_client::Url;
use diligence_client::blocking::Connection;

use crate::support::{Ran, run};

/// A PostgreSQL that is gone with its value.
struct Postgres {
    child: Option<Child>,
    url: String,
}

impl Postgres {
    /// The one that the environment names, or one that is started. `None` if it is not installed.
    fn start() -> Option<Self> {
        if let Ok(url) = std::env::var("DILIGENCE_POSTGRES") {
            return Some(Self { child: None, url });
        }
        let is_installed = std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut versions| versions.next().is_some());
        if !is_installed {
            eprintln!("not tested: there is no PostgreSQL here");
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
        let mut child = Command::new(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("postgres://"), "PostgreSQL does not start: {:?}", child.wait());
        Some(Self { child: Some(child), url: url.trim().to_owned() })
    }

    fn connect(&self) -> Connection {
        Connection::open(&Url::parse(&self.url).unwrap(), "test", || None).unwrap()
    }

    /// The first column of a query, as texts; NULLs are `-`.
    fn texts(&self, sql: &str) -> Vec<String> {
        let batches = self.connect().rows(sql).unwrap();
        let column = |batch: &arrow::array::RecordBatch| {
            let column = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).unwrap();
            column.as_string::<i32>().iter().map(|text| text.unwrap_or("-").to_owned()).collect::<Vec<_>>()
        };
        batches.iter().flat_map(column).collect()
    }

    fn run(&self, sql: &str) {
        self.connect().rows(sql).unwrap();
    }

    /// Runs statements with this server attached as `pg`.
    fn attached(&self, home: &Path, sql: &str) -> Ran {
        let script = format!("ATTACH '{}' AS pg (TYPE postgres);\n{sql}", self.url);
        run(home, &["sql", "--format", "csv", "-"], &script)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It ends with its input.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn lines(ran: &Ran) -> Vec<&str> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().skip(1).collect()
}

/// A type, values of it, and the type that they have here.
const TYPES: [(&str, &str, &str); 34] = [
    ("bool", "true, false", "boolean"),
    ("int2", "-32768, 7", "smallint"),
    ("int4", "-2147483648, 7", "integer"),
    ("int8", "-9223372036854775808, 7", "bigint"),
    ("oid", "4294967295, 7", "oid"),
    ("float4", "'1.5', 'NaN', '-Infinity'", "real"),
    ("float8", "'1e300', 'NaN', 'Infinity', 0.1", "double precision"),
    ("numeric(10,2)", "12345678.91, -0.01, 0", "numeric(10,2)"),
    ("numeric(38,0)", "99999999999999999999999999999999999999, -1", "numeric(38,0)"),
    ("numeric(60,20)", "1234567890123456789012345678901234567890.12345678901234567891", "numeric(60,20)"),
    ("numeric", "12345678901234567890.123456789, -0.00001, 100000000, 0", "numeric"),
    ("text", "'', 'ä€😀', E'a\\nb\\\\\"'", "text"),
    ("varchar(5)", "'abc', ''", "character varying(5)"),
    ("char(5)", "'abc'", "character(5)"),
    ("name", "'abc'", "name"),
    ("bytea", "'\\x00ff10', ''", "bytea"),
    ("date", "'2024-02-29', '0044-03-15 BC', 'infinity', '-infinity'", "date"),
    ("time", "'23:59:59.999999', '00:00'", "time without time zone"),
    ("timetz", "'12:00+02'", "time with time zone"),
    ("timestamp(3)", "'2024-02-29 12:34:56.789', 'infinity', '1900-01-01'", "timestamp without time zone"),
    ("timestamptz", "'2024-02-29 12:34:56.789012+05', '-infinity'", "timestamp with time zone"),
    ("interval", "'1 year 2 mons -3 days 04:05:06.789', '-00:00:00.000001'", "interval"),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "uuid"),
    ("json", "'{\"b\" : 1,\"a\":[true,null]}'", "json"),
    ("jsonb", "'{\"bb\" : 1.50,\"a\":[true,null]}', 'null'", "jsonb"),
    ("bit(3)", "'101'", "bit(3)"),
    ("varbit", "'10101', ''", "bit varying"),
    ("int4range", "'[1,5)', 'empty', '(,7]'", "int4range"),
    ("inet", "'10.1.2.3/8', '::1'", "inet"),
    ("mood", "'sad', 'happy'", "text"),
    ("positive", "5", "integer"),
    ("pair", "'(1,\"a b\")'", "text"),
    ("money", "12.34", "text"),
    ("tsvector", "'a:1 b:2'", "tsvector"),
];

/// Types of arrays, and values.
const ARRAYS: [(&str, &str, &str); 6] = [
    ("int4[]", "'{1,NULL,3}', '{}'", "integer[]"),
    ("text[]", "'{a,\"b c\",NULL}'", "text[]"),
    ("numeric(10,2)[]", "'{1.25,-3.50}'", "numeric(10,2)[]"),
    ("timestamptz[]", "'{2024-02-29 12:00+00}'", "timestamp with time zone[]"),
    ("mood[]", "'{sad,happy}'", "text[]"),
    ("inet[]", "'{1.2.3.4}'", "inet[]"),
];

#[test]
fn values_of_all_types_are_what_they_are_there() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    postgres.run(
        "DROP SCHEMA IF EXISTS kinds CASCADE; CREATE SCHEMA kinds; SET search_path = kinds; \
         CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS int CHECK (VALUE > 0); \
         CREATE TYPE pair AS (a int, b text)",
    );
    let mut script = String::new();
    let mut expected = Vec::new();
    for (number, (kind, values, here)) in TYPES.iter().chain(&ARRAYS).enumerate() {
        postgres.run(&format!(
            "SET search_path = kinds; SET extra_float_digits = 1; CREATE TABLE t{number} (id int, v {kind}); \
             INSERT INTO t{number} SELECT row_number() OVER (), v::{kind} FROM (VALUES {}) AS s(v); \
             INSERT INTO t{number} VALUES (100, NULL)",
            values.split(", ").map(|value| format!("({value})")).collect::<Vec<_>>().join(", "),
        ));
        script += &format!(
            "SELECT coalesce(v::text, '-') || ' ' || pg_typeof(v) AS v FROM pg.kinds.t{number} ORDER BY id;\n"
        );
        let there = postgres.texts(&format!(
            "SET search_path = kinds; SET timezone = 'UTC'; SELECT v::text FROM t{number} ORDER BY id"
        ));
        expected.push("v".to_owned());
        expected.extend(there.into_iter().map(|text| {
            let text =
                if *kind == "numeric" && text.contains('.') { text.trim_end_matches('0').to_owned() } else { text };
            format!(
                "{text} {}",
                here.split('(').next().unwrap().to_owned() + here.find(')').map_or("", |end| &here[end + 1..])
            )
        }));
    }
    let ran =
        run(home.path(), &["sql", "--format", "jsonl", "-"], &format!("ATTACH '{}' AS pg;\n{script}", postgres.url));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = ran.stdout.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        row["v"].as_str().unwrap().to_owned()
    });
    let told = told.collect::<Vec<_>>();
    let expected = expected.into_iter().filter(|line| line != "v").collect::<Vec<_>>();
    assert_eq!(told, expected);
}

#[test]
fn tables_views_and_queries_are_read_and_conditions_go_along() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    postgres.run(
        "DROP SCHEMA IF EXISTS shop CASCADE; DROP TABLE IF EXISTS public.items CASCADE; CREATE SCHEMA shop; \
         CREATE TABLE public.items (id int PRIMARY KEY, name text, price numeric(10,2)); \
         INSERT INTO items SELECT i, 'item ' || i, i * 1.25 FROM generate_series(1, 1000) i; \
         CREATE VIEW shop.cheap AS SELECT id, name FROM items WHERE price < 5; \
         CREATE TABLE shop.\"Odd \"\"name\" (\"select\" int, \"B b\" text); \
         INSERT INTO shop.\"Odd \"\"name\" VALUES (1, 'x''y'); ANALYZE",
    );
    let one = |sql: &str| {
        let ran = postgres.attached(home.path(), sql);
        lines(&ran).join("|")
    };
    assert_eq!(one("SELECT count(*), sum(price) FROM pg.items"), "1000,625625.00");
    assert_eq!(one("SELECT count(*) FROM pg.public.items i WHERE i.id % 2 = 0"), "500");
    assert_eq!(one("SELECT * FROM pg.shop.cheap ORDER BY id LIMIT 2"), "1,item 1|2,item 2");
    assert_eq!(one("SELECT \"select\", \"B b\" FROM pg.shop.\"Odd \"\"name\""), "1,x'y");
    assert_eq!(one("SELECT name FROM pg.items WHERE id IN (3, 4) AND name LIKE '%3'"), "item 3");
    assert_eq!(one("SELECT count(*) FROM pg.items a JOIN pg.items b ON a.id = b.id + 1 WHERE b.price > 1000"), "199");
    assert_eq!(
        one(
            "CREATE TABLE own AS SELECT id FROM pg.items WHERE id < 4; SELECT count(*) FROM own JOIN pg.items USING (id)"
        ),
        "3"
    );
    assert_eq!(one("SELECT a, b FROM postgres_query('pg', 'SELECT 1 AS a, 2 AS b, 3 AS a;') AS q(a, b, c)"), "1,2");
    assert_eq!(one("SELECT count(*) FROM pg.information_schema.tables WHERE table_schema = 'shop'"), "2");
    assert_eq!(one(&format!("SELECT count(*) FROM postgres_scan('{}', 'public', 'items')", postgres.url)), "1000");
    assert_eq!(one("SELECT name, type, schema FROM system.attached"), "pg,postgres,public");
    assert_eq!(one("ATTACH IF NOT EXISTS 'host=nowhere.invalid' AS pg (TYPE postgres); SELECT 1 AS a"), "1");
    assert_eq!(
        one(&format!(
            "ATTACH OR REPLACE '{}' AS pg (TYPE postgres, SCHEMA shop); SELECT count(*) FROM pg.cheap",
            postgres.url
        )),
        "3"
    );

    let ran = postgres.attached(home.path(), "EXPLAIN SELECT name FROM pg.items WHERE id > 990 AND price < 2000");
    // A quote in a value of CSV is doubled.
    let plan = ran.stdout.replace("\"\"", "\"");
    assert!(plan.contains("(\"id\" > '990'::pg_catalog.int4)"), "{plan}{}", ran.stderr);
    assert!(plan.contains("(\"price\" < '2000"), "{plan}");

    for (sql, code) in [
        ("SELECT * FROM pg.nothing", "has no table \"public\".\"nothing\""),
        ("SELECT * FROM pg.nowhere.nothing", "has no table \"nowhere\".\"nothing\""),
        ("SELECT nothing FROM pg.items", "nothing"),
        ("SELECT * FROM postgres_query('pg', 'SELEC')", "the server \"pg\" (postgres://"),
        ("SELECT * FROM postgres_query('pg', 'SELECT 1 / 0')", "division by zero"),
        ("SELECT * FROM postgres_query('pg', 'SELECT ''NaN''::numeric AS n')", "column \"n\" of "),
        ("SELECT * FROM postgres_query('pg', 'DELETE FROM items RETURNING id')", "the server \"pg\""),
        ("DETACH pg; SELECT * FROM pg.items", "pg.items"),
        ("CREATE SCHEMA other; ATTACH 'host=x' AS other (TYPE postgres)", "schema \"other\" already exists"),
    ] {
        let ran = postgres.attached(home.path(), sql);
        assert_eq!(ran.code, Some(1), "{sql}: {}", ran.stdout);
        assert!(ran.stderr.contains(code), "{sql}: {}", ran.stderr);
    }
    assert_eq!(one("SELECT count(*) FROM pg.items"), "1000");
}

#[test]
fn large_tables_are_read_in_parts_of_one_snapshot_and_a_limit_ends_them() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    postgres.run(
        "DROP TABLE IF EXISTS large; CREATE TABLE large AS \
         SELECT i AS id, repeat('x', 900) || i AS t FROM generate_series(1, 100000) i",
    );
    let ran =
        postgres.attached(home.path(), "SELECT count(*), count(DISTINCT id), sum(id), sum(length(t)) FROM pg.large");
    assert_eq!(lines(&ran), ["100000,100000,5000050000,90488895"]);
    let script = format!("ATTACH '{}' AS pg;\nSELECT count(DISTINCT t) AS n FROM pg.large", postgres.url);
    let ran = run(home.path(), &["sql", "--memory", "32MiB", "--format", "csv", "-"], &script);
    assert_eq!(lines(&ran), ["100000"]);
    // What nobody reads any more ends at the server as well. (In FROM, the server would make all rows before the
    // first.)
    let endless = "SELECT count(*) FROM (SELECT * FROM postgres_query('pg', \
                   'SELECT generate_series(1, 1000000000) AS i, pg_sleep(0.0001)::text') WHERE i > 5 LIMIT 3)";
    let ran = postgres.attached(home.path(), endless);
    assert_eq!(lines(&ran), ["3"]);
    let running =
        "SELECT count(*)::text FROM pg_stat_activity WHERE state = 'active' AND application_name = 'diligence'";
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while postgres.texts(running) != ["0"] {
        assert!(std::time::Instant::now() < end, "a query runs that nobody reads");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
