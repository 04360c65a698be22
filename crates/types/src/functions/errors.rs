//! The errors that several families of functions give, in PostgreSQL's words and with its codes.

use diligence_base::Error;

/// 22003: a number does not fit into its type.
pub(super) fn out_of_range(type_name: &str) -> Error {
    Error::value(format!("{type_name} out of range")).with_code("22003")
}

/// 22003: a float's result is too large.
pub(super) fn float_overflow() -> Error {
    Error::value("value out of range: overflow").with_code("22003")
}

/// 22008: a date or a timestamp beyond what its type holds.
pub(super) fn datetime_overflow(type_name: &str) -> Error {
    Error::value(format!("{type_name} out of range")).with_code("22008")
}

/// 22023: an argument with a value that the function does not take.
pub(super) fn invalid_argument(message: impl Into<String>) -> Error {
    Error::value(message).with_code("22023")
}

/// An error with a message and a code.
pub(super) fn value_error(message: impl Into<String>, code: &'static str) -> Error {
    Error::value(message).with_code(code)
}
