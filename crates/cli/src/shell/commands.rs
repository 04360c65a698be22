//! The shell's commands: what their lines mean. Each has a name with a dot; many have psql's name, with a backslash.

use std::time::Duration;

use super::import::Import;
use super::listings::Listing;
use super::variables::single_quoted;
use crate::output::{Expanded, Format, Frame, Look};

/// A command of the shell, as `.help` shows it.
pub struct ShellCommand {
    /// The name, with its dot or backslash.
    name: &'static str,
    /// Other names.
    also: &'static [&'static str],
    /// The arguments.
    arguments: &'static str,
    /// The description.
    help: &'static str,
}

impl ShellCommand {
    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }
}

const fn command(
    name: &'static str,
    also: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
) -> ShellCommand {
    ShellCommand { name, also, arguments, help }
}

/// All commands, in the order of `.help`.
pub const COMMANDS: &[ShellCommand] = &[
    command(".help", &["\\?", "\\h"], "", "show this list"),
    command(".tables", &["\\d"], "[PATTERN]", "list the tables and views"),
    command("\\dt", &[], "[PATTERN]", "list the tables"),
    command(".views", &["\\dv"], "[PATTERN]", "list the views"),
    command("\\dm", &[], "[PATTERN]", "list the materialized views"),
    command(".schema", &[], "[TABLE]", "list the columns of a table (also \\d TABLE), or the tables"),
    command(".indexes", &["\\di"], "[PATTERN]", "list the indexes"),
    command(".sequences", &["\\ds"], "[PATTERN]", "list the sequences"),
    command(".functions", &["\\df"], "[PATTERN]", "list the functions that were made"),
    command(".schemas", &["\\dn"], "[PATTERN]", "list the schemas"),
    command(".roles", &["\\du", "\\dg"], "[PATTERN]", "list the roles"),
    command(".usertypes", &["\\dT"], "[PATTERN]", "list the types that were made"),
    command(".privileges", &["\\dp", "\\z"], "[PATTERN]", "list what may be done with tables, and by whom"),
    command(".extensions", &["\\dx"], "[PATTERN]", "list the extensions"),
    command(".languages", &["\\dL"], "[PATTERN]", "list the languages of functions"),
    command("\\dD", &[], "[PATTERN]", "list the domains"),
    command("\\dconfig", &[], "[PATTERN]", "list the settings"),
    command("\\db", &[], "[PATTERN]", "list the tablespaces"),
    command(".databases", &["\\l", "\\list"], "[PATTERN]", "list the databases"),
    command(
        ".mode",
        &[".format"],
        "[MODE]",
        "set the output format: table, csv, tsv, json, jsonl, markdown, line or none",
    ),
    command(".expanded", &["\\x"], "[on|off|auto]", "show the values of a row one below the other"),
    command(".maxrows", &[], "[N]", "set how many rows of a table are shown, half of them the last ones; 0 for all"),
    command(".headers", &[".header"], "[on|off]", "show the names of columns, or not"),
    command(".types", &[], "[on|off]", "show the types of columns under their names, or not"),
    command(".nullvalue", &[], "TEXT", "set what stands for NULL in tables"),
    command(".border", &[], "0|1|2", "set the lines of tables: none, between columns, or all around"),
    command(".tuples", &["\\t"], "[on|off]", "show rows only, without header and count"),
    command(".pager", &[], "[on|off]", "show results in $PAGER, or not"),
    command(".show", &[], "", "show how results are shown"),
    command("\\a", &[], "", "align values, or only separate them"),
    command("\\f", &[".separator"], "[TEXT]", "set or show what stands between values that are not aligned"),
    command(
        "\\pset",
        &[],
        "NAME [VALUE]",
        "set null, format, border, expanded, fieldsep, recordsep, csv_fieldsep, tuples_only, footer or pager",
    ),
    command(".timer", &["\\timing"], "[on|off]", "print elapsed times, or not"),
    command(".read", &["\\i", "\\include"], "FILE", "run the statements and commands of a file"),
    command("\\ir", &["\\include_relative"], "FILE", "as \\i, from the directory of the file that says so"),
    command(".output", &["\\o", "\\out"], "[FILE]", "write results to a file, or to a command behind a |"),
    command(".once", &[], "FILE", "the same for the next statement only"),
    command(
        "\\g",
        &[".go"],
        "[(NAME=VALUE …)] [FILE]",
        "run the statement in front of it, or the last one; with settings of \\pset; into a file or a |command",
    ),
    command("\\gx", &[], "[(NAME=VALUE …)] [FILE]", "as \\g, with the values of a row one below the other"),
    command("\\bind", &[], "[VALUE …] [\\g …]", "run the statement in front of it with values for $1, $2 and so on"),
    command("\\gset", &[], "[PREFIX]", "run the statement in front of it, and set variables to the values of its row"),
    command("\\gexec", &[], "", "run the statement in front of it, and then each value as a statement"),
    command("\\gdesc", &[], "", "show the columns of the statement in front of it"),
    command(
        "\\crosstabview",
        &[],
        "[COLUMNS]",
        "run the statement in front of it, with the values of its second column as columns",
    ),
    command("\\watch", &[".watch"], "[SECONDS]", "run the statement every so many seconds until Ctrl-C [default: 2]"),
    command(".edit", &["\\e"], "[FILE]", "edit the last statement, or a file, in $EDITOR and run it"),
    command("\\copy", &[], "ARGUMENTS", "copy rows between a table and a file of this machine, as COPY does"),
    command(".import", &[], "FILE TABLE", "add the rows of a file to a table, or make a table of them"),
    command("\\set", &[".set"], "[NAME [VALUE]]", "set a variable, or list all; statements have them as :name"),
    command("\\unset", &[".unset"], "NAME", "remove a variable"),
    command("\\getenv", &[], "NAME VARIABLE", "set a variable to one of the environment"),
    command("\\setenv", &[], "NAME [VALUE]", "set a variable of the environment of commands, or remove it"),
    command("\\prompt", &[], "[TEXT] NAME", "set a variable to what a person enters"),
    command("\\if", &[], "CONDITION", "run what follows only if the condition is true"),
    command("\\elif", &[], "CONDITION", "run what follows only if nothing since \\if has, and the condition is true"),
    command("\\else", &[], "", "run what follows only if nothing since \\if has"),
    command("\\endif", &[], "", "end what \\if began"),
    command(".print", &["\\qecho"], "[-n] TEXT", "print a text where results go"),
    command(".echo", &[], "on|off|TEXT", "print statements before they run, or not; or print a text"),
    command("\\echo", &[], "[-n] TEXT", "print a text on standard output"),
    command("\\warn", &[], "[-n] TEXT", "print a text on standard error"),
    command("\\sf", &[], "FUNCTION", "show the definition of a function"),
    command("\\sv", &[], "VIEW", "show the definition of a view"),
    command("\\p", &[], "", "print the last statement"),
    command("\\w", &["\\write"], "FILE", "write the last statement into a file"),
    command("\\r", &[], "", "discard the statement in front of it"),
    command(".cd", &["\\cd"], "DIR", "change the working directory"),
    command(".shell", &["\\!", ".system"], "COMMAND", "run a command of the system"),
    command(".bail", &[], "[on|off]", "end a script with its first error, or not (also \\set ON_ERROR_STOP on)"),
    command("\\errverbose", &[], "", "show the last error in full, with its code"),
    command("\\conninfo", &[], "", "show what statements go to"),
    command("\\encoding", &[], "[NAME]", "show the encoding of texts, which is UTF8"),
    command("\\restrict", &[], "WORD", "turn commands off, as dumps do, until \\unrestrict says the word"),
    command("\\unrestrict", &[], "WORD", "turn commands on again"),
    command(".quit", &["\\q", ".exit", "exit", "quit"], "[CODE]", "exit (also Ctrl-D)"),
];

/// Commands of other shells that make no sense here, and what to do instead.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["\\c", "\\connect", ".open"],
        "a shell keeps its database; leave it, and start 'diligence shell' with --db DIR or --connect URL",
    ),
    (&[".version"], "SELECT version() tells it"),
    (&[".changes"], "commands tell how many rows they have changed"),
    (&[".width", ".maxwidth"], "columns are as wide as their values; '.expanded on' shows wide rows line by line"),
    (&[".dump"], "EXPORT DATABASE 'DIR' writes all tables"),
    (&[".backup", ".save"], "BACKUP DATABASE TO 'DIR' copies a database that --db keeps"),
    (&["\\."], "it ends the rows of a COPY … FROM STDIN, and there is none"),
    (&["\\password"], "ALTER ROLE … PASSWORD changes a password; 'diligence serve --hash-password' hashes one"),
    (&["\\s"], "Ctrl-R searches the history"),
    (&["\\H", "\\C", "\\T"], "'.mode MODE' sets the output format: csv, markdown and others"),
    (&["\\ef"], "'\\sf FUNCTION' shows a function, and '\\e FILE' edits a file"),
    (&["\\ev"], "'\\sv VIEW' shows a view, and '\\e FILE' edits a file"),
];

/// What a line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The list of commands.
    Help,
    /// A list of what fits a pattern.
    List(Listing, String),
    /// The columns of a table.
    Describe(String),
    /// A format, and how its tables look.
    Mode(Format, Frame, Expanded),
    /// When values stand one below the other; `None` switches.
    Expanded(Option<Expanded>),
    /// The most rows; `None` tells it.
    MaxRows(Option<usize>),
    /// Whether something is on; `None` switches.
    Switch(Switch, Option<bool>),
    /// What stands for NULL.
    Null(String),
    /// The lines of tables.
    Border(Frame),
    /// Whether values are aligned, the other way.
    Align,
    /// What stands between values that are not aligned; `None` tells it.
    FieldSeparator(Option<String>),
    /// What stands between rows that are not aligned.
    RecordSeparator(String),
    /// What stands between values in CSV.
    CsvSeparator(char),
    /// All of that.
    Show,
    /// The statements and commands of a file, and whether its name is relative to the file that says so.
    Read(String, bool),
    /// Where results go; `None` for standard output.
    Output(Option<String>),
    /// Where those of the next statement go.
    Once(String),
    /// The statement at hand, into a file, and shown with these settings.
    Go(Option<String>, Vec<Command>),
    /// The statement at hand, with these values for its parameters and the command behind them.
    Bind(String),
    /// The statement at hand, again and again: how often, and how many times.
    Watch(Duration, Option<u64>),
    /// A file in the editor; `None` for the last statement.
    Edit(Option<String>),
    /// The values of the statement at hand as variables, with a prefix for their names.
    SetVariables(String),
    /// The values of the statement at hand as statements.
    RunValues,
    /// The columns of the statement at hand.
    DescribeStatement,
    /// The statement at hand with the values of a column as columns.
    Crosstab(String),
    /// Rows between a table and a file.
    Copy(String),
    /// Rows of a file into a table.
    Import(Import),
    /// A variable, as its arguments say; without any, all variables.
    Set(String),
    /// A variable less.
    Unset(String),
    /// A variable, from the environment.
    FromEnvironment(String, String),
    /// A variable of the environment, as its arguments say.
    SetEnvironment(String),
    /// A variable, from a person.
    Prompt(String),
    /// Whether commands are off from now on, and the word that says so.
    Restrict(String, bool),
    /// The statement at hand into a file.
    WriteStatement(String),
    /// A condition.
    If(String),
    /// Another condition.
    ElseIf(String),
    /// What runs if no condition is true.
    Else,
    /// The end of a condition.
    EndIf,
    /// A text, and where it goes.
    Print(String, PrintedTo),
    /// The definition of a function.
    ShowFunction(String),
    /// The definition of a view.
    ShowView(String),
    /// The last statement.
    PrintStatement,
    /// Forgets the statement at hand.
    Reset,
    /// Another folder.
    ChangeFolder(String),
    /// A command of the system.
    System(String),
    /// The last error in full.
    LastError,
    /// What statements go to.
    ConnectionInfo,
    /// The encoding of texts; `None` tells it.
    Encoding(Option<String>),
    /// The end, and an exit code.
    Quit(Option<u8>),
}

/// Where a text is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintedTo {
    /// Where results go.
    Results,
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// What is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Names of columns.
    Headers,
    /// Types of columns.
    Types,
    /// The number of rows.
    Footer,
    /// Neither header nor count.
    TuplesOnly,
    /// A pager.
    Pager,
    /// Times.
    Timer,
}

impl Switch {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Headers => "Header",
            Self::Types => "Types of columns",
            Self::Footer => "Footer",
            Self::TuplesOnly => "Tuples only",
            Self::Pager => "Pager",
            Self::Timer => "Timing",
        }
    }
}

impl Command {
    /// Whether it is about the statement in front of it.
    pub fn takes_statement(&self) -> bool {
        matches!(
            self,
            Self::Go(..)
                | Self::Bind(_)
                | Self::Watch(..)
                | Self::Edit(None)
                | Self::PrintStatement
                | Self::WriteStatement(_)
                | Self::Reset
                | Self::SetVariables(_)
                | Self::RunValues
                | Self::DescribeStatement
                | Self::Crosstab(_)
        )
    }
}

/// Commands whose arguments are taken as they are, or as words in which the command itself looks for variables.
const WITHOUT_VARIABLES: [&str; 16] = [
    "\\!", ".shell", ".system", "\\copy", "\\set", ".set", "\\if", "\\elif", "\\echo", "\\qecho", "\\warn", ".print",
    ".echo", "\\prompt", "\\bind", "\\setenv",
];

/// Whether variables in the argument of a command have been given their values before it is understood.
pub fn takes_variables(line: &str) -> bool {
    let name = line.trim().split(char::is_whitespace).next().unwrap_or_default();
    !name.starts_with("\\!") && !WITHOUT_VARIABLES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a line says which parts of a text run.
pub fn is_conditional(line: &str) -> bool {
    let name = line.trim().trim_end_matches(';').split(char::is_whitespace).next().unwrap_or_default();
    ["\\if", "\\elif", "\\else", "\\endif"].contains(&name)
}

/// Finds out what a line asks for. Fails with a message if there is no such command, or its arguments are wrong.
pub fn parse(line: &str) -> Result<Command, String> {
    // Users tend to end commands with a semicolon as well.
    let line = line.trim();
    let is_separator =
        line.ends_with(" ;") && ["\\pset ", "\\f ", ".separator "].iter().any(|name| line.starts_with(name));
    let line = if is_separator { line } else { line.trim_end_matches(';').trim_end() };
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    // `\!ls` and `\?` are the only ones that need no blank behind them.
    let (name, argument) = match line.strip_prefix("\\!") {
        Some(command) => ("\\!", command.trim()),
        None => (name, argument),
    };
    let name = if name.starts_with('\\') { name.to_owned() } else { name.to_ascii_lowercase() };
    let bare = without_letters(&name);
    let is_named = |command: &&ShellCommand| command.names().any(|known| known == bare);
    let known = match bare {
        "?" | "help" => &COMMANDS[0],
        "\\d" if !argument.is_empty() => return Ok(Command::Describe(argument.to_owned())),
        _ => COMMANDS.iter().find(is_named).ok_or_else(|| unknown(&name))?,
    };
    let of_system = name[bare.len()..].contains('S').then(|| in_all_schemas(argument));
    meaning(known.name, of_system.as_deref().unwrap_or(argument)).unwrap_or_else(|| Err(usage(known, &name)))
}

/// The name of a command of psql's that lists or shows something without the letters behind it: `+` for more, and `S`
/// for what the system has as well.
fn without_letters(name: &str) -> &str {
    let takes_letters = ["\\d", "\\l", "\\z", "\\sf", "\\sv"].iter().any(|known| name.starts_with(known));
    if takes_letters { name.trim_end_matches(['+', 'S']) } else { name }
}

/// A pattern of names that finds them in the schemas of the system as well.
fn in_all_schemas(pattern: &str) -> String {
    match pattern {
        "" => "*.*".to_owned(),
        pattern if pattern.contains('.') => pattern.to_owned(),
        pattern => format!("*.{pattern}"),
    }
}

/// What a command with an argument asks for; `None` if it cannot have this argument.
fn meaning(name: &str, argument: &str) -> Option<Result<Command, String>> {
    let given = (!argument.is_empty()).then(|| unquoted(argument));
    let list = |listing| Some(Command::List(listing, argument.to_owned()));
    let switch = |which| on_or_off(argument).map(|on| Command::Switch(which, on));
    let command = match name {
        ".help" => Some(Command::Help),
        ".tables" => list(Listing::Relations),
        "\\dt" => list(Listing::Tables),
        ".views" => list(Listing::Views),
        "\\dm" => list(Listing::MaterializedViews),
        ".indexes" => list(Listing::Indexes),
        ".sequences" => list(Listing::Sequences),
        ".functions" => list(Listing::Functions),
        ".schemas" => list(Listing::Schemas),
        ".roles" => list(Listing::Roles),
        ".databases" => list(Listing::Databases),
        ".usertypes" => list(Listing::Types),
        ".privileges" => list(Listing::Privileges),
        ".extensions" => list(Listing::Extensions),
        ".languages" => list(Listing::Languages),
        "\\dD" => list(Listing::Domains),
        "\\dconfig" => list(Listing::Settings),
        "\\db" => list(Listing::Tablespaces),
        ".schema" if argument.is_empty() => list(Listing::Relations),
        ".schema" => Some(Command::Describe(argument.to_owned())),
        ".mode" if argument.is_empty() => Some(Command::Show),
        ".mode" => mode(argument),
        ".expanded" => expanded(argument).map(Command::Expanded),
        ".maxrows" if argument.is_empty() => Some(Command::MaxRows(None)),
        ".maxrows" => argument.parse().ok().map(|rows| Command::MaxRows(Some(rows))),
        ".headers" => switch(Switch::Headers),
        ".types" => switch(Switch::Types),
        ".tuples" => switch(Switch::TuplesOnly),
        ".pager" => switch(Switch::Pager),
        ".timer" => switch(Switch::Timer),
        ".nullvalue" => Some(Command::Null(given.unwrap_or_default())),
        ".border" => border(argument).map(Command::Border),
        ".show" => Some(Command::Show),
        "\\pset" => return Some(pset(argument)),
        "\\a" if argument.is_empty() => Some(Command::Align),
        "\\f" => Some(Command::FieldSeparator((!argument.is_empty()).then(|| separator(argument)))),
        ".read" => given.map(|file| Command::Read(file, false)),
        "\\ir" => given.map(|file| Command::Read(file, true)),
        ".output" => Some(Command::Output(given)),
        ".once" => given.map(Command::Once),
        "\\g" => return go(argument, Vec::new()),
        "\\gx" => return go(argument, vec![Command::Expanded(Some(Expanded::On))]),
        "\\bind" => Some(Command::Bind(argument.to_owned())),
        "\\watch" => watch(argument),
        ".edit" => Some(Command::Edit(given)),
        "\\gset" => Some(Command::SetVariables(argument.to_owned())),
        "\\gexec" if argument.is_empty() => Some(Command::RunValues),
        "\\gdesc" if argument.is_empty() => Some(Command::DescribeStatement),
        "\\crosstabview" => Some(Command::Crosstab(argument.to_owned())),
        "\\copy" if !argument.is_empty() => Some(Command::Copy(argument.to_owned())),
        ".import" => return Some(Import::of(argument).map(Command::Import)),
        "\\set" => Some(Command::Set(argument.to_owned())),
        ".bail" => on_or_off(argument).map(|on| {
            let on = if on.unwrap_or(true) { "on" } else { "off" };
            Command::Set(format!("ON_ERROR_STOP {on}"))
        }),
        "\\unset" => given.map(Command::Unset),
        "\\getenv" => argument
            .split_once(char::is_whitespace)
            .map(|(name, variable)| Command::FromEnvironment(name.to_owned(), variable.trim().to_owned())),
        "\\setenv" if !argument.is_empty() => Some(Command::SetEnvironment(argument.to_owned())),
        "\\prompt" if !argument.is_empty() => Some(Command::Prompt(argument.to_owned())),
        "\\restrict" => given.map(|word| Command::Restrict(word, true)),
        "\\unrestrict" => given.map(|word| Command::Restrict(word, false)),
        "\\w" => given.map(Command::WriteStatement),
        "\\if" => Some(Command::If(argument.to_owned())),
        "\\elif" => Some(Command::ElseIf(argument.to_owned())),
        "\\else" => Some(Command::Else),
        "\\endif" => Some(Command::EndIf),
        ".echo" if ["on", "off"].contains(&argument) => {
            Some(Command::Set(format!("ECHO {}", if argument == "on" { "queries" } else { "none" })))
        }
        ".print" | ".echo" => Some(Command::Print(argument.to_owned(), PrintedTo::Results)),
        "\\echo" => Some(Command::Print(argument.to_owned(), PrintedTo::Output)),
        "\\warn" => Some(Command::Print(argument.to_owned(), PrintedTo::Errors)),
        "\\sf" => given.map(Command::ShowFunction),
        "\\sv" => given.map(Command::ShowView),
        "\\p" => Some(Command::PrintStatement),
        "\\r" => Some(Command::Reset),
        ".cd" => given.map(Command::ChangeFolder),
        ".shell" => (!argument.is_empty()).then(|| Command::System(argument.to_owned())),
        "\\errverbose" => Some(Command::LastError),
        "\\conninfo" => Some(Command::ConnectionInfo),
        "\\encoding" => Some(Command::Encoding(given)),
        ".quit" if argument.is_empty() => Some(Command::Quit(None)),
        ".quit" => argument.parse().ok().map(|code| Command::Quit(Some(code))),
        _ => None,
    };
    command.map(Ok)
}

/// The argument without the quotes around it.
fn unquoted(argument: &str) -> String {
    let inside = argument.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inside.map_or_else(|| argument.to_owned(), |inside| inside.replace("''", "'"))
}

/// The text of a separator, which may be in quotes and have `\t` and the like there.
fn separator(argument: &str) -> String {
    let mut text = String::new();
    match argument.starts_with('\'').then(|| single_quoted(argument, &mut text)).flatten() {
        Some(length) if length == argument.len() => text,
        _ => argument.to_owned(),
    }
}

/// psql's `\g`: settings in parentheses, and a file.
fn go(argument: &str, mut settings: Vec<Command>) -> Option<Result<Command, String>> {
    let mut file = argument;
    if let Some(rest) = argument.strip_prefix('(') {
        let (inside, behind) = rest.split_once(')')?;
        file = behind.trim();
        for setting in inside.split_whitespace() {
            match pset(&setting.replacen('=', " ", 1)) {
                Ok(setting) => settings.push(setting),
                Err(message) => return Some(Err(message)),
            }
        }
    }
    let file = (!file.is_empty()).then(|| unquoted(file));
    Some(Ok(Command::Go(file, settings)))
}

fn on_or_off(argument: &str) -> Option<Option<bool>> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Some(None),
        "on" | "true" | "yes" | "1" => Some(Some(true)),
        "off" | "false" | "no" | "0" => Some(Some(false)),
        _ => None,
    }
}

fn expanded(argument: &str) -> Option<Option<Expanded>> {
    if argument.eq_ignore_ascii_case("auto") {
        return Some(Some(Expanded::Auto));
    }
    let on = on_or_off(argument)?;
    Some(on.map(|on| if on { Expanded::On } else { Expanded::Off }))
}

fn border(argument: &str) -> Option<Frame> {
    match argument {
        "0" => Some(Frame::Bare),
        "1" => Some(Frame::Inner),
        "2" => Some(Frame::Box),
        _ => None,
    }
}

/// The format of this name, which may be one of other shells.
fn mode(argument: &str) -> Option<Command> {
    Look::named(&argument.to_ascii_lowercase())
        .map(|Look { format, frame, expanded }| Command::Mode(format, frame, expanded))
}

/// psql's `\pset`.
fn pset(argument: &str) -> Result<Command, String> {
    let (name, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let value = value.trim();
    let command = match name.to_ascii_lowercase().as_str() {
        "" => Some(Command::Show),
        "null" => Some(Command::Null(unquoted(value))),
        "format" => mode(value),
        "border" => border(value).map(Command::Border),
        "expanded" | "x" => expanded(value).map(Command::Expanded),
        "fieldsep" => Some(Command::FieldSeparator((!value.is_empty()).then(|| separator(value)))),
        "fieldsep_zero" => Some(Command::FieldSeparator(Some("\0".to_owned()))),
        "recordsep_zero" => Some(Command::RecordSeparator("\0".to_owned())),
        "csv_fieldsep" => csv_separator(value).map(Command::CsvSeparator),
        "recordsep" => (!value.is_empty()).then(|| Command::RecordSeparator(separator(value))),
        "tuples_only" | "t" => on_or_off(value).map(|on| Command::Switch(Switch::TuplesOnly, on)),
        "footer" => on_or_off(value).map(|on| Command::Switch(Switch::Footer, on)),
        "pager" if value == "always" => Some(Command::Switch(Switch::Pager, Some(true))),
        "pager" => on_or_off(value).map(|on| Command::Switch(Switch::Pager, on)),
        other => {
            let known = "null, format, border, expanded, fieldsep, recordsep, fieldsep_zero, recordsep_zero, \
                         csv_fieldsep, tuples_only, footer and pager";
            return Err(format!("\\pset has no '{other}'; there are {known}"));
        }
    };
    command.ok_or_else(|| format!("\\pset {name} cannot be '{value}'; {}", values_of(name)))
}

/// What may stand between values in CSV.
fn csv_separator(value: &str) -> Option<char> {
    let text = separator(value);
    let mut characters = text.chars();
    let one = characters.next().filter(|one| one.is_ascii() && !matches!(one, '"' | '\n' | '\r'))?;
    characters.next().is_none().then_some(one)
}

fn values_of(option: &str) -> &'static str {
    match option {
        "format" => "the formats are table, unaligned, csv, tsv, json, jsonl, markdown, line and none",
        "recordsep" => "it is a text, such as '\\n'",
        "csv_fieldsep" => "it is one character, and neither a quote nor an end of line",
        "border" => "it is 0, 1 or 2",
        "expanded" | "x" => "it is on, off or auto",
        _ => "it is on or off",
    }
}

/// `\watch 5`, or `\watch i=5 c=3` as in psql 16.
fn watch(argument: &str) -> Option<Command> {
    let (mut every, mut times) = (Duration::from_secs(2), None);
    for word in argument.split_whitespace() {
        match word.split_once('=') {
            Some(("c" | "count", count)) => times = Some(count.parse().ok()?),
            Some(("i" | "interval", seconds)) => every = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
            Some(_) => return None,
            None => every = Duration::try_from_secs_f64(word.parse().ok()?).ok()?,
        }
    }
    Some(Command::Watch(every, times))
}

/// The width of arguments in the lines of `.help`; few are longer.
const ARGUMENTS_WIDTH: usize = 16;

/// The lines of `.help`.
pub fn help() -> String {
    let mut text = String::new();
    let also = |command: &ShellCommand| command.also.join(" ");
    let names = COMMANDS.iter().map(|command| command.name.len()).max().unwrap_or(0);
    let others = COMMANDS.iter().map(|command| also(command).len()).max().unwrap_or(0);
    for command in COMMANDS {
        let (name, given, also) = (command.name, command.arguments, also(command));
        let line = format!("{name:<names$} {given:<ARGUMENTS_WIDTH$} {also:<others$} {}", command.help);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(
        "Anything else is SQL and ends with ';'. Tab completes, Ctrl-C cancels, Ctrl-R searches the history.",
    );
    text
}

fn usage(command: &ShellCommand, name: &str) -> String {
    format!("usage: {name} {} ({})", command.arguments, command.help)
}

fn unknown(name: &str) -> String {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(names, _)| names.contains(&name)) {
        return format!("{name} is not a command of this shell: {instead}");
    }
    let list = if name.starts_with('\\') { "\\?" } else { ".help" };
    format!("unknown command {name}; '{list}' lists the commands")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_shells_are_understood() {
        let is = |line: &str, command: Command| assert_eq!(parse(line), Ok(command), "{line}");
        is(" EXIT ;", Command::Quit(None));
        is(".exit 3", Command::Quit(Some(3)));
        is(".once a.csv", Command::Once("a.csv".to_owned()));
        is(".echo on", Command::Set("ECHO queries".to_owned()));
        is(".echo on time", Command::Print("on time".to_owned(), PrintedTo::Results));
        is("help", Command::Help);
        is("\\?", Command::Help);
        is("\\d", Command::List(Listing::Relations, String::new()));
        is("\\d  Orders;", Command::Describe("Orders".to_owned()));
        is("\\dv+ o*", Command::List(Listing::Views, "o*".to_owned()));
        is("\\dt", Command::List(Listing::Tables, String::new()));
        is("\\dtS+ pg_*", Command::List(Listing::Tables, "*.pg_*".to_owned()));
        is("\\dS", Command::List(Listing::Relations, "*.*".to_owned()));
        is("\\dS+ pg_class", Command::Describe("pg_class".to_owned()));
        is("\\dm s.*", Command::List(Listing::MaterializedViews, "s.*".to_owned()));
        is("\\l", Command::List(Listing::Databases, String::new()));
        is("\\dT m*", Command::List(Listing::Types, "m*".to_owned()));
        is("\\z", Command::List(Listing::Privileges, String::new()));
        is("\\timing off", Command::Switch(Switch::Timer, Some(false)));
        is("\\timing", Command::Switch(Switch::Timer, None));
        is("\\x", Command::Expanded(None));
        is("\\x auto", Command::Expanded(Some(Expanded::Auto)));
        is("\\pset null '(none)'", Command::Null("(none)".to_owned()));
        is("\\pset border 1", Command::Border(Frame::Inner));
        is(".MODE line", Command::Mode(Format::Table, Frame::Box, Expanded::On));
        is("\\g", Command::Go(None, Vec::new()));
        let below = || Command::Expanded(Some(Expanded::On));
        is("\\gx | less", Command::Go(Some("| less".to_owned()), vec![below()]));
        let settings = vec![
            Command::Mode(Format::Csv, Frame::Box, Expanded::Auto),
            Command::Switch(Switch::TuplesOnly, Some(true)),
        ];
        is("\\g (format=csv tuples_only=on) a.csv", Command::Go(Some("a.csv".to_owned()), settings));
        is("\\gx (footer=off)", Command::Go(None, vec![below(), Command::Switch(Switch::Footer, Some(false))]));
        is("\\a", Command::Align);
        is("\\f '\\t'", Command::FieldSeparator(Some("\t".to_owned())));
        is("\\pset fieldsep ';'", Command::FieldSeparator(Some(";".to_owned())));
        is("\\pset csv_fieldsep ;", Command::CsvSeparator(';'));
        is("\\f ;", Command::FieldSeparator(Some(";".to_owned())));
        is(".separator ;", Command::FieldSeparator(Some(";".to_owned())));
        is("\\pset fieldsep_zero", Command::FieldSeparator(Some("\0".to_owned())));
        is("\\errverbose;", Command::LastError);
        is("\\dconfig work*", Command::List(Listing::Settings, "work*".to_owned()));
        is("\\pset recordsep '\\n--\\n'", Command::RecordSeparator("\n--\n".to_owned()));
        is("\\bind 1 'a b' \\gx", Command::Bind("1 'a b' \\gx".to_owned()));
        is("\\setenv A b c", Command::SetEnvironment("A b c".to_owned()));
        is("\\watch 0.5", Command::Watch(Duration::from_millis(500), None));
        is("\\watch i=1 c=3", Command::Watch(Duration::from_secs(1), Some(3)));
        is("\\!ls -l", Command::System("ls -l".to_owned()));
        is(".maxrows 7", Command::MaxRows(Some(7)));
        is(".schema", Command::List(Listing::Relations, String::new()));
        is(".mode", Command::Show);
        is(".bail on", Command::Set("ON_ERROR_STOP on".to_owned()));
        is("\\ir a.sql", Command::Read("a.sql".to_owned(), true));
        is("\\getenv home HOME", Command::FromEnvironment("home".to_owned(), "HOME".to_owned()));
        is("\\else ;", Command::Else);
        is("\\prompt 'a b: ' x", Command::Prompt("'a b: ' x".to_owned()));
        is("\\unrestrict aB1", Command::Restrict("aB1".to_owned(), false));
        is("\\w a.sql", Command::WriteStatement("a.sql".to_owned()));
        is("\\pset footer off", Command::Switch(Switch::Footer, Some(false)));
        assert!(takes_variables("\\d :t") && !takes_variables("\\!echo :t") && !takes_variables("\\set a :b"));
    }

    #[test]
    fn mistakes_say_what_to_do() {
        let told = |line: &str, what: &str| {
            let message = parse(line).unwrap_err();
            assert!(message.contains(what), "{line}: {message}");
        };
        told("\\dance", "unknown command \\dance; '\\?' lists");
        told(".dance", "unknown command .dance; '.help' lists");
        told("\\D", "unknown command \\D");
        told("\\c other", "--connect URL");
        told(".import a.csv", "usage: .import [--csv] [--skip N] FILE TABLE");
        told("\\prompt", "usage: \\prompt [TEXT] NAME");
        told("\\restrict", "usage: \\restrict WORD");
        told("\\copy", "usage: \\copy ARGUMENTS");
        told("\\gexec now", "usage: \\gexec");
        told("\\timing maybe", "usage: \\timing [on|off]");
        told(".bail maybe", "usage: .bail [on|off]");
        told(".exit now", "usage: .exit [CODE]");
        told("\\watch soon", "usage: \\watch [SECONDS]");
        told("\\watch -1", "usage: \\watch");
        told("\\pset linestyle ascii", "has no 'linestyle'");
        told("\\g (format=xml) x", "the formats are");
        told("\\g (format=csv x", "usage: \\g");
        told("\\setenv", "usage: \\setenv NAME [VALUE]");
        told("\\pset border 7", "0, 1 or 2");
        told(".mode xml", "json");
    }

    #[test]
    fn every_name_is_one_command() {
        let mut names = COMMANDS.iter().flat_map(|known| known.also.iter().chain([&known.name])).collect::<Vec<_>>();
        names.extend(ELSEWHERE.iter().flat_map(|(names, _)| names.iter()));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        // And each is understood, with one of these arguments.
        for known in COMMANDS {
            let is_understood = ["", "t", "on", "1", "csv", "null x", "a b"]
                .iter()
                .any(|argument| meaning(known.name, argument).is_some_and(|meaning| meaning.is_ok()));
            assert!(is_understood, "{}", known.name);
        }
    }
}
