//! Columns that go, that change and that get another name.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use diligence_base::{Error, Result};
use diligence_catalog::rules::{Identity, Reference};
use diligence_catalog::sequence::{Sequence, SequenceOptions};
use diligence_catalog::{Object, OwnedSequence, Relation, Trigger, TriggerEvent};
use diligence_types::SqlType;
use sqlparser::ast::{self, AlterColumnOperation, Expr, Ident};
use sqlparser::keywords::ALL_KEYWORDS;

use super::super::around::Around;
use super::super::bound::BoundStatement;
use super::super::definitions::lower;
use super::super::indexes::shown;
use super::super::sequences::{SequenceChange, arguments_of, changed, changes_of};
use super::super::tables::sequence_options_of;
use super::{Altered, From};
use crate::binder::{self};
use crate::parse::{self, COLLATED_TYPE};
use crate::statement::{Command, Statement};
use crate::walking::{each_expression, each_expression_mut};

impl Altered {
    /// How a column counts that begins to do so with the statement; `None` for any other.
    fn begins_to_count(&self, object: &Object, column: &str) -> Option<&SequenceOptions> {
        let own = self.declaration.sequences.iter().find(|one| one.column == column).map(|one| &one.options);
        own.or_else(|| {
            self.also.iter().find_map(|command| match command {
                Command::CreateSequence { sequence, .. } if is_of(&sequence.options, object, column) => {
                    Some(&sequence.options)
                }
                _ => None,
            })
        })
    }

    /// Has such a column count in another way.
    fn count_by(&mut self, object: &Object, column: &str, options: SequenceOptions) {
        if let Some(own) = self.declaration.sequences.iter_mut().find(|one| one.column == column) {
            own.options = options;
            return;
        }
        for command in &mut self.also {
            if let Command::CreateSequence { sequence, .. } = command
                && is_of(&sequence.options, object, column)
            {
                *sequence = Arc::new(Sequence::new(options.clone()));
            }
        }
    }
}

/// Whether a sequence is that of a column.
fn is_of(options: &SequenceOptions, object: &Object, column: &str) -> bool {
    options.owner.as_ref().is_some_and(|(table, own)| *table == object.id && own == column)
}

impl Around<'_> {
    pub(super) fn drop_column(&self, altered: &mut Altered, name: &Ident, cascade: bool) -> Result<()> {
        let place = altered.place(name)?;
        let name = lower(name);
        let uses = |condition: &Expr| names_column(condition, &name);
        let rules = &mut altered.declaration.rules;
        if rules.distribution.uses(&name) {
            let table = &altered.declaration.name.name;
            let message =
                format!("cannot drop column \"{name}\" because rows of relation \"{table}\" are divided by it");
            let hint = "set another distribution first: ALTER TABLE … SET DISTRIBUTED BY ROUND ROBIN FRAGMENTS 1 \
                        CLUSTERED BY ()";
            return Err(Error::input(message).with_code("42P16").with_hint(hint));
        }
        if let Some((generated, _)) = rules.generated.iter().find(|(own, expression)| **own != name && uses(expression))
            && !cascade
        {
            let table = &altered.declaration.name.name;
            let message = format!("cannot drop column {name} of table {table} because other objects depend on it");
            let detail = format!("column {generated} of table {table} depends on column {name} of table {table}");
            return Err(Error::input(message).with_code("2BP01").with_detail(detail));
        }
        if let Some(trigger) = rules.triggers.iter().find(|trigger| is_about(trigger, &name))
            && !cascade
        {
            let table = &altered.declaration.name.name;
            let message = format!("cannot drop column {name} of table {table} because other objects depend on it");
            let trigger = &trigger.name;
            let detail = format!("trigger {trigger} on table {table} depends on column {name} of table {table}");
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint));
        }
        let about = rules.triggers.iter().filter(|trigger| is_about(trigger, &name));
        let about = about.map(|trigger| format!("trigger {} on table {}", trigger.name, altered.declaration.name.name));
        self.tell_cascades(&about.collect::<Vec<_>>());
        rules.triggers.retain(|trigger| !is_about(trigger, &name));
        rules.statistics.retain(|own| !own.uses(&name, |text| parse::expression(text).is_ok_and(|own| uses(&own))));
        rules.checks.retain(|check| !uses(&check.condition));
        rules.keys.retain(|key| !key.uses(&name));
        rules.references.retain(|reference| !reference.columns.contains(&name));
        let gone = rules.generated.iter().filter(|(own, expression)| **own != name && uses(expression));
        let gone = gone.map(|(own, _)| own.clone()).collect::<Vec<_>>();
        rules.defaults.remove(&name);
        rules.generated.remove(&name);
        rules.identities.remove(&name);
        rules.comments.remove(&name);
        altered.declaration.sequences.retain(|sequence| sequence.column != name);
        altered.declaration.fields.remove(place);
        altered.from.remove(place);
        for name in gone {
            self.drop_column(altered, &Ident::with_quote('"', name), true)?;
        }
        Ok(())
    }

    /// Has references to a table name its columns as they are called from now on: its own, and those of other tables,
    /// which are altered along.
    pub(super) fn rename_referred(
        &self,
        object: &Object,
        altered: &mut Altered,
        renamed: &[(String, String)],
    ) -> Result<()> {
        if renamed.is_empty() {
            return Ok(());
        }
        let follow = |references: &mut Vec<Reference>| {
            let mut is_changed = false;
            for reference in references.iter_mut().filter(|reference| reference.table == object.id) {
                for name in &mut reference.referred {
                    if let Some((_, new)) = renamed.iter().find(|(old, _)| old == name) {
                        new.clone_into(name);
                        is_changed = true;
                    }
                }
            }
            is_changed
        };
        follow(&mut altered.declaration.rules.references);
        for other in self.at.snapshot.catalog.all_objects().filter(|other| other.id != object.id) {
            let Relation::Native(rows) = &other.relation else { continue };
            if !follow(&mut rows.rules().references.clone()) {
                continue;
            }
            let bound = self.with_rules(other, rows, "ALTER TABLE", |rules| {
                follow(&mut rules.references);
            })?;
            match bound {
                BoundStatement::Other(Statement::Command(Command::All { commands, .. })) => {
                    altered.also.extend(commands)
                }
                BoundStatement::Other(Statement::Command(command)) => altered.also.push(command),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn alter_column(
        &self,
        altered: &mut Altered,
        name: &Ident,
        operation: &AlterColumnOperation,
    ) -> Result<()> {
        let place = altered.place(name)?;
        let column = altered.declaration.fields[place].name().clone();
        match operation {
            AlterColumnOperation::SetNotNull => altered.declaration.set_nullable(&column, false),
            AlterColumnOperation::DropNotNull => {
                let primary = altered.declaration.rules.primary_key();
                if primary.is_some_and(|key| key.columns.contains(&column)) {
                    return Err(Error::input(format!("column \"{column}\" is in a primary key")).with_code("42P16"));
                }
                if altered.declaration.rules.identities.contains_key(&column) {
                    return Err(computed_itself(altered, &column, "an identity"));
                }
                altered.declaration.set_nullable(&column, true);
            }
            AlterColumnOperation::SetDefault { value } => {
                refuse_computed(altered, &column, false)?;
                altered.declaration.rules.defaults.insert(column, self.with_whole_names(value));
            }
            AlterColumnOperation::DropDefault => {
                refuse_computed(altered, &column, true)?;
                altered.declaration.rules.defaults.remove(&column);
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let sql_type = binder::named_type(data_type, self)?;
                let (collation, using) = collated_type(using.as_ref());
                let sql_type = match collation {
                    Some(collation) => self.with_collation_named(sql_type, collation)?,
                    None => sql_type,
                };
                let field = &mut altered.declaration.fields[place];
                if SqlType::of_field(field).as_ref() == Some(&sql_type) && using.is_none() {
                    return Ok(());
                }
                let nullable = field.is_nullable();
                if let Some(from) = SqlType::of_field(field).filter(|_| using.is_none())
                    && !binder::is_assignable(&from, &sql_type)
                {
                    let message = format!("column \"{column}\" cannot be cast automatically to type {sql_type}");
                    let hint = format!("You might need to specify \"USING {name}::{sql_type}\".");
                    return Err(Error::input(message).with_code("42804").with_hint(hint));
                }
                let is_integer = matches!(sql_type, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
                if altered.declaration.rules.identities.contains_key(&column) && !is_integer {
                    let error = Error::input("identity column type must be smallint, integer, or bigint");
                    return Err(error.with_code("22023"));
                }
                *field = Arc::new(sql_type.field(&column, nullable));
                let old = match &altered.from[place] {
                    From::Column(_) => Expr::Identifier(name.clone()),
                    From::Null => Expr::Value(ast::Value::Null.into()),
                    From::Value(value) => value.clone(),
                };
                altered.from[place] = From::Value(using.cloned().unwrap_or(old));
                // Conditions are looked at with the new values.
                let checks = &altered.declaration.rules.checks;
                let touched = checks.iter().filter(|check| names_column(&check.condition, &column));
                altered.new_checks.extend(touched.map(|check| check.name.clone()));
            }
            AlterColumnOperation::AddGenerated { .. } => return Err(Error::bug("ADD GENERATED is done elsewhere")),
        }
        Ok(())
    }

    /// What becomes of a column that counts or is generated. Fails with 55000 if it does not, or is not.
    pub(super) fn alter_identity(
        &self,
        altered: &mut Altered,
        name: &Ident,
        call: &ast::Function,
        object: &Object,
    ) -> Result<()> {
        let place = altered.place(name)?;
        let column = altered.declaration.fields[place].name().clone();
        let table = &object.name.name;
        let changes = changes_of(&arguments_of(call))?;
        let rules = &mut altered.declaration.rules;
        if let Some(SequenceChange::DropExpression { if_exists }) = changes.first() {
            if rules.generated.remove(&column).is_none() {
                let message = format!("column \"{column}\" of relation \"{table}\" is not a stored generated column");
                return self.skip_or_fail(message, *if_exists);
            }
            return Ok(());
        }
        let is_well = matches!(changes.first(), Some(SequenceChange::DropIdentity { if_exists: true }));
        if !rules.identities.contains_key(&column) {
            let message = format!("column \"{column}\" of relation \"{table}\" is not an identity column");
            return self.skip_or_fail(message, is_well);
        }
        if let Some(begins) = altered.begins_to_count(object, &column) {
            let (options, state) = changed(&Sequence::new(begins.clone()), &changes)?;
            let drops = |change: &SequenceChange| matches!(change, SequenceChange::DropIdentity { .. });
            if state.is_some() || changes.iter().any(drops) {
                let message = format!("column \"{column}\" begins to count and ends, or begins anew, in one statement");
                return Err(Error::unsupported(message).with_code("0A000").with_hint("make it two statements"));
            }
            for change in &changes {
                if let SequenceChange::Generated(identity) = change {
                    altered.declaration.rules.identities.insert(column.clone(), *identity);
                }
            }
            altered.count_by(object, &column, options);
            return Ok(());
        }
        let rules = &mut altered.declaration.rules;
        let found =
            self.sequence_of(object, &column).ok_or_else(|| Error::bug("a column counts without a sequence"))?;
        let Relation::Sequence(sequence) = &found.relation else { return Err(Error::bug("a sequence is none")) };
        for change in &changes {
            match change {
                SequenceChange::Generated(identity) => {
                    rules.identities.insert(column.clone(), *identity);
                }
                SequenceChange::DropIdentity { .. } => {
                    rules.identities.remove(&column);
                    rules.defaults.remove(&column);
                    altered.also.push(Command::DropSequence(found.name.clone()));
                    return Ok(());
                }
                _ => {}
            }
        }
        if changes.iter().any(|change| !matches!(change, SequenceChange::Generated(_))) {
            let (options, state) = changed(sequence, &changes)?;
            let sequence = found.reference();
            altered.also.push(Command::AlterSequence { sequence, options, state, tag: "ALTER TABLE" });
        }
        Ok(())
    }

    /// ADD GENERATED … AS IDENTITY. Fails with 55000 if the column counts already, has a default or may be NULL, and
    /// with 22023 if it is of no integer type.
    pub(super) fn add_identity(
        &self,
        altered: &mut Altered,
        name: &Ident,
        generated_as: Option<ast::GeneratedAs>,
        options: &[ast::SequenceOptions],
        object: &Object,
    ) -> Result<()> {
        let place = altered.place(name)?;
        let field = altered.declaration.fields[place].clone();
        let (column, table) = (field.name().clone(), &object.name.name);
        let rules = &altered.declaration.rules;
        let refused = |what: &str| {
            let message = format!("column \"{column}\" of relation \"{table}\" {what}");
            Err(Error::input(message).with_code("55000"))
        };
        let bits = match SqlType::of_field(&field) {
            Some(SqlType::SmallInt) => 16,
            Some(SqlType::Integer) => 32,
            Some(SqlType::BigInt) => 64,
            _ => {
                let error = Error::input("identity column type must be smallint, integer, or bigint");
                return Err(error.with_code("22023"));
            }
        };
        if field.is_nullable() {
            return refused("must be declared NOT NULL before identity can be added");
        }
        if rules.identities.contains_key(&column) {
            return refused("is already an identity column");
        }
        if rules.defaults.contains_key(&column) {
            return refused("already has a default value");
        }
        let is_always = generated_as == Some(ast::GeneratedAs::Always);
        let identity = if is_always { Identity::Always } else { Identity::ByDefault };
        altered.declaration.rules.identities.insert(column.clone(), identity);
        self.add_sequence(&mut altered.declaration, &column, sequence_options_of(options, bits)?);
        // The rows stay as they are, so it is made beside them.
        for OwnedSequence { name, column, options } in std::mem::take(&mut altered.declaration.sequences) {
            let options = SequenceOptions { owner: Some((object.id, column)), ..options };
            let sequence = Arc::new(Sequence::new(options));
            altered.also.push(Command::CreateSequence { name, sequence });
        }
        Ok(())
    }
}

/// Fails with code 42601 if a column counts or is generated: then it has no default of its own.
fn refuse_computed(altered: &Altered, column: &str, drops: bool) -> Result<()> {
    let rules = &altered.declaration.rules;
    let (what, way) = if rules.identities.contains_key(column) {
        ("an identity", "DROP IDENTITY")
    } else if rules.generated.contains_key(column) {
        ("a generated", "DROP EXPRESSION")
    } else {
        return Ok(());
    };
    let error = computed_itself(altered, column, what);
    Err(match drops {
        true => error.with_hint(format!("Use ALTER TABLE ... ALTER COLUMN ... {way} instead.")),
        false => error,
    })
}

fn computed_itself(altered: &Altered, column: &str, what: &str) -> Error {
    let table = &altered.declaration.name.name;
    Error::input(format!("column \"{column}\" of relation \"{table}\" is {what} column")).with_code("42601")
}

/// Whether an expression names a column of its table.
pub(super) fn names_column(expression: &Expr, column: &str) -> bool {
    let is_it = |expression: &Expr| match expression {
        Expr::Identifier(name) => lower(name) == column,
        Expr::CompoundIdentifier(names) => names.last().is_some_and(|name| lower(name) == column),
        _ => false,
    };
    let visit = |expression: &Expr| match is_it(expression) {
        true => std::ops::ControlFlow::Break(()),
        false => std::ops::ControlFlow::Continue(()),
    };
    each_expression(expression, visit).is_break()
}
/// Gives a column another name, in the table's rules, too.
pub(super) fn rename_column(altered: &mut Altered, old: &Ident, new: &str) -> Result<()> {
    let place = altered.place(old)?;
    let old = lower(old);
    if altered.declaration.has_column(new) {
        let table = &altered.declaration.name.name;
        let message = format!("column \"{new}\" of relation \"{table}\" already exists");
        return Err(Error::input(message).with_code("42701"));
    }
    let field: &mut FieldRef = &mut altered.declaration.fields[place];
    *field = Arc::new(field.as_ref().clone().with_name(new));
    let rules = &mut altered.declaration.rules;
    let named = |names: &mut Vec<String>| {
        names.iter_mut().filter(|name| **name == old).for_each(|name| new.clone_into(name));
    };
    rules.distribution.rename(&old, new);
    for key in &mut rules.keys {
        named(&mut key.columns);
        key.form.iter_mut().for_each(|form| named(&mut form.included));
    }
    for reference in &mut rules.references {
        named(&mut reference.columns);
        named(&mut reference.set_columns);
    }
    if let Some(default) = rules.defaults.remove(&old) {
        rules.defaults.insert(new.to_owned(), default);
    }
    if let Some(generated) = rules.generated.remove(&old) {
        rules.generated.insert(new.to_owned(), generated);
    }
    if let Some(identity) = rules.identities.remove(&old) {
        rules.identities.insert(new.to_owned(), identity);
    }
    if let Some(comment) = rules.comments.remove(&old) {
        rules.comments.insert(new.to_owned(), comment);
    }
    let in_expression = |expression: &mut Arc<Expr>| {
        let mut copy = expression.as_ref().clone();
        let _ = each_expression_mut(&mut copy, |expression| {
            let name = match expression {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(names) => names.last_mut(),
                _ => None,
            };
            if let Some(name) = name.filter(|name| lower(name) == old) {
                *name = bare_where_it_can_be(new);
            }
            std::ops::ControlFlow::Continue(())
        });
        *expression = Arc::new(copy);
    };
    for key in &mut rules.keys {
        let Some(computed) = &mut key.computed else { continue };
        computed.condition.iter_mut().for_each(in_expression);
        for (column, expression) in key.columns.iter_mut().zip(&mut computed.expressions) {
            if let Some(expression) = expression {
                in_expression(expression);
                *column = shown(expression);
            }
        }
    }
    rules.checks.iter_mut().for_each(|check| in_expression(&mut check.condition));
    rules.generated.values_mut().for_each(in_expression);
    for statistics in &mut rules.statistics {
        statistics.columns.iter_mut().filter(|column| **column == old).for_each(|column| new.clone_into(column));
        for text in &mut statistics.expressions {
            let Ok(expression) = parse::expression(text) else { continue };
            let mut expression = Arc::new(expression);
            in_expression(&mut expression);
            *text = expression.to_string();
        }
    }
    rules.triggers.iter_mut().for_each(|trigger| rename_in_trigger(trigger, &old, new));
    Ok(())
}

/// Whether a trigger's events or its condition name a column of its table.
fn is_about(trigger: &Trigger, column: &str) -> bool {
    let is_of_event = |event: &TriggerEvent| match event {
        TriggerEvent::Update(columns) => columns.iter().any(|own| own == column),
        _ => false,
    };
    let visit = |part: &Expr| match part {
        Expr::CompoundIdentifier(names) => match names.as_slice() {
            [row, name] if is_changed_row(row) && lower(name) == column => std::ops::ControlFlow::Break(()),
            _ => std::ops::ControlFlow::Continue(()),
        },
        _ => std::ops::ControlFlow::Continue(()),
    };
    let is_asked = || match trigger.when.as_deref().map(parse::expression) {
        Some(Ok(when)) => each_expression(&when, visit).is_break(),
        _ => false,
    };
    trigger.events.iter().any(is_of_event) || is_asked()
}

/// Whether a name is that of a row within a trigger.
fn is_changed_row(name: &Ident) -> bool {
    ["new", "old"].contains(&lower(name).as_str())
}

/// Has a trigger's events and its condition name a column of its table otherwise. A condition that names rows as a
/// whole stays as it is written.
fn rename_in_trigger(trigger: &mut Trigger, old: &str, new: &str) {
    for event in &mut trigger.events {
        if let TriggerEvent::Update(columns) = event {
            columns.iter_mut().filter(|column| *column == old).for_each(|column| new.clone_into(column));
        }
    }
    let Some(Ok(mut condition)) = trigger.when.as_deref().map(parse::expression) else { return };
    let mut is_changed = false;
    let _ = each_expression_mut(&mut condition, |part| {
        if let Expr::CompoundIdentifier(names) = part
            && let [row, name] = names.as_mut_slice()
            && is_changed_row(row)
            && lower(name) == old
        {
            *name = bare_where_it_can_be(new);
            is_changed = true;
        }
        std::ops::ControlFlow::Continue(())
    });
    if is_changed {
        trigger.when = Some(condition.to_string());
    }
}

/// A name, in quotes only where it must be.
fn bare_where_it_can_be(name: &str) -> Ident {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_keyword = || ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_ok();
    if is_plain && !is_keyword() { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// The collation in the USING of ALTER COLUMN, and the expression that a statement wrote there.
pub(super) fn collated_type(using: Option<&Expr>) -> (Option<&ast::ObjectName>, Option<&Expr>) {
    let Some(Expr::Function(call)) = using else { return (None, using) };
    let ast::FunctionArguments::List(list) = &call.args else { return (None, using) };
    let name = call.name.0.last().and_then(|part| part.as_ident());
    if name.is_none_or(|name| name.value != COLLATED_TYPE) {
        return (None, using);
    }
    pub(super) fn expression(argument: Option<&ast::FunctionArg>) -> Option<&Expr> {
        match argument {
            Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expression))) => Some(expression),
            _ => None,
        }
    }
    match expression(list.args.first()) {
        Some(Expr::Collate { collation, .. }) => (Some(collation), expression(list.args.get(1))),
        _ => (None, using),
    }
}
