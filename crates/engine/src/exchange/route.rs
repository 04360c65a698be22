//! The two ends of an exchange.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::UInt32Array;
use arrow_row::OwnedRow;
use datafusion_common::hash_utils::{RandomState, create_hashes};
use diligence_base::limits::PORT_CREDITS;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_datafusion;

use super::merge::{KeyRows, Merger};
use super::port::{Receiver, Sender, port};
use crate::batch::{Batch, to_logical};
use crate::expressions::Expr;
use crate::flow::{Accept, Pull, QueryContext, Sink, SinkState, Source, SourceState};
use crate::plan::Pact;
use crate::sync::Mutex;

/// Rows that all producers together look at before the bounds of a range pact are fixed. Some hundred per consumer
/// keep the ranges within a few percent of each other.
const RANGE_SAMPLE_ROWS: usize = 4096;

/// An exchange between one pipeline's packets and another's. It is both ends: a [`Sink`] and a [`Source`].
///
/// The producing pipeline opens all its states before the first of the consuming one is opened.
pub struct Exchange {
    pact: Pact,
    consumers: usize,
    credits: usize,
    ends: Mutex<Ends>,
    sampler: Arc<Sampler>,
}

#[derive(Default)]
struct Ends {
    /// One per consumer, kept until the sink is complete so that a port does not end early. Empty for the pacts that
    /// give each producer a port of its own.
    senders: Vec<Sender>,
    /// What is not opened yet: one per consumer, or one per producer.
    receivers: Vec<Receiver>,
}

impl Exchange {
    /// An exchange to so many consumers. `Gather` and `Merge` have one, whatever is asked for.
    pub fn new(pact: Pact, consumers: usize) -> Arc<Self> {
        Self::ahead(pact, consumers, PORT_CREDITS)
    }

    /// The same, whose producers may be so many batches ahead at each port.
    pub fn ahead(pact: Pact, consumers: usize, credits: usize) -> Arc<Self> {
        let consumers = match pact {
            Pact::Gather | Pact::Merge(_) => 1,
            _ => consumers.max(1),
        };
        let mut ends = Ends::default();
        if !matches!(pact, Pact::Pipeline | Pact::Merge(_)) {
            for _ in 0..consumers {
                let (sender, receiver) = port(credits);
                ends.senders.push(sender);
                ends.receivers.push(receiver);
            }
            // Opened from the back; consumer 0 first.
            ends.receivers.reverse();
        }
        let sampler = Arc::new(Sampler { consumers, sample: Mutex::default() });
        Arc::new(Self { pact, consumers, credits, ends: Mutex::new(ends), sampler })
    }

    /// The next consumer's end, for a consumer that is not a pipeline.
    pub fn take_receiver(&self) -> Option<Receiver> {
        self.ends.lock().receivers.pop()
    }
}

impl Sink for Exchange {
    fn name(&self) -> &'static str {
        "ExchangeOut"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let mut ends = self.ends.lock();
        let senders = match &self.pact {
            Pact::Pipeline | Pact::Merge(_) => {
                let (sender, receiver) = port(self.credits);
                ends.receivers.insert(0, receiver);
                vec![sender]
            }
            _ => ends.senders.clone(),
        };
        let route = match &self.pact {
            Pact::Pipeline | Pact::Merge(_) | Pact::Gather => Route::First,
            Pact::RoundRobin => Route::InTurn(0),
            Pact::Broadcast => Route::All,
            Pact::Hash(keys) => Route::Hash(keys.clone()),
            Pact::Range(keys) => Route::Range(Ranging {
                keys: KeyRows::new(keys.as_slice().into())?,
                sampler: self.sampler.clone(),
                bounds: None,
                held: Vec::new(),
            }),
        };
        senders.iter().for_each(|sender| sender.bound(&context.memory));
        Ok(Box::new(Out { senders, route, held: context.memory.reservation("Exchange") }))
    }

    fn complete(&self) -> Result<()> {
        self.ends.lock().senders.clear();
        Ok(())
    }

    fn held_back(&self) -> usize {
        // Whoever sends to several waits for one at least.
        match self.pact {
            Pact::Gather => self.ends.lock().senders.iter().map(Sender::waiting_senders).sum(),
            _ => 0,
        }
    }
}

impl Source for Exchange {
    fn name(&self) -> &'static str {
        "ExchangeIn"
    }

    fn packets_max(&self) -> usize {
        match self.pact {
            Pact::Pipeline => self.ends.lock().receivers.len(),
            _ => self.consumers,
        }
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let mut ends = self.ends.lock();
        if let Pact::Merge(keys) = &self.pact {
            let inputs = std::mem::take(&mut ends.receivers);
            return Ok(Box::new(Merger::new(keys.as_slice().into(), inputs, context.batch_rows)?));
        }
        let receiver = ends.receivers.pop().ok_or_else(|| Error::bug("an exchange has more consumers than ends"))?;
        Ok(Box::new(receiver))
    }
}

impl SourceState for Receiver {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        Ok(match self.receive(waker) {
            Poll::Pending => Pull::Wait,
            Poll::Ready(None) => Pull::Done,
            Poll::Ready(Some(batch)) => Pull::Batch(batch?),
        })
    }
}

impl SourceState for Merger {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        Ok(match self.next(waker) {
            Poll::Pending => Pull::Wait,
            Poll::Ready(None) => Pull::Done,
            Poll::Ready(Some(batch)) => Pull::Batch(batch?),
        })
    }
}

/// What all producers of a range exchange have seen, until the bounds are fixed.
struct Sampler {
    consumers: usize,
    sample: Mutex<Sample>,
}

#[derive(Default)]
struct Sample {
    rows: Vec<OwnedRow>,
    bounds: Option<Arc<[OwnedRow]>>,
}

impl Sampler {
    /// Adds rows to the sample. The bounds, once the sample is large enough or somebody insists.
    fn bounds(&self, rows: Vec<OwnedRow>, insist: bool) -> Option<Arc<[OwnedRow]>> {
        let mut sample = self.sample.lock();
        if sample.bounds.is_none() {
            sample.rows.extend(rows);
            if insist || sample.rows.len() >= RANGE_SAMPLE_ROWS {
                let mut rows = std::mem::take(&mut sample.rows);
                rows.sort_unstable();
                let quantile = |index| rows.get(index * rows.len() / self.consumers).cloned();
                sample.bounds = Some((1..self.consumers).filter_map(quantile).collect());
            }
        }
        sample.bounds.clone()
    }
}

/// One producer's way of choosing consumers.
enum Route {
    First,
    InTurn(usize),
    All,
    Hash(Vec<Expr>),
    Range(Ranging),
}

struct Ranging {
    keys: KeyRows,
    sampler: Arc<Sampler>,
    bounds: Option<Arc<[OwnedRow]>>,
    /// Batches that came before the bounds were fixed. All producers together hold about a sample's worth.
    held: Vec<Batch>,
}

/// One producer's end.
struct Out {
    senders: Vec<Sender>,
    route: Route,
    /// Nothing by itself: batches in the ports are reserved beside it.
    held: Reservation,
}

impl SinkState for Out {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        let consumers = self.senders.len();
        match &mut self.route {
            Route::First => Ok(send(&self.senders[0], batch, &self.held, waker)),
            Route::InTurn(next) => {
                let answer = send(&self.senders[*next], batch, &self.held, waker);
                if answer != Accept::Enough {
                    *next = (*next + 1) % consumers;
                    return Ok(answer);
                }
                // This consumer has enough; the others may not.
                self.senders.remove(*next);
                if self.senders.is_empty() {
                    return Ok(Accept::Enough);
                }
                *next %= self.senders.len();
                Ok(Accept::More)
            }
            Route::All => {
                let sent = self.senders.iter().map(|sender| send(sender, batch.clone(), &self.held, waker));
                Ok(combine(sent))
            }
            Route::Hash(keys) => {
                let target = hash_targets(keys, &batch, consumers)?;
                send_split(&self.senders, &batch, &target, &self.held, waker)
            }
            Route::Range(ranging) => {
                if ranging.bounds.is_none() {
                    let rows = ranging.keys.rows(&batch)?;
                    let sample = rows.iter().map(|row| row.owned()).collect();
                    ranging.held.push(batch);
                    ranging.bounds = ranging.sampler.bounds(sample, false);
                } else {
                    ranging.held.push(batch);
                }
                flush_ranges(&self.senders, ranging, &self.held, waker)
            }
        }
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        Ok(match &self.route {
            Route::InTurn(next) => match self.senders[*next].ready(waker) {
                // The batch that it gets will tell.
                Accept::Enough => Accept::More,
                answer => answer,
            },
            _ => combine(self.senders.iter().map(|sender| sender.ready(waker))),
        })
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        if let Route::Range(ranging) = &mut self.route
            && !ranging.held.is_empty()
        {
            ranging.bounds = ranging.sampler.bounds(Vec::new(), true);
            flush_ranges(&self.senders, ranging, &self.held, waker)?;
        }
        self.senders.clear();
        Ok(Accept::More)
    }
}

/// The answer of several consumers: wait if one says so; enough only if all have enough.
fn combine(answers: impl Iterator<Item = Accept>) -> Accept {
    let mut all_enough = true;
    let mut wait = false;
    for answer in answers {
        all_enough &= answer == Accept::Enough;
        wait |= answer == Accept::Wait;
    }
    match (all_enough, wait) {
        (true, _) => Accept::Enough,
        (false, true) => Accept::Wait,
        (false, false) => Accept::More,
    }
}

fn hash_targets(keys: &[Expr], batch: &Batch, consumers: usize) -> Result<Vec<u32>> {
    let arrays = keys
        .iter()
        .map(|key| to_logical(&key.evaluate(batch)?.flat()?, key.data_type()))
        .collect::<Result<Vec<_>>>()?;
    let mut hashes = vec![0; batch.rows()];
    // The state is fixed, so that every producer sends equal keys to the same consumer.
    create_hashes(&arrays, &RandomState::default(), &mut hashes).map_err(from_datafusion)?;
    // The high bits: hash tables behind the exchange use the low ones.
    Ok(hashes.into_iter().map(|hash| ((u128::from(hash) * consumers as u128) >> 64) as u32).collect())
}

fn flush_ranges(senders: &[Sender], ranging: &mut Ranging, held: &Reservation, waker: &Waker) -> Result<Accept> {
    let Some(bounds) = &ranging.bounds else { return Ok(Accept::More) };
    let mut answers = Vec::new();
    for batch in ranging.held.drain(..) {
        let rows = ranging.keys.rows(&batch)?;
        let target: Vec<u32> =
            rows.iter().map(|row| bounds.partition_point(|bound| bound.row() <= row) as u32).collect();
        answers.push(send_split(senders, &batch, &target, held, waker)?);
    }
    Ok(combine(answers.into_iter()))
}

fn send(sender: &Sender, batch: Batch, held: &Reservation, waker: &Waker) -> Accept {
    let bytes = batch.bytes();
    sender.send_reserved(batch, bytes, held, waker)
}

/// Sends each row to its target. Rows keep their order within a target.
fn send_split(senders: &[Sender], batch: &Batch, target: &[u32], held: &Reservation, waker: &Waker) -> Result<Accept> {
    if senders.len() == 1 {
        return Ok(send(&senders[0], batch.clone(), held, waker));
    }
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); senders.len()];
    for (row, &consumer) in target.iter().enumerate() {
        rows[consumer as usize].push(row as u32);
    }
    let mut answers = Vec::with_capacity(senders.len());
    for (sender, rows) in senders.iter().zip(rows) {
        answers.push(if rows.is_empty() {
            sender.ready(waker)
        } else {
            // Flat: consumers must not keep the rows of others alive.
            send(sender, batch.pick(&UInt32Array::from(rows))?.flatten()?, held, waker)
        });
    }
    Ok(combine(answers.into_iter()))
}

#[cfg(test)]
mod tests {
    use diligence_memory::QueryMemory;

    use super::*;

    #[test]
    fn producers_hear_when_every_consumer_has_left() {
        for pact in [Pact::RoundRobin, Pact::Broadcast, Pact::Gather] {
            let exchange = Exchange::new(pact, 3);
            let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 1, packets: 1 };
            let mut producer = Sink::open(exchange.as_ref(), &context).unwrap();
            let consumers = std::iter::from_fn(|| exchange.take_receiver()).collect::<Vec<_>>();
            let mut push = || producer.push(Batch::new(Vec::new(), 1), Waker::noop()).unwrap();
            assert_eq!(push(), Accept::More, "{}", exchange.pact);
            drop(consumers);
            let enough = (0..3).any(|_| push() == Accept::Enough);
            assert!(enough, "{} goes on sending to nobody", exchange.pact);
        }
    }
}
