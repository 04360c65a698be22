//! CREATE DOMAIN and ALTER DOMAIN. DROP DOMAIN is DROP TYPE.
//!
//! The parser's tree has a table with one column ([`DOMAIN`]). What a domain demands anew is asked of the columns that
//! have it while the statement is planned.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::Topic;
use diligence_catalog::rules::Check;
use diligence_catalog::{DomainDefinition, Object, RelationName, free_name};
use diligence_types::SqlType;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnOption, Expr, Ident, ObjectName, RenameTableNameKind,
    TableConstraint,
};

use super::around::Around;
use super::definitions::lower;
use super::enums::no_type;
use crate::binder;
use crate::parse::{CONSTRAINT, DOMAIN};
use crate::quoting::quoted;
use crate::statement::{Command, Statement};

/// The domain that a table's name stands for.
pub(super) fn domain_name(name: &ObjectName) -> Option<ObjectName> {
    let (last, parts) = name.0.split_last()?;
    (last.as_ident()?.value == DOMAIN).then(|| ObjectName(parts.to_vec()))
}

impl Around<'_> {
    /// CREATE DOMAIN. Fails with 42710 if there is a type of the name, 42601 if a clause comes twice.
    pub(super) fn create_domain(&self, name: &ObjectName, create: &ast::CreateTable) -> Result<Statement> {
        let name = self.new_type(name)?;
        let [column] = create.columns.as_slice() else {
            return Err(Error::input("a domain has one type").with_code("42601"));
        };
        let base = self.collated_column(binder::named_type(&column.data_type, self)?, &column.options)?;
        if matches!(base.base().innermost(), SqlType::Record(_) | SqlType::Map(_) | SqlType::Void) {
            let message = format!("\"{base}\" is not a valid base type for a domain");
            return Err(Error::input(message).with_code("42804"));
        }
        let array = self.planner.catalogs().catalog().new_id();
        let mut definition = DomainDefinition { base, default: None, is_not_null: false, checks: vec![], array };
        let mut nullability = None;
        for option in &column.options {
            match &option.option {
                ColumnOption::Default(_) if definition.default.is_some() => {
                    return Err(Error::input("multiple default expressions").with_code("42601"));
                }
                ColumnOption::Default(value) => {
                    binder::bind_default(value, &name.name, definition.base.base(), self)?;
                    definition.default = Some(self.with_whole_names(value));
                }
                ColumnOption::NotNull | ColumnOption::Null => {
                    let is_not_null = matches!(option.option, ColumnOption::NotNull);
                    if nullability.is_some_and(|known| known != is_not_null) {
                        return Err(Error::input("conflicting NULL/NOT NULL constraints").with_code("42601"));
                    }
                    nullability = Some(is_not_null);
                    definition.is_not_null = is_not_null;
                }
                ColumnOption::Check(check) => {
                    let given = option.name.as_ref().or(check.name.as_ref());
                    self.add_domain_check(&mut definition, &name, given, &check.expr)?;
                }
                ColumnOption::Unique(_) => return Err(not_possible("unique constraints")),
                ColumnOption::PrimaryKey(_) => return Err(not_possible("primary key constraints")),
                ColumnOption::ForeignKey(_) => return Err(not_possible("foreign key constraints")),
                ColumnOption::Collation(_) => {}
                other => {
                    return Err(Error::input(format!("a domain has no clause {other}")).with_code("42601"));
                }
            }
        }
        Ok(Statement::Command(Command::CreateDomain { name, definition: Arc::new(definition) }))
    }

    /// Adds a condition. Fails with 42710 if its name is taken, and as it is bound.
    fn add_domain_check(
        &self,
        definition: &mut DomainDefinition,
        domain: &RelationName,
        given: Option<&Ident>,
        condition: &Expr,
    ) -> Result<()> {
        let is_taken = |name: &str| definition.checks.iter().any(|check| check.name == name);
        let name = match given.map(lower) {
            None => free_name(&format!("{}_check", domain.name), is_taken),
            Some(name) if is_taken(&name) => {
                let message = format!("constraint \"{name}\" for domain \"{}\" already exists", domain.name);
                return Err(Error::input(message).with_code("42710"));
            }
            Some(name) => name,
        };
        binder::bind_domain_check(condition, &definition.base, self)?;
        definition.checks.push(Check { name, condition: self.with_whole_names(condition) });
        // They are looked at in the order of their names.
        definition.checks.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(())
    }

    /// ALTER DOMAIN. Fails with 42704 if there is none of the name or no such constraint, 42809 if it is another type,
    /// 23502 or 23514 if a column has a value that the domain would not take.
    pub(super) fn alter_domain(&self, name: &ObjectName, alter: &ast::AlterTable) -> Result<Statement> {
        const TAG: &str = "ALTER DOMAIN";
        let object = self.type_object(name)?.ok_or_else(|| no_type(name))?;
        let Some((domain, definition)) = object.domain() else {
            return Err(Error::input(format!("{name} is not a domain")).with_code("42809"));
        };
        self.at.snapshot.rights.check_owner(&object.name)?;
        let (mut definition, mut name) = (definition.as_ref().clone(), object.name.clone());
        let constraint = |name: &str| Topic::Constraint(object.id, name.to_owned());
        let mut also = Vec::new();
        let [operation] = alter.operations.as_slice() else {
            return Err(Error::input("ALTER DOMAIN has one action").with_code("42601"));
        };
        let shown = &object.name.name;
        let missing = |constraint: &str| {
            let message = format!("constraint \"{constraint}\" of domain \"{shown}\" does not exist");
            Error::input(message).with_code("42704")
        };
        match operation {
            AlterTableOperation::AlterColumn { op, .. } => match op {
                AlterColumnOperation::SetDefault { value } => {
                    binder::bind_default(value, &object.name.name, definition.base.base(), self)?;
                    definition.default = Some(self.with_whole_names(value));
                }
                AlterColumnOperation::DropDefault => definition.default = None,
                AlterColumnOperation::SetNotNull => {
                    definition.is_not_null = true;
                    self.refuse_domain_values(&object, "VALUE IS NOT NULL", |table, column| {
                        let message = format!("column \"{column}\" of table \"{table}\" contains null values");
                        Error::value(message).with_code("23502")
                    })?;
                }
                AlterColumnOperation::DropNotNull => definition.is_not_null = false,
                other => return Err(unsupported(other)),
            },
            AlterTableOperation::AddConstraint { constraint: TableConstraint::Check(check), not_valid } => {
                self.add_domain_check(&mut definition, &object.name, check.name.as_ref(), &check.expr)?;
                if !not_valid {
                    self.refuse_domain_check(&object, &check.expr)?;
                }
            }
            AlterTableOperation::ValidateConstraint { name } => {
                let name = lower(name);
                let check = definition.checks.iter().find(|check| check.name == name);
                self.refuse_domain_check(&object, &check.ok_or_else(|| missing(&name))?.condition)?;
            }
            AlterTableOperation::DropConstraint { if_exists, name, .. } => {
                let name = lower(name);
                let count = definition.checks.len();
                definition.checks.retain(|check| check.name != name);
                if count == definition.checks.len() {
                    return if *if_exists {
                        Ok(Statement::Command(Command::Nothing(TAG)))
                    } else {
                        Err(missing(&name))
                    };
                }
                also.extend(self.forgotten(constraint(&name)));
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let old = old_column_name.value.strip_prefix(CONSTRAINT).ok_or_else(|| unsupported(operation))?;
                let new = lower(new_column_name);
                if definition.checks.iter().any(|check| check.name == new) {
                    let message = format!("constraint \"{new}\" for domain {domain} already exists");
                    return Err(Error::input(message).with_code("42710"));
                }
                let check = definition.checks.iter_mut().find(|check| check.name == old);
                check.ok_or_else(|| missing(old))?.name.clone_from(&new);
                also = self.comment_along(constraint(old), constraint(&new));
                definition.checks.sort_by(|left, right| left.name.cmp(&right.name));
            }
            AlterTableOperation::RenameTable { table_name } => {
                let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
                let to = to.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default();
                name = RelationName::new(&object.name.schema, to);
                if self.at.snapshot.catalog.get(&name).is_some() {
                    let message = format!("type \"{}\" already exists", name.name);
                    return Err(Error::input(message).with_code("42710"));
                }
            }
            AlterTableOperation::OwnerTo { .. } => return Ok(Statement::Command(Command::Nothing(TAG))),
            other => return Err(unsupported(other)),
        }
        let memory = self.planner.options.tables.clone();
        let definition = Arc::new(definition);
        let change = Command::ChangeDomain { object: object.reference(), definition, name, memory };
        Ok(Statement::Command(match also.is_empty() {
            true => change,
            false => Command::All { commands: std::iter::once(change).chain(also).collect(), tag: TAG },
        }))
    }

    /// Fails with 23514 if a column of the domain has a value for which a condition is false.
    fn refuse_domain_check(&self, object: &Object, condition: &Expr) -> Result<()> {
        self.refuse_domain_values(object, &condition.to_string(), |table, column| {
            let message =
                format!("column \"{column}\" of table \"{table}\" contains values that violate the new constraint");
            Error::value(message).with_code("23514")
        })
    }

    /// Fails if a column of the domain has a value for which a condition is false.
    fn refuse_domain_values(
        &self,
        object: &Object,
        condition: &str,
        error: impl Fn(&str, &str) -> Error,
    ) -> Result<()> {
        for (table, column) in self.at.snapshot.catalog.columns_of_type(object.oid()) {
            let query = format!(
                "SELECT 'x' FROM (SELECT {} AS value FROM {}.{}) AS rows WHERE NOT ({condition}) LIMIT 1",
                quoted(&column),
                quoted(&table.name.schema),
                quoted(&table.name.name),
            );
            if !binder::Context::texts_of(self, &crate::parse::query(&query)?)?.is_empty() {
                return Err(error(&table.name.name, &column));
            }
        }
        Ok(())
    }
}

fn not_possible(what: &str) -> Error {
    Error::input(format!("{what} not possible for domains")).with_code("42601")
}

fn unsupported(action: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("ALTER DOMAIN … {action} is not supported")).with_code("0A000")
}
