//! `pg_column_size`: the bytes that PostgreSQL would take for a value.

use diligence_base::Result;
use diligence_types::SqlType;
use diligence_types::sql_type::OidKind;

use super::Binder;
use super::operators::Way;
use crate::algebra::{Constant, Scalar};

/// Bytes in front of a value of no fixed size.
const HEADER_BYTES: i32 = 4;

impl Binder<'_> {
    /// The bytes of a value: those of its type, or those of its text and what stands in front of it.
    pub(super) fn column_size(&self, value: Scalar) -> Result<Scalar> {
        let sql_type = value.sql_type();
        let Some(bytes) = fixed_bytes(&sql_type) else {
            let bytes = match &sql_type {
                SqlType::Bytea => self.call("octet_length", vec![value])?,
                _ => {
                    let text = self.explicit(value, &SqlType::Text, false)?;
                    self.call("octet_length", vec![text])?
                }
            };
            let bytes = self.cast(bytes, &SqlType::Integer, Way::Explicit)?;
            return self.operator("+", vec![bytes, Scalar::Constant(Constant::integer(HEADER_BYTES))]);
        };
        let there = Scalar::IsNull(Box::new(value)).negate();
        let bytes = Scalar::Constant(Constant::integer(bytes));
        Ok(Scalar::Case { arms: vec![(there, bytes)], otherwise: None, sql_type: SqlType::Integer })
    }
}

/// The bytes of every value of a type, if all have as many.
fn fixed_bytes(sql_type: &SqlType) -> Option<i32> {
    Some(match sql_type {
        SqlType::Boolean => 1,
        SqlType::SmallInt => 2,
        SqlType::Integer | SqlType::Real | SqlType::Date | SqlType::Enum(_) => 4,
        SqlType::Oid(OidKind::Oid | OidKind::Class | OidKind::Type | OidKind::Namespace | OidKind::Role) => 4,
        SqlType::BigInt | SqlType::Double | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz => 8,
        SqlType::TimeTz => 12,
        SqlType::Interval | SqlType::Uuid => 16,
        SqlType::Name => 64,
        _ => return None,
    })
}
