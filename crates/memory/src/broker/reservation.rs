//! An operator's part of its query's memory.

use std::sync::Arc;

use diligence_base::limits::MEMORY_BYTES_MIN;
use diligence_base::sync::atomic::Ordering;
use diligence_base::units::display_bytes;
use diligence_base::{Error, Result};

use super::account::{Account, Holder, Kind, QueryMemory, Refused};
use super::{MORE_MEMORY_HINT, OUT_OF_MEMORY, Slack, slack_bytes};

/// A firm reservation of so many bytes may take them out of the slack even if nobody has anything to give back at the
/// moment, and one of more out of its first half; where the budget is one that a database accepts.
const LITTLE_BYTES: usize = 256 << 10;

/// An operator's part of its query's memory. Dropping it gives the bytes back, so what they are for must go before: in
/// a structure it stands behind that, as fields are dropped in their order, and variables in the opposite one.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    holder: Arc<Holder>,
    bytes: usize,
}

impl QueryMemory {
    /// An empty firm reservation for an operator; the name appears in the error when the budget is short.
    pub fn reservation(&self, operator: &'static str) -> Reservation {
        Reservation::new(self.0.clone(), self.0.holder(operator, Kind::Firm))
    }

    /// An empty reservation for what its operator can spill: it must heed [`Reservation::is_asked`] before every batch.
    pub fn revocable(&self, operator: &'static str) -> Reservation {
        Reservation::new(self.0.clone(), self.0.holder(operator, Kind::Revocable))
    }
}

impl Reservation {
    fn new(account: Arc<Account>, holder: Arc<Holder>) -> Self {
        Self { account, holder, bytes: 0 }
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `bytes` more, or fails with an error of kind `Resource` and reserves nothing. A revocable reservation
    /// fails when its operator should spill; a firm one when nobody has anything to give back.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let account = &self.account;
        let take = |beyond| match self.holder.kind {
            Kind::Revocable => account.broker.try_take_to_spill(beyond),
            Kind::Firm | Kind::AtRest => account.broker.try_take(beyond),
        };
        let within = || account.reserve(bytes, account.limit_bytes, take).err();
        let mut refused = within();
        if account.is_spare() {
            // Nobody drops, spills or waits for what no query needs.
            refused.map_or(Ok(()), |refused| Err(self.refusal(bytes, &refused)))?;
            self.hold(bytes);
            return Ok(());
        }
        while matches!(refused, Some(Refused::Budget)) && account.broker.drop_spare_modestly(bytes) {
            refused = within();
        }
        let is_firm = self.holder.kind != Kind::Revocable;
        let others_had = is_firm && matches!(refused, Some(Refused::Budget)) && account.broker.others_have(account);
        if let Some(short) = &refused
            && let Some(slack) = self.slack(bytes, short)
        {
            let within = |slack: Slack| {
                let limit = account.limit_bytes.saturating_add(slack.of(slack_bytes(account.limit_bytes)));
                account.reserve(bytes, limit, |beyond| account.broker.try_take_slack(beyond, slack)).err()
            };
            refused = within(slack);
            let is_query = account.is_query() && account.most_bytes() >= MEMORY_BYTES_MIN;
            if refused.is_some() && is_firm && is_query && account.broker.is_anyone_asked() {
                refused = within(Slack::Twice);
            }
        }
        while is_firm && matches!(refused, Some(Refused::Budget)) && account.broker.drop_charge(bytes) {
            refused = within();
        }
        match refused {
            None => {
                self.hold(bytes);
                Ok(())
            }
            Some(refused) => {
                if matches!(refused, Refused::Budget) {
                    account.broker.count_refusal();
                }
                let error = self.refusal(bytes, &refused);
                Err(if others_had { error.with_code(OUT_OF_MEMORY) } else { error })
            }
        }
    }

    /// Reserves `bytes` more if they are free, or because spare memory is dropped for them, and a little of the budget
    /// is left then. Nobody is asked to give back anything. Fails with kind `Resource` if they are not, and reserves
    /// nothing then.
    pub fn grow_if_free(&mut self, bytes: usize) -> Result<()> {
        let account = &self.account;
        let take = |beyond| account.broker.try_take_modestly(beyond);
        let mut refused = account.reserve(bytes, account.limit_bytes, take).err();
        while matches!(refused, Some(Refused::Budget)) && account.broker.drop_spare(bytes) {
            refused = account.reserve(bytes, account.limit_bytes, take).err();
        }
        refused.map_or(Ok(()), |refused| Err(self.refusal(bytes, &refused)))?;
        self.hold(bytes);
        Ok(())
    }

    /// Memory is short: how much of the slack these bytes may be had out of.
    fn slack(&self, bytes: usize, refused: &Refused) -> Option<Slack> {
        let account = &self.account;
        let broker = &account.broker;
        let revocable = self.holder.kind == Kind::Revocable;
        if matches!(refused, Refused::Budget) && !revocable && account.should_wait(bytes) {
            return None;
        }
        let asked = match refused {
            // Its operator spills.
            Refused::Limit if revocable => false,
            Refused::Limit => account.ask(bytes) || account.is_asked(),
            // One with its fair share spills before others are troubled.
            Refused::Budget if revocable => {
                account.reserved_bytes() + bytes <= broker.fair_share_bytes() && broker.ask(bytes, Some(account))
            }
            Refused::Budget => broker.ask(bytes, None),
        };
        if asked {
            account.owe();
            return Some(Slack::Whole);
        }
        // Nobody has anything to give back just now. To fail for little helps nobody, nor for what is left of the first
        // half of the slack: most often there is more in a moment. Where other queries hold memory of the budget, they
        // give it back when they end, so one step more of the slack may be had.
        let is_accepted = broker.budget_bytes() >= MEMORY_BYTES_MIN;
        let may = is_accepted && !revocable && account.is_query();
        let others_hold = matches!(refused, Refused::Budget) && broker.others_hold(account);
        may.then_some(match (bytes <= LITTLE_BYTES, others_hold) {
            (true, true) => Slack::Twice,
            (true, false) | (false, true) => Slack::Whole,
            (false, false) => Slack::Half,
        })
    }

    /// Reserves `bytes` more, whatever the budget and the limit say: they are held already. Then others are refused.
    pub fn overdraw(&mut self, bytes: usize) {
        let account = &self.account;
        let taken = account.reserve(bytes, usize::MAX, |beyond| {
            account.broker.overdraw(beyond);
            true
        });
        debug_assert!(taken.is_ok());
        self.hold(bytes);
    }

    /// Reserves `bytes` more of what can be given back, as firmly as if it could not: the operator has given back all
    /// that it had, and needs them to go on. Fails as [`grow`](Self::grow) does for a firm one.
    pub fn grow_firm(&mut self, bytes: usize) -> Result<()> {
        let mut firm = Self::new(self.account.clone(), self.account.holder(self.holder.operator, Kind::Firm));
        firm.grow(bytes)?;
        self.absorb(firm);
        Ok(())
    }

    /// Bytes that its query may have, all in all.
    pub fn most_bytes(&self) -> usize {
        self.account.most_bytes()
    }

    /// Whether its query should fail rather than take so many bytes beyond the budget: whoever runs it starts it again
    /// then, as one that waits for a grant.
    pub fn should_wait(&self, bytes: usize) -> bool {
        self.account.should_wait(bytes)
    }

    /// Reserves `bytes` more for what gives back as much or more when it is done, and cannot be put off: buffers of
    /// what is spilled, a step of a scan. Overdraws if they are refused, but not more than a quarter of what the query
    /// may have. Fails with kind `Resource` if that is not enough, or if the query [should wait](Self::should_wait).
    pub fn grow_to_free(&mut self, bytes: usize) -> Result<()> {
        /// The part, as its divisor.
        const PART: usize = 4;
        let Err(error) = self.grow(bytes) else { return Ok(()) };
        if bytes > self.account.most_bytes() / PART || self.should_wait(bytes) {
            return Err(error);
        }
        self.overdraw(bytes);
        Ok(())
    }

    /// Reserves `bytes` more for one row, which cannot be divided: overdraws if they are refused, up to twice what the
    /// query may have. Fails with kind `Resource` if that is not enough, or if the query [should
    /// wait](Self::should_wait).
    pub fn grow_for_one_row(&mut self, bytes: usize) -> Result<()> {
        let Err(error) = self.grow(bytes) else { return Ok(()) };
        if self.should_wait(bytes) {
            return Err(error);
        }
        if self.account.reserved_bytes().saturating_add(bytes) > self.account.most_bytes().saturating_mul(2) {
            return Err(error.context("one row needs more memory than there is"));
        }
        self.overdraw(bytes);
        Ok(())
    }

    /// Gives `bytes` back; all of them if there are fewer.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes == 0 {
            return;
        }
        self.let_go(bytes);
        self.account.release(bytes);
    }

    /// Reserves or gives back until exactly `bytes` are reserved. Fails as [`grow`](Self::grow) does.
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

    /// Whether its operator is to spill, because somebody else needs the memory.
    pub fn is_asked(&self) -> bool {
        self.holder.asked_bytes.load(Ordering::Acquire) > 0
    }

    /// What it reserves now, and later, belongs to a state at rest: see
    /// [`QueryMemory::keep_at_rest`](super::QueryMemory::keep_at_rest).
    pub fn rest(&mut self) {
        self.change_kind(Kind::AtRest);
    }

    /// What it reserves now, and later, is needed to go on.
    pub fn hold_firm(&mut self) {
        self.change_kind(Kind::Firm);
    }

    fn change_kind(&mut self, kind: Kind) {
        let bytes = self.bytes;
        let holder = self.account.holder(self.holder.operator, kind);
        if !Arc::ptr_eq(&holder, &self.holder) {
            self.let_go(bytes);
            self.holder = holder;
            self.hold(bytes);
            // Whoever waits for what was asked of it will not get it.
            self.account.broker.look_again();
        }
    }

    /// Has another account count what is reserved, under another name, whatever its limit is. The bytes stay taken all
    /// the while.
    pub fn move_to(&mut self, memory: &QueryMemory, operator: &'static str) {
        let (account, bytes) = (memory.0.clone(), self.bytes);
        self.let_go(bytes);
        let freed = self.account.forget(bytes);
        let mut unused = 0;
        let moved = account.reserve(bytes, usize::MAX, |beyond| {
            account.broker.overdraw(beyond.saturating_sub(freed));
            unused = freed.saturating_sub(beyond);
            true
        });
        debug_assert!(moved.is_ok());
        account.broker.give_back(unused);
        self.holder = account.holder(operator, Kind::Firm);
        self.account = account;
        self.hold(bytes);
        // Whoever waits for what was asked of it will not get it.
        self.account.broker.look_again();
    }

    /// An empty reservation of the same account, under the same name.
    pub fn sibling(&self) -> Self {
        Self::new(self.account.clone(), self.holder.clone())
    }

    /// A reservation of `bytes` of these (all of them if there are fewer): for a part that goes its own way.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { account: self.account.clone(), holder: self.holder.clone(), bytes }
    }

    /// Takes over what another reservation of the same query holds.
    pub fn absorb(&mut self, mut other: Reservation) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account));
        let bytes = std::mem::take(&mut other.bytes);
        other.holder.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.hold(bytes);
    }

    fn hold(&mut self, bytes: usize) {
        self.holder.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.holder.excused.store(false, Ordering::Relaxed);
        self.bytes += bytes;
    }

    fn let_go(&mut self, bytes: usize) {
        let before = self.holder.bytes.fetch_sub(bytes, Ordering::AcqRel);
        let bytes_or_all = if before == bytes { usize::MAX } else { bytes };
        let give = |asked: usize| (asked > 0).then(|| asked.saturating_sub(bytes_or_all));
        let _ = self.holder.asked_bytes.fetch_update(Ordering::AcqRel, Ordering::Relaxed, give);
        self.bytes -= bytes;
    }

    fn refusal(&self, bytes: usize, refused: &Refused) -> Error {
        let account = &self.account;
        let (bound, bound_bytes) = match refused {
            Refused::Limit => ("the query's own memory limit", account.limit_bytes),
            Refused::Budget => ("the memory budget", account.broker.budget_bytes()),
        };
        Error::resource(format!(
            "not enough memory: {} needs {} more, {} {} already{} and {bound} is {}",
            self.holder.operator,
            display_bytes(bytes),
            account.owner,
            display_bytes(account.reserved_bytes()),
            account.largest_holders(self.holder.operator),
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
