//! Cursors in a body: their declarations, and OPEN, FETCH, MOVE and CLOSE.

use diligence_base::{Error, Result};

use super::Reader;
use crate::procedural::words::Kind;
use crate::procedural::{Computed, CursorStep, CursorWay, Declaration, DeclaredType, Rows, Step};

impl Reader<'_> {
    /// `c [[NO] SCROLL] CURSOR [(a t, …)] FOR query`, behind its name; `None` if it is another declaration.
    pub(super) fn cursor(&mut self, name: &str) -> Result<Option<Declaration>> {
        let begin = self.at;
        let _ = self.skip("no");
        let _ = self.skip("scroll");
        if !self.skip("cursor") {
            self.at = begin;
            return Ok(None);
        }
        let mut parameters = Vec::new();
        if self.skip("(") {
            loop {
                let parameter = self.name()?;
                let end = self.end_at(&[",", ")"])?;
                parameters.push((parameter, self.written(self.at, end)));
                self.at = end;
                if !self.skip(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if !self.skip("for") {
            self.expect("is")?;
        }
        let query = self.until(&[";"])?;
        self.expect(";")?;
        self.cursors.push(name.to_owned());
        let of = DeclaredType::Cursor { parameters, query };
        Ok(Some(Declaration { name: name.to_owned(), of, is_constant: false, is_required: false, default: None }))
    }

    /// The arguments of a cursor, in parentheses: `(1, b := 2)`.
    pub(super) fn cursor_arguments(&mut self) -> Result<Vec<(Option<String>, crate::procedural::Sql)>> {
        let mut arguments = Vec::new();
        if !self.skip("(") {
            return Ok(arguments);
        }
        while !self.skip(")") {
            let is_named = self.is_at(self.at + 1, ":=") || self.is_at(self.at + 1, "=>");
            let name = if is_named { Some(self.name()?) } else { None };
            self.at += usize::from(is_named);
            arguments.push((name, self.until(&[",", ")"])?));
            let _ = self.skip(",");
        }
        Ok(arguments)
    }

    /// Whether the word that comes names a cursor of a block around, with arguments or alone before LOOP.
    pub(super) fn comes_cursor(&self) -> bool {
        let named = match self.peek().map(|word| &word.kind) {
            Some(Kind::Name(name) | Kind::Quoted(name)) => self.cursors.contains(name),
            _ => false,
        };
        named && (self.is_at(self.at + 1, "loop") || self.is_at(self.at + 1, "("))
    }

    /// OPEN, FETCH, MOVE and CLOSE, behind the word.
    pub(super) fn cursor_step(&mut self, keyword: &str) -> Result<Step> {
        Ok(Step::Cursor(match keyword {
            "open" => {
                let name = self.name()?;
                let _ = self.skip("no");
                let _ = self.skip("scroll");
                let rows = match self.skip("for") {
                    false => None,
                    true if self.skip("execute") => {
                        let text = self.until(&["using", ";"])?;
                        Some(Rows::Computed(Computed { text, using: self.using()? }))
                    }
                    true => Some(Rows::Of(self.until(&[";"])?)),
                };
                let arguments = if rows.is_none() { self.cursor_arguments()? } else { vec![] };
                CursorStep::Open { name, arguments, rows }
            }
            "close" => CursorStep::Close { name: self.name()? },
            _ => {
                let way = self.cursor_way()?;
                let name = self.name()?;
                if keyword == "move" {
                    return Ok(Step::Cursor(CursorStep::Move { name, way }));
                }
                if matches!(way, CursorWay::All | CursorWay::AllBackward) {
                    let error = Error::input("FETCH statement cannot return multiple rows").with_code("42601");
                    return Err(error.with_hint("FOR row IN cursor LOOP reads all rows"));
                }
                self.expect("into")?;
                CursorStep::Fetch { name, way, into: self.into()? }
            }
        }))
    }

    /// Where FETCH and MOVE go, with FROM or IN behind.
    fn cursor_way(&mut self) -> Result<CursorWay> {
        let begin = self.at;
        let way = if self.skip("next") {
            CursorWay::By(None, 1)
        } else if self.skip("prior") {
            CursorWay::By(None, -1)
        } else if self.skip("first") {
            CursorWay::First
        } else if self.skip("last") {
            CursorWay::Last
        } else if self.skip("absolute") {
            CursorWay::To(self.until(&["from", "in"])?)
        } else if self.skip("relative") {
            CursorWay::By(Some(self.until(&["from", "in"])?), 1)
        } else if self.is("forward") || self.is("backward") {
            let sign = if self.skip("forward") { 1 } else { -1 };
            let _ = sign < 0 && self.skip("backward");
            match () {
                () if self.skip("all") && sign > 0 => CursorWay::All,
                () if self.is_at(self.at.wrapping_sub(1), "all") => CursorWay::AllBackward,
                () if self.is("from") || self.is("in") => CursorWay::By(None, sign),
                () if self.is_at(self.at + 1, "into") || self.is_at(self.at + 1, ";") => CursorWay::By(None, sign),
                () => CursorWay::By(Some(self.until(&["from", "in"])?), sign),
            }
        } else if self.skip("all") {
            CursorWay::All
        } else if self.is_at(self.at + 1, "from") || self.is_at(self.at + 1, "in") {
            CursorWay::By(Some(self.until(&["from", "in"])?), 1)
        } else {
            CursorWay::By(None, 1)
        };
        // A cursor may be called like one of the words.
        if self.at > begin && (self.is("into") || self.is(";")) {
            self.at = begin;
            return Ok(CursorWay::By(None, 1));
        }
        let _ = self.skip("from") || self.skip("in");
        Ok(way)
    }
}
