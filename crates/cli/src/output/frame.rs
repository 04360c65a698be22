//! The lines between the columns of a table, and around it.

use unicode_width::UnicodeWidthStr;

/// Which lines a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frame {
    /// Around the table and between its columns.
    #[default]
    Box,
    /// Between the columns only.
    Inner,
    /// None but the one under the header.
    Bare,
    /// As Markdown writes tables.
    Markdown,
}

impl Frame {
    /// What stands before, between and behind the values of a row.
    fn edges(self) -> [&'static str; 3] {
        match self {
            Frame::Box => ["│ ", " │ ", " │"],
            Frame::Inner => [" ", " │ ", ""],
            Frame::Bare => ["", " ", ""],
            Frame::Markdown => ["| ", " | ", " |"],
        }
    }

    /// The width of everything in a row that is not a value.
    pub fn width(self, columns: usize) -> usize {
        let [left, between, right] = self.edges();
        left.width() + between.width() * columns.saturating_sub(1) + right.width()
    }

    /// A line of values that have their widths.
    pub fn row(self, values: &[String]) -> String {
        let [left, between, right] = self.edges();
        let line = format!("{left}{}{right}", values.join(between));
        match self {
            Frame::Box | Frame::Markdown => line,
            Frame::Inner | Frame::Bare => line.trim_end().to_owned(),
        }
    }

    /// The line above the header, if there is one.
    pub fn top(self, widths: &[usize]) -> Option<String> {
        (self == Frame::Box).then(|| rule(widths, 2, ["┌", "┬", "┐"]))
    }

    /// The line under the last row, if there is one.
    pub fn bottom(self, widths: &[usize]) -> Option<String> {
        (self == Frame::Box).then(|| rule(widths, 2, ["└", "┴", "┘"]))
    }

    /// The line under the header. Markdown says there which columns are aligned to the right.
    pub fn under_header(self, widths: &[usize], right_aligned: &[bool]) -> String {
        match self {
            Frame::Box => rule(widths, 2, ["├", "┼", "┤"]),
            Frame::Inner => rule(widths, 2, ["", "┼", ""]),
            Frame::Bare => rule(widths, 0, ["", " ", ""]),
            Frame::Markdown => {
                let dashes = widths.iter().zip(right_aligned).map(|(width, right)| match right {
                    true => format!("{}:", "-".repeat(width + 1)),
                    false => "-".repeat(width + 2),
                });
                format!("|{}|", dashes.collect::<Vec<_>>().join("|"))
            }
        }
    }

    /// The lines of a value as this frame can hold them: a cell of Markdown has one.
    pub fn cell(self, lines: Vec<String>) -> Vec<String> {
        match self {
            Frame::Markdown => vec![lines.join("<br>").replace('|', "\\|")],
            Frame::Box | Frame::Inner | Frame::Bare => lines,
        }
    }
}

fn rule(widths: &[usize], around: usize, [left, between, right]: [&str; 3]) -> String {
    let spans = widths.iter().map(|width| "─".repeat(width + around)).collect::<Vec<_>>();
    format!("{left}{}{right}", spans.join(between))
}
