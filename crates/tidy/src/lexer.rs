//! Rust text to tokens: enough to tell code from comments and strings, and one name from another.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a keyword.
    Word,
    /// `'a`, with its quotation mark.
    Lifetime,
    /// A number, or the text of a string or a character.
    Literal,
    /// One character of punctuation; `::` and `->` are one token each.
    Mark,
    /// `//` or `/* */` that documents nothing.
    Comment,
    /// `///` or `/** */`: documents what follows.
    OuterDoc,
    /// `//!` or `/*! */`: documents what it stands in.
    InnerDoc,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// Its text; of a raw identifier without `r#`.
    pub text: &'a str,
    /// Where it begins, in lines from 1.
    pub line: usize,
}

impl Token<'_> {
    /// Whether it is this word or mark.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Mark) && self.text == text
    }

    /// Whether it is a comment of any kind.
    pub fn is_comment(&self) -> bool {
        matches!(self.kind, TokenKind::Comment | TokenKind::OuterDoc | TokenKind::InnerDoc)
    }
}

/// Cuts a text into tokens. A text that is not Rust gives tokens as well, if not sensible ones.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(text.len() / 5);
    while let Some(token) = lexer.next() {
        tokens.push(token);
    }
    tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let blank = |c: char| c.is_whitespace();
        let start = self.at + self.rest().find(|c| !blank(c))?;
        self.line += self.text[self.at..start].matches('\n').count();
        self.at = start;
        let (kind, length) = self.measure();
        let (line, mut text) = (self.line, &self.text[start..start + length]);
        self.line += text.matches('\n').count();
        self.at += length;
        if kind == TokenKind::Word {
            text = text.strip_prefix("r#").unwrap_or(text);
        }
        Some(Token { kind, text, line })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The kind and the length of the token that begins here.
    fn measure(&self) -> (TokenKind, usize) {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        if rest.starts_with("//") {
            return (comment_kind(rest), rest.find('\n').unwrap_or(rest.len()));
        }
        if rest.starts_with("/*") {
            return (comment_kind(rest), block_comment(rest));
        }
        if let Some(length) = string(rest) {
            return (TokenKind::Literal, length);
        }
        if first == '\'' {
            return quoted(rest);
        }
        if first.is_ascii_digit() {
            return (TokenKind::Literal, number(rest));
        }
        if first == '_' || first.is_alphabetic() {
            let from = if rest.starts_with("r#") { 2 } else { 0 };
            return (TokenKind::Word, from + word(&rest[from..]));
        }
        if rest.starts_with("::") || rest.starts_with("->") || rest.starts_with("=>") {
            return (TokenKind::Mark, 2);
        }
        (TokenKind::Mark, first.len_utf8())
    }
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
}

fn number(rest: &str) -> usize {
    let whole = word(rest);
    let mut after = rest[whole..].chars();
    match (after.next(), after.next()) {
        (Some('.'), Some(digit)) if digit.is_ascii_digit() => whole + 1 + word(&rest[whole + 1..]),
        _ => whole,
    }
}

fn comment_kind(rest: &str) -> TokenKind {
    let inner = rest.starts_with("//!") || rest.starts_with("/*!");
    let outer = (rest.starts_with("///") && !rest.starts_with("////"))
        || (rest.starts_with("/**") && !rest.starts_with("/***") && !rest.starts_with("/**/"));
    match (inner, outer) {
        (true, _) => TokenKind::InnerDoc,
        (_, true) => TokenKind::OuterDoc,
        _ => TokenKind::Comment,
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string of any form: `""`, `b""`, `c""`, `r#""#`, `br""`.
fn string(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let prefix = bytes.iter().take_while(|b| matches!(b, b'b' | b'c' | b'r')).count();
    if prefix > 2 {
        return None;
    }
    if !rest[..prefix].contains('r') {
        return (bytes.get(prefix) == Some(&b'"')).then(|| prefix + escaped(&rest[prefix..], b'"'));
    }
    let hashes = bytes[prefix..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let body = prefix + hashes + 1;
    let end = format!("\"{}", &rest[prefix..prefix + hashes]);
    Some(rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len()))
}

/// The length of what begins with a quotation mark and ends with the same, where a backslash hides the next character.
fn escaped(rest: &str, mark: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != mark {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A character, or a lifetime.
fn quoted(rest: &str) -> (TokenKind, usize) {
    let mut chars = rest[1..].chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => (TokenKind::Literal, escaped(rest, b'\'')),
        (Some(c), Some('\'')) => (TokenKind::Literal, 2 + c.len_utf8()),
        _ => (TokenKind::Lifetime, 1 + word(&rest[1..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        tokens(text).into_iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn strings_and_comments_hide_what_is_in_them() {
        let found = kinds("a // b\n\"c \\\" // d\" r#\"e \" f\"# /* g /* h */ */ 'i' '\\'' 'j b\"k\" b'l'");
        let words: Vec<_> = found.iter().filter(|(kind, _)| *kind == TokenKind::Word).map(|(_, text)| *text).collect();
        assert_eq!(words, ["a", "b"], "b of b'l' is a word of its own, which does no harm");
        assert_eq!(found.iter().filter(|(kind, _)| *kind == TokenKind::Comment).count(), 2);
        assert!(found.contains(&(TokenKind::Lifetime, "'j")));
    }

    #[test]
    fn lines_are_counted_through_strings() {
        let found = tokens("a\n\"b\nc\"\nd");
        assert_eq!(found.iter().map(|token| token.line).collect::<Vec<_>>(), [1, 2, 4]);
    }

    #[test]
    fn numbers_with_and_without_a_point() {
        assert_eq!(kinds("1.5 0..3").iter().map(|(_, text)| *text).collect::<Vec<_>>(), ["1.5", "0", ".", ".", "3"]);
    }
}
