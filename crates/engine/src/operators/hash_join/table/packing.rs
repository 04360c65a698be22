//! Keys that are words, packed into one *code* each: per key the distance from the smallest build key, side by side in
//! 64 bits where they fit, so that one comparison compares all keys, and a small range of codes needs no hashing.

use arrow::buffer::NullBuffer;

use crate::operators::key_words::{KeyColumn, KeyData};

/// The code of a row that cannot match anything.
pub(in super::super) const NO_CODE: u64 = u64::MAX;

/// Codes per build row up to which a [`Dense`] table is used: its 16 bytes per 64 codes are then at most the 24 to 32
/// bytes that a hash table has per row; and where both sides come in the order of the keys it is read in order.
const DENSE_CODES_PER_ROW: u64 = 128;

/// Codes that are worth a dense table however few rows there are: 256 KiB, a part of the second-level cache.
const DENSE_CODES_ALWAYS: u64 = if cfg!(test) { 64 } else { 1 << 20 };

/// How keys become one code.
#[derive(Clone, Debug)]
pub(in super::super) struct Packing {
    pub(super) keys: Vec<PackedKey>,
    /// Codes are below this.
    pub codes: u64,
}

/// One key's part of a code.
#[derive(Clone, Debug)]
pub(in super::super) struct PackedKey {
    pub min: u64,
    pub span: u64,
    pub shift: u32,
    /// NULL has the code 0 and other values one more; otherwise a NULL cannot match.
    pub null_code: bool,
}

impl Packing {
    /// The packing for keys between these bounds, of which some may be NULL, if a code has room for them and is never
    /// [`NO_CODE`].
    pub fn new(bounds: &[(u64, u64)], null_codes: &[bool]) -> Option<Self> {
        let mut shift = 0;
        let mut keys = Vec::with_capacity(bounds.len());
        let mut codes = 1u64;
        for (&(min, max), &null_code) in bounds.iter().zip(null_codes) {
            // Without a value that is not NULL the bounds are the wrong way round.
            let span = max.saturating_sub(min).checked_add(null_code as u64)?;
            let bits = 64 - span.leading_zeros();
            if shift + bits > 63 && (bounds.len() > 1 || span == NO_CODE) {
                return None;
            }
            keys.push(PackedKey { min, span: max.saturating_sub(min), shift, null_code });
            codes = (span << shift) + (1 << shift);
            shift += bits;
        }
        Some(Self { keys, codes })
    }

    /// Writes the code of each row.
    pub fn pack(&self, columns: &[KeyColumn], codes: &mut Vec<u64>) {
        codes.clear();
        for (index, (key, column)) in self.keys.iter().zip(columns).enumerate() {
            let (min, span, shift, plus) = (key.min, key.span, key.shift, key.null_code as u64);
            let code = |word: u64| {
                let distance = word.wrapping_sub(min);
                if distance > span { NO_CODE } else { (distance + plus) << shift }
            };
            if index == 0 {
                codes.extend(column.words().iter().map(|&word| code(word)));
            } else {
                for (packed, &word) in codes.iter_mut().zip(column.words()) {
                    // All ones stay all ones; valid codes have no common bits.
                    *packed |= code(word);
                }
            }
            if let Some(nulls) = &column.nulls {
                // What stood under the NULL has spoiled a code that other keys share: make it anew.
                let others = &self.keys[..=index];
                for (row, packed) in codes.iter_mut().enumerate() {
                    if nulls.is_null(row) {
                        *packed = if key.null_code { repacked(others, columns, row) } else { NO_CODE };
                    }
                }
            }
        }
    }

    /// The values of one key from codes of all.
    pub fn unpacked(&self, key: usize, codes: &[u64]) -> KeyColumn {
        let PackedKey { min, span, shift, null_code } = self.keys[key];
        let plus = u64::from(null_code);
        let mask = u64::MAX.checked_shr((span + plus).leading_zeros()).unwrap_or(0);
        let part = |code: u64| code >> shift & mask;
        let words = codes.iter().map(|&code| min.wrapping_add(part(code)).wrapping_sub(plus)).collect();
        let nulls = null_code.then(|| codes.iter().map(|&code| part(code) > 0).collect::<NullBuffer>());
        KeyColumn { data: KeyData::Words(words), nulls: nulls.filter(|nulls| nulls.null_count() > 0) }
    }

    /// Whether a dense table suits.
    pub fn is_dense(&self, rows: usize) -> bool {
        self.codes <= DENSE_CODES_ALWAYS.max(DENSE_CODES_PER_ROW * rows as u64)
    }
}

fn repacked(keys: &[PackedKey], columns: &[KeyColumn], row: usize) -> u64 {
    let mut packed = 0;
    for (key, column) in keys.iter().zip(columns) {
        if column.is_null(row) {
            packed |= if key.null_code { 0 } else { NO_CODE };
        } else {
            let distance = column.words()[row].wrapping_sub(key.min);
            packed |= if distance > key.span { NO_CODE } else { (distance + key.null_code as u64) << key.shift };
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(words: &[u64], valid: Option<&[bool]>) -> KeyColumn {
        KeyColumn { data: KeyData::Words(words.to_vec()), nulls: valid.map(|valid| NullBuffer::from(valid.to_vec())) }
    }

    #[test]
    fn codes_are_distinct_and_outsiders_have_none() {
        let packing = Packing::new(&[(10, 13), (1 << 40, (1 << 40) + 1)], &[false, true]).unwrap();
        assert_eq!(packing.codes, 3 << 2);
        let mut codes = vec![];
        let second = [1 << 40, 1 << 40, (1 << 40) + 1, 0, 7];
        let keys = [key(&[10, 13, 14, 10, 12], None), key(&second, Some(&[true, true, true, true, false]))];
        packing.pack(&keys, &mut codes);
        assert_eq!(codes, vec![1 << 2, 3 | 1 << 2, NO_CODE, NO_CODE, 2]);
        let [first, second] =
            [packing.unpacked(0, &[1 << 2, 3 | 2 << 2, 2]), packing.unpacked(1, &[1 << 2, 3 | 2 << 2, 2])];
        assert_eq!((first.words(), &first.nulls), (&[10, 13, 12][..], &None));
        assert_eq!((&second.words()[..2], second.is_null(2)), (&[1 << 40, (1 << 40) + 1][..], true));
    }

    #[test]
    fn one_key_may_have_nearly_all_words() {
        let packing = Packing::new(&[(0, u64::MAX - 1)], &[false]).unwrap();
        let mut codes = vec![];
        packing.pack(&[key(&[0, u64::MAX - 1, u64::MAX], None)], &mut codes);
        assert_eq!(codes, vec![0, u64::MAX - 1, NO_CODE]);
        assert!(Packing::new(&[(0, u64::MAX)], &[false]).is_none());
        assert!(Packing::new(&[(1, u64::MAX)], &[true]).is_none());
        assert!(Packing::new(&[(0, 1 << 40), (0, 1 << 40)], &[false, false]).is_none());
    }
}
