//! Primed processes: interpreters and machines of WebAssembly that stand ready beside the engine and compute functions
//! that people wrote.
//!
//! ```text
//!   call ---- take ----> process (code loaded?) -- load, values --> reply -- give back --> idle
//!     |                                                                |
//!     +-- fewer idle than the threshold: the keeper starts more        +-- died, stopped, too late: killed, replaced
//! ```
//!
//! After Bortvedt's "Functional implementation of the extensible query evaluation system Volcano with primed processes"
//! (chapters 4 and 5): processes persist from query to query, any process runs any function, code is loaded where it is
//! used first, and the pool grows before it is empty ([`growth`]). What the thesis lacks is here as well: the pool
//! shrinks, and replaces what has died.
//!
//! * [`growth`] decides how many processes there are, and knows none.
//! * [`code`](Code) is a function's text, with what it takes and gives.
//! * [`wire`] is what the engine and a process say to each other; it believes no process.
//! * `process` is one process: what runs functions, a socket, and what it prints.
//! * [`options`](PoolOptions) say how it is run; `info` is what it shows, and `failures` what calls fail with.
//! * [`standing`] has processes of one kind, and the keeper, a thread that starts, ends and buries them; tests have it
//!   under schedules that they choose, with puppets for processes.
//! * [`pool`](Pool) has those of all kinds, and calls, each of which has one process.
//! * `primed.py` is what a process of Python runs; `wasm/` at the top is one of WebAssembly, a program of its own.
//!
//! Invariants:
//! * Nothing that a process does, or says, harms anything but the call that it serves.
//! * Nothing is started before the first function is called or made. Without processes there is no thread.
//! * No process outlives the engine, however that ends.
//! * Knows no SQL, no query and no table.

mod caller;
mod code;
mod failures;
pub mod growth;
mod info;
#[cfg(test)]
mod limits_tests;
mod options;
mod pool;
mod process;
pub mod standing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wasm_tests;
pub mod wire;

pub use caller::{Caller, Nobody};
pub use code::{Code, CodeSpec, Form, KeptFrom, Kind, Runtime, Steps};
pub use info::{PoolNumbers, ProcessInfo, ProcessState};
pub use options::PoolOptions;
pub use pool::Pool;
pub use wire::Answer;
