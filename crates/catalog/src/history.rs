//! What a database was: its names and rows at moments of the past, as long as they are retained.
//!
//! Nothing is copied: no version of a table ever changes, so to keep one is to keep what it shares with the others, and
//! what they do not have any more. Rows that were deleted stay in memory, and segments that were rewritten on disk,
//! until no moment has them. The past begins when retention is switched on. What there was before the database was
//! opened is on disk, and read from there when somebody asks ([`EarlierHistory`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use diligence_base::{Error, Result};
use parking_lot::Mutex;

use crate::CatalogSnapshot;
use crate::snapshot::Root;

/// Moments at most; when there are more, every other one of the older half is forgotten.
const MOMENTS_MAX: usize = 1 << 16;

/// The past of a database before it was opened.
pub trait EarlierHistory: Send + Sync {
    /// The names and rows of a moment; `None` if it is not kept. Blocks the calling thread while they are read. Fails
    /// with kind `File` if they cannot be read, `Resource` if they do not fit into memory.
    fn at(&self, moment: i64) -> Result<Option<CatalogSnapshot>>;
    /// The oldest moment that is kept; `None` if there is none.
    fn oldest(&self) -> Option<i64>;
}

/// The past of a database. Times are microseconds since 1970. Used from any thread.
#[derive(Default)]
pub struct History {
    /// How long it is kept, in microseconds; 0 if it is not.
    retention: AtomicI64,
    /// Since when there are which names, in order.
    moments: Mutex<VecDeque<(i64, Arc<Root>)>>,
    /// What was before them.
    earlier: Mutex<Option<Weak<dyn EarlierHistory>>>,
}

/// How much there is of a database's past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryState {
    /// How long it is kept, in microseconds.
    pub retention: i64,
    /// How many different states there are.
    pub moments: usize,
    /// The oldest moment that can be asked for; `None` if there is none.
    pub oldest: Option<i64>,
    /// When it was looked at.
    pub now: i64,
}

impl History {
    /// How long the past is kept, in microseconds.
    pub fn retention(&self) -> i64 {
        self.retention.load(Ordering::Acquire)
    }

    /// Keeps the past so long from now on; `root` is what there is.
    pub(crate) fn retain(&self, retention: i64, now: i64, root: Arc<Root>) {
        self.retention.store(retention, Ordering::Release);
        let mut moments = self.moments.lock();
        if retention > 0 && moments.is_empty() {
            moments.push_back((now, root));
        }
        let gone = self.forgotten(&mut moments, now);
        drop(moments);
        drop(gone);
    }

    /// Goes on with the past of a database that is opened: `root` has been what there is since a moment, and what was
    /// before that is known to `earlier`.
    pub(crate) fn resume(&self, retention: i64, since: i64, root: Arc<Root>, earlier: Weak<dyn EarlierHistory>) {
        *self.earlier.lock() = Some(earlier);
        self.retain(retention, since, root);
    }

    fn earlier(&self) -> Option<Arc<dyn EarlierHistory>> {
        self.earlier.lock().as_ref().and_then(Weak::upgrade)
    }

    /// There are other names from now on. Gives what is forgotten for that, to be dropped where nobody waits.
    pub(crate) fn goes_on(&self, now: impl FnOnce() -> i64, root: &Arc<Root>) -> Vec<Arc<Root>> {
        if self.retention() == 0 {
            return Vec::new();
        }
        let now = now();
        let mut moments = self.moments.lock();
        // Clocks may be set back; the past is in order.
        let now = moments.back().map_or(now, |(last, _)| now.max(*last));
        moments.push_back((now, root.clone()));
        self.forgotten(&mut moments, now)
    }

    /// Forgets what is not retained any more.
    pub(crate) fn trim(&self, now: i64) {
        let gone = self.forgotten(&mut self.moments.lock(), now);
        drop(gone);
    }

    fn forgotten(&self, moments: &mut VecDeque<(i64, Arc<Root>)>, now: i64) -> Vec<Arc<Root>> {
        let retention = self.retention();
        if retention == 0 {
            return moments.drain(..).map(|(_, root)| root).collect();
        }
        let mut gone = Vec::new();
        let end = now.saturating_sub(retention);
        // The first one is what there was at the end of the past, as long as the next one is younger.
        while moments.get(1).is_some_and(|(since, _)| *since <= end) {
            gone.extend(moments.pop_front().map(|(_, root)| root));
        }
        if moments.len() > MOMENTS_MAX {
            let mut place = 0;
            let half = moments.len() / 2;
            moments.retain(|(_, root)| {
                place += 1;
                let stays = place > half || place % 2 == 1;
                if !stays {
                    gone.push(root.clone());
                }
                stays
            });
        }
        gone
    }

    /// The names and rows of a moment. Fails with code 22023 if it is to come, 72000 if it is not retained.
    pub(crate) fn at(&self, moment: i64, now: i64) -> Result<CatalogSnapshot> {
        if moment > now {
            return Err(Error::value("there is nothing yet at a time that is to come").with_code("22023"));
        }
        if self.retention() == 0 {
            let error = Error::value("the past of this database is not kept").with_code("72000");
            return Err(error.with_hint("SET history_retention = '1 h' keeps it from now on"));
        }
        self.trim(now);
        let moments = self.moments.lock();
        let found = moments.partition_point(|(since, _)| *since <= moment).checked_sub(1);
        let is_kept = moment >= now.saturating_sub(self.retention());
        let found = found.and_then(|place| moments.get(place)).filter(|_| is_kept);
        if let Some((_, root)) = found {
            return Ok(CatalogSnapshot(root.clone()));
        }
        // Reading it takes long, and changes do not wait for that.
        drop(moments);
        if let Some(earlier) = self.earlier().filter(|_| is_kept)
            && let Some(snapshot) = earlier.at(moment)?
        {
            return Ok(snapshot);
        }
        let error = Error::value("the past of this database does not reach back so far").with_code("72000");
        Err(error.with_hint("system.history says how far it does"))
    }

    /// How much there is.
    pub(crate) fn state(&self, now: i64) -> HistoryState {
        let retention = self.retention();
        let moments = self.moments.lock();
        let (count, first) = (moments.len(), moments.front().map(|(since, _)| *since));
        drop(moments);
        let earlier = self.earlier().filter(|_| retention > 0).and_then(|earlier| earlier.oldest());
        let oldest = first.into_iter().chain(earlier).min().map(|since| since.max(now.saturating_sub(retention)));
        HistoryState { retention, moments: count, oldest, now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(number: u64) -> Arc<Root> {
        Arc::new(Root { losses: number, ..Root::default() })
    }

    fn at(history: &History, moment: i64, now: i64) -> std::result::Result<u64, &'static str> {
        let found = history.at(moment, now).map(|snapshot| snapshot.0.losses);
        found.map_err(|error| error.code().unwrap_or_default())
    }

    #[test]
    fn the_past_is_what_there_was_at_a_moment() {
        let history = History::default();
        assert!(history.goes_on(|| 5, &root(5)).is_empty());
        assert_eq!(at(&history, 5, 6), Err("72000"));
        history.retain(100, 10, root(10));
        for moment in [20, 30, 40] {
            history.goes_on(|| moment, &root(moment as u64));
        }
        let all = [9, 10, 19, 20, 29, 30, 45].map(|moment| at(&history, moment, 50));
        assert_eq!(all, [Err("72000"), Ok(10), Ok(10), Ok(20), Ok(20), Ok(30), Ok(40)]);
        assert_eq!(at(&history, 51, 50), Err("22023"));
        // What ended longer ago is gone.
        assert_eq!(history.goes_on(|| 125, &root(125)).len(), 1);
        assert_eq!([24, 25, 30].map(|moment| at(&history, moment, 125)), [Err("72000"), Ok(20), Ok(30)]);
        assert_eq!(history.state(125), HistoryState { retention: 100, moments: 4, oldest: Some(25), now: 125 });
        history.retain(0, 126, root(126));
        assert_eq!(history.state(126), HistoryState { now: 126, ..HistoryState::default() });
    }

    struct Earlier;

    impl EarlierHistory for Earlier {
        fn at(&self, moment: i64) -> Result<Option<CatalogSnapshot>> {
            Ok((30..50).contains(&moment).then(|| CatalogSnapshot(root(moment as u64))))
        }

        fn oldest(&self) -> Option<i64> {
            Some(30)
        }
    }

    #[test]
    fn what_was_before_the_opening_is_asked_for_elsewhere() {
        let (history, earlier) = (History::default(), Arc::new(Earlier));
        let weak: Weak<dyn EarlierHistory> = Arc::downgrade(&(earlier.clone() as Arc<dyn EarlierHistory>));
        history.resume(100, 50, root(50), weak);
        history.goes_on(|| 60, &root(60));
        let all = [29, 30, 49, 50, 59, 60].map(|moment| at(&history, moment, 70));
        assert_eq!(all, [Err("72000"), Ok(30), Ok(49), Ok(50), Ok(50), Ok(60)]);
        assert_eq!(history.state(70).oldest, Some(30));
        // What is not retained any more is not asked for.
        assert_eq!([35, 40].map(|moment| at(&history, moment, 140)), [Err("72000"), Ok(40)]);
        assert_eq!(history.state(140).oldest, Some(40));
        drop(earlier);
        assert_eq!(at(&history, 49, 140), Err("72000"));
        assert_eq!(at(&history, 50, 140), Ok(50));
    }

    #[test]
    fn very_many_moments_are_thinned_where_they_are_old() {
        let history = History::default();
        history.retain(i64::MAX, 0, root(0));
        let count = MOMENTS_MAX as i64 * 2;
        for moment in 1..=count {
            history.goes_on(|| moment, &root(moment as u64));
        }
        assert!(history.state(count).moments <= MOMENTS_MAX);
        assert_eq!(at(&history, count, count), Ok(count as u64));
        assert_eq!(at(&history, count - 7, count), Ok(count as u64 - 7));
        assert_eq!(at(&history, 0, count), Ok(0));
        assert!(at(&history, count / 2, count).unwrap() <= count as u64 / 2);
    }
}
