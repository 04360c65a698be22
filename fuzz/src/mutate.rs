//! Damaged inputs from sound ones, by seed.

use diligence_base::seams::Random;

use crate::targets::Kind;

/// The longest input. Longer ones only take longer.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Changes to one input at most.
const CHANGES_MAX: usize = 6;

/// Numbers that readers stumble over, as they stand in files.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];

/// The input that belongs to a seed.
pub fn input(kind: Kind, seed: u64) -> Vec<u8> {
    from(kind.corpus(), kind, seed)
}

/// The same, from a corpus made before.
pub fn from(corpus: &[Vec<u8>], kind: Kind, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(CHANGES_MAX) {
        change(&mut input, corpus, kind, &mut random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], kind: Kind, random: &mut Random) {
    let at = random.below(input.len() + 1);
    // How much is touched: mostly little.
    let length = match random.below(4) {
        0 => 1,
        1 => random.below(8),
        2 => random.below(64),
        _ => random.below(input.len() + 1),
    };
    let end = (at + length).min(input.len());
    match random.below(10) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => input.truncate(at),
        3 => drop(input.drain(at..end)),
        4 => {
            let copy = input[at..end].to_vec();
            insert(input, at, &copy);
        }
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            let to = (from + length).min(other.len());
            insert(input, at, &other[from..to]);
        }
        6 => {
            let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            overwrite(input, at, &number[..width]);
        }
        7 | 8 => {
            let tokens = kind.tokens();
            let token = tokens[random.below(tokens.len())];
            // In a text a token goes where a word was; in bytes, on top of others or between them.
            if kind.is_text() {
                let word = word_at(input, at);
                input.splice(word, token.iter().copied());
            } else if random.below(2) == 0 {
                overwrite(input, at, token);
            } else {
                insert(input, at, token);
            }
        }
        _ => {
            let bytes: Vec<u8> = (0..length.min(16)).map(|_| random.below(256) as u8).collect();
            insert(input, at, &bytes);
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
        let made = inputs(Kind::Csv);
        assert_eq!(made, inputs(Kind::Csv));
        assert!(made.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
        assert!(made.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
