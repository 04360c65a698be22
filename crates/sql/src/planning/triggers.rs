//! ALTER and DROP TRIGGER, and which triggers a statement runs. [`created`] has CREATE TRIGGER.

mod created;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_catalog::authority::Topic;
use diligence_catalog::rules::ReferenceAction;
use diligence_catalog::{Object, ObjectRef, Relation, RelationName, Resolved, Trigger, TriggerState};
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::Around;
use super::authority::Words;
use super::bound::BoundStatement;
use super::function_users::{asks, computed_by, without_calls};
use super::writable::{refuse_materialized, unwritable};
use crate::binder::Bound;
use crate::parse;
use crate::procedural::{Block, Gives, Procedure, Sql, Step};
use crate::routines::{Body, Definition};
use crate::session_functions::DEPTH;
use crate::statement::{Command, Query, Statement};
use crate::walking::each_expression_mut;
use crate::write::triggers::{ComputedLater, Fired, Followers, Operation, Triggers};
use crate::written::WrittenRows;

/// The number of what is put around a function's body, which no part of a body has.
const AROUND: usize = usize::MAX - 1;

impl Around<'_> {
    /// A table or view that may have triggers.
    fn with_own_triggers(&self, name: &RelationName) -> Result<Arc<Object>> {
        let found = self.at.snapshot.get(name).ok_or_else(|| self.unknown(name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(name, &found)) };
        if !matches!(object.relation, Relation::Native(_) | Relation::View(_)) {
            let error = Error::unsupported(format!("\"{}\" is {} and has no triggers", name.name, found.a_kind()));
            return Err(error.with_code("42809").with_hint("tables of the database have triggers, and views"));
        }
        refuse_materialized(object)?;
        Ok(object.clone())
    }

    fn with_triggers(&self, object: &Object, mut triggers: Vec<Trigger>, tag: &'static str) -> Result<BoundStatement> {
        triggers.sort_by(|one, other| one.name.cmp(&other.name));
        match &object.relation {
            Relation::Native(native) => self.with_rules(object, native, tag, |rules| rules.triggers = triggers),
            Relation::View(view) => {
                let view = Arc::new(view.with_triggers(triggers));
                let commands =
                    vec![Command::CreateView { name: object.name.clone(), view, or_replace: true, stands_on: vec![] }];
                Ok(BoundStatement::Other(Statement::Command(Command::All { commands, tag })))
            }
            _ => Err(Error::bug("what has no triggers gets some")),
        }
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
            self.tell_missing_object("relation", &table);
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        let object = self.with_own_triggers(&table)?;
        self.at.snapshot.rights.check_owner(&table)?;
        let mut triggers = object.relation.triggers().to_vec();
        let before = triggers.len();
        triggers.retain(|trigger| trigger.name != name);
        if triggers.len() == before {
            if if_exists {
                self.tell_missing(&format!("trigger \"{name}\" for relation \"{}\"", table.name));
                return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
            }
            return Err(no_trigger(&name, &table));
        }
        let done = self.with_triggers(&object, triggers, TAG)?;
        let forgets = self.forgotten(Topic::Trigger(object.id, name));
        Ok(followed_by(done, forgets.into_iter().collect(), TAG))
    }

    /// ALTER TRIGGER … RENAME; the words behind ALTER TRIGGER.
    pub(super) fn rename_trigger(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "ALTER TRIGGER";
        let name = words.name()?.0;
        words.expect(&["on"])?;
        let table = self.changeable(&words.object()?)?;
        words.expect(&["rename", "to"])?;
        let to = words.name()?.0;
        words.end()?;
        let object = self.with_own_triggers(&table)?;
        let mut triggers = object.relation.triggers().to_vec();
        if triggers.iter().any(|trigger| trigger.name == to) {
            let message = format!("trigger \"{to}\" for relation \"{}\" already exists", table.name);
            return Err(Error::input(message).with_code("42710"));
        }
        let found = triggers.iter_mut().find(|trigger| trigger.name == name);
        let found = found.ok_or_else(|| no_trigger(&name, &table))?;
        found.name.clone_from(&to);
        let is_constraint = found.constraint.is_some();
        let done = self.with_triggers(&object, triggers, TAG)?;
        let id = object.id;
        let mut along = self.comment_along(Topic::Trigger(id, name.clone()), Topic::Trigger(id, to.clone()));
        if is_constraint {
            along.extend(self.comment_along(Topic::Constraint(id, name), Topic::Constraint(id, to)));
        }
        Ok(followed_by(done, along, TAG))
    }

    /// A condition whose functions and types mean the same wherever names are looked up later.
    fn with_held_names(&self, condition: String) -> String {
        match crate::parse::expression(&condition) {
            Ok(parsed) => {
                let whole = self.with_whole_names(&parsed);
                if *whole == parsed { condition } else { whole.to_string() }
            }
            // Rows as a whole are no expressions to the parser.
            Err(_) => condition,
        }
    }

    /// ALTER TABLE … ENABLE and DISABLE TRIGGER; the words behind ALTER TABLE.
    pub(super) fn switch_triggers(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "ALTER TABLE";
        let if_exists = words.take(&["if", "exists"]);
        let _ = words.take(&["only"]);
        let wanted = words.object()?;
        let table = self.changeable(&wanted)?;
        if if_exists && self.at.snapshot.get(&table).is_none() {
            self.tell_missing_object("relation", &table);
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        let enables = words.take(&["enable"]);
        if !enables {
            words.expect(&["disable"])?;
        }
        let state = match enables {
            false => TriggerState::Disabled,
            true if words.take(&["always"]) => TriggerState::Always,
            true if words.take(&["replica"]) => TriggerState::Replica,
            true => TriggerState::Origin,
        };
        words.expect(&["trigger"])?;
        let (name, is_quoted) = words.name()?;
        words.end()?;
        let all = !is_quoted && ["all", "user"].contains(&name.as_str());
        let object = self.with_own_triggers(&table)?;
        if matches!(object.relation, Relation::View(_)) {
            let action = if enables { "ENABLE" } else { "DISABLE" };
            let message =
                format!("ALTER action {action} TRIGGER cannot be performed on relation \"{}\"", object.name.name);
            let error = Error::input(message).with_code("42809");
            return Err(error.with_detail("This operation is not supported for views."));
        }
        let mut triggers = object.relation.triggers().to_vec();
        if !all && !triggers.iter().any(|trigger| trigger.name == name) {
            return Err(no_trigger(&name, &table));
        }
        for trigger in triggers.iter_mut().filter(|trigger| all || trigger.name == name) {
            trigger.state = state;
        }
        if let Relation::Native(native) = &object.relation
            && all
            && name == "all"
            && native.rules().references_off == enables
        {
            // Triggers of the system are those of references.
            triggers.sort_by(|one, other| one.name.cmp(&other.name));
            return self.with_rules(&object, native, TAG, |rules| {
                rules.triggers = triggers;
                rules.references_off = !enables;
            });
        }
        if triggers == object.relation.triggers() {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        self.with_triggers(&object, triggers, TAG)
    }

    /// The triggers that a statement runs; `None` if there are none. `assigned` are the columns that it sets, all if
    /// `None`; `returned` is RETURNING, if it is computed when the rows have been written.
    pub(super) fn triggers(
        &self,
        table: &ObjectRef,
        operations: Vec<Operation>,
        assigned: Option<&[String]>,
        returned: Option<Arc<ComputedLater>>,
    ) -> Result<Option<Arc<Triggers>>> {
        let Some(object) = self.at.snapshot.catalog.get(&table.name) else { return Ok(None) };
        let followers = self.followers(object, &operations)?;
        let is_needed = returned.is_some() || !followers.is_empty();
        let Some(own) = self.own_triggers(object, operations, assigned, is_needed)? else { return Ok(None) };
        self.calls();
        Ok(Some(Arc::new(Triggers { returned, followers, ..own })))
    }

    /// The triggers of a table itself; `None` if nothing runs and they are not needed otherwise.
    pub(super) fn own_triggers(
        &self,
        object: &Object,
        operations: Vec<Operation>,
        assigned: Option<&[String]>,
        is_needed: bool,
    ) -> Result<Option<Triggers>> {
        let columns = columns_of(object)?;
        let mut fired = Vec::new();
        for trigger in object.relation.triggers().iter().filter(|trigger| trigger.is_enabled()) {
            fired.extend(self.fired(trigger, &columns, operations.clone(), assigned)?);
        }
        if fired.is_empty() && !is_needed {
            return Ok(None);
        }
        let runner = self.planner.query_runner.get().cloned();
        let runner = runner.ok_or_else(|| Error::unsupported("there is no session to run triggers in"))?;
        Ok(Some(Triggers {
            table: object.reference(),
            columns,
            fired,
            operations,
            returned: None,
            followers: Followers::new(),
            catalogs: self.planner.catalogs().clone(),
            runner,
        }))
    }

    /// What runs while all rows of tables go.
    pub(super) fn truncate_triggers(&self, tables: &[ObjectRef], cascade: bool) -> Result<Vec<Arc<Triggers>>> {
        let (mut all, mut triggers) = (tables.to_vec(), Vec::new());
        let mut next = 0;
        while let Some(table) = all.get(next).cloned() {
            next += 1;
            for (other, _) in self.at.snapshot.catalog.referring(table.id).filter(|_| cascade) {
                if all.iter().all(|known| known.id != other.id) {
                    all.push(other.reference());
                }
            }
            let Some(object) = self.at.snapshot.catalog.get(&table.name) else { continue };
            triggers.extend(self.own_triggers(object, vec![Operation::Truncate], None, false)?.map(Arc::new));
        }
        Ok(triggers)
    }

    /// The triggers of tables whose rows follow those of a table that go or change, and of those that follow them.
    fn followers(&self, object: &Object, operations: &[Operation]) -> Result<Followers> {
        let mut all = Followers::new();
        let mut met = HashSet::new();
        let mut left = operations.iter().map(|operation| (object.id, *operation)).collect::<Vec<_>>();
        while let Some((table, operation)) = left.pop() {
            for (object, reference) in self.at.snapshot.catalog.referring(table) {
                let action = match operation {
                    Operation::Insert | Operation::Truncate => continue,
                    Operation::Update => reference.on_update,
                    Operation::Delete => reference.on_delete,
                };
                let follows = match (action, operation) {
                    (ReferenceAction::Refuse | ReferenceAction::Restrict, _) => continue,
                    (ReferenceAction::Cascade, Operation::Delete) => Operation::Delete,
                    _ => Operation::Update,
                };
                if !met.insert((object.id, reference.name.clone(), follows)) {
                    continue;
                }
                left.push((object.id, follows));
                let key = (object.id, reference.name.clone());
                let operations = vec![Operation::Update, Operation::Delete];
                if !all.contains_key(&key)
                    && let Some(own) = self.own_triggers(object, operations, Some(&reference.columns), false)?
                {
                    all.insert(key, Arc::new(own));
                }
            }
        }
        Ok(all)
    }

    /// RETURNING is computed when the rows have been written.
    pub(super) fn computes_later(&self, rows: Bound, from: Arc<WrittenRows>) -> Arc<ComputedLater> {
        let later = Arc::new(ComputedLater::new(rows, from));
        self.later.borrow_mut().push(later.clone());
        later
    }

    /// Plans what is computed when the rows have been written.
    pub(super) fn plan_later(&self, values: &[ScalarValue]) -> Result<()> {
        for later in self.later.take() {
            if let Some(bound) = later.take_bound() {
                let planned = self.front(bound, values, false)?;
                later.is_planned(Query::new(planned.plan, planned.tables));
            }
        }
        Ok(())
    }

    /// A trigger as it runs in a statement; `None` if it does not.
    fn fired(
        &self,
        trigger: &Trigger,
        columns: &[(String, SqlType)],
        operations: Vec<Operation>,
        assigned: Option<&[String]>,
    ) -> Result<Option<Fired>> {
        let is_for = |operation: &Operation| operation.is_meant_with(trigger, assigned);
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
        let given = |text: &str| Step::Return(Some(Sql { number: AROUND, text: text.to_owned() }));
        let when = |condition: &String, body: Step, otherwise: Step| {
            let text = asked_outside(condition)?;
            let arms = vec![(Sql { number: AROUND - 1, text }, vec![body])];
            let steps = vec![Step::If { arms, otherwise: Some(vec![otherwise]) }];
            Ok::<_, Error>(Arc::new(Block { steps, ..Block::default() }))
        };
        let (block, condition) = match &trigger.when {
            None => (block.clone(), None),
            // Asked when the row changes, whenever the function runs.
            Some(condition) if trigger.is_deferrable() => {
                (block.clone(), Some(when(condition, given("coalesce(new, old)"), given("NULL"))?))
            }
            Some(condition) => {
                let body = Step::Block(block.as_ref().clone());
                (when(condition, body, given("coalesce(new, old)"))?, None)
            }
        };
        let procedure = |block: Arc<Block>, is_row: bool| Procedure {
            name: definition.name.clone(),
            parameters: Triggers::parameters(columns),
            block,
            gives: Gives::Trigger { columns: columns.to_vec(), is_row },
            has_outputs: false,
            output: None,
            acts_as: self.owner_acting(object),
            settings: definition.settings.clone(),
        };
        let is_row = trigger.is_row && (trigger.is_before || trigger.is_instead);
        Ok(Some(Fired {
            name: trigger.name.clone(),
            is_before: trigger.is_before,
            is_instead: trigger.is_instead,
            is_row: trigger.is_row,
            operations,
            procedure: Arc::new(procedure(block, is_row)),
            arguments: trigger.arguments.clone(),
            tables: (trigger.old_rows.clone(), trigger.new_rows.clone()),
            deferral: trigger.constraint.unwrap_or_default(),
            condition: condition.map(|block| Arc::new(procedure(block, true))),
        }))
    }

    /// What takes away the triggers, defaults, conditions and indexes that call functions which are to go. Fails with
    /// 2BP01 if there are triggers, and CASCADE is not said. What is in the schema that goes as a whole, if one does,
    /// is left.
    pub(super) fn without_users_of(
        &self,
        functions: &[RelationName],
        cascades: bool,
        schema: Option<&str>,
    ) -> Result<Vec<Command>> {
        const TAG: &str = "DROP FUNCTION";
        if !cascades {
            functions.iter().try_for_each(|function| self.refuse_called(function))?;
            return Ok(vec![]);
        }
        let names = functions.iter().filter_map(|function| self.only_of_its_name(function)).collect::<Vec<_>>();
        let (mut commands, mut gone) = (Vec::new(), Vec::new());
        let stays = |object: &&Arc<Object>| schema.is_none_or(|schema| object.name.schema != schema);
        for object in self.at.snapshot.catalog.all_objects().filter(stays) {
            if let Relation::Domain(domain) = &object.relation {
                if let Some((changes, parts)) = self.domain_without_calls(object, domain, &names) {
                    commands.extend(changes);
                    gone.extend(parts);
                }
                continue;
            }
            let (going, stay): (Vec<_>, Vec<_>) = object.relation.triggers().iter().cloned().partition(|trigger| {
                functions.contains(&trigger.function) || asks(trigger, &names, &object.name.schema)
            });
            let (table, kind) = (&object.name.name, object.relation.kind());
            let here = going.iter().map(|trigger| format!("trigger {} on {kind} {table}", trigger.name));
            let mut here = here.collect::<Vec<_>>();
            let bound = match &object.relation {
                Relation::Native(native) => {
                    let columns = computed_by(native.rules(), &names, &object.name);
                    here.extend(columns.iter().map(|column| format!("column {column} of table {table}")));
                    here.extend(without_calls(&mut native.rules().clone(), &names, &object.name));
                    if here.is_empty() {
                        continue;
                    }
                    self.with_rules_without(object, native, &columns, TAG, |rules| {
                        without_calls(rules, &names, &object.name);
                        rules.triggers = stay;
                    })?
                }
                _ if here.is_empty() => continue,
                _ => self.with_triggers(object, stay, TAG)?,
            };
            gone.append(&mut here);
            match bound {
                // They are parts of the same change.
                BoundStatement::Other(Statement::Command(Command::All { commands: all, .. })) => commands.extend(all),
                BoundStatement::Other(Statement::Command(command)) => commands.push(command),
                _ => {}
            }
            let forgotten = going.into_iter().map(|trigger| Topic::Trigger(object.id, trigger.name));
            commands.extend(forgotten.filter_map(|topic| self.forgotten(topic)));
        }
        self.tell_cascades(&gone);
        Ok(commands)
    }

    /// Fails with 2BP01 if a trigger calls a function that is to go.
    pub(super) fn refuse_called(&self, function: &RelationName) -> Result<()> {
        for object in self.at.snapshot.catalog.objects() {
            let calls = |trigger: &&Trigger| trigger.function == *function;
            let Some(trigger) = object.relation.triggers().iter().find(calls) else { continue };
            let shown = function.routine().unwrap_or(&function.name);
            let message = format!("cannot drop function {shown} because other objects depend on it");
            let detail = format!(
                "trigger {} on {} {} depends on function {shown}",
                trigger.name,
                object.relation.kind(),
                object.name
            );
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint));
        }
        Ok(())
    }
}

/// The condition of WHEN as it is asked within the trigger: to the condition, the trigger does not run yet. Fails as it
/// is read.
fn asked_outside(condition: &str) -> Result<String> {
    let mut tree = parse::expression(condition)?;
    let mut asks = false;
    let done = each_expression_mut(&mut tree, |expression| {
        let is_depth = matches!(expression, ast::Expr::Function(call)
        if call.name.0.last().and_then(ast::ObjectNamePart::as_ident).is_some_and(|name| {
            name.value.eq_ignore_ascii_case(DEPTH)
        }));
        if is_depth {
            asks = true;
            let one = ast::Expr::Value(ast::Value::Number("1".to_owned(), false).into());
            let depth = Box::new(expression.clone());
            let less = ast::Expr::BinaryOp { left: depth, op: ast::BinaryOperator::Minus, right: Box::new(one) };
            *expression = ast::Expr::Nested(Box::new(less));
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue());
    Ok(if asks { tree.to_string() } else { condition.to_owned() })
}

/// The columns of a table or a view.
pub(super) fn columns_of(object: &Object) -> Result<Vec<(String, SqlType)>> {
    let schema = object.relation.schema()?;
    let column = |field: &FieldRef| (field.name().clone(), SqlType::of_field(field).unwrap_or(SqlType::Text).untimed());
    Ok(schema.fields().iter().map(column).collect())
}

/// A change of the catalog with others behind it.
fn followed_by(done: BoundStatement, others: Vec<Command>, tag: &'static str) -> BoundStatement {
    match done {
        BoundStatement::Other(Statement::Command(command)) if !others.is_empty() => {
            let commands = std::iter::once(command).chain(others).collect();
            BoundStatement::Other(Statement::Command(Command::All { commands, tag }))
        }
        done => done,
    }
}

fn no_trigger(name: &str, table: &RelationName) -> Error {
    let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
    Error::input(message).with_code("42704")
}

/// A condition whose words have blanks between them, without those around the dots of names: `new . a` is `new.a`.
fn with_whole_names(condition: &str) -> String {
    let (mut out, mut quote, mut behind_dot) = (String::with_capacity(condition.len()), None, false);
    for letter in condition.chars() {
        match quote {
            Some(mark) => {
                out.push(letter);
                quote = (letter != mark).then_some(mark);
            }
            None if letter == ' ' && behind_dot => {}
            None => {
                if letter == '.' && out.ends_with(' ') {
                    out.truncate(out.trim_end_matches(' ').len());
                }
                behind_dot = letter == '.';
                quote = matches!(letter, '\'' | '"').then_some(letter);
                out.push(letter);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::with_whole_names;

    #[test]
    fn names_of_a_condition_are_whole() {
        let condition = "new . a > 1.5 AND old . * IS DISTINCT FROM new . * AND b = 'x . y'";
        assert_eq!(with_whole_names(condition), "new.a > 1.5 AND old.* IS DISTINCT FROM new.* AND b = 'x . y'");
    }
}
