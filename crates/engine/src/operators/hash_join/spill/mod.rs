//! A join's rows in temp space: [which partitions](partitions) stay in memory, and the files of the others;
//! [`resident`], those of the build side while it comes in; [`dump`], a table that is complete already;
//! [`filters`], what is known of rows that were not kept; [`counts`], what was written.

pub(super) mod counts;
pub(super) mod dump;
pub(super) mod filters;
pub(super) mod partitions;
pub(super) mod resident;
