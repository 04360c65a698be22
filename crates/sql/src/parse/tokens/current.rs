//! `WHERE CURRENT OF c`, as a function of the cursor's name: `WHERE "current of"('c')`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted};

/// The function that says whether a row is the one that a cursor stands on.
pub(crate) const CURRENT_OF: &str = "current of";

impl Text<'_> {
    /// Behind WHERE, in UPDATE and DELETE; nothing but RETURNING may follow.
    pub(super) fn current_of(&mut self, at: usize) {
        let changes = matches!(self.statement, Keyword::UPDATE | Keyword::DELETE | Keyword::WITH | Keyword::EXPLAIN);
        if !changes || !self.is(at + 1, "CURRENT") || !self.is(at + 2, "OF") {
            return;
        }
        let ends = matches!(self.token(at + 4), Token::SemiColon | Token::EOF | Token::RParen);
        let Token::Word(cursor) = self.token(at + 3) else { return };
        if ends || self.is(at + 4, "RETURNING") {
            let name = if cursor.quote_style.is_some() { cursor.value.clone() } else { cursor.value.to_lowercase() };
            let call = [quoted(CURRENT_OF), Token::LParen, Token::SingleQuotedString(name), Token::RParen];
            self.replace(at + 1, call);
            self.drop(at + 2..at + 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn the_row_of_a_cursor_is_a_function_of_its_name() {
        for (sql, expected) in [
            ("UPDATE t SET a = 1 WHERE CURRENT OF C", "UPDATE t SET a = 1 WHERE \"current of\"('c')"),
            ("DELETE FROM t WHERE current of \"C\" RETURNING a", "DELETE FROM t WHERE \"current of\"('C') RETURNING a"),
        ] {
            let crate::parse::SyntaxTree::Statement(statement) = parse_one(sql).unwrap().statement else { panic!() };
            assert_eq!(statement.to_string(), expected);
        }
        for wrong in ["UPDATE t SET a = 1 WHERE CURRENT OF c AND a > 1", "SELECT a FROM t WHERE CURRENT OF c"] {
            assert!(parse_one(wrong).is_err(), "{wrong}");
        }
    }
}
