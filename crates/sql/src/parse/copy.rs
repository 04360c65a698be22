//! `COPY t [(a, …)] FROM 'file' [(option value, …)]` as an INSERT of what a function reads:
//! `INSERT INTO t (a, …) SELECT * FROM "copy from"('file', option => value, …)`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The function that the parser makes of a COPY from a file.
pub(crate) const COPY_FROM: &str = "copy from";

/// The tokens of a statement, with a COPY from a file as the INSERT that it is.
pub(super) fn with_copy_from(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let rewritten = {
        let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect::<Vec<_>>();
        rewritten(&words)
    };
    rewritten.unwrap_or(tokens)
}

fn is(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

fn rewritten(words: &[&TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    if !words.first().is_some_and(|first| is(first, "COPY")) || words.get(1)?.token == Token::LParen {
        return None;
    }
    let from = words.iter().position(|token| is(token, "FROM"))?;
    let file = words.get(from + 1)?;
    if !matches!(file.token, Token::SingleQuotedString(_)) {
        return None;
    }
    let span = words[0].span;
    let word = |text: &str| TokenWithSpan { token: Token::make_word(text, None), span };
    let keyword = |text: &str| TokenWithSpan { token: Token::make_keyword(text), span };
    let mark = |token: Token, span: Span| TokenWithSpan { token, span };
    let mut out = vec![keyword("INSERT"), keyword("INTO")];
    // A blank between each two: the parser looks at places of words only.
    out.extend(words[1..from].iter().map(|token| (*token).clone()));
    out.extend([keyword("SELECT"), mark(Token::Mul, span), keyword("FROM")]);
    out.push(mark(Token::make_word(COPY_FROM, Some('"')), span));
    out.extend([mark(Token::LParen, span), (*file).clone()]);
    let mut rest = &words[from + 2..];
    if let Some((first, behind)) = rest.split_first()
        && (is(first, "WITH") || is(first, "OPTIONS"))
    {
        rest = behind;
    }
    let is_listed = rest.first().is_some_and(|first| first.token == Token::LParen);
    if is_listed {
        rest = &rest[1..];
    }
    let mut at = 0;
    loop {
        match rest.get(at).map(|token| &token.token) {
            None | Some(Token::EOF | Token::SemiColon) => break,
            Some(Token::RParen) if is_listed => {
                at += 1;
                break;
            }
            Some(Token::Comma) => at += 1,
            // Which of the rows.
            Some(Token::Word(_)) if !is_listed && is(rest[at], "WHERE") => break,
            Some(Token::Word(name)) => {
                out.push(mark(Token::Comma, rest[at].span));
                let option = name.value.to_lowercase();
                let is_bare = name.keyword == Keyword::CSV && !is_listed;
                at += 1;
                // What PostgreSQL had before there were parentheses: FROM '…' CSV HEADER.
                let (option, value) = if is_bare {
                    ("format".to_owned(), vec![mark(Token::SingleQuotedString("csv".to_owned()), span)])
                } else {
                    if rest.get(at).is_some_and(|token| matches!(token.token, Token::Eq | Token::Assignment))
                        || rest.get(at).is_some_and(|token| is(token, "AS"))
                    {
                        at += 1;
                    }
                    let end = value_end(rest, at);
                    let value = rest[at..end].iter().map(|token| (*token).clone()).collect::<Vec<_>>();
                    at = end;
                    if value.is_empty() { (option, vec![keyword("TRUE")]) } else { (option, value) }
                };
                out.extend([word(&option), mark(Token::RArrow, span)]);
                out.extend(value);
            }
            // No form of options: the parser says so.
            Some(_) => return None,
        }
    }
    out.push(mark(Token::RParen, span));
    out.extend(rest[at..].iter().map(|token| (*token).clone()));
    Some(out)
}

/// The end of a value: a comma, the end of the list, or a word that is another option.
fn value_end(rest: &[&TokenWithSpan], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while let Some(token) = rest.get(at) {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::RParen if depth > 0 => depth -= 1,
            Token::RParen | Token::Comma | Token::SemiColon | Token::EOF if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn copy_from_is_an_insert() {
        for (copy, insert) in [
            ("COPY t FROM 'a.csv'", "INSERT INTO t SELECT * FROM \"copy from\"('a.csv')"),
            (
                "COPY s.t (a, \"B\") FROM 'a.csv' (FORMAT csv, HEADER, DELIMITER ';', NULLSTR ['x', 'y']);",
                "INSERT INTO s.t (a, \"B\") SELECT * FROM \"copy from\"('a.csv', format => csv, header => true, \
                 delimiter => ';', nullstr => ['x', 'y'])",
            ),
            (
                "COPY t FROM 'a.csv' (HEADER) WHERE a > 1",
                "INSERT INTO t SELECT * FROM \"copy from\"('a.csv', header => true) WHERE a > 1",
            ),
            ("COPY t FROM 'a.csv' WHERE a > 1", "INSERT INTO t SELECT * FROM \"copy from\"('a.csv') WHERE a > 1"),
            (
                "copy t from 'a' with (format 'json')",
                "INSERT INTO t SELECT * FROM \"copy from\"('a', format => 'json')",
            ),
        ] {
            let parsed = parse_one(copy).unwrap().statement.to_string();
            assert_eq!(parsed, insert, "{copy}");
        }
        assert!(parse_one("COPY t FROM 'a' 5").is_err());
    }
}
