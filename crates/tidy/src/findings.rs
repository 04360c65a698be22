//! What the checks find, and what is allowed although they find it.

use std::collections::BTreeSet;
use std::fmt;

/// Something that is not in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where it is: a file, with a line where that helps.
    pub place: String,
    /// What it is and what to do about it, in a sentence.
    pub sentence: String,
    /// What an entry of the list of exceptions names it by; it outlives changes of lines.
    pub key: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.sentence)
    }
}

/// Findings of one check less the exceptions for it, which are lines of `allowed` such as `check | key | why`. A `*` in
/// a key stands for anything.
///
/// An exception that is no longer needed is a finding as well, so the list can only become shorter.
pub fn without_allowed(check: &str, findings: Vec<Finding>, allowed: &str) -> Vec<Finding> {
    let mut needed = BTreeSet::new();
    let mut left = Vec::new();
    let entries: Vec<_> = allowed.lines().enumerate().filter_map(|(at, line)| entry(at + 1, line)).collect();
    for finding in findings {
        match entries.iter().find(|entry| entry.check == check && entry.is_for(&finding.key)) {
            Some(entry) => _ = needed.insert(entry.line),
            None => left.push(finding),
        }
    }
    let unneeded = entries.iter().filter(|entry| entry.check == check && !needed.contains(&entry.line));
    left.extend(unneeded.map(|entry| Finding {
        place: format!("crates/tidy/allowed.txt:{}", entry.line),
        sentence: format!("`{}` is in order now: take this line away", entry.key),
        key: entry.key.to_string(),
    }));
    left
}

/// A line of the list of exceptions.
struct Entry<'a> {
    line: usize,
    check: &'a str,
    key: &'a str,
}

impl Entry<'_> {
    fn is_for(&self, key: &str) -> bool {
        match self.key.split_once('*') {
            Some((start, end)) => key.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
            None => self.key == key,
        }
    }
}

fn entry(line: usize, text: &str) -> Option<Entry<'_>> {
    if text.starts_with('#') {
        return None;
    }
    let mut parts = text.split(" | ");
    let (check, key, _why) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Entry { line, check, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_without_its_finding_is_a_finding() {
        let finding = |key: &str| Finding { place: String::new(), sentence: String::new(), key: key.to_string() };
        let allowed = "# why\nwidth | a | because\nwidth | b | because\nwidth | e * | because\nnames | c | because";
        let left = without_allowed("width", vec![finding("a"), finding("d"), finding("e 1"), finding("e 2")], allowed);
        let keys: Vec<_> = left.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["d", "b"]);
    }
}
