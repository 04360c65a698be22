//! CREATE TYPE … AS ENUM and AS (…), ALTER TYPE, DROP TYPE and DROP DOMAIN.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use diligence_base::{Error, Result};
use diligence_catalog::{CompositeDefinition, EnumChange, EnumDefinition, Object, Relation, RelationName};
use diligence_types::SqlType;
use diligence_types::enum_type::EnumType;
use sqlparser::ast::{self, AlterTypeAddValuePosition, AlterTypeOperation, Ident, ObjectName};

use super::around::{Around, parts_of};
use super::column_names::refuse_twice;
use super::definitions::lower;
use super::depends::Becomes;
use super::schemas::with_followed;
use crate::binder::Context;
use crate::following::NewName;
use crate::parse::{DOMAIN, ENUM_OF};
use crate::statement::{Command, Statement};

/// Bytes of a label, at most; PostgreSQL's.
const LABEL_BYTES_MAX: usize = 63;

impl Around<'_> {
    /// CREATE TYPE. Fails with 0A000 for other types than enums, 42710 if there is one of the name, 23505 for a label
    /// that comes twice.
    pub(super) fn create_type(
        &self,
        name: &ObjectName,
        representation: Option<&ast::UserDefinedTypeRepresentation>,
    ) -> Result<Statement> {
        let labels = match representation {
            Some(ast::UserDefinedTypeRepresentation::Enum { labels }) => labels,
            Some(ast::UserDefinedTypeRepresentation::Composite { attributes }) => {
                return self.create_composite(name, attributes);
            }
            _ => {
                let error = Error::unsupported("types other than enums and composite types are not supported");
                let hint = "CREATE TYPE name AS ENUM ('a', 'b'), or AS (a integer, b text)";
                return Err(error.with_code("0A000").with_hint(hint));
            }
        };
        let name = self.new_type(name)?;
        let labels = match labels.as_slice() {
            [query] if query.value.starts_with(ENUM_OF) => self.labels_of(&query.value[ENUM_OF.len()..])?,
            labels => labels.iter().map(label).collect::<Result<Vec<_>>>()?,
        };
        for (index, label) in labels.iter().enumerate() {
            if labels[..index].contains(label) {
                let error = Error::input(format!("enum label \"{label}\" comes twice")).with_code("23505");
                return Err(error.with_hint("each label is one value"));
            }
        }
        let array = self.planner.catalogs().catalog().new_id();
        let definition = Arc::new(EnumDefinition { labels, array });
        Ok(Statement::Command(Command::CreateEnum { name, definition }))
    }

    /// The labels that a query gives, each once, in its order. Fails with 42601 if it has more than one column.
    fn labels_of(&self, query: &str) -> Result<Vec<String>> {
        let mut query = crate::parse::query(query)?;
        let mut is_one = false;
        if let ast::SetExpr::Select(select) = query.body.as_mut()
            && let [item] = select.projection.as_mut_slice()
        {
            let (value, alias) = match &*item {
                ast::SelectItem::ExprWithAlias { expr, alias } => (Some(expr), alias.clone()),
                // ORDER BY means the text by the column's name.
                ast::SelectItem::UnnamedExpr(value) => match value {
                    ast::Expr::Identifier(name) => (Some(value), name.clone()),
                    ast::Expr::CompoundIdentifier(names) => (Some(value), names[names.len() - 1].clone()),
                    _ => (Some(value), Ident::new("label")),
                },
                _ => (None, Ident::new("label")),
            };
            if let Some(value) = value {
                let expr = crate::parse::expression(&format!("CAST({value} AS text)"))?;
                *item = ast::SelectItem::ExprWithAlias { expr, alias };
                is_one = true;
            }
        }
        if !is_one {
            let error = Error::input("the labels of an enum are the values of one column").with_code("42601");
            return Err(error.with_hint("CREATE TYPE name AS ENUM (SELECT DISTINCT column FROM table ORDER BY column)"));
        }
        let mut labels = Vec::new();
        let mut seen = HashSet::new();
        for value in self.texts_of(&query)?.into_iter().filter_map(|row| row.into_iter().next().flatten()) {
            if seen.insert(value.clone()) {
                labels.push(label(&Ident::with_quote('\'', value))?);
            }
        }
        Ok(labels)
    }

    /// The name of a type that is to be made. Fails with 42602 if none can be called so, 42710 if there is one.
    pub(super) fn new_type(&self, name: &ObjectName) -> Result<RelationName> {
        let name = self.creatable(name, false)?;
        if !EnumType::can_note(&name.name) || !EnumType::can_note(&name.schema) {
            return Err(Error::input("a type has no such name").with_code("42602"));
        }
        if let Some(there) = self.at.snapshot.catalog.get(&name) {
            let what = if there.made_type().is_some() { "type" } else { "relation" };
            return Err(Error::input(format!("{what} \"{}\" already exists", name.name)).with_code("42710"));
        }
        Ok(name)
    }

    /// CREATE TYPE … AS (…). Fails with 42701 for a column that comes twice, 0A000 for one of a domain or a map.
    fn create_composite(
        &self,
        name: &ObjectName,
        attributes: &[ast::UserDefinedTypeCompositeAttributeDef],
    ) -> Result<Statement> {
        let name = self.new_type(name)?;
        refuse_twice(attributes.iter().map(|attribute| attribute.name.value.as_str()))?;
        let column = |attribute: &ast::UserDefinedTypeCompositeAttributeDef| {
            self.attribute(&attribute.name, &attribute.data_type, attribute.collation.as_ref())
        };
        let columns = attributes.iter().map(column).collect::<Result<Vec<_>>>()?;
        let array = self.planner.catalogs().catalog().new_id();
        let definition = Arc::new(CompositeDefinition { columns: Arc::new(Schema::new(columns)), array });
        Ok(Statement::Command(Command::CreateComposite { name, definition }))
    }

    /// ALTER TYPE. Fails with 42704 if there is none of the name, 42710 if a label or a type of the new name is there,
    /// 22023 if a label is not.
    pub(super) fn alter_type(&self, alter: &ast::AlterType) -> Result<Statement> {
        let object = self.type_object(&alter.name)?.ok_or_else(|| no_type(&alter.name))?;
        let Relation::Enum(definition) = &object.relation else {
            if let Some((domain, _)) = object.domain()
                && !matches!(alter.operation, AlterTypeOperation::Rename(_))
            {
                let error = Error::input(format!("{domain} is not an enum")).with_code("42809");
                return Err(error.with_hint("ALTER DOMAIN changes it"));
            }
            let AlterTypeOperation::Rename(rename) = &alter.operation else {
                return Err(Error::input(format!("{} is not an enum", alter.name)).with_code("42809"));
            };
            return self.named_type_anew(&object, RelationName::new(&object.name.schema, lower(&rename.new_name)));
        };
        self.at.snapshot.rights.check_owner(&object.name)?;
        let mut change =
            EnumChange { definition: definition.as_ref().clone(), name: object.name.clone(), renamed: None };
        let labels = &mut change.definition.labels;
        let place = |labels: &[String], wanted: &Ident| {
            let missing = || Error::input(format!("\"{}\" is not an existing enum label", wanted.value));
            labels.iter().position(|label| *label == wanted.value).ok_or_else(|| missing().with_code("22023"))
        };
        let is_there = |labels: &[String], new: &str| match labels.iter().any(|label| label == new) {
            true => Err(Error::input(format!("enum label \"{new}\" already exists")).with_code("42710")),
            false => Ok(()),
        };
        let mut followed = None;
        match &alter.operation {
            AlterTypeOperation::Rename(rename) => {
                change.name = RelationName::new(&object.name.schema, lower(&rename.new_name));
                if self.at.snapshot.catalog.get(&change.name).is_some() {
                    let message = format!("type \"{}\" already exists", change.name.name);
                    return Err(Error::input(message).with_code("42710"));
                }
                followed = self.names_followed(NewName::Type { from: object.name.clone(), to: change.name.clone() });
            }
            AlterTypeOperation::AddValue(add) => {
                let new = label(&add.value)?;
                if add.if_not_exists && labels.contains(&new) {
                    return Ok(Statement::Command(Command::Nothing("ALTER TYPE")));
                }
                is_there(labels, &new)?;
                let at = match &add.position {
                    None => labels.len(),
                    Some(AlterTypeAddValuePosition::Before(other)) => place(labels, other)?,
                    Some(AlterTypeAddValuePosition::After(other)) => place(labels, other)? + 1,
                };
                labels.insert(at, new);
            }
            AlterTypeOperation::RenameValue(rename) => {
                let at = place(labels, &rename.from)?;
                let new = label(&rename.to)?;
                is_there(labels, &new)?;
                let old = std::mem::replace(&mut labels[at], new.clone());
                let (from, to, of) = (old.clone(), new.clone(), object.name.clone());
                let new_name = NewName::Label { oid: object.oid(), of, from, to };
                self.refuse_indexed(&new_name, &old)?;
                followed = self.names_followed(new_name);
                change.renamed = Some((old, new));
            }
        }
        let memory = self.planner.options.tables.clone();
        let command = Command::ChangeEnum { object: object.reference(), change: Box::new(change), memory };
        Ok(Statement::Command(with_followed(command, followed, "ALTER TYPE")))
    }

    /// Fails with code 0A000 if an index is computed from a label that gets another name: it would have to be built
    /// anew.
    fn refuse_indexed(&self, new: &NewName, label: &str) -> Result<()> {
        for object in self.at.snapshot.catalog.all_objects() {
            if let Some(index) = new.index_that_says_it(object) {
                let message = format!("cannot rename the label \"{label}\" because the index {index} is made with it");
                let error = Error::unsupported(message).with_code("0A000");
                return Err(error.with_hint(format!("DROP INDEX {index}, and make it again behind the change")));
            }
        }
        Ok(())
    }

    /// DROP TYPE. Fails with 42704 if there is none of a name, and with 2BP01 if a column has it and not `cascade`:
    /// that takes the column away.
    pub(super) fn drop_types(&self, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Statement> {
        let is_marker = |name: &ObjectName| match name.0.as_slice() {
            [only] => only.as_ident().is_some_and(|name| name.value == DOMAIN),
            _ => false,
        };
        let (names, tag) = match names.split_first() {
            Some((first, names)) if is_marker(first) => (names, "DROP DOMAIN"),
            _ => (names, "DROP TYPE"),
        };
        let (mut types, mut altered) = (Vec::new(), Vec::new());
        let mut columns: Vec<(Arc<Object>, Vec<String>)> = Vec::new();
        for name in names {
            let Some(object) = self.type_object(name)? else {
                if if_exists {
                    self.tell_missing(&format!("type \"{}\"", name.to_string().replace('"', "")));
                    continue;
                }
                return Err(no_type(name));
            };
            if tag == "DROP DOMAIN" && object.domain().is_none() {
                return Err(Error::input(format!("{name} is not a domain")).with_code("42809"));
            }
            self.refuse_domains_above(&object, names)?;
            self.refuse_composites_above(&object, names)?;
            self.at.snapshot.rights.check_owner(&object.name)?;
            for (table, column) in self.at.snapshot.catalog.columns_of_type(object.oid()) {
                if !cascade {
                    let shown = object.made_type().map(|one| one.to_string()).unwrap_or_default();
                    let message = format!("cannot drop type {shown} because other objects depend on it");
                    let detail = format!("column {column} of table {} depends on type {shown}", table.name);
                    let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
                    return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint));
                }
                match columns.iter_mut().find(|(known, _)| known.id == table.id) {
                    Some((_, known)) => known.push(column),
                    None => columns.push((table.clone(), vec![column])),
                }
            }
            types.push(object.name.clone());
        }
        let gone = columns.iter().flat_map(|(table, columns)| columns.iter().map(move |column| (table, column)));
        let gone = gone.map(|(table, column)| format!("column {column} of table {}", table.name));
        self.tell_cascades(&gone.collect::<Vec<_>>());
        let mut views = Vec::new();
        for (table, columns) in &columns {
            let alteration = self.without_columns(table, columns)?;
            let (name, left) = (table.name.clone(), alteration.columns.clone());
            let (_, gone) = self.views_after(table, &Becomes { name, columns: left, renamed: vec![] }, true)?;
            views.extend(gone.into_iter().filter(|view| !views.contains(view)).collect::<Vec<_>>());
            altered.push((table.reference(), table.version, alteration));
        }
        let memory = self.planner.options.tables.clone();
        let dropped = Command::DropTypes { names: types, altered, memory, tag };
        Ok(Statement::Command(match views.is_empty() {
            true => dropped,
            false => Command::All { commands: vec![Command::drop_views(views), dropped], tag },
        }))
    }

    /// Fails with 2BP01 if a domain that stays is of this type.
    fn refuse_domains_above(&self, object: &Object, dropped: &[ObjectName]) -> Result<()> {
        let Some(one) = object.made_type() else { return Ok(()) };
        for (above, domain, definition) in self.at.snapshot.catalog.domains() {
            if definition.base != one && definition.base != SqlType::array_of(one.clone()) {
                continue;
            }
            let mut goes = false;
            for name in dropped {
                goes |= self.type_object(name)?.is_some_and(|object| object.id == above.id);
            }
            if !goes {
                let message = format!("cannot drop type {one} because other objects depend on it");
                let detail = format!("type {domain} depends on type {one}");
                return Err(Error::input(message)
                    .with_code("2BP01")
                    .with_detail(detail)
                    .with_hint("drop that one first"));
            }
        }
        Ok(())
    }

    /// Fails with 2BP01 if an attribute of a composite type that stays is of this type.
    fn refuse_composites_above(&self, object: &Object, dropped: &[ObjectName]) -> Result<()> {
        let Some(one) = object.made_type() else { return Ok(()) };
        for (above, attribute) in self.at.snapshot.catalog.attributes_of_type(object.oid()) {
            let mut goes = false;
            for name in dropped {
                goes |= self.type_object(name)?.is_some_and(|object| object.id == above.id);
            }
            if !goes {
                let message = format!("cannot drop type {one} because other objects depend on it");
                let detail = format!("column {attribute} of composite type {} depends on type {one}", above.name.name);
                let hint = format!("drop that attribute first: ALTER TYPE {} DROP ATTRIBUTE", above.name.name);
                return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint));
            }
        }
        Ok(())
    }

    /// The type that a statement made under a name; of `_name`, its arrays.
    pub(super) fn made_type(&self, name: &ObjectName) -> Result<Option<SqlType>> {
        let found = |name: &ObjectName| -> Result<Option<SqlType>> {
            let object = self.type_object(name)?;
            Ok(object.and_then(|object| object.made_type()))
        };
        if let Some(sql_type) = found(name)? {
            return Ok(Some(sql_type));
        }
        let Some((last, before)) = name.0.split_last() else { return Ok(None) };
        let element = last.as_ident().and_then(|last| {
            let bare = last.value.strip_prefix('_')?;
            Some(Ident { value: bare.to_owned(), ..last.clone() })
        });
        let Some(element) = element else { return Ok(None) };
        let parts = before.iter().cloned().chain([ast::ObjectNamePart::Identifier(element)]);
        let element = found(&ObjectName(parts.collect()))?;
        Ok(element.filter(|element| !matches!(element, SqlType::Domain(_))).map(SqlType::array_of))
    }

    /// The type of a name that a statement made.
    pub(super) fn type_object(&self, name: &ObjectName) -> Result<Option<Arc<Object>>> {
        let Some(parts) = parts_of(name) else { return Ok(None) };
        let schemas = match parts.as_slice() {
            [_] => self.schemas(),
            [schema, _] if schema == "pg_temp" => vec![self.planner.catalogs().temporary_schema()],
            [.., schema, _] => vec![schema.clone()],
            [] => return Ok(None),
        };
        let Some(last) = parts.last() else { return Ok(None) };
        for schema in schemas {
            let name = RelationName::new(schema, last);
            match self.at.snapshot.catalog.get(&name) {
                Some(object) if object.relation.is_type() => {
                    self.names.uses_object(&name, object);
                    return Ok(Some(object.clone()));
                }
                _ => self.names.uses_nothing(&name),
            }
        }
        Ok(None)
    }
}

/// A label as it is written. Fails with 42602 if it is too long.
fn label(label: &Ident) -> Result<String> {
    if label.value.len() > LABEL_BYTES_MAX || !EnumType::can_note(&label.value) {
        let error = Error::input(format!("invalid enum label \"{}\"", label.value)).with_code("42602");
        return Err(error.with_detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")));
    }
    Ok(label.value.clone())
}

pub(super) fn no_type(name: &ObjectName) -> Error {
    Error::input(format!("type \"{name}\" does not exist")).with_code("42704")
}
