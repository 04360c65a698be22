//! Sessions as a client sees them, message by message.

use std::sync::Arc;

use diligence_client::{Address, Connection, message};
use diligence_db::{Database, DatabaseOptions, SessionOptions, rights::Rights};

use crate::config::ServerOptions;
use crate::server::Server;

pub(super) async fn serve() -> (Arc<Server>, Address) {
    serve_with(false).await
}

/// A server whose clients may name files, or may not.
async fn serve_with(files: bool) -> (Arc<Server>, Address) {
    let settings = vec![("timezone".to_owned(), "Europe/Berlin".to_owned())];
    let options = DatabaseOptions { workers: Some(2), settings, ..DatabaseOptions::default() };
    let postgres = Some("127.0.0.1:0".parse().unwrap());
    let options = (Database::open(options).unwrap(), ServerOptions { postgres, files, ..ServerOptions::default() });
    let server = Server::start(options.0, options.1).await.unwrap();
    let address = Address::Tcp(server.addresses().postgres.unwrap());
    (server, address)
}

pub(super) async fn connect(address: &Address) -> Connection {
    Connection::open(address, "ann", "diligence", &[]).await.unwrap()
}

/// Sends messages, and tells in short what is answered, until the server is ready or closes the connection.
pub(super) async fn told(connection: &mut Connection, messages: &[u8]) -> Vec<String> {
    connection.send(messages).await.unwrap();
    let mut told = Vec::new();
    loop {
        let Ok(message) = connection.next().await else {
            told.push("closed".to_owned());
            return told;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = match message.kind {
            b'T' => {
                let columns = message.columns().unwrap();
                columns.iter().map(|column| format!("{}:{}", column.name, column.oid)).collect::<Vec<_>>().join(",")
            }
            b'D' => {
                let values = message.values().unwrap();
                values.into_iter().map(|value| value.map_or("NULL".to_owned(), text)).collect::<Vec<_>>().join(",")
            }
            b'E' | b'N' => {
                let failure = message.failure().unwrap();
                format!("{} {}", failure.severity, failure.code)
            }
            b'S' => text(message.body).trim_end_matches('\0').replace('\0', "="),
            b'C' | b'Z' => text(message.body).trim_end_matches('\0').to_owned(),
            _ => String::new(),
        };
        told.push(format!("{} {said}", char::from(message.kind)).trim_end().to_owned());
        if message.kind == b'Z' {
            return told;
        }
    }
}

pub(super) async fn said(connection: &mut Connection, script: &str) -> Vec<String> {
    let mut messages = Vec::new();
    message::query(&mut messages, script);
    told(connection, &messages).await
}

async fn parse(connection: &mut Connection, name: &str, sql: &str) -> Vec<String> {
    let mut messages = Vec::new();
    message::parse(&mut messages, name, sql);
    message::sync(&mut messages);
    told(connection, &messages).await
}

/// Binds, describes and executes a statement.
async fn run(connection: &mut Connection, name: &str, values: &[Option<&str>]) -> Vec<String> {
    let mut messages = Vec::new();
    message::bind(&mut messages, name, values, false);
    message::describe(&mut messages);
    message::execute(&mut messages, 0);
    message::sync(&mut messages);
    told(connection, &messages).await
}

#[tokio::test]
async fn a_statement_whose_columns_have_changed_fails_until_it_is_parsed_again() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    let change = async |bob: &mut Connection, query: &str| {
        bob.simple(&format!("CREATE OR REPLACE TABLE pt AS {query}")).await.unwrap();
    };
    for name in ["", "named"] {
        change(&mut bob, "SELECT 1 AS a").await;
        assert_eq!(parse(&mut ann, name, "SELECT * FROM pt").await, ["1", "Z I"]);
        assert_eq!(run(&mut ann, name, &[]).await, ["2", "T a:23", "D 1", "C SELECT 1", "Z I"]);
        for query in ["SELECT 1 AS a, 2 AS b", "SELECT 1 AS b", "SELECT 'x' AS a"] {
            change(&mut bob, query).await;
            for _ in 0..2 {
                assert_eq!(run(&mut ann, name, &[]).await, ["2", "T a:23", "E ERROR 0A000", "Z I"], "{query}");
            }
        }
        assert_eq!(said(&mut ann, "BEGIN").await, ["C BEGIN", "Z T"]);
        assert_eq!(run(&mut ann, name, &[]).await, ["2", "T a:23", "E ERROR 0A000", "Z E"]);
        assert_eq!(said(&mut ann, "ROLLBACK").await, ["C ROLLBACK", "Z I"]);
        // Other rows, and a table that was dropped in between, are no other columns.
        bob.simple("DROP TABLE pt").await.unwrap();
        assert_eq!(run(&mut ann, name, &[]).await, ["2", "T a:23", "E ERROR 42P01", "Z I"]);
        change(&mut bob, "SELECT 7 AS a").await;
        assert_eq!(run(&mut ann, name, &[]).await, ["2", "T a:23", "D 7", "C SELECT 1", "Z I"]);
        // Parsed again, it is another statement.
        change(&mut bob, "SELECT 1 AS a, 'x' AS b").await;
        let mut messages = Vec::new();
        message::put(&mut messages, b'C', |body| body.extend(format!("S{name}\0").bytes()));
        message::sync(&mut messages);
        assert_eq!(told(&mut ann, &messages).await, ["3", "Z I"]);
        assert_eq!(parse(&mut ann, name, "SELECT * FROM pt").await, ["1", "Z I"]);
        assert_eq!(run(&mut ann, name, &[]).await, ["2", "T a:23,b:25", "D 1,x", "C SELECT 1", "Z I"]);
    }
    // The rows of a cursor are those of the moment when it was declared.
    assert_eq!(said(&mut ann, "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM pt").await, ["C DECLARE CURSOR", "Z I"]);
    change(&mut bob, "SELECT 2 AS a").await;
    assert_eq!(said(&mut ann, "FETCH 1 FROM c").await, ["T a:23,b:25", "D 1,x", "C FETCH 1", "Z I"]);
}

#[tokio::test]
async fn cursors_go_back_outlive_their_block_and_come_from_functions() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let rows = "SELECT g AS a FROM generate_series(1, 3000) g ORDER BY g";
    assert_eq!(said(&mut ann, &format!("DECLARE c CURSOR FOR {rows}")).await, ["E ERROR 25P01", "Z I"]);
    said(&mut ann, "CREATE TABLE ct (a INT); INSERT INTO ct VALUES (1)").await;
    // What the transaction does afterwards is not seen.
    said(&mut ann, "BEGIN; DECLARE s CURSOR FOR SELECT a FROM ct; INSERT INTO ct VALUES (2)").await;
    assert_eq!(said(&mut ann, "FETCH ALL s").await, ["T a:23", "D 1", "C FETCH 1", "Z T"]);
    // Of a small table, it goes back as well.
    assert_eq!(said(&mut ann, "FETCH PRIOR s").await, ["T a:23", "D 1", "C FETCH 1", "Z T"]);
    said(&mut ann, "ROLLBACK").await;
    said(&mut ann, &format!("BEGIN; DECLARE c SCROLL CURSOR FOR {rows}")).await;
    for (sql, told) in [
        ("FETCH 2 c", ["D 1", "D 2", "C FETCH 2"].as_slice()),
        ("FETCH PRIOR c", &["D 1", "C FETCH 1"]),
        ("FETCH PRIOR c", &["C FETCH 0"]),
        ("FETCH LAST c", &["D 3000", "C FETCH 1"]),
        ("FETCH BACKWARD 2 c", &["D 2999", "D 2998", "C FETCH 2"]),
        ("FETCH ABSOLUTE -2 c", &["D 2999", "C FETCH 1"]),
        ("FETCH RELATIVE 0 c", &["D 2999", "C FETCH 1"]),
        ("FETCH ABSOLUTE 7 c", &["D 7", "C FETCH 1"]),
    ] {
        let said = said(&mut ann, sql).await;
        assert_eq!(said[0], "T a:23", "{sql}");
        assert_eq!(said[1..said.len() - 1], *told, "{sql}");
    }
    assert_eq!(said(&mut ann, "MOVE ALL c").await, ["C MOVE 2993", "Z T"]);
    // Rows come turned around, over many batches.
    let back = said(&mut ann, "FETCH BACKWARD ALL c").await;
    let expected = (1..=3000).rev().map(|row| format!("D {row}")).collect::<Vec<_>>();
    assert_eq!(back[1..back.len() - 2], expected);
    assert_eq!(said(&mut ann, "COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(said(&mut ann, "FETCH c").await, ["E ERROR 34000", "Z I"]);
    // One that is held stays, unless its transaction is taken back.
    said(&mut ann, "BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT a FROM ct; FETCH h; COMMIT; DELETE FROM ct").await;
    assert_eq!(said(&mut ann, "FETCH FIRST h").await, ["T a:23", "D 1", "C FETCH 1", "Z I"]);
    let shown = said(&mut ann, "SELECT name, is_holdable FROM pg_cursors").await;
    assert_eq!(shown[1..], ["D h,t", "C SELECT 1", "Z I"]);
    said(&mut ann, "CLOSE ALL; BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT 1; ROLLBACK").await;
    assert_eq!(said(&mut ann, "FETCH h").await, ["E ERROR 34000", "Z I"]);
    // A function opens one for its client.
    let body = "DECLARE r refcursor := 'rc'; BEGIN OPEN r FOR SELECT g FROM generate_series(1, 3) g; RETURN r; END";
    said(&mut ann, &format!("CREATE FUNCTION rf() RETURNS refcursor LANGUAGE plpgsql AS $$ {body} $$")).await;
    assert_eq!(said(&mut ann, "BEGIN; SELECT rf()").await, ["C BEGIN", "T rf:1790", "D rc", "C SELECT 1", "Z T"]);
    assert_eq!(said(&mut ann, "FETCH 2 rc").await, ["T g:23", "D 1", "D 2", "C FETCH 2", "Z T"]);
    assert_eq!(said(&mut ann, "COMMIT; FETCH rc").await, ["C COMMIT", "E ERROR 34000", "Z I"]);
}

#[tokio::test]
async fn a_block_is_committed_or_taken_back_as_a_whole() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob, mut carl) = (connect(&address).await, connect(&address).await, connect(&address).await);
    let sum = "SELECT sum(a)::int FROM w";
    assert_eq!(said(&mut ann, "CREATE TABLE w (a INT); INSERT INTO w VALUES (1), (2)").await[1], "C INSERT 0 2");
    let script = "BEGIN; UPDATE w SET a = a * 10 WHERE a > 1; SAVEPOINT s; DELETE FROM w; ROLLBACK TO s";
    let tags = ["C BEGIN", "C UPDATE 1", "C SAVEPOINT", "C DELETE 2", "C ROLLBACK", "Z T"];
    assert_eq!(said(&mut ann, script).await, tags);
    assert_eq!(said(&mut bob, sum).await[1], "D 3");
    assert_eq!(said(&mut ann, sum).await[1], "D 21");
    assert_eq!(said(&mut ann, "COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(said(&mut bob, sum).await[1], "D 21");
    // A statement that fails takes the block with it.
    assert_eq!(said(&mut ann, "BEGIN; DELETE FROM w; SELECT 1 / 0").await[3..], ["E ERROR 22012", "Z E"]);
    assert_eq!(said(&mut ann, "COMMIT").await, ["C ROLLBACK", "Z I"]);
    assert_eq!(said(&mut ann, sum).await[1], "D 21");
    // Of two that change one row, the second waits for the first, and changes what that has left.
    said(&mut ann, "BEGIN; UPDATE w SET a = 5 WHERE a = 1").await;
    said(&mut bob, "SET lock_timeout = '20ms'").await;
    assert_eq!(said(&mut bob, "UPDATE w SET a = 6 WHERE a < 10").await, ["E ERROR 55P03", "Z I"]);
    said(&mut bob, "SET lock_timeout = 0").await;
    let (waited, ()) = tokio::join!(said(&mut bob, "UPDATE w SET a = a + 1 WHERE a < 10"), async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while said(&mut carl, waiting).await[1] != "D 1" {}
        assert_eq!(said(&mut ann, "COMMIT").await, ["C COMMIT", "Z I"]);
    });
    assert_eq!(waited, ["C UPDATE 1", "Z I"]);
    assert_eq!(said(&mut ann, sum).await[1], "D 26");
    assert_eq!(said(&mut ann, "BEGIN READ ONLY; DELETE FROM w").await[1], "E ERROR 25006");
    said(&mut ann, "ROLLBACK").await;
}

#[tokio::test]
async fn transactions_that_only_read_count_nothing() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    said(&mut ann, "CREATE SEQUENCE s; CREATE TEMP SEQUENCE mine; CREATE TEMP TABLE t (a SERIAL, b INT)").await;
    for sql in [
        "BEGIN READ ONLY; SELECT nextval('s')",
        "BEGIN READ ONLY; SELECT setval('s', 5)",
        "BEGIN; SET TRANSACTION READ ONLY; SELECT nextval('s')",
        "BEGIN; SET transaction_read_only = on; SELECT nextval('s')",
    ] {
        let answer = said(&mut ann, sql).await;
        assert_eq!(answer[answer.len() - 2..], ["E ERROR 25006", "Z E"], "{sql}");
        said(&mut ann, "ROLLBACK").await;
    }
    // What is the session's alone counts.
    let own =
        "BEGIN READ ONLY; SELECT setval('s', 5) WHERE false; INSERT INTO t (b) VALUES (1); SELECT nextval('mine')";
    let answer = said(&mut ann, own).await;
    assert_eq!(answer[answer.len() - 3..], ["D 1", "C SELECT 1", "Z T"], "{answer:?}");
    said(&mut ann, "COMMIT").await;
    assert_eq!(said(&mut ann, "SELECT nextval('s')").await[1], "D 1");
    let unlocked = said(&mut ann, "SELECT pg_advisory_unlock(5)").await;
    assert!(unlocked.contains(&"N WARNING 01000".to_owned()), "{unlocked:?}");
    said(&mut ann, "SET default_transaction_read_only = on").await;
    let answer = said(&mut ann, "SELECT nextval('s')").await;
    assert_eq!(answer[answer.len() - 2..], ["E ERROR 25006", "Z I"]);
    said(&mut ann, "SET default_transaction_read_only = off").await;
    assert_eq!(said(&mut ann, "SELECT nextval('s')").await[1], "D 2");
    // What the last block was says nothing of a COPY.
    said(&mut ann, "CREATE TABLE counted (a SERIAL, b INT); BEGIN READ ONLY; SELECT 1; COMMIT").await;
    let mut copy = Vec::new();
    message::query(&mut copy, "COPY counted (b) FROM STDIN");
    message::put(&mut copy, b'd', |body| body.extend(b"5\n6\n"));
    message::put(&mut copy, b'c', |_| {});
    let answer = told(&mut ann, &copy).await;
    assert_eq!(answer[answer.len() - 2..], ["C COPY 2", "Z I"]);
    assert_eq!(said(&mut ann, "SELECT sum(a) FROM counted").await[1], "D 3");
}

#[tokio::test]
async fn transactions_tell_how_they_are() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let modes = ["isolation", "read_only", "deferrable"].map(|name| format!("current_setting('transaction_{name}')"));
    let asked = format!("SELECT {}", modes.join(", "));
    for (begin, told) in [
        ("BEGIN", "read committed,off,off"),
        ("BEGIN DEFERRABLE", "read committed,off,on"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", "serializable,on,on"),
        ("BEGIN DEFERRABLE; SET TRANSACTION NOT DEFERRABLE", "read committed,off,off"),
        ("BEGIN; SET transaction_isolation = 'repeatable read'", "repeatable read,off,off"),
        ("BEGIN DEFERRABLE; COMMIT AND CHAIN", "read committed,off,on"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION DEFERRABLE|BEGIN", "read committed,off,on"),
        ("SET default_transaction_deferrable = off|BEGIN", "read committed,off,off"),
    ] {
        for script in begin.split('|') {
            said(&mut ann, script).await;
        }
        assert_eq!(said(&mut ann, &asked).await[1], format!("D {told}"), "{begin}");
        let deferrable = shown(&mut ann, "transaction_deferrable").await;
        assert!(told.ends_with(&deferrable), "{begin}: {deferrable}");
        said(&mut ann, "COMMIT").await;
    }
    assert_eq!(said(&mut ann, "BEGIN; SELECT 1; SET TRANSACTION DEFERRABLE").await[4..], ["E ERROR 25001", "Z E"]);
    said(&mut ann, "ROLLBACK").await;
    assert_eq!(shown(&mut ann, "session_replication_role").await, "origin");
    assert_eq!(said(&mut ann, "SET session_replication_role = local").await, ["C SET", "Z I"]);
    assert_eq!(said(&mut ann, "SET session_replication_role = replica").await, ["E ERROR 22023", "Z I"]);
}

#[tokio::test]
async fn settings_for_all_are_what_sessions_begin_with() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    for (alter, tag) in [
        ("ALTER SYSTEM SET statement_timeout = '7s'", "C ALTER SYSTEM"),
        ("ALTER SYSTEM SET work_mem TO '7MB'", "C ALTER SYSTEM"),
        ("ALTER ROLE ALL SET query_memory = '65MiB'", "C ALTER ROLE"),
        ("ALTER DATABASE diligence SET application_name = 'all'", "C ALTER DATABASE"),
        ("ALTER SYSTEM SET sharing_columns = 11", "C ALTER SYSTEM"),
    ] {
        assert_eq!(said(&mut ann, alter).await, [tag, "Z I"], "{alter}");
    }
    assert_eq!(said(&mut ann, "ALTER SYSTEM SET log_temp_files = -1").await, ["C ALTER SYSTEM", "Z I"]);
    // What is everybody's is so at once; sessions that are there stay as they are.
    assert_eq!(shown(&mut ann, "sharing_columns").await, "11");
    assert_eq!(shown(&mut ann, "statement_timeout").await, "0");
    let mut bob = connect(&address).await;
    let expected = [("statement_timeout", "7s"), ("work_mem", "7MB"), ("query_memory", "65.0 MiB")];
    for (name, value) in expected.into_iter().chain([("application_name", "all")]) {
        assert_eq!(shown(&mut bob, name).await, value, "{name}");
    }
    // RESET gives it back.
    said(&mut bob, "SET statement_timeout = 0; SET work_mem = '1MB'; SET query_memory = '70MiB'").await;
    said(&mut bob, "RESET statement_timeout; RESET work_mem; RESET query_memory").await;
    for (name, value) in expected {
        assert_eq!(shown(&mut bob, name).await, value, "{name}");
    }
    let all = said(&mut bob, "SELECT setconfig FROM pg_db_role_setting WHERE setrole = 0").await;
    assert!(all[1].contains("work_mem=7MB"), "{all:?}");
    for (wrong, code) in [
        ("ALTER SYSTEM SET statement_timeout = 'soon'", "22023"),
        ("ALTER SYSTEM SET sharing_columns = 101", "22023"),
        ("ALTER SYSTEM SET workers = 3", "55P02"),
        ("ALTER DATABASE other SET work_mem = '1MB'", "3D000"),
        ("ALTER SYSTEM SET work_mem", "42601"),
        ("BEGIN; ALTER SYSTEM SET work_mem = '1MB'", "25001"),
    ] {
        let answer = said(&mut ann, wrong).await;
        assert_eq!(answer[answer.len() - 2], format!("E ERROR {code}"), "{wrong}");
        said(&mut ann, "ROLLBACK").await;
    }
    assert!(said(&mut ann, "ALTER SYSTEM SET nonsense = 1").await[0].starts_with("E ERROR"));
    assert_eq!(said(&mut ann, "SELECT pg_reload_conf()").await[1], "D t");
    assert_eq!(said(&mut ann, "ALTER SYSTEM RESET work_mem; ALTER SYSTEM RESET ALL").await[1], "C ALTER SYSTEM");
    assert_eq!(shown(&mut ann, "sharing_columns").await, "30");
    let mut carl = connect(&address).await;
    assert_eq!(shown(&mut carl, "statement_timeout").await, "0");
    assert_eq!(shown(&mut carl, "work_mem").await, "4MB");
}

#[tokio::test]
async fn statements_with_parameters_fail_only_if_their_columns_have_changed() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    bob.simple("CREATE TABLE pt AS SELECT 1 AS a, 2.5 AS b, 'x' AS c").await.unwrap();
    let statements = [
        ("SELECT * FROM pt WHERE a = $1", "1"),
        ("SELECT $1 AS p, a FROM pt", "text"),
        ("SELECT a + $1, c || 'y' FROM pt", "3"),
        ("SELECT b * $1::numeric AS p FROM pt", "12.25"),
        ("SELECT c, count(*) AS n FROM pt WHERE c = $1 GROUP BY c", "x"),
        ("SELECT max(a) FROM pt WHERE b > $1 UNION ALL SELECT 7", "1"),
    ];
    for (number, (sql, _)) in statements.into_iter().enumerate() {
        assert_eq!(parse(&mut ann, &format!("s{number}"), sql).await, ["1", "Z I"], "{sql}");
    }
    // Several times: from the second on by a generic plan.
    for _ in 0..3 {
        for (number, (sql, value)) in statements.into_iter().enumerate() {
            let answer = run(&mut ann, &format!("s{number}"), &[Some(value)]).await;
            assert!(answer.iter().any(|line| line.starts_with("C SELECT")), "{sql}: {answer:?}");
        }
    }
    bob.simple("CREATE OR REPLACE TABLE pt AS SELECT 1 AS a, 2.5 AS b, 3 AS c").await.unwrap();
    let answer = run(&mut ann, "s0", &[Some("1")]).await;
    assert_eq!(answer, ["2", "T a:23,b:1700,c:25", "E ERROR 0A000", "Z I"]);
    let answer = run(&mut ann, "s5", &[Some("1")]).await;
    assert!(answer.iter().any(|line| line.starts_with("C SELECT")), "{answer:?}");
}

async fn shown(connection: &mut Connection, name: &str) -> String {
    let answers = connection.simple(&format!("SHOW {name}")).await.unwrap();
    String::from_utf8(answers[0].rows[0][0].clone().unwrap()).unwrap()
}

#[tokio::test]
async fn settings_go_back_with_their_transaction() {
    let (_server, address) = serve().await;
    let settings = [
        ("application_name", ["first", "second", "third"]),
        ("statement_timeout", ["100s", "200s", "5min"]),
        ("packets", ["3", "4", "5"]),
        ("query_memory", ["64.0 MiB", "65.0 MiB", "66.0 MiB"]),
        ("timezone", ["+01:00", "+02:00", "+03:00"]),
    ];
    for (name, values) in settings {
        let mut ann = connect(&address).await;
        let start = shown(&mut ann, name).await;
        let set = |number: usize| format!("SET {name} = '{}'", values[number - 1]);
        let set_local = |number: usize| format!("SET LOCAL {name} TO '{}'", values[number - 1]);
        let (reset, reset_local) = (format!("RESET {name}"), format!("SET LOCAL {name} = DEFAULT"));
        // Statements, and which value holds behind each; 0 is that of the start.
        let steps = [
            (set(1), 1),
            (set_local(3), 1),
            ("BEGIN".into(), 1),
            (set_local(2), 2),
            ("COMMIT".into(), 1),
            ("BEGIN".into(), 1),
            (set(2), 2),
            ("ROLLBACK".into(), 1),
            ("BEGIN".into(), 1),
            (set_local(3), 3),
            (set(2), 2),
            (set_local(3), 3),
            ("COMMIT".into(), 2),
            ("BEGIN".into(), 2),
            (set(1), 1),
            ("SAVEPOINT s".into(), 1),
            (set(2), 2),
            ("SAVEPOINT t".into(), 2),
            (set_local(3), 3),
            ("ROLLBACK TO SAVEPOINT s".into(), 1),
            (set_local(3), 3),
            ("RELEASE SAVEPOINT s".into(), 3),
            ("COMMIT".into(), 1),
            ("BEGIN".into(), 1),
            (reset.clone(), 0),
            ("ROLLBACK".into(), 1),
            ("BEGIN".into(), 1),
            (reset_local, 0),
            ("COMMIT".into(), 1),
            ("BEGIN".into(), 1),
            ("RESET ALL".into(), 0),
            ("ROLLBACK".into(), 1),
            ("BEGIN".into(), 1),
            (reset, 0),
            ("COMMIT".into(), 0),
        ];
        for (step, (sql, holds)) in steps.iter().enumerate() {
            ann.simple(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let expected = if *holds == 0 { start.as_str() } else { values[holds - 1] };
            assert_eq!(shown(&mut ann, name).await, expected, "{name}, step {step}: {sql}");
        }
        // A block that has failed is rolled back.
        ann.simple(&set(1)).await.unwrap();
        ann.simple(&format!("BEGIN; {}", set(2))).await.unwrap();
        assert!(ann.simple("SELECT nothing").await.is_err());
        assert_eq!(said(&mut ann, "COMMIT").await.last().unwrap(), "Z I");
        assert_eq!(shown(&mut ann, name).await, values[0], "{name}");
    }
}

#[tokio::test]
async fn clients_are_told_what_becomes_of_settings() {
    let (server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("SET application_name = 'before'").await.unwrap();
    let script = "BEGIN; SET LOCAL application_name = 'within'; SET LOCAL packets = 2; COMMIT";
    let within = ["C BEGIN", "S application_name=within", "C SET", "C SET", "S application_name=before", "C COMMIT"];
    assert_eq!(said(&mut ann, script).await, [&within[..], &["Z I"]].concat());
    let query = "SELECT current_setting('application_name') AS name";
    assert_eq!(said(&mut ann, query).await, ["T name:25", "D before", "C SELECT 1", "Z I"]);
    for sql in ["SET LOCAL packets = 2", "SET LOCAL packets TO DEFAULT"] {
        let tag = if sql.ends_with("DEFAULT") { "C RESET" } else { "C SET" };
        assert_eq!(said(&mut ann, sql).await, ["N WARNING 25P01", tag, "Z I"]);
    }
    assert_eq!(said(&mut ann, "BEGIN; ROLLBACK TO nowhere").await, ["C BEGIN", "E ERROR 3B001", "Z E"]);
    assert_eq!(said(&mut ann, "ROLLBACK; SAVEPOINT s").await, ["C ROLLBACK", "E ERROR 25P01", "Z I"]);
    // What is everybody's does not go with one's transaction.
    let memory = server.execution().database().status().memory_budget_bytes();
    assert_eq!(said(&mut ann, "BEGIN; SET LOCAL memory = '1GiB'").await, ["C BEGIN", "E ERROR 55P02", "Z E"]);
    assert_eq!(server.execution().database().status().memory_budget_bytes(), memory);
    let script = "ROLLBACK; BEGIN; SET sharing_retained = 7; ROLLBACK";
    assert_eq!(said(&mut ann, script).await, ["C ROLLBACK", "C BEGIN", "C SET", "C ROLLBACK", "Z I"]);
    assert_eq!(shown(&mut ann, "sharing_retained").await, "7");
}

#[tokio::test]
async fn a_zone_goes_back_with_its_transaction() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let zone = "timezone";
    // By itself: what a script has before BEGIN belongs to the block.
    ann.simple("SET TIME ZONE '+01:00'").await.unwrap();
    ann.simple("BEGIN; SET LOCAL TIME ZONE '+02:00'").await.unwrap();
    assert_eq!(shown(&mut ann, zone).await, "+02:00");
    ann.simple("SET timezone = '+03:00'; ROLLBACK").await.unwrap();
    assert_eq!(shown(&mut ann, zone).await, "+01:00");
}

#[tokio::test]
async fn move_goes_over_rows_and_sends_none() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let cursor = "DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 10000) AS n ORDER BY n";
    assert_eq!(said(&mut ann, &format!("BEGIN; {cursor}")).await, ["C BEGIN", "C DECLARE CURSOR", "Z T"]);
    assert_eq!(said(&mut ann, "MOVE 3 FROM c").await, ["C MOVE 3", "Z T"]);
    assert_eq!(said(&mut ann, "FETCH 2 FROM c").await, ["T n:23", "D 4", "D 5", "C FETCH 2", "Z T"]);
    assert_eq!(parse(&mut ann, "moves", "MOVE FORWARD 4000 IN c").await, ["1", "Z T"]);
    assert_eq!(run(&mut ann, "moves", &[]).await, ["2", "n", "C MOVE 4000", "Z T"]);
    assert_eq!(run(&mut ann, "moves", &[]).await, ["2", "n", "C MOVE 4000", "Z T"]);
    assert_eq!(said(&mut ann, "FETCH c").await, ["T n:23", "D 8006", "C FETCH 1", "Z T"]);
    assert_eq!(said(&mut ann, "MOVE ALL IN c").await, ["C MOVE 1994", "Z T"]);
    assert_eq!(said(&mut ann, "MOVE c").await, ["C MOVE 0", "Z T"]);
}

#[tokio::test]
async fn what_is_not_understood_is_answered() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let mut call = Vec::new();
    message::put(&mut call, b'F', |body| body.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
    assert_eq!(told(&mut ann, &call).await, ["E ERROR 0A000", "Z I"]);
    assert_eq!(said(&mut ann, "BEGIN").await, ["C BEGIN", "Z T"]);
    assert_eq!(told(&mut ann, &call).await, ["E ERROR 0A000", "Z E"]);
    assert_eq!(said(&mut ann, "ROLLBACK; SELECT 1 AS a").await, ["C ROLLBACK", "T a:23", "D 1", "C SELECT 1", "Z I"]);

    let mut unknown = Vec::new();
    message::put(&mut unknown, b'z', |_| {});
    assert_eq!(told(&mut ann, &unknown).await, ["E FATAL 08P01", "closed"]);

    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE t (a INT)").await.unwrap();
    let mut copy = Vec::new();
    message::query(&mut copy, "COPY t FROM STDIN");
    message::put(&mut copy, b'd', |body| body.extend(b"1\n"));
    message::query(&mut copy, "SELECT 1");
    assert_eq!(told(&mut ann, &copy).await, ["G", "E FATAL 08P01", "closed"]);
    let mut bob = connect(&address).await;
    assert_eq!(said(&mut bob, "SELECT count(*) AS n FROM t").await, ["T n:20", "D 0", "C SELECT 1", "Z I"]);
}

#[tokio::test]
async fn files_of_the_server_are_copied_in_the_forms_that_clients_get() {
    let (_server, address) = serve_with(true).await;
    let mut ann = connect(&address).await;
    let folder = std::env::temp_dir().join(format!("copied-by-server-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(file("given.txt"), "1\ta\\tb\t\\N\n2\t\\N\t3\n").unwrap();
    std::fs::write(file("given.csv"), b"a,b,c\n5,\"\",6\n7,caf\xe9,x\n").unwrap();
    let tag = |told: Vec<String>| told.into_iter().find(|told| told.starts_with(['C', 'E'])).unwrap();
    tag(said(&mut ann, "CREATE TABLE t (a INT, b TEXT, c INT)").await);
    for (sql, expected) in [
        (format!("COPY t FROM '{}'", file("given.txt")), "C COPY 2"),
        (format!("COPY t TO '{}' (FORMAT binary)", file("t.bin")), "C COPY 2"),
        (format!("COPY t FROM '{}' (FORMAT binary)", file("t.bin")), "C COPY 2"),
        (format!("COPY t TO '{}' (FORMAT csv, HEADER, FORCE_QUOTE (b))", file("quoted.csv")), "C COPY 4"),
        (format!("COPY t TO '{}' (FORMAT text)", file("t.txt")), "C COPY 4"),
        (
            format!(
                "COPY t FROM '{}' (FORMAT csv, HEADER match, FORCE_NULL (b), ON_ERROR ignore, ENCODING 'latin1')",
                file("given.csv")
            ),
            "C COPY 1",
        ),
        (format!("COPY t (b, a) FROM '{}' (FORMAT text)", file("given.txt")), "E ERROR 22P04"),
        (format!("COPY t FROM '{}' (FORMAT text)", file("nowhere.txt")), "E ERROR 58P01"),
        ("COPY (INSERT INTO t VALUES (9, 'x', 8) RETURNING a, b) TO STDOUT".to_owned(), "C COPY 1"),
        ("COPY (INSERT INTO t VALUES (9, 'x', 8)) TO STDOUT".to_owned(), "E ERROR 0A000"),
    ] {
        assert_eq!(tag(said(&mut ann, &sql).await), expected, "{sql}");
    }
    let rows = said(&mut ann, "SELECT count(*), count(b), sum(a) FROM t").await;
    assert!(rows.contains(&"D 6,3,20".to_owned()), "{rows:?}");
    // Arrays as well.
    tag(said(&mut ann, "CREATE TABLE lists (i INT[], s TEXT[], n NUMERIC[])").await);
    let lists = "INSERT INTO lists VALUES ('{1,NULL}', '{a,\"b c\"}', '{1,2.50}'), ('{}', NULL, '{}')";
    assert_eq!(tag(said(&mut ann, lists).await), "C INSERT 0 2");
    for what in ["TO", "FROM"] {
        let sql = format!("COPY lists {what} '{}' (FORMAT binary)", file("lists.bin"));
        assert_eq!(tag(said(&mut ann, &sql).await), "C COPY 2", "{sql}");
    }
    let all = said(&mut ann, "SELECT i, s, count(*) AS c FROM lists GROUP BY i, s ORDER BY i").await;
    assert!(all.iter().filter(|row| row.starts_with("D ")).all(|row| row.ends_with(",2")), "{all:?}");
    assert_eq!(all.iter().filter(|row| row.starts_with("D ")).count(), 2, "{all:?}");
    let quoted = std::fs::read_to_string(file("quoted.csv")).unwrap();
    let mut lines = quoted.lines().collect::<Vec<_>>();
    lines[1..].sort_unstable();
    assert_eq!(lines, ["a,b,c", "1,\"a\tb\",", "1,\"a\tb\",", "2,,3", "2,,3"]);
    std::fs::remove_dir_all(&folder).unwrap();
    // Who may name no files may not do it so either.
    let (_server, address) = serve().await;
    let mut bob = connect(&address).await;
    tag(said(&mut bob, "CREATE TABLE t (a INT)").await);
    for sql in ["COPY t FROM '/tmp/x.txt' (FORMAT text)", "COPY t TO '/tmp/x.txt' (FORMAT binary)"] {
        assert_eq!(tag(said(&mut bob, sql).await), "E ERROR 42501", "{sql}");
    }
}

#[tokio::test]
async fn statements_change_the_row_on_which_a_cursor_stands() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let failure = |told: Vec<String>| told.into_iter().find(|told| told.starts_with('E')).unwrap_or_default();
    said(&mut ann, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT)").await;
    said(&mut ann, "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 5) AS s(g)").await;
    for (declare, left) in [
        ("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a FOR UPDATE", "1x,2second!,4x,5x"),
        ("DECLARE c SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "1x,2xsecond!,4x,5x"),
        // The table is so small that its rows are kept anyway.
        ("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a", "1x,2second!,4x,5x"),
        ("DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "1x,2second!,4x,5x"),
    ] {
        let is_first = left.starts_with("1x,2s");
        let first = if is_first { "UPDATE t SET b = 'second'" } else { "UPDATE t SET b = 'xsecond'" };
        let script = format!(
            "BEGIN; {declare}; FETCH 2 FROM c; {first} WHERE CURRENT OF c; \
             UPDATE t SET b = b || '!' WHERE CURRENT OF c RETURNING a; FETCH c; DELETE FROM t WHERE CURRENT OF c; COMMIT"
        );
        let told = said(&mut ann, &script).await;
        assert_eq!(failure(told.clone()), "", "{told:?}");
        assert!(told.contains(&"C DELETE 1".to_owned()), "{told:?}");
        let rows = said(&mut ann, "SELECT string_agg(a || b, ',' ORDER BY a) FROM t").await;
        assert!(rows.contains(&format!("D {left}")), "{rows:?}");
        said(&mut ann, "INSERT INTO t VALUES (3, 'x'); UPDATE t SET b = 'x'").await;
    }
    let declared = "BEGIN; DECLARE c CURSOR FOR SELECT t.a FROM t";
    for (script, code) in [
        ("UPDATE t SET b = '' WHERE CURRENT OF c".to_owned(), "34000"),
        (format!("{declared}, t u; FETCH c; UPDATE t SET b = '' WHERE CURRENT OF c"), "0A000"),
        (format!("{declared}; MOVE ALL c; UPDATE t SET b = '' WHERE CURRENT OF c"), "24000"),
        (format!("{declared} FOR UPDATE; MOVE ALL c; DELETE FROM t WHERE CURRENT OF c"), "24000"),
        (format!("{declared} FOR UPDATE; FETCH c; FETCH BACKWARD 1 FROM c"), "55000"),
        ("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t; FETCH 2 FROM c; FETCH PRIOR FROM c".into(), "55000"),
    ] {
        assert_eq!(failure(said(&mut ann, &script).await), format!("E ERROR {code}"), "{script}");
        said(&mut ann, "ROLLBACK").await;
    }
    // Without SCROLL, a cursor of a small table goes back.
    let script = "BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a; FETCH 3 FROM c; FETCH PRIOR FROM c; \
                  FETCH FIRST FROM c; FETCH LAST FROM c; FETCH RELATIVE -1 FROM c; ROLLBACK";
    let told = said(&mut ann, script).await;
    let rows = told.iter().filter_map(|told| told.strip_prefix("D ")).collect::<Vec<_>>();
    assert_eq!(rows, ["1", "2", "3", "2", "1", "5", "4"], "{told:?}");
}

#[tokio::test]
async fn the_client_is_told_what_it_wants_to_be_told() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let notices = |told: Vec<String>| told.iter().filter(|told| told.starts_with('N')).count();
    for (level, expected) in [("notice", 1), ("warning", 0), ("debug1", 1), ("error", 0)] {
        let script = format!("SET client_min_messages = {level}; DROP TABLE IF EXISTS nowhere");
        assert_eq!(notices(said(&mut ann, &script).await), expected, "{level}");
    }
}

#[tokio::test]
async fn rows_that_a_copy_leaves_out_are_told_as_it_wants() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE t (a INT, d DATE)").await.unwrap();
    for (verbosity, notices) in [("default", 1), ("verbose", 3), ("silent", 0)] {
        let mut copy = Vec::new();
        message::query(&mut copy, &format!("COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY {verbosity})"));
        message::put(&mut copy, b'd', |body| {
            body.extend(b"1\t2024-01-01\nx\t2024-01-01\n3\t2024-13-01\n4\t\\N\n\\.\n")
        });
        message::put(&mut copy, b'c', |_| {});
        ann.send(&copy).await.unwrap();
        let mut texts = Vec::new();
        loop {
            let message = ann.next().await.unwrap();
            match message.kind {
                b'N' => texts.push(message.failure().unwrap().message),
                b'C' => assert_eq!(message.text(), Some("COPY 2")),
                b'E' => panic!("{:?}", message.failure()),
                b'Z' => break,
                _ => {}
            }
        }
        assert_eq!(texts.len(), notices, "{texts:?}");
        if notices > 0 {
            assert_eq!(texts[notices - 1], "2 rows were skipped due to data type incompatibility");
        }
        if notices > 1 {
            let wrong = "skipping row due to data type incompatibility at line 2 for column \"a\": \"x\"";
            assert_eq!(texts[0], wrong);
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_names_and_settings_has_its_code() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    ann.simple("CREATE TABLE t (a INT); CREATE SCHEMA s; CREATE TABLE s.t (a INT)").await.unwrap();
    let mistakes = [
        ("DROP TABLE nowhere", "42P01"),
        ("DROP VIEW s.nowhere", "42P01"),
        ("DROP TABLE nosuch.t", "3F000"),
        ("DROP SCHEMA nosuch", "3F000"),
        ("CREATE TABLE nosuch.t (a INT)", "3F000"),
        ("DROP VIEW t", "42809"),
        ("CREATE OR REPLACE VIEW t AS SELECT 1 AS a", "42809"),
        ("DROP SCHEMA s", "2BP01"),
        ("CREATE SCHEMA s", "42P06"),
        ("CREATE TABLE t (a INT)", "42P07"),
        ("SET packets = 'many'", "22023"),
        ("SET sharing = 'maybe'", "22023"),
        ("SET query_memory = '1 parsec'", "22023"),
        ("SET parquet_row_group_rows = 'many'", "22023"),
        ("SET statement_timeout = 'soon'", "22023"),
        ("SET nosuch = 1", "42704"),
    ];
    for (sql, code) in mistakes {
        assert_eq!(said(&mut ann, sql).await, [format!("E ERROR {code}"), "Z I".to_owned()], "{sql}");
    }
    for sql in ["DROP TABLE IF EXISTS nowhere", "DROP TABLE IF EXISTS nosuch.t", "DROP SCHEMA IF EXISTS nosuch"] {
        ann.simple(sql).await.unwrap();
    }
    assert_eq!(parse(&mut ann, "", "SELECT $1::int AS a").await, ["1", "Z I"]);
    assert_eq!(run(&mut ann, "", &[Some("99999999999")]).await, ["E ERROR 22003", "Z I"]);
}

#[tokio::test]
async fn drop_proposes_only_what_may_be_read() {
    let (server, address) = serve().await;
    let mut root = connect(&address).await;
    root.simple("CREATE SCHEMA scratch; CREATE TABLE secret (a INT); CREATE TABLE scratch.mine (a INT)").await.unwrap();
    let rights = Arc::new(Rights::only(vec![], vec!["scratch.*".parse().unwrap()]));
    let options = SessionOptions { rights, ..SessionOptions::default() };
    let ann = server.execution().database().session_with(options);
    for sql in ["DROP VIEW scratch.v", "DROP TABLE scratch.nowhere", "DROP TABLE scratch.zzzzzzzz"] {
        let Err(error) = ann.execute(sql) else { panic!("{sql}") };
        let hint = error.hint().unwrap();
        assert!(hint.contains("scratch.mine") && !hint.contains("secret"), "{sql}: {hint}");
    }
}

#[tokio::test]
async fn a_session_that_rests_too_long_ends_and_lets_others_go_on() {
    let (server, address) = serve().await;
    let mut ann = connect(&address).await;
    said(&mut ann, "CREATE TABLE held AS SELECT 1 AS a").await;
    for (settings, code) in [
        ("SET idle_in_transaction_session_timeout = '20ms'; BEGIN; DELETE FROM held", "25P03"),
        // It has failed, and rests all the same.
        ("SET idle_in_transaction_session_timeout = '20ms'; BEGIN; DELETE FROM held; SELECT nonsense", "25P03"),
        ("SET transaction_timeout = '20ms'; BEGIN; DELETE FROM held", "25P04"),
        (
            "SET transaction_timeout = '20ms'; BEGIN; DELETE FROM held; SELECT count(*) FROM generate_series(1, 100000000000)",
            "25P04",
        ),
        ("SET transaction_timeout = '20ms'; SELECT count(*) FROM generate_series(1, 100000000000)", "25P04"),
        ("SET idle_session_timeout = '20ms'", "57P05"),
    ] {
        let mut bob = connect(&address).await;
        let mut answers = said(&mut bob, settings).await;
        if answers.last().is_none_or(|last| last != "closed") {
            // What it says by itself.
            answers = told(&mut bob, &[]).await;
        }
        let last = answers.iter().rev().take(2).rev().cloned().collect::<Vec<_>>();
        assert_eq!(last, [format!("E FATAL {code}"), "closed".to_owned()], "{settings}");
        // Its locks are gone, and what it did.
        assert_eq!(said(&mut ann, "UPDATE held SET a = a").await[0], "C UPDATE 1", "{settings}");
    }
    // Who is at work does not rest, nor who has no block.
    said(&mut ann, "SET idle_in_transaction_session_timeout = '1ms'; SET statement_timeout = '30ms'").await;
    let answers = said(&mut ann, "SELECT count(*) FROM generate_series(1, 100000000000)").await;
    // Its columns may have been told before.
    assert!(answers.iter().any(|answer| answer == "E ERROR 57014"), "{answers:?}");
    assert_eq!(said(&mut ann, "SELECT 1").await[1], "D 1");
    server.stop().await;
}

#[tokio::test]
async fn who_waits_for_whom_is_shown() {
    let (server, address) = serve().await;
    let open = async |user: &str| Connection::open(&address, user, "diligence", &[]).await.unwrap();
    let (mut ann, mut bob, mut carl) = (open("ann").await, open("bob").await, open("carl").await);
    let rows = |answers: Vec<String>| answers.into_iter().filter(|answer| answer.starts_with("D ")).collect::<Vec<_>>();
    said(&mut ann, "CREATE TABLE held AS SELECT i AS a FROM generate_series(1, 3) AS s(i)").await;
    let pid = async |session: &mut Connection| rows(said(session, "SELECT pg_backend_pid()").await)[0][2..].to_owned();
    let (ann_pid, bob_pid) = (pid(&mut ann).await, pid(&mut bob).await);
    said(&mut ann, "BEGIN; UPDATE held SET a = a + 10 WHERE a < 3; SELECT pg_advisory_xact_lock(4294967298)").await;
    let mut waits = Vec::new();
    message::query(&mut waits, "DELETE FROM held WHERE a = 2");
    bob.send(&waits).await.unwrap();
    let waiting = "SELECT locktype, relation = 'held'::regclass, pid FROM pg_locks WHERE NOT granted";
    let mut found = Vec::new();
    while found.is_empty() {
        found = rows(said(&mut carl, waiting).await);
    }
    assert_eq!(found, [format!("D tuple,t,{bob_pid}")]);
    let held = "SELECT locktype, mode, classid, objid, objsubid, pid FROM pg_locks WHERE granted AND locktype <> 'relation' ORDER BY 1";
    let expected = [
        format!("D advisory,ExclusiveLock,1,2,1,{ann_pid}"),
        format!("D tuple,ExclusiveLock,NULL,NULL,NULL,{ann_pid}"),
    ];
    assert_eq!(rows(said(&mut carl, held).await), expected);
    let blocking = format!("SELECT pg_blocking_pids({bob_pid}), pg_blocking_pids({ann_pid})");
    assert_eq!(rows(said(&mut carl, &blocking).await), [format!("D {{{ann_pid}}},{{}}")]);
    let sessions = "SELECT usename, state, wait_event_type, wait_event, query, xact_start IS NOT NULL, query_start >= backend_start \
                    FROM pg_stat_activity WHERE usename <> 'carl' ORDER BY 1";
    let script = "BEGIN; UPDATE held SET a = a + 10 WHERE a < 3; SELECT pg_advisory_xact_lock(4294967298)";
    let expected = [
        format!("D ann,idle in transaction,Client,ClientRead,{script},t,t"),
        "D bob,active,Lock,tuple,DELETE FROM held WHERE a = 2,t,t".to_owned(),
    ];
    assert_eq!(rows(said(&mut carl, sessions).await), expected);
    said(&mut ann, "COMMIT").await;
    assert_eq!(told(&mut bob, &[]).await[0], "C DELETE 0");
    assert_eq!(rows(said(&mut carl, "SELECT count(*) FROM pg_locks").await), ["D 0"]);
    assert_eq!(rows(said(&mut carl, "SELECT state FROM pg_stat_activity WHERE usename = 'ann'").await), ["D idle"]);
    server.stop().await;
}

/// Without an interpreter this test says so and is done.
#[tokio::test]
async fn what_functions_print_is_told_to_their_client() {
    let options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let function = "CREATE FUNCTION say(x bigint) RETURNS bigint LANGUAGE python AS 'print(x); return x // (x - 5)'";
    match database.session().execute(function) {
        Err(error) if error.code() == Some("58P01") => return eprintln!("not tested: there is no python3 here"),
        made => drop(made.unwrap()),
    }
    let postgres = Some("127.0.0.1:0".parse().unwrap());
    let options = ServerOptions { postgres, ..ServerOptions::default() };
    let server = Server::start(database, options).await.unwrap();
    let mut connection = connect(&Address::Tcp(server.addresses().postgres.unwrap())).await;
    assert_eq!(
        said(&mut connection, "SELECT say(7)").await,
        ["T say:20", "N NOTICE 00000", "D 3", "C SELECT 1", "Z I"]
    );
    assert_eq!(
        said(&mut connection, "CREATE TABLE t AS SELECT say(8) AS x").await,
        ["N NOTICE 00000", "C SELECT 1", "Z I"]
    );
    assert_eq!(said(&mut connection, "SELECT say(5)").await, ["T say:20", "N NOTICE 00000", "E ERROR 38000", "Z I"]);
    // Whoever may not name files of the server makes none.
    assert_eq!(
        said(&mut connection, "CREATE FUNCTION f() RETURNS int LANGUAGE python AS 'return 1'").await,
        ["E ERROR 42501", "Z I"]
    );
}

#[tokio::test]
async fn statements_are_called_as_in_postgresql() {
    let (_server, address) = serve().await;
    let mut ann = connect(&address).await;
    let tag = |told: Vec<String>| told.into_iter().find(|told| told.starts_with(['C', 'E'])).unwrap();
    for (sql, expected) in [
        ("CREATE TABLE t (a INT)", "C CREATE TABLE"),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", "C CREATE TABLE"),
        ("CREATE TABLE u AS SELECT 1 AS a", "C SELECT 1"),
        ("CREATE TABLE v AS TABLE t", "C SELECT 0"),
        ("CREATE TABLE IF NOT EXISTS v AS TABLE t", "C CREATE TABLE AS"),
        ("CREATE TABLE w AS SELECT 1 AS a WITH NO DATA", "C CREATE TABLE AS"),
        ("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "C SELECT 0"),
        ("CREATE MATERIALIZED VIEW n AS SELECT a FROM u WITH NO DATA", "C CREATE MATERIALIZED VIEW"),
        ("ALTER MATERIALIZED VIEW n RENAME TO o", "C ALTER MATERIALIZED VIEW"),
        ("CREATE VIEW shown AS SELECT a FROM t", "C CREATE VIEW"),
        ("ALTER VIEW shown RENAME TO seen", "C ALTER VIEW"),
        ("ALTER VIEW seen SET SCHEMA public", "C ALTER VIEW"),
        ("ALTER TABLE seen RENAME TO shown", "C ALTER TABLE"),
        ("CREATE SEQUENCE s", "C CREATE SEQUENCE"),
        ("ALTER SEQUENCE s RENAME TO r", "C ALTER SEQUENCE"),
        ("CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'", "C CREATE PROCEDURE"),
        ("DROP PROCEDURE p()", "C DROP PROCEDURE"),
        ("START TRANSACTION", "C START TRANSACTION"),
        ("VACUUM", "E ERROR 25001"),
        ("ROLLBACK", "C ROLLBACK"),
        ("VACUUM t", "C VACUUM"),
        ("CREATE TEMP TABLE passing (a INT)", "C CREATE TABLE"),
        ("SET work_mem = '7MB'", "C SET"),
        ("DISCARD TEMP", "C DISCARD TEMP"),
        ("SELECT 1 FROM passing", "E ERROR 42P01"),
        ("DISCARD SEQUENCES", "C DISCARD SEQUENCES"),
        ("DISCARD PLANS", "C DISCARD PLANS"),
    ] {
        assert_eq!(tag(said(&mut ann, sql).await), expected, "{sql}");
    }
    // Only DISCARD ALL makes settings what they were.
    assert!(said(&mut ann, "SHOW work_mem").await.contains(&"D 7MB".to_owned()));
    assert_eq!(tag(said(&mut ann, "DISCARD ALL").await), "C DISCARD ALL");
    assert!(!said(&mut ann, "SHOW work_mem").await.contains(&"D 7MB".to_owned()));
    said(&mut ann, "LISTEN news").await;
    let listened = "SELECT pg_listening_channels()";
    assert!(said(&mut ann, listened).await.contains(&"D news".to_owned()));
    assert_eq!(tag(said(&mut ann, "UNLISTEN news").await), "C UNLISTEN");
    assert_eq!(tag(said(&mut ann, listened).await), "C SELECT 0");
}

#[tokio::test]
async fn a_block_that_has_failed_has_no_locks() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    let tag = |told: Vec<String>| told.into_iter().find(|told| told.starts_with(['C', 'E'])).unwrap();
    said(&mut ann, "CREATE TABLE t (a INT PRIMARY KEY, b INT)").await;
    said(&mut ann, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
    said(&mut ann, "BEGIN").await;
    said(&mut ann, "UPDATE t SET b = 10 WHERE a = 1").await;
    said(&mut ann, "SELECT pg_advisory_xact_lock(7)").await;
    let (lock, number) = ("SELECT b FROM t WHERE a = 1 FOR UPDATE NOWAIT", "SELECT pg_try_advisory_xact_lock(7) AS f");
    assert_eq!(tag(said(&mut bob, lock).await), "E ERROR 55P03");
    assert!(said(&mut bob, number).await.contains(&"D f".to_owned()));
    assert_eq!(tag(said(&mut ann, "INSERT INTO t VALUES (2, 2)").await), "E ERROR 23505");
    assert!(said(&mut bob, lock).await.contains(&"D 1".to_owned()));
    assert!(said(&mut bob, number).await.contains(&"D t".to_owned()));
    assert_eq!(tag(said(&mut bob, "UPDATE t SET b = 20 WHERE a = 1").await), "C UPDATE 1");
    assert_eq!(tag(said(&mut ann, "COMMIT").await), "C ROLLBACK");
    assert!(said(&mut ann, "SELECT b FROM t WHERE a = 1").await.contains(&"D 20".to_owned()));
    // Behind a savepoint the block may go on, with what it has locked.
    said(&mut ann, "BEGIN; UPDATE t SET b = 30 WHERE a = 1; SAVEPOINT s").await;
    assert_eq!(tag(said(&mut ann, "INSERT INTO t VALUES (2, 2)").await), "E ERROR 23505");
    assert_eq!(tag(said(&mut bob, lock).await), "E ERROR 55P03");
    said(&mut ann, "ROLLBACK TO s; COMMIT").await;
    assert!(said(&mut bob, lock).await.contains(&"D 30".to_owned()));
}
