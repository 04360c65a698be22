//! Domains, which have one column's clauses:
//!
//! * `CREATE DOMAIN d AS int DEFAULT 1 CHECK (VALUE > 0)`: `CREATE TABLE d."domain" (value int DEFAULT 1 CHECK (…))`;
//! * `ALTER DOMAIN d SET DEFAULT 1`: `ALTER TABLE d."domain" ALTER COLUMN value SET DEFAULT 1`; of constraints and
//!   names as ALTER TABLE has it;
//! * `DROP DOMAIN a, b`: `DROP TYPE "domain", a, b`.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// The last part of a domain's name, where the parser's tree has a table's; a name among those of DROP TYPE.
pub(crate) const DOMAIN: &str = "domain \u{1}";
/// The column that such a table has.
pub(crate) const DOMAIN_VALUE: &str = "value";

impl Text<'_> {
    /// DOMAIN behind CREATE, ALTER or DROP.
    pub(super) fn domain(&mut self, at: usize) {
        if self.is(at - 1, "DROP") {
            let name = if self.is(at + 1, "IF") { at + 3 } else { at + 1 };
            self.replace(at, [word("TYPE")]);
            self.insert_or_end(name, [quoted(DOMAIN), Token::Comma]);
            return;
        }
        let is_conditional = self.is(at + 1, "IF");
        let mut end = if is_conditional { at + 4 } else { at + 2 };
        while *self.token(end) == Token::Period {
            end += 2;
        }
        if self.ends_statement(end) {
            return;
        }
        self.replace(at, [word("TABLE")]);
        self.insert(end, [Token::Period, quoted(DOMAIN)]);
        if self.is(at - 1, "CREATE") {
            let mut behind = end;
            while !self.ends_statement(behind) {
                behind += 1;
            }
            if self.is(end, "AS") {
                self.drop(end..end + 1);
            }
            self.insert(end, [Token::LParen, word(DOMAIN_VALUE)]);
            self.insert_or_end(behind, [Token::RParen]);
        } else {
            let is_of_value = self.is_any(end + 1, &["DEFAULT", "NOT"]);
            if self.is_any(end, &["SET", "DROP"]) && is_of_value {
                self.insert(end, [word("ALTER"), word("COLUMN"), word(DOMAIN_VALUE)]);
            }
        }
    }
}
