//! Every codec beside Arrow's arrays: what is read is what was written, of all rows and of some.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Field, Int32Type, IntervalMonthDayNano};
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::{Chunk, encode};

/// Encodes and reads: all, windows of several lengths, and selected rows. Gives the form.
fn check(array: &ArrayRef, random: &mut SmallRng) -> &'static str {
    let bytes = Bytes::from(encode(array).unwrap());
    let mut chunk = Chunk::open(bytes, array.data_type(), array.len()).unwrap();
    let rows = array.len();
    let mut windows = vec![0..rows, rows..rows];
    for _ in 0..6 {
        let start = random.random_range(0..=rows);
        windows.push(start..random.random_range(start..=rows));
        windows.push(start..(start + random.random_range(0..3)).min(rows));
    }
    for window in windows {
        let expected = array.slice(window.start, window.len());
        let read = chunk.read(window.clone(), None, false).unwrap();
        read.to_data().validate_full().unwrap();
        assert_same(&read, &expected);
        for part in [1, 3, 40, 1500] {
            let bits = BooleanBuffer::collect_bool(window.len(), |_| random.random_range(0..part) == 0);
            let expected = filter(&expected, &BooleanArray::new(bits.clone(), None)).unwrap();
            assert_same(&chunk.read(window.clone(), Some(&bits), false).unwrap(), &expected);
            let narrow = chunk.read(window.clone(), Some(&bits), true).unwrap();
            narrow.to_data().validate_full().unwrap();
            assert_same(&cast(&narrow, array.data_type()).unwrap(), &expected);
        }
    }
    chunk.form()
}

/// Equal to the bit: signs of zeros and NaNs as well.
fn assert_same(read: &ArrayRef, expected: &ArrayRef) {
    assert_eq!(read.data_type(), expected.data_type());
    assert_eq!(read.len(), expected.len());
    match (read.as_primitive_opt::<arrow::datatypes::Float64Type>(), expected.data_type()) {
        (Some(read), DataType::Float64) => {
            let bits = |array: &Float64Array| array.iter().map(|value| value.map(f64::to_bits)).collect::<Vec<_>>();
            assert_eq!(bits(read), bits(expected.as_primitive()));
        }
        _ => assert_eq!(read, expected),
    }
}

fn with_nulls<T>(values: Vec<T>, random: &mut SmallRng, kind: usize) -> Vec<Option<T>> {
    let is_null = |random: &mut SmallRng| match kind {
        0 => false,
        1 => random.random_range(0..10) == 0,
        2 => random.random_range(0..10) > 0,
        _ => true,
    };
    values.into_iter().map(|value| (!is_null(random)).then_some(value)).collect()
}

/// Numbers of many shapes.
fn numbers(rows: usize, shape: usize, random: &mut SmallRng) -> Vec<i64> {
    let mut at = random.random_range(-1_000_000..1_000_000i64);
    (0..rows)
        .map(|row| match shape {
            0 => 7,
            1 => random.random(),
            2 => random.random_range(0..100),
            3 => {
                at += random.random_range(0..3);
                at
            }
            4 => at + row as i64 / 37,
            5 => *[i64::MIN, i64::MAX, 0, -1].choose(random).unwrap(),
            6 => {
                at = at.wrapping_sub(1 << 40);
                at
            }
            7 if row % 1024 == 1000 => i64::MAX,
            7 => row as i64 % 5,
            _ => (row as i64).wrapping_mul(1_000_003) << (row % 60),
        })
        .collect()
}

const LENGTHS: [usize; 9] = [1, 2, 63, 64, 1023, 1024, 1025, 9000, 20_000];

#[test]
fn numbers_of_all_types_come_back() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut forms = std::collections::BTreeSet::new();
    for rows in LENGTHS {
        for shape in 0..9 {
            for nulls in 0..4 {
                let values = with_nulls(numbers(rows, shape, &mut random), &mut random, nulls);
                let long: ArrayRef = Arc::new(Int64Array::from(values.clone()));
                forms.insert(check(&long, &mut random));
                let narrow = |value: &Option<i64>| value.map(|value| value as i32);
                let int: ArrayRef = Arc::new(values.iter().map(narrow).collect::<Int32Array>());
                check(&int, &mut random);
                let short = values.iter().map(|value| value.map(|value| value as i16)).collect::<Int16Array>();
                check(&(Arc::new(short) as ArrayRef), &mut random);
                let byte = values.iter().map(|value| value.map(|value| value as u8)).collect::<UInt8Array>();
                check(&(Arc::new(byte) as ArrayRef), &mut random);
                let date = values.iter().map(narrow).collect::<Date32Array>();
                check(&(Arc::new(date) as ArrayRef), &mut random);
                let time = Arc::new(TimestampMicrosecondArray::from(values.clone()).with_timezone("UTC")) as ArrayRef;
                check(&time, &mut random);
                let unsigned = values.iter().map(|value| value.map(|value| value as u64)).collect::<UInt64Array>();
                check(&(Arc::new(unsigned) as ArrayRef), &mut random);
                let money = values.iter().map(|value| value.map(|value| i128::from(value % 1_000_000_000_000_000)));
                let money = money.collect::<Decimal128Array>().with_precision_and_scale(15, 2).unwrap();
                check(&(Arc::new(money) as ArrayRef), &mut random);
                let large = values.iter().map(|value| value.map(|value| i128::from(value) * 1_000_000_007));
                let large = large.collect::<Decimal128Array>().with_precision_and_scale(38, 9).unwrap();
                check(&(Arc::new(large) as ArrayRef), &mut random);
                let huge = values.iter().map(|value| value.map(arrow::datatypes::i256::from));
                let huge = huge.collect::<Decimal256Array>().with_precision_and_scale(60, 3).unwrap();
                check(&(Arc::new(huge) as ArrayRef), &mut random);
                let spans =
                    values.iter().map(|value| value.map(|value| IntervalMonthDayNano::new(value as i32, 3, value)));
                check(&(Arc::new(spans.collect::<IntervalMonthDayNanoArray>()) as ArrayRef), &mut random);
                let flags = values.iter().map(|value| value.map(|value| value % 3 == 0)).collect::<BooleanArray>();
                check(&(Arc::new(flags) as ArrayRef), &mut random);
            }
        }
    }
    assert_eq!(forms.into_iter().collect::<Vec<_>>(), ["constant", "differences", "nulls", "packed", "runs"]);
}

#[test]
fn doubles_come_back_to_the_bit() {
    let mut random = SmallRng::seed_from_u64(2);
    let odd = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, f64::MAX, 5e-324];
    let mut forms = std::collections::BTreeSet::new();
    for rows in LENGTHS {
        for shape in 0..6 {
            for nulls in 0..4 {
                let value = |random: &mut SmallRng| match shape {
                    0 => f64::from(random.random_range(0..1_000_000)) / 100.0,
                    1 => f64::from_bits(random.random()),
                    2 => *odd.choose(random).unwrap(),
                    3 => random.random_range(0..500) as f64 * 1e15,
                    4 if random.random_range(0..50) == 0 => *odd.choose(random).unwrap(),
                    4 => f64::from(random.random_range(-50..50)) / 10.0,
                    _ => random.random::<f64>(),
                };
                let values = (0..rows).map(|_| value(&mut random)).collect::<Vec<_>>();
                let values = with_nulls(values, &mut random, nulls);
                let array: ArrayRef = Arc::new(Float64Array::from(values.clone()));
                forms.insert(check(&array, &mut random));
                let small = values.iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>();
                let bits = small.iter().map(|value| value.map(|value| value.to_bits() & 0x7f7f_ffff));
                let small = bits.map(|bits| bits.map(f32::from_bits)).collect::<Float32Array>();
                check(&(Arc::new(small) as ArrayRef), &mut random);
            }
        }
    }
    assert_eq!(forms.into_iter().collect::<Vec<_>>(), ["decimals", "fixed", "nulls"]);
}

fn text(shape: usize, row: usize, random: &mut SmallRng) -> String {
    let words =
        ["carefully", " ", "final", "deposits", "über", "sleep", "😀", "the", "ironic", "\0", "blithely", "日本"];
    match shape {
        0 => ["", "RAIL", "DELIVER IN PERSON", "TAKE BACK RETURN", "naïve"][random.random_range(0..5)].to_owned(),
        1 => (0..random.random_range(0..12)).map(|_| *words.choose(random).unwrap()).collect(),
        2 => (0..random.random_range(0..40)).map(|_| random.random::<char>()).collect(),
        3 => format!("Customer#{row:09}"),
        4 => "x".repeat(random.random_range(0..4) * random.random_range(0..300)),
        5 => String::new(),
        _ => format!("http://site{}.example/{}?q={}", row % 7, random.random_range(0..5000), "ab".repeat(row % 9)),
    }
}

#[test]
fn texts_come_back() {
    let mut random = SmallRng::seed_from_u64(3);
    let mut forms = std::collections::BTreeSet::new();
    for rows in LENGTHS {
        for shape in 0..7 {
            for nulls in 0..4 {
                let values = (0..rows).map(|row| text(shape, row, &mut random)).collect::<Vec<_>>();
                let values = with_nulls(values, &mut random, nulls);
                let array: ArrayRef = Arc::new(StringViewArray::from(values.clone()));
                forms.insert(check(&array, &mut random));
                let bytes = values.iter().map(|value| {
                    value.as_ref().map(|value| {
                        let mut bytes = value.as_bytes().to_vec();
                        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(0x70));
                        bytes
                    })
                });
                check(&(Arc::new(bytes.collect::<BinaryViewArray>()) as ArrayRef), &mut random);
                check(&(Arc::new(StringArray::from(values)) as ArrayRef), &mut random);
            }
        }
    }
    assert_eq!(forms.into_iter().collect::<Vec<_>>(), ["dictionary", "nulls", "plain", "symbols"]);
}

#[test]
fn other_types_come_back() {
    let mut random = SmallRng::seed_from_u64(4);
    for rows in LENGTHS {
        let mut lists = ListBuilder::new(Int32Builder::new());
        let mut names = StringDictionaryBuilder::<Int32Type>::new();
        for row in 0..rows {
            (0..row % 4).for_each(|item| lists.values().append_option((item != 2).then_some(row as i32)));
            lists.append(row % 7 != 0);
            names.append_option((row % 5 > 0).then(|| format!("name {}", row % 11)));
        }
        check(&(Arc::new(lists.finish()) as ArrayRef), &mut random);
        check(&(Arc::new(names.finish()) as ArrayRef), &mut random);
        let ids = (0..rows).map(|row| (row % 3 > 0).then(|| (row as u128 * 77).to_be_bytes()));
        let ids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(ids, 16).unwrap();
        check(&(Arc::new(ids) as ArrayRef), &mut random);
        let inner: ArrayRef = Arc::new((0..rows as i32).collect::<Int32Array>());
        let pairs = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int32, true)), inner)]);
        check(&(Arc::new(pairs) as ArrayRef), &mut random);
        check(&new_null_array(&DataType::Null, rows), &mut random);
    }
}

#[test]
fn a_slice_is_what_it_shows() {
    let mut random = SmallRng::seed_from_u64(5);
    let whole: ArrayRef = Arc::new((0..5000).map(|row| (row % 9 > 0).then_some(row)).collect::<Int64Array>());
    check(&whole.slice(1237, 2100), &mut random);
    let flags: ArrayRef =
        Arc::new((0..5000).map(|row| (row % 9 > 0).then_some(row % 2 == 0)).collect::<BooleanArray>());
    check(&flags.slice(1237, 2100), &mut random);
    let texts = (0..5000).map(|row| (row % 9 > 0).then(|| format!("a text of the row {row}")));
    check(&(Arc::new(texts.collect::<StringArray>()) as ArrayRef).slice(77, 3001), &mut random);
    let wide = (0..5000).map(|row| (row % 9 > 0).then_some(row * (1i128 << 70))).collect::<Decimal128Array>();
    check(&(Arc::new(wide) as ArrayRef).slice(77, 3001), &mut random);
}

/// Ranges as a filter has them: they ascend and do not touch.
fn ranges(bounds: impl IntoIterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut bounds = bounds.into_iter().filter(|(least, greatest)| least <= greatest).collect::<Vec<_>>();
    bounds.sort_unstable();
    let mut ranges = Vec::<(i64, i64)>::new();
    for (least, greatest) in bounds {
        match ranges.last_mut() {
            Some((_, last)) if i128::from(least) <= i128::from(*last) + 1 => *last = (*last).max(greatest),
            _ => ranges.push((least, greatest)),
        }
    }
    ranges
}

#[test]
fn ranges_are_what_comparisons_say() {
    let mut random = SmallRng::seed_from_u64(6);
    for rows in [1, 100, 1024, 5000] {
        for shape in 0..9 {
            for nulls in 0..3 {
                let values = with_nulls(numbers(rows, shape, &mut random), &mut random, nulls);
                let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
                let chunk = Chunk::open(encode(&array).unwrap().into(), &DataType::Int64, rows).unwrap();
                for round in 0..30 {
                    let bound = |random: &mut SmallRng| match random.random_range(0..4) {
                        0 => i64::MIN,
                        1 => i64::MAX,
                        2 => values.choose(random).unwrap().unwrap_or(3),
                        _ => random.random_range(-100..100),
                    };
                    // One range, a few, and lists of numbers of several lengths.
                    let wanted = match round % 3 {
                        0 => ranges([(bound(&mut random), bound(&mut random))]),
                        1 => ranges((0..random.random_range(0..5)).map(|_| (bound(&mut random), bound(&mut random)))),
                        _ => ranges((0..random.random_range(1..60)).map(|_| {
                            let number = bound(&mut random);
                            (number, number.saturating_add(random.random_range(0..2)))
                        })),
                    };
                    let start = random.random_range(0..rows);
                    let window = start..random.random_range(start..=rows);
                    if chunk.form() == "nulls" {
                        continue;
                    }
                    let bits = chunk.are_within(window.clone(), &wanted).unwrap();
                    let is_within = |value: &Option<i64>| {
                        let has =
                            |value: i64| wanted.iter().any(|(least, greatest)| (*least..=*greatest).contains(&value));
                        value.is_some_and(has)
                    };
                    let expected = values[window].iter().map(is_within).collect::<Vec<_>>();
                    assert_eq!(bits.iter().collect::<Vec<_>>(), expected, "{wanted:?}");
                }
            }
        }
    }
}

/// Asks something of the values that are stored once, and holds the rows against what is said of each row.
fn ask(array: &ArrayRef, random: &mut SmallRng) -> Option<&'static str> {
    let chunk = Chunk::open(encode(array).unwrap().into(), array.data_type(), array.len()).unwrap();
    let words = |array: &ArrayRef| {
        let array = cast(array, &chunk.data_type).unwrap();
        let word = |row: usize| array.is_valid(row).then(|| array_value_to_string(&array, row).unwrap());
        (0..array.len()).map(word).collect::<Vec<_>>()
    };
    let rows = words(array);
    for is_narrow in [false, true] {
        let Some(values) = chunk.values(is_narrow).unwrap() else {
            assert!(chunk.values_count().is_none() && chunk.are_among(0..1, &BooleanBuffer::new_set(1)).is_none());
            return None;
        };
        values.to_data().validate_full().unwrap();
        let has_null = usize::from(array.logical_null_count() > 0);
        assert_eq!(values.len(), chunk.values_count().unwrap() + has_null);
        assert_eq!(values.logical_null_count(), has_null);
        let values = words(&values);
        for part in [1, 2, 9, 1000] {
            let lot = random.random::<u64>();
            // An answer follows from the value alone: runs may have one value several times.
            let is_wanted = |word: &Option<String>| {
                let bytes = word.as_ref().map_or(&[255][..], |word| word.as_bytes());
                bytes.iter().fold(lot, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)) % part
                    == 0
            };
            let wanted = values.iter().map(is_wanted).collect::<BooleanBuffer>();
            let start = random.random_range(0..array.len());
            for window in [0..array.len(), start..random.random_range(start..=array.len())] {
                let found = chunk.are_among(window.clone(), &wanted).unwrap();
                let expected = rows[window].iter().map(is_wanted).collect::<Vec<_>>();
                assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{}", chunk.form());
            }
        }
    }
    Some(chunk.form())
}

#[test]
fn what_is_asked_of_values_is_true_of_their_rows() {
    let mut random = SmallRng::seed_from_u64(9);
    let mut forms = std::collections::BTreeSet::new();
    for rows in LENGTHS {
        for nulls in 0..4 {
            for shape in 0..9 {
                let values = with_nulls(numbers(rows, shape, &mut random), &mut random, nulls);
                forms.extend(ask(&(Arc::new(Int64Array::from(values.clone())) as ArrayRef), &mut random));
                let money = values.iter().map(|value| value.map(|value| i128::from(value % 1_000_000)));
                let money = money.collect::<Decimal128Array>().with_precision_and_scale(12, 2).unwrap();
                forms.extend(ask(&(Arc::new(money) as ArrayRef), &mut random));
            }
            for shape in 0..7 {
                let values = (0..rows).map(|row| text(shape, row / 7, &mut random)).collect::<Vec<_>>();
                let values = with_nulls(values, &mut random, nulls);
                forms.extend(ask(&(Arc::new(StringViewArray::from(values.clone())) as ArrayRef), &mut random));
                let bytes = values.iter().map(|value| value.as_ref().map(|value| value.as_bytes()));
                forms.extend(ask(&(Arc::new(bytes.collect::<BinaryViewArray>()) as ArrayRef), &mut random));
                forms.extend(ask(&(Arc::new(StringArray::from(values)) as ArrayRef), &mut random));
            }
        }
    }
    assert_eq!(forms.into_iter().collect::<Vec<_>>(), ["constant", "dictionary", "nulls", "runs"]);
}

#[test]
fn few_rows_do_not_decode_a_whole_dictionary() {
    let mut random = SmallRng::seed_from_u64(10);
    let texts = (0..40_000).map(|row| (row % 13 > 0).then(|| format!("a text that is long: {}", row / 8)));
    let array: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
    let mut chunk = Chunk::open(encode(&array).unwrap().into(), array.data_type(), array.len()).unwrap();
    assert_eq!(chunk.form(), "dictionary");
    let mut forms = Vec::new();
    for _ in 0..120 {
        let row = random.random_range(0..array.len());
        let read = chunk.read(row..row + 1, None, true).unwrap();
        read.to_data().validate_full().unwrap();
        assert_same(&cast(&read, array.data_type()).unwrap(), &array.slice(row, 1));
        forms.push(read.data_type() == array.data_type());
    }
    // One by one at first; all of them once so many have been asked for that this is less work.
    assert_eq!(forms.iter().position(|is_single| !is_single), Some(5000 / 64));
    assert!(forms[5000 / 64..].iter().all(|is_single| !is_single));
    let all = chunk.read(0..array.len(), None, false).unwrap();
    assert_same(&all, &array);
}

/// Small chunks of every codec.
fn samples() -> Vec<ArrayRef> {
    let mut random = SmallRng::seed_from_u64(8);
    let mut samples = Vec::<ArrayRef>::new();
    for shape in 0..9 {
        let values = with_nulls(numbers(70, shape, &mut random), &mut random, shape % 2);
        samples.push(Arc::new(Int64Array::from(values)));
    }
    for shape in 0..7 {
        let values = (0..90).map(|row| text(shape, row, &mut random)).collect::<Vec<_>>();
        samples.push(Arc::new(StringViewArray::from(with_nulls(values, &mut random, shape % 2))));
    }
    samples.push(Arc::new(
        (0..70).map(|row| f64::from(row) / 4.0 + 1e300 * f64::from(row / 69)).collect::<Float64Array>(),
    ));
    samples.push(Arc::new((0..70).map(|row| row % 3 == 0).map(Some).collect::<BooleanArray>()));
    let mut lists = ListBuilder::new(Int32Builder::new());
    (0..30).for_each(|row| lists.append_value((0..row % 4).map(Some)));
    samples.push(Arc::new(lists.finish()));
    samples
}

/// Reads everything that can be read; what it is does not matter.
fn read_all(bytes: Vec<u8>, array: &ArrayRef) {
    let Ok(mut chunk) = Chunk::open(bytes.into(), array.data_type(), array.len()) else { return };
    let some = BooleanBuffer::collect_bool(array.len(), |row| row % 5 == 1);
    for (selected, is_narrow) in [(None, false), (None, true), (Some(&some), false), (Some(&some), true)] {
        if let Ok(read) = chunk.read(0..array.len(), selected, is_narrow) {
            assert_eq!(read.len(), selected.map_or(array.len(), |some| some.count_set_bits()));
            read.to_data().validate_full().unwrap();
        }
    }
    chunk.are_within(0..array.len(), &[(-5, 5), (9, 9)]);
    for is_narrow in [false, true] {
        if let Ok(Some(values)) = chunk.values(is_narrow) {
            values.to_data().validate_full().unwrap();
            let wanted = BooleanBuffer::collect_bool(values.len(), |place| place % 3 == 0);
            assert!(chunk.are_among(0..array.len(), &wanted).is_none_or(|bits| bits.len() == array.len()));
        }
    }
    chunk.own_bytes();
}

#[test]
fn damaged_bytes_never_make_a_panic_or_an_invalid_array() {
    for array in samples() {
        let bytes = encode(&array).unwrap();
        for length in 0..bytes.len() {
            read_all(bytes[..length].to_vec(), &array);
        }
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                read_all(damaged, &array);
            }
            let mut damaged = bytes.clone();
            damaged[place] = 0xff;
            read_all(damaged, &array);
        }
    }
}

proptest! {
    #[test]
    fn any_numbers_come_back(values in prop::collection::vec(prop::option::of(any::<i64>()), 1..3000), seed: u64) {
        check(&(Arc::new(Int64Array::from(values)) as ArrayRef), &mut SmallRng::seed_from_u64(seed));
    }

    #[test]
    fn any_texts_come_back(values in prop::collection::vec(prop::option::of(".{0,40}"), 1..600), seed: u64) {
        check(&(Arc::new(StringViewArray::from(values)) as ArrayRef), &mut SmallRng::seed_from_u64(seed));
    }

    #[test]
    fn any_doubles_come_back(values in prop::collection::vec(any::<f64>(), 1..3000), seed: u64) {
        check(&(Arc::new(Float64Array::from(values)) as ArrayRef), &mut SmallRng::seed_from_u64(seed));
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..400), rows in 1usize..3000) {
        read_all(bytes.clone(), &new_null_array(&DataType::Int64, rows));
        read_all(bytes.clone(), &new_null_array(&DataType::Float64, rows));
        read_all(bytes, &new_null_array(&DataType::Utf8View, rows));
    }
}
