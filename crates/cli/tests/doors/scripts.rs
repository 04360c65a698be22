//! Scripts for the shell: variables, conditions, statements that queries make, and COPY with files of this machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::{Ran, diligence, piped, run, succeeds};

fn fails(home: &Path, script: &str, told: &str) -> String {
    let ran = piped(home, script);
    assert_eq!(ran.code, Some(1), "{script}: {}", ran.stdout);
    assert!(ran.stderr.contains(told), "{script}: {}", ran.stderr);
    ran.stdout
}

#[test]
fn variables_stand_in_statements_and_commands() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let script = "\\set who O''Hara\n\\set t 'Odd name'\nCREATE TABLE :\"t\" (a int);\nINSERT INTO :\"t\" VALUES (7);\n\
                  SELECT a, :'who' AS who, a::text AS x, ':who' AS y FROM :\"t\";\n";
    assert_eq!(succeeds(home, &script.replace("O''Hara", "'O''Hara'")), "a,who,x,y\n7,O'Hara,7,:who\n");
    assert_eq!(succeeds(home, "\\set n 40\n\\set m :n + 2\nSELECT :m AS a;\n\\echo :m 'a  b'\n"), "a\n42\n40+2 a  b\n");
    assert_eq!(succeeds(home, "\\set a 1\n\\set b `echo two`\n\\set\n"), "a = '1'\nb = 'two'\n");
    assert_eq!(succeeds(home, "\\set a 1\n\\unset a\nSELECT :{?a} AS a;\n\\echo :a :{?a}\n"), "a\nfalse\n:a FALSE\n");
    // What the database is.
    let facts =
        "SELECT :'DBNAME' = current_database() AS d, :'USER' = current_user AS u, :SERVER_VERSION_NUM > 0 AS v;\n";
    assert_eq!(succeeds(home, facts), "d,u,v\ntrue,true,true\n");
    assert_eq!(succeeds(home, "\\if :{?DBNAME}\n\\echo :ENCODING\n\\endif\n"), "UTF8\n");
    assert_eq!(succeeds(home, "\\set DBNAME own\n\\echo :DBNAME\n"), "own\n");
    // A file's name, and a table's.
    std::fs::write(home.join("q.sql"), "SELECT :n AS n;\n").unwrap();
    assert_eq!(succeeds(home, "\\set n 5\n\\set file q.sql\n\\i :file\n"), "n\n5\n");
    let ran =
        run(home, &["shell", "--format", "csv", "-v", "n=6", "--variable", "m=a b"], "SELECT :n AS n, :'m' AS m;\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "n,m\n6,a b\n"), "{}", ran.stderr);
    assert_eq!(run(home, &["shell", "-v", "n"], "").code, Some(2));
    fails(home, "\\set a-b 1\n", "'a-b' is no name of a variable");
    fails(home, "\\echo 'open\n", "a quote does not end");
}

#[test]
fn a_row_becomes_variables() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let script = "SELECT 1.50 AS a, true AS b, NULL AS c, date '2026-01-31' AS d, ARRAY[1, NULL] AS e \\gset x_\n\
                  \\echo :x_a :x_b :{?x_c} :x_d :x_e\nSELECT :'x_e'::int[] AS e;\n";
    assert_eq!(succeeds(home, script), "1.50 t FALSE 2026-01-31 {1,NULL}\ne\n\"[1, NULL]\"\n");
    fails(home, "SELECT 1 AS a WHERE false \\gset\n", "needs a query with one row, and this one has 0");
    fails(home, "SELECT * FROM generate_series(1, 3) AS s(a) \\gset\n", "this one has 3");
    fails(home, "SELECT 1 AS \"a b\" \\gset\n", "no name of a variable");
    fails(home, "CREATE TABLE t (a int) \\gset\n", "has no rows");
    fails(home, "SELECT x \\gset\n", "standard input:1:8");
    // What has become of a statement.
    let told = succeeds(
        home,
        "SELECT * FROM generate_series(1, 3) AS s(a) \\g | cat > rows\n\\echo :ROW_COUNT :ERROR :SQLSTATE\n",
    );
    assert_eq!(told, "3 false 00000\n");
    let told = fails(home, "SELECT 1 / 0;\n\\echo :ROW_COUNT :ERROR :SQLSTATE\n\\echo :'LAST_ERROR_MESSAGE'\n", "zero");
    assert_eq!(told, "?column?\n0 true 22012\n'division by zero'\n");
}

#[test]
fn transactions_are_those_of_psql() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let script = "CREATE TABLE t (a int);\n\\set AUTOCOMMIT off\nINSERT INTO t VALUES (1);\nROLLBACK;\n\
                  INSERT INTO t VALUES (2);\nCOMMIT;\n\\unset AUTOCOMMIT\nSELECT a FROM t;\n";
    assert_eq!(succeeds(home, script), "a\n2\n");
    fails(home, "\\set AUTOCOMMIT maybe\n", "AUTOCOMMIT cannot be 'maybe'");
    let shell = |more: &[&str]| run(home, &[&["shell", "--db", "d", "-At"], more].concat(), "");
    let count = "SELECT count(*) FROM information_schema.tables WHERE table_name = 't'";
    assert_eq!(shell(&["-1", "-c", "CREATE TABLE t (a int)", "-c", "SELECT 1 / 0"]).code, Some(1));
    assert_eq!(shell(&["-c", count]).stdout, "0\n");
    assert_eq!(shell(&["-q", "-1", "-c", "CREATE TABLE t (a int)", "-c", count]).stdout, "1\n");
    assert_eq!(shell(&["-c", count]).stdout, "1\n");
    assert_eq!(shell(&["-1"]).code, Some(2));
}

#[test]
fn scripts_are_printed_as_they_run() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(succeeds(home, "SELECT 1 AS a\\; SELECT '\\;' AS b;\n"), "a\n1\nb\n\\;\n");
    assert_eq!(succeeds(home, "SELECT 1 AS a \\;\nSELECT 2 AS b \\g\n"), "a\n1\nb\n2\n");
    let script = "\\set ECHO queries\nSELECT 1 AS a\\; SELECT 2 AS b;\n\\set ECHO all\n-- c\nSELECT 3 AS c;\n";
    let told = "SELECT 1 AS a;\na\n1\nSELECT 2 AS b;\nb\n2\n-- c\nSELECT 3 AS c;\nc\n3\n";
    assert_eq!(succeeds(home, script), told);
    std::fs::write(home.join("q.sql"), "SELECT 4 AS d;\n").unwrap();
    let ran = run(home, &["shell", "--csv", "-a", "-f", "q.sql", "-c", "\\i q.sql"], "");
    assert_eq!(ran.stdout, "SELECT 4 AS d;\nd\n4\n\\i q.sql\nSELECT 4 AS d;\nd\n4\n");
    let ran = run(home, &["shell", "--csv", "-e", "-c", "SELECT 5 AS e"], "");
    assert_eq!(ran.stdout, "SELECT 5 AS e;\ne\n5\n");
    let ran = run(home, &["shell", "-b", "-c", "SELECT 1 / 0"], "");
    assert!(ran.stderr.contains("STATEMENT:  SELECT 1 / 0;"), "{}", ran.stderr);
    let ran = piped(home, "\\errverbose\nSELECT 1 / 0;\n\\errverbose\n");
    assert_eq!(ran.stdout, "There is no previous error.\n?column?\n");
    assert!(ran.stderr.contains("ERROR:  22012: division by zero"), "{}", ran.stderr);
}

#[test]
fn separators_are_those_of_psql() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let one =
        |options: &[&str]| run(home, &[&["shell", "-c", "SELECT 1 AS a, 'x;y' AS b"], options].concat(), "").stdout;
    assert_eq!(one(&["-Atz"]), "1\0x;y\n");
    assert_eq!(one(&["--csv", "-P", "csv_fieldsep=;"]), "a;b\n1;\"x;y\"\n");
    assert_eq!(one(&["-P", "format=unaligned", "-P", "t", "-P", "fieldsep_zero"]), "1\0x;y\n");
    assert_eq!(succeeds(home, "\\pset csv_fieldsep ;\nSELECT 1 AS a, 2 AS b;\n"), "a;b\n1;2\n");
    fails(home, "\\pset csv_fieldsep ab\n", "it is one character");
    assert_eq!(run(home, &["shell", "-P", "nothing=1", "-c", "SELECT 1"], "").code, Some(2));
}

#[test]
fn one_branch_of_a_condition_runs() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let branches = "\\if :a\nSELECT 1 AS x;\n\\if :b\n\\echo inner\n\\endif\n\\elif :b\n\\echo second\n\\dance\n\
                    \\else\nSELECT 3\nAS x;\n\\endif\n\\echo end\n";
    let with = |a: &str, b: &str| format!("\\set a {a}\n\\set b {b}\n{branches}");
    assert_eq!(succeeds(home, &with("true", "off")), "x\n1\nend\n");
    assert_eq!(succeeds(home, &with("1", "yes")), "x\n1\ninner\nend\n");
    assert_eq!(succeeds(home, &with("0", "no")), "x\n3\nend\n");
    assert_eq!(fails(home, &with("off", "on"), "unknown command \\dance"), "second\nend\n");
    let asked = "SELECT count(*) > 0 AS found FROM information_schema.tables WHERE table_name = 't' \\gset\n\
                 \\if :found\n\\echo there\n\\else\nCREATE TABLE t (a int);\n\\echo made\n\\endif\n";
    assert_eq!(succeeds(home, &format!("{asked}{asked}")), "made\nthere\n");
    // What is no condition is false.
    assert_eq!(fails(home, "\\if maybe\n\\echo a\n\\else\n\\echo b\n\\endif\n", "'maybe' is no condition"), "b\n");
    fails(home, "\\endif\n", "there is no \\if before it");
    assert_eq!(fails(home, "\\if true\n\\echo a\n", "an \\if has no \\endif"), "a\n");
    // A file ends the conditions that it begins, and no others.
    std::fs::write(home.join("open.sql"), "\\if false\n").unwrap();
    std::fs::write(home.join("close.sql"), "\\endif\n").unwrap();
    assert_eq!(fails(home, "\\i open.sql\n\\echo on\n", "open.sql: an \\if has no \\endif"), "on\n");
    assert_eq!(fails(home, "\\if true\n\\i close.sql\n\\echo on\n\\endif\n", "close.sql:1"), "on\n");
}

#[test]
fn values_run_as_statements() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let script = "SELECT format('CREATE TABLE t%s (a int)', i), NULL, format('INSERT INTO t%s VALUES (%s)', i, i) \
                  FROM generate_series(1, 3) AS s(i) ORDER BY i \\gexec\n\
                  SELECT (SELECT a FROM t1) + (SELECT a FROM t2) + (SELECT a FROM t3) AS n;\n";
    assert_eq!(succeeds(home, script), "n\n6\n");
    let ran = fails(home, "SELECT * FROM (VALUES ('SELECT 1 AS a'), ('SELECT x'), ('SELECT 2 AS b')) v \\gexec\n", "x");
    assert_eq!(ran, "a\n1\n");
    assert!(succeeds(home, "SELECT 1 AS a, 'x' AS b \\gdesc\n").contains("b,text"));
    let crossed = "SELECT * FROM (VALUES ('x', 'b', 1), ('y', 'b', 2), ('x', 'a', 3)) AS v(l, t, n) \\crosstabview";
    assert_eq!(succeeds(home, &format!("{crossed}\n")), "l,b,a\nx,1,3\ny,2,\n");
    assert_eq!(succeeds(home, &format!("{crossed} t l\n")), "t,x,y\nb,1,2\na,3,\n");
    fails(home, "SELECT 1 \\crosstabview\n", "at least three columns");
}

#[test]
fn the_first_error_ends_a_script_if_wanted() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(fails(home, "SELECT x;\n\\echo on\n", "x"), "on\n");
    assert_eq!(fails(home, "\\set ON_ERROR_STOP on\nSELECT x;\n\\echo on\n", "x"), "");
    // Files name others from where they are.
    std::fs::create_dir(home.join("deep")).unwrap();
    std::fs::write(home.join("deep/a.sql"), "\\ir b.sql\n\\echo a\n").unwrap();
    std::fs::write(home.join("deep/b.sql"), "\\echo b\n").unwrap();
    assert_eq!(succeeds(home, "\\i deep/a.sql\n\\ir deep/b.sql\n"), "b\na\nb\n");
    // \echo is no result, \qecho is one.
    assert_eq!(succeeds(home, "\\o out\n\\echo -n here\n\\qecho there\n\\o\n"), "here");
    assert_eq!(std::fs::read_to_string(home.join("out")).unwrap(), "there\n");
    let ran = piped(home, "\\warn 'look  out'\n");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", "look  out\n"));
}

#[test]
fn definitions_are_shown() {
    let home = tempfile::tempdir().unwrap();
    let made =
        "CREATE FUNCTION twice(x int) RETURNS int LANGUAGE sql AS 'SELECT x * 2';\nCREATE VIEW v AS SELECT 1 AS a;\n";
    let shown = succeeds(home.path(), &format!("{made}\\sf twice\n\\sv v\n"));
    assert!(shown.contains("FUNCTION public.twice(x integer)") && shown.contains("SELECT x * 2"), "{shown}");
    assert!(shown.contains("CREATE OR REPLACE VIEW v AS\n") && shown.contains("SELECT 1 AS a"), "{shown}");
}

#[test]
fn what_belongs_to_a_table_stands_below_its_columns() {
    let home = tempfile::tempdir().unwrap();
    let made = "CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b > 0));\nCREATE INDEX i ON t (b);\n\
                CREATE TABLE u (a int REFERENCES t);\n.mode table\n";
    let shown = succeeds(home.path(), &format!("{made}\\d t\n"));
    let (_, below) = shown.split_once("Indexes:\n").unwrap_or_else(|| panic!("{shown}"));
    let parts =
        ["t_pkey", "CREATE INDEX i ON", "Constraints:\n", "PRIMARY KEY (a)", "CHECK", "Referenced by:\n  u, u_a_fkey:"];
    for part in parts {
        assert!(below.contains(part), "{part}: {shown}");
    }
    assert!(!succeeds(home.path(), &format!("{made}\\d u\n")).contains("Indexes:"));
    std::fs::write(home.path().join("f.csv"), "a\n1\n").unwrap();
    assert!(succeeds(home.path(), ".mode table\n\\d 'f.csv'\n").contains("bigint"));
    // Each table that fits a pattern.
    let all = succeeds(home.path(), &format!("{made}\\d ?\n"));
    let (of_t, of_u) = all.split_once("public.u:\n").unwrap_or_else(|| panic!("{all}"));
    assert!(of_t.contains("public.t:\n") && of_t.contains("t_pkey") && of_u.contains("u_a_fkey"), "{all}");
    let system = succeeds(home.path(), ".mode table\n\\d system.pool*\n\\dv system.pool*\n");
    for part in ["system.pool:\n", "kept_from", "system.pool_numbers:\n", "refused_total", "VIEW"] {
        assert!(system.contains(part), "{part}: {system}");
    }
    fails(home.path(), "\\d nothing*\n", "no table or view fits 'nothing*'");
}

/// `diligence serve`, as long as it lives.
struct Server(Child, String);

impl Server {
    fn start(home: &Path) -> Self {
        let mut command = diligence(home);
        command.args(["serve", "--postgres", "0", "--http", "off", "--memory", "256MiB"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().to_owned())
    }

    fn run(&self, home: &Path, script: &str) -> Ran {
        run(home, &["shell", "--connect", &self.1], script)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_copy_reads_and_writes_files_of_this_machine() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let there = tempfile::tempdir().unwrap();
    // The server has another working directory, and lets its clients name no files.
    let server = Server::start(there.path());
    std::fs::write(home.join("in.csv"), "a,b\n1,one\n2,\"two, or so\"\n").unwrap();
    let script = "CREATE TABLE t (a int, b text);\n\\copy t from in.csv csv header\n\
                  \\copy t (b) from program 'echo piped'\n\
                  \\copy (select a, b from t order by a) to 'out.csv' with (format csv, header)\n\
                  \\copy t (a) to program 'sort > sorted' (null '-')\n\\copy (select 7) to stdout\n\\echo :ROW_COUNT\n";
    let ran = server.run(home, script);
    let expected = "CREATE TABLE\nCOPY 2\nCOPY 1\nCOPY 3\nCOPY 3\n7\n1\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{}", ran.stderr);
    let out = std::fs::read_to_string(home.join("out.csv")).unwrap();
    assert_eq!(out, "a,b\n1,one\n2,\"two, or so\"\n,piped\n");
    assert_eq!(std::fs::read_to_string(home.join("sorted")).unwrap(), "-\n1\n2\n");
    // A refused row is told, and the next statement runs.
    std::fs::write(home.join("bad.csv"), "a,b\nx,one\n").unwrap();
    let ran = server.run(home, "\\copy t from bad.csv csv header\nSELECT count(*) AS n FROM t \\g | grep 3\n");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("integer: \"x\"") && ran.stdout.contains('3'), "{}{}", ran.stdout, ran.stderr);
    let ran = server.run(home, "SELECT * FROM nowhere;\n\\echo :SQLSTATE\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "42P01\n"), "{}", ran.stderr);
    let ran = server.run(home, "\\copy t from nowhere.csv\n\\copy t\n");
    for told in ["cannot read nowhere.csv", "usage: \\copy TABLE"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    // Rows stand behind the command, as they do behind COPY, also if nothing comes of them.
    let ran = server.run(home, "\\copy t from stdin\n7\tseven\n\\.\n\\echo :ROW_COUNT\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "COPY 1\n1\n"), "{}", ran.stderr);
    let ran = server.run(home, "\\copy nowhere from stdin\n7\tseven\n\\.\n\\echo on\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "on\n"), "{}", ran.stderr);
    drop(server);
    // A database in this process reads the file itself.
    let script = "CREATE TABLE t (a int, b text);\n\\copy t from 'in.csv' csv header\nSELECT sum(a) AS n FROM t;\n";
    assert_eq!(succeeds(home, script), "n\n3\n");
    assert_eq!(succeeds(home, "\\copy (SELECT 1 AS a) to here.csv\n"), "");
    assert_eq!(std::fs::read_to_string(home.join("here.csv")).unwrap(), "a\n1\n");
    // So are psql's own formats.
    std::fs::write(home.join("in.txt"), "1\tone\\ttab\n2\t\\N\n").unwrap();
    let script = "CREATE TABLE t (a int, b text);\n\\copy t from in.txt\n\\copy (select * from t order by a) to out.txt\n\
                  \\copy t to 'out.csv' (format binary)\n\\copy t from out.csv (format binary)\n\
                  SELECT count(*) AS n, count(b) AS m, max(b) AS b FROM t;\n";
    assert_eq!(succeeds(home, script), "n,m,b\n4,2,one\ttab\n");
    assert_eq!(std::fs::read_to_string(home.join("out.txt")).unwrap(), "1\tone\\ttab\n2\t\\N\n");
    // COPY itself, too, also in statements of the command line.
    let script = "CREATE TABLE t (a int, b text); COPY t FROM 'in.txt'; COPY t TO 'all.bin' (FORMAT binary);\
                  COPY t FROM 'all.bin' WITH BINARY; COPY (SELECT count(*), max(b) FROM t) TO 'all.txt' (FORMAT text)";
    let ran = run(home, &["-qc", script], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(home.join("all.txt")).unwrap(), "4\tone\\ttab\n");
    fails(home, "CREATE TABLE t (a int);\nCOPY t FROM 'nowhere.txt' (FORMAT text);\n", "could not open file");
    let quoted = "COPY (SELECT 1 AS a, 'x' AS b) TO 'quoted.csv' (FORMAT csv, HEADER, FORCE_QUOTE (b));\n\
                  CREATE TABLE t (a int, b text);\nCOPY t FROM 'quoted.csv' (FORMAT csv, HEADER, ON_ERROR ignore);\n\
                  SELECT * FROM t;\n";
    assert_eq!(succeeds(home, quoted), "a,b\n1,x\n");
    assert_eq!(std::fs::read_to_string(home.join("quoted.csv")).unwrap(), "a,b\n1,\"x\"\n");
}

#[test]
fn rows_stand_behind_a_copy_of_the_shell() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let made = "CREATE TABLE t (a int, b text);\n";
    let copied = "\\copy t (a, b) from stdin (format csv)\n1,\"one; \\x\"\n2,two\n\\.\n";
    let shown = "SELECT * FROM t ORDER BY a;\n";
    let expected = "a,b\n1,one; \\x\n2,two\n";
    assert_eq!(succeeds(home, &format!("{made}{copied}{shown}")), expected);
    // Those that are left out, and those in files, also where the file itself is the input.
    let left_out = format!("{made}\\if false\n{copied}\\endif\n{copied}{shown}");
    assert_eq!(succeeds(home, &left_out), expected);
    std::fs::write(home.join("copy.sql"), format!("{copied}{shown}")).unwrap();
    assert_eq!(succeeds(home, &format!("{made}\\i copy.sql\n")), expected);
    std::fs::write(home.join("all.sql"), format!("{made}{copied}\\copy t from pstdin csv\n{shown}")).unwrap();
    let ran = run(home, &["shell", "--csv", "-f", "all.sql"], "3,three\n");
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{expected}3,three\n")), "{}", ran.stderr);
    // A mistake in a row is told, and what follows runs.
    let told = fails(home, &format!("{made}\\copy t from stdin\nx\ty\n\\.\n{shown}"), "integer: \"x\"");
    assert_eq!(told, "a,b\n");
}

#[test]
fn values_are_separated_as_scripts_want_them() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let query = "SELECT true AS a, NULL AS b, 'x|y' AS c, ARRAY[1, 2] AS d UNION ALL SELECT false, 'b', '', NULL";
    let of = |arguments: &[&str], input: &str| {
        let ran = run(home, arguments, input);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}: {}", ran.stdout);
        ran.stdout
    };
    let ordered = format!("{query} ORDER BY a DESC");
    let ordered = ordered.as_str();
    assert_eq!(of(&["-Atc", ordered], ""), "t||x|y|{1,2}\nf|b||\n");
    assert_eq!(of(&["sql", "-A", ordered], ""), "a|b|c|d\nt||x|y|{1,2}\nf|b||\n(2 rows)\n");
    assert_eq!(of(&["shell", "-XAt", "-F", ",", "-R", ";", "-c", ordered], ""), "t,,x|y,{1,2};f,b,,\n");
    assert_eq!(of(&["sql", "--csv", "-t", "-c", "SELECT 1 AS a"], ""), "1\n");
    assert_eq!(of(&["sql", "-Ax", "-c", "SELECT 1 AS a, 2 AS b"], ""), "a|1\nb|2\n");
    // Commands say what they have done, unless they are to be quiet.
    assert_eq!(of(&["sql", "-A", "-c", "CREATE TABLE t (a int)"], ""), "CREATE TABLE\n");
    assert_eq!(of(&["sql", "-q", "-c", "CREATE TABLE t (a int)"], ""), "");
    let quiet = "\\set QUIET 1\nCREATE TABLE t (a int);\n\\set QUIET off\nINSERT INTO t VALUES (1);\n";
    assert_eq!(of(&["shell", "-A"], quiet), "INSERT 1\n");
    assert_eq!(of(&["-At", "-o", "written", "-c", "SELECT 1", "-c", "SELECT 2"], ""), "");
    assert_eq!(std::fs::read_to_string(home.join("written")).unwrap(), "1\n2\n");
    assert_eq!(of(&["shell", "-At", "-o", "| tr 1 9"], "SELECT 1;\n"), "9\n");
    let script = "\\a\n\\t on\n\\f '\\t'\n\\pset null -\nSELECT 1, NULL;\n\\pset recordsep ';'\n\\f ,\n\
                  SELECT * FROM (VALUES (1, 2), (3, 4)) AS v ORDER BY 1;\n\\a\n\\pset format unaligned\nSELECT 5;\n";
    assert_eq!(of(&["shell", "-q"], script), "1\t-\n1,2;3,4\n5\n");
    let once = "SELECT 1 AS a \\g (format=unaligned tuples_only=on)\nSELECT 1 AS a, 2 AS b \\g (format=csv) | tr , ';'\n\
                SELECT 2 AS a \\g (format=json)\n";
    assert_eq!(of(&["shell", "--csv"], once), "1\na;b\n1;2\n[{\"a\":2}]\n");
}

#[test]
fn statements_of_the_command_line_run_in_the_shell() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::create_dir(home.join("deep")).unwrap();
    std::fs::write(home.join("deep/a.sql"), "CREATE TABLE t (a int);\n\\ir b.sql\nSELECT x;\n\\echo on\n").unwrap();
    std::fs::write(home.join("deep/b.sql"), "\\echo b\n").unwrap();
    let of = |arguments: &[&str]| run(home, &[&["shell", "-qAt"], arguments].concat(), "SELECT 'not read';\n");
    let ran = of(&["-f", "deep/a.sql", "-c", "\\echo :n", "-c", "SELECT count(*) FROM t", "-v", "n=7"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "b\non\n7\n0\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("deep/a.sql:3:8"), "{}", ran.stderr);
    let ran = of(&["-v", "ON_ERROR_STOP=1", "-c", "SELECT x", "-c", "SELECT 2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let ran = of(&["-c", "\\q", "-c", "SELECT 2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    let ran = of(&["-f", "nowhere.sql", "-c", "SELECT 2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "2\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot read nowhere.sql"), "{}", ran.stderr);
    assert_eq!(of(&["-f", "-"]).stdout, "not read\n");
}

#[test]
fn parameters_get_values() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(succeeds(home, "SELECT $1::int + 1 AS a, $2 AS b \\bind 41 'it''s; x' \\g\n"), "a,b\n42,it's; x\n");
    assert_eq!(succeeds(home, "\\set n 3\nSELECT $1 * 2 AS a \\bind :n;\nSELECT 7 AS b \\bind \\g\n"), "a\n6\nb\n7\n");
    assert_eq!(succeeds(home, "SELECT $1::int AS a \\bind 5 \\gset x_\n\\echo :x_a :ROW_COUNT\n"), "5 1\n");
    let twice =
        "CREATE TABLE t (a int);\nINSERT INTO t VALUES ($1) \\bind 1 \\g\n\\bind 2 \\g\nSELECT * FROM t ORDER BY a;\n";
    assert_eq!(succeeds(home, twice), "a\n1\n2\n");
    fails(home, "SELECT $1::int \\bind x \\g\n", "integer: \"x\"");
    fails(home, "SELECT $1::int \\bind \\dt\n", "has no end");
}

#[test]
fn commands_have_the_environment_of_the_shell() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let script = "\\setenv MADE 'a b'\n\\! echo \"$MADE\"\n\\set here `echo $MADE`\n\\echo :here\n\\getenv again MADE\n\
                  \\echo :again\nSELECT 1 AS a \\g | cat >&2 && echo $MADE\n\\setenv MADE\n\\! echo ${MADE-gone}\n";
    let ran = piped(home, script);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a b\na b\na b\na b\ngone\n"), "{}", ran.stderr);
    fails(home, "\\setenv A=B c\n", "a name has no '='");
    assert_eq!(succeeds(home, "\\encoding\n\\encoding utf8\n"), "UTF8\n");
    fails(home, "\\encoding latin1\n", "all text is UTF-8");
}

#[test]
fn files_are_imported_and_options_of_other_shells_understood() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("in.csv"), "a,b\n1,x\n").unwrap();
    std::fs::write(home.join("my notes"), "about\na;b\n2;y\n").unwrap();
    let script = ".import in.csv t\n.import in.csv t\n.import --csv --skip 1 'my notes' t\n\
                  SELECT count(*) AS n, sum(a) AS s, max(b) AS b FROM t;\n";
    assert_eq!(succeeds(home, script), "n,s,b\n3,4,y\n");
    fails(home, ".import in.csv\n", "usage: .import");
    fails(home, ".import nowhere.csv t\n", "nowhere.csv");
    for (options, expected) in [
        (&["-csv", "-noheader"][..], "1,x\n"),
        (&["-X", "-json", "-batch"], "[{\"a\":1,\"b\":\"x\"}]\n"),
        (&["--format", "unaligned", "-separator", ";", "-t"], "1;x\n"),
    ] {
        let line = [options, &["-c", "SELECT 1 AS a, 'x' AS b"]].concat();
        let ran = run(home, &line, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{options:?}: {}", ran.stderr);
    }
    let ran = run(home, &["-markdown", "-c", "SELECT 1 AS a"], "");
    assert!(ran.code == Some(0) && ran.stdout.starts_with("| a |\n|"), "{}{}", ran.stdout, ran.stderr);
    let ran = run(home, &["--format", "xml", "-c", "SELECT 1"], "");
    assert!(ran.code == Some(2) && ran.stderr.contains("the formats are table, csv"), "{}", ran.stderr);
}
