//! Runs statements one after the other and writes their results.

use std::cell::Cell;
use std::io::{BufWriter, Write, stdout};
use std::task::Poll;
use std::time::{Duration, Instant};

use diligence_base::Error;
use diligence_db::Session;

use crate::arguments::OutputArguments;
use crate::failure::{Failure, complain};
use crate::interrupt::{Guard, Interrupt};
use crate::output::{Appetite, Format, LineWriter, ResultWriter, Room, writer};
use crate::progress::{StatementProgress, count_text};
use crate::sources::{Place, Source};
use crate::target::{Kind, LOOK_EVERY, Running, Target};

/// Rows of a table on a terminal, unless asked for more: some screens.
const TERMINAL_ROWS_MAX: usize = 1_000;

/// How long a statement that was interrupted may take to stop. Then it is left alone: it does so when it next looks.
const STOPPING_TIME: Duration = Duration::from_secs(1);

/// Runs statements.
pub struct Runner<'a> {
    target: &'a dyn Target,
    interrupt: &'a Interrupt,
    format: Cell<Format>,
    timer: Cell<bool>,
    rows_max: Option<usize>,
    terminal: bool,
}

impl<'a> Runner<'a> {
    /// `terminal` says whether a person is likely to read the output.
    pub fn new(target: &'a dyn Target, interrupt: &'a Interrupt, output: &OutputArguments, terminal: bool) -> Self {
        let rows_max = match output.max_rows {
            Some(0) => None,
            Some(rows) => Some(rows),
            None => terminal.then_some(TERMINAL_ROWS_MAX),
        };
        Self { target, interrupt, format: Cell::new(output.format), timer: Cell::new(output.timer), rows_max, terminal }
    }

    /// How rows are written from now on.
    pub fn set_format(&self, format: Format) {
        self.format.set(format);
    }

    /// Whether times are told from now on.
    pub fn set_timer(&self, timer: bool) {
        self.timer.set(timer);
    }

    /// Runs every statement of the source; the first failure ends it.
    pub fn run(&self, source: &Source) -> Result<(), Failure> {
        let whole = || source.places(std::slice::from_ref(&source.text)).into_iter().next();
        let statements = Session::split(&source.text).map_err(|error| Failure::Statement(error, whole()))?;
        for place in source.places(&statements) {
            self.run_statement(&place)?;
        }
        Ok(())
    }

    fn run_statement(&self, place: &Place) -> Result<(), Failure> {
        let begun = Instant::now();
        let failed = |error| Failure::Statement(error, Some(place.clone()));
        let interrupt = self.interrupt.statement();
        let mut progress = StatementProgress::begin();
        let mut result = self.target.begin(&place.statement, &interrupt, &mut progress).map_err(failed)?;

        let mut output = BufWriter::new(stdout().lock());
        let rows = match self.show(result.as_mut(), place.is_explain(), &interrupt, &mut progress, &mut output) {
            Ok(rows) => rows,
            Err(Failure::Statement(error, _)) => {
                // The rows that came before the error are part of the story; a failed flush is told by the error.
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

    /// The room for a table: on a terminal, as wide as it is now.
    fn room(&self) -> Room {
        let width = || console::Term::stdout().size_checked().map(|(_, width)| usize::from(width));
        Room { rows: self.rows_max, width: self.terminal.then(width).flatten() }
    }

    /// Writes a result and gives its number of rows. A plan is no table, whatever its form.
    fn show(
        &self,
        result: &mut dyn Running,
        is_plan: bool,
        interrupt: &Guard<'_>,
        progress: &mut StatementProgress,
        output: &mut dyn Write,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        if result.kind() == Kind::Rows {
            let mut writer: Box<dyn ResultWriter> = match self.format.get() {
                Format::Table if is_plan => Box::new(LineWriter::new(output)),
                format => writer(format, output, self.room()),
            };
            writer.begin(&result.schema())?;
            rows = pump(result, writer.as_mut(), interrupt, progress)?;
            writer.end()?;
        } else {
            // A command has no rows to show; its work is done while it is read.
            pump(result, writer(Format::None, output, Room::default()).as_mut(), interrupt, progress)?;
        }
        // Only now, because a command's count is known at its end.
        if let Kind::Command { tag, rows: affected } = result.kind() {
            rows = affected.unwrap_or(0);
            if self.format.get() == Format::Table {
                let counted = affected.map(|affected| format!(" {affected}")).unwrap_or_default();
                writeln!(output, "{tag}{counted}").map_err(|error| Failure::output(&error))?;
            }
        }
        Ok(rows)
    }
}

/// Hands batches over until there are no more or no more are wanted, and gives the number of rows.
fn pump(
    result: &mut dyn Running,
    writer: &mut dyn ResultWriter,
    interrupt: &Guard<'_>,
    progress: &mut StatementProgress,
) -> Result<u64, Failure> {
    let mut rows = 0;
    let mut flushed = true;
    let mut stopping: Option<Instant> = None;
    loop {
        match result.next_within(LOOK_EVERY) {
            // The query may be done and its rows still fill the screen.
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
                if writer.write(&batch)? == Appetite::Enough {
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
