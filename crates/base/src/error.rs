//! One error type for all rooms. Its kind says what the caller does next, not where it happened.

use std::fmt;
use std::sync::Arc;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The statement or an argument is wrong: fix it and send it again.
    Input,
    /// A value met while running cannot be computed with (division by zero, overflow, a failed cast).
    Value,
    /// A file is missing, truncated or corrupt: repair the file.
    File,
    /// The statement is fine but the engine cannot run it.
    Unsupported,
    /// Memory, disk space or another limit is used up: raise it, or run less at once.
    Resource,
    /// A passing condition: the same call may succeed later.
    Retry,
    /// Somebody asked for the query to stop.
    Cancelled,
    /// A broken invariant: report it. Other queries are not affected.
    Bug,
}

/// A place in the text of a statement. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

/// An error: its kind, one sentence about what is wrong, and, where known, what to do and where.
///
/// Cheap to clone, because one failure may end several packets of a query.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    span: Option<Span>,
    code: Option<&'static str>,
    detail: Option<String>,
    about: About,
}

/// What an error is about, for programs that react to it: the fields that PostgreSQL's protocol has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// A schema.
    pub schema: Option<String>,
    /// A table in it.
    pub table: Option<String>,
    /// A column of the table.
    pub column: Option<String>,
    /// A constraint of the table.
    pub constraint: Option<String>,
}

impl Error {
    /// An error of the given kind. The message is one sentence without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (message, about) = (message.into(), About::default());
        Self(Arc::new(Inner { kind, message, hint: None, span: None, code: None, detail: None, about }))
    }

    /// The statement or an argument is wrong.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// A value cannot be computed with.
    pub fn value(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, message)
    }

    /// A file is missing, truncated or corrupt. The message names the file.
    pub fn file(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::File, message)
    }

    /// The engine cannot run this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A limit is reached.
    pub fn resource(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Resource, message)
    }

    /// The query was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "the query was cancelled")
    }

    /// A broken invariant.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, message)
    }

    /// The same error with a hint that says what to do.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).hint = Some(hint.into());
        self
    }

    /// The same error with its place in the statement.
    pub fn with_span(mut self, span: Span) -> Self {
        Arc::make_mut(&mut self.0).span = Some(span);
        self
    }

    /// The same error with its code in the SQL standard's list (SQLSTATE), where one fits better than that of its kind.
    pub fn with_code(mut self, code: &'static str) -> Self {
        Arc::make_mut(&mut self.0).code = Some(code);
        self
    }

    /// The same error with a second sentence, which has values of the row that it is about.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).detail = Some(detail.into());
        self
    }

    /// The same error with what it is about.
    pub fn with_about(mut self, about: About) -> Self {
        Arc::make_mut(&mut self.0).about = about;
        self
    }

    /// The same error with words in front of its message: `context: message`.
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message = format!("{context}: {}", inner.message);
        self
    }

    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it, where known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Where in the statement, where known.
    pub fn span(&self) -> Option<Span> {
        self.0.span
    }

    /// Its SQLSTATE, where one is known that says more than the kind: five characters, as `42P01` for an unknown table.
    pub fn code(&self) -> Option<&'static str> {
        self.0.code
    }

    /// Values of the row that it is about, where that helps.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What it is about, where known.
    pub fn about(&self) -> &About {
        &self.0.about
    }

    /// True if the same call may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Retry)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(span) = self.0.span {
            write!(f, " (line {}, column {})", span.line, span.column)?;
        }
        if let Some(detail) = &self.0.detail {
            write!(f, "\ndetail: {detail}")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_message_place_and_hint() {
        let error = Error::input("no column named 'a'")
            .with_span(Span { line: 1, column: 8 })
            .with_hint("did you mean 'b'?")
            .with_code("42703")
            .context("planning");
        assert_eq!((error.code(), Error::cancelled().code()), (Some("42703"), None));
        assert_eq!(error.to_string(), "planning: no column named 'a' (line 1, column 8)\nhint: did you mean 'b'?");
        assert!(!error.is_retryable());
    }
}
