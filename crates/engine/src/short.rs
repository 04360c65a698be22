//! The short path: a small plan runs at once, on the thread that asks for it.
//!
//! To find a row by its key takes microseconds; to start a query, with packets, stages and a stream, takes many times
//! as long. A plan takes the short path if it reads few rows and has none but these nodes: scan, values, filter,
//! project, limit, the first of few rows in an order, write. Of clusters on disk it reads few, and what it or others
//! have decoded of them it finds again.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, RecordBatch, UInt64Array};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::SchemaRef;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::{DecodeRequest, Fetch, Fetched, ScanRequest, SharedColumns, Table, WriteIo, WriteRequest};

use crate::batch::{Batch, to_logical};
use crate::expressions::Expr;
use crate::plan::{Node, Plan, PlanTables, Scan, SortKey, with_first_rows};
use crate::reuse::columns::Scans;

/// Rows that a plan on the short path looks at, at most: a few batches.
const ROWS_MAX: usize = 2 * BATCH_ROWS_MAX;

/// Rows that it puts in order, at most.
const SORTED_ROWS_MAX: usize = 1024;

/// Clusters that it reads from a disk, at most.
const READS_MAX: usize = 4;

/// Whether a plan may take the short path, as far as it can be told without its tables. What waits for something
/// outside of the engine may not: the thread is its asker's.
pub fn may_be_short(plan: &Plan) -> bool {
    match &plan.node {
        Node::Scan(scan) => scan.runtime_filters.is_empty() && !scan.filters.iter().any(Expr::calls_outside),
        Node::Values { batches } => batches.iter().map(RecordBatch::num_rows).sum::<usize>() <= ROWS_MAX,
        Node::Filter { input, predicate, .. } => !predicate.calls_outside() && may_be_short(input),
        Node::Project { input, expressions } => !expressions.iter().any(Expr::calls_outside) && may_be_short(input),
        Node::Limit { input, .. } => may_be_short(input),
        Node::Sort { input, keys, fetch: Some(_) } => {
            let is_short = |key: &SortKey| {
                let kind = key.expression.data_type();
                // There are two zeros, and NaNs with a sign.
                !key.expression.calls_outside() && !kind.is_nested() && !kind.is_floating()
            };
            keys.iter().all(is_short) && may_be_short(input)
        }
        Node::Write(write) => may_be_short(&write.input),
        _ => false,
    }
}

/// The rows of a plan, if it is short; `None`, and nothing was done, if it is not. A writer's commit may wait for a
/// disk. Fails as the plan's expressions, tables and writers do.
pub(crate) fn run_short(plan: &Plan, tables: &PlanTables, scans: &Arc<Scans>) -> Result<Option<Vec<RecordBatch>>> {
    if !may_be_short(plan) {
        return Ok(None);
    }
    let mut tables = tables.clone();
    let plan = &*with_first_rows(Cow::Borrowed(plan), &mut tables);
    let rows = |plan: &Plan| rows(plan, &tables, scans);
    let Node::Write(write) = &plan.node else {
        let Some(batches) = rows(plan)? else { return Ok(None) };
        return batches.iter().map(|batch| batch.to_record_batch(&plan.schema)).collect::<Result<_>>().map(Some);
    };
    let Some(batches) = rows(&write.input)? else { return Ok(None) };
    let schema = write.input.schema.clone();
    let operation = write.writer.begin(&WriteRequest { schema: schema.clone(), memory_bytes: usize::MAX })?;
    let mut part = operation.clone().part()?;
    for batch in &batches {
        part.write(&batch.to_record_batch(&schema)?)?;
    }
    part.finish()?;
    while let Some(io) = part.next_io() {
        done(io.io)?;
    }
    drop(part);
    done(operation.clone().prepare())?;
    let count = done(operation.commit())?;
    let count = RecordBatch::try_new(plan.schema.clone(), vec![Arc::new(UInt64Array::from(vec![count]))]);
    Ok(Some(vec![count.map_err(from_arrow)?]))
}

fn done<T>(io: WriteIo<T>) -> Result<T> {
    match io {
        WriteIo::Ready(result) => result,
        WriteIo::Blocking(work) => work(),
        WriteIo::Waiting(waiting) => futures::executor::block_on(waiting),
    }
}

/// The rows of a plan that does not write; `None` if there are too many to look at.
fn rows(plan: &Plan, tables: &PlanTables, scans: &Arc<Scans>) -> Result<Option<Vec<Batch>>> {
    let input = match &plan.node {
        Node::Scan(scan) => return scanned(scan, tables.get(scan.table)?, scans),
        Node::Values { batches } => return Ok(Some(batches.iter().map(Batch::from_record_batch).collect())),
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Limit { input, .. }
        | Node::Sort { input, .. } => input,
        _ => return Ok(None),
    };
    let Some(batches) = rows(input, tables, scans)? else { return Ok(None) };
    let mut made = Vec::with_capacity(batches.len());
    match &plan.node {
        Node::Filter { predicate, .. } => {
            for batch in batches {
                let selection = predicate.select(&batch)?;
                made.extend(batch.select(&selection)?);
            }
        }
        Node::Project { expressions, .. } => {
            for batch in batches {
                let columns = expressions.iter().map(|expression| expression.evaluate(&batch));
                made.push(Batch::new(columns.collect::<Result<_>>()?, batch.rows()));
            }
        }
        Node::Limit { skip, fetch, .. } => {
            let (mut skip, mut fetch) = (*skip, fetch.unwrap_or(usize::MAX));
            for batch in batches {
                let skipped = skip.min(batch.rows());
                let taken = (batch.rows() - skipped).min(fetch);
                (skip, fetch) = (skip - skipped, fetch - taken);
                if taken > 0 {
                    made.push(batch.slice(skipped, taken));
                }
            }
        }
        Node::Sort { keys, fetch, .. } => {
            if batches.iter().map(Batch::rows).sum::<usize>() > SORTED_ROWS_MAX {
                return Ok(None);
            }
            made.extend(sorted(batches, &input.schema, keys, *fetch)?);
        }
        _ => return Err(Error::bug("a plan is not short")),
    }
    Ok(Some(made))
}

/// Few rows in an order, the first of them only if so many are wanted.
fn sorted(batches: Vec<Batch>, schema: &SchemaRef, keys: &[SortKey], fetch: Option<usize>) -> Result<Option<Batch>> {
    let batches = batches.iter().map(|batch| batch.to_record_batch(schema)).collect::<Result<Vec<_>>>()?;
    let Some(first) = batches.first() else { return Ok(None) };
    let all = concat_batches(&first.schema(), &batches).map_err(from_arrow)?;
    if all.num_rows() == 0 || keys.is_empty() {
        let rows = fetch.unwrap_or(usize::MAX).min(all.num_rows());
        return Ok(Some(Batch::from_record_batch(&all.slice(0, rows))));
    }
    let batch = Batch::from_record_batch(&all);
    let columns = keys.iter().map(|key| {
        let values = to_logical(&key.expression.evaluate(&batch)?.flat()?, key.expression.data_type())?;
        Ok(SortColumn { values, options: Some(key.options) })
    });
    let order = lexsort_to_indices(&columns.collect::<Result<Vec<_>>>()?, fetch).map_err(from_arrow)?;
    let all = take_record_batch(&all, &order).map_err(from_arrow)?;
    Ok(Some(Batch::from_record_batch(&all)))
}

/// The columns of the table that a scan gives or looks at, in order.
fn wanted(scan: &Scan) -> Vec<usize> {
    let mut columns = scan.columns.clone();
    columns.extend(scan.filters.iter().flat_map(Expr::columns));
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Columns in the places that they have in the table; in other places there is nothing.
fn in_places(scan: &Scan, wanted: &[usize], columns: Vec<ArrayRef>, rows: usize) -> Vec<ArrayRef> {
    let nothing: ArrayRef = Arc::new(NullArray::new(rows));
    let mut places = vec![nothing; scan.table_schema.fields().len()];
    wanted.iter().zip(columns).for_each(|(place, column)| places[*place] = column);
    places
}

fn scanned(scan: &Scan, table: Arc<dyn Table>, scans: &Arc<Scans>) -> Result<Option<Vec<Batch>>> {
    let predicate = scan.condition();
    let columns = wanted(scan);
    let clusters = table.scan(&ScanRequest { columns: columns.clone(), predicate })?.clusters;
    let known = clusters.iter().map(|cluster| cluster.rows()).try_fold(0, |all: usize, rows| Some(all + rows?));
    if known.is_none_or(|rows| rows > ROWS_MAX) {
        return Ok(None);
    }
    let attendance = scans.attend(&table, &clusters, &columns, [].into_iter(), BATCH_ROWS_MAX, true);
    let mut batches = Vec::with_capacity(clusters.len());
    let mut reads = 0;
    for cluster in clusters {
        let shared = attendance.as_ref().and_then(|attendance| attendance.take(cluster.as_ref(), false));
        let fetched = match &shared {
            Some(shared) if shared.is_all() => Fetched::nothing(),
            _ => match cluster.fetch(&shared.as_ref().map_or(columns.clone(), |shared| shared.missing(&columns))) {
                Fetch::Ready(fetched) => fetched,
                Fetch::Blocking(read) if reads < READS_MAX => {
                    reads += 1;
                    read()?
                }
                Fetch::Buffered(read) if reads < READS_MAX => {
                    reads += 1;
                    read.wait()?
                }
                Fetch::Blocking(_) | Fetch::Waiting(_) | Fetch::Buffered(_) => return Ok(None),
            },
        };
        let (wanted, shared) = (columns.clone(), shared.map(|shared| shared as Arc<dyn SharedColumns>));
        let columns = columns.clone();
        let request = DecodeRequest { columns, batch_rows: BATCH_ROWS_MAX, shared, ..DecodeRequest::default() };
        let mut decode = cluster.decode(fetched, &request)?;
        while let Some(chunk) = decode.next()? {
            let mut batch = Some(Batch::from_arrays(in_places(scan, &wanted, chunk.columns, chunk.rows), chunk.rows));
            for filter in &scan.filters {
                let Some(left) = batch else { break };
                let selection = filter.select(&left)?;
                batch = left.select(&selection)?;
            }
            batches.extend(batch.map(|batch| batch.project(&scan.columns)));
        }
    }
    Ok(Some(batches))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::compute::SortOptions;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion_expr::Operator;
    use datafusion_physical_expr::PhysicalExpr;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, lit};
    use diligence_base::ids::TableVersion;
    use diligence_base::seams::ManualClock;
    use diligence_memory::Broker;
    use diligence_storage::memory::MemoryTable;

    use super::*;

    fn table(batches: usize) -> (Plan, PlanTables) {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let batch = |index: i64| {
            let values = Int64Array::from_iter_values(index * 4000..index * 4000 + 4000);
            RecordBatch::try_new(schema.clone(), vec![Arc::new(values) as ArrayRef]).unwrap()
        };
        let batches = (0..batches as i64).map(batch).collect();
        let table = MemoryTable::new("t", schema.clone(), batches, TableVersion(1)).unwrap();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let odd =
            BinaryExpr::new(Arc::new(BinaryExpr::new(column, Operator::Modulo, lit(3_i64))), Operator::Eq, lit(1_i64));
        let filters = vec![Expr::new(Arc::new(odd), &schema).unwrap()];
        let scan = Scan { filters, ..Scan::new(&table, "t", vec![0]) };
        (Plan::new(Node::Scan(scan), schema), [Arc::new(table) as _].into_iter().collect())
    }

    #[test]
    fn few_rows_are_read_at_once_and_many_are_not() {
        let scans = Scans::new(&Broker::new(1 << 20), Arc::new(ManualClock::stepping(1)), 50);
        let (scan, tables) = table(4);
        let schema = scan.schema.clone();
        let twice: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(Arc::new(Column::new("a", 0)), Operator::Plus, Arc::new(Column::new("a", 0))));
        let project = Node::Project { input: Box::new(scan), expressions: vec![Expr::new(twice, &schema).unwrap()] };
        let project = Plan::new(project, schema.clone());
        let limit = Plan::new(Node::Limit { input: Box::new(project), skip: 2, fetch: Some(2000) }, schema.clone());
        let rows = run_short(&limit, &tables, &scans).unwrap().unwrap();
        let values = rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec());
        let expected = (0..16_000).filter(|value| value % 3 == 1).skip(2).take(2000).map(|value| value * 2);
        assert_eq!(values.collect::<Vec<i64>>(), expected.collect::<Vec<i64>>());
        let (many, tables) = table(5);
        assert!(run_short(&many, &tables, &scans).unwrap().is_none());
        // The first of few rows in an order; of many rows it is another's work.
        let (one, tables) = table(1);
        let first = |skip: usize| {
            let limit = Node::Limit { input: Box::new(one.clone()), skip, fetch: None };
            let key = SortKey {
                expression: Expr::column(0, &schema).unwrap(),
                options: SortOptions { descending: true, nulls_first: true },
            };
            let input = Box::new(Plan::new(limit, schema.clone()));
            Plan::new(Node::Sort { input, keys: vec![key], fetch: Some(3) }, schema.clone())
        };
        let rows = run_short(&first(1000), &tables, &scans).unwrap().unwrap();
        assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values(), &[3997, 3994, 3991]);
        assert!(run_short(&first(0), &tables, &scans).unwrap().is_none());
        let sort = Node::Sort { input: Box::new(one.clone()), keys: vec![], fetch: None };
        assert!(!may_be_short(&Plan::new(sort, schema)));
    }
}
