//! A Bloom filter of a run's keys: a lookup of a key that is not in the run reads nothing of it, as a rule.
//!
//! The filter is cut into blocks of 256 bits. A key sets one bit in each of a block's eight words, so a question is one
//! access to memory. With ten bits for each key, one in a hundred of the keys that are not there seems to be.
//!
//! At the end of a key file it is a version (4 bytes), the number of its blocks (4) and the blocks, little-endian. Bits
//! of a key never change within a version.

use diligence_memory::Reservation;

/// The version of what is written.
const VERSION: u32 = 1;
/// Bits for each key.
const KEY_BITS: usize = 10;
/// Words of a block.
const BLOCK_WORDS: usize = 8;
/// Bytes of a block.
const BLOCK_BYTES: usize = BLOCK_WORDS * size_of::<u32>();
/// The part of the memory that a filter takes at most, as its divisor: a longer run has none.
const MEMORY_PART: usize = 16;
/// Odd numbers; each takes a bit's place in its word out of a hash.
const SALTS: [u32; BLOCK_WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// Says of most keys that are not in a run that they are not.
#[derive(Debug)]
pub(crate) struct KeyFilter {
    /// At least one.
    blocks: Vec<[u32; BLOCK_WORDS]>,
    _memory: Reservation,
}

impl KeyFilter {
    /// One for so many keys, none of which is in it yet, counted beside a reservation; `None` if memory is short.
    pub(crate) fn of_size(keys: usize, memory: &Reservation) -> Option<Self> {
        Self::of_blocks(keys.saturating_mul(KEY_BITS).div_ceil(BLOCK_BYTES * 8).max(1), memory)
    }

    fn of_blocks(blocks: usize, memory: &Reservation) -> Option<Self> {
        let bytes = blocks.checked_mul(BLOCK_BYTES)?;
        if bytes > memory.most_bytes() / MEMORY_PART {
            return None;
        }
        let mut own = memory.sibling();
        own.grow_if_free(bytes).ok()?;
        Some(Self { blocks: vec![[0; BLOCK_WORDS]; blocks], _memory: own })
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// A key is in it from now on.
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let block = self.block_of(hash);
        let bits = bits_of(hash);
        self.blocks[block].iter_mut().zip(bits).for_each(|(word, bit)| *word |= bit);
    }

    /// Whether a key may be in it; false for none that is.
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        let hash = hash_of(key);
        self.blocks[self.block_of(hash)].iter().zip(bits_of(hash)).all(|(word, bit)| word & bit != 0)
    }

    /// The upper half of a hash chooses the block, the lower half the bits.
    fn block_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    /// Bytes that say it.
    pub(crate) fn put(&self, said: &mut Vec<u8>) {
        said.extend_from_slice(&VERSION.to_le_bytes());
        said.extend_from_slice(&(self.blocks.len() as u32).to_le_bytes());
        said.extend(self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()));
    }

    /// The one that bytes say, counted beside a reservation; `None` if they say none of a version that is known, and
    /// if memory is short.
    pub(crate) fn of_bytes(said: &[u8], memory: &Reservation) -> Option<Self> {
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
        let (version, rest) = said.split_at_checked(4)?;
        let (blocks, rest) = rest.split_at_checked(4)?;
        let blocks = word(blocks)? as usize;
        if word(version)? != VERSION || blocks == 0 || Some(rest.len()) != blocks.checked_mul(BLOCK_BYTES) {
            return None;
        }
        let mut filter = Self::of_blocks(blocks, memory)?;
        for (own, read) in filter.blocks.iter_mut().flatten().zip(rest.chunks_exact(4)) {
            *own = word(read)?;
        }
        Some(filter)
    }
}

/// The bit of each word.
fn bits_of(hash: u64) -> [u32; BLOCK_WORDS] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// The hash of a key, the same on every machine: eight bytes at a time, and the end mixed as in MurmurHash3.
fn hash_of(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64 ^ 0x517c_c1b7_2722_0a95;
    for part in key.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use diligence_memory::QueryMemory;

    use super::*;

    fn key(number: u64) -> Vec<u8> {
        let mut key = vec![1];
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn a_filter_has_its_keys_and_few_others() {
        let memory = QueryMemory::unbounded();
        let reservation = memory.reservation("a filter");
        for keys in [1, 100, 20_000] {
            let mut filter = KeyFilter::of_size(keys, &reservation).unwrap();
            (0..keys as u64).for_each(|number| filter.add(&key(number * 3)));
            let mut said = Vec::new();
            filter.put(&mut said);
            let read = KeyFilter::of_bytes(&said, &reservation).unwrap();
            assert_eq!(memory.reserved_bytes(), 2 * filter.bytes());
            assert!(
                (0..keys as u64).all(|number| filter.may_have(&key(number * 3)) && read.may_have(&key(number * 3)))
            );
            let others = (0..20_000).filter(|number| read.may_have(&key(number * 3 + 1))).count();
            assert!(others < 600, "{others} of 20,000 keys that are not there, beside {keys}");
        }
        assert_eq!(memory.reserved_bytes(), 0);
    }

    #[test]
    fn bytes_that_say_no_filter_are_none() {
        let reservation = QueryMemory::unbounded().reservation("a filter");
        let mut said = Vec::new();
        KeyFilter::of_size(100, &reservation).unwrap().put(&mut said);
        for cut in [0, 3, 8, said.len() - 1] {
            assert!(KeyFilter::of_bytes(&said[..cut], &reservation).is_none());
        }
        said[0] += 1;
        assert!(KeyFilter::of_bytes(&said, &reservation).is_none());
    }

    /// Files have these bits: another hash needs another version.
    #[test]
    fn bits_of_a_key_stay_what_they_are() {
        assert_eq!(hash_of(b""), 0x37e8_d294_6949_7cd2);
        assert_eq!(hash_of(b"a"), 0x8e1f_2750_baf4_c023);
        assert_eq!(hash_of(b"a\0"), 0xfd4f_e51b_7d0d_2373);
        assert_eq!(hash_of(b"123456789"), 0x145b_710a_65ef_1263);
    }
}
