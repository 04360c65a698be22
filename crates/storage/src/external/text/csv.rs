//! Files of separated values as a table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use diligence_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::csv_cuts::find_cuts;
use super::csv_fields::{Dialect, Field, Found, TEXT_BYTES_MAX, record};
use super::csv_infer::{self, Guess};
use super::csv_values::{self, Forms, is_readable};
use super::encoded::{ENCODING_HINT, not_utf8};
use super::input::TextInput;
use super::{
    Encoded, Part, RECORD_BYTES_MAX, Sample, TextBytes, TextFile, WINDOW_BYTES_MAX, byte_order_mark, compressions,
    encoded_as, place, probes, sample,
};
use crate::external::batches::missing_columns_of;
use crate::external::file_scan::FileScan;
use crate::external::options::{Compression, OpenOptions};
use crate::external::rejects::{Reject, RejectKind, RejectScan, ScanRejects, Written};
use crate::external::schema::{field_type_name, known, logical_schema, other_names, type_name, with_types};
use crate::external::sieve::{Sieve, Windows};
use crate::external::source::Source;
use crate::{Cluster, Decode, DecodeRequest, Fetch, Fetched};

const _: () = assert!(WINDOW_BYTES_MAX + 2 * RECORD_BYTES_MAX <= TEXT_BYTES_MAX);

/// The files of a table, opened.
pub(in crate::external) struct CsvTable {
    pub(in crate::external) schema: SchemaRef,
    forms: Forms,
    /// Whether records that are wrong are left out, or lack fields.
    ignores_errors: bool,
    pads: bool,
    /// Where those go that are left out.
    rejects: Option<ScanRejects>,
    files: Vec<CsvFile>,
    /// For each column, whether the statement says its type, and not the first records.
    told: Vec<bool>,
    /// Whether these are the columns of a table that the rows are copied into.
    is_copied: bool,
}

struct CsvFile {
    text: Arc<TextFile>,
    dialect: Dialect,
    has_header: bool,
    /// Lines in front of the header or the first record.
    skip: usize,
    /// Fields of every record.
    fields: usize,
    /// For each column of the table its field.
    positions: Vec<Option<usize>>,
    /// True if quoted fields hold line ends: then records cannot be told apart in the middle of the file.
    multiline: AtomicBool,
    /// Where parts begin, found by reading the file once, if `multiline`.
    cuts: Mutex<Option<Vec<Part>>>,
    /// Bytes of a record, on average of the sample.
    record_bytes: f64,
    /// Unpacked bytes.
    bytes: u64,
}

/// What the sample of one file shows.
struct Seen {
    text: Arc<TextFile>,
    dialect: Dialect,
    /// The names in the header, if it has one.
    header: Option<Vec<String>>,
    has_header: bool,
    skip: usize,
    fields: usize,
    guesses: Vec<Guess>,
    multiline: bool,
    record_bytes: f64,
    bytes: u64,
}

impl CsvTable {
    /// Looks at the first records of all files.
    pub fn open(sources: &[Arc<Source>], options: &OpenOptions) -> Result<Self> {
        let mut forms = Forms::of(&options.csv);
        let declared = match &options.schema {
            Some(schema) => Some(declared(schema)?),
            None => None,
        };
        let is_declared = declared.is_some();
        let compressions = compressions(sources, options)?;
        let seen = sources
            .iter()
            .zip(compressions)
            .map(|(source, compression)| look(source, compression, options, &forms, declared.as_deref()));
        let seen = seen.collect::<Result<Vec<_>>>()?;
        forms.orders = csv_infer::date_orders(seen.iter().flat_map(|file| &file.guesses));
        let names = seen.iter().map(Seen::names).collect::<Vec<_>>();
        let other_names = other_names(names.iter().map(|names| names.iter().map(String::as_str)));
        let schema = match declared {
            Some(schema) => schema,
            None => inferred(&seen, &other_names, options, &forms)?,
        };
        let files = seen.into_iter().map(|seen| {
            let is_in_order = options.csv.in_order && seen.fields == schema.fields().len();
            let positions = positions(&seen, &schema, &other_names, is_declared, is_in_order)?;
            Ok(CsvFile {
                text: seen.text,
                has_header: seen.has_header,
                skip: seen.skip,
                dialect: seen.dialect,
                fields: seen.fields,
                positions,
                multiline: AtomicBool::new(seen.multiline),
                cuts: Mutex::new(None),
                record_bytes: seen.record_bytes,
                bytes: seen.bytes,
            })
        });
        let (ignores_errors, pads) = (options.ignore_errors, options.csv.null_padding);
        let files = files.collect::<Result<Vec<_>>>()?;
        let rejects = options.rejects.as_ref().map(|rejects| {
            let columns = schema.fields().iter();
            let columns = columns.map(|field| format!("'{}': '{}'", field.name(), type_name(field.data_type())));
            let columns = format!("{{{}}}", columns.collect::<Vec<_>>().join(", "));
            let scans = files.iter().map(|file: &CsvFile| RejectScan {
                scan: 0,
                file: file.text.clone(),
                written: Some(Written {
                    delimiter: String::from_utf8_lossy(&file.dialect.delimiter_bytes()).into_owned(),
                    quote: file.dialect.quote,
                    escape: file.dialect.escape,
                    skip: file.skip,
                    has_header: file.has_header,
                }),
                columns: columns.clone(),
                date_format: options.csv.date_format.clone(),
                timestamp_format: options.csv.timestamp_format.clone(),
            });
            rejects.begin(scans.collect(), options.rejects_max)
        });
        let is_told = |name: &str| options.types.iter().any(|(told, _)| told.eq_ignore_ascii_case(name));
        let told = schema.fields().iter().map(|field| is_declared || is_told(field.name())).collect();
        Ok(Self { files, schema, forms, ignores_errors, pads, rejects, told, is_copied: options.csv.in_order })
    }

    /// How the first file is written, whether it has a header, and how many lines are in front of that.
    pub fn dialect(&self) -> (Dialect, bool, usize) {
        (self.files[0].dialect, self.files[0].has_header, self.files[0].skip)
    }

    /// How its dates are written, if they are not as in ISO 8601.
    pub fn date_format(&self) -> Option<String> {
        self.forms.date.clone().or_else(|| self.forms.orders.first().map(|order| order.format()))
    }

    /// The number of its scan among those whose records that are left out are kept.
    pub fn scan_number(&self) -> Option<i64> {
        self.rejects.as_ref().map(ScanRejects::scan)
    }

    /// The first column whose field is no value of it, and the field's place in the record; `None` if all are right.
    fn wrong_field(&self, file: &CsvFile, text: &[u8], record: &[Field]) -> Option<(usize, usize)> {
        let mut columns = self.schema.fields().iter().zip(&file.positions).enumerate();
        columns.find_map(|(number, (column, position))| {
            let position = (*position)?;
            let field = record.get(position)?;
            let is_text = *column.data_type() == DataType::Utf8View && csv_values::checked_type(column).is_none();
            let is_right = match is_text {
                true => std::str::from_utf8(field.raw(text)).is_ok(),
                false => {
                    let one = std::iter::once(*field);
                    csv_values::column(column, text, one, &file.dialect, &self.forms).is_ok()
                }
            };
            (!is_right).then_some((number, position))
        })
    }

    /// Rows estimated from the sample.
    pub fn statistics(&self) -> Statistics {
        let rows = self.files.iter().map(|file| file.bytes.saturating_sub(file.text.body) as f64 / file.record_bytes);
        let bytes = self.files.iter().map(|file| file.bytes).sum::<u64>();
        let columns = self.schema.fields().iter().map(|_| ColumnStatistics::new_unknown());
        Statistics {
            num_rows: Precision::Inexact(rows.sum::<f64>().ceil() as usize),
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
            let (parts, is_cut_with_care) = file.parts()?;
            for (number, part) in parts.into_iter().enumerate() {
                // Where records begin may be found out late, and parts are others then.
                let place = place(index, number) | u64::from(is_cut_with_care) << 63;
                scan.clusters.push((index, Arc::new(CsvCluster { table: self.clone(), file: index, place, part })));
            }
        }
        Ok(scan)
    }
}

/// The declared columns in their logical types.
fn declared(schema: &Schema) -> Result<SchemaRef> {
    let logical = logical_schema(schema);
    for field in logical.fields() {
        if !is_readable(field.data_type()) {
            return Err(Error::unsupported(format!(
                "column '{}' is declared as {}, which separated values cannot hold",
                field.name(),
                field.data_type()
            ))
            .with_hint("declare it as VARCHAR"));
        }
    }
    // Whether NULL is allowed is checked for all formats alike.
    let fields = logical.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Looks at one file.
fn look(
    source: &Arc<Source>,
    compression: Compression,
    options: &OpenOptions,
    forms: &Forms,
    declared: Option<&Schema>,
) -> Result<Seen> {
    let mut more = 0;
    loop {
        let encoded = encoded_as(source, compression, options)?;
        let mut sample = sample(source, compression, more)?;
        let mut mark = byte_order_mark(&sample.text);
        if let Some(encoded) = &encoded {
            sample.text = encoded.whole(&sample.text);
            mark = byte_order_mark(&sample.text);
            sample.bytes = sample.bytes.max(sample.text.len() as u64);
        }
        for _ in 0..options.csv.skip {
            let line = memchr::memchr(b'\n', &sample.text[mark..]);
            mark = line.map_or(sample.text.len(), |feed| mark + feed + 1);
        }
        if mark == sample.text.len() && !sample.complete && more < 4 {
            more += 1;
            continue;
        }
        let text = &sample.text[mark..];
        if memchr::memchr(0, &text[..text.len().min(4096)]).is_some() {
            return Err(no_text(source, text));
        }
        // What nobody has told is found out, where wrong records are not to be told from lines about the file.
        let is_free = declared.is_none() && !options.ignore_errors && !options.csv.null_padding;
        let mut written = Cow::Borrowed(&options.csv);
        if is_free
            && written.skip == 0
            && written.delimiter.is_none()
            && let Some((delimiter, line)) = csv_infer::told_by_line(text)
        {
            written.to_mut().delimiter = Some(delimiter);
            mark += line;
        }
        let text = &sample.text[mark..];
        if is_free
            && written.comment.is_none()
            && csv_infer::has_comments(text, sample.complete, &source.name, &written)
        {
            let written = written.to_mut();
            (written.comment, written.comments_are_lines) = (Some(b'#'), true);
        }
        if is_free && written.skip == 0 {
            mark += csv_infer::preamble(text, sample.complete, &source.name, &written);
        }
        let text = &sample.text[mark..];
        let dialect = csv_infer::dialect(text, sample.complete, &source.name, &written);
        let most = options.rows_to_infer().saturating_add(1);
        let records = csv_infer::records(text, sample.complete, &dialect, most, options.ignore_errors);
        // Of records that are longer than the sample, a longer one shows what is behind a header.
        if records.len() < 2 && !sample.complete && more < 4 {
            more += 1;
            continue;
        }
        return describe(source, compression, encoded, options, forms, declared, &sample, mark, dialect, records);
    }
}

/// The error for a file with zero bytes: what it is instead of text, as far as its first bytes tell.
fn no_text(source: &Source, text: &[u8]) -> Error {
    const KINDS: [(&[u8], &str, &str); 4] = [
        (b"PAR1", "a Parquet file", "read_parquet('…') reads it, whatever its name is"),
        (
            b"ARROW1",
            "an Arrow file",
            "CREATE EXTERNAL TABLE … STORED AS ARROW LOCATION '…' reads it, whatever its name is",
        ),
        (
            b"PK\x03\x04",
            "a ZIP archive, as spreadsheets are",
            "read_xlsx('…') reads a spreadsheet; unpack any other archive first",
        ),
        (b"SQLite format 3\0", "a database of SQLite", "sqlite_scan('…', 'table') reads a table of it"),
    ];
    match KINDS.iter().find(|(begin, ..)| text.starts_with(begin)) {
        Some((_, kind, hint)) => source.error(format!("it is {kind}, and no text file")).with_hint(*hint),
        None => {
            let error = source.error("it holds zero bytes; it is no text file");
            error.with_hint("if it is UTF-16, say so: encoding = 'utf-16'")
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the parts of one thought, used once")]
fn describe(
    source: &Arc<Source>,
    compression: Compression,
    encoded: Option<Encoded>,
    options: &OpenOptions,
    forms: &Forms,
    declared: Option<&Schema>,
    sample: &Sample,
    mark: usize,
    dialect: Dialect,
    records: Vec<Vec<Field>>,
) -> Result<Seen> {
    let text = &sample.text[mark..];
    let is_null = |field: Field| forms.says_nothing(field, field.raw(text));
    let Some(first) = records.first() else {
        // Not one record: fine if the columns are known, and malformed if there is text.
        if let Found::Malformed { at, what } = record(text, 0, sample.complete, &dialect, |_, _| {}) {
            let line = memchr::memchr_iter(b'\n', &text[..at]).count() + 1;
            return Err(source.error(format!("line {line}: {what}")));
        }
        if !sample.complete {
            return Err(source.error(format!("its first record does not end within {} bytes", text.len())));
        }
        // An empty file says nothing of columns: other files of the table do, or the statement.
        let given = &options.csv.names;
        let fields = declared.map_or(given.len(), |schema| schema.fields().len());
        let text = Arc::new(TextFile { source: source.clone(), compression, encoded, body: sample.bytes });
        return Ok(Seen {
            text,
            dialect,
            header: (declared.is_none() && !given.is_empty()).then(|| given.clone()),
            has_header: false,
            skip: options.csv.skip,
            fields,
            guesses: vec![Guess::default(); fields],
            multiline: false,
            record_bytes: 1.0,
            bytes: sample.bytes,
        });
    };
    let has_header = options.csv.has_header.unwrap_or_else(|| {
        let declared = declared.map(|schema| (schema, options.csv.in_order));
        csv_infer::has_header(text, &records, &dialect, is_null, declared, forms)
    });
    let are_names_told = declared.is_some() || !options.csv.names.is_empty();
    if has_header
        && !are_names_told
        && let Some(byte) = first.iter().find_map(|field| not_utf8(field.raw(text)))
    {
        let error = source.error(format!("the names of its columns are not UTF-8: they have the byte {byte:#04x}"));
        return Err(error.with_hint(ENCODING_HINT));
    }
    let header = has_header.then(|| csv_infer::names(text, first, &dialect, options.csv.plain_names));
    let rest = if has_header { &records[1..] } else { &records[..] };
    // Lines that end in a delimiter have an empty field at the end that the header may not have.
    let is_padded = options.csv.null_padding;
    let fields = match rest.first() {
        _ if is_padded => records.iter().map(Vec::len).max().unwrap_or(0),
        Some(record) if header.is_none() && csv_infer::is_trailing(rest, text) => record.len() - 1,
        _ => first.len(),
    };
    let mut guesses = vec![Guess::default(); fields];
    // Records that will be left out say nothing.
    let counts = |record: &&Vec<Field>| {
        !options.ignore_errors || is_padded && record.len() < fields || (fields..=fields + 1).contains(&record.len())
    };
    for record in rest.iter().filter(counts) {
        see(&mut guesses, record, text, is_null, forms);
    }
    let probes = if encoded.is_none() { probes(source, compression)? } else { Vec::new() };
    for probe in probes {
        let probed = csv_infer::records(&probe, true, &dialect, usize::MAX, false);
        // Where fields do not fit, the probe began inside a quoted field.
        if probed.iter().all(|record| record.len() == fields || record.len() == fields + 1) {
            let is_null = |field: Field| forms.says_nothing(field, field.raw(&probe));
            probed.iter().for_each(|record| see(&mut guesses, record, &probe, is_null, forms));
        }
    }
    let multiline =
        records.iter().flatten().any(|field| field.is_quoted() && memchr::memchr(b'\n', field.raw(text)).is_some());
    let body = if has_header {
        match record(text, csv_infer::skip_nothing(text, &dialect), sample.complete, &dialect, |_, _| {}) {
            Found::Record { next } => next,
            _ => 0,
        }
    } else {
        0
    };
    let end = records.last().and_then(|record| record.last()).map_or(text.len(), |field| {
        let raw = field.raw(text);
        raw.as_ptr() as usize - text.as_ptr() as usize + raw.len()
    });
    let seen_all = sample.complete && records.len() <= options.rows_to_infer();
    let end = if seen_all { text.len() } else { end };
    let record_bytes = (end.saturating_sub(body) as f64 / rest.len().max(1) as f64).max(1.0);
    let text = Arc::new(TextFile { source: source.clone(), compression, encoded, body: (mark + body) as u64 });
    let mut header = header;
    if !options.csv.names.is_empty() {
        if options.csv.names.len() > fields {
            let given = options.csv.names.len();
            return Err(source.error(format!("{given} names are given, but its records have {fields} fields")));
        }
        let mut names = options.csv.names.clone();
        let own = header.unwrap_or_else(|| (0..fields).map(|number| format!("column_{}", number + 1)).collect());
        names.extend(own.into_iter().skip(names.len()));
        header = Some(names);
    }
    let dialect = Dialect { blank_is_record: fields == 1, ..dialect };
    let skip = memchr::memchr_iter(b'\n', &sample.text[..mark]).count();
    Ok(Seen { text, dialect, header, has_header, skip, fields, guesses, multiline, record_bytes, bytes: sample.bytes })
}

fn see(guesses: &mut [Guess], record: &[Field], text: &[u8], is_null: impl Fn(Field) -> bool, forms: &Forms) {
    for (guess, &field) in guesses.iter_mut().zip(record) {
        if !is_null(field) {
            guess.see(field.is_quoted(), field.raw(text), forms);
        }
    }
}

/// One schema for all files: columns by name where files have headers, by position where not.
fn inferred(
    seen: &[Seen],
    other_names: &HashMap<String, String>,
    options: &OpenOptions,
    forms: &Forms,
) -> Result<SchemaRef> {
    let mut names: Vec<String> = Vec::new();
    let mut guesses: Vec<Guess> = Vec::new();
    for file in seen {
        for (name, guess) in file.names().into_iter().zip(&file.guesses) {
            let name = known(other_names, &name);
            match names.iter().position(|other| other == name) {
                Some(position) => guesses[position].merge(guess),
                None => {
                    names.push(name.to_owned());
                    guesses.push(guess.clone());
                }
            }
        }
    }
    if names.is_empty() {
        // Nothing but empty files: a table without rows.
        (names, guesses) = (vec!["column_1".to_owned()], vec![Guess::default()]);
    }
    let fields = names.into_iter().zip(guesses).map(|(name, guess)| {
        let guess = guess.limited(&options.csv.candidates);
        let ty = if options.csv.all_text { DataType::Utf8View } else { guess.data_type_with(forms) };
        ArrowField::new(name, ty, true)
    });
    let schema = with_types(Schema::new(fields.collect::<Vec<_>>()), &options.types)?;
    declared(&schema)
}

impl Seen {
    /// The names of the fields, none twice.
    fn names(&self) -> Vec<String> {
        let names = (0..self.fields).map(|number| {
            let header = self.header.as_ref().and_then(|header| header.get(number)).cloned();
            ArrowField::new(header.unwrap_or_else(|| format!("column_{}", number + 1)), DataType::Null, true)
        });
        let schema = logical_schema(&Schema::new(names.collect::<Vec<_>>()));
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}

/// Which field each column of the table is.
fn positions(
    seen: &Seen,
    schema: &Schema,
    other_names: &HashMap<String, String>,
    declared: bool,
    is_in_order: bool,
) -> Result<Vec<Option<usize>>> {
    let names = seen.names();
    let find = |name: &str, exact: bool| {
        let is_it = |other: &String| match exact {
            true => known(other_names, other) == name,
            false => other.eq_ignore_ascii_case(name),
        };
        names.iter().position(is_it)
    };
    let by_name = |exact| schema.fields().iter().map(|field| find(field.name(), exact)).collect::<Vec<_>>();
    if !declared {
        return Ok(by_name(true));
    }
    if seen.header.is_some() && !is_in_order {
        let found = by_name(false);
        if found.iter().all(Option::is_some) {
            return Ok(found);
        }
    }
    let columns = schema.fields().len();
    if seen.fields != columns {
        return Err(seen
            .text
            .source
            .error(format!("its records have {} fields, but {columns} columns are declared", seen.fields)));
    }
    Ok((0..columns).map(Some).collect())
}

impl CsvFile {
    /// The parts that become clusters. A file with line ends inside of fields is read once to find where records begin;
    /// true then.
    fn parts(&self) -> Result<(Vec<Part>, bool)> {
        if !self.multiline.load(Ordering::Relaxed) || self.text.is_streamed() {
            return Ok((self.text.parts(true), false));
        }
        let mut cuts = self.cuts.lock();
        if let Some(cuts) = cuts.as_ref() {
            return Ok((cuts.clone(), true));
        }
        let found = find_cuts(&self.text.source, self.text.body, &self.dialect)?;
        *cuts = Some(found.clone());
        Ok((found, true))
    }
}

/// A part of a file.
struct CsvCluster {
    table: Arc<CsvTable>,
    file: usize,
    place: u64,
    part: Part,
}

impl CsvCluster {
    fn file(&self) -> &CsvFile {
        &self.table.files[self.file]
    }
}

impl fmt::Debug for CsvCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Cluster for CsvCluster {
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
            .map_err(|_| Error::bug("what was fetched from another cluster came to a CSV cluster"))?;
        let input = TextInput::new(&self.file().text, &self.part, *bytes, None)?;
        let columns = missing_columns_of(request);
        let file = self.file();
        let mut slots = vec![None; file.fields];
        let mut count = 0;
        for position in columns.iter().filter_map(|&column| file.positions[column]) {
            if slots[position].is_none() {
                slots[position] = Some(count);
                count += 1;
            }
        }
        let windows = CsvWindows {
            table: self.table.clone(),
            file: self.file,
            input,
            slots,
            fields: vec![Vec::new(); count],
            starts: Vec::new(),
            consumed: 0,
            checked: 0,
        };
        Ok(Box::new(Sieve::new(windows, request.clone(), self.table.schema.clone())))
    }

    fn describe(&self) -> String {
        self.file().text.describe(&self.part)
    }

    fn place(&self) -> Option<u64> {
        Some(self.place)
    }
}

/// The records of a part, window by window. Finding the fields of a window and converting a column are two steps, so
/// that only fields of wanted rows are converted.
struct CsvWindows {
    table: Arc<CsvTable>,
    file: usize,
    input: TextInput,
    /// For each field of a record its place in `fields`, if it is wanted.
    slots: Vec<Option<usize>>,
    /// The wanted fields of the window's records.
    fields: Vec<Vec<Field>>,
    /// Where the window's records begin.
    starts: Vec<u32>,
    /// Bytes of the input that the window takes.
    consumed: usize,
    /// Bytes of the input known to be UTF-8.
    checked: usize,
}

impl CsvWindows {
    /// Takes one more record into the window; false at the end of the part.
    fn take_record(&mut self) -> Result<bool> {
        let table = self.table.clone();
        let file = &table.files[self.file];
        loop {
            let rest = self.input.rest();
            if self.consumed >= self.input.begin_before() || self.consumed >= rest.len() && self.input.is_last() {
                return Ok(false);
            }
            let mut count = 0;
            let mut whole = Vec::new();
            let (slots, fields) = (&self.slots, &mut self.fields);
            let found = record(rest, self.consumed, self.input.is_last(), &file.dialect, |number, field| {
                count = number + 1;
                if table.ignores_errors {
                    whole.push(field);
                }
                if let Some(Some(slot)) = slots.get(number) {
                    fields[*slot].push(field);
                }
            });
            match found {
                Found::Record { next }
                    if count == file.fields
                        || count < file.fields && table.pads
                        || count == file.fields + 1 && rest_is_empty(rest, next, file) =>
                {
                    if table.ignores_errors
                        && let Some(wrong) = table.wrong_field(file, rest, &whole)
                    {
                        self.reject(next, Some((wrong, whole[wrong.1])), count);
                        self.leave_out();
                        self.consumed = next;
                        continue;
                    }
                    let absent = slots.get(count..).unwrap_or_default().iter().flatten();
                    absent.for_each(|slot| fields[*slot].push(Field::empty()));
                    self.starts.push(self.consumed as u32);
                    self.consumed = next;
                    return Ok(true);
                }
                Found::Record { next } if table.ignores_errors => {
                    self.reject(next, None, count);
                    self.leave_out();
                    self.consumed = next;
                }
                Found::Record { .. } => {
                    let plural = if count == 1 { "" } else { "s" };
                    let what = format!("the record has {count} field{plural} instead of {}", file.fields);
                    let error = self.input.error(self.consumed, what);
                    return Err(error.with_hint(match count < file.fields {
                        true => "null_padding = true fills such records up with NULL, ignore_errors = true skips them",
                        false => {
                            "ignore_errors = true skips such records; delim and quote say how fields are separated"
                        }
                    }));
                }
                Found::Nothing { next } => self.consumed = next,
                Found::Malformed { at, what } if table.ignores_errors => {
                    self.leave_out();
                    let feed = memchr::memchr(b'\n', &self.input.rest()[at..]);
                    let next = feed.map_or(self.input.rest().len(), |feed| at + feed + 1);
                    self.reject_malformed(next, at, what);
                    self.consumed = next;
                }
                Found::Malformed { at, what } => return Err(self.input.error(at, what)),
                Found::Incomplete => {
                    // What was found of it will be found again.
                    self.leave_out();
                    self.input.more()?;
                }
            }
        }
    }

    /// Keeps the record at hand, which ends at `next` and has so many fields, for who asks what was left out. What is
    /// wrong is a column with the field at a place, or else the number of fields.
    fn reject(&self, next: usize, wrong: Option<((usize, usize), Field)>, count: usize) {
        let Some(rejects) = &self.table.rejects else { return };
        let (table, file) = (&self.table, &self.table.files[self.file]);
        let text = self.input.rest();
        let (kind, column, within, message) = match wrong {
            Some(((column, position), field)) => {
                let column = table.schema.field(column);
                let (name, ty) = (column.name(), field_type_name(column));
                let is_text = std::str::from_utf8(field.raw(text)).is_ok();
                let value = shorten(&String::from_utf8_lossy(&field.text(text, &file.dialect)));
                let (kind, message) = match is_text {
                    true => (RejectKind::Cast, format!("column '{name}': '{value}' is no {ty}")),
                    false => (RejectKind::InvalidEncoding, format!("column '{name}': its text is not UTF-8")),
                };
                let begin = field.raw(text).as_ptr() as usize - text.as_ptr() as usize;
                (kind, Some((position, name.clone())), begin.saturating_sub(self.consumed), message)
            }
            None => {
                let kind = if count < file.fields { RejectKind::MissingColumns } else { RejectKind::TooManyColumns };
                let fields = if count == 1 { "field" } else { "fields" };
                (kind, None, 0, format!("the record has {count} {fields} instead of {}", file.fields))
            }
        };
        self.keep(rejects, next, within, column, kind, message);
    }

    fn reject_malformed(&self, next: usize, at: usize, what: &str) {
        let Some(rejects) = &self.table.rejects else { return };
        let within = at.saturating_sub(self.consumed);
        self.keep(rejects, next, within, None, RejectKind::UnquotedValue, what.to_owned());
    }

    fn keep(
        &self,
        rejects: &ScanRejects,
        next: usize,
        within: usize,
        column: Option<(usize, String)>,
        kind: RejectKind,
        message: String,
    ) {
        let record = &self.input.rest()[self.consumed..next];
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        let record = record.strip_suffix(b"\r").unwrap_or(record).to_vec();
        let (offset, line) = (self.input.offset() + self.consumed as u64, self.input.line_at(self.consumed));
        rejects.add(Reject { file: self.file, offset, line, within, column, kind, record, message });
    }

    /// Forgets the fields of the record at hand.
    fn leave_out(&mut self) {
        let rows = self.starts.len();
        self.fields.iter_mut().for_each(|fields| fields.truncate(rows));
    }

    /// Whether the window's text is UTF-8.
    fn check_text(&mut self) -> Result<()> {
        if self.checked < self.consumed {
            let text = &self.input.rest()[self.checked..self.consumed];
            if let Err(error) = std::str::from_utf8(text) {
                let at = self.checked + error.valid_up_to();
                let error = self.input.error(at, format!("byte {:#04x} is not UTF-8", self.input.rest()[at]));
                return Err(error.with_hint(ENCODING_HINT));
            }
            self.checked = self.consumed;
        }
        Ok(())
    }

    /// At the end of a part: the next part begins where this one ended, or a line end inside of a field was taken for
    /// the end of a record.
    fn check_end(&self) -> Result<()> {
        let file = &self.table.files[self.file];
        match self.input.next_part() {
            Some(next) if next != self.input.offset() => {
                file.multiline.store(true, Ordering::Relaxed);
                Err(Error::new(
                    ErrorKind::Retry,
                    format!(
                        "{}: a field in quotes holds a line end near byte {next}, which the first records did not show",
                        file.text.source.name
                    ),
                )
                .with_hint("run the statement again: the file is now read with care"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the last field of the record that ends at `next` is empty: a delimiter at the end of the line.
fn rest_is_empty(text: &[u8], next: usize, file: &CsvFile) -> bool {
    let line = text[..next].strip_suffix(b"\n").unwrap_or(&text[..next]);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.ends_with(&file.dialect.delimiter_bytes())
}

impl Windows for CsvWindows {
    const MAY_TRY_AGAIN: bool = true;

    fn advance(&mut self, rows_max: usize) -> Result<usize> {
        self.input.consume(self.consumed);
        (self.consumed, self.checked) = (0, 0);
        self.starts.clear();
        self.fields.iter_mut().for_each(Vec::clear);
        while self.starts.len() < rows_max && self.consumed < WINDOW_BYTES_MAX && self.take_record()? {}
        if self.starts.is_empty() {
            self.input.consume(self.consumed);
            self.consumed = 0;
            self.check_end()?;
        } else {
            self.check_text()?;
        }
        Ok(self.starts.len())
    }

    fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef> {
        let file = &self.table.files[self.file];
        let told = self.table.schema.field(column);
        let ty = told.data_type();
        let slot = file.positions[column].map(|position| self.slots[position]);
        let fields = match slot {
            None => {
                return Ok(crate::external::schema::nulls(
                    ty,
                    selected.map_or(self.starts.len(), BooleanBuffer::count_set_bits),
                ));
            }
            Some(None) => return Err(Error::bug(format!("column {column} was not wanted"))),
            Some(Some(slot)) => &self.fields[slot],
        };
        let text = self.input.rest();
        let chosen;
        let fields = match selected {
            None => fields.as_slice(),
            Some(selected) => {
                chosen = selected.set_indices().map(|row| fields[row]).collect::<Vec<_>>();
                &chosen
            }
        };
        let array = csv_values::column(told, text, fields.iter().copied(), &file.dialect, &self.table.forms);
        array.map_err(|no_value| {
            let row = match selected {
                None => Some(no_value.position),
                Some(selected) => selected.set_indices().nth(no_value.position),
            };
            let at = row.and_then(|row| self.starts.get(row)).copied().unwrap_or(0);
            let value = fields.get(no_value.position).map(|field| field.text(text, &file.dialect));
            let value = value.map_or_else(String::new, |value| shorten(&String::from_utf8_lossy(&value)));
            let name = self.table.schema.field(column).name();
            let is_copied = self.table.is_copied && !file.has_header;
            let is_begin = self.input.offset() == file.text.body;
            self.input
                .error(at as usize, format!("column '{name}': '{value}' is no {}", field_type_name(told)))
                .with_hint(match self.table.told[column] {
                    _ if is_copied && row == Some(0) && is_begin => {
                        "if the first line has the names of columns, say HEADER: COPY t FROM '…' (FORMAT csv, HEADER)"
                            .to_owned()
                    }
                    true => "declare the column as VARCHAR, or give the text that stands for NULL".to_owned(),
                    false => format!(
                        "say the column's type, as in types = {{'{name}': 'VARCHAR'}}, or the text that stands \
                         for NULL; '{name}' was taken for {} from the first records, and sample_size = -1 looks at all",
                        type_name(ty)
                    ),
                })
        })
    }
}

/// A value for a message.
fn shorten(value: &str) -> String {
    match value.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
