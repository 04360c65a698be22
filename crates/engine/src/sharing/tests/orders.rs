//! A state whose rows come in an order serves whoever wants the same order, or the beginning of its key, and rows that
//! are there: at once and as they are. What may not serve: another order, a longer key, rows behind the cut, and the
//! first rows of other rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_base::seams::Random;

use super::plans::{Tables, Wanted};
use super::{SharingMode, engines, engines_with, inline, is_free, is_inline, options};
use crate::expressions::Expr;
use crate::plan::{Node, Plan, SortKey};
use crate::query::QueryStream;
use crate::{Engine, EngineOptions};

const UP: SortOptions = SortOptions { descending: false, nulls_first: false };
const DOWN: SortOptions = SortOptions { descending: true, nulls_first: true };

/// Columns of table `t(k, x, amount, s)` in an order. With all four columns in the key, rows that are tied are equal.
#[derive(Clone)]
struct Ordered {
    keys: Vec<(usize, SortOptions)>,
    columns: Vec<usize>,
    skip: usize,
    fetch: Option<usize>,
}

impl Ordered {
    fn by(keys: &[(usize, SortOptions)]) -> Self {
        Self { keys: keys.to_vec(), columns: vec![0, 1, 2, 3], skip: 0, fetch: None }
    }

    fn limit(mut self, skip: usize, fetch: usize) -> Self {
        (self.skip, self.fetch) = (skip, Some(fetch));
        self
    }

    fn columns(self, columns: &[usize]) -> Self {
        Self { columns: columns.to_vec(), ..self }
    }

    /// As a statement with ORDER BY, LIMIT and OFFSET becomes it.
    fn of(&self, rows: Plan) -> Plan {
        let schema = rows.schema.clone();
        let column = |index: usize| Expr::column(index, &schema).unwrap();
        let keys = self.keys.iter().map(|&(index, options)| SortKey { expression: column(index), options }).collect();
        let ordered = |node, schema| {
            let rows_estimate = Some(self.fetch.unwrap_or(1000));
            Plan { rows_estimate, ordered: true, ..Plan::new(node, schema) }
        };
        let fetch = self.fetch.map(|fetch| self.skip + fetch);
        let mut plan = ordered(Node::Sort { input: Box::new(rows), keys, fetch }, schema.clone());
        if self.skip > 0 {
            plan = ordered(Node::Limit { input: Box::new(plan), skip: self.skip, fetch: self.fetch }, schema.clone());
        }
        let expressions = self.columns.iter().map(|&index| column(index)).collect();
        let fields = self.columns.iter().map(|&index| schema.field(index).clone()).collect::<Vec<_>>();
        ordered(Node::Project { input: Box::new(plan), expressions }, Arc::new(Schema::new(fields)))
    }

    /// One of few orders of all columns, or, with columns that are the same whichever of tied rows come, of some.
    fn random(random: &mut Random) -> Self {
        let keys = [[(0, UP), (1, DOWN), (2, UP), (3, UP)], [(0, UP), (1, UP), (3, DOWN), (2, DOWN)]];
        let keys = &keys[random.below(2)][..[1, 2, 4, 4][random.below(4)]];
        let mut columns = keys.iter().map(|key| key.0).collect::<Vec<_>>();
        columns.rotate_left(random.below(keys.len()));
        columns.truncate(1 + random.below(4));
        let ordered = Self::by(keys).columns(&columns);
        match random.below(4) {
            0 => ordered,
            1 => Self { skip: random.below(100), ..ordered },
            _ => ordered.limit([0, 0, 5, 30][random.below(4)], [1, 10, 40, 1000][random.below(4)]),
        }
    }
}

/// All rows, in the order in which they come.
fn rows(mut stream: QueryStream) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        rows.extend(texts(&batch.unwrap()));
    }
    rows
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
    let columns = columns.collect::<Vec<_>>();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" ");
    (0..batch.num_rows()).map(row).collect()
}

fn run(engine: &Arc<Engine>, plan: &Plan) -> QueryStream {
    engine.run(plan, options(SharingMode::All)).unwrap()
}

fn alone(engine: &Arc<Engine>, plan: &Plan) -> Vec<String> {
    rows(engine.run(plan, options(SharingMode::Off)).unwrap())
}

/// Runs a plan, compares it with itself alone, and says what it shared, if it has made its answer of a kept state with
/// more.
fn found(engine: &Arc<Engine>, plan: &Plan) -> Option<String> {
    let (expected, before) = (alone(engine, plan), engine.sharing().subsumed_total);
    assert!(!expected.is_empty());
    let mut stream = run(engine, plan);
    let mut rows = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        rows.extend(texts(&batch.unwrap()));
    }
    assert_eq!(rows, expected, "{engine:?}\n{plan}");
    let said = stream.profile().sharing.filter(|_| engine.sharing().subsumed_total > before)?;
    Some(said.split_once("; ").unwrap().1.to_owned())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn the_first_rows_serve_whoever_wants_fewer_of_them() {
    let tables = Tables::new(2000);
    let rows = || tables.rows(&Wanted::between(0, 100).of_all());
    let keys = [(0, UP), (1, DOWN), (2, UP), (3, UP)];
    for engine in engines_with(10) {
        let found = |ordered: Ordered| found(&engine, &ordered.of(rows()));
        assert_eq!(found(Ordered::by(&keys).limit(0, 100)), None);
        let first = Ordered::by(&keys).limit(0, 10);
        assert_eq!(found(first.clone()), some("limited to the first 10 of 100 rows, in the same order"));
        assert_eq!(
            found(first.columns(&[2, 0])),
            some("limited to the first 10 of 100 rows, in the same order"),
            "not of those that were cut from it: they are not kept"
        );
        assert_eq!(
            found(Ordered::by(&keys[..2]).limit(0, 40).columns(&[1, 0])),
            some("limited to the first 40 of 100 rows, in the order of a longer key")
        );
        assert_eq!(
            found(Ordered::by(&keys).limit(90, 10)),
            some("limited to the 10 rows after the first 90 of 100, in the same order")
        );
        assert_eq!(
            found(Ordered::by(&keys).limit(0, 100).columns(&[3])),
            some("with columns left out, in the same order")
        );
        is_free(&engine);
    }
}

#[test]
fn what_is_not_provably_among_the_first_rows_is_computed() {
    let tables = Tables::new(2000);
    let of_all = || Wanted::between(0, 100).of_all();
    let all = || tables.rows(&of_all());
    let keys = [(0, UP), (1, DOWN), (2, UP), (3, UP)];
    let other = |place: usize, options| {
        let mut keys = keys;
        keys[place].1 = options;
        Ordered::by(&keys).limit(10, 10).of(all())
    };
    for engine in engines_with(10) {
        let kept = Ordered::by(&keys[..3]).limit(10, 100).columns(&[0, 1, 2]);
        found(&engine, &kept.of(all()));
        let same = |skip, fetch| Ordered::by(&keys[..3]).limit(skip, fetch).columns(&[0, 1, 2]);
        let refused = [
            // Rows before those that are there, or after.
            same(9, 10).of(all()),
            same(10, 101).of(all()),
            same(105, 10).of(all()),
            Ordered { fetch: None, ..same(10, 0) }.of(all()),
            // Another direction, another place for NULLs, a longer key, another one.
            other(0, DOWN),
            other(1, SortOptions { descending: true, nulls_first: false }),
            Ordered::by(&keys).limit(10, 10).of(all()),
            Ordered::by(&keys[1..2]).limit(10, 10).columns(&[1]).of(all()),
            // A column that is not there.
            Ordered::by(&keys[..3]).limit(10, 10).columns(&[3]).of(tables.rows(&of_all())),
            // The first of fewer rows, and of more.
            same(10, 10).of(tables.rows(&of_all().below(99))),
            same(10, 10).of(tables.rows(&of_all().below(101))),
            // All of them.
            tables.plain(&of_all()),
        ];
        for plan in &refused {
            assert_eq!(explained(&engine, plan), None, "{plan}");
        }
        assert_eq!(explained(&engine, &same(10, 100).of(all())), some("it is retained"));
        let more =
            "more than it is retained, and can be limited to the 3 rows after the first 20 of 100, in the same order";
        assert_eq!(explained(&engine, &same(30, 3).of(all())), some(more));
    }
}

/// What EXPLAIN says of a retained state.
fn explained(engine: &Arc<Engine>, plan: &Plan) -> Option<String> {
    let text = engine.explain(plan, &options(SharingMode::All)).unwrap();
    let sharing = text.lines().find_map(|line| line.strip_prefix("Sharing: ")).unwrap();
    sharing.split_once("; ").map(|(_, retained)| retained.to_owned())
}

#[test]
fn rows_without_an_end_serve_other_conditions_and_all_their_places() {
    let tables = Tables::new(2000);
    let all = || tables.rows(&Wanted::between(0, 100).of_all());
    let few = || tables.rows(&Wanted::between(0, 100).of_all().below(50));
    let keys = [(0, UP), (1, DOWN), (2, UP), (3, UP)];
    for engine in engines_with(10) {
        let found = |ordered: Ordered, rows| found(&engine, &ordered.of(rows));
        assert_eq!(found(Ordered::by(&keys), all()), None);
        assert_eq!(
            found(Ordered::by(&keys).limit(3, 10), all()),
            some("limited to the 10 rows after the first 3, in the same order")
        );
        assert_eq!(
            found(Ordered::by(&keys[..1]).columns(&[0]), all()),
            some("with columns left out, in the order of a longer key")
        );
        assert_eq!(
            found(Ordered { skip: 700, ..Ordered::by(&keys) }, all()),
            some("limited to all rows after the first 700, in the same order")
        );
        assert_eq!(
            found(Ordered::by(&keys).limit(0, 10), few()),
            some("filtered by one more condition, limited to the first 10 rows, in the same order")
        );
        // Another order is made of the same rows.
        let other = [(1, UP), (0, UP), (2, UP), (3, UP)];
        assert_eq!(found(Ordered::by(&other).limit(0, 10), few()), some("filtered by one more condition"));
        is_free(&engine);
    }
}

#[test]
fn the_first_rows_are_all_if_there_are_fewer_than_asked_for() {
    let tables = Tables::new(500);
    let wanted = |high| tables.rows(&Wanted::between(0, 100).of_all().below(high));
    let keys = [(0, UP), (1, DOWN), (2, UP), (3, UP)];
    for engine in engines_with(10) {
        let found = |ordered: Ordered, rows| found(&engine, &ordered.of(rows));
        assert_eq!(found(Ordered::by(&keys).limit(0, 1000), wanted(90)), None);
        assert_eq!(found(Ordered::by(&keys), wanted(80)), some("filtered by one more condition, in the same order"));
        assert_eq!(
            found(Ordered::by(&keys).limit(0, 2000), wanted(90)),
            some("limited to the first 2000 rows, in the same order")
        );
        let other = [(3, UP), (0, UP), (2, UP), (1, UP)];
        assert_eq!(found(Ordered::by(&other).limit(0, 10), wanted(80)), some("filtered by one more condition"));
        is_free(&engine);
    }
}

#[test]
fn an_order_that_is_being_made_is_waited_for() {
    let tables = Tables::new(2000);
    let all = || tables.rows(&Wanted::between(0, 100).of_all());
    let keys = [(0, UP), (1, DOWN), (2, UP), (3, UP)];
    let first = |count| Ordered::by(&keys).limit(0, count);
    let builds = |engine: &Arc<Engine>, plans: &[Ordered]| {
        let before = engine.sharing().builds_total;
        let plans = plans.iter().map(|ordered| ordered.of(all())).collect::<Vec<_>>();
        let streams = plans.iter().map(|plan| run(engine, plan)).collect::<Vec<_>>();
        for (stream, plan) in streams.into_iter().zip(&plans) {
            assert_eq!(rows(stream), alone(engine, plan), "{engine:?}\n{plan}");
        }
        is_free(engine);
        engine.sharing().builds_total - before
    };
    for engine in engines() {
        let shorter = Ordered::by(&keys[..1]).limit(7, 20).columns(&[0]);
        let one = builds(&engine, &[first(100), first(10), first(20).columns(&[2]), shorter]);
        assert!(one == 1 || !is_inline(&engine), "{one}");
        let longer = [first(10), first(20), Ordered::by(&keys[1..]).limit(0, 10).columns(&[1, 2, 3])];
        let three = builds(&engine, &longer);
        assert_eq!(three, 3);
    }
}

#[test]
fn first_rows_in_no_order_serve_no_places() {
    let tables = Tables::new(2000);
    let all = || tables.rows(&Wanted::between(0, 100).of_all());
    let keys = [(0, UP), (1, DOWN), (2, UP), (3, UP)];
    let engine = Engine::start(EngineOptions::inline(1)).unwrap();
    let mut kept = Ordered::by(&keys).limit(0, 100).of(all());
    kept.ordered = false;
    if let Node::Project { input, .. } = &mut kept.node {
        input.ordered = false;
    }
    super::answer(run(&engine, &kept)).unwrap();
    // Any hundred rows.
    let any = Node::Limit { input: Box::new(all()), skip: 0, fetch: Some(100) };
    let any = Plan { rows_estimate: Some(100), ..Plan::new(any, all().schema) };
    super::answer(run(&engine, &any)).unwrap();
    assert_eq!(engine.sharing().retained_states, 2);
    assert_eq!(found(&engine, &Ordered::by(&keys).limit(0, 10).of(all())), None);
    let fewer = Node::Limit { input: Box::new(all()), skip: 0, fetch: Some(10) };
    assert_eq!(explained(&engine, &Plan { rows_estimate: Some(10), ..Plan::new(fewer, all().schema) }), None);
}

#[test]
fn the_first_of_too_many_groups_are_shared_as_other_rows() {
    let tables = Tables::new(2000);
    let groups = |high| {
        let mut groups = tables.sums(&Wanted::between(0, 100).of_all().below(high), &[0, 1, 3]);
        groups.rows_estimate = Some(1 << 30);
        groups
    };
    // By the sum of amounts, behind the keys and the count.
    let keys = [(4, DOWN), (0, UP), (1, UP), (2, UP)];
    for engine in engines_with(10) {
        let first = |skip, fetch| Ordered::by(&keys).columns(&[0, 4, 3]).limit(skip, fetch);
        assert_eq!(found(&engine, &first(0, 50).of(groups(90))), None);
        assert_eq!(
            found(&engine, &first(5, 10).columns(&[4, 0]).of(groups(90))),
            some("limited to the 10 rows after the first 5 of 50, in the same order")
        );
        assert_eq!(found(&engine, &first(5, 10).of(groups(80))), None);
        is_free(&engine);
    }
}

/// Arrivals, reads and cancels in an order given by a seed.
#[test]
fn whatever_order_is_kept_each_gets_its_own() {
    let (mut subsumed, mut satellites) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let retained_percent = 10 * random.below(2);
        let engine = Engine::start(EngineOptions { retained_percent, ..EngineOptions::inline(seed) }).unwrap();
        let other = Engine::start(inline(seed)).unwrap();
        let tables = Tables::new(400);
        let mut running: Vec<(QueryStream, Plan)> = Vec::new();
        for _ in 0..20 {
            let wanted = Wanted::between(0, 100).of_all().below([60, 90][random.below(2)]);
            let plan = Ordered::random(&mut random).of(tables.rows(&wanted));
            running.push((run(&engine, &plan), plan));
            for _ in 0..random.below(8) {
                engine.scheduler().run_one();
            }
            match random.below(8) {
                0 => drop(running.swap_remove(random.below(running.len()))),
                1..4 => {
                    let (stream, plan) = running.swap_remove(random.below(running.len()));
                    assert_eq!(rows(stream), alone(&other, &plan), "seed {seed}\n{plan}");
                }
                _ => {}
            }
        }
        for (stream, plan) in running {
            assert_eq!(rows(stream), alone(&other, &plan), "seed {seed}\n{plan}");
        }
        is_free(&engine);
        let info = engine.sharing();
        subsumed += info.subsumed_total;
        satellites += info.satellites_total;
    }
    assert!(subsumed > 500 && satellites > 100, "{subsumed} {satellites}");
}
