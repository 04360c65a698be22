//! The same rows at every budget: with all the memory that there is, with so little that nothing stays, with anything
//! between, and when memory is taken away after the groups are complete.

use diligence_base::ids::QueryId;
use diligence_disk::MemoryTempFiles;

use super::spilled::Tight;
use super::*;

/// What is aggregated, and how.
struct Case {
    keys: Vec<&'static str>,
    calls: fn() -> Vec<AggregateCall>,
    /// The least budget, in KiB: DataFusion's accumulators need all states of a table twice.
    least_kib: usize,
}

fn cases() -> Vec<Case> {
    let both = || native_calls().into_iter().chain(distinct_calls()).collect();
    vec![
        Case { keys: vec!["text", "int"], calls: native_calls, least_kib: 160 },
        Case { keys: vec!["big"], calls: native_calls, least_kib: 160 },
        Case { keys: vec!["utf8", "list"], calls: distinct_calls, least_kib: 256 },
        Case { keys: vec![], calls: both, least_kib: 256 },
        Case { keys: vec!["date"], calls: foreign_calls, least_kib: 768 },
    ]
}

fn rows(seed: u64) -> (Random, Vec<Batch>) {
    let mut random = Random::new(seed);
    let shape = Shape { rows: 6000, batch_rows: 500, domain: 4000, nulls_percent: 5, huge: false };
    let batches = batches(&mut random, shape);
    (random, batches)
}

fn in_memory(random: &mut Random, case: &Case, batches: &[Batch]) -> Vec<String> {
    let (plan, output) = plan_of(&case.keys, None, (case.calls)());
    let parts = aggregate(&plan, &input_schema(), &output).unwrap();
    rows_of(&run(random, &parts, batches, &output, &context(2, 64)).unwrap())
}

#[test]
fn every_budget_gives_the_same_groups() {
    for (seed, case) in cases().into_iter().enumerate() {
        let (mut random, batches) = rows(seed as u64);
        let expected = in_memory(&mut random, &case, &batches);
        let mut spilled = Vec::new();
        for times in [1, 2, 4, 8, 100] {
            let budget = (case.least_kib * times + random.below(case.least_kib)) * 1024;
            let (plan, output) = plan_of(&case.keys, None, (case.calls)());
            let tuning = if random.chance(50) { small_tuning(&mut random) } else { Tuning::default() };
            let parts = build(&plan, &input_schema(), &output, tuning).unwrap();
            let tight = Tight::new(budget, 1 + random.below(3), &MemoryTempFiles::default());
            let found = run(&mut random, &parts, &batches, &output, &tight.context)
                .unwrap_or_else(|error| panic!("{error} with {budget} bytes by {:?}", case.keys));
            assert!(rows_of(&found) == expected, "with {budget} bytes by {:?}", case.keys);
            spilled.push(parts.sink.spills().unwrap().counts().bytes);
            drop(parts);
            tight.assert_nothing_is_left();
        }
        assert!(spilled[0] > 0 && spilled[4] == 0, "{spilled:?} by {:?}", case.keys);
    }
}

/// A little too little memory sends a little to temp space.
#[test]
fn what_fits_stays() {
    let (mut random, batches) = rows(77);
    let case = &cases()[0];
    let expected = in_memory(&mut random, case, &batches);
    let mut spilled = |budget: usize| {
        let (plan, output) = plan_of(&case.keys, None, (case.calls)());
        let tuning = Tuning { local_groups: 100, handed_groups: 0, ..Tuning::default() };
        let parts = build(&plan, &input_schema(), &output, tuning).unwrap();
        let tight = Tight::new(budget, 2, &MemoryTempFiles::default());
        assert!(rows_of(&run(&mut random, &parts, &batches, &output, &tight.context).unwrap()) == expected);
        let peak = tight.context.memory.peak_bytes();
        (parts.sink.spills().unwrap().counts().bytes, peak)
    };
    let (none, needed) = spilled(1 << 30);
    let bytes = (1..8).map(|eighths| spilled(needed * eighths / 8).0).collect::<Vec<_>>();
    let some = bytes.iter().any(|&some| some > 0 && some * 2 < bytes[0]);
    assert!(none == 0 && some, "{bytes:?} with so many eighths of {needed}");
}

/// Groups that nobody reads yet go to temp space when somebody else needs the memory, also while others are being read.
#[test]
fn groups_at_rest_give_back_what_somebody_needs() {
    const BUDGET: usize = 64 << 20;
    for (seed, case) in cases().into_iter().enumerate().filter(|(_, case)| !case.keys.is_empty()) {
        let (mut random, batches) = rows(seed as u64 + 10);
        let expected = in_memory(&mut random, &case, &batches);
        // In memory, and with some pieces in temp space already.
        for budget in [BUDGET, case.least_kib * 4 * 1024] {
            let (plan, output) = plan_of(&case.keys, None, (case.calls)());
            let parts = build(&plan, &input_schema(), &output, small_tuning(&mut random)).unwrap();
            let tight = Tight::new(budget, 2, &MemoryTempFiles::default());
            let memory = tight.context.memory.clone();
            fill(&mut random, &parts, &batches, &tight.context).unwrap();
            complete(&parts, &tight.context).unwrap();
            let before = memory.reserved_bytes();
            let other = tight.broker.account(QueryId(2), None);
            let mut needed = other.reservation("HashJoin");
            // All that is free, and a little that is not.
            needed.overdraw(budget.saturating_sub(before));
            let asks = needed.grow(before / 8).is_ok() && memory.is_reclaiming();
            while memory.is_reclaiming() {
                let _ = memory.poll_reclaim(Waker::noop()).map(Result::unwrap);
            }
            if asks && budget == BUDGET {
                let spilled = parts.sink.spills().unwrap().counts().bytes;
                assert!(spilled > 0, "{before} bytes by {:?}", case.keys);
            }
            drop(needed);
            let found = read(&mut random, &parts, &output, &tight.context).unwrap();
            assert!(rows_of(&found) == expected, "by {:?}", case.keys);
            // Rows that were read keep the clusters they came in.
            drop((found, parts, other, memory));
            tight.assert_nothing_is_left();
        }
    }
}

/// What waits for its reader keeps next to nothing: rows in temp space need no buffers, and others can ask for the
/// rest.
#[test]
fn groups_that_wait_for_their_reader_keep_no_buffers() {
    for (seed, case) in cases().into_iter().enumerate().filter(|(_, case)| !case.keys.is_empty()) {
        let (mut random, batches) = rows(seed as u64 + 20);
        let expected = in_memory(&mut random, &case, &batches);
        let budget = case.least_kib * 2 * 1024;
        let (plan, output) = plan_of(&case.keys, None, (case.calls)());
        let parts = build(&plan, &input_schema(), &output, Tuning::default()).unwrap();
        let tight = Tight::new(budget, 2, &MemoryTempFiles::default());
        let memory = tight.context.memory.clone();
        fill(&mut random, &parts, &batches, &tight.context).unwrap();
        assert!(parts.sink.bytes_min(&tight.context) > 0);
        complete(&parts, &tight.context).unwrap();
        assert_eq!(parts.sink.bytes_at_rest(&tight.context), 0);
        // Somebody needs all that can be had.
        let other = tight.broker.account(QueryId(2), None);
        let mut needed = other.reservation("HashJoin");
        needed.overdraw(budget);
        loop {
            let _ = needed.grow(1);
            if !memory.is_reclaiming() {
                break;
            }
            while memory.is_reclaiming() {
                let _ = memory.poll_reclaim(Waker::noop()).map(Result::unwrap);
            }
        }
        let kept = memory.reserved_bytes();
        assert!(kept < budget / 8, "{kept} of {budget} bytes are kept by {:?}", case.keys);
        drop(needed);
        let found = read(&mut random, &parts, &output, &tight.context).unwrap();
        assert!(rows_of(&found) == expected, "by {:?}", case.keys);
        drop(found);
        let kept = memory.reserved_bytes();
        assert!(kept < budget / 8, "{kept} of {budget} bytes are kept after reading by {:?}", case.keys);
        drop((parts, other, memory));
        tight.assert_nothing_is_left();
    }
}
