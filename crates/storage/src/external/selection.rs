//! Selections: bits that say which rows stay, of all rows or of those that are still left.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::compute::{FilterBuilder, FilterPredicate};
use diligence_base::Result;

use crate::foreign_error::from_arrow;

/// Which rows are true, NULL counting as false.
pub(crate) fn true_rows(keep: &BooleanArray) -> BooleanBuffer {
    match keep.nulls() {
        Some(nulls) if nulls.null_count() > 0 => keep.values() & nulls.inner(),
        _ => keep.values().clone(),
    }
}

/// The rows of an array that are kept.
pub(crate) fn filter_array(array: &ArrayRef, keep: &BooleanBuffer) -> Result<ArrayRef> {
    chooser(keep).filter(array).map_err(from_arrow)
}

pub(crate) fn chooser(keep: &BooleanBuffer) -> FilterPredicate {
    FilterBuilder::new(&BooleanArray::new(keep.clone(), None)).optimize().build()
}

/// `keep` answers for the rows set in `before`: the rows of the window that are set in `before` and kept.
pub(crate) fn deposit(before: &BooleanBuffer, keep: &BooleanBuffer) -> BooleanBuffer {
    let mut at = 0;
    let words = before.bit_chunks().iter_padded().map(|word| {
        let count = word.count_ones() as usize;
        let bits = bits_at(keep, at, count);
        at += count;
        deposit_word(bits, word)
    });
    let words = words.take(before.len().div_ceil(64)).collect::<Vec<u64>>();
    BooleanBuffer::new(Buffer::from_vec(words), 0, before.len())
}

/// Both over the same rows: which of the rows set in `before` are set in `now`.
pub(crate) fn extract(now: &BooleanBuffer, before: &BooleanBuffer) -> BooleanBuffer {
    let length = before.count_set_bits();
    let mut out = Vec::with_capacity(length.div_ceil(64) + 1);
    let (mut word, mut filled) = (0u64, 0);
    for (now, before) in now.bit_chunks().iter_padded().zip(before.bit_chunks().iter_padded()) {
        let (bits, count) = (extract_word(now, before), before.count_ones());
        word |= bits << filled;
        if filled + count >= 64 {
            out.push(word);
            // Shifting by a word's width is no shift.
            word = bits.checked_shr(64 - filled).unwrap_or(0);
            filled = filled + count - 64;
        } else {
            filled += count;
        }
    }
    out.push(word);
    BooleanBuffer::new(Buffer::from_vec(out), 0, length)
}

/// `count` bits (at most 64) from bit `at`.
fn bits_at(bits: &BooleanBuffer, at: usize, count: usize) -> u64 {
    if count == 0 {
        return 0;
    }
    let at = bits.offset() + at;
    let (byte, shift) = (at / 8, at % 8);
    let bytes = &bits.inner().as_slice()[byte..];
    let mut low = [0; 8];
    let here = bytes.len().min(8);
    low[..here].copy_from_slice(&bytes[..here]);
    let low = u64::from_le_bytes(low) >> shift;
    let high = match bytes.get(8) {
        Some(&high) if shift > 0 => u64::from(high) << (64 - shift),
        _ => 0,
    };
    (low | high) & (u64::MAX >> (64 - count))
}

/// The lowest bits of `bits`, one to each bit set in `mask`.
#[inline]
fn deposit_word(bits: u64, mask: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "bmi2"))]
    // SAFETY: the target has the instruction.
    return unsafe { std::arch::x86_64::_pdep_u64(bits, mask) };
    #[cfg(not(all(target_arch = "x86_64", target_feature = "bmi2")))]
    {
        let (mut bits, mut mask, mut out) = (bits, mask, 0);
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            if bits & 1 == 1 {
                out |= lowest;
            }
            bits >>= 1;
            mask ^= lowest;
        }
        out
    }
}

/// The bits of `bits` at the bits set in `mask`, next to each other.
#[inline]
fn extract_word(bits: u64, mask: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "bmi2"))]
    // SAFETY: the target has the instruction.
    return unsafe { std::arch::x86_64::_pext_u64(bits, mask) };
    #[cfg(not(all(target_arch = "x86_64", target_feature = "bmi2")))]
    {
        let (mut mask, mut out, mut at) = (mask, 0, 0);
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            out |= u64::from(bits & lowest != 0) << at;
            at += 1;
            mask ^= lowest;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selections_compose(
            before in prop::collection::vec(any::<bool>(), 0..300),
            keep in prop::collection::vec(any::<bool>(), 300),
            offset in 0usize..9,
        ) {
            let before = BooleanBuffer::from(before);
            let kept = before.count_set_bits();
            let keep = BooleanBuffer::from(keep).slice(offset, kept.min(300 - offset));
            prop_assume!(keep.len() == kept);
            let now = deposit(&before, &keep);
            let mut answers = keep.iter();
            let expected = before.iter().map(|set| set && answers.next().unwrap()).collect::<Vec<_>>();
            prop_assert_eq!(now.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(extract(&now, &before).iter().collect::<Vec<_>>(), keep.iter().collect::<Vec<_>>());
        }

        #[test]
        fn what_was_kept_of_a_selection_is_found_again(
            rows in prop::collection::vec((any::<bool>(), any::<bool>()), 0..300),
        ) {
            let now = BooleanBuffer::from(rows.iter().map(|row| row.0).collect::<Vec<_>>());
            let before = BooleanBuffer::from(rows.iter().map(|row| row.1).collect::<Vec<_>>());
            let expected = rows.iter().filter(|row| row.1).map(|row| row.0).collect::<Vec<_>>();
            prop_assert_eq!(extract(&now, &before).iter().collect::<Vec<_>>(), expected);
        }
    }
}
