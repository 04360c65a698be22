//! `diligence completions`: completion scripts for shells.

use std::io::{Write, stdout};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::{Arguments, CompletionShell, CompletionsArguments};
use crate::failure::{Done, Failure};

/// Runs the subcommand. Fails if the output cannot be written.
pub fn run(arguments: &CompletionsArguments) -> Done {
    let script = script(arguments.shell);
    let mut output = stdout().lock();
    output.write_all(&script).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}

fn script(shell: CompletionShell) -> Vec<u8> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "diligence", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_a_script_with_every_subcommand() {
        for shell in [CompletionShell::Bash, CompletionShell::Zsh, CompletionShell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell:?}: {}", command.get_name());
            }
        }
    }
}
