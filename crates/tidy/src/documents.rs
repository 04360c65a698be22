//! What documents name between backticks, and in blocks of shell code, exists.
//!
//! Checked are paths of files and rooms (`engine/plan/width`), Rust paths (`Broker::charge`), commands of our programs
//! with their subcommands and options, settings, system tables, metrics and environment variables. Other spans are SQL,
//! values or names of other programs, of which nothing is known here. The changelog is left out, because it tells what
//! was. A table that tells of the same name in two rows is found, too. Of the comments in Rust files, only names of
//! documents are checked (`docs/sql.md`): `cargo doc` checks links.

use std::collections::BTreeSet;

use crate::findings::Finding;
use crate::house::House;
use crate::lexer::{TokenKind, tokens};
use crate::links::joined;
use crate::markdown::{Document, LineKind, Piece};
use crate::packages::Package;
use crate::programs::{Program, programs};

/// The document of what was.
const CHANGELOG: &str = "CHANGELOG.md";

/// Folders at the root that are made by commands and are not in the repository.
const GENERATED: [&str; 2] = ["data", "target"];

/// Endings of files whose names without a folder are looked for in the whole repository.
const OWN_ENDINGS: [&str; 4] = [".rs", ".py", ".sh", ".md"];

/// The document whose table has the settings.
const SETTINGS: &str = "docs/sql.md";

/// Names in documents of what does not exist.
pub fn check(house: &House) -> Vec<Finding> {
    let known = Known::of(house);
    let mut findings = Vec::new();
    for (path, text) in house.files.with_ending(".md").filter(|(path, _)| *path != CHANGELOG) {
        let document = Document::of(text);
        let spans = document.spans();
        let commands = document.commands();
        let settings = if path == SETTINGS { setting_rows(&document) } else { Vec::new() };
        let of_spans = spans.iter().filter_map(|span| Some((span, known.problem(path, &span.text)?)));
        let of_commands = commands.iter().filter_map(|line| Some((line, known.command_problem(&line.text)?)));
        let of_settings = settings.iter().filter_map(|name| Some((name, known.setting_problem(&name.text)?)));
        for (piece, sentence) in of_spans.chain(of_commands).chain(of_settings) {
            let key = format!("{path} {}", piece.text);
            findings.push(Finding { place: format!("{path}:{}", piece.line), sentence, key });
        }
        findings.extend(told_twice(&document).into_iter().map(|name| Finding {
            place: format!("{path}:{}", name.line),
            sentence: format!("`{}` has two rows in this table: make one row of them", name.text),
            key: format!("{path} {} twice", name.text),
        }));
    }
    findings.extend(house.files.with_ending(".rs").flat_map(|(path, text)| in_comments(house, path, text)));
    findings
}

/// Documents that the comments of a Rust file name and that do not exist.
fn in_comments(house: &House, path: &str, text: &str) -> Vec<Finding> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let comments = tokens(text).into_iter().filter(|token| token.is_comment());
    let names = comments.flat_map(|token| {
        let words = token.text.split(move |c| !is_part(c)).map(|word| word.trim_end_matches('.'));
        words.filter(|word| word.ends_with(".md") && !word.starts_with("//")).map(move |word| (token.line, word))
    });
    let gone = names.filter(|(_, name)| !house.files.has(name) && !house.files.has(&joined(path, name)));
    let findings = gone.map(|(line, name)| Finding {
        place: format!("{path}:{line}"),
        sentence: format!("there is no document `{name}`: name one by its path from the root, or remove it"),
        key: format!("{path} {name}"),
    });
    findings.collect()
}

/// The names that are the first cell of two rows of one table, alone in it.
fn told_twice(document: &Document) -> Vec<Piece> {
    let (mut met, mut twice) = (BTreeSet::new(), Vec::new());
    for line in &document.lines {
        if line.kind != LineKind::Row {
            met.clear();
            continue;
        }
        let cell = line.text.trim().trim_start_matches('|').split('|').next().unwrap_or("").trim();
        let name = cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).filter(|name| !name.contains('`'));
        if let Some(name) = name.filter(|name| !met.insert(*name)) {
            twice.push(Piece { line: line.number, text: name.to_string() });
        }
    }
    twice
}

/// The names in the first column of a table whose header is `setting`.
fn setting_rows(document: &Document) -> Vec<Piece> {
    let mut rows = Vec::new();
    let mut is_settings = false;
    for line in &document.lines {
        let cell = line.text.trim().trim_start_matches('|').split('|').next().unwrap_or("").trim();
        match (line.kind, cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'))) {
            (LineKind::Row, Some(name)) if is_settings => {
                rows.push(Piece { line: line.number, text: name.to_string() });
            }
            (LineKind::Row, _) => is_settings |= cell == "setting",
            _ => is_settings = false,
        }
    }
    rows
}

/// What there is to be named.
struct Known<'a> {
    house: &'a House,
    programs: Vec<Program>,
    /// The texts of string literals in Rust files.
    literals: BTreeSet<&'a str>,
    /// Words of Rust files: identifiers of all kinds.
    words: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(house: &'a House) -> Known<'a> {
        let (mut literals, mut words) = (BTreeSet::new(), BTreeSet::new());
        for token in house.files.with_ending(".rs").flat_map(|(_, text)| tokens(text)) {
            match token.kind {
                TokenKind::Literal => _ = literals.insert(token.text.trim_matches('"')),
                TokenKind::Word => _ = words.insert(token.text),
                _ => {}
            }
        }
        Known { house, programs: programs(&house.files), literals, words }
    }

    /// What is wrong with a code span of a document, and what to do about it.
    fn problem(&self, document: &str, span: &str) -> Option<String> {
        let first = span.split(' ').next().unwrap_or("");
        self.command_problem(span)
            .or_else(|| self.option_problem(span))
            .or_else(|| self.variable_problem(span))
            .or_else(|| self.statement_problem(span))
            .or_else(|| self.path_problem(document, first))
            .or_else(|| self.rust_problem(span))
            .or_else(|| self.metric_problem(span))
    }

    /// A command line of one of our programs, or one that begins with a benchmark.
    fn command_problem(&self, line: &str) -> Option<String> {
        let arguments = arguments(line);
        let is_assignment = |word: &str| word.contains('=') && word.starts_with(|c: char| c.is_ascii_uppercase());
        let words = arguments.iter().map(String::as_str);
        let arguments: Vec<&str> =
            words.skip_while(|word| is_assignment(word) || *word == "$" || *word == "sudo").collect();
        let (name, rest) = arguments.split_first()?;
        if arguments.starts_with(&["cargo", "run"]) {
            let package = rest.iter().skip_while(|word| **word != "-p").nth(1)?;
            let at = rest.iter().position(|word| *word == "--").map_or(rest.len(), |at| at + 1);
            return self.package_problem(package).or_else(|| self.words_problem(package, &rest[at..]));
        }
        let as_program = name.strip_prefix("target/release/").unwrap_or(name);
        if self.programs.iter().any(|program| program.name == as_program) {
            return self.words_problem(as_program, rest);
        }
        let bench = self.programs.iter().find(|program| program.name == "diligence-bench")?;
        let is_benchmark = bench.subcommands.contains(*name) && rest.first().is_some_and(|word| word.starts_with("--"));
        if is_benchmark { self.words_problem(bench.name, rest) } else { None }
    }

    fn package_problem(&self, package: &str) -> Option<String> {
        let name = package.strip_prefix("diligence-")?;
        let is_there = self.house.packages.iter().any(|one| one.name == name);
        (!is_there).then(|| format!("there is no package `{package}`: name one that exists, or remove the command"))
    }

    /// The words behind the name of a program.
    fn words_problem(&self, name: &str, words: &[&str]) -> Option<String> {
        let program = self.programs.iter().find(|program| program.name == name)?;
        if let Some(word) = words.first().filter(|word| is_subcommand(word))
            && !program.subcommands.contains(*word)
        {
            return Some(format!(
                "`{name}` has no subcommand `{word}`: correct it, or remove it (there are {})",
                program.subcommands.iter().cloned().collect::<Vec<_>>().join(", ")
            ));
        }
        let options = words.iter().take_while(|word| **word != "--").filter_map(|word| word.strip_prefix("--"));
        let mut names = options.map(|option| option.split(['=', '[']).next().unwrap_or(option));
        let unknown = names.find(|option| !program.options.contains(*option))?;
        Some(format!("`{name}` has no option `--{unknown}`: correct it, or remove it"))
    }

    /// A span that begins with an option, of whatever program.
    fn option_problem(&self, span: &str) -> Option<String> {
        let is_line = span.starts_with("--") && span.len() > 3 && !span.starts_with("---") && !span.starts_with("-- ");
        if !is_line {
            return None;
        }
        let arguments = arguments(span);
        let options = arguments.iter().filter_map(|word| word.strip_prefix("--"));
        let mut names = options.map(|option| option.split('=').next().unwrap_or(option));
        let unknown = names.find(|option| {
            let text = format!("--{option}");
            !self.programs.iter().any(|program| program.options.contains(*option))
                && !self.other_files().any(|(_, content)| has_word(content, &text))
        })?;
        Some(format!("no program or script has the option `--{unknown}`: correct it, or remove it"))
    }

    fn other_files(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.house.files.all().filter(|(path, _)| !path.ends_with(".md"))
    }

    fn variable_problem(&self, span: &str) -> Option<String> {
        let end = span.find(|c: char| !(c.is_ascii_uppercase() || c == '_')).unwrap_or(span.len());
        let name = &span[..end];
        let is_read = |name: &str| self.other_files().any(|(_, text)| has_word(text, name));
        (name.starts_with("DILIGENCE_") && !is_read(name))
            .then(|| format!("nothing reads the variable `{name}`: name one that exists, or remove it"))
    }

    /// Settings in statements, and system tables.
    fn statement_problem(&self, span: &str) -> Option<String> {
        if let Some(table) = span.strip_prefix("system.") {
            let is_name = !table.is_empty() && table.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            return (is_name && !self.literals.contains(table))
                .then(|| format!("there is no system table `{span}`: name one that exists, or remove it"));
        }
        let rest = ["SET LOCAL ", "SET ", "RESET ", "SHOW "].iter().find_map(|verb| span.strip_prefix(verb))?;
        self.setting_problem(rest.split([' ', '=']).next()?)
    }

    fn setting_problem(&self, name: &str) -> Option<String> {
        let is_ours = name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && name != "name";
        (is_ours && !self.literals.contains(name))
            .then(|| format!("there is no setting `{name}`: name one that exists, or remove it"))
    }

    fn path_problem(&self, document: &str, span: &str) -> Option<String> {
        let is_path = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./*".contains(c));
        if !is_path {
            return None;
        }
        let Some((first, rest)) = span.split_once('/') else {
            let is_own = OWN_ENDINGS.iter().any(|ending| span.len() > ending.len() && span.ends_with(ending));
            let is_there =
                || self.house.files.all().any(|(path, _)| path == span || path.ends_with(&format!("/{span}")));
            return (is_own && !is_there())
                .then(|| format!("there is no file `{span}`: name the one that is meant, or remove it"));
        };
        let package = self.house.packages.iter().find(|package| package.name == first);
        let sibling = joined(document, first);
        let is_ours = package.is_some() || self.house.files.has(first) || self.house.files.has(&sibling);
        if first.is_empty() || GENERATED.contains(&first) || !is_ours {
            return None;
        }
        let mut candidates = vec![span.to_string(), joined(document, span)];
        if let Some(Package { folder, .. }) = package {
            candidates.extend([format!("{folder}/src/{rest}"), format!("{folder}/{rest}")]);
            candidates.extend([format!("{folder}/src/{rest}.rs")]);
        }
        let is_there = candidates.iter().any(|path| self.has(path));
        (!is_there).then(|| format!("there is no `{span}`: name the file or module that is meant, or remove it"))
    }

    /// Whether there is such a file or folder; a star stands for any characters.
    fn has(&self, path: &str) -> bool {
        match path.split_once('*') {
            Some((before, after)) => {
                let fits = |name: &str| name.strip_prefix(before).is_some_and(|rest| rest.ends_with(after));
                self.house.files.all().any(|(name, _)| fits(name))
            }
            None => self.house.files.has(path),
        }
    }

    /// A path of Rust: `package::module::Name`, or `Type::member`.
    fn rust_problem(&self, span: &str) -> Option<String> {
        let is_path = span.contains("::") && span.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
        if !is_path {
            return None;
        }
        let segments: Vec<String> = span.split("::").map(str::to_string).collect();
        let first = segments.first()?;
        let sentence = format!("there is no `{span}`: name what is meant, or remove it");
        let short = first.strip_prefix("diligence_").unwrap_or(first);
        if let Some(package) = self.house.packages.iter().find(|package| package.name == short) {
            let mut trees = package.trees.iter();
            let leads = trees.any(|tree| tree.resolve(0, &segments[1..]).is_some());
            return (!leads).then_some(sentence);
        }
        let is_type = first.starts_with(|c: char| c.is_ascii_uppercase());
        let is_there = segments.iter().all(|segment| self.words.contains(segment.as_str()));
        (is_type && !is_there).then_some(sentence)
    }

    fn metric_problem(&self, span: &str) -> Option<String> {
        let name = span.strip_prefix("diligence_")?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let is_package = self.house.packages.iter().any(|package| package.name == name);
        (is_name && !is_package && !self.literals.contains(name))
            .then(|| format!("there is no metric `{span}`: name one that exists, or remove it"))
    }
}

/// Whether the first word behind a program's name is a subcommand rather than a placeholder, a value or an option.
fn is_subcommand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Whether a text has a word that is not a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let after = text[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

/// The words of the first command of a line, without what is quoted, piped or a comment.
fn arguments(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (quote, c) {
            (Some(mark), c) if mark == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => {
                quote = Some(c);
                word.push(c);
            }
            (None, '|' | ';' | '>' | '&') => break,
            (None, '#') if word.is_empty() => break,
            (None, ' ') => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            }
            (None, c) => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [(&str, &str); 5] = [
        ("crates/engine/Cargo.toml", "[package]\nname = \"diligence-engine\""),
        ("crates/engine/src/lib.rs", "pub mod plan; pub struct Broker; impl Broker { fn charge() {} }"),
        (
            "crates/engine/src/plan.rs",
            "pub struct Plan; const A: [&str; 3] = [\"stages\", \"sort_plan\", \"queries\"];",
        ),
        (
            "crates/cli/src/main.rs",
            "#[derive(Subcommand)] enum Command { Serve } struct A { #[arg(long)] temp_dir: u8 }",
        ),
        ("scripts/install", "echo --prefix $DILIGENCE_DATA"),
    ];

    fn keys(text: &str) -> Vec<String> {
        let files: Vec<_> = SOURCES.into_iter().chain([("docs/sql.md", text)]).collect();
        check(&House::of(&files)).into_iter().map(|finding| finding.key.replace("docs/sql.md ", "")).collect()
    }

    #[test]
    fn what_exists_may_be_named() {
        let text = "`engine/plan` `scripts/install` `crates/*/lib.rs` `engine::plan::Plan` `Broker::charge` `plan.rs` \
                    `diligence serve --temp-dir DIR` `--prefix DIR` `system.stages` `SET sort_plan = 'x'` \
                    `diligence_queries` `DILIGENCE_DATA=x` `text/csv` `/v1/sql` `SET name = value` `std::io`\n\n\
                    | setting |\n|---|\n| `sort_plan` |\n";
        assert_eq!(keys(text), [""; 0]);
    }

    #[test]
    fn what_is_gone_is_found() {
        let spans = [
            "engine/gone",
            "scripts/gone",
            "engine::plan::Gone",
            "Broker::gone",
            "gone.rs",
            "diligence gone",
            "diligence serve --gone",
            "--gone",
            "system.gone",
            "SET gone = 1",
            "diligence_gone",
            "DILIGENCE_GONE",
        ];
        let text = spans.map(|span| format!("`{span}`")).join(" ");
        assert_eq!(keys(&text), spans);
    }

    #[test]
    fn comments_name_documents_that_exist() {
        let source = "//! See docs/a.md and (docs/gone.md).\nconst A: &str = \"docs/other.md\";";
        let found = check(&House::of(&[("src/lib.rs", source), ("docs/a.md", "# A")]));
        assert_eq!(found.iter().map(|finding| finding.key.as_str()).collect::<Vec<_>>(), ["src/lib.rs docs/gone.md"]);
    }

    #[test]
    fn commands_in_blocks_and_settings_in_tables_are_checked() {
        let text = "| setting |\n|---|\n| `gone` |\n\n```sh\nA=1 diligence serve --temp-dir x --gone  # --more\n\
                    diligence serve \"--text\" | x --y\n```\n";
        assert_eq!(keys(text), ["A=1 diligence serve --temp-dir x --gone  # --more", "gone"]);
    }

    #[test]
    fn a_table_tells_of_a_name_once() {
        let text = "| room | what |\n|---|---|\n| `serve` | a |\n| `sql` | b |\n| `serve` | c |\n\n\
                    | room |\n|---|\n| `serve` |\n";
        assert_eq!(keys(text), ["serve twice"]);
    }
}
