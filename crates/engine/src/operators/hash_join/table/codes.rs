//! Strings of few different values, kept as codes: what they are compared and grouped by afterwards are their codes,
//! and a row has four bytes in place of sixteen.
//!
//! Each packet gives the values of its dictionaries numbers of its own; when the columns of all packets become one,
//! their numbers become one as well.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;

use crate::batch::views;

/// Values of a column at most: their codes are small numbers for those who group by them.
pub(super) const VALUES_MAX: usize = if cfg!(test) { 8 } else { 4096 };

/// The values that a packet has met, and their numbers.
#[derive(Default)]
pub(super) struct Codes {
    /// Views of the values, in blocks of the packet.
    pub views: Vec<u128>,
    numbers: HashMap<Box<[u8]>, i32>,
    /// The numbers of the values of the dictionary seen last: chunks of one row group share theirs.
    seen: Option<(ArrayRef, Arc<[i32]>)>,
}

impl Codes {
    /// The numbers of a dictionary's values, which are of a type of views; `own` keeps a new value and gives its view
    /// there. `None` if there are too many values. The number of a NULL may be anything.
    pub fn of_dictionary(
        &mut self,
        dictionary: &ArrayRef,
        values: &ArrayRef,
        mut own: impl FnMut(u128, &[Buffer]) -> u128,
    ) -> Option<Arc<[i32]>> {
        if let Some((seen, numbers)) = &self.seen
            && Arc::ptr_eq(seen, dictionary)
        {
            return Some(numbers.clone());
        }
        let (all, buffers) = views::parts(values)?;
        if all.len() > VALUES_MAX {
            return None;
        }
        let mut numbers = Vec::with_capacity(all.len());
        for (place, view) in all.iter().enumerate() {
            if values.is_null(place) {
                numbers.push(0);
                continue;
            }
            let bytes = views::bytes(view, buffers);
            let number = match self.numbers.get(bytes) {
                Some(number) => *number,
                None if self.views.len() == VALUES_MAX => return None,
                None => {
                    let number = self.views.len() as i32;
                    self.views.push(own(*view, buffers));
                    self.numbers.insert(bytes.into(), number);
                    number
                }
            };
            numbers.push(number);
        }
        let numbers: Arc<[i32]> = numbers.into();
        self.seen = Some((dictionary.clone(), numbers.clone()));
        Some(numbers)
    }

    /// The dictionary seen last is not kept alive.
    pub fn forget_dictionary(&mut self) {
        self.seen = None;
    }

    /// Only the first so many values are known.
    pub fn truncate(&mut self, values: usize) {
        self.views.truncate(values);
        self.numbers.retain(|_, number| (*number as usize) < values);
        self.seen = None;
    }
}

/// The values of several packets, and for each packet the numbers that its own ones have among them. `None` if they are
/// too many. Views are of all blocks.
pub(super) fn united(packets: &[Vec<u128>], blocks: &[Buffer]) -> Option<(Vec<u128>, Vec<Vec<i32>>)> {
    let mut all = Vec::new();
    let mut numbers: HashMap<&[u8], i32> = HashMap::new();
    let mut of_packets = Vec::with_capacity(packets.len());
    for packet in packets {
        let own = packet.iter().map(|view| {
            *numbers.entry(views::bytes(view, blocks)).or_insert_with(|| {
                all.push(*view);
                all.len() as i32 - 1
            })
        });
        of_packets.push(own.collect::<Vec<_>>());
        if all.len() > VALUES_MAX {
            return None;
        }
    }
    Some((all, of_packets))
}
