//! The commands of the shell: what they change, and what they say of mistakes.

use std::path::Path;

use crate::support::terminal::Terminal;
use crate::support::{diligence, piped, run, succeeds};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ENTER: &str = "\r";
const PROMPT: &str = "diligence> ";

fn shell(home: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Terminal {
    let mut command = diligence(home);
    command.arg("shell").args(arguments).envs(variables.iter().copied());
    let mut terminal = Terminal::start(command);
    terminal.expect(PROMPT);
    terminal
}

/// Types a line, and waits for its answer and the next prompt.
fn answer(terminal: &mut Terminal, line: &str, shown: &[&str]) {
    terminal.send(line);
    terminal.send(ENTER);
    shown.iter().for_each(|text| terminal.expect(text));
    terminal.expect(PROMPT);
}

#[test]
fn unknown_commands_are_errors_at_once() {
    let home = tempfile::tempdir().unwrap();
    let ran = piped(home.path(), "\\dance\nSELECT 1 AS a;\n.dance now\nSELECT 2 AS b;\n\\c other\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "a\n1\nb\n2\n"));
    let told =
        ["unknown command \\dance", "standard input:1", "unknown command .dance", "standard input:3", "--connect URL"];
    for text in told {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
    // A statement that has not ended is not swallowed in silence, either.
    let ran = piped(home.path(), "SELECT 1 AS a\n\\x\nSELECT 2 AS b;\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "b\n2\n"));
    assert!(ran.stderr.contains("has no end"), "{}", ran.stderr);

    let mut terminal = shell(home.path(), &[], &[]);
    answer(&mut terminal, "\\dance", &["unknown command \\dance; '\\?' lists the commands"]);
    answer(&mut terminal, "\\?", &["\\watch"]);
    answer(&mut terminal, "SELECT 40 + 2 AS answer;", &["42 │"]);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn results_go_elsewhere_once_and_scripts_end_with_a_code() {
    let home = tempfile::tempdir().unwrap();
    let script =
        ".once once.csv\nSELECT 1 AS a;\nSELECT 2 AS b;\n.mode tabs\nSELECT 3 AS c, 'x,y' AS d;\n.exit 7\nSELECT 4;\n";
    let ran = piped(home.path(), script);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), "b\n2\nc\td\n3\tx,y\n"));
    assert_eq!(std::fs::read_to_string(home.path().join("once.csv")).unwrap(), "a\n1\n");
    let ran = piped(home.path(), "CREATE TABLE t (a INT);\nCREATE VIEW v AS SELECT 1 AS b;\n\\dt\n\\dvS+ pool\n");
    assert_eq!(ran.stdout.matches(",v,").count(), 0, "{}", ran.stdout);
    assert!(ran.stdout.contains("public,t,") && ran.stdout.contains("system,pool,"), "{}", ran.stdout);
}

#[test]
fn statements_end_with_commands_as_well() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(succeeds(home, "SELECT 1 AS a \\g\nSELECT 2\nAS b\n\\g\n"), "a\n1\nb\n2\n");
    assert_eq!(succeeds(home, "SELECT 1 AS a;\n\\g\n"), "a\n1\na\n1\n", "the last statement again");
    assert_eq!(succeeds(home, "SELECT 1 AS a \\r\nSELECT 2 AS b;"), "b\n2\n");
    assert_eq!(succeeds(home, "SELECT 1 AS a \\g made.csv\nSELECT 2 AS b;"), "b\n2\n");
    assert_eq!(std::fs::read_to_string(home.join("made.csv")).unwrap(), "a\n1\n");
    assert_eq!(succeeds(home, "SELECT 1 AS a \\g | tr a-z A-Z\n"), "A\n1\n");
    assert_eq!(succeeds(home, "\\o out.csv\nSELECT 1 AS a;\nSELECT 2 AS b;\n\\o\nSELECT 3 AS c;"), "c\n3\n");
    assert_eq!(std::fs::read_to_string(home.join("out.csv")).unwrap(), "a\n1\nb\n2\n");
    assert_eq!(succeeds(home, "SELECT 1 AS a \\watch i=0.01 c=3\n"), "a\n1\n".repeat(3));
    assert_eq!(succeeds(home, ".mode table\nSELECT 1 AS a \\gx\n"), "── row 1 ──\na │ 1\n1 row\n");
    let ran = piped(home, "\\g\n");
    assert!(ran.stderr.contains("there is no statement before"), "{}", ran.stderr);
    // A query that never ends is left when nobody reads.
    let endless = "SELECT * FROM generate_series(1, 100000000) AS s(i) \\g | head -2\nSELECT 7 AS b;\n";
    assert_eq!(succeeds(home, endless), "i\n1\nb\n7\n");
}

#[test]
fn indexes_sequences_and_views_are_described() {
    let home = tempfile::tempdir().unwrap();
    let made = "CREATE TABLE t (a serial PRIMARY KEY);\nCREATE INDEX ti ON t (a);\nCREATE VIEW v AS SELECT a FROM t;\n";
    let described = |name: &str| run(home.path(), &["shell"], &format!("{made}\\d {name}\n"));
    for (name, told) in [
        ("ti", "CREATE INDEX ti ON public.t USING btree (a)"),
        ("t_a_seq", "last_value"),
        ("v", "Definition:\n  SELECT a FROM t"),
        ("t", "Constraints:\n  t_pkey: PRIMARY KEY (a)"),
    ] {
        let ran = described(name);
        assert!(ran.code == Some(0) && ran.stdout.contains(told), "{name}: {} {}", ran.stdout, ran.stderr);
    }
    let ran = described("nothing");
    assert!(ran.code == Some(1) && ran.stderr.contains("no table is named 'nothing'"), "{}", ran.stderr);
}

#[test]
fn what_there_is_can_be_listed() {
    let home = tempfile::tempdir().unwrap();
    let made = "CREATE TYPE mood AS ENUM ('a');\nCREATE DOMAIN small AS int CHECK (value < 9);\nCREATE TYPE both AS (a int);\n\
                CREATE TABLE t (a int);\nCREATE ROLE bob;\nGRANT SELECT, INSERT ON t TO bob;\n";
    let listed = |command: &str| succeeds(home.path(), &format!("{made}.headers off\n{command}\n"));
    assert_eq!(listed("\\dT"), "public,both,composite\npublic,mood,enum\npublic,small,domain\n");
    assert_eq!(listed("\\dT m*"), "public,mood,enum\n");
    assert!(listed("\\dp t").contains("public,t,bob,\"INSERT, SELECT\""));
    assert_eq!(listed("\\dx"), "plpgsql,1.0\n");
    let views = "CREATE VIEW v AS SELECT * FROM t;\nCREATE MATERIALIZED VIEW m AS SELECT * FROM t;\n";
    let kept = listed(&format!("{views}\\dm"));
    assert_eq!(kept, "public,m,MATERIALIZED VIEW\n");
    assert_eq!(listed(&format!("{views}\\dm v*")), "");
    assert!(listed(&format!("{views}\\d")).contains(&kept));
    assert!(listed("\\dL p*").contains("python,false\n"));
}

#[test]
fn files_have_commands_and_name_their_lines() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("q.sql"),
        ".headers off\nSELECT 1\nAS a;\n\\echo two\n\nSELECT 2 AS b;\n.quit\nSELECT 3;\n",
    )
    .unwrap();
    assert_eq!(succeeds(home.path(), "\\i q.sql\nSELECT 4 AS d;"), "1\ntwo\n2\n4\n");
    std::fs::write(home.path().join("bad.sql"), "SELECT 1 AS a;\n\\echo here\nSELECT\n  x;\n").unwrap();
    let ran = piped(home.path(), "\\i bad.sql\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "a\n1\nhere\n"));
    assert!(ran.stderr.contains("bad.sql:4:3"), "{}", ran.stderr);
    std::fs::write(home.path().join("loop.sql"), "\\i loop.sql\n").unwrap();
    let ran = piped(home.path(), "\\i loop.sql\n");
    assert!(ran.stderr.contains("read each other"), "{}", ran.stderr);
}

#[test]
fn results_look_as_commands_say() {
    let home = tempfile::tempdir().unwrap();
    let table = |commands: &str, query: &str| succeeds(home.path(), &format!(".mode table\n{commands}\n{query};\n"));
    let row = "SELECT 1 AS a, NULL::text AS b";
    assert_eq!(table("\\pset null '-'\n\\pset border 0", row), "a b\n─ ─\n1 -\n1 row\n");
    assert_eq!(table("\\pset border 1", row), " a │ b\n───┼──────\n 1 │ NULL\n1 row\n");
    assert_eq!(table(".mode markdown\n\\t", row), "| 1 | NULL |\n");
    assert_eq!(table("\\x on", row), "── row 1 ──\na │ 1\nb │ NULL\n1 row\n");
    assert_eq!(table("\\x\n\\x\n.border 0\n.types on", "SELECT 1 AS a"), "      a\ninteger\n───────\n      1\n1 row\n");
    let many = table(".maxrows 2\n.border 0", "SELECT i FROM generate_series(1, 99) s(i) ORDER BY i");
    assert_eq!(many, " i\n──\n 1\n ·\n ·\n ·\n99\n99 rows, 2 shown (see .maxrows)\n");
    assert_eq!(succeeds(home.path(), ".headers off\nSELECT 1 AS a;\n"), "1\n");
    for listing in ["\\l", "\\dn", "\\dt", "\\dv", "\\di", "\\ds", "\\df", "\\du", "\\dt a*", "\\conninfo", ".show"] {
        assert!(!succeeds(home.path(), &format!("{listing}\n")).is_empty(), "{listing}");
    }
    let listed = succeeds(home.path(), "CREATE TABLE at (a INT);\nCREATE TABLE bt (a INT);\n\\dt a*\n");
    assert!(listed.contains(",at,") && !listed.contains(",bt,"), "{listed}");
}

#[test]
fn a_terminal_shows_the_ends_of_long_results() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[], &[]);
    let query = "SELECT i FROM generate_series(1::BIGINT, 5000) s(i) ORDER BY i;";
    answer(&mut terminal, query, &["bigint │", " 20 │", "· │", " 4981 │", "5000 rows, 40 shown (see .maxrows)"]);
    answer(&mut terminal, ".maxrows 4", &["Tables show 4 rows"]);
    answer(&mut terminal, query, &["2 │", "· │", "4999 │", "5000 rows, 4 shown"]);
    answer(&mut terminal, "\\x", &["Expanded display is on."]);
    answer(&mut terminal, query, &["── row 2 ──", "4996 rows are not shown", "── row 5000 ──"]);
    answer(&mut terminal, "\\timing", &["Timing is on."]);
    terminal.send("SELECT 'tick' AS t \\watch 0.1");
    terminal.send(ENTER);
    (0..3).for_each(|_| terminal.expect("t │ tick"));
    terminal.send(CTRL_C);
    terminal.expect(PROMPT);
    answer(&mut terminal, "SELECT 'still ' || 'here' AS a;", &["still here"]);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn a_pager_gets_all_rows() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[("PAGER", "cat > paged; echo all is paged")], &[]);
    answer(&mut terminal, "\\pset pager on", &["Pager is on."]);
    answer(&mut terminal, "SELECT i FROM generate_series(1, 5000) s(i) ORDER BY i;", &["all is paged"]);
    let paged = std::fs::read_to_string(home.path().join("paged")).unwrap();
    assert!(paged.ends_with("5000 rows\n") && paged.contains("│    2500 │"), "{paged}");
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn a_statement_is_edited_and_runs() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[("EDITOR", "sed -i s/40/41/")], &[]);
    answer(&mut terminal, "SELECT 40 + 2 AS answer;", &["42 │"]);
    answer(&mut terminal, "\\e", &["SELECT 41 + 2 AS answer;", "43 │"]);
    // Without its semicolon it comes back to be typed on.
    terminal.send("SELECT 40 + 5 \\e");
    terminal.send(ENTER);
    terminal.expect("SELECT 41 + 5");
    terminal.send(";");
    terminal.send(ENTER);
    terminal.expect("46 │");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
    let ran = piped(home.path(), "SELECT 1 AS a;\n\\e\n");
    assert!(ran.stderr.contains("an editor needs a terminal"), "{}", ran.stderr);
}

#[test]
fn each_shell_begins_with_the_init_file() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".diligencerc"), ".headers off\nSET extra_float_digits = 0;\n").unwrap();
    std::fs::write(home.path().join("other"), "\\dance\n").unwrap();
    let query = "SELECT 1 AS a;\n";
    let ran = run(home.path(), &["shell", "--format", "csv"], query);
    assert!(ran.stdout.ends_with("1\n") && !ran.stdout.contains('a'), "{}", ran.stdout);
    assert_eq!(run(home.path(), &["shell", "--format", "csv", "--no-init"], query).stdout, "a\n1\n");
    let mut terminal = shell(home.path(), &[("DILIGENCE_INIT", "other")], &[]);
    answer(&mut terminal, "SELECT 'still ' || 'here' AS a;", &["still here"]);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn the_columns_of_the_statement_are_completed() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("cars.csv"), "wheels,weight\n4,1200\n").unwrap();
    let mut terminal = shell(home.path(), &[], &["--data", "cars.csv"]);
    terminal.send("SELECT 40 + c.whe FROM cars c;");
    // To the end of `c.whe`.
    (0.." FROM cars c;".len()).for_each(|_| terminal.send("\u{1b}[D"));
    terminal.send("\t");
    terminal.expect("wheels");
    terminal.send(ENTER);
    terminal.expect("44 │");
    terminal.expect(PROMPT);
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn rows_stand_behind_a_copy() {
    let home = tempfile::tempdir().unwrap();
    let script = "CREATE TABLE t (a INT, b TEXT);\nCOPY t (a, b) FROM stdin;\n1\tx;y\n2\t\\N\n\\.\n\n\
                  SELECT * FROM t ORDER BY a;\n";
    assert_eq!(succeeds(home.path(), script), "a,b\n1,x;y\n2,\n");
    std::fs::write(home.path().join("dump.sql"), script).unwrap();
    assert_eq!(succeeds(home.path(), "\\i dump.sql\n"), "a,b\n1,x;y\n2,\n");
    // One that fails takes its rows with it, and so does one that a condition leaves out.
    let ran = piped(home.path(), "COPY nothing FROM STDIN;\n1\n\\.\nSELECT 1 AS a;\nSELECT x;\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "a\n1\n"));
    assert!(ran.stderr.contains("standard input:5"), "{}", ran.stderr);
    assert_eq!(succeeds(home.path(), "\\if false\nCOPY t FROM STDIN;\n1\n\\.\n\\endif\nSELECT 1 AS a;"), "a\n1\n");
    assert_eq!(succeeds(home.path(), "\\copy (SELECT 1 AS a) to stdout (format csv)\n"), "1\n");
    let copied = "CREATE TABLE t (a INT);\n\\copy t from program 'seq 3'\nSELECT sum(a) FROM t;\n";
    assert_eq!(succeeds(home.path(), copied), "sum\n6\n");
}

#[test]
fn dumps_turn_commands_off() {
    let home = tempfile::tempdir().unwrap();
    let ran = piped(home.path(), "\\restrict a1\n\\! echo no\n\\unrestrict b\n\\unrestrict a1\n\\echo yes\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "yes\n"));
    assert!(ran.stderr.contains("commands are off") && ran.stderr.contains("another word"), "{}", ran.stderr);
}

#[test]
fn variables_come_from_a_person() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = shell(home.path(), &[], &[]);
    // What is asked differs from what is typed, and is seen only when the shell asks.
    terminal.send("\\prompt 'How''many? ' n");
    terminal.send(ENTER);
    terminal.expect("How'many? ");
    terminal.send("42");
    terminal.send(ENTER);
    terminal.expect(PROMPT);
    answer(&mut terminal, "SELECT :n + 1 AS more;", &["43 │"]);
    answer(&mut terminal, "SELECT 7 AS seven;", &["7 │"]);
    answer(&mut terminal, "\\w seven.sql", &[]);
    // The prompt is painted again for each key; only an answer says that a line was taken.
    answer(&mut terminal, "SELECT 8 AS eight;", &["8 │"]);
    assert_eq!(std::fs::read_to_string(home.path().join("seven.sql")).unwrap(), "SELECT 7 AS seven;\n");
    terminal.send(CTRL_D);
    assert!(terminal.wait().success());
}

#[test]
fn domains_settings_and_tablespaces_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let script = "CREATE DOMAIN dose AS int DEFAULT 5 CHECK (value > 0);\n\\dD do*\n\\dconfig work_mem\n\\db\n";
    let listed = succeeds(home, script);
    for line in ["public,dose,integer,,5,CHECK (value > 0)", "work_mem,", "pg_default"] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
}
