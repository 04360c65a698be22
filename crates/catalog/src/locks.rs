//! Locks: rows, keys and tables that a transaction has to itself until it ends, and numbers that mean something to
//! applications (advisory locks).
//!
//! Readers take none. A statement that changes rows takes what it needs at once, or nothing: where another owner has
//! something of it, the statement fails with [`MUST_WAIT`], its owner is in the queue, and the session starts it anew
//! when it is its turn ([`LockWait`]). So no thread of the engine ever waits for a lock.
//!
//! ```text
//!   take ──▶ taken ──▶ … ──▶ release: of all that wait for one thing, the first goes on, and the others wait for it
//!     └────▶ in the queue of the owner that has it; an error, if that one waits for us (a deadlock)
//! ```
//! What the first to go on has not taken when its statement has ended, the next may try to ([`Locks::advance`]). Those
//! that may have a thing beside each other all go on at once.
//!
//! A key that rows of other tables refer to has a lock of its own: who brings such a row *keeps* it, and who takes it
//! away has it *gone*. Rows get other numbers when they change; their keys are what foreign keys are about.
//!
//! A transaction whose changes are in the log, but not where a crash leaves them, still has its locks; other
//! transactions pass them ([`Locks::settle`]), as they can be kept only after it. So those that want one row wait for
//! each other's statements, not for the disk ("pre-committed" transactions: DeWitt and others, *Implementation
//! Techniques for Main Memory Database Systems*, SIGMOD 1984).
//!
//! What a transaction has taken behind a savepoint is free when it goes back to it ([`savepoints`]).

mod numbers;
mod savepoints;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use parking_lot::Mutex;

use self::numbers::NumberSet;
pub use self::savepoints::LockMark;
use self::savepoints::{Holders, Marks, is_same_hold};
use crate::position::LogPosition;

/// Who has locks: a transaction, or a session outside of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(u64);

impl LockOwner {
    /// Its number, as `pg_locks` shows it.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// How a row is locked: PostgreSQL's four ways, from the weakest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowLock {
    /// Nobody deletes the row or changes its key.
    KeyShare,
    /// Nobody changes the row.
    Share,
    /// Nobody else changes or locks the row, but `KeyShare`.
    NoKeyUpdate,
    /// Nobody else has any lock on the row.
    Update,
}

impl RowLock {
    const ALL: [Self; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// As `pg_locks` has it.
    fn name(self) -> &'static str {
        match self {
            Self::KeyShare => "AccessShareLock",
            Self::Share => "RowShareLock",
            Self::NoKeyUpdate => "ExclusiveLock",
            Self::Update => "AccessExclusiveLock",
        }
    }

    /// Whether two owners cannot have both.
    fn excludes(self, other: Self) -> bool {
        let (weaker, stronger) = (self.min(other), self.max(other));
        stronger == Self::Update || stronger == Self::NoKeyUpdate && weaker >= Self::Share
    }
}

/// How a table is locked: PostgreSQL's eight ways, from the weakest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableLock {
    /// ACCESS SHARE.
    AccessShare,
    /// ROW SHARE: of SELECT … FOR UPDATE.
    RowShare,
    /// ROW EXCLUSIVE: of statements that change rows.
    RowExclusive,
    /// SHARE UPDATE EXCLUSIVE.
    ShareUpdateExclusive,
    /// SHARE.
    Share,
    /// SHARE ROW EXCLUSIVE.
    ShareRowExclusive,
    /// EXCLUSIVE.
    Exclusive,
    /// ACCESS EXCLUSIVE.
    AccessExclusive,
}

impl TableLock {
    #[cfg(test)]
    const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// As `pg_locks` and LOCK TABLE have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessShare => "AccessShareLock",
            Self::RowShare => "RowShareLock",
            Self::RowExclusive => "RowExclusiveLock",
            Self::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Self::Share => "ShareLock",
            Self::ShareRowExclusive => "ShareRowExclusiveLock",
            Self::Exclusive => "ExclusiveLock",
            Self::AccessExclusive => "AccessExclusiveLock",
        }
    }

    /// Whether two owners cannot have both (PostgreSQL's table of conflicts).
    fn excludes(self, other: Self) -> bool {
        let least = match self {
            Self::AccessShare => Self::AccessExclusive,
            Self::RowShare => Self::Exclusive,
            Self::RowExclusive => Self::Share,
            Self::ShareUpdateExclusive => Self::ShareUpdateExclusive,
            Self::Share => return other >= Self::RowExclusive && other != Self::Share,
            Self::ShareRowExclusive => Self::RowExclusive,
            Self::Exclusive => Self::RowShare,
            Self::AccessExclusive => Self::AccessShare,
        };
        other >= least
    }
}

/// A number that applications lock: one of 64 bits, or two of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdvisoryKey {
    /// One number.
    One(i64),
    /// Two numbers.
    Two(i32, i32),
}

/// How such a number is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// Whether others may have it in the same way.
    pub is_shared: bool,
    /// Whether it stays when the transaction ends, until it is given back or the session ends.
    pub is_lasting: bool,
}

/// What a statement takes of one table.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest<'a> {
    /// The table.
    pub table: ObjectId,
    /// How the table itself is locked.
    pub mode: TableLock,
    /// The numbers of rows, ascending.
    pub rows: &'a [i64],
    /// How they are locked.
    pub row_mode: RowLock,
    /// Whether they go, for good or for others that take their places.
    pub rows_go: bool,
    /// The hashes of keys that come, ascending.
    pub keys: &'a [u64],
    /// The hashes of keys that rows of other tables come to refer to, ascending. Several owners may have one.
    pub kept: &'a [u64],
    /// The hashes of keys that others may refer to and that go, ascending.
    pub gone: &'a [u64],
    /// Whether locks are passed of transactions whose changes are in the log. Who passes them has to see the changes.
    pub may_pass: bool,
}

impl LockRequest<'_> {
    /// The table in some way, and nothing in it.
    pub fn of_table(table: ObjectId, mode: TableLock, may_pass: bool) -> Self {
        let (row_mode, rows_go) = (RowLock::KeyShare, false);
        Self { table, mode, rows: &[], row_mode, rows_go, keys: &[], kept: &[], gone: &[], may_pass }
    }

    /// Whether several owners may have a thing of it in the same way.
    fn is_shared(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Table(_) => !self.mode.excludes(self.mode),
            Wanted::Row(..) => !self.row_mode.excludes(self.row_mode),
            Wanted::Kept(..) => true,
            Wanted::Key(..) | Wanted::Gone(..) | Wanted::Advisory(_) => false,
        }
    }
}

/// One thing that two want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Table(ObjectId),
    Row(ObjectId, i64),
    Key(ObjectId, u64),
    /// A key that is to stay, and that another owner takes away.
    Kept(ObjectId, u64),
    /// A key that is to go, and that another owner keeps.
    Gone(ObjectId, u64),
    Advisory(AdvisoryKey),
}

impl Wanted {
    fn table(self) -> Option<ObjectId> {
        match self {
            Self::Table(table)
            | Self::Row(table, _)
            | Self::Key(table, _)
            | Self::Kept(table, _)
            | Self::Gone(table, _) => Some(table),
            Self::Advisory(_) => None,
        }
    }
}

/// Stands for the names of what is made: the hash of each is a key of it.
pub(crate) const NAMES: ObjectId = ObjectId(u64::MAX);

/// All locks of a database.
#[derive(Debug, Default)]
pub struct Locks {
    owners: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tables: HashMap<ObjectId, Holders>,
    /// The tables of which an owner has something.
    of_owners: HashMap<LockOwner, HashSet<ObjectId>>,
    advisory: BTreeMap<AdvisoryKey, Vec<AdvisoryHold>>,
    /// At most one for each owner.
    waiting: BTreeMap<LockOwner, Waiting>,
    /// Owners whose changes are in the log, and where.
    settling: HashMap<LockOwner, LogPosition>,
    /// Of owners that have made some.
    marks: HashMap<LockOwner, Marks>,
    next_ticket: u64,
}

/// What an owner has of a table.
#[derive(Debug, Default)]
struct Held {
    modes: Vec<TableLock>,
    /// By [`RowLock`]: those that stay, then those that go.
    rows: [NumberSet; 2 * RowLock::ALL.len()],
    keys: NumberSet,
    kept: NumberSet,
    gone: NumberSet,
}

#[derive(Debug)]
struct AdvisoryHold {
    owner: LockOwner,
    is_shared: bool,
    /// Whether it stays when the transaction ends.
    is_lasting: bool,
    /// Behind which mark it was taken; 0 for one that stays.
    layer: u64,
    /// How often it is to be given back.
    count: usize,
}

/// What an owner waits for, and how.
struct Want {
    wanted: Wanted,
    may_pass: bool,
    is_shared: bool,
}

/// An owner that waits.
#[derive(Debug)]
struct Waiting {
    /// For whom.
    behind: LockOwner,
    /// For what.
    wanted: Wanted,
    /// Whether that one does not have it, but is before us in the queue.
    is_follower: bool,
    /// Whether it passes the locks of one whose changes are in the log.
    may_pass: bool,
    /// Whether others may have what it wants beside it.
    is_shared: bool,
    /// Who came first.
    ticket: u64,
    waker: Option<Waker>,
    /// Why it does not wait any longer, without having its turn.
    given_up: Option<GivenUp>,
}

/// Why an owner waits no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It has waited as long as it may.
    TimeOver,
    /// Somebody cancelled its statement.
    Cancelled,
}

/// Rows as numbers of a set.
fn unsigned(numbers: &[i64]) -> Vec<u64> {
    numbers.iter().map(|number| number.cast_unsigned()).collect()
}

/// A lock that somebody has or waits for, as `pg_locks` shows it.
#[derive(Clone, Debug)]
pub struct ShownLock {
    /// Who.
    pub owner: LockOwner,
    /// `relation`, `tuple`, `key` or `advisory`. Locks of keys keep others from adding rows that have them.
    pub kind: &'static str,
    /// Of which table.
    pub table: Option<ObjectId>,
    /// Of which number.
    pub advisory: Option<AdvisoryKey>,
    /// How.
    pub mode: String,
    /// How many rows or keys.
    pub count: usize,
    /// Whether the owner has it.
    pub is_granted: bool,
    /// Whom it waits for.
    pub behind: Option<LockOwner>,
}

impl Locks {
    /// An owner that has nothing yet.
    pub fn new_owner(&self) -> LockOwner {
        LockOwner(self.owners.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Takes all of a request, or nothing. Gives the place in the log up to which the owner has to see changes, as it
    /// has passed their locks; 0 if it has passed none. Fails with code [`MUST_WAIT`] if another owner has something of
    /// it; then the owner is in the queue until its [`LockWait`] is dropped. Fails with code 40P01 if the other one
    /// waits for this one.
    pub fn take(&self, owner: LockOwner, request: &LockRequest<'_>) -> Result<LogPosition> {
        let mut state = self.state.lock();
        match state.conflict(owner, request) {
            Ok(passed) => {
                state.add(owner, request);
                Ok(passed)
            }
            Err((other, wanted)) => {
                let is_shared = request.is_shared(wanted);
                Err(state.queue(owner, other, Want { wanted, may_pass: request.may_pass, is_shared }))
            }
        }
    }

    /// As [`take`](Self::take), without waiting: `None` if something of it was not free.
    pub fn try_take(&self, owner: LockOwner, request: &LockRequest<'_>) -> Option<LogPosition> {
        let mut state = self.state.lock();
        let passed = state.conflict(owner, request).ok()?;
        state.add(owner, request);
        Some(passed)
    }

    /// Whether another owner has a row that goes.
    pub fn goes(&self, owner: LockOwner, table: ObjectId, row: i64) -> bool {
        self.state.lock().taker(owner, table, row).is_some()
    }

    /// Has the owner wait for another one that has one of these rows, which go; it takes nothing. Gives the place in
    /// the log up to which it has to see changes, where it passes them. Fails as [`take`](Self::take) does.
    pub fn wait_for_going(
        &self,
        owner: LockOwner,
        table: ObjectId,
        rows: &[i64],
        may_pass: bool,
    ) -> Result<LogPosition> {
        let mut state = self.state.lock();
        let mut passed = 0;
        for row in rows {
            let Some(other) = state.taker(owner, table, *row) else { continue };
            match state.settling.get(&other).filter(|_| may_pass) {
                Some(position) => passed = passed.max(*position),
                None => {
                    let wanted = Wanted::Row(table, *row);
                    return Err(state.queue(owner, other, Want { wanted, may_pass, is_shared: true }));
                }
            }
        }
        Ok(passed)
    }

    /// The owner's changes are in the log: others that may pass its locks go on, and see the changes.
    pub fn settle(&self, owner: LockOwner, position: LogPosition) {
        let mut state = self.state.lock();
        state.settling.insert(owner, position);
        // Who came first for a thing goes first.
        let mut first = HashMap::<Wanted, (u64, bool)>::new();
        for waiting in state.waiting.values().filter(|waiting| waiting.behind == owner) {
            let (ticket, may_pass) = first.entry(waiting.wanted).or_insert((waiting.ticket, waiting.may_pass));
            if waiting.ticket < *ticket {
                (*ticket, *may_pass) = (waiting.ticket, waiting.may_pass);
            }
        }
        state.wake(owner, |wanted| first.get(&wanted).is_some_and(|(_, may_pass)| *may_pass));
    }

    /// Takes a number that applications lock. Fails as [`take`](Self::take) does.
    pub fn take_advisory(&self, owner: LockOwner, key: AdvisoryKey, way: AdvisoryLock) -> Result<()> {
        let mut state = self.state.lock();
        match state.advisory_conflict(owner, key, way.is_shared) {
            None => {
                state.add_advisory(owner, key, way);
                Ok(())
            }
            Some(other) => {
                let wanted = Wanted::Advisory(key);
                Err(state.queue(owner, other, Want { wanted, may_pass: false, is_shared: way.is_shared }))
            }
        }
    }

    /// As [`take_advisory`](Self::take_advisory), without waiting: whether it was taken.
    pub fn try_advisory(&self, owner: LockOwner, key: AdvisoryKey, way: AdvisoryLock) -> bool {
        let mut state = self.state.lock();
        let is_free = state.advisory_conflict(owner, key, way.is_shared).is_none();
        if is_free {
            state.add_advisory(owner, key, way);
        }
        is_free
    }

    /// Gives back once such a number that stays; whether the owner had it.
    pub fn release_advisory(&self, owner: LockOwner, key: AdvisoryKey, is_shared: bool) -> bool {
        let mut state = self.state.lock();
        let Some(holds) = state.advisory.get_mut(&key) else { return false };
        let is_it = |hold: &AdvisoryHold| hold.owner == owner && hold.is_shared == is_shared && hold.is_lasting;
        let Some(place) = holds.iter().position(is_it) else { return false };
        holds[place].count -= 1;
        if holds[place].count == 0 {
            holds.swap_remove(place);
            if holds.is_empty() {
                state.advisory.remove(&key);
            }
            state.wake(owner, |wanted| wanted == Wanted::Advisory(key));
        }
        true
    }

    /// The owner has ended: all that it has is free, and it waits for nothing.
    pub fn release(&self, owner: LockOwner) {
        let mut state = self.state.lock();
        state.waiting.remove(&owner);
        state.settling.remove(&owner);
        state.marks.remove(&owner);
        state.release_tables(owner);
        state.advisory.retain(|_, holds| {
            holds.retain(|hold| hold.owner != owner);
            !holds.is_empty()
        });
        state.wake(owner, |_| true);
    }

    /// A statement of an owner outside of a transaction has ended, or waits from now on: what it has is free.
    pub fn end_statement(&self, owner: LockOwner) {
        self.state.lock().end(owner);
    }

    /// The owner's transaction has ended: all is free that it has, but numbers that stay.
    pub fn end_transaction(&self, owner: LockOwner) {
        let mut state = self.state.lock();
        state.waiting.remove(&owner);
        state.end(owner);
    }

    /// Whether anybody else has something of a table.
    pub fn has_others(&self, owner: LockOwner, table: ObjectId) -> bool {
        let state = self.state.lock();
        state.tables.get(&table).is_some_and(|holders| holders.keys().any(|(other, _)| *other != owner))
    }

    /// Whether anybody else keeps a key of a table.
    pub fn has_keepers(&self, owner: LockOwner, table: ObjectId) -> bool {
        let state = self.state.lock();
        let mut holders = state.tables.get(&table).into_iter().flatten();
        holders.any(|((other, _), held)| *other != owner && !held.kept.is_empty())
    }

    /// Gives back what the owner has of tables; it waits for what it waits for.
    pub fn give_back(&self, owner: LockOwner) {
        let mut state = self.state.lock();
        state.release_tables(owner);
        state.wake(owner, |wanted| wanted.table().is_some());
    }

    /// Gives back all numbers of the owner that stay.
    pub fn release_all_advisory(&self, owner: LockOwner) {
        let mut state = self.state.lock();
        state.advisory.retain(|_, holds| {
            holds.retain(|hold| hold.owner != owner || !hold.is_lasting);
            !holds.is_empty()
        });
        state.wake(owner, |wanted| matches!(wanted, Wanted::Advisory(_)));
    }

    /// A statement of the owner that had waited has ended: who is behind it for something that it has not taken goes
    /// on.
    pub fn advance(&self, owner: LockOwner) {
        let mut state = self.state.lock();
        let has = state.of_owners.get(&owner).cloned().unwrap_or_default();
        state.wake(owner, |wanted| wanted.table().is_some_and(|table| !has.contains(&table)));
    }

    /// What the owner waits for, since a request of it failed; `None` if nothing.
    pub fn wait(self: &Arc<Self>, owner: LockOwner) -> Option<LockWait> {
        let ticket = self.state.lock().waiting.get(&owner)?.ticket;
        Some(LockWait { locks: self.clone(), owner, ticket })
    }

    /// All locks, and who waits.
    pub fn shown(&self) -> Vec<ShownLock> {
        let state = self.state.lock();
        let mut shown = Vec::new();
        for (table, holders) in state.tables.iter().filter(|(table, _)| **table != NAMES) {
            let first_of_table = shown.len();
            for ((owner, _), held) in holders {
                let granted = |kind, mode: String, count| ShownLock {
                    owner: *owner,
                    kind,
                    table: Some(*table),
                    advisory: None,
                    mode,
                    count,
                    is_granted: true,
                    behind: None,
                };
                shown.extend(held.modes.iter().map(|mode| granted("relation", mode.name().to_owned(), 1)));
                let rows = RowLock::ALL.iter().cycle().zip(&held.rows);
                for (mode, rows) in rows.filter(|(_, rows)| !rows.is_empty()) {
                    shown.push(granted("tuple", mode.name().to_owned(), rows.len()));
                }
                let keys =
                    [(&held.keys, "ExclusiveLock"), (&held.kept, "ShareLock"), (&held.gone, "AccessExclusiveLock")];
                for (keys, mode) in keys.into_iter().filter(|(keys, _)| !keys.is_empty()) {
                    shown.push(granted("key", mode.to_owned(), keys.len()));
                }
            }
            join_layers(&mut shown, first_of_table);
        }
        let advisory_mode = |is_shared| if is_shared { "ShareLock" } else { "ExclusiveLock" }.to_owned();
        for (key, holds) in &state.advisory {
            shown.extend(holds.iter().map(|hold| ShownLock {
                owner: hold.owner,
                kind: "advisory",
                table: None,
                advisory: Some(*key),
                mode: advisory_mode(hold.is_shared),
                count: hold.count,
                is_granted: true,
                behind: None,
            }));
        }
        for (owner, waiting) in &state.waiting {
            let (kind, advisory) = match waiting.wanted {
                Wanted::Table(_) => ("relation", None),
                Wanted::Row(..) => ("tuple", None),
                Wanted::Key(..) | Wanted::Kept(..) | Wanted::Gone(..) => ("key", None),
                Wanted::Advisory(key) => ("advisory", Some(key)),
            };
            let (table, behind) = (waiting.wanted.table().filter(|table| *table != NAMES), Some(waiting.behind));
            let mode = "ExclusiveLock".to_owned();
            shown.push(ShownLock { owner: *owner, kind, table, advisory, mode, count: 1, is_granted: false, behind });
        }
        shown
    }
}

impl Held {
    /// What it has of another owner's request, whose rows are these; `None` if nothing.
    fn excludes(&self, request: &LockRequest<'_>, rows: &[u64]) -> Option<Wanted> {
        let table = request.table;
        if self.modes.iter().any(|mode| mode.excludes(request.mode)) {
            return Some(Wanted::Table(table));
        }
        let kinds = RowLock::ALL.iter().cycle().zip(&self.rows);
        let mut kinds = kinds.filter(|(mode, _)| mode.excludes(request.row_mode));
        let row = kinds.find_map(|(_, held)| held.first_of(rows));
        let row = row.map(|row| Wanted::Row(table, row.cast_signed()));
        row.or_else(|| self.keys.first_of(request.keys).map(|key| Wanted::Key(table, key)))
            .or_else(|| self.gone.first_of(request.kept).map(|key| Wanted::Kept(table, key)))
            .or_else(|| self.kept.first_of(request.gone).map(|key| Wanted::Gone(table, key)))
    }
}

impl State {
    /// The place in the log of the last owner whose locks a request passes; or another owner that has something of it,
    /// and what.
    fn conflict(
        &self,
        owner: LockOwner,
        request: &LockRequest<'_>,
    ) -> std::result::Result<LogPosition, (LockOwner, Wanted)> {
        let mut passed = 0;
        let Some(holders) = self.tables.get(&request.table) else { return Ok(passed) };
        let rows = unsigned(request.rows);
        for ((other, _), held) in holders.iter().filter(|((other, _), _)| *other != owner) {
            let Some(wanted) = held.excludes(request, &rows) else { continue };
            match self.settling.get(other).filter(|_| request.may_pass) {
                Some(position) => passed = passed.max(*position),
                None => return Err((*other, wanted)),
            }
        }
        Ok(passed)
    }

    /// Another owner that has a row which goes.
    fn taker(&self, owner: LockOwner, table: ObjectId, row: i64) -> Option<LockOwner> {
        let mut others = self.tables.get(&table)?.iter().filter(|((other, _), _)| *other != owner);
        let goes = |held: &Held| held.rows[RowLock::ALL.len()..].iter().any(|rows| rows.has(row.cast_unsigned()));
        others.find(|(_, held)| goes(held)).map(|((other, _), _)| *other)
    }

    fn add(&mut self, owner: LockOwner, request: &LockRequest<'_>) {
        self.of_owners.entry(owner).or_default().insert(request.table);
        let layer = self.layer_used(owner);
        let held = self.tables.entry(request.table).or_default().entry((owner, layer)).or_default();
        if !held.modes.contains(&request.mode) {
            held.modes.push(request.mode);
        }
        let kind = request.row_mode as usize + if request.rows_go { RowLock::ALL.len() } else { 0 };
        held.rows[kind].add(unsigned(request.rows));
        held.keys.add(request.keys.to_vec());
        held.kept.add(request.kept.to_vec());
        held.gone.add(request.gone.to_vec());
    }

    fn advisory_conflict(&self, owner: LockOwner, key: AdvisoryKey, is_shared: bool) -> Option<LockOwner> {
        let mut others = self.advisory.get(&key)?.iter().filter(|hold| hold.owner != owner);
        others.find(|hold| !is_shared || !hold.is_shared).map(|hold| hold.owner)
    }

    fn add_advisory(&mut self, owner: LockOwner, key: AdvisoryKey, way: AdvisoryLock) {
        let AdvisoryLock { is_shared, is_lasting } = way;
        let layer = if is_lasting { 0 } else { self.layer_of_number(owner) };
        let new = AdvisoryHold { owner, is_shared, is_lasting, layer, count: 1 };
        let holds = self.advisory.entry(key).or_default();
        match holds.iter_mut().find(|hold| is_same_hold(hold, &new)) {
            Some(hold) => hold.count += 1,
            None => holds.push(new),
        }
    }

    /// All that an owner has is free, but numbers that stay; it waits for what it waits for.
    fn end(&mut self, owner: LockOwner) {
        self.settling.remove(&owner);
        self.marks.remove(&owner);
        let mut freed = HashSet::new();
        self.advisory.retain(|key, holds| {
            let before = holds.len();
            holds.retain(|hold| hold.owner != owner || hold.is_lasting);
            if holds.len() < before {
                freed.insert(*key);
            }
            !holds.is_empty()
        });
        self.release_tables(owner);
        self.wake(owner, |wanted| match wanted {
            Wanted::Advisory(key) => freed.contains(&key),
            _ => true,
        });
    }

    fn release_tables(&mut self, owner: LockOwner) {
        self.free_layers(owner, 0);
    }

    /// Puts an owner into the queue behind another one; the error that says so.
    fn queue(&mut self, owner: LockOwner, other: LockOwner, want: Want) -> Error {
        let Want { wanted, may_pass, is_shared } = want;
        // Along the chain of those that wait for each other. Who only follows another one can go on instead.
        let (mut at, mut follower) = (other, None);
        while let Some(waiting) = self.waiting.get(&at) {
            if waiting.is_follower {
                follower = follower.or(Some(at));
            }
            at = waiting.behind;
            if at == owner {
                match follower {
                    Some(follower) => self.wake_one(follower),
                    None => return deadlock(),
                }
                break;
            }
        }
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let (is_follower, waker, given_up) = (false, None, None);
        let waiting = Waiting { behind: other, wanted, is_follower, may_pass, is_shared, ticket, waker, given_up };
        self.waiting.insert(owner, waiting);
        busy()
    }

    fn wake_one(&mut self, owner: LockOwner) {
        if let Some(waker) = self.waiting.remove(&owner).and_then(|waiting| waiting.waker) {
            waker.wake();
        }
    }

    /// Of those behind an owner for one thing the first goes on, and the others are behind that one from now on, but
    /// those that may have it beside others.
    fn wake(&mut self, owner: LockOwner, is_free: impl Fn(Wanted) -> bool) {
        let behind = self.waiting.iter().filter(|(_, waiting)| waiting.behind == owner && is_free(waiting.wanted));
        let mut behind = behind.map(|(owner, waiting)| (waiting.ticket, *owner, waiting.wanted)).collect::<Vec<_>>();
        behind.sort_unstable_by_key(|(ticket, ..)| *ticket);
        let mut first = HashMap::new();
        for (_, waiter, wanted) in behind {
            match first.get(&wanted) {
                None => {
                    first.insert(wanted, waiter);
                    self.wake_one(waiter);
                }
                Some(first) => match self.waiting.get_mut(&waiter) {
                    Some(waiting) if waiting.is_shared => self.wake_one(waiter),
                    Some(waiting) => (waiting.behind, waiting.is_follower) = (*first, true),
                    None => {}
                },
            }
        }
    }
}

/// The turn of an owner that waits: a future that is ready when it may try again. Dropped, the owner waits no more.
#[derive(Debug)]
pub struct LockWait {
    locks: Arc<Locks>,
    owner: LockOwner,
    ticket: u64,
}

impl LockWait {
    /// Whether it is still not the owner's turn.
    pub fn is_waiting(&self) -> bool {
        let state = self.locks.state.lock();
        let waiting = state.waiting.get(&self.owner).filter(|waiting| waiting.ticket == self.ticket);
        waiting.is_some_and(|waiting| waiting.given_up.is_none())
    }

    /// What ends the waiting from elsewhere.
    pub fn ender(&self) -> WaitEnder {
        WaitEnder { locks: self.locks.clone(), owner: self.owner, ticket: self.ticket }
    }
}

/// Ends one waiting from anywhere: a timer, a cancel.
#[derive(Clone, Debug)]
pub struct WaitEnder {
    locks: Arc<Locks>,
    owner: LockOwner,
    ticket: u64,
}

impl WaitEnder {
    /// The owner waits no more, if it still does.
    pub fn end(&self, why: GivenUp) {
        let mut state = self.locks.state.lock();
        if let Some(waiting) = state.waiting.get_mut(&self.owner).filter(|waiting| waiting.ticket == self.ticket) {
            waiting.given_up = Some(why);
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Future for LockWait {
    /// Fails with code 55P03 if its time was over, and with kind `Cancelled`.
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = self.locks.state.lock();
        match state.waiting.get_mut(&self.owner).filter(|waiting| waiting.ticket == self.ticket) {
            None => Poll::Ready(Ok(())),
            Some(Waiting { given_up: Some(GivenUp::TimeOver), .. }) => {
                let error = Error::input("canceling statement due to lock timeout");
                Poll::Ready(Err(error.with_code(LOCK_NOT_AVAILABLE)))
            }
            Some(Waiting { given_up: Some(GivenUp::Cancelled), .. }) => Poll::Ready(Err(Error::cancelled())),
            Some(waiting) => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        if state.waiting.get(&self.owner).is_some_and(|waiting| waiting.ticket == self.ticket) {
            state.waiting.remove(&self.owner);
            // Those that followed it wait for nothing that anybody has.
            state.wake(self.owner, |_| true);
        }
    }
}

/// The SQLSTATE of a lock that another owner has, and for which the statement may not wait.
pub const LOCK_NOT_AVAILABLE: &str = "55P03";
/// The code of a request whose owner is in the queue. Nobody sees it: the session waits, or says the one above.
pub const MUST_WAIT: &str = "must wait";

fn busy() -> Error {
    let error = Error::input("another transaction has changed or locked what the statement would change");
    error.with_code(MUST_WAIT).with_hint("run the statement again when that transaction has ended")
}

/// Makes one of the locks that an owner has of a table in the same way, from a place on.
fn join_layers(shown: &mut Vec<ShownLock>, from: usize) {
    let mut joined = Vec::<ShownLock>::new();
    for lock in shown.drain(from..) {
        let is_it =
            |other: &&mut ShownLock| (other.owner, other.kind, &other.mode) == (lock.owner, lock.kind, &lock.mode);
        match joined.iter_mut().find(is_it) {
            Some(other) if lock.kind == "relation" => other.count = 1,
            Some(other) => other.count += lock.count,
            None => joined.push(lock),
        }
    }
    shown.append(&mut joined);
}

fn deadlock() -> Error {
    let error = Error::input("deadlock detected").with_code("40P01");
    error.with_detail("The transaction would wait for another one that waits for it.").with_hint("run it again")
}

#[cfg(test)]
mod tests;
