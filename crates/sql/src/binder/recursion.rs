//! Where a recursive query may read itself: once, in the FROM of its second term, and in no place where a row that
//! comes later could take one away again. And in which order the expressions of a WITH RECURSIVE are bound.
//!
//! These are PostgreSQL's rules. Without them the rows would depend on how many there are at each step, and many such
//! queries would have no end.

use std::collections::HashSet;
use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use sqlparser::ast::{
    Cte, Ident, Join, JoinOperator, ObjectName, Query, Select, SetExpr, SetOperator, SetQuantifier, TableFactor,
    TableWithJoins, Visit, Visitor, With,
};

use super::{name_place, normalized};
use crate::errors;
use crate::walking::walk;

const WITHIN_SUBQUERY: &str = "within a subquery";
const WITHIN_OUTER_JOIN: &str = "within an outer join";

/// Fails with 42P19 if an expression of a WITH RECURSIVE reads itself where it may not, with 0A000 if it locks rows.
pub(super) fn check(cte: &Cte, name: &str) -> Result<()> {
    if references(cte.query.as_ref(), name).is_empty() {
        return Ok(());
    }
    let SetExpr::SetOperation { left, op: SetOperator::Union, right, .. } = cte.query.body.as_ref() else {
        let form = "non-recursive-term UNION [ALL] recursive-term";
        let message = format!("recursive query \"{name}\" does not have the form {form}");
        return Err(errors::at(Error::input(message).with_code("42P19"), name_place(&cte.alias.name)));
    };
    if let Some(own) = references(left.as_ref(), name).first() {
        return Err(misplaced(name, "within its non-recursive term", own));
    }
    if !cte.query.locks.is_empty() {
        let error = Error::unsupported("FOR UPDATE/SHARE in a recursive query is not implemented");
        return Err(error.with_code("0A000"));
    }
    let mut term = Term { name, has_read: false };
    term.set_expression(right, None)?;
    for inner in cte.query.with.iter().flat_map(|with| &with.cte_tables) {
        if let Some(own) = references(inner.query.as_ref(), name).first() {
            return Err(misplaced(name, WITHIN_SUBQUERY, own));
        }
    }
    Ok(())
}

/// The expressions of a WITH so that each comes behind those that it reads: in a WITH RECURSIVE it may read later ones.
/// Fails with 0A000 if two read each other.
pub(super) fn in_order(with: &With) -> Result<Vec<&Cte>> {
    let expressions = with.cte_tables.iter().collect::<Vec<_>>();
    if !with.recursive {
        return Ok(expressions);
    }
    let names = expressions.iter().map(|cte| normalized(&cte.alias.name)).collect::<Vec<_>>();
    // That a name is there twice is said where they are bound.
    if names.iter().collect::<HashSet<_>>().len() < names.len() {
        return Ok(expressions);
    }
    let may_read_later = |(place, cte): (usize, &&Cte)| {
        let read = tables(cte.query.as_ref());
        names.iter().skip(place + 1).any(|name| read.contains(name))
    };
    if !expressions.iter().enumerate().any(may_read_later) {
        return Ok(expressions);
    }
    let others = |place: usize| {
        let reads = |other: &usize| {
            *other != place && !references(expressions[place].query.as_ref(), &names[*other]).is_empty()
        };
        (0..names.len()).filter(reads).collect::<Vec<_>>()
    };
    let needs = (0..names.len()).map(others).collect::<Vec<_>>();
    let mut left = (0..names.len()).collect::<Vec<_>>();
    let mut ordered = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        let Some(next) = left.iter().position(|place| needs[*place].iter().all(|other| !left.contains(other))) else {
            let error = Error::unsupported("mutual recursion between WITH items is not implemented");
            return Err(errors::at(error.with_code("0A000"), name_place(&expressions[*first].alias.name)));
        };
        ordered.push(expressions[left.remove(next)]);
    }
    Ok(ordered)
}

/// The names without a schema of the tables that are read in a tree, whatever they stand for.
fn tables(tree: &impl Visit) -> HashSet<String> {
    struct Tables(HashSet<String>);

    impl Visitor for Tables {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: None, .. } = factor
                && let [part] = name.0.as_slice()
                && let Some(part) = part.as_ident()
            {
                self.0.insert(normalized(part));
            }
            ControlFlow::Continue(())
        }
    }

    let mut tables = Tables(HashSet::new());
    let _ = walk(tree, &mut tables);
    tables.0
}

fn misplaced(name: &str, place: &str, reference: &Ident) -> Error {
    let message = format!("recursive reference to query \"{name}\" must not appear {place}");
    errors::at(Error::input(message).with_code("42P19"), name_place(reference))
}

/// The second term of a recursive query of this name.
struct Term<'n> {
    name: &'n str,
    /// Whether a reference has been met.
    has_read: bool,
}

/// Why there may be no reference; `None` where there may be one.
type Refused = Option<&'static str>;

impl Term<'_> {
    fn query(&mut self, query: &Query, refused: Refused) -> Result<()> {
        if defines(query, self.name) {
            return Ok(());
        }
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.query(&cte.query, refused)?;
        }
        self.set_expression(&query.body, refused)?;
        self.no_reference(&query.order_by)?;
        self.no_reference(&query.limit_clause)?;
        self.no_reference(&query.fetch)
    }

    fn set_expression(&mut self, expression: &SetExpr, refused: Refused) -> Result<()> {
        stacker::maybe_grow(super::STACK_RED_ZONE, super::STACK_GROWTH, || match expression {
            SetExpr::Select(select) => self.select(select, refused),
            SetExpr::Query(query) => self.query(query, refused),
            SetExpr::Values(values) => self.no_reference(values),
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let is_all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
                let (of_left, of_right) = match op {
                    SetOperator::Intersect if is_all => (Some("within INTERSECT"), Some("within INTERSECT")),
                    SetOperator::Except | SetOperator::Minus if is_all => {
                        (Some("within EXCEPT"), Some("within EXCEPT"))
                    }
                    SetOperator::Except | SetOperator::Minus => (refused, Some("within EXCEPT")),
                    _ => (refused, refused),
                };
                self.set_expression(left, of_left)?;
                self.set_expression(right, of_right)
            }
            _ => Ok(()),
        })
    }

    fn select(&mut self, select: &Select, refused: Refused) -> Result<()> {
        select.from.iter().try_for_each(|from| self.joined(from, refused))?;
        let rest = Select { from: vec![], ..select.clone() };
        self.no_reference(&rest)
    }

    fn joined(&mut self, from: &TableWithJoins, refused: Refused) -> Result<()> {
        // What an outer join fills with NULLs.
        let fills_left = |join: &Join| {
            matches!(
                join.join_operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            )
        };
        let fills_right = |join: &Join| {
            matches!(
                join.join_operator,
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) | JoinOperator::FullOuter(_)
            )
        };
        let outer = |is_filled: bool| if is_filled { Some(WITHIN_OUTER_JOIN) } else { refused };
        self.factor(&from.relation, outer(from.joins.iter().any(fills_left)))?;
        for (index, join) in from.joins.iter().enumerate() {
            let is_filled = fills_right(join) || from.joins[index + 1..].iter().any(fills_left);
            self.factor(&join.relation, outer(is_filled))?;
            self.no_reference(&join.join_operator)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, refused: Refused) -> Result<()> {
        match factor {
            TableFactor::Table { name, args: None, .. } => match own(name, self.name) {
                Some(reference) => self.reference(reference, refused),
                None => Ok(()),
            },
            TableFactor::Derived { subquery, .. } => self.query(subquery, refused),
            TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins, refused),
            TableFactor::Table { .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. } => {
                self.no_reference(factor)
            }
            _ => Ok(()),
        }
    }

    fn reference(&mut self, reference: &Ident, refused: Refused) -> Result<()> {
        if let Some(place) = refused {
            return Err(misplaced(self.name, place, reference));
        }
        if std::mem::replace(&mut self.has_read, true) {
            return Err(misplaced(self.name, "more than once", reference));
        }
        Ok(())
    }

    /// Fails if a subquery in expressions reads the query.
    fn no_reference(&self, tree: &impl Visit) -> Result<()> {
        match references(tree, self.name).first() {
            Some(reference) => Err(misplaced(self.name, WITHIN_SUBQUERY, reference)),
            None => Ok(()),
        }
    }
}

/// Whether a query's own WITH has an expression of a name.
fn defines(query: &Query, name: &str) -> bool {
    query.with.iter().flat_map(|with| &with.cte_tables).any(|cte| normalized(&cte.alias.name) == name)
}

/// The name, if it is that of the query alone.
fn own<'t>(table: &'t ObjectName, name: &str) -> Option<&'t Ident> {
    let [part] = table.0.as_slice() else { return None };
    part.as_ident().filter(|part| normalized(part) == name)
}

/// Where a tree reads a table of a name that no WITH in it has.
fn references(tree: &impl Visit, name: &str) -> Vec<Ident> {
    struct References<'n> {
        name: &'n str,
        /// How many queries around have a WITH with the name.
        hidden: usize,
        found: Vec<Ident>,
    }

    impl Visitor for References<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.hidden += usize::from(defines(query, self.name));
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.hidden -= usize::from(defines(query, self.name));
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: None, .. } = factor
                && self.hidden == 0
                && let Some(own) = own(name, self.name)
            {
                self.found.push(own.clone());
            }
            ControlFlow::Continue(())
        }
    }

    let mut references = References { name, hidden: 0, found: vec![] };
    let _ = walk(tree, &mut references);
    references.found
}
