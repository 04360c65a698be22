//! Newtypes for what is counted, so that one number is never taken for another.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A query, counted from the start of its engine.
    QueryId, u64, "q"
);
id!(
    /// A pipeline within one query.
    PipelineId, u32, "p"
);
id!(
    /// A worker thread of the engine.
    WorkerId, u32, "w"
);
id!(
    /// An object of a catalog: a schema, a table, a view. It keeps its id until it is dropped.
    ObjectId, u64, "o"
);
id!(
    /// One state of an object of a catalog: another definition is another version, and so are other rows of a table in
    /// memory.
    ObjectVersion, u64, "v"
);
id!(
    /// One state of a table's content; any change to the content gives another number.
    TableVersion, u64, "v"
);
id!(
    /// A table as it was declared, files as they were opened, or rows that a statement has made. No two have had one id
    /// since the process began. Whatever versions it has, their clusters of one place have the same rows, but for those
    /// that are deleted.
    TableId, u64, "t"
);

/// The ids that were given out.
static TABLES: AtomicU64 = AtomicU64::new(1);

impl TableId {
    /// One that nothing has had.
    pub fn next() -> Self {
        Self(TABLES.fetch_add(1, Ordering::Relaxed))
    }
}

/// Which rows somebody reads, as a value: equal ones stand for the same rows, whoever holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIdentity {
    /// The table.
    pub table: TableId,
    /// Its state.
    pub version: TableVersion,
    /// What of it is read, and how.
    pub view: TableView,
}

/// What of a table is read, and how; by default all rows, by whatever way is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableView {
    /// With the numbers of the rows in one more column.
    pub is_numbered: bool,
    /// No index finds rows.
    pub is_without_index: bool,
    /// The rows of one fragment only.
    pub fragment: Option<u16>,
    /// Rows that were chosen one by one; no other choice has the number.
    pub choice: Option<u64>,
}

impl TableIdentity {
    /// That of all rows of a table in a state.
    pub fn of(table: TableId, version: TableVersion) -> Self {
        Self { table, version, view: TableView::default() }
    }

    /// That of all rows of a table that nobody has seen yet, in a state.
    pub fn of_new(version: TableVersion) -> Self {
        Self::of(TableId::next(), version)
    }
}

impl fmt::Display for TableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableView { is_numbered, is_without_index, fragment, choice } = self.view;
        write!(f, "{} {}", self.table, self.version)?;
        if is_numbered {
            f.write_str(" numbered")?;
        }
        if is_without_index {
            f.write_str(" without index")?;
        }
        if let Some(fragment) = fragment {
            write!(f, " fragment {fragment}")?;
        }
        choice.map_or(Ok(()), |choice| write!(f, " choice {choice}"))
    }
}
