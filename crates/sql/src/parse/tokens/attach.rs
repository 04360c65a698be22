//! `ATTACH 'shop.db' [AS s] (TYPE sqlite, READ_ONLY)`: `ATTACH "attached"('shop.db', 'sqlite') AS s`.

use super::{Text, quoted, word};
use sqlparser::tokenizer::Token;

/// The function that is a database to be attached.
pub(crate) const ATTACHED: &str = "attached";

impl Text<'_> {
    /// ATTACH, with a type or without a name.
    pub(super) fn attach(&mut self, at: usize) {
        let path = at + 1 + usize::from(self.is(at + 1, "DATABASE"));
        let Token::SingleQuotedString(text) = self.token(path) else { return };
        let has_name = self.is(path + 1, "AS");
        let open = path + 1 + if has_name { 2 } else { 0 };
        let closed = match self.token(open) {
            Token::LParen => self.closed.get(&open).copied(),
            _ => None,
        };
        let mut kind = String::new();
        if let Some(closed) = closed {
            for place in open + 1..closed {
                if let (true, Token::Word(told)) = (self.is(place, "TYPE"), self.token(place + 1)) {
                    kind = told.value.to_lowercase();
                }
            }
            self.drop(open..closed + 1);
        }
        let call = [quoted(ATTACHED), Token::LParen, self.token(path).clone(), Token::Comma];
        let call = call.into_iter().chain([Token::SingleQuotedString(kind), Token::RParen]);
        let file = text.rsplit('/').next().unwrap_or_default();
        let stem = file.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("attached");
        let name = if has_name { vec![] } else { vec![word("AS"), quoted(stem)] };
        self.replace(path, call.chain(name));
    }
}
