//! Rows that wait in temp space.

use diligence_disk::MemoryTempFiles;

use super::*;

fn temp_space() -> TempSpace {
    temp_space_of(16 * 4096)
}

fn temp_space_of(cluster_bytes: usize) -> TempSpace {
    let options = TempOptions {
        directories: vec!["/temp".into()],
        cluster_bytes,
        threads: 0,
        files: Arc::new(MemoryTempFiles::default()),
        ..TempOptions::default()
    };
    TempSpace::open(&options).unwrap()
}

#[test]
fn rows_that_wait_give_way_to_another_query() {
    let schema = schema(&DataType::Int64);
    let call = WindowCall {
        function: aggregate(sum_udaf(), &[NUMBER], false, &schema),
        arguments: vec![column(NUMBER, &schema)],
        filter: None,
        frame: rows_frame(preceding(None), following(None)),
        excludes: Exclusion::NoOthers,
    };
    let (window, output) = window(vec![call], &[(ORDER, SortOptions::default())], &schema);
    let payload = many(&schema, 0, 1000).bytes();
    let (space, broker) = (temp_space(), diligence_memory::Broker::new(60 * payload));
    let [first, second] = [1, 2].map(|query| broker.account(diligence_base::ids::QueryId(query), None));
    let mut work = Work::new(Functions::new(&window, &output).unwrap(), &first, Some(space.clone()));
    (0..40).for_each(|batch| push(&mut work, &many(&schema, batch * 1000, 1000)).unwrap());
    assert_eq!(space.info().written_bytes_total, 0);
    let mut wanted = second.reservation("Scan");
    wanted.grow(30 * payload).unwrap();
    assert!(second.poll_room(std::task::Waker::noop()).is_pending());
    block_on(|waker| work.poll_give_back(waker)).unwrap();
    assert!(second.poll_room(std::task::Waker::noop()).is_ready());
    assert!(broker.taken_bytes() <= 60 * payload && space.info().written_bytes_total > 5 * payload as u64);
    work.close();
    let mut rows = 0;
    while let Some(batch) = next(&mut work).unwrap() {
        rows += batch.rows();
    }
    assert_eq!(rows, 40_000);
    drop((work, wanted));
    assert_eq!(broker.reserved_bytes(), 0);
}

/// A budget of which a partition needs many times as much.
#[test]
fn a_partition_larger_than_memory_goes_through_temp_space() {
    let schema = schema(&DataType::Int64);
    let frames = [rows_frame(preceding(None), following(None)), rows_frame(preceding(Some(1)), following(Some(2)))];
    let call = |function: WindowFunction, arguments: &[usize], frame: &Arc<WindowFrame>| WindowCall {
        function,
        arguments: arguments.iter().map(|&index| column(index, &schema)).collect(),
        filter: None,
        frame: frame.clone(),
        excludes: Exclusion::NoOthers,
    };
    let calls = vec![
        call(aggregate(sum_udaf(), &[NUMBER], false, &schema), &[NUMBER], &frames[0]),
        call(aggregate(max_udaf(), &[FLOAT], false, &schema), &[FLOAT], &frames[0]),
        call(aggregate(avg_udaf(), &[DECIMAL], false, &schema), &[DECIMAL], &frames[0]),
        call(aggregate(max_udaf(), &[TEXT], false, &schema), &[TEXT], &frames[0]),
        call(WindowFunction::RowNumber, &[], &frames[0]),
        call(WindowFunction::Ntile(7), &[], &frames[0]),
        call(WindowFunction::PercentRank, &[], &frames[0]),
    ];
    let (window, output) = window(calls, &[(ORDER, SortOptions::default())], &schema);
    let batches =
        (0..100).map(|batch| many(&schema, batch * 1000, 1000).to_record_batch(&schema).unwrap()).collect::<Vec<_>>();
    let expected = run(&window, &output, &batches).unwrap();
    let payload = Batch::from_record_batch(&batches[0]).bytes();
    let space = temp_space();
    let broker = diligence_memory::Broker::new(40 * payload);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let seen = run_within(&window, &output, &batches, &memory, Some(space.clone())).unwrap();
    assert_eq!(rows_of(&seen).unwrap(), rows_of(&expected).unwrap());
    assert!(space.info().written_bytes_total > 30 * payload as u64, "{:?}", space.info());
    drop(seen);
    assert_eq!(broker.reserved_bytes(), 0);
    assert_eq!(space.info().directories[0].clusters_used, 0);
}

/// Runs a window with everything in temp space that can go there, after each batch, and shows what comes. What it has
/// taken, to be looked at when nothing of what came is held any more: lists are parts of the clusters that they were
/// read from.
#[must_use]
fn run_stored(
    window: &Window,
    output: &SchemaRef,
    batches: &[RecordBatch],
    mut look: impl FnMut(RecordBatch),
) -> Taken {
    let (memory, space) = (QueryMemory::unbounded(), temp_space_of(4096));
    let mut work = Work::new(Functions::new(window, output).unwrap(), &memory, Some(space.clone()));
    let mut take = |work: &mut Work| {
        while let Some(batch) = next(work).unwrap() {
            look(batch.to_record_batch(output).unwrap());
        }
    };
    for batch in batches {
        push(&mut work, &Batch::from_record_batch(batch)).unwrap();
        while block_on(|waker| work.poll_spill(waker)).unwrap() {}
        take(&mut work);
    }
    work.close();
    take(&mut work);
    Taken { memory, space }
}

struct Taken {
    memory: QueryMemory,
    space: TempSpace,
}

impl Taken {
    fn is_given_back(&self) {
        assert_eq!((self.memory.reserved_bytes(), self.space.info().directories[0].clusters_used), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Frames of several sizes side by side, so that readers stand in different files, and rows that went on are read
    /// again.
    #[test]
    fn any_function_in_temp_space_is_what_the_judge_says(
        (order, frames) in order_types().prop_flat_map(|order| {
            (Just(order.clone()), prop::collection::vec(frames(order), 1..4))
        }),
        seeds in prop::collection::vec((0..2_u8, small(), small(), small()), 100..250),
        options in options(), filtered in any::<bool>(), size in 1..40_usize,
    ) {
        let schema = schema(&order);
        let keys = [(ORDER, options)];
        let calls = functions(&schema).into_iter().enumerate().map(|(number, (function, arguments))| WindowCall {
            filter: (filtered && matches!(function, WindowFunction::Aggregate(_))).then(|| column(CONDITION, &schema)),
            function,
            arguments: arguments.into_iter().map(|index| column(index, &schema)).collect(),
            frame: Arc::new(frames[number % frames.len()].clone()),
            excludes: Exclusion::NoOthers,
        });
        let (window, output) = window(calls.collect(), &keys, &schema);
        let rows = rows(&seeds, &schema, &keys);
        let mut seen = Vec::new();
        let taken = run_stored(&window, &output, &batches(&rows, &schema, &[size]), |batch| {
            seen.extend(rows_of(&[batch]).unwrap());
        });
        compare(&window, &seen, &rows, &keys);
        drop(seen);
        taken.is_given_back();
    }
}

/// What cannot be taken back is read anew for each frame where frames are long: here there are ten of each kind.
#[test]
fn frames_that_are_read_anew_are_read_from_temp_space() {
    const ROWS: usize = 200_000;
    const PEERS: usize = ROWS / 10;
    let schema = schema(&DataType::Int64);
    let rest = WindowFrame::new_bounds(WindowFrameUnits::Range, WindowFrameBound::CurrentRow, following(None));
    let some = WindowFrame::new_bounds(WindowFrameUnits::Groups, preceding(Some(7)), following(Some(1)));
    let call = |function: Arc<AggregateUDF>, argument: usize, frame: &WindowFrame, filtered: bool| WindowCall {
        function: aggregate(function, &[argument], false, &schema),
        arguments: vec![column(argument, &schema)],
        filter: filtered.then(|| column(CONDITION, &schema)),
        frame: Arc::new(frame.clone()),
        excludes: Exclusion::NoOthers,
    };
    let mut calls = Vec::new();
    for frame in [&rest, &some] {
        calls.push(call(bit_xor_udaf(), NUMBER, frame, false));
        calls.push(call(bool_or_udaf(), CONDITION, frame, true));
        calls.push(call(count_udaf(), NUMBER, frame, false));
    }
    let (window, output) = window(calls, &[(ORDER, SortOptions::default())], &schema);
    let batch = |first: usize| {
        let mut columns = many(&schema, first as i64, 1000).to_record_batch(&schema).unwrap().columns().to_vec();
        columns[ORDER] = Arc::new(Int64Array::from_iter_values((first..first + 1000).map(|row| (row / PEERS) as i64)));
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let batches = (0..ROWS).step_by(1000).map(batch).collect::<Vec<_>>();
    let inputs = schema.fields().len();
    let mut row = 0;
    let taken = run_stored(&window, &output, &batches, |batch| {
        let values = rows_of(&[batch.slice(0, 1)]).unwrap().remove(0);
        let group = row / PEERS;
        for (place, frame) in [
            (inputs, group * PEERS..ROWS),
            (inputs + 3, group.saturating_sub(7) * PEERS..((group + 2) * PEERS).min(ROWS)),
        ] {
            assert_eq!(values[place + 2], ScalarValue::Int64(Some(frame.len() as i64)), "row {row}");
            let xor = frame.fold(0, |xor, row| xor ^ row as i64);
            assert_eq!(values[place], ScalarValue::Int64(Some(xor)), "row {row}");
            assert_eq!(values[place + 1], ScalarValue::Boolean(Some(true)), "row {row}");
        }
        row += batch.num_rows();
    });
    assert_eq!(row, ROWS);
    taken.is_given_back();
}
