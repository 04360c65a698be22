//! Clauses of PostgreSQL that the parser does not know, made of others before it sees them.
//!
//! What they become is listed at the binder: functions whose names have a blank. Of a common table expression, what
//! stands outside of its query is found again by the place of its closing parenthesis ([`Clauses`]).
//!
//! Everything here takes time linear in the number of tokens.

mod alterations;
mod atomic;
mod attach;
mod authority;
mod changes;
mod conflicts;
mod constraints;
mod ctes;
mod current;
mod definitions;
mod domains;
mod duckdb;
mod edits;
mod elements;
mod exclusions;
mod folds;
mod fragments;
mod ignored;
mod joins;
mod json_queries;
mod macros;
mod maintenance;
mod moments;
mod parameters;
mod pivots;
mod procedures;
mod queries;
mod refused;
mod row_locks;
mod rows;
mod shown;
mod stars;
mod strings;
mod upkeep;
mod words;

use std::collections::{HashMap, HashSet};

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

pub(crate) use self::alterations::{ALTER_CONSTRAINT, ALTER_IDENTITY, ALTER_SEQUENCE, COLLATED_TYPE, IF_EXISTS};
pub(super) use self::atomic::body_end;
pub(crate) use self::attach::{ATTACHED, DETACH};
pub(crate) use self::authority::AUTHORITY;
pub(crate) use self::changes::{BY_NAME, BY_POSITION, NOTHING, OVERRIDING, OVERRIDING_USER};
pub(crate) use self::conflicts::{CONFLICT_VALUE, CONFLICT_WHERE};
pub(crate) use self::constraints::{EQUAL_NULLS, INCLUDED};
use self::ctes::Clauses;
pub(crate) use self::current::CURRENT_OF;
pub(crate) use self::definitions::{ENUM_OF, LIKE, NO_DATA, OF_VALUE, ONLY_NAMED, REFRESH};
pub(crate) use self::domains::DOMAIN;
use self::duckdb::Open;
pub(crate) use self::duckdb::{PIVOT_GROUPS, PIVOT_PRODUCT};
use self::edits::Edits;
pub(crate) use self::elements::{ELEMENT, SET_ELEMENT, SET_PART};
pub(crate) use self::exclusions::EXCLUDES;
pub(crate) use self::folds::{COMBINE, FOLD};
pub(crate) use self::fragments::{CLUSTERED, DISTRIBUTED, HASH, RANGE, ROUND_ROBIN, UNIFORM};
pub(crate) use self::ignored::{CONCURRENTLY, IGNORED, UNKNOWN_DROPS};
pub(crate) use self::joins::JOIN_ALIAS;
use self::joins::WaitingJoin;
pub(crate) use self::json_queries::{JSON_CALL, JSON_PASSING};
pub(crate) use self::maintenance::{BACKUP, CHECK, CHECKPOINT, EXPORT, IMPORT, SET_CONSTRAINTS};
pub(crate) use self::moments::TABLE_AT;
pub(crate) use self::pivots::PIVOT_VALUE;
pub(crate) use self::procedures::{DO, PROCEDURE};
pub(crate) use self::queries::{EMPTY_SET, EXECUTED, GROUPING_SETS, LIMIT_PERCENT, VARIADIC_ARRAY};
pub(crate) use self::refused::{PREPARED, REFUSED};
pub(crate) use self::row_locks::{KEY_SHARE, NO_KEY_UPDATE};
pub(crate) use self::rows::WHOLE_ROW;
use self::strings::{with_hexadecimal_numbers, with_whole_strings};
pub(crate) use self::upkeep::UPKEEP;

/// What stands in front of the name of a variable (DuckDB's SET VARIABLE), which is a setting's in the parser's tree.
pub(crate) const VARIABLE: &str = "variable \u{1}";
/// What stands in front of the name in RENAME CONSTRAINT, which is a column's in the parser's tree.
pub(crate) const CONSTRAINT: &str = "constraint \u{1}";

/// The tokens that the parser reads, and what is to be put into the tree besides.
pub(super) struct Rewritten {
    /// The tokens.
    pub(super) tokens: Vec<TokenWithSpan>,
    /// What the tree's common table expressions get.
    pub(super) clauses: Clauses,
    /// The places of the opening parentheses around queries that themselves begin with a parenthesis.
    pub(super) queries: HashSet<Location>,
}

/// The tokens of a statement as the parser can read them.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Rewritten {
    let tokens = with_hexadecimal_numbers(with_whole_strings(atomic::with_bodies_as_texts(tokens)));
    let called = refused::call(&tokens).or_else(|| authority::call(&tokens)).or_else(|| folds::statement(&tokens));
    let called = called.or_else(|| macros::statement(&tokens));
    let tokens = called.unwrap_or(tokens);
    let mut text = Text::new(&tokens);
    text.walk();
    let queries = text.queries();
    let (edits, clauses) = (text.edits, text.clauses);
    Rewritten { tokens: edits.applied(tokens), clauses, queries }
}

/// What is known of a pair of parentheses while it is open.
#[derive(Clone, Default)]
struct TokenLevel {
    /// Where it was opened.
    opened: usize,
    /// Whether a FROM clause is being read.
    in_from: bool,
    /// Whether it is a window's specification.
    is_window: bool,
    /// Whether its frame has begun.
    in_frame: bool,
    /// The joins whose conditions have not come yet, the innermost last.
    joins: Vec<WaitingJoin>,
}

/// A statement's tokens but for blanks and comments. Places are indexes of `words`.
struct Text<'a> {
    tokens: &'a [TokenWithSpan],
    /// The tokens' indexes.
    words: Vec<usize>,
    /// Of an opening parenthesis, where it is closed.
    closed: HashMap<usize, usize>,
    edits: Edits,
    clauses: Clauses,
    /// What is before this place of clauses that lock rows has been read.
    locks_until: usize,
    /// Where the statement that is being read begins, and the word there.
    begin: usize,
    statement: Keyword,
    /// How many parameters without names it has so far.
    parameters: usize,
}

impl<'a> Text<'a> {
    fn new(tokens: &'a [TokenWithSpan]) -> Self {
        let is_word = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        let words = (0..tokens.len()).filter(|index| is_word(&tokens[*index])).collect::<Vec<_>>();
        let (mut open, mut closed) = (Vec::new(), HashMap::new());
        for (at, index) in words.iter().enumerate() {
            match tokens[*index].token {
                Token::LParen => open.push(at),
                Token::RParen => {
                    if let Some(opened) = open.pop() {
                        closed.insert(opened, at);
                    }
                }
                _ => {}
            }
        }
        let (edits, clauses) = (Edits::default(), Clauses::default());
        let statement = Keyword::NoKeyword;
        Self { tokens, words, closed, edits, clauses, locks_until: 0, begin: 0, statement, parameters: 0 }
    }

    fn token(&self, at: usize) -> &'a Token {
        self.words.get(at).map_or(&Token::EOF, |index| &self.tokens[*index].token)
    }

    /// Whether an unquoted word stands there.
    fn is(&self, at: usize, name: &str) -> bool {
        match self.token(at) {
            Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
            _ => false,
        }
    }

    fn is_any(&self, at: usize, names: &[&str]) -> bool {
        names.iter().any(|name| self.is(at, name))
    }

    /// The same of the word before; of none before the first.
    fn follows(&self, at: usize, names: &[&str]) -> bool {
        at > 0 && self.is_any(at - 1, names)
    }

    fn insert(&mut self, at: usize, tokens: impl IntoIterator<Item = Token>) {
        self.edits.insert(self.words[at], tokens);
    }

    /// In front of a place, or behind the last token.
    fn insert_or_end(&mut self, at: usize, tokens: impl IntoIterator<Item = Token>) {
        match self.words.get(at) {
            Some(index) => self.edits.insert(*index, tokens),
            None => self.edits.append(tokens),
        }
    }

    /// The tokens between two words.
    fn between(&self, from: usize, to: usize) -> Vec<Token> {
        (from + 1..to).map(|at| self.token(at).clone()).collect()
    }

    fn replace(&mut self, at: usize, tokens: impl IntoIterator<Item = Token>) {
        self.edits.replace(self.words[at], tokens);
    }

    fn drop(&mut self, places: std::ops::Range<usize>) {
        for at in places {
            self.replace(at, []);
        }
    }

    fn walk(&mut self) {
        let mut levels = vec![TokenLevel::default()];
        let mut opens = Vec::<Open>::new();
        for at in 0..self.words.len() {
            self.duckdb(at, &mut opens);
            let last = levels.len() - 1;
            match self.token(at) {
                Token::LParen => {
                    self.named_columns(at);
                    self.values_in_parentheses(at);
                    levels.push(self.level(at));
                }
                Token::RParen => {
                    if last > 0 {
                        levels.pop();
                    }
                    self.search_and_cycle(at);
                }
                Token::SemiColon => (levels, self.parameters) = (vec![TokenLevel::default()], 0),
                // An operator's name may not end in a sign of arithmetic, but for this one.
                Token::CustomBinaryOperator(_) if self.is_adjacency(at) && !self.follows(at, &["WITH"]) => {
                    self.replace(at, [Token::CustomBinaryOperator("-|-".to_owned())]);
                    self.drop(at + 1..at + 2);
                }
                Token::Mul if at > 1 => self.whole_row(at),
                Token::Question => self.parameter(at),
                Token::Sharp if self.is_position(at) => self.position(at),
                Token::Sharp => self.replace(at, [Token::CustomBinaryOperator("#".to_owned())]),
                Token::Word(word) if word.quote_style.is_none() => self.word(at, word.keyword, &mut levels[last]),
                _ => {}
            }
        }
        self.duckdb_end(&mut opens);
    }

    fn level(&self, opened: usize) -> TokenLevel {
        let begins_query = || {
            self.is_any(opened + 1, &["SELECT", "WITH", "VALUES", "TABLE", "FROM"])
                || self.is_any(opened + 1, &["INSERT", "UPDATE", "DELETE", "MERGE"])
                || *self.token(opened + 1) == Token::LParen
        };
        let is_window = self.follows(opened, &["OVER"]) || self.follows(opened, &["AS"]) && !begins_query();
        TokenLevel { opened, is_window, ..TokenLevel::default() }
    }

    fn word(&mut self, at: usize, keyword: Keyword, level: &mut TokenLevel) {
        if self.begins_statement(at) {
            (self.begin, self.statement) = (at, keyword);
        }
        self.unreserved(at);
        self.without_heirs(at);
        self.merged_defaults(at);
        self.joins(at, keyword, level);
        match keyword {
            Keyword::FROM if !self.follows(at, &["DISTINCT"]) => level.in_from = true,
            Keyword::SELECT => {
                level.in_from = false;
                self.select(at);
            }
            Keyword::WHERE => {
                level.in_from = false;
                self.current_of(at);
            }
            Keyword::HAVING
            | Keyword::ORDER
            | Keyword::WINDOW
            | Keyword::UNION
            | Keyword::INTERSECT
            | Keyword::EXCEPT => level.in_from = false,
            Keyword::LIMIT => {
                level.in_from = false;
                self.limit_percent(at);
            }
            Keyword::GROUP => {
                level.in_from = false;
                self.group_by(at);
            }
            Keyword::ROWS if level.in_from && self.is(at + 1, "FROM") && *self.token(at + 2) == Token::LParen => {
                self.replace(at, [quoted("rows from")]);
                self.drop(at + 1..at + 2);
            }
            Keyword::ROWS | Keyword::RANGE | Keyword::GROUPS if level.is_window => {
                level.in_frame = true;
                self.frame_offsets(at);
            }
            Keyword::GROUPING if self.is(at + 1, "SETS") && self.is_in_grouping_sets(level) => self.nested_sets(at),
            Keyword::EXCLUDE if level.in_frame => self.exclude(at, level.opened),
            Keyword::EXCLUDE if matches!(self.statement, Keyword::CREATE | Keyword::ALTER) => self.exclusion(at),
            Keyword::VARIADIC if at > 0 && matches!(self.token(at - 1), Token::LParen | Token::Comma) => {
                self.variadic(at, level.opened);
            }
            // substring(a SIMILAR b ESCAPE c): substring(a FROM b FOR c).
            Keyword::SIMILAR if !self.is(at + 1, "TO") && self.is_in_substring(level) => {
                self.replace(at, [word("FROM")]);
            }
            Keyword::ESCAPE if self.is_in_substring(level) => self.replace(at, [word("FOR")]),
            Keyword::LIKE if self.begins_table_like(at, level.opened) => self.table_like(at),
            Keyword::UNIQUE | Keyword::PRIMARY => self.included(at),
            // Nothing inherits.
            Keyword::NO
                if self.is(at + 1, "INHERIT")
                    && at > 0
                    && *self.token(at - 1) == Token::RParen
                    && matches!(self.statement, Keyword::CREATE | Keyword::ALTER) =>
            {
                self.drop(at..at + 2);
            }
            Keyword::FOREIGN if self.is(at + 1, "KEY") => self.set_by_deletion(at),
            Keyword::CONFLICT if self.follows(at, &["ON"]) => self.conflict(at),
            Keyword::TABLE => self.table(at),
            Keyword::EXECUTE => self.executed(at),
            // Names, unless something of the past is asked for.
            Keyword::AT | Keyword::BEFORE | Keyword::CHANGES if level.in_from && !self.is_of_past(at) => {
                let name = self.token(at).to_string().to_lowercase();
                self.replace(at, [quoted(&name)]);
            }
            Keyword::AS if level.in_from && self.declares_columns(at) => {
                let closed = at - 1;
                let opened = (level.opened..closed).rev().find(|open| self.closed.get(open) == Some(&closed));
                if let Some(name @ Token::Word(_)) = opened.and_then(|open| Some(self.token(open.checked_sub(1)?))) {
                    self.insert(at + 1, [name.clone()]);
                }
            }
            Keyword::FOR if at >= self.locks_until => self.row_locks(at),
            Keyword::PIVOT if level.in_from && *self.token(at + 1) == Token::LParen => self.pivot_in_from(at),
            Keyword::ENUM if self.statement == Keyword::CREATE => self.enum_of_query(at),
            Keyword::FUNCTION if self.follows(at, &["CREATE", "REPLACE"]) => self.function_as_macro(at),
            Keyword::FETCH => self.fetch(at),
            Keyword::USING if self.statement == Keyword::MERGE && self.joins_merged(at) => {}
            Keyword::USING => match self.token(at + 1) {
                Token::Lt => self.order_using(at, "ASC"),
                Token::Gt => self.order_using(at, "DESC"),
                _ => {}
            },
            Keyword::ALTER if self.begins_statement(at) => {
                self.alter(at);
                self.ignored_alter(at);
            }
            Keyword::ALTER if self.statement == Keyword::ALTER && self.is(at + 1, "CONSTRAINT") => {
                self.alter_constraint(at);
            }
            Keyword::CREATE if self.begins_statement(at) => self.ignored_create(at),
            Keyword::EXPLAIN if self.begins_statement(at) => self.ignored_explained(at),
            Keyword::COMMENT if self.begins_statement(at) => self.ignored_comment(at),
            Keyword::DROP if self.begins_statement(at) => self.ignored_drop(at),
            Keyword::LOAD if self.begins_statement(at) => self.ignored_load(at),
            Keyword::INSTALL if self.begins_statement(at) => self.ignored_load(at),
            // FILTER (condition), as in DuckDB.
            Keyword::FILTER
                if at > 0
                    && *self.token(at - 1) == Token::RParen
                    && *self.token(at + 1) == Token::LParen
                    && !self.is(at + 2, "WHERE") =>
            {
                self.insert(at + 2, [word("WHERE")]);
            }
            Keyword::UESCAPE => self.unicode_escape(at),
            Keyword::VALUES if *self.token(at + 1) == Token::LParen => self.values_of_rows(at),
            Keyword::SET if self.sets_an_element(at) => self.set_elements(at),
            Keyword::INSERT if self.is(at + 1, "INTO") => self.inserted_elements(at + 2),
            Keyword::SET if self.begins_statement(at) && self.is(at + 1, "CONSTRAINTS") => self.maintenance(at),
            Keyword::SET | Keyword::RESTART | Keyword::DROP => self.alter_identity(at),
            Keyword::MATERIALIZED => self.materialized(at),
            Keyword::THEN if self.is(at + 1, "DO") && self.is(at + 2, "NOTHING") => self.merge_nothing(at),
            Keyword::THEN if self.is_any(at + 1, &["INSERT", "UPDATE"]) => self.merged_whole(at),
            // The columns' places count anyway.
            Keyword::BY if self.is(at + 1, "POSITION") && self.ends_insert_target(at) => self.drop(at..at + 2),
            Keyword::BY if self.is(at + 1, "NAME") && self.ends_insert_target(at) => {
                self.insert_clause(at, 2, BY_NAME);
            }
            Keyword::WITH if self.is(at + 1, "NO") && self.is(at + 2, "DATA") => self.without_data(at),
            Keyword::WITH if self.is(at + 1, "DATA") && self.ends_statement(at + 2) => self.drop(at..at + 2),
            Keyword::COLLATION if self.is(at + 1, "FOR") && *self.token(at + 2) == Token::LParen => {
                self.replace(at, [word("pg_collation_for")]);
                self.drop(at + 1..at + 2);
            }
            Keyword::COLLATE => self.collated_type(at),
            Keyword::JSON_TABLE if *self.token(at + 1) == Token::LParen => self.json_table(at),
            _ if *self.token(at + 1) == Token::LParen
                && self.is_any(at, &["JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"]) =>
            {
                self.json_query(at);
            }
            Keyword::VARIABLE if self.follows(at, &["SET", "RESET"]) => {
                if let Token::Word(name) = self.token(at + 1) {
                    self.replace(at, [quoted(&format!("{VARIABLE}{}", name.value.to_lowercase()))]);
                    self.drop(at + 1..at + 2);
                }
            }
            // DROP MACRO [TABLE] f: DROP FUNCTION f.
            Keyword::MACRO if self.follows(at, &["DROP"]) => {
                self.replace(at, [word("FUNCTION")]);
                if self.is(at + 1, "TABLE") {
                    self.drop(at + 1..at + 2);
                }
            }
            Keyword::VACUUM | Keyword::ANALYZE if self.begins_statement(at) => self.upkeep(at),
            Keyword::PROCEDURE if self.names_procedure(at) => self.procedure(at),
            Keyword::DO if self.begins_statement(at) => self.do_block(at),
            _ if self.begins_statement(at)
                && self.is_any(at, &["CHECKPOINT", "BACKUP", "CHECK", "EXPORT", "IMPORT"]) =>
            {
                self.maintenance(at);
            }
            // TRY(CAST(a AS b)): TRY_CAST(a AS b).
            _ if self.is(at, "TRY") && *self.token(at + 1) == Token::LParen && self.is(at + 2, "CAST") => {
                let (outer, inner) = (self.closed.get(&(at + 1)).copied(), self.closed.get(&(at + 3)).copied());
                if let (Some(outer), Some(inner)) = (outer, inner)
                    && outer == inner + 1
                {
                    self.drop(at..at + 2);
                    self.replace(at + 2, [word("TRY_CAST")]);
                    self.drop(outer..outer + 1);
                }
            }
            _ if self.begins_statement(at) && self.is_any(at, &["REINDEX", "CLUSTER"]) => self.ignored_upkeep(at),
            _ if self.is_any(at, &["DISTRIBUTED", "CLUSTERED"]) && self.is(at + 1, "BY") => self.fragments(at),
            _ if self.is(at, "REFRESH") && self.begins_statement(at) && self.is(at + 1, "MATERIALIZED") => {
                self.refresh(at);
            }
            Keyword::DOMAIN if self.follows(at, &["CREATE", "ALTER", "DROP"]) && self.begins_statement(at - 1) => {
                self.domain(at);
            }
            Keyword::SEQUENCE if self.follows(at, &["CREATE", "TEMPORARY", "TEMP"]) => {
                let named = if self.is(at + 1, "IF") { at + 4 } else { at + 1 };
                let behind = if *self.token(named + 1) == Token::Period { named + 3 } else { named + 1 };
                self.sequence_options(behind);
            }
            Keyword::IDENTITY if *self.token(at + 1) == Token::LParen => self.sequence_options(at + 2),
            Keyword::CONSTRAINT if self.follows(at, &["RENAME"]) => {
                if let Token::Word(name) = self.token(at + 1) {
                    let lower = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
                    self.replace(at, [quoted(&format!("{CONSTRAINT}{lower}"))]);
                    self.drop(at + 1..at + 2);
                }
            }
            _ if self.is(at, "TABLESPACE") => self.tablespace(at),
            _ if self.is(at, "WITHOUT") && self.is(at + 1, "OIDS") && self.defines_rows() => self.drop(at..at + 2),
            _ if self.is(at, "OVERRIDING") && self.is(at + 1, "SYSTEM") && self.is(at + 2, "VALUE") => {
                self.insert_clause(at, 3, OVERRIDING);
            }
            _ if self.is(at, "OVERRIDING") && self.is(at + 1, "USER") && self.is(at + 2, "VALUE") => {
                self.insert_clause(at, 3, OVERRIDING_USER);
            }
            _ => {}
        }
    }

    /// Whether AS without a name stands between a call and its columns: `f() AS (a integer, b text)`.
    fn declares_columns(&self, at: usize) -> bool {
        let is_word = |at: usize| matches!(self.token(at), Token::Word(_));
        at > 0
            && *self.token(at - 1) == Token::RParen
            && *self.token(at + 1) == Token::LParen
            && is_word(at + 2)
            && is_word(at + 3)
            && !self
                .is_any(at + 2, &["SELECT", "WITH", "VALUES", "TABLE", "FROM", "INSERT", "UPDATE", "DELETE", "MERGE"])
    }

    /// `-|-`, without blanks in it.
    fn is_adjacency(&self, at: usize) -> bool {
        matches!(self.token(at), Token::CustomBinaryOperator(first) if first == "-|")
            && *self.token(at + 1) == Token::Minus
            && self.words[at + 1] == self.words[at] + 1
    }

    fn is_in_substring(&self, level: &TokenLevel) -> bool {
        level.opened > 0 && self.is(level.opened - 1, "SUBSTRING")
    }

    /// Whether AT begins `AT (TIMESTAMP => …)`, `AT (VERSION => …)` or `AT TIME ZONE`.
    fn is_of_past(&self, at: usize) -> bool {
        let is_clause = *self.token(at + 1) == Token::LParen && self.is_any(at + 2, &["TIMESTAMP", "VERSION"]);
        self.is(at, "AT") && (is_clause || self.is_any(at + 1, &["TIME", "LOCAL"]))
    }

    fn ends_statement(&self, at: usize) -> bool {
        matches!(self.token(at), Token::SemiColon | Token::EOF)
    }

    fn begins_statement(&self, at: usize) -> bool {
        at == 0 || *self.token(at - 1) == Token::SemiColon
    }
}

fn word(name: &str) -> Token {
    Token::make_word(name, None)
}

fn quoted(name: &str) -> Token {
    Token::make_word(name, Some('"'))
}

/// `"name"()`.
fn calls(name: &str) -> impl Iterator<Item = Token> + use<> {
    [quoted(name), Token::LParen, Token::RParen].into_iter()
}
