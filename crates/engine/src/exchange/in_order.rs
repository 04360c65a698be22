//! Rows of several packets, put back in the order of the source that they were read from.
//!
//! Each packet of the pipeline below reads whole parts of the source, one after the other, and says to which
//! [place](crate::flow::SourceState::place) in the source's order its rows belong. Here they wait until all places
//! before have been received. So a scan whose order matters is decoded, filtered and computed by all workers, and only
//! what is behind it is done by one (Volcano's merging exchange, with the place as the key).
//!
//! ```text
//!   packet: places 0, 2, 3 ──▶ ┌ place 2: received now ┐
//!   packet: places 1, 4    ──▶ └ place 4: waits        ┘──▶ one packet, in order
//! ```
//!
//! Invariants:
//! * A sender's batch is always taken. The sender of the place that is received waits for the receiver alone, as at a
//!   port; all others wait when what is ahead is much. So the first place always gets on.
//! * What waits is reserved.
//! * The source hands its places out in order and bounds how far they are apart.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::batch::Batch;
use crate::flow::{Accept, Pull, QueryContext, Sink, SinkState, Source, SourceState};
use crate::sync::{Latch, Mutex};

/// What waits for its turn.
static IN_ORDER: Latch = Latch::new("in order");

/// The part of what a query may have, as its divisor, above which nothing more is taken of the place that is received.
const FIRST_DIVISOR: usize = 32;

/// The same for all places behind it together.
const AHEAD_DIVISOR: usize = 8;

/// Both ends: a sink for the packets that read, a source for the one that has their rows in order.
pub struct InOrder {
    credits: usize,
    shared: Arc<SharedOrder>,
}

struct SharedOrder(Mutex<OrderState>);

#[derive(Default)]
struct OrderState {
    /// The place that is received.
    first: usize,
    places: BTreeMap<usize, Waiting>,
    /// Bytes of all places behind the first.
    ahead_bytes: usize,
    first_bytes_max: usize,
    ahead_bytes_max: usize,
    has_receiver: bool,
    receiver_gone: bool,
    /// All packets have ended.
    is_complete: bool,
    waiting_senders: Vec<Waker>,
    waiting_receiver: Option<Waker>,
}

/// Rows of one place.
#[derive(Default)]
struct Waiting {
    batches: VecDeque<(Batch, Reservation)>,
    bytes: usize,
    /// Nothing more comes.
    is_whole: bool,
}

impl InOrder {
    /// An exchange whose receiver may be so many batches behind the packet that it receives from.
    pub fn new(credits: usize) -> Arc<Self> {
        let state = Mutex::named(&IN_ORDER, OrderState::default());
        Arc::new(Self { credits: credits.max(1), shared: Arc::new(SharedOrder(state)) })
    }
}

impl OrderState {
    /// What the sender of a place is told.
    fn accept(&mut self, place: usize, credits: usize, waker: &Waker) -> Accept {
        if self.receiver_gone {
            return Accept::Enough;
        }
        let is_much = if place <= self.first {
            let first = self.places.get(&place);
            first.is_some_and(|first| {
                first.batches.len() >= credits || first.bytes >= self.first_bytes_max && !first.batches.is_empty()
            })
        } else {
            self.ahead_bytes >= self.ahead_bytes_max
        };
        if !is_much {
            return Accept::More;
        }
        if !self.waiting_senders.iter().any(|other| other.will_wake(waker)) {
            self.waiting_senders.push(waker.clone());
        }
        Accept::Wait
    }

    /// Goes on to the next place, as far as the first has nothing more.
    fn go_on(&mut self) {
        while self.places.get(&self.first).is_some_and(|first| first.is_whole && first.batches.is_empty()) {
            self.places.remove(&self.first);
            self.first += 1;
            let next = self.places.get(&self.first).map_or(0, |next| next.bytes);
            self.ahead_bytes -= next;
        }
    }
}

impl SharedOrder {
    /// Changes the state, and wakes those for whom it makes a difference.
    fn change<T>(&self, change: impl FnOnce(&mut OrderState) -> T) -> T {
        let (changed, senders, receiver) = {
            let mut state = self.0.lock();
            let changed = change(&mut state);
            (changed, std::mem::take(&mut state.waiting_senders), state.waiting_receiver.take())
        };
        senders.into_iter().chain(receiver).for_each(Waker::wake);
        changed
    }
}

impl Sink for InOrder {
    fn name(&self) -> &'static str {
        "InOrder"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let mut state = self.shared.0.lock();
        state.first_bytes_max = context.memory.limit_bytes() / FIRST_DIVISOR;
        state.ahead_bytes_max = context.memory.share_bytes() / AHEAD_DIVISOR;
        let held = context.memory.reservation("Exchange");
        Ok(Box::new(OrderSender { shared: self.shared.clone(), credits: self.credits, place: 0, is_at: false, held }))
    }

    fn complete(&self) -> Result<()> {
        self.shared.change(|state| state.is_complete = true);
        Ok(())
    }

    fn held_back(&self) -> usize {
        self.shared.0.lock().waiting_senders.len()
    }
}

/// One packet's end.
struct OrderSender {
    shared: Arc<SharedOrder>,
    credits: usize,
    /// Where its rows belong; 0 where there is one packet only, which need not say it.
    place: usize,
    /// Whether it said so.
    is_at: bool,
    /// Nothing by itself: what waits is reserved beside it.
    held: Reservation,
}

impl SinkState for OrderSender {
    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        let bytes = batch.bytes();
        let mut reservation = self.held.sibling();
        reservation.overdraw(bytes);
        let (place, credits) = (self.place, self.credits);
        let mut state = self.shared.0.lock();
        if state.receiver_gone {
            drop(state);
            drop((batch, reservation));
            return Ok(Accept::Enough);
        }
        let waiting = state.places.entry(place).or_default();
        waiting.batches.push_back((batch, reservation));
        waiting.bytes += bytes;
        let is_first = place <= state.first;
        if !is_first {
            state.ahead_bytes += bytes;
        }
        let accept = state.accept(place, credits, waker);
        let receiver = if is_first { state.waiting_receiver.take() } else { None };
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Ok(accept)
    }

    fn at(&mut self, place: Option<usize>) -> Result<()> {
        let before = std::mem::replace(&mut self.is_at, place.is_some());
        let whole = before.then_some(self.place);
        if let Some(place) = place {
            self.place = place;
        }
        if let Some(whole) = whole {
            self.shared.change(|state| {
                state.places.entry(whole).or_default().is_whole = true;
                state.go_on();
            });
        }
        Ok(())
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        Ok(self.shared.0.lock().accept(self.place, self.credits, waker))
    }
}

impl Source for InOrder {
    fn name(&self) -> &'static str {
        "InOrder"
    }

    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, _context: &QueryContext) -> Result<Box<dyn SourceState>> {
        if std::mem::replace(&mut self.shared.0.lock().has_receiver, true) {
            return Err(Error::bug("two packets receive rows in order"));
        }
        Ok(Box::new(OrderReceiver(self.shared.clone())))
    }
}

struct OrderReceiver(Arc<SharedOrder>);

impl SourceState for OrderReceiver {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let mut state = self.0.0.lock();
        // What packets have left behind when all have ended is all that there is.
        let first = match state.is_complete {
            true => state.places.keys().next().copied(),
            false => Some(state.first),
        };
        let Some(first) = first else { return Ok(Pull::Done) };
        let taken = state.places.get_mut(&first).and_then(|place| {
            let (batch, reservation) = place.batches.pop_front()?;
            let bytes = reservation.bytes();
            place.bytes -= bytes;
            Some((batch, reservation, bytes))
        });
        let Some((batch, reservation, bytes)) = taken else {
            if state.is_complete {
                state.places.remove(&first);
                return Ok(Pull::Again);
            }
            state.waiting_receiver = Some(waker.clone());
            return Ok(Pull::Wait);
        };
        if first > state.first {
            state.ahead_bytes -= bytes;
        }
        state.go_on();
        let senders = std::mem::take(&mut state.waiting_senders);
        drop(state);
        drop(reservation);
        senders.into_iter().for_each(Waker::wake);
        Ok(Pull::Batch(batch))
    }
}

impl Drop for OrderReceiver {
    fn drop(&mut self) {
        let places = self.0.change(|state| {
            state.receiver_gone = true;
            std::mem::take(&mut state.places)
        });
        drop(places);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use diligence_base::ids::QueryId;
    use diligence_memory::{Broker, QueryMemory};
    use proptest::prelude::*;

    use super::*;

    fn context(memory: QueryMemory) -> QueryContext {
        QueryContext { memory, temp: None, batch_rows: 8, packets: 3 }
    }

    fn batch(value: i64) -> Batch {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        Batch::from_arrays(vec![values], 1)
    }

    fn value(batch: &Batch) -> i64 {
        batch.flat(0).unwrap().as_primitive::<Int64Type>().value(0)
    }

    proptest! {
        /// Places with some rows each are read by packets that take turns as it comes; each goes on only when it may.
        #[test]
        fn rows_come_in_the_order_of_their_places(
            sizes in prop::collection::vec(0_usize..6, 0..20), packets in 1_usize..4,
            turns in prop::collection::vec(0_usize..5, 400), bytes in 3_000_usize..200_000,
        ) {
            let broker = Broker::new(bytes);
            let memory = broker.account(QueryId(1), None);
            let order = InOrder::new(2);
            let mut senders =
                (0..packets).map(|_| Some(Sink::open(order.as_ref(), &context(memory.clone())).unwrap())).collect::<Vec<_>>();
            let mut receiver = Source::open(order.as_ref(), &context(memory.clone())).unwrap();
            // Of each packet its place, how many rows of it are sent, and whether it has to wait.
            let mut at: Vec<Option<(usize, usize, bool)>> = vec![None; packets];
            let (mut next, mut received, mut is_complete) = (0, Vec::new(), false);
            let mut idle = 0;
            for turn in turns.into_iter().cycle() {
                let packet = turn % (packets + 1);
                if packet == packets {
                    match receiver.pull(Waker::noop()).unwrap() {
                        Pull::Batch(batch) => received.push(value(&batch)),
                        Pull::Done => break,
                        _ => {}
                    }
                } else if let Some(sender) = &mut senders[packet] {
                    match at[packet] {
                        Some((place, sent, true)) => {
                            let waits = sender.ready(Waker::noop()).unwrap() == Accept::Wait;
                            at[packet] = Some((place, sent, waits));
                        }
                        Some((place, sent, false)) if sent < sizes[place] => {
                            let pushed = sender.push(batch((place * 10 + sent) as i64), Waker::noop()).unwrap();
                            at[packet] = Some((place, sent + 1, pushed == Accept::Wait));
                        }
                        Some(_) => {
                            sender.at(None).unwrap();
                            at[packet] = None;
                        }
                        None if next < sizes.len() => {
                            sender.at(Some(next)).unwrap();
                            at[packet] = Some((next, 0, false));
                            next += 1;
                        }
                        None => senders[packet] = None,
                    }
                }
                if !is_complete && senders.iter().all(Option::is_none) {
                    is_complete = true;
                    order.complete().unwrap();
                }
                idle += 1;
                prop_assert!(idle < 100_000, "it does not end");
            }
            let expected = sizes.iter().enumerate();
            let expected = expected.flat_map(|(place, &size)| (0..size).map(move |row| (place * 10 + row) as i64));
            prop_assert_eq!(received, expected.collect::<Vec<_>>());
            prop_assert_eq!(memory.reserved_bytes(), 0);
        }
    }

    #[test]
    fn one_packet_need_not_say_where_its_rows_belong() {
        let order = InOrder::new(4);
        let context = context(QueryMemory::unbounded());
        let mut sender = Sink::open(order.as_ref(), &context).unwrap();
        let mut receiver = Source::open(order.as_ref(), &context).unwrap();
        assert!(Source::open(order.as_ref(), &context).is_err());
        assert!(matches!(receiver.pull(Waker::noop()).unwrap(), Pull::Wait));
        assert_eq!(sender.push(batch(1), Waker::noop()).unwrap(), Accept::More);
        assert!(matches!(receiver.pull(Waker::noop()).unwrap(), Pull::Batch(_)));
        order.complete().unwrap();
        let mut pulled = std::iter::repeat_with(|| receiver.pull(Waker::noop()).unwrap());
        assert!(matches!(pulled.find(|pull| !matches!(pull, Pull::Again)), Some(Pull::Done)));
        drop(receiver);
        assert_eq!(sender.push(batch(2), Waker::noop()).unwrap(), Accept::Enough);
    }
}
