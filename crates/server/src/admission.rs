//! How many queries run at once, and how many may wait.
//!
//! A query is admitted when fewer than `running_max` run; otherwise it waits in line, first come, first served; and when
//! `queue_max` wait already, it is refused at once, with an error that says so. Nothing is dropped silently.
//!
//! A query whose client does not read is not counted as running after a while: it holds its session's memory, but no worker,
//! and it must not keep others waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use diligence_base::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sqlstate;

/// The door to the engine.
pub struct Admission {
    running_max: usize,
    queue_max: usize,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    admitted: AtomicU64,
    refused: AtomicU64,
    wait_ns: AtomicU64,
}

/// The right to run, as long as it lives.
#[derive(Debug)]
pub struct Admitted(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionInfo {
    /// Queries that run.
    pub running: usize,
    /// Queries that run at most.
    pub running_max: usize,
    /// Queries that wait.
    pub waiting: usize,
    /// Queries that wait at most.
    pub queue_max: usize,
    /// Queries let in since the start.
    pub admitted_total: u64,
    /// Queries refused since the start.
    pub refused_total: u64,
    /// Time waited, of all that were let in.
    pub wait_ns_total: u64,
}

impl Admission {
    /// A door for so many.
    pub fn new(running_max: usize, queue_max: usize) -> Self {
        Self {
            running_max,
            queue_max,
            places: Arc::new(Semaphore::new(running_max)),
            waiting: AtomicUsize::new(0),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
        }
    }

    /// Waits for a place. Fails at once when too many wait.
    pub async fn enter(&self) -> Result<Admitted> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            self.admitted.fetch_add(1, Ordering::Relaxed);
            return Ok(Admitted(place));
        }
        let waiting = Waiting::join(self)?;
        let began = Instant::now();
        let place = self.places.clone().acquire_owned().await.map_err(|_| Error::bug("admission was closed"))?;
        drop(waiting);
        self.wait_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.admitted.fetch_add(1, Ordering::Relaxed);
        Ok(Admitted(place))
    }

    /// The counters now.
    pub fn info(&self) -> AdmissionInfo {
        AdmissionInfo {
            running: self.running_max - self.places.available_permits(),
            running_max: self.running_max,
            waiting: self.waiting.load(Ordering::Relaxed),
            queue_max: self.queue_max,
            admitted_total: self.admitted.load(Ordering::Relaxed),
            refused_total: self.refused.load(Ordering::Relaxed),
            wait_ns_total: self.wait_ns.load(Ordering::Relaxed),
        }
    }
}

struct Waiting<'a>(&'a Admission);

impl<'a> Waiting<'a> {
    fn join(admission: &'a Admission) -> Result<Self> {
        let joined = admission.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < admission.queue_max).then_some(waiting + 1)
        });
        match joined {
            Ok(_) => Ok(Self(admission)),
            Err(waiting) => {
                admission.refused.fetch_add(1, Ordering::Relaxed);
                let text = format!("{} queries run and {waiting} wait: no more are taken", admission.running_max);
                Err(Error::new(diligence_base::ErrorKind::Retry, text)
                    .with_code(sqlstate::TOO_MANY)
                    .with_hint("try again in a moment; the server's --queue-max says how many may wait"))
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_when_too_many_wait_is_refused_and_the_others_get_in() {
        let admission = Arc::new(Admission::new(1, 1));
        let first = admission.enter().await.unwrap();
        let second = tokio::spawn({
            let admission = admission.clone();
            async move { admission.enter().await }
        });
        while admission.info().waiting == 0 {
            tokio::task::yield_now().await;
        }
        let refused = admission.enter().await.unwrap_err();
        assert_eq!(sqlstate::of(&refused), "53300");
        drop(first);
        let second = second.await.unwrap().unwrap();
        drop(second);
        let info = admission.info();
        assert_eq!((info.running, info.waiting, info.admitted_total, info.refused_total), (0, 0, 2, 1));
    }
}
