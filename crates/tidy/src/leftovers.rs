//! Nothing is left over: no note of work to be done, no printing for debugging, no unfinished code.

use crate::findings::Finding;
use crate::house::House;
use crate::lexer::{Token, tokens};

/// Words that mark unfinished work.
const NOTES: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Macros that do not belong into code that is merged.
const MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];

/// Files of other languages that are looked at for notes.
const ENDINGS: [&str; 5] = [".md", ".py", ".sh", ".toml", ".js"];

/// Notes in comments and documents, and macros in code.
pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in house.files.with_ending(".rs") {
        let tokens = tokens(text);
        findings.extend(tokens.iter().enumerate().filter_map(|(at, token)| leftover(path, token, tokens.get(at + 1))));
    }
    for (path, text) in house.files.all().filter(|(path, _)| ENDINGS.iter().any(|ending| path.ends_with(ending))) {
        let lines = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, note(line)?)));
        findings.extend(lines.map(|(number, note)| of_note(path, number, note)));
    }
    findings
}

fn leftover(path: &str, token: &Token, next: Option<&Token>) -> Option<Finding> {
    if token.is_comment() {
        return note(token.text).map(|note| of_note(path, token.line, note));
    }
    let name = *MACROS.iter().find(|name| token.is(name))?;
    next.filter(|next| next.is("!"))?;
    Some(Finding {
        place: format!("{path}:{}", token.line),
        sentence: format!("`{name}!` is left over: remove it, or finish what it stands for"),
        key: format!("{path} {name}"),
    })
}

/// A note in a text, as a word of its own and not between backticks.
fn note(text: &str) -> Option<&'static str> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut words = prose.split(|c: char| !c.is_alphanumeric());
    words.find_map(|word| NOTES.into_iter().find(|note| *note == word))
}

fn of_note(path: &str, line: usize, note: &str) -> Finding {
    Finding {
        place: format!("{path}:{line}"),
        sentence: format!("`{note}` is left over: do it, or open an issue and remove the note"),
        key: format!("{path} {note}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_unfinished_code_are_found() {
        let source = "//! A. `TODO` is a word here.\n// TODO: more\nfn f() { dbg!(1); let todo = 2; todo!() }\nconst A: &str = \"FIXME\";";
        let found = check(&House::of(&[("a.rs", source), ("b.md", "# B\n\nFIXME"), ("c.md", "`XXX` and XXXL")]));
        let keys: Vec<_> = found.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(keys, ["a.rs TODO", "a.rs dbg", "a.rs todo", "b.md FIXME"]);
    }
}
