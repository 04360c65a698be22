//! A client of PostgreSQL's protocol, version 3.0, for the shell, the terminal board, benchmarks and tests: fast enough
//! not to be what is measured, and able to say what no driver would say.
//!
//! The life of a statement: [`Connection::prepare`] has it parsed once; [`Connection::run`] binds values to it,
//! executes it and hands over each row as the bytes that came, without a copy. [`Connection::simple`] sends a script as
//! text. Below those, [`message`] makes and reads single messages, [`Connection::send`] sends any bytes, and
//! [`Connection::next`] gives whatever comes. Above them,
//! [`blocking`] is for those who have no runtime and want batches.
//!
//! It speaks to any server of the protocol: over TCP or a local socket as it is ([`Address`]), or as a URL says, with
//! encryption and a password ([`Url`]).
//!
//! Invariants:
//! * Nothing that a server sends makes it panic; what is no message is [`Error::Protocol`].
//! * What is sent in the clear is decided by the [`Url`], never by the server.

pub mod blocking;
mod connection;
mod encryption;
pub mod message;
mod rows;
pub mod scram;
mod url;

pub use connection::{Address, Answer, Connection, Done, Error};
pub use message::{Column, Failure, Message};
pub use url::{Encryption, Url};
