//! Groups on their way to temp space, turned into rows piece by piece.
//!
//! ```text
//!   a row of a group:   key words | long strings of each byte column of the key | states
//!   a row of a pair:    which state | words of key and value | long strings of each byte column of both
//! ```
//! Key words are written as they are, so nothing is encoded or hashed again when they come back. A column that says
//! nothing has the type Null and takes no room.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, FixedSizeBinaryArray, UInt16Array, UInt32Array};
use arrow::buffer::Buffer;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use super::super::group_table::{Chunk, GroupTable};
use super::super::key_layout::KeyLayout;
use super::super::key_table::{KeyTable, Keys};
use super::super::states::distinct::{group_of, set_group};
use super::super::states::{State, nothing};
use super::Spill;
use super::files::PartitionFiles;
use crate::batch::Batch;
use crate::batch::views::{self, INLINE_BYTES};

/// Rows that are made at once at most.
const PIECE_ROWS: usize = 4096;
/// Into how many pieces the accumulators of DataFusion are taken apart at most: each moves all that are left.
const FOREIGN_PIECES: usize = 64;
/// Pieces that are written before somebody else's turn comes.
const TURN_PIECES: usize = 16;

/// Words of keys with the layout that they have.
pub(in super::super) struct LaidKeys {
    keys: Keys,
    layout: Arc<KeyLayout>,
    blocks: Arc<[Buffer]>,
}

/// Rows still to be made.
enum Task {
    /// Of these groups.
    Groups(Range<usize>),
    /// Of these pairs of a state of the groups.
    Pairs { state: usize, pairs: Range<usize> },
    /// Of these keys of pairs that have been read already.
    Read { table: usize, pairs: Range<usize> },
}

/// See the module. Dropping it, written or not, gives back what was held.
pub(in super::super) struct Outgoing {
    spill: Arc<Spill>,
    groups: Arc<PartitionFiles>,
    pairs: Arc<PartitionFiles>,
    keys: LaidKeys,
    states: Vec<State>,
    /// Pairs that have been read, by state.
    read: Vec<(usize, LaidKeys)>,
    tasks: VecDeque<Task>,
    /// Rows with their partition, and whether they are pairs.
    ready: VecDeque<(bool, usize, Batch)>,
    owner: u64,
    /// The one partition of all groups, if that is known.
    only: Option<usize>,
    held: Vec<Reservation>,
    ready_held: Reservation,
}

impl LaidKeys {
    fn new(mut keys: Keys, layout: Arc<KeyLayout>) -> Self {
        if keys.stride == 0 && keys.groups > 0 {
            // So that there is something to write.
            keys.widen(layout.words_max());
        }
        keys.freeze();
        let blocks = keys.blocks().into();
        Self { keys, layout, blocks }
    }

    fn text(&self, group: usize) -> usize {
        text_of(&self.keys, &self.layout, group)
    }

    /// The long strings of some keys, by byte column.
    fn long(&self, groups: impl ExactSizeIterator<Item = usize> + Clone) -> Vec<ArrayRef> {
        long_strings(&self.keys, &self.layout, &self.blocks, groups)
    }

    /// The words of some keys.
    fn words(&self, groups: Range<usize>) -> Result<ArrayRef> {
        let stride = self.keys.stride;
        words_column(self.keys.words[groups.start * stride..groups.end * stride].to_vec(), stride)
    }
}

impl Outgoing {
    fn empty(spill: &Arc<Spill>, groups: &Arc<PartitionFiles>, pairs: &Arc<PartitionFiles>) -> Self {
        spill.underway.lock().outgoing += 1;
        Self {
            groups: groups.clone(),
            pairs: pairs.clone(),
            keys: LaidKeys::new(Keys::default(), spill.program.layout.clone()),
            states: Vec::new(),
            read: Vec::new(),
            tasks: VecDeque::new(),
            ready: VecDeque::new(),
            owner: spill.owner(),
            only: None,
            held: Vec::new(),
            ready_held: spill.memory.reservation("Aggregate"),
            spill: spill.clone(),
        }
    }

    /// The groups of a chunk in some partitions, all of one piece, to its file of level 0.
    pub fn of_chunk(spill: &Arc<Spill>, chunk: Chunk, partitions: &[Range<usize>]) -> Self {
        let mut outgoing = Self::empty(spill, &spill.groups, &spill.pairs);
        outgoing.only = Some(chunk.piece(spill.groups.len()));
        let ranges = partitions.iter().map(|partitions| chunk.groups_in(partitions)).collect::<Vec<_>>();
        outgoing.add_groups(chunk.keys, chunk.states, &ranges, chunk.reservation);
        outgoing
    }

    /// All groups of a table, to the files of level 0.
    pub fn of_table(spill: &Arc<Spill>, table: GroupTable, held: Reservation) -> Result<Self> {
        let mut outgoing = Self::empty(spill, &spill.groups, &spill.pairs);
        outgoing.add_table(table, held)?;
        Ok(outgoing)
    }

    /// Nothing but DISTINCT's pairs of the one group of no GROUP BY.
    pub fn of_pairs(spill: &Arc<Spill>, states: Vec<State>, held: Reservation) -> Self {
        let mut outgoing = Self::empty(spill, &spill.groups, &spill.pairs);
        outgoing.states = states;
        outgoing.held.push(held);
        outgoing.add_pairs(0..1);
        outgoing
    }

    /// Nothing yet, to the parts of a partition.
    pub(super) fn to_parts(spill: &Arc<Spill>, files: &Arc<PartitionFiles>) -> Self {
        Self::empty(spill, files, files)
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.held.iter().map(Reservation::bytes).sum()
    }

    /// Nobody writes it yet: it can be asked to be written.
    pub fn rest(&mut self) {
        self.held.iter_mut().for_each(Reservation::rest);
    }

    /// It is being written.
    pub fn hold_firm(&mut self) {
        self.held.iter_mut().for_each(Reservation::hold_firm);
    }

    /// Adds all groups of a table.
    pub fn add_table(&mut self, mut table: GroupTable, held: Reservation) -> Result<()> {
        table.resize_states()?;
        let groups = table.groups();
        self.add_groups(table.keys.take_keys(), table.states, std::slice::from_ref(&(0..groups)), held);
        Ok(())
    }

    fn add_groups(&mut self, keys: Keys, states: Vec<State>, ranges: &[Range<usize>], held: Reservation) {
        self.keys = LaidKeys::new(keys, self.spill.program.layout.clone());
        self.states = states;
        self.held.push(held);
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            self.tasks.push_back(Task::Groups(range.clone()));
            self.add_pairs(range.clone());
        }
    }

    fn add_pairs(&mut self, groups: Range<usize>) {
        for (index, state) in self.states.iter_mut().enumerate() {
            if let State::Distinct(distinct) = state {
                let (_, pairs, _) = distinct.pairs(groups.clone());
                if !pairs.is_empty() {
                    self.tasks.push_back(Task::Pairs { state: index, pairs });
                }
            }
        }
    }

    /// Adds the keys of pairs of a state.
    pub fn add_read_pairs(&mut self, state: usize, table: KeyTable, held: Reservation) {
        let layout = table.layout.clone();
        let keys = LaidKeys::new(table.into_keys(), layout);
        self.tasks.push_back(Task::Read { table: self.read.len(), pairs: 0..keys.keys.groups });
        self.read.push((state, keys));
        self.held.push(held);
    }

    /// Writes all, and then gives back what was held. After `Pending` the waker is woken when it is worth going on.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<()>> {
        for _ in 0..TURN_PIECES {
            while let Some((is_pairs, partition, batch)) = self.ready.front() {
                let files = if *is_pairs { &self.pairs } else { &self.groups };
                match self.spill.poll_write(files, *partition, batch, self.owner, waker) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(written) => written?,
                }
                self.ready.pop_front();
            }
            self.ready_held.settle(0);
            if !self.make_rows()? {
                self.give_back();
                return Poll::Ready(Ok(()));
            }
        }
        waker.wake_by_ref();
        Poll::Pending
    }

    fn give_back(&mut self) {
        self.keys = LaidKeys::new(Keys::default(), self.keys.layout.clone());
        self.states.clear();
        self.read.clear();
        self.ready.clear();
        self.held.clear();
        self.ready_held.settle(0);
    }

    /// Makes the next rows. False if there are none.
    fn make_rows(&mut self) -> Result<bool> {
        let Some(task) = self.tasks.pop_front() else { return Ok(false) };
        match task {
            Task::Groups(groups) => {
                let (groups, rest) = cut(groups.clone(), self.groups_at_once(groups));
                if !rest.is_empty() {
                    self.tasks.push_front(Task::Groups(rest));
                }
                self.make_groups(groups)?;
            }
            Task::Pairs { state, pairs } => {
                let (batch, rest) = self.make_pairs(state, pairs)?;
                if !rest.is_empty() {
                    self.tasks.push_front(Task::Pairs { state, pairs: rest });
                }
                self.route(batch, true)?;
            }
            Task::Read { table, pairs } => {
                let (state, keys) = &self.read[table];
                let (pairs, rest) = cut(pairs.clone(), self.fitting(pairs, |pair| keys.text(pair)));
                let mut columns = vec![tag(*state, pairs.len()), keys.words(pairs.clone())?];
                columns.extend(keys.long(pairs.clone()));
                if !rest.is_empty() {
                    self.tasks.push_front(Task::Read { table, pairs: rest });
                }
                self.route(Batch::from_arrays(columns, pairs.len()), true)?;
            }
        }
        Ok(true)
    }

    /// How many rows whose strings have so many bytes are made at once.
    fn fitting(&self, rows: Range<usize>, text: impl Fn(usize) -> usize) -> usize {
        let (mut bytes, most) = (0, self.spill.buffers.space().cluster_bytes());
        let fits = rows.take(PIECE_ROWS).take_while(|&row| {
            bytes += text(row);
            bytes <= most
        });
        fits.count().max(1)
    }

    fn groups_at_once(&self, groups: Range<usize>) -> usize {
        let rows = match self.spill.program.grouped {
            true => self.fitting(groups.clone(), |group| self.keys.text(group)),
            false => 1,
        };
        let foreign = self.states.iter().map(|state| if let State::Foreign(state) = state { state.bytes() } else { 0 });
        match foreign.sum::<usize>() / groups.len().max(1) {
            0 => rows,
            bytes => {
                (self.spill.buffers.space().cluster_bytes() / bytes).min(rows).max(groups.end / FOREIGN_PIECES).max(1)
            }
        }
    }

    fn make_groups(&mut self, groups: Range<usize>) -> Result<()> {
        let mut columns = Vec::new();
        if self.spill.program.grouped {
            columns.push(self.keys.words(groups.clone())?);
            columns.extend(self.keys.long(groups.clone()));
        }
        for state in &mut self.states {
            columns.extend(state.take_columns(groups.clone())?);
        }
        self.route(Batch::from_arrays(columns, groups.len()), false)
    }

    /// Rows of the first pairs, and the rest of the pairs.
    fn make_pairs(&mut self, state: usize, pairs: Range<usize>) -> Result<(Batch, Range<usize>)> {
        let spill = self.spill.clone();
        let mut states = std::mem::take(&mut self.states);
        let (State::Distinct(distinct), Some(layout)) = (&mut states[state], &spill.pair_layouts[state]) else {
            return Err(Error::bug("pairs of a state that has none"));
        };
        let value_layout = distinct.pair_layout().clone();
        let (values, _, group_column) = distinct.pairs(0..0);
        let group = |pair: usize| group_column.map_or(0, |column| group_of(values, column, pair) as usize);
        let key_text = |pair: usize| if group_column.is_some() { self.keys.text(group(pair)) } else { 0 };
        let rows = self.fitting(pairs.clone(), |pair| key_text(pair) + text_of(values, &value_layout, pair));
        let (pairs, rest) = cut(pairs, rows);
        let stride = layout.value_words;
        let mut words = vec![0; stride * pairs.len()];
        for (row, pair) in words.chunks_exact_mut(stride).zip(pairs.clone()) {
            let (key, value) = row.split_at_mut(stride - value_layout.value_words);
            value.copy_from_slice(&values.key(pair)[..value_layout.value_words]);
            if let Some(column) = group_column {
                let words = self.keys.keys.key(group(pair));
                key[..words.len()].copy_from_slice(words);
                set_group(value, column, 0);
            }
        }
        let mut columns = vec![tag(state, pairs.len()), words_column(words, stride)?];
        if group_column.is_some() {
            columns.extend(self.keys.long(pairs.clone().map(group)));
        }
        columns.extend(long_strings(values, &value_layout, &values.blocks().into(), pairs.clone()));
        self.states = states;
        Ok((Batch::from_arrays(columns, pairs.len()), rest))
    }

    /// Deals rows to their partitions.
    pub fn route(&mut self, batch: Batch, is_pairs: bool) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let files = if is_pairs { &self.pairs } else { &self.groups };
        let only = if files.len() == 1 { Some(0) } else { self.only.filter(|_| !is_pairs) };
        if let Some(partition) = only {
            self.ready.push_back((is_pairs, partition, batch));
            self.settle_ready();
            return Ok(());
        }
        let words = batch.flat(usize::from(is_pairs))?;
        let words = words.as_fixed_size_binary_opt().ok_or_else(|| Error::bug("rows of groups without key words"))?;
        let stride = words.value_length() as usize / 8;
        let value_words = if is_pairs { stride } else { self.spill.program.layout.value_words };
        let mut rows = vec![Vec::new(); files.len()];
        let mut key = vec![0; stride];
        for row in 0..words.len() {
            let bytes = words.value(row).as_chunks().0;
            key.iter_mut().zip(bytes).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
            rows[files.partition_of(&key, value_words)].push(row as u32);
        }
        for (partition, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let some = match rows.len() == batch.rows() {
                true => batch.clone(),
                false => batch.pick(&UInt32Array::from(rows))?.flatten()?,
            };
            self.ready.push_back((is_pairs, partition, some));
        }
        self.settle_ready();
        Ok(())
    }

    /// Counts the rows that are made and not written.
    fn settle_ready(&mut self) {
        self.ready_held.settle(self.ready.iter().map(|(_, _, batch)| batch.bytes()).sum());
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some((is_pairs, partition, _)) = self.ready.front() {
            let files = if *is_pairs { &self.pairs } else { &self.groups };
            files.abandon(*partition, self.owner);
        }
        // Before anybody is told.
        self.give_back();
        let waiting = {
            let mut underway = self.spill.underway.lock();
            underway.outgoing -= 1;
            std::mem::take(&mut underway.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The first rows of a range, at most so many, and the rest.
fn cut(range: Range<usize>, rows: usize) -> (Range<usize>, Range<usize>) {
    let middle = range.end.min(range.start + rows);
    (range.start..middle, middle..range.end)
}

/// Bytes of a key's long strings.
fn text_of(keys: &Keys, layout: &KeyLayout, group: usize) -> usize {
    let key = keys.key(group);
    let lengths = layout.bytes_words().map(|word| key[word] as u32 as usize);
    lengths.filter(|&length| length > INLINE_BYTES).sum()
}

/// The long strings of some keys as a column for each byte column, of nothing if it has none. No string is copied.
fn long_strings(
    keys: &Keys,
    layout: &KeyLayout,
    blocks: &Arc<[Buffer]>,
    groups: impl ExactSizeIterator<Item = usize> + Clone,
) -> Vec<ArrayRef> {
    let column = |(slot, word): (usize, usize)| -> ArrayRef {
        if !keys.has_long(slot) {
            return nothing(groups.len());
        }
        let views = groups.clone().map(|group| {
            let low = keys.key(group)[word];
            if low as u32 as usize <= INLINE_BYTES {
                return 0;
            }
            let (block, offset) = keys.place(slot, group);
            views::placed(u128::from(low), block, offset)
        });
        // SAFETY: the views name bytes in these blocks, and carry the first four of them.
        Arc::new(unsafe { BinaryViewArray::new_unchecked(views.collect(), blocks.clone(), None) })
    };
    layout.bytes_words().enumerate().map(column).collect()
}

fn tag(state: usize, rows: usize) -> ArrayRef {
    Arc::new(UInt16Array::from_value(state as u16, rows))
}

fn words_column(words: Vec<u64>, stride: usize) -> Result<ArrayRef> {
    let array = FixedSizeBinaryArray::try_new(8 * stride as i32, Buffer::from_vec(words), None);
    Ok(Arc::new(array.map_err(diligence_storage::foreign_error::from_arrow)?))
}
