//! `diligence top`: a dashboard of a server with its stages, queries and memory, updated every second.
//!
//! On a terminal the dashboard is redrawn in place until Ctrl-C; elsewhere, or with `--once`, it is printed once.

mod dashboard;
mod snapshot;

use std::io::{IsTerminal, Write, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::arguments::TopArguments;
use crate::failure::{Done, Failure};
use crate::remote::connect;
use snapshot::Snapshot;

/// Switches to the alternate screen and hides the cursor; and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const LINE_END: &str = "\u{1b}[K\r\n";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// The width when the output is not a terminal.
const PLAIN_WIDTH: usize = 110;
/// The interval at which Ctrl-C is checked.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Runs the subcommand. Fails if the server cannot be reached or rejects the queries.
pub fn run(arguments: &TopArguments) -> Done {
    let mut connection = connect(&arguments.connect)?;
    let failed = |error: diligence_base::Error| Failure::Other(error.to_string());
    let mut current = Snapshot::take(&mut connection).map_err(failed)?;
    if arguments.once || !stdout().is_terminal() {
        let lines = dashboard::lines(&current, None, PLAIN_WIDTH, false);
        return print(&format!("{}\n", lines.join("\n")));
    }
    let leave = Arc::new(AtomicBool::new(false));
    let interrupted = leave.clone();
    ctrlc::set_handler(move || interrupted.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::Other(format!("cannot handle interrupts: {error}")))?;
    let _screen = AlternateScreen::enter()?;
    let mut before = None;
    loop {
        draw(&current, before.as_ref())?;
        let next = Instant::now() + Duration::from_secs_f64(arguments.interval);
        while Instant::now() < next {
            if leave.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(POLL_EVERY.min(next.saturating_duration_since(Instant::now())));
        }
        let next_snapshot = Snapshot::take(&mut connection).map_err(failed)?;
        before = Some(std::mem::replace(&mut current, next_snapshot));
    }
}

fn draw(snapshot: &Snapshot, before: Option<&Snapshot>) -> Done {
    let (height, width) = console::Term::stdout().size();
    let lines = dashboard::lines(snapshot, before, usize::from(width), true);
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

/// The alternate screen, while it exists.
struct AlternateScreen;

impl AlternateScreen {
    fn enter() -> Result<Self, Failure> {
        print(ENTER)?;
        Ok(Self)
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // A terminal that is gone needs no cleanup.
        let _ = print(LEAVE);
    }
}
