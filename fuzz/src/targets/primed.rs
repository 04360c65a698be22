//! What processes answer that compute functions: frames, and the values in them.
//!
//! An input is what was asked for and what came: a kind of value, a form, the rows, the kind of frame, then its bytes.

use diligence_pool::wire::{self, Malformed, Reply};
use diligence_pool::{Answer, Form, Kind};

use super::Target;

const KINDS: [Kind; 9] = [
    Kind::Boolean,
    Kind::SmallInt,
    Kind::Integer,
    Kind::BigInt,
    Kind::Real,
    Kind::Double,
    Kind::Numeric,
    Kind::Text,
    Kind::Bytes,
];
const FORMS: [Form; 7] =
    [Form::Rows, Form::Arrow, Form::Wasm, Form::WasmArrow, Form::RowSets, Form::Groups, Form::WasmArrowSteps];

/// Kinds of frames, as processes number them.
const VALUES: u8 = 3;
const RAISED: u8 = 4;

/// Reads answers.
#[derive(Default)]
pub struct PrimedTarget {
    read: usize,
    refused: usize,
}

impl Target for PrimedTarget {
    fn run(&mut self, input: &[u8]) -> Result<(), String> {
        let Some(([kind, form, rows, frame], payload)) = input.split_first_chunk::<4>() else { return Ok(()) };
        let returns = KINDS[usize::from(*kind) % KINDS.len()];
        let (form, rows) = (FORMS[usize::from(*form) % FORMS.len()], usize::from(*rows));
        let values = match wire::reply(*frame, payload.to_vec()) {
            Ok(Reply::Values(values)) => values,
            Ok(_) => {
                self.read += 1;
                return Ok(());
            }
            Err(Malformed(_)) => {
                self.refused += 1;
                return Ok(());
            }
        };
        let array = match wire::values(&values, returns, form, rows) {
            Ok(Answer::Values(array) | Answer::Texts(array)) => array,
            Ok(Answer::OutOfRange(..)) => {
                self.read += 1;
                return Ok(());
            }
            Err(Malformed(_)) => {
                self.refused += 1;
                return Ok(());
            }
        };
        self.read += 1;
        if array.len() != rows {
            return Err(format!("{} values came for {rows} rows", array.len()));
        }
        array.to_data().validate_full().map_err(|error| format!("an array is not valid: {error}"))
    }

    fn summary(&self) -> String {
        format!("{} read, {} refused", self.read, self.refused)
    }
}

/// A sound answer of each kind, and an error.
pub fn corpus() -> Vec<Vec<u8>> {
    let texts = |form: u8, texts: [&str; 3]| {
        let mut bytes = vec![form, 1, 1, 0, 1];
        texts.iter().for_each(|text| bytes.extend((text.len() as u32).to_le_bytes()));
        texts.iter().for_each(|text| bytes.extend(text.as_bytes()));
        bytes
    };
    let eights = |values: [[u8; 8]; 3]| [vec![0, 0], values.concat()].concat();
    let integers = eights([1_i64, -2, 40_000].map(i64::to_le_bytes));
    let floats = eights([1.5_f64, f64::NAN, 1e300].map(f64::to_le_bytes));
    let answers = [
        (0, vec![0, 1, 1, 1, 0, 1, 0, 1]),
        (1, integers.clone()),
        (2, integers.clone()),
        (3, integers),
        (4, floats.clone()),
        (5, floats),
        (6, texts(1, ["1.50", "", "-7"])),
        (7, texts(1, ["one", "", "drei ä"])),
        (8, texts(0, ["\u{0}a", "", "b"])),
    ];
    let mut corpus = Vec::new();
    for (kind, bytes) in answers {
        for form in [0, 2] {
            corpus.push([&[kind, form, 3, VALUES][..], bytes.as_slice()].concat());
        }
    }
    let error = ["ValueError: no", "function f, line 1: return x"].map(|text| {
        let length = (text.len() as u32).to_le_bytes();
        [&length[..], text.as_bytes()].concat()
    });
    corpus.push([&[0, 0, 1, RAISED, 0][..], error.concat().as_slice()].concat());
    corpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_answers_are_read() {
        let (mut target, corpus) = (PrimedTarget::default(), corpus());
        corpus.iter().for_each(|input| target.run(input).unwrap());
        assert_eq!((target.read, target.refused), (corpus.len(), 0));
    }
}
