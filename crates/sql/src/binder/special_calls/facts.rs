//! Facts that are known while a statement is bound: types, objects of the catalog, settings and variables.

use diligence_base::{Error, Result};
use diligence_types::sql_type::OidKind;
use diligence_types::{SqlType, quoted_name};
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr};

use super::super::operators::Way;
use super::super::{Binder, normalized};
use super::SpecialCall;
use crate::algebra::{Comparison, Constant, Scalar};
use crate::parse::{CURRENT_OF, GIVEN_AS};
use crate::type_names;

impl SpecialCall<'_, '_, '_> {
    /// A fact.
    pub(super) fn fact(&self) -> Result<Option<Scalar>> {
        let scalar = match self.name {
            "to_regnamespace" => self.object(OidKind::Namespace),
            "to_regprocedure" => self.object(OidKind::Signature),
            "to_regrole" => self.object(OidKind::Role),
            "pg_column_size" => {
                let [value] = self.exactly("one argument")?;
                self.binder.column_size(self.binder.typed(value)?)
            }
            "pg_collation_for" => {
                let [scalar] = self.exactly("one argument")?;
                let name = self.binder.collation_for(&scalar)?;
                Ok(Scalar::Constant(name.map_or_else(|| Constant::null(SqlType::Text), Constant::text)))
            }
            "pg_typeof" => self.type_name(),
            GIVEN_AS => {
                let [given, name] = self.exactly("a parameter and the name of a type")?;
                let sql_type = Binder::candidate(&name).literal.and_then(|name| SqlType::parse(&name));
                self.binder.explicit(given, &sql_type.ok_or_else(|| self.wrong("the name of a type"))?, false)
            }
            CURRENT_OF => Err(self.no_cursor()),
            "getvariable" => self.variable(),
            "alias" => self.alias(),
            "current_setting" => self.setting(),
            _ => return Ok(None),
        };
        scalar.map(Some)
    }

    fn object(&self, kind: OidKind) -> Result<Scalar> {
        let [text] = self.exactly("a name")?;
        self.binder.object_or_null(&text, kind)
    }

    fn type_name(&self) -> Result<Scalar> {
        let [argument] = self.exactly("one argument")?;
        let argument = self.binder.typed_array(argument)?;
        let sql_type = argument.sql_type().without_modifier();
        let name = sql_type.to_string();
        let name = match type_names::made(&sql_type) {
            Some((schema, own)) if self.binder.context.finds_type(schema, own) => {
                let schema = format!("{}.", quoted_name(schema));
                name.strip_prefix(&schema).map(str::to_owned).unwrap_or(name)
            }
            _ => name,
        };
        let name = if name == "bpchar" { "character".to_owned() } else { name };
        Ok(Scalar::Constant(Constant::text(name)))
    }

    /// DuckDB's name of an expression: of a column its own.
    fn alias(&self) -> Result<Scalar> {
        let [_value] = self.exactly("one argument")?;
        let name = match self.written() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name)))] => normalized(name),
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts)))] => {
                parts.last().map(normalized).unwrap_or_default()
            }
            [argument] => argument.to_string(),
            _ => String::new(),
        };
        Ok(Scalar::Constant(Constant::text(name)))
    }

    /// The error for WHERE CURRENT OF a cursor that nobody knows.
    fn no_cursor(&self) -> Error {
        let cursor = match self.written() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(cursor))] => cursor.to_string(),
            _ => String::new(),
        };
        let message = format!("cursor \"{}\" does not exist", cursor.trim_matches('\''));
        let hint = "it may be one of the PL/pgSQL function that the statement is in, or of DECLARE in the transaction";
        Error::input(message).with_code("34000").with_hint(hint)
    }

    fn variable(&self) -> Result<Scalar> {
        let [name] = self.exactly("one argument")?;
        let literal = Binder::candidate(&name).literal;
        self.binder.is_transient.set(true);
        let name = literal.ok_or_else(|| self.wrong("the name of a variable in quotes"))?;
        let value = self.binder.context.variable(&name.to_lowercase());
        Ok(Scalar::Constant(value.unwrap_or_else(|| Constant::null(SqlType::Text))))
    }

    fn setting(&self) -> Result<Scalar> {
        let arguments = self.bound()?;
        let literal = arguments.first().and_then(|argument| Binder::candidate(argument).literal);
        self.binder.is_transient.set(true);
        let Some(setting) = literal else {
            let name = arguments.into_iter().next().ok_or_else(|| self.wrong("the name of a setting"))?;
            return self.setting_of_row(name);
        };
        match self.binder.context.setting(&setting.to_lowercase()) {
            Some(value) => Ok(Scalar::Constant(Constant::text(value))),
            None if arguments.len() > 1 => Ok(Scalar::Constant(Constant::null(SqlType::Text))),
            None => {
                let message = format!("unrecognized configuration parameter \"{setting}\"");
                Err(Error::input(message).with_code("42704"))
            }
        }
    }

    /// The setting whose name comes with the values of parameters, or from a row.
    fn setting_of_row(&self, name: Scalar) -> Result<Scalar> {
        let name = self.binder.cast(name, &SqlType::Text, Way::Explicit)?;
        let arm = |(known, value): (String, String)| {
            let known = Scalar::Constant(Constant::text(known));
            let is_it = self.binder.compare(Comparison::Equal, name.clone(), known)?;
            Ok((is_it, Scalar::Constant(Constant::text(value))))
        };
        let arms = self.binder.context.settings().into_iter().map(arm).collect::<Result<Vec<_>>>()?;
        Ok(match arms.is_empty() {
            true => Scalar::Constant(Constant::null(SqlType::Text)),
            false => Scalar::Case { arms, otherwise: None, sql_type: SqlType::Text },
        })
    }
}
