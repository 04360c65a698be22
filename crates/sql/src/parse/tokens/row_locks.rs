//! Clauses that lock rows.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// FOR NO KEY UPDATE, as the parser's tree has it: FOR UPDATE of this, and of a name behind it.
pub(crate) const NO_KEY_UPDATE: &str = "for no key update";

/// FOR KEY SHARE, likewise FOR SHARE.
pub(crate) const KEY_SHARE: &str = "for key share";

impl Text<'_> {
    /// `FOR UPDATE OF a, b SKIP LOCKED LIMIT 1`: one clause for each name, behind LIMIT, OFFSET and FETCH.
    pub(super) fn row_locks(&mut self, begin: usize) {
        const MODES: [(&[&str], &str, Option<&str>); 4] = [
            (&["UPDATE"], "UPDATE", None),
            (&["SHARE"], "SHARE", None),
            (&["NO", "KEY", "UPDATE"], "UPDATE", Some(NO_KEY_UPDATE)),
            (&["KEY", "SHARE"], "SHARE", Some(KEY_SHARE)),
        ];
        let (mut at, mut clauses) = (begin, Vec::new());
        while self.is(at, "FOR") {
            let is_mode = |(words, ..): &&(&[&str], &str, Option<&str>)| {
                words.iter().enumerate().all(|(index, word)| self.is(at + 1 + index, word))
            };
            let Some((words, mode, marker)) = MODES.iter().find(is_mode) else { break };
            at += 1 + words.len();
            let mut names = Vec::new();
            if self.is(at, "OF") {
                loop {
                    let first = at + 1;
                    at = first + 1;
                    while *self.token(at) == Token::Period {
                        at += 2;
                    }
                    names.push((first..at).map(|at| self.token(at).clone()).collect::<Vec<_>>());
                    if *self.token(at) != Token::Comma {
                        break;
                    }
                }
            }
            let mut way = Vec::new();
            if self.is(at, "NOWAIT") {
                way = vec![word("NOWAIT")];
                at += 1;
            } else if self.is(at, "SKIP") && self.is(at + 1, "LOCKED") {
                way = vec![word("SKIP"), word("LOCKED")];
                at += 2;
            }
            if names.is_empty() {
                names.push(vec![]);
            }
            for name in names {
                clauses.extend([word("FOR"), word(mode)]);
                let marked = marker.map(|marker| vec![quoted(marker)]).into_iter();
                let parts = marked.chain(std::iter::once(name).filter(|name| !name.is_empty())).collect::<Vec<_>>();
                if !parts.is_empty() {
                    clauses.push(word("OF"));
                    clauses.extend(parts.join(&Token::Period));
                }
                clauses.extend(way.iter().cloned());
            }
        }
        if clauses.is_empty() {
            return;
        }
        self.locks_until = at;
        let mut end = at;
        if self.is_any(at, &["LIMIT", "OFFSET", "FETCH"]) {
            while !matches!(self.token(end), Token::RParen | Token::SemiColon | Token::EOF) {
                end = self.closed.get(&end).copied().unwrap_or(end) + 1;
            }
        }
        self.drop(begin..at);
        match end == at {
            true => self.replace(begin, clauses),
            false => self.insert_or_end(end, clauses),
        }
    }
}
