//! Macros with several bodies, with parameters that have types, and IF NOT EXISTS. Their bodies become texts:
//!
//! * `CREATE MACRO f(a) AS a, (a, b integer := 2) AS a + b`: `CREATE MACRO f() AS "macro bodies"(FALSE, "macro
//!   body"('a', 'a', '', ''), "macro body"('a + b', 'a', '', '', 'b', 'integer', '2'))`; TRUE is IF NOT EXISTS, and the
//!   three texts of a parameter are its name, its type and its default;
//! * CREATE FUNCTION of such bodies: CREATE MACRO;
//! * `CREATE MACRO f AS 1`: `CREATE MACRO f() AS 1`.

use std::ops::Range;

use diligence_catalog::{MACRO_BODIES, MACRO_BODY};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::atomic::written;
use super::{quoted, word};

/// The statement that stands for one of these; `None` if it is another.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_blank = |token: &Token| matches!(token, Token::Whitespace(_));
    // Most statements are known by their first word.
    let first = tokens.iter().find(|token| !is_blank(&token.token)).filter(|first| is(&first.token, "CREATE"))?.span;
    let ends = |token: &TokenWithSpan| matches!(token.token, Token::SemiColon | Token::EOF);
    let end = tokens.iter().position(ends).unwrap_or(tokens.len());
    let words = (0..end).filter(|at| !is_blank(&tokens[*at].token)).collect();
    let text = MacroWords { tokens, words };
    let made = text.rewritten()?;
    let behind = tokens[end..].iter().cloned();
    Some(made.into_iter().map(|token| TokenWithSpan { token, span: first }).chain(behind).collect())
}

fn is(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

/// A statement's tokens. Places are indexes of `words`.
struct MacroWords<'a> {
    tokens: &'a [TokenWithSpan],
    /// Where what is no blank stands.
    words: Vec<usize>,
}

/// A body with its parameters.
struct Body {
    parameters: Vec<Parameter>,
    text: String,
}

struct Parameter {
    name: String,
    type_name: String,
    default: String,
}

impl MacroWords<'_> {
    fn token(&self, at: usize) -> &Token {
        self.words.get(at).map_or(&Token::EOF, |index| &self.tokens[*index].token)
    }

    fn is(&self, at: usize, name: &str) -> bool {
        is(self.token(at), name)
    }

    fn rewritten(&self) -> Option<Vec<Token>> {
        let mut at = if self.is(1, "OR") && self.is(2, "REPLACE") { 3 } else { 1 };
        at += usize::from(self.is(at, "TEMP") || self.is(at, "TEMPORARY"));
        let (kind, is_function) = (at, self.is(at, "FUNCTION"));
        if !is_function && !self.is(at, "MACRO") {
            return None;
        }
        let is_unless_there = self.is(at + 1, "IF") && self.is(at + 2, "NOT") && self.is(at + 3, "EXISTS");
        let name = at + 1 + if is_unless_there { 3 } else { 0 };
        let behind = self.name_end(name)?;
        let bodies = self.bodies(behind)?;
        let is_bare = *self.token(behind) != Token::LParen;
        let is_typed = bodies.iter().flat_map(|body| &body.parameters).any(|parameter| !parameter.type_name.is_empty());
        // A function of PostgreSQL's has a text as its body, or none of these.
        let begin = if is_bare { behind + 1 } else { self.closing(behind)? + 2 };
        let is_text = matches!(
            self.token(begin),
            Token::SingleQuotedString(_) | Token::DollarQuotedString(_) | Token::EscapedStringLiteral(_)
        );
        if is_function && bodies.len() == 1 && (is_bare || is_text || !is_typed && !is_unless_there) {
            return None;
        }
        let mut made = (0..kind).map(|at| self.token(at).clone()).collect::<Vec<_>>();
        made.push(word("MACRO"));
        made.extend((name..behind).map(|at| self.token(at).clone()));
        if bodies.len() > 1 || is_typed || is_unless_there {
            made.extend([Token::LParen, Token::RParen, word("AS"), quoted(MACRO_BODIES), Token::LParen]);
            made.push(word(if is_unless_there { "TRUE" } else { "FALSE" }));
            made.extend(bodies.into_iter().flat_map(|body| body.into_call()));
            made.push(Token::RParen);
            return Some(made);
        }
        if !is_bare {
            return None;
        }
        made.extend([Token::LParen, Token::RParen]);
        made.extend(self.tokens_between(behind..self.words.len()).cloned());
        Some(made)
    }

    /// The place behind a name.
    fn name_end(&self, mut at: usize) -> Option<usize> {
        loop {
            if !matches!(self.token(at), Token::Word(_)) {
                return None;
            }
            at += 1;
            if *self.token(at) != Token::Period {
                return Some(at);
            }
            at += 1;
        }
    }

    /// The bodies from a place on; `None` if it is no list of bodies.
    fn bodies(&self, mut at: usize) -> Option<Vec<Body>> {
        let mut bodies = Vec::new();
        loop {
            let (parameters, told) = match self.token(at) {
                Token::LParen => {
                    let closed = self.closing(at)?;
                    (self.parameters(at + 1..closed)?, closed + 1)
                }
                _ if bodies.is_empty() => (vec![], at),
                _ => return None,
            };
            if !self.is(told, "AS") {
                return None;
            }
            let begin = told + 1;
            let end = self.body_end(begin);
            bodies.push(Body { parameters, text: self.text(begin..end) });
            if end == self.words.len() {
                return Some(bodies);
            }
            at = end + 1;
        }
    }

    /// Where a body ends that begins at a place: at the comma in front of the next body, or with the statement.
    fn body_end(&self, begin: usize) -> usize {
        let (mut at, gives_rows) = (begin, self.is(begin, "TABLE"));
        let mut depth = 0_usize;
        while at < self.words.len() {
            match self.token(at) {
                Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 && *self.token(at + 1) == Token::LParen => {
                    // `(a, b) AS c` may be an item of a SELECT list, `(a, b) AS TABLE` is none.
                    let told = self.closing(at + 1).map(|closed| closed + 1).filter(|told| self.is(*told, "AS"));
                    if told.is_some_and(|told| !gives_rows || self.is(told + 1, "TABLE")) {
                        return at;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// The place of the parenthesis that closes one.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in open..self.words.len() {
            match self.token(at) {
                Token::LParen => depth += 1,
                Token::RParen if depth == 1 => return Some(at),
                Token::RParen => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }

    /// The parameters between two places: `a`, `a integer`, `a := 1`, `a integer := 1`.
    fn parameters(&self, places: Range<usize>) -> Option<Vec<Parameter>> {
        let (mut parameters, mut at) = (Vec::new(), places.start);
        while at < places.end {
            let Token::Word(name) = self.token(at) else { return None };
            let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            let (mut end, mut given, mut depth) = (at + 1, None, 0_usize);
            while end < places.end {
                match self.token(end) {
                    Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                    Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
                    Token::Comma if depth == 0 => break,
                    Token::Assignment | Token::RArrow if depth == 0 && given.is_none() => given = Some(end),
                    _ => {}
                }
                end += 1;
            }
            let type_name = self.text(at + 1..given.unwrap_or(end));
            let default = given.map(|given| self.text(given + 1..end)).unwrap_or_default();
            parameters.push(Parameter { name, type_name, default });
            at = end + 1;
        }
        Some(parameters)
    }

    fn tokens_between(&self, places: Range<usize>) -> impl Iterator<Item = &Token> {
        let indexes = match places.is_empty() {
            true => 0..0,
            false => self.words[places.start]..self.words[places.end - 1] + 1,
        };
        self.tokens[indexes].iter().map(|token| &token.token)
    }

    /// What stands between two places, as a text.
    fn text(&self, places: Range<usize>) -> String {
        self.tokens_between(places).map(written).collect()
    }
}

impl Body {
    /// `, "macro body"('…', …)`.
    fn into_call(self) -> Vec<Token> {
        let mut call = vec![Token::Comma, quoted(MACRO_BODY), Token::LParen, Token::SingleQuotedString(self.text)];
        for parameter in self.parameters {
            for text in [parameter.name, parameter.type_name, parameter.default] {
                call.extend([Token::Comma, Token::SingleQuotedString(text)]);
            }
        }
        call.push(Token::RParen);
        call
    }
}
