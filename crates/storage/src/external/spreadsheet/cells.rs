//! The cells of a sheet.

use std::collections::BTreeMap;

use diligence_base::{Error, Result};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::archive::damaged;
use super::workbook::{NumberKind, Workbook, attribute, referred, unescaped};

/// Columns of a sheet at most, as spreadsheets have them.
const COLUMNS_MAX: usize = 16_384;

/// Rows of a sheet at most, as spreadsheets have them.
const ROWS_MAX: usize = 1_048_576;

/// Cells of a sheet at most: they are in memory together.
pub(super) const CELLS_MAX: usize = 50_000_000;

/// Bytes of the texts of a sheet at most.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// What is in a cell. Times are in microseconds, dates in days since 1970.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Number(f64),
    Text(String),
    Truth(bool),
    Date(i32),
    Time(i64),
    Timestamp(i64),
    /// A formula has failed: `#N/A`.
    Error(String),
}

/// The cells that are not empty, by their rows and columns, from 0 on.
pub(super) type Rows = BTreeMap<usize, BTreeMap<usize, Cell>>;

/// A cell that is being read.
#[derive(Default)]
struct Open {
    row: usize,
    column: usize,
    kind: String,
    style: usize,
    value: String,
}

/// The cells of a sheet. Fails with kind `Input` if its XML makes no sense, `Resource` if there are too many.
pub(super) fn cells(text: &str, book: &Workbook) -> Result<Rows> {
    let mut rows = Rows::new();
    let (mut row, mut column, mut count, mut text_bytes) = (0usize, 0, 0, 0);
    let (mut open, mut is_value, mut is_beside) = (Open::default(), false, false);
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().map_err(|_| damaged())? {
            Event::Start(element) => match element.local_name().as_ref() {
                b"row" => {
                    row = attribute(&element, b"r")?
                        .and_then(|row| row.parse::<usize>().ok())
                        .unwrap_or_else(|| row.saturating_add(1));
                    column = 0;
                }
                b"c" => {
                    open = opened(&element, row.saturating_sub(1), column)?;
                    column = open.column + 1;
                }
                b"v" | b"t" => is_value = !is_beside,
                b"rPh" => is_beside = true,
                _ => {}
            },
            // Empty rows and cells count as well.
            Event::Empty(element) => match element.local_name().as_ref() {
                b"row" => {
                    row = attribute(&element, b"r")?
                        .and_then(|row| row.parse().ok())
                        .unwrap_or_else(|| row.saturating_add(1))
                }
                b"c" => column = opened(&element, row.saturating_sub(1), column)?.column + 1,
                _ => {}
            },
            Event::Text(more) if is_value => open.value.push_str(&more.xml10_content().map_err(|_| damaged())?),
            Event::CData(more) if is_value => open.value.push_str(&more.xml10_content().map_err(|_| damaged())?),
            Event::GeneralRef(reference) if is_value => open.value.push(referred(&reference)?),
            Event::End(element) => match element.local_name().as_ref() {
                b"c" => {
                    let (row, column) = (open.row, open.column);
                    if let Some(cell) = closed(std::mem::take(&mut open), book)? {
                        count += 1;
                        // Cells may name one text many times.
                        text_bytes += if let Cell::Text(text) = &cell { text.len() } else { 0 };
                        rows.entry(row).or_default().insert(column, cell);
                    }
                    if text_bytes > TEXT_BYTES_MAX {
                        let error = Error::resource(format!("the sheet has more than {TEXT_BYTES_MAX} bytes of text"));
                        return Err(error.with_code("54000"));
                    }
                    if count > CELLS_MAX {
                        let error = Error::resource(format!("the sheet has more than {CELLS_MAX} cells"));
                        return Err(error.with_code("54000"));
                    }
                }
                b"v" | b"t" => is_value = false,
                b"rPh" => is_beside = false,
                b"sheetData" => return Ok(rows),
                _ => {}
            },
            Event::Eof => return Ok(rows),
            _ => {}
        }
    }
}

/// The cell that an element begins, in this place unless it says another.
fn opened(element: &BytesStart<'_>, row: usize, column: usize) -> Result<Open> {
    let place = attribute(element, b"r")?.and_then(|place| place_of(&place));
    let (column, row) = place.and_then(|(column, row)| Some((column, row?))).unwrap_or((column, row));
    if column >= COLUMNS_MAX || row >= ROWS_MAX {
        return Err(damaged());
    }
    let style = attribute(element, b"s")?.and_then(|style| style.parse().ok()).unwrap_or(0);
    Ok(Open { row, column, kind: attribute(element, b"t")?.unwrap_or_default(), style, value: String::new() })
}

/// What is in a cell; `None` if it is empty.
fn closed(open: Open, book: &Workbook) -> Result<Option<Cell>> {
    let Open { kind, style, value, row, column } = open;
    let wrong = || Error::input(format!("the cell {} is damaged", name_of(column, row))).with_code("22000");
    Ok(match kind.as_str() {
        "s" => {
            let text =
                value.trim().parse::<usize>().ok().and_then(|number| book.texts.get(number)).ok_or_else(wrong)?;
            Some(Cell::Text(text.clone()))
        }
        "str" | "inlineStr" => Some(Cell::Text(unescaped(value))),
        _ if value.is_empty() => None,
        "b" => Some(Cell::Truth(matches!(value.trim(), "1" | "true"))),
        "e" => Some(Cell::Error(value)),
        "d" => Some(Cell::Text(value)),
        _ => {
            let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong)?;
            let kind = book.kinds.get(style).copied().unwrap_or(NumberKind::Number);
            Some(of_number(number, kind, book.counts_from_1904))
        }
    }
    .filter(|cell| !matches!(cell, Cell::Text(text) if text.is_empty())))
}

/// Days from the first day of a spreadsheet to 1970. Those of 1900 are one more from March 1 on, because spreadsheets
/// count a February 29 in that year.
const FROM_1900: i64 = 25_569;
const FROM_1904: i64 = 24_107;

/// Days that a spreadsheet has before this mistake.
const BEFORE_MARCH: f64 = 60.0;

/// Days up to the year 9999, after which spreadsheets have no dates.
const DAYS_MAX: f64 = 2_958_466.0;

const DAY_MS: f64 = 86_400_000.0;

/// A number as what it stands for. Numbers that are no dates stay numbers.
fn of_number(number: f64, kind: NumberKind, counts_from_1904: bool) -> Cell {
    let is_time = kind == NumberKind::Time && (0.0..1.0).contains(&number);
    if kind == NumberKind::Number || !(0.0..DAYS_MAX).contains(&number) {
        return Cell::Number(number);
    }
    // A spreadsheet keeps milliseconds; what is beyond them comes from rounding.
    let milliseconds = (number * DAY_MS).round() as i64;
    if is_time && milliseconds < DAY_MS as i64 {
        return Cell::Time(milliseconds * 1000);
    }
    let epoch = match counts_from_1904 {
        true => FROM_1904,
        false if number < BEFORE_MARCH => FROM_1900 - 1,
        false => FROM_1900,
    };
    let day = DAY_MS as i64;
    if kind == NumberKind::Date && milliseconds % day == 0 {
        return Cell::Date((milliseconds / day - epoch) as i32);
    }
    Cell::Timestamp((milliseconds - epoch * day) * 1000)
}

/// The column and the row of a place such as `AB12`, from 0 on; `AB` is a column without a row.
pub(super) fn place_of(place: &str) -> Option<(usize, Option<usize>)> {
    let place = place.replace('$', "");
    let digits = place.find(|letter: char| letter.is_ascii_digit()).unwrap_or(place.len());
    let (letters, row) = place.split_at(digits);
    let is_column = !letters.is_empty() && letters.len() <= 3 && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_column {
        return None;
    }
    let letters = letters.bytes().map(|byte| usize::from(byte.to_ascii_uppercase() - b'A') + 1);
    let column = letters.fold(0, |column, letter| column * 26 + letter) - 1;
    let row = match row {
        "" => None,
        row => Some(row.parse::<usize>().ok()?.checked_sub(1)?),
    };
    (column < COLUMNS_MAX && row.is_none_or(|row| row < ROWS_MAX)).then_some((column, row))
}

/// The name of a place: `AB12`.
pub(super) fn name_of(column: usize, row: usize) -> String {
    let (mut letters, mut rest) = (Vec::new(), column + 1);
    while rest > 0 {
        letters.push(b'A' + ((rest - 1) % 26) as u8);
        rest = (rest - 1) / 26;
    }
    letters.reverse();
    format!("{}{}", String::from_utf8_lossy(&letters), row + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_names() {
        for (name, column, row) in [("A1", 0, 0), ("Z3", 25, 2), ("AA10", 26, 9), ("XFD1", 16_383, 0)] {
            assert_eq!(place_of(name), Some((column, Some(row))));
            assert_eq!(name_of(column, row), name);
        }
        assert_eq!(place_of("B"), Some((1, None)));
        for wrong in ["", "1", "A0", "ABCD1", "A1B", "XFE1", "A1048577"] {
            assert_eq!(place_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_dates() {
        let date = |number| of_number(number, NumberKind::Date, false);
        assert_eq!(date(25_569.0), Cell::Date(0));
        assert_eq!(date(1.0), Cell::Date(-25_567));
        assert_eq!(date(61.0), Cell::Date(-25_508));
        assert_eq!(date(-1.0), Cell::Number(-1.0));
        assert_eq!(date(25_569.5), Cell::Timestamp(43_200_000_000));
        assert_eq!(of_number(0.0, NumberKind::Date, true), Cell::Date(-24_107));
        assert_eq!(of_number(0.25, NumberKind::Time, false), Cell::Time(21_600_000_000));
    }
}
