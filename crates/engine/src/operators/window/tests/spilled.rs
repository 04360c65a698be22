//! Rows that wait in temp space.

use diligence_base::seams::MemoryTempFiles;

use super::*;

fn temp_space() -> TempSpace {
    let options = TempOptions {
        directories: vec!["/temp".into()],
        cluster_bytes: 16 * 4096,
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
    };
    let (window, output) = window(vec![call], &[(ORDER, SortOptions::default())], &schema);
    let payload = many(&schema, 0, 1000).bytes();
    let (space, broker) = (temp_space(), crate::memory::Broker::new(60 * payload));
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
    let broker = crate::memory::Broker::new(40 * payload);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let seen = run_within(&window, &output, &batches, &memory, Some(space.clone())).unwrap();
    assert_eq!(rows_of(&seen).unwrap(), rows_of(&expected).unwrap());
    assert!(space.info().written_bytes_total > 30 * payload as u64, "{:?}", space.info());
    drop(seen);
    assert_eq!(broker.reserved_bytes(), 0);
    assert_eq!(space.info().directories[0].clusters_used, 0);
}
