//! Words that a statement may go on with, for shells that complete them.

use crate::session::Session;

impl Session {
    /// The keywords of SQL, in capitals.
    pub fn keywords() -> &'static [&'static str] {
        &KEYWORDS
    }

    /// Words that a statement may go on with: keywords, relations, columns, functions, settings; in order, without
    /// doubles.
    pub fn completions(&self) -> Vec<String> {
        let mut words = KEYWORDS.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let snapshot = self.snapshot();
        for name in snapshot.names() {
            words.push(name.to_string());
            if let Some(Ok(schema)) = snapshot.get(&name).map(|relation| relation.schema()) {
                words.extend(schema.fields().iter().map(|field| field.name().clone()));
            }
        }
        words.extend(self.planner().function_names());
        words.extend(self.setting_names());
        words.sort();
        words.dedup();
        words
    }
}

/// The words of SQL that statements are mostly made of.
#[rustfmt::skip]
const KEYWORDS: [&str; 123] = [
    "ALL", "ALTER", "ANALYZE", "AND", "ANTI", "ANY", "AS", "ASC", "BETWEEN", "BIGINT", "BOOLEAN", "BY", "CASCADE",
    "CASE", "CAST", "COLUMNS", "COPY", "CREATE", "CROSS", "CUBE", "CURRENT", "DATE", "DEALLOCATE", "DECIMAL",
    "DEFAULT", "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DOUBLE", "DROP", "ELSE", "END", "ESCAPE", "EXCEPT",
    "EXECUTE", "EXISTS", "EXPLAIN", "EXTERNAL", "EXTRACT", "FALSE", "FETCH", "FILTER", "FIRST", "FLOAT",
    "FOLLOWING", "FOR", "FROM", "FULL", "GROUP", "GROUPING", "HAVING", "IF", "ILIKE", "IN", "INNER", "INSERT",
    "INT", "INTEGER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LAST", "LATERAL", "LEFT", "LIKE", "LIMIT",
    "LOCATION", "NATURAL", "NOT", "NULL", "NULLS", "OFFSET", "ON", "OPTIONS", "OR", "ORDER", "OUTER", "OVER",
    "OVERWRITE", "PARTITION", "PRECEDING", "PREPARE", "RANGE", "RECURSIVE", "REPLACE", "RESET", "RIGHT", "ROLLUP",
    "ROW", "ROWS", "SCHEMA", "SELECT", "SEMI", "SET", "SETS", "SHOW", "SIMILAR", "SMALLINT", "STORED", "TABLE",
    "TABLES", "TEXT", "THEN", "TIMESTAMP", "TO", "TRUE", "TRUNCATE", "UNBOUNDED", "UNION", "UNNEST", "USING",
    "VALUES", "VARCHAR", "VERBOSE", "VIEW", "WHEN", "WHERE", "WINDOW", "WITH", "WITHIN",
];
