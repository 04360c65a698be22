//! Row groups of a Parquet file, encoded as rows come.
//!
//! Each packet encodes row groups of its own, side by side with those of others; what is encoded is appended to the
//! file. Few rows are not encoded before their packet ends: then those of all packets make row groups together, so that
//! a small file has one.
//!
//! Dictionaries are tried for each column until a row group's became too large to be of use: those that begin after
//! that have none. A dictionary has room for some thousand values before the first comes. So where row groups are to be
//! small and columns are many, only some columns have one, texts before others.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion_common::config::TableParquetOptions;
use diligence_base::{Error, Result};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{ConvertedType, Encoding, LogicalType, PageType, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type as ParquetType, TypePtr};

use super::blocks::Outbox;
use super::parquet_forms::is_interval_bytes;
use crate::external::parquet::chunk_range;
use crate::external::schema::{TYPE_KEY, is_uuid_bytes};
use crate::foreign_error::{from_arrow, from_datafusion, from_parquet};

/// Rows are kept as they are until they have so many bytes.
const KEPT_BYTES: usize = 1 << 20;
/// Or are one in so many of a row group.
const KEPT_PART: usize = 8;

/// What a dictionary takes before it has a value: places of 8 bytes for 4096 values, in a table that is not full, and a
/// byte for each place.
const DICTIONARY_BYTES: usize = 8192 * 9;
/// What is known of a column chunk in the end, with its statistics, until the file is written; and of each of its
/// pages.
const CHUNK_METADATA_BYTES: usize = size_of::<ColumnChunkMetaData>() + 256;
const PAGE_METADATA_BYTES: usize = 128;

/// What the dictionaries of a row group may take before there are rows, where memory is not short.
pub(super) const DICTIONARIES_BYTES_MAX: usize = 32 << 20;

/// How large row groups may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowGroupBounds {
    pub rows: usize,
    pub bytes: usize,
    /// Bytes that the dictionaries of a row group may take before there are rows.
    pub dictionary_bytes: usize,
}

/// A Parquet file that row groups are appended to.
pub(super) struct ParquetOutput {
    file: SerializedFileWriter<Outbox>,
    columns: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    skip_arrow_metadata: bool,
    /// Leaf columns without a dictionary, beside those that were not to have one.
    plain: HashSet<ColumnPath>,
    properties: WriterPropertiesPtr,
    /// Of what is known of row groups that were appended, about.
    metadata_bytes: usize,
}

impl ParquetOutput {
    /// A file whose bytes go to `outbox`, where the dictionaries of a row group may take so many bytes before there are
    /// rows. Fails with kind `Unsupported` if the format has no form for a column.
    pub fn new(
        outbox: Outbox,
        schema: &SchemaRef,
        options: &TableParquetOptions,
        dictionary_bytes: usize,
    ) -> Result<Self> {
        let skip_arrow_metadata = options.global.skip_arrow_metadata;
        let (file, columns) = writers(outbox, schema, properties(schema, options)?, skip_arrow_metadata)?;
        let (properties, schema, plain) = (file.properties().clone(), schema.clone(), HashSet::new());
        let too_many = beyond(dictionary_bytes / DICTIONARY_BYTES, file.schema_descr(), &properties);
        let mut output = Self { file, columns, schema, skip_arrow_metadata, plain, properties, metadata_bytes: 0 };
        output.go_on_without_dictionaries(too_many)?;
        Ok(output)
    }

    /// A row group to fill, apart from the file.
    pub fn row_group(&self) -> Result<RowGroup> {
        let columns = self.columns.create_column_writers(0).map_err(from_parquet)?;
        Ok(RowGroup { schema: self.schema.clone(), columns, rows: 0 })
    }

    /// Appends a row group.
    pub fn append(&mut self, chunks: Vec<ArrowColumnChunk>) -> Result<()> {
        let outgrown = chunks.iter().map(|chunk| &chunk.close().metadata).filter(|column| has_outgrown(column));
        let outgrown = outgrown.map(|column| column.column_path().clone()).collect::<Vec<_>>();
        self.metadata_bytes += chunks.iter().map(metadata_bytes).sum::<usize>();
        let mut row_group = self.file.next_row_group().map_err(from_parquet)?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut row_group).map_err(from_parquet)?;
        }
        row_group.close().map_err(from_parquet)?;
        self.go_on_without_dictionaries(outgrown)
    }

    /// Has all bytes be in the outbox.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| Error::bug(format!("bytes in memory cannot be moved: {error}")))
    }

    /// Bytes that are held until the file is complete, about: what its end says of row groups.
    pub fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    /// Where the columns of the last row group are in the file.
    pub fn last_chunks(&self) -> Vec<Range<u64>> {
        let last = self.file.flushed_row_groups().last();
        last.map_or_else(Vec::new, |last| last.columns().iter().filter_map(chunk_range).collect())
    }

    /// Says something in the metadata.
    pub fn add_metadata(&mut self, key: &str, value: String) {
        self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }

    /// Writes what comes behind the last row group.
    pub fn finish(&mut self) -> Result<()> {
        self.metadata_bytes = 0;
        self.file.finish().map(drop).map_err(from_parquet)
    }

    fn go_on_without_dictionaries(&mut self, outgrown: Vec<ColumnPath>) -> Result<()> {
        let known = self.plain.len();
        self.plain.extend(outgrown);
        if self.plain.len() > known {
            let builder = self.properties.as_ref().clone().into_builder();
            let plain = |builder: WriterPropertiesBuilder, path| builder.set_column_dictionary_enabled(path, false);
            let properties = self.plain.iter().cloned().fold(builder, plain).build();
            // The file's writer has the properties that it was made with; those of its columns' writers may be others.
            (_, self.columns) = writers(Outbox::default(), &self.schema, properties, self.skip_arrow_metadata)?;
        }
        Ok(())
    }
}

/// A row group while it is encoded.
pub(super) struct RowGroup {
    schema: SchemaRef,
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl RowGroup {
    /// Adds rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut writers = self.columns.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array).map_err(from_parquet)? {
                let Some(writer) = writers.next() else { break };
                writer.write(&leaf).map_err(from_parquet)?;
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(ArrowColumnWriter::memory_size).sum()
    }

    /// Ends it.
    pub fn close(self) -> Result<Vec<ArrowColumnChunk>> {
        self.columns.into_iter().map(|column| column.close().map_err(from_parquet)).collect()
    }
}

/// What a packet has for a file: rows as they are, or a row group.
pub(super) struct Gathered {
    bounds: RowGroupBounds,
    kept: Vec<RecordBatch>,
    kept_rows: usize,
    kept_bytes: usize,
    row_group: Option<RowGroup>,
}

impl Gathered {
    pub fn new(bounds: RowGroupBounds) -> Self {
        Self { bounds, kept: Vec::new(), kept_rows: 0, kept_bytes: 0, row_group: None }
    }

    /// Takes rows; hands on each row group that is full.
    pub fn write(
        &mut self,
        rows: &RecordBatch,
        begin: impl Fn() -> Result<RowGroup>,
        mut full: impl FnMut(Vec<ArrowColumnChunk>) -> Result<()>,
    ) -> Result<()> {
        if self.row_group.is_none() {
            let rows = alone(rows)?;
            self.kept_rows += rows.num_rows();
            self.kept_bytes += needed_bytes(&rows);
            self.kept.push(rows);
            let is_much =
                self.kept_rows > self.bounds.rows / KEPT_PART || self.kept_bytes > KEPT_BYTES.min(self.bounds.bytes);
            return if is_much { self.encode_kept(begin, full) } else { Ok(()) };
        }
        self.encode(rows, &begin, &mut full)
    }

    /// Encodes what is kept.
    fn encode_kept(
        &mut self,
        begin: impl Fn() -> Result<RowGroup>,
        mut full: impl FnMut(Vec<ArrowColumnChunk>) -> Result<()>,
    ) -> Result<()> {
        let kept = self.take_kept();
        kept.iter().try_for_each(|rows| self.encode(rows, &begin, &mut full))
    }

    fn encode(
        &mut self,
        rows: &RecordBatch,
        begin: &impl Fn() -> Result<RowGroup>,
        full: &mut impl FnMut(Vec<ArrowColumnChunk>) -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        while from < rows.num_rows() {
            let mut row_group = match self.row_group.take() {
                Some(row_group) => row_group,
                None => begin()?,
            };
            let some = (rows.num_rows() - from).min(self.bounds.rows.saturating_sub(row_group.rows).max(1));
            row_group.write(&rows.slice(from, some))?;
            from += some;
            if row_group.rows >= self.bounds.rows || row_group.bytes() >= self.bounds.bytes {
                full(row_group.close()?)?;
            } else {
                self.row_group = Some(row_group);
            }
        }
        Ok(())
    }

    /// Ends the row group, with what is kept in it.
    pub fn end(
        &mut self,
        begin: impl Fn() -> Result<RowGroup>,
        mut full: impl FnMut(Vec<ArrowColumnChunk>) -> Result<()>,
    ) -> Result<()> {
        self.encode_kept(&begin, &mut full)?;
        self.row_group.take().map_or(Ok(()), |row_group| full(row_group.close()?))
    }

    /// Takes the rows that are kept as they are.
    pub fn take_kept(&mut self) -> Vec<RecordBatch> {
        (self.kept_rows, self.kept_bytes) = (0, 0);
        std::mem::take(&mut self.kept)
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.kept_bytes + self.row_group.as_ref().map_or(0, RowGroup::bytes)
    }
}

/// Columns that the file of a schema has.
pub(super) fn leaf_count(schema: &SchemaRef) -> usize {
    let mut leaves = Vec::new();
    schema.fields().iter().for_each(|field| told_leaves(field, false, &mut leaves));
    leaves.len()
}

/// The columns that have no dictionary if so many may have one: texts come first, then others in their order.
fn beyond(most: usize, schema: &SchemaDescriptor, properties: &WriterProperties) -> Vec<ColumnPath> {
    let mut columns = schema.columns().iter().collect::<Vec<_>>();
    columns.retain(|column| properties.dictionary_enabled(column.path()));
    columns.sort_by_key(|column| column.physical_type() != PhysicalType::BYTE_ARRAY);
    columns.into_iter().skip(most).map(|column| column.path().clone()).collect()
}

/// What is known of a column chunk when it is written.
fn metadata_bytes(chunk: &ArrowColumnChunk) -> usize {
    let pages = chunk.close().offset_index.as_ref().map_or(0, |index| index.page_locations().len());
    CHUNK_METADATA_BYTES + pages * PAGE_METADATA_BYTES
}

/// The properties of a file.
fn properties(schema: &SchemaRef, options: &TableParquetOptions) -> Result<WriterProperties> {
    let mut options = options.clone();
    if !options.global.skip_arrow_metadata {
        options.arrow_schema(schema);
    }
    Ok(WriterPropertiesBuilder::try_from(&options).map_err(from_datafusion)?.build())
}

/// A writer of a file's bytes, and one of its columns.
fn writers(
    outbox: Outbox,
    schema: &SchemaRef,
    properties: WriterProperties,
    skip_arrow_metadata: bool,
) -> Result<(SerializedFileWriter<Outbox>, ArrowRowGroupWriterFactory)> {
    arrow_writer(outbox, schema, properties, skip_arrow_metadata)?.into_serialized_writer().map_err(from_parquet)
}

/// A writer that makes one row group after the other, for files whose pages must be cut by their content alone.
pub(super) fn chunked_writer(
    outbox: Outbox,
    schema: &SchemaRef,
    options: &TableParquetOptions,
) -> Result<ArrowWriter<Outbox>> {
    arrow_writer(outbox, schema, properties(schema, options)?, options.global.skip_arrow_metadata)
}

fn arrow_writer(
    outbox: Outbox,
    schema: &SchemaRef,
    properties: WriterProperties,
    skip_arrow_metadata: bool,
) -> Result<ArrowWriter<Outbox>> {
    let told = told_schema(schema, properties.coerce_types())?;
    let mut options =
        ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(skip_arrow_metadata);
    if let Some(told) = told {
        options = options.with_parquet_schema(told);
    }
    ArrowWriter::try_new_with_options(outbox, schema.clone(), options).map_err(from_parquet)
}

/// What other programs take a column for that Arrow's type does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Uuid,
    Json,
    Interval,
}

fn told_type(field: &Field) -> Option<Told> {
    let is_json = || {
        *field.data_type() == DataType::Utf8View
            && field.metadata().get(TYPE_KEY).is_some_and(|told| matches!(told.as_str(), "json" | "jsonb"))
    };
    match field.data_type() {
        _ if is_uuid_bytes(field) => Some(Told::Uuid),
        _ if is_interval_bytes(field) => Some(Told::Interval),
        _ => is_json().then_some(Told::Json),
    }
}

/// What each leaf of a column is taken for, in their order. Texts in lists, structs and maps are texts, JSON or not.
fn told_leaves(field: &Field, is_inside: bool, told: &mut Vec<Option<Told>>) {
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            told_leaves(item, true, told);
        }
        DataType::ListView(item) | DataType::LargeListView(item) => told_leaves(item, true, told),
        DataType::Map(entries, _) => told_leaves(entries, true, told),
        DataType::Struct(fields) => fields.iter().for_each(|field| told_leaves(field, true, told)),
        _ => told.push(told_type(field).filter(|ty| !is_inside || *ty != Told::Json)),
    }
}

/// A part of a schema whose leaves say what they are.
fn told_part(part: &TypePtr, leaves: &mut dyn Iterator<Item = Option<Told>>) -> parquet::errors::Result<TypePtr> {
    let info = part.get_basic_info();
    let id = info.has_id().then(|| info.id());
    if part.is_group() {
        let fields = part.get_fields().iter().map(|field| told_part(field, &mut *leaves));
        let fields = fields.collect::<parquet::errors::Result<Vec<_>>>()?;
        let group = ParquetType::group_type_builder(part.name())
            .with_repetition(info.repetition())
            .with_converted_type(info.converted_type())
            .with_logical_type(info.logical_type_ref().cloned())
            .with_id(id)
            .with_fields(fields);
        return group.build().map(Arc::new);
    }
    let Some(told) = leaves.next().flatten() else { return Ok(part.clone()) };
    let of = |ty| ParquetType::primitive_type_builder(part.name(), ty);
    let fixed = |length| of(PhysicalType::FIXED_LEN_BYTE_ARRAY).with_length(length);
    let builder = match told {
        Told::Uuid => fixed(16).with_logical_type(Some(LogicalType::Uuid)),
        Told::Json => of(PhysicalType::BYTE_ARRAY).with_logical_type(Some(LogicalType::Json)),
        Told::Interval => fixed(12).with_converted_type(ConvertedType::INTERVAL),
    };
    builder.with_repetition(info.repetition()).with_id(id).build().map(Arc::new)
}

/// The schema of a file with UUIDs, JSON or intervals, which says what they are; `None` if it has none.
fn told_schema(schema: &SchemaRef, coerces: bool) -> Result<Option<SchemaDescriptor>> {
    let mut leaves = Vec::new();
    schema.fields().iter().for_each(|field| told_leaves(field, false, &mut leaves));
    if leaves.iter().all(Option::is_none) {
        return Ok(None);
    }
    let told = || {
        let plain = ArrowSchemaConverter::new().with_coerce_types(coerces).convert(schema)?;
        let root = plain.root_schema();
        let mut leaves = leaves.into_iter();
        let fields = root.get_fields().iter().map(|field| told_part(field, &mut leaves));
        let fields = fields.collect::<parquet::errors::Result<Vec<_>>>()?;
        let root = ParquetType::group_type_builder(root.name()).with_fields(fields).build()?;
        Ok(Some(SchemaDescriptor::new(Arc::new(root))))
    };
    told().map_err(from_parquet)
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

/// The same rows, which keep no others in memory.
fn alone(rows: &RecordBatch) -> Result<RecordBatch> {
    let alone = |array: &ArrayRef| -> Result<ArrayRef> {
        Ok(match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ if array.get_buffer_memory_size() > 2 * slice_bytes(array) => {
                let all = UInt32Array::from_iter_values(0..array.len() as u32);
                take(array, &all, None).map_err(from_arrow)?
            }
            _ => array.clone(),
        })
    };
    let columns = rows.columns().iter().map(alone).collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(rows.schema(), columns).map_err(from_arrow)
}

fn slice_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// Bytes of rows that keep no others in memory.
pub(super) fn needed_bytes(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(|array| array.get_array_memory_size()).sum()
}
