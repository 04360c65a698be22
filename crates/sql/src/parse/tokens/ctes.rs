//! What stands outside of a common table expression's query: MATERIALIZED, SEARCH and CYCLE.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{CteAsMaterialized, Expr, Ident, Query, Setting, VisitorMut};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::super::dialect::PostgresSyntax;
use super::{Text, word};

/// MATERIALIZED, SEARCH and CYCLE by the place of the parenthesis that closes the common table expression.
#[derive(Default)]
pub(in crate::parse) struct Clauses(HashMap<Location, CteClauses>);

#[derive(Default)]
pub(super) struct CteClauses {
    materialized: Option<CteAsMaterialized>,
    settings: Vec<Setting>,
}

impl Clauses {
    /// Whether there is nothing to put into the tree.
    pub(in crate::parse) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn at(&mut self, closing: &TokenWithSpan) -> &mut CteClauses {
        self.0.entry(closing.span.start).or_default()
    }
}

impl VisitorMut for Clauses {
    type Break = ();

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

impl Text<'_> {
    /// `AS [NOT] MATERIALIZED (…)`.
    pub(super) fn materialized(&mut self, at: usize) {
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
    pub(super) fn search_and_cycle(&mut self, closed: usize) {
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
