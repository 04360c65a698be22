//! The operations of ALTER TABLE, one by one: what each makes of a table on its way.

use diligence_base::{Error, Result};
use diligence_catalog::authority::Topic;
use diligence_catalog::{Object, Relation};
use diligence_storage::memory::ROW_NUMBERS;
use diligence_types::SqlType;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, DropBehavior, Expr, Ident, SqlOption,
    TableConstraint,
};

use super::super::around::Around;
use super::super::definitions::lower;
use super::super::fragments;
use super::super::sequences;
use super::super::tables::Declaration;
use super::columns::rename_column;
use super::{Altered, From, constraints, no_constraint, renamed};
use crate::binder;
use crate::parse::{ALTER_CONSTRAINT, CONSTRAINT};

impl Around<'_> {
    /// Makes one change. Fails with 0A000 for operations that there are not.
    pub(super) fn operate(
        &self,
        altered: &mut Altered,
        operation: &AlterTableOperation,
        object: &Object,
    ) -> Result<()> {
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                self.add_new_column(altered, column_def, *if_not_exists, object)
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascades = *drop_behavior == Some(DropBehavior::Cascade);
                self.drop_columns(altered, column_names, (*if_exists, cascades), object)
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                match old_column_name.value.strip_prefix(CONSTRAINT) {
                    Some(old) => rename_constraint(altered, old, lower(new_column_name)),
                    None => rename_column(altered, old_column_name, &lower(new_column_name)),
                }
            }
            AlterTableOperation::RenameTable { table_name } => {
                altered.declaration.name = renamed(&object.name, table_name)?;
                self.is_index_name(&altered.declaration.name, false)?;
                altered.also.extend(self.sequences_along(object, &altered.declaration.name));
                self.at.snapshot.rights.check_create(&altered.declaration.name)
            }
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                self.add_new_constraint(altered, constraint, *not_valid, object)
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let cascades = *drop_behavior == Some(DropBehavior::Cascade);
                self.drop_constraint(altered, lower(name), (*if_exists, cascades), object)
            }
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDefault { value: Expr::Function(call) },
            } if sequences::is_alter_identity(call) => self.alter_identity(altered, column_name, call, object),
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::AddGenerated { generated_as, sequence_options },
            } => {
                let options = sequence_options.as_deref().unwrap_or_default();
                self.add_identity(altered, column_name, *generated_as, options, object)
            }
            AlterTableOperation::AlterColumn { column_name, op } => self.alter_column(altered, column_name, op),
            AlterTableOperation::SetOptionsParens { options } => {
                match self.set_distribution(altered, options, object)? {
                    true => Ok(()),
                    false => Err(no_operation(operation)),
                }
            }
            AlterTableOperation::OwnerTo { .. } => Ok(()),
            AlterTableOperation::ValidateConstraint { name } => match name.value.strip_prefix(ALTER_CONSTRAINT) {
                Some(said) => constraints::alter(altered, said, &object.name),
                None => validate_constraint(altered, lower(name), object),
            },
            other => Err(no_operation(other)),
        }
    }

    fn add_new_column(
        &self,
        altered: &mut Altered,
        column: &ColumnDef,
        if_not_exists: bool,
        object: &Object,
    ) -> Result<()> {
        let name = lower(&column.name);
        if altered.declaration.has_column(&name) {
            let table = &altered.declaration.name.name;
            let what = format!("column \"{name}\" of relation \"{table}\"");
            if if_not_exists {
                self.tell_existing(&what, "42701");
                return Ok(());
            }
            return Err(Error::input(format!("{what} already exists")).with_code("42701"));
        }
        self.add_column(&mut altered.declaration, column)?;
        self.add_column_constraints(&mut altered.declaration, column)?;
        altered.refer_to(object);
        let value = self.new_value(&altered.declaration, &name, object)?;
        altered.from.push(value);
        let is_check = |option: &ast::ColumnOptionDef| matches!(option.option, ColumnOption::Check(_));
        let count = column.options.iter().filter(|option| is_check(option)).count();
        let checks = altered.declaration.rules.checks.iter().rev().take(count);
        altered.new_checks.extend(checks.map(|check| check.name.clone()));
        Ok(())
    }

    /// What rows that are there already get in a column that is new.
    fn new_value(&self, declaration: &Declaration, column: &str, object: &Object) -> Result<From> {
        if declaration.sequences.iter().any(|sequence| sequence.column == column) {
            let number = format!("row_number() OVER (ORDER BY \"{ROW_NUMBERS}\" ASC)");
            return Ok(From::Value(crate::parse::expression(&number)?));
        }
        let rules = &declaration.rules;
        match rules.generated.get(column).or_else(|| rules.defaults.get(column)) {
            Some(value) => Ok(From::Value(value.as_ref().clone())),
            None => self.new_domain_value(declaration, object),
        }
    }

    /// What rows get that are there already: of a domain its default, and what it demands is looked at.
    fn new_domain_value(&self, declaration: &Declaration, object: &Object) -> Result<From> {
        let has_rows = matches!(&object.relation, Relation::Native(table) if !table.pieces().is_empty());
        let mut sql_type = declaration.fields.last().and_then(|field| SqlType::of_field(field)).filter(|_| has_rows);
        let mut value = From::Null;
        while let Some(SqlType::Domain(domain)) = sql_type {
            let definition = binder::Context::domain(self, &domain)?;
            if let Some(default) = &definition.default {
                return Ok(From::Value(default.as_ref().clone()));
            }
            value = From::Value(Expr::Value(ast::Value::Null.into()));
            sql_type = Some(domain.base.clone());
        }
        Ok(value)
    }

    fn drop_columns(
        &self,
        altered: &mut Altered,
        names: &[Ident],
        (if_exists, cascades): (bool, bool),
        object: &Object,
    ) -> Result<()> {
        for name in names {
            if if_exists && !altered.declaration.has_column(&lower(name)) {
                let table = &altered.declaration.name.name;
                self.tell_missing(&format!("column \"{}\" of relation \"{table}\"", lower(name)));
                continue;
            }
            altered.cascades |= cascades;
            if cascades {
                let keys = altered.declaration.rules.keys.iter().filter(|key| key.uses(&lower(name)));
                for key in keys.cloned().collect::<Vec<_>>() {
                    self.drop_referring(altered, &key, true, object)?;
                }
            }
            self.drop_column(altered, name, cascades)?;
        }
        Ok(())
    }

    fn add_new_constraint(
        &self,
        altered: &mut Altered,
        constraint: &TableConstraint,
        not_valid: bool,
        object: &Object,
    ) -> Result<()> {
        let kind = match constraint {
            TableConstraint::Unique(_) => Some("UNIQUE"),
            TableConstraint::PrimaryKey(_) => Some("PRIMARY KEY"),
            _ => None,
        };
        if let (true, Some(kind)) = (not_valid, kind) {
            let message = format!("{kind} constraints cannot be marked NOT VALID");
            return Err(Error::unsupported(message).with_code("0A000"));
        }
        self.add_constraint(&mut altered.declaration, constraint)?;
        altered.refer_to(object);
        let rules = &mut altered.declaration.rules;
        let is_check = matches!(constraint, TableConstraint::Check(_));
        let last = match is_check {
            true => rules.checks.last().map(|check| check.name.clone()),
            false => rules.references.last().map(|reference| reference.name.clone()),
        };
        match (not_valid, is_check) {
            (true, _) => rules.unproven.extend(last),
            (false, true) => altered.new_checks.extend(last),
            (false, false) => {}
        }
        Ok(())
    }

    fn drop_constraint(
        &self,
        altered: &mut Altered,
        name: String,
        (if_exists, cascades): (bool, bool),
        object: &Object,
    ) -> Result<()> {
        altered.also.extend(self.forgotten(Topic::Constraint(object.id, name.clone())));
        altered.also.extend(self.forgotten(Topic::Index(object.id, name.clone())));
        let dropped = altered.declaration.rules.keys.iter().find(|key| key.name == name).cloned();
        if let Some(key) = dropped.filter(|key| key.kind.is_constraint()) {
            self.drop_referring(altered, &key, cascades, object)?;
        }
        let rules = &mut altered.declaration.rules;
        if !rules.has_name(&name) {
            if !if_exists {
                return Err(no_constraint(&name, &object.name));
            }
            self.tell_missing(&format!("constraint \"{name}\" of relation \"{}\"", object.name.name));
            return Ok(());
        }
        rules.checks.retain(|check| check.name != name);
        rules.references.retain(|reference| reference.name != name);
        rules.keys.retain(|key| key.name != name || !key.kind.is_constraint());
        altered.new_checks.retain(|check| *check != name);
        Ok(())
    }

    /// How the rows are divided and ordered from now on. `false` if the options say nothing of that.
    fn set_distribution(&self, altered: &mut Altered, options: &[SqlOption], object: &Object) -> Result<bool> {
        let Some(distribution) = self.distribution(options, &altered.declaration)? else { return Ok(false) };
        let Relation::Native(table) = &object.relation else { return Err(Error::bug("a table is none")) };
        let is_same = |column: &String| {
            let place = altered.declaration.fields.iter().position(|field| field.name() == column);
            let from = place.and_then(|place| altered.from.get(place));
            matches!(from, Some(From::Column(place)) if table.schema().field(*place).name() == column)
        };
        let distribution = match distribution.strategy.columns().iter().all(is_same) {
            true => fragments::with_bounds_of(&distribution, table)?,
            // The writer takes them from the rows as they become.
            false => distribution,
        };
        altered.declaration.rules.distribution = distribution;
        altered.is_recut = true;
        Ok(true)
    }
}

fn no_operation(operation: &AlterTableOperation) -> Error {
    Error::unsupported(format!("ALTER TABLE … {operation} is not supported")).with_code("0A000")
}

fn validate_constraint(altered: &mut Altered, name: String, object: &Object) -> Result<()> {
    let rules = &mut altered.declaration.rules;
    if !rules.has_name(&name) {
        return Err(no_constraint(&name, &object.name));
    }
    // A reference is looked at where it becomes one that is proven.
    if rules.unproven.remove(&name) && rules.checks.iter().any(|check| check.name == name) {
        altered.new_checks.push(name);
    }
    Ok(())
}

/// Gives a constraint another name.
fn rename_constraint(altered: &mut Altered, old: &str, new: String) -> Result<()> {
    if altered.declaration.rules.has_name(&new) {
        let message = format!("constraint \"{new}\" for relation \"{}\" already exists", altered.declaration.name.name);
        return Err(Error::input(message).with_code("42710"));
    }
    let rules = &mut altered.declaration.rules;
    let keys = rules.keys.iter_mut().map(|key| &mut key.name);
    let checks = rules.checks.iter_mut().map(|check| &mut check.name);
    let references = rules.references.iter_mut().map(|reference| &mut reference.name);
    let found = keys.chain(checks).chain(references).find(|name| *name == old);
    found.ok_or_else(|| no_constraint(old, &altered.declaration.name))?.clone_from(&new);
    altered.renamed.push((old.to_owned(), new.clone()));
    if rules.unproven.remove(old) {
        rules.unproven.insert(new);
    }
    Ok(())
}
