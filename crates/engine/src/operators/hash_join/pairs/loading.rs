//! Build rows of a pair on their way from temp space to a table: as many as fit with all that their table will need.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::DataType;
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reservation;

use crate::batch::{Batch, Column, compacted};
use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::table::assemble::Needs;
use crate::operators::hash_join::table::incoming::{AllIn, Incoming};
use crate::operators::hash_join::table::rows::BuildRows;

/// What it has.
pub(super) struct Loading {
    config: Arc<Config>,
    incoming: Incoming,
    finishing: Reservation,
    /// Kept free for reading, which may need more than clusters: for what was compressed, or is longer than one.
    _margin: Reservation,
    /// About what the table needs, so that others do not begin with more than there is; given up when it is in the way.
    expected: Reservation,
    is_firm: bool,
}

/// Whether rows were kept.
pub(super) enum KeptInTable {
    Yes,
    /// There is no memory for them and what their table needs.
    No(Error),
}

impl Loading {
    /// `expected` may hold what the table needs.
    pub fn new(config: &Arc<Config>, expected: Reservation, cluster_bytes: usize) -> Self {
        let incoming = Incoming::new(&config.table, expected.sibling());
        let mut margin = incoming.sibling();
        // Without it there is less to spare, and that is all.
        let _ = margin.grow(cluster_bytes);
        Self {
            config: config.clone(),
            finishing: incoming.sibling(),
            incoming,
            _margin: margin,
            expected,
            is_firm: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.incoming.is_empty()
    }

    pub fn rows(&self) -> usize {
        self.incoming.rows()
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.incoming.bytes() + self.finishing.bytes()
    }

    /// Keeps the rows of a spilled batch, if there is memory for them and for finishing with them.
    pub fn keep(&mut self, batch: &Batch) -> Result<KeptInTable> {
        match self.try_keep(batch)? {
            KeptInTable::No(_) if self.expected.bytes() > 0 => {
                self.expected.resize(0)?;
                self.try_keep(batch)
            }
            kept => Ok(kept),
        }
    }

    fn try_keep(&mut self, batch: &Batch) -> Result<KeptInTable> {
        // Chunks of their own: what was read is a part of a cluster.
        let all = UInt32Array::from_iter_values(0..batch.rows() as u32);
        let Some(rows) = self.config.table_rows(&batch.pick(&all)?)? else { return Ok(KeptInTable::Yes) };
        let room = match self.incoming.make_room(&rows) {
            Err(error) if error.kind() == ErrorKind::Resource => return Ok(KeptInTable::No(error)),
            room => room?,
        };
        self.incoming.push(room, rows)?;
        let needed = Needs::of(&self.incoming).compact_bytes(&self.config.table);
        match self.finishing.resize(needed) {
            Err(error) if error.kind() == ErrorKind::Resource => {
                self.incoming.pop();
                Ok(KeptInTable::No(error))
            }
            done => done.map(|()| KeptInTable::Yes),
        }
    }

    /// What is kept from now on is needed to go on. False if it was before.
    pub fn hold_firm(&mut self) -> bool {
        if std::mem::replace(&mut self.is_firm, true) {
            return false;
        }
        self.incoming.hold_firm();
        self.finishing.hold_firm();
        true
    }

    /// Whether somebody else needs memory, and not only what was put aside for the table.
    pub fn is_asked(&mut self) -> Result<bool> {
        if self.incoming.is_asked() {
            self.expected.resize(0)?;
        }
        Ok(self.incoming.is_asked())
    }

    /// Takes out some of the rows that are kept, as a spilled batch.
    pub fn pop(&mut self) -> Option<(Batch, Reservation)> {
        let (chunk, columns, reservation) = self.incoming.pop()?;
        if self.incoming.is_empty() {
            self.finishing.shrink(self.finishing.bytes());
        }
        Some((BuildRows::of_chunk(chunk, columns).into_spilled(&self.config.table), reservation))
    }

    /// All of it. From now on it is not given back before the table has been probed, which is soon.
    pub fn into_all(self) -> AllIn {
        let mut all = AllIn::new([self.incoming], self.config.table.stored.len());
        if let Some(reservation) = &mut all.reservation {
            reservation.absorb(self.finishing);
            reservation.hold_firm();
        }
        all
    }
}

/// The batch with arrays of its own, which keep no cluster in memory.
pub(super) fn copied(batch: &Batch) -> Result<Batch> {
    let all = UInt32Array::from_iter_values(0..batch.rows() as u32);
    let picked = batch.pick(&all)?;
    let columns = picked.columns().iter().map(|column| {
        let array = column.flat()?;
        let array: ArrayRef = match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ => compacted(&array)?,
        };
        Ok(Column::flat_array(array))
    });
    Ok(Batch::new(columns.collect::<Result<_>>()?, batch.rows()))
}
