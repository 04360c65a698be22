//! Many reads and writes of temp files under way at once, all from one thread.
//!
//! ```text
//!   begin -----> under way -----> wait gives it back, with what came of it -----> Transfer::done
//!                (the queue owns it)                                                 |
//!      ^-------------------------- there is more to do ------------------------------+
//! ```
//!
//! Invariant: a transfer, and with it the memory that is read into or written from, belongs to the queue from its
//! beginning to its end. So it does not matter who has gone meanwhile, and a queue that is dropped first waits for all
//! that is under way.

use std::io::{self, IoSlice};
use std::sync::Arc;

use super::TempFile;

/// What a transfer reads into or writes from.
pub enum Memory<'a> {
    /// Is read into.
    Read(&'a mut [u8]),
    /// Are written, one after another.
    Write(Vec<IoSlice<'a>>),
}

/// One call of the system.
pub struct Request<'a> {
    /// Of which file.
    pub file: &'a dyn TempFile,
    /// From which of its bytes on.
    pub offset: u64,
    /// With which memory.
    pub memory: Memory<'a>,
}

impl Request<'_> {
    /// Does it now, and blocks meanwhile. Says how many bytes were read or written. Fails as the file
    /// does.
    pub fn run(self) -> io::Result<usize> {
        match self.memory {
            Memory::Read(buffer) => self.file.read_at(buffer, self.offset),
            Memory::Write(slices) => self.file.write_at(&slices, self.offset),
        }
    }
}

/// A read or a write with the memory that it needs, done in one request or several, one after another.
pub trait Transfer: Send {
    /// What to do now. The memory stays where it is when the transfer is moved, as that of any box or vector does.
    fn request(&mut self) -> Request<'_>;
    /// What came of it. Gives itself back if there is more to do.
    fn done(self: Box<Self>, result: io::Result<usize>) -> Option<Box<dyn Transfer>>;
}

/// Does all requests of a transfer, and blocks meanwhile.
pub fn transfer_now(transfer: Box<dyn Transfer>) {
    let mut next = Some(transfer);
    while let Some(mut transfer) = next {
        let result = transfer.request().run();
        next = transfer.done(result);
    }
}

/// A transfer, and what came of its request.
pub type Completion = (Box<dyn Transfer>, io::Result<usize>);

/// Requests that are under way. One thread has it.
pub trait TempQueue: Send {
    /// How many there are.
    fn under_way(&self) -> usize;
    /// Begins a transfer's request. No more may be under way than the queue was made for.
    fn begin(&mut self, transfer: Box<dyn Transfer>);
    /// Waits until a request is done or somebody rings the bell. Adds what is done, in any order.
    fn wait(&mut self, done: &mut Vec<Completion>);
    /// What wakes the thread that waits.
    fn bell(&self) -> Arc<dyn Bell>;
}

/// Wakes the thread that waits for requests.
pub trait Bell: Send + Sync {
    /// Has it return from [`TempQueue::wait`]: now, or from the next one if it does not wait.
    fn ring(&self);
}
