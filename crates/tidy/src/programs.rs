//! What the programs of the workspace accept, read from their sources: subcommands and options.
//!
//! The sources declare them with `clap`: `#[arg(long)]` on a field, and variants of an enum that derives `Subcommand`
//! or `ValueEnum`.

use std::collections::BTreeSet;

use crate::files::Files;
use crate::lexer::{Token, TokenKind, tokens};

/// A program.
pub struct Program {
    /// Its name on a command line.
    pub name: &'static str,
    /// The words that may follow its name: subcommands, or values.
    pub subcommands: BTreeSet<String>,
    /// Its long options, without the dashes.
    pub options: BTreeSet<String>,
}

/// The programs and the folders of their sources.
const PROGRAMS: [(&str, &str); 3] =
    [("diligence", "crates/cli/src/"), ("diligence-bench", "crates/bench/src/"), ("diligence-fuzz", "fuzz/src/")];

/// The programs whose sources are there.
pub fn programs(files: &Files) -> Vec<Program> {
    let programs = PROGRAMS.iter().map(|(name, folder)| {
        let mut program =
            Program { name, subcommands: words(&["help"]).collect(), options: words(&["help", "version"]).collect() };
        for (_, text) in files.with_ending(".rs").filter(|(path, _)| path.starts_with(folder)) {
            let tokens: Vec<_> = tokens(text).into_iter().filter(|token| !token.is_comment()).collect();
            program.options.extend(options(&tokens));
            program.subcommands.extend(variants(&tokens));
        }
        program
    });
    programs.filter(|program| program.options.len() > 2).collect()
}

fn words<'a>(words: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    words.iter().map(ToString::to_string)
}

/// The fields with `#[arg(long)]`, by their names on the command line.
fn options(tokens: &[Token]) -> Vec<String> {
    let mut options = Vec::new();
    for at in 0..tokens.len() {
        if !starts(tokens, at, &["#", "[", "arg", "("]) {
            continue;
        }
        let end = after_group(tokens, at + 1);
        let attribute = &tokens[at..end];
        let Some(long) = attribute.iter().position(|token| token.is("long")) else { continue };
        match &attribute[long + 1..] {
            [equals, name, ..] if equals.is("=") => options.push(name.text.trim_matches('"').to_string()),
            _ => options.extend(field(tokens, end).map(|name| name.replace('_', "-"))),
        }
    }
    options
}

/// The name of the field that follows attributes.
fn field(tokens: &[Token], mut at: usize) -> Option<String> {
    while tokens.get(at)?.is("#") {
        at = after_group(tokens, at + 1);
    }
    while tokens.get(at)?.is("pub") {
        at += 1;
        if tokens.get(at)?.is("(") {
            at = after_group(tokens, at);
        }
    }
    tokens.get(at).map(|token| token.text.to_string())
}

/// The variants of enums that are subcommands or values, by their names on the command line.
fn variants(tokens: &[Token]) -> Vec<String> {
    let mut variants = Vec::new();
    for at in 0..tokens.len() {
        if !starts(tokens, at, &["#", "[", "derive", "("]) {
            continue;
        }
        let mut next = after_group(tokens, at + 1);
        if !tokens[at..next].iter().any(|token| token.is("Subcommand") || token.is("ValueEnum")) {
            continue;
        }
        while next < tokens.len() && !tokens[next].is("{") {
            next += 1;
        }
        let end = after_group(tokens, next);
        next += 1;
        while next + 1 < end {
            match &tokens[next] {
                token if token.kind == TokenKind::Word => {
                    variants.push(kebab(token.text));
                    next += 1;
                }
                token if token.is("#") => next = after_group(tokens, next + 1),
                token if token.is("(") || token.is("{") => next = after_group(tokens, next),
                _ => next += 1,
            }
        }
    }
    variants
}

fn starts(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(ahead, word)| tokens.get(at + ahead).is_some_and(|token| token.is(word)))
}

/// The position behind the brackets that open at `at`.
fn after_group(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (ahead, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" | "{" if token.kind == TokenKind::Mark => depth += 1,
            ")" | "]" | "}" if token.kind == TokenKind::Mark => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return ahead + 1;
        }
    }
    tokens.len()
}

/// `SortStudy` as `sort-study`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() && at > 0 {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_subcommands_are_read_from_declarations() {
        let source = "
            #[derive(Debug, Subcommand)]
            pub enum Command { /// Sorts.
                #[command(hide = true)] SortStudy(Sort), Top { a: u8 } }
            struct Sort {
                #[arg(long, value_name = \"N\")] /// Rows.
                pub rows_max: usize,
                #[arg(short = 'f', long = \"file\")]
                files: Vec<PathBuf>,
                #[arg(value_enum)] other: u8,
            }";
        let files = Files::of(&[("crates/cli/src/main.rs", source)]);
        let programs = programs(&files);
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].subcommands.iter().collect::<Vec<_>>(), ["help", "sort-study", "top"]);
        assert_eq!(programs[0].options.iter().collect::<Vec<_>>(), ["file", "help", "rows-max", "version"]);
    }
}
