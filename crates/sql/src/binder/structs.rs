//! Structs whose columns have other names, or stand in another order: they go by the names.

use diligence_base::Result;
use diligence_types::SqlType;
use diligence_types::coercion::common_type;

use super::Binder;
use super::operators::Way;
use crate::algebra::Scalar;

impl Binder<'_> {
    /// Two values that are compared: structs with other columns, or the same in another order, become ones that have
    /// the columns of both. Fails where a cast to their common type does.
    pub(super) fn structs_alike(&self, left: Scalar, right: Scalar) -> Result<(Scalar, Scalar)> {
        let types = [left.sql_type(), right.sql_type()];
        match &types {
            [SqlType::Record(one), SqlType::Record(other)] if one.has_other_columns(other) => {}
            _ => return Ok((left, right)),
        }
        match common_type(&types) {
            Some(common) => Ok((self.cast(left, &common, Way::Implicit)?, self.cast(right, &common, Way::Implicit)?)),
            None => Ok((left, right)),
        }
    }

    /// Two rows or structs whose columns have other types, as of the types that these have in common; others as they
    /// are. Fails with 42804 if a literal is no value of the other's type.
    pub(super) fn fields_in_common(&self, left: Scalar, right: Scalar) -> Result<(Scalar, Scalar)> {
        let types = [left.sql_type(), right.sql_type()];
        let [SqlType::Record(one), SqlType::Record(other)] = &types else { return Ok((left, right)) };
        let are_alike = one.iter().zip(other.iter()).all(|(one, other)| one.sql_type == other.sql_type);
        let (left, right) = match common_type(&types).filter(|_| !are_alike) {
            Some(common) => (self.cast(left, &common, Way::Implicit)?, self.cast(right, &common, Way::Implicit)?),
            None => (left, right),
        };
        Ok((self.typed(left)?, self.typed(right)?))
    }
}
