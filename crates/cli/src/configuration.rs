//! The configuration of a server: a TOML file with the options of `diligence serve` by their names, and users.
//!
//! ```toml
//! data = "/srv/sales"
//! http = "0.0.0.0:8123"
//! memory = "8GiB"
//! log-format = "json"
//! temp-dir = ["/mnt/a", "/mnt/b"]     # an option that may be repeated is a list
//! set = { timezone = "Europe/Berlin" }
//!
//! [users.ann]                         # as in the file of --users
//! password = "SCRAM-SHA-256$4096:…"
//! ```
//!
//! The file stands for options of the command line, so their texts, checks and messages are the same. An option that
//! the command line has is not taken from the file. Paths are relative to the working directory, as there.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command as Definition, CommandFactory, Parser};
use diligence_server::Users;
use toml::{Table, Value};

use crate::arguments::{Arguments, Command, ServeArguments};
use crate::failure::Failure;

/// The name of the subcommand.
const SERVE: &str = "serve";
/// Options that are not for the file.
const NOT_IN_FILE: [&str; 4] = ["config", "hash-password", "help", "version"];
/// Tables of the file that are not options.
const TABLES: [&str; 2] = ["users", "roles"];

/// The arguments with what the configuration says.
pub struct Configured {
    /// The arguments.
    pub arguments: ServeArguments,
    /// The users of the file, if it has some.
    pub users: Option<Users>,
}

/// Reads the configuration that the arguments of this process name, if they do. Fails with all its mistakes, if they
/// are wrong names or types of values, otherwise with the first.
pub fn configured(arguments: ServeArguments) -> Result<Configured, Failure> {
    let Some(path) = arguments.config.clone() else { return Ok(Configured { arguments, users: None }) };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::Usage(format!("cannot read the configuration {}: {error}", path.display())))?;
    merged(std::env::args_os().collect(), &path, &text)
}

/// What a command line means with a file of this text.
fn merged(command_line: Vec<OsString>, path: &Path, text: &str) -> Result<Configured, Failure> {
    let wrong = |what: &dyn std::fmt::Display| Failure::Usage(format!("{}: {what}", path.display()));
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| wrong(&error.to_string().trim()))?;
    let users = users_of(&mut table).map_err(|what| wrong(&what))?;
    let mut definition = Arguments::command();
    definition.build();
    let Some(serve) = definition.find_subcommand(SERVE) else { return Err(wrong(&"there is no server")) };
    let given = definition.clone().try_get_matches_from(&command_line);
    let given = given.map_err(|error| Failure::Usage(error.to_string()))?;
    let in_file = arguments_of(&table, serve, given.subcommand_matches(SERVE)).map_err(|what| wrong(&what))?;
    let users = users.filter(|_| given.subcommand_matches(SERVE).is_none_or(|given| !is_given(given, "users")));
    let after = command_line.iter().position(|word| word == SERVE).map_or(command_line.len(), |place| place + 1);
    let (before, behind) = command_line.split_at(after);
    let whole = before.iter().cloned().chain(in_file.into_iter().map(OsString::from)).chain(behind.iter().cloned());
    let parsed = Arguments::try_parse_from(whole).map_err(|error| {
        let text = error.to_string();
        // What is missing stands in lines of its own; behind an empty one is how the command is used.
        let said = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect::<Vec<_>>();
        wrong(&said.join(" ").trim_start_matches("error: "))
    })?;
    match parsed.command {
        Command::Serve(arguments) => Ok(Configured { arguments, users }),
        _ => Err(wrong(&"it is for 'diligence serve'")),
    }
}

/// Takes the users and roles out of the file.
fn users_of(table: &mut Table) -> Result<Option<Users>, String> {
    let mut own = Table::new();
    for name in TABLES {
        // `users = "FILE"` is the option.
        if table.get(name).is_some_and(Value::is_table) {
            own.extend(table.remove(name).map(|value| (name.to_owned(), value)));
        }
    }
    if own.is_empty() {
        return Ok(None);
    }
    if table.contains_key("users") {
        return Err("'users' names a file, so roles are in that".to_owned());
    }
    let text = toml::to_string(&own).map_err(|error| error.to_string())?;
    Users::parse(&text).map(Some).map_err(|error| error.message().to_owned())
}

fn is_given(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id) == Some(ValueSource::CommandLine)
}

/// The options of the file as a command line has them, without those that are given. Fails with all mistakes.
fn arguments_of(table: &Table, serve: &Definition, given: Option<&ArgMatches>) -> Result<Vec<String>, String> {
    let options = serve.get_arguments().filter_map(|option| Some((option.get_long()?, option)));
    let options = options.filter(|(name, _)| !NOT_IN_FILE.contains(name)).collect::<Vec<_>>();
    let (mut arguments, mut mistakes) = (Vec::new(), Vec::new());
    for (key, value) in table {
        let Some((name, option)) = options.iter().find(|(name, _)| name == key) else {
            let names = options.iter().map(|(name, _)| *name).chain(TABLES);
            mistakes.push(match value.is_table() {
                true => format!("there is no table '{key}'; options stand at the beginning of the file, in no table"),
                false => unknown(key, names),
            });
            continue;
        };
        if given.is_some_and(|given| is_given(given, option.get_id().as_str())) {
            continue;
        }
        match texts(value, option) {
            Ok(texts) => arguments.extend(texts.into_iter().map(|text| match text {
                Some(text) => format!("--{name}={text}"),
                None => format!("--{name}"),
            })),
            Err(expected) => mistakes.push(format!("'{key}' is {expected}")),
        }
    }
    if mistakes.is_empty() { Ok(arguments) } else { Err(mistakes.join("; ")) }
}

fn unknown<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> String {
    /// How much alike two names are, of 1, if one may be meant by the other.
    const ALIKE: f64 = 0.8;
    let plain = key.replace('_', "-").to_lowercase();
    if NOT_IN_FILE.contains(&plain.as_str()) {
        return format!("there is no option '{key}' in the file: it is for the command line");
    }
    let alike = names.map(|name| (strsim::jaro_winkler(name, &plain), name));
    match alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(alike, _)| *alike >= ALIKE) {
        Some((_, name)) => format!("there is no option '{key}'; the nearest is '{name}'"),
        None => format!("there is no option '{key}'; 'diligence serve --help' lists them"),
    }
}

/// The values of an option as the command line has them; one `None` for a flag that is set. Fails with what is
/// expected.
fn texts(value: &Value, option: &Arg) -> Result<Vec<Option<String>>, &'static str> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    match option.get_action() {
        ArgAction::SetTrue => match value {
            Value::Boolean(true) => Ok(vec![None]),
            Value::Boolean(false) => Ok(vec![]),
            _ => Err("true or false"),
        },
        ArgAction::Append => match value {
            Value::Array(values) => {
                values.iter().map(|value| one(value).map(Some).ok_or("a list of texts and numbers")).collect()
            }
            Value::Table(entries) if option.get_id() == "settings" => {
                let setting = |(name, value): (&String, &Value)| match value {
                    Value::Boolean(flag) => Ok(Some(format!("{name}={flag}"))),
                    other => one(other).map(|text| Some(format!("{name}={text}"))).ok_or("texts, numbers and flags"),
                };
                entries.iter().map(setting).collect()
            }
            other => one(other).map(|text| vec![Some(text)]).ok_or("a text or a list of them"),
        },
        _ => one(value).map(|text| vec![Some(text)]).ok_or("a text or a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command_line: &str, text: &str) -> Result<Configured, String> {
        let command_line = command_line.split(' ').map(OsString::from).collect();
        merged(command_line, Path::new("c.toml"), text).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_file_has_the_options_by_their_names() {
        let text = "http = 'off'\npostgres = 7000\nfiles = true\nsessions-max = 9\ntemp-dir = ['a', 'b']\n\
                    log-level = 'debug'\nslow-statement = '1s'\nset = { timezone = 'UTC', a = 1 }\npin-workers = false";
        let Configured { arguments, users } = read("diligence serve --config c.toml", text).unwrap();
        assert!(users.is_none() && arguments.files && !arguments.database.pin_workers);
        assert_eq!(arguments.postgres.address(1).unwrap().port(), 7000);
        assert_eq!(arguments.http.address(1), None);
        assert_eq!(arguments.sessions_max.unwrap().get(), 9);
        assert_eq!((arguments.database.temp_dir.len(), arguments.database.settings.len()), (2, 2));
        assert_eq!(arguments.log_level.name(), "debug");
        for text in ["statement-timeout = 90", "statement-timeout = '90s'", "statement-timeout = '1500ms'"] {
            let arguments = read("diligence serve --config c.toml", text).unwrap().arguments;
            let expected = if text.contains("ms") { 1500 } else { 90_000 };
            assert_eq!(arguments.statement_timeout.unwrap().as_millis(), expected, "{text}");
        }
    }

    #[test]
    fn the_command_line_wins() {
        let text = "postgres = 7000\ntemp-dir = ['a', 'b']\nsessions-max = 9";
        let line = "diligence serve --postgres 7001 --temp-dir c --config c.toml";
        let arguments = read(line, text).unwrap().arguments;
        assert_eq!(arguments.postgres.address(1).unwrap().port(), 7001);
        assert_eq!((arguments.database.temp_dir.len(), arguments.sessions_max.unwrap().get()), (1, 9));
    }

    #[test]
    fn users_are_in_the_file_or_in_their_own() {
        let text = "http = 'off'\n[users.ann]\npassword = 'x'\nrole = 'r'\n[roles.r]\ntables = ['a']";
        assert!(read("diligence serve --config c.toml", text).unwrap().users.unwrap().get("ann").is_some());
        assert!(read("diligence serve --users u.toml --config c.toml", text).unwrap().users.is_none());
        let named = read("diligence serve --config c.toml", "users = 'u.toml'").unwrap();
        assert!(named.users.is_none() && named.arguments.users.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("session_max = 3", "'sessions-max'"),
            ("htpp = 'off'", "'http'"),
            ("[server]\nhttp = 'off'", "no table 'server'"),
            ("tls-certificate = 'a'", "--tls-key"),
            ("config = 'x'", "no option 'config'"),
            ("hash-password = true", "for the command line"),
            ("weather = 'fine'", "serve --help"),
            ("statement-timeout = 'soon'", "such as 500ms, 30s or 5min"),
            ("[users.'']\npassword = 'x'", "has no name"),
            ("sessions-max = 0", "at least 1"),
            ("sessions-max = [1]", "a text or a number"),
            ("files = 1", "true or false"),
            ("http = ", "c.toml"),
            ("[users.ann]\npasword = 'x'", "pasword"),
            ("htpp = 1\nfiles = 1", "htpp"),
        ] {
            let error = read("diligence serve --config c.toml", text).err().unwrap();
            assert!(error.contains(why) && error.contains("c.toml"), "{text}: {error}");
        }
        let both = read("diligence serve --config c.toml", "htpp = 1\nfiles = 1").err().unwrap();
        assert!(both.contains("htpp") && both.contains("'files' is true or false"), "{both}");
    }
}
