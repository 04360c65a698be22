//! Tests of the live catalog: snapshots, versions, rows by number, observers.

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use diligence_memory::QueryMemory;
use diligence_storage::{DecodeRequest, Fetch, ScanRequest, Table};

use super::*;

fn batch(values: &[i64]) -> RecordBatch {
    RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).unwrap()
}

fn reservation() -> Reservation {
    QueryMemory::unbounded().reservation("a table in memory")
}

fn name(name: &str) -> RelationName {
    RelationName::new(DEFAULT_SCHEMA, name)
}

fn table(catalog: &Catalog, table: &str) -> ObjectRef {
    let rows = batch(&[1, 2]);
    let relation =
        NativeTable::new(&name(table), &rows.schema(), &[rows], reservation(), catalog.next_table_version()).unwrap();
    catalog.create(&name(table), Relation::Native(Arc::new(relation)), true).unwrap();
    catalog.snapshot().get(&name(table)).unwrap().reference()
}

fn rows(snapshot: &CatalogSnapshot, table: &str) -> usize {
    match &snapshot.get(&name(table)).unwrap().relation {
        Relation::Native(memory) => memory.rows(),
        other => panic!("{other:?}"),
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<CatalogChange>>);

impl CatalogObserver for Heard {
    fn changed(&self, change: &CatalogChange) {
        self.0.lock().push(change.clone());
    }
}

#[test]
fn a_snapshot_keeps_names_and_rows_while_the_catalog_changes() {
    let catalog = Catalog::default();
    let (t, _) = (table(&catalog, "t"), table(&catalog, "u"));
    let before = catalog.snapshot();
    catalog.insert(&t, &[batch(&[3]).into()], reservation(), false).unwrap();
    catalog.drop(&name("u"), |_| Ok(())).unwrap();
    assert!(catalog.create_schema("lab").unwrap());
    assert_eq!((rows(&before, "t"), rows(&before, "u"), before.has_schema("lab")), (2, 2, false));
    let after = catalog.snapshot();
    assert_eq!((rows(&after, "t"), after.has_schema("lab")), (3, true));
    assert!(after.get(&name("u")).is_none());
    catalog.truncate(std::slice::from_ref(&t), false, false).unwrap();
    assert_eq!((rows(&catalog.snapshot(), "t"), rows(&after, "t")), (0, 3));
}

#[test]
fn a_change_gives_its_object_another_version_and_no_other_one() {
    let catalog = Catalog::default();
    let (t, u) = (table(&catalog, "t"), table(&catalog, "u"));
    let versions = || {
        let snapshot = catalog.snapshot();
        ["t", "u"].map(|table| snapshot.get(&name(table)).map(|object| (object.id, object.version)).unwrap())
    };
    let before = versions();
    catalog.insert(&t, &[batch(&[3]).into()], reservation(), false).unwrap();
    let after = versions();
    assert_eq!((after[0].0, after[1]), (before[0].0, before[1]));
    assert_ne!(after[0].1, before[0].1);
    assert_ne!(table(&catalog, "t").id, t.id, "a table in the place of another one is another object");
    assert_eq!(versions()[1].0, u.id);
}

#[test]
fn rows_for_a_table_that_is_gone_are_refused() {
    let catalog = Catalog::default();
    let first = table(&catalog, "t");
    let second = table(&catalog, "t");
    for gone in [first, ObjectRef { name: name("nowhere"), ..second.clone() }] {
        let error = catalog.insert(&gone, &[batch(&[3]).into()], reservation(), false).unwrap_err();
        assert_eq!(error.code(), Some("42P01"), "{error}");
    }
    catalog.insert(&second, &[batch(&[3]).into()], reservation(), false).unwrap();
    assert_eq!(rows(&catalog.snapshot(), "t"), 3);
}

#[test]
fn rows_are_found_by_number_however_they_move() {
    let catalog = Catalog::default();
    let t = table(&catalog, "t");
    let numbered = || match &catalog.snapshot().get(&name("t")).unwrap().relation {
        Relation::Native(memory) => numbered_rows(memory.numbered().as_ref()),
        other => panic!("{other:?}"),
    };
    let change = |deleted: &[i64], inserted: &[i64]| {
        let inserted = vec![batch(inserted).into()];
        catalog.change(&t, RowChange { deleted: deleted.to_vec(), inserted, memory: reservation(), pairs: 0 })
    };
    assert_eq!(numbered(), [(1, 0), (2, 1)]);
    change(&[0], &[10, 20]).unwrap();
    assert_eq!(numbered(), [(2, 1), (10, 2), (20, 3)]);
    change(&[3, 1], &[30]).unwrap();
    assert_eq!(numbered(), [(10, 2), (30, 4)]);
    // What has gone does not go again, and then nothing else happens.
    assert_eq!(change(&[2, 3], &[40]).unwrap_err().code(), Some("40001"));
    assert_eq!(change(&[9], &[]).unwrap_err().code(), Some("40001"));
    assert_eq!(numbered(), [(10, 2), (30, 4)]);
    change(&[2, 4], &[]).unwrap();
    assert_eq!(numbered(), []);
    change(&[], &[50]).unwrap();
    assert_eq!(numbered(), [(50, 5)], "no number comes twice");
}

/// The first column with the row's number.
fn numbered_rows(table: &dyn Table) -> Vec<(i64, i64)> {
    let columns = vec![0, table.schema().fields().len() - 1];
    let request = DecodeRequest { columns, batch_rows: 8, ..DecodeRequest::default() };
    let mut rows = Vec::new();
    for cluster in table.scan(&ScanRequest::default()).unwrap().clusters {
        let Fetch::Ready(fetched) = cluster.fetch(&[]) else { panic!("memory needs no reading") };
        let mut decode = cluster.decode(fetched, &request).unwrap();
        while let Some(chunk) = decode.next().unwrap() {
            let values = chunk.columns.iter().map(|column| column.as_primitive::<Int64Type>().values());
            let values = values.collect::<Vec<_>>();
            rows.extend(values[0].iter().copied().zip(values[1].iter().copied()));
        }
    }
    rows
}

#[test]
fn observers_hear_of_each_object_that_changes() {
    let catalog = Catalog::default();
    let heard = Arc::new(Heard::default());
    catalog.observe(Arc::downgrade(&heard) as Weak<dyn CatalogObserver>);
    let told = || std::mem::take(&mut *heard.0.lock()).into_iter().map(|change| change.object).collect::<Vec<_>>();
    let t = table(&catalog, "t");
    assert_eq!(told(), [t.id]);
    catalog.insert(&t, &[batch(&[3]).into()], reservation(), true).unwrap();
    assert_eq!(told(), [t.id]);
    let again = table(&catalog, "t");
    assert_eq!(told(), [t.id, again.id]);
    catalog.drop(&name("t"), |_| Ok(())).unwrap();
    assert!(!catalog.drop(&name("t"), |_| Ok(())).unwrap());
    assert_eq!(told(), [again.id]);
}

#[test]
fn what_shows_the_engine_is_not_changed() {
    let catalog = Catalog::default();
    let rows = batch(&[1]);
    let relation = NativeTable::new(&name("t"), &rows.schema(), &[rows], reservation(), TableVersion(1)).unwrap();
    let relation = Relation::Native(Arc::new(relation));
    for schema in SHOWN_SCHEMAS {
        assert!(catalog.create(&RelationName::new(schema, "t"), relation.clone(), true).is_err(), "{schema}");
        assert!(!catalog.create_schema(schema).unwrap() && catalog.drop_schema(schema, true).is_err(), "{schema}");
    }
    assert_eq!(catalog.create(&RelationName::new("lab", "t"), relation, true).unwrap_err().code(), Some("3F000"));
    assert!(catalog.drop_schema(DEFAULT_SCHEMA, true).is_err());
}
