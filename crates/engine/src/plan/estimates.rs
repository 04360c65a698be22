//! What is guessed where nothing is known of sizes: one number each, for planning, admission, sharing and operators.
//!
//! A wrong guess costs time or memory, never rows.

use arrow::datatypes::Schema;
use datafusion_common::stats::Precision;
use diligence_storage::Table;

/// Rows that a table is taken for when nothing is known of it. More than a cheap query touches, so that a server takes
/// a scan of it for a heavy one.
pub const UNKNOWN_ROWS: usize = 2_000_000;
/// Rows that a table function is taken for, and the step of a recursive query.
pub const MADE_ROWS: usize = 100_000;
/// Bytes that a string is taken for.
const STRING_BYTES: usize = 24;
/// Bytes that a row of a text file is taken for, for each of its columns.
const TEXT_COLUMN_BYTES: usize = 8;
/// What a row costs in a hash table, beside its values: its hash, its place, and the table's free slots.
pub const HASH_ROW_BYTES: usize = 32;
/// The same while the table is made, when there are hashes and places in the order of arrival as well.
pub const HASH_ROW_BYTES_MAKING: usize = 2 * HASH_ROW_BYTES;
/// What a row costs in a sort, beside its values: its key in comparable form, and its number.
pub const SORT_ROW_BYTES: usize = 32;

/// Rows of a table: counted, or guessed from its bytes, or [`UNKNOWN_ROWS`].
pub fn table_rows(table: &dyn Table) -> usize {
    let statistics = table.statistics();
    match (statistics.num_rows, statistics.total_byte_size) {
        (Precision::Exact(rows) | Precision::Inexact(rows), _) => rows,
        (Precision::Absent, Precision::Exact(bytes) | Precision::Inexact(bytes)) => {
            bytes / (table.schema().fields().len().max(1) * TEXT_COLUMN_BYTES)
        }
        (Precision::Absent, Precision::Absent) => UNKNOWN_ROWS,
    }
}

/// Bytes of a row in memory, at least one.
pub fn row_bytes(schema: &Schema) -> usize {
    let columns = schema.fields().iter();
    columns.map(|field| field.data_type().primitive_width().unwrap_or(STRING_BYTES)).sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, SchemaRef};
    use datafusion_common::Statistics;
    use diligence_base::ids::{TableId, TableIdentity, TableVersion};
    use diligence_base::{Error, Result};
    use diligence_storage::{ScanRequest, TableScan};

    use super::*;

    /// A table of which its statistics are known.
    #[derive(Debug)]
    struct Described(SchemaRef, Statistics);

    impl Table for Described {
        fn schema(&self) -> SchemaRef {
            self.0.clone()
        }

        fn identity(&self) -> TableIdentity {
            TableIdentity::of(TableId(0), TableVersion(0))
        }

        fn statistics(&self) -> Statistics {
            self.1.clone()
        }

        fn scan(&self, _: &ScanRequest) -> Result<TableScan> {
            Err(Error::unsupported("rows are not read"))
        }

        fn describe(&self) -> String {
            "described".into()
        }
    }

    #[test]
    fn rows_are_counted_or_follow_from_bytes_or_are_unknown() {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        let schema: SchemaRef = Schema::new(fields.to_vec()).into();
        let rows = |num_rows, total_byte_size| {
            let statistics = Statistics { num_rows, total_byte_size, ..Statistics::new_unknown(&schema) };
            table_rows(&Described(schema.clone(), statistics))
        };
        assert_eq!(rows(Precision::Inexact(5), Precision::Exact(1_000_000)), 5);
        assert_eq!(rows(Precision::Absent, Precision::Exact(160)), 10);
        assert_eq!(rows(Precision::Absent, Precision::Absent), UNKNOWN_ROWS);
    }

    #[test]
    fn a_row_has_the_bytes_of_its_columns_and_at_least_one() {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8View), ("c", DataType::Int32)];
        let schema = Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec());
        assert_eq!(row_bytes(&schema), 8 + STRING_BYTES + 4);
        assert_eq!(row_bytes(&Schema::empty()), 1);
    }
}
