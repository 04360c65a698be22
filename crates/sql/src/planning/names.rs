//! What the names of one statement stood for.
//!
//! Invariants:
//! * A statement sees one snapshot of the catalog, and files in one state, however often it names them.
//! * What the session may not read is not found, by whatever way a statement comes to its name: its own text, a view's,
//!   a prepared statement's.

use std::cell::RefCell;
use std::sync::Arc;

use diligence_catalog::{Object, Relation, RelationName, Uses};
use diligence_storage::Table;

use super::Planning;

/// What the names of one statement stood for so far, if a plan of it may be used again.
pub(super) struct Names(RefCell<Option<Uses>>);

impl Names {
    pub(super) fn new(at: &Planning<'_>) -> Self {
        Self(RefCell::new(Some(Uses::new(at.identity()))))
    }

    /// What the names so far stand for; `None` if some of it is made anew for each statement.
    pub(super) fn uses(&self) -> Option<Uses> {
        self.0.borrow().clone()
    }

    fn used(&self, use_it: impl FnOnce(&mut Uses)) {
        if let Some(uses) = self.0.borrow_mut().as_mut() {
            use_it(uses);
        }
    }

    /// Names are looked up under the rights of this role from now on; under the session's, if `None`.
    pub(super) fn look_behind(&self, owner: Option<&str>) {
        self.used(|uses| uses.look_behind(owner));
    }

    /// A plan of the statement is for this one time.
    pub(super) fn not_reusable(&self) {
        *self.0.borrow_mut() = None;
    }

    /// The name stands for an object that is read as it is defined.
    pub(super) fn uses_object(&self, name: &RelationName, object: &Object) {
        self.used(|uses| uses.object(name, object, None));
    }

    /// The name stands for an object whose rows are in this table.
    pub(super) fn uses_table(&self, name: &RelationName, object: &Object, table: &Arc<dyn Table>) {
        let files = matches!(object.relation, Relation::Files(_)).then_some(table);
        self.used(|uses| uses.object(name, object, files));
    }

    /// The name stands for the path of these files.
    pub(super) fn uses_path(&self, name: &RelationName, table: &Arc<dyn Table>) {
        self.used(|uses| uses.path(name, table));
    }

    /// The name stands for nothing.
    pub(super) fn uses_nothing(&self, name: &RelationName) {
        self.used(|uses| uses.nothing(name));
    }
}
