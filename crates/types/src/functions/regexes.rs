//! PostgreSQL's regular expressions (manual, section 9.7.3) as those of the `regex` crate.
//!
//! Classes, word boundaries, escapes and options are translated. Patterns that look around or refer back are matched by
//! another crate ([`Matcher`]); of their alternatives the first that fits is taken, where PostgreSQL takes the longest.

use std::collections::HashMap;
use std::sync::Arc;

use diligence_base::{Error, Result};

use super::errors::value_error;
use super::matcher::{Matcher, STEPS_MAX};
use super::reach::{Flags, Reach};

/// Bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 16 << 20;
/// Patterns that are kept compiled while a column is computed.
const KEPT_MAX: usize = 64;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// The pattern.
    pub regex: Matcher,
    /// Option `g`: all matches.
    pub is_global: bool,
}

/// Which of the matches that begin at one place is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Meaning {
    /// The one of the first alternatives that fit, each quantifier as it says.
    First,
    /// PostgreSQL's: the longest, or the shortest if the first quantifier is a short one.
    Farthest,
}

/// Patterns that a column has seen, compiled.
#[derive(Default)]
pub(super) struct Patterns {
    kept: HashMap<(String, String, Meaning), Arc<Compiled>>,
    last: Option<(String, String, Meaning, Arc<Compiled>)>,
}

impl Patterns {
    /// The pattern with options, whose matches take the first alternative that fits. Fails with 2201B if it is none,
    /// 22023 for an unknown option, 0A000 for what is not supported.
    pub(super) fn get(&mut self, pattern: &str, options: &str) -> Result<Arc<Compiled>> {
        self.compiled(pattern, options, Meaning::First)
    }

    /// The pattern with options, whose matches reach as far as PostgreSQL's. Fails likewise.
    pub(super) fn farthest(&mut self, pattern: &str, options: &str) -> Result<Arc<Compiled>> {
        self.compiled(pattern, options, Meaning::Farthest)
    }

    fn compiled(&mut self, pattern: &str, options: &str, meaning: Meaning) -> Result<Arc<Compiled>> {
        if let Some((last, last_options, last_meaning, compiled)) = &self.last
            && last == pattern
            && last_options == options
            && *last_meaning == meaning
        {
            return Ok(compiled.clone());
        }
        let key = (pattern.to_owned(), options.to_owned(), meaning);
        let compiled = match self.kept.get(&key) {
            Some(compiled) => compiled.clone(),
            None => {
                let compiled = Arc::new(compile(pattern, options, meaning)?);
                if self.kept.len() >= KEPT_MAX {
                    self.kept.clear();
                }
                self.kept.insert(key, compiled.clone());
                compiled
            }
        };
        self.last = Some((pattern.to_owned(), options.to_owned(), meaning, compiled.clone()));
        Ok(compiled)
    }
}

/// Whether a text has a match of a pattern. Fails with 2201B if it is none.
pub fn is_match(text: &str, pattern: &str) -> Result<bool> {
    compile(pattern, "", Meaning::First)?.regex.is_match(text)
}

/// The first match of a pattern in a text, and what its groups have found, empty where they have found nothing. `None`
/// without a match. Fails with 2201B if it is no pattern.
pub fn groups_of_match(text: &str, pattern: &str) -> Result<Option<Vec<String>>> {
    let compiled = compile(pattern, "", Meaning::First)?;
    let Some(found) = compiled.regex.first(text)? else { return Ok(None) };
    let groups =
        (0..found.len()).map(|group| found.get(group).map_or_else(String::new, |part| part.as_str().to_owned()));
    Ok(Some(groups.collect()))
}

#[derive(Clone, Copy, Default)]
struct Options {
    is_global: bool,
    ignores_case: bool,
    /// `n` and `p`: a dot and a negated class stop at the end of a line.
    dot_stops: bool,
    /// `n` and `w`: `^` and `$` stand at lines.
    by_lines: bool,
    is_expanded: bool,
    is_literal: bool,
}

impl Options {
    fn set(&mut self, option: char) -> Result<()> {
        match option {
            'g' => self.is_global = true,
            'i' => self.ignores_case = true,
            'c' => self.ignores_case = false,
            'n' | 'm' => (self.dot_stops, self.by_lines) = (true, true),
            'p' => (self.dot_stops, self.by_lines) = (true, false),
            'w' => (self.dot_stops, self.by_lines) = (false, true),
            's' => (self.dot_stops, self.by_lines) = (false, false),
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'q' => self.is_literal = true,
            'b' | 'e' => self.is_literal = false,
            other => return Err(value_error(format!("invalid regular expression option: \"{other}\""), "22023")),
        }
        Ok(())
    }
}

fn compile(pattern: &str, given: &str, meaning: Meaning) -> Result<Compiled> {
    let mut options = Options::default();
    given.chars().try_for_each(|option| options.set(option))?;
    let mut pattern = pattern;
    if let Some(rest) = pattern.strip_prefix("***=") {
        (options.is_literal, pattern) = (true, rest);
    } else if let Some(rest) = pattern.strip_prefix("***:") {
        pattern = rest;
    }
    if !options.is_literal
        && let Some((embedded, rest)) = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && !embedded.is_empty()
        && embedded.chars().all(|option| option.is_ascii_lowercase())
    {
        embedded.chars().try_for_each(|option| options.set(option))?;
        pattern = rest;
    }
    let (translated, looks) = match options.is_literal {
        true => (regex::escape(pattern), false),
        false => Translation::of(pattern, options)?,
    };
    if looks {
        // A word's borders have other names there.
        let translated = translated.replace("\\b{start}", "(?:\\b(?=\\w))").replace("\\b{end}", "(?:\\b(?<=\\w))");
        let regex = fancy_regex::RegexBuilder::new(&translated)
            .case_insensitive(options.ignores_case)
            .multi_line(options.by_lines)
            .dot_matches_new_line(!options.dot_stops)
            .backtrack_limit(STEPS_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| match error.to_string() {
                text if text.contains("arenthesis") => invalid("parentheses () not balanced"),
                text => invalid(&text),
            })?;
        return Ok(Compiled { regex: Matcher::Looking(Box::new(regex)), is_global: options.is_global });
    }
    let regex = regex::RegexBuilder::new(&translated)
        .case_insensitive(options.ignores_case)
        .multi_line(options.by_lines)
        .dot_matches_new_line(!options.dot_stops)
        .ignore_whitespace(false)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| invalid(&reason(&error)))?;
    let Options { ignores_case, by_lines, dot_stops, .. } = options;
    let reach = match meaning {
        Meaning::First => None,
        Meaning::Farthest => Reach::of(&translated, Flags { ignores_case, by_lines, dot_stops }, &regex),
    };
    let regex = reach.map_or(Matcher::Plain(regex), |reach| Matcher::Reaching(Box::new(reach)));
    Ok(Compiled { regex, is_global: options.is_global })
}

/// What is wrong with a pattern, in PostgreSQL's words where they are clear.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let text = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match text {
        text if text.contains("unclosed group") || text.contains("unopened group") => {
            "parentheses () not balanced".to_owned()
        }
        text if text.contains("unclosed character class") => "brackets [] not balanced".to_owned(),
        text if text.contains("missing expression") => "quantifier operand invalid".to_owned(),
        text if text.contains("size limit") => "regular expression is too complex".to_owned(),
        text if text.contains("range") => "invalid character range".to_owned(),
        text => text.to_owned(),
    }
}

fn invalid(reason: &str) -> Error {
    value_error(format!("invalid regular expression: {reason}"), "2201B")
}

/// A pattern while it is translated.
struct Translation<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    written: String,
    options: Options,
    /// Whether a quantifier has just been written; one more `?` makes it a short one.
    after_quantifier: bool,
    /// Whether it looks around or refers back.
    looks: bool,
}

impl<'p> Translation<'p> {
    /// The pattern, and whether it looks around or refers back.
    fn of(pattern: &'p str, options: Options) -> Result<(String, bool)> {
        let rest = pattern.chars().peekable();
        let mut translation = Self { rest, written: String::new(), options, after_quantifier: false, looks: false };
        while let Some(character) = translation.rest.next() {
            translation.character(character)?;
        }
        Ok((translation.written, translation.looks))
    }

    fn character(&mut self, character: char) -> Result<()> {
        let was_quantifier = std::mem::take(&mut self.after_quantifier);
        match character {
            '?' if was_quantifier => self.written.push('?'),
            '*' | '+' if was_quantifier => return Err(invalid("quantifier operand invalid")),
            '*' | '+' | '?' => {
                self.after_quantifier = true;
                self.written.push(character);
            }
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.group()?,
            // A brace that does not begin a bound stands for itself.
            '{' if !self.rest.peek().is_some_and(char::is_ascii_digit) => self.written.push_str("\\{"),
            '}' => match self.is_in_bound() {
                true => {
                    self.after_quantifier = true;
                    self.written.push('}');
                }
                false => self.written.push_str("\\}"),
            },
            character if self.options.is_expanded && character.is_whitespace() => {}
            '#' if self.options.is_expanded => while self.rest.next_if(|next| *next != '\n').is_some() {},
            // `$` is the very end, not one before a line's end.
            '$' if !self.options.by_lines => self.written.push_str("\\z"),
            '^' if !self.options.by_lines => self.written.push_str("\\A"),
            other => self.written.push(other),
        }
        Ok(())
    }

    fn is_in_bound(&self) -> bool {
        let bound = self.written.rfind('{').map(|start| &self.written[start..]);
        bound.is_some_and(|bound| {
            bound.len() > 1 && bound[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
        })
    }

    fn group(&mut self) -> Result<()> {
        self.written.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.rest.next() {
            Some(':') => {
                self.written.push_str("?:");
                Ok(())
            }
            Some(sign @ ('=' | '!')) => {
                self.looks = true;
                self.written.extend(['?', sign]);
                Ok(())
            }
            Some('P') if self.rest.next_if_eq(&'<').is_some() => self.name_of_group(),
            Some('<') => {
                let Some(sign) = self.rest.next_if(|sign| matches!(sign, '=' | '!')) else {
                    return self.name_of_group();
                };
                self.looks = true;
                self.written.extend(['?', '<', sign]);
                Ok(())
            }
            Some('#') => {
                // A comment.
                self.written.pop();
                while self.rest.next().is_some_and(|next| next != ')') {}
                Ok(())
            }
            _ => Err(invalid("quantifier operand invalid")),
        }
    }

    /// The name of a group, which DuckDB's patterns may have: `(?P<year>\d+)`. The group goes by its number.
    fn name_of_group(&mut self) -> Result<()> {
        let mut has_letters = false;
        loop {
            match self.rest.next() {
                Some('>') if has_letters => return Ok(()),
                Some(letter) if letter.is_alphanumeric() || letter == '_' => has_letters = true,
                _ => return Err(invalid("quantifier operand invalid")),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        let escaped = self.rest.next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
        match escaped {
            'A' => self.written.push_str("\\A"),
            'Z' => self.written.push_str("\\z"),
            'm' => self.written.push_str("\\b{start}"),
            'M' => self.written.push_str("\\b{end}"),
            'y' => self.written.push_str("\\b"),
            'Y' => self.written.push_str("\\B"),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => self.written.extend(['\\', escaped]),
            group @ '1'..='9' => {
                self.looks = true;
                self.written.extend(['\\', group]);
            }
            other => {
                let meant = self.meant(other)?;
                self.written.push_str(&regex::escape(meant.encode_utf8(&mut [0; 4])));
            }
        }
        Ok(())
    }

    /// The character that an escape stands for.
    fn meant(&mut self, escaped: char) -> Result<char> {
        Ok(match escaped {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0' => '\0',
            'c' => char::from(self.rest.next().map_or(0, |of| (of as u32 & 0x1f) as u8)),
            'u' => self.coded(4)?,
            'U' => self.coded(8)?,
            'x' => self.coded(usize::MAX)?,
            other if other.is_ascii_alphanumeric() => return Err(invalid("invalid escape \\ sequence")),
            other => other,
        })
    }

    fn coded(&mut self, digits: usize) -> Result<char> {
        let mut code = 0_u32;
        let mut count = 0;
        while count < digits
            && let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(16))
        {
            self.rest.next();
            code = code.wrapping_mul(16).wrapping_add(digit);
            count += 1;
        }
        let is_complete = count == digits || (digits == usize::MAX && count > 0);
        char::from_u32(code).filter(|_| is_complete).ok_or_else(|| invalid("invalid escape \\ sequence"))
    }

    /// A class in brackets. The crate's own operators in classes (`&&`, `--`, `~~`, inner brackets) stand for
    /// themselves.
    fn class(&mut self) -> Result<()> {
        let is_word_boundary = |rest: &str| rest.starts_with("[:<:]]") || rest.starts_with("[:>:]]");
        let ahead: String = self.rest.clone().take(6).collect();
        if is_word_boundary(&ahead) {
            self.written.push_str(if ahead.starts_with("[:<") { "\\b{start}" } else { "\\b{end}" });
            self.rest.by_ref().take(6).for_each(drop);
            return Ok(());
        }
        self.written.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.written.push('^');
            if self.options.dot_stops {
                self.written.push_str("\\n");
            }
        }
        let mut is_first = true;
        loop {
            let next = self.rest.next().ok_or_else(|| invalid("brackets [] not balanced"))?;
            match next {
                ']' if !is_first => break,
                '[' => match self.rest.peek() {
                    Some(':') => {
                        self.rest.next();
                        let name: String = std::iter::from_fn(|| self.rest.next_if(|next| *next != ':')).collect();
                        let is_closed = self.rest.next() == Some(':') && self.rest.next() == Some(']');
                        if !is_closed {
                            return Err(invalid("brackets [] not balanced"));
                        }
                        self.written.push_str(named_class(&name)?);
                    }
                    Some('.' | '=') => {
                        let mark = self.rest.next();
                        let inner = self.rest.next().ok_or_else(|| invalid("invalid collating element"))?;
                        if self.rest.next() != mark || self.rest.next() != Some(']') {
                            return Err(invalid("invalid collating element"));
                        }
                        self.literal(inner);
                    }
                    _ => self.literal('['),
                },
                '\\' => {
                    let escaped = self.rest.next().ok_or_else(|| invalid("brackets [] not balanced"))?;
                    match escaped {
                        'd' | 'D' | 's' | 'S' | 'w' | 'W' => self.written.extend(['\\', escaped]),
                        other => {
                            let meant = self.meant(other)?;
                            self.literal(meant);
                        }
                    }
                }
                '-' => match is_first || self.rest.peek() == Some(&']') {
                    true => self.literal('-'),
                    false => self.written.push('-'),
                },
                other => self.literal(other),
            }
            is_first = false;
        }
        self.written.push(']');
        Ok(())
    }

    fn literal(&mut self, character: char) {
        if !character.is_alphanumeric() && character.is_ascii() && !character.is_ascii_control() && character != ' ' {
            self.written.push('\\');
        }
        self.written.push(character);
    }
}

fn named_class(name: &str) -> Result<&'static str> {
    Ok(match name {
        "alpha" => "\\p{Alphabetic}",
        "digit" => "\\d",
        "alnum" => "\\p{Alphabetic}\\d",
        "upper" => "\\p{Uppercase}",
        "lower" => "\\p{Lowercase}",
        "space" => "\\s",
        "blank" => " \\t",
        "punct" => "\\p{Punctuation}\\p{Symbol}",
        "cntrl" => "\\p{Cc}",
        "xdigit" => "0-9A-Fa-f",
        "print" => "\\P{Other}",
        "graph" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}",
        "word" => "\\w",
        "ascii" => "\\x00-\\x7f",
        _ => return Err(invalid("invalid character class")),
    })
}
