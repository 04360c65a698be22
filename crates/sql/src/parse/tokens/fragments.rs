//! How a table is divided and ordered, as options that the parser knows:
//!
//! * `DISTRIBUTED BY HASH (a, b) FRAGMENTS 4 CLUSTERED BY (c)`: `WITH ("distributed by" = "hash"(4, a, b), "clustered
//!   by" = "columns"(c))`;
//! * `… ROUND ROBIN`: `"round robin"(NULL)`; `… RANGE (a) VALUES (1, 2)`: `"range"(NULL, a, 1, 2)`;
//!   `… RANGE (a) UNIFORM`: `"uniform range"(NULL, a)`; a comma may stand before FRAGMENTS;
//! * in ALTER TABLE, behind SET: the same without WITH.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// DISTRIBUTED BY, as the parser's tree has it: an option of this name. Its value is a call of one of the names below.
pub(crate) const DISTRIBUTED: &str = "distributed by";
/// CLUSTERED BY, likewise: its value is a call with the columns.
pub(crate) const CLUSTERED: &str = "clustered by";
/// ROUND ROBIN: a call with the number of fragments, or NULL.
pub(crate) const ROUND_ROBIN: &str = "round robin";
/// HASH: a call with the number of fragments, or NULL, and the columns.
pub(crate) const HASH: &str = "hash";
/// RANGE … VALUES: a call with the number of fragments, or NULL, the column and the bounds.
pub(crate) const RANGE: &str = "range";
/// RANGE … UNIFORM: a call with the number of fragments, or NULL, and the column.
pub(crate) const UNIFORM: &str = "uniform range";

impl Text<'_> {
    /// The clauses, if the first of them begins there.
    pub(super) fn fragments(&mut self, at: usize) {
        if at == 0 || self.edits.has(self.words[at]) {
            return;
        }
        let (mut options, mut end) = (Vec::new(), at);
        while let Some((option, behind)) = self.fragment_clause(end) {
            if end > at {
                options.push(Token::Comma);
            }
            options.extend(option);
            end = behind;
        }
        if end == at {
            return;
        }
        let is_behind_options = |text: &Self, place: usize| {
            let opened = text.closed.iter().find(|(_, closed)| **closed == place).map(|(opened, _)| *opened);
            opened.is_some_and(|opened| text.follows(opened, &["WITH"]))
        };
        if self.follows(at, &["SET"]) {
            options.insert(0, Token::LParen);
            options.push(Token::RParen);
        } else if *self.token(at - 1) == Token::RParen && is_behind_options(self, at - 1) {
            self.replace(at - 1, [Token::Comma]);
            options.push(Token::RParen);
        } else {
            options.splice(0..0, [word("WITH"), Token::LParen]);
            if self.is(end, "WITH") && *self.token(end + 1) == Token::LParen {
                options.push(Token::Comma);
                end += 2;
            } else {
                options.push(Token::RParen);
            }
        }
        self.drop(at..end);
        self.replace(at, options);
    }

    /// One clause as an option, and what is behind it.
    fn fragment_clause(&self, at: usize) -> Option<(Vec<Token>, usize)> {
        if !self.is(at + 1, "BY") {
            return None;
        }
        let option = |name: &str, function: &str, arguments: Vec<Token>| {
            let head = [quoted(name), Token::Eq, quoted(function), Token::LParen];
            head.into_iter().chain(arguments).chain([Token::RParen]).collect::<Vec<_>>()
        };
        let closed = |opened: usize| match self.token(opened) {
            Token::LParen => self.closed.get(&opened).copied(),
            _ => None,
        };
        if self.is(at, "CLUSTERED") {
            let end = closed(at + 2)?;
            return Some((option(CLUSTERED, "columns", self.between(at + 2, end)), end + 1));
        }
        if !self.is(at, "DISTRIBUTED") {
            return None;
        }
        let counted = |end: usize| {
            let at = end + usize::from(*self.token(end) == Token::Comma);
            match (self.is(at, "FRAGMENTS"), self.token(at + 1)) {
                (true, number @ Token::Number(..)) => (number.clone(), at + 2),
                _ => (Token::make_keyword("NULL"), end),
            }
        };
        if self.is(at + 2, "ROUND") && self.is(at + 3, "ROBIN") {
            let (count, end) = counted(at + 4);
            return Some((option(DISTRIBUTED, ROUND_ROBIN, vec![count]), end));
        }
        let end = closed(at + 3)?;
        let columns = self.between(at + 3, end);
        if self.is(at + 2, "HASH") {
            let (count, behind) = counted(end + 1);
            let arguments = [count, Token::Comma].into_iter().chain(columns).collect();
            return Some((option(DISTRIBUTED, HASH, arguments), behind));
        }
        if !self.is(at + 2, "RANGE") {
            return None;
        }
        if self.is(end + 1, "UNIFORM") {
            let (count, behind) = counted(end + 2);
            let arguments = [count, Token::Comma].into_iter().chain(columns).collect();
            return Some((option(DISTRIBUTED, UNIFORM, arguments), behind));
        }
        let values = closed(end + 2)
            .filter(|_| matches!(self.token(end + 1), Token::Word(word) if word.keyword == Keyword::VALUES))?;
        let (count, behind) = counted(values + 1);
        let head = [count, Token::Comma].into_iter().chain(columns).chain([Token::Comma]);
        let arguments = head.chain(self.between(end + 2, values)).collect();
        Some((option(DISTRIBUTED, RANGE, arguments), behind))
    }
}
