//! Whether a transaction is open, as far as statements say, and what is done with it by itself: psql's AUTOCOMMIT and
//! ON_ERROR_ROLLBACK.

use std::cell::Cell;

/// The transaction of a session.
pub struct Transactions {
    /// Whether statements outside of transactions are transactions of their own.
    autocommit: Cell<bool>,
    /// Whether a statement that fails in a transaction leaves it as it was.
    guards: Cell<bool>,
    is_open: Cell<bool>,
}

impl Default for Transactions {
    fn default() -> Self {
        Self { autocommit: Cell::new(true), guards: Cell::new(false), is_open: Cell::new(false) }
    }
}

/// What a statement does with transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begins,
    Ends,
    /// It ends one, and begins the next.
    Chains,
    /// It runs in no transaction.
    Outside,
    Other,
}

/// Words that begin statements which run in no transaction.
const OUTSIDE: [&[&str]; 13] = [
    &["VACUUM"],
    &["CHECKPOINT"],
    &["BACKUP"],
    &["EXPORT"],
    &["ATTACH"],
    &["DETACH"],
    &["CREATE", "DATABASE"],
    &["DROP", "DATABASE"],
    &["CREATE", "TABLESPACE"],
    &["DROP", "TABLESPACE"],
    &["ALTER", "SYSTEM"],
    &["DISCARD", "ALL"],
    &["REINDEX"],
];

impl Transactions {
    /// Says whether statements outside of transactions are transactions of their own.
    pub fn set_autocommit(&self, on: bool) {
        self.autocommit.set(on);
    }

    /// Says whether a statement that fails in a transaction leaves it as it was.
    pub fn set_guards(&self, on: bool) {
        self.guards.set(on);
    }

    /// Whether a savepoint is to stand before the statement.
    pub fn guards(&self, sql: &str) -> bool {
        self.guards.get() && self.is_open.get() && step(sql) == Step::Other && !is_about_savepoints(sql)
    }

    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Whether a transaction is to begin before the statement.
    pub fn begins_before(&self, sql: &str) -> bool {
        !self.autocommit.get() && !self.is_open.get() && step(sql) == Step::Other
    }

    /// Notes what has become of a statement.
    pub fn note(&self, sql: &str, has_succeeded: bool) {
        match step(sql) {
            Step::Begins | Step::Chains if has_succeeded => self.is_open.set(true),
            // Where the end of a transaction fails, it has ended all the same.
            Step::Ends | Step::Chains => self.is_open.set(false),
            _ => {}
        }
    }
}

fn step(sql: &str) -> Step {
    let words = words(sql);
    let begins = |with: &[&str]| words.len() >= with.len() && words.iter().zip(with).all(|(word, with)| word == with);
    let chains = || words.ends_with(&["AND".to_owned(), "CHAIN".to_owned()]) && !words.contains(&"NO".to_owned());
    match words.first().map(String::as_str) {
        Some("BEGIN") => Step::Begins,
        Some("START") if begins(&["START", "TRANSACTION"]) => Step::Begins,
        Some("ROLLBACK") if words.iter().any(|word| word == "TO") => Step::Other,
        Some("COMMIT" | "END" | "ROLLBACK" | "ABORT") if chains() => Step::Chains,
        Some("COMMIT" | "END" | "ROLLBACK" | "ABORT") => Step::Ends,
        None => Step::Outside,
        Some("CREATE" | "DROP") if words.iter().any(|word| word == "CONCURRENTLY") => Step::Outside,
        _ if OUTSIDE.iter().any(|words| begins(words)) => Step::Outside,
        _ => Step::Other,
    }
}

fn is_about_savepoints(sql: &str) -> bool {
    words(sql).first().is_some_and(|word| ["SAVEPOINT", "RELEASE", "ROLLBACK"].contains(&word.as_str()))
}

/// The first words of a statement, in capitals, without comments in front.
fn words(sql: &str) -> Vec<String> {
    const WORDS: usize = 6;
    let mut rest = sql.trim_start();
    loop {
        let behind = if let Some(comment) = rest.strip_prefix("--") {
            comment.find('\n').map_or("", |end| &comment[end..])
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or("", |end| &comment[end + 2..])
        } else {
            break;
        };
        rest = behind.trim_start();
    }
    let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.take(WORDS).map(str::to_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_begin_and_end_transactions() {
        for (sql, expected) in [
            ("BEGIN", Step::Begins),
            ("-- why\n /* that */ start transaction read only;", Step::Begins),
            ("commit;", Step::Ends),
            ("END TRANSACTION", Step::Ends),
            ("ROLLBACK AND CHAIN", Step::Chains),
            ("COMMIT AND NO CHAIN", Step::Ends),
            ("ROLLBACK TO SAVEPOINT a", Step::Other),
            ("SELECT 1", Step::Other),
            ("(SELECT 1)", Step::Other),
            ("CREATE TABLE t (a INT)", Step::Other),
            ("create index concurrently i on t (a)", Step::Outside),
            ("CREATE DATABASE d", Step::Outside),
            ("VACUUM t", Step::Outside),
            ("-- nothing", Step::Outside),
        ] {
            assert_eq!(step(sql), expected, "{sql}");
        }
    }

    #[test]
    fn without_autocommit_statements_begin_transactions() {
        let transactions = Transactions::default();
        assert!(!transactions.begins_before("SELECT 1"));
        transactions.set_autocommit(false);
        assert!(transactions.begins_before("SELECT 1") && !transactions.begins_before("BEGIN"));
        transactions.note("BEGIN", true);
        transactions.note("SELECT 1/0", false);
        assert!(!transactions.begins_before("SELECT 1"));
        transactions.note("COMMIT", false);
        assert!(transactions.begins_before("SELECT 1"));
        transactions.note("BEGIN", false);
        assert!(transactions.begins_before("SELECT 1"));
        transactions.set_guards(true);
        assert!(!transactions.guards("SELECT 1"));
        transactions.note("BEGIN", true);
        assert!(transactions.guards("SELECT 1"));
        for own in ["SAVEPOINT a", "ROLLBACK TO a", "release a", "COMMIT"] {
            assert!(!transactions.guards(own), "{own}");
        }
    }
}
