//! The hash functions of joins and groups.
//!
//! Multiplications to 128 bits whose halves are folded, as in wyhash and foldhash: one of them mixes all bits. The
//! seeds are constants, so that an answer's order does not change from run to run.

/// Digits of pi and of the golden ratio: any bits without a pattern would do.
pub(super) const SEED: u64 = 0x243F_6A88_85A3_08D3;
pub(super) const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
pub(super) const COMBINE_MULTIPLIER: u64 = 0xD6E8_FEB8_6659_FD93;

/// Both halves of the product, mixed.
#[inline(always)]
pub(super) fn folded(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product as u64) ^ (product >> 64) as u64
}

/// The hash of a word.
#[inline(always)]
pub(super) fn hash_word(word: u64) -> u64 {
    folded(word ^ SEED, MULTIPLIER)
}

/// The hash of two values, from the hash of one and the hash of the other.
#[inline(always)]
pub(super) fn combined(hash: u64, next: u64) -> u64 {
    folded(hash.rotate_left(23) ^ next, COMBINE_MULTIPLIER)
}

/// The hash of at least eight bytes.
#[inline]
pub(super) fn hash_long(bytes: &[u8]) -> u64 {
    let read = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let length = bytes.len();
    let mut hash = SEED ^ length as u64;
    let mut at = 0;
    while at + 16 < length {
        hash = folded(read(at) ^ hash, read(at + 8) ^ MULTIPLIER);
        at += 16;
    }
    // The last 16 bytes, overlapping what came before where there is something.
    let (first, second) =
        if length >= 16 { (read(length - 16), read(length - 8)) } else { (read(0), read(length - 8)) };
    folded(first ^ hash, second ^ COMBINE_MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_long_string_counts() {
        for length in 13..70 {
            let bytes = vec![b'a'; length];
            for index in 0..length {
                let mut other = bytes.clone();
                other[index] = b'b';
                assert_ne!(hash_long(&bytes), hash_long(&other), "byte {index} of {length}");
            }
            assert_ne!(hash_long(&bytes), hash_long(&bytes[1..]));
        }
    }
}
