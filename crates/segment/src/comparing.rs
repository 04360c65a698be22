//! Compares packed numbers, as they are: with ranges, and codes with what is known of each code.
//!
//! A vector's base and width often tell the answer for all of it. Otherwise the differences to the base are compared,
//! which are narrower than the numbers. Equal neighbors that are stored once are compared once.

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, Buffer};

use crate::bits::{VECTOR_ROWS, unpack};
use crate::integers::{Form, Integers, Packed, parts};

/// Up to so many ranges are compared one after another, in vector registers.
const LINEAR_RANGES_MAX: usize = 8;
/// Differences of so many bits at most have a table of answers, if there are more ranges.
const TABLE_BITS_MAX: u32 = 12;

/// Whether a number is in one of some ranges, which ascend and do not touch.
fn is_within(ranges: &[(i64, i64)], number: i64) -> bool {
    let behind = ranges.partition_point(|(least, _)| *least <= number);
    ranges[..behind].last().is_some_and(|(_, greatest)| number <= *greatest)
}

impl Integers {
    /// For each of some rows whether its number, as a signed one, is in one of the ranges: of a least and a greatest
    /// number each, which ascend and do not touch.
    pub fn are_within(&self, rows: Range<usize>, ranges: &[(i64, i64)]) -> BooleanBuffer {
        match &self.form {
            Form::Constant(number) => all_or_none(rows.len(), is_within(ranges, *number as i64)),
            Form::Packed(packed) => packed_within(packed, rows, ranges),
            Form::Runs { numbers, ends } => {
                by_runs(ends, rows, |run| numbers.get(run).is_some_and(|number| is_within(ranges, *number as i64)))
            }
        }
    }

    /// For each of some rows whether the bit of its number is set; bits that are not there are not.
    pub fn are_among(&self, rows: Range<usize>, wanted: &BooleanBuffer) -> BooleanBuffer {
        let is_wanted = |number: u64| number < wanted.len() as u64 && wanted.value(number as usize);
        match &self.form {
            Form::Constant(number) => all_or_none(rows.len(), is_wanted(*number)),
            Form::Runs { numbers, ends } => {
                by_runs(ends, rows, |run| numbers.get(run).is_some_and(|number| is_wanted(*number)))
            }
            Form::Packed(_) => {
                // Values of a dictionary are in order: what is wanted of them often lies side by side.
                let ranges = wanted.set_slices().take(LINEAR_RANGES_MAX + 1);
                let ranges = ranges.map(|(first, end)| (first as i64, end as i64 - 1)).collect::<Vec<_>>();
                if ranges.len() <= LINEAR_RANGES_MAX {
                    return self.are_within(rows, &ranges);
                }
                let mut numbers = Vec::<u32>::new();
                self.read(rows.clone(), None, &mut numbers);
                let mut words = vec![0; rows.len().div_ceil(64)];
                mark(&mut words, &numbers, |number| is_wanted(u64::from(number)));
                BooleanBuffer::new(Buffer::from_vec(words), 0, rows.len())
            }
        }
    }

    /// What is known of each run as what is known of each row.
    pub fn by_run(&self, rows: Range<usize>, wanted: &BooleanBuffer) -> Option<BooleanBuffer> {
        let is_wanted = |run: usize| run < wanted.len() && wanted.value(run);
        match &self.form {
            Form::Constant(_) => Some(all_or_none(rows.len(), is_wanted(0))),
            Form::Runs { ends, .. } => Some(by_runs(ends, rows, is_wanted)),
            Form::Packed(_) => None,
        }
    }

    /// How many runs it has; `None` if it is not stored in runs.
    pub fn runs(&self) -> Option<usize> {
        match &self.form {
            Form::Constant(_) => Some(1),
            Form::Runs { ends, .. } => Some(ends.len()),
            Form::Packed(_) => None,
        }
    }

    /// A bit for each row, set for the first one of each run; `None` if it is not stored in runs.
    pub fn first_rows(&self) -> Option<BooleanBuffer> {
        let mut bits = BooleanBufferBuilder::new(self.rows());
        bits.append_n(self.rows(), false);
        match &self.form {
            Form::Constant(_) => bits.set_bit(0, true),
            Form::Runs { ends, .. } => {
                let firsts = std::iter::once(0).chain(ends.iter().map(|end| *end as usize)).take(ends.len());
                firsts.for_each(|first| bits.set_bit(first, true));
            }
            Form::Packed(_) => return None,
        }
        Some(bits.finish())
    }
}

fn all_or_none(rows: usize, is_set: bool) -> BooleanBuffer {
    if is_set { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) }
}

fn by_runs(ends: &[u32], rows: Range<usize>, is_wanted: impl Fn(usize) -> bool) -> BooleanBuffer {
    let mut bits = BooleanBufferBuilder::new(rows.len());
    let mut at = rows.start;
    for run in ends.partition_point(|end| *end as usize <= rows.start)..ends.len() {
        if at == rows.end {
            break;
        }
        let end = (ends[run] as usize).min(rows.end);
        bits.append_n(end - at, is_wanted(run));
        at = end;
    }
    bits.finish()
}

/// Sets the bits of the values that are wanted; there is a word for each 64 of them.
fn mark<T: Copy>(words: &mut [u64], values: &[T], is_wanted: impl Fn(T) -> bool) {
    for (word, values) in words.iter_mut().zip(values.chunks(64)) {
        *word |= values.iter().enumerate().fold(0, |word, (place, value)| word | u64::from(is_wanted(*value)) << place);
    }
}

/// The ranges that numbers of a vector may be in: as the least difference to its base, and how many more there are.
fn differences(ranges: &[(i64, i64)], base: i64, largest: u64, out: &mut Vec<(u64, u64)>) {
    out.clear();
    let first = ranges.partition_point(|(_, greatest)| *greatest < base);
    for (least, greatest) in &ranges[first..] {
        let (from, to) = (i128::from(*least) - i128::from(base), i128::from(*greatest) - i128::from(base));
        if from > i128::from(largest) {
            break;
        }
        let from = from.max(0) as u64;
        out.push((from, to.min(i128::from(largest)) as u64 - from));
    }
}

fn packed_within(packed: &Packed, rows: Range<usize>, ranges: &[(i64, i64)]) -> BooleanBuffer {
    let mut bits = BooleanBufferBuilder::new(rows.len());
    let (mut wide, mut narrow) = ([0u64; VECTOR_ROWS], [0u32; VECTOR_ROWS]);
    let mut wanted = Vec::new();
    for (number, part) in parts(rows) {
        let vector = &packed.vectors[number];
        let mut words = vec![0; part.len().div_ceil(64)];
        if vector.step.is_some() {
            packed.unpack(vector, &mut wide);
            match ranges {
                [(least, greatest)] => {
                    mark(&mut words, &wide[part.clone()], |number| (least..=greatest).contains(&&(number as i64)));
                }
                _ => mark(&mut words, &wide[part.clone()], |number| is_within(ranges, number as i64)),
            }
        } else {
            let largest = if vector.width == 0 { 0 } else { u64::MAX >> (u64::BITS - vector.width) };
            differences(ranges, vector.base as i64, largest, &mut wanted);
            match wanted.as_slice() {
                [] => {
                    bits.append_n(part.len(), false);
                    continue;
                }
                [(0, span)] if *span == largest => {
                    bits.append_n(part.len(), true);
                    continue;
                }
                wanted if vector.width <= u32::BITS => {
                    unpack(packed.bits(vector), vector.width, 0, &mut narrow);
                    among_narrow(&mut words, &narrow[part.clone()], wanted, vector.width);
                }
                wanted => {
                    unpack(packed.bits(vector), vector.width, 0, &mut wide);
                    among_wide(&mut words, &wide[part.clone()], wanted);
                }
            }
        }
        bits.append_buffer(&BooleanBuffer::new(Buffer::from_vec(words), 0, part.len()));
    }
    bits.finish()
}

fn among_narrow(words: &mut [u64], values: &[u32], wanted: &[(u64, u64)], width: u32) {
    if wanted.len() <= LINEAR_RANGES_MAX {
        for (from, span) in wanted {
            let (from, span) = (*from as u32, *span as u32);
            mark(words, values, |number| number.wrapping_sub(from) <= span);
        }
    } else if width <= TABLE_BITS_MAX {
        let mut table = vec![false; 1 << width];
        wanted.iter().for_each(|(from, span)| table[*from as usize..=(from + span) as usize].fill(true));
        mark(words, values, |number| table[number as usize & (table.len() - 1)]);
    } else {
        mark(words, values, |number| is_in_one(wanted, u64::from(number)));
    }
}

fn among_wide(words: &mut [u64], values: &[u64], wanted: &[(u64, u64)]) {
    if wanted.len() <= LINEAR_RANGES_MAX {
        for (from, span) in wanted {
            mark(words, values, |number| number.wrapping_sub(*from) <= *span);
        }
    } else {
        mark(words, values, |number| is_in_one(wanted, number));
    }
}

fn is_in_one(wanted: &[(u64, u64)], number: u64) -> bool {
    let behind = wanted.partition_point(|(from, _)| *from <= number);
    wanted[..behind].last().is_some_and(|(from, span)| number - from <= *span)
}
