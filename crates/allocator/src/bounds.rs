//! When memory goes back to the system: decisions, without doing anything.

use std::time::Duration;

/// The bytes that a process may hold beyond 1.1 times its budget: for its code, the stacks of its threads, the footers
/// of files, and what the allocator retains.
pub const RESIDENT_BASE_BYTES: usize = 150_000_000;

/// The shortest time between two looks; a look takes some ten microseconds.
const LOOK_MIN: Duration = Duration::from_millis(4);
/// The longest time between two looks.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// A process that holds too much although it gave back tries again after so long: what was in use then may be free by
/// now.
const AGAIN: Duration = Duration::from_millis(250);

/// What the process holds beside what is accounted for is looked at again after so long at least: others are to have
/// given back by then.
const CHARGE_AGAIN: Duration = Duration::from_millis(100);

/// The part of the budget, as its divisor, that is charged at most.
const CHARGE_DIVISOR: usize = 8;

/// Changes that are less count as none.
const CHANGE_BYTES: usize = 1 << 20;

/// The most that a process begins to hold in a second: a few threads that touch fresh memory.
const BYTES_PER_SECOND: usize = 4 << 30;

/// What a process may hold, by its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// From here on memory goes back.
    high_bytes: usize,
    /// How much more there has to be since the last time: what is in use does not become less by trying.
    more_bytes: usize,
    /// What is charged at most.
    charge_bytes_max: usize,
    /// A process that holds the same for so long is quiet: what it does not need goes back, each time that so much
    /// time has passed. Holding the same does not say that nothing was freed.
    quiet: Duration,
}

impl Bounds {
    /// The bounds with a budget: what grows between two looks stays below what the process may have.
    pub fn within(budget_bytes: usize, quiet: Duration) -> Self {
        let most = budget_bytes + budget_bytes / 10 + RESIDENT_BASE_BYTES;
        let margin = (24 << 20) + budget_bytes / 16;
        Self {
            high_bytes: most - margin,
            more_bytes: (4 << 20) + budget_bytes / 64,
            charge_bytes_max: budget_bytes / CHARGE_DIVISOR,
            quiet,
        }
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// What the process held when it last gave back, or less.
    floor_bytes: usize,
    /// What it held when it last changed or gave back, and when that was.
    still_bytes: usize,
    still_since: Duration,
    /// When it was last to give back.
    told: Duration,
    /// What is charged, and when that was last said.
    charged_bytes: usize,
    charged: Duration,
}

/// What comes of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether memory is to go back now.
    pub is_too_much: bool,
    /// When to look again.
    pub next: Duration,
}

impl Looks {
    /// The process holds so much at this time, counted from any beginning.
    pub fn look(&mut self, bounds: &Bounds, bytes: usize, now: Duration) -> Look {
        self.floor_bytes = self.floor_bytes.min(bytes);
        if bytes.abs_diff(self.still_bytes) > CHANGE_BYTES {
            (self.still_bytes, self.still_since) = (bytes, now);
        }
        let is_again = bytes > bounds.high_bytes && now.saturating_sub(self.told) >= AGAIN;
        let high = bounds.high_bytes.max(self.floor_bytes + bounds.more_bytes);
        let is_quiet = now.saturating_sub(self.still_since) >= bounds.quiet;
        // As long as it takes at least to get there.
        let ms = high.saturating_sub(bytes) / (BYTES_PER_SECOND / 1000);
        let next = Duration::from_millis(ms as u64).clamp(LOOK_MIN, LOOK_MAX);
        let is_too_much = bytes > high || is_again || is_quiet;
        if is_too_much {
            (self.told, self.still_since) = (now, now);
        }
        Look { is_too_much, next }
    }

    /// Memory went back: the process holds so much now.
    pub fn gave_back(&mut self, bytes: usize) {
        (self.floor_bytes, self.still_bytes) = (bytes, bytes);
    }

    /// What is to be charged from now on, if that is anything or changes; `bytes` is what the process holds, after
    /// memory went back if it did. It is charged with what is too much although all that is free went back: with so
    /// much less in use it would not be.
    pub fn charge(&mut self, bounds: &Bounds, bytes: usize, went_back: bool, now: Duration) -> Option<usize> {
        if now.saturating_sub(self.charged) < CHARGE_AGAIN {
            return None;
        }
        let charge = (self.charged_bytes + bytes).saturating_sub(bounds.high_bytes).min(bounds.charge_bytes_max);
        // Said again as long as there is something: it may have been given up meanwhile.
        if charge == 0 && self.charged_bytes == 0 || charge > self.charged_bytes && !went_back {
            return None;
        }
        (self.charged_bytes, self.charged) = (charge, now);
        Some(charge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QUIET;

    const MB: usize = 1_000_000;

    #[test]
    fn memory_goes_back_before_there_is_too_much() {
        for budget in [16 << 20, 256 * MB, 1000 * MB, 16_000 * MB] {
            let bounds = Bounds::within(budget, QUIET);
            let most = budget + budget / 10 + RESIDENT_BASE_BYTES;
            let mut looks = Looks::default();
            let (mut bytes, mut now) = (0, Duration::ZERO);
            let mut look = looks.look(&bounds, bytes, now);
            while !look.is_too_much {
                now += look.next;
                bytes += (look.next.as_secs_f64() * BYTES_PER_SECOND as f64) as usize;
                look = looks.look(&bounds, bytes, now);
            }
            assert!(bytes > budget && bytes < most, "{bytes} with {budget}");
        }
    }

    #[test]
    fn what_is_in_use_is_not_asked_for_again_and_again() {
        let bounds = Bounds::within(1000 * MB, QUIET);
        let mut looks = Looks::default();
        let mut is_too_much = |bytes: usize, ms: u64, back: Option<usize>| {
            let is_too_much = looks.look(&bounds, bytes * MB, Duration::from_millis(ms)).is_too_much;
            back.filter(|_| is_too_much).into_iter().for_each(|bytes| looks.gave_back(bytes * MB));
            is_too_much
        };
        assert!(!is_too_much(1100, 1000, None));
        assert!(is_too_much(1230, 1000, Some(1215)));
        assert!(!is_too_much(1216, 1010, None) && !is_too_much(1230, 1020, None));
        assert!(is_too_much(1230, 1250, Some(1225)), "but after some time");
        assert!(!is_too_much(1230, 1260, None));
        assert!(is_too_much(1260, 1270, Some(1000)));
        assert!(!is_too_much(1160, 1280, None) && !is_too_much(1160, 3000, None));
        assert!(is_too_much(1200, 3010, None));
    }

    #[test]
    fn what_is_held_beside_what_is_accounted_for_is_charged_until_it_fits() {
        let bounds = Bounds::within(1000 * MB, QUIET);
        let mut looks = Looks::default();
        let (mut accounted, mut now, mut charged) = (950 * MB, Duration::ZERO, 0);
        // Of what is in use a quarter more is held, and what is charged is given back by others.
        let mut most = 0;
        for _ in 0..50 {
            now += CHARGE_AGAIN;
            let bytes = 60 * MB + (accounted - charged) * 5 / 4;
            charged = looks.charge(&bounds, bytes, true, now).unwrap_or(charged);
            most = most.max(charged);
        }
        let bytes = 60 * MB + (accounted - charged) * 5 / 4;
        assert!(
            bytes.abs_diff(bounds.high_bytes) < MB && charged > 60 * MB && most < 90 * MB,
            "{bytes} {charged} {most}"
        );
        assert_eq!(looks.charge(&bounds, bytes + 20 * MB, false, now + CHARGE_AGAIN), None, "some may be free");
        assert_eq!(looks.charge(&bounds, 5000 * MB, true, now + CHARGE_AGAIN), Some(125 * MB));
        assert_eq!(looks.charge(&bounds, 100 * MB, true, now + CHARGE_AGAIN), None, "nobody can have given back yet");
        accounted = 100 * MB;
        assert_eq!(looks.charge(&bounds, accounted, false, now + 2 * CHARGE_AGAIN), Some(0));
    }

    #[test]
    fn a_quiet_process_gives_back_once_in_a_while() {
        let bounds = Bounds::within(1000 * MB, QUIET);
        let mut looks = Looks::default();
        let second = Duration::from_secs(1);
        let mut is_quiet = |bytes: usize, at: Duration| looks.look(&bounds, bytes, at).is_too_much;
        let began = 10 * second;
        assert!(!is_quiet(500 * MB, began) && !is_quiet(500 * MB + 1000, began + QUIET - second));
        assert!(is_quiet(500 * MB, began + QUIET));
        // As much was taken and freed while it went back: it holds the same from now on, and does not need it.
        looks.gave_back(500 * MB);
        let mut is_quiet = |bytes: usize, at: Duration| looks.look(&bounds, bytes, at).is_too_much;
        assert!(!is_quiet(500 * MB, began + 2 * QUIET - second));
        assert!(is_quiet(500 * MB, began + 2 * QUIET));
        looks.gave_back(100 * MB);
        let mut is_quiet = |bytes: usize, at: Duration| looks.look(&bounds, bytes, at).is_too_much;
        let again = began + 2 * QUIET + second;
        assert!(!is_quiet(300 * MB, again) && !is_quiet(300 * MB, again + QUIET - second));
        assert!(is_quiet(300 * MB, again + QUIET));
    }
}
