//! Finds a piece of text in many strings at once.
//!
//! Strings of a column mostly lie one behind the other, as a page of their file had them. Such a *run* of strings is
//! searched as one long text, and a place that is found is looked up among the strings:
//!
//! ```text
//!   bytes of the buffer    carefully final....blithely bold....quick deposits
//!   strings                |------ 0 -----|   |---- 1 ----|    |---- 2 -----|
//!   "bold" is found                                    ^  in string 1
//! ```
//!
//! What is found across the end of a string, or between two, is passed over. A string is searched up to the first place
//! only: the search goes on behind it.

use arrow::array::{Array, GenericStringArray, OffsetSizeTrait, StringViewArray};
use arrow::buffer::{BooleanBuffer, Buffer};
use memchr::memmem::Finder;

use crate::batch::views;

/// Bytes between two strings of a run, at most. They are searched in vain: the length of the next string in a Parquet
/// page, and short strings, which lie in their views.
const GAP_MAX: usize = 32;

/// For every string whether it has the piece, and fits. Slots of NULLs are looked at as well.
pub(super) fn in_offsets<O: OffsetSizeTrait>(
    strings: &GenericStringArray<O>,
    piece: &Finder<'_>,
    fits: impl Fn(&[u8]) -> bool,
) -> BooleanBuffer {
    let offsets = strings.value_offsets();
    let mut found = FoundStrings::of(strings.len());
    let place = |row: usize| Some((offsets[row].as_usize(), offsets[row + 1].as_usize()));
    found.search(strings.value_data(), 0..strings.len(), place, piece, &fits);
    found.finish()
}

/// The same for strings behind views.
pub(super) fn in_views(strings: &StringViewArray, piece: &Finder<'_>, fits: impl Fn(&[u8]) -> bool) -> BooleanBuffer {
    let (views, buffers) = (strings.views(), strings.data_buffers());
    let length_min = piece.needle().len();
    let mut found = FoundStrings::of(views.len());
    let place = |row: usize| {
        let view = views[row];
        let (_, start) = views::place(view);
        views::is_long(view).then(|| (start, start + views::length(view)))
    };
    let mut row = 0;
    while row < views.len() {
        let view = &views[row];
        if !views::is_long(*view) {
            if views::length(*view) >= length_min {
                let bytes = views::bytes(view, buffers);
                if piece.find(bytes).is_some() && fits(bytes) {
                    found.set(row);
                }
            }
            row += 1;
            continue;
        }
        // A run of strings of one buffer. Short ones among them are looked at by themselves.
        let (buffer, start) = views::place(*view);
        let mut end = start + views::length(*view);
        let mut next = row + 1;
        while let Some(view) = views.get(next) {
            if views::is_long(*view) {
                let (other, start) = views::place(*view);
                if other != buffer || start < end || start - end > GAP_MAX {
                    break;
                }
                end = start + views::length(*view);
            } else if views::length(*view) >= length_min {
                let bytes = views::bytes(view, buffers);
                if piece.find(bytes).is_some() && fits(bytes) {
                    found.set(next);
                }
            }
            next += 1;
        }
        // What the view of a NULL says need not be there.
        if let Some(text) = buffers.get(buffer).map(Buffer::as_slice) {
            found.search(text, row..next, place, piece, &fits);
        }
        row = next;
    }
    found.finish()
}

/// One bit for each string.
struct FoundStrings {
    words: Vec<u64>,
    rows: usize,
}

impl FoundStrings {
    fn of(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], rows }
    }

    fn set(&mut self, row: usize) {
        self.words[row / 64] |= 1 << (row % 64);
    }

    fn finish(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.rows)
    }

    /// Searches the text for the strings `rows`, which lie in it in their order; `place` has the beginning and the end
    /// of each, and `None` for those that lie elsewhere.
    fn search(
        &mut self,
        text: &[u8],
        rows: std::ops::Range<usize>,
        place: impl Fn(usize) -> Option<(usize, usize)>,
        piece: &Finder<'_>,
        fits: &impl Fn(&[u8]) -> bool,
    ) {
        let Some((mut from, _)) = rows.clone().find_map(&place) else { return };
        // The view of a NULL may have its end anywhere.
        let end = rows.clone().rev().find_map(&place).map_or(from, |(_, end)| end.min(text.len()));
        let mut row = rows.start;
        while let Some(hit) = text.get(from..end).and_then(|rest| piece.find(rest)) {
            let hit = from + hit;
            // The string that has the beginning of what was found, or the next one behind it.
            let string = loop {
                match (row < rows.end).then(|| place(row)) {
                    Some(Some(string)) if string.1 > hit => break Some(string),
                    Some(_) => row += 1,
                    None => break None,
                }
            };
            let Some((start, end)) = string else { return };
            from = if start <= hit && hit + piece.needle().len() <= end {
                if text.get(start..end).is_some_and(fits) {
                    self.set(row);
                }
                row += 1;
                end
            } else {
                // Up to the next string there is nothing to be found.
                (hit + 1).max(start)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{LargeStringArray, StringArray, StringViewBuilder};

    use super::*;

    /// Strings whose views have their places in one buffer in order, with gaps between them, in which the piece stands
    /// as well; then the same strings backwards.
    #[test]
    fn a_piece_is_found_in_strings_and_not_between_them() {
        let strings = [
            "a needle in a haystack",
            "needle",
            "",
            "a haystack without one, nee",
            "dle, the rest of what the one before begins with",
            "needleneedleneedleneedle",
            "short",
            "nothing that is looked for",
            "żółte needle żółwie",
            "at the very end a needle",
        ];
        let mut text = Vec::new();
        let places: Vec<_> = strings
            .iter()
            .map(|string| {
                text.extend_from_slice(b"needle.");
                text.extend_from_slice(string.as_bytes());
                (text.len() - string.len(), string.len())
            })
            .collect();
        // Next to each other without a gap, too.
        let close = text.len();
        strings.iter().for_each(|string| text.extend_from_slice(string.as_bytes()));
        let mut builder = StringViewBuilder::new();
        let buffer = builder.append_block(text.into());
        let mut expected = Vec::new();
        let mut add = |start: usize, length: usize, string: &str| {
            builder.try_append_view(buffer, start as u32, length as u32).unwrap();
            expected.push(string.contains("needle"));
        };
        for (string, (start, length)) in strings.iter().zip(&places) {
            add(*start, *length, string);
        }
        for (string, (start, length)) in strings.iter().zip(&places).rev() {
            add(*start, *length, string);
        }
        let mut start = close;
        for string in strings {
            add(start, string.len(), string);
            start += string.len();
        }
        let views = builder.finish();
        let piece = Finder::new("needle");
        let found = in_views(&views, &piece, |_| true);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        let sliced = in_views(&views.slice(3, 20), &piece, |_| true);
        assert_eq!(sliced.iter().collect::<Vec<_>>(), expected[3..23]);
        let long = in_views(&views, &piece, |bytes| bytes.len() > 12);
        let is_long = views.iter().map(|string| string.unwrap().len() > 12);
        let expected_long: Vec<_> = expected.iter().zip(is_long).map(|(found, long)| *found && long).collect();
        assert_eq!(long.iter().collect::<Vec<_>>(), expected_long);

        let all: Vec<_> = views.iter().collect();
        let plain = in_offsets(&StringArray::from(all.clone()), &piece, |_| true);
        assert_eq!(plain.iter().collect::<Vec<_>>(), expected);
        let large = LargeStringArray::from(all).slice(2, 7);
        assert_eq!(in_offsets(&large, &piece, |_| true).iter().collect::<Vec<_>>(), expected[2..9]);
    }

    #[test]
    fn a_null_with_a_place_behind_the_end_hides_nothing() {
        let text = b"a needle and another, a needle";
        let places = [(0, 12), (13, 20), (22, 9000)];
        let mut found = FoundStrings::of(3);
        found.search(text, 0..3, |row| Some(places[row]), &Finder::new("needle"), &|_| true);
        assert_eq!(found.finish().iter().collect::<Vec<_>>(), [true, false, false]);
    }
}
