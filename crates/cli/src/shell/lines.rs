//! The shell without a terminal: statements and commands line by line, as they come through a pipe.

use std::io::{self, BufRead, Read};

use super::script;
use super::session::{After, Shell};
use crate::failure::{Done, Failure, complain};
use crate::sources::Source;

/// An input that counts the lines that are taken of it.
struct Counted<R> {
    input: R,
    lines: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        self.lines += out[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        // What was filled is there; otherwise nothing is consumed.
        let taken = self
            .input
            .fill_buf()
            .map_or(0, |filled| filled[..bytes.min(filled.len())].iter().filter(|byte| **byte == b'\n').count());
        self.lines += taken as u64;
        self.input.consume(bytes);
    }
}

/// Runs the lines of the input of this name: each statement when its last line has come, and each command, to the end
/// of the input. An error is printed and the next statement runs, unless ON_ERROR_STOP is on; the run as a whole has
/// failed then. Fails if the input cannot be read.
pub fn run(name: &str, input: impl BufRead, shell: &Shell<'_>) -> Done {
    let mut failed = 0u64;
    // The lines of a statement that has not ended, and the number of the first.
    let (mut text, mut first) = (String::new(), 1);
    let mut input = Counted { input, lines: 0 };
    let mut run = |text: &str, first_line: u64, rows: &mut dyn BufRead| {
        let name = Some(name.to_owned());
        match shell.run_with(&Source { name, text: text.to_owned(), first_line }, Some(rows)) {
            Err(failure @ (Failure::Statement(..) | Failure::Usage(_))) => {
                if shell.stops_on_error() {
                    return Err(failure);
                }
                failed += 1;
                complain(failure);
                Ok(After::Prompt)
            }
            done => done,
        }
    };
    loop {
        let number = input.lines + 1;
        let mut line = String::new();
        let read = input.read_line(&mut line);
        if read.map_err(|error| Failure::Usage(format!("cannot read SQL from {name}: {error}")))? == 0 {
            break;
        }
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        // A byte order mark of an editor on Windows.
        let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line };
        shell.echo_line(line)?;
        if text.is_empty() {
            if line.trim().is_empty() {
                continue;
            }
            first = number;
        } else {
            text.push('\n');
        }
        text.push_str(line);
        // Only a semicolon or a command ends a statement, so the text of a long one is not looked at for each line.
        let may_end = line.contains([';', '\\']) || script::is_command(line);
        if may_end && script::is_complete(&text) {
            if run(&text, first, &mut input)? == After::Exit {
                return ended(failed);
            }
            text.clear();
        }
    }
    if !text.is_empty() && run(&text, first, &mut input)? == After::Exit {
        return ended(failed);
    }
    if shell.leave_conditions() {
        failed += 1;
        complain("error: an \\if has no \\endif");
    }
    ended(failed)
}

fn ended(failed: u64) -> Done {
    match failed {
        0 => Ok(()),
        1 => Err(Failure::Other("one statement of the input has failed".to_owned())),
        many => Err(Failure::Other(format!("{many} statements of the input have failed"))),
    }
}
