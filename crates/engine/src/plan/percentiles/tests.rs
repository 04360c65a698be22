//! Percentiles of sorted values are those of DataFusion's accumulators, and finish where these do not.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int64Array, ListArray, RecordBatch, StringViewArray, StructArray,
};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Schema, SchemaRef, i256};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, Operator};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::first_last::first_value_udaf;
use datafusion_functions_aggregate::median::median_udaf;
use datafusion_functions_aggregate::min_max::max_udaf;
use datafusion_functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, IsNullExpr, Literal};
use datafusion_physical_expr::{PhysicalExpr, PhysicalSortExpr};
use diligence_base::ErrorKind;
use diligence_base::limits::MEMORY_BYTES_MIN;
use diligence_disk::{MemoryTempFiles, TempOptions};
use proptest::prelude::*;
use proptest::sample::select;

use super::{rewrite, rows_most, with_sorted_percentiles};
use crate::expressions::Expr;
use crate::options::QueryOptions;
use crate::plan::{Aggregate, AggregateCall, Node, Plan, PlanTables, WorkTable, WorkTableId};
use crate::{Engine, EngineOptions};

const KEY: usize = 0;
const TEXT: usize = 1;
const FLOAT: usize = 2;
const DECIMAL: usize = 5;
const NUMBER: usize = 6;
const CONDITION: usize = 7;
const LIST: usize = 11;
const STRUCT: usize = 12;
const DICTIONARY: usize = 13;
const BINARY: usize = 14;

/// The columns with values of which percentiles are taken; of decimals, medians only.
const VALUES: [usize; 7] = [FLOAT, 3, 4, DECIMAL, 8, 9, 10];

const DECIMALS: DataType = DataType::Decimal128(38, 3);
const DECIMALS_32: DataType = DataType::Decimal32(9, 2);
const DECIMALS_64: DataType = DataType::Decimal64(18, 0);
const DECIMALS_256: DataType = DataType::Decimal256(76, 5);

fn list_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

fn struct_fields() -> Fields {
    vec![Field::new("text", DataType::Utf8View, true), Field::new("list", list_type(), true)].into()
}

fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn schema() -> SchemaRef {
    let fields = [
        ("key", DataType::Int64),
        ("text", DataType::Utf8View),
        ("float", DataType::Float64),
        ("single", DataType::Float32),
        ("half", DataType::Float16),
        ("decimal", DECIMALS),
        ("number", DataType::Int64),
        ("condition", DataType::Boolean),
        ("decimal 32", DECIMALS_32),
        ("decimal 64", DECIMALS_64),
        ("decimal 256", DECIMALS_256),
        ("list", list_type()),
        ("struct", DataType::Struct(struct_fields())),
        ("dictionary", dictionary_type()),
        ("binary", DataType::FixedSizeBinary(2)),
    ];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

/// Keys, a float, and a small number.
type Seed = (Option<u8>, Option<f64>, Option<i8>);

/// Rows of all types out of seeds.
fn rows(seeds: &[Seed]) -> RecordBatch {
    let floats = || seeds.iter().map(|seed| seed.1);
    // Sums of two such decimals have no place in 128 bits now and then.
    let greatest = 10_i128.pow(38) - 1;
    let decimal = |number: i8| match number {
        -8..=-6 => -greatest + i128::from(number) + 8,
        6.. => greatest - i128::from(number),
        _ => i128::from(number),
    };
    let numbers = || seeds.iter().map(|seed| seed.2);
    let decimals = Decimal128Array::from_iter(numbers().map(|number| number.map(decimal)));
    let decimals_32 =
        Decimal32Array::from_iter(numbers().map(|number| number.map(|number| i32::from(number) * 100_000_001)));
    let decimals_64 = Decimal64Array::from_iter(
        numbers().map(|number| number.map(|number| i64::from(number) * 100_000_000_000_000_001)),
    );
    let decimals_256 =
        Decimal256Array::from_iter(numbers().map(|number| {
            number.map(|number| i256::from_i128(decimal(number)).wrapping_mul(i256::from_i128(greatest)))
        }));
    // The second and the third are equal as keys, and so are the last two.
    let list = |key: u8| match key {
        0 => None,
        1 => Some(vec![Some(0.0), None]),
        2 => Some(vec![Some(-0.0), None]),
        3 => Some(vec![]),
        4 => Some(vec![None]),
        5 => Some(vec![Some(1.0), Some(2.0)]),
        6 => Some(vec![Some(f64::NAN)]),
        _ => Some(vec![Some(-f64::NAN)]),
    };
    let keys = || seeds.iter().map(|seed| seed.0);
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(keys().map(|key| key.and_then(list))));
    // The rest of what is infinite would be a NaN with a sign, and medians of these depend on the order of rows.
    let half = |float: f64| if float.is_finite() { float % 65_000.0 } else { float };
    let halves = Float64Array::from_iter(floats().map(|float| float.map(half)));
    let texts: ArrayRef =
        Arc::new(StringViewArray::from_iter(keys().map(|key| key.map(|key| format!("a rather long key {}", key / 4)))));
    let struct_nulls = numbers().map(|number| number != Some(0)).collect::<Vec<_>>();
    let structs = StructArray::new(struct_fields(), vec![texts.clone(), lists.clone()], Some(struct_nulls.into()));
    let binaries =
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(keys().map(|key| key.map(|key| [7, key % 3])), 2);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(keys().map(|key| key.map(|key| i64::from(key % 4))))),
        texts.clone(),
        Arc::new(Float64Array::from_iter(floats())),
        Arc::new(Float32Array::from_iter(floats().map(|float| float.map(|float| float as f32)))),
        cast(&halves, &DataType::Float16).unwrap(),
        Arc::new(decimals.with_data_type(DECIMALS)),
        Arc::new(Int64Array::from_iter(seeds.iter().map(|seed| seed.2.map(i64::from)))),
        Arc::new(BooleanArray::from_iter(seeds.iter().map(|seed| seed.2.map(|number| number % 2 == 0)))),
        Arc::new(decimals_32.with_data_type(DECIMALS_32)),
        Arc::new(decimals_64.with_data_type(DECIMALS_64)),
        Arc::new(decimals_256.with_data_type(DECIMALS_256)),
        lists,
        Arc::new(structs),
        cast(&texts, &dictionary_type()).unwrap(),
        Arc::new(binaries.unwrap()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn column(index: usize) -> Expr {
    Expr::column(index, &schema()).unwrap()
}

fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}

fn call(function: Arc<AggregateUDF>, arguments: &[usize]) -> AggregateCall {
    let arguments = arguments.iter().map(|&index| column(index)).collect();
    AggregateCall::new(function, "a call".to_owned(), arguments, None, &schema()).unwrap()
}

fn count_rows() -> AggregateCall {
    let one = Expr::new(literal(ScalarValue::Int64(Some(1))), &schema()).unwrap();
    AggregateCall::new(count_udaf(), "count(*)".to_owned(), vec![one], None, &schema()).unwrap()
}

fn median(of: usize) -> AggregateCall {
    call(median_udaf(), &[of])
}

fn percentile(of: Arc<dyn PhysicalExpr>, share: f64, descending: bool) -> AggregateCall {
    let schema = schema();
    let arguments = vec![of.clone(), literal(ScalarValue::Float64(Some(share)))];
    let options = SortOptions { descending, nulls_first: false };
    let function = AggregateExprBuilder::new(percentile_cont_udaf(), arguments.clone())
        .schema(schema.clone())
        .alias("a percentile")
        .order_by(vec![PhysicalSortExpr { expr: of, options }])
        .build()
        .unwrap();
    let arguments = arguments.into_iter().map(|argument| Expr::new(argument, &schema).unwrap()).collect();
    AggregateCall { function: Arc::new(function), arguments, filter: None }
}

fn filtered(call: AggregateCall) -> AggregateCall {
    AggregateCall { filter: Some(column(CONDITION)), ..call }
}

fn distinct(mut call: AggregateCall) -> AggregateCall {
    let physical = call.arguments.iter().map(|argument| argument.physical().clone()).collect();
    let function = call.function.fun().clone();
    let builder = AggregateExprBuilder::new(Arc::new(function), physical).schema(schema()).alias("distinct");
    let builder = builder.order_by(call.function.order_bys().to_vec());
    call.function = Arc::new(builder.distinct().build().unwrap());
    call
}

/// The call where its column has nothing: true in a row of NULLs, which no call may see that is none of the input.
fn where_null(call: AggregateCall, index: usize) -> AggregateCall {
    let is_null = Arc::new(IsNullExpr::new(column(index).physical().clone()));
    AggregateCall { filter: Some(Expr::new(is_null, &schema()).unwrap()), ..call }
}

/// An aggregate over batches.
fn aggregate(batches: Vec<RecordBatch>, groups: Vec<Expr>, aggregates: Vec<AggregateCall>) -> Plan {
    let key = |key: &Expr| Arc::new(Field::new(key.to_string(), key.data_type().clone(), true));
    let fields = groups.iter().map(key).chain(aggregates.iter().map(|call| call.function.field()));
    let output = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let input = Box::new(Plan::new(Node::Values { batches }, schema()));
    let grouping_sets = vec![vec![false; groups.len()]];
    let node = Aggregate { input, groups, grouping_sets, has_grouping_id: false, aggregates, limit: None };
    Plan::new(Node::Aggregate(node), output)
}

/// The aggregate by grouping sets: for each, which keys are not in it.
fn by_sets(mut plan: Plan, sets: Vec<Vec<bool>>) -> Plan {
    let Node::Aggregate(node) = &mut plan.node else { panic!("{plan}") };
    (node.grouping_sets, node.has_grouping_id) = (sets, true);
    let mut fields = plan.schema.fields().to_vec();
    fields.insert(node.groups.len(), Arc::new(Field::new("__grouping_id", DataType::UInt16, false)));
    plan.schema = Arc::new(Schema::new(fields));
    plan
}

fn sorted(plan: &Plan) -> Plan {
    let Node::Aggregate(aggregate) = &plan.node else { panic!("{plan}") };
    assert!(super::can_sort(aggregate).is_some(), "{plan}");
    let sorted = rewrite::sorted(plan, aggregate).unwrap();
    assert!(sorted.to_string().contains("Window compute"), "{sorted}");
    sorted
}

/// The rows as text, in its order.
fn answer(engine: &Arc<Engine>, plan: &Plan, batch_rows: usize) -> Vec<String> {
    let mut stream = engine.run(plan, QueryOptions { batch_rows, ..QueryOptions::default() }).unwrap();
    let mut rows = Vec::new();
    let options = FormatOptions::default().with_null("NULL");
    while let Some(batch) = stream.next_blocking() {
        let batch = batch.unwrap();
        assert_eq!(batch.schema(), plan.schema);
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        let text = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | ");
        rows.extend((0..batch.num_rows()).map(text));
    }
    rows.sort();
    rows
}

fn check(engine: &Arc<Engine>, plan: &Plan, batch_rows: usize) {
    let sorted = sorted(plan);
    assert_eq!(answer(engine, &sorted, batch_rows), answer(engine, plan, batch_rows), "{sorted}");
}

fn floats() -> impl Strategy<Value = f64> {
    let special =
        [0.0, -0.0, 1.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN, 5e-324, -5e-324, 0.1];
    prop_oneof![select(special.to_vec()), -1e6..1e6_f64]
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let float = prop::option::weighted(0.8, floats());
    prop::collection::vec((prop::option::weighted(0.9, 0..8_u8), float, prop::option::weighted(0.8, -8..9_i8)), 0..60)
}

fn key_sets() -> Vec<Vec<Expr>> {
    let two = literal(ScalarValue::Int64(Some(2)));
    let parity = Arc::new(BinaryExpr::new(column(KEY).physical().clone(), Operator::Modulo, two));
    let parity = Expr::new(parity, &schema()).unwrap();
    vec![
        vec![],
        vec![column(KEY)],
        vec![column(TEXT), column(KEY)],
        vec![parity, column(TEXT)],
        vec![column(LIST)],
        vec![column(STRUCT), column(DICTIONARY), column(BINARY)],
    ]
}

/// Percentiles with others beside them.
fn mixed(share: f64) -> Vec<AggregateCall> {
    let float = column(FLOAT).physical().clone();
    let sum = Arc::new(BinaryExpr::new(float.clone(), Operator::Plus, float.clone()));
    vec![
        count_rows(),
        median(DECIMAL),
        call(max_udaf(), &[TEXT]),
        percentile(sum, share, false),
        filtered(call(sum_udaf(), &[NUMBER])),
        median(FLOAT),
        distinct(call(count_udaf(), &[NUMBER])),
        distinct(median(FLOAT)),
        where_null(count_rows(), NUMBER),
        distinct(percentile(float, share, true)),
        median(FLOAT),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn percentiles_of_sorted_values_are_those_of_the_accumulators(
        seeds in seeds(), size in 1..20_usize, batch_rows in select(vec![1, 7, 8192]),
        shares in prop::collection::vec(0.0..=1.0_f64, 2), seed in 0..1000_u64,
    ) {
        let engine = Engine::start(EngineOptions::inline(seed)).unwrap();
        let batch = rows(&seeds);
        let slice = |start: usize| batch.slice(start, size.min(seeds.len() - start));
        let batches = (0..seeds.len()).step_by(size).map(slice).collect::<Vec<_>>();
        for keys in key_sets() {
            // Each value alone, then many at once, with others beside them.
            for of in VALUES {
                let mut calls = vec![median(of), filtered(median(of))];
                if schema().field(of).data_type().is_floating() {
                    for share in [0.0, 0.25, 0.5, 1.0, shares[0]] {
                        let value = column(of).physical().clone();
                        calls.push(percentile(value.clone(), share, false));
                        calls.push(filtered(percentile(value, share, true)));
                    }
                }
                check(&engine, &aggregate(batches.clone(), keys.clone(), calls.clone()), batch_rows);
                let once = calls.iter().cloned().map(distinct);
                check(&engine, &aggregate(batches.clone(), keys.clone(), once.collect()), batch_rows);
            }
            let calls = mixed(shares[1]);
            check(&engine, &aggregate(batches.clone(), keys, calls), batch_rows);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn percentiles_of_grouping_sets_are_those_of_the_accumulators(
        seeds in seeds(), size in 1..20_usize, batch_rows in select(vec![1, 7, 8192]), share in 0.0..=1.0_f64,
        masks in prop::collection::vec(0..8_u8, 1..5), seed in 0..1000_u64,
    ) {
        let engine = Engine::start(EngineOptions::inline(seed)).unwrap();
        let batch = rows(&seeds);
        let slice = |start: usize| batch.slice(start, size.min(seeds.len() - start));
        let batches = (0..seeds.len()).step_by(size).map(slice).collect::<Vec<_>>();
        for keys in key_sets() {
            let set = |mask: &u8| (0..keys.len()).map(|key| mask >> key & 1 == 1).collect();
            let sets = masks.iter().map(set).collect::<Vec<_>>();
            let plan = aggregate(batches.clone(), keys.clone(), mixed(share));
            check(&engine, &by_sets(plan, sets), batch_rows);
        }
    }
}

/// NaNs with a sign come first where the accumulators' answer does not depend on the order of rows.
#[test]
fn signs_of_nans_and_zeros_are_kept() {
    let engine = Engine::start(EngineOptions::inline(1)).unwrap();
    let values = [f64::NAN, -0.0, -f64::NAN, 0.0, -0.0, 3.0, -f64::NAN, -0.0, 0.0];
    for count in 1..=values.len() {
        let seeds = values[..count].iter().map(|&value| (Some(1), Some(value), None)).collect::<Vec<_>>();
        let value = column(FLOAT).physical().clone();
        let mut calls =
            [0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0].map(|share| percentile(value.clone(), share, false)).to_vec();
        calls.extend(calls.clone().into_iter().map(distinct));
        if count % 2 == 1 {
            calls.push(median(FLOAT));
        }
        check(&engine, &aggregate(vec![rows(&seeds)], vec![column(KEY)], calls), 8192);
    }
}

#[test]
fn without_rows_there_is_no_group_or_one_of_nothing() {
    let engine = Engine::start(EngineOptions::inline(2)).unwrap();
    let calls = || vec![median(FLOAT), median(DECIMAL), count_rows()];
    for batches in [vec![], vec![rows(&[])]] {
        let grouped = aggregate(batches.clone(), vec![column(KEY)], calls());
        assert!(answer(&engine, &sorted(&grouped), 100).is_empty());
        assert_eq!(answer(&engine, &sorted(&aggregate(batches.clone(), vec![], calls())), 100), ["NULL | NULL | 0"]);
        // The set without keys is there, each time that it is named.
        let calls = vec![distinct(median(FLOAT)), where_null(count_rows(), NUMBER), count_rows()];
        let sets = by_sets(aggregate(batches.clone(), vec![column(KEY)], calls.clone()), vec![vec![false]]);
        assert!(answer(&engine, &sorted(&sets), 100).is_empty());
        let sets = vec![vec![false], vec![true], vec![true]];
        let sets = by_sets(aggregate(batches.clone(), vec![column(KEY)], calls.clone()), sets);
        assert_eq!(answer(&engine, &sorted(&sets), 100), ["NULL | 1 | NULL | 0 | 0", "NULL | 3 | NULL | 0 | 0"]);
        check(&engine, &sets, 100);
        check(&engine, &by_sets(aggregate(batches, vec![], calls), vec![vec![]]), 100);
    }
}

#[test]
fn a_key_that_is_null_is_not_one_outside_of_the_set() {
    let engine = Engine::start(EngineOptions::inline(4)).unwrap();
    let seeds = [(None, 1.0), (Some(1), 2.0), (None, 3.0), (Some(1), 6.0)];
    let seeds = seeds.map(|(key, value)| (key, Some(value), None)).to_vec();
    let plan = aggregate(vec![rows(&seeds)], vec![column(KEY)], vec![median(FLOAT), count_rows()]);
    let plan = by_sets(plan, vec![vec![false], vec![true]]);
    let expected = ["1 | 0 | 4.0 | 2", "NULL | 0 | 2.0 | 2", "NULL | 1 | 2.5 | 4"];
    assert_eq!(answer(&engine, &sorted(&plan), 8192), expected);
    check(&engine, &plan, 8192);
}

#[test]
fn values_are_not_computed_where_the_filter_is_not_true() {
    let engine = Engine::start(EngineOptions::inline(3)).unwrap();
    let seeds = (-8..9).map(|number| (Some(1), Some(1.0), Some(number))).collect::<Vec<Seed>>();
    let physical = |index: usize| column(index).physical().clone();
    let quotient = BinaryExpr::new(literal(ScalarValue::Int64(Some(10))), Operator::Divide, physical(NUMBER));
    let quotient = CastExpr::new(Arc::new(quotient), DataType::Float64, None);
    let zero = literal(ScalarValue::Int64(Some(0)));
    let guard = Expr::new(Arc::new(BinaryExpr::new(physical(NUMBER), Operator::Gt, zero)), &schema()).unwrap();
    let argument = Expr::new(Arc::new(quotient), &schema()).unwrap();
    let median =
        AggregateCall::new(median_udaf(), "median".to_owned(), vec![argument], Some(guard), &schema()).unwrap();
    check(&engine, &aggregate(vec![rows(&seeds)], vec![column(KEY)], vec![median]), 8192);
}

#[test]
fn only_what_may_not_fit_and_cannot_answer_otherwise_is_sorted() {
    let seeds = (0..100).map(|number| (Some(number % 3), Some(f64::from(number)), Some(1))).collect::<Vec<Seed>>();
    let over = |groups, calls| aggregate(vec![rows(&seeds)], groups, calls);
    let tables = PlanTables::default();
    let is_sorted =
        |plan: &Plan, memory| with_sorted_percentiles(plan, memory, &tables).unwrap().to_string().contains("Window");
    let plan = over(vec![column(KEY)], vec![median(FLOAT)]);
    // 100 values of 8 bytes.
    assert!(is_sorted(&plan, 6399) && !is_sorted(&plan, 6400));
    let below = Plan::new(Node::Limit { input: Box::new(plan.clone()), skip: 0, fetch: Some(1) }, plan.schema.clone());
    assert!(is_sorted(&below, 6399) && !is_sorted(&below, 6400));

    // Of each set.
    let sets = by_sets(plan.clone(), vec![vec![false], vec![true]]);
    assert!(is_sorted(&sets, 12799) && !is_sorted(&sets, 12800));

    for calls in [vec![median(FLOAT), call(array_agg_udaf(), &[FLOAT])], vec![call(sum_udaf(), &[NUMBER])]] {
        assert!(!is_sorted(&over(vec![column(KEY)], calls), 0));
    }
    // Of what nobody knows how many rows it has, they may be many.
    let mut unknown = plan;
    let Node::Aggregate(node) = &mut unknown.node else { panic!("{unknown}") };
    let table = WorkTable { table: WorkTableId(0), name: "w".to_owned(), columns: vec![] };
    node.input.node = Node::WorkTable(table);
    assert_eq!(rows_most(&node.input, &tables), None);
    assert!(is_sorted(&unknown, usize::MAX));
}

/// One group of far more values than memory holds.
#[test]
fn a_group_that_does_not_fit_is_sorted_in_temp_space() {
    // More than the least memory that there may be.
    const ROWS: usize = 1_200_000;
    let schema = schema();
    let batch = |start: usize| {
        let places = start..ROWS.min(start + 4000);
        let mut columns = rows(&places.clone().map(|_| (Some(1), None, None)).collect::<Vec<_>>()).columns().to_vec();
        // Each of the numbers below ROWS once.
        let numbers = places.map(|place| place * 7919 % ROWS).collect::<Vec<_>>();
        columns[FLOAT] = Arc::new(Float64Array::from_iter_values(numbers.iter().map(|&number| number as f64)));
        let halves = numbers.iter().map(|&number| i256::from_i128((number / 2) as i128 * 100_000));
        columns[10] = Arc::new(Decimal256Array::from_iter_values(halves).with_data_type(DECIMALS_256));
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let batches = (0..ROWS).step_by(4000).map(batch).collect::<Vec<_>>();
    let value = column(FLOAT).physical().clone();
    let calls = vec![median(FLOAT), percentile(value, 0.25, false), count_rows()];
    let expected = "599999.5 | 299999.75 | 1200000";
    let wide = vec![median(10), distinct(median(10)), distinct(median(FLOAT))];
    let expected_wide = "299999.50000 | 299999.50000 | 599999.5";
    for workers in [1, 2] {
        let temp = TempOptions {
            directories: vec!["/temp".into()],
            cluster_bytes: 16 << 10,
            files: Arc::new(MemoryTempFiles::default()),
            ..TempOptions::default()
        };
        let engine =
            Engine::start(EngineOptions { workers, memory_bytes: MEMORY_BYTES_MIN, temp, ..EngineOptions::default() })
                .unwrap();
        let whole = aggregate(batches.clone(), vec![], calls.clone());
        let text = engine.explain(&whole, &QueryOptions::default()).unwrap();
        assert!(text.contains("Window compute row_number()") && text.contains("median("), "{text}");
        assert_eq!(answer(&engine, &whole, 4000), [expected]);
        let mut stream = engine.run(&whole, QueryOptions::default()).unwrap();
        while let Some(batch) = stream.next_blocking() {
            batch.unwrap();
        }
        let profile = stream.profile().to_string();
        assert!(profile.contains("spilled"), "{profile}");
        let grouped = aggregate(batches.clone(), vec![column(KEY)], calls.clone());
        assert_eq!(answer(&engine, &grouped, 4000), ["1 | ".to_owned() + expected]);

        let sets = by_sets(grouped, vec![vec![false], vec![true]]);
        let each = [format!("1 | 0 | {expected}"), format!("NULL | 1 | {expected}")];
        assert_eq!(answer(&engine, &sets, 4000), each);
        let nested = aggregate(batches.clone(), vec![column(LIST)], wide.clone());
        assert_eq!(answer(&engine, &nested, 4000), ["[0.0, NULL] | ".to_owned() + expected_wide]);

        // What accumulators keep does not fit.
        let kept = vec![median(FLOAT), call(first_value_udaf(), &[NUMBER])];
        let little =
            Engine::start(EngineOptions { workers, memory_bytes: 2 << 20, ..EngineOptions::default() }).unwrap();
        let mut stream = little.run(&aggregate(batches.clone(), vec![], kept), QueryOptions::default()).unwrap();
        let error = std::iter::from_fn(|| stream.next_blocking()).find_map(Result::err).expect("it fits");
        assert_eq!(error.kind(), ErrorKind::Resource, "{error}");
    }
}
