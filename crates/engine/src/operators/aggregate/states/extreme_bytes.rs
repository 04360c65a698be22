//! The least or the greatest string per group, in the order of bytes.
//!
//! Kept as views: short strings lie in them, long ones in an arena. Strings that have been beaten leave gaps there,
//! which are closed when they take more room than what is left.

use std::any::Any;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, StringViewArray, UInt32Array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};

use super::super::arena::{Arena, Place};
use super::super::key_encoding::{BytesValues, bytes_values, dictionary_parts, into_type};
use super::extreme::MinMaxState;
use super::{Placement, for_each_valid};
use crate::batch::to_logical;
use crate::batch::views::{self, INLINE_BYTES};

/// No string has so many bytes.
const NOTHING: u128 = u128::MAX;
/// Gaps of so few bytes are left alone.
const GAPS_BYTES_MIN: usize = 64 * 1024;

/// A state for strings or bytes.
pub(super) fn extreme_bytes(data_type: &DataType, max: bool) -> Box<dyn MinMaxState> {
    let data_type = data_type.clone();
    match max {
        true => Box::new(ExtremeBytes::<true>::new(data_type)),
        false => Box::new(ExtremeBytes::<false>::new(data_type)),
    }
}

struct ExtremeBytes<const MAX: bool> {
    data_type: DataType,
    /// By group; of a long string, where it is in the arena.
    values: Vec<u128>,
    arena: Arena,
    /// Bytes of long strings that have not been beaten, and of those that have.
    live_bytes: usize,
    gap_bytes: usize,
}

impl<const MAX: bool> ExtremeBytes<MAX> {
    fn new(data_type: DataType) -> Self {
        Self { data_type, values: Vec::new(), arena: Arena::default(), live_bytes: 0, gap_bytes: 0 }
    }

    fn grow(&mut self, groups: usize) {
        self.values.resize(groups.max(self.values.len()), NOTHING);
    }

    #[inline]
    fn offer(&mut self, group: usize, bytes: &[u8]) {
        self.offer_view(group, views::head(bytes), || bytes);
    }

    /// A string whose view, or the low half of it, is known.
    #[inline(always)]
    fn offer_view<'b>(&mut self, group: usize, view: u128, bytes: impl Fn() -> &'b [u8]) {
        let best = self.values[group];
        let head = if views::is_long(view) { u128::from(view as u64) } else { view };
        if best != NOTHING {
            if !self.beats(&bytes, head, best) {
                return;
            }
            if views::is_long(best) {
                self.live_bytes -= views::length(best);
                self.gap_bytes += views::length(best);
            }
        }
        self.values[group] = if views::is_long(head) { self.store(head, bytes()) } else { head };
    }

    #[inline]
    fn store(&mut self, head: u128, bytes: &[u8]) -> u128 {
        let Place { block, offset } = self.arena.store(bytes);
        self.live_bytes += bytes.len();
        views::placed(head, block as usize, offset as usize)
    }

    #[inline(always)]
    fn beats<'b>(&self, bytes: impl Fn() -> &'b [u8], head: u128, best: u128) -> bool {
        let prefix = |view: u128| ((view >> 32) as u32).swap_bytes();
        // Behind the first twelve bytes of a short string there is nothing; where they are equal, the longer one is
        // greater.
        let whole = |view: u128| (view >> 32).swap_bytes() | u128::from(view as u32);
        let order = match prefix(head).cmp(&prefix(best)) {
            Ordering::Equal if !views::is_long(head) && !views::is_long(best) => whole(head).cmp(&whole(best)),
            Ordering::Equal => bytes().cmp(self.bytes_of(&best)),
            order => order,
        };
        order == if MAX { Ordering::Greater } else { Ordering::Less }
    }

    /// The strings of a dictionary at these places. They are put in order once, so that each row compares numbers.
    fn offer_places(&mut self, strings: &BytesValues, places: &UInt32Array, placement: Placement<'_>, count: usize) {
        let mut order = (0..count as u32).collect::<Vec<_>>();
        order.sort_unstable_by(|&one, &other| strings.get(one as usize).cmp(strings.get(other as usize)));
        let mut ranks = vec![0; count];
        for (rank, &place) in order.iter().enumerate() {
            // Zero is none.
            ranks[place as usize] = if MAX { rank as u32 + 1 } else { (count - rank) as u32 };
        }
        let mut best = vec![0u32; placement.groups];
        let mut look = |row: usize, place: u32| {
            let best = &mut best[placement.ids.map_or(0, |ids| ids[row] as usize)];
            *best = (*best).max(ranks[place as usize]);
        };
        match places.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => for_each_valid(nulls, |row| look(row, places.value(row))),
            None => places.values().iter().enumerate().for_each(|(row, &place)| look(row, place)),
        }
        for (group, &rank) in best.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            let rank = rank as usize;
            let place = if MAX { order[rank - 1] } else { order[count - rank] };
            self.offer(group, strings.get(place as usize));
        }
    }

    #[inline]
    fn bytes_of<'a>(&'a self, view: &'a u128) -> &'a [u8] {
        let length = views::length(*view);
        if length <= INLINE_BYTES {
            return views::bytes(view, &[]);
        }
        self.arena.read(Place { block: (*view >> 64) as u32, offset: (*view >> 96) as u32 }, length)
    }

    /// The values of some groups, with an arena of their own.
    fn of_groups(&self, groups: impl Iterator<Item = usize> + Clone) -> Self {
        let view = |group: usize| self.values.get(group).copied().unwrap_or(NOTHING);
        let is_long = |view: &u128| *view != NOTHING && views::is_long(*view);
        let bytes = groups.clone().map(view).filter(is_long).map(views::length).sum();
        let mut some = Self::new(self.data_type.clone());
        if bytes > 0 {
            some.arena = Arena::with_room(bytes);
        }
        some.values.reserve_exact(groups.size_hint().0);
        for group in groups {
            let view = view(group);
            let own = if is_long(&view) { some.store(view, self.bytes_of(&view)) } else { view };
            some.values.push(own);
        }
        some.arena.freeze();
        some
    }

    fn close_gaps(&mut self) {
        if self.gap_bytes > self.live_bytes + GAPS_BYTES_MIN {
            *self = self.of_groups(0..self.values.len());
        }
    }
}

impl<const MAX: bool> MinMaxState for ExtremeBytes<MAX> {
    fn update(&mut self, values: &ArrayRef, placement: Placement<'_>) -> Result<()> {
        self.grow(placement.groups);
        let plain;
        let values = match values.data_type() {
            DataType::Dictionary(..) => {
                let (strings, places) = dictionary_parts(values)?;
                // Two numbers per group and a few comparisons per string are less than one string per row.
                let is_small = placement.groups <= values.len() && strings.len() <= values.len() / 8;
                if is_small && strings.null_count() == 0 && places.null_count() < places.len() {
                    self.offer_places(&bytes_values(&strings)?, &places, placement, strings.len());
                    self.close_gaps();
                    return Ok(());
                }
                plain = to_logical(values, &self.data_type)?;
                &plain
            }
            _ => values,
        };
        let strings = bytes_values(values)?;
        if let BytesValues::Views(views, buffers) = &strings {
            let mut offer = |row: usize| {
                let view = &views[row];
                let group = placement.ids.map_or(0, |ids| ids[row] as usize);
                self.offer_view(group, *view, || views::bytes(view, buffers));
            };
            match values.nulls().filter(|nulls| nulls.null_count() > 0) {
                Some(nulls) => for_each_valid(nulls, offer),
                None => (0..values.len()).for_each(&mut offer),
            }
            self.close_gaps();
            return Ok(());
        }
        match (values.nulls().filter(|nulls| nulls.null_count() > 0), placement.ids) {
            (Some(nulls), Some(ids)) => {
                for_each_valid(nulls, |row| self.offer(ids[row] as usize, strings.get(row)));
            }
            (Some(nulls), None) => for_each_valid(nulls, |row| self.offer(0, strings.get(row))),
            (None, Some(ids)) => {
                ids.iter().enumerate().for_each(|(row, &id)| self.offer(id as usize, strings.get(row)));
            }
            (None, None) => (0..values.len()).for_each(|row| self.offer(0, strings.get(row))),
        }
        self.close_gaps();
        Ok(())
    }

    fn merge(&mut self, other: &dyn MinMaxState, range: Range<usize>, placement: Placement<'_>) -> Result<()> {
        let Some(other) = other.as_any().downcast_ref::<Self>() else {
            return Err(Error::bug("min or max states of different types met"));
        };
        self.grow(placement.groups);
        for (row, view) in other.values[range].iter().enumerate().filter(|(_, view)| **view != NOTHING) {
            let group = placement.ids.map_or(0, |ids| ids[row] as usize);
            self.offer(group, other.bytes_of(view));
        }
        self.close_gaps();
        Ok(())
    }

    fn resize(&mut self, groups: usize) {
        self.grow(groups);
    }

    fn permuted(&self, order: &[u32]) -> Box<dyn MinMaxState> {
        Box::new(self.of_groups(order.iter().map(|&group| group as usize)))
    }

    fn clear(&mut self) {
        self.values.clear();
        (self.arena, self.live_bytes, self.gap_bytes) = (Arena::default(), 0, 0);
    }

    fn output(&self, range: Range<usize>) -> Result<ArrayRef> {
        let some = self.of_groups(range);
        let nulls = some.values.iter().map(|&view| view != NOTHING).collect::<NullBuffer>();
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        let views = some.values.iter().map(|&view| if view == NOTHING { 0 } else { view }).collect::<Vec<_>>();
        let blocks: Arc<[Buffer]> = some.arena.blocks().into();
        // SAFETY: every view is NULL's, or that of a string, short or in its block; text stays text.
        let array: ArrayRef = match self.data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Arc::new(unsafe { StringViewArray::new_unchecked(views.into(), blocks, nulls) })
            }
            _ => Arc::new(unsafe { BinaryViewArray::new_unchecked(views.into(), blocks, nulls) }),
        };
        into_type(array, &self.data_type)
    }

    fn of_column(&self, column: &ArrayRef) -> Result<Box<dyn MinMaxState>> {
        let mut state = Self::new(self.data_type.clone());
        let nulls = column.nulls();
        let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
        match bytes_values(column)? {
            // Nothing is copied: what is read is merged, and gone.
            BytesValues::Views(all, buffers) => {
                let views = all.iter().enumerate().map(|(row, view)| if is_null(row) { NOTHING } else { *view });
                state.values.extend(views);
                state.arena = Arena::over(buffers.to_vec());
            }
            strings => {
                state.grow(column.len());
                let valid = (0..column.len()).filter(|&row| !is_null(row));
                valid.for_each(|row| state.offer(row, strings.get(row)));
            }
        }
        Ok(Box::new(state))
    }

    fn text_bytes(&self, range: Range<usize>) -> usize {
        let some = self.values.get(range.start..range.end.min(self.values.len())).unwrap_or_default();
        let long = some.iter().filter(|view| **view != NOTHING && views::is_long(**view));
        long.map(|view| views::length(*view)).sum()
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<u128>() + self.arena.bytes()
    }

    fn bytes_ahead(&self, groups: usize) -> usize {
        groups.max(self.values.capacity()) * size_of::<u128>() + self.arena.bytes()
    }

    fn bytes_per_group(&self) -> usize {
        size_of::<u128>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn strings_that_were_beaten_take_no_room() {
        let mut greatest = extreme_bytes(&DataType::Utf8View, true);
        let text = |number: usize| format!("{number:040}");
        for batch in 0..100 {
            let values: ArrayRef =
                Arc::new(StringViewArray::from_iter_values((0..1000).map(|row| text(batch * 1000 + row))));
            greatest
                .update(&values, Placement { ids: None, rows: 1000, before: 1, groups: 1, appended: false })
                .unwrap();
            assert!(greatest.bytes() < 4 * GAPS_BYTES_MIN + 100_000, "{} bytes", greatest.bytes());
        }
        assert_eq!(greatest.output(0..1).unwrap().as_string_view().value(0), text(99_999));
    }

    #[test]
    fn the_order_is_that_of_bytes() {
        let texts = [
            "",
            "a",
            "a\0",
            "ab",
            "abcd",
            "abcd\0",
            "abcdefghijkl",
            "abcdefghijklm",
            "abcdefghijkln",
            "é",
            "\u{10ffff}",
        ];
        for (low, high) in texts.iter().zip(&texts[1..]) {
            for pair in [[Some(*low), None, Some(*high)], [Some(*high), None, Some(*low)]] {
                let values: ArrayRef = Arc::new(StringViewArray::from_iter(pair));
                let placement = Placement { ids: Some(&[0, 0, 0]), rows: 3, before: 0, groups: 2, appended: false };
                for (max, best) in [(false, low), (true, high)] {
                    let mut extreme = extreme_bytes(&DataType::Utf8View, max);
                    extreme.update(&values, placement).unwrap();
                    let found = extreme.output(0..2).unwrap();
                    assert_eq!((found.as_string_view().value(0), found.is_null(1)), (*best, true));
                }
            }
        }
    }
}
