//! Who may do what: roles, owners and grants as they change.

use std::collections::BTreeSet;

use super::*;
use crate::Authority;
use crate::authority::{RoleChange, Speaker, Subject, SubjectKind, Topic};
use crate::name::CATALOG_NAME;

impl Catalog {
    /// Makes a change to roles, owners or grants. Fails with kind `Input` and PostgreSQL's codes where it makes no
    /// sense or the speaker may not; then nothing is changed.
    pub fn change_roles(&self, change: &RoleChange, by: &Speaker) -> Result<()> {
        self.change_authority(|root, authority| {
            change.apply(authority, by, &|subject| shown_subject(root, subject))?;
            Ok(true)
        })
    }

    /// What somebody has just made is that role's, with what is granted of such objects. Names that are not there, or
    /// that are known to have an owner, stay as they are. Fails with code 40001 if another transaction has changed the
    /// same.
    pub fn own_new(&self, names: &[RelationName], owner: &str) -> Result<()> {
        self.change_authority(|root, authority| {
            let before = authority.clone();
            for name in names {
                let Some(object) = root.get(name) else { continue };
                let subject = Subject::Object(object.id);
                if !authority.subjects.contains_key(&subject) {
                    let schema = root.schemas.get(&name.schema).map(|schema| schema.id);
                    authority.own_new(subject, object.relation.subject_kind(), schema, owner);
                }
            }
            Ok(before != *authority)
        })
    }

    /// The same of a schema. Fails as [`own_new`](Self::own_new).
    pub fn own_new_schema(&self, name: &str, owner: &str) -> Result<()> {
        self.change_authority(|root, authority| {
            let Some(schema) = root.schemas.get(name) else { return Ok(false) };
            authority.own_new(Subject::Schema(schema.id), SubjectKind::Schema, None, owner);
            Ok(true)
        })
    }

    /// Who may do what, as it was written down. Fails with kind `File` if that cannot be understood.
    pub fn restore_authority(&self, text: &str) -> Result<()> {
        let authority = Arc::new(Authority::of_text(text)?);
        if let Some(last) = authority.roles().values().map(|role| role.id.0).max() {
            self.shared.ids.fetch_max(last + 1, Ordering::Relaxed);
        }
        self.commit(Staged::default(), |root| {
            Arc::make_mut(root).authority = authority;
            Ok((vec![], None))
        })
    }

    /// An id for a role.
    pub fn new_role_id(&self) -> ObjectId {
        self.next_id()
    }

    /// `change` says whether it has changed anything.
    fn change_authority(&self, change: impl FnOnce(&Root, &mut Authority) -> Result<bool>) -> Result<()> {
        self.commit(Staged::default(), |root| {
            let mut authority = Authority::clone(&root.authority);
            // What is gone has no owner.
            let objects = root.schemas.values().flat_map(|schema| schema.objects.values());
            let schemas = root.schemas.values().map(|schema| Subject::Schema(schema.id));
            let live = objects.map(|object| Subject::Object(object.id)).chain(schemas).collect::<BTreeSet<_>>();
            let is_live = |subject: &Subject| match subject {
                Subject::Database | Subject::Language(_) => true,
                Subject::Column(table, _) => live.contains(&Subject::Object(*table)),
                Subject::Schema(_) | Subject::Object(_) => live.contains(subject),
            };
            authority.subjects.retain(|subject, _| is_live(subject));
            authority.comments.retain(|topic, _| match topic {
                Topic::Subject(subject) => is_live(subject),
                Topic::Index(table, name) | Topic::Constraint(table, name) | Topic::Trigger(table, name) => {
                    is_live(&Subject::Object(*table)) && has_part(root, *table, name)
                }
                Topic::Role(_) => true,
            });
            authority.defaults.retain(|of, _| of.schema.is_none_or(|id| live.contains(&Subject::Schema(id))));
            if !change(root, &mut authority)? {
                return Ok((vec![], None));
            }
            let authority = Arc::new(authority);
            Arc::make_mut(root).authority = authority.clone();
            Ok((vec![], Some(Entry::Authority(authority))))
        })
    }
}

/// Whether an object has an index, a constraint or a trigger of a name.
fn has_part(root: &Root, object: ObjectId, name: &str) -> bool {
    let mut objects = root.schemas.values().flat_map(|schema| schema.objects.values());
    let Some(object) = objects.find(|known| known.id == object) else { return false };
    match &object.relation {
        Relation::Native(table) if table.rules().has_constraint(name) => true,
        Relation::Domain(domain) => domain.checks.iter().any(|check| check.name == name),
        relation => relation.triggers().iter().any(|trigger| trigger.name == name),
    }
}

/// A thing in messages: `table orders`.
fn shown_subject(root: &Root, subject: Subject) -> String {
    match subject {
        Subject::Database => format!("database {CATALOG_NAME}"),
        Subject::Language(language) => format!("language {}", language.name()),
        Subject::Schema(id) => {
            let named = root.schemas.iter().find(|(_, schema)| schema.id == id);
            format!("schema {}", named.map_or("", |(name, _)| name))
        }
        Subject::Column(id, number) => {
            let mut objects = root.schemas.values().flat_map(|schema| schema.objects.values());
            match objects.find(|object| object.id == id) {
                Some(object) => {
                    let column = object.column_of(number).unwrap_or_default();
                    format!("column {column} of {} {}", object.relation.kind(), object.name)
                }
                None => "something that is gone".to_owned(),
            }
        }
        Subject::Object(id) => {
            let mut objects = root.schemas.values().flat_map(|schema| schema.objects.values());
            match objects.find(|object| object.id == id) {
                Some(object) => {
                    let name = &object.name;
                    let shown = name.routine().map_or_else(|| name.to_string(), str::to_owned);
                    format!("{} {shown}", object.relation.kind())
                }
                None => "something that is gone".to_owned(),
            }
        }
    }
}
