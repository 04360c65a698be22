//! SQLSTATEs of errors that come without one: those of libraries, above all.

use diligence_base::{Error, ErrorKind};

/// The error's SQLSTATE: its own, or one by its kind and, for values, by what is wrong with the value.
pub fn sqlstate(error: &Error) -> &'static str {
    if let Some(code) = error.code() {
        return code;
    }
    let message = error.message();
    match error.kind() {
        ErrorKind::Input if message.contains("exists already") => "42P07",
        ErrorKind::Input if message.starts_with("no setting is named") => "42704",
        ErrorKind::Input if message.starts_with("no prepared statement") => "26000",
        ErrorKind::Input => "42000",
        ErrorKind::Value if message.contains("ivi") && message.contains("zero") => "22012",
        ErrorKind::Value if message.contains("verflow") || message.contains("out of range") => "22003",
        ErrorKind::Value if message.contains("does not allow NULL") => "23502",
        ErrorKind::Value if message.to_lowercase().contains("cast") || message.contains("parse") => "22P02",
        ErrorKind::Value => "22000",
        ErrorKind::File => "58030",
        ErrorKind::Unsupported => "0A000",
        ErrorKind::Resource => "53200",
        ErrorKind::Retry => "40001",
        ErrorKind::Cancelled => "57014",
        ErrorKind::Bug => "XX000",
    }
}
