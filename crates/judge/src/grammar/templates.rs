//! The templates of values in `templates.txt`, which says how they are written.

use std::sync::LazyLock;

use super::types::SqlType;

/// A template of a value.
#[derive(Debug)]
pub struct Template {
    /// What it gives.
    pub result: Slot,
    /// Whether it may fail for its values.
    pub is_risky: bool,
    /// Whether it needs parentheses within another.
    pub is_operator: bool,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// This text.
    Text(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A value.
    Value(Slot),
    /// The name of the type that the variable stands for.
    TypeName,
    /// The text of the first value again.
    First,
}

/// The type of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// This type.
    Of(SqlType),
    /// A whole number from 0 to 5.
    Small,
    /// One of the types, the same in all places of the template.
    Variable(&'static [SqlType]),
}

/// The templates by section.
#[derive(Debug, Default)]
pub struct Templates {
    /// Functions and operators.
    pub functions: Vec<Template>,
    /// Aggregates.
    pub aggregates: Vec<Template>,
    /// Window functions for which the order of rows must be total.
    pub windows: Vec<Template>,
    /// Window functions for which it need not be.
    pub ranks: Vec<Template>,
}

/// The templates.
pub static TEMPLATES: LazyLock<Templates> = LazyLock::new(|| parse(include_str!("templates.txt")));

impl Template {
    /// Whether it gives values of a type.
    pub fn gives(&self, wanted: SqlType) -> bool {
        match self.result {
            Slot::Of(result) => result == wanted,
            Slot::Small => false,
            Slot::Variable(types) => types.contains(&wanted),
        }
    }

    /// The types that its variable may stand for; empty without one.
    pub fn variable(&self) -> &'static [SqlType] {
        let slots = self.parts.iter().filter_map(|part| match part {
            Part::Value(slot) => Some(slot),
            _ => None,
        });
        let variable = slots.chain([&self.result]).find_map(|slot| match slot {
            Slot::Variable(types) => Some(*types),
            _ => None,
        });
        variable.unwrap_or_default()
    }

    /// Whether a window can have it as its function: an aggregate without an order or DISTINCT of its own.
    pub fn is_for_windows(&self) -> bool {
        !self.parts.iter().any(
            |part| matches!(part, Part::Text(text) if ["ORDER BY", "DISTINCT"].iter().any(|word| text.contains(word))),
        )
    }
}

fn parse(text: &str) -> Templates {
    let mut templates = Templates::default();
    let mut section = "";
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            continue;
        }
        let into = match section {
            "functions" => &mut templates.functions,
            "aggregates" => &mut templates.aggregates,
            "windows" => &mut templates.windows,
            _ => &mut templates.ranks,
        };
        into.extend(template(line));
    }
    templates
}

fn template(line: &str) -> Option<Template> {
    let (is_risky, line) = match line.strip_prefix("! ") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (result, text) = line.split_once(": ")?;
    Some(Template { result: slot(result)?, is_risky, is_operator: !is_call(text), parts: parts(text) })
}

/// Whether a text is one call, or a CASE.
fn is_call(text: &str) -> bool {
    if text.starts_with("CASE ") && text.ends_with(" END") {
        return true;
    }
    let name = text.find(|letter: char| !(letter.is_alphanumeric() || "_{};".contains(letter))).unwrap_or(text.len());
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices().skip(name) {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at > name && at + 1 == text.len();
        }
    }
    false
}

fn slot(name: &str) -> Option<Slot> {
    Some(match name {
        "T" => Slot::Variable(&SqlType::ALL),
        "O" => Slot::Variable(&SqlType::ORDERED),
        "N" => Slot::Variable(&SqlType::NUMBERS),
        "M" => Slot::Variable(&SqlType::MOMENTS),
        "small" => Slot::Small,
        name => Slot::Of(SqlType::named(name)?),
    })
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((part, length)) = special(rest, first, parts.last()) {
            parts.push(part);
            rest = &rest[length..];
            continue;
        }
        match parts.last_mut() {
            Some(Part::Text(text)) => text.push(first),
            _ => parts.push(Part::Text(first.to_string())),
        }
        rest = &rest[first.len_utf8()..];
    }
    parts
}

/// The part that begins here, if it is not text.
fn special(rest: &str, first: char, before: Option<&Part>) -> Option<(Part, usize)> {
    match first {
        '{' => {
            // Braces of arrays and of identifiers in quotes are text.
            let end = closing_brace(rest)?;
            let choices: Vec<_> = rest[1..end].split(';').map(str::to_owned).collect();
            (choices.len() > 1).then_some((Part::Choice(choices), end + 1))
        }
        '$' if rest[1..].starts_with('1') => Some((Part::First, 2)),
        '$' => {
            let word = rest[1..].find(|letter: char| !letter.is_alphanumeric()).map_or(rest.len(), |end| end + 1);
            let array = word + 2;
            if rest.get(word..array) == Some("[]")
                && let Some(slot) = slot(&rest[1..array])
            {
                return Some((Part::Value(slot), array));
            }
            let slot = slot(&rest[1..word])?;
            let follows_cast = matches!(before, Some(Part::Text(text)) if text.ends_with("::"));
            match (follows_cast, slot) {
                (true, Slot::Variable(_)) => Some((Part::TypeName, word)),
                _ => Some((Part::Value(slot), word)),
            }
        }
        _ => None,
    }
}

/// The brace that closes the first one; braces within count.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_template() {
        let text = include_str!("templates.txt");
        let lines = text.lines().filter(|line| line.contains(": ") && !line.starts_with('#')).count();
        let templates = &*TEMPLATES;
        let sections = [&templates.functions, &templates.aggregates, &templates.windows, &templates.ranks];
        assert_eq!(sections.iter().map(|section| section.len()).sum::<usize>(), lines);
        for template in sections.into_iter().flatten() {
            for part in &template.parts {
                if let Part::Text(text) = part {
                    let names =
                        text.split('$').skip(1).filter(|rest| rest.starts_with(|letter: char| letter.is_alphabetic()));
                    assert_eq!(names.filter(|rest| !rest.starts_with('s')).count(), 0, "{template:?}");
                }
            }
        }
    }

    #[test]
    fn every_type_has_a_function_and_an_aggregate_or_order() {
        for wanted in SqlType::ALL {
            assert!(
                TEMPLATES.functions.iter().any(|template| template.gives(wanted) && !template.is_risky),
                "{wanted:?}"
            );
        }
    }

    #[test]
    fn parts_are_found() {
        let parts = parts("string_agg($text[], {a;'{1}'} ORDER BY $1)::$T '$'");
        let text = |text: &str| Part::Text(text.to_owned());
        let expected = [
            text("string_agg("),
            Part::Value(Slot::Of(SqlType::TextArray)),
            text(", "),
            Part::Choice(vec!["a".to_owned(), "'{1}'".to_owned()]),
            text(" ORDER BY "),
            Part::First,
            text(")::"),
            Part::TypeName,
            text(" '$'"),
        ];
        assert_eq!(parts, expected);
        assert!(is_call("f($a)") && is_call("{a;b}(f(1), 2)") && is_call("CASE x END"));
        assert!(!is_call("f(a) + g(b)") && !is_call("a::text") && !is_call("(a, b) = (c)") && !is_call("(a)[1]"));
    }
}
