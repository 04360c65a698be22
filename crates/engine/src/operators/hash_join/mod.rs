//! Joins on equal keys.
