//! What names in a block stand for.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::coercion::{CastOptions, cast_array};
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;

/// A value with its type: an array of one.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) sql_type: SqlType,
    pub(super) value: ArrayRef,
}

impl Typed {
    /// NULL.
    pub(super) fn null(sql_type: SqlType) -> Self {
        let value = new_null_array(&sql_type.arrow(), 1);
        Self { sql_type, value }
    }

    pub(super) fn text(text: &str) -> Self {
        Self { sql_type: SqlType::Text, value: Arc::new(StringViewArray::from_iter_values([text])) }
    }

    pub(super) fn boolean(value: bool) -> Self {
        Self { sql_type: SqlType::Boolean, value: Arc::new(BooleanArray::from(vec![value])) }
    }

    pub(super) fn bigint(value: i64) -> Self {
        Self { sql_type: SqlType::BigInt, value: Arc::new(Int64Array::from(vec![value])) }
    }

    pub(super) fn is_null(&self) -> bool {
        self.value.is_null(0) || *self.value.data_type() == DataType::Null
    }

    /// A row of columns.
    pub(super) fn row(columns: Vec<(String, Typed)>) -> Result<Self> {
        let fields =
            columns.iter().map(|(name, column)| RecordField { name: name.clone(), sql_type: column.sql_type.clone() });
        let sql_type = SqlType::Record(RecordType::row(fields.collect()));
        let DataType::Struct(fields) = sql_type.arrow() else { return Err(Error::bug("a row is no struct")) };
        let columns = columns.into_iter().zip(&fields);
        let columns = columns.map(|((_, column), field)| cast(&column.value, field.data_type()).map_err(from_arrow));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let value = match columns.is_empty() {
            true => StructArray::new_empty_fields(1, None),
            false => StructArray::try_new(fields, columns, None).map_err(from_arrow)?,
        };
        Ok(Self { sql_type, value: Arc::new(value) })
    }

    /// A field of a row; `None` if it has none of the name.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let SqlType::Record(fields) = &self.sql_type else { return None };
        let place = fields.iter().position(|field| field.name == name)?;
        Some(self.at(place, &fields[place].sql_type))
    }

    /// The value in a place of a row, which has this type.
    fn at(&self, place: usize, sql_type: &SqlType) -> Self {
        let sql_type = sql_type.clone();
        match self.is_null() {
            true => Self::null(sql_type),
            false => Self { sql_type, value: self.value.as_struct().column(place).clone() },
        }
    }

    /// The columns of a row, with their names, which several may have in common.
    pub(super) fn fields(&self) -> Vec<(String, Typed)> {
        let SqlType::Record(fields) = &self.sql_type else { return vec![] };
        let columns = fields.iter().enumerate();
        columns.map(|(place, field)| (field.name.clone(), self.at(place, &field.sql_type))).collect()
    }

    /// The value in another type, as where it is stored. Fails as such a cast does.
    pub(super) fn into_type(self, to: &SqlType, zone: &str) -> Result<Self> {
        if self.sql_type == *to && *self.value.data_type() == to.arrow() {
            return Ok(self);
        }
        if let (SqlType::Record(fields), SqlType::Record(_)) = (to, &self.sql_type) {
            // Column by column: their names may differ.
            let given = self.fields();
            let column = |(place, field): (usize, &RecordField)| {
                let value =
                    given.get(place).map_or_else(|| Self::null(field.sql_type.clone()), |(_, value)| value.clone());
                Ok((field.name.clone(), value.into_type(&field.sql_type, zone)?))
            };
            let is_null = self.is_null();
            let mut row = Self::row(fields.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?)?;
            if is_null {
                row = Self::null(row.sql_type);
            }
            let value = cast(&row.value, &to.arrow()).map_err(from_arrow)?;
            return Ok(Self { sql_type: to.clone(), value });
        }
        let options = CastOptions { zone: zone.to_owned(), is_explicit: false, is_try: false };
        let value = cast_array(&self.value, &self.sql_type, to, &options)?;
        Ok(Self { sql_type: to.clone(), value })
    }

    /// As a text, as clients see it: booleans are `t` and `f`.
    pub(super) fn put_out(&self, zone: &str) -> Result<Option<String>> {
        match (&self.sql_type, self.value.as_boolean_opt()) {
            (SqlType::Boolean, Some(value)) if !value.is_null(0) => {
                Ok(Some(if value.value(0) { "t" } else { "f" }.to_owned()))
            }
            _ => self.shown(zone),
        }
    }

    /// As a text, as it is cast.
    pub(super) fn shown(&self, zone: &str) -> Result<Option<String>> {
        if self.is_null() {
            return Ok(None);
        }
        let text = self.clone().into_type(&SqlType::Text, zone)?;
        Ok(Some(text.value.as_string_view().value(0).to_owned()))
    }
}

/// A variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    /// Its type; `None` of a RECORD, whose type is that of what is assigned.
    pub(super) sql_type: Option<SqlType>,
    /// Its value; `None` of a RECORD without one.
    pub(super) value: Option<Typed>,
    pub(super) is_constant: bool,
    pub(super) is_required: bool,
}

impl Variable {
    pub(super) fn new(name: impl Into<String>, value: Typed) -> Self {
        let sql_type = Some(value.sql_type.clone());
        Self { name: name.into(), sql_type, value: Some(value), is_constant: false, is_required: false }
    }

    /// One whose type is that of what is assigned.
    pub(super) fn record(name: impl Into<String>) -> Self {
        Self { name: name.into(), sql_type: None, value: None, is_constant: false, is_required: false }
    }

    /// Its value. Fails with 55000 if it is a RECORD without one.
    pub(super) fn value(&self) -> Result<&Typed> {
        self.value.as_ref().ok_or_else(|| {
            let error = Error::input(format!("record \"{}\" is not assigned yet", self.name)).with_code("55000");
            error.with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
        })
    }

    /// Gives it a value. Fails with 22005 if it is constant, with 22004 if it may not be NULL, and as a cast.
    pub(super) fn assign(&mut self, value: Typed, zone: &str) -> Result<()> {
        if self.is_constant {
            let message = format!("variable \"{}\" is declared CONSTANT", self.name);
            return Err(Error::input(message).with_code("22005"));
        }
        self.begin_with(value, zone)
    }

    /// Gives it its first value. Fails with 22004 if it may not be NULL, and as a cast.
    pub(super) fn begin_with(&mut self, value: Typed, zone: &str) -> Result<()> {
        if self.is_required && value.is_null() {
            let message = format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", self.name);
            return Err(Error::value(message).with_code("22004"));
        }
        self.value = Some(match &self.sql_type {
            Some(sql_type) => value.into_type(sql_type, zone)?,
            None => value,
        });
        Ok(())
    }
}

/// The variables of a block.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Its label.
    pub(super) label: Option<String>,
    pub(super) variables: Vec<Variable>,
    /// Other names of variables.
    pub(super) aliases: Vec<(String, String)>,
}

/// The variables of a block and of those around it, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<Scope>);

impl Scopes {
    pub(super) fn push(&mut self, scope: Scope) {
        self.0.push(scope);
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    pub(super) fn innermost(&mut self) -> &mut Scope {
        if self.0.is_empty() {
            self.0.push(Scope::default());
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Where a variable is; the innermost of the name.
    fn place(&self, name: &str) -> Option<(usize, usize)> {
        for (at, scope) in self.0.iter().enumerate().rev() {
            let alias = scope.aliases.iter().find(|(alias, _)| alias == name);
            if let Some((_, of)) = alias {
                return self.place(of);
            }
            if let Some(found) = scope.variables.iter().rposition(|variable| variable.name == name) {
                return Some((at, found));
            }
        }
        None
    }

    pub(super) fn find(&self, name: &str) -> Option<&Variable> {
        self.place(name).map(|(scope, variable)| &self.0[scope].variables[variable])
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Option<&mut Variable> {
        self.place(name).map(|(scope, variable)| &mut self.0[scope].variables[variable])
    }

    /// A variable of the procedure itself, whatever blocks within it call theirs.
    pub(super) fn output(&self, name: &str) -> Option<&Variable> {
        self.0.first()?.variables.iter().find(|variable| variable.name == name)
    }

    /// What a name stands for: a variable, a field of one, or a variable of a block with a label. `None` if it is no
    /// variable's. Fails with 42703 if a row has no such field, and with 55000 if it has no value yet.
    pub(super) fn named(&self, names: &[String]) -> Result<Option<Typed>> {
        let Some((first, rest)) = names.split_first() else { return Ok(None) };
        if let Some(variable) = self.find(first) {
            let Some((field, _)) = rest.split_first() else { return variable.value().cloned().map(Some) };
            let value = variable.value()?;
            if !matches!(value.sql_type, SqlType::Record(_)) {
                return Ok(None);
            }
            let mut found = value.clone();
            for name in rest {
                found = found.field(name).ok_or_else(|| {
                    Error::input(format!("record \"{first}\" has no field \"{field}\"")).with_code("42703")
                })?;
            }
            return Ok(Some(found));
        }
        let labelled = self.0.iter().rev().find(|scope| scope.label.as_deref() == Some(first));
        let (Some(scope), [name, ..]) = (labelled, rest) else { return Ok(None) };
        match scope.variables.iter().rfind(|variable| variable.name == *name) {
            Some(_) => Scopes::only(scope, rest),
            None => Ok(None),
        }
    }

    fn only(scope: &Scope, names: &[String]) -> Result<Option<Typed>> {
        let variables = scope.variables.clone();
        Self(vec![Scope { label: None, variables, aliases: vec![] }]).named(names)
    }
}
