//! What a query did: rows, bytes, batches and time per operator, turns and queueing per pipeline.
//!
//! Counting is local to a packet and added up once per quantum, so that no counter is shared by running workers.

use std::fmt;
use std::sync::Arc;

use diligence_base::units::display_bytes;

use crate::batch::Batch;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Rows, batches and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows.
    pub rows: u64,
    /// Batches.
    pub batches: u64,
    /// Bytes of the columns when flat, about.
    pub bytes: u64,
}

impl Counts {
    /// One batch.
    pub fn of(batch: &Batch) -> Self {
        Self { rows: batch.rows() as u64, batches: 1, bytes: batch.bytes_estimated() as u64 }
    }
}

/// Totals of one source, operator or sink over all packets.
#[derive(Debug, Default)]
pub struct Totals {
    rows: AtomicU64,
    batches: AtomicU64,
    bytes: AtomicU64,
    worked_ns: AtomicU64,
}

impl Totals {
    /// What came out (of a sink: what went in).
    pub fn counts(&self) -> Counts {
        Counts {
            rows: self.rows.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Time on workers, in nanoseconds.
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns.load(Ordering::Relaxed)
    }

    /// Adds time spent outside a packet's chain (finishing parts).
    pub(crate) fn add_worked_ns(&self, ns: u64) {
        self.worked_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

/// What an operator has written to temp space: files (runs of a sort, partitions), the levels of recursion or merging,
/// bytes.
#[derive(Debug, Default)]
pub struct Spills {
    files: AtomicU64,
    levels: AtomicU64,
    bytes: AtomicU64,
}

impl Spills {
    /// A file was written, of so many bytes, on some level, from 1.
    pub fn add(&self, level: usize, bytes: u64) {
        self.add_file(level);
        self.add_bytes(bytes);
    }

    /// A file is being written on some level, from 1.
    pub fn add_file(&self, level: usize) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.levels.fetch_max(level as u64, Ordering::Relaxed);
    }

    /// Bytes were written to a file.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was written so far.
    pub fn counts(&self) -> SpillCounts {
        SpillCounts {
            files: self.files.load(Ordering::Relaxed),
            levels: self.levels.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// What was written to temp space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillCounts {
    /// Files: runs of a sort, partitions.
    pub files: u64,
    /// How often a row was written at most.
    pub levels: u64,
    /// Bytes, those of all levels together.
    pub bytes: u64,
}

/// One packet's counter of one source, operator or sink.
pub struct Meter {
    totals: Arc<Totals>,
    counts: Counts,
    worked_ns: u64,
}

impl Meter {
    /// A counter that adds up to `totals`.
    pub fn new(totals: Arc<Totals>) -> Self {
        Self { totals, counts: Counts::default(), worked_ns: 0 }
    }

    /// Time was spent.
    pub fn worked(&mut self, ns: u64) {
        self.worked_ns += ns;
    }

    /// Rows passed.
    pub fn passed(&mut self, counts: Counts) {
        self.counts.rows += counts.rows;
        self.counts.batches += counts.batches;
        self.counts.bytes += counts.bytes;
    }

    /// Adds what was counted to the totals.
    pub fn flush(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        let worked_ns = std::mem::take(&mut self.worked_ns);
        if counts.batches > 0 {
            self.totals.rows.fetch_add(counts.rows, Ordering::Relaxed);
            self.totals.batches.fetch_add(counts.batches, Ordering::Relaxed);
            self.totals.bytes.fetch_add(counts.bytes, Ordering::Relaxed);
        }
        if worked_ns > 0 {
            self.totals.worked_ns.fetch_add(worked_ns, Ordering::Relaxed);
        }
    }
}

/// One source, operator or sink of a finished or running query.
#[derive(Clone, Debug)]
pub struct OperatorProfile {
    /// What it is, as EXPLAIN shows it.
    pub name: String,
    /// What came out (of a sink: what went in).
    pub counts: Counts,
    /// Time on workers, in nanoseconds.
    pub worked_ns: u64,
    /// What it wrote to temp space.
    pub spilled: SpillCounts,
}

/// One pipeline of a finished or running query.
#[derive(Clone, Debug)]
pub struct PipelineProfile {
    /// Its number in the query.
    pub index: usize,
    /// The stage that served its packets.
    pub stage: &'static str,
    /// Packets that worked on it.
    pub packets: usize,
    /// Time its packets were in queues, in nanoseconds, all packets together.
    pub queued_ns: u64,
    /// Time its packets were on workers, in nanoseconds, all packets together.
    pub worked_ns: u64,
    /// Source, operators, sink.
    pub operators: Vec<OperatorProfile>,
}

/// A query's profile: live while it runs, final afterwards. Its `Display` is the text of EXPLAIN ANALYZE.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// From the start of the run to its end, or to now, in nanoseconds.
    pub elapsed_ns: u64,
    /// The most memory it had reserved.
    pub memory_peak_bytes: usize,
    /// Clusters read.
    pub clusters_read: usize,
    /// Clusters left out because statistics or join filters proved that they hold nothing of interest.
    pub clusters_pruned: usize,
    /// Columns of clusters that were there already, because other scans had decoded them.
    pub columns_shared: usize,
    /// Conditions of which it was known of all rows of a cluster whether they are true, because other scans had asked.
    pub answers_shared: usize,
    /// What was not read of files because of shared columns and answers.
    pub bytes_shared: usize,
    /// The most scans that ran over one of its tables at a time, its own among them; 0 if none shares.
    pub scans_most: usize,
    /// Clusters that it read when another scan that still ran had just read them.
    pub cohort_reads: usize,
    /// The most scans that read one of those one after the other, its own as the last; 0 if none did.
    pub cohort_scans_most: usize,
    /// Bytes fetched from files.
    pub bytes_fetched: usize,
    /// Hash tables of joins that it did not build, because another query had, and the nanoseconds of work that this
    /// saved.
    pub tables_shared: (usize, u64),
    /// What it shared with other queries, if it did, for people.
    pub sharing: Option<String>,
    /// Its pipelines.
    pub pipelines: Vec<PipelineProfile>,
}

impl Profile {
    /// What it had of other queries, for people.
    pub fn shared(&self) -> Vec<String> {
        let mut shared = Vec::new();
        if self.columns_shared > 0 {
            let (columns, saved) = (self.columns_shared, display_bytes(self.bytes_shared));
            let together = match self.scans_most {
                2.. => format!("; up to {} scans of one table at a time", self.scans_most),
                _ => String::new(),
            };
            let cohorts = match self.cohort_reads {
                0 => String::new(),
                clusters => format!("; {clusters} clusters in cohorts of up to {} scans", self.cohort_scans_most),
            };
            shared.push(format!(
                "{columns} columns of clusters were decoded already, by other scans; {saved} less to read{together}{cohorts}"
            ));
        }
        if self.answers_shared > 0 {
            let answers = self.answers_shared;
            shared.push(format!(
                "{answers} times an equal condition of another scan had looked at all rows of a cluster"
            ));
        }
        if let (tables @ 1.., saved_ns) = self.tables_shared {
            let tables = if tables == 1 { "1 hash table was".to_owned() } else { format!("{tables} hash tables were") };
            let saved = display_ns(saved_ns);
            shared.push(format!("{tables} built by another join with the same build side, with {saved} of work"));
        }
        shared.extend(self.sharing.clone());
        shared
    }

    /// Adds what was done before, by another run: its pipelines come first.
    pub(crate) fn put_behind(&mut self, earlier: Profile) {
        self.memory_peak_bytes = self.memory_peak_bytes.max(earlier.memory_peak_bytes);
        self.clusters_read += earlier.clusters_read;
        self.clusters_pruned += earlier.clusters_pruned;
        self.columns_shared += earlier.columns_shared;
        self.answers_shared += earlier.answers_shared;
        self.bytes_shared += earlier.bytes_shared;
        self.scans_most = self.scans_most.max(earlier.scans_most);
        self.cohort_reads += earlier.cohort_reads;
        self.cohort_scans_most = self.cohort_scans_most.max(earlier.cohort_scans_most);
        self.bytes_fetched += earlier.bytes_fetched;
        self.tables_shared.0 += earlier.tables_shared.0;
        self.tables_shared.1 += earlier.tables_shared.1;
        let own = std::mem::replace(&mut self.pipelines, earlier.pipelines);
        self.pipelines.extend(own);
        self.pipelines.iter_mut().enumerate().for_each(|(index, pipeline)| pipeline.index = index);
    }
}

/// Nanoseconds for people.
pub fn display_ns(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Query: {} elapsed, {} memory at most, {} clusters read, {} left out, {} fetched",
            display_ns(self.elapsed_ns),
            display_bytes(self.memory_peak_bytes),
            self.clusters_read,
            self.clusters_pruned,
            display_bytes(self.bytes_fetched),
        )?;
        for shared in self.shared() {
            writeln!(f, "Sharing: {shared}")?;
        }
        for pipeline in &self.pipelines {
            writeln!(
                f,
                "Pipeline {}: stage {}, {} packets, worked {}, queued {}",
                pipeline.index,
                pipeline.stage,
                pipeline.packets,
                display_ns(pipeline.worked_ns),
                display_ns(pipeline.queued_ns),
            )?;
            for operator in &pipeline.operators {
                write!(
                    f,
                    "  {}: {} rows, {} batches, {}, worked {}",
                    operator.name,
                    operator.counts.rows,
                    operator.counts.batches,
                    display_bytes(operator.counts.bytes as usize),
                    display_ns(operator.worked_ns),
                )?;
                match operator.spilled {
                    SpillCounts { files: 0, .. } => writeln!(f)?,
                    SpillCounts { files, levels, bytes } => {
                        let bytes = display_bytes(bytes as usize);
                        writeln!(f, ", spilled {bytes} in {files} files on {levels} levels")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scans_shared_is_said_with_its_cohorts() {
        let alone = Profile { columns_shared: 3, bytes_shared: 2048, scans_most: 1, ..Profile::default() };
        let expected = "3 columns of clusters were decoded already, by other scans; 2.0 KiB less to read";
        assert_eq!(alone.shared(), [expected]);
        let mut together = Profile { scans_most: 4, cohort_reads: 2, cohort_scans_most: 3, ..alone.clone() };
        together.put_behind(Profile { cohort_reads: 5, cohort_scans_most: 2, ..alone });
        let shared = together.shared();
        assert!(
            shared[0].starts_with("6 columns of clusters were decoded already, by other scans; 4.0 KiB less to read; ")
        );
        assert!(shared[0].ends_with("; up to 4 scans of one table at a time; 7 clusters in cohorts of up to 3 scans"));
    }
}
