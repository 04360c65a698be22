//! Roles and what is granted to them, as the SQL standard describes it.
//!
//! Each of these views is there twice: `role_…_grants` has what the session's roles have granted or got, and the other
//! one also what everybody has got. Who may do everything sees all.

use std::collections::BTreeSet;
use std::sync::Arc;

use diligence_catalog::authority::{Grant, PUBLIC, Privilege, Subject, SubjectKind};
use diligence_catalog::{CATALOG_NAME, Object, Relation, SessionSnapshot, oid_of};

use super::{Cell, Row};

/// The roles whose rights the session has; the user among them.
fn own_roles(snapshot: &SessionSnapshot, user: &str) -> BTreeSet<String> {
    let mut roles = snapshot.rights.roles();
    roles.insert(user.to_owned());
    roles
}

pub(super) fn enabled_roles(snapshot: &SessionSnapshot, user: &str) -> Vec<Row> {
    let mut roles = own_roles(snapshot, user);
    if snapshot.rights.are_all() {
        roles.extend(snapshot.catalog.authority().roles().keys().cloned());
    }
    roles.into_iter().map(|role| row! { "role_name": role }).collect()
}

/// `applicable_roles`, and those that one may pass on.
pub(super) fn memberships(snapshot: &SessionSnapshot, user: &str, view: &str) -> Vec<Row> {
    let own = own_roles(snapshot, user);
    let mut rows = Vec::new();
    for (member, role) in snapshot.catalog.authority().roles() {
        if !own.contains(member) && !snapshot.rights.are_all() {
            continue;
        }
        for (of, membership) in &role.member_of {
            if view == "applicable_roles" || membership.is_admin {
                rows.push(row! {
                    "grantee": member.as_str(),
                    "role_name": of.as_str(),
                    "is_grantable": yes_or_no(membership.is_admin),
                });
            }
        }
    }
    rows
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

/// What is granted of a subject, one by one, as far as the session may see it.
fn granted(
    snapshot: &SessionSnapshot,
    user: &str,
    subject: Subject,
    kind: SubjectKind,
    with_public: bool,
) -> Vec<(Grant, Privilege)> {
    let authority = snapshot.catalog.authority();
    let own = own_roles(snapshot, user);
    let sees = |grant: &Grant| {
        let is_own = own.contains(&grant.grantee) || own.contains(&grant.grantor);
        let is_public = grant.grantee == PUBLIC;
        if is_public { with_public } else { is_own || snapshot.rights.are_all() }
    };
    let grants = authority.all_grants(subject, kind).into_iter().filter(sees);
    grants.flat_map(|grant| grant.privileges.iter().map(|one| (grant.clone(), one)).collect::<Vec<_>>()).collect()
}

fn row_of(snapshot: &SessionSnapshot, subject: Subject, (grant, privilege): &(Grant, Privilege)) -> Row {
    let owner = snapshot.catalog.authority().owner_of(subject);
    let is_grantable = grant.options.has(*privilege) || grant.grantee == owner;
    row! {
        "grantor": grant.grantor.as_str(),
        "grantee": if grant.grantee == PUBLIC { "PUBLIC" } else { grant.grantee.as_str() },
        "privilege_type": privilege.name(),
        "is_grantable": yes_or_no(is_grantable),
    }
}

fn objects(snapshot: &SessionSnapshot, kind: SubjectKind) -> impl Iterator<Item = &Arc<Object>> {
    let all = snapshot.catalog.all_objects();
    all.filter(move |object| object.relation.subject_kind() == kind && snapshot.sees(&object.name))
}

/// `table_privileges` and `role_table_grants`.
pub(super) fn of_tables(snapshot: &SessionSnapshot, user: &str, with_public: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in objects(snapshot, SubjectKind::Table).filter(|object| object.relation.materialized().is_none()) {
        let subject = Subject::Object(object.id);
        for grant in granted(snapshot, user, subject, SubjectKind::Table, with_public) {
            let mut row = row_of(snapshot, subject, &grant);
            row.insert("table_catalog", CATALOG_NAME.into());
            row.insert("table_schema", object.name.schema.as_str().into());
            row.insert("table_name", object.name.name.as_str().into());
            row.insert("with_hierarchy", yes_or_no(grant.1 == Privilege::Select).into());
            rows.push(row);
        }
    }
    rows
}

/// `column_privileges` and `role_column_grants`: those of whole tables, for each of their columns.
pub(super) fn of_columns(snapshot: &SessionSnapshot, user: &str, with_public: bool) -> Vec<Row> {
    const OF_COLUMNS: [Privilege; 4] = [Privilege::Select, Privilege::Insert, Privilege::Update, Privilege::References];
    let mut rows = Vec::new();
    for object in objects(snapshot, SubjectKind::Table).filter(|object| !matches!(object.relation, Relation::Files(_)))
    {
        let Ok(schema) = object.relation.schema() else { continue };
        let subject = Subject::Object(object.id);
        let grants = granted(snapshot, user, subject, SubjectKind::Table, with_public);
        for grant in grants.iter().filter(|(_, privilege)| OF_COLUMNS.contains(privilege)) {
            for field in schema.fields() {
                let mut row = row_of(snapshot, subject, grant);
                row.insert("table_catalog", CATALOG_NAME.into());
                row.insert("table_schema", object.name.schema.as_str().into());
                row.insert("table_name", object.name.name.as_str().into());
                row.insert("column_name", field.name().as_str().into());
                rows.push(row);
            }
        }
        for field in schema.fields() {
            let Some(number) = object.column_number(field.name()) else { continue };
            let column = Subject::Column(object.id, number);
            for grant in granted(snapshot, user, column, SubjectKind::Column, with_public) {
                // What is granted of the whole table is there already.
                if grants.contains(&grant) {
                    continue;
                }
                let mut row = row_of(snapshot, column, &grant);
                row.insert("table_catalog", CATALOG_NAME.into());
                row.insert("table_schema", object.name.schema.as_str().into());
                row.insert("table_name", object.name.name.as_str().into());
                row.insert("column_name", field.name().as_str().into());
                rows.push(row);
            }
        }
    }
    rows
}

/// `routine_privileges` and `role_routine_grants`.
pub(super) fn of_routines(snapshot: &SessionSnapshot, user: &str, with_public: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in objects(snapshot, SubjectKind::Routine) {
        let Some(shown) = object.name.routine() else { continue };
        let name = shown.split('(').next().unwrap_or(shown);
        let subject = Subject::Object(object.id);
        for grant in granted(snapshot, user, subject, SubjectKind::Routine, with_public) {
            let mut row = row_of(snapshot, subject, &grant);
            for what in ["specific_catalog", "routine_catalog"] {
                row.insert(what, CATALOG_NAME.into());
            }
            for what in ["specific_schema", "routine_schema"] {
                row.insert(what, object.name.schema.as_str().into());
            }
            row.insert("specific_name", format!("{name}_{}", oid_of(object.id)).into());
            row.insert("routine_name", name.into());
            rows.push(row);
        }
    }
    rows
}

/// `usage_privileges` and `role_usage_grants`: of sequences and domains.
pub(super) fn of_usage(snapshot: &SessionSnapshot, user: &str, with_public: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let sequences = objects(snapshot, SubjectKind::Sequence);
    let domains = objects(snapshot, SubjectKind::Type).filter(|object| matches!(object.relation, Relation::Domain(_)));
    for object in sequences.chain(domains) {
        let (kind, subject) = (object.relation.subject_kind(), Subject::Object(object.id));
        let is_sequence = kind == SubjectKind::Sequence;
        let grants = granted(snapshot, user, subject, kind, with_public);
        for grant in grants.iter().filter(|(_, privilege)| *privilege == Privilege::Usage) {
            let mut row = row_of(snapshot, subject, grant);
            row.insert("object_catalog", CATALOG_NAME.into());
            row.insert("object_schema", object.name.schema.as_str().into());
            row.insert("object_name", object.name.name.as_str().into());
            row.insert("object_type", Cell::from(if is_sequence { "SEQUENCE" } else { "DOMAIN" }));
            rows.push(row);
        }
    }
    rows
}
