//! Functions over the same frames: rows are brought to both ends of the frames, as far as the functions need them, and
//! functions are asked for values as far as they know them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, ready};

use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array, new_null_array};
use arrow::compute::{concat, take};
use datafusion_expr::WindowFrame;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::buffer::RowReader;
use super::frames::{Frames, Stretch};
use super::function::{Arrival, FrameFunction, Need, Side};
use super::range::RangeKeys;
use super::turn::Turn;
use crate::batch::{Batch, Selection};
use crate::expressions::Expr;
use crate::plan::Exclusion;

/// What functions of our own keep of a row at most, as a rule: a sum of 128 bits and a count.
const BYTES_PER_ROW: usize = 24;

/// Reads after which a packet gives up its turn, where frames reach far from row to row.
const READS_PER_TURN: usize = 16;

/// Functions over the same frames.
pub(super) struct Framed {
    pub kind: FrameKind,
    pub frames: Frames,
    /// Frames that are found, of rows that have not gone on.
    stretches: VecDeque<Stretch>,
    functions: Vec<Function>,
    /// What has come to the two sides.
    start: RowReader,
    end: RowReader,
    /// Rows that wait for memory.
    loaded: Option<Loaded>,
    /// The frames of the rows that are about to go on.
    hand: Option<Hand>,
    /// Where the newest frame starts.
    newest: u64,
}

/// What functions of the same frames have in common.
#[derive(Clone, PartialEq)]
pub(super) struct FrameKind {
    pub frame: Arc<WindowFrame>,
    pub excludes: Exclusion,
    /// Whether each row has a stretch of its own.
    pub row_by_row: bool,
}

/// A function over frames, and where its values go.
pub(super) struct Function {
    pub place: usize,
    pub function: Box<dyn FrameFunction>,
    pub arguments: Vec<Expr>,
    pub filter: Option<Expr>,
    /// Reads frames anew.
    pub reader: RowReader,
}

struct Loaded {
    side: Side,
    /// The number of the function, where it is only one.
    only: Option<usize>,
    first: u64,
    batch: Batch,
}

struct Hand {
    stretches: Vec<Stretch>,
    /// How many of these are done.
    done: usize,
    /// Values of each function so far.
    values: Vec<Vec<ArrayRef>>,
}

impl Function {
    fn push(&mut self, side: Side, batch: &Batch, first: u64, starts: &[u32]) -> Result<()> {
        let rows = batch.rows();
        let values = |batch: &Batch| {
            self.arguments.iter().map(|argument| argument.evaluate(batch)?.flat()).collect::<Result<Vec<_>>>()
        };
        let Some(filter) = &self.filter else {
            let values = values(batch)?;
            return self.function.push(side, &Arrival { first, rows, starts, kept: None, values: &values });
        };
        let selection = filter.select(batch)?;
        // The condition comes first: an argument may fail where it guards it.
        let selected = batch.clone().select(&selection)?.map(|batch| values(&batch)).transpose()?;
        if self.function.wants_kept() {
            let kept = match &selection {
                Selection::All => (0..rows as u32).collect(),
                Selection::None => Vec::new(),
                Selection::Rows(rows) => rows.values().to_vec(),
            };
            let nothing = || self.arguments.iter().map(|argument| new_empty_array(argument.data_type())).collect();
            let values: Vec<ArrayRef> = selected.unwrap_or_else(nothing);
            return self.function.push(side, &Arrival { first, rows, starts, kept: Some(&kept), values: &values });
        }
        let values: Vec<ArrayRef> = match (selected, &selection) {
            (Some(values), Selection::Rows(kept)) => {
                let mut places = vec![None; rows];
                (0..).zip(kept.values()).for_each(|(place, &row)| places[row as usize] = Some(place));
                let places: ArrayRef = Arc::new(UInt32Array::from(places));
                let spread = |values: &ArrayRef| take(values, places.as_ref(), None).map_err(from_arrow);
                let spread = values.iter().map(spread).collect::<Result<Vec<_>>>()?;
                // Whoever counts rows has no argument: what is NULL does not count.
                if spread.is_empty() { vec![places] } else { spread }
            }
            (Some(values), _) => values,
            (None, _) if self.arguments.is_empty() => vec![new_null_array(&arrow::datatypes::DataType::Null, rows)],
            (None, _) => self.arguments.iter().map(|argument| new_null_array(argument.data_type(), rows)).collect(),
        };
        self.function.push(side, &Arrival { first, rows, starts, kept: None, values: &values })
    }

    fn bytes_of(&self, batch: &Batch) -> usize {
        let arguments = self.arguments.iter().map(|argument| bytes_of(argument, batch));
        arguments.sum::<usize>().max(BYTES_PER_ROW * batch.rows())
    }
}

impl Framed {
    pub fn new(kind: FrameKind, frames: Frames, function: Function) -> Self {
        Self {
            kind,
            frames,
            stretches: VecDeque::new(),
            functions: vec![function],
            start: RowReader::default(),
            end: RowReader::default(),
            loaded: None,
            hand: None,
            newest: 0,
        }
    }

    pub fn add(&mut self, function: Function) {
        self.functions.push(function);
    }

    /// Takes rows that come.
    pub fn push(&mut self, batch: &Batch, first: u64, starts: &[u32]) -> Result<()> {
        let mut functions = self.functions.iter_mut().filter(|function| function.function.takes(Side::Arrival));
        functions.try_for_each(|function| function.push(Side::Arrival, batch, first, starts))
    }

    /// Whether the frames of the rows before `until` are certain.
    pub fn poll_ready(&mut self, turn: &mut Turn<'_>, until: u64) -> Poll<Result<bool>> {
        self.frames.poll_find(turn, until, &mut self.stretches)
    }

    /// The values of the rows that are about to go on, so many.
    pub fn poll_take(&mut self, turn: &mut Turn<'_>, rows: usize, out: &mut [Option<ArrayRef>]) -> Poll<Result<()>> {
        let mut hand = match self.hand.take() {
            Some(hand) => hand,
            None => Hand {
                stretches: self.next_stretches(rows as u64),
                done: 0,
                values: vec![Vec::new(); self.functions.len()],
            },
        };
        match self.poll_evaluate(turn, &mut hand) {
            Poll::Ready(Ok(())) => {}
            other => {
                self.hand = Some(hand);
                return other;
            }
        }
        let spread = (hand.stretches.len() < rows).then(|| {
            let numbers = (0..).zip(&hand.stretches);
            let rows = numbers.flat_map(|(stretch, Stretch { rows, .. })| std::iter::repeat_n(stretch, *rows as usize));
            UInt32Array::from(rows.collect::<Vec<u32>>())
        });
        for (function, values) in self.functions.iter().zip(hand.values) {
            let values = match &values[..] {
                [values] => values.clone(),
                parts => concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>()).map_err(from_arrow)?,
            };
            debug_assert_eq!(values.len(), hand.stretches.len());
            out[function.place] = Some(match &spread {
                Some(spread) => take(&values, spread, None).map_err(from_arrow)?,
                None => values,
            });
        }
        Poll::Ready(Ok(()))
    }

    /// Asks functions for values, and brings them rows until they know all.
    fn poll_evaluate(&mut self, turn: &mut Turn<'_>, hand: &mut Hand) -> Poll<Result<()>> {
        let mut reads = 0;
        loop {
            ready!(self.poll_push_loaded(turn))?;
            if reads == READS_PER_TURN {
                turn.waker.wake_by_ref();
                return Poll::Pending;
            }
            let Some(stretch) = hand.stretches.get(hand.done).copied() else { return Poll::Ready(Ok(())) };
            self.newest = stretch.start;
            for function in &mut self.functions {
                function.function.advance(&stretch)?;
            }
            let mut needs = self.functions.iter().enumerate();
            let need = needs.find_map(|(number, function)| Some((number, function.function.lacks(&stretch)?)));
            if let Some((number, need)) = need {
                ready!(self.poll_load(turn, number, need, &stretch))?;
                reads += 1;
                continue;
            }
            let left = &hand.stretches[hand.done..];
            let left = &left[..self.known(left)];
            for (function, values) in self.functions.iter_mut().zip(&mut hand.values) {
                values.push(function.function.evaluate(left)?);
            }
            hand.done += left.len();
        }
    }

    /// How many of these frames, the first of which they know, all functions know.
    fn known(&self, stretches: &[Stretch]) -> usize {
        let mut functions = self.functions.iter().map(|function| &function.function);
        if functions.any(|function| function.takes(Side::Frame)) {
            return 1;
        }
        let is_known =
            |stretch: &Stretch| self.functions.iter().all(|function| function.function.lacks(stretch).is_none());
        match stretches.last() {
            Some(last) if is_known(last) => stretches.len(),
            _ => stretches.partition_point(is_known),
        }
    }

    /// Reads what a function needs.
    fn poll_load(&mut self, turn: &mut Turn<'_>, number: usize, need: Need, stretch: &Stretch) -> Poll<Result<()>> {
        let (side, only, reader) = match need {
            Need::Start => (Side::Start, None, &mut self.start),
            Need::End => (Side::End, None, &mut self.end),
            Need::Frame(position) => {
                let reader = &mut self.functions[number].reader;
                reader.seek(position);
                (Side::Frame, Some(number), reader)
            }
        };
        let first = reader.position;
        let Some(mut batch) = ready!(turn.buffer.poll_read(reader, turn.waker))? else {
            return Poll::Ready(Err(Error::bug("a frame has rows that have not come")));
        };
        if side == Side::Frame {
            let rows = (stretch.end - first).min(batch.rows() as u64);
            batch = batch.slice(0, rows as usize);
        }
        self.loaded = Some(Loaded { side, only, first, batch });
        Poll::Ready(Ok(()))
    }

    /// Gives functions the rows that were read, once there is memory.
    fn poll_push_loaded(&mut self, turn: &mut Turn<'_>) -> Poll<Result<()>> {
        let Some(Loaded { side, only, batch, .. }) = &self.loaded else { return Poll::Ready(Ok(())) };
        let takes = |number: usize, function: &Function| {
            only.is_none_or(|only| only == number) && function.function.takes(*side)
        };
        let numbered = self.functions.iter().enumerate();
        let bytes = numbered.filter(|(number, function)| takes(*number, function));
        let bytes = bytes.map(|(_, function)| function.bytes_of(batch)).sum::<usize>();
        ready!(turn.poll_grow(bytes))?;
        let Some(Loaded { side, only, first, batch }) = self.loaded.take() else { return Poll::Ready(Ok(())) };
        let starts = turn.rows.partitions.within(first..first + batch.rows() as u64);
        for (number, function) in self.functions.iter_mut().enumerate() {
            if only.is_none_or(|only| only == number) && function.function.takes(side) {
                function.push(side, &batch, first, &starts)?;
            }
        }
        turn.memory.settle(self.bytes());
        Poll::Ready(Ok(()))
    }

    /// The first position that one of the functions may still have to read.
    pub fn needed(&self) -> u64 {
        let takes = |side| self.functions.iter().any(|function| function.function.takes(side));
        let mut needed = self.frames.range().map_or(u64::MAX, RangeKeys::needed);
        if takes(Side::Start) {
            needed = needed.min(self.start.position);
        }
        if takes(Side::End) {
            needed = needed.min(self.end.position);
        }
        if self.functions.iter().any(|function| function.function.may_read_frames()) {
            needed = needed.min(self.newest);
        }
        needed
    }

    /// How many readers there may be at once.
    pub fn readers(&self) -> usize {
        let takes = |side| self.functions.iter().any(|function| function.function.takes(side));
        let anew = self.functions.iter().filter(|function| function.function.may_read_frames()).count();
        let bounds = self.frames.range().map_or(0, RangeKeys::readers);
        usize::from(takes(Side::Start)) + usize::from(takes(Side::End)) + anew + bounds
    }

    /// The columns of the input that are read again after rows have come.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let expressions = self.functions.iter().flat_map(|function| function.arguments.iter().chain(&function.filter));
        let keys = self.frames.range().map_or(&[][..], RangeKeys::columns);
        expressions.flat_map(|expression| expression.columns()).chain(keys).copied()
    }

    pub fn bytes(&self) -> usize {
        let functions = self.functions.iter().map(|function| function.function.bytes()).sum::<usize>();
        functions + self.frames.bytes() + self.stretches.capacity() * size_of::<Stretch>()
    }

    /// Bytes that a batch may add when it comes, about.
    pub fn bytes_of(&self, batch: &Batch) -> usize {
        let functions = self.functions.iter().filter(|function| function.function.takes(Side::Arrival));
        functions.map(|function| function.bytes_of(batch)).sum()
    }

    /// The frames of the next rows, so many.
    fn next_stretches(&mut self, rows: u64) -> Vec<Stretch> {
        let mut left = rows;
        let mut stretches = Vec::new();
        while left > 0
            && let Some(stretch) = self.stretches.front_mut()
        {
            let part = stretch.rows.min(left);
            stretches.push(Stretch { rows: part, ..*stretch });
            stretch.rows -= part;
            stretch.row += part;
            left -= part;
            if stretch.rows == 0 {
                self.stretches.pop_front();
            }
        }
        stretches
    }
}

/// Bytes of an expression's values, without computing them.
fn bytes_of(expression: &Expr, batch: &Batch) -> usize {
    match expression.as_column() {
        Some(column) => batch.column(column).bytes(),
        None => expression.data_type().primitive_width().unwrap_or(BYTES_PER_ROW) * batch.rows(),
    }
}
