//! How far matches of PostgreSQL's regular expressions reach (manual, section 9.7.3.5): as far as any match that begins
//! there, or, where the first quantifier of a pattern is a short one, no further than the nearest.
//!
//! The `regex` crate finds where the first match begins, which is the same. It takes the first alternative that fits,
//! so the end is looked for by an automaton that knows all matches, and the groups within these borders.

use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::ast::{Ast, RepetitionKind, RepetitionRange, parse::Parser};

/// Bytes that the states of the automaton's patterns may take.
const STATES_BYTES_MAX: usize = 16 << 20;

/// Where a match and its groups are.
pub(super) type Spans = Vec<Option<(usize, usize)>>;

/// What is compiled besides a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    /// Whether capitals are like other letters.
    pub ignores_case: bool,
    /// Whether `^` and `$` stand at lines.
    pub by_lines: bool,
    /// Whether a dot stops at the end of a line.
    pub dot_stops: bool,
}

/// A pattern whose matches reach as far as PostgreSQL's.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    first: Regex,
    /// The pattern as all of a text.
    whole: Regex,
    all: Arc<(DFA, Mutex<Cache>)>,
    is_short: bool,
}

impl Reach {
    /// The pattern, which the crate has compiled; `None` where the crate's matches reach as far, and where no automaton
    /// can be made of it.
    pub(super) fn of(pattern: &str, flags: Flags, first: &Regex) -> Option<Self> {
        let tree = Parser::new().parse(pattern).ok()?;
        let mut varying = Varying::default();
        varying.add(&tree);
        if !varying.has_choice && !varying.has_short && varying.count < 2 {
            return None;
        }
        let syntax = syntax::Config::new()
            .case_insensitive(flags.ignores_case)
            .multi_line(flags.by_lines)
            .dot_matches_new_line(!flags.dot_stops);
        let config = DFA::config().match_kind(MatchKind::All).unicode_word_boundary(true);
        let states = thompson::Config::new().nfa_size_limit(Some(STATES_BYTES_MAX));
        let all = DFA::builder().configure(config).syntax(syntax).thompson(states).build(pattern).ok()?;
        let whole = regex::RegexBuilder::new(&format!("\\A(?:{pattern})\\z"))
            .case_insensitive(flags.ignores_case)
            .multi_line(flags.by_lines)
            .dot_matches_new_line(!flags.dot_stops)
            .build()
            .ok()?;
        let cache = Mutex::new(all.create_cache());
        let is_short = is_long(&tree) == Some(false);
        Some(Self { first: first.clone(), whole, all: Arc::new((all, cache)), is_short })
    }

    /// The pattern as the crate has it.
    pub(super) fn first(&self) -> &Regex {
        &self.first
    }

    /// The first match that begins at a byte or behind it.
    pub(super) fn at(&self, text: &str, start: usize) -> Option<Spans> {
        let found = self.first.find_at(text, start)?;
        let end = self.end(text, found.start()).unwrap_or(found.end());
        if self.first.captures_len() == 1 {
            return Some(vec![Some((found.start(), end))]);
        }
        let base = found.start();
        let part = if end == found.end() { None } else { text.get(base..end) };
        let spans = match part.and_then(|part| self.whole.captures(part)) {
            Some(groups) => {
                let span = |group: regex::Match<'_>| (base + group.start(), base + group.end());
                groups.iter().map(|group| group.map(span)).collect()
            }
            // The crate's match is the one, or what stands around it decides, which the part alone does not have.
            None => {
                let groups = self.first.captures_at(text, start)?;
                groups.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect()
            }
        };
        Some(spans)
    }

    /// Where the match that begins at a byte ends; `None` if the automaton gives up.
    fn end(&self, text: &str, start: usize) -> Option<usize> {
        let (all, cache) = self.all.as_ref();
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        let input = Input::new(text).span(start..text.len()).anchored(Anchored::Yes).earliest(self.is_short);
        all.try_search_fwd(&mut cache, &input).ok()?.map(|found| found.offset())
    }
}

/// What of a pattern may match in several ways.
#[derive(Default)]
struct Varying {
    /// Quantifiers that take different numbers.
    count: usize,
    has_choice: bool,
    has_short: bool,
}

impl Varying {
    fn add(&mut self, tree: &Ast) {
        match tree {
            Ast::Repetition(repetition) => {
                self.count += usize::from(!is_fixed(&repetition.op.kind));
                self.has_short |= !repetition.greedy;
                self.add(&repetition.ast);
            }
            Ast::Group(group) => self.add(&group.ast),
            Ast::Alternation(alternation) => {
                self.has_choice = true;
                alternation.asts.iter().for_each(|tree| self.add(tree));
            }
            Ast::Concat(concat) => concat.asts.iter().for_each(|tree| self.add(tree)),
            _ => {}
        }
    }
}

fn is_fixed(kind: &RepetitionKind) -> bool {
    matches!(kind, RepetitionKind::Range(RepetitionRange::Exactly(_)))
}

/// Whether the longest match is wanted, or the shortest; `None` for a pattern without a quantifier.
fn is_long(tree: &Ast) -> Option<bool> {
    match tree {
        Ast::Repetition(repetition) if is_fixed(&repetition.op.kind) => is_long(&repetition.ast),
        Ast::Repetition(repetition) => Some(repetition.greedy),
        Ast::Group(group) => is_long(&group.ast),
        Ast::Alternation(_) => Some(true),
        Ast::Concat(concat) => concat.asts.iter().find_map(is_long),
        _ => None,
    }
}
