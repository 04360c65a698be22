//! Elements of arrays and members of JSON that an UPDATE sets, and an INSERT.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{Text, quoted};

/// The function that gives a value with another element: of the value, the places and the element.
pub(crate) const SET_ELEMENT: &str = "set element";
/// The same for a part of an array: of the value, the first place, the last one and the new part. A place that is left
/// out is 1, or the array's end.
pub(crate) const SET_PART: &str = "set part";
/// What stands in front of the place of an element that INSERT sets, which is a field in the parser's tree.
pub(crate) const ELEMENT: &str = "element \u{1}";

impl Text<'_> {
    /// Whether an UPDATE's SET has an element of a column among what it sets.
    pub(super) fn sets_an_element(&self, set: usize) -> bool {
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

    /// `SET a[1:2] = x`: `SET a = "set part"(a, 1, 2, x)`. Whether there is a slice from `begin` to `end`.
    fn set_part(&mut self, name: &Token, begin: usize, end: usize) -> bool {
        let (mut depth, mut colon, mut closed) = (0_usize, None, None);
        for at in begin + 1..end {
            match self.token(at) {
                Token::LBracket | Token::LParen => depth += 1,
                Token::RBracket | Token::RParen => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        closed = Some(at);
                        break;
                    }
                }
                Token::Colon if depth == 1 && colon.is_none() => colon = Some(at),
                _ => {}
            }
        }
        let (Some(colon), Some(closed)) = (colon, closed) else { return false };
        if *self.token(closed + 1) != Token::Eq {
            return false;
        }
        let call = [Token::Eq, quoted(SET_PART), Token::LParen, name.clone(), Token::Comma];
        self.replace(begin + 1, call);
        let number = |number: i32| Token::Number(number.to_string(), false);
        if colon == begin + 2 {
            self.insert(colon, [number(1)]);
        }
        self.replace(colon, [Token::Comma]);
        if closed == colon + 1 {
            self.insert(closed, [number(i32::MAX)]);
        }
        self.replace(closed, []);
        self.replace(closed + 1, [Token::Comma]);
        self.insert_or_end(end, [Token::RParen]);
        true
    }

    /// `SET a[1] = x`: `SET a = "set element"(a, 1, x)`; of `a['b']['c']`, all of the places.
    pub(super) fn set_elements(&mut self, set: usize) {
        for (begin, end) in self.assignments(set) {
            let name = match self.token(begin) {
                name @ Token::Word(_) if *self.token(begin + 1) == Token::LBracket => name.clone(),
                _ => continue,
            };
            if self.set_part(&name, begin, end) {
                continue;
            }
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

    /// `INSERT INTO t (a[1], a[2])`: `INSERT INTO t (a."element 1", a."element 2")`, from the name of the table on.
    pub(super) fn inserted_elements(&mut self, table: usize) {
        let mut opened = table + 1;
        while *self.token(opened) == Token::Period {
            opened += 2;
        }
        if self.is(opened, "AS") {
            opened += 2;
        }
        if *self.token(opened) != Token::LParen || self.is_any(opened + 1, &["SELECT", "WITH", "VALUES", "TABLE"]) {
            return;
        }
        let Some(closed) = self.closed.get(&opened).copied() else { return };
        let mut at = opened + 1;
        while at < closed {
            if *self.token(at) != Token::LBracket {
                at += 1;
                continue;
            }
            let is_negative = *self.token(at + 1) == Token::Minus;
            let place = at + 1 + usize::from(is_negative);
            let written = match self.token(place) {
                Token::Number(digits, _) if is_negative => format!("-{digits}"),
                Token::Number(digits, _) => digits.clone(),
                Token::SingleQuotedString(member) => format!("'{}'", member.replace('\'', "''")),
                _ => return,
            };
            if *self.token(place + 1) != Token::RBracket {
                return;
            }
            self.replace(at, [Token::Period, quoted(&format!("{ELEMENT}{written}"))]);
            self.drop(at + 1..place + 2);
            at = place + 2;
        }
    }
}
