//! Files of JSON objects as a table: one object per line, objects one after another, or one array of objects.
//!
//! A field that an object does not have is NULL; a field that the table does not have is left out. The schema is
//! inferred from the first records, unless it is given: whole numbers are BIGINT, other numbers DOUBLE, objects
//! structs, arrays lists.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use arrow::json::reader::{Decoder, infer_json_schema_from_iterator};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use diligence_base::{Error, Result};
use serde_json::Value;

use super::input::TextInput;
use super::{
    Part, Sample, TextBytes, TextFile, WINDOW_BYTES_MAX, byte_order_mark, compressions, place, probes, sample,
};
use crate::external::batches::{BatchSource, BatchWindows, missing_columns_of};
use crate::external::options::{Compression, OpenOptions};
use crate::external::schema::{conform_column, logical_schema};
use crate::external::sieve::Sieve;
use crate::external::source::Source;
use crate::external::table::FileScan;
use crate::{Cluster, Decode, DecodeRequest, Fetch, Fetched};

/// Parsed text that is kept at most, to name the line of an error.
const HELD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The files of a table, opened.
pub(in crate::external) struct JsonTable {
    pub(in crate::external) schema: SchemaRef,
    files: Vec<JsonFile>,
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
    /// Looks at the first records of all files.
    pub fn open(sources: &[Arc<Source>], options: &OpenOptions) -> Result<Self> {
        let compressions = compressions(sources, options)?;
        let mut records = Vec::new();
        let mut files = Vec::with_capacity(sources.len());
        for (source, compression) in sources.iter().zip(compressions) {
            files.push(look(source, compression, options, &mut records)?);
        }
        let schema = match &options.schema {
            Some(schema) => schema.as_ref().clone(),
            None => {
                let records = records.into_iter().map(Ok);
                let inferred = infer_json_schema_from_iterator(records).map_err(|error| {
                    sources[0].error(format!("its records have no common schema: {error}")).with_hint(
                        "declare the columns: CREATE EXTERNAL TABLE t (a VARCHAR, …) STORED AS JSON LOCATION '…'",
                    )
                })?;
                if inferred.fields().is_empty() {
                    return Err(sources[0].error("it holds no records with fields, so its columns are not known"));
                }
                inferred
            }
        };
        let logical = logical_schema(&schema);
        let fields = logical.fields().iter().map(|field| {
            // A field without any value so far may hold anything later.
            let ty = if *field.data_type() == DataType::Null { DataType::Utf8View } else { field.data_type().clone() };
            Field::new(field.name(), ty, true)
        });
        Ok(Self { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())), files })
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

/// Looks at one file; its first records go to `records`.
fn look(
    source: &Arc<Source>,
    compression: Compression,
    options: &OpenOptions,
    records: &mut Vec<Value>,
) -> Result<JsonFile> {
    let mut more = 0;
    loop {
        let Sample { text, complete, bytes } = sample(source, compression, more)?;
        let mark = byte_order_mark(source, &text)?;
        let body = &text[mark..];
        let form = form_of(body);
        let plain = if form == Form::Array { unwrap_array(body) } else { body.to_vec() };
        let mut found = 0;
        let mut used = 0;
        let mut values = serde_json::Deserializer::from_slice(&plain).into_iter::<Value>();
        while found < options.rows_to_infer() {
            match values.next() {
                Some(Ok(value)) => {
                    found += 1;
                    if options.schema.is_none() {
                        records.push(check_object(source, value)?);
                    }
                    used = values.byte_offset();
                }
                Some(Err(error)) if complete || !error.is_eof() => {
                    return Err(source.error(format!("line {}: {error}", error.line())));
                }
                _ => break,
            }
        }
        if found == 0 && !complete && more < 4 {
            more += 1;
            continue;
        }
        if options.schema.is_none() && form == Form::Lines {
            for probe in probes(source, compression)? {
                let values = serde_json::Deserializer::from_slice(&probe).into_iter::<Value>();
                for value in values.map_while(|value| value.ok()) {
                    records.push(check_object(source, value)?);
                }
            }
        }
        let text = Arc::new(TextFile { source: source.clone(), compression, body: mark as u64 });
        return Ok(JsonFile { text, form, record_bytes: (used as f64 / found.max(1) as f64).max(1.0), bytes });
    }
}

fn check_object(source: &Source, value: Value) -> Result<Value> {
    if value.is_object() {
        return Ok(value);
    }
    let text = value.to_string();
    let text = text.chars().take(40).collect::<String>();
    Err(source.error(format!("a record is no JSON object but {text}")))
}

/// How the records of a text follow each other.
fn form_of(text: &[u8]) -> Form {
    let text = text.trim_ascii_start();
    if text.starts_with(b"[") {
        return Form::Array;
    }
    match memchr::memchr(b'\n', text) {
        Some(feed) if serde_json::from_slice::<Value>(&text[..feed]).is_err() => Form::Values,
        _ => Form::Lines,
    }
}

/// The objects of an array, one after another: the outer brackets and commas become spaces.
fn unwrap_array(text: &[u8]) -> Vec<u8> {
    let mut plain = text.to_vec();
    Unwrap::default().unwrap(&mut plain);
    plain
}

/// Where in an array a text is.
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
}

impl Read for ArrayReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
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
            Form::Array => Some(|inner| Box::new(ArrayReader { inner, unwrap: Unwrap::default() })),
            _ => None,
        };
        let input = TextInput::new(&file.text, &self.part, *bytes, wrap)?;
        let columns = missing_columns_of(request);
        let schema = Arc::new(self.table.schema.project(&columns).map_err(crate::foreign_error::from_arrow)?);
        // Batches smaller than a few hundred rows cost more than they hold.
        let batch_rows = request.batch_rows.max(256);
        let decoder = decoder(&schema, batch_rows)?;
        let by_line = file.form == Form::Lines;
        let source = JsonBatches { input, schema, decoder, batch_rows, by_line, parsed: 0 };
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

fn decoder(schema: &SchemaRef, batch_rows: usize) -> Result<Decoder> {
    let fields = schema.fields().iter().map(decoded).collect::<Vec<_>>();
    ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_batch_size(batch_rows)
        .with_coerce_primitive(true)
        .build_decoder()
        .map_err(|error| Error::unsupported(format!("a JSON column cannot be read: {error}")))
}

/// The field as it is decoded: text not as views, for which Arrow's decoder would take the room of a view for each
/// byte.
fn decoded(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::List(item) => DataType::List(decoded(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(decoded).collect()),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Decodes records.
struct JsonBatches {
    input: TextInput,
    /// The columns to decode.
    schema: SchemaRef,
    decoder: Decoder,
    batch_rows: usize,
    /// Whether every record is one line.
    by_line: bool,
    /// Bytes of the input's rest that the decoder has.
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

    /// Feeds the decoder until it has a batch, in rows or in bytes, or the part ends.
    fn fill(&mut self) -> Result<(), arrow::error::ArrowError> {
        let mut window_left = WINDOW_BYTES_MAX;
        loop {
            let limit = self.limit();
            while self.parsed < limit {
                let text = &self.input.rest()[self.parsed..limit];
                let piece = match window_left {
                    // The record at hand may end here.
                    0 => memchr::memchr(b'}', text).map_or(text.len(), |end| end + 1),
                    _ => text.len().min(window_left),
                };
                let taken = self.decoder.decode(&text[..piece])?;
                self.parsed += taken;
                window_left -= taken.min(window_left);
                let is_wide = window_left == 0 && !self.decoder.has_partial_record();
                if taken < piece || is_wide || self.decoder.len() >= self.batch_rows {
                    return Ok(());
                }
            }
            if self.input.is_last() || self.input.begin_before() <= self.input.rest().len() {
                return Ok(());
            }
            if self.parsed > HELD_BYTES_MAX {
                self.input.consume(self.parsed);
                self.parsed = 0;
            }
            self.input.more().map_err(|error| arrow::error::ArrowError::ExternalError(Box::new(error)))?;
        }
    }

    /// What is wrong, with the line that it is wrong in.
    fn explain(&self, error: arrow::error::ArrowError) -> Error {
        if let arrow::error::ArrowError::ExternalError(inner) = &error
            && let Some(inner) = inner.downcast_ref::<Error>()
        {
            return inner.clone();
        }
        let message = match &error {
            arrow::error::ArrowError::JsonError(message) => message.clone(),
            other => other.to_string(),
        };
        if !self.by_line {
            return self.input.file().source.error(message);
        }
        let rest = &self.input.rest()[..self.limit()];
        let mut at = 0;
        for line in rest.split_inclusive(|&byte| byte == b'\n') {
            let alone = || {
                let mut decoder = decoder(&self.schema, 2).ok()?;
                let mut line = line.to_vec();
                line.push(b'\n');
                let taken = decoder.decode(&line).ok()?;
                (taken == line.len() && !decoder.has_partial_record()).then_some(())?;
                decoder.flush().ok()
            };
            if alone().is_none() {
                return self.input.error(at, message);
            }
            at += line.len();
        }
        self.input.error(0, message)
    }
}

impl BatchSource for JsonBatches {
    fn next_batch(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>> {
        self.input.consume(self.parsed);
        self.parsed = 0;
        self.fill().map_err(|error| self.explain(error))?;
        if self.decoder.has_partial_record() {
            let error = arrow::error::ArrowError::JsonError("the record is cut off; the file is truncated".to_owned());
            return Err(self.explain(error));
        }
        let batch = self.decoder.flush().map_err(|error| self.explain(error))?;
        let Some(batch) = batch else { return Ok(None) };
        let arrays = batch.columns().iter().zip(self.schema.fields());
        let source = &self.input.file().source;
        let arrays = arrays
            .map(|(array, field)| conform_column(array.clone(), field, false).map_err(|error| source.blame(error)));
        Ok(Some((arrays.collect::<Result<_>>()?, batch.num_rows())))
    }
}
