//! Memory: one budget per process, an account per query, a reservation per operator.
//!
//! A reservation is taken *before* bytes are held. If the budget or the query's own limit does not allow it, the caller
//! gets an error of kind `Resource` that ends this one query; nothing else is touched.
//!
//! Invariant: every byte counted in a broker belongs to exactly one live [`Reservation`]; dropping it gives them back.

use std::fmt;
use std::sync::Arc;

use diligence_base::ids::QueryId;
use diligence_base::limits::MEMORY_SHARE_PERCENT;
use diligence_base::{Error, Result};

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What to do when memory is short.
pub(crate) const MORE_MEMORY_HINT: &str = "raise --memory (or SET query_memory), or run fewer queries at once";

/// The budget of a process and how much of it is reserved.
#[derive(Debug)]
pub struct Broker {
    budget_bytes: AtomicUsize,
    reserved_bytes: AtomicUsize,
    refusals_total: AtomicU64,
}

impl Broker {
    /// A broker over `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            budget_bytes: AtomicUsize::new(budget_bytes),
            reserved_bytes: AtomicUsize::new(0),
            refusals_total: AtomicU64::new(0),
        })
    }

    /// The budget in bytes.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// Changes the budget. What is reserved stays reserved, even above the new budget.
    pub fn set_budget_bytes(&self, bytes: usize) {
        self.budget_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes reserved at the moment, by all queries.
    pub fn reserved_bytes(&self) -> usize {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Reservations refused since the start.
    pub fn refusals_total(&self) -> u64 {
        self.refusals_total.load(Ordering::Relaxed)
    }

    /// An account for one query; `limit_bytes` bounds it on top of the budget.
    pub fn account(self: &Arc<Self>, query: QueryId, limit_bytes: Option<usize>) -> QueryMemory {
        self.open(Owner::Query(query), limit_bytes)
    }

    /// The account for the tables in memory.
    pub fn table_account(self: &Arc<Self>) -> QueryMemory {
        self.open(Owner::Tables, None)
    }

    fn open(self: &Arc<Self>, owner: Owner, limit_bytes: Option<usize>) -> QueryMemory {
        QueryMemory(Arc::new(Account {
            broker: self.clone(),
            owner,
            limit_bytes: limit_bytes.unwrap_or(usize::MAX),
            reserved_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
        }))
    }

    fn try_take(&self, bytes: usize) -> Result<(), usize> {
        let budget = self.budget_bytes();
        self.reserved_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|&sum| sum <= budget)
            })
            .map(|_| ())
            .inspect_err(|_| {
                self.refusals_total.fetch_add(1, Ordering::Relaxed);
            })
    }
}

/// The default budget: a share of the memory that the machine, or the container around the process, has.
pub fn default_budget_bytes() -> usize {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    });
    let container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    /// Used where the system tells nothing.
    const FALLBACK_BYTES: u64 = 4 << 30;
    let total = match (machine, container) {
        (Some(machine), Some(container)) => machine.min(container),
        (Some(bytes), None) | (None, Some(bytes)) => bytes,
        (None, None) => FALLBACK_BYTES,
    };
    (total / 100 * MEMORY_SHARE_PERCENT) as usize
}

/// Whose memory an account counts.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Query(QueryId),
    Tables,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Query(query) => write!(f, "{query} holds"),
            Owner::Tables => f.write_str("the tables in memory hold"),
        }
    }
}

#[derive(Debug)]
struct Account {
    broker: Arc<Broker>,
    owner: Owner,
    limit_bytes: usize,
    reserved_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

/// One query's account at the broker, or that of the tables. Clones are the same account.
#[derive(Clone)]
pub struct QueryMemory(Arc<Account>);

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryMemory({} {} bytes)", self.0.owner, self.reserved_bytes())
    }
}

impl QueryMemory {
    /// An empty reservation for an operator; the name appears in the error when the budget is short.
    pub fn reservation(&self, operator: &'static str) -> Reservation {
        Reservation { account: self.0.clone(), operator, bytes: 0 }
    }

    /// Bytes this query has reserved.
    pub fn reserved_bytes(&self) -> usize {
        self.0.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Bytes it may reserve at most: its own limit, or the budget that it shares with others.
    pub fn limit_bytes(&self) -> usize {
        self.0.limit_bytes.min(self.0.broker.budget_bytes())
    }

    /// The most this query has had reserved at once.
    pub fn peak_bytes(&self) -> usize {
        self.0.peak_bytes.load(Ordering::Relaxed)
    }

    /// A query's account without limits, for tests.
    pub fn unbounded() -> Self {
        Broker::new(usize::MAX).account(QueryId(0), None)
    }
}

/// An operator's part of its query's memory. Dropping it gives the bytes back.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    operator: &'static str,
    bytes: usize,
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `bytes` more, or fails with an error of kind `Resource` and reserves nothing.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let account = &self.account;
        let limit = account.limit_bytes;
        let own = account.reserved_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|&sum| sum <= limit)
        });
        let Ok(before) = own else {
            return Err(self.refusal(bytes, "the query's own memory limit", limit));
        };
        if account.broker.try_take(bytes).is_err() {
            account.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(self.refusal(bytes, "the memory budget", account.broker.budget_bytes()));
        }
        account.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }

    /// Reserves `bytes` more, whatever the budget and the limit say: they are held already. Then others are refused.
    pub fn overdraw(&mut self, bytes: usize) {
        let before = self.account.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.account.broker.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.account.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Reserves `bytes` more for one row, which cannot be divided: overdraws if they are refused, up to twice what the query may have.
    pub fn grow_for_one_row(&mut self, bytes: usize) -> Result<()> {
        let Err(error) = self.grow(bytes) else { return Ok(()) };
        let limit = self.account.limit_bytes.min(self.account.broker.budget_bytes());
        if self.account.reserved_bytes.load(Ordering::Relaxed).saturating_add(bytes) > limit.saturating_mul(2) {
            return Err(error.context("one row needs more memory than there is"));
        }
        self.overdraw(bytes);
        Ok(())
    }

    /// Gives `bytes` back; all of them if there are fewer.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.account.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.account.broker.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }

    /// Reserves or gives back until exactly `bytes` are reserved.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes {
            self.grow(bytes - self.bytes)
        } else {
            self.shrink(self.bytes - bytes);
            Ok(())
        }
    }

    /// Reserves exactly what is held: gives back what is too much, and overdraws if it is not enough.
    pub fn settle(&mut self, held_bytes: usize) {
        match held_bytes.checked_sub(self.bytes) {
            Some(more) if self.grow(more).is_err() => self.overdraw(more),
            Some(_) => {}
            None => self.shrink(self.bytes - held_bytes),
        }
    }

    /// An empty reservation of the same account, under the same name.
    pub fn sibling(&self) -> Self {
        Self { account: self.account.clone(), operator: self.operator, bytes: 0 }
    }

    /// Takes over what another reservation of the same query holds.
    pub fn absorb(&mut self, mut other: Reservation) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account));
        self.bytes += std::mem::take(&mut other.bytes);
    }

    fn refusal(&self, bytes: usize, bound: &str, bound_bytes: usize) -> Error {
        Error::resource(format!(
            "not enough memory: {} needs {} more, {} {} already and {bound} is {}",
            self.operator,
            display_bytes(bytes),
            self.account.owner,
            display_bytes(self.account.reserved_bytes.load(Ordering::Relaxed)),
            display_bytes(bound_bytes),
        ))
        .with_hint(MORE_MEMORY_HINT)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// Bytes for people: `17 B`, `3.4 MiB`.
pub fn display_bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use diligence_base::ErrorKind;

    use super::*;

    #[test]
    fn a_refused_reservation_takes_nothing_and_a_dropped_one_gives_back() {
        let broker = Broker::new(1000);
        let memory = broker.account(QueryId(1), Some(800));
        let mut first = memory.reservation("Sort");
        first.grow(700).unwrap();
        assert_eq!(first.grow(200).unwrap_err().kind(), ErrorKind::Resource);
        assert_eq!((memory.reserved_bytes(), broker.reserved_bytes()), (700, 700));
        let other = broker.account(QueryId(2), None);
        let mut second = other.reservation("HashJoin");
        assert!(second.grow(400).unwrap_err().message().contains("budget"));
        assert_eq!((other.reserved_bytes(), broker.refusals_total()), (0, 1));
        second.grow(300).unwrap();
        drop(first);
        assert_eq!((memory.peak_bytes(), broker.reserved_bytes()), (700, 300));
    }

    #[test]
    fn an_overdrawn_account_refuses_until_it_is_given_back() {
        let broker = Broker::new(1000);
        let tables = broker.table_account();
        let mut held = tables.reservation("a table in memory");
        held.overdraw(1500);
        assert_eq!((tables.reserved_bytes(), broker.reserved_bytes()), (1500, 1500));
        let error = tables.reservation("a table in memory").grow(1).unwrap_err();
        assert!(error.message().contains("the tables in memory hold 1.5 KiB already"), "{error}");
        held.shrink(600);
        tables.reservation("a table in memory").grow(100).unwrap();
    }

    #[test]
    fn what_is_held_is_settled_and_one_row_may_have_as_much_again() {
        let broker = Broker::new(1000);
        let memory = broker.account(QueryId(1), Some(600));
        assert_eq!((memory.limit_bytes(), broker.account(QueryId(2), None).limit_bytes()), (600, 1000));
        let mut held = memory.reservation("Aggregate");
        held.settle(700);
        assert_eq!((held.bytes(), memory.reserved_bytes(), broker.reserved_bytes()), (700, 700, 700));
        held.settle(500);
        assert_eq!((held.bytes(), broker.reserved_bytes()), (500, 500));
        held.grow_for_one_row(100).unwrap();
        held.grow_for_one_row(600).unwrap();
        assert_eq!(held.bytes(), 1200);
        assert_eq!(held.grow_for_one_row(1).unwrap_err().kind(), ErrorKind::Resource);
        assert_eq!(held.bytes(), 1200);
    }

    #[test]
    fn an_absorbed_reservation_is_counted_once() {
        let memory = QueryMemory::unbounded();
        let mut first = memory.reservation("Aggregate");
        let mut second = memory.reservation("Aggregate");
        first.grow(10).unwrap();
        second.grow(5).unwrap();
        first.absorb(second);
        assert_eq!((first.bytes(), memory.reserved_bytes()), (15, 15));
        first.resize(4).unwrap();
        assert_eq!(memory.reserved_bytes(), 4);
    }
}
