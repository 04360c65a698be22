//! DuckDB's parameters without names, where a value is wanted: `?` is the next one, `?2` the second one; they become
//! `$1`, `$2`. Behind a value, `?` is the operator of `jsonb`.

use sqlparser::tokenizer::Token;

use super::Text;

/// Words behind which a value is wanted, and which are no names.
const BEFORE_VALUES: [&str; 26] = [
    "SELECT",
    "DISTINCT",
    "ALL",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "ON",
    "HAVING",
    "QUALIFY",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "IN",
    "IS",
    "FROM",
    "LIMIT",
    "OFFSET",
    "BY",
    "FETCH",
    "FOR",
    "RETURNING",
];

impl Text<'_> {
    /// A question mark.
    pub(super) fn parameter(&mut self, at: usize) {
        if !self.wants_value(at) {
            return;
        }
        let number = match self.token(at + 1) {
            Token::Number(digits, _) if self.words[at + 1] == self.words[at] + 1 => {
                let digits = digits.clone();
                self.drop(at + 1..at + 2);
                digits
            }
            _ => {
                self.parameters += 1;
                self.parameters.to_string()
            }
        };
        self.replace(at, [Token::Placeholder(format!("${number}"))]);
    }

    fn wants_value(&self, at: usize) -> bool {
        at > 0
            && match self.token(at - 1) {
                Token::LParen | Token::LBracket | Token::LBrace | Token::Comma | Token::Colon => true,
                Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => true,
                Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::Caret => true,
                Token::StringConcat | Token::Assignment | Token::RArrow => true,
                Token::Word(_) => self.is_any(at - 1, &BEFORE_VALUES),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn question_marks_are_parameters_where_a_value_is_wanted() {
        for (sql, expected) in [
            (
                "SELECT ?, a + ? FROM t WHERE b IN (?, ?) LIMIT ?",
                "SELECT $1, a + $2 FROM t WHERE b IN ($3, $4) LIMIT $5",
            ),
            ("SELECT ?2 - ?1", "SELECT $2 - $1"),
            ("SELECT data ? 'a', (data) ? 'b'", "SELECT data ? 'a', (data) ? 'b'"),
        ] {
            let parsed = crate::parse::query(sql).map(|query| query.to_string());
            assert_eq!(parsed.ok().as_deref(), Some(expected), "{sql}");
        }
    }
}
