//! A change on its way into a catalog: of a transaction, or of a statement with what follows from it.

use std::sync::Arc;

use crate::authority::Authority;
use crate::snapshot::Schema;
use crate::{Object, RowChange};

/// One change on its way from a transaction to another catalog.
pub(crate) enum Carried {
    CreateSchema(String, Arc<Schema>),
    DropSchema(String),
    /// A relation that is new, with another one's rules, or takes the place of the one with this id.
    Put(Arc<Object>, Option<Arc<Object>>),
    Drop(Arc<Object>),
    Rows(Arc<Object>, RowChange),
    /// Who may do what, before and after.
    Authority(Arc<Authority>, Arc<Authority>),
}

impl Carried {
    /// The relation that is put in a place as a whole.
    pub(crate) fn put(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Put(object, _) => Some(object),
            _ => None,
        }
    }
}
