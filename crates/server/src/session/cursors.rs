//! DECLARE, FETCH and MOVE, read.

use diligence_db::CursorWay;

use super::tokens::{Placed, Token, name};

/// DECLARE of a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What it reads.
    pub query: String,
    /// The whole statement.
    pub statement: String,
    /// Whether it goes back.
    pub is_scroll: bool,
    /// Whether it only goes forward, whatever its query is: NO SCROLL.
    pub is_forward: bool,
    /// Whether it outlives its transaction.
    pub is_holdable: bool,
    /// Whether its rows are sent in binary form.
    pub is_binary: bool,
}

/// DECLARE. Fails with what it should have said.
pub(super) fn declare(sql: &str, tokens: &[Placed<'_>]) -> Result<Declared, String> {
    let is = |token: &Token<'_>, word: &str| matches!(token, Token::Word(found) if found.eq_ignore_ascii_case(word));
    let mut declared = Declared { name: name(tokens, 1)?, statement: sql.trim().to_owned(), ..Declared::default() };
    let place = tokens.iter().skip(2).position(|(token, _)| is(token, "FOR")).ok_or("expected FOR and a query")?;
    let between = &tokens[2..2 + place];
    let before = |at: usize, word: &str| at > 0 && is(&between[at - 1].0, word);
    for (at, (token, _)) in between.iter().enumerate() {
        if is(token, "SCROLL") {
            declared.is_forward = before(at, "NO");
            declared.is_scroll = !declared.is_forward;
        } else if is(token, "HOLD") {
            declared.is_holdable = before(at, "WITH");
        } else if is(token, "BINARY") {
            declared.is_binary = true;
        } else if !["NO", "WITH", "WITHOUT", "CURSOR", "INSENSITIVE", "ASENSITIVE"].iter().any(|word| is(token, word)) {
            return Err(
                "expected DECLARE name [BINARY] [INSENSITIVE] [NO SCROLL] CURSOR [WITH HOLD] FOR query".to_owned()
            );
        }
    }
    declared.query = sql[tokens[2 + place].1 + 3..].trim().to_owned();
    Ok(declared)
}

/// Where which cursor goes, by FETCH or MOVE. Fails with what was expected.
pub(super) fn fetch(tokens: &[Placed<'_>]) -> Result<(CursorWay, String), String> {
    let word = |at: usize| match tokens.get(at) {
        Some((Token::Word(word), _)) => word.to_ascii_uppercase(),
        _ => String::new(),
    };
    // A number, and where what follows it begins.
    let number = |at: usize| -> Result<Option<(i64, usize)>, String> {
        let symbol = |at: usize| match tokens.get(at) {
            Some((Token::Symbol(symbol), _)) => Some(*symbol),
            _ => None,
        };
        let (sign, at) = match symbol(at) {
            Some("-") => (-1, at + 1),
            Some("+") => (1, at + 1),
            _ => (1, at),
        };
        let Some(digits) = symbol(at).filter(|symbol| *symbol != ";") else { return Ok(None) };
        let number: i64 = digits.parse().map_err(|_| "expected a number of rows".to_owned())?;
        Ok(Some((sign * number, at + 1)))
    };
    let wanted = |at: usize| number(at)?.ok_or_else(|| "expected a number".to_owned());
    let counted = |at: usize, sign: i64, all: CursorWay| -> Result<(CursorWay, usize), String> {
        if word(at) == "ALL" {
            return Ok((all, at + 1));
        }
        let (count, at) = number(at)?.unwrap_or((1, at));
        Ok((CursorWay::By(sign * count), at))
    };
    let (way, mut at) = match word(1).as_str() {
        "NEXT" => (CursorWay::By(1), 2),
        "PRIOR" => (CursorWay::By(-1), 2),
        "FIRST" => (CursorWay::To(1), 2),
        "LAST" => (CursorWay::To(-1), 2),
        "ABSOLUTE" => wanted(2).map(|(to, at)| (CursorWay::To(to), at))?,
        "RELATIVE" => wanted(2).map(|(by, at)| (CursorWay::Relative(by), at))?,
        "BACKWARD" => counted(2, -1, CursorWay::AllBackward)?,
        "FORWARD" => counted(2, 1, CursorWay::All)?,
        _ => counted(1, 1, CursorWay::All)?,
    };
    if matches!(word(at).as_str(), "FROM" | "IN") {
        at += 1;
    }
    name(tokens, at).map(|name| (way, name)).map_err(|_| "expected the name of a cursor".to_owned())
}
