//! Runs statements one after the other and writes their results.

use std::cell::Cell;
use std::io::{BufWriter, Write, stdout};
use std::task::Poll;
use std::time::{Duration, Instant};

use diligence_base::Error;
use diligence_db::Session;

use crate::arguments::OutputArguments;
use crate::failure::{Failure, complain};
use crate::interrupt::{Interrupt, InterruptGuard};
use crate::location::Location;
use crate::output::{Demand, Format, LineWriter, ResultWriter, TableLimits, writer};
use crate::progress::{StatementProgress, count_text};
use crate::sources::Source;
use crate::target::{LOOK_EVERY, RunningStatement, StatementResult, Target};

/// The most rows of a table on a terminal by default: a few screens.
const TERMINAL_ROWS_MAX: usize = 1_000;

/// How long an interrupted statement is waited for. After that it stops in the background.
const STOPPING_TIME: Duration = Duration::from_secs(1);

/// Fails for a format that must not be written to a terminal.
pub fn check_for_terminal(format: Format) -> Result<(), Failure> {
    if format.is_text() {
        return Ok(());
    }
    let message = "the format 'arrow' is binary and cannot be shown on a terminal";
    Err(Failure::Usage(format!(
        "{message}; redirect the output of 'diligence sql --format arrow' to a file or a program"
    )))
}

/// Runs statements and prints their results.
pub struct Runner<'a> {
    target: &'a dyn Target,
    interrupt: &'a Interrupt,
    format: Cell<Format>,
    timer: Cell<bool>,
    rows_max: Option<usize>,
    terminal: bool,
}

impl<'a> Runner<'a> {
    /// A runner for a target. `terminal` is whether the output is a terminal.
    pub fn new(target: &'a dyn Target, interrupt: &'a Interrupt, output: &OutputArguments, terminal: bool) -> Self {
        let rows_max = match output.max_rows {
            Some(0) => None,
            Some(rows) => Some(rows),
            None => terminal.then_some(TERMINAL_ROWS_MAX),
        };
        Self { target, interrupt, format: Cell::new(output.format), timer: Cell::new(output.timer), rows_max, terminal }
    }

    /// Changes the format of results. Fails for a binary format on a terminal.
    pub fn set_format(&self, format: Format) -> Result<(), Failure> {
        if self.terminal {
            check_for_terminal(format)?;
        }
        self.format.set(format);
        Ok(())
    }

    /// Turns the printing of times on or off.
    pub fn set_timer(&self, timer: bool) {
        self.timer.set(timer);
    }

    /// Runs the statements of the source in order. Fails with the first error.
    pub fn run(&self, source: &Source) -> Result<(), Failure> {
        let whole = || source.locations(std::slice::from_ref(&source.text)).into_iter().next();
        let statements = Session::split(&source.text).map_err(|error| Failure::Statement(error, whole()))?;
        for location in source.locations(&statements) {
            self.run_statement(&location)?;
        }
        Ok(())
    }

    fn run_statement(&self, location: &Location) -> Result<(), Failure> {
        let begun = Instant::now();
        let failed = |error| Failure::Statement(error, Some(location.clone()));
        let interrupt = self.interrupt.statement();
        let mut progress = StatementProgress::begin();
        let mut result = self.target.begin(&location.statement, &interrupt, &mut progress).map_err(failed)?;

        let mut output = BufWriter::new(stdout().lock());
        let rows = match self.show(result.as_mut(), location.is_explain(), &interrupt, &mut progress, &mut output) {
            Ok(rows) => rows,
            Err(Failure::Statement(error, _)) => {
                // Show the rows that came before the error. If they cannot be written, the error still is.
                let _ = output.flush();
                return Err(failed(error));
            }
            Err(other) => return Err(other),
        };
        output.flush().map_err(|error| Failure::output(&error))?;
        if self.timer.get() {
            let seconds = begun.elapsed().as_secs_f64();
            complain(format!("{} in {seconds:.3} s", count_text(rows, "row")));
        }
        Ok(())
    }

    /// The limits of a table; on a terminal, its current width.
    fn table_limits(&self) -> TableLimits {
        let width = || console::Term::stdout().size_checked().map(|(_, width)| usize::from(width));
        TableLimits { rows: self.rows_max, width: self.terminal.then(width).flatten() }
    }

    /// Writes a result and returns its number of rows. A plan is written as plain lines rather than as a table.
    fn show(
        &self,
        result: &mut dyn RunningStatement,
        is_plan: bool,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
        output: &mut dyn Write,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        if result.kind() == StatementResult::Rows {
            let mut writer: Box<dyn ResultWriter> = match self.format.get() {
                Format::Table if is_plan => Box::new(LineWriter::new(output)),
                format => writer(format, output, self.table_limits()),
            };
            writer.begin(&result.schema())?;
            rows = pump(result, writer.as_mut(), interrupt, progress)?;
            writer.end()?;
        } else {
            // A command returns no rows, but reading its result is what runs it.
            pump(result, writer(Format::None, output, TableLimits::default()).as_mut(), interrupt, progress)?;
        }
        // The row count of a command is known only at its end.
        if let StatementResult::Command { tag, rows: affected } = result.kind() {
            rows = affected.unwrap_or(0);
            if self.format.get() == Format::Table {
                // `CREATE TABLE 0` would say nothing more than `CREATE TABLE`.
                let count = affected.filter(|affected| *affected > 0 || !tag.starts_with("CREATE"));
                let count = count.map(|count| format!(" {count}")).unwrap_or_default();
                writeln!(output, "{tag}{count}").map_err(|error| Failure::output(&error))?;
            }
        }
        Ok(rows)
    }
}

/// Passes batches to the writer until there are no more or it wants no more, and returns the number of rows.
fn pump(
    result: &mut dyn RunningStatement,
    writer: &mut dyn ResultWriter,
    interrupt: &InterruptGuard<'_>,
    progress: &mut StatementProgress,
) -> Result<u64, Failure> {
    let mut rows = 0;
    let mut flushed = true;
    let mut stopping: Option<Instant> = None;
    loop {
        match result.next_within(LOOK_EVERY) {
            // The query may be done while its rows still fill the screen.
            Poll::Ready(Some(Ok(_))) if interrupt.interrupted() => {
                return Err(Failure::Statement(Error::cancelled(), None));
            }
            Poll::Ready(None) => {
                progress.clear();
                return Ok(rows);
            }
            Poll::Ready(Some(batch)) => {
                let batch = batch.map_err(|error| Failure::Statement(error, None))?;
                progress.clear();
                rows += batch.num_rows() as u64;
                flushed = false;
                if writer.write(&batch)? == Demand::Enough {
                    return Ok(rows);
                }
            }
            Poll::Pending if stopping.is_some_and(|since| since.elapsed() > STOPPING_TIME) => {
                return Err(Failure::Statement(Error::cancelled(), None));
            }
            Poll::Pending => {
                if interrupt.interrupted() {
                    stopping.get_or_insert_with(Instant::now);
                }
                if !flushed {
                    writer.flush()?;
                    flushed = true;
                }
                progress.show(result.progress());
            }
        }
    }
}
