//! Ends statements that hang, so that a lost wake-up is a failed record and not a suite that never ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diligence_db::CancelToken;
use parking_lot::Mutex;

/// How long a statement may take; the slowest takes some seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long it may take to obey a cancellation. Then the process ends, as nothing else can be done about it.
const GRACE: Duration = Duration::from_secs(30);

struct Watched {
    sql: String,
    token: Option<CancelToken>,
    since: Instant,
    cancelled: bool,
}

/// Knows what runs, and since when. Clones watch together.
#[derive(Clone)]
pub struct Watchdog {
    watched: Arc<Mutex<BTreeMap<u64, Watched>>>,
    next: Arc<AtomicU64>,
}

impl Watchdog {
    /// Starts watching on a thread of its own, which ends with the process.
    pub fn start() -> Self {
        let watchdog = Self { watched: Arc::default(), next: Arc::default() };
        let looking = watchdog.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                looking.look();
            }
        });
        watchdog
    }

    /// Watches a statement until the guard is dropped.
    pub fn watch(&self, sql: &str, token: Option<CancelToken>) -> Guard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let watched = Watched { sql: sql.to_owned(), token, since: Instant::now(), cancelled: false };
        self.watched.lock().insert(number, watched);
        Guard { watchdog: self.clone(), number }
    }

    fn look(&self) {
        for watched in self.watched.lock().values_mut() {
            let elapsed = watched.since.elapsed();
            if elapsed > PATIENCE + GRACE {
                eprintln!("a statement hangs and cannot be cancelled after {elapsed:.0?}:\n{}", watched.sql);
                std::process::exit(1);
            }
            if elapsed > PATIENCE && !watched.cancelled {
                eprintln!("a statement hangs and is cancelled after {elapsed:.0?}:\n{}", watched.sql);
                watched.cancelled = true;
                if let Some(token) = &watched.token {
                    token.cancel();
                }
            }
        }
    }
}

/// The statement is watched while this lives.
pub struct Guard {
    watchdog: Watchdog,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watchdog.watched.lock().remove(&self.number);
    }
}
