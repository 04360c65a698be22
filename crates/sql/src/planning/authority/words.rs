//! A statement's tokens as they come: words, names, texts, numbers.

use crate::quoting::{literal, quoted};
use diligence_base::{Error, Result};
use sqlparser::ast;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Word(String),
    Quoted(String),
    Text(String),
    Number(String),
    Sign(String),
}

/// A statement's tokens, read from the first on.
#[derive(Clone, Debug)]
pub(in crate::planning) struct Words {
    parts: Vec<Part>,
    at: usize,
    /// Those of the whole statement.
    all: Vec<Part>,
}

impl Words {
    /// Those of the call that stands for a statement.
    pub(in crate::planning) fn of(call: &ast::Function) -> Self {
        let list = match &call.args {
            ast::FunctionArguments::List(list) => list.args.as_slice(),
            _ => &[],
        };
        let texts = list.iter().filter_map(|argument| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value))) => match &value.value {
                ast::Value::SingleQuotedString(text) => text.split_at_checked(2),
                _ => None,
            },
            _ => None,
        });
        let parts = texts.map(|(kind, text)| {
            let text = text.to_owned();
            match kind {
                "w:" => Part::Word(text),
                "q:" => Part::Quoted(text),
                "s:" => Part::Text(text),
                "n:" => Part::Number(text),
                _ => Part::Sign(text),
            }
        });
        let parts = parts.collect::<Vec<_>>();
        Self { all: parts.clone(), parts, at: 0 }
    }

    /// Whether these words come next; they are passed if so.
    pub(in crate::planning) fn take(&mut self, words: &[&str]) -> bool {
        let comes = self.come(words);
        if comes {
            self.at += words.len();
        }
        comes
    }

    /// Whether these words come next.
    pub(in crate::planning) fn come(&self, words: &[&str]) -> bool {
        let is = |(place, word): (usize, &&str)| match self.parts.get(self.at + place) {
            Some(Part::Word(known) | Part::Sign(known)) => known == word,
            _ => false,
        };
        words.iter().enumerate().all(is)
    }

    /// What comes before this word, and what behind it, which are read on their own.
    pub(in crate::planning) fn split_at_last(&self, word: &str) -> Option<(Self, Self)> {
        let is_it = |part: &Part| *part == Part::Word(word.to_owned());
        let found = self.parts.iter().rposition(is_it).filter(|place| *place >= self.at)?;
        let before = Self { parts: self.parts[..found].to_vec(), at: self.at, all: self.all.clone() };
        Some((before, Self { parts: self.parts.clone(), at: found + 1, all: self.all.clone() }))
    }

    /// All of it, from the first word on.
    pub(in crate::planning) fn whole(&self) -> Self {
        Self { parts: self.all.clone(), at: 0, all: self.all.clone() }
    }

    /// Whether this is the last word, which is left out then.
    pub(in crate::planning) fn take_last(&mut self, word: &str) -> bool {
        let is_it = self.parts.last() == Some(&Part::Word(word.to_owned())) && self.parts.len() > self.at;
        if is_it {
            self.parts.pop();
        }
        is_it
    }

    pub(in crate::planning) fn is_end(&self) -> bool {
        self.at >= self.parts.len()
    }

    /// Fails with 42601 if anything comes.
    pub(in crate::planning) fn end(&self) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.wrong()) }
    }

    /// Fails with 42601 unless these words come.
    pub(in crate::planning) fn expect(&mut self, words: &[&str]) -> Result<()> {
        if self.take(words) { Ok(()) } else { Err(self.wrong()) }
    }

    /// The error for what comes next.
    pub(in crate::planning) fn wrong(&self) -> Error {
        match self.parts.get(self.at) {
            None => Error::input("syntax error at end of input").with_code("42601"),
            Some(part) => Error::input(format!("syntax error at or near \"{}\"", part.text())).with_code("42601"),
        }
    }

    /// A word as it is written, in lower case.
    pub(in crate::planning) fn word(&mut self) -> Result<String> {
        match self.parts.get(self.at) {
            Some(Part::Word(word)) => {
                self.at += 1;
                Ok(word.clone())
            }
            _ => Err(self.wrong()),
        }
    }

    /// A name, and whether it stands in quotes.
    pub(in crate::planning) fn name(&mut self) -> Result<(String, bool)> {
        let name = match self.parts.get(self.at) {
            Some(Part::Word(name)) => (name.clone(), false),
            Some(Part::Quoted(name)) => (name.clone(), true),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(name)
    }

    pub(in crate::planning) fn text(&mut self) -> Result<String> {
        match self.parts.get(self.at) {
            Some(Part::Text(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => Err(self.wrong()),
        }
    }

    pub(in crate::planning) fn number(&mut self) -> Result<i64> {
        let is_negative = self.take(&["-"]);
        match self.parts.get(self.at) {
            Some(Part::Number(number)) => {
                let number: i64 = number.parse().map_err(|_| self.wrong())?;
                self.at += 1;
                Ok(if is_negative { -number } else { number })
            }
            _ => Err(self.wrong()),
        }
    }

    /// A name with dots in it.
    pub(in crate::planning) fn object(&mut self) -> Result<ast::ObjectName> {
        let mut parts = Vec::new();
        loop {
            parts.push(ast::Ident::with_quote('"', self.name()?.0));
            if !self.take(&["."]) {
                return Ok(ast::ObjectName::from(parts));
            }
        }
    }

    /// A value of a setting: a text, a number or a name. Fails with 42601 if something else comes.
    pub(in crate::planning) fn value(&mut self) -> Result<ast::Expr> {
        let is_negative = self.take(&["-"]);
        let value = match self.parts.get(self.at) {
            Some(Part::Number(number)) if is_negative => ast::Value::Number(format!("-{number}"), false),
            Some(Part::Number(number)) => ast::Value::Number(number.clone(), false),
            Some(Part::Text(text)) if !is_negative => ast::Value::SingleQuotedString(text.clone()),
            _ if is_negative => return Err(self.wrong()),
            _ => {
                let (name, is_quoted) = self.name()?;
                return Ok(ast::Expr::Identifier(match is_quoted {
                    true => ast::Ident::with_quote('"', name),
                    false => ast::Ident::new(name),
                }));
            }
        };
        self.at += 1;
        Ok(ast::Expr::Value(value.into()))
    }

    /// What comes, one after the other with commas between.
    pub(in crate::planning) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.take(&[","]) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// What stands in parentheses next, as it is written; nothing, if none come.
    pub(in crate::planning) fn parenthesized(&mut self) -> Option<String> {
        if !self.take(&["("]) {
            return None;
        }
        let (mut text, mut depth) = (Vec::new(), 1);
        while let Some(part) = self.parts.get(self.at) {
            self.at += 1;
            match part {
                Part::Sign(sign) if sign == "(" => depth += 1,
                Part::Sign(sign) if sign == ")" => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
            text.push(part.text());
        }
        Some(text.join(" "))
    }

    /// What SET and RESET of a role or of the database say: a setting, or all, and its value, or its own default.
    pub(in crate::planning) fn setting_change(&mut self) -> Result<(Option<String>, Option<String>)> {
        let resets = self.take(&["reset"]);
        if resets && self.take(&["all"]) {
            return Ok((None, None));
        }
        if !resets {
            self.expect(&["set"])?;
        }
        let mut setting = self.name()?.0;
        while self.take(&["."]) {
            setting = format!("{setting}.{}", self.name()?.0);
        }
        if resets {
            return Ok((Some(setting), None));
        }
        if !self.take(&["to"]) && !self.take(&["="]) || self.is_end() {
            return Err(self.wrong());
        }
        let is_default = self.take(&["default"]);
        Ok((Some(setting), if is_default { None } else { Some(self.rest()) }))
    }

    /// All that comes, as values of a setting.
    pub(in crate::planning) fn rest(&mut self) -> String {
        let rest = self.parts.get(self.at..).unwrap_or_default().iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            other => other.text(),
        });
        let rest = rest.collect::<Vec<_>>().join(" ").replace(" ,", ",");
        self.at = self.parts.len();
        // A number less than 0 is two parts.
        match rest.strip_prefix("- ") {
            Some(number) => format!("-{number}"),
            None => rest,
        }
    }
}

impl Part {
    fn text(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Sign(text) => text.clone(),
            Self::Quoted(name) => quoted(name),
            Self::Text(text) => literal(text),
        }
    }
}
