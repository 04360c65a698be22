//! The variables of the shell, as psql has them: `:name`, `:'name'`, `:"name"` and `:{?name}` in statements and in the
//! arguments of commands.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Stdio;

use super::script::enclosed;
use crate::environment;

/// The variables, by their names.
#[derive(Default)]
pub struct Variables(RefCell<BTreeMap<String, String>>);

/// How a variable stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `:name`
    Plain,
    /// `:'name'`, a string of SQL.
    Text,
    /// `:"name"`, a name of SQL.
    Name,
    /// `:{?name}`, whether there is such a variable.
    Test,
}

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.borrow().get(name).cloned()
    }

    /// Sets a variable. Fails with a message if no variable can have this name.
    pub fn set(&self, name: &str, value: impl Into<String>) -> Result<(), String> {
        if name.is_empty() || !name.chars().all(is_of_name) {
            return Err(format!("'{name}' is no name of a variable; it has letters, digits and underscores"));
        }
        self.0.borrow_mut().insert(name.to_owned(), value.into());
        Ok(())
    }

    /// Removes a variable, if there is one.
    pub fn unset(&self, name: &str) {
        self.0.borrow_mut().remove(name);
    }

    /// All names and values, by name.
    pub fn all(&self) -> Vec<(String, String)> {
        self.0.borrow().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether a variable is on: `on`, `true`, `yes` or `1`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| boolean(&value) == Some(true))
    }

    /// The text with the values of its variables. What is quoted or a comment stays as it is, and so do variables that
    /// are not set.
    pub fn in_statement(&self, text: &str) -> String {
        if self.0.borrow().is_empty() && !text.contains(":{?") {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let rest = &text[at..];
            let length = if rest.starts_with("::") {
                // A cast: what follows is a type.
                out.push_str("::");
                2
            } else if let Some((length, value)) = self.value_at(rest) {
                out.push_str(&value);
                length
            } else {
                let length = match enclosed(&text[..at], rest) {
                    Some(enclosed) => enclosed.length.unwrap_or(rest.len()),
                    None => first.len_utf8(),
                };
                out.push_str(&rest[..length]);
                length
            };
            at += length;
        }
        out
    }

    /// The words of a command's argument, with the values of variables and the output of commands in backquotes. A word
    /// in single quotes may have blanks, and `\n`, `\t` and the like. Fails with a message if a quote does not end, or
    /// a command cannot be run.
    pub fn words(&self, text: &str) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let rest = &text[at..];
            if first.is_whitespace() {
                words.extend(word.take());
                at += first.len_utf8();
                continue;
            }
            let current = word.get_or_insert_default();
            at += if let Some((length, value)) = self.value_at(rest) {
                current.push_str(&value);
                length
            } else {
                match first {
                    '\'' => single_quoted(rest, current).ok_or_else(|| format!("a quote does not end: {text}"))?,
                    '`' => {
                        let end = rest[1..].find('`').ok_or_else(|| format!("a backquote does not end: {text}"))?;
                        current.push_str(&printed(&self.in_statement(&rest[1..=end]))?);
                        end + 2
                    }
                    '"' => {
                        let end = rest[1..].find('"').ok_or_else(|| format!("a quote does not end: {text}"))?;
                        current.push_str(&rest[..end + 2]);
                        end + 2
                    }
                    other => {
                        current.push(other);
                        other.len_utf8()
                    }
                }
            };
        }
        words.extend(word);
        Ok(words)
    }

    /// The length of the variable at the start of the text, and what stands for it; `None` if there is none, or it is
    /// not set.
    fn value_at(&self, text: &str) -> Option<(usize, String)> {
        let (form, name, length) = reference(text)?;
        let value = self.get(name);
        let shown = match form {
            Form::Test => value.map_or("FALSE", |_| "TRUE").to_owned(),
            Form::Plain => value?,
            Form::Text => format!("'{}'", value?.replace('\'', "''")),
            Form::Name => format!("\"{}\"", value?.replace('"', "\"\"")),
        };
        Some((length, shown))
    }
}

fn is_of_name(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// The variable that the text begins with: its form, its name and its length with all signs.
fn reference(text: &str) -> Option<(Form, &str, usize)> {
    let rest = text.strip_prefix(':')?;
    let (form, open, close) = match rest.chars().next()? {
        '\'' => (Form::Text, 1, "'"),
        '"' => (Form::Name, 1, "\""),
        '{' if rest.starts_with("{?") => (Form::Test, 2, "}"),
        _ => (Form::Plain, 0, ""),
    };
    let name = &rest[open..];
    let name = &name[..name.find(|c| !is_of_name(c)).unwrap_or(name.len())];
    let is_whole = !name.is_empty() && rest[open + name.len()..].starts_with(close);
    is_whole.then_some((form, name, 1 + open + name.len() + close.len()))
}

/// Appends the text in single quotes at the start, and gives its length with its quotes; `None` if it does not end.
pub fn single_quoted(text: &str, out: &mut String) -> Option<usize> {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => {
                characters.next();
                out.push('\'');
            }
            '\'' => return Some(at + 1),
            '\\' => out.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                other => other,
            }),
            other => out.push(other),
        }
    }
    None
}

/// What a command of the system prints, without the last end of line.
fn printed(command: &str) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("`{command}` has failed: {why}");
    let mut process = environment::command(command);
    process.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = process.output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| failed(&"its output is not UTF-8"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

/// A boolean as psql reads it: a beginning of true, false, yes or no, `on`, `off`, 1 or 0.
pub fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "on" | "1" => Some(true),
        "off" | "of" | "0" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> Variables {
        let variables = Variables::default();
        all.iter().for_each(|(name, value)| variables.set(name, *value).unwrap());
        variables
    }

    #[test]
    fn statements_get_values() {
        let variables = variables(&[("n", "7"), ("who", "O'Hara \"x\""), ("t", "Odd")]);
        for (text, expected) in [
            ("SELECT :n, :'n', :\"t\"", "SELECT 7, '7', \"Odd\""),
            ("SELECT :'who', :\"who\"", "SELECT 'O''Hara \"x\"', \"O'Hara \"\"x\"\"\""),
            (
                "SELECT a::n, ':n', \":n\", $$:n$$, :other, :'other' -- :n",
                "SELECT a::n, ':n', \":n\", $$:n$$, :other, :'other' -- :n",
            ),
            (
                "SELECT :{?n}, :{?other}, x[1:2], f(a := :n), E'\\':n'",
                "SELECT TRUE, FALSE, x[1:2], f(a := 7), E'\\':n'",
            ),
            ("SELECT /* :n */ :n:n 'open :n", "SELECT /* :n */ 77 'open :n"),
            ("SELECT é :n, : n", "SELECT é 7, : n"),
        ] {
            assert_eq!(variables.in_statement(text), expected, "{text}");
        }
        assert_eq!(Variables::default().in_statement("SELECT :{?n}"), "SELECT FALSE");
    }

    #[test]
    fn arguments_are_words() {
        let variables = variables(&[("n", "7"), ("two", "a b")]);
        let words = |text: &str| variables.words(text).unwrap();
        assert_eq!(words("x  'it''s \\t here' :n:two"), ["x", "it's \t here", "7a b"]);
        assert_eq!(words("'' \"a b\"c :none :'two'"), ["", "\"a b\"c", ":none", "'a b'"]);
        assert_eq!(words("`echo :n` b`printf c`"), ["7", "bc"]);
        assert!(words("").is_empty());
        for open in ["'a", "\"a", "`a", "`exit 3`"] {
            assert!(variables.words(open).is_err(), "{open}");
        }
    }

    #[test]
    fn names_and_booleans_are_those_of_psql() {
        assert!(Variables::default().set("a b", "").is_err() && Variables::default().set("", "").is_err());
        for (text, expected) in
            [("t", Some(true)), ("ON", Some(true)), ("0", Some(false)), ("o", None), ("", None), ("nope", None)]
        {
            assert_eq!(boolean(text), expected, "{text}");
        }
    }
}
