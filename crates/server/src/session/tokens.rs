//! Tokens of statements, as far as sessions read them, and why one is refused.

/// A token of a statement: enough to tell these few statements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A word as it is written.
    Word(&'a str),
    /// A word in double quotes, or a text in single quotes.
    Quoted(String, char),
    /// Anything else, character by character; numbers are one.
    Symbol(&'a str),
}

/// Why a statement of the session cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// What is wrong.
    pub message: String,
    /// The SQLSTATE.
    pub code: &'static str,
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self { message, code: "42601" }
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// Tokens that are looked at: a COPY names up to some thousand columns.
pub(super) const TOKENS_MAX: usize = 20_000;

/// A token and the byte where it begins.
pub(super) type Placed<'a> = (Token<'a>, usize);

/// Tokens with the places where they begin. Stops early at statements that are none of ours.
pub(super) fn tokens(sql: &str, most: usize) -> Vec<Placed<'_>> {
    const FIRST: [&str; 20] = [
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "RESET",
        "SHOW",
        "DISCARD",
        "DEALLOCATE",
        "CLOSE",
        "DECLARE",
        "FETCH",
        "MOVE",
        "COPY",
        "LISTEN",
        "NOTIFY",
    ];
    let mut found: Vec<Placed<'_>> = Vec::new();
    let mut at = 0;
    while let Some(character) = sql[at..].chars().next() {
        if found.len() >= most {
            break;
        }
        if let [(Token::Word(first), _)] = found.as_slice()
            && !FIRST.iter().any(|known| known.eq_ignore_ascii_case(first))
        {
            break;
        }
        let rest = &sql[at..];
        if character.is_whitespace() {
            at += character.len_utf8();
        } else if rest.starts_with("--") {
            at += rest.find('\n').map_or(rest.len(), |end| end + 1);
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if character == '\'' || character == '"' {
            let (text, length) = quoted(rest, character, false);
            found.push((Token::Quoted(text, character), at));
            at += length;
        } else if matches!(character, 'e' | 'E') && rest[1..].starts_with('\'') {
            let (text, length) = quoted(&rest[1..], '\'', true);
            found.push((Token::Quoted(text, '\''), at));
            at += 1 + length;
        } else if character.is_alphabetic() || character == '_' {
            let end = rest.find(|other: char| !other.is_alphanumeric() && other != '_' && other != '$');
            let end = end.unwrap_or(rest.len());
            found.push((Token::Word(&rest[..end]), at));
            at += end;
        } else if character.is_ascii_digit() {
            let end = rest.find(|other: char| !other.is_ascii_alphanumeric() && other != '.').unwrap_or(rest.len());
            found.push((Token::Symbol(&rest[..end]), at));
            at += end;
        } else {
            let end = character.len_utf8();
            found.push((Token::Symbol(&rest[..end]), at));
            at += end;
        }
    }
    found
}

/// What is in the quotes, and how many bytes that is with them. With `escapes`, as in E'…'.
fn quoted(text: &str, quote: char, escapes: bool) -> (String, usize) {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((place, character)) = characters.next() {
        if escapes && character == '\\' {
            match characters.next() {
                Some((_, 't')) => value.push('\t'),
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 'b')) => value.push('\u{8}'),
                Some((_, other)) => value.push(other),
                None => break,
            }
        } else if character != quote {
            value.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return (value, place + quote.len_utf8());
        }
    }
    (value, text.len())
}

/// A name as it is meant: in lower case, if it has no quotes. Fails if there is none.
pub(super) fn name(tokens: &[Placed<'_>], at: usize) -> Result<String, String> {
    match tokens.get(at) {
        Some((Token::Word(word), _)) => Ok(word.to_lowercase()),
        Some((Token::Quoted(text, '"'), _)) => Ok(text.clone()),
        _ => Err("expected a name".to_owned()),
    }
}
