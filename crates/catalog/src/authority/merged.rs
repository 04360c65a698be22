//! Roles, owners and grants of a transaction on top of those that others have said meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use super::{Authority, Grant};

impl Authority {
    /// What has become of `before` in `after`, done to this one; `None` if others have changed the same, or one has
    /// dropped a role to which the other gives something.
    pub(crate) fn merged(&self, before: &Self, after: &Self) -> Option<Self> {
        let both = Self {
            roles: merged(&self.roles, &before.roles, &after.roles)?,
            subjects: merged(&self.subjects, &before.subjects, &after.subjects)?,
            defaults: merged(&self.defaults, &before.defaults, &after.defaults)?,
            comments: merged(&self.comments, &before.comments, &after.comments)?,
            settings: merged(&self.settings, &before.settings, &after.settings)?,
        };
        let known = before.roles.keys().chain(self.roles.keys()).chain(after.roles.keys());
        let is_missed = known.filter(|role| !both.roles.contains_key(*role)).any(|role| both.names(role));
        (!is_missed).then_some(both)
    }

    /// Whether a role owns something, has been granted something, has granted it, or has members.
    fn names(&self, role: &str) -> bool {
        let is_of_it = |grant: &Grant| grant.grantee == role || grant.grantor == role;
        let owns = |owner: Option<&str>| owner == Some(role);
        let mut subjects = self.subjects.values();
        subjects.any(|known| owns(known.owner.as_deref()) || known.grants.iter().flatten().any(is_of_it))
            || self.defaults.iter().any(|(of, known)| of.role == role || known.grants.iter().flatten().any(is_of_it))
            || self.roles.values().any(|known| known.member_of.contains_key(role))
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
