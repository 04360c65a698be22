//! Literals that the tokenizer leaves in parts, or takes for others.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace};

/// `0x1F` is a number, `X'1F'` a string of bits; the parser has one token for both, of which the first is shorter.
pub(super) fn with_hexadecimal_numbers(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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

/// `0b101` and `0o17` are numbers, as in PostgreSQL 16; the tokenizer takes them for a 0 and a word.
pub(super) fn with_binary_numbers(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut whole: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if let Token::Word(word) = &token.token
            && word.quote_style.is_none()
            && let Some(TokenWithSpan { token: zero @ Token::Number(..), span }) = whole.last_mut()
            && matches!(zero, Token::Number(digits, false) if digits == "0")
            && let Some(number) = number_of(&word.value)
        {
            (*zero, span.end) = (Token::Number(number.to_string(), false), token.span.end);
            continue;
        }
        whole.push(token);
    }
    whole
}

/// What `b101` or `o17` behind a 0 is.
fn number_of(digits: &str) -> Option<u128> {
    let radix = match digits.chars().next()? {
        'b' | 'B' => 2,
        'o' | 'O' => 8,
        _ => return None,
    };
    u128::from_str_radix(&digits[1..].replace('_', ""), radix).ok()
}

/// The place and the text of a number that a word follows without a blank, which is a mistake in PostgreSQL: `1and`.
pub(super) fn number_with_junk(tokens: &[TokenWithSpan]) -> Option<(Location, String)> {
    let queries = [Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::INSERT, Keyword::UPDATE, Keyword::DELETE];
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_) | Token::LParen))?;
    if !matches!(&first.token, Token::Word(word) if queries.contains(&word.keyword)) {
        return None;
    }
    tokens.windows(2).find_map(|pair| match (&pair[0].token, &pair[1].token) {
        (Token::Number(number, false), Token::Word(word)) if word.quote_style.is_none() => {
            Some((pair[0].span.start, format!("{number}{}", word.value)))
        }
        _ => None,
    })
}

/// String literals with only a line's end and comments between them are one.
pub(super) fn with_whole_strings(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
