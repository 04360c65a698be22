//! What scans leave each other: who decodes what, which cluster comes next, and what goes when memory is wanted.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{ScalarValue, Statistics};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use diligence_base::ids::{QueryId, TableIdentity, TableVersion};
use diligence_base::limits::COLUMNS_REST;
use diligence_base::seams::ManualClock;
use diligence_base::{Error, Result};
use diligence_memory::Broker;
use diligence_storage::{
    Cluster, Decode, DecodeRequest, Fetch, Fetched, ScanRequest, SharedColumns, SharedItem, Table, TableScan,
};

use crate::plan::{Node, Plan, Scan};
use crate::reuse::SharingInfo;
use crate::reuse::columns::{Attendance, Choice, ClusterColumns, Scans};

const ROWS: usize = 250;
const WINDOW_ROWS: usize = 100;

/// A cluster of which only the place matters.
#[derive(Debug)]
struct Place(u64);

impl Cluster for Place {
    fn rows(&self) -> Option<usize> {
        Some(ROWS)
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        columns.len() * 1000
    }

    fn fetch(&self, _columns: &[usize]) -> Fetch {
        Fetch::Ready(Fetched { bytes: 0, content: Box::new(()) })
    }

    fn decode(&self, _fetched: Fetched, _request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        Err(Error::bug("nobody decodes it"))
    }

    fn describe(&self) -> String {
        format!("cluster {}", self.0)
    }

    fn place(&self) -> Option<u64> {
        Some(self.0)
    }
}

#[derive(Debug)]
struct Named(&'static str, TableIdentity);

impl Named {
    fn new(name: &'static str) -> Self {
        Self(name, TableIdentity::of_new(TableVersion(1)))
    }
}

impl Table for Named {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Int64, false)]))
    }

    fn identity(&self) -> TableIdentity {
        self.1
    }

    fn statistics(&self) -> Statistics {
        Statistics::new_unknown(&self.schema())
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        Err(Error::bug("nobody scans it"))
    }

    fn describe(&self) -> String {
        self.0.to_owned()
    }
}

struct Stage {
    broker: Arc<Broker>,
    clock: Arc<ManualClock>,
    scans: Arc<Scans>,
    table: Arc<dyn Table>,
    clusters: Vec<Arc<dyn Cluster>>,
}

impl Stage {
    fn new(budget_bytes: usize, clusters: u64) -> Self {
        let broker = Broker::new(budget_bytes);
        let clock = Arc::new(ManualClock::stepping(1));
        let scans = Scans::new(&broker, clock.clone(), 50);
        let clusters = (0..clusters).map(|place| Arc::new(Place(place)) as Arc<dyn Cluster>).collect();
        Self { broker, clock, scans, table: Arc::new(Named::new("t")), clusters }
    }

    fn scan(&self, columns: &[usize]) -> Arc<Attendance> {
        self.scans.attend(&self.table, &self.clusters, columns, [].iter(), WINDOW_ROWS, true).unwrap()
    }

    fn take(&self, scan: &Arc<Attendance>, place: usize) -> Arc<ClusterColumns> {
        scan.take(self.clusters[place].as_ref(), false).unwrap()
    }

    fn next(&self, scan: &Attendance, left: &[usize]) -> usize {
        let (Choice::Here(position) | Choice::Read(position)) = self.choose(scan, left);
        left[position]
    }

    fn choose(&self, scan: &Attendance, left: &[usize]) -> Choice {
        scan.choose(&left.iter().map(|place| (*place, self.clusters[*place].clone())).collect())
    }

    /// A whole scan, as a decoder does it.
    fn run(&self, columns: &[usize]) {
        let scan = self.scan(columns);
        for place in 0..self.clusters.len() {
            decode(&self.take(&scan, place));
        }
    }

    fn info(&self) -> SharingInfo {
        let mut info = SharingInfo::default();
        self.scans.describe(&mut info);
        info
    }
}

fn windows(column: usize) -> impl Iterator<Item = ArrayRef> {
    let window = move |start: usize| {
        let rows = start..(start + WINDOW_ROWS).min(ROWS);
        Arc::new(Int64Array::from_iter_values(rows.map(|row| (row * 10 + column) as i64))) as ArrayRef
    };
    (0..ROWS).step_by(WINDOW_ROWS).map(window)
}

/// Columns that are there, and conditions whose answers are.
fn ready(columns: &ClusterColumns) -> (usize, usize) {
    let found = columns.found();
    (found.columns, found.answers)
}

fn decode(columns: &ClusterColumns) {
    for item in columns.wanted() {
        let column = item.column().unwrap_or_default();
        assert!(windows(column).all(|window| columns.put(item, &window)));
    }
    columns.complete(ROWS);
}

#[test]
fn what_is_wanted_again_is_decoded_as_a_whole_and_then_not_again() {
    let stage = Stage::new(1 << 20, 3);
    let first = stage.scan(&[0, 1]);
    let columns = stage.take(&first, 0);
    assert!(columns.wanted().is_empty(), "nobody has asked before, and nobody else is there");
    assert_eq!(columns.missing(&[0, 1]), [0, 1]);
    drop((columns, first));
    stage.run(&[0]);
    let third = stage.scan(&[0, 1]);
    let columns = stage.take(&third, 2);
    assert_eq!(
        (columns.missing(&[0, 1]), columns.wanted(), ready(&columns)),
        (vec![1], vec![SharedItem::Column(1)], (1, 0))
    );
    let others = stage.scan(&[1]);
    let (found, again) = (columns.found(), stage.take(&third, 1).found());
    assert_eq!((found.saved_bytes, found.scans, again.scans), (1000, 1, 2), "the other one came later");
    drop(others);
    let found = columns.windows(SharedItem::Column(0)).unwrap();
    assert!(found.iter().map(|window| window.to_data()).eq(windows(0).map(|window| window.to_data())));
    assert!(columns.windows(SharedItem::Column(1)).is_none());
    let info = stage.info();
    assert_eq!((info.columns_kept, info.columns_left_total, info.columns_read_total), (3, 3, 2));
    assert_eq!(info.columns_bytes, stage.broker.reserved_bytes());
    assert!(info.columns_bytes >= 3 * ROWS * 8);
    assert_eq!((info.builds[0].state, info.builds[0].readers, info.builds[0].label.as_str()), ("decoded", 1, "t"));
}

#[test]
fn scans_at_once_divide_the_clusters_between_them() {
    let stage = Stage::new(1 << 20, 8);
    let scans = [stage.scan(&[0]), stage.scan(&[0]), stage.scan(&[0, 1])];
    let mut left = [(); 3].map(|()| (0..8).collect::<Vec<usize>>());
    let mut decoded = 0;
    // All take a cluster, then all decode: nobody knows what the others are about to leave.
    while left.iter().any(|left| !left.is_empty()) {
        let mut taken = Vec::new();
        for (scan, left) in scans.iter().zip(&mut left) {
            if !left.is_empty() {
                let place = stage.next(scan, left);
                left.retain(|other| *other != place);
                taken.push(stage.take(scan, place));
            }
        }
        for columns in taken {
            decoded += columns.missing(&[0]).len();
            decode(&columns);
        }
    }
    // Each once for others; and where others are at the last ones, nobody waits for them.
    assert_eq!(stage.info().columns_left_total, 8);
    assert!((8..8 + scans.len()).contains(&decoded), "{decoded}");
    assert_eq!(stage.info().columns_read_total as usize, 3 * 8 - decoded);
}

#[test]
fn a_cluster_that_others_are_at_comes_last_and_is_not_waited_for() {
    let stage = Stage::new(1 << 20, 2);
    let (first, second) = (stage.scan(&[0]), stage.scan(&[0]));
    let at_work = [stage.take(&first, 0), stage.take(&first, 1)];
    assert_eq!(stage.next(&second, &[0, 1]), 0, "one of them must come first");
    let own = stage.take(&second, 0);
    assert_eq!((own.missing(&[0]), own.wanted()), (vec![0], vec![]), "it decodes it for itself");
    decode(&at_work[1]);
    assert_eq!(stage.next(&second, &[0, 1]), 1, "what is here comes first");
    // The first scan ends without having left cluster 0: somebody else may.
    drop((at_work, own, first));
    assert_eq!(stage.take(&second, 0).wanted(), [SharedItem::Column(0)]);
}

#[test]
fn what_most_scans_need_comes_first() {
    let stage = Stage::new(1 << 20, 4);
    let scan = stage.scan(&[0]);
    let half = stage.scans.attend(&stage.table, &stage.clusters[2..], &[1], [].iter(), WINDOW_ROWS, true).unwrap();
    assert_eq!(stage.next(&scan, &[0, 1, 2, 3]), 2);
    decode(&stage.take(&half, 2));
    assert_eq!(stage.next(&scan, &[0, 1, 2, 3]), 3, "the other one does not need cluster 2 any more");
    drop(half);
    assert_eq!(stage.next(&scan, &[0, 1, 2, 3]), 0);
}

#[test]
fn what_another_scan_has_just_read_comes_first() {
    let stage = Stage::new(1 << 20, 40);
    drop(stage.scan(&[0]));
    stage.run(&[0]);
    let [first, second, third] = [(); 3].map(|()| stage.scan(&[0]));
    let read = |scan: &Arc<Attendance>, place| {
        let columns = stage.take(scan, place);
        columns.complete(ROWS);
        columns.found().cohort
    };
    assert_eq!([3, 11, 20].map(|place| read(&first, place)), [1, 1, 1], "the last scan before read all, and ended");
    let mut left = (0..40).filter(|place| *place != 11).collect::<Vec<_>>();
    for expected in [(20, 2), (3, 2), (39, 1)] {
        let place = stage.next(&second, &left);
        assert_eq!((place, read(&second, place)), expected);
        left.retain(|other| *other != place);
    }
    assert_eq!(stage.next(&third, &[3, 11, 20]), 3, "the second scan was there after the first");
    assert_eq!((read(&third, 3), read(&third, 11)), (3, 2));
    assert_eq!(read(&third, 11), 2, "it is the same scan");
    assert_eq!(stage.next(&third, &[1, 2]), 1, "none of those was read of late");
    drop((first, second));
    assert_eq!(read(&stage.scan(&[0]), 20), 1, "who read it has ended");
    // So many later ones are hot that this one is not any more.
    (21..37).for_each(|place| assert!(read(&third, place) > 0));
    assert_eq!(stage.choose(&third, &[2, 20]), Choice::Here(0));
    // Who wants more of it has to decode that; what he leaves is hot, what he does not is not.
    let fourth = stage.scan(&[0, 1]);
    assert_eq!(stage.choose(&fourth, &[7, 8]), Choice::Read(0));
    assert_eq!(read(&fourth, 8), 0);
    assert_eq!(stage.next(&third, &[7, 8]), 7);
    decode(&stage.take(&stage.scan(&[1, 0]), 8));
    assert_eq!(stage.next(&third, &[7, 8]), 8);
    // What is hot may have gone.
    stage.scans.set_percent(0);
    stage.scans.set_percent(50);
    assert_eq!(stage.choose(&third, &[7, 8]), Choice::Read(0));
}

#[test]
fn what_a_waiting_query_wants_is_left_by_the_first_scan() {
    let stage = Stage::new(1 << 20, 1);
    let first = stage.scan(&[0, 1]);
    assert!(stage.take(&first, 0).wanted().is_empty());
    let scan = Scan::new(stage.table.as_ref(), "t", vec![1]);
    let tables = [stage.table.clone()].into_iter().collect();
    stage.scans.expect(&Plan::new(Node::Scan(scan), stage.table.schema()), &tables);
    assert_eq!(stage.take(&first, 0).wanted(), [SharedItem::Column(1)]);
}

#[test]
fn windows_of_other_sizes_and_scans_that_leave_early_leave_nothing() {
    let stage = Stage::new(1 << 20, 1);
    for leaves in [false, true] {
        drop(stage.scan(&[0]));
        let scan = stage.scans.attend(&stage.table, &stage.clusters, &[0], [].iter(), WINDOW_ROWS, leaves).unwrap();
        assert_eq!(stage.take(&scan, 0).wanted().len(), usize::from(leaves));
    }
    stage.run(&[0]);
    let other = stage.scans.attend(&stage.table, &stage.clusters, &[0], [].iter(), 7, true).unwrap();
    assert_eq!(stage.choose(&other, &[0]), Choice::Read(0));
    assert!(other.take(stage.clusters[0].as_ref(), true).is_none());
    let columns = stage.take(&other, 0);
    assert_eq!((columns.missing(&[0]), columns.wanted()), (vec![0], vec![]));
    stage.scans.set_percent(0);
    assert!(stage.scans.attend(&stage.table, &stage.clusters, &[0], [].iter(), WINDOW_ROWS, true).is_none());
    assert_eq!((stage.info().columns_bytes, stage.broker.reserved_bytes()), (0, 0));
}

#[test]
fn smaller_windows_are_cut_out_of_larger_ones_which_take_their_place() {
    let stage = Stage::new(1 << 20, 1);
    let cluster = stage.clusters[0].as_ref();
    let half = |scan: &Arc<Attendance>| scan.take(cluster, false).unwrap();
    let scan_of = |rows| stage.scans.attend(&stage.table, &stage.clusters, &[0], [].iter(), rows, true).unwrap();
    drop(stage.scan(&[0]));
    // Halves are left first: whole windows are not made of them, but take their place.
    let small = scan_of(WINDOW_ROWS / 2);
    let columns = half(&small);
    let halves =
        |window: ArrayRef| [(0, 50), (50, 50)].map(|(first, rows)| window.slice(first, rows.min(window.len() - first)));
    let halves = || windows(0).flat_map(halves).filter(|window| !window.is_empty()).collect::<Vec<_>>();
    assert!(halves().iter().all(|window| columns.put(SharedItem::Column(0), window)));
    columns.complete(ROWS);
    let large = stage.scan(&[0]);
    assert_eq!(stage.choose(&small, &[0]), Choice::Here(0));
    assert_eq!(stage.choose(&large, &[0]), Choice::Read(0));
    let columns = stage.take(&large, 0);
    assert_eq!((columns.missing(&[0]), columns.wanted()), (vec![0], vec![SharedItem::Column(0)]));
    decode(&columns);
    drop(columns);
    let info = stage.info();
    assert_eq!((info.columns_kept, info.columns_left_total, info.columns_drops_total), (1, 2, 1));
    assert_eq!(info.columns_bytes, stage.broker.reserved_bytes());
    // Who has halves reads halves of these, and leaves them as they are.
    assert_eq!(stage.choose(&small, &[0]), Choice::Here(0));
    let columns = half(&small);
    assert_eq!((columns.missing(&[0]), columns.wanted()), (vec![], vec![]));
    let found = columns.windows(SharedItem::Column(0)).unwrap();
    assert_eq!(found.len(), halves().len());
    assert!(found.iter().zip(halves()).all(|(found, expected)| found.to_data() == expected.to_data()));
    drop(columns);
    assert_eq!(stage.next(&large, &[0]), 0);
    assert_eq!(ready(&stage.take(&large, 0)).0, 1);
}

#[test]
fn windows_that_ended_sooner_are_not_cut() {
    let stage = Stage::new(1 << 20, 1);
    let scan_of = |rows| stage.scans.attend(&stage.table, &stage.clusters, &[0], [].iter(), rows, true).unwrap();
    drop(stage.scan(&[0]));
    let columns = stage.take(&stage.scan(&[0]), 0);
    let all = Int64Array::from_iter_values(0..ROWS as i64);
    for (first, rows) in
        [(0, WINDOW_ROWS), (WINDOW_ROWS, 30), (WINDOW_ROWS + 30, WINDOW_ROWS), (2 * WINDOW_ROWS + 30, 20)]
    {
        assert!(columns.put(SharedItem::Column(0), &(Arc::new(all.slice(first, rows)) as ArrayRef)));
    }
    columns.complete(ROWS);
    assert_eq!(ready(&stage.take(&stage.scan(&[0]), 0)).0, 1);
    for rows in [WINDOW_ROWS / 2, WINDOW_ROWS * 2] {
        let columns = stage.take(&scan_of(rows), 0);
        assert_eq!((columns.missing(&[0]), columns.wanted()), (vec![0], vec![]));
    }
}

#[test]
fn a_column_that_was_not_put_as_a_whole_is_not_kept() {
    let stage = Stage::new(1 << 20, 1);
    drop(stage.scan(&[0]));
    let scan = stage.scan(&[0]);
    let columns = stage.take(&scan, 0);
    assert!(columns.put(SharedItem::Column(0), &windows(0).next().unwrap()));
    columns.complete(ROWS);
    drop(columns);
    assert_eq!(stage.info().columns_kept, 0);
    assert_eq!(stage.take(&scan, 0).wanted(), [SharedItem::Column(0)]);
    assert_eq!(stage.broker.reserved_bytes(), 0);
}

#[test]
fn columns_have_their_part_of_the_budget_and_give_way_to_queries() {
    // Half of it has room for some ten columns of a cluster.
    let stage = Stage::new(20 * (ROWS * 8 + 300), 40);
    drop(stage.scan(&[0]));
    stage.run(&[0]);
    let info = stage.info();
    assert!(info.columns_bytes <= stage.broker.budget_bytes() / 2 && info.columns_kept >= 8, "{info:?}");
    // Who scans everything again and again finds what fits.
    let before = info.columns_kept;
    for _ in 0..3 {
        stage.run(&[0]);
    }
    assert!(stage.info().columns_read_total >= 2 * before as u64, "{:?}", stage.info());
    // What is read stays counted as long as it is.
    let scan = stage.scan(&[0]);
    let places = (0..40).find(|place| ready(&stage.take(&scan, *place)).0 == 1).unwrap();
    let read = stage.take(&scan, places);
    let query = stage.broker.account(QueryId(1), None);
    let mut wanted = query.reservation("Query");
    assert!(wanted.grow(stage.broker.budget_bytes() - ROWS * 8 - 300).is_ok());
    assert!(stage.info().columns_kept <= 1, "{:?}", stage.info());
    assert!(stage.broker.reserved_bytes() > wanted.bytes());
    assert!(read.windows(SharedItem::Column(0)).is_some());
    drop((read, scan, wanted));
    assert!(stage.broker.reserved_bytes() <= stage.info().columns_bytes);
}

#[test]
fn nothing_is_left_for_a_while_after_memory_was_short() {
    let stage = Stage::new(1 << 20, 2);
    drop(stage.scan(&[0]));
    let scan = stage.scan(&[0]);
    let wanted = || stage.take(&scan, 0).wanted();
    assert_eq!(wanted(), [SharedItem::Column(0)]);
    let mut query = stage.broker.account(QueryId(1), None).revocable("Sort");
    assert!(query.grow(2 << 20).is_err(), "more than there is, though nothing is kept yet");
    assert!(wanted().is_empty());
    stage.clock.advance(COLUMNS_REST.as_nanos() as u64 / 2);
    assert!(query.grow(2 << 20).is_err());
    stage.clock.advance(COLUMNS_REST.as_nanos() as u64 * 3 / 4);
    assert!(wanted().is_empty(), "it was short again");
    stage.clock.advance(COLUMNS_REST.as_nanos() as u64 / 4);
    assert_eq!(wanted(), [SharedItem::Column(0)]);
}

fn compared(column: usize, operator: Operator, constant: i64) -> [Arc<dyn PhysicalExpr>; 2] {
    let (column, constant): (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>) =
        (Arc::new(Column::new("any name", column)), Arc::new(Literal::new(ScalarValue::Int64(Some(constant)))));
    [
        Arc::new(BinaryExpr::new(column.clone(), operator, constant.clone())),
        Arc::new(BinaryExpr::new(constant, operator.swap().unwrap(), column)),
    ]
}

#[test]
fn what_a_condition_says_is_left_for_equal_ones() {
    let stage = Stage::new(1 << 20, 2);
    let attend = |condition: &Arc<dyn PhysicalExpr>, column: usize| {
        let conditions = std::iter::once(condition);
        stage.scans.attend(&stage.table, &stage.clusters, &[column], conditions, WINDOW_ROWS, true).unwrap()
    };
    let [one, mirrored] = compared(1, Operator::Lt, 5);
    let [other, _] = compared(1, Operator::Lt, 6);
    let first = attend(&one, 0);
    assert!(stage.take(&first, 0).wanted().is_empty(), "nobody else has the condition");
    let second = attend(&mirrored, 1);
    let answer = second.answers().next().unwrap().unwrap();
    assert!(first.answers().eq([Some(answer)]), "5 > b is b < 5");
    let columns = stage.take(&first, 0);
    assert_eq!(columns.wanted(), [SharedItem::Answer(answer)], "of the columns they have none in common");
    decode(&columns);
    drop(columns);
    let third = attend(&other, 1);
    assert!(third.answers().ne([Some(answer)]));
    assert_eq!(ready(&stage.take(&third, 0)), (0, 0));
    let columns = stage.take(&second, 0);
    assert_eq!((ready(&columns), columns.is_all()), ((0, 1), false), "the column itself is not there");
    drop((columns, first, third));
    // The part of an answer stays as long as states do; or until nobody scans the table.
    stage.scans.keep_answers(false);
    assert_eq!(ready(&stage.take(&second, 0)), (0, 1));
    drop(second);
    let again = attend(&one, 0);
    assert_eq!(ready(&stage.take(&again, 0)), (0, 0));
    assert_eq!(stage.info().columns_kept, 0);
}

#[test]
fn conditions_are_not_remembered_without_end() {
    let stage = Stage::new(1 << 20, 1);
    let attend = |constant| {
        let [condition, _] = compared(0, Operator::Eq, constant);
        let scan =
            stage.scans.attend(&stage.table, &stage.clusters, &[0], std::iter::once(&condition), WINDOW_ROWS, true);
        scan.unwrap()
    };
    let (held, often) = (attend(-1), attend(-2));
    let (held_number, often_number) = (held.answers().next().unwrap(), often.answers().next().unwrap());
    drop((often, attend(-2)));
    for constant in 0..2500 {
        assert!(attend(constant).answers().next().unwrap().is_some(), "{constant}");
    }
    assert_eq!(attend(-1).answers().next().unwrap(), held_number, "one that runs");
    assert_eq!(attend(-2).answers().next().unwrap(), often_number, "one that came twice");
}

#[test]
fn a_table_that_is_gone_takes_its_columns_along() {
    let mut stage = Stage::new(1 << 20, 2);
    drop(stage.scan(&[0]));
    stage.run(&[0]);
    assert_eq!(stage.info().columns_kept, 2);
    stage.table = Arc::new(Named::new("another"));
    let info = stage.info();
    assert_eq!((info.columns_kept, info.columns_bytes, info.builds.len()), (0, 0, 0));
    assert_eq!(stage.broker.reserved_bytes(), 0);
    let scan = stage.scan(&[0]);
    assert_eq!(ready(&stage.take(&scan, 0)), (0, 0));
}
