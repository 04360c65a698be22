//! CREATE TRIGGER: its clauses, one by one, and what they may not say together.

use std::collections::HashSet;
use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::rules::Deferral;
use diligence_catalog::{Object, Relation, RelationName, Trigger, TriggerEvent, TriggerState};
use sqlparser::ast;

use super::super::around::Around;
use super::super::authority::Words;
use super::super::bound::BoundStatement;
use super::{columns_of, with_whole_names};
use crate::parse;
use crate::walking::each_expression;
use crate::write::triggers::Operation;

impl Around<'_> {
    /// CREATE TRIGGER; the words behind CREATE.
    pub(in crate::planning) fn create_trigger(&self, words: &mut Words) -> Result<BoundStatement> {
        let or_replace = words.take(&["or", "replace"]);
        let is_constraint = words.take(&["constraint"]);
        if is_constraint && or_replace {
            let message = "CREATE OR REPLACE CONSTRAINT TRIGGER is not supported";
            let error = Error::unsupported(message).with_code("0A000");
            return Err(error.with_hint("DROP TRIGGER it first"));
        }
        words.expect(&["trigger"])?;
        let name = words.name()?.0;
        let is_before = !is_constraint && words.take(&["before"]);
        let is_instead = !is_constraint && !is_before && words.take(&["instead", "of"]);
        if !is_before && !is_instead {
            words.expect(&["after"])?;
        }
        let events = events(words)?;
        words.expect(&["on"])?;
        let table = self.granted(&words.object()?, Privilege::Trigger)?;
        let constraint = if is_constraint { Some(deferral(words)?) } else { None };
        let (old_rows, new_rows) = if is_constraint { (None, None) } else { transition_tables(words)? };
        let is_row = is_of_rows(words, is_constraint)?;
        let when = self.when(words, &events, is_row)?;
        let (function, arguments) = self.executed(words)?;
        words.end()?;
        let object = self.with_own_triggers(&table)?;
        let trigger = Trigger {
            name,
            is_before,
            is_instead,
            is_row,
            events,
            when,
            function,
            arguments,
            state: TriggerState::Origin,
            old_rows,
            new_rows,
            constraint,
        };
        self.check_trigger(&trigger, &object)?;
        let triggers = with_trigger(&object, trigger, or_replace)?;
        self.with_triggers(&object, triggers, "CREATE TRIGGER")
    }

    /// `WHEN (condition)`, if it is there.
    fn when(&self, words: &mut Words, events: &[TriggerEvent], is_row: bool) -> Result<Option<String>> {
        if !words.take(&["when"]) {
            return Ok(None);
        }
        let condition = words.parenthesized().ok_or_else(|| words.wrong())?;
        refuse_sides(&condition, events, is_row)?;
        Ok(Some(self.with_held_names(with_whole_names(&condition))))
    }

    /// `EXECUTE FUNCTION f('a', 1)`.
    fn executed(&self, words: &mut Words) -> Result<(RelationName, Vec<String>)> {
        words.expect(&["execute"])?;
        if !words.take(&["function"]) {
            words.expect(&["procedure"])?;
        }
        let function = self.relation_name(&words.object()?)?;
        let function = RelationName::of_routine(&function.schema, &function.name, Some(""));
        words.expect(&["("])?;
        let mut arguments = Vec::new();
        while !words.take(&[")"]) {
            arguments.push(argument(words)?);
            let _ = words.take(&[","]);
        }
        Ok((function, arguments))
    }

    /// Fails if a table cannot have a trigger, or if its function cannot run.
    fn check_trigger(&self, trigger: &Trigger, object: &Object) -> Result<()> {
        refuse_of(trigger, object)?;
        refuse_combination(trigger)?;
        let columns = columns_of(object)?;
        for event in &trigger.events {
            let TriggerEvent::Update(of) = event else { continue };
            if let Some(column) = of.iter().find(|column| columns.iter().all(|(known, _)| known != *column)) {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", object.name.name);
                return Err(Error::input(message).with_code("42703"));
            }
        }
        // Looked at now, so that mistakes are those of this statement.
        self.fired(trigger, &columns, vec![Operation::Insert], None).map(|_| ())
    }
}

/// `INSERT OR UPDATE OF a, b`.
fn events(words: &mut Words) -> Result<Vec<TriggerEvent>> {
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
            TriggerEvent::Truncate
        } else {
            return Err(words.wrong());
        });
        if !words.take(&["or"]) {
            break;
        }
    }
    refuse_repeated(&events)?;
    Ok(events)
}

/// `REFERENCING OLD TABLE AS a NEW TABLE AS b`: the names of the rows before and after.
fn transition_tables(words: &mut Words) -> Result<(Option<String>, Option<String>)> {
    let (mut old_rows, mut new_rows) = (None, None);
    if !words.take(&["referencing"]) {
        return Ok((old_rows, new_rows));
    }
    while words.come(&["old"]) || words.come(&["new"]) {
        let is_old = words.word()? == "old";
        if words.take(&["row"]) || !words.take(&["table"]) {
            let message = "ROW variable naming in the REFERENCING clause is not supported";
            let error = Error::unsupported(message).with_code("0A000");
            return Err(error.with_hint("Use OLD TABLE or NEW TABLE for naming transition tables."));
        }
        let _ = words.take(&["as"]);
        let name = words.name()?.0;
        let place = if is_old { &mut old_rows } else { &mut new_rows };
        if place.replace(name).is_some() {
            let which = if is_old { "OLD" } else { "NEW" };
            let message = format!("{which} TABLE cannot be specified multiple times");
            return Err(Error::input(message).with_code("42P17"));
        }
    }
    Ok((old_rows, new_rows))
}

/// `FOR EACH ROW`, or `FOR EACH STATEMENT`, which goes without saying.
fn is_of_rows(words: &mut Words, is_constraint: bool) -> Result<bool> {
    if is_constraint {
        words.expect(&["for", "each", "row"])?;
        return Ok(true);
    }
    if !words.take(&["for"]) {
        return Ok(false);
    }
    let _ = words.take(&["each"]);
    let is_row = words.take(&["row"]);
    if !is_row {
        words.expect(&["statement"])?;
    }
    Ok(is_row)
}

/// An argument of a trigger's function, which is a text however it is written.
fn argument(words: &mut Words) -> Result<String> {
    if let Ok(text) = words.text() {
        return Ok(text);
    }
    match words.number() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Ok(words.name()?.0),
    }
}

/// The triggers of a table, with one more, or with another of its name. Fails with 42710 if there is one that stays.
fn with_trigger(object: &Object, trigger: Trigger, or_replace: bool) -> Result<Vec<Trigger>> {
    let mut triggers = object.relation.triggers().to_vec();
    let Some(known) = triggers.iter_mut().find(|known| known.name == trigger.name) else {
        triggers.push(trigger);
        return Ok(triggers);
    };
    let what = format!("trigger \"{}\" for relation \"{}\"", trigger.name, object.name.name);
    if !or_replace {
        return Err(Error::input(format!("{what} already exists")).with_code("42710"));
    }
    if known.constraint.is_some() {
        return Err(Error::input(format!("{what} is a constraint trigger")).with_code("42710"));
    }
    *known = trigger;
    Ok(triggers)
}

/// When a constraint trigger runs, as the words behind its table say.
fn deferral(words: &mut Words) -> Result<Deferral> {
    if words.take(&["from"]) {
        let error = Error::unsupported("CREATE CONSTRAINT TRIGGER … FROM is not supported").with_code("0A000");
        return Err(error.with_hint("leave FROM out: it names the other table of a foreign key, and nothing else"));
    }
    let (mut deferrable, mut initially) = (None, None);
    loop {
        if words.take(&["not", "deferrable"]) {
            deferrable = Some(false);
        } else if words.take(&["deferrable"]) {
            deferrable = Some(true);
        } else if words.take(&["initially", "deferred"]) {
            initially = Some(true);
        } else if words.take(&["initially", "immediate"]) {
            initially = Some(false);
        } else {
            break;
        }
    }
    match (deferrable, initially) {
        (Some(false), Some(true)) => {
            Err(Error::input("constraint declared INITIALLY DEFERRED must be DEFERRABLE").with_code("42601"))
        }
        (_, Some(true)) => Ok(Deferral::Deferred),
        (Some(true), _) => Ok(Deferral::Immediate),
        _ => Ok(Deferral::Never),
    }
}

/// Fails with 42601 if an event comes twice, 42701 if a column of one does.
fn refuse_repeated(events: &[TriggerEvent]) -> Result<()> {
    let mut met = HashSet::new();
    for event in events {
        if !met.insert(std::mem::discriminant(event)) {
            return Err(Error::input("duplicate trigger events specified").with_code("42601"));
        }
        let TriggerEvent::Update(columns) = event else { continue };
        let mut names = HashSet::new();
        if let Some(column) = columns.iter().find(|column| !names.insert(*column)) {
            return Err(Error::input(format!("column \"{column}\" specified more than once")).with_code("42701"));
        }
    }
    Ok(())
}

/// Fails with 42P17 if the condition of a trigger names a row that there is not.
fn refuse_sides(condition: &str, events: &[TriggerEvent], is_row: bool) -> Result<()> {
    let (mut old, mut new) = (false, false);
    let _ = each_expression(&parse::expression(condition)?, |part| {
        let name = match part {
            ast::Expr::Identifier(name) => Some(name),
            ast::Expr::CompoundIdentifier(names) => names.first(),
            _ => None,
        };
        old |= name.is_some_and(|name| name.value.eq_ignore_ascii_case("old"));
        new |= name.is_some_and(|name| name.value.eq_ignore_ascii_case("new"));
        ControlFlow::Continue(())
    });
    let message = match () {
        () if !is_row && (old || new) => "statement trigger's WHEN condition cannot reference column values",
        () if old && events.iter().any(|event| matches!(event, TriggerEvent::Insert)) => {
            "INSERT trigger's WHEN condition cannot reference OLD values"
        }
        () if new && events.iter().any(|event| matches!(event, TriggerEvent::Delete)) => {
            "DELETE trigger's WHEN condition cannot reference NEW values"
        }
        () => return Ok(()),
    };
    Err(Error::input(message).with_code("42P17"))
}

/// Fails with what PostgreSQL says of parts of CREATE TRIGGER that do not go together.
fn refuse_combination(trigger: &Trigger) -> Result<()> {
    let has = |wanted: fn(&TriggerEvent) -> bool| trigger.events.iter().any(wanted);
    let is_update = |event: &TriggerEvent| matches!(event, TriggerEvent::Update(_));
    let refuse = |message: &str, code: &'static str| Err(Error::unsupported(message).with_code(code));
    let truncates = has(|event| *event == TriggerEvent::Truncate);
    if trigger.is_instead && !trigger.is_row {
        return refuse("INSTEAD OF triggers must be FOR EACH ROW", "0A000");
    }
    if trigger.is_instead && trigger.when.is_some() {
        return refuse("INSTEAD OF triggers cannot have WHEN conditions", "0A000");
    }
    if trigger.is_instead && has(|event| matches!(event, TriggerEvent::Update(columns) if !columns.is_empty())) {
        return refuse("INSTEAD OF triggers cannot have column lists", "0A000");
    }
    if truncates && trigger.is_row {
        return refuse("TRUNCATE FOR EACH ROW triggers are not supported", "0A000");
    }
    if trigger.old_rows.is_none() && trigger.new_rows.is_none() {
        return Ok(());
    }
    if trigger.is_before {
        return refuse("transition table name can only be specified for an AFTER trigger", "42P17");
    }
    if truncates {
        return refuse("TRUNCATE triggers with transition tables are not supported", "0A000");
    }
    if trigger.events.len() > 1 {
        return refuse("transition tables cannot be specified for triggers with more than one event", "0A000");
    }
    if has(|event| matches!(event, TriggerEvent::Update(columns) if !columns.is_empty())) {
        return refuse("transition tables cannot be specified for triggers with column lists", "0A000");
    }
    if trigger.new_rows.is_some() && !has(|event| *event == TriggerEvent::Insert) && !has(is_update) {
        return refuse("NEW TABLE can only be specified for an INSERT or UPDATE trigger", "42P17");
    }
    if trigger.old_rows.is_some() && !has(|event| *event == TriggerEvent::Delete) && !has(is_update) {
        return refuse("OLD TABLE can only be specified for a DELETE or UPDATE trigger", "42P17");
    }
    if trigger.old_rows == trigger.new_rows {
        return refuse("OLD TABLE name and NEW TABLE name cannot be the same", "42P17");
    }
    Ok(())
}

/// Fails with 42809 for triggers that a table, or a view, cannot have.
fn refuse_of(trigger: &Trigger, object: &Object) -> Result<()> {
    let refuse = |detail: &str| {
        let message = format!("\"{}\" is {}", object.name.name, object.relation.a_kind());
        Err(Error::input(message).with_code("42809").with_detail(detail))
    };
    let is_view = matches!(object.relation, Relation::View(_));
    if !is_view && trigger.is_instead {
        return refuse("Tables cannot have INSTEAD OF triggers.");
    }
    if is_view && trigger.is_row && !trigger.is_instead {
        return refuse("Views cannot have row-level BEFORE or AFTER triggers.");
    }
    if is_view && trigger.events.contains(&TriggerEvent::Truncate) {
        return refuse("Views cannot have TRUNCATE triggers.");
    }
    if is_view && (trigger.old_rows.is_some() || trigger.new_rows.is_some()) {
        return refuse("Triggers on views cannot have transition tables.");
    }
    Ok(())
}
