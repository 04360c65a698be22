//! Bodies of functions that are statements instead of a text: `BEGIN ATOMIC SELECT …; END` is `AS 'SELECT …;'`.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::word;

/// The tokens with a text in the place of each such body.
pub(super) fn with_bodies_as_texts(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let Some(begin) = (0..tokens.len()).find(|at| body_end(&tokens, *at).is_some()) else { return tokens };
    let (mut whole, mut at) = (Vec::with_capacity(tokens.len()), begin);
    whole.extend_from_slice(&tokens[..begin]);
    while at < tokens.len() {
        let Some(end) = body_end(&tokens, at) else {
            whole.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let (first, span) = (behind_atomic(&tokens, at).unwrap_or(at), tokens[at].span);
        let body = tokens[first..end].iter().map(|token| written(&token.token)).collect::<String>();
        let blank = Token::Whitespace(sqlparser::tokenizer::Whitespace::Space);
        let body = Token::SingleQuotedString(body.trim().to_owned());
        whole.extend([word("AS"), blank, body].map(|token| TokenWithSpan { token, span }));
        at = end + 1;
    }
    whole
}

/// Of BEGIN in `BEGIN ATOMIC`, the place of the END that closes it.
pub(in crate::parse) fn body_end(tokens: &[TokenWithSpan], begin: usize) -> Option<usize> {
    let (mut open, first) = (0_usize, behind_atomic(tokens, begin)?);
    for (at, token) in tokens.iter().enumerate().skip(first) {
        if is_word(&token.token, "CASE") {
            open += 1;
        } else if is_word(&token.token, "END") {
            match open.checked_sub(1) {
                Some(less) => open = less,
                None => return Some(at),
            }
        }
    }
    None
}

/// The place behind `BEGIN ATOMIC`, if it begins here.
fn behind_atomic(tokens: &[TokenWithSpan], begin: usize) -> Option<usize> {
    if !is_word(&tokens.get(begin)?.token, "BEGIN") {
        return None;
    }
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let next = (begin + 1..tokens.len()).find(|at| !is_blank(at))?;
    is_word(&tokens[next].token, "ATOMIC").then_some(next + 1)
}

/// A token as a statement has it: the tokenizer has taken the quotes out of texts and names.
pub(super) fn written(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::NationalStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Token::EscapedStringLiteral(text) => format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        Token::Word(word) if word.quote_style == Some('"') => format!("\"{}\"", word.value.replace('"', "\"\"")),
        other => other.to_string(),
    }
}

fn is_word(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}
