//! A table with aligned columns.
//!
//! Column widths are computed from the first rows, at most [`ROWS_MEASURED`], so that the table can be printed before
//! the last row is known. A later value that is wider shifts the rest of its line to the right but is shown in full.
//! Numbers are right-aligned. A value with several lines takes several lines.
//!
//! A table is never wider than the terminal: text is truncated, and where that is not enough, the values of a row are
//! listed vertically. Control characters are escaped, so that data cannot control the terminal.
//!
//! With [`TableOptions::tail`] a long result is shown by its first and its last rows. Nothing is written then before
//! the last row is known; of a result with more than [`ROWS_READ_MAX`] rows only the first are shown, and its rest is
//! not read.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use diligence_db::SqlType;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::{formatters, options, printable};
use super::{Demand, Expanded, ResultWriter, TableOptions, WriteError};

/// Rows that are measured before the first one is written: few enough to buffer without noticeable memory or delay.
const ROWS_MEASURED: usize = 2_000;

/// The rows that are read to find the last ones: a second or so. A table of billions must not be read to be looked at.
const ROWS_READ_MAX: usize = 1_000_000;

/// The fewest characters to which text is truncated; less would be useless.
const CUT_WIDTH_MIN: usize = 10;

/// The end of truncated text.
const CUT: &str = "…";

/// What stands in each column where rows are left out, in as many lines.
const LEFT_OUT: [&str; 3] = ["·"; 3];

/// A row, with the lines of each column's value.
type Row = Vec<Vec<String>>;

pub(super) struct TableWriter<'a> {
    output: &'a mut dyn Write,
    options: TableOptions,
    names: Vec<String>,
    /// The types of the columns; empty if they are not shown.
    types: Vec<String>,
    right_aligned: Vec<bool>,
    /// Widths so far; final once the header is written.
    widths: Vec<usize>,
    head_written: bool,
    /// Rows that are buffered until the widths are known.
    waiting: Vec<Row>,
    /// With a tail: the last rows, without those that are shown at the head.
    last: VecDeque<Row>,
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
    pub(super) fn new(output: &'a mut dyn Write, options: TableOptions) -> Self {
        Self {
            output,
            vertical: options.expanded == Expanded::On,
            options,
            names: Vec::new(),
            types: Vec::new(),
            right_aligned: Vec::new(),
            widths: Vec::new(),
            head_written: false,
            waiting: Vec::new(),
            last: VecDeque::new(),
            rows: 0,
            cut: false,
            width_max: Vec::new(),
            shortened: false,
            numbered: 0,
        }
    }

    /// How many rows are shown at the beginning and at the end; `None` if the result is not shown so.
    fn ends(&self) -> Option<(usize, usize)> {
        let rows = self.options.rows.filter(|_| self.options.tail)?;
        Some((rows.div_ceil(2), rows / 2))
    }

    /// Decides how the columns fit into the width.
    fn fit(&mut self) {
        let Some(room) = self.options.width else { return };
        let frame = self.options.frame.width(self.widths.len());
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
            None => self.vertical = self.options.expanded != Expanded::Off,
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

    fn line(&mut self, line: Option<String>) -> Result<(), WriteError> {
        if let Some(line) = line {
            writeln!(self.output, "{line}")?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<(), WriteError> {
        if self.vertical {
            return self.record(row);
        }
        let height = row.iter().map(Vec::len).max().unwrap_or(1);
        let mut text = String::new();
        for line in 0..height {
            let cell = |(column, value): (usize, &Vec<String>)| {
                let value = value.get(line).map_or("", String::as_str);
                let shorter = self.width_max[column].and_then(|width| shortened(value, width));
                self.shortened |= shorter.is_some();
                let value = shorter.as_deref().unwrap_or(value);
                let fill = " ".repeat(self.widths[column].saturating_sub(value.width()));
                if self.right_aligned[column] { format!("{fill}{value}") } else { format!("{value}{fill}") }
            };
            let cells = row.iter().enumerate().map(cell).collect::<Vec<_>>();
            text.push_str(&self.options.frame.row(&cells));
            text.push('\n');
        }
        self.output.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Writes the header, if it was not written, and the buffered rows.
    fn write_waiting(&mut self) -> Result<(), WriteError> {
        if !self.head_written {
            self.head_written = true;
            for row in self.waiting.iter().chain(&self.last) {
                for (width, value) in self.widths.iter_mut().zip(row) {
                    *width = value.iter().map(|line| line.width()).fold(*width, usize::max);
                }
            }
            if !self.vertical {
                self.fit();
            }
            if !self.vertical {
                self.line(self.options.frame.top(&self.widths))?;
                if self.options.headers {
                    self.row(&self.header())?;
                    self.line(Some(self.options.frame.under_header(&self.widths, &self.right_aligned)))?;
                }
            }
        }
        for row in std::mem::take(&mut self.waiting) {
            self.row(&row)?;
        }
        Ok(())
    }

    /// The names, and the types under them.
    fn header(&self) -> Row {
        let with_type = |(column, name): (usize, &String)| -> Vec<String> {
            let types = self.types.get(column).cloned();
            std::iter::once(name.clone()).chain(types).collect()
        };
        self.names.iter().enumerate().map(with_type).collect()
    }

    /// Writes the last rows, and before them that rows are left out, if any are.
    fn write_last(&mut self) -> Result<(), WriteError> {
        let left_out = self.left_out();
        if left_out > 0 && self.vertical {
            self.numbered += left_out;
            writeln!(self.output, "── {left_out} rows are not shown ──")?;
        } else if left_out > 0 {
            let dots = LEFT_OUT.map(str::to_owned).to_vec();
            self.row(&vec![dots; self.names.len()])?;
        }
        for row in std::mem::take(&mut self.last) {
            self.row(&row)?;
        }
        Ok(())
    }

    /// How many rows are shown neither at the head nor at the tail. Known only while the last rows are not written.
    fn left_out(&self) -> usize {
        self.ends().map_or(0, |(head, _)| self.rows - self.rows.min(head) - self.last.len())
    }

    /// The text of these rows.
    fn texts(&self, batch: &RecordBatch, rows: Range<usize>) -> Result<Vec<Row>, WriteError> {
        let options = options().with_null(&self.options.null);
        let batch = batch.slice(rows.start, rows.len());
        let formatters = formatters(&batch, &options)?;
        let frame = self.options.frame;
        let text = |row: usize| -> Row {
            formatters.iter().map(|column| frame.cell(lines_of(&column.value(row).to_string()))).collect()
        };
        Ok((0..rows.len()).map(text).collect())
    }

    /// Keeps those rows that are among the first or, so far, among the last.
    fn write_ends(&mut self, batch: &RecordBatch, (head, tail): (usize, usize)) -> Result<Demand, WriteError> {
        let rows = batch.num_rows();
        let first = rows.min(head.saturating_sub(self.rows));
        self.waiting.extend(self.texts(batch, 0..first)?);
        let kept_from = rows.saturating_sub(tail).max(first);
        self.last.extend(self.texts(batch, kept_from..rows)?);
        let over = self.last.len().saturating_sub(tail);
        self.last.drain(..over);
        self.rows += rows;
        if self.rows > ROWS_READ_MAX.max(head + tail) {
            self.cut = true;
            self.last.clear();
            self.rows = head;
        }
        Ok(self.demand())
    }

    fn demand(&self) -> Demand {
        if self.cut { Demand::Enough } else { Demand::More }
    }

    /// The line under the table.
    fn footer(&self, left_out: usize) -> String {
        let note = match self.shortened {
            true => "; text is truncated to the width of the terminal (see --format)",
            false => "",
        };
        let option = if self.options.tail { ".maxrows" } else { "--max-rows" };
        match (self.cut, self.rows) {
            (true, rows) => format!("the first {rows} rows; there are more (see {option}){note}"),
            (false, rows) if left_out > 0 => format!("{rows} rows, {} shown (see {option}){note}", rows - left_out),
            (false, 1) => format!("1 row{note}"),
            (false, rows) => format!("{rows} rows{note}"),
        }
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

/// The name of a column's type, in its shortest form: a header should not be wider than the values below it.
fn type_name(field: &arrow::datatypes::Field) -> String {
    let Some(known) = SqlType::of_field(field) else { return field.data_type().to_string().to_lowercase() };
    let name = known.to_string();
    // `timestamp(3) with time zone[]`
    let name = match name.split_once(" with time zone") {
        Some((kind, rest)) if kind.starts_with("timestamp") => kind.replacen("timestamp", "timestamptz", 1) + rest,
        Some((kind, rest)) if kind.starts_with("time") => kind.replacen("time", "timetz", 1) + rest,
        _ => name,
    };
    [
        (" without time zone", ""),
        ("double precision", "double"),
        ("character varying", "varchar"),
        ("bit varying", "varbit"),
    ]
    .iter()
    .fold(name, |name, (long, short)| name.replace(long, short))
}

impl ResultWriter for TableWriter<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        let frame = self.options.frame;
        let name = |name: &String| frame.cell(vec![lines_of(name).join("\\n")]).concat();
        self.names = schema.fields().iter().map(|field| name(field.name())).collect();
        if self.options.types {
            self.types = schema.fields().iter().map(|field| type_name(field)).collect();
        }
        self.right_aligned = schema.fields().iter().map(|field| is_number(field.data_type())).collect();
        self.widths = match self.options.headers {
            true => {
                self.header().iter().map(|lines| lines.iter().map(|line| line.width()).fold(0, usize::max)).collect()
            }
            false => vec![0; self.names.len()],
        };
        self.width_max = vec![None; self.names.len()];
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        if let Some(ends) = self.ends() {
            return self.write_ends(batch, ends);
        }
        let room = self.options.rows.map_or(usize::MAX, |most| most - self.rows);
        let taken = batch.num_rows().min(room);
        self.waiting.extend(self.texts(batch, 0..taken)?);
        self.rows += taken;
        if self.head_written || self.waiting.len() >= ROWS_MEASURED {
            self.write_waiting()?;
        }
        self.cut |= taken < batch.num_rows();
        Ok(self.demand())
    }

    /// Writes the buffered rows as well: an uneven table is better than a late one.
    fn flush(&mut self) -> Result<(), WriteError> {
        if !self.waiting.is_empty() && !self.is_silent() {
            self.write_waiting()?;
        }
        Ok(self.output.flush()?)
    }

    fn is_silent(&self) -> bool {
        self.ends().is_some()
    }

    fn end(&mut self) -> Result<(), WriteError> {
        let left_out = self.left_out();
        // A result without columns has no table, only a row count.
        if !self.names.is_empty() {
            self.write_waiting()?;
            self.write_last()?;
            if !self.vertical {
                self.line(self.options.frame.bottom(&self.widths))?;
            }
        }
        if self.options.footer {
            writeln!(self.output, "{}", self.footer(left_out))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{sample, text, written};
    use super::*;
    use crate::output::frame::Frame;
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
        let mut writer = TableWriter::new(&mut output, TableOptions { width: Some(width), ..TableOptions::default() });
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

    fn with(options: TableOptions, rows: std::ops::RangeInclusive<i64>) -> String {
        let mut output = Vec::new();
        let mut writer = TableWriter::new(&mut output, options);
        let number: ArrayRef = Arc::new(Int64Array::from(rows.collect::<Vec<_>>()));
        let batch = RecordBatch::try_from_iter([("n", number)]).unwrap();
        writer.begin(&batch.schema()).unwrap();
        // In several batches, whose ends are not those of the head and the tail.
        let mut at = 0;
        while at < batch.num_rows() {
            let size = 7.min(batch.num_rows() - at);
            assert_eq!(writer.write(&batch.slice(at, size)).unwrap(), Demand::More);
            writer.flush().unwrap();
            at += size;
        }
        writer.end().unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_long_result_is_shown_by_its_ends() {
        let ends = |rows| TableOptions { rows: Some(rows), tail: true, ..TableOptions::default() };
        let expected = "\
┌────┐
│  n │
├────┤
│  1 │
│  2 │
│  · │
│  · │
│  · │
│ 30 │
└────┘
30 rows, 3 shown (see .maxrows)
";
        assert_eq!(with(ends(3), 1..=30), expected);
        let whole = with(ends(30), 1..=30);
        assert!(whole.ends_with("│ 30 │\n└────┘\n30 rows\n") && !whole.contains('·'), "{whole}");
        assert!(with(ends(30), 1..=31).contains("31 rows, 30 shown"));
        let numbers = |text: &str| {
            text.lines().filter_map(|line| line.trim_matches(['│', ' ']).parse().ok()).collect::<Vec<i64>>()
        };
        assert_eq!(numbers(&with(ends(20), 1..=300)), (1..=10).chain(291..=300).collect::<Vec<_>>());
        assert_eq!(numbers(&with(ends(1), 1..=300)), [1]);
        let below = with(TableOptions { expanded: Expanded::On, ..ends(2) }, 1..=9);
        assert_eq!(
            below,
            "── row 1 ──\nn │ 1\n── 7 rows are not shown ──\n── row 9 ──\nn │ 9\n9 rows, 2 shown (see .maxrows)\n"
        );
    }

    #[test]
    fn a_result_without_end_is_shown_by_its_beginning() {
        let mut output = Vec::new();
        let options = TableOptions { rows: Some(4), tail: true, frame: Frame::Bare, ..TableOptions::default() };
        let mut writer = TableWriter::new(&mut output, options);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=ROWS_READ_MAX as i64));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        writer.begin(&batch.schema()).unwrap();
        assert_eq!(writer.write(&batch).unwrap(), Demand::More);
        assert_eq!(writer.write(&batch.slice(0, 1)).unwrap(), Demand::Enough);
        writer.end().unwrap();
        let expected = "n\n─\n1\n2\nthe first 2 rows; there are more (see .maxrows)\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }

    #[test]
    fn types_stand_under_the_names() {
        let options = TableOptions { types: true, ..TableOptions::default() };
        assert_eq!(
            with(options, 7..=7),
            "┌────────┐\n│      n │\n│ bigint │\n├────────┤\n│      7 │\n└────────┘\n1 row\n"
        );
        let name = |data_type: DataType| type_name(&arrow::datatypes::Field::new("f", data_type, true));
        use arrow::datatypes::TimeUnit::Microsecond;
        assert_eq!(name(DataType::Timestamp(Microsecond, None)), "timestamp");
        assert_eq!(name(DataType::Timestamp(Microsecond, Some("UTC".into()))), "timestamptz");
        assert_eq!(name(DataType::Time64(Microsecond)), "time");
        assert_eq!(name(DataType::Float64), "double");
    }

    #[test]
    fn frames_and_headers_are_a_choice() {
        let in_frame = |frame| with(TableOptions { frame, ..TableOptions::default() }, 9..=10);
        assert_eq!(in_frame(Frame::Inner), "  n\n────\n  9\n 10\n2 rows\n");
        assert_eq!(in_frame(Frame::Bare), " n\n──\n 9\n10\n2 rows\n");
        assert_eq!(in_frame(Frame::Markdown), "|  n |\n|---:|\n|  9 |\n| 10 |\n2 rows\n");
        let plain = TableOptions { headers: false, footer: false, frame: Frame::Bare, ..TableOptions::default() };
        assert_eq!(with(plain, 9..=10), " 9\n10\n");
        let pipe = column_in(Frame::Markdown, vec!["a|b\nc"]);
        assert!(pipe.contains("| a\\|b<br>c |"), "{pipe}");
    }

    fn column_in(frame: Frame, values: Vec<&str>) -> String {
        let values: ArrayRef = Arc::new(StringArray::from(values));
        let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
        let mut output = Vec::new();
        let mut writer = TableWriter::new(&mut output, TableOptions { frame, ..TableOptions::default() });
        writer.begin(&batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.end().unwrap();
        String::from_utf8(output).unwrap()
    }
}
