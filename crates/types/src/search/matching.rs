//! Whether a document is what a query asks for.
//!
//! Above phrases only whether a word is there counts. Within one, every part says at which positions it is; a part that
//! must not be there says where it is not.

use super::query::{Item, Operand, Query};
use super::vector::{Lexeme, Vector};

/// What is known of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is not there.
    Absent,
    /// It is there, but nobody knows where, or has asked.
    Somewhere,
    /// It is at these positions, ascending, each once.
    At(Vec<u16>),
}

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    No,
    Maybe,
    Yes,
}

/// What is known of a part of a query.
struct PhrasePart {
    holds: Truth,
    /// Within a phrase: where it ends; `is_negated`, where it does not.
    positions: Vec<u16>,
    is_negated: bool,
    /// How many words are between its first and its last one.
    width: u16,
}

impl PhrasePart {
    fn plain(holds: Truth) -> Self {
        Self { holds, positions: vec![], is_negated: false, width: 0 }
    }

    /// A part that is at these positions.
    fn at(positions: Vec<u16>, width: u16) -> Self {
        let holds = if positions.is_empty() { Truth::No } else { Truth::Yes };
        Self { holds, positions, is_negated: false, width }
    }

    /// A part that is everywhere but at these.
    fn not_at(positions: Vec<u16>, width: u16) -> Self {
        Self { holds: Truth::Yes, positions, is_negated: true, width }
    }
}

impl Query {
    /// Whether a document is what is asked for.
    pub fn matches(&self, vector: &Vector<'_>) -> bool {
        self.holds(|_, operand, wants_positions| vector.presence(operand, wants_positions))
    }

    /// Whether it holds where `presence` tells of each operand, by the place of its item, where it is. Positions are
    /// asked for within phrases only.
    pub fn holds(&self, mut presence: impl FnMut(usize, &Operand, bool) -> Presence) -> bool {
        let in_phrase = self.parts_of_phrases();
        let mut stack: Vec<PhrasePart> = Vec::new();
        for (place, item) in self.items.iter().enumerate() {
            let within = in_phrase[place];
            let mut pop = || stack.pop().unwrap_or_else(|| PhrasePart::plain(Truth::No));
            let part = match item {
                Item::Operand(operand) => match presence(place, operand, within) {
                    Presence::Absent => PhrasePart::plain(Truth::No),
                    Presence::Somewhere => PhrasePart::plain(if within { Truth::Maybe } else { Truth::Yes }),
                    Presence::At(positions) => PhrasePart::at(positions, 0),
                },
                Item::Stop => PhrasePart::plain(Truth::No),
                Item::Not => negated(pop(), within),
                binary => {
                    let (right, left) = (pop(), pop());
                    match binary {
                        Item::And if !within => PhrasePart::plain(both(left.holds, right.holds)),
                        Item::Or if !within => PhrasePart::plain(either(left.holds, right.holds)),
                        Item::Or => one_of(left, right),
                        Item::Phrase(distance) => {
                            let offset = distance.saturating_add(right.width);
                            let width = left.width.saturating_add(offset);
                            let part = all_of(left, right, (offset, 0), width);
                            // Above phrases, what may be is not.
                            match part.holds {
                                Truth::Maybe if !within => PhrasePart::plain(Truth::No),
                                _ => part,
                            }
                        }
                        _ => {
                            let width = left.width.max(right.width);
                            let offsets = (width - left.width, width - right.width);
                            all_of(left, right, offsets, width)
                        }
                    }
                }
            };
            stack.push(part);
        }
        stack.pop().is_some_and(|part| part.holds != Truth::No)
    }

    /// Of each item whether it is a part of a phrase.
    fn parts_of_phrases(&self) -> Vec<bool> {
        let mut within = vec![false; self.items.len()];
        // From the last item on, each operator is met before its values: what each of them is in.
        let mut open = vec![false];
        for (place, item) in self.items.iter().enumerate().rev() {
            within[place] = open.pop().unwrap_or(false);
            let inner = within[place] || matches!(item, Item::Phrase(_));
            let values = match item {
                Item::Operand(_) | Item::Stop => 0,
                Item::Not => 1,
                _ => 2,
            };
            open.extend(std::iter::repeat_n(inner, values));
        }
        within
    }
}

fn both(left: Truth, right: Truth) -> Truth {
    match (left, right) {
        (Truth::No, _) | (_, Truth::No) => Truth::No,
        (Truth::Yes, Truth::Yes) => Truth::Yes,
        _ => Truth::Maybe,
    }
}

fn either(left: Truth, right: Truth) -> Truth {
    match (left, right) {
        (Truth::Yes, _) | (_, Truth::Yes) => Truth::Yes,
        (Truth::No, Truth::No) => Truth::No,
        _ => Truth::Maybe,
    }
}

fn negated(part: PhrasePart, within: bool) -> PhrasePart {
    match part.holds {
        Truth::Maybe => PhrasePart::plain(Truth::Maybe),
        Truth::No if within => PhrasePart::not_at(vec![], part.width),
        Truth::No => PhrasePart::plain(Truth::Yes),
        Truth::Yes if !within => PhrasePart::plain(Truth::No),
        Truth::Yes if part.is_negated => PhrasePart::at(part.positions, part.width),
        Truth::Yes => PhrasePart::not_at(part.positions, part.width),
    }
}

/// Which positions are given of those of two parts.
#[derive(Clone, Copy)]
struct Given {
    of_left: bool,
    of_right: bool,
    of_both: bool,
}

const LEFT: Given = Given { of_left: true, of_right: false, of_both: false };
const RIGHT: Given = Given { of_left: false, of_right: true, of_both: false };
const BOTH: Given = Given { of_left: false, of_right: false, of_both: true };
const ALL: Given = Given { of_left: true, of_right: true, of_both: true };

/// Positions of two parts, moved to the right, that are in one of them or in both.
fn merged(left: &PhrasePart, right: &PhrasePart, offsets: (u16, u16), given: Given) -> Vec<u16> {
    let moved = |position: &u16, offset: u16| position.saturating_add(offset);
    let mut lefts = left.positions.iter().map(|position| moved(position, offsets.0)).peekable();
    let mut rights = right.positions.iter().map(|position| moved(position, offsets.1)).peekable();
    let mut out = Vec::new();
    loop {
        let (next, is_given) = match (lefts.peek().copied(), rights.peek().copied()) {
            (None, None) => return out,
            (Some(a), Some(b)) if a == b => (a, given.of_both),
            (Some(a), Some(b)) if a < b => (a, given.of_left),
            (Some(a), None) => (a, given.of_left),
            (_, Some(b)) => (b, given.of_right),
        };
        lefts.next_if_eq(&next);
        rights.next_if_eq(&next);
        // Positions are counted from 1.
        if is_given && next > 0 {
            out.push(next);
        }
    }
}

/// Both parts, the positions of each moved by an offset.
fn all_of(left: PhrasePart, right: PhrasePart, offsets: (u16, u16), width: u16) -> PhrasePart {
    if left.holds == Truth::No || right.holds == Truth::No {
        return PhrasePart::plain(Truth::No);
    }
    if left.holds == Truth::Maybe || right.holds == Truth::Maybe {
        return PhrasePart::plain(Truth::Maybe);
    }
    match (left.is_negated, right.is_negated) {
        (true, true) => PhrasePart::not_at(merged(&left, &right, offsets, ALL), width),
        (true, false) => PhrasePart::at(merged(&left, &right, offsets, RIGHT), width),
        (false, true) => PhrasePart::at(merged(&left, &right, offsets, LEFT), width),
        (false, false) => PhrasePart::at(merged(&left, &right, offsets, BOTH), width),
    }
}

/// One of two parts of a phrase; the shorter one is moved to the end of the longer one.
fn one_of(mut left: PhrasePart, mut right: PhrasePart) -> PhrasePart {
    match either(left.holds, right.holds) {
        Truth::No => return PhrasePart::plain(Truth::No),
        _ if left.holds == Truth::Maybe || right.holds == Truth::Maybe => return PhrasePart::plain(Truth::Maybe),
        _ => {}
    }
    for part in [&mut left, &mut right] {
        if part.holds == Truth::No {
            part.width = 0;
        }
    }
    let width = left.width.max(right.width);
    let offsets = (width - left.width, width - right.width);
    match (left.is_negated, right.is_negated) {
        (true, true) => PhrasePart::not_at(merged(&left, &right, offsets, BOTH), width),
        (true, false) => PhrasePart::not_at(merged(&left, &right, offsets, LEFT), width),
        (false, true) => PhrasePart::not_at(merged(&left, &right, offsets, RIGHT), width),
        (false, false) => PhrasePart::at(merged(&left, &right, offsets, ALL), width),
    }
}

impl Vector<'_> {
    /// What is known of an operand in the document.
    fn presence(&self, operand: &Operand, wants_positions: bool) -> Presence {
        let found = self.found(&operand.word, operand.is_prefix);
        let has_weight = |weight: super::vector::Weight| operand.weights == 0 || operand.weights & weight.bit() != 0;
        if !wants_positions {
            // Lexemes without positions have any weight.
            let has = |lexeme: &Lexeme<'_>| {
                operand.weights == 0
                    || lexeme.positions.is_empty()
                    || lexeme.positions.iter().any(|position| has_weight(position.weight))
            };
            return if found.iter().any(has) { Presence::Somewhere } else { Presence::Absent };
        }
        if found.iter().any(|lexeme| lexeme.positions.is_empty()) {
            return Presence::Somewhere;
        }
        let positions = found.iter().flat_map(|lexeme| &lexeme.positions);
        let mut positions =
            positions.filter(|position| has_weight(position.weight)).map(|position| position.at).collect::<Vec<_>>();
        if found.len() > 1 {
            positions.sort_unstable();
            positions.dedup();
        }
        if positions.is_empty() { Presence::Absent } else { Presence::At(positions) }
    }
}
