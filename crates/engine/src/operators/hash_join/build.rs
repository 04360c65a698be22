//! The build side: packets keep chunks, the finishing parts make the table and the columns of them.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};

use super::columns::Assembly;
use super::emit::{Bits, Held, marks_held};
use super::incoming::{AllIn, Collected, Incoming, check_rows};
use super::keys::{KeyColumn, KeyData, hash_rows, words_are_ordered};
use super::packing::Packing;
use super::table::Table;
use super::table_work::{Partitions, TableWork};
use super::{Config, KeyValues, Lookup, Shared, StoredSource};
use crate::batch::{Batch, Column};
use crate::memory::{QueryMemory, Reservation};
use crate::operators::runtime_filter::{FilterWork, RuntimeFilter};
use crate::pipeline::{Accept, Setup, Sink, SinkState};
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Keys up to which a runtime filter is made: 16 million make 32 MiB of Bloom filter, beyond which testing misses the
/// cache as the join itself would.
const FILTER_KEYS_MAX: usize = 16 << 20;

/// Chunks in one piece of work on a runtime filter.
const FILTER_CHUNKS: usize = 32;

/// The sink that builds.
pub(super) struct Build {
    config: Arc<Config>,
    shared: Arc<Shared>,
    filters: Vec<(Arc<RuntimeFilter>, usize)>,
    assembling: Mutex<Option<Arc<Assembling>>>,
    packets: AtomicUsize,
}

/// The keys of one batch of the build side.
pub(super) struct Chunk {
    pub rows: usize,
    /// The number of its first row among all rows of the build side.
    pub first_row: usize,
    pub keys: Vec<KeyColumn>,
    /// Rows that can match, if not all: those without a NULL key, unless NULLs are equal.
    pub valid: Option<NullBuffer>,
    /// Smallest and largest word of each key that has words; the wrong way round if all are NULL.
    pub bounds: Vec<(u64, u64)>,
    /// One key, no NULL, ascending words.
    pub sorted: bool,
    codes: OnceLock<Vec<u64>>,
    hashes: OnceLock<Vec<u64>>,
    partitions: OnceLock<Partitions>,
}

impl Chunk {
    fn new(keys: Vec<KeyColumn>, rows: usize, valid: Option<NullBuffer>) -> Self {
        let bounds = keys.iter().map(bounds).collect();
        let sorted = match &keys[..] {
            [KeyColumn { data: KeyData::Words(words), nulls: None }] => words.is_sorted(),
            _ => false,
        };
        let [codes, hashes] = [OnceLock::new(), OnceLock::new()];
        Self { rows, first_row: 0, keys, valid, bounds, sorted, codes, hashes, partitions: OnceLock::new() }
    }

    #[inline(always)]
    pub fn can_match(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.is_valid(row))
    }

    pub fn codes(&self, packing: &Packing) -> &[u64] {
        self.codes.get_or_init(|| {
            let mut codes = Vec::with_capacity(self.rows);
            packing.pack(&self.keys, &mut codes);
            codes
        })
    }

    pub fn hashes(&self) -> &[u64] {
        self.hashes.get_or_init(|| {
            let mut hashes = Vec::with_capacity(self.rows);
            hash_rows(&self.keys, &mut hashes);
            hashes
        })
    }

    pub fn partitions(&self) -> &Partitions {
        self.partitions.get_or_init(|| Partitions::new(self.hashes(), self.valid.as_ref()))
    }
}

fn bounds(key: &KeyColumn) -> (u64, u64) {
    let words = key.words();
    let widened = |(min, max): (u64, u64), word: u64| (min.min(word), max.max(word));
    match &key.nulls {
        None => words.iter().copied().fold((u64::MAX, 0), widened),
        Some(_) if words.is_empty() => (u64::MAX, 0),
        Some(nulls) => nulls.valid_indices().map(|row| words[row]).fold((u64::MAX, 0), widened),
    }
}

impl Build {
    pub fn new(config: Arc<Config>, shared: Arc<Shared>, filters: Vec<(Arc<RuntimeFilter>, usize)>) -> Self {
        Self { config, shared, filters, assembling: Mutex::new(None), packets: AtomicUsize::new(1) }
    }
}

impl Sink for Build {
    fn name(&self) -> &'static str {
        "HashJoinBuild"
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SinkState>> {
        self.packets.fetch_max(setup.packets, Ordering::Relaxed);
        Ok(Box::new(BuildState {
            incoming: Incoming::new(&self.config.stored, setup.memory.reservation("HashJoin")),
            config: self.config.clone(),
            shared: self.shared.clone(),
        }))
    }

    fn parts(&self) -> Result<usize> {
        let collected = Collected::take(&self.shared.collected, self.config.stored.len());
        let assembling = Arc::new(self.plan(collected)?);
        let parts = assembling.tasks.len();
        *self.assembling.lock() = Some(assembling);
        Ok(parts)
    }

    fn part(&self, index: usize, setup: &Setup) -> Result<()> {
        let assembling = self.assembling.lock().clone();
        assembling
            .ok_or_else(|| Error::bug("a join's table was worked on before it was planned"))?
            .work(index, &setup.memory)
    }

    fn complete(&self) -> Result<()> {
        let assembling = self.assembling.lock().take().and_then(Arc::into_inner);
        let assembling = assembling.ok_or_else(|| Error::bug("a join's table was completed while worked on"))?;
        self.publish(assembling)
    }
}

struct BuildState {
    config: Arc<Config>,
    shared: Arc<Shared>,
    incoming: Incoming<Chunk>,
}

impl SinkState for BuildState {
    fn push(&mut self, mut batch: Batch, _waker: &Waker) -> Result<Accept> {
        let config = &self.config;
        let evaluated = config.keys.iter().map(|key| key.kind.column(&key.build.evaluate(&batch)?.flat()?));
        let mut keys = evaluated.collect::<Result<Vec<_>>>()?;
        let mut valid = None;
        if !config.null_equal {
            valid = NullBuffer::union_many(keys.iter().map(|key| key.nulls.as_ref()));
            if let Some(rows) = valid.as_ref().filter(|_| !config.keeps_unmatchable) {
                let rows: UInt32Array = rows.valid_indices().map(|row| row as u32).collect::<Vec<_>>().into();
                if rows.is_empty() {
                    return Ok(Accept::More);
                }
                batch = batch.pick(&rows)?;
                keys = keys.into_iter().map(|key| key.take(&rows)).collect::<Result<_>>()?;
                valid = None;
            }
        }
        let columns = config.stored.iter().map(|(source, _)| match source {
            StoredSource::Input(index) => Ok(batch.column(*index).clone()),
            StoredSource::Key(index) => byte_strings(&keys[*index]),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for key in &mut keys {
            if let KeyData::Bytes(values, _) = &mut key.data {
                // The hashes are wanted; the values are in the stored columns, and would hold whole buffers here.
                *values = BinaryViewArray::from_iter_values(std::iter::empty::<&[u8]>());
            }
        }
        let key_bytes = 8 * keys.len() * batch.rows() + size_of::<Chunk>();
        self.incoming.push(Chunk::new(keys, batch.rows(), valid), key_bytes, &columns)?;
        Ok(Accept::More)
    }

    fn finish(&mut self, _waker: &Waker) -> Result<Accept> {
        Ok(self.incoming.hand_over(&self.shared.collected))
    }
}

/// A key's byte strings as a column; NULL where the key is.
fn byte_strings(key: &KeyColumn) -> Result<Column> {
    match &key.data {
        KeyData::Bytes(values, _) => {
            let (views, buffers, _) = values.clone().into_parts();
            // SAFETY: the views and buffers are those of a valid array; only the NULLs are the key's own.
            let array = unsafe { BinaryViewArray::new_unchecked(views, buffers, key.nulls.clone()) };
            Ok(Column::flat_array(Arc::new(array)))
        }
        KeyData::Words(_) => Err(Error::bug("a key of words was asked for its bytes")),
    }
}

/// The build side on its way from chunks to a table and arrays.
struct Assembling {
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

impl Assembling {
    fn work(&self, task: usize, memory: &QueryMemory) -> Result<()> {
        match &self.tasks[task] {
            Task::Table(part) => {
                self.table.iter().try_for_each(|table| table.work(*part, &self.chunks, memory))?;
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
}

impl Build {
    /// Cuts the finishing work into pieces.
    fn plan(&self, collected: AllIn<Chunk>) -> Result<Assembling> {
        let config = &self.config;
        let AllIn { chunks, columns, mut reservation } = collected;
        let (chunks, order, sorted) = ordered(chunks);
        let rows: usize = chunks.iter().map(|chunk| chunk.rows).sum();
        check_rows(rows)?;
        let matchable =
            chunks.iter().map(|chunk| chunk.valid.as_ref().map_or(chunk.rows, |v| v.len() - v.null_count()));
        let matchable: usize = matchable.sum();

        let packing = self.packing(&chunks);
        if let Some(reservation) = &mut reservation {
            let arrays = columns.iter().zip(&config.stored);
            let arrays: usize = arrays.map(|(chunks, (_, logical))| Assembly::bytes(chunks, logical, rows)).sum();
            // Codes, hashes and partitions of the chunks come on top while parts work.
            reservation.grow(arrays + TableWork::bytes(packing.as_ref(), matchable) + 20 * rows)?;
        }
        let columns: Vec<Assembly> = columns
            .into_iter()
            .zip(&config.stored)
            .map(|(packets, (_, logical))| Assembly::new(packets, &order, logical))
            .collect();
        let packets = self.packets.load(Ordering::Relaxed);
        let table = (matchable > 0).then(|| TableWork::new(packing, matchable, sorted, packets));
        let filters = match &table {
            Some(table) => self.plan_filters(table, &chunks, matchable),
            None => vec![],
        };
        if let Some(reservation) = &mut reservation {
            reservation.grow(filters.iter().map(|(_, work)| work.bytes()).sum())?;
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
        Ok(Assembling { rows, chunks, columns, table, filters, tasks, reservation })
    }

    /// How to pack the keys into codes, if they are words and fit.
    fn packing(&self, chunks: &[Chunk]) -> Option<Packing> {
        let keys = &self.config.keys;
        if !keys.iter().all(|key| key.kind.is_word()) {
            return None;
        }
        let null_codes: Vec<bool> = (0..keys.len())
            .map(|key| self.config.null_equal && chunks.iter().any(|chunk| chunk.keys[key].nulls.is_some()))
            .collect();
        let bounds: Vec<_> = (0..keys.len()).map(|key| key_bounds(chunks, key)).collect();
        Packing::new(&bounds, &null_codes)
    }

    /// Filters that need work of their own: a dense table is its own filter.
    fn plan_filters(&self, table: &TableWork, chunks: &[Chunk], matchable: usize) -> Vec<(usize, FilterWork)> {
        let mut works = Vec::new();
        for &(_, key) in &self.filters {
            let done = works.iter().any(|&(other, _)| other == key);
            if done || self.config.keys.len() == 1 && matches!(table, TableWork::Dense(_)) {
                continue;
            }
            let kind = &self.config.keys[key].kind;
            let bounds = key_bounds(chunks, key);
            if let Some(work) = FilterWork::new(kind.is_word().then_some(bounds), matchable, FILTER_KEYS_MAX) {
                works.push((key, work));
            }
        }
        works
    }

    /// Everything is assembled: lets the probe side see it.
    fn publish(&self, assembling: Assembling) -> Result<()> {
        let config = &self.config;
        let Assembling { rows, chunks, columns, table, filters, mut reservation, .. } = assembling;
        let table = table.map(|table| Arc::new(table.finish()));
        let finished = columns.into_iter().map(Assembly::finish).collect::<Result<Vec<_>>>()?;
        let (columns, column_bytes): (Vec<_>, Vec<_>) = finished.into_iter().unzip();
        let values = match &table {
            Some(table) if table.packing().is_none() => self.values(&chunks, &columns, rows),
            _ => vec![],
        };
        let valid = concat_valid(&chunks, rows).filter(|_| config.null_aware);
        let null_rows = match &valid {
            Some(valid) => (0..rows).filter(|&row| valid.is_null(row)).map(|row| row as u32).collect(),
            None => Arc::from([]),
        };
        let filter_bytes: usize = filters.iter().map(|(_, work)| work.bytes()).sum();
        self.set_filters(table.as_ref(), &chunks, filters)?;
        drop(chunks);
        if let Some(reservation) = &mut reservation {
            // The chunks are gone.
            let words =
                values.iter().map(|values| if let KeyValues::Words(words, _) = values { words.len() * 8 } else { 0 });
            let arrays = column_bytes.iter().sum::<usize>() + words.sum::<usize>();
            let bits = if marks_held(config.pairs.join_type) { rows / 8 } else { 0 };
            let table = table.as_ref().map_or(0, |table| table.bytes());
            reservation.resize(arrays + bits + table + filter_bytes)?;
        }
        let join_type = config.pairs.join_type;
        let matched = (marks_held(join_type)).then(|| Bits::new(rows));
        let held = Arc::new(Held { rows, columns, matched, valid, _reservation: reservation });
        let lookup = Arc::new(Lookup { table, values, null_rows });
        let twice = || Error::bug("a join's build side was completed twice");
        self.shared.published.held.set(held).map_err(|_| twice())?;
        self.shared.lookup.set(lookup).map_err(|_| twice())
    }

    fn values(&self, chunks: &[Chunk], columns: &[ArrayRef], rows: usize) -> Vec<KeyValues> {
        let keys = self.config.key_columns.iter().enumerate();
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

    fn set_filters(&self, table: Option<&Arc<Table>>, chunks: &[Chunk], works: Vec<(usize, FilterWork)>) -> Result<()> {
        let works: Vec<_> = works.into_iter().map(|(key, work)| (key, Arc::new(work))).collect();
        for (filter, key) in &self.filters {
            let Some(table) = table else {
                filter.set_empty();
                continue;
            };
            let has_null = |chunk: &Chunk| chunk.keys[*key].nulls.is_some();
            if self.config.null_equal && chunks.iter().any(has_null) {
                // NULL would have to pass.
                continue;
            }
            let logical = self.config.keys[*key].build.data_type();
            let bounds = Some(key_bounds(chunks, *key)).filter(|(min, max)| min <= max && words_are_ordered(logical));
            let bounds = bounds.filter(|_| self.config.keys[*key].kind.is_word());
            if let Some((_, work)) = works.iter().find(|(other, _)| other == key) {
                filter.set_work(work.clone(), bounds, logical)?;
            } else if let (1, Table::Dense(_)) = (self.config.keys.len(), &**table) {
                filter.set_table(table.clone(), bounds, logical)?;
            }
        }
        Ok(())
    }
}

/// The smallest and the largest word of a key.
fn key_bounds(chunks: &[Chunk], key: usize) -> (u64, u64) {
    chunks.iter().fold((u64::MAX, 0), |(min, max), chunk| {
        let (low, high) = chunk.bounds[key];
        (min.min(low), max.max(high))
    })
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
