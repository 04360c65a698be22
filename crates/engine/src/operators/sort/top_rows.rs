//! One packet's part of a top-N: keeps the first rows that it has seen and little more.
//!
//! Once a packet holds as many rows as are wanted, the largest of their keys is a *threshold*: no row that is not below
//! it can matter. The lead of the lowest threshold of all packets is shared. So after the first batches almost every
//! row is thrown away by one comparison of numbers, before its payload or even its key is looked at.
//!
//! Where many rows are wanted, or long ones, and memory is short, all that is held goes to a sort; rows below the
//! threshold follow.
//!
//! Invariant: of all rows that were pushed, enough of the smallest are held.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, UInt32Array};
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reservation;

use super::Run;
use super::encoding::KeyEncoder;
use super::gather::{Pick, held_bytes, settle};
use super::keys::Keys;
use super::rows_before::{rows_of, rows_where};
use super::run_builder::{Collected, RunBuilder};
use super::shared::SharedSort;
use crate::batch::{Batch, Selection};
use crate::flow::{Accept, QueryContext, SinkState};
use crate::sync::atomic::Ordering::Relaxed;

/// Blocks that are held before rows are thrown away and blocks put together.
const BLOCKS_MAX: usize = 512;

/// The rows that a packet holds.
pub(super) struct TopRows {
    shared: Arc<SharedSort>,
    /// Rows wanted.
    wanted: usize,
    keys: Keys,
    /// The leads of the rows, where their codes are not numbers and leads can be had.
    leads: Option<Vec<u64>>,
    collected: Collected,
    /// The largest of the smallest `wanted` keys held when rows were last thrown away; one row. Empty before.
    threshold: Keys,
    /// The values of the threshold's keys, where its code is bytes.
    threshold_values: Option<Vec<ArrayRef>>,
    context: QueryContext,
    overflow: Overflow,
    reservation: Reservation,
}

/// A sort that takes what is too much for a top-N: many long rows may be wanted.
enum Overflow {
    /// There is none yet, since little is held.
    No,
    /// It has reserved what it needs at least.
    Ready(Box<RunBuilder>),
    /// It has all rows.
    Begun(Box<RunBuilder>),
}

impl TopRows {
    /// `wanted` must not be zero. Fails with kind `Resource` if many rows are wanted and there is no memory for the
    /// least that a sort needs.
    pub fn new(shared: Arc<SharedSort>, wanted: usize, context: &QueryContext) -> Result<Self> {
        let reservation = context.memory.reservation(shared.name());
        let (keys, threshold) = (shared.encoder.empty(), shared.encoder.empty());
        let overflow = if shared.disk_if_any().is_some() && wanted > shared.sizes.top_rows_few {
            Overflow::Ready(Box::new(RunBuilder::new(shared.clone(), context)?))
        } else {
            Overflow::No
        };
        Ok(Self {
            shared,
            wanted,
            keys,
            leads: None,
            collected: Collected::default(),
            threshold,
            threshold_values: None,
            context: context.clone(),
            reservation,
            overflow,
        })
    }

    /// Keeps only the rows wanted, and lowers the threshold.
    fn throw_away(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        self.reservation.grow(self.collected.bytes() + self.keys.bytes())?;
        let (mut rows, largest) = self.keys.smallest(self.wanted);
        // In the order of arrival, memory is read in order.
        rows.sort_unstable();
        let payload = std::mem::take(&mut self.collected).in_order(&rows, &shared)?;
        self.threshold = self.keys.take(&[largest as u32], shared.encoder.empty());
        let lead = match &self.threshold {
            Keys::Narrow(code) => Some(code[0]),
            Keys::Wide(code) => Some(shared.encoder.lead_of_wide(code[0])),
            Keys::Bytes(code) => {
                self.threshold_values = shared.encoder.values(code.row(0))?;
                self.leads.as_ref().map(|leads| leads[largest])
            }
        };
        if let Some(lead) = lead {
            shared.lead_bound.fetch_min(lead, Relaxed);
        }
        if let Some(bound) = &shared.bound
            && let Ok(place) = rows.binary_search(&(largest as u32))
        {
            bound.come_nearer(&payload.slice(place, 1))?;
        }
        self.keys = self.keys.take(&rows, shared.encoder.empty());
        self.leads = self.leads.take().map(|leads| rows.iter().map(|&row| leads[row as usize]).collect());
        self.collected.push(payload, &shared)?;
        self.reserve_held()
    }

    /// What putting the rows in order takes beside them.
    fn finishing_bytes(&self) -> usize {
        self.collected.bytes() + self.keys.bytes() + self.keys.len() * size_of::<Pick>()
    }

    fn reserve_held(&mut self) -> Result<()> {
        let leads = self.leads.as_ref().map_or(0, |leads| leads.capacity() * size_of::<u64>());
        self.reservation.resize(self.collected.bytes() + self.keys.bytes() + leads)
    }

    /// The rows of a batch that may matter, with their keys.
    fn candidates(&self, batch: &Batch) -> Result<Candidates> {
        let encoder = &self.shared.encoder;
        let bound = self.shared.lead_bound.load(Relaxed);
        let columns = encoder.columns(batch)?;
        let mut found = Candidates {
            rows: (0..batch.rows() as u32).collect(),
            keys: encoder.empty(),
            leads: encoder.leads(&columns, batch.rows())?,
        };
        // Codes of bytes are dear: before they are made, rows are thrown away by their leads, and then key by key.
        if let Some(leads) = &found.leads {
            let near = rows_where(leads, |&lead| lead <= bound);
            found.keep(&near, encoder);
        }
        if let Some(threshold) = &self.threshold_values {
            let near = encoder.rows_before(threshold, &columns, &found.rows)?;
            found.keep(&near, encoder);
        }
        if found.rows.is_empty() {
            return Ok(found);
        }
        let columns = columns.iter().map(|column| found.column(column)).collect::<Result<Vec<_>>>()?;
        encoder.append(&columns, found.rows.len(), &mut found.keys)?;
        let near = match (&found.keys, &self.threshold) {
            // Leads are codes here, so a packet that has enough rows up to the bound makes equal rows unwanted too. All
            // ones also mean that there is no bound.
            (Keys::Narrow(codes), Keys::Narrow(threshold)) => {
                let limit = threshold.first().map_or(bound, |&threshold| threshold.min(bound));
                let unlimited = limit == u64::MAX;
                rows_where(codes, |&code| code < limit || unlimited)
            }
            (Keys::Wide(codes), Keys::Wide(threshold)) => {
                let limit = threshold.first().copied().unwrap_or(u128::MAX);
                let unlimited = threshold.is_empty();
                rows_where(codes, |&code| (code < limit || unlimited) && encoder.lead_of_wide(code) <= bound)
            }
            (Keys::Bytes(codes), Keys::Bytes(threshold)) => match threshold.iter().next() {
                Some(threshold) => {
                    let below = codes.iter().map(|code| code < threshold).collect::<Vec<_>>();
                    rows_where(&below, |&below| below)
                }
                None => return Ok(found),
            },
            _ => return Err(Error::bug("sort keys of different forms met")),
        };
        found.keep(&near, encoder);
        Ok(found)
    }
}

impl TopRows {
    /// Keeps rows that may matter. Fails with kind `Resource` if there is no memory; if rows were not added, they come
    /// back.
    fn keep(&mut self, kept: Batch, keys: Keys, leads: Option<Vec<u64>>) -> Result<(), (Error, Option<Batch>)> {
        let added = |error| (error, None);
        let bytes = held_bytes(&kept).map_err(added)? + keys.bytes();
        if let Err(error) = self.reservation.grow(bytes) {
            return Err((error, Some(kept)));
        }
        self.keys.extend(keys);
        if let Some(leads) = leads {
            self.leads.get_or_insert_default().extend(leads);
        }
        self.collected.push(kept, &self.shared).map_err(added)?;
        self.reserve_held().map_err(added)?;
        let held = self.keys.len();
        let first_time = self.threshold.len() == 0 && held >= self.wanted;
        let too_many = held > 2 * self.wanted + self.shared.sizes.top_slack_rows;
        if first_time || too_many || held > self.wanted && self.collected.blocks() > BLOCKS_MAX {
            self.throw_away().map_err(added)?;
        }
        Ok(())
    }

    /// Has a sort ready once so much is held that it would be of use: so many bytes are about to be added.
    fn prepare_to_overflow(&mut self, bytes: usize) {
        let Some(disk) = self.shared.disk_if_any() else { return };
        if matches!(self.overflow, Overflow::No) && self.reservation.bytes() + bytes > disk.space.cluster_bytes() {
            // Without memory for one, there is still what is held.
            if let Ok(sort) = RunBuilder::new(self.shared.clone(), &self.context) {
                self.overflow = Overflow::Ready(Box::new(sort));
            }
        }
    }

    /// Hands what is held to a sort, because of an error.
    fn overflow(&mut self, error: Error, rest: Option<Batch>, waker: &Waker) -> Result<Accept> {
        let mut sort = match std::mem::replace(&mut self.overflow, Overflow::No) {
            Overflow::Ready(sort) if error.kind() == ErrorKind::Resource => sort,
            _ => return Err(error),
        };
        let blocks = std::mem::take(&mut self.collected).into_blocks(&self.shared)?;
        self.keys = self.shared.encoder.empty();
        self.leads = None;
        let nothing = self.reservation.sibling();
        sort.take_over(blocks, std::mem::replace(&mut self.reservation, nothing))?;
        let accept = match rest {
            Some(rest) => sort.push(rest, waker),
            None => sort.ready(waker),
        };
        self.overflow = Overflow::Begun(sort);
        accept
    }
}

impl SinkState for TopRows {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        let mut found = self.candidates(&batch)?;
        if found.rows.len() > self.wanted {
            let (mut smallest, _) = found.keys.smallest(self.wanted);
            smallest.sort_unstable();
            found.keep(&smallest, &self.shared.encoder);
        }
        let Candidates { rows, keys, leads } = found;
        if rows.is_empty() {
            return Ok(Accept::More);
        }
        let kept = if rows.len() == batch.rows() {
            batch
        } else {
            match batch.select(&Selection::Rows(UInt32Array::from(rows)))? {
                Some(kept) => kept,
                None => return Ok(Accept::More),
            }
        };
        if let Overflow::Begun(sort) = &mut self.overflow {
            return sort.push(kept, waker);
        }
        let kept = settle(&kept, &self.shared.schema)?;
        self.prepare_to_overflow(held_bytes(&kept)?);
        match self.keep(kept, keys, leads) {
            Ok(()) => Ok(Accept::More),
            Err((error, rest)) => self.overflow(error, rest, waker),
        }
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        match &mut self.overflow {
            Overflow::Begun(sort) => sort.ready(waker),
            Overflow::No | Overflow::Ready(_) => Ok(Accept::More),
        }
    }

    fn give_back(&mut self, waker: &Waker) -> Result<Accept> {
        match &mut self.overflow {
            Overflow::Begun(sort) => sort.give_back(waker),
            Overflow::No | Overflow::Ready(_) => Ok(Accept::More),
        }
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        let shared = self.shared.clone();
        if !matches!(self.overflow, Overflow::Begun(_))
            && let Err(error) = self.reservation.grow(self.finishing_bytes())
        {
            self.overflow(error, None, waker)?;
        }
        if let Overflow::Begun(sort) = &mut self.overflow {
            return sort.finish(waker);
        }
        self.overflow = Overflow::No;
        if self.keys.len() > 0 {
            let keys = std::mem::replace(&mut self.keys, shared.encoder.empty());
            let mut order = keys.order(shared.encoder.bits());
            order.truncate(self.wanted);
            let payload = std::mem::take(&mut self.collected).in_order(&order, &shared)?;
            let run = Run { keys: keys.into_sorted(&order), payload };
            self.leads = None;
            self.reservation.resize(run.bytes()?)?;
            let reservation = std::mem::replace(&mut self.reservation, self.context.memory.reservation(shared.name()));
            shared.collect(vec![run], reservation, None)?;
        }
        Ok(Accept::More)
    }
}

/// Rows of a batch that may be among the first.
struct Candidates {
    /// Their numbers in the batch, ascending.
    rows: Vec<u32>,
    /// Their keys, once they are made.
    keys: Keys,
    /// Their leads, where their codes are not numbers and leads can be had.
    leads: Option<Vec<u64>>,
}

impl Candidates {
    /// Keeps only those at the given places.
    fn keep(&mut self, places: &[u32], encoder: &KeyEncoder) {
        if places.len() == self.rows.len() {
            return;
        }
        self.rows = places.iter().map(|&place| self.rows[place as usize]).collect();
        self.leads = self.leads.take().map(|leads| places.iter().map(|&place| leads[place as usize]).collect());
        if self.keys.len() > 0 {
            self.keys = self.keys.take(places, encoder.empty());
        }
    }

    /// Their values in a column of the batch.
    fn column(&self, column: &ArrayRef) -> Result<ArrayRef> {
        rows_of(column, &self.rows)
    }
}
