//! A table with aligned columns.
//!
//! Column widths are computed from the first rows, at most [`ROWS_MEASURED`], so that the table can be printed before
//! the last row is known. A later value that is wider shifts the rest of its line to the right but is shown in full.
//! Numbers are right-aligned. A value with several lines takes several lines.
//!
//! A table is never wider than the terminal: text is truncated, and where that is not enough, the values of a row are
//! listed vertically. Control characters are escaped, so that data cannot control the terminal.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::{formatters, options, printable};
use super::{Demand, ResultWriter, TableLimits, WriteError};

/// Rows that are measured before the first one is written: few enough to buffer without noticeable memory or delay.
const ROWS_MEASURED: usize = 2_000;

/// The fewest characters to which text is truncated; less would be useless.
const CUT_WIDTH_MIN: usize = 10;

/// The end of truncated text.
const CUT: &str = "…";

/// A row, with the lines of each column's value.
type Row = Vec<Vec<String>>;

pub(super) struct TableWriter<'a> {
    output: &'a mut dyn Write,
    limits: TableLimits,
    names: Vec<String>,
    right_aligned: Vec<bool>,
    /// Widths so far; final once the header is written.
    widths: Vec<usize>,
    head_written: bool,
    /// Rows that are buffered until the widths are known.
    waiting: Vec<Row>,
    rows: usize,
    /// Whether rows were omitted.
    cut: bool,
    /// The width to which the values of a column are truncated.
    width_max: Vec<Option<usize>>,
    /// Whether values were truncated.
    shortened: bool,
    /// Whether the values of a row are listed vertically.
    vertical: bool,
    /// The number of rows listed vertically.
    numbered: usize,
}

impl<'a> TableWriter<'a> {
    pub(super) fn new(output: &'a mut dyn Write, limits: TableLimits) -> Self {
        Self {
            output,
            limits,
            names: Vec::new(),
            right_aligned: Vec::new(),
            widths: Vec::new(),
            head_written: false,
            waiting: Vec::new(),
            rows: 0,
            cut: false,
            width_max: Vec::new(),
            shortened: false,
            vertical: false,
            numbered: 0,
        }
    }

    /// Decides how the columns fit into the width.
    fn fit(&mut self) {
        let Some(room) = self.limits.width else { return };
        let frame = 3 * self.widths.len() + 1;
        let wide = |cap: usize, widths: &[usize], right_aligned: &[bool]| {
            let columns = widths.iter().zip(right_aligned);
            columns.map(|(width, right)| if *right { *width } else { *width.min(&cap) }).sum::<usize>() + frame
        };
        let whole = wide(usize::MAX, &self.widths, &self.right_aligned);
        if whole <= room {
            return;
        }
        // Truncate the widest text columns first: find the largest width that all of them can have.
        let fitting = (CUT_WIDTH_MIN..=room).rev().find(|cap| wide(*cap, &self.widths, &self.right_aligned) <= room);
        match fitting {
            Some(cap) => {
                for (column, width) in self.widths.iter_mut().enumerate() {
                    if !self.right_aligned[column] {
                        *width = (*width).min(cap);
                        self.width_max[column] = Some(cap);
                    }
                }
            }
            None => self.vertical = true,
        }
    }

    /// Writes the values of a row vertically.
    fn record(&mut self, row: &Row) -> Result<(), WriteError> {
        self.numbered += 1;
        let indent = self.names.iter().map(|name| name.width()).max().unwrap_or(0);
        let mut text = format!("── row {} ──\n", self.numbered);
        for (name, value) in self.names.iter().zip(row) {
            for (index, line) in value.iter().enumerate() {
                let name = if index == 0 { name.as_str() } else { "" };
                text.push_str(name);
                text.push_str(&" ".repeat(indent - name.width()));
                text.push_str(" │ ");
                text.push_str(line);
                text.push('\n');
            }
        }
        self.output.write_all(text.as_bytes())?;
        Ok(())
    }

    fn rule(&mut self, left: &str, between: &str, right: &str) -> Result<(), WriteError> {
        let spans = self.widths.iter().map(|width| "─".repeat(width + 2)).collect::<Vec<_>>();
        writeln!(self.output, "{left}{}{right}", spans.join(between))?;
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<(), WriteError> {
        if self.vertical {
            return self.record(row);
        }
        let height = row.iter().map(Vec::len).max().unwrap_or(1);
        let mut text = String::new();
        for line in 0..height {
            for (column, value) in row.iter().enumerate() {
                let value = value.get(line).map_or("", String::as_str);
                let shorter = self.width_max[column].and_then(|width| shortened(value, width));
                self.shortened |= shorter.is_some();
                let value = shorter.as_deref().unwrap_or(value);
                let fill = " ".repeat(self.widths[column].saturating_sub(value.width()));
                text.push_str("│ ");
                if self.right_aligned[column] {
                    text.push_str(&fill);
                    text.push_str(value);
                } else {
                    text.push_str(value);
                    text.push_str(&fill);
                }
                text.push(' ');
            }
            text.push_str("│\n");
        }
        self.output.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Writes the header, if it was not written, and the buffered rows.
    fn write_waiting(&mut self) -> Result<(), WriteError> {
        if !self.head_written {
            self.head_written = true;
            for row in &self.waiting {
                for (width, value) in self.widths.iter_mut().zip(row) {
                    *width = value.iter().map(|line| line.width()).fold(*width, usize::max);
                }
            }
            self.fit();
            if !self.vertical {
                self.rule("┌", "┬", "┐")?;
                let head = self.names.iter().map(|name| vec![name.clone()]).collect();
                self.row(&head)?;
                self.rule("├", "┼", "┤")?;
            }
        }
        for row in std::mem::take(&mut self.waiting) {
            self.row(&row)?;
        }
        Ok(())
    }
}

/// The lines of a value, with control characters escaped.
fn lines_of(value: &str) -> Vec<String> {
    value.split('\n').map(printable).collect()
}

/// The value truncated to a width; `None` if it fits.
fn shortened(value: &str, width_max: usize) -> Option<String> {
    if value.width() <= width_max {
        return None;
    }
    let mut width = CUT.width();
    let fits = |character: &char| {
        width += character.width().unwrap_or(0);
        width <= width_max
    };
    let mut text = value.chars().take_while(fits).collect::<String>();
    text.push_str(CUT);
    Some(text)
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_number(values),
        other => other.is_numeric(),
    }
}

impl ResultWriter for TableWriter<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        self.names = schema.fields().iter().map(|field| lines_of(field.name()).join("\\n")).collect();
        self.right_aligned = schema.fields().iter().map(|field| is_number(field.data_type())).collect();
        self.widths = self.names.iter().map(|name| name.width()).collect();
        self.width_max = vec![None; self.names.len()];
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        let room = self.limits.rows.map_or(usize::MAX, |most| most - self.rows);
        let taken = batch.num_rows().min(room);
        let options = options().with_null("NULL");
        let formatters = formatters(batch, &options)?;
        for row in 0..taken {
            self.waiting.push(formatters.iter().map(|column| lines_of(&column.value(row).to_string())).collect());
        }
        self.rows += taken;
        if self.head_written || self.waiting.len() >= ROWS_MEASURED {
            self.write_waiting()?;
        }
        self.cut |= taken < batch.num_rows();
        Ok(if self.cut { Demand::Enough } else { Demand::More })
    }

    /// Writes the buffered rows as well: an uneven table is better than a late one.
    fn flush(&mut self) -> Result<(), WriteError> {
        if !self.waiting.is_empty() {
            self.write_waiting()?;
        }
        Ok(self.output.flush()?)
    }

    fn end(&mut self) -> Result<(), WriteError> {
        // A result without columns has no table, only a row count.
        if !self.names.is_empty() {
            self.write_waiting()?;
            if !self.vertical {
                self.rule("└", "┴", "┘")?;
            }
        }
        let note = if self.shortened { "; text is truncated to the width of the terminal (see --format)" } else { "" };
        match (self.cut, self.rows) {
            (true, rows) => writeln!(self.output, "the first {rows} rows; there are more (see --max-rows){note}")?,
            (false, 1) => writeln!(self.output, "1 row{note}")?,
            (false, rows) => writeln!(self.output, "{rows} rows{note}")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{sample, text, written};
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    #[test]
    fn columns_are_aligned() {
        let expected = "\
┌────────┬───────┬───────┬───────┬───────────┐
│ number │ text  │ price │ float │ list      │
├────────┼───────┼───────┼───────┼───────────┤
│      1 │ a,\"b\" │  1.00 │   1.0 │ [1, NULL] │
│   NULL │       │  2.50 │   0.5 │ NULL      │
│    -30 │ NULL  │ -0.05 │   NaN │ []        │
└────────┴───────┴───────┴───────┴───────────┘
3 rows
";
        assert_eq!(text(Format::Table, &[sample()], None), expected);
    }

    #[test]
    fn rows_are_cut_only_when_there_are_more() {
        let whole = text(Format::Table, &[sample(), sample()], Some(6));
        assert!(whole.ends_with("┘\n6 rows\n"), "{whole}");
        let cut = text(Format::Table, &[sample(), sample()], Some(4));
        assert_eq!(cut.lines().count(), 9);
        assert!(cut.ends_with("the first 4 rows; there are more (see --max-rows)\n"), "{cut}");
        let none = text(Format::Table, &[], None);
        assert!(none.ends_with("0 rows\n"), "{none}");
    }

    fn column(values: Vec<&str>) -> String {
        let values: ArrayRef = Arc::new(StringArray::from(values));
        let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
        String::from_utf8(written(Format::Table, &batch.schema(), &[batch], None)).unwrap()
    }

    #[test]
    fn wide_characters_and_several_lines_keep_the_box_straight() {
        let table = column(vec!["日本", "one\ntwo", "e\u{301}"]);
        let expected =
            "┌──────┐\n│ v    │\n├──────┤\n│ 日本 │\n│ one  │\n│ two  │\n│ e\u{301}    │\n└──────┘\n3 rows\n";
        assert_eq!(table, expected);
    }

    fn within(width: usize) -> String {
        let mut output = Vec::new();
        let mut writer = TableWriter::new(&mut output, TableLimits { rows: None, width: Some(width) });
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a longer text than fits", "short"]));
        let more: ArrayRef = Arc::new(StringArray::from(vec!["one\ntwo", "日本語日本語日本語日本語"]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1234567890, 2]));
        let batch = RecordBatch::try_from_iter([("text", text), ("more", more), ("number", number)]).unwrap();
        writer.begin(&batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.end().unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let whole = within(70);
        assert!(whole.contains("a longer text than fits") && whole.ends_with("\n2 rows\n"), "{whole}");
        let cut = within(50);
        assert!(cut.lines().take(7).all(|line| line.width() <= 50), "{cut}");
        assert!(
            cut.contains("a longer text …") && cut.contains("日本語日本語日…") && cut.contains(" 1234567890 │"),
            "{cut}"
        );
        assert!(cut.contains("text is truncated"), "{cut}");
        let below = within(30);
        let expected = "\
── row 1 ──
text   │ a longer text than fits
more   │ one
       │ two
number │ 1234567890
── row 2 ──
text   │ short
more   │ 日本語日本語日本語日本語
number │ 2
2 rows
";
        assert_eq!(below, expected);
    }

    #[test]
    fn data_cannot_control_the_terminal() {
        let table = column(vec!["\u{1b}[2J\tx\r"]);
        assert!(!table.contains('\u{1b}') && table.contains("\\u{1b}[2J\\tx\\r"), "{table}");
    }
}
