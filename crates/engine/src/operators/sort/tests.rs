//! Sorts of random rows against the slow judge.

mod engines;
mod spilled;

use std::sync::Arc;
use std::task::Waker;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{CastOptions, SortOptions, cast_with_options, sort_to_indices};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use diligence_base::ErrorKind;
use diligence_base::ids::QueryId;
use diligence_memory::{Broker, QueryMemory};
use diligence_storage::Zone;
use proptest::prelude::*;

use super::*;
use crate::batch::Selection;
use crate::expressions::Expr;
use crate::flow::profile::SpillCounts;
use crate::flow::{Accept, Flow, Output, Pull, QueryContext, Sink, Source};
use crate::operators::limit::limit;
use crate::reference::sort::{Row, judge, rows_of};

/// A sort to be tried.
#[derive(Clone, Debug)]
struct Case {
    schema: SchemaRef,
    /// For each column, whether the values come in a narrow physical form in every other batch.
    narrow: bool,
    /// Column, descending, NULLs first.
    keys: Vec<(usize, bool, bool)>,
    /// Rows of value numbers, per batch.
    batches: Vec<Vec<Vec<Option<u8>>>>,
    packets: usize,
    batch_rows: usize,
    sizes: Sizes,
    skip: usize,
    fetch: Option<usize>,
}

const TYPES: [DataType; 14] = [
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::Boolean,
    DataType::Float64,
    DataType::Float32,
    DataType::Utf8,
    DataType::Utf8View,
    DataType::Date32,
    DataType::Decimal128(15, 2),
    DataType::Decimal128(38, 4),
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Binary,
    DataType::UInt64,
];

/// The value with a number: few numbers give many duplicates and the ends of each type's range.
fn value(data_type: &DataType, number: Option<u8>) -> ScalarValue {
    let Some(number) = number else { return ScalarValue::try_from(data_type).unwrap() };
    let text = match number {
        0 => String::new(),
        1..=9 => "\0".repeat(number.into()),
        10..=29 => format!("short {number}"),
        30..=59 => format!("a beginning that many long strings share {number}"),
        60..=79 => "long ".repeat(usize::from(number) - 50),
        _ => ["ä", "zz", "stagecoach", "a", "abcdefg", "abcdefgh"][usize::from(number) % 6].to_string(),
    };
    let small = i64::from(number) - 128;
    match data_type {
        DataType::Int32 => ScalarValue::Int32(Some([i32::MIN, i32::MAX, small as i32][usize::from(number).min(2)])),
        DataType::Int64 => ScalarValue::Int64(Some([i64::MIN, i64::MAX, small][usize::from(number).min(2)])),
        DataType::UInt8 => ScalarValue::UInt8(Some(number)),
        DataType::UInt64 => ScalarValue::UInt64(Some([0, u64::MAX, number.into()][usize::from(number).min(2)])),
        DataType::Boolean => ScalarValue::Boolean(Some(number % 2 == 0)),
        DataType::Float64 => ScalarValue::Float64(Some(match number {
            0 => f64::NAN,
            1 => -0.0,
            2 => 0.0,
            3 => f64::INFINITY,
            4 => f64::NEG_INFINITY,
            5 => -f64::NAN,
            _ => small as f64 / 3.0,
        })),
        DataType::Float32 => ScalarValue::Float32(Some(if number == 0 { f32::NAN } else { small as f32 * 1e20 })),
        DataType::Utf8 => ScalarValue::Utf8(Some(text)),
        DataType::Utf8View => ScalarValue::Utf8View(Some(text)),
        DataType::Binary => ScalarValue::Binary(Some(text.into_bytes())),
        DataType::Date32 => ScalarValue::Date32(Some(small as i32 * 1000)),
        DataType::Timestamp(..) => ScalarValue::TimestampMicrosecond(Some(small * 1_000_000_007), None),
        &DataType::Decimal128(precision, scale) => {
            let most = 10_i128.pow(precision.into()) - 1;
            let unscaled = [-most, most, i128::from(small) * 1001][usize::from(number).min(2)];
            ScalarValue::Decimal128(Some(unscaled), precision, scale)
        }
        other => panic!("no values of type {other}"),
    }
}

/// The narrow physical form of an array, if its type has one.
fn narrowed(array: ArrayRef) -> ArrayRef {
    let narrow = match array.data_type() {
        &DataType::Decimal128(precision, scale) if precision <= 18 => DataType::Decimal64(precision, scale),
        DataType::Utf8 | DataType::Utf8View => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        _ => return array,
    };
    cast_with_options(&array, &narrow, &CastOptions::default()).unwrap()
}

impl Case {
    fn record_batch(&self, rows: &[Vec<Option<u8>>]) -> RecordBatch {
        let arrays = self.schema.fields().iter().enumerate().map(|(column, field)| {
            let number =
                |row: &Vec<Option<u8>>| if field.is_nullable() { row[column] } else { row[column].or(Some(77)) };
            ScalarValue::iter_to_array(rows.iter().map(|row| value(field.data_type(), number(row)))).unwrap()
        });
        RecordBatch::try_new(self.schema.clone(), arrays.collect()).unwrap()
    }

    /// The batch in some physical form, every third one with picks.
    fn batch(&self, record: &RecordBatch, index: usize) -> Batch {
        let arrays = record.columns().iter().cloned();
        let narrow = self.narrow && index % 2 == 1;
        let arrays = arrays.map(|array| if narrow { narrowed(array) } else { array }).collect();
        let batch = Batch::from_arrays(arrays, record.num_rows());
        if index % 3 == 2 {
            batch.pick(&UInt32Array::from_iter_values((0..record.num_rows() as u32).rev())).unwrap()
        } else {
            batch
        }
    }

    fn sort_keys(&self) -> Vec<SortKey> {
        let key = |&(column, descending, nulls_first): &(usize, bool, bool)| SortKey {
            expression: Expr::column(column, &self.schema).unwrap(),
            options: SortOptions { descending, nulls_first },
        };
        self.keys.iter().map(key).collect()
    }

    /// Sorts, skips and keeps as a plan would; the sort knows of the limit if `bounded`.
    fn run(&self, records: &[RecordBatch], bounded: bool) -> Result<Vec<Row>> {
        Ok(self.run_within(records, bounded, 1 << 30, None)?.0)
    }

    /// The same with a budget and temp space, and what was written there.
    fn run_within(
        &self,
        records: &[RecordBatch],
        bounded: bool,
        budget_bytes: usize,
        spill_to: Option<&SpillTo>,
    ) -> Result<(Vec<Row>, SpillCounts)> {
        let memory = Broker::new(budget_bytes).account(QueryId(7), None);
        let context =
            QueryContext { memory: memory.clone(), temp: None, batch_rows: self.batch_rows, packets: self.packets };
        let fetch = self.fetch.filter(|_| bounded).map(|fetch| self.skip + fetch);
        let SortParts { sink, merge, source, bound } =
            sort_with(&self.sort_keys(), fetch, &self.schema, spill_to, self.sizes)?;
        assert_eq!(source.packets_max(), 1);
        let batches = records.iter().enumerate().filter_map(|(index, record)| {
            let batch = self.batch(record, index);
            match &bound {
                // As a scan would, by turns: by zones, by rows, not at all.
                Some(bound) if index % 3 < 2 => self.in_bound(bound, record, batch, index % 3 == 0),
                _ => Some(batch),
            }
        });
        fill(sink.as_ref(), batches, &context, &|| Ok(()))?;
        for part in (0..sink.parts()?).rev() {
            sink.part(part, &context)?;
        }
        sink.complete()?;
        let mut limiter = limit(self.skip, self.fetch).open(&context)?;
        let mut out = Output::default();
        read(merge.as_ref(), source.as_ref(), &context, &|| Ok(()), |batch| {
            assert!((1..=self.batch_rows).contains(&batch.rows()));
            Ok(limiter.push(batch, &mut out)? != Flow::Done)
        })?;
        let mut answer = Vec::new();
        while let Some(batch) = out.take() {
            answer.push(batch.to_record_batch(&self.schema)?);
        }
        let spilled = sink.spills().map(|spills| spills.counts()).unwrap_or_default();
        drop((source, merge, sink));
        assert_eq!(memory.reserved_bytes(), 0, "bytes stay reserved");
        Ok((rows_of(&answer)?, spilled))
    }

    /// The rows of a batch that may be among the first.
    fn in_bound(
        &self,
        bound: &Arc<FirstRowsBound>,
        record: &RecordBatch,
        batch: Batch,
        by_zone: bool,
    ) -> Option<Batch> {
        let (column, ..) = self.keys[0];
        if by_zone {
            let values = (0..record.num_rows()).map(|row| ScalarValue::try_from_array(record.column(column), row));
            let values = values.map(Result::unwrap).collect::<Vec<_>>();
            let may_have_nulls = values.iter().any(ScalarValue::is_null);
            // Nothing knows the zones of floating-point numbers, for want of an order with NaN that all agree on.
            if record.column(column).data_type().is_floating() {
                return Some(batch);
            }
            let options = SortOptions { descending: false, nulls_first: true };
            let order = sort_to_indices(record.column(column), Some(options), None).unwrap();
            let known = order.values().iter().map(|row| &values[*row as usize]).filter(|value| !value.is_null());
            let known = known.collect::<Vec<_>>();
            let bounds =
                known.first().zip(known.last()).map(|(least, greatest)| ((*least).clone(), (*greatest).clone()));
            let best = bound.best_of(&Zone { bounds, may_have_nulls }).unwrap();
            return (!bound.is_behind(best)).then_some(batch);
        }
        let filter = bound.row_filter(column, record.num_rows().is_multiple_of(2));
        if !filter.is_worthwhile() {
            return Some(batch);
        }
        let keep = filter.keep(&[batch.column(column).flat().unwrap()]).unwrap();
        let rows = (0..batch.rows() as u32).filter(|row| keep.value(*row as usize));
        batch.select(&Selection::Rows(UInt32Array::from_iter_values(rows))).unwrap()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let records = self.batches.iter().map(|rows| self.record_batch(rows)).collect::<Vec<_>>();
        let input = rows_of(&records).unwrap();
        let keys = self
            .keys
            .iter()
            .map(|&(column, descending, nulls_first)| (column, SortOptions { descending, nulls_first }))
            .collect::<Vec<_>>();
        for bounded in [false, true] {
            let output = self.run(&records, bounded).unwrap();
            if let Err(wrong) = judge(&input, &output, &keys, self.skip, self.fetch) {
                prop_assert!(false, "bounded {}: {}", bounded, wrong);
            }
        }
        Ok(())
    }
}

/// Pushes batches, so that packets get unequal shares. `step` is called before each call and may end it.
fn fill(
    sink: &dyn Sink,
    batches: impl Iterator<Item = Batch>,
    context: &QueryContext,
    step: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut states = (0..context.packets).map(|_| sink.open(context).map(Some)).collect::<Result<Vec<_>>>()?;
    for (index, batch) in batches.enumerate() {
        let place = (index * index + index / 3) % context.packets;
        let Some(state) = &mut states[place] else { continue };
        step()?;
        let mut accept = state.push(batch, Waker::noop())?;
        while accept == Accept::Wait {
            step()?;
            accept = state.ready(Waker::noop())?;
        }
        if accept == Accept::Enough {
            states[place] = None;
        }
    }
    for mut state in states.into_iter().flatten() {
        while state.finish(Waker::noop())? == Accept::Wait {
            step()?;
        }
    }
    Ok(())
}

/// Reads a complete sort, until it ends or enough is read; mergers have their turns in between.
fn read(
    merge: Option<&MergeParts>,
    source: &dyn Source,
    context: &QueryContext,
    step: &dyn Fn() -> Result<()>,
    mut more: impl FnMut(Batch) -> Result<bool>,
) -> Result<()> {
    let mut mergers = Vec::new();
    if let Some(MergeParts { source, .. }) = merge {
        for _ in 0..source.packets_max().min(context.packets) {
            mergers.push(source.open(context)?);
        }
    }
    let mut reader = Some(source.open(context)?);
    while let Some(state) = &mut reader {
        let mut is_stuck = true;
        step()?;
        match state.pull(Waker::noop())? {
            Pull::Batch(batch) => {
                if !more(batch)? {
                    reader = None;
                }
                is_stuck = false;
            }
            Pull::Done => return Ok(()),
            Pull::Wait => {}
            Pull::NoMemory(error) => return Err(error),
            Pull::Again => panic!("a sort answers with batches"),
        }
        for index in (0..mergers.len()).rev() {
            match mergers[index].pull(Waker::noop())? {
                Pull::Again => is_stuck = false,
                Pull::Wait => {}
                Pull::Done => drop(mergers.swap_remove(index)),
                Pull::NoMemory(error) => return Err(error),
                Pull::Batch(_) => panic!("mergers hand their rows over themselves"),
            }
        }
        assert!(!is_stuck || mergers.is_empty() || reader.is_none(), "everybody waits");
    }
    // The reader has gone: mergers end.
    for mut merger in mergers {
        assert!(matches!(merger.pull(Waker::noop())?, Pull::Done), "a merger goes on for nobody");
    }
    Ok(())
}

prop_compose! {
    fn fields()(columns in prop::collection::vec((0..TYPES.len(), any::<bool>()), 1..4)) -> SchemaRef {
        let field = |(index, (data_type, nullable)): (usize, (usize, bool))| {
            Field::new(format!("c{index}"), TYPES[data_type].clone(), nullable)
        };
        Arc::new(Schema::new(columns.into_iter().enumerate().map(field).collect::<Vec<_>>()))
    }
}

fn case() -> impl Strategy<Value = Case> {
    fields().prop_flat_map(|schema| {
        let columns = schema.fields().len();
        // Some columns with few values, so that later keys matter.
        let number = prop_oneof![Just(None), (0_u8..4).prop_map(Some), any::<u8>().prop_map(Some)];
        let row = prop::collection::vec(number, columns);
        let batches = prop::collection::vec(prop::collection::vec(row, 1..30), 0..9);
        let keys = prop::collection::vec((0..columns, any::<bool>(), any::<bool>()), 0..4);
        let sizes = (1_usize..40, 100_usize..20_000, 1_usize..40, 0_usize..20, 0_usize..10);
        let shape = (1_usize..5, 1_usize..20, any::<bool>());
        let window = (0_usize..30, prop::option::of(0_usize..60));
        (keys, batches, sizes, shape, window).prop_map(move |(keys, batches, sizes, shape, window)| Case {
            schema: schema.clone(),
            narrow: shape.2,
            keys,
            batches,
            packets: shape.0,
            batch_rows: shape.1,
            sizes: Sizes {
                run_rows: sizes.0,
                run_bytes: sizes.1,
                range_rows: sizes.2,
                ranges_max: 16,
                top_rows_max: sizes.3 * 4,
                top_rows_few: 0,
                top_slack_rows: sizes.4,
            },
            skip: window.0,
            fetch: window.1,
        })
    })
}

/// A small top-N whose first key is a text, most often NULL or one of few: ties and NULLs at the threshold.
fn top_of_texts() -> impl Strategy<Value = Case> {
    let text = prop_oneof![Just(DataType::Utf8), Just(DataType::Utf8View), Just(DataType::Binary)];
    let number = prop_oneof![3 => Just(None), 3 => (30_u8..34).prop_map(Some), 1 => any::<u8>().prop_map(Some)];
    let batches = prop::collection::vec(prop::collection::vec(prop::collection::vec(number, 2), 1..12), 2..12);
    let orders = [any::<(bool, bool)>(), any::<(bool, bool)>()];
    (text, batches, orders, 1_usize..4, 1_usize..12, 0_usize..4).prop_map(
        |(text, batches, orders, packets, fetch, slack)| {
            let fields = vec![Field::new("text", text, true), Field::new("number", DataType::Int32, true)];
            Case {
                schema: Arc::new(Schema::new(fields)),
                narrow: false,
                keys: orders.iter().enumerate().map(|(column, order)| (column, order.0, order.1)).collect(),
                batches,
                packets,
                batch_rows: 8,
                sizes: Sizes { top_slack_rows: slack, ..Sizes::default() },
                skip: 0,
                fetch: Some(fetch),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_top_of_texts_is_as_the_judge_says(case in top_of_texts()) {
        case.check()?;
    }

    #[test]
    fn any_sort_is_as_the_judge_says(case in case()) {
        case.check()?;
    }
}

fn integers(rows: usize, fetch: Option<usize>) -> Case {
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::UInt8, true),
        Field::new("text", DataType::Utf8View, true),
    ]));
    let row = |number: usize| vec![Some((number * 37 % 251) as u8), Some((number % 256) as u8)];
    let batches =
        (0..rows).collect::<Vec<_>>().chunks(100).map(|chunk| chunk.iter().copied().map(row).collect()).collect();
    Case {
        schema,
        narrow: false,
        keys: vec![(0, false, false), (1, true, true)],
        batches,
        packets: 2,
        batch_rows: 64,
        sizes: Sizes { run_rows: 500, range_rows: 300, ..Sizes::default() },
        skip: 0,
        fetch,
    }
}

#[test]
fn more_runs_than_a_text_column_may_have_buffers() {
    integers(20_000, None).check().unwrap();
    integers(20_000, Some(700)).check().unwrap();
}

#[test]
fn a_schema_without_columns_and_keys_keeps_its_rows() {
    let schema = Arc::new(Schema::empty());
    let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 10, packets: 1 };
    let SortParts { sink, source, .. } = sort(&[], Some(7), &schema, None).unwrap();
    let mut state = sink.open(&context).unwrap();
    for _ in 0..3 {
        state.push(Batch::from_arrays(vec![], 5), Waker::noop()).unwrap();
    }
    state.finish(Waker::noop()).unwrap();
    for part in 0..sink.parts().unwrap() {
        sink.part(part, &context).unwrap();
    }
    sink.complete().unwrap();
    let mut reader = source.open(&context).unwrap();
    let Pull::Batch(batch) = reader.pull(Waker::noop()).unwrap() else { panic!("rows come out") };
    assert_eq!(batch.rows(), 7);
    assert!(matches!(reader.pull(Waker::noop()).unwrap(), Pull::Done));
}

#[test]
fn without_temp_space_a_small_budget_ends_the_sort_with_a_clear_error_and_gives_everything_back() {
    let case = integers(5_000, None);
    let broker = Broker::new(100 * 1024);
    let memory = broker.account(QueryId(1), None);
    let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: 64, packets: 1 };
    let parts = sort_with(&case.sort_keys(), None, &case.schema, None, case.sizes).unwrap();
    let mut state = parts.sink.open(&context).unwrap();
    let failed = case.batches.iter().find_map(|rows| {
        let batch = Batch::from_record_batch(&case.record_batch(rows));
        state.push(batch, Waker::noop()).err()
    });
    assert_eq!(failed.expect("100 KiB are not enough").kind(), ErrorKind::Resource);
    drop((state, parts));
    assert_eq!(broker.reserved_bytes(), 0);
}

#[test]
fn a_decimal_beyond_its_precision_is_an_error() {
    let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Decimal128(3, 0), true)]));
    let keys = [SortKey { expression: Expr::column(0, &schema).unwrap(), options: SortOptions::default() }];
    let parts = sort(&keys, None, &schema, None).unwrap();
    let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 10, packets: 1 };
    let values: ArrayRef =
        Arc::new(arrow::array::Decimal128Array::from(vec![5, 1000]).with_data_type(DataType::Decimal128(3, 0)));
    let error =
        parts.sink.open(&context).unwrap().push(Batch::from_arrays(vec![values], 2), Waker::noop()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
}

#[test]
fn reading_before_the_end_is_a_bug() {
    let case = integers(0, None);
    let parts = sort(&case.sort_keys(), None, &case.schema, None).unwrap();
    let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 10, packets: 1 };
    assert_eq!(parts.source.open(&context).err().expect("nothing is sorted yet").kind(), ErrorKind::Bug);
}
