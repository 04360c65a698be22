//! A panic inside a packet, or inside the I/O stage, fails its query with a message; the other queries do not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::Statistics;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::{ErrorKind, Result};
use diligence_db::{Database, DatabaseOptions};
use diligence_storage::{
    Chunk, Cluster, Decode, DecodeRequest, Decoded, Fetch, Fetched, ScanRequest, Table, TableScan,
};
use diligence_tests::idle;

const CLUSTERS: usize = 8;
const ROWS_PER_CLUSTER: usize = 1_000;

/// Queries that run beside the one that fails.
const NEIGHBOURS: usize = 20;

/// Where the mine lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mine {
    Nowhere,
    InFetch,
    InDecode,
    InStep,
}

/// Numbers in clusters; the fifth cluster may hold a mine.
#[derive(Debug)]
struct MinedTable(Mine, TableIdentity);

#[derive(Debug)]
struct MinedCluster {
    mine: Mine,
    /// Whether it was given out.
    number: usize,
}

struct MinedDecode {
    mine: Mine,
    columns: usize,
    done: bool,
}

impl Table for MinedTable {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]))
    }

    fn identity(&self) -> TableIdentity {
        self.1
    }

    fn statistics(&self) -> Statistics {
        Statistics::new_unknown(&self.schema())
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        let cluster = |number| {
            let mine = if number == 4 { self.0 } else { Mine::Nowhere };
            Arc::new(MinedCluster { mine, number }) as Arc<dyn Cluster>
        };
        Ok(TableScan { clusters: (0..CLUSTERS).map(cluster).collect(), clusters_pruned: 0 })
    }

    fn describe(&self) -> String {
        "a table with a mine".to_owned()
    }
}

impl Cluster for MinedCluster {
    fn rows(&self) -> Option<usize> {
        Some(ROWS_PER_CLUSTER)
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        columns.len() * ROWS_PER_CLUSTER * 8
    }

    fn fetch(&self, _columns: &[usize]) -> Fetch {
        let mine = self.mine;
        Fetch::Blocking(Box::new(move || {
            assert!(mine != Mine::InFetch, "a mine in fetch went off");
            Ok(Fetched { bytes: 0, content: Box::new(()) })
        }))
    }

    fn decode(&self, _fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        assert!(self.mine != Mine::InDecode, "a mine in decode went off");
        Ok(Box::new(MinedDecode { mine: self.mine, columns: request.columns.len(), done: false }))
    }

    fn describe(&self) -> String {
        format!("cluster {} of a table with a mine", self.number)
    }
}

impl Decode for MinedDecode {
    fn step(&mut self) -> Result<Decoded> {
        assert!(self.mine != Mine::InStep, "a mine in step went off");
        if std::mem::replace(&mut self.done, true) {
            return Ok(Decoded::Done);
        }
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1; ROWS_PER_CLUSTER]));
        Ok(Decoded::Chunk(Chunk { columns: vec![column; self.columns], rows: ROWS_PER_CLUSTER }))
    }
}

fn database() -> Database {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    for (name, mine) in
        [("sound", Mine::Nowhere), ("fetch", Mine::InFetch), ("decode", Mine::InDecode), ("step", Mine::InStep)]
    {
        let table: Arc<dyn Table> = Arc::new(MinedTable(mine, TableIdentity::of_new(TableVersion(1))));
        database.register(name, table).unwrap();
    }
    database
}

#[test]
fn a_panic_fails_one_query_and_leaves_twenty_others_running() {
    let database = database();
    let stop = AtomicBool::new(false);
    let (answers, started) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..NEIGHBOURS {
            scope.spawn(|| {
                let session = database.session();
                started.fetch_add(1, Ordering::Relaxed);
                let query = "SELECT CAST(sum(a.v + b.v) AS BIGINT) FROM sound a JOIN (SELECT DISTINCT v FROM sound) b ON a.v = b.v";
                while !stop.load(Ordering::Relaxed) {
                    let batches = session.execute(query).unwrap().collect().unwrap();
                    let sum = batches[0].column(0).as_primitive::<Int64Type>().value(0);
                    assert_eq!(sum, (CLUSTERS * ROWS_PER_CLUSTER * 2) as i64);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while started.load(Ordering::Relaxed) < NEIGHBOURS {
            std::thread::yield_now();
        }
        // If an assertion below fails, the neighbours must stop, or the scope would wait for ever.
        let failing = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let session = database.session();
            for _ in 0..5 {
                for mined in ["fetch", "decode", "step"] {
                    for query in [
                        format!("SELECT v FROM {mined}"),
                        format!("SELECT sum(v) FROM {mined} WHERE v > 0"),
                        format!("SELECT s.v FROM sound s JOIN {mined} m ON s.v = m.v + 1 ORDER BY s.v"),
                    ] {
                        let error = session.execute(&query).and_then(|result| result.collect()).unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::Bug, "{query}: {error}");
                        assert!(error.to_string().contains("a mine"), "{query}: {error}");
                    }
                }
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = failing {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(answers.load(Ordering::Relaxed) >= NEIGHBOURS);
    idle::wait(&database).unwrap();
}
