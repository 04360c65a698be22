//! Whole queries that write, on workers and inline: everything is there, or nothing; little memory is enough.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{Int64Type, UInt64Type};
use diligence_base::seams::CrashDisk;
use diligence_base::{ErrorKind, Result};
use diligence_storage::external::{Compression, Destination, FileWriter, Packing, WriteExtras, WriteFormat};
use diligence_storage::{PartIo, WriteIo, WriteOperation, WritePart, WriteRequest, Writer};

use crate::plan::{Node, Plan};
use crate::query::tests::{exchange, expr, in_order, numbers, options, schema, sort};
use crate::tuning::settings::KnobId;
use crate::{Engine, EngineOptions, QueryOptions};

const BUDGET: usize = 2 << 20;
/// What a sort needs besides, for the clusters of its runs.
const SORT_BUDGET: usize = 16 << 20;

fn engines(memory_bytes: usize) -> Vec<Arc<Engine>> {
    let threads = [1, 2, 4].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    let inline = (0..4).map(EngineOptions::inline);
    let all = threads.into_iter().chain(inline);
    all.map(|options| Engine::start(EngineOptions { memory_bytes, ..options }).unwrap()).collect()
}

fn to_csv(input: Plan, disk: &CrashDisk) -> Plan {
    let packing = Packing { compression: Compression::Plain, level: None };
    let writer = FileWriter {
        name: "out".to_owned(),
        format: WriteFormat::Csv(WriterBuilder::new().with_header(false), packing),
        extras: WriteExtras::default(),
        destination: Destination::File("/out".into()),
        partition_columns: Vec::new(),
        keeps_partition_columns: false,
        required_columns: Vec::new(),
        file_rows_max: u64::MAX,
        disk: Arc::new(disk.clone()),
    };
    Plan::write(input, Arc::new(writer))
}

/// The number of rows that a statement says it has written.
fn run(engine: &Arc<Engine>, plan: &Plan) -> Result<u64> {
    let mut stream = engine.run(plan, options(1000))?;
    let mut rows = 0;
    while let Some(batch) = stream.next_blocking() {
        rows += batch?.column(0).as_primitive::<UInt64Type>().value(0);
    }
    Ok(rows)
}

fn written(disk: &CrashDisk) -> Vec<i64> {
    let text = String::from_utf8(disk.files().remove(Path::new("/out")).unwrap()).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Memory is free, and no file is left but these, once the I/O threads are done.
fn settles(engine: &Engine, disk: &CrashDisk, files: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while engine.broker().reserved_bytes() > 0 || disk.files().len() > files {
        assert!(Instant::now() < end, "{} bytes, {:?}", engine.broker().reserved_bytes(), disk.files().keys());
        std::thread::yield_now();
    }
}

#[test]
fn more_rows_than_the_budget_holds_are_written_by_all_packets() {
    const ROWS: i64 = 1_000_000;
    for engine in engines(BUDGET) {
        let disk = CrashDisk::default();
        assert_eq!(run(&engine, &to_csv(numbers(ROWS), &disk)).unwrap(), ROWS as u64);
        let mut rows = written(&disk);
        rows.sort_unstable();
        assert!(rows.into_iter().eq(0..ROWS), "{engine:?}");
        settles(&engine, &disk, 1);
    }
}

#[test]
fn rows_in_an_order_are_written_in_it() {
    for engine in engines(SORT_BUDGET) {
        let disk = CrashDisk::default();
        let mut sorted = sort(exchange(numbers(30_000), crate::plan::Pact::RoundRobin, 3), None);
        sorted.ordered = true;
        assert_eq!(run(&engine, &to_csv(sorted, &disk)).unwrap(), 30_000);
        assert!(written(&disk).into_iter().eq(0..30_000), "{engine:?}");
        assert_eq!(run(&engine, &to_csv(numbers(0), &disk)).unwrap(), 0);
        assert!(written(&disk).is_empty(), "no rows are a file without rows");
    }
}

#[test]
fn rows_of_a_table_are_read_and_written_in_its_order_by_all_packets() {
    const ROWS: usize = 300_000;
    let (scan, tables) = in_order(ROWS);
    let options = || QueryOptions { tables: tables.clone(), ..options(1000) };
    for engine in engines(BUDGET) {
        let disk = CrashDisk::default();
        let even = Node::Limit { input: Box::new(scan.clone()), skip: 5, fetch: Some(ROWS - 1000) };
        let even = Plan { ordered: true, ..Plan::new(even, schema()) };
        for (plan, expected) in [(scan.clone(), 0..ROWS as i64), (even, 5..(ROWS - 995) as i64)] {
            let mut stream = engine.run(&to_csv(plan.clone(), &disk), options()).unwrap();
            while let Some(batch) = stream.next_blocking() {
                batch.unwrap();
            }
            assert!(written(&disk).into_iter().eq(expected.clone()), "{engine:?}");
            let mut stream = engine.run(&plan, options()).unwrap();
            let mut read = Vec::new();
            while let Some(batch) = stream.next_blocking() {
                read.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
            }
            assert!(read.into_iter().eq(expected), "{engine:?}");
        }
        settles(&engine, &disk, 1);
    }
}

#[test]
fn a_statement_that_fails_or_is_dropped_leaves_nothing() {
    let not_a_number = || {
        use datafusion_common::ScalarValue;
        use datafusion_expr::Operator;
        use datafusion_physical_expr::expressions::{BinaryExpr, Literal};
        let number = |number| Arc::new(Literal::new(ScalarValue::Int64(Some(number)))) as _;
        let below = BinaryExpr::new(crate::query::tests::column(), Operator::Minus, number(150_000));
        expr(Arc::new(BinaryExpr::new(number(1), Operator::Divide, Arc::new(below))))
    };
    for engine in engines(BUDGET) {
        let disk = CrashDisk::holding([("/out", "7\n")]);
        let divided = Node::Project { input: Box::new(numbers(200_000)), expressions: vec![not_a_number()] };
        let error = run(&engine, &to_csv(Plan::new(divided, schema()), &disk)).unwrap_err();
        assert!(error.message().to_lowercase().contains("divi"), "{error}");
        settles(&engine, &disk, 1);
        let mut stream = engine.run(&to_csv(numbers(200_000), &disk), options(1000)).unwrap();
        let _ = stream.next_within(Duration::from_millis(1));
        drop(stream);
        settles(&engine, &disk, 1);
        let kept = written(&disk);
        assert!(kept == [7] || kept.len() == 200_000, "{} rows", kept.len());
    }
}

/// Takes rows for nothing. Its commit waits until a test lets it go on.
#[derive(Clone, Debug, Default)]
struct Gate {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    is_open: Arc<AtomicBool>,
}

impl Writer for Gate {
    fn begin(&self, _: &WriteRequest) -> Result<Arc<dyn WriteOperation>> {
        Ok(Arc::new(self.clone()))
    }

    fn describe(&self) -> String {
        "a gate".to_owned()
    }
}

impl WriteOperation for Gate {
    fn part(self: Arc<Self>) -> Result<Box<dyn WritePart>> {
        Ok(Box::new(Nowhere))
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn prepare(self: Arc<Self>) -> WriteIo<()> {
        WriteIo::Ready(Ok(()))
    }

    fn commit(self: Arc<Self>) -> WriteIo<u64> {
        WriteIo::Blocking(Box::new(move || {
            self.begun.fetch_add(1, Ordering::SeqCst);
            while !self.is_open.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            self.ended.fetch_add(1, Ordering::SeqCst);
            Ok(0)
        }))
    }
}

struct Nowhere;

impl WritePart for Nowhere {
    fn write(&mut self, _: &RecordBatch) -> Result<()> {
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn revoke(&mut self) -> Result<()> {
        Ok(())
    }

    fn next_io(&mut self) -> Option<PartIo> {
        None
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_query_that_is_cancelled_ends_after_its_commit_and_begins_none() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let io_threads = engine.knob(KnobId::IoThreads);
    let gate = Gate::default();
    let commits = |count: usize| {
        let end = Instant::now() + Duration::from_secs(60);
        while gate.begun.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < end, "{} of {count} commits have begun", gate.begun.load(Ordering::SeqCst));
            std::thread::yield_now();
        }
    };
    let start = || engine.run(&Plan::write(numbers(10), Arc::new(gate.clone())), options(1000));
    // All I/O threads are at commits, and one query more waits for one of them.
    let mut streams: Vec<_> = (0..io_threads).map(|_| start().unwrap()).collect();
    commits(io_threads);
    let mut last = start().unwrap();
    let queued = || engine.stages().iter().map(|stage| (stage.name == "io", stage.queued)).any(|io| io == (true, 1));
    while !queued() {
        std::thread::yield_now();
    }
    streams.iter().chain([&last]).for_each(|stream| stream.cancel_token().cancel());
    for stream in streams.iter_mut().chain([&mut last]) {
        assert!(stream.next_within(Duration::from_millis(5)).is_pending(), "a job of it has not ended");
    }
    gate.is_open.store(true, Ordering::SeqCst);
    for stream in &mut streams {
        let error = stream.next_blocking().unwrap().unwrap_err();
        assert_eq!((error.kind(), stream.next_blocking().is_none()), (ErrorKind::Cancelled, true));
    }
    assert!(last.next_blocking().unwrap().is_err());
    assert_eq!((gate.begun.load(Ordering::SeqCst), gate.ended.load(Ordering::SeqCst)), (io_threads, io_threads));
}
