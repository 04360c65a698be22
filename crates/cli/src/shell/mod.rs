//! `diligence shell`: a prompt, statements over several lines, commands that begin with a dot.
//!
//! A statement ends at its semicolon, which [`ending`] finds. The line editor knows history and completes keywords and
//! the names that the session knows ([`completer`]). Ctrl-C at the prompt clears the line, during a statement it
//! cancels the statement; Ctrl-D leaves. A failure is shown and the shell goes on.

mod commands;
mod completer;
mod ending;
mod prompt;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;

use nu_ansi_term::{Color, Style};
use reedline::{
    ColumnarMenu, DefaultHinter, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, ValidationResult, Validator, default_emacs_keybindings,
};

use crate::Done;
use crate::arguments::ShellArguments;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::open::open;
use crate::remote::Remote;
use crate::sources::Source;
use crate::statements::Runner;
use crate::target::Target;
use commands::Next;
use completer::{SqlCompleter, Words};
use prompt::SqlPrompt;

pub use commands::is_command;

/// Statements that the history remembers.
const HISTORY_ENTRIES_MAX: usize = 10_000;

const COMPLETION_MENU: &str = "completion";

/// Runs the subcommand.
pub fn run(arguments: &ShellArguments) -> Done {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::Usage("the shell needs a terminal; use 'diligence sql' in scripts and pipes".to_owned()));
    }
    arguments.output.format.check_for_terminal()?;
    let interrupt = Interrupt::install()?;
    let mut place = String::new();
    let target: Box<dyn Target> = match &arguments.connect {
        Some(url) => {
            let remote = Remote::open(url, &arguments.database.settings)?;
            place = format!(" on {}", remote.address());
            Box::new(remote)
        }
        None => Box::new(open(&arguments.database, 0)?.session()),
    };
    let target = target.as_ref();
    let runner = Runner::new(target, &interrupt, &arguments.output, true);
    let words = Words::default();
    let mut editor = editor(&words);

    commands::tell(format!(
        "Diligence {}{place}. A statement ends with ';'. '.help' helps, Ctrl-D leaves.",
        env!("CARGO_PKG_VERSION")
    ));
    commands::tell_left_out(target);
    loop {
        let (known, relations) = target.words();
        words.set(known, relations);
        let line = match editor.read_line(&SqlPrompt) {
            Ok(Signal::Success(line)) => line,
            Ok(Signal::CtrlD) => return Ok(()),
            // Ctrl-C, and signals that later versions of the editor may have: the line is gone, the shell stays.
            Ok(_) => continue,
            Err(error) => return Err(Failure::Other(format!("the terminal failed: {error}"))),
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        // Now, because a second Ctrl-C ends the process. What cannot be kept is forgotten.
        let _ = editor.sync_history();
        let meant = commands::meant(line);
        let line = meant.as_deref().unwrap_or(line);
        let done = if is_command(line) {
            commands::run(line, &runner, target)
        } else {
            runner.run(&Source::typed(line)).map(|()| Next::Prompt)
        };
        match done {
            Ok(Next::Prompt) => {}
            Ok(Next::Leave) => return Ok(()),
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
            complain(format!("warning: {message}; this session is not remembered"));
            editor
        }
    }
}

fn history() -> Result<FileBackedHistory, String> {
    let path = history_path().ok_or("there is no folder for user data")?;
    let failed = |error: &dyn std::fmt::Display| format!("cannot keep the history in {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    FileBackedHistory::with_file(HISTORY_ENTRIES_MAX, path.clone()).map_err(|error| failed(&error))
}

fn history_path() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join("diligence").join("history"))
}

/// Asks for another line until the statement is complete.
struct StatementValidator;

impl Validator for StatementValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        let is_command = is_command(line) || commands::meant(line).is_some();
        if line.trim().is_empty() || is_command || ending::is_complete(line) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}
