//! Runs what is entered: statements, and commands between them.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use diligence_db::Session;

use super::commands::{self, Command, Switch};
use super::script::{Part, Piece, parts};
use crate::display::Display;
use crate::failure::Failure;
use crate::output::{Expanded, Format, Frame};
use crate::sink::Sink;
use crate::sources::Source;
use crate::statements::Runner;
use crate::target::{LOOK_EVERY, Target};

/// How deep files may read files; one that reads itself would never end.
const FILES_DEEP_MAX: u32 = 32;

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
        }
    }

    /// Runs a text's statements and commands in order. Fails with the first error.
    pub fn run(&self, source: &Source) -> Result<After, Failure> {
        let located = |piece: Piece| Source {
            name: source.name.clone(),
            text: piece.text,
            first_line: source.first_line + piece.lines_before,
        };
        for part in parts(&source.text) {
            match part {
                Part::Sql(piece) => self.statements(&located(piece))?,
                Part::Command { line, lines_before, statement } => {
                    let after = self.command(&line, statement.map(located)).map_err(|failure| match failure {
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
        let done = self.run(&source);
        self.quiet.set(quiet);
        self.files.set(self.files.get() - 1);
        // `.quit` ends the file only.
        done.map(|_| ())
    }

    fn statements(&self, source: &Source) -> Result<(), Failure> {
        // What does not fall into statements fails when it runs.
        if let Some(last) = Session::split(&source.text).ok().and_then(|mut statements| statements.pop()) {
            *self.last.borrow_mut() = last;
        }
        self.runner.run(source)
    }

    /// Runs a command, with the statement in front of it.
    fn command(&self, line: &str, statement: Option<Source>) -> Result<After, Failure> {
        let command = commands::parse(line).map_err(Failure::Usage)?;
        if statement.is_some() && !command.takes_statement() {
            return Err(Failure::Usage(format!(
                "the statement in front of '{line}' has no end; ';' or '\\g' runs it, '\\r' discards it"
            )));
        }
        match command {
            Command::Help => self.runner.print_line(commands::help())?,
            Command::List(listing, pattern) => {
                self.runner.run(&Source::typed(listing.statement(&pattern)))?;
                if listing == super::listings::Listing::Relations && pattern.is_empty() {
                    self.print_left_out()?;
                }
            }
            Command::Describe(table) => self.runner.run(&Source::typed(format!("DESCRIBE {table}")))?,
            Command::Show => self.show()?,
            Command::Read(file) => self.run_file(Path::new(&file))?,
            Command::Output(file) => {
                let sink = file.as_deref().map(Sink::open).transpose()?;
                drop(self.runner.set_sink(sink));
            }
            Command::Go(file, expanded) => self.go(&self.at_hand(statement, line)?, file.as_deref(), expanded)?,
            Command::Watch(every, times) => self.watch(&self.at_hand(statement, line)?, every, times)?,
            Command::Edit(file) => return self.edit(file.as_deref(), statement),
            Command::Print(text) => self.runner.print_line(text)?,
            Command::PrintStatement => self.runner.print_line(self.at_hand(statement, line)?.text.trim())?,
            Command::Reset => {}
            Command::ChangeFolder(folder) => std::env::set_current_dir(&folder)
                .map_err(|error| Failure::Usage(format!("cannot change to {folder}: {error}")))?,
            Command::System(command) => self.system(&command)?,
            Command::ConnectionInfo => self.runner.print_line(match self.place.trim() {
                "" => "Statements run in this process.".to_owned(),
                place => format!("Statements run {place}."),
            })?,
            Command::Quit => return Ok(After::Exit),
            setting => self.set(setting)?,
        }
        Ok(After::Prompt)
    }

    /// The statement in front of a command, or the last one.
    fn at_hand(&self, statement: Option<Source>, line: &str) -> Result<Source, Failure> {
        if let Some(source) = &statement {
            *self.last.borrow_mut() = source.text.trim().to_owned();
        }
        let last = || Some(Source::typed(self.last.borrow().clone())).filter(|source| !source.text.is_empty());
        statement.or_else(last).ok_or_else(|| Failure::Usage(format!("there is no statement before '{line}'")))
    }

    fn go(&self, statement: &Source, file: Option<&str>, expanded: bool) -> Result<(), Failure> {
        let sink = file.map(Sink::open).transpose()?;
        let display = self.runner.display();
        if expanded {
            let mut once = display.clone();
            once.table.expanded = Expanded::On;
            self.runner.set_display(once)?;
        }
        let done = match sink {
            Some(sink) => {
                let before = self.runner.set_sink(Some(sink));
                let done = self.runner.run(statement);
                drop(self.runner.set_sink(before));
                done
            }
            None => self.runner.run(statement),
        };
        self.runner.set_display(display)?;
        done
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
        let named = |name: &str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
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
            Process::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(path).status().map_err(failed)?
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
        let status = Process::new("sh").args(["-c", command]).status();
        let status = status.map_err(|error| Failure::Other(format!("cannot run {command}: {error}")))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::Usage(format!("'{command}' has failed: {status}"))),
        }
    }

    /// Changes how results are shown, and says so to whoever typed it.
    fn set(&self, command: Command) -> Result<(), Failure> {
        let mut display = self.runner.display();
        let table = &mut display.table;
        match command.clone() {
            Command::Mode(format, frame, expanded) => {
                display.format = format;
                (table.frame, table.expanded) = (frame, expanded);
            }
            Command::Expanded(wanted) => {
                let now = table.expanded;
                if now != Expanded::On {
                    self.folded.set(now);
                }
                let switched = if now == Expanded::On { self.folded.get() } else { Expanded::On };
                table.expanded = wanted.unwrap_or(switched);
            }
            Command::MaxRows(Some(rows)) => {
                table.rows = (rows > 0).then_some(rows);
                display.rows_chosen = true;
            }
            Command::Switch(switch, on) => {
                let on = on.unwrap_or_else(|| !is_on(&display, switch));
                match switch {
                    Switch::Headers => display.table.headers = on,
                    Switch::Types => display.table.types = on,
                    Switch::Pager => display.pager = on,
                    Switch::Timer => display.timer = on,
                    Switch::TuplesOnly => (display.table.headers, display.table.footer) = (!on, !on),
                }
            }
            Command::Null(text) => table.null = text,
            Command::Border(frame) => table.frame = frame,
            _ => {}
        }
        self.runner.set_display(display)?;
        match self.quiet.get() {
            true => Ok(()),
            false => self.told(&command),
        }
    }

    fn told(&self, command: &Command) -> Result<(), Failure> {
        let display = self.runner.display();
        let told = match command {
            Command::Mode(..) => format!("Output format is {}.", format_name(&display)),
            Command::Expanded(_) => match display.table.expanded {
                Expanded::Auto => "Expanded display is used automatically.".to_owned(),
                Expanded::On => "Expanded display is on.".to_owned(),
                Expanded::Off => "Expanded display is off.".to_owned(),
            },
            Command::MaxRows(_) => match display.table.rows {
                Some(rows) => format!("Tables show {rows} rows at most."),
                None => "Tables show all rows.".to_owned(),
            },
            Command::Switch(switch, _) => format!("{} is {}.", switch.name(), on(is_on(&display, *switch))),
            Command::Null(text) => format!("Null display is \"{text}\"."),
            Command::Border(_) => format!("Border style is {}.", border(display.table.frame)),
            _ => return Ok(()),
        };
        self.runner.print_line(told)
    }

    fn show(&self) -> Result<(), Failure> {
        let display = self.runner.display();
        let table = &display.table;
        let expanded = match table.expanded {
            Expanded::Off => "off",
            Expanded::On => "on",
            Expanded::Auto => "auto",
        };
        let rows = table.rows.map_or_else(|| "all".to_owned(), |rows| rows.to_string());
        for (name, value) in [
            ("mode", format_name(&display)),
            ("expanded", expanded),
            ("maxrows", rows.as_str()),
            ("headers", on(table.headers)),
            ("types", on(table.types)),
            ("nullvalue", table.null.as_str()),
            ("border", border(table.frame)),
            ("pager", on(display.pager)),
            ("timer", on(display.timer)),
        ] {
            self.runner.print_line(format!("{name:<10} {value}"))?;
        }
        Ok(())
    }

    /// Lists the directories of the data that cannot be read as tables.
    pub fn print_left_out(&self) -> Result<(), Failure> {
        for (name, why) in self.target.left_out() {
            self.runner.print_line(format!("The directory '{name}' cannot be read as a table: {why}."))?;
        }
        Ok(())
    }
}

fn is_on(display: &Display, switch: Switch) -> bool {
    match switch {
        Switch::Headers => display.table.headers,
        Switch::Types => display.table.types,
        Switch::Pager => display.pager,
        Switch::Timer => display.timer,
        Switch::TuplesOnly => !display.table.footer,
    }
}

fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn border(frame: Frame) -> &'static str {
    match frame {
        Frame::Bare => "0",
        Frame::Inner => "1",
        Frame::Box => "2",
        Frame::Markdown => "markdown",
    }
}

fn format_name(display: &Display) -> &'static str {
    match display.format {
        Format::Table if display.table.frame == Frame::Markdown => "markdown",
        Format::Table => "table",
        Format::Csv => "csv",
        Format::Json => "json",
        Format::Jsonl => "jsonl",
        Format::Arrow => "arrow",
        Format::None => "none",
    }
}
