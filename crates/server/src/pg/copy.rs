//! COPY … FROM STDIN: rows read from lines of text or CSV, or from the binary form.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringViewArray, StringViewBuilder, new_null_array};
use arrow::compute::{concat, filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_db::postgres::column_type;
use diligence_db::{ReadOptions, SqlType, Zone, parse_array};

use crate::encoding::copy::{BINARY_HEADER, CopyFormat, CopyOptions, Verbosity};
use crate::encoding::parameters::{convert, from_binary, list_from_binary};

/// Bytes that a row of a COPY may have at most: they are in memory before it is read.
pub const ROW_BYTES_MAX: usize = 1 << 30;

/// Bytes of rows that are read before they make a batch, unless it has its number of rows before.
const BATCH_BYTES: usize = 1 << 20;

/// Characters of a text that messages show at most.
const SHOWN_MAX: usize = 100;

/// Reads rows of a COPY … FROM STDIN, whose bytes come in pieces of any size.
pub struct CopyDecoder {
    options: CopyOptions,
    schema: SchemaRef,
    /// The columns' types; `None` for one that SQL does not have.
    sql_types: Vec<Option<SqlType>>,
    /// What the table is called in messages.
    table: String,
    /// In which dates are read.
    zone: Zone,
    /// Bytes of a row that has not ended.
    pending: Vec<u8>,
    /// Fields as text; in binary form arrays of one row.
    texts: Vec<StringViewBuilder>,
    values: Vec<Vec<ArrayRef>>,
    rows: usize,
    /// Bytes of the rows that are no batch yet.
    bytes: usize,
    batches: Vec<RecordBatch>,
    line: u64,
    /// The line of the last row.
    row_line: u64,
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

    /// For a table of this name.
    pub fn of_table(self, table: &str) -> Self {
        Self { table: table.to_owned(), ..self }
    }

    /// For rows with these columns.
    pub fn new(options: CopyOptions, schema: SchemaRef) -> Self {
        let texts = schema.fields().iter().map(|_| StringViewBuilder::new()).collect();
        let values = schema.fields().iter().map(|_| Vec::new()).collect();
        let sql_types = schema.fields().iter().map(|field| Some(SqlType::of_field(field)?.base().clone())).collect();
        Self {
            options,
            schema,
            sql_types,
            table: String::new(),
            zone: Zone::UTC,
            pending: Vec::new(),
            texts,
            values,
            rows: 0,
            bytes: 0,
            batches: Vec::new(),
            line: 0,
            row_line: 0,
            started: false,
            ended: false,
            skipped: 0,
            notes: Vec::new(),
        }
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
    /// Fails with kind `Value` on what is no row, `Resource` on one of too many bytes.
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
                (true, false) => return Err(self.wrong("unterminated CSV quoted field")),
                (false, is_all) if !is_all || !self.ended => return Err(self.wrong("unexpected EOF in COPY data")),
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
            if is_header && !self.options.header_matches {
                continue;
            }
            let fields = match self.options.format {
                CopyFormat::Csv => self.csv_fields(line)?,
                _ => self.text_fields(line)?,
            };
            match is_header {
                true => self.check_header(&fields)?,
                false => self.push(fields)?,
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

    fn push(&mut self, fields: Vec<Option<Vec<u8>>>) -> Result<()> {
        if fields.len() > self.texts.len() {
            return Err(self.wrong("extra data after last expected column"));
        }
        if let Some(missing) = self.schema.fields().get(fields.len()) {
            return Err(self.wrong(&format!("missing data for column \"{}\"", missing.name())));
        }
        self.bytes += fields.iter().flatten().map(Vec::len).sum::<usize>();
        for (index, field) in fields.into_iter().enumerate() {
            match field {
                None => self.texts[index].append_null(),
                Some(bytes) if bytes.contains(&0) => {
                    return Err(self.wrong("invalid byte sequence for encoding \"UTF8\": 0x00").with_code("22021"));
                }
                Some(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => self.texts[index].append_value(text),
                    Err(error) => {
                        let first = error.as_bytes().get(error.utf8_error().valid_up_to()).copied().unwrap_or_default();
                        let text = format!("invalid byte sequence for encoding \"UTF8\": 0x{first:02x}");
                        return Err(self.wrong(&text).with_code("22021"));
                    }
                },
            }
        }
        self.rows += 1;
        self.row_line = self.line;
        if self.is_batch() { self.complete_batch() } else { Ok(()) }
    }

    fn read_binary(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut at = 0;
        if !self.started {
            if bytes.len() < BINARY_HEADER.len() {
                return Ok(0);
            }
            if bytes[..11] != BINARY_HEADER[..11] || bytes[15..19] != [0; 4] {
                return Err(self.wrong("COPY file signature not recognized"));
            }
            self.started = true;
            at = BINARY_HEADER.len();
        }
        loop {
            let Some(count) = bytes.get(at..at + 2) else { return Ok(at) };
            let count = i16::from_be_bytes([count[0], count[1]]);
            if count == -1 {
                self.ended = true;
                return Ok(at + 2);
            }
            if usize::try_from(count) != Ok(self.values.len()) {
                let text = format!("row field count is {count}, expected {}", self.values.len());
                return Err(self.wrong(&text));
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
                let wanted = self.schema.field(index).data_type().clone();
                let known = column_type(&wanted);
                let value = match field {
                    None => new_null_array(&wanted, 1),
                    Some(field) if known.is_array => {
                        let value = list_from_binary(field).and_then(|value| convert(&value, &wanted));
                        value.map_err(|error| self.place(error))?
                    }
                    Some(field) => {
                        let value = from_binary(field, known.element).map_err(|error| self.place(error))?;
                        arrow::compute::cast(&value, &wanted).map_err(|error| self.wrong(&error.to_string()))?
                    }
                };
                self.values[index].push(value);
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
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.texts.len());
        // The rows that stay, where others are left out.
        let mut kept: Option<Vec<bool>> = None;
        for index in 0..self.texts.len() {
            let array = if self.options.format == CopyFormat::Binary {
                let values = std::mem::take(&mut self.values[index]);
                concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())
                    .map_err(|error| Error::value(format!("COPY: {error}")))?
            } else {
                let texts = self.texts[index].finish();
                let (array, read) = self.typed(index, &texts, self.options.ignores_errors)?;
                if self.options.ignores_errors {
                    let kept = kept.get_or_insert_with(|| vec![true; texts.len()]);
                    for (row, kept) in kept.iter_mut().enumerate() {
                        if *kept && texts.is_valid(row) && read.is_null(row) {
                            *kept = false;
                            self.leave_out(index, texts.len() - row, texts.value(row));
                        }
                    }
                }
                array
            };
            arrays.push(array);
        }
        if let Some(kept) = kept.filter(|kept| kept.contains(&false)) {
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

    /// A row is left out for the text of a column; it is so many rows before the next one that comes.
    fn leave_out(&mut self, column: usize, before: usize, text: &str) {
        self.skipped += 1;
        if self.options.verbosity == Verbosity::Verbose {
            let line = (self.row_line + 1).saturating_sub(before as u64);
            let (column, text) = (self.schema.field(column).name(), text.chars().take(SHOWN_MAX).collect::<String>());
            self.notes.push(format!(
                "skipping row due to data type incompatibility at line {line} for column \"{column}\": \"{text}\""
            ));
        }
    }

    /// Texts of a column as they are sent on, and as values, which may be another form of them. Fails at the first that
    /// is no value or, with `is_try`, gives NULL for it.
    fn typed(&self, index: usize, texts: &StringViewArray, is_try: bool) -> Result<(ArrayRef, ArrayRef)> {
        let read = |texts: &StringViewArray, is_try: bool| match &self.sql_types[index] {
            Some(sql_type) => {
                let options = ReadOptions { zone: self.zone, is_explicit: false, is_try, ..ReadOptions::default() };
                parse_array(texts, sql_type, &options)
            }
            None => cast_texts(texts, self.schema.field(index).data_type(), is_try),
        };
        let values = read(texts, is_try).or_else(|error| {
            // Which of them it is.
            let tried = read(texts, true)?;
            match (0..texts.len()).find(|row| texts.is_valid(*row) && tried.is_null(*row)) {
                Some(row) => Err(self.at_value(error, index, texts.len() - row, texts.value(row))),
                None => Err(error),
            }
        })?;
        let is_sent_as_text = *self.schema.field(index).data_type() == DataType::Utf8View;
        let sent = if is_sent_as_text { Arc::new(texts.clone()) as ArrayRef } else { values.clone() };
        Ok((sent, values))
    }

    /// An error of the text of a column, so many rows before the next one that comes.
    fn at_value(&self, error: Error, column: usize, before: usize, text: &str) -> Error {
        let line = (self.row_line + 1).saturating_sub(before as u64);
        let mut shown = text.chars().take(SHOWN_MAX).collect::<String>();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        let place =
            format!("COPY {}, line {line}, column {}: \"{shown}\"", self.table, self.schema.field(column).name());
        let detail = match error.detail() {
            Some(detail) => format!("{detail} ({place})"),
            None => place,
        };
        error.with_detail(detail)
    }

    fn wrong(&self, what: &str) -> Error {
        let place = format!("COPY {}, line {}", self.table, self.line);
        Error::value(what).with_code("22P04").with_detail(place)
    }

    fn place(&self, error: Error) -> Error {
        error.context(format!("COPY, line {}", self.line))
    }
}

/// Texts as values of a type that SQL does not have; NULL for those that are none, with `is_try`.
fn cast_texts(texts: &StringViewArray, data_type: &DataType, is_try: bool) -> Result<ArrayRef> {
    let options = arrow::compute::CastOptions { safe: is_try, ..Default::default() };
    arrow::compute::cast_with_options(texts, data_type, &options)
        .map_err(|error| Error::value(error.to_string()).with_code("22P02"))
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
    use crate::encoding::columns::{Columns, Form};
    use crate::encoding::copy::{CopyEncoder, Framing};

    fn options(format: CopyFormat) -> CopyOptions {
        let csv = format == CopyFormat::Csv;
        CopyOptions {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".into() },
            header: csv,
            quote: b'"',
            escape: b'"',
            ..CopyOptions::default()
        }
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
        ]))
    }

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
            out.extend(encoder.trailer().into_iter().flatten());
            for size in [1, 3, 1000] {
                let mut decoder = CopyDecoder::new(options(format), schema());
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

    #[test]
    fn mistakes_name_their_line() {
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema()).of_table("t");
        let error = decoder.feed(b"1\ta\n2\tb\tc\n", false).unwrap_err();
        assert_eq!(error.message(), "extra data after last expected column");
        assert_eq!((error.code(), error.detail()), (Some("22P04"), Some("COPY t, line 2")));
        let mut decoder = CopyDecoder::new(options(CopyFormat::Csv), schema());
        assert!(decoder.feed(b"number,text\n1,\"open\n", false).unwrap().is_empty());
        assert!(decoder.feed(b"", true).unwrap_err().message().contains("quote"));
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema()).of_table("t");
        let error = decoder.feed(b"1\ta\nx\ta\n3\ta\n\\.\n", true).unwrap_err();
        assert_eq!(error.message(), "invalid input syntax for type bigint: \"x\"");
        assert_eq!((error.code(), error.detail()), (Some("22P02"), Some("COPY t, line 2, column number: \"x\"")));
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema());
        assert_eq!(decoder.feed(b"1\n", true).unwrap_err().message(), "missing data for column \"text\"");
    }

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let cases = [
            (SqlType::Integer, " 12 ", Ok("12")),
            (SqlType::Integer, "", Err(("22P02", "invalid input syntax for type integer: \"\""))),
            (SqlType::SmallInt, "70000", Err(("22003", "value \"70000\" is out of range for type smallint"))),
            (SqlType::Boolean, "ye", Ok("t")),
            (SqlType::Bytea, "a\\\\\\\\b", Ok("\\x615c62")),
            (SqlType::Varchar(Some(3)), "abc  ", Ok("abc")),
            (SqlType::Varchar(Some(3)), "abcd", Err(("22001", "value too long for type character varying(3)"))),
            (SqlType::Char(Some(2)), "abc", Err(("22001", "value too long for type character(2)"))),
            (SqlType::Numeric(Some((5, 2))), "1234", Err(("22003", "numeric field overflow"))),
            (SqlType::Date, "2024-13-45", Err(("22008", "date/time field value out of range: \"2024-13-45\""))),
            (SqlType::Uuid, "bad", Err(("22P02", "invalid input syntax for type uuid: \"bad\""))),
            (
                SqlType::array_of(SqlType::Integer),
                "{1,x}",
                Err(("22P02", "invalid input syntax for type integer: \"x\"")),
            ),
        ];
        for (sql_type, text, expected) in cases {
            let schema = Arc::new(Schema::new(vec![sql_type.field("a", true)]));
            let line = format!("{text}\n");
            let found = CopyDecoder::new(options(CopyFormat::Text), schema.clone()).feed(line.as_bytes(), true);
            match (found, expected) {
                (Ok(found), Ok(shown)) if *schema.field(0).data_type() != DataType::Utf8View => {
                    let printer = diligence_db::Printer::new(found[0].column(0), &sql_type, Zone::UTC).unwrap();
                    assert_eq!(printer.texts().value(0), shown, "{sql_type} {text}");
                }
                // Its end is cut off where it is stored.
                (Ok(found), Ok(shown)) => {
                    let texts = found[0].column(0).as_any().downcast_ref::<StringViewArray>().unwrap();
                    assert_eq!(texts.value(0).trim_end(), shown);
                }
                (Err(error), Err((code, message))) => {
                    assert_eq!((error.code(), error.message()), (Some(code), message), "{sql_type}");
                }
                (found, _) => panic!("{sql_type} {text}: {found:?}"),
            }
            // The same rows are left out where errors are ignored.
            let ignoring = CopyOptions { ignores_errors: true, ..options(CopyFormat::Text) };
            let mut decoder = CopyDecoder::new(ignoring, schema);
            let rows = decoder.feed(line.as_bytes(), true).unwrap();
            let rows = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
            assert_eq!((rows, decoder.skipped()), if expected.is_ok() { (1, 0) } else { (0, 1) }, "{sql_type} {text}");
        }
    }

    #[test]
    fn bytes_are_written_as_numbers() {
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema());
        let rows = decoder.feed(b"\\x31\\62\tx\\x\\xg\\101\\1012\\x4a\\xC3\\251\\9\n", true).unwrap();
        let text = rows[0].column(1).as_any().downcast_ref::<StringViewArray>().unwrap();
        assert_eq!(text.value(0), "xxxgAA2J\u{e9}9");
        assert_eq!(rows[0].column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap().value(0), 12);
        for (row, code) in
            [("1\t\\0\n", "22021"), ("1\t\\x00\n", "22021"), ("1\ta\0b\n", "22021"), ("1\t\\377\n", "22021")]
        {
            let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema());
            assert_eq!(decoder.feed(row.as_bytes(), true).unwrap_err().code(), Some(code), "{row}");
        }
    }

    #[test]
    fn rows_make_batches_of_bounded_bytes_as_they_come() {
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema());
        let row = format!("1\t{}\n", "x".repeat(100_000));
        let batches = (0..40).flat_map(|_| decoder.feed(row.as_bytes(), false).unwrap()).collect::<Vec<_>>();
        assert!(batches.len() >= 3 && batches.iter().all(|batch| batch.num_rows() <= 11));
        let rest = decoder.feed(b"", true).unwrap();
        assert_eq!(batches.iter().chain(&rest).map(RecordBatch::num_rows).sum::<usize>(), 40);
    }
}
