//! The tables that statements of the grammar read: few rows, with NULLs, duplicates and values at edges.
//!
//! Every table has a key `id` without NULLs, by which rows can be put into a total order, and a column `k` of small
//! numbers with NULLs and duplicates, on which joins meet. Other columns of different tables have different names, so
//! that NATURAL joins are by these two.

use super::types::SqlType;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<(&'static str, SqlType)>,
    rows: usize,
}

/// Rows of the tables that are not empty.
const ROWS: usize = 9;

/// The columns of each table.
const COLUMNS: [(&str, usize, &[(&str, SqlType)]); 5] = [
    (
        "numbers",
        ROWS,
        &[
            ("s", SqlType::Int2),
            ("a", SqlType::Int4),
            ("l", SqlType::Int8),
            ("n", SqlType::Numeric),
            ("f", SqlType::Float8),
            ("b", SqlType::Bool),
        ],
    ),
    ("words", ROWS, &[("w", SqlType::Text), ("v", SqlType::Varchar), ("c", SqlType::Bool)]),
    (
        "moments",
        ROWS,
        &[
            ("d", SqlType::Date),
            ("t", SqlType::Time),
            ("ts", SqlType::Timestamp),
            ("tz", SqlType::Timestamptz),
            ("i", SqlType::Interval),
        ],
    ),
    (
        "others",
        6,
        &[("y", SqlType::Bytea), ("u", SqlType::Uuid), ("ia", SqlType::Int4Array), ("ta", SqlType::TextArray)],
    ),
    ("nothing", 0, &[("z", SqlType::Text), ("x", SqlType::Numeric)]),
];

/// All tables.
pub fn every_table() -> Vec<Table> {
    let table = |(name, rows, columns): (&'static str, usize, &[(&'static str, SqlType)])| {
        let keys = [("id", SqlType::Int4), ("k", SqlType::Int4)];
        Table { name, columns: keys.into_iter().chain(columns.iter().copied()).collect(), rows }
    };
    COLUMNS.into_iter().map(table).collect()
}

impl Table {
    /// The statements that make it.
    pub fn statements(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|(name, sql_type)| match *name {
            "id" => "id int4 NOT NULL".to_owned(),
            name => format!("{name} {}", sql_type.name()),
        });
        let create = format!("CREATE TABLE {} ({})", self.name, columns.collect::<Vec<_>>().join(", "));
        let rows = (0..self.rows).map(|row| {
            let values = self.columns.iter().enumerate().map(|(column, (name, sql_type))| match *name {
                "id" => format!("{}", row + 1),
                "k" => [Some(1), Some(2), None, Some(1), Some(3), Some(2), None, Some(7), Some(1)][row]
                    .map_or("NULL".to_owned(), |value| value.to_string()),
                _ => self.value(*sql_type, row, column),
            });
            format!("({})", values.collect::<Vec<_>>().join(", "))
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        let insert = (self.rows > 0).then(|| format!("INSERT INTO {} VALUES {rows}", self.name));
        std::iter::once(create).chain(insert).collect()
    }

    /// Every value of a type in turn, from the beginning again, and NULL where rows and columns meet so.
    fn value(&self, sql_type: SqlType, row: usize, column: usize) -> String {
        if (row + column) % 4 == 3 {
            return "NULL".to_owned();
        }
        let values = sql_type.values();
        sql_type.literal(values[(row * 5 + column) % values.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_name_are_keys() {
        let mut names: Vec<_> =
            every_table().iter().flat_map(|table| table.columns.clone()).map(|(name, _)| name).collect();
        names.retain(|name| !["id", "k"].contains(name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_column_has_null_and_a_value() {
        for table in every_table().iter().filter(|table| table.rows > 0) {
            for (column, (name, sql_type)) in table.columns.iter().enumerate().skip(2) {
                let values: Vec<_> = (0..table.rows).map(|row| table.value(*sql_type, row, column)).collect();
                assert!(values.iter().any(|value| value == "NULL"), "{name}");
                assert!(values.iter().any(|value| value != "NULL"), "{name}");
            }
            assert_eq!(table.statements().len(), 2);
        }
    }
}
