//! What SQL is bound to, as text: one file per topic in this folder, each a list of statements with the bound relation,
//! its columns and the parameters below.
//!
//! `UPDATE_GOLDEN=1 cargo test -p diligence-sql binder` writes the files anew; look at the difference before committing
//! it.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::Statistics;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_storage::{ScanRequest, Table, TableScan};
use diligence_types::SqlType;
use sqlparser::ast::{self, ObjectName};

use super::{Bound, Context, Named, bind_query};
use crate::algebra::{Constant, Numbers};

/// A table without rows.
#[derive(Debug)]
struct Empty(SchemaRef, TableIdentity);

impl Table for Empty {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }

    fn identity(&self) -> TableIdentity {
        self.1
    }

    fn statistics(&self) -> Statistics {
        Statistics::new_unknown(&self.0)
    }

    fn scan(&self, _: &ScanRequest) -> Result<TableScan> {
        Err(Error::unsupported(format!("{} rows are not read", RecordBatch::new_empty(self.0.clone()).num_rows())))
    }

    fn describe(&self) -> String {
        "empty".into()
    }
}

/// A catalog of a few tables and a view, at noon of 2024-01-01 in Berlin.
#[derive(Default)]
struct Tables {
    numbers: Numbers,
}

impl Context for Tables {
    fn table(&self, name: &ObjectName) -> Result<Option<Named>> {
        let name = name.0.last().and_then(|part| part.as_ident()).map(super::normalized).unwrap_or_default();
        let columns: &[(&str, &str, bool)] = match name.as_str() {
            "people" => &[("id", "integer", false), ("name", "text", true), ("born", "date", true)],
            "visits" => &[("person", "integer", false), ("place", "text", true), ("at", "timestamptz", true)],
            "prices" => &[("item", "bigint", false), ("price", "numeric(10,2)", true), ("rate", "double", true)],
            "spans" => &[("i", "interval", true), ("c", "char(3)", true), ("tags", "text[]", true)],
            "hits" => &[("CounterID", "integer", false), ("URL", "text", true)],
            "adults" => {
                let query = parsed("SELECT id, name FROM people WHERE born < DATE '2000-01-01'");
                return Ok(Some(Named::View {
                    query: Arc::new(query),
                    columns: vec![],
                    made: vec![],
                    name,
                    schema: String::new(),
                }));
            }
            _ => return Ok(None),
        };
        let field = |(name, sql_type, nullable): &(&str, &str, bool)| {
            SqlType::parse(sql_type).map(|sql_type| sql_type.field(name, *nullable))
        };
        let fields = columns.iter().filter_map(field).collect::<Vec<_>>();
        Ok(Some(Named::Table {
            table: Arc::new(Empty(Arc::new(Schema::new(fields)), TableIdentity::of_new(TableVersion(0)))),
            name,
            key: vec![],
        }))
    }

    fn zone(&self) -> &str {
        "Europe/Berlin"
    }

    fn now(&self) -> i64 {
        1_704_106_800_000_000
    }

    fn fact(&self, name: &str) -> Option<Constant> {
        (name == "current_user").then(|| Constant::text("ann"))
    }

    fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    fn relations(&self) -> Vec<String> {
        ["people", "visits", "prices", "spans", "hits", "adults"].map(String::from).to_vec()
    }
}

fn parsed(sql: &str) -> ast::Query {
    crate::parse::query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The relation, and the query's columns and parameters; or the error with its place and code.
fn bound_text(sql: &str) -> String {
    match bind_query(&parsed(sql), &Tables::default()) {
        Ok(Bound { relation, columns, parameters, .. }) => {
            let columns = columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let parameters = parameters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let parameters = if parameters.is_empty() { parameters } else { format!("\nparameters: {parameters}") };
            format!("{relation}\n=> {columns}{parameters}")
        }
        Err(error) => format!("error {}: {error}", error.code().unwrap_or("?")),
    }
}

/// Runs one file: blocks of comments and a statement, `----`, the expected text, an empty line.
fn golden(topic: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/binder/golden/{topic}.txt"));
    let script = std::fs::read_to_string(&path).unwrap();
    let mut seen = String::new();
    for block in script.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let question = block.split("\n----").next().unwrap_or(block).trim();
        let sql = question.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        seen += &format!("{question}\n----\n{}\n\n", bound_text(&sql).trim_end());
    }
    let seen = format!("{}\n", seen.trim_end());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, seen).unwrap();
        return;
    }
    for (line, (seen, expected)) in seen.lines().zip(script.lines()).enumerate() {
        assert_eq!(seen, expected, "{topic}.txt, line {}", line + 1);
    }
    assert_eq!(seen.lines().count(), script.lines().count(), "{topic}.txt has another number of lines");
}

#[test]
fn names_are_found_and_told() {
    golden("names");
}

#[test]
fn from_gives_rows_and_names() {
    golden("from");
}

#[test]
fn expressions_have_types() {
    golden("expressions");
}

#[test]
fn groups_and_aggregates() {
    golden("groups");
}

#[test]
fn windows() {
    golden("windows");
}

#[test]
fn order_distinct_and_limit() {
    golden("order");
}

#[test]
fn set_operations_and_values() {
    golden("sets");
}

#[test]
fn common_table_expressions() {
    golden("with");
}

#[test]
fn subqueries() {
    golden("subqueries");
}

/// The time is linear in the statement: a sum of many terms, deep parentheses, and common table expressions in a chain.
#[test]
fn long_statements_are_bound() {
    // The test's own copies of deep trees need more stack than threads of tests have.
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let sum = format!("SELECT id{} FROM people", " + 1".repeat(2000));
        assert!(bound_text(&sum).contains("=> "), "{}", &bound_text(&sum)[..200]);
        let chain = (1..100).map(|index| format!(", c{index} AS (SELECT x + 1 AS x FROM c{})", index - 1));
        let chain = format!("WITH c0 AS (SELECT 1 AS x){} SELECT x FROM c99", chain.collect::<String>());
        assert!(bound_text(&chain).contains("=> "), "{}", &bound_text(&chain)[..200]);
    });
    thread.unwrap().join().unwrap();
}

/// Subqueries of one row, each of them computed for all values of its columns at once, are computed of the row's table
/// and not of each other's results: a plan grows by as much with each.
#[test]
fn subqueries_of_a_row_stand_side_by_side() {
    let operators = |subqueries: usize| {
        let one = "(SELECT place FROM visits WHERE person <= id AND place <> name ORDER BY at LIMIT 1)";
        let list = vec![one.replace("person", "person + 0"); subqueries];
        let list = list.iter().enumerate().map(|(index, one)| one.replace("+ 0", &format!("+ {index}")));
        let sql = format!("SELECT {} FROM people JOIN prices ON item = id", list.collect::<Vec<_>>().join(", "));
        let tables = Tables::default();
        let bound = bind_query(&parsed(&sql), &tables).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let unnested = crate::unnesting::unnest(bound.relation, &tables.numbers);
        let unnested = unnested.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rewritten = crate::rewrites::rewritten(unnested, &tables.numbers, &|_| None);
        rewritten.unwrap_or_else(|error| panic!("{sql}: {error}")).to_string().lines().count()
    };
    let [few, some, many] = [2, 6, 10].map(operators);
    assert_eq!(many - some, some - few, "operators of 2, 6 and 10 subqueries: {few}, {some}, {many}");
}
