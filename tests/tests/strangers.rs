//! Thousands of sessions that are none: no panic, and nothing is left of them.
//!
//! `DILIGENCE_STRANGERS` says how many (10,000), `DILIGENCE_SEED` which.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use diligence_base::seams::Random;
use diligence_client::{Address, Connection};
use diligence_db::{Database, DatabaseOptions};
use diligence_server::{Limits, Server, ServerOptions};
use diligence_tests::{idle, strangers};

/// What the server's own threads are called here: a panic on one of them would end a session without a word.
const NETWORK_THREAD: &str = "strangers-network";

/// Sessions at the same time.
const AT_ONCE: usize = 16;

/// The memory that the process may gain between the first fifth of the sessions and the last: buffers of its allocator.
const GAIN_BYTES_MAX: u64 = 64 << 20;

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn malformed_sessions_leave_nothing() {
    // Before the first panic that is expected: those are told from others by a hook that goes around this one.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some(NETWORK_THREAD) {
            PANICS.lock().unwrap().push(panic.to_string());
        }
        usual(panic);
    }));
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |value| value.parse().unwrap());
    let (sessions, seed) = (number("DILIGENCE_STRANGERS", 10_000), number("DILIGENCE_SEED", 1));

    let network = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(NETWORK_THREAD)
        .enable_all()
        .build()
        .unwrap();
    let options = DatabaseOptions { memory_bytes: Some(64 << 20), workers: Some(2), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let options = ServerOptions {
        postgres: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        limits: Limits { statement_time_max: Duration::from_secs(5), ..Limits::default() },
        ..ServerOptions::default()
    };
    let server = network.block_on(Server::start(database.clone(), options)).unwrap();
    let address = Address::Tcp(server.addresses().postgres.unwrap());

    throng(&address, sessions / 5, seed);
    quiet(&server, &database, seed);
    let (files, resident) = (open_files(), resident_bytes());
    throng(&address, sessions - sessions / 5, seed + 1);
    quiet(&server, &database, seed);
    // A session is out of the registry a moment before its socket is closed.
    let mut waited = Duration::ZERO;
    while open_files().len() > files.len() {
        assert!(waited < Duration::from_secs(20), "files are left open, seed {seed}: {files:?}, {:?}", open_files());
        std::thread::sleep(Duration::from_millis(10));
        waited += Duration::from_millis(10);
    }
    let gained = resident_bytes().saturating_sub(resident);
    assert!(gained <= GAIN_BYTES_MAX, "{gained} bytes more after {sessions} sessions, seed {seed}");
    let panics = PANICS.lock().unwrap();
    assert!(panics.is_empty(), "sessions panicked, seed {seed}: {panics:?}");

    // The server is as it was.
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = client.block_on(async {
        let mut connection = Connection::open(&address, "ann", "diligence", &[]).await.unwrap();
        connection.simple("SELECT 40 + 2").await.unwrap()
    });
    assert_eq!(answers[0].rows, [[Some(b"42".to_vec())]]);
    assert!(network.block_on(server.drain()), "a session was still there");
}

/// So many sessions, some at the same time. Half of them wait for what the server says, the others leave.
fn throng(address: &Address, sessions: u64, seed: u64) {
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&client, async {
        let address = Rc::new(address.clone());
        let tasks: Vec<_> = (0..AT_ONCE as u64)
            .map(|first| {
                let address = address.clone();
                tokio::task::spawn_local(async move {
                    for number in (first..sessions).step_by(AT_ONCE) {
                        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
                        let mut connection = Connection::open_silently(&address).await.unwrap();
                        let bytes = strangers::session(&mut random);
                        // The server may have closed it before everything is sent.
                        if connection.send(&bytes).await.is_ok() && random.below(2) == 0 {
                            let _ = connection.finish_sending().await;
                            while connection.next().await.is_ok() {}
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Waits until no session is there, and nothing is left of their statements.
fn quiet(server: &Server, database: &Database, seed: u64) {
    let mut waited = Duration::ZERO;
    while server.registry().count() > 0 || server.execution().admission().info().total().running > 0 {
        assert!(waited < Duration::from_secs(20), "{} sessions are left, seed {seed}", server.registry().count());
        std::thread::sleep(Duration::from_millis(10));
        waited += Duration::from_millis(10);
    }
    idle::wait(database).unwrap();
}

/// What the process has open.
fn open_files() -> Vec<PathBuf> {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    files.map(|file| std::fs::read_link(file.path()).unwrap_or_default()).collect()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
