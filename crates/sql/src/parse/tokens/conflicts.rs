//! ON CONFLICT of expressions and of some rows, of which the parser knows the names of columns only:
//! `ON CONFLICT (lower(a), b) WHERE c > 0 DO …` becomes `ON CONFLICT ("conflict \u{1}lower(a)", b, "conflict where
//! \u{1}c > 0") DO …`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted};
use crate::quoting::literal;

/// What an expression begins with that stands in the place of a column.
pub(crate) const CONFLICT_VALUE: &str = "conflict \u{1}";
/// What the condition begins with, likewise.
pub(crate) const CONFLICT_WHERE: &str = "conflict where \u{1}";

impl Text<'_> {
    /// ON CONFLICT, whose second word stands there.
    pub(super) fn conflict(&mut self, at: usize) {
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

    /// Tokens as a text that is read as the same tokens.
    fn written(&self, places: std::ops::Range<usize>) -> String {
        let text = |at| match self.token(at) {
            Token::SingleQuotedString(text) => literal(text),
            other => other.to_string(),
        };
        places.map(text).collect::<Vec<_>>().join(" ")
    }
}
