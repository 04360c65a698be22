//! A client for the PostgreSQL wire protocol, version 3.0, for the shell, the terminal dashboard, benchmarks and tests.
//! It is fast enough not to distort measurements, and it can send what no driver would send.
//!
//! [`Connection::prepare`] parses a statement once. [`Connection::run`] binds values to it, executes it, and passes on
//! each row as the bytes received, without a copy. [`Connection::simple`] sends a script as text. Below those,
//! [`message`] builds and parses single messages, [`Connection::send`] sends any bytes, and [`Connection::next`]
//! returns the next message. Above them, [`blocking`] is for callers that have no runtime and want batches.
//!
//! It connects to any server that speaks the protocol: over plain TCP or a Unix socket ([`Address`]), or as a URL says,
//! with encryption and a password ([`Url`]).
//!
//! Invariants:
//! * Nothing that a server sends causes a panic; bytes that are no message are an [`Error::Protocol`].
//! * The [`Url`] decides what is sent in the clear, never the server.

pub mod blocking;
mod connection;
mod encryption;
pub mod message;
mod rows;
pub mod scram;
mod socket;
mod url;

pub use connection::{Answer, Connection, Done, Error};
pub use encryption::encrypt;
pub use message::{Column, Failure, Message};
pub use socket::Address;
pub use url::{Encryption, Url, UrlParts};
