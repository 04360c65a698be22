//! The child process: makes and tries inputs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::mutate;
use crate::panics::{keep_panics_quiet, last_panic};
use crate::report::{FOUND, report};
use crate::targets::{Target, TargetKind};

/// Address space of the child. An input that makes a reader ask for more is a finding: the allocation fails and the
/// child aborts. Inputs are at most 64 KiB, but every thread of an engine reserves some address space of its own.
const ADDRESS_SPACE_BYTES: u64 = 6 << 30;

/// Tries one input in this process.
pub fn once(kind: TargetKind, input: &[u8]) -> Result<String, String> {
    keep_panics_quiet();
    let mut target = kind.start()?;
    attempt(target.as_mut(), input).map(|()| format!("{}: nothing found", kind.name()))
}

/// Tries inputs from `seed` on, and notes each seed before its input is tried.
pub fn run(kind: TargetKind, seed: u64, seconds: u64, notes: &Path) -> ExitCode {
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
        Err(_) => Err(last_panic()),
    }
}

fn limit_address_space() {
    let limit = libc::rlimit { rlim_cur: ADDRESS_SPACE_BYTES, rlim_max: ADDRESS_SPACE_BYTES };
    // SAFETY: setrlimit reads the struct it is given. If it fails, there is one guard less.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
}
