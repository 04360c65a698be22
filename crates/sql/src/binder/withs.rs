//! The common table expressions that a query sees, by name.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use sqlparser::ast::With;

use crate::algebra::{Column, WithId};

/// A common table expression, or a recursive one inside of itself.
pub(super) struct WithEntry {
    pub id: WithId,
    pub columns: Vec<Column>,
    pub reads: Rc<Cell<usize>>,
    /// Whether it writes and has no RETURNING.
    pub gives_nothing: bool,
    /// Whether it is the recursive query whose recursive term is being bound.
    pub is_recursion: bool,
    /// How many columns SEARCH and CYCLE add behind its own, which `*` does not stand for in the recursive term.
    pub added: usize,
}

/// The common table expressions that a query sees.
#[derive(Default)]
pub(super) struct Withs<'s> {
    pub outer: Option<&'s Withs<'s>>,
    /// As they are written.
    pub written: Option<&'s With>,
    pub entries: RefCell<HashMap<String, Rc<WithEntry>>>,
}

impl Withs<'_> {
    pub(super) fn find(&self, name: &str) -> Option<Rc<WithEntry>> {
        let found = self.entries.borrow().get(name).cloned();
        found.or_else(|| self.outer.and_then(|outer| outer.find(name)))
    }

    /// The recursive queries whose recursive terms are being bound, each with how often it was read so far.
    pub(super) fn recursions(&self) -> Vec<(String, usize)> {
        let entries = self.entries.borrow();
        let own = entries.iter().filter(|(_, entry)| entry.is_recursion);
        let own = own.map(|(name, entry)| (name.clone(), entry.reads.get()));
        own.chain(self.outer.into_iter().flat_map(Withs::recursions)).collect()
    }
}
