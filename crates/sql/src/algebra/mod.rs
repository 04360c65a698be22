//! The algebra: what a statement asks for, as operators over columns that have numbers instead of names.
//!
//! The binder makes a tree of [`Relation`]s with [`Scalar`]s in them; `unnesting` makes dependent joins vanish,
//! `rewrites` and `ordering` turn it into an equal tree that costs less, `lowering` into the engine's plan.
//!
//! Invariants:
//! * A [`ColumnId`] is produced by exactly one place of a statement's tree. Whoever copies a part of a tree gives the
//!   copy's columns new ids ([`Relation::with_new_ids`]).
//! * Every [`Scalar`] knows its type; no implicit cast is left for later. The two sides of a comparison, the branches
//!   of a CASE and the columns of a set operation's inputs have one type each.
//! * A column that a relation reads and its inputs do not produce is *free*: it comes from outside, of a dependent join
//!   ([`Relation::Apply`]) around it. After `unnesting` no column is free and no [`Scalar::Subquery`] is left.

mod constant;
mod relation;
mod scalar;
mod show;
mod tree;

pub(crate) use constant::{Comparison, Constant};
pub(crate) use tree::{
    Aggregate, AggregateItem, Apply, FunctionItem, GroupingSets, Join, JoinKind, Limit, MadeAggregate, Quantifier,
    Recursive, Relation, Scalar, Scan, SetKind, SetOperation, SortKey, Subquery, SubqueryKind, TableFunction, Window,
    WindowFrame, WindowItem, WindowKind, WithTable,
};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use diligence_types::SqlType;

/// The number of a column within a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ColumnId(pub u32);

/// The number of a common table expression or a recursive query within a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WithId(pub u32);

/// A column that a relation produces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    /// Its number.
    pub id: ColumnId,
    /// A name for EXPLAIN and for the result's schema.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether a value may be NULL.
    pub nullable: bool,
}

impl Column {
    /// The column as an expression.
    pub(crate) fn scalar(&self) -> Scalar {
        Scalar::Column { id: self.id, sql_type: self.sql_type.clone(), nullable: self.nullable }
    }
}

impl fmt::Display for ColumnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Gives out numbers that a statement has not used, and knows which of its common table expressions are computed once.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    columns: Cell<u32>,
    withs: Cell<u32>,
    materialized: RefCell<BTreeMap<WithId, bool>>,
}

impl Numbers {
    /// Numbers that no statement comes to.
    fn beyond() -> Self {
        Self { columns: Cell::new(u32::MAX / 2), ..Self::default() }
    }

    /// A new column's number.
    pub(crate) fn column(&self) -> ColumnId {
        ColumnId(self.columns.replace(self.columns.get() + 1))
    }

    /// A new column.
    pub(crate) fn named(&self, name: impl Into<String>, sql_type: SqlType, nullable: bool) -> Column {
        Column { id: self.column(), name: name.into(), sql_type, nullable }
    }

    /// The number of a new common table expression.
    pub(crate) fn with(&self) -> WithId {
        WithId(self.withs.replace(self.withs.get() + 1))
    }

    /// Says that a common table expression is computed once however often it is read (MATERIALIZED), or that each place
    /// that reads it may compute it (NOT MATERIALIZED).
    pub(crate) fn set_materialized(&self, id: WithId, is_materialized: bool) {
        self.materialized.borrow_mut().insert(id, is_materialized);
    }

    /// What was said about a common table expression; `None`: nothing.
    pub(crate) fn materialized(&self, id: WithId) -> Option<bool> {
        self.materialized.borrow().get(&id).copied()
    }
}
