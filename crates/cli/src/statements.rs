//! Runs statements one after the other and writes their results.

use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, Write, stdin, stdout};
use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use diligence_base::Error;
use diligence_db::{Session, sqlstate};
use diligence_server::ProcessCopy;

use crate::copied_lines::CopiedLines;
use crate::display::Display;
use crate::failure::{Failure, complain};
use crate::interrupt::{Interrupt, InterruptGuard};
use crate::location::Location;
use crate::output::{Collected, Demand, Format, LineWriter, ResultWriter, TableOptions, writer};
use crate::progress::{StatementProgress, count_text};
use crate::sink::{Pager, Sink};
use crate::sources::Source;
use crate::target::{CopyStream, LOOK_EVERY, RunningStatement, StatementResult, Target};
use crate::transactions::Transactions;

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

/// The savepoint that stands before statements which leave a transaction as it was if they fail.
const GUARD: &str = "diligence_guard";

/// The time between two looks at the data directory, at least.
const LOOK_REST: Duration = Duration::from_secs(1);

/// How often the time that a look takes goes into the time before the next one.
const LOOK_SHARE: u32 = 20;

/// PostgreSQL's `undefined_table`.
const UNKNOWN_TABLE: &str = "42P01";

/// Runs statements and prints their results.
pub struct Runner<'a> {
    target: &'a dyn Target,
    interrupt: &'a Interrupt,
    display: RefCell<Display>,
    /// Where results go, if not to standard output.
    sink: RefCell<Option<Sink>>,
    /// The rows of the last statement.
    rows: Cell<u64>,
    transactions: Transactions,
    echo: Cell<Echo>,
    /// When the data directory is looked at again.
    look_at: Cell<Instant>,
    terminal: bool,
}

/// What is printed of a script while it runs: psql's ECHO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Echo {
    /// Nothing.
    #[default]
    Nothing,
    /// Statements, before they run.
    Queries,
    /// The lines of the script.
    Lines,
    /// Statements that fail, on standard error.
    Errors,
}

impl<'a> Runner<'a> {
    /// A runner for a target. `terminal` is whether the output is a terminal.
    pub fn new(target: &'a dyn Target, interrupt: &'a Interrupt, display: Display, terminal: bool) -> Self {
        Self {
            target,
            interrupt,
            display: RefCell::new(display),
            sink: RefCell::default(),
            rows: Cell::new(0),
            transactions: Transactions::default(),
            echo: Cell::default(),
            look_at: Cell::new(Instant::now() + LOOK_REST),
            terminal,
        }
    }

    /// Says whether statements outside of transactions are transactions of their own; otherwise one begins before them.
    pub fn set_autocommit(&self, on: bool) {
        self.transactions.set_autocommit(on);
    }

    /// Says whether a statement that fails in a transaction leaves it as it was.
    pub fn set_guards(&self, on: bool) {
        self.transactions.set_guards(on);
    }

    /// What is printed of a script while it runs.
    pub fn echo(&self) -> Echo {
        self.echo.get()
    }

    /// Changes that.
    pub fn set_echo(&self, echo: Echo) {
        self.echo.set(echo);
    }

    /// How results are shown.
    pub fn display(&self) -> Display {
        self.display.borrow().clone()
    }

    /// Changes how results are shown. Fails for a binary format on a terminal.
    pub fn set_display(&self, display: Display) -> Result<(), Failure> {
        if self.terminal && self.sink.borrow().is_none() {
            check_for_terminal(display.format)?;
        }
        *self.display.borrow_mut() = display;
        Ok(())
    }

    /// Directs results from now on to a file or a command, or back to standard output. Gives what they went to before,
    /// which is complete once that is dropped.
    pub fn set_sink(&self, sink: Option<Sink>) -> Option<Sink> {
        self.sink.replace(sink)
    }

    /// Prints a line where results go.
    pub fn print_line(&self, what: impl std::fmt::Display) -> Result<(), Failure> {
        let written = match self.sink.borrow_mut().as_mut() {
            Some(sink) => writeln!(sink, "{what}"),
            None => writeln!(stdout(), "{what}"),
        };
        written.map_err(|error| Failure::output(&error))
    }

    /// Prints a text on standard output, wherever results go.
    pub fn print_here(&self, text: &str) -> Result<(), Failure> {
        let mut output = stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
    }

    /// Prints a text where results go.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        match self.sink.borrow_mut().as_mut() {
            Some(sink) => sink.write_all(text.as_bytes()).map_err(|error| Failure::output(&error)),
            None => self.print_here(text),
        }
    }

    /// The rows that the last statement has given or changed.
    pub fn rows(&self) -> u64 {
        self.rows.get()
    }

    /// Whether rows of COPY … FROM STDIN and TO STDOUT go over a connection.
    pub fn copies(&self) -> bool {
        self.target.copies()
    }

    /// Runs a COPY … FROM STDIN or TO STDOUT with this stream, and says how many rows it had unless they themselves go
    /// to standard output. Fails as the statement does.
    pub fn copy(&self, sql: &str, stream: CopyStream<'_>, is_shown: bool) -> Result<(), Failure> {
        self.within_transaction(sql, || self.copy_alone(sql, stream, is_shown))
    }

    fn copy_alone(&self, sql: &str, stream: CopyStream<'_>, is_shown: bool) -> Result<(), Failure> {
        let begun = Instant::now();
        let interrupt = self.interrupt.statement();
        let location = || Location { source: None, statement: sql.to_owned(), line: 1, column: 1 };
        let done = self.target.copy(sql, stream, &interrupt);
        self.copied(done.map_err(|error| Failure::Statement(error, Some(location())))?, begun, is_shown)
    }

    /// Says what a COPY has done.
    fn copied(&self, done: StatementResult, begun: Instant, is_shown: bool) -> Result<(), Failure> {
        let StatementResult::Command { tag, rows } = done else { return Ok(()) };
        let display = self.display();
        self.rows.set(rows.unwrap_or(0));
        if !is_shown && display.format.is_for_people() && display.table.footer && display.tags {
            self.print_line(format!("{tag} {}", self.rows()))?;
        }
        if display.timer {
            tell_time(self.rows(), begun);
        }
        Ok(())
    }

    /// Runs the statements of the source in order, and keeps the rows of the last one; `None` if that is a command.
    /// With `is_timed` it says how long they took, if it does so of others. Fails with the first error.
    pub fn collect(&self, source: &Source, is_timed: bool) -> Result<Option<RecordBatch>, Failure> {
        let whole = || source.locations(std::slice::from_ref(&source.text)).into_iter().next();
        let statements = Session::split(&source.text).map_err(|error| Failure::Statement(error, whole()))?;
        let mut last = None;
        for location in source.locations(&statements) {
            let begun = Instant::now();
            let failed = |error| Failure::Statement(error, Some(location.clone()));
            if is_timed && self.echo() == Echo::Queries {
                self.print_here(&format!("{};\n", location.statement.trim()))?;
            }
            last = self.within_transaction(&location.statement, || {
                let interrupt = self.interrupt.statement();
                let mut progress = StatementProgress::begin();
                let mut result = self.begin(&location.statement, &interrupt, &mut progress).map_err(failed)?;
                let mut collected = Collected::default();
                collected.begin(&result.schema())?;
                let rows = pump(result.as_mut(), &mut collected, &interrupt, &mut progress);
                let rows = rows.map_err(|failure| match failure {
                    Failure::Statement(error, None) => failed(error),
                    other => other,
                })?;
                match result.kind() {
                    StatementResult::Rows => {
                        self.rows.set(rows);
                        Ok(Some(collected.rows().map_err(failed)?))
                    }
                    StatementResult::Command { rows, .. } => {
                        self.rows.set(rows.unwrap_or(0));
                        Ok(None)
                    }
                }
            })?;
            if is_timed && self.display().timer {
                tell_time(self.rows(), begun);
            }
        }
        Ok(last)
    }

    /// Shows rows that a command has made.
    pub fn show_rows(&self, rows: &RecordBatch) -> Result<(), Failure> {
        let display = self.display();
        let mut sink = self.sink.borrow_mut();
        let table = if sink.is_some() { display.roomy() } else { self.table_here(&display) };
        let mut standard = stdout().lock();
        let output: &mut dyn Write = match sink.as_mut() {
            Some(sink) => sink,
            None => &mut standard,
        };
        let mut output = BufWriter::new(output);
        let mut writer = writer(display.format, &mut output, TableOptions { types: false, ..table });
        writer.begin(&rows.schema())?;
        if rows.num_rows() > 0 {
            writer.write(rows)?;
        }
        writer.end()?;
        drop(writer);
        output.flush().map_err(|error| Failure::output(&error))
    }

    /// Directs interrupts to what goes on until the guard is dropped, rather than to the process.
    pub fn interrupts(&self) -> InterruptGuard<'_> {
        self.interrupt.statement()
    }

    /// Runs the statements of the source in order. Fails with the first error.
    pub fn run(&self, source: &Source) -> Result<(), Failure> {
        let whole = || source.locations(std::slice::from_ref(&source.text)).into_iter().next();
        let statements = Session::split(&source.text).map_err(|error| Failure::Statement(error, whole()))?;
        for location in source.locations(&statements) {
            let statement = location.statement.trim();
            if self.echo() == Echo::Queries {
                self.print_here(&format!("{statement};\n"))?;
            }
            let done = self.within_transaction(statement, || self.run_statement(&location));
            if let (Err(Failure::Statement(..)), Echo::Errors) = (&done, self.echo()) {
                complain(format!("STATEMENT:  {statement};"));
            }
            done?;
        }
        Ok(())
    }

    /// The same for statements of the shell's own, which ECHO does not print.
    pub fn run_own(&self, source: &Source) -> Result<(), Failure> {
        let echo = self.echo.replace(Echo::Nothing);
        let done = self.run(source);
        self.echo.set(echo);
        done
    }

    /// Whether a transaction is open that a statement has begun.
    pub fn is_in_transaction(&self) -> bool {
        self.transactions.is_open()
    }

    /// Runs a statement whose result is not shown. Fails as it does.
    pub fn execute(&self, sql: &str) -> Result<(), Failure> {
        let run = || {
            let interrupt = self.interrupt.statement();
            let mut progress = StatementProgress::begin();
            let begun = self.target.begin(sql, &interrupt, &mut progress);
            let mut result = begun.map_err(|error| Failure::Statement(error, None))?;
            let mut nowhere = io::sink();
            let mut writer = writer(Format::None, &mut nowhere, TableOptions::default());
            pump(result.as_mut(), writer.as_mut(), &interrupt, &mut progress).map(|_| ())
        };
        let done = run();
        self.transactions.note(sql, done.is_ok());
        done
    }

    /// Runs a statement with what `run` does, behind a BEGIN if statements begin transactions, and behind a savepoint
    /// if those that fail leave them as they were.
    fn within_transaction<T>(&self, sql: &str, run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if self.transactions.begins_before(sql) {
            self.execute("BEGIN")?;
        }
        // In this process a failure leaves the transaction as it was anyway.
        let is_guarded = self.target.copies() && self.transactions.guards(sql);
        if is_guarded {
            self.execute(&format!("SAVEPOINT {GUARD}"))?;
        }
        let done = run();
        self.transactions.note(sql, done.is_ok());
        if is_guarded {
            let back = if done.is_ok() { Ok(()) } else { self.execute(&format!("ROLLBACK TO SAVEPOINT {GUARD}")) };
            let released = back.and_then(|()| self.execute(&format!("RELEASE SAVEPOINT {GUARD}")));
            // Of two errors the first one is told.
            return done.and_then(|given| released.map(|()| given));
        }
        done
    }

    /// Runs a COPY whose rows go where results go, or come from standard input. Fails as the statement does.
    fn run_copy(&self, copy: &ProcessCopy, location: &Location) -> Result<(), Failure> {
        let placed = |failure| match failure {
            Failure::Statement(error, _) => Failure::Statement(error, Some(location.clone())),
            other => other,
        };
        if copy.reads() {
            let mut rows = CopiedLines::new(stdin().lock());
            return self.copy(&location.statement, CopyStream::From(&mut rows), false).map_err(placed);
        }
        let mut sink = self.sink.borrow_mut();
        let mut standard = stdout().lock();
        let output: &mut dyn Write = match sink.as_mut() {
            Some(sink) => sink,
            None => &mut standard,
        };
        let mut output = Watched { output: BufWriter::new(output), failed: None };
        let copied = self.copy(&location.statement, CopyStream::To(&mut output), true);
        let flushed = output.flush();
        match (output.failed, copied) {
            (Some(error), _) => Err(Failure::output(&error)),
            (None, copied) => copied.map_err(placed).and(flushed.map_err(|error| Failure::output(&error))),
        }
    }

    fn run_statement(&self, location: &Location) -> Result<(), Failure> {
        let begun = Instant::now();
        let failed = |error| Failure::Statement(error, Some(location.clone()));
        match ProcessCopy::of(&location.statement) {
            Ok(Some(copy)) => return self.run_copy(&copy, location),
            // A server says what is wrong with it itself.
            Err(error) if !self.copies() => return Err(failed(error)),
            Ok(None) | Err(_) => {}
        }
        let interrupt = self.interrupt.statement();
        if let Some(done) = self.target.copy_file(&location.statement, &interrupt) {
            return self.copied(done.map_err(failed)?, begun, self.prints_rows(&location.statement));
        }
        let mut progress = StatementProgress::begin();
        let mut result = self.begin(&location.statement, &interrupt, &mut progress).map_err(failed)?;

        let display = self.display();
        let mut sink = self.sink.borrow_mut();
        let pages = sink.is_none() && self.terminal && display.pager && result.kind() == StatementResult::Rows;
        let table = if sink.is_some() || pages { display.roomy() } else { self.table_here(&display) };
        let is_copy = matches!(result.kind(), StatementResult::Command { tag, .. } if tag == "COPY");
        let is_copied = is_copy && self.prints_rows(&location.statement);
        let look = Display { table, tags: display.tags && !is_copied, ..display };
        let shown = match sink.as_mut() {
            Some(sink) => {
                let mut output = BufWriter::new(sink);
                enough(self.show_all(result.as_mut(), location, &look, &interrupt, &mut progress, &mut output))
            }
            None if pages => {
                let mut output = BufWriter::new(Pager::new());
                enough(self.show_all(result.as_mut(), location, &look, &interrupt, &mut progress, &mut output))
            }
            None => {
                let mut output = BufWriter::new(stdout().lock());
                self.show_all(result.as_mut(), location, &look, &interrupt, &mut progress, &mut output)
            }
        };
        let rows = shown?;
        self.rows.set(rows);
        if look.timer {
            tell_time(rows, begun);
        }
        Ok(())
    }

    /// Begins a statement that may name files of the data directory. That is looked at once a second, less often if it
    /// takes long, and at once if there is no table of a name.
    fn begin(
        &self,
        sql: &str,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
    ) -> Result<Box<dyn RunningStatement + 'a>, Error> {
        let now = Instant::now();
        if now >= self.look_at.get() {
            self.target.look_at_data();
            self.look_at.set(Instant::now() + LOOK_REST.max(now.elapsed() * LOOK_SHARE));
        }
        match self.target.begin(sql, interrupt, progress) {
            Err(error) if sqlstate(&error) == UNKNOWN_TABLE && self.target.look_at_data() => {
                self.target.begin(sql, interrupt, progress)
            }
            begun => begun,
        }
    }

    /// Whether a statement writes rows of its own to standard output: whoever reads them wants nothing behind them.
    fn prints_rows(&self, statement: &str) -> bool {
        !self.copies() && Session::copies_to_standard_output(statement)
    }

    /// How tables look on standard output; on a terminal, in its current width.
    fn table_here(&self, display: &Display) -> TableOptions {
        let width = || console::Term::stdout().size_checked().map(|(_, width)| usize::from(width));
        // Only a table says that it leaves rows out.
        let rows = display.table.rows.filter(|_| display.rows_chosen || display.format == Format::Table);
        TableOptions { rows, width: self.terminal.then(width).flatten(), ..display.table.clone() }
    }

    /// As [`show`](Self::show), to the last byte.
    fn show_all(
        &self,
        result: &mut dyn RunningStatement,
        location: &Location,
        look: &Display,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
        output: &mut dyn Write,
    ) -> Result<u64, Failure> {
        match self.show(result, location.is_explain(), look, interrupt, progress, output) {
            Ok(rows) => {
                output.flush().map_err(|error| Failure::output(&error))?;
                Ok(rows)
            }
            Err(Failure::Statement(error, _)) => {
                // Show the rows that came before the error. If they cannot be written, the error still is.
                let _ = output.flush();
                Err(Failure::Statement(error, Some(location.clone())))
            }
            Err(other) => Err(other),
        }
    }

    /// Writes a result and returns its number of rows. A plan is written as plain lines rather than as a table.
    fn show(
        &self,
        result: &mut dyn RunningStatement,
        is_plan: bool,
        look: &Display,
        interrupt: &InterruptGuard<'_>,
        progress: &mut StatementProgress,
        output: &mut dyn Write,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        if result.kind() == StatementResult::Rows {
            let mut writer: Box<dyn ResultWriter> = match look.format {
                Format::Table if is_plan => Box::new(LineWriter::new(output)),
                format => {
                    let types = look.table.types && self.target.knows_types();
                    writer(format, output, TableOptions { types, ..look.table.clone() })
                }
            };
            writer.begin(&result.schema())?;
            rows = pump(result, writer.as_mut(), interrupt, progress)?;
            writer.end()?;
        } else {
            // A command returns no rows, but reading its result is what runs it.
            pump(result, writer(Format::None, output, TableOptions::default()).as_mut(), interrupt, progress)?;
        }
        // The row count of a command is known only at its end.
        if let StatementResult::Command { tag, rows: affected } = result.kind() {
            rows = affected.unwrap_or(0);
            if look.format.is_for_people() && look.table.footer && look.tags {
                // `CREATE TABLE 0` would say nothing more than `CREATE TABLE`.
                let count = affected.filter(|affected| *affected > 0 || !tag.starts_with("CREATE"));
                let count = count.map(|count| format!(" {count}")).unwrap_or_default();
                writeln!(output, "{tag}{count}").map_err(|error| Failure::output(&error))?;
            }
        }
        Ok(rows)
    }
}

/// An output that keeps what it failed with.
struct Watched<W> {
    output: W,
    failed: Option<io::Error>,
}

impl<W: Write> Watched<W> {
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let told = io::Error::new(error.kind(), error.to_string());
            self.failed.get_or_insert(error);
            told
        })
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.output.flush();
        self.noted(flushed)
    }
}

/// Says how many rows there were, and how long they took.
fn tell_time(rows: u64, begun: Instant) {
    complain(format!("{} in {:.3} s", count_text(rows, "row"), begun.elapsed().as_secs_f64()));
}

/// Who leaves a pager, or ends as `head` does, has seen enough; that ends the statement only.
fn enough(shown: Result<u64, Failure>) -> Result<u64, Failure> {
    match shown {
        Err(Failure::OutputClosed) => Ok(0),
        shown => shown,
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
                if !writer.is_silent() {
                    progress.clear();
                }
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
