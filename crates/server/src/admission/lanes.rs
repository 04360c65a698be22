//! Who runs and who waits: the rules, without a clock and without anybody waiting.
//!
//! There are two lanes, for cheap queries and for heavy ones, each with its places and its line. Times are given by the
//! caller, from any beginning, so that tests decide what time it is.
//!
//! Invariants:
//! * No cheap query waits for a heavy one. One that was taken for cheap and is not gives its place up after
//!   [`CHEAP_TIME_MAX`].
//! * A line is served in order, except that who waits for others of his role is passed.
//! * Nobody waits for ever: a step of priority is worth [`PRIORITY_WORTH`] of waiting, not more; and a heavy query that
//!   needs more memory than there is runs when no other heavy one does.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Class;

/// How long a query may have a cheap one's place. Nearly all cheap ones take a hundredth of that; one that does not was
/// misjudged, or its client is slow, and counts as heavy from then on.
pub const CHEAP_TIME_MAX: Duration = Duration::from_secs(1);

/// How much longer one who waits seems to have waited for each step of his role's priority.
pub const PRIORITY_WORTH: Duration = Duration::from_secs(5);

/// How many run and wait.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// Queries that run at once.
    pub running_max: usize,
    /// Queries that wait.
    pub queue_max: usize,
}

/// Who wants to run.
#[derive(Clone, Debug)]
pub struct Wanted {
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
    /// From 1 on.
    pub position: usize,
    /// The length of the line.
    pub waiting: usize,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, position, waiting, reason } = self;
        write!(f, "the query waits, {position} of {waiting} in the line of {class} queries: {reason}")
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
    /// Queries that run.
    pub running: usize,
    /// Queries that run at most.
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
struct Lane {
    limits: LaneLimits,
    running: usize,
    line: BTreeMap<Standing, (Wanted, Duration)>,
    admitted_total: u64,
    refused_total: u64,
    waited_total: Duration,
}

#[derive(Debug)]
struct Running {
    class: Class,
    role: Arc<str>,
    memory_bytes: usize,
    since: Duration,
}

/// The lanes.
#[derive(Debug)]
pub struct Lanes {
    cheap: Lane,
    heavy: Lane,
    running: HashMap<Ticket, Running>,
    standings: HashMap<Ticket, (Class, Standing)>,
    /// Of heavy queries that run.
    memory_taken: usize,
    next: u64,
}

impl Lane {
    fn new(limits: LaneLimits) -> Self {
        let (line, waited_total) = (BTreeMap::new(), Duration::ZERO);
        Self { limits, running: 0, line, admitted_total: 0, refused_total: 0, waited_total }
    }

    fn is_full(&self) -> bool {
        self.running >= self.limits.running_max
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

impl Lanes {
    /// Empty lanes.
    pub fn new(cheap: LaneLimits, heavy: LaneLimits) -> Self {
        Self {
            cheap: Lane::new(cheap),
            heavy: Lane::new(heavy),
            running: HashMap::new(),
            standings: HashMap::new(),
            memory_taken: 0,
            next: 1,
        }
    }

    fn lane(&self, class: Class) -> &Lane {
        match class {
            Class::Cheap => &self.cheap,
            Class::Heavy => &self.heavy,
        }
    }

    fn lane_mut(&mut self, class: Class) -> &mut Lane {
        match class {
            Class::Cheap => &mut self.cheap,
            Class::Heavy => &mut self.heavy,
        }
    }

    /// Puts somebody into his line; [`admit`](Self::admit) says whether he may run. Fails if the line, or his role's
    /// part of it, is full and he would have to wait.
    pub fn enter(&mut self, wanted: Wanted, now: Duration, memory_bytes: usize) -> Result<Ticket, Full> {
        self.move_slow_ones(now);
        let class = wanted.class;
        let lane = self.lane(class);
        let ticket = Ticket(self.next);
        let came = now.as_nanos() as i128 - i128::from(wanted.priority) * PRIORITY_WORTH.as_nanos() as i128;
        // Of those before him only who waits for memory keeps him waiting, too.
        let mut before = lane.line.range(..(came, ticket)).map(|(_, (other, _))| self.obstacle(other, memory_bytes));
        let waits =
            self.obstacle(&wanted, memory_bytes).is_some() || before.any(|reason| reason == Some(Reason::Memory));
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
        self.lane_mut(class).line.insert((came, ticket), (wanted, now));
        self.standings.insert(ticket, (class, (came, ticket)));
        Ok(ticket)
    }

    /// Lets in whoever may run now, cheap ones first. `memory_bytes` is what all heavy queries together may be expected
    /// to reserve.
    pub fn admit(&mut self, now: Duration, memory_bytes: usize) -> Vec<Ticket> {
        self.move_slow_ones(now);
        let mut admitted = Vec::new();
        for class in [Class::Cheap, Class::Heavy] {
            while let Some(standing) = self.next_of(class, memory_bytes) {
                let lane = self.lane_mut(class);
                let Some((wanted, since)) = lane.line.remove(&standing) else { break };
                lane.running += 1;
                lane.admitted_total += 1;
                lane.waited_total += now.saturating_sub(since);
                let memory_bytes = if class == Class::Heavy { wanted.memory_bytes } else { 0 };
                self.memory_taken = self.memory_taken.saturating_add(memory_bytes);
                let (_, ticket) = standing;
                self.standings.remove(&ticket);
                self.running.insert(ticket, Running { class, role: wanted.role, memory_bytes, since: now });
                admitted.push(ticket);
            }
        }
        admitted
    }

    /// The first in line who may run.
    fn next_of(&self, class: Class, memory_bytes: usize) -> Option<Standing> {
        for (standing, (wanted, _)) in &self.lane(class).line {
            match self.obstacle(wanted, memory_bytes) {
                None => return Some(*standing),
                Some(Reason::Role { .. }) => {}
                // Whoever comes after him could only take what he waits for.
                Some(Reason::Lane { .. } | Reason::Memory) => return None,
            }
        }
        None
    }

    /// What keeps somebody from running, if he is the first in line.
    fn obstacle(&self, wanted: &Wanted, memory_bytes: usize) -> Option<Reason> {
        let lane = self.lane(wanted.class);
        if lane.is_full() {
            return Some(Reason::Lane { running: lane.running });
        }
        if let Some(most) = wanted.role_running_max {
            let running = self.running.values().filter(|running| running.role == wanted.role).count();
            if running >= most {
                return Some(Reason::Role { role: wanted.role.clone(), running });
            }
        }
        let fits = self.memory_taken.saturating_add(wanted.memory_bytes) <= memory_bytes;
        (wanted.class == Class::Heavy && lane.running > 0 && !fits).then_some(Reason::Memory)
    }

    fn waiting_of(&self, role: &str) -> usize {
        let of_role = |lane: &Lane| lane.line.values().filter(|(wanted, _)| *wanted.role == *role).count();
        of_role(&self.cheap) + of_role(&self.heavy)
    }

    /// Somebody runs no more, or waits no more.
    pub fn leave(&mut self, ticket: Ticket) {
        if let Some((class, standing)) = self.standings.remove(&ticket) {
            self.lane_mut(class).line.remove(&standing);
        }
        if let Some(running) = self.running.remove(&ticket) {
            self.lane_mut(running.class).running -= 1;
            self.memory_taken -= running.memory_bytes;
        }
    }

    /// Gives the places of cheap queries that run for too long to others, if any wait for one.
    fn move_slow_ones(&mut self, now: Duration) {
        if !self.cheap.is_full() {
            return;
        }
        let slow = |running: &&mut Running| {
            running.class == Class::Cheap && now.saturating_sub(running.since) >= CHEAP_TIME_MAX
        };
        for running in self.running.values_mut().filter(slow) {
            running.class = Class::Heavy;
            self.cheap.running -= 1;
            self.heavy.running += 1;
        }
    }

    /// When it is worth calling [`admit`](Self::admit) again although nobody has left: the next misjudged query gives
    /// its place up then.
    pub fn next_move(&self) -> Option<Duration> {
        if self.cheap.line.is_empty() {
            return None;
        }
        let cheap = self.running.values().filter(|running| running.class == Class::Cheap);
        cheap.map(|running| running.since + CHEAP_TIME_MAX).min()
    }

    /// Where somebody is in line; `None` for one who does not wait.
    pub fn place(&self, ticket: Ticket, memory_bytes: usize) -> Option<Place> {
        let (class, standing) = self.standings.get(&ticket)?;
        let lane = self.lane(*class);
        let (wanted, _) = lane.line.get(standing)?;
        let position = lane.line.range(..=*standing).count();
        // Without an obstacle of his own he is behind one who has one: only memory is such that it may hold one up and
        // not the next.
        let reason = self.obstacle(wanted, memory_bytes).unwrap_or(Reason::Memory);
        Some(Place { class: *class, position, waiting: lane.line.len(), reason })
    }

    /// Everybody in line, in order, cheap ones first, with the time of their coming.
    pub fn waiting(&self, memory_bytes: usize) -> Vec<(Ticket, Place, Duration)> {
        let lines = [&self.cheap, &self.heavy].into_iter().flat_map(|lane| &lane.line);
        let waiting =
            lines.filter_map(|((_, ticket), (_, since))| Some((*ticket, self.place(*ticket, memory_bytes)?, *since)));
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

    fn lanes(cheap: usize, heavy: usize, queue_max: usize) -> Lanes {
        Lanes::new(LaneLimits { running_max: cheap, queue_max }, LaneLimits { running_max: heavy, queue_max })
    }

    fn wanted(class: Class, memory_bytes: usize) -> Wanted {
        let role = "".into();
        Wanted { class, memory_bytes, role, role_running_max: None, role_queue_max: None, priority: 0 }
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Lets somebody in or has him wait.
    fn enter(lanes: &mut Lanes, wanted: Wanted, seconds: f64) -> (Ticket, bool) {
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
        let place = lanes.place(second, MEMORY).unwrap();
        assert_eq!(
            place.to_string(),
            "the query waits, 1 of 1 in the line of heavy queries: one runs, and no more may"
        );
        lanes.leave(first);
        assert_eq!(lanes.admit(at(0.3), MEMORY), [second]);
        assert_eq!(lanes.info(Class::Heavy).waited_total, at(0.2));
        assert_eq!(lanes.place(second, MEMORY), None);
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
        assert_eq!(lanes.place(small, MEMORY).unwrap().reason, Reason::Memory);
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
        let order = lanes.waiting(MEMORY).into_iter().map(|(ticket, ..)| ticket).collect::<Vec<_>>();
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
            lanes.place(second, MEMORY).unwrap().reason.to_string(),
            "one of the role 'a' runs, and no more may"
        );
        let refused = lanes.enter(of_role("a"), at(0.2), MEMORY).unwrap_err();
        assert_eq!(refused, Full::Role { role: "a".into(), waiting: 1 });
        assert!(enter(&mut lanes, of_role("b"), 0.3).1);
        lanes.leave(first);
        assert_eq!(lanes.admit(at(0.4), MEMORY), [second]);
        assert_eq!(lanes.info(Class::Heavy).refused_total, 1);
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
                    let wanted = Wanted {
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
                assert!(lanes.running.values().filter(|running| &*running.role == "a").count() <= 1, "seed {seed}");
                let heavy = lanes.running.values().filter(|running| running.memory_bytes > 0).count();
                assert!(heavy <= 1 || lanes.memory_taken() <= MEMORY, "seed {seed}");
            }
            while !running.is_empty() {
                lanes.leave(running.remove(0));
                let admitted = lanes.admit(at(seconds), MEMORY);
                served += admitted.len();
                running.extend(admitted);
            }
            assert_eq!((served, lanes.waiting(MEMORY).len(), lanes.memory_taken()), (came, 0, 0), "seed {seed}");
        }
    }
}
