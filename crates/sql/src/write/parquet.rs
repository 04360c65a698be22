//! Parquet files as they are written: row groups of bounded size, encoded side by side, appended in the order of their
//! rows.
//!
//! ```text
//!   batches ──▶ gathered ──▶ encoded, up to two row groups at a time ──▶ appended ──▶ sent, as parts of the file
//! ```
//!
//! All of this goes on at the same time: a row group is gathered while those before it are encoded, one is appended,
//! and one is sent.
//!
//! This takes the place of DataFusion's own sink, whose row groups have a number of rows but no number of bytes, and
//! whose uploads are not counted. Here rows are counted as long as they are gathered or encoded; where memory is short,
//! a row group ends early, and what is being encoded is waited for. So writing needs little, and is never refused it.
//!
//! Dictionaries are tried for each column until a row group's became too large to be of use: those that begin after
//! that have none.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::config::{ConfigOptions, TableParquetOptions};
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::file_format::parquet::ParquetSink;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::get_writer_schema;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use datafusion::parquet::basic::{Encoding, PageType};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, SortingColumn};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use diligence_engine::batch::{bytes_needed, compacted};
use diligence_storage::foreign_error::to_datafusion;
use futures::StreamExt;
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path as StorePath;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{self, Receiver};

use super::is_local;
use super::local::PAGE_BYTES;

/// Row groups that are encoded at the same time.
const ENCODED_AT_ONCE: usize = 2;

/// A row group has one part in so many of what the query may have, before it is encoded: one is gathered while others
/// are encoded, and those hold the rows and what is made of them.
const ROW_GROUP_PART: usize = 24;
/// And within these bounds.
const ROW_GROUP_BYTES_MIN: usize = 1 << 20;
const ROW_GROUP_BYTES_MAX: usize = 64 << 20;

/// Parts of a file that are on their way at the same time.
const PARTS_AT_ONCE: usize = 2;

/// Bytes of what goes to the store at once, and of a part of a local file. Object stores want parts to be larger.
const BLOCK_BYTES: usize = 1 << 20;

/// The rule that has our sink write what DataFusion's would.
#[derive(Debug)]
pub(crate) struct BoundedRowGroups;

impl PhysicalOptimizerRule for BoundedRowGroups {
    fn name(&self) -> &str {
        "bounded_row_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(exec) = plan.downcast_ref::<DataSinkExec>() else { return Ok(plan) };
        let Some(theirs) = exec.sink().downcast_ref::<ParquetSink>() else { return Ok(plan) };
        let options = theirs.parquet_options().clone();
        // Where a row group ends must not depend on memory then: the same rows are to make the same pages.
        if options.global.content_defined_chunking.enabled {
            return Ok(plan);
        }
        let config = theirs.config().clone();
        let schema = get_writer_schema(&config);
        let sorting =
            exec.sort_order().as_ref().and_then(|order| sorting_columns(order, config.output_schema(), &schema));
        let sink = Sink { config, schema, options, sorting, has_failed: HasFailed::default() };
        Ok(Arc::new(DataSinkExec::new(exec.input().clone(), Arc::new(sink), exec.sort_order().clone())))
    }
}

/// The order of the rows as a file's metadata has it: as many of its columns as are columns of the file, if all columns
/// are flat.
fn sorting_columns(order: &LexRequirement, input: &Schema, file: &Schema) -> Option<Vec<SortingColumn>> {
    if file.fields().iter().any(|field| field.data_type().is_nested()) {
        return None;
    }
    let column = |requirement: &datafusion::physical_expr::PhysicalSortRequirement| {
        let index = requirement.expr.downcast_ref::<Column>()?.index();
        let options = requirement.options.unwrap_or_default();
        Some(SortingColumn {
            column_idx: i32::try_from(file.index_of(input.field(index).name()).ok()?).ok()?,
            descending: options.descending,
            nulls_first: options.nulls_first,
        })
    };
    let columns: Vec<_> = order.iter().map_while(column).collect();
    Some(columns).filter(|columns| !columns.is_empty())
}

/// The sink.
#[derive(Debug)]
struct Sink {
    config: FileSinkConfig,
    /// Of the files.
    schema: SchemaRef,
    options: TableParquetOptions,
    sorting: Option<Vec<SortingColumn>>,
    has_failed: HasFailed,
}

/// Whether rows could not be made or written: then no file is complete, though its rows seem to have ended.
#[derive(Clone, Debug, Default)]
struct HasFailed(Arc<AtomicBool>);

impl HasFailed {
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.0.store(true, Ordering::Release);
        }
        result
    }

    fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) { internal_err!("other rows of the statement failed") } else { Ok(()) }
    }
}

impl DisplayAs for Sink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParquetSink")
    }
}

#[async_trait]
impl DataSink for Sink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        self.has_failed.0.store(false, Ordering::Release);
        // Whoever divides the rows among files lets go of all of them when a batch is an error.
        let has_failed = self.has_failed.clone();
        let (schema, batches) = (data.schema(), data.map(move |batch| has_failed.note(batch)));
        FileSink::write_all(self, Box::pin(RecordBatchStreamAdapter::new(schema, batches)), context).await
    }
}

#[async_trait]
impl FileSink for Sink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        mut file_stream_rx: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let mut files = JoinSet::new();
        while let Some((path, rows)) = file_stream_rx.recv().await {
            let file = FileWriter::new(self, path, object_store.clone(), context)?;
            let has_failed = self.has_failed.clone();
            files.spawn(async move {
                let mut rows = rows;
                // Noted before the rows are let go: then others learn that theirs have ended.
                has_failed.note(file.write(&mut rows, &has_failed).await)
            });
        }
        let mut rows = 0;
        while let Some(file) = files.join_next().await {
            rows += file.map_err(joined)??;
        }
        demux_task.join_unwind().await.map_err(joined)??;
        Ok(rows)
    }
}

fn joined(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DataFusionError {
    DataFusionError::External(error.into())
}

/// What has been encoded, on its way from the file's writer to the store: in blocks, so that no growing copies it and
/// each is free as soon as it is written.
#[derive(Clone, Default)]
struct Outbox(Arc<Mutex<Vec<Block>>>);

impl Outbox {
    /// Takes out the blocks that are full; if the file has ended, all.
    fn take(&self, has_ended: bool) -> Vec<Bytes> {
        let mut blocks = self.0.lock();
        let full = if has_ended { blocks.len() } else { blocks.len().saturating_sub(1) };
        blocks.drain(..full).map(Block::into_bytes).collect()
    }
}

/// Bytes that begin where a page of memory does, so that they can go past the page cache.
struct Block {
    bytes: Vec<u8>,
    /// Where they begin.
    start: usize,
}

impl Block {
    fn new() -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(BLOCK_BYTES + PAGE_BYTES);
        let start = bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        bytes.resize(start, 0);
        Self { bytes, start }
    }

    fn room(&self) -> usize {
        BLOCK_BYTES - (self.bytes.len() - self.start)
    }

    fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes).slice(self.start..)
    }
}

impl Write for Outbox {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut blocks = self.0.lock();
        let mut block = match blocks.pop_if(|block| block.room() > 0) {
            Some(block) => block,
            None => Block::new(),
        };
        let some = bytes.len().min(block.room());
        block.bytes.extend_from_slice(&bytes[..some]);
        blocks.push(block);
        Ok(some)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One file while it is written.
struct FileWriter {
    schema: SchemaRef,
    columns: ArrowRowGroupWriterFactory,
    skip_arrow_metadata: bool,
    /// Leaf columns without a dictionary, beside those that were not to have one.
    plain: HashSet<ColumnPath>,
    properties: WriterPropertiesPtr,
    rows_max: usize,
    bytes_max: usize,
    gathered: Gathered,
    row_groups: usize,
    encoding: VecDeque<SpawnedTask<Result<Encoded>>>,
    appender: Appending,
}

/// Where the file is.
enum Appending {
    /// Nothing is appended to it.
    Idle(Box<Appender>),
    /// A row group is encoded and appended; gives back the leaf columns whose dictionary became too large.
    Busy(SpawnedTask<Result<(Box<Appender>, Vec<ColumnPath>)>>),
    /// It failed.
    Failed,
}

/// What has been written of a file.
struct Appender {
    file: SerializedFileWriter<Outbox>,
    outbox: Outbox,
    /// Has room for the blocks of a row group.
    sender: mpsc::Sender<Sent>,
    sending: SpawnedTask<Result<()>>,
    /// For the block that is being filled, which stays from one row group to the next.
    filled: MemoryReservation,
}

/// What goes to the store, in order.
enum Sent {
    Block(Bytes),
    /// What was reserved for the blocks before it.
    End(MemoryReservation),
    /// Nothing comes behind it.
    Complete,
}

/// Gives the store what comes until the file is complete. A file whose writer goes away before never is: a store must
/// not show it. `parts` is for the parts that the store has, one being filled and others on their way.
async fn send_all(
    mut sent: Receiver<Sent>,
    mut store: BufWriter,
    part_bytes: usize,
    parts: MemoryReservation,
) -> Result<()> {
    while let Some(next) = sent.recv().await {
        match next {
            Sent::Block(block) => {
                if parts.size() == 0 {
                    parts.grow((PARTS_AT_ONCE + 1) * part_bytes);
                }
                store.put(block).await?;
            }
            Sent::End(reservation) => drop(reservation),
            Sent::Complete => return Ok(store.shutdown().await?),
        }
    }
    // Nobody knows of an upload that has not begun.
    let _ = store.abort().await;
    internal_err!("a file's writer went away")
}

/// Rows of the row group that comes next.
struct Gathered {
    /// The arrays of each column.
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
    bytes: usize,
    reservation: MemoryReservation,
}

/// A row group that can be appended.
struct Encoded {
    chunks: Vec<ArrowColumnChunk>,
    /// Leaf columns whose dictionary became too large.
    outgrown: Vec<ColumnPath>,
    reservation: MemoryReservation,
}

impl FileWriter {
    fn new(sink: &Sink, path: StorePath, store: Arc<dyn ObjectStore>, context: &Arc<TaskContext>) -> Result<Self> {
        let execution = &context.session_config().options().execution;
        let mut options = sink.options.clone();
        if !options.global.skip_arrow_metadata {
            options.arrow_schema(&sink.schema);
        }
        let builder = WriterPropertiesBuilder::try_from(&options)?.set_sorting_columns(sink.sorting.clone());
        let outbox = Outbox::default();
        let skip_arrow_metadata = options.global.skip_arrow_metadata;
        let (file, columns) = writers(outbox.clone(), &sink.schema, builder.build(), skip_arrow_metadata)?;
        let limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => usize::MAX,
        };
        let reservation = MemoryConsumer::new("ParquetSink").with_can_spill(true).register(context.memory_pool());
        let is_local = is_local(&sink.config.object_store_url);
        let part_bytes = if is_local { BLOCK_BYTES } else { execution.objectstore_writer_buffer_size };
        let properties = file.properties().clone();
        let bytes_max = (limit / ROW_GROUP_PART).clamp(ROW_GROUP_BYTES_MIN, ROW_GROUP_BYTES_MAX);
        let store = BufWriter::with_capacity(store, path, part_bytes).with_max_concurrency(PARTS_AT_ONCE);
        let (sender, sent) = mpsc::channel(bytes_max / BLOCK_BYTES);
        let sending = SpawnedTask::spawn(send_all(sent, store, part_bytes, reservation.new_empty()));
        let filled = reservation.new_empty();
        let appender = Appender { file, outbox, sender, sending, filled };
        Ok(Self {
            columns,
            skip_arrow_metadata,
            plain: HashSet::new(),
            properties,
            rows_max: options.global.max_row_group_size.max(1),
            bytes_max,
            gathered: Gathered::new(&sink.schema, reservation),
            row_groups: 0,
            encoding: VecDeque::new(),
            appender: Appending::Idle(Box::new(appender)),
            schema: sink.schema.clone(),
        })
    }

    /// Writes all rows, and says how many they were.
    async fn write(mut self, batches: &mut Receiver<RecordBatch>, has_failed: &HasFailed) -> Result<u64> {
        let mut rows = 0;
        while let Some(batch) = batches.recv().await {
            rows += batch.num_rows() as u64;
            let mut from = 0;
            while from < batch.num_rows() {
                let some = (batch.num_rows() - from).min(self.rows_max - self.gathered.rows);
                self.gather(&batch.slice(from, some)).await?;
                from += some;
            }
        }
        if self.gathered.rows > 0 {
            self.encode().await?;
        }
        while !self.encoding.is_empty() {
            self.append_oldest().await?;
        }
        let appender = self.appended().await?;
        has_failed.check()?;
        appender.finish().await?;
        Ok(rows)
    }

    async fn gather(&mut self, batch: &RecordBatch) -> Result<()> {
        // What is kept must not keep other rows alive.
        let arrays = batch.columns().iter().map(compacted).collect::<diligence_base::Result<Vec<_>>>();
        let arrays = arrays.map_err(to_datafusion)?;
        let bytes = arrays.iter().map(|array| bytes_needed(array)).sum();
        while self.gathered.reservation.try_grow(bytes).is_err() {
            if self.gathered.rows > 0 {
                self.encode().await?;
            } else if !self.hold_less().await? {
                // Nothing else is held: a batch can always be written.
                self.gathered.reservation.grow(bytes);
                break;
            }
        }
        self.gathered.add(arrays, batch.num_rows(), bytes);
        if self.gathered.rows >= self.rows_max || self.gathered.bytes >= self.bytes_max {
            self.encode().await?;
        }
        Ok(())
    }

    /// Has what is gathered encoded beside whatever comes next.
    async fn encode(&mut self) -> Result<()> {
        // One that is to be appended next may still be encoded.
        let is_busy = matches!(self.appender, Appending::Busy(_));
        if self.encoding.len() + usize::from(is_busy) >= ENCODED_AT_ONCE {
            self.append_oldest().await?;
        }
        let rows = self.gathered.take(&self.schema);
        let writers = self.columns.create_column_writers(self.row_groups)?;
        self.row_groups += 1;
        let schema = self.schema.clone();
        self.encoding.push_back(SpawnedTask::spawn_blocking(move || rows.encode(&schema, writers)));
        Ok(())
    }

    /// Has the oldest row group appended beside whatever comes next, once those before it are.
    async fn append_oldest(&mut self) -> Result<()> {
        let appender = self.appended().await?;
        self.appender = match self.encoding.pop_front() {
            Some(oldest) => Appending::Busy(SpawnedTask::spawn(appender.append(oldest))),
            None => Appending::Idle(appender),
        };
        Ok(())
    }

    /// Waits until a row group is a step further on its way. False if there is none.
    async fn hold_less(&mut self) -> Result<bool> {
        if !self.encoding.is_empty() {
            self.append_oldest().await?;
            return Ok(true);
        }
        let was_busy = matches!(self.appender, Appending::Busy(_));
        let appender = self.appended().await?;
        let is_sending = appender.is_sending();
        if !was_busy && is_sending {
            appender.sent().await;
        }
        self.appender = Appending::Idle(appender);
        Ok(was_busy || is_sending)
    }

    /// Takes the file, once nothing is appended to it.
    async fn appended(&mut self) -> Result<Box<Appender>> {
        match std::mem::replace(&mut self.appender, Appending::Failed) {
            Appending::Idle(appender) => Ok(appender),
            Appending::Busy(task) => {
                let (appender, outgrown) = task.join_unwind().await.map_err(joined)??;
                self.go_on_without_dictionaries(outgrown)?;
                Ok(appender)
            }
            Appending::Failed => internal_err!("a file is written after that failed"),
        }
    }

    fn go_on_without_dictionaries(&mut self, outgrown: Vec<ColumnPath>) -> Result<()> {
        let known = self.plain.len();
        self.plain.extend(outgrown);
        if self.plain.len() > known {
            let builder = self.properties.as_ref().clone().into_builder();
            let plain = |builder: WriterPropertiesBuilder, path| builder.set_column_dictionary_enabled(path, false);
            let properties = self.plain.iter().cloned().fold(builder, plain).build();
            // The file's writer has the properties that it was made with; those of its columns' writers may be others.
            (_, self.columns) = writers(std::io::sink(), &self.schema, properties, self.skip_arrow_metadata)?;
        }
        Ok(())
    }
}

impl Appender {
    /// Appends a row group once it is encoded. It is sent beside whatever comes next.
    async fn append(
        mut self: Box<Self>,
        encoding: SpawnedTask<Result<Encoded>>,
    ) -> Result<(Box<Self>, Vec<ColumnPath>)> {
        let encoded = encoding.join_unwind().await.map_err(joined)??;
        let mut row_group = self.file.next_row_group()?;
        for chunk in encoded.chunks {
            chunk.append_to_row_group(&mut row_group)?;
        }
        row_group.close()?;
        // The last block is not full. It is held already.
        self.filled.resize(BLOCK_BYTES);
        let appender = self.send(false, Sent::End(encoded.reservation)).await?;
        Ok((appender, encoded.outgrown))
    }

    /// Writes what comes behind the last row group, and waits until the store has all.
    async fn finish(mut self: Box<Self>) -> Result<()> {
        self.file.finish()?;
        let Self { sending, .. } = *self.send(true, Sent::Complete).await?;
        sending.join_unwind().await.map_err(joined)?
    }

    fn is_sending(&self) -> bool {
        self.sender.capacity() < self.sender.max_capacity()
    }

    /// Waits until the store has what was sent.
    async fn sent(&self) {
        // If it has failed, whoever sends next learns it.
        let _ = self.sender.reserve_many(self.sender.max_capacity()).await;
    }

    /// Sends the blocks that are full, if the file has ended all, and what is said behind them.
    async fn send(self: Box<Self>, has_ended: bool, behind: Sent) -> Result<Box<Self>> {
        let blocks = self.outbox.take(has_ended).into_iter().map(Sent::Block);
        for next in blocks.chain([behind]) {
            if self.sender.send(next).await.is_err() {
                // The store has failed.
                self.sending.join_unwind().await.map_err(joined)??;
                return internal_err!("nobody takes what is written");
            }
        }
        Ok(self)
    }
}

impl Gathered {
    fn new(schema: &Schema, reservation: MemoryReservation) -> Self {
        Self { columns: vec![vec![]; schema.fields().len()], rows: 0, bytes: 0, reservation }
    }

    fn add(&mut self, arrays: Vec<ArrayRef>, rows: usize, bytes: usize) {
        self.columns.iter_mut().zip(arrays).for_each(|(column, array)| column.push(array));
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Takes the rows out, with what is reserved for them.
    fn take(&mut self, schema: &Schema) -> Self {
        let none = Self::new(schema, self.reservation.new_empty());
        std::mem::replace(self, none)
    }

    fn encode(self, schema: &Schema, writers: Vec<ArrowColumnWriter>) -> Result<Encoded> {
        let Self { columns, mut bytes, reservation, .. } = self;
        let mut writers = writers.into_iter();
        let mut encoded: Vec<ArrowColumnChunk> = Vec::new();
        for (field, arrays) in schema.fields().iter().zip(columns) {
            let mut own: Vec<ArrowColumnWriter> = Vec::new();
            for array in arrays {
                let leaves = compute_leaves(field, &array)?;
                if own.is_empty() {
                    own = writers.by_ref().take(leaves.len()).collect();
                }
                for (writer, leaf) in own.iter_mut().zip(&leaves) {
                    writer.write(leaf)?;
                }
                bytes -= bytes_needed(&array).min(bytes);
            }
            for writer in own {
                encoded.push(writer.close()?);
            }
            let held: usize = encoded.iter().map(|chunk| chunk.close().bytes_written as usize).sum();
            reservation.resize(bytes + held);
        }
        let outgrown = encoded.iter().map(|chunk| &chunk.close().metadata).filter(|column| has_outgrown(column));
        let outgrown = outgrown.map(|column| column.column_path().clone()).collect();
        Ok(Encoded { chunks: encoded, outgrown, reservation })
    }
}

/// Whether a column began with a dictionary and went on without.
fn has_outgrown(column: &ColumnChunkMetaData) -> bool {
    let pages = column.page_encoding_stats().map_or(&[][..], Vec::as_slice);
    column.dictionary_page_offset().is_some()
        && pages.iter().any(|pages| {
            matches!(pages.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2)
                && !matches!(pages.encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
        })
}

/// A writer of a file's bytes, and one of its columns.
fn writers<W: Write + Send>(
    to: W,
    schema: &SchemaRef,
    properties: WriterProperties,
    skip_arrow_metadata: bool,
) -> Result<(SerializedFileWriter<W>, ArrowRowGroupWriterFactory)> {
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(skip_arrow_metadata);
    Ok(ArrowWriter::try_new_with_options(to, schema.clone(), options)?.into_serialized_writer()?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use datafusion::datasource::listing::ListingTableUrl;
    use datafusion::datasource::physical_plan::FileOutputMode;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::logical_expr::dml::InsertOp;
    use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    const ROWS: usize = 40_000;

    /// Numbers, which repeat, beside texts, which do not, and a sink for them with so much memory.
    fn stage(memory_bytes: usize) -> (SessionContext, RecordBatch, Sink) {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(memory_bytes)));
        let mut config = SessionConfig::new();
        crate::state::set_defaults(config.options_mut());
        config.options_mut().execution.parquet.max_row_group_size = ROWS / 4;
        let context = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
        let texts = (0..ROWS).map(|row| format!("{row:0>200}"));
        let numbers = (0..ROWS as i64).map(|row| row % 10);
        let batch = RecordBatch::try_from_iter([
            ("a number", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef),
            ("a.text", Arc::new(StringViewArray::from_iter_values(texts))),
        ])
        .unwrap();
        let config = FileSinkConfig {
            original_url: String::new(),
            object_store_url: ObjectStoreUrl::parse("copy://local-1/").unwrap(),
            file_group: Vec::new().into(),
            table_paths: Vec::<ListingTableUrl>::new(),
            output_schema: batch.schema(),
            table_partition_cols: vec![],
            insert_op: InsertOp::Append,
            keep_partition_by_columns: false,
            file_extension: "parquet".to_owned(),
            file_output_mode: FileOutputMode::SingleFile,
        };
        let options = TableParquetOptions {
            global: context.state().config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        let sink = Sink { config, schema: batch.schema(), options, sorting: None, has_failed: HasFailed::default() };
        (context, batch, sink)
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
        runtime.unwrap().block_on(work)
    }

    /// Writes them; gives back the file.
    fn written(memory_bytes: usize) -> Bytes {
        let (context, batch, sink) = stage(memory_bytes);
        block_on(async {
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let (send, mut receive) = tokio::sync::mpsc::channel(2);
            let path = StorePath::from("rows.parquet");
            let file = FileWriter::new(&sink, path.clone(), store.clone(), &context.task_ctx()).unwrap();
            let has_failed = sink.has_failed.clone();
            let writing = tokio::spawn(async move { file.write(&mut receive, &has_failed).await });
            for from in (0..ROWS).step_by(1000) {
                send.send(batch.slice(from, 1000)).await.unwrap();
            }
            drop(send);
            assert_eq!(writing.await.unwrap().unwrap(), ROWS as u64);
            assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
            let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
            let read = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap().build().unwrap();
            let read: Vec<_> = read.collect::<std::result::Result<_, _>>().unwrap();
            assert_eq!(arrow::compute::concat_batches(&batch.schema(), &read).unwrap(), batch);
            bytes
        })
    }

    #[test]
    fn a_file_that_lacks_rows_is_never_completed() {
        let (context, batch, sink) = stage(64 << 20);
        for writer_goes_away in [false, true] {
            block_on(async {
                let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
                let (send, mut receive) = tokio::sync::mpsc::channel(2);
                let path = StorePath::from("rows.parquet");
                let file = FileWriter::new(&sink, path.clone(), store.clone(), &context.task_ctx()).unwrap();
                let has_failed = HasFailed::default();
                let noted = has_failed.clone();
                let writing = tokio::spawn(async move { file.write(&mut receive, &noted).await });
                for from in (0..ROWS).step_by(1000) {
                    send.send(batch.slice(from, 1000)).await.unwrap();
                }
                if writer_goes_away {
                    writing.abort();
                } else {
                    // As a demuxer does of which another file has failed.
                    has_failed.note(Err::<(), _>(DataFusionError::Internal("of a test".to_owned()))).unwrap_err();
                    drop(send);
                    writing.await.unwrap().unwrap_err();
                }
                while context.runtime_env().memory_pool.reserved() > 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                store.get(&path).await.unwrap_err();
            });
        }
    }

    fn row_groups(file: Bytes) -> Vec<(usize, Vec<bool>)> {
        let metadata = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().metadata().clone();
        let has_dictionary = |column: &ColumnChunkMetaData| column.dictionary_page_offset().is_some();
        let row_group = |group: &datafusion::parquet::file::metadata::RowGroupMetaData| {
            (group.num_rows() as usize, group.columns().iter().map(has_dictionary).collect())
        };
        metadata.row_groups().iter().map(row_group).collect()
    }

    #[test]
    fn a_dictionary_that_was_of_no_use_is_not_tried_for_ever() {
        let groups = row_groups(written(1 << 30));
        assert_eq!(groups.iter().map(|group| group.0).collect::<Vec<_>>(), [ROWS / 4; 4]);
        assert_eq!(groups.first().unwrap().1, [true, true]);
        assert_eq!(groups.last().unwrap().1, [true, false]);
    }

    #[test]
    fn with_little_memory_row_groups_are_small() {
        for (memory_bytes, rows_max) in [(24 << 20, 6000), (2 << 20, 6000), (100_000, 1000)] {
            let groups = row_groups(written(memory_bytes));
            let most = groups.iter().map(|group| group.0).max().unwrap();
            assert!(most <= rows_max, "{memory_bytes}: {most}");
        }
    }
}
