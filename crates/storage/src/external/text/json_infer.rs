//! What JSON values have in common: a type for each key that holds all of its values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, TimeUnit};

use super::csv_infer::Guess;
use super::csv_values::{Forms, parse_integer, parse_text};
use super::json_text::{Flaw, Kind, each_item, each_member, kind, skip_space, string, value_end};
use crate::external::options::JsonOptions;
use crate::external::schema::{JSON_TYPE, TYPE_KEY};

/// Whole numbers below it are exact as DOUBLE.
const EXACT_MAX: i64 = 1 << 53;

/// Digits after which DOUBLE tells every number of its own from the others.
const DOUBLE_DIGITS: usize = 17;

/// Objects with more keys than that may be maps.
const MAP_KEYS: usize = 200;
/// They are maps if objects have less than this part of the keys, on average.
const MAP_PART: f64 = 0.1;

/// The only column of records that are whole values.
const WHOLE_COLUMN: &str = "json";

/// What the values seen of one key are.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    boolean: bool,
    numbers: Option<Numbers>,
    texts: Option<Guess>,
    items: Option<Box<Shape>>,
    members: Option<Members>,
}

/// The keys of objects, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    places: HashMap<String, usize>,
    shapes: Vec<(String, Shape)>,
    /// Objects seen, and how many keys they had together.
    objects: u64,
    keys: u64,
    /// Records that are neither objects nor null.
    others: Option<Box<Shape>>,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    /// One that is not whole.
    fraction: bool,
    exponent: bool,
    /// A whole one beyond 64 bits.
    long: bool,
    /// A whole one that DOUBLE does not hold exactly.
    inexact: bool,
    /// One with a fraction that has more digits than DOUBLE keeps.
    long_fraction: bool,
    /// One that neither DOUBLE nor 38 digits hold.
    beyond: bool,
    whole_digits: usize,
    scale: usize,
}

impl Numbers {
    fn see(&mut self, raw: &[u8]) {
        if let Some(value) = parse_integer::<i64>(raw) {
            self.inexact |= !(-EXACT_MAX..=EXACT_MAX).contains(&value);
            self.whole_digits = self.whole_digits.max(raw.len() - usize::from(raw[0] == b'-'));
            return;
        }
        if matches!(raw, b"NaN" | b"Infinity" | b"-Infinity") {
            (self.fraction, self.exponent) = (true, true);
            return;
        }
        let unsigned = raw.strip_prefix(b"-").unwrap_or(raw);
        let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.whole_digits = self.whole_digits.max(whole);
        if whole == unsigned.len() {
            (self.long, self.inexact) = (true, true);
            self.beyond |= whole > usize::from(DECIMAL128_MAX_PRECISION);
            return;
        }
        self.fraction = true;
        let rest = &unsigned[whole..];
        let digits = rest.strip_prefix(b".").map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_digit()).count());
        self.scale = self.scale.max(digits);
        let told = unsigned.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).filter(|byte| **byte != b'.');
        self.long_fraction |= told.skip_while(|byte| **byte == b'0').count() > DOUBLE_DIGITS;
        self.exponent |= rest.iter().any(|byte| matches!(byte, b'e' | b'E'));
        self.beyond |= !parse_text::<f64>(raw).is_some_and(f64::is_finite);
    }

    fn merge(&mut self, other: &Self) {
        self.fraction |= other.fraction;
        self.exponent |= other.exponent;
        self.long |= other.long;
        self.long_fraction |= other.long_fraction;
        self.inexact |= other.inexact;
        self.beyond |= other.beyond;
        self.whole_digits = self.whole_digits.max(other.whole_digits);
        self.scale = self.scale.max(other.scale);
    }

    fn data_type(&self) -> DataType {
        match self {
            Self { beyond: true, .. } => DataType::Utf8View,
            Self { fraction: false, long: false, .. } => DataType::Int64,
            Self { fraction: false, .. } => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
            Self { inexact: false, long_fraction: false, .. } => DataType::Float64,
            // Whole numbers with more digits than DOUBLE has, among others: all digits are kept.
            Self { exponent: false, whole_digits, scale, .. }
                if whole_digits + scale <= usize::from(DECIMAL128_MAX_PRECISION) =>
            {
                DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale as i8)
            }
            // Fractions are told in DOUBLE's digits where there is no other way.
            Self { inexact: false, .. } => DataType::Float64,
            _ => DataType::Utf8View,
        }
    }
}

impl Members {
    fn see(&mut self, text: &[u8], at: usize, depth: usize, forms: &Forms) -> Result<usize, Flaw> {
        let mut next = 0;
        self.objects += 1;
        each_member(text, at, depth, |key, at| {
            self.keys += 1;
            // Most objects have their keys in the order of those before them.
            let expected = self.shapes.get(next).is_some_and(|(name, _)| name.as_bytes() == &key[1..key.len() - 1]);
            let place = if expected { next } else { self.place(&string(key, at)?) };
            next = place + 1;
            self.shapes[place].1.see(text, at, depth + 1, forms)
        })
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.places.insert(name.to_owned(), self.shapes.len());
        self.shapes.push((name.to_owned(), Shape::default()));
        self.shapes.len() - 1
    }

    /// Takes the next record of a text into account, whose dates are written in these forms, and gives its end; `None`
    /// at the end of the text. Fails if it is no value of JSON.
    pub fn see_record(&mut self, text: &[u8], at: usize, forms: &Forms) -> Result<Option<usize>, Flaw> {
        let at = skip_space(text, at);
        if at == text.len() {
            return Ok(None);
        }
        let end = match kind(text, at)? {
            Kind::Object => self.see(text, at, 0, forms),
            Kind::Null => value_end(text, at, 0),
            Kind::Number if ends_within_number(text) && value_end(text, at, 0) == Ok(text.len()) => {
                Err(Flaw::Incomplete)
            }
            _ => self.others.get_or_insert_default().see(text, at, 0, forms),
        };
        end.map(Some)
    }

    /// Whether there are records that are neither objects nor null.
    pub fn has_others(&self) -> bool {
        self.others.is_some()
    }

    /// Leaves those out if there are objects among the records.
    pub fn forget_others(&mut self) {
        if self.objects > 0 {
            self.others = None;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.objects += other.objects;
        self.keys += other.keys;
        for (name, shape) in &other.shapes {
            let place = self.place(name);
            self.shapes[place].1.merge(shape);
        }
        if let Some(others) = &other.others {
            self.others.get_or_insert_default().merge(others);
        }
    }

    /// Whether the keys are values rather than names: there are many, and each object has only a few of them. Either
    /// is enough if the statement says how many, or how few.
    fn is_map(&self, options: &JsonOptions) -> bool {
        let keys = self.shapes.len();
        let has_less = |part: f64| (self.keys as f64) < self.objects as f64 * keys as f64 * part;
        match (options.map_keys_max, options.appearance_min()) {
            (None, None) => keys > MAP_KEYS && has_less(MAP_PART),
            (most, least) => most.is_some_and(|most| keys > most) || least.is_some_and(has_less),
        }
    }

    /// A map from the keys to what all values have in common.
    fn map(&self, options: &JsonOptions, level: usize) -> DataType {
        let mut all = Shape::default();
        self.shapes.iter().for_each(|(_, shape)| all.merge(shape));
        let pair = vec![Field::new("key", DataType::Utf8View, false), all.field("value", options, level + 1)];
        DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair.into()), false)), false)
    }

    /// The columns, and whether the only one is of whole records.
    pub fn columns(&self, options: &JsonOptions) -> (Vec<Field>, bool) {
        let is_whole = options.whole || self.has_others() || self.is_empty() || options.depth_max == Some(0);
        match is_whole || self.is_map(options) {
            true => (vec![self.whole(options)], true),
            false => (self.fields(options, 1), false),
        }
    }

    fn whole(&self, options: &JsonOptions) -> Field {
        match &self.others {
            Some(_) if options.untyped || self.objects > 0 => return json_field(WHOLE_COLUMN),
            Some(others) => return others.field(WHOLE_COLUMN, options, 0),
            None => {}
        }
        if options.untyped || self.is_empty() || options.depth_max == Some(0) {
            return json_field(WHOLE_COLUMN);
        }
        let data_type = match self.is_map(options) {
            true => self.map(options, 0),
            false => DataType::Struct(self.fields(options, 1).into()),
        };
        Field::new(WHOLE_COLUMN, data_type, true)
    }

    fn fields(&self, options: &JsonOptions, level: usize) -> Vec<Field> {
        self.shapes.iter().map(|(name, shape)| shape.field(name, options, level)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }
}

/// Whether a text that ends with a number lacks the rest of it.
fn ends_within_number(text: &[u8]) -> bool {
    matches!(text, [.., b'-' | b'+' | b'.' | b'e' | b'E'])
}

/// What is wrong with a record that is a value of another kind.
pub(super) const NO_OBJECT: &str = "a record is no JSON object";

impl Shape {
    fn see(&mut self, text: &[u8], at: usize, depth: usize, forms: &Forms) -> Result<usize, Flaw> {
        match kind(text, at)? {
            Kind::Null => value_end(text, at, depth),
            Kind::Boolean => {
                self.boolean = true;
                value_end(text, at, depth)
            }
            Kind::Number => {
                let end = value_end(text, at, depth)?;
                self.numbers.get_or_insert_default().see(&text[at..end]);
                Ok(end)
            }
            Kind::Text => {
                let end = value_end(text, at, depth)?;
                let guess = self.texts.get_or_insert_with(Guess::of_time);
                if guess.may_be_time() {
                    match &text[at + 1..end - 1] {
                        // Slashes may be escaped.
                        raw if memchr::memchr(b'\\', raw).is_some() => {
                            guess.see(true, string(&text[at..end], at)?.as_bytes(), forms);
                        }
                        raw => guess.see(true, raw, forms),
                    }
                }
                Ok(end)
            }
            Kind::List => {
                let items = self.items.get_or_insert_default();
                each_item(text, at, depth, |at| items.see(text, at, depth + 1, forms))
            }
            Kind::Object => self.members.get_or_insert_default().see(text, at, depth, forms),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.boolean |= other.boolean;
        if let Some(numbers) = &other.numbers {
            self.numbers.get_or_insert_default().merge(numbers);
        }
        if let Some(texts) = &other.texts {
            self.texts.get_or_insert_with(Guess::of_time).merge(texts);
        }
        if let Some(items) = &other.items {
            self.items.get_or_insert_default().merge(items);
        }
        if let Some(members) = &other.members {
            self.members.get_or_insert_default().merge(members);
        }
    }

    /// The column, which is so deep.
    fn field(&self, name: &str, options: &JsonOptions, level: usize) -> Field {
        if options.depth_max.is_some_and(|most| level >= most) {
            return json_field(name);
        }
        let scalars = [self.boolean, self.numbers.is_some(), self.texts.is_some()];
        let is_scalar = scalars.contains(&true);
        let data_type = match (&self.items, &self.members) {
            (None, None) => match (self.boolean, &self.numbers, &self.texts) {
                (true, None, None) => DataType::Boolean,
                (false, Some(numbers), None) => numbers.data_type(),
                (false, None, Some(texts)) => match texts.data_type() {
                    // Timestamps have microseconds: the text keeps what they do not.
                    DataType::Timestamp(TimeUnit::Nanosecond, _) => DataType::Utf8View,
                    other => other,
                },
                // Nothing but null.
                (false, None, None) => DataType::Utf8View,
                // Values of several kinds.
                _ => return json_field(name),
            },
            (Some(items), None) if !is_scalar => DataType::List(Arc::new(items.field("item", options, level + 1))),
            (None, Some(members)) if !is_scalar && members.is_map(options) => members.map(options, level),
            (None, Some(members)) if !is_scalar && !members.is_empty() => {
                DataType::Struct(members.fields(options, level + 1).into())
            }
            _ => return json_field(name),
        };
        Field::new(name, data_type, true)
    }
}

fn json_field(name: &str) -> Field {
    let metadata = HashMap::from([(TYPE_KEY.to_owned(), JSON_TYPE.to_owned())]);
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(text: &str) -> Vec<(String, String)> {
        types_with(text, &JsonOptions::default())
    }

    fn types_with(text: &str, options: &JsonOptions) -> Vec<(String, String)> {
        let mut members = Members::default();
        let mut at = 0;
        while let Some(end) = members.see_record(text.as_bytes(), at, &Forms::of_json(options)).unwrap() {
            at = end;
        }
        let told = |field: &Field| match field.metadata().get(TYPE_KEY) {
            Some(name) => name.clone(),
            None => field.data_type().to_string(),
        };
        members.columns(options).0.iter().map(|field| (field.name().clone(), told(field))).collect()
    }

    fn one(values: &[&str]) -> String {
        types(&values.iter().map(|value| format!("{{\"a\":{value}}}\n")).collect::<String>())[0].1.clone()
    }

    #[test]
    fn types_hold_all_values() {
        for (values, wanted) in [
            (&["1", "2"][..], "Int64"),
            (&["1", "2.5"], "Float64"),
            (&["18446744073709551615"], "Decimal128(38, 0)"),
            (&["9007199254740993", "1.5"], "Decimal128(38, 1)"),
            (&["0.12345678901234567890", "1.5"], "Decimal128(38, 20)"),
            (&["0.12345678901234567890", "1e5"], "Float64"),
            (&["0.12345678901234567890", "NaN"], "Float64"),
            (&["0.00012345678901234567"], "Float64"),
            (&["123456789012345678901234567890123456789"], "Utf8View"),
            (&["1e999"], "Utf8View"),
            (&["1", "\"007\""], "json"),
            (&["1", "true"], "json"),
            (&["\"10:30:00\"", "\"9:05\""], "Time64(µs)"),
            (&["\"10:30:00\"", "\"2024-02-29\""], "Utf8View"),
            (&["1", "NaN", "-Infinity"], "Float64"),
            (&["true", "null"], "Boolean"),
            (&["null"], "Utf8View"),
            (&["\"2024-02-29\""], "Date32"),
            (&["\"2024-02-29\"", "\"2024-02-29T10:00:00\""], "Timestamp(µs)"),
            (&["\"2024-02-29T10:00:00.1234560\""], "Timestamp(µs)"),
            (&["\"2024-02-29T10:00:00.1234567\""], "Utf8View"),
            (&["\"2024-02-29\"", "\"x\""], "Utf8View"),
            (&["\"\""], "Utf8View"),
            (&["{\"b\":1}", "\"x\""], "json"),
            (&["[1]", "3"], "json"),
            (&["{}"], "json"),
        ] {
            assert_eq!(one(values), wanted, "{values:?}");
        }
    }

    #[test]
    fn many_keys_of_which_objects_have_few_are_those_of_a_map() {
        let record = |number: usize| format!("{{\"k{number}\":{number}}}");
        let few = (0..200).map(record).collect::<Vec<_>>();
        let few = few.iter().map(String::as_str).collect::<Vec<_>>();
        assert!(one(&few).starts_with("Struct("), "{}", one(&few));
        let many = (0..201).map(record).collect::<Vec<_>>();
        let many = many.iter().map(String::as_str).collect::<Vec<_>>();
        assert!(one(&many).starts_with("Map("), "{}", one(&many));
        // An object with all of them is a wide one.
        let wide = (0..201).map(|number| format!("\"k{number}\":{number}")).collect::<Vec<_>>().join(",");
        let wide = format!("{{{wide}}}");
        assert!(one(&[&wide, &wide]).starts_with("Struct("));
    }

    #[test]
    fn the_statement_says_when_objects_are_maps() {
        let told = |text: &str, options: JsonOptions| {
            let columns = types_with(text, &options);
            columns.into_iter().map(|(name, told)| format!("{name} {}", &told[..3])).collect::<Vec<_>>()
        };
        let text = "{\"a\":{\"x\":1,\"y\":2}}\n{\"a\":{\"y\":1}}\n";
        let most = |count| JsonOptions { map_keys_max: Some(count), ..JsonOptions::default() };
        assert_eq!(told(text, JsonOptions::default()), ["a Str"]);
        assert_eq!(told(text, most(1)), ["a Map"]);
        assert_eq!(told(text, most(0)), ["json Map"]);
        assert_eq!(told(text, most(usize::MAX)), ["a Str"]);
        let least = JsonOptions { appearance_percent: Some(80), ..JsonOptions::default() };
        assert_eq!(told(text, least), ["a Map"]);
        assert_eq!(told(text, JsonOptions { whole: true, ..JsonOptions::default() }), ["json Str"]);
        let untyped = JsonOptions { whole: true, untyped: true, ..JsonOptions::default() };
        assert_eq!(told(text, untyped), ["json jso"]);
        let many = (0..300).map(|number| format!("{{\"k{number}\":1}}\n")).collect::<String>();
        assert_eq!(told(&many, JsonOptions::default()), ["json Map"]);
    }

    #[test]
    fn what_is_deeper_than_is_looked_at_is_json() {
        let text = "{\"a\":1,\"b\":{\"x\":[1]}}\n";
        for (depth, wanted) in [(0, "json json"), (1, "a json, b json")] {
            let options = JsonOptions { depth_max: Some(depth), ..JsonOptions::default() };
            let columns = types_with(text, &options);
            let told = columns.iter().map(|(name, told)| format!("{name} {told}")).collect::<Vec<_>>();
            assert_eq!(told.join(", "), wanted);
        }
        let options = JsonOptions { depth_max: Some(2), ..JsonOptions::default() };
        let columns = types_with(text, &options);
        assert_eq!(columns[0].1, "Int64");
        assert!(columns[1].1.starts_with("Struct(") && !columns[1].1.contains("List"), "{}", columns[1].1);
    }

    #[test]
    fn keys_keep_their_order() {
        let found = types("{\"z\":1,\"a\":2}\n{\"a\":1,\"m\":\"x\",\"z\":null}\n");
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["z", "a", "m"]);
    }
}
