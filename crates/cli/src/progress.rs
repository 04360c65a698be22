//! Progress bars on standard error. They show nothing where standard error is no terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diligence_db::Database;
use diligence_engine::query::QueryState;
use parking_lot::{Condvar, Mutex};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a statement runs before it gets a bar: below that a bar only flickers.
const QUIET: Duration = Duration::from_secs(1);

/// Pictures per second, and the time between two looks at the engine.
const REFRESH_HZ: u8 = 8;
const REFRESH_EVERY: Duration = Duration::from_millis(1000 / REFRESH_HZ as u64);

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    // The templates are constants of this file; a wrong one shows indicatif's own style.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("█▉▊▋▌▍▎▏ ")),
        Err(_) => bar,
    }
}

/// A bar over a number of rows, with a message in front of it.
pub fn rows_bar(rows: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(REFRESH_HZ);
    let bar = ProgressBar::with_draw_target(Some(rows), target);
    styled(bar, "{msg:>10} {wide_bar} {percent:>3}% {human_pos} rows, {eta} left")
}

/// `1 row`, `2 rows`.
pub fn count_text(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// The bar of a statement: appears when it has run for a while, goes away when its rows come.
///
/// It is drawn by a thread of its own, because some statements (COPY, EXPLAIN ANALYZE) give nothing before they are done. It
/// asks the engine what runs; the command runs one statement at a time.
pub struct StatementProgress {
    drawing: Option<(Arc<Ending>, JoinHandle<()>)>,
}

/// How the drawing thread is told to stop.
#[derive(Default)]
struct Ending {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl StatementProgress {
    /// Starts the clock. Nothing is shown yet, and nothing ever where standard error is no terminal.
    pub fn begin(database: &Database) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { drawing: None };
        }
        let ending = Arc::new(Ending::default());
        let (told, database) = (Arc::clone(&ending), database.clone());
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || draw(&database, &told));
        // Without a thread there is no bar, and nothing else is lost.
        Self { drawing: thread.ok().map(|thread| (ending, thread)) }
    }

    /// Takes the bar away for good, for rows to be shown.
    pub fn clear(&mut self) {
        if let Some((ending, thread)) = self.drawing.take() {
            *ending.ended.lock() = true;
            ending.changed.notify_all();
            // A panic while drawing has been told by its own message.
            let _ = thread.join();
        }
    }
}

impl Drop for StatementProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn draw(database: &Database, ending: &Ending) {
    let begun = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let mut ended = ending.ended.lock();
    while !*ended {
        ending.changed.wait_for(&mut ended, if bar.is_some() { REFRESH_EVERY } else { QUIET });
        if *ended || begun.elapsed() < QUIET {
            continue;
        }
        let queries = database.engine().queries();
        let Some(query) = queries.iter().find(|query| query.state == QueryState::Running) else { continue };
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr_with_hz(REFRESH_HZ);
            let bar = ProgressBar::with_draw_target(Some(0), target).with_elapsed(begun.elapsed());
            styled(bar, "{wide_bar} {percent:>3}% {pos} of {len} clusters read, {elapsed} (Ctrl-C cancels)")
        });
        bar.set_length(query.clusters_total as u64);
        bar.set_position(query.clusters_done as u64);
        bar.tick();
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}
