//! The held side of a join coming in, in chunks: those of a packet, which it hands over when it finishes, or those of a
//! [partition](super::super::spill::resident).
//!
//! With its rows a chunk reserves what finishing will need for them at least, so that a build side that is too large is
//! known to be as soon as memory is short, while all packets are there to split what has come, and not when the table
//! is to be made.
//!
//! Invariant: a batch that is refused for lack of memory leaves everything as it was, so that the caller can make room
//! and try again; and what is taken out again takes its reservation with it, but for what finishing would have needed,
//! which is free then.

use arrow::array::ArrayRef;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use super::chunk::Chunk;
use super::columns::{BLOCK_BYTES_MAX, ColumnChunks};
use super::finishing::{FinishingBytes, WORK_BYTES_PER_CHUNK};
use super::rows::BuildRows;
use super::spec::TableSpec;

/// Rows at most: row numbers have 32 bits, and two are kept free.
const ROWS_MAX: usize = u32::MAX as usize - 1;

/// Bytes that an array holds beside its values, about.
const ARRAY_BYTES: usize = 128;

/// Some rows, in chunks: the keys of a batch each, beside its columns.
pub(in super::super) struct Incoming {
    chunks: Vec<(Chunk, usize)>,
    columns: Vec<ColumnChunks>,
    rows: usize,
    /// Of these, those that can match.
    matchable: usize,
    reservation: Reservation,
    /// What is reserved beside rows for finishing; nothing if somebody else sees to that.
    finishing: FinishingBytes,
}

/// What is reserved for one batch.
pub(in super::super) struct Room {
    chunk_bytes: usize,
    column_bytes: usize,
    finishing_bytes: usize,
}

impl Room {
    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.chunk_bytes + self.column_bytes + self.finishing_bytes
    }
}

impl Incoming {
    /// Nothing yet of the rows of such a table.
    pub fn new(spec: &TableSpec, reservation: Reservation) -> Self {
        Self::in_blocks(spec, reservation, BLOCK_BYTES_MAX)
    }

    /// The same, with strings in blocks of so many bytes at most.
    pub fn in_blocks(spec: &TableSpec, reservation: Reservation, block_bytes_max: usize) -> Self {
        let columns = spec.stored.iter().enumerate().map(|(place, (_, logical))| {
            let is_key = spec.key_columns.contains(&Some(place));
            ColumnChunks::new(logical.clone(), block_bytes_max, is_key)
        });
        Self { columns: columns.collect(), ..Self::nothing(reservation) }
    }

    /// Nothing, of no columns.
    pub fn nothing(reservation: Reservation) -> Self {
        let (chunks, columns, finishing) = (vec![], vec![], FinishingBytes::default());
        Self { chunks, columns, rows: 0, matchable: 0, reservation, finishing }
    }

    /// The same, with so much reserved beside rows.
    pub fn with_finishing(self, finishing: FinishingBytes) -> Self {
        Self { finishing, ..self }
    }

    /// Reserves what these rows will need. Fails with kind `Resource`.
    pub fn make_room(&mut self, rows: &BuildRows) -> Result<Room> {
        let room = self.room(rows);
        self.reservation.grow(room.bytes())?;
        Ok(room)
    }

    /// The same without being refused, if that takes no more than so many bytes.
    pub fn borrow_room(&mut self, rows: &BuildRows, bytes_max: usize) -> Option<Room> {
        let room = Some(self.room(rows)).filter(|room| room.bytes() <= bytes_max)?;
        self.reservation.overdraw(room.bytes());
        Some(room)
    }

    fn room(&self, rows: &BuildRows) -> Room {
        let chunk_bytes = rows.key_bytes() + ARRAY_BYTES * rows.columns.len();
        let column_bytes = self.columns.iter().zip(&rows.columns).map(|(own, column)| own.append_bytes(column)).sum();
        Room { chunk_bytes, column_bytes, finishing_bytes: self.finishing.of(rows.rows, rows.matchable()) }
    }

    /// What was reserved for finishing is free: these rows are going elsewhere.
    pub fn release_finishing(&mut self) {
        self.reservation.shrink(self.finishing_bytes());
        self.finishing = FinishingBytes::default();
    }

    /// Of what is reserved, the part that finishing will need.
    pub fn finishing_bytes(&self) -> usize {
        self.finishing.of(self.rows, self.matchable)
    }

    /// Bytes that are only free when several more chunks are taken out: strings lie in large blocks.
    pub fn pinned_bytes(&self) -> usize {
        self.columns.iter().map(ColumnChunks::last_block_bytes).sum()
    }

    /// Keeps rows that room was made for.
    pub fn push(&mut self, room: Room, rows: BuildRows) -> Result<()> {
        let BuildRows { rows, keys, valid, columns, matched } = rows;
        let chunk = Chunk::new(keys, rows, valid, matched);
        let mut held = 0;
        for (own, column) in self.columns.iter_mut().zip(&columns) {
            held += own.append(column)?;
        }
        // More than expected is a dictionary with more values than its rows need, copied once for all chunks that share
        // it.
        self.reservation.overdraw(held.saturating_sub(room.column_bytes));
        self.reservation.shrink(room.column_bytes.saturating_sub(held));
        self.rows += rows;
        self.matchable += chunk.matchable();
        self.chunks.push((chunk, room.chunk_bytes));
        Ok(())
    }

    /// Takes out the chunk that came last, of so many rows: the chunk, its columns, and what was reserved for them.
    pub fn pop(&mut self) -> Option<(Chunk, Vec<ArrayRef>, Reservation)> {
        let (chunk, mut bytes) = self.chunks.pop()?;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let (array, array_bytes) = column.pop()?;
            arrays.push(array);
            bytes += array_bytes;
        }
        self.rows -= chunk.rows;
        self.matchable -= chunk.matchable();
        // Nobody finishes with them here.
        self.reservation.shrink(self.finishing.of(chunk.rows, chunk.matchable()));
        if self.chunks.is_empty() {
            bytes = self.reservation.bytes();
        }
        let reservation = self.reservation.split(bytes);
        Some((chunk, arrays, reservation))
    }

    /// Bytes more that all chunks hold, each cut into so many.
    pub fn cutting_bytes(&self, pieces: usize) -> usize {
        let piece = size_of::<Chunk>() + ARRAY_BYTES * self.columns.len() + WORK_BYTES_PER_CHUNK;
        self.chunks().map(|chunk| chunk.rows.min(pieces).saturating_sub(1)).sum::<usize>() * piece
    }

    /// The chunks.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> + Clone {
        self.chunks.iter().map(|(chunk, _)| chunk)
    }

    /// Whether what is reserved for them is wanted by somebody else.
    pub fn is_asked(&self) -> bool {
        self.reservation.is_asked()
    }

    /// What is kept, and will be, is needed to go on.
    pub fn hold_firm(&mut self) {
        self.reservation.hold_firm();
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many rows are kept.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes reserved for them.
    pub fn bytes(&self) -> usize {
        self.reservation.bytes()
    }

    /// Bytes that putting the chunks of each column into one array takes on top of them.
    pub fn assembly_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.assembly_bytes(self.rows)).sum()
    }

    /// An empty reservation of the same account.
    pub fn sibling(&self) -> Reservation {
        self.reservation.sibling()
    }
}

/// All that came in.
pub(in super::super) struct AllIn {
    /// The chunks of each packet.
    pub chunks: Vec<Vec<Chunk>>,
    /// Of each column, the chunks of each packet.
    pub columns: Vec<Vec<ColumnChunks>>,
    /// Pays for all of it; `None` without packets.
    pub reservation: Option<Reservation>,
}

impl AllIn {
    /// What packets handed over, of so many columns.
    pub fn new(packets: impl IntoIterator<Item = Incoming>, columns: usize) -> Self {
        let mut all = Self { chunks: vec![], columns: (0..columns).map(|_| vec![]).collect(), reservation: None };
        for Incoming { chunks, columns, reservation, .. } in packets {
            all.chunks.push(chunks.into_iter().map(|(chunk, _)| chunk).collect());
            for (all, mut own) in all.columns.iter_mut().zip(columns) {
                own.finish();
                all.push(own);
            }
            match &mut all.reservation {
                Some(all) => all.absorb(reservation),
                None => all.reservation = Some(reservation),
            }
        }
        all
    }
}

/// Refuses more rows than can be numbered.
pub(in super::super) fn check_rows(rows: usize) -> Result<()> {
    if rows <= ROWS_MAX {
        return Ok(());
    }
    Err(Error::resource(format!("the held side of a join has {rows} rows, more than {ROWS_MAX}"))
        .with_hint("filter the smaller input first, or join in several steps"))
}
