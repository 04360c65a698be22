//! Values by key, so many at most: what was used longest ago is forgotten first.

use std::collections::HashMap;
use std::hash::Hash;

/// See the module. To forget something looks at all entries: it is for some hundred values that cost much more to make.
#[derive(Debug)]
pub struct Recent<K, V> {
    most: usize,
    clock: u64,
    /// Each with the time when it was used last.
    entries: HashMap<K, (V, u64)>,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// Nothing yet, and never more than `most`.
    pub fn new(most: usize) -> Self {
        Self { most, clock: 0, entries: HashMap::new() }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The value of a key, which is used now.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let now = self.tick();
        let (value, used) = self.entries.get_mut(key)?;
        *used = now;
        Some(value)
    }

    /// Sets the value of a key, in the place of one that it had.
    pub fn insert(&mut self, key: K, value: V) {
        self.make_room(&key);
        let now = self.tick();
        self.entries.insert(key, (value, now));
    }

    /// The value of a key, which is used now; the default one if it had none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.make_room(&key);
        let now = self.tick();
        let (value, used) = self.entries.entry(key).or_default();
        *used = now;
        value
    }

    fn make_room(&mut self, key: &K) {
        if self.entries.len() >= self.most
            && !self.entries.contains_key(key)
            && let Some(oldest) = self.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
        {
            self.entries.remove(&oldest);
        }
    }

    /// Takes away those of which this is not true.
    pub fn take_unless(&mut self, stays: impl Fn(&V) -> bool) -> Vec<V> {
        self.entries.extract_if(|_, (value, _)| !stays(value)).map(|(_, (value, _))| value).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut recent = Recent::new(2);
        let look = |recent: &mut Recent<_, _>, key: &'static str| recent.get(&key).copied();
        recent.insert("a", 1);
        recent.insert("b", 2);
        assert_eq!(look(&mut recent, "a"), Some(1));
        recent.insert("a", 5);
        assert_eq!((recent.len(), look(&mut recent, "b")), (2, Some(2)));
        recent.insert("c", 3);
        assert_eq!(["a", "b", "c"].map(|key| look(&mut recent, key)), [None, Some(2), Some(3)]);
        *recent.get_or_default("d") += 7;
        *recent.get_or_default("d") += 1;
        assert_eq!(["b", "c", "d"].map(|key| look(&mut recent, key)), [None, Some(3), Some(8)]);
        recent.clear();
        assert!(recent.is_empty());
    }
}
