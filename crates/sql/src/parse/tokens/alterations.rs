//! ALTER of what the parser knows no ALTER of. What it becomes:
//!
//! * `ALTER SEQUENCE s INCREMENT BY 2 RESTART`: `CALL "alter sequence"(s, 'increment', 2, 'restart', NULL)`;
//! * `ALTER COLUMN c SET GENERATED ALWAYS SET CACHE 5 RESTART WITH 7`: `SET DEFAULT "alter identity"('generated',
//!   'always', 'cache', 5, 'restart', 7)`; `DROP IDENTITY` and `DROP EXPRESSION` likewise;
//! * `ALTER COLUMN c TYPE text COLLATE d USING e`: `TYPE text USING "collated type"(NULL COLLATE d, e)`;
//! * `ALTER SEQUENCE s RENAME TO r`: `ALTER TABLE s ON CLUSTER "sequence" RENAME TO r`, and so of views and
//!   materialized views: what is said to be altered is where the parser has a place for a cluster's name;
//! * `ALTER TYPE t RENAME ATTRIBUTE a TO b`: `ALTER TABLE t ON CLUSTER "type" RENAME COLUMN a TO b`, likewise.

use sqlparser::tokenizer::Token;

use super::{Text, quoted, word};

/// ALTER SEQUENCE, as the parser's tree has it: a call of this name.
pub(crate) const ALTER_SEQUENCE: &str = "alter sequence";
/// What becomes of a column that counts or is generated, likewise: its default.
pub(crate) const ALTER_IDENTITY: &str = "alter identity";

/// What stands in front of the name of a constraint in ALTER CONSTRAINT, before when it holds.
pub(crate) const ALTER_CONSTRAINT: &str = "alter constraint \u{1}";

/// ALTER COLUMN … TYPE … COLLATE, likewise: what USING calls.
pub(crate) const COLLATED_TYPE: &str = "collated type";

/// What stands in front of an index's name behind IF EXISTS, for which the parser has no place.
pub(crate) const IF_EXISTS: &str = "if exists \u{1}";

/// What a column can cease to be.
const DROPPED: [&str; 2] = ["IDENTITY", "EXPRESSION"];
/// What becomes of a sequence.
const CHANGES: [&str; 10] =
    ["GENERATED", "RESTART", "START", "INCREMENT", "MINVALUE", "MAXVALUE", "CACHE", "CYCLE", "AS", "OWNED"];

fn text(text: &str) -> Token {
    Token::SingleQuotedString(text.to_owned())
}

impl Text<'_> {
    /// ALTER INDEX IF EXISTS.
    fn alter_index(&mut self, at: usize) {
        if !self.is(at + 2, "IF") || !self.is(at + 3, "EXISTS") {
            return;
        }
        let end = self.name_end(at + 4);
        if let Token::Word(name) = self.token(end - 1) {
            let lower = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            self.replace(end - 1, [quoted(&format!("{IF_EXISTS}{lower}"))]);
            self.drop(at + 2..at + 4);
        }
    }

    /// `ALTER TYPE t ADD ATTRIBUTE a text CASCADE, …`: `ALTER TABLE t ON CLUSTER "type" ADD COLUMN a text, …`.
    fn alter_attributes(&mut self, at: usize) {
        const VERBS: [&str; 4] = ["ADD", "DROP", "ALTER", "RENAME"];
        let name_end = self.name_end(at + 2);
        if !self.is_any(name_end, &VERBS) || !self.is(name_end + 1, "ATTRIBUTE") {
            return;
        }
        self.replace(at + 1, [word("TABLE")]);
        self.insert(name_end, [word("ON"), word("CLUSTER"), quoted("type")]);
        let mut place = name_end;
        while !self.ends_statement(place) {
            let begins = place == name_end || *self.token(place - 1) == Token::Comma;
            if begins && self.is_any(place, &VERBS) && self.is(place + 1, "ATTRIBUTE") {
                self.replace(place + 1, [word("COLUMN")]);
            }
            let ends = self.ends_statement(place + 1) || *self.token(place + 1) == Token::Comma;
            if ends && self.is_any(place, &["CASCADE", "RESTRICT"]) {
                self.drop(place..place + 1);
            }
            place = self.closed.get(&place).copied().unwrap_or(place) + 1;
        }
    }

    /// ALTER of an index, a sequence, a view or attributes of a type, which begins there.
    pub(super) fn alter(&mut self, at: usize) {
        if self.is(at + 1, "INDEX") {
            return self.alter_index(at);
        }
        if self.is(at + 1, "TYPE") {
            return self.alter_attributes(at);
        }
        let is_sequence = self.is(at + 1, "SEQUENCE");
        let kind_words = if self.is(at + 1, "MATERIALIZED") { 2 } else { 1 };
        if !is_sequence && !self.is(at + kind_words, "VIEW") {
            return;
        }
        let exists = at + 1 + kind_words;
        let is_conditional = self.is(exists, "IF") && self.is(exists + 1, "EXISTS");
        let name = if is_conditional { exists + 2 } else { exists };
        let mut end = name + 1;
        while *self.token(end) == Token::Period {
            end += 2;
        }
        if self.is_any(end, &["RENAME", "OWNER"]) || self.is(end, "SET") && self.is(end + 1, "SCHEMA") {
            let kind = match (is_sequence, kind_words) {
                (true, _) => "sequence",
                (false, 1) => "view",
                _ => "materialized view",
            };
            self.replace(at + 1, [word("TABLE")]);
            self.drop(at + 2..at + 1 + kind_words);
            self.insert(end, [word("ON"), word("CLUSTER"), quoted(kind)]);
            return;
        }
        if !is_sequence {
            return self.view_options(at, end, kind_words);
        }
        let Some((arguments, behind)) = self.sequence_changes(end, false) else { return };
        if !self.ends_statement(behind) {
            return;
        }
        let condition =
            if is_conditional { vec![Token::Comma, text("if exists"), Token::Comma, word("NULL")] } else { vec![] };
        let name = (name..end).map(|at| self.token(at).clone()).collect::<Vec<_>>();
        let call = [word("CALL"), quoted(ALTER_SEQUENCE), Token::LParen];
        let all = call.into_iter().chain(name).chain(condition).chain(arguments).chain([Token::RParen]);
        let all = all.collect::<Vec<_>>();
        self.replace(at, all);
        self.drop(at + 1..behind);
    }

    /// `ALTER VIEW v SET (a)` and `RESET (a)`: `ALTER TABLE v ON CLUSTER "view" SET (a = TRUE)` and `SET (a = NULL)`.
    fn view_options(&mut self, at: usize, end: usize, kind_words: usize) {
        let is_reset = self.is(end, "RESET");
        if kind_words != 1 || !is_reset && !self.is(end, "SET") {
            return;
        }
        if self.valued_options(end + 1, if is_reset { "NULL" } else { "TRUE" }).is_some() {
            self.replace(at + 1, [word("TABLE")]);
            self.insert(end, [word("ON"), word("CLUSTER"), quoted("view")]);
            self.replace(end, [word("SET")]);
        }
    }

    /// `ALTER CONSTRAINT k DEFERRABLE INITIALLY DEFERRED`: a constraint to validate, whose name says when it holds.
    pub(super) fn alter_constraint(&mut self, at: usize) {
        let Token::Word(name) = self.token(at + 2) else { return };
        let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
        let (mut end, mut is_deferrable, mut is_deferred) = (at + 3, None, false);
        loop {
            if self.is(end, "DEFERRABLE") {
                (is_deferrable, end) = (Some(true), end + 1);
            } else if self.is(end, "NOT") && self.is(end + 1, "DEFERRABLE") {
                (is_deferrable, end) = (Some(false), end + 2);
            } else if self.is(end, "INITIALLY") && self.is_any(end + 1, &["DEFERRED", "IMMEDIATE"]) {
                (is_deferred, end) = (self.is(end + 1, "DEFERRED"), end + 2);
            } else {
                break;
            }
        }
        if !self.ends_statement(end) && *self.token(end) != Token::Comma {
            return;
        }
        let deferral = match (is_deferrable, is_deferred) {
            (Some(false), true) => "none",
            (_, true) => "deferred",
            (Some(true), false) => "immediate",
            _ => "never",
        };
        self.replace(at, [word("VALIDATE")]);
        self.replace(at + 2, [quoted(&format!("{ALTER_CONSTRAINT}{deferral} {name}"))]);
        self.drop(at + 3..end);
    }

    /// What becomes of a column that counts or is generated, if it begins there.
    pub(super) fn alter_identity(&mut self, at: usize) {
        let is_column = at >= 2 && (self.is(at - 2, "COLUMN") || self.is(at - 2, "ALTER"));
        if !is_column {
            return;
        }
        let dropped = DROPPED.iter().find(|what| self.is(at, "DROP") && self.is(at + 1, what));
        let (arguments, behind) = match dropped {
            Some(what) => {
                let is_conditional = self.is(at + 2, "IF") && self.is(at + 3, "EXISTS");
                let condition = if is_conditional { text("if exists") } else { word("NULL") };
                let what = text(&format!("drop {}", what.to_lowercase()));
                (vec![Token::Comma, what, Token::Comma, condition], if is_conditional { at + 4 } else { at + 2 })
            }
            None => match self.sequence_changes(at, true) {
                Some(changes) => changes,
                None => return,
            },
        };
        let call = [word("SET"), word("DEFAULT"), quoted(ALTER_IDENTITY), Token::LParen];
        let all = call.into_iter().chain(arguments.into_iter().skip(1)).chain([Token::RParen]);
        let all = all.collect::<Vec<_>>();
        self.replace(at, all);
        self.drop(at + 1..behind);
    }

    /// COLLATE behind the type in ALTER COLUMN, if it stands there.
    pub(super) fn collated_type(&mut self, at: usize) {
        // No type's name is longer: `timestamp(6) without time zone`, with a schema and brackets.
        const WORDS_MAX: usize = 12;
        let begin = (at.saturating_sub(WORDS_MAX)..at).rev().find(|begin| self.is(*begin, "TYPE"));
        let Some(kind) = begin.filter(|begin| (*begin..at).all(|at| *self.token(at) != Token::Comma)) else { return };
        let named = if self.follows(kind, &["DATA"]) { kind.saturating_sub(3) } else { kind.saturating_sub(1) };
        if named == 0 || !self.is_any(named - 1, &["COLUMN", "ALTER"]) {
            return;
        }
        let mut behind = at + 2;
        while *self.token(behind) == Token::Period {
            behind += 2;
        }
        self.insert(at, [word("USING"), quoted(COLLATED_TYPE), Token::LParen, word("NULL")]);
        if !self.is(behind, "USING") {
            self.insert_or_end(behind, [Token::RParen]);
            return;
        }
        self.replace(behind, [Token::Comma]);
        let mut end = behind + 1;
        while !self.ends_statement(end) && *self.token(end) != Token::Comma {
            end = self.closed.get(&end).copied().unwrap_or(end) + 1;
        }
        self.insert_or_end(end, [Token::RParen]);
    }

    /// What becomes of a sequence, as arguments that each have a comma in front, and where it ends. With `of_column`,
    /// of one that a column has. `None` if there is nothing.
    fn sequence_changes(&self, begin: usize, of_column: bool) -> Option<(Vec<Token>, usize)> {
        let (mut at, mut arguments) = (begin, Vec::new());
        loop {
            let first = at + usize::from(of_column && self.is(at, "SET"));
            let is_negated = self.is(first, "NO");
            let first = first + usize::from(is_negated);
            let Some(kind) = CHANGES.iter().find(|kind| self.is(first, kind)) else { break };
            let mut end = first + 1;
            let value = match *kind {
                "GENERATED" if of_column && self.is(end, "ALWAYS") => {
                    end += 1;
                    vec![text("always")]
                }
                "GENERATED" if of_column && self.is(end, "BY") && self.is(end + 1, "DEFAULT") => {
                    end += 2;
                    vec![text("by default")]
                }
                "GENERATED" => break,
                "CYCLE" => vec![word(if is_negated { "FALSE" } else { "TRUE" })],
                "MINVALUE" | "MAXVALUE" if is_negated => vec![word("NULL")],
                _ if is_negated => break,
                "AS" => {
                    end += 1;
                    match self.token(end - 1) {
                        Token::Word(name) => vec![text(&name.value)],
                        _ => break,
                    }
                }
                "OWNED" => {
                    if of_column || !self.is(end, "BY") {
                        break;
                    }
                    end += 2;
                    let from = end - 1;
                    while *self.token(end) == Token::Period {
                        end += 2;
                    }
                    match self.is(from, "NONE") {
                        true => vec![word("NULL")],
                        false => (from..end).map(|at| self.token(at).clone()).collect(),
                    }
                }
                _ => {
                    end += usize::from(self.is_any(end, &["BY", "WITH"]));
                    let from = end;
                    end += usize::from(matches!(self.token(end), Token::Minus | Token::Plus));
                    match self.token(end) {
                        Token::Number(..) => {
                            end += 1;
                            (from..end).map(|at| self.token(at).clone()).collect()
                        }
                        _ if *kind == "RESTART" && end == first + 1 => vec![word("NULL")],
                        _ => break,
                    }
                }
            };
            arguments.extend([Token::Comma, text(&kind.to_lowercase()), Token::Comma]);
            arguments.extend(value);
            at = end;
        }
        (at > begin).then_some((arguments, at))
    }
}
