//! Reads the text of a path.

use diligence_base::{Error, Result};

use crate::text::json::{Json, parse};

/// How deep a path may nest.
const DEPTH_MAX: usize = 100;
/// The SQLSTATE of a text that is no path.
pub(super) const NO_PATH: &str = "42601";

/// A path and its mode.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Whether an access to what is not there is an error.
    pub(super) is_strict: bool,
    /// What it leads to.
    pub(super) node: Node,
}

/// An expression of a path: values, or a predicate.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// `$`.
    Root,
    /// `@`.
    Current,
    /// `last`.
    Last,
    /// `$name`.
    Variable(String),
    /// A literal.
    Value(Json),
    /// What comes behind a value.
    Steps(Box<Node>, Vec<PathStep>),
    /// `-x` if so, else `+x`.
    Signed(bool, Box<Node>),
    /// `a + b` and its likes.
    Arithmetic(char, Box<Node>, Box<Node>),
    /// `!(p)`.
    Not(Box<Node>),
    /// `p && q`.
    And(Box<Node>, Box<Node>),
    /// `p || q`.
    Or(Box<Node>, Box<Node>),
    /// `a < b` and its likes.
    Compare(Box<Node>, Sign, Box<Node>),
    /// `exists (a)`.
    Exists(Box<Node>),
    /// `a starts with b`.
    StartsWith(Box<Node>, Box<Node>),
    /// `a like_regex "…"`.
    LikeRegex(Box<Node>, Box<Like>),
    /// `(p) is unknown`.
    IsUnknown(Box<Node>),
}

/// What `like_regex` compares with.
#[derive(Clone, Debug)]
pub(super) struct Like {
    /// The regular expression.
    pub(super) regex: regex::Regex,
    /// Its text.
    pub(super) pattern: String,
    /// Its flags, as they are written.
    pub(super) flags: String,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A step from values to others.
#[derive(Clone, Debug)]
pub(super) enum PathStep {
    /// `.name`.
    Member(String),
    /// `.*`.
    Members,
    /// `[*]`.
    Elements,
    /// `[a, b to c]`.
    Places(Vec<(Node, Option<Node>)>),
    /// `.**{from to to}`; `None` is the last level.
    Levels(Option<u32>, Option<u32>),
    /// `? (p)`.
    Filter(Box<Node>),
    /// `.name()`.
    Method(&'static str),
    /// `.datetime("template")`.
    Datetime(String),
}

/// The methods that there are.
const METHODS: [&str; 8] = ["size", "type", "double", "abs", "ceiling", "floor", "keyvalue", "datetime"];

impl Node {
    /// Whether it is true or false, and no value.
    fn is_predicate(&self) -> bool {
        matches!(
            self,
            Self::Not(_)
                | Self::And(..)
                | Self::Or(..)
                | Self::Compare(..)
                | Self::Exists(_)
                | Self::StartsWith(..)
                | Self::LikeRegex(..)
                | Self::IsUnknown(_)
        )
    }
}

/// Reads a path. Fails with 42601 if it is none, 22P02 if there is nothing, 0A000 for what is not supported.
pub(super) fn read_path(text: &str) -> Result<Path> {
    if text.trim().is_empty() {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(Error::input(message).with_code("22P02"));
    }
    let mut reader = PathReader { rest: text, depth: 0, is_in_filter: false, is_in_subscript: false };
    let is_strict = reader.word("strict");
    if !is_strict {
        reader.word("lax");
    }
    let node = reader.any()?;
    match reader.rest.trim().is_empty() {
        true => Ok(Path { is_strict, node }),
        false => Err(reader.invalid()),
    }
}

struct PathReader<'a> {
    rest: &'a str,
    depth: usize,
    is_in_filter: bool,
    is_in_subscript: bool,
}

impl PathReader<'_> {
    fn invalid(&self) -> Error {
        let message = match self.rest.trim_start().chars().next() {
            Some(letter) => format!("syntax error at or near \"{letter}\" of jsonpath input"),
            None => "syntax error at end of jsonpath input".to_owned(),
        };
        Error::input(message).with_code(NO_PATH)
    }

    fn sign(&mut self, sign: &str) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.invalid()) }
    }

    /// A word that does not go on.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(word) {
            Some(behind) if !behind.starts_with(is_letter) => {
                self.rest = behind;
                true
            }
            _ => false,
        }
    }

    fn any(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::input("stack depth limit exceeded").with_code("54001"));
        }
        let mut left = self.all()?;
        while self.sign("||") {
            let right = self.all()?;
            left = Node::Or(self.predicate(left)?, self.predicate(right)?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn all(&mut self) -> Result<Node> {
        let mut left = self.test()?;
        while self.sign("&&") {
            let right = self.test()?;
            left = Node::And(self.predicate(left)?, self.predicate(right)?);
        }
        Ok(left)
    }

    /// What must be true or false. Fails with 42601 if it is a value.
    fn predicate(&self, node: Node) -> Result<Box<Node>> {
        if node.is_predicate() { Ok(Box::new(node)) } else { Err(self.invalid()) }
    }

    /// What must be a value. Fails with 42601 if it is true or false.
    fn value(&self, node: Node) -> Result<Box<Node>> {
        if node.is_predicate() { Err(self.invalid()) } else { Ok(Box::new(node)) }
    }

    fn exists(&mut self) -> Result<Node> {
        let inner = self.within()?;
        Ok(Node::Exists(self.value(inner)?))
    }

    fn within(&mut self) -> Result<Node> {
        self.expect("(")?;
        let inner = self.any()?;
        self.expect(")")?;
        Ok(inner)
    }

    fn test(&mut self) -> Result<Node> {
        let rest = self.rest.trim_start();
        if rest.starts_with('!') && !rest.starts_with("!=") {
            self.sign("!");
            let inner = if self.word("exists") { self.exists()? } else { self.within()? };
            return Ok(Node::Not(self.predicate(inner)?));
        }
        let left = self.sum()?;
        let signs = [
            ("==", Sign::Equal),
            ("!=", Sign::NotEqual),
            ("<>", Sign::NotEqual),
            ("<=", Sign::LessOrEqual),
            (">=", Sign::GreaterOrEqual),
            ("<", Sign::Less),
            (">", Sign::Greater),
        ];
        for (text, sign) in signs {
            if self.sign(text) {
                let right = self.sum()?;
                return Ok(Node::Compare(self.value(left)?, sign, self.value(right)?));
            }
        }
        if self.word("starts") {
            if !self.word("with") {
                return Err(self.invalid());
            }
            return match self.primary()? {
                start @ (Node::Value(Json::Text(_)) | Node::Variable(_)) => {
                    Ok(Node::StartsWith(self.value(left)?, Box::new(start)))
                }
                _ => Err(self.invalid()),
            };
        }
        if self.word("like_regex") {
            let pattern = self.quoted()?;
            let flags = if self.word("flag") { self.quoted()? } else { String::new() };
            let regex = regex_of(&pattern, &flags)?;
            return Ok(Node::LikeRegex(self.value(left)?, Box::new(Like { regex, pattern, flags })));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Node> {
        let mut left = self.product()?;
        loop {
            let Some(sign) = ['+', '-'].into_iter().find(|sign| self.sign(sign.encode_utf8(&mut [0; 4]))) else {
                return Ok(left);
            };
            let right = self.product()?;
            left = Node::Arithmetic(sign, self.value(left)?, self.value(right)?);
        }
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.signed()?;
        loop {
            let Some(sign) = ['*', '/', '%'].into_iter().find(|sign| self.sign(sign.encode_utf8(&mut [0; 4]))) else {
                return Ok(left);
            };
            let right = self.signed()?;
            left = Node::Arithmetic(sign, self.value(left)?, self.value(right)?);
        }
    }

    fn signed(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::input("stack depth limit exceeded").with_code("54001"));
        }
        let node = match ['+', '-'].into_iter().find(|sign| self.sign(sign.encode_utf8(&mut [0; 4]))) {
            Some(sign) => match self.signed()? {
                Node::Value(Json::Number(number)) => Node::Value(Json::Number(with_sign(sign, number))),
                inner => Node::Signed(sign == '-', self.value(inner)?),
            },
            None => self.stepped()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    /// A value and the steps behind it.
    fn stepped(&mut self) -> Result<Node> {
        let node = self.primary()?;
        let steps = self.steps()?;
        Ok(if steps.is_empty() { node } else { Node::Steps(Box::new(node), steps) })
    }

    fn primary(&mut self) -> Result<Node> {
        if self.word("exists") {
            return self.exists();
        }
        if self.rest.trim_start().starts_with('(') {
            let inner = self.within()?;
            if self.word("is") {
                return match self.word("unknown") {
                    true => Ok(Node::IsUnknown(self.predicate(inner)?)),
                    false => Err(self.invalid()),
                };
            }
            return Ok(inner);
        }
        for (word, value) in [("true", Json::Boolean(true)), ("false", Json::Boolean(false)), ("null", Json::Null)] {
            if self.word(word) {
                return Ok(Node::Value(value));
            }
        }
        if self.word("last") {
            return match self.is_in_subscript {
                true => Ok(Node::Last),
                false => Err(Error::input("LAST is allowed only in array subscripts").with_code(NO_PATH)),
            };
        }
        let rest = self.rest.trim_start();
        match rest.bytes().next() {
            Some(b'"') => Ok(Node::Value(Json::Text(self.quoted()?))),
            Some(b'0'..=b'9' | b'.') => self.number().map(Node::Value),
            Some(b'@') => {
                self.sign("@");
                match self.is_in_filter {
                    true => Ok(Node::Current),
                    false => Err(Error::input("@ is not allowed in root expressions").with_code(NO_PATH)),
                }
            }
            Some(b'$') => {
                self.rest = &rest[1..];
                Ok(match self.rest.chars().next() {
                    Some('"') => Node::Variable(self.quoted()?),
                    Some(letter) if is_letter(letter) => Node::Variable(self.name()?),
                    _ => Node::Root,
                })
            }
            _ => Err(self.invalid()),
        }
    }

    fn number(&mut self) -> Result<Json> {
        let rest = self.rest.trim_start();
        let bytes = rest.as_bytes();
        let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = digits(0);
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            end = digits(end + 1 + sign);
        }
        let whole = if rest.starts_with('.') { "0" } else { "" };
        let number = parse(&format!("{whole}{}", &rest[..end])).map_err(|_| self.invalid())?;
        self.rest = &rest[end..];
        match self.rest.starts_with(is_letter) {
            true => Err(Error::input("trailing junk after numeric literal of jsonpath input").with_code(NO_PATH)),
            false => Ok(number),
        }
    }

    /// A string in double quotes.
    fn quoted(&mut self) -> Result<String> {
        let rest = self.rest.trim_start();
        if !rest.starts_with('"') {
            return Err(self.invalid());
        }
        let mut is_escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '"' && !is_escaped;
            is_escaped = *letter == '\\' && !is_escaped;
            ends
        });
        let (end, _) = end.ok_or_else(|| self.invalid())?;
        let Json::Text(text) = parse(&rest[..=end]).map_err(|_| self.invalid())? else {
            return Err(self.invalid());
        };
        self.rest = &rest[end + 1..];
        Ok(text)
    }

    fn name(&mut self) -> Result<String> {
        let rest = self.rest.trim_start();
        let length = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.invalid());
        }
        self.rest = &rest[length..];
        Ok(rest[..length].to_owned())
    }

    fn steps(&mut self) -> Result<Vec<PathStep>> {
        let mut steps = Vec::new();
        loop {
            if self.sign("?") {
                let outer = std::mem::replace(&mut self.is_in_filter, true);
                let test = self.within()?;
                steps.push(PathStep::Filter(self.predicate(test)?));
                self.is_in_filter = outer;
            } else if self.sign("[") {
                steps.push(self.places()?);
                self.expect("]")?;
            } else if self.sign(".") {
                steps.push(self.member()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn places(&mut self) -> Result<PathStep> {
        if self.sign("*") {
            return Ok(PathStep::Elements);
        }
        let outer = std::mem::replace(&mut self.is_in_subscript, true);
        let mut places = Vec::new();
        loop {
            let from = self.sum()?;
            let to = if self.word("to") { Some(self.sum()?) } else { None };
            if from.is_predicate() || to.as_ref().is_some_and(Node::is_predicate) {
                return Err(self.invalid());
            }
            places.push((from, to));
            if !self.sign(",") {
                break;
            }
        }
        self.is_in_subscript = outer;
        Ok(PathStep::Places(places))
    }

    fn member(&mut self) -> Result<PathStep> {
        if self.sign("**") {
            return self.levels();
        }
        if self.sign("*") {
            return Ok(PathStep::Members);
        }
        if self.rest.trim_start().starts_with('"') {
            return Ok(PathStep::Member(self.quoted()?));
        }
        let name = self.name()?;
        if !self.rest.trim_start().starts_with('(') {
            return Ok(PathStep::Member(name));
        }
        let Some(method) = METHODS.iter().find(|method| **method == name) else { return Err(self.invalid()) };
        self.sign("(");
        if *method == "datetime" && self.rest.trim_start().starts_with('"') {
            let template = self.quoted()?;
            self.expect(")")?;
            return Ok(PathStep::Datetime(template));
        }
        self.expect(")")?;
        Ok(PathStep::Method(method))
    }

    fn levels(&mut self) -> Result<PathStep> {
        if !self.sign("{") {
            return Ok(PathStep::Levels(Some(0), None));
        }
        let from = self.level()?;
        let to = if self.word("to") { self.level()? } else { from };
        self.expect("}")?;
        Ok(PathStep::Levels(from, to))
    }

    fn level(&mut self) -> Result<Option<u32>> {
        if self.word("last") {
            return Ok(None);
        }
        let Json::Number(number) = self.number()? else { return Err(self.invalid()) };
        number.parse().map(Some).map_err(|_| self.invalid())
    }
}

/// A number behind a sign.
fn with_sign(sign: char, number: String) -> String {
    match (sign, number.strip_prefix('-')) {
        ('+', _) => number,
        (_, Some(positive)) => positive.to_owned(),
        // Zero has no sign.
        _ if number.bytes().all(|byte| matches!(byte, b'0' | b'.')) => number,
        _ => format!("-{number}"),
    }
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The regular expression of `like_regex`. Fails with 2201B if it is none, 42601 for a flag that is none, 0A000 for the
/// flag `x`, as in PostgreSQL.
fn regex_of(pattern: &str, flags: &str) -> Result<regex::Regex> {
    if flags.contains('x') && !flags.contains('q') {
        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(Error::input(message).with_code("0A000"));
    }
    let pattern = if flags.contains('q') { regex::escape(pattern) } else { pattern.to_owned() };
    let mut builder = regex::RegexBuilder::new(&pattern);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            's' => builder.dot_matches_new_line(true),
            'm' => builder.multi_line(true),
            'x' | 'q' => &mut builder,
            other => {
                let message = "invalid input syntax for type jsonpath";
                let hint = format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                return Err(Error::input(message).with_code(NO_PATH).with_hint(hint));
            }
        };
    }
    builder.build().map_err(|_| Error::input("invalid regular expression of a path").with_code("2201B"))
}
