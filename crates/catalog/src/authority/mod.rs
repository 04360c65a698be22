//! Who may do what, as statements have said it: roles, owners, and what is granted.
//!
//! ```text
//!   role ──member of──▶ role        a role has what the roles have that it is a member of, unless it is NOINHERIT
//!   subject ──▶ owner, grants       a table, a view, a sequence, a function, a type, a schema, or the database
//! ```
//!
//! What nobody has said is as PostgreSQL has it: the owner may do everything, everybody may call functions, use types
//! and the default schema, and connect. The owner is [`OWNER`], if no other is said.
//!
//! The users of a server's file are roles as well, whose rights are patterns ([`rights`](crate::rights)); what is
//! granted to them here comes on top of those.

mod changes;
mod grants;
mod merged;
mod predefined;
mod privilege;
mod text;
mod topic;

use std::collections::{BTreeMap, BTreeSet};

use diligence_base::ids::ObjectId;

pub use self::changes::{GrantChange, GrantedOn, RoleChange, Speaker};
pub use self::grants::{Entitlements, Grant, PUBLIC};
pub use self::predefined::{PREDEFINED_ROLES, PredefinedRole, READ_ALL_STATS, SIGNAL_BACKEND, predefined_role};
pub use self::privilege::{Language, Privilege, Privileges, SubjectKind};
pub use self::topic::Topic;
use crate::moment::micros_now;
use crate::name::DEFAULT_SCHEMA_ID;

/// The owner of everything, and the user of a database that nobody logs in to.
pub const OWNER: &str = "diligence";
/// The owner's oid.
pub const OWNER_OID: u32 = 10;
/// The SQLSTATE of what somebody may not do: `insufficient_privilege`.
pub const DENIED: &str = "42501";

/// What a role is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDefinition {
    /// Its number.
    pub id: ObjectId,
    /// Whether it may do everything.
    pub is_superuser: bool,
    /// Whether it has what the roles have that it is a member of.
    pub inherits: bool,
    /// Whether it may make roles.
    pub makes_roles: bool,
    /// Whether it may make databases, of which there is one.
    pub makes_databases: bool,
    /// Whether one may log in as it.
    pub logs_in: bool,
    /// Whether it may replicate; there is nothing to it here.
    pub replicates: bool,
    /// Whether rules of rows do not hold for it; there are none here.
    pub bypasses_rules: bool,
    /// Sessions at once; -1 for as many as there are.
    pub connections_max: i64,
    /// Until when its password is good, in microseconds since 1970.
    pub valid_until: Option<i64>,
    /// What is kept of its password: a verifier of SCRAM-SHA-256.
    pub password: Option<String>,
    /// What its sessions begin with.
    pub settings: BTreeMap<String, String>,
    /// The roles that it is a member of.
    pub member_of: BTreeMap<String, Membership>,
}

impl RoleDefinition {
    /// Whether its password is still good.
    pub fn is_valid(&self) -> bool {
        self.valid_until.is_none_or(|until| until > micros_now())
    }

    /// One that may nothing.
    pub fn new(id: ObjectId) -> Self {
        Self {
            id,
            is_superuser: false,
            inherits: true,
            makes_roles: false,
            makes_databases: false,
            logs_in: false,
            replicates: false,
            bypasses_rules: false,
            connections_max: -1,
            valid_until: None,
            password: None,
            settings: BTreeMap::new(),
            member_of: BTreeMap::new(),
        }
    }
}

/// How a role is a member of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Who has made it one.
    pub grantor: String,
    /// Whether it may make others members.
    pub is_admin: bool,
}

/// What somebody may do something with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The database.
    Database,
    /// A schema.
    Schema(ObjectId),
    /// A relation, a function or a type.
    Object(ObjectId),
    /// A column of a relation, by [its number](crate::Object::column_number).
    Column(ObjectId, u32),
    /// A language of functions.
    Language(Language),
}

impl Subject {
    /// What has its owner.
    fn owned(self) -> Self {
        match self {
            Self::Column(table, _) => Self::Object(table),
            other => other,
        }
    }
}

/// For whose objects a grant is made when they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultsOf {
    /// Who makes them.
    pub role: String,
    /// In which schema; in any, if `None`.
    pub schema: Option<ObjectId>,
    /// What they are.
    pub kind: SubjectKind,
}

/// Who may do what, as statements have said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authority {
    pub(crate) roles: BTreeMap<String, RoleDefinition>,
    pub(crate) subjects: BTreeMap<Subject, Entitlements>,
    pub(crate) defaults: BTreeMap<DefaultsOf, Entitlements>,
    /// What COMMENT ON has said, which goes by the same log.
    pub(crate) comments: BTreeMap<Topic, String>,
    /// What ALTER SYSTEM has set.
    pub(crate) settings: BTreeMap<String, String>,
}

impl Authority {
    /// Whether nothing has been said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The settings that all sessions begin with, and those that are everybody's, as ALTER SYSTEM has set them.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// What COMMENT ON has said.
    pub fn comments(&self) -> &BTreeMap<Topic, String> {
        &self.comments
    }

    /// The roles, in the order of their names.
    pub fn roles(&self) -> &BTreeMap<String, RoleDefinition> {
        &self.roles
    }

    /// The grants that new objects get.
    pub fn defaults(&self) -> &BTreeMap<DefaultsOf, Entitlements> {
        &self.defaults
    }

    /// Whether the role may do everything.
    pub fn is_superuser(&self, role: &str) -> bool {
        role == OWNER || self.roles.get(role).is_some_and(|role| role.is_superuser)
    }

    /// The role and those whose rights it has.
    pub fn held_by(&self, role: &str) -> BTreeSet<String> {
        self.closure(role, |role| role.inherits)
    }

    /// Whether a role is another one, or a member of it in any way.
    pub fn is_member(&self, role: &str, of: &str) -> bool {
        self.closure(role, |_| true).contains(of)
    }

    fn closure(&self, role: &str, goes_on: impl Fn(&RoleDefinition) -> bool) -> BTreeSet<String> {
        let mut all = BTreeSet::from([role.to_owned()]);
        let mut open = vec![role.to_owned()];
        while let Some(role) = open.pop() {
            let own = self.roles.get(&role).filter(|role| goes_on(role)).map(|role| role.member_of.keys());
            let predefined = predefined_role(&role).map_or(&[] as &[&str], |role| role.member_of);
            let of = own.into_iter().flatten().cloned().chain(predefined.iter().map(|of| (*of).to_owned()));
            for of in of.collect::<Vec<_>>() {
                if all.insert(of.clone()) {
                    open.push(of);
                }
            }
        }
        all
    }

    /// Who owns it.
    pub fn owner_of(&self, subject: Subject) -> &str {
        self.subjects.get(&subject.owned()).and_then(|known| known.owner.as_deref()).unwrap_or(OWNER)
    }

    /// What is granted, if that is not what nobody has said.
    pub fn grants_of(&self, subject: Subject) -> Option<&[Grant]> {
        self.subjects.get(&subject)?.grants.as_deref()
    }

    /// Whether the language was granted to somebody who has the rights of these roles.
    pub fn has_language(&self, roles: &BTreeSet<String>, language: Language) -> bool {
        let is_theirs = |grant: &Grant| {
            let grantee = &grant.grantee;
            // What the owner may is for the server to say.
            grantee == PUBLIC || grantee != OWNER && roles.contains(grantee)
        };
        let mut grants = self.grants_of(Subject::Language(language)).unwrap_or_default().iter();
        grants.any(|grant| grant.privileges.has(Privilege::Usage) && is_theirs(grant))
    }

    /// The columns of a relation of which something is granted.
    pub fn granted_columns(&self, table: ObjectId) -> impl Iterator<Item = (Subject, &Entitlements)> {
        let all = self.subjects.range(Subject::Column(table, 0)..=Subject::Column(table, u32::MAX));
        all.map(|(subject, known)| (*subject, known))
    }

    /// What somebody who has the rights of these roles may do with it; whether also to pass it on, if `options`.
    pub fn privileges(
        &self,
        roles: &BTreeSet<String>,
        subject: Subject,
        kind: SubjectKind,
        options: bool,
    ) -> Privileges {
        let owner = self.owner_of(subject);
        if options && roles.contains(owner) {
            return kind.all();
        }
        let granted = match self.grants_of(subject) {
            None if options || kind == SubjectKind::Column => Privileges::NONE,
            None if roles.contains(owner) => kind.all(),
            None => public_of(subject, kind),
            Some(grants) => {
                let held = grants.iter().filter(|grant| grant.grantee == PUBLIC || roles.contains(&grant.grantee));
                held.fold(Privileges::NONE, |all, grant| {
                    all.with(if options { grant.options } else { grant.privileges })
                })
            }
        };
        if options { granted } else { granted.with(predefined::privileges_of(roles, kind)) }
    }

    /// The grants of a subject, those that nobody has said included.
    pub fn all_grants(&self, subject: Subject, kind: SubjectKind) -> Vec<Grant> {
        match self.grants_of(subject) {
            Some(grants) => grants.to_vec(),
            // What the owner may do is said of the whole table.
            None if kind == SubjectKind::Column => vec![],
            None => unsaid(self.owner_of(subject), public_of(subject, kind), kind),
        }
    }

    /// Says who owns it. Grants of its owner become those of the new one.
    pub(crate) fn set_owner(&mut self, subject: Subject, owner: &str) {
        let before = self.owner_of(subject).to_owned();
        let entry = self.subjects.entry(subject).or_default();
        entry.owner = (owner != OWNER).then(|| owner.to_owned());
        if let Some(grants) = &mut entry.grants {
            grants::rename(grants, &before, owner);
        }
        if let Subject::Object(table) = subject {
            let columns = self.subjects.range_mut(Subject::Column(table, 0)..=Subject::Column(table, u32::MAX));
            for grants in columns.filter_map(|(_, known)| known.grants.as_mut()) {
                grants::rename(grants, &before, owner);
            }
        }
        self.tidy(subject);
    }

    /// Forgets what says nothing.
    fn tidy(&mut self, subject: Subject) {
        if self.subjects.get(&subject).is_some_and(|known| *known == Entitlements::default()) {
            self.subjects.remove(&subject);
        }
    }

    /// A new object of a role gets its owner, and the grants that are made for such objects.
    pub(crate) fn own_new(&mut self, subject: Subject, kind: SubjectKind, schema: Option<ObjectId>, owner: &str) {
        self.set_owner(subject, owner);
        let mut made: Option<Vec<Grant>> = None;
        for schema in [None, schema].into_iter().collect::<BTreeSet<_>>() {
            let of = DefaultsOf { role: owner.to_owned(), schema, kind };
            let Some(said) = self.defaults.get(&of).and_then(|known| known.grants.clone()) else { continue };
            made = Some(match (schema, made) {
                // What is said for all schemas stands in the place of what nobody has said, of one comes on top.
                (None, _) => said,
                (Some(_), before) => {
                    let mut all = before.unwrap_or_else(|| unsaid(owner, public_of(subject, kind), kind));
                    said.into_iter().for_each(|grant| grants::add(&mut all, grant));
                    all
                }
            });
        }
        if let Some(grants) = made {
            self.subjects.entry(subject).or_default().grants = Some(grants);
        }
    }
}

/// What everybody may do, if nobody has said it.
fn public_of(subject: Subject, kind: SubjectKind) -> Privileges {
    match (subject, kind) {
        (Subject::Schema(id), _) if id == DEFAULT_SCHEMA_ID => Privileges::of(&[Privilege::Usage]),
        _ => kind.public(),
    }
}

/// The grants that nobody has said.
fn unsaid(owner: &str, public: Privileges, kind: SubjectKind) -> Vec<Grant> {
    let grant = |grantee: &str, privileges| Grant {
        grantee: grantee.to_owned(),
        grantor: owner.to_owned(),
        privileges,
        options: Privileges::NONE,
    };
    let of_public = (public != Privileges::NONE).then(|| grant(PUBLIC, public));
    of_public.into_iter().chain([grant(owner, kind.all())]).collect()
}
