//! `tableoid`: the number of the table that a row is of.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::sql_type::OidKind;
use sqlparser::ast::Ident;

use super::scope::{Level, Source};
use super::{Binder, name_place};
use crate::algebra::{Constant, Scalar};
use crate::errors;

/// What the column is called.
const NAME: &str = "tableoid";

/// A table's name as it is written, which `regclass` reads.
pub(super) fn written(parts: &[&Ident]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

impl Binder<'_> {
    /// What `tableoid` means at a level, if it is this name: the number of its table. Fails with 42702 if several
    /// tables have one.
    pub(super) fn table_number(&self, name: &Ident, level: &Level<'_>) -> Result<Option<Scalar>> {
        if !name.value.eq_ignore_ascii_case(NAME) {
            return Ok(None);
        }
        for at in level.chain() {
            let mut tables = at.names.reached().filter(|source| source.relation.is_some());
            match (tables.next(), tables.next()) {
                (None, _) => {}
                (Some(source), None) => return Ok(self.number_of_table(source, name)),
                (Some(_), Some(_)) => {
                    let error = Error::input("column reference \"tableoid\" is ambiguous").with_code("42702");
                    return Err(errors::at(error, name_place(name)));
                }
            }
        }
        Ok(None)
    }

    /// `t.tableoid` of a source: NULL in rows that an outer join made up. `None` for another name, and of what is no
    /// table.
    pub(super) fn number_of_table(&self, source: &Source, name: &Ident) -> Option<Scalar> {
        if !name.value.eq_ignore_ascii_case(NAME) {
            return None;
        }
        let number = self.context.object(OidKind::Class, source.relation.as_deref()?)?;
        // Another table may have the name the next time.
        self.is_transient.set(true);
        let number = Constant { value: ScalarValue::Int64(Some(number)), sql_type: SqlType::OID };
        Some(source.where_it_is(Scalar::Constant(number)))
    }
}
