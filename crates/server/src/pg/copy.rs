//! COPY with the client: rows written as lines or in binary form, and read back from them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringViewArray, StringViewBuilder, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::{BufMut, BytesMut};
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_db::postgres::column_type;

use super::commands::{CopyFormat, CopyOptions};
use super::encode::{PLAIN, Rows};
use super::parameters::{from_binary, from_text};

/// What a binary COPY begins with: a signature, flags, and the length of an extension.
pub const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Bytes that one COPY may bring at most: they are all in memory before the table has them.
pub const COPY_BYTES_MAX: usize = 1 << 30;

/// Writes rows of a COPY … TO STDOUT.
pub struct CopyEncoder {
    options: CopyOptions,
    /// Whether numbers, dates and the like are written as they are: no character of theirs means something here.
    plain_as_is: bool,
    /// Letters that stand for a character after a backslash; zero for those that are written as they are.
    escapes: [u8; 256],
}

/// How rows follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One after the other.
    None,
    /// Each a CopyData message: drivers count on it.
    Messages,
}

impl CopyEncoder {
    /// For these options.
    pub fn new(options: CopyOptions) -> Self {
        let special: &[u8] = match options.format {
            CopyFormat::Csv => &[options.delimiter, options.quote],
            _ => &[options.delimiter],
        };
        let null_is_plain = !options.null.is_empty() && options.null.bytes().all(|byte| PLAIN.contains(&byte));
        let plain_as_is = !special.iter().any(|byte| PLAIN.contains(byte)) && !null_is_plain;
        let mut escapes = [0; 256];
        let letters = [(b'\\', b'\\'), (b'\n', b'n'), (b'\r', b'r'), (b'\t', b't'), (8, b'b'), (11, b'v'), (12, b'f')];
        letters.iter().for_each(|(byte, letter)| escapes[usize::from(*byte)] = *letter);
        let delimiter = &mut escapes[usize::from(options.delimiter)];
        if *delimiter == 0 {
            *delimiter = options.delimiter;
        }
        Self { options, plain_as_is, escapes }
    }

    /// What comes before the rows.
    pub fn header(&self, schema: &Schema) -> BytesMut {
        let mut out = BytesMut::new();
        if self.options.format == CopyFormat::Binary {
            out.put_slice(BINARY_HEADER);
        } else if self.options.header {
            for (index, field) in schema.fields().iter().enumerate() {
                if index > 0 {
                    out.put_u8(self.options.delimiter);
                }
                self.field(field.name().as_bytes(), &mut out);
            }
            out.put_u8(b'\n');
        }
        out
    }

    /// What comes after them.
    pub fn trailer(&self) -> Option<[u8; 2]> {
        (self.options.format == CopyFormat::Binary).then_some([0xff, 0xff])
    }

    /// Writes rows until `out` has so many bytes; gives the first row that is left. `head` goes before the first row,
    /// in its message.
    pub fn rows(
        &self,
        rows: &Rows,
        from: usize,
        bytes: usize,
        framing: Framing,
        head: &mut BytesMut,
        out: &mut BytesMut,
    ) -> usize {
        let (mut row, mut field) = (from, BytesMut::new());
        let plain = (0..rows.columns()).map(|column| self.plain_as_is && rows.is_plain(column)).collect::<Vec<_>>();
        while row < rows.count() && out.len() < bytes {
            let start = out.len() + 1;
            if framing == Framing::Messages {
                out.put_slice(b"d\0\0\0\0");
            }
            if !head.is_empty() {
                out.put_slice(&head.split());
            }
            if self.options.format == CopyFormat::Binary {
                rows.write_fields(row, out);
            } else {
                self.line(rows, row, &plain, &mut field, out);
            }
            if framing == Framing::Messages {
                let length = (out.len() - start) as i32;
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
            row += 1;
        }
        row
    }

    fn line(&self, rows: &Rows, row: usize, plain: &[bool], field: &mut BytesMut, out: &mut BytesMut) {
        for (column, plain) in plain.iter().enumerate() {
            if column > 0 {
                out.put_u8(self.options.delimiter);
            }
            if rows.is_null(row, column) {
                out.put_slice(self.options.null.as_bytes());
            } else if *plain {
                rows.write_text(row, column, out);
            } else if let Some(text) = rows.as_text(row, column) {
                self.field(text, out);
            } else {
                field.clear();
                rows.write_text(row, column, field);
                self.field(field, out);
            }
        }
        out.put_u8(b'\n');
    }

    fn field(&self, field: &[u8], out: &mut BytesMut) {
        let options = &self.options;
        if options.format == CopyFormat::Csv {
            let special =
                |byte: &u8| *byte == options.delimiter || *byte == options.quote || matches!(byte, b'\n' | b'\r');
            if field != options.null.as_bytes() && field != b"\\." && !field.iter().any(special) {
                return out.put_slice(field);
            }
            out.put_u8(options.quote);
            for byte in field {
                if *byte == options.quote || *byte == options.escape {
                    out.put_u8(options.escape);
                }
                out.put_u8(*byte);
            }
            return out.put_u8(options.quote);
        }
        let mut written = 0;
        for (at, byte) in field.iter().enumerate() {
            let letter = self.escapes[usize::from(*byte)];
            if letter != 0 {
                out.put_slice(&field[written..at]);
                out.put_slice(&[b'\\', letter]);
                written = at + 1;
            }
        }
        out.put_slice(&field[written..]);
    }
}

/// Reads rows of a COPY … FROM STDIN, whose bytes come in pieces of any size.
pub struct CopyDecoder {
    options: CopyOptions,
    schema: SchemaRef,
    /// Bytes of a row that has not ended.
    pending: Vec<u8>,
    /// Fields as text; in binary form arrays of one row.
    texts: Vec<StringViewBuilder>,
    values: Vec<Vec<ArrayRef>>,
    rows: usize,
    batches: Vec<RecordBatch>,
    bytes: usize,
    line: u64,
    started: bool,
    ended: bool,
}

impl CopyDecoder {
    /// For rows with these columns.
    pub fn new(options: CopyOptions, schema: SchemaRef) -> Self {
        let texts = schema.fields().iter().map(|_| StringViewBuilder::new()).collect();
        let values = schema.fields().iter().map(|_| Vec::new()).collect();
        Self {
            options,
            schema,
            pending: Vec::new(),
            texts,
            values,
            rows: 0,
            batches: Vec::new(),
            bytes: 0,
            line: 0,
            started: false,
            ended: false,
        }
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len();
        if self.bytes > COPY_BYTES_MAX {
            return Err(Error::resource(format!("a COPY brings at most {COPY_BYTES_MAX} bytes"))
                .with_code("54000")
                .with_hint("cut the data into several COPY statements"));
        }
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let read = self.read(&pending)?;
        self.pending = pending[read..].to_vec();
        Ok(())
    }

    /// The rows, after the last bytes.
    pub fn finish(mut self) -> Result<Vec<RecordBatch>> {
        let mut pending = std::mem::take(&mut self.pending);
        if self.options.format != CopyFormat::Binary {
            if !pending.is_empty() {
                pending.push(b'\n');
                let read = self.read(&pending)?;
                if read < pending.len() {
                    return Err(self.wrong("a quote is open at the end"));
                }
            }
        } else if !pending.is_empty() || !self.ended {
            return Err(self.wrong("the data ends in the middle"));
        }
        self.complete_batch()?;
        Ok(self.batches)
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
            if self.options.header && self.line == 1 {
                continue;
            }
            let fields = match self.options.format {
                CopyFormat::Csv => self.csv_fields(line)?,
                _ => self.text_fields(line)?,
            };
            self.push(fields)?;
        }
        Ok(at)
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
                field.push(match line[at] {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'v' => 11,
                    b'f' => 12,
                    other => other,
                });
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
                    let is_null = !quoted && field == options.null.as_bytes();
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
        if fields.len() != self.texts.len() {
            let text = format!("expected {} columns, found {}", self.texts.len(), fields.len());
            return Err(self.wrong(&text));
        }
        for (index, field) in fields.into_iter().enumerate() {
            match field {
                None => self.texts[index].append_null(),
                Some(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => self.texts[index].append_value(text),
                    Err(_) => return Err(self.wrong("the text is not valid UTF-8").with_code("22021")),
                },
            }
        }
        self.rows += 1;
        if self.rows == BATCH_ROWS_MAX { self.complete_batch() } else { Ok(()) }
    }

    fn read_binary(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut at = 0;
        if !self.started {
            if bytes.len() < BINARY_HEADER.len() {
                return Ok(0);
            }
            if bytes[..11] != BINARY_HEADER[..11] || bytes[15..19] != [0; 4] {
                return Err(self.wrong("this is no COPY data in binary form"));
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
                let text = format!("expected {} columns, found {count}", self.values.len());
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
                    Some(_) if known.is_array => {
                        return Err(Error::unsupported("COPY reads no arrays in binary form"));
                    }
                    Some(field) => {
                        let value = from_binary(field, known.element).map_err(|error| self.place(error))?;
                        arrow::compute::cast(&value, &wanted).map_err(|error| self.wrong(&error.to_string()))?
                    }
                };
                self.values[index].push(value);
            }
            at = next;
            self.rows += 1;
            if self.rows == BATCH_ROWS_MAX {
                self.complete_batch()?;
            }
        }
    }

    fn complete_batch(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.texts.len());
        for index in 0..self.texts.len() {
            let data_type = self.schema.field(index).data_type().clone();
            let array = if self.options.format == CopyFormat::Binary {
                let values = std::mem::take(&mut self.values[index]);
                concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())
                    .map_err(|error| Error::value(format!("COPY: {error}")))?
            } else {
                let texts = self.texts[index].finish();
                self.typed(texts, &data_type)?
            };
            arrays.push(array);
        }
        let fields = self.schema.fields().iter().zip(&arrays);
        let fields = fields.map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, arrays).map_err(|error| Error::bug(format!("COPY: {error}")))?;
        self.batches.push(batch);
        Ok(())
    }

    /// Texts as values; those that Arrow reads otherwise than PostgreSQL one by one.
    fn typed(&self, mut texts: StringViewArray, data_type: &DataType) -> Result<ArrayRef> {
        match data_type {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::List(_) => {
                let values = texts.iter().map(|text| match text {
                    Some(text) => from_text(text, data_type).map_err(|error| self.place(error)),
                    None => Ok(new_null_array(data_type, 1)),
                });
                let values = values.collect::<Result<Vec<_>>>()?;
                concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())
                    .map_err(|error| Error::value(format!("COPY: {error}")))
            }
            DataType::Utf8View => Ok(Arc::new(texts)),
            other => {
                // The empty text is no number: Arrow would read it as NULL.
                if let Some(row) = texts.iter().position(|text| text == Some("")) {
                    let first = self.line.saturating_sub(texts.len() as u64);
                    let error = Error::value(format!("'' is no {other}: COPY, line {}", first + row as u64 + 1));
                    return Err(error.with_code("22P02"));
                }
                texts = texts.gc();
                let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
                let strings: ArrayRef = Arc::new(texts);
                arrow::compute::cast_with_options(&strings, other, &options).map_err(|error| {
                    let text = format!("{error}: COPY, up to line {}", self.line);
                    Error::value(text).with_code("22P02")
                })
            }
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::value(format!("{what}: COPY, line {}", self.line)).with_code("22P04")
    }

    fn place(&self, error: Error) -> Error {
        error.context(format!("COPY, line {}", self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::{Columns, Form};
    use super::*;

    fn options(format: CopyFormat) -> CopyOptions {
        let csv = format == CopyFormat::Csv;
        CopyOptions {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".into() },
            header: csv,
            quote: b'"',
            escape: b'"',
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
                out.chunks(size).for_each(|piece| decoder.feed(piece).unwrap());
                let read = decoder.finish().unwrap();
                assert_eq!(read, std::slice::from_ref(&batch), "{format:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_delimiter_that_numbers_have_is_told_from_them() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(arrow::array::Int64Array::from(vec![-1, 12, 3])),
            Arc::new(StringViewArray::from_iter_values(["a-b", "12", "x"])),
        ];
        let batch = RecordBatch::try_new(schema(), columns).unwrap();
        let written = |format, delimiter, null: &str| {
            let options = CopyOptions { delimiter, null: null.to_owned(), header: false, ..options(format) };
            let rows = Columns::all(&schema(), Form::Text).rows(&batch).unwrap();
            let mut out = BytesMut::new();
            CopyEncoder::new(options).rows(&rows, 0, usize::MAX, Framing::None, &mut BytesMut::new(), &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        };
        assert_eq!(written(CopyFormat::Csv, b'-', "12"), "\"-1\"-\"a-b\"\n\"12\"-\"12\"\n3-x\n");
        assert_eq!(written(CopyFormat::Csv, b',', ""), "-1,a-b\n12,12\n3,x\n");
        assert_eq!(written(CopyFormat::Text, b'-', "12"), "\\-1-a\\-b\n12-12\n3-x\n");
    }

    #[test]
    fn rows_are_messages_of_their_own_and_stop_at_a_limit() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(arrow::array::Int64Array::from(vec![1, 22, 3])),
            Arc::new(StringViewArray::from_iter_values(["a", "b", "c"])),
        ];
        let batch = RecordBatch::try_new(schema(), columns).unwrap();
        let rows = Columns::all(&schema(), Form::Text).rows(&batch).unwrap();
        let (encoder, mut out) = (CopyEncoder::new(options(CopyFormat::Text)), BytesMut::new());
        let mut head = BytesMut::from(&b"h\n"[..]);
        let next = encoder.rows(&rows, 0, 12, Framing::Messages, &mut head, &mut out);
        assert_eq!((next, &out[..], head.is_empty()), (2, &b"d\0\0\0\x0ah\n1\ta\nd\0\0\0\x0922\tb\n"[..], true));
    }

    #[test]
    fn mistakes_name_their_line() {
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema());
        let error = decoder.feed(b"1\ta\n2\tb\tc\n").unwrap_err();
        assert!(error.message().contains("expected 2 columns, found 3: COPY, line 2"), "{error}");
        let mut decoder = CopyDecoder::new(options(CopyFormat::Csv), schema());
        decoder.feed(b"number,text\n1,\"open\n").unwrap();
        assert!(decoder.finish().unwrap_err().message().contains("quote"));
        let mut decoder = CopyDecoder::new(options(CopyFormat::Text), schema());
        decoder.feed(b"x\ta\n").unwrap();
        assert_eq!(decoder.finish().unwrap_err().code(), Some("22P02"));
    }
}
