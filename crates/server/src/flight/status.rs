//! Errors as gRPC's clients see them: a code that fits the SQLSTATE, our message with the SQLSTATE behind it, and the
//! rest in the details.

use std::collections::HashMap;

use arrow_flight::sql::Any;
use diligence_base::{Error, ErrorKind, Result};
use prost::Message;
use tonic::{Code, Status};

use super::messages::{ErrorInfo, RpcStatus};
use crate::sqlstate;

/// Who says what the reason of an error means.
const DOMAIN: &str = "diligence";

/// An error as a status.
pub(super) fn status(error: &Error) -> Status {
    let sqlstate = sqlstate::of(error);
    let code = code(sqlstate, error.kind());
    let message = format!("{} (SQLSTATE {sqlstate})", error.message());
    let mut metadata = HashMap::new();
    let mut tell = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            metadata.insert(name.to_owned(), value.to_owned());
        }
    };
    let about = error.about();
    tell("detail", error.detail());
    tell("hint", error.hint());
    tell("schema", about.schema.as_deref());
    tell("table", about.table.as_deref());
    tell("column", about.column.as_deref());
    tell("constraint", about.constraint.as_deref());
    if let Some(span) = error.span() {
        tell("line", Some(&span.line.to_string()));
        tell("position", Some(&span.column.to_string()));
    }
    let info = ErrorInfo { reason: sqlstate.to_owned(), domain: DOMAIN.to_owned(), metadata };
    let info = Any { type_url: ErrorInfo::TYPE_URL.to_owned(), value: info.encode_to_vec().into() };
    let details = RpcStatus { code: code as i32, message: message.clone(), details: vec![info] };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// gRPC's code for an SQLSTATE.
fn code(sqlstate: &str, kind: ErrorKind) -> Code {
    match sqlstate {
        sqlstate::CANCELLED => Code::Cancelled,
        sqlstate::DENIED => Code::PermissionDenied,
        sqlstate::SHUTDOWN => Code::Unavailable,
        sqlstate::UNSUPPORTED => Code::Unimplemented,
        sqlstate::SERIALIZATION_FAILURE | sqlstate::DEADLOCK | "55P03" => Code::Aborted,
        // What is named is not there.
        "42P01" | "42703" | "42704" | "42883" | "3F000" | "3D000" | "26000" | "3B001" => Code::NotFound,
        "23505" | "42P07" | "42P06" | "42710" | "42701" | "42723" => Code::AlreadyExists,
        _ => match &sqlstate[..2] {
            "28" => Code::Unauthenticated,
            "08" | "22" | "42" => Code::InvalidArgument,
            "23" | "25" | "2B" | "55" => Code::FailedPrecondition,
            "53" | "54" => Code::ResourceExhausted,
            "0A" => Code::Unimplemented,
            "40" => Code::Aborted,
            _ => match kind {
                ErrorKind::Input | ErrorKind::Value => Code::InvalidArgument,
                ErrorKind::Unsupported => Code::Unimplemented,
                ErrorKind::Resource => Code::ResourceExhausted,
                ErrorKind::Retry => Code::Aborted,
                ErrorKind::Cancelled => Code::Cancelled,
                ErrorKind::File => Code::Unknown,
                ErrorKind::Bug => Code::Internal,
            },
        },
    }
}

/// Nobody has logged in, or not with the right password.
pub(super) fn unauthenticated(text: &str) -> Status {
    status(&Error::input(text).with_code("28P01"))
}

/// A message that cannot be read.
pub(super) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::input(format!("a message is not as expected: {what}")).with_code(sqlstate::PROTOCOL)
}

/// An outcome as gRPC has it.
pub(super) fn told<T>(outcome: Result<T>) -> std::result::Result<T, Status> {
    outcome.map_err(|error| status(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_sqlstate_and_details_have_the_rest() {
        for (sqlstate, expected) in [
            ("42P01", Code::NotFound),
            ("42P07", Code::AlreadyExists),
            ("42601", Code::InvalidArgument),
            ("22012", Code::InvalidArgument),
            ("23505", Code::AlreadyExists),
            ("23503", Code::FailedPrecondition),
            ("25P02", Code::FailedPrecondition),
            ("28P01", Code::Unauthenticated),
            ("40001", Code::Aborted),
            ("42501", Code::PermissionDenied),
            ("53300", Code::ResourceExhausted),
            ("57014", Code::Cancelled),
            ("0A000", Code::Unimplemented),
        ] {
            let status = status(&Error::input("x").with_code(sqlstate).with_hint("y"));
            assert_eq!(status.code(), expected, "{sqlstate}");
            assert_eq!(status.message(), format!("x (SQLSTATE {sqlstate})"));
            let details = RpcStatus::decode(status.details()).unwrap();
            let info = ErrorInfo::decode(details.details[0].value.clone()).unwrap();
            assert_eq!((info.reason.as_str(), info.metadata["hint"].as_str()), (sqlstate, "y"));
        }
        assert_eq!(status(&Error::bug("x")).code(), Code::Internal);
    }
}
