//! A port: a bounded queue of batches between pipelines (Volcano's port, its flow-control semaphore being the credits).
//!
//! Nobody blocks: a sender that has used up its credits and a receiver that finds nothing leave their wakers and are
//! woken.
//!
//! Invariants:
//! * A sender's batch is always taken; the answer says whether it may send another. So a port holds at most
//!   `credits` + the number of senders batches; fewer if they are large, but one.
//! * What waits inside is reserved as long as it does, if its sender says so: also for a reader who is slow. While more
//!   than the budget is reserved, one batch is enough for a reader: many may be slow at once.
//! * When the receiver is gone or a sender has failed, what is queued is dropped and senders hear `Enough`.
//! * When all senders are gone, the receiver gets what is queued and then the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{Error, Result};
use diligence_memory::{QueryMemory, Reservation};

use crate::batch::Batch;
use crate::flow::Accept;
use crate::sync::{Latch, Mutex};

/// What is in ports.
static PORT: Latch = Latch::new("port");

struct PortState<T> {
    queue: VecDeque<Queued<T>>,
    credits: usize,
    bytes: usize,
    bytes_max: usize,
    /// Of whom the rows for a reader are.
    memory: Option<QueryMemory>,
    senders: usize,
    receiver_gone: bool,
    failure: Option<Error>,
    waiting_senders: Vec<Waker>,
    waiting_receiver: Option<Waker>,
}

struct Queued<T> {
    batch: T,
    reservation: Option<Reservation>,
}

struct SharedPort<T>(Mutex<PortState<T>>);

/// The part of what a query may have, as its divisor, above which a port takes no more batches.
const BYTES_DIVISOR: usize = 32;

/// The same for rows that wait for whoever asked: many may read slowly at once.
const READER_DIVISOR: usize = 64;

/// The end that batches go into. Clones are further senders.
pub struct Sender<T = Batch>(Arc<SharedPort<T>>);

/// The end that batches come out of.
pub struct Receiver<T = Batch>(Arc<SharedPort<T>>);

/// A port whose senders may be `credits` batches ahead, and its two ends.
pub fn port<T>(credits: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(SharedPort(Mutex::named(
        &PORT,
        PortState {
            queue: VecDeque::new(),
            credits: credits.max(1),
            bytes: 0,
            bytes_max: usize::MAX,
            memory: None,
            senders: 1,
            receiver_gone: false,
            failure: None,
            waiting_senders: Vec::new(),
            waiting_receiver: None,
        },
    )));
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Senders that wait for credit.
    pub fn waiting_senders(&self) -> usize {
        self.0.0.lock().waiting_senders.len()
    }

    /// Puts a batch into the port, whether or not there is credit. `Wait`: the credit is used up; the waker is woken
    /// when there is some again. `Enough`: nobody receives any more.
    pub fn send(&self, batch: T, waker: &Waker) -> Accept {
        self.put(Queued { batch, reservation: None }, waker)
    }

    /// The same for a batch of so many bytes, which count as long as it waits inside. `of` is any reservation of the
    /// query's; what is sent is held already, so they are never refused.
    pub fn send_reserved(&self, batch: T, bytes: usize, of: &Reservation, waker: &Waker) -> Accept {
        let mut reservation = of.sibling();
        reservation.overdraw(bytes);
        self.put(Queued { batch, reservation: Some(reservation) }, waker)
    }

    /// Bounds the bytes that wait inside by what the query may have.
    pub fn bound(&self, memory: &QueryMemory) {
        self.0.0.lock().bytes_max = memory.limit_bytes() / BYTES_DIVISOR;
    }

    /// The same where whoever receives may take his time.
    pub fn bound_for_reader(&self, memory: &QueryMemory) {
        let mut state = self.0.0.lock();
        state.bytes_max = memory.limit_bytes() / READER_DIVISOR;
        state.memory = Some(memory.clone());
    }

    fn put(&self, queued: Queued<T>, waker: &Waker) -> Accept {
        let mut state = self.0.0.lock();
        if state.has_ended() {
            drop(state);
            drop(queued);
            return Accept::Enough;
        }
        state.bytes += queued.bytes();
        state.queue.push_back(queued);
        let receiver = state.waiting_receiver.take();
        let accept = state.accept(waker);
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        accept
    }

    /// `More` if there is credit; otherwise as [`send`](Self::send).
    pub fn ready(&self, waker: &Waker) -> Accept {
        self.0.0.lock().accept(waker)
    }

    /// Ends the port with an error, which the receiver gets instead of what is queued.
    pub fn fail(&self, error: Error) {
        let mut state = self.0.0.lock();
        state.failure.get_or_insert(error);
        let queue = std::mem::take(&mut state.queue);
        let senders = std::mem::take(&mut state.waiting_senders);
        let receiver = state.waiting_receiver.take();
        drop(state);
        drop(queue);
        senders.into_iter().chain(receiver).for_each(Waker::wake);
    }
}

impl<T> Queued<T> {
    fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }
}

impl<T> PortState<T> {
    fn has_credit(&self) -> bool {
        let is_overdrawn = || self.memory.as_ref().is_some_and(QueryMemory::is_overdrawn);
        let has_room = || self.queue.len() < self.credits && self.bytes < self.bytes_max && !is_overdrawn();
        self.queue.is_empty() || has_room()
    }

    fn has_ended(&self) -> bool {
        self.receiver_gone || self.failure.is_some()
    }

    fn accept(&mut self, waker: &Waker) -> Accept {
        if self.has_ended() {
            Accept::Enough
        } else if self.has_credit() {
            Accept::More
        } else {
            self.wait(waker);
            Accept::Wait
        }
    }

    fn wait(&mut self, waker: &Waker) {
        if !self.waiting_senders.iter().any(|other| other.will_wake(waker)) {
            self.waiting_senders.push(waker.clone());
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.senders -= 1;
        let receiver = if state.senders == 0 { state.waiting_receiver.take() } else { None };
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The oldest batch; `None` at the end. While pending, the waker is woken when it is worth asking again.
    pub fn receive(&self, waker: &Waker) -> Poll<Option<Result<T>>> {
        let mut state = self.0.0.lock();
        if let Some(error) = &state.failure {
            return Poll::Ready(Some(Err(error.clone())));
        }
        let Some(queued) = state.queue.pop_front() else {
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.waiting_receiver = Some(waker.clone());
            return Poll::Pending;
        };
        state.bytes -= queued.bytes();
        let senders = if state.has_credit() { std::mem::take(&mut state.waiting_senders) } else { Vec::new() };
        drop(state);
        senders.into_iter().for_each(Waker::wake);
        let Queued { batch, reservation } = queued;
        drop(reservation);
        Poll::Ready(Some(Ok(batch)))
    }

    /// Has the waker woken at the next batch or the end, and takes nothing. True if there is a failure already, or
    /// nobody sends any more.
    pub fn listen(&self, waker: &Waker) -> bool {
        let mut state = self.0.0.lock();
        state.waiting_receiver = Some(waker.clone());
        state.failure.is_some() || state.senders == 0
    }

    /// Batches that wait inside.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.0.0.lock().queue.len()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.receiver_gone = true;
        let queue = std::mem::take(&mut state.queue);
        let senders = std::mem::take(&mut state.waiting_senders);
        drop(state);
        drop(queue);
        senders.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use diligence_base::ids::QueryId;
    use diligence_memory::Broker;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    #[test]
    fn credits_hold_a_sender_until_the_receiver_takes() {
        let (sender, receiver) = port::<u32>(2);
        let (woken, waker) = counting();
        assert_eq!(sender.send(1, &waker), Accept::More);
        assert_eq!(sender.send(2, &waker), Accept::Wait);
        assert_eq!(sender.ready(&waker), Accept::Wait);
        assert_eq!((sender.waiting_senders(), receiver.listen(&waker)), (1, false));
        assert!(matches!(receiver.receive(&waker), Poll::Ready(Some(Ok(1)))));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!((sender.ready(&waker), sender.waiting_senders()), (Accept::More, 0));
        drop(sender);
        assert!(receiver.listen(&waker));
    }

    #[test]
    fn what_waits_inside_is_reserved_and_bounded() {
        let memory = Broker::new(3200).account(QueryId(1), None);
        let (sender, receiver) = port::<u32>(4);
        sender.bound(&memory);
        let none = memory.reservation("Result");
        let (woken, waker) = counting();
        assert_eq!(sender.send_reserved(1, 60, &none, &waker), Accept::More);
        assert_eq!(sender.send_reserved(2, 60, &none, &waker), Accept::Wait);
        assert_eq!(memory.reserved_bytes(), 120);
        assert!(matches!(receiver.receive(&waker), Poll::Ready(Some(Ok(1)))));
        assert_eq!((woken.0.load(Ordering::Relaxed), memory.reserved_bytes()), (1, 60));
        assert_eq!(sender.send_reserved(3, 1_000_000, &none, &waker), Accept::Wait);
        drop(receiver);
        assert_eq!(memory.reserved_bytes(), 0);
        assert_eq!(sender.send_reserved(4, 60, &none, &waker), Accept::Enough);
        assert_eq!(memory.reserved_bytes(), 0);
    }

    #[test]
    fn a_slow_reader_has_one_batch_while_more_than_the_budget_is_reserved() {
        let broker = Broker::new(6400);
        let memory = broker.account(QueryId(1), None);
        let (sender, receiver) = port::<u32>(4);
        sender.bound_for_reader(&memory);
        let none = memory.reservation("Result");
        let (woken, waker) = counting();
        assert_eq!(sender.send_reserved(1, 10, &none, &waker), Accept::More);
        let mut other = broker.account(QueryId(2), None).reservation("Sort");
        other.overdraw(6400);
        assert_eq!(sender.ready(&waker), Accept::Wait);
        assert_eq!(sender.send_reserved(2, 10, &none, &waker), Accept::Wait);
        assert!(matches!(receiver.receive(&waker), Poll::Ready(Some(Ok(1)))));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "one is left");
        drop(other);
        assert!(matches!(receiver.receive(&waker), Poll::Ready(Some(Ok(2)))));
        assert_eq!((woken.0.load(Ordering::Relaxed), sender.ready(&waker)), (1, Accept::More));
    }

    #[test]
    fn the_end_comes_after_the_last_sender_and_the_queue() {
        let (sender, receiver) = port::<u32>(4);
        let (woken, waker) = counting();
        let second = sender.clone();
        assert!(receiver.receive(&waker).is_pending());
        assert_eq!(sender.send(1, &waker), Accept::More);
        drop(sender);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(matches!(receiver.receive(&waker), Poll::Ready(Some(Ok(1)))));
        assert!(receiver.receive(&waker).is_pending());
        drop(second);
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert!(matches!(receiver.receive(&waker), Poll::Ready(None)));
    }

    #[test]
    fn a_gone_receiver_is_enough_and_a_failure_comes_first() {
        let (sender, receiver) = port::<u32>(1);
        let (woken, waker) = counting();
        assert_eq!(sender.send(1, &waker), Accept::Wait);
        sender.fail(Error::value("division by zero"));
        assert!(matches!(receiver.receive(&waker), Poll::Ready(Some(Err(_)))));
        drop(receiver);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(sender.send(2, &waker), Accept::Enough);
    }
}
