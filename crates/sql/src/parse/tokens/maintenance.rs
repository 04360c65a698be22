//! Statements of whoever keeps a database, which the parser does not know. They become calls:
//!
//! * `CHECKPOINT`: `CALL "checkpoint statement"()`;
//! * `BACKUP DATABASE TO 'd' INCREMENTAL FROM 'e'`: `CALL "backup statement"('d', 'e')`;
//! * `CHECK TABLE a, b`: `CALL "check statement"(a, b)`; of a DATABASE, without names.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// CHECKPOINT, as the parser's tree has it: a call of this name.
pub(crate) const CHECKPOINT: &str = "checkpoint statement";
/// BACKUP DATABASE, likewise; with the folder, and that of an earlier backup.
pub(crate) const BACKUP: &str = "backup statement";
/// CHECK TABLE and CHECK DATABASE, likewise; with the tables.
pub(crate) const CHECK: &str = "check statement";

impl Text<'_> {
    /// A statement that begins here, if it is one of those.
    pub(super) fn maintenance(&mut self, at: usize) {
        if self.is(at, "CHECKPOINT") {
            self.calls(at, at + 1, CHECKPOINT);
        } else if self.is(at, "BACKUP") && self.is(at + 1, "DATABASE") && self.is(at + 2, "TO") {
            let earlier = at + 4;
            if self.is(earlier, "INCREMENTAL") && self.is(earlier + 1, "FROM") {
                self.replace(earlier, [Token::Comma]);
                self.drop(earlier + 1..earlier + 2);
            }
            self.calls(at, at + 3, BACKUP);
        } else if self.is(at, "CHECK") && self.is_any(at + 1, &["TABLE", "DATABASE"]) {
            self.calls(at, at + 2, CHECK);
        }
    }

    /// What stands from `at` to `arguments` becomes a call of what is behind it in the statement.
    fn calls(&mut self, at: usize, arguments: usize, name: &str) {
        let mut end = arguments;
        while !matches!(self.token(end), Token::EOF | Token::SemiColon) {
            end += 1;
        }
        self.replace(at, [word("CALL"), quoted(name), Token::LParen]);
        self.drop(at + 1..arguments);
        match end == arguments && at + 1 == arguments {
            // Nothing else is of the statement.
            true => self.replace(at, [word("CALL"), quoted(name), Token::LParen, Token::RParen]),
            false => self.insert_or_end(end, [Token::RParen]),
        }
    }
}
