//! Roles, their memberships and settings, and what is granted: `pg_roles`, `pg_auth_members`, `pg_default_acl`, …

use std::collections::BTreeMap;

use diligence_catalog::authority::{Grant, PREDEFINED_ROLES, RoleDefinition, Subject, SubjectKind, Topic};
use diligence_catalog::privileges::{DATABASE_OID, OWNER};
use diligence_catalog::{Object, SessionSnapshot, oid_of};

use super::rows::Cell;

/// Every role that there is: those of the catalog and the predefined ones, the users of the server's file, and whoever
/// runs the database.
fn all_roles(snapshot: &SessionSnapshot) -> BTreeMap<String, RoleDefinition> {
    let authority = snapshot.catalog.authority();
    let mut all = authority.roles().clone();
    let user = |is_superuser| RoleDefinition {
        is_superuser,
        makes_roles: is_superuser,
        makes_databases: is_superuser,
        logs_in: true,
        ..RoleDefinition::new(diligence_base::ids::ObjectId(0))
    };
    for (name, rights) in snapshot.users() {
        let role = all.entry(name.clone()).or_insert_with(|| user(rights.are_all()));
        role.logs_in = true;
    }
    for predefined in &PREDEFINED_ROLES {
        let role = || RoleDefinition::new(diligence_base::ids::ObjectId(0));
        all.entry(predefined.name.to_owned()).or_insert_with(role);
    }
    all.insert(OWNER.to_owned(), user(true));
    all
}

/// The number of a role.
fn role_oid(snapshot: &SessionSnapshot, name: &str) -> u32 {
    snapshot.role_oid(name).unwrap_or_default()
}

/// The number of the role that owns something.
pub(super) fn owner_oid(snapshot: &SessionSnapshot, subject: Subject) -> Cell {
    role_oid(snapshot, snapshot.catalog.authority().owner_of(subject)).into()
}

/// The name of the role that owns something; of nothing, that of whoever runs the database.
pub(super) fn owner_name(snapshot: &SessionSnapshot, object: Option<&Object>) -> Cell {
    let owner = object.map(|object| snapshot.catalog.authority().owner_of(Subject::Object(object.id)));
    owner.unwrap_or(OWNER).into()
}

/// What is granted of something, as PostgreSQL shows it; NULL, if nobody has said anything.
pub(super) fn grants(snapshot: &SessionSnapshot, subject: Subject) -> Cell {
    match snapshot.catalog.authority().grants_of(subject) {
        Some(grants) => Cell::Texts(grants.iter().map(Grant::text).collect()),
        None => Cell::Null,
    }
}

/// The grants of a column.
pub(super) fn grants_of_column(snapshot: &SessionSnapshot, object: &Object, column: &str) -> Cell {
    let number = object.column_number(column);
    number.map_or(Cell::Null, |number| grants(snapshot, Subject::Column(object.id, number)))
}

fn settings(settings: &BTreeMap<String, String>) -> Cell {
    match settings.is_empty() {
        true => Cell::Null,
        false => Cell::Texts(settings.iter().map(|(name, value)| format!("{name}={value}")).collect()),
    }
}

fn until(role: &RoleDefinition) -> Cell {
    role.valid_until.map_or(Cell::Null, Cell::Number)
}

/// `pg_roles`, and `pg_authid`, which nobody sees passwords in.
pub(super) fn roles(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(name, role): (String, RoleDefinition)| {
        let flags = [
            role.is_superuser,
            role.inherits,
            role.makes_roles,
            role.makes_databases,
            role.logs_in,
            role.replicates,
            role.bypasses_rules || name == OWNER,
        ];
        let head = [role_oid(snapshot, &name).into(), name.into()];
        let tail = [Cell::Number(role.connections_max), "********".into(), until(&role), settings(&role.settings)];
        head.into_iter().chain(flags.map(Cell::Flag)).chain(tail).collect()
    };
    all_roles(snapshot).into_iter().map(row).collect()
}

/// The names of roles by their numbers.
pub(super) fn names(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let named = all_roles(snapshot).into_keys();
    named.map(|name| vec![role_oid(snapshot, &name).into(), name.into()]).collect()
}

/// What COMMENT ON has said of roles and of the database.
pub(super) fn comments(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    /// The numbers of `pg_authid` and `pg_database`.
    const CLASSES: [u32; 2] = [1260, 1262];
    let comments = snapshot.catalog.authority().comments().iter();
    let row = |(topic, text): (&Topic, &String)| {
        let (number, class) = match topic {
            Topic::Role(name) => (role_oid(snapshot, name), CLASSES[0]),
            Topic::Subject(Subject::Database) => (DATABASE_OID, CLASSES[1]),
            _ => return None,
        };
        Some(vec![number.into(), class.into(), text.as_str().into()])
    };
    comments.filter_map(row).collect()
}

/// `pg_user` and `pg_shadow`.
pub(super) fn users(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(name, role): (String, RoleDefinition)| {
        let bypasses = role.bypasses_rules || name == OWNER;
        let flags = [role.makes_databases && name != OWNER, role.is_superuser, role.replicates, bypasses];
        let oid = role_oid(snapshot, &name);
        let head = [name.into(), oid.into()];
        let tail = ["********".into(), until(&role), settings(&role.settings)];
        head.into_iter().chain(flags.map(Cell::Flag)).chain(tail).collect()
    };
    all_roles(snapshot).into_iter().filter(|(_, role)| role.logs_in).map(row).collect()
}

/// `pg_auth_members`.
pub(super) fn members(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (member, role) in snapshot.catalog.authority().roles() {
        for (of, membership) in &role.member_of {
            rows.push(vec![
                Cell::Number(rows.len() as i64 + 1),
                role_oid(snapshot, of).into(),
                role_oid(snapshot, member).into(),
                role_oid(snapshot, &membership.grantor).into(),
                membership.is_admin.into(),
                role.inherits.into(),
                true.into(),
            ]);
        }
    }
    rows
}

/// `pg_group`: roles that nobody logs in as.
pub(super) fn groups(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let roles = snapshot.catalog.authority().roles();
    let row = |(name, _): (&String, &RoleDefinition)| {
        let members = roles.iter().filter(|(_, role)| role.member_of.contains_key(name));
        let members = members.map(|(member, _)| i64::from(role_oid(snapshot, member))).collect();
        vec![name.as_str().into(), role_oid(snapshot, name).into(), Cell::Numbers(members)]
    };
    roles.iter().filter(|(_, role)| !role.logs_in).map(row).collect()
}

/// `pg_db_role_setting`.
pub(super) fn role_settings(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let roles = snapshot.catalog.authority().roles().iter().filter(|(_, role)| !role.settings.is_empty());
    let of_roles = roles.map(|(name, role)| (role_oid(snapshot, name), &role.settings));
    let of_all = [(0, snapshot.catalog.authority().settings())].into_iter().filter(|(_, all)| !all.is_empty());
    of_all.chain(of_roles).map(|(role, all)| vec![0.into(), role.into(), settings(all)]).collect()
}

/// `pg_default_acl`.
pub(super) fn defaults(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (of, known) in snapshot.catalog.authority().defaults() {
        let texts = known.grants.iter().flatten().map(Grant::text).collect();
        rows.push(vec![
            Cell::Number(rows.len() as i64 + 1),
            role_oid(snapshot, &of.role).into(),
            of.schema.map_or(0, oid_of).into(),
            of.kind.letter().into(),
            Cell::Texts(texts),
        ]);
    }
    rows
}

/// What `aclexplode` of a relation gives, beside its number: who has granted what to whom.
pub(super) fn single_grants(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let authority = snapshot.catalog.authority();
    let mut rows = Vec::new();
    let mut add = |oid: u32, subject: Subject, kind: SubjectKind| {
        for grant in authority.all_grants(subject, kind) {
            for privilege in grant.privileges.iter() {
                rows.push(vec![
                    oid.into(),
                    kind.letter().into(),
                    grant.grantor.as_str().into(),
                    if grant.grantee.is_empty() { "PUBLIC".into() } else { grant.grantee.as_str().into() },
                    privilege.name().into(),
                    grant.options.has(privilege).into(),
                ]);
            }
        }
    };
    for object in snapshot.catalog.all_objects() {
        add(object.oid(), Subject::Object(object.id), object.relation.subject_kind());
    }
    for (_, id) in snapshot.catalog.schemas() {
        add(oid_of(id), Subject::Schema(id), SubjectKind::Schema);
    }
    add(DATABASE_OID, Subject::Database, SubjectKind::Database);
    rows
}
