//! A database on disk: what it is given, it keeps.
//!
//! ```text
//!   folder/  LOCK          held by the process that has the database open
//!            READERS       held by those that read it as of its last checkpoint
//!            image-000007  all names and rows as they were when log 7 began
//!            log-000007    what has happened since then, and goes on in
//!            log-000008    …
//!            segments/     rows to which the image refers: files that never change
//!            directories   where other disks have more of them
//!            history       for how long the past is retained: older images and logs stay as long
//! ```
//!
//! A change is an entry of the log, behind the rows that it brings. It is acknowledged, and seen by other statements,
//! when a crash cannot take it away; what many sessions do at once is synced at once (group commit). When the log has
//! grown long, a *checkpoint* begins another one and writes an image of the names and rows at that moment, while
//! statements go on. Opening a database reads the newest image and the logs behind it. (Gamma did no logging: DeWitt
//! et al., "A Performance Analysis of the Gamma Database Machine", 1988, section 8.)
//!
//! Rows that are few are in the image, and in memory. When there are many, a checkpoint moves them to segments, where
//! statements read them from then on.
//!
//! Invariants:
//! * What is acknowledged is there when the database is opened again, and of what is not acknowledged all or nothing.
//! * A file is complete under its name, or its end says how far it is: each record has a checksum and its place in the
//!   order, so a record that is half there, or an old one, ends the log.
//! * A record in the middle that cannot be read is an error that names the file, never a shorter database: a mark
//!   behind it, or a log that was begun behind it, says that it was whole (`files`).

mod backup;
mod bytes;
mod checkpoints;
mod directories;
mod files;
mod image;
mod lock;
mod log;
mod past;
mod reader;
mod record;
mod repair;
mod replay;
mod segments;
mod store;
#[cfg(test)]
mod tests;

pub use backup::Backup;
pub use checkpoints::{CheckpointInfo, Checkpoints};
pub use lock::{FolderLock, Holder, ReadersLock};
pub use log::LogInfo;
pub use reader::FolderReader;
pub use repair::{Repaired, repair};
pub use replay::{LostIndex, Surroundings};
pub use segments::SegmentSizes;
pub use store::{Store, StoreOptions, make_folder};
