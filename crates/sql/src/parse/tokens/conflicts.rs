//! ON CONFLICT of expressions and of some rows, of which the parser knows the names of columns only:
//! `ON CONFLICT (lower(a), b) WHERE c > 0 DO …` becomes `ON CONFLICT ("conflict \u{1}lower(a)", b, "conflict where
//! \u{1}c > 0") DO …`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};
use crate::quoting::literal;

/// What an expression begins with that stands in the place of a column.
pub(crate) const CONFLICT_VALUE: &str = "conflict \u{1}";
/// What the condition begins with, likewise.
pub(crate) const CONFLICT_WHERE: &str = "conflict where \u{1}";

impl Text<'_> {
    /// ON CONFLICT, whose second word stands there.
    pub(super) fn conflict(&mut self, at: usize) {
        if self.ends_a_select_list(at - 1) {
            // Else ON would be the name of the last column.
            self.insert(at - 1, [word("WHERE"), word("TRUE")]);
        }
        let Some(&closed) = self.closed.get(&(at + 1)) else { return };
        let (mut begin, mut inner) = (at + 2, at + 2);
        while inner <= closed {
            if inner < closed && *self.token(inner) != Token::Comma {
                inner = self.closed.get(&inner).copied().unwrap_or(inner) + 1;
                continue;
            }
            if inner > begin + 1 {
                let value = format!("{CONFLICT_VALUE}{}", self.written(begin..inner));
                self.replace(begin, [quoted(&value)]);
                self.drop(begin + 1..inner);
            }
            (begin, inner) = (inner + 1, inner + 1);
        }
        if !self.is(closed + 1, "WHERE") {
            return;
        }
        let mut end = closed + 2;
        while end < self.words.len() && !(self.is(end, "DO") && self.is_any(end + 1, &["NOTHING", "UPDATE"])) {
            end += 1;
        }
        let condition = format!("{CONFLICT_WHERE}{}", self.written(closed + 2..end));
        self.insert(closed, [Token::Comma, quoted(&condition)]);
        self.drop(closed + 1..end);
    }

    /// Whether what comes before a place is the list of a SELECT, with nothing behind it.
    fn ends_a_select_list(&self, at: usize) -> bool {
        const BEHIND: [&str; 12] = [
            "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "VALUES", "INSERT",
            "TABLE",
        ];
        let (mut place, mut is_in_list) = (self.begin, false);
        while place < at {
            match self.closed.get(&place) {
                Some(closed) if *closed < at => {
                    place = *closed + 1;
                    continue;
                }
                Some(_) => is_in_list = false,
                None if self.is(place, "SELECT") => is_in_list = true,
                None if self.is_any(place, &BEHIND) => is_in_list = false,
                None => {}
            }
            place += 1;
        }
        is_in_list
    }

    /// Tokens as a text that is read as the same tokens.
    pub(super) fn written(&self, places: std::ops::Range<usize>) -> String {
        let text = |at| match self.token(at) {
            Token::SingleQuotedString(text) => literal(text),
            other => other.to_string(),
        };
        places.map(text).collect::<Vec<_>>().join(" ")
    }
}
