//! One file that all packets of a run write to.
//!
//! ```text
//!   packets: pieces of text, row groups ──▶ appended, one at a time ──▶ blocks, each with its place ──▶ disk or store
//! ```
//!
//! Invariant: what is appended is whole, so the order in which packets append decides only the order of rows.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter as IpcWriter, IpcWriteOptions};
use bytes::Bytes;
use diligence_base::limits::PARQUET_ROW_GROUP_ROWS;
use diligence_base::{Error, Result};
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path as StorePath;
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use tokio::io::AsyncWriteExt;

use super::blocks::{Due, Outbox};
use super::format::{TextEncoder, WriteExtras, WriteFormat};
use super::in_order::{Sequence, WrittenPiece};
use super::local::LocalOutput;
use super::row_groups::{Gathered, ParquetOutput, RowGroup, RowGroupBounds, chunked_writer, needed_bytes};
use crate::external::stores::store_error;
use crate::foreign_error::{from_arrow, from_parquet};
use crate::writer::{PartIo, WriteIo};

/// Parts of an object that are on their way at the same time.
const PARTS_AT_ONCE: usize = 2;

/// Bytes of a part of an object: the fewest that stores take.
const PART_BYTES: usize = 5 << 20;

/// What a format has for all packets.
enum FileEncoder {
    Parquet(Box<ParquetOutput>),
    /// Parquet, one row group after the other.
    Chunked(Box<ArrowWriter<Outbox>>),
    Arrow(Box<IpcWriter<Outbox>>),
    Text(TextEncoder),
}

/// Where a file is.
pub(super) enum OutputPlace {
    Local(Arc<LocalOutput>),
    Object(Arc<ObjectOutput>),
}

/// A file that rows are written to.
pub(super) struct OutputFile {
    /// What users call the place that is written to.
    name: Arc<str>,
    place: OutputPlace,
    state: Mutex<OutputState>,
    rows: AtomicU64,
    /// What all files of the run hold in memory.
    held: Arc<AtomicUsize>,
}

struct OutputState {
    encoder: FileEncoder,
    outbox: Outbox,
    /// Where the next block belongs.
    offset: u64,
    /// Whether a piece of text with rows is in it.
    has_pieces: bool,
    /// Rows that packets had left, too few for a row group.
    rest: Vec<RecordBatch>,
    /// What waits for its turn, where rows come in order.
    sequence: Sequence,
    /// Rows whose turn has come, and which make a row group with those behind them.
    gathered: Gathered,
    /// What it counts of the run's `held`.
    held: usize,
}

impl OutputFile {
    /// A file of these columns. Fails with kind `Unsupported` if the format has no form for one.
    pub fn new(
        name: Arc<str>,
        place: OutputPlace,
        (format, extras): (&WriteFormat, &WriteExtras),
        schema: &SchemaRef,
        bounds: RowGroupBounds,
        held: Arc<AtomicUsize>,
    ) -> Result<Self> {
        let outbox = Outbox::default();
        let encoder = match (format, TextEncoder::new(format, extras)) {
            (_, Some(text)) => {
                outbox.clone().write_all(&text.header(schema)?).map_err(|error| unwritable(&name, &error))?;
                FileEncoder::Text(text)
            }
            (WriteFormat::Parquet(options), None) if options.global.content_defined_chunking.enabled => {
                FileEncoder::Chunked(Box::new(chunked_writer(outbox.clone(), schema, options)?))
            }
            (WriteFormat::Parquet(options), None) => FileEncoder::Parquet(Box::new(ParquetOutput::new(
                outbox.clone(),
                schema,
                options,
                bounds.dictionary_bytes,
            )?)),
            (_, None) => {
                let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
                let writer =
                    options.and_then(|options| IpcWriter::try_new_with_options(outbox.clone(), schema, options));
                FileEncoder::Arrow(Box::new(writer.map_err(from_arrow)?))
            }
        };
        let (sequence, gathered) = (Sequence::default(), Gathered::new(bounds));
        let (rest, has_pieces) = (Vec::new(), false);
        let state = OutputState { encoder, outbox, offset: 0, has_pieces, rest, sequence, gathered, held: 0 };
        Ok(Self { name, place, state: Mutex::new(state), rows: AtomicU64::new(0), held })
    }

    /// Rows that packets have for it so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes that it has so far.
    pub fn bytes(&self) -> u64 {
        let state = self.state.lock();
        state.offset + state.outbox.bytes() as u64
    }

    /// Changes the state, and counts anew what it holds.
    fn change<T>(&self, change: impl FnOnce(&mut OutputState) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        let encoder = match &state.encoder {
            FileEncoder::Chunked(writer) => writer.in_progress_size(),
            FileEncoder::Parquet(parquet) => parquet.metadata_bytes(),
            FileEncoder::Arrow(_) | FileEncoder::Text(_) => 0,
        };
        let waiting = state.sequence.bytes() + state.gathered.bytes();
        let held = state.outbox.bytes() + encoder + waiting + state.rest.iter().map(needed_bytes).sum::<usize>();
        let before = std::mem::replace(&mut state.held, held);
        self.held.fetch_add(held, Ordering::Relaxed);
        self.held.fetch_sub(before, Ordering::Relaxed);
        changed
    }

    /// A row group to fill.
    fn row_group(&self) -> Result<RowGroup> {
        match &self.state.lock().encoder {
            FileEncoder::Parquet(parquet) => parquet.row_group(),
            _ => Err(Error::bug("only Parquet files have row groups")),
        }
    }

    fn append_row_group(&self, chunks: Vec<ArrowColumnChunk>) -> Result<()> {
        self.change(|state| state.append(WrittenPiece::RowGroup(chunks), &self.name))
    }

    /// What a packet has of a place in the order of rows, or of none.
    fn put(&self, place: Option<usize>, piece: WrittenPiece) -> Result<()> {
        self.change(|state| {
            let due = match place {
                Some(place) => state.sequence.put(place, piece),
                None => Some(piece),
            };
            due.map_or(Ok(()), |piece| state.append(piece, &self.name))
        })
    }

    /// A packet has no more of a place.
    fn end_place(&self, place: usize) -> Result<()> {
        self.change(|state| {
            let due = state.sequence.end(place);
            due.into_iter().try_for_each(|piece| state.append(piece, &self.name))
        })
    }

    fn append_rows(&self, rows: &RecordBatch) -> Result<()> {
        self.change(|state| match &mut state.encoder {
            FileEncoder::Arrow(writer) => writer.write(rows).map_err(from_arrow),
            FileEncoder::Chunked(writer) => writer.write(rows).map_err(from_parquet),
            _ => Err(Error::bug("these rows are encoded by their packet")),
        })
    }

    fn leave(&self, rows: Vec<RecordBatch>) -> Result<()> {
        self.change(|state| {
            state.rest.extend(rows);
            Ok(())
        })
    }

    /// The I/O that is due.
    pub fn due(&self, due: Due) -> Vec<PartIo> {
        let mut ios = Vec::new();
        // Nothing in here fails.
        let _ = self.change(|state| {
            for block in state.outbox.take(due) {
                let offset = state.offset;
                state.offset += block.len() as u64;
                ios.push(self.send(block, offset));
            }
            Ok(())
        });
        ios
    }

    fn send(&self, block: Bytes, offset: u64) -> PartIo {
        let (bytes, name) = (block.len(), self.name.clone());
        let io = match &self.place {
            OutputPlace::Local(file) => {
                let file = file.clone();
                let write = move || file.write(&block, offset).map_err(|error| unwritable(&name, &error));
                WriteIo::Blocking(Box::new(write))
            }
            OutputPlace::Object(object) => {
                object.queue.lock().push_back(block);
                let object = object.clone();
                WriteIo::Waiting(Box::pin(async move { object.send().await }))
            }
        };
        PartIo { bytes, io }
    }

    /// Encodes all that is left of it.
    pub fn finish(&self, bounds: RowGroupBounds) -> Result<()> {
        let rest = self.change(|state| {
            let waiting = state.sequence.rest();
            waiting.into_iter().try_for_each(|piece| state.append(piece, &self.name))?;
            state.end_gathered()?;
            Ok(std::mem::take(&mut state.rest))
        })?;
        let mut gathered = Gathered::new(bounds);
        let (begin, full) = (|| self.row_group(), |chunks| self.append_row_group(chunks));
        rest.iter().try_for_each(|rows| gathered.write(rows, begin, full))?;
        gathered.end(begin, full)?;
        self.change(|state| match &mut state.encoder {
            FileEncoder::Parquet(parquet) => parquet.finish(),
            FileEncoder::Chunked(writer) => writer.finish().map(drop).map_err(from_parquet),
            FileEncoder::Arrow(writer) => writer.finish().map_err(from_arrow),
            FileEncoder::Text(text) if state.offset == 0 && state.outbox.bytes() == 0 => {
                state.outbox.write_all(&text.empty()?).map_err(|error| unwritable(&self.name, &error))
            }
            FileEncoder::Text(text) => {
                state.outbox.write_all(&text.end()?).map_err(|error| unwritable(&self.name, &error))
            }
        })
    }

    /// Writes what is left of a local file, and has it where a crash leaves it.
    pub fn sync(&self) -> Result<()> {
        let OutputPlace::Local(file) = &self.place else { return Ok(()) };
        for due in self.due(Due::All) {
            if let WriteIo::Blocking(write) = due.io {
                write()?;
            }
        }
        file.sync().map_err(|error| unwritable(&self.name, &error))
    }

    /// The object that it is, if it is one.
    pub fn object(&self) -> Option<Arc<ObjectOutput>> {
        match &self.place {
            OutputPlace::Object(object) => Some(object.clone()),
            OutputPlace::Local(_) => None,
        }
    }
}

impl OutputState {
    /// Appends a piece whose turn it is.
    fn append(&mut self, piece: WrittenPiece, name: &str) -> Result<()> {
        match piece {
            WrittenPiece::RowGroup(chunks) => {
                self.end_gathered()?;
                self.parquet()?.append(chunks)
            }
            WrittenPiece::Rows(rows) => {
                let Self { encoder: FileEncoder::Parquet(parquet), gathered, .. } = self else {
                    return Err(Error::bug("only Parquet files have row groups"));
                };
                let parquet = RefCell::new(parquet);
                rows.iter().try_for_each(|rows| {
                    gathered.write(rows, || parquet.borrow().row_group(), |chunks| parquet.borrow_mut().append(chunks))
                })
            }
            WrittenPiece::Text(piece) if piece.is_empty() => Ok(()),
            WrittenPiece::Text(piece) => {
                let between = match &self.encoder {
                    FileEncoder::Text(text) if self.has_pieces => text.between()?,
                    _ => Vec::new(),
                };
                self.has_pieces = true;
                let written = self.outbox.write_all(&between).and_then(|()| self.outbox.write_all(&piece));
                written.map_err(|error| unwritable(name, &error))
            }
        }
    }

    /// Has the rows that were gathered in the file.
    fn end_gathered(&mut self) -> Result<()> {
        if self.gathered.bytes() == 0 {
            return Ok(());
        }
        let Self { encoder: FileEncoder::Parquet(parquet), gathered, .. } = self else {
            return Err(Error::bug("only Parquet files have row groups"));
        };
        let parquet = RefCell::new(parquet);
        gathered.end(|| parquet.borrow().row_group(), |chunks| parquet.borrow_mut().append(chunks))
    }

    fn parquet(&mut self) -> Result<&mut ParquetOutput> {
        match &mut self.encoder {
            FileEncoder::Parquet(parquet) => Ok(parquet),
            _ => Err(Error::bug("only Parquet files have row groups")),
        }
    }
}

/// Whether packets can write a file of a format side by side whose rows come in order. Row groups of a size that
/// somebody chose are made one after the other.
pub(super) fn keeps_order(format: &WriteFormat) -> bool {
    match format {
        WriteFormat::Parquet(options) => {
            !options.global.content_defined_chunking.enabled
                && options.global.max_row_group_size == PARQUET_ROW_GROUP_ROWS
        }
        WriteFormat::Csv(..) | WriteFormat::Json(..) => true,
        WriteFormat::Arrow => false,
    }
}

/// Of a place, as many rows make one row group: those of a cluster do.
const PLACE_ROWS: usize = PARQUET_ROW_GROUP_ROWS / 4 * 5;

impl Drop for OutputFile {
    fn drop(&mut self) {
        self.held.fetch_sub(self.state.get_mut().held, Ordering::Relaxed);
    }
}

/// What one packet has of a file.
pub(super) struct FilePart {
    file: Arc<OutputFile>,
    encoder: PartEncoder,
    bounds: RowGroupBounds,
    /// Where its rows belong, if they come in order.
    place: Option<usize>,
}

enum PartEncoder {
    RowGroups(Gathered),
    Text(TextEncoder),
    /// The file encodes.
    Rows,
}

impl FilePart {
    pub fn new(file: Arc<OutputFile>, (format, extras): (&WriteFormat, &WriteExtras), bounds: RowGroupBounds) -> Self {
        let is_parquet = matches!(file.state.lock().encoder, FileEncoder::Parquet(_));
        let encoder = match TextEncoder::new(format, extras) {
            Some(text) => PartEncoder::Text(text),
            None if is_parquet => PartEncoder::RowGroups(Gathered::new(bounds)),
            None => PartEncoder::Rows,
        };
        Self { file, encoder, bounds, place: None }
    }

    /// Its rows belong to this place from now on. Fails as [`write`](Self::write).
    pub fn at(&mut self, place: Option<usize>) -> Result<()> {
        if let Some(before) = self.place {
            if let PartEncoder::RowGroups(gathered) = &mut self.encoder {
                self.file.put(Some(before), WrittenPiece::Rows(gathered.take_kept()))?;
            }
            self.hand_over(false)?;
            self.file.end_place(before)?;
        }
        self.place = place;
        if place.is_some()
            && let PartEncoder::RowGroups(gathered) = &mut self.encoder
        {
            *gathered = Gathered::new(RowGroupBounds { rows: PLACE_ROWS, ..self.bounds });
        }
        Ok(())
    }

    /// Takes rows. Fails with kind `Unsupported` or `Value` if the format has no form for a value.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let (file, place) = (&self.file, self.place);
        file.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        match &mut self.encoder {
            PartEncoder::RowGroups(gathered) => {
                gathered.write(rows, || file.row_group(), |chunks| file.put(place, WrittenPiece::RowGroup(chunks)))
            }
            PartEncoder::Text(text) => {
                text.write(rows)?;
                if text.is_full() { file.put(place, WrittenPiece::Text(text.take()?)) } else { Ok(()) }
            }
            PartEncoder::Rows => file.append_rows(rows),
        }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        match &self.encoder {
            PartEncoder::RowGroups(gathered) => gathered.bytes(),
            PartEncoder::Text(text) => text.bytes(),
            PartEncoder::Rows => 0,
        }
    }

    /// Holds nothing any more: all is in the file. With `is_end`, few rows of Parquet may stay as they are.
    pub fn hand_over(&mut self, is_end: bool) -> Result<()> {
        if is_end && self.place.is_some() {
            return self.at(None);
        }
        let (file, place) = (&self.file, self.place);
        match &mut self.encoder {
            PartEncoder::RowGroups(gathered) => {
                if is_end {
                    file.leave(gathered.take_kept())?;
                }
                gathered.end(|| file.row_group(), |chunks| file.put(place, WrittenPiece::RowGroup(chunks)))
            }
            PartEncoder::Text(text) => file.put(place, WrittenPiece::Text(text.take()?)),
            PartEncoder::Rows => Ok(()),
        }
    }

    /// The I/O of its file that is due.
    pub fn due(&self, due: Due) -> Vec<PartIo> {
        self.file.due(due)
    }

    /// The file.
    pub fn file(&self) -> &Arc<OutputFile> {
        &self.file
    }
}

/// An object of a store, which appears when it is complete.
pub(super) struct ObjectOutput {
    name: Arc<str>,
    queue: Mutex<VecDeque<Bytes>>,
    upload: tokio::sync::Mutex<Upload>,
    held: Arc<AtomicUsize>,
}

struct Upload {
    writer: BufWriter,
    /// What its buffers are counted with.
    held: usize,
    has_ended: bool,
}

impl ObjectOutput {
    pub fn new(name: Arc<str>, store: Arc<dyn ObjectStore>, path: StorePath, held: Arc<AtomicUsize>) -> Self {
        let writer = BufWriter::with_capacity(store, path, PART_BYTES).with_max_concurrency(PARTS_AT_ONCE);
        let upload = Upload { writer, held: 0, has_ended: false };
        Self { name, queue: Mutex::default(), upload: tokio::sync::Mutex::new(upload), held }
    }

    /// Sends what is queued, in order.
    async fn send(&self) -> Result<()> {
        let mut upload = self.upload.lock().await;
        loop {
            let Some(block) = self.queue.lock().pop_front() else { return Ok(()) };
            if upload.held == 0 {
                upload.held = (PARTS_AT_ONCE + 1) * PART_BYTES;
                self.held.fetch_add(upload.held, Ordering::Relaxed);
            }
            upload.writer.put(block).await.map_err(|error| self.failed(&error))?;
        }
    }

    /// Makes it complete.
    pub async fn complete(&self) -> Result<()> {
        self.send().await?;
        let mut upload = self.upload.lock().await;
        upload.has_ended = true;
        upload.writer.shutdown().await.map_err(|error| self.failed(&store_error_in(error)))
    }

    /// Has the store drop the parts that it has: it would want to be paid for them.
    pub async fn abort(&self) {
        let mut upload = self.upload.lock().await;
        if !std::mem::replace(&mut upload.has_ended, true) {
            // Nobody knows of an upload that has not begun; and the statement has failed, and says why.
            let _ = upload.writer.abort().await;
        }
    }

    fn failed(&self, error: &object_store::Error) -> Error {
        store_error(&self.name, error).context("it cannot be written")
    }
}

impl Drop for ObjectOutput {
    fn drop(&mut self) {
        self.held.fetch_sub(self.upload.get_mut().held, Ordering::Relaxed);
    }
}

/// The error of a store behind one of writing.
fn store_error_in(error: std::io::Error) -> object_store::Error {
    match error.downcast::<object_store::Error>() {
        Ok(error) => error,
        Err(error) => object_store::Error::Generic { store: "copy", source: error.into() },
    }
}

/// What the system says of a place that cannot be written to.
pub(super) fn unwritable(name: &str, error: &std::io::Error) -> Error {
    Error::file(format!("{name}: it cannot be written: {error}"))
}
