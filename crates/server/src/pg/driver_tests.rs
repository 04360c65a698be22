//! What drivers ask before they read and write values of types that they do not know, and the binary forms in which
//! they send and get them. The answers are those of PostgreSQL 15.

use diligence_client::{Connection, message};

use super::tests::{connect, said, serve, told};

/// What a driver is told of a statement, and the rows that it gets in binary form.
#[derive(Debug, Default)]
struct Answer {
    /// The types of parameters and columns, and what is in parentheses behind the latter.
    parameters: Vec<u32>,
    columns: Vec<u32>,
    modifiers: Vec<i32>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The fields of an error with their letters in front.
    failure: Vec<String>,
}

impl Answer {
    /// A field of the error.
    fn told(&self, letter: char) -> &str {
        self.failure.iter().find_map(|field| field.strip_prefix(letter)).unwrap_or_default()
    }

    /// The rows as texts.
    fn texts(&self) -> Vec<Vec<String>> {
        let text = |value: &Option<Vec<u8>>| value.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let row = |row: &Vec<Option<Vec<u8>>>| row.iter().map(|value| text(value).unwrap_or("NULL".into())).collect();
        self.rows.iter().map(row).collect()
    }
}

/// Prepares, describes, binds and executes a statement. `declared` are the types that the driver gives parameters; the
/// values are sent in text or binary form.
async fn asked(connection: &mut Connection, sql: &str, declared: &[u32], values: &[&[u8]], is_binary: bool) -> Answer {
    let mut messages = Vec::new();
    message::put(&mut messages, b'P', |body| {
        body.push(0);
        body.extend(sql.as_bytes());
        body.push(0);
        body.extend((declared.len() as i16).to_be_bytes());
        declared.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
    });
    message::put(&mut messages, b'D', |body| body.extend(b"S\0"));
    message::put(&mut messages, b'B', |body| {
        body.extend([0; 2]);
        body.extend([0, 1, 0, u8::from(is_binary)]);
        body.extend((values.len() as i16).to_be_bytes());
        for value in values {
            body.extend((value.len() as i32).to_be_bytes());
            body.extend(*value);
        }
        body.extend([0, 1, 0, 1]);
    });
    message::execute(&mut messages, 0);
    message::sync(&mut messages);
    connection.send(&messages).await.unwrap();
    let mut answer = Answer::default();
    loop {
        let message = connection.next().await.unwrap();
        match message.kind {
            b't' => {
                let oids = message.body[2..].chunks(4);
                answer.parameters = oids.map(|oid| u32::from_be_bytes(oid.try_into().unwrap())).collect();
            }
            b'T' => {
                let columns = message.columns().unwrap();
                answer.columns = columns.iter().map(|column| column.oid).collect();
                answer.modifiers = columns.iter().map(|column| column.modifier).collect();
            }
            b'D' => {
                let values = message.values().unwrap();
                answer.rows.push(values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect());
            }
            b'E' => {
                let fields = message.body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
                answer.failure = fields.map(|field| String::from_utf8_lossy(field).into_owned()).collect();
            }
            b'Z' => return answer,
            _ => {}
        }
    }
}

/// The number of a type, as text.
async fn number_of(connection: &mut Connection, name: &str) -> u32 {
    let told = said(connection, &format!("SELECT oid FROM pg_type WHERE typname = '{name}'")).await;
    told.iter().find_map(|line| line.strip_prefix("D ")).unwrap().parse().unwrap()
}

/// What tokio-postgres, sqlx and asyncpg send for a type that they meet: they check the types of the columns.
#[tokio::test]
async fn types_are_found_in_the_catalog() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a INT, b TEXT)").await.unwrap();
    let (mood, pair) = (number_of(&mut ann, "mood").await, number_of(&mut ann, "pair").await);
    let of_type = "SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid \
                   FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid \
                   INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = $1";
    let found = asked(&mut ann, of_type, &[], &[&mood.to_be_bytes()], true).await;
    assert_eq!((found.parameters.as_slice(), found.columns.as_slice()), (&[26][..], &[19, 18, 26, 26, 26, 19, 26][..]));
    assert_eq!(found.texts()[0][..2], ["mood", "e"], "{found:?}");
    assert_eq!((found.rows[0][2].as_deref(), found.rows[0][3].as_deref()), (Some(&[0; 4][..]), None));
    let labels = "SELECT enumlabel FROM pg_catalog.pg_enum WHERE enumtypid = $1 ORDER BY enumsortorder";
    let found = asked(&mut ann, labels, &[], &[&mood.to_be_bytes()], true).await;
    assert_eq!((found.parameters.as_slice(), found.columns.as_slice()), (&[26][..], &[19][..]));
    assert_eq!(found.texts(), [["sad"], ["ok"]]);
    let columns = "SELECT typtype, typcategory FROM (SELECT * FROM pg_type) AS t WHERE oid = $1 GROUP BY 1, 2";
    let found = asked(&mut ann, columns, &[], &[&pair.to_be_bytes()], true).await;
    assert_eq!((found.columns.as_slice(), found.texts()), (&[18, 18][..], vec![vec!["c".to_owned(), "C".to_owned()]]));
    let relation = asked(&mut ann, of_type, &[], &[&pair.to_be_bytes()], true).await.rows[0][6].clone().unwrap();
    let columns = "SELECT attname, atttypid FROM pg_catalog.pg_attribute \
                   WHERE attrelid = $1 AND NOT attisdropped AND attnum > 0 ORDER BY attnum";
    let found = asked(&mut ann, columns, &[], &[&relation], true).await;
    assert_eq!(found.columns, [19, 26]);
    let column = |name: &str, oid: u32| vec![Some(name.as_bytes().to_vec()), Some(oid.to_be_bytes().to_vec())];
    assert_eq!(found.rows, [column("a", 23), column("b", 25)]);
    // As asyncpg asks, step by step.
    let tree = "WITH RECURSIVE tree(oid, kind, elemtype, depth) AS ( \
                SELECT t.oid, t.typtype, t.typelem, 0 FROM pg_type t WHERE t.oid = any($1::oid[]) \
                UNION ALL SELECT t.oid, t.typtype, t.typelem, depth + 1 FROM pg_type t, tree WHERE t.oid = tree.elemtype) \
                SELECT DISTINCT * FROM tree ORDER BY depth DESC";
    let moods = [&b"\0\0\0\x01\0\0\0\0\0\0\0\x1a\0\0\0\x01\0\0\0\x01\0\0\0\x04"[..], &mood.to_be_bytes()].concat();
    let found = asked(&mut ann, tree, &[], &[&moods], true).await;
    assert_eq!((found.parameters.as_slice(), found.columns.as_slice()), (&[1028][..], &[26, 18, 26, 23][..]));
    assert_eq!(found.rows[0][1].as_deref(), Some(&b"e"[..]), "{found:?}");
    // What is computed of such a column is a text.
    let computed = "SELECT typtype::text, max(t.oid), array_agg(t.oid), reltuples FROM pg_type t, pg_class \
                    WHERE typname = 'mood' AND relname = 'nowhere' GROUP BY 1, 4";
    assert_eq!(asked(&mut ann, computed, &[], &[], true).await.columns, [25, 26, 1028, 700]);
    // `"char"` has a byte also where it is empty.
    let empty = asked(&mut ann, "SELECT attidentity FROM pg_attribute LIMIT 1", &[], &[], true).await;
    assert_eq!((empty.columns.as_slice(), empty.rows), (&[18][..], vec![vec![Some(vec![0])]]));
}

#[tokio::test]
async fn values_go_in_binary_form_both_ways() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a INT, b TEXT)").await.unwrap();
    let (mood, pair) = (number_of(&mut ann, "mood").await, number_of(&mut ann, "pair").await);
    let uuid = b"\xa0\xee\xbc\x99\x9c\x0b\x4e\xf8\xbb\x6d\x6b\xb9\xbd\x38\x0a\x11";
    let uuids = [&b"\0\0\0\x01\0\0\0\0\0\0\x0b\x86\0\0\0\x01\0\0\0\x01\0\0\0\x10"[..], uuid].concat();
    let range = b"\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x05";
    let multirange = [&b"\0\0\0\x01\0\0\0\x11"[..], range].concat();
    let row = b"\0\0\0\x02\0\0\0\x17\0\0\0\x04\0\0\0\x01\0\0\0\x19\0\0\0\x01x";
    let numeric = b"\0\x02\0\0\0\0\0\x02\0\x02\x09\xc4";
    for (sql_type, number, value) in [
        ("uuid", 2950, &uuid[..]),
        ("uuid[]", 2951, &uuids[..]),
        ("jsonb", 3802, &b"\x01{\"a\": 1}"[..]),
        ("json", 114, &b"{\"a\":1}"[..]),
        ("bit(3)", 1560, &b"\0\0\0\x03\xa0"[..]),
        ("varbit", 1562, &b"\0\0\0\x04\xb0"[..]),
        ("timetz", 1266, &b"\0\0\0\x0a\x0e\xeb\xb0\0\xff\xff\xf1\xf0"[..]),
        ("int4range", 3904, &range[..]),
        ("int4multirange", 4451, &multirange[..]),
        ("numeric", 1700, &numeric[..]),
        ("oid", 26, &b"\xff\xff\xff\xff"[..]),
        ("mood", mood, &b"ok"[..]),
        ("pair", pair, &row[..]),
    ] {
        let create = format!("DROP TABLE IF EXISTS t; CREATE TABLE t (v {sql_type})");
        ann.simple(&create).await.unwrap();
        // The driver says what it sends, or leaves it to the server, and is told the same.
        for declared in [&[number][..], &[]] {
            let insert = "INSERT INTO t VALUES ($1) RETURNING v";
            let written = asked(&mut ann, insert, declared, &[value], true).await;
            assert_eq!((written.parameters.as_slice(), written.columns.as_slice()), (&[number][..], &[number][..]));
            assert_eq!(written.rows, [[Some(value.to_vec())]], "{sql_type} {written:?}");
        }
        let found = asked(&mut ann, "SELECT v FROM t LIMIT 1", &[], &[], true).await;
        assert_eq!(found.rows, [[Some(value.to_vec())]], "{sql_type} {found:?}");
    }
    // What computes numbers has no modifier, in RETURNING as elsewhere.
    ann.simple("CREATE TABLE prices (a NUMERIC(5, 2))").await.unwrap();
    let returned = "INSERT INTO prices VALUES (1.5) RETURNING a, a * 2, round(a, 1), a::numeric(10, 3)";
    assert_eq!(asked(&mut ann, returned, &[], &[], true).await.modifiers, [327_686, -1, -1, 655_367]);
    // Aggregates whose results are held as texts have their types.
    for (query, number) in [
        ("SELECT max(v::inet) FROM (VALUES ('10.0.0.7')) AS t (v)", 869),
        ("SELECT max(v::mood) FROM (VALUES ('ok')) AS t (v)", mood),
        ("SELECT mode() WITHIN GROUP (ORDER BY v::uuid) FROM (VALUES (NULL)) AS t (v)", 2950),
        ("SELECT max(v::oid) FROM (VALUES (7)) AS t (v)", 26),
    ] {
        let found = asked(&mut ann, query, &[], &[], true).await;
        assert_eq!((found.columns.as_slice(), found.rows.len()), (&[number][..], 1), "{query} {found:?}");
    }
}

#[tokio::test]
async fn texts_of_parameters_are_read_as_literals_are() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE t (u UUID, c VARCHAR(3)); CREATE TYPE pair AS (a INT, b TEXT)").await.unwrap();
    for (query, value, text) in [
        ("SELECT $1::date::text", "January 8, 1999", "1999-01-08"),
        ("SELECT $1::date::text", "infinity", "infinity"),
        ("SELECT ($1::date = current_date)::text", "today", "true"),
        ("SELECT ($1::timestamptz AT TIME ZONE 'UTC')::text", "2020-01-01 00:00 Europe/Berlin", "2019-12-31 23:00:00"),
        ("SELECT $1::interval::text", "P1DT2H", "1 day 02:00:00"),
        ("SELECT $1::bytea::text", "abc", "\\x616263"),
        ("SELECT $1::regclass::text", "t", "t"),
        ("SELECT $1::regtype::text", "int4", "integer"),
        ("SELECT $1::pair::text", "(1,x)", "(1,x)"),
        (
            "SELECT u::text FROM (SELECT $1::uuid AS u) AS t",
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
    ] {
        let found = asked(&mut ann, query, &[], &[value.as_bytes()], false).await;
        assert_eq!(found.texts(), [[text]], "{query} {value} {found:?}");
    }
    for (query, value, code, message) in [
        ("SELECT $1::int", "x", "22P02", "invalid input syntax for type integer: \"x\""),
        ("SELECT $1::int2", "70000", "22003", "value \"70000\" is out of range for type smallint"),
        ("SELECT $1::date", "2020-02-30", "22008", "date/time field value out of range: \"2020-02-30\""),
        ("SELECT $1::timestamp", "x", "22007", "invalid input syntax for type timestamp: \"x\""),
        ("SELECT $1::boolean", "x", "22P02", "invalid input syntax for type boolean: \"x\""),
        ("SELECT $1::numeric", "x", "22P02", "invalid input syntax for type numeric: \"x\""),
        ("SELECT $1::int[]", "{1,x}", "22P02", "invalid input syntax for type integer: \"x\""),
    ] {
        let failed = asked(&mut ann, query, &[], &[value.as_bytes()], false).await;
        let told = (failed.told('C'), failed.told('M'), failed.told('W'));
        assert_eq!(told, (code, message, "unnamed portal parameter $1"), "{query}");
    }
    // A driver that says what it sends, where the statement takes it.
    let uuid = b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let written = asked(&mut ann, "INSERT INTO t (u) VALUES ($1) RETURNING u::text", &[2950], &[uuid], false).await;
    assert_eq!(written.texts(), [["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]], "{written:?}");
    let found = asked(&mut ann, "SELECT count(*)::text FROM t WHERE u = $1", &[2950], &[uuid], false).await;
    assert_eq!(found.texts(), [["1"]], "{found:?}");
}

#[tokio::test]
async fn what_a_driver_declares_says_what_operators_mean() {
    const JSONB: u32 = 3802;
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    for (query, declared, values, text) in [
        ("SELECT ($1 || $2)::text", &[JSONB, JSONB][..], &["{\"a\": 1}", "{\"b\": 2}"][..], "{\"a\": 1, \"b\": 2}"),
        ("SELECT ($1 || $2)::text", &[25, 25], &["a", "b"], "ab"),
        ("SELECT ($1 - 'a')::text", &[JSONB], &["{\"a\": 1, \"b\": 2}"], "{\"b\": 2}"),
        ("SELECT ($1 @> $2)::text", &[JSONB, JSONB], &["{\"a\": 1}", "{}"], "true"),
        ("SELECT ($1 << $2)::text", &[869, 650], &["10.0.0.1", "10.0.0.0/8"], "true"),
        ("SELECT pg_typeof($1)::text", &[2950], &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], "uuid"),
    ] {
        let values = values.iter().map(|value| value.as_bytes()).collect::<Vec<_>>();
        let found = asked(&mut ann, query, declared, &values, false).await;
        assert_eq!(found.texts(), [[text]], "{query} {declared:?} {found:?}");
        assert_eq!(found.parameters, declared, "{query}");
    }
    let found = asked(&mut ann, "SELECT $1", &[2950], &[b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], false).await;
    assert_eq!(found.columns, [2950], "{found:?}");
}

#[tokio::test]
async fn tags_count_the_rows_of_one_time() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let mut messages = Vec::new();
    message::parse(&mut messages, "", "SELECT * FROM generate_series(1, 3) AS g (a)");
    message::bind(&mut messages, "", &[], false);
    for _ in 0..3 {
        message::execute(&mut messages, 2);
    }
    message::sync(&mut messages);
    let answers = told(&mut ann, &messages).await;
    assert_eq!(answers, ["1", "2", "D 1", "D 2", "s", "D 3", "C SELECT 1", "C SELECT 0", "Z I"]);
    // There might be more behind the last of them.
    let mut messages = Vec::new();
    message::parse(&mut messages, "", "SELECT * FROM generate_series(1, 2) AS g (a)");
    message::bind(&mut messages, "", &[], false);
    for _ in 0..2 {
        message::execute(&mut messages, 2);
    }
    message::sync(&mut messages);
    assert_eq!(told(&mut ann, &messages).await, ["1", "2", "D 1", "D 2", "s", "C SELECT 0", "Z I"]);
    // Forms of results are told for all columns, or for one of them that stands for all.
    let mut messages = Vec::new();
    message::parse(&mut messages, "", "SELECT 1, 2");
    message::put(&mut messages, b'B', |body| body.extend([0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 1]));
    message::describe(&mut messages);
    message::sync(&mut messages);
    assert!(told(&mut ann, &messages).await.contains(&"E ERROR 08P01".to_owned()));
}

#[tokio::test]
async fn a_copy_tells_where_it_failed() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE t (a INT, v VARCHAR(3))").await.unwrap();
    for (data, code, message, place) in [
        ("1\ta\nx\tb\n", "22P02", "invalid input syntax for type integer: \"x\"", "COPY t, line 2, column a: \"x\""),
        ("1\tabcd\n", "22001", "value too long for type character varying(3)", "COPY t, line 1, column v: \"abcd\""),
        ("1\n", "22P04", "missing data for column \"v\"", "COPY t, line 1: \"1\""),
    ] {
        let mut copy = Vec::new();
        message::query(&mut copy, "COPY t FROM STDIN");
        message::put(&mut copy, b'd', |body| body.extend(data.as_bytes()));
        message::put(&mut copy, b'c', |_| {});
        ann.send(&copy).await.unwrap();
        let mut answer = Answer::default();
        loop {
            let message = ann.next().await.unwrap();
            match message.kind {
                b'E' => {
                    let fields = message.body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
                    answer.failure = fields.map(|field| String::from_utf8_lossy(field).into_owned()).collect();
                }
                b'Z' => break,
                _ => {}
            }
        }
        assert_eq!((answer.told('C'), answer.told('M'), answer.told('W')), (code, message, place));
    }
    assert!(said(&mut ann, "SELECT count(*) FROM t").await.contains(&"D 0".to_owned()));
    // The place is told once.
    let failed = asked(&mut ann, "SELECT 1/0", &[], &[], true).await;
    assert_eq!((failed.told('C'), failed.told('W')), ("22012", ""));
}

/// psycopg's cursors with names send the values of a query's parameters with DECLARE.
#[tokio::test]
async fn cursors_have_parameters() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE t AS SELECT g AS a, 'x' || g AS b FROM generate_series(1, 9) AS s(g); BEGIN")
        .await
        .unwrap();
    let fetched = async |ann: &mut Connection, name: &str| {
        let rows = said(ann, &format!("FETCH ALL FROM {name}")).await;
        rows.into_iter().filter(|line| line.starts_with("D ")).collect::<Vec<_>>()
    };
    let declared = "DECLARE one CURSOR FOR SELECT a, $2::text FROM t WHERE a > $1 ORDER BY a";
    let found = asked(&mut ann, declared, &[23, 0], &[&7_i32.to_be_bytes(), b"y"], true).await;
    assert_eq!((found.parameters.as_slice(), found.failure.len()), (&[23, 25][..], 0), "{found:?}");
    assert_eq!(fetched(&mut ann, "one").await, ["D 8,y", "D 9,y"]);
    // One that goes back, whose rows are kept, and one that outlives its transaction.
    for (name, kind) in [("two", "SCROLL CURSOR"), ("three", "CURSOR WITH HOLD")] {
        let declared = format!("DECLARE {name} {kind} FOR SELECT b FROM t WHERE a = ANY($1::int[]) ORDER BY a");
        let found = asked(&mut ann, &declared, &[], &[b"{2,5}"], false).await;
        assert_eq!(found.failure.len(), 0, "{found:?}");
        assert_eq!(fetched(&mut ann, name).await, ["D x2", "D x5"]);
    }
    let missing = asked(&mut ann, "DECLARE four CURSOR FOR SELECT $1::int", &[], &[], false).await;
    assert_eq!(missing.told('C'), "08P01", "{missing:?}");
}

/// Constants as well, whose elements are held as texts.
#[tokio::test]
async fn arrays_are_of_the_types_that_clients_are_told() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let constants = r#"SELECT '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'::uuid[] AS a, '{"{}"}'::jsonb[] AS b,
        '{x}'::varchar[] AS c"#;
    let types = "T a:2951,b:3807,c:1015";
    assert_eq!(said(&mut ann, constants).await[0], types);
    // Planned before, and then found planned.
    for _ in 0..2 {
        let mut messages = Vec::new();
        message::parse(&mut messages, "", constants);
        message::bind(&mut messages, "", &[], false);
        message::describe(&mut messages);
        message::execute(&mut messages, 0);
        message::sync(&mut messages);
        let row = r#"D {a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11},{"{}"},{x}"#;
        assert_eq!(told(&mut ann, &messages).await, ["1", "2", types, row, "C SELECT 1", "Z I"]);
    }
    // Parameters of which the client says the type.
    for (number, value, row) in [
        (2951, "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "D {a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"),
        (3807, r#"{"{\"a\":1}"}"#, r#"D {"{\"a\": 1}"}"#),
        (1231, "{1.12345678901234567890,2}", "D {1.1234567890123456789,2}"),
        (1007, "{{1,2},{3,4}}", "D {{1,2},{3,4}}"),
        (1009, r#"{{a,"b}"},{NULL,""}}"#, r#"D {{a,"b}"},{NULL,""}}"#),
    ] {
        let mut messages = Vec::new();
        message::put(&mut messages, b'P', |body| {
            body.extend(b"\0SELECT $1 AS a\0\0\x01");
            body.extend(u32::to_be_bytes(number));
        });
        message::bind(&mut messages, "", &[Some(value)], false);
        message::describe(&mut messages);
        message::execute(&mut messages, 0);
        message::sync(&mut messages);
        let types = format!("T a:{number}");
        assert_eq!(told(&mut ann, &messages).await, ["1", "2", types.as_str(), row, "C SELECT 1", "Z I"]);
    }
}

/// PostgREST and others set what a transaction needs in one query.
#[tokio::test]
async fn set_config_changes_settings_of_the_client() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let set = async |ann: &mut Connection, name: &str, value: &str, is_local: bool| {
        said(ann, &format!("SELECT set_config('{name}', '{value}', {is_local}) AS c")).await
    };
    assert_eq!(set(&mut ann, "statement_timeout", "5000", false).await[1], "D 5s");
    assert_eq!(said(&mut ann, "SHOW statement_timeout").await[1], "D 5s");
    let failed = |answers: Vec<String>| answers.into_iter().find(|said| said.starts_with('E')).unwrap();
    assert_eq!(failed(set(&mut ann, "statement_timeout", "soon", false).await), "E ERROR 22023");
    assert_eq!(failed(set(&mut ann, "nothing", "1", false).await), "E ERROR 42704");
    let told = set(&mut ann, "application_name", "a", false).await;
    assert!(told.contains(&"S application_name=a".to_owned()), "{told:?}");
    // For a transaction, and undone with one.
    said(&mut ann, "BEGIN").await;
    set(&mut ann, "transaction_read_only", "on", true).await;
    assert_eq!(said(&mut ann, "CREATE TABLE t (a INT)").await[0], "E ERROR 25006");
    said(&mut ann, "ROLLBACK; BEGIN").await;
    set(&mut ann, "statement_timeout", "1s", true).await;
    assert_eq!(said(&mut ann, "SHOW statement_timeout").await[1], "D 1s");
    said(&mut ann, "COMMIT").await;
    assert_eq!(said(&mut ann, "SHOW statement_timeout").await[1], "D 5s");
    set(&mut ann, "statement_timeout", "1s", true).await;
    assert_eq!(said(&mut ann, "SHOW statement_timeout").await[1], "D 5s");
    said(&mut ann, "CREATE ROLE clerk; BEGIN").await;
    set(&mut ann, "role", "clerk", true).await;
    assert_eq!(said(&mut ann, "SELECT current_user AS u, current_setting('role') AS r").await[1], "D clerk,clerk");
    said(&mut ann, "COMMIT").await;
    assert_eq!(said(&mut ann, "SHOW role").await[1], "D none");
    assert_eq!(failed(set(&mut ann, "role", "nobody", false).await), "E ERROR 22023");
}

/// To drivers an array's type says nothing of its dimensions.
#[tokio::test]
async fn arrays_of_several_dimensions_are_parameters() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE m (a INTEGER[][])").await.unwrap();
    let nested = &b"{{1,2},{3,4}}"[..];
    for (statement, types) in [
        ("INSERT INTO m VALUES ($1)", &[][..]),
        ("INSERT INTO m VALUES ($1)", &[1007]),
        ("INSERT INTO m VALUES ($1::INTEGER[][])", &[1005]),
    ] {
        let found = asked(&mut ann, statement, types, &[nested], false).await;
        assert_eq!(found.failure.len(), 0, "{statement} {found:?}");
    }
    let (head, pair) = ([2, 0, 23, 2, 1, 2, 1].map(i32::to_be_bytes).concat(), [4, 7].map(i32::to_be_bytes).concat());
    let found = asked(&mut ann, "INSERT INTO m VALUES ($1)", &[1007], &[&[head, pair.repeat(4)].concat()], true).await;
    assert_eq!(found.failure.len(), 0, "{found:?}");
    assert_eq!(said(&mut ann, "SELECT count(*) AS c, sum(a[2][1]) AS s FROM m").await[1], "D 4,16");
    let found = asked(&mut ann, "SELECT 3 = ANY($1), 5 = ANY($1)", &[1007], &[nested], false).await;
    assert_eq!(found.failure.len(), 0, "{found:?}");
}

/// By their answers drivers know in which zone times are, and how statements are read.
#[tokio::test]
async fn what_settings_become_is_told_once() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    for (statement, tag) in [("DISCARD ALL", "C DISCARD ALL"), ("RESET ALL", "C RESET")] {
        said(&mut ann, "SET application_name = 'a'; SET timezone = 'Asia/Tokyo'; SET jit = on").await;
        let told = said(&mut ann, statement).await;
        assert_eq!(told, ["S application_name", "S TimeZone=Europe/Berlin", tag, "Z I"]);
        assert_eq!(said(&mut ann, statement).await, [tag, "Z I"]);
        assert_eq!(said(&mut ann, "SHOW timezone").await[1], "D Europe/Berlin");
    }
    let changed = "SELECT set_config('timezone', 'Asia/Tokyo', false) AS z";
    let told = ["T z:25", "D Asia/Tokyo", "C SELECT 1", "S TimeZone=Asia/Tokyo", "Z I"];
    assert_eq!(said(&mut ann, changed).await, told);
    assert_eq!(said(&mut ann, changed).await, [&told[..3], &["Z I"]].concat());
    let script = "SELECT set_config('datestyle', 'German', false) AS d; SHOW datestyle";
    let told = said(&mut ann, script).await;
    assert_eq!(told[3..], ["T DateStyle:25", "D German, DMY", "S DateStyle=German, DMY", "C SHOW", "Z I"]);
}
