//! Late materialization: drops rows while they are decoded, and gathers what is left into chunks of a good size.
//!
//! A format gives its rows as [`Windows`]: runs of consecutive rows whose columns are decoded when asked for, all rows
//! or only selected ones. For each window the sieve asks the first filter's columns, evaluates it, asks the next
//! filter's columns for the rows that are left, and so on; the columns that no filter looks at are decoded last, only
//! for the rows that survived all. What a filter decoded is not decoded again for the output. Columns that other scans
//! have left decoded ([`SharedColumns`](crate::SharedColumns)) are not asked of the format; those that others want as
//! well are decoded as a whole. What an equal condition has said of all rows is not asked again.
//!
//! To choose a column's rows costs more than to compare them all, unless they are few. So a filter that may is asked of
//! whole columns where they are there and not much was dropped before; each column's rows are chosen once then, when it
//! is known which are left.
//!
//! Invariants: rows keep their order; a chunk has at most `batch_rows` rows and is never empty, and unless it is one
//! window's has about
//! [`BATCH_BYTES`] at most; of survivors no more than a chunk, and one window, are held; a step looks at one window.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterPredicate, concat};
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use diligence_base::limits::BATCH_BYTES;
use diligence_base::{Error, Result};

use super::schema::{conform, is_narrow_form};
use super::selection::{chooser, deposit, extract, filter_array, true_rows};
use crate::foreign_error::from_arrow;
use crate::{AnswerId, Chunk, Decode, DecodeRequest, Decoded, Fetch, Fetched, RowFilter, SharedColumns, SharedItem};

/// The columns that a request looks at: wanted ones and the filters' ones, each once, ascending.
pub(crate) fn columns_of(request: &DecodeRequest) -> Vec<usize> {
    let mut columns = request.columns.clone();
    columns.extend(request.filters.iter().flat_map(|filter| filter.columns()));
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Rows of a cluster, window by window. Columns are named by their position in the table's schema.
pub(crate) trait Windows: Send {
    /// Goes to the next window of at most `rows_max` rows and returns its rows; 0 at the end.
    fn advance(&mut self, rows_max: usize) -> Result<usize>;
    /// One column of the window: all its rows, or those selected. Called at most once per column and window, but for
    /// [`MAY_TRY_AGAIN`](Self::MAY_TRY_AGAIN).
    fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef>;
    /// What a filter of one column says of each row of the window, where that can be told without decoding the column:
    /// by its [ranges](crate::RowFilter::ranges), or by what it says of
    /// [values](crate::RowFilter::is_of_values) that are stored once. The column may be decoded afterwards. `place`
    /// tells the filters of a request apart; `left` rows are wanted.
    fn judged(&mut self, _place: usize, _filter: &dyn RowFilter, _left: usize) -> Result<Option<BooleanBuffer>> {
        Ok(None)
    }
    /// Bytes that decoding needs beyond what was fetched, as [`Decode::bytes`] says.
    fn bytes(&self) -> usize {
        0
    }
    /// What must be read before these columns of the next window, of at most `rows_max` rows, can be decoded; `None` if
    /// it is there.
    fn missing(&mut self, _rows_max: usize, _columns: &[usize]) -> Result<Option<Fetch>> {
        Ok(None)
    }
    /// The same of the window that [`advance`](Self::advance) came to. There may be more after what was brought.
    fn missing_here(&mut self, _columns: &[usize]) -> Result<Option<Fetch>> {
        Ok(None)
    }
    /// Takes what was [missing](Self::missing).
    fn bring(&mut self, _read: Fetched) -> Result<()> {
        Err(Error::bug("windows were brought what they had not asked for"))
    }
    /// Whether a column whose rows could not all be decoded may be asked for again, for some of them: a value that is
    /// wrong is nothing to a query that does not want its row.
    const MAY_TRY_AGAIN: bool = false;
}

/// Windows of a cluster of which all columns that are looked at are decoded already.
pub(crate) struct SharedWindows {
    /// One of the columns.
    column: usize,
    shared: Arc<dyn SharedColumns>,
    next: usize,
}

impl SharedWindows {
    /// Those of the first column that a request looks at.
    pub fn of(request: &DecodeRequest) -> Result<Self> {
        let looked_at = columns_of(request);
        let Some((shared, column)) = request.shared.clone().zip(looked_at.first().copied()) else {
            return Err(Error::bug("nothing was fetched, and nothing is decoded already"));
        };
        Ok(Self { column, shared, next: 0 })
    }
}

impl Windows for SharedWindows {
    fn advance(&mut self, _rows_max: usize) -> Result<usize> {
        let windows = self.shared.windows(SharedItem::Column(self.column)).unwrap_or_default();
        let rows = windows.get(self.next).map_or(0, |window| window.len());
        self.next += 1;
        Ok(rows)
    }

    fn column(&mut self, column: usize, _: Option<&BooleanBuffer>) -> Result<ArrayRef> {
        Err(Error::bug(format!("column {column} is not decoded, and nothing was fetched")))
    }
}

/// Filters and gathers the rows of windows.
pub(crate) struct Sieve<W> {
    windows: W,
    request: DecodeRequest,
    schema: SchemaRef,
    /// Windows before the current one.
    windows_before: usize,
    /// Columns that are to be decoded as a whole, for others.
    wanted: Vec<usize>,
    /// What conditions answer for all rows that is to be left for others, and for how many windows it was.
    answers: Vec<(AnswerId, usize)>,
    /// The columns that are read for every window: those of filters, and those that others want.
    first_columns: Vec<usize>,
    /// The others, which are read only where rows are left.
    later_columns: Vec<usize>,
    /// The rows of the current window that are left, and how many they are, while other columns of it are read.
    waiting: Option<(Selected, usize)>,
    /// Columns of the current window that were decoded.
    held: Vec<Held>,
    /// Survivors of earlier windows: for each wanted column its pieces.
    pending: Vec<Vec<ArrayRef>>,
    pending_rows: usize,
    /// Bytes that they have beyond those of columns of a known width.
    pending_bytes: usize,
    /// A chunk that is ready, behind one that had to go first.
    ready: Option<Chunk>,
    /// Rows of the windows so far.
    rows: usize,
    done: bool,
}

/// A decoded column of the current window.
struct Held {
    column: usize,
    array: ArrayRef,
    /// Which rows of the window the array has; all if `None`.
    rows: Selected,
}

/// Rows of a window; all if `None`. Compared by address: each filter makes a new one.
type Selected = Option<Arc<Selection>>;

/// Some rows of a window.
struct Selection {
    bits: BooleanBuffer,
    /// Chooses them; made once for all columns.
    chooser: OnceLock<FilterPredicate>,
}

impl Selection {
    fn new(bits: BooleanBuffer) -> Arc<Self> {
        Arc::new(Self { bits, chooser: OnceLock::new() })
    }

    /// These rows of a whole column.
    fn of(&self, whole: &ArrayRef) -> Result<ArrayRef> {
        self.chooser.get_or_init(|| chooser(&self.bits)).filter(whole).map_err(from_arrow)
    }
}

/// A filter is asked of whole columns if so many times the rows that are left are all rows.
const WHOLE_PARTS: usize = 8;

fn same(a: &Selected, b: &Selected) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

impl Sieve<SharedWindows> {
    /// A sieve over columns that are all decoded already.
    pub fn of_shared(request: &DecodeRequest, schema: SchemaRef) -> Result<Self> {
        Ok(Self::new(SharedWindows::of(request)?, request.clone(), schema))
    }
}

impl<W: Windows> Sieve<W> {
    /// A sieve over the windows of a table with this schema.
    pub fn new(windows: W, mut request: DecodeRequest, schema: SchemaRef) -> Self {
        request.batch_rows = request.batch_rows.max(1);
        let pending = vec![Vec::new(); request.columns.len()];
        let (mut wanted, mut answers) = (Vec::new(), Vec::new());
        for item in request.shared.iter().flat_map(|shared| shared.wanted()) {
            match item {
                SharedItem::Column(column) => wanted.push(column),
                SharedItem::Answer(answer) => answers.push((answer, 0)),
            }
        }
        let filtered = request.filters.iter().flat_map(|filter| filter.columns()).chain(&wanted);
        let mut first_columns = filtered.copied().collect::<Vec<_>>();
        if first_columns.is_empty() {
            first_columns.clone_from(&request.columns);
        }
        let later_columns = request.columns.iter().copied().filter(|column| !first_columns.contains(column)).collect();
        Self {
            windows,
            wanted,
            answers,
            request,
            schema,
            first_columns,
            later_columns,
            waiting: None,
            windows_before: 0,
            held: Vec::new(),
            pending,
            pending_rows: 0,
            pending_bytes: 0,
            ready: None,
            rows: 0,
            done: false,
        }
    }

    /// A column of the current window: from what is decoded already, or from the format.
    fn decode(&mut self, column: usize, selected: Option<&Selection>) -> Result<ArrayRef> {
        let bits = selected.map(|selected| &selected.bits);
        let Some(shared) = self.request.shared.clone() else { return self.windows.column(column, bits) };
        let whole = if let Some(windows) = shared.windows(SharedItem::Column(column)) {
            let missing = || Error::bug(format!("column {column} is shared without window {}", self.windows_before));
            windows.get(self.windows_before).cloned().ok_or_else(missing)?
        } else if let Some(whole) = self.decode_for_all(column)? {
            whole
        } else {
            return self.windows.column(column, bits);
        };
        match selected {
            Some(selected) if selected.bits.len() == whole.len() => selected.of(&whole),
            Some(_) => Err(Error::bug(format!("column {column} is shared in windows of other rows"))),
            None => Ok(whole),
        }
    }

    /// A column of the current window as a whole, for others as well; `None` if nobody else wants it (any more).
    fn decode_for_all(&mut self, column: usize) -> Result<Option<ArrayRef>> {
        let Some(place) = self.wanted.iter().position(|wanted| *wanted == column) else { return Ok(None) };
        let whole = match self.windows.column(column, None) {
            // It may be in a row that this query does not want. The others find it themselves.
            Err(_) if W::MAY_TRY_AGAIN => {
                self.wanted.swap_remove(place);
                return Ok(None);
            }
            whole => whole?,
        };
        if !self.request.shared.as_ref().is_some_and(|shared| shared.put(SharedItem::Column(column), &whole)) {
            self.wanted.swap_remove(place);
        }
        Ok(Some(whole))
    }

    /// Decodes what others want of the current window and filters did not ask for.
    fn decode_wanted(&mut self) -> Result<()> {
        for place in (0..self.wanted.len()).rev() {
            let column = self.wanted[place];
            if !self.held.iter().any(|held| held.column == column) {
                self.decode_for_all(column)?;
            }
        }
        Ok(())
    }

    /// Whether a column's rows are all there already, or are going to be.
    fn is_whole(&self, column: usize) -> bool {
        match self.held.iter().find(|held| held.column == column) {
            Some(held) => held.rows.is_none(),
            None => {
                let windows = |shared: &Arc<dyn SharedColumns>| shared.windows(SharedItem::Column(column)).is_some();
                let is_shared = self.request.shared.as_ref().is_some_and(windows);
                is_shared || self.wanted.contains(&column)
            }
        }
    }

    /// Applies the filters to the current window: the rows that are left and how many they are.
    fn select(&mut self, rows: usize) -> Result<(Selected, usize)> {
        let mut selected: Selected = None;
        let mut left = rows;
        if let Some(deleted) = &self.request.deleted {
            let first = self.rows - rows;
            if first + rows > deleted.live().len() {
                return Err(Error::bug("rows are deleted of another cluster"));
            }
            if narrow(deleted.live().slice(first, rows), &mut selected, &mut left) == 0 {
                return Ok((None, 0));
            }
        }
        for index in 0..self.request.filters.len() {
            let filter = self.request.filters[index].clone();
            if !filter.is_worthwhile() {
                continue;
            }
            let (known, wanted) = self.answer(filter.answer())?;
            if let Some(known) = known {
                if known.len() != rows {
                    return Err(Error::bug("a condition's answers are shared in windows of other rows"));
                }
                let now = match &selected {
                    None => known,
                    Some(before) => &before.bits & &known,
                };
                match narrow(now, &mut selected, &mut left) {
                    0 => return Ok((None, 0)),
                    _ => continue,
                }
            }
            if let Some(keep) = self.judged(index, &*filter, left, rows)? {
                if let Some(place) = wanted {
                    self.leave_answer(place, &keep);
                }
                let now = match &selected {
                    None => keep,
                    Some(before) => &before.bits & &keep,
                };
                match narrow(now, &mut selected, &mut left) {
                    0 => return Ok((None, 0)),
                    _ => continue,
                }
            }
            let sees_all = (left * WHOLE_PARTS >= rows || wanted.is_some())
                && filter.may_see_dropped()
                && filter.columns().iter().all(|&column| self.is_whole(column));
            let (seen, count) = if sees_all { (None, rows) } else { (selected.clone(), left) };
            let columns =
                filter.columns().iter().map(|&column| self.column(column, &seen, count)).collect::<Result<Vec<_>>>()?;
            let keep = filter.keep(&columns)?;
            if keep.len() != count {
                return Err(Error::bug(format!("a row filter answered for {} rows instead of {count}", keep.len())));
            }
            let keep = true_rows(&keep);
            if let Some(place) = wanted
                && seen.is_none()
            {
                self.leave_answer(place, &keep);
            }
            let now = match &selected {
                None => keep,
                Some(before) if sees_all => &before.bits & &keep,
                Some(before) => deposit(&before.bits, &keep),
            };
            if narrow(now, &mut selected, &mut left) == 0 {
                return Ok((None, 0));
            }
        }
        Ok((selected, left))
    }

    /// What a filter of one column says of all rows of the current window, where the format can tell without decoding
    /// the column, and nobody else has decoded it or wants it decoded.
    fn judged(
        &mut self,
        place: usize,
        filter: &dyn RowFilter,
        left: usize,
        rows: usize,
    ) -> Result<Option<BooleanBuffer>> {
        let &[column] = filter.columns() else { return Ok(None) };
        let is_asked = filter.is_of_values() || filter.ranges().is_some();
        if !is_asked || left * WHOLE_PARTS < rows || self.is_whole(column) {
            return Ok(None);
        }
        let keep = self.windows.judged(place, filter, left)?;
        match &keep {
            Some(keep) if keep.len() != rows => Err(Error::bug("a filter was asked of other rows")),
            _ => Ok(keep),
        }
    }

    /// What is known of a condition for all rows of the current window; or where it is to be left, if windows before
    /// have all been.
    fn answer(&self, answer: Option<AnswerId>) -> Result<(Option<BooleanBuffer>, Option<usize>)> {
        let Some((answer, shared)) = answer.zip(self.request.shared.as_ref()) else { return Ok((None, None)) };
        if let Some(windows) = shared.windows(SharedItem::Answer(answer)) {
            let known = windows.get(self.windows_before).and_then(|window| window.as_boolean_opt());
            let missing = || Error::bug(format!("an answer is shared without window {}", self.windows_before));
            return Ok((Some(known.ok_or_else(missing)?.values().clone()), None));
        }
        let is_next = |&(other, left): &(AnswerId, usize)| other == answer && left == self.windows_before;
        Ok((None, self.answers.iter().position(is_next)))
    }

    /// Leaves what a condition says of all rows of the current window.
    fn leave_answer(&mut self, place: usize, keep: &BooleanBuffer) {
        let Some(shared) = &self.request.shared else { return };
        let window: ArrayRef = Arc::new(BooleanArray::new(keep.clone(), None));
        if shared.put(SharedItem::Answer(self.answers[place].0), &window) {
            self.answers[place].1 += 1;
        } else {
            self.answers.swap_remove(place);
        }
    }

    /// A column of the current window for the selected rows.
    fn column(&mut self, column: usize, selected: &Selected, left: usize) -> Result<ArrayRef> {
        let Some(position) = self.held.iter().position(|held| held.column == column) else {
            let array = self.decode(column, selected.as_deref())?;
            if array.len() != left {
                return Err(Error::bug(format!("column {column} decoded to {} rows instead of {left}", array.len())));
            }
            self.held.push(Held { column, array: array.clone(), rows: selected.clone() });
            return Ok(array);
        };
        let held = &mut self.held[position];
        if same(&held.rows, selected) {
            return Ok(held.array.clone());
        }
        let Some(now) = selected else { return Err(Error::bug("a selection grew")) };
        held.array = match &held.rows {
            None => now.of(&held.array)?,
            Some(before) => filter_array(&held.array, &extract(&now.bits, &before.bits))?,
        };
        held.rows = selected.clone();
        Ok(held.array.clone())
    }

    /// The pending rows as a chunk; the end if there are none.
    fn gather(&mut self) -> Result<Decoded> {
        if self.pending_rows == 0 {
            return Ok(Decoded::Done);
        }
        let mut columns = Vec::with_capacity(self.pending.len());
        for (pieces, &column) in self.pending.iter_mut().zip(&self.request.columns) {
            columns.push(concat_pieces(pieces, self.schema.field(column).data_type())?);
            pieces.clear();
        }
        self.pending_bytes = 0;
        let rows = std::mem::take(&mut self.pending_rows);
        Ok(Decoded::Chunk(Chunk { columns, rows }))
    }
}

impl<W: Windows> Decode for Sieve<W> {
    fn step(&mut self) -> Result<Decoded> {
        if let Some(chunk) = self.ready.take() {
            return Ok(Decoded::Chunk(chunk));
        }
        let batch_rows = self.request.batch_rows;
        let (selected, left) = match self.waiting.take() {
            Some(left) => left,
            None => {
                self.held.clear();
                if !self.done
                    && let Some(fetch) = self.windows.missing(batch_rows, &self.first_columns)?
                {
                    return Ok(Decoded::Read(fetch));
                }
                let rows = if self.done { 0 } else { self.windows.advance(batch_rows)? };
                if rows == 0 {
                    if let Some(shared) = self.request.shared.take() {
                        shared.complete(self.rows);
                    }
                    self.done = true;
                    return self.gather();
                }
                self.rows += rows;
                self.select(rows)?
            }
        };
        if left == 0 {
            self.decode_wanted()?;
            self.windows_before += 1;
            return Ok(Decoded::Again);
        }
        if let Some(fetch) = self.windows.missing_here(&self.later_columns)? {
            self.waiting = Some((selected, left));
            return Ok(Decoded::Read(fetch));
        }
        let mut columns = Vec::with_capacity(self.request.columns.len());
        for index in 0..self.request.columns.len() {
            columns.push(self.column(self.request.columns[index], &selected, left)?);
        }
        self.decode_wanted()?;
        self.windows_before += 1;
        // A chunk that is at least a quarter full is worth more as it is than copied.
        if self.pending_rows == 0 && left * 4 >= batch_rows {
            return Ok(Decoded::Chunk(Chunk { columns, rows: left }));
        }
        let batch_bytes = *BATCH_BYTES.end();
        let bytes = columns.iter().map(long_bytes).sum::<usize>();
        let overflows = self.pending_rows + left > batch_rows || self.pending_bytes + bytes > batch_bytes;
        let is_large = left * 4 >= batch_rows || bytes * 4 >= batch_bytes;
        if is_large && (self.pending_rows == 0 || overflows) {
            let chunk = Chunk { columns, rows: left };
            if self.pending_rows == 0 {
                return Ok(Decoded::Chunk(chunk));
            }
            self.ready = Some(chunk);
            return self.gather();
        }
        let full = if overflows { self.gather()? } else { Decoded::Again };
        for (pieces, array) in self.pending.iter_mut().zip(columns) {
            pieces.push(array);
        }
        self.pending_rows += left;
        self.pending_bytes += bytes;
        let is_full = self.pending_rows * 4 >= batch_rows * 3 || self.pending_bytes * 4 >= batch_bytes * 3;
        match full {
            Decoded::Chunk(_) => Ok(full),
            _ if is_full => self.gather(),
            _ => Ok(Decoded::Again),
        }
    }

    fn bytes(&self) -> usize {
        self.windows.bytes()
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        self.windows.bring(read)
    }
}

/// Bytes of texts that do not lie in their views, and of lists and structs: what can make few rows many bytes.
fn long_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used(),
        data_type if data_type.is_nested() => array.to_data().get_slice_memory_size().unwrap_or(0),
        _ => 0,
    }
}

/// Only these rows of those that are left stay; how many they are.
fn narrow(now: BooleanBuffer, selected: &mut Selected, left: &mut usize) -> usize {
    let kept = now.count_set_bits();
    if kept > 0 && kept < *left {
        *selected = Some(Selection::new(now));
        *left = kept;
    }
    kept
}

/// Pieces of one column as one array. Dictionary-coded pieces of one dictionary keep it; mixed forms become logical.
fn concat_pieces(pieces: &[ArrayRef], logical: &DataType) -> Result<ArrayRef> {
    let [first, rest @ ..] = pieces else { return Err(Error::bug("no piece to gather")) };
    if rest.is_empty() {
        return Ok(first.clone());
    }
    let same_type = rest.iter().all(|piece| piece.data_type() == first.data_type());
    if same_type && let Some(dictionary) = first.downcast_dict() {
        let values = dictionary.values();
        let keys = pieces
            .iter()
            .map(|piece| {
                let piece = piece.downcast_dict()?;
                Arc::ptr_eq(piece.values(), values).then(|| piece.keys() as &dyn Array)
            })
            .collect::<Option<Vec<_>>>();
        if let Some(keys) = keys {
            let keys = concat(&keys).map_err(from_arrow)?;
            let Some(keys) = keys.as_any().downcast_ref::<PrimitiveArray<Int32Type>>() else {
                return Err(Error::bug("dictionary keys changed their type"));
            };
            let whole = DictionaryArray::try_new(keys.clone(), values.clone()).map_err(from_arrow)?;
            return Ok(Arc::new(whole));
        }
    }
    let mixed = !same_type || is_narrow_form(first.data_type(), logical) && first.downcast_dict().is_some();
    let logical_pieces;
    let pieces = if mixed {
        logical_pieces =
            pieces.iter().map(|piece| conform(piece.clone(), logical, false)).collect::<Result<Vec<_>>>()?;
        logical_pieces.as_slice()
    } else {
        pieces
    };
    concat(&pieces.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>()).map_err(from_arrow)
}

/// A view of an array as a dictionary with 32-bit keys.
trait DowncastDictionary {
    fn downcast_dict(&self) -> Option<&DictionaryArray<Int32Type>>;
}

impl DowncastDictionary for ArrayRef {
    fn downcast_dict(&self) -> Option<&DictionaryArray<Int32Type>> {
        self.as_any().downcast_ref::<DictionaryArray<Int32Type>>()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{Field, Int64Type, Schema};
    use parking_lot::Mutex;
    use proptest::prelude::*;

    use super::*;
    use crate::{DeletedRows, WholeRanges};

    /// Columns in memory, given out in windows.
    struct Numbers {
        columns: Vec<Vec<i64>>,
        start: usize,
        rows: usize,
        asked: Vec<usize>,
    }

    impl Windows for Numbers {
        fn advance(&mut self, rows_max: usize) -> Result<usize> {
            self.start += self.rows;
            self.rows = rows_max.min(self.columns[0].len() - self.start);
            self.asked.clear();
            Ok(self.rows)
        }

        fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef> {
            assert!(!self.asked.contains(&column), "column {column} is decoded twice");
            self.asked.push(column);
            let window = &self.columns[column][self.start..self.start + self.rows];
            let array: ArrayRef = Arc::new(Int64Array::from(window.to_vec()));
            match selected {
                None => Ok(array),
                Some(selected) => filter_array(&array, selected),
            }
        }

        fn judged(&mut self, _: usize, filter: &dyn RowFilter, _: usize) -> Result<Option<BooleanBuffer>> {
            let Some(ranges) = filter.ranges() else { return Ok(None) };
            // Not of every column.
            let window = &self.columns[ranges.column()][self.start..self.start + self.rows];
            Ok((ranges.column() != 1).then(|| window.iter().map(|value| ranges.has(*value)).collect()))
        }
    }

    /// Keeps values in ranges.
    struct Between {
        ranges: WholeRanges,
        columns: [usize; 1],
        answer: Option<AnswerId>,
    }

    impl RowFilter for Between {
        fn columns(&self) -> &[usize] {
            &self.columns
        }

        fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
            let values = columns[0].as_primitive::<Int64Type>().values();
            Ok(values.iter().map(|value| Some(self.ranges.has(*value))).collect())
        }

        fn may_see_dropped(&self) -> bool {
            true
        }

        fn answer(&self) -> Option<AnswerId> {
            self.answer
        }

        fn ranges(&self) -> Option<&WholeRanges> {
            Some(&self.ranges)
        }
    }

    /// Keeps rows whose sum of columns is not divisible by a number; NULL where divisible by another.
    pub(crate) struct NotDivisible {
        pub columns: Vec<usize>,
        pub by: i64,
        pub answer: Option<AnswerId>,
    }

    impl RowFilter for NotDivisible {
        fn columns(&self) -> &[usize] {
            &self.columns
        }

        fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
            let rows = columns[0].len();
            Ok((0..rows)
                .map(|row| {
                    let sum = columns.iter().map(|c| c.as_primitive::<Int64Type>().value(row)).sum::<i64>();
                    if sum % 11 == 0 { None } else { Some(sum % self.by != 0) }
                })
                .collect())
        }

        fn may_see_dropped(&self) -> bool {
            self.by % 2 == 0
        }

        fn answer(&self) -> Option<AnswerId> {
            self.answer
        }
    }

    /// Columns that others have left, and those that they want: as many windows as there is room for.
    struct Left {
        ready: Vec<Option<Vec<ArrayRef>>>,
        windows_max: usize,
        taken: Mutex<Vec<usize>>,
        put: Mutex<Vec<Vec<i64>>>,
        /// What is known of each filter, and what is left of the others.
        answers: Vec<Option<Vec<ArrayRef>>>,
        answers_put: Mutex<Vec<Vec<bool>>>,
        complete: Mutex<Option<usize>>,
    }

    impl Left {
        fn new(
            table: &[Vec<i64>],
            ready: &[usize],
            answers: &[Option<Vec<bool>>],
            batch_rows: usize,
            windows_max: usize,
        ) -> Self {
            let windows = |column: &Vec<i64>| {
                column.chunks(batch_rows).map(|rows| Arc::new(Int64Array::from(rows.to_vec())) as ArrayRef).collect()
            };
            let ready = (0..table.len()).map(|column| ready.contains(&column).then(|| windows(&table[column])));
            Self {
                ready: ready.collect(),
                windows_max,
                taken: Mutex::new(vec![0; table.len()]),
                put: Mutex::new(vec![Vec::new(); table.len()]),
                answers: answers.iter().map(|known| Some(bits(known.as_ref()?, batch_rows))).collect(),
                answers_put: Mutex::new(vec![Vec::new(); answers.len()]),
                complete: Mutex::new(None),
            }
        }
    }

    impl SharedColumns for Left {
        fn windows(&self, item: SharedItem) -> Option<&[ArrayRef]> {
            match item {
                SharedItem::Answer(AnswerId(answer)) => self.answers[answer].as_deref(),
                SharedItem::Column(column) => self.ready[column].as_deref(),
            }
        }

        fn wanted(&self) -> Vec<SharedItem> {
            let columns = (0..self.ready.len()).filter(|column| self.ready[*column].is_none());
            let answers = (0..self.answers.len()).filter(|answer| self.answers[*answer].is_none());
            let answers = answers.map(|answer| SharedItem::Answer(AnswerId(answer)));
            columns.map(SharedItem::Column).chain(answers).collect()
        }

        fn put(&self, item: SharedItem, window: &ArrayRef) -> bool {
            let column = match item {
                SharedItem::Column(column) => column,
                SharedItem::Answer(AnswerId(answer)) => {
                    self.answers_put.lock()[answer].extend(window.as_boolean().values());
                    return true;
                }
            };
            let taken = &mut self.taken.lock()[column];
            *taken += 1;
            assert!(*taken <= self.windows_max + 1, "a column that was given up is put again");
            if *taken <= self.windows_max {
                self.put.lock()[column].extend_from_slice(window.as_primitive::<Int64Type>().values());
            }
            *taken <= self.windows_max
        }

        fn complete(&self, rows: usize) {
            assert!(self.complete.lock().replace(rows).is_none(), "it ends once");
        }
    }

    fn bits(answers: &[bool], batch_rows: usize) -> Vec<ArrayRef> {
        answers.chunks(batch_rows).map(|rows| Arc::new(BooleanArray::from(rows.to_vec())) as ArrayRef).collect()
    }

    #[test]
    fn a_step_looks_at_one_window() {
        // No row of the first nine windows is kept, and the last has one.
        let column = (0..100).map(|row| if row == 95 { 1 } else { 0 }).collect();
        let request = DecodeRequest {
            columns: vec![0],
            filters: vec![Arc::new(NotDivisible { columns: vec![0], by: 7, answer: None })],
            batch_rows: 10,
            narrow: true,
            ..DecodeRequest::default()
        };
        let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
        let windows = Numbers { columns: vec![column], start: 0, rows: 0, asked: vec![] };
        let mut sieve = Sieve::new(windows, request, schema);
        for window in 0..10 {
            assert!(matches!(sieve.step().unwrap(), Decoded::Again), "window {window}");
            assert_eq!(sieve.windows.start, window * 10);
        }
        assert!(matches!(sieve.step().unwrap(), Decoded::Chunk(Chunk { rows: 1, .. })));
        assert!(matches!(sieve.step().unwrap(), Decoded::Done));
    }

    proptest! {
        #[test]
        fn the_sieve_answers_as_row_by_row(
            a in prop::collection::vec(0i64..50, 0..400),
            filters in prop::collection::vec((prop::sample::subsequence(vec![0usize, 1, 2], 1..3), 1i64..7), 0..4),
            columns in prop::sample::subsequence(vec![0usize, 1, 2], 0..3),
            batch_rows in 1usize..100,
            ready in prop::sample::subsequence(vec![0usize, 1, 2], 0..3),
            windows_put in 0usize..40,
            is_shared in any::<bool>(),
            is_known in prop::collection::vec(any::<bool>(), 4),
            gone in prop::option::of(prop::collection::vec(0usize..400, 0..100)),
        ) {
            let table = vec![
                a.clone(),
                a.iter().map(|v| v * 3 + 1).collect::<Vec<_>>(),
                a.iter().map(|v| v * 7 + 2).collect::<Vec<_>>(),
            ];
            let answers = filters.iter().map(|(columns, by)| {
                let answer = |row: usize| {
                    if *by > 4 {
                        return (10..=*by * 20).contains(&table[columns[0]][row]);
                    }
                    let sum = columns.iter().map(|&c| table[c][row]).sum::<i64>();
                    sum % 11 != 0 && sum % by != 0
                };
                (0..a.len()).map(answer).collect::<Vec<_>>()
            });
            let answers = answers.collect::<Vec<_>>();
            let is_live = |row: &usize| gone.as_ref().is_none_or(|gone| !gone.contains(row));
            let kept = (0..a.len()).filter(is_live).filter(|&row| answers.iter().all(|answer| answer[row]));
            let kept = kept.collect::<Vec<_>>();
            let deleted = gone.as_ref().map(|gone| Arc::new(DeletedRows::none(a.len()).with(gone.iter().copied())));
            let fields = (0..3).map(|i| Field::new(format!("c{i}"), DataType::Int64, false)).collect::<Vec<_>>();
            let known = answers.iter().zip(&is_known).map(|(answer, is_known)| is_known.then(|| answer.clone()));
            let known = known.collect::<Vec<_>>();
            let shared = is_shared.then(|| Arc::new(Left::new(&table, &ready, &known, batch_rows, windows_put)));
            let request = DecodeRequest {
                columns: columns.clone(),
                filters: filters.iter().enumerate()
                    .map(|(number, (columns, by))| {
                        let answer = Some(AnswerId(number));
                        if *by > 4 {
                            let ranges = WholeRanges::new(columns[0], [(10, *by * 20)]);
                            return Arc::new(Between { ranges, columns: [columns[0]], answer }) as _;
                        }
                        Arc::new(NotDivisible { columns: columns.clone(), by: *by, answer }) as _
                    })
                    .collect(),
                batch_rows,
                narrow: true,
                shared: shared.clone().map(|shared| shared as _),
                deleted,
            };
            let windows = Numbers { columns: table.clone(), start: 0, rows: 0, asked: vec![] };
            let mut sieve = Sieve::new(windows, request, Arc::new(Schema::new(fields)));
            let mut got = vec![Vec::new(); columns.len()];
            let mut rows = 0;
            while let Some(chunk) = sieve.next().unwrap() {
                prop_assert!(chunk.rows > 0 && chunk.rows <= batch_rows);
                rows += chunk.rows;
                for (got, array) in got.iter_mut().zip(&chunk.columns) {
                    prop_assert_eq!(array.len(), chunk.rows);
                    got.extend_from_slice(array.as_primitive::<Int64Type>().values());
                }
            }
            prop_assert_eq!(rows, kept.len());
            for (got, &column) in got.iter().zip(&columns) {
                prop_assert_eq!(got, &kept.iter().map(|&row| table[column][row]).collect::<Vec<_>>());
            }
            if let Some(shared) = shared {
                prop_assert_eq!(*shared.complete.lock(), Some(a.len()));
                for (number, (put, answer)) in shared.answers_put.lock().iter().zip(&answers).enumerate() {
                    // Of each window until one of which not all rows were seen.
                    prop_assert_eq!(&put[..], &answer[..put.len()]);
                    prop_assert!(put.len() % batch_rows == 0 || put.len() == a.len());
                    let all_seen = number == 0 && gone.is_none();
                    let expected = if is_known[number] { Some(0) } else { all_seen.then_some(a.len()) };
                    prop_assert!(expected.is_none_or(|expected| put.len() == expected));
                }
                for (column, put) in shared.put.lock().iter().enumerate() {
                    let expected = if ready.contains(&column) { &[] } else { &table[column][..] };
                    // As many windows as were taken, and all if there were not more.
                    prop_assert_eq!(&put[..], &expected[..expected.len().min(windows_put * batch_rows)], "column {}", column);
                }
            }
        }
    }
}
