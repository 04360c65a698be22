//! A statement as a tree of tokens: parentheses, brackets and CASE … END are nodes with others inside. Enough to find
//! clauses and to leave out parts; whether what is left is SQL, a server says.

use std::rc::Rc;

/// A token, or a group of them. A copy shares what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Whether it follows the node before it without a space.
    pub is_glued: bool,
    /// What it is.
    pub content: Content,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A word, number, text or operator.
    Leaf(Rc<str>),
    /// What is between two tokens.
    Group {
        /// The token that opens it.
        open: Rc<str>,
        /// What is inside.
        inside: Rc<[Node]>,
        /// The token that closes it; empty if the text ends before.
        close: Rc<str>,
    },
}

impl Node {
    /// The word in capitals, if it is a word.
    pub fn word(&self) -> Option<String> {
        match &self.content {
            Content::Leaf(text) if text.starts_with(is_word_start) => Some(text.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// A token.
    pub fn leaf(text: &str, is_glued: bool) -> Self {
        Self { is_glued, content: Content::Leaf(text.into()) }
    }

    /// A group with these tokens around it.
    pub fn group(open: &str, inside: Vec<Node>, close: &str, is_glued: bool) -> Self {
        let content = Content::Group { open: open.into(), inside: inside.into(), close: close.into() };
        Self { is_glued, content }
    }

    /// Whether it is this token, in any case.
    pub fn is(&self, token: &str) -> bool {
        matches!(&self.content, Content::Leaf(text) if text.eq_ignore_ascii_case(token))
    }

    /// The nodes inside, if it is a group.
    pub fn inside(&self) -> Option<&[Node]> {
        match &self.content {
            Content::Group { inside, .. } => Some(inside),
            Content::Leaf(_) => None,
        }
    }

    /// Whether it is the word NULL.
    pub fn is_null(&self) -> bool {
        self.is("NULL")
    }
}

/// How much there is of a statement: what shrinking makes less. NULL is less than any other token.
pub fn size(nodes: &[Node]) -> usize {
    let one = |node: &Node| match &node.content {
        Content::Leaf(_) if node.is_null() => 1,
        Content::Leaf(_) => 2,
        Content::Group { inside, .. } => 2 + size(inside),
    };
    nodes.iter().map(one).sum()
}

/// The statement as a tree. Comments are left out, and so is a semicolon at the end.
pub fn parse(statement: &str) -> Vec<Node> {
    let mut tokens = lex(statement).into_iter().peekable();
    let mut nodes = Vec::new();
    while tokens.peek().is_some() {
        nodes.extend(level(&mut tokens, &[]).0);
        // A token that closes what was never opened is a leaf.
        nodes.extend(tokens.next().map(|(is_glued, text)| Node::leaf(&text, is_glued)));
    }
    while nodes.last().is_some_and(|node| node.is(";")) {
        nodes.pop();
    }
    nodes
}

type Token = (bool, String);

/// The nodes up to one of the closing tokens, which stays, or to one that closes another group.
fn level(tokens: &mut std::iter::Peekable<std::vec::IntoIter<Token>>, closing: &[&str]) -> (Vec<Node>, bool) {
    let mut nodes = Vec::new();
    while let Some((_, next)) = tokens.peek() {
        if closing.iter().any(|close| next.eq_ignore_ascii_case(close)) {
            return (nodes, true);
        }
        if matches!(next.as_str(), ")" | "]") {
            return (nodes, false);
        }
        let Some((is_glued, text)) = tokens.next() else { break };
        let close = match text.to_ascii_uppercase().as_str() {
            "(" => ")",
            "[" => "]",
            "CASE" => "END",
            _ => {
                nodes.push(Node::leaf(&text, is_glued));
                continue;
            }
        };
        let (inside, is_closed) = level(tokens, &[close]);
        let close = if is_closed { tokens.next().map(|(_, text)| text).unwrap_or_default() } else { String::new() };
        nodes.push(Node::group(&text, inside, &close, is_glued));
    }
    (nodes, false)
}

fn is_word_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

fn is_operator(letter: char) -> bool {
    "+-*/<>=~!@#%^&|?:".contains(letter)
}

/// The tokens, each with whether it follows another without a space.
fn lex(statement: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut rest = statement;
    let mut is_glued = false;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
            is_glued = false;
            continue;
        }
        if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            is_glued = false;
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            is_glued = false;
            continue;
        }
        let length = token_length(rest, first);
        tokens.push((is_glued && !tokens.is_empty(), rest[..length].to_owned()));
        rest = &rest[length..];
        is_glued = true;
    }
    tokens
}

/// The bytes of the first token.
fn token_length(rest: &str, first: char) -> usize {
    let run = |wanted: fn(char) -> bool| rest.find(|letter| !wanted(letter)).unwrap_or(rest.len());
    match first {
        '\'' | '"' => quoted_length(rest, first, false),
        _ if is_word_start(first) => {
            let length = run(is_word);
            match rest[length..].starts_with('\'') && length == 1 && "EeXxBbNn".contains(first) {
                true => length + quoted_length(&rest[length..], '\'', "Ee".contains(first)),
                false => length,
            }
        }
        _ if first.is_ascii_digit() => number_length(rest),
        '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => number_length(rest),
        _ if is_operator(first) => {
            let length = run(is_operator);
            // A comment begins within a run of operators.
            ["--", "/*"].iter().filter_map(|mark| rest[..length].find(mark)).fold(length, usize::min)
        }
        _ => first.len_utf8(),
    }
}

fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

/// The length of a text in quotes, in which a doubled quote stands for one, and possibly a backslash for what follows.
fn quoted_length(rest: &str, quote: char, has_escapes: bool) -> usize {
    let mut letters = rest.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if has_escapes && letter == '\\' {
            letters.next();
        } else if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    rest.len()
}

/// The text of a tree.
pub fn text(nodes: &[Node]) -> String {
    let mut text = String::new();
    write(nodes, &mut text);
    text
}

fn write(nodes: &[Node], text: &mut String) {
    for (position, node) in nodes.iter().enumerate() {
        let first = match &node.content {
            Content::Leaf(leaf) => leaf,
            Content::Group { open, .. } => open,
        };
        let last = text.chars().next_back();
        let runs_together = |letter: char, kind: fn(char) -> bool| last.is_some_and(kind) && kind(letter);
        let would_run_together = first.chars().next().is_some_and(|letter| {
            runs_together(letter, is_word)
                || runs_together(letter, is_operator)
                || letter == '\'' && last.is_some_and(is_word)
        });
        if position > 0 && (!node.is_glued || would_run_together) {
            text.push(' ');
        }
        match &node.content {
            Content::Leaf(leaf) => text.push_str(leaf),
            Content::Group { open, inside, close } => {
                let is_word_pair = open.starts_with(is_word_start);
                text.push_str(open);
                text.push_str(if is_word_pair { " " } else { "" });
                write(inside, text);
                text.push_str(if is_word_pair { " " } else { "" });
                text.push_str(close);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_a_tree_and_its_text_the_same_again() {
        for statement in [
            "SELECT a.b, count(*) FROM t WHERE x = E'it\\'s' AND y <> 'it''s' ORDER BY 1",
            "SELECT CASE WHEN a THEN (1 + 2.5e-3) ELSE t[1] END::text FROM \"odd name\" AS r1",
        ] {
            assert_eq!(text(&parse(statement)), statement);
        }
        assert_eq!(text(&parse("SELECT 1 -- one\n + /* two */ 2 ;")), "SELECT 1 + 2");
    }

    #[test]
    fn groups_hold_what_is_inside() {
        let nodes = parse("f(a, (b)) CASE WHEN x END");
        assert_eq!(nodes.len(), 3);
        assert_eq!(nodes[1].inside().map(<[Node]>::len), Some(3));
        assert_eq!(nodes[2].inside().map(text).as_deref(), Some("WHEN x"));
        assert_eq!(size(&parse("a NULL (b)")), 7);
    }

    #[test]
    fn damaged_texts_lose_nothing() {
        assert_eq!(text(&parse("a ) b")), "a ) b");
        assert_eq!(text(&parse("f(a")), "f(a");
        assert_eq!(text(&parse("'open")), "'open");
    }
}
