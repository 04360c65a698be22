//! `ts_rewrite`: a part of a query replaced by another query, wherever it occurs.
//!
//! As PostgreSQL does it (`tsquery_rewrite.c`), which decides the order of the operands: AND and OR are flat and their
//! operands sorted, those of the part that is looked for may be any of them, and what was put in is not looked at
//! again.

use std::cmp::Ordering;

use super::query::{Item, Operand, Query, checksum};

/// A query as a tree.
#[derive(Clone, Debug)]
enum Tree {
    Word(Operand),
    /// The operands stand from the right one to the left one, as PostgreSQL holds them.
    Operator {
        item: Item,
        children: Vec<Tree>,
    },
    /// What was put in.
    New(Box<Tree>),
}

impl Query {
    /// The query with `substitute` in the place of `target`.
    pub fn rewritten(&self, target: &Self, substitute: &Self) -> Self {
        let (Some(mut tree), Some(mut target)) = (tree_of(&self.items), tree_of(&target.items)) else {
            return self.clone();
        };
        tree.sort();
        target.sort();
        let substitute = tree_of(&substitute.items);
        let mut items = Vec::new();
        if let Some(tree) = replaced(tree, &target, substitute.as_ref()) {
            tree.write(&mut items);
        }
        Self { items }
    }
}

/// The tree of items, with AND and OR flat; `None` for an empty query.
fn tree_of(items: &[Item]) -> Option<Tree> {
    let mut stack: Vec<Tree> = Vec::new();
    for item in items {
        let made = match item {
            Item::Operand(operand) => Tree::Word(operand.clone()),
            Item::Stop => continue,
            Item::Not => Tree::Operator { item: Item::Not, children: vec![stack.pop()?] },
            binary => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                let mut children = Vec::new();
                for child in [right, left] {
                    match child {
                        Tree::Operator { item, children: inner }
                            if item == *binary && matches!(item, Item::And | Item::Or) =>
                        {
                            children.extend(inner);
                        }
                        other => children.push(other),
                    }
                }
                Tree::Operator { item: binary.clone(), children }
            }
        };
        stack.push(made);
    }
    stack.pop()
}

/// The tree with `substitute` for each `target` in it; `None` if nothing is left.
fn replaced(tree: Tree, target: &Tree, substitute: Option<&Tree>) -> Option<Tree> {
    match found(tree, target, substitute)? {
        Tree::Operator { item, children } => {
            let children = children.into_iter().filter_map(|child| replaced(child, target, substitute));
            let mut children = children.collect::<Vec<_>>();
            match children.len() {
                0 => None,
                1 if item != Item::Not => children.pop(),
                _ => Some(Tree::Operator { item, children }),
            }
        }
        other => Some(other),
    }
}

/// The same for the tree itself, and not for its parts.
fn found(tree: Tree, target: &Tree, substitute: Option<&Tree>) -> Option<Tree> {
    let new = || substitute.map(|tree| Tree::New(Box::new(tree.clone())));
    match (tree, target) {
        (tree @ Tree::New(_), _) => Some(tree),
        (tree, target) if tree.compare(target).is_eq() => new(),
        (Tree::Operator { item, mut children }, Tree::Operator { item: wanted_item, children: wanted })
            if item == *wanted_item && matches!(item, Item::And | Item::Or) && children.len() > wanted.len() =>
        {
            if let Some(places) = places_of(&children, wanted) {
                let mut place = 0;
                children.retain(|_| {
                    place += 1;
                    !places.contains(&(place - 1))
                });
                children.extend(new());
                children.sort_by(Tree::compare);
            }
            Some(Tree::Operator { item, children })
        }
        (tree, _) => Some(tree),
    }
}

/// Where the wanted parts, which are sorted as the children are, stand among them; `None` if one is missing.
fn places_of(children: &[Tree], wanted: &[Tree]) -> Option<Vec<usize>> {
    let mut places = Vec::new();
    let mut wanted = wanted.iter().peekable();
    for (place, child) in children.iter().enumerate() {
        let Some(next) = wanted.peek() else { break };
        match child.compare(next) {
            Ordering::Equal => {
                places.push(place);
                wanted.next();
            }
            Ordering::Less => {}
            Ordering::Greater => return None,
        }
    }
    wanted.next().is_none().then_some(places)
}

impl Tree {
    /// Sorts the operands of AND and OR.
    fn sort(&mut self) {
        if let Self::Operator { item, children } = self {
            children.iter_mut().for_each(Self::sort);
            if matches!(item, Item::And | Item::Or) {
                children.sort_by(Self::compare);
            }
        }
    }

    /// PostgreSQL's order: operators come first, and of two of a kind the larger one. Weights do not count.
    fn compare(&self, other: &Self) -> Ordering {
        let number = |item: &Item| match item {
            Item::Not => 1,
            Item::And => 2,
            Item::Or => 3,
            Item::Phrase(_) => 4,
            Item::Operand(_) | Item::Stop => 0,
        };
        let distance = |item: &Item| if let Item::Phrase(distance) = item { *distance } else { 0 };
        match (self, other) {
            (Self::New(inner), other) => inner.compare(other),
            (this, Self::New(inner)) => this.compare(inner),
            (Self::Operator { .. }, Self::Word(_)) => Ordering::Less,
            (Self::Word(_), Self::Operator { .. }) => Ordering::Greater,
            (Self::Word(left), Self::Word(right)) => {
                // The checksums are signed.
                let sum = |operand: &Operand| checksum(operand.word.as_bytes()) as i32;
                sum(right).cmp(&sum(left)).then_with(|| left.word.as_bytes().cmp(right.word.as_bytes()))
            }
            (Self::Operator { item, children }, Self::Operator { item: other, children: others }) => {
                let sizes = || others.len().cmp(&children.len());
                let parts = || {
                    let pairs = children.iter().zip(others);
                    pairs.map(|(left, right)| left.compare(right)).find(|order| order.is_ne())
                };
                let kinds = number(other).cmp(&number(item));
                let inner = kinds.then_with(sizes).then_with(|| parts().unwrap_or(Ordering::Equal));
                inner.then_with(|| distance(other).cmp(&distance(item)))
            }
        }
    }

    /// Appends the items of the tree, operators of two operands again.
    fn write(self, items: &mut Vec<Item>) {
        match self {
            Self::Word(operand) => items.push(Item::Operand(operand)),
            Self::New(inner) => inner.write(items),
            Self::Operator { item: Item::Not, children } => {
                children.into_iter().for_each(|child| child.write(items));
                items.push(Item::Not);
            }
            Self::Operator { item, children } => {
                let operators = children.len() - 1;
                children.into_iter().rev().for_each(|child| child.write(items));
                items.extend(std::iter::repeat_n(item, operators));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_replaced_as_postgresql_does() {
        for (query, target, substitute, expected) in [
            ("a & b", "a", "c", "'b' & 'c'"),
            ("a & b & c", "a & c", "z", "'b' & 'z'"),
            ("a | b", "b | a", "q", "'q'"),
            ("a & !b", "!b", "x", "'a' & 'x'"),
            ("a", "a", "", ""),
            ("a & b", "a", "", "'b'"),
            ("!a", "a", "", ""),
            ("a <-> b", "a <-> b", "c", "'c'"),
            ("b <-> a", "a <-> b", "c", "'b' <-> 'a'"),
            ("a:A & b", "a", "c", "'b' & 'c'"),
            ("a & (b | c)", "c|b", "q & r", "'a' & 'q' & 'r'"),
            ("a & b & a", "a", "c", "'b' & 'c' & 'c'"),
            ("a & b & c", "a & b & c & d", "z", "'b' & 'c' & 'a'"),
            ("a <-> b <-> c", "a <-> b", "z", "'z' <-> 'c'"),
            ("a <-> b", "a", "", "'b'"),
            ("", "a", "b", ""),
            ("a:*", "a", "b", "'b'"),
        ] {
            let [query, target, substitute] = [query, target, substitute].map(|text| Query::read(text).unwrap());
            assert_eq!(query.rewritten(&target, &substitute).text(), expected);
        }
    }
}
