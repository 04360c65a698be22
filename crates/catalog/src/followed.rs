//! Rows that follow those which they refer to: no statement was planned for them, so somebody else knows what their
//! table's rules say of them.

use std::fmt;

use arrow::array::RecordBatch;
use diligence_base::Result;

use crate::{CatalogSnapshot, NativeTable};

/// Knows what the expressions in tables' rules say of rows.
pub trait RowRules: fmt::Debug + Send + Sync {
    /// Rows of a table as they are to be written, after the columns of these names have got other values: the values
    /// become the columns' types, defaults if `to_defaults`, generated columns are computed anew, and conditions are
    /// held against the rows. `names` are those that the expressions are about. Called under the catalog's lock, so the
    /// catalog itself is not to be asked. Fails with code 23514 if a condition does not hold, 22001 if a text is too
    /// long, 0A000 for expressions that are others each time.
    fn followed(
        &self,
        names: &CatalogSnapshot,
        table: &NativeTable,
        rows: RecordBatch,
        columns: &[String],
        to_defaults: bool,
    ) -> Result<RecordBatch>;
}
