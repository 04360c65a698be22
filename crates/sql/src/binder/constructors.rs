//! Values that are made of others: rows, structs, maps and arrays.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{Array, DictionaryField, Expr, StructField};

use super::operators::{Way, record, row};
use super::scope::Level;
use super::{Binder, normalized};
use crate::algebra::{Constant, Scalar};

impl Binder<'_> {
    /// A value made of others; `None` if the expression is another.
    pub(super) fn constructor(&self, expression: &Expr, level: &Level<'_>) -> Result<Option<Scalar>> {
        let made = match expression {
            Expr::Tuple(parts) => self.scalars(parts, level).map(row),
            Expr::Struct { values, fields } => self.struct_of_values(values, fields, level),
            Expr::Dictionary(fields) => self.struct_of_fields(fields, level),
            Expr::Map(map) => {
                let keys = self.scalars(map.entries.iter().map(|entry| entry.key.as_ref()), level)?;
                let values = self.scalars(map.entries.iter().map(|entry| entry.value.as_ref()), level)?;
                let arguments = vec![self.array(keys)?, self.array(values)?];
                self.call("map", arguments)
            }
            Expr::Array(array) => self.array_of(array, level),
            _ => return Ok(None),
        };
        made.map(Some)
    }

    /// `STRUCT(1 AS a, 2)`.
    fn struct_of_values(&self, values: &[Expr], fields: &[StructField], level: &Level<'_>) -> Result<Scalar> {
        let name = |(index, value): (usize, &Expr)| {
            let declared = fields.get(index).and_then(|field| field.field_name.as_ref());
            match (declared, value) {
                (Some(name), _) | (None, Expr::Named { name, .. }) => normalized(name),
                _ => format!("f{}", index + 1),
            }
        };
        let names = values.iter().enumerate().map(name);
        let values = values.iter().map(|value| match value {
            Expr::Named { expr, .. } => self.typed_scalar(expr, level),
            other => self.typed_scalar(other, level),
        });
        Ok(record(values.collect::<Result<_>>()?, names))
    }

    /// DuckDB's `{'a': 1}`. A NULL is of the type that others decide.
    fn struct_of_fields(&self, fields: &[DictionaryField], level: &Level<'_>) -> Result<Scalar> {
        let values = fields.iter().map(|field| match self.scalar(&field.value, level)? {
            null @ Scalar::Constant(_) if matches!(&null, Scalar::Constant(value) if value.is_null()) => Ok(null),
            value => self.typed(value),
        });
        let names = fields.iter().map(|field| normalized(&field.key));
        Ok(record(values.collect::<Result<_>>()?, names))
    }

    fn array_of(&self, array: &Array, level: &Level<'_>) -> Result<Scalar> {
        // DuckDB's `[]` gets its type from what is around it.
        if array.named && array.elem.is_empty() {
            let error = Error::input("cannot determine type of empty array").with_code("42P18");
            return Err(error.with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]"));
        }
        if array.named && lengths(&array.elem).is_none() {
            let message = "multidimensional arrays must have array expressions with matching dimensions";
            return Err(Error::input(message).with_code("2202E"));
        }
        let elements = self.scalars(&array.elem, level)?;
        self.array(if array.named { self.with_own_digits(elements)? } else { elements })
    }

    /// Literals of an `ARRAY[…]`, each with the digits behind the point that it is written with. Fails like
    /// [`cast`](Self::cast).
    fn with_own_digits(&self, elements: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let scale = |element: &Scalar| match element.as_constant()?.sql_type {
            SqlType::Numeric(Some((_, scale))) => Some(scale),
            SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Some(0),
            _ => None,
        };
        let is_null = |element: &&Scalar| element.as_constant().is_some_and(Constant::is_null);
        let scales = elements.iter().filter(|element| !is_null(element)).map(scale).collect::<Option<Vec<_>>>();
        match scales {
            Some(scales) if scales.windows(2).any(|pair| pair[0] != pair[1]) => {
                let elements = elements.into_iter();
                elements.map(|element| self.cast(element, &SqlType::NUMERIC, Way::Implicit)).collect()
            }
            _ => Ok(elements),
        }
    }

    /// ARRAY[…] of elements. Fails with 42804 if they have no common type.
    pub(super) fn array(&self, elements: Vec<Scalar>) -> Result<Scalar> {
        let types = elements.iter().map(Scalar::sql_type).collect::<Vec<_>>();
        // Without a type yet, so that a cast or a context gives one.
        if types.iter().all(|sql_type| *sql_type == SqlType::Unknown) {
            return Ok(Scalar::Array { elements, sql_type: SqlType::array_of(SqlType::Unknown) });
        }
        let (elements, common) = self.in_common(elements, "ARRAY")?;
        Ok(Scalar::Array { elements, sql_type: SqlType::array_of(common) })
    }
}

/// The lengths of arrays that are written within each other, beside those of others; `None` if they differ.
fn lengths(elements: &[Expr]) -> Option<Vec<usize>> {
    let of_element = |element: &Expr| match element {
        Expr::Array(array) => lengths(&array.elem).map(|mut inner| {
            inner.insert(0, array.elem.len());
            inner
        }),
        _ => Some(vec![]),
    };
    let are_arrays = elements.iter().all(|element| matches!(element, Expr::Array(_)));
    let mut all = elements.iter().filter(|_| are_arrays).map(of_element);
    let Some(first) = all.next() else { return Some(vec![]) };
    let first = first?;
    all.all(|other| other.as_ref() == Some(&first)).then_some(first)
}
