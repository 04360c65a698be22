//! Clauses of queries.

use std::collections::HashSet;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token};

use super::{Text, TokenLevel, calls, quoted, word};

/// LIMIT of a percentage, as the parser's tree has it: a call of this name.
pub(crate) const LIMIT_PERCENT: &str = "limit percent";

/// GROUPING SETS within GROUPING SETS, as the parser's tree has it: a call of this name.
pub(crate) const GROUPING_SETS: &str = "grouping sets";

/// `()` in it.
pub(crate) const EMPTY_SET: &str = "empty grouping set";

/// VARIADIC in front of an array, as the parser's tree has it: a call.
pub(crate) const VARIADIC_ARRAY: &str = "variadic array";

/// EXECUTE in the place of a query, as the parser's tree has it: a function in FROM, whose first argument is the name
/// of the prepared statement.
pub(crate) const EXECUTED: &str = "execute prepared";

impl Text<'_> {
    /// `CREATE TABLE t AS EXECUTE p(1)`: `CREATE TABLE t AS SELECT * FROM "execute prepared"('p', 1)`.
    pub(super) fn executed(&mut self, at: usize) {
        let is_of_table = (self.begin + 1..at).take(4).any(|kind| self.is(kind, "TABLE"));
        let Token::Word(name) = self.token(at + 1) else { return };
        if self.statement != Keyword::CREATE || !is_of_table || !self.follows(at, &["AS"]) {
            return;
        }
        let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
        self.replace(at, [word("SELECT"), Token::Mul, word("FROM")]);
        let call = [quoted(EXECUTED), Token::LParen, Token::SingleQuotedString(name)];
        match (self.token(at + 2), self.token(at + 3)) {
            (Token::LParen, Token::RParen) => {
                self.replace(at + 1, call);
                self.drop(at + 2..at + 3);
            }
            (Token::LParen, _) => {
                self.replace(at + 1, call);
                self.replace(at + 2, [Token::Comma]);
            }
            _ => self.replace(at + 1, call.into_iter().chain([Token::RParen])),
        }
    }

    /// Whether a parenthesis has the parameters of a function that a statement makes, drops or alters.
    fn declares_parameters(&self, opened: usize) -> bool {
        if !matches!(self.statement, Keyword::CREATE | Keyword::DROP | Keyword::ALTER) {
            return false;
        }
        let words = self.begin + 1..(self.begin + 5).min(opened);
        let kind = words.into_iter().find(|at| self.is_any(*at, &["FUNCTION", "PROCEDURE", "ROUTINE"]));
        kind.is_some_and(|kind| self.name_end(if self.is(kind + 1, "IF") { kind + 3 } else { kind + 1 }) == opened)
    }

    /// The places of the parentheses around queries that begin with a parenthesis: `((SELECT 1) UNION SELECT 2)`.
    pub(super) fn queries(&self) -> HashSet<Location> {
        // Inner parentheses are opened last.
        let (mut around_query, mut places) = (HashSet::new(), HashSet::new());
        for at in (0..self.words.len()).rev() {
            let Some(closed) = self.closed.get(&at) else { continue };
            if self.is_any(at + 1, &["SELECT", "WITH", "VALUES", "TABLE"]) {
                around_query.insert(at);
            } else if around_query.contains(&(at + 1)) {
                let behind = self.closed[&(at + 1)] + 1;
                let clauses = ["UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"];
                if behind == *closed || self.is_any(behind, &clauses) {
                    around_query.insert(at);
                    places.insert(self.tokens[self.words[at]].span.start);
                }
            }
        }
        places
    }

    /// SELECT of nothing from nowhere: a row without columns.
    pub(super) fn select(&mut self, at: usize) {
        let ends = match self.token(at + 1) {
            Token::RParen | Token::SemiColon | Token::EOF => true,
            Token::Word(word) if word.quote_style.is_none() => matches!(
                word.keyword,
                Keyword::WHERE
                    | Keyword::UNION
                    | Keyword::INTERSECT
                    | Keyword::EXCEPT
                    | Keyword::LIMIT
                    | Keyword::OFFSET
            ),
            _ => false,
        };
        if ends {
            let rows = [Token::LParen, word("VALUES"), Token::LParen, word("NULL"), Token::RParen, Token::RParen];
            self.replace(at, [word("SELECT"), word("FROM")].into_iter().chain(rows).chain([quoted("one row")]));
        }
    }

    /// `TABLE t`: `SELECT * FROM t`, where a query begins.
    pub(super) fn table(&mut self, at: usize) {
        let begins = match at.checked_sub(1) {
            None => true,
            Some(before) => {
                matches!(self.token(before), Token::LParen | Token::RParen | Token::SemiColon)
                    || self.is_any(
                        before,
                        &["UNION", "INTERSECT", "EXCEPT", "ALL", "DISTINCT", "EXPLAIN", "ANALYZE", "VERBOSE"],
                    )
                    || self.is(before, "AS") && self.statement == Keyword::CREATE && self.ends_with_table(at)
            }
        };
        // Of a statement with nothing to do, nothing is left.
        if !begins || !matches!(self.token(at + 1), Token::Word(_)) || self.edits.has(self.words[at]) {
            return;
        }
        self.replace(at, [word("SELECT"), Token::Mul, word("FROM")]);
        if self.is(at + 1, "ONLY") && matches!(self.token(at + 2), Token::Word(_)) {
            self.drop(at + 1..at + 2);
        }
    }

    /// Whether `TABLE t` is the rest of a statement, but for WITH.
    fn ends_with_table(&self, at: usize) -> bool {
        let end = self.name_end(at + 1);
        end > at + 1 && (self.ends_statement(end) || self.is(end, "WITH"))
    }

    /// `GROUP BY DISTINCT a, b`: `GROUP BY "group by distinct"(), a, b`; `GROUP BY ALL a, b`: without ALL.
    pub(super) fn group_by(&mut self, at: usize) {
        if !self.is(at + 1, "BY") {
            return;
        }
        let begins_part = match self.token(at + 3) {
            Token::LParen | Token::Number(..) => true,
            Token::Word(word) => {
                let parts = [Keyword::NoKeyword, Keyword::ROLLUP, Keyword::CUBE, Keyword::GROUPING];
                parts.contains(&word.keyword)
            }
            _ => false,
        };
        if self.is(at + 2, "DISTINCT") {
            self.replace(at + 2, calls("group by distinct").chain([Token::Comma]));
        } else if self.is(at + 2, "ALL") && begins_part {
            self.drop(at + 2..at + 3);
        }
    }

    /// VARIADIC in front of a call's last argument.
    pub(super) fn variadic(&mut self, at: usize, opened: usize) {
        if self.declares_parameters(opened) {
            return;
        }
        if let Some(&closed) = self.closed.get(&opened) {
            self.replace(at, [quoted(VARIADIC_ARRAY), Token::LParen]);
            self.insert(closed, [Token::RParen]);
        }
    }

    /// The offsets of a frame that begin with a quoted text get parentheses: without, they are intervals for the
    /// parser, and end with the text.
    pub(super) fn frame_offsets(&mut self, at: usize) {
        let mut begin = if self.is(at + 1, "BETWEEN") { at + 2 } else { at + 1 };
        loop {
            let mut end = begin;
            while !self.is_any(end, &["PRECEDING", "FOLLOWING", "ROW"]) {
                match self.token(end) {
                    Token::LParen => match self.closed.get(&end) {
                        Some(closed) => end = *closed,
                        None => return,
                    },
                    Token::RParen | Token::SemiColon | Token::EOF => return,
                    _ => {}
                }
                end += 1;
            }
            if matches!(self.token(begin), Token::SingleQuotedString(_)) {
                self.insert(begin, [Token::LParen]);
                self.insert(end, [Token::RParen]);
            }
            if !self.is(end + 1, "AND") {
                return;
            }
            begin = end + 2;
        }
    }

    /// Whether parentheses are those of GROUPING SETS.
    pub(super) fn is_in_grouping_sets(&self, level: &TokenLevel) -> bool {
        level.opened > 1 && self.is(level.opened - 1, "SETS") && self.is(level.opened - 2, "GROUPING")
    }

    /// GROUPING SETS within GROUPING SETS: a call, as ROLLUP is one there. Its empty sets are calls, too.
    pub(super) fn nested_sets(&mut self, at: usize) {
        let opened = at + 2;
        let Some(&closed) = self.closed.get(&opened) else { return };
        self.replace(at, [quoted(GROUPING_SETS)]);
        self.drop(at + 1..at + 2);
        let mut part = opened + 1;
        while part < closed {
            if *self.token(part) == Token::LParen {
                let end = self.closed.get(&part).copied().unwrap_or(part);
                if end == part + 1 && matches!(self.token(part - 1), Token::LParen | Token::Comma) {
                    self.insert(part, [quoted(EMPTY_SET)]);
                }
                part = end;
            }
            part += 1;
        }
    }

    /// EXCLUDE in a window's frame: a first part of PARTITION BY.
    pub(super) fn exclude(&mut self, at: usize, opened: usize) {
        let (name, words) = if self.is(at + 1, "CURRENT") && self.is(at + 2, "ROW") {
            ("exclude current row", 3)
        } else if self.is(at + 1, "NO") && self.is(at + 2, "OTHERS") {
            ("exclude no others", 3)
        } else if self.is(at + 1, "GROUP") {
            ("exclude group", 2)
        } else if self.is(at + 1, "TIES") {
            ("exclude ties", 2)
        } else {
            return;
        };
        self.drop(at..at + words);
        let mut first = opened + 1;
        let is_clause = self.is_any(first, &["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"]);
        if !is_clause && matches!(self.token(first), Token::Word(_)) {
            // The window that it builds upon.
            first += 1;
        }
        if self.is(first, "PARTITION") && self.is(first + 1, "BY") {
            self.insert(first + 2, calls(name).chain([Token::Comma]));
        } else {
            self.insert(first, [word("PARTITION"), word("BY")].into_iter().chain(calls(name)));
        }
    }

    /// `LIMIT 50 %` and `LIMIT 50 PERCENT`: LIMIT of a call.
    pub(super) fn limit_percent(&mut self, at: usize) {
        let count = at + 1;
        let end = match self.token(count) {
            Token::LParen => self.closed.get(&count).map_or(count, |closed| closed + 1),
            Token::Number(..) | Token::Placeholder(_) | Token::Question => count + 1,
            _ => return,
        };
        let behind = self.token(end + 1);
        let ends = matches!(behind, Token::EOF | Token::SemiColon | Token::RParen) || self.is(end + 1, "OFFSET");
        if ends && (*self.token(end) == Token::Mod || self.is(end, "PERCENT")) {
            self.insert(count, [quoted(LIMIT_PERCENT), Token::LParen]);
            self.replace(end, [Token::RParen]);
        }
    }

    /// The place behind a number of rows: nothing, a number, or an expression in parentheses.
    fn behind_count(&self, count: usize) -> usize {
        match self.token(count) {
            Token::LParen => self.closed.get(&count).map_or(count, |closed| closed + 1),
            Token::Plus | Token::Minus => count + 2,
            _ if self.is_any(count, &["ROW", "ROWS"]) => count,
            _ => count + 1,
        }
    }

    /// `FETCH FIRST n ROWS ONLY`: LIMIT, which may stand in front of OFFSET and takes any expression.
    pub(super) fn fetch(&mut self, at: usize) {
        let begins = at == 0 || *self.token(at - 1) == Token::SemiColon;
        if begins || !self.is_any(at + 1, &["FIRST", "NEXT"]) {
            return;
        }
        let count = at + 2;
        let end = self.behind_count(count);
        let is_of_rows = self.is_any(end, &["ROW", "ROWS"]);
        if is_of_rows && self.is(end + 1, "WITH") && self.is(end + 2, "TIES") && self.is(end + 3, "OFFSET") {
            // The parser reads OFFSET in front only.
            let behind = self.behind_count(end + 4);
            let moved = (end + 3..behind).map(|at| self.token(at).clone()).collect::<Vec<_>>();
            self.insert(at, moved);
            self.drop(end + 3..behind + usize::from(self.is_any(behind, &["ROW", "ROWS"])));
        }
        if !is_of_rows || !self.is(end + 1, "ONLY") {
            return;
        }
        self.replace(at, [word("LIMIT")]);
        self.drop(at + 1..at + 2);
        if end == count {
            self.insert(end, [Token::Number("1".to_owned(), false)]);
        }
        self.drop(end..end + 2);
    }

    /// `ORDER BY a USING <`: ASC.
    pub(super) fn order_using(&mut self, at: usize, direction: &str) {
        self.replace(at, [word(direction)]);
        self.drop(at + 1..at + 2);
    }
}
