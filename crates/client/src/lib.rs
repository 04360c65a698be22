//! A small client of PostgreSQL's protocol, version 3.0, for benchmarks and tests: fast enough not to be what is measured, and able to
//! say what no driver would say.
//!
//! The life of a statement: [`Connection::prepare`] has it parsed once; [`Connection::run`] binds values to it, executes it and hands
//! over each row as the bytes that came, without a copy. [`Connection::simple`] sends a script as text. Below those, [`message`] makes
//! and reads single messages, [`Connection::send`] sends any bytes, and [`Connection::next`] gives whatever comes.
//!
//! It speaks to any server of the protocol over TCP or a local socket. Not here: encryption, and log-in with a password.
//!
//! Invariant: nothing that a server sends makes it panic; what is no message is [`Error::Protocol`].

mod connection;
pub mod message;

pub use connection::{Address, Answer, Connection, Done, Error};
pub use message::{Column, Failure, Message};
