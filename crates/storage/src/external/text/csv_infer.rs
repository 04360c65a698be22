//! What a file of separated values is: its delimiter, whether it has a header, and the types of its columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field as ArrowField, Schema, TimeUnit};

use super::csv_dates::{DateOrder, DateOrders, is_time};
use super::csv_fields::{DelimiterTail, Dialect, Field, Found, record};
use super::csv_values::{
    Forms, checked_type, column as column_of, parse_date, parse_integer, parse_text, parse_timestamp,
};
use crate::external::options::{Candidate, CsvOptions};

/// Records looked at to find the delimiter.
const DELIMITER_RECORDS: usize = 50;

/// What the values of a column seen so far could all be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    /// Whether there was a value at all.
    seen: bool,
    boolean: bool,
    integer: bool,
    /// Whole numbers that do not fit 64 bits.
    long: bool,
    float: bool,
    date: bool,
    timestamp: bool,
    time: bool,
    /// What dates could be that are not as in ISO 8601.
    orders: DateOrders,
    /// The same of dates with a time of day.
    moments: DateOrders,
    /// Timestamps with more of a second than six digits say.
    nanoseconds: bool,
    /// Whether timestamps name their zone; `None` if some do and some do not.
    zoned: Option<bool>,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            seen: false,
            boolean: true,
            integer: true,
            long: true,
            float: true,
            date: true,
            timestamp: true,
            time: true,
            orders: DateOrders::any(),
            moments: DateOrders::any(),
            nanoseconds: false,
            zoned: None,
        }
    }
}

impl Guess {
    /// Takes a value into account. NULLs are not shown to it.
    pub fn see(&mut self, quoted: bool, raw: &[u8], forms: &Forms) {
        let raw = raw.trim_ascii();
        if quoted && raw.is_empty() {
            // An empty string, which is nothing else.
            *self = Self { seen: true, zoned: self.zoned, ..Self::text() };
            return;
        }
        self.boolean &= is_boolean(raw);
        if self.long || self.float {
            let number = forms.number(raw);
            // What begins with zeros or a plus is no number but a code: 007, +4930123.
            let is_code = has_leading_zero(&number) || number.starts_with(b"+");
            self.integer &= !is_code && parse_integer::<i64>(&number).is_some();
            self.long &= !is_code && is_long_integer(&number);
            self.float &= !is_code && is_float(&number);
            self.integer &= self.long;
        }
        self.date &= self.date && forms.date(raw).is_some();
        self.time &= self.time && is_time(raw);
        if !self.orders.is_none() {
            self.orders.see(raw);
        }
        if !self.moments.is_none() {
            self.moments.see_moment(raw);
        }
        if self.timestamp && forms.timestamp.is_some() {
            self.timestamp = forms.timestamp(raw, None).is_some();
            self.zoned = Some(forms.timestamp.as_ref().is_some_and(|format| format.contains("%z")));
        } else if self.timestamp {
            let zoned = is_zoned(raw);
            let same = !self.seen || self.zoned == Some(zoned) || parse_date(raw).is_some();
            self.timestamp = same && raw.len() >= 10 && parse_timestamp(raw, None).is_some();
            self.zoned = Some(zoned || self.seen && self.zoned == Some(true));
            let fraction = raw.iter().rposition(|&byte| byte == b'.').map_or(&[][..], |point| &raw[point + 1..]);
            let mut digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).skip(6);
            self.nanoseconds |= digits.any(|digit| *digit != b'0');
        }
        self.seen = true;
    }

    /// What is nothing but a date, a time or a text.
    pub fn of_time() -> Self {
        Self { date: true, timestamp: true, time: true, ..Self::text() }
    }

    /// Whether all values so far could be dates or times.
    pub fn may_be_time(&self) -> bool {
        self.date || self.timestamp || self.time
    }

    fn text() -> Self {
        Self {
            boolean: false,
            integer: false,
            long: false,
            float: false,
            date: false,
            timestamp: false,
            time: false,
            orders: DateOrders::default(),
            moments: DateOrders::default(),
            ..Self::default()
        }
    }

    /// What the values could all be, of these types only.
    pub fn limited(mut self, candidates: &[Candidate]) -> Self {
        let is_one = |candidate| candidates.is_empty() || candidates.contains(&candidate);
        self.boolean &= is_one(Candidate::Boolean);
        self.integer &= is_one(Candidate::Integer);
        self.long &= is_one(Candidate::Long);
        self.float &= is_one(Candidate::Double);
        self.time &= is_one(Candidate::Time);
        if !is_one(Candidate::Date) {
            (self.date, self.orders) = (false, DateOrders::default());
        }
        if !is_one(Candidate::Timestamp) {
            (self.timestamp, self.moments) = (false, DateOrders::default());
        }
        self
    }

    /// What the values of both could all be.
    pub fn merge(&mut self, other: &Self) {
        if !self.seen || !other.seen {
            if other.seen {
                *self = other.clone();
            }
            return;
        }
        self.boolean &= other.boolean;
        self.integer &= other.integer;
        self.long &= other.long;
        self.float &= other.float;
        self.date &= other.date;
        self.time &= other.time;
        self.orders.merge(other.orders);
        self.moments.merge(other.moments);
        self.timestamp &= other.timestamp && self.zoned == other.zoned;
        self.nanoseconds |= other.nanoseconds;
    }

    /// The narrowest type for all values; strings if there were none.
    pub fn data_type(&self) -> DataType {
        if !self.seen {
            return DataType::Utf8View;
        }
        if self.boolean {
            DataType::Boolean
        } else if self.integer {
            DataType::Int64
        } else if self.long {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)
        } else if self.float {
            DataType::Float64
        } else if self.date || self.orders.is_there() {
            DataType::Date32
        } else if self.time {
            DataType::Time64(TimeUnit::Microsecond)
        } else if self.timestamp {
            let unit = if self.nanoseconds { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            DataType::Timestamp(unit, (self.zoned == Some(true)).then(|| "UTC".into()))
        } else if self.moments.is_there() {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        } else {
            DataType::Utf8View
        }
    }

    /// The same in files whose dates are written in these forms.
    pub fn data_type_with(&self, forms: &Forms) -> DataType {
        let is_one = |seen: DateOrders| forms.orders.iter().any(|order| seen.may_be(*order));
        // Who says how dates are written wants dates, also of digits that could be numbers: 20240131.
        let told = Self { boolean: false, integer: false, long: false, float: false, ..self.clone() };
        let is_told = forms.date.is_some() && self.date || forms.timestamp.is_some() && self.timestamp;
        match if is_told { told.data_type() } else { self.data_type() } {
            DataType::Date32 if !self.date && (forms.date.is_some() || !is_one(self.orders)) => DataType::Utf8View,
            DataType::Timestamp(..) if !self.timestamp && (forms.timestamp.is_some() || !is_one(self.moments)) => {
                DataType::Utf8View
            }
            other => other,
        }
    }

    /// Whether a value could be one of this column.
    fn fits(&self, quoted: bool, raw: &[u8], forms: &Forms) -> bool {
        let mut with = self.clone();
        with.see(quoted, raw, forms);
        with.data_type() == self.data_type()
    }
}

/// The orders of the dates of files' columns that are not as in ISO 8601.
pub(super) fn date_orders<'g>(guesses: impl Iterator<Item = &'g Guess>) -> Vec<DateOrder> {
    let (mut columns, mut moments) = (Vec::new(), Vec::new());
    for guess in guesses.filter(|guess| guess.seen) {
        columns.extend((!guess.date).then_some(guess.orders));
        moments.extend((!guess.timestamp).then_some(guess.moments));
    }
    columns.append(&mut moments);
    DateOrders::common(&columns)
}

/// The words that are truth values: single letters are those that PostgreSQL writes.
fn is_boolean(raw: &[u8]) -> bool {
    const WORDS: [&[u8]; 6] = [b"true", b"false", b"t", b"f", b"yes", b"no"];
    WORDS.iter().any(|word| raw.eq_ignore_ascii_case(word))
}

/// Whether a digit follows a zero at the start.
fn has_leading_zero(raw: &[u8]) -> bool {
    let digits = raw.strip_prefix(b"-").or(raw.strip_prefix(b"+")).unwrap_or(raw);
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

/// Whole numbers of up to 38 digits.
fn is_long_integer(raw: &[u8]) -> bool {
    let digits = raw.strip_prefix(b"-").or(raw.strip_prefix(b"+")).unwrap_or(raw);
    (1..=DECIMAL128_MAX_PRECISION as usize).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Numbers with a point or an exponent; the words `nan` and `inf` that the parser takes are left to strings unless
/// other values are numbers, so at least one digit is wanted or the exact spelling of other programs.
fn is_float(raw: &[u8]) -> bool {
    let digits = raw.iter().any(u8::is_ascii_digit);
    (digits || matches!(raw, b"NaN" | b"inf" | b"-inf" | b"Infinity" | b"-Infinity"))
        && parse_text::<f64>(raw).is_some()
}

/// Whether a timestamp has a zone behind its time: `Z`, `+02:00`, `UTC` or `Europe/Berlin`.
fn is_zoned(raw: &[u8]) -> bool {
    let Some(behind_date) = raw.get(10..) else { return false };
    let time = behind_date.strip_prefix(b"T").or(behind_date.strip_prefix(b"t")).unwrap_or(behind_date);
    time.iter().any(|byte| matches!(byte, b'+' | b'-') || byte.is_ascii_alphabetic())
}

/// The records at the start of a text, at most so many, as fields. Stops where a record is cut off, and where one is
/// malformed, unless `skips` says that those are left out.
pub(super) fn records(text: &[u8], last: bool, dialect: &Dialect, at_most: usize, skips: bool) -> Vec<Vec<Field>> {
    placed_records(text, last, dialect, at_most, skips).into_iter().map(|(_, fields)| fields).collect()
}

/// The same, with the places where they begin.
fn placed_records(text: &[u8], last: bool, dialect: &Dialect, at_most: usize, skips: bool) -> Vec<(usize, Vec<Field>)> {
    let (mut records, mut at) = (Vec::new(), 0);
    while records.len() < at_most {
        let mut fields = Vec::new();
        match record(text, at, last, dialect, |_, field| fields.push(field)) {
            Found::Record { next } => {
                records.push((at, fields));
                at = next;
            }
            Found::Nothing { next } => at = next,
            Found::Malformed { at: wrong, .. } if skips => match memchr::memchr(b'\n', &text[wrong..]) {
                Some(feed) => at = wrong + feed + 1,
                None => break,
            },
            Found::Incomplete | Found::Malformed { .. } => break,
        }
    }
    records
}

/// Where the first record begins, after empty lines and comments.
pub(super) fn skip_nothing(text: &[u8], dialect: &Dialect) -> usize {
    let mut at = 0;
    while let Found::Nothing { next } = record(text, at, true, dialect, |_, _| {}) {
        at = next;
    }
    at
}

/// The delimiters that are looked for.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Whether lines that begin with `#` are comments: without them all records have the same number of fields, more than
/// one, which none of them has.
pub(super) fn has_comments(text: &[u8], last: bool, name: &str, options: &CsvOptions) -> bool {
    if !text.starts_with(b"#") && memchr::memmem::find(text, b"\n#").is_none() {
        return false;
    }
    let found = CsvOptions { comment: Some(b'#'), comments_are_lines: true, ..options.clone() };
    let commented = dialect(text, last, name, &found);
    let counts = records(text, last, &commented, COMMENT_RECORDS, false).into_iter().map(|record| record.len());
    let counts = counts.collect::<Vec<_>>();
    let Some(&count) = counts.first().filter(|count| **count > 1) else { return false };
    let plain = placed_records(text, last, &Dialect { comment: None, ..commented }, COMMENT_RECORDS, false);
    let mut comments = plain.iter().filter(|(at, _)| text[*at] == b'#').peekable();
    comments.peek().is_some()
        && counts.iter().all(|other| *other == count)
        && comments.all(|(_, fields)| fields.len() != count)
}

/// Records looked at to find comments.
const COMMENT_RECORDS: usize = 1000;

/// The delimiter that a first line `sep=;` says, as spreadsheets write and read it, and the bytes of the line.
pub(super) fn told_by_line(text: &[u8]) -> Option<(u8, usize)> {
    let line = &text[..memchr::memchr(b'\n', text)?];
    let told = line.strip_suffix(b"\r").unwrap_or(line);
    let told = told.strip_prefix(b"\"").and_then(|told| told.strip_suffix(b"\"")).unwrap_or(told);
    match told {
        [word @ .., delimiter] if word.eq_ignore_ascii_case(b"sep=") => Some((*delimiter, line.len() + 1)),
        _ => None,
    }
}

/// Where the header or the first record is, behind lines about the file ([`are_about_the_file`]). 0 if there are no
/// such lines.
pub(super) fn preamble(text: &[u8], last: bool, name: &str, options: &CsvOptions) -> usize {
    let delimiters = told_delimiter(name, options).map_or_else(|| DELIMITERS.to_vec(), |delimiter| vec![delimiter]);
    let found = delimiters.into_iter().filter_map(|delimiter| {
        let records = placed_records(text, last, &dialect_with(options, delimiter), DELIMITER_RECORDS, false);
        let count = records.last().map(|(_, fields)| fields.len()).filter(|count| *count > 1)?;
        let first = records.iter().rposition(|(_, fields)| fields.len() != count).map_or(0, |place| place + 1);
        let is_one = first == 0 || are_about_the_file(text, &records, first);
        is_one.then(|| (count, records[first].0, first == 0 && records.len() > 1))
    });
    let found = found.collect::<Vec<_>>();
    // Where a delimiter splits all lines alike, there are no lines in front of them.
    if let Some((_, start, _)) = found.iter().find(|(_, _, is_even)| *is_even) {
        return *start;
    }
    // Of several delimiters the one that makes the most fields.
    let most = found.iter().map(|(count, _, _)| *count).max().unwrap_or(0);
    let starts = found.into_iter().filter(|(count, _, _)| *count == most).map(|(_, start, _)| start);
    starts.min().unwrap_or(0)
}

/// Whether the records in front of this one are lines about the file: all of them have fewer fields, and the first has
/// one, or all begin with a word and a blank line is behind them, as in `Account;12` and `From;2024-01-01`.
fn are_about_the_file(text: &[u8], records: &[(usize, Vec<Field>)], first: usize) -> bool {
    let (lines, rest) = records.split_at(first);
    let Some((start, record)) = rest.first() else { return false };
    if lines.len() > PREAMBLE_LINES_MAX || lines.iter().any(|(_, fields)| fields.len() >= record.len()) {
        return false;
    }
    if lines.first().is_some_and(|(_, fields)| fields.len() == 1) {
        return rest.len() >= 2;
    }
    let is_word = |field: &Field| {
        let mut guess = Guess::default();
        guess.see(field.is_quoted(), field.raw(text), &Forms::default());
        !field.raw(text).is_empty() && guess.data_type() == DataType::Utf8View
    };
    let is_apart = text[..*start].ends_with(b"\n\n") || text[..*start].ends_with(b"\n\r\n");
    is_apart && rest.len() >= 3 && lines.iter().all(|(_, fields)| fields.first().is_some_and(is_word))
}

/// Lines in front of the header, at most.
const PREAMBLE_LINES_MAX: usize = 20;

/// The delimiter that the options or the file's name say.
fn told_delimiter(name: &str, options: &CsvOptions) -> Option<u8> {
    let lower = name.to_ascii_lowercase();
    options.delimiter.or_else(|| match () {
        () if lower.contains(".tsv") || lower.contains(".tab") => Some(b'\t'),
        () if lower.contains(".psv") => Some(b'|'),
        () => None,
    })
}

fn dialect_with(options: &CsvOptions, delimiter: u8) -> Dialect {
    let is_told = options.delimiter == Some(delimiter);
    Dialect {
        delimiter,
        tail: DelimiterTail::of(if is_told { &options.delimiter_tail } else { &[] }),
        quote: options.quote.unwrap_or(b'"'),
        escape: options.escape,
        comment: options.comment,
        comments_end_records: !options.comments_are_lines,
        pads_quotes: false,
        quotes_inside: options.quotes_inside,
        blank_is_record: false,
    }
}

/// The delimiter and quotes of a text: what the options say, else what splits its first records most evenly. Quotes
/// inside of quotes with a backslash in front of them, and single quotes, are tried where the text makes no sense
/// otherwise.
pub(super) fn dialect(text: &[u8], last: bool, name: &str, options: &CsvOptions) -> Dialect {
    let usual = delimited(text, last, name, options, false);
    let pads = || (!options.quotes_inside).then(|| delimited(text, last, name, options, true));
    let padded = || pads().filter(|padded| is_even(text, last, padded));
    if has_padded_quotes(text, &usual)
        && let Some(padded) = padded()
    {
        return padded;
    }
    if is_even(text, last, &usual) {
        return usual;
    }
    if let Some(padded) = padded() {
        return padded;
    }
    if options.quote.is_some() || options.escape.is_some() {
        return usual;
    }
    let escaped = CsvOptions { escape: Some(b'\\'), ..options.clone() };
    let single = CsvOptions { quote: Some(b'\''), ..options.clone() };
    let mut others = [escaped, single].into_iter().map(|options| delimited(text, last, name, &options, false));
    others.find(|dialect| is_even(text, last, dialect)).unwrap_or(usual)
}

/// Whether the first records are well formed and have all the same number of fields, more than one.
fn is_even(text: &[u8], last: bool, dialect: &Dialect) -> bool {
    let (mut at, mut count) = (0, None);
    for _ in 0..EVEN_RECORDS {
        let mut fields = 0;
        match record(text, at, last, dialect, |number, _| fields = number + 1) {
            Found::Record { next } if *count.get_or_insert(fields) == fields => at = next,
            Found::Record { .. } | Found::Malformed { .. } => return false,
            Found::Nothing { next } => at = next,
            Found::Incomplete => break,
        }
    }
    count.is_some_and(|count| count > 1)
}

/// Records looked at to find quotes.
const EVEN_RECORDS: usize = 1000;

/// Whether there are quotes that begin a field behind blanks, as in `"a", "b"`.
fn has_padded_quotes(text: &[u8], dialect: &Dialect) -> bool {
    let padded = [b' ', dialect.quote];
    let delimiter = dialect.tail.bytes().last().copied().unwrap_or(dialect.delimiter);
    let mut found = memchr::memmem::find_iter(text, &padded);
    found.any(|at| {
        let before = text[..at].iter().rfind(|byte| **byte != b' ');
        before.is_none_or(|byte| DELIMITERS.contains(byte) || [delimiter, b'\n'].contains(byte))
    })
}

/// What stands between the fields of lines of text, which have one field: a byte that texts do not have.
const NO_DELIMITER: u8 = 0x1f;

fn delimited(text: &[u8], last: bool, name: &str, options: &CsvOptions, pads_quotes: bool) -> Dialect {
    let with = |delimiter| Dialect { pads_quotes, ..dialect_with(options, delimiter) };
    if let Some(delimiter) = told_delimiter(name, options) {
        return with(delimiter);
    }
    let mut best = (0, b',');
    // Lines of one field, some of which have delimiters: text that nobody has put in quotes.
    let mut is_text = !options.in_order && !options.null_padding;
    for delimiter in DELIMITERS {
        let records = records(text, last, &with(delimiter), DELIMITER_RECORDS, false);
        let Some(first) = records.first() else { continue };
        let single = records.iter().filter(|record| record.len() == 1).count();
        is_text &= first.len() == 1 && single * 2 > records.len();
        let even = records.iter().filter(|record| record.len() == first.len()).count();
        // All records but perhaps a broken one must agree, unless they may lack fields.
        let is_even = options.null_padding || even * 10 >= records.len() * 9;
        if first.len() > 1 && is_even && first.len() > best.0 {
            best = (first.len(), delimiter);
        }
    }
    if best.0 == 0 && is_text && text.iter().any(|byte| DELIMITERS.contains(byte)) {
        return with(NO_DELIMITER);
    }
    with(best.1)
}

/// Whether the first record holds names. `declared` are the columns of a schema that was given, `in_order` whether they
/// are those of a table that the records are copied into.
pub(super) fn has_header(
    text: &[u8],
    records: &[Vec<Field>],
    dialect: &Dialect,
    is_null: impl Fn(Field) -> bool,
    declared: Option<(&Schema, bool)>,
    forms: &Forms,
) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    if let Some((schema, in_order)) = declared {
        let is_named =
            |field: &Field, name: &str| field.text(text, dialect).trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        let columns = schema.fields();
        if first.iter().all(|field| columns.iter().any(|column| is_named(field, column.name()))) {
            return true;
        }
        let equal = first.iter().zip(columns).filter(|(field, column)| is_named(field, column.name()));
        if !in_order && equal.count() * 2 >= columns.len().max(1) {
            return true;
        }
        // What could be a row is one, unless the columns are said to be texts, whatever they hold.
        let is_text = |column: &ArrowField| *column.data_type() == DataType::Utf8View && checked_type(column).is_none();
        let is_value = |(column, field): (&Arc<ArrowField>, &Field)| {
            let one = std::iter::once(*field);
            is_null(*field)
                || std::str::from_utf8(field.raw(text)).is_ok()
                    && (is_text(column) || column_of(column, text, one, dialect, forms).is_ok())
        };
        let is_typed = in_order || !columns.iter().all(|column| is_text(column));
        if is_typed && columns.iter().zip(first).all(is_value) {
            return false;
        }
    }
    // Quotes somewhere in a field are none of its value.
    let meant = |field: Field| match field.is_mixed() {
        true => field.text(text, dialect),
        false => Cow::Borrowed(field.raw(text)),
    };
    let is_quoted = |field: Field| field.is_quoted() && !field.is_mixed();
    let mut guesses = vec![Guess::default(); first.len()];
    for record in rest {
        for (guess, &field) in guesses.iter_mut().zip(record) {
            if !is_null(field) {
                guess.see(is_quoted(field), &meant(field), forms);
            }
        }
    }
    // A name among numbers or dates gives the header away.
    let typed = |guess: &Guess| guess.seen && guess.data_type() != DataType::Utf8View;
    let stranger = guesses
        .iter()
        .zip(first)
        .any(|(guess, &field)| typed(guess) && !is_null(field) && !guess.fits(is_quoted(field), &meant(field), forms));
    if stranger || declared.is_none() && names_all_but_numbers(text, records, forms) {
        return true;
    }
    if guesses.iter().any(typed) || declared.is_some() {
        return false;
    }
    // Only strings everywhere: names are there, differ from each other, and are no numbers. `t` and `no` are names.
    let mut names = first.iter().map(|field| field.text(text, dialect)).collect::<Vec<_>>();
    let count = names.len();
    names.sort();
    names.dedup();
    let named = first.iter().all(|&field| {
        let mut alone = Guess::default();
        alone.see(field.is_quoted(), field.raw(text), forms);
        !field.raw(text).is_empty() && matches!(alone.data_type(), DataType::Utf8View | DataType::Boolean)
    });
    named && names.len() == count
}

/// Whether the first record has names of all columns but the first, which has the numbers of records from 0 or 1 on, or
/// any whole numbers below an empty field in quotes: so programs write tables whose rows are numbered.
fn names_all_but_numbers(text: &[u8], records: &[Vec<Field>], forms: &Forms) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    let Some((corner, names)) = first.split_first().filter(|(corner, _)| corner.raw(text).is_empty()) else {
        return false;
    };
    let is_name = |field: &Field| {
        let mut alone = Guess::default();
        alone.see(field.is_quoted(), field.raw(text), forms);
        !field.raw(text).is_empty() && alone.data_type() == DataType::Utf8View
    };
    let number = |record: &Vec<Field>| record.first().and_then(|field| parse_integer::<i64>(field.raw(text)));
    let begin =
        rest.first().and_then(number).filter(|begin| corner.is_quoted() || rest.len() > 1 && matches!(begin, 0 | 1));
    let Some(begin) = begin.filter(|_| !names.is_empty() && names.iter().all(is_name)) else { return false };
    rest.iter()
        .zip(begin..)
        .all(|(record, wanted)| number(record).is_some_and(|found| corner.is_quoted() || found == wanted))
}

/// The names in a header.
pub(super) fn names(text: &[u8], header: &[Field], dialect: &Dialect, are_plain: bool) -> Vec<String> {
    let names = header.iter().enumerate().map(|(number, field)| {
        match String::from_utf8_lossy(&field.text(text, dialect)).trim() {
            "" => format!("column_{}", number + 1),
            name if are_plain => plain_name(name),
            name => name.to_owned(),
        }
    });
    names.collect()
}

/// A name in small letters, digits and underscores, which needs no quotes.
fn plain_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_alphanumeric() { letter } else { '_' };
    let mut plain = name.to_lowercase().chars().map(letter).collect::<String>();
    while plain.contains("__") {
        plain = plain.replace("__", "_");
    }
    if plain.starts_with(|first: char| first.is_ascii_digit()) { format!("_{plain}") } else { plain }
}

/// Whether all records end in an empty field, as if delimiters ended fields rather than separated them.
pub(super) fn is_trailing(records: &[Vec<Field>], text: &[u8]) -> bool {
    records.iter().all(|record| {
        record.len() > 1 && record.last().is_some_and(|field| !field.is_quoted() && field.raw(text).is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_may_lack_the_name_of_numbers() {
        let found = |text: &str| {
            let text = text.as_bytes();
            let dialect = dialect(text, true, "a.csv", &CsvOptions::default());
            let forms = Forms::default();
            let records = records(text, true, &dialect, 100, false);
            has_header(text, &records, &dialect, |field| forms.says_nothing(field, field.raw(text)), None, &forms)
        };
        assert!(found(",name,town\n0,Ada,Rome\n1,Bob,Bonn\n"));
        assert!(found("\"\",\"name\"\n\"1\",\"Ada\"\n\"7\",\"Bob\"\n"));
        assert!(!found(",name\n0,Ada\n2,Bob\n"));
        assert!(!found(",Ada\n5,Bob\n6,Cid\n"));
        assert!(!found(",Ada\n1,Bob\n"));
        assert!(!found("\"\"\n\"1\"\n\"2\"\n"));
        assert!(!found("\"\",\"3\"\n\"1\",\"4\"\n"));
    }

    #[test]
    fn lines_of_text_have_one_field() {
        let found = |text: &str| dialect(text.as_bytes(), true, "a.csv", &CsvOptions::default()).delimiter;
        assert_eq!(found("line\nSmith, John\nfoo\nbar\n"), NO_DELIMITER);
        assert_eq!(found("note\na;b\nc\nd,e\nf\n"), NO_DELIMITER);
        assert_eq!(found("n\n1\n2\n"), b',');
        assert_eq!(found("a,b,c\n1,2,3\n4,5\n6,7,8\n"), b',');
        assert_eq!(found("report\na,b\n1,2\n3,4\n"), b',');
        let copied = CsvOptions { in_order: true, ..CsvOptions::default() };
        assert_eq!(dialect(b"a\nb, c\nd\n", true, "a.csv", &copied).delimiter, b',');
    }

    fn guess(values: &[&str]) -> DataType {
        let mut guess = Guess::default();
        values.iter().for_each(|value| guess.see(false, value.as_bytes(), &Forms::default()));
        guess.data_type()
    }

    #[test]
    fn types_are_those_that_are_allowed() {
        let guess = |values: &[&str]| {
            let mut guess = Guess::default();
            values.iter().for_each(|value| guess.see(false, value.as_bytes(), &Forms::default()));
            guess
        };
        for (values, candidates, expected) in [
            (&["1", "2"][..], &[][..], DataType::Int64),
            (&["1", "2"], &[Candidate::Double, Candidate::Text], DataType::Float64),
            (&["1", "2"], &[Candidate::Date], DataType::Utf8View),
            (&["2024-01-02"], &[Candidate::Integer], DataType::Utf8View),
            (&["2024-01-02"], &[Candidate::Timestamp], DataType::Timestamp(TimeUnit::Microsecond, None)),
        ] {
            assert_eq!(guess(values).limited(candidates).data_type(), expected, "{values:?} {candidates:?}");
        }
    }

    #[test]
    fn types_are_guessed() {
        use DataType::*;
        assert_eq!(guess(&["1", "-2"]), Int64);
        assert_eq!(guess(&["1", "2.5"]), Float64);
        assert_eq!(guess(&["1", "99999999999999999999"]), Decimal128(38, 0));
        assert_eq!(guess(&["true", "False"]), Boolean);
        assert_eq!(guess(&["1", "true"]), Utf8View);
        assert_eq!(guess(&["2024-01-01"]), Date32);
        assert_eq!(guess(&["2024-01-01", "2024-01-01 10:00:00"]), Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(guess(&["2024-01-01 10:00:00.1234567"]), Timestamp(TimeUnit::Nanosecond, None));
        assert_eq!(guess(&["2024-01-01T10:00:00Z"]), Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
        assert_eq!(guess(&["2024-01-01T10:00:00Z", "2024-01-01T10:00:00"]), Utf8View);
        for zoned in ["2024-01-01 10:00:00 UTC", "2024-01-01 10:00:00 Europe/Berlin", "2024-01-01 10:00:00+02"] {
            assert_eq!(guess(&[zoned]), Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "{zoned}");
        }
        assert_eq!(guess(&["+4930123", "5"]), Utf8View);
        assert_eq!(guess(&["+1.5"]), Utf8View);
        assert_eq!(guess(&["007", "12"]), Utf8View);
        assert_eq!(guess(&["01/02/2024", "13/02/2024"]), Date32);
        assert_eq!(guess(&["01/02/2024", "12/02/2024"]), Date32);
        assert_eq!(guess(&["01/02/2024", "13/13/2024"]), Utf8View);
        assert_eq!(guess(&["2024/1/2", "2024/12/31"]), Date32);
        assert_eq!(guess(&["2024-01-01 10:00", "2024-01-01 10:00:00"]), Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(guess(&["01/02/2024 10:00:00", "31/12/2024 10:00 PM"]), Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(guess(&["01/02/2024 10:00:00", "31/12/2024"]), Utf8View);
        assert_eq!(guess(&["t", "F", "yes"]), Boolean);
        assert_eq!(guess(&["y", "n"]), Utf8View);
        assert_eq!(guess(&["31.12.2024"]), Date32);
        assert_eq!(guess(&["10:30:00", "9:05"]), Time64(TimeUnit::Microsecond));
        assert_eq!(guess(&["0", "0.5", "-0"]), Float64);
        assert_eq!(guess(&["nan"]), Utf8View);
        assert_eq!(guess(&[]), Utf8View);
        assert_eq!(guess(&["x"]), Utf8View);
    }

    fn header(text: &str) -> bool {
        header_with(text, &CsvOptions::default())
    }

    fn header_with(text: &str, options: &CsvOptions) -> bool {
        header_of(text, options, None)
    }

    fn header_of(text: &str, options: &CsvOptions, declared: Option<(&Schema, bool)>) -> bool {
        let dialect = dialect(text.as_bytes(), true, "a.csv", options);
        let records = records(text.as_bytes(), true, &dialect, 100, false);
        has_header(
            text.as_bytes(),
            &records,
            &dialect,
            |field| field.raw(text.as_bytes()).is_empty(),
            declared,
            &Forms::default(),
        )
    }

    #[test]
    fn rows_of_declared_columns_are_no_header() {
        let columns = [("id", DataType::Int64), ("code", DataType::Utf8View)];
        let schema = Schema::new(columns.map(|(name, ty)| ArrowField::new(name, ty, true)).to_vec());
        let copied = |text: &str| header_of(text, &CsvOptions::default(), Some((&schema, true)));
        assert!(copied("id,code\n1,x\n") && copied("CODE, id\n1,x\n") && copied("number,name\n1,x\n"));
        // The codes are numbers but for the first one.
        assert!(!copied("1,x\n2,5\n3,6\n") && !copied("1,code\n2,y\n") && !copied(",code\n2,y\n"));
        // Wrong values are no names.
        assert!(!copied("x,y\nz,y\n") && !copied("x,y\n"));
        let declared = |text: &str| header_of(text, &CsvOptions::default(), Some((&schema, false)));
        assert!(declared("id,name\n1,x\n") && !declared("1,x\n2,5\n"));
        let texts = ["a", "b"].map(|name| ArrowField::new(name, DataType::Utf8View, true));
        let texts = Schema::new(texts.to_vec());
        let of_texts = |in_order| header_of("id,name\n1,x\n2,y\n", &CsvOptions::default(), Some((&texts, in_order)));
        assert!(of_texts(false) && !of_texts(true));
        assert!(header_of("b,A\nx,y\n", &CsvOptions::default(), Some((&texts, false))));
    }

    #[test]
    fn headers_are_recognized() {
        // Where quotes begin anywhere, as in COPY, they are none of a number.
        let inside = CsvOptions { quotes_inside: true, ..CsvOptions::default() };
        assert!(!header_with("1, \"5\"\n 2 ,6\n", &inside) && !header_with("\"1\"2,3\n4,5\n", &inside));
        assert!(header_with("a,\"b\"c\n1,\"2\"3\n", &inside));
        assert!(header("a,b\n1,2\n"));
        assert!(header("name,city\nann,rome\n"));
        assert!(!header("1,2\n3,4\n"));
        assert!(!header("x,1\ny,2\n"));
        assert!(header("a\n"));
        assert!(header("t\n02-Jan-2024\n"));
        assert!(header("no,f\nx1,y1\n"));
        assert!(!header("t\nf\n"));
        assert!(!header("a,a\nb,c\n"));
    }

    #[test]
    fn lines_about_the_file_are_recognized() {
        fn start(text: &str) -> &str {
            &text[preamble(text.as_bytes(), true, "a.csv", &CsvOptions::default())..]
        }
        assert_eq!(start("Title\nBy: a, b\n\nid,n,x\n1,2,3\n"), "id,n,x\n1,2,3\n");
        assert_eq!(start("Title; 1\nid;n\n1;2\n"), "Title; 1\nid;n\n1;2\n");
        for plain in ["a,b\n1,2\n", "a,b\n1,2,3\n4,5,6\n", "a\n1\n", "a\n1,2\n", "a,b,c\n1\n2,3,4\n5,6,7\n"] {
            assert_eq!(start(plain), plain);
        }
        let bank = "Account;DE12\nFrom;2024-01-01\n\nday;text;amount\n1.2.2024;a;-5,00\n2.2.2024;b;2,50\n";
        assert_eq!(start(bank), &bank[bank.find("day").unwrap()..]);
        for plain in [
            "name,notes\nAnn,\"a; b; c\"\nBob,d; e; f\n",
            "a,b\n1,2\n\nc,d,e\n1,2,3\n4,5,6\n",
            "a,b\nx,2\nc,d,e\n1,2,3\n4,5,6\n",
        ] {
            assert_eq!(start(plain), plain);
        }
        let comments = |text: &str| has_comments(text.as_bytes(), true, "a.csv", &CsvOptions::default());
        assert!(comments("# c\n# d,e\nid,n,x\n1,2,3\n"));
        assert!(comments("id,n\n1,2\n# c\n3,4\n"));
        assert!(!comments("#id,n\n1,2\n"));
        assert!(!comments("##x\n#id,n\n1,2\n"));
        assert!(!comments("tag\n#a\n#b\n"));
    }

    #[test]
    fn a_line_says_the_delimiter() {
        assert_eq!(told_by_line(b"sep=;\na;b\n"), Some((b';', 6)));
        assert_eq!(told_by_line(b"\"SEP=|\"\r\na|b\n"), Some((b'|', 9)));
        for other in [&b"sep=;"[..], b"sep=\n1\n", b"sep=;;\n", b"separate\n", b"\n"] {
            assert_eq!(told_by_line(other), None);
        }
    }

    #[test]
    fn quotes_are_recognized() {
        let find = |text: &str| {
            let dialect = dialect(text.as_bytes(), true, "a.csv", &CsvOptions::default());
            (dialect.quote, dialect.escape)
        };
        assert_eq!(find("a,b\n\"x\",1\n\"y \"\"z\"\"\",2\n"), (b'"', None));
        assert_eq!(find("a,b\n\"x \\\"y\\\" z\",1\nb,2\n"), (b'"', Some(b'\\')));
        assert_eq!(find("a,b\n'x,y',1\n'z',2\n"), (b'\'', None));
        assert_eq!(find("a,b\n'tis,1\n1,2,3\n"), (b'"', None));
        let pads = |text: &str| dialect(text.as_bytes(), true, "a.csv", &CsvOptions::default()).pads_quotes;
        assert!(pads("\"a\", \"b\"\n\"x\", \"y, z\"\n"));
        assert!(pads("a; b\n1;   \"x; y\"\n"));
        assert!(pads("a,b\n \"x\",1\n\"y\" ,2\n"));
        assert!(pads("a,b\n\"x\" ,1\n\"y\",2\n"));
        assert!(!pads("a,b\n1, \"x\" and more\n"));
        assert!(!pads("a,b\n1,say \"x\"\n"));
        assert_eq!(find("a\n1\n"), (b'"', None));
    }

    #[test]
    fn delimiters_are_recognized() {
        let find = |text: &str| dialect(text.as_bytes(), true, "a.csv", &CsvOptions::default()).delimiter;
        assert_eq!(find("a,b\n1,2\n"), b',');
        assert_eq!(find("a;b\n1,5;2\n3;4\n"), b';');
        assert_eq!(find("a|b|c\nx|y|z\n"), b'|');
        assert_eq!(find("alone\nword\n"), b',');
    }
}
