//! `t.*` as a value: `t.* = u.*`, `old.* IS DISTINCT FROM new.*`, `t.* IS NOT NULL`, `(t.*).a`, `GROUP BY t.*`; and
//! ROWS FROM.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// The function that gives a source's row, of the source's name.
pub(crate) const WHOLE_ROW: &str = "whole row";

/// The function in ROWS FROM whose rows are those of an array.
pub(crate) const ROWS_OF: &str = "rows of";

impl Text<'_> {
    /// `ROWS FROM (f(), g() AS (a integer))`: `"rows from"(f(), "rows of"(ARRAY(SELECT "row" FROM g() AS "row" (a
    /// integer))))`. `at` is ROWS.
    pub(super) fn rows_from(&mut self, at: usize) {
        self.replace(at, [quoted("rows from")]);
        self.drop(at + 1..at + 2);
        let Some(&end) = self.closed.get(&(at + 2)) else { return };
        let (mut begin, mut part) = (at + 3, at + 3);
        while part < end {
            match self.token(part) {
                Token::LParen => part = self.closed.get(&part).copied().unwrap_or(part),
                Token::Comma => begin = part + 1,
                Token::Word(_) if self.is(part, "AS") && self.declares_columns(part) => {
                    let [array, select, from] = ["ARRAY", "SELECT", "FROM"].map(word);
                    let row = || quoted("row");
                    self.insert(begin, [quoted(ROWS_OF), Token::LParen, array, Token::LParen, select, row(), from]);
                    self.replace(part, [word("AS"), row()]);
                    let columns = self.closed.get(&(part + 1)).copied().unwrap_or(part);
                    self.insert(columns + 1, [Token::RParen, Token::RParen]);
                    part = columns;
                }
                _ => {}
            }
            part += 1;
        }
    }

    /// `t.*` beside an operator, or as a key: `"whole row"(t)`. In front of a field: `t`. `at` is the star.
    pub(super) fn whole_row(&mut self, at: usize) {
        let Some(begin) = self.begin_of_name(at) else { return };
        // Parentheses around the star alone, which are no call's.
        let mut around = (begin, at);
        while around.0 > 0
            && *self.token(around.0 - 1) == Token::LParen
            && *self.token(around.1 + 1) == Token::RParen
            && !self.is_called(around.0 - 1)
        {
            around = (around.0 - 1, around.1 + 1);
        }
        let has_field = around.0 < begin && *self.token(around.1 + 1) == Token::Period;
        let is_key =
            around.0 > 1 && self.is(around.0 - 1, "BY") && self.is_any(around.0 - 2, &["GROUP", "ORDER", "PARTITION"]);
        if has_field {
            return self.drop(at - 1..at + 1);
        }
        if !is_key && !self.is_operand(around.0, around.1) {
            return;
        }
        self.insert(begin, [quoted(WHOLE_ROW), Token::LParen]);
        self.replace(at - 1, []);
        self.replace(at, [Token::RParen]);
    }

    /// `INSERT INTO t (VALUES (1), (2))`, whose parenthesis the parser takes for names of columns: without it.
    pub(super) fn values_in_parentheses(&mut self, opened: usize) {
        let Some(&closed) = self.closed.get(&opened) else { return };
        let is_source = self.statement == Keyword::INSERT && self.is(self.begin + 1, "INTO");
        if is_source && self.is(opened + 1, "VALUES") && self.name_end(self.begin + 2) == opened {
            self.drop(opened..opened + 1);
            self.drop(closed..closed + 1);
        }
    }

    /// `VALUES (a, t.*)` of one row: `SELECT a, t.*`.
    pub(super) fn values_of_rows(&mut self, at: usize) {
        let opened = at + 1;
        let Some(&closed) = self.closed.get(&opened) else { return };
        if self.statement == Keyword::MERGE || *self.token(closed + 1) == Token::Comma {
            return;
        }
        let (mut part, mut has_star) = (opened + 1, false);
        while part < closed {
            match self.token(part) {
                Token::LParen => part = self.closed.get(&part).copied().unwrap_or(part),
                Token::Mul if *self.token(part - 1) == Token::Period => {
                    has_star |= part + 1 == closed || *self.token(part + 1) == Token::Comma;
                }
                // Only VALUES has it.
                Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::DEFAULT => return,
                _ => {}
            }
            part += 1;
        }
        if has_star {
            self.replace(at, [word("SELECT")]);
            self.drop(opened..opened + 1);
            self.drop(closed..closed + 1);
        }
    }

    /// Where the name in front of `.*` begins.
    fn begin_of_name(&self, star: usize) -> Option<usize> {
        let is_word = |at: usize| matches!(self.token(at), Token::Word(_));
        let mut begin = star.checked_sub(2).filter(|at| is_word(*at) && *self.token(star - 1) == Token::Period)?;
        while begin >= 2 && *self.token(begin - 1) == Token::Period && is_word(begin - 2) {
            begin -= 2;
        }
        Some(begin)
    }

    /// Whether a parenthesis stands behind a function's name.
    fn is_called(&self, opened: usize) -> bool {
        const NO_NAMES: [&str; 15] = [
            "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "WHEN", "SELECT", "FROM", "IF", "THEN", "ELSE", "CASE", "BY",
            "RETURN",
        ];
        opened > 0 && matches!(self.token(opened - 1), Token::Word(_)) && !self.is_any(opened - 1, &NO_NAMES)
    }

    /// Whether an operator that takes rows stands in front of what begins here, or behind its end.
    fn is_operand(&self, begin: usize, end: usize) -> bool {
        let compares = |at: usize| {
            matches!(
                self.token(at),
                Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq | Token::DoubleColon
            )
        };
        let is_tested = match self.token(end + 1) {
            Token::Word(word) if word.quote_style.is_none() => {
                word.keyword == Keyword::IS || self.is_any(end + 1, &["ISNULL", "NOTNULL"])
            }
            _ => compares(end + 1),
        };
        let is_right = begin > 0 && compares(begin - 1) && *self.token(begin - 1) != Token::DoubleColon
            || begin > 1
                && self.is(begin - 1, "FROM")
                && self.is(begin - 2, "DISTINCT")
                && self.is_distinct_from(begin);
        is_tested || is_right
    }

    /// Whether DISTINCT FROM in front of an operand is an operator: IS or IS NOT stands before it.
    fn is_distinct_from(&self, operand: usize) -> bool {
        let before = operand.saturating_sub(3);
        self.is_any(before, &["IS", "NOT"])
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn a_star_beside_an_operator_is_a_row() {
        for (sql, expected) in [
            ("SELECT t.* = u.* FROM t, u", "SELECT \"whole row\"(t) = \"whole row\"(u) FROM t, u"),
            (
                "SELECT 1 FROM s.t WHERE (s.t.*) IS NOT DISTINCT FROM (u.*)",
                "SELECT 1 FROM s.t WHERE (\"whole row\"(s.t)) IS NOT DISTINCT FROM (\"whole row\"(u))",
            ),
            ("SELECT (t.*).a, ((s.t.*)).b FROM s.t", "SELECT (t).a, ((s.t)).b FROM s.t"),
            ("SELECT count(*) FROM t GROUP BY t.*", "SELECT count(*) FROM t GROUP BY \"whole row\"(t)"),
            ("SELECT t.* IS NOT NULL, t.* FROM t", "SELECT \"whole row\"(t) IS NOT NULL, t.* FROM t"),
            ("INSERT INTO l VALUES (1, new.*)", "INSERT INTO l SELECT 1, new.*"),
            ("SELECT * FROM t, LATERAL (VALUES (t.*)) v", "SELECT * FROM t, LATERAL (SELECT t.*) v"),
            ("VALUES (2 * (3)), (4)", "VALUES (2 * (3)), (4)"),
            (
                "SELECT * FROM ROWS FROM (f((1)) AS (a INT, b TEXT), g(2)) AS t (a, b, c)",
                "SELECT * FROM \"rows from\"(\"rows of\"(ARRAY(SELECT \"row\" FROM f((1)) AS \"row\" (a INT, b TEXT))), \
                 g(2)) AS t (a, b, c)",
            ),
            ("INSERT INTO s.l (VALUES (1), (2))", "INSERT INTO s.l VALUES (1), (2)"),
            ("SELECT count(t.*) = 3, 2 * t.a = 3 FROM t", "SELECT count(t.*) = 3, 2 * t.a = 3 FROM t"),
        ] {
            let crate::parse::SyntaxTree::Statement(statement) = parse_one(sql).unwrap().statement else { panic!() };
            assert_eq!(statement.to_string(), expected);
        }
    }
}
