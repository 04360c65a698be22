//! Newtypes for what is counted, so that one number is never taken for another.

use std::fmt;

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
