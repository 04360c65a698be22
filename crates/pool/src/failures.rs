//! The errors of calls whose functions or processes failed.

use std::collections::BTreeSet;

use diligence_base::Error;
use diligence_base::limits::POOL_REPLY_BYTES_MAX;
use parking_lot::Mutex;

use crate::code::{Kind, Runtime};
use crate::options::Launch;

/// Who has set the limit that a function has reached.
pub(crate) enum Limiter {
    Role,
    Function,
    Everybody,
}

impl Limiter {
    /// Given the limits of the caller, and of the call, which is the least of the caller's and the function's.
    pub(crate) fn of<T: PartialEq>(by_caller: Option<T>, of_call: Option<T>) -> Self {
        match (by_caller, of_call) {
            (_, None) => Self::Everybody,
            (by_caller, of_call) if by_caller == of_call => Self::Role,
            _ => Self::Function,
        }
    }

    /// How a function gets more of it.
    pub(crate) fn hint(&self, function: &str, setting: &str, value: &str) -> String {
        match self {
            Self::Role => format!("ALTER ROLE … SET {setting} = '{value}' gives your role more"),
            Self::Function => format!("ALTER FUNCTION {function} SET {setting} = '{value}' gives it more"),
            Self::Everybody => format!("SET {setting} = '{value}' gives all functions more"),
        }
    }
}

/// The error for an answer that makes no sense.
pub(crate) fn nonsense(name: &str, reason: &str) -> Error {
    let error = Error::value(format!("the process of the function {name} answered what makes no sense: {reason}"));
    error.with_code("39000").with_hint("a function must leave the process' sockets alone")
}

/// The error for values that are too large together.
pub(crate) fn too_large(name: &str, bytes: usize) -> Error {
    let (came, most) = (bytes >> 20, POOL_REPLY_BYTES_MAX >> 20);
    let error = Error::value(format!("the function {name} returned {came} MiB at once, and {most} MiB is the most"));
    error.with_code("54000").with_hint("return shorter values, or parts of them as rows of several calls")
}

/// The error for a process that the system does not start.
pub(crate) fn refused_start(launch: &Launch, error: &std::io::Error) -> Error {
    let program = launch.path();
    let program = program.display();
    let (what, hint) = match launch.runtime {
        Runtime::Python => (
            "Python interpreter",
            "install Python 3.8 or newer (apt install python3), or say where it is: SET python = '/path/to/python3'",
        ),
        Runtime::Wasm => (
            "machine of WebAssembly",
            "put diligence-wasm beside the program (cargo build --release --manifest-path wasm/Cargo.toml), or say where it \
             is: SET wasm = '/path/to/diligence-wasm'",
        ),
    };
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::input(format!("there is no {what}: '{program}' was not found"))
            .with_code("58P01")
            .with_hint(hint);
    }
    Error::resource(format!("the {what} '{program}' cannot be started: {error}")).with_code("58000")
}

/// The error for a process that ended before it took a function; `how` it did.
pub(crate) fn never_ready(runtime: Runtime, how: &str) -> Error {
    let (what, hint) = match runtime {
        Runtime::Python => (
            "the Python interpreter",
            "functions need Python 3.8 or newer: SHOW python names the interpreter, SET python = '/path/to/python3' another",
        ),
        Runtime::Wasm => (
            "diligence-wasm",
            "SHOW wasm names the program, SET wasm = '/path/to/diligence-wasm' another, which must be of this version",
        ),
    };
    Error::resource(format!("{what} {how} before it was ready")).with_code("58000").with_hint(hint)
}

/// Codes that functions may make up, at most.
const CODES_MAX: usize = 1024;

/// The code that a function gives its error, as errors hold it; `None` if it is none, or too many were made up.
pub(crate) fn own_code(text: &str) -> Option<&'static str> {
    static MADE: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_code = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    // Those in front are no errors.
    if !is_code || ["00", "01", "02"].contains(&&text[..2]) {
        return None;
    }
    let mut made = MADE.lock();
    if let Some(code) = made.get(text) {
        return Some(code);
    }
    if made.len() >= CODES_MAX {
        return None;
    }
    let code: &'static str = Box::leak(text.to_owned().into_boxed_str());
    made.insert(code);
    Some(code)
}

/// A type's name for people.
pub(crate) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::SmallInt => "smallint",
        Kind::Integer => "integer",
        Kind::BigInt => "bigint",
        Kind::Real => "real",
        Kind::Double => "double precision",
        Kind::Numeric => "numeric",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
        Kind::Json | Kind::Document => "json",
        Kind::Floats | Kind::DoubleList => "double precision[]",
        Kind::Numerics | Kind::NumericList => "numeric[]",
        Kind::Row => "record",
        Kind::BooleanList => "boolean[]",
        Kind::SmallIntList => "smallint[]",
        Kind::IntegerList => "integer[]",
        Kind::BigIntList => "bigint[]",
        Kind::RealList => "real[]",
        Kind::TextList => "text[]",
        Kind::Blobs | Kind::BytesList => "bytea[]",
    }
}

/// The end of a text that may be long.
pub(crate) fn last_lines(text: &str) -> &str {
    const LAST_BYTES: usize = 2000;
    let from = text.len().saturating_sub(LAST_BYTES);
    let from = (from..text.len()).find(|from| text.is_char_boundary(*from)).unwrap_or(0);
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_give_their_errors_codes_that_are_codes() {
        assert_eq!([own_code("22003"), own_code("MY001")], [Some("22003"), Some("MY001")]);
        for none in ["", "2200", "220033", "22 03", "abcde", "00000", "01000", "2200é"] {
            assert_eq!(own_code(none), None, "{none}");
        }
    }
}
