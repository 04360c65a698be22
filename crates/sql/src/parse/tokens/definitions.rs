//! Clauses of statements that define tables, views and sequences.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// The name of a column that stands for the columns of another table: its type is called like that, and says what is
/// included.
pub(crate) const LIKE: &str = "like \u{1}";

/// The type of a column of CREATE TABLE AS, which has that of the query.
pub(crate) const ONLY_NAMED: &str = "only named \u{1}";

/// The type of a generated column that says none, and has that of its expression.
pub(crate) const OF_VALUE: &str = "of value \u{1}";

/// REFRESH MATERIALIZED VIEW, as the parser's tree has it: a call of this name. The view's name is the first argument,
/// its options are texts behind it.
pub(crate) const REFRESH: &str = "refresh materialized view";

/// The alias of the query of AS query WITH NO DATA; an option of REFRESH.
pub(crate) const NO_DATA: &str = "no data";

/// What stands in front of the text of a query whose values are an enum's labels: the only label of the parser's tree.
pub(crate) const ENUM_OF: &str = "enum of \u{1}";

impl Text<'_> {
    /// `CREATE TYPE t AS ENUM (SELECT …)`: `ENUM ('…')` with the text of the query.
    pub(super) fn enum_of_query(&mut self, at: usize) {
        let Some(closed) = self.closed.get(&(at + 1)).copied() else { return };
        if !self.follows(at, &["AS"]) || !self.is_any(at + 2, &["SELECT", "WITH"]) {
            return;
        }
        let mut text = ENUM_OF.to_owned();
        for token in &self.tokens[self.words[at + 2]..self.words[closed]] {
            match &token.token {
                Token::SingleQuotedString(value) => text += &format!("'{}'", value.replace('\'', "''")),
                Token::Whitespace(_) => text.push(' '),
                other => text += &other.to_string(),
            }
        }
        self.replace(at + 2, [Token::SingleQuotedString(text)]);
        self.drop(at + 3..closed);
    }

    /// `CREATE FUNCTION f(a, b := 2) AS a + b`, DuckDB's other word for a macro: parameters without types, and a body
    /// that is no text.
    pub(super) fn function_as_macro(&mut self, at: usize) {
        let opened = self.name_end(at + 1);
        let Some(closed) = self.closed.get(&opened).copied() else { return };
        if *self.token(opened) != Token::LParen || !self.is(closed + 1, "AS") {
            return;
        }
        let is_text = matches!(
            self.token(closed + 2),
            Token::SingleQuotedString(_) | Token::DollarQuotedString(_) | Token::EscapedStringLiteral(_)
        );
        // A parameter with a type is two words.
        let is_typed = (opened + 1..closed.saturating_sub(1)).any(|at| {
            let is_word = |at: usize| matches!(self.token(at), Token::Word(_));
            is_word(at) && is_word(at + 1)
        });
        if !is_text && !is_typed {
            self.replace(at, [word("MACRO")]);
        }
    }

    /// `LIKE t INCLUDING ALL EXCLUDING INDEXES` among the columns of a table: a column of a type that is called like
    /// the table, with what is included as its modifiers.
    pub(super) fn table_like(&mut self, at: usize) {
        const KINDS: [&str; 6] = ["DEFAULTS", "GENERATED", "CONSTRAINTS", "INDEXES", "IDENTITY", "COMMENTS"];
        let (mut next, mut name) = (at + 1, Vec::new());
        loop {
            match self.token(next) {
                Token::Word(part) if part.quote_style.is_some() => name.push(quoted(&part.value)),
                Token::Word(part) => name.push(quoted(&part.value.to_lowercase())),
                _ => return,
            }
            next += 1;
            if *self.token(next) != Token::Period {
                break;
            }
            name.push(Token::Period);
            next += 1;
        }
        let mut included = Vec::<&str>::new();
        while self.is_any(next, &["INCLUDING", "EXCLUDING"]) {
            let is_meant = |kind: &&str| self.is(next + 1, "ALL") || self.is(next + 1, kind);
            let meant = KINDS.into_iter().filter(is_meant).collect::<Vec<_>>();
            included.retain(|kind| !meant.contains(kind));
            if self.is(next, "INCLUDING") {
                included.extend(meant);
            }
            next += 2;
        }
        if !matches!(self.token(next), Token::Comma | Token::RParen) {
            return;
        }
        self.drop(at + 1..next);
        let modifiers = included.into_iter().map(|kind| Token::SingleQuotedString(kind.to_owned()));
        let modifiers = modifiers.flat_map(|kind| [Token::Comma, kind]).skip(1).collect::<Vec<_>>();
        let mut column = vec![quoted(LIKE)];
        column.extend(name);
        if !modifiers.is_empty() {
            column.push(Token::LParen);
            column.extend(modifiers);
            column.push(Token::RParen);
        }
        self.replace(at, column);
    }

    /// Whether LIKE begins an element of a table that is being made.
    pub(super) fn begins_table_like(&self, at: usize, opened: usize) -> bool {
        self.statement == Keyword::CREATE
            && at > 0
            && matches!(self.token(at - 1), Token::LParen | Token::Comma)
            && self.is_table_definition(opened)
    }

    /// Whether a parenthesis is that behind the name in CREATE TABLE.
    fn is_table_definition(&self, opened: usize) -> bool {
        let mut at = self.begin + 1;
        while self.is_any(at, &["TEMP", "TEMPORARY", "LOCAL", "GLOBAL", "UNLOGGED", "OR", "REPLACE"]) {
            at += 1;
        }
        if !self.is(at, "TABLE") {
            return false;
        }
        at += if self.is(at + 1, "IF") { 4 } else { 1 };
        self.name_end(at) == opened
    }

    /// `CREATE TABLE t (a, b) AS …`: the names get a type that says that they have none.
    pub(super) fn named_columns(&mut self, opened: usize) {
        let Some(closed) = self.closed.get(&opened).copied() else { return };
        let names = (opened + 1..closed).step_by(2);
        let is_list = (closed - opened).is_multiple_of(2)
            && names.clone().all(|at| matches!(self.token(at), Token::Word(_)))
            && (opened + 2..closed).step_by(2).all(|at| *self.token(at) == Token::Comma);
        if self.statement != Keyword::CREATE || !self.is_table_definition(opened) {
            return;
        }
        if !is_list {
            return self.generated_columns(opened, closed);
        }
        for at in names {
            self.insert(at + 1, [quoted(ONLY_NAMED)]);
        }
    }

    /// `CREATE TABLE t (a INT, b AS (a + 1))`: generated columns without a type get one that says so.
    fn generated_columns(&mut self, opened: usize, closed: usize) {
        let mut at = opened + 1;
        while at < closed {
            let keyword = if self.is(at + 1, "GENERATED") && self.is(at + 2, "ALWAYS") { at + 3 } else { at + 1 };
            let is_generated = self.is(keyword, "AS") && *self.token(keyword + 1) == Token::LParen;
            if is_generated && matches!(self.token(at), Token::Word(_)) {
                self.insert(at + 1, [quoted(OF_VALUE)]);
            }
            while at < closed && *self.token(at) != Token::Comma {
                at = self.closed.get(&at).copied().unwrap_or(at) + 1;
            }
            at += 1;
        }
    }

    /// CREATE TABLE … AS query WITH NO DATA: the query's columns, and no row.
    pub(super) fn without_data(&mut self, at: usize) {
        let mut begin = at;
        while begin > 0 && !self.begins_statement(begin) {
            begin -= 1;
        }
        // The first AS outside of parentheses.
        while begin < at && !self.is(begin, "AS") {
            begin = self.closed.get(&begin).copied().unwrap_or(begin) + 1;
        }
        if begin + 1 >= at || !self.ends_statement(at + 3) {
            return;
        }
        self.insert(begin + 1, [word("SELECT"), Token::Mul, word("FROM"), Token::LParen]);
        let limit = Token::Number("0".to_owned(), false);
        self.replace(at, [Token::RParen, quoted(NO_DATA), word("LIMIT"), limit]);
        self.drop(at + 1..at + 3);
    }

    /// `REFRESH MATERIALIZED VIEW CONCURRENTLY v WITH NO DATA`: a call.
    pub(super) fn refresh(&mut self, at: usize) {
        let text = |text: &str| Token::SingleQuotedString(text.to_owned());
        let mut name = at + 3;
        let mut options = Vec::new();
        if self.is(name, "CONCURRENTLY") {
            options.extend([Token::Comma, text("concurrently")]);
            name += 1;
        }
        let mut end = name + 1;
        while *self.token(end) == Token::Period {
            end += 2;
        }
        let behind = match (self.is(end, "WITH"), self.is(end + 1, "NO"), self.is(end + 1, "DATA")) {
            (true, true, _) => end + 3,
            (true, _, true) => end + 2,
            _ => end,
        };
        if behind == end + 3 {
            options.extend([Token::Comma, text(NO_DATA)]);
        }
        if !self.is(at + 2, "VIEW") || !self.ends_statement(behind) {
            return;
        }
        self.drop(at + 1..name);
        self.replace(at, [word("CALL"), quoted(REFRESH), Token::LParen]);
        self.drop(end..behind);
        self.insert_or_end(behind, options.into_iter().chain([Token::RParen]));
    }

    /// What a sequence is made with, in the order in which the parser reads it.
    pub(super) fn sequence_options(&mut self, begin: usize) {
        const ORDER: [&str; 7] = ["AS", "INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE"];
        // Its name is that of the column's sequence anyway.
        let begin = match self.is(begin, "SEQUENCE") && self.is(begin + 1, "NAME") {
            true => {
                let end = self.name_end(begin + 2);
                self.drop(begin..end);
                end
            }
            false => begin,
        };
        let (mut at, mut parts) = (begin, Vec::new());
        loop {
            let is_negated = self.is(at, "NO");
            let first = at + usize::from(is_negated);
            let Some(kind) = ORDER.iter().position(|word| self.is(first, word)) else { break };
            let mut end = first + 1;
            if !is_negated && kind != 6 {
                end += usize::from(self.is_any(end, &["BY", "WITH"]));
                end += usize::from(matches!(self.token(end), Token::Minus | Token::Plus));
                end += 1;
            }
            parts.push((kind, (at..end).map(|at| self.token(at).clone()).collect::<Vec<_>>()));
            at = end;
        }
        if at > begin && !parts.is_sorted_by_key(|(kind, _)| *kind) {
            parts.sort_by_key(|(kind, _)| *kind);
            self.replace(begin, parts.into_iter().flat_map(|(_, tokens)| tokens));
            self.drop(begin + 1..at);
        }
    }
}
