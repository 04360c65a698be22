//! COPY … FROM STDIN: rows read from lines of text or CSV, or from the binary form.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray, StringViewBuilder, new_null_array,
};
use arrow::compute::{concat, filter};
use arrow::datatypes::{Field, Schema, SchemaRef};
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_db::postgres::field_type;
use diligence_db::{ReadOptions, SqlType, Zone, parse_array};

use crate::encoding::columns::Form;
use crate::encoding::copy::{BINARY_HEADER, CopyFormat, CopyOptions, Verbosity};
use crate::encoding::parameters::{convert, moment, value};

/// Bytes that a row of a COPY may have at most: they are in memory before it is read.
pub const ROW_BYTES_MAX: usize = 1 << 30;

/// Bytes of rows that are read before they make a batch, unless it has its number of rows before.
const BATCH_BYTES: usize = 1 << 20;

/// What does not begin as the binary form does.
const NO_SIGNATURE: &str = "COPY file signature not recognized";

/// Reads rows of a COPY … FROM STDIN, whose bytes come in pieces of any size.
pub struct CopyDecoder {
    options: CopyOptions,
    /// The name of the table, for what is told of a row.
    table: String,
    schema: SchemaRef,
    /// The types of the columns.
    types: Vec<SqlType>,
    /// In which dates are read.
    zone: Zone,
    /// When it began: what `now` means in its rows.
    now: i64,
    /// Bytes of a row that has not ended.
    pending: Vec<u8>,
    /// Fields as text; in binary form arrays of one row.
    texts: Vec<StringViewBuilder>,
    values: Vec<Vec<ArrayRef>>,
    rows: usize,
    /// Bytes of the rows that are no batch yet.
    bytes: usize,
    /// The lines at which they end.
    lines: Vec<u64>,
    batches: Vec<RecordBatch>,
    line: u64,
    /// Where reading has failed.
    place: Option<String>,
    started: bool,
    ended: bool,
    /// Rows that were left out, and what is to be said of each.
    skipped: u64,
    notes: Vec<String>,
}

impl CopyDecoder {
    /// With dates in this zone, and in its style.
    pub fn in_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// For rows of a table with these columns.
    pub fn new(options: CopyOptions, table: &str, schema: SchemaRef) -> Self {
        let texts = schema.fields().iter().map(|_| StringViewBuilder::new()).collect();
        let values = schema.fields().iter().map(|_| Vec::new()).collect();
        let types = schema.fields().iter().map(|field| SqlType::of_field(field).unwrap_or(SqlType::Text)).collect();
        Self {
            options,
            table: table.to_owned(),
            schema,
            types,
            zone: Zone::UTC,
            now: moment(),
            pending: Vec::new(),
            texts,
            values,
            rows: 0,
            bytes: 0,
            lines: Vec::new(),
            batches: Vec::new(),
            line: 0,
            place: None,
            started: false,
            ended: false,
            skipped: 0,
            notes: Vec::new(),
        }
    }

    /// Where reading has failed: `COPY t, line 2, column c: "x"`.
    pub fn place(&mut self) -> Option<String> {
        self.place.take()
    }

    /// Rows that were left out so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What is to be said of rows that were left out since this was asked.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Takes bytes, with `is_end` the last ones, and gives the rows that are complete, as far as they make batches.
    /// Fails with PostgreSQL's code on what is no row or no value, with kind `Resource` on a row of too many bytes.
    pub fn feed(&mut self, bytes: &[u8], is_end: bool) -> Result<Vec<RecordBatch>> {
        let mut pending = std::mem::take(&mut self.pending);
        let is_text = self.options.format != CopyFormat::Binary;
        match is_text {
            true => pending.extend_from_slice(&self.options.characters.as_utf8(bytes)),
            false => pending.extend_from_slice(bytes),
        }
        // The last row may come without its line end.
        if is_end && is_text && !pending.is_empty() && !pending.ends_with(b"\n") {
            pending.push(b'\n');
        }
        let read = self.read(&pending)?;
        pending.drain(..read);
        if pending.len() > ROW_BYTES_MAX {
            let error = Error::resource(format!("a row of a COPY has at most {ROW_BYTES_MAX} bytes"));
            return Err(error.with_code("54000"));
        }
        self.pending = pending;
        if is_end {
            match (is_text, self.pending.is_empty()) {
                (true, false) => {
                    self.line += 1;
                    let rest = std::mem::take(&mut self.pending);
                    return Err(self.wrong("unterminated CSV quoted field", Some(&rest)));
                }
                // The mark behind the rows may be left out, as pgx does.
                (false, is_all) if !is_all || !self.started => {
                    let what = if self.started { "unexpected EOF in COPY data" } else { NO_SIGNATURE };
                    return Err(self.wrong(what, None));
                }
                _ => self.complete_batch()?,
            }
        }
        Ok(std::mem::take(&mut self.batches))
    }

    /// Reads all rows that are whole; gives how many bytes they have.
    fn read(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.options.format == CopyFormat::Binary {
            return self.read_binary(bytes);
        }
        let mut at = 0;
        while let Some(end) = self.row_end(&bytes[at..]) {
            let line = &bytes[at..at + end];
            at += end + 1;
            self.line += 1;
            if self.ended {
                continue;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line == b"\\." {
                self.ended = true;
                continue;
            }
            let is_header = self.options.header && self.line == 1;
            // Lines within a row count, too.
            self.line += line.iter().filter(|byte| **byte == b'\n').count() as u64;
            if is_header && !self.options.header_matches {
                continue;
            }
            let fields = match self.options.format {
                CopyFormat::Csv => self.csv_fields(line)?,
                _ => self.text_fields(line)?,
            };
            match is_header {
                true => self.check_header(&fields)?,
                false => self.push(fields, line)?,
            }
        }
        Ok(at)
    }

    /// Fails with code 22P04 unless the first line has the columns' names.
    fn check_header(&self, fields: &[Option<Vec<u8>>]) -> Result<()> {
        let names = self.schema.fields();
        let wrong = |message: String| Err(Error::value(message).with_code("22P04"));
        if fields.len() != names.len() {
            let (found, wanted) = (fields.len(), names.len());
            return wrong(format!("wrong number of fields in header line: got {found}, expected {wanted}"));
        }
        for (place, (field, wanted)) in fields.iter().zip(names).enumerate() {
            let found = match field {
                Some(name) if name == wanted.name().as_bytes() => continue,
                Some(name) => format!("\"{}\"", String::from_utf8_lossy(name)),
                None => format!("null value (\"{}\")", self.options.null),
            };
            let (place, wanted) = (place + 1, wanted.name());
            let text = format!("column name mismatch in header line field {place}: got {found}, expected \"{wanted}\"");
            return wrong(text);
        }
        Ok(())
    }

    /// Where the first row ends: its line end, which in CSV is the first outside of quotes.
    fn row_end(&self, bytes: &[u8]) -> Option<usize> {
        if self.options.format != CopyFormat::Csv {
            return bytes.iter().position(|byte| *byte == b'\n');
        }
        let mut inside = false;
        let mut escaped = false;
        for (index, byte) in bytes.iter().enumerate() {
            if escaped {
                escaped = false;
            } else if inside && self.options.escape != self.options.quote && *byte == self.options.escape {
                escaped = true;
            } else if *byte == self.options.quote {
                inside = !inside;
            } else if *byte == b'\n' && !inside {
                return Some(index);
            }
        }
        None
    }

    fn text_fields(&self, line: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut fields = Vec::with_capacity(self.schema.fields().len());
        let mut field = Vec::new();
        let mut raw = 0;
        let mut at = 0;
        loop {
            let byte = line.get(at).copied();
            if byte.is_none() || byte == Some(self.options.delimiter) {
                let is_null = &line[raw..at] == self.options.null.as_bytes();
                fields.push((!is_null).then(|| std::mem::take(&mut field)));
                field.clear();
                raw = at + 1;
                if byte.is_none() {
                    return Ok(fields);
                }
            } else if byte == Some(b'\\') && at + 1 < line.len() {
                at += 1;
                let (value, bytes) = escaped(&line[at..]);
                field.push(value);
                at += bytes - 1;
            } else {
                field.extend(byte);
            }
            at += 1;
        }
    }

    fn csv_fields(&self, line: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        let options = &self.options;
        let mut fields = Vec::with_capacity(self.schema.fields().len());
        let (mut field, mut quoted, mut inside) = (Vec::new(), false, false);
        let mut at = 0;
        loop {
            let byte = line.get(at).copied();
            match byte {
                Some(byte) if inside => {
                    let next = line.get(at + 1).copied();
                    if byte == options.escape && (next == Some(options.quote) || next == Some(options.escape)) {
                        field.extend(next);
                        at += 1;
                    } else if byte == options.quote {
                        inside = false;
                    } else {
                        field.push(byte);
                    }
                }
                Some(byte) if byte == options.quote => (quoted, inside) = (true, true),
                Some(byte) if byte != options.delimiter => field.push(byte),
                ended => {
                    let name = self.schema.fields().get(fields.len()).map_or("", |field| field.name().as_str());
                    let is_quoted = quoted && !options.force_null.has(name);
                    let is_null = !is_quoted && field == options.null.as_bytes() && !options.force_not_null.has(name);
                    fields.push((!is_null).then(|| std::mem::take(&mut field)));
                    field.clear();
                    quoted = false;
                    if ended.is_none() {
                        return Ok(fields);
                    }
                }
            }
            at += 1;
        }
    }

    fn push(&mut self, fields: Vec<Option<Vec<u8>>>, line: &[u8]) -> Result<()> {
        if let Some(missing) = self.schema.fields().get(fields.len()) {
            let what = format!("missing data for column \"{}\"", missing.name());
            return Err(self.wrong(what, Some(line)));
        }
        if fields.len() > self.texts.len() {
            return Err(self.wrong("extra data after last expected column", Some(line)));
        }
        self.bytes += fields.iter().flatten().map(Vec::len).sum::<usize>();
        for (index, field) in fields.into_iter().enumerate() {
            match field {
                None => self.texts[index].append_null(),
                Some(bytes) if bytes.contains(&0) => {
                    let what = "invalid byte sequence for encoding \"UTF8\": 0x00";
                    return Err(self.wrong(what, None).with_code("22021"));
                }
                Some(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => self.texts[index].append_value(text),
                    Err(error) => {
                        let invalid = &error.as_bytes()[error.utf8_error().valid_up_to()..];
                        let bytes = invalid.iter().take(error.utf8_error().error_len().unwrap_or(invalid.len()).max(1));
                        let bytes = bytes.map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(" ");
                        let what = format!("invalid byte sequence for encoding \"UTF8\": {bytes}");
                        return Err(self.wrong(what, None).with_code("22021"));
                    }
                },
            }
        }
        self.rows += 1;
        self.lines.push(self.line);
        if self.is_batch() { self.complete_batch() } else { Ok(()) }
    }

    fn read_binary(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut at = 0;
        if !self.started {
            if bytes.len() < BINARY_HEADER.len() {
                return Ok(0);
            }
            if bytes[..11] != BINARY_HEADER[..11] || bytes[15..19] != [0; 4] {
                return Err(self.wrong(NO_SIGNATURE, None));
            }
            self.started = true;
            at = BINARY_HEADER.len();
        }
        if self.ended && !bytes.is_empty() {
            return Err(self.wrong("received copy data after EOF marker", None));
        }
        loop {
            let Some(count) = bytes.get(at..at + 2) else { return Ok(at) };
            let count = i16::from_be_bytes([count[0], count[1]]);
            if count == -1 {
                self.ended = true;
                return Ok(at + 2);
            }
            if usize::try_from(count) != Ok(self.values.len()) {
                self.line += 1;
                let what = format!("row field count is {count}, expected {}", self.values.len());
                return Err(self.wrong(what, None));
            }
            let mut fields = Vec::with_capacity(self.values.len());
            let mut next = at + 2;
            for _ in 0..count {
                let Some(length) = bytes.get(next..next + 4) else { return Ok(at) };
                let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
                next += 4;
                let Ok(length) = usize::try_from(length) else {
                    fields.push(None);
                    continue;
                };
                let Some(field) = bytes.get(next..next.saturating_add(length)) else { return Ok(at) };
                fields.push(Some(field));
                next += length;
            }
            self.line += 1;
            for (index, field) in fields.into_iter().enumerate() {
                let read = match field {
                    None => Ok(new_null_array(&self.types[index].arrow(), 1)),
                    Some(field) => self.value_of_binary(index, field),
                };
                let read = read.inspect_err(|_| {
                    let column = self.schema.field(index).name();
                    self.place = Some(format!("COPY {}, line {}, column {column}", self.table, self.line));
                });
                self.values[index].push(read?);
            }
            self.bytes += next - at;
            at = next;
            self.rows += 1;
            if self.is_batch() {
                self.complete_batch()?;
            }
        }
    }

    fn is_batch(&self) -> bool {
        self.rows >= BATCH_ROWS_MAX || self.bytes >= BATCH_BYTES
    }

    fn complete_batch(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        let lines = std::mem::take(&mut self.lines);
        let (mut arrays, kept) = if self.options.format == CopyFormat::Binary {
            let columns = self.values.iter_mut().map(|values| {
                concat(&std::mem::take(values).iter().map(AsRef::as_ref).collect::<Vec<_>>())
                    .map_err(|error| Error::value(format!("COPY: {error}")))
            });
            (columns.collect::<Result<Vec<_>>>()?, vec![])
        } else {
            let texts = self.texts.iter_mut().map(StringViewBuilder::finish).collect::<Vec<_>>();
            match self.options.ignores_errors {
                true => self.readable(&texts, &lines)?,
                false => (self.typed(&texts, &lines)?, vec![]),
            }
        };
        // The rows that stay, where others are left out.
        if kept.contains(&false) {
            let kept = BooleanArray::from(kept);
            let chosen = arrays.iter().map(|array| filter(array, &kept)).collect::<Result<Vec<_>, _>>();
            arrays = chosen.map_err(|error| Error::bug(format!("COPY: {error}")))?;
        }
        let fields = self.schema.fields().iter().zip(&arrays);
        let fields = fields.map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, arrays).map_err(|error| Error::bug(format!("COPY: {error}")))?;
        self.batches.push(batch);
        Ok(())
    }

    /// A row, which ends at a line, is left out for the text of a column.
    fn leave_out(&mut self, column: usize, line: u64, text: &str) {
        self.skipped += 1;
        if self.options.verbosity == Verbosity::Verbose {
            let (column, text) = (self.schema.field(column).name(), text.chars().take(100).collect::<String>());
            self.notes.push(format!(
                "skipping row due to data type incompatibility at line {line} for column \"{column}\": \"{text}\""
            ));
        }
    }

    /// Texts as values. Fails as reading the first of them does that is none, and remembers where that is.
    fn typed(&mut self, texts: &[StringViewArray], lines: &[u64]) -> Result<Vec<ArrayRef>> {
        let options = self.reading();
        let columns = texts.iter().zip(&self.types);
        let read = columns.map(|(texts, sql_type)| parse_array(texts, sql_type, &options)).collect::<Result<Vec<_>>>();
        let error = match read {
            Ok(arrays) => return Ok(arrays),
            Err(error) => error,
        };
        // The first in the order of rows, as they would be read one by one.
        let mut first: Option<(usize, usize, Error)> = None;
        for (column, (texts, sql_type)) in texts.iter().zip(&self.types).enumerate() {
            let until = first.as_ref().map_or(texts.len(), |(row, ..)| *row);
            let of_row = |row| Some((row, parse_array(&texts.slice(row, 1), sql_type, &options).err()?));
            if let Some((row, error)) = (0..until).find_map(of_row) {
                first = Some((row, column, error));
            }
        }
        let Some((row, column, error)) = first else { return Err(error) };
        let line = lines.get(row).copied().unwrap_or(self.line);
        let name = self.schema.field(column).name();
        let value = match texts[column].is_valid(row) {
            true => format!("\"{}\"", cut(texts[column].value(row))),
            false => "null input".to_owned(),
        };
        self.place = Some(format!("COPY {}, line {line}, column {name}: {value}", self.table));
        Err(error)
    }

    /// Texts as values, and which rows stay: those of which all texts are values.
    fn readable(&mut self, texts: &[StringViewArray], lines: &[u64]) -> Result<(Vec<ArrayRef>, Vec<bool>)> {
        let options = ReadOptions { is_try: true, ..self.reading() };
        let mut kept = vec![true; texts.first().map_or(0, |texts| texts.len())];
        let mut arrays = Vec::with_capacity(texts.len());
        for (column, texts) in texts.iter().enumerate() {
            let array = parse_array(texts, &self.types[column], &options)?;
            for (row, kept) in kept.iter_mut().enumerate() {
                if *kept && texts.is_valid(row) && array.is_null(row) {
                    *kept = false;
                    self.leave_out(column, lines.get(row).copied().unwrap_or(self.line), texts.value(row));
                }
            }
            arrays.push(array);
        }
        Ok((arrays, kept))
    }

    /// A value of a column from its binary form.
    fn value_of_binary(&self, column: usize, bytes: &[u8]) -> Result<ArrayRef> {
        let sql_type = &self.types[column];
        let number = field_type(self.schema.field(column)).oid;
        let read = value(Some(bytes), number, Form::Binary, sql_type, self.zone)?;
        match read.as_string_view_opt() {
            // What a text must be to be one of the column's values.
            Some(texts) => parse_array(texts, sql_type, &self.reading()),
            None if *read.data_type() == sql_type.arrow() => Ok(read),
            None => convert(&read, &sql_type.arrow()),
        }
    }

    /// How texts are read: those that are too long for a column are refused.
    fn reading(&self) -> ReadOptions {
        ReadOptions { zone: self.zone, now: Some(self.now), is_explicit: false, is_try: false }
    }

    /// An error of the line that is read, of which `shown` is told.
    fn wrong(&mut self, what: impl Into<String>, shown: Option<&[u8]>) -> Error {
        let shown = shown.map(|line| format!(": \"{}\"", cut(&String::from_utf8_lossy(line))));
        let place = format!("COPY {}, line {}{}", self.table, self.line, shown.unwrap_or_default());
        self.place = (self.line > 0).then_some(place);
        Error::value(what).with_code("22P04")
    }
}

/// A text as it is shown: of a long one, the beginning.
fn cut(text: &str) -> String {
    const BYTES_MAX: usize = 100;
    if text.len() <= BYTES_MAX {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(BYTES_MAX)])
}

/// The byte that stands behind a backslash, and in how many bytes it is written: `n`, `x4A`, `112`.
fn escaped(text: &[u8]) -> (u8, usize) {
    let digits = |from: usize, most: usize, base: u32| {
        let digits = text[from.min(text.len())..].iter().take(most);
        digits.map_while(|byte| char::from(*byte).to_digit(base)).collect::<Vec<_>>()
    };
    // Of three octal digits the lowest eight bits count.
    let value = |digits: &[u32], base: u32| digits.iter().fold(0, |value, digit| value * base + digit) as u8;
    match text[0] {
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'b' => (8, 1),
        b'v' => (11, 1),
        b'f' => (12, 1),
        b'x' => match digits(1, 2, 16) {
            none if none.is_empty() => (b'x', 1),
            digits => (value(&digits, 16), 1 + digits.len()),
        },
        b'0'..=b'7' => {
            let digits = digits(0, 3, 8);
            (value(&digits, 8), digits.len())
        }
        other => (other, 1),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::encoding::columns::Columns;
    use crate::encoding::copy::tests::{options, schema};
    use crate::encoding::copy::{CopyEncoder, Framing};

    #[test]
    fn what_is_written_is_read_back_in_every_format_and_in_pieces_of_any_size() {
        let texts = [Some("a\tb,\"c\"\\"), None, Some(""), Some("two\nlines"), Some("\\N"), Some("\\.")];
        let numbers: ArrayRef =
            Arc::new(arrow::array::Int64Array::from(vec![Some(1), None, Some(-3), Some(4), Some(5), Some(6)]));
        let batch = RecordBatch::try_new(schema(), vec![numbers, Arc::new(StringViewArray::from_iter(texts))]).unwrap();
        for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
            let encoder = CopyEncoder::new(options(format));
            let form = if format == CopyFormat::Binary { Form::Binary } else { Form::Text };
            let rows = Columns::all(&schema(), form).rows(&batch).unwrap();
            let mut out = encoder.header(&schema());
            encoder.rows(&rows, 0, usize::MAX, Framing::None, &mut BytesMut::new(), &mut out);
            if format == CopyFormat::Binary {
                let read = |bytes: &[u8]| CopyDecoder::new(options(format), "t", schema()).feed(bytes, true);
                assert_eq!(read(&out).unwrap(), std::slice::from_ref(&batch), "without a mark at the end");
                for wrong in [&out[..out.len() - 1], &[&out[..], b"\xff\xff", b"\0\x02"].concat()] {
                    assert_eq!(read(wrong).unwrap_err().code(), Some("22P04"), "{wrong:?}");
                }
            }
            out.extend(encoder.trailer().into_iter().flatten());
            for size in [1, 3, 1000] {
                let mut decoder = CopyDecoder::new(options(format), "t", schema());
                let pieces = out.chunks(size).chain([&[][..]]).collect::<Vec<_>>();
                let last = pieces.len() - 1;
                let read = pieces
                    .into_iter()
                    .enumerate()
                    .flat_map(|(index, piece)| decoder.feed(piece, index == last).unwrap());
                let read = read.collect::<Vec<_>>();
                assert_eq!(read, std::slice::from_ref(&batch), "{format:?} in pieces of {size}");
            }
        }
    }

    /// What PostgreSQL 15 says of the same lines.
    #[test]
    fn mistakes_name_their_line() {
        let failed = |format, data: &[u8]| {
            let mut decoder = CopyDecoder::new(options(format), "t", schema());
            let error = decoder.feed(data, true).unwrap_err();
            (error.code().unwrap_or_default(), error.message().to_owned(), decoder.place().unwrap_or_default())
        };
        let long = format!("1\ta\n{}\tb\n", "x".repeat(120));
        let of_long = format!("invalid input syntax for type bigint: \"{}\"", "x".repeat(120));
        let place_of_long = format!("COPY t, line 2, column number: \"{}...\"", "x".repeat(100));
        for (format, data, code, message, place) in [
            (
                CopyFormat::Text,
                "1\ta\n2\tb\tc\n",
                "22P04",
                "extra data after last expected column",
                "COPY t, line 2: \"2\tb\tc\"",
            ),
            (CopyFormat::Text, "1\ta\n2\n", "22P04", "missing data for column \"text\"", "COPY t, line 2: \"2\""),
            (
                CopyFormat::Text,
                "1\ta\n\\N\tb\nabc\tc\nx\td\n",
                "22P02",
                "invalid input syntax for type bigint: \"abc\"",
                "COPY t, line 3, column number: \"abc\"",
            ),
            (
                CopyFormat::Text,
                "\ta\n",
                "22P02",
                "invalid input syntax for type bigint: \"\"",
                "COPY t, line 1, column number: \"\"",
            ),
            (
                CopyFormat::Text,
                "9223372036854775808\ta\n",
                "22003",
                "value \"9223372036854775808\" is out of range for type bigint",
                "COPY t, line 1, column number: \"9223372036854775808\"",
            ),
            (CopyFormat::Text, long.as_str(), "22P02", of_long.as_str(), place_of_long.as_str()),
            (
                CopyFormat::Csv,
                "number,text\n1,\"two\nlines\"\nx,b\n",
                "22P02",
                "invalid input syntax for type bigint: \"x\"",
                "COPY t, line 4, column number: \"x\"",
            ),
            (
                CopyFormat::Csv,
                "number,text\n1,\"a\n",
                "22P04",
                "unterminated CSV quoted field",
                "COPY t, line 2: \"1,\"a\n\"",
            ),
            (CopyFormat::Binary, "xx", "22P04", "COPY file signature not recognized", ""),
        ] {
            let expected = (code, message.to_owned(), place.to_owned());
            assert_eq!(failed(format, data.as_bytes()), expected);
        }
        let (code, message, place) = failed(CopyFormat::Text, b"1\t\xff\n");
        assert_eq!((code, message.as_str()), ("22021", "invalid byte sequence for encoding \"UTF8\": 0xff"));
        assert_eq!(place, "COPY t, line 1");
    }

    #[test]
    fn values_are_those_of_the_columns_types() {
        let fields = ["varchar(3)", "date", "numeric(5,2)", "double precision", "uuid", "integer[]"];
        let types = fields.map(|name| SqlType::parse(name).unwrap());
        let fields = types.iter().enumerate().map(|(place, sql_type)| sql_type.field(&format!("c{place}"), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let read =
            |line: &str| CopyDecoder::new(options(CopyFormat::Text), "t", schema.clone()).feed(line.as_bytes(), true);
        let uuid = "A0EEBC999C0B4EF8BB6D6BB9BD380A11";
        let rows = read(&format!("abc  \tJanuary 8, 1999\t1e2\tinf\t{uuid}\t{{1,NULL}}\n")).unwrap();
        let shown = |column: usize| arrow::util::display::array_value_to_string(rows[0].column(column), 0).unwrap();
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(shown),
            ["abc", "1999-01-08", "100.00", "inf", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "[1, ]"]
        );
        for (line, code) in [
            ("abcd\t\\N\t\\N\t\\N\t\\N\t\\N\n", "22001"),
            ("a\t2020-02-30\t\\N\t\\N\t\\N\t\\N\n", "22008"),
            ("a\t\\N\t12345\t\\N\t\\N\t\\N\n", "22003"),
            ("a\t\\N\t\\N\t1e400\t\\N\t\\N\n", "22003"),
            ("a\t\\N\t\\N\t\\N\tx\t\\N\n", "22P02"),
            ("a\t\\N\t\\N\t\\N\t\\N\t{1,x}\n", "22P02"),
        ] {
            assert_eq!(read(line).unwrap_err().code(), Some(code), "{line}");
        }
    }

    #[test]
    fn bytes_are_written_as_numbers() {
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), "t", schema());
        let rows = decoder.feed(b"\\x31\\62\tx\\x\\xg\\101\\1012\\x4a\\xC3\\251\\9\n", true).unwrap();
        let text = rows[0].column(1).as_any().downcast_ref::<StringViewArray>().unwrap();
        assert_eq!(text.value(0), "xxxgAA2J\u{e9}9");
        assert_eq!(rows[0].column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap().value(0), 12);
        for (row, code) in
            [("1\t\\0\n", "22021"), ("1\t\\x00\n", "22021"), ("1\ta\0b\n", "22021"), ("1\t\\377\n", "22021")]
        {
            let mut decoder = CopyDecoder::new(options(CopyFormat::Text), "t", schema());
            assert_eq!(decoder.feed(row.as_bytes(), true).unwrap_err().code(), Some(code), "{row}");
        }
    }

    #[test]
    fn rows_make_batches_of_bounded_bytes_as_they_come() {
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), "t", schema());
        let row = format!("1\t{}\n", "x".repeat(100_000));
        let batches = (0..40).flat_map(|_| decoder.feed(row.as_bytes(), false).unwrap()).collect::<Vec<_>>();
        assert!(batches.len() >= 3 && batches.iter().all(|batch| batch.num_rows() <= 11));
        let rest = decoder.feed(b"", true).unwrap();
        assert_eq!(batches.iter().chain(&rest).map(RecordBatch::num_rows).sum::<usize>(), 40);
    }
}
