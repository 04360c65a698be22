//! SQLSTATE codes: what PostgreSQL's clients, and HTTP's, tell errors apart by.

use diligence_base::{Error, ErrorKind};

/// `successful_completion`: of notices.
pub const SUCCESS: &str = "00000";
/// `query_canceled`.
pub const CANCELLED: &str = "57014";
/// `admin_shutdown`.
pub const SHUTDOWN: &str = "57P01";
/// `too_many_connections`; also for a queue that is too long.
pub const TOO_MANY: &str = "53300";
/// `protocol_violation`.
pub const PROTOCOL: &str = "08P01";
/// `feature_not_supported`.
pub const UNSUPPORTED: &str = "0A000";
/// `read_only_sql_transaction`.
pub const READ_ONLY: &str = "25006";
/// A statement that cannot run in a transaction, or there is one already.
pub const ACTIVE_TRANSACTION: &str = "25001";
/// `in_failed_sql_transaction`.
pub const FAILED_TRANSACTION: &str = "25P02";
/// `serialization_failure`.
pub const SERIALIZATION_FAILURE: &str = "40001";
/// `deadlock_detected`.
pub const DEADLOCK: &str = "40P01";
/// `insufficient_privilege`.
pub const DENIED: &str = "42501";
/// `program_limit_exceeded`.
pub const LIMIT: &str = "54000";

/// The error's code, as [`diligence_db::sqlstate`] finds it.
pub fn of(error: &Error) -> &'static str {
    diligence_db::sqlstate(error)
}

/// HTTP's status for the error.
pub fn http_status(error: &Error) -> u16 {
    match of(error) {
        DENIED => 403,
        LIMIT => 400,
        TOO_MANY | SHUTDOWN => 503,
        CANCELLED => 499,
        // Unique keys, references, exclusions: what is there does not go together with the request.
        "23505" | "23503" | "23P01" => 409,
        // NOT NULL, CHECK: a value that the table does not take.
        "23502" | "23514" => 422,
        // Others were in the way; the next try may come through.
        SERIALIZATION_FAILURE | DEADLOCK | "55P03" => 503,
        // A database that takes no changes, since its disk has failed; not a statement that may only read.
        READ_ONLY if error.kind() != ErrorKind::Unsupported => 503,
        _ => match error.kind() {
            ErrorKind::Input | ErrorKind::Value => 400,
            ErrorKind::Unsupported => 501,
            ErrorKind::Resource => 507,
            ErrorKind::Retry => 503,
            ErrorKind::Cancelled => 499,
            ErrorKind::File | ErrorKind::Bug => 500,
        },
    }
}

/// The place of an error in the statement, in characters from 1, as the wire protocol wants it.
pub fn position(error: &Error, statement: &str) -> Option<usize> {
    let span = error.span()?;
    let line = usize::try_from(span.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(span.column).ok()?;
    let before = statement.split_inclusive('\n').take(line).map(|line| line.chars().count()).sum::<usize>();
    (statement.lines().count() > line || line == 0).then_some(before + column)
}

#[cfg(test)]
mod tests {
    use diligence_base::Span;

    use super::*;

    #[test]
    fn codes_follow_what_is_wrong() {
        assert_eq!(of(&Error::input("no table is named 'a'").with_code("42P01")), "42P01");
        assert_eq!(of(&Error::value("Divide by zero error")), "22012");
        assert_eq!(of(&Error::cancelled()), CANCELLED);
        assert_eq!(http_status(&Error::input("x").with_code(TOO_MANY)), 503);
        assert_eq!(http_status(&Error::input("x").with_code(DENIED)), 403);
        for (code, status) in [("23505", 409), ("23503", 409), ("23502", 422), ("23514", 422), ("40001", 503)] {
            assert_eq!(http_status(&Error::value("x").with_code(code)), status, "{code}");
        }
        assert_eq!(http_status(&Error::unsupported("x").with_code(READ_ONLY)), 501);
        assert_eq!(http_status(&Error::file("x").with_code(READ_ONLY)), 503);
        assert_eq!(http_status(&Error::resource("x").with_code("53100")), 507);
    }

    #[test]
    fn a_position_counts_characters_of_the_whole_text() {
        let error = Error::input("x").with_span(Span { line: 2, column: 3 });
        assert_eq!(position(&error, "SELECT é,\n  a"), Some(13));
        assert_eq!(position(&error, "one line"), None);
        assert_eq!(position(&Error::input("x"), "SELECT"), None);
    }
}
