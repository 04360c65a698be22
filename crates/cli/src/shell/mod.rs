//! `diligence shell`: an interactive shell for SQL statements, which may span lines, and for commands that begin with a
//! dot or a backslash.
//!
//! A text falls into statements and commands ([`script`]). What the commands mean is in [`commands`]; [`session`] runs
//! them. The line editor has a history and completes keywords and the names that the session knows ([`completer`]).
//! Ctrl-C clears the line at the prompt and cancels a running statement; Ctrl-D exits. The shell continues after an
//! error.
//!
//! Without a terminal it is the same for lines that come through a pipe (`lines`), with no prompt and no editor.

mod commands;
mod completer;
mod conditions;
mod copy;
mod crosstab;
mod describe;
mod import;
mod lines;
mod listings;
mod looks;
mod prompt;
mod script;
mod session;
mod statement_names;
mod variables;

use std::fs::File;
use std::io::{BufReader, IsTerminal, Write, stdin, stdout};
use std::path::PathBuf;

use nu_ansi_term::{Color, Style};
use reedline::{
    ColumnarMenu, DefaultHinter, EditCommand, Emacs, FileBackedHistory, HistoryItem, KeyCode, KeyModifiers,
    MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal, ValidationResult, Validator, default_emacs_keybindings,
};

use crate::arguments::ShellArguments;
use crate::display::Display;
use crate::failure::{Done, Failure, complain};
use crate::interrupt::Interrupt;
use crate::open::target;
use crate::sink::Sink;
use crate::sources::Source;
use crate::statements::{Runner, check_for_terminal};
use crate::target::Target;
use completer::{SqlCompleter, Words};
use prompt::SqlPrompt;
use session::{After, Shell};

pub use script::is_command;

/// The most entries in the history.
const HISTORY_ENTRIES_MAX: usize = 10_000;

const COMPLETION_MENU: &str = "completion";

/// The most tables that the shell names at its start.
const TABLES_NAMED_MAX: usize = 12;

/// What messages call it.
const STANDARD_INPUT: &str = "standard input";

/// The file in the home directory that each shell runs first.
const INIT_FILE: &str = ".diligencerc";

/// Runs the subcommand. Fails if the database or the server cannot be opened, and without a terminal if any statement
/// has failed.
pub fn run(arguments: &ShellArguments) -> Done {
    let terminal = stdout().is_terminal();
    if terminal && arguments.output.file.is_none() {
        check_for_terminal(arguments.output.format())?;
    }
    let interrupt = Interrupt::install()?;
    let (target, place) = target(arguments.connect.as_deref(), &arguments.database)?;
    let target = target.as_ref();
    let is_given = !arguments.commands.is_empty() || !arguments.files.is_empty();
    let interactive = terminal && stdin().is_terminal() && !is_given;
    let runner = Runner::new(target, &interrupt, Display::of_shell(&arguments.output, terminal), terminal);
    let shell = Shell::new(&runner, target, place.clone(), interactive);
    for (name, value) in &arguments.variables {
        shell.set_variable(name, value)?;
    }
    let echoes = [(arguments.echo_all, "all"), (arguments.echo_errors, "errors"), (arguments.echo_queries, "queries")];
    for (_, what) in echoes.into_iter().filter(|(is_said, _)| *is_said) {
        shell.set_variable("ECHO", what)?;
    }
    if arguments.single_transaction && !is_given {
        return Err(Failure::Usage("-1 is for what -c and -f say".to_owned()));
    }
    if let Some(path) = init_file().filter(|_| !arguments.no_init) {
        match shell.run_file(&path) {
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            // A mistake in there must not lock anybody out.
            Err(failure) => complain(failure),
            Ok(()) => {}
        }
    }
    for setting in &arguments.print_settings {
        shell.run(&Source::typed(format!("\\pset {}", setting.replacen('=', " ", 1))))?;
    }
    if let Some(file) = &arguments.output.file {
        drop(runner.set_sink(Some(Sink::open(file)?)));
    }
    if is_given && arguments.single_transaction {
        runner.execute("BEGIN")?;
        let done = run_given(arguments, &shell);
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        // What has run may have ended it.
        let ended = if runner.is_in_transaction() { runner.execute(end) } else { Ok(()) };
        return done.and(ended);
    }
    if is_given {
        return run_given(arguments, &shell);
    }
    if !interactive {
        // Not locked: a statement may read from it as well.
        return lines::run(STANDARD_INPUT, BufReader::new(stdin()), &shell);
    }
    if !arguments.output.quiet {
        runner.print_line(format!(
            "Diligence {}{place}. Statements end with ';'. Type '.help' for help, Ctrl-D to exit.",
            env!("CARGO_PKG_VERSION")
        ))?;
    }
    shell.print_left_out()?;
    if !arguments.database.data.is_empty() {
        print_tables(&runner, target)?;
    }
    converse(&shell, target)
}

/// Runs the files and then the commands of the command line, as a pipe's lines are run. Each goes on after the failure
/// of another one, unless ON_ERROR_STOP is on.
fn run_given(arguments: &ShellArguments, shell: &Shell<'_>) -> Done {
    let mut failed = 0;
    let mut noted = |done: Done| match done {
        Ok(()) | Err(Failure::OutputClosed | Failure::Ended(_)) => done,
        Err(failure) if shell.stops_on_error() => Err(failure),
        Err(failure) => {
            failed += 1;
            complain(failure);
            Ok(())
        }
    };
    for path in &arguments.files {
        noted(if path.as_os_str() == "-" {
            lines::run(STANDARD_INPUT, BufReader::new(stdin()), shell)
        } else {
            let name = path.display().to_string();
            match File::open(path) {
                Ok(file) => shell.reading(path, || lines::run(&name, BufReader::new(file), shell)),
                Err(error) => Err(Failure::Usage(format!("cannot read {name}: {error}"))),
            }
        })?;
    }
    for text in &arguments.commands {
        shell.echo_line(text)?;
        match shell.run(&Source::typed(text)) {
            Ok(After::Exit) => break,
            done => noted(done.map(|_| ()))?,
        }
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::Other("one text of the command line has failed".to_owned())),
        many => Err(Failure::Other(format!("{many} texts of the command line have failed"))),
    }
}

/// Lists the tables of `--data`, if they are few.
fn print_tables(runner: &Runner<'_>, target: &dyn Target) -> Result<(), Failure> {
    let relations = target.words().relations;
    let own = relations.iter().filter(|name| !name.starts_with("system.")).map(String::as_str).collect::<Vec<_>>();
    match own.len() {
        0 => Ok(()),
        1..=TABLES_NAMED_MAX => runner.print_line(format!("Tables: {}.", own.join(", "))),
        many => runner.print_line(format!("{many} tables; '.tables' lists them.")),
    }
}

/// Prompts and runs until the user leaves.
fn converse(shell: &Shell<'_>, target: &dyn Target) -> Done {
    let words = Words::default();
    let mut editor = editor(&words);
    let mut entered: Option<String> = None;
    loop {
        let text = match entered.take() {
            Some(text) => text,
            None => {
                words.set(target.words());
                match editor.read_line(&SqlPrompt) {
                    Ok(Signal::Success(line)) => line,
                    Ok(Signal::CtrlD) => return Ok(()),
                    // Ctrl-C, and any signal that a later version of the editor may add, discards the line only.
                    Ok(_) => {
                        if shell.leave_conditions() {
                            let _ = writeln!(stdout(), "\\if is left.");
                        }
                        continue;
                    }
                    Err(error) => return Err(Failure::Other(format!("the terminal failed: {error}"))),
                }
            }
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        // Save the history now, because a second Ctrl-C ends the process. A failure to save it is ignored.
        let _ = editor.sync_history();
        match shell.run(&Source::typed(text)) {
            Ok(After::Prompt) => {}
            Ok(After::Entered(text)) if script::is_ended(&text) => {
                let _ = writeln!(stdout(), "{text}");
                let _ = editor.history_mut().save(HistoryItem::from_command_line(&text));
                entered = Some(text);
            }
            Ok(After::Entered(text)) => editor.run_edit_commands(&[EditCommand::InsertString(text)]),
            Ok(After::Exit) => return Ok(()),
            Err(end @ (Failure::OutputClosed | Failure::Ended(_))) => return Err(end),
            Err(failure) => complain(failure),
        }
    }
}

/// The file to run first: the one that the environment names, or that of the home directory if it is there.
fn init_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("DILIGENCE_INIT") {
        return (!path.is_empty()).then(|| PathBuf::from(path));
    }
    dirs::home_dir().map(|home| home.join(INIT_FILE)).filter(|path| path.is_file())
}

fn editor(words: &Words) -> Reedline {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(COMPLETION_MENU.to_owned()), ReedlineEvent::MenuNext]),
    );
    let menu = Box::new(ColumnarMenu::default().with_name(COMPLETION_MENU));
    let editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_validator(Box::new(StatementValidator))
        .with_completer(Box::new(SqlCompleter::new(words.clone())))
        .with_menu(ReedlineMenu::EngineCompleter(menu))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_hinter(Box::new(DefaultHinter::default().with_style(Style::new().fg(Color::DarkGray))))
        .use_bracketed_paste(true);
    match history() {
        Ok(history) => editor.with_history(Box::new(history)),
        Err(message) => {
            complain(format!("warning: {message}; the history of this session will not be saved"));
            editor
        }
    }
}

fn history() -> Result<FileBackedHistory, String> {
    let path = history_path().ok_or("there is no directory for user data")?;
    let failed = |error: &dyn std::fmt::Display| format!("cannot save the history in {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    FileBackedHistory::with_file(HISTORY_ENTRIES_MAX, path.clone()).map_err(|error| failed(&error))
}

fn history_path() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join("diligence").join("history"))
}

/// Continues on the next line until the statement is complete.
struct StatementValidator;

impl Validator for StatementValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        if script::is_complete(line) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}
