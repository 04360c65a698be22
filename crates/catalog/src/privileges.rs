//! What `has_table_privilege` and its kin answer: what the rights of a user allow, in PostgreSQL's words.
//!
//! The server's file of users knows two things of a relation: it may be read, and it may be changed. So by it SELECT is
//! to read, every other privilege of a table to change, and nobody can pass a privilege on. What was granted comes on
//! top of that.

use std::sync::Arc;

use diligence_base::{Error, Result};

use crate::authority::{Language, PREDEFINED_ROLES, Privilege, SubjectKind};
pub use crate::authority::{OWNER, OWNER_OID};
use crate::name::identifiers;
use crate::{
    CATALOG_NAME, INFORMATION_SCHEMA, Object, POSTGRES_SCHEMA, RelationName, Resolved, Rights, SYSTEM_SCHEMA,
    SessionSnapshot, oid_of,
};

/// The oid of the only database.
pub const DATABASE_OID: u32 = 5;

/// What somebody asks the privileges of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskedKind {
    /// A table or view, as a whole or any of its columns.
    Table,
    /// A column of one.
    Column,
    /// A schema.
    Schema,
    /// A sequence.
    Sequence,
    /// A language of functions.
    Language,
    /// A tablespace.
    Tablespace,
    /// The database.
    Database,
    /// A function.
    Function,
    /// A type.
    Type,
    /// A role, of which one may be a member.
    Role,
}

/// A thing as a client names it: by text or by oid (a column by its number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// By name.
    Text(&'a str),
    /// By number.
    Number(i64),
}

/// What is asked: a privilege, and whether it may be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    /// `None` for what is PostgreSQL's, and nobody's here.
    privilege: Option<Privilege>,
    options: bool,
}

impl AskedKind {
    /// The privileges that there are.
    fn privileges(self) -> &'static [&'static str] {
        match self {
            AskedKind::Table => {
                &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN"]
            }
            AskedKind::Column => &["SELECT", "INSERT", "UPDATE", "REFERENCES"],
            AskedKind::Schema => &["USAGE", "CREATE"],
            AskedKind::Sequence => &["USAGE", "SELECT", "UPDATE"],
            AskedKind::Language | AskedKind::Type => &["USAGE"],
            AskedKind::Tablespace => &["CREATE"],
            AskedKind::Database => &["CONNECT", "CREATE", "TEMPORARY", "TEMP"],
            AskedKind::Function => &["EXECUTE"],
            AskedKind::Role => &["USAGE", "MEMBER", "SET"],
        }
    }

    /// The privileges of a list with commas. Fails with kind `Input` and code `22023` on one that there is not.
    fn parse(self, text: &str) -> Result<Vec<Wanted>> {
        let one = |part: &str| {
            let upper = part.split_whitespace().collect::<Vec<_>>().join(" ").to_uppercase();
            let (name, options) = match upper.strip_suffix(" WITH GRANT OPTION") {
                Some(name) => (name, true),
                None => (upper.strip_suffix(" WITH ADMIN OPTION").unwrap_or(&upper), upper.ends_with("ADMIN OPTION")),
            };
            if self.privileges().contains(&name) {
                return Ok(Wanted { privilege: Privilege::named(name), options });
            }
            let known = self.privileges().join(", ");
            let error = Error::input(format!("unrecognized privilege type: \"{}\"", part.trim()));
            Err(error.with_code("22023").with_hint(format!("there are {known}")))
        };
        text.split(',').map(one).collect()
    }
}

/// Whoever asks, and what is asked about.
pub struct Question<'a> {
    /// What the asking session sees.
    pub snapshot: &'a SessionSnapshot,
    /// The user of the asking session.
    pub asker: &'a str,
    /// Whose privileges are asked, if not the asker's.
    pub user: Option<Named<'a>>,
    /// Of what.
    pub subject: AskedKind,
    /// Which one.
    pub object: Named<'a>,
    /// Which column, of a column.
    pub column: Option<Named<'a>>,
    /// Which privileges, with commas: any of them.
    pub privileges: &'a str,
}

impl Question<'_> {
    /// The answer; `None` for a number that nothing has. Fails with kind `Input` on names that there are not: of a user
    /// (code `42704`), a relation (`42P01`), a column (`42703`), a schema (`3F000`), a database (`3D000`), a privilege
    /// (`22023`).
    pub fn answer(&self) -> Result<Option<bool>> {
        let wanted = self.subject.parse(self.privileges)?;
        let Some((user, rights)) = self.user()? else { return Ok(None) };
        let any = |may: &dyn Fn(Wanted) -> bool| Ok(Some(wanted.iter().any(|wanted| may(*wanted))));
        let named = |wanted: Wanted, may: &dyn Fn(Privilege) -> bool| wanted.privilege.map_or(rights.are_all(), may);
        match self.subject {
            AskedKind::Table | AskedKind::Column | AskedKind::Sequence => {
                let Some((name, found)) = self.relation()? else { return Ok(None) };
                if let Some(column) = self.column
                    && !has_column(found.as_ref(), &name, column)?
                {
                    return Ok(None);
                }
                let column = match (self.column, &found) {
                    (Some(Named::Text(column)), _) => Some(column.to_owned()),
                    (Some(Named::Number(number)), Some(found)) => {
                        let place = usize::try_from(number - 1).unwrap_or_default();
                        found.schema()?.fields().get(place).map(|field| field.name().clone())
                    }
                    _ => None,
                };
                let of_columns = |wanted: Wanted| match (wanted.privilege, &found) {
                    (Some(privilege), Some(Resolved::Object(_))) if self.subject == AskedKind::Column => {
                        match &column {
                            _ if wanted.options => rights.may_grant_column(&name, column.as_deref(), privilege),
                            Some(column) => rights.may_column(&name, column, privilege),
                            None => rights.may_any_column(&name, privilege),
                        }
                    }
                    _ => false,
                };
                any(&|wanted| may(&rights, &name, found.as_ref(), wanted) || of_columns(wanted))
            }
            AskedKind::Schema => {
                let Some(schema) = self.schema()? else { return Ok(None) };
                let shows = [SYSTEM_SCHEMA, POSTGRES_SCHEMA, INFORMATION_SCHEMA].contains(&schema.as_str());
                any(&|wanted| {
                    named(wanted, &|privilege| match privilege {
                        Privilege::Create if shows => false,
                        _ if wanted.options => rights.may_grant_schema(&schema, privilege),
                        Privilege::Create => rights.may_create_in(&schema),
                        _ => rights.may_use_schema(&schema),
                    })
                })
            }
            AskedKind::Database => match self.object {
                Named::Text(name) if name != CATALOG_NAME => {
                    let message = format!("database \"{name}\" does not exist");
                    Err(Error::input(message).with_code("3D000"))
                }
                Named::Number(oid) if oid != i64::from(DATABASE_OID) => Ok(None),
                _ => any(&|wanted| named(wanted, &|privilege| rights.may_of_database(privilege, wanted.options))),
            },
            AskedKind::Function | AskedKind::Type => {
                let kind = if self.subject == AskedKind::Function { SubjectKind::Routine } else { SubjectKind::Type };
                let made = self.made(kind);
                any(&|wanted| match &made {
                    Some(object) if wanted.options => {
                        rights.may_grant(&object.name, wanted.privilege.unwrap_or(Privilege::Usage))
                    }
                    Some(object) => rights.may_use(&object.name),
                    // What is built in, everybody may use.
                    None => !wanted.options || rights.are_all(),
                })
            }
            AskedKind::Language => {
                let language = match self.object {
                    Named::Text(name) => Language::named(name),
                    Named::Number(_) => None,
                };
                any(&|wanted| {
                    let is_free = language.is_none_or(|language| rights.has_language(language));
                    !wanted.options && is_free || rights.are_all()
                })
            }
            AskedKind::Tablespace => any(&|_| rights.are_all()),
            AskedKind::Role => {
                let Some((role, _)) = self.role(self.object)? else { return Ok(None) };
                let authority = self.snapshot.catalog.authority();
                any(&|wanted| {
                    let is_member = match wanted.privilege {
                        Some(_) => authority.held_by(&user).contains(&role),
                        None => authority.is_member(&user, &role),
                    };
                    is_member || rights.are_all()
                })
            }
        }
    }

    /// A function or a type that somebody has made.
    fn made(&self, kind: SubjectKind) -> Option<Arc<Object>> {
        let mut objects = self.snapshot.catalog.all_objects().filter(|object| object.relation.subject_kind() == kind);
        match self.object {
            Named::Number(oid) => objects.find(|object| i64::from(object.oid()) == oid).cloned(),
            Named::Text(text) => {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" (", "(");
                let is_it = |object: &&Arc<Object>| {
                    let shown = object.name.routine().unwrap_or(&object.name.name).replace(", ", ",");
                    let full = format!("{}.{shown}", object.name.schema);
                    let wanted = text.replace(", ", ",");
                    shown == wanted || full == wanted
                };
                objects.find(is_it).cloned()
            }
        }
    }

    fn user(&self) -> Result<Option<(String, Arc<Rights>)>> {
        match self.user {
            Some(user) => self.role(user),
            None => Ok(Some((self.asker.to_owned(), self.snapshot.rights.clone()))),
        }
    }

    /// A user with the rights; `None` for a number that nobody has.
    fn role(&self, named: Named<'_>) -> Result<Option<(String, Arc<Rights>)>> {
        let roles = self.snapshot.catalog.authority().roles();
        let name = match named {
            Named::Text(name) => name,
            Named::Number(oid) if oid == i64::from(OWNER_OID) => OWNER,
            Named::Number(oid) => {
                let found = roles.iter().find(|(_, role)| i64::from(oid_of(role.id)) == oid);
                let predefined = || PREDEFINED_ROLES.iter().find(|role| i64::from(role.oid) == oid);
                match found.map(|(name, _)| name.as_str()).or_else(|| predefined().map(|role| role.name)) {
                    Some(name) => name,
                    None => return Ok(None),
                }
            }
        };
        if name == self.asker {
            return Ok(Some((name.to_owned(), self.snapshot.rights.clone())));
        }
        // Everybody, whose rights everybody has.
        let of_all = || (name == "public").then(|| Arc::new(self.snapshot.rights_of_public()));
        match self.snapshot.rights_of(name).or_else(of_all) {
            Some(rights) => Ok(Some((name.to_owned(), rights))),
            None => Err(Error::input(format!("role \"{name}\" does not exist")).with_code("42704")),
        }
    }

    /// The relation with the name under which it was found. What `information_schema` has is not listed here.
    fn relation(&self) -> Result<Option<(RelationName, Option<Resolved>)>> {
        match self.object {
            Named::Text(text) => {
                let unknown = || Error::input(format!("no table is named '{text}'")).with_code("42P01");
                let name = RelationName::parse(text).ok_or_else(unknown)?;
                if name.schema == INFORMATION_SCHEMA {
                    return Ok(Some((name, None)));
                }
                let found = self.snapshot.get(&name).ok_or_else(unknown)?;
                let name = match &found {
                    Resolved::Object(object) => object.name.clone(),
                    Resolved::Computed(_) if name.schema == SYSTEM_SCHEMA => name,
                    Resolved::Computed(_) => RelationName::new(POSTGRES_SCHEMA, name.name),
                };
                Ok(Some((name, Some(found))))
            }
            Named::Number(oid) => {
                if let Some(object) = self.snapshot.catalog.objects().find(|object| i64::from(object.oid()) == oid) {
                    return Ok(Some((object.name.clone(), Some(Resolved::Object(object.clone())))));
                }
                let mut system = self.snapshot.system_tables();
                let found = system.find(|(_, known, _)| i64::from(*known) == oid);
                Ok(found.map(|(name, _, table)| {
                    (RelationName::new(SYSTEM_SCHEMA, name), Some(Resolved::Computed(table.clone())))
                }))
            }
        }
    }

    fn schema(&self) -> Result<Option<String>> {
        match self.object {
            Named::Text(text) => {
                let unknown = || Error::input(format!("no schema is named '{text}'")).with_code("3F000");
                // As PostgreSQL does: the text is the name, capitals and all.
                let known = self.snapshot.schema_oid(text).map(|_| text.to_owned());
                let quoted = || identifiers(text).filter(|parts| parts.len() == 1)?.pop();
                let quoted = || quoted().filter(|name| self.snapshot.schema_oid(name).is_some());
                known.or_else(quoted).ok_or_else(unknown).map(Some)
            }
            Named::Number(oid) => {
                let shown = [SYSTEM_SCHEMA, POSTGRES_SCHEMA, INFORMATION_SCHEMA];
                let mut all = self.snapshot.catalog.schema_names().chain(shown);
                let has = |name: &&str| self.snapshot.schema_oid(name).map(i64::from) == Some(oid);
                Ok(all.find(has).map(str::to_owned))
            }
        }
    }
}

fn may(rights: &Rights, name: &RelationName, found: Option<&Resolved>, wanted: Wanted) -> bool {
    match (found, wanted.privilege) {
        (Some(Resolved::Object(_)), None) => rights.are_all(),
        (Some(Resolved::Object(_)), Some(privilege)) if wanted.options => rights.may_grant(name, privilege),
        (Some(Resolved::Object(_)), Some(privilege)) => rights.may(name, privilege),
        // What describes the catalog everybody may read; what the engine shows nobody may change.
        (_, privilege) => {
            privilege == Some(Privilege::Select)
                && !wanted.options
                && (name.schema != SYSTEM_SCHEMA || rights.may_read(name))
        }
    }
}

/// Whether there is such a column. Fails if there is none of a name.
fn has_column(found: Option<&Resolved>, name: &RelationName, column: Named<'_>) -> Result<bool> {
    let Some(found) = found else { return Ok(true) };
    let schema = found.schema()?;
    match column {
        Named::Number(number) => Ok(usize::try_from(number).is_ok_and(|n| (1..=schema.fields().len()).contains(&n))),
        Named::Text(text) if schema.column_with_name(text).is_some() => Ok(true),
        Named::Text(text) => Err(Error::input(format!("the table '{name}' has no column '{text}'")).with_code("42703")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::{Catalog, NativeTable, Relation, RelationPattern, SessionCatalogs};

    fn only(read: &str, write: &str) -> Rights {
        let patterns = |text: &str| text.split(' ').map(|text| text.parse::<RelationPattern>().unwrap()).collect();
        Rights::only(patterns(read), patterns(write))
    }

    /// `ann` reads `orders` and `lab.*`, and changes `notes`; `bob` may do all.
    fn session() -> SessionCatalogs {
        let catalog = Arc::new(Catalog::default());
        catalog.create_schema("lab").unwrap();
        let rights = Arc::new(only("orders lab.*", "notes scratch.*"));
        catalog.set_users(BTreeMap::from([
            ("ann".to_owned(), rights.clone()),
            ("bob".to_owned(), Arc::new(Rights::all())),
        ]));
        let rows = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
        for (schema, name) in [("public", "orders"), ("public", "notes"), ("public", "Hidden"), ("lab", "t")] {
            let memory = QueryMemory::unbounded().reservation("a table in memory");
            let rows = std::slice::from_ref(&rows);
            let relation = NativeTable::new(
                &RelationName::new(schema, name),
                &rows[0].schema(),
                rows,
                memory,
                catalog.next_table_version(),
            )
            .unwrap();
            catalog.create(&RelationName::new(schema, name), Relation::Native(Arc::new(relation)), false).unwrap();
        }
        SessionCatalogs::new(catalog, Arc::default(), Arc::default(), rights)
    }

    fn ask(subject: AskedKind, user: Option<&str>, object: Named<'_>, privileges: &str) -> Result<Option<bool>> {
        let snapshot = session().snapshot();
        let user = user.map(Named::Text);
        Question { snapshot: &snapshot, asker: "ann", user, subject, object, column: None, privileges }.answer()
    }

    #[test]
    fn tables_are_read_and_changed_by_whom_their_rights_allow_it() {
        let table =
            |user, name, privileges| ask(AskedKind::Table, user, Named::Text(name), privileges).unwrap().unwrap();
        for (name, privileges, expected) in [
            ("orders", "SELECT", true),
            ("orders", "insert", false),
            ("orders", "DELETE, select", true),
            ("orders", "SELECT WITH GRANT OPTION", false),
            ("notes", "UPDATE", true),
            ("public.\"Hidden\"", "SELECT", false),
            ("hidden", "SELECT", false),
            ("lab.t", "SELECT", true),
            ("lab.t", "TRUNCATE", false),
            ("information_schema.tables", "SELECT", true),
        ] {
            assert_eq!(table(None, name, privileges), expected, "{name} {privileges}");
            assert_eq!(table(Some("ann"), name, privileges), expected, "{name} {privileges}");
        }
        assert!(table(Some("bob"), "hidden", "DELETE") && table(Some(OWNER), "hidden", "SELECT"));
    }

    #[test]
    fn numbers_name_objects_and_those_of_nothing_have_no_answer() {
        let session = session();
        let snapshot = session.snapshot();
        let oid = |name: &str| i64::from(snapshot.catalog.get(&RelationName::new("public", name)).unwrap().oid());
        let ask = |subject, number, column: Option<i64>, privileges| {
            let object = Named::Number(number);
            let column = column.map(Named::Number);
            Question { snapshot: &snapshot, asker: "ann", user: None, subject, object, column, privileges }
                .answer()
                .unwrap()
        };
        assert_eq!(ask(AskedKind::Table, oid("orders"), None, "SELECT"), Some(true));
        assert_eq!(ask(AskedKind::Table, oid("Hidden"), None, "SELECT"), Some(false));
        assert_eq!(ask(AskedKind::Table, 1, None, "SELECT"), None);
        assert_eq!(ask(AskedKind::Column, oid("notes"), Some(1), "UPDATE"), Some(true));
        assert_eq!(ask(AskedKind::Column, oid("notes"), Some(2), "UPDATE"), None);
        assert_eq!(ask(AskedKind::Schema, 2200, None, "USAGE"), Some(true));
        assert_eq!(ask(AskedKind::Schema, 11, None, "CREATE"), Some(false));
    }

    #[test]
    fn schemas_databases_and_roles_answer_by_the_same_rights() {
        let ask = |subject, user, name, privileges| ask(subject, user, Named::Text(name), privileges).unwrap().unwrap();
        for (subject, name, privileges, anns, bobs) in [
            (AskedKind::Schema, "lab", "USAGE", true, true),
            (AskedKind::Schema, "lab", "CREATE", false, true),
            (AskedKind::Schema, "public", "CREATE", false, true),
            (AskedKind::Schema, "system", "USAGE", false, true),
            (AskedKind::Schema, "pg_catalog", "USAGE", true, true),
            (AskedKind::Database, "diligence", "CONNECT", true, true),
            (AskedKind::Database, "diligence", "CREATE", false, true),
            (AskedKind::Function, "upper(text)", "EXECUTE", true, true),
            (AskedKind::Type, "text", "USAGE", true, true),
            (AskedKind::Role, "ann", "MEMBER", true, true),
            (AskedKind::Role, "diligence", "USAGE", false, true),
        ] {
            assert_eq!(ask(subject, None, name, privileges), anns, "{subject:?} {name} {privileges}");
            assert_eq!(ask(subject, Some("bob"), name, privileges), bobs, "{subject:?} {name} {privileges}");
        }
    }

    #[test]
    fn what_there_is_not_is_an_error_with_postgresqls_code() {
        let code = |subject, user, name, privileges| {
            ask(subject, user, Named::Text(name), privileges).unwrap_err().code().map(str::to_owned)
        };
        assert_eq!(code(AskedKind::Table, None, "nowhere", "SELECT").as_deref(), Some("42P01"));
        assert_eq!(code(AskedKind::Table, None, "orders", "USAGE").as_deref(), Some("22023"));
        assert_eq!(code(AskedKind::Table, Some("eve"), "orders", "SELECT").as_deref(), Some("42704"));
        assert_eq!(code(AskedKind::Schema, None, "nowhere", "USAGE").as_deref(), Some("3F000"));
        assert_eq!(code(AskedKind::Database, None, "other", "CONNECT").as_deref(), Some("3D000"));
        let snapshot = session().snapshot();
        let question = Question {
            snapshot: &snapshot,
            asker: "ann",
            user: None,
            subject: AskedKind::Column,
            object: Named::Text("orders"),
            column: Some(Named::Text("b")),
            privileges: "SELECT",
        };
        assert_eq!(question.answer().unwrap_err().code(), Some("42703"));
    }
}
