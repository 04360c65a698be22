//! Runs what is entered: statements, and commands between them.

use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use diligence_base::Error;
use diligence_db::Session;
use diligence_server::texts;

use super::commands::{self, Command, PrintedTo};
use super::conditions::Conditions;
use super::copy;
use super::crosstab::crosstab;
use super::describe;
use super::import::Import;
use super::listings::Listing;
use super::looks;
use super::script::{Part, Piece, parts, with_semicolons};
use super::variables::{Variables, boolean};
use crate::copied_lines::CopiedLines;
use crate::environment;
use crate::failure::{Failure, complain};
use crate::output::{Expanded, Format, printable};
use crate::sink::Sink;
use crate::sources::Source;
use crate::statements::{Echo, Runner};
use crate::target::{CopyStream, LOOK_EVERY, Target};

/// How deep files may read files; one that reads itself would never end.
const FILES_DEEP_MAX: u32 = 32;

/// Variables that tell of the database, as psql has them, and what they are.
const FACTS: [(&str, &str); 5] = [
    ("DBNAME", "current_database()"),
    ("USER", "current_user"),
    ("ENCODING", "'UTF8'"),
    ("SERVER_VERSION_NAME", "current_setting('server_version')"),
    ("SERVER_VERSION_NUM", "current_setting('server_version_num')"),
];

/// PostgreSQL's `io_error`: of files and commands of this machine.
const IO_ERROR: &str = "58030";

/// What the shell does next.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// Prompt for the next statement.
    Prompt,
    /// Take this as if it had been typed.
    Entered(String),
    /// Exit.
    Exit,
}

/// A session of the shell.
pub struct Shell<'a> {
    runner: &'a Runner<'a>,
    target: &'a dyn Target,
    /// What a prompt says of the target.
    place: String,
    /// Whether somebody types.
    interactive: bool,
    /// Whether settings are changed without a word.
    quiet: Cell<bool>,
    /// The last statement.
    last: RefCell<String>,
    /// What `\x` goes back to.
    folded: Cell<Expanded>,
    files: Cell<u32>,
    /// The file that is being read.
    file: RefCell<Option<PathBuf>>,
    /// Whether the input with the rows of COPY is a file rather than standard input.
    reads_file: Cell<bool>,
    /// Whether ECHO prints the parts of a text as they run: of a file that is read at once.
    prints_parts: Cell<bool>,
    /// The last error, in full.
    last_error: RefCell<Option<String>>,
    /// Where the results of the next statement go, if elsewhere.
    once: RefCell<Option<Sink>>,
    /// Whether the variables that tell of the database are set.
    knows_facts: Cell<bool>,
    /// How many statements were prepared for `\bind`.
    bound: Cell<u64>,
    variables: Variables,
    conditions: RefCell<Conditions>,
    /// The word that `\restrict` has said, until `\unrestrict` says it.
    restricted: RefCell<Option<String>>,
}

impl<'a> Shell<'a> {
    /// A session. `place` is what a prompt says of the target, and `interactive` whether somebody types.
    pub fn new(runner: &'a Runner<'a>, target: &'a dyn Target, place: String, interactive: bool) -> Self {
        Self {
            runner,
            target,
            place,
            interactive,
            quiet: Cell::new(!interactive),
            last: RefCell::default(),
            folded: Cell::new(Expanded::Auto),
            files: Cell::new(0),
            file: RefCell::default(),
            reads_file: Cell::new(false),
            prints_parts: Cell::new(false),
            last_error: RefCell::default(),
            once: RefCell::default(),
            knows_facts: Cell::default(),
            bound: Cell::new(0),
            variables: Variables::default(),
            conditions: RefCell::default(),
            restricted: RefCell::default(),
        }
    }

    /// Sets a variable. Fails with [`Failure::Usage`] if none can have this name.
    pub fn set_variable(&self, name: &str, value: &str) -> Result<(), Failure> {
        self.follow(name, value)?;
        self.variables.set(name, value).map_err(Failure::Usage)
    }

    /// Does what a variable says that has a meaning; an empty value stands for none. Fails for a value that it cannot
    /// have.
    fn follow(&self, name: &str, value: &str) -> Result<(), Failure> {
        match name {
            "AUTOCOMMIT" => self.runner.set_autocommit(match value {
                "" => true,
                value => boolean(value).ok_or_else(|| wrong_value(name, value, "on or off"))?,
            }),
            "ON_ERROR_ROLLBACK" => self.runner.set_guards(match value {
                "" => false,
                value if value.eq_ignore_ascii_case("interactive") => self.interactive,
                value => boolean(value).ok_or_else(|| wrong_value(name, value, "on, off or interactive"))?,
            }),
            "ECHO" => self.runner.set_echo(match value.to_ascii_lowercase().as_str() {
                "" | "none" => Echo::Nothing,
                "queries" => Echo::Queries,
                "errors" => Echo::Errors,
                "all" => Echo::Lines,
                _ => return Err(wrong_value(name, value, "none, queries, errors or all")),
            }),
            _ => {}
        }
        Ok(())
    }

    /// Prints a line of the input, if lines are printed.
    pub fn echo_line(&self, line: &str) -> Result<(), Failure> {
        match self.runner.echo() {
            Echo::Lines if !line.trim().is_empty() => self.runner.print_here(&format!("{line}\n")),
            _ => Ok(()),
        }
    }

    /// Whether the first error ends a text that comes through a pipe, as the variable ON_ERROR_STOP says.
    pub fn stops_on_error(&self) -> bool {
        self.variables.is_on("ON_ERROR_STOP")
    }

    /// Leaves all conditions, and gives whether there were any: `\if` without its `\endif`.
    pub fn leave_conditions(&self) -> bool {
        self.conditions.take().is_open()
    }

    /// Runs a text's statements and commands in order. Fails with the first error.
    pub fn run(&self, source: &Source) -> Result<After, Failure> {
        self.run_with(source, None)
    }

    /// The same, with the input from which a COPY at the end of the text gets its rows; `None` for standard input.
    pub fn run_with(&self, source: &Source, mut input: Option<&mut dyn BufRead>) -> Result<After, Failure> {
        let located = |piece: Piece| Source {
            name: source.name.clone(),
            text: piece.text,
            first_line: source.first_line + piece.lines_before,
        };
        for part in parts(&source.text) {
            if self.prints_parts.get() {
                self.echo_line(&part.text())?;
            }
            let is_active = self.conditions.borrow().is_active();
            match part {
                Part::Sql(piece) if is_active => self.statements(&located(piece))?,
                Part::Sql(_) => self.tell_ignored("statement")?,
                Part::CopyIn { statement, rows } => {
                    let statement = located(statement);
                    match (rows, input.as_mut()) {
                        (Some(rows), _) => self.copy_rows(&statement, &mut rows.as_bytes())?,
                        (None, Some(input)) => self.copy_rows(&statement, &mut **input)?,
                        (None, None) => {
                            if self.interactive && is_active {
                                self.runner
                                    .print_line("Enter rows, and \\. on a line of its own behind the last one.")?;
                            }
                            self.copy_rows(&statement, &mut stdin().lock())?;
                        }
                    }
                }
                Part::Command { line, rows, .. } if !is_active && !commands::is_conditional(&line) => {
                    if let (None, Some(input), true) = (rows, input.as_mut(), copy::reads_rows(&line)) {
                        CopiedLines::new(&mut **input).pass().map_err(|error| rows_unread(&error))?;
                    }
                    self.tell_ignored("command")?;
                }
                Part::Command { line, lines_before, statement, rows } => {
                    let statement = statement.filter(|_| is_active).map(located);
                    let mut behind = rows.as_deref().map(str::as_bytes);
                    let input: Option<&mut dyn BufRead> = match input.as_mut() {
                        Some(input) => Some(&mut **input),
                        None => None,
                    };
                    let rows = RowsAt { behind: behind.as_mut(), input };
                    let after = self.command(&line, statement, rows).map_err(|failure| match failure {
                        Failure::Usage(message) => Failure::Usage(match &source.name {
                            Some(name) => format!("{message}\n --> {name}:{}", source.first_line + lines_before),
                            None => message,
                        }),
                        other => other,
                    })?;
                    if after != After::Prompt {
                        return Ok(after);
                    }
                }
            }
        }
        Ok(After::Prompt)
    }

    /// Runs the statements and commands of a file, without a word about changed settings. Fails as [`run`](Self::run)
    /// does, and if the file cannot be read.
    pub fn run_file(&self, path: &Path) -> Result<(), Failure> {
        if self.files.get() >= FILES_DEEP_MAX {
            return Err(Failure::Usage(format!(
                "{}: more than {FILES_DEEP_MAX} files read each other",
                path.display()
            )));
        }
        let source = Source::file(path)?;
        self.files.set(self.files.get() + 1);
        let quiet = self.quiet.replace(true);
        let file = self.file.replace(Some(path.to_owned()));
        let conditions = self.conditions.take();
        let prints_parts = self.prints_parts.replace(true);
        let done = self.run(&source);
        self.prints_parts.set(prints_parts);
        let is_open = self.conditions.replace(conditions).is_open();
        *self.file.borrow_mut() = file;
        self.quiet.set(quiet);
        self.files.set(self.files.get() - 1);
        match done {
            Ok(After::Prompt) if is_open => Err(Failure::Usage(format!("{}: an \\if has no \\endif", path.display()))),
            // `.quit` ends the file only.
            done => done.map(|_| ()),
        }
    }

    /// Runs a COPY … FROM STDIN with the rows that an input begins with. They are passed, too, if it fails or a
    /// condition leaves it out.
    fn copy_rows(&self, source: &Source, input: &mut dyn BufRead) -> Result<(), Failure> {
        let mut rows = CopiedLines::new(input);
        let is_active = self.conditions.borrow().is_active();
        let copied = match is_active {
            true => {
                let source = self.filled(source.clone());
                let statement = source.text.trim().trim_end_matches(';').to_owned();
                let copied = self.runner.copy(&statement, CopyStream::From(&mut rows), false);
                let location = source.locations(std::slice::from_ref(&statement)).into_iter().next();
                *self.last.borrow_mut() = statement;
                self.noted(copied.map_err(|failure| match failure {
                    Failure::Statement(error, _) => Failure::Statement(error, location),
                    other => other,
                }))
            }
            false => self.tell_ignored("statement"),
        };
        let passed = rows.pass();
        copied?;
        passed.map_err(|error| rows_unread(&error)).map(|_| ())
    }

    /// Reads a file as an input with this, which is given the file's lines.
    pub fn reading<T>(&self, path: &Path, read: impl FnOnce() -> T) -> T {
        let file = self.file.replace(Some(path.to_owned()));
        let reads_file = self.reads_file.replace(true);
        let done = read();
        *self.file.borrow_mut() = file;
        self.reads_file.set(reads_file);
        done
    }

    fn statements(&self, source: &Source) -> Result<(), Failure> {
        let source = self.filled(source.clone());
        // What does not fall into statements fails when it runs.
        if let Some(last) = Session::split(&source.text).ok().and_then(|mut statements| statements.pop()) {
            *self.last.borrow_mut() = last;
        }
        let once = self.once.take();
        let before = once.map(|sink| self.runner.set_sink(Some(sink)));
        let done = self.noted(self.runner.run(&source));
        if let Some(before) = before {
            drop(self.runner.set_sink(before));
        }
        done
    }

    /// The statements with the values of their variables.
    fn filled(&self, source: Source) -> Source {
        self.learn_facts(&source.text);
        let text = self.variables.in_statement(&source.text);
        Source { text: if text.contains("\\;") { with_semicolons(&text) } else { text }, ..source }
    }

    /// Sets the variables that tell what has become of a statement.
    fn noted<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
        let (code, rows) = match &done {
            Err(Failure::Statement(error, _)) => {
                let code = diligence_db::sqlstate(error);
                *self.last_error.borrow_mut() = Some(in_full(error, code));
                let _ = self.variables.set("LAST_ERROR_MESSAGE", error.message());
                let _ = self.variables.set("LAST_ERROR_SQLSTATE", code);
                (code, 0)
            }
            Err(Failure::Usage(message) | Failure::Other(message)) => {
                let _ = self.variables.set("LAST_ERROR_MESSAGE", message.as_str());
                let _ = self.variables.set("LAST_ERROR_SQLSTATE", IO_ERROR);
                (IO_ERROR, 0)
            }
            _ => ("00000", self.runner.rows()),
        };
        // These are names that variables can have.
        let _ = self.variables.set("ERROR", if code == "00000" { "false" } else { "true" });
        let _ = self.variables.set("SQLSTATE", code);
        let _ = self.variables.set("ROW_COUNT", rows.to_string());
        done
    }

    /// Says that something does not run because of a condition.
    fn tell_ignored(&self, what: &str) -> Result<(), Failure> {
        match self.quiet.get() {
            true => Ok(()),
            false => self.runner.print_line(format!("The {what} is ignored; \\endif or Ctrl-C leaves this \\if.")),
        }
    }

    /// Runs a command, with the statement in front of it and the rows of `\copy`.
    fn command(&self, line: &str, statement: Option<Source>, rows: RowsAt<'_, '_>) -> Result<After, Failure> {
        self.learn_facts(line);
        let filled = commands::takes_variables(line).then(|| self.variables.in_statement(line));
        let command = commands::parse(filled.as_deref().unwrap_or(line)).map_err(Failure::Usage)?;
        if self.restricted.borrow().is_some() && !matches!(command, Command::Restrict(_, false)) {
            return Err(Failure::Usage("commands are off between \\restrict and \\unrestrict".to_owned()));
        }
        if statement.is_some() && !command.takes_statement() {
            // The condition is followed all the same, or the wrong branch would run.
            if commands::is_conditional(line) {
                self.branch(&command)?;
            }
            return Err(Failure::Usage(format!(
                "the statement in front of '{line}' has no end; ';' or '\\g' runs it, '\\r' discards it"
            )));
        }
        match command {
            Command::Help => self.runner.print_line(commands::help())?,
            Command::List(listing, pattern) => {
                self.runner.run_own(&Source::typed(listing.statement(&pattern)))?;
                if matches!(listing, Listing::Relations | Listing::Tables) && pattern.is_empty() {
                    self.print_left_out()?;
                }
            }
            Command::Describe(table) => describe::describe(self.runner, &table)?,
            Command::Show => {
                looks::shown(&self.runner.display()).iter().try_for_each(|line| self.runner.print_line(line))?
            }
            Command::Read(file, is_relative) => self.run_file(&self.path_of(&file, is_relative))?,
            Command::Output(file) => {
                let sink = file.as_deref().map(Sink::open).transpose()?;
                drop(self.runner.set_sink(sink));
            }
            Command::Once(file) => *self.once.borrow_mut() = Some(Sink::open(&file)?),
            Command::Go(file, settings) => self.go(&self.at_hand(statement, line)?, file.as_deref(), settings)?,
            Command::Bind(argument) => return self.bind(&argument, &self.at_hand(statement, line)?),
            Command::Watch(every, times) => self.watch(&self.at_hand(statement, line)?, every, times)?,
            Command::Edit(file) => return self.edit(file.as_deref(), statement),
            Command::SetVariables(prefix) => self.set_variables(&self.at_hand(statement, line)?, &prefix)?,
            Command::RunValues => self.run_values(&self.at_hand(statement, line)?)?,
            Command::DescribeStatement => {
                let statement = self.at_hand(statement, line)?;
                self.noted(self.runner.run_own(&Source::typed(format!("DESCRIBE {}", statement.text.trim()))))?;
            }
            Command::Crosstab(columns) => {
                let columns = self.words(&columns)?;
                let rows = self.rows_of(&self.at_hand(statement, line)?, line)?;
                self.runner.show_rows(&crosstab(&rows, &columns).map_err(Failure::Usage)?)?;
            }
            Command::Copy(argument) => self.copy(&argument, line, rows)?,
            Command::Import(import) => self.import(&import)?,
            Command::Set(argument) => self.set_or_list(&argument)?,
            Command::Unset(name) => self.unset(&name)?,
            Command::LastError => self.print_last_error()?,
            Command::Prompt(argument) => self.prompt(&argument)?,
            Command::Restrict(word, begins) => self.restrict(word, begins)?,
            Command::WriteStatement(file) => {
                let text = format!("{};\n", self.at_hand(statement, line)?.text.trim());
                let written = std::fs::write(&file, text);
                written.map_err(|error| Failure::Usage(format!("cannot write {file}: {error}")))?;
            }
            Command::FromEnvironment(name, variable) => {
                if let Some(value) = environment::value(&variable) {
                    self.set_variable(&name, &value)?;
                }
            }
            Command::SetEnvironment(argument) => self.set_environment(&argument)?,
            Command::If(..) | Command::ElseIf(..) | Command::Else | Command::EndIf => self.branch(&command)?,
            Command::Print(text, place) => self.print(&text, place)?,
            Command::ShowFunction(name) => {
                let kind = if name.contains('(') { "regprocedure" } else { "regproc" };
                self.print_value(&format!("SELECT pg_get_functiondef({}::{kind})", quoted(&name)))?;
            }
            Command::ShowView(name) => self.print_value(&format!(
                "SELECT 'CREATE OR REPLACE VIEW ' || {0}::regclass::text || ' AS' || chr(10) || \
                 pg_get_viewdef({0}::regclass)",
                quoted(&name)
            ))?,
            Command::PrintStatement => self.runner.print_line(self.at_hand(statement, line)?.text.trim())?,
            Command::Reset => {}
            Command::ChangeFolder(folder) => std::env::set_current_dir(&folder)
                .map_err(|error| Failure::Usage(format!("cannot change to {folder}: {error}")))?,
            Command::System(command) => self.system(&command)?,
            Command::ConnectionInfo => self.runner.print_line(match self.place.trim() {
                "" => "Statements run in this process.".to_owned(),
                place => format!("Statements run {place}."),
            })?,
            Command::Encoding(None) => self.runner.print_line("UTF8")?,
            Command::Encoding(Some(name)) if is_utf8(&name) => {}
            Command::Encoding(Some(name)) => {
                return Err(Failure::Usage(format!("all text is UTF-8 here, so the encoding cannot be {name}")));
            }
            Command::FieldSeparator(None) => {
                self.runner.print_line(looks::told_separator("Field", &self.runner.display().table.field_separator))?;
            }
            Command::Quit(None) => return Ok(After::Exit),
            Command::Quit(Some(code)) => return Err(Failure::Ended(code)),
            setting => self.set(setting)?,
        }
        Ok(After::Prompt)
    }

    /// The file of this name, or with `is_relative` the one that this name has for the file that is being read.
    fn path_of(&self, name: &str, is_relative: bool) -> PathBuf {
        match self.file.borrow().as_deref().and_then(Path::parent) {
            Some(folder) if is_relative => folder.join(name),
            _ => PathBuf::from(name),
        }
    }

    /// Sets the variables that tell of the database, before a text that names one.
    fn learn_facts(&self, text: &str) {
        let is_named =
            |name: &str| [":", ":'", ":\"", ":{?"].iter().any(|mark| text.contains(&format!("{mark}{name}")));
        if self.knows_facts.get() || !FACTS.iter().any(|(name, _)| is_named(name)) {
            return;
        }
        let query = format!("SELECT {}", FACTS.map(|(_, value)| format!("({value})::text")).join(", "));
        // If a server does not tell them, they are not set.
        let Ok(Some(rows)) = self.runner.collect(&Source::typed(query), false) else { return };
        let Ok(rows) = texts(&rows) else { return };
        self.knows_facts.set(true);
        for ((name, _), value) in FACTS.iter().zip(rows.into_iter().flatten()) {
            if let (Some(value), None) = (value, self.variables.get(name)) {
                // These are names that variables can have.
                let _ = self.variables.set(name, value);
            }
        }
    }

    /// The words of an argument, with the values of variables.
    fn words(&self, argument: &str) -> Result<Vec<String>, Failure> {
        self.variables.words(argument).map_err(Failure::Usage)
    }

    /// The rows of a query.
    fn rows_of(&self, statement: &Source, line: &str) -> Result<RecordBatch, Failure> {
        let rows = self.noted(self.runner.collect(statement, true))?;
        rows.ok_or_else(|| Failure::Usage(format!("the statement before '{line}' has no rows")))
    }

    /// psql's `\gset`.
    fn set_variables(&self, statement: &Source, prefix: &str) -> Result<(), Failure> {
        let rows = self.rows_of(statement, "\\gset")?;
        if rows.num_rows() != 1 {
            return Err(Failure::Usage(format!(
                "\\gset needs a query with one row, and this one has {}",
                rows.num_rows()
            )));
        }
        let values = texts(&rows).map_err(|error| Failure::Statement(error, None))?;
        let schema = rows.schema();
        for (field, value) in schema.fields().iter().zip(values.into_iter().flatten()) {
            let name = format!("{prefix}{}", field.name());
            match value {
                Some(value) => self.set_variable(&name, &value)?,
                // NULL is no value.
                None => self.variables.unset(&name),
            }
        }
        Ok(())
    }

    /// psql's `\gexec`, to the first error.
    fn run_values(&self, statement: &Source) -> Result<(), Failure> {
        let rows = self.rows_of(statement, "\\gexec")?;
        let values = texts(&rows).map_err(|error| Failure::Statement(error, None))?;
        let mut statements = values.into_iter().flatten().flatten();
        statements.try_for_each(|statement| self.noted(self.runner.run(&Source::typed(statement))))
    }

    /// `.import`.
    fn import(&self, import: &Import) -> Result<(), Failure> {
        let known = self.noted(self.runner.collect(&Source::typed(import.known()), false))?;
        let is_known = known.is_some_and(|rows| rows.num_rows() > 0);
        self.noted(self.runner.run(&Source::typed(import.statement(is_known))))
    }

    /// psql's `\copy`, with its rows where it reads them.
    fn copy(&self, argument: &str, line: &str, rows: RowsAt<'_, '_>) -> Result<(), Failure> {
        if self.interactive && rows.input.is_none() && rows.behind.is_none() && copy::reads_rows(line) {
            self.runner.print_line("Enter rows, and \\. on a line of its own behind the last one.")?;
        }
        let input = match rows.behind {
            _ if copy::reads_own(line) => rows.input.filter(|_| !self.reads_file.get()),
            Some(behind) => Some(behind as &mut dyn BufRead),
            None => rows.input,
        };
        self.noted(copy::run(argument, self.runner, input))
    }

    /// psql's `\bind`: the statement is prepared, and what stands behind the values (`\g` if nothing does) runs it.
    fn bind(&self, argument: &str, statement: &Source) -> Result<After, Failure> {
        let (values, next) = argument.split_at(next_command(argument).unwrap_or(argument.len()));
        let values = self.words(values)?;
        let next = if next.is_empty() { "\\g" } else { next };
        if values.is_empty() {
            return self.command(next, Some(statement.clone()), RowsAt::default());
        }
        self.bound.set(self.bound.get() + 1);
        let name = format!("diligence_bound_{}", self.bound.get());
        let text = format!("PREPARE {name} AS {}", statement.text.trim().trim_end_matches(';'));
        self.noted(self.runner.collect(&Source { text, ..statement.clone() }, false))?;
        let values = values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ");
        let execute = Source { text: format!("EXECUTE {name} ({values})"), ..statement.clone() };
        let done = self.command(next, Some(execute), RowsAt::default());
        // In a transaction that has failed it stays; the next one has another name.
        let _ = self.runner.collect(&Source::typed(format!("DEALLOCATE {name}")), false);
        *self.last.borrow_mut() = statement.text.trim().to_owned();
        done
    }

    /// psql's `\setenv`.
    fn set_environment(&self, argument: &str) -> Result<(), Failure> {
        let words = self.words(argument)?;
        match words.split_first() {
            Some((name, values)) if !name.is_empty() && !name.contains(['=', '\0']) && values.len() <= 1 => {
                environment::set(name, values.first().cloned());
                Ok(())
            }
            _ => Err(Failure::Usage("usage: \\setenv NAME [VALUE]; a name has no '='".to_owned())),
        }
    }

    /// psql's `\prompt`: the line that a person enters becomes the value of a variable.
    fn prompt(&self, argument: &str) -> Result<(), Failure> {
        let words = self.words(argument)?;
        let Some((name, text)) = words.split_last() else {
            return Err(Failure::Usage("usage: \\prompt [TEXT] NAME".to_owned()));
        };
        let asked = asked(&text.join(" "));
        let value = asked.map_err(|error| Failure::Other(format!("cannot read the value of {name}: {error}")))?;
        self.set_variable(name, &value)
    }

    /// Turns commands off until the same word is said again, as dumps do around the statements that they have.
    fn restrict(&self, word: String, begins: bool) -> Result<(), Failure> {
        let mut restricted = self.restricted.borrow_mut();
        if begins {
            *restricted = Some(word);
        } else if restricted.take_if(|said| *said == word).is_none() {
            return Err(Failure::Usage("\\unrestrict says another word than \\restrict".to_owned()));
        }
        Ok(())
    }

    /// psql's `\set`.
    fn set_or_list(&self, argument: &str) -> Result<(), Failure> {
        let words = self.words(argument)?;
        match words.split_first() {
            Some((name, values)) => {
                let value = values.concat();
                self.set_variable(name, &value)?;
                if name == "QUIET" {
                    let mut display = self.runner.display();
                    display.tags = boolean(&value) == Some(false);
                    self.runner.set_display(display)?;
                }
                Ok(())
            }
            None => {
                let all = self.variables.all();
                all.iter().try_for_each(|(name, value)| self.runner.print_line(format!("{name} = {}", quoted(value))))
            }
        }
    }

    /// psql's `\unset`.
    fn unset(&self, name: &str) -> Result<(), Failure> {
        self.variables.unset(name);
        self.follow(name, "")
    }

    /// psql's `\errverbose`.
    fn print_last_error(&self) -> Result<(), Failure> {
        match self.last_error.borrow().as_deref() {
            Some(error) => {
                complain(error);
                Ok(())
            }
            None => self.runner.print_line("There is no previous error."),
        }
    }

    /// Follows a condition.
    fn branch(&self, command: &Command) -> Result<(), Failure> {
        let mut conditions = self.conditions.borrow_mut();
        let told = match command {
            Command::If(condition) => {
                // Where nothing runs, the condition is not looked at.
                let holds = if conditions.is_active() { self.holds(condition) } else { Ok(false) };
                conditions.begin(*holds.as_ref().unwrap_or(&false));
                holds.map(|_| ())
            }
            Command::ElseIf(condition) => {
                let holds = if conditions.awaits_branch() { self.holds(condition) } else { Ok(false) };
                let turned = conditions.turn(*holds.as_ref().unwrap_or(&false));
                turned.and(holds.map(|_| ()))
            }
            Command::Else => conditions.otherwise(),
            _ => conditions.end(),
        };
        told.map_err(Failure::Usage)
    }

    /// Whether a condition is true. Fails with a message if it is no boolean; then it counts as false.
    fn holds(&self, condition: &str) -> Result<bool, String> {
        let value = self.variables.words(condition)?.join(" ");
        boolean(&value).ok_or_else(|| format!("'{value}' is no condition; it is true, false, on, off, yes, no, 1 or 0"))
    }

    /// Prints the words of an argument, with an end of line unless `-n` stands before them.
    fn print(&self, argument: &str, place: PrintedTo) -> Result<(), Failure> {
        let words = self.words(argument)?;
        let (words, end) = match words.split_first() {
            Some((first, rest)) if first == "-n" => (rest, ""),
            _ => (&words[..], "\n"),
        };
        let text = format!("{}{end}", words.join(" "));
        match place {
            PrintedTo::Results => self.runner.print(&text),
            PrintedTo::Output => self.runner.print_here(&text),
            PrintedTo::Errors => {
                // If standard error is closed, nobody is warned.
                let _ = std::io::stderr().write_all(text.as_bytes());
                Ok(())
            }
        }
    }

    /// Prints the one value of a query.
    fn print_value(&self, query: &str) -> Result<(), Failure> {
        let rows = self.rows_of(&Source::typed(query), query)?;
        let values = texts(&rows).map_err(|error| Failure::Statement(error, None))?;
        let mut values = values.into_iter().flatten().flatten();
        values.try_for_each(|value| self.runner.print_line(value.trim_end()))
    }

    /// The statement in front of a command, or the last one.
    fn at_hand(&self, statement: Option<Source>, line: &str) -> Result<Source, Failure> {
        let statement = statement.map(|source| self.filled(source));
        if let Some(source) = &statement {
            *self.last.borrow_mut() = source.text.trim().to_owned();
        }
        let last = || Some(Source::typed(self.last.borrow().clone())).filter(|source| !source.text.is_empty());
        statement.or_else(last).ok_or_else(|| Failure::Usage(format!("there is no statement before '{line}'")))
    }

    fn go(&self, statement: &Source, file: Option<&str>, settings: Vec<Command>) -> Result<(), Failure> {
        self.noted(self.gone(statement, file, settings))
    }

    fn gone(&self, statement: &Source, file: Option<&str>, settings: Vec<Command>) -> Result<(), Failure> {
        let sink = file.map(Sink::open).transpose()?;
        let display = self.runner.display();
        let mut once = display.clone();
        settings.into_iter().for_each(|setting| looks::change(&mut once, &self.folded, setting));
        let before = sink.map(|sink| self.runner.set_sink(Some(sink)));
        let done = self.runner.set_display(once).and_then(|()| self.runner.run(statement));
        let restored = self.runner.set_display(display);
        if let Some(before) = before {
            drop(self.runner.set_sink(before));
        }
        done.and(restored)
    }

    /// Runs a statement until Ctrl-C, an error, or so many times.
    fn watch(&self, statement: &Source, every: Duration, times: Option<u64>) -> Result<(), Failure> {
        let interrupts = self.runner.interrupts();
        let mut done = 0;
        loop {
            if self.runner.display().format == Format::Table {
                let now = chrono::Local::now().format("%Y-%m-%d %H:%M:%S");
                self.runner.print_line(format!("{now} (every {} s)", every.as_secs_f64()))?;
            }
            self.runner.run(statement)?;
            done += 1;
            if times.is_some_and(|times| done >= times) {
                return Ok(());
            }
            let end = Instant::now() + every;
            loop {
                if interrupts.interrupted() {
                    return Ok(());
                }
                if Instant::now() >= end {
                    break;
                }
                std::thread::sleep(LOOK_EVERY.min(end.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Has a file, or the statement at hand, edited. What comes of the statement is taken as if it had been typed.
    fn edit(&self, file: Option<&str>, statement: Option<Source>) -> Result<After, Failure> {
        if !self.interactive {
            return Err(Failure::Usage("an editor needs a terminal".to_owned()));
        }
        let failed = |error: std::io::Error| Failure::Other(format!("cannot edit the statement: {error}"));
        let named = |name: &str| environment::value(name).filter(|editor| !editor.trim().is_empty());
        let editor = named("EDITOR").or_else(|| named("VISUAL")).unwrap_or_else(|| "vi".to_owned());
        let temporary = tempfile::Builder::new().prefix("diligence-").suffix(".sql").tempfile().map_err(failed)?;
        let path = file.map_or(temporary.path(), Path::new);
        let before = match (file, &statement) {
            (Some(_), _) => std::fs::read_to_string(path).unwrap_or_default(),
            (None, Some(statement)) => statement.text.trim().to_owned(),
            (None, None) => match self.last.borrow().as_str() {
                "" => String::new(),
                last => format!("{last};"),
            },
        };
        if file.is_none() {
            std::fs::write(path, format!("{before}\n")).map_err(failed)?;
        }
        let status = {
            // Ctrl-C is the editor's.
            let _interrupts = self.runner.interrupts();
            let mut process = environment::command(&format!("{editor} \"$1\""));
            process.arg("sh").arg(path).status().map_err(failed)?
        };
        if !status.success() {
            return Err(Failure::Usage(format!("the editor '{editor}' has failed; EDITOR names another")));
        }
        let after = std::fs::read_to_string(path).map_err(failed)?;
        let after = after.trim();
        match after.is_empty() || (file.is_none() && after == before.trim()) {
            true => Ok(After::Prompt),
            false => Ok(After::Entered(after.to_owned())),
        }
    }

    fn system(&self, command: &str) -> Result<(), Failure> {
        let _interrupts = self.runner.interrupts();
        let status = environment::command(command).status();
        let status = status.map_err(|error| Failure::Other(format!("cannot run {command}: {error}")))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::Usage(format!("'{command}' has failed: {status}"))),
        }
    }

    /// Changes how results are shown, and says so to whoever typed it.
    fn set(&self, command: Command) -> Result<(), Failure> {
        let mut display = self.runner.display();
        looks::change(&mut display, &self.folded, command.clone());
        self.runner.set_display(display)?;
        match looks::told(&self.runner.display(), &command).filter(|_| !self.quiet.get()) {
            Some(told) => self.runner.print_line(told),
            None => Ok(()),
        }
    }

    /// Lists the directories of the data that cannot be read as tables.
    pub fn print_left_out(&self) -> Result<(), Failure> {
        for (name, why) in self.target.left_out() {
            self.runner.print_line(format!("The directory '{name}' cannot be read as a table: {why}."))?;
        }
        Ok(())
    }
}

/// Where a `\copy` reads rows.
#[derive(Default)]
struct RowsAt<'a, 'b> {
    /// The rows that stand behind it in the text.
    behind: Option<&'a mut &'b [u8]>,
    /// The input that the text is from.
    input: Option<&'a mut dyn BufRead>,
}

/// An error with its code and all that is told of it.
fn in_full(error: &Error, code: &str) -> String {
    let mut text = format!("ERROR:  {code}: {}", printable(error.message()));
    for (name, more) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
        if let Some(more) = more {
            text += &format!("\n{name}:  {}", printable(more));
        }
    }
    text
}

fn wrong_value(name: &str, value: &str, wanted: &str) -> Failure {
    Failure::Usage(format!("{name} cannot be '{value}'; it is {wanted}"))
}

fn rows_unread(error: &io::Error) -> Failure {
    Failure::Usage(format!("the rows of a COPY cannot be read: {error}"))
}

/// Where a command begins in the arguments of another: at a backslash outside of quotes.
fn next_command(argument: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in argument.char_indices() {
        match (quote, character) {
            (None, '\\') => return Some(at),
            (None, '\'' | '"' | '`') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

fn is_utf8(encoding: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|name| encoding.eq_ignore_ascii_case(name))
}

/// What a person enters at a prompt.
fn asked(prompt: &str) -> io::Result<String> {
    // Lines that come through a pipe are no answers: these come from the terminal, if there is one.
    let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        stdout().write_all(prompt.as_bytes())?;
        stdout().flush()?;
        return line_of(&mut stdin().lock());
    };
    terminal.write_all(prompt.as_bytes())?;
    line_of(&mut BufReader::new(terminal))
}

/// The next line of an input, without its end.
fn line_of(input: &mut dyn BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
