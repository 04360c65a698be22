//! Whole numbers of up to 64 bits: of numbers, dates, times and decimals, and the codes and lengths of texts.
//!
//! Three forms, of which the writer takes the smallest that is not slow:
//!
//! - *constant*: one number;
//! - *packed*: for each vector of 1,024 rows a base and a width ([`bits`](crate::bits)). A vector whose numbers go up
//!   or down steadily has the differences between neighbors in place of those to its least;
//! - *runs*: equal neighbors once, with the row at which they end.
//!
//! ```text
//!   constant   0 (u8) | number (u64)
//!   packed     1 (u8) | for each vector: base (u64), offset (u32), width (u8), form (u8), 0 (u16) | packed vectors
//!              a vector of differences has the least difference (u64) before its bits
//!   runs       2 (u8) | runs (u32) | length (u64), numbers as packed | length (u64), ends as packed
//! ```
//!
//! Numbers are extended to 64 bits with their sign. A last vector that is not full is filled up.

use std::ops::Range;

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;

use crate::bits::{VECTOR_ROWS, Word, pack, packed_bytes, unpack, unpack_one, width_of};
use crate::damage::{Damaged, Reader, Result, damaged, put_part};

const CONSTANT: u8 = 0;
const PACKED: u8 = 1;
const RUNS: u8 = 2;

/// Bytes of a vector's entry in the directory.
const ENTRY_BYTES: usize = 16;
/// Differences are taken if they need this part of the bits: it takes longer to sum them up.
const DIFFERENCES_BITS: (u32, u32) = (3, 4);
/// Rows of a run on average, from which runs are tried.
const RUN_ROWS_MIN: usize = 4;
/// Values are unpacked one by one if they are fewer than one of so many.
const FEW_PARTS: usize = 16;

/// A column of whole numbers.
#[derive(Clone, Debug)]
pub(crate) struct Integers {
    rows: usize,
    pub(crate) form: Form,
}

#[derive(Clone, Debug)]
pub(crate) enum Form {
    Constant(u64),
    Packed(Packed),
    Runs { numbers: Vec<u64>, ends: Vec<u32> },
}

#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub vectors: Vec<Vector>,
    payload: Bytes,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector {
    pub base: u64,
    /// Where its bits are; before them, of differences, the least one.
    offset: usize,
    pub width: u32,
    /// The least difference.
    pub step: Option<u64>,
}

/// Appends the numbers, of which there is one at least.
pub(crate) fn encode(numbers: &[u64], out: &mut Vec<u8>) {
    let first = numbers.first().copied().unwrap_or(0);
    if numbers.iter().all(|number| *number == first) {
        out.push(CONSTANT);
        out.extend_from_slice(&first.to_le_bytes());
        return;
    }
    let mut packed = Vec::new();
    encode_packed(numbers, &mut packed);
    let count = 1 + numbers.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if count * RUN_ROWS_MIN <= numbers.len() {
        let mut runs = vec![RUNS];
        encode_runs(numbers, count, &mut runs);
        if runs.len() < packed.len() {
            out.extend_from_slice(&runs);
            return;
        }
    }
    out.extend_from_slice(&packed);
}

fn encode_runs(numbers: &[u64], count: usize, out: &mut Vec<u8>) {
    let (mut values, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for run in numbers.chunk_by(|left, right| left == right) {
        values.push(run[0]);
        ends.push(ends.last().copied().unwrap_or(0) + run.len() as u64);
    }
    out.extend_from_slice(&(count as u32).to_le_bytes());
    for part in [values, ends] {
        let mut packed = Vec::new();
        encode_packed(&part, &mut packed);
        put_part(out, &packed);
    }
}

fn encode_packed(numbers: &[u64], out: &mut Vec<u8>) {
    let vectors = numbers.chunks(VECTOR_ROWS);
    let mut directory = Vec::with_capacity(vectors.len() * ENTRY_BYTES);
    let mut payload = Vec::new();
    for vector in vectors {
        let offset = payload.len() as u32;
        let (base, width, form) = encode_vector(vector, &mut payload);
        directory.extend_from_slice(&base.to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(&[width as u8, form, 0, 0]);
    }
    out.push(PACKED);
    out.extend_from_slice(&directory);
    out.extend_from_slice(&payload);
}

/// The least and the greatest, as signed numbers.
fn extremes(numbers: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    let signed = || numbers.clone().map(|number| number as i64);
    (signed().min().unwrap_or(0) as u64, signed().max().unwrap_or(0) as u64)
}

fn encode_vector(numbers: &[u64], payload: &mut Vec<u8>) -> (u64, u32, u8) {
    let (least, greatest) = extremes(numbers.iter().copied());
    let width = width_of(greatest.wrapping_sub(least));
    let differences = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    let (step, largest) = extremes(differences.clone());
    let difference_width = width_of(largest.wrapping_sub(step));
    let (part, whole) = DIFFERENCES_BITS;
    let mut stored = [0; VECTOR_ROWS];
    if difference_width * whole <= width * part && numbers.len() > 1 && width > 1 {
        payload.extend_from_slice(&step.to_le_bytes());
        stored[1..].iter_mut().zip(differences).for_each(|(stored, number)| *stored = number.wrapping_sub(step));
        pack(&stored, difference_width, payload);
        return (numbers[0], difference_width, 1);
    }
    stored.iter_mut().zip(numbers).for_each(|(stored, number)| *stored = number.wrapping_sub(least));
    pack(&stored, width, payload);
    (least, width, 0)
}

impl Packed {
    fn open(rows: usize, mut reader: Reader) -> Result<Self> {
        if reader.u8()? != PACKED {
            return damaged("its numbers are of a form that is not known");
        }
        let count = rows.div_ceil(VECTOR_ROWS);
        let mut directory = Reader::new(reader.take(count * ENTRY_BYTES)?);
        let payload = reader.rest();
        let vectors = (0..count).map(|_| Vector::open(&mut directory, &payload)).collect::<Result<Vec<_>>>()?;
        Ok(Self { vectors, payload })
    }

    /// The bits of a vector.
    pub fn bits(&self, vector: &Vector) -> &[u8] {
        &self.payload[vector.offset..vector.offset + packed_bytes(vector.width)]
    }

    /// The whole vector.
    pub fn unpack<W: Word>(&self, vector: &Vector, out: &mut [W]) {
        let Some(step) = vector.step else {
            return unpack(self.bits(vector), vector.width, W::of_u64(vector.base), out);
        };
        unpack(self.bits(vector), vector.width, W::of_u64(step), out);
        // The first one has no difference: what is stored is 0.
        let mut sum = W::of_u64(vector.base.wrapping_sub(step));
        for value in &mut out[..VECTOR_ROWS] {
            sum = sum.plus(*value);
            *value = sum;
        }
    }

    fn all<W: Word>(&self, rows: usize) -> Vec<W> {
        let mut all = vec![W::default(); self.vectors.len() * VECTOR_ROWS];
        for (vector, out) in self.vectors.iter().zip(all.chunks_exact_mut(VECTOR_ROWS)) {
            self.unpack(vector, out);
        }
        all.truncate(rows);
        all
    }
}

impl Vector {
    fn open(directory: &mut Reader, payload: &[u8]) -> Result<Self> {
        let base = directory.u64()?;
        let mut offset = directory.u32()? as usize;
        let [width, form, ..] = directory.array::<4>()?;
        let width = u32::from(width);
        let step = match form {
            0 => None,
            1 => {
                let step = payload.get(offset..).and_then(|bytes| bytes.first_chunk());
                offset += size_of::<u64>();
                Some(u64::from_le_bytes(*step.ok_or_else(|| Damaged("a vector is not there".to_owned()))?))
            }
            _ => return damaged("a vector is of a form that is not known"),
        };
        if width > u64::BITS || offset + packed_bytes(width) > payload.len() {
            return damaged("a vector is not there");
        }
        Ok(Self { base, offset, width, step })
    }
}

impl Integers {
    /// Reads a column of so many rows. Fails if the bytes are not one.
    pub fn open(rows: usize, mut reader: Reader) -> Result<Self> {
        let whole = reader.clone();
        let form = match reader.u8()? {
            CONSTANT => {
                let number = reader.u64()?;
                reader.end()?;
                Form::Constant(number)
            }
            PACKED => Form::Packed(Packed::open(rows, whole)?),
            RUNS => {
                let count = reader.u32()? as usize;
                if count > rows {
                    return damaged("it has more runs than rows");
                }
                let numbers = Packed::open(count, reader.part()?)?.all(count);
                let ends = Packed::open(count, reader.part()?)?.all::<u32>(count);
                reader.end()?;
                let ascends = ends.first().is_some_and(|end| *end > 0) && ends.windows(2).all(|pair| pair[0] < pair[1]);
                if !ascends || ends.last().is_none_or(|end| *end as usize != rows) {
                    return damaged("its runs do not end where its rows do");
                }
                Form::Runs { numbers, ends }
            }
            _ => return damaged("its numbers are of a form that is not known"),
        };
        Ok(Self { rows, form })
    }

    /// What the form is called.
    pub fn form(&self) -> &'static str {
        match &self.form {
            Form::Constant(_) => "constant",
            Form::Packed(packed)
                if packed.vectors.iter().filter(|v| v.step.is_some()).count() * 2 > packed.vectors.len() =>
            {
                "differences"
            }
            Form::Packed(_) => "packed",
            Form::Runs { .. } => "runs",
        }
    }

    /// Bytes that it holds beside those that it was opened with.
    pub fn own_bytes(&self) -> usize {
        match &self.form {
            Form::Constant(_) => 0,
            Form::Packed(packed) => packed.vectors.len() * size_of::<Vector>(),
            Form::Runs { numbers, ends } => size_of_val(&**numbers) + size_of_val(&**ends),
        }
    }

    /// Appends the numbers of some rows; of those that are selected, if `selected` says which: it has a bit for each.
    /// The rows are all there.
    pub fn read<W: Word>(&self, rows: Range<usize>, selected: Option<&BooleanBuffer>, out: &mut Vec<W>) {
        match &self.form {
            Form::Constant(number) => {
                let count = selected.map_or(rows.len(), BooleanBuffer::count_set_bits);
                out.extend(std::iter::repeat_n(W::of_u64(*number), count));
            }
            Form::Packed(packed) => read_packed(packed, rows, selected, out),
            Form::Runs { numbers, ends } => read_runs(numbers, ends, rows, selected, out),
        }
    }
}

/// The parts of `rows` by vector: its number, and which of its rows.
pub(crate) fn parts(rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    (rows.start / VECTOR_ROWS..rows.end.div_ceil(VECTOR_ROWS)).map(move |vector| {
        let first = vector * VECTOR_ROWS;
        (vector, rows.start.max(first) - first..rows.end.min(first + VECTOR_ROWS) - first)
    })
}

fn read_packed<W: Word>(packed: &Packed, rows: Range<usize>, selected: Option<&BooleanBuffer>, out: &mut Vec<W>) {
    let count = selected.map_or(rows.len(), BooleanBuffer::count_set_bits);
    out.reserve(count);
    let mut scratch = [W::default(); VECTOR_ROWS];
    let mut at = 0;
    for (number, part) in parts(rows) {
        let vector = &packed.vectors[number];
        let wanted = selected.map(|selected| selected.slice(at, part.len()));
        at += part.len();
        let count = wanted.as_ref().map_or(part.len(), BooleanBuffer::count_set_bits);
        if count == 0 {
            continue;
        }
        if count == VECTOR_ROWS {
            let start = out.len();
            out.resize(start + VECTOR_ROWS, W::default());
            packed.unpack(vector, &mut out[start..]);
            continue;
        }
        if count * FEW_PARTS <= VECTOR_ROWS && vector.step.is_none() {
            let (bits, base) = (packed.bits(vector), W::of_u64(vector.base));
            let one = |place: usize| W::of_u64(unpack_one(bits, vector.width, place)).plus(base);
            match &wanted {
                None => out.extend(part.map(one)),
                Some(wanted) => out.extend(wanted.set_indices().map(|place| one(part.start + place))),
            }
            continue;
        }
        packed.unpack(vector, &mut scratch);
        match &wanted {
            None => out.extend_from_slice(&scratch[part]),
            Some(wanted) => choose(&scratch[part], wanted, out),
        }
    }
}

/// Appends the values that are wanted.
pub(crate) fn choose<T: Copy>(values: &[T], wanted: &BooleanBuffer, out: &mut Vec<T>) {
    if wanted.count_set_bits() == values.len() {
        return out.extend_from_slice(values);
    }
    out.extend(wanted.set_indices().map(|place| values[place]));
}

fn read_runs<W: Word>(
    numbers: &[u64],
    ends: &[u32],
    rows: Range<usize>,
    selected: Option<&BooleanBuffer>,
    out: &mut Vec<W>,
) {
    let mut run = ends.partition_point(|end| *end as usize <= rows.start);
    match selected {
        None => {
            let mut at = rows.start;
            while at < rows.end {
                let end = (ends[run] as usize).min(rows.end);
                out.extend(std::iter::repeat_n(W::of_u64(numbers[run]), end - at));
                (at, run) = (end, run + 1);
            }
        }
        Some(selected) => {
            for place in selected.set_indices() {
                while ends[run] as usize <= rows.start + place {
                    run += 1;
                }
                out.push(W::of_u64(numbers[run]));
            }
        }
    }
}

impl Integers {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }
}
