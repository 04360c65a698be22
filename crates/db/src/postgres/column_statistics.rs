//! `pg_stats`: what is known of the columns of tables, without ANALYZE. NULLs and distinct values are those that the
//! optimizer knows. The most common values, the histogram and the order on disk are those of a sample that is looked
//! at when somebody asks, chosen as PostgreSQL's ANALYZE does.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, UInt32Array, make_comparator};
use arrow::compute::{SortOptions, cast, concat, sort_to_indices, take};
use datafusion_common::ColumnStatistics;
use diligence_catalog::{NativeTable, Piece, Relation, SessionSnapshot};
use diligence_types::{SqlType, text};

use super::rows::Cell;

/// Where more than this part of the rows have values of their own, there are the more values the more rows there are.
const GROWING_PART: f64 = 0.1;
/// Rows that are looked at, at most.
const SAMPLE_ROWS: usize = 30_000;
/// They are taken from so many pieces of a table, and from so many places of each.
const SAMPLE_PIECES: usize = 4;
const SAMPLE_PLACES: usize = 64;
/// Common values, and parts of a histogram, at most.
const TARGET: usize = 100;
/// Bytes of a value that is shown, at most.
const WIDTH_MAX: usize = 1024;
/// The zone of times that are shown: that of the session is not known here.
const ZONE: &str = "UTC";

/// The columns. Of elements of arrays nothing is known.
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
        let columns = table.schema().fields().iter().zip(&statistics.column_statistics);
        for (place, (field, known)) in columns.enumerate() {
            let (schema, name) = (object.name.schema.as_str(), object.name.name.as_str());
            let mut row = vec![schema.into(), name.into(), field.name().as_str().into(), false.into()];
            row.extend(of_column(known, table.rows()));
            let values = SqlType::of_field(field).and_then(|sql_type| Sampled::of(table, place, &sql_type));
            row.extend(values.map_or_else(|| [const { Cell::Null }; 4], |values| values.cells()));
            rows.push(row);
        }
    }
    rows
}

/// From `null_frac` to `n_distinct`.
fn of_column(known: &ColumnStatistics, rows: usize) -> [Cell; 3] {
    let part = |count: usize| count as f64 / rows as f64;
    let nulls = known.null_count.get_value().map_or(Cell::Null, |nulls| real(part(*nulls)));
    let width = known.byte_size.get_value().map_or(Cell::Null, |bytes| Cell::Number((bytes / rows) as i64));
    // As PostgreSQL has it: so many, less than none for a part of the rows, and 0 where it is not known.
    let distinct = known.distinct_count.get_value().map_or(0.0, |distinct| match part(*distinct) {
        part if part > GROWING_PART => -part.min(1.0),
        _ => *distinct as f64,
    });
    [nulls, width, real(distinct)]
}

fn real(value: f64) -> Cell {
    Cell::Text((value as f32).to_string())
}

/// What a sample of a column tells of the values.
struct Sampled {
    /// The most common ones, and how many of the sample have each.
    common: Vec<(String, usize)>,
    /// Values between which about as many of the others lie.
    bounds: Vec<String>,
    /// How well the order of the rows is that of the values: from -1 to 1.
    correlation: Option<f64>,
    /// Rows of the sample.
    rows: usize,
}

impl Sampled {
    /// Looks at a column. `None` where its values have no order that is known here, or cannot be read.
    fn of(table: &NativeTable, column: usize, sql_type: &SqlType) -> Option<Self> {
        let sample = sample(table, column)?;
        let (has_values, has_order) = comparable(sql_type);
        if !has_values || sample.data_type().is_nested() {
            return None;
        }
        let groups = groups(&sample)?;
        let texts = Texts { sample: &sample, sql_type };
        let rows = sample.len();
        let common = common(&groups, rows, table.rows());
        let is_common = |place: usize| common.iter().any(|(group, _)| *group == place);
        let others = groups.iter().enumerate().filter(|(place, _)| !is_common(*place)).map(|(_, group)| group);
        let others = others.filter(|_| has_order).collect::<Vec<_>>();
        let bounds = bounds(&others);
        Some(Self {
            correlation: has_order.then(|| correlation(&groups)).flatten(),
            common: common
                .iter()
                .map(|(group, count)| Some((texts.of(groups[*group][0])?, *count)))
                .collect::<Option<_>>()?,
            bounds: bounds.into_iter().map(|row| texts.of(row)).collect::<Option<_>>()?,
            rows,
        })
    }

    /// From `most_common_vals` to `correlation`.
    fn cells(&self) -> [Cell; 4] {
        let list = |values: Vec<String>| match values.is_empty() {
            true => Cell::Null,
            false => Cell::Text(format!("{{{}}}", values.join(","))),
        };
        let values = self.common.iter().map(|(value, _)| value.clone()).collect();
        let parts = self.common.iter().map(|(_, count)| (*count as f32 / self.rows as f32).to_string()).collect();
        let correlation = self.correlation.map_or(Cell::Null, real);
        [list(values), list(parts), list(self.bounds.clone()), correlation]
    }
}

/// Whether equal values of a type are held by equal ones, and whether these have its order.
fn comparable(sql_type: &SqlType) -> (bool, bool) {
    match sql_type.base() {
        SqlType::Boolean
        | SqlType::SmallInt
        | SqlType::Integer
        | SqlType::BigInt
        | SqlType::Numeric(_)
        | SqlType::Real
        | SqlType::Double
        | SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::Char(_)
        | SqlType::Bytea
        | SqlType::Date
        | SqlType::Time
        | SqlType::Timestamp
        | SqlType::TimestampTz
        | SqlType::Uuid => (true, true),
        SqlType::Enum(_) | SqlType::Bit(_) | SqlType::Network(_) => (true, false),
        _ => (false, false),
    }
}

/// Values of a column from all over a table, in the order of the rows.
fn sample(table: &NativeTable, column: usize) -> Option<ArrayRef> {
    let pieces = table.pieces();
    let is_whole = table.rows() <= SAMPLE_ROWS;
    let step = if is_whole { 1 } else { pieces.len().div_ceil(SAMPLE_PIECES).max(1) };
    let chosen = pieces.iter().step_by(step).collect::<Vec<&Piece>>();
    let each = if is_whole { SAMPLE_ROWS } else { SAMPLE_ROWS / chosen.len().max(1) };
    let mut parts = Vec::new();
    for piece in chosen {
        let values = piece.read_columns(&[column]).ok()?.columns().first()?.clone();
        if values.len() <= each {
            parts.push(values);
            continue;
        }
        let length = each / SAMPLE_PLACES;
        parts.extend((0..SAMPLE_PLACES).map(|place| {
            let from = place * values.len() / SAMPLE_PLACES;
            values.slice(from, length.min(values.len() - from))
        }));
    }
    concat(&parts.iter().map(|part| &**part).collect::<Vec<&dyn Array>>()).ok()
}

/// The rows that have a value, by value, in the order of the values.
fn groups(sample: &ArrayRef) -> Option<Vec<Vec<usize>>> {
    let order = sort_to_indices(sample, Some(SortOptions { descending: false, nulls_first: false }), None).ok()?;
    let compare = make_comparator(sample, sample, SortOptions::default()).ok()?;
    let mut groups = Vec::<Vec<usize>>::new();
    for row in order.values().iter().map(|row| *row as usize).filter(|row| sample.is_valid(*row)) {
        match groups.last_mut() {
            Some(last) if compare(last[0], row) == Ordering::Equal => last.push(row),
            _ => groups.push(vec![row]),
        }
    }
    groups.iter_mut().for_each(|group| group.sort_unstable());
    Some(groups)
}

/// The places of the groups that are common values, with their rows: as many as PostgreSQL keeps. `rows` are those of
/// the sample, `all` those of the table.
fn common(groups: &[Vec<usize>], rows: usize, all: usize) -> Vec<(usize, usize)> {
    let several = groups.iter().enumerate().filter(|(_, group)| group.len() > 1);
    let mut common = several.map(|(place, group)| (place, group.len())).collect::<Vec<_>>();
    let is_all_common = common.len() == groups.len() && common.len() <= TARGET;
    // Of equally many, the smaller value comes first.
    common.sort_by(|(_, one), (_, other)| other.cmp(one));
    common.truncate(TARGET);
    if is_all_common && groups.len() as f64 <= GROWING_PART * all as f64 || rows == all {
        return common;
    }
    let values = groups.iter().map(Vec::len).sum::<usize>() as f64;
    let (sampled, total) = (rows as f64, all as f64);
    // How many values there are is not more than a guess here: as many as were met.
    let distinct = groups.len() as f64;
    while let Some((_, last)) = common.last() {
        let others = common[..common.len() - 1].iter().map(|(_, count)| *count).sum::<usize>() as f64;
        let left = ((values - others) / sampled).clamp(0.0, 1.0);
        let left = left / (distinct - (common.len() - 1) as f64).max(1.0);
        let expected = total * *last as f64 / sampled;
        let variance = sampled * expected * (total - expected) * (total - sampled) / (total * total * (total - 1.0));
        if *last as f64 > left * sampled + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        common.pop();
    }
    common
}

/// Rows whose values cut those of these groups into parts of equally many; none of fewer than two values.
fn bounds(groups: &[&Vec<usize>]) -> Vec<usize> {
    let count = groups.len().min(TARGET + 1);
    if count < 2 {
        return vec![];
    }
    let rows = groups.iter().flat_map(|group| group.iter().copied()).collect::<Vec<_>>();
    (0..count).map(|bound| rows[bound * (rows.len() - 1) / (count - 1)]).collect()
}

/// How well the order of the rows is that of their values; `None` for fewer than two rows.
fn correlation(groups: &[Vec<usize>]) -> Option<f64> {
    let mut rows = groups.iter().flatten().copied().collect::<Vec<_>>();
    let count = rows.len() as f64;
    if rows.len() < 2 {
        return None;
    }
    // Rows without a value count for no place.
    let mut places = rows.clone();
    places.sort_unstable();
    for row in &mut rows {
        *row = places.binary_search(row).ok()?;
    }
    let sum = (count - 1.0) * count / 2.0;
    let squares = (count - 1.0) * count * (2.0 * count - 1.0) / 6.0;
    let products = rows.iter().enumerate().map(|(place, row)| place as f64 * *row as f64).sum::<f64>();
    Some((count * products - sum * sum) / (count * squares - sum * sum))
}

/// The texts of values.
struct Texts<'s> {
    sample: &'s ArrayRef,
    sql_type: &'s SqlType,
}

impl Texts<'_> {
    /// A value as an element of an array that is shown; `None` where it is too long or cannot be shown.
    fn of(&self, row: usize) -> Option<String> {
        let value = take(self.sample, &UInt32Array::from(vec![u32::try_from(row).ok()?]), None).ok()?;
        let base = self.sql_type.base();
        let texts = text::format(&cast(&value, &base.arrow()).ok()?, base, ZONE).ok()?;
        let text = texts.value(0);
        if text.len() > WIDTH_MAX {
            return None;
        }
        let needs_quotes = |letter: char| letter.is_whitespace() || "{},\"\\".contains(letter);
        let is_plain = !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(needs_quotes);
        Some(match is_plain {
            true => text.to_owned(),
            false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringViewArray};

    use super::*;

    #[test]
    fn common_values_and_bounds_are_those_of_postgres() {
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((1..=100).map(|row| format!("v{}", row % 4))));
        let four = groups(&texts).unwrap();
        assert_eq!(common(&four, 100, 100), [(0, 25), (1, 25), (2, 25), (3, 25)]);
        assert!((correlation(&four).unwrap() - 0.242_124_21).abs() < 1e-6);
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=1000));
        let all = groups(&keys).unwrap();
        assert!(common(&all, 1000, 1000).is_empty());
        let cut = bounds(&all.iter().collect::<Vec<_>>());
        assert_eq!((cut.len(), cut[0], cut[1], cut[2], cut[100]), (101, 0, 9, 19, 999));
        assert_eq!(correlation(&all), Some(1.0));
        // Of a part of the rows, only what is more common than the others could be by chance.
        let mixed = (0..1000).map(|row| if row % 4 == 0 { Some(-1) } else { Some(row / 2) });
        let mixed: ArrayRef = Arc::new(Int32Array::from_iter(mixed.chain([None; 10])));
        let mixed = groups(&mixed).unwrap();
        assert_eq!(common(&mixed, 1010, 100_000), [(0, 250)]);
    }
}
