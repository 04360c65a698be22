//! The functions against PostgreSQL, and each overload against its own signature.
//!
//! * [`answers`]: expressions with the answers that PostgreSQL 15 gives to `SELECT`.
//! * [`overloads`]: every overload called with nothing, one row, NULLs and constants.
//! * [`literals`]: values read and written as PostgreSQL does, as far as the tests need it.

mod answers;
mod literals;
mod overloads;
mod resolving;
