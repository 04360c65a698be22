//! Makes a statement smaller while something about it stays: a delta debugger over the tree of its tokens.
//!
//! A step leaves out a run of tokens, puts NULL in the place of a value or a call, puts an argument in the place of a
//! call, or keeps a subquery alone. Most of what comes of it is no SQL; the caller says whether what was to stay is
//! still there.
//!
//! Invariant: an ORDER BY on which an answer depends stays whole, or goes with all that depends on it.

use std::collections::HashSet;

use crate::tokens::{self, Content, Node};

/// Up to this many nodes, runs of every length are tried.
const SHORT_RUN_NODES: usize = 12;

/// A level with more nodes than this is long: trying every run at every place would be too much.
const LONG_LEVEL_NODES: usize = 400;

/// The smallest statement that was found within so many tries.
///
/// A sweep tries the steps in order, large ones first. After one that succeeds it goes on from where it was, with the
/// steps of what is left; sweeps end with the first one in which nothing succeeds.
pub fn shrink(statement: &str, tries_max: usize, mut stays: impl FnMut(&str) -> bool) -> String {
    let mut best = tokens::parse(statement);
    let mut tried = HashSet::new();
    let (mut at, mut is_smaller) = (0, false);
    let mut steps = steps(&best);
    loop {
        let Some(step) = steps.get(at) else {
            if !is_smaller {
                break;
            }
            (at, is_smaller) = (0, false);
            continue;
        };
        let candidate = step.taken(&best, &step.path);
        let text = tokens::text(&candidate);
        if tokens::size(&candidate) >= tokens::size(&best) || !tried.insert(text.clone()) {
            at += 1;
            continue;
        }
        if tried.len() > tries_max {
            break;
        }
        if stays(&text) {
            best = candidate;
            steps = self::steps(&best);
            is_smaller = true;
        } else {
            at += 1;
        }
    }
    tokens::text(&best)
}

/// One way to make a tree smaller.
#[derive(Clone, Debug)]
struct ShrinkStep {
    /// The groups that lead to the level that changes, each by its place in the one around.
    path: Vec<usize>,
    edit: Edit,
}

/// What happens to a level.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// Only this level stays.
    Keep,
    /// The nodes from one place up to another go.
    Delete(usize, usize),
    /// NULL takes their place.
    Null(usize, usize),
    /// A part of the group that is the last of them takes their place.
    Argument(usize, usize, (usize, usize)),
    /// The same, in parentheses.
    Parenthesized(usize, usize, (usize, usize)),
}

impl ShrinkStep {
    /// The level after the step, for what is left of the path.
    fn taken(&self, nodes: &[Node], path: &[usize]) -> Vec<Node> {
        if let Some((at, rest)) = path.split_first() {
            let inside = nodes[*at].inside().unwrap_or_default();
            let changed = self.taken(inside, rest);
            if matches!(self.edit, Edit::Keep) {
                return changed;
            }
            let mut nodes = nodes.to_vec();
            nodes[*at] = with_inside(&nodes[*at], changed);
            return nodes;
        }
        let replaced = |from: usize, to: usize, by: &[Node]| [&nodes[..from], by, &nodes[to..]].concat();
        let argument = |to: usize, (start, end): (usize, usize)| {
            spaced(nodes[to - 1].inside().and_then(|inside| inside.get(start..end)).unwrap_or_default())
        };
        match self.edit {
            Edit::Keep => nodes.to_vec(),
            Edit::Delete(from, to) => replaced(from, to, &[]),
            Edit::Null(from, to) => replaced(from, to, &[Node::leaf("NULL", false)]),
            Edit::Argument(from, to, range) => replaced(from, to, &argument(to, range)),
            Edit::Parenthesized(from, to, range) => {
                replaced(from, to, &[Node::group("(", argument(to, range), ")", false)])
            }
        }
    }
}

/// The steps of a statement: to one of its subqueries, then those of its levels from the outermost on.
fn steps(nodes: &[Node]) -> Vec<ShrinkStep> {
    let mut steps = Vec::new();
    subqueries(nodes, &mut Vec::new(), &mut steps);
    edits(nodes, true, &mut Vec::new(), &mut steps);
    steps
}

/// Adds the steps to the subqueries of a level.
fn subqueries(nodes: &[Node], path: &mut Vec<usize>, steps: &mut Vec<ShrinkStep>) {
    for (at, inside) in nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.inside()?))) {
        path.push(at);
        if begins_query(inside) {
            steps.push(ShrinkStep { path: path.clone(), edit: Edit::Keep });
        }
        subqueries(inside, path, steps);
        path.pop();
    }
}

/// Whether a statement is a query, which changes nothing however often it is asked.
pub fn is_query(statement: &str) -> bool {
    let first = statement.trim_start().split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    ["SELECT", "WITH", "VALUES", "FROM", ""].iter().any(|word| first.eq_ignore_ascii_case(word))
}

fn begins_query(nodes: &[Node]) -> bool {
    nodes.first().is_some_and(|first| ["SELECT", "WITH", "VALUES"].iter().any(|word| first.is(word)))
}

/// Adds the steps of one level of a tree, and of the levels below it.
fn edits(nodes: &[Node], is_statement: bool, path: &mut Vec<usize>, steps: &mut Vec<ShrinkStep>) {
    let kept = order_that_counts(nodes, is_statement);
    let may_touch = |from: usize, to: usize| kept.is_none_or(|(start, end)| to <= start || end <= from);
    let mut length = nodes.len();
    while length > 0 {
        // Runs of a level that is long are tried side by side, others at every place.
        let stride = if nodes.len() > LONG_LEVEL_NODES { length } else { 1 };
        for from in (0..=nodes.len() - length).step_by(stride) {
            let to = from + length;
            if may_touch(from, to) || frees_order(nodes, from, to) {
                steps.push(ShrinkStep { path: path.clone(), edit: Edit::Delete(from, to) });
            }
        }
        // Long runs are tried in halves, short ones in every length.
        length = if length > SHORT_RUN_NODES { length / 2 } else { length - 1 };
    }
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| may_touch(*at, at + 1)) {
        let mut add = |edit| steps.push(ShrinkStep { path: path.clone(), edit });
        let Some(inside) = node.inside() else {
            add(Edit::Null(at, at + 1));
            continue;
        };
        let is_call = node.is_glued && at > 0 && nodes[at - 1].word().is_some();
        for from in [at - usize::from(is_call), at] {
            add(Edit::Null(from, at + 1));
            let mut start = 0;
            for argument in inside.split(|node| node.is(",")) {
                let range = (start, start + argument.len());
                start = range.1 + 1;
                add(Edit::Argument(from, at + 1, range));
                add(Edit::Parenthesized(from, at + 1, range));
            }
        }
        path.push(at);
        edits(inside, begins_query(inside), path, steps);
        path.pop();
    }
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

/// An argument in the place of a call, with a space before it.
fn spaced(argument: &[Node]) -> Vec<Node> {
    let mut nodes = argument.to_vec();
    if let Some(first) = nodes.first_mut() {
        first.is_glued = false;
    }
    nodes
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
    fn long_statements_shrink_too() {
        let statement = format!("SELECT {}a FROM t", "1 + ".repeat(3_000));
        let smallest = shrink(&statement, 500, |text| text.starts_with("SELECT") && text.ends_with("a FROM t"));
        assert_eq!(smallest, "SELECT a FROM t");
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
