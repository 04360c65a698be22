//! Roles that PostgreSQL has from the start: `pg_read_all_data`, `pg_monitor` and their kin. A role that is granted or
//! gets something becomes one of the catalog.

use std::collections::BTreeSet;

use super::{Privilege, Privileges, SubjectKind};

/// Who may read every table, view and sequence.
const READ_ALL_DATA: &str = "pg_read_all_data";
/// Who may write to every table and view.
const WRITE_ALL_DATA: &str = "pg_write_all_data";
/// Who sees what other sessions do.
pub const READ_ALL_STATS: &str = "pg_read_all_stats";
/// Who may cancel and end sessions of others.
pub const SIGNAL_BACKEND: &str = "pg_signal_backend";

/// One of these roles.
#[derive(Debug, PartialEq, Eq)]
pub struct PredefinedRole {
    /// Its name.
    pub name: &'static str,
    /// Its number, which is PostgreSQL's.
    pub oid: u32,
    /// The roles that it is a member of.
    pub member_of: &'static [&'static str],
    /// Why nobody can become a member of it, if nobody can.
    pub refused: Option<&'static str>,
}

/// Why the roles for files of the server are not granted.
const OF_FILES: Option<&str> = Some("the server's user file says who may use files of the server: files = true");
/// Why roles are not granted to which there is nothing here.
const OF_NOTHING: Option<&str> = Some("there is nothing here that only its members may do");

/// A role.
const fn role(name: &'static str, oid: u32, refused: Option<&'static str>) -> PredefinedRole {
    PredefinedRole { name, oid, member_of: &[], refused }
}

/// All of them.
pub const PREDEFINED_ROLES: [PredefinedRole; 12] = [
    PredefinedRole {
        name: "pg_monitor",
        oid: 3373,
        member_of: &["pg_read_all_settings", READ_ALL_STATS, "pg_stat_scan_tables"],
        refused: None,
    },
    role("pg_read_all_settings", 3374, None),
    role(READ_ALL_STATS, 3375, None),
    role("pg_stat_scan_tables", 3377, None),
    role(SIGNAL_BACKEND, 4200, None),
    role("pg_checkpoint", 4544, OF_NOTHING),
    role("pg_read_server_files", 4569, OF_FILES),
    role("pg_write_server_files", 4570, OF_FILES),
    role("pg_execute_server_program", 4571, Some("no statement runs programs of the server")),
    role("pg_database_owner", 6171, Some("its only member is the owner of the database")),
    role(READ_ALL_DATA, 6181, None),
    role(WRITE_ALL_DATA, 6182, None),
];

/// The role of a name, if it is one of these.
pub fn predefined_role(name: &str) -> Option<&'static PredefinedRole> {
    PREDEFINED_ROLES.iter().find(|role| role.name == name)
}

/// What those who have the rights of these roles may do with everything of a kind.
pub(super) fn privileges_of(roles: &BTreeSet<String>, kind: SubjectKind) -> Privileges {
    let of = |role: &str, privileges: &[Privilege]| match roles.contains(role) {
        true => Privileges::of(privileges),
        false => Privileges::NONE,
    };
    match kind {
        SubjectKind::Table => of(READ_ALL_DATA, &[Privilege::Select])
            .with(of(WRITE_ALL_DATA, &[Privilege::Insert, Privilege::Update, Privilege::Delete])),
        SubjectKind::Sequence => of(READ_ALL_DATA, &[Privilege::Select]).with(of(WRITE_ALL_DATA, &[Privilege::Update])),
        SubjectKind::Schema => of(READ_ALL_DATA, &[Privilege::Usage]).with(of(WRITE_ALL_DATA, &[Privilege::Usage])),
        _ => Privileges::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_reach_all_tables_and_schemas_but_nothing_else() {
        let roles = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let read = privileges_of(&roles(&["ann", READ_ALL_DATA]), SubjectKind::Table);
        assert!(read.has(Privilege::Select) && !read.has(Privilege::Insert));
        let write = privileges_of(&roles(&[WRITE_ALL_DATA]), SubjectKind::Table);
        assert!(write.has(Privilege::Delete) && !write.has(Privilege::Select));
        assert!(privileges_of(&roles(&[READ_ALL_DATA]), SubjectKind::Schema).has(Privilege::Usage));
        assert_eq!(privileges_of(&roles(&[READ_ALL_DATA]), SubjectKind::Routine), Privileges::NONE);
        assert_eq!(privileges_of(&roles(&["ann"]), SubjectKind::Table), Privileges::NONE);
    }

    #[test]
    fn members_are_roles_of_the_list() {
        for role in &PREDEFINED_ROLES {
            assert!(role.member_of.iter().all(|of| predefined_role(of).is_some()), "{}", role.name);
        }
    }
}
