//! Changes of a list of tokens, made all at once.

use std::collections::BTreeMap;

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Changes by the index of the token where they are made.
#[derive(Default)]
pub(super) struct Edits {
    by_index: BTreeMap<usize, Edit>,
    /// What is put behind the last token.
    at_end: Vec<Token>,
}

#[derive(Default)]
struct Edit {
    before: Vec<Token>,
    instead: Option<Vec<Token>>,
}

impl Edits {
    pub(super) fn insert(&mut self, index: usize, tokens: impl IntoIterator<Item = Token>) {
        self.by_index.entry(index).or_default().before.extend(tokens);
    }

    /// Puts tokens behind the last one.
    pub(super) fn append(&mut self, tokens: impl IntoIterator<Item = Token>) {
        self.at_end.extend(tokens);
    }

    /// Whether something else stands there already.
    pub(super) fn has(&self, index: usize) -> bool {
        self.by_index.get(&index).is_some_and(|edit| edit.instead.is_some())
    }

    pub(super) fn replace(&mut self, index: usize, tokens: impl IntoIterator<Item = Token>) {
        self.by_index.entry(index).or_default().instead = Some(tokens.into_iter().collect());
    }

    pub(super) fn applied(self, tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
        if self.by_index.is_empty() && self.at_end.is_empty() {
            return tokens;
        }
        let end = tokens.last().map(|token| token.span);
        let mut edits = self.by_index.into_iter().peekable();
        let mut edited = Vec::with_capacity(tokens.len() + 16);
        for (index, token) in tokens.into_iter().enumerate() {
            let Some((_, edit)) = edits.next_if(|(at, _)| *at == index) else {
                edited.push(token);
                continue;
            };
            let span = token.span;
            let place = |token| TokenWithSpan { token, span };
            edited.extend(edit.before.into_iter().map(place));
            match edit.instead {
                Some(tokens) => edited.extend(tokens.into_iter().map(place)),
                None => edited.push(token),
            }
        }
        if let Some(span) = end {
            edited.extend(self.at_end.into_iter().map(|token| TokenWithSpan { token, span }));
        }
        edited
    }
}
