//! Tables and the plans over them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use arrow::array::{Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType, NullEquality, Result as DataFusionResult, ScalarValue, Statistics};
use datafusion_expr::{
    AggregateUDF, ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column, LikeExpr, Literal, in_list};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Result;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::seams::Random;
use diligence_storage::memory::MemoryTable;
use diligence_storage::{ScanRequest, Table, TableScan};

use crate::expressions::Expr;
use crate::plan::{Aggregate, AggregateCall, HashJoin, Node, PairFilter, Plan, PlanTables, Scan, SortKey};

type Physical = Arc<dyn PhysicalExpr>;

const WORDS: [&str; 5] = ["ash", "beech", "cedar", "", "elm, a longer one"];

/// What a query wants of table `t`, and of table `u`.
pub(super) struct Wanted {
    /// `low <= x < high`.
    low: i64,
    high: i64,
    /// `s` among these; all if there are none.
    words: Vec<&'static str>,
    /// `amount <= `, in hundredths.
    amount: i128,
    /// `kind = ` of table `u`.
    kind: i64,
}

impl Wanted {
    pub fn between(low: i64, high: i64) -> Self {
        Self { low, high, words: vec!["ash"], amount: 5000, kind: 1 }
    }

    /// Few different ones, of which many have what others want.
    pub fn coarse(random: &mut Random) -> Self {
        let low = [0, 20, 40][random.below(3)];
        let words = [&WORDS[..], &WORDS[..2], &WORDS[1..2]][random.below(3)].to_vec();
        let high = [60, 80, 100][random.below(3)];
        Self { low, high, words, amount: [5000, 9000][random.below(2)], kind: random.below(2) as i64 }
    }

    /// The same of table `t`, and this `kind` of table `u` and above.
    pub fn of_kind(self, kind: i64) -> Self {
        Self { kind, ..self }
    }

    /// The same with this word only.
    pub fn of_word(self, word: &'static str) -> Self {
        Self { words: vec![word], ..self }
    }

    /// All of table `t`, nearly.
    pub fn of_all(self) -> Self {
        Self { low: 0, high: 100, words: WORDS.to_vec(), amount: 10_000_000, ..self }
    }

    /// The same with another upper bound of `x`.
    pub fn below(self, high: i64) -> Self {
        Self { high, ..self }
    }

    pub fn random(random: &mut Random) -> Self {
        let mut number = |bound| random.below(bound);
        let (low, width) = (number(100) as i64 - 5, number(60) as i64);
        let words = (0..1 + number(3)).map(|_| WORDS[number(WORDS.len())]).collect();
        Self { low, high: low + width, words, amount: number(10_000) as i128, kind: number(4) as i64 }
    }
}

/// Table `t(k, x, amount, s)` and table `u(k, kind)`.
#[derive(Clone)]
pub(super) struct Tables {
    t: Arc<dyn Table>,
    u: Arc<MemoryTable>,
}

/// The rows of a table, read in another way.
#[derive(Debug)]
struct View(Arc<dyn Table>);

impl Table for View {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn identity(&self) -> TableIdentity {
        let mut identity = self.0.identity();
        identity.view.is_without_index = true;
        identity
    }

    fn origin(&self) -> Option<Arc<dyn Table>> {
        Some(self.0.clone())
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        self.0.scan(request)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn t_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("x", DataType::Int64, true),
        Field::new("amount", DataType::Decimal128(15, 2), true),
        Field::new("s", DataType::Utf8View, true),
    ]))
}

fn u_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true), Field::new("kind", DataType::Int64, true)]))
}

fn column(index: usize, schema: &Schema) -> Physical {
    Arc::new(Column::new(schema.field(index).name(), index))
}

fn int(value: i64) -> Physical {
    Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
}

fn binary(left: Physical, operator: Operator, right: Physical) -> Physical {
    Arc::new(BinaryExpr::new(left, operator, right))
}

thread_local! {
    /// The tables that a test has made, which are not kept alive by this.
    static MADE: RefCell<Vec<Weak<dyn Table>>> = const { RefCell::new(Vec::new()) };
}

/// Those of the tables that this test has made which are still there.
pub(super) fn tables() -> PlanTables {
    MADE.with_borrow(|made| made.iter().filter_map(Weak::upgrade).collect())
}

impl Tables {
    pub fn new(rows: i64) -> Self {
        let (t, u) = Self::made(rows);
        Self::of(Arc::new(t), Arc::new(u))
    }

    fn of(t: Arc<dyn Table>, u: Arc<MemoryTable>) -> Self {
        let tables = Self { t, u };
        tables.are_here();
        tables
    }

    /// Has plans of this thread read them.
    pub fn are_here(&self) {
        let u: Arc<dyn Table> = self.u.clone();
        MADE.with_borrow_mut(|made| made.extend([Arc::downgrade(&self.t), Arc::downgrade(&u)]));
    }

    /// The same tables; `t` is seen through a view.
    pub fn viewed(&self) -> Self {
        Self::of(Arc::new(View(self.t.clone())), self.u.clone())
    }

    fn made(rows: i64) -> (MemoryTable, MemoryTable) {
        let some = |row: i64, value: i64| (row % 17 != 0).then_some(value);
        let t = (0..rows).step_by(250).map(|start| {
            let range = || start..rows.min(start + 250);
            let amounts = range().map(|row| some(row + 3, (row * 7919) % rows.max(10_000)).map(i128::from));
            let amounts = Decimal128Array::from(amounts.collect::<Vec<_>>());
            RecordBatch::try_new(
                t_schema(),
                vec![
                    Arc::new(Int64Array::from_iter(range().map(|row| some(row + 1, row % 7)))),
                    Arc::new(Int64Array::from_iter(range().map(|row| some(row + 2, (row * 31) % 100)))),
                    Arc::new(amounts.with_precision_and_scale(15, 2).unwrap()),
                    Arc::new(StringViewArray::from_iter(
                        range().map(|row| some(row, row).map(|row| WORDS[(row % 5) as usize])),
                    )),
                ],
            )
            .unwrap()
        });
        let t = MemoryTable::new("t", t_schema(), t.collect(), TableVersion(1)).unwrap();
        let keys = Int64Array::from_iter((0..12).map(|row| (row != 11).then_some(row % 9)));
        let kinds = Int64Array::from_iter((0..12).map(|row| (row != 10).then_some(row % 4)));
        let u = RecordBatch::try_new(u_schema(), vec![Arc::new(keys), Arc::new(kinds)]).unwrap();
        let u = MemoryTable::new("u", u_schema(), vec![u], TableVersion(1)).unwrap();
        (t, u)
    }

    fn scan_t(&self, filters: Vec<Physical>) -> Plan {
        let filters = filters.into_iter().map(|filter| Expr::new(filter, &t_schema()).unwrap()).collect();
        let scan = Scan { filters, ..Scan::new(self.t.as_ref(), "t", (0..4).collect()) };
        Plan::new(Node::Scan(scan), t_schema())
    }

    fn scan_u(&self, kind: i64) -> Plan {
        let schema = u_schema();
        let filters = vec![Expr::new(binary(int(kind), Operator::GtEq, column(1, &schema)), &schema).unwrap()];
        let scan = Scan { filters, ..Scan::new(self.u.as_ref(), "u", vec![0, 1]) };
        Plan::new(Node::Scan(scan), schema)
    }

    /// The rows that are wanted, as a query would say it.
    pub fn rows(&self, wanted: &Wanted) -> Plan {
        let schema = t_schema();
        let x = || column(1, &schema);
        let range = binary(
            binary(x(), Operator::GtEq, int(wanted.low)),
            Operator::And,
            binary(x(), Operator::Lt, int(wanted.high)),
        );
        self.scan_t(vec![range, words(wanted), at_most(wanted), fixed()])
    }

    pub fn groups(&self, wanted: &Wanted) -> Plan {
        sort(aggregate(self.rows(wanted), &[0]))
    }

    /// Groups of rows under conditions that are no comparisons of a column: an alternative and a pattern at the scan,
    /// and what is joined, if it is, must not be of a kind.
    pub fn groups_of_open(&self, wanted: &Wanted, is_joined: bool) -> Plan {
        let schema = t_schema();
        let low = binary(column(1, &schema), Operator::Lt, int(wanted.low));
        let high = binary(column(0, &schema), Operator::GtEq, int(wanted.high % 7));
        let pattern = Literal::new(ScalarValue::Utf8View(Some(format!("{}%", wanted.words[0]))));
        let like: Physical = Arc::new(LikeExpr::new(false, false, column(3, &schema), Arc::new(pattern)));
        let rows = self.scan_t(vec![binary(low, Operator::Or, high), like, fixed()]);
        if !is_joined {
            return sort(aggregate(rows, &[0]));
        }
        let right = self.scan_u(2);
        let on = vec![(Expr::column(0, &rows.schema).unwrap(), Expr::column(0, &right.schema).unwrap())];
        let fields = rows.schema.fields().iter().chain(right.schema.fields()).cloned().collect::<Vec<_>>();
        let join = HashJoin {
            left: Box::new(rows),
            right: Box::new(right),
            on,
            filter: None,
            join_type: JoinType::Inner,
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: None,
            runtime_filters: vec![],
        };
        let joined = Plan::new(Node::HashJoin(join), Arc::new(Schema::new(fields)));
        let schema = joined.schema.clone();
        let kind = binary(column(5, &schema), Operator::NotEq, int(wanted.kind));
        let alike = binary(column(4, &schema), Operator::GtEq, column(0, &schema));
        let predicate = Expr::new(binary(kind, Operator::And, alike), &schema).unwrap();
        let node = Node::Filter { input: Box::new(joined), predicate };
        sort(aggregate(Plan::new(node, schema), &[0, 5]))
    }

    /// Groups of what is wanted where so much divided by `x` is more than a number.
    pub fn groups_of_inverse(&self, wanted: &Wanted, divided: i64) -> Plan {
        let schema = t_schema();
        let inverse = binary(int(divided), Operator::Divide, column(1, &schema));
        let much = binary(inverse, Operator::Gt, int(20));
        sort(aggregate(self.scan_t(vec![much, at_most(wanted)]), &[0]))
    }

    /// The same, in another order and with other words.
    pub fn groups_written_otherwise(&self, wanted: &Wanted) -> Plan {
        let x: Physical = Arc::new(Column::new("another name", 1));
        let filters = vec![
            fixed(),
            binary(int(wanted.high), Operator::Gt, x.clone()),
            binary(at_most(wanted), Operator::And, binary(int(wanted.low), Operator::LtEq, x)),
            words(wanted),
        ];
        sort(aggregate(self.scan_t(filters), &[0]))
    }

    /// Without GROUP BY: one row, whatever is wanted.
    pub fn total(&self, wanted: &Wanted) -> Plan {
        aggregate(self.rows(wanted), &[])
    }

    /// By `k`: how many different `x` there are, which cannot be put together from parts.
    pub fn different(&self, wanted: &Wanted) -> Plan {
        sort(self.different_of(self.few_rows(wanted)))
    }

    /// The same of what is joined with `u`.
    pub fn different_joined(&self, wanted: &Wanted) -> Plan {
        let Node::Aggregate(joined) = self.joined(wanted, JoinType::Inner, false).node else { unreachable!() };
        let mut rows = *joined.input;
        rows.rows_estimate = Some(100);
        sort(self.different_of(rows))
    }

    /// A sum of floats by `k`, of few rows.
    pub fn floats(&self, wanted: &Wanted) -> Plan {
        sort(self.floats_of(self.few_rows(wanted)))
    }

    /// The same of what is joined with `u`.
    pub fn floats_joined(&self, wanted: &Wanted) -> Plan {
        let Node::Aggregate(joined) = self.joined(wanted, JoinType::Inner, false).node else { unreachable!() };
        let mut rows = *joined.input;
        rows.rows_estimate = Some(100);
        sort(self.floats_of(rows))
    }

    /// The first of such groups by `k`, of which far too many to be kept are expected.
    pub fn first_floats(&self, wanted: &Wanted, fetch: usize) -> Plan {
        let groups = Plan { rows_estimate: Some(1 << 30), ..self.floats_of(self.few_rows(wanted)) };
        let (schema, keys) = (groups.schema.clone(), vec![key(0, &groups.schema)]);
        let node = Node::Sort { input: Box::new(groups), keys, fetch: Some(fetch) };
        Plan { node, schema, rows_estimate: Some(fetch), ordered: true }
    }

    /// The floats are integers, whose sums are exact in any order.
    fn floats_of(&self, rows: Plan) -> Plan {
        let schema = rows.schema.clone();
        let float: Physical = Arc::new(CastExpr::new(column(1, &schema), DataType::Float64, None));
        let calls = vec![call(sum_udaf(), float, &schema), call(max_udaf(), column(2, &schema), &schema)];
        aggregate_of(rows, &[0], calls)
    }

    /// By `k`: how many different `x` and `s` there are, how many `x` of some rows, the sum and the average of
    /// different amounts, and what all rows have.
    pub fn differents(&self, wanted: &Wanted) -> Plan {
        let rows = self.rows(wanted);
        let schema = rows.schema.clone();
        let distinct = |function, index, filter| distinct(function, index, filter, &schema);
        let some = Expr::new(binary(column(1, &schema), Operator::Gt, int(40)), &schema).unwrap();
        let calls = vec![
            distinct(count_udaf(), 1, None),
            distinct(count_udaf(), 3, None),
            distinct(count_udaf(), 1, Some(some)),
            distinct(sum_udaf(), 2, None),
            distinct(avg_udaf(), 2, None),
            call(count_udaf(), int(1), &schema),
            call(avg_udaf(), column(2, &schema), &schema),
            call(min_udaf(), column(3, &schema), &schema),
        ];
        sort(aggregate_of(rows, &[0], calls))
    }

    fn different_of(&self, rows: Plan) -> Plan {
        let schema = rows.schema.clone();
        let different = distinct(count_udaf(), 1, None, &schema);
        aggregate_of(rows, &[0], vec![different, call(max_udaf(), column(2, &schema), &schema)])
    }

    /// The first rows of what is wanted, in the order of all columns.
    pub fn first_rows(&self, wanted: &Wanted, fetch: usize) -> Plan {
        let rows = self.few_rows(wanted);
        let schema = rows.schema.clone();
        let keys = (0..4).map(|index| key(index, &schema)).collect();
        let mut plan = Plan::new(Node::Sort { input: Box::new(rows), keys, fetch: Some(fetch) }, schema);
        (plan.ordered, plan.rows_estimate) = (true, Some(fetch));
        plan
    }

    /// `1000 / x` of each row.
    pub fn each_inverse(&self, wanted: &Wanted) -> Plan {
        let rows = self.few_rows(&Wanted { words: WORDS.to_vec(), amount: 10_000, ..*wanted });
        let inverse = binary(int(1000), Operator::Divide, column(1, &rows.schema));
        let expressions = vec![Expr::new(inverse, &rows.schema).unwrap()];
        let schema = Arc::new(Schema::new(vec![Field::new("inverse", DataType::Int64, true)]));
        let mut plan = Plan::new(Node::Project { input: Box::new(rows), expressions }, schema);
        plan.rows_estimate = Some(100);
        plan
    }

    /// What is wanted, of which few rows are expected.
    fn few_rows(&self, wanted: &Wanted) -> Plan {
        let mut rows = self.rows(wanted);
        rows.rows_estimate = Some(100);
        rows
    }

    /// As many groups as there are rows, nearly.
    pub fn each_row(&self, wanted: &Wanted) -> Plan {
        aggregate(self.rows(&Wanted { words: WORDS.to_vec(), amount: i64::MAX.into(), ..*wanted }), &[2, 3, 1, 0])
    }

    /// By `k`: the average of `x`, a number of 32 bits, and how many different `s` there are.
    pub fn averages(&self, wanted: &Wanted) -> Plan {
        let rows = self.rows(wanted);
        let schema = rows.schema.clone();
        let small: Physical = Arc::new(CastExpr::new(column(1, &schema), DataType::Int32, None));
        let float: Physical = Arc::new(CastExpr::new(small, DataType::Float64, None));
        let different = distinct(count_udaf(), 3, None, &schema);
        sort(aggregate_of(rows, &[0], vec![call(avg_udaf(), float, &schema), different]))
    }

    /// By any columns, with values that can be added up as they are.
    pub fn sums(&self, wanted: &Wanted, groups: &[usize]) -> Plan {
        self.sums_in_order(wanted, groups, &[0, 1, 2, 3, 4, 5])
    }

    /// The same values, listed in this order.
    pub fn sums_in_order(&self, wanted: &Wanted, groups: &[usize], order: &[usize]) -> Plan {
        let rows = self.rows(wanted);
        let schema = rows.schema.clone();
        let of = |function, index| call(function, column(index, &schema), &schema);
        let calls = [
            call(count_udaf(), int(1), &schema),
            of(sum_udaf(), 2),
            of(count_udaf(), 2),
            of(avg_udaf(), 2),
            of(min_udaf(), 3),
            of(max_udaf(), 1),
        ];
        aggregate_of(rows, groups, order.iter().map(|place| calls[*place].clone()).collect())
    }

    /// Only some of these values, of table `t` joined with `u`, read with other columns in another order.
    pub fn joined_sums(&self, wanted: &Wanted, groups: &[usize], few: bool) -> Plan {
        let (left, right) = (self.rows(wanted), self.scan_u(0));
        let on = vec![(Expr::column(0, &left.schema).unwrap(), Expr::column(0, &right.schema).unwrap())];
        let fields = left.schema.fields().iter().chain(right.schema.fields()).cloned().collect::<Vec<_>>();
        let order: Vec<usize> = if few { vec![5, 3, 2, 1, 0] } else { (0..6).collect() };
        let place = |column: usize| order.iter().position(|&other| other == column).unwrap();
        let fields = order.iter().map(|&index| fields[index].clone()).collect::<Vec<_>>();
        let join = HashJoin {
            left: Box::new(left),
            right: Box::new(right),
            on,
            filter: None,
            join_type: JoinType::Inner,
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: Some(order.clone()),
            runtime_filters: vec![],
        };
        let joined = Plan::new(Node::HashJoin(join), Arc::new(Schema::new(fields)));
        let schema = joined.schema.clone();
        let mut calls = vec![call(sum_udaf(), column(place(2), &schema), &schema)];
        if !few {
            calls.push(call(count_udaf(), int(1), &schema));
        }
        let groups = groups.iter().map(|&group| place(group)).collect::<Vec<_>>();
        aggregate_of(joined, &groups, calls)
    }

    /// All that is wanted, in no order.
    pub fn plain(&self, wanted: &Wanted) -> Plan {
        let mut plan = self.rows(wanted);
        plan.rows_estimate = Some(10_000);
        plan
    }

    /// Columns of it, the last one computed.
    pub fn computed(&self, wanted: &Wanted) -> Plan {
        let rows = self.rows(wanted);
        let schema = rows.schema.clone();
        let expressions = vec![
            Expr::column(3, &schema).unwrap(),
            Expr::column(1, &schema).unwrap(),
            Expr::new(binary(column(0, &schema), Operator::Plus, int(1)), &schema).unwrap(),
        ];
        let field = Field::new("k1", DataType::Int64, true);
        let fields = vec![schema.field(3).clone(), schema.field(1).clone(), field];
        let node = Node::Project { input: Box::new(rows), expressions };
        let mut plan = Plan::new(node, Arc::new(Schema::new(fields)));
        plan.rows_estimate = Some(100);
        plan
    }

    /// The rows of `u` with those that are wanted of `t`, which are padded where there are none.
    pub fn padded(&self, wanted: &Wanted) -> Plan {
        self.joined(wanted, JoinType::Right, false)
    }

    pub fn sorted(&self, wanted: &Wanted) -> Plan {
        let rows = self.rows(wanted);
        let schema = rows.schema.clone();
        let keys = (0..4).map(|index| key(index, &schema)).collect();
        let mut plan = Plan::new(Node::Sort { input: Box::new(rows), keys, fetch: Some(50) }, schema);
        (plan.ordered, plan.rows_estimate) = (true, Some(50));
        plan
    }

    /// Groups of which far too many to be kept are expected.
    fn many_groups(&self, wanted: &Wanted) -> Plan {
        Plan { rows_estimate: Some(1 << 30), ..self.sums(wanted, &[0, 3]) }
    }

    /// Two of such groups, as they come.
    pub fn some_groups(&self, wanted: &Wanted) -> Plan {
        let groups = self.many_groups(wanted);
        let schema = groups.schema.clone();
        let mut plan = Plan::new(Node::Limit { input: Box::new(groups), skip: 0, fetch: Some(2) }, schema);
        plan.rows_estimate = Some(2);
        plan
    }

    /// The first two of such groups.
    pub fn first_groups(&self, wanted: &Wanted) -> Plan {
        let groups = self.many_groups(wanted);
        let schema = groups.schema.clone();
        let keys = (0..schema.fields().len()).map(|index| key(index, &schema)).collect();
        let mut plan = Plan::new(Node::Sort { input: Box::new(groups), keys, fetch: Some(2) }, schema);
        (plan.ordered, plan.rows_estimate) = (true, Some(2));
        plan
    }

    pub fn joined(&self, wanted: &Wanted, join_type: JoinType, projected: bool) -> Plan {
        self.joined_with(self.rows(wanted), wanted.kind, join_type, projected, None)
    }

    /// The same, with conditions on the pairs: one has constants, the other has none.
    pub fn joined_on_pairs(&self, wanted: &Wanted, join_type: JoinType, projected: bool) -> Plan {
        let pair = |(name, index): (&str, usize)| (Field::new(name, DataType::Int64, true), index);
        let [(kind, of_u), (x, of_t), (k, key)] = [("kind", 1), ("x", 1), ("k", 0)].map(pair);
        let schema = Arc::new(Schema::new(vec![kind, x, k]));
        let open = binary(
            binary(column(0, &schema), Operator::Eq, int(wanted.kind)),
            Operator::Or,
            binary(column(1, &schema), Operator::Lt, int(wanted.low)),
        );
        let fixed = binary(column(1, &schema), Operator::NotEq, column(2, &schema));
        let expression = Expr::new(binary(open, Operator::And, fixed), &schema).unwrap();
        let columns = vec![(JoinSide::Right, of_u), (JoinSide::Left, of_t), (JoinSide::Right, key)];
        let filter = PairFilter { expression, columns, schema };
        self.joined_with(self.rows(wanted), 0, join_type, projected, Some(filter))
    }

    /// The same, with a build side that fails where a row has the `x` 0.
    pub fn joined_or_failed(&self, wanted: &Wanted, join_type: JoinType) -> Plan {
        let input = self.rows(&Wanted { words: WORDS.to_vec(), amount: 10_000, ..*wanted });
        let schema = input.schema.clone();
        let inverse = binary(int(1000), Operator::Divide, column(1, &schema));
        let predicate = Expr::new(binary(inverse, Operator::Gt, int(-1)), &schema).unwrap();
        let left = Plan::new(Node::Filter { input: Box::new(input), predicate }, schema);
        self.joined_with(left, wanted.kind, join_type, false, None)
    }

    /// Both with the same build side.
    pub fn joined_twice(&self, wanted: &Wanted) -> Plan {
        let [first, second] = [0, 1]
            .map(|kind| self.joined(&Wanted { kind, words: wanted.words.clone(), ..*wanted }, JoinType::Inner, false));
        let schema = first.schema.clone();
        Plan::new(Node::Union { inputs: vec![first, second] }, schema)
    }

    /// Each group's words with the greatest sum of all groups, which are there once more: `groups` is what a common
    /// table expression would be.
    pub fn compared(&self, wanted: &Wanted, other: &Wanted) -> Plan {
        let groups = |wanted: &Wanted| {
            let mut groups = self.sums(wanted, &[0, 3]);
            groups.rows_estimate = Some(35);
            groups
        };
        let (left, right) = (groups(wanted), groups(other));
        let greatest = {
            let schema = left.schema.clone();
            aggregate_of(left, &[1], vec![call(max_udaf(), column(3, &schema), &schema)])
        };
        let on = vec![(Expr::column(0, &greatest.schema).unwrap(), Expr::column(1, &right.schema).unwrap())];
        let fields = greatest.schema.fields().iter().chain(right.schema.fields()).cloned().collect::<Vec<_>>();
        let join = HashJoin {
            left: Box::new(greatest),
            right: Box::new(right),
            on,
            filter: None,
            join_type: JoinType::Inner,
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection: None,
            runtime_filters: vec![],
        };
        let mut plan = Plan::new(Node::HashJoin(join), Arc::new(Schema::new(fields)));
        plan.rows_estimate = Some(100);
        plan
    }

    /// The pairs of rows that are wanted with one of `u`, above and beside themselves; `limited`: of which only some
    /// are wanted.
    pub fn pairs_twice(&self, wanted: &Wanted, limited: bool) -> Plan {
        let pairs = || {
            let (left, right) = (self.scan_u(0), self.rows(wanted));
            let on = vec![(Expr::column(0, &left.schema).unwrap(), Expr::column(0, &right.schema).unwrap())];
            let fields = left.schema.fields().iter().chain(right.schema.fields()).cloned().collect::<Vec<_>>();
            let join = HashJoin {
                left: Box::new(left),
                right: Box::new(right),
                on,
                filter: None,
                join_type: JoinType::Inner,
                null_equality: NullEquality::NullEqualsNothing,
                null_aware: false,
                projection: None,
                runtime_filters: vec![],
            };
            let mut plan = Plan::new(Node::HashJoin(join), Arc::new(Schema::new(fields)));
            plan.rows_estimate = Some(10);
            plan
        };
        let schema = pairs().schema;
        let both = Plan::new(Node::Union { inputs: vec![pairs(), pairs()] }, schema.clone());
        match limited {
            true => Plan::new(Node::Limit { input: Box::new(both), skip: 0, fetch: Some(5) }, schema),
            false => both,
        }
    }

    fn joined_with(
        &self,
        left: Plan,
        kind: i64,
        join_type: JoinType,
        projected: bool,
        filter: Option<PairFilter>,
    ) -> Plan {
        let joined = self.pairs(left, kind, join_type, projected, filter);
        let last = joined.schema.fields().len() - 1;
        let number = (0..=last).find(|&index| *joined.schema.field(index).data_type() == DataType::Int64).unwrap();
        let schema = joined.schema.clone();
        let calls = vec![call(count_udaf(), int(1), &schema), call(sum_udaf(), column(number, &schema), &schema)];
        aggregate_of(joined, &[last], calls)
    }

    /// Some of the first pairs of rows with equal keys: a filter above a limit above a join.
    pub fn some_of_first_pairs(&self, wanted: &Wanted) -> Plan {
        let pairs = self.pairs(self.rows(wanted), wanted.kind, JoinType::Inner, false, None);
        let schema = pairs.schema.clone();
        let keys = (0..schema.fields().len()).map(|index| key(index, &schema)).collect();
        let node = Node::Sort { input: Box::new(pairs), keys, fetch: Some(30) };
        let first = Plan { node, schema: schema.clone(), rows_estimate: Some(30), ordered: true };
        let predicate = Expr::new(binary(column(1, &schema), Operator::Gt, int(20)), &schema).unwrap();
        Plan {
            node: Node::Filter { input: Box::new(first), predicate },
            schema,
            rows_estimate: Some(30),
            ordered: true,
        }
    }

    fn pairs(&self, left: Plan, kind: i64, join_type: JoinType, projected: bool, filter: Option<PairFilter>) -> Plan {
        let right = self.scan_u(kind);
        let on = vec![(Expr::column(0, &left.schema).unwrap(), Expr::column(0, &right.schema).unwrap())];
        let fields: Vec<_> = match join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => left.schema.fields().to_vec(),
            JoinType::RightSemi | JoinType::RightAnti => right.schema.fields().to_vec(),
            _ => left.schema.fields().iter().chain(right.schema.fields()).cloned().collect(),
        };
        // Backwards, without the first column.
        let projection = projected.then(|| (1..fields.len()).rev().collect::<Vec<_>>());
        let fields = match &projection {
            Some(projection) => projection.iter().map(|&index| fields[index].clone()).collect(),
            None => fields,
        };
        let join = HashJoin {
            left: Box::new(left),
            right: Box::new(right),
            on,
            filter,
            join_type,
            null_equality: NullEquality::NullEqualsNothing,
            null_aware: false,
            projection,
            runtime_filters: vec![],
        };
        Plan::new(Node::HashJoin(join), Arc::new(Schema::new(fields)))
    }

    /// The sum of `1000 / x`, by `k`.
    pub fn inverses(&self, wanted: &Wanted) -> Plan {
        let rows = self.rows(&Wanted { words: WORDS.to_vec(), amount: 10_000, ..*wanted });
        let schema = rows.schema.clone();
        let inverse = binary(int(1000), Operator::Divide, column(1, &schema));
        aggregate_of(rows, &[0], vec![call(sum_udaf(), inverse, &schema)])
    }

    /// By `k`: how many, and the sum of `1000 / x` if it is asked for.
    pub fn counts(&self, wanted: &Wanted, with_inverses: bool) -> Plan {
        let rows = self.rows(wanted);
        let schema = rows.schema.clone();
        let inverse = binary(int(1000), Operator::Divide, column(1, &schema));
        let inverses = with_inverses.then(|| call(sum_udaf(), inverse, &schema));
        aggregate_of(rows, &[0], inverses.into_iter().chain([call(count_udaf(), int(1), &schema)]).collect())
    }

    pub fn volatile(&self) -> Plan {
        let function = Arc::new(ScalarUDF::from(Random1(Signature::nullary(Volatility::Volatile))));
        let field = Arc::new(Field::new("random", DataType::Int64, false));
        let random = ScalarFunctionExpr::new("random", function, vec![], field, Arc::default());
        let schema = t_schema();
        aggregate_of(self.scan_t(vec![]), &[0], vec![call(sum_udaf(), Arc::new(random), &schema)])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Random1(Signature);

impl ScalarUDFImpl for Random1 {
    fn name(&self) -> &str {
        "random"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(4))))
    }
}

/// `s` is one of some words: as a list, or as alternatives.
fn words(wanted: &Wanted) -> Physical {
    let schema = t_schema();
    let word = |word: &&str| Arc::new(Literal::new(ScalarValue::Utf8View(Some((*word).into())))) as Physical;
    let column = || column(3, &schema);
    if wanted.words.len() > 2 {
        return in_list(column(), wanted.words.iter().map(word).collect(), &false, &schema).unwrap();
    }
    let alternatives = wanted.words.iter().map(|text| binary(column(), Operator::Eq, word(text)));
    alternatives.reduce(|left, right| binary(left, Operator::Or, right)).unwrap()
}

fn at_most(wanted: &Wanted) -> Physical {
    let amount = Arc::new(Literal::new(ScalarValue::Decimal128(Some(wanted.amount), 15, 2)));
    binary(column(2, &t_schema()), Operator::LtEq, amount)
}

/// A condition without a constant to compare with.
fn fixed() -> Physical {
    let schema = t_schema();
    binary(column(0, &schema), Operator::NotEq, column(1, &schema))
}

fn key(index: usize, schema: &Schema) -> SortKey {
    SortKey { expression: Expr::column(index, schema).unwrap(), options: SortOptions::default() }
}

fn sort(input: Plan) -> Plan {
    let (schema, rows_estimate) = (input.schema.clone(), input.rows_estimate);
    let keys = vec![key(0, &schema)];
    let node = Node::Sort { input: Box::new(input), keys, fetch: None };
    Plan { node, schema, rows_estimate, ordered: true }
}

/// A function of the different values of a column, of those rows that the filter leaves.
fn distinct(function: Arc<AggregateUDF>, index: usize, filter: Option<Expr>, schema: &SchemaRef) -> AggregateCall {
    let builder = AggregateExprBuilder::new(function, vec![column(index, schema)]).schema(schema.clone());
    let function = Arc::new(builder.alias("different").distinct().build().unwrap());
    AggregateCall { function, arguments: vec![Expr::column(index, schema).unwrap()], filter }
}

fn call(function: Arc<AggregateUDF>, argument: Physical, schema: &SchemaRef) -> AggregateCall {
    let name = function.name().to_owned();
    let function = AggregateExprBuilder::new(function, vec![argument.clone()]).schema(schema.clone()).alias(name);
    let arguments = vec![Expr::new(argument, schema).unwrap()];
    AggregateCall { function: Arc::new(function.build().unwrap()), arguments, filter: None }
}

/// Every function that can be put together from parts; two of them only of some rows.
fn aggregate(input: Plan, groups: &[usize]) -> Plan {
    let schema = input.schema.clone();
    let of = |function, index| call(function, column(index, &schema), &schema);
    let some = || Some(Expr::new(binary(column(1, &schema), Operator::Gt, int(20)), &schema).unwrap());
    let calls = vec![
        call(count_udaf(), int(1), &schema),
        of(count_udaf(), 3),
        of(sum_udaf(), 1),
        of(sum_udaf(), 2),
        of(avg_udaf(), 2),
        of(min_udaf(), 3),
        of(max_udaf(), 2),
        AggregateCall { filter: some(), ..of(avg_udaf(), 2) },
        AggregateCall { filter: some(), ..call(count_udaf(), int(1), &schema) },
    ];
    aggregate_of(input, groups, calls)
}

fn aggregate_of(input: Plan, groups: &[usize], aggregates: Vec<AggregateCall>) -> Plan {
    let schema = input.schema.clone();
    let mut fields = groups.iter().map(|&index| schema.fields()[index].clone()).collect::<Vec<_>>();
    fields.extend(aggregates.iter().map(|call| call.function.field()));
    let groups = groups.iter().map(|&index| Expr::column(index, &schema).unwrap()).collect::<Vec<_>>();
    let grouping_sets = vec![vec![false; groups.len()]];
    let input = Box::new(input);
    let node = Aggregate { input, groups, grouping_sets, has_grouping_id: false, aggregates, limit: None };
    let mut plan = Plan::new(Node::Aggregate(node), Arc::new(Schema::new(fields)));
    plan.rows_estimate = Some(100);
    plan
}
