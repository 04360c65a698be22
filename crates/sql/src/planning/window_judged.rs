//! Windows as we lower and run them against DataFusion's own.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use diligence_engine::{Engine, EngineOptions};

use super::golden::{planner_over, statement};
use crate::{Planner, Statement};

const ROWS: i64 = 300;

/// `t(id, p, o, day, time, small, n, f, d, s, c)`: few values each, NULLs in all but the first two.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let numbers = |of: &dyn Fn(i64) -> Option<i64>| Int64Array::from_iter((0..ROWS).map(of));
    // Some scattered numbers.
    let mixed = |row: i64, salt: i64| (row * 7919 + salt * 104_729) % 1009;
    let sparse = |salt: i64, values: i64| {
        numbers(&|row| Some(mixed(row, salt) % values).filter(|_| mixed(row, salt + 50) % 7 > 0))
    };
    let to = |array: Int64Array, data_type: DataType| cast(&array, &data_type).unwrap();
    let date = |array: Int64Array| cast(&to(array, DataType::Int32), &DataType::Date32).unwrap();
    let hours =
        |array: Int64Array| arrow::compute::kernels::numeric::mul(&array, &Int64Array::new_scalar(3_600_000_000));
    vec![
        ("id", Arc::new(numbers(&Some)) as ArrayRef),
        ("p", Arc::new(numbers(&|row| Some(mixed(row, 1) % 5 * (mixed(row, 1) % 2)))) as ArrayRef),
        ("o", Arc::new(sparse(2, 20)) as ArrayRef),
        ("day", date(sparse(3, 60))),
        ("time", cast(&hours(sparse(4, 200)).unwrap(), &DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap()),
        ("small", to(sparse(5, 30), DataType::UInt8)),
        ("n", Arc::new(sparse(6, 40)) as ArrayRef),
        (
            "f",
            arrow::compute::kernels::numeric::div(
                &to(sparse(7, 64), DataType::Float64),
                &arrow::array::Float64Array::new_scalar(4.0),
            )
            .unwrap(),
        ),
        ("d", to(sparse(8, 500), DataType::Decimal128(10, 2))),
        ("s", to(sparse(9, 12), DataType::Utf8View)),
        ("c", to(sparse(10, 2), DataType::Boolean)),
    ]
}

fn datafusion() -> SessionContext {
    let columns = columns();
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let rows = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let table = MemTable::try_new(schema, vec![vec![rows]]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

fn ours(planner: &Planner, engine: &Arc<Engine>, sql: &str) -> diligence_base::Result<RecordBatch> {
    let Statement::Query(query) = statement(planner, sql)? else { panic!("{sql} is a query") };
    let text = query.plan.to_string();
    assert!(text.contains("Window compute") && !text.contains("Foreign"), "{text}");
    // Small batches: partitions and frames reach over many.
    let options = diligence_engine::QueryOptions { batch_rows: 37, ..Default::default() };
    let mut stream = engine.run(&query.plan, options)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        batches.push(batch?);
    }
    Ok(concat_batches(&stream.schema(), &batches).unwrap())
}

/// Compares one statement; false if DataFusion cannot run it.
fn compare(
    runtime: &tokio::runtime::Runtime,
    judge: &SessionContext,
    planner: &Planner,
    engine: &Arc<Engine>,
    sql: &str,
) -> bool {
    let judged = runtime.block_on(async { judge.sql(sql).await?.collect().await });
    let seen = ours(planner, engine, sql);
    let Ok(judged) = judged else { return false };
    let seen = seen.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let judged = concat_batches(&judged[0].schema(), &judged).unwrap();
    assert_eq!(seen.num_rows(), judged.num_rows(), "{sql}");
    for column in 0..judged.num_columns() {
        for row in 0..judged.num_rows() {
            let expected = ScalarValue::try_from_array(judged.column(column), row).unwrap();
            let seen = ScalarValue::try_from_array(seen.column(column), row).unwrap();
            assert_eq!(seen, expected, "{sql}: row {row}, column {column}");
        }
    }
    true
}

#[test]
fn windows_are_as_datafusions() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (judge, planner) = (datafusion(), planner_over(vec![("t", columns())]));
    let engine = Engine::start(EngineOptions::inline(7)).unwrap();
    let functions = [
        "sum(n)",
        "sum(d)",
        "sum(f)",
        "avg(n)",
        "avg(d)",
        "avg(f)",
        "min(n)",
        "max(f)",
        "max(s)",
        "min(d)",
        "count(n)",
        "count(*)",
        "count(DISTINCT s)",
        "sum(n) FILTER (WHERE c)",
        "count(*) FILTER (WHERE n > 10)",
        "max(s) FILTER (WHERE c)",
        "array_agg(n)",
        "median(n)",
        "bool_or(c)",
        "first_value(s)",
        "last_value(s)",
        "nth_value(s, 3)",
        "nth_value(s, -2)",
        "nth_value(n, 0)",
        "first_value(s) IGNORE NULLS",
        "last_value(n) IGNORE NULLS",
        "nth_value(s, 2) IGNORE NULLS",
        "nth_value(s, -1) IGNORE NULLS",
    ];
    let frames = [
        "",
        "ORDER BY o, id",
        "ORDER BY o",
        "PARTITION BY p ORDER BY o",
        "PARTITION BY p",
        "PARTITION BY p, c ORDER BY s DESC",
        "ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
        "PARTITION BY p ORDER BY id ROWS BETWEEN 50 PRECEDING AND 2 PRECEDING",
        "PARTITION BY p ORDER BY o DESC, id ROWS BETWEEN 1 PRECEDING AND 60 FOLLOWING",
        "PARTITION BY p ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        "PARTITION BY p ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 5 FOLLOWING",
        "PARTITION BY p ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING",
        "PARTITION BY p ORDER BY o RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING",
        "PARTITION BY p ORDER BY o DESC NULLS LAST RANGE BETWEEN 4 PRECEDING AND 1 PRECEDING",
        "ORDER BY f RANGE BETWEEN 0.5 PRECEDING AND 1.25 FOLLOWING",
        "PARTITION BY p ORDER BY day RANGE BETWEEN INTERVAL '5' DAY PRECEDING AND INTERVAL '1' DAY FOLLOWING",
        "PARTITION BY p ORDER BY time DESC RANGE BETWEEN INTERVAL '7 hours' PRECEDING AND CURRENT ROW",
        "ORDER BY small RANGE BETWEEN 10 PRECEDING AND UNBOUNDED FOLLOWING",
        "ORDER BY small DESC RANGE BETWEEN CURRENT ROW AND 6 FOLLOWING",
        "PARTITION BY p ORDER BY o GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
        "PARTITION BY p ORDER BY o, c GROUPS BETWEEN 3 PRECEDING AND 1 PRECEDING",
        "PARTITION BY p ORDER BY o GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    ];
    let mut compared = 0;
    for frame in frames {
        // The order of peers is nobody's promise: what depends on it is left to orders without peers.
        let has_peers = frame.contains("ORDER BY") && !frame.contains("id") || !frame.contains("ORDER BY");
        for function in functions {
            let looks_at_one = function.contains("value") || function.contains("array_agg");
            if looks_at_one && has_peers {
                continue;
            }
            let sql = format!("SELECT id, {function} OVER ({frame}) AS x FROM t ORDER BY id");
            compared += usize::from(compare(&runtime, &judge, &planner, &engine, &sql));
        }
    }
    assert!(compared > 400, "{compared} statements were compared");
    for ranking in [
        "row_number()",
        "rank()",
        "dense_rank()",
        "percent_rank()",
        "cume_dist()",
        "ntile(1)",
        "ntile(7)",
        "ntile(1000)",
        "lag(s)",
        "lead(s)",
        "lag(n, 3)",
        "lead(n, 2, -1)",
        "lag(n, 0)",
        "lag(n, -2)",
        "lead(s, 400, 'none')",
        "lag(s) IGNORE NULLS",
        "lag(s, 2, 'none') IGNORE NULLS",
        "lag(NULL, 1, false)",
    ] {
        for over in ["", "PARTITION BY p", "ORDER BY o, id", "PARTITION BY p ORDER BY o DESC, id"] {
            // Without an order, numbers depend on how rows come.
            if !over.contains("ORDER BY")
                && !["rank()", "dense_rank()", "percent_rank()", "cume_dist()"].contains(&ranking)
            {
                continue;
            }
            let sql = format!("SELECT id, {ranking} OVER ({over}) AS x FROM t ORDER BY id");
            assert!(compare(&runtime, &judge, &planner, &engine, &sql), "{sql}");
        }
    }
}

/// Both orders in one statement: an optimizer may turn one around.
#[test]
fn functions_whose_order_was_turned_around_are_as_they_were() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (judge, planner) = (datafusion(), planner_over(vec![("t", columns())]));
    let engine = Engine::start(EngineOptions::inline(7)).unwrap();
    for function in [
        "lag(n, 2)",
        "lead(n, 2, 7)",
        "nth_value(n, 1)",
        "nth_value(n, 2)",
        "nth_value(n, 3)",
        "nth_value(n, -2)",
        "first_value(n)",
        "last_value(n)",
        "sum(n)",
        "row_number()",
        "lag(s, 2) IGNORE NULLS",
        "nth_value(s, 2) IGNORE NULLS",
    ] {
        for frame in
            ["", "ROWS BETWEEN 5 PRECEDING AND 2 FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"]
        {
            let sql = format!(
                "SELECT id, sum(n) OVER (ORDER BY id) AS a, {function} OVER (ORDER BY id DESC {frame}) AS b, {function} OVER (ORDER BY id {frame}) AS c \
                 FROM t ORDER BY id"
            );
            assert!(compare(&runtime, &judge, &planner, &engine, &sql), "{sql}");
        }
    }
}
