//! Whose objects are: OWNER TO, REASSIGN OWNED, DROP OWNED, CREATE SCHEMA AUTHORIZATION.

use diligence_base::{Error, Result};
use diligence_catalog::authority::{RoleChange, Subject};
use diligence_catalog::rights::DENIED;
use diligence_catalog::{Object, Relation, RelationName, no_schema};

use super::roles::change;
use super::words::Words;
use crate::planning::around::Around;
use crate::statement::{Command, DroppedKind, Statement};

impl Around<'_> {
    /// ALTER … OWNER TO.
    pub(super) fn alter_owner(&self, words: &mut Words) -> Result<Statement> {
        let Some((mut words, mut to)) = words.split_at_last("owner") else { return Err(words.wrong()) };
        to.expect(&["to"])?;
        let owner = self.role(&mut to)?;
        to.end()?;
        let mut kind = words.word()?;
        if ["materialized", "foreign"].contains(&kind.as_str()) {
            kind = words.word()?;
        }
        let rights = &self.at.snapshot.rights;
        let if_exists = words.take(&["if", "exists"]);
        let _ = words.take(&["only"]);
        let (subject, tag) = match kind.as_str() {
            "table" | "view" | "sequence" | "index" => {
                let tag = match kind.as_str() {
                    "view" => "ALTER VIEW",
                    "sequence" => "ALTER SEQUENCE",
                    "index" => "ALTER INDEX",
                    _ => "ALTER TABLE",
                };
                let name = words.object()?;
                let found = match self.relation_object(&name) {
                    Err(error) if if_exists && error.code() == Some("42P01") => {
                        return Ok(Statement::Command(Command::Nothing(tag)));
                    }
                    found => found?,
                };
                rights.check_owner(&self.relation_name(&name)?)?;
                (found.0, tag)
            }
            "function" | "procedure" | "routine" => {
                let (subject, ..) = self.routine_subject(&mut words)?;
                self.check_owner_of(subject)?;
                let tag = match kind.as_str() {
                    "procedure" => "ALTER PROCEDURE",
                    "routine" => "ALTER ROUTINE",
                    _ => "ALTER FUNCTION",
                };
                (subject, tag)
            }
            "type" | "domain" => {
                let name = words.object()?;
                let missing = || Error::input(format!("type {name} does not exist")).with_code("42704");
                let object = self.type_object(&name)?.ok_or_else(missing)?;
                rights.check_owner(&object.name)?;
                (Subject::Object(object.id), if kind == "type" { "ALTER TYPE" } else { "ALTER DOMAIN" })
            }
            "schema" => {
                let name = words.name()?.0;
                let mut schemas = self.at.snapshot.catalog.schemas();
                let found = schemas.find(|(known, _)| *known == name).map(|(_, id)| id);
                rights.check_schema_owner(&name)?;
                (Subject::Schema(found.ok_or_else(|| no_schema(&name))?), "ALTER SCHEMA")
            }
            "database" => {
                words.name()?;
                if !rights.are_all() {
                    return Err(Error::input("must be owner of database diligence").with_code(DENIED));
                }
                (Subject::Database, "ALTER DATABASE")
            }
            // What is built in has no owner.
            "aggregate" => return Ok(Statement::Command(Command::Nothing("ALTER AGGREGATE"))),
            "collation" => return Ok(Statement::Command(Command::Nothing("ALTER COLLATION"))),
            _ => {
                let error = Error::unsupported(format!("ALTER {} … OWNER TO is not supported", kind.to_uppercase()));
                return Err(error.with_code("0A000"));
            }
        };
        words.end()?;
        let by = self.planner.catalogs().speaker();
        if !by.is_superuser && !self.at.snapshot.catalog.authority().is_member(&by.name, &owner) {
            return Err(Error::input(format!("must be member of role \"{owner}\"")).with_code(DENIED));
        }
        let mut subjects = vec![subject];
        // A table's own sequences go with it.
        if let Subject::Object(id) = subject {
            let owned = self.at.snapshot.catalog.objects().filter(|object| match &object.relation {
                Relation::Sequence(sequence) => sequence.options.owner.as_ref().is_some_and(|(table, _)| *table == id),
                _ => false,
            });
            subjects.extend(owned.map(|object| Subject::Object(object.id)));
        }
        Ok(Statement::Command(change(RoleChange::Own { subjects, owner }, tag)))
    }

    pub(super) fn check_owner_of(&self, subject: Subject) -> Result<()> {
        let mut objects = self.at.snapshot.catalog.all_objects();
        match objects.find(|object| Subject::Object(object.id) == subject) {
            Some(object) => self.at.snapshot.rights.check_owner(&object.name),
            None => Ok(()),
        }
    }

    /// CREATE SCHEMA … AUTHORIZATION.
    pub(super) fn create_schema_of(&self, words: &mut Words) -> Result<Statement> {
        let if_not_exists = words.take(&["if", "not", "exists"]);
        let named = match words.come(&["authorization"]) {
            true => None,
            false => Some(words.name()?.0),
        };
        words.expect(&["authorization"])?;
        let owner = self.role(words)?;
        words.end()?;
        let name = named.unwrap_or_else(|| owner.clone());
        self.at.snapshot.rights.check_create_schema(&name)?;
        let by = self.planner.catalogs().speaker();
        if !by.is_superuser && !self.at.snapshot.catalog.authority().is_member(&by.name, &owner) {
            return Err(Error::input(format!("must be member of role \"{owner}\"")).with_code(DENIED));
        }
        if if_not_exists && self.at.snapshot.catalog.has_schema(&name) {
            self.tell_existing(&format!("schema \"{name}\""), "42P06");
            return Ok(Statement::Command(Command::Nothing("CREATE SCHEMA")));
        }
        let commands =
            vec![Command::CreateSchema { name: name.clone(), if_not_exists }, Command::OwnSchema { name, owner }];
        Ok(Statement::Command(Command::All { commands, tag: "CREATE SCHEMA" }))
    }

    /// The roles of REASSIGN OWNED and DROP OWNED. Fails with 42501 if the session is no member of one.
    fn roles_owned_by(&self, words: &mut Words) -> Result<Vec<String>> {
        words.expect(&["by"])?;
        let roles = words.list(|words| self.role(words))?;
        let by = self.planner.catalogs().speaker();
        for role in &roles {
            if !by.is_superuser && !self.at.snapshot.catalog.authority().is_member(&by.name, role) {
                return Err(Error::input("permission denied to reassign or drop objects").with_code(DENIED));
            }
        }
        Ok(roles)
    }

    /// REASSIGN OWNED.
    pub(super) fn reassign_owned(&self, words: &mut Words) -> Result<Statement> {
        words.expect(&["owned"])?;
        let from = self.roles_owned_by(words)?;
        words.expect(&["to"])?;
        let to = self.role(words)?;
        words.end()?;
        Ok(Statement::Command(change(RoleChange::Reassign { from, to }, "REASSIGN OWNED")))
    }

    /// DROP OWNED: what roles own goes, and what is granted to them.
    pub(super) fn drop_owned(&self, words: &mut Words) -> Result<Statement> {
        const TAG: &str = "DROP OWNED";
        let roles = self.roles_owned_by(words)?;
        let cascade = words.take(&["cascade"]);
        let _ = words.take(&["restrict"]);
        words.end()?;
        let catalog = &self.at.snapshot.catalog;
        let is_owned = |subject| roles.iter().any(|role| role == catalog.authority().owner_of(subject));
        let owned = catalog.all_objects().filter(|object| is_owned(Subject::Object(object.id))).collect::<Vec<_>>();
        let of_kind = |kind: fn(&Object) -> bool| {
            let found = owned.iter().filter(|object| kind(object));
            found.map(|object| object.name.clone()).collect::<Vec<_>>()
        };
        let views = of_kind(|object| matches!(object.relation, Relation::View(_)));
        let shown = of_kind(|object| object.relation.materialized().is_some());
        let tables = of_kind(|object| {
            matches!(object.relation, Relation::Native(_) | Relation::Files(_))
                && object.relation.materialized().is_none()
        });
        let sequences = of_kind(|object| match &object.relation {
            Relation::Sequence(sequence) => sequence.options.owner.is_none(),
            _ => false,
        });
        let routines = of_kind(|object| matches!(object.relation, Relation::Routine(_)));
        if let Some(made) = owned.iter().find(|object| object.relation.is_type()) {
            let message = format!("DROP OWNED of types is not supported: {} is one", made.name);
            let error = Error::unsupported(message).with_code("0A000");
            return Err(error.with_hint("DROP TYPE drops it first"));
        }
        let all = [views.clone(), shown.clone(), tables.clone()].concat();
        let mut others = self.dependent_views(&all, cascade)?;
        let mut commands = Vec::new();
        let kinds = [
            (views, DroppedKind::View),
            (shown, DroppedKind::MaterializedView),
            (tables, DroppedKind::Table),
            (sequences, DroppedKind::Sequence),
        ];
        for (names, kind) in kinds {
            if !names.is_empty() {
                let also = std::mem::take(&mut others);
                commands.push(Command::Drop { names, kind, also, if_exists: true, cascade });
            }
        }
        if !routines.is_empty() {
            commands.push(Command::DropRoutines { names: routines, tag: "DROP FUNCTION" });
        }
        for (name, id) in catalog.schemas().filter(|(_, id)| is_owned(Subject::Schema(*id))) {
            let remains = |object: &&std::sync::Arc<Object>| {
                object.name.schema == name && !owned.iter().any(|owned| owned.id == object.id)
            };
            if catalog.all_objects().any(|object| remains(&object)) && !cascade {
                let message = format!("cannot drop schema {name} because other objects depend on it");
                return Err(Error::input(message).with_code("2BP01").with_hint("DROP OWNED … CASCADE drops them, too"));
            }
            let _ = id;
            let name = name.to_owned();
            commands.push(Command::DropSchema { name, if_exists: true, cascade, also: Vec::<RelationName>::new() });
        }
        commands.push(change(RoleChange::Forget { roles }, TAG));
        Ok(Statement::Command(Command::All { commands, tag: TAG }))
    }
}
