//! Statements that the parser does not know and that have no rows to read or change. They become calls:
//!
//! * `CHECKPOINT`: `CALL "checkpoint statement"()`;
//! * `BACKUP DATABASE TO 'd' INCREMENTAL FROM 'e'`: `CALL "backup statement"('d', 'e')`;
//! * `EXPORT DATABASE 'd' (FORMAT csv)`: `CALL "export statement"('d', csv)`; IMPORT likewise;
//! * `SET CONSTRAINTS a, b DEFERRED`: `CALL "set constraints"(true, a, b)`; FALSE for IMMEDIATE, no names for ALL;
//! * `CHECK TABLE a, b`: `CALL "check statement"(a, b)`; of a DATABASE, without names.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// CHECKPOINT, as the parser's tree has it: a call of this name.
pub(crate) const CHECKPOINT: &str = "checkpoint statement";
/// BACKUP DATABASE, likewise; with the folder, and that of an earlier backup.
pub(crate) const BACKUP: &str = "backup statement";
/// EXPORT DATABASE, likewise; with the folder, and the format.
pub(crate) const EXPORT: &str = "export statement";
/// IMPORT DATABASE, likewise; with the folder.
pub(crate) const IMPORT: &str = "import statement";
/// CHECK TABLE and CHECK DATABASE, likewise; with the tables.
pub(crate) const CHECK: &str = "check statement";

/// SET CONSTRAINTS, likewise; with whether they are deferred, and their names.
pub(crate) const SET_CONSTRAINTS: &str = "set constraints";

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
        } else if self.is(at, "SET") && self.is(at + 1, "CONSTRAINTS") {
            let mut end = at + 2;
            while !matches!(self.token(end), Token::EOF | Token::SemiColon) {
                end += 1;
            }
            let mode = end - 1;
            let is_all = self.is(at + 2, "ALL") && mode == at + 3;
            if !self.is_any(mode, &["DEFERRED", "IMMEDIATE"]) || mode < at + 3 {
                return;
            }
            let is_deferred = word(if self.is(mode, "DEFERRED") { "TRUE" } else { "FALSE" });
            let first = [word("CALL"), quoted(SET_CONSTRAINTS), Token::LParen, is_deferred];
            self.replace(at, first);
            match is_all {
                true => self.drop(at + 1..mode),
                false => self.replace(at + 1, [Token::Comma]),
            }
            self.replace(mode, [Token::RParen]);
        } else if self.is(at, "EXPORT") && self.is(at + 1, "DATABASE") {
            // ('d') and ('d' (FORMAT f)).
            if *self.token(at + 3) == Token::LParen && self.is(at + 4, "FORMAT") && *self.token(at + 6) == Token::RParen
            {
                self.replace(at + 3, [Token::Comma]);
                self.drop(at + 4..at + 5);
                self.drop(at + 6..at + 7);
            }
            self.calls(at, at + 2, EXPORT);
        } else if self.is(at, "IMPORT") && self.is(at + 1, "DATABASE") {
            self.calls(at, at + 2, IMPORT);
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
