//! ALTER TYPE of composite types: their attributes.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use diligence_base::{Error, Result};
use diligence_catalog::{CompositeDefinition, Object, Relation, has_made_type};
use diligence_types::SqlType;
use diligence_types::record_type::RecordType;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, Ident, ObjectName};

use super::around::Around;
use super::bound::BoundStatement;
use super::definitions::lower;
use super::enums::no_type;
use crate::binder;
use crate::statement::{Command, Statement};

impl Around<'_> {
    /// An attribute of a composite type. Fails with 0A000 if it is of a domain, of a map or of the rows of a table, or
    /// has another collation than that of bytes.
    pub(super) fn attribute(
        &self,
        name: &Ident,
        data_type: &ast::DataType,
        collation: Option<&ObjectName>,
    ) -> Result<Field> {
        let sql_type = binder::named_type(data_type, self)?.untimed();
        if let Some(collation) = collation
            && !self.collation(collation)?.is_by_bytes()
        {
            let message = "a composite type with a column of another collation is not supported";
            return Err(Error::unsupported(message).with_code("0A000"));
        }
        let is_composite = |record: &RecordType| {
            let number = record.composite_name().map(|name| name.oid);
            self.at.snapshot.catalog.composites().any(|(object, _)| Some(object.oid()) == number)
        };
        match sql_type.innermost() {
            SqlType::Record(record) if is_composite(record) => Ok(sql_type.field(&lower(name), true)),
            SqlType::Record(_) | SqlType::Map(_) | SqlType::Domain(_) => {
                let message = format!("a composite type with a column of type {sql_type} is not supported");
                Err(Error::unsupported(message).with_code("0A000"))
            }
            _ => Ok(sql_type.field(&lower(name), true)),
        }
    }

    /// ALTER TYPE … ADD, DROP, ALTER and RENAME ATTRIBUTE, which the parser has as ALTER TABLE. Fails with 42704 if
    /// there is no such type, 42809 if it is none of rows, 0A000 or 2BP01 if something has it, 42703 and 42701 if an
    /// attribute is not there or is there already, 42P16 if the type would be in itself.
    pub(super) fn alter_attributes(&self, alter: &ast::AlterTable) -> Result<BoundStatement> {
        let object = self.type_object(&alter.name)?.ok_or_else(|| no_type(&alter.name))?;
        let Relation::Composite(definition) = &object.relation else {
            let message = format!("\"{}\" is not a composite type", object.name.name);
            return Err(Error::input(message).with_code("42809"));
        };
        self.at.snapshot.rights.check_owner(&object.name)?;
        self.refuse_used(&object)?;
        let mut fields = definition.columns.fields().to_vec();
        for operation in &alter.operations {
            self.alter_attribute(&mut fields, operation, &object)?;
        }
        let is_within =
            |field: &FieldRef| SqlType::of_field(field).is_some_and(|sql_type| has_made_type(&sql_type, object.oid()));
        if fields.iter().any(is_within) {
            let message = format!("composite type {} cannot be made a member of itself", object.name.name);
            return Err(Error::input(message).with_code("42P16"));
        }
        let columns = Arc::new(Schema::new(fields));
        let definition = Arc::new(CompositeDefinition { columns, array: definition.array });
        let command = Command::ChangeComposite { object: object.reference(), definition };
        Ok(BoundStatement::Other(Statement::Command(command)))
    }

    /// Fails where values of a type are kept, or something was made for the attributes that it has.
    fn refuse_used(&self, object: &Object) -> Result<()> {
        let name = &object.name.name;
        if let Some((table, column)) = self.at.snapshot.catalog.columns_of_type(object.oid()).first() {
            let message =
                format!("cannot alter type \"{name}\" because column \"{}.{column}\" uses it", table.name.name);
            let hint = "make a type of the new attributes, and have the column be of it: ALTER TABLE … ALTER COLUMN … \
                        TYPE … USING ROW(…)";
            return Err(Error::unsupported(message).with_code("0A000").with_hint(hint));
        }
        self.refuse_named(object, &format!("cannot alter type {}", object.name))
    }

    fn alter_attribute(
        &self,
        fields: &mut Vec<FieldRef>,
        operation: &AlterTableOperation,
        object: &Object,
    ) -> Result<()> {
        let of_type = |name: &str| format!("column \"{name}\" of relation \"{}\"", object.name.name);
        let missing = |name: &str| Error::input(format!("{} does not exist", of_type(name))).with_code("42703");
        let taken = |name: &str| Error::input(format!("{} already exists", of_type(name))).with_code("42701");
        let place = |fields: &[FieldRef], name: &str| fields.iter().position(|field| field.name() == name);
        match operation {
            AlterTableOperation::AddColumn { column_def, .. } => {
                let collation = column_def.options.iter().find_map(|option| match &option.option {
                    ast::ColumnOption::Collation(name) => Some(name),
                    _ => None,
                });
                let field = self.attribute(&column_def.name, &column_def.data_type, collation)?;
                if place(fields, field.name()).is_some() {
                    return Err(taken(field.name()));
                }
                fields.push(Arc::new(field));
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                for name in column_names.iter().map(lower) {
                    match place(fields, &name) {
                        Some(place) => drop(fields.remove(place)),
                        None if *if_exists => self.tell_missing(&of_type(&name)),
                        None => return Err(missing(&name)),
                    }
                }
            }
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType { data_type, using: None, .. },
            } => {
                let name = lower(column_name);
                let place = place(fields, &name).ok_or_else(|| missing(&name))?;
                fields[place] = Arc::new(self.attribute(&Ident::with_quote('"', &name), data_type, None)?);
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (old, new) = (lower(old_column_name), lower(new_column_name));
                let at = place(fields, &old)
                    .ok_or_else(|| Error::input(format!("column \"{old}\" does not exist")).with_code("42703"))?;
                if place(fields, &new).is_some() {
                    return Err(taken(&new));
                }
                fields[at] = Arc::new(fields[at].as_ref().clone().with_name(new));
            }
            other => {
                let message = format!("ALTER TYPE … {other} is not supported");
                return Err(Error::unsupported(message).with_code("0A000"));
            }
        }
        Ok(())
    }
}
