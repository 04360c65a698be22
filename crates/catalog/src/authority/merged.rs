//! Roles, owners and grants of a transaction on top of those that others have said meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use super::Authority;

impl Authority {
    /// What has become of `before` in `after`, done to this one; `None` if others have changed the same.
    pub(crate) fn merged(&self, before: &Self, after: &Self) -> Option<Self> {
        Some(Self {
            roles: merged(&self.roles, &before.roles, &after.roles)?,
            subjects: merged(&self.subjects, &before.subjects, &after.subjects)?,
            defaults: merged(&self.defaults, &before.defaults, &after.defaults)?,
            comments: merged(&self.comments, &before.comments, &after.comments)?,
            settings: merged(&self.settings, &before.settings, &after.settings)?,
        })
    }
}

fn merged<K: Ord + Clone, V: PartialEq + Clone>(
    now: &BTreeMap<K, V>,
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) -> Option<BTreeMap<K, V>> {
    let mut made = now.clone();
    for key in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (before.get(key), after.get(key));
        if was == is {
            continue;
        }
        if now.get(key) != was && now.get(key) != is {
            return None;
        }
        match is {
            Some(is) => drop(made.insert(key.clone(), is.clone())),
            None => drop(made.remove(key)),
        }
    }
    Some(made)
}
