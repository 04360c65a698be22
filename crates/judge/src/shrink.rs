//! Makes a statement smaller while something about it stays: a delta debugger over the tree of its tokens.
//!
//! A step leaves out a run of tokens, puts NULL in the place of a value or a call, puts an argument in the place of a
//! call, or keeps a subquery alone. Most of what comes of it is no SQL; the caller says whether what was to stay is
//! still there.
//!
//! Invariant: an ORDER BY on which an answer depends stays whole, or goes with all that depends on it.

use std::collections::HashSet;

use crate::tokens::{self, Content, Node};

/// The smallest statement that was found within so many tries.
///
/// A sweep tries the steps in order, large ones first. After one that succeeds it goes on from where it was, with the
/// steps of what is left; sweeps end with the first one in which nothing succeeds.
pub fn shrink(statement: &str, tries_max: usize, mut stays: impl FnMut(&str) -> bool) -> String {
    let mut best = tokens::parse(statement);
    let mut tried = HashSet::new();
    let (mut at, mut is_smaller) = (0, false);
    let mut candidates = candidates(&best);
    loop {
        let Some(candidate) = candidates.get(at) else {
            if !is_smaller {
                break;
            }
            (at, is_smaller) = (0, false);
            continue;
        };
        at += 1;
        let text = tokens::text(candidate);
        if !tried.insert(text.clone()) {
            continue;
        }
        if tried.len() > tries_max {
            break;
        }
        if stays(&text) {
            best = candidate.clone();
            candidates = self::candidates(&best);
            // The steps before were in vain for more than what is left.
            at = at.saturating_sub(1).min(candidates.len());
            is_smaller = true;
        }
    }
    tokens::text(&best)
}

/// What one step makes of a tree, as far as it is smaller.
fn candidates(nodes: &[Node]) -> Vec<Vec<Node>> {
    let size = tokens::size(nodes);
    let mut candidates: Vec<_> = subqueries(nodes).into_iter().chain(edits(nodes, true)).collect();
    candidates.retain(|candidate| tokens::size(candidate) < size);
    candidates
}

/// The subqueries of a tree, each as a statement of its own.
fn subqueries(nodes: &[Node]) -> Vec<Vec<Node>> {
    let mut found = Vec::new();
    for inside in nodes.iter().filter_map(Node::inside) {
        if begins_query(inside) {
            found.push(inside.to_vec());
        }
        found.extend(subqueries(inside));
    }
    found
}

/// Whether a statement is a query, which changes nothing however often it is asked.
pub fn is_query(statement: &str) -> bool {
    let first = statement.trim_start().split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    ["SELECT", "WITH", "VALUES", "FROM", ""].iter().any(|word| first.eq_ignore_ascii_case(word))
}

fn begins_query(nodes: &[Node]) -> bool {
    nodes.first().is_some_and(|first| ["SELECT", "WITH", "VALUES"].iter().any(|word| first.is(word)))
}

/// All smaller versions of one level of a tree, and of the levels below it.
fn edits(nodes: &[Node], is_statement: bool) -> Vec<Vec<Node>> {
    let mut edits = Vec::new();
    let kept = order_that_counts(nodes, is_statement);
    let may_touch = |from: usize, to: usize| kept.is_none_or(|(start, end)| to <= start || end <= from);
    let mut length = nodes.len();
    while length > 0 {
        for from in 0..=nodes.len() - length {
            let to = from + length;
            if may_touch(from, to) || frees_order(nodes, from, to) {
                edits.push([&nodes[..from], &nodes[to..]].concat());
            }
        }
        // Long runs are tried in halves, short ones in every length.
        length = if length > 12 { length / 2 } else { length - 1 };
    }
    for (at, node) in nodes.iter().enumerate() {
        if !may_touch(at, at + 1) {
            continue;
        }
        let replaced = |from: usize, by: &[Node]| [&nodes[..from], by, &nodes[at + 1..]].concat();
        if let Some(inside) = node.inside() {
            let call = at - usize::from(node.is_glued && at > 0 && nodes[at - 1].word().is_some());
            for from in [at, call] {
                edits.push(replaced(from, &[null()]));
                for argument in inside.split(|node| node.is(",")).filter(|argument| !argument.is_empty()) {
                    edits.push(replaced(from, &spaced(argument)));
                    edits.push(replaced(from, &[parenthesized(argument)]));
                }
            }
            edits.extend(
                self::edits(inside, begins_query(inside))
                    .into_iter()
                    .map(|edit| replaced(at, &[with_inside(node, edit)])),
            );
        } else if !node.is_null() {
            edits.push(replaced(at, &[null()]));
        }
    }
    edits
}

/// The range of an ORDER BY that decides which rows there are, or what a function makes of them.
fn order_that_counts(nodes: &[Node], is_statement: bool) -> Option<(usize, usize)> {
    let start = nodes.windows(2).rposition(|pair| pair[0].is("ORDER") && pair[1].is("BY"))?;
    let ends = ["LIMIT", "OFFSET", "FETCH", "ROWS", "RANGE", "GROUPS"];
    let end = (start..nodes.len()).find(|at| ends.iter().any(|word| nodes[*at].is(word)));
    let counts = !is_statement || decides_rows(nodes);
    counts.then_some((start, end.unwrap_or(nodes.len())))
}

/// Whether a level takes some of its rows by their order.
fn decides_rows(nodes: &[Node]) -> bool {
    let takes = |node: &Node| ["LIMIT", "OFFSET", "FETCH"].iter().any(|word| node.is(word));
    nodes.iter().any(takes) || nodes.windows(2).any(|pair| pair[0].is("DISTINCT") && pair[1].is("ON"))
}

/// Whether leaving out the run leaves out all that depends on the order. The order of a window or of an aggregate only
/// goes with the whole call.
fn frees_order(nodes: &[Node], from: usize, to: usize) -> bool {
    let rest = [&nodes[..from], &nodes[to..]].concat();
    begins_query(nodes) && !decides_rows(&rest)
}

fn null() -> Node {
    Node::leaf("NULL", false)
}

/// An argument in the place of a call, with a space before it.
fn spaced(argument: &[Node]) -> Vec<Node> {
    let mut nodes = argument.to_vec();
    if let Some(first) = nodes.first_mut() {
        first.is_glued = false;
    }
    nodes
}

fn parenthesized(argument: &[Node]) -> Node {
    Node::group("(", argument.to_vec(), ")", false)
}

fn with_inside(node: &Node, inside: Vec<Node>) -> Node {
    match &node.content {
        Content::Group { open, close, .. } => Node::group(open, inside, close, node.is_glued),
        Content::Leaf(_) => node.clone(),
    }
}

/// A statement without what differs from one of a kind to another: values and made-up names.
pub fn skeleton(statement: &str) -> String {
    fn plain(nodes: &[Node]) -> Vec<Node> {
        let leaf = |text: &str| match text.as_bytes() {
            [b'0'..=b'9' | b'.', _, ..] | [b'0'..=b'9'] => "0".to_owned(),
            [b'\'', ..] | [_, b'\'', ..] => "''".to_owned(),
            [b'a'..=b'z', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                text[..1].to_owned()
            }
            _ => text.to_owned(),
        };
        let one = |node: &Node| match &node.content {
            Content::Leaf(text) => Node::leaf(&leaf(&text.to_ascii_lowercase()), node.is_glued),
            Content::Group { inside, .. } => with_inside(node, plain(inside)),
        };
        nodes.iter().map(one).collect()
    }
    tokens::text(&plain(&tokens::parse(statement)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_goes() {
        let statement = "SELECT a, upper(concat('x', bad(b + 1))) AS c2, (SELECT max(d) FROM u WHERE u.k = t.k) \
                         FROM t JOIN v ON t.k = v.k WHERE a > 3 GROUP BY a ORDER BY 1";
        let smallest = shrink(statement, 10_000, |text| text.contains("SELECT") && text.contains("bad("));
        assert_eq!(smallest, "SELECT bad()");
        let smallest = shrink(statement, 10_000, |text| text.starts_with("SELECT") && text.contains("u.k"));
        assert_eq!(smallest, "SELECT u.k");
        assert_eq!(shrink(statement, 10_000, |_| false), tokens::text(&tokens::parse(statement)));
    }

    #[test]
    fn an_order_that_counts_stays() {
        let still_ordered = |text: &str| text.contains("LIMIT") && text.starts_with("SELECT");
        let smallest = shrink("SELECT a, b FROM t WHERE x ORDER BY a, b LIMIT 2", 10_000, still_ordered);
        assert!(smallest.contains("ORDER BY a, b LIMIT"), "{smallest}");
        let smallest =
            shrink("SELECT string_agg(a, ',' ORDER BY a) FROM t", 10_000, |text| text.contains("string_agg(a"));
        assert!(smallest.contains("ORDER BY a)"), "{smallest}");
        let smallest =
            shrink("SELECT lag(1) OVER (PARTITION BY a ORDER BY b) FROM t", 10_000, |text| text.contains("OVER ("));
        assert!(smallest.contains("ORDER BY b)"), "{smallest}");
        let smallest = shrink("SELECT a FROM t ORDER BY a LIMIT 2", 10_000, |text| text.contains("FROM t"));
        assert_eq!(smallest, "FROM t");
    }

    #[test]
    fn queries_change_nothing() {
        assert!(is_query("SELECT 1") && is_query(" (VALUES (1))") && is_query("from t") && !is_query("INSERT INTO t"));
    }

    #[test]
    fn skeletons_of_like_statements_are_the_same() {
        assert_eq!(skeleton("SELECT r1.a + 12 FROM n AS r1"), skeleton("select R2.A + 3.5 FROM n AS r2"));
        assert_ne!(skeleton("SELECT r1.a + 12 FROM n AS r1"), skeleton("SELECT r1.b + 12 FROM n AS r1"));
    }
}
