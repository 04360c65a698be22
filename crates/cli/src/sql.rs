//! `diligence sql`: runs statements from the command line, files or standard input.

use std::io::{IsTerminal, stdin, stdout};

use crate::arguments::SqlArguments;
use crate::display::Display;
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::open::target;
use crate::shell;
use crate::sink::Sink;
use crate::sources::Source;
use crate::statements::{Runner, check_for_terminal};

/// Runs the subcommand. Fails with the first error.
pub fn run(arguments: &SqlArguments) -> Done {
    let terminal = stdout().is_terminal();
    if terminal && arguments.output.file.is_none() {
        check_for_terminal(arguments.output.format())?;
    }
    let sources = sources(arguments)?;
    let interrupt = Interrupt::install()?;
    let (target, _) = target(arguments.connect.as_deref(), &arguments.database)?;
    let runner = Runner::new(target.as_ref(), &interrupt, Display::of_sql(&arguments.output, terminal), terminal);
    if let Some(file) = &arguments.output.file {
        drop(runner.set_sink(Some(Sink::open(file)?)));
    }
    for source in &sources {
        runner.run(source).map_err(|failure| with_hint(failure, source))?;
    }
    Ok(())
}

/// The failure; of a text that has a command of the shell, with what to do.
fn with_hint(failure: Failure, source: &Source) -> Failure {
    match failure {
        Failure::Statement(error, Some(location))
            if error.hint().is_none() && shell::is_command(&location.statement) =>
        {
            let name = source.name.as_deref().filter(|name| *name != "standard input").unwrap_or("FILE");
            let hint = format!("commands of the shell run there, also from a file: diligence shell < {name}");
            Failure::Statement(error.with_hint(hint), Some(location))
        }
        other => other,
    }
}

fn sources(arguments: &SqlArguments) -> Result<Vec<Source>, Failure> {
    let mut sources = arguments.files.iter().map(|path| Source::file(path)).collect::<Result<Vec<_>, _>>()?;
    for text in arguments.commands.iter().chain(&arguments.statements) {
        sources.push(if text == "-" { Source::standard_input()? } else { Source::typed(text) });
    }
    if sources.is_empty() {
        if stdin().is_terminal() {
            return Err(Failure::Usage(
                "no SQL given; pass it as an argument, with -f, or on standard input, or start 'diligence shell'"
                    .to_owned(),
            ));
        }
        sources.push(Source::standard_input()?);
    }
    // A command of the shell is not SQL; say so rather than report a syntax error.
    let mut typed = arguments.commands.iter().chain(&arguments.statements);
    if let Some(command) = typed.find(|text| shell::is_command(text)) {
        return Err(Failure::Usage(format!("'{}' works only in 'diligence shell'", command.trim())));
    }
    Ok(sources)
}
