//! What SQL is lowered to, as text: one file per topic in this folder, each a list of statements with the plan below.
//!
//! `UPDATE_GOLDEN=1 cargo test -p diligence-sql golden` writes the files anew; look at the difference before committing
//! it.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use datafusion::execution::runtime_env::RuntimeEnv;
use diligence_base::Result;
use diligence_base::seams::LocalDisk;
use diligence_catalog::{Catalog, DEFAULT_SCHEMA, MemoryRelation, Relation, RelationName, Rights, SessionCatalogs};
use diligence_memory::QueryMemory;

use crate::{Planned, Planner, PlannerOptions, Statement};

/// A planner over `people(id, name, city, born)` of 1000 rows, `visits(person, place, day)` of 100,000 and `empty(a,
/// b)`.
pub(crate) fn planner() -> Planner {
    let number = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let text = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let ids = || (0..1000).collect::<Vec<i64>>();
    let people: Vec<(&str, ArrayRef)> = vec![
        ("id", number(ids())),
        ("name", text(ids().iter().map(|id| format!("name {id}")).collect())),
        ("city", text(ids().iter().map(|id| format!("city {}", id % 10)).collect())),
        ("born", Arc::new(Date32Array::from((0..1000).collect::<Vec<i32>>()))),
    ];
    let visits: Vec<(&str, ArrayRef)> = vec![
        ("person", number((0..100_000).map(|visit| visit % 1000).collect())),
        ("place", text((0..100_000).map(|visit| format!("place {}", visit % 50)).collect())),
        ("day", number((0..100_000).collect())),
    ];
    let empty: Vec<(&str, ArrayRef)> = vec![("a", number(vec![])), ("b", number(vec![]))];
    planner_over(vec![("people", people), ("visits", visits), ("empty", empty)])
}

/// A planner over tables of these columns.
pub(crate) fn planner_over(tables: Vec<(&str, Vec<(&str, ArrayRef)>)>) -> Planner {
    let catalog = Arc::new(Catalog::default());
    let memory = QueryMemory::unbounded();
    for (name, columns) in tables {
        let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let table = MemoryRelation::new(
            name,
            &schema,
            &[batch],
            memory.reservation("a table in memory"),
            catalog.next_table_version(),
        )
        .unwrap();
        let name = RelationName::new(DEFAULT_SCHEMA, name);
        catalog.create(&name, Relation::Memory(Arc::new(table)), false).unwrap();
    }
    let catalogs = SessionCatalogs::new(catalog, Arc::default(), Arc::default(), Arc::new(Rights::all()));
    let options = PlannerOptions { paths_are_tables: true, files: Arc::new(LocalDisk), tables: memory };
    Planner::new(catalogs, Arc::new(RuntimeEnv::default()), options)
}

/// Plans one statement, without values.
pub(crate) fn statement(planner: &Planner, sql: &str) -> Result<Statement> {
    Ok(match planner.plan(&planner.catalogs().snapshot(), &planner.parse(sql)?, &[])? {
        Planned::Query(query, _) => Statement::Query(Arc::unwrap_or_clone(query)),
        Planned::Other(statement) => *statement,
    })
}

fn plan_text(planner: &Planner, sql: &str) -> String {
    match statement(planner, sql) {
        Ok(Statement::Query(query)) => query.plan.to_string(),
        Ok(Statement::Write(write)) => write.query.plan.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error: {error}"),
    }
}

/// Runs one file: blocks of comments and a statement, `----`, the expected text, an empty line.
fn golden(topic: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/planning/golden/{topic}.txt"));
    let script = std::fs::read_to_string(&path).unwrap();
    let planner = planner();
    let mut seen = String::new();
    for block in script.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let question = block.split("\n----").next().unwrap_or(block).trim();
        let sql = question.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        let answer = plan_text(&planner, &sql);
        seen += &format!("{question}\n----\n{}\n\n", answer.trim_end());
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
fn scans_filters_and_projections() {
    golden("scans");
}

#[test]
fn joins() {
    golden("joins");
}

#[test]
fn runtime_filters() {
    golden("runtime_filters");
}

#[test]
fn aggregates() {
    golden("aggregates");
}

#[test]
fn sorts_limits_and_order() {
    golden("order");
}

#[test]
fn unions_values_and_subqueries() {
    golden("sets_and_subqueries");
}

#[test]
fn windows() {
    golden("windows");
}

#[test]
fn foreign_operators() {
    golden("foreign");
}

/// Where an operator must keep the order of its rows, and where it need not.
#[test]
fn order_is_kept_only_where_somebody_depends_on_it() {
    fn marks(plan: &diligence_engine::plan::Plan, out: &mut Vec<String>) {
        let name = plan.node.to_string();
        let name = name.split(' ').next().unwrap_or_default();
        out.push(format!("{name}{}", if plan.ordered { " in order" } else { "" }));
        plan.inputs().into_iter().for_each(|input| marks(input, out));
    }
    let planner = planner();
    let marks_of = |sql: &str| {
        let Ok(Statement::Query(query)) = statement(&planner, sql) else { panic!("a query") };
        let mut out = Vec::new();
        marks(&query.plan, &mut out);
        out.join(", ")
    };
    assert_eq!(marks_of("SELECT upper(name) FROM people"), "Project, Scan");
    assert_eq!(
        marks_of("SELECT upper(name) FROM people ORDER BY id"),
        "Project in order, Sort in order, Project, Scan"
    );
    // A LIMIT over an order depends on it, though nobody depends on the order of the LIMIT's rows.
    assert_eq!(
        marks_of("SELECT sum(id) FROM (SELECT id FROM people ORDER BY name LIMIT 10)"),
        "Aggregate, Project, TopN, Scan"
    );
    // So does an OFFSET alone.
    assert_eq!(
        marks_of("SELECT sum(id) FROM (SELECT id FROM people ORDER BY name OFFSET 10)"),
        "Aggregate, Limit, Project in order, Sort in order, Scan"
    );
    // A subquery's order that nobody depends on is not made.
    assert_eq!(marks_of("SELECT sum(id) FROM (SELECT id FROM people ORDER BY name)"), "Aggregate, Scan");
}
