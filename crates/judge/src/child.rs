//! Our server as a child process, with a folder of its own, stopped when it is dropped or when this
//! process ends.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use diligence_base::{Error, Result};
use tempfile::TempDir;

/// The memory of the server: enough for small tables, little enough for a statement that goes wild to be an error.
const MEMORY: &str = "512MiB";

/// A running `diligence serve`.
pub struct ServerProcess {
    child: Child,
    url: String,
    folder: TempDir,
}

impl ServerProcess {
    /// Starts the program and waits until it listens on a free port.
    ///
    /// Fails with kind `Resource` if it cannot be started, or ends before it listens.
    pub fn start(program: &PathBuf) -> Result<Self> {
        let failed = |error: std::io::Error| Error::resource(format!("{}: {error}", program.display()));
        let folder = tempfile::tempdir().map_err(failed)?;
        let log = File::create(folder.path().join("log")).map_err(failed)?;
        let mut command = Command::new(program);
        // SAFETY: prctl only sets an attribute of the new process, and is safe to call between fork and exec. If it
        // fails, a server may outlive a judge that is killed.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command
            .args(["serve", "--postgres", "0", "--http", "off", "--memory", MEMORY, "--drain-time", "0"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let mut url = String::new();
        if let Some(output) = child.stdout.take() {
            // A server that ends closes its output, and the line is empty.
            let _ = BufReader::new(output).read_line(&mut url);
        }
        let url = url.trim().to_owned();
        let process = Self { child, url, folder };
        match process.url.starts_with("postgres://") {
            true => Ok(process),
            false => Err(Error::resource(format!("{} did not start: {}", program.display(), process.last_words()))),
        }
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The end of what it printed to standard error.
    pub fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A process that has ended already is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
