//! Sequences: numbers that no two statements get.
//!
//! A number that was given is never given again, whether its transaction ends well or not. Where a journal keeps the
//! database, a sequence is written down some numbers ahead, so that most of them cost no write; after a crash it goes
//! on behind those.

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

/// Numbers that are written down at once.
const AHEAD: i64 = 32;

/// A sequence. Used from any thread.
#[derive(Debug)]
pub struct Sequence {
    /// How it counts.
    pub options: SequenceOptions,
    /// Where it is. Held while it is written down.
    state: Mutex<SequenceState>,
    /// Up to where it is written down; locked for moments only.
    kept: Mutex<SequenceState>,
}

/// How a sequence counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    /// Its first number.
    pub start: i64,
    /// From one number to the next; not 0.
    pub increment: i64,
    /// Its smallest number.
    pub min: i64,
    /// Its largest number.
    pub max: i64,
    /// Whether it begins again behind its last number.
    pub cycles: bool,
    /// Bits of its numbers: 16, 32 or 64.
    pub bits: u8,
    /// The table and the column that it is dropped with.
    pub owner: Option<(ObjectId, String)>,
}

/// Where a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// The last number that was given; the next one to be, if none was.
    pub last: i64,
    /// Whether it was given.
    pub is_called: bool,
}

impl SequenceOptions {
    /// What CREATE SEQUENCE makes where it says nothing, for numbers of so many bits that go up or down.
    pub fn of_bits(bits: u8, increment: i64) -> Self {
        let largest = i64::MAX >> (64 - bits.clamp(1, 64));
        let (min, max) = if increment < 0 { (-largest - 1, -1) } else { (1, largest) };
        let start = if increment < 0 { max } else { min };
        Self { start, increment, min, max, cycles: false, bits, owner: None }
    }

    /// Fails with code 22023 if the numbers make no sense together.
    pub fn validate(&self) -> Result<()> {
        let fail = |message: String| Err(Error::input(message).with_code("22023"));
        if self.increment == 0 {
            return fail("INCREMENT must not be zero".to_owned());
        }
        let largest = Self::of_bits(self.bits, 1).max;
        let name = match self.bits {
            16 => "smallint",
            32 => "integer",
            _ => "bigint",
        };
        for (word, bound) in [("MAXVALUE", self.max), ("MINVALUE", self.min)] {
            if bound > largest || bound < -largest - 1 {
                return fail(format!("{word} ({bound}) is out of range for sequence data type {name}"));
            }
        }
        if self.min >= self.max {
            return fail(format!("MINVALUE ({}) must be less than MAXVALUE ({})", self.min, self.max));
        }
        if self.start < self.min {
            return fail(format!("START value ({}) cannot be less than MINVALUE ({})", self.start, self.min));
        }
        if self.start > self.max {
            return fail(format!("START value ({}) cannot be greater than MAXVALUE ({})", self.start, self.max));
        }
        Ok(())
    }

    pub(crate) fn first(&self) -> SequenceState {
        SequenceState { last: self.start, is_called: false }
    }

    /// The state after so many further numbers at most.
    fn after(&self, state: SequenceState, count: i64) -> SequenceState {
        let last = state.last.saturating_add(self.increment.saturating_mul(count));
        SequenceState { last: last.clamp(self.min, self.max), is_called: true }
    }
}

impl Sequence {
    /// One that has given no number.
    pub fn new(options: SequenceOptions) -> Self {
        let first = options.first();
        Self::at(options, first)
    }

    /// One that goes on from a state.
    pub fn at(options: SequenceOptions, state: SequenceState) -> Self {
        Self { options, state: Mutex::new(state), kept: Mutex::new(state) }
    }

    /// One that has given so many numbers.
    pub fn behind(options: SequenceOptions, count: u64) -> Self {
        let state = match i64::try_from(count) {
            Ok(0) => options.first(),
            Ok(count) => options.after(options.first(), count - 1),
            Err(_) => options.after(options.first(), i64::MAX),
        };
        Self::at(options, state)
    }

    /// Where it is.
    pub fn state(&self) -> SequenceState {
        *self.state.lock()
    }

    /// What is written down of it.
    pub fn kept(&self) -> SequenceState {
        *self.kept.lock()
    }

    /// The next number. `keep` writes a state down; it is called where the number is not covered by what is written
    /// down. Fails with code 2200H behind the last number, and as `keep` does.
    pub(crate) fn next(&self, name: &str, keep: impl FnOnce(SequenceState) -> Result<()>) -> Result<i64> {
        let mut state = self.state.lock();
        let SequenceOptions { increment, min, max, cycles, .. } = self.options;
        let next = match state.is_called {
            false => state.last,
            true => match state.last.checked_add(increment).filter(|next| (min..=max).contains(next)) {
                Some(next) => next,
                None if cycles => {
                    if increment > 0 {
                        min
                    } else {
                        max
                    }
                }
                None => {
                    let (word, bound) = if increment > 0 { ("maximum", max) } else { ("minimum", min) };
                    let message = format!("nextval: reached {word} value of sequence \"{name}\" ({bound})");
                    return Err(Error::value(message).with_code("2200H"));
                }
            },
        };
        let given = SequenceState { last: next, is_called: true };
        let kept = self.kept();
        let is_covered = kept.is_called
            && state.is_called
            && if increment > 0 {
                (state.last..=kept.last).contains(&next)
            } else {
                (kept.last..=state.last).contains(&next)
            };
        if !is_covered {
            let ahead = self.options.after(given, AHEAD);
            keep(ahead)?;
            *self.kept.lock() = ahead;
        }
        *state = given;
        Ok(next)
    }

    /// Goes on from a state; `keep` as in [`next`](Self::next). Fails with code 22003 outside of its numbers.
    pub(crate) fn set(
        &self,
        name: &str,
        to: SequenceState,
        keep: impl FnOnce(SequenceState) -> Result<()>,
    ) -> Result<()> {
        let SequenceOptions { min, max, .. } = self.options;
        if !(min..=max).contains(&to.last) {
            let message = format!("setval: value {} is out of bounds for sequence \"{name}\" ({min}..{max})", to.last);
            return Err(Error::value(message).with_code("22003"));
        }
        let mut state = self.state.lock();
        self.keep(&mut state, to, keep)
    }

    /// Has exactly its state written down.
    pub(crate) fn rest(&self, keep: impl FnOnce(SequenceState) -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        let now = *state;
        if self.kept() == now { Ok(()) } else { self.keep(&mut state, now, keep) }
    }

    fn keep(
        &self,
        state: &mut MutexGuard<'_, SequenceState>,
        to: SequenceState,
        keep: impl FnOnce(SequenceState) -> Result<()>,
    ) -> Result<()> {
        keep(to)?;
        *self.kept.lock() = to;
        **state = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_order_and_are_written_down_ahead() {
        let up = SequenceOptions { max: 70, ..SequenceOptions::of_bits(64, 1) };
        let sequence = Sequence::new(up.clone());
        let mut writes = Vec::new();
        for expected in 1..=70 {
            let next = sequence.next("s", |state| {
                writes.push(state.last);
                Ok(())
            });
            assert_eq!(next.unwrap(), expected);
            // What is written down goes on behind what was given.
            assert!(sequence.kept().last >= expected);
        }
        assert!(writes.len() <= 4, "{writes:?}");
        assert_eq!(sequence.next("s", |_| Ok(())).unwrap_err().code(), Some("2200H"));
        sequence.set("s", SequenceState { last: 5, is_called: false }, |_| Ok(())).unwrap();
        assert_eq!(sequence.next("s", |_| Ok(())).unwrap(), 5);
        assert!(sequence.set("s", SequenceState { last: 71, is_called: true }, |_| Ok(())).is_err());
        let down = SequenceOptions { min: -3, cycles: true, ..SequenceOptions::of_bits(16, -2) };
        let sequence = Sequence::new(down);
        let numbers = (0..5).map(|_| sequence.next("s", |_| Ok(())).unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers, [-1, -3, -1, -3, -1]);
        assert_eq!(SequenceOptions::of_bits(16, 1).max, 32767);
        assert_eq!(SequenceOptions::of_bits(32, -1).min, i64::from(i32::MIN));
    }

    #[test]
    fn a_number_that_cannot_be_kept_is_not_given() {
        let sequence = Sequence::new(SequenceOptions::of_bits(64, 1));
        let full = || Err(Error::file("the disk is full"));
        assert!(sequence.next("s", |_| full()).is_err());
        assert_eq!(sequence.next("s", |_| Ok(())).unwrap(), 1);
        assert!(SequenceOptions { start: 0, ..SequenceOptions::of_bits(64, 1) }.validate().is_err());
    }
}
