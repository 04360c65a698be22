//! Whom a session acts as, and what that lets it do: SET ROLE and SET SESSION AUTHORIZATION.

use diligence_base::function_limits::FunctionLimits;

use super::*;
use crate::authority::{OWNER_OID, PUBLIC, predefined_role};
use crate::oid_of;

/// Whom a session acts as.
#[derive(Clone, Debug, Default)]
pub(super) struct Acting {
    /// Who has logged in; `None` for whoever runs the database.
    user: Option<String>,
    /// What SET SESSION AUTHORIZATION has said.
    authorization: Option<String>,
    /// What SET ROLE has said.
    role: Option<String>,
    /// The owners of the SECURITY DEFINER functions that run, the innermost last.
    owners: Vec<(u64, String)>,
    /// How many of those there have been.
    owners_begun: u64,
}

impl Acting {
    /// Whom it was told to act as; `None` for the user that has logged in.
    fn told(&self) -> Option<&String> {
        self.owners.last().map(|(_, owner)| owner).or(self.role.as_ref()).or(self.authorization.as_ref())
    }

    /// Fails with code 42501 within a SECURITY DEFINER function: it would give its caller what is the owner's.
    fn check_may_change(&self, parameter: &str) -> Result<()> {
        if self.owners.is_empty() {
            return Ok(());
        }
        let message = format!("cannot set parameter \"{parameter}\" within security-definer function");
        Err(Error::input(message).with_code(DENIED))
    }
}

/// A session that acts as the owner of a function, until this is dropped. Those of one session end in any order.
pub struct ActsAsOwner {
    acting: Arc<RwLock<Acting>>,
    number: u64,
}

impl Drop for ActsAsOwner {
    fn drop(&mut self) {
        self.acting.write().owners.retain(|(number, _)| *number != self.number);
    }
}

/// What a role may do; `None` if there is none of the name, and no `own` rights are said. The server's file is first.
pub(super) fn rights_of(
    names: &CatalogSnapshot,
    users: &BTreeMap<String, Arc<Rights>>,
    role: &str,
    own: Option<&Arc<Rights>>,
) -> Option<Arc<Rights>> {
    let in_file = users.get(role);
    if names.authority().is_superuser(role) && own.is_none_or(|own| own.are_all()) {
        return Some(Arc::new(Rights::all()));
    }
    let is_known = names.authority().roles().contains_key(role) || predefined_role(role).is_some();
    let patterns = match in_file.or(own) {
        Some(rights) if in_file.is_none() && is_known && rights.are_all() => Rights::only(vec![], vec![]),
        Some(rights) if rights.are_all() => return Some(rights.clone()),
        Some(rights) => Rights::clone(rights),
        None if is_known => Rights::only(vec![], vec![]),
        None => return None,
    };
    Some(Arc::new(patterns.with_role(names, role)))
}

/// Users of the server's file have numbers from here on, in the order of their names.
const USERS_FROM: u32 = 990_000_000;

impl SessionSnapshot {
    /// The number by which PostgreSQL's clients know a role; `None` if there is none.
    pub fn role_oid(&self, name: &str) -> Option<u32> {
        if name == OWNER {
            return Some(OWNER_OID);
        }
        if let Some(role) = predefined_role(name) {
            return Some(role.oid);
        }
        let in_catalog = self.catalog.authority().roles().get(name).map(|role| oid_of(role.id));
        let in_file = || self.users.keys().zip(USERS_FROM..).find(|(known, _)| *known == name).map(|(_, oid)| oid);
        in_catalog.or_else(in_file)
    }

    /// What everybody may do, if they are nobody.
    pub(crate) fn rights_of_public(&self) -> Rights {
        Rights::only(vec![], vec![]).with_role(&self.catalog, PUBLIC)
    }
}

impl SessionCatalogs {
    /// Says who has logged in. Without it a session is that of whoever runs the database.
    pub fn set_user(&self, user: &str) {
        self.acting.write().user = Some(user.to_owned());
    }

    /// What sessions of the user begin with: what ALTER SYSTEM has set, and what the role has in its place.
    pub fn initial_settings(&self) -> BTreeMap<String, String> {
        let names = self.base.snapshot();
        let mut settings = names.authority().settings().clone();
        if let Some(user) = &self.acting.read().user
            && let Some(role) = names.authority().roles().get(user)
        {
            settings.extend(role.settings.clone());
        }
        settings
    }

    /// What the functions in other languages may take that the session calls: the limits of the user who has logged in,
    /// whatever it acts as.
    pub fn function_limits(&self) -> FunctionLimits {
        let Some(user) = self.acting.read().user.clone() else { return FunctionLimits::default() };
        let names = self.base.snapshot();
        let role = names.authority().roles().get(&user);
        role.map(|role| FunctionLimits::of(&role.settings)).unwrap_or_default()
    }

    /// The role that SET ROLE has said.
    pub fn role(&self) -> Option<String> {
        self.acting.read().role.clone()
    }

    /// Whom the session was told to act as: the owner of the SECURITY DEFINER function that runs, or what SET ROLE and
    /// SET SESSION AUTHORIZATION have said.
    pub fn told(&self) -> Option<String> {
        self.acting.read().told().cloned()
    }

    /// The user that the session is, if SET SESSION AUTHORIZATION has said one.
    pub fn authorization(&self) -> Option<String> {
        self.acting.read().authorization.clone()
    }

    /// What the session may do now.
    pub fn rights(&self) -> Arc<Rights> {
        self.rights_in(&self.catalog().snapshot())
    }

    /// Whether it acts as a role that may not do everything: what the session has beside rights is not the role's.
    pub fn acts_as_role(&self) -> bool {
        let Some(role) = self.acted_as().filter(|role| role != OWNER) else { return false };
        let is_set = self.acting.read().user.as_ref() != Some(&role);
        let names = self.base.snapshot();
        let known = names.authority().roles().get(&role);
        match known {
            Some(known) => !known.is_superuser && !self.base.users().contains_key(&role),
            None => is_set,
        }
    }

    /// Who makes what the session makes now, if that is not whoever runs the database.
    pub fn maker(&self) -> Option<String> {
        let role = self.acted_as()?;
        let names = self.catalog().snapshot();
        let is_known = names.authority().roles().contains_key(&role);
        (role != OWNER && (is_known || !self.rights_in(&names).are_all())).then_some(role)
    }

    /// Who says what the session says now.
    pub fn speaker(&self) -> Speaker {
        let names = self.catalog().snapshot();
        let rights = self.rights_in(&names);
        let name = self.acted_as().filter(|role| !rights.are_all() || names.authority().roles().contains_key(role));
        let name = name.unwrap_or_else(|| OWNER.to_owned());
        Speaker { roles: names.authority().held_by(&name), is_superuser: rights.are_all(), name }
    }

    /// Acts as the owner of a SECURITY DEFINER function while it runs.
    pub fn act_as_owner(&self, owner: &str) -> ActsAsOwner {
        let mut acting = self.acting.write();
        acting.owners_begun += 1;
        let number = acting.owners_begun;
        acting.owners.push((number, owner.to_owned()));
        ActsAsOwner { acting: self.acting.clone(), number }
    }

    fn acted_as(&self) -> Option<String> {
        let acting = self.acting.read();
        acting.told().or(acting.user.as_ref()).cloned()
    }

    pub(super) fn rights_in(&self, names: &CatalogSnapshot) -> Arc<Rights> {
        let acting = self.acting.read().clone();
        if let Some(role) = acting.told() {
            let rights = rights_of(names, &self.base.users(), role, None);
            // It was dropped meanwhile.
            return rights.unwrap_or_else(|| Arc::new(Rights::only(vec![], vec![])));
        }
        match &acting.user {
            None => self.own_rights.clone(),
            Some(user) => {
                let rights = rights_of(names, &self.base.users(), user, Some(&self.own_rights));
                rights.unwrap_or_else(|| self.own_rights.clone())
            }
        }
    }

    /// SET ROLE; back to the user with `None`. Fails with code 22023 if there is no such role, 42501 if the user is no
    /// member of it, or within a SECURITY DEFINER function.
    pub fn set_role(&self, role: Option<&str>) -> Result<()> {
        self.acting.read().check_may_change("role")?;
        if let Some(role) = role {
            let names = self.catalog().snapshot();
            self.check_known(&names, role)?;
            let Acting { user, authorization, .. } = self.acting.read().clone();
            let user = authorization.or(user);
            let may_all = match &user {
                None => self.own_rights.are_all(),
                Some(user) => {
                    rights_of(&names, &self.base.users(), user, Some(&self.own_rights)).is_some_and(|own| own.are_all())
                }
            };
            if !may_all && !user.is_some_and(|user| names.authority().is_member(&user, role)) {
                let message = format!("permission denied to set role \"{role}\"");
                return Err(Error::input(message).with_code(DENIED).with_hint(format!("GRANT {role} TO … allows it")));
            }
        }
        self.acting.write().role = role.map(str::to_owned);
        Ok(())
    }

    /// SET SESSION AUTHORIZATION; back to who has logged in with `None`. Fails with code 22023 if there is no such
    /// role, 42501 if who has logged in may not do everything, or within a SECURITY DEFINER function.
    pub fn set_authorization(&self, role: Option<&str>) -> Result<()> {
        self.acting.read().check_may_change("session_authorization")?;
        if let Some(role) = role {
            let names = self.catalog().snapshot();
            self.check_known(&names, role)?;
            let user = self.acting.read().user.clone();
            let own =
                user.as_deref().and_then(|user| rights_of(&names, &self.base.users(), user, Some(&self.own_rights)));
            let is_self = user.as_deref() == Some(role);
            if !own.unwrap_or_else(|| self.own_rights.clone()).are_all() && !is_self {
                return Err(Error::input("permission denied to set session authorization").with_code(DENIED));
            }
        }
        let mut acting = self.acting.write();
        acting.authorization = role.map(str::to_owned);
        acting.role = None;
        Ok(())
    }

    /// What SET ROLE had said is true again.
    pub fn restore_role(&self, role: Option<String>) {
        self.acting.write().role = role;
    }

    /// What SET SESSION AUTHORIZATION had said is true again.
    pub fn restore_authorization(&self, user: Option<String>) {
        self.acting.write().authorization = user;
    }

    fn check_known(&self, names: &CatalogSnapshot, role: &str) -> Result<()> {
        let is_known = role == OWNER || names.authority().roles().contains_key(role);
        if is_known || self.base.users().contains_key(role) {
            return Ok(());
        }
        let error = Error::input(format!("role \"{role}\" does not exist")).with_code("22023");
        Err(error.with_hint("CREATE ROLE makes one"))
    }
}
