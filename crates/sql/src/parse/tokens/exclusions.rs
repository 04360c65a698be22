//! Exclusion constraints, which the parser does not know: `EXCLUDE USING gist (a WITH =, b WITH &&) WHERE (c > 0)`
//! becomes `UNIQUE (a, b) COMMENT '\u{2}gist\u{2}c > 0\u{2}\u{2}=\u{2}&&'`. Between the condition and the operators
//! are the columns of INCLUDE.

use sqlparser::tokenizer::Token;

use super::{Text, word};

/// What stands in front of each part of the comment of an exclusion constraint.
pub(crate) const EXCLUDES: char = '\u{2}';

impl Text<'_> {
    /// EXCLUDE, where a constraint may stand.
    pub(super) fn exclusion(&mut self, at: usize) {
        let begins = at > 0 && matches!(self.token(at - 1), Token::LParen | Token::Comma)
            || self.follows(at, &["ADD"])
            || at > 1 && self.is(at - 2, "CONSTRAINT");
        let method = self.is(at + 1, "USING").then(|| self.token(at + 2).to_string());
        let opened = if method.is_some() { at + 3 } else { at + 1 };
        let Some(&closed) = self.closed.get(&opened).filter(|_| begins) else { return };
        let Some(operators) = self.operators(opened, closed) else { return };
        let mut next = closed + 1;
        let mut included = String::new();
        if self.is(next, "INCLUDE")
            && let Some((names, end)) = self.signed_names(next + 1)
        {
            (included, next) = (names, end + 1);
        }
        // Parameters of storage and the place of the index say nothing here.
        if self.is(next, "WITH")
            && let Some(end) = self.closed.get(&(next + 1))
        {
            next = end + 1;
        }
        if self.is(next, "USING") && self.is(next + 1, "INDEX") && self.is(next + 2, "TABLESPACE") {
            next += 4;
        }
        let mut condition = String::new();
        if self.is(next, "WHERE")
            && let Some(&end) = self.closed.get(&(next + 1))
        {
            condition = self.written(next + 2..end);
            next = end + 1;
        }
        let method = method.unwrap_or_default();
        let mut said = format!("{EXCLUDES}{method}{EXCLUDES}{condition}{EXCLUDES}{included}");
        for (with, end) in operators {
            said.push(EXCLUDES);
            (with + 1..end).for_each(|at| said.push_str(&self.token(at).to_string()));
            self.drop(with..end);
        }
        self.replace(at, [word("UNIQUE")]);
        self.drop(at + 1..opened);
        self.replace(closed, [Token::RParen, word("COMMENT"), Token::SingleQuotedString(said)]);
        self.drop(closed + 1..next);
    }

    /// By element between parentheses, the place of WITH and the place behind its operator; `None` if one has none.
    fn operators(&self, opened: usize, closed: usize) -> Option<Vec<(usize, usize)>> {
        let (mut operators, mut place) = (Vec::new(), opened + 1);
        loop {
            let mut with = None;
            while place < closed && *self.token(place) != Token::Comma {
                if self.is(place, "WITH") {
                    with = Some(place);
                }
                place = self.closed.get(&place).copied().unwrap_or(place) + 1;
            }
            operators.push((with.filter(|with| with + 1 < place)?, place));
            if place >= closed {
                return Some(operators);
            }
            place += 1;
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
    fn exclusion_constraints_become_unique_ones_with_a_comment() {
        for (sql, expected) in [
            (
                "CREATE TABLE t (r INT4RANGE, EXCLUDE USING gist (r WITH &&))",
                "CREATE TABLE t (r INT4RANGE, UNIQUE (r) COMMENT '\u{2}gist\u{2}\u{2}\u{2}&&')",
            ),
            (
                "CREATE TABLE t (a INT, CONSTRAINT x EXCLUDE (a WITH =) INCLUDE (b) WHERE (a > 0) DEFERRABLE)",
                "CREATE TABLE t (a INT, CONSTRAINT x UNIQUE (a) COMMENT '\u{2}\u{2}a > 0\u{2}\u{1}b\u{2}=' DEFERRABLE)",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT x EXCLUDE USING gist (lower(a) WITH =, r WITH -|-)",
                "ALTER TABLE t ADD CONSTRAINT x UNIQUE (lower(a), r) COMMENT '\u{2}gist\u{2}\u{2}\u{2}=\u{2}-|-'",
            ),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
        for other in ["CREATE TABLE t (exclude INT, b INT)", "ALTER TABLE t ADD exclude INT"] {
            assert!(!read(other).contains("COMMENT"), "{other}");
        }
    }
}
