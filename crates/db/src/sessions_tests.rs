//! Tests of several sessions side by side: foreign keys, and transactions that are as if each had run alone.

use diligence_base::seams::Random;

use crate::test_sessions::{number, run};
use crate::{Database, DatabaseOptions, Session};

fn database() -> Database {
    Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap()
}

/// What a statement ends with: a code, or nothing.
fn outcome(session: &Session, sql: &str) -> &'static str {
    let done = session.execute(sql).and_then(|result| result.collect());
    done.err().map_or("", |error| error.code().unwrap_or("no code"))
}

/// Runs a statement that waits for another session, and then what that one does; gives what both end with.
fn behind(watch: &Session, waits: (&Session, &str), then: (&Session, &str)) -> [&'static str; 2] {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| outcome(waits.0, waits.1));
        while number(watch, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
            assert!(!waiting.is_finished(), "{} does not wait", waits.1);
            std::thread::yield_now();
        }
        let then = outcome(then.0, then.1);
        [waiting.join().unwrap(), then]
    })
}

/// Parents 1 and 2 without children.
fn two_parents(session: &Session) {
    run(session, "DROP TABLE IF EXISTS c, p");
    run(session, "CREATE TABLE p (id INT PRIMARY KEY, v INT)");
    run(session, "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p)");
    run(session, "INSERT INTO p VALUES (1, 1), (2, 2)");
}

#[test]
fn children_and_those_who_take_their_parents_away_wait_for_each_other() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    let child = "INSERT INTO c VALUES (1, 2)";
    for gone in ["DELETE FROM p WHERE id = 2", "UPDATE p SET id = 12 WHERE id = 2"] {
        for (end, expected) in [("COMMIT", "23503"), ("ROLLBACK", "")] {
            for (first, second) in [(gone, child), (child, gone)] {
                for in_block in [false, true] {
                    two_parents(&watch);
                    run(&one, "BEGIN");
                    run(&one, first);
                    if in_block {
                        run(&two, "BEGIN");
                        run(&two, "INSERT INTO c VALUES (9, 1)");
                    }
                    let done = behind(&watch, (&two, second), (&one, end));
                    assert_eq!(done, [expected, ""], "{first}; {second}; {end}");
                    if in_block {
                        run(&two, if expected.is_empty() { "COMMIT" } else { "ROLLBACK" });
                    }
                }
            }
        }
    }
    // Who locks a parent for itself keeps children out.
    two_parents(&watch);
    run(&one, "BEGIN");
    run(&one, "SELECT * FROM p WHERE id = 2 FOR UPDATE");
    assert_eq!(behind(&watch, (&two, child), (&one, "COMMIT")), ["", ""]);
}

#[test]
fn who_takes_parents_away_waits_for_those_who_change_what_refers_to_them() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    for (refers, first, second, committed, undone) in [
        // Somebody takes the last child away.
        ("", "DELETE FROM c", "DELETE FROM p", "", "23503"),
        // Children that follow, and their own.
        ("ON DELETE CASCADE", "UPDATE c SET v = 7", "DELETE FROM p", "", ""),
        ("ON DELETE SET NULL", "UPDATE c SET v = 7", "DELETE FROM p", "", ""),
        ("ON UPDATE CASCADE", "DELETE FROM c", "UPDATE p SET id = id + 10", "", ""),
        ("ON DELETE CASCADE", "INSERT INTO g VALUES (1, 1)", "DELETE FROM p", "23503", ""),
    ] {
        for (end, expected) in [("COMMIT", committed), ("ROLLBACK", undone)] {
            run(&watch, "DROP TABLE IF EXISTS g, c, p");
            run(&watch, "CREATE TABLE p (id INT PRIMARY KEY)");
            run(&watch, &format!("CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p {refers}, v INT)"));
            run(&watch, "CREATE TABLE g (id INT, c INT REFERENCES c)");
            run(&watch, "INSERT INTO p VALUES (1), (2)");
            run(&watch, "INSERT INTO c VALUES (1, 1, 1)");
            run(&one, "BEGIN");
            run(&one, first);
            let done = behind(&watch, (&two, second), (&one, end));
            assert_eq!(done, [expected, ""], "{refers}: {first}; {second}; {end}");
            let orphans = "SELECT count(*) FROM c WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM p)";
            assert_eq!(number(&watch, orphans), 0, "{refers}: {first}; {second}; {end}");
        }
    }
}

#[test]
fn children_wait_for_nothing_else() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    two_parents(&watch);
    run(&one, "BEGIN");
    run(&two, "BEGIN");
    // Another value of a parent is not another key, and two may have one parent.
    run(&one, "UPDATE p SET v = 9 WHERE id = 2");
    run(&one, "INSERT INTO c VALUES (1, 1)");
    run(&two, "INSERT INTO c VALUES (2, 2), (3, 1)");
    run(&two, "UPDATE p SET v = 8 WHERE id = 1");
    run(&one, "COMMIT");
    run(&two, "COMMIT");
    // A parent that nobody else sees is none.
    run(&one, "BEGIN");
    run(&one, "INSERT INTO p VALUES (3, 3)");
    assert_eq!(outcome(&two, "INSERT INTO c VALUES (4, 3)"), "23503");
    run(&one, "COMMIT");
    run(&two, "INSERT INTO c VALUES (4, 3)");
    // A child that gets other values and has its parent still waits for nobody who locks that.
    run(&one, "BEGIN");
    run(&one, "SELECT * FROM p WHERE id = 3 FOR UPDATE");
    run(&two, "UPDATE c SET id = 5 WHERE id = 4");
    run(&one, "COMMIT");
    assert_eq!(number(&watch, "SELECT count(*) FROM pg_locks"), 0);
}

#[test]
fn who_sees_one_moment_is_told_which_reference_is_broken() {
    let database = database();
    let [one, two] = [(); 2].map(|()| database.session());
    for (other, sql, expected) in [
        ("INSERT INTO p VALUES (3, 3)", "INSERT INTO c VALUES (1, 3)", "23503"),
        ("INSERT INTO c VALUES (5, 2)", "DELETE FROM p WHERE id = 2", "23503"),
        ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (9, 1)", "40001"),
    ] {
        two_parents(&two);
        run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        assert_eq!(number(&one, "SELECT count(*) FROM p"), 2);
        run(&two, other);
        assert_eq!(outcome(&one, sql), expected, "{other}; {sql}");
        run(&one, "ROLLBACK");
    }
}

#[test]
fn of_two_who_take_each_others_parents_away_one_fails() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    two_parents(&watch);
    for (session, child) in [(&one, 1), (&two, 2)] {
        run(session, "BEGIN");
        run(session, &format!("INSERT INTO c VALUES ({child}, {child})"));
    }
    let delete = |session: &Session, parent: i32| {
        let code = outcome(session, &format!("DELETE FROM p WHERE id = {parent}"));
        run(session, "ROLLBACK");
        code
    };
    let codes = std::thread::scope(|scope| {
        let other = scope.spawn(|| delete(&two, 1));
        [delete(&one, 2), other.join().unwrap()]
    });
    assert!(codes == ["40P01", ""] || codes == ["", "40P01"], "{codes:?}");
}

#[test]
fn no_commit_fails_for_a_parent_that_others_have_taken_away() {
    let database = database();
    let watch = database.session();
    run(&watch, "CREATE TABLE p (id INT PRIMARY KEY, v INT)");
    run(&watch, "CREATE TABLE c (id INT, p INT REFERENCES p)");
    run(&watch, "INSERT INTO p SELECT i, 0 FROM generate_series(1, 4) AS s(i)");
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let session = database.session();
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..60 {
                    run(&session, "BEGIN");
                    let mut code = "";
                    for _ in 0..1 + random.below(3) {
                        let parent = 1 + random.below(6);
                        let sql = match random.below(6) {
                            0 | 1 => format!("INSERT INTO c VALUES (1, {parent})"),
                            2 => format!("DELETE FROM c WHERE p = {parent}"),
                            3 => format!("DELETE FROM p WHERE id = {parent}"),
                            4 => format!("INSERT INTO p VALUES ({parent}, 1)"),
                            _ => format!("UPDATE p SET v = v + 1 WHERE id = {parent}"),
                        };
                        code = outcome(&session, &sql);
                        if !code.is_empty() {
                            assert!(["23503", "23505", "40P01"].contains(&code), "{sql}: {code}");
                            break;
                        }
                    }
                    run(&session, if code.is_empty() { "COMMIT" } else { "ROLLBACK" });
                }
            });
        }
    });
    assert_eq!(number(&watch, "SELECT count(*) FROM c WHERE p NOT IN (SELECT id FROM p)"), 0);
    assert_eq!(number(&watch, "SELECT count(*) FROM pg_locks"), 0);
}

#[test]
fn serializable_transactions_fail_only_for_what_they_have_read() {
    let database = database();
    let [one, two] = [(); 2].map(|()| database.session());
    for table in ["a", "b", "other", "empty"] {
        run(&one, &format!("CREATE TABLE {table} (x INT)"));
    }
    run(&one, "INSERT INTO a VALUES (1)");
    run(&one, "INSERT INTO b VALUES (1)");
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let (reads_a, reads_b) = ("SELECT count(*) FROM a", "SELECT count(*) FROM b WHERE x = 1");
    let (writes_a, writes_b) = ("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)");
    let reads_nothing = "SELECT count(*) FROM empty WHERE x = 1";
    // What the first reads and writes, what the second does before its end, and how it ends.
    for (first, second, end) in [
        (vec![reads_a, writes_b], "INSERT INTO other VALUES (1)", ""),
        (vec![reads_a, writes_b], writes_b, ""),
        (vec![writes_a], writes_a, ""),
        (vec![reads_a, reads_b], writes_a, ""),
        (vec![reads_a, writes_b], writes_a, "40001"),
        (vec![writes_b, reads_a], writes_a, "40001"),
        (vec![writes_b, reads_a], "DELETE FROM a WHERE x = 2", "40001"),
        (vec!["UPDATE b SET x = x WHERE x = 3"], writes_b, ""),
        (vec!["INSERT INTO other SELECT x FROM a"], writes_a, "40001"),
        (vec!["DELETE FROM other WHERE x IN (SELECT x FROM b)"], writes_b, "40001"),
        (vec![reads_nothing, writes_b], "INSERT INTO empty VALUES (1)", "40001"),
    ] {
        run(&one, begin);
        first.iter().for_each(|sql| run(&one, sql));
        run(&two, second);
        assert_eq!(outcome(&one, "COMMIT"), end, "{first:?}; {second}");
    }
    // Each reads what the other writes.
    run(&one, begin);
    run(&two, begin);
    for (session, reads, writes) in [(&one, reads_a, writes_b), (&two, reads_b, writes_a)] {
        run(session, reads);
        run(session, writes);
    }
    run(&one, "COMMIT");
    assert_eq!(outcome(&two, "COMMIT"), "40001");
}

#[test]
fn what_a_table_of_a_transaction_refers_to_is_there_when_that_ends() {
    let database = database();
    let [one, two] = [(); 2].map(|()| database.session());
    let made = ["CREATE TABLE c (p INT REFERENCES p)", "INSERT INTO c VALUES (1)"];
    let altered = ["ALTER TABLE old ADD FOREIGN KEY (p) REFERENCES p", "INSERT INTO other VALUES (1)"];
    let unproven = ["ALTER TABLE old ADD FOREIGN KEY (p) REFERENCES p NOT VALID", "INSERT INTO other VALUES (1)"];
    let late = ["CREATE TABLE c (p INT REFERENCES p INITIALLY DEFERRED)", "INSERT INTO c VALUES (1)"];
    // What the first does, what the second does before its end, and how it ends.
    for (first, second, end) in [
        (made, "DELETE FROM p", "23503"),
        (made, "UPDATE p SET id = 7 WHERE id = 1", "23503"),
        (made, "TRUNCATE p", "23503"),
        (made, "DELETE FROM p WHERE id = 2", ""),
        (made, "INSERT INTO p VALUES (3)", ""),
        (made, "ALTER TABLE p RENAME TO q", ""),
        (made, "ALTER TABLE p DROP CONSTRAINT p_pkey", "40001"),
        (made, "DROP TABLE p", "40001"),
        (late, "DELETE FROM p", "23503"),
        (altered, "DELETE FROM p", "23503"),
        (altered, "DELETE FROM p WHERE id = 2", ""),
        (altered, "DROP TABLE p", "40001"),
        (unproven, "DELETE FROM p", ""),
    ] {
        run(&one, "DROP TABLE IF EXISTS c, old, other, p, q");
        run(&one, "CREATE TABLE p (id INT PRIMARY KEY)");
        run(&one, "CREATE TABLE old (p INT)");
        run(&one, "CREATE TABLE other (a INT)");
        run(&one, "INSERT INTO p VALUES (1), (2)");
        run(&one, "INSERT INTO old VALUES (1)");
        run(&one, "BEGIN");
        first.iter().for_each(|sql| run(&one, sql));
        run(&two, second);
        // Whether it sees what others have done meanwhile makes no difference.
        run(&one, "SELECT count(*) FROM other");
        run(&one, "INSERT INTO other VALUES (2)");
        assert_eq!(outcome(&one, "COMMIT"), end, "{first:?}; {second}");
        let references = number(&one, "SELECT count(*) FROM pg_constraint WHERE contype = 'f'");
        assert_eq!(references, i64::from(end.is_empty()), "{first:?}; {second}");
        assert_eq!(number(&one, "SELECT count(*) FROM old"), 1);
    }
}

#[test]
fn nobody_is_granted_what_a_role_that_has_gone_had() {
    let database = database();
    let [one, two] = [(); 2].map(|()| database.session());
    run(&one, "CREATE TABLE t (a INT)");
    run(&one, "CREATE ROLE other");
    let grants = ["GRANT SELECT ON t TO r", "ALTER TABLE t OWNER TO r", "GRANT r TO other"];
    for grant in grants {
        for (first, second) in [(grant, "DROP ROLE r"), ("DROP ROLE r", grant)] {
            run(&one, "CREATE ROLE r");
            run(&one, "BEGIN");
            run(&one, first);
            run(&two, second);
            assert_eq!(outcome(&one, "COMMIT"), "40001", "{first}; {second}");
            run(&one, "ALTER TABLE t OWNER TO diligence");
            run(&one, "REVOKE ALL ON t FROM other");
            assert_eq!(outcome(&one, "DROP OWNED BY r"), if second == grant { "" } else { "42704" }, "{first}");
            assert_eq!(outcome(&one, "DROP ROLE r"), if second == grant { "" } else { "42704" }, "{first}");
        }
    }
    run(&one, "CREATE ROLE r");
    run(&one, "BEGIN");
    run(&one, "GRANT SELECT ON t TO r");
    run(&two, "DROP ROLE other");
    run(&one, "COMMIT");
    assert_eq!(number(&one, "SELECT count(*) FROM pg_roles WHERE rolname IN ('r', 'other')"), 1);
}

/// Two rows with unique keys, one of them computed and one that excludes others.
fn two_keys(session: &Session) {
    run(session, "DROP TABLE IF EXISTS k");
    run(session, "CREATE TABLE k (id INT PRIMARY KEY, s TEXT, r int4range, EXCLUDE USING gist (r WITH &&))");
    run(session, "CREATE UNIQUE INDEX ON k (lower(s)) WHERE id < 100");
    run(session, "INSERT INTO k VALUES (1, 'A', '[1,5)'), (2, 'B', '[7,9)')");
}

#[test]
fn who_brings_a_key_waits_for_those_who_take_it_away() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    let gone = ["DELETE FROM k WHERE id = 1", "UPDATE k SET id = 101, s = 'x', r = '[20,21)' WHERE id = 1"];
    for (comes, refused) in [
        ("INSERT INTO k VALUES (1, 'c', NULL)", "23505"),
        ("INSERT INTO k VALUES (3, 'a', NULL)", "23505"),
        ("INSERT INTO k VALUES (3, 'c', '[4,6)')", "23P01"),
        ("UPDATE k SET id = 1 WHERE id = 2", "23505"),
        ("INSERT INTO k VALUES (1, 'c', NULL) ON CONFLICT DO NOTHING", ""),
        ("INSERT INTO k VALUES (3, 'c', '[2,3)') ON CONFLICT DO NOTHING", ""),
        ("MERGE INTO k USING (SELECT 1) v(x) ON false WHEN NOT MATCHED THEN INSERT VALUES (x, 'c', NULL)", "23505"),
    ] {
        for gone in gone {
            for (end, expected) in [("COMMIT", ""), ("ROLLBACK", refused)] {
                for in_block in [false, true] {
                    two_keys(&watch);
                    run(&one, "BEGIN");
                    run(&one, gone);
                    if in_block {
                        run(&two, "BEGIN");
                        run(&two, "INSERT INTO k VALUES (9, 'z', NULL)");
                    }
                    let done = behind(&watch, (&two, comes), (&one, end));
                    assert_eq!(done, [expected, ""], "{gone}; {comes}; {end}");
                    if in_block {
                        run(&two, if expected.is_empty() { "COMMIT" } else { "ROLLBACK" });
                    }
                    let count = number(&watch, "SELECT count(*) FROM k WHERE id IN (1, 3)");
                    assert_eq!(count, 1, "{gone}; {comes}; {end}");
                }
            }
        }
    }
    assert_eq!(number(&watch, "SELECT count(*) FROM pg_locks"), 0);
}

#[test]
fn who_brings_a_key_waits_for_nobody_who_only_locks_its_row() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    two_keys(&watch);
    run(&one, "BEGIN");
    run(&one, "SELECT * FROM k FOR UPDATE");
    assert_eq!(outcome(&two, "INSERT INTO k VALUES (1, 'c', NULL)"), "23505");
    run(&two, "INSERT INTO k VALUES (1, 'c', NULL) ON CONFLICT DO NOTHING");
    run(&one, "ROLLBACK");
    // Two that wait for each other's keys.
    run(&one, "BEGIN");
    run(&one, "DELETE FROM k WHERE id = 1");
    run(&two, "BEGIN");
    run(&two, "DELETE FROM k WHERE id = 2");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| outcome(&two, "INSERT INTO k VALUES (1, 'c', NULL)"));
        while number(&watch, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
            std::thread::yield_now();
        }
        assert_eq!(outcome(&one, "INSERT INTO k VALUES (2, 'd', NULL)"), "40P01");
        run(&one, "ROLLBACK");
        assert_eq!(first.join().unwrap(), "23505");
    });
    run(&two, "ROLLBACK");
}

#[test]
fn a_row_that_is_locked_for_its_key_keeps_it() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    for gone in ["DELETE FROM k WHERE id = 1", "UPDATE k SET id = 7 WHERE id = 1"] {
        two_keys(&watch);
        run(&one, "BEGIN");
        run(&one, "SELECT * FROM k WHERE id = 1 FOR KEY SHARE");
        run(&two, "UPDATE k SET r = '[30,31)' WHERE id = 1");
        assert_eq!(behind(&watch, (&two, gone), (&one, "COMMIT")), ["", ""]);
    }
}

#[test]
fn of_two_who_make_something_of_one_name_the_second_waits() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    for (made, again, dropped) in [
        ("CREATE TABLE n (x INT)", "42P07", "TABLE"),
        ("CREATE TABLE IF NOT EXISTS n (x INT)", "", "TABLE"),
        ("CREATE TABLE n AS SELECT 1 AS x", "42P07", "TABLE"),
        ("CREATE VIEW n AS SELECT 1 AS x", "42P07", "VIEW"),
        ("CREATE SEQUENCE n", "42P07", "SEQUENCE"),
        ("CREATE SCHEMA n", "42P06", "SCHEMA"),
        ("CREATE SCHEMA IF NOT EXISTS n", "", "SCHEMA"),
        ("CREATE TYPE n AS ENUM ('a')", "42710", "TYPE"),
    ] {
        for (end, expected) in [("COMMIT", again), ("ROLLBACK", "")] {
            for in_block in [false, true] {
                run(&one, "BEGIN");
                run(&one, made);
                if in_block {
                    run(&two, "BEGIN");
                    assert_eq!(number(&two, "SELECT 1"), 1);
                }
                assert_eq!(behind(&watch, (&two, made), (&one, end)), [expected, ""], "{made}; {end}");
                if in_block {
                    run(&two, if expected.is_empty() { "COMMIT" } else { "ROLLBACK" });
                }
                run(&watch, &format!("DROP {dropped} n"));
            }
        }
    }
    assert_eq!(number(&watch, "SELECT count(*) FROM pg_locks"), 0);
}

#[test]
fn what_a_view_names_stays_until_it_is_made() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    for (made, changes) in [
        ("CREATE TABLE b (x INT)", "DROP TABLE b"),
        ("CREATE VIEW b AS SELECT 1 AS x", "DROP VIEW b"),
        ("CREATE TABLE b (x INT)", "ALTER TABLE b DROP COLUMN x"),
    ] {
        run(&watch, made);
        run(&one, "BEGIN");
        run(&one, "CREATE VIEW v AS SELECT x FROM b");
        assert_eq!(behind(&watch, (&two, changes), (&one, "COMMIT")), ["2BP01", ""], "{changes}");
        run(&watch, "SELECT * FROM v");
        run(&watch, "DROP VIEW v");
        run(&watch, if made.starts_with("CREATE TABLE") { "DROP TABLE b" } else { "DROP VIEW b" });
    }
}

#[test]
fn a_row_that_on_conflict_leaves_as_it_is_is_locked() {
    let database = database();
    let [one, two, watch] = [(); 3].map(|()| database.session());
    run(&watch, "CREATE TABLE k (id INT PRIMARY KEY, n INT)");
    run(&watch, "CREATE TABLE l (id INT PRIMARY KEY, n INT)");
    run(&watch, "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'");
    run(&watch, "CREATE TRIGGER same BEFORE INSERT ON l FOR EACH ROW EXECUTE FUNCTION same()");
    for table in ["k", "l"] {
        run(&watch, &format!("INSERT INTO {table} VALUES (1, 1), (2, 2)"));
        let met = format!("INSERT INTO {table} AS k VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = 0 WHERE k.n < 0");
        let changes = format!("UPDATE {table} SET n = -1 WHERE id = 1");
        run(&one, "BEGIN");
        run(&one, &met);
        run(&two, &format!("UPDATE {table} SET n = 3 WHERE id = 2"));
        run(&two, &format!("SELECT * FROM {table} WHERE id = 1 FOR KEY SHARE"));
        assert_eq!(behind(&watch, (&two, &changes), (&one, "ROLLBACK")), ["", ""], "{table}");
        // The other way round: it looks again at the row for which it has waited. With triggers it does not wait.
        if table == "k" {
            run(&watch, "UPDATE k SET n = 3 WHERE id = 1");
            run(&one, "BEGIN");
            run(&one, "UPDATE k SET n = -2 WHERE id = 1");
            assert_eq!(behind(&watch, (&two, &met), (&one, "COMMIT")), ["", ""]);
            assert_eq!(number(&watch, "SELECT n FROM k WHERE id = 1"), 0);
        }
        // By itself it locks nothing for longer.
        run(&one, &met);
        assert_eq!(number(&watch, "SELECT count(*) FROM pg_locks"), 0, "{table}");
    }
}
