//! The shell without a terminal: statements and commands line by line, as they come through a pipe.

use std::io::BufRead;

use super::commands::{self, AfterCommand};
use super::ending;
use crate::failure::{Done, Failure, complain};
use crate::location::Location;
use crate::sources::Source;
use crate::statements::Runner;
use crate::target::Target;

/// Runs each statement when its last line has come, and each command, to the end of the input. An error is printed and
/// the next statement runs; the run as a whole has failed then. Fails if the input cannot be read.
pub fn run(input: impl BufRead, runner: &Runner<'_>, target: &dyn Target) -> Done {
    let mut failed = 0u64;
    // The lines of a statement that has not ended, and the number of the first.
    let (mut text, mut first) = (String::new(), 1);
    let mut run = |text: &str, first: u64| {
        let done = match commands::of(text) {
            Some(command) => commands::run(&command, runner, target),
            None => runner.run(&Source::typed(text)).map(|()| AfterCommand::Prompt),
        };
        match done {
            Err(Failure::Statement(error, location)) => {
                failed += 1;
                let named = location.map(|location| match location.source {
                    None => {
                        let source = Some("standard input".to_owned());
                        Location { line: location.line + first - 1, source, ..location }
                    }
                    Some(_) => location,
                });
                complain(Failure::Statement(error, named));
                Ok(AfterCommand::Prompt)
            }
            Err(Failure::Usage(what)) => {
                failed += 1;
                complain(Failure::Usage(what));
                Ok(AfterCommand::Prompt)
            }
            done => done,
        }
    };
    for (number, line) in (1..).zip(input.lines()) {
        let line = line.map_err(|error| Failure::Usage(format!("cannot read SQL from standard input: {error}")))?;
        if text.is_empty() {
            // A byte order mark of an editor on Windows.
            let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line.as_str() };
            if line.trim().is_empty() {
                continue;
            }
            if commands::of(line).is_some() {
                match run(line, number)? {
                    AfterCommand::Prompt => continue,
                    AfterCommand::Exit => return ended(failed),
                }
            }
            text.push_str(line);
            first = number;
        } else {
            text.push('\n');
            text.push_str(&line);
        }
        // Only a line with a semicolon ends a statement, so the text of a long one is not looked at for each line.
        if line.contains(';') && ending::is_complete(&text) {
            run(&text, first)?;
            text.clear();
        }
    }
    if !text.is_empty() {
        run(&text, first)?;
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
