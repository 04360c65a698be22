//! ALTER … SET SCHEMA, and ALTER FUNCTION … RENAME TO.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{EnumChange, Relation, RelationName, Routine, no_schema};
use sqlparser::ast::{self, AlterTableOperation, Ident, ObjectName, RenameTableNameKind};

use super::around::Around;
use super::authority::Words;
use super::statements::BoundStatement;
use crate::parse::{self, SyntaxTree};
use crate::statement::{Command, Statement};

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
                if !self.at.snapshot.catalog.has_schema(&name) {
                    return Err(no_schema(&name));
                }
                self.at.snapshot.rights.check_create(&RelationName::new(&name, ""))?;
                Some(name)
            }
            None => None,
        };
        let mut kind = words.word()?;
        if kind == "materialized" {
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
                let parsed = parse::parse_one(&format!("ALTER TABLE {if_exists}{name} RENAME TO \"x\""))?;
                let SyntaxTree::Statement(statement) = parsed.statement else { return Ok(None) };
                let ast::Statement::AlterTable(mut alter) = *statement else { return Ok(None) };
                let own = name.0.last().and_then(|part| part.as_ident()).cloned();
                let own = own.ok_or_else(|| Error::bug("a name without parts"))?;
                let schema = Ident::with_quote('"', format!("{OTHER_SCHEMA}{}", to_schema.unwrap_or_default()));
                let to = ObjectName::from(vec![schema, own]);
                alter.operations = vec![AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }];
                self.alter_table(&alter).map(Some)
            }
            "type" if to_schema.is_some() => {
                let name = words.object()?;
                words.end()?;
                self.moved_enum(&name, &to_schema.unwrap_or_default()).map(Some)
            }
            _ => {
                let message = format!("ALTER {} … SET SCHEMA is not supported", kind.to_uppercase());
                let error = Error::unsupported(message).with_code("0A000");
                Err(error.with_hint("make it anew in the other schema"))
            }
        }
    }

    /// ALTER TYPE … SET SCHEMA of an enum. Fails with 42704 if there is none, 42710 if there is one of the name.
    fn moved_enum(&self, name: &ObjectName, schema: &str) -> Result<BoundStatement> {
        let missing = || {
            let shown = name.to_string().replace('"', "");
            Error::input(format!("type \"{shown}\" does not exist")).with_code("42704")
        };
        let object = self.type_object(name)?.ok_or_else(missing)?;
        self.at.snapshot.rights.check_owner(&object.name)?;
        let Relation::Enum(definition) = &object.relation else {
            let error = Error::unsupported("ALTER TYPE … SET SCHEMA is of enums").with_code("0A000");
            return Err(error.with_hint("make it anew in the other schema"));
        };
        let to = RelationName::new(schema, &object.name.name);
        if self.at.snapshot.catalog.get(&to).is_some() {
            let message = format!("type \"{}\" already exists in schema \"{schema}\"", to.name);
            return Err(Error::input(message).with_code("42710"));
        }
        let change = EnumChange { definition: definition.as_ref().clone(), name: to, renamed: None };
        let memory = self.planner.options.tables.clone();
        let change = Command::ChangeEnum { object: object.reference(), change: Box::new(change), memory };
        Ok(BoundStatement::Other(Statement::Command(change)))
    }

    /// The name behind RENAME TO.
    fn to_name(&self, words: &Words) -> Result<Option<String>> {
        let Some((_, mut behind)) = words.whole().split_at_last("rename") else { return Ok(None) };
        behind.expect(&["to"])?;
        let name = behind.name()?.0;
        behind.end()?;
        Ok(Some(name))
    }

    fn moved_routine(
        &self,
        words: &mut Words,
        schema: Option<String>,
        name: Option<String>,
        tag: &'static str,
    ) -> Result<BoundStatement> {
        let wanted = words.object()?;
        let arguments = words.parenthesized().map(|arguments| format!("({arguments})")).unwrap_or_default();
        words.end()?;
        let parsed = parse::parse_one(&format!("DROP FUNCTION {wanted}{arguments}"))?;
        let SyntaxTree::Statement(statement) = parsed.statement else { return Err(words.wrong()) };
        let ast::Statement::DropFunction(dropped) = *statement else { return Err(words.wrong()) };
        let described = dropped.func_desc.first().ok_or_else(|| words.wrong())?;
        let from = self.routine_named(described, false)?.ok_or_else(|| words.wrong())?;
        self.at.snapshot.rights.check_owner(&from)?;
        self.refuse_called(&from)?;
        let object = self.at.snapshot.catalog.get(&from).ok_or_else(|| words.wrong())?;
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
        let commands = vec![
            Command::Rename { object: object.reference(), to: to.clone(), tag },
            Command::CreateRoutine { name: to, routine, or_replace: true, others: vec![], tag },
        ];
        Ok(BoundStatement::Other(Statement::Command(Command::All { commands, tag })))
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
