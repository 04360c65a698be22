//! Files of JSON objects as a table: one object per line, objects one after another, or one array of objects.
//!
//! A field that an object does not have is NULL. The schema is inferred, unless it is given, from all records or, of
//! files that are long, from some of them; then a record that has another key or a value of another type is an error.
//! A field that the table does not have is left out where the statement says the columns.

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use diligence_base::{Error, Result};

use super::csv_values::Forms;
use super::input::TextInput;
use super::json_columns::{Column, Record, TWICE};
use super::json_infer::{Members, NO_OBJECT};
use super::json_text::{Flaw, Kind, kind, skip_space, value_end};
use super::{
    Encoded, Part, Sample, SourceReader, TextBytes, TextFile, UNCLOSED, WINDOW_BYTES_MAX, byte_order_mark,
    compressions, place, probes, sample, unclosed,
};
use crate::external::batches::{BatchSource, BatchWindows, missing_columns_of};
use crate::external::file_scan::FileScan;
use crate::external::options::{Compression, OpenOptions};
use crate::external::rejects::{Reject, RejectKind, RejectScan, ScanRejects};
use crate::external::schema::{conform_column, logical_schema, type_name, with_types};
use crate::external::selection::filter_array;
use crate::external::sieve::Sieve;
use crate::external::source::Source;
use crate::{Cluster, Decode, DecodeRequest, Fetch, Fetched};

/// The files of a table, opened.
pub(in crate::external) struct JsonTable {
    pub(in crate::external) schema: SchemaRef,
    files: Vec<JsonFile>,
    /// Whether the statement says the columns, and not the records.
    is_declared: bool,
    /// Whether the only column has the records as they are.
    is_whole: bool,
    /// Whether records that are wrong are left out.
    ignores_errors: bool,
    /// Where those are kept that are left out, if they are.
    rejects: Option<ScanRejects>,
    /// How dates and timestamps are written.
    forms: Arc<Forms>,
}

struct JsonFile {
    text: Arc<TextFile>,
    form: Form,
    record_bytes: f64,
    bytes: u64,
}

/// How records follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One per line.
    Lines,
    /// One after another, over several lines each.
    Values,
    /// In one array.
    Array,
}

impl JsonTable {
    /// Looks at the records of all files.
    pub fn open(sources: &[Arc<Source>], options: &OpenOptions) -> Result<Self> {
        let compressions = compressions(sources, options)?;
        let mut members = Members::default();
        let mut files = Vec::with_capacity(sources.len());
        let mut budget = if options.inference_rows == usize::MAX { u64::MAX } else { INFERENCE_BYTES };
        for (source, compression) in sources.iter().zip(compressions) {
            files.push(look(source, compression, options, &mut members, &mut budget)?);
        }
        if options.ignore_errors {
            // Records are objects if some are, and all others are wrong.
            members.forget_others();
        }
        if options.json.objects_only && members.has_others() {
            let error = sources[0].error("it has records that are no objects, which records => true wants");
            return Err(error.with_hint("records => false makes one column of whole records"));
        }
        let is_whole;
        let schema = match &options.schema {
            Some(schema) => {
                is_whole = options.json.whole && schema.fields().len() == 1;
                schema.as_ref().clone()
            }
            None => {
                let columns;
                (columns, is_whole) = members.columns(&options.json);
                with_types(Schema::new(columns), &options.types)?
            }
        };
        let logical = logical_schema(&schema);
        let fields = logical.fields().iter().map(|field| {
            // A field without any value so far may hold anything later.
            let field = field.as_ref().clone().with_nullable(true);
            if *field.data_type() == DataType::Null { field.with_data_type(DataType::Utf8View) } else { field }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rejects = options.rejects.as_ref().map(|rejects| {
            let columns = schema.fields().iter();
            let columns = columns.map(|field| format!("'{}': '{}'", field.name(), type_name(field.data_type())));
            let columns = format!("{{{}}}", columns.collect::<Vec<_>>().join(", "));
            let scans = files.iter().map(|file: &JsonFile| RejectScan {
                scan: 0,
                file: file.text.clone(),
                written: None,
                columns: columns.clone(),
                date_format: options.json.date_format.clone(),
                timestamp_format: options.json.timestamp_format.clone(),
            });
            rejects.begin(scans.collect(), options.rejects_max)
        });
        let (is_declared, ignores_errors) = (options.schema.is_some(), options.ignore_errors);
        let forms = Arc::new(Forms::of_json(&options.json));
        Ok(Self { schema, files, is_declared, is_whole, ignores_errors, rejects, forms })
    }

    /// The number of its scan among those whose records that are left out are kept.
    pub fn scan_number(&self) -> Option<i64> {
        self.rejects.as_ref().map(ScanRejects::scan)
    }

    /// Rows estimated from the sample.
    pub fn statistics(&self) -> Statistics {
        let rows = self.files.iter().map(|file| file.bytes as f64 / file.record_bytes).sum::<f64>();
        let bytes = self.files.iter().map(|file| file.bytes).sum::<u64>();
        let columns = self.schema.fields().iter().map(|_| ColumnStatistics::new_unknown());
        Statistics {
            num_rows: Precision::Inexact(rows.ceil() as usize),
            total_byte_size: Precision::Inexact(bytes as usize),
            column_statistics: columns.collect(),
        }
    }

    /// All clusters: text files have no statistics.
    pub fn scan(self: &Arc<Self>, is_wanted: impl Fn(usize) -> bool) -> Result<FileScan> {
        let mut scan = FileScan::default();
        for (index, file) in self.files.iter().enumerate() {
            if !is_wanted(index) {
                scan.clusters_pruned += 1;
                continue;
            }
            for (number, part) in file.text.parts(file.form == Form::Lines).into_iter().enumerate() {
                let place = place(index, number);
                scan.clusters.push((index, Arc::new(JsonCluster { table: self.clone(), file: index, place, part })));
            }
        }
        Ok(scan)
    }
}

/// Looks at one file; what its records have goes to `members`. Its records are all looked at if `budget` has as many
/// bytes.
fn look(
    source: &Arc<Source>,
    compression: Compression,
    options: &OpenOptions,
    members: &mut Members,
    budget: &mut u64,
) -> Result<JsonFile> {
    let forms = Forms::of_json(&options.json);
    let mut more = 0;
    loop {
        let Sample { mut text, complete, bytes } = sample(source, compression, more)?;
        let encoded = Encoded::of(&text, options).map(Encoded::without_line_ends);
        let encoded = encoded.filter(Encoded::is_needed);
        if let Some(encoded) = &encoded {
            text = encoded.whole(&text);
        }
        let mark = byte_order_mark(&text);
        let body = &text[mark..];
        let form = form_of(body, options.json.array);
        if options.json.array == Some(true) && !body.trim_ascii_start().starts_with(b"[") {
            return Err(source.error("it begins with no array, and the format is array"));
        }
        let mut plain = body.to_vec();
        if form == Form::Array {
            let mut unwrap = Unwrap::default();
            unwrap.unwrap(&mut plain);
            if complete && unwrap.depth == 1 && !options.ignore_errors {
                return Err(source.error(UNCLOSED));
            }
        }
        let mut seen = Members::default();
        let (found, used, flaw) = see_records(&mut seen, &plain, !complete, options.rows_to_infer(), &forms);
        if found == 0 && !complete && more < 4 && matches!(flaw, None | Some(Flaw::Incomplete)) {
            more += 1;
            continue;
        }
        let text =
            Arc::new(TextFile { source: source.clone(), compression, encoded: encoded.clone(), body: mark as u64 });
        let file = |used: usize, found: usize| {
            let record_bytes = (used as f64 / found.max(1) as f64).max(1.0);
            JsonFile { text: text.clone(), form, record_bytes, bytes }
        };
        match flaw {
            Some(Flaw::Incomplete) if !complete => {}
            Some(_) if options.ignore_errors => {}
            Some(flaw) => return Err(explain(source, &plain, 0, used, flaw)),
            None => {}
        }
        if options.schema.is_some() {
            return Ok(file(used, found));
        }
        let is_whole = complete && found < options.rows_to_infer();
        if !is_whole && (options.inference_rows == 0 || options.inference_rows == usize::MAX) && bytes <= *budget {
            // What a packed file holds is an estimate.
            let (found, length) = see_all(&text, form, options, *budget, members)?;
            *budget = budget.saturating_sub(length as u64);
            return Ok(file(length, found));
        }
        members.merge(&seen);
        if !is_whole && form == Form::Lines && encoded.is_none() {
            for probe in probes(source, compression)? {
                // What is wrong with a record is said when it is read.
                see_records(members, &probe, true, usize::MAX, &forms);
            }
        }
        return Ok(file(used, found));
    }
}

/// Text that is looked at when a table is opened: about a tenth of a second. Of longer files, a sample.
const INFERENCE_BYTES: u64 = 64 * 1024 * 1024;

/// Text that one thread looks at, about.
const PIECE_BYTES: usize = 1024 * 1024;

/// Takes records into account: how many, where the last one ends, and what is wrong with the next. A number at the end
/// of a text that goes on is incomplete: it may have more digits.
fn see_records(
    members: &mut Members,
    text: &[u8],
    goes_on: bool,
    at_most: usize,
    forms: &Forms,
) -> (usize, usize, Option<Flaw>) {
    let (mut found, mut at) = (0, 0);
    while found < at_most {
        let start = skip_space(text, at);
        let is_here = match text.get(start) {
            None | Some(b'{') => Ok(()),
            Some(_) if goes_on => is_whole(text, start),
            Some(_) => Ok(()),
        };
        match is_here.and_then(|()| members.see_record(text, at, forms)) {
            Ok(Some(end)) => (found, at) = (found + 1, end),
            Ok(None) => break,
            Err(flaw) => return (found, at, Some(flaw)),
        }
    }
    (found, at, None)
}

/// Text of a file that has not been looked at.
struct Unseen {
    reader: Box<dyn Read + Send>,
    form: Form,
    /// Text that was read.
    rest: Vec<u8>,
    /// Lines before it.
    lines: usize,
    /// Pieces handed out.
    pieces: usize,
    /// Bytes that were read, and how many at most.
    read: u64,
    read_max: u64,
    is_read: bool,
}

/// A piece of the text of a file.
struct Piece {
    number: usize,
    text: Vec<u8>,
    /// Lines before it.
    lines: usize,
    is_last: bool,
}

impl Unseen {
    fn new(file: &TextFile, form: Form, read_max: u64) -> Result<Self> {
        let reader = file.reader_of(SourceReader::new(&file.source))?;
        let mut reader: Box<dyn Read + Send> = match form {
            Form::Array => ArrayReader::over(reader, false),
            Form::Lines | Form::Values => reader,
        };
        std::io::copy(&mut reader.by_ref().take(file.body), &mut std::io::sink())
            .map_err(|error| file.unreadable(error))?;
        Ok(Self { reader, form, rest: Vec::new(), lines: 0, pieces: 0, read: 0, read_max, is_read: false })
    }

    /// The next piece; of lines, whole ones.
    fn next(&mut self) -> std::io::Result<Option<Piece>> {
        let mut wanted = PIECE_BYTES;
        let end = loop {
            let old = self.rest.len();
            if !self.is_read {
                let read = self.reader.by_ref().take(wanted as u64).read_to_end(&mut self.rest)?;
                self.read += read as u64;
                self.is_read = read < wanted || self.read >= self.read_max;
            }
            if self.is_read || self.form != Form::Lines {
                break self.rest.len();
            }
            if let Some(feed) = memchr::memrchr(b'\n', &self.rest[old..]) {
                break old + feed + 1;
            }
            // Doubling keeps the copies of a long record linear.
            wanted = wanted.max(self.rest.len());
        };
        if end == 0 {
            return Ok(None);
        }
        let rest = self.rest.split_off(end);
        let text = std::mem::replace(&mut self.rest, rest);
        let piece = Piece { number: self.pieces, text, lines: self.lines, is_last: self.is_read };
        self.pieces += 1;
        self.lines += memchr::memchr_iter(b'\n', &piece.text).count();
        Ok(Some(piece))
    }

    /// Takes the end of the last piece back: it holds the begin of a record.
    fn take_back(&mut self, mut piece: Piece, at: usize) {
        self.lines = piece.lines + memchr::memchr_iter(b'\n', &piece.text[..at]).count();
        piece.text.drain(..at);
        self.rest = piece.text;
    }

    /// Whether the text goes on behind what was read.
    fn is_cut(&self) -> bool {
        self.read >= self.read_max
    }
}

/// Takes the records of a file into account, up to about `bytes` of its text: how many there are, in how many bytes.
fn see_all(
    file: &TextFile,
    form: Form,
    options: &OpenOptions,
    bytes: u64,
    members: &mut Members,
) -> Result<(usize, usize)> {
    let (ignores_errors, forms) = (options.ignore_errors, Forms::of_json(&options.json));
    let unseen = Mutex::new(Unseen::new(file, form, bytes)?);
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let pieces = file.source.bytes.div_ceil(PIECE_BYTES as u64);
    // A record that is not one line may go on in the next piece.
    let threads = if form == Form::Lines { (pieces as usize).clamp(1, cores.min(8)) } else { 1 };
    let work = || {
        let (mut seen, mut count) = (Vec::new(), 0);
        loop {
            let piece = locked(&unseen).next().map_err(|error| (0, file.unreadable(error)));
            let piece = match piece {
                Ok(Some(piece)) => piece,
                Ok(None) => return (seen, count, None),
                Err(error) => return (seen, count, Some(error)),
            };
            let (number, text) = (piece.number, &piece.text);
            let mut shape = Members::default();
            let mut at = 0;
            loop {
                let goes_on = form != Form::Lines && !piece.is_last;
                let (found, used, flaw) = see_records(&mut shape, &text[at..], goes_on, usize::MAX, &forms);
                count += found;
                match flaw {
                    None => break,
                    Some(Flaw::Incomplete) if goes_on => {
                        locked(&unseen).take_back(piece, at + used);
                        break;
                    }
                    Some(_) if piece.is_last && locked(&unseen).is_cut() => break,
                    Some(_) if ignores_errors && form == Form::Lines => {
                        let begin = skip_space(text, at + used);
                        at = memchr::memchr(b'\n', &text[begin..]).map_or(text.len(), |feed| begin + feed + 1);
                    }
                    Some(_) if ignores_errors => return (seen, count, None),
                    Some(flaw) => {
                        let flaw = match flaw {
                            Flaw::Malformed { at: place, what } => Flaw::Malformed { at: at + place, what },
                            other => other,
                        };
                        let error = explain(&file.source, text, piece.lines, at + used, flaw);
                        return (seen, count, Some((number, error)));
                    }
                }
            }
            seen.push((number, shape));
        }
    };
    let outcomes = std::thread::scope(|scope| {
        let workers = (0..threads).map(|_| scope.spawn(work)).collect::<Vec<_>>();
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    let (mut shapes, mut records) = (Vec::new(), 0);
    let mut first: Option<(usize, Error)> = None;
    for outcome in outcomes {
        let (seen, count, error) = outcome.map_err(|_| Error::bug("looking at JSON records panicked"))?;
        shapes.extend(seen);
        records += count;
        if let Some(error) = error
            && first.as_ref().is_none_or(|(number, _)| error.0 < *number)
        {
            first = Some(error);
        }
    }
    if let Some((_, error)) = first {
        return Err(error);
    }
    shapes.sort_by_key(|(number, _)| *number);
    shapes.iter().for_each(|(_, shape)| members.merge(shape));
    Ok((records, locked(&unseen).read as usize))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is wrong with the record behind a position of a text, which has `lines` before it.
fn explain(source: &Source, text: &[u8], lines: usize, at: usize, flaw: Flaw) -> Error {
    let start = skip_space(text, at);
    let (at, what) = match flaw {
        Flaw::Malformed { what: NO_OBJECT, .. } => (start, no_object(&text[start..])),
        Flaw::Malformed { at, what } => (at, what.to_owned()),
        Flaw::Incomplete => (start, CUT_OFF.to_owned()),
        Flaw::Misfit { key, what } => (start, format!("key '{key}': {what}")),
    };
    let line = lines + memchr::memchr_iter(b'\n', &text[..at.min(text.len())]).count() + 1;
    source.error(format!("line {line}: {what}"))
}

fn no_object(text: &[u8]) -> String {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    format!("{NO_OBJECT} but {}", String::from_utf8_lossy(line).chars().take(40).collect::<String>().trim_end())
}

const CUT_OFF: &str = "the record is cut off; the file is truncated";

/// How the records of a text follow each other. `is_array` is what the statement says.
fn form_of(text: &[u8], is_array: Option<bool>) -> Form {
    let text = text.trim_ascii_start();
    if is_array == Some(true) {
        return Form::Array;
    }
    if text.starts_with(b"[") && is_array.is_none() {
        // Arrays one after another are records of their own.
        let is_followed = value_end(text, 0, 0).is_ok_and(|end| !text[end..].trim_ascii().is_empty());
        if !is_followed {
            return Form::Array;
        }
    }
    match memchr::memchr(b'\n', text) {
        Some(feed) if value_end(&text[..feed], 0, 0) == Err(Flaw::Incomplete) => Form::Values,
        _ => Form::Lines,
    }
}

/// Makes one object after another of an array: the outer brackets and commas become spaces. It knows where in the
/// array the text ends.
#[derive(Default)]
struct Unwrap {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Unwrap {
    fn unwrap(&mut self, text: &mut [u8]) {
        for byte in text {
            if self.in_string {
                match *byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match *byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    if self.depth == 0 {
                        *byte = b' ';
                    }
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        *byte = b' ';
                    }
                }
                b',' if self.depth == 1 => *byte = b' ',
                _ => {}
            }
        }
    }
}

/// Reads the objects of an array.
struct ArrayReader {
    inner: Box<dyn Read + Send>,
    unwrap: Unwrap,
    /// Whether an array that ends between two objects, but with no bracket, is an error.
    is_strict: bool,
}

impl ArrayReader {
    fn over(inner: Box<dyn Read + Send>, is_strict: bool) -> Box<dyn Read + Send> {
        Box::new(Self { inner, unwrap: Unwrap::default(), is_strict })
    }
}

impl Read for ArrayReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        // Within an object, the reader of records says more.
        if read == 0 && !buffer.is_empty() && self.is_strict && self.unwrap.depth == 1 {
            return Err(unclosed());
        }
        self.unwrap.unwrap(&mut buffer[..read]);
        Ok(read)
    }
}

/// A part of a file.
struct JsonCluster {
    table: Arc<JsonTable>,
    file: usize,
    place: u64,
    part: Part,
}

impl JsonCluster {
    fn file(&self) -> &JsonFile {
        &self.table.files[self.file]
    }
}

impl fmt::Debug for JsonCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Cluster for JsonCluster {
    fn rows(&self) -> Option<usize> {
        None
    }

    fn bytes(&self, _: &[usize]) -> usize {
        self.file().text.part_bytes(&self.part)
    }

    fn fetch(&self, _: &[usize]) -> Fetch {
        self.file().text.fetch(&self.part)
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        if fetched.is_nothing() {
            return Ok(Box::new(Sieve::of_shared(request, self.table.schema.clone())?));
        }
        let bytes = fetched
            .content
            .downcast::<TextBytes>()
            .map_err(|_| Error::bug("what was fetched from another cluster came to a JSON cluster"))?;
        let file = self.file();
        let wrap: Option<fn(Box<dyn Read + Send>) -> Box<dyn Read + Send>> = match file.form {
            Form::Array if self.table.ignores_errors => Some(|inner| ArrayReader::over(inner, false)),
            Form::Array => Some(|inner| ArrayReader::over(inner, true)),
            _ => None,
        };
        let input = TextInput::new(&file.text, &self.part, *bytes, wrap)?;
        let columns = missing_columns_of(request);
        let fields = self.table.schema.fields();
        let wanted = (0..fields.len()).map(|index| columns.binary_search(&index).ok().map(|_| &fields[index]));
        let record = match (self.table.is_whole, fields.first()) {
            (true, Some(field)) if columns.contains(&0) => {
                Taker::Whole(Box::new(Column::new(field, !self.table.is_declared, &self.table.forms)?))
            }
            (true, _) => Taker::Nothing,
            _ => {
                let wanted = wanted.collect::<Vec<_>>();
                Taker::Fields(Record::new(fields, &wanted, !self.table.is_declared, &self.table.forms)?)
            }
        };
        let schema = Arc::new(self.table.schema.project(&columns).map_err(crate::foreign_error::from_arrow)?);
        // Batches smaller than a few hundred rows cost more than they hold.
        let batch_rows = request.batch_rows.max(256);
        let by_line = file.form == Form::Lines;
        let (table, file) = (self.table.clone(), self.file);
        let source = JsonBatches { input, table, file, schema, record, batch_rows, by_line, parsed: 0 };
        let windows = BatchWindows::new(source, columns);
        Ok(Box::new(Sieve::new(windows, request.clone(), self.table.schema.clone())))
    }

    fn describe(&self) -> String {
        self.file().text.describe(&self.part)
    }

    fn place(&self) -> Option<u64> {
        Some(self.place)
    }
}

/// What takes records.
enum Taker {
    /// The columns of their keys.
    Fields(Record),
    /// The column that has them as they are.
    Whole(Box<Column>),
    /// No column: they are counted.
    Nothing,
}

impl Taker {
    /// Takes the record at a position. Tells whether the columns have a row of it, and gives its end.
    fn take(&mut self, text: &[u8], at: usize) -> (bool, Result<usize, Flaw>) {
        match (self, kind(text, at)) {
            (_, Err(flaw)) => (false, Err(flaw)),
            (Self::Fields(record), Ok(Kind::Object)) => (true, record.take(text, at, 0)),
            (Self::Fields(record), Ok(Kind::Null)) => {
                let end = value_end(text, at, 0);
                if end.is_ok() {
                    record.take_null();
                }
                (end.is_ok(), end)
            }
            (Self::Fields(_), Ok(_)) => (false, Err(Flaw::Malformed { at, what: NO_OBJECT })),
            (Self::Whole(column), Ok(_)) => (true, column.take(text, at, 0)),
            (Self::Nothing, Ok(_)) => {
                let end = value_end(text, at, 0);
                (end.is_ok(), end)
            }
        }
    }

    fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Fields(record) => record.finish(),
            Self::Whole(column) => Ok(vec![column.finish()?]),
            Self::Nothing => Ok(vec![]),
        }
    }
}

/// Fails unless all of the record at a position is in the text, which may go on.
fn is_whole(text: &[u8], at: usize) -> Result<(), Flaw> {
    let end = value_end(text, at, 0)?;
    // A number may have more digits.
    match end == text.len() && !matches!(text[end - 1], b'}' | b']' | b'"') {
        true => Err(Flaw::Incomplete),
        false => Ok(()),
    }
}

/// Decodes records.
struct JsonBatches {
    input: TextInput,
    table: Arc<JsonTable>,
    /// Its file among those of the table.
    file: usize,
    /// The columns to decode.
    schema: SchemaRef,
    record: Taker,
    batch_rows: usize,
    /// Whether every record is one line.
    by_line: bool,
    /// Bytes of the input's rest that are in the record's columns.
    parsed: usize,
}

impl JsonBatches {
    /// Bytes of the rest that belong to this part: its last record may end beyond its range.
    fn limit(&self) -> usize {
        let rest = self.input.rest();
        let before = self.input.begin_before();
        if before >= rest.len() {
            return rest.len();
        }
        if before == 0 {
            return 0;
        }
        memchr::memchr(b'\n', &rest[before - 1..]).map_or(rest.len(), |feed| before + feed)
    }

    /// Takes records until there is a batch, in rows or in bytes, or the part ends. True for those that are right.
    fn fill(&mut self) -> Result<Vec<bool>> {
        let mut taken = Vec::new();
        loop {
            let limit = self.limit();
            let is_last = self.input.is_last() || self.input.begin_before() <= self.input.rest().len();
            while taken.len() < self.batch_rows && self.parsed < WINDOW_BYTES_MAX {
                let text = &self.input.rest()[..limit];
                let start = skip_space(text, self.parsed);
                if start == text.len() {
                    self.parsed = start;
                    break;
                }
                // Whether the record is all here is known before its values are taken.
                let is_here = if is_last { Ok(()) } else { is_whole(text, start) };
                let (has_row, outcome) = match is_here {
                    Ok(()) => self.record.take(text, start),
                    Err(flaw) => (false, Err(flaw)),
                };
                match outcome {
                    Ok(end) => {
                        taken.push(true);
                        self.parsed = end;
                    }
                    Err(Flaw::Incomplete) if !is_last => break,
                    Err(flaw) if self.table.ignores_errors => {
                        if has_row {
                            taken.push(false);
                        }
                        let end = match value_end(text, start, 0) {
                            Ok(end) => end,
                            Err(_) if self.by_line => {
                                memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |feed| start + feed + 1)
                            }
                            Err(_) => text.len(),
                        };
                        self.reject(start..end, flaw);
                        self.parsed = end;
                    }
                    Err(flaw) => return Err(self.explain(start, flaw)),
                }
            }
            let is_full = taken.len() >= self.batch_rows || self.parsed >= WINDOW_BYTES_MAX && !taken.is_empty();
            if is_full || is_last {
                return Ok(taken);
            }
            if taken.is_empty() && self.parsed > 0 {
                self.input.consume(self.parsed);
                self.parsed = 0;
            }
            self.input.more()?;
        }
    }

    /// Keeps a record for who asks what was left out.
    fn reject(&self, place: Range<usize>, flaw: Flaw) {
        let Some(rejects) = &self.table.rejects else { return };
        let text = self.input.rest();
        let record = text[place.clone()].trim_ascii_end();
        let start = place.start;
        let (kind, column, at, message) = match flaw {
            Flaw::Malformed { what: NO_OBJECT, .. } => (RejectKind::Malformed, None, start, no_object(&text[start..])),
            Flaw::Malformed { at, what } => (RejectKind::Malformed, None, at, what.to_owned()),
            Flaw::Incomplete => (RejectKind::Malformed, None, start, CUT_OFF.to_owned()),
            Flaw::Misfit { key, what } => {
                let is_of =
                    |name: &str| key.strip_prefix(name).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'.', ..]));
                let column = self.table.schema.fields().iter().position(|field| is_of(field.name()));
                let column = column.map(|column| (column, self.table.schema.field(column).name().clone()));
                (RejectKind::Cast, column, start, format!("key '{key}': {what}"))
            }
        };
        rejects.add(Reject {
            file: self.file,
            offset: self.input.offset() + start as u64,
            line: self.input.line_at(start),
            within: at.saturating_sub(start),
            column,
            kind,
            record: record.to_vec(),
            message,
        });
    }

    /// What is wrong, with the line that it is wrong in.
    fn explain(&self, start: usize, flaw: Flaw) -> Error {
        let (at, what) = match flaw {
            Flaw::Malformed { what: NO_OBJECT, .. } => (start, no_object(&self.input.rest()[start..])),
            Flaw::Malformed { at, what } => (at, what.to_owned()),
            Flaw::Incomplete => (start, CUT_OFF.to_owned()),
            Flaw::Misfit { key, what } => {
                let error = self.place(start, format!("key '{key}': {what}"));
                if what == TWICE {
                    return error.with_hint("ignore_errors = true leaves such records out");
                }
                let hint = "declare the columns, or look at all records for their types: \
                            read_json('…', sample_size = -1)";
                return error.with_hint(hint);
            }
        };
        self.place(at, what)
    }

    fn place(&self, at: usize, what: String) -> Error {
        if self.by_line { self.input.error(at, what) } else { self.input.file().source.error(what) }
    }
}

impl BatchSource for JsonBatches {
    fn next_batch(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>> {
        self.input.consume(self.parsed);
        self.parsed = 0;
        let taken = self.fill()?;
        if taken.is_empty() {
            return Ok(None);
        }
        let arrays = self.record.finish().map_err(|error| self.place(0, error.message().to_owned()))?;
        let arrays = arrays.into_iter().zip(self.schema.fields());
        let source = &self.input.file().source;
        let arrays =
            arrays.map(|(array, field)| conform_column(array, field, false).map_err(|error| source.blame(error)));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let kept = taken.iter().filter(|is_right| **is_right).count();
        if kept == taken.len() {
            return Ok(Some((arrays, kept)));
        }
        let mask = BooleanBuffer::from(taken);
        let arrays = arrays.iter().map(|array| filter_array(array, &mask)).collect::<Result<Vec<_>>>()?;
        // A batch of which nothing is left would be taken for the end.
        if kept == 0 { self.next_batch() } else { Ok(Some((arrays, kept))) }
    }
}
