//! What is written is read again; what is forged is refused or fits.

use arrow::array::{Int16Array, Int64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use diligence_base::seams::Random;

use super::*;

const KINDS: [Kind; 12] = [
    Kind::Boolean,
    Kind::SmallInt,
    Kind::Integer,
    Kind::BigInt,
    Kind::Real,
    Kind::Double,
    Kind::Numeric,
    Kind::Text,
    Kind::Bytes,
    Kind::BooleanList,
    Kind::TextList,
    Kind::SmallIntList,
];

#[test]
fn values_are_read_as_they_were_written() {
    let mut payload = vec![NATIVE, 1, 1, 0];
    payload.extend([7_i64, -1].iter().flat_map(|value| value.to_le_bytes()));
    let Ok(Answer::Values(values)) = super::values(&payload, Kind::SmallInt, Form::Rows, 2) else { panic!() };
    assert_eq!(values.as_primitive::<Int16Type>(), &Int16Array::from(vec![Some(7), None]));

    let mut payload = vec![TEXTS, 0];
    payload.extend([2_u32, 0].iter().flat_map(|length| length.to_le_bytes()));
    payload.extend("ä".as_bytes());
    let Ok(Answer::Texts(values)) = super::values(&payload, Kind::BigInt, Form::Rows, 2) else { panic!() };
    assert_eq!(values.as_string_view().iter().collect::<Vec<_>>(), [Some("ä"), Some("")]);

    payload.push(0);
    assert_eq!(
        super::values(&payload, Kind::BigInt, Form::Rows, 2).unwrap_err(),
        Malformed("1 bytes too many".to_owned())
    );
}

#[test]
fn arrays_go_and_come_with_their_elements() {
    let elements = Arc::new(Int16Array::from(vec![Some(1), Some(2), None, Some(3)]));
    let item = Arc::new(Field::new("item", DataType::Int16, true));
    let valid = Some(NullBuffer::from(vec![true, false, true]));
    // What stands for NULL has an element.
    let lists: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 2]), elements, valid));
    let sent = |column: &ArrayRef| {
        let mut frame = Frame::default();
        add_column(&mut frame, column, Kind::SmallIntList).unwrap();
        frame.bytes
    };
    let lengths = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
    assert_eq!(sent(&lists), [&[1, 1, 0, 1][..], &lengths, &[1, 1, 0, 1, 1, 0, 0, 0, 3, 0]].concat());
    assert_eq!(sent(&lists.slice(2, 1)), [0, 2, 0, 0, 0, 1, 0, 1, 0, 0, 3, 0]);

    let mut payload = [&[NATIVE, 1, 1, 0, 1][..], &lengths, &[NATIVE, 1, 1, 0, 1]].concat();
    payload.extend([7_i64, 0, -1].iter().flat_map(|value| value.to_le_bytes()));
    let read = |payload: &[u8], returns| super::values(payload, returns, Form::Wasm, 3);
    let Ok(Answer::Values(values)) = read(&payload, Kind::SmallIntList) else { panic!() };
    let expected = [Some(vec![Some(7)]), None, Some(vec![None, Some(-1)])];
    assert_eq!(*values.as_list::<i32>(), ListArray::from_iter_primitive::<Int16Type, _, _>(expected));
    payload.truncate(payload.len() - 1);
    assert!(read(&payload, Kind::SmallIntList).is_err());
    // No room is made for elements that do not come.
    let forged = [&[NATIVE, 0][..], &[255; 12], &[NATIVE, 0]].concat();
    assert!(read(&forged, Kind::TextList).is_err() && read(&forged, Kind::BooleanList).is_err());
}

#[test]
fn values_stay_where_they_lie_and_are_sent_from_any_byte_on() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let mut frame = Frame { bytes: vec![1, 2], held: vec![] };
    add_column(&mut frame, &column, Kind::BigInt).unwrap();
    add_column(&mut frame, &column.slice(990, 10), Kind::BigInt).unwrap();
    add_column(&mut frame, &column.slice(1, 999), Kind::BigInt).unwrap();
    let whole = |from| frame.parts_from(from).iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>();
    let bytes = |range: std::ops::Range<i64>| range.flat_map(i64::to_le_bytes).collect::<Vec<_>>();
    let expected = [&[1, 2, 0][..], &bytes(0..1000), &[0], &bytes(990..1000), &[0], &bytes(1..1000)].concat();
    assert_eq!((frame.held.len(), frame.len()), (2, expected.len()));
    for from in [0, 1, 3, 7, 8002, 8003, 8004, 8083, 8085, expected.len() - 1, expected.len()] {
        assert_eq!(whole(from), expected[from..], "{from}");
    }

    for padding in 0..8 {
        let payload = [&vec![0; padding][..], &[NATIVE, 0], &bytes(0..1000)].concat();
        let payload = Buffer::from_vec(payload);
        let answer = values_of(&payload.slice(padding), Kind::BigInt, Form::Rows, 1000);
        let Ok(Answer::Values(values)) = answer else { panic!("{answer:?}") };
        assert_eq!(&values, &column);
        let lies_there = payload.as_slice().as_ptr_range().contains(&values.to_data().buffers()[0].as_ptr());
        let may_lie = (payload.as_ptr() as usize + padding + 2).is_multiple_of(8);
        assert_eq!(lies_there, may_lie, "{padding}");
    }
}

#[test]
fn what_a_type_does_not_hold_is_said() {
    let mut payload = vec![NATIVE, 0];
    payload.extend(40_000_i64.to_le_bytes());
    assert!(matches!(
        super::values(&payload, Kind::SmallInt, Form::Rows, 1),
        Ok(Answer::OutOfRange(value, Kind::SmallInt)) if value == "40000"
    ));
    let mut payload = vec![NATIVE, 0];
    payload.extend(1e300_f64.to_le_bytes());
    assert!(matches!(super::values(&payload, Kind::Real, Form::Rows, 1), Ok(Answer::OutOfRange(..))));
    assert!(matches!(super::values(&payload, Kind::Double, Form::Rows, 1), Ok(Answer::Values(_))));
}

/// Ten thousand answers of a process that says anything: changed, cut and made up. Each is refused or fits.
#[test]
fn whatever_a_process_answers_is_refused_or_fits() {
    let (mut refused, mut fitting) = (0, 0);
    for seed in 0..10_000_u64 {
        let mut random = Random::new(seed);
        let (kind, rows) = (random.pick(&KINDS), random.below(6));
        let mut payload = vec![random.pick(&[NATIVE, NATIVE, TEXTS, ARROW, 9]), random.pick(&[0, 0, 1, 7])];
        for _ in 0..random.below(8 * rows + 2) {
            let byte = if random.chance(60) { random.below(3) } else { random.below(256) };
            payload.push(byte as u8);
        }
        let form = if random.chance(20) { Form::Arrow } else { Form::Rows };
        match values(&payload, kind, form, rows) {
            Ok(Answer::Values(array)) => {
                assert_eq!((array.len(), array.data_type()), (rows, &kind.arrow()), "seed {seed}");
                array.to_data().validate_full().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                fitting += 1;
            }
            Ok(Answer::Texts(array)) => {
                assert_eq!(array.len(), rows, "seed {seed}");
                fitting += 1;
            }
            Ok(Answer::OutOfRange(..)) => fitting += 1,
            Err(_) => refused += 1,
        }
        let _ = reply(random.below(6) as u8, payload);
    }
    assert!(refused > 1000 && fitting > 100, "{refused} refused, {fitting} fitting");
}

/// Arrow's streams, with some bytes changed or cut off.
#[test]
fn a_stream_that_was_changed_is_refused_or_fits() {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(arrow::array::StringArray::from(vec![Some("one"), None, Some("three")])),
    ];
    let (mut refused, mut fitting) = (0, 0);
    for seed in 0..4_000_u64 {
        let mut random = Random::new(seed);
        let mut payload = vec![ARROW];
        add_stream(&mut payload, &[random.pick(&columns)], 3).unwrap();
        for _ in 0..random.below(4) {
            let at = 1 + random.below(payload.len() - 1);
            payload[at] = random.below(256) as u8;
        }
        if random.chance(20) {
            payload.truncate(1 + random.below(payload.len()));
        }
        match values(&payload, Kind::BigInt, Form::Arrow, 3) {
            Ok(Answer::Values(array)) => {
                assert_eq!(array.len(), 3, "seed {seed}");
                array.to_data().validate_full().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                fitting += 1;
            }
            Ok(other) => panic!("seed {seed}: {other:?}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 500 && fitting > 500, "{refused} refused, {fitting} fitting");
}
