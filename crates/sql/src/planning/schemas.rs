//! ALTER … SET SCHEMA, ALTER SCHEMA … RENAME TO, ALTER TYPE … RENAME TO of composite types and domains, and ALTER
//! FUNCTION … RENAME TO.

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{DEFAULT_SCHEMA, EnumChange, Object, Relation, RelationName, Routine, no_schema};
use sqlparser::ast::{self, AlterTableOperation, ArrayElemTypeDef, DataType, Ident, ObjectName, RenameTableNameKind};

use super::altered_kind::AlteredKind;
use super::around::Around;
use super::authority::Words;
use super::bound::BoundStatement;
use crate::following::NewName;
use crate::parse::{self, SyntaxTree};
use crate::statement::{Command, Statement};
use crate::walking::each_expression;

/// What stands in front of the schema in RENAME TO, where it is meant to be another one.
pub(super) const OTHER_SCHEMA: &str = "schema \u{1}";

impl Around<'_> {
    /// ALTER … SET SCHEMA, and ALTER FUNCTION … RENAME TO; the words behind ALTER. `None` if it is neither.
    pub(super) fn moved(&self, words: &Words) -> Result<Option<BoundStatement>> {
        let of_schema = words
            .split_at_last("schema")
            .and_then(|(mut before, behind)| before.take_last("set").then_some((before, Some(behind))));
        let (mut words, mut schema) = match (of_schema, words.split_at_last("rename")) {
            (Some(both), _) => both,
            (None, Some((before, _))) => (before, None),
            (None, None) => return Ok(None),
        };
        let mut behind = match &schema {
            Some(_) => None,
            None => self.to_name(&words)?,
        };
        let to_schema = match schema.as_mut() {
            Some(behind) => {
                let name = behind.name()?.0;
                behind.end()?;
                if name == "pg_temp" || name == self.planner.catalogs().temporary_schema() {
                    return Err(across_temporary_schemas());
                }
                if !self.at.snapshot.catalog.has_schema(&name) {
                    return Err(no_schema(&name));
                }
                self.at.snapshot.rights.check_create(&RelationName::new(&name, ""))?;
                Some(name)
            }
            None => None,
        };
        let mut kind = words.word()?;
        let is_materialized = kind == "materialized";
        if is_materialized {
            kind = words.word()?;
        }
        match kind.as_str() {
            "function" | "procedure" | "routine" => {
                let tag = if kind == "procedure" { "ALTER PROCEDURE" } else { "ALTER FUNCTION" };
                self.moved_routine(&mut words, to_schema, behind.take(), tag).map(Some)
            }
            "table" | "view" | "sequence" if to_schema.is_some() => {
                let if_exists = if words.take(&["if", "exists"]) { "IF EXISTS " } else { "" };
                let name = words.object()?;
                words.end()?;
                let said = if is_materialized { "materialized view" } else { kind.as_str() };
                let parsed =
                    parse::parse_one(&format!("ALTER TABLE {if_exists}{name} ON CLUSTER \"{said}\" RENAME TO \"x\""))?;
                let SyntaxTree::Statement(statement) = parsed.statement else { return Ok(None) };
                let ast::Statement::AlterTable(mut alter) = *statement else { return Ok(None) };
                let own = name.0.last().and_then(|part| part.as_ident()).cloned();
                let own = own.ok_or_else(|| Error::bug("a name without parts"))?;
                if let Some(there) = self.stays_in_schema(&alter, to_schema.as_deref())? {
                    return Ok(Some(there));
                }
                let schema = Ident::with_quote('"', format!("{OTHER_SCHEMA}{}", to_schema.unwrap_or_default()));
                let to = ObjectName::from(vec![schema, own]);
                alter.operations = vec![AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }];
                self.alter_table(&alter).map(Some)
            }
            "schema" if behind.is_some() => {
                let name = words.name()?.0;
                words.end()?;
                self.rename_schema(&name, &behind.take().unwrap_or_default()).map(Some)
            }
            "type" | "domain" if to_schema.is_some() => {
                let name = words.object()?;
                words.end()?;
                self.moved_type(&name, &to_schema.unwrap_or_default(), kind == "domain").map(Some)
            }
            _ => {
                let message = format!("ALTER {} … SET SCHEMA is not supported", kind.to_uppercase());
                let error = Error::unsupported(message).with_code("0A000");
                Err(error.with_hint("make it anew in the other schema"))
            }
        }
    }

    /// SET SCHEMA of what is in that schema: nothing to do. `None` if it is in another one. Fails with 0A000 if the
    /// schema that it is in ends with its session.
    fn stays_in_schema(&self, alter: &ast::AlterTable, schema: Option<&str>) -> Result<Option<BoundStatement>> {
        let name = self.changeable(&alter.name)?;
        let Some(object) = self.at.snapshot.catalog.get(&name) else { return Ok(None) };
        let kind = AlteredKind::of(alter);
        kind.check(object)?;
        if schema == Some(name.schema.as_str()) {
            return Ok(Some(BoundStatement::Other(Statement::Command(Command::Nothing(kind.tag())))));
        }
        if name.schema == self.planner.catalogs().temporary_schema() {
            return Err(across_temporary_schemas());
        }
        Ok(None)
    }

    /// Fails with 42939 for a name that schemas of the system have.
    pub(super) fn refuse_reserved_schema(name: &str) -> Result<()> {
        if !name.starts_with("pg_") {
            return Ok(());
        }
        let error = Error::input(format!("unacceptable schema name \"{name}\"")).with_code("42939");
        Err(error.with_detail("The prefix \"pg_\" is reserved for system schemas."))
    }

    /// ALTER SCHEMA … RENAME TO. Fails with 3F000 if there is none of the name, 42P06 if there is one of the new name,
    /// 42939 if that is reserved, 0A000 for the schema that needs no name.
    fn rename_schema(&self, from: &str, to: &str) -> Result<BoundStatement> {
        let catalog = &self.at.snapshot.catalog;
        if !catalog.has_schema(from) {
            return Err(no_schema(from));
        }
        self.at.snapshot.rights.check_schema_owner(from)?;
        if from == DEFAULT_SCHEMA {
            let error = Error::unsupported(format!("the schema \"{from}\" keeps its name")).with_code("0A000");
            return Err(error.with_hint("make another schema, and ALTER … SET SCHEMA of what is to be there"));
        }
        Self::refuse_reserved_schema(to)?;
        if catalog.has_schema(to) {
            return Err(Error::input(format!("schema \"{to}\" already exists")).with_code("42P06"));
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        let memory = self.planner.options.tables.clone();
        Ok(BoundStatement::Other(Statement::Command(Command::RenameSchema { from, to, memory })))
    }

    /// ALTER TYPE and ALTER DOMAIN … SET SCHEMA. Fails with 42704 if there is none of the name, 42710 if there is one
    /// in the schema, 42809 if it is to be a domain and is none.
    fn moved_type(&self, name: &ObjectName, schema: &str, is_domain: bool) -> Result<BoundStatement> {
        let shown = || name.to_string().replace('"', "");
        let missing = || Error::input(format!("type \"{}\" does not exist", shown())).with_code("42704");
        let object = self.type_object(name)?.ok_or_else(missing)?;
        if is_domain && object.domain().is_none() {
            return Err(Error::input(format!("{} is not a domain", shown())).with_code("42809"));
        }
        let to = RelationName::new(schema, &object.name.name);
        self.named_type_anew(&object, to).map(BoundStatement::Other)
    }

    /// A type of another name, or in another schema. Fails with 42710 if there is one of the name, 2BP01 if a view or a
    /// function names the type.
    pub(super) fn named_type_anew(&self, object: &Object, to: RelationName) -> Result<Statement> {
        const TAG: &str = "ALTER TYPE";
        self.at.snapshot.rights.check_owner(&object.name)?;
        if to == object.name {
            return Ok(Statement::Command(Command::Nothing(TAG)));
        }
        if self.at.snapshot.catalog.get(&to).is_some() {
            let message = match to.schema == object.name.schema {
                true => format!("type \"{}\" already exists", to.name),
                false => format!("type \"{}\" already exists in schema \"{}\"", to.name, to.schema),
            };
            return Err(Error::input(message).with_code("42710"));
        }
        let memory = self.planner.options.tables.clone();
        let cannot = format!("cannot change the name of type {}", object.name);
        let reference = object.reference();
        let followed = self.names_followed(NewName::Type { from: object.name.clone(), to: to.clone() });
        let command = match &object.relation {
            Relation::Enum(definition) => {
                let change = EnumChange { definition: definition.as_ref().clone(), name: to, renamed: None };
                Command::ChangeEnum { object: reference, change: Box::new(change), memory }
            }
            Relation::Domain(definition) => {
                self.refuse_named(object, &cannot)?;
                Command::ChangeDomain { object: reference, definition: definition.clone(), name: to, memory }
            }
            _ => {
                self.refuse_named(object, &cannot)?;
                Command::RenameComposite { object: reference, name: to, memory }
            }
        };
        let tag = if object.domain().is_some() { "ALTER DOMAIN" } else { TAG };
        Ok(Statement::Command(with_followed(command, followed, tag)))
    }

    /// Fails with 2BP01 if a view or a function says the name of a type, which would mean nothing or something else
    /// then. `cannot` is what the statement cannot do.
    pub(super) fn refuse_named(&self, of: &Object, cannot: &str) -> Result<()> {
        let is_it = |name: &ObjectName| {
            let parts = parse::parts_of(name).unwrap_or_default();
            match parts.as_slice() {
                [last] => *last == of.name.name,
                [.., schema, last] => *last == of.name.name && *schema == of.name.schema,
                [] => false,
            }
        };
        fn innermost(data_type: &DataType) -> &DataType {
            match data_type {
                DataType::Array(
                    ArrayElemTypeDef::SquareBracket(element, _)
                    | ArrayElemTypeDef::AngleBracket(element)
                    | ArrayElemTypeDef::Parenthesis(element),
                ) => innermost(element),
                other => other,
            }
        }
        let says = |data_type: &DataType| matches!(innermost(data_type), DataType::Custom(name, _) if is_it(name));
        for object in self.at.snapshot.catalog.all_objects() {
            let is_said = match &object.relation {
                Relation::View(view) => each_expression(view.source.as_ref(), |expression| match expression {
                    ast::Expr::Cast { data_type, .. } if says(data_type) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                })
                .is_break(),
                Relation::Routine(routine) => match routine.source.as_ref() {
                    ast::Statement::CreateFunction(create) => {
                        let arguments = create.args.iter().flatten().map(|argument| &argument.data_type);
                        let returned = match &create.return_type {
                            Some(
                                ast::FunctionReturnType::DataType(returned) | ast::FunctionReturnType::SetOf(returned),
                            ) => Some(returned),
                            _ => None,
                        };
                        arguments.chain(returned).any(says)
                    }
                    _ => false,
                },
                _ => false,
            };
            if is_said {
                let (kind, shown) = (object.relation.kind(), &object.name);
                let message = format!("{cannot} because other objects say it");
                let detail = format!("{kind} {shown} depends on type {}", of.name);
                let error = Error::unsupported(message).with_code("2BP01").with_detail(detail);
                return Err(error.with_hint("drop what says the name, and make it again behind the change"));
            }
        }
        Ok(())
    }

    /// The name behind RENAME TO.
    fn to_name(&self, words: &Words) -> Result<Option<String>> {
        let Some((_, mut behind)) = words.whole().split_at_last("rename") else { return Ok(None) };
        behind.expect(&["to"])?;
        let name = behind.name()?.0;
        behind.end()?;
        Ok(Some(name))
    }

    /// The function that comes, by its name and perhaps the types of its arguments. Fails with 42883 if there is none,
    /// 42725 if there are several, and 42501 for one of somebody else.
    pub(super) fn routine_in(&self, words: &mut Words) -> Result<Arc<Object>> {
        let wanted = words.object()?;
        let arguments = words.parenthesized().map(|arguments| format!("({arguments})")).unwrap_or_default();
        let parsed = parse::parse_one(&format!("DROP FUNCTION {wanted}{arguments}"))?;
        let SyntaxTree::Statement(statement) = parsed.statement else { return Err(words.wrong()) };
        let ast::Statement::DropFunction(dropped) = *statement else { return Err(words.wrong()) };
        let described = dropped.func_desc.first().ok_or_else(|| words.wrong())?;
        let name = self.routine_named(described, false)?.ok_or_else(|| words.wrong())?;
        self.at.snapshot.rights.check_owner(&name)?;
        self.at.snapshot.catalog.get(&name).cloned().ok_or_else(|| words.wrong())
    }

    fn moved_routine(
        &self,
        words: &mut Words,
        schema: Option<String>,
        name: Option<String>,
        tag: &'static str,
    ) -> Result<BoundStatement> {
        let object = self.routine_in(words)?;
        words.end()?;
        let from = object.name.clone();
        // Of several functions of a name it is not told which one is called.
        let is_only = self.only_of_its_name(&from).is_some();
        if !is_only {
            self.refuse_called(&from)?;
        }
        let Relation::Routine(routine) = &object.relation else { return Err(words.wrong()) };
        let shown = from.routine().unwrap_or_default();
        let (own, types) = shown.split_once('(').map_or((shown, None), |(own, rest)| (own, rest.strip_suffix(')')));
        let schema = schema.unwrap_or_else(|| from.schema.clone());
        let own = name.unwrap_or_else(|| own.to_owned());
        let to = RelationName::of_routine(&schema, &own, types);
        if to == from {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(tag))));
        }
        if self.at.snapshot.catalog.get(&to).is_some() {
            let message = format!("function {} already exists in schema \"{schema}\"", to.routine().unwrap_or(&own));
            return Err(Error::input(message).with_code("42723"));
        }
        let mut source = routine.source.as_ref().clone();
        let named = ObjectName::from(vec![Ident::with_quote('"', &schema), Ident::with_quote('"', &own)]);
        match &mut source {
            ast::Statement::CreateFunction(create) => create.name = named,
            ast::Statement::CreateMacro { name, .. } => *name = named,
            _ => return Err(Error::bug("not a function")),
        }
        let routine = Arc::new(Routine { source: Arc::new(source), depth: routine.depth });
        let mut commands = vec![
            Command::Rename { object: object.reference(), to: to.clone(), tag },
            Command::CreateRoutine { name: to, routine, or_replace: true, others: vec![], tag },
        ];
        if is_only {
            let before = shown.split('(').next().unwrap_or(shown);
            let (from, to) = (RelationName::new(&from.schema, before), RelationName::new(&schema, &own));
            commands.extend(self.names_followed(NewName::Routine { from, to }));
        }
        Ok(BoundStatement::Other(Statement::Command(Command::All { commands, tag })))
    }

    /// What has definitions say a new name; nothing if none says the old one.
    pub(super) fn names_followed(&self, new: NewName) -> Option<Command> {
        let mut objects = self.at.snapshot.catalog.all_objects();
        let is_said = objects.any(|object| matches!(new.followed(object), Ok(Some(_))));
        is_said.then(|| Command::Follow { new, memory: self.planner.options.tables.clone() })
    }

    /// The sequences of a table's columns, which go where the table goes.
    pub(super) fn sequences_along(&self, table: &diligence_catalog::Object, to: &RelationName) -> Vec<Command> {
        if to.schema == table.name.schema {
            return vec![];
        }
        let owned = self.at.snapshot.catalog.objects().filter(|object| match &object.relation {
            Relation::Sequence(sequence) => sequence.options.owner.as_ref().is_some_and(|(of, _)| *of == table.id),
            _ => false,
        });
        let rename = |object: &Arc<diligence_catalog::Object>| Command::Rename {
            object: object.reference(),
            to: RelationName::new(&to.schema, &object.name.name),
            tag: "ALTER TABLE",
        };
        owned.map(rename).collect()
    }
}

/// A change of a name, with what has definitions say the new one.
pub(super) fn with_followed(command: Command, followed: Option<Command>, tag: &'static str) -> Command {
    match followed {
        None => command,
        Some(followed) => Command::All { commands: vec![command, followed], tag },
    }
}

fn across_temporary_schemas() -> Error {
    let error = Error::unsupported("cannot move objects into or out of temporary schemas").with_code("0A000");
    error.with_hint("CREATE TABLE … AS SELECT copies rows to where they stay")
}
