//! Small numbers for short strings, as long as there are few of them.
//!
//! A string of at most twelve bytes lies whole in its Arrow view, so strings are compared as 128-bit numbers.

use arrow::array::StringViewArray;

use crate::batch::views;

/// Strings that are told apart at most.
const STRINGS_MAX: usize = 256;
/// Slots: a quarter full at most, so that probes end at once.
const SLOTS: usize = 4 * STRINGS_MAX;
const FREE: u16 = u16::MAX;

/// The strings met so far, numbered in the order of their first appearance.
pub(super) struct ShortStrings {
    views: Vec<u128>,
    slots: Box<[u16; SLOTS]>,
}

impl ShortStrings {
    pub fn new() -> Self {
        Self { views: Vec::new(), slots: Box::new([FREE; SLOTS]) }
    }

    /// How many numbers to make room for: few steps, because each changes what codes mean.
    pub fn room(&self) -> usize {
        [16, 64, STRINGS_MAX].into_iter().find(|&room| self.views.len() <= room).unwrap_or(STRINGS_MAX)
    }

    /// The number of each row's string, NULL rows included (those get any number). `None` if a string is long or there
    /// are too many.
    pub fn code(&mut self, strings: &StringViewArray) -> Option<Vec<u32>> {
        strings.views().iter().map(|&view| self.number(view)).collect()
    }

    #[inline(always)]
    fn number(&mut self, view: u128) -> Option<u32> {
        if views::is_long(view) {
            return None;
        }
        let mixed = (view as u64 ^ ((view >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (mixed >> (64 - SLOTS.trailing_zeros())) as usize;
        loop {
            let number = self.slots[slot];
            if number == FREE {
                if self.views.len() == STRINGS_MAX {
                    return None;
                }
                self.slots[slot] = self.views.len() as u16;
                self.views.push(view);
                return Some(self.views.len() as u32 - 1);
            }
            if self.views[number as usize] == view {
                return Some(number as u32);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_equal_numbers_until_there_are_too_many() {
        let mut strings = ShortStrings::new();
        let array = StringViewArray::from(vec!["a", "b", "", "a", "twelve bytes"]);
        assert_eq!(strings.code(&array), Some(vec![0, 1, 2, 0, 3]));
        assert_eq!(strings.code(&StringViewArray::from(vec!["b", "c"])), Some(vec![1, 4]));
        assert_eq!(strings.room(), 16);
        let many = StringViewArray::from_iter_values((0..STRINGS_MAX).map(|number| format!("s{number}")));
        assert_eq!(strings.code(&many), None);
        assert_eq!(ShortStrings::new().code(&StringViewArray::from(vec!["more than twelve bytes"])), None);
    }
}
