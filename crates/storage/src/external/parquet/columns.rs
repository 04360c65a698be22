//! Columns of a cluster as rows that can be skipped, read, or read in part.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, Field, Fields, IntervalUnit};
use diligence_base::{Error, Result};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{ConvertedType, Type as PhysicalType};

use super::bytes::FetchedRowGroup;
use super::column_rows::ColumnRows;
use super::fixed::{BigEndian, Bits, Cast, Convert, Fixed, Intervals};
use super::flat::{FlatRows, Values};
use super::guard::guard;
use super::intervals::{IntervalRows, has_intervals, with_unit};
use super::large_page::{LargePage, Layout};
use super::page::{Apart, Pages};
use super::pulled::{PulledBytes, PulledColumn};
use super::strings::{Codes, Views};
use super::survey::{Surveyed, cannot_be_decoded};
use super::{ParquetFile, Piece};
use crate::external::selection::filter_array;
use crate::external::source::Source;
use crate::foreign_error::from_arrow;

/// Rows that Parquet's reader decodes at once at least: below that its cost per call shows.
const READ_ROWS_MIN: usize = 1024;

/// Opens a column of a piece, of which all leaves were fetched and surveyed.
pub(super) fn open_column(
    file: &ParquetFile,
    piece: &Piece,
    surveyed: &Surveyed,
    root: usize,
    target: &DataType,
    batch_rows: usize,
    narrow: bool,
) -> Result<Box<dyn ColumnRows>> {
    if let Some(flat) = open_flat(file, piece, surveyed, root, target, narrow)? {
        return Ok(flat);
    }
    let field = file.schema.field(root);
    if file.leaves[root].clone().any(|leaf| surveyed.leaf(leaf).is_none()) {
        return Err(Error::bug(format!("column '{}' was not fetched", field.name())));
    }
    let group = FetchedRowGroup { bytes: &surveyed.bytes, metadata: &file.metadata, piece };
    open_read(file, piece, &group, root, target, batch_rows.max(READ_ROWS_MIN))
}

/// Opens a column of a piece through Parquet's own reader, whose bytes are read when it comes to them, and says what it
/// takes. Windows of at most `batch_rows` rows are read of it.
pub(super) fn open_pulled(
    file: &ParquetFile,
    piece: &Piece,
    root: usize,
    target: &DataType,
    step_bytes: usize,
    batch_rows: usize,
) -> Result<(Box<dyn ColumnRows>, Vec<Arc<PulledBytes>>)> {
    let group = PulledColumn::open(file, piece, root, step_bytes, batch_rows)?;
    Ok((open_read(file, piece, &group, root, target, batch_rows)?, group.counts().to_vec()))
}

/// Opens a column through Parquet's own reader; intervals are read twice.
fn open_read(
    file: &ParquetFile,
    piece: &Piece,
    group: &dyn RowGroups,
    root: usize,
    target: &DataType,
    batch_rows: usize,
) -> Result<Box<dyn ColumnRows>> {
    let field = file.schema.field(root);
    if !has_intervals(field.data_type()) {
        return by_parquet(file, piece, group, root, &hint(field.data_type(), target), batch_rows);
    }
    let read = |unit| by_parquet(file, piece, group, root, &with_unit(field.data_type(), unit), batch_rows);
    let what = cannot_be_decoded(piece, field.name());
    Ok(Box::new(IntervalRows { what, months: read(IntervalUnit::YearMonth)?, days: read(IntervalUnit::DayTime)? }))
}

/// Opens a column through Parquet's own reader, in this type if its values can be read so.
fn by_parquet(
    file: &ParquetFile,
    piece: &Piece,
    group: &dyn RowGroups,
    root: usize,
    hint: &DataType,
    batch_rows: usize,
) -> Result<Box<dyn ColumnRows>> {
    let field = file.schema.field(root);
    let fields = file.schema.fields().iter().enumerate().map(|(index, field)| match index == root {
        true => Arc::new(Field::new(field.name(), hint.clone(), field.is_nullable())),
        false => field.clone(),
    });
    let fields: Fields = fields.collect();
    let what = cannot_be_decoded(piece, field.name());
    let reader = guard(&file.source, &what, || {
        let descriptor = file.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::roots(descriptor, [root]);
        let levels = parquet_to_arrow_field_levels(descriptor, mask.clone(), Some(&fields))
            .or_else(|_| parquet_to_arrow_field_levels(descriptor, mask, None))?;
        // The pages of a part begin at other rows for each leaf: the reader passes those before, and in a page.
        let rows = piece.rows.clone();
        let selection = || RowSelection::from(vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())]);
        let selection = (!piece.whole).then(selection);
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, group, batch_rows.max(1), selection)
    })?;
    let descriptor = file.metadata.file_metadata().schema_descr();
    let validate = file.leaves[root].clone().any(|leaf| {
        let leaf = descriptor.column(leaf);
        leaf.physical_type() == PhysicalType::BYTE_ARRAY && leaf.converted_type() != ConvertedType::UTF8
    });
    Ok(Box::new(ArrowRows { source: file.source.clone(), what, reader, validate, batch: None }))
}

/// Opens a column that is neither a list nor a struct, in one of the common types, compressions and encodings.
pub(super) fn open_flat(
    file: &ParquetFile,
    piece: &Piece,
    surveyed: &Surveyed,
    root: usize,
    target: &DataType,
    narrow: bool,
) -> Result<Option<Box<dyn ColumnRows>>> {
    let leaf = file.leaves[root].start;
    let field = file.schema.field(root);
    let metadata = file.metadata.row_group(piece.row_group).column(leaf);
    let descriptor = metadata.column_descr();
    let Some((chunk, survey)) = surveyed.leaf(leaf) else { return Ok(None) };
    if file.leaves[root].len() > 1 || !survey.is_supported {
        return Ok(None);
    }
    let optional = descriptor.max_def_level() > 0;
    let apart = survey.step_bytes.zip(layout(metadata.column_type(), descriptor.type_length()));
    let apart =
        apart.map(|(step_bytes, layout)| Apart { layout, optional, large_bytes: LargePage::large_bytes(step_bytes) });
    let opening = Opening {
        source: file.source.clone(),
        what: cannot_be_decoded(piece, field.name()),
        pages: Pages::new(chunk, metadata.compression(), metadata.uncompressed_size())
            .unread(survey.unread)
            .apart(apart),
        optional,
        behind: piece.rows.start.saturating_sub(chunk.first_row),
    };
    let ty = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let decimal = |ty: &DataType| match ty {
        DataType::Decimal128(precision, scale) if narrow && ty == target && *precision <= DECIMAL64_MAX_PRECISION => {
            Some(DataType::Decimal64(*precision, *scale))
        }
        _ => None,
    };
    use DataType::*;
    let rows = match (metadata.column_type(), ty) {
        (PhysicalType::INT32, Int32 | UInt32 | Date32 | Time32(_)) => opening.fixed(Cast::<i32, i32>(PhantomData), ty),
        (PhysicalType::INT32, Int8) => opening.fixed(Cast::<i32, i8>(PhantomData), ty),
        (PhysicalType::INT32, Int16) => opening.fixed(Cast::<i32, i16>(PhantomData), ty),
        (PhysicalType::INT32, UInt8) => opening.fixed(Cast::<i32, u8>(PhantomData), ty),
        (PhysicalType::INT32, UInt16) => opening.fixed(Cast::<i32, u16>(PhantomData), ty),
        (PhysicalType::INT64, Int64 | UInt64 | Timestamp(..) | Time64(_) | Duration(_) | Date64) => {
            opening.fixed(Cast::<i64, i64>(PhantomData), ty)
        }
        (PhysicalType::FLOAT, Float32) => opening.fixed(Cast::<f32, f32>(PhantomData), ty),
        (PhysicalType::DOUBLE, Float64) => opening.fixed(Cast::<f64, f64>(PhantomData), ty),
        (PhysicalType::INT32, Decimal128(..)) => match decimal(ty) {
            Some(narrow) => opening.fixed(Cast::<i32, i64>(PhantomData), &narrow),
            None => opening.fixed(Cast::<i32, i128>(PhantomData), ty),
        },
        (PhysicalType::INT64, Decimal128(..)) => match decimal(ty) {
            Some(narrow) => opening.fixed(Cast::<i64, i64>(PhantomData), &narrow),
            None => opening.fixed(Cast::<i64, i128>(PhantomData), ty),
        },
        (PhysicalType::FIXED_LEN_BYTE_ARRAY, Decimal128(..)) if (1..=16).contains(&descriptor.type_length()) => {
            let width = descriptor.type_length() as usize;
            match decimal(ty) {
                Some(narrow) => opening.fixed(BigEndian::<i64> { width, to: PhantomData }, &narrow),
                None => opening.fixed(BigEndian::<i128> { width, to: PhantomData }, ty),
            }
        }
        (PhysicalType::FIXED_LEN_BYTE_ARRAY, Interval(_)) if descriptor.type_length() == 12 => {
            opening.fixed(Intervals, ty)
        }
        // Parquet's own reader is as good where the whole chunk is there.
        (PhysicalType::BOOLEAN, Boolean) if survey.step_bytes.is_some() => opening.open(Bits::default()),
        (PhysicalType::BYTE_ARRAY, Utf8 | LargeUtf8 | Utf8View) => {
            // Codes pay off where values repeat.
            let repeats = survey.dictionary_values.saturating_mul(DICTIONARY_REPEATS_MIN) <= piece.rows.len();
            if narrow && *target == Utf8View && survey.is_all_codes && repeats {
                opening.open(Codes::new())
            } else {
                opening.open(Views::new(true))
            }
        }
        (PhysicalType::BYTE_ARRAY, Binary | LargeBinary | BinaryView) => opening.open(Views::new(false)),
        _ => return Ok(None),
    };
    Ok(Some(rows))
}

/// How plain values of a type are laid out; `None` for bits.
fn layout(physical: PhysicalType, length: i32) -> Option<Layout> {
    Some(match physical {
        PhysicalType::BOOLEAN => return None,
        PhysicalType::INT32 | PhysicalType::FLOAT => Layout::Fixed(4),
        PhysicalType::INT64 | PhysicalType::DOUBLE => Layout::Fixed(8),
        PhysicalType::INT96 => Layout::Fixed(12),
        PhysicalType::FIXED_LEN_BYTE_ARRAY => Layout::Fixed(usize::try_from(length).ok().filter(|length| *length > 0)?),
        PhysicalType::BYTE_ARRAY => Layout::Lengths,
    })
}

/// How often values of a dictionary must occur on average for codes to be given out: what is computed once per value of
/// the dictionary must be less than what is computed per row.
const DICTIONARY_REPEATS_MIN: usize = 4;

/// What a flat column needs besides its kind of values.
struct Opening {
    source: Arc<Source>,
    what: String,
    pages: Pages,
    optional: bool,
    behind: usize,
}

impl Opening {
    fn open<V: Values>(self, values: V) -> Box<dyn ColumnRows> {
        Box::new(FlatRows::new(self.source, self.what, self.pages, values, self.optional, self.behind))
    }

    fn fixed<C: Convert>(self, convert: C, ty: &DataType) -> Box<dyn ColumnRows> {
        self.open(Fixed::new(convert, ty.clone()))
    }
}

/// The type to ask Parquet's reader for.
fn hint(field: &DataType, target: &DataType) -> DataType {
    match (field, target) {
        (field, _) if field.is_nested() => field.clone(),
        (_, DataType::Utf8View | DataType::BinaryView) => target.clone(),
        (DataType::Dictionary(_, values), _) => values.as_ref().clone(),
        _ => field.clone(),
    }
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
