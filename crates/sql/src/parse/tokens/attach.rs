//! `ATTACH 'shop.db' [AS s] (TYPE sqlite, READ_ONLY)`: `ATTACH "attached"('shop.db', 'sqlite', …) AS s`.
//!
//! `DETACH s`: a call of `"detach"('s', …)`.

use super::{Text, quoted, word};
use sqlparser::tokenizer::Token;

/// The function that is a database to be attached: its path or address, its type, the schema whose tables need none,
/// and which of OR REPLACE, IF NOT EXISTS and AS are said.
pub(crate) const ATTACHED: &str = "attached";

/// DETACH as a call: the name, and whether IF EXISTS is said.
pub(crate) const DETACH: &str = "detach";

impl Text<'_> {
    /// ATTACH, with a type or without a name.
    pub(super) fn attach(&mut self, at: usize) {
        let mut said = Vec::new();
        let mut path = at + 1;
        if self.is(path, "OR") && self.is(path + 1, "REPLACE") {
            said.push("replace");
            path += 2;
        }
        path += usize::from(self.is(path, "DATABASE"));
        if self.is(path, "IF") && self.is(path + 1, "NOT") && self.is(path + 2, "EXISTS") {
            said.push("if_not_exists");
            path += 3;
        }
        let Token::SingleQuotedString(text) = self.token(path) else { return };
        let has_name = self.is(path + 1, "AS");
        if has_name {
            said.push("named");
        }
        let open = path + 1 + if has_name { 2 } else { 0 };
        let closed = match self.token(open) {
            Token::LParen => self.closed.get(&open).copied(),
            _ => None,
        };
        let (mut kind, mut schema) = (String::new(), String::new());
        if let Some(closed) = closed {
            for place in open + 1..closed {
                match self.token(place + 1) {
                    Token::Word(told) if self.is(place, "TYPE") => kind = told.value.to_lowercase(),
                    Token::SingleQuotedString(told) if self.is(place, "TYPE") => kind = told.to_lowercase(),
                    Token::Word(told) if self.is(place, "SCHEMA") && told.quote_style.is_none() => {
                        schema = told.value.to_lowercase();
                    }
                    Token::Word(told) if self.is(place, "SCHEMA") => schema.clone_from(&told.value),
                    Token::SingleQuotedString(told) if self.is(place, "SCHEMA") => schema.clone_from(told),
                    _ => {}
                }
            }
            self.drop(open..closed + 1);
        }
        let file = text.rsplit('/').next().unwrap_or_default();
        let stem = file.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("attached").to_owned();
        let mut call = vec![quoted(ATTACHED), Token::LParen, self.token(path).clone()];
        for argument in [kind, schema, said.join(" ")] {
            call.extend([Token::Comma, Token::SingleQuotedString(argument)]);
        }
        call.push(Token::RParen);
        if !has_name {
            call.extend([word("AS"), quoted(&stem)]);
        }
        self.drop(at + 1..path);
        self.replace(path, call);
    }

    /// DETACH.
    pub(super) fn detach(&mut self, at: usize) {
        let mut name = at + 1 + usize::from(self.is(at + 1, "DATABASE"));
        let is_optional = self.is(name, "IF") && self.is(name + 1, "EXISTS");
        name += if is_optional { 2 } else { 0 };
        let Token::Word(told) = self.token(name) else { return };
        let told = if told.quote_style.is_none() { told.value.to_lowercase() } else { told.value.clone() };
        let flag = if is_optional { "if_exists" } else { "" };
        let call = [
            word("CALL"),
            quoted(DETACH),
            Token::LParen,
            Token::SingleQuotedString(told),
            Token::Comma,
            Token::SingleQuotedString(flag.to_owned()),
            Token::RParen,
        ];
        self.replace(at, call);
        self.drop(at + 1..name + 1);
    }
}
