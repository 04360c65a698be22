//! Joins that random ones would hardly ever make: many parts, odd sizes, short budgets, both zeros.

use super::*;
use crate::operators::key_words::{KeyKind, hash_rows};

pub(super) fn int_join(join_type: JoinType, on: usize) -> (HashJoin, SchemaRef) {
    let types = [DataType::Int64, DataType::Int64];
    let key = |index: usize| Expr::column(index, &schema_of(&types)).unwrap();
    let schema = schema_of(&joined_types(join_type, &types, &types));
    let join = HashJoin {
        left: input_of(&types),
        right: input_of(&types),
        on: (0..on).map(|index| (key(index), key(index))).collect(),
        filter: None,
        join_type,
        null_equality: NullEquality::NullEqualsNothing,
        null_aware: false,
        projection: None,
        runtime_filters: vec![],
    };
    (join, schema)
}

pub(super) fn numbers(pairs: impl Iterator<Item = (i64, i64)> + Clone) -> Batch {
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(pairs.clone().map(|pair| pair.0)));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values(pairs.map(|pair| pair.1)));
    let rows = a.len();
    Batch::from_arrays(vec![a, b], rows)
}

/// Larger builds, so that every table has several parts: sorted, shuffled, with duplicates, dense and sparse.
#[test]
fn many_parts_make_one_table() {
    for (step, shuffled, repeated, keys) in [
        (1, false, 1, 1),
        (1, false, 3, 1),
        (1, true, 1, 1),
        (7, true, 2, 1),
        (1_000_003, false, 1, 1),
        (1_000_003, true, 4, 1),
        (1_000_003, true, 1, 2),
        (1 << 40, true, 2, 2),
    ] {
        let (join, schema) = int_join(JoinType::Inner, keys);
        let filter = RuntimeFilter::new();
        let parts = hash_join(&join, &schema, &[(filter.clone(), 0)]).unwrap();
        let count = 3000i64;
        let place = |row: i64| if shuffled { row * 1013 % count } else { row };
        let left = (0..count).map(|row| (place(row) / repeated * step, place(row) / repeated * step % 1000));
        let left: Vec<_> = left.collect();
        let batches = left.chunks(100).map(|chunk| numbers(chunk.iter().copied())).collect();
        let probe: Vec<_> = (0..count + 50).map(|n| (n / 2 * step, n / 2 * step % 1000)).collect();
        let probes: Vec<Batch> = probe.chunks(500).map(|chunk| numbers(chunk.iter().copied())).collect();
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 256, packets: 2 };
        let rows = run(&mut Random::new(1), &parts, &context, batches, probes, &schema, true);
        let mut expected: Vec<Row> = Vec::new();
        for &(a, b) in &probe {
            let partners = left.iter().filter(|pair| pair.0 == a).count();
            expected.extend((0..partners).map(|_| [a, b, a, b].map(|n| ScalarValue::Int64(Some(n))).to_vec()));
        }
        assert_eq!(sorted(rows), sorted(expected), "step {step}, shuffled {shuffled}, repeated {repeated}");
        assert_eq!(filter.bounds().unwrap().0, ScalarValue::Int64(Some(0)));
    }
}

#[test]
fn probe_order_is_kept_by_inner_and_right_joins() {
    for join_type in [JoinType::Inner, JoinType::Right] {
        for filter in [None, Some(at_most(1, 1))] {
            let (mut join, schema) = int_join(join_type, 1);
            join.filter = filter;
            let parts = hash_join(&join, &schema, &[]).unwrap();
            let left = (0..60).map(|n| (n % 20, n % 7));
            let right = (0..100).map(|n| (n * 13 % 40, n));
            let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8, packets: 1 };
            let rows =
                run(&mut Random::new(1), &parts, &context, vec![numbers(left)], vec![numbers(right)], &schema, false);
            let order: Vec<&ScalarValue> = rows.iter().map(|row| &row[3]).collect();
            assert!(order.is_sorted_by(|a, b| a <= b), "{join_type}: {order:?}");
            assert!(rows.len() >= 100);
        }
    }
}

#[test]
fn an_empty_build_side_ends_the_probe() {
    for (join_type, done) in [(JoinType::Inner, true), (JoinType::RightSemi, true), (JoinType::RightAnti, false)] {
        let (join, schema) = int_join(join_type, 1);
        let filter = RuntimeFilter::new();
        let parts = hash_join(&join, &schema, &[(filter.clone(), 0)]).unwrap();
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8, packets: 1 };
        let mut builder = parts.build.open(&context).unwrap();
        builder.finish(Waker::noop()).unwrap();
        drop(builder);
        (0..parts.build.parts().unwrap()).for_each(|part| parts.build.part(part, &context).unwrap());
        parts.build.complete().unwrap();
        let mut out = Output::default();
        let flow = parts.probe.open(&context).unwrap().push(numbers((0..5).map(|n| (n, n))), &mut out).unwrap();
        assert_eq!(flow == Flow::Done, done);
        assert!(filter.is_empty_build());
    }
}

#[test]
fn a_short_budget_is_a_resource_error() {
    let (join, schema) = int_join(JoinType::Inner, 1);
    let parts = hash_join(&join, &schema, &[]).unwrap();
    let broker = Broker::new(10_000);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let context = QueryContext { memory, temp: None, batch_rows: 8, packets: 1 };
    let mut state = parts.build.open(&context).unwrap();
    let error = state.push(numbers((0..5000).map(|n| (n, n))), Waker::noop()).unwrap_err();
    assert_eq!(error.kind(), diligence_base::ErrorKind::Resource);
    drop((state, parts));
    assert_eq!(broker.reserved_bytes(), 0);
}

/// Both zeros are one key: alone, beside another key and inside of a list; in the filter for the probe side, too.
#[test]
fn minus_zero_joins_zero() {
    let (minus, plus): (ArrayRef, ArrayRef) =
        (Arc::new(Float64Array::from(vec![-0.0])), Arc::new(Float64Array::from(vec![0.0])));
    let list = |zero: f64| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(1.0), Some(zero)])]))
    };
    let number = || -> ArrayRef { Arc::new(Int64Array::from(vec![7])) };
    for (left, right) in [
        (vec![minus.clone()], vec![plus.clone()]),
        (vec![plus, number()], vec![minus, number()]),
        (vec![list(-0.0)], vec![list(0.0)]),
    ] {
        let types: Vec<DataType> = left.iter().map(|array| array.data_type().clone()).collect();
        let key = |index: usize| Expr::column(index, &schema_of(&types)).unwrap();
        for (join_type, expected) in ALL_TYPES.map(|join_type| {
            let is_anti = matches!(join_type, JoinType::LeftAnti | JoinType::RightAnti);
            (join_type, if is_anti { 0 } else { 1 })
        }) {
            let schema = schema_of(&joined_types(join_type, &types, &types));
            let join = HashJoin {
                left: input_of(&types),
                right: input_of(&types),
                on: (0..types.len()).map(|index| (key(index), key(index))).collect(),
                ..int_join(join_type, 1).0
            };
            let filter = RuntimeFilter::new();
            let parts = hash_join(&join, &schema, &[(filter.clone(), 0)]).unwrap();
            let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8, packets: 1 };
            let batch = |arrays: &[ArrayRef]| vec![Batch::from_arrays(arrays.to_vec(), 1)];
            let rows = run(&mut Random::new(1), &parts, &context, batch(&left), batch(&right), &schema, false);
            assert_eq!(rows.len(), expected, "{join_type} on {types:?}");
            if matches!(join_type, JoinType::LeftMark | JoinType::RightMark) {
                assert_eq!(rows[0].last(), Some(&ScalarValue::Boolean(Some(true))));
            }
            let kept = filter.row_filter(0).keep(&right[..1]).unwrap();
            assert!(kept.value(0), "the filter of {types:?}");
        }
    }
}

/// Text that shares its buffers with many other rows is reserved, and held, by what its rows need.
#[test]
fn shared_buffers_are_not_reserved() {
    let types = [DataType::Int64, DataType::Utf8View];
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..50_000).map(|n| format!("{n:0100}"))));
    let batches: Vec<Batch> = (0..20)
        .map(|n| {
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(n * 100..n * 100 + 100));
            let text = texts.slice(n as usize * 2000, 100);
            if n % 2 == 0 {
                return Batch::from_arrays(vec![keys, text], 100);
            }
            let picks = UInt32Array::from_iter_values((0..100).map(|row| row * 13));
            Batch::new(vec![Column::flat_array(keys), Column::picked(texts.clone(), Arc::new(picks))], 100)
        })
        .collect();
    let broker = Broker::new(2 << 20);
    let memory = broker.account(diligence_base::ids::QueryId(1), None);
    let context = QueryContext { memory, temp: None, batch_rows: 64, packets: 2 };
    let schema = schema_of(&joined_types(JoinType::Inner, &types, &types));
    let join = HashJoin { left: input_of(&types), right: input_of(&types), ..int_join(JoinType::Inner, 1).0 };
    let parts = hash_join(&join, &schema, &[]).unwrap();
    let rows = run(&mut Random::new(1), &parts, &context, batches.clone(), batches.clone(), &schema, false);
    assert_eq!(rows.len(), 2000);
    // 2000 rows of 100 bytes of text, a view and two words; a table; and as much again while the arrays are made.
    assert!((200_000..1 << 20).contains(&context.memory.peak_bytes()), "{} bytes", context.memory.peak_bytes());
    assert_eq!(context.memory.reserved_bytes(), 0, "nobody reads the table any more");
    let join = NestedLoopJoin {
        left: input_of(&types),
        right: input_of(&types),
        filter: Some(at_most(0, 0)),
        join_type: JoinType::LeftSemi,
        projection: None,
    };
    let parts = nested_loop_join(&join, &schema_of(&types)).unwrap();
    let rows =
        run(&mut Random::new(1), &parts, &context, batches.clone(), batches[19..].to_vec(), &schema_of(&types), false);
    assert_eq!(rows.len(), 2000);
    drop(parts);
    assert_eq!(context.memory.reserved_bytes(), 0);
}

/// Half of the rows of both sides have one text: whether a row has a partner is asked once of it, or a few times. With
/// all pairs of these rows, this would not end.
#[test]
fn many_rows_of_one_text_are_asked_for_a_partner_once() {
    const ROWS: usize = 200_000;
    let types = [DataType::Utf8View, DataType::Int64];
    let side = |prefix: &str| {
        let text = |row: usize| {
            if row.is_multiple_of(2) { "a text that many have".into() } else { format!("{prefix} {}", row % 5000) }
        };
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..ROWS).map(text)));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let batch = |start: usize| Batch::from_arrays(vec![texts.slice(start, 4000), numbers.slice(start, 4000)], 4000);
        (0..ROWS).step_by(4000).map(batch).collect::<Vec<_>>()
    };
    for join_type in ALL_TYPES
        .into_iter()
        .filter(|join_type| !matches!(join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full))
    {
        let schema = schema_of(&joined_types(join_type, &types, &types));
        let key = || Expr::column(0, &schema_of(&types)).unwrap();
        let on = vec![(key(), key())];
        let join = HashJoin { left: input_of(&types), right: input_of(&types), on, ..int_join(join_type, 1).0 };
        let parts = hash_join(&join, &schema, &[]).unwrap();
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 4096, packets: 2 };
        let rows = run(&mut Random::new(1), &parts, &context, side("left"), side("right"), &schema, false);
        let yes = |row: &Vec<ScalarValue>| row.last() == Some(&ScalarValue::Boolean(Some(true)));
        let found = match join_type {
            JoinType::LeftMark | JoinType::RightMark => rows.iter().filter(|row| yes(row)).count(),
            _ => rows.len(),
        };
        assert_eq!(found, ROWS / 2, "{join_type}");
    }
}

/// Rows without a partner come between pairs, but not as one batch with them.
#[test]
fn padded_batches_have_no_more_rows_than_others() {
    for join_type in [JoinType::Right, JoinType::Full] {
        let (join, schema) = int_join(join_type, 1);
        let parts = hash_join(&join, &schema, &[]).unwrap();
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 64, packets: 1 };
        // Every second probe row has two partners.
        let left = (0..64).map(|n| (n / 2 * 2, n));
        let right = (0..64).map(|n| (n, n));
        let rows =
            run(&mut Random::new(1), &parts, &context, vec![numbers(left)], vec![numbers(right)], &schema, false);
        assert_eq!(rows.len(), 96);
        let order: Vec<&ScalarValue> = rows.iter().map(|row| &row[3]).collect();
        assert!(order.is_sorted_by(|a, b| a <= b), "{join_type}: {order:?}");
    }
}

#[test]
fn forms_of_one_type_have_one_hash() {
    let hash = |logical: &DataType, array: ArrayRef| {
        let column = KeyKind::of(logical).unwrap().column(&array).unwrap();
        let mut hashes = Vec::new();
        hash_rows(&[column], &mut hashes);
        hashes
    };
    let decimal = DataType::Decimal128(18, 2);
    let wide: ArrayRef = Arc::new(Decimal128Array::from(vec![Some(-7), None]).with_precision_and_scale(18, 2).unwrap());
    let narrow: ArrayRef =
        Arc::new(Decimal64Array::from(vec![Some(-7), None]).with_precision_and_scale(18, 2).unwrap());
    assert_eq!(hash(&decimal, wide), hash(&decimal, narrow));
    let texts = [
        "",
        "short",
        "twelve bytes",
        "thirteen byte",
        "fifteen bytes..",
        "exactly sixteen.",
        "longer than sixteen bytes",
    ];
    let views: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
    let plain: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let dictionary: ArrayRef = Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>());
    let expected = hash(&DataType::Utf8View, views);
    assert_eq!(hash(&DataType::Utf8View, plain), expected);
    assert_eq!(hash(&DataType::Utf8View, dictionary), expected);
    let distinct: std::collections::HashSet<u64> = expected.into_iter().collect();
    assert_eq!(distinct.len(), texts.len());
    let types: [ArrayRef; 4] = [
        Arc::new(BooleanArray::from(vec![true])),
        Arc::new(Date32Array::from(vec![1])),
        Arc::new(UInt64Array::from(vec![1])),
        Arc::new(Float64Array::from(vec![1.0])),
    ];
    types.into_iter().for_each(|array| assert_eq!(hash(&array.data_type().clone(), array).len(), 1));
}
