//! How many rows a batch of a plan has: fewer where rows are wide.
//!
//! Batches are bounded in rows, and what is on its way between operators is not reserved row by row. Documents of some
//! kilobytes in 8192 rows would be more than all that is accounted for. So where the columns that a plan reads are
//! wide, as the statistics of its tables say, all of its batches have fewer rows: half as many, a quarter, and so on,
//! so that scans of about the same width can still share what they decode. What operators make wide themselves, they
//! bound themselves ([`Widening`](crate::operators::widening::Widening)).

use datafusion_common::Statistics;
use datafusion_common::stats::Precision;
use diligence_base::limits::BATCH_ROWS_MIN;

use super::{Node, Plan, PlanTables, Scan};

/// What a value is taken for of which nothing is known.
const VALUE_BYTES: usize = 24;

impl Plan {
    /// Rows that a batch may have, at most `rows_max`, if it should have no more than so many bytes.
    pub(crate) fn batch_rows(&self, rows_max: usize, bytes: usize, tables: &PlanTables) -> usize {
        let row_bytes = row_bytes_most(self, tables);
        let mut rows = rows_max;
        while rows > BATCH_ROWS_MIN && rows.saturating_mul(row_bytes) > bytes {
            rows = rows.div_ceil(2);
        }
        rows
    }
}

/// Bytes that a row has on the average at most, wherever it is in the plan: all that its scans read, side by side.
fn row_bytes_most(plan: &Plan, tables: &PlanTables) -> usize {
    let own = if let Node::Scan(scan) = &plan.node { scanned_bytes(scan, tables) } else { 0 };
    plan.inputs().into_iter().map(|input| row_bytes_most(input, tables)).fold(own, usize::saturating_add)
}

fn scanned_bytes(scan: &Scan, tables: &PlanTables) -> usize {
    let schema = &scan.table_schema;
    let mut columns = scan.columns.clone();
    columns.extend(scan.filters.iter().flat_map(|filter| filter.columns().iter().copied()));
    columns.sort_unstable();
    columns.dedup();
    let width = |column: usize| schema.field(column).data_type().primitive_width();
    let (fixed, variable): (Vec<_>, Vec<_>) = columns.into_iter().partition(|&column| width(column).is_some());
    let fixed = fixed.into_iter().filter_map(width).sum::<usize>();
    if variable.is_empty() {
        return fixed;
    }
    let statistics =
        tables.find(scan.table).map_or_else(|| Statistics::new_unknown(schema), |table| table.statistics());
    let known = |precision: &Precision<usize>| precision.get_value().copied();
    let rows = known(&statistics.num_rows).unwrap_or(0).max(1);
    let of_column =
        |column: &usize| statistics.column_statistics.get(*column).and_then(|column| known(&column.byte_size));
    let known_bytes = variable.iter().map(of_column).sum::<Option<usize>>();
    let bytes = match (known_bytes, known(&statistics.num_rows), known(&statistics.total_byte_size)) {
        (Some(bytes), Some(_), _) => bytes / rows,
        // All columns together have no less than these.
        (None, Some(_), Some(bytes)) => bytes / rows,
        _ => variable.len() * VALUE_BYTES,
    };
    fixed + bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, StringViewArray};
    use diligence_base::ids::TableVersion;
    use diligence_storage::memory::MemoryTable;

    use super::*;

    /// A scan of numbers, and of texts of so many bytes.
    fn scan(columns: Vec<usize>, text_bytes: usize) -> (Plan, PlanTables) {
        let texts = (0..4).map(|row| row.to_string().repeat(text_bytes)).collect::<Vec<_>>();
        let columns_of = [
            ("a", Arc::new(Int64Array::from_iter_values(0..4)) as _),
            ("b", Arc::new(StringViewArray::from_iter_values(texts)) as _),
        ];
        let batch = RecordBatch::try_from_iter(columns_of).unwrap();
        let schema = batch.schema();
        let table = MemoryTable::new("t".to_owned(), schema.clone(), vec![batch], TableVersion(1)).unwrap();
        let schema = Arc::new(schema.project(&columns).unwrap());
        let plan = Plan::new(Node::Scan(Scan::new(&table, "t", columns)), schema);
        (plan, [Arc::new(table) as _].into_iter().collect())
    }

    #[test]
    fn wide_rows_come_in_smaller_batches() {
        let rows = |(plan, tables): &(Plan, PlanTables)| plan.batch_rows(8192, 4 << 20, tables);
        assert_eq!(rows(&scan(vec![0, 1], 10)), 8192);
        assert_eq!(rows(&scan(vec![0], 1_000_000)), 8192, "nobody reads the texts");
        let wide = rows(&scan(vec![0, 1], 20_000));
        assert!((64..=256).contains(&wide), "4 MiB of 20 kB: {wide}");
        assert_eq!(rows(&scan(vec![1], 10_000_000)), BATCH_ROWS_MIN);
        let (plan, tables) = scan(vec![1], 20_000);
        assert!(plan.batch_rows(8192, 512 << 10, &tables) <= wide / 4);
        assert_eq!(plan.batch_rows(3, 512 << 10, &tables), 3, "as few as were asked for");
        // All that a join puts side by side.
        let schema = plan.schema.clone();
        let both = Plan::new(Node::Union { inputs: vec![plan.clone(), plan] }, schema);
        assert_eq!(rows(&(both, tables)), wide / 2);
    }
}
