//! Parquet's hybrid of runs and bit-packed groups: definition levels and dictionary codes.
//!
//! Format: <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>. A run is a varint header: with its
//! lowest bit 0 the rest counts repetitions of one value, with 1 it counts groups of eight bit-packed values.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

/// The stream of numbers ended early or makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedRuns(pub &'static str);

/// Reads numbers from bytes that somebody else holds; the same bytes must be given to every call.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    width: u32,
    /// The next header.
    at: usize,
    end: usize,
    run: Run,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Same {
        value: u32,
        left: usize,
    },
    /// `left` values from value `next` of the group that begins at byte `start`.
    Packed {
        start: usize,
        next: usize,
        left: usize,
    },
}

impl Default for Run {
    fn default() -> Self {
        Run::Same { value: 0, left: 0 }
    }
}

impl Runs {
    /// Numbers of `width` bits (at most 32) in these bytes.
    pub fn new(width: u32, bytes: std::ops::Range<usize>) -> Result<Self, MalformedRuns> {
        if width > 32 {
            return Err(MalformedRuns("its codes are wider than 32 bits"));
        }
        Ok(Self { width, at: bytes.start, end: bytes.end, run: Run::default() })
    }

    /// If the next `count` numbers are of one run of equal values, passes them and returns the value.
    pub fn same(&mut self, bytes: &[u8], count: usize) -> Result<Option<u32>, MalformedRuns> {
        self.load(bytes)?;
        match &mut self.run {
            Run::Same { value, left } if *left >= count => {
                *left -= count;
                Ok(Some(*value))
            }
            _ => Ok(None),
        }
    }

    /// Fills `out` with the next numbers.
    pub fn read(&mut self, bytes: &[u8], mut out: &mut [u32]) -> Result<(), MalformedRuns> {
        while !out.is_empty() {
            self.load(bytes)?;
            let count = match &mut self.run {
                Run::Same { value, left } => {
                    let count = out.len().min(*left);
                    out[..count].fill(*value);
                    *left -= count;
                    count
                }
                Run::Packed { start, next, left } => {
                    let count = out.len().min(*left);
                    unpack(&bytes[*start..self.end], *next, self.width, &mut out[..count])?;
                    *next += count;
                    *left -= count;
                    count
                }
            };
            out = &mut out[count..];
        }
        Ok(())
    }

    /// Of the next `count` numbers, which must be of one bit, says which are 1.
    pub fn read_bits(&mut self, bytes: &[u8], count: usize) -> Result<BooleanBuffer, MalformedRuns> {
        debug_assert_eq!(self.width, 1);
        let mut out = BooleanBufferBuilder::new(count);
        while out.len() < count {
            self.load(bytes)?;
            let missing = count - out.len();
            match &mut self.run {
                Run::Same { value, left } => {
                    let here = missing.min(*left);
                    out.append_n(here, *value == 1);
                    *left -= here;
                }
                Run::Packed { start, next, left } => {
                    let here = missing.min(*left);
                    // Arrow packs bits in the same order. `load` has seen to it that they are there.
                    out.append_packed_range(*next..*next + here, &bytes[*start..self.end]);
                    *next += here;
                    *left -= here;
                }
            }
        }
        Ok(out.build())
    }

    /// Passes numbers.
    pub fn skip(&mut self, bytes: &[u8], mut count: usize) -> Result<(), MalformedRuns> {
        while count > 0 {
            self.load(bytes)?;
            let passed = match &mut self.run {
                Run::Same { left, .. } => {
                    let passed = count.min(*left);
                    *left -= passed;
                    passed
                }
                Run::Packed { next, left, .. } => {
                    let passed = count.min(*left);
                    *next += passed;
                    *left -= passed;
                    passed
                }
            };
            count -= passed;
        }
        Ok(())
    }

    /// Reads the next header if the run is used up.
    fn load(&mut self, bytes: &[u8]) -> Result<(), MalformedRuns> {
        loop {
            let left = match self.run {
                Run::Same { left, .. } | Run::Packed { left, .. } => left,
            };
            if left > 0 {
                return Ok(());
            }
            let mut header = 0u64;
            let mut shift = 0;
            loop {
                if self.at >= self.end {
                    return Err(MalformedRuns("it has fewer codes than values"));
                }
                let byte = bytes[self.at];
                self.at += 1;
                header |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
                if shift > 35 {
                    return Err(MalformedRuns("a run is too long"));
                }
            }
            let count = (header >> 1) as usize;
            if header & 1 == 0 {
                let size = self.width.div_ceil(8) as usize;
                let Some(raw) = bytes.get(self.at..(self.at + size).min(self.end)).filter(|raw| raw.len() == size)
                else {
                    return Err(MalformedRuns("a run is cut off"));
                };
                let mut value = [0; 4];
                value[..size].copy_from_slice(raw);
                self.at += size;
                self.run = Run::Same { value: u32::from_le_bytes(value), left: count };
            } else {
                let size = count * self.width as usize;
                // Some writers leave out the end of the last group.
                let here = size.min(self.end - self.at);
                let left = if self.width == 0 {
                    count * 8
                } else {
                    count.saturating_mul(8).min(here * 8 / self.width as usize)
                };
                self.run = Run::Packed { start: self.at, next: 0, left };
                self.at += here;
                if left == 0 && count > 0 {
                    return Err(MalformedRuns("a group is cut off"));
                }
            }
        }
    }
}

/// Unpacks numbers `first..` of a bit-packed group.
fn unpack(packed: &[u8], first: usize, width: u32, out: &mut [u32]) -> Result<(), MalformedRuns> {
    if width == 0 {
        out.fill(0);
        return Ok(());
    }
    let bits = width as usize;
    if (first + out.len()) * bits > packed.len() * 8 {
        return Err(MalformedRuns("a group is cut off"));
    }
    // One number at a time up to a whole group of eight, then groups, then the rest.
    let head = (first.next_multiple_of(8) - first).min(out.len());
    for (index, out) in out[..head].iter_mut().enumerate() {
        *out = one(packed, first + index, bits);
    }
    let groups = (out.len() - head) / 8;
    let start = (first + head) / 8 * bits;
    let (body, tail) = out[head..].split_at_mut(groups * 8);
    unpack_groups(&packed[start..], bits, body);
    for (index, out) in tail.iter_mut().enumerate() {
        *out = one(packed, first + head + groups * 8 + index, bits);
    }
    Ok(())
}

/// Number `index` of a group; its bits must be there.
#[inline]
fn one(packed: &[u8], index: usize, bits: usize) -> u32 {
    let bit = index * bits;
    let byte = bit / 8;
    let mut raw = [0; 8];
    let here = (packed.len() - byte).min(8);
    raw[..here].copy_from_slice(&packed[byte..byte + here]);
    (u64::from_le_bytes(raw) >> (bit % 8)) as u32 & mask(bits)
}

#[inline(always)]
fn mask(bits: usize) -> u32 {
    (u64::MAX >> (64 - bits)) as u32
}

macro_rules! by_width {
    ($bits:expr, $packed:expr, $out:expr, [$($width:literal)*]) => {
        match $bits {
            $($width => groups_of::<$width>($packed, $out),)*
            _ => {}
        }
    };
}

/// Unpacks whole groups of eight, with the width known to the compiler.
fn unpack_groups(packed: &[u8], bits: usize, out: &mut [u32]) {
    by_width!(bits, packed, out, [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32])
}

fn groups_of<const WIDTH: usize>(packed: &[u8], out: &mut [u32]) {
    let groups = out.len() / 8;
    // Each number is cut from eight bytes read at its first one, so a group is read up to seven bytes beyond its end;
    // the last groups, where those may be missing, are copied first.
    let safe = (packed.len().saturating_sub(WIDTH + 8) / WIDTH).min(groups);
    let (body, tail) = out.split_at_mut(safe * 8);
    for (group, out) in body.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let at = &packed[group * WIDTH..group * WIDTH + WIDTH + 8];
        group_of::<WIDTH>(at, out);
    }
    for (group, out) in tail.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let start = (safe + group) * WIDTH;
        let mut raw = [0; 48];
        let here = (packed.len() - start).min(WIDTH);
        raw[..here].copy_from_slice(&packed[start..start + here]);
        group_of::<WIDTH>(&raw[..WIDTH + 8], out);
    }
}

#[inline(always)]
fn group_of<const WIDTH: usize>(at: &[u8], out: &mut [u32; 8]) {
    for (index, out) in out.iter_mut().enumerate() {
        let bit = index * WIDTH;
        let byte = bit / 8;
        let raw: [u8; 8] = at[byte..byte + 8].try_into().unwrap_or_default();
        *out = (u64::from_le_bytes(raw) >> (bit % 8)) as u32 & mask(WIDTH);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Part {
        Same(u32, usize),
        Packed(Vec<u32>),
    }

    fn encode(parts: &[Part], width: u32) -> (Vec<u8>, Vec<u32>) {
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        let varint = |bytes: &mut Vec<u8>, mut value: usize| {
            while value >= 0x80 {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
        };
        let fit = |value: u32| if width == 0 { 0 } else { value & mask(width as usize) };
        for part in parts {
            match part {
                Part::Same(value, count) => {
                    varint(&mut bytes, count << 1);
                    bytes.extend(&fit(*value).to_le_bytes()[..width.div_ceil(8) as usize]);
                    numbers.extend(std::iter::repeat_n(fit(*value), *count));
                }
                Part::Packed(values) => {
                    let groups = values.len().div_ceil(8);
                    varint(&mut bytes, groups << 1 | 1);
                    let mut packed = vec![0u8; groups * width as usize];
                    for (index, value) in values.iter().enumerate() {
                        let value = fit(*value);
                        for bit in 0..width as usize {
                            let at = index * width as usize + bit;
                            packed[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
                        }
                        numbers.push(value);
                    }

                    bytes.extend(packed);
                }
            }
        }
        (bytes, numbers)
    }

    fn part() -> impl Strategy<Value = Part> {
        prop_oneof![
            (any::<u32>(), 1usize..300).prop_map(|(value, count)| Part::Same(value, count)),
            prop::collection::vec(any::<u32>(), 1..12).prop_map(|mut values| {
                values.resize(values.len() * 8, 5);
                Part::Packed(values)
            }),
        ]
    }

    proptest! {
        #[test]
        fn numbers_come_back_in_any_portions(
            parts in prop::collection::vec(part(), 0..8),
            width in 0u32..=32,
            portions in prop::collection::vec((1usize..50, any::<bool>()), 1..40),
        ) {
            let parts = parts.into_iter().collect::<Vec<_>>();
            let (bytes, numbers) = encode(&parts, width);
            let mut runs = Runs::new(width, 0..bytes.len()).unwrap();
            let mut at = 0;
            for (count, skip) in portions.into_iter().cycle().take(200) {
                let count = count.min(numbers.len() - at);
                if count == 0 { break }
                if skip {
                    runs.skip(&bytes, count).unwrap();
                } else {
                    let mut out = vec![0; count];
                    runs.read(&bytes, &mut out).unwrap();
                    prop_assert_eq!(&out, &numbers[at..at + count]);
                }
                at += count;
            }
            let mut rest = vec![0; numbers.len() - at + 1];
            prop_assert!(runs.read(&bytes, &mut rest).is_err());
        }

        #[test]
        fn bits_are_the_numbers_that_are_one(
            parts in prop::collection::vec(part(), 0..8),
            portions in prop::collection::vec((1usize..500, any::<bool>()), 1..40),
        ) {
            let (bytes, numbers) = encode(&parts, 1);
            let mut runs = Runs::new(1, 0..bytes.len()).unwrap();
            let mut at = 0;
            for (count, skip) in portions.into_iter().cycle().take(200) {
                let count = count.min(numbers.len() - at);
                if count == 0 { break }
                if skip {
                    runs.skip(&bytes, count).unwrap();
                } else {
                    let bits = runs.read_bits(&bytes, count).unwrap();
                    let expected = numbers[at..at + count].iter().map(|&number| number == 1).collect::<Vec<_>>();
                    prop_assert_eq!(bits.iter().collect::<Vec<_>>(), expected);
                }
                at += count;
            }
            prop_assert!(runs.read_bits(&bytes, numbers.len() - at + 1).is_err());
        }

        #[test]
        fn damaged_bytes_are_errors_or_other_numbers(bytes in prop::collection::vec(any::<u8>(), 0..60), width in 0u32..=32) {
            let mut runs = Runs::new(width, 0..bytes.len()).unwrap();
            let mut out = vec![0; 100];
            for _ in 0..50 {
                if runs.read(&bytes, &mut out).is_err() {
                    break;
                }
            }
        }
    }
}
