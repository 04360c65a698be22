//! SQL text: split, parsed, planned; a SELECT is sometimes run for a moment.

use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::datatypes::DataType;
use diligence_base::{Error, ErrorKind};
use diligence_db::{Database, DatabaseOptions, Session};
use diligence_tpch::{QUERIES, TpchTable};

use super::Target;

/// Statements of one input that are tried.
const STATEMENTS_MAX: usize = 4;

/// One in so many inputs is also run.
const RUN_EVERY: usize = 8;

/// How long a statement may run before it is dropped; that it then stops is part of the test.
const RUN_FOR: Duration = Duration::from_millis(100);

/// Memory of the database: more than the samples need, and far less than the address space of the process.
const MEMORY_BYTES: usize = 256 << 20;

/// Words and signs of the language.
pub const TOKENS: &[&[u8]] = &[
    b"SELECT",
    b"FROM",
    b"WHERE",
    b"GROUP BY",
    b"HAVING",
    b"ORDER BY",
    b"LIMIT",
    b"OFFSET",
    b"DISTINCT",
    b"UNION ALL",
    b"INTERSECT",
    b"EXCEPT",
    b"JOIN",
    b"LEFT JOIN",
    b"FULL JOIN",
    b"CROSS JOIN",
    b"LATERAL",
    b"ON",
    b"USING",
    b"WITH",
    b"RECURSIVE",
    b"::tsvector",
    b"::tsquery",
    b"@@",
    b"to_tsvector(",
    b"websearch_to_tsquery(",
    b"ts_headline(",
    b"AS",
    b"CASE",
    b"WHEN",
    b"THEN",
    b"ELSE",
    b"END",
    b"NULL",
    b"NOT",
    b"IN",
    b"EXISTS",
    b"BETWEEN",
    b"LIKE",
    b"IS",
    b"OVER",
    b"PARTITION BY",
    b"ROWS",
    b"GROUPING SETS",
    b"CUBE",
    b"ROLLUP",
    b"FILTER",
    b"VALUES",
    b"CAST",
    b"INTERVAL",
    b"DATE",
    b"TIMESTAMP",
    b"ARRAY",
    b"UNNEST",
    b"EXPLAIN",
    b"ANALYZE",
    b"CREATE TABLE",
    b"INSERT",
    b"(",
    b")",
    b"[",
    b"]",
    b",",
    b";",
    b".",
    b"*",
    b"+",
    b"-",
    b"/",
    b"%",
    b"=",
    b"<>",
    b"<",
    b"::",
    b"||",
    b"->",
    b"'",
    b"''",
    b"\"",
    b"--",
    b"/*",
    b"*/",
    b"$1",
    b"$$",
    b"?",
    b"0",
    b"1",
    b"-1",
    b"1e308",
    b"9223372036854775808",
    b"0.1",
    b"t",
    b"a",
    b"b",
    b"c",
    b"sum",
    b"count(*)",
    b"avg",
    b"row_number()",
    b"abs",
    b"now()",
    b"lineitem",
    b"orders",
    b"\xc3\xa9",
    b"\xf0\x9f\x98\x80",
    b"\x00",
    b"((((((((((((((((",
    b"1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1",
];

const STATEMENTS: &[&str] = &[
    "SELECT a, sum(b) OVER (PARTITION BY c ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT * FROM r",
    "SELECT c, count(*) FILTER (WHERE a > 1), array_agg(DISTINCT b ORDER BY b) FROM t GROUP BY GROUPING SETS ((c), ())",
    "SELECT * FROM t x LEFT JOIN t y ON x.a = y.b AND x.c LIKE 'r%' WHERE x.a NOT IN (SELECT b FROM t)",
    "SELECT CAST('2024-01-31' AS DATE) + INTERVAL '1 month', CASE WHEN a IS NULL THEN -1 ELSE a END FROM t ORDER BY 1",
    "VALUES (1, 'x'), (2, NULL); SELECT [1, 2][1], struct(a) FROM t LIMIT 3 OFFSET 1;",
    "EXPLAIN ANALYZE SELECT DISTINCT a FROM t UNION SELECT b FROM t EXCEPT SELECT 1",
    "SET batch_rows = 100; SHOW ALL; DESCRIBE t",
];

/// TPC-H, the statements above, and the scripts of the project, where they are at hand.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<Vec<u8>> = STATEMENTS.iter().chain(&QUERIES).map(|text| text.as_bytes().to_vec()).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/slt");
    let mut folders = vec![root];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "slt") {
                paths.push(path);
            }
        }
    }
    // A seed must mean the same input every time.
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        corpus.extend(statements_of(&text).map(String::into_bytes));
    }
    corpus
}

/// The SQL of a script's records.
fn statements_of(script: &str) -> impl Iterator<Item = String> + '_ {
    script.split("\n\n").filter_map(|record| {
        let mut lines = record.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
        let head = lines.next()?;
        let sql: Vec<_> = lines.take_while(|line| *line != "----").collect();
        (head.starts_with("query") || head.starts_with("statement")).then(|| sql.join("\n"))
    })
}

/// Plans inputs in a session with some tables.
pub struct SqlTarget {
    session: Session,
    inputs: usize,
    planned: usize,
    refused: usize,
    run: usize,
    /// Errors that a user cannot help, and the last one of them with its statement.
    bugs: (usize, Option<(Error, String)>),
}

impl SqlTarget {
    /// Opens a database with the tables that the corpus names.
    pub fn start() -> Result<Self, String> {
        let options =
            DatabaseOptions { workers: Some(1), memory_bytes: Some(MEMORY_BYTES), ..DatabaseOptions::default() };
        let database = Database::open(options).map_err(|error| error.to_string())?;
        let session = database.session();
        let mut tables = vec![
            "CREATE TABLE t (a BIGINT, b DOUBLE, c VARCHAR)".to_owned(),
            "INSERT INTO t VALUES (1, 1.5, 'red'), (2, NULL, 'green'), (NULL, 0.5, NULL)".to_owned(),
        ];
        tables.extend(TpchTable::ALL.map(create_table));
        for statement in tables {
            session.execute(&statement).and_then(|result| result.collect()).map_err(|error| error.to_string())?;
        }
        Ok(Self { session, inputs: 0, planned: 0, refused: 0, run: 0, bugs: (0, None) })
    }

    fn explain(&mut self, statement: &str) {
        match self.session.execute(&format!("EXPLAIN {statement}")).and_then(|result| result.collect()) {
            Ok(_) => self.planned += 1,
            Err(error) => self.note(error, statement),
        }
    }

    fn note(&mut self, error: Error, statement: &str) {
        self.refused += 1;
        if error.kind() == ErrorKind::Bug {
            self.bugs = (self.bugs.0 + 1, Some((error, statement.to_owned())));
        }
    }

    fn run_for_a_moment(&mut self, statement: &str) {
        let mut result = match self.session.execute(statement) {
            Ok(result) => result,
            Err(error) => return self.note(error, statement),
        };
        self.run += 1;
        let end = Instant::now() + RUN_FOR;
        while Instant::now() < end {
            match result.next_within(end.saturating_duration_since(Instant::now())) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return self.note(error, statement),
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}

impl Target for SqlTarget {
    fn run(&mut self, input: &[u8]) -> Result<(), String> {
        self.inputs += 1;
        let text = String::from_utf8_lossy(input);
        let statements = match Session::split(&text) {
            Ok(statements) => statements,
            Err(error) => {
                self.note(error, &text);
                vec![text.into_owned()]
            }
        };
        for statement in statements.iter().take(STATEMENTS_MAX) {
            self.explain(statement);
            let first = statement.trim_start().get(..6).unwrap_or_default().to_ascii_uppercase();
            // Only statements that change nothing and write nothing.
            if self.inputs.is_multiple_of(RUN_EVERY)
                && (first == "SELECT" || first == "VALUES" || first.starts_with("WITH"))
            {
                self.run_for_a_moment(statement);
            }
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let bugs = match &self.bugs {
            (count, Some((last, statement))) => {
                format!(", {count} of them called bugs, such as: {last}\n  of: {statement:?}\n ")
            }
            _ => String::new(),
        };
        format!("{} planned, {} run, {} refused{bugs}", self.planned, self.run, self.refused)
    }
}

fn create_table(table: TpchTable) -> String {
    let columns = table.batches(0.001, 1, 1).schema();
    let columns = columns.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Int32 => "INT".to_owned(),
            DataType::Int64 => "BIGINT".to_owned(),
            DataType::Date32 => "DATE".to_owned(),
            DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
            _ => "VARCHAR".to_owned(),
        };
        format!("{} {data_type}", field.name())
    });
    format!("CREATE TABLE {} ({})", table.name(), columns.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_planned() {
        assert!(corpus().len() > 100);
        let mut target = SqlTarget::start().unwrap();
        for query in QUERIES {
            target.run(query.as_bytes()).unwrap();
        }
        assert_eq!((target.planned, target.refused), (22, 0), "{}", target.summary());
    }
}
