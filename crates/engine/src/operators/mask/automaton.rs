//! Finds which of many texts strings have in them, and reads each byte of a string once, however many texts there are
//! (Aho & Corasick, "Efficient String Matching: An Aid to Bibliographic Search", CACM 1975).
//!
//! A state is the longest beginning of a text that the bytes so far end with. The next state depends on the one before,
//! so a step waits for the cache. Therefore strings are put one behind the other, with a byte between them that no text
//! has, and four parts of them are read side by side:
//!
//! ```text
//!   carefully final|blithely bold requests|quick deposits|haggle|even ideas|silent foxes among the ...
//!   lane 0 ----------------->>> lane 1 ------------>>> lane 2 ------------->>> lane 3 ---------------->
//!                            a lane goes on for as long as a text that begins in its part may be
//! ```
//!
//! The table has a row of 256 states for each state: of a row, a language's letters are a cache line or two.
//!
//! Invariant: states in which a text ends come after all others.

use std::collections::VecDeque;

/// Parts that are read side by side: so many steps are under way at a time.
const LANES: usize = 4;

/// Stands between strings: no UTF-8 has it.
const BETWEEN: u8 = 0xff;

/// Bytes of strings that are put together; longer strings are read where they are.
const TOGETHER_BYTES: usize = 32 * 1024;

/// By byte, a state.
type Row = [u16; 256];

/// No state.
const NONE: u16 = u16::MAX;

/// Texts, each with a mask.
pub(super) struct Automaton {
    /// By state and byte, the next state.
    table: Box<[Row]>,
    /// The first state in which a text ends.
    first_found: u16,
    /// By such a state, the masks of the texts that end there, together.
    found: Box<[u64]>,
    /// Bytes of the longest text.
    longest: usize,
}

/// The texts as a tree of their bytes.
struct Tree {
    /// By node and byte, the node below.
    below: Vec<Row>,
    /// By node, the masks of the texts that end there.
    found: Vec<u64>,
}

impl Tree {
    fn new() -> Self {
        Self { below: vec![[NONE; 256]], found: vec![0] }
    }

    fn add(&mut self, text: &[u8], mask: u64) {
        let mut node = 0;
        for byte in text {
            let new = self.below.len() as u16;
            let below = &mut self.below[usize::from(node)][usize::from(*byte)];
            if *below == NONE {
                *below = new;
                self.below.push([NONE; 256]);
                self.found.push(0);
                node = new;
            } else {
                node = *below;
            }
        }
        self.found[usize::from(node)] |= mask;
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
                    self.found[below] |= self.found[usize::from(instead)];
                    nodes.push_back(below);
                }
            }
        }
    }
}

impl Automaton {
    /// Bytes of texts that one can find, at most.
    pub const TEXT_BYTES_MAX: usize = 4096;

    /// Bytes that one of these texts takes at most, also while it is made.
    pub fn bytes_max(texts: &[(String, u64)]) -> usize {
        let states = 1 + texts.iter().map(|(text, _)| text.len()).sum::<usize>();
        2 * states * (size_of::<Row>() + size_of::<u64>())
    }

    /// One that finds these texts, none of which is empty, and all of which have no more than
    /// [`TEXT_BYTES_MAX`](Self::TEXT_BYTES_MAX).
    pub fn new(texts: &[(String, u64)]) -> Self {
        let mut tree = Tree::new();
        texts.iter().for_each(|(text, mask)| tree.add(text.as_bytes(), *mask));
        tree.close();
        let (ends, others): (Vec<_>, Vec<_>) = (0..tree.found.len()).partition(|node| tree.found[*node] != 0);
        let mut states = vec![0; tree.found.len()];
        for (state, node) in others.iter().chain(&ends).enumerate() {
            states[*node] = state as u16;
        }
        let rows = others.iter().chain(&ends).map(|node| tree.below[*node].map(|node| states[usize::from(node)]));
        Self {
            table: rows.collect(),
            first_found: others.len() as u16,
            found: ends.iter().map(|node| tree.found[*node]).collect(),
            longest: texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0),
        }
    }

    #[inline(always)]
    fn step(&self, state: u16, byte: u8) -> u16 {
        self.table[usize::from(state)][usize::from(byte)]
    }

    /// The masks of the texts that end in a state.
    fn found(&self, state: u16) -> u64 {
        self.found[usize::from(state - self.first_found)]
    }

    /// Tells of each string, by its number, the masks of the texts that it has, in order.
    pub fn find_in<'s>(&self, strings: impl Iterator<Item = (usize, &'s [u8])>, mut tell: impl FnMut(usize, u64)) {
        let mut together = Together::default();
        for (number, bytes) in strings {
            if together.bytes.len() + bytes.len() >= TOGETHER_BYTES {
                together.find(self, &mut tell);
            }
            if bytes.len() >= TOGETHER_BYTES {
                let mut found = 0;
                self.read(bytes, |_, _, mask| found |= mask);
                tell(number, found);
                continue;
            }
            together.bytes.extend_from_slice(bytes);
            together.bytes.push(BETWEEN);
            together.strings.push((number, together.bytes.len(), 0));
        }
        together.find(self, &mut tell);
    }

    /// Tells wherever a text ends, with the lane that found it: those of a lane ascend. Some are told twice.
    fn read(&self, bytes: &[u8], mut tell: impl FnMut(usize, usize, u64)) {
        // Short parts would mostly be read twice.
        let part = match bytes.len() / LANES {
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
                    tell(lane, lane * part + next - 1, self.found(state));
                }
            }
        }
        for (lane, mut state) in states.into_iter().enumerate() {
            for (place, byte) in lanes[lane].iter().enumerate().skip(steps) {
                state = self.step(state, *byte);
                if state >= self.first_found {
                    tell(lane, lane * part + place, self.found(state));
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

/// Strings one behind the other.
#[derive(Default)]
struct Together {
    bytes: Vec<u8>,
    /// Their numbers, where they end, and the masks of the texts that were found in them.
    strings: Vec<(usize, usize, u64)>,
}

impl Together {
    /// Finds the texts, tells of each string, and has none afterwards.
    fn find(&mut self, automaton: &Automaton, tell: &mut impl FnMut(usize, u64)) {
        let mut next = [0; LANES];
        let strings = &mut self.strings;
        automaton.read(&self.bytes, |lane, place, mask| {
            let string = &mut next[lane];
            if strings[*string].1 <= place {
                // The first time, a lane is far from where it begins.
                let later = &strings[*string..];
                *string += match later.iter().take(LOOKED_AT).position(|(_, end, _)| *end > place) {
                    Some(distance) => distance,
                    None => later.partition_point(|(_, end, _)| *end <= place),
                };
            }
            strings[*string].2 |= mask;
        });
        strings.iter().for_each(|(number, _, found)| tell(*number, *found));
        self.bytes.clear();
        self.strings.clear();
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
            strings.push(word(4) + &"a".repeat(if round % 40 == 0 { 3 * TOGETHER_BYTES } else { 0 }));
            let automaton = Automaton::new(&texts);

            let mut told = Vec::new();
            let numbered = strings.iter().enumerate().map(|(number, string)| (number, string.as_bytes()));
            automaton.find_in(numbered, |number, found| told.push((number, found)));
            let masks = |string: &String| {
                texts.iter().filter(|(text, _)| string.contains(text)).fold(0, |found, (_, mask)| found | mask)
            };
            let expected: Vec<_> = strings.iter().map(masks).enumerate().collect();
            told.sort_unstable();
            assert_eq!(told, expected, "round {round}: {texts:?}");
        }
    }
}
