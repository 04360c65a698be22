//! What there was before the database was opened.

use diligence_catalog::micros_now;

use super::*;

const HOUR: i64 = 3_600_000_000;

/// A database whose past can be read.
fn opened(disk: &CrashDisk) -> (Arc<Catalog>, Store) {
    let (catalog, store) = open(Arc::new(disk.clone())).unwrap();
    store.read_past_with(|_| Box::new(Tester));
    (catalog, store)
}

/// The values of the table `t` at a moment, or why there are none.
fn values_at(catalog: &Catalog, moment: i64) -> std::result::Result<Vec<i64>, &'static str> {
    let past = catalog.at_moment(moment).map_err(|error| error.code().unwrap_or_default())?;
    let Some(object) = past.get(&name("t")) else { return Ok(vec![]) };
    let Relation::Native(table) = &object.relation else { panic!("{object:?}") };
    let mut values = Vec::new();
    for piece in table.pieces() {
        values.extend(piece.read().unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    values.sort_unstable();
    Ok(values)
}

/// Changes the table, whose first rows go, and gives a moment after that and before all that follows.
fn change(catalog: &Arc<Catalog>, store: &Store, gone: usize, inserted: Vec<i64>) -> i64 {
    let deleted = content(catalog)["t"].0.keys().copied().take(gone).collect();
    Operation::Change { table: "t".into(), deleted, inserted }.run(catalog, store).unwrap();
    pause()
}

fn pause() -> i64 {
    std::thread::sleep(std::time::Duration::from_millis(2));
    let now = micros_now();
    std::thread::sleep(std::time::Duration::from_millis(2));
    now
}

#[test]
fn the_past_outlives_crashes_and_checkpoints() {
    let mut disk = CrashDisk::default();
    let mut expected = Vec::new();
    let before;
    {
        let (catalog, store) = opened(&disk);
        Operation::Create { table: "t".into(), values: vec![1, 2, 3] }.run(&catalog, &store).unwrap();
        before = pause();
        store.retain_history(HOUR).unwrap();
        expected.push((pause(), vec![1, 2, 3]));
    }
    let mut present = vec![1, 2, 3];
    for life in 0..6 {
        disk = disk.crash(life);
        let (catalog, store) = opened(&disk);
        assert_eq!(catalog.history().retention, HOUR);
        for (moment, values) in &expected {
            assert_eq!(values_at(&catalog, *moment).as_ref(), Ok(values), "life {life}, {moment}");
        }
        assert_eq!(values_at(&catalog, before), Err("72000"));
        assert!(catalog.history().oldest.is_some_and(|oldest| oldest > before));
        for step in 0..5 {
            let value = 100 * life as i64 + step;
            // The rows move to segments at checkpoints, and their segments are written anew.
            let moment = change(&catalog, &store, 1, vec![value, value + 1000]);
            present = values_at(&catalog, moment).unwrap();
            expected.push((moment, present.clone()));
            if (life as i64 + step) % 3 == 0 {
                store.checkpoint().unwrap();
            }
        }
    }
    disk = disk.crash(100);
    let (catalog, store) = opened(&disk);
    // The same from the newest to the oldest: what was read before is no help.
    for (moment, values) in expected.iter().rev() {
        assert_eq!(values_at(&catalog, *moment).as_ref(), Ok(values));
    }
    assert_eq!(values_at(&catalog, micros_now()), Ok(present));
    // One that was dropped is found as well.
    Operation::Drop { table: "t".into() }.run(&catalog, &store).unwrap();
    store.checkpoint().unwrap();
    drop((catalog, store));
    let (catalog, store) = opened(&disk);
    assert_eq!(values_at(&catalog, expected[3].0).as_ref(), Ok(&expected[3].1));
    assert_eq!(values_at(&catalog, micros_now()), Ok(vec![]));
    // Where nothing is retained, the files go.
    let files = |stem: &str| disk.files().keys().filter(|path| path.display().to_string().contains(stem)).count();
    assert!(files("/db/image-") > 1 && files("/db/log-") > 2 && files("/segments/") > 0);
    store.retain_history(0).unwrap();
    assert_eq!(values_at(&catalog, expected[3].0), Err("72000"));
    store.checkpoint().unwrap();
    assert_eq!((files("/db/image-"), files("/db/log-"), files("/segments/"), files("history")), (1, 1, 0, 0));
}

#[test]
fn what_is_not_retained_any_more_is_removed() {
    let disk = CrashDisk::default();
    let (catalog, store) = opened(&disk);
    Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
    store.retain_history(HOUR).unwrap();
    let first = change(&catalog, &store, 0, vec![2]);
    store.checkpoint().unwrap();
    let second = change(&catalog, &store, 0, vec![3]);
    store.checkpoint().unwrap();
    drop((catalog, store));
    let (catalog, store) = opened(&disk);
    assert_eq!((values_at(&catalog, first), values_at(&catalog, second)), (Ok(vec![1, 2]), Ok(vec![1, 2, 3])));
    let images = || disk.files().keys().filter(|path| path.display().to_string().contains("/db/image-")).count();
    assert_eq!(images(), 2);
    // Of 10 ms nothing is left but what there is now.
    store.retain_history(10_000).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!((values_at(&catalog, first), values_at(&catalog, second)), (Err("72000"), Err("72000")));
    std::thread::scope(|scope| {
        scope.spawn(|| store.make_checkpoints());
        let begun = std::time::Instant::now();
        while images() > 1 && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        store.stop();
    });
    assert_eq!(images(), 1);
    assert_eq!(content(&catalog)["t"].0.len(), 3);
    drop((catalog, store));
    let (catalog, _store) = opened(&disk);
    assert_eq!(content(&catalog)["t"].0.len(), 3);
}

#[test]
fn where_an_image_of_the_past_is_damaged_an_earlier_one_is_read() {
    let disk = CrashDisk::default();
    let (catalog, store) = opened(&disk);
    Operation::Create { table: "t".into(), values: vec![1] }.run(&catalog, &store).unwrap();
    store.retain_history(HOUR).unwrap();
    store.checkpoint().unwrap();
    let moment = change(&catalog, &store, 0, vec![2]);
    store.checkpoint().unwrap();
    let later = change(&catalog, &store, 0, vec![3]);
    drop((catalog, store));
    let mut files = disk.files();
    let image = files.get_mut(Path::new("/db/image-000002")).unwrap();
    image.truncate(image.len() / 2);
    let (catalog, store) = opened(&CrashDisk::holding(files));
    assert_eq!(values_at(&catalog, later), Ok(vec![1, 2, 3]));
    // The beginning of the database leads there as well.
    assert_eq!(values_at(&catalog, moment), Ok(vec![1, 2]));
    // It is no part of the past any more when its segments are looked for.
    store.checkpoint().unwrap();
    assert_eq!(values_at(&catalog, micros_now()), Ok(vec![1, 2, 3]));
    assert!(catalog.history().oldest.is_some_and(|oldest| oldest > moment));
}
