//! Sorts that do not fit in memory against the slow judge, and what is left when they end early.

use std::path::PathBuf;
use std::task::Poll;

use diligence_disk::{Fault, MemoryTempFiles, TempOptions, TempSpace};

use super::*;

const CLUSTER: usize = 4096;

/// What a packet has reserved as its minimum: three clusters for files, two for rows.
const PACKET_BYTES: usize = 5 * CLUSTER;

fn options(files: &MemoryTempFiles) -> TempOptions {
    TempOptions {
        directories: vec![PathBuf::from("/spill")],
        cluster_bytes: CLUSTER,
        threads: 0,
        files: Arc::new(files.clone()),
        ..TempOptions::default()
    }
}

/// Temp space in memory with so many I/O threads.
pub(super) fn spill_options(threads: usize) -> TempOptions {
    TempOptions { threads, ..options(&MemoryTempFiles::default()) }
}

fn spill_to(files: &MemoryTempFiles, plan: SortPlan) -> SpillTo {
    SpillTo { space: TempSpace::open(&options(files)).unwrap(), plan }
}

fn clusters_used(space: &TempSpace) -> usize {
    space.info().directories.iter().map(|directory| directory.clusters_used).sum()
}

fn plans() -> impl Strategy<Value = SortPlan> {
    let names = vec!["cost", "ems", "ems-nr", "mms", "mms(1)", "mms(2)", "mms-nr"];
    prop::sample::select(names).prop_map(|name| name.parse().unwrap())
}

/// More rows than the random cases in memory have, so that there is something to spill.
fn repeated(case: &Case, times: usize) -> Vec<RecordBatch> {
    let records = case.batches.iter().map(|rows| case.record_batch(rows)).collect::<Vec<_>>();
    (0..times).flat_map(|_| records.iter().cloned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_sort_within_any_budget_is_as_the_judge_says(
        case in case(),
        times in 1_usize..40,
        extra in prop_oneof![0_usize..20_000, 0_usize..200_000],
        plan in plans(),
        bounded in any::<bool>(),
    ) {
        let records = repeated(&case, times);
        let input = rows_of(&records).unwrap();
        let keys: Vec<_> = case
            .keys
            .iter()
            .map(|&(column, descending, nulls_first)| (column, SortOptions { descending, nulls_first }))
            .collect();
        let files = MemoryTempFiles::default();
        let to = spill_to(&files, plan);
        let budget = case.packets * PACKET_BYTES + CLUSTER + extra;
        let (output, _) = case.run_within(&records, bounded, budget, Some(&to)).unwrap();
        if let Err(wrong) = judge(&input, &output, &keys, case.skip, case.fetch) {
            prop_assert!(false, "{}", wrong);
        }
        prop_assert_eq!(clusters_used(&to.space), 0, "clusters are left");
    }
}

/// Rows of a number and a text of so many bytes, ten in a batch.
fn texts(rows: usize, number: impl Fn(usize) -> i64, length: impl Fn(usize) -> usize) -> (SchemaRef, Vec<RecordBatch>) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8View, false),
    ]));
    let row = |row: usize| (number(row), format!("{row:08}{}", "x".repeat(length(row))));
    let rows: Vec<_> = (0..rows).map(row).collect();
    let batch = |rows: &[(i64, String)]| {
        let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
        let texts = arrow::array::StringViewArray::from_iter_values(rows.iter().map(|row| &row.1));
        RecordBatch::try_new(schema.clone(), vec![numbers, Arc::new(texts)]).unwrap()
    };
    (schema.clone(), rows.chunks(10).map(batch).collect())
}

/// A sort of such rows by the given columns.
fn by(schema: &SchemaRef, keys: &[usize], fetch: Option<usize>) -> Case {
    Case {
        schema: schema.clone(),
        narrow: false,
        keys: keys.iter().map(|&key| (key, false, false)).collect(),
        batches: Vec::new(),
        packets: 2,
        batch_rows: 64,
        sizes: Sizes { run_rows: 500, run_bytes: 20_000, range_rows: 300, ..Sizes::default() },
        skip: 0,
        fetch,
    }
}

/// Sorts within a budget, and checks it. What was written.
fn sorted_within(case: &Case, records: &[RecordBatch], budget: usize, plan: SortPlan) -> SpillCounts {
    let files = MemoryTempFiles::default();
    let to = spill_to(&files, plan);
    let (output, spilled) = case.run_within(records, true, budget, Some(&to)).unwrap();
    let keys: Vec<_> = case.keys.iter().map(|&(column, ..)| (column, SortOptions::new(false, false))).collect();
    judge(&rows_of(records).unwrap(), &output, &keys, 0, case.fetch).unwrap();
    assert_eq!(clusters_used(&to.space), 0, "clusters are left");
    spilled
}

#[test]
fn what_fits_is_not_spilled() {
    let (schema, records) = texts(2000, |row| (row * 7919 % 2000) as i64, |_| 20);
    assert_eq!(sorted_within(&by(&schema, &[0], None), &records, 10 << 20, SortPlan::COST), SpillCounts::default());
}

#[test]
fn if_little_does_not_fit_little_is_written() {
    let (schema, records) = texts(10_000, |row| (row * 7919 % 10_000) as i64, |_| 20);
    let case = by(&schema, &[0], None);
    let written = |budget: usize| sorted_within(&case, &records, budget, SortPlan::COST).bytes;
    let bytes = written(2 * PACKET_BYTES + 100_000);
    let fits = (1..).map(|step| step * 100_000).find(|&budget| written(budget) == 0).unwrap();
    let (some, more) = (written(fits - fits / 8), written(fits / 2));
    assert!(some > 0 && some < bytes / 2, "{some} of {bytes} bytes");
    assert!(some < more && more <= bytes, "{some}, {more} of {bytes} bytes");
}

#[test]
fn many_runs_are_merged_on_several_levels_by_every_plan() {
    let (schema, records) = texts(20_000, |row| (row * 7919 % 20_000) as i64, |_| 20);
    let bytes = 20_000 * 60;
    for plan in ["cost", "ems", "ems-nr", "mms", "mms(1)", "mms(2)", "mms-nr"] {
        let plan: SortPlan = plan.parse().unwrap();
        let spilled = sorted_within(&by(&schema, &[0], None), &records, 2 * PACKET_BYTES + 15_000, plan);
        assert!(spilled.levels >= 3 && spilled.files >= 20 && spilled.bytes >= 2 * bytes, "{plan}: {spilled:?}");
    }
    // A larger budget writes every row once.
    let spilled = sorted_within(&by(&schema, &[0], None), &records, 600_000, SortPlan::COST);
    assert!(spilled.levels == 1 && spilled.bytes < 3 * bytes / 2, "{spilled:?}");
}

#[test]
fn equal_keys_need_no_more_memory_than_others() {
    let (schema, records) = texts(30_000, |_| 7, |_| 10);
    let spilled = sorted_within(&by(&schema, &[0], None), &records, 2 * PACKET_BYTES + 30_000, SortPlan::COST);
    assert!(spilled.levels >= 1, "{spilled:?}");
    let spilled = sorted_within(&by(&schema, &[], None), &records, 2 * PACKET_BYTES + 30_000, SortPlan::COST);
    assert!(spilled.levels >= 1, "{spilled:?}");
}

#[test]
fn rows_longer_than_a_cluster_are_sorted() {
    // The text is a key as well: codes are as long.
    for keys in [&[0][..], &[1], &[0, 1]] {
        let length = |row: usize| if row.is_multiple_of(7) { 3 * CLUSTER + 100 * (row % 50) } else { row % 30 };
        let (schema, records) = texts(1500, |row| (row * 7919 % 100) as i64, length);
        let spilled = sorted_within(&by(&schema, keys, None), &records, 700_000, SortPlan::COST);
        assert!(spilled.files > 1, "{keys:?}: {spilled:?}");
    }
}

#[test]
fn dictionaries_do_not_keep_what_was_read() {
    let (_, records) = texts(4000, |row| (row * 7919 % 4000) as i64, |_| 30);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View));
    let schema = Arc::new(Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", dictionary.clone(), false),
    ]));
    let record = |record: &RecordBatch| {
        let text = cast_with_options(record.column(1), &dictionary, &CastOptions::default()).unwrap();
        RecordBatch::try_new(schema.clone(), vec![record.column(0).clone(), text]).unwrap()
    };
    let records: Vec<_> = records.iter().map(record).collect();
    let spilled = sorted_within(&by(&schema, &[0], None), &records, 2 * PACKET_BYTES + 60_000, SortPlan::COST);
    assert!(spilled.files > 1, "{spilled:?}");
}

#[test]
fn rows_that_come_in_order_are_merged_run_after_run() {
    for descending in [false, true] {
        let number = |row: usize| if descending { -(row as i64) } else { row as i64 };
        let (schema, records) = texts(10_000, number, |_| 30);
        let spilled = sorted_within(&by(&schema, &[0], None), &records, 2 * PACKET_BYTES + 60_000, SortPlan::COST);
        assert!(spilled.files > 1, "{spilled:?}");
    }
}

#[test]
fn a_top_n_that_does_not_fit_becomes_a_sort() {
    let (schema, records) = texts(8000, |row| (row * 7919 % 8000) as i64, |_| 100);
    // Many rows that are wanted have a sort ready from the beginning; few long ones get one when they turn out to be
    // long.
    for fetch in [10, 1000, 3000, 8000] {
        let spilled =
            sorted_within(&by(&schema, &[0], Some(fetch)), &records, 2 * PACKET_BYTES + 120_000, SortPlan::COST);
        assert_eq!(spilled.files > 0, fetch > 10, "{fetch}: {spilled:?}");
    }
}

#[test]
fn of_a_run_no_more_is_written_than_is_wanted() {
    let (schema, records) = texts(20_000, |row| (row * 7919 % 20_000) as i64, |_| 20);
    let case =
        |fetch| Case { sizes: Sizes { top_rows_max: 0, ..by(&schema, &[0], None).sizes }, ..by(&schema, &[0], fetch) };
    let all = sorted_within(&case(None), &records, 500_000, SortPlan::COST);
    let few = sorted_within(&case(Some(100)), &records, 500_000, SortPlan::COST);
    assert!(all.levels == 1 && few.levels == 1 && 5 * few.bytes < all.bytes, "{few:?}, {all:?}");
}

/// How a sort ended that was to end early, and whether anything is left of it.
fn ended_early(files: &MemoryTempFiles, steps_max: usize) -> Result<usize> {
    let (schema, records) = texts(3000, |row| (row * 7919 % 3000) as i64, |row| if row == 700 { 9000 } else { 30 });
    let case = by(&schema, &[0], None);
    let to = spill_to(files, SortPlan::MMS);
    let memory = Broker::new(2 * PACKET_BYTES + 40_000).account(QueryId(7), None);
    let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: 64, packets: 2 };
    let steps = std::cell::Cell::new(0);
    let step = || {
        steps.set(steps.get() + 1);
        if steps.get() > steps_max { Err(diligence_base::Error::cancelled()) } else { Ok(()) }
    };
    let ended = || -> Result<()> {
        let SortParts { sink, merge, source } = sort_with(&case.sort_keys(), None, &schema, Some(&to), case.sizes)?;
        let batches = records.iter().map(Batch::from_record_batch);
        fill(sink.as_ref(), batches, &context, &step)?;
        assert_eq!(sink.parts()?, 0, "it has spilled");
        sink.complete()?;
        let mut rows = 0;
        read(merge.as_ref(), source.as_ref(), &context, &step, |batch| {
            rows += batch.rows();
            Ok(true)
        })?;
        assert_eq!(rows, 3000);
        Ok(())
    };
    let ended = ended();
    assert_eq!(memory.reserved_bytes(), 0, "bytes stay reserved");
    assert_eq!((clusters_used(&to.space), to.space.info().files), (0, 0), "clusters are left");
    ended.map(|()| steps.get())
}

#[test]
fn a_sort_that_is_cancelled_at_any_moment_leaves_nothing() {
    let steps = ended_early(&MemoryTempFiles::default(), usize::MAX).unwrap();
    for steps_max in 0..steps {
        let error = ended_early(&MemoryTempFiles::default(), steps_max).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "after {steps_max} steps");
    }
}

#[test]
fn a_disk_that_fails_at_any_moment_ends_the_sort_and_leaves_nothing() {
    let healthy = MemoryTempFiles::default();
    ended_early(&healthy, usize::MAX).unwrap();
    for fault in [Fault::Full, Fault::Broken, Fault::Flip, Fault::Short] {
        for at in (4..healthy.operations()).step_by(3) {
            match ended_early(&MemoryTempFiles::failing(fault, at), usize::MAX) {
                // After the last write the disk may be full, and what is short is carried on.
                Ok(_) => {
                    assert!(matches!(fault, Fault::Full | Fault::Short | Fault::Flip), "{fault:?} at operation {at}")
                }
                Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "{fault:?} at operation {at}: {error}"),
            }
        }
    }
}

#[test]
fn rows_are_given_back_when_another_query_needs_the_memory() {
    let (schema, records) = texts(1000, |row| (row * 7919 % 1000) as i64, |_| 30);
    let case = by(&schema, &[0], None);
    let to = spill_to(&MemoryTempFiles::default(), SortPlan::COST);
    let broker = Broker::new(1 << 20);
    let context = QueryContext { memory: broker.account(QueryId(1), None), temp: None, batch_rows: 64, packets: 1 };
    let parts = sort_with(&case.sort_keys(), None, &schema, Some(&to), case.sizes).unwrap();
    let mut state = parts.sink.open(&context).unwrap();
    let written = || parts.sink.spills().unwrap().counts().files;
    for record in &records[..90] {
        assert_eq!(state.push(Batch::from_record_batch(record), Waker::noop()).unwrap(), Accept::More);
    }
    let held = context.memory.reserved_bytes();
    assert!(held > 100_000 && written() == 0, "{held} bytes");
    // What is not free: somebody has to give back something, whether or not it is had before.
    let mut needed = broker.account(QueryId(2), None).reservation("HashJoin");
    let _ = needed.grow((1 << 20) - held + 50_000);
    let mut accept = state.push(Batch::from_record_batch(&records[90]), Waker::noop()).unwrap();
    while accept == Accept::Wait {
        accept = state.ready(Waker::noop()).unwrap();
    }
    assert!(written() >= 1);
    let left = context.memory.reserved_bytes();
    assert!(left < held - 45_000, "{left} of {held} bytes");
}

#[test]
fn no_more_is_written_than_the_memory_demands() {
    let (schema, records) = texts(40_000, |row| (row * 7919 % 40_000) as i64, |row| 40 + row % 40);
    let case = by(&schema, &[0], None);
    let once = sorted_within(&case, &records, 2 << 20, SortPlan::COST);
    assert_eq!(once.levels, 1, "{once:?}");
    // As a multiple of the input: each row once, and again for each level that so small a fan-in makes necessary, since
    // a quarter is left to whoever reads.
    for (extra_clusters, tenths) in [(6, 53), (20, 29), (40, 22), (100, 18)] {
        let budget = 2 * PACKET_BYTES + extra_clusters * CLUSTER;
        let written = |plan| sorted_within(&case, &records, budget, plan).bytes;
        let (cost, lazy) = (written(SortPlan::COST), written(SortPlan::EMS));
        assert!(cost <= lazy, "{cost} bytes with {extra_clusters} clusters, {lazy} by a sort that waits");
        assert!(10 * cost <= tenths * once.bytes, "{cost} bytes with {extra_clusters} clusters, {once:?}");
    }
}

/// Sorts in memory, reads some batches, has somebody else need the memory, and reads the rest. What was written.
fn asked_while_read(files: &MemoryTempFiles, batches_before: usize, batches_between: usize) -> Result<SpillCounts> {
    let (schema, records) = texts(4000, |row| (row * 7919 % 4000) as i64, |row| row % 50);
    let case = by(&schema, &[0], None);
    let to = spill_to(files, SortPlan::COST);
    let broker = Broker::new(4 << 20);
    let memory = broker.account(QueryId(1), None);
    let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: 64, packets: 2 };
    let ended = || -> Result<SpillCounts> {
        let parts = sort_with(&case.sort_keys(), None, &schema, Some(&to), case.sizes)?;
        fill(parts.sink.as_ref(), records.iter().map(Batch::from_record_batch), &context, &|| Ok(()))?;
        for part in 0..parts.sink.parts()? {
            parts.sink.part(part, &context)?;
        }
        parts.sink.complete()?;
        let held = memory.reserved_bytes();
        let mut reader = parts.source.open(&context)?;
        let mut rows: Vec<RecordBatch> = Vec::new();
        let mut pull = |batches: usize| -> Result<bool> {
            for _ in 0..batches {
                match reader.pull(Waker::noop())? {
                    Pull::Batch(batch) => rows.push(batch.to_record_batch(&schema)?),
                    Pull::Done => return Ok(true),
                    _ => {}
                }
            }
            Ok(false)
        };
        pull(batches_before)?;
        let mut needed = broker.account(QueryId(2), None).reservation("HashJoin");
        needed.overdraw((4 << 20) - held);
        let _ = needed.grow(held / 2);
        let mut steps = 0;
        while memory.is_reclaiming() {
            if let Poll::Ready(reclaimed) = memory.poll_reclaim(Waker::noop()) {
                reclaimed?;
            }
            // The reader goes on while rows are written.
            steps += 1;
            if steps <= batches_between {
                pull(1)?;
            }
        }
        let left = memory.reserved_bytes();
        let holders = broker.holders();
        assert!(left <= 8 * CLUSTER, "{left} of {held} bytes are left after {batches_before} batches: {holders:?}");
        while !pull(1)? {}
        let input = rows_of(&records)?;
        judge(&input, &rows_of(&rows)?, &[(0, SortOptions::new(false, false))], 0, None).unwrap();
        Ok(parts.sink.spills().unwrap().counts())
    };
    let ended = ended();
    assert_eq!(memory.reserved_bytes(), 0, "bytes stay reserved");
    assert_eq!((clusters_used(&to.space), to.space.info().files), (0, 0), "clusters are left");
    ended
}

#[test]
fn sorted_rows_that_wait_to_be_read_give_back_their_memory() {
    for (before, between) in [(0, 0), (1, 0), (30, 0), (0, 5), (7, 20), (60, 0), (0, 1000), (55, 1000)] {
        let written = asked_while_read(&MemoryTempFiles::default(), before, between).unwrap();
        // Rows that are read before the last is written need no file.
        assert!(written.levels == 1 || between == 1000, "{before}, {between}: {written:?}");
    }
}

#[test]
fn a_disk_that_fails_while_sorted_rows_leave_ends_the_sort_and_leaves_nothing() {
    let healthy = MemoryTempFiles::default();
    asked_while_read(&healthy, 3, 4).unwrap();
    for fault in [Fault::Full, Fault::Broken, Fault::Flip, Fault::Short] {
        for at in 2..healthy.operations() {
            if let Err(error) = asked_while_read(&MemoryTempFiles::failing(fault, at), 3, 4) {
                assert!(!matches!(error.kind(), ErrorKind::Bug), "{fault:?} at operation {at}: {error}");
                assert_ne!(fault, Fault::Short, "at operation {at}");
            }
        }
    }
}

/// Sorts more than fits, reads some batches, has somebody else need the memory while the merge waits for its reader,
/// and reads the rest. Whoever asks comes again so often at most; then it is for the mergers to go on.
fn asked_while_merged(files: &MemoryTempFiles, batches_before: usize, asks_max: usize) -> Result<()> {
    const BUDGET: usize = 4 << 20;
    let (schema, records) = texts(60_000, |row| (row * 7919 % 60_000) as i64, |row| 30 + row % 40);
    let case = by(&schema, &[0], None);
    let to = spill_to(files, SortPlan::COST);
    let broker = Broker::new(BUDGET);
    let memory = broker.account(QueryId(1), None);
    let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: 64, packets: 2 };
    let ended = || -> Result<()> {
        let parts = sort_with(&case.sort_keys(), None, &schema, Some(&to), case.sizes)?;
        fill(parts.sink.as_ref(), records.iter().map(Batch::from_record_batch), &context, &|| Ok(()))?;
        assert_eq!(parts.sink.parts()?, 0, "it went to the disk");
        parts.sink.complete()?;
        let merge = parts.merge.as_ref().unwrap();
        let mut mergers = (0..2).map(|_| merge.source.open(&context)).collect::<Result<Vec<_>>>()?;
        let mut reader = parts.source.open(&context)?;
        // Mergers go on until they wait for the reader.
        let mut merged = || -> Result<()> {
            let mut is_busy = true;
            while is_busy {
                is_busy = false;
                for merger in &mut mergers {
                    is_busy |= matches!(merger.pull(Waker::noop())?, Pull::Again);
                }
            }
            Ok(())
        };
        let mut rows: Vec<RecordBatch> = Vec::new();
        while rows.len() < batches_before {
            merged()?;
            if let Pull::Batch(batch) = reader.pull(Waker::noop())? {
                rows.push(batch.to_record_batch(&schema)?);
            }
        }
        merged()?;
        let held = memory.reserved_bytes();
        let mut needed = broker.account(QueryId(2), None).reservation("HashJoin");
        needed.overdraw(BUDGET.saturating_sub(held));
        let _ = needed.grow(held / 2);
        assert!(memory.is_reclaiming(), "runs in memory are at rest");
        let mut asks = 0;
        while memory.is_reclaiming() && asks < asks_max {
            asks += 1;
            if let Poll::Ready(reclaimed) = memory.poll_reclaim(Waker::noop()) {
                reclaimed?;
            }
        }
        while memory.is_reclaiming() {
            merged()?;
        }
        let left = memory.reserved_bytes();
        assert!(
            left < held / 2,
            "{left} of {held} bytes are left after {batches_before} batches: {:?}",
            broker.holders()
        );
        drop(needed);
        loop {
            merged()?;
            match reader.pull(Waker::noop())? {
                Pull::Batch(batch) => rows.push(batch.to_record_batch(&schema)?),
                Pull::Done => break,
                _ => {}
            }
        }
        let input = rows_of(&records)?;
        judge(&input, &rows_of(&rows)?, &[(0, SortOptions::new(false, false))], 0, None).unwrap();
        Ok(())
    };
    let ended = ended();
    assert_eq!(memory.reserved_bytes(), 0, "bytes stay reserved");
    assert_eq!((clusters_used(&to.space), to.space.info().files), (0, 0), "clusters are left");
    ended
}

#[test]
fn a_merge_that_waits_for_its_reader_gives_back_what_it_has_in_memory() {
    for (before, asks_max) in [(0, usize::MAX), (1, usize::MAX), (100, usize::MAX), (1, 1), (40, 3), (0, 2)] {
        asked_while_merged(&MemoryTempFiles::default(), before, asks_max).unwrap();
    }
}

#[test]
fn a_disk_that_fails_while_runs_leave_a_merge_ends_the_sort_and_leaves_nothing() {
    let healthy = MemoryTempFiles::default();
    asked_while_merged(&healthy, 3, 4).unwrap();
    let operations = healthy.operations();
    for fault in [Fault::Full, Fault::Broken, Fault::Flip, Fault::Short] {
        for at in (2..operations).step_by(operations as usize / 20 + 1) {
            if let Err(error) = asked_while_merged(&MemoryTempFiles::failing(fault, at), 3, 4) {
                assert!(!matches!(error.kind(), ErrorKind::Bug), "{fault:?} at operation {at}: {error}");
                assert_ne!(fault, Fault::Short, "at operation {at}");
            }
        }
    }
}
