//! Roles, owners and grants as a text, which a log keeps: a line for each, with tabs between its parts.

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};

use super::{
    Authority, DefaultsOf, Entitlements, Grant, Language, Membership, Privileges, RoleDefinition, Subject, SubjectKind,
    Topic,
};

impl Authority {
    /// The text.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for (name, role) in &self.roles {
            let flags = FLAGS.iter().filter(|(_, flag)| *flag(&mut role.clone())).map(|(letter, _)| *letter);
            let (id, flags) = (role.id.0.to_string(), flags.collect::<String>());
            let connections = role.connections_max.to_string();
            lines.push(line(&["role", name, &id, &flags, &connections]));
            lines.extend(role.valid_until.map(|until| line(&["until", name, &until.to_string()])));
            lines.extend(role.password.as_ref().map(|password| line(&["password", name, password])));
            lines.extend(role.settings.iter().map(|(setting, value)| line(&["setting", name, setting, value])));
            for (of, Membership { grantor, is_admin }) in &role.member_of {
                lines.push(line(&["member", name, of, grantor, if *is_admin { "admin" } else { "" }]));
            }
        }
        for (subject, known) in &self.subjects {
            let subject = subject_text(*subject);
            lines.extend(known.owner.as_ref().map(|owner| line(&["owner", &subject, owner])));
            put_grants(&mut lines, "grants", &[&subject], known);
        }
        for (of, known) in &self.defaults {
            let schema = of.schema.map(|schema| schema.0.to_string()).unwrap_or_default();
            put_grants(&mut lines, "defaults", &[&of.role, &schema, of.kind.letter()], known);
        }
        lines.extend(self.settings.iter().map(|(setting, value)| line(&["system", setting, value])));
        for (topic, text) in &self.comments {
            let (kind, of, name) = topic_parts(topic);
            lines.push(line(&["comment", kind, &of, name, text]));
        }
        lines.join("\n")
    }

    /// What a text says. Fails with kind `File` if it says nothing that is known.
    pub fn of_text(text: &str) -> Result<Self> {
        let mut read = Self::default();
        for line in text.lines() {
            let parts = line.split('\t').map(unescaped).collect::<Vec<_>>();
            read.add_line(&parts.iter().map(String::as_str).collect::<Vec<_>>())
                .ok_or_else(|| Error::file("a line of what roles may do cannot be understood"))?;
        }
        Ok(read)
    }

    fn add_line(&mut self, parts: &[&str]) -> Option<()> {
        match parts {
            ["role", name, id, flags, connections] => {
                let mut role = RoleDefinition::new(ObjectId(id.parse().ok()?));
                for (letter, flag) in FLAGS {
                    *flag(&mut role) = flags.contains(letter);
                }
                role.connections_max = connections.parse().ok()?;
                self.roles.insert((*name).to_owned(), role);
            }
            ["until", name, value] => self.roles.get_mut(*name)?.valid_until = Some(value.parse().ok()?),
            ["password", name, value] => self.roles.get_mut(*name)?.password = Some((*value).to_owned()),
            ["setting", name, setting, value] => {
                self.roles.get_mut(*name)?.settings.insert((*setting).to_owned(), (*value).to_owned());
            }
            ["system", setting, value] => {
                self.settings.insert((*setting).to_owned(), (*value).to_owned());
            }
            ["member", name, of, grantor, admin] => {
                let membership = Membership { grantor: (*grantor).to_owned(), is_admin: *admin == "admin" };
                self.roles.get_mut(*name)?.member_of.insert((*of).to_owned(), membership);
            }
            ["owner", subject, owner] => {
                self.subjects.entry(subject_of(subject)?).or_default().owner = Some((*owner).to_owned());
            }
            ["grants", subject, rest @ ..] => {
                add_grant(self.subjects.entry(subject_of(subject)?).or_default(), rest)?;
            }
            ["defaults", role, schema, kind, rest @ ..] => {
                let kind = SubjectKind::ALL.into_iter().find(|known| known.letter() == *kind)?;
                let schema = match schema.is_empty() {
                    true => None,
                    false => Some(ObjectId(schema.parse().ok()?)),
                };
                let of = DefaultsOf { role: (*role).to_owned(), schema, kind };
                add_grant(self.defaults.entry(of).or_default(), rest)?;
            }
            ["comment", kind, of, name, text] => {
                self.comments.insert(topic_of(kind, of, name)?, (*text).to_owned());
            }
            _ => return None,
        }
        Some(())
    }
}

/// What a role may, by a letter.
#[allow(clippy::type_complexity, reason = "a table of places in a struct")]
const FLAGS: [(char, fn(&mut RoleDefinition) -> &mut bool); 7] = [
    ('s', |role| &mut role.is_superuser),
    ('i', |role| &mut role.inherits),
    ('r', |role| &mut role.makes_roles),
    ('d', |role| &mut role.makes_databases),
    ('l', |role| &mut role.logs_in),
    ('p', |role| &mut role.replicates),
    ('b', |role| &mut role.bypasses_rules),
];

fn put_grants(lines: &mut Vec<String>, what: &str, of: &[&str], known: &Entitlements) {
    let Some(grants) = &known.grants else { return };
    let head = || std::iter::once(what).chain(of.iter().copied()).collect::<Vec<_>>();
    // That there are grants, even if nobody may anything.
    lines.push(line(&head()));
    for grant in grants {
        let (privileges, options) =
            (grant.privileges.letters(Privileges::NONE), grant.options.letters(Privileges::NONE));
        let rest = [grant.grantee.as_str(), &grant.grantor, &privileges, &options];
        lines.push(line(&head().into_iter().chain(rest).collect::<Vec<_>>()));
    }
}

fn add_grant(known: &mut Entitlements, parts: &[&str]) -> Option<()> {
    let grants = known.grants.get_or_insert_default();
    match parts {
        [] => {}
        [grantee, grantor, privileges, options] => grants.push(Grant {
            grantee: (*grantee).to_owned(),
            grantor: (*grantor).to_owned(),
            privileges: Privileges::of_letters(privileges),
            options: Privileges::of_letters(options),
        }),
        _ => return None,
    }
    Some(())
}

fn subject_text(subject: Subject) -> String {
    match subject {
        Subject::Database => "database".to_owned(),
        Subject::Schema(id) => format!("schema {}", id.0),
        Subject::Object(id) => format!("object {}", id.0),
        Subject::Column(table, column) => format!("column {} {column}", table.0),
        Subject::Language(language) => format!("language {}", language.name()),
    }
}

/// The kind of a topic, the number of what it is of, and its name.
fn topic_parts(topic: &Topic) -> (&'static str, String, &str) {
    match topic {
        Topic::Subject(subject) => ("subject", subject_text(*subject), ""),
        Topic::Index(table, name) => ("index", table.0.to_string(), name),
        Topic::Constraint(table, name) => ("constraint", table.0.to_string(), name),
        Topic::Trigger(table, name) => ("trigger", table.0.to_string(), name),
        Topic::Role(name) => ("role", String::new(), name),
    }
}

fn topic_of(kind: &str, of: &str, name: &str) -> Option<Topic> {
    let table = || of.parse().ok().map(ObjectId);
    Some(match kind {
        "subject" => Topic::Subject(subject_of(of)?),
        "index" => Topic::Index(table()?, name.to_owned()),
        "constraint" => Topic::Constraint(table()?, name.to_owned()),
        "trigger" => Topic::Trigger(table()?, name.to_owned()),
        "role" => Topic::Role(name.to_owned()),
        _ => return None,
    })
}

fn subject_of(text: &str) -> Option<Subject> {
    match text.split_once(' ') {
        None => (text == "database").then_some(Subject::Database),
        Some(("language", name)) => Language::named(name).map(Subject::Language),
        Some(("schema", id)) => Some(Subject::Schema(ObjectId(id.parse().ok()?))),
        Some(("object", id)) => Some(Subject::Object(ObjectId(id.parse().ok()?))),
        Some(("column", both)) => {
            let (table, column) = both.split_once(' ')?;
            Some(Subject::Column(ObjectId(table.parse().ok()?), column.parse().ok()?))
        }
        Some(_) => None,
    }
}

fn line(parts: &[&str]) -> String {
    parts.iter().map(|part| escaped(part)).collect::<Vec<_>>().join("\t")
}

fn escaped(part: &str) -> String {
    part.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(part: &str) -> String {
    let mut made = String::new();
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        made.push(match letter {
            '\\' => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    made
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::authority::changes::{GrantChange, GrantedOn, RoleChange, Speaker};
    use crate::authority::{PUBLIC, Privilege};

    fn owner() -> Speaker {
        Speaker { name: "diligence".into(), roles: BTreeSet::from(["diligence".into()]), is_superuser: true }
    }

    fn role(name: &str) -> Speaker {
        Speaker { name: name.into(), roles: BTreeSet::from([name.into()]), is_superuser: false }
    }

    fn said(authority: &mut Authority, by: &Speaker, change: RoleChange) -> Result<()> {
        let mut next = authority.clone();
        change.apply(&mut next, by, &|_| "table t".to_owned())?;
        *authority = next;
        Ok(())
    }

    const TABLE: Subject = Subject::Object(ObjectId(20_000));

    fn grant(is_grant: bool, grantee: &str, privilege: Privilege, options: bool, cascade: bool) -> RoleChange {
        RoleChange::Grant(GrantChange {
            is_grant,
            on: GrantedOn::Subjects(vec![(TABLE, SubjectKind::Table, "t".into())]),
            privileges: Some(Privileges::of(&[privilege])),
            grantees: vec![grantee.into()],
            options,
            cascade,
        })
    }

    fn with_roles(names: &[&str]) -> Authority {
        let mut authority = Authority::default();
        for (name, id) in names.iter().zip(30_000..) {
            let definition = RoleDefinition::new(ObjectId(id));
            said(&mut authority, &owner(), RoleChange::Create { name: (*name).into(), definition, members: vec![] })
                .unwrap();
        }
        authority
    }

    fn may(authority: &Authority, who: &str, privilege: Privilege) -> bool {
        authority.privileges(&authority.held_by(who), TABLE, SubjectKind::Table, false).has(privilege)
    }

    #[test]
    fn what_is_written_down_is_what_was_said() {
        let mut authority = with_roles(&["ann", "bob\tthe\\second"]);
        let alter = |authority: &Authority| {
            let mut definition = authority.roles["ann"].clone();
            definition.password = Some("SCRAM-SHA-256$4096:x$y:z".into());
            definition.settings.insert("search_path".into(), "a,\n\"b\"".into());
            RoleChange::Put { name: "ann".into(), definition }
        };
        let alter = alter(&authority);
        said(&mut authority, &owner(), alter).unwrap();
        let roles = vec!["ann".to_owned()];
        let join = RoleChange::Join { roles, members: vec!["bob\tthe\\second".into()], is_admin: true };
        said(&mut authority, &owner(), join).unwrap();
        said(&mut authority, &owner(), grant(true, "ann", Privilege::Select, true, false)).unwrap();
        said(&mut authority, &owner(), grant(true, PUBLIC, Privilege::Insert, false, false)).unwrap();
        said(&mut authority, &owner(), RoleChange::Own { subjects: vec![Subject::Database], owner: "ann".into() })
            .unwrap();
        let on = GrantedOn::Defaults(vec![DefaultsOf {
            role: "ann".into(),
            schema: Some(ObjectId(2200)),
            kind: SubjectKind::Table,
        }]);
        let defaults = GrantChange {
            is_grant: true,
            on,
            privileges: None,
            grantees: vec![PUBLIC.into()],
            options: false,
            cascade: false,
        };
        said(&mut authority, &owner(), RoleChange::Grant(defaults)).unwrap();
        for (topic, text) in [
            (Topic::Subject(Subject::Database), "all\tof it\n"),
            (Topic::Subject(Subject::Column(ObjectId(20_001), 3)), "a column"),
            (Topic::Index(ObjectId(20_000), "an\tindex".into()), "i"),
            (Topic::Constraint(ObjectId(20_000), "c".into()), "\\"),
            (Topic::Trigger(ObjectId(20_000), "c".into()), "t"),
            (Topic::Role("ann".into()), "somebody"),
        ] {
            said(&mut authority, &owner(), RoleChange::Comment { topic, text: Some(text.into()) }).unwrap();
        }
        assert_eq!(authority.comments().len(), 6);
        let set = |setting: Option<&str>, value: Option<&str>| RoleChange::Set {
            setting: setting.map(str::to_owned),
            value: value.map(str::to_owned),
        };
        said(&mut authority, &owner(), set(Some("work_mem"), Some("1\tMB"))).unwrap();
        said(&mut authority, &owner(), set(Some("app.user"), Some(""))).unwrap();
        assert_eq!(Authority::of_text(&authority.text()).unwrap(), authority);
        said(&mut authority, &owner(), set(Some("work_mem"), None)).unwrap();
        assert_eq!(authority.settings().keys().collect::<Vec<_>>(), ["app.user"]);
        said(&mut authority, &owner(), set(None, None)).unwrap();
        assert!(authority.settings().is_empty());
        // A role's comment goes along with its name, and with the role.
        let rename = RoleChange::Rename { from: "ann".into(), to: "anna".into() };
        said(&mut authority, &owner(), rename).unwrap();
        assert_eq!(authority.comments().get(&Topic::Role("anna".into())).map(String::as_str), Some("somebody"));
        assert_eq!(Authority::of_text("").unwrap(), Authority::default());
        for wrong in ["x", "comment\tplanet\t7\t\tx", "role\ta", "grants\tplanet 7", "member\tnobody\ta\tb\t"] {
            assert!(Authority::of_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_passed_on_goes_with_what_it_came_from() {
        let mut authority = with_roles(&["ann", "bob", "carl", "dora"]);
        said(&mut authority, &owner(), grant(true, "ann", Privilege::Select, true, false)).unwrap();
        said(&mut authority, &role("ann"), grant(true, "bob", Privilege::Select, true, false)).unwrap();
        said(&mut authority, &role("bob"), grant(true, "carl", Privilege::Select, false, false)).unwrap();
        // Who may do something with it, and pass nothing on, says nothing; who may do nothing is refused.
        said(&mut authority, &role("carl"), grant(true, "ann", Privilege::Select, false, false)).unwrap();
        let denied = said(&mut authority, &role("dora"), grant(true, "ann", Privilege::Select, false, false));
        assert_eq!(denied.unwrap_err().code(), Some("42501"));
        let texts = authority.grants_of(TABLE).unwrap().iter().map(Grant::text).collect::<Vec<_>>();
        assert_eq!(texts, ["diligence=arwdDxt/diligence", "ann=r*/diligence", "bob=r*/ann", "carl=r/bob"]);
        let refused = said(&mut authority, &owner(), grant(false, "ann", Privilege::Select, false, false));
        assert_eq!(refused.unwrap_err().code(), Some("2BP01"));
        assert!(may(&authority, "carl", Privilege::Select));
        // Only that it may be passed on goes, with what was passed on.
        said(&mut authority, &owner(), grant(false, "ann", Privilege::Select, true, true)).unwrap();
        assert!(may(&authority, "ann", Privilege::Select) && !may(&authority, "bob", Privilege::Select));
        assert!(!may(&authority, "carl", Privilege::Select));
    }

    #[test]
    fn members_have_what_their_roles_have_and_no_circle_is_made() {
        let mut authority = with_roles(&["ann", "team", "all"]);
        let join = |role: &str, member: &str| RoleChange::Join {
            roles: vec![role.into()],
            members: vec![member.into()],
            is_admin: false,
        };
        said(&mut authority, &owner(), join("team", "ann")).unwrap();
        said(&mut authority, &owner(), join("all", "team")).unwrap();
        said(&mut authority, &owner(), grant(true, "all", Privilege::Update, false, false)).unwrap();
        assert!(may(&authority, "ann", Privilege::Update) && !may(&authority, "ann", Privilege::Select));
        assert_eq!(said(&mut authority, &owner(), join("ann", "all")).unwrap_err().code(), Some("0LP01"));
        assert_eq!(said(&mut authority, &role("ann"), join("team", "all")).unwrap_err().code(), Some("42501"));
        let drop = || RoleChange::Drop { names: vec!["all".into()], if_exists: false };
        assert_eq!(said(&mut authority, &owner(), drop()).unwrap_err().code(), Some("2BP01"));
        said(&mut authority, &owner(), RoleChange::Forget { roles: vec!["all".into()] }).unwrap();
        said(&mut authority, &owner(), drop()).unwrap();
        assert!(!may(&authority, "ann", Privilege::Update) && !authority.roles["team"].member_of.contains_key("all"));
    }

    #[test]
    fn transactions_say_different_things_and_both_hold() {
        let before = with_roles(&["ann"]);
        let (mut mine, mut theirs) = (before.clone(), before.clone());
        said(&mut mine, &owner(), grant(true, "ann", Privilege::Select, false, false)).unwrap();
        let definition = RoleDefinition::new(ObjectId(40_000));
        let create = RoleChange::Create { name: "bob".into(), definition, members: vec![] };
        said(&mut theirs, &owner(), create).unwrap();
        let both = theirs.merged(&before, &mine).unwrap();
        assert!(may(&both, "ann", Privilege::Select) && both.roles.contains_key("bob"));
        said(&mut theirs, &owner(), grant(true, PUBLIC, Privilege::Insert, false, false)).unwrap();
        assert!(theirs.merged(&before, &mine).is_none());
    }
}
