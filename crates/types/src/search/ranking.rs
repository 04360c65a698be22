//! How well a document answers a query: by how often its words are there (`ts_rank`), or how near to each other
//! (`ts_rank_cd`).
//!
//! The numbers are PostgreSQL's to the last bit, so each step has its precision.

use diligence_base::{Error, Result};

use super::POSITION_MAX;
use super::matching::Presence;
use super::query::{Item, Operand, Query};
use super::vector::{Lexeme, Position, Vector, Weight};

/// What the weights count, from `D` to `A`.
pub type WeightValues = [f32; 4];

/// What they count if nobody says otherwise.
pub const WEIGHT_VALUES: WeightValues = [0.1, 0.2, 0.4, 1.0];

/// By what a rank is divided: bits of a number that the caller gives.
mod divisor {
    /// 1 and the logarithm of the length.
    pub(super) const LOGARITHM: i32 = 1;
    pub(super) const LENGTH: i32 = 2;
    /// The mean distance between covers.
    pub(super) const DISTANCE: i32 = 4;
    pub(super) const WORDS: i32 = 8;
    pub(super) const WORDS_LOGARITHM: i32 = 16;
    /// Itself and 1.
    pub(super) const ITSELF: i32 = 32;
}

/// The values of weights that a caller gives: a negative one stands for the default. Fails with 2202E if there are too
/// few, 22004 for a NULL, 22023 for one above 1.
pub fn weight_values(given: &[Option<f32>]) -> Result<WeightValues> {
    if given.len() < WEIGHT_VALUES.len() {
        return Err(Error::value("array of weight is too short").with_code("2202E"));
    }
    let mut values = WEIGHT_VALUES;
    if given.iter().any(Option::is_none) {
        return Err(Error::value("array of weight must not contain nulls").with_code("22004"));
    }
    for (value, given) in values.iter_mut().zip(given.iter().flatten()) {
        if *given >= 0.0 {
            *value = *given;
        }
        if *value > 1.0 {
            return Err(Error::value("weight out of range").with_code("22023"));
        }
    }
    Ok(values)
}

/// `ts_rank`.
pub fn rank(values: &WeightValues, vector: &Vector<'_>, query: &Query, divisors: i32) -> f32 {
    let Some(last) = query.items.last().filter(|_| !vector.lexemes.is_empty()) else { return 0.0 };
    let mut rank = match last {
        Item::And | Item::Phrase(_) => of_all(values, vector, query),
        _ => of_any(values, vector, query),
    };
    if rank < 0.0 {
        rank = 1e-20;
    }
    let (length, words) = (length(vector), vector.lexemes.len());
    if divisors & divisor::LOGARITHM != 0 {
        rank = (f64::from(rank) / (((length + 1) as f64).ln() / std::f64::consts::LN_2)) as f32;
    }
    if divisors & divisor::LENGTH != 0 && length > 0 {
        rank /= length as f32;
    }
    if divisors & divisor::WORDS != 0 {
        rank /= words as f32;
    }
    if divisors & divisor::WORDS_LOGARITHM != 0 {
        rank = (f64::from(rank) / (((words + 1) as f64).ln() / std::f64::consts::LN_2)) as f32;
    }
    if divisors & divisor::ITSELF != 0 {
        rank /= rank + 1.0;
    }
    rank
}

/// How many words a document has, each position one.
fn length(vector: &Vector<'_>) -> usize {
    vector.lexemes.iter().map(|lexeme| lexeme.positions.len().max(1)).sum()
}

/// The operands of a query by their words, each word once.
fn by_word(query: &Query) -> Vec<&Operand> {
    let mut operands = query.operands().collect::<Vec<_>>();
    operands.sort_by(|a, b| a.word.cmp(&b.word));
    operands.dedup_by(|next, kept| next.word == kept.word);
    operands
}

fn value(values: &WeightValues, weight: Weight) -> f32 {
    values[weight.rank()]
}

fn of_any(values: &WeightValues, vector: &Vector<'_>, query: &Query) -> f32 {
    let operands = by_word(query);
    let unknown = [Position { at: 0, weight: Weight::D }];
    let mut rank = 0.0_f32;
    for operand in &operands {
        for lexeme in vector.found(&operand.word, operand.is_prefix) {
            let positions = if lexeme.positions.is_empty() { &unknown[..] } else { &lexeme.positions };
            let (mut sum, mut most, mut most_at) = (0.0_f32, -1.0_f32, 0);
            for (at, position) in positions.iter().enumerate() {
                let value = value(values, position.weight);
                sum += value / square(at);
                if value > most {
                    (most, most_at) = (value, at);
                }
            }
            let one = f64::from(most + sum - most / square(most_at)) / 1.64493406685;
            rank = (f64::from(rank) + one) as f32;
        }
    }
    if operands.is_empty() { rank } else { rank / operands.len() as f32 }
}

fn square(at: usize) -> f32 {
    ((at + 1) * (at + 1)) as f32
}

/// How much words so far from each other count.
fn nearness(distance: i32) -> f32 {
    if distance > 100 {
        return 1e-30;
    }
    (1.0 / (1.005 + 0.05 * (f64::from(distance as f32) / 1.5 - 2.0).exp())) as f32
}

fn of_all(values: &WeightValues, vector: &Vector<'_>, query: &Query) -> f32 {
    let operands = by_word(query);
    if operands.len() < 2 {
        return of_any(values, vector, query);
    }
    let unknown = vec![Position { at: POSITION_MAX, weight: Weight::D }];
    // The positions of the latest lexeme of each operand, and whether they are known.
    let mut before: Vec<Option<(&Vec<Position>, bool)>> = vec![None; operands.len()];
    let mut rank = -1.0_f32;
    for (index, operand) in operands.iter().enumerate() {
        for lexeme in vector.found(&operand.word, operand.is_prefix) {
            let is_known = !lexeme.positions.is_empty();
            let own = if is_known { &lexeme.positions } else { &unknown };
            before[index] = Some((own, is_known));
            for (others, others_known) in before[..index].iter().flatten() {
                for (position, other) in own.iter().flat_map(|own| others.iter().map(move |other| (own, other))) {
                    let mut distance = (i32::from(position.at) - i32::from(other.at)).abs();
                    if distance == 0 {
                        if is_known && *others_known {
                            continue;
                        }
                        distance = i32::from(POSITION_MAX) + 1;
                    }
                    let weights = value(values, position.weight) * value(values, other.weight);
                    let one = f64::from(weights * nearness(distance)).sqrt() as f32;
                    rank = match rank < 0.0 {
                        true => one,
                        false => (1.0 - (1.0 - f64::from(rank)) * (1.0 - f64::from(one))) as f32,
                    };
                }
            }
        }
    }
    rank
}

/// A place of a document that a query asks for.
struct Asked {
    position: Position,
    /// The operands, as places of items.
    items: Vec<usize>,
}

/// The places that a query asks for, in order.
fn asked(vector: &Vector<'_>, query: &Query) -> Vec<Asked> {
    let mut found: Vec<(Position, usize, usize)> = Vec::new();
    for (item, operand) in query.items.iter().enumerate().filter_map(|(item, operand)| match operand {
        Item::Operand(operand) => Some((item, operand)),
        _ => None,
    }) {
        let lexemes = vector.found(&operand.word, operand.is_prefix);
        let first = vector.lexemes.partition_point(|lexeme: &Lexeme<'_>| *lexeme.word < *operand.word);
        for (index, lexeme) in lexemes.iter().enumerate() {
            let has = |position: &&Position| operand.weights == 0 || operand.weights & position.weight.bit() != 0;
            found.extend(lexeme.positions.iter().filter(has).map(|position| (*position, first + index, item)));
        }
    }
    found.sort_by_key(|(position, lexeme, _)| (position.at, position.weight, *lexeme));
    let mut asked: Vec<Asked> = Vec::new();
    let mut latest = None;
    for (position, lexeme, item) in found {
        match asked.last_mut().filter(|_| latest == Some((position, lexeme))) {
            Some(last) => last.items.push(item),
            None => asked.push(Asked { position, items: vec![item] }),
        }
        latest = Some((position, lexeme));
    }
    asked
}

/// Whether a query holds of some of the places.
struct Held<'a> {
    query: &'a Query,
    /// Of each item the positions that are known of it.
    known: Vec<Vec<u16>>,
}

impl Held<'_> {
    fn take(&mut self, asked: &Asked) {
        for item in &asked.items {
            let known = &mut self.known[*item];
            if known.last() != Some(&asked.position.at) {
                known.push(asked.position.at);
            }
        }
    }

    fn holds(&self, is_reversed: bool) -> bool {
        self.query.holds(|item, _, wants_positions| match &self.known[item] {
            known if known.is_empty() => Presence::Absent,
            _ if !wants_positions => Presence::Somewhere,
            known if is_reversed => Presence::At(known.iter().rev().copied().collect()),
            known => Presence::At(known.clone()),
        })
    }
}

/// The next cover from a place on: the first places among which the query holds, from as late on as possible.
fn cover(asked: &[Asked], query: &Query, from: &mut usize) -> Option<(usize, usize)> {
    while *from < asked.len() {
        let nothing = || Held { query, known: vec![vec![]; query.items.len()] };
        let mut held = nothing();
        let end = (*from..asked.len()).find(|place| {
            held.take(&asked[*place]);
            held.holds(false)
        })?;
        let mut held = nothing();
        let begin = (*from..=end).rev().find(|place| {
            held.take(&asked[*place]);
            held.holds(true)
        });
        match begin {
            Some(begin) => {
                *from = begin + 1;
                return Some((begin, end));
            }
            None => *from += 1,
        }
    }
    None
}

/// `ts_rank_cd`.
pub fn rank_covers(values: &WeightValues, vector: &Vector<'_>, query: &Query, divisors: i32) -> f32 {
    let inverse = values.map(|value| 1.0 / f64::from(value));
    let asked = asked(vector, query);
    let (mut rank, mut distances, mut before, mut covers) = (0.0_f64, 0.0_f64, 0.0_f64, 0_u32);
    let mut from = 0;
    while let Some((begin, end)) = cover(&asked, query, &mut from) {
        let sum = asked[begin..=end].iter().map(|place| inverse[place.position.weight.rank()]).sum::<f64>();
        let weight = (end - begin + 1) as f64 / sum;
        let (first, last) = (i32::from(asked[begin].position.at), i32::from(asked[end].position.at));
        let count = i32::try_from(end - begin).unwrap_or(i32::MAX);
        let mut noise = last - first - count;
        if noise < 0 {
            // Positions end before a long document does.
            noise = count / 2;
        }
        rank += weight / f64::from(1 + noise);
        let middle = f64::from(last + first) / 2.0;
        if covers > 0 && middle > before {
            distances += 1.0 / (middle - before);
        }
        before = middle;
        covers += 1;
    }
    let (length, words) = (length(vector), vector.lexemes.len());
    if divisors & divisor::LOGARITHM != 0 && words > 0 {
        rank /= ((length + 1) as f64).ln();
    }
    if divisors & divisor::LENGTH != 0 && length > 0 {
        rank /= length as f64;
    }
    if divisors & divisor::DISTANCE != 0 && covers > 0 && distances > 0.0 {
        rank /= f64::from(covers) / distances;
    }
    if divisors & divisor::WORDS != 0 && words > 0 {
        rank /= words as f64;
    }
    if divisors & divisor::WORDS_LOGARITHM != 0 && words > 0 {
        rank /= ((words + 1) as f64).ln() / std::f64::consts::LN_2;
    }
    if divisors & divisor::ITSELF != 0 {
        rank /= rank + 1.0;
    }
    rank as f32
}
