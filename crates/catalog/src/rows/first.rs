//! The first rows in an order, along an index that has it.
//!
//! What index and condition say must be exact here: a row beside those that are wanted would take the place of one.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_physical_expr::PhysicalExpr;
use diligence_storage::{FirstRows, OrderColumn};
use diligence_types::SqlType;

use crate::access::Conditions;
use crate::index::KeyIndex;
use crate::key_block::KEY_BYTES_MAX;
use crate::pieces::RowFinder;
use crate::rules::Key;

use super::{FEW_ROWS, MEMORY_ROWS_PER_ROW, TableRows};

/// Entries that are looked at for a row, most of them of rows that are gone, at most.
const STEPS_PER_ROW: usize = 8;
/// So many are always looked at.
const STEPS_MIN: usize = 1024;

/// The numbers of the first rows in all these orders, of those of which a condition is true, and the names of the
/// indexes that have them; `None` if an order is that of no index.
pub(crate) fn first_numbers(
    rows: &TableRows,
    condition: Option<&Arc<dyn PhysicalExpr>>,
    wanted: &[FirstRows],
) -> Option<(String, Vec<i64>)> {
    let few =
        |wanted: &FirstRows| wanted.rows <= FEW_ROWS || wanted.rows.saturating_mul(MEMORY_ROWS_PER_ROW) <= rows.rows;
    if rows.indexes.is_empty() || !wanted.iter().all(few) {
        return None;
    }
    let conditions = condition.map(Conditions::of);
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    for wanted in wanted {
        let keys = rows.declared.rules.keys.iter().zip(&rows.indexes);
        let mut usable = keys.filter(|(key, index)| key.is_whole() && !index.is_broken());
        let (name, own) = usable.find_map(|(key, index)| {
            let own = along(rows, key, index, conditions.as_ref(), wanted)?;
            index.count_use(own.len());
            Some((&key.name, own))
        })?;
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
        numbers.extend(own);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some((names.join(", "), numbers))
}

/// The numbers of the first rows, along one index; `None` if it does not have the order.
fn along(
    rows: &TableRows,
    key: &Key,
    index: &KeyIndex,
    conditions: Option<&Conditions<'_>>,
    wanted: &FirstRows,
) -> Option<Vec<i64>> {
    let schema = &rows.declared.schema;
    let places = key.columns.iter().map(|name| schema.index_of(name).ok()).collect::<Option<Vec<_>>>()?;
    let fields = places.iter().map(|place| schema.field(*place)).collect::<Vec<_>>();
    if !fields.iter().all(|field| SqlType::of_field(field).is_some_and(|own| is_ordered_alike(own.base()))) {
        return None;
    }
    let types = fields.iter().map(|field| field.data_type().clone()).collect::<Vec<DataType>>();
    let (equal, is_bounded, mut range) = match conditions {
        Some(conditions) => conditions.exact_range(key, &types, schema)?,
        None => (0, false, Conditions::whole_range()),
    };
    // Columns of one value only have no part in the order.
    let is_free = |column: &&OrderColumn| !places[..equal].contains(&column.column);
    let order = wanted.order.iter().filter(is_free).collect::<Vec<_>>();
    let descending = order.first().is_some_and(|column| column.descending);
    for (at, column) in order.iter().enumerate() {
        let Some(place) = places.get(equal + at) else {
            // A unique key without NULLs tells all rows apart: what comes behind it orders nothing.
            let is_required = fields.iter().all(|field| !field.is_nullable());
            if key.tells_apart() && is_required {
                break;
            }
            return None;
        };
        if *place != column.column || column.descending != descending {
            return None;
        }
        let has_nulls = schema.field(*place).is_nullable() && !(at == 0 && is_bounded);
        match column.nulls_first {
            None if order.len() > 1 => return None,
            None => range = Conditions::without_nulls(range, is_bounded),
            // NULLs are behind all values in an index.
            Some(nulls_first) if has_nulls && nulls_first != descending => return None,
            Some(_) => {}
        }
    }
    let finder = RowFinder::new(&rows.pieces, Vec::new());
    let (mut numbers, mut steps, mut is_exact) = (Vec::new(), 0, true);
    if wanted.rows == 0 {
        return Some(numbers);
    }
    let walked = index.walk(&range, descending, |bytes, number| {
        steps += 1;
        // The order of very long keys is not known.
        is_exact = bytes.len() < KEY_BYTES_MAX && steps <= STEPS_MIN + wanted.rows * STEPS_PER_ROW;
        if is_exact && finder.has(number) {
            numbers.push(number);
        }
        is_exact && numbers.len() < wanted.rows
    });
    // Where the index cannot be read, the rows can.
    (is_exact && walked.is_ok()).then_some(numbers)
}

/// Whether values of a type have the same order in an index and in ORDER BY. Floats may not: there are two zeros, and
/// NaNs with a sign.
fn is_ordered_alike(sql_type: &SqlType) -> bool {
    matches!(
        sql_type,
        SqlType::SmallInt
            | SqlType::Integer
            | SqlType::BigInt
            | SqlType::Numeric(_)
            | SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Name
            | SqlType::Bytea
            | SqlType::Date
            | SqlType::Time
            | SqlType::Timestamp
            | SqlType::TimestampTz
            | SqlType::Uuid
    )
}
