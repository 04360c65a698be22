//! Keys of texts in the order of a collation, and the letters of its language.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, ListArray, StringViewArray, UInt32Array};
use arrow::datatypes::{DataType, Field};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};
use unicode_normalization::char::is_combining_mark;

use super::catalog::Catalog;
use super::columns::Columns;
use super::{Body, Call};
use crate::SqlType;
use crate::collation::TextOrder;

/// Among so many texts, equal ones are looked for; then only where one in so many was.
const WORTH_ROWS: usize = 1024;
const WORTH_SHARE: usize = 8;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("collation_order_key(text) -> bytea", Body::Kernel(keys));
    catalog.add("collation_upper(text) -> text", Body::Kernel(|given, call| each(given, call, upper)));
    catalog.add("collation_lower(text) -> text", Body::Kernel(|given, call| each(given, call, lower)));
    catalog.add("collation_initcap(text) -> text", Body::Kernel(|given, call| each(given, call, initcap)));
}

/// Whether a language has an i with a dot and one without, and capitals of both.
#[derive(Clone, Copy, PartialEq)]
struct HasTwoIs(bool);

/// The texts that a function makes of others, in the language of their collation.
fn each(given: &[ColumnarValue], call: &Call<'_>, change: fn(&str, HasTwoIs) -> String) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let ([texts], [sql_type]) = (columns.arrays(), call.arguments) else {
        return Err(Error::bug("the letters of other than one text"));
    };
    let texts = texts.as_string_view_opt().ok_or_else(|| Error::bug("no texts to change the letters of"))?;
    let language = match sql_type.collation().map(|collation| &collation.order) {
        Some(TextOrder::Icu { locale, .. }) => locale.split(['-', '_', '@']).next().unwrap_or_default(),
        _ => "",
    };
    let has_two = HasTwoIs(matches!(language, "tr" | "az"));
    let changed = texts.iter().map(|text| text.map(|text| change(text, has_two))).collect::<StringViewArray>();
    columns.result(Arc::new(changed))
}

fn upper(text: &str, has_two: HasTwoIs) -> String {
    match has_two {
        // That of the dotless one is the same everywhere.
        HasTwoIs(true) => text.replace('i', "\u{130}").to_uppercase(),
        HasTwoIs(false) => text.to_uppercase(),
    }
}

fn lower(text: &str, has_two: HasTwoIs) -> String {
    match has_two {
        HasTwoIs(true) => text.replace('I', "\u{131}").replace('\u{130}', "i").to_lowercase(),
        HasTwoIs(false) => text.to_lowercase(),
    }
}

/// The first letter of each word as a capital. An apostrophe between letters is within a word.
fn initcap(text: &str, has_two: HasTwoIs) -> String {
    let mut result = String::with_capacity(text.len());
    let mut word = String::new();
    let end = |word: &mut String, result: &mut String| {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            let capital = upper(first.encode_utf8(&mut [0; 4]), has_two);
            let mut capital = capital.chars();
            result.extend(capital.next());
            result.push_str(&lower(capital.as_str(), has_two));
            result.push_str(&lower(letters.as_str(), has_two));
        }
        word.clear();
    };
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let joins =
            matches!(character, '\'' | '\u{2019}') && characters.peek().is_some_and(|next| next.is_alphanumeric());
        let goes_on = !word.is_empty() && (joins || is_combining_mark(character));
        if character.is_alphanumeric() || goes_on {
            word.push(character);
        } else {
            end(&mut word, &mut result);
            result.push(character);
        }
    }
    end(&mut word, &mut result);
    result
}

/// The type of the keys of a collated text, or of an array of these.
pub(super) fn key_type(sql_type: &SqlType) -> SqlType {
    match sql_type {
        SqlType::Array(element) => SqlType::array_of(key_type(element)),
        _ => SqlType::Bytea,
    }
}

/// `collation_order_key(text)`: the keys by the collation of the argument's type.
fn keys(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let ([texts], [sql_type]) = (columns.arrays(), call.arguments) else {
        return Err(Error::bug("the key of other than one text"));
    };
    columns.result(keys_of(sql_type, texts)?)
}

/// The keys of texts, or of arrays of these. Fails with kind `Bug` if the column does not hold the type, 42P22 if its
/// collation is undecided.
pub(super) fn keys_of(sql_type: &SqlType, column: &ArrayRef) -> Result<ArrayRef> {
    if let SqlType::Array(element) = sql_type {
        let lists = column.as_list_opt::<i32>().ok_or_else(|| Error::bug("no lists to make keys of"))?;
        let values = keys_of(element, lists.values())?;
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        return Ok(Arc::new(ListArray::new(field, lists.offsets().clone(), values, lists.nulls().cloned())));
    }
    if let DataType::Dictionary(..) = column.data_type() {
        // Each text is looked at once.
        let dictionary = column.as_any_dictionary();
        let values = keys_of(sql_type, dictionary.values())?;
        return arrow::compute::take(&values, dictionary.keys(), None).map_err(|error| Error::bug(error.to_string()));
    }
    let texts = column.as_string_view_opt().ok_or_else(|| Error::bug("no texts to make keys of"))?;
    let (base, collator) = match sql_type {
        SqlType::Collated(one) => (&one.base, one.collation.collator()?),
        other => (other, None),
    };
    let is_padded = matches!(base, SqlType::Char(_));
    let mut builder = BinaryViewBuilder::with_capacity(texts.len());
    let mut key = Vec::new();
    // Texts of a dictionary, and short ones, are equal where their views are: each has its key made once.
    let mut places = HashMap::<u128, u32>::new();
    let mut made = 0;
    let place = |(row, view): (usize, &u128)| {
        if texts.is_null(row) {
            return None;
        }
        let is_worth = made < WORTH_ROWS || row > made + made / WORTH_SHARE;
        if is_worth && let Some(place) = places.get(view) {
            return Some(*place);
        }
        let text = texts.value(row);
        let text = if is_padded { text.trim_end_matches(' ') } else { text };
        match &collator {
            None => builder.append_value(text),
            Some(collator) => builder.append_value(collator.key(text, &mut key)),
        }
        let place = made as u32;
        made += 1;
        if is_worth {
            places.insert(*view, place);
        }
        Some(place)
    };
    let rows = texts.views().iter().enumerate().map(place).collect::<UInt32Array>();
    let keys: ArrayRef = Arc::new(builder.finish());
    if keys.len() == texts.len() {
        return Ok(keys);
    }
    arrow::compute::take(&keys, &rows, None).map_err(|error| Error::bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;
    use crate::collation::Collation;
    use crate::functions::{distinct_type, distinct_values, order_key};

    #[test]
    fn keys_are_of_the_types_collation() {
        let german = SqlType::Text.with_collation(Collation::predefined("de-x-icu").as_ref());
        let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), Some("Ä"), None, Some("a"), Some("a")]));
        let keys = keys_of(&german, &column).unwrap();
        let keys = keys.as_binary_view();
        assert!(keys.value(3) < keys.value(1) && keys.value(1) < keys.value(0) && keys.is_null(2));
        assert_eq!(keys.value(3), keys.value(4));
        assert!(order_key(&german).is_some() && distinct_type(&german).is_none());
        let bytes = SqlType::Text.with_collation(Collation::predefined("C").as_ref());
        assert!(order_key(&bytes).is_none());
    }

    #[test]
    fn letters_are_those_of_the_language() {
        let (two, one) = (HasTwoIs(true), HasTwoIs(false));
        assert_eq!((upper("i\u{131}ß", two), upper("iß", one)), ("\u{130}ISS".to_owned(), "ISS".to_owned()));
        assert_eq!((lower("I\u{130}", two), lower("ΟΔΟΣ", one)), ("\u{131}i".to_owned(), "οδος".to_owned()));
        assert_eq!(initcap("istanbul DON'T x-ray", two), "\u{130}stanbul Don't X-Ray");
        assert_eq!(initcap("ßa b", one), "Ssa B");
    }

    #[test]
    fn what_a_nondeterministic_collation_holds_for_equal_is_one_key() {
        let order = crate::collation::TextOrder::Icu { locale: "und-u-ks-level2".to_owned(), is_deterministic: false };
        let collation = Collation { oid: 1, schema: None, name: "ci".to_owned(), order };
        let column: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "B", "c"]));
        for sql_type in [SqlType::Text, SqlType::Char(Some(3))] {
            let sql_type = sql_type.with_collation(Some(&collation));
            let keys = distinct_values(&sql_type, &column).unwrap();
            assert_eq!(Some(keys.data_type()), distinct_type(&sql_type).as_ref());
            let keys = keys.as_binary_view();
            assert!(keys.value(0) == keys.value(1) && keys.value(1) != keys.value(2));
        }
    }
}
