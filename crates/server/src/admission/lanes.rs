//! Who runs and who waits: the rules, without a clock and without anybody waiting.
//!
//! There are two lanes, for cheap queries and for heavy ones, each with its places and its line. Places are for runs:
//! queries that one run can answer have the same *key*, and those of one key that are inside are a *party* with one
//! place. Who comes while his party is inside goes in at once, and who gets a place takes all along that wait with his
//! key, so a party grows while it waits. Times are given by the caller, from any beginning, so that tests decide what
//! time it is.
//!
//! ```text
//!   line of heavy queries            places of heavy queries
//!     d1  b3  d2  c2                   a1 a2 a3 | b1 b2 | c1          b3 goes in, to b1 and b2; d1 waits for a place,
//!                                                                     and takes d2 along
//! ```
//!
//! Invariants:
//! * No cheap query waits for a heavy one. One that was taken for cheap and is not gives its place up after
//!   [`CHEAP_TIME_MAX`].
//! * A line is served in order, except that who waits for others of his role is passed, and that nobody waits for a
//!   place who needs none.
//! * A party takes nobody in any more after [`PARTY_OPEN_MAX`] if others wait for a place: it ends, and its next ones
//!   have waited in line like everybody.
//! * No more queries of a role are inside than may be, whoever has their places.
//! * Nobody waits for ever: a step of priority is worth [`PRIORITY_WORTH`] of waiting, not more; and a heavy query that
//!   needs more memory than there is runs when no other heavy one does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::Class;

/// How long a query may have a cheap one's place. Nearly all cheap ones take a hundredth of that; one that does not was
/// misjudged, or its client is slow, and counts as heavy from then on.
pub const CHEAP_TIME_MAX: Duration = Duration::from_secs(1);

/// How much longer one who waits seems to have waited for each step of his role's priority.
pub const PRIORITY_WORTH: Duration = Duration::from_secs(5);

/// How long a party takes queries in while others wait for a place: some runs of most templates.
pub const PARTY_OPEN_MAX: Duration = Duration::from_secs(1);

/// How many run and wait.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// Parties that run at once; a query that goes with no others is one.
    pub running_max: usize,
    /// Queries that wait.
    pub queue_max: usize,
}

/// Who wants to run.
#[derive(Clone, Debug)]
pub struct Wanted<K> {
    /// What those have in common who can go with it; `None` if nobody can.
    pub key: Option<K>,
    /// How much the query is expected to need.
    pub class: Class,
    /// Bytes that it is expected to reserve. Only counted if it is heavy.
    pub memory_bytes: usize,
    /// The role's name.
    pub role: Arc<str>,
    /// Queries of the role that run at once.
    pub role_running_max: Option<usize>,
    /// Queries of the role that wait.
    pub role_queue_max: Option<usize>,
    /// More is earlier.
    pub priority: i32,
}

/// Why somebody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// As many of the class run as may.
    Lane {
        /// So many.
        running: usize,
    },
    /// As many of the role run as may.
    Role {
        /// The role.
        role: Arc<str>,
        /// So many.
        running: usize,
    },
    /// The memory that it, or one before it, is expected to need is not free.
    Memory,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Lane { running: 1 } => f.write_str("one runs, and no more may"),
            Reason::Lane { running } => write!(f, "{running} run, and no more may"),
            Reason::Role { role, running: 1 } => write!(f, "one of the role '{role}' runs, and no more may"),
            Reason::Role { role, running } => write!(f, "{running} of the role '{role}' run, and no more may"),
            Reason::Memory => f.write_str("the memory that is wanted is not free"),
        }
    }
}

/// Where somebody is in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which line.
    pub class: Class,
    /// From 1 on; where the first stands of those that go together.
    pub position: usize,
    /// The length of the line.
    pub waiting: usize,
    /// Others in it that will go in with him.
    pub together: usize,
    /// Why.
    pub reason: Reason,
}

impl Place {
    /// What he waits for, for people, where it is said that he waits.
    pub fn why(&self) -> String {
        format!("of {} queries{}: {}", self.class, self.with_others(), self.reason)
    }

    fn with_others(&self) -> String {
        match self.together {
            0 => String::new(),
            1 => ", together with another one".to_owned(),
            others => format!(", together with {others} others"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { class, position, waiting, reason, .. }, others) = (self, self.with_others());
        write!(f, "the query waits, {position} of {waiting} in the line of {class} queries{others}: {reason}")
    }
}

/// Why somebody is not even let into the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// The line is full.
    Line {
        /// Which one.
        class: Class,
        /// So many run.
        running: usize,
        /// So many wait.
        waiting: usize,
    },
    /// The role's part of it is.
    Role {
        /// The role.
        role: Arc<str>,
        /// So many wait.
        waiting: usize,
    },
}

/// A ticket of one who runs or waits. No other has had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// The number under which one who waits is listed: below zero, since those above are of queries that the engine has
    /// seen.
    pub fn number(self) -> i64 {
        -i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// The ticket with this number; `None` for a number of the engine.
    pub fn numbered(number: i64) -> Option<Self> {
        (number < 0).then(|| Ticket(number.unsigned_abs()))
    }
}

/// One lane's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneInfo {
    /// Places that are taken: by a query, or by several that go together.
    pub running: usize,
    /// Places.
    pub running_max: usize,
    /// Queries that wait.
    pub waiting: usize,
    /// Queries that wait at most.
    pub queue_max: usize,
    /// Queries let in since the start.
    pub admitted_total: u64,
    /// Queries refused since the start.
    pub refused_total: u64,
    /// Time waited, of all that were let in.
    pub waited_total: Duration,
}

/// Where somebody stands: when he seems to have come, and who he is.
type Standing = (i128, Ticket);

#[derive(Debug)]
struct Lane<K> {
    limits: LaneLimits,
    running: usize,
    line: BTreeMap<Standing, (Wanted<K>, Duration)>,
    /// Those in line who can go with others.
    by_key: HashMap<K, BTreeSet<Standing>>,
    admitted_total: u64,
    refused_total: u64,
    waited_total: Duration,
}

/// Queries that are inside and have one place.
#[derive(Debug)]
struct Party<K> {
    key: Option<K>,
    class: Class,
    memory_bytes: usize,
    since: Duration,
    queries: usize,
}

/// A query that is inside.
#[derive(Debug)]
struct Inside {
    role: Arc<str>,
    /// The ticket of its party's first.
    party: Ticket,
    since: Duration,
}

/// The lanes. `K` tells who can go together.
#[derive(Debug)]
pub struct Lanes<K> {
    cheap: Lane<K>,
    heavy: Lane<K>,
    inside: HashMap<Ticket, Inside>,
    /// By the tickets of their first ones.
    parties: HashMap<Ticket, Party<K>>,
    /// The latest party of each key.
    latest: HashMap<K, Ticket>,
    standings: HashMap<Ticket, (Class, Standing)>,
    /// Of heavy parties.
    memory_taken: usize,
    next: u64,
}

impl<K: Clone + Eq + Hash> Lane<K> {
    fn new(limits: LaneLimits) -> Self {
        let (line, by_key, waited_total) = (BTreeMap::new(), HashMap::new(), Duration::ZERO);
        Self { limits, running: 0, line, by_key, admitted_total: 0, refused_total: 0, waited_total }
    }

    fn is_full(&self) -> bool {
        self.running >= self.limits.running_max
    }

    /// Puts somebody in line.
    fn line_up(&mut self, standing: Standing, wanted: Wanted<K>, now: Duration) {
        if let Some(key) = &wanted.key {
            self.by_key.entry(key.clone()).or_default().insert(standing);
        }
        self.line.insert(standing, (wanted, now));
    }

    /// Takes somebody out of the line.
    fn step_out(&mut self, standing: Standing) -> Option<(Wanted<K>, Duration)> {
        let out = self.line.remove(&standing)?;
        if let Some(key) = &out.0.key
            && let Some(own) = self.by_key.get_mut(key)
        {
            own.remove(&standing);
            if own.is_empty() {
                self.by_key.remove(key);
            }
        }
        Some(out)
    }

    /// Those in line with a key, in order.
    fn with_key(&self, key: Option<&K>) -> Option<&BTreeSet<Standing>> {
        self.by_key.get(key?)
    }

    fn info(&self) -> LaneInfo {
        LaneInfo {
            running: self.running,
            running_max: self.limits.running_max,
            waiting: self.line.len(),
            queue_max: self.limits.queue_max,
            admitted_total: self.admitted_total,
            refused_total: self.refused_total,
            waited_total: self.waited_total,
        }
    }
}

impl<K: Clone + Eq + Hash> Lanes<K> {
    /// Empty lanes.
    pub fn new(cheap: LaneLimits, heavy: LaneLimits) -> Self {
        Self {
            cheap: Lane::new(cheap),
            heavy: Lane::new(heavy),
            inside: HashMap::new(),
            parties: HashMap::new(),
            latest: HashMap::new(),
            standings: HashMap::new(),
            memory_taken: 0,
            next: 1,
        }
    }

    fn lane(&self, class: Class) -> &Lane<K> {
        match class {
            Class::Cheap => &self.cheap,
            Class::Heavy => &self.heavy,
        }
    }

    fn lane_mut(&mut self, class: Class) -> &mut Lane<K> {
        match class {
            Class::Cheap => &mut self.cheap,
            Class::Heavy => &mut self.heavy,
        }
    }

    /// Puts somebody into his line; [`admit`](Self::admit) says whether he may run. Fails if the line, or his role's
    /// part of it, is full and he would have to wait.
    pub fn enter(&mut self, wanted: Wanted<K>, now: Duration, memory_bytes: usize) -> Result<Ticket, Full> {
        self.move_slow_ones(now);
        let class = wanted.class;
        let lane = self.lane(class);
        let ticket = Ticket(self.next);
        let came = now.as_nanos() as i128 - i128::from(wanted.priority) * PRIORITY_WORTH.as_nanos() as i128;
        // Of those before him only who waits for memory keeps him waiting, too; and that only if he needs a place.
        let needs_place = self.party_of(wanted.key.as_ref(), now).is_none();
        let mut before = lane.line.range(..(came, ticket)).map(|(_, (other, _))| other);
        let waits = self.obstacle(&wanted, now, memory_bytes).is_some()
            || needs_place && before.any(|other| self.obstacle(other, now, memory_bytes) == Some(Reason::Memory));
        if waits && lane.line.len() >= lane.limits.queue_max {
            let full = Full::Line { class, running: lane.running, waiting: lane.line.len() };
            self.lane_mut(class).refused_total += 1;
            return Err(full);
        }
        let of_role = || self.waiting_of(&wanted.role);
        if let Some(most) = wanted.role_queue_max
            && waits
            && of_role() >= most
        {
            let full = Full::Role { role: wanted.role.clone(), waiting: of_role() };
            self.lane_mut(class).refused_total += 1;
            return Err(full);
        }
        self.next += 1;
        self.lane_mut(class).line_up((came, ticket), wanted, now);
        self.standings.insert(ticket, (class, (came, ticket)));
        Ok(ticket)
    }

    /// Lets in whoever may run now: those first who need no place, then cheap ones. `memory_bytes` is what all heavy
    /// parties together may be expected to reserve.
    pub fn admit(&mut self, now: Duration, memory_bytes: usize) -> Vec<Ticket> {
        self.move_slow_ones(now);
        let mut admitted = Vec::new();
        let keys = self.cheap.by_key.keys().chain(self.heavy.by_key.keys()).cloned().collect::<Vec<_>>();
        keys.iter().for_each(|key| self.admit_party(key, now, &mut admitted));
        for class in [Class::Cheap, Class::Heavy] {
            while let Some(standing) = self.next_of(class, now, memory_bytes) {
                // A party that was closed may be open again, if those who waited behind it have just gone in.
                let wanted = self.lane(class).line.get(&standing);
                let party = wanted.and_then(|(wanted, _)| self.party_of(wanted.key.as_ref(), now));
                let Some(key) = self.let_in(class, standing, party, now) else { break };
                admitted.push(standing.1);
                key.iter().for_each(|key| self.admit_party(key, now, &mut admitted));
            }
        }
        admitted
    }

    /// Lets in those whose party is inside, as far as their roles allow.
    fn admit_party(&mut self, key: &K, now: Duration, admitted: &mut Vec<Ticket>) {
        let Some(party) = self.party_of(Some(key), now) else { return };
        let of_class = |class: Class| {
            let own = self.lane(class).with_key(Some(key)).into_iter().flatten();
            own.map(move |standing| (*standing, class))
        };
        let mut own = of_class(Class::Cheap).chain(of_class(Class::Heavy)).collect::<Vec<_>>();
        own.sort_unstable_by_key(|(standing, _)| *standing);
        for (standing, class) in own {
            let is_held =
                self.lane(class).line.get(&standing).is_none_or(|(wanted, _)| self.full_role(wanted).is_some());
            if !is_held && self.let_in(class, standing, Some(party), now).is_some() {
                admitted.push(standing.1);
            }
        }
    }

    /// Lets somebody in, to a party or to one of his own. Returns his key; `None` if he is not in line.
    fn let_in(&mut self, class: Class, standing: Standing, party: Option<Ticket>, now: Duration) -> Option<Option<K>> {
        let (_, ticket) = standing;
        let lane = self.lane_mut(class);
        let (wanted, since) = lane.step_out(standing)?;
        lane.admitted_total += 1;
        lane.waited_total += now.saturating_sub(since);
        self.standings.remove(&ticket);
        let party = party.unwrap_or_else(|| {
            let memory_bytes = if class == Class::Heavy { wanted.memory_bytes } else { 0 };
            self.lane_mut(class).running += 1;
            self.memory_taken = self.memory_taken.saturating_add(memory_bytes);
            let party = Party { key: wanted.key.clone(), class, memory_bytes, since: now, queries: 0 };
            self.parties.insert(ticket, party);
            self.latest.extend(wanted.key.clone().map(|key| (key, ticket)));
            ticket
        });
        if let Some(party) = self.parties.get_mut(&party) {
            party.queries += 1;
        }
        self.inside.insert(ticket, Inside { role: wanted.role, party, since: now });
        Some(wanted.key)
    }

    /// The party that a query with this key can go to.
    fn party_of(&self, key: Option<&K>, now: Duration) -> Option<Ticket> {
        let id = *self.latest.get(key?)?;
        let party = self.parties.get(&id)?;
        let lane = self.lane(party.class);
        let do_others_wait = lane.line.len() > lane.with_key(key).map_or(0, BTreeSet::len);
        (!do_others_wait || now.saturating_sub(party.since) < PARTY_OPEN_MAX).then_some(id)
    }

    /// The first in line who may run.
    fn next_of(&self, class: Class, now: Duration, memory_bytes: usize) -> Option<Standing> {
        for (standing, (wanted, _)) in &self.lane(class).line {
            match self.obstacle(wanted, now, memory_bytes) {
                None => return Some(*standing),
                Some(Reason::Role { .. }) => {}
                // Whoever comes after him could only take what he waits for.
                Some(Reason::Lane { .. } | Reason::Memory) => return None,
            }
        }
        None
    }

    /// What keeps somebody from running, if he is the first in line.
    fn obstacle(&self, wanted: &Wanted<K>, now: Duration, memory_bytes: usize) -> Option<Reason> {
        let lane = self.lane(wanted.class);
        let needs_place = self.party_of(wanted.key.as_ref(), now).is_none();
        if needs_place && lane.is_full() {
            return Some(Reason::Lane { running: lane.running });
        }
        if let Some(running) = self.full_role(wanted) {
            return Some(Reason::Role { role: wanted.role.clone(), running });
        }
        let fits = self.memory_taken.saturating_add(wanted.memory_bytes) <= memory_bytes;
        (needs_place && wanted.class == Class::Heavy && lane.running > 0 && !fits).then_some(Reason::Memory)
    }

    /// How many of somebody's role are inside, if no more may be.
    fn full_role(&self, wanted: &Wanted<K>) -> Option<usize> {
        let most = wanted.role_running_max?;
        let running = self.inside.values().filter(|inside| inside.role == wanted.role).count();
        (running >= most).then_some(running)
    }

    fn waiting_of(&self, role: &str) -> usize {
        let of_role = |lane: &Lane<K>| lane.line.values().filter(|(wanted, _)| *wanted.role == *role).count();
        of_role(&self.cheap) + of_role(&self.heavy)
    }

    /// Somebody runs no more, or waits no more.
    pub fn leave(&mut self, ticket: Ticket) {
        if let Some((class, standing)) = self.standings.remove(&ticket) {
            self.lane_mut(class).step_out(standing);
        }
        let Some(Inside { party: id, .. }) = self.inside.remove(&ticket) else { return };
        let Some(party) = self.parties.get_mut(&id) else { return };
        party.queries -= 1;
        if party.queries > 0 {
            return;
        }
        if let Some(party) = self.parties.remove(&id) {
            self.lane_mut(party.class).running -= 1;
            self.memory_taken -= party.memory_bytes;
            if let Some(key) = party.key.filter(|key| self.latest.get(key) == Some(&id)) {
                self.latest.remove(&key);
            }
        }
    }

    /// Gives the places of cheap parties one of which runs for too long to others, if any wait for one.
    fn move_slow_ones(&mut self, now: Duration) {
        if !self.cheap.is_full() {
            return;
        }
        let is_slow = |inside: &&Inside| now.saturating_sub(inside.since) >= CHEAP_TIME_MAX;
        for inside in self.inside.values().filter(is_slow) {
            if let Some(party) = self.parties.get_mut(&inside.party).filter(|party| party.class == Class::Cheap) {
                party.class = Class::Heavy;
                self.cheap.running -= 1;
                self.heavy.running += 1;
            }
        }
    }

    /// When it is worth calling [`admit`](Self::admit) again although nobody has left: the next misjudged query gives
    /// its place up then.
    pub fn next_move(&self) -> Option<Duration> {
        if self.cheap.line.is_empty() {
            return None;
        }
        let is_cheap =
            |inside: &&Inside| self.parties.get(&inside.party).is_some_and(|party| party.class == Class::Cheap);
        self.inside.values().filter(is_cheap).map(|inside| inside.since + CHEAP_TIME_MAX).min()
    }

    /// Where somebody is in line; `None` for one who does not wait.
    pub fn place(&self, ticket: Ticket, now: Duration, memory_bytes: usize) -> Option<Place> {
        let (class, standing) = self.standings.get(&ticket)?;
        let lane = self.lane(*class);
        let (wanted, _) = lane.line.get(standing)?;
        let own = lane.with_key(wanted.key.as_ref());
        // Who waits for others of his role is left behind by those he would go with.
        let is_held = self.full_role(wanted).is_some();
        let first = own.and_then(BTreeSet::first).filter(|_| !is_held).unwrap_or(standing);
        let position = lane.line.range(..=*first).count();
        let together = if is_held { 0 } else { own.map_or(0, |own| own.len() - 1) };
        // Without an obstacle of his own he is behind one who has one: only memory is such that it may hold one up and
        // not the next.
        let reason = self.obstacle(wanted, now, memory_bytes).unwrap_or(Reason::Memory);
        Some(Place { class: *class, position, waiting: lane.line.len(), together, reason })
    }

    /// Everybody in line, in order, cheap ones first, with the time of their coming.
    pub fn waiting(&self, now: Duration, memory_bytes: usize) -> Vec<(Ticket, Place, Duration)> {
        let lines = [&self.cheap, &self.heavy].into_iter().flat_map(|lane| &lane.line);
        let waiting = lines
            .filter_map(|((_, ticket), (_, since))| Some((*ticket, self.place(*ticket, now, memory_bytes)?, *since)));
        waiting.collect()
    }

    /// The counters of a lane.
    pub fn info(&self, class: Class) -> LaneInfo {
        self.lane(class).info()
    }

    /// Bytes that the heavy queries which run are expected to reserve.
    pub fn memory_taken(&self) -> usize {
        self.memory_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 1000;

    fn lanes(cheap: usize, heavy: usize, queue_max: usize) -> Lanes<u64> {
        Lanes::new(LaneLimits { running_max: cheap, queue_max }, LaneLimits { running_max: heavy, queue_max })
    }

    fn wanted(class: Class, memory_bytes: usize) -> Wanted<u64> {
        let role = "".into();
        Wanted { key: None, class, memory_bytes, role, role_running_max: None, role_queue_max: None, priority: 0 }
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Lets somebody in or has him wait.
    fn enter(lanes: &mut Lanes<u64>, wanted: Wanted<u64>, seconds: f64) -> (Ticket, bool) {
        let ticket = lanes.enter(wanted, at(seconds), MEMORY).unwrap();
        let admitted = lanes.admit(at(seconds), MEMORY);
        (ticket, admitted.contains(&ticket))
    }

    #[test]
    fn cheap_ones_are_not_behind_heavy_ones() {
        let mut lanes = lanes(2, 1, 10);
        let (first, runs) = enter(&mut lanes, wanted(Class::Heavy, 0), 0.0);
        assert!(runs);
        let (second, runs) = enter(&mut lanes, wanted(Class::Heavy, 0), 0.1);
        assert!(!runs);
        assert!(enter(&mut lanes, wanted(Class::Cheap, 0), 0.2).1);
        let place = lanes.place(second, at(0.3), MEMORY).unwrap();
        assert_eq!(
            place.to_string(),
            "the query waits, 1 of 1 in the line of heavy queries: one runs, and no more may"
        );
        lanes.leave(first);
        assert_eq!(lanes.admit(at(0.3), MEMORY), [second]);
        assert_eq!(lanes.info(Class::Heavy).waited_total, at(0.2));
        assert_eq!(lanes.place(second, at(0.3), MEMORY), None);
    }

    #[test]
    fn a_misjudged_query_gives_its_cheap_place_up() {
        let mut lanes = lanes(1, 1, 10);
        let (slow, _) = enter(&mut lanes, wanted(Class::Cheap, 0), 0.0);
        let (cheap, runs) = enter(&mut lanes, wanted(Class::Cheap, 0), 0.5);
        assert!(!runs);
        assert_eq!(lanes.next_move(), Some(CHEAP_TIME_MAX));
        assert_eq!(lanes.admit(at(0.9), MEMORY), []);
        assert_eq!(lanes.admit(at(1.0), MEMORY), [cheap]);
        // It counts as heavy now.
        assert!(!enter(&mut lanes, wanted(Class::Heavy, 0), 1.0).1);
        lanes.leave(slow);
        assert_eq!(lanes.admit(at(1.1), MEMORY).len(), 1);
        assert_eq!((lanes.info(Class::Cheap).running, lanes.info(Class::Heavy).running), (1, 1));
    }

    #[test]
    fn heavy_ones_wait_for_memory_in_order_and_one_always_runs() {
        let mut lanes = lanes(1, 9, 10);
        let (huge, runs) = enter(&mut lanes, wanted(Class::Heavy, 5000), 0.0);
        assert!(runs, "there is nobody to wait for");
        let (large, runs) = enter(&mut lanes, wanted(Class::Heavy, 900), 0.1);
        assert!(!runs);
        let (small, runs) = enter(&mut lanes, wanted(Class::Heavy, 100), 0.2);
        assert!(!runs, "else the large one might wait for ever");
        assert_eq!(lanes.place(small, at(0.3), MEMORY).unwrap().reason, Reason::Memory);
        lanes.leave(huge);
        assert_eq!(lanes.admit(at(0.3), MEMORY), [large, small]);
        assert_eq!(lanes.memory_taken(), 1000);
        lanes.leave(large);
        lanes.leave(small);
        assert_eq!(lanes.memory_taken(), 0);
    }

    #[test]
    fn priority_is_worth_some_waiting_and_not_more() {
        let mut lanes = lanes(1, 1, 10);
        let (running, _) = enter(&mut lanes, wanted(Class::Heavy, 0), 0.0);
        let of = |priority| Wanted { priority, ..wanted(Class::Heavy, 0) };
        let (old, _) = enter(&mut lanes, of(0), 1.0);
        let (plain, _) = enter(&mut lanes, of(0), 5.0);
        let (urgent, _) = enter(&mut lanes, of(1), 7.0);
        let (patient, _) = enter(&mut lanes, of(-1), 2.0);
        let order = lanes.waiting(at(9.0), MEMORY).into_iter().map(|(ticket, ..)| ticket).collect::<Vec<_>>();
        assert_eq!(order, [old, urgent, plain, patient]);
        lanes.leave(running);
        assert_eq!(lanes.admit(at(8.0), MEMORY), [old]);
    }

    #[test]
    fn a_role_at_its_limit_holds_up_nobody_else() {
        let mut lanes = lanes(1, 3, 10);
        let of_role = |role: &str| Wanted {
            role: role.into(),
            role_running_max: Some(1),
            role_queue_max: Some(1),
            ..wanted(Class::Heavy, 0)
        };
        let (first, _) = enter(&mut lanes, of_role("a"), 0.0);
        let (second, runs) = enter(&mut lanes, of_role("a"), 0.1);
        assert!(!runs);
        assert_eq!(
            lanes.place(second, at(0.3), MEMORY).unwrap().reason.to_string(),
            "one of the role 'a' runs, and no more may"
        );
        let refused = lanes.enter(of_role("a"), at(0.2), MEMORY).unwrap_err();
        assert_eq!(refused, Full::Role { role: "a".into(), waiting: 1 });
        assert!(enter(&mut lanes, of_role("b"), 0.3).1);
        lanes.leave(first);
        assert_eq!(lanes.admit(at(0.4), MEMORY), [second]);
        assert_eq!(lanes.info(Class::Heavy).refused_total, 1);
    }

    fn of(key: u64) -> Wanted<u64> {
        Wanted { key: Some(key), ..wanted(Class::Heavy, 100) }
    }

    #[test]
    fn those_who_can_go_together_have_one_place() {
        let mut lanes = lanes(1, 1, 10);
        let (first, runs) = enter(&mut lanes, of(1), 0.0);
        let (second, also) = enter(&mut lanes, Wanted { class: Class::Cheap, ..of(1) }, 0.1);
        assert!(runs && also);
        assert_eq!(
            (lanes.info(Class::Heavy).running, lanes.info(Class::Cheap).running, lanes.memory_taken()),
            (1, 0, 100)
        );
        // Others wait; and who comes later with their key does so with them.
        let (other, runs) = enter(&mut lanes, of(2), 0.2);
        let (alone, _) = enter(&mut lanes, wanted(Class::Heavy, 0), 0.3);
        let (late, also) = enter(&mut lanes, of(2), 0.4);
        assert!(!runs && !also);
        let place = lanes.place(late, at(0.4), MEMORY).unwrap();
        assert_eq!((place.position, place.waiting, place.together), (1, 3, 1));
        assert_eq!(place.why(), "of heavy queries, together with another one: one runs, and no more may");
        assert_eq!(lanes.place(alone, at(0.4), MEMORY).unwrap().position, 2);
        // The place stays while one of them is inside.
        lanes.leave(first);
        assert_eq!(lanes.admit(at(0.5), MEMORY), []);
        lanes.leave(second);
        assert_eq!(lanes.admit(at(0.6), MEMORY), [other, late]);
        assert_eq!((lanes.info(Class::Heavy).running, lanes.memory_taken()), (1, 100));
        lanes.leave(late);
        lanes.leave(other);
        assert_eq!(lanes.admit(at(0.7), MEMORY), [alone]);
    }

    #[test]
    fn a_party_ends_if_others_wait_for_its_place() {
        let mut lanes = lanes(1, 1, 10);
        let (first, _) = enter(&mut lanes, of(1), 0.0);
        assert!(enter(&mut lanes, of(1), 5.0).1, "nobody else wants the place");
        let (other, _) = enter(&mut lanes, wanted(Class::Heavy, 0), 5.1);
        let (late, runs) = enter(&mut lanes, of(1), 5.2);
        assert!(!runs, "the other one would wait for ever");
        lanes.leave(first);
        assert_eq!(lanes.admit(at(5.3), MEMORY), []);
        lanes.leave(Ticket(2));
        assert_eq!(lanes.admit(at(5.4), MEMORY), [other]);
        lanes.leave(other);
        assert_eq!(lanes.admit(at(5.5), MEMORY), [late]);
        // A party that is young takes others in whoever waits.
        let (other, _) = enter(&mut lanes, wanted(Class::Heavy, 0), 5.6);
        assert!(enter(&mut lanes, of(1), 6.4).1);
        assert!(!enter(&mut lanes, of(1), 6.5).1);
        // When nobody else waits any more, it does again.
        lanes.leave(other);
        assert_eq!(lanes.admit(at(6.6), MEMORY).len(), 1);
    }

    #[test]
    fn a_role_at_its_limit_is_so_whoever_has_the_place() {
        let mut lanes = lanes(1, 9, 10);
        let of_role = |role: &str, key| Wanted { role: role.into(), role_running_max: Some(1), ..of(key) };
        let (first, _) = enter(&mut lanes, of_role("a", 1), 0.0);
        let (second, runs) = enter(&mut lanes, of_role("a", 1), 0.1);
        assert!(!runs);
        let place = lanes.place(second, at(0.1), MEMORY).unwrap();
        assert_eq!((place.reason, place.together), (Reason::Role { role: "a".into(), running: 1 }, 0));
        assert!(enter(&mut lanes, of_role("b", 1), 0.2).1, "its party takes the other role");
        lanes.leave(first);
        assert_eq!(lanes.admit(at(0.3), MEMORY), [second]);
        assert_eq!(lanes.info(Class::Heavy).running, 1);
    }

    #[test]
    fn a_party_of_cheap_ones_keeps_its_place_while_each_of_them_is_quick() {
        let mut lanes = lanes(1, 1, 10);
        let cheap = |key| Wanted { class: Class::Cheap, ..of(key) };
        let (mut last, _) = enter(&mut lanes, cheap(1), 0.0);
        for step in 1..30 {
            let (next, runs) = enter(&mut lanes, cheap(1), f64::from(step) * 0.1);
            assert!(runs);
            lanes.leave(std::mem::replace(&mut last, next));
        }
        assert_eq!((lanes.info(Class::Cheap).running, lanes.info(Class::Heavy).running), (1, 0));
        let (other, runs) = enter(&mut lanes, cheap(2), 3.0);
        assert!(!runs);
        // One that is not gives the place of all up.
        assert_eq!(lanes.admit(at(4.0), MEMORY), [other]);
        assert_eq!((lanes.info(Class::Cheap).running, lanes.info(Class::Heavy).running), (1, 1));
    }

    #[test]
    fn a_full_line_refuses_and_who_leaves_it_makes_room() {
        let mut lanes = lanes(1, 1, 1);
        enter(&mut lanes, wanted(Class::Cheap, 0), 0.0);
        let (waits, _) = enter(&mut lanes, wanted(Class::Cheap, 0), 0.1);
        let full = lanes.enter(wanted(Class::Cheap, 0), at(0.2), MEMORY).unwrap_err();
        assert_eq!(full, Full::Line { class: Class::Cheap, running: 1, waiting: 1 });
        assert!(enter(&mut lanes, wanted(Class::Heavy, 0), 0.2).1, "its line is another one");
        lanes.leave(waits);
        assert!(lanes.enter(wanted(Class::Cheap, 0), at(0.3), MEMORY).is_ok());
    }

    /// The rules under many arrivals and departures in an order given by a seed.
    #[test]
    fn limits_hold_and_everybody_is_served_whatever_the_order() {
        for seed in 1..200u64 {
            let mut state = seed;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let mut lanes = lanes(2, 2, 1000);
            let (mut running, mut seconds, mut came, mut served) = (Vec::<Ticket>::new(), 0.0, 0, 0);
            for step in 0..400 {
                seconds += random(100) as f64 / 100.0;
                if step < 200 && random(2) == 0 {
                    let class = if random(2) == 0 { Class::Cheap } else { Class::Heavy };
                    let role = ["a", "b"][random(2) as usize];
                    let key = random(8);
                    let wanted = Wanted {
                        key: (key < 4).then_some(key),
                        class,
                        memory_bytes: random(1500) as usize,
                        role: role.into(),
                        role_running_max: (role == "a").then_some(1),
                        role_queue_max: None,
                        priority: random(3) as i32 - 1,
                    };
                    lanes.enter(wanted, at(seconds), MEMORY).unwrap();
                    came += 1;
                } else if !running.is_empty() {
                    let gone = running.swap_remove(random(running.len() as u64) as usize);
                    lanes.leave(gone);
                }
                let admitted = lanes.admit(at(seconds), MEMORY);
                served += admitted.len();
                running.extend(admitted);
                assert!(lanes.info(Class::Cheap).running <= 2, "seed {seed}");
                assert!(lanes.inside.values().filter(|inside| &*inside.role == "a").count() <= 1, "seed {seed}");
                let heavy = lanes.parties.values().filter(|party| party.memory_bytes > 0).count();
                assert!(heavy <= 1 || lanes.memory_taken() <= MEMORY, "seed {seed}");
            }
            while !running.is_empty() {
                lanes.leave(running.remove(0));
                let admitted = lanes.admit(at(seconds), MEMORY);
                served += admitted.len();
                running.extend(admitted);
            }
            assert_eq!(
                (served, lanes.waiting(at(9.0), MEMORY).len(), lanes.memory_taken()),
                (came, 0, 0),
                "seed {seed}"
            );
        }
    }
}
