//! Tests of what transactions see of each other at each isolation level: scenarios that are written down, with their
//! outcomes (`scenarios`), and random histories that are searched for anomalies (`histories`).

mod checker;
mod checker_tests;
mod graph;
mod histories;
mod history;
mod scenarios;

use crate::Session;

/// The levels, as BEGIN names them, in the order in which the scenarios give outcomes.
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Whether a statement of the session waits for another session.
fn is_waiting(session: &Session) -> bool {
    let catalogs = session.planner().catalogs();
    catalogs.locks().shown().iter().any(|lock| lock.owner == catalogs.owner() && !lock.is_granted)
}
