//! Rows and structs: how they are made, and what their fields are.

use diligence_base::Result;
use diligence_types::SqlType;
use diligence_types::functions::scalars;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Ident};

use super::super::fields::SET_FIELD;
use super::super::normalized;
use super::super::operators::{record, row};
use super::SpecialCall;
use crate::algebra::{Constant, Scalar};
use crate::parse::WHOLE_ROW;

impl SpecialCall<'_, '_, '_> {
    /// A row or a struct, or of one.
    pub(super) fn of_structs(&self) -> Result<Option<Scalar>> {
        let scalar = match self.name {
            "row" => self.row_fields().map(row),
            WHOLE_ROW => self.whole_row(),
            "struct" if scalars(self.name).is_empty() => {
                Ok(record(self.bound()?, (1..).map(|index| format!("c{}", index - 1))))
            }
            "struct_pack" => self.struct_pack(),
            "named_struct" => self.named_struct(),
            "union_value" => self.union_value(),
            "union_tag" => self.union_tag(),
            "struct_extract" | "union_extract" => self.extracted_field(),
            "struct_keys" => self.struct_keys(),
            "struct_insert" => self.struct_insert(),
            SET_FIELD => self.binder.with_field_set(self.bound()?),
            "json_populate_record" | "jsonb_populate_record" => {
                let Some(row) = self.binder.populated_row(self.name, self.written(), self.level)? else {
                    return Ok(None);
                };
                self.binder.scalar(&row, self.level)
            }
            _ => return Ok(None),
        };
        scalar.map(Some)
    }

    /// The fields of `ROW(…)`: of `t.*`, all of the columns.
    fn row_fields(&self) -> Result<Vec<Scalar>> {
        let mut fields = Vec::with_capacity(self.written().len());
        for argument in self.written() {
            let columns = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    let names = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<_>>();
                    self.fields_of_row(&names)?
                }
                _ => None,
            };
            match columns {
                Some(columns) => fields.extend(columns),
                None => fields.extend(self.binder.arguments("row", std::slice::from_ref(argument), self.level)?),
            }
        }
        Ok(fields)
    }

    /// The columns of a source, each by itself; `None` if the names are none's.
    fn fields_of_row(&self, names: &[Ident]) -> Result<Option<Vec<Scalar>>> {
        let Some(whole) = self.binder.whole_row(names, self.level) else { return Ok(None) };
        let SqlType::Record(types) = whole.sql_type() else { return Ok(Some(vec![whole])) };
        if let Scalar::Record { fields, .. } = whole {
            return Ok(Some(fields));
        }
        types.iter().map(|own| self.field(&whole, &own.name)).collect::<Result<_>>().map(Some)
    }

    fn field(&self, record: &Scalar, name: &str) -> Result<Scalar> {
        self.binder.field(record.clone(), &Ident::with_quote('"', name))
    }

    /// `t` of `(t)`, as a row.
    fn whole_row(&self) -> Result<Scalar> {
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(name))] = self.written() else {
            return Err(self.wrong("the name of a table"));
        };
        let names = match name {
            Expr::Identifier(name) => vec![name.clone()],
            Expr::CompoundIdentifier(names) => names.clone(),
            _ => vec![],
        };
        match self.fields_of_row(&names)? {
            Some(fields) => Ok(row(fields)),
            // A variable, in PL/pgSQL.
            None => self.binder.scalar(name, self.level),
        }
    }

    fn struct_pack(&self) -> Result<Scalar> {
        let mut names = Vec::new();
        let fields = self.written().iter().map(|argument| match argument {
            FunctionArg::Named { name, arg, .. } => {
                names.push(normalized(name));
                self.typed_argument(arg)
            }
            // A column's name is its field's.
            FunctionArg::Unnamed(FunctionArgExpr::Expr(
                column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)),
            )) => {
                names.push(self.binder.column_name(column));
                self.binder.typed_scalar(column, self.level)
            }
            _ => Err(self.wrong("arguments with names: struct_pack(a := 1)")),
        });
        let fields = fields.collect::<Result<Vec<_>>>()?;
        Ok(record(fields, names.into_iter()))
    }

    fn typed_argument(&self, argument: &FunctionArgExpr) -> Result<Scalar> {
        self.binder.typed(self.binder.argument(argument, self.level)?)
    }

    /// `named_struct('a', 1, 'b', 2)`.
    fn named_struct(&self) -> Result<Scalar> {
        let mut names = Vec::new();
        let mut fields = Vec::new();
        let mut arguments = self.bound()?.into_iter();
        while let Some(field) = arguments.next() {
            let value = arguments.next().ok_or_else(|| self.wrong("pairs of a name and a value"))?;
            names.push(literal(&field).ok_or_else(|| self.wrong("names as literals"))?);
            fields.push(self.binder.typed(value)?);
        }
        Ok(record(fields, names.into_iter()))
    }

    /// A union is held as a struct of the one member that it has.
    fn union_value(&self) -> Result<Scalar> {
        let [FunctionArg::Named { name, arg, .. }] = self.written() else {
            return Err(self.wrong("one argument with a name: union_value(a := 1)"));
        };
        Ok(record(vec![self.typed_argument(arg)?], std::iter::once(normalized(name))))
    }

    fn union_tag(&self) -> Result<Scalar> {
        let [union] = self.exactly("a union")?;
        match union.sql_type() {
            SqlType::Record(fields) if fields.len() == 1 => Ok(text(&fields[0])),
            _ => Err(self.wrong("a union")),
        }
    }

    /// The field of a name, or of a number.
    fn extracted_field(&self) -> Result<Scalar> {
        let [row, field] = self.exactly("a struct and the name of a field")?;
        let is_number = matches!(field.sql_type(), SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
        if is_number {
            return self.binder.subscript(row, field);
        }
        let name = literal(&field).ok_or_else(|| self.wrong("the name of a field as a literal"))?;
        self.field(&row, &name)
    }

    fn struct_keys(&self) -> Result<Scalar> {
        let [row] = self.exactly("a struct")?;
        let SqlType::Record(fields) = row.sql_type() else { return Err(self.wrong("a struct")) };
        self.binder.array(fields.iter().map(text).collect())
    }

    fn struct_insert(&self) -> Result<Scalar> {
        let [FunctionArg::Unnamed(row), more @ ..] = self.written() else {
            return Err(self.wrong("a struct and fields: struct_insert(s, a := 1)"));
        };
        let row = self.binder.argument(row, self.level)?;
        let SqlType::Record(known) = row.sql_type() else { return Err(self.wrong("a struct first")) };
        let mut fields = known.iter().map(|field| self.field(&row, &field.name)).collect::<Result<Vec<_>>>()?;
        let mut names = known.iter().map(|field| field.name.clone()).collect::<Vec<_>>();
        for argument in more {
            let FunctionArg::Named { name, arg, .. } = argument else {
                return Err(self.wrong("fields with names: struct_insert(s, a := 1)"));
            };
            names.push(normalized(name));
            fields.push(self.typed_argument(arg)?);
        }
        Ok(record(fields, names.into_iter()))
    }
}

/// What a literal says.
fn literal(scalar: &Scalar) -> Option<String> {
    super::Binder::candidate(scalar).literal
}

/// A field's name.
fn text(field: &RecordField) -> Scalar {
    Scalar::Constant(Constant::text(field.name.clone()))
}
