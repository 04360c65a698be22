//! Groups and aggregates.
