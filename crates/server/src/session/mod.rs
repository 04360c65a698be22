//! What the sessions of all doors that have sessions share: PostgreSQL's protocol and Flight SQL.
//!
//! * [`commands`]: statements that a session answers itself, told by their first words; of these, [`cursors`] and
//!   [`copy`] have files of their own, and [`tokens`] is what they are read from.
//! * [`settings`]: the client's settings, which the engine does not know.
//! * [`changes`]: what they were before a block changed them.
//!
//! Nothing here knows a protocol or a socket.

pub(crate) mod changes;
pub(crate) mod commands;
pub(crate) mod copy;
pub(crate) mod cursors;
pub(crate) mod settings;
mod tokens;
