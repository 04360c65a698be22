//! `\crosstabview`: a result with the values of one column as its rows and those of another as its columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema};
use diligence_base::Error;
use diligence_server::texts;

/// The most columns of the result, as in psql.
const COLUMNS_MAX: usize = 1600;

/// The result with the values of a column on its left side, those of another column as names at its top, and those of
/// a third between. `wanted` names them, by name or by number from 1, and then a column of whole numbers by which the
/// top is ordered; by default the first three columns, and the order in which they come.
///
/// Fails with a message if there are no such columns, if two rows have the same place, or with too many columns.
pub fn crosstab(rows: &RecordBatch, wanted: &[String]) -> Result<RecordBatch, String> {
    if wanted.len() > 4 {
        return Err("usage: \\crosstabview [LEFT [TOP [VALUES [ORDER OF TOP]]]]".to_owned());
    }
    let count = rows.num_columns();
    if count < 3 {
        return Err(format!("\\crosstabview needs a query with at least three columns, and this one has {count}"));
    }
    let column = |at: usize, default: Option<usize>| match wanted.get(at) {
        Some(name) => number_of(rows, name).map(Some),
        None => Ok(default),
    };
    let left = column(0, Some(0))?.unwrap_or(0);
    let top = column(1, Some(1))?.unwrap_or(1);
    if left == top {
        return Err("\\crosstabview: the left side and the top must be two columns".to_owned());
    }
    let rest = || (0..count).find(|&other| other != left && other != top);
    let values = match column(2, None)? {
        Some(values) => values,
        None if count == 3 => rest().unwrap_or(2),
        None => return Err("\\crosstabview: the query has more than three columns; name that of the values".to_owned()),
    };
    let order = column(3, None)?;

    let texts = texts(rows).map_err(|error| error.message().to_owned())?;
    let (left_rows, left_of) = distinct(&texts, left);
    let (mut top_rows, mut top_of) = distinct(&texts, top);
    if top_rows.len() >= COLUMNS_MAX {
        return Err(format!("\\crosstabview: there are more than {} columns", COLUMNS_MAX - 1));
    }
    if let Some(order) = order {
        sort(&texts, order, &mut top_rows, &mut top_of)?;
    }

    let mut places = vec![vec![None; left_rows.len()]; top_rows.len()];
    for row in 0..texts.len() {
        let place = &mut places[top_of[row]][left_of[row]];
        if place.replace(row as u32).is_some() {
            let named = |column: usize| texts[row][column].as_deref().unwrap_or("NULL");
            return Err(format!(
                "\\crosstabview: several rows have '{}' on the left and '{}' at the top",
                named(left),
                named(top)
            ));
        }
    }
    made(rows, left, &left_rows, values, &top_rows, &places, |row| {
        texts[row as usize][top].clone().unwrap_or_else(|| "NULL".to_owned())
    })
    .map_err(|error| error.message().to_owned())
}

/// The rows with the first of each distinct value, and for each row which of these it has.
fn distinct(texts: &[Vec<Option<String>>], column: usize) -> (Vec<u32>, Vec<usize>) {
    let (mut first, mut of_row) = (Vec::new(), Vec::with_capacity(texts.len()));
    let mut known: HashMap<Option<&str>, usize> = HashMap::new();
    for (row, values) in texts.iter().enumerate() {
        let next = first.len();
        let number = *known.entry(values[column].as_deref()).or_insert(next);
        if number == next {
            first.push(row as u32);
        }
        of_row.push(number);
    }
    (first, of_row)
}

/// Orders the top by the whole numbers of a column.
fn sort(
    texts: &[Vec<Option<String>>],
    order: usize,
    top_rows: &mut Vec<u32>,
    top_of: &mut [usize],
) -> Result<(), String> {
    let key = |row: u32| match &texts[row as usize][order] {
        None => Ok(None),
        Some(text) => text
            .parse::<i64>()
            .map(Some)
            .map_err(|_| format!("\\crosstabview: the top is ordered by whole numbers, and '{text}' is none")),
    };
    let mut keys = Vec::with_capacity(top_rows.len());
    for (number, row) in top_rows.iter().enumerate() {
        keys.push((key(*row)?, number));
    }
    // NULL comes last, as it does in SQL.
    keys.sort_by_key(|(key, number)| (key.is_none(), *key, *number));
    let mut place = vec![0; keys.len()];
    keys.iter().enumerate().for_each(|(new, (_, old))| place[*old] = new);
    top_of.iter_mut().for_each(|of| *of = place[*of]);
    *top_rows = keys.iter().map(|(_, old)| top_rows[*old]).collect();
    Ok(())
}

/// The columns: the left side, and then one for each value at the top.
fn made(
    rows: &RecordBatch,
    left: usize,
    left_rows: &[u32],
    values: usize,
    top_rows: &[u32],
    places: &[Vec<Option<u32>>],
    name: impl Fn(u32) -> String,
) -> Result<RecordBatch, Error> {
    let schema = rows.schema();
    let taken = |column: usize, indices: UInt32Array| {
        take(rows.column(column), &indices, None).map_err(|error| Error::bug(error.to_string()))
    };
    let mut fields = vec![schema.field(left).clone().with_nullable(true)];
    let mut columns: Vec<ArrayRef> = vec![taken(left, UInt32Array::from(left_rows.to_vec()))?];
    for (row, places) in top_rows.iter().zip(places) {
        let field: Field = schema.field(values).clone();
        fields.push(field.with_name(name(*row)).with_nullable(true));
        columns.push(taken(values, UInt32Array::from(places.clone()))?);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| Error::bug(error.to_string()))
}

/// The column of this name or number.
fn number_of(rows: &RecordBatch, name: &str) -> Result<usize, String> {
    let schema = rows.schema();
    if let Ok(number) = name.parse::<usize>() {
        let count = rows.num_columns();
        return match number {
            1.. if number <= count => Ok(number - 1),
            _ => Err(format!("\\crosstabview: column {number} is not in 1 to {count}")),
        };
    }
    let quoted = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let wanted = quoted.map_or_else(|| name.to_lowercase(), |quoted| quoted.replace("\"\"", "\""));
    let mut found = (0..rows.num_columns()).filter(|&column| schema.field(column).name() == &wanted);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => Err(format!("\\crosstabview: several columns are named '{wanted}'; give the number")),
        (None, _) => Err(format!("\\crosstabview: no column is named '{wanted}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringArray};

    fn rows() -> RecordBatch {
        let left: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some("y"), Some("x"), None]));
        let top: ArrayRef = Arc::new(StringArray::from(vec!["b", "b", "a", "c"]));
        let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        RecordBatch::try_from_iter_with_nullable([("l", left, true), ("t", top, true), ("v", values, true)]).unwrap()
    }

    fn shown(wanted: &[&str]) -> Result<Vec<String>, String> {
        let wanted = wanted.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let made = crosstab(&rows(), &wanted)?;
        let names = made.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join("|");
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let lines = texts(&made).unwrap();
        let lines = lines.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"));
        Ok(std::iter::once(names).chain(lines).collect())
    }

    #[test]
    fn values_stand_between_left_and_top() {
        assert_eq!(shown(&[]).unwrap(), ["l|b|a|c", "x|1|3|-", "y|2|-|-", "-|-|-|4"]);
        assert_eq!(shown(&["t", "l", "v"]).unwrap(), ["t|x|y|NULL", "b|1|2|-", "a|3|-|-", "c|-|-|4"]);
        assert_eq!(shown(&["v", "2", "1"]).unwrap(), ["v|b|a|c", "1|x|-|-", "2|y|-|-", "3|-|x|-", "4|-|-|-"]);
        assert_eq!(shown(&["l", "v", "t", "v"]).unwrap()[0], "l|1|2|3|4");
    }

    #[test]
    fn mistakes_are_named() {
        for (wanted, told) in [
            (&["l", "l"][..], "two columns"),
            (&["l", "4"], "not in 1 to 3"),
            (&["l", "other"], "no column is named 'other'"),
            (&["l", "t", "v", "l"], "'x' is none"),
            (&["1", "2", "3", "3", "3"], "usage"),
        ] {
            let message = shown(wanted).unwrap_err();
            assert!(message.contains(told), "{wanted:?}: {message}");
        }
        let twice = rows().slice(0, 1);
        let twice = arrow::compute::concat_batches(&twice.schema(), [&twice, &twice]).unwrap();
        assert!(crosstab(&twice, &[]).unwrap_err().contains("'x' on the left and 'b' at the top"));
    }
}
