//! What the outermost ORDER BY of a statement says about the order of its rows.

use crate::tokens::{self, Node};

/// How much of the order of rows is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// Nothing: the rows are a multiset.
    Free,
    /// The order of these columns, each by the position or the name that ORDER BY gives.
    Keys(Vec<SortKey>),
    /// The order of all rows.
    Total,
}

/// A column that an ORDER BY names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// By its position, from 0.
    Position(usize),
    /// By its name.
    Name(String),
}

impl RowOrder {
    /// The order of a statement's rows. Of an ORDER BY with expressions, the keys before the first one count.
    pub fn of(statement: &str) -> Self {
        let nodes = tokens::parse(statement);
        let Some(start) = order_by(&nodes) else { return RowOrder::Free };
        let mut keys = Vec::new();
        for item in nodes[start..].split(|node| node.is(",")) {
            let end = item.iter().position(|node| ENDS.iter().any(|word| node.is(word)));
            let key: Vec<_> = item[..end.unwrap_or(item.len())].iter().filter(|node| !is_direction(node)).collect();
            let [key] = key.as_slice() else { break };
            let Some(key) = sort_key(key) else { break };
            keys.push(key);
            if end.is_some() {
                break;
            }
        }
        if keys.is_empty() { RowOrder::Free } else { RowOrder::Keys(keys) }
    }

    /// The positions of the columns that the order is by, among columns of these names.
    pub fn positions(&self, names: &[&str]) -> Vec<usize> {
        let position = |key: &SortKey| match key {
            SortKey::Position(position) => (*position < names.len()).then_some(*position),
            SortKey::Name(name) => names.iter().position(|column| column == name),
        };
        match self {
            RowOrder::Free => Vec::new(),
            RowOrder::Keys(keys) => keys.iter().map_while(position).collect(),
            RowOrder::Total => (0..names.len()).collect(),
        }
    }
}

/// What may follow the keys.
const ENDS: [&str; 5] = ["LIMIT", "OFFSET", "FETCH", "FOR", ";"];

/// Where the keys of the outermost ORDER BY begin.
fn order_by(nodes: &[Node]) -> Option<usize> {
    let at = nodes.windows(2).rposition(|pair| pair[0].is("ORDER") && pair[1].is("BY"))?;
    Some(at + 2)
}

fn is_direction(node: &Node) -> bool {
    ["ASC", "DESC", "NULLS", "FIRST", "LAST"].iter().any(|word| node.is(word))
}

fn sort_key(node: &Node) -> Option<SortKey> {
    let text = tokens::text(std::slice::from_ref(node));
    if let Ok(position) = text.parse::<usize>() {
        return position.checked_sub(1).map(SortKey::Position);
    }
    node.word()?;
    Some(SortKey::Name(text.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_order_by_counts() {
        let keys = |statement| RowOrder::of(statement).positions(&["a", "b", "c"]);
        assert_eq!(keys("SELECT a, b, c FROM t ORDER BY 3 DESC NULLS LAST, a LIMIT 1"), [2, 0]);
        assert_eq!(keys("SELECT a, b, c FROM t ORDER BY b, a + 1, c"), [1]);
        assert_eq!(keys("SELECT * FROM (SELECT a FROM t ORDER BY 1) s"), [0; 0]);
        assert_eq!(keys("SELECT row_number() OVER (ORDER BY a), b, c FROM t"), [0; 0]);
        assert_eq!(keys("SELECT a, b, c FROM t ORDER BY t.a"), [0; 0]);
        assert_eq!(RowOrder::Total.positions(&["a", "b"]), [0, 1]);
    }
}
