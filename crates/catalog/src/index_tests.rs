//! Indexes beside ordered maps, and scans by an index beside scans without one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray,
};
use arrow::compute::{SortOptions, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow_row::{RowConverter, SortField};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNullExpr, LikeExpr, Literal, NotExpr, in_list,
};
use diligence_base::Result;
use diligence_base::ids::TableVersion;
use diligence_base::seams::{CrashDisk, Disk, Random};
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::key_file::{KeyFile, KeyFileWriter};
use diligence_storage::memory::ROW_NUMBERS;
use diligence_storage::{DecodeRequest, Fetch, FirstRows, OrderColumn, ScanRequest, Table};

use crate::index::{KeyIndex, KeyRange};
use crate::key_store::KeyStore;
use crate::keys::{KeyReader, SortedKeys, comparable};
use crate::rules::{Key, KeyKind, TableRules};
use crate::run::Bound;
use crate::run_writer::run_of_file;
use crate::{Catalog, DEFAULT_SCHEMA, NativeTable, Relation, RelationName, RowChange};

fn memory() -> Reservation {
    QueryMemory::unbounded().reservation("an index")
}

/// A text of few letters, now and then one that is too long for an index, or of bytes at the ends of their range.
fn text(random: &mut Random) -> String {
    let start = match random.below(12) {
        0 => "x".repeat(230 + random.below(30)),
        1 => "\u{10ffff}".to_owned(),
        2 => "\0".to_owned(),
        _ => String::new(),
    };
    let letters = (0..random.below(4)).map(|_| ["a", "b", "é", "z", "\u{d7ff}"][random.below(5)]);
    start + &letters.collect::<String>()
}

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("f", DataType::Float64, true),
        Field::new("d", DataType::Date32, true),
        Field::new("n", DataType::Decimal128(10, 2), true),
        Field::new("b", DataType::Boolean, true),
        Field::new("i", DataType::Int32, true),
    ]))
}

fn float(random: &mut Random) -> f64 {
    let special = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    match random.below(4) {
        0 => special[random.below(6)],
        _ => random.below(20) as f64 - 10.0,
    }
}

fn integer(random: &mut Random) -> i64 {
    match random.below(20) {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => random.below(300) as i64 - 100,
    }
}

fn rows(random: &mut Random, count: usize) -> RecordBatch {
    fn some<T>(random: &mut Random, count: usize, mut value: impl FnMut(&mut Random) -> T) -> Vec<Option<T>> {
        (0..count).map(|_| (random.below(6) > 0).then(|| value(random))).collect()
    }
    let decimals = Decimal128Array::from(some(random, count, |random| i128::from(integer(random) % 1000)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(some(random, count, integer))),
        Arc::new(StringViewArray::from_iter(some(random, count, text))),
        Arc::new(Float64Array::from(some(random, count, float))),
        Arc::new(Date32Array::from(some(random, count, |random| random.below(50) as i32))),
        Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()),
        Arc::new(BooleanArray::from(some(random, count, |random| random.below(2) == 0))),
        Arc::new(Int32Array::from(some(random, count, |random| random.below(100) as i32))),
    ];
    RecordBatch::try_new(self::columns(), columns).unwrap()
}

fn key(columns: &[&str]) -> Key {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>();
    Key::of_columns(columns.join("_"), columns, KeyKind::Index, false)
}

/// All keys.
fn whole() -> KeyRange {
    KeyRange { from: Bound { bytes: Vec::new(), is_behind: false }, to: Bound { bytes: Vec::new(), is_behind: true } }
}

/// Key files on a disk in memory.
#[derive(Debug)]
struct Files {
    disk: Arc<dyn Disk>,
    next: AtomicU64,
}

impl Files {
    fn new() -> Self {
        Self { disk: Arc::new(CrashDisk::default()), next: AtomicU64::new(0) }
    }

    fn path(number: u64) -> PathBuf {
        PathBuf::from(format!("/{number}.keys"))
    }

    /// The index of the files of another one, all of whose runs are in files.
    fn reopened(&self, index: &KeyIndex, memory: &Reservation) -> KeyIndex {
        let (files, covered) = index.files();
        let runs = files.iter().map(|file| {
            let path = Self::path(file.number());
            let (file, said) = KeyFile::open(&self.disk, &path, file.number(), file.seal()).unwrap();
            let run = run_of_file(file.clone(), &said, memory).unwrap();
            let filter_bytes = 8 + run.filter().unwrap().bytes();
            if file.number() % 3 > 0 {
                return Arc::new(run);
            }
            // As it was before there were filters.
            let run = run_of_file(file, &said[..said.len() - filter_bytes], memory).unwrap();
            assert!(run.filter().is_none());
            Arc::new(run)
        });
        KeyIndex::of_files(runs.collect(), covered)
    }
}

impl KeyStore for Files {
    fn begin_keys(&self) -> Result<KeyFileWriter> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        KeyFileWriter::create(&self.disk, &Self::path(number), number)
    }

    fn finish_keys(&self, file: &Arc<KeyFile>) -> Result<()> {
        file.verify()
    }
}

#[test]
fn an_index_has_what_an_ordered_set_has() {
    let mut random = Random::new(11);
    let (memory, files) = (memory(), Files::new());
    for round in 0..30 {
        let key = key([&["a"][..], &["s"], &["s", "a"], &["f", "s"], &["n", "b", "d"]][round % 5]);
        let schema = columns();
        let reader = KeyReader::new(&key, &schema).unwrap();
        let mut versions = vec![(KeyIndex::default(), BTreeSet::<(Vec<u8>, i64)>::new())];
        let mut next = 0;
        for step in 0..40 {
            let from = random.below(versions.len());
            let (index, model) = &versions[from];
            let mut model = model.clone();
            let batches = (0..random.below(3)).map(|_| {
                let count = if random.below(5) == 0 { 2000 } else { random.below(20) };
                rows(&mut random, count)
            });
            let batches = batches.collect::<Vec<_>>();
            let values = batches.iter().map(|batch| reader.values(batch).unwrap()).collect::<Vec<_>>();
            let starts = crate::keyed::starts(&batches);
            let number = |batch: usize, row: usize| next + (starts[batch] + row) as i64;
            let sorted = SortedKeys::new(&values, number);
            // Who has a key already.
            let mut met = BTreeSet::new();
            index.meet(&sorted, |number, place| assert!(met.insert((number, place)))).unwrap();
            let expected = (0..sorted.len()).flat_map(|place| {
                let (batch, row) = sorted.row(place);
                let own = values[batch].compared(row).map(|own| own.into_owned());
                let same = model.iter().filter(move |(key, _)| Some(key) == own.as_ref());
                same.map(move |(_, number)| (*number, place))
            });
            assert_eq!(met, expected.collect(), "round {round}, step {step}");
            let mut after = index.with(&sorted, &memory).unwrap();
            for (batch, values) in values.iter().enumerate() {
                for row in 0..values.len() {
                    model.insert((values.indexed(row).unwrap().into_owned(), number(batch, row)));
                }
            }
            next += batches.iter().map(RecordBatch::num_rows).sum::<usize>() as i64;
            // What is in the index whatever its row is: where runs are for files, nothing is taken out.
            let left = |index: &KeyIndex| index.find(&[whole()]).unwrap().numbers().unwrap();
            if random.below(6) == 0 {
                after = after.swept(&memory, &|number| number % 3 != 0).unwrap();
                let left = left(&after);
                model.retain(|(_, number)| left.binary_search(number).is_ok() || number % 3 != 0);
            }
            // Runs move to files, those that are merged without rows that are gone; other versions have them still.
            if round % 2 == 0 && random.below(4) == 0 {
                let gone = if random.below(2) == 0 { 5 } else { i64::MAX };
                after.fix(model.len(), 1);
                let moved = after.moved(&files, (model.len(), 1), next, &memory, &|number| number % gone != 0);
                if let Some(moved) = moved.unwrap() {
                    after = after.with_moved(&moved);
                    let left = left(&after);
                    model.retain(|(_, number)| left.binary_search(number).is_ok() || number % gone != 0);
                    after = files.reopened(&after, &memory);
                }
            }
            assert_eq!(after.len(), model.len());
            versions.push((after, model));
        }
        // Every version has its own rows, whatever came of the runs that it shares.
        for (index, model) in &versions {
            let bound = |random: &mut Random| {
                let bytes = match model.iter().nth(random.below(model.len().max(1))) {
                    Some((key, _)) => key[..random.below(key.len() + 1)].to_vec(),
                    None => vec![1, 2],
                };
                Bound { bytes, is_behind: random.below(2) == 0 }
            };
            for _ in 0..10 {
                let range = KeyRange { from: bound(&mut random), to: bound(&mut random) };
                let is_before = |key: &[u8], bound: &Bound| {
                    let begins = key.starts_with(&bound.bytes);
                    key < bound.bytes.as_slice() && !begins || begins && bound.is_behind
                };
                let expected =
                    model.iter().filter(|(key, _)| !is_before(key, &range.from) && is_before(key, &range.to));
                let expected = expected.map(|(_, number)| *number).collect::<BTreeSet<_>>();
                let found = index.find(std::slice::from_ref(&range)).unwrap();
                assert_eq!(found.entries(), expected.len());
                assert_eq!(found.numbers().unwrap(), expected.into_iter().collect::<Vec<_>>());
            }
            for (key, _) in model.iter().step_by(97) {
                let expected = model.iter().filter(|(other, _)| other == key).map(|(_, number)| *number);
                let candidates = index.candidates(key).unwrap().into_iter().collect::<BTreeSet<_>>();
                assert_eq!(candidates, expected.collect());
            }
        }
    }
}

#[test]
fn an_index_of_numbers_takes_few_bytes_and_gives_them_back() {
    let memory = QueryMemory::unbounded();
    let reservation = memory.reservation("an index");
    let key = key(&["a"]);
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let reader = KeyReader::new(&key, &schema).unwrap();
    let mut random = Random::new(3);
    let bytes = |value: &mut dyn FnMut(i64) -> i64| {
        let mut index = KeyIndex::default();
        for step in 0..40 {
            let column: ArrayRef =
                Arc::new(Int64Array::from_iter_values((0..5000).map(|row| value(step * 5000 + row))));
            let values = [reader.values_of(&[column], 5000).unwrap()];
            index = index.with(&SortedKeys::new(&values, |_, row| step * 5000 + row as i64), &reservation).unwrap();
        }
        let bytes = index.state(&key).bytes;
        assert_eq!(memory.reserved_bytes(), bytes);
        bytes / index.len()
    };
    let rising = bytes(&mut |row| row);
    assert!(rising <= 4, "{rising} bytes for a number that rises");
    let any = bytes(&mut |_| random.bits() as i64);
    assert!(any <= 16, "{any} bytes for a number without pattern");
    assert_eq!(memory.reserved_bytes(), 0);
}

fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}

fn comparison(random: &mut Random, schema: &SchemaRef) -> Arc<dyn PhysicalExpr> {
    let place = random.below(7);
    let field = schema.field(place);
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
    let some = rows(random, 1);
    let value = ScalarValue::try_from_array(some.column(place), 0).unwrap();
    match random.below(10) {
        0 => Arc::new(IsNullExpr::new(column)),
        1 => {
            let values = (0..random.below(5)).map(|_| rows(random, 1)).collect::<Vec<_>>();
            let values = values.iter().map(|some| literal(ScalarValue::try_from_array(some.column(place), 0).unwrap()));
            in_list(column, values.chain([literal(value)]).collect(), &false, schema).unwrap()
        }
        2 => {
            let other = rows(random, 1);
            let other = ScalarValue::try_from_array(other.column(place), 0).unwrap();
            let equal = |value| -> Arc<dyn PhysicalExpr> {
                Arc::new(BinaryExpr::new(column.clone(), Operator::Eq, literal(value)))
            };
            Arc::new(BinaryExpr::new(equal(value), Operator::Or, equal(other)))
        }
        3 => {
            let pattern = text(random) + ["%", "_", "%a", ""][random.below(4)];
            let column = Arc::new(Column::new("s", 1));
            Arc::new(LikeExpr::new(
                false,
                random.below(4) == 0,
                column,
                literal(ScalarValue::from(pattern).cast_to(&DataType::Utf8View).unwrap()),
            ))
        }
        4 => {
            // An integer beside a wider one.
            let wide = Arc::new(CastExpr::new(Arc::new(Column::new("i", 6)), DataType::Int64, None));
            let operator = [Operator::Eq, Operator::Lt, Operator::GtEq][random.below(3)];
            Arc::new(BinaryExpr::new(wide, operator, literal(ScalarValue::from(integer(random)))))
        }
        5 => Arc::new(NotExpr::new(Arc::new(BinaryExpr::new(column, Operator::Eq, literal(value))))),
        _ => {
            let operators = [
                Operator::Eq,
                Operator::Lt,
                Operator::LtEq,
                Operator::Gt,
                Operator::GtEq,
                Operator::NotEq,
                Operator::IsNotDistinctFrom,
            ];
            let operator = operators[random.below(7)];
            match random.below(3) {
                0 => Arc::new(BinaryExpr::new(literal(value), operator, column)),
                _ => Arc::new(BinaryExpr::new(column, operator, literal(value))),
            }
        }
    }
}

/// The numbers of a table's rows that a condition is true of, and how many rows were looked at.
fn found(table: &dyn Table, condition: &Arc<dyn PhysicalExpr>) -> (BTreeSet<i64>, usize) {
    let columns = (0..table.schema().fields().len()).collect::<Vec<_>>();
    let request = ScanRequest { columns: columns.clone(), predicate: Some(condition.clone()) };
    let (mut numbers, mut looked_at) = (BTreeSet::new(), 0);
    for cluster in table.scan(&request).unwrap().clusters {
        let Fetch::Ready(fetched) = cluster.fetch(&columns) else { panic!("rows in memory are read") };
        let request = DecodeRequest { columns: columns.clone(), batch_rows: 100, ..DecodeRequest::default() };
        let mut decode = cluster.decode(fetched, &request).unwrap();
        let mut rows = 0;
        while let Some(chunk) = decode.next().unwrap() {
            rows += chunk.rows;
            let batch = RecordBatch::try_new(table.schema(), chunk.columns).unwrap();
            let is_true = condition.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
            let batch = filter_record_batch(&batch, is_true.as_boolean()).unwrap();
            let own = batch.column_by_name(ROW_NUMBERS).unwrap().as_primitive::<Int64Type>().values().to_vec();
            assert!(own.into_iter().all(|number| numbers.insert(number)), "a row is found twice");
        }
        assert_eq!(cluster.rows(), Some(rows));
        looked_at += rows;
    }
    (numbers, looked_at)
}

#[test]
fn scans_by_an_index_find_what_others_find() {
    let mut random = Random::new(5);
    let (mut by_index, mut with_less) = (0, 0);
    for round in 0..12 {
        let catalog = Arc::new(Catalog::default());
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let schema = columns();
        let table = NativeTable::new(&name, &schema, &[], memory(), TableVersion(1)).unwrap();
        let keys = [&["a"][..], &["s", "a"], &["f"], &["d", "n"], &["n", "s"], &["b", "d", "f"], &["i"], &["s"]];
        let mut keys = keys.iter().map(|columns| key(columns)).collect::<Vec<_>>();
        keys.rotate_left(round % 8);
        keys.truncate(1 + round % 5);
        let rules = TableRules { keys, ..TableRules::default() };
        let table = table.with_rules(rules, &memory(), TableVersion(2)).unwrap();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let reference = catalog.snapshot().get(&name).unwrap().reference();
        for _ in 0..8 {
            let snapshot = catalog.snapshot();
            let Relation::Native(table) = &snapshot.get(&name).unwrap().relation else { panic!("no table") };
            let live = table.pieces().iter().flat_map(|piece| piece.live_numbers().collect::<Vec<_>>());
            let deleted = live.filter(|_| random.below(9) == 0).collect();
            let count = [30, 3000][random.below(2)];
            let inserted = vec![rows(&mut random, count).into()];
            let change = RowChange { deleted, inserted, memory: memory(), pairs: 0 };
            catalog.change(&reference, change).unwrap();
            let snapshot = catalog.snapshot();
            let Relation::Native(table) = &snapshot.get(&name).unwrap().relation else { panic!("no table") };
            let (indexed, plain) = (table.numbered(), table.numbered().without_index().unwrap());
            assert!(!plain.uses_index() && plain.clone().without_index().is_none());
            for _ in 0..60 {
                let mut condition = comparison(&mut random, &schema);
                for _ in 0..random.below(3) {
                    condition = Arc::new(BinaryExpr::new(condition, Operator::And, comparison(&mut random, &schema)));
                }
                let (rows, looked_at) = found(indexed.as_ref(), &condition);
                let (expected, all) = found(plain.as_ref(), &condition);
                assert_eq!(rows, expected, "{condition}, {:?}", indexed.access(&condition));
                assert_eq!(plain.access(&condition), None);
                by_index += usize::from(indexed.access(&condition).is_some());
                with_less += usize::from(looked_at < all);
            }
        }
    }
    assert!(by_index > 200 && with_less > 200, "{by_index} and {with_less} of 5760");
}

/// The values by which rows are in an order, as bytes in that order: of the first so many.
fn first_keys(rows: &RecordBatch, wanted: &FirstRows) -> Vec<Vec<u8>> {
    let field = |column: &OrderColumn| {
        let options = SortOptions { descending: column.descending, nulls_first: column.nulls_first.unwrap_or(false) };
        SortField::new_with_options(rows.column(column.column).data_type().clone(), options)
    };
    let converter = RowConverter::new(wanted.order.iter().map(field).collect()).unwrap();
    let columns = wanted.order.iter().map(|column| comparable(rows.column(column.column))).collect::<Vec<_>>();
    let counts = |row: &usize| {
        wanted.order.iter().all(|column| column.nulls_first.is_some() || rows.column(column.column).is_valid(*row))
    };
    let keys = converter.convert_columns(&columns).unwrap();
    let mut keys = (0..rows.num_rows()).filter(counts).map(|row| keys.row(row).data().to_vec()).collect::<Vec<_>>();
    keys.sort_unstable();
    keys.truncate(wanted.rows);
    keys
}

/// The rows of a table of which a condition is true.
fn rows_where(table: &dyn Table, condition: Option<&Arc<dyn PhysicalExpr>>) -> RecordBatch {
    let columns = (0..table.schema().fields().len()).collect::<Vec<_>>();
    let mut batches = Vec::new();
    for cluster in table.scan(&ScanRequest { columns: columns.clone(), predicate: None }).unwrap().clusters {
        let Fetch::Ready(fetched) = cluster.fetch(&columns) else { panic!("rows in memory are read") };
        let request = DecodeRequest { columns: columns.clone(), batch_rows: 100, ..DecodeRequest::default() };
        let mut decode = cluster.decode(fetched, &request).unwrap();
        while let Some(chunk) = decode.next().unwrap() {
            let batch = RecordBatch::try_new(table.schema(), chunk.columns).unwrap();
            batches.push(match condition {
                None => batch,
                Some(condition) => {
                    let is_true = condition.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
                    filter_record_batch(&batch, is_true.as_boolean()).unwrap()
                }
            });
        }
    }
    arrow::compute::concat_batches(&table.schema(), &batches).unwrap()
}

#[test]
fn the_first_rows_along_an_index_are_the_first_of_all() {
    let mut random = Random::new(17);
    let (mut found, mut bounded) = (0, 0);
    for round in 0..20 {
        let catalog = Arc::new(Catalog::default());
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let schema = columns();
        let table = NativeTable::new(&name, &schema, &[], memory(), TableVersion(1)).unwrap();
        let keys = [&["a"][..], &["s", "a"], &["f", "i"], &["d", "n"], &["i", "d", "a"]].map(key).to_vec();
        let table = table.with_rules(TableRules { keys, ..TableRules::default() }, &memory(), TableVersion(2)).unwrap();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let reference = catalog.snapshot().get(&name).unwrap().reference();
        for _ in 0..3 {
            let snapshot = catalog.snapshot();
            let Relation::Native(table) = &snapshot.get(&name).unwrap().relation else { panic!("no table") };
            let live = table.pieces().iter().flat_map(|piece| piece.live_numbers().collect::<Vec<_>>());
            let deleted = live.filter(|_| random.below(3 + round) == 0).collect();
            let change =
                RowChange { deleted, inserted: vec![rows(&mut random, 700).into()], memory: memory(), pairs: 0 };
            catalog.change(&reference, change).unwrap();
        }
        let snapshot = catalog.snapshot();
        let Relation::Native(table) = &snapshot.get(&name).unwrap().relation else { panic!("no table") };
        let plain = table.table().without_index().unwrap();
        for _ in 0..200 {
            let descending = random.below(2) == 0;
            let mut order =
                [&["a"][..], &["s"], &["s", "a"], &["f"], &["d", "n"], &["d"], &["a", "d"], &["i", "d"], &["n"]]
                    [random.below(9)]
                .iter()
                .map(|name| {
                    let nulls_first = Some(if random.below(8) == 0 { !descending } else { descending });
                    OrderColumn { column: schema.index_of(name).unwrap(), descending, nulls_first }
                })
                .collect::<Vec<_>>();
            if let [only] = order.as_mut_slice()
                && random.below(3) == 0
            {
                only.nulls_first = None;
            }
            let wanted = FirstRows { order, rows: [0, 1, 5, 60][random.below(4)] };
            let conditions = (0..random.below(3)).map(|_| {
                let place = [0, 1, 3, 6][random.below(4)];
                let column = Arc::new(Column::new(schema.field(place).name(), place));
                let some = rows(&mut random, 1);
                let value = literal(ScalarValue::try_from_array(some.column(place), 0).unwrap());
                let operator = [Operator::Eq, Operator::Lt, Operator::GtEq, Operator::Gt][random.below(4)];
                Arc::new(BinaryExpr::new(column, operator, value)) as Arc<dyn PhysicalExpr>
            });
            let condition = conditions.reduce(|all, one| Arc::new(BinaryExpr::new(all, Operator::And, one)));
            let expected = first_keys(&rows_where(plain.as_ref(), condition.as_ref()), &wanted);
            assert!(plain.clone().first_rows(condition.as_ref(), std::slice::from_ref(&wanted)).is_none());
            let Some(few) = table.table().first_rows(condition.as_ref(), std::slice::from_ref(&wanted)) else {
                continue;
            };
            let rows = rows_where(few.as_ref(), None);
            assert!(rows.num_rows() <= wanted.rows, "{} rows", rows.num_rows());
            let shown = condition.as_ref().map(|condition| condition.to_string());
            assert_eq!(first_keys(&rows, &wanted), expected, "{wanted:?} where {shown:?}");
            found += 1;
            bounded += usize::from(condition.is_some());
        }
    }
    assert!(found > 400 && bounded > 50, "{found} and {bounded} of 4000");
}
