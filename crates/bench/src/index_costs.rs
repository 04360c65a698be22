//! `diligence-bench index-costs`: what it costs to find rows by an index beside looking at all of them, of rows in
//! memory and in segments: numbers for the rule in `catalog/rows`. One thread, and a condition on one column that is no
//! part of the scan. The least of several rounds counts.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use clap::Args;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use diligence_base::ids::TableVersion;
use diligence_base::seams::{Disk, LocalDisk, Random};
use diligence_base::{Error, Result};
use diligence_catalog::rules::{Key, KeyKind, TableRules};
use diligence_catalog::{NativeTable, NewRows, RelationName, StoredCluster};
use diligence_memory::QueryMemory;
use diligence_storage::segment::{CLUSTER_ROWS_MAX, SegmentWriter};
use diligence_storage::{DecodeRequest, Fetch, ScanRequest, Table};
use serde_json::{Value, json};

use crate::report::print_table;

const BATCH_ROWS: usize = 8192;

/// What to run.
#[derive(Args)]
pub struct IndexCostsArguments {
    /// Rows of the table.
    #[arg(long, default_value_t = 2_000_000)]
    rows: usize,
    /// How often each condition is asked.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// What the values are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it. Fails with kind `File` if the segments cannot be written.
pub fn run(arguments: &IndexCostsArguments, data: &Path) -> Result<Value> {
    let rows_total = arguments.rows;
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("any", DataType::Int64, true),
        Field::new("rising", DataType::Int64, true),
        Field::new("value", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
    ]));
    let mut random = Random::new(arguments.seed);
    let batches = (0..rows_total / BATCH_ROWS).map(|batch| {
        let rows = || batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS;
        let any = rows().map(|_| random.below(rows_total) as i64).collect::<Vec<_>>();
        let text = any.iter().map(|any| format!("a text with {any} in it")).collect::<Vec<_>>();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(any)),
            Arc::new(Int64Array::from_iter_values(rows().map(|row| row as i64))),
            Arc::new(Int64Array::from_iter_values(rows().map(|row| row as i64 * 7))),
            Arc::new(StringViewArray::from_iter_values(text)),
        ];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    });
    let batches = batches.collect::<Vec<_>>();
    let (mut shown, mut report) = (Vec::new(), Vec::new());
    for place in ["memory", "segments"] {
        let rows = match place {
            "memory" => batches.iter().cloned().map(NewRows::Memory).collect(),
            _ => stored(&schema, &batches, data)?,
        };
        let name = RelationName::new("main", "t");
        let memory = QueryMemory::unbounded().reservation("a table");
        let table = NativeTable::of_rows(&name, &schema, rows, memory.sibling(), TableVersion(1))?;
        for column in ["any", "rising"] {
            let key = Key::of_columns(column, vec![column.to_owned()], KeyKind::Index, false);
            let rules = TableRules { keys: vec![key], ..TableRules::default() };
            let began = Instant::now();
            let indexed = table.with_rules(rules, &memory, TableVersion(2))?;
            println!("{place}: an index of {rows_total} rows in {:?}", began.elapsed());
            for share in [0.00001, 0.0001, 0.001, 0.005, 0.01, 0.02, 0.04, 0.06] {
                let condition = below(&schema, column, (rows_total as f64 * share) as i64);
                let by_index = indexed.table();
                let plain = by_index.clone().without_index().unwrap();
                let (rows, index) = timed(by_index.as_ref(), &condition, arguments.rounds)?;
                let (all, scan) = timed(plain.as_ref(), &condition, arguments.rounds)?;
                assert_eq!(rows, all);
                let is_used = by_index.access(&condition).is_some();
                shown.push(vec![
                    format!("{place} {column}"),
                    format!("{} %", share * 100.0),
                    rows.to_string(),
                    index.to_string(),
                    scan.to_string(),
                    if is_used { "index" } else { "scan" }.to_owned(),
                ]);
                report.push(json!({
                    "place": place, "key": column, "share": share, "rows": rows, "us_index": index as u64,
                    "us_scan": scan as u64, "uses_index": is_used,
                }));
            }
        }
    }
    print_table(&["where", "share", "rows", "us index", "us scan", "used"].map(str::to_owned), &shown);
    Ok(json!({ "benchmark": "index-costs", "rows": rows_total, "conditions": report }))
}

/// The rows in segments, in clusters of as many as they take.
fn stored(schema: &SchemaRef, batches: &[RecordBatch], folder: &Path) -> Result<Vec<NewRows>> {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::file(format!("cannot make {}: {error}", folder.display())))?;
    let path = folder.join("index_costs.segment");
    let _ = disk.remove_file(&path);
    let ids = (0..schema.fields().len() as u32).collect::<Vec<_>>();
    let mut writer = SegmentWriter::create(&disk, &path, 1, schema, &ids)?;
    batches.chunks(CLUSTER_ROWS_MAX / BATCH_ROWS).try_for_each(|rows| writer.write_cluster(rows))?;
    let clusters = writer.clusters();
    let segment = writer.finish()?;
    Ok((0..clusters).map(|cluster| NewRows::Stored(StoredCluster::new(segment.clone(), cluster))).collect())
}

fn below(schema: &SchemaRef, column: &str, bound: i64) -> Arc<dyn PhysicalExpr> {
    let column = Arc::new(Column::new(column, schema.index_of(column).unwrap()));
    Arc::new(BinaryExpr::new(column, Operator::Lt, Arc::new(Literal::new(ScalarValue::from(bound)))))
}

/// How many rows a condition is true of, and the microseconds that it took to read them: the least of some runs.
fn timed(table: &dyn Table, condition: &Arc<dyn PhysicalExpr>, rounds: usize) -> Result<(usize, u128)> {
    let (mut rows, mut least) = (0, u128::MAX);
    for _ in 0..rounds.max(1) {
        let began = Instant::now();
        rows = read(table, condition)?;
        least = least.min(began.elapsed().as_micros());
    }
    Ok((rows, least))
}

fn read(table: &dyn Table, condition: &Arc<dyn PhysicalExpr>) -> Result<usize> {
    let columns = (0..table.schema().fields().len()).collect::<Vec<_>>();
    let request = ScanRequest { columns: columns.clone(), predicate: Some(condition.clone()) };
    let mut found = 0;
    for cluster in table.scan(&request)?.clusters {
        let fetched = match cluster.fetch(&columns) {
            Fetch::Ready(fetched) => fetched,
            Fetch::Blocking(read) => read()?,
            Fetch::Buffered(read) => read.wait()?,
            Fetch::Waiting(_) => panic!("rows are here"),
        };
        let filters = vec![Arc::new(Filter { condition: condition.clone(), schema: table.schema() }) as _];
        let request =
            DecodeRequest { columns: columns.clone(), batch_rows: BATCH_ROWS, filters, ..DecodeRequest::default() };
        let mut decode = cluster.decode(fetched, &request)?;
        while let Some(chunk) = decode.next()? {
            let batch = RecordBatch::try_new(table.schema(), chunk.columns).unwrap();
            let all = arrow::array::BooleanArray::from(vec![true; batch.num_rows()]);
            found += filter_record_batch(&batch, &all).unwrap().num_rows();
        }
    }
    Ok(found)
}

/// The condition as a sieve applies it.
struct Filter {
    condition: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

impl diligence_storage::RowFilter for Filter {
    fn columns(&self) -> &[usize] {
        let column = self.condition.downcast_ref::<BinaryExpr>().unwrap().left().downcast_ref::<Column>().unwrap();
        match column.index() {
            0 => &[0],
            _ => &[1],
        }
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<arrow::array::BooleanArray> {
        let place = self.columns()[0];
        let own = Arc::new(Column::new("own", 0));
        let binary = self.condition.downcast_ref::<BinaryExpr>().unwrap();
        let condition = BinaryExpr::new(own, *binary.op(), binary.right().clone());
        let field = Field::new("own", self.schema.field(place).data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), columns.to_vec()).unwrap();
        let kept = condition.evaluate(&batch).and_then(|kept| kept.into_array(batch.num_rows())).unwrap();
        Ok(kept.as_boolean().clone())
    }
}
