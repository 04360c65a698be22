//! Clauses of PostgreSQL that the parser does not know, made of others before it sees them.
//!
//! What they become is listed at the binder: functions whose names have a blank. Of a common table expression, what
//! stands outside of its query is found again by the place of its closing parenthesis ([`Clauses`]).
//!
//! Everything here takes time linear in the number of tokens.

mod alterations;
mod duckdb;
mod fragments;
mod ignored;
mod maintenance;
mod procedures;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{CteAsMaterialized, Expr, Ident, Query, Setting, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace};

pub(crate) use self::alterations::{ALTER_IDENTITY, ALTER_SEQUENCE};
use self::duckdb::Open;
pub(crate) use self::duckdb::PIVOT_GROUPS;
pub(crate) use self::fragments::{CLUSTERED, DISTRIBUTED, HASH, RANGE, ROUND_ROBIN, UNIFORM};
pub(crate) use self::ignored::IGNORED;
pub(crate) use self::maintenance::{BACKUP, CHECK, CHECKPOINT, EXPORT, IMPORT, SET_CONSTRAINTS};
pub(crate) use self::procedures::{DO, PROCEDURE};
use super::dialect::PostgresSyntax;

/// INSERT … OVERRIDING SYSTEM VALUE, as the parser's tree has it: a partition or an alias of this name.
pub(crate) const OVERRIDING: &str = "overriding system value";
/// FOR NO KEY UPDATE, as the parser's tree has it: FOR UPDATE of this, and of a name behind it.
pub(crate) const NO_KEY_UPDATE: &str = "for no key update";
/// FOR KEY SHARE, likewise FOR SHARE.
pub(crate) const KEY_SHARE: &str = "for key share";
/// What stands in front of the name of a variable (DuckDB's SET VARIABLE), which is a setting's in the parser's tree.
pub(crate) const VARIABLE: &str = "variable \u{1}";
/// What stands in front of the name in RENAME CONSTRAINT, which is a column's in the parser's tree.
pub(crate) const CONSTRAINT: &str = "constraint \u{1}";
/// REFRESH MATERIALIZED VIEW, as the parser's tree has it: a call of this name. The view's name is the first argument,
/// its options are texts behind it.
pub(crate) const REFRESH: &str = "refresh materialized view";
/// The alias of the query of AS query WITH NO DATA; an option of REFRESH.
pub(crate) const NO_DATA: &str = "no data";
/// LIMIT of a percentage, as the parser's tree has it: a call of this name.
pub(crate) const LIMIT_PERCENT: &str = "limit percent";
/// INSERT … BY NAME, likewise.
pub(crate) const BY_NAME: &str = "by name";
/// The function that gives a value with another element: of the value, the places and the element.
const SET_ELEMENT: &str = "set element";
/// What the last part of the name in LIKE begins with, which says what of that table is included.
pub(crate) const LIKE_OPTIONS: &str = "including \u{1}";
/// DO NOTHING in MERGE, as the parser's tree has it: a column of this name that is set or inserted.
pub(crate) const NOTHING: &str = "do nothing";

/// The tokens that the parser reads, and what is to be put into the tree besides.
pub(super) struct Rewritten {
    /// The tokens.
    pub(super) tokens: Vec<TokenWithSpan>,
    /// What the tree's common table expressions get.
    pub(super) clauses: Clauses,
    /// The places of the opening parentheses around queries that themselves begin with a parenthesis.
    pub(super) queries: HashSet<Location>,
}

/// MATERIALIZED, SEARCH and CYCLE by the place of the parenthesis that closes the common table expression.
#[derive(Default)]
pub(super) struct Clauses(HashMap<Location, CteClauses>);

#[derive(Default)]
struct CteClauses {
    materialized: Option<CteAsMaterialized>,
    settings: Vec<Setting>,
}

impl Clauses {
    /// Whether there is nothing to put into the tree.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn at(&mut self, closing: &TokenWithSpan) -> &mut CteClauses {
        self.0.entry(closing.span.start).or_default()
    }
}

impl VisitorMut for Clauses {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let Some(clauses) = self.0.remove(&cte.closing_paren_token.0.span.start) else { continue };
            if clauses.materialized.is_some() {
                cte.materialized = clauses.materialized;
            }
            if !clauses.settings.is_empty() {
                cte.query.settings = Some(clauses.settings);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The tokens of a statement as the parser can read them.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Rewritten {
    let tokens = with_hexadecimal_numbers(with_whole_strings(tokens));
    let mut text = Text::new(&tokens);
    text.walk();
    let queries = text.queries();
    let (edits, clauses) = (text.edits, text.clauses);
    Rewritten { tokens: edits.applied(tokens), clauses, queries }
}

/// `0x1F` is a number, `X'1F'` a string of bits; the parser has one token for both, of which the first is shorter.
fn with_hexadecimal_numbers(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        let Token::HexStringLiteral(digits) = &token.token else { continue };
        let columns = token.span.end.column.saturating_sub(token.span.start.column);
        if usize::try_from(columns).is_ok_and(|columns| columns == digits.len() + 2)
            && let Ok(number) = u128::from_str_radix(&digits.replace('_', ""), 16)
        {
            token.token = Token::Number(number.to_string(), false);
        }
    }
    tokens
}

/// String literals with only a line's end and comments between them are one.
fn with_whole_strings(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut whole: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Where the last string is, and whether a line has ended since.
    let mut last: Option<(usize, bool)> = None;
    for token in tokens {
        match &token.token {
            Token::SingleQuotedString(more) => {
                if let Some((index, true)) = last
                    && let Some(text) = string_of(&mut whole[index].token)
                {
                    text.push_str(more);
                    whole.truncate(index + 1);
                    last = Some((index, false));
                    continue;
                }
                last = Some((whole.len(), false));
            }
            Token::EscapedStringLiteral(_) | Token::UnicodeStringLiteral(_) | Token::NationalStringLiteral(_) => {
                last = Some((whole.len(), false));
            }
            Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }) => {
                last = last.map(|(index, _)| (index, true));
            }
            Token::Whitespace(Whitespace::MultiLineComment(_)) => last = None,
            Token::Whitespace(_) => {}
            _ => last = None,
        }
        whole.push(token);
    }
    whole
}

fn string_of(token: &mut Token) -> Option<&mut String> {
    match token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
        | Token::NationalStringLiteral(text) => Some(text),
        _ => None,
    }
}

/// Changes by the index of the token where they are made.
#[derive(Default)]
struct Edits {
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
    fn insert(&mut self, index: usize, tokens: impl IntoIterator<Item = Token>) {
        self.by_index.entry(index).or_default().before.extend(tokens);
    }

    /// Whether something else stands there already.
    fn has(&self, index: usize) -> bool {
        self.by_index.get(&index).is_some_and(|edit| edit.instead.is_some())
    }

    fn replace(&mut self, index: usize, tokens: impl IntoIterator<Item = Token>) {
        self.by_index.entry(index).or_default().instead = Some(tokens.into_iter().collect());
    }

    fn applied(self, tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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

/// What is known of a pair of parentheses while it is open.
#[derive(Clone, Copy, Default)]
struct TokenLevel {
    /// Where it was opened.
    opened: usize,
    /// Whether a FROM clause is being read.
    in_from: bool,
    /// Whether it is a window's specification.
    is_window: bool,
    /// Whether its frame has begun.
    in_frame: bool,
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
        Self { tokens, words, closed, edits: Edits::default(), clauses: Clauses::default(), locks_until: 0 }
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
            None => self.edits.at_end.extend(tokens),
        }
    }

    fn replace(&mut self, at: usize, tokens: impl IntoIterator<Item = Token>) {
        self.edits.replace(self.words[at], tokens);
    }

    fn drop(&mut self, places: std::ops::Range<usize>) {
        for at in places {
            self.replace(at, []);
        }
    }

    /// The places of the parentheses around queries that begin with a parenthesis: `((SELECT 1) UNION SELECT 2)`.
    fn queries(&self) -> HashSet<Location> {
        // Inner parentheses are opened last.
        let (mut around_query, mut places) = (HashSet::new(), HashSet::new());
        for at in (0..self.words.len()).rev() {
            let Some(closed) = self.closed.get(&at) else { continue };
            if self.is_any(at + 1, &["SELECT", "WITH", "VALUES", "TABLE"]) {
                around_query.insert(at);
            } else if around_query.contains(&(at + 1)) {
                let behind = self.closed[&(at + 1)] + 1;
                let clauses = ["UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"];
                if behind == *closed || self.is_any(behind, &clauses) {
                    around_query.insert(at);
                    places.insert(self.tokens[self.words[at]].span.start);
                }
            }
        }
        places
    }

    fn walk(&mut self) {
        let mut levels = vec![TokenLevel::default()];
        let mut opens = Vec::<Open>::new();
        for at in 0..self.words.len() {
            self.duckdb(at, &mut opens);
            let last = levels.len() - 1;
            match self.token(at) {
                Token::LParen => levels.push(self.level(at)),
                Token::RParen => {
                    if last > 0 {
                        levels.pop();
                    }
                    self.search_and_cycle(at);
                }
                Token::SemiColon => levels = vec![TokenLevel::default()],
                // An operator's name may not end in a sign of arithmetic, but for this one.
                Token::CustomBinaryOperator(_) if self.is_adjacency(at) => {
                    self.replace(at, [Token::CustomBinaryOperator("-|-".to_owned())]);
                    self.drop(at + 1..at + 2);
                }
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
        match keyword {
            Keyword::FROM if !self.follows(at, &["DISTINCT"]) => level.in_from = true,
            Keyword::SELECT => {
                level.in_from = false;
                self.select(at);
            }
            Keyword::WHERE
            | Keyword::HAVING
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
            Keyword::ROWS | Keyword::RANGE | Keyword::GROUPS if level.is_window => level.in_frame = true,
            Keyword::EXCLUDE if level.in_frame => self.exclude(at, level.opened),
            Keyword::VARIADIC if at > 0 && matches!(self.token(at - 1), Token::LParen | Token::Comma) => {
                self.variadic(at, level.opened);
            }
            // substring(a SIMILAR b ESCAPE c): substring(a FROM b FOR c).
            Keyword::SIMILAR if !self.is(at + 1, "TO") && self.is_in_substring(level) => {
                self.replace(at, [word("FROM")]);
            }
            Keyword::ESCAPE if self.is_in_substring(level) => self.replace(at, [word("FOR")]),
            Keyword::LIKE if at > 0 && *self.token(at - 1) == Token::LParen => self.table_like(at),
            Keyword::TABLE => self.table(at),
            Keyword::FOR if at >= self.locks_until => self.row_locks(at),
            Keyword::FETCH => self.fetch(at),
            Keyword::USING => match self.token(at + 1) {
                Token::Lt => self.order_using(at, "ASC"),
                Token::Gt => self.order_using(at, "DESC"),
                _ => {}
            },
            Keyword::ALTER if self.begins_statement(at) => {
                self.alter(at);
                self.ignored_alter(at);
            }
            Keyword::CREATE if self.begins_statement(at) => self.ignored_create(at),
            Keyword::EXPLAIN if self.begins_statement(at) => self.ignored_explained(at),
            Keyword::COMMENT if self.begins_statement(at) => self.ignored_comment(at),
            Keyword::UESCAPE => self.unicode_escape(at),
            Keyword::SET if self.sets_an_element(at) => self.set_elements(at),
            Keyword::SET if self.begins_statement(at) && self.is(at + 1, "CONSTRAINTS") => self.maintenance(at),
            Keyword::SET | Keyword::RESET if self.begins_statement(at) => self.ignored_role(at),
            Keyword::SET | Keyword::RESTART | Keyword::DROP => self.alter_identity(at),
            Keyword::MATERIALIZED => self.materialized(at),
            Keyword::THEN if self.is(at + 1, "DO") && self.is(at + 2, "NOTHING") => self.merge_nothing(at),
            Keyword::BY if self.is(at + 1, "NAME") && self.ends_insert_target(at) => {
                self.insert_clause(at, 2, BY_NAME);
            }
            Keyword::WITH if self.is(at + 1, "NO") && self.is(at + 2, "DATA") => self.without_data(at),
            Keyword::WITH if self.is(at + 1, "DATA") && self.ends_statement(at + 2) => self.drop(at..at + 2),
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
            Keyword::VACUUM if self.begins_statement(at) => {
                let mut end = at + 1;
                while self.is_any(end, &["FULL", "FREEZE", "VERBOSE", "ANALYZE"]) || *self.token(end) == Token::LParen {
                    end = self.closed.get(&end).copied().unwrap_or(end) + 1;
                }
                self.drop(at + 1..end);
            }
            Keyword::PROCEDURE if self.names_procedure(at) => self.procedure(at),
            Keyword::DO if self.begins_statement(at) => self.do_block(at),
            Keyword::ANALYZE if self.begins_statement(at) && self.is(at + 1, "VERBOSE") => self.drop(at + 1..at + 2),
            _ if self.begins_statement(at)
                && self.is_any(at, &["CHECKPOINT", "BACKUP", "CHECK", "EXPORT", "IMPORT"]) =>
            {
                self.maintenance(at);
            }
            _ if self.begins_statement(at) && self.is_any(at, &["REINDEX", "CLUSTER"]) => self.ignored_upkeep(at),
            _ if self.is_any(at, &["DISTRIBUTED", "CLUSTERED"]) && self.is(at + 1, "BY") => self.fragments(at),
            _ if self.is(at, "REFRESH") && self.begins_statement(at) && self.is(at + 1, "MATERIALIZED") => {
                self.refresh(at);
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
            _ if self.is(at, "OVERRIDING") && self.is(at + 2, "VALUE") => match self.is(at + 1, "SYSTEM") {
                true => self.insert_clause(at, 3, OVERRIDING),
                false => self.drop(at..at + 3),
            },
            _ => {}
        }
    }

    /// `(LIKE t INCLUDING ALL EXCLUDING INDEXES)`: `(LIKE t."including …")`, with what is included.
    fn table_like(&mut self, at: usize) {
        const KINDS: [&str; 6] = ["DEFAULTS", "GENERATED", "CONSTRAINTS", "INDEXES", "IDENTITY", "COMMENTS"];
        let mut next = at + 2;
        while *self.token(next) == Token::Period {
            next += 2;
        }
        let (first, mut included) = (next, Vec::<&str>::new());
        while self.is_any(next, &["INCLUDING", "EXCLUDING"]) {
            let is_meant = |kind: &&str| self.is(next + 1, "ALL") || self.is(next + 1, kind);
            let meant = KINDS.into_iter().filter(is_meant).collect::<Vec<_>>();
            included.retain(|kind| !meant.contains(kind));
            if self.is(next, "INCLUDING") {
                included.extend(meant);
            }
            next += 2;
        }
        self.drop(first..next);
        if !included.is_empty() {
            self.insert_or_end(next, [Token::Period, quoted(&format!("{LIKE_OPTIONS}{}", included.join(" ")))]);
        }
    }

    /// Whether an UPDATE's SET has an element of a column among what it sets.
    fn sets_an_element(&self, set: usize) -> bool {
        !self.begins_statement(set)
            && self.assignments(set).iter().any(|(at, _)| *self.token(at + 1) == Token::LBracket)
    }

    /// Where the assignments behind a SET begin and end.
    fn assignments(&self, set: usize) -> Vec<(usize, usize)> {
        let (mut all, mut begin, mut at, mut depth) = (Vec::new(), set + 1, set + 1, 0_usize);
        loop {
            let ends = match self.token(at) {
                Token::LParen => {
                    at = self.closed.get(&at).copied().unwrap_or(at) + 1;
                    continue;
                }
                Token::LBracket | Token::LBrace => {
                    depth += 1;
                    false
                }
                Token::RBracket | Token::RBrace => {
                    depth = depth.saturating_sub(1);
                    false
                }
                Token::RParen | Token::SemiColon | Token::EOF => true,
                Token::Comma if depth == 0 => {
                    all.push((begin, at));
                    begin = at + 1;
                    false
                }
                Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                    Keyword::CASE => {
                        depth += 1;
                        false
                    }
                    Keyword::END => {
                        depth = depth.saturating_sub(1);
                        false
                    }
                    Keyword::FROM => depth == 0 && !self.follows(at, &["DISTINCT"]),
                    Keyword::WHERE | Keyword::RETURNING | Keyword::WHEN => depth == 0,
                    _ => false,
                },
                _ => false,
            };
            if ends {
                all.push((begin, at));
                return all;
            }
            at += 1;
        }
    }

    /// `SET a[1] = x`: `SET a = "set element"(a, 1, x)`; of `a['b']['c']`, all of the places.
    fn set_elements(&mut self, set: usize) {
        for (begin, end) in self.assignments(set) {
            let name = match self.token(begin) {
                name @ Token::Word(_) if *self.token(begin + 1) == Token::LBracket => name.clone(),
                _ => continue,
            };
            let (mut at, mut depth, mut edits) = (begin + 1, 0_usize, Vec::new());
            while at < end && !(depth == 0 && *self.token(at) == Token::Eq) {
                match self.token(at) {
                    Token::LBracket if depth == 0 => {
                        edits.push((at, if at == begin + 1 { None } else { Some(Token::Comma) }));
                        depth = 1;
                    }
                    Token::RBracket if depth == 1 => {
                        edits.push((at, None));
                        depth = 0;
                    }
                    Token::LBracket => depth += 1,
                    Token::RBracket => depth -= 1,
                    // A slice.
                    Token::Colon if depth == 1 => return,
                    _ => {}
                }
                at += 1;
            }
            if at >= end {
                continue;
            }
            for (place, instead) in edits {
                match (instead, place == begin + 1) {
                    (_, true) => {
                        let call = [Token::Eq, quoted(SET_ELEMENT), Token::LParen, name.clone(), Token::Comma];
                        self.replace(place, call);
                    }
                    (Some(comma), _) => self.replace(place, [comma]),
                    (None, _) => self.replace(place, []),
                }
            }
            self.replace(at, [Token::Comma]);
            self.insert_or_end(end, [Token::RParen]);
        }
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

    /// `FOR UPDATE OF a, b SKIP LOCKED LIMIT 1`: one clause for each name, behind LIMIT, OFFSET and FETCH.
    fn row_locks(&mut self, begin: usize) {
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

    fn ends_statement(&self, at: usize) -> bool {
        matches!(self.token(at), Token::SemiColon | Token::EOF)
    }

    /// CREATE TABLE … AS query WITH NO DATA: the query's columns, and no row.
    fn without_data(&mut self, at: usize) {
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

    /// `WHEN MATCHED … THEN DO NOTHING` and its kin.
    fn merge_nothing(&mut self, at: usize) {
        let is_clause = |when: &usize| {
            let is_negated = self.is(when + 1, "NOT");
            self.is(*when, "WHEN") && self.is(when + 1 + usize::from(is_negated), "MATCHED")
        };
        let Some(when) = (0..at).rev().find(is_clause) else { return };
        let is_new = self.is(when + 1, "NOT") && !(self.is(when + 3, "BY") && self.is(when + 4, "SOURCE"));
        let null = || word("NULL");
        let instead = match is_new {
            true => vec![
                word("INSERT"),
                Token::LParen,
                quoted(NOTHING),
                Token::RParen,
                word("VALUES"),
                Token::LParen,
                null(),
                Token::RParen,
            ],
            false => vec![word("UPDATE"), word("SET"), quoted(NOTHING), Token::Eq, null()],
        };
        self.replace(at + 1, instead);
        self.drop(at + 2..at + 3);
    }

    /// `REFRESH MATERIALIZED VIEW CONCURRENTLY v WITH NO DATA`: a call.
    fn refresh(&mut self, at: usize) {
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

    fn begins_statement(&self, at: usize) -> bool {
        at == 0 || *self.token(at - 1) == Token::SemiColon
    }

    /// What a sequence is made with, in the order in which the parser reads it.
    fn sequence_options(&mut self, begin: usize) {
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

    /// Whether the name of a table behind INTO ends here.
    fn ends_insert_target(&self, at: usize) -> bool {
        (at >= 2 && self.is(at - 2, "INTO")) || (at >= 4 && self.is(at - 4, "INTO"))
    }

    /// A clause of INSERT that the parser does not know: a partition behind columns, `PARTITION ("…")`, an alias
    /// without.
    fn insert_clause(&mut self, at: usize, words: usize, name: &str) {
        match at > 0 && *self.token(at - 1) == Token::RParen {
            true => self.replace(at, [word("PARTITION"), Token::LParen, quoted(name), Token::RParen]),
            false => self.replace(at, [word("AS"), quoted(name)]),
        }
        self.drop(at + 1..at + words);
    }

    /// SELECT of nothing from nowhere: a row without columns.
    fn select(&mut self, at: usize) {
        let ends = match self.token(at + 1) {
            Token::RParen | Token::SemiColon | Token::EOF => true,
            Token::Word(word) if word.quote_style.is_none() => matches!(
                word.keyword,
                Keyword::WHERE
                    | Keyword::UNION
                    | Keyword::INTERSECT
                    | Keyword::EXCEPT
                    | Keyword::LIMIT
                    | Keyword::OFFSET
            ),
            _ => false,
        };
        if ends {
            let rows = [Token::LParen, word("VALUES"), Token::LParen, word("NULL"), Token::RParen, Token::RParen];
            self.replace(at, [word("SELECT"), word("FROM")].into_iter().chain(rows).chain([quoted("one row")]));
        }
    }

    /// `TABLE t`: `SELECT * FROM t`, where a query begins.
    fn table(&mut self, at: usize) {
        let begins = match at.checked_sub(1) {
            None => true,
            Some(before) => {
                matches!(self.token(before), Token::LParen | Token::RParen | Token::SemiColon)
                    || self.is_any(
                        before,
                        &["UNION", "INTERSECT", "EXCEPT", "ALL", "DISTINCT", "EXPLAIN", "ANALYZE", "VERBOSE"],
                    )
            }
        };
        if !begins || !matches!(self.token(at + 1), Token::Word(_)) {
            return;
        }
        self.replace(at, [word("SELECT"), Token::Mul, word("FROM")]);
        if self.is(at + 1, "ONLY") && matches!(self.token(at + 2), Token::Word(_)) {
            self.drop(at + 1..at + 2);
        }
    }

    /// `GROUP BY DISTINCT a, b`: `GROUP BY "group by distinct"(), a, b`; `GROUP BY ALL a, b`: without ALL.
    fn group_by(&mut self, at: usize) {
        if !self.is(at + 1, "BY") {
            return;
        }
        let begins_part = match self.token(at + 3) {
            Token::LParen | Token::Number(..) => true,
            Token::Word(word) => {
                let parts = [Keyword::NoKeyword, Keyword::ROLLUP, Keyword::CUBE, Keyword::GROUPING];
                parts.contains(&word.keyword)
            }
            _ => false,
        };
        if self.is(at + 2, "DISTINCT") {
            self.replace(at + 2, calls("group by distinct").chain([Token::Comma]));
        } else if self.is(at + 2, "ALL") && begins_part {
            self.drop(at + 2..at + 3);
        }
    }

    /// EXCLUDE in a window's frame: a first part of PARTITION BY.
    /// VARIADIC in front of a call's last argument.
    fn variadic(&mut self, at: usize, opened: usize) {
        if let Some(&closed) = self.closed.get(&opened) {
            self.replace(at, [quoted("variadic array"), Token::LParen]);
            self.insert(closed, [Token::RParen]);
        }
    }

    fn exclude(&mut self, at: usize, opened: usize) {
        let (name, words) = if self.is(at + 1, "CURRENT") && self.is(at + 2, "ROW") {
            ("exclude current row", 3)
        } else if self.is(at + 1, "NO") && self.is(at + 2, "OTHERS") {
            ("exclude no others", 3)
        } else if self.is(at + 1, "GROUP") {
            ("exclude group", 2)
        } else if self.is(at + 1, "TIES") {
            ("exclude ties", 2)
        } else {
            return;
        };
        self.drop(at..at + words);
        let mut first = opened + 1;
        let is_clause = self.is_any(first, &["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"]);
        if !is_clause && matches!(self.token(first), Token::Word(_)) {
            // The window that it builds upon.
            first += 1;
        }
        if self.is(first, "PARTITION") && self.is(first + 1, "BY") {
            self.insert(first + 2, calls(name).chain([Token::Comma]));
        } else {
            self.insert(first, [word("PARTITION"), word("BY")].into_iter().chain(calls(name)));
        }
    }

    /// `LIMIT 50 %` and `LIMIT 50 PERCENT`: LIMIT of a call.
    fn limit_percent(&mut self, at: usize) {
        let count = at + 1;
        let end = match self.token(count) {
            Token::LParen => self.closed.get(&count).map_or(count, |closed| closed + 1),
            Token::Number(..) | Token::Placeholder(_) => count + 1,
            _ => return,
        };
        let behind = self.token(end + 1);
        let ends = matches!(behind, Token::EOF | Token::SemiColon | Token::RParen) || self.is(end + 1, "OFFSET");
        if ends && (*self.token(end) == Token::Mod || self.is(end, "PERCENT")) {
            self.insert(count, [quoted(LIMIT_PERCENT), Token::LParen]);
            self.replace(end, [Token::RParen]);
        }
    }

    /// `FETCH FIRST n ROWS ONLY`: LIMIT, which may stand in front of OFFSET and takes any expression.
    fn fetch(&mut self, at: usize) {
        let begins = at == 0 || *self.token(at - 1) == Token::SemiColon;
        if begins || !self.is_any(at + 1, &["FIRST", "NEXT"]) {
            return;
        }
        let count = at + 2;
        let end = match self.token(count) {
            Token::LParen => self.closed.get(&count).map_or(count, |closed| closed + 1),
            Token::Plus | Token::Minus => count + 2,
            _ if self.is_any(count, &["ROW", "ROWS"]) => count,
            _ => count + 1,
        };
        if !self.is_any(end, &["ROW", "ROWS"]) || !self.is(end + 1, "ONLY") {
            return;
        }
        self.replace(at, [word("LIMIT")]);
        self.drop(at + 1..at + 2);
        if end == count {
            self.insert(end, [Token::Number("1".to_owned(), false)]);
        }
        self.drop(end..end + 2);
    }

    /// `ORDER BY a USING <`: ASC.
    fn order_using(&mut self, at: usize, direction: &str) {
        self.replace(at, [word(direction)]);
        self.drop(at + 1..at + 2);
    }

    /// `AS [NOT] MATERIALIZED (…)`.
    fn materialized(&mut self, at: usize) {
        let Some(closed) = self.closed.get(&(at + 1)).copied() else { return };
        let (materialized, first) = match self.follows(at, &["NOT"]) {
            true => (CteAsMaterialized::NotMaterialized, at - 1),
            false => (CteAsMaterialized::Materialized, at),
        };
        if self.follows(first, &["AS"]) {
            self.clauses.at(&self.tokens[self.words[closed]]).materialized = Some(materialized);
            self.drop(first..at + 1);
        }
    }

    /// `SEARCH DEPTH FIRST BY a, b SET s` and `CYCLE a SET m TO v DEFAULT w USING p` behind a common table expression.
    fn search_and_cycle(&mut self, closed: usize) {
        let mut at = closed + 1;
        let mut settings = Vec::new();
        if let Some((setting, next)) = self.search(at) {
            settings.push(setting);
            at = next;
        }
        if let Some((setting, next)) = self.cycle(at) {
            settings.push(setting);
            at = next;
        }
        if !settings.is_empty() {
            self.clauses.at(&self.tokens[self.words[closed]]).settings.extend(settings);
            self.drop(closed + 1..at);
        }
    }

    /// SEARCH, and where it ends.
    fn search(&self, at: usize) -> Option<(Setting, usize)> {
        let name = match (self.is(at + 1, "DEPTH"), self.is(at + 1, "BREADTH")) {
            (true, _) => "search depth",
            (_, true) => "search breadth",
            _ => return None,
        };
        if !self.is(at, "SEARCH") || !self.is(at + 2, "FIRST") || !self.is(at + 3, "BY") {
            return None;
        }
        let (mut parts, next) = self.columns(at + 4)?;
        parts.push(self.name(next)?);
        Some((setting(name, parts), next + 1))
    }

    /// CYCLE, and where it ends.
    fn cycle(&self, at: usize) -> Option<(Setting, usize)> {
        if !self.is(at, "CYCLE") {
            return None;
        }
        let (columns, next) = self.columns(at + 1)?;
        let mark = self.name(next)?;
        let mut next = next + 1;
        let (mut yes, mut no) = (literal(&[word("TRUE")])?, literal(&[word("FALSE")])?);
        if self.is(next, "TO") {
            let default = self.find(next, "DEFAULT")?;
            let using = self.find(default, "USING")?;
            (yes, no) = (literal(&self.between(next, default))?, literal(&self.between(default, using))?);
            next = using;
        }
        if !self.is(next, "USING") {
            return None;
        }
        let path = self.name(next + 1)?;
        Some((setting("cycle", vec![Expr::Tuple(columns), mark, yes, no, path]), next + 2))
    }

    /// Names with commas between them, up to SET, and what is behind it.
    fn columns(&self, mut at: usize) -> Option<(Vec<Expr>, usize)> {
        let mut columns = vec![self.name(at)?];
        at += 1;
        while *self.token(at) == Token::Comma {
            columns.push(self.name(at + 1)?);
            at += 2;
        }
        self.is(at, "SET").then_some((columns, at + 1))
    }

    fn name(&self, at: usize) -> Option<Expr> {
        match self.token(at) {
            Token::Word(word) => Some(Expr::Identifier(word.to_ident(self.tokens[self.words[at]].span))),
            _ => None,
        }
    }

    /// Where a word stands behind a literal, which has few tokens.
    fn find(&self, at: usize, name: &str) -> Option<usize> {
        const LITERAL_TOKENS_MAX: usize = 16;
        (at + 1..=at + LITERAL_TOKENS_MAX).find(|at| self.is(*at, name))
    }

    /// The tokens between two words.
    fn between(&self, from: usize, to: usize) -> Vec<Token> {
        (from + 1..to).map(|at| self.token(at).clone()).collect()
    }
}

/// The value that some tokens alone are.
fn literal(tokens: &[Token]) -> Option<Expr> {
    let dialect = PostgresSyntax::default();
    let mut parser = Parser::new(&dialect).with_tokens(tokens.to_vec());
    let expression = parser.parse_expr().ok()?;
    (parser.peek_token_ref().token == Token::EOF).then_some(expression)
}

fn setting(name: &str, parts: Vec<Expr>) -> Setting {
    Setting { key: Ident::with_quote('"', name), value: Expr::Tuple(parts) }
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
