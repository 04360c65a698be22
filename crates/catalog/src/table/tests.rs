//! Tests of tables: readers, keys and rows that come and go.

use arrow::array::{AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use diligence_memory::QueryMemory;

use super::*;
use crate::rules::{Key, KeyKind};
use crate::{Catalog, DEFAULT_SCHEMA, Relation, RelationName};

fn batch(values: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
    let texts = values.iter().map(|value| value.to_string()).collect::<Vec<_>>();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(values.to_vec())), Arc::new(StringArray::from(texts))];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[test]
fn a_reader_keeps_its_rows_while_others_insert() {
    let catalog = Catalog::default();
    let first = batch(&[1, 2]);
    let memory = QueryMemory::unbounded();
    let counted = |bytes| {
        let mut reservation = memory.reservation("a table in memory");
        reservation.grow(bytes).unwrap();
        reservation
    };
    let name = RelationName::new(DEFAULT_SCHEMA, "t");
    let relation =
        NativeTable::new(&name, &first.schema(), std::slice::from_ref(&first), counted(500), TableVersion(1)).unwrap();
    assert_eq!(relation.schema().field(1).data_type(), &DataType::Utf8View);
    catalog.create(&name, Relation::Native(Arc::new(relation)), false).unwrap();
    let table = catalog.snapshot().get(&name).unwrap().reference();
    let now = || match &catalog.snapshot().get(&name).unwrap().relation {
        Relation::Native(memory) => (memory.rows(), memory.table()),
        other => panic!("{other:?}"),
    };
    let clusters = || now().1.scan(&Default::default()).unwrap().clusters.len();
    let (_, before) = now();
    catalog.insert(&table, &[batch(&[3]).into()], counted(300), false).unwrap();
    assert_eq!(now().0, 3);
    assert_eq!(clusters(), 1, "small batches are joined");
    assert_eq!(before.statistics().num_rows.get_value(), Some(&2));
    assert_ne!(before.version(), now().1.version());
    assert!(memory.reserved_bytes() > 500, "the old rows, which somebody reads, and the new ones");
    let after = memory.reserved_bytes() - 500;
    drop(before);
    assert_eq!(memory.reserved_bytes(), after, "the new rows only; the statement's own are part of them");
    catalog.truncate(std::slice::from_ref(&table), false, false).unwrap();
    assert_eq!((now().0, memory.reserved_bytes()), (0, 0));
    catalog.insert(&table, &[first.into()], counted(500), false).unwrap();
    catalog.insert(&table, &[batch(&[7]).into()], counted(40), true).unwrap();
    assert_eq!((now().0, memory.reserved_bytes()), (1, 40));
    // A large batch stays what it is; the small ones behind it are put together, and counted as that.
    let large = batch(&(0..BATCH_ROWS_MAX as i64).collect::<Vec<_>>());
    let rows = [large.clone(), batch(&[1]), batch(&[2])];
    let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
    catalog.insert(&table, &rows.map(NewRows::Memory), counted(bytes), true).unwrap();
    assert_eq!(clusters(), 2);
    assert!(memory.reserved_bytes().abs_diff(bytes) < bytes / 10, "{} of {bytes}", memory.reserved_bytes());
    catalog.drop(&name, |_| Ok(())).unwrap();
    assert_eq!(memory.reserved_bytes(), 0);
}

#[test]
fn rows_are_told_by_the_table_its_version_and_how_they_are_read() {
    let name = RelationName::new(DEFAULT_SCHEMA, "t");
    let memory = || QueryMemory::unbounded().reservation("a table in memory");
    let rows = batch(&[1, 2, 3]);
    let made =
        || NativeTable::new(&name, &rows.schema(), std::slice::from_ref(&rows), memory(), TableVersion(1)).unwrap();
    let table = made();
    let identity = |table: &NativeTable| table.table().identity();
    let own = identity(&table);
    assert_ne!(own.table, identity(&made()).table, "equal rows of another table");
    // A view of the same rows is the same, whoever makes it.
    let views: [fn(&NativeTable) -> Arc<dyn Table>; 3] = [
        NativeTable::numbered,
        |table| table.table().without_index().unwrap(),
        |table| table.numbered().without_index().unwrap(),
    ];
    for (place, view) in views.iter().enumerate() {
        assert_eq!(view(&table).identity(), view(&table).identity());
        assert_eq!(view(&table).origin().map(|origin| origin.identity()), Some(own));
        let mut others = vec![own];
        others.extend(
            views.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, view)| view(&table).identity()),
        );
        assert!(!others.contains(&view(&table).identity()));
    }
    // Other rows are another version, other columns or rules are another table.
    let more = table.with_rows(&[batch(&[4]).into()], memory(), false, None, TableVersion(2)).unwrap();
    let (more, ruled) = (identity(&more), table.with_rules(TableRules::default(), &memory(), TableVersion(3)).unwrap());
    assert_eq!((more.table, more.version, more == own), (own.table, TableVersion(2), false));
    assert_ne!(identity(&ruled).table, own.table);
}

#[test]
fn keys_are_unique_as_in_a_set_whatever_changes() {
    let mut random = diligence_base::seams::Random::new(7);
    for round in 0..40 {
        let catalog = Arc::new(Catalog::default());
        let memory = QueryMemory::unbounded();
        let reservation = || memory.reservation("a table in memory");
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let empty = batch(&[]);
        let table = NativeTable::new(&name, &empty.schema(), &[], reservation(), TableVersion(1)).unwrap();
        let key = |kind, columns: &[&str]| Key {
            name: columns.join("_"),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            kind,
            nulls_are_equal: false,
            computed: None,
            deferral: Default::default(),
            form: None,
        };
        let keys = vec![key(KeyKind::Primary, &["a"]), key(KeyKind::Index, &["s", "a"])];
        let rules = TableRules { keys, ..TableRules::default() };
        let table = table.with_rules(rules, &reservation(), TableVersion(2)).unwrap();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let reference = catalog.snapshot().get(&name).unwrap().reference();
        let mut model = std::collections::BTreeSet::new();
        for step in 0..60 {
            let at = || format!("round {round}, step {step}");
            // Rows that go, and values that come, of which some are there already.
            let numbered = rows_of(&catalog, &name);
            let gone = numbered.iter().filter(|_| random.below(4) == 0).copied().collect::<Vec<_>>();
            let new = (0..random.below(60)).map(|_| random.below(200) as i64).collect::<Vec<_>>();
            let mut after = model.clone();
            after.retain(|value| !gone.iter().any(|(_, gone)| gone == value));
            let is_well = new.iter().all(|value| after.insert(*value));
            let deleted = gone.iter().map(|(number, _)| *number).collect();
            let change = RowChange { deleted, inserted: vec![batch(&new).into()], memory: reservation(), pairs: 0 };
            let done = match random.below(2) {
                0 => catalog.change(&reference, change),
                _ => {
                    let transaction = crate::transaction::Transaction::begin(catalog.clone());
                    transaction.catalog().change(&reference, change).and_then(|()| transaction.commit(false))
                }
            };
            match done {
                Ok(()) => assert!(is_well, "{}", at()),
                Err(error) => assert!(!is_well && error.code() == Some("23505"), "{error}: {}", at()),
            }
            if is_well {
                model = after;
            }
            let found = rows_of(&catalog, &name).into_iter().map(|(_, value)| value);
            assert_eq!(found.collect::<std::collections::BTreeSet<_>>(), model, "{}", at());
        }
    }
}

/// The numbers of a table's rows with their first values.
fn rows_of(catalog: &Catalog, name: &RelationName) -> Vec<(i64, i64)> {
    let snapshot = catalog.snapshot();
    let Relation::Native(rows) = &snapshot.get(name).unwrap().relation else { panic!("no table") };
    let mut all = Vec::new();
    for piece in rows.pieces() {
        let batch = piece.read().unwrap();
        let values = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
        all.extend(piece.live_numbers().zip(values));
    }
    all
}
