//! The day itself: who comes, what is looked at meanwhile, and what must be left in the evening.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use diligence_base::seams::Random;
use diligence_client::{Address, Connection};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use super::clients::{self, Heavy, heavy};
use super::server::{Footprint, Served};

const IDLE: usize = 250;
const ASKING: usize = 150;
const WITH_MEMORY: usize = 50;
const SLOW: usize = 15;
const LEAVERS: usize = 20;
const STRANGERS: usize = 10;
const HUGE: usize = 4;

/// What makes queries with memory differ; each sorts some 12 MB. They have no divisor in common with a power of ten, so
/// that no two rows are equal and the order is certain.
const HEAVY_FACTORS: [usize; 5] = [7919, 7921, 7923, 7927, 7929];

/// Three of them fill it.
const MEMORY_BYTES: usize = 48 << 20;

/// What is reserved above the budget at most: twice the broker's slack of 16 MiB, and as much as half of that of what
/// may be overdrawn: a batch of 512 KiB that waits for each slow reader, and one that is on its way to it; single rows,
/// and the buffers with which more is given back (`memory`, first page).
const SLACK_BYTES: usize = 48 << 20;

/// What a process may have beside the budget: programs and libraries, stacks, plans, sessions with their messages of
/// megabytes. The largest parts are statements of 20 MB that are parsed at the same time.
const BESIDE_BUDGET_BYTES: u64 = 640 << 20;

/// `SELECT 1` on a machine that others use, too. The goal is 100 ms on one that is free; the number is printed.
const P99_MS_MAX: f64 = 1000.0;
/// Short questions that are answered at least; some thousands were, and a tenth of that when they waited for grants of
/// memory behind heavy queries.
const SHORT_ANSWERS_MIN: usize = 500;

/// How long what was begun may take to go away in the evening.
const PATIENCE: Duration = Duration::from_secs(20);

/// What all clients know.
pub struct Day {
    pub address: Address,
    seed: u64,
    begins: Instant,
    ends: Instant,
    counts: RefCell<BTreeMap<&'static str, u64>>,
    longest_heavy: Cell<Duration>,
    /// Milliseconds that short questions took.
    short: RefCell<Vec<f64>>,
}

impl Day {
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// Whether it is too late to begin something long.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.begins + (self.ends - self.begins).mul_f64(0.6)
    }

    pub async fn until_the_end(&self) {
        tokio::time::sleep_until(self.ends).await;
    }

    pub fn random(&self, client: usize) -> Random {
        Random::new(self.seed.wrapping_mul(1_000_003).wrapping_add(client as u64))
    }

    pub fn count(&self, what: &'static str, more: u64) {
        *self.counts.borrow_mut().entry(what).or_default() += more;
    }

    pub fn short(&self, took: Duration) {
        self.short.borrow_mut().push(took.as_secs_f64() * 1e3);
    }

    pub fn longest_heavy(&self, took: Duration) {
        self.longest_heavy.set(self.longest_heavy.get().max(took));
    }
}

/// Lets a day happen. An error says what should not have been.
pub fn run(length: Duration, seed: u64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let mut server = Served::start(MEMORY_BYTES)?;
    let (morning, p99_ms) = LocalSet::new().block_on(&runtime, live(&mut server, length, seed))?;
    runtime.block_on(without_tables(&server.postgres))?;
    runtime.block_on(evening(&server, &morning))?;
    server.end()?;
    // Last, because all else has to hold however slow the machine is.
    if p99_ms > P99_MS_MAX {
        return Err(format!("SELECT 1 took {p99_ms:.0} ms at p99"));
    }
    Ok(())
}

/// The day until the last client has left. What the server had before, with nobody there, and how long `SELECT 1` took
/// at p99.
async fn live(server: &mut Served, length: Duration, seed: u64) -> Result<(Footprint, f64), String> {
    let heavy = Rc::new(alone(&server.postgres).await?);
    quiet(server).await?;
    let morning = server.footprint();
    let now = Instant::now();
    let day = Rc::new(Day {
        address: server.postgres.clone(),
        seed,
        begins: now,
        ends: now + length,
        counts: RefCell::default(),
        longest_heavy: Cell::default(),
        short: RefCell::default(),
    });
    // On a thread of its own, so that what the other clients do is not in its times.
    let (address, ends) = (day.address.clone(), day.ends);
    let probing = std::thread::spawn(move || clients::prober(&address, ends));
    let mut tasks = Vec::new();
    let mut add =
        |count: usize, client: &dyn Fn(usize) -> std::pin::Pin<Box<dyn Future<Output = Result<(), String>>>>| {
            for _ in 0..count {
                tasks.push(spawn_local(client(tasks.len())));
            }
        };
    add(IDLE, &|_| Box::pin(clients::idle(day.clone())));
    add(ASKING, &|number| Box::pin(clients::asking(day.clone(), number)));
    add(WITH_MEMORY, &|number| Box::pin(clients::with_memory(day.clone(), number, heavy.clone())));
    add(SLOW, &|number| Box::pin(clients::slow_reader(day.clone(), number)));
    add(LEAVERS, &|number| Box::pin(clients::leaver(day.clone(), number)));
    add(STRANGERS, &|number| Box::pin(clients::stranger(day.clone(), number)));
    add(HUGE, &|number| Box::pin(clients::huge(day.clone(), number)));

    let (mut most_sessions, mut most_reserved) = (0, 0);
    while !day.is_over() {
        let metrics = server.metrics().await?;
        let get = |name: &str| metrics.get(name).copied().unwrap_or(0);
        most_sessions = most_sessions.max(get("diligence_sessions"));
        most_reserved = most_reserved.max(get("diligence_memory_reserved_bytes"));
        if !server.lives() {
            return Err("the server is dead".to_owned());
        }
        sleep(Duration::from_millis(500)).await;
    }
    let mut failures = Vec::new();
    for task in tasks {
        failures.extend(task.await.map_err(|error| format!("a client panicked: {error}"))?.err());
    }
    let mut took = probing.join().map_err(|_| "the client of SELECT 1 panicked")??;
    let shares = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        [0.5, 0.99, 1.0]
            .map(|share| times.get((times.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0.0))
    };
    let show = |what: &str, count: usize, [p50, p99, most]: [f64; 3]| {
        println!("{what}, {count} times: p50 {p50:.1} ms, p99 {p99:.1} ms, at most {most:.1} ms");
    };
    let (one, short) = (shares(&mut took), shares(&mut day.short.borrow_mut()));
    let footprint = server.footprint();
    println!("{:?}; the longest of those with memory took {:?}", day.counts.borrow(), day.longest_heavy.get());
    show("SELECT 1", took.len(), one);
    show("short questions", day.short.borrow().len(), short);
    println!(
        "{most_sessions} sessions and {} MiB of {} reserved at most; resident: {} MiB before, {} MiB at most, {} MiB after",
        most_reserved >> 20,
        MEMORY_BYTES >> 20,
        morning.resident_bytes >> 20,
        footprint.peak_resident_bytes >> 20,
        footprint.resident_bytes >> 20
    );
    if !failures.is_empty() {
        failures.truncate(10);
        return Err(format!("clients were failed:\n{}", failures.join("\n")));
    }
    if day.counts.borrow().get("heavy answers").copied().unwrap_or(0) < WITH_MEMORY as u64 {
        return Err("not all queries with memory were answered".to_owned());
    }
    let short = day.short.borrow().len();
    if short < SHORT_ANSWERS_MIN {
        return Err(format!("only {short} short questions were answered: they wait for others"));
    }
    if most_reserved > (MEMORY_BYTES + SLACK_BYTES) as u64 {
        return Err(format!("{most_reserved} bytes were reserved of {MEMORY_BYTES}"));
    }
    let allowed = (MEMORY_BYTES + SLACK_BYTES) as u64 + BESIDE_BUDGET_BYTES;
    if footprint.peak_resident_bytes > allowed {
        return Err(format!("the process had {} bytes; {allowed} are allowed", footprint.peak_resident_bytes));
    }
    Ok((morning, one[1]))
}

/// The answers to the queries with memory, each run alone.
async fn alone(address: &Address) -> Result<Vec<Heavy>, String> {
    let connection = Connection::open(address, "ann", "diligence", &[]).await;
    let mut connection = connection.map_err(|error| format!("the first client is not let in: {error}"))?;
    let mut answers = Vec::new();
    for factor in HEAVY_FACTORS {
        let sql = heavy(factor);
        let mut answered = connection.simple(&sql).await.map_err(|error| format!("{sql}: {error}"))?;
        answers.push(Heavy { sql, expected: answered.remove(0).rows });
    }
    connection.close().await.map_err(|error| format!("a session cannot end: {error}"))?;
    Ok(answers)
}

/// Drops what a stranger may have made: tables in memory count as long as they live.
async fn without_tables(address: &Address) -> Result<(), String> {
    let dropped = async {
        let mut connection = Connection::open(address, "ann", "diligence", &[]).await?;
        connection.simple("DROP TABLE IF EXISTS s").await?;
        connection.close().await
    };
    dropped.await.map_err(|error| format!("after the day: {error}"))
}

/// Waits until nothing is left of anybody: gauges that must be zero.
async fn quiet(server: &Served) -> Result<(), String> {
    const ZERO: [&str; 8] = [
        "diligence_sessions",
        "diligence_connecting",
        "diligence_queries_",
        "diligence_stage_queued",
        "diligence_stage_waiting",
        "diligence_stage_running",
        "diligence_engine_stage_",
        "diligence_memory_reserved",
    ];
    let began = Instant::now();
    loop {
        let metrics = server.metrics().await?;
        let is_gauge = |name: &str| !name.contains("_total") && ZERO.iter().any(|zero| name.starts_with(zero));
        let left: Vec<_> = metrics.iter().filter(|(name, value)| is_gauge(name) && **value > 0).collect();
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{PATIENCE:?} after the last client there is still: {left:?}"));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Nothing must be left of the day.
async fn evening(server: &Served, morning: &Footprint) -> Result<(), String> {
    quiet(server).await?;
    let began = Instant::now();
    loop {
        let now = server.footprint();
        if now.files <= morning.files && now.threads <= morning.threads {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("files or threads are left: {now:?} after {morning:?}"));
        }
        sleep(Duration::from_millis(50)).await;
    }
}
