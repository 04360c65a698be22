//! Finds which of many texts strings have in them, and reads each byte of a string once, however many texts there are
//! (Aho & Corasick, "Efficient String Matching: An Aid to Bibliographic Search", CACM 1975).
//!
//! A state is the longest beginning of a text that the bytes so far end with. The next state depends on the one before,
//! so a step waits for the cache. Therefore a *run* of strings, which lie one behind the other in a buffer, is read as
//! one text, and four parts of it are read side by side:
//!
//! ```text
//!   carefully final|blithely bold requests|quick deposits|haggle|even ideas|silent foxes among the ...
//!   lane 0 ----------------->>> lane 1 ------------>>> lane 2 ------------->>> lane 3 ---------------->
//!                            a lane goes on for as long as a text that begins in its part may be
//! ```
//!
//! What is found across the end of a string, or between two, is passed over. Short strings, which lie in their views,
//! are copied into a run.
//!
//! The table has a row of 256 states for each state: of a row, a language's letters are a cache line or two.
//!
//! Invariant: states in which a text ends come after all others.

use std::collections::VecDeque;

/// Parts that are read side by side: so many steps are under way at a time.
const LANES: usize = 4;

/// Bytes of a run from which on it is read.
const RUN_BYTES: usize = 32 * 1024;

/// Bytes between two strings of a run, at most: they are read in vain.
const GAP_MAX: usize = 32;

/// By byte, a state.
type NextStates = [u16; 256];

/// No state.
const NONE: u16 = u16::MAX;

/// Texts, each with a mask.
pub(super) struct Automaton {
    /// By state and byte, the next state.
    table: Box<[NextStates]>,
    /// The first state in which a text ends.
    first_found: u16,
    /// By such a state, the texts that end there: their bytes and masks, the longest first.
    found: Box<[Vec<(usize, u64)>]>,
    /// Bytes of the longest text.
    longest: usize,
}

/// The texts as a tree of their bytes.
struct Tree {
    /// By node and byte, the node below.
    below: Vec<NextStates>,
    /// By node, the texts that end there.
    found: Vec<Vec<(usize, u64)>>,
}

impl Tree {
    /// One of a root, with room for so many nodes.
    fn new(nodes: usize) -> Self {
        let (mut below, mut found) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes));
        below.push([NONE; 256]);
        found.push(vec![]);
        Self { below, found }
    }

    fn add(&mut self, text: &[u8], mask: u64) {
        let mut node = 0;
        for byte in text {
            let new = self.below.len() as u16;
            let below = &mut self.below[usize::from(node)][usize::from(*byte)];
            if *below == NONE {
                *below = new;
                self.below.push([NONE; 256]);
                self.found.push(vec![]);
                node = new;
            } else {
                node = *below;
            }
        }
        self.found[usize::from(node)].push((text.len(), mask));
    }

    /// Gives each node the one that follows for each byte, also where the tree has none below it: the one that the
    /// longest shorter end of the same bytes has.
    fn close(&mut self) {
        let mut shorter = vec![0; self.found.len()];
        let mut nodes = VecDeque::from([0]);
        while let Some(node) = nodes.pop_front() {
            let instead = if node == 0 { [0; 256] } else { self.below[usize::from(shorter[node])] };
            for (below, instead) in self.below[node].iter_mut().zip(instead) {
                if *below == NONE {
                    *below = instead;
                } else {
                    let below = usize::from(*below);
                    shorter[below] = instead;
                    // Those are shorter, and complete.
                    let shorter_texts = self.found[usize::from(instead)].clone();
                    self.found[below].extend(shorter_texts);
                    nodes.push_back(below);
                }
            }
        }
    }
}

/// States of an automaton of these texts, at most.
fn states_of(texts: &[(String, u64)]) -> usize {
    1 + texts.iter().map(|(text, _)| text.len()).sum::<usize>()
}

impl Automaton {
    /// Bytes of all texts of an automaton, at most.
    pub const TEXT_BYTES_MAX: usize = 4096;

    /// Bytes that an automaton of these texts takes at most, also while it is made.
    pub fn bytes_max(texts: &[(String, u64)]) -> usize {
        let states = states_of(texts);
        let ends = texts.len() * size_of::<(usize, u64)>();
        states * (2 * size_of::<NextStates>() + 2 * size_of::<Vec<(usize, u64)>>() + ends)
    }

    /// One that finds these texts, none of which is empty, and all of which have no more than
    /// [`TEXT_BYTES_MAX`](Self::TEXT_BYTES_MAX).
    pub fn new(texts: &[(String, u64)]) -> Self {
        let mut tree = Tree::new(states_of(texts));
        texts.iter().for_each(|(text, mask)| tree.add(text.as_bytes(), *mask));
        tree.close();
        let (ends, others): (Vec<_>, Vec<_>) = (0..tree.found.len()).partition(|node| !tree.found[*node].is_empty());
        let mut states = vec![0; tree.found.len()];
        for (state, node) in others.iter().chain(&ends).enumerate() {
            states[*node] = state as u16;
        }
        let rows = others.iter().chain(&ends).map(|node| tree.below[*node].map(|node| states[usize::from(node)]));
        Self {
            table: rows.collect(),
            first_found: others.len() as u16,
            found: ends.iter().map(|node| std::mem::take(&mut tree.found[*node])).collect(),
            longest: texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0),
        }
    }

    #[inline(always)]
    fn step(&self, state: u16, byte: u8) -> u16 {
        self.table[usize::from(state)][usize::from(byte)]
    }

    /// Tells wherever a text ends, with the lane that found it, and the texts that end there: places of a lane ascend.
    /// Some are told twice.
    fn read<'a>(&'a self, bytes: &[u8], mut tell: impl FnMut(usize, usize, &'a [(usize, u64)])) {
        let found = |state: u16| self.found[usize::from(state - self.first_found)].as_slice();
        // Short parts would mostly be read twice.
        let part = match bytes.len().div_ceil(LANES) {
            part if part > 4 * self.longest => part,
            _ => bytes.len(),
        };
        let lane = |lane: usize| {
            let start = (lane * part).min(bytes.len());
            &bytes[start..(start + part + self.longest).min(bytes.len())]
        };
        let lanes: [&[u8]; LANES] = std::array::from_fn(lane);
        let steps = lanes.iter().map(|lane| lane.len()).min().unwrap_or(0);
        let aside = lanes.map(|lane| &lane[..steps]);
        let (mut states, mut next) = ([0; LANES], 0);
        while next < steps {
            next = self.advance(aside, next, &mut states);
            for (lane, state) in states.into_iter().enumerate() {
                if state >= self.first_found {
                    tell(lane, lane * part + next - 1, found(state));
                }
            }
        }
        for (lane, mut state) in states.into_iter().enumerate() {
            for (place, byte) in lanes[lane].iter().enumerate().skip(steps) {
                state = self.step(state, *byte);
                if state >= self.first_found {
                    tell(lane, lane * part + place, found(state));
                }
            }
        }
    }

    /// Reads the lanes from a place on, up to one where a text ends or to the end. Returns the place behind it.
    #[inline(never)]
    fn advance(&self, [a, b, c, d]: [&[u8]; LANES], from: usize, states: &mut [u16; LANES]) -> usize {
        let first_found = self.first_found;
        let steps = a.len();
        let (b, c, d) = (&b[..steps], &c[..steps], &d[..steps]);
        let [mut of_a, mut of_b, mut of_c, mut of_d] = *states;
        let mut place = from;
        while place < steps {
            of_a = self.step(of_a, a[place]);
            of_b = self.step(of_b, b[place]);
            of_c = self.step(of_c, c[place]);
            of_d = self.step(of_d, d[place]);
            place += 1;
            if (of_a >= first_found) | (of_b >= first_found) | (of_c >= first_found) | (of_d >= first_found) {
                break;
            }
        }
        *states = [of_a, of_b, of_c, of_d];
        place
    }
}

/// Looks for an automaton's texts in strings, one after another, and tells of each, by its number, the masks of the
/// texts that it has.
pub(super) struct TextsIn<'a, F> {
    automaton: &'a Automaton,
    tell: F,
    /// The buffer of the run, and its strings.
    buffer: &'a [u8],
    run: Vec<RunString>,
    /// Copied strings.
    copied: Vec<u8>,
    copied_run: Vec<RunString>,
}

/// A string of a run.
struct RunString {
    number: usize,
    /// Where it is in its buffer.
    start: usize,
    end: usize,
    /// The masks of the texts found so far.
    found: u64,
}

impl<'a, F: FnMut(usize, u64)> TextsIn<'a, F> {
    pub fn new(automaton: &'a Automaton, tell: F) -> Self {
        Self { automaton, tell, buffer: &[], run: Vec::new(), copied: Vec::new(), copied_run: Vec::new() }
    }

    /// A string of a buffer, which lies behind the one before as a rule.
    pub fn add(&mut self, number: usize, buffer: &'a [u8], start: usize, end: usize) {
        let is_next = self
            .run
            .last()
            .is_none_or(|last| std::ptr::eq(buffer, self.buffer) && start >= last.end && start - last.end <= GAP_MAX);
        if !is_next || self.run.first().is_some_and(|first| end - first.start > RUN_BYTES) {
            self.read_run();
        }
        self.buffer = buffer;
        self.run.push(RunString { number, start, end, found: 0 });
    }

    /// A short string, wherever it is.
    pub fn add_copied(&mut self, number: usize, bytes: &[u8]) {
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        self.copied_run.push(RunString { number, start, end: self.copied.len(), found: 0 });
        if self.copied.len() >= RUN_BYTES {
            self.read_copied();
        }
    }

    /// Tells of what it has not told of yet.
    pub fn finish(mut self) {
        self.read_run();
        self.read_copied();
    }

    fn read_run(&mut self) {
        self.automaton.find(self.buffer, &mut self.run, &mut self.tell);
    }

    fn read_copied(&mut self) {
        self.automaton.find(&self.copied, &mut self.copied_run, &mut self.tell);
        self.copied.clear();
    }
}

impl Automaton {
    /// Finds the texts in the strings of a run, tells of each, and leaves none.
    fn find(&self, buffer: &[u8], run: &mut Vec<RunString>, tell: &mut impl FnMut(usize, u64)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let (before, end) = (first.start, last.end);
        let mut next = [0; LANES];
        self.read(&buffer[before..end], |lane, place, texts| {
            let end = before + place + 1;
            let string = &mut next[lane];
            if run[*string].end < end {
                // The first time, a lane is far from where it begins.
                let later = &run[*string..];
                *string += match later.iter().take(LOOKED_AT).position(|string| string.end >= end) {
                    Some(distance) => distance,
                    None => later.partition_point(|string| string.end < end),
                };
            }
            let string = &mut run[*string];
            let fits = texts.iter().filter(|(bytes, _)| string.start + bytes <= end);
            string.found = fits.fold(string.found, |found, (_, mask)| found | mask);
        });
        run.drain(..).for_each(|string| tell(string.number, string.found));
    }
}

/// Strings that are looked at one after another for the one that a place is in, before it is sought.
const LOOKED_AT: usize = 16;

#[cfg(test)]
mod tests {
    use diligence_base::seams::Random;

    use super::*;

    #[test]
    fn texts_are_found_wherever_they_are() {
        let mut random = Random::new(7);
        for round in 0..200 {
            // Few letters: texts are often parts of others, and overlap.
            let letters = 1 + random.below(4);
            let longest = 1 + random.below(if round % 5 == 0 { 300 } else { 6 });
            let mut word = |most: usize| {
                let length = random.below(most + 1);
                (0..length).map(|_| char::from(b'a' + random.below(letters) as u8)).collect::<String>()
            };
            let texts: Vec<_> = (0..1 + round % 64).map(|query| (word(longest) + "a", 1u64 << query)).collect();
            let mut strings: Vec<_> = (0..300).map(|number| word(if number % 50 == 0 { 700 } else { 30 })).collect();
            strings.push(word(4) + &"a".repeat(if round % 40 == 0 { 3 * RUN_BYTES } else { 0 }));
            let automaton = Automaton::new(&texts);

            // All in a buffer, one behind the other or apart, in order or not; or copied.
            let mut buffer = Vec::new();
            let mut places = Vec::new();
            for string in &strings {
                buffer.extend(std::iter::repeat_n(b'a', if round % 2 == 0 { 0 } else { random.below(50) }));
                places.push((buffer.len(), buffer.len() + string.len()));
                buffer.extend(string.bytes());
            }
            let mut numbers: Vec<_> = (0..strings.len()).collect();
            if round % 3 == 0 {
                numbers.rotate_left(20);
            }
            let mut told = Vec::new();
            let mut search = TextsIn::new(&automaton, |number, found| told.push((number, found)));
            for number in numbers {
                let (start, end) = places[number];
                match number % 7 {
                    0 => search.add_copied(number, strings[number].as_bytes()),
                    _ => search.add(number, &buffer, start, end),
                }
            }
            search.finish();
            let masks = |string: &String| {
                texts.iter().filter(|(text, _)| string.contains(text)).fold(0, |found, (_, mask)| found | mask)
            };
            let expected: Vec<_> = strings.iter().map(masks).enumerate().collect();
            told.sort_unstable();
            assert_eq!(told, expected, "round {round}: {texts:?}");
        }
    }
}
