//! Reads and checks footers.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use diligence_base::limits::MORSEL_ROWS_MAX;
use diligence_base::panics::caught_quietly;
use diligence_base::{Error, Result};
use parquet::DecodeResult;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder, RowGroupMetaData,
};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::encryption;
use super::guard::guard;
use super::variant::is_variant_group;
use crate::external::options::Format;
use crate::external::schema::{JSON_TYPE, TYPE_KEY, UUID_TYPE, VARIANT_TYPE};
use crate::external::source::Source;

/// Bytes read from the end of a file at first: holds the footer of most files, so that one read suffices.
const TAIL_BYTES: u64 = 64 * 1024;

/// The footer's own end: four bytes of length and four of magic.
const FOOTER_END_BYTES: u64 = 8;

/// What a footer says, checked.
pub(super) struct Footer {
    pub metadata: Arc<ParquetMetaData>,
    pub schema: SchemaRef,
    pub leaves: Vec<Range<usize>>,
    /// For each leaf whether it is encrypted; empty if none is.
    pub encrypted: Arc<[bool]>,
}

/// The footers of all files.
pub(super) fn read_all(sources: &[Arc<Source>]) -> Result<Vec<Footer>> {
    let threads = if sources.len() < 8 { 1 } else { 8 };
    if threads == 1 {
        return sources.iter().map(read).collect();
    }
    // Many small files: several reads under way at once, which is what object stores need.
    let share = sources.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let shares = sources.chunks(share).map(|share| scope.spawn(move || share.iter().map(read).collect()));
        let shares = shares.collect::<Vec<_>>();
        let mut all = Vec::with_capacity(sources.len());
        for share in shares {
            let read: Result<Vec<Footer>> =
                share.join().unwrap_or_else(|_| Err(Error::bug("reading Parquet footers panicked")));
            all.extend(read?);
        }
        Ok(all)
    })
}

fn read(source: &Arc<Source>) -> Result<Footer> {
    read_with(source, true)
}

/// The footer of a file whose columns have the types and the numbers that the Parquet schema tells, whatever schema of
/// Arrow its writer has embedded.
pub(super) fn read_as_parquet(source: &Arc<Source>) -> Result<Footer> {
    read_with(source, false)
}

fn read_with(source: &Arc<Source>, with_embedded: bool) -> Result<Footer> {
    let (metadata, encrypted) = read_metadata(source)?;
    check(source, &metadata)?;
    let parse = || {
        let file = metadata.file_metadata();
        let descriptor = file.schema_descr();
        // The Arrow schema that some writers embed may be broken, or have types that are not known here, at which the
        // library panics; the Parquet schema is what counts.
        let embedded = file.key_value_metadata().filter(|_| with_embedded);
        let as_embedded = caught_quietly(|| parquet_to_arrow_schema(descriptor, embedded)).and_then(|read| read.ok());
        let schema = as_embedded.map_or_else(|| parquet_to_arrow_schema(descriptor, None), Ok)?;
        let roots = descriptor.root_schema().get_fields().len();
        let mut leaves = vec![0..0; roots];
        for leaf in 0..descriptor.num_columns() {
            let root = &mut leaves[descriptor.get_column_root_idx(leaf)];
            *root = if root.end == 0 { leaf..leaf + 1 } else { root.start..leaf + 1 };
        }
        if schema.fields().len() != roots {
            return Err(ParquetError::General("a column without values cannot be read".to_owned()));
        }
        let mut leaf = 0;
        let roots = descriptor.root_schema().get_fields();
        let fields = schema.fields().iter().zip(roots).map(|(field, root)| {
            let mut field = told(field, descriptor, &mut leaf);
            let is_told = matches!(root.get_basic_info().logical_type_ref(), Some(LogicalType::Variant(_)));
            if is_told && is_variant_group(field.data_type()) {
                field.metadata_mut().insert(TYPE_KEY.to_owned(), VARIANT_TYPE.to_owned());
            }
            field
        });
        let fields = fields.collect::<Vec<_>>();
        Ok((Schema::new(fields), leaves))
    };
    let (schema, leaves) = guard(source, "its schema cannot be read", parse)?;
    Ok(Footer { metadata: Arc::new(metadata), schema: Arc::new(schema), leaves, encrypted: encrypted.into() })
}

/// The field in the type that has all of its values: the old timestamps reach beyond nanoseconds, and intervals have
/// months. What is a UUID or JSON says so.
fn told(field: &Field, descriptor: &SchemaDescriptor, leaf: &mut usize) -> Field {
    let inner = |field: &FieldRef, leaf: &mut usize| Arc::new(told(field, descriptor, leaf));
    let ty = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| inner(field, leaf)).collect()),
        DataType::List(item) => DataType::List(inner(item, leaf)),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries, leaf), *is_sorted),
        other => {
            let is_root = *leaf < descriptor.num_columns() && descriptor.column(*leaf).path().parts().len() == 1;
            let column = (*leaf < descriptor.num_columns()).then(|| descriptor.column(*leaf));
            *leaf += 1;
            match (&column, other) {
                (Some(column), DataType::Timestamp(..)) if column.physical_type() == PhysicalType::INT96 => {
                    DataType::Timestamp(TimeUnit::Microsecond, None)
                }
                (Some(column), DataType::Interval(_)) if is_interval(column) => {
                    let mut plain = field.clone().with_data_type(DataType::Interval(IntervalUnit::MonthDayNano));
                    plain.metadata_mut().remove(TYPE_KEY);
                    return plain;
                }
                (Some(column), DataType::FixedSizeBinary(16)) if is_uuid(column) => {
                    let mut metadata = field.metadata().clone();
                    metadata.insert(TYPE_KEY.to_owned(), UUID_TYPE.to_owned());
                    return field.clone().with_metadata(metadata);
                }
                (Some(column), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
                    if is_root && is_json(column) && !field.metadata().contains_key(TYPE_KEY) =>
                {
                    let mut metadata = field.metadata().clone();
                    metadata.insert(TYPE_KEY.to_owned(), JSON_TYPE.to_owned());
                    return field.clone().with_metadata(metadata);
                }
                _ => other.clone(),
            }
        }
    };
    field.clone().with_data_type(ty)
}

/// Whether a leaf is JSON.
fn is_json(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Json)) || column.converted_type() == ConvertedType::JSON
}

/// Whether a leaf has months, days and milliseconds.
pub(super) fn is_interval(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::INTERVAL
}

/// Whether a leaf is a UUID.
pub(super) fn is_uuid(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Uuid))
}

/// What the footer says, and for each leaf whether it is encrypted; that is empty if none is.
fn read_metadata(source: &Arc<Source>) -> Result<(ParquetMetaData, Vec<bool>)> {
    let bytes = source.bytes;
    if bytes < FOOTER_END_BYTES + 4 {
        return Err(source.error(if bytes == 0 {
            "the file is empty; a Parquet file has at least 12 bytes".to_owned()
        } else {
            format!("the file has only {bytes} bytes, too few for a Parquet file; it is truncated")
        }));
    }
    let tail_start = bytes.saturating_sub(TAIL_BYTES);
    let tail = source.read_one_now(tail_start..bytes)?;
    let end = &tail[tail.len() - FOOTER_END_BYTES as usize..];
    match &end[4..] {
        b"PAR1" => {}
        b"PARE" => {
            let what = format!("{}: encrypted Parquet files cannot be read", source.name);
            return Err(Error::unsupported(what).with_code("0A000"));
        }
        _ => return Err(not_parquet(source)?),
    }
    let length = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if length + FOOTER_END_BYTES + 4 > bytes {
        return Err(source.error(format!(
            "its footer is said to have {length} bytes, but the whole file has {bytes}; it is corrupt"
        )));
    }
    let encrypted = encrypted_leaves(source, length, tail_start, &tail)?;
    let metadata =
        decode(source, ParquetMetaDataPushDecoder::try_new(bytes), tail_start, &tail, PageIndexPolicy::Skip)?;
    // The offset index is only wanted where a row group is to be cut.
    let large = |group: &RowGroupMetaData| group.num_rows() > MORSEL_ROWS_MAX as i64;
    if !metadata.row_groups().iter().any(large) {
        return Ok((metadata, encrypted));
    }
    let decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(bytes, metadata.clone());
    let indexed = decode(source, decoder, tail_start, &tail, PageIndexPolicy::Optional);
    let metadata = match indexed {
        Ok(indexed) if offset_index_fits(&indexed, bytes) => indexed,
        // Without the index a row group is one cluster: slower, but right.
        _ => metadata,
    };
    Ok((metadata, encrypted))
}

/// For each leaf whether it is encrypted, where the footer is not: behind such a footer is its signature. Empty if none
/// is.
fn encrypted_leaves(source: &Arc<Source>, length: u64, tail_start: u64, tail: &[u8]) -> Result<Vec<bool>> {
    let end = tail.len() - FOOTER_END_BYTES as usize;
    let in_tail = usize::try_from(length).ok().and_then(|length| end.checked_sub(length));
    match in_tail {
        Some(start) => Ok(encryption::encrypted_leaves(&tail[start..end])),
        // A footer that is not signed ends with the end of its outermost structure, a zero.
        None if tail[end - 1] == 0 => Ok(Vec::new()),
        None => {
            let end = tail_start + end as u64;
            Ok(encryption::encrypted_leaves(&source.read_one_now(end - length..end)?))
        }
    }
}

/// Runs the decoder, reading what it asks for.
fn decode(
    source: &Arc<Source>,
    decoder: parquet::errors::Result<ParquetMetaDataPushDecoder>,
    tail_start: u64,
    tail: &bytes::Bytes,
    offset_index: PageIndexPolicy,
) -> Result<ParquetMetaData> {
    let corrupt = "its footer cannot be read; the file is truncated or corrupt";
    let mut decoder = guard(source, corrupt, || decoder)?
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(offset_index);
    guard(source, corrupt, || decoder.push_range(tail_start..source.bytes, tail.clone()))?;
    loop {
        match guard(source, corrupt, || decoder.try_decode())? {
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::NeedsData(ranges) => {
                let read = source.read_now(ranges.clone())?;
                guard(source, corrupt, || decoder.push_ranges(ranges, read))?;
            }
            DecodeResult::Finished => return Err(source.error(corrupt)),
        }
    }
}

/// What a file that does not end like a Parquet file is.
fn not_parquet(source: &Arc<Source>) -> Result<Error> {
    let first = source.read_one_now(0..source.bytes.min(64))?;
    Ok(match Format::of_magic(&first) {
        Some(Format::Parquet) => {
            source.error("the file begins like a Parquet file but does not end like one; it is truncated")
        }
        Some(other) => source
            .error(format!("this is no Parquet file; it looks like {}", other.name()))
            .with_hint(format!("say so: CREATE EXTERNAL TABLE … STORED AS {} …", other.name().to_uppercase())),
        None => source.error("this is no Parquet file: it neither begins nor ends with PAR1"),
    })
}

/// The start and length of a column chunk; `None` if the footer is nonsense.
pub(in crate::external) fn chunk_range(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let data = u64::try_from(chunk.data_page_offset()).ok()?;
    // Some writers put 0 where there is no dictionary.
    let start = match chunk.dictionary_page_offset().and_then(|offset| u64::try_from(offset).ok()) {
        Some(dictionary) if dictionary > 0 && dictionary < data => dictionary,
        _ => data,
    };
    let length = u64::try_from(chunk.compressed_size()).ok()?;
    Some(start..start.checked_add(length)?)
}

fn check(source: &Source, metadata: &ParquetMetaData) -> Result<()> {
    let corrupt = |what: String| Err(source.error(format!("{what}; the file is truncated or corrupt")));
    let mut total = 0i64;
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    for (index, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 {
            return corrupt(format!("row group {index} is said to have {} rows", group.num_rows()));
        }
        total = total.saturating_add(group.num_rows());
        if group.num_columns() != leaves {
            return corrupt(format!("row group {index} has {} columns instead of {leaves}", group.num_columns()));
        }
        for chunk in group.columns() {
            if chunk.file_path().is_some_and(|path| !path.is_empty()) {
                return Err(Error::unsupported(format!("{}: its columns are in other files", source.name)));
            }
            let fits = chunk_range(chunk).is_some_and(|range| range.end <= source.bytes);
            if !fits || chunk.num_values() < 0 {
                return corrupt(format!(
                    "column '{}' of row group {index} lies beyond the end of the file ({} bytes)",
                    chunk.column_path(),
                    source.bytes
                ));
            }
            let flat = chunk.column_descr().max_rep_level() == 0;
            if flat && chunk.num_values() != group.num_rows() {
                return corrupt(format!(
                    "column '{}' of row group {index} has {} values for {} rows",
                    chunk.column_path(),
                    chunk.num_values(),
                    group.num_rows()
                ));
            }
        }
    }
    // Some writers leave the sum at 0.
    let told = metadata.file_metadata().num_rows();
    if total >= u32::MAX as i64 * 1024 || told != total && told != 0 {
        return corrupt(format!(
            "it is said to have {} rows, its row groups have {total}",
            metadata.file_metadata().num_rows()
        ));
    }
    Ok(())
}

/// Whether the offset index can be believed: pages in order, within the file, beginning with row 0.
fn offset_index_fits(metadata: &ParquetMetaData, bytes: u64) -> bool {
    let Some(index) = metadata.offset_index() else { return true };
    index.len() == metadata.num_row_groups()
        && index.iter().zip(metadata.row_groups()).all(|(columns, group)| {
            columns.len() == group.num_columns()
                && columns.iter().zip(group.columns()).all(|(column, chunk)| {
                    let pages = column.page_locations();
                    let Some(range) = chunk_range(chunk) else { return false };
                    let inside = pages.iter().all(|page| {
                        page.offset >= range.start as i64
                            && page.compressed_page_size >= 0
                            && page.offset as u64 + page.compressed_page_size as u64 <= range.end.min(bytes)
                            && page.first_row_index >= 0
                            && page.first_row_index < group.num_rows().max(1)
                    });
                    let ordered = pages.windows(2).all(|pair| {
                        pair[0].first_row_index < pair[1].first_row_index
                            && pair[0].offset + i64::from(pair[0].compressed_page_size) <= pair[1].offset
                    });
                    inside && ordered && pages.first().is_none_or(|page| page.first_row_index == 0)
                })
        })
}
