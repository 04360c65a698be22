//! Records of separated values into fields, without converting anything.
//!
//! The grammar is RFC 4180's with any delimiter, of several bytes as well, and any quote: a field that begins with a
//! quote ends with one; inside, a doubled quote (or an escaped one) stands for itself, and delimiters and line ends are
//! text. A quote inside a field that does not begin with one is text, unless quotes may begin and end anywhere, as in
//! PostgreSQL's COPY. Blanks around quotes are no text where a dialect says so. Records end with a line feed, or a
//! carriage return and a line feed, or with a comment where a dialect says so. Empty lines are no records.

use std::borrow::Cow;

use crate::external::options::DELIMITER_BYTES_MAX;

/// The bytes that have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::external) struct Dialect {
    /// The delimiter's first byte.
    pub delimiter: u8,
    /// Its other bytes.
    pub tail: DelimiterTail,
    pub quote: u8,
    /// `None`: quotes are doubled.
    pub escape: Option<u8>,
    pub comment: Option<u8>,
    /// Whether a comment may stand behind blanks and at the end of a record, too; else it is a whole line.
    pub comments_end_records: bool,
    /// Whether blanks around the quotes of a field are none of it: `"a", "b"`.
    pub pads_quotes: bool,
    /// Whether quotes may begin and end anywhere in a field, and all else in it is text.
    pub quotes_inside: bool,
    /// Whether an empty line is a record of one empty field: where records have one field.
    pub blank_is_record: bool,
}

/// What of a delimiter stands behind its first byte: mostly nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::external) struct DelimiterTail {
    bytes: [u8; DELIMITER_BYTES_MAX - 1],
    length: u8,
}

impl DelimiterTail {
    /// These bytes, as far as a delimiter may have them.
    pub fn of(bytes: &[u8]) -> Self {
        let length = bytes.len().min(DELIMITER_BYTES_MAX - 1);
        let mut tail = Self { length: length as u8, ..Self::default() };
        tail.bytes[..length].copy_from_slice(&bytes[..length]);
        tail
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What is at a byte that a delimiter begins with.
enum AtDelimiter {
    /// The delimiter; what is behind it begins here.
    Whole(usize),
    /// Something else.
    Other,
    /// The text ends within what may be the delimiter.
    Cut,
}

impl Dialect {
    /// The bytes between two fields.
    pub fn delimiter_bytes(&self) -> Vec<u8> {
        [&[self.delimiter][..], self.tail.bytes()].concat()
    }

    /// What begins a comment that ends a record.
    fn ending_comment(&self) -> Option<u8> {
        self.comment.filter(|_| self.comments_end_records)
    }

    /// Whether the delimiter is at a byte that is its first one.
    fn at_delimiter(&self, text: &[u8], at: usize, last: bool) -> AtDelimiter {
        let (tail, behind) = (self.tail.bytes(), &text[at + 1..]);
        if behind.starts_with(tail) {
            AtDelimiter::Whole(at + 1 + tail.len())
        } else if !last && tail.starts_with(behind) {
            AtDelimiter::Cut
        } else {
            AtDelimiter::Other
        }
    }
}

/// Where a field's text is: after the opening quote, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::external) struct Field {
    start: u32,
    length: u32,
}

const QUOTED: u32 = 1 << 31;
const ESCAPED: u32 = 1 << 30;
const LENGTH: u32 = ESCAPED - 1;
/// Of the start: quotes are somewhere in the text.
const MIXED: u32 = 1 << 31;

/// Text looked at from one position may have at most this many bytes, so that fields fit their numbers.
pub(super) const TEXT_BYTES_MAX: usize = LENGTH as usize;

/// What was found at a position.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::external) enum Found {
    /// A record; the next thing begins at `next`.
    Record { next: usize },
    /// An empty line or a comment.
    Nothing { next: usize },
    /// The text ends before the record does.
    Incomplete,
    /// The record is malformed at this position.
    Malformed { at: usize, what: &'static str },
}

impl Field {
    /// True if it was written in quotes.
    pub fn is_quoted(self) -> bool {
        self.length & QUOTED != 0
    }

    /// Whether quotes are somewhere in the text as written, so that it is not the text as meant.
    pub fn is_mixed(self) -> bool {
        self.start & MIXED != 0
    }

    /// The text as written, without the quotes around it.
    pub fn raw(self, text: &[u8]) -> &[u8] {
        let start = (self.start & LENGTH) as usize;
        &text[start..start + (self.length & LENGTH) as usize]
    }

    /// The text as meant.
    pub fn text<'a>(self, text: &'a [u8], dialect: &Dialect) -> Cow<'a, [u8]> {
        let raw = self.raw(text);
        if self.is_mixed() {
            return Cow::Owned(without_quotes(raw, dialect));
        }
        if self.length & ESCAPED == 0 {
            return Cow::Borrowed(raw);
        }
        let escape = dialect.escape.unwrap_or(dialect.quote);
        let mut plain = Vec::with_capacity(raw.len());
        let mut bytes = raw.iter().copied();
        while let Some(byte) = bytes.next() {
            // Any byte after an escape is itself; the escape alone at the end cannot be.
            plain.push(if byte == escape { bytes.next().unwrap_or(byte) } else { byte });
        }
        Cow::Owned(plain)
    }

    /// A field that is not there.
    pub fn empty() -> Self {
        Self::new(0, 0, 0)
    }

    fn new(start: usize, end: usize, flags: u32) -> Self {
        Self { start: start as u32, length: (end - start) as u32 | flags }
    }
}

/// The first place from `at` on that has no blank.
fn behind_blanks(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|byte| **byte == b' ').count()
}

/// Finds the record that begins at `at`. `last` says that nothing comes after the text; then its end ends a record.
/// Fields are handed to `field` with their number, from 0.
pub(in crate::external) fn record(
    text: &[u8],
    mut at: usize,
    last: bool,
    dialect: &Dialect,
    mut field: impl FnMut(usize, Field),
) -> Found {
    let Some(&first) = text.get(at) else { return Found::Incomplete };
    let mut nothing = |next| {
        if !dialect.blank_is_record {
            return Found::Nothing { next };
        }
        field(0, Field::new(at, at, 0));
        Found::Record { next }
    };
    if first == b'\n' {
        return nothing(at + 1);
    }
    if first == b'\r' {
        match text.get(at + 1) {
            Some(b'\n') => return nothing(at + 2),
            None if last => return Found::Nothing { next: at + 1 },
            None => return Found::Incomplete,
            Some(_) => {}
        }
    }
    if dialect.comment == Some(first) || dialect.ending_comment().is_some_and(|byte| is_behind_blanks(text, at, byte)) {
        return behind_line(text, at, last).map_or(Found::Incomplete, |next| Found::Nothing { next });
    }
    if dialect.quotes_inside {
        return mixed_record(text, at, last, dialect, field);
    }
    let mut number = 0;
    loop {
        if dialect.pads_quotes {
            let behind = behind_blanks(text, at);
            at = if text.get(behind) == Some(&dialect.quote) { behind } else { at };
        }
        if text.get(at) == Some(&dialect.quote) {
            let start = at + 1;
            let (end, flags) = match closing_quote(text, start, dialect) {
                Some((end, flags)) => (end, flags),
                None if last => return Found::Malformed { at, what: "the quote that begins here is never closed" },
                None => return Found::Incomplete,
            };
            let span = Field::new(start, end, flags | QUOTED);
            at = if dialect.pads_quotes { behind_blanks(text, end + 1) } else { end + 1 };
            match text.get(at) {
                Some(&byte) if byte == dialect.delimiter => match dialect.at_delimiter(text, at, last) {
                    AtDelimiter::Whole(behind) => {
                        field(number, span);
                        at = behind;
                    }
                    AtDelimiter::Cut => return Found::Incomplete,
                    AtDelimiter::Other => return Found::Malformed { at, what: BEHIND_A_QUOTE },
                },
                Some(b'\n') => {
                    field(number, span);
                    return Found::Record { next: at + 1 };
                }
                Some(b'\r') if text.get(at + 1) == Some(&b'\n') => {
                    field(number, span);
                    return Found::Record { next: at + 2 };
                }
                None if last => {
                    field(number, span);
                    return Found::Record { next: at };
                }
                Some(b'\r') if at + 1 == text.len() && last => {
                    field(number, span);
                    return Found::Record { next: at + 1 };
                }
                None => return Found::Incomplete,
                Some(b'\r') if at + 1 == text.len() => return Found::Incomplete,
                Some(_) if dialect.ending_comment().is_some_and(|byte| is_behind_blanks(text, at, byte)) => {
                    let Some(next) = behind_line(text, at, last) else { return Found::Incomplete };
                    field(number, span);
                    return Found::Record { next };
                }
                Some(b' ') if !last && dialect.ending_comment().is_some() && behind_blanks(text, at) == text.len() => {
                    return Found::Incomplete;
                }
                Some(_) => return Found::Malformed { at, what: BEHIND_A_QUOTE },
            }
        } else {
            match end_of_plain(text, at, last, dialect) {
                Some(PlainEnd::Field { end, next }) => {
                    field(number, Field::new(at, end, 0));
                    at = next;
                }
                Some(PlainEnd::Record { end, next }) => {
                    let carriage = end > at && text[end - 1] == b'\r';
                    field(number, Field::new(at, end - usize::from(carriage), 0));
                    return Found::Record { next };
                }
                None => return Found::Incomplete,
            }
        }
        number += 1;
    }
}

/// Where a field without quotes ends, and where the next thing begins.
enum PlainEnd {
    /// That is a field of the same record.
    Field { end: usize, next: usize },
    /// That is behind the record.
    Record { end: usize, next: usize },
}

/// The end of the field without quotes at `at`. `None` if the text ends before, and it is not the last one.
#[inline]
fn end_of_plain(text: &[u8], at: usize, last: bool, dialect: &Dialect) -> Option<PlainEnd> {
    let mut from = at;
    loop {
        let found = memchr::memchr2(dialect.delimiter, b'\n', &text[from..]);
        if let Some(byte) = dialect.ending_comment() {
            let before = &text[from..found.map_or(text.len(), |length| from + length)];
            if let Some(length) = memchr::memchr(byte, before) {
                let end = from + length;
                return behind_line(text, end, last).map(|next| PlainEnd::Record { end, next });
            }
        }
        let Some(length) = found else {
            return last.then_some(PlainEnd::Record { end: text.len(), next: text.len() });
        };
        let end = from + length;
        if text[end] == b'\n' {
            return Some(PlainEnd::Record { end, next: end + 1 });
        }
        match dialect.at_delimiter(text, end, last) {
            AtDelimiter::Whole(next) => return Some(PlainEnd::Field { end, next }),
            AtDelimiter::Cut => return None,
            AtDelimiter::Other => from = end + 1,
        }
    }
}

const BEHIND_A_QUOTE: &str = "there is text after the quote that ends a field";

/// Whether the first byte from `at` on that is no blank is this one.
fn is_behind_blanks(text: &[u8], at: usize, byte: u8) -> bool {
    text.get(behind_blanks(text, at)) == Some(&byte)
}

/// What is behind the line at `at`. `None` if the text ends before, and it is not the last one.
fn behind_line(text: &[u8], at: usize, last: bool) -> Option<usize> {
    match memchr::memchr(b'\n', &text[at..]) {
        Some(feed) => Some(at + feed + 1),
        None => last.then_some(text.len()),
    }
}

/// The record at `at`, with quotes that begin and end anywhere.
fn mixed_record(
    text: &[u8],
    mut at: usize,
    last: bool,
    dialect: &Dialect,
    mut field: impl FnMut(usize, Field),
) -> Found {
    let mut number = 0;
    loop {
        match mixed_field(text, at, last, dialect) {
            Ok((found, next, is_followed)) => {
                field(number, found);
                if !is_followed {
                    return Found::Record { next };
                }
                (at, number) = (next, number + 1);
            }
            Err(found) => return found,
        }
    }
}

/// The field at `start` with quotes that begin and end anywhere, where the next thing begins, and whether that is a
/// field of the same record. Fails with what was found if there is no whole field.
fn mixed_field(text: &[u8], start: usize, last: bool, dialect: &Dialect) -> Result<(Field, usize, bool), Found> {
    let mut at = start;
    // The last closing quote; with its flags, if the opening one begins the field.
    let mut closed: Option<(usize, Option<u32>)> = None;
    let found = |end: usize, closed| match closed {
        None => Field::new(start, end, 0),
        Some((quote, Some(flags))) if quote + 1 == end => Field::new(start + 1, quote, flags | QUOTED),
        _ => Field { start: start as u32 | MIXED, ..Field::new(start, end, QUOTED) },
    };
    loop {
        let length = memchr::memchr3(dialect.delimiter, b'\n', dialect.quote, &text[at..]);
        if let Some(byte) = dialect.ending_comment() {
            let before = &text[at..length.map_or(text.len(), |length| at + length)];
            if let Some(length) = memchr::memchr(byte, before) {
                let end = at + length;
                let next = behind_line(text, end, last).ok_or(Found::Incomplete)?;
                return Ok((found(end, closed), next, false));
            }
        }
        let Some(length) = length else {
            if !last {
                return Err(Found::Incomplete);
            }
            let end = text.len() - usize::from(text.ends_with(b"\r") && text.len() > at);
            return Ok((found(end, closed), text.len(), false));
        };
        at += length;
        if text[at] == b'\n' {
            let carriage = at > start && text[at - 1] == b'\r';
            return Ok((found(at - usize::from(carriage), closed), at + 1, false));
        }
        if text[at] != dialect.quote {
            match dialect.at_delimiter(text, at, last) {
                AtDelimiter::Whole(behind) => return Ok((found(at, closed), behind, true)),
                AtDelimiter::Cut => return Err(Found::Incomplete),
                AtDelimiter::Other => at += 1,
            }
            continue;
        }
        match closing_quote(text, at + 1, dialect) {
            Some((quote, flags)) => {
                closed = Some((quote, (at == start).then_some(flags)));
                at = quote + 1;
            }
            None if last => return Err(Found::Malformed { at, what: "the quote that begins here is never closed" }),
            None => return Err(Found::Incomplete),
        }
    }
}

/// The text of a field without its quotes, wherever they are.
fn without_quotes(raw: &[u8], dialect: &Dialect) -> Vec<u8> {
    let escape = dialect.escape.unwrap_or(dialect.quote);
    let mut plain = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    let mut inside = false;
    while let Some(byte) = bytes.next() {
        let is_escape = inside && byte == escape;
        if is_escape && (escape != dialect.quote || bytes.peek() == Some(&dialect.quote)) {
            plain.extend(bytes.next());
        } else if byte == dialect.quote {
            inside = !inside;
        } else {
            plain.push(byte);
        }
    }
    plain
}

/// The quote that ends a quoted field, and whether the text has escapes.
fn closing_quote(text: &[u8], start: usize, dialect: &Dialect) -> Option<(usize, u32)> {
    let mut flags = 0;
    let mut at = start;
    loop {
        match dialect.escape.filter(|&escape| escape != dialect.quote) {
            None => {
                at += memchr::memchr(dialect.quote, text.get(at..)?)?;
                if text.get(at + 1) != Some(&dialect.quote) {
                    return Some((at, flags));
                }
            }
            Some(escape) => {
                at += memchr::memchr2(dialect.quote, escape, text.get(at..)?)?;
                if text[at] == dialect.quote {
                    return Some((at, flags));
                }
            }
        }
        flags = ESCAPED;
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Dialect = Dialect {
        delimiter: b',',
        tail: DelimiterTail { bytes: [0; DELIMITER_BYTES_MAX - 1], length: 0 },
        quote: b'"',
        escape: None,
        comment: None,
        comments_end_records: false,
        pads_quotes: false,
        quotes_inside: false,
        blank_is_record: false,
    };

    fn all(text: &str, dialect: &Dialect) -> Result<Vec<Vec<String>>, String> {
        let bytes = text.as_bytes();
        let (mut records, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let mut fields = Vec::new();
            let found = record(bytes, at, true, dialect, |_, field| {
                let text = String::from_utf8(field.text(bytes, dialect).into_owned()).unwrap();
                fields.push(if field.is_quoted() { format!("'{text}'") } else { text });
            });
            match found {
                Found::Record { next } => {
                    records.push(fields);
                    at = next;
                }
                Found::Nothing { next } => at = next,
                Found::Incomplete => return Err("incomplete".to_owned()),
                Found::Malformed { at, what } => return Err(format!("{at}: {what}")),
            }
        }
        Ok(records)
    }

    #[test]
    fn fields_are_found() {
        let cases: [(&str, &[&[&str]]); 9] = [
            ("a,b\nc,d\n", &[&["a", "b"], &["c", "d"]]),
            ("a,b\r\n\r\nc,d", &[&["a", "b"], &["c", "d"]]),
            ("a,,\n,\n", &[&["a", "", ""], &["", ""]]),
            ("\"a,\n\"\"b\",c\n", &[&["'a,\n\"b'", "c"]]),
            ("\"\",5\" pipe\n", &[&["''", "5\" pipe"]]),
            ("a,\"b\"\r\nc,\"d\"", &[&["a", "'b'"], &["c", "'d'"]]),
            ("a,", &[&["a", ""]]),
            ("x\r", &[&["x"]]),
            ("\n\n", &[]),
        ];
        for (text, records) in cases {
            assert_eq!(all(text, &PLAIN).unwrap(), records, "{text:?}");
        }
    }

    #[test]
    fn blanks_stand_around_quotes() {
        let inside = Dialect { quotes_inside: true, ..PLAIN };
        for (text, expected) in [
            ("1, \"x, y\"\n2,\"q\"  \n", vec![vec!["1", "' x, y'"], vec!["2", "'q  '"]]),
            ("a\"b\"c,\"\"\r\n\"p\"\"q\",x\r\n", vec![vec!["'abc'", "''"], vec!["'p\"q'", "x"]]),
            ("a\"\n\"\"\"b,c\r", vec![vec!["'a\n\"b'", "c"]]),
            ("\"a\"\"\"\"b\",\"c\"d\"e\"", vec![vec!["'a\"\"b'", "'cde'"]]),
        ] {
            assert_eq!(all(text, &inside).unwrap(), expected, "{text:?}");
        }
        assert!(all("1,a\"b\n", &inside).is_err());
        let escaped = Dialect { escape: Some(b'\\'), ..inside };
        assert_eq!(all("x\"a\\\"b\\c\"\n", &escaped).unwrap(), [["'xa\"bc'"]]);
        let padded = Dialect { pads_quotes: true, ..PLAIN };
        let text = " \"a, b\" ,  \"c\"\r\nd, e\n\"f\"  \n  ,\"g\" ";
        let records: [&[&str]; 4] = [&["'a, b'", "'c'"], &["d", " e"], &["'f'"], &["  ", "'g'"]];
        assert_eq!(all(text, &padded).unwrap(), records);
        assert!(all(" \"a\" b,c\n", &padded).unwrap_err().contains("text after the quote"));
        assert_eq!(all(" \"a\",b\n", &PLAIN).unwrap(), [vec![" \"a\"".to_owned(), "b".to_owned()]]);
        for end in 1..11 {
            let cut = &text.as_bytes()[..end];
            assert_eq!(record(cut, 0, false, &padded, |_, _| {}), Found::Incomplete, "{end}");
        }
    }

    #[test]
    fn delimiters_have_several_bytes() {
        let wide = Dialect { delimiter: b'|', tail: DelimiterTail::of(b"|"), ..PLAIN };
        let text = "a||b|c|||d\r\n\"x||y\"||\"z\"\n|||\n||";
        let records: [&[&str]; 4] = [&["a", "b|c", "|d"], &["'x||y'", "'z'"], &["", "|"], &["", ""]];
        assert_eq!(all(text, &wide).unwrap(), records);
        assert!(all("\"a\"|b\n", &wide).unwrap_err().starts_with("3: there is text"));
        let inside = Dialect { quotes_inside: true, ..wide };
        assert_eq!(all("a|\"||\"b||c\n", &inside).unwrap(), [["'a|||b'", "c"]]);
        let longest = Dialect { delimiter: b'<', tail: DelimiterTail::of("–>".as_bytes()), ..PLAIN };
        assert_eq!(longest.delimiter_bytes(), "<–>".as_bytes()[..4]);
        // A text that ends within a delimiter says nothing of what it is.
        for dialect in [wide, inside] {
            for cut in ["a|", "\"a\"|", "a||b|"] {
                assert_eq!(record(cut.as_bytes(), 0, false, &dialect, |_, _| {}), Found::Incomplete, "{cut}");
            }
        }
        assert_eq!(all("a|", &wide).unwrap(), [["a|"]]);
    }

    #[test]
    fn malformed_records_say_where() {
        assert!(all("a,\"b", &PLAIN).unwrap_err().starts_with("2: the quote"));
        assert!(all("\"a\"b,c\n", &PLAIN).unwrap_err().starts_with("3: there is text"));
    }

    #[test]
    fn escapes_and_comments() {
        let dialect = Dialect { delimiter: b';', quote: b'\'', escape: Some(b'\\'), comment: Some(b'#'), ..PLAIN };
        assert_eq!(all("# no\n'a\\'b\\\\';c\n#", &dialect).unwrap(), vec![vec!["'a'b\\'".to_owned(), "c".to_owned()]]);
    }

    #[test]
    fn comments_end_records() {
        let dialect = Dialect { comment: Some(b'#'), comments_end_records: true, ..PLAIN };
        let text = "  # no\na,b# c,\"d\r\n\"e#\" # f\n\"g\",h\r\ni,#j\nk#,l\nm#";
        let records = vec![vec!["a", "b"], vec!["'e#'"], vec!["'g'", "h"], vec!["i", ""], vec!["k"], vec!["m"]];
        assert_eq!(all(text, &dialect).unwrap(), records);
        assert_eq!(all(text, &Dialect { quotes_inside: true, ..dialect }).unwrap()[2..], records[2..]);
        assert_eq!(all("a,b#c\n#d\n", &Dialect { comments_end_records: false, ..dialect }).unwrap(), [["a", "b#c"]]);
        for cut in ["  #", "a,b# c", "\"e#\" #", "\"e\" ", "k"] {
            assert_eq!(record(cut.as_bytes(), 0, false, &dialect, |_, _| {}), Found::Incomplete, "{cut}");
        }
    }

    #[test]
    fn a_cut_off_record_is_incomplete() {
        let text = b"ab,\"c\"\"d\ne\",f\r\n";
        for end in 1..text.len() {
            assert_eq!(record(&text[..end], 0, false, &PLAIN, |_, _| {}), Found::Incomplete, "{end}");
        }
        assert_eq!(record(text, 0, false, &PLAIN, |_, _| {}), Found::Record { next: text.len() });
    }
}
