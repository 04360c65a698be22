//! How a group's key lies in memory: a few 64-bit words, the same number for every group of a table.
//!
//! ```text
//!   value words: 64-bit values, then narrower ones packed side by side; | null word(s): one bit per nullable column
//!                two words for a 128-bit value or for a string          |  (only while there is a NULL, see below)
//! ```
//!
//! * A string (or anything without a fixed width) takes two words. Up to
//!   [`INLINE_BYTES`](crate::batch::views::INLINE_BYTES) bytes it lies in them whole: length, then bytes, as in an
//!   Arrow view. A longer one leaves its length, its first four bytes and a hash of all of it; its bytes lie in an
//!   arena, and whoever finds equal words compares those too.
//! * NULL has value bits of zero and its null bit set. Null bits use spare bits of value words where all of them fit;
//!   otherwise they get words of their own at the end, and a table without any NULL leaves those out. That is why the
//!   hash skips null words that are zero: keys keep their hash when a table gets its null words later.
//!
//! Invariant: two keys are equal exactly if their words are, and the bytes of their long strings.

use std::sync::Arc;

use arrow::datatypes::DataType;
use arrow_row::{RowConverter, SortField};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use crate::operators::hashing::{COMBINE_MULTIPLIER, MULTIPLIER, SEED, folded};

/// What a key column's values look like in words.
#[derive(Clone)]
pub(super) enum KeyKind {
    /// The type that has only NULLs: no bits at all.
    Null,
    /// Values of at most 64 bits, this many; of floats with one zero.
    Bits(u32),
    /// A decimal of at most 18 digits as a 64-bit integer, whatever form it arrives in.
    NarrowDecimal,
    /// A decimal of more digits: two words, low first.
    WideDecimal,
    /// Strings and binary values.
    Bytes,
    /// Anything else, as the bytes of Arrow's row format; floats in it with one zero.
    Rows(Arc<RowConverter>),
}

/// One column of a key.
#[derive(Clone)]
pub(super) struct KeyColumn {
    /// The logical type, which comes out.
    pub logical: DataType,
    /// How values become words.
    pub kind: KeyKind,
    /// The (first) word.
    pub word: usize,
    /// The lowest bit in the word.
    pub shift: u32,
    /// Where the null bit is: word and bit.
    pub null_bit: Option<(usize, u32)>,
    /// Which of the table's byte columns it is, for `Bytes` and `Rows`.
    pub bytes_slot: Option<usize>,
}

/// The columns of a key and where each lies.
pub(super) struct KeyLayout {
    pub columns: Vec<KeyColumn>,
    /// Words that every key has.
    pub value_words: usize,
    /// Words at the end that only tables with a NULL have.
    pub null_words: usize,
    /// Columns that may have bytes in the arena.
    pub bytes_slots: usize,
}

impl KeyLayout {
    /// The layout for columns of these logical types; `true` where a column may be NULL.
    pub fn new(columns: &[(DataType, bool)]) -> Result<Self> {
        let mut placed = columns
            .iter()
            .map(|(logical, _)| {
                let kind = KeyKind::of(logical)?;
                Ok(KeyColumn { logical: logical.clone(), kind, word: 0, shift: 0, null_bit: None, bytes_slot: None })
            })
            .collect::<Result<Vec<_>>>()?;
        let mut bytes_slots = 0;
        for column in &mut placed {
            if matches!(column.kind, KeyKind::Bytes | KeyKind::Rows(_)) {
                column.bytes_slot = Some(bytes_slots);
                bytes_slots += 1;
            }
        }

        // Whole words first, then narrower values into the first word that has room: widest first, so nothing is
        // wasted.
        let mut used_bits: Vec<u32> = Vec::new();
        let mut order = (0..placed.len()).collect::<Vec<_>>();
        order.sort_by_key(|&index| std::cmp::Reverse(placed[index].kind.bits()));
        for index in order {
            let bits = placed[index].kind.bits();
            if bits >= 64 {
                placed[index].word = used_bits.len();
                used_bits.extend(std::iter::repeat_n(64, (bits / 64) as usize));
            } else if bits > 0 {
                let word = place(&mut used_bits, bits);
                placed[index].word = word;
                placed[index].shift = used_bits[word] - bits;
            }
        }
        let value_words = used_bits.len();

        let nullable = (0..placed.len()).filter(|&index| columns[index].1).collect::<Vec<_>>();
        let spare: u32 = used_bits.iter().map(|used| 64 - used).sum();
        let fits = nullable.len() <= spare as usize;
        let mut null_words = 0;
        if !fits {
            null_words = nullable.len().div_ceil(64);
            used_bits.iter_mut().for_each(|used| *used = 64);
        }
        for index in nullable {
            let word = place(&mut used_bits, 1);
            placed[index].null_bit = Some((word, used_bits[word] - 1));
        }
        debug_assert_eq!(used_bits.len(), value_words + null_words);
        Ok(Self { columns: placed, value_words, null_words, bytes_slots })
    }

    /// The layout of a group's key and a value of it beside each other: how DISTINCT's pairs lie in temp space. The
    /// group's words come first, [`words_max`](Self::words_max) of them; the last column is the value, placed as in
    /// `pairs`.
    pub fn beside(&self, pairs: &KeyLayout) -> Self {
        let mut columns = self.columns.clone();
        columns.iter_mut().for_each(|column| column.null_bit = None);
        if let Some(value) = pairs.columns.first() {
            let bytes_slot = value.bytes_slot.map(|_| self.bytes_slots);
            columns.push(KeyColumn { word: self.words_max() + value.word, bytes_slot, ..value.clone() });
        }
        let value_words = self.words_max() + pairs.value_words;
        Self { columns, value_words, null_words: 0, bytes_slots: self.bytes_slots + pairs.bytes_slots }
    }

    /// The words that hold the lengths of byte columns, in the order of their slots.
    pub fn bytes_words(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().filter(|column| column.bytes_slot.is_some()).map(|column| column.word)
    }

    /// Words of a key in a table that may hold NULLs.
    pub fn words_max(&self) -> usize {
        self.value_words + self.null_words
    }
}

/// Takes `bits` bits of the first word that has them, or of a new one.
fn place(used_bits: &mut Vec<u32>, bits: u32) -> usize {
    let word = used_bits.iter().position(|used| used + bits <= 64).unwrap_or_else(|| {
        used_bits.push(0);
        used_bits.len() - 1
    });
    used_bits[word] += bits;
    word
}

impl KeyKind {
    fn of(logical: &DataType) -> Result<Self> {
        use DataType::*;
        Ok(match logical {
            Null => Self::Null,
            Boolean => Self::Bits(1),
            Int8 | UInt8 => Self::Bits(8),
            Int16 | UInt16 | Float16 => Self::Bits(16),
            Int32 | UInt32 | Float32 | Date32 | Time32(_) | Decimal32(..) => Self::Bits(32),
            Int64 | UInt64 | Float64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
                Self::Bits(64)
            }
            Decimal128(precision, _) if *precision <= 18 => Self::NarrowDecimal,
            Decimal128(..) => Self::WideDecimal,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Self::Bytes,
            Dictionary(_, values) => Self::of(values)?,
            other => {
                let field = SortField::new(other.clone());
                if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
                    return Err(Error::unsupported(format!("cannot group by values of type {other}")));
                }
                Self::Rows(Arc::new(RowConverter::new(vec![field]).map_err(from_arrow)?))
            }
        })
    }

    fn bits(&self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Bits(bits) => *bits,
            Self::NarrowDecimal => 64,
            Self::WideDecimal | Self::Bytes | Self::Rows(_) => 128,
        }
    }
}

impl KeyColumn {
    /// The logical type without a dictionary around it.
    pub fn value_type(&self) -> &DataType {
        match &self.logical {
            DataType::Dictionary(_, values) => values,
            other => other,
        }
    }
}

/// The hash of a key. Low bits choose a slot, high bits a partition.
#[inline(always)]
pub(super) fn hash_key(words: &[u64], value_words: usize) -> u64 {
    hash_from(SEED, words, value_words)
}

/// Another hash of a key for every level of partitioning from 1 on: keys that one level cannot tell apart, the next
/// can.
pub(super) fn hash_level(level: u32, words: &[u64], value_words: usize) -> u64 {
    let seed = SEED ^ u64::from(level).wrapping_mul(COMBINE_MULTIPLIER);
    folded(hash_from(seed, words, value_words), MULTIPLIER)
}

#[inline(always)]
fn hash_from(seed: u64, words: &[u64], value_words: usize) -> u64 {
    let mut hash = seed;
    for &word in &words[..value_words] {
        hash = folded(hash ^ word, MULTIPLIER);
    }
    for &word in &words[value_words..] {
        if word != 0 {
            hash = folded(hash ^ word.rotate_left(17), COMBINE_MULTIPLIER);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_values_share_words_and_null_bits_use_what_is_left() {
        use DataType::*;
        let layout = KeyLayout::new(&[(Int32, true), (Int64, false), (Boolean, true), (Date32, false)]).unwrap();
        // 64 | 32 + 32 | 1 + two null bits.
        assert_eq!((layout.value_words, layout.null_words), (3, 0));
        let layout = KeyLayout::new(&[(Int64, true)]).unwrap();
        assert_eq!((layout.value_words, layout.null_words), (1, 1));
        let layout = KeyLayout::new(&[(Utf8View, false), (Int32, true)]).unwrap();
        assert_eq!((layout.value_words, layout.null_words, layout.bytes_slots), (3, 0, 1));
        let layout = KeyLayout::new(&[(Null, true)]).unwrap();
        assert_eq!((layout.value_words, layout.null_words), (0, 1));
    }

    #[test]
    fn a_null_word_of_zero_does_not_change_the_hash() {
        assert_eq!(hash_key(&[7], 1), hash_key(&[7, 0], 1));
        assert_ne!(hash_key(&[0], 1), hash_key(&[0, 1], 1));
    }

    #[test]
    fn each_level_has_a_hash_of_its_own_that_a_null_word_does_not_change() {
        assert_eq!(hash_level(1, &[7], 1), hash_level(1, &[7, 0], 1));
        // Keys whose hashes agree in three bits at one level are spread over all eight values at the next.
        let together = (0..10_000u64).filter(|&key| hash_level(1, &[key], 1) >> 61 == 3).collect::<Vec<_>>();
        let mut counts = [0; 8];
        together.iter().for_each(|&key| counts[(hash_level(2, &[key], 1) >> 61) as usize] += 1);
        assert!(together.len() > 1000 && counts.iter().all(|&count| count > together.len() / 16), "{counts:?}");
    }

    #[test]
    fn a_value_lies_beside_its_group() {
        use DataType::*;
        let group = KeyLayout::new(&[(Utf8View, true), (Int64, true)]).unwrap();
        let pairs = KeyLayout::new(&[(Utf8View, false), (UInt32, false)]).unwrap();
        let both = group.beside(&pairs);
        assert_eq!((both.value_words, both.null_words, both.bytes_slots), (4 + 3, 0, 2));
        assert_eq!(both.bytes_words().collect::<Vec<_>>(), vec![0, 4]);
    }
}
