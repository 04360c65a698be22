//! `diligence top`: what a server does, looked at every second: its stages, queries and memory.
//!
//! On a terminal the board is drawn anew in place until Ctrl-C; elsewhere, or with `--once`, it is printed once.

mod look;
mod picture;

use std::io::{IsTerminal, Write, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Done;
use crate::arguments::TopArguments;
use crate::failure::Failure;
use crate::remote::connect;
use look::Look;

/// The screen beside the one with what was typed, without a cursor; and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const LINE_END: &str = "\u{1b}[K\r\n";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// The width when nobody says otherwise.
const PLAIN_WIDTH: usize = 110;
/// How often it is looked whether to leave.
const NAP: Duration = Duration::from_millis(50);

/// Runs the subcommand.
pub fn run(arguments: &TopArguments) -> Done {
    let mut connection = connect(&arguments.connect)?;
    let failed = |error: diligence_base::Error| Failure::Other(error.to_string());
    let mut last = Look::take(&mut connection).map_err(failed)?;
    if arguments.once || !stdout().is_terminal() {
        let lines = picture::lines(&last, None, PLAIN_WIDTH, false);
        return print(&format!("{}\n", lines.join("\n")));
    }
    let leave = Arc::new(AtomicBool::new(false));
    let told = leave.clone();
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::Other(format!("cannot handle interrupts: {error}")))?;
    let _screen = Screen::enter()?;
    let mut before = None;
    loop {
        draw(&last, before.as_ref())?;
        let next = Instant::now() + Duration::from_secs_f64(arguments.interval);
        while Instant::now() < next {
            if leave.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(NAP.min(next.saturating_duration_since(Instant::now())));
        }
        let look = Look::take(&mut connection).map_err(failed)?;
        before = Some(std::mem::replace(&mut last, look));
    }
}

fn draw(look: &Look, before: Option<&Look>) -> Done {
    let (height, width) = console::Term::stdout().size();
    let lines = picture::lines(look, before, usize::from(width), true);
    let mut frame = HOME.to_owned();
    for line in lines.iter().take(usize::from(height).saturating_sub(1)) {
        frame.push_str(line);
        frame.push_str(LINE_END);
    }
    frame.push_str(CLEAR_BELOW);
    print(&frame)
}

fn print(text: &str) -> Done {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}

/// The other screen, as long as it lives.
struct Screen;

impl Screen {
    fn enter() -> Result<Self, Failure> {
        print(ENTER)?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs no cleaning.
        let _ = print(LEAVE);
    }
}
