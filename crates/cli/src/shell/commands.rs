//! The commands that begin with a dot.

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
pub struct Command {
    /// With its dot.
    pub name: &'static str,
    /// Its arguments as `.help` shows them.
    arguments: &'static str,
    /// What it does.
    help: &'static str,
}

/// All of them, in the order of `.help`.
pub const COMMANDS: &[Command] = &[
    Command { name: ".help", arguments: "", help: "show this" },
    Command { name: ".tables", arguments: "", help: "list the tables" },
    Command { name: ".schema", arguments: "TABLE", help: "list the columns of a table" },
    Command { name: ".format", arguments: "FORMAT", help: "write rows as table, csv, json, jsonl or none" },
    Command { name: ".timer", arguments: "on|off", help: "tell how long statements take" },
    Command { name: ".read", arguments: "FILE", help: "run the statements of a file" },
    Command { name: ".quit", arguments: "", help: "leave (also Ctrl-D)" },
];

const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
    WHERE table_schema NOT IN ('information_schema', 'system') ORDER BY table_schema, table_name";

/// What the shell does after a command.
pub enum Next {
    /// Ask again.
    Prompt,
    /// End.
    Leave,
}

/// True if the text is a command and no SQL.
pub fn is_command(text: &str) -> bool {
    let mut characters = text.trim_start().chars();
    characters.next() == Some('.') && characters.next().is_some_and(char::is_alphabetic)
}

/// The command that a line means which is no SQL, but what people write to leave or to be helped, or what psql calls
/// it.
pub fn meant(line: &str) -> Option<String> {
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

/// Runs a command line.
pub fn run(line: &str, runner: &Runner<'_>, target: &dyn Target) -> Result<Next, Failure> {
    let (name, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    // People end everything with a semicolon.
    let (name, argument) = (name.trim_end_matches(';'), argument.trim().trim_end_matches(';').trim_end());
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    match (name, argument) {
        (".help", _) => help(),
        (".tables", "") => {
            runner.run(&Source::typed(TABLES))?;
            tell_left_out(target);
        }
        (".schema", table) if !table.is_empty() => runner.run(&Source::typed(format!("DESCRIBE {table}")))?,
        (".format", format) => match Format::from_str(format, true) {
            Ok(format) => {
                format.check_for_terminal()?;
                runner.set_format(format);
            }
            Err(_) => return Err(wrong_use(name)),
        },
        (".timer", "on") => runner.set_timer(true),
        (".timer", "off") => runner.set_timer(false),
        (".read", file) if !file.is_empty() => runner.run(&Source::file(Path::new(file))?)?,
        (".quit" | ".exit", _) => return Ok(Next::Leave),
        _ => return Err(wrong_use(name)),
    }
    Ok(Next::Prompt)
}

fn help() {
    for command in COMMANDS {
        tell(format!("{:<8} {:<8} {}", command.name, command.arguments, command.help));
    }
    tell("psql's \\d, \\d TABLE, \\i, \\timing and \\q do the same.");
    tell("Anything else is SQL and ends with ';'. Tab completes, Ctrl-C cancels, Ctrl-R searches the history.");
}

/// Says something to the person at the terminal; one who has gone hears nothing.
pub fn tell(what: impl Display) {
    let _ = writeln!(stdout(), "{what}");
}

/// Names the folders of the data folder that are no tables.
pub fn tell_left_out(target: &dyn Target) {
    for (name, why) in target.left_out() {
        tell(format!("The folder '{name}' is no table: {why}."));
    }
}

fn wrong_use(name: &str) -> Failure {
    let message = match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => format!("use it as: {} {} ({})", command.name, command.arguments, command.help),
        None => format!("there is no command {name}; '.help' lists them"),
    };
    Failure::Usage(message)
}

#[cfg(test)]
mod tests {
    use super::{is_command, meant};

    #[test]
    fn words_of_other_shells_are_understood() {
        let meant = |line| meant(line).unwrap_or_default();
        assert_eq!(meant(" EXIT ;"), ".quit");
        assert_eq!(meant("help"), ".help");
        assert_eq!(meant("\\d"), ".tables");
        assert_eq!(meant("\\d  Orders;"), ".schema Orders");
        assert_eq!(meant("\\timing off"), ".timer off");
        assert_eq!(meant("select quit"), "");
        assert_eq!(meant("\\dance"), "");
    }

    #[test]
    fn a_number_is_no_command() {
        assert!(is_command(" .tables"));
        assert!(!is_command(".5 + 1;"));
        assert!(!is_command("SELECT .5;"));
        assert!(!is_command("."));
    }
}
