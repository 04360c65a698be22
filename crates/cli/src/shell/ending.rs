//! Whether a text ends with a complete statement.
//!
//! It only finds semicolons outside of strings, quoted names and comments; the SQL parser does the rest.

/// Whether the text ends with the semicolon of a statement, apart from comments and blanks.
pub fn is_complete(text: &str) -> bool {
    let mut ended = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => match quoted(rest, first) {
                Some(length) => {
                    ended = false;
                    length
                }
                None => return false,
            },
            '-' if rest.starts_with("--") => rest.find('\n').map_or(rest.len(), |end| end + 1),
            '/' if rest.starts_with("/*") => match block_comment(rest) {
                Some(length) => length,
                None => return false,
            },
            '$' => match dollar_quoted(rest) {
                Dollar::Quoted(length) => {
                    ended = false;
                    length
                }
                Dollar::Open => return false,
                Dollar::Sign => {
                    ended = false;
                    1
                }
            },
            ';' => {
                ended = true;
                1
            }
            other => {
                ended &= other.is_whitespace();
                other.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    ended
}

/// The length of the quoted string or name at the start; a doubled quote is part of it.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut from = 1;
    loop {
        let end = from + text[from..].find(quote)? + 1;
        if !text[end..].starts_with(quote) {
            return Some(end);
        }
        from = end + 1;
    }
}

/// The length of the block comment at the start. Block comments nest.
fn block_comment(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    None
}

/// What a dollar sign starts.
enum Dollar {
    /// A complete `$tag$ … $tag$` of this length.
    Quoted(usize),
    /// A quote that does not end.
    Open,
    /// Not a quote, but a parameter such as `$1`.
    Sign,
}

fn dollar_quoted(text: &str) -> Dollar {
    let tag_end = text[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')).map(|end| end + 1);
    let Some(end) = tag_end.filter(|&end| text[end..].starts_with('$')) else { return Dollar::Sign };
    if text[1..end].starts_with(|c: char| c.is_ascii_digit()) {
        return Dollar::Sign;
    }
    let tag = &text[..=end];
    match text[tag.len()..].find(tag) {
        Some(at) => Dollar::Quoted(at + 2 * tag.len()),
        None => Dollar::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn a_statement_ends_at_its_semicolon() {
        for complete in [
            "SELECT 1;",
            "SELECT 1; \n",
            "SELECT 1; -- done",
            "SELECT 1; /* a; /* nested */ */",
            "SELECT ';', \"a;\"\"b\", 'it''s';",
            "SELECT $$;$$;",
            "SELECT $tag$ ' ; $$ $tag$;",
            "SELECT $1;",
            "SELECT 1 - -1;",
            ";",
        ] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 'it'';",
            "SELECT \"a;",
            "SELECT 1 -- ;",
            "SELECT 1 /* ; ",
            "SELECT 1 /* /* */ ;",
            "SELECT $a$;$b$",
            "SELECT 1; SELECT 2",
            "SELECT '日;",
            "",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }
}
