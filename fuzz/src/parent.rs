//! The parent process: watches the child.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::report::{FOUND, report};
use crate::targets::TargetKind;

/// How long one input may take. A sound one takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The interval at which the parent looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Fuzzes in a child process; what was found is the error.
pub fn run(kind: TargetKind, seed: u64, seconds: u64) -> Result<String, String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let folder = tempfile::tempdir().map_err(|error| failed("no temporary folder", error))?;
    let notes_path = folder.path().join("seed");
    File::create(&notes_path).map_err(|error| failed("no file for notes", error))?;
    let notes = File::open(&notes_path).map_err(|error| failed("no file for notes", error))?;
    let program = std::env::current_exe().map_err(|error| failed("no own program", error))?;
    let mut child = Command::new(program)
        .arg(kind.name())
        .args(["--seed", &seed.to_string(), "--seconds", &seconds.to_string(), "--child"])
        .arg(&notes_path)
        // Whatever a statement writes goes away with the folder.
        .current_dir(folder.path())
        .spawn()
        .map_err(|error| failed("no child process", error))?;

    let mut last = (None, Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| failed("cannot wait for the child", error))? {
            break Some(status);
        }
        let now = noted_seed(&notes);
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > PATIENCE {
            // Only the parent can end it. A child that is already gone is fine.
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    match status {
        Some(status) if status.success() => {
            Ok(format!("{}: nothing found in {seconds} s from seed {seed}", kind.name()))
        }
        Some(status) if status.code() == Some(FOUND) => Err("see above".to_owned()),
        status => Err(finding(kind, noted_seed(&notes), status)),
    }
}

/// The seed that the child tried last.
fn noted_seed(notes: &File) -> Option<u64> {
    let mut bytes = [0; 8];
    notes.read_exact_at(&mut bytes, 0).ok().map(|()| u64::from_le_bytes(bytes))
}

fn finding(kind: TargetKind, seed: Option<u64>, status: Option<ExitStatus>) -> String {
    let what = match status {
        None => format!("an input takes longer than {PATIENCE:?}"),
        Some(status) => match status.signal() {
            Some(signal) => {
                format!("the process died of signal {signal} (6: out of memory, or aborted; 11: stack overflow)")
            }
            None => format!("the process ended with {status}"),
        },
    };
    match seed {
        Some(seed) => report(kind, seed, &what),
        None => format!("{}: {what}, before the first input", kind.name()),
    }
}
