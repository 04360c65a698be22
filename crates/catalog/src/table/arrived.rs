//! Rows that come and go: the next version of a table, in which small batches are joined.

use super::*;
use crate::deferred::DeferredConstraints;

impl NativeTable {
    /// The version with these rows behind the present ones, or in their place. The new rows are counted in `memory`.
    pub(crate) fn with_rows(
        &self,
        rows: &[NewRows],
        memory: Reservation,
        replace: bool,
        deferred: Option<&DeferredConstraints>,
        version: TableVersion,
    ) -> Result<Self> {
        let pieces = if replace { Vec::new() } else { self.pieces().to_vec() };
        self.appended(pieces, rows, memory, deferred, version)
    }

    /// The version after a change. Fails with code 40001 if a row that is to go has gone already, `Value` if a new
    /// value does not fit its column or is a NULL that the column does not allow, 23505 if a unique key is there
    /// already that is not `deferred`, `Resource` if memory is short. `deleted` ascends.
    pub(crate) fn changed(
        &self,
        deleted: &[i64],
        inserted: &[NewRows],
        memory: Reservation,
        deferred: Option<&DeferredConstraints>,
        version: TableVersion,
    ) -> Result<Self> {
        let (mut kept, mut gone) = (Vec::with_capacity(self.pieces().len() + 1), deleted);
        if !self.ascends() {
            let mut count = 0;
            for piece in self.pieces() {
                let here = piece.among(deleted);
                count += here.len();
                kept.extend(piece.without(&here)?);
            }
            if count < deleted.len() {
                return Err(conflict());
            }
            return self.appended(kept, inserted, memory, deferred, version);
        }
        for piece in self.pieces() {
            let end = gone.partition_point(|number| *number <= piece.last());
            let (here, later) = gone.split_at(end);
            gone = later;
            kept.extend(piece.without(here)?);
        }
        if !gone.is_empty() {
            return Err(conflict());
        }
        self.appended(kept, inserted, memory, deferred, version)
    }

    /// The version of these pieces with rows behind them.
    fn appended(
        &self,
        pieces: Vec<Piece>,
        rows: &[NewRows],
        memory: Reservation,
        deferred: Option<&DeferredConstraints>,
        version: TableVersion,
    ) -> Result<Self> {
        let counted = memory.sibling();
        let is_in_memory = rows.iter().all(|rows| rows.batch().is_some());
        let batches = rows.iter().filter_map(NewRows::batch).filter(|batch| batch.num_rows() > 0);
        let batches = batches.map(|batch| conform(batch, self.schema(), self.name())).collect::<Result<Vec<_>>>()?;
        let indexes = if is_in_memory { Some(self.with_keys(&pieces, &batches, &memory, deferred)?) } else { None };
        let declared = match self.with_bounds_of(&pieces, rows, &batches)? {
            Some(declared) => Arc::new(declared),
            None => self.declared.clone(),
        };
        let (pieces, next_number) = self.behind(&declared, pieces, rows, batches, memory)?;
        let indexes = match indexes {
            Some(indexes) => indexes,
            None => {
                let (declared, came) = (&self.declared, (pieces.as_slice(), self.rows.next_number));
                let live = pieces.iter().map(Piece::len).sum::<usize>();
                let finder = RowFinder::new(&pieces, Vec::new());
                let indexes = self.rules().keys.iter().zip(&self.rows.indexes).map(|(key, index)| {
                    let index = match index.is_mostly_gone(live) {
                        false => index.clone(),
                        true => index.swept(&counted, &|number| finder.has(number))?,
                    };
                    let is_checked = is_checked(key, deferred);
                    let store = declared.key_store.get().map(|store| &**store);
                    let space = KeySpace { memory: &counted, store, covered: next_number };
                    index_with(&index, key, is_checked, &declared.schema, &declared.name, came, space)
                });
                indexes.collect::<Result<_>>()?
            }
        };
        Ok(Self::of(declared, pieces, next_number, version, indexes))
    }

    /// What the table is declared with from now on, if these are its first rows, and bounds of fragments come from
    /// them.
    fn with_bounds_of(&self, kept: &[Piece], rows: &[NewRows], batches: &[RecordBatch]) -> Result<Option<Declared>> {
        let distribution = &self.rules().distribution;
        let Strategy::Uniform { column, bounds: None, .. } = &distribution.strategy else { return Ok(None) };
        if !kept.is_empty() || batches.is_empty() || rows.iter().any(|rows| rows.batch().is_none()) {
            return Ok(None);
        }
        let values = batches.iter().filter_map(|batch| batch.column_by_name(column).cloned()).collect::<Vec<_>>();
        let divided = distribution.with_bounds_of(&values)?;
        if divided == *distribution {
            return Ok(None);
        }
        let Declared { name, schema, rules, columns, origin, key_store, .. } = &*self.declared;
        let rules = TableRules { distribution: divided, ..rules.clone() };
        let (columns, key_store) = (columns.clone(), key_store.clone());
        Declared::new(name.clone(), schema.clone(), rules, columns, *origin, key_store).map(Some)
    }

    /// These pieces with those of new rows behind them, each in its fragment, and the number of the next row. `batches`
    /// are the new rows that are in memory.
    fn behind(
        &self,
        declared: &Arc<Declared>,
        pieces: Vec<Piece>,
        rows: &[NewRows],
        batches: Vec<RecordBatch>,
        mut memory: Reservation,
    ) -> Result<(Vec<Piece>, i64)> {
        let mut next_number = self.rows.next_number;
        let mut arriving = BTreeMap::<u16, Vec<Arriving>>::new();
        let mut batches = batches.into_iter();
        let mut views = Views::default();
        for rows in rows {
            let numbers = RowNumbers::From(next_number);
            match rows {
                NewRows::Memory(batch) if batch.num_rows() == 0 => {}
                NewRows::Memory(_) => {
                    let batch = batches.next().ok_or_else(|| Error::bug("a batch is not there"))?;
                    for FragmentRows { fragment, rows, places } in declared.placement.split(&batch, next_number)? {
                        let own = |places: Vec<u32>| {
                            RowNumbers::of(places.into_iter().map(|place| next_number + i64::from(place)).collect())
                        };
                        let numbers = places.map_or_else(|| numbers.clone(), own);
                        let rows = Arriving { rows: PieceRows::Memory(rows), numbers, counted: None };
                        arriving.entry(fragment).or_default().push(rows);
                    }
                    next_number += batch.num_rows() as i64;
                }
                NewRows::Stored(stored) => {
                    if stored.declared.as_ref().is_some_and(|known| known.id != self.declared.id) {
                        return Err(conflict());
                    }
                    if stored.fragment >= declared.placement.fragments() {
                        return Err(Error::file("rows are of a fragment that their table does not have"));
                    }
                    memory.grow(rows.bytes_in_memory())?;
                    let fragment = arriving.entry(stored.fragment).or_default();
                    let rows = views.rows_of(stored.clone(), declared);
                    next_number += rows.total()? as i64;
                    fragment.push(Arriving { rows: PieceRows::Stored(rows), numbers, counted: None });
                }
            }
        }
        // Small batches behind what stays are joined with the new ones; the pieces before them stay as they are.
        let mut kept = pieces.into_iter().peekable();
        let (mut all, mut copied_bytes) = (Vec::with_capacity(kept.len() + arriving.len()), 0);
        for (fragment, rows) in arriving {
            while let Some(piece) = kept.next_if(|piece| piece.fragment() <= fragment) {
                all.push(Uncounted::Piece(piece));
            }
            let joined = self.joined(fragment, &mut all, rows, &memory, &mut copied_bytes)?;
            all.extend(joined);
        }
        all.extend(kept.map(Uncounted::Piece));
        memory.shrink(copied_bytes.min(memory.bytes()));
        let rest = Arc::new(memory);
        let counted = all.into_iter().map(|piece: Uncounted| match piece {
            Uncounted::Piece(piece) => piece,
            Uncounted::New(fragment, Arriving { rows, numbers, counted }) => {
                let counted = counted.unwrap_or_else(|| rest.clone());
                let piece = match rows {
                    PieceRows::Memory(batch) => Piece::in_memory(batch, numbers, counted),
                    PieceRows::Stored(stored) => Piece::stored(stored, numbers, counted),
                };
                piece.in_fragment(fragment)
            }
        });
        let mut pieces = counted.collect::<Vec<_>>();
        settle(&mut pieces);
        Ok((pieces, next_number))
    }

    /// New rows of a fragment, where batches are small joined with each other, and with the last piece of the fragment,
    /// which is taken from `kept`. Many small INSERTs must not leave many small batches behind, nor copy the rows
    /// before them each time.
    fn joined(
        &self,
        fragment: u16,
        kept: &mut Vec<Uncounted>,
        rows: Vec<Arriving>,
        memory: &Reservation,
        copied_bytes: &mut usize,
    ) -> Result<Vec<Uncounted>> {
        let mut all = Vec::<Arriving>::with_capacity(rows.len() + 1);
        for arriving in rows {
            let is_batch = matches!(arriving.rows, PieceRows::Memory(_));
            all.push(arriving);
            if !is_batch {
                continue;
            }
            loop {
                if let [Arriving { rows: PieceRows::Memory(first), .. }] = all.as_slice()
                    && let Some(Uncounted::Piece(piece)) = kept.pop_if(|piece| match piece {
                        Uncounted::Piece(piece) if piece.fragment() == fragment => {
                            piece.batch().is_some_and(|last| joins(last, first))
                        }
                        _ => false,
                    })
                {
                    let (rows, numbers) = (piece.rows().clone(), piece.numbers().clone());
                    all.insert(0, Arriving { rows, numbers, counted: Some(piece.memory().clone()) });
                }
                let [.., Arriving { rows: PieceRows::Memory(last), .. }, Arriving { rows: PieceRows::Memory(new), .. }] =
                    all.as_slice()
                else {
                    break;
                };
                if !joins(last, new) {
                    break;
                }
                let (last, new) = (last.clone(), new.clone());
                let (Some(Arriving { numbers, counted: new_counted, .. }), Some(before)) = (all.pop(), all.last_mut())
                else {
                    break;
                };
                let (before_bytes, new_bytes) = (last.get_array_memory_size(), new.get_array_memory_size());
                let joined_rows = concat_batches(self.schema(), [&last, &new]).map_err(from_arrow)?;
                let columns = joined_rows.columns().iter().map(gathered).collect();
                let options = RecordBatchOptions::new().with_row_count(Some(joined_rows.num_rows()));
                let joined_rows =
                    RecordBatch::try_new_with_options(joined_rows.schema(), columns, &options).map_err(from_arrow)?;
                let mut both = memory.sibling();
                both.grow(joined_rows.get_array_memory_size())?;
                before.numbers = joined(&before.numbers, last.num_rows(), &numbers, new.num_rows());
                before.rows = PieceRows::Memory(joined_rows);
                if new_counted.is_none() {
                    *copied_bytes += new_bytes;
                }
                if before.counted.replace(Arc::new(both)).is_none() {
                    *copied_bytes += before_bytes;
                }
            }
        }
        Ok(all.into_iter().map(|rows| Uncounted::New(fragment, rows)).collect())
    }

    /// The indexes with the keys of rows that come behind these pieces. Fails with code 23505 if a unique key is there
    /// already that is not `deferred`, 23P01 if a row is there beside which one of them may not stand.
    fn with_keys(
        &self,
        kept: &[Piece],
        rows: &[RecordBatch],
        memory: &Reservation,
        deferred: Option<&DeferredConstraints>,
    ) -> Result<Vec<KeyIndex>> {
        let name = self.name();
        let live = kept.iter().map(Piece::len).sum::<usize>();
        let keys = self.rules().keys.iter().zip(&self.rows.indexes).map(|(key, index)| {
            if index.is_broken() {
                // Statements that add rows were refused.
                return Ok(index.clone());
            }
            let reader = KeyReader::new(key, self.schema())?;
            let finder = RowFinder::new(kept, reader.places().to_vec());
            let index = match index.is_mostly_gone(live) {
                false => index.clone(),
                true => index.swept(memory, &|number| finder.has(number))?,
            };
            if rows.is_empty() {
                return Ok(index);
            }
            let values = rows.iter().map(|batch| reader.values(batch)).collect::<Result<Vec<_>>>()?;
            let (first, starts) = (self.rows.next_number, starts(rows));
            let sorted = SortedKeys::new(&values, |batch, row| first + (starts[batch] + row) as i64);
            let (is_checked, excludes) = (is_checked(key, deferred), key.kind == KeyKind::Exclusion);
            if is_checked && excludes {
                Exclusion::new(key, self.schema())?.check((&index, &finder), rows, name)?;
            }
            if is_checked
                && !excludes
                && let Some(place) = there_already(&index, &reader, &finder, &values, &sorted)?
            {
                let (batch, row) = sorted.row(place);
                return Err(reader.duplicate(name, &rows[batch], row));
            }
            index.with(&sorted, memory)
        });
        keys.collect()
    }

    /// The version without rows.
    pub(crate) fn without_rows(&self, version: TableVersion) -> Result<Self> {
        let indexes = self.rows.indexes.iter().map(KeyIndex::emptied).collect();
        Ok(Self::of(self.declared.clone(), Vec::new(), self.rows.next_number, version, indexes))
    }
}

/// Rows on their way to a piece.
struct Arriving {
    rows: PieceRows,
    numbers: RowNumbers,
    /// What has no reservation is counted in the statement's.
    counted: Option<Arc<Reservation>>,
}

/// A piece, or what becomes one of a fragment.
enum Uncounted {
    Piece(Piece),
    New(u16, Arriving),
}

/// Whether a key is held against the rows that come.
fn is_checked(key: &rules::Key, deferred: Option<&DeferredConstraints>) -> bool {
    key.kind.keeps_apart() && deferred.is_none_or(|deferred| !deferred.has_key(key))
}

/// Whether a batch is joined with the one before it.
fn joins(last: &RecordBatch, new: &RecordBatch) -> bool {
    last.num_rows() + new.num_rows() <= BATCH_ROWS_MAX && last.num_rows() <= JOIN_GROWTH * new.num_rows()
}

/// A batch is joined with the one before it unless that has so many times as many rows.
const JOIN_GROWTH: usize = 2;

/// The numbers of rows that are put behind others.
fn joined(first: &RowNumbers, first_rows: usize, second: &RowNumbers, second_rows: usize) -> RowNumbers {
    // Numbers ascend: those of the second are without gaps if the last one says so.
    if let RowNumbers::From(number) = first
        && second.at(0) == number + first_rows as i64
        && second.at(second_rows - 1) == second.at(0) + second_rows as i64 - 1
    {
        return first.clone();
    }
    let first = (0..first_rows).map(|position| first.at(position));
    RowNumbers::of(first.chain((0..second_rows).map(|position| second.at(position))).collect())
}
