//! Orders rows.
