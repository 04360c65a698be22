//! Past states of tables that the parser does not know: `FROM t AT (VERSION => 3)` becomes a call,
//! `"table at"(['t'], version => 3)`; a path stays a text, as in `"table at"('path', timestamp => '…')` of
//! `'path' AT (TIMESTAMP => '…')` and `'path' FOR SYSTEM_TIME AS OF '…'`. A name with a time is the parser's.

use super::{Text, quoted, word};
use sqlparser::tokenizer::Token;

/// The function that is a table in a past state.
pub(crate) const TABLE_AT: &str = "table at";

impl Text<'_> {
    /// `t AT (VERSION => 3)`.
    pub(super) fn moment(&mut self, at: usize) {
        let is_moment = *self.token(at + 1) == Token::LParen
            && self.is_any(at + 2, &["VERSION", "TIMESTAMP"])
            && *self.token(at + 3) == Token::RArrow;
        let Some((begin, name)) = self.table_before(at).filter(|_| is_moment) else { return };
        if self.is(at + 2, "TIMESTAMP") && !is_path(&name) {
            return;
        }
        let call = [quoted(TABLE_AT), Token::LParen].into_iter().chain(name).chain([Token::Comma]);
        self.drop(begin..at);
        self.replace(at, call);
        self.replace(at + 1, []);
    }

    /// `t FOR SYSTEM_TIME AS OF TIMESTAMP '…'`.
    pub(super) fn system_time(&mut self, at: usize) {
        if !self.is(at + 2, "AS") || !self.is(at + 3, "OF") {
            return;
        }
        let Some((begin, name)) = self.table_before(at).filter(|(_, name)| is_path(name)) else { return };
        let value = at + 4 + usize::from(self.is_any(at + 4, &["TIMESTAMP", "TIMESTAMPTZ"]));
        if !matches!(self.token(value), Token::SingleQuotedString(_)) {
            return;
        }
        let call = [quoted(TABLE_AT), Token::LParen].into_iter().chain(name);
        let call = call.chain([Token::Comma, word("timestamp"), Token::RArrow]);
        self.drop(begin..at);
        self.replace(at, call);
        self.drop(at + 1..value);
        let text = self.token(value).clone();
        self.replace(value, [text, Token::RParen]);
    }

    /// The name or the path of a table in front of a place: where it begins, and an argument that stands for it.
    fn table_before(&self, at: usize) -> Option<(usize, Vec<Token>)> {
        let mut begin = at.checked_sub(1)?;
        if let Token::SingleQuotedString(_) = self.token(begin) {
            return Some((begin, vec![self.token(begin).clone()]));
        }
        let mut parts = Vec::new();
        loop {
            let Token::Word(part) = self.token(begin) else { return None };
            let name = if part.quote_style.is_some() { part.value.clone() } else { part.value.to_lowercase() };
            parts.push(name);
            match begin.checked_sub(2) {
                Some(before) if *self.token(begin - 1) == Token::Period => begin = before,
                _ => break,
            }
        }
        let mut name = vec![Token::LBracket];
        for (number, part) in parts.into_iter().rev().enumerate() {
            name.extend((number > 0).then_some(Token::Comma));
            name.push(Token::SingleQuotedString(part));
        }
        name.push(Token::RBracket);
        Some((begin, name))
    }
}

fn is_path(name: &[Token]) -> bool {
    matches!(name, [Token::SingleQuotedString(_)])
}
