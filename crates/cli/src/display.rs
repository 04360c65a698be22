//! How results are shown. The command line says how it begins, and commands of the shell change it.

use crate::arguments::OutputArguments;
use crate::output::{Expanded, Format, TableOptions};

/// The most rows of a table that `sql` shows on a terminal by default: a few screens.
const SQL_ROWS_MAX: usize = 1_000;

/// The most rows of a table that the shell shows on a terminal by default: half a screen of its first and half a screen
/// of its last ones.
const SHELL_ROWS_MAX: usize = 40;

/// How results are shown.
#[derive(Clone, Debug)]
pub struct Display {
    /// The format.
    pub format: Format,
    /// Whether rows and times are told.
    pub timer: bool,
    /// How tables look. The width is that of the terminal, at each result.
    pub table: TableOptions,
    /// Whether somebody chose the number of rows. If not, it only spares the terminal.
    pub rows_chosen: bool,
    /// Whether results on a terminal go through a pager.
    pub pager: bool,
    /// Whether it is told what commands have done: `INSERT 1`.
    pub tags: bool,
}

impl Display {
    /// As `sql` shows results. `terminal` is whether they go to a terminal.
    pub fn of_sql(output: &OutputArguments, terminal: bool) -> Self {
        Self::new(output, terminal.then_some(SQL_ROWS_MAX))
    }

    /// As the shell shows results.
    pub fn of_shell(output: &OutputArguments, terminal: bool) -> Self {
        let mut display = Self::new(output, terminal.then_some(SHELL_ROWS_MAX));
        display.table.tail = true;
        display.table.types = terminal;
        display
    }

    fn new(output: &OutputArguments, rows: Option<usize>) -> Self {
        let rows = match output.max_rows {
            Some(0) => None,
            Some(rows) => Some(rows),
            None => rows,
        };
        let defaults = TableOptions::default();
        let separator = |chosen: &Option<String>, is_zero: bool, default: String| match is_zero {
            true => "\0".to_owned(),
            false => chosen.clone().unwrap_or(default),
        };
        let table = TableOptions {
            rows,
            headers: !output.tuples_only,
            footer: !output.tuples_only,
            frame: output.format.frame,
            expanded: if output.expanded { Expanded::On } else { output.format.expanded },
            field_separator: separator(&output.field_separator, output.field_separator_zero, defaults.field_separator),
            record_separator: separator(
                &output.record_separator,
                output.record_separator_zero,
                defaults.record_separator,
            ),
            ..TableOptions::default()
        };
        Self {
            format: output.format(),
            timer: output.timer,
            table,
            rows_chosen: output.max_rows.is_some(),
            pager: false,
            tags: !output.quiet,
        }
    }

    /// How tables look in a file, in a command's input or in a pager, which have room for all rows and whole lines.
    pub fn roomy(&self) -> TableOptions {
        let rows = self.table.rows.filter(|_| self.rows_chosen);
        TableOptions { rows, width: None, ..self.table.clone() }
    }
}
