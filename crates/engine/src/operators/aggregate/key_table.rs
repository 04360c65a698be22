//! Group keys and the hash table that finds a group's number by its key.
//!
//! Groups are numbered from 0 in the order of their first row. The table is open addressing with linear probing over
//! slots of 64 bits: the upper half is a tag (the upper half of the hash), the lower half the group's number. Keys lie
//! beside it in the order of their numbers, so a key is stored once, is never moved by a rehash, and can be read out in
//! order.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;
use diligence_base::{Error, Result};

use super::arena::{Arena, Place};
use super::key_layout::{KeyLayout, hash_key};
use crate::batch::prefetch::prefetch;
use crate::batch::views::INLINE_BYTES;

/// A free slot: no group has this number.
const FREE: u64 = u64::MAX;
/// The fewest slots of a table.
const SLOTS_MIN: usize = 256;
/// From how many slots on probes are prefetched: the slots of a smaller table stay in the L1 and L2 caches.
const PREFETCH_SLOTS_MIN: usize = 32 * 1024;
/// How many rows ahead.
const PREFETCH_ROWS: usize = 12;

/// Keys in a row: words, and for long strings the place of their bytes.
#[derive(Default)]
pub(super) struct Keys {
    /// Words of a key: the layout's value words, with its null words once there was a NULL.
    pub stride: usize,
    pub words: Vec<u64>,
    pub groups: usize,
    arena: Arena,
    /// Per byte column: the place of each group's bytes; empty until the column's first long string.
    places: Vec<Vec<Place>>,
}

impl Keys {
    pub fn new(layout: &KeyLayout) -> Self {
        Self { stride: layout.value_words, places: vec![Vec::new(); layout.bytes_slots], ..Self::default() }
    }

    /// The words of one key.
    #[inline]
    pub fn key(&self, group: usize) -> &[u64] {
        &self.words[group * self.stride..(group + 1) * self.stride]
    }

    /// The bytes of a long string.
    #[inline]
    pub fn long_bytes(&self, slot: usize, group: usize, length: usize) -> &[u8] {
        self.arena.read(self.places[slot][group], length)
    }

    /// The place of a long string: block and offset.
    pub fn place(&self, slot: usize, group: usize) -> (usize, usize) {
        let place = self.places[slot][group];
        (place.block as usize, place.offset as usize)
    }

    /// All blocks with bytes. Call after [`freeze`](Self::freeze).
    pub fn blocks(&self) -> &[Buffer] {
        self.arena.blocks()
    }

    /// No more keys are added.
    pub fn freeze(&mut self) {
        self.arena.freeze();
    }

    /// Whether a byte column has any long string.
    pub fn has_long(&self, slot: usize) -> bool {
        !self.places[slot].is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8
            + self.places.iter().map(|places| places.capacity() * 8).sum::<usize>()
            + self.arena.bytes()
    }

    /// Makes room for the layout's null words.
    pub fn widen(&mut self, stride: usize) {
        if stride <= self.stride {
            return;
        }
        self.words = restride(&self.words, self.stride, stride, self.groups);
        self.stride = stride;
    }

    /// Bytes of the long strings of some keys; `bytes_words` are the words that hold lengths.
    pub fn text_of(&self, bytes_words: &[usize], groups: impl Iterator<Item = usize>) -> usize {
        if bytes_words.is_empty() {
            return 0;
        }
        let long = |group: usize| {
            let key = self.key(group);
            let lengths = bytes_words.iter().map(|&word| key[word] as u32 as usize);
            lengths.filter(|&length| length > INLINE_BYTES).sum::<usize>()
        };
        groups.map(long).sum()
    }

    /// The keys of `order`, in that order, with long strings of their own.
    pub fn permuted(&self, bytes_words: &[usize], order: &[u32]) -> Self {
        let stride = self.stride;
        let mut words = Vec::with_capacity(order.len() * stride);
        match stride {
            1 => words.extend(order.iter().map(|&group| self.words[group as usize])),
            _ => order.iter().for_each(|&group| words.extend_from_slice(self.key(group as usize))),
        }
        let mut arena = match self.arena.bytes() {
            0 => Arena::default(),
            _ => Arena::with_room(self.text_of(bytes_words, order.iter().map(|&group| group as usize))),
        };
        let copy = |(places, &word): (&Vec<Place>, &usize)| match places.is_empty() {
            true => Vec::new(),
            false => order
                .iter()
                .map(|&group| {
                    let length = self.key(group as usize)[word] as u32 as usize;
                    match length > INLINE_BYTES {
                        true => arena.store(self.arena.read(places[group as usize], length)),
                        false => NOWHERE,
                    }
                })
                .collect(),
        };
        let places = self.places.iter().zip(bytes_words).map(copy).collect();
        arena.freeze();
        Self { stride, words, groups: order.len(), arena, places }
    }
}

/// The place of a string that lies in its words.
const NOWHERE: Place = Place { block: 0, offset: 0 };

/// Keys with more words each; the new ones are zero.
pub(super) fn restride(words: &[u64], from: usize, to: usize, groups: usize) -> Vec<u64> {
    let mut wide = vec![0; to * groups];
    if from > 0 {
        for (new, old) in wide.chunks_exact_mut(to).zip(words.chunks_exact(from)) {
            new[..from].copy_from_slice(old);
        }
    }
    wide
}

/// Where the bytes of the long strings of looked-up keys are.
pub(super) trait KeyBytes {
    /// The bytes of a long string of row `row`.
    fn bytes(&self, slot: usize, row: usize, length: usize) -> &[u8];
    /// Keeps the bytes for a new group; returns their place.
    fn store(&self, slot: usize, row: usize, length: usize, arena: &mut Arena) -> Place {
        arena.store(self.bytes(slot, row, length))
    }
}

/// No column has bytes.
pub(super) struct NoBytes;

impl KeyBytes for NoBytes {
    fn bytes(&self, _slot: usize, _row: usize, _length: usize) -> &[u8] {
        &[]
    }
}

/// The bytes of keys of another table.
pub(super) struct MergedBytes<'a> {
    pub keys: &'a Keys,
    /// The first looked-up key's group in `keys`.
    pub first: usize,
}

impl KeyBytes for MergedBytes<'_> {
    fn bytes(&self, slot: usize, row: usize, length: usize) -> &[u8] {
        self.keys.long_bytes(slot, self.first + row, length)
    }
}

/// Keys with a hash table over them.
pub(super) struct KeyTable {
    pub layout: Arc<KeyLayout>,
    pub keys: Keys,
    slots: Vec<u64>,
    /// False while every slot is free.
    slots_used: bool,
    /// The words of each key that hold a byte column's length.
    bytes_words: Vec<usize>,
    hashes: Vec<u64>,
    /// Of runs of equal keys: the words and the groups.
    heads: Vec<u64>,
    head_ids: Vec<u32>,
}

impl KeyTable {
    pub fn new(layout: Arc<KeyLayout>) -> Self {
        let keys = Keys::new(&layout);
        let bytes_words = layout.bytes_words().collect();
        Self {
            layout,
            keys,
            slots: Vec::new(),
            slots_used: false,
            bytes_words,
            hashes: Vec::new(),
            heads: Vec::new(),
            head_ids: Vec::new(),
        }
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.keys.groups
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let scratch = (self.hashes.capacity() + self.heads.capacity()) * 8 + self.head_ids.capacity() * 4;
        self.keys.bytes() + self.slots.capacity() * 8 + scratch
    }

    /// Bytes held at most after [`reserve`](Self::reserve) of so many rows, more long strings not included.
    pub fn bytes_ahead(&self, rows: usize) -> usize {
        let groups = self.groups_ahead(rows);
        let keys = groups * 8 * (self.keys.stride + self.keys.places.len());
        let slots = slots_for(self.keys.groups + rows).max(self.slots.len());
        // A rehash holds the old slots beside the new ones for a moment.
        let slots = if slots > self.slots.len() { slots + self.slots.len() } else { slots };
        // Hashes, and the words and ids of runs.
        let scratch = rows * (8 + 8 * self.keys.stride + 4);
        keys + slots * 8 + scratch + self.keys.arena.bytes()
    }

    fn groups_ahead(&self, rows: usize) -> usize {
        let capacity = self.keys.words.capacity() / self.keys.stride.max(1);
        let needed = self.keys.groups + rows;
        if needed <= capacity { capacity } else { needed.max(capacity * 2) }
    }

    /// Makes room for the keys of so many rows.
    pub fn reserve(&mut self, rows: usize) -> Result<()> {
        let needed = self.keys.groups + rows;
        if needed >= u32::MAX as usize {
            return Err(Error::resource("more than 4 billion groups in one table"));
        }
        let groups = self.groups_ahead(rows);
        let words = groups * self.keys.stride;
        if words > self.keys.words.capacity() {
            self.keys.words.reserve_exact(words - self.keys.words.len());
        }
        let slots = slots_for(needed);
        if slots > self.slots.len() {
            self.rehash(slots);
        }
        Ok(())
    }

    fn rehash(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, FREE);
        let mask = slots - 1;
        for group in 0..self.keys.groups {
            let hash = hash_key(self.keys.key(group), self.layout.value_words);
            let mut index = hash as usize & mask;
            while self.slots[index] != FREE {
                index = (index + 1) & mask;
            }
            self.slots[index] = hash & TAG | group as u64;
        }
    }

    /// Takes the keys out; the table is empty afterwards and keeps its slots.
    pub fn take_keys(&mut self) -> Keys {
        if std::mem::replace(&mut self.slots_used, false) {
            self.slots.fill(FREE);
        }
        let mut keys = Keys::new(&self.layout);
        keys.stride = self.keys.stride;
        std::mem::replace(&mut self.keys, keys)
    }

    /// Uses the memory of keys that are not needed any more.
    pub fn recycle(&mut self, mut old: Keys) {
        if self.keys.groups == 0 && old.words.capacity() > self.keys.words.capacity() {
            old.words.clear();
            self.keys.words = old.words;
        }
    }

    /// Forgets the hash table: the keys can only be read from now on.
    pub fn into_keys(self) -> Keys {
        let mut keys = self.keys;
        keys.freeze();
        keys
    }

    /// The words of a key that hold the lengths of its strings.
    pub fn bytes_words(&self) -> &[usize] {
        &self.bytes_words
    }

    /// Bytes of the long strings of some groups of keys of this layout.
    pub fn text_of(&self, keys: &Keys, groups: Range<usize>) -> usize {
        keys.text_of(&self.bytes_words, groups)
    }

    /// The group of each row's key, new groups for new keys. `words` has the table's stride.
    pub fn lookup<B: KeyBytes>(&mut self, words: &[u64], rows: usize, bytes: &B, ids: &mut Vec<u32>) -> Result<()> {
        self.reserve(rows)?;
        self.slots_used = true;
        ids.clear();
        ids.reserve(rows);
        match self.keys.stride {
            1 => self.find_runs::<1, B>(words, rows, bytes, ids),
            2 => self.find_runs::<2, B>(words, rows, bytes, ids),
            3 => self.find_runs::<3, B>(words, rows, bytes, ids),
            4 => self.find_runs::<4, B>(words, rows, bytes, ids),
            _ => self.find_or_add::<0, B>(words, rows, bytes, ids),
        }
        Ok(())
    }

    /// Looks up one key per run of equal ones where there are many such runs: input in the order of its keys.
    fn find_runs<const W: usize, B: KeyBytes>(&mut self, words: &[u64], rows: usize, bytes: &B, ids: &mut Vec<u32>) {
        if !self.bytes_words.is_empty() || rows < 2 {
            return self.find_or_add::<W, B>(words, rows, bytes, ids);
        }
        let (keys, _) = words.as_chunks::<W>();
        let repeats = keys.iter().zip(&keys[1..]).filter(|(a, b)| a == b).count();
        if repeats * 3 < rows {
            return self.find_or_add::<W, B>(words, rows, bytes, ids);
        }
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        heads.extend_from_slice(&keys[0]);
        for (before, key) in keys.iter().zip(&keys[1..]) {
            if key != before {
                heads.extend_from_slice(key);
            }
        }
        let mut head_ids = std::mem::take(&mut self.head_ids);
        head_ids.clear();
        self.find_or_add::<W, B>(&heads, heads.len() / W, bytes, &mut head_ids);
        ids.push(head_ids[0]);
        let mut head = 0;
        ids.extend(keys.iter().zip(&keys[1..]).map(|(before, key)| {
            head += usize::from(key != before);
            head_ids[head]
        }));
        (self.heads, self.head_ids) = (heads, head_ids);
    }

    /// `W` is the stride, or 0 for any.
    fn find_or_add<const W: usize, B: KeyBytes>(&mut self, words: &[u64], rows: usize, bytes: &B, ids: &mut Vec<u32>) {
        let stride = if W == 0 { self.keys.stride } else { W };
        assert_eq!(words.len(), rows * stride, "keys of another stride");
        let value_words = self.layout.value_words;
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        if W > 0 && value_words == W {
            hashes.extend(words.chunks_exact(W).map(|key| hash_key(key, W)));
        } else {
            hashes.extend((0..rows).map(|row| hash_key(&words[row * stride..(row + 1) * stride], value_words)));
        }
        let mask = self.slots.len() - 1;
        let is_large = self.slots.len() >= PREFETCH_SLOTS_MIN;
        for row in 0..rows {
            if is_large && row + PREFETCH_ROWS < rows {
                prefetch(&self.slots, hashes[row + PREFETCH_ROWS] as usize & mask);
            }
            let hash = hashes[row];
            let key = &words[row * stride..(row + 1) * stride];
            let mut index = hash as usize & mask;
            let id = loop {
                // SAFETY: the mask is the number of slots, a power of two, less one.
                let slot = unsafe { *self.slots.get_unchecked(index) };
                if slot == FREE {
                    self.slots[index] = hash & TAG | self.keys.groups as u64;
                    break self.add(key, row, bytes);
                }
                let group = slot as u32 as usize;
                if (slot ^ hash) & TAG == 0 {
                    debug_assert!(group < self.keys.groups);
                    // SAFETY: a slot that is not free holds the number of a group, whose words exist.
                    let found = unsafe { self.keys.words.get_unchecked(group * stride..(group + 1) * stride) };
                    if found == key && (self.bytes_words.is_empty() || self.same_bytes(key, row, group, bytes)) {
                        break group as u32;
                    }
                }
                index = (index + 1) & mask;
            };
            ids.push(id);
        }
        self.hashes = hashes;
    }

    /// Equal words: are the long strings equal, too?
    #[inline]
    fn same_bytes<B: KeyBytes>(&self, key: &[u64], row: usize, group: usize, bytes: &B) -> bool {
        self.bytes_words.iter().enumerate().all(|(slot, &word)| {
            let length = key[word] as u32 as usize;
            length <= INLINE_BYTES || self.keys.long_bytes(slot, group, length) == bytes.bytes(slot, row, length)
        })
    }

    /// A new group at the end. The caller has taken its slot.
    #[inline]
    fn add<B: KeyBytes>(&mut self, key: &[u64], row: usize, bytes: &B) -> u32 {
        let group = self.keys.groups;
        self.keys.words.extend_from_slice(key);
        for (slot, &word) in self.bytes_words.iter().enumerate() {
            let length = key[word] as u32 as usize;
            let places = &mut self.keys.places[slot];
            if length > INLINE_BYTES {
                // Places are kept for every group from the first long string on.
                places.resize(group, NOWHERE);
                places.push(bytes.store(slot, row, length, &mut self.keys.arena));
            } else if !places.is_empty() {
                places.push(NOWHERE);
            }
        }
        self.keys.groups += 1;
        group as u32
    }

    /// A new group for each row, whether its key is known or not: rows of the same key are brought together later.
    pub fn append<B: KeyBytes>(&mut self, words: &[u64], rows: usize, bytes: &B, ids: &mut Vec<u32>) -> Result<()> {
        let stride = self.keys.stride;
        assert_eq!(words.len(), rows * stride, "keys of another stride");
        if self.keys.groups + rows >= u32::MAX as usize {
            return Err(Error::resource("more than 4 billion groups in one table"));
        }
        ids.clear();
        ids.extend((self.keys.groups..self.keys.groups + rows).map(|group| group as u32));
        if self.bytes_words.is_empty() {
            self.keys.words.extend_from_slice(words);
            self.keys.groups += rows;
        } else {
            for row in 0..rows {
                self.add(&words[row * stride..(row + 1) * stride], row, bytes);
            }
        }
        Ok(())
    }
}

/// The part of a slot and a hash that are compared.
const TAG: u64 = 0xffff_ffff_0000_0000;

/// Slots for so many groups: at most five in eight full, so that probes stay short.
fn slots_for(groups: usize) -> usize {
    (groups * 8 / 5).next_power_of_two().max(SLOTS_MIN)
}
