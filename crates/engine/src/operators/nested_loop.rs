//! Joins on any condition, by looking at all pairs.
