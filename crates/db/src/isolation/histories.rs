//! Random transactions of several sessions side by side, which append to lists and read them, and a search for
//! anomalies in what they have read.
//!
//! `DILIGENCE_HISTORY_SEEDS` says how many seeds (4; 400 for a night), `DILIGENCE_SEED` which is the first. A seed
//! gives the statements of each session, not their order.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use diligence_base::seams::Random;
use tempfile::TempDir;

use super::checker::anomalies;
use super::history::{ListStep, TransactionRecord};
use super::{LEVELS, is_waiting};
use crate::test_sessions::{in_folder, number, run, shown};
use crate::{Database, DatabaseOptions, Session};

const SEEDS: u64 = 4;
/// How many transactions a session tries.
const TRANSACTIONS: usize = 40;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// What the sessions of a history share.
struct Scene {
    database: Database,
    level: &'static str,
    lists: usize,
    /// Among how many tables the lists are spread.
    tables: usize,
    next_value: AtomicI64,
    clock: AtomicU64,
}

impl Scene {
    /// A database with empty tables, in memory or in a folder.
    fn new(random: &mut Random, level: &'static str, folder: Option<&TempDir>) -> Self {
        let in_memory = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
        let options = folder.map_or(in_memory, |folder| in_folder(folder.path()));
        let database = Database::open(options).unwrap();
        let (lists, next_value, clock) = (2 + random.below(4), AtomicI64::new(1), AtomicU64::new(1));
        let tables = random.pick(&[1, 2, lists]);
        let session = database.session();
        for table in 0..tables {
            run(&session, &format!("CREATE TABLE t{table} (k INT PRIMARY KEY, list INT[] NOT NULL)"));
        }
        for list in (0..lists).filter(|_| random.chance(50)) {
            run(&session, &format!("INSERT INTO t{} VALUES ({list}, '{{}}')", list % tables));
        }
        Self { database, level, lists, tables, next_value, clock }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// The lists in a table.
    fn lists_in(&self, table: usize) -> impl Iterator<Item = usize> {
        (0..self.lists).filter(move |list| list % self.tables == table)
    }
}

/// One session of a history, and what it has done.
struct Actor<'a> {
    scene: &'a Scene,
    session: Session,
    random: Random,
    records: Vec<TransactionRecord>,
    /// What statements have read, each for itself, of lists to which their transactions had appended nothing.
    statements: Vec<TransactionRecord>,
    /// The lists to which its transaction has appended.
    appended_to: HashSet<usize>,
    is_in_block: bool,
}

impl Actor<'_> {
    /// Runs a statement whose rows are keys and lists. Fails with the code of its error, if others may cause that.
    fn lists(&self, sql: &str, expected: &[&str]) -> Result<Vec<(usize, Vec<i64>)>, String> {
        let done = self.session.execute(sql).and_then(|result| result.collect());
        let batches = done.map_err(|error| {
            let code = error.code().unwrap_or_default().to_owned();
            assert!(expected.contains(&code.as_str()), "{sql}: {error} ({code})");
            code
        })?;
        let list = |row: String| {
            let (key, values) = row.split_once(' ').unwrap_or((&row, ""));
            let values = values.split(',').filter(|value| !value.is_empty());
            (key.parse().unwrap(), values.map(|value| value.trim().parse().unwrap()).collect::<Vec<i64>>())
        };
        Ok(shown(&batches).into_iter().map(list).collect())
    }

    /// Appends to a list, and reads what it is then. Puts what it does into `steps`, also if it fails.
    fn append(&mut self, steps: &mut Vec<ListStep>) -> Result<(), String> {
        let (list, value) = (self.random.below(self.scene.lists), self.scene.next_value.fetch_add(1, Ordering::SeqCst));
        self.appended_to.insert(list);
        let table = list % self.scene.tables;
        let returning = "RETURNING t.k, array_to_string(t.list, ',')";
        let (sql, expected): (String, &[&str]) = match self.random.below(4) {
            0 | 1 => (format!("UPDATE t{table} AS t SET list = list || {value} WHERE k = {list} {returning}"), &[]),
            2 => (
                format!(
                    "INSERT INTO t{table} AS t VALUES ({list}, ARRAY[{value}]) \
                     ON CONFLICT (k) DO UPDATE SET list = t.list || EXCLUDED.list {returning}"
                ),
                &[],
            ),
            _ => (
                format!(
                    "MERGE INTO t{table} AS t USING (SELECT {list} AS k) AS s ON t.k = s.k \
                     WHEN MATCHED THEN UPDATE SET list = t.list || {value} \
                     WHEN NOT MATCHED THEN INSERT VALUES (s.k, ARRAY[{value}]) {returning}"
                ),
                &["23505"],
            ),
        };
        let expected = [expected, &["40001", "40P01"]].concat();
        match self.lists(&sql, &expected) {
            // There is no row yet.
            Ok(rows) if rows.is_empty() => steps.push(ListStep::Read(list, vec![])),
            Ok(rows) => {
                steps.push(ListStep::Append(list, value));
                steps.extend(rows.into_iter().map(|(list, values)| ListStep::Read(list, values)));
            }
            Err(code) => {
                steps.push(ListStep::Append(list, value));
                return Err(code);
            }
        }
        Ok(())
    }

    /// Reads one list, those of a table, or all of them.
    fn read(&mut self, steps: &mut Vec<ListStep>) -> Result<(), String> {
        let scene = self.scene;
        let select = |table: usize| format!("SELECT k, array_to_string(list, ',') FROM t{table}");
        let list = self.random.below(scene.lists);
        let table = list % scene.tables;
        let (sql, asked): (String, Vec<usize>) = match self.random.below(6) {
            0 | 1 => (format!("{} WHERE k = {list}", select(table)), vec![list]),
            2 => (format!("{} WHERE k = {list} FOR UPDATE", select(table)), vec![list]),
            3 => (format!("{} WHERE k = {list} FOR SHARE", select(table)), vec![list]),
            4 => (select(table), scene.lists_in(table).collect()),
            _ => ((0..scene.tables).map(select).collect::<Vec<_>>().join(" UNION ALL "), (0..scene.lists).collect()),
        };
        let begun = self.scene.now();
        let rows = self.lists(&sql, &["40001", "40P01"])?;
        let is_of_others = !asked.iter().any(|list| self.appended_to.contains(list));
        let values =
            |list: usize| rows.iter().find(|(key, _)| *key == list).map_or(vec![], |(_, values)| values.clone());
        let read = asked.into_iter().map(|list| ListStep::Read(list, values(list))).collect::<Vec<_>>();
        if is_of_others {
            let lifetime = (begun, self.scene.now());
            self.statements.push(TransactionRecord { steps: read.clone(), is_committed: true, lifetime });
        }
        steps.extend(read);
        Ok(())
    }

    fn step(&mut self, steps: &mut Vec<ListStep>) -> Result<(), String> {
        // Others shall have something to do in between.
        std::thread::yield_now();
        if self.random.chance(50) { self.append(steps) } else { self.read(steps) }
    }

    fn keep(&mut self, steps: Vec<ListStep>, is_committed: bool, begun: u64) {
        let lifetime = (begun, self.scene.now());
        self.records.push(TransactionRecord { steps, is_committed, lifetime });
    }

    /// Some steps behind a savepoint, to which it goes back, perhaps since one of them failed.
    fn undone_steps(&mut self, begun: u64) -> Result<(), String> {
        run(&self.session, "SAVEPOINT s");
        let mut steps = Vec::new();
        let count = 1 + self.random.below(2);
        let done = (0..count).try_for_each(|_| self.step(&mut steps));
        self.keep(steps, false, begun);
        match done {
            // A snapshot that is too old stays so.
            Err(code) if code == "40001" => Err(code),
            _ => {
                run(&self.session, "ROLLBACK TO s");
                Ok(())
            }
        }
    }

    /// A transaction of several statements.
    fn block(&mut self) {
        let begun = self.scene.now();
        run(&self.session, &format!("BEGIN ISOLATION LEVEL {}", self.scene.level));
        let mut steps = Vec::new();
        let mut done = Ok(());
        for _ in 0..1 + self.random.below(4) {
            done = match self.random.chance(10) {
                true => self.undone_steps(begun),
                false => self.step(&mut steps),
            };
            if done.is_err() {
                break;
            }
        }
        if done.is_err() || self.random.chance(10) {
            run(&self.session, "ROLLBACK");
            self.keep(steps, false, begun);
        } else {
            let is_committed = self.lists("COMMIT", &["40001"]).is_ok();
            self.keep(steps, is_committed, begun);
        }
    }

    fn act(mut self) -> [Vec<TransactionRecord>; 2] {
        for _ in 0..TRANSACTIONS {
            self.appended_to.clear();
            self.is_in_block = self.random.chance(85);
            if self.is_in_block {
                self.block();
                continue;
            }
            let (begun, mut steps) = (self.scene.now(), Vec::new());
            let is_committed = self.step(&mut steps).is_ok();
            self.keep(steps, is_committed, begun);
        }
        [self.records, self.statements]
    }
}

/// The same transactions without what they have read.
fn without_reads(history: &[TransactionRecord]) -> Vec<TransactionRecord> {
    let is_append = |step: &ListStep| matches!(step, ListStep::Append(..));
    let steps = |record: &TransactionRecord| record.steps.iter().filter(|step| is_append(step)).cloned().collect();
    history.iter().map(|record| TransactionRecord { steps: steps(record), ..record.clone() }).collect()
}

/// What sessions do side by side, and then what one reads when all have ended; and what their statements have read.
fn history(scene: &Scene, random: &mut Random) -> [Vec<TransactionRecord>; 2] {
    let actor = |random: &mut Random| {
        let random = Random::new(random.bits());
        Actor {
            scene,
            session: scene.database.session(),
            random,
            records: Vec::new(),
            statements: Vec::new(),
            appended_to: HashSet::new(),
            is_in_block: false,
        }
    };
    let actors = (0..3 + random.below(4)).map(|_| actor(random)).collect::<Vec<_>>();
    let (mut history, mut statements) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let running = actors.into_iter().map(|actor| scope.spawn(move || actor.act())).collect::<Vec<_>>();
        for thread in running {
            let [own, of_statements] = thread.join().unwrap();
            history.extend(own);
            statements.extend(of_statements);
        }
    });
    let mut last = actor(random);
    let begun = scene.now();
    let mut steps = Vec::new();
    for table in 0..scene.tables {
        let rows = last.lists(&format!("SELECT k, array_to_string(list, ',') FROM t{table}"), &[]).unwrap();
        steps.extend(rows.into_iter().map(|(list, values)| ListStep::Read(list, values)));
    }
    last.keep(steps, true, begun);
    assert_eq!(number(&last.session, "SELECT count(*) FROM pg_locks"), 0);
    assert!(!is_waiting(&last.session));
    history.append(&mut last.records);
    [history, statements]
}

/// What was found that a level excludes.
fn excluded(history: &[TransactionRecord], level: usize) -> String {
    let found = anomalies(history);
    println!("{:?}", found.iter().map(|(anomaly, _)| anomaly).collect::<Vec<_>>());
    let wrong = found.iter().filter(|(anomaly, _)| !anomaly.may_occur(level));
    wrong.map(|(anomaly, what)| format!("{anomaly:?}: {what}\n")).collect()
}

#[test]
fn histories_have_no_anomaly_that_their_level_excludes() {
    let first = setting("DILIGENCE_SEED", 1);
    for seed in first..first + setting("DILIGENCE_HISTORY_SEEDS", SEEDS) {
        for (level, name) in LEVELS.into_iter().enumerate() {
            println!("DILIGENCE_SEED={seed}, {name}");
            let mut random = Random::new(seed);
            let folder = (seed % 2 == 0).then(|| tempfile::tempdir().unwrap());
            let scene = Scene::new(&mut random, name, folder.as_ref());
            let [history, statements] = history(&scene, &mut random);
            let committed = history.iter().filter(|record| record.is_committed).count();
            println!("{committed} of {} are committed", history.len());
            assert!(committed > 10);
            assert_eq!(excluded(&history, level), "");
            if level > 0 {
                continue;
            }
            // What a transaction sees may be of different moments here, but not what one statement does.
            let mut parted = without_reads(&history);
            let last = history.last().cloned();
            parted.extend(statements.into_iter().chain(last));
            assert_eq!(excluded(&parted, 1), "", "statements by themselves");
        }
    }
}
