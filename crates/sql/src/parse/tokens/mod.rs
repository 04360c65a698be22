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
mod keywords;
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

use diligence_base::{Error, Result, Span};
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
pub(crate) use self::rows::{ROWS_OF, WHOLE_ROW};
use self::strings::{number_with_junk, with_binary_numbers, with_hexadecimal_numbers, with_whole_strings};
pub(crate) use self::upkeep::UPKEEP;
use crate::errors;

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

/// The tokens of a statement as the parser can read them. Fails with 42601 if a word follows a number without a blank.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Result<Rewritten> {
    let tokens = with_hexadecimal_numbers(with_whole_strings(atomic::with_bodies_as_texts(tokens)));
    let tokens = with_binary_numbers(tokens);
    if let Some((place, number)) = number_with_junk(&tokens) {
        let message = format!("trailing junk after numeric literal at or near \"{number}\"");
        let place = Span { line: place.line, column: place.column };
        return Err(errors::at(Error::input(message).with_code("42601"), Some(place)));
    }
    let called = refused::call(&tokens).or_else(|| authority::call(&tokens)).or_else(|| folds::statement(&tokens));
    let called = called.or_else(|| macros::statement(&tokens));
    let tokens = called.unwrap_or(tokens);
    let mut text = Text::new(&tokens);
    text.walk();
    let queries = text.queries();
    let (edits, clauses) = (text.edits, text.clauses);
    Ok(Rewritten { tokens: edits.applied(tokens), clauses, queries })
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
        let _is_met = self.query_word(at, keyword, level)
            || self.expression_word(at, keyword, level)
            || self.change_word(at, keyword)
            || self.statement_word(at, keyword)
            || self.definition_word(at, keyword, level);
    }

    /// `-|-`, without blanks in it.
    fn is_adjacency(&self, at: usize) -> bool {
        matches!(self.token(at), Token::CustomBinaryOperator(first) if first == "-|")
            && *self.token(at + 1) == Token::Minus
            && self.words[at + 1] == self.words[at] + 1
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
