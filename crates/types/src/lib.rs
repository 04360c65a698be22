//! What SQL's types, values and functions mean: PostgreSQL's meaning, on Arrow's arrays.
//!
//! * [`sql_type`]: the types of expressions and columns, their names, and the Arrow types that hold their values.
//! * [`collated_type`]: texts with a collation; [`collation`]: in which order texts are, and which are equal.
//! * [`domain_type`]: some of another type's values, which statements make.
//! * [`enum_type`]: types of texts in an order of their own, which statements make.
//! * [`record_type`]: rows of columns: records, composite types, DuckDB's structs.
//! * [`network_type`]: types of addresses in networks.
//! * [`quoted_name`]: names as statements write them.
//! * [`range_type`]: types of what is between two bounds.
//! * [`search_type`]: types of full text search.
//! * [`timed_type`]: types of times with a modifier, which only columns and casts have.
//! * [`search`]: full text search: documents, queries, and how texts become both.
//! * [`coercion`]: which type becomes which, and by which kind of cast; the common type of several expressions.
//! * [`text`]: the text form of each type's values, read and written.
//! * [`values`]: one value of an array.
//! * [`functions`]: the catalog of functions, operators and aggregates: overloads, how one is chosen, and what it does.
//!
//! Invariants:
//! * Nothing here knows a statement, a table or a session: what depends on the session's time zone is given the zone.
//! * A function works on whole arrays, never panics on any value, and gives an error with PostgreSQL's SQLSTATE where
//!   PostgreSQL does.

pub mod coercion;
pub mod collation;
pub mod enum_type;
pub mod functions;
pub mod network_type;
mod quoted;
pub mod range_type;
pub mod search;
pub mod search_type;
pub mod sql_type;
pub mod text;
pub mod values;

pub use quoted::quoted_name;
pub use sql_type::{SqlType, collated_type, domain_type, record_type, timed_type, vector_type};
