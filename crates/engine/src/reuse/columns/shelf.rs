//! What is kept of which table and cluster, who wants it, and what goes first.

use std::any::Any;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use arrow::array::ArrayRef;
use diligence_base::ids::TableId;
use diligence_memory::Reservation;
use diligence_storage::{AnswerId, SharedItem, Table};

use crate::matching::canonical::Canonical;

/// Conditions of one table that are remembered.
const CONDITIONS_MAX: usize = 1000;

/// Clusters of a table that are remembered as read last. The processors' caches seldom hold more.
const HOT_MAX: usize = 16;

/// Columns that are looked at to find one that no running scan needs.
const VICTIMS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Shelf {
    pub tables: HashMap<TableId, TableShelf>,
    /// The least valuable first.
    pub by_value: BTreeSet<(Value, ItemId)>,
    pub bytes: usize,
    /// The value of what was dropped last.
    pub floor: f64,
    pub scans_made: u64,
    pub hits_total: u64,
    pub cohort_reads_total: u64,
    pub fills_total: u64,
    pub drops_total: u64,
    pub closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ItemId {
    pub table: TableId,
    pub place: u64,
    pub item: SharedItem,
}

/// A value that is at least zero, by its bits: these have the order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value(u64);

pub(super) struct TableShelf {
    /// The version that was scanned last.
    pub table: Weak<dyn Table>,
    /// What lives as long as any version.
    lineage: Option<Weak<dyn Any + Send + Sync>>,
    pub clusters: HashMap<u64, ClusterShelf>,
    /// For each column, and each condition's answers, the scans that want it.
    pub items: HashMap<SharedItem, Interest>,
    /// The numbers of the answers of conditions.
    conditions: HashMap<Canonical, AnswerId>,
    conditions_made: usize,
    /// The running scans, and the clusters that each still needs.
    pub scans: HashMap<u64, HashSet<u64>>,
    /// The clusters that were read last, the latest first.
    pub hot: VecDeque<Hot>,
    pub hits: u64,
}

/// A cluster that was read of late, so that it may be in the processors' caches.
pub(super) struct Hot {
    pub place: u64,
    /// The scan that read it last.
    scan: u64,
    /// How many have, one after the other, by then.
    cohort: usize,
}

#[derive(Default)]
pub(super) struct ClusterShelf {
    /// Running scans that need it.
    pub needed: usize,
    pub items: Vec<(SharedItem, Slot)>,
}

#[derive(Default)]
pub(super) struct Interest {
    pub running: usize,
    /// Since the table was opened.
    pub scans: u64,
}

pub(super) enum Slot {
    /// Somebody decodes it for others.
    Claimed,
    Kept(Entry),
}

pub(super) struct Entry {
    pub decoded: Arc<Decoded>,
    pub uses: u64,
    pub value: Value,
}

/// A column of a cluster.
pub(super) struct Decoded {
    pub windows: Vec<ArrayRef>,
    /// Rows in a window, but for the last.
    pub window_rows: usize,
    pub bytes: usize,
    /// What decoding costs for each byte, next to others: what is read and what is made.
    pub cost: f64,
    #[expect(dead_code, reason = "dropping it gives the bytes back")]
    pub memory: Reservation,
}

impl Value {
    pub fn new(value: f64) -> Self {
        Self(value.max(0.0).to_bits())
    }

    pub fn number(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Decoded {
    /// Whether a scan with windows of so many rows can read it: its windows are these, or parts of these.
    pub fn serves(&self, window_rows: usize) -> bool {
        self.window_rows == window_rows || self.is_even() && self.window_rows.is_multiple_of(window_rows)
    }

    /// Whether what such a scan leaves would serve whoever reads this one too.
    pub fn gives_way_to(&self, window_rows: usize) -> bool {
        !self.serves(window_rows) && self.is_even() && window_rows.is_multiple_of(self.window_rows)
    }

    /// Whether no window but the last is short. Text and record batches end some sooner: then smaller windows begin
    /// elsewhere.
    fn is_even(&self) -> bool {
        self.windows.iter().rev().skip(1).all(|window| window.len() == self.window_rows)
    }

    /// Its values in windows of so many rows, which it serves; `None` if these are its own.
    pub fn cut(&self, window_rows: usize) -> Option<Vec<ArrayRef>> {
        if self.window_rows == window_rows {
            return None;
        }
        let cut = |window: &ArrayRef| {
            let (window, rows) = (window.clone(), window.len());
            (0..rows).step_by(window_rows).map(move |first| window.slice(first, window_rows.min(rows - first)))
        };
        Some(self.windows.iter().flat_map(cut).collect())
    }
}

impl Entry {
    pub fn is_read(&self) -> bool {
        Arc::strong_count(&self.decoded) > 1
    }
}

impl ClusterShelf {
    pub fn slot(&self, item: SharedItem) -> Option<&Slot> {
        self.items.iter().find(|(other, _)| *other == item).map(|(_, slot)| slot)
    }

    pub fn remove(&mut self, item: SharedItem) -> Option<Slot> {
        let position = self.items.iter().position(|(other, _)| *other == item)?;
        Some(self.items.swap_remove(position).1)
    }
}

impl Shelf {
    pub fn cluster(&mut self, table: TableId, place: u64) -> Option<&mut ClusterShelf> {
        self.tables.get_mut(&table)?.clusters.get_mut(&place)
    }

    pub fn remove(&mut self, id: ItemId) -> Option<Arc<Decoded>> {
        let table = self.tables.get_mut(&id.table)?;
        let cluster = table.clusters.get_mut(&id.place)?;
        let Some(Slot::Kept(_)) = cluster.slot(id.item) else { return None };
        let Some(Slot::Kept(entry)) = cluster.remove(id.item) else { return None };
        if cluster.items.is_empty() && cluster.needed == 0 {
            table.clusters.remove(&id.place);
        }
        self.by_value.remove(&(entry.value, id));
        self.bytes -= entry.decoded.bytes;
        self.drops_total += 1;
        Some(entry.decoded)
    }

    /// What is to go next: of the least valuable, one that no running scan needs and nobody reads, if there is one.
    pub fn victim(&self) -> Option<(Value, ItemId)> {
        let is_idle = |id: &ItemId| {
            let cluster = self.tables.get(&id.table).and_then(|table| table.clusters.get(&id.place));
            cluster.is_none_or(|cluster| {
                cluster.needed == 0 && !matches!(cluster.slot(id.item), Some(Slot::Kept(entry)) if entry.is_read())
            })
        };
        let idle = self.by_value.iter().take(VICTIMS_MAX).find(|(_, id)| is_idle(id));
        idle.or_else(|| self.by_value.first()).copied()
    }

    /// Takes away until at most `bytes` are left.
    pub fn shrink(&mut self, bytes: usize) -> Vec<Arc<Decoded>> {
        let mut gone = Vec::new();
        while self.bytes > bytes
            && let Some((value, id)) = self.victim()
        {
            self.floor = self.floor.max(value.number());
            match self.remove(id) {
                Some(decoded) => gone.push(decoded),
                None => {
                    self.by_value.remove(&(value, id));
                }
            }
        }
        gone
    }

    /// Takes away what conditions have said, of tables that no scan runs over.
    pub fn forget_idle_answers(&mut self) -> Vec<Arc<Decoded>> {
        let tables = self.tables.iter().filter(|(_, shelf)| shelf.scans.is_empty()).map(|(id, _)| *id);
        let tables = tables.collect::<Vec<_>>();
        tables.into_iter().flat_map(|table| self.remove_of(table, |item| item.column().is_none())).collect()
    }

    /// Makes room for as many conditions more of a table, if there are too many: those go first that only one scan had.
    pub fn forget_rare_conditions(&mut self, id: TableId, more: usize) -> Vec<Arc<Decoded>> {
        let mut forgotten = HashSet::new();
        if let Some(table) = self.tables.get_mut(&id) {
            for scans in [1, u64::MAX] {
                if table.conditions.len() + more > CONDITIONS_MAX {
                    forgotten.extend(table.forget_conditions(|interest| interest.scans <= scans));
                }
            }
        }
        if forgotten.is_empty() { Vec::new() } else { self.remove_of(id, |item| forgotten.contains(&item)) }
    }

    /// Takes away items of a table.
    fn remove_of(&mut self, table: TableId, is_meant: impl Fn(SharedItem) -> bool) -> Vec<Arc<Decoded>> {
        let clusters = self.tables.get(&table).map(|shelf| &shelf.clusters).into_iter().flatten();
        let ids = clusters.flat_map(|(place, cluster)| {
            let items = cluster.items.iter().map(|(item, _)| *item).filter(|item| is_meant(*item));
            items.map(|item| ItemId { table, place: *place, item })
        });
        let ids = ids.collect::<Vec<_>>();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Takes away what is of tables that nobody can name any more.
    pub fn sweep(&mut self) -> Vec<Arc<Decoded>> {
        let fallen = self.tables.iter().filter(|(_, shelf)| !shelf.is_named() && shelf.scans.is_empty());
        let fallen = fallen.map(|(id, _)| *id).collect::<Vec<_>>();
        let mut gone = Vec::new();
        for table in fallen {
            gone.extend(self.remove_of(table, |_| true));
            self.tables.remove(&table);
        }
        gone
    }
}

impl TableShelf {
    /// Under which number the answers of a condition are shared; `None` if there are too many.
    pub fn number(&mut self, condition: Canonical) -> Option<AnswerId> {
        if let Some(number) = self.conditions.get(&condition) {
            return Some(*number);
        }
        if self.conditions.len() >= CONDITIONS_MAX {
            return None;
        }
        let number = AnswerId(self.conditions_made);
        self.conditions_made += 1;
        self.conditions.insert(condition, number);
        Some(number)
    }

    /// Forgets the conditions that no running scan has and of which this is true; gives their numbers.
    fn forget_conditions(&mut self, is_rare: impl Fn(&Interest) -> bool) -> HashSet<SharedItem> {
        let items = &mut self.items;
        let forgotten = self.conditions.extract_if(|_, number| match items.get(&SharedItem::Answer(*number)) {
            Some(interest) => interest.running == 0 && is_rare(interest),
            None => true,
        });
        let answers = forgotten.map(|(_, number)| SharedItem::Answer(number)).collect::<HashSet<_>>();
        items.retain(|item, _| !answers.contains(item));
        answers
    }

    pub fn new(table: &Arc<dyn Table>) -> Self {
        Self {
            table: Arc::downgrade(table),
            lineage: table.lineage().map(|lineage| Arc::downgrade(&lineage)),
            clusters: HashMap::new(),
            items: HashMap::new(),
            conditions: HashMap::new(),
            conditions_made: 0,
            scans: HashMap::new(),
            hot: VecDeque::new(),
            hits: 0,
        }
    }

    /// Whether somebody may still scan the table, or another version of it.
    fn is_named(&self) -> bool {
        match &self.lineage {
            Some(lineage) => lineage.strong_count() > 0,
            None => self.table.strong_count() > 0,
        }
    }

    /// How many scans read a cluster one after the other if this one does now, each while the one before it still ran.
    pub fn cohort(&self, scan: u64, place: u64) -> usize {
        match self.hot.iter().find(|hot| hot.place == place) {
            Some(hot) if hot.scan == scan => hot.cohort,
            Some(hot) if self.scans.contains_key(&hot.scan) => hot.cohort + 1,
            _ => 1,
        }
    }

    /// A scan has read a cluster, which is hot now.
    pub fn touch(&mut self, scan: u64, place: u64) {
        let hot = Hot { place, scan, cohort: self.cohort(scan, place) };
        self.hot.retain(|hot| hot.place != place);
        self.hot.push_front(hot);
        self.hot.truncate(HOT_MAX);
    }

    pub fn release(&mut self, scan: u64, place: u64) {
        if self.scans.get_mut(&scan).is_some_and(|places| places.remove(&place))
            && let Some(cluster) = self.clusters.get_mut(&place)
        {
            cluster.needed -= 1;
            if cluster.needed == 0 && cluster.items.is_empty() {
                self.clusters.remove(&place);
            }
        }
    }
}
