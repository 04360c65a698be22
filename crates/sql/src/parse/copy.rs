//! `COPY t [(a, …)] FROM 'file' [(option value, …)]` as an INSERT of what a function reads:
//! `INSERT INTO t (a, …) SELECT * FROM "copy from"('file', option => value, …)`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The function that the parser makes of a COPY from a file.
pub(crate) const COPY_FROM: &str = "copy from";

/// The tokens of a statement, with a COPY from a file as the INSERT that it is, and the options of one to a file in
/// parentheses.
pub(super) fn with_copy_from(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let listed = listed(&words_of(&tokens));
    let tokens = listed.unwrap_or(tokens);
    let rewritten = rewritten(&words_of(&tokens));
    rewritten.unwrap_or(tokens)
}

fn words_of(tokens: &[TokenWithSpan]) -> Vec<&TokenWithSpan> {
    tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect()
}

/// What PostgreSQL had before there were parentheses, `WITH CSV HEADER DELIMITER ';'`, in parentheses. `None` if a
/// statement has nothing of that.
fn listed(words: &[&TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    if !words.first().is_some_and(|first| is(first, "COPY")) {
        return None;
    }
    let mut depth = 0usize;
    let direction = words.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (is(token, "TO") || is(token, "FROM"))
    })?;
    let span = words.get(direction + 1).filter(|file| matches!(file.token, Token::SingleQuotedString(_)))?.span;
    let mark = |token: Token| TokenWithSpan { token, span };
    let mut at = direction + 2;
    at += usize::from(words.get(at).is_some_and(|token| is(token, "WITH")));
    let mut options = Vec::new();
    while let Some(token) = words.get(at) {
        if matches!(token.token, Token::EOF | Token::SemiColon) || is(token, "WHERE") {
            break;
        }
        let option = old_option(&words[at..])?;
        options.extend([mark(Token::Comma), mark(Token::make_word(option.name, None))]);
        options.extend(option.value.into_iter().map(mark));
        at += option.words;
    }
    // The first comma is the parenthesis.
    *options.first_mut()? = mark(Token::LParen);
    let mut out = words[..direction + 2].iter().map(|token| (*token).clone()).collect::<Vec<_>>();
    out.append(&mut options);
    out.push(mark(Token::RParen));
    out.extend(words[at..].iter().map(|token| (*token).clone()));
    Some(out)
}

/// An option without parentheses: its name of today, its value, and the number of its words.
struct OldOption {
    name: &'static str,
    value: Vec<Token>,
    words: usize,
}

/// The option that these words begin with.
fn old_option(words: &[&TokenWithSpan]) -> Option<OldOption> {
    let next = |at: usize, name: &str| words.get(at).is_some_and(|token| is(token, name));
    for (word, name, value) in [
        ("CSV", "format", vec![Token::SingleQuotedString("csv".to_owned())]),
        ("BINARY", "format", vec![Token::SingleQuotedString("binary".to_owned())]),
        ("HEADER", "header", Vec::new()),
        ("FREEZE", "freeze", Vec::new()),
    ] {
        if next(0, word) {
            return Some(OldOption { name, value, words: 1 });
        }
    }
    if next(0, "FORCE") {
        return forced(words);
    }
    let name = ["delimiter", "null", "quote", "escape", "encoding"].into_iter().find(|name| next(0, name))?;
    let place = 1 + usize::from(next(1, "AS"));
    match &words.get(place)?.token {
        value @ (Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)) => {
            Some(OldOption { name, value: vec![value.clone()], words: place + 1 })
        }
        _ => None,
    }
}

/// FORCE QUOTE, FORCE NULL or FORCE NOT NULL, and names with commas between them, or `*`.
fn forced(words: &[&TokenWithSpan]) -> Option<OldOption> {
    let next = |at: usize, name: &str| words.get(at).is_some_and(|token| is(token, name));
    let (name, first) = match () {
        () if next(1, "QUOTE") => ("force_quote", 2),
        () if next(1, "NULL") => ("force_null", 2),
        () if next(1, "NOT") && next(2, "NULL") => ("force_not_null", 3),
        () => return None,
    };
    let token = |at: usize| words.get(at).map(|word| &word.token);
    let mut value = Vec::new();
    while let Some(column @ (Token::Word(_) | Token::Mul)) = token(first + value.len()) {
        value.push(column.clone());
        if token(first + value.len()) != Some(&Token::Comma) {
            break;
        }
        value.push(Token::Comma);
    }
    let words = first + value.len();
    if value != [Token::Mul] {
        value.insert(0, Token::LParen);
        value.push(Token::RParen);
    }
    (words > first).then_some(OldOption { name, value, words })
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
            (
                "COPY t FROM 'a' WITH CSV HEADER DELIMITER AS ';' NULL 'x' WHERE a > 1;",
                "INSERT INTO t SELECT * FROM \"copy from\"('a', format => 'csv', header => true, delimiter => ';', \
                 null => 'x') WHERE a > 1",
            ),
        ] {
            let parsed = parse_one(copy).unwrap().statement.to_string();
            assert_eq!(parsed, insert, "{copy}");
        }
        assert!(parse_one("COPY t FROM 'a' 5").is_err());
    }

    #[test]
    fn options_need_no_parentheses() {
        let tree = |sql: &str| parse_one(sql).unwrap().statement.to_string();
        for (old, new) in [
            ("COPY t TO 'a' CSV", "COPY t TO 'a' (FORMAT 'csv')"),
            ("COPY t TO 'a' WITH CSV HEADER DELIMITER AS ';'", "COPY t TO 'a' (format 'csv', header, delimiter ';')"),
            (
                "COPY (SELECT 1 AS a) TO 'a.csv' NULL 'x' QUOTE ''''",
                "COPY (SELECT 1 AS a) TO 'a.csv' (null 'x', quote '''')",
            ),
            ("COPY t TO 'a' CSV FORCE QUOTE a, b;", "COPY t TO 'a' (format 'csv', force_quote (a, b))"),
            ("COPY t TO 'a' CSV FORCE QUOTE * HEADER", "COPY t TO 'a' (format 'csv', force_quote *, header)"),
        ] {
            assert_eq!(tree(old).to_lowercase(), tree(new).to_lowercase(), "{old}");
        }
        for wrong in ["COPY t TO 'a' CSV HEADING", "COPY t TO 'a' DELIMITER", "COPY t TO 'a' FORCE QUOTE"] {
            assert!(parse_one(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clients_and_programs_are_no_files() {
        for (copy, hint) in [
            ("COPY t TO STDOUT", "/dev/stdout"),
            ("COPY (SELECT 1) TO STDOUT (FORMAT csv)", "/dev/stdout"),
            ("COPY t FROM STDIN", "/dev/stdin"),
            ("COPY t TO PROGRAM 'cat'", "does not run programs"),
        ] {
            let error = parse_one(copy).unwrap_err();
            assert!(error.message().contains(hint), "{error}");
        }
    }
}
