//! Every codec beside Arrow's arrays: what is read is what was written, of all rows and of some.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Field, Int32Type, IntervalMonthDayNano};
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

#[test]
fn ranges_are_what_comparisons_say() {
    let mut random = SmallRng::seed_from_u64(6);
    for rows in [1, 100, 1024, 5000] {
        for shape in 0..9 {
            for nulls in 0..3 {
                let values = with_nulls(numbers(rows, shape, &mut random), &mut random, nulls);
                let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
                let chunk = Chunk::open(encode(&array).unwrap().into(), &DataType::Int64, rows).unwrap();
                for _ in 0..20 {
                    let bound = |random: &mut SmallRng| match random.random_range(0..4) {
                        0 => i64::MIN,
                        1 => i64::MAX,
                        2 => values.choose(random).unwrap().unwrap_or(3),
                        _ => random.random_range(-100..100),
                    };
                    let (least, greatest) = (bound(&mut random), bound(&mut random));
                    let start = random.random_range(0..rows);
                    let window = start..random.random_range(start..=rows);
                    if chunk.form() == "nulls" {
                        continue;
                    }
                    let bits = chunk.are_within(window.clone(), least, greatest).unwrap();
                    let is_within =
                        |value: &Option<i64>| value.is_some_and(|value| (least..=greatest).contains(&value));
                    let expected = values[window].iter().map(is_within).collect::<Vec<_>>();
                    assert_eq!(bits.iter().collect::<Vec<_>>(), expected);
                }
            }
        }
    }
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
    chunk.are_within(0..array.len(), -5, 5);
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
