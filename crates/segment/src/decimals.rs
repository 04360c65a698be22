//! Doubles that are decimal numbers inside, as whole numbers.
//!
//! Prices, rates and measurements are decimals of a few digits, whatever type holds them. A double `d` is stored as the
//! whole number next to `d · 10^e · 10^-f`, if that number, multiplied back, is `d` to the last bit; where it is not,
//! `d` itself is stored as an *exception*. One pair of `e` and `f` serves a chunk; a sample decides (Afroozeh, Kuffo
//! and Boncz, "ALP: Adaptive Lossless floating-Point Compression", SIGMOD 2023).
//!
//! ```text
//!   e (u8) | f (u8) | exceptions (u32) | rows of exceptions (u32 each), ascending | their values (f64 each) | numbers
//! ```

use std::ops::Range;

use arrow::buffer::BooleanBuffer;

use crate::damage::{Reader, Result, damaged};
use crate::integers::{self, Integers};

/// `10^18` is the largest power that every whole number up to it has as a double nearby.
const EXPONENT_MAX: usize = 18;
/// Values that are looked at to choose the pair.
const SAMPLE_ROWS: usize = 256;
/// More exceptions than one in so many rows, and the doubles are stored as they are.
const EXCEPTION_PARTS: usize = 8;
/// Whole numbers beyond this are not exact as doubles.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

const POWERS: [f64; EXPONENT_MAX + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const PARTS: [f64; EXPONENT_MAX + 1] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17,
    1e-18,
];

/// A column of doubles.
#[derive(Clone, Debug)]
pub(crate) struct Decimals {
    e: usize,
    f: usize,
    numbers: Integers,
    /// The rows of the exceptions, ascending, and their values.
    exceptions: Vec<(u32, f64)>,
}

fn to_whole(value: f64, e: usize, f: usize) -> Option<i64> {
    let whole = (value * POWERS[e] * PARTS[f]).round_ties_even();
    // NaN is not.
    let is_whole = whole.abs() <= WHOLE_MAX;
    let whole = if is_whole { whole as i64 } else { return None };
    (to_double(whole, e, f).to_bits() == value.to_bits()).then_some(whole)
}

#[inline(always)]
fn to_double(whole: i64, e: usize, f: usize) -> f64 {
    whole as f64 * POWERS[f] * PARTS[e]
}

/// The doubles as bytes; `None` if too many of them are no decimals.
pub(crate) fn encode(values: &[f64]) -> Option<Vec<u8>> {
    let stride = values.len().div_ceil(SAMPLE_ROWS).max(1);
    let sample = values.iter().step_by(stride).copied().collect::<Vec<_>>();
    let (e, f) = best_pair(&sample)?;
    let (mut numbers, mut exceptions) = (Vec::with_capacity(values.len()), Vec::new());
    let mut before = values.iter().find_map(|value| to_whole(*value, e, f))?;
    for (row, value) in values.iter().enumerate() {
        match to_whole(*value, e, f) {
            Some(whole) => before = whole,
            None => exceptions.push((row as u32, *value)),
        }
        numbers.push(before as u64);
        if exceptions.len() * EXCEPTION_PARTS > values.len() {
            return None;
        }
    }
    let mut out = vec![e as u8, f as u8];
    out.extend_from_slice(&(exceptions.len() as u32).to_le_bytes());
    exceptions.iter().for_each(|(row, _)| out.extend_from_slice(&row.to_le_bytes()));
    exceptions.iter().for_each(|(_, value)| out.extend_from_slice(&value.to_le_bytes()));
    integers::encode(&numbers, &mut out);
    (out.len() < size_of_val(values)).then_some(out)
}

/// The pair with the fewest bits and exceptions; `None` if there is none with few exceptions.
fn best_pair(sample: &[f64]) -> Option<(usize, usize)> {
    let cost = |e: usize, f: usize| {
        let (mut least, mut greatest, mut exceptions) = (i64::MAX, i64::MIN, 0usize);
        for value in sample {
            match to_whole(*value, e, f) {
                Some(whole) => (least, greatest) = (least.min(whole), greatest.max(whole)),
                None => exceptions += 1,
            }
        }
        if exceptions * EXCEPTION_PARTS > sample.len() {
            return None;
        }
        let bits = 64 - (greatest.wrapping_sub(least) as u64).leading_zeros() as usize;
        Some(sample.len() * bits + exceptions * 96)
    };
    let pairs = (0..=EXPONENT_MAX).rev().flat_map(|e| (0..=e).rev().map(move |f| (e, f)));
    let costs = pairs.filter_map(|(e, f)| Some((cost(e, f)?, e, f)));
    costs.min().map(|(_, e, f)| (e, f))
}

impl Decimals {
    /// Reads a column of so many rows. Fails if the bytes are not one.
    pub fn open(rows: usize, mut reader: Reader) -> Result<Self> {
        let (e, f) = (usize::from(reader.u8()?), usize::from(reader.u8()?));
        let count = reader.u32()? as usize;
        if e > EXPONENT_MAX || f > e || count > rows {
            return damaged("its decimals are of a form that is not known");
        }
        let places = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>>>()?;
        if places.windows(2).any(|pair| pair[0] >= pair[1]) || places.last().is_some_and(|last| *last as usize >= rows)
        {
            return damaged("its exceptions are not in order");
        }
        let values = (0..count).map(|_| Ok(f64::from_le_bytes(reader.array()?))).collect::<Result<Vec<_>>>()?;
        let exceptions = places.into_iter().zip(values).collect();
        Ok(Self { e, f, numbers: Integers::open(rows, reader)?, exceptions })
    }

    /// Bytes that it holds beside those that it was opened with.
    pub fn own_bytes(&self) -> usize {
        self.numbers.own_bytes() + size_of_val(&*self.exceptions)
    }

    /// The values of some rows; of those that are selected, if `selected` says which.
    pub fn read(&self, rows: Range<usize>, selected: Option<&BooleanBuffer>) -> Vec<f64> {
        let mut numbers = Vec::<u64>::new();
        self.numbers.read(rows.clone(), selected, &mut numbers);
        let mut values = numbers.into_iter().map(|whole| to_double(whole as i64, self.e, self.f)).collect::<Vec<f64>>();
        let from = self.exceptions.partition_point(|(row, _)| (*row as usize) < rows.start);
        for (row, value) in &self.exceptions[from..] {
            let place = *row as usize - rows.start;
            if place >= rows.len() {
                break;
            }
            match selected {
                None => values[place] = *value,
                Some(selected) if selected.value(place) => {
                    values[selected.slice(0, place).count_set_bits()] = *value;
                }
                Some(_) => {}
            }
        }
        values
    }
}
