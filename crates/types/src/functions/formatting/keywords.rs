//! Patterns of dates and times, taken apart into keywords and what stands between them.

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// A keyword.
    Field(Field),
    /// A character that is neither a letter nor a digit: it separates fields.
    Separator(char),
    /// A blank.
    Blank(char),
    /// Text in quotation marks, and letters that are no keyword.
    Literal(char),
}

/// A keyword with its modifiers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// In capital letters.
    pub name: &'static str,
    /// How it was written: decides the case of names.
    pub case: LetterCase,
    /// `FM`: no blanks and zeros in front.
    pub is_filled: bool,
    /// `TH` or `th` behind it.
    pub ordinal: Option<bool>,
}

/// The case in which a keyword was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterCase {
    /// `MONTH`.
    Upper,
    /// `Month`.
    Capital,
    /// `month`.
    Lower,
}

/// Keywords that may be written in capital letters or in small ones, the longer ones first.
const KEYWORDS: [&str; 53] = [
    "SSSSS", "A.D.", "A.M.", "B.C.", "P.M.", "DAY", "MONTH", "Y,YYY", "YYYY", "IYYY", "IDDD", "SSSS", "HH24", "HH12",
    "DDD", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "IYY", "MON", "TZH", "TZM", "YYY", "AD", "AM", "BC", "CC", "DD",
    "DY", "HH", "ID", "IW", "IY", "MI", "MM", "MS", "OF", "PM", "RM", "SS", "TZ", "US", "WW", "YY", "D", "I", "J", "Q",
    "W", "Y",
];
/// Keywords whose first letter alone may be a capital.
const NAMES: [(&str, &str); 4] = [("Day", "DAY"), ("Month", "MONTH"), ("Mon", "MON"), ("Dy", "DY")];

/// The pieces of a pattern.
pub(super) fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    let mut is_filled = false;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = modifier(rest) {
            // A translated name has no blanks behind it either.
            is_filled |= rest.starts_with("FM") || rest.starts_with("fm") || rest.starts_with("TM");
            rest = after;
            continue;
        }
        if let Some((name, case, length)) = keyword(rest) {
            rest = &rest[length..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            rest = if ordinal.is_some() { &rest[2..] } else { rest };
            rest = rest.strip_prefix("SP").unwrap_or(rest);
            pieces.push(Piece::Field(Field { name, case, is_filled, ordinal }));
            is_filled = false;
            continue;
        }
        is_filled = false;
        rest = &rest[first.len_utf8()..];
        match first {
            '"' => rest = quoted(rest, &mut pieces),
            '\\' if rest.starts_with('"') => {
                pieces.push(Piece::Literal('"'));
                rest = &rest[1..];
            }
            first if first.is_whitespace() => pieces.push(Piece::Blank(first)),
            first if first.is_ascii() && !first.is_ascii_alphanumeric() && !first.is_ascii_control() => {
                pieces.push(Piece::Separator(first));
            }
            other => pieces.push(Piece::Literal(other)),
        }
    }
    pieces
}

fn modifier(rest: &str) -> Option<&str> {
    ["FM", "fm", "FX", "fx", "TM"].iter().find_map(|known| rest.strip_prefix(known))
}

fn keyword(rest: &str) -> Option<(&'static str, LetterCase, usize)> {
    for name in KEYWORDS {
        let Some(written) = rest.get(..name.len()) else { continue };
        if written == name {
            return Some((name, LetterCase::Upper, name.len()));
        }
        if written.eq_ignore_ascii_case(name) && !written.contains(|c: char| c.is_ascii_uppercase()) {
            return Some((name, LetterCase::Lower, name.len()));
        }
        if let Some((_, name)) = NAMES.iter().find(|(capital, known)| *known == name && written == *capital) {
            return Some((name, LetterCase::Capital, name.len()));
        }
    }
    None
}

/// Text up to the closing quotation mark; a backslash takes the next character as it is.
fn quoted<'p>(mut rest: &'p str, pieces: &mut Vec<Piece>) -> &'p str {
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '"' => break,
            '\\' => {
                if let Some(next) = rest.chars().next() {
                    pieces.push(Piece::Literal(next));
                    rest = &rest[next.len_utf8()..];
                }
            }
            other => pieces.push(Piece::Literal(other)),
        }
    }
    rest
}

/// Patterns by text, taken apart once for each that a column has in a row.
#[derive(Default)]
pub(super) struct Pieces {
    last: Option<(String, Vec<Piece>)>,
}

impl Pieces {
    /// The pieces of a pattern.
    pub(super) fn get(&mut self, pattern: &str) -> &[Piece] {
        if self.last.as_ref().is_none_or(|(last, _)| last != pattern) {
            self.last = Some((pattern.to_owned(), pieces(pattern)));
        }
        self.last.as_ref().map_or(&[], |(_, pieces)| pieces)
    }
}
