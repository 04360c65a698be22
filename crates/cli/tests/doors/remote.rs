//! `--connect`: the same commands, on a server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::terminal::Terminal;
use crate::support::{Ran, diligence, run};

const LONG: &str = "SELECT count(*) FROM generate_series(1::BIGINT, 300000) a(x), generate_series(1::BIGINT, 300000) b(y) WHERE x * y % 7 = 3;";

/// `diligence serve`, as long as it lives.
struct Server {
    child: Child,
    /// `127.0.0.1:12345`.
    place: String,
}

impl Server {
    fn start(home: &Path, more: &[&str]) -> Self {
        std::fs::write(home.join("items.csv"), "id,name,price,sold\n1,one,1.50,2026-01-31\n2,,2.25,\n").unwrap();
        let mut command = diligence(home);
        command.args(["serve", "--data", ".", "--postgres", "0", "--http", "off", "--memory", "256MiB"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let place = line.trim().trim_start_matches("postgres://").trim_end_matches("/diligence").to_owned();
        Self { child, place }
    }

    /// Ends it by a signal, and waits for that.
    fn end(mut self) {
        let killed = std::process::Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success() && self.child.wait().unwrap().success());
    }

    fn url(&self, who: &str) -> String {
        format!("postgres://{who}{}/diligence", self.place)
    }

    fn run(&self, home: &Path, sql: &str, more: &[&str]) -> Ran {
        let url = self.url("");
        run(home, &[&["sql", "--connect", &url, sql], more].concat(), "")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn statements_that_fail_leave_a_transaction_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]);
    let script = "CREATE TABLE guarded (a int);\n\\set ON_ERROR_ROLLBACK on\nBEGIN;\nINSERT INTO guarded VALUES (1);\n\
                  SELECT 1 / 0;\nSELECT none FROM guarded;\nINSERT INTO guarded VALUES (2);\nCOMMIT;\n\
                  SELECT count(*) AS n FROM guarded;\n";
    let ran = run(home.path(), &["shell", "--connect", &server.url(""), "--format", "csv"], script);
    assert!(ran.stdout.ends_with("n\n2\n"), "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("division by zero"), "{}", ran.stderr);
    let without =
        script.replace("\\set ON_ERROR_ROLLBACK on\n", "").replace("CREATE TABLE guarded (a int)", "SELECT 1");
    let ran = run(home.path(), &["shell", "--connect", &server.url(""), "--format", "csv"], &without);
    assert!(
        ran.stdout.ends_with("n\n2\n") && ran.stderr.contains("transaction has failed"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn a_server_answers_as_the_database_does() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]);
    let statements = [
        "SELECT id, name, price, sold FROM items ORDER BY id",
        "SELECT 1.50::DECIMAL(9,2) AS d, true AS t, NULL::BIGINT AS n, 0.1::DOUBLE AS f, 'a' || chr(10) || 'b' AS x",
        "SELECT 1 AS a WHERE false",
        "CREATE TABLE t AS SELECT * FROM generate_series(1::BIGINT, 2500) AS s(n); INSERT INTO t VALUES (0); SELECT n FROM t ORDER BY n",
        "DROP TABLE IF EXISTS t; SET batch_rows = 100; SELECT 1 AS a",
        "EXPLAIN SELECT count(*) FROM items",
    ];
    for statement in statements {
        for format in ["table", "csv", "jsonl"] {
            let there = server.run(home.path(), statement, &["--format", format]);
            let here = run(home.path(), &["sql", "--data", ".", "--format", format, statement], "");
            assert_eq!((there.code, here.code), (Some(0), Some(0)), "{statement}: {}{}", there.stderr, here.stderr);
            // PostgreSQL's word for what CREATE TABLE AS has done.
            let same = there.stdout.replace("SELECT 2500\n", "CREATE TABLE AS 2500\n") == here.stdout;
            assert!(same, "{statement} as {format}\n{:.2000}\n{:.2000}", there.stdout, here.stdout);
            let _ = server.run(home.path(), "DROP TABLE IF EXISTS t", &[]);
        }
    }
}

#[test]
fn an_error_of_a_server_has_its_place_and_a_server_that_is_not_there_is_named() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]);
    let there = server.run(home.path(), "SELECT id,\n  nam FROM items", &[]);
    let here = run(home.path(), &["sql", "--data", ".", "SELECT id,\n  nam FROM items"], "");
    assert_eq!((there.code, there.stderr.as_str()), (Some(1), here.stderr.as_str()));
    assert!(there.stderr.contains("2 |   nam FROM items") && there.stderr.contains("did you mean"), "{}", there.stderr);
    let url = server.url("");
    drop(server);
    let gone = run(home.path(), &["sql", "--connect", &url, "SELECT 1"], "");
    assert!(gone.code == Some(1) && gone.stderr.contains("cannot be reached"), "{}", gone.stderr);
    for wrong in
        [&["sql", "--connect", "http://x", "SELECT 1"][..], &["sql", "--connect", &url, "--data", ".", "SELECT 1"]]
    {
        assert_eq!(run(home.path(), wrong, "").code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_unix_socket_is_a_door_and_ends_with_its_server() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().to_str().unwrap();
    let server = Server::start(home.path(), &["--socket", directory]);
    let port = server.place.rsplit_once(':').unwrap().1;
    let url = format!("postgres://{}:{port}", directory.replace('/', "%2F"));
    // The line of the first door may be there before the second is announced, but both listen by then.
    let ask = |url: &str, sql: &str| run(home.path(), &["sql", "--connect", url, "--format", "csv", sql], "");
    let there = ask(&url, "SELECT count(*) AS n FROM items; SELECT peer FROM system.sessions");
    assert_eq!((there.code, there.stdout.as_str()), (Some(0), "n\n2\npeer\nlocal\n"), "{}", there.stderr);
    let strict = ask(&format!("{url}?sslmode=require"), "SELECT 1");
    assert!(strict.code == Some(2) && strict.stderr.contains("never encrypted"), "{}", strict.stderr);
    let path = home.path().join(format!(".s.PGSQL.{port}"));
    assert!(path.exists());
    server.end();
    assert!(!path.exists());
    assert!(ask(&url, "SELECT 1").stderr.contains("cannot be reached"));
}

#[test]
fn passwords_are_proved_by_both_sides() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("users.toml"), "[users.ann]\npassword = \"p@ss: wörd\"\n").unwrap();
    let server = Server::start(home.path(), &["--users", "users.toml"]);
    let ask = |who: &str, password: Option<&str>| {
        let mut command = diligence(home.path());
        command.args(["sql", "--connect", &server.url(who), "--format", "csv", "SELECT current_user"]);
        command.env_remove("PGPASSWORD").stdin(Stdio::null());
        if let Some(password) = password {
            command.env("PGPASSWORD", password);
        }
        Ran::from(command.output().unwrap())
    };
    assert!(ask("ann@", Some("p@ss: wörd")).stdout.ends_with("ann\n"));
    assert!(ask("ann:p%40ss%3A%20w%C3%B6rd@", None).stdout.ends_with("ann\n"));
    assert!(ask("ann@", Some("wrong")).stderr.contains("the password of 'ann' is wrong"));
    assert!(ask("eve@", Some("wrong")).stderr.contains("password"));
    let none = ask("ann@", None);
    assert!(none.code == Some(1) && none.stderr.contains("PGPASSWORD"), "{}", none.stderr);
    let refused =
        run(home.path(), &["sql", "--connect", &format!("{}?sslmode=require", server.url("ann@")), "SELECT 1"], "");
    assert!(refused.stderr.contains("does not offer encryption"), "{}", refused.stderr);
}

#[test]
fn the_shell_of_a_server_is_the_shell() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]);
    let mut command = diligence(home.path());
    command.args(["shell", "--connect", &server.url("")]);
    let mut terminal = Terminal::start(command);
    let prompt = "diligence> ";
    terminal.expect(&server.place);
    terminal.expect(prompt);
    for (typed, shown) in [
        ("SELECT 40 + id AS answer FROM items;\r", "41 │"),
        ("\\d\r", "items"),
        ("\\d items\r", "price"),
        ("\\timing\r", prompt),
        ("SELECT 'a' || 'b' AS c;\r", "row in "),
        ("SELECT * FROM ite\t;\r", "one"),
    ] {
        terminal.send(typed);
        terminal.expect(shown);
        if shown != prompt {
            terminal.expect(prompt);
        }
    }
    terminal.send(LONG);
    terminal.send("\r");
    terminal.expect("running for");
    terminal.send("\u{3}");
    terminal.expect("cancel");
    terminal.expect(prompt);
    terminal.send("SELECT 'a' || 'live' AS a;\r");
    terminal.expect("alive");
    terminal.expect(prompt);
    // A result that is larger than what is shown is not read to its end.
    terminal.send("SELECT * FROM generate_series(1::BIGINT, 100000000) AS g(value);\r");
    terminal.expect("the first 20 rows; there are more (see .maxrows)");
    terminal.expect(prompt);
    terminal.send("SELECT 'still ' || 'here' AS a;\r");
    terminal.expect("still here");
    terminal.expect(prompt);
    terminal.send("\\q\r");
    assert!(terminal.wait().success());
}

#[test]
fn top_shows_what_runs() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]);
    assert_eq!(server.run(home.path(), "SELECT 'seen by top'", &[]).code, Some(0));
    let once = run(home.path(), &["top", "--once", "--connect", &server.url("")], "");
    assert_eq!(once.code, Some(0), "{}", once.stderr);
    for shown in ["0 running", "optimize", "admission", "scan", "finished", "SELECT 'seen by top'"] {
        assert!(once.stdout.contains(shown), "{shown} is not in\n{}", once.stdout);
    }
    assert!(!once.stdout.contains('\u{1b}') && !once.stdout.contains("diligence top */"), "{}", once.stdout);
    let mut command = diligence(home.path());
    command.args(["top", "--interval", "0.2", "--connect", &server.url("")]);
    let mut terminal = Terminal::start(command);
    terminal.expect("optimize");
    terminal.expect("optimize");
    terminal.send("\u{3}");
    assert!(terminal.wait().success());
}

#[test]
fn a_server_without_a_door_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["serve", "--postgres", "off", "--http", "off"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("serves nobody") && ran.stderr.contains("--socket"), "{}", ran.stderr);
}
