//! Doors to a database for clients over a network: PostgreSQL's protocol ([`pg`]), HTTP ([`http`])
//! and Arrow Flight SQL ([`flight`]).
//!
//! The life of a statement that comes in over the network:
//! 1. A *session* reads it from its socket. Sessions are futures on a few threads that only move bytes ([`pg`]).
//! 2. It crosses the stages in front of the engine ([`execution`], [`stages`]): *parse* makes a syntax tree, *optimize*
//!    a plan; what was planned before goes straight on ([the plan cache](diligence_db::plans)).
//! 3. [`admission`] lets it in, has it wait in line, or refuses it when the line is too long. Cheap statements and
//!    heavy ones have lines of their own.
//! 4. *execute* starts it in the engine, whose workers run it. Its rows come back as they appear, are written in the
//!    client's form (`encoding`) on the threads of *execute*, and go out as fast as the client takes them.
//! 5. *disconnect* frees what it held.
//!
//! The rooms, of which each imports only those before it: `log`, `sqlstate`, `spans`, `measures`, `scram`, `roles`,
//! `encoding`, `stages`, `registry`, `admission`, `execution`, `protobuf`, `collector`, `config`, `service`,
//! `accepting`, `listing`, `session`, `http`, `telemetry`, `pg`, `in_process`, `flight`, `server`, `process`.
//!
//! Invariants:
//! * No thread of the network plans, runs or waits for a statement.
//! * Whoever is beyond loopback has logged in, and does what the [role](roles) allows.
//! * A client that is slow, or gone, costs its session and nothing else; one that leaves cancels its statement.

mod accepting;
pub mod admission;
pub mod collector;
pub mod config;
mod encoding;
pub mod execution;
pub mod flight;
pub mod http;
mod in_process;
mod listing;
pub mod log;
pub mod measures;
pub mod pg;
pub mod process;
mod protobuf;
pub mod registry;
pub mod roles;
pub mod scram;
pub mod server;
pub mod service;
mod session;
pub mod spans;
pub mod sqlstate;
pub mod stages;
mod telemetry;

pub use config::{Limits, ServerOptions, TlsFiles, Users};
pub use encoding::{PlainNumeric, compact, exchanged, exchanged_schema, texts};
pub use in_process::{ProcessCopy, ProcessFileCopy, is_idle_setting};
pub use log::{LogFormat, LogLevel, LogOptions};
pub use server::{Addresses, Server};
