//! A complete table on its way to temp space: its rows, with what is known of their partners, into the files of their
//! partitions.
//!
//! A table by codes has no words any more; they are made again from the codes. So rows go in the order of the table,
//! and those that cannot match, which are not in it, at the end.

use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::UInt32Array;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use diligence_base::Result;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_memory::Reservation;

use super::partitions::{Partitions, Side};
use crate::batch::{Batch, Column};
use crate::operators::hash_join::table::built::{Built, KeyValues};
use crate::operators::hash_join::table::rows::BuildRows;
use crate::operators::hash_join::table::spec::TableSpec;
use crate::operators::key_words::{KeyColumn, KeyData, KeyKind};

/// See the module.
pub(in super::super) struct Dump {
    built: Arc<Built>,
    spec: Arc<TableSpec>,
    /// The next step through the table, and after those the next row.
    next: usize,
    /// Rows that are in the table; empty if the table does not say which.
    is_found: Vec<bool>,
    /// Rows of the table that are next, and their codes: those of one key may be many.
    rows: Vec<u32>,
    codes: Vec<u64>,
    writes: Vec<(usize, Batch)>,
    /// Who owns the files it is in the middle of.
    owner: u64,
    /// Of `is_found`.
    _reservation: Option<Reservation>,
}

impl Dump {
    pub fn new(built: Arc<Built>, spec: Arc<TableSpec>, owner: u64) -> Self {
        let rows = built.held.rows;
        let by_code = built.lookup.table.as_ref().is_some_and(|table| table.packing().is_some());
        let is_found = vec![false; if by_code { rows } else { 0 }];
        let reservation = built.held.paid.as_ref().map(|paid| {
            let mut own = paid.sibling();
            // Needed to give back much more.
            own.overdraw(is_found.len());
            own
        });
        Self {
            built,
            spec,
            next: 0,
            is_found,
            rows: vec![],
            codes: vec![],
            writes: vec![],
            owner,
            _reservation: reservation,
        }
    }

    /// Bytes that are free when all is written.
    pub fn bytes(&self) -> usize {
        self.built.bytes()
    }

    /// Writes until all is written. After `Pending` it is called again when the waker was woken.
    pub fn poll(&mut self, partitions: &Partitions, waker: &Waker) -> Poll<Result<()>> {
        loop {
            while let Some((partition, batch)) = self.writes.last() {
                match partitions.poll_write(Side::Build, *partition, batch, self.owner, waker) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(written) => written?,
                }
                self.writes.pop();
            }
            let Some(rows) = self.next_rows()? else { return Poll::Ready(Ok(())) };
            self.writes = partitions.split_rows(rows, &self.spec)?;
            self.writes.iter().for_each(|(partition, _)| partitions.belong(*partition));
        }
    }

    fn next_rows(&mut self) -> Result<Option<BuildRows>> {
        let table = self.built.lookup.table.as_ref().filter(|_| !self.is_found.is_empty());
        let steps = table.map_or(0, |table| table.steps());
        if let Some(table) = table {
            while self.next < steps && self.rows.len() < BATCH_ROWS_MAX {
                let before = self.rows.len();
                table.rows_at(self.next, &mut self.rows, &mut self.codes);
                self.rows[before..].iter().for_each(|&row| self.is_found[row as usize] = true);
                self.next += 1;
            }
        }
        if !self.rows.is_empty() {
            let rest = self.rows.len().saturating_sub(BATCH_ROWS_MAX);
            let (rows, codes) = (self.rows.split_off(rest), self.codes.split_off(rest));
            return self.rows_of(rows, &codes).map(Some);
        }
        let first = self.next - steps;
        let end = self.built.held.rows.min(first + BATCH_ROWS_MAX);
        if first == end {
            return Ok(None);
        }
        self.next = steps + end;
        let beside = (first..end).filter(|&row| !self.is_found.get(row).is_some_and(|is_found| *is_found));
        self.rows_of(beside.map(|row| row as u32).collect(), &[]).map(Some)
    }

    /// These rows, whose codes are given if they have any.
    fn rows_of(&self, picked: Vec<u32>, codes: &[u64]) -> Result<BuildRows> {
        let Built { held, lookup, .. } = &*self.built;
        let packing = lookup.table.as_ref().and_then(|table| table.packing());
        let matched = held
            .matched
            .as_ref()
            .map(|matched| BooleanBuffer::collect_bool(picked.len(), |index| matched.get(picked[index] as usize)));
        let rows: Arc<UInt32Array> = Arc::new(picked.into());
        let columns: Vec<_> = held.columns.iter().map(|column| Column::picked(column.clone(), rows.clone())).collect();
        let keys = self.spec.keys.iter().enumerate().map(|(key, _)| {
            if let Some(kept) = self.spec.key_columns[key] {
                return KeyKind::Bytes.column(&columns[kept].flat()?);
            }
            if let Some(KeyValues::Words(words, nulls)) = lookup.values.get(key) {
                let words = rows.values().iter().map(|&row| words[row as usize]).collect();
                let nulls = nulls
                    .as_ref()
                    .map(|nulls| rows.values().iter().map(|&row| nulls.is_valid(row as usize)).collect::<NullBuffer>());
                return Ok(KeyColumn { data: KeyData::Words(words), nulls });
            }
            Ok(match packing {
                Some(packing) if !codes.is_empty() => packing.unpacked(key, codes),
                // They cannot match: some key of theirs is NULL, and it does not matter which.
                _ => KeyColumn {
                    data: KeyData::Words(vec![0; rows.len()]),
                    nulls: Some(NullBuffer::new_null(rows.len())),
                },
            })
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        Ok(BuildRows { rows: rows.len(), keys, valid: None, columns, matched })
    }
}
