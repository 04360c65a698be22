//! The build side from chunks to a table and arrays: planned at once, worked on in independent pieces, finished at
//! once.
//!
//! What finishing needs is reserved *before* it begins ([`finishing_bytes`]), by whoever handed the chunks over: here
//! nothing is refused any more. A *compact* table is one that takes no more memory than hashing does, for joins that
//! are short of it.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use diligence_base::Result;
use diligence_memory::{QueryMemory, Reservation};

use super::built::{Built, KeyValues, Lookup};
use super::chunk::{Chunk, key_bounds};
use super::columns::Assembly;
use super::filters::{FilterContent, Filters, fill_filters};
use super::finishing::{WORK_BYTES_PER_CHUNK, work_bytes_per_row};
use super::held::{Bits, Held, Later};
use super::incoming::{AllIn, Incoming, check_rows};
use super::packing::Packing;
use super::paid::Paid;
use super::spec::TableSpec;
use super::table_work::TableWork;
use crate::operators::runtime_filter::FilterWork;

/// Keys up to which a runtime filter is made: 16 million make 32 MiB of Bloom filter, beyond which testing misses the
/// cache as the join itself would.
const FILTER_KEYS_MAX: usize = 16 << 20;

/// Chunks in one piece of work on a runtime filter.
const FILTER_CHUNKS: usize = 32;

/// The build side on its way from chunks to a table and arrays.
pub(in super::super) struct Assembling {
    spec: Arc<TableSpec>,
    rows: usize,
    chunks: Vec<Chunk>,
    columns: Vec<Assembly>,
    table: Option<TableWork>,
    filters: Vec<(usize, FilterWork)>,
    tasks: Vec<Task>,
    reservation: Option<Reservation>,
}

/// A piece of finishing work.
enum Task {
    Table(usize),
    Column(usize, usize),
    Filter(usize, std::ops::Range<usize>),
}

/// What finishing some chunks depends on.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Needs {
    rows: usize,
    chunks: usize,
    array_bytes: usize,
    /// What is reserved with the chunks already.
    reserved_bytes: usize,
}

impl Needs {
    pub fn of(incoming: &Incoming) -> Self {
        Self {
            rows: incoming.rows(),
            chunks: incoming.chunks().count(),
            array_bytes: incoming.assembly_bytes(),
            reserved_bytes: incoming.finishing_bytes(),
        }
    }

    /// Bytes that finishing them needs on top of what is reserved with them, if the table is to be compact.
    pub fn compact_bytes(self, spec: &TableSpec) -> usize {
        self.bytes(spec, TableWork::compact_bytes(self.rows))
    }

    fn bytes(self, spec: &TableSpec, table_bytes: usize) -> usize {
        let Self { rows, chunks, array_bytes, reserved_bytes } = self;
        let bytes = match rows == 0 || spec.keys.is_empty() {
            true => array_bytes + rows / 4,
            false => {
                array_bytes + table_bytes + work_bytes_per_row(spec) * rows + WORK_BYTES_PER_CHUNK * chunks + rows / 4
            }
        };
        bytes.saturating_sub(reserved_bytes)
    }
}

impl std::iter::Sum for Needs {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, own| Self {
            rows: sum.rows + own.rows,
            chunks: sum.chunks + own.chunks,
            array_bytes: sum.array_bytes + own.array_bytes,
            reserved_bytes: sum.reserved_bytes + own.reserved_bytes,
        })
    }
}

/// Bytes that finishing what came in needs on top of what is reserved with it, if the table is to be compact or not.
pub(in super::super) fn finishing_bytes<'a>(
    spec: &TableSpec,
    incoming: impl Iterator<Item = &'a Incoming> + Clone,
    is_compact: bool,
) -> usize {
    let all = incoming.clone().flat_map(Incoming::chunks);
    let matchable = all.clone().map(Chunk::matchable).sum();
    let table_bytes = TableWork::bytes(packing(spec, all).as_ref(), matchable);
    let most = if is_compact { TableWork::compact_bytes(matchable) } else { usize::MAX };
    incoming.map(Needs::of).sum::<Needs>().bytes(spec, table_bytes.min(most))
}

impl Assembling {
    /// Cuts the finishing work into pieces. What it needs is reserved with what came in, but for filters, which are
    /// only made if there is memory for them.
    pub fn new(spec: &Arc<TableSpec>, all: AllIn, filters: &Filters, packets: usize, is_compact: bool) -> Result<Self> {
        let AllIn { chunks, columns, mut reservation } = all;
        let (chunks, order, sorted) = ordered(chunks);
        let rows: usize = chunks.iter().map(|chunk| chunk.rows).sum();
        check_rows(rows)?;
        let matchable: usize = chunks.iter().map(Chunk::matchable).sum();
        let packing = packing(spec, chunks.iter());
        let columns: Vec<Assembly> = columns
            .into_iter()
            .zip(&spec.stored)
            .map(|(packets, (_, logical))| Assembly::new(packets, &order, logical))
            .collect();
        let table = (matchable > 0 && !spec.keys.is_empty())
            .then(|| TableWork::new(packing, matchable, sorted, packets, is_compact));
        let mut filters = match &table {
            Some(table) => plan_filters(spec, filters, table, &chunks, matchable),
            None => vec![],
        };
        if let Some(reservation) = &mut reservation
            && reservation.grow(filters.iter().map(|(_, work)| work.bytes()).sum()).is_err()
        {
            filters.clear();
        }
        let mut tasks = Vec::new();
        tasks.extend((0..table.as_ref().map_or(0, TableWork::parts)).map(Task::Table));
        for (index, column) in columns.iter().enumerate() {
            tasks.extend((0..column.pieces()).map(|piece| Task::Column(index, piece)));
        }
        for index in 0..filters.len() {
            let starts = (0..chunks.len()).step_by(FILTER_CHUNKS);
            tasks.extend(starts.map(|from| Task::Filter(index, from..chunks.len().min(from + FILTER_CHUNKS))));
        }
        Ok(Self { spec: spec.clone(), rows, chunks, columns, table, filters, tasks, reservation })
    }

    /// How many pieces of work there are.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// One piece of work. Each is done once; different ones at the same time.
    pub fn work(&self, task: usize, memory: &QueryMemory) -> Result<()> {
        match &self.tasks[task] {
            Task::Table(part) => {
                self.table.iter().for_each(|table| table.work(*part, &self.chunks, memory));
            }
            Task::Column(column, piece) => self.columns[*column].work(*piece)?,
            Task::Filter(filter, range) => {
                let (key, work) = &self.filters[*filter];
                for chunk in &self.chunks[range.clone()] {
                    work.add(&chunk.keys[*key], chunk.valid.as_ref());
                }
            }
        }
        Ok(())
    }

    /// After all pieces of work: what the probe side wants. Fills the filters, which is for complete build sides only.
    /// `hold` says how its memory is held from now on.
    pub fn finish(
        self,
        filters: &Filters,
        is_complete: bool,
        later: Option<Later>,
        hold: impl FnOnce(&mut Reservation),
    ) -> Result<Built> {
        let Self { spec, rows, chunks, columns, table, filters: works, mut reservation, .. } = self;
        let table = table.map(|table| Arc::new(table.finish()));
        let finished = columns.into_iter().map(Assembly::finish).collect::<Result<Vec<_>>>()?;
        let (columns, column_bytes): (Vec<_>, Vec<_>) = finished.into_iter().unzip();
        let values = match &table {
            Some(table) if table.packing().is_none() => values(&spec, &chunks, &columns, rows),
            _ => vec![],
        };
        let valid = concat_valid(&chunks, rows).filter(|_| spec.null_aware);
        let null_rows = match &valid {
            Some(valid) => (0..rows).filter(|&row| valid.is_null(row)).map(|row| row as u32).collect(),
            None => Arc::from([]),
        };
        let filter_bytes: usize = works.iter().map(|(_, work)| work.bytes()).sum();
        let contents = FilterContent::all(&spec, filters, table.as_ref(), &chunks, works);
        fill_filters(&spec, filters, &contents)?;
        let matched = spec.marks_rows.then(|| Bits::new(rows));
        if let Some(matched) = &matched {
            for chunk in &chunks {
                let rows = chunk.matched.iter().flat_map(|matched| matched.set_indices());
                matched.set(&rows.map(|row| (chunk.first_row + row) as u32).collect::<Vec<_>>());
            }
        }
        drop(chunks);
        if let Some(reservation) = &mut reservation {
            // The chunks are gone.
            let words =
                values.iter().map(|values| if let KeyValues::Words(words, _) = values { words.len() * 8 } else { 0 });
            let arrays = column_bytes.iter().sum::<usize>() + words.sum::<usize>();
            let bits = if matched.is_some() { rows / 8 } else { 0 };
            let table = table.as_ref().map_or(0, |table| table.bytes());
            let held = arrays + bits + table + filter_bytes;
            reservation.overdraw(held.saturating_sub(reservation.bytes()));
            reservation.resize(held)?;
            hold(reservation);
        }
        let paid = reservation.map(Paid::new);
        let held = Held { rows, columns, matched, valid, is_complete, later, paid, _lent: None };
        let lookup = Arc::new(Lookup { table, values, null_rows, ranges: OnceLock::new() });
        Ok(Built { held: Arc::new(held), lookup, filters: contents })
    }
}

/// How to pack the keys into codes, if they are words and fit.
fn packing<'a>(spec: &TableSpec, chunks: impl Iterator<Item = &'a Chunk> + Clone) -> Option<Packing> {
    let keys = &spec.keys;
    if keys.is_empty() || !keys.iter().all(|key| key.kind.is_word()) {
        return None;
    }
    let null_codes: Vec<bool> = (0..keys.len())
        .map(|key| spec.null_equal && chunks.clone().any(|chunk| chunk.keys[key].nulls.is_some()))
        .collect();
    let bounds: Vec<_> = (0..keys.len()).map(|key| key_bounds(chunks.clone(), key)).collect();
    Packing::new(&bounds, &null_codes)
}

/// Filters that need work of their own: a dense table is its own filter.
fn plan_filters(
    spec: &TableSpec,
    filters: &Filters,
    table: &TableWork,
    chunks: &[Chunk],
    matchable: usize,
) -> Vec<(usize, FilterWork)> {
    let mut works = Vec::new();
    for &(_, key) in filters {
        let done = works.iter().any(|&(other, _)| other == key);
        if done || spec.keys.len() == 1 && matches!(table, TableWork::Dense(_)) {
            continue;
        }
        let kind = &spec.keys[key].kind;
        let bounds = key_bounds(chunks.iter(), key);
        if let Some(work) = FilterWork::new(kind.is_word().then_some(bounds), matchable, FILTER_KEYS_MAX) {
            works.push((key, work));
        }
    }
    works
}

fn values(spec: &TableSpec, chunks: &[Chunk], columns: &[ArrayRef], rows: usize) -> Vec<KeyValues> {
    let keys = spec.key_columns.iter().enumerate();
    keys.map(|(key, kept)| match kept {
        Some(column) => KeyValues::Bytes(match columns[*column].data_type() {
            DataType::Utf8View => columns[*column].as_string_view().clone().to_binary_view(),
            _ => columns[*column].as_binary_view().clone(),
        }),
        None => {
            let mut words = Vec::with_capacity(rows);
            chunks.iter().for_each(|chunk| words.extend_from_slice(chunk.keys[key].words()));
            let nulls = chunks.iter().map(|chunk| (chunk.rows, chunk.keys[key].nulls.as_ref()));
            KeyValues::Words(words, concat_bits(nulls, rows))
        }
    })
    .collect()
}

/// All chunks in row order, their places (packet, chunk), and whether their only key ascends throughout.
///
/// Chunks are put in the order of their keys if that makes the whole build side ascend, whichever packets scanned them.
fn ordered(packets: Vec<Vec<Chunk>>) -> (Vec<Chunk>, Vec<(usize, usize)>, bool) {
    let mut placed = Vec::new();
    for (packet, chunks) in packets.into_iter().enumerate() {
        placed.extend(chunks.into_iter().enumerate().map(|(index, chunk)| ((packet, index), chunk)));
    }
    let mut sorted = !placed.is_empty() && placed.iter().all(|(_, chunk)| chunk.sorted);
    if sorted {
        placed.sort_by_key(|(_, chunk)| chunk.bounds[0]);
        sorted = placed.windows(2).all(|pair| pair[0].1.bounds[0].1 <= pair[1].1.bounds[0].0);
    }
    let mut first_row = 0;
    for (_, chunk) in &mut placed {
        chunk.first_row = first_row;
        first_row += chunk.rows;
    }
    let (places, chunks) = placed.into_iter().unzip();
    (chunks, places, sorted)
}

fn concat_valid(chunks: &[Chunk], rows: usize) -> Option<NullBuffer> {
    concat_bits(chunks.iter().map(|chunk| (chunk.rows, chunk.valid.as_ref())), rows)
}

fn concat_bits<'a>(
    parts: impl Iterator<Item = (usize, Option<&'a NullBuffer>)> + Clone,
    rows: usize,
) -> Option<NullBuffer> {
    if parts.clone().all(|(_, nulls)| nulls.is_none()) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(rows);
    for (rows, nulls) in parts {
        match nulls {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(rows, true),
        }
    }
    Some(NullBuffer::new(valid.finish()))
}
