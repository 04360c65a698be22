//! `diligence shell`: an interactive shell for SQL statements, which may span lines, and for commands that begin with a
//! dot.
//!
//! A statement ends at its semicolon, which [`ending`] finds. The line editor has a history and completes keywords and
//! the names that the session knows ([`completer`]). Ctrl-C clears the line at the prompt and cancels a running
//! statement; Ctrl-D exits. The shell continues after an error.
//!
//! Without a terminal it is the same for lines that come through a pipe (`lines`), with no prompt and no editor.

mod commands;
mod completer;
mod ending;
mod lines;
mod prompt;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;

use nu_ansi_term::{Color, Style};
use reedline::{
    ColumnarMenu, DefaultHinter, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, ValidationResult, Validator, default_emacs_keybindings,
};

use crate::arguments::ShellArguments;
use crate::failure::{Done, Failure, complain};
use crate::interrupt::Interrupt;
use crate::open::target;
use crate::sources::Source;
use crate::statements::{Runner, check_for_terminal};
use commands::AfterCommand;
use completer::{SqlCompleter, Words};
use prompt::SqlPrompt;

pub use commands::is_command;

/// The most entries in the history.
const HISTORY_ENTRIES_MAX: usize = 10_000;

const COMPLETION_MENU: &str = "completion";

/// Runs the subcommand. Fails if the database or the server cannot be opened, and without a terminal if any statement
/// has failed.
pub fn run(arguments: &ShellArguments) -> Done {
    let terminal = stdout().is_terminal();
    if terminal {
        check_for_terminal(arguments.output.format)?;
    }
    let interrupt = Interrupt::install()?;
    let (target, server) = target(arguments.connect.as_deref(), &arguments.database)?;
    let target = target.as_ref();
    let runner = Runner::new(target, &interrupt, &arguments.output, terminal);
    if !terminal || !stdin().is_terminal() {
        return lines::run(stdin().lock(), &runner, target);
    }
    let words = Words::default();
    let mut editor = editor(&words);

    commands::print_line(format!(
        "Diligence {}{server}. Statements end with ';'. Type '.help' for help, Ctrl-D to exit.",
        env!("CARGO_PKG_VERSION")
    ));
    commands::print_left_out(target);
    loop {
        let (known, relations) = target.words();
        words.set(known, relations);
        let line = match editor.read_line(&SqlPrompt) {
            Ok(Signal::Success(line)) => line,
            Ok(Signal::CtrlD) => return Ok(()),
            // Ctrl-C, and any signal that a later version of the editor may add, discards the line only.
            Ok(_) => continue,
            Err(error) => return Err(Failure::Other(format!("the terminal failed: {error}"))),
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        // Save the history now, because a second Ctrl-C ends the process. A failure to save it is ignored.
        let _ = editor.sync_history();
        let done = match commands::of(line) {
            Some(command) => commands::run(&command, &runner, target),
            None => runner.run(&Source::typed(line)).map(|()| AfterCommand::Prompt),
        };
        match done {
            Ok(AfterCommand::Prompt) => {}
            Ok(AfterCommand::Exit) => return Ok(()),
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => complain(failure),
        }
    }
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
        if line.trim().is_empty() || commands::of(line).is_some() || ending::is_complete(line) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}
