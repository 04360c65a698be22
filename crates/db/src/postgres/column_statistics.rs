//! `pg_stats`: what the optimizer knows of the columns of tables. It is known without ANALYZE.

use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use datafusion_common::{ColumnStatistics, ScalarValue};
use diligence_catalog::{Relation, SessionSnapshot};

use super::rows::Cell;

/// Where more than this part of the rows have values of their own, there are the more values the more rows there are.
const GROWING_PART: f64 = 0.1;

/// The columns. Of most common values and of the order on disk nothing is known.
pub(super) const COLUMNS: &str = "schemaname:n tablename:n attname:n inherited:b null_frac:r avg_width:i n_distinct:r \
     most_common_vals most_common_freqs histogram_bounds correlation:r most_common_elems most_common_elem_freqs \
     elem_count_histogram";

/// A row for each column of each table that has rows and that the session may read.
pub(super) fn rows(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let readable = snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name));
    for object in readable.filter(|object| snapshot.sees(&object.name)) {
        let Relation::Native(table) = &object.relation else { continue };
        if table.rows() == 0 {
            continue;
        }
        let statistics = table.table().statistics();
        for (field, known) in table.schema().fields().iter().zip(&statistics.column_statistics) {
            let (schema, name) = (object.name.schema.as_str(), object.name.name.as_str());
            let mut row = vec![schema.into(), name.into(), field.name().as_str().into(), false.into()];
            row.extend(of_column(known, table.rows()));
            rows.push(row);
        }
    }
    rows
}

/// From `null_frac` to `histogram_bounds`.
fn of_column(known: &ColumnStatistics, rows: usize) -> [Cell; 6] {
    let part = |count: usize| count as f64 / rows as f64;
    let nulls = known.null_count.get_value().map_or(Cell::Null, |nulls| real(part(*nulls)));
    let width = known.byte_size.get_value().map_or(Cell::Null, |bytes| Cell::Number((bytes / rows) as i64));
    // As PostgreSQL has it: so many, less than none for a part of the rows, and 0 where it is not known.
    let distinct = known.distinct_count.get_value().map_or(0.0, |distinct| match part(*distinct) {
        part if part > GROWING_PART => -part.min(1.0),
        _ => *distinct as f64,
    });
    [nulls, width, real(distinct), Cell::Null, Cell::Null, bounds(known)]
}

fn real(value: f64) -> Cell {
    Cell::Text(value.to_string())
}

/// The least and the greatest value, as bounds of a histogram with one part.
fn bounds(known: &ColumnStatistics) -> Cell {
    let [least, greatest] = [&known.min_value, &known.max_value].map(|value| value.get_value().and_then(shown));
    match (least, greatest) {
        (Some(least), Some(greatest)) if least != greatest => Cell::Text(format!("{{{least},{greatest}}}")),
        _ => Cell::Null,
    }
}

/// A value as an element of an array that is shown; `None` for NULL, and where it cannot be shown.
fn shown(value: &ScalarValue) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let array = value.to_array().ok()?;
    let text = array_value_to_string(&array, 0).ok()?;
    let text = match value.data_type() {
        DataType::Timestamp(..) => text.replace('T', " "),
        _ => text,
    };
    let is_plain = |letter: char| letter.is_alphanumeric() || "-.:+_".contains(letter);
    match !text.is_empty() && !text.eq_ignore_ascii_case("null") && text.chars().all(is_plain) {
        true => Some(text),
        false => Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
    }
}
