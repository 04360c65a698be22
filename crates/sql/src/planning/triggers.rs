//! CREATE, ALTER and DROP TRIGGER, and which triggers a statement runs.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::{NativeTable, Object, ObjectRef, Relation, RelationName, Resolved, Trigger, TriggerEvent};
use diligence_types::SqlType;
use sqlparser::ast::{self, SelectItem};

use super::around::Around;
use super::authority::Words;
use super::definitions::{lower, unwritable};
use super::materialized::refuse_materialized;
use super::statements::BoundStatement;
use crate::parse;
use crate::procedural::{Block, Gives, Procedure, Sql, Step};
use crate::routines::{Body, Definition};
use crate::statement::{Command, Statement};
use crate::write::triggers::{Fired, Operation, Triggers};

/// The number of what is put around a function's body, which no part of a body has.
const AROUND: usize = usize::MAX - 1;

impl Around<'_> {
    /// CREATE TRIGGER; the words behind CREATE.
    pub(super) fn create_trigger(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "CREATE TRIGGER";
        let or_replace = words.take(&["or", "replace"]);
        if words.take(&["constraint"]) {
            let error = Error::unsupported("CREATE CONSTRAINT TRIGGER is not supported").with_code("0A000");
            return Err(error.with_hint("an AFTER trigger runs at the end of its statement"));
        }
        words.expect(&["trigger"])?;
        let name = words.name()?.0;
        let is_before = words.take(&["before"]);
        if !is_before && words.take(&["instead", "of"]) {
            let error = Error::unsupported("INSTEAD OF triggers are not supported").with_code("0A000");
            return Err(error.with_hint("a trigger of the table behind the view runs when the table changes"));
        }
        if !is_before {
            words.expect(&["after"])?;
        }
        let mut events = Vec::new();
        loop {
            events.push(if words.take(&["insert"]) {
                TriggerEvent::Insert
            } else if words.take(&["delete"]) {
                TriggerEvent::Delete
            } else if words.take(&["update"]) {
                let columns = match words.take(&["of"]) {
                    true => words.list(|words| Ok(words.name()?.0))?,
                    false => vec![],
                };
                TriggerEvent::Update(columns)
            } else if words.take(&["truncate"]) {
                let error = Error::unsupported("triggers for TRUNCATE are not supported").with_code("0A000");
                return Err(error.with_hint("DELETE without a condition runs triggers for DELETE"));
            } else {
                return Err(words.wrong());
            });
            if !words.take(&["or"]) {
                break;
            }
        }
        words.expect(&["on"])?;
        let table = self.granted(&words.object()?, Privilege::Trigger)?;
        if words.take(&["referencing"]) {
            let error = Error::unsupported("transition tables are not supported").with_code("0A000");
            return Err(error.with_hint("a trigger FOR EACH ROW sees OLD and NEW"));
        }
        let mut is_row = false;
        if words.take(&["for"]) {
            let _ = words.take(&["each"]);
            is_row = words.take(&["row"]);
            if !is_row {
                words.expect(&["statement"])?;
            }
        }
        let when = match words.take(&["when"]) {
            true => Some(words.parenthesized().ok_or_else(|| words.wrong())?),
            false => None,
        };
        words.expect(&["execute"])?;
        if !words.take(&["function"]) {
            words.expect(&["procedure"])?;
        }
        let function = self.relation_name(&words.object()?)?;
        let function = RelationName::of_routine(&function.schema, &function.name, Some(""));
        words.expect(&["("])?;
        let mut arguments = Vec::new();
        while !words.take(&[")"]) {
            arguments.push(match words.text() {
                Ok(text) => text,
                Err(_) => match words.number() {
                    Ok(number) => number.to_string(),
                    Err(_) => words.name()?.0,
                },
            });
            let _ = words.take(&[","]);
        }
        words.end()?;
        let (object, native) = self.table_with_triggers(&table)?;
        let trigger = Trigger { name, is_before, is_row, events, when, function, arguments, is_enabled: true };
        for event in &trigger.events {
            let TriggerEvent::Update(columns) = event else { continue };
            if let Some(column) = columns.iter().find(|column| native.schema().column_with_name(column).is_none()) {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                return Err(Error::input(message).with_code("42703"));
            }
        }
        // Looked at now, so that mistakes are those of this statement.
        self.fired(&trigger, &native, vec![Operation::Insert], None)?;
        let mut triggers = native.rules().triggers.clone();
        let known = triggers.iter().position(|known| known.name == trigger.name);
        match known {
            Some(place) if or_replace => triggers[place] = trigger,
            Some(_) => {
                let message = format!("trigger \"{}\" for relation \"{}\" already exists", trigger.name, table.name);
                return Err(Error::input(message).with_code("42710"));
            }
            None => triggers.push(trigger),
        }
        self.with_triggers(&object, &native, triggers, TAG)
    }

    fn table_with_triggers(&self, name: &RelationName) -> Result<(Arc<Object>, Arc<NativeTable>)> {
        let found = self.at.snapshot.get(name).ok_or_else(|| self.unknown(name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(name, &found)) };
        let Relation::Native(native) = &object.relation else {
            let error = Error::unsupported(format!("\"{}\" is {} and has no triggers", name.name, found.a_kind()));
            return Err(error.with_code("42809").with_hint("tables of the database have triggers"));
        };
        refuse_materialized(object)?;
        Ok((object.clone(), native.clone()))
    }

    fn with_triggers(
        &self,
        object: &Object,
        native: &NativeTable,
        mut triggers: Vec<Trigger>,
        tag: &'static str,
    ) -> Result<BoundStatement> {
        triggers.sort_by(|one, other| one.name.cmp(&other.name));
        self.with_rules(object, native, tag, |rules| rules.triggers = triggers)
    }

    /// DROP TRIGGER; the words behind that.
    pub(super) fn drop_trigger(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "DROP TRIGGER";
        let if_exists = words.take(&["if", "exists"]);
        let name = words.name()?.0;
        words.expect(&["on"])?;
        let wanted = words.object()?;
        let _ = words.take(&["cascade"]) || words.take(&["restrict"]);
        words.end()?;
        let table = self.relation_name(&wanted)?;
        if if_exists && self.at.snapshot.get(&table).is_none() {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        let (object, native) = self.table_with_triggers(&table)?;
        self.at.snapshot.rights.check_owner(&table)?;
        let mut triggers = native.rules().triggers.clone();
        let before = triggers.len();
        triggers.retain(|trigger| trigger.name != name);
        if triggers.len() == before {
            if if_exists {
                return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
            }
            return Err(no_trigger(&name, &table));
        }
        self.with_triggers(&object, &native, triggers, TAG)
    }

    /// ALTER TRIGGER … RENAME; the words behind ALTER TRIGGER.
    pub(super) fn rename_trigger(&self, words: &mut Words) -> Result<BoundStatement> {
        let name = words.name()?.0;
        words.expect(&["on"])?;
        let table = self.changeable(&words.object()?)?;
        words.expect(&["rename", "to"])?;
        let to = words.name()?.0;
        words.end()?;
        let (object, native) = self.table_with_triggers(&table)?;
        let mut triggers = native.rules().triggers.clone();
        if triggers.iter().any(|trigger| trigger.name == to) {
            let message = format!("trigger \"{to}\" for relation \"{}\" already exists", table.name);
            return Err(Error::input(message).with_code("42710"));
        }
        let found = triggers.iter_mut().find(|trigger| trigger.name == name);
        found.ok_or_else(|| no_trigger(&name, &table))?.name = to;
        self.with_triggers(&object, &native, triggers, "ALTER TRIGGER")
    }

    /// ALTER TABLE … ENABLE and DISABLE TRIGGER; the words behind ALTER TABLE.
    pub(super) fn switch_triggers(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "ALTER TABLE";
        let if_exists = words.take(&["if", "exists"]);
        let _ = words.take(&["only"]);
        let wanted = words.object()?;
        let table = self.changeable(&wanted)?;
        if if_exists && self.at.snapshot.get(&table).is_none() {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        let enables = words.take(&["enable"]);
        if !enables {
            words.expect(&["disable"])?;
        }
        let _ = words.take(&["always"]) || words.take(&["replica"]);
        words.expect(&["trigger"])?;
        let (name, is_quoted) = words.name()?;
        words.end()?;
        let all = !is_quoted && ["all", "user"].contains(&name.as_str());
        let (object, native) = self.table_with_triggers(&table)?;
        let mut triggers = native.rules().triggers.clone();
        if !all && !triggers.iter().any(|trigger| trigger.name == name) {
            return Err(no_trigger(&name, &table));
        }
        for trigger in triggers.iter_mut().filter(|trigger| all || trigger.name == name) {
            trigger.is_enabled = enables;
        }
        if triggers == native.rules().triggers {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        self.with_triggers(&object, &native, triggers, TAG)
    }

    /// The triggers that a statement runs; `None` if there are none. `assigned` are the columns that it sets, all if
    /// `None`.
    pub(super) fn triggers(
        &self,
        table: &ObjectRef,
        operations: Vec<Operation>,
        assigned: Option<&[String]>,
        returning: Option<&[SelectItem]>,
    ) -> Result<Option<Arc<Triggers>>> {
        let Some(object) = self.at.snapshot.catalog.get(&table.name) else { return Ok(None) };
        let Relation::Native(native) = &object.relation else { return Ok(None) };
        let enabled = native.rules().triggers.iter().filter(|trigger| trigger.is_enabled).collect::<Vec<_>>();
        if enabled.is_empty() {
            return Ok(None);
        }
        let mut fired = Vec::new();
        for trigger in enabled {
            fired.extend(self.fired(trigger, native, operations.clone(), assigned)?);
        }
        if fired.is_empty() {
            return Ok(None);
        }
        let runner = self.planner.query_runner.get().cloned();
        let runner = runner.ok_or_else(|| Error::unsupported("there is no session to run triggers in"))?;
        let mut triggers = Triggers {
            table: table.clone(),
            columns: columns_of(native),
            fired,
            operations,
            returned: None,
            catalogs: self.planner.catalogs().clone(),
            runner,
        };
        if triggers.change_rows()
            && let Some(items) = returning
        {
            triggers.returned = Some(returned_places(items, &triggers.columns)?);
        }
        self.calls();
        Ok(Some(Arc::new(triggers)))
    }

    /// A trigger as it runs in a statement; `None` if it does not.
    fn fired(
        &self,
        trigger: &Trigger,
        table: &NativeTable,
        operations: Vec<Operation>,
        assigned: Option<&[String]>,
    ) -> Result<Option<Fired>> {
        let is_for = |operation: &Operation| {
            trigger.events.iter().any(|event| match (event, operation) {
                (TriggerEvent::Insert, Operation::Insert) | (TriggerEvent::Delete, Operation::Delete) => true,
                (TriggerEvent::Update(columns), Operation::Update) => {
                    let is_set = |column: &String| assigned.is_none_or(|assigned| assigned.contains(column));
                    columns.is_empty() || columns.iter().any(is_set)
                }
                _ => false,
            })
        };
        let is_checked = assigned.is_none() && operations == [Operation::Insert];
        let operations = operations.into_iter().filter(is_for).collect::<Vec<_>>();
        if operations.is_empty() && !is_checked {
            return Ok(None);
        }
        let shown = trigger.function.routine().unwrap_or(&trigger.function.name);
        let missing = || Error::input(format!("function {shown} does not exist")).with_code("42883");
        let object = self.at.snapshot.catalog.get(&trigger.function).ok_or_else(missing)?;
        let Relation::Routine(routine) = &object.relation else { return Err(missing()) };
        let definition = Definition::of(&routine.source)?;
        let Body::Block(block) = &definition.body else {
            let message = format!("function {} must return type trigger", definition.name);
            return Err(Error::input(message).with_code("42P17"));
        };
        if !definition.is_trigger {
            let message = format!("function {} must return type trigger", definition.name);
            return Err(Error::input(message).with_code("42P17"));
        }
        let columns = columns_of(table);
        let block = match &trigger.when {
            None => block.clone(),
            Some(condition) => {
                parse::expression(condition)?;
                let otherwise = Step::Return(Some(Sql { number: AROUND, text: "coalesce(new, old)".to_owned() }));
                let body = Step::Block(block.as_ref().clone());
                let arms = vec![(Sql { number: AROUND - 1, text: condition.clone() }, vec![body])];
                let steps = vec![Step::If { arms, otherwise: Some(vec![otherwise]) }];
                Arc::new(Block { steps, ..Block::default() })
            }
        };
        let procedure = Procedure {
            name: definition.name.clone(),
            parameters: Triggers::parameters(&columns),
            block,
            gives: Gives::Trigger { columns, is_row: trigger.is_row && trigger.is_before },
            has_outputs: false,
            output: None,
        };
        Ok(Some(Fired {
            name: trigger.name.clone(),
            is_before: trigger.is_before,
            is_row: trigger.is_row,
            operations,
            procedure: Arc::new(procedure),
            arguments: trigger.arguments.clone(),
        }))
    }

    /// Fails with 2BP01 if a trigger calls a function that is to go.
    pub(super) fn refuse_called(&self, function: &RelationName) -> Result<()> {
        for object in self.at.snapshot.catalog.objects() {
            let Relation::Native(table) = &object.relation else { continue };
            let Some(trigger) = table.rules().triggers.iter().find(|trigger| trigger.function == *function) else {
                continue;
            };
            let shown = function.routine().unwrap_or(&function.name);
            let message = format!("cannot drop function {shown} because other objects depend on it");
            let detail = format!("trigger {} on table {} depends on function {shown}", trigger.name, object.name);
            let hint = format!("DROP TRIGGER {} ON {} drops the trigger first", trigger.name, object.name);
            return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint));
        }
        Ok(())
    }
}

fn columns_of(table: &NativeTable) -> Vec<(String, SqlType)> {
    let fields = table.schema().fields().iter();
    fields.map(|field| (field.name().clone(), SqlType::of_field(field).unwrap_or(SqlType::Text))).collect()
}

/// The places of the columns that RETURNING lists. Fails with 0A000 for what is no column.
fn returned_places(items: &[SelectItem], columns: &[(String, SqlType)]) -> Result<Vec<usize>> {
    let refused = || {
        let error = Error::unsupported("RETURNING of a table with BEFORE triggers gives columns of the table only");
        error.with_code("0A000").with_hint("name columns without expressions, or select from the table afterwards")
    };
    let mut places = Vec::new();
    for item in items {
        let name = match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                places.extend(0..columns.len());
                continue;
            }
            SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => match value {
                ast::Expr::Identifier(name) => lower(name),
                ast::Expr::CompoundIdentifier(names) => names.last().map(lower).unwrap_or_default(),
                _ => return Err(refused()),
            },
            _ => return Err(refused()),
        };
        places.push(columns.iter().position(|(column, _)| *column == name).ok_or_else(refused)?);
    }
    Ok(places)
}

fn no_trigger(name: &str, table: &RelationName) -> Error {
    let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
    Error::input(message).with_code("42704")
}
