//! What statements took and how they ended: for the log, and for `GET /metrics`.
//!
//! A [`Watch`] is with a statement from its start to its end, whichever door it came by. One that ends without a word
//! was given up: it was cancelled, took too long, or its client wanted no more rows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use diligence_base::Error;
use parking_lot::Mutex;

use crate::spans::{Ending, Parent, Span, Spans};
use crate::sqlstate;

/// The doors, by name.
pub const DOORS: [&str; 3] = ["postgres", "http", "flight"];
/// The upper ends of a histogram's buckets, in microseconds: from a lookup by key to a report.
pub const BUCKETS_US: [u64; 16] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
];
/// Bytes of a statement that are kept for the log.
const STATEMENT_BYTES_LOGGED: usize = 2000;
/// Bytes of a plan that are written to the log.
const PLAN_BYTES_LOGGED: usize = 8000;

/// Times of a door's statements.
#[derive(Debug, Default)]
struct Times {
    /// By bucket, not cumulated; the last one is for what takes longer.
    counts: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
    given_up: AtomicU64,
}

/// A histogram as it is shown.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The door.
    pub door: &'static str,
    /// How many statements took at most as long as [`BUCKETS_US`] says.
    pub cumulated: Vec<u64>,
    /// How many there were.
    pub count: u64,
    /// How long they took together, in microseconds.
    pub sum_us: u64,
    /// Statements that were given up, which are not counted in the others.
    pub given_up: u64,
}

/// What statements took and how they ended.
#[derive(Debug, Default)]
pub struct Measures {
    times: [Times; DOORS.len()],
    errors: Mutex<BTreeMap<&'static str, u64>>,
    /// Microseconds from which on a statement is slow; 0 if none is.
    slow_us: AtomicU64,
    spans: Spans,
}

impl Measures {
    /// Statements that have ended, for whoever sends traces.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Says from which time on a statement is slow; `None` if none is.
    pub fn slow_from(&self, time: Option<Duration>) {
        let microseconds = time.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
        self.slow_us.store(microseconds, Ordering::Relaxed);
    }

    /// The times by door.
    pub fn histograms(&self) -> Vec<Histogram> {
        let shown = |(door, times): (&&'static str, &Times)| {
            let mut sum = 0;
            let cumulate = |count: &AtomicU64| {
                sum += count.load(Ordering::Relaxed);
                sum
            };
            let mut cumulated = times.counts.iter().map(cumulate).collect::<Vec<_>>();
            let count = cumulated.pop().unwrap_or_default();
            let (sum_us, given_up) = (times.sum_us.load(Ordering::Relaxed), times.given_up.load(Ordering::Relaxed));
            Histogram { door, cumulated, count, sum_us, given_up }
        };
        DOORS.iter().zip(&self.times).map(shown).collect()
    }

    /// Errors of statements, by SQLSTATE.
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        self.errors.lock().iter().map(|(code, count)| (*code, *count)).collect()
    }

    /// Counts and logs an error of a statement that did not start.
    pub(crate) fn failed(&self, error: &Error, user: &str, statement: &str) {
        self.note(error, "", user, cut(statement, STATEMENT_BYTES_LOGGED));
    }

    fn note(&self, error: &Error, door: &str, user: &str, statement: &str) {
        let code = sqlstate::of(error);
        *self.errors.lock().entry(code).or_default() += 1;
        let statement = without_passwords(statement);
        let error = without_passwords(error.message());
        if is_of_the_server(code) {
            tracing::error!(code, door, user, %error, %statement, "a statement failed");
        } else {
            tracing::info!(code, door, user, %error, %statement, "a statement failed");
        }
    }
}

/// Whether an error says something of the server or its machine, and not of the statement.
fn is_of_the_server(code: &str) -> bool {
    let is_asked_for = matches!(code, sqlstate::CANCELLED | sqlstate::SHUTDOWN) || code.starts_with("55");
    (code.starts_with('5') || code.starts_with("XX")) && !is_asked_for
}

/// A statement as it may be logged: neither passwords of connection strings nor those of roles are in it.
fn without_passwords(statement: &str) -> Cow<'_, str> {
    const WORD: &str = "password";
    let shown = diligence_db::without_passwords(statement);
    let lower = shown.to_ascii_lowercase();
    let mut without = String::new();
    let mut from = 0;
    for (at, word) in lower.match_indices(WORD) {
        let rest = &shown[at + word.len()..];
        let value = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, 'E' | 'e' | 'U' | 'u' | '&'));
        let Some(quote) = value.chars().next().filter(|first| matches!(first, '\'' | '$')) else { continue };
        let start = shown.len() - value.len();
        if start < from {
            continue;
        }
        // Up to the end if the literal has none, or one that is not plain to see.
        let end = match quote {
            '\'' if !value[1..].contains('\\') => quoted_end(value),
            _ => None,
        };
        without.push_str(&shown[from..start]);
        without.push_str("***");
        from = end.map_or(shown.len(), |end| start + end);
    }
    if from == 0 {
        return shown;
    }
    without.push_str(&shown[from..]);
    Cow::Owned(without)
}

/// Where a literal in single quotes ends.
fn quoted_end(text: &str) -> Option<usize> {
    let mut quotes = text.match_indices('\'').skip(1).map(|(at, _)| at).peekable();
    while let Some(at) = quotes.next() {
        match quotes.next_if_eq(&(at + 1)) {
            Some(_) => {}
            None => return Some(at + 1),
        }
    }
    None
}

/// The beginning of a text.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A statement that is watched.
pub(crate) struct Watch {
    measures: Arc<Measures>,
    door: &'static str,
    user: String,
    statement: String,
    began: Instant,
    is_over: bool,
    gave_rows: bool,
    /// What of the client it belongs to.
    parent: Option<Parent>,
}

/// Where a statement comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The door.
    pub door: &'static str,
    /// The user.
    pub user: &'a str,
    /// What of the client it belongs to, if it says nothing itself.
    pub parent: Option<Parent>,
}

impl Watch {
    /// Watches a statement from now on.
    pub(crate) fn begin(measures: &Arc<Measures>, origin: Origin<'_>, statement: &str) -> Self {
        Self {
            measures: measures.clone(),
            door: origin.door,
            user: origin.user.to_owned(),
            statement: cut(statement, STATEMENT_BYTES_LOGGED).to_owned(),
            began: Instant::now(),
            is_over: false,
            gave_rows: false,
            parent: Parent::of_statement(statement).or(origin.parent),
        }
    }

    fn times(&self) -> &Times {
        let place = DOORS.iter().position(|door| *door == self.door).unwrap_or(0);
        &self.measures.times[place]
    }

    /// The client has rows of it.
    pub(crate) fn gave_rows(&mut self) {
        self.gave_rows = true;
    }

    /// The statement is at its end. `plan` tells how it ran, with what was measured.
    pub(crate) fn done(&mut self, plan: impl FnOnce() -> Option<String>) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.took(plan);
            self.trace(|| Ending::Done);
        }
    }

    /// The statement ended with an error.
    pub(crate) fn failed(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.took(|| None);
            self.measures.note(error, self.door, &self.user, &self.statement);
            self.trace(|| Ending::Failed(sqlstate::of(error), without_passwords(error.message()).into_owned()));
        }
    }

    /// Keeps the statement for whoever sends traces.
    fn trace(&self, ending: impl FnOnce() -> Ending) {
        if self.parent.is_some_and(|parent| !parent.is_kept) {
            return;
        }
        self.measures.spans.add(|| Span {
            ended: SystemTime::now(),
            took: self.began.elapsed(),
            door: self.door,
            user: self.user.clone(),
            statement: without_passwords(&self.statement).into_owned(),
            ending: ending(),
            parent: self.parent,
        });
    }

    fn took(&self, plan: impl FnOnce() -> Option<String>) {
        let took = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let times = self.times();
        let bucket = BUCKETS_US.partition_point(|most| *most < took);
        times.counts[bucket].fetch_add(1, Ordering::Relaxed);
        times.sum_us.fetch_add(took, Ordering::Relaxed);
        let slow = self.measures.slow_us.load(Ordering::Relaxed);
        // From no time on all are slow, the fastest as well.
        if slow > 0 && took.max(1) >= slow {
            let (door, user, statement) = (self.door, &*self.user, without_passwords(&self.statement));
            let plan = plan().unwrap_or_default();
            let (milliseconds, plan) = (took / 1000, cut(plan.trim_end(), PLAN_BYTES_LOGGED));
            tracing::warn!(milliseconds, door, user, %statement, plan, "a statement was slow");
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.times().given_up.fetch_add(1, Ordering::Relaxed);
        self.trace(|| if self.gave_rows { Ending::Done } else { Ending::GivenUp });
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (door, user, statement) = (self.door, &*self.user, without_passwords(&self.statement));
        if self.gave_rows {
            tracing::debug!(milliseconds, door, user, %statement, "a statement was not read to its end");
        } else {
            tracing::info!(milliseconds, door, user, %statement, "a statement was given up: cancelled, or out of time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_counted_by_how_they_end() {
        let measures = Arc::new(Measures::default());
        measures.slow_from(Some(Duration::ZERO));
        let origin = |door| Origin { door, user: "ann", parent: None };
        let watch = |door| Watch::begin(&measures, origin(door), "SELECT 1");
        let mut asked = 0;
        for _ in 0..2 {
            let mut watch = watch("http");
            watch.done(|| {
                asked += 1;
                None
            });
            watch.done(|| unreachable!("it is over"));
        }
        assert_eq!(asked, 2);
        watch("flight").failed(&Error::input("x").with_code("42P01"));
        measures.failed(&Error::input("y").with_code("42601"), "", "SELEC");
        drop(watch("postgres"));
        let counts = measures.histograms().iter().map(|one| (one.door, one.count, one.given_up)).collect::<Vec<_>>();
        assert_eq!(counts, [("postgres", 0, 1), ("http", 2, 0), ("flight", 1, 0)]);
        assert_eq!(measures.errors(), [("42601", 1), ("42P01", 1)]);
        let histogram = &measures.histograms()[1];
        assert!(histogram.cumulated.is_sorted() && histogram.cumulated.last() == Some(&2), "{histogram:?}");
    }

    #[test]
    fn passwords_are_not_logged() {
        for (statement, shown) in [
            ("CREATE ROLE a LOGIN PASSWORD 'it''s x' SUPERUSER", "CREATE ROLE a LOGIN PASSWORD *** SUPERUSER"),
            ("alter role a password\nE'secret'", "alter role a password\nE***"),
            ("ALTER ROLE a PASSWORD 'secr", "ALTER ROLE a PASSWORD ***"),
            ("ALTER ROLE a PASSWORD $x$secret$x$; SELECT 1", "ALTER ROLE a PASSWORD ***"),
            ("ALTER ROLE a PASSWORD NULL", "ALTER ROLE a PASSWORD NULL"),
            ("SELECT password, 'é' FROM t", "SELECT password, 'é' FROM t"),
        ] {
            assert_eq!(without_passwords(statement), shown);
        }
    }

    #[test]
    fn errors_of_the_server_are_told_from_those_of_statements() {
        for code in ["53200", "58030", "XX000", "57P03"] {
            assert!(is_of_the_server(code), "{code}");
        }
        for code in ["57014", "57P01", "42P01", "40001", "55P03"] {
            assert!(!is_of_the_server(code), "{code}");
        }
        assert_eq!(cut("aéb", 2), "a");
    }
}
