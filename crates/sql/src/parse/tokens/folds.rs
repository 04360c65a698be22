//! Aggregates that statements make of functions, as macros:
//!
//! * `CREATE AGGREGATE a(t) (SFUNC = f, STYPE = s, INITCOND = '0', FINALFUNC = g, COMBINEFUNC = c)`:
//!   `CREATE MACRO a(a1) AS "aggregate fold"('f', 's', '0', 'g', a1, combine => 'c')`;
//! * `DROP AGGREGATE a(t)`: `DROP MACRO a`.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{quoted, word};

/// The function that stands for the steps of an aggregate: the names of the function of a step and of the state's type,
/// the state's first text and the name of the last function, each NULL if absent; then the arguments, and by the name
/// [`COMBINE`] the function that makes one state of two, if there is one.
pub(crate) const FOLD: &str = diligence_catalog::AGGREGATE_FOLD;
pub(crate) const COMBINE: &str = "combine";

/// What says nothing about an aggregate's value.
const IGNORED: [&str; 14] = [
    "PARALLEL",
    "SSPACE",
    "SERIALFUNC",
    "DESERIALFUNC",
    "SORTOP",
    "FINALFUNC_MODIFY",
    "MSFUNC",
    "MINVFUNC",
    "MSTYPE",
    "MSSPACE",
    "MFINALFUNC",
    "MFINALFUNC_EXTRA",
    "MFINALFUNC_MODIFY",
    "MINITCOND",
];

/// The statement that stands for one of these; `None` if it is another, or says what there is not.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let meant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let statement = tokens.iter().take_while(|token| token.token != Token::SemiColon).filter(meant);
    // Most statements are known by their first words.
    let first = statement.clone().next().filter(|first| is(&first.token, "CREATE") || is(&first.token, "DROP"))?.span;
    if !statement.clone().take(4).any(|token| is(&token.token, "AGGREGATE")) {
        return None;
    }
    let parts = statement.map(|token| token.token.clone()).collect::<Vec<_>>();
    let at = parts.iter().position(|part| is(part, "AGGREGATE"))?;
    let made = match is(&parts[0], "DROP") {
        true if at != 1 => return None,
        true => dropped(&parts, at)?,
        false => created(&parts, at)?,
    };
    let behind = tokens.iter().skip_while(|token| token.token != Token::SemiColon).cloned();
    Some(made.into_iter().map(|token| TokenWithSpan { token, span: first }).chain(behind).collect())
}

fn is(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

/// DROP: the types of the arguments are left out, since a macro has none.
fn dropped(parts: &[Token], at: usize) -> Option<Vec<Token>> {
    let open = parts.iter().position(|part| *part == Token::LParen)?;
    let closed = closing(parts, open)?;
    let mut made = parts[..at].to_vec();
    made.push(word("MACRO"));
    made.extend_from_slice(&parts[at + 1..open]);
    made.extend_from_slice(&parts[closed + 1..]);
    Some(made)
}

fn created(parts: &[Token], at: usize) -> Option<Vec<Token>> {
    let open = parts.iter().position(|part| *part == Token::LParen)?;
    let closed = closing(parts, open)?;
    if at != 1 && !(at == 3 && is(&parts[1], "OR") && is(&parts[2], "REPLACE"))
        || parts.get(closed + 1) != Some(&Token::LParen)
        || closing(parts, closed + 1)? + 1 != parts.len()
    {
        return None;
    }
    let taken = &parts[open + 1..closed];
    if taken.iter().any(|part| is(part, "ORDER") || is(part, "VARIADIC")) {
        return None;
    }
    let count = match taken {
        [] | [Token::Mul] => 0,
        taken => listed(taken).len(),
    };
    let (mut step, mut state, mut first, mut last, mut combine) = (None, None, None, None, None);
    for option in listed(&parts[closed + 2..parts.len() - 1]) {
        let (Token::Word(name), Token::Eq, value) = (option.first()?, option.get(1)?, &option[2..]) else {
            return None;
        };
        match name.value.to_uppercase().as_str() {
            "SFUNC" => step = Some(text_of(value)?),
            "STYPE" => state = Some(text_of(value)?),
            "FINALFUNC" => last = Some(text_of(value)?),
            "COMBINEFUNC" => combine = Some(text_of(value)?),
            "INITCOND" => match value {
                [Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)] => first = Some(text.clone()),
                value => first = Some(text_of(value)?),
            },
            other if IGNORED.contains(&other) => {}
            _ => return None,
        }
    }
    let literal = |text: Option<String>| text.map_or_else(|| word("NULL"), Token::SingleQuotedString);
    let names = (1..=count).map(|number| word(&format!("a{number}"))).collect::<Vec<_>>();
    let mut made = parts[..at].to_vec();
    made.push(word("MACRO"));
    made.extend_from_slice(&parts[at + 1..=open]);
    for (place, name) in names.iter().enumerate() {
        made.extend((place > 0).then_some(Token::Comma));
        made.push(name.clone());
    }
    made.extend([Token::RParen, word("AS"), quoted(FOLD), Token::LParen]);
    let told = [Token::SingleQuotedString(step?), Token::SingleQuotedString(state?), literal(first), literal(last)];
    for (place, value) in told.into_iter().chain(names).enumerate() {
        made.extend((place > 0).then_some(Token::Comma));
        made.push(value);
    }
    if let Some(combine) = combine {
        made.extend([Token::Comma, word(COMBINE), Token::RArrow, Token::SingleQuotedString(combine)]);
    }
    made.push(Token::RParen);
    Some(made)
}

/// The place of the parenthesis that closes one.
fn closing(parts: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, part) in parts.iter().enumerate().skip(open) {
        match part {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// What stands between commas.
fn listed(parts: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let is_comma = |part: &Token| {
        match part {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *part == Token::Comma
    };
    parts.split(is_comma).collect()
}

/// A name or a type, as a text.
fn text_of(value: &[Token]) -> Option<String> {
    let mut text = String::new();
    for part in value {
        if matches!(part, Token::Word(_)) && text.chars().last().is_some_and(char::is_alphanumeric) {
            text.push(' ');
        }
        text.push_str(&part.to_string());
    }
    Some(text).filter(|text| !text.is_empty())
}
