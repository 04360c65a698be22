//! What statements do to roles, owners and grants.

use std::collections::BTreeSet;

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};

use super::grants::{self, Dependent};
use super::{
    Authority, DENIED, DefaultsOf, Grant, Membership, OWNER, Privileges, RoleDefinition, Subject, SubjectKind, Topic,
    unsaid,
};

/// Who says something.
#[derive(Clone, Debug)]
pub struct Speaker {
    /// The role.
    pub name: String,
    /// The roles whose rights it has.
    pub roles: BTreeSet<String>,
    /// Whether it may do everything.
    pub is_superuser: bool,
}

/// Of what something is granted.
#[derive(Clone, Debug)]
pub enum GrantedOn {
    /// Things that there are, with their names in messages.
    Subjects(Vec<(Subject, SubjectKind, String)>),
    /// Things that are to come.
    Defaults(Vec<DefaultsOf>),
}

/// GRANT and REVOKE of privileges.
#[derive(Clone, Debug)]
pub struct GrantChange {
    /// Whether it gives.
    pub is_grant: bool,
    /// Of what.
    pub on: GrantedOn,
    /// What; everything, if `None`.
    pub privileges: Option<Privileges>,
    /// To whom or from whom.
    pub grantees: Vec<String>,
    /// Whether it may be passed on; of REVOKE, whether only that goes.
    pub options: bool,
    /// Whether what was passed on goes, too.
    pub cascade: bool,
}

/// What a statement does to roles, owners and grants.
#[derive(Clone, Debug)]
pub enum RoleChange {
    /// CREATE ROLE.
    Create {
        /// Its name.
        name: String,
        /// What it is.
        definition: RoleDefinition,
        /// Who becomes a member of it, and whether as one who may make others members.
        members: Vec<(String, bool)>,
    },
    /// ALTER ROLE.
    Put {
        /// Its name.
        name: String,
        /// What it is from now on.
        definition: RoleDefinition,
    },
    /// ALTER ROLE … RENAME.
    Rename {
        /// Its name.
        from: String,
        /// Its name from now on.
        to: String,
    },
    /// DROP ROLE.
    Drop {
        /// Their names.
        names: Vec<String>,
        /// Whether it is fine if there is none.
        if_exists: bool,
    },
    /// GRANT role TO role.
    Join {
        /// The roles.
        roles: Vec<String>,
        /// Who becomes a member.
        members: Vec<String>,
        /// Whether they may make others members.
        is_admin: bool,
    },
    /// REVOKE role FROM role.
    Leave {
        /// The roles.
        roles: Vec<String>,
        /// Who is a member no more.
        members: Vec<String>,
        /// Whether they stay members who may not make others members.
        only_admin: bool,
    },
    /// GRANT and REVOKE of privileges.
    Grant(GrantChange),
    /// … OWNER TO.
    Own {
        /// What.
        subjects: Vec<Subject>,
        /// Whose it is from now on.
        owner: String,
    },
    /// REASSIGN OWNED.
    Reassign {
        /// Whose it was.
        from: Vec<String>,
        /// Whose it is from now on.
        to: String,
    },
    /// What is granted to roles, and made for them, goes.
    Forget {
        /// The roles.
        roles: Vec<String>,
    },
    /// COMMENT ON.
    Comment {
        /// What it is of.
        topic: Topic,
        /// What it says; there is none from now on, if `None`.
        text: Option<String>,
    },
    /// ALTER SYSTEM.
    Set {
        /// The setting; all that are set, if `None`.
        setting: Option<String>,
        /// Its value; its own default from now on, if `None`.
        value: Option<String>,
    },
}

impl RoleChange {
    /// Makes the change. `shown` names what is there. Fails with kind `Input`; then the change is to be thrown away.
    pub(crate) fn apply(
        &self,
        authority: &mut Authority,
        by: &Speaker,
        shown: &dyn Fn(Subject) -> String,
    ) -> Result<()> {
        match self {
            Self::Create { name, definition, members } => {
                if authority.roles.contains_key(name) {
                    return Err(exists(name));
                }
                authority.roles.insert(name.clone(), definition.clone());
                for (member, is_admin) in members {
                    authority.join(name, member, *is_admin, &by.name)?;
                }
                // It may be made a member of others.
                let of = definition.member_of.keys().cloned().collect::<Vec<_>>();
                of.iter().try_for_each(|of| authority.refuse_circle(of, name))
            }
            Self::Put { name, definition } => {
                if !authority.roles.contains_key(name) {
                    return Err(no_role(name));
                }
                authority.roles.insert(name.clone(), definition.clone());
                Ok(())
            }
            Self::Comment { topic, text } => {
                match text {
                    Some(text) => drop(authority.comments.insert(topic.clone(), text.clone())),
                    None => drop(authority.comments.remove(topic)),
                }
                Ok(())
            }
            Self::Set { setting: None, .. } => {
                authority.settings.clear();
                Ok(())
            }
            Self::Set { setting: Some(setting), value } => {
                match value {
                    Some(value) => drop(authority.settings.insert(setting.clone(), value.clone())),
                    None => drop(authority.settings.remove(setting)),
                }
                Ok(())
            }
            Self::Rename { from, to } => authority.rename(from, to),
            Self::Drop { names, if_exists } => {
                for name in names {
                    match authority.roles.contains_key(name) {
                        false if *if_exists => continue,
                        false => return Err(no_role(name)),
                        true => authority.drop_role(name, shown)?,
                    }
                }
                Ok(())
            }
            Self::Join { roles, members, is_admin } => {
                for role in roles {
                    authority.check_admin(role, by)?;
                    members.iter().try_for_each(|member| authority.join(role, member, *is_admin, &by.name))?;
                }
                Ok(())
            }
            Self::Leave { roles, members, only_admin } => leave(authority, roles, members, *only_admin, by),
            Self::Grant(change) => authority.change_grants(change, by),
            Self::Own { subjects, owner } => {
                subjects.iter().for_each(|subject| authority.set_owner(*subject, owner));
                Ok(())
            }
            Self::Reassign { from, to } => {
                let owned = |owner: Option<&str>| from.iter().any(|from| owner == Some(from.as_str()));
                let subjects = authority.subjects.iter().filter(|(_, known)| owned(known.owner.as_deref()));
                for subject in subjects.map(|(subject, _)| *subject).collect::<Vec<_>>() {
                    authority.set_owner(subject, to);
                }
                Ok(())
            }
            Self::Forget { roles } => {
                forget(authority, roles);
                Ok(())
            }
        }
    }
}

/// Ends memberships, or takes only the right to administer them. Fails with kind `Input` if a member is not there, or
/// `by` may not.
fn leave(
    authority: &mut Authority,
    roles: &[String],
    members: &[String],
    only_admin: bool,
    by: &Speaker,
) -> Result<()> {
    for role in roles {
        authority.check_admin(role, by)?;
        for member in members {
            let known = authority.roles.get_mut(member).ok_or_else(|| no_role(member))?;
            match known.member_of.get_mut(role) {
                Some(membership) if only_admin => membership.is_admin = false,
                _ => drop(known.member_of.remove(role)),
            }
        }
    }
    Ok(())
}

/// Takes what was granted to roles, but for what they own.
fn forget(authority: &mut Authority, roles: &[String]) {
    let is_one = |name: &str| roles.iter().any(|role| role == name);
    for known in authority.subjects.values_mut() {
        if let Some(grants) = &mut known.grants {
            grants.retain(|grant| !is_one(&grant.grantee) || known.owner.as_ref() == Some(&grant.grantee));
        }
    }
    authority.defaults.retain(|of, _| !is_one(&of.role));
    for known in authority.defaults.values_mut() {
        if let Some(grants) = &mut known.grants {
            grants.retain(|grant| !is_one(&grant.grantee));
        }
    }
}

fn exists(name: &str) -> Error {
    Error::input(format!("role \"{name}\" already exists")).with_code("42710")
}

/// The error for a role that is not there.
pub(crate) fn no_role(name: &str) -> Error {
    let error = Error::input(format!("role \"{name}\" does not exist")).with_code("42704");
    error.with_hint("CREATE ROLE makes one")
}

impl Authority {
    /// Makes a role a member of another.
    fn join(&mut self, role: &str, member: &str, is_admin: bool, grantor: &str) -> Result<()> {
        if member != OWNER && !self.roles.contains_key(member) {
            return Err(no_role(member));
        }
        let Some(known) = self.roles.get_mut(member) else { return Ok(()) };
        let was_admin = known.member_of.get(role).is_some_and(|membership| membership.is_admin);
        let membership = Membership { grantor: grantor.to_owned(), is_admin: is_admin || was_admin };
        known.member_of.insert(role.to_owned(), membership);
        self.refuse_circle(role, member)
    }

    fn refuse_circle(&self, role: &str, member: &str) -> Result<()> {
        if !self.roles.contains_key(role) {
            return Err(no_role(role));
        }
        if role == member || self.is_member(role, member) {
            let message = format!("role \"{role}\" is a member of role \"{member}\"");
            return Err(Error::input(message).with_code("0LP01"));
        }
        Ok(())
    }

    fn check_admin(&self, role: &str, by: &Speaker) -> Result<()> {
        let Some(definition) = self.roles.get(role) else { return Err(no_role(role)) };
        if definition.is_superuser && !by.is_superuser {
            return Err(Error::input("must be superuser to alter superusers").with_code(DENIED));
        }
        let makes_roles = self.roles.get(&by.name).is_some_and(|known| known.makes_roles);
        let is_admin = by.roles.iter().any(|held| {
            let known = self.roles.get(held).and_then(|held| held.member_of.get(role));
            known.is_some_and(|membership| membership.is_admin)
        });
        if by.is_superuser || makes_roles || is_admin {
            return Ok(());
        }
        Err(Error::input(format!("must have admin option on role \"{role}\"")).with_code(DENIED))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        if to == OWNER || self.roles.contains_key(to) {
            return Err(exists(to));
        }
        let definition = self.roles.remove(from).ok_or_else(|| no_role(from))?;
        self.roles.insert(to.to_owned(), definition);
        if let Some(comment) = self.comments.remove(&Topic::Role(from.to_owned())) {
            self.comments.insert(Topic::Role(to.to_owned()), comment);
        }
        for role in self.roles.values_mut() {
            if let Some(membership) = role.member_of.remove(from) {
                role.member_of.insert(to.to_owned(), membership);
            }
            for membership in role.member_of.values_mut().filter(|membership| membership.grantor == from) {
                to.clone_into(&mut membership.grantor);
            }
        }
        let all = self.subjects.values_mut().chain(self.defaults.values_mut());
        for known in all {
            if known.owner.as_deref() == Some(from) {
                known.owner = Some(to.to_owned());
            }
            if let Some(grants) = &mut known.grants {
                grants::rename(grants, from, to);
            }
        }
        let defaults = std::mem::take(&mut self.defaults);
        self.defaults = defaults
            .into_iter()
            .map(|(mut of, known)| {
                if of.role == from {
                    to.clone_into(&mut of.role);
                }
                (of, known)
            })
            .collect();
        Ok(())
    }

    fn drop_role(&mut self, name: &str, shown: &dyn Fn(Subject) -> String) -> Result<()> {
        let mut reasons = Vec::new();
        for (subject, known) in &self.subjects {
            if known.owner.as_deref() == Some(name) {
                reasons.push(format!("owner of {}", shown(*subject)));
            } else if known.grants.iter().flatten().any(|grant| grant.grantee == name || grant.grantor == name) {
                reasons.push(format!("privileges for {}", shown(*subject)));
            }
        }
        for (of, known) in &self.defaults {
            if of.role == name || known.grants.iter().flatten().any(|grant| grant.grantee == name) {
                let message = "default privileges on new objects belonging to role";
                reasons.push(format!("{message} {}", of.role));
            }
        }
        if !reasons.is_empty() {
            let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
            let hint = "REASSIGN OWNED and DROP OWNED take away what depends on it";
            return Err(Error::input(message).with_code("2BP01").with_detail(reasons.join("\n")).with_hint(hint));
        }
        self.roles.remove(name);
        self.comments.remove(&Topic::Role(name.to_owned()));
        self.roles.values_mut().for_each(|role| drop(role.member_of.remove(name)));
        Ok(())
    }

    fn change_grants(&mut self, change: &GrantChange, by: &Speaker) -> Result<()> {
        match &change.on {
            GrantedOn::Subjects(subjects) => {
                for (subject, kind, shown) in subjects {
                    let wanted = grants::known(change.privileges, *kind);
                    let (grantor, may) = self.best_grantor(*subject, *kind, wanted, by);
                    // Who may do anything with it, and pass on nothing of what is listed, has said nothing.
                    let has_any = |subject, kind| self.privileges(&by.roles, subject, kind, false) != Privileges::NONE;
                    let has_any = has_any(*subject, *kind)
                        || *kind == SubjectKind::Column && has_any(subject.owned(), SubjectKind::Table);
                    if may == Privileges::NONE && has_any {
                        continue;
                    }
                    if may == Privileges::NONE {
                        let message = format!("permission denied for {} {shown}", kind.word());
                        let hint = "only the owner, or who has the privilege WITH GRANT OPTION, may pass it on";
                        return Err(Error::input(message).with_code(DENIED).with_hint(hint));
                    }
                    let mut grants = self.all_grants(*subject, *kind);
                    change.apply(&mut grants, &grantor, may)?;
                    let is_empty = grants.is_empty() && *kind == SubjectKind::Column;
                    self.subjects.entry(*subject).or_default().grants = Some(grants).filter(|_| !is_empty);
                    self.tidy(*subject);
                    if let (false, Subject::Object(table)) = (change.is_grant, *subject) {
                        self.revoke_of_columns(table, change, &grantor, may)?;
                    }
                }
                Ok(())
            }
            GrantedOn::Defaults(all) => {
                for of in all {
                    let kind = of.kind;
                    let wanted = grants::known(change.privileges, kind);
                    let before = || match of.schema {
                        None => unsaid(&of.role, kind.public(), kind),
                        Some(_) => Vec::new(),
                    };
                    let known = self.defaults.get(of).and_then(|known| known.grants.clone());
                    let mut grants = known.unwrap_or_else(before);
                    change.apply(&mut grants, &of.role, wanted)?;
                    match grants == before() {
                        true => drop(self.defaults.remove(of)),
                        false => self.defaults.entry(of.clone()).or_default().grants = Some(grants),
                    }
                }
                Ok(())
            }
        }
    }

    /// What is taken away of a table is taken away of its columns as well.
    fn revoke_of_columns(
        &mut self,
        table: ObjectId,
        change: &GrantChange,
        grantor: &str,
        taken: Privileges,
    ) -> Result<()> {
        let columns = self.granted_columns(table).map(|(column, _)| column).collect::<Vec<_>>();
        for column in columns {
            let mut grants = self.all_grants(column, SubjectKind::Column);
            change.apply(&mut grants, grantor, taken.within(SubjectKind::Column.all()))?;
            let is_empty = grants.is_empty();
            self.subjects.entry(column).or_default().grants = Some(grants).filter(|_| !is_empty);
            self.tidy(column);
        }
        Ok(())
    }

    /// In whose name somebody may pass privileges on, and which of them.
    fn best_grantor(
        &self,
        subject: Subject,
        kind: SubjectKind,
        wanted: Privileges,
        by: &Speaker,
    ) -> (String, Privileges) {
        let owner = self.owner_of(subject);
        if by.is_superuser || by.roles.contains(owner) {
            return (owner.to_owned(), wanted);
        }
        let options = |role: &String| {
            let own = BTreeSet::from([role.clone()]);
            let of_whole = match subject.owned() == subject {
                true => Privileges::NONE,
                false => self.privileges(&own, subject.owned(), SubjectKind::Table, true),
            };
            self.privileges(&own, subject, kind, true).with(of_whole).within(wanted)
        };
        let own = options(&by.name);
        let others = by.roles.iter().map(|role| (role.clone(), options(role)));
        let best = others.max_by_key(|(_, may)| may.iter().count());
        match best {
            Some((role, may)) if may.iter().count() > own.iter().count() => (role, may),
            _ => (by.name.clone(), own),
        }
    }
}

impl GrantChange {
    fn apply(&self, grants: &mut Vec<Grant>, grantor: &str, privileges: Privileges) -> Result<()> {
        for grantee in &self.grantees {
            if self.is_grant {
                if self.options && grantee == grants::PUBLIC {
                    let message = "grant options can only be granted to roles";
                    return Err(Error::input(message).with_code("0LP01"));
                }
                let options = if self.options { privileges } else { Privileges::NONE };
                let (grantee, grantor) = (grantee.clone(), grantor.to_owned());
                grants::add(grants, Grant { grantee, grantor, privileges, options });
                continue;
            }
            let of = (grantee.as_str(), grantor);
            grants::revoke(grants, of, privileges, self.options, self.cascade).map_err(|Dependent| {
                let error = Error::input("dependent privileges exist").with_code("2BP01");
                error.with_hint("Use CASCADE to revoke them too.")
            })?;
        }
        Ok(())
    }
}
