//! Stages in front of the engine: bounded queues, each with threads of its own that were started before they are
//! needed.
//!
//! The life of a statement crosses them in order: *connect* (the doors' own accounting of handshakes), *parse*,
//! *optimize*, *execute*, *disconnect*. Whoever wants work done waits for a place in the stage's queue, without a
//! thread: so a full stage holds back the stage before it, and at last the sessions, which then read no more from their
//! clients.
//!
//! Invariant: at most `limit` pieces of work are queued in a stage; work whose asker has gone away is not begun.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use diligence_base::wanted::while_wanted;
use diligence_base::{Error, Result};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

/// A piece of work, and when it was queued. It says itself whether anybody still wants it.
struct Work {
    queued: Instant,
    run: Box<dyn FnOnce() + Send>,
}

/// A stage. Clones are the same stage; its threads end when the last one is dropped.
#[derive(Clone)]
pub struct Stage(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    limit: usize,
    threads: usize,
    places: Semaphore,
    queue: Mutex<Queue>,
    wake: Condvar,
    counters: LiveCounters,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    closed: bool,
}

#[derive(Default)]
struct LiveCounters {
    waiting: AtomicUsize,
    running: AtomicUsize,
    done: AtomicU64,
    wait_ns: AtomicU64,
    service_ns: AtomicU64,
}

/// A stage's counters at one moment.
#[derive(Clone, Debug)]
pub struct StageCounters {
    /// Its name.
    pub name: &'static str,
    /// Work in the queue.
    pub queued: usize,
    /// What the queue holds at most.
    pub limit: usize,
    /// Askers that wait for a place in the queue.
    pub waiting: usize,
    /// Work on the stage's threads.
    pub running: usize,
    /// The stage's threads.
    pub threads: usize,
    /// Work done since the start.
    pub done_total: u64,
    /// Time in the queue, of all work done.
    pub wait_ns_total: u64,
    /// Time on a thread, of all work done.
    pub service_ns_total: u64,
}

impl Stage {
    /// Starts a stage. Fails with kind `Resource` if the system has no threads left.
    pub fn start(name: &'static str, threads: usize, limit: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            name,
            limit,
            threads,
            places: Semaphore::new(limit),
            queue: Mutex::default(),
            wake: Condvar::new(),
            counters: LiveCounters::default(),
        });
        // Made first, so that what was started ends if the rest cannot start.
        let stage = Self(Arc::new(Handle { shared: shared.clone() }));
        for _ in 0..threads {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("diligence-{name}"))
                .spawn(move || shared.work())
                .map_err(|error| Error::resource(format!("no thread for the stage '{name}': {error}")))?;
        }
        Ok(stage)
    }

    /// Has work done on one of the stage's threads, and waits for it. Dropped, the work is not begun if it has not yet,
    /// and ends early where it [asks](diligence_base::wanted::check). Fails with the error of the work, and with kind
    /// `Resource` if the stage takes no more work.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let shared = &self.0.shared;
        let place = {
            let _waiting = Counted::new(&shared.counters.waiting);
            shared.places.acquire().await.map_err(|_| closed(shared.name))?
        };
        // Given back by the thread that takes the work out of the queue.
        place.forget();
        let (answer, answered) = oneshot::channel();
        let run = move || {
            if answer.is_closed() {
                return;
            }
            let answer = Rc::new(answer);
            let asked = answer.clone();
            let work = move || while_wanted(move || asked.is_closed(), work);
            let done =
                catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Error::bug("a stage's work panicked")));
            // The asker may have gone meanwhile: then what was made is dropped here.
            if let Some(answer) = Rc::into_inner(answer) {
                let _ = answer.send(done);
            }
        };
        shared.push(Box::new(run));
        answered.await.unwrap_or_else(|_| Err(closed(shared.name)))
    }

    /// Has something dropped on one of the stage's threads. Takes no place in the queue: what ends must not have to
    /// wait.
    pub fn dispose<T: Send + 'static>(&self, thing: T) {
        let run = move || drop(catch_unwind(AssertUnwindSafe(move || drop(thing))));
        self.0.shared.push_extra(Box::new(run));
    }

    /// The counters now.
    pub fn counters(&self) -> StageCounters {
        let shared = &self.0.shared;
        let counters = &shared.counters;
        StageCounters {
            name: shared.name,
            queued: shared.queue.lock().work.len(),
            limit: shared.limit,
            waiting: counters.waiting.load(Ordering::Relaxed),
            running: counters.running.load(Ordering::Acquire),
            threads: shared.threads,
            done_total: counters.done.load(Ordering::Relaxed),
            wait_ns_total: counters.wait_ns.load(Ordering::Relaxed),
            service_ns_total: counters.service_ns.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.places.close();
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn push(self: &Arc<Self>, run: Box<dyn FnOnce() + Send>) {
        let shared = self.clone();
        self.push_extra(Box::new(move || {
            shared.places.add_permits(1);
            run();
        }));
    }

    fn push_extra(&self, run: Box<dyn FnOnce() + Send>) {
        let mut queue = self.queue.lock();
        if !queue.closed {
            queue.work.push_back(Work { queued: Instant::now(), run });
            self.wake.notify_one();
        }
    }

    fn work(&self) {
        loop {
            // Counted before the queue is given up: work is queued or running at every moment. And until it is counted
            // as done: if nothing runs, all of it is done.
            let (work, _running) = {
                let mut queue = self.queue.lock();
                loop {
                    if let Some(work) = queue.work.pop_front() {
                        break (work, Counted::new(&self.counters.running));
                    }
                    if queue.closed {
                        return;
                    }
                    self.wake.wait(&mut queue);
                }
            };
            let began = Instant::now();
            self.counters.wait_ns.fetch_add((began - work.queued).as_nanos() as u64, Ordering::Relaxed);
            (work.run)();
            self.counters.service_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.counters.done.fetch_add(1, Ordering::Release);
        }
    }
}

/// One more, as long as it lives.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(crate) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn closed(stage: &str) -> Error {
    Error::resource(format!("the server is stopping: the stage '{stage}' takes no more work")).with_code("57P01")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use diligence_base::wanted::check;

    use super::*;

    #[tokio::test]
    async fn a_full_queue_makes_askers_wait_and_loses_nothing() {
        let stage = Stage::start("test", 1, 2).unwrap();
        let (release, held) = channel::<()>();
        let first = tokio::spawn({
            let stage = stage.clone();
            async move { stage.run(move || held.recv().map_err(|_| Error::bug("never released"))).await }
        });
        while stage.counters().running == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let others = (0..5).map(|number| {
            let stage = stage.clone();
            tokio::spawn(async move { stage.run(move || Ok(number)).await })
        });
        let others = others.collect::<Vec<_>>();
        // Those that find room have waited for a moment, too.
        while (stage.counters().queued, stage.counters().waiting) != (2, 3) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let counters = stage.counters();
        assert_eq!((counters.queued, counters.waiting, counters.running), (2, 3, 1));
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for (number, other) in others.into_iter().enumerate() {
            assert_eq!(other.await.unwrap().unwrap(), number);
        }
        // The last has its answer a moment before its work is counted.
        while stage.counters().running > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(stage.counters().done_total, 6);
    }

    #[tokio::test]
    async fn work_that_was_given_up_ends_where_it_asks() {
        let stage = Stage::start("test", 1, 2).unwrap();
        let (tell, told) = channel();
        let asker = stage.clone();
        let endless = tokio::spawn(async move {
            let endless = move || {
                tell.send(()).map_err(|_| Error::bug("nobody listens"))?;
                loop {
                    check()?;
                }
            };
            asker.run::<()>(endless).await
        });
        tokio::task::spawn_blocking(move || told.recv().unwrap()).await.unwrap();
        endless.abort();
        // Its thread is free again.
        stage.run(|| Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_given_up_work_is_not_begun() {
        let stage = Stage::start("test", 1, 8).unwrap();
        let error = stage.run::<()>(|| panic!("on purpose")).await.unwrap_err();
        assert_eq!(error.kind(), diligence_base::ErrorKind::Bug);
        // The caller has its answer a moment before the thread is free.
        while stage.counters().running > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (release, held) = channel::<()>();
        let blocking = tokio::spawn({
            let stage = stage.clone();
            async move { stage.run(move || held.recv().map_err(|_| Error::bug("never released"))).await }
        });
        while stage.counters().running == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (tell, told) = channel();
        let given_up = stage.run(move || tell.send(()).map_err(|_| Error::bug("nobody listens")));
        assert!(tokio::time::timeout(Duration::from_millis(20), given_up).await.is_err());
        release.send(()).unwrap();
        blocking.await.unwrap().unwrap();
        stage.run(|| Ok(())).await.unwrap();
        assert!(told.try_recv().is_err());
    }
}
