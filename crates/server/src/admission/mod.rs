//! Which queries run at once, and which wait or are refused.
//!
//! Each query is *cheap* or *heavy*: by what its plan is expected to need, corrected by what the same plan has needed
//! before. Both have a lane of their own ([`lanes`]), so that no cheap query waits for a heavy one. Whoever waits can
//! look where he stands; who would make a line too long is refused at once, with an error that says so. Nothing is
//! dropped silently.
//!
//! Places are for runs. Queries that the engine can answer with one run ([`SharingKey`]) have one place together, so
//! that admission never parts what would go together; and one that finds its answer in memory is cheap.
//!
//! A query whose client does not read is not counted as running after a while: it holds what its operators have
//! reserved, but no worker, and it must not keep others waiting.

pub mod lanes;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diligence_base::limits::{CHEAP_WORK_MAX, QUERY_GRANT_BYTES};
use diligence_base::{Error, ErrorKind, Result};
use diligence_db::{Needs, SharingKey, SharingOffer, Used, WaitingQuery, without_passwords};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::lanes::{Full, LaneInfo, LaneLimits, Lanes, Place, Ticket, Wanted};
use crate::measures::Origin;
use crate::roles::Role;
use crate::spans::Parent;
use crate::sqlstate;

/// Rows that a cheap query touches at most: some ten milliseconds of one worker.
pub const CHEAP_ROWS_MAX: usize = 1_000_000;
/// Bytes that a cheap query reserves at most: what others are sure of before they start.
pub const CHEAP_MEMORY_BYTES_MAX: usize = QUERY_GRANT_BYTES;

/// The part of the memory budget, as its divisor, that heavy queries leave to others.
const MEMORY_LEFT_PART: usize = 8;
/// The part of what heavy queries may take, as its divisor, that one of which only the plan is known is taken for at
/// most.
const GUESS_PART: usize = 4;

/// Bytes of a statement that are listed.
const STATEMENT_BYTES_SHOWN: usize = 2000;

/// What a query costs the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// So little that it need not be thought about.
    Cheap,
    /// More.
    Heavy,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Cheap => "cheap",
            Class::Heavy => "heavy",
        })
    }
}

/// Who asks: one for each session.
#[derive(Debug)]
pub struct Asker {
    /// The user.
    pub user: String,
    /// What he may do.
    pub role: Arc<Role>,
    /// By which door he came.
    pub door: &'static str,
    /// What of his program his statements belong to, if he says so.
    pub parent: Option<Parent>,
    /// His ticket while he waits; 0 while he does not.
    ticket: AtomicU64,
}

impl Asker {
    /// Somebody who does not ask yet, and comes by the door of PostgreSQL's protocol.
    pub fn new(user: &str, role: Arc<Role>) -> Self {
        Self { user: user.to_owned(), role, door: "postgres", parent: None, ticket: AtomicU64::new(0) }
    }

    /// The same, at another door.
    #[must_use]
    pub fn at(self, door: &'static str) -> Self {
        Self { door, ..self }
    }

    /// The same, with statements that belong to something of his.
    #[must_use]
    pub fn under(self, parent: Option<Parent>) -> Self {
        Self { parent, ..self }
    }

    /// Where his statements come from.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin { door: self.door, user: &self.user, parent: self.parent }
    }
}

/// What is known of a query before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its class.
    pub class: Class,
    /// What it will use of workers.
    pub work: Duration,
}

impl Expected {
    /// Of one of which nothing but the plan is known: little, or more than any other.
    pub const fn unknown(class: Class) -> Self {
        let work = match class {
            Class::Cheap => Duration::ZERO,
            Class::Heavy => Duration::MAX,
        };
        Self { class, work }
    }
}

/// A query at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Its text.
    pub statement: &'a str,
    /// Its class, and what it will use of workers.
    pub expected: Expected,
    /// Bytes that it is expected to reserve.
    memory_bytes: usize,
    /// Whether that is by its plan alone.
    is_guess: bool,
    /// Whom it can go with.
    key: Option<SharingKey>,
}

impl<'a> Query<'a> {
    /// A query, by what its plan is expected to need, and by what the same plan used when it ran last: if that is
    /// known, it decides.
    pub fn new(statement: &'a str, expected: Needs, used: Option<Used>) -> Self {
        let (is_quick, memory_bytes) = match used {
            Some(used) => (used.worked <= CHEAP_WORK_MAX, used.memory_bytes),
            None => (expected.rows <= CHEAP_ROWS_MAX, expected.memory_bytes),
        };
        let is_cheap = is_quick && memory_bytes <= CHEAP_MEMORY_BYTES_MAX;
        let class = if is_cheap { Class::Cheap } else { Class::Heavy };
        let expected = used.map_or(Expected::unknown(class), |used| Expected { class, work: used.worked });
        Self { statement, expected, memory_bytes, is_guess: used.is_none(), key: None }
    }

    /// The same query, by what it can share with others: if nothing is left to be run for it, it is cheap.
    #[must_use]
    pub fn offered(mut self, offer: Option<SharingOffer>) -> Self {
        if offer.as_ref().is_some_and(|offer| offer.is_kept) {
            self.expected = Expected::unknown(Class::Cheap);
        }
        self.key = offer.map(|offer| offer.key);
        self
    }

    /// Bytes that are counted as taken while it runs, where heavy queries together may take `most`. A guess errs
    /// towards more, and what does not fit goes to temp space: one guess must not keep all others waiting.
    fn memory_counted(&self, most: usize) -> usize {
        if self.is_guess { self.memory_bytes.min(most / GUESS_PART) } else { self.memory_bytes }
    }
}

/// How admission is set up.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionOptions {
    /// Places for cheap queries; those that go together need one.
    pub cheap_max: usize,
    /// Places for heavy queries.
    pub heavy_max: usize,
    /// Queries that wait in each line.
    pub queue_max: usize,
}

/// The door to the engine.
pub struct Admission {
    state: Mutex<AdmissionState>,
    /// What the engine's budget is at the moment.
    budget_bytes: Box<dyn Fn() -> usize + Send + Sync>,
    began: Instant,
}

struct AdmissionState {
    lanes: Lanes<SharingKey>,
    waiting: HashMap<Ticket, Waiting>,
    /// Those who have been let in, and have not left.
    inside: HashMap<Ticket, Inside>,
}

struct Inside {
    user: String,
    /// Whether somebody wants him to end, since before his query had a number.
    is_unwanted: bool,
}

struct Waiting {
    told: oneshot::Sender<Told>,
    user: String,
    statement: String,
}

/// What one who waits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// He may run.
    Enter,
    /// Somebody wants him to wait no more.
    Leave,
}

/// What somebody went through at the door.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The query's class.
    pub class: Class,
    /// Where he stood when he came, if he had to wait.
    pub place: Option<Place>,
    /// How long he waited.
    pub waited: Duration,
}

/// The right to run, as long as it lives.
pub struct Admitted {
    admission: Arc<Admission>,
    ticket: Ticket,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionInfo {
    /// Of cheap queries.
    pub cheap: LaneInfo,
    /// Of heavy queries.
    pub heavy: LaneInfo,
    /// Bytes that the heavy queries which run are expected to reserve; those that go together, as one.
    pub memory_taken_bytes: usize,
    /// Bytes that they may be expected to reserve.
    pub memory_max_bytes: usize,
}

impl AdmissionInfo {
    /// Of all queries.
    pub fn total(&self) -> LaneInfo {
        let (cheap, heavy) = (self.cheap, self.heavy);
        LaneInfo {
            running: cheap.running + heavy.running,
            running_max: cheap.running_max + heavy.running_max,
            waiting: cheap.waiting + heavy.waiting,
            queue_max: cheap.queue_max + heavy.queue_max,
            admitted_total: cheap.admitted_total + heavy.admitted_total,
            refused_total: cheap.refused_total + heavy.refused_total,
            waited_total: cheap.waited_total + heavy.waited_total,
        }
    }
}

impl Admission {
    /// A door with these limits before an engine with this budget.
    pub fn new(options: AdmissionOptions, budget_bytes: impl Fn() -> usize + Send + Sync + 'static) -> Arc<Self> {
        let limits = |running_max: usize| LaneLimits { running_max: running_max.max(1), queue_max: options.queue_max };
        let lanes = Lanes::new(limits(options.cheap_max), limits(options.heavy_max));
        let state = Mutex::new(AdmissionState { lanes, waiting: HashMap::new(), inside: HashMap::new() });
        Arc::new(Self { state, budget_bytes: Box::new(budget_bytes), began: Instant::now() })
    }

    fn memory_max_bytes(&self) -> usize {
        let budget = (self.budget_bytes)();
        budget - budget / MEMORY_LEFT_PART
    }

    /// Waits until the query may run. Fails at once when too many wait.
    pub async fn enter(self: &Arc<Self>, asker: &Asker, query: &Query<'_>) -> Result<(Admitted, Passed)> {
        let (role, memory) = (&asker.role, self.memory_max_bytes());
        let wanted = Wanted {
            key: query.key.clone(),
            class: query.expected.class,
            memory_bytes: query.memory_counted(memory),
            role: role.name.clone(),
            role_running_max: role.limits.running_max,
            role_queue_max: role.limits.queue_max,
            priority: role.priority,
        };
        let began = Instant::now();
        let (admitted, mut told, place) = {
            let mut state = self.state.lock();
            let now = self.began.elapsed();
            let ticket = state.lanes.enter(wanted, now, memory).map_err(|full| refusal(&full))?;
            let admitted = Admitted { admission: self.clone(), ticket };
            // Others may come in with him: one whose place somebody misjudged had.
            let tickets = state.lanes.admit(now, memory);
            state.tell(&tickets);
            if tickets.contains(&ticket) {
                state.inside.insert(ticket, Inside { user: asker.user.clone(), is_unwanted: false });
                let passed = Passed { class: query.expected.class, place: None, waited: Duration::ZERO };
                return Ok((admitted, passed));
            }
            let (sender, told) = oneshot::channel();
            let shown = (0..=STATEMENT_BYTES_SHOWN.min(query.statement.len()))
                .rev()
                .find(|end| query.statement.is_char_boundary(*end));
            let statement = without_passwords(&query.statement[..shown.unwrap_or(0)]).into_owned();
            state.waiting.insert(ticket, Waiting { told: sender, user: asker.user.clone(), statement });
            (admitted, told, state.lanes.place(ticket, now, memory))
        };
        let _standing = Standing::new(asker, admitted.ticket);
        loop {
            // A query that was taken for cheap gives its place up after a while, and nobody else says when.
            let moves = self.state.lock().lanes.next_move();
            let wait = moves.map(|at| at.saturating_sub(self.began.elapsed()) + Duration::from_millis(1));
            tokio::select! {
                biased;
                told = &mut told => {
                    match told.map_err(|_| Error::bug("admission forgot one who waited"))? {
                        Told::Enter => break,
                        Told::Leave => return Err(Error::cancelled().with_code(sqlstate::CANCELLED)),
                    }
                }
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => self.admit(),
            }
        }
        Ok((admitted, Passed { class: query.expected.class, place, waited: began.elapsed() }))
    }

    /// Lets in whoever may run now.
    fn admit(&self) {
        let memory = self.memory_max_bytes();
        let mut state = self.state.lock();
        let tickets = state.lanes.admit(self.began.elapsed(), memory);
        state.tell(&tickets);
    }

    /// Where somebody stands in line; `None` if he does not wait.
    pub fn place(&self, asker: &Asker) -> Option<Place> {
        let ticket = asker.ticket.load(Ordering::Relaxed);
        if ticket == 0 {
            return None;
        }
        let memory = self.memory_max_bytes();
        self.state.lock().lanes.place(Ticket(ticket), self.began.elapsed(), memory)
    }

    /// Who waits, in order, cheap queries first: users, and what they wait for.
    pub fn waiting(&self) -> Vec<(String, WaitingQuery)> {
        let memory = self.memory_max_bytes();
        let state = self.state.lock();
        let now = self.began.elapsed();
        let rows = state.lanes.waiting(now, memory).into_iter().filter_map(|(ticket, place, since)| {
            let waiting = state.waiting.get(&ticket)?;
            let query = WaitingQuery {
                id: ticket.number(),
                statement: waiting.statement.clone(),
                waited: now.saturating_sub(since),
                position: place.position,
                reason: place.why(),
            };
            Some((waiting.user.clone(), query))
        });
        rows.collect()
    }

    /// Ends somebody's waiting, if his user is one that `may` be touched; of one who has been let in, it is noted that
    /// he should end ([`Admitted::is_unwanted`]). False if there is no such one.
    pub fn cancel(&self, ticket: Ticket, may: impl Fn(&str) -> bool) -> bool {
        let waiting = {
            let mut state = self.state.lock();
            if let Some(inside) = state.inside.get_mut(&ticket).filter(|inside| may(&inside.user)) {
                inside.is_unwanted = true;
                return true;
            }
            if !state.waiting.get(&ticket).is_some_and(|waiting| may(&waiting.user)) {
                return false;
            }
            state.waiting.remove(&ticket)
        };
        // He leaves the line himself; one who is about to has gone.
        waiting.is_some_and(|waiting| waiting.told.send(Told::Leave).is_ok())
    }

    /// The counters now.
    pub fn info(&self) -> AdmissionInfo {
        let memory_max_bytes = self.memory_max_bytes();
        let state = self.state.lock();
        AdmissionInfo {
            cheap: state.lanes.info(Class::Cheap),
            heavy: state.lanes.info(Class::Heavy),
            memory_taken_bytes: state.lanes.memory_taken(),
            memory_max_bytes,
        }
    }
}

impl AdmissionState {
    fn tell(&mut self, tickets: &[Ticket]) {
        for ticket in tickets {
            if let Some(waiting) = self.waiting.remove(ticket) {
                self.inside.insert(*ticket, Inside { user: waiting.user, is_unwanted: false });
                // One who has gone meanwhile gives his place up himself.
                let _ = waiting.told.send(Told::Enter);
            }
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        {
            let mut state = self.admission.state.lock();
            state.lanes.leave(self.ticket);
            state.waiting.remove(&self.ticket);
            state.inside.remove(&self.ticket);
        }
        self.admission.admit();
    }
}

impl Admitted {
    /// What it was known by while it waited.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether somebody has wanted it to end, by its ticket's number.
    pub fn is_unwanted(&self) -> bool {
        self.admission.state.lock().inside.get(&self.ticket).is_some_and(|inside| inside.is_unwanted)
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admitted({})", self.ticket.0)
    }
}

/// Says where somebody can be found in line, as long as he waits.
struct Standing<'a>(&'a Asker);

impl<'a> Standing<'a> {
    fn new(asker: &'a Asker, ticket: Ticket) -> Self {
        asker.ticket.store(ticket.0, Ordering::Relaxed);
        Self(asker)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.ticket.store(0, Ordering::Relaxed);
    }
}

fn refusal(full: &Full) -> Error {
    let (text, hint) = match full {
        Full::Line { class, running, waiting } => (
            format!("{running} {class} queries run and {waiting} wait: no more are taken"),
            "try again in a moment; the server's --queue-max says how many may wait",
        ),
        Full::Role { role, waiting } => (
            format!("{waiting} queries of the role '{role}' wait: no more are taken"),
            "try again in a moment; the role's queue_max says how many may wait",
        ),
    };
    Error::new(ErrorKind::Retry, text).with_code(sqlstate::TOO_MANY).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(cheap_max: usize, heavy_max: usize, queue_max: usize) -> Arc<Admission> {
        Admission::new(AdmissionOptions { cheap_max, heavy_max, queue_max }, || 8000)
    }

    fn asker() -> Arc<Asker> {
        Arc::new(Asker::new("ann", Arc::new(Role::none(false))))
    }

    const HEAVY: Query<'_> = of("SELECT heavy", Class::Heavy);
    const CHEAP: Query<'_> = of("SELECT 1", Class::Cheap);

    const fn of(statement: &str, class: Class) -> Query<'_> {
        Query { statement, expected: Expected::unknown(class), memory_bytes: 0, is_guess: true, key: None }
    }

    async fn until_waiting(admission: &Admission, count: usize) {
        while admission.info().heavy.waiting != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_comes_when_too_many_wait_is_refused_and_the_others_get_in() {
        let admission = admission(1, 1, 1);
        let (first, passed) = admission.enter(&asker(), &HEAVY).await.unwrap();
        assert!(passed.place.is_none());
        let waiter = asker();
        let second = tokio::spawn({
            let (admission, waiter) = (admission.clone(), waiter.clone());
            async move { admission.enter(&waiter, &HEAVY).await }
        });
        until_waiting(&admission, 1).await;
        assert_eq!(admission.place(&waiter).unwrap().position, 1);
        let listed = admission.waiting();
        assert_eq!((listed.len(), listed[0].0.as_str(), listed[0].1.statement.as_str()), (1, "ann", "SELECT heavy"));
        let refused = admission.enter(&asker(), &HEAVY).await.unwrap_err();
        assert_eq!(sqlstate::of(&refused), "53300");
        let cheap = admission.enter(&asker(), &CHEAP).await.unwrap();
        drop(first);
        let (second, passed) = second.await.unwrap().unwrap();
        assert_eq!(passed.place.unwrap().position, 1);
        assert!(admission.place(&waiter).is_none());
        drop((second, cheap));
        let info = admission.info();
        assert_eq!((info.heavy.running, info.heavy.waiting), (0, 0));
        assert_eq!((info.heavy.admitted_total, info.heavy.refused_total, info.cheap.admitted_total), (2, 1, 1));
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_the_line() {
        let admission = admission(1, 1, 9);
        let first = admission.enter(&asker(), &HEAVY).await.unwrap();
        let give_up = tokio::spawn({
            let admission = admission.clone();
            async move { admission.enter(&asker(), &HEAVY).await }
        });
        until_waiting(&admission, 1).await;
        give_up.abort();
        assert!(give_up.await.unwrap_err().is_cancelled());
        assert_eq!(admission.info().heavy.waiting, 0);
        drop(first);
        assert!(admission.enter(&asker(), &HEAVY).await.is_ok());
    }

    #[tokio::test]
    async fn one_who_waits_can_be_sent_away_by_his_number() {
        let admission = admission(1, 1, 9);
        let first = admission.enter(&asker(), &HEAVY).await.unwrap();
        let second = tokio::spawn({
            let admission = admission.clone();
            async move { admission.enter(&asker(), &HEAVY).await }
        });
        until_waiting(&admission, 1).await;
        let number = admission.waiting()[0].1.id;
        let ticket = Ticket::numbered(number).unwrap();
        assert_eq!((number < 0, Ticket::numbered(7)), (true, None));
        assert!(!admission.cancel(ticket, |user| user == "bob") && !admission.cancel(Ticket(99), |_| true));
        assert!(admission.cancel(ticket, |user| user == "ann") && !admission.cancel(ticket, |_| true));
        assert_eq!(sqlstate::of(&second.await.unwrap().unwrap_err()), "57014");
        let info = admission.info();
        assert_eq!((info.heavy.running, info.heavy.waiting, info.heavy.admitted_total), (1, 0, 1));
        let (first, _) = first;
        let ticket = first.ticket();
        assert!(!admission.cancel(ticket, |user| user == "bob") && !first.is_unwanted());
        assert!(admission.cancel(ticket, |user| user == "ann") && first.is_unwanted());
        drop(first);
        assert!(!admission.cancel(ticket, |_| true));
    }

    #[tokio::test]
    async fn a_misjudged_query_keeps_cheap_ones_waiting_only_for_a_while() {
        let admission = admission(1, 1, 9);
        let _misjudged = admission.enter(&asker(), &CHEAP).await.unwrap();
        let (_cheap, passed) = admission.enter(&asker(), &CHEAP).await.unwrap();
        assert!(passed.waited >= lanes::CHEAP_TIME_MAX - Duration::from_millis(100), "{passed:?}");
        assert_eq!(admission.info().heavy.running, 1);
    }

    #[test]
    fn classes_follow_the_plan_and_then_what_it_needed() {
        let needs = |rows, memory_bytes| Needs { rows, memory_bytes };
        let used = |memory_bytes, milliseconds| Used { memory_bytes, worked: Duration::from_millis(milliseconds) };
        let of = |expected, before| {
            let query = Query::new("", expected, before);
            (query.expected.class, query.memory_counted(1 << 20))
        };
        assert_eq!(of(needs(10, 10), None), (Class::Cheap, 10));
        assert_eq!(of(needs(CHEAP_ROWS_MAX + 1, 0), None), (Class::Heavy, 0));
        assert_eq!(of(needs(10, CHEAP_MEMORY_BYTES_MAX + 1), None), (Class::Heavy, 1 << 18));
        assert_eq!(of(needs(usize::MAX, usize::MAX), Some(used(100, 5))), (Class::Cheap, 100));
        assert_eq!(of(needs(10, 10), Some(used(100, 5000))), (Class::Heavy, 100));
        assert_eq!(of(needs(10, 10), Some(used(1 << 30, 5))), (Class::Heavy, 1 << 30));
    }
}
