//! Makes and tries inputs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::mutate;
use crate::parent::report;
use crate::targets::{Kind, Target};

/// The exit code of a child that found something and told of it.
pub const FOUND: i32 = 3;

/// Address space of the child. An input that makes a reader ask for more is a finding: the allocation fails and the
/// child aborts. Inputs are at most 64 KiB, but every thread of an engine reserves some address space of its own.
const ADDRESS_SPACE_BYTES: u64 = 6 << 30;

/// Where and why the last panic happened, whether or not it was caught on its way.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// What threads are called on which nothing may panic: a session's future would be gone, and nobody told.
pub const NETWORK_THREAD: &str = "fuzz-network";

static LAST_NETWORK_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The last panic on such a thread since this was asked.
pub fn network_panic() -> Option<String> {
    LAST_NETWORK_PANIC.lock().ok().and_then(|mut last| last.take())
}

/// Panics that the library catches and turns into errors are its business: they are remembered, not printed.
fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        if std::thread::current().name() == Some(NETWORK_THREAD)
            && let Ok(mut last) = LAST_NETWORK_PANIC.lock()
        {
            *last = Some(panic.to_string());
        }
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
}

/// Tries one input in this process.
pub fn once(kind: Kind, input: &[u8]) -> Result<String, String> {
    keep_panics_quiet();
    let mut target = kind.start()?;
    attempt(target.as_mut(), input).map(|()| format!("{}: nothing found", kind.name()))
}

/// Tries inputs from `seed` on, and notes each seed before its input is tried.
pub fn run(kind: Kind, seed: u64, seconds: u64, notes: &Path) -> ExitCode {
    limit_address_space();
    keep_panics_quiet();
    let started = OpenOptions::new()
        .write(true)
        .open(notes)
        .map_err(|error| error.to_string())
        .and_then(|notes| Ok((notes, kind.start()?)));
    let (notes, mut target) = match started {
        Ok(started) => started,
        Err(message) => {
            eprintln!("{}: {message}", kind.name());
            return ExitCode::FAILURE;
        }
    };
    let corpus = kind.corpus();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tried = 0;
    while Instant::now() < end {
        let now = seed.wrapping_add(tried);
        if let Err(error) = notes.write_all_at(&now.to_le_bytes(), 0) {
            eprintln!("{}: cannot note the seed: {error}", kind.name());
            return ExitCode::FAILURE;
        }
        if let Err(what) = attempt(target.as_mut(), &mutate::from(corpus, kind, now)) {
            eprintln!("{}", report(kind, now, &what));
            return ExitCode::from(FOUND as u8);
        }
        tried += 1;
    }
    println!("{}: {tried} inputs tried; {}", kind.name(), target.summary());
    ExitCode::SUCCESS
}

fn attempt(target: &mut dyn Target, input: &[u8]) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| target.run(input))) {
        Ok(done) => done,
        Err(_) => Err(LAST_PANIC.lock().map(|last| last.clone()).unwrap_or_default()),
    }
}

fn limit_address_space() {
    let limit = libc::rlimit { rlim_cur: ADDRESS_SPACE_BYTES, rlim_max: ADDRESS_SPACE_BYTES };
    // SAFETY: setrlimit reads the struct it is given. If it fails, there is one guard less.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
}
