//! Roles, owners and grants as statements, for EXPORT DATABASE.

use std::fmt::Write;

use diligence_catalog::authority::{Grant, Language, PUBLIC, Privileges, Subject, SubjectKind, Topic, predefined_role};
use diligence_catalog::privileges::OWNER;
use diligence_catalog::{CATALOG_NAME, Object, Relation, SessionSnapshot};

use super::quoting::{literal, qualified, quoted};
use crate::settings::is_everybodys;

/// What makes roles, before anything is theirs.
pub(super) fn roles(snapshot: &SessionSnapshot) -> String {
    let mut text = String::new();
    let authority = snapshot.catalog.authority();
    let is_made = |name: &str| !snapshot.users().contains_key(name) && predefined_role(name).is_none();
    let made = authority.roles().iter().filter(|(name, _)| is_made(name));
    for (name, role) in made {
        let _ = write!(text, "CREATE ROLE {}", quoted(name));
        for (is, word) in [
            (role.is_superuser, " SUPERUSER"),
            (!role.inherits, " NOINHERIT"),
            (role.makes_roles, " CREATEROLE"),
            (role.makes_databases, " CREATEDB"),
            (role.logs_in, " LOGIN"),
            (role.replicates, " REPLICATION"),
            (role.bypasses_rules, " BYPASSRLS"),
        ] {
            text.push_str(if is { word } else { "" });
        }
        if role.connections_max >= 0 {
            let _ = write!(text, " CONNECTION LIMIT {}", role.connections_max);
        }
        if let Some(password) = &role.password {
            let _ = write!(text, " PASSWORD {}", literal(password));
        }
        if let Some(until) = role.valid_until {
            let seconds = until.div_euclid(1_000_000);
            let micros = until.rem_euclid(1_000_000);
            let _ = write!(text, " VALID UNTIL '{}'", moment(seconds, micros));
        }
        text.push_str(";\n");
    }
    for (setting, value) in authority.settings() {
        // What is everybody's depends on the machine.
        if !is_everybodys(setting) {
            let _ = writeln!(text, "ALTER ROLE ALL SET {setting} TO {};", literal(value));
        }
    }
    for (name, role) in authority.roles() {
        for (setting, value) in &role.settings {
            let _ = writeln!(text, "ALTER ROLE {} SET {setting} TO {};", quoted(name), literal(value));
        }
        for (of, membership) in &role.member_of {
            let admin = if membership.is_admin { " WITH ADMIN OPTION" } else { "" };
            let _ = writeln!(text, "GRANT {} TO {}{admin};", quoted(of), quoted(name));
        }
    }
    text
}

/// A moment as SQL reads it, in UTC.
fn moment(seconds: i64, micros: i64) -> String {
    // Days since 1970 as a date: the algorithm of the proleptic calendar, in eras of 400 years.
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}+00")
}

/// What gives things their owners, and others what they may do with them.
pub(super) fn grants(snapshot: &SessionSnapshot) -> String {
    let mut text = String::new();
    let authority = snapshot.catalog.authority();
    put(&mut text, snapshot, Subject::Database, "DATABASE", CATALOG_NAME);
    for language in Language::ALL {
        put(&mut text, snapshot, Subject::Language(language), "LANGUAGE", language.name());
    }
    for (name, id) in snapshot.catalog.kept_schemas() {
        put(&mut text, snapshot, Subject::Schema(id), "SCHEMA", &quoted(name));
    }
    let objects = snapshot.catalog.all_objects().filter(|object| !object.name.is_temporary());
    for object in objects.filter(|object| object.relation.is_kept()) {
        put(&mut text, snapshot, Subject::Object(object.id), kind_word(object), &named(object));
        for (column, known) in authority.granted_columns(object.id) {
            let Subject::Column(_, number) = column else { continue };
            let Some(name) = object.column_of(number) else { continue };
            let (owner, on) = (authority.owner_of(column), format!("TABLE {}", named(object)));
            put_grants(&mut text, owner, &on, &format!(" ({})", quoted(&name)), known.grants.iter().flatten());
        }
    }
    for (of, known) in authority.defaults() {
        let schema = of.schema.and_then(|id| snapshot.catalog.schemas().find(|(_, known)| *known == id));
        let within = schema.map(|(name, _)| format!(" IN SCHEMA {}", quoted(name))).unwrap_or_default();
        let head = format!("ALTER DEFAULT PRIVILEGES FOR ROLE {}{within}", quoted(&of.role));
        let on = match of.kind {
            SubjectKind::Table => "TABLES",
            SubjectKind::Sequence => "SEQUENCES",
            SubjectKind::Routine => "FUNCTIONS",
            SubjectKind::Type => "TYPES",
            SubjectKind::Schema | SubjectKind::Database | SubjectKind::Column | SubjectKind::Language => "SCHEMAS",
        };
        if schema.is_none() {
            let _ = writeln!(text, "{head} REVOKE ALL ON {on} FROM PUBLIC;");
            let _ = writeln!(text, "{head} REVOKE ALL ON {on} FROM {};", quoted(&of.role));
        }
        for grant in known.grants.iter().flatten() {
            put_grant(&mut text, &format!("{head} "), on, "", grant);
        }
    }
    text
}

/// What COMMENT ON has said of everything but tables and their columns.
pub(super) fn comments(snapshot: &SessionSnapshot) -> String {
    let mut text = String::new();
    for (topic, comment) in snapshot.catalog.authority().comments() {
        if let Some(on) = commented(snapshot, topic) {
            let _ = writeln!(text, "COMMENT ON {on} IS {};", literal(comment));
        }
    }
    text
}

/// What a comment is of, as COMMENT ON has it; `None` for what is gone or goes with its session.
fn commented(snapshot: &SessionSnapshot, topic: &Topic) -> Option<String> {
    let kept = |id| {
        let mut objects = snapshot.catalog.all_objects();
        objects.find(|object| object.id == id).filter(|object| !object.name.is_temporary())
    };
    Some(match topic {
        Topic::Subject(Subject::Database) => format!("DATABASE {CATALOG_NAME}"),
        Topic::Subject(Subject::Language(language)) => format!("LANGUAGE {}", language.name()),
        Topic::Subject(Subject::Schema(id)) => {
            let (name, _) = snapshot.catalog.kept_schemas().find(|(_, known)| known == id)?;
            format!("SCHEMA {}", quoted(name))
        }
        Topic::Subject(Subject::Object(id)) => {
            let object = kept(*id)?;
            let word = match &object.relation {
                Relation::View(_) => "VIEW",
                Relation::Routine(_) => "ROUTINE",
                Relation::Domain(_) => "DOMAIN",
                relation if relation.materialized().is_some() => "MATERIALIZED VIEW",
                _ => kind_word(object),
            };
            format!("{word} {}", named(object))
        }
        Topic::Subject(Subject::Column(id, number)) => {
            let object = kept(*id)?;
            format!("COLUMN {}.{}", named(object), quoted(&object.column_of(*number)?))
        }
        Topic::Index(table, name) => format!("INDEX {}.{}", quoted(&kept(*table)?.name.schema), quoted(name)),
        Topic::Constraint(of, name) => {
            let object = kept(*of)?;
            let domain = if matches!(object.relation, Relation::Domain(_)) { "DOMAIN " } else { "" };
            format!("CONSTRAINT {} ON {domain}{}", quoted(name), named(object))
        }
        Topic::Trigger(table, name) => format!("TRIGGER {} ON {}", quoted(name), named(kept(*table)?)),
        Topic::Role(name) => format!("ROLE {}", quoted(name)),
    })
}

/// What an object is in GRANT and ALTER.
fn kind_word(object: &Object) -> &'static str {
    match &object.relation {
        Relation::Routine(_) => "FUNCTION",
        Relation::Sequence(_) => "SEQUENCE",
        Relation::Collation(_) => "COLLATION",
        Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => "TYPE",
        _ => "TABLE",
    }
}

fn named(object: &Object) -> String {
    match object.name.routine() {
        Some(routine) => {
            let (name, arguments) = routine.split_once('(').unwrap_or((routine, ")"));
            format!("{}.{}({arguments}", quoted(&object.name.schema), quoted(name))
        }
        None => qualified(&object.name),
    }
}

fn put(text: &mut String, snapshot: &SessionSnapshot, subject: Subject, word: &str, name: &str) {
    let authority = snapshot.catalog.authority();
    let owner = authority.owner_of(subject);
    if owner != OWNER {
        let _ = writeln!(text, "ALTER {word} {name} OWNER TO {};", quoted(owner));
    }
    let Some(grants) = authority.grants_of(subject) else { return };
    let on = format!("{word} {name}");
    let _ = writeln!(text, "REVOKE ALL ON {on} FROM PUBLIC;\nREVOKE ALL ON {on} FROM {};", quoted(owner));
    put_grants(text, owner, &on, "", grants.iter());
}

/// Grants of something, or of a column of it.
fn put_grants<'g>(text: &mut String, owner: &str, on: &str, column: &str, grants: impl Iterator<Item = &'g Grant>) {
    for grant in grants {
        match grant.grantor == owner {
            true => put_grant(text, "", on, column, grant),
            false => {
                let _ = writeln!(text, "SET ROLE {};", quoted(&grant.grantor));
                put_grant(text, "", on, column, grant);
                text.push_str("RESET ROLE;\n");
            }
        }
    }
}

fn put_grant(text: &mut String, head: &str, on: &str, column: &str, grant: &Grant) {
    let grantee = if grant.grantee == PUBLIC { "PUBLIC".to_owned() } else { quoted(&grant.grantee) };
    for (privileges, behind) in [(grant.privileges.without(grant.options), ""), (grant.options, " WITH GRANT OPTION")] {
        if privileges != Privileges::NONE {
            let names = privileges.iter().map(|privilege| format!("{}{column}", privilege.name()));
            let names = names.collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "{head}GRANT {names} ON {on} TO {grantee}{behind};");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_are_dates_with_times() {
        assert_eq!(moment(0, 0), "1970-01-01 00:00:00.000000+00");
        assert_eq!(moment(951_782_400 + 3661, 5), "2000-02-29 01:01:01.000005+00");
        assert_eq!(moment(1_893_456_000, 0), "2030-01-01 00:00:00.000000+00");
        assert_eq!(moment(-1, 999_999), "1969-12-31 23:59:59.999999+00");
    }
}
