//! Vectors of 1,024 whole numbers, each in as many bits as the largest of them needs.
//!
//! A vector is divided into *lanes*: 32 of 32 bits for widths up to 32, 16 of 64 bits for larger ones. The value `i` is
//! in lane `i % lanes`, behind the values of that lane before it; words of the lanes alternate. So one shift serves a
//! whole row of lanes, and the compiler makes vector instructions of it whatever the width is:
//!
//! ```text
//!   bytes:   word 0 of lane 0 | word 0 of lane 1 | … | word 1 of lane 0 | …
//!   lane:    value l | value l + lanes | value l + 2 lanes | …      each `width` bits, lowest first
//! ```
//!
//! What a value is counts from a base, which unpacking adds; both wrap around.

/// Values of a vector.
pub const VECTOR_ROWS: usize = 1024;

/// Bytes of the words of one row of lanes.
const ROW_BYTES: usize = 128;
const LANES_32: usize = 32;
const LANES_64: usize = 16;

/// A whole number as it is stored: without a sign, of some width.
pub trait Word: Copy + Default + Send + Sync + 'static {
    /// The lowest bits.
    fn of_u32(bits: u32) -> Self;
    /// The lowest bits.
    fn of_u64(bits: u64) -> Self;
    /// The sum, which wraps around.
    fn plus(self, other: Self) -> Self;
}

macro_rules! word {
    ($($type:ty),*) => {$(
        impl Word for $type {
            #[inline(always)]
            fn of_u32(bits: u32) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn of_u64(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
word!(u8, u16, u32, u64);

/// Bytes of a packed vector.
pub const fn packed_bytes(width: u32) -> usize {
    width as usize * ROW_BYTES
}

/// The bits that a number needs.
pub fn width_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Appends the vector; no value has more bits than `width`, which is 64 at most.
pub fn pack(values: &[u64; VECTOR_ROWS], width: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + packed_bytes(width), 0);
    if width == 0 {
        return;
    }
    let (lanes, bits) = lanes_of(width);
    let mut words = vec![0u64; packed_bytes(width) / (bits as usize / 8)];
    for (row, values) in values.chunks_exact(lanes).enumerate() {
        let bit = row as u32 * width;
        let (low, shift) = ((bit / bits) as usize * lanes, bit % bits);
        words[low..low + lanes].iter_mut().zip(values).for_each(|(word, value)| *word |= value << shift);
        if shift + width > bits {
            let high = &mut words[low + lanes..low + 2 * lanes];
            high.iter_mut().zip(values).for_each(|(word, value)| *word |= value >> (bits - shift));
        }
    }
    let word_bytes = bits as usize / 8;
    for (bytes, word) in out[start..].chunks_exact_mut(word_bytes).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes()[..word_bytes]);
    }
}

fn lanes_of(width: u32) -> (usize, u32) {
    if width <= 32 { (LANES_32, 32) } else { (LANES_64, 64) }
}

/// Unpacks a whole vector into the first places of `out`, with `base` added to each value. `packed` has
/// [`packed_bytes`] of the width at least, `out` a vector's places.
pub fn unpack<W: Word>(packed: &[u8], width: u32, base: W, out: &mut [W]) {
    let out = &mut out[..VECTOR_ROWS];
    match width {
        0 => out.fill(base),
        1..=32 => unpack_32(&packed[..packed_bytes(width)], width, base, out),
        _ => unpack_64(&packed[..packed_bytes(width)], width, base, out),
    }
}

macro_rules! unpack_lanes {
    ($name:ident, $lane:ty, $lanes:ident, $of:ident) => {
        #[inline(never)]
        fn $name<W: Word>(packed: &[u8], width: u32, base: W, out: &mut [W]) {
            const BITS: u32 = <$lane>::BITS;
            let (words, _) = packed.as_chunks::<ROW_BYTES>();
            let mask = <$lane>::MAX >> (BITS - width);
            let (rows, _) = out.as_chunks_mut::<$lanes>();
            let mut bit = 0;
            for row in rows {
                let (word, shift) = ((bit / BITS) as usize, bit % BITS);
                let (low, _) = words[word].as_chunks::<{ BITS as usize / 8 }>();
                if shift + width <= BITS {
                    for lane in 0..$lanes {
                        let value = (<$lane>::from_le_bytes(low[lane]) >> shift) & mask;
                        row[lane] = W::$of(value).plus(base);
                    }
                } else {
                    let (high, _) = words[word + 1].as_chunks::<{ BITS as usize / 8 }>();
                    for lane in 0..$lanes {
                        let low = <$lane>::from_le_bytes(low[lane]) >> shift;
                        let high = <$lane>::from_le_bytes(high[lane]) << (BITS - shift);
                        row[lane] = W::$of((low | high) & mask).plus(base);
                    }
                }
                bit += width;
            }
        }
    };
}
unpack_lanes!(unpack_32, u32, LANES_32, of_u32);
unpack_lanes!(unpack_64, u64, LANES_64, of_u64);

/// One value of a packed vector, without a base.
#[inline]
pub fn unpack_one(packed: &[u8], width: u32, place: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let (lanes, bits) = lanes_of(width);
    let (row, lane) = (place / lanes, place % lanes);
    let bit = row as u32 * width;
    let (word, shift) = ((bit / bits) as usize * lanes + lane, bit % bits);
    let word_at = |word: usize| match bits {
        32 => u64::from(u32::from_le_bytes(bytes_at(packed, word * 4))),
        _ => u64::from_le_bytes(bytes_at(packed, word * 8)),
    };
    let mut value = word_at(word) >> shift;
    if shift + width > bits {
        value |= word_at(word + lanes) << (bits - shift);
    }
    value & (u64::MAX >> (64 - width))
}

#[inline(always)]
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..].first_chunk().copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn every_width_comes_back_whole_and_one_by_one() {
        let mut random = SmallRng::seed_from_u64(7);
        for width in 0..=64u32 {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let mut values = [0; VECTOR_ROWS];
            values.fill_with(|| random.random::<u64>() & mask);
            (values[0], values[VECTOR_ROWS - 1]) = (mask, mask);
            let mut packed = Vec::new();
            pack(&values, width, &mut packed);
            assert_eq!(packed.len(), packed_bytes(width));
            let base = random.random::<u64>();
            let mut out = [0u64; VECTOR_ROWS];
            unpack(&packed, width, base, &mut out);
            let expected = values.map(|value| value.wrapping_add(base));
            assert!(out == expected, "width {width}");
            let mut narrow = [0u16; VECTOR_ROWS];
            unpack(&packed, width, base as u16, &mut narrow);
            assert!(narrow == expected.map(|value| value as u16), "width {width} as 16 bits");
            for (place, value) in values.iter().enumerate() {
                assert_eq!(unpack_one(&packed, width, place), *value, "width {width}, value {place}");
            }
        }
    }

    #[test]
    fn widths_are_as_small_as_they_can_be() {
        let cases = [(0, 0), (1, 1), (2, 2), (3, 2), (255, 8), (256, 9), (u64::MAX, 64)];
        for (largest, width) in cases {
            assert_eq!(width_of(largest), width, "{largest}");
        }
    }
}
