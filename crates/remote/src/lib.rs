//! Tables of other servers: PostgreSQL, and whatever speaks its protocol.
//!
//! The life of a table: a statement names it, and [`Server::table`] asks the server for its columns (`describe`), whose
//! types become ours (`columns`). The engine plans its scan, and what of the conditions means the same there goes along
//! as text (`conditions`). Each cluster is then one COPY of some pages of the table in the binary form, which comes
//! piece by piece while it is decoded (`scan`, `values`). All tables of a statement are read in one snapshot of their
//! server ([`Moment`]).
//!
//! Rooms: each imports only those before it: `address`, `columns`, `conditions`, `link`, `values`, `moment`,
//! `describe`, `scan`, `servers`.
//!
//! Invariants:
//! * Nothing that a server sends causes a panic.
//! * No message, name or state that anybody may read has a password.
//! * Nothing is changed on a server: its sessions read only.

mod address;
mod columns;
mod conditions;
mod describe;
mod link;
mod moment;
mod scan;
mod servers;
mod values;

pub use address::without_passwords;
pub use moment::Moment;
pub use servers::{Server, Servers};
