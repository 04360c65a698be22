//! Random rows in random physical forms.

use super::*;

pub(super) const KEYS: usize = 9;

pub(super) fn input_schema() -> SchemaRef {
    let fields = vec![
        ("int", DataType::Int32),
        ("big", DataType::Int64),
        ("text", DataType::Utf8View),
        ("dec", DataType::Decimal128(12, 2)),
        ("bool", DataType::Boolean),
        ("date", DataType::Date32),
        ("wide", DataType::Decimal128(30, 3)),
        ("float_key", DataType::Float64),
        ("list", DataType::new_list(DataType::Int32, true)),
        ("amount", DataType::Decimal128(15, 2)),
        ("number", DataType::Int64),
        ("float", DataType::Float64),
        ("flag", DataType::Boolean),
        ("unsigned", DataType::UInt64),
        ("utf8", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields.into_iter().map(|(name, t)| Field::new(name, t, true)).collect::<Vec<_>>()))
}

/// How the random rows look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) batch_rows: usize,
    /// Values of each key column.
    pub(super) domain: usize,
    pub(super) nulls_percent: usize,
    pub(super) huge: bool,
}

pub(super) fn word(value: usize) -> String {
    match value % 4 {
        0 => format!("w{value}"),
        1 => "x".repeat(value % 14),
        2 => format!("a string that is long {value}"),
        _ => format!("twelve{value:06}"),
    }
}

pub(super) fn batches(random: &mut Random, shape: Shape) -> Vec<Batch> {
    let mut left = shape.rows;
    let mut batches = Vec::new();
    while left > 0 {
        let rows = (1 + random.below(shape.batch_rows)).min(left);
        left -= rows;
        // Some batches have no NULL at all, so that tables get their null words late.
        let nulls = if random.chance(40) { 0 } else { shape.nulls_percent };
        let columns =
            (0..input_schema().fields().len()).map(|index| column(random, index, rows, shape, nulls)).collect();
        batches.push(Batch::new(columns, rows));
    }
    batches
}

/// The same batches as a join gives them: most columns are those of rows of one table, the largest of the batches, or
/// of none of its rows.
pub(super) fn joined(random: &mut Random, batches: Vec<Batch>) -> Vec<Batch> {
    let Some(table) = batches.iter().max_by_key(|batch| batch.rows()).cloned() else { return batches };
    let is_own = (0..table.columns().len()).map(|_| random.chance(20)).collect::<Vec<_>>();
    let joined = |batch: Batch| {
        let rows = options(random, batch.rows(), 5, |random| random.below(table.rows()) as u32);
        let picked = table.pick(&UInt32Array::from(rows)).unwrap();
        let columns = is_own.iter().enumerate().map(|(index, own)| {
            let from = if *own { &batch } else { &picked };
            from.column(index).clone()
        });
        Batch::new(columns.collect(), batch.rows())
    };
    batches.into_iter().map(joined).collect()
}

/// A skewed value.
pub(super) fn value(random: &mut Random, domain: usize) -> usize {
    if random.chance(30) { 0 } else { random.below(domain) }
}

pub(super) fn options<T>(
    random: &mut Random,
    rows: usize,
    nulls: usize,
    mut make: impl FnMut(&mut Random) -> T,
) -> Vec<Option<T>> {
    (0..rows).map(|_| if random.chance(nulls) { None } else { Some(make(random)) }).collect()
}

pub(super) fn column(random: &mut Random, index: usize, rows: usize, shape: Shape, nulls: usize) -> Column {
    let domain = shape.domain;
    // Now and then few values behind picks.
    if random.chance(25) {
        let values = 1 + random.below(6);
        let (array, _) = array(random, index, values, domain, nulls, shape.huge);
        let picks = options(random, rows, nulls / 2, |random| random.below(values) as u32);
        return Column::picked(array, Arc::new(UInt32Array::from(picks)));
    }
    let (array, may_encode) = array(random, index, rows, domain, nulls, shape.huge);
    if may_encode && random.chance(40) {
        let keys = if random.chance(50) && rows < 100 { DataType::Int8 } else { DataType::UInt32 };
        let encoded = DataType::Dictionary(Box::new(keys), Box::new(array.data_type().clone()));
        return Column::flat_array(cast(&array, &encoded).unwrap());
    }
    Column::flat_array(array)
}

/// A random array of a column's type, in one of its physical forms; and whether it may become a dictionary.
pub(super) fn array(
    random: &mut Random,
    index: usize,
    rows: usize,
    domain: usize,
    nulls: usize,
    huge: bool,
) -> (ArrayRef, bool) {
    let number = |random: &mut Random| value(random, domain) as i64 - 3;
    let decimal = |random: &mut Random, precision: u8, scale: i8, greatest: i64| -> ArrayRef {
        let values = options(random, rows, nulls, |random| {
            let value = number(random);
            if huge && random.chance(50) { value.signum() * (greatest - value.abs()) } else { value }
        });
        if random.chance(50) {
            let array = Decimal64Array::from(values).with_precision_and_scale(precision.min(18), scale);
            return Arc::new(array.unwrap());
        }
        let array = values.into_iter().map(|value| value.map(|value| value as i128)).collect::<Decimal128Array>();
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    match index {
        0 => (Arc::new(Int32Array::from(options(random, rows, nulls, |random| number(random) as i32))), true),
        1 => {
            let far = random.chance(50);
            let make = |random: &mut Random| {
                if far { number(random).wrapping_mul(0x1234_5678_9abc_def1) } else { number(random) }
            };
            (Arc::new(Int64Array::from(options(random, rows, nulls, make))), false)
        }
        2 => {
            let strings = options(random, rows, nulls, |random| word(value(random, domain)));
            (Arc::new(StringViewArray::from_iter(strings)), true)
        }
        3 => (decimal(random, 12, 2, 999_999_999_999), false),
        4 => (Arc::new(BooleanArray::from(options(random, rows, nulls, |random| random.chance(50)))), false),
        5 => (Arc::new(Date32Array::from(options(random, rows, nulls, |random| 9000 + number(random) as i32))), false),
        6 => {
            let values = options(random, rows, nulls, |random| number(random) as i128 * if huge { 1 << 70 } else { 1 });
            let array = Decimal128Array::from(values).with_precision_and_scale(30, 3).unwrap();
            (Arc::new(array), false)
        }
        7 => {
            let make = |random: &mut Random| match random.below(10) {
                0 => -0.0,
                1 => f64::NAN,
                _ => number(random) as f64 * 0.5,
            };
            (Arc::new(Float64Array::from(options(random, rows, nulls, make))), false)
        }
        8 => {
            let lists = options(random, rows, nulls, |random| {
                let length = random.below(8);
                (0..length)
                    .map(|_| if random.chance(20) { None } else { Some(number(random) as i32) })
                    .collect::<Vec<_>>()
            });
            (Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)), false)
        }
        9 => (decimal(random, 15, 2, 999_999_999_999_999), false),
        10 => {
            let make = |random: &mut Random| if huge { i64::MAX.wrapping_sub(number(random)) } else { number(random) };
            (Arc::new(Int64Array::from(options(random, rows, nulls, make))), true)
        }
        // Halves of small integers: their sums are exact in every order.
        11 => (Arc::new(Float64Array::from(options(random, rows, nulls, |random| number(random) as f64 * 0.5))), false),
        12 => (Arc::new(BooleanArray::from(options(random, rows, nulls, |random| random.chance(60)))), false),
        13 => {
            let make =
                |random: &mut Random| if huge { u64::MAX - random.below(5) as u64 } else { random.below(1000) as u64 };
            (Arc::new(UInt64Array::from(options(random, rows, nulls, make))), false)
        }
        _ => {
            let strings = options(random, rows, nulls, |random| word(value(random, domain)));
            (Arc::new(StringArray::from_iter(strings)), true)
        }
    }
}
