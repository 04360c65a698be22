//! What is written is read back, and damaged bytes are errors.

use arrow::array::{Array, Int64Array, ListArray, RecordBatch, StringViewArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion_common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion_expr::physical_planning_context::SubqueryIndex;
use datafusion_expr::{Operator, Volatility, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion_physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion_physical_expr::{PhysicalSortExpr, ScalarFunctionExpr};
use diligence_base::ErrorKind;
use diligence_base::ids::TableVersion;
use diligence_base::seams::Random;
use diligence_storage::memory::MemoryTable;

use super::*;
use crate::expressions::{Expr, Outside, outside_function, outside_identity};
use crate::plan::{
    Aggregate, AggregateCall, Common, CommonPart, Exclusion, HashJoin, NestedLoopJoin, Node, Pact, PairFilter,
    Recursive, RuntimeFilterId, Scan, SortKey, Unnest, Window, WindowCall, WindowFunction, WorkTable, WorkTableId,
    incoming,
};
use crate::stages::Caller;

type Physical = Arc<dyn PhysicalExpr>;

/// Some aggregates, and functions that come from outside.
struct Known;

impl Functions for Known {
    fn name_of(&self, function: &ScalarUDF) -> Result<FunctionName> {
        let missing = || Error::unsupported(format!("{} is not known", function.name()));
        let number = outside_identity(function).ok_or_else(missing)? as i64;
        let (name, family) = (function.name().to_owned(), "live".to_owned());
        Ok(FunctionName { name, family, numbers: vec![number], ..FunctionName::default() })
    }

    fn is_live(&self, _name: &FunctionName) -> bool {
        true
    }

    fn named(&self, name: &FunctionName) -> Result<Arc<ScalarUDF>> {
        Err(Error::unsupported(format!("{} is not known", name.name)))
    }

    fn name_of_aggregate(&self, function: &AggregateUDF) -> Result<FunctionName> {
        Ok(FunctionName { name: function.name().to_owned(), ..FunctionName::default() })
    }

    fn aggregate_named(&self, name: &FunctionName) -> Result<Arc<AggregateUDF>> {
        let known = [count_udaf(), sum_udaf(), array_agg_udaf()];
        let found = known.into_iter().find(|known| known.name() == name.name);
        found.ok_or_else(|| Error::unsupported(format!("{} is not known", name.name)))
    }
}

#[derive(Debug)]
struct Ninety;

impl Outside for Ninety {
    fn name(&self) -> &str {
        "ninety"
    }

    fn identity(&self) -> u64 {
        90
    }

    fn returns(&self) -> DataType {
        DataType::Int64
    }

    fn volatility(&self) -> Volatility {
        Volatility::Immutable
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn call(
        &self,
        _arguments: &[arrow::array::ArrayRef],
        rows: usize,
        _: &dyn Caller,
    ) -> Result<arrow::array::ArrayRef> {
        Ok(Arc::new(Int64Array::from(vec![90; rows])))
    }
}

fn schema() -> SchemaRef {
    let metadata = [("sql".to_owned(), "bigint".to_owned())];
    let a = Field::new("a", DataType::Int64, true).with_metadata(metadata.into());
    Arc::new(Schema::new(vec![a, Field::new("s", DataType::Utf8View, true)]))
}

fn column(index: usize) -> Physical {
    Arc::new(Column::new(schema().field(index).name(), index))
}

fn literal(value: ScalarValue) -> Physical {
    Arc::new(Literal::new(value))
}

fn int(value: i64) -> Physical {
    literal(ScalarValue::Int64(Some(value)))
}

fn text(value: &str) -> Physical {
    literal(ScalarValue::Utf8View(Some(value.to_owned())))
}

fn binary(left: Physical, operator: Operator, right: Physical) -> Physical {
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn over(physical: Physical) -> Expr {
    Expr::new(physical, &schema()).unwrap()
}

fn scan() -> Plan {
    let columns: Vec<arrow::array::ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringViewArray::from(vec!["x", "y"]))];
    let batch = RecordBatch::try_new(schema(), columns).unwrap();
    let table = MemoryTable::new("t", schema(), vec![batch], TableVersion(7)).unwrap();
    let list = InListExpr::try_new(column(0), vec![int(1), int(5)], true, &schema()).unwrap();
    let filters = vec![
        binary(column(0), Operator::GtEq, int(-3)),
        Arc::new(LikeExpr::new(true, false, column(1), text("%a_"))),
        Arc::new(list),
        binary(Arc::new(IsNullExpr::new(column(1))), Operator::Or, Arc::new(IsNotNullExpr::new(column(0)))),
    ];
    let scan = Scan {
        filters: filters.into_iter().map(over).collect(),
        runtime_filters: vec![(RuntimeFilterId(3), 1)],
        limit: Some(10),
        ..Scan::new(&table, "t", vec![0, 1])
    };
    Plan { rows_estimate: Some(2), ordered: true, ..Plan::new(Node::Scan(scan), schema()) }
}

fn of(node: Node) -> Plan {
    Plan::new(node, schema())
}

fn boxed() -> Box<Plan> {
    Box::new(scan())
}

fn key(index: usize) -> SortKey {
    SortKey { expression: over(column(index)), options: SortOptions { descending: true, nulls_first: false } }
}

fn sum(is_distinct: bool) -> AggregateFunctionExpr {
    let builder = AggregateExprBuilder::new(sum_udaf(), vec![column(0)]).schema(schema());
    builder.alias("sum").with_distinct(is_distinct).build().unwrap()
}

fn values(batches: Vec<RecordBatch>) -> Plan {
    let schema = batches.first().map_or_else(schema, RecordBatch::schema);
    Plan::new(Node::Values { batches }, schema)
}

fn projected(expressions: Vec<Physical>) -> Plan {
    let fields = expressions.iter().enumerate().map(|(place, physical)| {
        let field = physical.return_field(&schema()).unwrap();
        field.as_ref().clone().with_name(place.to_string())
    });
    let of = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let expressions = expressions.into_iter().map(over).collect();
    Plan::new(Node::Project { input: boxed(), expressions }, of)
}

fn joins() -> Vec<Plan> {
    let pairs = || PairFilter {
        expression: over(binary(column(0), Operator::Lt, int(4))),
        columns: vec![(JoinSide::Left, 0), (JoinSide::Right, 1)],
        schema: schema(),
    };
    let hash = HashJoin {
        left: boxed(),
        right: boxed(),
        on: vec![(over(column(0)), over(column(0)))],
        filter: Some(pairs()),
        join_type: JoinType::LeftMark,
        null_equality: NullEquality::NullEqualsNull,
        null_aware: true,
        projection: Some(vec![1, 2]),
        runtime_filters: vec![(RuntimeFilterId(9), 0)],
    };
    let loops =
        |filter| NestedLoopJoin { left: boxed(), right: boxed(), filter, join_type: JoinType::Full, projection: None };
    vec![
        of(Node::HashJoin(hash)),
        of(Node::NestedLoopJoin(loops(None))),
        of(Node::NestedLoopJoin(loops(Some(pairs())))),
    ]
}

fn groups() -> Vec<Plan> {
    let order = PhysicalSortExpr { expr: column(0), options: SortOptions { descending: true, nulls_first: true } };
    let list = AggregateExprBuilder::new(array_agg_udaf(), vec![column(1)]).schema(schema()).alias("list");
    let list = list.order_by(vec![order]).with_ignore_nulls(true).build().unwrap();
    let call = |function, place, filter| AggregateCall {
        function: Arc::new(function),
        arguments: vec![over(column(place))],
        filter,
    };
    let condition = over(binary(column(0), Operator::Gt, int(0)));
    let aggregate = Aggregate {
        input: boxed(),
        groups: vec![over(column(0)), over(column(1))],
        grouping_sets: vec![vec![false, true], vec![true, false]],
        has_grouping_id: true,
        aggregates: vec![call(sum(true), 0, Some(condition)), call(list, 1, None)],
        limit: Some(3),
    };
    let functions = [
        WindowFunction::RowNumber,
        WindowFunction::Rank,
        WindowFunction::DenseRank,
        WindowFunction::PercentRank,
        WindowFunction::CumeDist,
        WindowFunction::Ntile(4),
        WindowFunction::Shift { offset: -2, default: ScalarValue::Int64(None), ignore_nulls: true },
        WindowFunction::Nth { nth: -1, ignore_nulls: false },
        WindowFunction::NtileOf,
        WindowFunction::ShiftOf { is_ahead: true, ignore_nulls: false },
        WindowFunction::NthOf { ignore_nulls: true },
        WindowFunction::Aggregate(Arc::new(sum(false))),
    ];
    let start = WindowFrameBound::Preceding(ScalarValue::UInt64(Some(3)));
    let end = WindowFrameBound::Following(ScalarValue::UInt64(None));
    let frame = Arc::new(WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end));
    let calls = functions.into_iter().map(|function| WindowCall {
        function,
        arguments: vec![over(column(0))],
        filter: None,
        frame: frame.clone(),
        excludes: Exclusion::Ties,
    });
    let window =
        Window { input: boxed(), partition_by: vec![over(column(1))], order_by: vec![key(0)], calls: calls.collect() };
    vec![of(Node::Aggregate(aggregate)), of(Node::Window(window))]
}

fn expressions() -> Plan {
    let shared = binary(column(0), Operator::Multiply, int(2));
    let failing: Physical =
        Arc::new(BinaryExpr::new(shared.clone(), Operator::Plus, shared.clone()).with_fail_on_overflow(true));
    let arms = vec![(binary(column(0), Operator::Eq, int(1)), shared.clone())];
    let case = CaseExpr::try_new(None, arms, Some(failing.clone())).unwrap();
    let of_value = CaseExpr::try_new(Some(column(0)), vec![(int(1), text("one"))], None).unwrap();
    let arguments = vec![column(0), shared];
    let field = Arc::new(Field::new("ninety", DataType::Int64, true));
    let mut options = ConfigOptions::default();
    options.set("datafusion.execution.time_zone", "Europe/Berlin").unwrap();
    let call =
        ScalarFunctionExpr::new("ninety", outside_function(Arc::new(Ninety)), arguments, field, Arc::new(options));
    projected(vec![
        failing,
        Arc::new(case),
        Arc::new(of_value),
        Arc::new(call),
        Arc::new(CastExpr::new(column(0), DataType::Decimal128(20, 2), None)),
        Arc::new(TryCastExpr::new(column(1), DataType::Int64)),
        Arc::new(NegativeExpr::new(column(0))),
        Arc::new(NotExpr::new(binary(column(0), Operator::IsDistinctFrom, int(1)))),
        binary(column(1), Operator::StringConcat, text("é")),
    ])
}

/// A value of each kind.
fn literals() -> Plan {
    let list = ScalarValue::new_list(&[ScalarValue::Int64(Some(1)), ScalarValue::Int64(None)], &DataType::Int64, true);
    let zone = Some(Arc::from("UTC"));
    let mut all = vec![
        ScalarValue::Null,
        ScalarValue::Boolean(Some(true)),
        ScalarValue::Boolean(Some(false)),
        ScalarValue::Int8(Some(-1)),
        ScalarValue::Int32(Some(i32::MIN)),
        ScalarValue::Int64(Some(i64::MIN)),
        ScalarValue::UInt64(Some(u64::MAX)),
        ScalarValue::Float32(Some(f32::MIN)),
        ScalarValue::Float64(Some(-0.0)),
        ScalarValue::Utf8(Some(String::new())),
        ScalarValue::Utf8View(Some("a text that is longer than twelve bytes".into())),
        ScalarValue::Date32(Some(-4)),
        ScalarValue::Decimal128(Some(-12345), 38, 2),
        ScalarValue::TimestampMicrosecond(Some(5), zone.clone()),
        ScalarValue::BinaryView(Some(vec![0, 255])),
        ScalarValue::new_interval_mdn(1, -2, 3),
        ScalarValue::List(list),
    ];
    all.push(ScalarValue::TimestampMicrosecond(None, zone));
    let nested = Field::new_list_field(DataType::Struct(schema().fields().clone()), true);
    all.push(ScalarValue::try_new_null(&DataType::List(Arc::new(nested))).unwrap());
    projected(all.into_iter().map(literal).collect())
}

fn subqueries() -> Plan {
    let results = ScalarSubqueryResults::new(1);
    let value = ScalarSubqueryExpr::new(DataType::Int64, true, SubqueryIndex::new(0), results.clone());
    let predicate = over(binary(column(0), Operator::Gt, Arc::new(value)));
    let input = Box::new(of(Node::Filter { input: boxed(), predicate }));
    of(Node::ScalarSubqueries { input, subqueries: vec![scan()], results })
}

fn unnested() -> Plan {
    let rows: [Option<Vec<Option<i64>>>; 2] = [Some(vec![Some(1), None]), None];
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(rows);
    let field = Field::new("l", lists.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(lists)]).unwrap();
    let input = Box::new(values(vec![batch.clone(), batch]));
    let arrays = vec![(Expr::column(0, &input.schema).unwrap(), false)];
    of(Node::Unnest(Unnest { input, kept: vec![0], arrays, ordinality: true, keeps_all: true }))
}

fn moved() -> Vec<Plan> {
    let pacts = vec![
        Pact::Pipeline,
        Pact::RoundRobin,
        Pact::Hash(vec![over(column(0))]),
        Pact::Range(vec![key(1)]),
        Pact::Broadcast,
        Pact::Gather,
        Pact::Merge(vec![key(0), key(1)]),
    ];
    pacts.into_iter().map(|pact| of(Node::Exchange { input: boxed(), pact, consumers: 3 })).collect()
}

/// Every node and every expression.
fn whole() -> Plan {
    let table = WorkTableId(1);
    let work = || of(Node::WorkTable(WorkTable { table, name: "w".into(), columns: vec![1, 0] }));
    let recursive = Recursive { name: "w".into(), base: boxed(), step: Box::new(work()), table, is_distinct: true };
    let part = CommonPart { plan: scan(), table: WorkTableId(2), places: 2 };
    let common =
        Common { parts: vec![part], input: Box::new(of(Node::Limit { input: boxed(), skip: 1, fetch: None })) };
    let nothing = RecordBatch::new_empty(schema());
    let mut inputs = vec![
        scan(),
        values(vec![]),
        values(vec![nothing]),
        of(Node::Sort { input: boxed(), keys: vec![key(0)], fetch: Some(5) }),
        of(Node::Recursive(recursive)),
        of(Node::Common(common)),
        of(Node::FragmentWise { input: boxed(), fragments: 4 }),
        expressions(),
        literals(),
        subqueries(),
        unnested(),
    ];
    inputs.extend(joins());
    inputs.extend(groups());
    inputs.extend(moved());
    of(Node::Union { inputs })
}

#[test]
fn every_node_and_expression_is_read_back_as_it_was_written() {
    let plan = whole();
    let (bytes, beside) = write(&plan, &Known).unwrap();
    let again = read(&bytes, &Known, &beside).unwrap();
    assert_eq!(format!("{again:?}"), format!("{plan:?}"));
    assert_eq!(again.to_string(), plan.to_string());
    let (twice, _) = write(&again, &Known).unwrap();
    assert!(twice == bytes, "{} bytes become {}", bytes.len(), twice.len());
}

#[test]
fn a_part_that_is_in_many_places_is_written_once() {
    let mut sum = column(0);
    for _ in 0..60 {
        sum = binary(sum.clone(), Operator::Plus, sum);
    }
    let mut output = Vec::new();
    // An expression over it would be compiled place by place.
    for depth in [0, 1] {
        let mut writer = writer();
        (0..=depth).for_each(|_| writer.physical(&sum).unwrap());
        output.push(writer.output.0.len());
    }
    assert!(output[1] < output[0] + 4 && output[0] < 1000, "{output:?}");
}

fn writer() -> PlanWriter<'static> {
    PlanWriter {
        output: BytesWritten::default(),
        functions: &Known,
        beside: Beside::default(),
        schemas: Vec::new(),
        names: HashMap::new(),
        known: HashMap::new(),
        configurations: Vec::new(),
        subqueries: Vec::new(),
    }
}

#[test]
fn what_is_not_there_is_named() {
    let plan = expressions();
    let (bytes, _) = write(&plan, &Known).unwrap();
    let error = read(&bytes, &Known, &Beside::default()).unwrap_err();
    assert_eq!(error.message(), "ninety is not known");
    let (_, sent) = incoming(schema());
    assert_eq!(write(&sent, &Known).map(|_| ()).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn damaged_bytes_are_errors() {
    let (bytes, beside) = write(&whole(), &Known).unwrap();
    let refused = |bytes: &[u8]| {
        let error = read(bytes, &Known, &beside).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::File, "{error}");
    };
    (0..bytes.len()).step_by(7).for_each(|length| refused(&bytes[..length]));
    refused(&[bytes.as_slice(), &[0]].concat());
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        refused(&damaged);
    }
}

#[test]
fn bytes_that_make_no_sense_are_errors() {
    let (bytes, beside) = write(&whole(), &Known).unwrap();
    let mut random = Random::new(7);
    let mut refused = 0;
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        let place = HEADER_BYTES + random.below(bytes.len() - HEADER_BYTES);
        damaged[place] = random.below(256) as u8;
        // Whoever damages them knows the checksum.
        seal(&mut damaged);
        refused += usize::from(read(&damaged, &Known, &beside).is_err());
    }
    assert!(refused > 300, "{refused}");
    // Counts that are too large ask for no memory, and nesting without end for no stack.
    for body in [&[0xff; 30][..], &[0; 30], &[2; 100_000]] {
        let mut bytes = [bytes[..HEADER_BYTES].to_vec(), body.to_vec()].concat();
        seal(&mut bytes);
        assert!(read(&bytes, &Known, &beside).is_err());
    }
}
