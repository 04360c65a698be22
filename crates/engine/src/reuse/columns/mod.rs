//! Columns that are decoded once for several scans (cooperative scans; Zukowski, Héman, Nes & Boncz, "Cooperative
//! Scans: Dynamic Bandwidth Sharing in a DBMS", VLDB 2007; QPipe's shared scans, Harizopoulos, "Staged Database
//! Systems", section 4.2).
//!
//! A scan says which clusters it still needs ([`Scans::attend`]). What others have decoded of a cluster it reads; what
//! nobody has decoded, and others want as well or wanted before, it decodes as a whole and leaves here. Of the clusters
//! that it still needs it takes those first that are here already, then those that most others need, and last those at
//! which others are at work. So scans that run at the same time, wherever each of them began, read and decode every
//! cluster once between them; none waits for another, and whoever comes late finds first what was done before he came.
//!
//! Of what is here it takes first what any scan has read last, and chooses when it is about to read. Queries take turns
//! on the workers; so their packets read a cluster one after the other while it is in the processors' caches: a
//! *cohort*, which whoever needs the cluster joins with his next turn, and in which nobody is made to wait.
//!
//! What a condition says of all rows of a cluster is left in the same way, as a column of bits, and found by scans with
//! an equal condition, whatever else they want: each sub-predicate is evaluated once for all. It is a part of an
//! answer, so it stays for later scans only while
//! [states](super::retained) do; else for those that run at the same time.
//!
//! What is here is *spare*: memory that no query needs. Whoever is short has it dropped at once, and for some time
//! nothing is left here then: a query that writes to temp space what does not fit is short again and again. Beyond its
//! part of the budget, what goes first is what saves least for its bytes, values rising with time (as [retained
//! states](super::retained) do), and of that what no running scan needs.
//!
//! Invariants:
//! * A column is here as a whole, in windows of as many rows as the batches of whoever decoded it, or not at all. Scans
//!   whose batches are a half of these, or another whole part, read them in parts; one whose batches are twice as many
//!   rows may leave it anew, in its windows.
//! * What a reader holds stays counted until he lets it go, also if it is dropped here.
//! * At most one scan decodes a column of a cluster *for others* at a time; nobody has to wait for it.
//! * The lock is held for no longer than it takes to look things up. Nothing is dropped, reserved or decoded under it.

mod shelf;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::Result;
use diligence_base::ids::TableId;
use diligence_base::limits::COLUMNS_REST;
use diligence_base::seams::Clock;
use diligence_memory::{Broker, QueryMemory, Reclaim, Reservation};
use diligence_storage::{AnswerId, Cluster, SharedColumns, SharedItem, Table};

use self::shelf::{ClusterShelf, Decoded, Entry, ItemId, Shelf, Slot, TableShelf, Value};
use super::{BuildInfo, SharingInfo};
use crate::batch::{bytes_needed, compacted};
use crate::matching::canonical::canonical;
use crate::plan::{Node, Plan, PlanTables};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Latch, Mutex};

/// Columns that scans have decoded for others.
static SHELF: Latch = Latch::new("decoded columns");

/// Clusters of a scan among which the next one is chosen.
const CHOICE_MAX: usize = 64;

/// What a cluster is worth that is here as a whole.
const WORTH_READY: usize = usize::MAX;

/// The cluster, by its position among those that a scan still needs, that it takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All that the scan wants of it is here.
    Here(usize),
    /// It is to be read.
    Read(usize),
}

/// All columns that are kept, and the scans that may want them.
pub(crate) struct Scans {
    memory: QueryMemory,
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
    percent: AtomicUsize,
    /// Whether what conditions said stays when no scan of the table runs.
    keeps_answers: AtomicBool,
    /// Until when nothing is left, since a query was short of memory; on the clock.
    rests_until_ns: AtomicU64,
    shelf: Mutex<Shelf>,
}

impl Scans {
    /// Nothing yet. Columns may have so many percent of the budget.
    pub fn new(broker: &Arc<Broker>, clock: Arc<dyn Clock>, percent: usize) -> Arc<Self> {
        let scans = Arc::new(Self {
            memory: broker.retained_account(),
            broker: broker.clone(),
            clock,
            percent: AtomicUsize::new(percent),
            keeps_answers: AtomicBool::new(true),
            rests_until_ns: AtomicU64::new(0),
            shelf: Mutex::named(&SHELF, Shelf::default()),
        });
        let spare: Arc<dyn Reclaim> = scans.clone();
        broker.add_spare(Arc::downgrade(&spare));
        scans
    }

    pub fn percent(&self) -> usize {
        self.percent.load(Ordering::Relaxed)
    }

    /// Changes the part of the budget; with 0, nothing is kept.
    pub fn set_percent(&self, percent: usize) {
        self.percent.store(percent, Ordering::Relaxed);
        let gone = self.shelf.lock().shrink(self.bytes_max());
        drop(gone);
    }

    /// Whether what conditions said of rows stays for scans that come when no other one of the table runs.
    pub fn keep_answers(&self, keeps: bool) {
        self.keeps_answers.store(keeps, Ordering::Relaxed);
        if !keeps {
            let gone = self.shelf.lock().forget_idle_answers();
            drop(gone);
        }
    }

    fn bytes_max(&self) -> usize {
        self.broker.budget_bytes() / 100 * self.percent()
    }

    /// Whether memory is short, or was a moment ago.
    fn rests(&self) -> bool {
        self.broker.is_wanted() || self.clock.now_ns() < self.rests_until_ns.load(Ordering::Relaxed)
    }

    /// A scan begins that wants these columns of these clusters, under these conditions over the table's schema, in
    /// windows of `window_rows`. One that `leaves` something decodes columns as a whole where others want them. `None`
    /// if there is nothing to share.
    pub fn attend<'a>(
        self: &Arc<Self>,
        table: &Arc<dyn Table>,
        clusters: &[Arc<dyn Cluster>],
        columns: &[usize],
        conditions: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
        window_rows: usize,
        leaves: bool,
    ) -> Option<Arc<Attendance>> {
        // The clusters of a table that are shared hold the same columns.
        let shared = clusters.iter().find(|cluster| cluster.place().is_some());
        let is_held = |column: &usize| shared.is_some_and(|cluster| cluster.holds(*column));
        let columns = columns.iter().copied().filter(is_held).collect::<Vec<_>>();
        if self.percent() == 0 || columns.is_empty() || !table.is_watched() {
            return None;
        }
        let indexes = clusters.iter().enumerate().filter_map(|(index, cluster)| Some((cluster.place()?, index)));
        let indexes = indexes.collect::<HashMap<_, _>>();
        let places = indexes.keys().copied().collect::<HashSet<_>>();
        if places.is_empty() {
            return None;
        }
        let id = table.identity().table;
        let conditions = conditions.map(canonical).collect::<Vec<_>>();
        let (scan, answers, gone) = {
            let mut shelf = self.shelf.lock();
            if shelf.closed {
                return None;
            }
            let mut gone = if shelf.tables.contains_key(&id) { Vec::new() } else { shelf.sweep() };
            let scan = shelf.scans_made;
            shelf.scans_made += 1;
            gone.extend(shelf.forget_rare_conditions(id, conditions.len()));
            let own = shelf.tables.entry(id).or_insert_with(|| TableShelf::new(table));
            own.table = Arc::downgrade(table);
            let answers = conditions.into_iter().map(|condition| own.number(condition?)).collect::<Vec<_>>();
            for item in items(&columns, &answers) {
                let interest = own.items.entry(item).or_default();
                interest.running += 1;
                interest.scans += 1;
            }
            for place in &places {
                own.clusters.entry(*place).or_default().needed += 1;
            }
            own.scans.insert(scan, places);
            (scan, answers, gone)
        };
        drop(gone);
        Some(Arc::new(Attendance {
            scans: self.clone(),
            table: id,
            scan,
            indexes,
            columns,
            answers,
            window_rows,
            leaves,
        }))
    }

    /// A query waits whose scans want what these do: whoever scans the same meanwhile is not the only one who wants it.
    pub fn expect(&self, plan: &Plan, tables: &PlanTables) {
        plan.inputs().into_iter().for_each(|input| self.expect(input, tables));
        let Node::Scan(scan) = &plan.node else { return };
        let Some(table) = tables.find(scan.table) else { return };
        if self.percent() == 0 || !table.is_watched() {
            return;
        }
        let mut columns: HashSet<usize> = scan.columns.iter().copied().collect();
        columns.extend(scan.filters.iter().flat_map(|filter| filter.columns().iter().copied()));
        columns.extend(scan.runtime_filters.iter().map(|(_, column)| *column));
        let mut shelf = self.shelf.lock();
        if shelf.closed {
            return;
        }
        let own = shelf.tables.entry(scan.table.table).or_insert_with(|| TableShelf::new(&table));
        for column in columns {
            own.items.entry(SharedItem::Column(column)).or_default().scans += 1;
        }
    }

    /// Keeps a column that was claimed.
    fn keep(&self, id: ItemId, decoded: Decoded) {
        let bytes_max = self.bytes_max();
        let decoded = Arc::new(decoded);
        let gone = {
            let mut shelf = self.shelf.lock();
            let value = Value::new(shelf.floor + decoded.cost);
            let is_open = !shelf.closed && decoded.bytes <= bytes_max;
            let Some(cluster) = shelf.cluster(id.table, id.place) else { return };
            cluster.remove(id.item);
            if !is_open {
                return;
            }
            let entry = Entry { decoded: decoded.clone(), uses: 0, value };
            cluster.items.push((id.item, Slot::Kept(entry)));
            shelf.by_value.insert((value, id));
            shelf.bytes += decoded.bytes;
            shelf.fills_total += 1;
            shelf.shrink(bytes_max)
        };
        drop((gone, decoded));
        // Somebody who came to wait meanwhile did not see it; whoever comes later does.
        if self.broker.is_wanted() {
            self.drop_some(1);
        }
    }

    fn drop_some(&self, bytes: usize) {
        let gone = {
            let mut shelf = self.shelf.lock();
            let left = shelf.bytes.saturating_sub(bytes);
            shelf.shrink(left)
        };
        drop(gone);
    }

    /// Keeps nothing any more.
    pub fn close(&self) {
        let gone = {
            let mut shelf = self.shelf.lock();
            shelf.closed = true;
            shelf.shrink(0)
        };
        drop(gone);
    }

    /// Adds what is kept, and what was, to what people are shown.
    pub fn describe(&self, info: &mut SharingInfo) {
        let gone = {
            let mut shelf = self.shelf.lock();
            let gone = shelf.sweep();
            info.columns_bytes = shelf.bytes;
            info.columns_kept = shelf.by_value.len();
            (info.columns_read_total, info.columns_left_total) = (shelf.hits_total, shelf.fills_total);
            (info.columns_drops_total, info.cohort_reads_total) = (shelf.drops_total, shelf.cohort_reads_total);
            for table in shelf.tables.values() {
                let kept = table.clusters.values().flat_map(|cluster| &cluster.items);
                let kept = kept.filter_map(|(_, slot)| if let Slot::Kept(entry) = slot { Some(entry) } else { None });
                let bytes = kept.map(|entry| entry.decoded.bytes).sum();
                if bytes == 0 && table.scans.is_empty() {
                    continue;
                }
                info.builds.push(BuildInfo {
                    state: "decoded",
                    queries: table.items.keys().filter(|item| item.column().is_some()).count(),
                    readers: table.scans.len(),
                    elapsed_ns: 0,
                    bytes,
                    uses: table.hits,
                    value: 0.0,
                    label: table.table.upgrade().map(|table| table.describe()).unwrap_or_default(),
                });
            }
            gone
        };
        drop(gone);
    }
}

impl Reclaim for Scans {
    fn reclaimable_bytes(&self) -> usize {
        self.shelf.lock().bytes
    }

    fn poll_reclaim(&self, bytes: usize, _waker: &Waker) -> Poll<Result<()>> {
        self.rests_until_ns.store(self.clock.now_ns() + COLUMNS_REST.as_nanos() as u64, Ordering::Relaxed);
        self.drop_some(bytes);
        Poll::Ready(Ok(()))
    }
}

/// A scan that shares columns, until it ends.
pub(crate) struct Attendance {
    scans: Arc<Scans>,
    table: TableId,
    scan: u64,
    /// Where each place is among the clusters with which the scan began.
    indexes: HashMap<u64, usize>,
    columns: Vec<usize>,
    /// For each condition the number under which its answers are shared.
    answers: Vec<Option<AnswerId>>,
    window_rows: usize,
    leaves: bool,
}

impl Attendance {
    /// For each condition the number under which its answers are shared.
    pub fn answers(&self) -> impl Iterator<Item = Option<AnswerId>> {
        self.answers.iter().copied()
    }

    /// Which of these clusters, the next of those that the scan still needs, is worth most at the moment. They come
    /// with their positions among those with which the scan began, in that order.
    pub fn choose(&self, left: &VecDeque<(usize, Arc<dyn Cluster>)>) -> Choice {
        let shelf = self.scans.shelf.lock();
        let Some(table) = shelf.tables.get(&self.table) else { return Choice::Read(0) };
        // Nothing is here, and nobody else is.
        if table.scans.len() < 2 && shelf.by_value.is_empty() {
            return Choice::Read(0);
        }
        let hot = table.hot.iter().find_map(|hot| {
            let index = self.indexes.get(&hot.place)?;
            let position = left.binary_search_by_key(index, |(index, _)| *index).ok()?;
            (self.worth(table.clusters.get(&hot.place)) == WORTH_READY).then_some(position)
        });
        if let Some(position) = hot {
            return Choice::Here(position);
        }
        let mut best = (0, 0);
        for (position, (_, cluster)) in left.iter().take(CHOICE_MAX).enumerate() {
            let worth = cluster.place().map_or(1, |place| self.worth(table.clusters.get(&place)));
            if worth == WORTH_READY {
                return Choice::Here(position);
            }
            if position == 0 || worth > best.0 {
                best = (worth, position);
            }
        }
        Choice::Read(best.1)
    }

    fn worth(&self, cluster: Option<&ClusterShelf>) -> usize {
        let Some(cluster) = cluster else { return 1 };
        let (mut is_ready, mut is_idle) = (true, false);
        for column in &self.columns {
            match cluster.slot(SharedItem::Column(*column)) {
                Some(Slot::Kept(entry)) if entry.decoded.serves(self.window_rows) => {}
                Some(Slot::Kept(entry)) if entry.decoded.gives_way_to(self.window_rows) => {
                    (is_ready, is_idle) = (false, true);
                }
                Some(_) => is_ready = false,
                None => (is_ready, is_idle) = (false, true),
            }
        }
        match (is_ready, is_idle) {
            (true, _) => WORTH_READY,
            // Others are about to leave all that is missing, or have left it in other windows.
            (false, false) => 0,
            (false, true) => 1 + cluster.needed,
        }
    }

    /// What is here of a cluster that the scan is about to read, and what it is to leave. If it `must_be_here`, `None`
    /// unless all is.
    pub fn take(self: &Arc<Self>, cluster: &dyn Cluster, must_be_here: bool) -> Option<Arc<ClusterColumns>> {
        let place = cluster.place()?;
        let leaves = self.leaves && !self.scans.rests();
        let bytes_max = self.scans.bytes_max();
        let (mut ready, mut claims, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let (scans, cohort);
        {
            let shelf = &mut *self.scans.shelf.lock();
            let floor = shelf.floor;
            let is_full = shelf.bytes >= bytes_max;
            let least = shelf.by_value.first().map_or(f64::INFINITY, |(value, _)| value.number());
            let (mut moved, mut smaller) = (Vec::new(), Vec::new());
            let table = shelf.tables.get_mut(&self.table)?;
            if must_be_here && self.worth(table.clusters.get(&place)) != WORTH_READY {
                return None;
            }
            scans = table.scans.len();
            let own = table.clusters.entry(place).or_default();
            for item in items(&self.columns, &self.answers) {
                match own.items.iter_mut().find(|(other, _)| *other == item).map(|(_, slot)| slot) {
                    Some(Slot::Kept(entry)) if entry.decoded.serves(self.window_rows) => {
                        entry.uses += 1;
                        let value = Value::new(floor + entry.decoded.cost * (entry.uses + 1) as f64);
                        moved.push((ItemId { table: self.table, place, item }, entry.value, value));
                        entry.value = value;
                        ready.push((item, entry.decoded.clone()));
                    }
                    Some(Slot::Kept(entry)) if entry.decoded.gives_way_to(self.window_rows) => {
                        if leaves {
                            smaller.push(ItemId { table: self.table, place, item });
                        }
                    }
                    Some(_) => {}
                    None => {
                        let wanted = table.items.get(&item).is_some_and(|by| by.running > 1 || by.scans > 1);
                        if leaves && wanted && (!is_full || least < floor + COST_EXPECTED) {
                            own.items.push((item, Slot::Claimed));
                            claims.push(item);
                        }
                    }
                }
            }
            table.hits += ready.len() as u64;
            let is_here = ready.iter().filter(|(item, _)| item.column().is_some()).count() == self.columns.len();
            cohort = if is_here { table.cohort(self.scan, place) } else { 0 };
            shelf.hits_total += ready.len() as u64;
            shelf.cohort_reads_total += u64::from(cohort > 1);
            for (id, before, now) in moved {
                shelf.by_value.remove(&(before, id));
                shelf.by_value.insert((now, id));
            }
            for id in smaller {
                gone.extend(shelf.remove(id));
                if let Some(own) = shelf.cluster(id.table, id.place) {
                    own.items.push((id.item, Slot::Claimed));
                    claims.push(id.item);
                }
            }
        }
        drop(gone);
        let cut = |(item, decoded): (SharedItem, Arc<Decoded>)| {
            let cut = decoded.cut(self.window_rows);
            Ready { item, decoded, cut }
        };
        let ready = ready.into_iter().map(cut).collect();
        let claim = |item: SharedItem| Claim {
            item,
            windows: Vec::new(),
            rows: 0,
            read_bytes: item.column().map_or(0, |column| cluster.bytes(&[column])),
            memory: self.scans.memory.reservation("Shared columns"),
        };
        let claims = claims.into_iter().map(claim).collect();
        let mut columns = ClusterColumns {
            attendance: self.clone(),
            place,
            scans,
            cohort,
            saved_bytes: 0,
            ready,
            claims: Mutex::new(claims),
        };
        columns.saved_bytes = columns.unread_bytes(cluster);
        Some(Arc::new(columns))
    }

    /// The scan has read the cluster. If all of it is here now, others may read it while it is hot.
    fn done(&self, place: u64) {
        let mut shelf = self.scans.shelf.lock();
        if let Some(table) = shelf.tables.get_mut(&self.table) {
            if self.worth(table.clusters.get(&place)) == WORTH_READY {
                table.touch(self.scan, place);
            }
            table.release(self.scan, place);
        }
    }
}

/// What one cluster's column may have at most of what all may have. A packed file is one cluster, however large.
const CLAIM_SHARE: usize = 4;

/// What a column is expected to cost for each byte before it is decoded: about half of it is read.
const COST_EXPECTED: f64 = 1.5;

/// What a byte of a condition's answers costs: it took eight values.
const ANSWER_COST: f64 = 16.0;

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut shelf = self.scans.shelf.lock();
        let Some(table) = shelf.tables.get_mut(&self.table) else { return };
        let is_last = table.scans.len() == 1;
        let places = table.scans.get(&self.scan).map(|places| places.iter().copied().collect::<Vec<_>>());
        for place in places.unwrap_or_default() {
            table.release(self.scan, place);
        }
        table.scans.remove(&self.scan);
        for item in items(&self.columns, &self.answers) {
            if let Some(interest) = table.items.get_mut(&item) {
                interest.running -= 1;
            }
        }
        if is_last && !self.scans.keeps_answers.load(Ordering::Relaxed) {
            let gone = shelf.forget_idle_answers();
            drop(shelf);
            drop(gone);
        }
    }
}

/// One cluster's columns for one scan: those that are here, and those that it is to leave.
pub(crate) struct ClusterColumns {
    attendance: Arc<Attendance>,
    place: u64,
    /// Scans of the table that run at the moment.
    scans: usize,
    /// Scans that have read the cluster one after the other, this one as the last; 0 if not all is here.
    cohort: usize,
    /// What need not be read since it is here.
    saved_bytes: usize,
    ready: Vec<Ready>,
    claims: Mutex<Vec<Claim>>,
}

/// A column, or a condition's answers, that is here.
struct Ready {
    item: SharedItem,
    decoded: Arc<Decoded>,
    /// In the reader's windows, if they are others.
    cut: Option<Vec<ArrayRef>>,
}

impl Ready {
    fn windows(&self) -> &[ArrayRef] {
        self.cut.as_ref().unwrap_or(&self.decoded.windows)
    }
}

/// What a scan found of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Columns that are here.
    pub columns: usize,
    /// Conditions whose answers are.
    pub answers: usize,
    /// What need not be read for that.
    pub saved_bytes: usize,
    /// Scans of the table at that moment, this one among them.
    pub scans: usize,
    /// Scans that have read it one after the other, this one as the last, while all of it is here; else 0.
    pub cohort: usize,
}

struct Claim {
    item: SharedItem,
    windows: Vec<ArrayRef>,
    rows: usize,
    read_bytes: usize,
    memory: Reservation,
}

impl ClusterColumns {
    /// Of these columns, those that are not here.
    pub fn missing(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().copied().filter(|column| !self.has(*column)).collect()
    }

    /// Whether all columns are here that are read of the cluster.
    pub fn is_all(&self) -> bool {
        self.attendance.columns.iter().all(|column| self.has(*column))
    }

    /// What is here.
    pub fn found(&self) -> Found {
        let columns = self.ready.iter().filter(|ready| ready.item.column().is_some()).count();
        let (answers, saved_bytes) = (self.ready.len() - columns, self.saved_bytes);
        Found { columns, answers, saved_bytes, scans: self.scans, cohort: self.cohort }
    }

    fn unread_bytes(&self, cluster: &dyn Cluster) -> usize {
        let all = &self.attendance.columns;
        let missing = self.missing(all);
        if missing.len() == all.len() {
            return 0;
        }
        // Text is read for one column as for all, and not at all for none.
        cluster.bytes(all).saturating_sub(if missing.is_empty() { 0 } else { cluster.bytes(&missing) })
    }

    fn has(&self, column: usize) -> bool {
        self.ready.iter().any(|ready| ready.item == SharedItem::Column(column))
    }

    fn id(&self, item: SharedItem) -> ItemId {
        ItemId { table: self.attendance.table, place: self.place, item }
    }

    /// Nobody decodes these columns for others any more.
    fn give_up(&self, claims: Vec<Claim>) {
        if claims.is_empty() {
            return;
        }
        {
            let mut shelf = self.attendance.scans.shelf.lock();
            if let Some(cluster) = shelf.cluster(self.attendance.table, self.place) {
                for claim in &claims {
                    cluster.remove(claim.item);
                }
            }
        }
        drop(claims);
    }
}

impl SharedColumns for ClusterColumns {
    fn windows(&self, item: SharedItem) -> Option<&[ArrayRef]> {
        self.ready.iter().find(|ready| ready.item == item).map(Ready::windows)
    }

    fn wanted(&self) -> Vec<SharedItem> {
        self.claims.lock().iter().map(|claim| claim.item).collect()
    }

    fn put(&self, item: SharedItem, window: &ArrayRef) -> bool {
        let mut claims = self.claims.lock();
        let Some(position) = claims.iter().position(|claim| claim.item == item) else { return false };
        let claim = &mut claims[position];
        let bytes_max = self.attendance.scans.bytes_max();
        // What is kept must not keep other rows alive.
        let is_dictionary = matches!(window.data_type(), DataType::Dictionary(..));
        let own = if is_dictionary { Ok(window.clone()) } else { compacted(window) };
        let is_held = own.is_ok_and(|own| {
            let is_held = claim.memory.bytes() <= bytes_max / CLAIM_SHARE
                && !self.attendance.scans.rests()
                && claim.memory.grow(more_bytes(claim.windows.last(), &own)).is_ok();
            claim.rows += own.len();
            claim.windows.push(own);
            is_held
        });
        if !is_held {
            let claim = claims.swap_remove(position);
            drop(claims);
            self.give_up(vec![claim]);
        }
        is_held
    }

    fn complete(&self, rows: usize) {
        let claims = std::mem::take(&mut *self.claims.lock());
        let (complete, broken): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| claim.rows == rows);
        self.give_up(broken);
        for Claim { item, windows, read_bytes, memory, .. } in complete {
            let bytes = memory.bytes();
            let cost = match item {
                SharedItem::Column(_) => 1.0 + read_bytes as f64 / bytes.max(1) as f64,
                SharedItem::Answer(_) => ANSWER_COST,
            };
            let window_rows = self.attendance.window_rows;
            self.attendance.scans.keep(self.id(item), Decoded { windows, window_rows, bytes, cost, memory });
        }
        self.attendance.done(self.place);
    }
}

impl Drop for ClusterColumns {
    fn drop(&mut self) {
        let claims = std::mem::take(&mut *self.claims.lock());
        self.give_up(claims);
    }
}

/// What a scan shares: its columns, and the answers of its conditions.
fn items(columns: &[usize], answers: &[Option<AnswerId>]) -> impl Iterator<Item = SharedItem> {
    let answers = answers.iter().flatten().copied().map(SharedItem::Answer);
    columns.iter().copied().map(SharedItem::Column).chain(answers)
}

/// Bytes that a window needs beside the one before it: they may have one dictionary.
fn more_bytes(before: Option<&ArrayRef>, window: &ArrayRef) -> usize {
    let Some(now) = window.as_dictionary_opt::<Int32Type>() else { return bytes_needed(window) };
    let before = before.and_then(|before| before.as_dictionary_opt::<Int32Type>());
    let has_values = before.is_some_and(|before| Arc::ptr_eq(before.values(), now.values()));
    bytes_needed(now.keys()) + if has_values { 0 } else { now.values().get_array_memory_size() }
}
