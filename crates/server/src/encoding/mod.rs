//! Rows and values in the forms that clients read and write, for all doors.
//!
//! * [`text`]: PostgreSQL's text and binary forms of single values, which psql's rows, COPY and HTTP's CSV have in
//!   common.
//! * [`columns`]: a batch as rows of such values, for messages of PostgreSQL's protocol.
//! * [`copy`]: the same rows as lines, for COPY … TO STDOUT and for CSV.
//! * [`formats`]: bodies of HTTP.
//! * [`parameters`]: the other direction, values as clients send them.
//!
//! Nothing here knows a session, a statement or a socket: batches come in, bytes go out.

pub(crate) mod columns;
pub(crate) mod copy;
pub(crate) mod formats;
pub(crate) mod parameters;
mod text;
