//! One query's memory: its grant, its limit, and what its operators hold.

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_base::ids::QueryId;
use diligence_base::limits::{BATCH_BUDGET_DIVISOR, BATCH_BYTES};
use diligence_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use diligence_base::sync::{Latch, Mutex};
use diligence_base::units::display_bytes;

use super::Broker;
use super::reclaim::{AtRest, Giving, Reclaim};

/// Who in a query has it.
static HOLDERS: Latch = Latch::new("memory holders");

/// What a query has of memory.
static TOTALS: Latch = Latch::new("memory account");

/// The part of the budget, as its divisor, that is little for a query without a grant: what a packet of a sort has for
/// itself, two and three clusters of temp space, is no more.
const LITTLE_DIVISOR: usize = 24;

/// And at most: of larger budgets clusters do not grow.
const LITTLE_BYTES_MAX: usize = 8 << 20;

/// Whose memory an account counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Query(QueryId),
    Tables,
    /// States that are shared: kept for later queries, or read by several at the moment.
    Retained,
    /// Rows that sessions keep: of cursors and of procedures.
    Kept,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Query(query) => write!(f, "{query} holds"),
            Owner::Tables => f.write_str("the tables in memory hold"),
            Owner::Retained => f.write_str("the retained states hold"),
            Owner::Kept => f.write_str("the rows of cursors and procedures hold"),
        }
    }
}

/// Who can free what is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody before it is used up.
    Firm,
    /// The packet that holds it, before its next batch.
    Revocable,
    /// The query, by asking one of its states at rest.
    AtRest,
}

/// What the reservations of one operator hold together.
#[derive(Debug)]
pub(super) struct Holder {
    pub operator: &'static str,
    pub kind: Kind,
    pub bytes: AtomicUsize,
    /// What it is asked to give back of them.
    pub asked_bytes: AtomicUsize,
    /// Of states at rest: they were asked, and have nothing that could be given back. Until more is reserved they are
    /// not asked again.
    pub excused: AtomicBool,
}

/// Who holds memory: a row of `system.memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderInfo {
    /// The query; `None` for the tables in memory, for retained states, and for rows of cursors and procedures.
    pub query: Option<QueryId>,
    /// The operator.
    pub operator: &'static str,
    /// Bytes reserved.
    pub bytes: usize,
    /// Whether they can go to temp space, or be dropped, when somebody else needs them.
    pub is_revocable: bool,
    /// Bytes that it is asked to give back.
    pub asked_bytes: usize,
}

/// What an account has of the budget: the larger of the two, grant and reservations.
#[derive(Debug, Default)]
struct AccountTotals {
    /// What it is sure of: taken from the budget whether it is reserved or not.
    granted_bytes: usize,
    reserved_bytes: usize,
    peak_bytes: usize,
}

impl AccountTotals {
    fn taken_bytes(&self) -> usize {
        self.granted_bytes.max(self.reserved_bytes)
    }
}

#[derive(Debug)]
pub(super) struct Account {
    pub broker: Arc<Broker>,
    pub owner: Owner,
    pub limit_bytes: usize,
    /// Reads and writes may end after their query: so grant and reservations change together.
    totals: Mutex<AccountTotals>,
    admitted: AtomicBool,
    /// Whether its query starts without a grant.
    goes_ahead: AtomicBool,
    /// Whether such a query, if it is refused memory, is started again as one that waits for a grant.
    starts_again: AtomicBool,
    /// Whether a firm reservation was granted out of the slack: then its packets wait until that is paid back.
    owes: AtomicBool,
    holders: Mutex<Vec<Arc<Holder>>>,
    at_rest: AtRest,
}

impl Holder {
    /// What it could give back, beside what it is asked for already.
    fn free_bytes(&self) -> usize {
        match self.kind {
            Kind::Firm => 0,
            _ if self.excused.load(Ordering::Relaxed) => 0,
            _ => self.bytes.load(Ordering::Relaxed).saturating_sub(self.asked_bytes.load(Ordering::Relaxed)),
        }
    }
}

impl Account {
    pub fn new(broker: Arc<Broker>, owner: Owner, limit_bytes: usize) -> Self {
        Self {
            broker,
            owner,
            limit_bytes,
            totals: Mutex::named(&TOTALS, AccountTotals::default()),
            admitted: AtomicBool::new(false),
            goes_ahead: AtomicBool::new(false),
            starts_again: AtomicBool::new(false),
            owes: AtomicBool::new(false),
            holders: Mutex::named(&HOLDERS, Vec::new()),
            at_rest: AtRest::default(),
        }
    }

    pub fn reserved_bytes(&self) -> usize {
        self.totals.lock().reserved_bytes
    }

    /// What it has of the budget, reserved or not.
    pub fn taken_bytes(&self) -> usize {
        self.totals.lock().taken_bytes()
    }

    /// Its limit, or the budget.
    pub fn most_bytes(&self) -> usize {
        self.limit_bytes.min(self.broker.budget_bytes())
    }

    pub fn is_query(&self) -> bool {
        matches!(self.owner, Owner::Query(_))
    }

    pub fn holder(&self, operator: &'static str, kind: Kind) -> Arc<Holder> {
        let mut holders = self.holders.lock();
        let same = |holder: &&Arc<Holder>| holder.operator == operator && holder.kind == kind;
        if let Some(holder) = holders.iter().find(same) {
            return holder.clone();
        }
        let (bytes, asked_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let holder = Arc::new(Holder { operator, kind, bytes, asked_bytes, excused: AtomicBool::new(false) });
        holders.push(holder.clone());
        holder
    }

    /// Whether what it holds is dropped when somebody needs the memory, as far as no query reads it at the moment.
    pub fn is_spare(&self) -> bool {
        matches!(self.owner, Owner::Retained)
    }

    pub fn holders(&self) -> Vec<HolderInfo> {
        let query = match self.owner {
            Owner::Query(query) => Some(query),
            Owner::Tables | Owner::Retained | Owner::Kept => None,
        };
        let holders = self.holders.lock();
        let infos = holders.iter().map(|holder| HolderInfo {
            query,
            operator: holder.operator,
            bytes: holder.bytes.load(Ordering::Relaxed),
            is_revocable: holder.kind != Kind::Firm || self.is_spare(),
            asked_bytes: holder.asked_bytes.load(Ordering::Relaxed),
        });
        infos.filter(|info| info.bytes > 0).collect()
    }

    /// For people: ` (Sort 40.0 MiB, Scan 12.0 MiB)`; nothing if the operator that asks holds it all.
    pub fn largest_holders(&self, asking: &str) -> String {
        const SHOWN: usize = 4;
        let mut holders = self.holders();
        if holders.len() < 2 && holders.iter().all(|holder| holder.operator == asking) {
            return String::new();
        }
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        let shown =
            holders.iter().take(SHOWN).map(|holder| format!("{} {}", holder.operator, display_bytes(holder.bytes)));
        format!(" ({})", shown.collect::<Vec<_>>().join(", "))
    }

    /// What can be given back, asked for or not.
    pub fn returning_bytes(&self) -> usize {
        let holders = self.holders.lock();
        let returning = holders.iter().filter(|holder| holder.kind != Kind::Firm);
        let returning = returning.filter(|holder| !holder.excused.load(Ordering::Relaxed));
        returning.map(|holder| holder.bytes.load(Ordering::Relaxed)).sum()
    }

    /// What could be given back, beside what is asked for already.
    pub fn revocable_bytes(&self) -> usize {
        self.holders.lock().iter().map(|holder| holder.free_bytes()).sum()
    }

    /// Asks the holder that can give back most for `bytes`. False if there is none, or all that there is was asked for
    /// already.
    pub fn ask(&self, bytes: usize) -> bool {
        let kind = {
            let holders = self.holders.lock();
            let Some(largest) = holders.iter().max_by_key(|holder| holder.free_bytes()) else { return false };
            let bytes = bytes.min(largest.free_bytes());
            if bytes == 0 {
                return false;
            }
            largest.asked_bytes.fetch_max(bytes, Ordering::AcqRel);
            largest.kind
        };
        if let Some(giving) = self.at_rest.giving() {
            match kind {
                Kind::AtRest => giving.start_reclaiming(),
                _ => giving.wake_packets(),
            }
        }
        true
    }

    /// What the states at rest are asked to give back.
    pub fn asked_at_rest(&self) -> usize {
        let holders = self.holders.lock();
        let at_rest = holders.iter().filter(|holder| holder.kind == Kind::AtRest);
        at_rest.map(|holder| holder.asked_bytes.load(Ordering::Acquire)).sum()
    }

    /// The states at rest have nothing to give back.
    fn excuse_at_rest(&self) {
        let holders = self.holders.lock();
        let at_rest = holders.iter().filter(|holder| holder.kind == Kind::AtRest);
        at_rest.for_each(|holder| {
            holder.excused.store(true, Ordering::Relaxed);
            holder.asked_bytes.store(0, Ordering::Release);
        });
    }

    pub fn is_asked(&self) -> bool {
        self.holders.lock().iter().any(|holder| holder.asked_bytes.load(Ordering::Acquire) > 0)
    }

    /// Its query gives up its grant, if it has one and its reader rests.
    pub fn rest(&self) {
        if self.admitted.load(Ordering::Acquire)
            && let Some(giving) = self.at_rest.giving()
        {
            giving.rest();
        }
    }

    /// Whether its query, which has no grant and may be started again, is to stand in line for one: it needs so many
    /// bytes more than are free, which is more than a little, and more than others can give back.
    pub fn should_wait(&self, bytes: usize) -> bool {
        let little = (self.broker.budget_bytes() / LITTLE_DIVISOR).min(LITTLE_BYTES_MAX);
        self.starts_again.load(Ordering::Relaxed)
            && self.reserved_bytes().saturating_add(bytes) > little
            && !self.broker.can_be_given_back(bytes)
    }

    /// Takes a grant of so many bytes from the budget, if they are free.
    pub fn grant(&self, bytes: usize) -> bool {
        let mut totals = self.totals.lock();
        let granted = self.broker.try_grant(bytes.saturating_sub(totals.taken_bytes()));
        if granted {
            totals.granted_bytes = totals.granted_bytes.max(bytes);
        }
        granted
    }

    /// Gives up the grant; what is reserved stays reserved. False if it has not been admitted.
    pub fn end_grant(&self) -> bool {
        let unused = {
            let mut totals = self.totals.lock();
            let before = totals.taken_bytes();
            totals.granted_bytes = 0;
            before - totals.taken_bytes()
        };
        self.broker.give_back(unused);
        let was_admitted = self.admitted.swap(false, Ordering::AcqRel);
        if was_admitted {
            self.broker.count_out();
        }
        was_admitted
    }

    /// Whether its query was admitted and has not ended.
    pub fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Notes that it was admitted.
    pub fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
    }

    /// Counts `bytes` as reserved if the limit allows them and `take` takes those that the grant does not cover.
    pub fn reserve(&self, bytes: usize, limit: usize, take: impl FnOnce(usize) -> bool) -> Result<(), Refused> {
        let mut totals = self.totals.lock();
        let reserved = totals.reserved_bytes.checked_add(bytes).filter(|&sum| sum <= limit).ok_or(Refused::Limit)?;
        if !take(reserved.saturating_sub(totals.taken_bytes())) {
            return Err(Refused::Budget);
        }
        totals.reserved_bytes = reserved;
        totals.peak_bytes = totals.peak_bytes.max(reserved);
        Ok(())
    }

    pub fn release(&self, bytes: usize) {
        self.broker.give_back(self.forget(bytes));
    }

    /// Counts `bytes` less as reserved. Returns how many of the budget's nobody accounts for then.
    pub fn forget(&self, bytes: usize) -> usize {
        let mut totals = self.totals.lock();
        let before = totals.taken_bytes();
        totals.reserved_bytes -= bytes;
        before - totals.taken_bytes()
    }

    /// Its packets are to wait until no more than the budget is taken.
    pub fn owe(&self) {
        self.owes.store(true, Ordering::Release);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let _ = self.end_grant();
    }
}

/// Why bytes cannot be reserved.
pub(super) enum Refused {
    /// The query's own limit.
    Limit,
    /// The budget.
    Budget,
}

/// One query's account at the broker, or that of the tables. Clones are the same account.
#[derive(Clone)]
pub struct QueryMemory(pub(super) Arc<Account>);

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryMemory({} {} bytes)", self.0.owner, self.reserved_bytes())
    }
}

impl QueryMemory {
    /// Notes a state at rest, whose bytes are reserved with [`Reservation::rest`](super::Reservation::rest): when
    /// memory is short, it is asked to give back, as long as somebody keeps it.
    pub fn keep_at_rest(&self, state: &Arc<dyn Reclaim>) {
        self.0.at_rest.keep(state);
    }

    /// Says who sees to it that the query gives back when it is asked.
    pub fn set_giving(&self, giving: Arc<dyn Giving>) {
        self.0.at_rest.set_giving(giving);
    }

    /// Whether the query is asked to give memory back.
    pub fn is_asked(&self) -> bool {
        self.0.is_asked()
    }

    /// Whether a state at rest is asked to give back.
    pub fn is_reclaiming(&self) -> bool {
        self.0.asked_at_rest() > 0
    }

    /// Has the state at rest that can give back most do some of what is asked. Ready with true when nothing is asked
    /// any more. Fails if that state does: then the query ends.
    pub fn poll_reclaim(&self, waker: &Waker) -> Poll<Result<bool>> {
        let asked = self.0.asked_at_rest();
        if asked == 0 {
            return Poll::Ready(Ok(true));
        }
        let Some(largest) = self.0.at_rest.largest() else {
            // Whoever waits for it need not any more.
            self.0.excuse_at_rest();
            self.0.broker.wake_packets();
            return Poll::Ready(Ok(true));
        };
        largest.poll_reclaim(asked, waker).map_ok(|()| false)
    }

    /// Whether more is taken than the budget has.
    pub fn is_overdrawn(&self) -> bool {
        self.0.broker.is_short()
    }

    /// Bytes that one of its operators has reserved.
    pub fn held_by(&self, operator: &str) -> usize {
        let holders = self.0.holders.lock();
        let own = holders.iter().filter(|holder| holder.operator == operator);
        own.map(|holder| holder.bytes.load(Ordering::Acquire)).sum()
    }

    /// Bytes this query has reserved.
    pub fn reserved_bytes(&self) -> usize {
        self.0.reserved_bytes()
    }

    /// Bytes it may reserve at most: its own limit, or the budget that it shares with others.
    pub fn limit_bytes(&self) -> usize {
        self.0.most_bytes()
    }

    /// Bytes that it can count on when all queries want everything: a part of the budget, or its own limit.
    pub fn share_bytes(&self) -> usize {
        self.0.broker.fair_share_bytes().min(self.limit_bytes())
    }

    /// Bytes that one of its batches should have at most: several are on their way at once, and are not reserved.
    pub fn batch_bytes(&self) -> usize {
        (self.limit_bytes() / BATCH_BUDGET_DIVISOR).clamp(*BATCH_BYTES.start(), *BATCH_BYTES.end())
    }

    /// The most this query has had reserved at once.
    pub fn peak_bytes(&self) -> usize {
        self.0.totals.lock().peak_bytes
    }

    /// The query does not stand in the queue for a grant: it takes what it needs as it goes. If whoever runs it starts
    /// it again where it is refused memory, as one that waits, it is refused rather than that much is taken beyond the
    /// budget which nobody can give back.
    pub fn go_ahead(&self, starts_again: bool) {
        self.0.starts_again.store(starts_again, Ordering::Relaxed);
        self.0.goes_ahead.store(true, Ordering::Relaxed);
    }

    /// Ready when the query has its grant of `bytes` (what may be granted of the budget if that is less; whatever is
    /// free if no other query runs). Until then it stands in a queue, and the waker is woken when it is worth asking
    /// again.
    pub fn poll_admit(&self, bytes: usize, waker: &Waker) -> Poll<()> {
        match self.0.owner {
            Owner::Query(_) if self.0.goes_ahead.load(Ordering::Relaxed) => Poll::Ready(()),
            Owner::Query(query) => {
                let bytes = bytes.min(self.0.limit_bytes);
                self.0.broker.poll_admit(&self.0, query, bytes, waker)
            }
            Owner::Tables | Owner::Retained | Owner::Kept => Poll::Ready(()),
        }
    }

    /// The query cannot go on before it is admitted anew: others may have what it was sure of and has not reserved.
    /// False if it was not admitted.
    pub fn pause(&self) -> bool {
        self.0.end_grant()
    }

    /// If a query waits to be admitted, has all others give up what they were sure of whose readers rest. False if none
    /// waits.
    pub fn have_others_rest(&self) -> bool {
        self.0.broker.have_others_rest(&self.0)
    }

    /// A source of the query has given a batch.
    pub fn note_batch(&self) {
        self.0.broker.note_batch();
    }

    /// Batches that the sources of all queries have given: who is refused memory may hope for some as long as there are
    /// more of them.
    pub fn batches_total(&self) -> u64 {
        self.0.broker.batches_total()
    }

    /// Gives up waiting to be admitted.
    pub fn leave_queue(&self) {
        if let Owner::Query(query) = self.0.owner {
            self.0.broker.leave_queue(query);
        }
    }

    /// The query has ended, and its operators hold nothing any more: others may have its grant.
    pub fn end_grant(&self) {
        let _ = self.0.end_grant();
    }

    /// Ready unless a state at rest, of this query or another, is giving memory back; then the waker is woken when it
    /// has.
    pub fn poll_reclaimed(&self, waker: &Waker) -> Poll<()> {
        let broker = &self.0.broker;
        if !broker.is_reclaiming() {
            return Poll::Ready(());
        }
        broker.wait_for_bytes(waker);
        // What came back before the waker was noted woke nobody.
        if broker.is_reclaiming() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Ready unless the query owes memory and somebody else is to give it back. A packet asks before each batch.
    pub fn poll_room(&self, waker: &Waker) -> Poll<()> {
        if !self.0.owes.load(Ordering::Acquire) || self.0.is_asked() {
            return Poll::Ready(());
        }
        let ready = self.0.broker.poll_room(waker);
        if ready.is_ready() {
            self.0.owes.store(false, Ordering::Release);
        } else if self.0.is_asked() {
            // Asked between the two looks: then nobody wakes it.
            return Poll::Ready(());
        }
        ready
    }

    /// A query's account without limits, for tests.
    pub fn unbounded() -> Self {
        Broker::new(usize::MAX).account(QueryId(0), None)
    }
}
