//! Spreadsheets of Excel and of programs that write its format (`.xlsx`): a block of cells of one sheet as rows.
//!
//! A spreadsheet is a zip archive (`archive`) of XML files. `workbook` reads what all sheets share, `cells` one sheet.
//!
//! Invariant: a cell's value becomes a value of its column, NULL where it is empty, or an error that names the cell.

mod archive;
mod cells;
mod workbook;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, RecordBatch, RecordBatchOptions, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema};
use arrow::temporal_conversions::{date32_to_datetime, time64us_to_time, timestamp_us_to_datetime};
use diligence_base::{Error, Result};

use crate::foreign_error::from_arrow;
use cells::{Cell, Rows, name_of, place_of};
use workbook::Workbook;

/// How a sheet is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SheetOptions {
    /// The sheet's name; the first one if `None`.
    pub sheet: Option<String>,
    /// The cells: `A1:C10`, `A2:` or `B:D`. `None`: from the first row that has a value to the row in front of the
    /// first empty one.
    pub range: Option<String>,
    /// Whether the first row has the names. `None`: if it has nothing but texts.
    pub header: Option<bool>,
    /// Whether every column is text.
    pub all_text: bool,
    /// Whether an empty row ends the rows. `None`: unless a range is given.
    pub stops_at_empty: Option<bool>,
    /// Whether cells whose formulas have failed are NULL.
    pub ignore_errors: bool,
}

/// The rows of a sheet. Fails with kind `Input` for what is no spreadsheet, has no such sheet or no such cells, and for
/// cells whose formulas have failed; with kind `Unsupported` if a password protects it.
pub fn sheet_rows(bytes: Vec<u8>, options: &SheetOptions) -> Result<RecordBatch> {
    let book = Workbook::open(bytes)?;
    let rows = cells::cells(&book.sheet(options.sheet.as_deref())?, &book)?;
    let block = Block::of(&rows, options)?;
    let is_text = |column: usize| match block.cell(&rows, block.first, column) {
        Some(cell) => matches!(cell, Cell::Text(_)),
        None => true,
    };
    let has_texts = (block.left..=block.right).any(|column| block.cell(&rows, block.first, column).is_some());
    let has_header = options.header.unwrap_or_else(|| has_texts && (block.left..=block.right).all(is_text));
    let begin = block.first + usize::from(has_header);
    let (mut fields, mut arrays, mut names) = (Vec::new(), Vec::new(), ColumnNames::default());
    for column in block.left..=block.right {
        let title = block.cell(&rows, block.first, column).filter(|_| has_header).map(text_of);
        let name = title.filter(|title| !title.trim().is_empty()).unwrap_or_else(|| name_of(column, block.first));
        let values = (begin..block.end).map(|row| block.cell(&rows, row, column)).collect::<Vec<_>>();
        let failed = values.iter().position(|cell| matches!(cell, Some(Cell::Error(_))));
        if let Some(row) = failed.filter(|_| !options.ignore_errors && !options.all_text) {
            let what = values[row].map(text_of).unwrap_or_default();
            let error = Error::value(format!("the cell {} has the error {what}", name_of(column, begin + row)));
            return Err(error.with_code("22000").with_hint("with ignore_errors = true, such cells are NULL"));
        }
        let array = array_of(&values, options.all_text);
        fields.push(Field::new(names.unique(name.trim()), array.data_type().clone(), true));
        arrays.push(array);
    }
    let count = RecordBatchOptions::new().with_row_count(Some(block.end.saturating_sub(begin)));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &count).map_err(from_arrow)
}

/// Gives columns names that no column in front of them has.
#[derive(Default)]
struct ColumnNames {
    taken: HashSet<String>,
    /// The number that was last behind a title.
    numbers: HashMap<String, usize>,
}

impl ColumnNames {
    fn unique(&mut self, title: &str) -> String {
        let mut name = title.to_owned();
        while !self.taken.insert(name.clone()) {
            let number = self.numbers.entry(title.to_owned()).or_default();
            *number += 1;
            name = format!("{title}_{number}");
        }
        name
    }
}

/// The cells that are read: rows from `first` to before `end`, columns from `left` to `right`.
struct Block {
    first: usize,
    end: usize,
    left: usize,
    right: usize,
}

impl Block {
    fn of(rows: &Rows, options: &SheetOptions) -> Result<Self> {
        let (mut left, mut right, mut first, mut end) = (None, None, None, None);
        if let Some(range) = &options.range {
            let wrong = || {
                let error = Error::input(format!("'{range}' is no range of cells")).with_code("22023");
                error.with_hint("a range is A1:C10, A2: or B:D")
            };
            let (from, to) = range.split_once(':').ok_or_else(wrong)?;
            let (column, row) = place_of(from).ok_or_else(wrong)?;
            (left, first) = (Some(column), row);
            if !to.is_empty() {
                let (column, row) = place_of(to).ok_or_else(wrong)?;
                (right, end) = (Some(column), row.map(|row| row + 1));
            }
            if right.is_some_and(|right| right < column) || end.is_some_and(|end| end <= first.unwrap_or(0)) {
                return Err(wrong());
            }
        }
        let is_inside =
            |column: usize| left.is_none_or(|left| left <= column) && right.is_none_or(|right| column <= right);
        let has_value = |cells: &BTreeMap<usize, Cell>| cells.keys().any(|column| is_inside(*column));
        let mut filled = rows.range(first.unwrap_or(0)..).filter(|(_, cells)| has_value(cells)).map(|(row, _)| *row);
        let is_open = first.is_none();
        let start = first.or_else(|| filled.next()).ok_or_else(no_cells)?;
        let last = rows.range(start..).rfind(|(_, cells)| has_value(cells)).map_or(start, |(row, _)| *row);
        let mut until = end.unwrap_or(last + 1).max(start);
        if options.stops_at_empty.unwrap_or(is_open && options.range.is_none()) {
            let is_empty = |row: &usize| !rows.get(row).is_some_and(has_value);
            until = (start..until).find(is_empty).unwrap_or(until);
        }
        let used = rows.range(start..until).flat_map(|(_, cells)| cells.keys()).filter(|column| is_inside(**column));
        let (least, most) = used.fold((usize::MAX, 0), |(least, most), column| (least.min(*column), most.max(*column)));
        let left = left.unwrap_or(least);
        let right = right.unwrap_or(most.max(left));
        if left == usize::MAX {
            return Err(no_cells());
        }
        if (right - left + 1).saturating_mul(until - start) > cells::CELLS_MAX {
            let error = Error::resource(format!("the range has more than {} cells", cells::CELLS_MAX));
            return Err(error.with_code("54000").with_hint("range = 'A1:C100' chooses fewer"));
        }
        Ok(Self { first: start, end: until, left, right })
    }

    fn cell<'r>(&self, rows: &'r Rows, row: usize, column: usize) -> Option<&'r Cell> {
        rows.get(&row)?.get(&column)
    }
}

fn no_cells() -> Error {
    Error::input("the sheet has no values").with_code("22000").with_hint("sheet = '…' chooses another one")
}

/// A column of the narrowest type for all of its values, text if they have several or if there are none.
fn array_of(values: &[Option<&Cell>], all_text: bool) -> ArrayRef {
    let seen = || values.iter().flatten().filter(|cell| !matches!(cell, Cell::Error(_)));
    let all = |is_one: fn(&Cell) -> bool| !all_text && seen().next().is_some() && seen().all(|cell| is_one(cell));
    if all(|cell| matches!(cell, Cell::Number(_))) {
        let of = |cell: &Option<&Cell>| if let Some(Cell::Number(number)) = cell { Some(*number) } else { None };
        return Arc::new(values.iter().map(of).collect::<Float64Array>());
    }
    if all(|cell| matches!(cell, Cell::Truth(_))) {
        let of = |cell: &Option<&Cell>| if let Some(Cell::Truth(truth)) = cell { Some(*truth) } else { None };
        return Arc::new(values.iter().map(of).collect::<BooleanArray>());
    }
    if all(|cell| matches!(cell, Cell::Date(_))) {
        let of = |cell: &Option<&Cell>| if let Some(Cell::Date(days)) = cell { Some(*days) } else { None };
        return Arc::new(values.iter().map(of).collect::<Date32Array>());
    }
    if all(|cell| matches!(cell, Cell::Time(_))) {
        let of = |cell: &Option<&Cell>| if let Some(Cell::Time(micros)) = cell { Some(*micros) } else { None };
        return Arc::new(values.iter().map(of).collect::<Time64MicrosecondArray>());
    }
    if all(|cell| matches!(cell, Cell::Timestamp(_) | Cell::Date(_))) {
        let of = |cell: &Option<&Cell>| match cell {
            Some(Cell::Timestamp(micros)) => Some(*micros),
            Some(Cell::Date(days)) => Some(i64::from(*days) * DAY_US),
            _ => None,
        };
        return Arc::new(values.iter().map(of).collect::<TimestampMicrosecondArray>());
    }
    let of = |cell: &Option<&Cell>| match cell {
        Some(Cell::Error(_)) if !all_text => None,
        cell => cell.map(text_of),
    };
    Arc::new(values.iter().map(of).collect::<StringViewArray>())
}

const DAY_US: i64 = 86_400_000_000;

/// A cell as text.
fn text_of(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Text(text) | Cell::Error(text) => text.clone(),
        Cell::Truth(truth) => truth.to_string(),
        Cell::Date(days) => date32_to_datetime(*days).map_or_else(String::new, |date| date.date().to_string()),
        Cell::Time(micros) => time64us_to_time(*micros).map_or_else(String::new, |time| time.to_string()),
        Cell::Timestamp(micros) => timestamp_us_to_datetime(*micros).map_or_else(String::new, |at| at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use super::*;

    /// A zip archive of files that are not packed.
    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for (name, content) in files {
            let start = bytes.len() as u32;
            let (length, checksum) = (content.len() as u32, crc32fast::hash(content.as_bytes()));
            let mut sizes = checksum.to_le_bytes().to_vec();
            sizes.extend(length.to_le_bytes());
            sizes.extend(length.to_le_bytes());
            sizes.extend((name.len() as u16).to_le_bytes());
            sizes.extend([0, 0]);
            bytes.extend(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
            bytes.extend(&sizes);
            bytes.extend(name.as_bytes());
            bytes.extend(content.as_bytes());
            entries.extend(b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0");
            entries.extend(&sizes);
            entries.extend([0; 10]);
            entries.extend(start.to_le_bytes());
            entries.extend(name.as_bytes());
        }
        let (start, count) = (bytes.len() as u32, files.len() as u16);
        let length = entries.len() as u32;
        bytes.extend(entries);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend(count.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    /// A spreadsheet with a sheet `Data` of these rows and an empty one, `Rest`.
    fn book(rows: &str) -> Vec<u8> {
        let sheet = format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
        archive(&[
            (
                "xl/workbook.xml",
                "<workbook><sheets><sheet name=\"Data\" r:id=\"a\"/><sheet name=\"Rest\" r:id=\"b\"/>\
                 </sheets></workbook>",
            ),
            (
                "xl/_rels/workbook.xml.rels",
                "<Relationships><Relationship Id=\"a\" Target=\"sheets/1.xml\" Type=\"x/worksheet\"/>\
                 <Relationship Id=\"b\" Target=\"/xl/sheets/2.xml\" Type=\"x/worksheet\"/>\
                 <Relationship Id=\"c\" Target=\"styles.xml\" Type=\"x/styles\"/>\
                 <Relationship Id=\"d\" Target=\"texts.xml\" Type=\"x/sharedStrings\"/></Relationships>",
            ),
            (
                "xl/styles.xml",
                "<styleSheet><numFmts><numFmt numFmtId=\"164\" formatCode=\"yyyy-mm-dd\"/></numFmts>\
                 <cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"164\"/><xf numFmtId=\"22\"/></cellXfs></styleSheet>",
            ),
            (
                "xl/texts.xml",
                "<sst><si><t>name</t></si><si><r><t>An</t></r><r><t>n &amp; </t></r><r><t>Co</t></r></si></sst>",
            ),
            ("xl/sheets/1.xml", &sheet),
            ("xl/sheets/2.xml", "<worksheet><sheetData/></worksheet>"),
        ])
    }

    fn texts(batch: &RecordBatch) -> Vec<String> {
        let names = batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join("|");
        let rows = (0..batch.num_rows()).map(|row| {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            values.collect::<Vec<_>>().join("|")
        });
        std::iter::once(names).chain(rows).collect()
    }

    const ROWS: &str = "<row r=\"2\"><c r=\"B2\" t=\"s\"><v>0</v></c>\
        <c r=\"C2\" t=\"inlineStr\"><is><t>day</t></is></c>\
        <c r=\"D2\" t=\"str\"><v>n</v></c><c r=\"E2\" t=\"str\"><v>n</v></c></row>\
        <row r=\"3\"><c r=\"B3\" t=\"s\"><v>1</v></c><c r=\"C3\" s=\"1\"><v>45322</v></c><c r=\"D3\"><v>1.5</v></c>\
        <c r=\"E3\" t=\"b\"><v>1</v></c></row>\
        <row r=\"4\"><c r=\"B4\"><v>7</v></c><c r=\"C4\" s=\"2\"><v>45322.5</v></c><c r=\"D4\" s=\"0\"/></row>\
        <row r=\"6\"><c r=\"B6\" t=\"str\"><v>sum</v></c></row>";

    #[test]
    fn a_block_of_cells_is_rows() {
        let read = |options: SheetOptions| sheet_rows(book(ROWS), &options).map(|batch| texts(&batch));
        assert_eq!(
            read(SheetOptions::default()).unwrap(),
            ["name|day|n|n_1", "Ann & Co|2024-01-31T00:00:00|1.5|true", "7|2024-01-31T12:00:00||"]
        );
        let range = |range: &str| SheetOptions { range: Some(range.to_owned()), ..SheetOptions::default() };
        assert_eq!(read(range("C3:D3")).unwrap(), ["C3|D3", "2024-01-31|1.5"]);
        assert_eq!(read(range("B2:B6")).unwrap(), ["name", "Ann & Co", "7", "", "sum"]);
        assert_eq!(read(SheetOptions { header: Some(false), ..range("D2:D4") }).unwrap(), ["D2", "n", "1.5", ""]);
        assert_eq!(read(SheetOptions { all_text: true, ..range("C3:C3") }).unwrap(), ["C3", "2024-01-31"]);
        for wrong in ["A", "C3:B2", "1:2"] {
            assert_eq!(read(range(wrong)).unwrap_err().code(), Some("22023"), "{wrong}");
        }
        let sheet = |name: &str| SheetOptions { sheet: Some(name.to_owned()), ..SheetOptions::default() };
        assert_eq!(read(sheet("none")).unwrap_err().code(), Some("22023"));
        assert_eq!(read(sheet("rest")).unwrap_err().message(), "the sheet has no values");
    }

    #[test]
    fn formulas_that_failed_are_errors() {
        let rows =
            "<row><c t=\"str\"><v>x</v></c></row><row><c t=\"e\"><v>#N/A</v></c></row><row><c><v>2</v></c></row>";
        let error = sheet_rows(book(rows), &SheetOptions::default()).unwrap_err();
        assert_eq!(error.message(), "the cell A2 has the error #N/A");
        let options = SheetOptions { ignore_errors: true, ..SheetOptions::default() };
        assert_eq!(texts(&sheet_rows(book(rows), &options).unwrap()), ["x", "", "2.0"]);
    }

    #[test]
    fn damaged_spreadsheets_are_errors() {
        let whole = book(ROWS);
        for length in (0..whole.len()).step_by(37) {
            assert!(sheet_rows(whole[..length].to_vec(), &SheetOptions::default()).is_err());
        }
        for at in (0..whole.len()).step_by(11) {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            // Whatever it gives, it does not panic.
            drop(sheet_rows(changed, &SheetOptions::default()));
        }
    }
}
