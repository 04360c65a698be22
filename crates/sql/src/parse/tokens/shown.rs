//! DuckDB's statements that show what there is, and DESCRIBE and SUMMARIZE in FROM. What they become:
//!
//! * `SHOW ALL TABLES`: `SELECT * FROM "pragma_show_tables_expanded"()`; SHOW DATABASES likewise;
//! * `PRAGMA table_info('t')`: `SELECT * FROM "pragma_table_info"('t')`; `PRAGMA a = b`: `SET a = b`;
//! * `SET SCHEMA 's'`: `SET search_path = "s"`;
//! * `(DESCRIBE t)`: `(SELECT * FROM "describe table"('t'))`; of a query, `"describe"((q))`.

use sqlparser::tokenizer::Token;

use super::{Text, calls, quoted, word};

/// Pragmas that give rows.
const PRAGMAS: [&str; 9] = [
    "table_info",
    "show",
    "show_tables",
    "show_tables_expanded",
    "database_list",
    "database_size",
    "version",
    "functions",
    "collations",
];

/// Pragmas that turn a setting on or off.
const SWITCHES: [(&str, &str, &str); 4] = [
    ("enable_progress_bar", "enable_progress_bar", "true"),
    ("disable_progress_bar", "enable_progress_bar", "false"),
    ("enable_object_cache", "enable_object_cache", "true"),
    ("disable_object_cache", "enable_object_cache", "false"),
];

impl Text<'_> {
    /// SHOW, which begins there; `is_whole` if the statement does.
    pub(super) fn show(&mut self, at: usize, is_whole: bool) {
        // SHOW of a query is DESCRIBE.
        if self.is_any(at + 1, &["SELECT", "WITH", "FROM"]) {
            return self.describe(at, false);
        }
        let (what, name, end) = match () {
            () if self.is(at + 1, "ALL") && self.is(at + 2, "TABLES") => {
                (Token::Mul, "pragma_show_tables_expanded", at + 3)
            }
            () if self.is(at + 1, "DATABASES") => (word("database_name"), "duckdb_databases", at + 2),
            () if self.is(at + 1, "TABLES") && !is_whole => (Token::Mul, "pragma_show_tables", at + 2),
            () => return,
        };
        if self.ends_statement(end) || *self.token(end) == Token::RParen {
            self.replace(at, [word("SELECT"), what, word("FROM")].into_iter().chain(calls(name)));
            self.drop(at + 1..end);
        }
    }

    /// DESCRIBE, which begins there; `is_whole` if the statement does.
    pub(super) fn describe(&mut self, at: usize, is_whole: bool) {
        let is_named = matches!(self.token(at + 2), Token::Word(_) | Token::SingleQuotedString(_));
        let first = if self.is(at + 1, "TABLE") && is_named { at + 2 } else { at + 1 };
        if is_whole {
            return self.drop(at + 1..first);
        }
        let end = self.statement_end(at);
        let mut name = String::new();
        for place in first..end {
            match self.token(place) {
                Token::Word(part) if part.quote_style.is_some() => name += &format!("\"{}\"", part.value),
                Token::Word(part) => name += &part.value,
                Token::Period => name.push('.'),
                _ => return self.describe_query(at, first, end),
            }
        }
        match self.name_end(first) == end {
            true => {
                let call = [word("SELECT"), Token::Mul, word("FROM"), quoted("describe table"), Token::LParen];
                self.replace(at, call.into_iter().chain([Token::SingleQuotedString(name), Token::RParen]));
                self.drop(at + 1..end);
            }
            false => self.describe_query(at, first, end),
        }
    }

    fn describe_query(&mut self, at: usize, first: usize, end: usize) {
        let is_file = matches!(self.token(first), Token::SingleQuotedString(_));
        let call = [word("SELECT"), Token::Mul, word("FROM"), quoted("describe"), Token::LParen, Token::LParen];
        let table = match () {
            () if is_file => vec![word("SELECT"), Token::Mul, word("FROM")],
            () if self.is_only_from(first, end) => vec![word("SELECT"), Token::Mul],
            () => vec![],
        };
        self.replace(at, call.into_iter().chain(table));
        self.insert_or_end(end, [Token::RParen, Token::RParen]);
    }

    /// `SET SCHEMA 's'`, in DuckDB also `SET schema = 's'`: `SET search_path = "s"`.
    pub(super) fn set_schema(&mut self, at: usize) {
        let value = at + 1 + usize::from(*self.token(at + 1) == Token::Eq);
        let Token::SingleQuotedString(schema) = self.token(value) else { return };
        let schema = quoted(if schema == "main" { "public" } else { schema.as_str() });
        self.replace(at, [word("search_path"), Token::Eq]);
        self.drop(at + 1..value);
        self.replace(value, [schema]);
    }

    /// Whether a query has FROM and no SELECT.
    pub(super) fn is_only_from(&self, begin: usize, end: usize) -> bool {
        let mut at = begin + 1;
        while at < end && !self.is(at, "SELECT") {
            at = self.closed.get(&at).copied().unwrap_or(at) + 1;
        }
        self.is(begin, "FROM") && at >= end
    }

    /// PRAGMA, which begins there.
    pub(super) fn pragma(&mut self, at: usize) {
        if *self.token(at + 2) == Token::Eq {
            return self.replace(at, [word("SET")]);
        }
        // PRAGMA enable_progress_bar: SET enable_progress_bar = true.
        for (name, switch, truth) in SWITCHES {
            if self.is(at + 1, name) && self.ends_statement(at + 2) {
                self.replace(at, [word("SET")]);
                return self.replace(at + 1, [word(switch), Token::Eq, word(truth)]);
            }
        }
        let Some(name) = PRAGMAS.iter().find(|name| self.is(at + 1, name)) else { return };
        let name = quoted(&format!("pragma_{name}"));
        self.replace(at, [word("SELECT"), Token::Mul, word("FROM")]);
        match self.token(at + 2) {
            Token::LParen => {
                self.replace(at + 1, [name]);
                if let (Token::Word(table), Token::RParen) = (self.token(at + 3), self.token(at + 4)) {
                    self.replace(at + 3, [Token::SingleQuotedString(table.value.clone())]);
                }
            }
            _ => self.replace(at + 1, [name, Token::LParen, Token::RParen]),
        }
    }
}
