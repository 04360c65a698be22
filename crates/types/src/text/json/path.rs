//! SQL/JSON paths (manual, section 9.16.2) in lax mode: read once, then followed through values.
//!
//! What there is: members, elements, filters with comparisons, `exists`, `starts with`, `like_regex` and `is unknown`,
//! the methods `size`, `type`, `double`, `abs`, `ceiling` and `floor`. Arithmetic, variables and strict mode are
//! refused.

use std::cmp::Ordering;

use diligence_base::{Error, Result};

use super::Json;
use super::key::write_key;

/// How deep a path may nest.
const DEPTH_MAX: usize = 100;

/// A path, or a predicate over paths.
#[derive(Clone, Debug)]
pub(crate) enum JsonPath {
    /// A root and the steps from there.
    Steps {
        is_current: bool,
        steps: Vec<PathStep>,
    },
    /// A literal.
    Value(Json),
    Not(Box<JsonPath>),
    And(Box<JsonPath>, Box<JsonPath>),
    Or(Box<JsonPath>, Box<JsonPath>),
    Compare(Box<JsonPath>, Sign, Box<JsonPath>),
    Exists(Box<JsonPath>),
    StartsWith(Box<JsonPath>, String),
    LikeRegex(Box<JsonPath>, regex::Regex),
    IsUnknown(Box<JsonPath>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sign {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug)]
pub(crate) enum PathStep {
    Member(String),
    Members,
    Elements,
    /// Places from and to, each counted from the end if so.
    Places(Vec<((bool, i64), (bool, i64))>),
    Filter(Box<JsonPath>),
    Method(String),
}

struct PathReader<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

/// Reads a path. Fails with 42601 if it is none, 0A000 for what is not supported.
pub(crate) fn read_path(text: &str) -> Result<JsonPath> {
    let mut reader = PathReader { text, rest: text, depth: 0 };
    if reader.word("strict") {
        return Err(Error::unsupported("strict paths of JSON are not supported").with_code("0A000"));
    }
    reader.word("lax");
    let path = reader.any()?;
    if reader.rest.trim().is_empty() { Ok(path) } else { Err(reader.invalid()) }
}

impl PathReader<'_> {
    fn invalid(&self) -> Error {
        let near = self.rest.trim_start().chars().next();
        let message = match near {
            Some(letter) => format!("syntax error at or near \"{letter}\" of jsonpath input"),
            None => "syntax error at end of jsonpath input".to_owned(),
        };
        Error::input(message).with_code("42601").with_hint(format!("the path is '{}'", self.text))
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
        let goes_on = |rest: &str| rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        match rest.strip_prefix(word) {
            Some(rest) if !goes_on(rest) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn any(&mut self) -> Result<JsonPath> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::input("stack depth limit exceeded").with_code("54001"));
        }
        let mut left = self.all()?;
        while self.sign("||") {
            left = JsonPath::Or(Box::new(left), Box::new(self.all()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn all(&mut self) -> Result<JsonPath> {
        let mut left = self.test()?;
        while self.sign("&&") {
            left = JsonPath::And(Box::new(left), Box::new(self.test()?));
        }
        Ok(left)
    }

    fn test(&mut self) -> Result<JsonPath> {
        let rest = self.rest.trim_start();
        if rest.starts_with('!') && !rest.starts_with("!=") {
            self.sign("!");
            self.expect("(")?;
            let inner = self.any()?;
            self.expect(")")?;
            return Ok(JsonPath::Not(Box::new(inner)));
        }
        let left = self.operand()?;
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
                return Ok(JsonPath::Compare(Box::new(left), sign, Box::new(self.operand()?)));
            }
        }
        if self.word("starts") {
            let is_with = self.word("with");
            return match self.operand()? {
                JsonPath::Value(Json::Text(start)) if is_with => Ok(JsonPath::StartsWith(Box::new(left), start)),
                _ => Err(self.invalid()),
            };
        }
        if self.word("like_regex") {
            let JsonPath::Value(Json::Text(pattern)) = self.operand()? else { return Err(self.invalid()) };
            let ignores_case =
                self.word("flag") && matches!(self.operand()?, JsonPath::Value(Json::Text(f)) if f == "i");
            let regex = regex::RegexBuilder::new(&pattern).case_insensitive(ignores_case).build();
            let regex = regex.map_err(|_| Error::input("invalid regular expression of a path").with_code("2201B"))?;
            return Ok(JsonPath::LikeRegex(Box::new(left), regex));
        }
        if ["+", "-", "*", "/", "%"].iter().any(|sign| self.sign(sign)) {
            return Err(Error::unsupported("arithmetic in paths of JSON is not supported").with_code("0A000"));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<JsonPath> {
        if self.word("exists") {
            self.expect("(")?;
            let inner = self.any()?;
            self.expect(")")?;
            return Ok(JsonPath::Exists(Box::new(inner)));
        }
        if self.sign("(") {
            let inner = self.any()?;
            self.expect(")")?;
            if self.word("is") {
                return match self.word("unknown") {
                    true => Ok(JsonPath::IsUnknown(Box::new(inner))),
                    false => Err(self.invalid()),
                };
            }
            return Ok(inner);
        }
        for (word, value) in [("true", Json::Boolean(true)), ("false", Json::Boolean(false)), ("null", Json::Null)] {
            if self.word(word) {
                return Ok(JsonPath::Value(value));
            }
        }
        let rest = self.rest.trim_start();
        match rest.bytes().next() {
            Some(b'"') => Ok(JsonPath::Value(Json::Text(self.quoted()?))),
            Some(b'-' | b'0'..=b'9') => {
                let length = rest.bytes().skip(1).take_while(|byte| matches!(byte, b'0'..=b'9' | b'.')).count() + 1;
                let number = super::parse(&rest[..length]).map_err(|_| self.invalid())?;
                self.rest = &rest[length..];
                Ok(JsonPath::Value(number))
            }
            Some(root @ (b'$' | b'@')) => {
                self.rest = &rest[1..];
                if self.rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == '"') {
                    return Err(Error::unsupported("variables in paths of JSON are not supported").with_code("0A000"));
                }
                Ok(JsonPath::Steps { is_current: root == b'@', steps: self.steps()? })
            }
            _ => Err(self.invalid()),
        }
    }

    /// A string in double quotes.
    fn quoted(&mut self) -> Result<String> {
        let rest = self.rest.trim_start();
        let mut is_escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '"' && !is_escaped;
            is_escaped = *letter == '\\' && !is_escaped;
            ends
        });
        let (end, _) = end.ok_or_else(|| self.invalid())?;
        let Json::Text(text) = super::parse(&rest[..=end]).map_err(|_| self.invalid())? else {
            return Err(self.invalid());
        };
        self.rest = &rest[end + 1..];
        Ok(text)
    }

    fn steps(&mut self) -> Result<Vec<PathStep>> {
        let mut steps = Vec::new();
        loop {
            if self.sign("?") {
                self.expect("(")?;
                steps.push(PathStep::Filter(Box::new(self.any()?)));
                self.expect(")")?;
            } else if self.sign("[") {
                if self.sign("*") {
                    steps.push(PathStep::Elements);
                } else {
                    let mut places = Vec::new();
                    loop {
                        let from = self.place()?;
                        let to = if self.word("to") { self.place()? } else { from };
                        places.push((from, to));
                        if !self.sign(",") {
                            break;
                        }
                    }
                    steps.push(PathStep::Places(places));
                }
                self.expect("]")?;
            } else if self.sign(".") {
                if self.sign("*") {
                    steps.push(PathStep::Members);
                    continue;
                }
                let rest = self.rest.trim_start();
                if rest.starts_with('"') {
                    steps.push(PathStep::Member(self.quoted()?));
                    continue;
                }
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
                let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                if length == 0 {
                    return Err(self.invalid());
                }
                let name = rest[..length].to_owned();
                self.rest = &rest[length..];
                if self.rest.trim_start().starts_with('(') {
                    self.sign("(");
                    self.expect(")")?;
                    if !["size", "type", "double", "abs", "ceiling", "floor"].contains(&name.as_str()) {
                        let message = format!("the method .{name}() of paths of JSON is not supported");
                        return Err(Error::unsupported(message).with_code("0A000"));
                    }
                    steps.push(PathStep::Method(name));
                } else {
                    steps.push(PathStep::Member(name));
                }
            } else {
                return Ok(steps);
            }
        }
    }

    /// `2`, `last`, `last - 1`.
    fn place(&mut self) -> Result<(bool, i64)> {
        let is_back = self.word("last");
        if is_back && !self.sign("-") {
            return Ok((true, 0));
        }
        let rest = self.rest.trim_start();
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..length].parse().map_err(|_| self.invalid())?;
        self.rest = &rest[length..];
        Ok((is_back, number))
    }
}

impl JsonPath {
    /// The values that the path leads to.
    pub(crate) fn follow(&self, root: &Json) -> Vec<Json> {
        self.values(root, root)
    }

    fn values(&self, root: &Json, current: &Json) -> Vec<Json> {
        match self {
            Self::Value(value) => vec![value.clone()],
            Self::Steps { is_current, steps } => {
                let start = if *is_current { current } else { root };
                steps.iter().fold(vec![start.clone()], |values, step| {
                    values.iter().flat_map(|value| step.follow(root, value)).collect()
                })
            }
            predicate => vec![match predicate.holds(root, current) {
                Some(value) => Json::Boolean(value),
                None => Json::Null,
            }],
        }
    }

    /// Whether a predicate is true; `None` if it is unknown.
    fn holds(&self, root: &Json, current: &Json) -> Option<bool> {
        let any = |path: &JsonPath, test: &dyn Fn(&Json) -> Option<bool>| {
            let values = unwrapped(path.values(root, current));
            let mut result = Some(false);
            for value in &values {
                match test(value) {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => result = None,
                }
            }
            result
        };
        match self {
            Self::Not(inner) => inner.holds(root, current).map(|value| !value),
            Self::And(left, right) => match (left.holds(root, current), right.holds(root, current)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(left, right) => match (left.holds(root, current), right.holds(root, current)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Compare(left, sign, right) => {
                let others = unwrapped(right.values(root, current));
                any(left, &|value| {
                    let tests = others.iter().map(|other| compare(value, *sign, other)).collect::<Vec<_>>();
                    match tests.contains(&Some(true)) {
                        true => Some(true),
                        false if tests.contains(&None) => None,
                        false => Some(false),
                    }
                })
            }
            Self::Exists(path) => Some(!path.values(root, current).is_empty()),
            Self::StartsWith(path, start) => any(path, &|value| match value {
                Json::Text(text) => Some(text.starts_with(start.as_str())),
                _ => None,
            }),
            Self::LikeRegex(path, regex) => any(path, &|value| match value {
                Json::Text(text) => Some(regex.is_match(text)),
                _ => None,
            }),
            Self::IsUnknown(inner) => Some(inner.holds(root, current).is_none()),
            Self::Value(_) | Self::Steps { .. } => match self.values(root, current).as_slice() {
                [Json::Boolean(value)] => Some(*value),
                _ => None,
            },
        }
    }
}

/// Elements in place of arrays.
fn unwrapped(values: Vec<Json>) -> Vec<Json> {
    let each = |value| match value {
        Json::Array(items) => items,
        one => vec![one],
    };
    values.into_iter().flat_map(each).collect()
}

/// `None` for kinds that are not compared.
fn compare(left: &Json, sign: Sign, right: &Json) -> Option<bool> {
    let order = match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        // Null is not equal to anything else, and not less.
        (Json::Null, other) | (other, Json::Null) if !matches!(other, Json::Array(_) | Json::Object(_)) => {
            return Some(sign == Sign::NotEqual);
        }
        (Json::Boolean(_), Json::Boolean(_)) | (Json::Number(_), Json::Number(_)) | (Json::Text(_), Json::Text(_)) => {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            write_key(&mut a, left);
            write_key(&mut b, right);
            a.cmp(&b)
        }
        _ => return None,
    };
    Some(match sign {
        Sign::Equal => order.is_eq(),
        Sign::NotEqual => order.is_ne(),
        Sign::Less => order.is_lt(),
        Sign::LessOrEqual => order.is_le(),
        Sign::Greater => order.is_gt(),
        Sign::GreaterOrEqual => order.is_ge(),
    })
}

impl PathStep {
    fn follow(&self, root: &Json, value: &Json) -> Vec<Json> {
        match (self, value) {
            (Self::Member(name), Json::Object(members)) => {
                members.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
            }
            (Self::Members, Json::Object(members)) => members.iter().map(|(_, value)| value.clone()).collect(),
            // Of an array the members of its elements are meant.
            (Self::Member(_) | Self::Members, Json::Array(items)) => {
                let objects = items.iter().filter(|item| matches!(item, Json::Object(_)));
                objects.flat_map(|item| self.follow(root, item)).collect()
            }
            (Self::Elements, Json::Array(items)) => items.clone(),
            // What is no array is an array of one.
            (Self::Elements, one) => vec![one.clone()],
            (Self::Places(places), value) => {
                let one = std::slice::from_ref(value);
                let items = if let Json::Array(items) = value { items.as_slice() } else { one };
                let place = |(is_back, number): (bool, i64)| match is_back {
                    true => items.len() as i64 - 1 - number,
                    false => number,
                };
                let each = places.iter().flat_map(|(from, to)| {
                    let (from, to) = (place(*from).max(0), place(*to).min(items.len() as i64 - 1));
                    (from..=to).filter_map(|at| items.get(usize::try_from(at).ok()?).cloned())
                });
                each.collect()
            }
            (Self::Filter(test), Json::Array(items)) => {
                items.iter().filter(|item| test.holds(root, item) == Some(true)).cloned().collect()
            }
            (Self::Filter(test), one) => match test.holds(root, one) {
                Some(true) => vec![one.clone()],
                _ => vec![],
            },
            (Self::Method(name), value) => method(name, value).into_iter().collect(),
            _ => vec![],
        }
    }
}

fn method(name: &str, value: &Json) -> Option<Json> {
    let number = || match value {
        Json::Number(text) | Json::Text(text) => text.parse::<f64>().ok(),
        _ => None,
    };
    let shown = |number: f64| super::normal_number(&number.to_string()).ok().map(Json::Number);
    match name {
        "size" => {
            let size = if let Json::Array(items) = value { items.len() } else { 1 };
            Some(Json::Number(size.to_string()))
        }
        "type" => Some(Json::Text(
            match value {
                Json::Null => "null",
                Json::Boolean(_) => "boolean",
                Json::Number(_) => "number",
                Json::Text(_) => "string",
                Json::Array(_) => "array",
                Json::Object(_) => "object",
            }
            .to_owned(),
        )),
        "double" => number().and_then(shown),
        "abs" => number().map(f64::abs).and_then(shown),
        "ceiling" => number().map(f64::ceil).and_then(shown),
        _ => number().map(f64::floor).and_then(shown),
    }
}
