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
}
