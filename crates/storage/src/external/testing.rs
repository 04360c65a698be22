//! What the tests of all formats share: files from bytes, reading everything, filters.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use diligence_base::Result;
use diligence_base::seams::{CrashDisk, LocalDisk};
use parking_lot::Mutex;

use super::schema::{conform, is_narrow_form, logical_schema};
use super::{ExternalTable, OpenOptions, open};
use crate::{
    Cluster, DecodeRequest, Decoded, Fetch, Fetched, RowFilter, ScanRequest, SharedColumns, SharedItem, Table,
};

pub(crate) fn open_path(path: &Path) -> Result<Arc<ExternalTable>> {
    open(&path.to_string_lossy(), &OpenOptions::default(), Arc::new(LocalDisk))
}

/// A table of one file with these bytes. The file stays until the end of the process, in the folder for passing files.
pub(crate) fn table_of(name: &str, bytes: Vec<u8>) -> Arc<ExternalTable> {
    open_bytes(name, bytes, &OpenOptions::default()).unwrap()
}

pub(crate) fn open_bytes(name: &str, bytes: Vec<u8>, options: &OpenOptions) -> Result<Arc<ExternalTable>> {
    open(name, options, Arc::new(CrashDisk::holding([(name, bytes)])))
}

pub(crate) fn all(table: &ExternalTable) -> Vec<usize> {
    (0..table.schema().fields().len()).collect()
}

/// Runs a fetch as the engine would.
pub(crate) fn try_fetch(cluster: &Arc<dyn Cluster>, columns: &[usize]) -> Result<Fetched> {
    run(cluster.fetch(columns))
}

pub(crate) fn run(fetch: Fetch) -> Result<Fetched> {
    match fetch {
        Fetch::Ready(fetched) => Ok(fetched),
        Fetch::Blocking(read) => read(),
        Fetch::Buffered(read) => read.wait(),
        Fetch::Waiting(read) => super::source::wait(read),
    }
}

pub(crate) fn fetch(cluster: &Arc<dyn Cluster>, columns: &[usize]) -> Fetched {
    try_fetch(cluster, columns).unwrap()
}

/// Columns that are left by place, for whoever reads the table next.
#[derive(Default)]
pub(crate) struct Left {
    pub clusters: Mutex<HashMap<u64, HashMap<SharedItem, Vec<ArrayRef>>>>,
    /// Clusters of which nothing was fetched.
    pub not_fetched: AtomicUsize,
}

/// What is left of one cluster, and is left of it now: all columns, unless they have another number of rows in the end.
struct ClusterLeft {
    left: Arc<Left>,
    place: u64,
    ready: HashMap<SharedItem, Vec<ArrayRef>>,
    columns: Vec<usize>,
    put: Mutex<HashMap<SharedItem, Vec<ArrayRef>>>,
}

impl SharedColumns for ClusterLeft {
    fn windows(&self, item: SharedItem) -> Option<&[ArrayRef]> {
        self.ready.get(&item).map(Vec::as_slice)
    }

    fn wanted(&self) -> Vec<SharedItem> {
        let columns = self.columns.iter().copied().map(SharedItem::Column);
        columns.filter(|column| !self.ready.contains_key(column)).collect()
    }

    fn put(&self, item: SharedItem, window: &ArrayRef) -> bool {
        self.put.lock().entry(item).or_default().push(window.clone());
        true
    }

    fn complete(&self, rows: usize) {
        let mut put = std::mem::take(&mut *self.put.lock());
        put.retain(|_, windows| windows.iter().map(|window| window.len()).sum::<usize>() == rows);
        self.left.clusters.lock().entry(self.place).or_default().extend(put);
    }
}

/// Everything of a table in logical form; checks what the contract promises of every chunk.
pub(crate) fn try_read_all(
    table: &ExternalTable,
    request: &ScanRequest,
    filters: &[Arc<dyn RowFilter>],
    batch_rows: usize,
    narrow: bool,
) -> Result<RecordBatch> {
    try_read_shared(table, request, filters, batch_rows, narrow, None)
}

/// The chunks of a cluster, in logical form.
fn decode_all(
    cluster: &Arc<dyn Cluster>,
    fetched: Fetched,
    request: &DecodeRequest,
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>> {
    let mut decode = cluster.decode(fetched, request)?;
    let mut batches = Vec::new();
    loop {
        let chunk = match decode.step()? {
            Decoded::Chunk(chunk) => chunk,
            Decoded::Again => continue,
            Decoded::Read(fetch) => {
                decode.bring(run(fetch)?)?;
                continue;
            }
            Decoded::Done => return Ok(batches),
        };
        assert!(chunk.rows > 0 && chunk.rows <= request.batch_rows);
        assert_eq!(chunk.columns.len(), request.columns.len());
        let arrays = chunk.columns.iter().zip(schema.fields()).map(|(array, field)| {
            assert_eq!(array.len(), chunk.rows);
            assert!(
                array.data_type() == field.data_type()
                    || request.narrow && is_narrow_form(array.data_type(), field.data_type()),
                "{} came as {}",
                field,
                array.data_type()
            );
            array.to_data().validate_full().unwrap();
            conform(array.clone(), field.data_type(), false).unwrap()
        });
        let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
        let batch = RecordBatch::try_new_with_options(schema.clone(), arrays.collect(), &options);
        batches.push(batch.map_err(crate::foreign_error::from_arrow)?);
    }
}

/// The same, with what others have left, if somebody has; all columns are left for others.
pub(crate) fn try_read_shared(
    table: &ExternalTable,
    request: &ScanRequest,
    filters: &[Arc<dyn RowFilter>],
    batch_rows: usize,
    narrow: bool,
    left: Option<&Arc<Left>>,
) -> Result<RecordBatch> {
    let schema = Arc::new(table.schema().project(&request.columns).unwrap());
    let mut batches = Vec::new();
    let mut rows = 0;
    let mut columns = request.columns.clone();
    columns.extend(filters.iter().flat_map(|filter| filter.columns()));
    for cluster in &table.scan(request)?.clusters {
        let held = columns.iter().copied().filter(|column| cluster.holds(*column)).collect::<Vec<_>>();
        let shared = left.zip(cluster.place()).map(|(left, place)| {
            let ready = left.clusters.lock().get(&place).cloned().unwrap_or_default();
            Arc::new(ClusterLeft { left: left.clone(), place, ready, columns: held.clone(), put: Mutex::default() })
        });
        let has_all = shared.as_ref().is_some_and(|shared| !held.is_empty() && shared.wanted().is_empty());
        let fetched = match left {
            Some(left) if has_all => {
                left.not_fetched.fetch_add(1, Ordering::Relaxed);
                Fetched::nothing()
            }
            _ => try_fetch(cluster, &columns)?,
        };
        let decode = DecodeRequest {
            columns: request.columns.clone(),
            filters: filters.to_vec(),
            batch_rows,
            narrow,
            shared: shared.map(|shared| shared as Arc<dyn SharedColumns>),
            deleted: None,
        };
        let whole = decode_all(cluster, fetched, &decode, &schema);
        // What damage makes of lists depends on how many rows are read at once.
        let is_damaged = cluster.describe().contains("damaged");
        if left.is_none() {
            for step_bytes in [1, 100, 10_000] {
                let Some(first) = cluster.fetch_in_steps(&columns, step_bytes) else { break };
                let in_steps = run(first.fetch).and_then(|first| decode_all(cluster, first, &decode, &schema));
                // What is wrong beyond the pages that are wanted is seen by one of them only.
                if is_damaged {
                    continue;
                }
                if let (Ok(whole), Ok(in_steps)) = (&whole, &in_steps) {
                    let rows = |batches: &[RecordBatch]| concat_batches(&schema, batches).unwrap();
                    assert_eq!(rows(whole), rows(in_steps), "in steps of {step_bytes} bytes");
                }
                assert!(whole.is_err() || in_steps.is_ok(), "in steps of {step_bytes} bytes: {:?}", in_steps.err());
            }
        }
        let whole = whole?;
        let here = whole.iter().map(RecordBatch::num_rows).sum::<usize>();
        batches.extend(whole);
        if filters.is_empty()
            && let Some(known) = cluster.rows()
        {
            assert_eq!(known, here);
        }
        rows += here;
    }
    if schema.fields().is_empty() {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        return Ok(RecordBatch::try_new_with_options(schema, vec![], &options).unwrap());
    }
    Ok(concat_batches(&schema, &batches).unwrap())
}

pub(crate) fn read_all(
    table: &ExternalTable,
    request: &ScanRequest,
    filters: &[Arc<dyn RowFilter>],
    batch_rows: usize,
    narrow: bool,
) -> RecordBatch {
    try_read_all(table, request, filters, batch_rows, narrow).unwrap()
}

/// Opens and reads all of a file with these bytes.
pub(crate) fn try_read(name: &str, bytes: Vec<u8>) -> Result<RecordBatch> {
    let table = open_bytes(name, bytes, &OpenOptions::default())?;
    try_read_all(&table, &ScanRequest { columns: all(&table), predicate: None }, &[], 1000, true)
}

/// The batch as its table shows it.
pub(crate) fn logical(batch: &RecordBatch) -> RecordBatch {
    let schema = Arc::new(logical_schema(&batch.schema()));
    let arrays = batch.columns().iter().zip(schema.fields());
    let arrays = arrays.map(|(array, field)| conform(array.clone(), field.data_type(), false).unwrap()).collect();
    RecordBatch::try_new(schema, arrays).unwrap()
}

/// The physical types of the first chunk.
pub(crate) fn forms(table: &ExternalTable, narrow: bool) -> HashMap<String, DataType> {
    let columns = all(table);
    let cluster = table.scan(&ScanRequest { columns: columns.clone(), predicate: None }).unwrap().clusters[0].clone();
    let request = DecodeRequest {
        columns: columns.clone(),
        filters: vec![],
        batch_rows: 100,
        narrow,
        ..DecodeRequest::default()
    };
    let chunk = cluster.decode(fetch(&cluster, &columns), &request).unwrap().next().unwrap().unwrap();
    let schema = table.schema();
    let forms = chunk.columns.iter().zip(schema.fields());
    forms.map(|(array, field)| (field.name().clone(), array.data_type().clone())).collect()
}

/// Keeps rows whose value, or whose text's length, is at most a bound; NULL for NULL.
pub(crate) struct AtMost {
    column: [usize; 1],
    bound: i64,
}

impl AtMost {
    pub fn filter(column: usize, bound: i64) -> Arc<dyn RowFilter> {
        Arc::new(Self { column: [column], bound })
    }

    pub fn measure(array: &ArrayRef, row: usize) -> Option<i64> {
        if array.is_null(row) {
            return None;
        }
        Some(match array.data_type() {
            DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
            DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value(row) as i64,
            DataType::Decimal64(..) => array.as_primitive::<Decimal64Type>().value(row),
            DataType::Utf8View => array.as_string_view().value(row).len() as i64,
            DataType::Dictionary(..) => {
                let dictionary = array.as_dictionary::<Int32Type>();
                let key = dictionary.key(row)?;
                dictionary.values().as_string::<i32>().value(key).len() as i64
            }
            other => panic!("no measure of {other}"),
        })
    }
}

impl RowFilter for AtMost {
    fn columns(&self) -> &[usize] {
        &self.column
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = columns[0].len();
        Ok((0..rows).map(|row| Self::measure(&columns[0], row).map(|measure| measure <= self.bound)).collect())
    }
}

thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs something whose panics are expected to be caught inside, without their messages.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                hook(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    QUIET.set(false);
    result.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        panic!("a panic was not caught inside: {}", words.unwrap_or("no words"))
    })
}
