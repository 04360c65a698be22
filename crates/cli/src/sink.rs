//! Where results go other than to standard output: a file, a command's input, or a pager.

use std::fs::File;
use std::io::{self, Write};
use std::process::{Child, Stdio};

use crate::environment;
use crate::failure::Failure;

/// The pager if none is chosen. It leaves what fits on the screen there, and scrolls to the side.
const PAGER: &str = "less -FRSX";

/// A file or a command that takes results.
pub enum Sink {
    /// A file, written anew.
    File(File),
    /// A command of the system's shell.
    Command(Pipe),
}

impl Sink {
    /// The file of this name, or the command behind a `|`. Fails if the file cannot be written or the command not be
    /// started.
    pub fn open(target: &str) -> Result<Self, Failure> {
        if let Some(command) = target.strip_prefix('|') {
            let pipe = Pipe::start(command.trim());
            let failed = |error| Failure::Usage(format!("cannot run {}: {error}", command.trim()));
            return Ok(Self::Command(pipe.map_err(failed)?));
        }
        let failed = |error| Failure::Usage(format!("cannot write {target}: {error}"));
        Ok(Self::File(File::create(target).map_err(failed)?))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Command(pipe) => pipe.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Command(pipe) => pipe.flush(),
        }
    }
}

/// The input of a command that runs until this is dropped and it has ended.
pub struct Pipe(Child);

impl Pipe {
    fn start(command: &str) -> io::Result<Self> {
        environment::command(command).stdin(Stdio::piped()).spawn().map(Self)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.stdin.as_mut().map_or(Ok(0), |input| input.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.stdin.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Whatever it ended with, the rows were its own.
        let _ = self.0.wait();
    }
}

/// A pager, which starts with the first byte: a result that fails before it has rows needs none.
pub struct Pager {
    command: String,
    pipe: Option<Pipe>,
}

impl Pager {
    /// The pager of the environment, or less.
    pub fn new() -> Self {
        let named = |name: &str| environment::value(name).filter(|command| !command.trim().is_empty());
        let command = named("DILIGENCE_PAGER").or_else(|| named("PAGER")).unwrap_or_else(|| PAGER.to_owned());
        Self { command, pipe: None }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.pipe {
            Some(pipe) => pipe.write(bytes),
            None => self.pipe.insert(Pipe::start(&self.command)?).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.as_mut().map_or(Ok(()), Write::flush)
    }
}
