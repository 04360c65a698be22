//! Pieces of a table's rows: a batch in memory, or a cluster of a segment on disk.
//!
//! A version of a table is a list of pieces. New rows come in memory; when there are many, they move to a segment
//! ([`Catalog::store_rows`](crate::Catalog::store_rows)), under their numbers. A row of a batch goes by making another
//! batch; a row of a segment goes by a mark, since a segment never changes.
//!
//! Invariant: pieces stand in the order of their fragments, and within one in that of their least numbers. Where no
//! rows were put in the order of a clustering key, all numbers of a piece are larger than those of the pieces before it
//! in its fragment.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::{MemoryCluster, RowNumbers};
use diligence_storage::segment::{Segment, SegmentView};
use diligence_storage::{Cluster, DeletedRows};

use crate::declared::Declared;

/// Some rows of a version.
#[derive(Clone, Debug)]
pub struct Piece {
    rows: PieceRows,
    /// Of all rows, those that are marked as gone included.
    numbers: RowNumbers,
    /// What it is counted in. Pieces of one statement share a reservation.
    memory: Arc<Reservation>,
    /// Which part of the table it is of.
    fragment: u16,
    /// The largest number in it and in the pieces of its fragment before it ([`settle`]).
    reach: i64,
}

/// Where the rows of a piece are.
#[derive(Clone, Debug)]
pub enum PieceRows {
    /// In memory.
    Memory(RecordBatch),
    /// In a segment.
    Stored(StoredRows),
}

/// A cluster of a segment, without some of its rows.
#[derive(Clone, Debug)]
pub struct StoredRows {
    /// The segment, with the table's columns.
    pub view: Arc<SegmentView>,
    /// Which cluster.
    pub cluster: usize,
    /// Which of its rows are gone, if any are.
    pub deleted: Option<Arc<DeletedRows>>,
}

/// Rows that come into a table.
#[derive(Clone, Debug)]
pub enum NewRows {
    /// In memory.
    Memory(RecordBatch),
    /// In a segment.
    Stored(StoredCluster),
}

/// A cluster that somebody has written for a table.
#[derive(Clone, Debug)]
pub struct StoredCluster {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Which of its clusters.
    pub cluster: usize,
    /// Which of its rows are gone already, if any are.
    pub deleted: Option<Arc<DeletedRows>>,
    /// The fragment that its rows belong to.
    pub fragment: u16,
    /// What the table was declared with, if it was there; another one does not take the rows.
    pub(crate) declared: Option<Arc<Declared>>,
}

impl StoredCluster {
    /// All rows of a cluster for a new table.
    pub fn new(segment: Arc<Segment>, cluster: usize) -> Self {
        Self { segment, cluster, deleted: None, fragment: 0, declared: None }
    }

    /// The same, as rows of a fragment.
    #[must_use]
    pub fn in_fragment(self, fragment: u16) -> Self {
        Self { fragment, ..self }
    }

    /// The cluster without the rows at these places. Fails with kind `File` if there is no such cluster.
    pub fn without(segment: Arc<Segment>, cluster: usize, places: impl IntoIterator<Item = usize>) -> Result<Self> {
        let missing = || Error::file(format!("a segment has no cluster {cluster}")).with_code("XX001");
        let deleted = DeletedRows::none(segment.rows(cluster).ok_or_else(missing)?).with(places);
        let deleted = (deleted.count() > 0).then(|| Arc::new(deleted));
        Ok(Self { segment, cluster, deleted, fragment: 0, declared: None })
    }
}

impl From<RecordBatch> for NewRows {
    fn from(rows: RecordBatch) -> Self {
        Self::Memory(rows)
    }
}

impl NewRows {
    /// The batch; `None` if they are on disk.
    pub fn batch(&self) -> Option<&RecordBatch> {
        match self {
            Self::Memory(batch) => Some(batch),
            Self::Stored(_) => None,
        }
    }

    /// Bytes that they take in memory.
    pub fn bytes_in_memory(&self) -> usize {
        match self {
            Self::Memory(batch) => batch.get_array_memory_size(),
            Self::Stored(stored) => stored.deleted.as_ref().map_or(0, |deleted| deleted.bytes()),
        }
    }
}

/// A batch of at least so many rows is cut in two where one of its rows goes, which copies nothing.
const SPLIT_ROWS_MIN: usize = 1024;

impl StoredRows {
    /// How many rows the cluster has, those that are gone included. Fails with kind `File` if there is no such cluster.
    pub fn total(&self) -> Result<usize> {
        let missing = || Error::file(format!("a segment has no cluster {}", self.cluster)).with_code("XX001");
        self.view.rows(self.cluster).ok_or_else(missing)
    }
}

impl Piece {
    /// A batch with the numbers of its rows.
    pub(crate) fn in_memory(rows: RecordBatch, numbers: RowNumbers, memory: Arc<Reservation>) -> Self {
        Self { rows: PieceRows::Memory(rows), numbers, memory, fragment: 0, reach: i64::MIN }
    }

    /// A cluster with the numbers of all of its rows.
    pub(crate) fn stored(rows: StoredRows, numbers: RowNumbers, memory: Arc<Reservation>) -> Self {
        Self { rows: PieceRows::Stored(rows), numbers, memory, fragment: 0, reach: i64::MIN }
    }

    /// The same rows in a fragment.
    pub(crate) fn in_fragment(self, fragment: u16) -> Self {
        Self { fragment, ..self }
    }

    /// The fragment that its rows belong to.
    pub fn fragment(&self) -> u16 {
        self.fragment
    }

    /// Where its rows are.
    pub fn rows(&self) -> &PieceRows {
        &self.rows
    }

    /// The numbers of all rows, those that are marked as gone included.
    pub fn numbers(&self) -> &RowNumbers {
        &self.numbers
    }

    /// The rows, as they come into another table.
    pub(crate) fn as_new(&self) -> NewRows {
        match &self.rows {
            PieceRows::Memory(batch) => NewRows::Memory(batch.clone()),
            PieceRows::Stored(StoredRows { view, cluster, deleted }) => NewRows::Stored(StoredCluster {
                segment: view.segment().clone(),
                cluster: *cluster,
                deleted: deleted.clone(),
                fragment: self.fragment,
                declared: None,
            }),
        }
    }

    /// The batch; `None` if it is on disk.
    pub(crate) fn batch(&self) -> Option<&RecordBatch> {
        match &self.rows {
            PieceRows::Memory(batch) => Some(batch),
            PieceRows::Stored(_) => None,
        }
    }

    pub(crate) fn memory(&self) -> &Arc<Reservation> {
        &self.memory
    }

    /// The same rows, elsewhere or with other columns.
    pub(crate) fn with_rows(&self, rows: PieceRows) -> Self {
        Self { rows, ..self.clone() }
    }

    /// The same rows, counted elsewhere.
    pub(crate) fn counted_in(self, memory: Arc<Reservation>) -> Self {
        Self { memory, ..self }
    }

    /// Bytes of its rows in memory.
    pub fn bytes_in_memory(&self) -> usize {
        self.batch().map_or(0, RecordBatch::get_array_memory_size)
    }

    /// Whether it has no row; none in a version has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.total() - self.deleted().map_or(0, |deleted| deleted.count())
    }

    /// How many, those that are marked as gone included.
    pub fn total(&self) -> usize {
        match &self.rows {
            PieceRows::Memory(batch) => batch.num_rows(),
            PieceRows::Stored(stored) => stored.view.rows(stored.cluster).unwrap_or(0),
        }
    }

    fn deleted(&self) -> Option<&Arc<DeletedRows>> {
        match &self.rows {
            PieceRows::Memory(_) => None,
            PieceRows::Stored(stored) => stored.deleted.as_ref(),
        }
    }

    /// No row has a smaller number.
    pub(crate) fn first(&self) -> i64 {
        self.numbers.least()
    }

    /// No row has a larger number.
    pub(crate) fn last(&self) -> i64 {
        self.numbers.greatest(self.total())
    }

    /// Those of some ascending numbers that it has rows of.
    pub(crate) fn among(&self, numbers: &[i64]) -> Vec<i64> {
        let from = numbers.partition_point(|number| *number < self.first());
        let here = &numbers[from..];
        let here = &here[..here.partition_point(|number| *number <= self.last())];
        if here.len() <= self.total() {
            return here.iter().copied().filter(|number| self.position(*number).is_some()).collect();
        }
        let mut found = self.live_numbers().filter(|number| here.binary_search(number).is_ok()).collect::<Vec<_>>();
        found.sort_unstable();
        found
    }

    /// Where the row of a number is; `None` if it is not there, or gone.
    pub(crate) fn position(&self, number: i64) -> Option<usize> {
        let position = self.numbers.position(number, self.total())?;
        (!self.deleted().is_some_and(|deleted| deleted.has(position))).then_some(position)
    }

    /// The numbers of the rows that it has.
    pub fn live_numbers(&self) -> impl Iterator<Item = i64> + '_ {
        let deleted = self.deleted();
        let places = (0..self.total()).filter(move |place| !deleted.is_some_and(|deleted| deleted.has(*place)));
        places.map(|place| self.numbers.at(place))
    }

    /// Whether both are the same rows, as far as can be seen without looking at them.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        if self.numbers != other.numbers || self.total() != other.total() {
            return false;
        }
        match (self.deleted(), other.deleted()) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// The numbers of the rows that have gone in a later version of the same cluster; `None` if that is another one.
    pub(crate) fn gone_in(&self, later: &Self) -> Option<Vec<i64>> {
        let (PieceRows::Stored(was), PieceRows::Stored(is)) = (&self.rows, &later.rows) else { return None };
        let place = |rows: &StoredRows| (rows.view.segment().number(), rows.cluster);
        if place(was) != place(is) || self.numbers != later.numbers {
            return None;
        }
        let Some(now) = &is.deleted else { return Some(Vec::new()) };
        let gone = match &was.deleted {
            Some(before) => before.live() & &!now.live(),
            None => !now.live(),
        };
        Some(gone.set_indices().map(|at| self.numbers.at(at)).collect())
    }

    /// Reads a column of its rows: how many there are, and how many NULLs. Fails with kind `File` if they cannot be
    /// read, with code XX001 if they are not what was written.
    pub fn verify(&self, column: usize) -> Result<(usize, usize)> {
        match &self.rows {
            PieceRows::Memory(batch) => Ok((batch.num_rows(), batch.column(column).logical_null_count())),
            PieceRows::Stored(stored) => stored.view.verify(stored.cluster, column, self.deleted().cloned()),
        }
    }

    /// All columns of its rows. Fails with kind `File` if they cannot be read.
    pub fn read(&self) -> Result<RecordBatch> {
        match &self.rows {
            PieceRows::Memory(batch) => Ok(batch.clone()),
            PieceRows::Stored(stored) => {
                let columns = (0..stored.view.columns()).collect::<Vec<_>>();
                stored.view.read(stored.cluster, &columns, self.deleted().map(|deleted| deleted.live()))
            }
        }
    }

    /// Some columns of its rows. Fails as [`read`](Self::read).
    pub fn read_columns(&self, columns: &[usize]) -> Result<RecordBatch> {
        match &self.rows {
            PieceRows::Memory(batch) => batch.project(columns).map_err(from_arrow),
            PieceRows::Stored(stored) => {
                stored.view.read(stored.cluster, columns, self.deleted().map(|deleted| deleted.live()))
            }
        }
    }

    /// Some columns of all its rows, those that are marked as gone included. Fails as [`read`](Self::read).
    pub(crate) fn read_all(&self, columns: &[usize]) -> Result<RecordBatch> {
        match &self.rows {
            PieceRows::Memory(batch) => batch.project(columns).map_err(from_arrow),
            PieceRows::Stored(stored) => stored.view.read(stored.cluster, columns, None),
        }
    }

    /// The row at a position, as a batch of one. Fails as [`read`](Self::read).
    pub(crate) fn row(&self, position: usize) -> Result<RecordBatch> {
        match &self.rows {
            PieceRows::Memory(batch) => Ok(batch.slice(position, 1)),
            PieceRows::Stored(stored) => {
                let columns = (0..stored.view.columns()).collect::<Vec<_>>();
                let only = BooleanBuffer::collect_bool(self.total(), |place| place == position);
                stored.view.read(stored.cluster, &columns, Some(&only))
            }
        }
    }

    /// The piece as a scan reads it; of the rows at `only` these places, which ascend, if some are given, or of `some`,
    /// if bits are given; or more. With the numbers in one more column, if `is_numbered`. Fails with kind `File` if a
    /// segment lacks the cluster.
    pub(crate) fn cluster(
        &self,
        table: &str,
        index: usize,
        only: Option<&[usize]>,
        some: Option<&BooleanBuffer>,
        is_numbered: bool,
    ) -> Result<Arc<dyn Cluster>> {
        let numbers = is_numbered.then(|| self.numbers.clone());
        match &self.rows {
            PieceRows::Memory(batch) => {
                let cluster = MemoryCluster::new(table, index, batch.clone(), numbers);
                Ok(Arc::new(match only {
                    Some(places) => cluster.only(places),
                    None => cluster,
                }))
            }
            PieceRows::Stored(StoredRows { view, cluster, deleted }) => {
                let deleted = match (only, some, deleted) {
                    (Some(places), ..) => Some(Arc::new(DeletedRows::all_but(self.total(), places))),
                    (None, Some(some), Some(deleted)) => Some(Arc::new(deleted.without_others(some))),
                    (None, Some(some), None) => Some(Arc::new(DeletedRows::of(some.clone()))),
                    (None, None, deleted) => deleted.clone(),
                };
                view.cluster(*cluster, deleted, numbers)
            }
        }
    }

    /// The piece, or the pieces, without the rows of these numbers, which ascend. Fails with code 40001 if one of them
    /// is not there, and with kind `Resource` if there is no memory.
    pub(crate) fn without(&self, gone: &[i64]) -> Result<Vec<Self>> {
        match (&self.rows, gone) {
            (_, []) => Ok(vec![self.clone()]),
            // Most of its rows stay where they are.
            (PieceRows::Memory(batch), [row]) if batch.num_rows() >= SPLIT_ROWS_MIN => self.split_at(*row),
            (PieceRows::Memory(batch), _) => self.copied_without(batch, gone),
            (PieceRows::Stored(stored), _) => self.marked(stored, gone),
        }
    }

    fn marked(&self, stored: &StoredRows, gone: &[i64]) -> Result<Vec<Self>> {
        let places = gone.iter().map(|number| self.position(*number).ok_or_else(conflict));
        let places = places.collect::<Result<Vec<_>>>()?;
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::bug("a row is deleted twice"));
        }
        let deleted = match &stored.deleted {
            Some(deleted) => deleted.with(places),
            None => DeletedRows::none(self.total()).with(places),
        };
        if deleted.count() == self.total() {
            return Ok(vec![]);
        }
        let mut memory = self.memory.sibling();
        memory.grow(self.own_bytes() + deleted.bytes())?;
        let rows = PieceRows::Stored(StoredRows { deleted: Some(Arc::new(deleted)), ..stored.clone() });
        Ok(vec![Self { rows, memory: Arc::new(memory), ..self.clone() }])
    }

    /// Bytes that the numbers take.
    pub(crate) fn own_bytes(&self) -> usize {
        self.numbers.bytes()
    }

    /// A part of a batch, which shares its memory. Fails with kind `Bug` for what is on disk.
    pub(crate) fn part(&self, from: usize, to: usize) -> Result<Option<Self>> {
        let batch = self.batch().ok_or_else(|| Error::bug("a cluster is cut"))?;
        if from >= to {
            return Ok(None);
        }
        let numbers = match &self.numbers {
            RowNumbers::From(first) => RowNumbers::From(first + from as i64),
            RowNumbers::Listed(numbers) => RowNumbers::Listed(numbers[from..to].into()),
            RowNumbers::Moved { numbers, .. } => RowNumbers::of(numbers[from..to].to_vec()),
        };
        let rows = PieceRows::Memory(batch.slice(from, to - from));
        Ok(Some(Self { rows, numbers, ..self.clone() }))
    }

    fn split_at(&self, number: i64) -> Result<Vec<Self>> {
        let row = self.position(number).ok_or_else(conflict)?;
        let parts = [self.part(0, row)?, self.part(row + 1, self.total())?];
        Ok(parts.into_iter().flatten().collect())
    }

    fn copied_without(&self, batch: &RecordBatch, gone: &[i64]) -> Result<Vec<Self>> {
        let rows = batch.num_rows();
        let mut keeps = vec![true; rows];
        for number in gone {
            let position = self.position(*number).ok_or_else(conflict)?;
            if !std::mem::replace(&mut keeps[position], false) {
                return Err(Error::bug("a row is deleted twice"));
            }
        }
        let numbers = (0..rows).filter(|&position| keeps[position]).map(|position| self.numbers.at(position));
        let numbers = numbers.collect::<Vec<_>>();
        if numbers.is_empty() {
            return Ok(vec![]);
        }
        let rows = filter_record_batch(batch, &BooleanArray::from(keeps)).map_err(from_arrow)?;
        let mut memory = self.memory.sibling();
        memory.grow(rows.get_array_memory_size())?;
        let (rows, numbers) = (PieceRows::Memory(rows), RowNumbers::of(numbers));
        Ok(vec![Self { rows, numbers, memory: Arc::new(memory), ..self.clone() }])
    }
}

/// The error for a row that another statement has changed first.
pub(crate) fn conflict() -> Error {
    let error = Error::input("could not serialize access due to concurrent update").with_code("40001");
    error.with_hint("run the statement again")
}

/// Which of these [settled](settle) pieces has the row of a number.
pub(crate) fn piece_of(pieces: &[Piece], number: i64) -> Option<usize> {
    let mut begin = 0;
    while let Some(piece) = pieces.get(begin) {
        let is_last = pieces.last().is_some_and(|last| last.fragment == piece.fragment);
        let end = match is_last {
            true => pieces.len(),
            false => begin + pieces[begin..].partition_point(|other| other.fragment == piece.fragment),
        };
        let mut at = begin + pieces[begin..end].partition_point(|piece| piece.first() <= number);
        while at > begin && pieces[at - 1].reach >= number {
            at -= 1;
            if pieces[at].position(number).is_some() {
                return Some(at);
            }
        }
        begin = end;
    }
    None
}

/// Makes pieces ready to be searched. Gives whether all numbers ascend from piece to piece.
pub(crate) fn settle(pieces: &mut [Piece]) -> bool {
    let (mut ascends, mut before) = (true, None::<(u16, i64)>);
    for piece in pieces {
        let last = piece.last();
        piece.reach = match before {
            Some((fragment, reach)) if fragment == piece.fragment => reach.max(last),
            _ => last,
        };
        ascends &= before.is_none_or(|(fragment, reach)| fragment == piece.fragment && reach < piece.first());
        before = Some((piece.fragment, piece.reach));
    }
    ascends
}

/// Finds rows by number, for those who look at some columns of many. Of rows on disk it keeps the columns of the
/// clusters that it has read, up to [`KEPT_BYTES`].
pub(crate) struct RowFinder<'a> {
    pieces: &'a [Piece],
    columns: Vec<usize>,
    kept: RefCell<HashMap<usize, RecordBatch>>,
}

/// Columns of clusters that a finder keeps.
const KEPT_BYTES: usize = 16 << 20;

impl<'a> RowFinder<'a> {
    /// One that looks at these columns.
    pub(crate) fn new(pieces: &'a [Piece], columns: Vec<usize>) -> Self {
        Self { pieces, columns, kept: RefCell::default() }
    }

    /// Whether the row of a number is there.
    pub(crate) fn has(&self, number: i64) -> bool {
        let piece = piece_of(self.pieces, number);
        piece.is_some_and(|piece| self.pieces[piece].position(number).is_some())
    }

    /// The columns of the row of a number, as a batch of one; `None` if it is not there. Fails with kind `File` if it
    /// cannot be read.
    pub(crate) fn find(&self, number: i64) -> Result<Option<RecordBatch>> {
        let Some(index) = piece_of(self.pieces, number) else { return Ok(None) };
        let piece = &self.pieces[index];
        let Some(position) = piece.position(number) else { return Ok(None) };
        if let Some(batch) = piece.batch() {
            return batch.slice(position, 1).project(&self.columns).map(Some).map_err(from_arrow);
        }
        let mut kept = self.kept.borrow_mut();
        if let Some(columns) = kept.get(&index) {
            return Ok(Some(columns.slice(position, 1)));
        }
        let columns = piece.read_all(&self.columns)?;
        let bytes = |columns: &RecordBatch| columns.get_array_memory_size();
        if kept.values().map(bytes).sum::<usize>() + bytes(&columns) > KEPT_BYTES {
            kept.clear();
        }
        let row = columns.slice(position, 1);
        kept.insert(index, columns);
        Ok(Some(row))
    }
}
