//! Columns in constraints that the parser has no place for.
//!
//! `UNIQUE (a) INCLUDE (b)` becomes `UNIQUE (a) COMMENT '\u{1}b'`, and `FOREIGN KEY (a, b) REFERENCES t ON DELETE SET
//! NULL (b)` becomes `FOREIGN KEY "\u{1}b" (a, b) REFERENCES t ON DELETE SET NULL`. `a INT UNIQUE NULLS NOT DISTINCT`
//! becomes `a INT COMMENT '\u{1}nulls not distinct' UNIQUE`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// What stands in front of each column of INCLUDE in the comment of a key, and of a SET NULL in the name of a foreign
/// key's index.
pub(crate) const INCLUDED: char = '\u{1}';

/// The comment of a column that has a key in which NULLs are equal: UNIQUE NULLS NOT DISTINCT.
pub(crate) const EQUAL_NULLS: &str = "\u{1}nulls not distinct";

impl Text<'_> {
    /// `a INT UNIQUE NULLS NOT DISTINCT`, of a column: a comment in front of the constraint says so.
    fn equal_nulls(&mut self, at: usize) {
        let is_equal = self.is(at + 2, "NOT");
        let behind = at + 3 + usize::from(is_equal);
        if !self.is(behind - 1, "DISTINCT") || *self.token(behind) == Token::LParen {
            return;
        }
        self.drop(at + 1..behind);
        if is_equal {
            let begin = if at > 1 && self.is(at - 2, "CONSTRAINT") { at - 2 } else { at };
            self.insert(begin, [word("COMMENT"), Token::SingleQuotedString(EQUAL_NULLS.to_owned())]);
        }
    }

    /// The names in parentheses that are opened there, each behind the sign; `None` if there are other words as well.
    pub(super) fn signed_names(&self, opened: usize) -> Option<(String, usize)> {
        let closed = *self.closed.get(&opened)?;
        let mut names = String::new();
        for at in opened + 1..closed {
            match self.token(at) {
                Token::Word(name) if (at - opened) % 2 == 1 => {
                    names.push(INCLUDED);
                    match name.quote_style {
                        Some(_) => names.push_str(&name.value),
                        None => names.push_str(&name.value.to_lowercase()),
                    }
                }
                Token::Comma if (at - opened).is_multiple_of(2) => {}
                _ => return None,
            }
        }
        (!names.is_empty()).then_some((names, closed))
    }

    /// INCLUDE behind `UNIQUE (…)` and `PRIMARY KEY (…)`, and NULLS behind UNIQUE of a column.
    pub(super) fn included(&mut self, at: usize) {
        if self.is(at, "UNIQUE") && self.is(at + 1, "NULLS") {
            self.equal_nulls(at);
        }
        let opened = match (self.is(at + 1, "NULLS"), self.is(at, "PRIMARY")) {
            (true, _) => at + 3 + usize::from(self.is(at + 2, "NOT")),
            (_, true) => at + 2,
            _ => at + 1,
        };
        let mut clause = self.closed.get(&opened).map_or(opened, |closed| closed + 1);
        if self.is(clause, "INCLUDE")
            && clause > opened
            && let Some((names, closed)) = self.signed_names(clause + 1)
        {
            self.replace(clause, [word("COMMENT"), Token::SingleQuotedString(names)]);
            self.drop(clause + 1..closed + 1);
            clause = closed + 1;
        }
        // How an index is stored says nothing here.
        if self.is(clause, "WITH")
            && let Some(&closed) = self.closed.get(&(clause + 1))
        {
            self.drop(clause..closed + 1);
        }
    }

    /// The columns of ON DELETE SET NULL and SET DEFAULT behind FOREIGN KEY.
    pub(super) fn set_by_deletion(&mut self, at: usize) {
        let mut next = at + 2;
        loop {
            match self.token(next) {
                Token::LParen => match self.closed.get(&next) {
                    Some(closed) => next = *closed,
                    None => return,
                },
                Token::Comma | Token::RParen | Token::SemiColon | Token::EOF => return,
                _ => {}
            }
            let is_clause = self.is(next, "DELETE")
                && self.is(next + 1, "SET")
                && self.is_any(next + 2, &["NULL", "DEFAULT"])
                && *self.token(next + 3) == Token::LParen;
            if let (true, Some((names, closed))) = (is_clause, self.signed_names(next + 3)) {
                self.insert(at + 2, [quoted(&names)]);
                return self.drop(next + 3..closed + 1);
            }
            next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    fn read(sql: &str) -> String {
        match parse_one(sql).unwrap().statement {
            crate::parse::SyntaxTree::Statement(statement) => statement.to_string(),
            other => other.to_string(),
        }
    }

    #[test]
    fn columns_of_constraints_move_to_where_the_parser_has_a_place() {
        for (sql, expected) in [
            (
                "CREATE TABLE t (a INT, b INT, UNIQUE (a) INCLUDE (b, \"C\"))",
                "CREATE TABLE t (a INT, b INT, UNIQUE (a) COMMENT '\u{1}b\u{1}C')",
            ),
            ("CREATE UNIQUE INDEX i ON t(a) INCLUDE (b)", "CREATE UNIQUE INDEX i ON t(a) INCLUDE (b)"),
            (
                "ALTER TABLE t ADD FOREIGN KEY (a, b) REFERENCES s (c, d) ON UPDATE CASCADE ON DELETE SET NULL (b)",
                "ALTER TABLE t ADD FOREIGN KEY \"\u{1}b\" (a, b) REFERENCES s(c, d) ON DELETE SET NULL ON UPDATE CASCADE",
            ),
            (
                "CREATE TABLE t (a INT CONSTRAINT k UNIQUE NULLS NOT DISTINCT NOT NULL, b INT UNIQUE NULLS DISTINCT)",
                "CREATE TABLE t (a INT COMMENT '\u{1}nulls not distinct' CONSTRAINT k UNIQUE NOT NULL, b INT UNIQUE)",
            ),
            (
                "CREATE TABLE t (a INT, UNIQUE NULLS NOT DISTINCT (a))",
                "CREATE TABLE t (a INT, UNIQUE NULLS NOT DISTINCT (a))",
            ),
            (
                "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES s ON DELETE SET NULL, CHECK (a > 0))",
                "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES s ON DELETE SET NULL, CHECK (a > 0))",
            ),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
    }
}
