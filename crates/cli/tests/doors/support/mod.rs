//! Running the command: as a child with pipes, or on a terminal of its own.

pub mod terminal;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command, with a home of its own so that nobody's history is touched.
pub fn diligence(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diligence"));
    command.env_remove("DILIGENCE_INIT").env_remove("DILIGENCE_PAGER");
    command.env("HOME", home).env("XDG_DATA_HOME", home).env("TERM", "xterm").current_dir(home);
    command
}

/// What a run gave.
pub struct Ran {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs `diligence ARGUMENTS` with `input` on standard input.
pub fn run(home: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut child = diligence(home)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that does not read its input may be gone before it is written.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the command ends").into()
}

/// Runs a script in the shell; tables are CSV.
pub fn piped(home: &Path, script: &str) -> Ran {
    run(home, &["shell", "--format", "csv"], script)
}

/// What such a script prints, which says nothing of mistakes.
pub fn succeeds(home: &Path, script: &str) -> String {
    let ran = piped(home, script);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{script}: {}", ran.stdout);
    ran.stdout
}
