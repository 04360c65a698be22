//! A test of one value against constants: a comparison with a literal, a range, IN, LIKE.
//!
//! A test never fails, so it may run on values that no row asks for: on the values of a dictionary, or on the values
//! under a column's picks, where these are fewer than the rows; the rows then look their answers up. The batches of a
//! cluster have one dictionary, so what was said of its values is remembered.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type};
use diligence_base::Result;

use super::Node;
use super::compare::{Comparison, Constant, compare_constant, compare_range};
use super::members::Members;
use super::strings::{Pattern, compare_text};
use crate::batch::{Batch, nulls_of, to_logical};
use crate::expressions::bits::look_up;
use crate::expressions::remembered::Remembered;

/// Answers for fewer values are not worth it.
const REMEMBERED_VALUES_MIN: usize = 64;

/// A predicate applied to an expression.
#[derive(Debug)]
pub(in crate::expressions) struct Test {
    pub(in crate::expressions) input: Box<Node>,
    pub(in crate::expressions) predicate: Predicate,
    /// The logical type of the input; if that is a dictionary, of its values.
    pub(in crate::expressions) value_type: DataType,
    /// What it has said of dictionaries.
    pub(in crate::expressions) remembered: Remembered<BooleanArray>,
}

/// What is asked of a value.
#[derive(Debug)]
pub(in crate::expressions) enum Predicate {
    /// A number, date or time compared with a constant.
    Compare(Comparison, Constant),
    /// Within two bounds: the first by `Greater` or `GreaterEqual`, the second by `Less` or `LessEqual`.
    Range((Comparison, Constant), (Comparison, Constant)),
    /// A string compared with a constant.
    Text(Comparison, String),
    /// LIKE.
    Like(Pattern),
    /// IN.
    Among(Members),
}

impl Test {
    /// The three-valued answer for every row.
    pub(in crate::expressions) fn mask(&self, batch: &Batch) -> Result<BooleanArray> {
        if let Node::Column { index, .. } = self.input.as_ref() {
            let column = batch.column(*index);
            if let (values, Some(picks)) = column.parts()
                && values.len() < picks.len()
            {
                let answers = self.answer(values)?;
                return Ok(look_up(&answers, picks.values(), nulls_of(picks.as_ref()).as_ref(), |pick| pick as usize));
            }
            return self.answer(&column.flat()?);
        }
        let input = self.input.evaluate(batch)?;
        let constant = input.constant;
        let answers = self.answer(&input.array)?;
        if !constant {
            return Ok(answers);
        }
        let same = vec![0_u32; batch.rows()];
        Ok(look_up(&answers, &same, None, |pick| pick as usize))
    }

    /// The answers for an array in any physical form.
    fn answer(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let DataType::Dictionary(key_type, _) = array.data_type() else { return self.answer_values(array) };
        let values = array.as_any_dictionary().values();
        if self.remembered.is_worth(values, array.len()) {
            macro_rules! by_keys {
                ($key:ty) => {{
                    let dictionary = array.as_dictionary::<$key>();
                    let answers = self.answer_dictionary(dictionary.values())?;
                    let nulls = nulls_of(dictionary.keys());
                    return Ok(look_up(&answers, dictionary.keys().values(), nulls.as_ref(), |key| key as usize));
                }};
            }
            match key_type.as_ref() {
                DataType::Int8 => by_keys!(Int8Type),
                DataType::Int16 => by_keys!(Int16Type),
                DataType::Int32 => by_keys!(Int32Type),
                DataType::UInt8 => by_keys!(UInt8Type),
                DataType::UInt16 => by_keys!(UInt16Type),
                DataType::UInt32 => by_keys!(UInt32Type),
                _ => {}
            }
        }
        self.answer_values(&to_logical(array, &self.value_type)?)
    }

    fn answer_dictionary(&self, values: &ArrayRef) -> Result<BooleanArray> {
        if values.len() < REMEMBERED_VALUES_MIN {
            return self.answer_values(values);
        }
        if let Some(answers) = self.remembered.of(values) {
            return Ok(answers);
        }
        let answers = self.answer_values(values)?;
        self.remembered.put(values, &answers);
        Ok(answers)
    }

    fn answer_values(&self, array: &ArrayRef) -> Result<BooleanArray> {
        match &self.predicate {
            Predicate::Compare(comparison, constant) => compare_constant(array, *comparison, constant),
            Predicate::Range(low, high) => compare_range(array, low, high),
            Predicate::Text(comparison, text) => compare_text(array, *comparison, text),
            Predicate::Like(pattern) => pattern.test(array),
            Predicate::Among(members) => members.test(array),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int32Array, StringArray};

    use super::*;
    use crate::expressions::node::Node;

    /// A pattern over texts, as a test of its own.
    fn ends_in(text: &str) -> Test {
        let input = Box::new(Node::column(0, &DataType::Utf8View));
        let predicate = Predicate::Like(Pattern::new(&format!("%{text}"), false, false));
        Test { input, predicate, value_type: DataType::Utf8View, remembered: Remembered::default() }
    }

    #[test]
    fn the_batches_of_a_dictionary_answer_as_its_texts() {
        for values in [3, 100, 1000, 9000] {
            let texts: ArrayRef =
                Arc::new((0..values).map(|value| Some(format!("text {value}"))).collect::<StringArray>());
            let test = ends_in("7");
            for batch in 0..4 {
                let keys = (0..1024).map(|row| (row % 11 > 0).then_some((row * 37 + batch) % values));
                let keys = keys.collect::<Int32Array>();
                let codes: ArrayRef = Arc::new(DictionaryArray::new(keys.clone(), texts.clone()));
                let answers = test.mask(&Batch::from_arrays(vec![codes], 1024)).unwrap();
                let expected = keys.iter().map(|key| key.map(|key| key % 10 == 7)).collect::<BooleanArray>();
                assert_eq!(answers, expected, "{values} values, batch {batch}");
            }
            // What is worth it was asked once.
            assert_eq!(test.remembered.of(&texts).is_some(), (64..=4096).contains(&values), "{values} values");
        }
    }

    #[test]
    fn a_dictionary_that_is_gone_is_not_mistaken_for_another() {
        let test = ends_in("1");
        for round in 0..50 {
            let texts: ArrayRef =
                Arc::new((0..80).map(|value| Some(format!("{}", value + round))).collect::<StringArray>());
            let codes: ArrayRef = Arc::new(DictionaryArray::new(Int32Array::from_iter_values(0..80), texts));
            let answers = test.mask(&Batch::from_arrays(vec![codes], 80)).unwrap();
            let expected = (0..80).map(|value| Some((value + round) % 10 == 1)).collect::<BooleanArray>();
            assert_eq!(answers, expected, "round {round}");
        }
    }
}
