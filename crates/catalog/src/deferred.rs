//! Constraints that are held against the rows at the end of a transaction.

use std::collections::HashMap;

use crate::rules::{Deferral, Key, Reference};

/// Which references and keys SET CONSTRAINTS has deferred in a transaction, or has held against the rows after each
/// statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeferredConstraints {
    /// All of them.
    all: Option<bool>,
    /// Those of a name.
    named: HashMap<String, bool>,
}

impl DeferredConstraints {
    /// Sets those of these names, all if there are none.
    pub(crate) fn set(&mut self, names: &[String], is_deferred: bool) {
        if names.is_empty() {
            *self = Self { all: Some(is_deferred), named: HashMap::new() };
        }
        self.named.extend(names.iter().map(|name| (name.clone(), is_deferred)));
    }

    /// Whether a reference is not looked at yet.
    pub(crate) fn has(&self, reference: &Reference) -> bool {
        self.has_named(&reference.name, reference.deferral)
    }

    /// Whether a unique key is not looked at yet.
    pub(crate) fn has_key(&self, key: &Key) -> bool {
        self.has_named(&key.name, key.deferral)
    }

    /// Whether a constraint of this name is not looked at yet.
    pub(crate) fn has_named(&self, name: &str, deferral: Deferral) -> bool {
        let said = self.named.get(name).copied().or(self.all);
        deferral != Deferral::Never && said.unwrap_or(deferral == Deferral::Deferred)
    }
}
