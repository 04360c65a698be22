//! Fields of records, values of keys that are written like them, and values with other fields: what UPDATE makes of a
//! column of which it sets fields.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::resolve_scalar;
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::Ident;

use super::{Binder, Target, name_place, normalized};
use crate::algebra::{Constant, Scalar};
use crate::errors;

/// The function that gives a record with another field: of a column's name, the record, the names on the way to the
/// field, and its value.
pub(crate) const SET_FIELD: &str = "set field";

/// Whether a point and a name may stand behind a value of a type: of a record, and as in DuckDB of JSON and of a map
/// whose keys are texts.
pub(super) fn has_fields(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Record(_) | SqlType::Json | SqlType::Jsonb => true,
        SqlType::Map(pair) => matches!(pair.0.uncollated(), SqlType::Text | SqlType::Varchar(_)),
        _ => false,
    }
}

/// What each column of a record becomes in a cast to another type: `None` for one that is left out, and of all if the
/// type is none that the record is cast to.
pub(super) fn column_targets(from: &RecordType, to: &SqlType) -> Vec<Option<SqlType>> {
    let mut targets = vec![None; from.len()];
    if let SqlType::Record(to) = to
        && let Some(sources) = from.sources(to)
    {
        for (source, column) in sources.into_iter().zip(to.iter()) {
            if let Some(target) = source.and_then(|source| targets.get_mut(source)) {
                *target = Some(column.sql_type.clone());
            }
        }
    }
    targets
}

impl Binder<'_> {
    /// Fields of a record within each other. Fails with 42703 and 42809.
    pub(super) fn fields(&self, mut scalar: Scalar, names: &[Ident]) -> Result<Scalar> {
        for name in names {
            scalar = self.field(scalar, name)?;
        }
        Ok(scalar)
    }

    /// A field of a record, and the value of a key of JSON or of a map. Fails with 42703, or 42809 if it is none of
    /// these.
    pub(super) fn field(&self, scalar: Scalar, name: &Ident) -> Result<Scalar> {
        let sql_type = scalar.sql_type();
        if !matches!(sql_type, SqlType::Record(_)) && has_fields(&sql_type) {
            return self.value_of_key(scalar, name);
        }
        let SqlType::Record(fields) = &sql_type else {
            let message =
                format!("column notation .{} applied to type {sql_type}, which is not a composite type", name.value);
            return Err(errors::at(Error::input(message).with_code("42809"), name_place(name)));
        };
        let wanted = normalized(name);
        let position = fields.iter().position(|field| field.name == wanted);
        let folded = || fields.iter().position(|field| field.name.eq_ignore_ascii_case(&wanted));
        let Some(index) = position.or_else(|| name.quote_style.is_none().then(folded).flatten()) else {
            let error = Error::input(format!("no field is named '{}'", name.value)).with_code("42703");
            let known = fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>();
            return Err(errors::suggest(errors::at(error, name_place(name)), &name.value, &known));
        };
        if let Scalar::Record { fields: values, .. } = &mut { scalar.clone() } {
            return Ok(values.swap_remove(index));
        }
        Ok(Scalar::Field { input: Box::new(scalar), index, sql_type: fields[index].sql_type.clone() })
    }

    /// `value.name` of JSON or of a map: the value of the key, whose letters are those that are written.
    pub(super) fn value_of_key(&self, value: Scalar, name: &Ident) -> Result<Scalar> {
        let key = Scalar::Constant(Constant::text(&name.value));
        match value.sql_type() {
            SqlType::Map(pair) => {
                let key = self.explicit(key, &pair.0, false)?;
                self.call("map_extract_value", vec![value, key])
            }
            _ => self.operator("->", vec![value, key]),
        }
    }

    /// The record of a call of [`SET_FIELD`]. Fails with 42703 for a field that is not there, 42804 for one of what is
    /// no record.
    pub(super) fn with_field_set(&self, arguments: Vec<Scalar>) -> Result<Scalar> {
        let mut arguments = arguments.into_iter();
        let (column, record, value) = (arguments.next(), arguments.next(), arguments.next_back());
        let (Some(column), Some(record), Some(value)) = (column, record, value) else {
            return Err(Error::bug("a field is set without a record and a value"));
        };
        let text = |scalar: &Scalar| Self::candidate(scalar).literal.unwrap_or_default();
        let path = arguments.map(|name| text(&name)).collect::<Vec<_>>();
        self.with_field(&text(&column), record, &path, value)
    }

    fn with_field(&self, column: &str, record: Scalar, path: &[String], value: Scalar) -> Result<Scalar> {
        let Some((name, rest)) = path.split_first() else { return Err(Error::bug("a field has no name")) };
        let sql_type = record.sql_type().base().clone();
        let SqlType::Record(fields) = &sql_type else {
            return Err(no_composite(name, column, &sql_type));
        };
        let Some(place) = fields.iter().position(|field| field.name == *name) else {
            return Err(no_field(name, column, &sql_type));
        };
        let own = |index: usize| self.field(record.clone(), &Ident::with_quote('"', &fields[index].name));
        let value = match rest {
            [] => self.assign(value, &Target::new(name, fields[place].sql_type.clone()))?,
            rest => self.with_field(column, own(place)?, rest, value)?,
        };
        let mut values = (0..fields.len()).map(own).collect::<Result<Vec<_>>>()?;
        values[place] = value;
        Ok(Scalar::Record { fields: values, sql_type: sql_type.clone() })
    }
}

/// A list, a record or a map with the NULLs that are written in it in their types: `[{'a': NULL}]` is one of texts, if
/// nothing else is known.
pub(super) fn with_nulls_of(scalar: Scalar, to: &SqlType) -> Scalar {
    let inside = |part: Scalar, to: &SqlType| match &part {
        Scalar::Constant(constant)
            if constant.is_null() && matches!(constant.sql_type, SqlType::Text | SqlType::Unknown) =>
        {
            Scalar::Constant(Constant::null(to.base().uncollated()))
        }
        _ => with_nulls_of(part, to),
    };
    let types = |parts: &[Scalar]| parts.iter().map(Scalar::sql_type).collect::<Vec<_>>();
    match (scalar, to) {
        (Scalar::Array { elements, sql_type }, SqlType::Array(element)) => {
            let before = types(&elements);
            let elements = elements.into_iter().map(|part| inside(part, element)).collect::<Vec<_>>();
            let after = types(&elements);
            let is_one = after.windows(2).all(|pair| pair[0] == pair[1]);
            let first = after.first().filter(|_| is_one && before != after);
            let sql_type = first.map_or(sql_type, |first| SqlType::array_of(first.clone()));
            Scalar::Array { elements, sql_type }
        }
        (Scalar::Record { fields, sql_type: SqlType::Record(own) }, SqlType::Record(_)) => {
            let before = types(&fields);
            let parts = fields.into_iter().zip(column_targets(&own, to));
            let parts = parts.map(|(part, wanted)| match wanted {
                Some(wanted) => inside(part, &wanted),
                None => part,
            });
            let fields = parts.collect::<Vec<_>>();
            if before == types(&fields) {
                return Scalar::Record { fields, sql_type: SqlType::Record(own) };
            }
            let named = own.iter().zip(&fields);
            let named = named.map(|(field, part)| RecordField { sql_type: part.sql_type(), ..field.clone() });
            Scalar::Record { sql_type: SqlType::Record(own.with(named.collect())), fields }
        }
        (Scalar::Call { call, arguments }, SqlType::Map(pair))
            if call.overload.name == "map" && arguments.len() == 2 =>
        {
            let lists = [&pair.0, &pair.1].map(|part| SqlType::array_of(part.clone()));
            let parts = arguments.iter().cloned().zip(&lists);
            let parts = parts.map(|(part, wanted)| with_nulls_of(part, wanted)).collect::<Vec<_>>();
            match resolve_scalar("map", &parts.iter().map(Binder::candidate).collect::<Vec<_>>()) {
                Ok(call) => Scalar::Call { call, arguments: parts },
                Err(_) => Scalar::Call { call, arguments },
            }
        }
        (scalar, _) => scalar,
    }
}

/// Whether values are structs, whose NULLs are equal, and no rows as PostgreSQL writes them.
pub(super) fn are_structs(types: [&SqlType; 2]) -> bool {
    types.iter().all(|sql_type| matches!(sql_type, SqlType::Record(record) if !record.is_row()))
}

/// The error for a field of what is no record.
pub(crate) fn no_composite(field: &str, column: &str, sql_type: &SqlType) -> Error {
    let message = format!(
        "cannot assign to field \"{field}\" of column \"{column}\" because its type {sql_type} is not a composite type"
    );
    Error::input(message).with_code("42804")
}

/// The error for a field that a record does not have.
pub(crate) fn no_field(field: &str, column: &str, sql_type: &SqlType) -> Error {
    let message = format!(
        "cannot assign to field \"{field}\" of column \"{column}\" because there is no such column in data type {sql_type}"
    );
    Error::input(message).with_code("42703")
}
