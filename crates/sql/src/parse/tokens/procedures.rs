//! Procedures, as functions of another kind:
//!
//! * `CREATE PROCEDURE p(…) LANGUAGE …`: `CREATE FUNCTION p(…) RETURNS "procedure" LANGUAGE …`;
//! * `DO LANGUAGE l 'block'`: `CALL "do statement"('l', 'block')`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// DO, as the parser's tree has it: a call of this name, with the language and the block.
pub(crate) const DO: &str = "do statement";
/// The type that procedures return in the parser's tree.
pub(crate) const PROCEDURE: &str = "procedure";

impl Text<'_> {
    /// Whether this word says what kind of object is made or dropped.
    pub(super) fn names_procedure(&self, at: usize) -> bool {
        let is_first = |at: usize| at > 0 && self.is_any(at - 1, &["CREATE", "DROP"]) && self.begins_statement(at - 1);
        is_first(at) || at > 2 && self.is(at - 1, "REPLACE") && self.is(at - 2, "OR") && is_first(at - 2)
    }

    /// CREATE PROCEDURE.
    pub(super) fn procedure(&mut self, at: usize) {
        // The parser knows DROP PROCEDURE.
        if self.is(at - 1, "DROP") {
            return;
        }
        self.replace(at, [word("FUNCTION")]);
        let mut open = at + 2;
        while *self.token(open) == Token::Period {
            open += 2;
        }
        if let Some(closed) = self.closed.get(&open).copied() {
            self.insert_or_end(closed + 1, [word("RETURNS"), quoted(PROCEDURE)]);
        }
    }

    /// DO, with the language in front of the block or behind it.
    pub(super) fn do_block(&mut self, at: usize) {
        let is_text = |token: &Token| {
            matches!(
                token,
                Token::SingleQuotedString(_) | Token::DollarQuotedString(_) | Token::EscapedStringLiteral(_)
            )
        };
        let (mut next, mut language, mut body) = (at + 1, "plpgsql".to_owned(), None);
        loop {
            match self.token(next) {
                Token::Word(_) if self.is(next, "LANGUAGE") => {
                    language = match self.token(next + 1) {
                        Token::Word(name) => name.value.to_lowercase(),
                        Token::SingleQuotedString(name) => name.clone(),
                        _ => return,
                    };
                    next += 2;
                }
                token if is_text(token) && body.is_none() => {
                    body = Some(token.clone());
                    next += 1;
                }
                Token::SemiColon | Token::EOF => break,
                _ => return,
            }
        }
        let Some(body) = body else { return };
        let language = Token::SingleQuotedString(language);
        self.replace(at, [word("CALL"), quoted(DO), Token::LParen, language, Token::Comma, body, Token::RParen]);
        self.drop(at + 1..next);
    }
}
