//! Wakers: of packets that wait, and of threads that do.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use diligence_base::sync::thread;

/// Adds a waker to those that wait, once.
pub(crate) fn enlist(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|other| other.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until it is ready, and sleeps meanwhile. For tests and benchmarks: a worker must not block.
pub fn block_on<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match poll(&waker) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
