//! Lines of documents, of comments and of scripts are short enough for a terminal.

use std::collections::BTreeSet;

use crate::findings::Finding;
use crate::house::House;
use crate::lexer::tokens;
use crate::markdown::{Document, LineKind};

/// Characters in a line.
const COLUMNS_MAX: usize = 120;

/// How many characters of a line name it in the list of exceptions.
const KEY_CHARS: usize = 40;

/// Folders of scripts, whose lines are checked whatever they are: nothing formats them.
const SCRIPTS: [&str; 2] = [".ci/", "scripts/"];

/// Lines of documents, comments and scripts that are too long. Tables, headings, blocks of code, and lines that cannot
/// be broken (one link, or one code span) may be longer.
pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in house.files.with_ending(".md") {
        for line in Document::of(text).lines {
            if line.kind == LineKind::Prose && is_breakable(line.text) {
                findings.extend(finding(path, line.number, line.text));
            }
        }
    }
    for (path, text) in house.files.with_ending(".rs") {
        let lines: Vec<&str> = text.lines().collect();
        for number in comment_lines(text) {
            findings.extend(lines.get(number - 1).and_then(|line| finding(path, number, line)));
        }
    }
    let is_script = |path: &str| SCRIPTS.iter().any(|folder| path.starts_with(folder));
    for (path, text) in house.files.all().filter(|(path, _)| is_script(path)) {
        let lines = text.lines().enumerate();
        findings.extend(lines.filter_map(|(index, line)| finding(path, index + 1, line)));
    }
    findings
}

/// The lines in which there is a comment, from 1.
fn comment_lines(text: &str) -> BTreeSet<usize> {
    let comments = tokens(text).into_iter().filter(|token| token.is_comment());
    comments.flat_map(|token| token.line..=token.line + token.text.matches('\n').count()).collect()
}

fn finding(path: &str, number: usize, line: &str) -> Option<Finding> {
    let columns = line.chars().count();
    let sentence = format!("the line has {columns} columns: break it after at most {COLUMNS_MAX}");
    let key = format!("{path} {}", line.trim().chars().take(KEY_CHARS).collect::<String>());
    (columns > COLUMNS_MAX).then(|| Finding { place: format!("{path}:{number}"), sentence, key })
}

/// Whether a line has a blank at which it can be broken: one outside of code spans and links, not at its beginning.
fn is_breakable(line: &str) -> bool {
    let start = line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '*' | '!'));
    let (mut is_code, mut depth) = (false, 0);
    for c in start.chars().take(COLUMNS_MAX) {
        match c {
            '`' => is_code = !is_code,
            '[' | '(' if !is_code => depth += 1,
            ']' | ')' if !is_code => depth -= 1,
            ' ' if !is_code && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_prose_and_comments_are_found() {
        let long = "word ".repeat(25);
        let code = format!("`{long}`, and so on");
        let document = format!("{long}\n\n| {long} |\n\n```\n{long}\n```\n\n{code}\n\n[{long}](a)\n");
        let source = format!("//! short\n/// {long}\nconst A: &str = \"{long}\"; fn f() {{}}\n");
        let script = format!("#!/bin/sh\necho {long}\n# {long}\n");
        let files =
            [("a.md", &document), ("crates/a/src/lib.rs", &source), (".ci/run", &script), ("other/run", &script)];
        let found = check(&House::of(&files.map(|(path, text)| (path, text.as_str()))));
        let places: Vec<_> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["a.md:1", "crates/a/src/lib.rs:2", ".ci/run:2", ".ci/run:3"]);
        assert!(found[0].sentence.contains("125 columns: break it after at most 120"), "{found:?}");
    }
}
