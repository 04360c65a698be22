//! The scenarios of Hermitage, one after the other at each level: every statement has its outcome, and docs have those
//! of the anomalies.

use std::collections::BTreeMap;
use std::thread::{Scope, ScopedJoinHandle, scope};

use super::{LEVELS, is_waiting};
use crate::test_sessions::{run, shown};
use crate::{Database, DatabaseOptions, Session};

const TEXT: &str = include_str!("scenarios.txt");
const DOCS: &str = include_str!("../../../../docs/server.md");

/// What is told of one scenario.
struct Scenario {
    /// The name of the anomaly that it looks for, or of what it shows.
    name: &'static str,
    what: &'static str,
    /// Whether the anomaly occurs, at each level; none where there is no anomaly.
    occurs: Option<[&'static str; 3]>,
    steps: Vec<Step>,
}

/// A statement of a session, and what becomes of it at each level.
struct Step {
    session: usize,
    /// "ENDS" instead of a statement if one that waited does.
    sql: &'static str,
    outcomes: [&'static str; 3],
}

/// What stands between bars: one for each level, or one for all.
fn at_levels(text: &'static str) -> [&'static str; 3] {
    let parts = text.split('|').map(str::trim).collect::<Vec<_>>();
    match parts[..] {
        [all] => [all; 3],
        [first, second, third] => [first, second, third],
        _ => panic!("one outcome or three: {text}"),
    }
}

fn scenarios() -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("scenario ") {
            let (name, what) = title.split_once("  ").expect(line);
            scenarios.push(Scenario { name, what, occurs: None, steps: Vec::new() });
            continue;
        }
        let scenario = scenarios.last_mut().expect(line);
        if let Some(occurs) = line.strip_prefix("occurs ") {
            scenario.occurs = Some(at_levels(occurs));
        } else if let Some((session, sql)) = line.split_once("  ").filter(|(session, _)| !session.is_empty()) {
            scenario.steps.push(Step { session: session.parse().expect(line), sql, outcomes: ["done"; 3] });
        } else if !line.trim().starts_with("postgres ") {
            scenario.steps.last_mut().expect(line).outcomes = at_levels(line.trim());
        }
    }
    scenarios
}

/// What a statement ends with: rows in the order of their first column, "done" without any, or a code.
fn outcome(session: &Session, sql: &str) -> String {
    match session.execute(sql).and_then(|result| result.collect()) {
        Err(error) => error.code().unwrap_or("an error without a code").to_owned(),
        Ok(_) if !sql.starts_with("SELECT") => "done".to_owned(),
        Ok(batches) => {
            let mut rows = shown(&batches);
            rows.sort();
            if rows.is_empty() { "nothing".to_owned() } else { rows.join(", ") }
        }
    }
}

/// What is known of a session of a scenario.
#[derive(Default)]
struct State<'a> {
    is_inside: bool,
    has_failed: bool,
    waits: Option<ScopedJoinHandle<'a, String>>,
    /// What waits, or did.
    waiting: &'static str,
}

impl State<'_> {
    /// Takes what a statement ended with. A failed block is rolled back, which frees what it has locked.
    fn ended(&mut self, session: &Session, sql: &str, outcome: &str) {
        if matches!(sql, "COMMIT" | "ROLLBACK") {
            self.is_inside = false;
        }
        let is_code = outcome.len() == 5 && outcome.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_code {
            if self.is_inside {
                run(session, "ROLLBACK");
            }
            (self.is_inside, self.has_failed) = (false, true);
        }
    }
}

/// Takes a step. Gives what the statement ends with, or that it waits.
fn take<'a>(scope: &'a Scope<'a, '_>, session: &'a Session, state: &mut State<'a>, step: &Step, level: &str) -> String {
    let sql = step.sql;
    if sql == "ENDS" {
        return state.waits.take().map_or_else(|| "it did not wait".to_owned(), |waits| waits.join().unwrap());
    }
    if state.has_failed {
        return "over".to_owned();
    }
    if !state.is_inside && !sql.starts_with("SELECT") {
        run(session, &format!("BEGIN ISOLATION LEVEL {level}"));
        state.is_inside = true;
    }
    if sql == "BEGIN" {
        return "done".to_owned();
    }
    let running = scope.spawn(move || outcome(session, sql));
    while !running.is_finished() {
        if is_waiting(session) {
            (state.waits, state.waiting) = (Some(running), sql);
            return "waits".to_owned();
        }
        std::thread::yield_now();
    }
    running.join().unwrap()
}

/// Runs a scenario at a level, up to the first step whose outcome is another one than expected, and gives that.
fn difference(sessions: &[Session], scenario: &Scenario, level: usize) -> Option<String> {
    scope(|scope| {
        let mut states = BTreeMap::<usize, State>::new();
        let mut difference = None;
        for step in &scenario.steps {
            let (session, state) = (&sessions[step.session], states.entry(step.session).or_default());
            let found = take(scope, session, state, step, LEVELS[level]);
            if found != "waits" {
                let sql = if step.sql == "ENDS" { state.waiting } else { step.sql };
                state.ended(session, sql, &found);
            }
            let expected = step.outcomes[level];
            if found != expected {
                difference = Some(format!("session {}, {}: {found} instead of {expected}", step.session, step.sql));
                break;
            }
        }
        // Nobody waits any more when the others have ended.
        for (number, _) in states.iter().filter(|(_, state)| state.is_inside && state.waits.is_none()) {
            run(&sessions[*number], "ROLLBACK");
        }
        difference
    })
}

#[test]
fn every_scenario_ends_as_it_is_written() {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    let mut wrong = Vec::new();
    for scenario in scenarios() {
        for (level, name) in LEVELS.iter().enumerate() {
            let sessions = [(); 4].map(|()| database.session());
            run(&sessions[0], "DROP TABLE IF EXISTS test");
            run(&sessions[0], "CREATE TABLE test (id INT PRIMARY KEY, value INT)");
            run(&sessions[0], "INSERT INTO test VALUES (1, 10), (2, 20)");
            if let Some(difference) = difference(&sessions, &scenario, level) {
                wrong.push(format!("{}, {}, at {name}: {difference}", scenario.name, scenario.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn docs_say_which_anomalies_occur() {
    let mut occurs = BTreeMap::<&str, [bool; 3]>::new();
    for scenario in scenarios() {
        let Some(told) = scenario.occurs else { continue };
        let any = occurs.entry(scenario.name).or_default();
        for (any, told) in any.iter_mut().zip(told) {
            *any |= told == "yes";
        }
    }
    assert!(occurs.len() >= 10, "{occurs:?}");
    for (name, occurs) in occurs {
        let line = DOCS.lines().find(|line| line.starts_with(&format!("| {name}: ")));
        let line = line.unwrap_or_else(|| panic!("docs/server.md: say at which levels {name} occurs"));
        let told = line.trim_matches('|').split('|').skip(1).map(str::trim).collect::<Vec<_>>();
        assert_eq!(told, occurs.map(|occurs| if occurs { "yes" } else { "no" }), "docs/server.md: {name}");
    }
}
