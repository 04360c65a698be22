//! Statements that have ended, kept until whoever sends traces takes them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Statements that are kept at most. More of them between two looks are counted, and lost.
const SPANS_MAX: usize = 8192;

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It came to its end, or as far as its client wanted.
    Done,
    /// It failed: its SQLSTATE, and the message.
    Failed(&'static str, String),
    /// It was cancelled, or took too long.
    GivenUp,
}

/// The span of a client that a statement belongs to, as `traceparent` of W3C's Trace Context tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace: [u8; 16],
    /// The client's span.
    pub span: [u8; 8],
    /// Whether the trace is kept; if not, nobody wants the statement's span either.
    pub is_kept: bool,
}

impl Parent {
    /// The value of the header `traceparent`: `00-TRACE-SPAN-FLAGS` in hexadecimal digits. `None` if it is not valid,
    /// which is as good as none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let [version] = bytes(parts.next()?)?;
        let (trace, span) = (bytes(parts.next()?)?, bytes(parts.next()?)?);
        let [flags] = bytes(parts.next()?)?;
        // Later versions may have more parts behind these.
        let is_valid = version != 0xff && (version > 0 || parts.next().is_none());
        let is_one = trace != [0; 16] && span != [0; 8];
        (is_valid && is_one).then_some(Self { trace, span, is_kept: flags & 1 == 1 })
    }

    /// What a comment of the statement says, as sqlcommenter writes it: `/*traceparent='00-…'*/`.
    pub fn of_statement(statement: &str) -> Option<Self> {
        const KEY: &str = "traceparent='";
        let comment = &statement[statement.rfind("/*")?..];
        let value = &comment[comment.find(KEY)? + KEY.len()..];
        Self::parse(&value[..value.find('\'')?])
    }
}

/// The bytes that hexadecimal digits in small letters tell.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * N {
        return None;
    }
    let mut all = [0; N];
    for (byte, pair) in all.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(all)
}

/// A statement from its start to its end.
#[derive(Clone, Debug)]
pub struct Span {
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// By which door it came.
    pub door: &'static str,
    /// Who asked.
    pub user: String,
    /// What, without passwords; long ones are cut off.
    pub statement: String,
    /// How it ended.
    pub ending: Ending,
    /// What of its client it belongs to, if the client says so.
    pub parent: Option<Parent>,
}

/// The statements that have ended.
#[derive(Debug, Default)]
pub struct Spans {
    is_on: AtomicBool,
    ended: Mutex<VecDeque<Span>>,
    lost: AtomicU64,
}

impl Spans {
    /// Keeps statements from now on.
    pub(crate) fn keep(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Keeps a statement, if somebody wants them.
    pub(crate) fn add(&self, span: impl FnOnce() -> Span) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let span = span();
        let mut ended = self.ended.lock();
        if ended.len() < SPANS_MAX {
            ended.push_back(span);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The oldest of those that are kept, so many at most.
    pub(crate) fn take(&self, count: usize) -> Vec<Span> {
        let mut ended = self.ended.lock();
        let count = count.min(ended.len());
        ended.drain(..count).collect()
    }

    /// How many were lost, because nobody took them in time.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_kept_when_somebody_wants_them_and_not_without_end() {
        let spans = Spans::default();
        let span = || Span {
            ended: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            door: "http",
            user: String::new(),
            statement: String::new(),
            ending: Ending::Done,
            parent: None,
        };
        spans.add(span);
        assert!(spans.take(9).is_empty());
        spans.keep();
        (0..SPANS_MAX + 3).for_each(|_| spans.add(span));
        assert_eq!((spans.take(10).len(), spans.lost()), (10, 3));
        assert_eq!(spans.take(usize::MAX).len(), SPANS_MAX - 10);
    }

    #[test]
    fn a_client_says_what_a_statement_belongs_to() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let parent = Parent::parse(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((parent.trace[0], parent.span[1], parent.is_kept), (0x4b, 0xf0, true));
        assert!(!Parent::parse(&format!("00-{trace}-{span}-00")).unwrap().is_kept);
        assert!(Parent::parse(&format!("01-{trace}-{span}-01-more")).is_some());
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{span}-{trace}-01"),
        ] {
            assert_eq!(Parent::parse(&wrong), None, "{wrong}");
        }
        let said = format!("SELECT 1 /*db_driver='x',traceparent='00-{trace}-{span}-01'*/");
        assert_eq!(Parent::of_statement(&said), Some(parent));
        assert_eq!(Parent::of_statement("SELECT 1 /* traceparent='00-"), None);
        assert_eq!(Parent::of_statement("SELECT 'traceparent='"), None);
    }
}
