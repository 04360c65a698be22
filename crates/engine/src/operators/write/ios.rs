//! I/O that is under way for one packet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use diligence_base::{Error, Result};
use diligence_storage::{PartIo, WriteIo};
use futures::FutureExt;

use super::panicked;
use crate::operators::scan::Io;
use crate::sync::Mutex;

/// I/O that a packet has under way at once at most.
const IOS_MAX: usize = 4;

/// The I/O of one packet. Clones are the same.
#[derive(Clone)]
pub(super) struct Ios {
    io: Io,
    state: Arc<Mutex<IosState>>,
}

#[derive(Default)]
struct IosState {
    running: usize,
    bytes: usize,
    error: Option<Error>,
    waker: Option<Waker>,
}

impl Ios {
    pub fn new(io: Io) -> Self {
        Self { io, state: Arc::default() }
    }

    /// Whether more may be started.
    pub fn has_room(&self) -> bool {
        self.state.lock().running < IOS_MAX
    }

    /// Bytes in memory for what is under way.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Starts one.
    pub fn start(&self, part: PartIo) {
        let PartIo { bytes, io } = part;
        {
            let mut state = self.state.lock();
            state.running += 1;
            state.bytes += bytes;
        }
        let own = self.clone();
        run(&self.io, io, move |result| own.ended(bytes, result));
    }

    fn ended(&self, bytes: usize, result: Result<()>) {
        let waker = {
            let mut state = self.state.lock();
            state.running -= 1;
            state.bytes -= bytes;
            if let Err(error) = result {
                state.error.get_or_insert(error);
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the packet is to wait: until there is room for more, or with `for_all` until nothing is under way. Then
    /// its waker is woken with the next that ends. Fails if one has failed.
    pub fn waits(&self, for_all: bool, waker: &Waker) -> Result<bool> {
        let mut state = self.state.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        let waits = if for_all { state.running > 0 } else { state.running >= IOS_MAX };
        if waits {
            state.waker = Some(waker.clone());
        }
        Ok(waits)
    }
}

/// Has I/O done where it belongs, and calls `ended` there.
pub(super) fn run<T: Send + 'static>(io: &Io, work: WriteIo<T>, ended: impl FnOnce(Result<T>) + Send + 'static) {
    match work {
        WriteIo::Ready(result) => ended(result),
        WriteIo::Blocking(write) => io.pool.submit(Box::new(move || {
            ended(catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| Err(panicked())));
        })),
        WriteIo::Waiting(write) => {
            let write = AssertUnwindSafe(write).catch_unwind();
            let work = async move { ended(write.await.unwrap_or_else(|_| Err(panicked()))) };
            if io.inline { io.runtime.block_on(work) } else { drop(io.runtime.spawn(work)) }
        }
    }
}
