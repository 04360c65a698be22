//! Where a database writes down what becomes of its names and rows, so that it is there when it is opened again.
//!
//! ```text
//!   stage rows ──▶ append an entry, under the catalog's lock ──▶ sync ──▶ published, and then acknowledged
//! ```
//!
//! The order of entries is the order of changes. A change builds on those before it, whether they are synced or not; so
//! when one cannot be kept, all later ones that are not synced go with it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::Schema;
use diligence_base::Result;
use diligence_base::ids::ObjectId;
use diligence_storage::segment::{Segment, SegmentWriter};

use crate::authority::Authority;
use crate::name::is_temporary;
pub use crate::position::LogPosition;
use crate::sequence::SequenceState;
use crate::{NewRows, Object, RelationName, TableAlteration};

/// Rows that are on their way into a log, for the entry that follows.
#[derive(Default)]
pub struct Staged {
    /// A number that no other statement's rows have had.
    pub statement: u64,
    /// How often entries had been lost when it was staged.
    pub losses: u64,
    /// Records that are not in the log yet.
    pub encoded: Vec<Vec<u8>>,
    /// The numbers of segments that have some of the rows.
    pub segments: Vec<u64>,
    /// Dropped when the entry is in the log, or will never be.
    pub guard: Option<Box<dyn Any + Send>>,
}

/// What becomes of the names or the rows.
#[derive(Debug)]
pub enum Entry {
    /// A schema.
    CreateSchema {
        /// Its id.
        id: ObjectId,
        /// Its name.
        name: String,
    },
    /// A schema goes, with all that is in it.
    DropSchema {
        /// Its name.
        name: String,
    },
    /// A relation, in the place of one that had the name before. The rows of a table are staged.
    Create(Arc<Object>),
    /// A relation goes.
    Drop {
        /// Its name.
        name: RelationName,
    },
    /// A table gets other columns or rules, and keeps its rows.
    Alter {
        /// The table.
        table: ObjectId,
        /// Its name before.
        name: RelationName,
        /// What it becomes.
        alteration: Arc<TableAlteration>,
    },
    /// Who may do what, all of it.
    Authority(Arc<Authority>),
    /// A sequence is somewhere else.
    Count {
        /// The sequence.
        sequence: ObjectId,
        /// Its name.
        name: RelationName,
        /// Where it is.
        state: SequenceState,
    },
    /// Rows of a table go, and those that are staged come.
    Change {
        /// The table.
        table: ObjectId,
        /// The table's name.
        name: RelationName,
        /// The numbers of the rows that go.
        deleted: Vec<i64>,
        /// Whether all present rows go.
        replace: bool,
    },
}

impl Entry {
    /// Whether it is of a temporary object, which is gone when its session is.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::CreateSchema { name, .. } | Self::DropSchema { name } => is_temporary(name),
            Self::Create(object) => object.name.is_temporary(),
            Self::Authority(_) => false,
            Self::Drop { name } | Self::Alter { name, .. } | Self::Count { name, .. } | Self::Change { name, .. } => {
                name.is_temporary()
            }
        }
    }
}

/// Where rows go that come in such number that they need not come through memory and the log: segments. Used from any
/// thread.
pub trait RowStore: Send + Sync + Debug {
    /// Begins a segment of a fragment of a table with these columns, which have these ids. Fails with kind `File` if it
    /// cannot be made.
    fn begin(&self, columns: &Schema, ids: &[u32], fragment: u16) -> Result<SegmentWriter>;
    /// How many rows a cluster has at most.
    fn cluster_rows(&self) -> usize;
    /// Ends one, where a crash leaves it. Its file goes when nothing has the segment any more. Fails with kind `File`.
    fn finish(&self, writer: SegmentWriter) -> Result<Arc<Segment>>;
}

/// A log of changes. Used from any thread.
pub trait Journal: Send + Sync + Debug {
    /// Encodes rows for the entry that follows; many rows go into the log at once, where nothing reads them without
    /// their entry. Fails with kind `File` if they cannot be written.
    fn stage(&self, rows: &[NewRows]) -> Result<Staged>;
    /// Puts entries with their rows behind the others: all of them are kept, or none. Waits for no disk. Fails with
    /// kind `File` if nothing more can be kept.
    fn append(&self, entries: Vec<(Staged, Entry)>) -> Result<LogPosition>;
    /// Returns when the entry and all before it are where a crash leaves them. Fails if the entry is lost.
    fn sync(&self, position: LogPosition) -> Result<()>;
    /// Up to which entry all are where a crash leaves them.
    fn synced(&self) -> LogPosition;
    /// Whether entries were lost since the last [`forget_lost`](Self::forget_lost): all that are not synced, and none
    /// can be appended.
    fn has_lost(&self) -> bool;
    /// All changes that were lost have been undone: entries may come again, where the disk allows.
    fn forget_lost(&self);
}
