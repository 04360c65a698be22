//! What reading texts depends on besides the type.

use super::zones::Zone;

/// What reading texts depends on besides the type.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The session's zone.
    pub zone: Zone,
    /// The statement's time in microseconds since 1970, for `now` and `today`; without it those are errors.
    pub now: Option<i64>,
    /// Whether texts too long for a `varchar(n)` are cut instead of refused.
    pub is_explicit: bool,
    /// Whether a text that cannot be read becomes NULL instead of an error.
    pub is_try: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { zone: Zone::UTC, now: None, is_explicit: true, is_try: false }
    }
}
