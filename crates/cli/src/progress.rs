//! Progress bars on standard error. Nothing is drawn if standard error is not a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use diligence_db::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a statement runs before it gets a bar; sooner, the bar would only flicker.
const QUIET: Duration = Duration::from_secs(1);

/// Redraws per second.
const REFRESH_HZ: u8 = 8;

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    // The templates are constants in this file; an invalid one falls back to the default style.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("█▉▊▋▌▍▎▏ ")),
        Err(_) => bar,
    }
}

/// A bar for a number of rows, with a message in front of it.
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

/// The bar of a statement. It appears once the statement has run for a while and disappears when rows arrive.
pub struct StatementProgress {
    begun: Instant,
    bar: Option<ProgressBar>,
    template: &'static str,
    wanted: bool,
}

impl StatementProgress {
    /// Starts the clock.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), bar: None, template: "", wanted: std::io::stderr().is_terminal() }
    }

    /// Draws the progress. Called periodically.
    pub fn show(&mut self, progress: Progress) {
        if !self.wanted || self.begun.elapsed() < QUIET {
            return;
        }
        if progress.clusters_total == 0 {
            // The query reads no table, so there is no fraction to show.
            return self.show_text("running");
        }
        let bar = self.bar("{wide_bar} {percent:>3}% {pos} of {len} parts read, {elapsed} (Ctrl-C cancels)");
        bar.set_length(progress.clusters_total as u64);
        bar.set_position(progress.clusters_done as u64);
        bar.tick();
    }

    /// Draws that the statement is being planned. Called periodically.
    pub fn show_planning(&mut self) {
        if self.wanted && self.begun.elapsed() >= QUIET {
            self.show_text("planning");
        }
    }

    /// Draws that the statement is running, when its progress is unknown. Called periodically.
    pub fn show_running(&mut self) {
        if self.wanted && self.begun.elapsed() >= QUIET {
            self.show_text("running");
        }
    }

    fn show_text(&mut self, what: &'static str) {
        let bar = self.bar("{msg} for {elapsed} (Ctrl-C cancels)");
        bar.set_message(what);
        bar.tick();
    }

    /// The bar with this template.
    fn bar(&mut self, template: &'static str) -> &ProgressBar {
        if let Some(bar) = self.bar.take_if(|_| self.template != template) {
            bar.finish_and_clear();
        }
        self.template = template;
        let begun = self.begun;
        self.bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr_with_hz(REFRESH_HZ);
            styled(ProgressBar::with_draw_target(Some(0), target).with_elapsed(begun.elapsed()), template)
        })
    }

    /// Removes the bar for good, so that rows can be printed.
    pub fn clear(&mut self) {
        self.wanted = false;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for StatementProgress {
    fn drop(&mut self) {
        self.clear();
    }
}
