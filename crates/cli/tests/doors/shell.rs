//! `diligence shell` on a terminal, and without one.

use crate::support::terminal::Terminal;
use crate::support::{diligence, run};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ENTER: &str = "\r";
const PROMPT: &str = "diligence> ";
const TAB: &str = "\t";
const UP: &str = "\u{1b}[A";

fn shell(home: &std::path::Path, arguments: &[&str]) -> Terminal {
    let mut command = diligence(home);
    command.arg("shell").args(arguments);
    let mut terminal = Terminal::start(command);
    terminal.expect(PROMPT);
    terminal
}

#[test]
fn a_statement_over_several_lines_is_answered() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[]);
    terminal.send("SELECT 40");
    terminal.send(ENTER);
    terminal.expect("...> ");
    terminal.send("+ 2 AS answer;");
    terminal.send(ENTER);
    terminal.expect("answer │");
    terminal.expect("integer │");
    terminal.expect("42 │");
    terminal.expect("1 row");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn an_error_is_shown_and_the_shell_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[]);
    terminal.send("SELECT nonsense;");
    terminal.send(ENTER);
    terminal.expect("error: ");
    terminal.expect("nonsense");
    terminal.expect(PROMPT);
    terminal.send(".dance");
    terminal.send(ENTER);
    terminal.expect("unknown command .dance");
    terminal.expect(PROMPT);
    terminal.send("SELECT 'still ' || 'here' AS a;");
    terminal.send(ENTER);
    terminal.expect("still here");
    terminal.expect(PROMPT);
    terminal.send(".quit");
    terminal.send(ENTER);
    assert!(terminal.wait().success());
}

#[test]
fn ctrl_c_cancels_a_statement_and_clears_a_line() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[]);
    // It would run for minutes; its progress appears after a second.
    terminal.send(
        "SELECT count(*) FROM generate_series(1::BIGINT, 300000) a(x), generate_series(1::BIGINT, 300000) b(y) WHERE x * y % 7 = 3;",
    );
    terminal.send(ENTER);
    terminal.expect("Ctrl-C cancels");
    terminal.send(CTRL_C);
    terminal.expect("cancelled");
    terminal.expect(PROMPT);
    terminal.send("SELECT garbage");
    terminal.send(CTRL_C);
    terminal.expect(PROMPT);
    terminal.send("SELECT 'a' || 'live' AS a;");
    terminal.send(ENTER);
    terminal.expect("alive");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn tab_completes_and_the_history_remembers() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("conveyances.csv"), "wheels\n4\n").unwrap();
    let mut terminal = shell(home.path(), &["--data", "."]);
    terminal.send("SELECT 40 + wheels AS sum FROM conve");
    terminal.send(TAB);
    terminal.expect("conveyances ");
    terminal.send(";");
    terminal.send(ENTER);
    terminal.expect("44 │");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());

    let mut terminal = shell(home.path(), &["--data", "."]);
    terminal.send(UP);
    terminal.expect("SELECT 40 + wheels");
    terminal.send(ENTER);
    terminal.expect("44 │");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn commands_work() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("people.csv"), "id,name\n1,Ada\n").unwrap();
    std::fs::write(home.path().join("q.sql"), "SELECT 'read' || ' it' AS a;").unwrap();
    let mut terminal = shell(home.path(), &["--data", "."]);
    for (command, shown) in [
        (".help", ".schema"),
        (".tables", "people"),
        (".schema people", "name"),
        (".read q.sql", "read it"),
        (".format jsonl", PROMPT),
        ("SELECT id + 10 AS eleven FROM people;", "{\"eleven\":11}"),
        (".timer on", PROMPT),
        ("SELECT 5 AS five;", "1 row in "),
        (".timer maybe", "usage: .timer [on|off]"),
    ] {
        terminal.send(command);
        terminal.send(ENTER);
        // The terminal shows what was typed; the answer comes behind it.
        terminal.expect(command);
        terminal.expect(shown);
        if shown != PROMPT {
            terminal.expect(PROMPT);
        }
    }
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn words_without_a_semicolon_help_and_leave() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[]);
    terminal.send("help");
    terminal.send(ENTER);
    terminal.expect(".schema");
    terminal.expect(PROMPT);
    terminal.send(".format xml");
    terminal.send(ENTER);
    terminal.expect("json");
    terminal.expect(PROMPT);
    terminal.send(".format arrow");
    terminal.send(ENTER);
    terminal.expect("is binary");
    terminal.expect(PROMPT);
    terminal.send("exit");
    terminal.send(ENTER);
    assert!(terminal.wait().success());
}

#[test]
fn planning_is_given_up_and_the_shell_stays() {
    let home = tempfile::tempdir().unwrap();
    // Connections are made, and never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut terminal = shell(home.path(), &[]);
    terminal.send(&format!("SELECT * FROM 'http://{}/x.csv';", silent.local_addr().unwrap()));
    terminal.send(ENTER);
    terminal.expect("planning for");
    terminal.send(CTRL_C);
    terminal.expect("cancelled");
    terminal.expect(PROMPT);
    terminal.send("SELECT 'a' || 'live' AS a;");
    terminal.send(ENTER);
    terminal.expect("alive");
    terminal.expect(PROMPT);
    // What was typed is kept at once, not only when the shell ends well.
    let kept = std::fs::read_to_string(home.path().join("diligence/history")).unwrap();
    assert!(kept.contains("/x.csv") && kept.contains("'live'"), "{kept}");
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn a_wide_table_is_cut_to_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[]);
    terminal.send("SELECT repeat('x', 500) AS wide, 7 AS seven;");
    terminal.send(ENTER);
    terminal.expect("xxx…");
    terminal.expect("7 │");
    terminal.expect("1 row; text is truncated");
    terminal.expect(PROMPT);
    let columns = (0..60).map(|number| format!("{number} AS column_{number}")).collect::<Vec<_>>().join(", ");
    terminal.send(&format!("SELECT {columns};"));
    terminal.send(ENTER);
    terminal.expect("── row 1 ──");
    terminal.expect("column_59 │ 59");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn tables_come_first_after_from() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("listing.csv"), "wheels\n4\n").unwrap();
    let mut terminal = shell(home.path(), &["--data", "."]);
    // Dozens of functions begin with list_.
    terminal.send("SELECT wheels + 40 AS sum FROM lis");
    terminal.send(TAB);
    terminal.expect("listing ");
    terminal.send(";");
    terminal.send(ENTER);
    terminal.expect("44 │");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn without_a_terminal_it_runs_the_lines_of_its_input() {
    let home = tempfile::tempdir().unwrap();
    let script = "\u{feff}SELECT 40\n  + 2 AS answer;\n.format jsonl\n\nSELECT ';' AS a; SELECT 2 AS b;\n-- the end;\n\
                  SELECT 3 AS c";
    let ran = run(home.path(), &["shell", "--format", "csv"], script);
    let expected = "answer\n42\n{\"a\":\";\"}\n{\"b\":2}\n{\"c\":3}\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), expected, ""));

    // An error is told with its line, the next statement runs, and the run has failed.
    let ran =
        run(home.path(), &["shell", "--format", "csv"], "SELECT 1 AS a;\n\nSELECT\n  x;\n.dance\nSELECT 2 AS b;\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "a\n1\nb\n2\n"));
    assert!(ran.stderr.contains("standard input:4:3") && ran.stderr.contains(".dance"), "{}", ran.stderr);

    let ran = run(home.path(), &["shell"], ".quit\nSELECT 1;");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    assert_eq!(run(home.path(), &["shell"], "").code, Some(0));
}
