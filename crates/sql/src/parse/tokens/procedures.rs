//! Procedures, as functions of another kind:
//!
//! * `CREATE PROCEDURE p(…) LANGUAGE …`: `CREATE FUNCTION p(…) RETURNS "procedure" LANGUAGE …`;
//! * parameters of functions and procedures, `a OUT int`: `OUT a int`;
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

    /// The modes of parameters behind their names: `f(a OUT int, b IN OUT int)` becomes `f(OUT a int, INOUT b int)`.
    pub(super) fn modes_in_front(&mut self, name: usize) {
        const MODES: [&str; 4] = ["IN", "OUT", "INOUT", "VARIADIC"];
        let opened = self.name_end(name);
        let Some(&closed) = self.closed.get(&opened) else { return };
        let (mut begin, mut place) = (opened + 1, opened + 1);
        while place <= closed {
            if place < closed && *self.token(place) != Token::Comma {
                place = self.closed.get(&place).copied().unwrap_or(place) + 1;
                continue;
            }
            let is_named = matches!(self.token(begin), Token::Word(_)) && !self.is_any(begin, &MODES);
            let mode = begin + usize::from(is_named);
            let is_both = self.is(mode, "IN") && self.is(mode + 1, "OUT") && mode + 2 < place;
            if is_both || is_named && self.is_any(mode, &MODES) && mode + 1 < place {
                let said = if is_both { word("INOUT") } else { self.token(mode).clone() };
                let name = self.token(begin).clone();
                if is_both {
                    self.drop(mode + 1..mode + 2);
                }
                self.replace(begin, [said]);
                if is_named {
                    self.replace(mode, [name]);
                }
            }
            (begin, place) = (place + 1, place + 1);
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
