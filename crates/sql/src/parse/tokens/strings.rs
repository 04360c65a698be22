//! Literals that the tokenizer leaves in parts, or takes for others.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

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
