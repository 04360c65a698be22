//! Joins that do not fit: the same rows as those that do, whatever the budget.

use diligence_disk::{Compression, Fault, MemoryTempFiles, TempOptions, TempSpace};

use super::cases::{int_join, numbers};
use super::*;
use crate::flow::{Accept, SinkState};

/// Temp space in memory, with and without threads.
pub(super) fn temp_space(random: &mut Random) -> TempSpace {
    let options = TempOptions {
        directories: vec!["/temp".into()],
        cluster_bytes: 4096,
        threads: random.pick(&[0, 0, 2]),
        compression: random.pick(&[Compression::None, Compression::None, Compression::Lz4]),
        files: Arc::new(MemoryTempFiles::default()),
        ..TempOptions::default()
    };
    TempSpace::open(&options).unwrap()
}

/// No cluster is used any more once its I/O threads are done.
pub(super) fn is_left_empty(temp: &TempSpace, broker: &Broker, context: &str) {
    let used = || temp.info().directories.iter().map(|directory| directory.clusters_used).sum::<usize>();
    for _ in 0..1000 {
        if temp.info().files == 0 && used() == 0 && broker.reserved_bytes() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{context}: {:?} is left, and {} bytes", temp.info(), broker.reserved_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spilled_hash_joins_agree_with_the_judge(seed: u64) {
        for join_type in ALL_TYPES {
            judge(seed, join_type, true, Memory::Short);
        }
    }

    #[test]
    fn spilled_nested_loop_joins_agree_with_the_judge(seed: u64) {
        for join_type in ALL_TYPES {
            judge(seed, join_type, false, Memory::Short);
        }
    }
}

/// Temp space in memory, of clusters of 4 KiB.
fn small_clusters(files: &MemoryTempFiles, threads: usize) -> TempSpace {
    let options = TempOptions {
        directories: vec!["/temp".into()],
        cluster_bytes: 4096,
        threads,
        files: Arc::new(files.clone()),
        ..TempOptions::default()
    };
    TempSpace::open(&options).unwrap()
}

/// A join of numbers in a budget: its rows, what it spilled and the most memory it had.
fn join_numbers(
    join_type: JoinType,
    left: &[(i64, i64)],
    right: &[(i64, i64)],
    budget: usize,
    packets: usize,
    give_back: Option<usize>,
) -> (Vec<String>, Spilled, usize) {
    let (join, schema) = int_join(join_type, 1);
    let parts = hash_join(&join, &schema, &[]).unwrap();
    let broker = Broker::new(budget);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let temp = small_clusters(&MemoryTempFiles::default(), 2);
    let context = QueryContext { memory, temp: Some(temp.clone()), batch_rows: 512, packets };
    let batches = |rows: &[(i64, i64)]| rows.chunks(500).map(|chunk| numbers(chunk.iter().copied())).collect();
    let rows = run_giving_back(
        &mut Random::new(7),
        &parts,
        &context,
        batches(left),
        batches(right),
        &schema,
        false,
        give_back,
    );
    let spilled = parts.spilled();
    drop(parts);
    is_left_empty(&temp, &broker, "numbers");
    (sorted(rows), spilled, context.memory.peak_bytes())
}

/// Keys from a permutation, so that every one comes once.
fn pairs_of_numbers(count: i64) -> Vec<(i64, i64)> {
    (0..count).map(|n| (n * 7919 % count, n)).collect()
}

#[test]
fn more_memory_is_never_needed_and_less_is_spilled_with_more() {
    let (left, right) = (pairs_of_numbers(20_000), pairs_of_numbers(30_000));
    for join_type in [JoinType::Inner, JoinType::Full, JoinType::LeftAnti, JoinType::RightMark] {
        let (expected, roomy, _) = join_numbers(join_type, &left, &right, 1 << 30, 2, None);
        assert_eq!(roomy, Spilled::default());
        let mut bytes = vec![];
        for budget in [100_000, 400_000, 1_000_000, 1_600_000] {
            let (rows, spilled, peak) = join_numbers(join_type, &left, &right, budget, 2, None);
            assert!(rows == expected, "{join_type} in {budget} bytes: {} rows, {}", rows.len(), expected.len());
            assert!(budget >= 1_000_000 || spilled.bytes > 0, "{join_type} in {budget} bytes: {spilled:?}");
            let stays = spilled.partitions == 0 || spilled.partitions_spilled < spilled.partitions;
            assert!(stays || budget < 1_000_000, "{join_type} in {budget} bytes: {spilled:?}");
            assert!(peak < budget + budget / 4, "{peak} of {budget} bytes");
            bytes.push(spilled.bytes);
        }
        // More memory, fewer bytes; but for the pieces of batches, which are smaller where there are more partitions.
        assert!(
            bytes.is_sorted_by(|less, more| *less * 3 / 2 >= *more) && bytes[0] > 2 * bytes[3],
            "{join_type}: {bytes:?}"
        );
    }
}

#[test]
fn what_fits_stays_when_rows_in_memory_are_split() {
    let (left, right) = (pairs_of_numbers(200_000), pairs_of_numbers(20_000));
    let (expected, _, most) = join_numbers(JoinType::Inner, &left, &right, 1 << 30, 1, None);
    for packets in [1, 2, 3] {
        let (rows, spilled, _) = join_numbers(JoinType::Inner, &left, &right, most * 3 / 4, packets, None);
        assert!(rows == expected, "{packets} packets");
        assert!(
            // Half of what pieces of 16 rows take is not their rows.
            spilled.partitions_spilled > 0 && spilled.partitions_spilled * 5 <= spilled.partitions * 4,
            "{spilled:?}"
        );
    }
}

/// A filter of a build side that went to temp space knows all of its keys, those on the disk too.
#[test]
fn a_filter_of_a_spilled_build_side_is_complete() {
    let (join, schema) = int_join(JoinType::Inner, 1);
    for packets in [1, 3] {
        let filter = RuntimeFilter::new();
        let parts = hash_join(&join, &schema, &[(filter.clone(), 0)]).unwrap();
        let memory = Broker::new(600_000).account(diligence_base::ids::QueryId(1), None);
        let temp = small_clusters(&MemoryTempFiles::default(), 0);
        let context = QueryContext { memory, temp: Some(temp), batch_rows: 512, packets };
        let batches = pairs_of_numbers(20_000).chunks(500).map(|rows| numbers(rows.iter().copied())).collect();
        run(&mut Random::new(3), &parts, &context, batches, vec![], &schema, false);
        assert!(parts.spilled().partitions_spilled > 0);
        let kept = |from: i64| {
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 20_000));
            filter.row_filter(0).keep(&[keys]).unwrap().true_count()
        };
        assert_eq!(kept(0), 20_000);
        assert!(kept(100_000) < 8_000, "{} others", kept(100_000));
        assert_eq!(filter.bounds().unwrap().1, ScalarValue::Int64(Some(19_999)));
    }
}

#[test]
fn probe_rows_without_a_partner_are_not_written() {
    let left = pairs_of_numbers(20_000);
    let others: Vec<_> = (0..30_000).map(|n| (n + 1_000_000, n)).collect();
    for join_type in [JoinType::Inner, JoinType::Right, JoinType::Full] {
        let (rows, few, _) = join_numbers(join_type, &left, &others, 500_000, 2, None);
        assert_eq!(
            rows.len(),
            match join_type {
                JoinType::Inner => 0,
                JoinType::Right => 30_000,
                _ => 50_000,
            }
        );
        let (_, all, _) = join_numbers(join_type, &left, &pairs_of_numbers(30_000), 500_000, 2, None);
        assert!(few.bytes < all.bytes * 3 / 4, "{join_type}: {few:?}, {all:?}");
    }
}

/// With as much memory as this the files hold back their clusters to write them side by side.
#[test]
fn grouped_writes_lose_nothing() {
    let (left, right) = (pairs_of_numbers(60_000), pairs_of_numbers(70_000));
    let (expected, ..) = join_numbers(JoinType::Full, &left, &right, 1 << 30, 2, None);
    let (rows, spilled, _) = join_numbers(JoinType::Full, &left, &right, 3_000_000, 2, None);
    assert!(rows == expected && spilled.bytes > 500_000, "{spilled:?}");
    let (rows, spilled, _) = join_numbers(JoinType::Full, &left, &right, 1 << 30, 2, Some(180));
    assert!(rows == expected && spilled.bytes > 500_000, "{spilled:?}");
}

#[test]
fn what_does_not_fit_is_partitioned_again() {
    // As many rows as it takes.
    let mut seen = vec![];
    for rows in (20_000..=100_000).step_by(20_000) {
        let (left, right) = (pairs_of_numbers(rows), pairs_of_numbers(rows * 2));
        let (found, spilled, _) = join_numbers(JoinType::Left, &left, &right, 200_000, 1, None);
        assert!(found.len() == rows as usize && spilled.blocks == 0, "{rows} rows: {}, {spilled:?}", found.len());
        if spilled.levels >= 2 {
            return;
        }
        seen.push(spilled);
    }
    panic!("all fitted: {seen:?}");
}

/// Where a pair is a little larger than memory, little is written again: with all of such pairs split, up to six times
/// as much is written here as when each row is written once.
#[test]
fn only_the_overflow_of_a_pair_is_written_again() {
    for join_type in ALL_TYPES {
        let (mut once, mut overflows) = (None, 0);
        for rows in (14_000..=90_000).step_by(4_000) {
            let (left, right) = (pairs_of_numbers(rows), pairs_of_numbers(rows * 2));
            let (expected, ..) = join_numbers(join_type, &left, &right, 1 << 30, 2, None);
            let (found, spilled, _) = join_numbers(join_type, &left, &right, 200_000, 2, None);
            assert!(found == expected, "{join_type} of {rows} rows: {} rows, {}", found.len(), expected.len());
            let per_row = spilled.bytes as f64 / rows as f64;
            match spilled.levels {
                1 => once = Some(per_row),
                2 if spilled.overflows > 0 => {
                    let is_little = once.is_none_or(|once| per_row < 2.5 * once);
                    assert!(is_little, "{join_type} of {rows} rows: {once:?}, {spilled:?}");
                    overflows += spilled.overflows;
                }
                2 => {}
                // More than a little larger than memory.
                _ => break,
            }
        }
        assert!(once.is_some() && overflows > 0, "{join_type}: {once:?}");
    }
}

/// Each operation of a part fails, from when pairs are joined: the right rows come or an error, and nothing is left.
#[test]
fn a_failing_disk_ends_a_join_whose_pairs_overflow() {
    let (join, schema) = int_join(JoinType::Full, 1);
    let batches = |rows: &[(i64, i64)]| rows.chunks(500).map(|chunk| numbers(chunk.iter().copied())).collect();
    let attempt = |rows: i64, files: MemoryTempFiles| {
        let (left, right) = (pairs_of_numbers(rows), pairs_of_numbers(2 * rows));
        let parts = hash_join(&join, &schema, &[]).unwrap();
        let broker = Broker::new(200_000);
        let memory = broker.account(diligence_base::ids::QueryId(1), None);
        let temp = small_clusters(&files, 0);
        let context = QueryContext { memory, temp: Some(temp.clone()), batch_rows: 512, packets: 2 };
        let run = || run(&mut Random::new(7), &parts, &context, batches(&left), batches(&right), &schema, false);
        // An error is the panic of whoever unwraps it: what runs is dropped on the way.
        let rows = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map(sorted);
        let overflows = parts.spilled().overflows;
        drop(parts);
        is_left_empty(&temp, &broker, "a failing disk");
        let said = rows.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default());
        (said, overflows, files.operations())
    };
    // As many rows as it takes for pairs that are a little larger than memory.
    let overflowing = (22_000..=90_000).step_by(4_000).find_map(|rows| {
        let (found, overflows, operations) = attempt(rows, MemoryTempFiles::default());
        (overflows > 0).then(|| (rows, found.unwrap(), operations))
    });
    let (count, rows, operations) = overflowing.expect("no pair overflows");
    let (left, right) = (pairs_of_numbers(count), pairs_of_numbers(2 * count));
    let (expected, ..) = join_numbers(JoinType::Full, &left, &right, 1 << 30, 2, None);
    assert!(rows == expected, "{} rows, {}", rows.len(), expected.len());
    let mut failed = 0;
    for fault in [Fault::Full, Fault::Broken, Fault::Short, Fault::Flip] {
        for at in (operations / 3..operations).step_by(operations as usize / 40) {
            match attempt(count, MemoryTempFiles::failing(fault, at)).0 {
                Ok(rows) => assert!(rows == expected, "{fault:?} at {at}: {} rows", rows.len()),
                Err(said) => {
                    let is_error = said.starts_with("called `Result::unwrap()`") && !said.contains("Bug");
                    assert!(is_error, "{fault:?} at {at}: {said}");
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 20, "{failed} of the faults were met");
}

#[test]
fn a_table_is_made_of_the_smaller_side() {
    let left: Vec<_> = (0..20_000).map(|n| (n % 9_000, n)).collect();
    let right: Vec<_> = (0..2_500).map(|n| (n * 7 % 12_000, n)).collect();
    for join_type in ALL_TYPES {
        let (expected, ..) = join_numbers(join_type, &left, &right, 1 << 30, 2, None);
        let (rows, spilled, _) = join_numbers(join_type, &left, &right, 200_000, 2, None);
        assert!(rows == expected, "{join_type}: {} rows, {}", rows.len(), expected.len());
        assert!(spilled.reversed > 0 && spilled.levels == 1, "{join_type}: {spilled:?}");
        let (rows, spilled, _) = join_numbers(join_type, &right, &left, 200_000, 2, None);
        assert!(spilled.reversed == 0 && !rows.is_empty(), "{join_type}: {spilled:?}");
    }
}

/// Rows with marks must not lose them.
#[test]
fn a_table_that_was_probed_is_not_reversed() {
    let (left, right) = (pairs_of_numbers(5_000), pairs_of_numbers(3_000));
    for join_type in ALL_TYPES {
        let (expected, ..) = join_numbers(join_type, &left, &right, 1 << 30, 1, None);
        let (rows, spilled, _) = join_numbers(join_type, &left, &right, 1 << 30, 1, Some(13));
        assert!(rows == expected && spilled.bytes > 0 && spilled.reversed == 0, "{join_type}: {spilled:?}");
    }
}

/// Pushes a batch, and has the rest of what that takes done as well.
fn push(builder: &mut dyn SinkState, batch: Batch) {
    let mut accept = builder.push(batch, Waker::noop()).unwrap();
    while accept == Accept::Wait {
        accept = builder.ready(Waker::noop()).unwrap();
    }
    assert_eq!(accept, Accept::More);
}

/// Somebody else needs memory while the build side comes in: partitions go.
#[test]
fn a_build_side_gives_way() {
    let (join, schema) = int_join(JoinType::Inner, 1);
    let parts = hash_join(&join, &schema, &[]).unwrap();
    let broker = Broker::new(2_000_000);
    let [memory, other] = [1, 2].map(|query| broker.account(diligence_base::ids::QueryId(query), None));
    let temp = small_clusters(&MemoryTempFiles::default(), 0);
    let context = QueryContext { memory, temp: Some(temp.clone()), batch_rows: 512, packets: 1 };
    let mut builder = parts.build.open(&context).unwrap();
    let rows = pairs_of_numbers(60_000);
    let mut batches = rows.chunks(500).map(|rows| numbers(rows.iter().copied()));
    while context.memory.reserved_bytes() < 900_000 {
        builder.push(batches.next().unwrap(), Waker::noop()).unwrap();
    }
    assert_eq!(parts.spilled(), Spilled::default());
    let mut wanted = other.reservation("Scan");
    wanted.grow(broker.budget_bytes() - broker.taken_bytes()).unwrap();
    wanted.grow(200_000).unwrap();
    push(builder.as_mut(), batches.next().unwrap());
    let spilled = parts.spilled();
    assert!(spilled.partitions_spilled > 0, "{spilled:?}");
    assert!(broker.taken_bytes() <= broker.budget_bytes() + 150_000, "{}", broker.taken_bytes());
    drop((builder, parts, wanted));
    is_left_empty(&temp, &broker, "gave way");
}

#[test]
fn a_heavy_key_is_joined_block_by_block() {
    // All rows of the build side have one key; two rows of the probe side have it.
    let left: Vec<_> = (0..20_000).map(|n| (5, n)).collect();
    let right = [(5, 1), (6, 2), (5, 3), (7, 4)];
    for (join_type, count) in [
        (JoinType::Inner, 40_000),
        (JoinType::Left, 40_000),
        (JoinType::Right, 40_002),
        (JoinType::Full, 40_002),
        (JoinType::LeftSemi, 20_000),
        (JoinType::RightSemi, 2),
        (JoinType::LeftAnti, 0),
        (JoinType::RightAnti, 2),
        (JoinType::LeftMark, 20_000),
        (JoinType::RightMark, 4),
    ] {
        let (rows, spilled, _) = join_numbers(join_type, &left, &right, 150_000, 2, None);
        assert_eq!(rows.len(), count, "{join_type}");
        assert!(spilled.reversed > 0, "{join_type}: {spilled:?}");
    }
    // So many other rows that the key's partition is no smaller on the probe side.
    let others = 400_000;
    let right: Vec<_> = right.into_iter().chain((0..others).map(|n| (n + 10, n))).collect();
    for (join_type, count) in [
        (JoinType::Right, 40_002 + others),
        (JoinType::Full, 40_002 + others),
        (JoinType::RightAnti, 2 + others),
        (JoinType::RightMark, 4 + others),
    ] {
        let (rows, spilled, _) = join_numbers(join_type, &left, &right, 150_000, 2, None);
        assert_eq!(rows.len() as i64, count, "{join_type}");
        assert!(spilled.blocks > 1, "{join_type}: {spilled:?}");
    }
}

#[test]
fn a_complete_table_can_be_given_back() {
    let (left, right) = (pairs_of_numbers(5_000), pairs_of_numbers(8_000));
    for join_type in ALL_TYPES {
        let (expected, ..) = join_numbers(join_type, &left, &right, 1 << 30, 3, None);
        // While it is built, before the first row of the probe side, in the middle, and after its last batch but one.
        for after in [0, 3, 10, 18, 25] {
            let (rows, spilled, _) = join_numbers(join_type, &left, &right, 1 << 30, 3, Some(after));
            assert!(rows == expected, "{join_type}, after {after}: {} rows, {}", rows.len(), expected.len());
            assert_eq!(spilled.partitions, spilled.partitions_spilled, "{join_type}, after {after}");
            assert!(spilled.bytes > 0, "{join_type}, after {after}");
        }
    }
}

#[test]
fn a_join_that_is_dropped_leaves_nothing() {
    let (join, schema) = int_join(JoinType::Full, 1);
    for batches in [1, 10, 30, 41, 60] {
        let parts = hash_join(&join, &schema, &[]).unwrap();
        let broker = Broker::new(100_000);
        let memory = broker.account(diligence_base::ids::QueryId(1), None);
        let temp = small_clusters(&MemoryTempFiles::default(), 0);
        let context = QueryContext { memory, temp: Some(temp.clone()), batch_rows: 512, packets: 1 };
        let mut rows = pairs_of_numbers(20_000).into_iter();
        let mut next = || numbers(rows.by_ref().take(500).collect::<Vec<_>>().into_iter());
        let mut builder = parts.build.open(&context).unwrap();
        let (build_batches, probe_batches) = (batches.min(40), batches - batches.min(40));
        (0..build_batches).for_each(|_| push(builder.as_mut(), next()));
        if probe_batches > 0 {
            while builder.finish(Waker::noop()).unwrap() == Accept::Wait {}
            drop(builder);
            (0..parts.build.parts().unwrap()).for_each(|part| parts.build.part(part, &context).unwrap());
            parts.build.complete().unwrap();
            let (mut probe, mut out) = (parts.probe.open(&context).unwrap(), Output::default());
            let batch = numbers(pairs_of_numbers(500).into_iter());
            (0..probe_batches).for_each(|_| assert_eq!(probe.push(batch.clone(), &mut out).unwrap(), Flow::NeedInput));
            drop(probe);
            let source = &parts.after_probe.last().unwrap().0;
            assert!(source.packets_max() > 0);
            let mut pairs = source.open(&context).unwrap();
            (0..probe_batches).for_each(|_| drop(pairs.pull(Waker::noop()).unwrap()));
        } else {
            drop(builder);
        }
        drop(parts);
        is_left_empty(&temp, &broker, "dropped");
    }
}

#[test]
fn a_full_disk_ends_the_join() {
    let (join, schema) = int_join(JoinType::Inner, 1);
    let parts = hash_join(&join, &schema, &[]).unwrap();
    let broker = Broker::new(100_000);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let temp = small_clusters(&MemoryTempFiles::failing(Fault::Full, 5), 0);
    let context = QueryContext { memory, temp: Some(temp.clone()), batch_rows: 512, packets: 1 };
    let mut builder = parts.build.open(&context).unwrap();
    let mut batches = pairs_of_numbers(20_000)
        .chunks(500)
        .map(|chunk| numbers(chunk.iter().copied()))
        .collect::<Vec<_>>()
        .into_iter();
    let error = batches.find_map(|batch| builder.push(batch, Waker::noop()).err()).unwrap();
    assert!(error.message().contains("temp"), "{error}");
    drop((builder, parts));
    is_left_empty(&temp, &broker, "full");
}
