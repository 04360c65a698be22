//! A compiled regular expression: one of the `regex` crate, whose time is linear in the text, or, where the pattern
//! looks ahead or behind or refers back, one that goes back and forth, whose steps are limited. Matches of PostgreSQL's
//! functions end where PostgreSQL's do ([`Reach`]).

use diligence_base::Result;
use regex::Regex;

use super::errors::value_error;
use super::reach::{Reach, Spans};

/// Steps back that one match may take.
pub(super) const STEPS_MAX: usize = 1_000_000;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    /// Without looking around.
    Plain(Regex),
    /// Likewise, where another match may be the longest.
    Reaching(Box<Reach>),
    /// With looking around, or with back-references.
    Looking(Box<fancy_regex::Regex>),
}

/// A match and its groups.
pub(super) enum Found<'t> {
    /// Of a plain one.
    Plain(regex::Captures<'t>),
    /// Of the others: the text, and where in it the match and the groups are.
    Looking(&'t str, Spans),
}

/// A match, or a group of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

impl<'t> Part<'t> {
    /// Its text.
    pub(super) fn as_str(self) -> &'t str {
        self.text
    }

    /// The byte at which it begins.
    pub(super) fn start(self) -> usize {
        self.start
    }

    /// The byte behind it.
    pub(super) fn end(self) -> usize {
        self.end
    }
}

impl<'t> Found<'t> {
    /// The match itself (0), or one of its groups.
    pub(super) fn get(&self, group: usize) -> Option<Part<'t>> {
        match self {
            Self::Plain(captures) => {
                let found = captures.get(group)?;
                // A part of the crate's has its text only; that begins where the whole one does.
                Some(Part { text: found.as_str(), start: found.start(), end: found.end() })
            }
            Self::Looking(text, spans) => {
                let (start, end) = spans.get(group).copied().flatten()?;
                Some(Part { text: text.get(start..end)?, start, end })
            }
        }
    }

    /// The number of groups, the match itself among them.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(captures) => captures.len(),
            Self::Looking(_, spans) => spans.len(),
        }
    }
}

impl Matcher {
    /// Whether a text has a match. Fails with 2201B if looking for one takes too many steps.
    pub(super) fn is_match(&self, text: &str) -> Result<bool> {
        match self {
            Self::Plain(regex) => Ok(regex.is_match(text)),
            Self::Reaching(reach) => Ok(reach.first().is_match(text)),
            Self::Looking(regex) => regex.is_match(text).map_err(|_| too_complex()),
        }
    }

    /// The first match that begins at a byte or behind it. Fails as [`is_match`](Self::is_match) does.
    pub(super) fn at<'t>(&self, text: &'t str, start: usize) -> Result<Option<Found<'t>>> {
        match self {
            Self::Plain(regex) => Ok(regex.captures_at(text, start).map(Found::Plain)),
            Self::Reaching(reach) => Ok(reach.at(text, start).map(|spans| Found::Looking(text, spans))),
            Self::Looking(regex) => {
                let found = regex.captures_from_pos(text, start).map_err(|_| too_complex())?;
                let span = |found: Option<fancy_regex::Match<'_>>| found.map(|found| (found.start(), found.end()));
                let spans = |found: fancy_regex::Captures<'_, str>| {
                    (0..found.len()).map(|group| span(found.get(group))).collect()
                };
                Ok(found.map(|found| Found::Looking(text, spans(found))))
            }
        }
    }

    /// The first match. Fails as [`is_match`](Self::is_match) does.
    pub(super) fn first<'t>(&self, text: &'t str) -> Result<Option<Found<'t>>> {
        self.at(text, 0)
    }

    /// So many matches at most, from a byte on; those that are empty stand between characters. Anchors see the text
    /// before. Fails as [`is_match`](Self::is_match) does.
    pub(super) fn all<'t>(&self, text: &'t str, start: usize, most: usize) -> Result<Vec<Found<'t>>> {
        let (mut all, mut at) = (Vec::new(), Some(start));
        while let Some(start) = at.filter(|_| all.len() < most) {
            let Some(found) = self.at(text, start)? else { break };
            let Some(whole) = found.get(0) else { break };
            at = match whole.start == whole.end {
                true => text[whole.end..].chars().next().map(|next| whole.end + next.len_utf8()),
                false => Some(whole.end),
            };
            all.push(found);
        }
        Ok(all)
    }

    /// The number of groups, the match itself among them.
    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Plain(regex) => regex.captures_len(),
            Self::Reaching(reach) => reach.first().captures_len(),
            Self::Looking(regex) => regex.captures_len(),
        }
    }
}

fn too_complex() -> diligence_base::Error {
    value_error("regular expression failed: it takes too many steps", "2201B")
}
