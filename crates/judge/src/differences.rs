//! The list of differences that are meant: `tests/differences.txt`. Each has a name, under which `docs/sql.md` tells
//! it.

use std::path::Path;

use diligence_base::{Error, Result};
use regex::Regex;

use crate::verdict::Difference;

/// A difference that is meant.
#[derive(Debug)]
pub struct MeantDifference {
    /// Its name.
    pub name: String,
    /// Why it is meant.
    pub reason: String,
    kind: Option<String>,
    statement: Option<Regex>,
    postgres: Option<Regex>,
    ours: Option<Regex>,
}

impl MeantDifference {
    /// Whether it is the one that a statement shows.
    pub fn is_shown_by(&self, statement: &str, difference: &Difference) -> bool {
        let fits = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
        self.kind.as_ref().is_none_or(|kind| *kind == difference.kind.to_string())
            && fits(&self.statement, statement)
            && fits(&self.postgres, &difference.postgres)
            && fits(&self.ours, &difference.ours)
    }
}

/// Reads the list.
///
/// Fails with kind `Input` if the file cannot be read, or if an entry has no name, no reason or no pattern.
pub fn load(path: &Path) -> Result<Vec<MeantDifference>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Error::input(format!("{}: {error}", path.display())))?;
    parse(&text).map_err(|message| Error::input(format!("{}: {message}", path.display())))
}

/// The entries of a list: lines of `key: value`, with an empty line between entries. A line that begins with `#` is a
/// comment.
fn parse(text: &str) -> std::result::Result<Vec<MeantDifference>, String> {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.is_empty()).filter(|entry| !entry.is_empty()).map(entry).collect()
}

fn entry(lines: &[&str]) -> std::result::Result<MeantDifference, String> {
    let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    let pattern = |key: &str| {
        let compiled = value(key).map(|pattern| Regex::new(&format!("(?is){pattern}"))).transpose();
        compiled.map_err(|error| format!("{key}: {error}"))
    };
    let first = lines.first().copied().unwrap_or_default();
    let name = value("difference").ok_or(format!("an entry without a name: {first}"))?.to_owned();
    let reason = value("reason").ok_or(format!("'{name}' has no reason"))?.to_owned();
    let (statement, postgres, ours) = (pattern("statement")?, pattern("postgres")?, pattern("ours")?);
    if statement.is_none() && postgres.is_none() && ours.is_none() {
        return Err(format!("'{name}' has no pattern"));
    }
    Ok(MeantDifference { name, reason, kind: value("kind").map(str::to_owned), statement, postgres, ours })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::DifferenceKind;

    /// The section of `docs/sql.md` that tells the differences.
    const SECTION: &str = "## Differences from PostgreSQL";

    #[test]
    fn every_difference_that_is_meant_is_documented_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let listed = load(&root.join("tests/differences.txt")).unwrap();
        let document = std::fs::read_to_string(root.join("docs/sql.md")).unwrap();
        let (_, section) = document.split_once(SECTION).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let documented: Vec<_> =
            section.lines().filter_map(|line| line.strip_prefix("- **")?.split_once(".**")).collect();
        let documented: Vec<_> = documented.into_iter().map(|(name, _)| name).collect();
        let listed: std::collections::BTreeSet<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(documented.into_iter().collect::<std::collections::BTreeSet<_>>(), listed);
    }

    #[test]
    fn an_entry_fits_if_all_of_its_patterns_do() {
        let list = parse(
            "# About\ndifference: Ties\nreason: because\nkind: rows\nours: NULL\n\ndifference: B\nreason: c\nstatement: ^select b",
        );
        let list = list.unwrap();
        let difference = |kind, ours: &str| Difference {
            kind,
            detail: String::new(),
            postgres: "[] (1)".to_owned(),
            ours: ours.to_owned(),
        };
        assert!(list[0].is_shown_by("SELECT a", &difference(DifferenceKind::Rows, "(NULL)")));
        assert!(!list[0].is_shown_by("SELECT a", &difference(DifferenceKind::Types, "(NULL)")));
        assert!(!list[0].is_shown_by("SELECT a", &difference(DifferenceKind::Rows, "(2)")));
        assert!(list[1].is_shown_by("SELECT b", &difference(DifferenceKind::Rows, "(2)")));
        assert!(parse("difference: a\nours: b").is_err() && parse("difference: a\nreason: b").is_err());
    }
}
