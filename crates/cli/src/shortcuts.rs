//! Command lines without a subcommand: `diligence -c SQL` is `diligence sql -c SQL`, `diligence FILE …` is
//! `diligence shell --data FILE …`, and with statements behind the files `diligence sql --data FILE …`. With a command
//! of the shell, `diligence -c '\dt'`, it is the shell as well.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::shell;

/// Options of the shells of SQLite and DuckDB, which have one dash, and what they are here.
const OTHER_SHELLS: [(&str, &[&str]); 17] = [
    ("-csv", &["--format", "csv"]),
    ("-json", &["--format", "json"]),
    ("-jsonlines", &["--format", "jsonl"]),
    ("-markdown", &["--format", "markdown"]),
    ("-line", &["--format", "line"]),
    ("-list", &["--format", "unaligned"]),
    ("-box", &["--format", "table"]),
    ("-table", &["--format", "table"]),
    ("-column", &["--format", "column"]),
    ("-tabs", &["--format", "tsv"]),
    ("-cmd", &["--command"]),
    ("-s", &["--command"]),
    ("-noheader", &["--tuples-only"]),
    // Names of columns are shown anyway, and no statement asks a person.
    ("-header", &[]),
    ("-batch", &[]),
    ("-separator", &["--field-separator"]),
    ("-version", &["--version"]),
];

/// The command line with its subcommand. One that has it, or that is none, stays as it is, but for options of
/// [other shells](OTHER_SHELLS).
pub fn spelled_out(arguments: Vec<OsString>) -> Vec<OsString> {
    let own = |argument: OsString| {
        let known = OTHER_SHELLS.iter().find(|(name, _)| argument == **name);
        known.map_or_else(|| vec![argument.clone()], |(_, own)| own.iter().map(OsString::from).collect())
    };
    with_subcommand(arguments.into_iter().flat_map(own).collect())
}

fn with_subcommand(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some((program, rest)) = arguments.split_first() else { return arguments };
    let files = rest.iter().take_while(|argument| is_data(argument)).count();
    let (files, rest) = rest.split_at(files);
    let is_option = |first: &OsString| first.to_str().is_some_and(|first| first.starts_with('-'));
    let is_first_command = rest.first().is_some_and(is_option) && rest.iter().any(|other| gives_statements(other));
    if files.is_empty() && !is_first_command {
        return arguments;
    }
    let is_sql = rest.iter().any(|argument| gives_statements(argument) || is_statement(argument));
    let has_commands = rest.windows(2).any(|pair| gives_command(&pair[0], &pair[1]));
    let subcommand = OsString::from(if is_sql && !has_commands { "sql" } else { "shell" });
    let data = files.iter().flat_map(|file| [OsString::from("--data"), file.clone()]);
    [program.clone(), subcommand].into_iter().chain(data).chain(rest.iter().cloned()).collect()
}

/// Whether the argument is a file or a folder rather than a subcommand or a flag. A name with a dot is a file even if
/// there is none, so that the error says so.
fn is_data(argument: &OsStr) -> bool {
    let Some(text) = argument.to_str() else { return true };
    let is_subcommand = || {
        let command = Arguments::command();
        text == "help" || command.get_subcommands().any(|subcommand| subcommand.get_name() == text)
    };
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_whitespace) && !Path::new(text).exists() {
        return false;
    }
    !is_subcommand() && (text.contains(['.', '/']) || Path::new(text).exists())
}

/// Whether the argument announces statements.
fn gives_statements(argument: &OsStr) -> bool {
    argument.to_str().is_some_and(|text| {
        // Options without a value may stand before it: `-Atc`.
        let is_short = |flag: char| {
            let options =
                text.strip_prefix('-').unwrap_or_default().trim_start_matches(['A', 't', 'x', 'q', 'X', 'z', '0']);
            options.starts_with(flag)
        };
        let is_long = |flag: &str| text.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        is_short('c') || is_short('f') || is_long("--command") || is_long("--file")
    })
}

/// Whether an option and its value are a command of the shell, as in psql's `-c '\dt'`.
fn gives_command(option: &OsStr, value: &OsStr) -> bool {
    let is_one = option.to_str().is_some_and(|option| option == "--command" || option.ends_with('c'));
    is_one && gives_statements(option) && value.to_str().is_some_and(shell::is_command)
}

/// Whether the argument is a statement: statements have blanks, and values of flags have none.
fn is_statement(argument: &OsStr) -> bool {
    argument.to_str().is_some_and(|text| !text.starts_with('-') && text.trim().contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &[&str]) -> String {
        let arguments = std::iter::once("diligence").chain(line.iter().copied()).map(OsString::from).collect();
        let words = spelled_out(arguments).into_iter().skip(1).map(|word| word.into_string().unwrap());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn subcommands_are_added() {
        assert_eq!(spelled(&["-c", "SELECT 1"]), "sql -c SELECT 1");
        assert_eq!(spelled(&["-c", "\\dt"]), "shell -c \\dt");
        assert_eq!(
            spelled(&["a.csv", "-Atc", "SELECT 1", "-c", ".tables"]),
            "shell --data a.csv -Atc SELECT 1 -c .tables"
        );
        assert_eq!(spelled(&["-f", "q.sql"]), "sql -f q.sql");
        assert_eq!(spelled(&["-Atc", "SELECT 1"]), "sql -Atc SELECT 1");
        assert_eq!(spelled(&["-At", "-F", ";", "-c", "SELECT 1"]), "sql -At -F ; -c SELECT 1");
        assert_eq!(spelled(&["a.csv", "-qAt", "-c", "SELECT 1"]), "sql --data a.csv -qAt -c SELECT 1");
        assert_eq!(spelled(&["-csv", "-noheader", "-c", "SELECT 1"]), "sql --format csv --tuples-only -c SELECT 1");
        assert_eq!(spelled(&["a.csv", "-markdown", "SELECT 1"]), "sql --data a.csv --format markdown SELECT 1");
        assert_eq!(spelled(&["shell", "-batch", "-separator", ";"]), "shell --field-separator ;");
        assert_eq!(spelled(&["-tabs", "-s", "SELECT 1"]), "sql --format tsv --command SELECT 1");
        assert_eq!(spelled(&["-version"]), "--version");
        assert_eq!(spelled(&["a.csv"]), "shell --data a.csv");
        assert_eq!(spelled(&["a.csv", "b.parquet", "--db", "shop"]), "shell --data a.csv --data b.parquet --db shop");
        assert_eq!(spelled(&["a.csv", "-c", "SELECT 1"]), "sql --data a.csv -c SELECT 1");
        assert_eq!(spelled(&["a.csv", "SELECT 1"]), "sql --data a.csv SELECT 1");
        assert_eq!(spelled(&["a.csv", "--format", "csv", "-fx"]), "sql --data a.csv --format csv -fx");
    }

    #[test]
    fn whole_command_lines_stay() {
        for line in [
            &["sql", "-c", "SELECT 1"][..],
            &["serve", "--data", "a.csv"],
            &["--help"],
            &["--version"],
            &["help", "sql"],
            &["dance"],
            &[],
        ] {
            assert_eq!(spelled(line), line.join(" "));
        }
    }
}
