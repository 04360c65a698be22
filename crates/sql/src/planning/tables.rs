//! What CREATE TABLE declares: columns with defaults, generated and counting ones, keys, conditions and references.
//!
//! Constraints without names get those that PostgreSQL gives them.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::rules::{
    Check, Deferral, Identity, IndexForm, Key, KeyKind, PartForm, Reference, ReferenceAction, TableRules,
};
use diligence_catalog::sequence::SequenceOptions;
use diligence_catalog::{NativeTable, OwnedSequence, Relation, RelationName, Resolved, free_name};
use diligence_types::SqlType;
use sqlparser::ast::{
    self, ColumnDef, ColumnOption, Expr, GeneratedAs, Ident, NullsDistinctOption, ReferentialAction, TableConstraint,
};

use super::around::Around;
use super::called::called_after;
use super::column_clauses::refuse_conflicts;
use super::column_names::refuse_twice;
use super::definitions::lower;
use crate::binder::{self, Target};
use crate::errors;
use crate::parse::{EQUAL_NULLS, EXCLUDES, INCLUDED, LIKE};
use crate::quoting::quoted;
use crate::walking::each_expression;

/// A table that is being declared.
pub(super) struct Declaration {
    pub name: RelationName,
    pub fields: Vec<FieldRef>,
    pub rules: TableRules,
    pub sequences: Vec<OwnedSequence>,
}

/// The words for columns that count, with their numbers' bits.
const SERIALS: [(&str, u8); 6] =
    [("serial", 32), ("serial4", 32), ("bigserial", 64), ("serial8", 64), ("smallserial", 16), ("serial2", 16)];

impl Declaration {
    pub(super) fn new(name: RelationName) -> Self {
        Self { name, fields: vec![], rules: TableRules::default(), sequences: vec![] }
    }

    /// A table that is there.
    pub(super) fn of(name: RelationName, table: &NativeTable) -> Self {
        let fields = table.schema().fields().to_vec();
        Self { name, fields, rules: table.rules().clone(), sequences: vec![] }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.clone()))
    }

    /// The columns as what takes values.
    pub(super) fn targets(&self) -> Result<Vec<Target>> {
        targets(&self.schema(), &self.rules)
    }

    pub(super) fn has_column(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name() == name)
    }

    pub(super) fn set_nullable(&mut self, column: &str, nullable: bool) {
        for field in self.fields.iter_mut().filter(|field| field.name() == column) {
            *field = Arc::new(field.as_ref().clone().with_nullable(nullable));
        }
    }

    pub(super) fn free_name(&self, given: Option<&Ident>, wanted: String) -> Result<String> {
        match given.map(lower) {
            None => Ok(free_name(&wanted, |name| self.rules.has_name(name))),
            Some(name) if self.rules.has_name(&name) => {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", self.name.name);
                Err(Error::input(message).with_code("42710"))
            }
            Some(name) => Ok(name),
        }
    }

    /// Adds a key. Fails with 42703 if it names a column that is not there, 42P16 if it is a second primary key.
    pub(super) fn add_key(
        &mut self,
        given: Option<&Ident>,
        columns: Vec<String>,
        kind: KeyKind,
        nulls_are_equal: bool,
        deferral: Deferral,
    ) -> Result<()> {
        let (table, joined) = (&self.name.name, columns.join("_"));
        if let Some(column) = columns.iter().find(|column| !self.has_column(column)) {
            let error = Error::input(format!("column \"{column}\" named in key does not exist")).with_code("42703");
            let known = self.fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            return Err(errors::suggest(error, column, &known));
        }
        let kind_of = |column: &String| {
            let field = self.fields.iter().find(|field| field.name() == column);
            field.and_then(|field| SqlType::of_field(field))
        };
        if let Some(column) = columns.iter().find(|column| kind_of(column) == Some(SqlType::Json)) {
            let error = Error::input(format!("column \"{column}\" is of type json, whose values are not compared"));
            return Err(error.with_code("42704").with_hint("jsonb values are compared"));
        }
        let mut met = HashSet::new();
        if let Some(column) = columns.iter().find(|column| !met.insert(*column)) {
            let error = Error::input(format!("column \"{column}\" appears twice in a key"));
            return Err(error.with_code("42701"));
        }
        let wanted = match kind {
            KeyKind::Primary => {
                if self.rules.primary_key().is_some() {
                    let message = format!("multiple primary keys for table \"{table}\" are not allowed");
                    return Err(Error::input(message).with_code("42P16"));
                }
                format!("{table}_pkey")
            }
            KeyKind::Unique => format!("{table}_{joined}_key"),
            KeyKind::UniqueIndex | KeyKind::Index => format!("{table}_{joined}_idx"),
            KeyKind::Exclusion => format!("{table}_{joined}_excl"),
        };
        let name = self.free_name(given, wanted)?;
        if kind == KeyKind::Primary {
            columns.iter().for_each(|column| self.set_nullable(column, false));
        }
        self.rules.keys.push(Key { deferral, ..Key::of_columns(name, columns, kind, nulls_are_equal) });
        Ok(())
    }

    /// Gives the last key columns of INCLUDE. Fails with 42703 if one is not there.
    fn include(&mut self, included: Vec<String>) -> Result<()> {
        if let Some(column) = included.iter().find(|column| !self.has_column(column)) {
            let error = Error::input(format!("column \"{column}\" named in key does not exist")).with_code("42703");
            let known = self.fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            return Err(errors::suggest(error, column, &known));
        }
        if let Some(key) = self.rules.keys.last_mut().filter(|_| !included.is_empty()) {
            key.form = Some(IndexForm { included, ..IndexForm::default() });
        }
        Ok(())
    }

    /// Adds an index that is computed, called after these names. Fails with code 42710 if the name is taken.
    pub(super) fn add_index(&mut self, given: Option<&Ident>, called: &[String], key: Key) -> Result<()> {
        let name = self.free_name(given, format!("{}_{}_idx", self.name.name, called.join("_")))?;
        self.rules.keys.push(Key { name, ..key });
        Ok(())
    }
}

/// A table's columns as what takes values.
pub(super) fn targets(schema: &Schema, rules: &TableRules) -> Result<Vec<Target>> {
    let target = |field: &FieldRef| {
        let sql_type = SqlType::of_field(field)
            .ok_or_else(|| Error::unsupported(format!("the column '{}' cannot be written to", field.name())))?;
        Ok(Target {
            default: rules.defaults.get(field.name()).cloned(),
            generated: rules.generated.get(field.name()).cloned(),
            is_always: rules.identities.get(field.name()) == Some(&Identity::Always),
            counts: rules.identities.contains_key(field.name()),
            ..Target::new(field.name(), sql_type)
        })
    };
    schema.fields().iter().map(target).collect()
}

/// The column that a name means: without quotes, one with capitals too, if it is the only one.
pub(super) fn name_in(name: &Ident, targets: &[Target]) -> String {
    if name.quote_style.is_some() {
        return name.value.clone();
    }
    let lower = name.value.to_lowercase();
    let mut alike = targets.iter().filter(|target| target.name.to_lowercase() == lower);
    match (targets.iter().any(|target| target.name == lower), alike.next(), alike.next()) {
        (false, Some(only), None) => only.name.clone(),
        _ => lower,
    }
}

impl Around<'_> {
    /// What a CREATE TABLE declares.
    pub(super) fn declaration(&self, name: &RelationName, create: &ast::CreateTable) -> Result<Declaration> {
        let mut declaration = Declaration::new(name.clone());
        if let Some(like) = &create.like {
            let (ast::CreateTableLikeKind::Parenthesized(like) | ast::CreateTableLikeKind::Plain(like)) = like;
            self.add_like(&mut declaration, &like.name, &[])?;
        }
        for column in &create.columns {
            match like_of(column) {
                Some((other, included)) => self.add_like(&mut declaration, other, included)?,
                None => self.add_column(&mut declaration, column)?,
            }
        }
        refuse_twice(declaration.fields.iter().map(|field| field.name().as_str()))?;
        for column in create.columns.iter().filter(|column| column.data_type == ast::DataType::Unspecified) {
            self.decide_generated(&mut declaration, &lower(&column.name))?;
        }
        for column in create.columns.iter().filter(|column| like_of(column).is_none()) {
            self.add_column_constraints(&mut declaration, column)?;
        }
        for constraint in &create.constraints {
            self.add_constraint(&mut declaration, constraint)?;
        }
        self.validate(&declaration)?;
        Ok(declaration)
    }

    /// Gives a generated column that says no type the one of its expression. Fails as binding that does.
    fn decide_generated(&self, declaration: &mut Declaration, name: &str) -> Result<()> {
        let Some(expression) = declaration.rules.generated.get(name).cloned() else { return Ok(()) };
        let targets = declaration.targets()?;
        self.refuse_generated(&expression, &targets)?;
        let sql_type = binder::type_of_rule(&expression, &declaration.name.name, &targets, self)?;
        for field in declaration.fields.iter_mut().filter(|field| field.name() == name) {
            *field = Arc::new(sql_type.field(name, true));
        }
        Ok(())
    }

    /// Columns like those of another relation: names, types and NOT NULL, and what of its rules is asked for.
    fn add_like(&self, declaration: &mut Declaration, like: &ast::ObjectName, included: &[String]) -> Result<()> {
        let has = |option: &str| included.iter().any(|known| known == option);
        let name = self.relation_name(like)?;
        let found = self.at.snapshot.readable(&name)?.ok_or_else(|| self.unknown(&name))?;
        for field in found.schema()?.fields() {
            let sql_type = SqlType::of_field(field).unwrap_or(SqlType::Text);
            declaration.fields.push(Arc::new(sql_type.field(field.name(), field.is_nullable())));
        }
        let Resolved::Object(object) = &found else { return Ok(()) };
        let Relation::Native(table) = &object.relation else { return Ok(()) };
        let rules = table.rules();
        if has("DEFAULTS") {
            let of_values = rules.defaults.iter().filter(|(column, _)| !rules.identities.contains_key(*column));
            declaration.rules.defaults.extend(of_values.map(|(column, default)| (column.clone(), default.clone())));
        }
        if has("GENERATED") {
            let generated = rules.generated.iter().map(|(column, value)| (column.clone(), value.clone()));
            declaration.rules.generated.extend(generated);
        }
        if has("CONSTRAINTS") {
            if let Some(check) = rules.checks.iter().find(|check| declaration.rules.has_name(&check.name)) {
                let message = format!("check constraint \"{}\" already exists", check.name);
                return Err(Error::input(message).with_code("42710"));
            }
            declaration.rules.checks.extend(rules.checks.iter().cloned());
        }
        if has("COMMENTS") {
            let comments = rules.comments.iter().map(|(column, comment)| (column.clone(), comment.clone()));
            declaration.rules.comments.extend(comments);
        }
        for (column, identity) in rules.identities.iter().filter(|_| has("IDENTITY")) {
            let field = declaration.fields.iter().find(|field| field.name() == column);
            let bits = match field.and_then(|field| SqlType::of_field(field)) {
                Some(SqlType::SmallInt) => 16,
                Some(SqlType::Integer) => 32,
                _ => 64,
            };
            declaration.rules.identities.insert(column.clone(), *identity);
            self.add_sequence(declaration, column, SequenceOptions::of_bits(bits, 1));
        }
        for key in rules.keys.iter().filter(|_| has("INDEXES")) {
            let (table, columns) = (&declaration.name.name, called_after(key).join("_"));
            let wanted = match key.kind {
                KeyKind::Primary if declaration.rules.primary_key().is_some() => {
                    let message = format!("multiple primary keys for table \"{table}\" are not allowed");
                    return Err(Error::input(message).with_code("42P16"));
                }
                KeyKind::Primary => format!("{table}_pkey"),
                KeyKind::Unique => format!("{table}_{columns}_key"),
                KeyKind::UniqueIndex | KeyKind::Index => format!("{table}_{columns}_idx"),
                KeyKind::Exclusion => format!("{table}_{columns}_excl"),
            };
            let name = declaration.free_name(None, wanted)?;
            declaration.rules.keys.push(Key { name, ..key.clone() });
        }
        Ok(())
    }

    /// A column's type, default and how it counts.
    pub(super) fn add_column(&self, declaration: &mut Declaration, column: &ColumnDef) -> Result<()> {
        let name = lower(&column.name);
        refuse_conflicts(&declaration.name.name, column, serial_bits(&column.data_type).is_some())?;
        if let Some(bits) = serial_bits(&column.data_type) {
            let sql_type = integer_of(bits);
            declaration.fields.push(Arc::new(sql_type.field(&name, false)));
            self.add_sequence(declaration, &name, SequenceOptions::of_bits(bits, 1));
        } else {
            let sql_type = match &column.data_type {
                // That of a generated column's expression, once all columns are there.
                ast::DataType::Unspecified => SqlType::Text,
                given => binder::named_type(given, self)?,
            };
            let sql_type = self.collated_column(sql_type, &column.options)?;
            declaration.fields.push(Arc::new(sql_type.field(&name, true)));
        }
        for option in &column.options {
            match &option.option {
                ColumnOption::Default(default) => {
                    declaration.rules.defaults.insert(name.clone(), self.with_whole_names(default));
                }
                ColumnOption::Generated { generation_expr: Some(expression), .. } => {
                    declaration.rules.generated.insert(name.clone(), self.kept_rule(expression, &declaration.name));
                }
                ColumnOption::Generated { generated_as, sequence_options, .. } => {
                    let sql_type = declaration.fields.last().and_then(|field| SqlType::of_field(field));
                    let bits = match sql_type {
                        Some(SqlType::SmallInt) => 16,
                        Some(SqlType::Integer) => 32,
                        Some(SqlType::BigInt) => 64,
                        _ => {
                            let error = Error::input("identity column type must be smallint, integer, or bigint");
                            return Err(error.with_code("22023"));
                        }
                    };
                    let always = *generated_as == GeneratedAs::Always;
                    let identity = if always { Identity::Always } else { Identity::ByDefault };
                    declaration.rules.identities.insert(name.clone(), identity);
                    declaration.set_nullable(&name, false);
                    let options = sequence_options.as_deref().unwrap_or_default();
                    self.add_sequence(declaration, &name, sequence_options_of(options, bits)?);
                }
                ColumnOption::Comment(comment) if comment != EQUAL_NULLS => {
                    declaration.rules.comments.insert(name.clone(), comment.clone());
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn add_sequence(&self, declaration: &mut Declaration, column: &str, options: SequenceOptions) {
        let RelationName { schema, name } = &declaration.name;
        let is_taken = |name: &str| {
            let name = RelationName::new(schema, name);
            self.at.snapshot.catalog.get(&name).is_some() || declaration.sequences.iter().any(|one| one.name == name)
        };
        let sequence = RelationName::new(schema, free_name(&format!("{name}_{column}_seq"), is_taken));
        let quoted = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
        let text = ast::Value::SingleQuotedString(quoted);
        let default = crate::parse::expression(&format!("nextval({text})"));
        if let Ok(default) = default {
            declaration.rules.defaults.insert(column.to_owned(), Arc::new(default));
        }
        declaration.sequences.push(OwnedSequence { name: sequence, column: column.to_owned(), options });
    }

    /// What a column's definition says about its values.
    pub(super) fn add_column_constraints(&self, declaration: &mut Declaration, column: &ColumnDef) -> Result<()> {
        let name = lower(&column.name);
        let says_equal = |option: &ColumnOption| matches!(option, ColumnOption::Comment(text) if text == EQUAL_NULLS);
        let has_equal_nulls = column.options.iter().any(|option| says_equal(&option.option));
        for option in &column.options {
            let given = option.name.as_ref();
            match &option.option {
                ColumnOption::Null
                | ColumnOption::Default(_)
                | ColumnOption::Comment(_)
                | ColumnOption::Generated { .. } => {}
                ColumnOption::NotNull => declaration.set_nullable(&name, false),
                ColumnOption::PrimaryKey(key) => {
                    let deferral = deferral(key.characteristics.as_ref())?;
                    declaration.add_key(given, vec![name.clone()], KeyKind::Primary, false, deferral)?;
                }
                ColumnOption::Unique(key) => {
                    let deferral = deferral(key.characteristics.as_ref())?;
                    declaration.add_key(given, vec![name.clone()], KeyKind::Unique, has_equal_nulls, deferral)?;
                }
                ColumnOption::Check(check) => {
                    let wanted = format!("{}_{name}_check", declaration.name.name);
                    let name = declaration.free_name(given.or(check.name.as_ref()), wanted)?;
                    declaration
                        .rules
                        .checks
                        .push(Check { name, condition: self.kept_rule(&check.expr, &declaration.name) });
                }
                ColumnOption::ForeignKey(key) => self.add_reference(declaration, given, vec![name.clone()], key)?,
                // It is in the column's type.
                ColumnOption::Collation(_) => {}
                other => {
                    let error = Error::unsupported(format!("{other} is not supported")).with_code("0A000");
                    return Err(error.with_hint("leave it out"));
                }
            }
        }
        Ok(())
    }

    /// A constraint of a table.
    pub(super) fn add_constraint(&self, declaration: &mut Declaration, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let deferral = deferral(key.characteristics.as_ref())?;
                let columns = key_columns(&key.columns)?;
                declaration.add_key(key.name.as_ref(), columns, KeyKind::Primary, false, deferral)?;
                declaration.include(included(&key.index_options))
            }
            TableConstraint::Unique(key) => {
                if let Some(said) = exclusion(&key.index_options) {
                    return self.add_exclusion(declaration, key, said);
                }
                let equal = key.nulls_distinct == NullsDistinctOption::NotDistinct;
                let deferral = deferral(key.characteristics.as_ref())?;
                let (columns, included) = (key_columns(&key.columns)?, included(&key.index_options));
                let named = match key.name.is_none() && !included.is_empty() {
                    true => {
                        let names = columns.iter().chain(&included).map(String::as_str).collect::<Vec<_>>().join("_");
                        let wanted = format!("{}_{names}_key", declaration.name.name);
                        Some(Ident::with_quote('"', declaration.free_name(None, wanted)?))
                    }
                    false => key.name.clone(),
                };
                declaration.add_key(named.as_ref(), columns, KeyKind::Unique, equal, deferral)?;
                declaration.include(included)
            }
            TableConstraint::Check(check) => {
                let columns = named_columns(&check.expr, declaration);
                let wanted = match columns.as_slice() {
                    [column] => format!("{}_{column}_check", declaration.name.name),
                    _ => format!("{}_check", declaration.name.name),
                };
                let name = declaration.free_name(check.name.as_ref(), wanted)?;
                declaration
                    .rules
                    .checks
                    .push(Check { name, condition: self.kept_rule(&check.expr, &declaration.name) });
                Ok(())
            }
            TableConstraint::ForeignKey(key) => {
                let columns = key.columns.iter().map(lower).collect();
                self.add_reference(declaration, key.name.as_ref(), columns, key)
            }
            TableConstraint::PrimaryKeyUsingIndex(using) => add_index_key(declaration, using, KeyKind::Primary),
            TableConstraint::UniqueUsingIndex(using) => add_index_key(declaration, using, KeyKind::Unique),
            other => Err(Error::unsupported(format!("{other} is not supported")).with_code("0A000")),
        }
    }

    fn add_reference(
        &self,
        declaration: &mut Declaration,
        given: Option<&Ident>,
        columns: Vec<String>,
        key: &ast::ForeignKeyConstraint,
    ) -> Result<()> {
        let deferral = deferral(key.characteristics.as_ref())?;
        let is_full = is_full_match(key.match_kind)?;
        if let Some(column) = columns.iter().find(|column| !declaration.has_column(column)) {
            let message = format!("column \"{column}\" referenced in foreign key constraint does not exist");
            return Err(Error::input(message).with_code("42703"));
        }
        let referred_name = self.granted_in_part(&key.foreign_table, Privilege::References)?;
        let found = self.at.snapshot.catalog.get(&referred_name);
        let (table_id, keys) = match found.map(|object| (object.id, &object.relation)) {
            _ if referred_name == declaration.name => (Reference::ITSELF, declaration.rules.keys.clone()),
            None => return Err(self.unknown(&referred_name)),
            Some((id, Relation::Native(table))) => (id, table.rules().keys.clone()),
            Some((_, other)) => {
                let message = format!("referenced relation \"{}\" is {}", referred_name.name, other.a_kind());
                return Err(Error::input(message).with_code("42809"));
            }
        };
        if declaration.name.is_temporary() != referred_name.is_temporary() {
            let kind = if declaration.name.is_temporary() { "temporary" } else { "permanent" };
            let message = format!("constraints on {kind} tables may reference only {kind} tables");
            return Err(Error::input(message).with_code("42P16"));
        }
        let referred = match key.referred_columns.as_slice() {
            [] => {
                let primary = keys.iter().find(|key| key.kind == KeyKind::Primary).ok_or_else(|| {
                    let name = &referred_name.name;
                    let message = format!("there is no primary key for referenced table \"{name}\"");
                    Error::input(message).with_code("42704")
                })?;
                primary.columns.clone()
            }
            names => names.iter().map(lower).collect(),
        };
        if found.is_some() {
            self.check_columns(&referred_name, referred.iter().map(String::as_str), Privilege::References)?;
        }
        let there = match found.map(|object| &object.relation) {
            Some(Relation::Native(table)) if table_id != Reference::ITSELF => table.schema().clone(),
            _ => declaration.schema(),
        };
        if let Some(column) = referred.iter().find(|column| there.column_with_name(column).is_none()) {
            let message = format!("column \"{column}\" referenced in foreign key constraint does not exist");
            return Err(Error::input(message).with_code("42703"));
        }
        if referred.len() != columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(Error::input(message).with_code("42830"));
        }
        let mismatched = mismatched(&declaration.schema(), &columns, &there, &referred);
        // A key of the same columns in another order is the same key.
        let same = |key: &&Key| {
            key.kind.is_unique()
                && key.is_whole()
                && key.columns.len() == referred.len()
                && key.columns.iter().all(|column| referred.contains(column))
        };
        let Some(there) = keys.iter().find(same) else {
            let name = &referred_name.name;
            let message = format!("there is no unique constraint matching given keys for referenced table \"{name}\"");
            return Err(Error::input(message).with_code("42830"));
        };
        if there.is_deferrable() {
            let name = &referred_name.name;
            let what = if key.referred_columns.is_empty() { "primary key" } else { "unique constraint" };
            let message = format!("cannot use a deferrable {what} for referenced table \"{name}\"");
            return Err(Error::input(message).with_code("55000"));
        }
        let wanted = format!("{}_{}_fkey", declaration.name.name, columns.join("_"));
        if let Some(detail) = mismatched {
            let called = key.name.as_ref().or(given).map_or_else(|| wanted.clone(), lower);
            let message = format!("foreign key constraint \"{called}\" cannot be implemented");
            return Err(Error::input(message).with_code("42804").with_detail(detail));
        }
        let place = |column: &String| referred.iter().position(|one| one == column).unwrap_or(0);
        let columns = there.columns.iter().map(|column| columns[place(column)].clone()).collect::<Vec<_>>();
        let name = declaration.free_name(given.or(key.name.as_ref()), wanted)?;
        let (on_delete, on_update) = (action(key.on_delete)?, action(key.on_update)?);
        let referred = there.columns.clone();
        let table = table_id;
        let set_columns = key.index_name.as_ref().map(|names| signed(&names.value)).unwrap_or_default();
        if let Some(column) = set_columns.iter().find(|column| !columns.contains(column)) {
            let message = format!("column \"{column}\" referenced in ON DELETE SET action must be part of foreign key");
            return Err(Error::input(message).with_code("42P10"));
        }
        if columns.iter().any(|column| declaration.rules.generated.contains_key(column)) {
            refuse_setting(on_delete, on_update)?;
        }
        let reference =
            Reference { name, columns, table, referred, on_delete, on_update, deferral, set_columns, is_full };
        declaration.rules.references.push(reference);
        Ok(())
    }

    /// Fails where an expression of a declaration makes no sense: what is wrong is found now, not by the first INSERT.
    pub(super) fn validate(&self, declaration: &Declaration) -> Result<()> {
        let targets = declaration.targets()?;
        for target in &targets {
            if let Some(default) = &target.default {
                binder::bind_default(default, &target.name, &target.sql_type, self)?;
            }
            if let Some(generated) = &target.generated {
                if target.default.is_some() {
                    let message = format!(
                        "both default and generation expression specified for column \"{}\" of table \"{}\"",
                        target.name, declaration.name.name
                    );
                    return Err(Error::input(message).with_code("42601"));
                }
                self.refuse_generated(generated, &targets)?;
                let plain = targets.iter().filter(|other| other.generated.is_none()).cloned().collect::<Vec<_>>();
                binder::bind_rule(generated, &declaration.name.name, &plain, Some(target), self)?;
            }
        }
        for check in &declaration.rules.checks {
            binder::bind_rule(&check.condition, &declaration.name.name, &targets, None, self)?;
        }
        Ok(())
    }

    /// Fails with 42P17 if a column is generated from another one that is.
    fn refuse_generated(&self, expression: &Expr, targets: &[Target]) -> Result<()> {
        let mut found = None;
        let _ = each_expression(expression, |part| {
            let name = match part {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(names) => names.last(),
                _ => None,
            };
            let name = name.map(lower);
            found = targets.iter().find(|target| target.generated.is_some() && name.as_ref() == Some(&target.name));
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Some(target) = found else { return Ok(()) };
        let message = format!("cannot use generated column \"{}\" in column generation expression", target.name);
        let error = Error::input(message).with_code("42P17");
        Err(error.with_detail("A generated column cannot reference another generated column."))
    }
}

/// The table whose columns a column stands for, and what of its rules is included.
fn like_of(column: &ColumnDef) -> Option<(&ast::ObjectName, &[String])> {
    match &column.data_type {
        ast::DataType::Custom(name, included) if column.name.value == LIKE => Some((name, included.as_slice())),
        _ => None,
    }
}

fn serial_bits(data_type: &ast::DataType) -> Option<u8> {
    let name = data_type.to_string().to_lowercase();
    SERIALS.iter().find(|(known, _)| *known == name).map(|(_, bits)| *bits)
}

fn integer_of(bits: u8) -> SqlType {
    match bits {
        16 => SqlType::SmallInt,
        32 => SqlType::Integer,
        _ => SqlType::BigInt,
    }
}

/// Whether the columns of a reference are all NULL or none. Fails with code 0A000 for a way of matching keys that there
/// is not.
fn is_full_match(kind: Option<ast::ConstraintReferenceMatchKind>) -> Result<bool> {
    match kind {
        Some(ast::ConstraintReferenceMatchKind::Partial) => {
            Err(Error::unsupported("MATCH PARTIAL not yet implemented").with_code("0A000"))
        }
        kind => Ok(kind == Some(ast::ConstraintReferenceMatchKind::Full)),
    }
}

/// When a constraint is held against the rows.
pub(super) fn deferral(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<Deferral> {
    let Some(ast::ConstraintCharacteristics { deferrable, initially, .. }) = characteristics else {
        return Ok(Deferral::Never);
    };
    match (deferrable, initially) {
        (Some(false), Some(ast::DeferrableInitial::Deferred)) => {
            Err(Error::input("constraint declared INITIALLY DEFERRED must be DEFERRABLE").with_code("42601"))
        }
        (_, Some(ast::DeferrableInitial::Deferred)) => Ok(Deferral::Deferred),
        (Some(true), _) => Ok(Deferral::Immediate),
        _ => Ok(Deferral::Never),
    }
}

/// Fails with 42601 if what a reference does would set its columns, which are generated.
fn refuse_setting(on_delete: ReferenceAction, on_update: ReferenceAction) -> Result<()> {
    let sets = |action: ReferenceAction| matches!(action, ReferenceAction::SetNull | ReferenceAction::SetDefault);
    let event = match (sets(on_update) || on_update == ReferenceAction::Cascade, sets(on_delete)) {
        (true, _) => "UPDATE",
        (false, true) => "DELETE",
        (false, false) => return Ok(()),
    };
    let message = format!("invalid ON {event} action for foreign key constraint containing generated column");
    Err(Error::input(message).with_code("42601"))
}

fn action(given: Option<ReferentialAction>) -> Result<ReferenceAction> {
    match given {
        None | Some(ReferentialAction::NoAction) => Ok(ReferenceAction::Refuse),
        Some(ReferentialAction::Restrict) => Ok(ReferenceAction::Restrict),
        Some(ReferentialAction::Cascade) => Ok(ReferenceAction::Cascade),
        Some(ReferentialAction::SetNull) => Ok(ReferenceAction::SetNull),
        Some(ReferentialAction::SetDefault) => Ok(ReferenceAction::SetDefault),
    }
}

/// The columns that a key names.
pub(super) fn key_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    let name = |column: &ast::IndexColumn| match &column.column.expr {
        Expr::Identifier(name) => Ok(lower(name)),
        other => {
            let error = Error::unsupported(format!("a key of the expression {other} is not supported"));
            Err(error.with_code("0A000").with_hint("add a generated column, and a key of it"))
        }
    };
    columns.iter().map(name).collect()
}

/// The columns that a condition names, each once.
fn named_columns(condition: &Expr, declaration: &Declaration) -> Vec<String> {
    let mut names = Vec::new();
    let _ = each_expression(condition, |expression| {
        let name = match expression {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        let name = name.map(lower).filter(|name| declaration.has_column(name) && !names.contains(name));
        names.extend(name);
        std::ops::ControlFlow::Continue(())
    });
    names
}

/// The numbers of a sequence, as statements say them. Fails with code 22023 if they make no sense together.
pub(super) fn sequence_options_of(options: &[ast::SequenceOptions], bits: u8) -> Result<SequenceOptions> {
    let number = |expression: &Expr| {
        let text = expression.to_string().replace(' ', "");
        text.parse::<i64>().map_err(|_| Error::input(format!("{text} is no number of a sequence")).with_code("22023"))
    };
    let increment = options.iter().rev().find_map(|option| match option {
        ast::SequenceOptions::IncrementBy(increment, _) => Some(number(increment)),
        _ => None,
    });
    let mut sequence = SequenceOptions::of_bits(bits, increment.transpose()?.unwrap_or(1));
    let mut start = None;
    for option in options {
        match option {
            ast::SequenceOptions::MinValue(Some(min)) => sequence.min = number(min)?,
            ast::SequenceOptions::MaxValue(Some(max)) => sequence.max = number(max)?,
            ast::SequenceOptions::StartWith(first, _) => start = Some(number(first)?),
            ast::SequenceOptions::Cycle(no) => sequence.cycles = !no,
            ast::SequenceOptions::IncrementBy(..)
            | ast::SequenceOptions::MinValue(None)
            | ast::SequenceOptions::MaxValue(None) => {}
            ast::SequenceOptions::Cache(count) => {
                let count = number(count)?;
                if count < 1 {
                    let message = format!("CACHE ({count}) must be greater than zero");
                    return Err(Error::input(message).with_code("22023"));
                }
            }
        }
    }
    sequence.start = start.unwrap_or(if sequence.increment < 0 { sequence.max } else { sequence.min });
    sequence.validate()?;
    Ok(sequence)
}

/// PRIMARY KEY or UNIQUE of an index that is there. Fails with 42704 if there is no such index, and with 42809 if it is
/// no key of columns.
fn add_index_key(declaration: &mut Declaration, using: &ast::ConstraintUsingIndex, kind: KeyKind) -> Result<()> {
    let index = lower(&using.index_name);
    let Some(place) = declaration.rules.keys.iter().position(|key| key.name == index) else {
        return Err(Error::input(format!("index \"{index}\" does not exist")).with_code("42704"));
    };
    let key = &declaration.rules.keys[place];
    let ordered_otherwise = |place: &usize| key.part(*place) != PartForm::default();
    let computed = key.computed.as_ref();
    let wrong = match (0..key.columns.len()).find(ordered_otherwise) {
        _ if key.kind != KeyKind::UniqueIndex => Some(format!("\"{index}\" is not a unique index")),
        _ if computed.is_some_and(|computed| computed.expressions.iter().any(Option::is_some)) => {
            Some(format!("index \"{index}\" contains expressions"))
        }
        _ if computed.is_some() => Some(format!("\"{index}\" is a partial index")),
        Some(place) => {
            Some(format!("index \"{index}\" column number {} does not have default sorting behavior", place + 1))
        }
        None => None,
    };
    if let Some(message) = wrong {
        let error = Error::input(message).with_code("42809");
        return Err(error.with_detail("Cannot create a primary key or unique constraint using such an index."));
    }
    let Key { columns, nulls_are_equal, form, .. } = declaration.rules.keys.remove(place);
    let given = using.name.as_ref().unwrap_or(&using.index_name);
    declaration.add_key(Some(given), columns, kind, nulls_are_equal, deferral(using.characteristics.as_ref())?)?;
    if let Some(key) = declaration.rules.keys.last_mut() {
        key.form = form;
    }
    Ok(())
}

/// The columns of a constraint's INCLUDE, as the parser's tree has them.
fn included(options: &[ast::IndexOption]) -> Vec<String> {
    let named = |option: &ast::IndexOption| match option {
        ast::IndexOption::Comment(text) => Some(signed(text)),
        _ => None,
    };
    options.iter().find_map(named).unwrap_or_default()
}

/// What is wrong with the types of columns that refer to others, if something is: a number is never equal to anything
/// else, and a number of a key is not compared with one of a wider kind.
fn mismatched(own: &Schema, columns: &[String], there: &Schema, referred: &[String]) -> Option<String> {
    let kind = |schema: &Schema, column: &String| match schema.field_with_name(column).map(|field| field.data_type()) {
        Ok(data_type) if data_type.is_integer() => 1,
        Ok(data_type) if data_type.is_floating() => 3,
        Ok(data_type) if data_type.is_numeric() => 2,
        _ => 0,
    };
    let is_wrong = |(column, other): &(&String, &String)| match (kind(own, column), kind(there, other)) {
        (0, 0) => false,
        (0, _) | (_, 0) => true,
        (own, there) => own > there,
    };
    let (column, other) = columns.iter().zip(referred).find(is_wrong)?;
    let sql_type = |schema: &Schema, column: &String| {
        let sql_type = SqlType::of_field(schema.field_with_name(column).ok()?)?;
        Some(sql_type.to_string())
    };
    let types = sql_type(own, column).zip(sql_type(there, other));
    let types = types.map(|(own, there)| format!(": {own} and {there}")).unwrap_or_default();
    Some(format!("Key columns \"{column}\" and \"{other}\" are of incompatible types{types}."))
}

/// What the comment says of a constraint that is an exclusion constraint, as the parser's tree has it.
fn exclusion(options: &[ast::IndexOption]) -> Option<&str> {
    options.iter().find_map(|option| match option {
        ast::IndexOption::Comment(text) if text.starts_with(EXCLUDES) => Some(text.as_str()),
        _ => None,
    })
}

/// The names of a text that has the sign in front of each.
pub(super) fn signed(text: &str) -> Vec<String> {
    text.split(INCLUDED).skip(1).map(str::to_owned).collect()
}
