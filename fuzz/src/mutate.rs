//! Damaged inputs from sound ones, by seed.

use diligence_base::seams::Random;

use crate::targets::TargetKind;

/// The longest input. Longer ones only take longer.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Changes to one input at most.
const CHANGES_MAX: usize = 6;

/// Numbers that readers stumble over, as they stand in files.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];

/// The input that belongs to a seed.
pub fn input(kind: TargetKind, seed: u64) -> Vec<u8> {
    from(kind.corpus(), kind, seed)
}

/// The same, from a corpus made before.
pub fn from(corpus: &[Vec<u8>], kind: TargetKind, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut input = corpus[random.below(corpus.len())].clone();
    // Mostly one change or two: what is damaged more is refused at its first bytes.
    let changes = 1 + random.below(CHANGES_MAX).min(random.below(CHANGES_MAX)).min(random.below(CHANGES_MAX));
    for _ in 0..changes {
        if kind.is_text() && random.below(4) > 0 {
            change_words(&mut input, corpus, kind, &mut random);
        } else {
            change_bytes(&mut input, corpus, kind, &mut random);
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// A change that keeps the words of a text whole.
fn change_words(input: &mut Vec<u8>, corpus: &[Vec<u8>], kind: TargetKind, random: &mut Random) {
    let word = word_at(input, random.below(input.len() + 1));
    let other = match random.below(3) {
        0 => {
            let tokens = kind.tokens();
            tokens[random.below(tokens.len())].to_vec()
        }
        1 => {
            let other = &corpus[random.below(corpus.len())];
            other[word_at(other, random.below(other.len() + 1))].to_vec()
        }
        _ => input[word_at(input, random.below(input.len() + 1))].to_vec(),
    };
    match random.below(4) {
        0 => drop(input.drain(word)),
        1 => insert(input, word.start, &[&other, b" ".as_slice()].concat()),
        _ => drop(input.splice(word, other)),
    }
}

fn change_bytes(input: &mut Vec<u8>, corpus: &[Vec<u8>], kind: TargetKind, random: &mut Random) {
    let at = random.below(input.len() + 1);
    // How much is touched: mostly little.
    let length = match random.below(8) {
        0..=3 => 1,
        4 | 5 => random.below(8),
        6 => random.below(64),
        _ => random.below(input.len() + 1),
    };
    let end = (at + length).min(input.len());
    match random.below(16) {
        0..=3 if at < input.len() => input[at] ^= 1 << random.below(8),
        4..=6 if at < input.len() => input[at] = random.below(256) as u8,
        7 => input.truncate(at),
        8 => drop(input.drain(at..end)),
        9 => {
            let copy = input[at..end].to_vec();
            insert(input, at, &copy);
        }
        10 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            let to = (from + length).min(other.len());
            insert(input, at, &other[from..to]);
        }
        11 | 12 => {
            let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            overwrite(input, at, &number[..width]);
        }
        13 => {
            let tokens = kind.tokens();
            overwrite(input, at, tokens[random.below(tokens.len())]);
        }
        14 => {
            let bytes: Vec<u8> = (0..length.min(16)).map(|_| random.below(256) as u8).collect();
            insert(input, at, &bytes);
        }
        _ => {
            let bytes: Vec<u8> = (0..length.min(16)).map(|_| random.below(256) as u8).collect();
            overwrite(input, at, &bytes);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let room = INPUT_BYTES_MAX.saturating_sub(input.len());
    let bytes = &bytes[..bytes.len().min(room)];
    input.splice(at..at, bytes.iter().copied());
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    let length = bytes.len().min(input.len() - at);
    input[at..at + length].copy_from_slice(&bytes[..length]);
}

/// The letters and digits around a place.
fn word_at(input: &[u8], at: usize) -> std::ops::Range<usize> {
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let start = at - input[..at].iter().rev().take_while(|byte| in_word(byte)).count();
    let end = at + input[at..].iter().take_while(|byte| in_word(byte)).count();
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_input() {
        let inputs = |kind| (0..200).map(|seed| input(kind, seed)).collect::<Vec<_>>();
        let made = inputs(TargetKind::Csv);
        assert_eq!(made, inputs(TargetKind::Csv));
        assert!(made.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
        assert!(made.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
