//! Columns of a cluster as rows that can be skipped, read, or read in part.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Fields};
use diligence_base::{Error, Result};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{ConvertedType, Encoding, Type as PhysicalType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::bytes::{FetchedRowGroup, ParquetBytes};
use super::footer::guard;
use super::{ParquetFile, Piece};
use crate::external::sieve::filter_array;
use crate::external::source::Source;
use crate::foreign_error::from_arrow;

/// The rows of a column, from the first to the last, each passed once.
pub(super) trait ColumnRows: Send {
    /// Passes rows without decoding them where possible.
    fn skip(&mut self, rows: usize) -> Result<()>;
    /// The next rows; an error if there are fewer.
    fn read(&mut self, rows: usize) -> Result<ArrayRef>;
    /// Of the next `selected.len()` rows the selected ones.
    fn read_selected(&mut self, selected: &BooleanBuffer) -> Result<ArrayRef>;
}

/// Rows that Parquet's reader decodes at once at least: below that its cost per call shows.
const READ_ROWS_MIN: usize = 1024;

/// Opens a column of a piece.
pub(super) fn open_column(
    file: &ParquetFile,
    piece: &Piece,
    bytes: &ParquetBytes,
    root: usize,
    target: &DataType,
    batch_rows: usize,
    narrow: bool,
) -> Result<Box<dyn ColumnRows>> {
    let field = file.schema.field(root);
    let leaves = file.leaves[root].clone();
    let first_row = match bytes.leaves.get(&leaves.start) {
        Some(chunk) => chunk.first_row,
        None => return Err(Error::bug(format!("column '{}' was not fetched", field.name()))),
    };
    let chunk = file.metadata.row_group(piece.row_group).column(leaves.start);
    let hint = hint(field.data_type(), target, chunk, narrow);
    let fields = file.schema.fields().iter().enumerate().map(|(index, field)| match index == root {
        true => Arc::new(Field::new(field.name(), hint.clone(), field.is_nullable())),
        false => field.clone(),
    });
    let fields: Fields = fields.collect();
    let what = format!("row group {}: column '{}' cannot be decoded", piece.row_group, field.name());
    let reader = guard(&file.source, &what, || {
        let descriptor = file.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::roots(descriptor, [root]);
        let levels = parquet_to_arrow_field_levels(descriptor, mask.clone(), Some(&fields))
            .or_else(|_| parquet_to_arrow_field_levels(descriptor, mask, None))?;
        let rows = piece.rows.end - first_row;
        let group = FetchedRowGroup { bytes, metadata: &file.metadata, row_group: piece.row_group, rows };
        // A page of another column may begin before the piece does.
        let before = piece.rows.start - first_row;
        let selection = (before > 0)
            .then(|| RowSelection::from(vec![RowSelector::skip(before), RowSelector::select(piece.rows.len())]));
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, batch_rows.max(READ_ROWS_MIN), selection)
    })?;
    let descriptor = file.metadata.file_metadata().schema_descr();
    let validate = leaves.into_iter().any(|leaf| {
        let leaf = descriptor.column(leaf);
        leaf.physical_type() == PhysicalType::BYTE_ARRAY && leaf.converted_type() != ConvertedType::UTF8
    });
    Ok(Box::new(ArrowRows { source: file.source.clone(), what, reader, validate, batch: None }))
}

/// The type to ask Parquet's reader for.
fn hint(field: &DataType, target: &DataType, chunk: &ColumnChunkMetaData, narrow: bool) -> DataType {
    let integers = matches!(chunk.column_type(), PhysicalType::INT32 | PhysicalType::INT64);
    match (field, target) {
        (DataType::Decimal128(p, s), DataType::Decimal128(q, t))
            if narrow && integers && p == q && s == t && *p <= 18 =>
        {
            DataType::Decimal64(*p, *s)
        }
        (_, DataType::Utf8View) if narrow && is_all_dictionary(chunk) => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        (_, DataType::Utf8View | DataType::BinaryView) => target.clone(),
        (DataType::Dictionary(_, values), _) => values.as_ref().clone(),
        _ => field.clone(),
    }
}

/// Whether every data page of the chunk is dictionary-coded.
fn is_all_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    let is_dictionary = |encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
    if let Some(mask) = chunk.page_encoding_stats_mask() {
        let mut encodings = mask.encodings().peekable();
        return encodings.peek().is_some() && encodings.all(is_dictionary);
    }
    // Without page statistics only the old name of the encoding tells: it is not used for dictionary pages by those who
    // list PLAIN for them.
    let mut dictionary = false;
    for encoding in chunk.encodings() {
        match encoding {
            Encoding::PLAIN_DICTIONARY => dictionary = true,
            #[allow(deprecated, reason = "old files have it for levels")]
            Encoding::RLE | Encoding::BIT_PACKED => {}
            _ => return false,
        }
    }
    dictionary
}

/// A column of any type through Parquet's own Arrow reader. It decodes what it skips.
struct ArrowRows {
    source: Arc<Source>,
    what: String,
    reader: ParquetRecordBatchReader,
    /// Parquet's reader checks strings only if the column has the old mark of strings; for others it is done here.
    validate: bool,
    /// What is left of the last batch.
    batch: Option<ArrayRef>,
}

impl ArrowRows {
    /// At most `rows` of the next rows; `None` at the end.
    fn some(&mut self, rows: usize) -> Result<Option<ArrayRef>> {
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => {
                let reader = &mut self.reader;
                let validate = self.validate;
                let next = guard(&self.source, &self.what, || {
                    let next = reader.next().transpose()?;
                    if validate && let Some(batch) = &next {
                        batch.column(0).to_data().validate_full()?;
                    }
                    Ok(next)
                })?;
                match next {
                    None => return Ok(None),
                    Some(batch) => batch.column(0).clone(),
                }
            }
        };
        if batch.len() > rows {
            self.batch = Some(batch.slice(rows, batch.len() - rows));
            return Ok(Some(batch.slice(0, rows)));
        }
        Ok(Some(batch))
    }
}

impl ColumnRows for ArrowRows {
    fn skip(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            match self.some(rows)? {
                Some(array) => rows -= array.len(),
                None => break,
            }
        }
        Ok(())
    }

    fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        let mut pieces: Vec<ArrayRef> = Vec::new();
        let mut left = rows;
        while left > 0 {
            let Some(array) = self.some(left)? else { break };
            left -= array.len();
            pieces.push(array);
        }
        match pieces.len() {
            _ if left > 0 => Err(self.source.error(format!("{} (it has fewer rows than its row group)", self.what))),
            1 => Ok(pieces.swap_remove(0)),
            _ => {
                let pieces = pieces.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>();
                concat(&pieces).map_err(from_arrow)
            }
        }
    }

    fn read_selected(&mut self, selected: &BooleanBuffer) -> Result<ArrayRef> {
        filter_array(&self.read(selected.len())?, selected)
    }
}
