//! Bitmaps: one bit per row, packed from tests on values.
//!
//! Not about NULLs, except where a function says so: a bitmap here is the plain answer of a test on every slot, and the
//! caller joins it with the slots' validity.

use arrow::array::{Array, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

/// Rows whose answers make one word.
const WORD: usize = 64;

/// The answers of a test on every value.
///
/// The test runs over 64 values into 64 bytes first, which compilers turn into vector code for any width of value, and
/// the bytes are squeezed into a word then.
#[inline(always)]
pub(super) fn pack<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> BooleanBuffer {
    let mut words: Vec<u64> = Vec::with_capacity(values.len().div_ceil(WORD));
    let (chunks, rest) = values.as_chunks::<WORD>();
    for chunk in chunks {
        let mut flags = [0_u8; WORD];
        for (flag, value) in flags.iter_mut().zip(chunk) {
            *flag = u8::from(test(*value));
        }
        words.push(squeeze(&flags));
    }
    if !rest.is_empty() {
        let bits = rest.iter().enumerate().map(|(index, value)| u64::from(test(*value)) << index);
        words.push(bits.fold(0, |word, bit| word | bit));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

/// The answers of a test on every pair of values at the same place of two equally long slices.
#[inline(always)]
pub(super) fn pack_pairs<T: Copy>(left: &[T], right: &[T], test: impl Fn(T, T) -> bool) -> BooleanBuffer {
    debug_assert_eq!(left.len(), right.len());
    let mut words: Vec<u64> = Vec::with_capacity(left.len().div_ceil(WORD));
    let (left_chunks, left_rest) = left.as_chunks::<WORD>();
    let (right_chunks, right_rest) = right.as_chunks::<WORD>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        let mut flags = [0_u8; WORD];
        for ((flag, left), right) in flags.iter_mut().zip(left).zip(right) {
            *flag = u8::from(test(*left, *right));
        }
        words.push(squeeze(&flags));
    }
    if !left_rest.is_empty() {
        let pairs = left_rest.iter().zip(right_rest).enumerate();
        words.push(pairs.fold(0, |word, (index, (left, right))| word | (u64::from(test(*left, *right)) << index)));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, left.len())
}

/// Bitmaps one after another.
pub(super) fn joined(mut bitmaps: Vec<BooleanBuffer>) -> BooleanBuffer {
    if bitmaps.len() == 1
        && let Some(only) = bitmaps.pop()
    {
        return only;
    }
    let mut all = BooleanBufferBuilder::new(bitmaps.iter().map(BooleanBuffer::len).sum());
    bitmaps.iter().for_each(|bitmap| all.append_buffer(bitmap));
    all.finish()
}

/// 64 bytes of 0 or 1 as the bits of a word.
///
/// Eight bytes at a time: with byte `i` at bit `8i`, the multiplier has ones at the bits `7j` for `j` in 1..=8, so that
/// bit `8i + 7(8 - i) = 56 + i` of the product, in its top byte, is byte `i`; no two terms meet, so nothing carries.
#[inline(always)]
fn squeeze(flags: &[u8; WORD]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    let mut word = 0;
    for (index, eight) in eights.iter().enumerate() {
        let byte = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= byte << (8 * index);
    }
    word
}

/// For every byte the numbers of its set bits, then anything.
const SET_BITS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][found] = bit;
                found += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// The numbers of `count` set bits, ascending.
///
/// Eight numbers are written for every byte of the bitmap, of which the next byte's overwrite those that are none:
/// without branches, the time does not depend on how the set bits lie.
pub(super) fn set_rows(bits: &BooleanBuffer, count: usize) -> Vec<u32> {
    if count * 16 < bits.len() {
        let mut rows = Vec::with_capacity(count);
        rows.extend(bits.set_indices_u32());
        return rows;
    }
    let mut rows = vec![0_u32; count + 8];
    let mut filled = 0;
    let mut write = |byte: u8, first: u32| {
        let Some(room) = rows.get_mut(filled..filled + 8) else { return };
        for (row, bit) in room.iter_mut().zip(SET_BITS[byte as usize]) {
            *row = first + u32::from(bit);
        }
        filled += byte.count_ones() as usize;
    };
    let mut first = 0;
    for word in bits.bit_chunks().iter_padded() {
        for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
            write(byte, first + 8 * index as u32);
        }
        first += WORD as u32;
    }
    debug_assert_eq!(filled, count);
    rows.truncate(count);
    rows
}

/// The bits at valid slots; false at NULLs.
pub(super) fn at_valid(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 => &bits & nulls.inner(),
        _ => bits,
    }
}

/// The rows where a three-valued answer is `wanted`; NULL is neither true nor false.
pub(super) fn rows_that_are(wanted: bool, answer: &BooleanArray) -> BooleanBuffer {
    let bits = if wanted { answer.values().clone() } else { !answer.values() };
    at_valid(bits, answer.nulls())
}

/// The answer for every code, from the answers for the values that the codes stand for. A NULL code is NULL.
pub(super) fn look_up<C: Copy>(
    answers: &BooleanArray,
    codes: &[C],
    code_nulls: Option<&NullBuffer>,
    index: impl Fn(C) -> usize + Copy,
) -> BooleanArray {
    let bits = gather(answers.values(), codes, index);
    let nulls = match answers.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            NullBuffer::union(code_nulls, Some(&NullBuffer::new(gather(nulls.inner(), codes, index))))
        }
        _ => code_nulls.cloned(),
    };
    BooleanArray::new(bits, nulls)
}

/// Bit `codes[i]` of a table for every `i`. The codes at NULLs may be anything.
fn gather<C: Copy>(table: &BooleanBuffer, codes: &[C], index: impl Fn(C) -> usize) -> BooleanBuffer {
    if table.count_set_bits() == 0 {
        return BooleanBuffer::new_unset(codes.len());
    }
    if table.len() <= WORD {
        // The whole table in a register: no memory is read but the codes.
        let word = table.iter().enumerate().fold(0_u64, |word, (index, bit)| word | (u64::from(bit) << index));
        return pack(codes, |code| (word >> (index(code) % WORD)) & 1 != 0);
    }
    let bytes = table.iter().map(u8::from).collect::<Vec<_>>();
    pack(codes, |code| bytes.get(index(code)).is_some_and(|byte| *byte != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_agrees_with_the_plain_loop_at_every_length() {
        for length in [0, 1, 63, 64, 65, 127, 128, 200] {
            let values = (0..length).map(|value| (value * 7919) % 101).collect::<Vec<i64>>();
            let others = values.iter().rev().copied().collect::<Vec<_>>();
            let packed = pack(&values, |value| value < 50);
            let pairs = pack_pairs(&values, &others, |left, right| left < right);
            assert_eq!(packed.len(), values.len());
            for (index, value) in values.iter().enumerate() {
                assert_eq!(packed.value(index), *value < 50);
                assert_eq!(pairs.value(index), *value < others[index]);
            }
        }
    }

    #[test]
    fn the_rows_of_set_bits_are_found_in_sparse_and_dense_bitmaps() {
        for (length, every) in [(1, 1), (64, 1), (100, 1), (200, 2), (1000, 3), (1000, 40), (8192, 7), (777, 776)] {
            let bits = BooleanBuffer::collect_bool(length, |row| row % every == 0);
            for bits in [bits.clone(), bits.slice(length / 3, length - length / 3)] {
                let expected = (0..bits.len() as u32).filter(|row| bits.value(*row as usize)).collect::<Vec<_>>();
                assert_eq!(set_rows(&bits, expected.len()), expected, "{length} {every}");
            }
        }
    }

    #[test]
    fn a_look_up_takes_nulls_from_codes_and_from_values() {
        for size in [3, 70] {
            let answers = (0..size).map(|value| (value != 1).then_some(value == 2)).collect::<BooleanArray>();
            let nulls = NullBuffer::from(vec![true, true, true, false]);
            let found = look_up(&answers, &[2_i32, 1, 0, -5], Some(&nulls), |code| code as usize);
            assert_eq!(found.iter().collect::<Vec<_>>(), vec![Some(true), None, Some(false), None]);
        }
    }
}
