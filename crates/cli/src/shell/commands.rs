//! The shell's commands, which begin with a dot.

use std::fmt::Display;
use std::io::{Write, stdout};
use std::path::Path;

use clap::ValueEnum;

use crate::failure::Failure;
use crate::output::Format;
use crate::sources::Source;
use crate::statements::Runner;
use crate::target::Target;

/// A command of the shell.
pub struct DotCommand {
    /// The name, with its dot.
    pub name: &'static str,
    /// The arguments, as `.help` shows them.
    arguments: &'static str,
    /// The description.
    help: &'static str,
}

/// All commands, in the order of `.help`.
pub const COMMANDS: &[DotCommand] = &[
    DotCommand { name: ".help", arguments: "", help: "show this list" },
    DotCommand { name: ".tables", arguments: "", help: "list the tables" },
    DotCommand { name: ".schema", arguments: "TABLE", help: "list the columns of a table" },
    DotCommand { name: ".format", arguments: "FORMAT", help: "set the output format: table, csv, json, jsonl or none" },
    DotCommand { name: ".timer", arguments: "on|off", help: "turn the printing of elapsed times on or off" },
    DotCommand { name: ".read", arguments: "FILE", help: "run the statements of a file" },
    DotCommand { name: ".quit", arguments: "", help: "exit (also Ctrl-D)" },
];

const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
    WHERE table_schema NOT IN ('information_schema', 'system') ORDER BY table_schema, table_name";

/// What the shell does after a command.
pub enum AfterCommand {
    /// Prompt for the next statement.
    Prompt,
    /// Exit.
    Exit,
}

/// Whether the text is a command rather than SQL.
pub fn is_command(text: &str) -> bool {
    let mut characters = text.trim_start().chars();
    characters.next() == Some('.') && characters.next().is_some_and(char::is_alphabetic)
}

/// The command that a line is, if it is one.
pub fn of(line: &str) -> Option<String> {
    from_alias(line).or_else(|| is_command(line).then(|| line.to_owned()))
}

/// The command for a word that other shells use, such as `exit` or psql's `\d`.
fn from_alias(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let command = match (name.to_ascii_lowercase().as_str(), argument) {
        ("exit" | "quit" | "\\q", "") => ".quit",
        ("help" | "?" | "\\?" | "\\h", "") => ".help",
        ("\\d" | "\\d+" | "\\dt" | "\\dt+" | "\\dv" | "\\dv+", "") => ".tables",
        ("\\d" | "\\d+", _) => ".schema",
        ("\\i", _) => ".read",
        ("\\timing", "") => ".timer on",
        ("\\timing", _) => ".timer",
        _ => return None,
    };
    Some(format!("{command} {argument}").trim_end().to_owned())
}

/// Runs a command. Fails if there is no such command, its arguments are wrong, or one of its statements fails.
pub fn run(line: &str, runner: &Runner<'_>, target: &dyn Target) -> Result<AfterCommand, Failure> {
    let (name, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    // Users tend to end commands with a semicolon as well.
    let (name, argument) = (name.trim_end_matches(';'), argument.trim().trim_end_matches(';').trim_end());
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    match (name, argument) {
        (".help", _) => help(),
        (".tables", "") => {
            runner.run(&Source::typed(TABLES))?;
            print_left_out(target);
        }
        (".schema", table) if !table.is_empty() => runner.run(&Source::typed(format!("DESCRIBE {table}")))?,
        (".format", format) => match Format::from_str(format, true) {
            Ok(format) => runner.set_format(format)?,
            Err(_) => return Err(wrong_use(name)),
        },
        (".timer", "on") => runner.set_timer(true),
        (".timer", "off") => runner.set_timer(false),
        (".read", file) if !file.is_empty() => runner.run(&Source::file(Path::new(file))?)?,
        (".quit" | ".exit", _) => return Ok(AfterCommand::Exit),
        _ => return Err(wrong_use(name)),
    }
    Ok(AfterCommand::Prompt)
}

fn help() {
    for command in COMMANDS {
        print_line(format!("{:<8} {:<8} {}", command.name, command.arguments, command.help));
    }
    print_line("The psql commands \\d, \\d TABLE, \\i, \\timing and \\q work as well.");
    print_line("Anything else is SQL and ends with ';'. Tab completes, Ctrl-C cancels, Ctrl-R searches the history.");
}

/// Prints a line on standard output, even if the terminal is gone.
pub fn print_line(what: impl Display) {
    let _ = writeln!(stdout(), "{what}");
}

/// Lists the directories in the data directory that cannot be read as tables.
pub fn print_left_out(target: &dyn Target) {
    for (name, why) in target.left_out() {
        print_line(format!("The directory '{name}' cannot be read as a table: {why}."));
    }
}

fn wrong_use(name: &str) -> Failure {
    let message = match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => format!("usage: {} {} ({})", command.name, command.arguments, command.help),
        None => format!("unknown command {name}; '.help' lists the commands"),
    };
    Failure::Usage(message)
}

#[cfg(test)]
mod tests {
    use super::{from_alias, is_command};

    #[test]
    fn words_of_other_shells_are_understood() {
        let command = |line| from_alias(line).unwrap_or_default();
        assert_eq!(command(" EXIT ;"), ".quit");
        assert_eq!(command("help"), ".help");
        assert_eq!(command("\\d"), ".tables");
        assert_eq!(command("\\d  Orders;"), ".schema Orders");
        assert_eq!(command("\\timing off"), ".timer off");
        assert_eq!(command("select quit"), "");
        assert_eq!(command("\\dance"), "");
    }

    #[test]
    fn a_number_is_not_a_command() {
        assert!(is_command(" .tables"));
        assert!(!is_command(".5 + 1;"));
        assert!(!is_command("SELECT .5;"));
        assert!(!is_command("."));
    }
}
