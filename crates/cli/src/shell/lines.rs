//! The shell without a terminal: statements and commands line by line, as they come through a pipe.

use std::io::BufRead;

use super::script;
use super::session::{After, Shell};
use crate::failure::{Done, Failure, complain};
use crate::sources::Source;

/// Runs each statement when its last line has come, and each command, to the end of the input. An error is printed and
/// the next statement runs, unless ON_ERROR_STOP is on; the run as a whole has failed then. Fails if the input cannot
/// be read.
pub fn run(input: impl BufRead, shell: &Shell<'_>) -> Done {
    let mut failed = 0u64;
    // The lines of a statement that has not ended, and the number of the first.
    let (mut text, mut first) = (String::new(), 1);
    let mut run = |text: &str, first_line: u64| {
        let name = Some("standard input".to_owned());
        match shell.run(&Source { name, text: text.to_owned(), first_line }) {
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
    for (number, line) in (1..).zip(input.lines()) {
        let line = line.map_err(|error| Failure::Usage(format!("cannot read SQL from standard input: {error}")))?;
        // A byte order mark of an editor on Windows.
        let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line.as_str() };
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
            if run(&text, first)? == After::Exit {
                return ended(failed);
            }
            text.clear();
        }
    }
    if !text.is_empty() && run(&text, first)? == After::Exit {
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
