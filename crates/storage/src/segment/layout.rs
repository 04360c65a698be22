//! The bytes of a segment's file around its chunks: head and end. `docs/segment-format.md` draws them.
//!
//! Invariant: every byte of a file is under a checksum, or is what the version says it has to be.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use diligence_base::panics::caught_quietly;
use diligence_segment::{Chunk, Damaged, encode};

/// What a file begins and ends with.
const MAGIC: &[u8; 8] = b"DLGSEG\r\n";
/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// Bytes before the first chunk.
pub(super) const HEAD_BYTES: u64 = 64;
/// Chunks begin at multiples of this.
const ALIGNMENT: u64 = 64;
/// Bytes behind the footer.
const TAIL_BYTES: usize = 24;
/// Rows of a window, which has bounds of its own.
pub(super) const WINDOW_ROWS: usize = 8192;
/// Rows of a cluster at most, as codecs count.
pub(super) const CLUSTER_ROWS_MAX: usize = 1 << 17;

/// What the end of a file says.
#[derive(Debug)]
pub(super) struct Footer {
    /// The columns; all may be NULL.
    pub schema: SchemaRef,
    pub clusters: Vec<ClusterEntry>,
    /// By column.
    pub bounds: Vec<Option<Bounds>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterEntry {
    pub rows: usize,
    /// By column.
    pub chunks: Vec<ChunkEntry>,
}

/// Where a chunk is, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkEntry {
    pub start: u64,
    /// Its bytes; zeros are behind them up to a multiple of 64.
    pub bytes: u64,
    /// CRC-32 of the bytes and the zeros.
    pub checksum: u32,
    pub nulls: u32,
    /// About how many different values there are; `None` if nobody has counted.
    pub distinct: Option<u32>,
    /// Bytes of the values in memory.
    pub bytes_in_memory: u64,
}

impl ChunkEntry {
    /// What the checksum is of.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + padded(self.bytes)
    }
}

/// The least and the greatest value of a column: first of each cluster, then of each window of each cluster. NULL where
/// there is no value, or where it is not known.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Whether they are values of the column; otherwise they may be shortened.
    pub is_exact: bool,
    pub least: ArrayRef,
    pub greatest: ArrayRef,
    /// How many NULLs there are.
    pub nulls: UInt32Array,
}

/// The length of a chunk with the zeros behind it.
pub(super) fn padded(bytes: u64) -> u64 {
    bytes.saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// How many windows a cluster has.
pub(super) fn windows_of(rows: usize) -> usize {
    rows.div_ceil(WINDOW_ROWS)
}

/// What comes before the chunks.
pub(super) fn head() -> [u8; HEAD_BYTES as usize] {
    let mut head = [0; HEAD_BYTES as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// What comes behind the chunks. Fails if the columns have a type that Arrow cannot write.
pub(super) fn end(footer: &Footer) -> Result<Vec<u8>, ArrowError> {
    let mut out = Vec::new();
    let schema = StreamWriter::try_new(Vec::new(), &footer.schema)?.into_inner()?;
    put_part(&mut out, &schema);
    out.extend_from_slice(&(footer.clusters.len() as u32).to_le_bytes());
    for cluster in &footer.clusters {
        out.extend_from_slice(&(cluster.rows as u32).to_le_bytes());
        for chunk in &cluster.chunks {
            out.extend_from_slice(&chunk.bytes.to_le_bytes());
            out.extend_from_slice(&chunk.checksum.to_le_bytes());
            out.extend_from_slice(&chunk.nulls.to_le_bytes());
            out.extend_from_slice(&chunk.distinct.unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(&chunk.bytes_in_memory.to_le_bytes());
        }
    }
    for bounds in &footer.bounds {
        let Some(bounds) = bounds else {
            out.push(0);
            continue;
        };
        out.push(if bounds.is_exact { 2 } else { 1 });
        let nulls: ArrayRef = Arc::new(bounds.nulls.clone());
        for array in [&bounds.least, &bounds.greatest, &nulls] {
            put_part(&mut out, &encode(array)?);
        }
    }
    let bytes = out.len() as u64;
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    out.extend_from_slice(MAGIC);
    Ok(out)
}

fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u64).to_le_bytes());
    out.extend_from_slice(part);
}

fn damaged<T>(why: &str) -> Result<T, Damaged> {
    Err(Damaged(why.to_owned()))
}

/// Whether a file begins as one of this format; fails if it is of a version that is not known.
pub(super) fn check_head(found: &[u8]) -> Result<(), Damaged> {
    let expected = head();
    if found == expected {
        return Ok(());
    }
    match found.first_chunk::<12>() {
        Some(first) if first[..8] == *MAGIC && first[8..] != expected[8..12] => {
            damaged("it is of another version of the format: open it with the version that wrote it")
        }
        _ => damaged("its beginning is not what was written; the file is corrupt"),
    }
}

/// Reads the end of a file: all that comes behind its chunks, which end at `start`. Fails if it is not what
/// [`end`](end()) has made.
pub(super) fn read_end(end: Bytes, start: u64) -> Result<Footer, Damaged> {
    let Some((rest, tail)) = end.split_last_chunk::<TAIL_BYTES>() else { return damaged("it has no end") };
    let checked = rest.len() + 12;
    let length = u64::from_le_bytes(tail[..8].first_chunk().copied().unwrap_or_default());
    if tail[16..] != MAGIC[..] || tail[8..12] != VERSION.to_le_bytes() || length != rest.len() as u64 {
        return damaged("its end is not what was written");
    }
    if crc32fast::hash(&end[..checked]).to_le_bytes() != tail[12..16] {
        return damaged("the checksum of its end is wrong");
    }
    let mut reader = Fields { bytes: end.slice(..rest.len()) };
    let schema = read_schema(&reader.part()?)?;
    let clusters = reader.u32()? as usize;
    let (mut at, limit) = (HEAD_BYTES, start);
    let cluster = |_| {
        let rows = reader.u32()? as usize;
        if rows > CLUSTER_ROWS_MAX {
            return damaged("a cluster has too many rows");
        }
        let chunks = schema.fields().iter().map(|_| {
            let (start, bytes) = (at, reader.u64()?);
            at = start.saturating_add(padded(bytes));
            if bytes > limit || at > limit {
                return damaged("a chunk is not there");
            }
            let (checksum, nulls, distinct) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let distinct = (distinct != u32::MAX).then_some(distinct);
            Ok(ChunkEntry { start, bytes, checksum, nulls, distinct, bytes_in_memory: reader.u64()? })
        });
        Ok(ClusterEntry { rows, chunks: chunks.collect::<Result<_, _>>()? })
    };
    let clusters = (0..clusters).map(cluster).collect::<Result<Vec<_>, _>>()?;
    if at != start {
        return damaged("its chunks do not end where they should");
    }
    let entries = clusters.len() + clusters.iter().map(|cluster| windows_of(cluster.rows)).sum::<usize>();
    let bounds = schema.fields().iter().map(|field| reader.bounds(field, entries)).collect::<Result<_, _>>()?;
    if !reader.bytes.is_empty() {
        return damaged("something is behind its footer");
    }
    Ok(Footer { schema, clusters, bounds })
}

/// The schema of a stream without batches. The library has no answer to types that it does not know.
fn read_schema(bytes: &[u8]) -> Result<SchemaRef, Damaged> {
    let read = || {
        let mut decoder = StreamDecoder::new();
        decoder.decode(&mut Buffer::from(bytes))?;
        Ok::<_, ArrowError>(decoder.schema())
    };
    match caught_quietly(read) {
        Some(Ok(Some(schema))) => Ok(schema),
        _ => damaged("its columns cannot be read"),
    }
}

struct Fields {
    bytes: Bytes,
}

impl Fields {
    fn take(&mut self, count: usize) -> Result<Bytes, Damaged> {
        if count > self.bytes.len() { damaged("its footer ends too early") } else { Ok(self.bytes.split_to(count)) }
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        Ok(self.take(N)?.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u32(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.number()?))
    }

    fn u64(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.number()?))
    }

    fn part(&mut self) -> Result<Bytes, Damaged> {
        let length = self.u64()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn bounds(&mut self, field: &Field, entries: usize) -> Result<Option<Bounds>, Damaged> {
        let is_exact = match self.number::<1>()? {
            [0] => return Ok(None),
            [1] => false,
            [2] => true,
            _ => return damaged("its bounds are of a form that is not known"),
        };
        let mut array = |data_type: &DataType| {
            let bytes = self.part()?;
            Chunk::open(bytes, data_type, entries)?.read(0..entries, None, false)
        };
        let (least, greatest) = (array(field.data_type())?, array(field.data_type())?);
        let nulls = array(&DataType::UInt32)?;
        let nulls = nulls.as_primitive::<UInt32Type>().clone();
        Ok(Some(Bounds { is_exact, least, greatest, nulls }))
    }
}
