//! What characters are to PostgreSQL's parser of words: those of the C library's locale `C.UTF-8`.

use std::sync::LazyLock;

/// Characters beyond ASCII by class, as ranges: PostgreSQL 15 was asked for each.
const CLASSES: &str = include_str!("classes.txt");

/// What a character is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharacterClass {
    /// Letters, and digits of other scripts than Latin.
    Letter,
    /// `0` to `9`.
    Digit,
    /// What has no width of its own: it is part of a word, but begins none.
    Mark,
    /// Blanks, and ends of lines.
    Blank,
    /// Anything else.
    Other,
}

/// The ranges of a class, ascending.
type Ranges = Vec<(u32, u32)>;

static RANGES: LazyLock<[(CharacterClass, Ranges); 3]> = LazyLock::new(|| {
    let class = |name: &str| {
        let line = CLASSES.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((u32::from_str_radix(first, 16).ok()?, u32::from_str_radix(last, 16).ok()?))
        };
        line.split_whitespace().filter_map(range).collect::<Ranges>()
    };
    [
        (CharacterClass::Letter, class("letters")),
        (CharacterClass::Mark, class("marks")),
        (CharacterClass::Blank, class("blanks")),
    ]
});

impl CharacterClass {
    /// The class of a character.
    pub(super) fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' => Self::Blank,
            '\0'..='\u{7f}' => Self::Other,
            other => {
                let code = u32::from(other);
                let has = |ranges: &Ranges| {
                    let behind = ranges.partition_point(|(first, _)| *first <= code);
                    behind > 0 && code <= ranges[behind - 1].1
                };
                RANGES.iter().find(|(_, ranges)| has(ranges)).map_or(Self::Other, |(class, _)| *class)
            }
        }
    }
}

/// The text in lower case, character by character, as dictionaries see it.
pub(super) fn lowered(text: &str) -> String {
    let lower = |character: char| {
        if character.is_ascii() {
            return character.to_ascii_lowercase();
        }
        // What becomes several characters stays, but for the dotted I.
        let mut lower = character.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(one), None) => one,
            _ if character == 'İ' => 'i',
            _ => character,
        }
    };
    text.chars().map(lower).collect()
}
