//! Settings of the client that were changed inside of a block: what they were, for ROLLBACK, ROLLBACK TO and the end of
//! SET LOCAL. What was changed of the engine's settings is known there.
//!
//! Kept is each change with what the setting was before it, in their order, and with each savepoint where it is among
//! them. Of changes of one setting between two savepoints two say all: a SET, and a SET LOCAL after it.

use diligence_base::limits::SAVEPOINTS_MAX;
use diligence_base::{Error, Result};
use diligence_db::SessionMark;

use super::commands::Lasts;
use super::settings::Value;
use crate::sqlstate;

#[derive(Debug)]
struct Change {
    was: Value,
    lasts: Lasts,
}

#[derive(Debug)]
struct Savepoint {
    name: String,
    /// The changes before it.
    at: usize,
    /// What the tables were.
    mark: Option<SessionMark>,
    /// How often it was set there: drivers set one of the same name before each statement.
    times: u64,
}

/// The changes of a block.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    changes: Vec<Change>,
    savepoints: Vec<Savepoint>,
}

impl Changes {
    /// Remembers what a setting was before it was changed.
    pub(crate) fn note(&mut self, was: Value, lasts: Lasts) {
        let since = self.savepoints.last().map_or(0, |savepoint| savepoint.at);
        let same = |change: &Change| change.was.name == was.name;
        let Some(first) = self.changes[since..].iter().position(same).map(|place| since + place) else {
            return self.changes.push(Change { was, lasts });
        };
        let second = self.changes[first + 1..].iter().position(same).map(|place| first + 1 + place);
        match (lasts, self.changes[first].lasts, second) {
            // It lasts no longer than the one before it did.
            (Lasts::Block, Lasts::Block, _) | (Lasts::Block, _, Some(_)) => {}
            (Lasts::Block, Lasts::Session, None) => self.changes.push(Change { was, lasts }),
            // What was there for the block alone is gone.
            (Lasts::Session, _, second) => {
                self.changes[first].lasts = Lasts::Session;
                if let Some(second) = second {
                    self.changes.remove(second);
                }
            }
        }
    }

    /// Whether the block can go back to a savepoint.
    pub(crate) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Sets a savepoint.
    pub(crate) fn savepoint(&mut self, name: &str, mark: Option<SessionMark>) -> Result<()> {
        let at = self.changes.len();
        if let Some(last) =
            self.savepoints.last_mut().filter(|last| last.name == name && last.at == at && last.mark == mark)
        {
            last.times += 1;
            return Ok(());
        }
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let error = Error::resource(format!("a transaction has at most {SAVEPOINTS_MAX} savepoints"));
            return Err(error.with_code(sqlstate::LIMIT).with_hint("RELEASE those that are not needed"));
        }
        self.savepoints.push(Savepoint { name: name.to_owned(), at, mark, times: 1 });
        Ok(())
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        place.ok_or_else(|| Error::input(format!("no savepoint is named '{name}'")).with_code("3B001"))
    }

    /// Forgets the last savepoint of the name, and those after it; what was changed since belongs to what is around it.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let place = self.place_of(name)?;
        self.savepoints.truncate(place + 1);
        let savepoint = &mut self.savepoints[place];
        let since = self.changes.split_off(savepoint.at);
        savepoint.times -= 1;
        if savepoint.times == 0 {
            self.savepoints.pop();
        }
        since.into_iter().for_each(|change| self.note(change.was, change.lasts));
        Ok(())
    }

    /// Goes back to the last savepoint of the name, which stays. What settings are to be again, one after the other,
    /// and what the tables were.
    pub(crate) fn back_to(&mut self, name: &str) -> Result<(Vec<Value>, Option<SessionMark>)> {
        let place = self.place_of(name)?;
        self.savepoints.truncate(place + 1);
        let since = self.changes.split_off(self.savepoints[place].at);
        Ok((since.into_iter().rev().map(|change| change.was).collect(), self.savepoints[place].mark.clone()))
    }

    /// The end of the block. What settings are to be then, one after the other.
    pub(crate) fn end(&mut self, commits: bool) -> Vec<Value> {
        self.savepoints.clear();
        let mut stay: Vec<&'static str> = Vec::new();
        let mut undone = Vec::new();
        for Change { was, lasts } in std::mem::take(&mut self.changes).into_iter().rev() {
            if commits && stay.contains(&was.name) {
                continue;
            }
            match lasts {
                Lasts::Session if commits => stay.push(was.name),
                _ => undone.push(was),
            }
        }
        undone
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use diligence_base::seams::Random;

    use super::*;

    /// Settings as text, with their changes.
    #[derive(Default)]
    struct Settings {
        values: HashMap<String, String>,
        changes: Changes,
    }

    impl Settings {
        fn set(&mut self, name: &'static str, value: &str, lasts: Lasts) {
            let was = self.values.insert(name.to_owned(), value.to_owned()).unwrap_or_default();
            self.changes.note(Value { name, value: Some(was), timeout: Duration::ZERO }, lasts);
        }

        fn undo(&mut self, undone: Vec<Value>) {
            for was in undone {
                self.values.insert(was.name.to_owned(), was.value.unwrap_or_default());
            }
        }

        fn value(&self, name: &str) -> &str {
            self.values.get(name).map_or("", String::as_str)
        }
    }

    #[test]
    fn what_is_local_ends_with_the_block_and_all_ends_with_a_rollback() {
        use Lasts::{Block, Session};
        // (changes, value after COMMIT); after ROLLBACK it is as before.
        let cases: [(&[Lasts], &str); 7] = [
            (&[Session], "1"),
            (&[Block], ""),
            (&[Session, Block], "1"),
            (&[Block, Session], "2"),
            (&[Session, Block, Block], "1"),
            (&[Session, Block, Session], "3"),
            (&[Block, Session, Block], "2"),
        ];
        for (changes, committed) in cases {
            for commits in [true, false] {
                let mut settings = Settings::default();
                for (number, lasts) in changes.iter().enumerate() {
                    settings.set("a", &(number + 1).to_string(), *lasts);
                }
                let undone = settings.changes.end(commits);
                settings.undo(undone);
                assert_eq!(settings.value("a"), if commits { committed } else { "" }, "{changes:?} {commits}");
            }
        }
    }

    #[test]
    fn savepoints_are_gone_back_to_by_their_names() {
        let mut settings = Settings::default();
        settings.set("a", "1", Lasts::Session);
        settings.changes.savepoint("x", None).unwrap();
        settings.set("a", "2", Lasts::Block);
        settings.changes.savepoint("y", None).unwrap();
        settings.set("a", "3", Lasts::Session);
        for _ in 0..2 {
            let (undone, _) = settings.changes.back_to("x").unwrap();
            settings.undo(undone);
            assert_eq!(settings.value("a"), "1");
            assert_eq!(settings.changes.back_to("y").unwrap_err().code(), Some("3B001"));
        }
        settings.changes.release("x").unwrap();
        assert_eq!(settings.changes.release("x").unwrap_err().code(), Some("3B001"));
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let mut settings = Settings::default();
        for number in 0..1000 {
            settings.changes.savepoint("driver's", None).unwrap();
            settings.set("a", &number.to_string(), if number % 3 == 0 { Lasts::Block } else { Lasts::Session });
            settings.changes.release("driver's").unwrap();
        }
        assert!(settings.changes.changes.len() <= 2);
        (0..20_000).for_each(|_| settings.changes.savepoint("again", None).unwrap());
        (0..20_000).for_each(|_| settings.changes.release("again").unwrap());
        assert!(settings.changes.release("again").is_err());
        for number in 0..SAVEPOINTS_MAX {
            settings.changes.savepoint(&number.to_string(), None).unwrap();
        }
        assert_eq!(settings.changes.savepoint("x", None).unwrap_err().code(), Some(sqlstate::LIMIT));
    }

    /// A block that copies all its values at each savepoint. Each setting has the value that holds, and the one that
    /// does after COMMIT.
    type Copied = HashMap<String, (String, String)>;

    #[test]
    fn random_blocks_end_as_if_all_had_been_copied() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut settings = Settings::default();
            let mut now = Copied::new();
            let mut copies: Vec<(String, Copied)> = Vec::new();
            for step in 0..random.below(40) {
                let name = ["a", "b"][random.below(2)];
                let value = step.to_string();
                match random.below(6) {
                    0 | 1 => {
                        settings.set(name, &value, Lasts::Session);
                        now.insert(name.to_owned(), (value.clone(), value));
                    }
                    2 => {
                        settings.set(name, &value, Lasts::Block);
                        now.entry(name.to_owned()).or_default().0 = value;
                    }
                    3 => {
                        settings.changes.savepoint(name, None).unwrap();
                        copies.push((name.to_owned(), now.clone()));
                    }
                    4 => {
                        let known = copies.iter().rposition(|(known, _)| known == name);
                        assert_eq!(settings.changes.release(name).is_ok(), known.is_some(), "seed {seed}");
                        copies.truncate(known.unwrap_or(copies.len()));
                    }
                    _ => {
                        let known = copies.iter().rposition(|(known, _)| known == name);
                        let undone = settings.changes.back_to(name);
                        assert_eq!(undone.is_ok(), known.is_some(), "seed {seed}");
                        if let Some(known) = known {
                            settings.undo(undone.unwrap().0);
                            copies.truncate(known + 1);
                            now = copies[known].1.clone();
                        }
                    }
                }
                for name in ["a", "b"] {
                    let expected = now.get(name).map_or("", |(value, _)| value.as_str());
                    assert_eq!(settings.value(name), expected, "seed {seed}, step {step}");
                }
            }
            let commits = random.below(2) == 0;
            let undone = settings.changes.end(commits);
            settings.undo(undone);
            for name in ["a", "b"] {
                let committed = now.get(name).map_or("", |(_, value)| value.as_str());
                assert_eq!(settings.value(name), if commits { committed } else { "" }, "seed {seed}, {commits}");
            }
        }
    }
}
