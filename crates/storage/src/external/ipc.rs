//! Arrow IPC files, in the file format and in the stream format.
//!
//! Both are a sequence of messages: a schema, dictionaries, record batches. The file format ends with a list of where
//! they are; for the stream format the list is made by going from message to message when the table is opened, without
//! reading what is between. A cluster is some consecutive record batches, with the dictionaries before them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use bytes::Bytes;
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use diligence_base::limits::MORSEL_ROWS_MAX;
use diligence_base::panics::caught_quietly;
use diligence_base::{Error, Result};

use super::batches::{BatchSource, BatchWindows};
use super::file_scan::FileScan;
use super::nested::with_nulls_below;
use super::options::Format;
use super::schema::{Merged, conform_column, logical_schema, merge, nulls};
use super::sieve::{Sieve, columns_of};
use super::source::Source;
use crate::{Cluster, Decode, DecodeRequest, Fetch, Fetched};

/// The magic at both ends of the file format.
const MAGIC: &[u8; 6] = b"ARROW1";

/// The magic again and the length of the footer.
const FILE_END_BYTES: u64 = 10;

/// What newer streams put before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Record batches are joined to one cluster up to this size: a few milliseconds of decoding.
const CLUSTER_BYTES: u64 = 4 * 1024 * 1024;

/// Messages that one file may have: their places are held in memory.
const MESSAGES_MAX: usize = 4_000_000;

/// Record batches whose row counts are read when a file is opened; beyond that the rows are estimated.
const BATCHES_COUNTED_MAX: usize = 10_000;

/// How much larger than its file a decompressed buffer may be. Zstandard reaches a few thousand on constant data.
const EXPANSION_MAX: u64 = 1 << 16;

/// The files of a table, opened.
pub(crate) struct ArrowTable {
    pub(super) schema: SchemaRef,
    files: Vec<ArrowFile>,
}

struct ArrowFile {
    source: Arc<Source>,
    schema: SchemaRef,
    version: MetadataVersion,
    /// Where the dictionaries are, in the order in which they must be read.
    dictionaries: Vec<MessagePlace>,
    batches: Vec<BatchPlace>,
    /// For each column of the table its position in this file.
    positions: Vec<Option<usize>>,
}

/// Where a message is: its length prefix and metadata, then its body.
#[derive(Clone, Copy, Debug)]
struct MessagePlace {
    offset: u64,
    metadata_bytes: u64,
    body_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct BatchPlace {
    place: MessagePlace,
    /// How many of the file's dictionaries come before it.
    dictionaries: usize,
    rows: Option<usize>,
}

impl MessagePlace {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.metadata_bytes + self.body_bytes
    }

    fn block(&self) -> Block {
        Block::new(self.offset as i64, self.metadata_bytes as i32, self.body_bytes as i64)
    }
}

/// What a file says of itself.
struct Index {
    schema: Schema,
    version: MetadataVersion,
    dictionaries: Vec<MessagePlace>,
    batches: Vec<BatchPlace>,
}

impl ArrowTable {
    /// Reads where the messages of all files are. Columns of which `is_told` says that their type will be declared may
    /// have any types.
    pub fn open(sources: &[Arc<Source>], declared: Option<&Schema>, is_told: impl Fn(&str) -> bool) -> Result<Self> {
        let indexes = sources.iter().map(index).collect::<Result<Vec<_>>>()?;
        let names = sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>();
        let logical = indexes.iter().map(|index| Arc::new(logical_schema(&index.schema))).collect::<Vec<_>>();
        let Merged { schema, positions } = merge(&names, &logical, declared, is_told)?;
        let files = sources.iter().zip(indexes).zip(positions).map(|((source, index), positions)| ArrowFile {
            source: source.clone(),
            schema: Arc::new(index.schema),
            version: index.version,
            dictionaries: index.dictionaries,
            batches: index.batches,
            positions,
        });
        Ok(Self { files: files.collect(), schema })
    }

    /// Rows exactly if they were all counted.
    pub fn statistics(&self) -> Statistics {
        let batches = || self.files.iter().flat_map(|file| &file.batches);
        let bytes = batches().map(|batch| batch.place.body_bytes).sum::<u64>();
        let counted = batches().filter_map(|batch| batch.rows).sum::<usize>();
        let counted_bytes = batches().filter(|batch| batch.rows.is_some()).map(|batch| batch.place.body_bytes);
        let num_rows = if batches().all(|batch| batch.rows.is_some()) {
            Precision::Exact(counted)
        } else {
            let share = bytes as f64 / counted_bytes.sum::<u64>().max(1) as f64;
            if counted > 0 { Precision::Inexact((counted as f64 * share) as usize) } else { Precision::Absent }
        };
        let columns = self.schema.fields().iter().map(|_| ColumnStatistics::new_unknown());
        Statistics {
            num_rows,
            total_byte_size: Precision::Inexact(bytes as usize),
            column_statistics: columns.collect(),
        }
    }

    /// All clusters: Arrow files have no statistics.
    pub fn scan(self: &Arc<Self>, is_wanted: impl Fn(usize) -> bool) -> FileScan {
        let mut scan = FileScan::default();
        for (index, file) in self.files.iter().enumerate() {
            if !is_wanted(index) {
                scan.clusters_pruned += 1;
                continue;
            }
            let mut start = 0;
            while start < file.batches.len() {
                let mut end = start;
                let (mut bytes, mut rows) = (0, 0);
                let dictionaries = file.batches[start].dictionaries;
                while end < file.batches.len()
                    && file.batches[end].dictionaries == dictionaries
                    && (end == start || bytes < CLUSTER_BYTES && rows < MORSEL_ROWS_MAX)
                {
                    bytes += file.batches[end].place.body_bytes;
                    rows += file.batches[end].rows.unwrap_or(0);
                    end += 1;
                }
                let cluster = ArrowCluster { table: self.clone(), file: index, batches: start..end };
                scan.clusters.push((index, Arc::new(cluster)));
                start = end;
            }
        }
        scan
    }
}

/// Some record batches of a file.
struct ArrowCluster {
    table: Arc<ArrowTable>,
    file: usize,
    batches: Range<usize>,
}

/// What a fetch brings: dictionaries, then record batches. Nothing if no column was wanted and the rows are known.
struct ArrowBytes(Vec<Bytes>);

impl ArrowCluster {
    fn file(&self) -> &ArrowFile {
        &self.table.files[self.file]
    }

    fn batches(&self) -> &[BatchPlace] {
        &self.file().batches[self.batches.clone()]
    }

    fn reads(&self, columns: &[usize]) -> Vec<Range<u64>> {
        if columns.is_empty() && self.rows().is_some() {
            return Vec::new();
        }
        let file = self.file();
        let dictionaries = self.batches().last().map_or(0, |batch| batch.dictionaries);
        let dictionaries = file.dictionaries[..dictionaries].iter().map(MessagePlace::range);
        dictionaries.chain(self.batches().iter().map(|batch| batch.place.range())).collect()
    }
}

impl fmt::Debug for ArrowCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Cluster for ArrowCluster {
    fn rows(&self) -> Option<usize> {
        self.batches().iter().map(|batch| batch.rows).sum()
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        self.reads(columns).iter().map(|range| (range.end - range.start) as usize).sum()
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        let reads = self.reads(columns);
        if reads.is_empty() {
            return Fetch::Ready(Fetched { bytes: 0, content: Box::new(ArrowBytes(Vec::new())) });
        }
        self.file().source.fetch(reads, |parts| {
            let bytes = parts.iter().map(Bytes::len).sum();
            Ok(Fetched { bytes, content: Box::new(ArrowBytes(parts)) })
        })
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let ArrowBytes(parts) = *fetched
            .content
            .downcast::<ArrowBytes>()
            .map_err(|_| Error::bug("what was fetched from another cluster came to an Arrow cluster"))?;
        let columns = columns_of(request);
        let file = self.file();
        let projection = columns.iter().filter_map(|&column| file.positions[column]).collect::<Vec<_>>();
        let decoder = FileDecoder::new(file.schema.clone(), file.version).with_projection(projection);
        let batches = self.batches.clone();
        let source = ArrowBatches {
            table: self.table.clone(),
            file: self.file,
            columns: columns.clone(),
            decoder,
            dictionaries: 0,
            counted: parts.is_empty(),
            parts: parts.into_iter(),
            batches,
        };
        let windows = BatchWindows::new(source, columns);
        Ok(Box::new(Sieve::new(windows, request.clone(), self.table.schema.clone())))
    }

    fn describe(&self) -> String {
        format!("{}, record batches {} to {}", self.file().source.name, self.batches.start, self.batches.end - 1)
    }
}

/// Decodes record batches.
struct ArrowBatches {
    table: Arc<ArrowTable>,
    file: usize,
    columns: Vec<usize>,
    decoder: FileDecoder,
    /// Dictionaries that the decoder has.
    dictionaries: usize,
    /// True if only rows are wanted and they are known.
    counted: bool,
    parts: std::vec::IntoIter<Bytes>,
    batches: Range<usize>,
}

impl BatchSource for ArrowBatches {
    fn next_batch(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>> {
        let Some(number) = self.batches.next() else { return Ok(None) };
        let file = &self.table.files[self.file];
        let batch = &file.batches[number];
        if self.counted {
            return Ok(Some((Vec::new(), batch.rows.unwrap_or(0))));
        }
        // A stream may replace a dictionary between two batches: clusters end where that happens, so all batches of a
        // cluster have the same dictionaries before them.
        let missing = || Error::bug("a read brought fewer parts than it had ranges");
        while self.dictionaries < batch.dictionaries {
            let place = file.dictionaries[self.dictionaries];
            let part = self.parts.next().ok_or_else(missing)?;
            let decoder = &mut self.decoder;
            guard(&file.source, "a dictionary cannot be read", || {
                check_message(&part, &place, MessageHeader::DictionaryBatch)?;
                decoder.read_dictionary(&place.block(), &Buffer::from(part))
            })?;
            self.dictionaries += 1;
        }
        let part = self.parts.next().ok_or_else(missing)?;
        let decoder = &self.decoder;
        let place = batch.place;
        let what = format!("record batch {number} cannot be read");
        let read = guard(&file.source, &what, || {
            check_message(&part, &place, MessageHeader::RecordBatch)?;
            decoder.read_record_batch(&place.block(), &Buffer::from(part))
        })?;
        let read = read.ok_or_else(|| file.source.error(&what))?;
        let rows = read.num_rows();
        if batch.rows.is_some_and(|known| known != rows) {
            return Err(file.source.error(format!("record batch {number} changed its number of rows")));
        }
        let mut next = 0;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for &column in &self.columns {
            let target = self.table.schema.field(column);
            arrays.push(match file.positions[column] {
                None => nulls(target.data_type(), rows),
                Some(_) => {
                    let array = read.columns().get(next).cloned().ok_or_else(missing)?;
                    next += 1;
                    guard(&file.source, &what, || Ok(conform_column(with_nulls_below(&array), target, false)))?
                        .map_err(|error| file.source.blame(error))?
                }
            });
            if arrays.last().is_some_and(|array| array.len() != rows) {
                return Err(file.source.error(&what));
            }
        }
        Ok(Some((arrays, rows)))
    }
}

/// Runs code of the Arrow library on untrusted bytes: its errors get the file's name, and its panics become errors.
fn guard<T>(source: &Source, what: &str, work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match caught_quietly(work) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(source.error(format!("{what} ({error})"))),
        None => Err(source.error(format!("{what}; the file is corrupt"))),
    }
}

fn corrupt(what: impl Into<String>) -> ArrowError {
    ArrowError::IpcError(what.into())
}

/// Parses the metadata of a message, which begins with its length.
fn parse(metadata: &[u8]) -> Result<Message<'_>, ArrowError> {
    let skip = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
    let body = metadata.get(skip..).ok_or_else(|| corrupt("a message is too short"))?;
    root_as_message(body).map_err(|error| corrupt(format!("a message is malformed: {error}")))
}

/// Checks that all buffers of a message lie in its body and that none unpacks to an absurd size: the library believes
/// both.
fn check_message(part: &Bytes, place: &MessagePlace, kind: MessageHeader) -> Result<(), ArrowError> {
    let metadata = part.get(..place.metadata_bytes as usize).ok_or_else(|| corrupt("a message is too short"))?;
    let body = &part[metadata.len()..];
    let message = parse(metadata)?;
    if message.header_type() != kind {
        return Err(corrupt(format!("a message is a {:?}, not a {kind:?}", message.header_type())));
    }
    let batch = match kind {
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => message.header_as_record_batch(),
    };
    let batch = batch.ok_or_else(|| corrupt("a message has no content"))?;
    let limit = (body.len() as u64).saturating_mul(EXPANSION_MAX);
    if batch.length() < 0 || batch.length() as u64 > limit.max(u64::from(u32::MAX)) {
        return Err(corrupt(format!("a batch of {} rows", batch.length())));
    }
    for buffer in batch.buffers().iter().flatten() {
        let bytes = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?))
            .ok_or_else(|| corrupt("a buffer lies outside of its message"))?;
        if batch.compression().is_some()
            && let Some(length) = bytes.first_chunk::<8>()
            && i64::from_le_bytes(*length) > limit as i64
        {
            return Err(corrupt("a compressed buffer is said to be absurdly long"));
        }
    }
    Ok(())
}

/// Finds the messages of a file.
fn index(source: &Arc<Source>) -> Result<Index> {
    let first = source.read_one_now(0..source.bytes.min(64))?;
    let mut index = if first.starts_with(MAGIC) {
        index_file(source)?
    } else if first.len() >= 8 && (first.starts_with(&CONTINUATION) || looks_like_old_stream(&first)) {
        index_stream(source)?
    } else if first.is_empty() {
        return Err(source.error("the file is empty; an Arrow file has at least a schema"));
    } else {
        return Err(match Format::of_magic(&first) {
            Some(other) => source.error(format!("this is no Arrow file; it looks like {}", other.name())),
            None => source.error("this is no Arrow file: it begins neither like the file nor like the stream format"),
        });
    };
    if source.is_local() && index.batches.len() <= BATCHES_COUNTED_MAX {
        for batch in index.batches.iter_mut().filter(|batch| batch.rows.is_none()) {
            let place = batch.place;
            let metadata = source.read_one_now(place.offset..place.offset + place.metadata_bytes)?;
            batch.rows = Some(guard(source, "a record batch cannot be read", || rows_of(&parse(&metadata)?))?);
        }
    }
    Ok(index)
}

/// Streams written before 2019 begin with the length of the schema message at once.
fn looks_like_old_stream(first: &[u8]) -> bool {
    first.first_chunk::<4>().is_some_and(|length| (8..1 << 24).contains(&i32::from_le_bytes(*length)))
}

fn rows_of(message: &Message<'_>) -> Result<usize, ArrowError> {
    let batch = message.header_as_record_batch().ok_or_else(|| corrupt("a message is no record batch"))?;
    usize::try_from(batch.length()).map_err(|_| corrupt("a record batch has a negative number of rows"))
}

fn index_file(source: &Arc<Source>) -> Result<Index> {
    let truncated = "the file begins like an Arrow file but does not end like one; it is truncated";
    if source.bytes < 8 + FILE_END_BYTES {
        return Err(source.error(truncated));
    }
    let end = source.read_one_now(source.bytes - FILE_END_BYTES..source.bytes)?;
    let end: [u8; 10] = end.as_ref().try_into().map_err(|_| source.error(truncated))?;
    let length = read_footer_length(end).map_err(|_| source.error(truncated))? as u64;
    if length + FILE_END_BYTES + 8 > source.bytes {
        return Err(source.error(format!(
            "its footer is said to have {length} bytes, but the whole file has {}; it is corrupt",
            source.bytes
        )));
    }
    let footer_end = source.bytes - FILE_END_BYTES;
    let bytes = source.read_one_now(footer_end - length..footer_end)?;
    guard(source, "its footer cannot be read", || {
        let footer = root_as_footer(&bytes).map_err(|error| corrupt(error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| corrupt("it has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(corrupt("its byte order is not this machine's"));
        }
        let place = |block: &Block| {
            let place = MessagePlace {
                offset: u64::try_from(block.offset()).map_err(|_| corrupt("a negative offset"))?,
                metadata_bytes: u64::try_from(block.metaDataLength()).map_err(|_| corrupt("a negative length"))?,
                body_bytes: u64::try_from(block.bodyLength()).map_err(|_| corrupt("a negative length"))?,
            };
            let end = place.metadata_bytes.checked_add(place.body_bytes).and_then(|b| b.checked_add(place.offset));
            match end {
                Some(end) if end <= footer_end && place.metadata_bytes >= 8 => Ok(place),
                _ => Err(corrupt("a message lies beyond the end of the file")),
            }
        };
        let dictionaries = footer.dictionaries().iter().flatten().map(place).collect::<Result<Vec<_>, _>>()?;
        let batches = footer.recordBatches().into_iter().flatten();
        let batches =
            batches.map(|block| Ok(BatchPlace { place: place(block)?, dictionaries: dictionaries.len(), rows: None }));
        let batches = batches.collect::<Result<Vec<_>, ArrowError>>()?;
        Ok(Index { schema: fb_to_schema(schema), version: footer.version(), dictionaries, batches })
    })
}

fn index_stream(source: &Arc<Source>) -> Result<Index> {
    let mut schema: Option<(Schema, MetadataVersion)> = None;
    let mut dictionaries = Vec::new();
    let mut batches = Vec::new();
    let mut hop = Hop { source, window: Bytes::new(), start: 0 };
    let mut offset = 0;
    while offset < source.bytes {
        let truncated = || source.error(format!("the message at byte {offset} is cut off; the file is truncated"));
        let prefix = hop.read(offset, 8.min(source.bytes - offset))?;
        let marked = prefix.starts_with(&CONTINUATION);
        let (skip, length) = match (marked, prefix.len()) {
            (true, 8) => (8, &prefix[4..8]),
            (false, 4..) => (4, &prefix[0..4]),
            _ => return Err(truncated()),
        };
        let length = length.try_into().map(i32::from_le_bytes).map_err(|_| truncated())?;
        if length == 0 {
            break;
        }
        let metadata_bytes = skip + u64::try_from(length).map_err(|_| truncated())?;
        if offset + metadata_bytes > source.bytes {
            return Err(truncated());
        }
        let metadata = hop.read(offset, metadata_bytes)?;
        let body_bytes = guard(source, "a message cannot be read", || {
            let message = parse(&metadata)?;
            let body_bytes =
                u64::try_from(message.bodyLength()).map_err(|_| corrupt("a message has a negative length"))?;
            let place = MessagePlace { offset, metadata_bytes, body_bytes };
            match message.header_type() {
                MessageHeader::Schema if schema.is_none() => {
                    let found = message.header_as_schema().ok_or_else(|| corrupt("it has no schema"))?;
                    if !found.endianness().equals_to_target_endianness() {
                        return Err(corrupt("its byte order is not this machine's"));
                    }
                    schema = Some((fb_to_schema(found), message.version()));
                }
                MessageHeader::DictionaryBatch => dictionaries.push(place),
                MessageHeader::RecordBatch => {
                    batches.push(BatchPlace { place, dictionaries: dictionaries.len(), rows: Some(rows_of(&message)?) })
                }
                MessageHeader::NONE => {}
                other => return Err(corrupt(format!("an unexpected {other:?} message at byte {offset}"))),
            }
            Ok(body_bytes)
        })?;
        let end = (offset + metadata_bytes).checked_add(body_bytes);
        offset = end.filter(|end| *end <= source.bytes).ok_or_else(truncated)?;
        if dictionaries.len() + batches.len() > MESSAGES_MAX {
            return Err(Error::resource(format!("{}: it has more than {MESSAGES_MAX} messages", source.name)));
        }
    }
    let (schema, version) = schema.ok_or_else(|| source.error("it has no schema; the file is truncated"))?;
    Ok(Index { schema, version, dictionaries, batches })
}

/// Small reads one after another, made of fewer larger ones.
struct Hop<'a> {
    source: &'a Arc<Source>,
    window: Bytes,
    start: u64,
}

impl Hop<'_> {
    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        const WINDOW_BYTES: u64 = 64 * 1024;
        let end = self.start + self.window.len() as u64;
        if offset < self.start || offset + length > end {
            let until = (offset + length.max(WINDOW_BYTES)).min(self.source.bytes);
            self.window = self.source.read_one_now(offset..until)?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.window.slice(from..from + length as usize))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::*;
    use arrow::compute::concat_batches;
    use arrow::datatypes::{DataType, Int8Type};
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    use diligence_base::ErrorKind;

    use super::*;
    use crate::external::testing::*;
    use crate::{ScanRequest, Table};

    fn batch(from: i64, rows: i64) -> RecordBatch {
        let a: ArrayRef = Arc::new((from..from + rows).map(|i| (i % 5 > 0).then_some(i)).collect::<Int64Array>());
        let b: ArrayRef =
            Arc::new((from..from + rows).map(|i| (i % 3 > 0).then(|| format!("text {i}"))).collect::<StringArray>());
        // The file format wants one dictionary for all batches.
        let words: ArrayRef = Arc::new(StringArray::from(vec!["one", "two", "three"]));
        let keys = Int8Array::from_iter_values((from..from + rows).map(|i| (i % 3) as i8));
        let c = DictionaryArray::<Int8Type>::new(keys, words);
        let d: ArrayRef =
            Arc::new(Decimal64Array::from_iter_values(from..from + rows).with_precision_and_scale(12, 3).unwrap());
        RecordBatch::try_from_iter_with_nullable([
            ("a", a, true),
            ("b", b, true),
            ("c", Arc::new(c) as _, true),
            ("d", d, false),
        ])
        .unwrap()
    }

    fn file(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    fn stream(batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    fn expected(batches: &[RecordBatch]) -> RecordBatch {
        let batches = batches.iter().map(logical).collect::<Vec<_>>();
        concat_batches(&batches[0].schema(), &batches).unwrap()
    }

    #[test]
    fn both_formats_come_back() {
        let batches = [batch(0, 1000), batch(1000, 1), batch(1001, 500)];
        let lz4 = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
        let mut files = vec![file(&batches, IpcWriteOptions::default()), stream(&batches)];
        // The library is built without compression where nothing else in the build wants it.
        files.extend(lz4.ok().map(|options| file(&batches, options)));
        for bytes in files {
            let table = table_of("a.arrow", bytes);
            assert_eq!(table.schema().field(2).data_type(), &DataType::Utf8View);
            assert_eq!(table.schema().field(3).data_type(), &DataType::Decimal128(12, 3));
            assert_eq!(table.statistics().num_rows, Precision::Exact(1501));
            for batch_rows in [8192, 100] {
                let request = ScanRequest { columns: all(&table), predicate: None };
                assert_eq!(read_all(&table, &request, &[], batch_rows, true), expected(&batches));
            }
            let request = ScanRequest { columns: vec![2], predicate: None };
            let filters = [AtMost::filter(0, 600)];
            let read = read_all(&table, &request, &filters, 100, true);
            assert_eq!(read.num_rows(), 480);
            let count = read_all(&table, &ScanRequest::default(), &[], 100, true);
            assert_eq!(count.num_rows(), 1501);
        }
    }

    #[test]
    fn a_stream_may_replace_a_dictionary() {
        let other: DictionaryArray<Int8Type> = ["four", "five"].into_iter().collect();
        let first = batch(0, 2);
        let mut columns = first.columns().to_vec();
        columns[2] = Arc::new(other);
        let second = RecordBatch::try_new(first.schema(), columns).unwrap();
        let batches = [first, second];
        let table = table_of("a.arrows", stream(&batches));
        let request = ScanRequest { columns: all(&table), predicate: None };
        assert_eq!(read_all(&table, &request, &[], 100, true), expected(&batches));
    }

    #[test]
    fn every_shortened_file_is_an_error() {
        let whole = file(&[batch(0, 20), batch(20, 20)], IpcWriteOptions::default());
        for length in 0..whole.len() {
            let error = try_read("short.arrow", whole[..length].to_vec()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::File, "{error}");
            assert!(error.message().contains("short.arrow"), "{error}");
        }
        let whole = stream(&[batch(0, 20), batch(20, 20)]);
        for length in 0..whole.len() {
            match try_read("short.arrow", whole[..length].to_vec()) {
                Err(error) => assert!(error.message().contains("short.arrow"), "{error}"),
                // A stream may end between two messages.
                Ok(read) => assert!(read.num_rows() % 20 == 0),
            }
        }
    }

    #[test]
    fn a_damaged_file_gives_rows_or_an_error() {
        for whole in [file(&[batch(0, 20)], IpcWriteOptions::default()), stream(&[batch(0, 20)])] {
            let complaints = quietly(|| {
                let mut complaints = Vec::new();
                for position in 0..whole.len() {
                    for flip in [0x01, 0x80, 0xff] {
                        let mut damaged = whole.clone();
                        damaged[position] ^= flip;
                        if let Err(error) = try_read("damaged.arrow", damaged)
                            && (!error.message().contains("damaged.arrow") || error.kind() == ErrorKind::Bug)
                        {
                            complaints.push(format!("byte {position} ^ {flip}: {error:?}"));
                        }
                    }
                }
                complaints
            });
            assert!(complaints.is_empty(), "{:#?}", &complaints[..3]);
        }
    }
}
