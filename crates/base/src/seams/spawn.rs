//! Threads as a seam.

use std::thread::JoinHandle;

/// Starts threads. The engine calls it while it starts, and for threads that take the places of others: of workers
/// that wait for something outside of it, and of I/O threads whose jobs wait for other jobs. Each of these stays, so no
/// query starts one that comes later.
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

/// Threads that stand back behind the others of their process, and of other programs: the system gives them less of its
/// time while those want some, and has them wait when one of those wakes.
#[derive(Debug)]
pub struct NiceSpawn<'a> {
    /// Starts them.
    pub spawn: &'a dyn Spawn,
    /// How far, as nice(2) counts it: from 0, which is not at all, to 19.
    pub nice: u8,
}

impl Spawn for NiceSpawn<'_> {
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>> {
        let nice = self.nice;
        self.spawn.spawn(
            name,
            Box::new(move || {
                stand_back(nice);
                body();
            }),
        )
    }
}

/// Where the system has no such thing, or for one thread alone, all stay equal.
fn stand_back(nice: u8) {
    #[cfg(target_os = "linux")]
    if nice > 0 {
        // SAFETY: it changes the priority of the calling thread (0) and touches no memory; any process may make it
        // lower.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice.into()) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}

/// Threads that stay on one core, so that what its caches hold of their data stays with them.
#[derive(Debug)]
pub struct PinnedSpawn<'a> {
    /// Starts them.
    pub spawn: &'a dyn Spawn,
    /// Which of the cores that the process may use, counted from 0 and over again behind the last; any, if `None`.
    pub core: Option<usize>,
}

impl Spawn for PinnedSpawn<'_> {
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>> {
        let Some(core) = self.core else { return self.spawn.spawn(name, body) };
        self.spawn.spawn(
            name,
            Box::new(move || {
                stay_on(core);
                body();
            }),
        )
    }
}

/// Where the system has no such thing, or refuses it, the thread goes where the system likes.
fn stay_on(core: usize) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a set of cores is plain bits, of which none is set here; the calls get its size, and what they change
        // is the set and the calling thread (0).
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) != 0 {
                return;
            }
            let cores: Vec<usize> =
                (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &allowed)).collect();
            let Some(&core) = cores.get(core % cores.len().max(1)) else { return };
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}

impl Thread for JoinHandle<()> {
    fn join(self: Box<Self>) {
        if self.thread().id() != std::thread::current().id() {
            let _ = (*self).join();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The cores that the calling thread may be on.
    fn cores() -> Vec<usize> {
        // SAFETY: as above; it changes the set only.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed), 0);
            (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &allowed)).collect()
        }
    }

    #[test]
    fn threads_stay_on_the_core_that_they_are_to() {
        let all = cores();
        for (wanted, found) in [(None, all.clone()), (Some(0), vec![all[0]]), (Some(all.len()), vec![all[0]])] {
            let (give, take) = std::sync::mpsc::channel();
            let body = Box::new(move || give.send(cores()).unwrap());
            PinnedSpawn { spawn: &ThreadSpawn, core: wanted }.spawn("pinned".to_owned(), body).unwrap().join();
            assert_eq!(take.recv().unwrap(), found);
        }
        assert_eq!(cores(), all, "only those threads do");
    }

    #[test]
    fn threads_stand_back_as_far_as_they_are_to() {
        // SAFETY: it reads the priority of the calling thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        for (wanted, found) in [(0, before), (7, before.max(7)), (19, 19)] {
            let (give, take) = std::sync::mpsc::channel();
            let body = Box::new(move || give.send(nice()).unwrap());
            NiceSpawn { spawn: &ThreadSpawn, nice: wanted }.spawn("nice".to_owned(), body).unwrap().join();
            assert_eq!(take.recv().unwrap(), found);
        }
        assert_eq!(nice(), before, "only those threads do");
    }
}
