//! Links of documents lead somewhere.

use crate::findings::Finding;
use crate::house::House;
use crate::markdown::Document;

/// Relative links to files that do not exist, and anchors of headings that do not exist.
pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in house.files.with_ending(".md") {
        for link in Document::of(text).links() {
            if let Some(problem) = problem(house, path, &link.text) {
                findings.push(Finding {
                    place: format!("{path}:{}", link.line),
                    sentence: format!("the link `{}` {problem}", link.text),
                    key: format!("{path} {}", link.text),
                });
            }
        }
    }
    findings
}

/// What is wrong with a link, and what to do about it.
fn problem(house: &House, from: &str, link: &str) -> Option<String> {
    let is_elsewhere = link.contains("://") || link.starts_with("mailto:");
    if is_elsewhere {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { from.to_string() } else { joined(from, path) };
    if !house.files.has(&target) {
        return Some(format!("leads to `{target}`, which does not exist: correct the link, or remove it"));
    }
    let anchors = Document::of(house.files.text(&target)?).anchors();
    match anchor {
        Some(anchor) if !anchors.iter().any(|one| one == anchor) => Some(format!(
            "leads to a heading that `{target}` does not have: use one of its anchors ({})",
            anchors.join(", ")
        )),
        _ => None,
    }
}

/// The path that a relative `path` means in the file `from`.
pub fn joined(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_that_lead_nowhere_are_found() {
        let readme = "[a](docs/a.md) [b](docs/a.md#part) [c](#top) [d](https://example.org/x)\n\n\
                      [e](docs/b.md) [f](docs/a.md#gone) [g](docs)\n\n# Top";
        let found = check(&House::of(&[("README.md", readme), ("docs/a.md", "## Part\n[up](../README.md)")]));
        let sentences: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[0].starts_with("README.md:3: the link `docs/b.md` leads to `docs/b.md`"), "{sentences:?}");
        assert!(sentences[1].contains("does not have: use one of its anchors (part)"), "{sentences:?}");
    }
}
