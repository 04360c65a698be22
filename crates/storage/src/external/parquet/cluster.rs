//! One row group or a part of one: fetching its bytes and decoding them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use diligence_base::limits::BATCH_BYTES;
use diligence_base::{Error, Result};

use super::bytes::{ChunkBegins, ChunkBytes, ParquetBytes};
use super::column_rows::OpenColumn;
use super::columns::{open_column, open_flat, open_pulled};
use super::footer::chunk_range;
use super::infinities::with_infinities;
use super::numbered::{NumberedWindows, numbered_schema};
use super::pulled::PulledBytes;
use super::steps::{FirstParts, LaterParts, Steps};
use super::survey::Surveyed;
use super::variant::{is_variant_group, json_texts};
use super::{ParquetFile, ParquetTable, Piece};
use crate::external::nested::rename;
use crate::external::schema::{conform_column, is_uuid_bytes, nulls, uuid_texts};
use crate::external::sieve::{SharedWindows, Sieve, Windows, columns_of};
use crate::memory::RowNumbers;
use crate::{Cluster, Decode, DecodeRequest, Fetch, Fetched, FirstStep, SharedItem, Zone};

/// A cluster of a Parquet table.
pub(super) struct ParquetCluster {
    table: Arc<ParquetTable>,
    file: usize,
    /// Which piece of the file.
    position: usize,
    piece: Piece,
    /// The numbers of its rows, if they are one more column.
    numbers: Option<RowNumbers>,
}

/// What is read of a leaf.
struct LeafRead {
    leaf: usize,
    dictionary: Option<Range<u64>>,
    pages: Range<u64>,
    first_row: usize,
}

impl fmt::Debug for ParquetCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl ParquetCluster {
    pub fn new(table: Arc<ParquetTable>, file: usize, position: usize) -> Self {
        let piece = table.files[file].pieces[position].clone();
        Self { table, file, position, piece, numbers: None }
    }

    /// The same with the numbers of its rows in one more column.
    pub fn with_numbers(self, numbers: Option<RowNumbers>) -> Self {
        Self { numbers, ..self }
    }

    fn file(&self) -> &ParquetFile {
        &self.table.files[self.file]
    }

    fn numbered(
        &self,
        inner: impl Windows + 'static,
        numbers: &RowNumbers,
        request: &DecodeRequest,
    ) -> Result<Box<dyn Decode>> {
        let schema = &self.table.schema;
        let (numbers, column) = (numbers.clone(), schema.fields().len());
        let windows = NumberedWindows { inner, numbers, column, start: 0, rows: 0 };
        Ok(Box::new(Sieve::new(windows, request.clone(), numbered_schema(schema))))
    }

    /// The reads that bring these columns of the table.
    fn reads(&self, columns: &[usize]) -> Vec<LeafRead> {
        let file = self.file();
        let mut leaves = columns
            .iter()
            .filter_map(|&column| file.roots.get(column).copied().flatten())
            .flat_map(|root| file.leaves[root].clone())
            .collect::<Vec<_>>();
        leaves.sort_unstable();
        leaves.dedup();
        leaves.into_iter().filter_map(|leaf| self.leaf_read(leaf)).collect()
    }

    fn leaf_read(&self, leaf: usize) -> Option<LeafRead> {
        let metadata = &self.file().metadata;
        let chunk = metadata.row_group(self.piece.row_group).column(leaf);
        let whole = chunk_range(chunk)?;
        if self.piece.whole {
            return Some(LeafRead { leaf, dictionary: None, pages: whole, first_row: 0 });
        }
        let pages = metadata.offset_index()?.get(self.piece.row_group)?.get(leaf)?.page_locations();
        let rows = &self.piece.rows;
        let first = pages.partition_point(|page| page.first_row_index as usize <= rows.start).checked_sub(1)?;
        let last = pages.partition_point(|page| (page.first_row_index as usize) < rows.end).checked_sub(1)?;
        let start = pages[first].offset as u64;
        let end = pages[last].offset as u64 + pages[last].compressed_page_size as u64;
        let dictionary = whole.start..pages[0].offset as u64;
        Some(LeafRead {
            leaf,
            dictionary: (!dictionary.is_empty()).then_some(dictionary),
            pages: start..end,
            first_row: pages[first].first_row_index as usize,
        })
    }
}

impl ParquetCluster {
    /// Whether a column is of the kinds whose pages are decoded one by one, of parts that were fetched.
    fn can_be_fetched_in_steps(&self, column: usize) -> bool {
        let file = self.file();
        let nothing = |leaf| (leaf, ChunkBytes::default());
        let Some(root) = file.roots.get(column).copied().flatten() else { return true };
        let leaves = file.leaves[root].clone();
        let bytes = Box::new(ParquetBytes { leaves: leaves.clone().map(nothing).collect() });
        let unread = leaves.map(|leaf| (leaf, 1)).collect();
        let target = self.table.schema.field(column).data_type();
        let opened = Surveyed::in_steps(file, &self.piece, bytes, &unread, 1)
            .and_then(|surveyed| open_flat(file, &self.piece, &surveyed, root, target, true));
        matches!(opened, Ok(Some(_)))
    }

    fn windows(&self, surveyed: Surveyed, request: &DecodeRequest) -> ParquetWindows {
        ParquetWindows {
            table: self.table.clone(),
            file: self.file,
            piece: self.piece.clone(),
            surveyed,
            batch_rows: request.batch_rows.max(1),
            narrow: request.narrow,
            start: 0,
            rows: 0,
            columns: HashMap::new(),
            steps: None,
        }
    }

    /// Rows of these leaves that have about as much text as a batch may have, if all are as long.
    fn rows_at_once(&self, leaves: impl Iterator<Item = usize>) -> usize {
        let group = self.file().metadata.row_group(self.piece.row_group);
        let bytes = leaves.map(|leaf| usize::try_from(group.column(leaf).uncompressed_size()).unwrap_or(0));
        let row_bytes = bytes.fold(0, usize::saturating_add) / usize::try_from(group.num_rows()).unwrap_or(0).max(1);
        (BATCH_BYTES.end() / row_bytes.max(1)).max(1)
    }

    fn windows_in_steps(&self, first: FirstParts, bytes: usize, request: &DecodeRequest) -> Result<ParquetWindows> {
        let file = self.file();
        let FirstParts { bytes: parts, mut unread, pulled, step_bytes } = first;
        let total = |ranges: &VecDeque<Range<u64>>| ranges.iter().map(|range| range.end - range.start).sum();
        let bytes_unread = unread.iter().map(|(leaf, ranges)| (*leaf, total(ranges))).collect();
        let surveyed = Surveyed::in_steps(file, &self.piece, Box::new(parts), &bytes_unread, step_bytes)?;
        let mut windows = self.windows(surveyed, request);
        if is_alone(request) {
            let roots = pulled.iter().filter_map(|&column| file.roots.get(column).copied().flatten());
            let leaves = roots.flat_map(|root| file.leaves[root].clone()).chain(unread.keys().copied());
            windows.batch_rows = windows.batch_rows.min(self.rows_at_once(leaves));
        }
        let mut by_column = HashMap::with_capacity(unread.len());
        for (column, root) in file.roots.iter().enumerate() {
            let Some(leaf) = root.map(|root| file.leaves[root].start) else { continue };
            if let Some(ranges) = unread.remove(&leaf) {
                windows.open(column)?;
                by_column.insert(column, ranges);
            }
        }
        // The columns have them from here on.
        windows.surveyed.bytes.leaves.clear();
        let mut counts = Vec::new();
        for column in pulled {
            counts.extend(windows.pull(column, step_bytes)?);
        }
        let batch_rows = windows.batch_rows;
        windows.steps = Some(Steps::new(step_bytes, bytes, batch_rows, by_column, counts, &mut windows.columns)?);
        Ok(windows)
    }
}

/// Whether windows are nobody else's: what others have decoded, or want, is of windows of the usual length.
fn is_alone(request: &DecodeRequest) -> bool {
    request.shared.as_ref().is_none_or(|shared| {
        let columns = columns_of(request).into_iter().map(SharedItem::Column);
        let answers = request.filters.iter().filter_map(|filter| filter.answer()).map(SharedItem::Answer);
        shared.wanted().is_empty() && !columns.chain(answers).any(|item| shared.windows(item).is_some())
    })
}

impl Cluster for ParquetCluster {
    fn rows(&self) -> Option<usize> {
        Some(self.piece.rows.len())
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        let bytes = |range: &Range<u64>| (range.end - range.start) as usize;
        self.reads(columns).iter().map(|read| bytes(&read.pages) + read.dictionary.as_ref().map_or(0, bytes)).sum()
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        let reads = self.reads(columns);
        if reads.is_empty() {
            return Fetch::Ready(Fetched { bytes: 0, content: Box::new(ParquetBytes { leaves: HashMap::new() }) });
        }
        let mut ranges = Vec::with_capacity(reads.len() * 2);
        for read in &reads {
            ranges.extend(read.dictionary.clone());
            ranges.push(read.pages.clone());
        }
        self.file().source.fetch(ranges, move |parts| {
            let bytes = parts.iter().map(|part| part.len()).sum();
            let mut parts = parts.into_iter();
            let mut leaves = HashMap::with_capacity(reads.len());
            for read in reads {
                let short = || Error::bug("a read brought fewer parts than it had ranges");
                let dictionary = match &read.dictionary {
                    Some(_) => Some(parts.next().ok_or_else(short)?),
                    None => None,
                };
                let pages = parts.next().ok_or_else(short)?;
                let begins =
                    ChunkBegins { dictionary: read.dictionary.map_or(0, |at| at.start), pages: read.pages.start };
                leaves.insert(read.leaf, ChunkBytes { dictionary, pages, first_row: read.first_row, begins });
            }
            Ok(Fetched { bytes, content: Box::new(ParquetBytes { leaves }) })
        })
    }

    fn fetch_in_steps(&self, columns: &[usize], step_bytes: usize) -> Option<FirstStep> {
        // A checksum is of a whole chunk.
        if self.numbers.is_some() || self.file().checksums.is_some() {
            return None;
        }
        let source = &self.file().source;
        let (fetched, mut pulled): (Vec<usize>, Vec<usize>) =
            columns.iter().partition(|column| self.can_be_fetched_in_steps(**column));
        if !pulled.is_empty() && !source.is_local() {
            return None;
        }
        pulled.sort_unstable();
        pulled.dedup();
        let leaves = self.reads(&fetched).into_iter().map(|read| {
            let ranges = read.dictionary.into_iter().chain([read.pages]).filter(|range| !range.is_empty());
            (read.leaf, read.first_row, ranges.collect())
        });
        let (ranges, finish) = FirstParts::plan(leaves.collect(), pulled, step_bytes);
        let bytes = ranges.iter().map(|range| (range.end - range.start) as usize).sum();
        let fetch = source.fetch_apart(ranges, move |parts| Ok(Fetched { bytes, content: Box::new(finish(parts)?) }));
        Some(FirstStep { bytes, fetch })
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let schema = &self.table.schema;
        if fetched.is_nothing() {
            return match &self.numbers {
                None => Ok(Box::new(Sieve::of_shared(request, schema.clone())?)),
                Some(numbers) => self.numbered(SharedWindows::of(request)?, numbers, request),
            };
        }
        let windows = match fetched.content.downcast::<ParquetBytes>() {
            Ok(bytes) => self.windows(Surveyed::new(self.file(), &self.piece, bytes)?, request),
            Err(content) => match content.downcast::<FirstParts>() {
                Ok(first) => self.windows_in_steps(*first, fetched.bytes, request)?,
                Err(_) => return Err(Error::bug("what was fetched from another cluster came to a Parquet cluster")),
            },
        };
        match &self.numbers {
            None => Ok(Box::new(Sieve::new(windows, request.clone(), schema.clone()))),
            Some(numbers) => self.numbered(windows, numbers, request),
        }
    }

    fn place(&self) -> Option<u64> {
        Some((self.file as u64) << 32 | self.position as u64)
    }

    fn zone(&self, column: usize) -> Option<Zone> {
        let field = self.table.schema.fields().get(column)?;
        self.file().zone(column, field.data_type(), self.piece.row_group)
    }

    fn describe(&self) -> String {
        let Piece { row_group, rows, whole } = &self.piece;
        let name = &self.file().source.name;
        if *whole {
            format!("{name}, row group {row_group}")
        } else {
            format!("{name}, row group {row_group}, rows {} to {}", rows.start, rows.end)
        }
    }
}

/// The rows of a cluster, window by window. Columns are opened when first asked for and skip what nobody wanted.
struct ParquetWindows {
    table: Arc<ParquetTable>,
    file: usize,
    piece: Piece,
    surveyed: Surveyed,
    batch_rows: usize,
    narrow: bool,
    /// The window, counted from the first row of the piece.
    start: usize,
    rows: usize,
    columns: HashMap<usize, OpenColumn>,
    /// If its columns are read in steps; then all are open.
    steps: Option<Steps>,
}

impl ParquetWindows {
    /// Opens a column that the file has.
    fn open(&mut self, column: usize) -> Result<&mut OpenColumn> {
        let file = &self.table.files[self.file];
        if !self.columns.contains_key(&column) {
            let target = self.table.schema.field(column).data_type();
            let root = file.roots.get(column).copied().flatten();
            let root = root.ok_or_else(|| Error::bug("a column is opened that the file does not have"))?;
            let rows = open_column(file, &self.piece, &self.surveyed, root, target, self.batch_rows, self.narrow)?;
            self.columns.insert(column, OpenColumn { rows, at: 0 });
        }
        self.columns.get_mut(&column).ok_or_else(|| Error::bug("an opened column is gone"))
    }

    /// Opens a column that is read when it is decoded, and says what its leaves take.
    fn pull(&mut self, column: usize, step_bytes: usize) -> Result<Vec<Arc<PulledBytes>>> {
        let file = &self.table.files[self.file];
        let Some(root) = file.roots.get(column).copied().flatten() else { return Ok(vec![]) };
        let target = self.table.schema.field(column).data_type();
        let (rows, counts) = open_pulled(file, &self.piece, root, target, step_bytes, self.batch_rows)?;
        self.columns.insert(column, OpenColumn { rows, at: 0 });
        Ok(counts)
    }

    /// What must be read before these columns can be decoded from row `start` of the piece on.
    fn missing_of(&mut self, start: usize, rows: usize, columns: &[usize]) -> Result<Option<Fetch>> {
        let Some(steps) = self.steps.as_mut().filter(|_| rows > 0) else { return Ok(None) };
        let (ranges, columns) = steps.missing(start, rows, columns, &mut self.columns)?;
        if ranges.is_empty() {
            return Ok(None);
        }
        let source = &self.table.files[self.file].source;
        Ok(Some(source.fetch_apart(ranges, move |parts| {
            let bytes = parts.iter().map(bytes::Bytes::len).sum();
            Ok(Fetched { bytes, content: Box::new(LaterParts::new(columns, parts)) })
        })))
    }
}

impl Windows for ParquetWindows {
    fn advance(&mut self, rows_max: usize) -> Result<usize> {
        self.start += self.rows;
        self.rows = rows_max.min(self.batch_rows).min(self.piece.rows.len() - self.start);
        Ok(self.rows)
    }

    fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef> {
        let rows = selected.map_or(self.rows, BooleanBuffer::count_set_bits);
        let Some(root) = self.table.files[self.file].roots.get(column).copied().flatten() else {
            return Ok(nulls(self.table.schema.field(column).data_type(), rows));
        };
        let (start, window_rows) = (self.start, self.rows);
        let open = self.open(column)?;
        open.skip_to(start)?;
        let array = match selected {
            None => open.rows.read(window_rows)?,
            Some(selected) => open.rows.read_selected(selected)?,
        };
        open.at += window_rows;
        let file = &self.table.files[self.file];
        let target = self.table.schema.field(column).data_type();
        if array.len() != rows {
            let name = file.column_name(root);
            return Err(file.error(
                self.piece.row_group,
                format!(
                    "column '{name}' ends after {} rows of {}; the file is corrupt",
                    self.start,
                    self.piece.rows.len()
                ),
            ));
        }
        let is_uuid =
            is_uuid_bytes(file.schema.field(root)) && matches!(array.data_type(), DataType::FixedSizeBinary(16));
        if is_uuid && *target == DataType::Utf8View {
            return uuid_texts(&array);
        }
        if *target == DataType::Utf8View && is_variant_group(array.data_type()) {
            let what = format!("column '{}' has variants that cannot be read", file.column_name(root));
            return json_texts(&file.source, &what, &array);
        }
        let array = match file.renamed.get(column) {
            Some(Some(ty)) => rename(array, ty)?,
            _ => array,
        };
        let array = conform_column(array, self.table.schema.field(column), self.narrow);
        let array = array.map_err(|error| file.source.blame(error))?;
        Ok(if file.is_by_duckdb() { with_infinities(array) } else { array })
    }

    fn bytes(&self) -> usize {
        self.steps.as_ref().map_or_else(|| self.surveyed.decode_bytes(self.batch_rows), Steps::bytes)
    }

    fn missing(&mut self, rows_max: usize, columns: &[usize]) -> Result<Option<Fetch>> {
        let start = self.start + self.rows;
        let rows = rows_max.min(self.batch_rows).min(self.piece.rows.len() - start);
        self.missing_of(start, rows, columns)
    }

    fn missing_here(&mut self, columns: &[usize]) -> Result<Option<Fetch>> {
        self.missing_of(self.start, self.rows, columns)
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        let parts = read.content.downcast::<LaterParts>();
        let parts = parts.map_err(|_| Error::bug("what another cluster asked for came to a Parquet cluster"))?;
        let steps =
            self.steps.as_mut().ok_or_else(|| Error::bug("a cluster that is not read in steps was brought one"))?;
        steps.bring(*parts, &mut self.columns)
    }
}
