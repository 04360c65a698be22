//! Rows as COPY writes them: lines of text or CSV, or PostgreSQL's binary form. HTTP's CSV is the same.

use std::borrow::Cow;

use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};

use super::columns::{PLAIN, Rows};

/// What a binary COPY begins with: a signature, flags, and the length of an extension.
pub const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// COPY's formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    #[default]
    /// Tabs between fields, backslashes before what is special.
    Text,
    /// Comma-separated values.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// How COPY reads and writes rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// What stands between fields.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// Whether the first line has the columns' names.
    pub header: bool,
    /// Whether these must be the names of the columns that are copied.
    pub header_matches: bool,
    /// Around fields of CSV.
    pub quote: u8,
    /// Before a quote within a field of CSV.
    pub escape: u8,
    /// Columns of CSV whose values are written in quotes, whatever they are.
    pub force_quote: Forced,
    /// Columns of CSV in which what stands for NULL is NULL in quotes, too.
    pub force_null: Forced,
    /// Columns of CSV in which what stands for NULL is a text.
    pub force_not_null: Forced,
    /// How characters are bytes.
    pub characters: Characters,
    /// Whether rows with a value that is none of its column's type are left out.
    pub ignores_errors: bool,
    /// What is said of those.
    pub verbosity: Verbosity,
}

/// How the characters of text and CSV are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Characters {
    /// As UTF-8.
    #[default]
    Utf8,
    /// Each is a byte: its number.
    Latin1,
    /// The same, but for 32 of them.
    Windows1252,
}

/// What the bytes from 0x80 to 0x9f are in Windows-1252.
const WINDOWS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}',
    '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}',
    '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}',
    '\u{17e}', '\u{178}',
];

impl Characters {
    /// The encoding of a name.
    pub fn named(name: &str) -> Option<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        match letters.as_str() {
            "utf8" | "unicode" => Some(Self::Utf8),
            "latin1" | "iso88591" => Some(Self::Latin1),
            "win1252" | "windows1252" | "cp1252" => Some(Self::Windows1252),
            _ => None,
        }
    }

    /// The bytes as UTF-8.
    pub fn as_utf8(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Utf8 || bytes.is_ascii() {
            return Cow::Borrowed(bytes);
        }
        let character = |byte: &u8| match (self, byte) {
            (Self::Windows1252, 0x80..=0x9f) => WINDOWS[usize::from(*byte - 0x80)],
            _ => char::from(*byte),
        };
        Cow::Owned(bytes.iter().map(character).collect::<String>().into_bytes())
    }
}

/// What is said of rows that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing.
    Silent,
    /// How many they are.
    #[default]
    Default,
    /// Of each, too, where it is and what is wrong.
    Verbose,
}

/// Columns that an option of COPY names.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Forced {
    /// None.
    #[default]
    None,
    /// These.
    Named(Vec<String>),
    /// All.
    All,
}

impl Forced {
    /// Whether a column is one of them.
    pub fn has(&self, column: &str) -> bool {
        match self {
            Self::None => false,
            Self::Named(names) => names.iter().any(|name| name == column),
            Self::All => true,
        }
    }

    /// A name that is none of these columns'.
    pub fn stranger<'a>(&'a self, schema: &Schema) -> Option<&'a str> {
        match self {
            Self::Named(names) => names.iter().find(|name| schema.index_of(name).is_err()).map(String::as_str),
            Self::None | Self::All => None,
        }
    }
}

/// Writes rows of a COPY … TO STDOUT.
pub struct CopyEncoder {
    options: CopyOptions,
    /// Whether numbers, dates and the like are written as they are: no character of theirs means something here.
    plain_as_is: bool,
    /// Letters that stand for a character after a backslash; zero for those that are written as they are.
    escapes: [u8; 256],
    /// By column, whether its values are in quotes; none are, if there are no columns.
    quoted: Vec<bool>,
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
        Self { options, plain_as_is, escapes, quoted: Vec::new() }
    }

    /// The same for rows with these columns.
    #[must_use]
    pub fn of_columns(mut self, schema: &Schema) -> Self {
        if self.options.format == CopyFormat::Csv && self.options.force_quote != Forced::None {
            let fields = schema.fields().iter();
            self.quoted = fields.map(|field| self.options.force_quote.has(field.name())).collect();
        }
        self
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
            } else if self.quoted.get(column) == Some(&true) {
                field.clear();
                rows.write_text(row, column, field);
                self.in_quotes(field, out);
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

    fn in_quotes(&self, field: &[u8], out: &mut BytesMut) {
        let options = &self.options;
        out.put_u8(options.quote);
        for byte in field {
            if *byte == options.quote || *byte == options.escape {
                out.put_u8(options.escape);
            }
            out.put_u8(*byte);
        }
        out.put_u8(options.quote);
    }

    fn field(&self, field: &[u8], out: &mut BytesMut) {
        let options = &self.options;
        if options.format == CopyFormat::Csv {
            let special =
                |byte: &u8| *byte == options.delimiter || *byte == options.quote || matches!(byte, b'\n' | b'\r');
            if field != options.null.as_bytes() && field != b"\\." && !field.iter().any(special) {
                return out.put_slice(field);
            }
            return self.in_quotes(field, out);
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

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
    use arrow::datatypes::{DataType, Field, SchemaRef};

    use super::super::columns::{Columns, Form};
    use super::*;

    /// How PostgreSQL writes a format.
    pub(crate) fn options(format: CopyFormat) -> CopyOptions {
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

    /// A number and a text.
    pub(crate) fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
        ]))
    }

    #[test]
    fn characters_of_one_byte_become_utf8() {
        let read = |name: &str, bytes: &[u8]| {
            String::from_utf8(Characters::named(name).unwrap().as_utf8(bytes).into_owned()).unwrap()
        };
        assert_eq!(read("LATIN1", b"caf\xe9"), "caf\u{e9}");
        assert_eq!(read("WIN1252", b"\x80 5"), "\u{20ac} 5");
        assert_eq!(read("utf-8", "\u{20ac}".as_bytes()), "\u{20ac}");
        assert_eq!(Characters::named("nothing"), None);
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
}
