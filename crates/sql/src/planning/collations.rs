//! CREATE COLLATION, DROP COLLATION, and what a collation's name means.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use diligence_base::{Error, Result};
use diligence_catalog::rules::{Key, TableRules};
use diligence_catalog::{Object, POSTGRES_SCHEMA, Relation, RelationName};
use diligence_types::SqlType;
use diligence_types::collation::{Collation, TextOrder};
use diligence_types::enum_type::EnumType;
use sqlparser::ast::{
    AlterCollation, AlterCollationOperation, ColumnOption, ColumnOptionDef, CreateCollation, CreateCollationDefinition,
    Expr, ObjectName, SqlOption, Value, Visit,
};

use super::around::Around;
use super::definitions::lower;
use crate::algebra::Column;
use crate::binder;
use crate::parse::parts_of;
use crate::statement::{Command, Statement};
use crate::walking::each_expression;

impl Around<'_> {
    /// The collation of a name: PostgreSQL's own before those of the path. Fails with 42704 if there is none, 3F000 if
    /// there is no such schema.
    pub(super) fn collation(&self, name: &ObjectName) -> Result<Collation> {
        // A point may be a part of DuckDB's names.
        if name.0.len() > 1
            && let Some(collation) = Collation::of_duckdb(&parts_of(name).unwrap_or_default().join("."))
        {
            return Ok(collation);
        }
        let object = match self.found_collation(name)? {
            Found::Predefined(collation) => return Ok(collation),
            Found::Made(object) => object,
            Found::None(shown) => return Collation::of_duckdb(&shown).ok_or_else(|| binder::no_collation(&shown)),
        };
        self.names.uses_object(&object.name, &object);
        object.collation().ok_or_else(|| Error::bug("a collation is none"))
    }

    fn found_collation(&self, name: &ObjectName) -> Result<Found> {
        let parts = parts_of(name).unwrap_or_default();
        let shown = parts.join(".");
        let (schema, last) = match parts.as_slice() {
            [last] => (None, last),
            [.., schema, last] => (Some(schema), last),
            [] => return Ok(Found::None(shown)),
        };
        if schema.is_none_or(|schema| schema == POSTGRES_SCHEMA)
            && let Some(collation) = Collation::predefined(last)
        {
            return Ok(Found::Predefined(collation));
        }
        let catalog = &self.at.snapshot.catalog;
        if let Some(schema) = schema
            && schema != POSTGRES_SCHEMA
            && !catalog.schemas().any(|(known, _)| known == schema)
        {
            return Err(Error::input(format!("schema \"{schema}\" does not exist")).with_code("3F000"));
        }
        let schemas = schema.map_or_else(|| self.schemas(), |schema| vec![schema.clone()]);
        let mut names = schemas.iter().map(|schema| RelationName::of_collation(schema, last));
        Ok(names.find_map(|name| catalog.get(&name)).map_or(Found::None(shown), |object| Found::Made(object.clone())))
    }

    /// A column's type with the collation that its definition says. Fails with 42704 for an unknown one, 42804 for a
    /// type that has none.
    pub(super) fn collated_column(&self, sql_type: SqlType, options: &[ColumnOptionDef]) -> Result<SqlType> {
        let mut collations = options.iter().filter_map(|option| match &option.option {
            ColumnOption::Collation(name) => Some(name),
            _ => None,
        });
        match (collations.next(), collations.next()) {
            (None, _) => Ok(sql_type),
            (Some(name), None) => self.with_collation_named(sql_type, name),
            (Some(_), Some(_)) => Err(Error::input("multiple COLLATE clauses not allowed").with_code("42601")),
        }
    }

    /// A type with the collation of a name. Fails as [`collated_column`](Self::collated_column) does.
    pub(super) fn with_collation_named(&self, sql_type: SqlType, name: &ObjectName) -> Result<SqlType> {
        let collation = self.collation(name)?;
        if !sql_type.base().is_collatable() {
            return Err(binder::not_collatable(&sql_type));
        }
        if let SqlType::Domain(_) = sql_type {
            let message = format!("another collation than that of the domain {sql_type} is not supported for a column");
            return Err(Error::unsupported(message).with_code("0A000"));
        }
        Ok(sql_type.with_collation(Some(&collation).filter(|collation| !collation.is_default())))
    }

    /// CREATE COLLATION. Fails with 42710 if there is one of the name, 42601 for an unknown attribute, 42P17 without a
    /// locale or with another provider, 22023 for a locale that is none.
    pub(super) fn create_collation(&self, create: &CreateCollation) -> Result<Statement> {
        const TAG: &str = "CREATE COLLATION";
        let plain = self.creatable(&create.name, false)?;
        if !EnumType::can_note(&plain.name) || !EnumType::can_note(&plain.schema) {
            return Err(Error::input("a collation has no such name").with_code("42602"));
        }
        let name = RelationName::of_collation(&plain.schema, &plain.name);
        if self.at.snapshot.catalog.get(&name).is_some() {
            if create.if_not_exists {
                self.tell_existing(&format!("collation \"{}\"", plain.name), "42710");
                return Ok(Statement::Command(Command::Nothing(TAG)));
            }
            return Err(Error::input(format!("collation \"{}\" already exists", plain.name)).with_code("42710"));
        }
        let order = match &create.definition {
            CreateCollationDefinition::From(existing) => {
                let existing = self.collation(existing)?;
                if existing.is_default() {
                    let error = Error::input("collation \"default\" cannot be copied").with_code("42P17");
                    return Err(error);
                }
                existing.order
            }
            CreateCollationDefinition::Options(options) => order_of(options)?,
        };
        Ok(Statement::Command(Command::CreateCollation { name, order: Arc::new(order) }))
    }

    /// ALTER COLLATION. Fails with 42704 if there is none of the name, 0A000 for other changes than those of its
    /// version, which stays.
    pub(super) fn alter_collation(&self, alter: &AlterCollation) -> Result<Statement> {
        self.collation(&alter.name)?;
        match &alter.operation {
            AlterCollationOperation::RefreshVersion => Ok(Statement::Command(Command::Nothing("ALTER COLLATION"))),
            other => Err(Error::unsupported(format!("ALTER COLLATION … {other} is not supported")).with_code("0A000")),
        }
    }

    /// DROP COLLATION. Fails with 42704 if there is none of the name, 2BP01 if a column or a domain has it, or a view,
    /// an index, a condition or a default says it; with CASCADE the columns go.
    pub(super) fn drop_collations(&self, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Statement> {
        let mut gone = Vec::new();
        let mut columns: Vec<(Arc<Object>, Vec<String>)> = Vec::new();
        for name in names {
            let object = match self.found_collation(name) {
                Ok(Found::Made(object)) => object,
                Ok(Found::Predefined(collation)) => {
                    let message =
                        format!("cannot drop collation {collation} because it is required by the database system");
                    return Err(Error::input(message).with_code("2BP01"));
                }
                Ok(Found::None(_)) if if_exists => continue,
                Ok(Found::None(shown)) => return Err(binder::no_collation(&shown)),
                Err(error) if if_exists && error.code() == Some("3F000") => continue,
                Err(error) => return Err(error),
            };
            self.at.snapshot.rights.check_owner(&object.name)?;
            let collation = object.collation().ok_or_else(|| Error::bug("a collation is none"))?;
            let catalog = &self.at.snapshot.catalog;
            let has = |sql_type: &SqlType| sql_type.base().collation().is_some_and(|other| other.oid == collation.oid);
            for (above, domain, definition) in catalog.domains() {
                if has(&definition.base) {
                    return Err(needed(&collation, &format!("type {domain}"), Some(&above.name)));
                }
            }
            for object in catalog.all_objects() {
                match &object.relation {
                    Relation::View(view) => {
                        let has_field = |field: &FieldRef| SqlType::of_field(field).is_some_and(|one| has(&one));
                        if view.schema.fields().iter().any(has_field) || says(view.source.as_ref(), &collation) {
                            return Err(needed(&collation, &format!("view {}", object.name), None));
                        }
                    }
                    Relation::Native(table) => {
                        if let Some(what) = named_in_rules(table.rules(), &collation) {
                            let what = format!("{what} of table {}", object.name);
                            return Err(needed(&collation, &what, None));
                        }
                    }
                    _ => {}
                }
            }
            for (table, column) in catalog.columns_of_type(collation.oid) {
                if !cascade {
                    return Err(needed(&collation, &format!("column {column} of table {}", table.name), None));
                }
                match columns.iter_mut().find(|(known, _)| known.id == table.id) {
                    Some((_, known)) => known.push(column),
                    None => columns.push((table.clone(), vec![column])),
                }
            }
            gone.push(object.name.clone());
        }
        let altered = columns
            .iter()
            .map(|(table, columns)| Ok((table.reference(), table.version, self.without_columns(table, columns)?)))
            .collect::<Result<_>>()?;
        let memory = self.planner.options.tables.clone();
        Ok(Statement::Command(Command::DropTypes { names: gone, altered, memory, tag: "DROP COLLATION" }))
    }
}

/// Columns of a query as those of a table or a view. Fails with 42P22 if one has two collations, told by `message`.
pub(super) fn settle(columns: &mut [Column], message: impl Fn(&Column) -> String) -> Result<()> {
    for column in columns.iter_mut() {
        let Some(collation) = column.sql_type.collation() else { continue };
        if collation.other().is_some() {
            let error = Error::input(message(column)).with_code("42P22");
            return Err(error.with_hint("Use the COLLATE clause to set the collation explicitly."));
        }
        if collation.is_default() {
            column.sql_type = column.sql_type.with_collation(None);
        }
    }
    Ok(())
}

/// Whether an expression or a statement says a collation.
fn says(part: &impl Visit, collation: &Collation) -> bool {
    let is_it = |name: &ObjectName| match parts_of(name).unwrap_or_default().as_slice() {
        [last] => *last == collation.name,
        [.., schema, last] => *last == collation.name && collation.schema.as_ref() == Some(schema),
        [] => false,
    };
    each_expression(part, |expr: &Expr| match expr {
        Expr::Collate { collation, .. } if is_it(collation) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// What says a collation of that which a table is declared with: an index, a condition, a default.
fn named_in_rules(rules: &TableRules, collation: &Collation) -> Option<String> {
    let in_key = |key: &&Key| {
        let computed = key.computed.as_ref();
        let expressions = computed.into_iter().flat_map(|computed| computed.expressions.iter().flatten());
        let condition = computed.and_then(|computed| computed.condition.as_ref());
        expressions.chain(condition).any(|expression| says(expression.as_ref(), collation))
    };
    if let Some(key) = rules.keys.iter().find(in_key) {
        return Some(format!("index {}", key.name));
    }
    if let Some(check) = rules.checks.iter().find(|check| says(check.condition.as_ref(), collation)) {
        return Some(format!("constraint {}", check.name));
    }
    let values = rules.defaults.iter().chain(&rules.generated);
    let mut values = values.filter(|(_, value)| says(value.as_ref(), collation));
    values.next().map(|(column, _)| format!("default value of column {column}"))
}

/// What a collation's name stands for.
enum Found {
    /// One of PostgreSQL's.
    Predefined(Collation),
    /// One that a statement made.
    Made(Arc<Object>),
    /// None; the name as messages show it.
    None(String),
}

/// The error for a collation that something has.
fn needed(collation: &Collation, what: &str, domain: Option<&RelationName>) -> Error {
    let error = Error::input(format!("cannot drop collation {} because other objects depend on it", collation.name));
    let error = error.with_code("2BP01").with_detail(format!("{what} depends on collation {}", collation.name));
    match domain {
        Some(_) => error.with_hint("drop the domain first"),
        None => error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."),
    }
}

/// What CREATE COLLATION's attributes say.
fn order_of(options: &[SqlOption]) -> Result<TextOrder> {
    let (mut provider, mut locale, mut is_deterministic) = ("libc".to_owned(), None, true);
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(Error::input("an attribute of a collation has a value").with_code("42601"));
        };
        match lower(key).as_str() {
            "provider" => provider = text_of(value).to_lowercase(),
            "locale" => locale = Some(text_of(value)),
            // One locale for both, as of our texts.
            "lc_collate" => locale = Some(text_of(value)),
            "lc_ctype" | "version" => {}
            "deterministic" => {
                is_deterministic = match text_of(value).to_lowercase().as_str() {
                    "true" | "on" | "1" => true,
                    "false" | "off" | "0" => false,
                    _ => {
                        return Err(Error::input("deterministic requires a Boolean value").with_code("42601"));
                    }
                };
            }
            other => {
                let error = Error::input(format!("collation attribute \"{other}\" not recognized"));
                return Err(error.with_code("42601"));
            }
        }
    }
    let missing = || Error::input("parameter \"locale\" must be specified").with_code("42P17");
    match provider.as_str() {
        "icu" => {
            let order = TextOrder::Icu { locale: locale.ok_or_else(missing)?, is_deterministic };
            // Mistakes are found now.
            Collation { oid: 0, schema: None, name: String::new(), order: order.clone() }.collator()?;
            Ok(order)
        }
        "libc" if !is_deterministic => {
            let message = "nondeterministic collations not supported with this provider";
            Err(Error::unsupported(message).with_code("0A000"))
        }
        "libc" => match locale.ok_or_else(missing)?.as_str() {
            "C" | "POSIX" | "C.utf8" | "C.UTF-8" | "ucs_basic" => Ok(TextOrder::Bytes),
            other => {
                let error = Error::unsupported(format!("the locale \"{other}\" of the C library is not supported"));
                Err(error.with_code("0A000").with_hint("provider = icu has the orders of languages"))
            }
        },
        other => Err(Error::input(format!("unrecognized collation provider: {other}")).with_code("42P17")),
    }
}

/// An attribute's value.
fn text_of(value: &Expr) -> String {
    match value {
        Expr::Identifier(name) => name.value.clone(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}
