//! What stands behind a star in DuckDB, where the parser does not know it:
//!
//! * `* LIKE 'p'` and its kin: `"columns like"('p')`; `t.* LIKE 'p'`: `"columns like"(t.*, 'p')`; `* EXCLUDE (a) LIKE
//!   'p'`: `"columns like"(* EXCLUDE (a), 'p')`;
//! * `COLUMNS(t.* EXCLUDE (a))`: `COLUMNS(t.*, * EXCLUDE (a))`, and REPLACE and RENAME likewise;
//! * `* REPLACE a + 1 AS a`: `* REPLACE (a + 1 AS a)`;
//! * `ORDER BY *`: `ORDER BY ALL`, where stars are read (`duckdb`).

use sqlparser::tokenizer::Token;

use super::{Text, quoted};

impl Text<'_> {
    /// `* [NOT] LIKE 'p'` and its kin, of a star whose item begins at `item`.
    pub(super) fn star_like(&mut self, item: usize, star: usize) {
        // What is left out of the star.
        let mut behind = star + 1;
        if self.is_any(behind, &["EXCLUDE", "EXCEPT"]) {
            behind = self.closed.get(&(behind + 1)).map_or(behind + 1, |closed| *closed) + 1;
        }
        let negated = self.is(behind, "NOT");
        let first = behind + usize::from(negated);
        let (kind, pattern) = match () {
            () if self.is(first, "LIKE") => ("like", first + 1),
            () if self.is(first, "ILIKE") && (negated || behind > star + 1) => ("ilike", first + 1),
            () if self.is(first, "SIMILAR") && self.is(first + 1, "TO") => ("similar", first + 2),
            () if self.is(first, "GLOB") => ("glob", first + 1),
            () => return,
        };
        let Token::SingleQuotedString(_) = self.token(pattern) else { return };
        let text = self.token(pattern).clone();
        let name = format!("columns {}{kind}", if negated { "not " } else { "" });
        let is_whole = behind == star + 1 && item == star;
        match is_whole {
            true => self.replace(star, [quoted(&name), Token::LParen]),
            false => self.insert(item, [quoted(&name), Token::LParen]),
        }
        self.drop(behind..pattern);
        let comma = (!is_whole).then_some(Token::Comma);
        self.replace(pattern, comma.into_iter().chain([text, Token::RParen]));
    }

    /// `COLUMNS(t.* EXCLUDE (a))`, of a star in parentheses that were opened there.
    pub(super) fn star_of_table(&mut self, star: usize, opened: usize) {
        let is_of_table = star == opened + 3 && *self.token(star - 1) == Token::Period;
        if is_of_table && self.follows(opened, &["COLUMNS"]) {
            self.insert(star + 1, [Token::Comma, Token::Mul]);
        }
    }

    /// `* REPLACE a + 1 AS a`, without parentheses.
    pub(super) fn star_replace(&mut self, at: usize) {
        // A star that is no sign of multiplication.
        let is_star = at > 1
            && *self.token(at - 1) == Token::Mul
            && (matches!(self.token(at - 2), Token::Comma | Token::LParen | Token::Period)
                || self.is_any(at - 2, &["SELECT", "DISTINCT", "ALL"]));
        if !is_star || *self.token(at + 1) == Token::LParen {
            return;
        }
        let named = self.next_of(at, &["AS", "FROM"]).filter(|place| self.is(*place, "AS"));
        if let Some(named) = named {
            self.insert(at + 1, [Token::LParen]);
            self.insert_or_end(named + 2, [Token::RParen]);
        }
    }
}
