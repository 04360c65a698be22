//! `diligence sql`: statements from the command line, files or standard input.

use std::io::{IsTerminal, stdin, stdout};

use crate::arguments::SqlArguments;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::open::open;
use crate::remote::Remote;
use crate::sources::Source;
use crate::statements::Runner;
use crate::target::Target;
use crate::{Done, shell};

/// Runs the subcommand.
pub fn run(arguments: &SqlArguments) -> Done {
    let terminal = stdout().is_terminal();
    if terminal {
        arguments.output.format.check_for_terminal()?;
    }
    let sources = sources(arguments)?;
    let interrupt = Interrupt::install()?;
    let target: Box<dyn Target> = match &arguments.connect {
        Some(url) => Box::new(Remote::open(url, &arguments.database.settings)?),
        None => Box::new(open(&arguments.database, 0)?.session()),
    };
    let runner = Runner::new(target.as_ref(), &interrupt, &arguments.output, terminal);
    for source in &sources {
        runner.run(source)?;
    }
    Ok(())
}

fn sources(arguments: &SqlArguments) -> Result<Vec<Source>, Failure> {
    let mut sources = arguments.files.iter().map(|path| Source::file(path)).collect::<Result<Vec<_>, _>>()?;
    sources.extend(arguments.statements.iter().map(Source::typed));
    if sources.is_empty() {
        if stdin().is_terminal() {
            return Err(Failure::Usage(
                "no SQL given; give it as an argument, with -f, or on standard input, or start 'diligence shell'"
                    .to_owned(),
            ));
        }
        sources.push(Source::standard_input()?);
    }
    // `sql` shares nothing with the shell but this: a dot command is not SQL, and saying so helps.
    if let Some(command) = arguments.statements.iter().find(|text| shell::is_command(text)) {
        return Err(Failure::Usage(format!("'{}' works only in 'diligence shell'", command.trim())));
    }
    Ok(sources)
}
