//! One packet's part of a top-N: keeps the first rows that it has seen and little more.
//!
//! Once a packet holds as many rows as are wanted, the largest of their keys is a *threshold*: no row that is not below it
//! can matter. The lead of the lowest threshold of all packets is shared. So after the first batches almost every row is
//! thrown away by one comparison of numbers, before its payload or even its key is looked at.
//!
//! Invariant: of all rows that were pushed, enough of the smallest are held.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use arrow::array::UInt32Array;
use diligence_base::Result;

use super::Run;
use super::encoding::KeyEncoder;
use super::gather::{held_bytes, settle};
use super::keys::Keys;
use super::run_builder::Collected;
use super::sink::Shared;
use crate::batch::{Batch, Selection};
use crate::memory::{QueryMemory, Reservation};
use crate::pipeline::{Accept, Setup, SinkState};

/// Blocks that are held before rows are thrown away and blocks put together.
const BLOCKS_MAX: usize = 512;

/// The rows that a packet holds.
pub(super) struct TopRows {
    shared: Arc<Shared>,
    /// Rows wanted.
    wanted: usize,
    keys: Keys,
    /// The leads of the rows, where their codes are not numbers and leads can be had.
    leads: Option<Vec<u64>>,
    collected: Collected,
    /// The largest of the smallest `wanted` keys held when rows were last thrown away; one row. Empty before.
    threshold: Keys,
    memory: QueryMemory,
    reservation: Reservation,
}

impl TopRows {
    /// `wanted` must not be zero.
    pub fn new(shared: Arc<Shared>, wanted: usize, setup: &Setup) -> Self {
        let memory = setup.memory.clone();
        let reservation = memory.reservation(shared.name());
        let (keys, threshold) = (shared.encoder.empty(), shared.encoder.empty());
        Self { shared, wanted, keys, leads: None, collected: Collected::default(), threshold, memory, reservation }
    }

    /// Keeps only the rows wanted, and lowers the threshold.
    fn throw_away(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        self.reservation.grow(self.collected.bytes() + self.keys.bytes())?;
        let (mut rows, largest) = self.keys.smallest(self.wanted);
        // In the order of arrival, memory is read in order.
        rows.sort_unstable();
        let payload = std::mem::take(&mut self.collected).in_order(&rows, &shared)?;
        self.threshold = self.keys.take(&[largest as u32], &shared.encoder);
        let lead = match &self.threshold {
            Keys::Narrow(code) => Some(code[0]),
            Keys::Wide(code) => Some(shared.encoder.lead_of_wide(code[0])),
            Keys::Bytes(_) => self.leads.as_ref().map(|leads| leads[largest]),
        };
        if let Some(lead) = lead {
            shared.lead_bound.fetch_min(lead, Relaxed);
        }
        self.keys = self.keys.take(&rows, &shared.encoder);
        self.leads = self.leads.take().map(|leads| rows.iter().map(|&row| leads[row as usize]).collect());
        self.collected.push(payload, &shared)?;
        self.reserve_held()
    }

    fn reserve_held(&mut self) -> Result<()> {
        let leads = self.leads.as_ref().map_or(0, |leads| leads.capacity() * size_of::<u64>());
        self.reservation.resize(self.collected.bytes() + self.keys.bytes() + leads)
    }

    /// The rows of a batch that may matter, as far as one look at each tells, with their keys and leads.
    fn candidates(&self, batch: &Batch) -> Result<Candidates> {
        let encoder = &self.shared.encoder;
        let bound = self.shared.lead_bound.load(Relaxed);
        let mut columns = encoder.columns(batch)?;
        let mut keys = encoder.empty();
        let mut leads = None;
        let rows: Vec<u32> = match &self.threshold {
            // Codes are cheap: all are made, and looked at exactly.
            Keys::Narrow(threshold) => {
                encoder.append(&columns, batch.rows(), &mut keys)?;
                let Keys::Narrow(codes) = &keys else { return Ok(Candidates::none(keys)) };
                // Leads are codes here, so a packet with enough rows up to the bound makes equal rows unwanted too. The
                // largest code of all, which is also the bound before there is one, cannot be told from it: keep it.
                let limit = threshold.first().map_or(bound, |&threshold| threshold.min(bound));
                rows_where(codes, |&code| code < limit || limit == u64::MAX && threshold.is_empty())
            }
            Keys::Wide(threshold) => {
                encoder.append(&columns, batch.rows(), &mut keys)?;
                let Keys::Wide(codes) = &keys else { return Ok(Candidates::none(keys)) };
                match threshold.first() {
                    Some(&threshold) => {
                        rows_where(codes, |&code| code < threshold && encoder.lead_of_wide(code) <= bound)
                    }
                    None => rows_where(codes, |&code| encoder.lead_of_wide(code) <= bound),
                }
            }
            // Codes are dear: leads first, then the codes of the rows that are left.
            Keys::Bytes(threshold) => {
                let mut rows = (0..batch.rows() as u32).collect::<Vec<_>>();
                if let Some(all) = encoder.leads(&columns, batch.rows())? {
                    rows = rows_where(&all, |&lead| lead <= bound);
                    leads = Some(rows.iter().map(|&row| all[row as usize]).collect::<Vec<_>>());
                    if rows.len() < batch.rows() {
                        columns = KeyEncoder::take(&columns, &UInt32Array::from(rows.clone()))?;
                    }
                }
                if rows.is_empty() {
                    return Ok(Candidates::none(keys));
                }
                encoder.append(&columns, rows.len(), &mut keys)?;
                let Keys::Bytes(codes) = &keys else { return Ok(Candidates::none(keys)) };
                let below = match threshold.iter().next() {
                    Some(threshold) => {
                        let all = codes.iter().map(|code| code.cmp(&threshold)).collect::<Vec<_>>();
                        rows_where(&all, |&order| order == Ordering::Less)
                    }
                    None => (0..rows.len() as u32).collect(),
                };
                keys = keys.take(&below, encoder);
                leads = leads.map(|leads| below.iter().map(|&row| leads[row as usize]).collect());
                return Ok(Candidates { rows: below.iter().map(|&row| rows[row as usize]).collect(), keys, leads });
            }
        };
        if rows.len() < batch.rows() {
            keys = keys.take(&rows, encoder);
        }
        Ok(Candidates { rows, keys, leads })
    }
}

impl SinkState for TopRows {
    fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
        let Candidates { mut rows, mut keys, mut leads } = self.candidates(&batch)?;
        if rows.len() > self.wanted {
            let (mut kept, _) = keys.smallest(self.wanted);
            kept.sort_unstable();
            keys = keys.take(&kept, &self.shared.encoder);
            leads = leads.map(|leads| kept.iter().map(|&row| leads[row as usize]).collect());
            rows = kept.into_iter().map(|row| rows[row as usize]).collect();
        }
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
        let kept = settle(&kept, &self.shared.schema)?;
        self.reservation.grow(held_bytes(&kept)? + keys.bytes())?;
        self.keys.extend(keys);
        if let Some(leads) = leads {
            self.leads.get_or_insert_default().extend(leads);
        }
        self.collected.push(kept, &self.shared)?;
        self.reserve_held()?;
        let held = self.keys.len();
        let first_time = self.threshold.len() == 0 && held >= self.wanted;
        let too_many = held > 2 * self.wanted + self.shared.sizes.top_slack_rows;
        if first_time || too_many || held > self.wanted && self.collected.blocks() > BLOCKS_MAX {
            self.throw_away()?;
        }
        Ok(Accept::More)
    }

    fn finish(&mut self, _waker: &Waker) -> Result<Accept> {
        let shared = self.shared.clone();
        if self.keys.len() > 0 {
            self.reservation.grow(self.collected.bytes() + self.keys.bytes())?;
            let keys = std::mem::replace(&mut self.keys, shared.encoder.empty());
            let mut order = keys.order(&shared.encoder);
            order.truncate(self.wanted);
            let payload = std::mem::take(&mut self.collected).in_order(&order, &shared)?;
            let run = Run { keys: keys.into_sorted(&order), payload };
            self.leads = None;
            self.reservation.resize(run.keys.bytes() + held_bytes(&run.payload)?)?;
            let reservation = std::mem::replace(&mut self.reservation, self.memory.reservation(shared.name()));
            shared.collect(vec![run], reservation)?;
        }
        Ok(Accept::More)
    }
}

/// Rows of a batch that may be among the first.
struct Candidates {
    /// Their numbers in the batch, ascending.
    rows: Vec<u32>,
    keys: Keys,
    leads: Option<Vec<u64>>,
}

impl Candidates {
    fn none(keys: Keys) -> Self {
        Self { rows: Vec::new(), keys, leads: None }
    }
}

/// The numbers of the values that fulfil a condition, without a branch per value.
fn rows_where<T>(values: &[T], condition: impl Fn(&T) -> bool) -> Vec<u32> {
    let mut rows = vec![0; values.len()];
    let mut kept = 0;
    for (row, value) in values.iter().enumerate() {
        rows[kept] = row as u32;
        kept += usize::from(condition(value));
    }
    rows.truncate(kept);
    rows
}
