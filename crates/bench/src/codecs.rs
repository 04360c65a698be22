//! `diligence-bench codecs`: bytes and time of every column of TPC-H and of the web log, as Parquet and as segments of
//! our own.
//!
//! Each column is a file of its own in each format, in clusters of 131,072 rows. What is measured is what a scan's
//! worker does: from bytes in memory to arrays in the engine's narrow form, through the same seam. Reading the file,
//! and with it the checksums of our own, is not in it. The least of several rounds counts.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Schema};
use clap::Args;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::seams::{Disk, LocalDisk};
use diligence_base::{Error, Result};
use diligence_segment::{Chunk, encode};
use diligence_storage::external::{self, OpenOptions};
use diligence_storage::segment::{CLUSTER_ROWS_MAX, Segment, SegmentWriter};
use diligence_storage::{Cluster, DecodeRequest, DeletedRows, Fetch, Fetched, ScanRequest, Table};
use diligence_tpch::TpchTable;
use diligence_weblog::WebLog;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use crate::report::{geometric_mean, print_table};

/// What to run.
#[derive(Args)]
pub struct CodecsArguments {
    /// The scale factor of TPC-H.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Clusters of each table at most.
    #[arg(long, default_value_t = 8)]
    clusters: usize,
    /// Rounds, of which the fastest counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only columns whose name (table.column) has this in it.
    #[arg(long, default_value = "")]
    only: String,
}

const FORMATS: [&str; 3] = ["snappy", "zstd", "own"];
/// One row of so many, in thousandths, that is wanted.
const SHARES: [usize; 3] = [1000, 100, 10];
/// Rows that are looked up one by one.
const SINGLE_ROWS: usize = 64;

/// A column in one format.
#[derive(Clone, Debug, Default)]
struct ColumnMeasured {
    bytes_per_row: f64,
    encode_ns: f64,
    /// For each share of the rows that is wanted: nanoseconds for each row, wanted or not.
    decode_ns: [f64; SHARES.len()],
    /// To look a row up in a cluster that is in memory.
    single_us: f64,
}

/// Runs the benchmark and prints its table. Fails if a file cannot be written.
pub fn run(arguments: &CodecsArguments) -> Result<Value> {
    let folder = tempfile::tempdir().map_err(|error| Error::file(error.to_string()))?;
    let (mut rows, mut report, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (table, schema, batches) in tables(arguments) {
        if !schema.fields().iter().any(|field| format!("{table}.{}", field.name()).contains(&arguments.only)) {
            continue;
        }
        let batches = batches()?;
        for (index, field) in schema.fields().iter().enumerate() {
            let name = format!("{table}.{}", field.name());
            if !name.contains(&arguments.only) {
                continue;
            }
            let clusters = clusters(&batches, index, arguments.clusters)?;
            let form = form(&clusters[0])?;
            let measured = FORMATS.map(|format| measure(arguments, folder.path(), format, &clusters));
            let measured = measured.into_iter().collect::<Result<Vec<_>>>()?;
            let mut row = vec![name.clone(), form.clone()];
            let cells = |of: &dyn Fn(&ColumnMeasured) -> f64| measured.iter().map(of).collect::<Vec<_>>();
            row.extend(cells(&|one| one.bytes_per_row).iter().map(|value| format!("{value:.2}")));
            for share in 0..SHARES.len() {
                row.extend(cells(&|one| one.decode_ns[share]).iter().map(|value| format!("{value:.2}")));
            }
            row.extend(cells(&|one| one.single_us).iter().map(|value| format!("{value:.1}")));
            row.extend(cells(&|one| one.encode_ns).iter().map(|value| format!("{value:.1}")));
            eprintln!("{name}");
            rows.push(row);
            report.push(json!({
                "column": name,
                "form": form,
                "bytes_per_row": cells(&|one| one.bytes_per_row),
                "ns_whole": cells(&|one| one.decode_ns[0]),
                "ns_tenth": cells(&|one| one.decode_ns[1]),
                "ns_hundredth": cells(&|one| one.decode_ns[2]),
                "us_single": cells(&|one| one.single_us),
                "ns_encode": cells(&|one| one.encode_ns),
            }));
            all.push(measured);
        }
    }
    let header = ["column", "form", "B/row", "B zstd", "B own", "ns whole", "zstd", "own", "ns 10 %", "zstd", "own"];
    let header =
        header.iter().chain(&["ns 1 %", "zstd", "own", "us single", "zstd", "own", "ns encode", "zstd", "own"]);
    println!(
        "codecs: TPC-H SF{} and the web log, {} clusters of {CLUSTER_ROWS_MAX} rows at most, the least of {} rounds",
        arguments.sf, arguments.clusters, arguments.rounds
    );
    println!("of three columns each, the first is Parquet with Snappy");
    print_table(&header.map(|text| (*text).to_owned()).collect::<Vec<_>>(), &rows);
    let mean = |of: fn(&ColumnMeasured) -> f64, format: usize| {
        let ratios = all.iter().map(|one| of(&one[2]).max(0.01) / of(&one[format]).max(0.01)).collect::<Vec<_>>();
        geometric_mean(&ratios)
    };
    let values: [(&str, fn(&ColumnMeasured) -> f64); 6] = [
        ("bytes", |one| one.bytes_per_row),
        ("whole", |one| one.decode_ns[0]),
        ("10 %", |one| one.decode_ns[1]),
        ("1 %", |one| one.decode_ns[2]),
        ("single", |one| one.single_us),
        ("encode", |one| one.encode_ns),
    ];
    for (what, of) in values {
        println!("own / snappy, own / zstd, geometric means, {what}: {:.2} {:.2}", mean(of, 0), mean(of, 1));
    }
    Ok(json!({ "benchmark": "codecs", "sf": arguments.sf, "clusters": arguments.clusters, "columns": report }))
}

type Batches = Box<dyn FnOnce() -> Result<Vec<RecordBatch>>>;

/// The tables: each with its columns, and how its rows are made.
fn tables(arguments: &CodecsArguments) -> Vec<(&'static str, arrow::datatypes::SchemaRef, Batches)> {
    let rows_max = arguments.clusters.max(1) * CLUSTER_ROWS_MAX;
    let sf = arguments.sf;
    let mut tables = Vec::new();
    for table in TpchTable::ALL {
        let schema = table.batches(sf, 1, 1).schema();
        let make: Batches = Box::new(move || {
            let (mut batches, mut rows) = (Vec::new(), 0);
            for batch in table.batches(sf, 1, 1) {
                let batch = batch.map_err(|error| Error::value(error.to_string()))?;
                rows += batch.num_rows();
                batches.push(batch);
                if rows >= rows_max {
                    break;
                }
            }
            Ok(batches)
        });
        tables.push((table.name(), schema, make));
    }
    let make: Batches = Box::new(move || {
        let log = WebLog::new(1);
        let starts = (0..rows_max as u64).step_by(16_384);
        starts.map(|first| log.batch(first, 16_384).map_err(|error| Error::value(error.to_string()))).collect()
    });
    tables.push(("web_log", WebLog::schema(), make));
    tables
}

/// A column's rows in clusters, as tables have them.
fn clusters(batches: &[RecordBatch], index: usize, clusters_max: usize) -> Result<Vec<ArrayRef>> {
    let failed = |error: arrow::error::ArrowError| Error::value(error.to_string());
    let pieces = batches.iter().map(|batch| match batch.column(index).data_type() {
        DataType::Utf8 => cast(batch.column(index), &DataType::Utf8View),
        _ => Ok(batch.column(index).clone()),
    });
    let pieces = pieces.collect::<std::result::Result<Vec<_>, _>>().map_err(failed)?;
    let whole = concat(&pieces.iter().map(|piece| &**piece as &dyn Array).collect::<Vec<_>>()).map_err(failed)?;
    let starts = (0..whole.len()).step_by(CLUSTER_ROWS_MAX).take(clusters_max.max(1));
    Ok(starts.map(|start| whole.slice(start, CLUSTER_ROWS_MAX.min(whole.len() - start))).collect())
}

/// How a cluster is packed.
fn form(array: &ArrayRef) -> Result<String> {
    let bytes = encode(array).map_err(|error| Error::value(error.to_string()))?;
    let chunk = Chunk::open(bytes.into(), array.data_type(), array.len());
    Ok(chunk.map_err(|error| Error::bug(error.to_string()))?.form().to_owned())
}

fn measure(arguments: &CodecsArguments, folder: &Path, format: &str, clusters: &[ArrayRef]) -> Result<ColumnMeasured> {
    let rows = clusters.iter().map(|cluster| cluster.len()).sum::<usize>() as f64;
    let started = Instant::now();
    let files = write(folder, format, clusters)?;
    let encode_ns = started.elapsed().as_nanos() as f64 / rows;
    let bytes_per_row = files.iter().map(|cluster| cluster.bytes(&[0])).sum::<usize>() as f64 / rows;
    let mut measured = ColumnMeasured { bytes_per_row, encode_ns, ..ColumnMeasured::default() };
    for (place, share) in SHARES.into_iter().enumerate() {
        let wanted = clusters.iter().map(|cluster| {
            let is_wanted = |row: usize| spread(row) % 1000 < share as u64;
            (share < 1000).then(|| Arc::new(DeletedRows::of(BooleanBuffer::collect_bool(cluster.len(), is_wanted))))
        });
        let wanted = wanted.collect::<Vec<_>>();
        let mut least = f64::MAX;
        for _ in 0..arguments.rounds.max(1) {
            let mut ns = 0;
            for (cluster, wanted) in files.iter().zip(&wanted) {
                ns += decode_ns(cluster, wanted.clone())?;
            }
            least = least.min(ns as f64);
        }
        measured.decode_ns[place] = least / rows;
    }
    let (cluster, length) = (&files[0], clusters[0].len());
    let mut least = f64::MAX;
    for _ in 0..arguments.rounds.max(1) {
        let mut ns = 0;
        for row in 0..SINGLE_ROWS {
            let row = spread(row) as usize % length;
            ns += decode_ns(cluster, Some(Arc::new(DeletedRows::all_but(length, &[row]))))?;
        }
        least = least.min(ns as f64 / SINGLE_ROWS as f64 / 1000.0);
    }
    Ok(ColumnMeasured { single_us: least, ..measured })
}

fn spread(row: usize) -> u64 {
    (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
}

/// Decodes a cluster's only column; reading its bytes does not count.
fn decode_ns(cluster: &Arc<dyn Cluster>, deleted: Option<Arc<DeletedRows>>) -> Result<u128> {
    let fetched: Fetched = match cluster.fetch(&[0]) {
        Fetch::Ready(fetched) => fetched,
        Fetch::Blocking(read) => read()?,
        Fetch::Buffered(read) => read.wait()?,
        Fetch::Waiting(_) => return Err(Error::bug("a local file is read by a thread")),
    };
    let request = DecodeRequest {
        columns: vec![0],
        batch_rows: BATCH_ROWS_MAX,
        narrow: true,
        deleted,
        ..DecodeRequest::default()
    };
    let started = Instant::now();
    let mut decode = cluster.decode(fetched, &request)?;
    let mut rows = 0;
    while let Some(chunk) = decode.next()? {
        rows += std::hint::black_box(chunk).rows;
    }
    let elapsed = started.elapsed().as_nanos();
    if rows == 0 { Err(Error::bug("no row was decoded")) } else { Ok(elapsed) }
}

/// The clusters of a file with this column.
fn write(folder: &Path, format: &str, clusters: &[ArrayRef]) -> Result<Vec<Arc<dyn Cluster>>> {
    let schema = Arc::new(Schema::new(vec![Field::new("c1", clusters[0].data_type().clone(), true)]));
    let batch = |array: &ArrayRef| {
        RecordBatch::try_new(schema.clone(), vec![array.clone()]).map_err(|error| Error::bug(error.to_string()))
    };
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let ending = if format == "own" { "seg" } else { "parquet" };
    let path = folder.join(format!("column.{ending}"));
    // The file before it is another column's.
    let _ = std::fs::remove_file(&path);
    if format == "own" {
        let mut writer = SegmentWriter::create(&disk, &path, 1, &schema, &[1])?;
        clusters.iter().try_for_each(|array| writer.write_cluster(&[batch(array)?]))?;
        let segment: Arc<Segment> = writer.finish()?;
        let view = segment.view(&schema, &[1]);
        return (0..clusters.len()).map(|cluster| view.cluster(cluster, None, None)).collect();
    }
    let failed = |error: parquet::errors::ParquetError| Error::file(error.to_string());
    let compression = match format {
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        _ => Compression::SNAPPY,
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(CLUSTER_ROWS_MAX))
        .build();
    let file = File::create(&path).map_err(|error| Error::file(error.to_string()))?;
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(failed)?;
    clusters.iter().try_for_each(|array| writer.write(&batch(array)?).map_err(failed))?;
    writer.close().map_err(failed)?;
    let location = path.to_str().ok_or_else(|| Error::bug("a path of ours is text"))?;
    let table = external::open(location, &OpenOptions::default(), disk)?;
    let request = ScanRequest { columns: vec![0], predicate: None };
    Ok(table.scan(&request)?.clusters)
}
