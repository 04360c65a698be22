//! The budget of a process: who has how much of it, who waits for more, who is asked to give back.

/// Who waits for memory.
static WAITING: Latch = Latch::new("memory waiting");

/// All queries that have memory.
static ACCOUNTS: Latch = Latch::new("memory accounts");

mod account;
mod reclaim;
mod reservation;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use diligence_base::ids::QueryId;
use diligence_base::limits::MEMORY_BYTES_MIN;
use diligence_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use diligence_base::sync::{Latch, Mutex};

use account::{Account, Owner};

pub use account::{HolderInfo, QueryMemory};
pub use reclaim::{Giving, Reclaim};
pub use reservation::Reservation;

/// What to do when memory is short.
pub const MORE_MEMORY_HINT: &str = "raise --memory (or SET query_memory), or run fewer queries at once";

/// The code of an error that says that a firm reservation was refused while other queries had memory: the same may be
/// done when they have ended.
pub const OUT_OF_MEMORY: &str = "53200";

/// A grant of more than this part of the budget, as its divisor, is bounded by what can come back.
const LARGE_GRANT_DIVISOR: usize = 2;

/// The part of the budget, as its divisor, that firm reservations may take above it while somebody gives back: much
/// less than what the budget leaves free on the machine, and enough for some batches of every packet.
const SLACK_DIVISOR: usize = 32;
/// The same for small budgets: what the packets of a query need at once does not shrink with the budget, and a process
/// has more than this beside its budget.
const SLACK_BYTES_MIN: usize = 16 << 20;
/// But of budgets smaller than that not more than this part, as its divisor.
const SMALL_SLACK_DIVISOR: usize = 4;

/// What is left of a budget by whoever takes modestly, as its divisor.
const LEFT_DIVISOR: usize = 20;
/// And at most: many short queries need no more.
const LEFT_BYTES_MAX: usize = 64 << 20;

/// The part of the budget, as its divisor, that no grant takes: a query that goes ahead without one finds it, however
/// many others hold grants that they do not use, as those do whose clients read slowly.
const UNGRANTED_DIVISOR: usize = 8;

/// How much of the slack a reservation may be had out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slack {
    Half,
    Whole,
    /// Of a firm one while somebody gives back: all packets may need theirs within one batch, and wait before their
    /// next. And of a little one while other queries hold memory.
    Twice,
}

impl Slack {
    /// So much of a slack of so many bytes.
    pub fn of(self, bytes: usize) -> usize {
        match self {
            Slack::Half => bytes / 2,
            Slack::Whole => bytes,
            Slack::Twice => bytes.saturating_mul(2),
        }
    }
}

/// What firm reservations may take above a budget while somebody gives back.
fn slack_bytes(budget: usize) -> usize {
    let least = if budget >= SLACK_BYTES_MIN { SLACK_BYTES_MIN } else { budget / SMALL_SLACK_DIVISOR };
    (budget / SLACK_DIVISOR).max(least)
}

/// The budget of a process and how much of it is reserved.
#[derive(Debug)]
pub struct Broker {
    budget_bytes: AtomicUsize,
    /// Reserved, and granted without being reserved yet.
    taken_bytes: AtomicUsize,
    /// What the process holds beside what is reserved, as far as it is charged: see [`charge`](Self::charge). Part of
    /// what is taken.
    charged_bytes: Mutex<usize>,
    /// Batches that sources have given, of all queries.
    batches_total: AtomicU64,
    refusals_total: AtomicU64,
    asks_total: AtomicU64,
    waits_total: AtomicU64,
    /// Queries that are admitted and have not ended.
    admitted: AtomicUsize,
    accounts: Mutex<Vec<Weak<Account>>>,
    /// In the order in which they are asked.
    spare: Mutex<Vec<Weak<dyn Reclaim>>>,
    waiting: Mutex<Waiting>,
    /// How many wait, to be looked at without the lock.
    waiting_count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Queries that are not admitted yet, in the order of their coming.
    admissions: VecDeque<(QueryId, Waker)>,
    /// Packets that wait until no more than the budget is taken.
    packets: Vec<Waker>,
}

impl Broker {
    /// A broker over `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            budget_bytes: AtomicUsize::new(budget_bytes),
            taken_bytes: AtomicUsize::new(0),
            charged_bytes: Mutex::new(0),
            batches_total: AtomicU64::new(0),
            refusals_total: AtomicU64::new(0),
            asks_total: AtomicU64::new(0),
            waits_total: AtomicU64::new(0),
            admitted: AtomicUsize::new(0),
            accounts: Mutex::named(&ACCOUNTS, Vec::new()),
            spare: Mutex::default(),
            waiting: Mutex::named(&WAITING, Waiting::default()),
            waiting_count: AtomicUsize::new(0),
        })
    }

    /// The budget in bytes.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// Changes the budget. What is reserved stays reserved, even above the new budget; but what is spare is dropped.
    pub fn set_budget_bytes(&self, bytes: usize) {
        self.budget_bytes.store(bytes, Ordering::Relaxed);
        self.drop_spare(0);
        self.look_again();
    }

    /// Bytes reserved at the moment, by all queries.
    pub fn reserved_bytes(&self) -> usize {
        self.accounts().iter().map(|account| account.reserved_bytes()).sum()
    }

    /// Bytes of the budget that are taken at the moment: reserved, or granted to queries that have not reserved them
    /// yet.
    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Acquire)
    }

    /// Reservations refused since the start.
    pub fn refusals_total(&self) -> u64 {
        self.refusals_total.load(Ordering::Relaxed)
    }

    /// How often somebody was asked to give memory back, since the start.
    pub fn asks_total(&self) -> u64 {
        self.asks_total.load(Ordering::Relaxed)
    }

    /// How often a packet or a query had to wait for memory, since the start.
    pub fn waits_total(&self) -> u64 {
        self.waits_total.load(Ordering::Relaxed)
    }

    /// Queries that wait to be admitted, first come first.
    pub fn queue(&self) -> Vec<QueryId> {
        self.waiting.lock().admissions.iter().map(|(query, _)| *query).collect()
    }

    /// Who holds what: by query, or the tables, and by operator; and what is [charged](Self::charge).
    pub fn holders(&self) -> Vec<HolderInfo> {
        let bytes = *self.charged_bytes.lock();
        let charged = HolderInfo { query: None, operator: "Allocator", bytes, is_revocable: true, asked_bytes: 0 };
        let holders = self.accounts().into_iter().flat_map(|account| account.holders());
        holders.chain((bytes > 0).then_some(charged)).collect()
    }

    /// Takes so many bytes of the budget, no more and no less than that, for what the process holds beside what is
    /// reserved: blocks of the allocator of which only a part is used. Others give back for it as for anybody; but no
    /// firm reservation is refused because of it.
    pub fn charge(&self, bytes: usize) {
        let before = {
            let mut charged = self.charged_bytes.lock();
            self.overdraw(bytes.saturating_sub(*charged));
            std::mem::replace(&mut *charged, bytes)
        };
        self.give_back(before.saturating_sub(bytes));
        if bytes > before {
            self.drop_spare(0);
            let short = self.taken_bytes().saturating_sub(self.budget_bytes());
            if short > 0 {
                self.ask(short, None);
            }
        }
    }

    /// Gives up what is charged, if there is room for so many bytes then. False if that is not so, or nothing is
    /// charged.
    fn drop_charge(&self, bytes: usize) -> bool {
        let charged = {
            let mut charged = self.charged_bytes.lock();
            let left = self.taken_bytes().saturating_sub(*charged);
            if *charged == 0 || left.saturating_add(bytes) > self.budget_bytes() {
                return false;
            }
            std::mem::take(&mut *charged)
        };
        self.give_back(charged);
        true
    }

    /// An account for one query; `limit_bytes` bounds it on top of the budget. It has no grant before it is admitted.
    pub fn account(self: &Arc<Self>, query: QueryId, limit_bytes: Option<usize>) -> QueryMemory {
        self.open(Owner::Query(query), limit_bytes)
    }

    /// The account for the tables in memory.
    pub fn table_account(self: &Arc<Self>) -> QueryMemory {
        self.open(Owner::Tables, None)
    }

    /// The account for states that are shared. Nobody is ever asked for what it holds: what no query reads is
    /// [spare](Self::add_spare), the rest is bounded by those who share it.
    pub fn retained_account(self: &Arc<Self>) -> QueryMemory {
        self.open(Owner::Retained, None)
    }

    /// The account for rows that sessions keep: of cursors and of procedures.
    pub fn kept_account(self: &Arc<Self>) -> QueryMemory {
        self.open(Owner::Kept, None)
    }

    /// Says what holds memory that no query needs. Whoever is short has it dropped, at once, before anybody is asked,
    /// spills, waits or is refused; what was noted first goes last. It must give back without waiting, and reserve
    /// nothing itself while it is locked.
    pub fn add_spare(&self, spare: Weak<dyn Reclaim>) {
        self.spare.lock().insert(0, spare);
    }

    /// Whether whoever has more than it needs should not take any of the budget: somebody waits for it, or it is
    /// overdrawn.
    pub fn is_wanted(&self) -> bool {
        self.is_short() || self.waiting_count.load(Ordering::SeqCst) > 0
    }

    /// Has what is spare give back what is missing for `bytes` more. False if there is nothing spare.
    fn drop_spare(&self, bytes: usize) -> bool {
        let missing = || self.taken_bytes().saturating_add(bytes).saturating_sub(self.budget_bytes());
        if missing() == 0 {
            return false;
        }
        let spare = self.spare.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let mut has_dropped = false;
        for spare in spare {
            let missing = missing();
            if missing > 0 {
                // Also told if it has nothing: it is not to begin to hold anything now.
                let has_some = spare.reclaimable_bytes() > 0;
                let is_done = matches!(spare.poll_reclaim(missing, Waker::noop()), Poll::Ready(Ok(())));
                has_dropped |= has_some && is_done;
            }
        }
        has_dropped
    }

    fn open(self: &Arc<Self>, owner: Owner, limit_bytes: Option<usize>) -> QueryMemory {
        let account = Arc::new(Account::new(self.clone(), owner, limit_bytes.unwrap_or(usize::MAX)));
        let mut accounts = self.accounts.lock();
        accounts.retain(|account| account.strong_count() > 0);
        accounts.push(Arc::downgrade(&account));
        QueryMemory(account)
    }

    fn accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes bytes of the budget, if they are free.
    fn try_take(&self, bytes: usize) -> bool {
        self.take_below(bytes, self.budget_bytes())
    }

    /// Takes bytes for somebody who makes do with less, if they are free and a little is left: so that what comes
    /// unforeseen does not have others give back what they hold.
    fn try_take_modestly(&self, bytes: usize) -> bool {
        let budget = self.budget_bytes();
        self.take_below(bytes, budget - Self::left_bytes(budget))
    }

    /// What is left of a budget by whoever takes modestly.
    fn left_bytes(budget: usize) -> usize {
        (budget / LEFT_DIVISOR).min(LEFT_BYTES_MAX)
    }

    /// Takes bytes for somebody who can spill, if they are free and a little is left for those who cannot: a short
    /// query would wait until others have given back what it needs.
    fn try_take_to_spill(&self, bytes: usize) -> bool {
        self.take_below(bytes, self.spillable_bytes())
    }

    /// What of the budget those may take who can spill.
    pub fn spillable_bytes(&self) -> usize {
        let budget = self.budget_bytes();
        let is_accepted = budget >= MEMORY_BYTES_MIN;
        budget - if is_accepted { Self::left_bytes(budget) } else { 0 }
    }

    /// Has what is spare give back what is missing for `bytes` more that are taken [modestly](Self::try_take_modestly).
    fn drop_spare_modestly(&self, bytes: usize) -> bool {
        self.drop_spare(bytes.saturating_add(Self::left_bytes(self.budget_bytes())))
    }

    /// Takes bytes for a grant, if they are free.
    fn try_grant(&self, bytes: usize) -> bool {
        self.take_below(bytes, self.grantable_bytes())
    }

    /// What all grants together may take of the budget.
    fn grantable_bytes(&self) -> usize {
        let budget = self.budget_bytes();
        budget - budget / UNGRANTED_DIVISOR
    }

    /// What of a grant for this account can be free when all other queries that have been admitted have ended: what
    /// tables, sessions, and queries whose readers rest hold, may not come back for long.
    fn attainable_bytes(&self, bytes: usize, account: &Account) -> usize {
        let bytes = bytes.min(self.grantable_bytes());
        if bytes <= self.budget_bytes() / LARGE_GRANT_DIVISOR {
            return bytes;
        }
        let accounts = self.accounts();
        let others = accounts.iter().filter(|other| !std::ptr::eq(Arc::as_ptr(other), account));
        let stays = others.filter(|other| !other.is_spare() && !other.is_admitted());
        let staying_bytes = stays.map(|other| other.reserved_bytes()).fold(0, usize::saturating_add);
        bytes.min(self.grantable_bytes().saturating_sub(staying_bytes))
    }

    /// Takes bytes of the budget or of so much of the slack above it.
    fn try_take_slack(&self, bytes: usize, slack: Slack) -> bool {
        let budget = self.budget_bytes();
        self.take_below(bytes, budget.saturating_add(slack.of(slack_bytes(budget))))
    }

    fn take_below(&self, bytes: usize, bound: usize) -> bool {
        let taken = self.taken_bytes.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|&sum| sum <= bound)
        });
        taken.is_ok()
    }

    /// Takes bytes that are held already.
    fn overdraw(&self, bytes: usize) {
        self.taken_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.taken_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.look_again();
        }
    }

    fn count_refusal(&self) {
        self.refusals_total.fetch_add(1, Ordering::Relaxed);
    }

    /// A source has given a batch: what was read for it comes back when it is through.
    fn note_batch(&self) {
        self.batches_total.fetch_add(1, Ordering::Relaxed);
    }

    /// Batches that sources have given, of all queries: as long as there are more, memory will come back.
    fn batches_total(&self) -> u64 {
        self.batches_total.load(Ordering::Relaxed)
    }

    /// Whether more is taken than the budget has.
    fn is_short(&self) -> bool {
        self.taken_bytes.load(Ordering::Acquire) > self.budget_bytes()
    }

    /// Asks the account with the most revocable memory for `bytes`; `but` is not asked. False if nobody has any to give
    /// back.
    fn ask(&self, bytes: usize, but: Option<&Account>) -> bool {
        let accounts = self.accounts();
        let others =
            || accounts.iter().filter(|account| but.is_none_or(|but| !std::ptr::eq(Arc::as_ptr(account), but)));
        let Some(largest) = others().max_by_key(|account| account.revocable_bytes()) else { return false };
        let asked = largest.ask(bytes);
        if asked {
            self.asks_total.fetch_add(1, Ordering::Relaxed);
            // It may wait itself, for somebody else.
            self.wake_packets();
        }
        asked || others().any(|account| account.is_asked())
    }

    /// If a query waits to be admitted, has all but this one give up their grants whose readers rest. False if none
    /// waits.
    fn have_others_rest(&self, but: &Account) -> bool {
        if self.waiting_count.load(Ordering::SeqCst) == 0 || self.waiting.lock().admissions.is_empty() {
            return false;
        }
        let accounts = self.accounts();
        accounts.iter().filter(|account| !std::ptr::eq(Arc::as_ptr(account), but)).for_each(|account| account.rest());
        true
    }

    /// What each query can count on when all want everything.
    pub(super) fn fair_share_bytes(&self) -> usize {
        let queries = self.accounts().iter().filter(|account| account.is_query()).count();
        self.budget_bytes() / queries.max(1)
    }

    /// Grants an account `bytes`, which it is sure of from then on, at most what may be granted and what can come back.
    /// Ready if they are free and nobody has waited longer, or if no query is admitted; otherwise the waker is woken
    /// when it is worth asking again.
    fn poll_admit(&self, account: &Account, query: QueryId, bytes: usize, waker: &Waker) -> Poll<()> {
        let bytes = self.attainable_bytes(bytes, account);
        self.drop_spare(bytes + (self.budget_bytes() - self.grantable_bytes()));
        let mut waiting = self.waiting.lock();
        let place = waiting.admissions.iter().position(|(other, _)| *other == query);
        match place {
            Some(place) => waiting.admissions[place].1.clone_from(waker),
            None => waiting.admissions.push_back((query, waker.clone())),
        }
        // Counted before the look at the budget: what comes back after that look wakes the first one.
        self.note_waiting(&waiting);
        let is_first = waiting.admissions.front().is_some_and(|(first, _)| *first == query);
        let alone = || self.admitted.load(Ordering::Acquire) == 0;
        if !is_first || !(account.grant(bytes) || alone()) {
            self.waits_total.fetch_add(u64::from(place.is_none()), Ordering::Relaxed);
            return Poll::Pending;
        }
        account.admit();
        self.admitted.fetch_add(1, Ordering::AcqRel);
        waiting.admissions.pop_front();
        self.note_waiting(&waiting);
        let next = waiting.admissions.front().map(|(_, waker)| waker.clone());
        drop(waiting);
        if let Some(next) = next {
            next.wake();
        }
        Poll::Ready(())
    }

    /// An admitted query has ended.
    fn count_out(&self) {
        self.admitted.fetch_sub(1, Ordering::AcqRel);
        self.look_again();
    }

    /// A query that waits to be admitted is given up.
    fn leave_queue(&self, query: QueryId) {
        let next = {
            let mut waiting = self.waiting.lock();
            waiting.admissions.retain(|(other, _)| *other != query);
            self.note_waiting(&waiting);
            waiting.admissions.front().map(|(_, waker)| waker.clone())
        };
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Ready when no more than the budget is taken, or if nobody has anything to give back: then waiting is of no use.
    fn poll_room(&self, waker: &Waker) -> Poll<()> {
        if !self.is_short() || self.drop_spare(0) && !self.is_short() {
            return Poll::Ready(());
        }
        self.wait_for_bytes(waker);
        // What came back before the waker was noted woke nobody; and whoever was asked may have given all it has.
        let short = self.taken_bytes.load(Ordering::Acquire).saturating_sub(self.budget_bytes());
        if short == 0 || !(self.is_anyone_asked() || self.ask(short, None)) {
            return Poll::Ready(());
        }
        self.waits_total.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }

    /// The waker is woken when bytes have come back and no more than the budget is taken, or when nobody is asked to
    /// give back any more.
    fn wait_for_bytes(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock();
        if !waiting.packets.iter().any(|other| other.will_wake(waker)) {
            waiting.packets.push(waker.clone());
        }
        self.note_waiting(&waiting);
    }

    /// Whether queries other than this one hold memory, which comes back when they end.
    fn others_hold(&self, but: &Account) -> bool {
        let accounts = self.accounts();
        let mut others = accounts.iter().filter(|account| !std::ptr::eq(Arc::as_ptr(account), but));
        others.any(|account| account.is_query() && account.reserved_bytes() > 0)
    }

    /// Whether queries other than this one have memory, or are sure of some.
    fn others_have(&self, but: &Account) -> bool {
        let accounts = self.accounts();
        let mut others = accounts.iter().filter(|account| !std::ptr::eq(Arc::as_ptr(account), but));
        others.any(|account| account.is_query() && account.taken_bytes() > 0)
    }

    /// Whether what is taken beyond the budget, with so many bytes more, is no more than can be given back.
    fn can_be_given_back(&self, bytes: usize) -> bool {
        let beyond = self.taken_bytes().saturating_add(bytes).saturating_sub(self.budget_bytes());
        let returning = self.accounts().iter().map(|account| account.returning_bytes()).fold(0, usize::saturating_add);
        beyond <= returning
    }

    /// Whether a state at rest is asked to give memory back.
    fn is_reclaiming(&self) -> bool {
        self.accounts().iter().any(|account| account.asked_at_rest() > 0)
    }

    /// Whether anybody is asked to give memory back.
    fn is_anyone_asked(&self) -> bool {
        self.accounts().iter().any(|account| account.is_asked())
    }

    fn note_waiting(&self, waiting: &Waiting) {
        self.waiting_count.store(waiting.admissions.len() + waiting.packets.len(), Ordering::SeqCst);
    }

    /// Bytes have come back, or some that were asked for never will: whoever waits looks again.
    fn look_again(&self) {
        if self.waiting_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if !self.is_short() || !self.is_anyone_asked() {
            self.wake_packets();
        }
        let first = self.waiting.lock().admissions.front().map(|(_, waker)| waker.clone());
        if let Some(first) = first {
            first.wake();
        }
    }

    /// Packets that wait for memory look again.
    fn wake_packets(&self) {
        let packets = {
            let mut waiting = self.waiting.lock();
            let packets = std::mem::take(&mut waiting.packets);
            self.note_waiting(&waiting);
            packets
        };
        packets.into_iter().for_each(Waker::wake);
    }
}
