//! Threads as a seam.

use std::thread::JoinHandle;

/// Starts threads. The engine calls it only while it starts, never for a query.
pub trait Spawn: Send + Sync + std::fmt::Debug {
    /// Starts a thread with a name that shows up in debuggers. Fails if the system has no more.
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>>;
}

/// A thread that was started.
pub trait Thread: Send {
    /// Waits for its end; on the thread itself it returns at once. A panic in it is not passed on.
    fn join(self: Box<Self>);
}

/// Threads of the operating system.
#[derive(Debug, Default)]
pub struct ThreadSpawn;

/// Bytes of stack of a worker: expression trees are evaluated recursively and DataFusion's planner
/// recurses with the depth of the statement. Virtual memory; only touched pages count.
const STACK_BYTES: usize = 8 * 1024 * 1024;

impl Spawn for ThreadSpawn {
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>> {
        let thread = std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(body)?;
        Ok(Box::new(thread))
    }
}

impl Thread for JoinHandle<()> {
    fn join(self: Box<Self>) {
        if self.thread().id() != std::thread::current().id() {
            let _ = (*self).join();
        }
    }
}
