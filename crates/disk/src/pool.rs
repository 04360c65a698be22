//! Threads for what blocks: a few primed ones that wait for files, so that no worker of an engine does.

use std::collections::VecDeque;
use std::sync::Arc;

use diligence_base::seams::{Clock, Spawn, Thread};
use diligence_base::sync::atomic::{AtomicU64, Ordering};
use diligence_base::sync::{Condvar, Latch, Mutex};
use diligence_base::{Error, Result};

/// Jobs of I/O threads.
static JOBS: Latch = Latch::new("io");

/// What blocks. It does not panic: its maker catches panics.
type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Jobs {
    queue: VecDeque<(u64, Job)>,
    /// Jobs that threads are at, but for those that wait for other work.
    running: usize,
    /// Jobs that may run at once, and threads that were started.
    threads: usize,
    started: usize,
    /// Threads whose jobs wait for other work.
    absent: usize,
    stopping: bool,
}

impl Jobs {
    /// Threads that work on jobs or sleep.
    fn present(&self) -> usize {
        self.started.saturating_sub(self.absent)
    }
}

/// The threads and their queue. The queue is bounded by those who fill it: each keeps a bounded number of clusters in
/// flight.
pub struct IoPool {
    name: &'static str,
    jobs: Mutex<Jobs>,
    available: Condvar,
    clock: Arc<dyn Clock>,
    jobs_total: AtomicU64,
    wait_ns_total: AtomicU64,
    service_ns_total: AtomicU64,
    spawn: Arc<dyn Spawn>,
    /// True if there are no threads.
    inline: bool,
    threads: Mutex<Vec<Box<dyn Thread>>>,
}

/// A pool at one moment. Totals count from its start.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// Its name.
    pub name: &'static str,
    /// Jobs in its queue.
    pub queued: usize,
    /// Jobs that threads are at, but for those that wait for other work.
    pub running: usize,
    /// Jobs that ever came.
    pub jobs_total: u64,
    /// Time that jobs have spent in the queue, in nanoseconds.
    pub wait_ns_total: u64,
    /// Time that threads have spent on jobs, in nanoseconds.
    pub service_ns_total: u64,
}

impl IoPool {
    /// A pool of `threads` threads, started now. Without threads, jobs run at once on the thread that submits them.
    /// Fails with kind `Resource` if the system has no threads left.
    pub fn start(threads: usize, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Result<Arc<Self>> {
        Self::start_named("io", threads, clock, spawn)
    }

    /// The same under another name: files of temp space have threads of their own, so that scans cannot keep them
    /// waiting. Fails in the same way.
    pub fn start_named(
        name: &'static str,
        threads: usize,
        clock: Arc<dyn Clock>,
        spawn: Arc<dyn Spawn>,
    ) -> Result<Arc<Self>> {
        let pool = Arc::new(Self {
            name,
            jobs: Mutex::named(&JOBS, Jobs::default()),
            available: Condvar::new(),
            clock,
            jobs_total: AtomicU64::new(0),
            wait_ns_total: AtomicU64::new(0),
            service_ns_total: AtomicU64::new(0),
            spawn,
            inline: threads == 0,
            threads: Mutex::default(),
        });
        for index in 0..threads {
            pool.start_thread().map_err(|error| {
                pool.stop();
                Error::resource(format!("the system refuses to start I/O thread {index} of {threads}: {error}"))
            })?;
        }
        pool.jobs.lock().threads = threads;
        Ok(pool)
    }

    fn start_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let index = {
            let mut jobs = self.jobs.lock();
            jobs.started += 1;
            jobs.started - 1
        };
        let own = self.clone();
        let started = self.spawn.spawn(format!("diligence-{}-{index}", self.name), Box::new(move || own.serve()));
        match started {
            Ok(thread) => self.threads.lock().push(thread),
            Err(error) => {
                self.jobs.lock().started -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Has so many threads work from now on, one at least: starts those that are missing, and lets those that are too
    /// many sleep after their present job. A pool without threads stays one, and so does one that has stopped. Returns
    /// how many there are: fewer, if the system has no more. To be called by one thread at a time.
    pub fn set_threads(self: &Arc<Self>, threads: usize) -> usize {
        let wanted = threads.max(1);
        loop {
            let present = {
                let jobs = self.jobs.lock();
                if self.inline || jobs.stopping {
                    return jobs.threads;
                }
                jobs.present()
            };
            if present >= wanted || self.start_thread().is_err() {
                break;
            }
        }
        let mut jobs = self.jobs.lock();
        jobs.threads = wanted.min(jobs.present());
        let threads = jobs.threads;
        drop(jobs);
        self.available.notify_all();
        threads
    }

    /// The calling thread, which runs a job, will wait for work that may need this pool. Until it [comes
    /// back](Self::come_back), another thread takes its place: one that sleeps, or a new one, which stays. If the
    /// system has no more, its place is taken when another job ends.
    pub fn leave(self: &Arc<Self>) {
        if self.inline {
            return;
        }
        let (needs_thread, has_work) = {
            let mut jobs = self.jobs.lock();
            // A pool that has stopped runs jobs where they come from, and counts none.
            jobs.running = jobs.running.saturating_sub(1);
            jobs.absent += 1;
            (jobs.present() < jobs.threads && !jobs.stopping, !jobs.queue.is_empty())
        };
        // Without one, jobs wait until another has ended.
        let has_started = needs_thread && self.start_thread().is_ok();
        if has_work && !has_started {
            self.available.notify_one();
        }
    }

    /// The calling thread goes on with its job. The thread that has taken its place gives it up after its own job.
    pub fn come_back(&self) {
        if self.inline {
            return;
        }
        let mut jobs = self.jobs.lock();
        jobs.running += 1;
        jobs.absent = jobs.absent.saturating_sub(1);
    }

    /// Queues a job. Where no thread is left, it runs at once.
    pub fn submit(&self, job: Job) {
        self.jobs_total.fetch_add(1, Ordering::Relaxed);
        let now_ns = self.clock.now_ns();
        let mut jobs = self.jobs.lock();
        if self.inline || jobs.stopping {
            drop(jobs);
            return self.work(now_ns, job);
        }
        jobs.queue.push_back((now_ns, job));
        drop(jobs);
        self.available.notify_one();
    }

    /// The pool at this moment.
    pub fn info(&self) -> PoolInfo {
        let jobs = self.jobs.lock();
        PoolInfo {
            name: self.name,
            queued: jobs.queue.len(),
            running: jobs.running,
            jobs_total: self.jobs_total.load(Ordering::Relaxed),
            wait_ns_total: self.wait_ns_total.load(Ordering::Relaxed),
            service_ns_total: self.service_ns_total.load(Ordering::Relaxed),
        }
    }

    fn serve(&self) {
        loop {
            let (queued_at_ns, job) = {
                let mut jobs = self.jobs.lock();
                loop {
                    if jobs.stopping {
                        return;
                    }
                    let may_run = jobs.running < jobs.threads;
                    if let Some(job) = may_run.then(|| jobs.queue.pop_front()).flatten() {
                        jobs.running += 1;
                        break job;
                    }
                    self.available.wait(&mut jobs);
                }
            };
            self.work(queued_at_ns, job);
            self.jobs.lock().running -= 1;
        }
    }

    fn work(&self, queued_at_ns: u64, job: Job) {
        let start_ns = self.clock.now_ns();
        self.wait_ns_total.fetch_add(start_ns.saturating_sub(queued_at_ns), Ordering::Relaxed);
        job();
        self.service_ns_total.fetch_add(self.clock.now_ns().saturating_sub(start_ns), Ordering::Relaxed);
    }

    /// Ends the threads after their present job and waits for them. Jobs that are queued are dropped: they hold those
    /// who wait for them, and through those this pool.
    pub fn stop(&self) {
        let queue = {
            let mut jobs = self.jobs.lock();
            jobs.stopping = true;
            std::mem::take(&mut jobs.queue)
        };
        drop(queue);
        self.available.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(Thread::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use diligence_base::seams::{SystemClock, ThreadSpawn};

    use super::*;

    /// The system has so many threads, and no more.
    #[derive(Debug)]
    struct Few(Mutex<usize>);

    impl Spawn for Few {
        fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>> {
            let mut left = self.0.lock();
            *left = left.checked_sub(1).ok_or(std::io::ErrorKind::WouldBlock)?;
            ThreadSpawn.spawn(name, body)
        }
    }

    #[test]
    fn as_many_jobs_run_at_once_as_there_are_to_be_threads() {
        let spawn: Arc<dyn Spawn> = Arc::new(Few(Mutex::new(3)));
        let pool = IoPool::start(1, Arc::new(SystemClock::default()), spawn.clone()).unwrap();
        // Three, though five were asked for; later two, though three were started.
        for (wanted, there) in [(1, 1), (5, 3), (2, 2), (3, 3), (0, 1)] {
            assert_eq!(pool.set_threads(wanted), there);
            let (began, begins) = mpsc::channel();
            let (end, ends) = mpsc::channel::<()>();
            let ends = Arc::new(std::sync::Mutex::new(ends));
            for _ in 0..there + 1 {
                let (began, ends) = (began.clone(), ends.clone());
                pool.submit(Box::new(move || {
                    began.send(()).unwrap();
                    let _ = ends.lock().unwrap().recv();
                }));
            }
            (0..there).for_each(|_| begins.recv_timeout(Duration::from_secs(10)).unwrap());
            let info = pool.info();
            assert_eq!((info.running, info.queued, begins.try_recv().is_err()), (there, 1, true), "{wanted}");
            (0..=there).for_each(|_| end.send(()).unwrap());
            begins.recv_timeout(Duration::from_secs(10)).unwrap();
            while pool.info().running > 0 {
                std::thread::yield_now();
            }
        }
        pool.stop();
        assert_eq!(pool.set_threads(9), 1, "it has ended");
        assert_eq!(IoPool::start(0, Arc::new(SystemClock::default()), spawn).unwrap().set_threads(2), 0);
    }
    /// Submits a job within a job, so many deep, each of which waits for the one that it has submitted.
    fn nest(pool: &Arc<IoPool>, depth: usize, done: mpsc::Sender<()>) {
        let own = pool.clone();
        pool.submit(Box::new(move || {
            if depth > 0 {
                let (ended, ends) = mpsc::channel();
                nest(&own, depth - 1, ended);
                own.leave();
                ends.recv().unwrap();
                own.come_back();
            }
            done.send(()).unwrap();
        }));
    }

    #[test]
    fn jobs_wait_for_jobs_that_they_have_submitted() {
        let pool = IoPool::start(2, Arc::new(SystemClock::default()), Arc::new(ThreadSpawn)).unwrap();
        for _ in 0..3 {
            let (done, ends) = mpsc::channel();
            (0..3).for_each(|_| nest(&pool, 20, done.clone()));
            (0..3).for_each(|_| ends.recv_timeout(Duration::from_secs(60)).unwrap());
        }
        // A thread counts its job as ended after others have heard of it.
        while pool.info().running > 0 {
            std::thread::yield_now();
        }
        let jobs = pool.jobs.lock();
        assert_eq!((jobs.absent, jobs.threads), (0, 2));
        assert!(jobs.started <= 2 + 3 * 20, "{} threads were started", jobs.started);
        drop(jobs);
        pool.stop();
    }
}
