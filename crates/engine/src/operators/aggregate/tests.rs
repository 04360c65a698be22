//! Proves the aggregate against the slow judge.
