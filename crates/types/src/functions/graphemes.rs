//! Functions of what readers take for one character of a text, however many code points it has (DuckDB's manual, "Text
//! Functions").

use unicode_segmentation::UnicodeSegmentation;

use super::catalog::Catalog;
use super::columns::kernel;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("length_grapheme(text) -> bigint", kernel!(|text: &str| count(text)));
    catalog.add(
        "left_grapheme(text, bigint) -> text",
        kernel!(|text: &str, wanted: i64| {
            part(text, 0, if wanted < 0 { count(text).saturating_add(wanted) } else { wanted })
        }),
    );
    catalog.add(
        "right_grapheme(text, bigint) -> text",
        kernel!(|text: &str, wanted: i64| {
            let first = if wanted < 0 { wanted.saturating_neg() } else { count(text).saturating_sub(wanted) };
            part(text, first, i64::MAX)
        }),
    );
    catalog.add(
        "substring_grapheme(text, bigint) -> text",
        kernel!(|text: &str, from: i64| substring(text, from, i64::MAX)),
    );
    catalog.add(
        "substring_grapheme(text, bigint, bigint) -> text",
        kernel!(|text: &str, from: i64, length: i64| substring(text, from, length)),
    );
}

fn count(text: &str) -> i64 {
    i64::try_from(text.graphemes(true).count()).unwrap_or(i64::MAX)
}

/// The characters from a place up to another one, counted from 0.
fn part(text: &str, begin: i64, end: i64) -> String {
    let [begin, end] = [begin, end].map(|place| usize::try_from(place.max(0)).unwrap_or(usize::MAX));
    text.graphemes(true).skip(begin).take(end.saturating_sub(begin)).collect()
}

/// So many characters from a place on, counted from 1, or from the end below 0; with a length below 0 those before the
/// place.
fn substring(text: &str, from: i64, length: i64) -> String {
    let (begin, length) = match from {
        1.. => (from - 1, length),
        0 => (0, length.saturating_sub(1)),
        _ => (count(text).saturating_add(from).max(0), length),
    };
    match length {
        0.. => part(text, begin, begin.saturating_add(length)),
        _ if from == 0 => String::new(),
        _ => part(text, begin.saturating_add(length), begin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_duckdb() {
        // A letter with an accent of its own, and a family that is joined.
        let text = "xe\u{301}\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}z";
        assert_eq!(count(text), 4);
        for (from, length, wanted) in [
            (2, 1, "b"),
            (2, i64::MAX, "bcd"),
            (-2, 1, "c"),
            (-2, i64::MAX, "cd"),
            (0, 2, "a"),
            (0, 0, ""),
            (0, -1, ""),
            (-9, 10, "abcd"),
            (-9, 2, "ab"),
            (2, -1, "a"),
            (9, 1, ""),
            (i64::MIN, i64::MIN, ""),
        ] {
            assert_eq!(substring("abcd", from, length), wanted, "{from}, {length}");
        }
        assert_eq!(substring(text, 2, 1), "e\u{301}");
        assert_eq!(substring(text, -1, 1), "z");
    }
}
