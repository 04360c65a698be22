//! The held side of a join coming in: each packet keeps chunks of it on its own, and hands them over when it finishes. Used by
//! the hash join and the nested-loop join.
//!
//! Nothing is shared between packets until they finish; then each hands over its chunks under one short lock.

use crate::sync::Mutex;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};

use super::columns::ColumnChunks;
use super::emit::StoredSource;
use crate::batch::Column;
use crate::memory::Reservation;
use crate::pipeline::Accept;

/// Rows at most: row numbers have 32 bits, and two are kept free.
const ROWS_MAX: usize = u32::MAX as usize - 1;

/// One packet's rows. `C` is what its join keeps of each batch beside the columns.
pub(in crate::operators) struct Incoming<C> {
    packet: Packet<C>,
    /// Gone once handed over.
    reservation: Option<Reservation>,
}

/// Chunks and, column by column, as many of each.
struct Packet<C> {
    chunks: Vec<C>,
    columns: Vec<ColumnChunks>,
}

/// What finished packets have handed over.
pub(in crate::operators) struct Collected<C> {
    packets: Vec<Packet<C>>,
    reservation: Option<Reservation>,
}

impl<C> Default for Collected<C> {
    fn default() -> Self {
        Self { packets: vec![], reservation: None }
    }
}

impl<C> Incoming<C> {
    /// Nothing yet of these columns.
    pub fn new(stored: &[(StoredSource, DataType)], reservation: Reservation) -> Self {
        let columns = stored.iter().map(|(_, logical)| ColumnChunks::new(logical.clone())).collect();
        Self { packet: Packet { chunks: vec![], columns }, reservation: Some(reservation) }
    }

    /// Keeps a batch: its columns, and a chunk that holds so many bytes.
    pub fn push(&mut self, chunk: C, chunk_bytes: usize, columns: &[Column]) -> Result<()> {
        let Some(reservation) = &mut self.reservation else {
            return Err(Error::bug("a join's held side went on after its end"));
        };
        let mut held = reservation.bytes() + chunk_bytes;
        reservation.grow(chunk_bytes + columns.iter().map(Column::bytes).sum::<usize>())?;
        for (chunks, column) in self.packet.columns.iter_mut().zip(columns) {
            held += chunks.append(column)?;
        }
        reservation.resize(held)?;
        self.packet.chunks.push(chunk);
        Ok(())
    }

    /// No batch follows. A second call does nothing.
    pub fn hand_over(&mut self, to: &Mutex<Collected<C>>) -> Accept {
        let Some(own) = self.reservation.take() else { return Accept::Enough };
        let mut packet = std::mem::replace(&mut self.packet, Packet { chunks: vec![], columns: vec![] });
        packet.columns.iter_mut().for_each(ColumnChunks::finish);
        let mut collected = to.lock();
        collected.packets.push(packet);
        match &mut collected.reservation {
            Some(all) => all.absorb(own),
            None => collected.reservation = Some(own),
        }
        Accept::More
    }
}

/// All that came in.
pub(in crate::operators) struct AllIn<C> {
    /// The chunks of each packet.
    pub chunks: Vec<Vec<C>>,
    /// Of each column, the chunks of each packet.
    pub columns: Vec<Vec<ColumnChunks>>,
    /// Pays for all of it; `None` without packets.
    pub reservation: Option<Reservation>,
}

impl<C> Collected<C> {
    /// Takes out what packets handed over, of so many columns.
    pub fn take(from: &Mutex<Self>, columns: usize) -> AllIn<C> {
        let Collected { packets, reservation } = std::mem::take(&mut *from.lock());
        let mut all = AllIn { chunks: vec![], columns: (0..columns).map(|_| vec![]).collect(), reservation };
        for packet in packets {
            all.chunks.push(packet.chunks);
            all.columns.iter_mut().zip(packet.columns).for_each(|(all, own)| all.push(own));
        }
        all
    }
}

/// Refuses more rows than can be numbered.
pub(in crate::operators) fn check_rows(rows: usize) -> Result<()> {
    if rows <= ROWS_MAX {
        return Ok(());
    }
    Err(Error::resource(format!("the held side of a join has {rows} rows, more than {ROWS_MAX}"))
        .with_hint("filter the smaller input first, or join in several steps"))
}
