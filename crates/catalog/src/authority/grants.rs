//! Grants: who may do what with one thing, and by whom.

use super::{Privileges, SubjectKind};

/// Everybody, as the grantee of a grant.
pub const PUBLIC: &str = "";

/// What one role may do, since another has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who may.
    pub grantee: String,
    /// Who has said so.
    pub grantor: String,
    /// What.
    pub privileges: Privileges,
    /// What of it may be passed on.
    pub options: Privileges,
}

impl Grant {
    /// As PostgreSQL shows it: `ann=r*w/bob`.
    pub fn text(&self) -> String {
        let name = |name: &str| match name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            true => name.to_owned(),
            false => format!("\"{}\"", name.replace('"', "\"\"")),
        };
        format!("{}={}/{}", name(&self.grantee), self.privileges.letters(self.options), name(&self.grantor))
    }
}

/// What is said of one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entitlements {
    /// Its owner, if that is not the database's.
    pub owner: Option<String>,
    /// What is granted, if anybody has said it.
    pub grants: Option<Vec<Grant>>,
}

/// Adds a grant to those of its grantee by its grantor.
pub(super) fn add(grants: &mut Vec<Grant>, grant: Grant) {
    let is_alike = |known: &&mut Grant| known.grantee == grant.grantee && known.grantor == grant.grantor;
    match grants.iter_mut().find(is_alike) {
        Some(known) => {
            known.privileges = known.privileges.with(grant.privileges);
            known.options = known.options.with(grant.options);
        }
        None => grants.push(grant),
    }
}

/// Gives grants by a role and to it to another one.
pub(super) fn rename(grants: &mut Vec<Grant>, from: &str, to: &str) {
    for mut grant in std::mem::take(grants) {
        for name in [&mut grant.grantee, &mut grant.grantor] {
            if name == from {
                to.clone_into(name);
            }
        }
        add(grants, grant);
    }
}

/// What could not be taken away: others depend on it.
pub(super) struct Dependent;

/// Takes privileges, or only that they may be passed on, from one role, which another one has granted. What was passed
/// on goes too with `cascade`; without it, nothing is done if there is any.
pub(super) fn revoke(
    grants: &mut Vec<Grant>,
    (grantee, grantor): (&str, &str),
    taken: Privileges,
    only_options: bool,
    cascade: bool,
) -> Result<(), Dependent> {
    let Some(grant) = grants.iter_mut().find(|known| known.grantee == grantee && known.grantor == grantor) else {
        return Ok(());
    };
    let lost = grant.options.within(taken);
    grant.options = grant.options.without(taken);
    if !only_options {
        grant.privileges = grant.privileges.without(taken);
    }
    grants.retain(|grant| grant.privileges != Privileges::NONE);
    // It may have been allowed to pass it on by somebody else, too.
    let kept = grants.iter().filter(|grant| grant.grantee == grantee);
    let kept = kept.fold(Privileges::NONE, |all, grant| all.with(grant.options));
    let lost = lost.without(kept);
    let passed_on = grants.iter().filter(|grant| grant.grantor == grantee && grant.grantee != grantee);
    let passed_on = passed_on.filter(|grant| grant.privileges.within(lost) != Privileges::NONE);
    for further in passed_on.map(|grant| grant.grantee.clone()).collect::<Vec<_>>() {
        if !cascade {
            return Err(Dependent);
        }
        revoke(grants, (&further, grantee), lost, false, true)?;
    }
    Ok(())
}

/// Every privilege that there is of a kind, if the list is that of ALL.
pub(super) fn known(wanted: Option<Privileges>, kind: SubjectKind) -> Privileges {
    wanted.unwrap_or_else(|| kind.all())
}
